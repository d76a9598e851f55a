# SPDX-License-Identifier: Apache-2.0
"""Plain integers: every kind and type gives the reference's bytes in C, also where C itself would stumble."""

from __future__ import annotations

import numpy as np
import pytest

from tests.ops.harness import check_kernels
from tests.ops.one_node import one_node, tensor
from tinyc.base.errors import TinycError
from tinyc.base.numerics import Numerics
from tinyc.ir.graph import INT_RANGE, NUMPY_DTYPE, Array, DType, Graph, Shape, Value
from tinyc.ops.compare import KINDS as COMPARED
from tinyc.ops.compare import Compare
from tinyc.ops.convert import Convert
from tinyc.ops.integer_binary import KINDS, IntegerBinary
from tinyc.reference.interpreter import run_int

SIGNED, UNSIGNED = ("s8", "s16", "s32"), ("u8", "u16", "u32", "bool")


def plain(name: str, shape: Shape, dtype: DType) -> Value:
    return tensor(name, shape, float(dtype in ("s8", "u8", "s16")), 0, dtype)


def drawn(rng: np.random.Generator, shape: Shape, dtype: DType) -> Array:
    """Numbers over the whole range, its ends, and those near 0."""
    lo, hi = INT_RANGE[dtype]
    near = [n for n in (lo, lo + 1, -2, -1, 0, 1, 2, 3, hi - 1, hi) if lo <= n <= hi]
    wild = rng.integers(lo, hi, shape, np.int64, endpoint=True)
    return np.where(rng.random(shape) < 0.6, rng.choice(near, shape), wild).astype(NUMPY_DTYPE[dtype])


def together(graphs: list[Graph]) -> None:
    """Every graph on the same kind of samples."""
    rng = np.random.default_rng(1)
    for graph in graphs:
        values = [graph.values[name] for name in graph.inputs]
        samples = [{v.name: drawn(rng, v.shape, v.dtype) for v in values} for _ in range(6)]
        assert len(check_kernels(graph, samples)) == 1


@pytest.mark.parametrize(
    ("kind", "dtype"),
    [
        pytest.param(kind, dtype, marks=[] if (kind, dtype) in {("div", "s32"), ("mod", "s8")} else [pytest.mark.slow])
        for kind in KINDS
        for dtype in (*SIGNED, *UNSIGNED)
        if not (kind.startswith("shift") and dtype == "bool")
    ],
)
def test_binary(kind: str, dtype: DType) -> None:
    a, b = plain("a", (2, 1, 5, 7), dtype), plain("b", (3, 1, 7), dtype)
    scale = float(dtype in ("s8", "u8", "s16"))
    together([one_node("integer_binary", IntegerBinary(kind, dtype), [a, b], scale)])


@pytest.mark.parametrize("kind", [k if k == "less" else pytest.param(k, marks=pytest.mark.slow) for k in COMPARED])
def test_compare(kind: str) -> None:
    for dtype in ("s32", "bool"):
        together([one_node("compare", Compare(kind), [plain("a", (4, 9), dtype), plain("b", (9,), dtype)])])


def test_division_as_onnx_has_it() -> None:
    a, b = np.array([7, -7, 7, -7, 5], np.int32), np.array([2, 2, -2, -2, 0], np.int32)
    results = {"div": [3, -3, -3, 3, 0], "mod": [1, 1, -1, -1, 0], "rest": [1, -1, 1, -1, 0]}
    for kind, numbers in results.items():
        np.testing.assert_array_equal(KINDS[kind].numpy(a.astype(np.int64), b.astype(np.int64)), numbers)


def test_reals_to_integers() -> None:
    x = np.array([[0.0, -0.9, 0.9, 2.5, -2.5, 3e9, -3e9, np.nan, np.inf, 2147483520.0]], np.float32)
    graph = one_node("convert", Convert("s32"), [plain("x", x.shape, "f32")])
    assert check_kernels(graph, [{"x": x}]) == ["tc_convert"]
    back = one_node("convert", Convert("f32"), [plain("x", (1, 10), "s32")])
    assert check_kernels(back, [{"x": np.arange(-5, 5, dtype=np.int32)[None] * 400000001}]) == ["tc_convert"]


@pytest.mark.parametrize(("dtype", "scale", "zero"), [("s8", 0.5, -100), ("s16", 0.01, 0), ("s8", 7e4, 3)])
def test_integers_as_reals_of_a_scale(dtype: DType, scale: float, zero: int) -> None:
    """The nearest, saturated, over all of int32."""
    x = np.array([[0, 1, -1, 57, 114, -200, 327, 328, 10**6, 2**31 - 1, -(2**31)]], np.int32)
    graph = one_node("convert", Convert(dtype), [plain("x", x.shape, "s32")], scale, zero)
    assert check_kernels(graph, [{"x": x}]) == ["tc_convert"]
    (y,) = run_int(graph, {"x": x}, Numerics.OURS).values()
    lo, hi = INT_RANGE[dtype]
    exact = x / graph.values["y"].quant.per_tensor[0] + zero
    assert (np.abs(y - np.clip(exact, lo, hi)) <= 0.5 + 1e-6).all()
    truth = one_node("convert", Convert(dtype), [plain("x", (2,), "bool")], scale, zero)
    assert check_kernels(truth, [{"x": np.array([True, False])}]) == ["tc_convert"]


def test_a_scale_too_small_for_integers_is_an_error() -> None:
    graph = one_node("convert", Convert("s16"), [plain("x", (3,), "s32")], 1e-9)
    with pytest.raises(TinycError, match="integers as reals of a scale of 1e-09"):
        run_int(graph, {"x": np.zeros(3, np.int32)}, Numerics.OURS)
