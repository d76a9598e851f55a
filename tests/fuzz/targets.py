# SPDX-License-Identifier: Apache-2.0
"""All targets, by name."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from importlib import import_module
from types import MappingProxyType
from typing import Any

from tests.fuzz.case import Target


def _of(module: str, function: str) -> Callable[..., Any]:
    """The function of a module that is imported when it is called: a worker tries one target, of which most need
    little of what all of them import."""

    def call(*arguments: object) -> Any:
        return getattr(import_module(f"tests.fuzz.{module}"), function)(*arguments)

    return call


_ALL = (
    Target(
        "networks",
        "random networks at random options: reference, host with sanitizers, M4, M0+, M55 and RV32 give the same bytes",
        _of("builds", "count"),
        _of("builds", "check"),
        _of("builds", "describe"),
        share=4.0,
        cpu_seconds=300,
        memory_bytes=None,
    ),
    Target(
        "plans",
        "random networks on an emulator that watches the arena: no step reads a byte that is dead or was never written",
        _of("builds", "count"),
        _of("shadow", "check"),
        _of("builds", "describe"),
        share=2.0,
        cpu_seconds=300,
        memory_bytes=None,
    ),
    Target(
        "windows",
        "incremental libraries of random networks: every output of a stream is that of the whole model on its window",
        _of("windows", "count"),
        _of("windows", "check"),
        _of("windows", "describe"),
        share=1.0,
        cpu_seconds=120,
        memory_bytes=None,
    ),
    Target(
        "tflite",
        "random TFLite networks: the reference gives TensorFlow Lite Micro's bytes, some run on a core too",
        _of("tflite_networks", "count"),
        _of("tflite_networks", "check"),
        _of("tflite_networks", "describe"),
        share=1.0,
        cpu_seconds=120,
        memory_bytes=None,
    ),
    Target(
        "odd-tflite",
        "random TFLite networks with zero scales, open batches, constant outputs, two entries: the judge's bytes",
        _of("oddities", "tflite_count"),
        _of("oddities", "check_tflite"),
        _of("oddities", "describe_tflite"),
        share=0.3,
        cpu_seconds=60,
    ),
    Target(
        "odd-onnx",
        "random ONNX networks with states and gates as inputs, joined constants, constant outputs: never refused",
        _of("oddities", "onnx_count"),
        _of("oddities", "check_onnx"),
        _of("oddities", "describe_onnx"),
        share=0.7,
        cpu_seconds=300,
        memory_bytes=None,
    ),
    Target(
        "onnx-grammar",
        "ONNX operators with random inputs and attributes: refused, or equal to ONNX Runtime, and some compiled",
        _of("onnx_grammar", "count"),
        _of("onnx_grammar", "check"),
        _of("onnx_grammar", "describe"),
        share=1.5,
        memory_bytes=1 << 30,
    ),
    Target(
        "onnx-files",
        "damaged ONNX files: a library or a TinycError, in bounded memory and time",
        _of("files", "damages"),
        _of("files", "check_onnx"),
    ),
    Target(
        "tflite-files",
        "damaged TFLite files: a library or a TinycError, in bounded memory and time",
        _of("files", "damages"),
        _of("files", "check_tflite"),
    ),
    Target(
        "arrays",
        "arrays of inputs, odd or damaged: taken or a TinycError",
        _of("texts", "edits"),
        _of("texts", "check_npz"),
    ),
    Target(
        "boards",
        "boards with odd values: a library or a TinycError",
        _of("texts", "edits"),
        _of("texts", "check_board"),
    ),
    Target(
        "reports",
        "reports that tinyc reads: taken or a TinycError",
        _of("texts", "edits"),
        _of("texts", "check_json"),
        share=0.1,
    ),
    Target(
        "frames",
        "what a board may send: a result or a TinycError",
        _of("texts", "edits"),
        _of("texts", "check_frames"),
        share=0.2,
    ),
    Target(
        "commands",
        "command lines: exit code 0, 1 or 2",
        _of("texts", "edits"),
        _of("texts", "check_commands"),
        share=0.3,
        memory_bytes=None,  # unicorn reserves a gigabyte of addresses
    ),
    Target(
        "self",
        "cases that misbehave, to test the fuzzer",
        _of("misbehaving", "count"),
        _of("misbehaving", "check"),
        share=0,
        cpu_seconds=1,
    ),
)
TARGETS: Mapping[str, Target] = MappingProxyType({target.name: target for target in _ALL})
