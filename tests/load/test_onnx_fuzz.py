# SPDX-License-Identifier: Apache-2.0
"""Damaged ONNX models: whatever they hold, the loader returns a graph or raises TinycError, in little memory."""

from __future__ import annotations

import tracemalloc
import warnings
from pathlib import Path

import numpy as np
import onnx
import pytest

from tests.fuzz.damage import cut_or_flipped, mutate
from tests.fuzz.survival import compute_onnx
from tests.load.onnx_quantized import convolutional, quantize
from tests.unit.networks import random_network
from tinyc.base.errors import TinycError
from tinyc.ir.graph import Graph
from tinyc.load.onnx import load_onnx, unsupported_onnx

MEMORY_BYTES = 64 << 20
PUBLISHED = [
    "mlperf_tiny/kws_fp32",
    "mlperf_tiny/kws_qdq_int8",
    "mlperf_tiny/kws_qoperator_int8",
    "zoo/silero_vad_16k_fp32",
]


def survive(path: Path, content: bytes) -> bool:
    """Load, normalize and run what could be loaded; True if it could. TinycError is the only exception allowed."""
    path.write_bytes(content)
    tracemalloc.start()
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            loaded: Graph | None = load_onnx(path)
    except TinycError:
        loaded = None
    finally:
        peak = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
    assert peak < MEMORY_BYTES
    if loaded is None:
        return False
    assert unsupported_onnx(path) == []
    compute_onnx(loaded)
    return True


@pytest.fixture(scope="module")
def quantized_models(tmp_path_factory: pytest.TempPathFactory) -> list[onnx.ModelProto]:
    """QDQ with int4 weights, QOperator with uint8 activations."""
    quantization = pytest.importorskip("onnxruntime.quantization", reason="needs onnxruntime.quantization")
    styles, types = quantization.QuantFormat, quantization.QuantType
    folder = tmp_path_factory.mktemp("quantized")
    first = {"quant_format": styles.QDQ, "weight_type": types.QInt4, "per_channel": True}
    second = {"quant_format": styles.QOperator, "activation_type": types.QUInt8, "weight_type": types.QInt8}
    return [quantize(convolutional(), folder, **options) for options in (first, second)]


@pytest.mark.quick_cases(2)
@pytest.mark.parametrize("seed", range(6))
def test_damaged_quantized_models(tmp_path: Path, quantized_models: list[onnx.ModelProto], seed: int) -> None:
    rng = np.random.default_rng(seed)
    original = quantized_models[seed % 2]
    outcomes = [survive(tmp_path / "model.onnx", cut_or_flipped(original.SerializeToString(), rng)) for _ in range(10)]
    for _ in range(25):
        model = onnx.ModelProto()
        model.CopyFrom(original)
        for _ in range(rng.integers(1, 3)):
            mutate(model.graph, rng)
        outcomes.append(survive(tmp_path / "model.onnx", model.SerializeToString()))
    assert True in outcomes
    assert False in outcomes


@pytest.mark.quick_cases(5)
@pytest.mark.parametrize("seed", range(12))
def test_damaged_bytes(tmp_path: Path, seed: int) -> None:
    rng = np.random.default_rng(seed)
    content = random_network(seed).SerializeToString()
    outcomes = [survive(tmp_path / "model.onnx", cut_or_flipped(content, rng)) for _ in range(30)]
    assert not all(outcomes)


@pytest.mark.quick_cases(5)
@pytest.mark.parametrize("seed", range(12))
def test_damaged_fields(tmp_path: Path, seed: int) -> None:
    """Files that protobuf reads without complaint, but with nonsense in them."""
    rng = np.random.default_rng(seed)
    original = random_network(seed)
    outcomes = []
    for _ in range(40):
        model = onnx.ModelProto()
        model.CopyFrom(original)
        for _ in range(rng.integers(1, 4)):
            mutate(model, rng)
        outcomes.append(survive(tmp_path / "model.onnx", model.SerializeToString()))
    assert True in outcomes
    assert False in outcomes


@pytest.mark.quick_cases(1)
@pytest.mark.parametrize("name", PUBLISHED)
def test_damaged_published_models(tmp_path: Path, models_dir: Path, name: str) -> None:
    rng = np.random.default_rng(1)
    content = (models_dir / f"{name}.onnx").read_bytes()
    for _ in range(8):
        survive(tmp_path / "model.onnx", cut_or_flipped(content, rng))
        model = onnx.ModelProto.FromString(content)
        mutate(model, rng)
        survive(tmp_path / "model.onnx", model.SerializeToString())


def test_bytes_of_all_kinds(tmp_path: Path) -> None:
    rng = np.random.default_rng(7)
    for size in (1, 2, 3, 10, 100, 1000, 10_000):
        for _ in range(10):
            assert not survive(tmp_path / "model.onnx", rng.bytes(size))
