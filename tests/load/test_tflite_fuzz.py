# SPDX-License-Identifier: Apache-2.0
"""Damaged TFLite files: whatever the bytes, the loader returns a graph or raises TinycError, in little memory."""

from __future__ import annotations

import tracemalloc
from pathlib import Path

import pytest

from tests.fuzz.damage import damaged
from tests.fuzz.survival import compute_tflite
from tests.load.tflite_models import network_bytes
from tinyc.base.errors import TinycError
from tinyc.base.numerics import Numerics
from tinyc.ir.graph import Graph
from tinyc.load.tflite import load_tflite, unsupported_tflite

MEMORY_BYTES = 32 << 20
PUBLISHED = [
    "mlperf_tiny/ic_int8",
    "mlperf_tiny/kws_w4a8",
    "mlperf_tiny/sww_int8",
    "zoo/hello_world_int8",
    "zoo/mcunet_detection_int8",
    "zoo/micro_speech_int8",
    "zoo/mobilenet96_int8",
    "zoo/streaming_vad_int8",
    "zoo/seanet_int16/conv10",
    "zoo/seanet_int16/transpose_conv2",
    "zoo/synthetic_ops/elementwise_mix_int8",
    "zoo/synthetic_ops/gru_unrolled_int8",
    "zoo/synthetic_ops/tcn_conv1d_int8",
    "zoo/synthetic_ops/unet_hswish_tconv_int8",
]


def survive(path: Path, content: bytes, numerics: Numerics) -> bool:
    """Load, and run what could be loaded; True if it could. TinycError is the only exception allowed."""
    path.write_bytes(content)
    graph = outcome(path)
    if isinstance(graph, TinycError):
        assert path.name in str(graph)
        assert graph.hint
        return False
    assert unsupported_tflite(path) == []
    compute_tflite(graph, numerics)
    return True


def outcome(path: Path) -> Graph | TinycError:
    try:
        return load_tflite(path)
    except TinycError as e:
        return e


def fuzz(path: Path, content: bytes, count: int, seed: int) -> None:
    for i, copy in enumerate(damaged(content, count, seed)):
        survive(path, copy, (Numerics.TFLM, Numerics.LITERT)[i % 2])


def test_every_truncation(tmp_path: Path) -> None:
    content = network_bytes()
    path = tmp_path / "m.tflite"
    assert survive(path, content, Numerics.TFLM)
    for size in range(1, len(content), 3):
        survive(path, content[:size], Numerics.TFLM)


def test_flips_in_the_tables(tmp_path: Path) -> None:
    """The tables lie behind the buffers: the last bytes of the file describe the graph."""
    content = network_bytes()
    path = tmp_path / "m.tflite"
    for at in range(len(content) - 1500, len(content), 5):
        copy = bytearray(content)
        copy[at] ^= 0x81
        survive(path, bytes(copy), Numerics.TFLM)


def test_memory_stays_small(tmp_path: Path) -> None:
    path = tmp_path / "m.tflite"
    tracemalloc.start()
    try:
        for copy in damaged(network_bytes(), 100, seed=1):
            path.write_bytes(copy)
            outcome(path)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < MEMORY_BYTES


@pytest.mark.parametrize("seed", range(3))
def test_random_damage(tmp_path: Path, seed: int) -> None:
    fuzz(tmp_path / "m.tflite", network_bytes(), 400, seed)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(100, 120))
def test_much_random_damage(tmp_path: Path, seed: int) -> None:
    fuzz(tmp_path / "m.tflite", network_bytes(), 1000, seed)


@pytest.mark.quick_cases(5)
@pytest.mark.parametrize("model", PUBLISHED)
def test_damaged_published_models(models_dir: Path, tmp_path: Path, model: str) -> None:
    fuzz(tmp_path / "m.tflite", (models_dir / f"{model}.tflite").read_bytes(), 30, seed=2)


@pytest.mark.slow
@pytest.mark.parametrize("model", PUBLISHED)
def test_much_damaged_published_models(models_dir: Path, tmp_path: Path, model: str) -> None:
    fuzz(tmp_path / "m.tflite", (models_dir / f"{model}.tflite").read_bytes(), 600, seed=3)
