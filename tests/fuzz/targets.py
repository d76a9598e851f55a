# SPDX-License-Identifier: Apache-2.0
"""All targets, by name."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from tests.fuzz import builds, files, misbehaving, oddities, onnx_grammar, shadow, texts, tflite_networks, windows
from tests.fuzz.case import Target

_ALL = (
    Target(
        "networks",
        "random networks at random options: reference, host with sanitizers, M4, M0+, M55 and RV32 give the same bytes",
        builds.count,
        builds.check,
        builds.describe,
        share=4.0,
        cpu_seconds=300,
        memory_bytes=None,
    ),
    Target(
        "plans",
        "random networks on an emulator that watches the arena: no step reads a byte that is dead or was never written",
        builds.count,
        shadow.check,
        builds.describe,
        share=2.0,
        cpu_seconds=300,
        memory_bytes=None,
    ),
    Target(
        "windows",
        "incremental libraries of random networks: every output of a stream is that of the whole model on its window",
        windows.count,
        windows.check,
        windows.describe,
        share=1.0,
        cpu_seconds=120,
        memory_bytes=None,
    ),
    Target(
        "tflite",
        "random TFLite networks: the reference gives TensorFlow Lite Micro's bytes, some run on a core too",
        tflite_networks.count,
        tflite_networks.check,
        tflite_networks.describe,
        share=1.0,
        cpu_seconds=120,
        memory_bytes=None,
    ),
    Target(
        "odd-tflite",
        "random TFLite networks with zero scales, open batches, constant outputs, two entries: the judge's bytes",
        oddities.tflite_count,
        oddities.check_tflite,
        oddities.describe_tflite,
        share=0.3,
        cpu_seconds=60,
    ),
    Target(
        "odd-onnx",
        "random ONNX networks with states and gates as inputs, joined constants, constant outputs: never refused",
        oddities.onnx_count,
        oddities.check_onnx,
        oddities.describe_onnx,
        share=0.7,
        cpu_seconds=300,
        memory_bytes=None,
    ),
    Target(
        "onnx-grammar",
        "ONNX operators with random inputs and attributes: refused, or equal to ONNX Runtime, and some compiled",
        onnx_grammar.count,
        onnx_grammar.check,
        onnx_grammar.describe,
        share=1.5,
        memory_bytes=1 << 30,
    ),
    Target(
        "onnx-files",
        "damaged ONNX files: a library or a TinycError, in bounded memory and time",
        files.damages,
        files.check_onnx,
    ),
    Target(
        "tflite-files",
        "damaged TFLite files: a library or a TinycError, in bounded memory and time",
        files.damages,
        files.check_tflite,
    ),
    Target("arrays", "arrays of inputs, odd or damaged: taken or a TinycError", texts.edits, texts.check_npz),
    Target("boards", "boards with odd values: a library or a TinycError", texts.edits, texts.check_board),
    Target("reports", "reports that tinyc reads: taken or a TinycError", texts.edits, texts.check_json, share=0.1),
    Target("frames", "what a board may send: a result or a TinycError", texts.edits, texts.check_frames, share=0.2),
    Target(
        "commands",
        "command lines: exit code 0, 1 or 2",
        texts.edits,
        texts.check_commands,
        share=0.3,
        memory_bytes=None,  # unicorn reserves a gigabyte of addresses
    ),
    Target(
        "self", "cases that misbehave, to test the fuzzer", misbehaving.count, misbehaving.check, share=0, cpu_seconds=2
    ),
)
TARGETS: Mapping[str, Target] = MappingProxyType({target.name: target for target in _ALL})
