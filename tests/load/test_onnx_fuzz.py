"""Damaged ONNX models: whatever they hold, the loader returns a graph or raises TinycError, in little memory."""

from __future__ import annotations

import tracemalloc
import warnings
from pathlib import Path

import numpy as np
import onnx
import pytest
from google.protobuf.message import Message

from tests.load.onnx_models import rand
from tests.load.onnx_quantized import convolutional, quantize
from tests.unit.networks import random_network
from tinyc.errors import TinycError
from tinyc.ir.graph import INT_RANGE, NUMPY_DTYPE, Graph
from tinyc.load.onnx import load_onnx, unsupported_onnx
from tinyc.numerics import Numerics
from tinyc.passes import normalize
from tinyc.reference import run_float, run_int

MEMORY_BYTES = 64 << 20
RUNNABLE_ELEMENTS = 1 << 16
NUMBERS = [0, 1, -1, 2, 3, 7, 255, 1 << 15, 1 << 31, -(1 << 31), (1 << 63) - 1, -(1 << 63)]
WORDS = ["", "x", "t0", "c0", "Conv", "Relu", "Gather", "Loop", "no such thing", "é\n\x07", "a" * 3000]
PUBLISHED = [
    "mlperf_tiny/kws_fp32",
    "mlperf_tiny/kws_qdq_int8",
    "mlperf_tiny/kws_qoperator_int8",
    "zoo/silero_vad_16k_fp32",
]


def cut_or_flipped(content: bytes, rng: np.random.Generator) -> bytes:
    """Some bytes changed, a stretch of noise, or the end missing."""
    copy = bytearray(content)
    kind = rng.integers(3)
    if kind == 0:
        del copy[rng.integers(len(copy)) :]
    elif kind == 1:
        for at in rng.integers(len(copy), size=rng.integers(1, 6)):
            copy[at] ^= 1 << int(rng.integers(8))
    else:
        at = rng.integers(len(copy))
        copy[at : at + 16] = rng.bytes(16)
    return bytes(copy)


def mutate(message: Message, rng: np.random.Generator) -> None:
    """Change one randomly chosen field, somewhere in the message, to something that still has its type."""
    fields = message.ListFields()
    if not fields:
        return
    field, value = fields[rng.integers(len(fields))]
    try:
        repeated = field.is_repeated
    except AttributeError:  # protobuf before 6
        repeated = field.label == field.LABEL_REPEATED
    if repeated:
        _mutate_list(value, field, rng)
    elif field.message_type is not None:
        mutate(value, rng)
    elif rng.random() < 0.2:
        message.ClearField(field.name)
    else:
        _try_set(lambda new: setattr(message, field.name, new), value, rng)


def _mutate_list(items: object, field: object, rng: np.random.Generator) -> None:
    count = len(items)  # type: ignore[arg-type]
    at = int(rng.integers(count))
    if field.message_type is not None and rng.random() < 0.75:  # type: ignore[attr-defined]
        mutate(items[at], rng)  # type: ignore[index]
    elif rng.random() < 0.4:
        del items[at]  # type: ignore[attr-defined]
    elif rng.random() < 0.4:
        items.append(items[int(rng.integers(count))])  # type: ignore[attr-defined]
    elif field.message_type is None:  # type: ignore[attr-defined]
        _try_set(lambda new: items.__setitem__(at, new), items[at], rng)  # type: ignore[attr-defined, index]


def _try_set(put: object, old: object, rng: np.random.Generator) -> None:
    if isinstance(old, str):
        new: object = WORDS[rng.integers(len(WORDS))]
    elif isinstance(old, bytes):
        new = rng.bytes(int(rng.integers(40)))
    elif isinstance(old, float):
        new = float(rng.choice([0.0, -1.0, np.nan, np.inf, -np.inf, 1e30, 1e-40]))
    else:
        new = NUMBERS[rng.integers(len(NUMBERS))]
    try:
        put(new)  # type: ignore[operator]
    except ValueError:  # out of the field's range
        return


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
    normal = normalize(loaded)
    if any(value.quant for value in loaded.values.values()):
        run_integers(loaded, normal)
    elif max(value.elements for value in loaded.values.values()) <= RUNNABLE_ELEMENTS:
        feeds = {name: rand(1, *loaded.values[name].shape) for name in loaded.inputs}
        with np.errstate(all="ignore"):
            before, after = run_float(loaded, feeds), run_float(normal, feeds)
        assert {n: a.shape for n, a in before.items()} == {n: a.shape for n, a in after.items()}
    return True


def run_integers(loaded: Graph, normal: Graph) -> None:
    """Both graphs give the same integers, or say by TinycError what keeps them from being computed."""
    if max(value.elements for value in loaded.values.values()) > RUNNABLE_ELEMENTS:
        return
    rng = np.random.default_rng(3)
    feeds = {}
    for name in loaded.inputs:
        value = loaded.values[name]
        lo, hi = INT_RANGE.get(value.dtype, (-100, 100))
        feeds[name] = rng.integers(lo, hi + 1, value.shape).astype(NUMPY_DTYPE[value.dtype])
    try:
        before = run_int(loaded, feeds, Numerics.ONNX)
    except TinycError:
        return
    after = run_int(normal, feeds, Numerics.ONNX)
    for name, array in before.items():
        np.testing.assert_array_equal(after[name], array)


@pytest.fixture(scope="module")
def quantized_models(tmp_path_factory: pytest.TempPathFactory) -> list[onnx.ModelProto]:
    """QDQ with int4 weights, QOperator with uint8 activations."""
    quantization = pytest.importorskip("onnxruntime.quantization", reason="needs onnxruntime.quantization")
    styles, types = quantization.QuantFormat, quantization.QuantType
    folder = tmp_path_factory.mktemp("quantized")
    first = {"quant_format": styles.QDQ, "weight_type": types.QInt4, "per_channel": True}
    second = {"quant_format": styles.QOperator, "activation_type": types.QUInt8, "weight_type": types.QInt8}
    return [quantize(convolutional(), folder, **options) for options in (first, second)]


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


@pytest.mark.parametrize("seed", range(12))
def test_damaged_bytes(tmp_path: Path, seed: int) -> None:
    rng = np.random.default_rng(seed)
    content = random_network(seed).SerializeToString()
    outcomes = [survive(tmp_path / "model.onnx", cut_or_flipped(content, rng)) for _ in range(30)]
    assert not all(outcomes)


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
