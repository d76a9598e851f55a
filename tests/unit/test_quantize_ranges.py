# SPDX-License-Identifier: Apache-2.0
"""Ranges, affine parameters, groups and weight scales."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest

from tinyc.base.numerics import Numerics
from tinyc.ir.check import check
from tinyc.ir.graph import INT_RANGE, Array, Graph, Node, Quant, Value, read_only
from tinyc.kernel.site import RELU, Pair
from tinyc.ops import all_ops
from tinyc.ops.add import Add
from tinyc.ops.concat import Concat
from tinyc.ops.max_pool2d import MaxPool2D
from tinyc.ops.mul import Mul
from tinyc.ops.reshape import Reshape
from tinyc.ops.sigmoid import Sigmoid
from tinyc.ops.tanh import Tanh
from tinyc.options.recipe import Recipe
from tinyc.quantize import Calibration, quantize_model
from tinyc.quantize.assign import symmetric_weights
from tinyc.quantize.convert import quantized
from tinyc.quantize.observe import BINS, Stats, observe
from tinyc.quantize.ranges import METHODS, affine, merged, minmax, mse, percentile
from tinyc.reference.interpreter import prepare_int, run_float

PLAIN = Recipe("minmax", equalize=False, correct_biases=False, rounding="nearest")


def stats_of(array: Array) -> Stats:
    """What `observe` says of one value that has these elements."""
    value = Value("x", array.shape[1:], "f32")
    graph = Graph("g", ("x",), ("x",), (), {"x": value})
    return observe(graph, Calibration({"x": array.astype(np.float32)}, "test", proven=True))["x"]


def test_stats_count_and_bound_all_elements() -> None:
    array = np.array([[0.0, 1.0, -3.0], [2.0, 0.0, 1.0]])
    stats = stats_of(array)
    assert (stats.lo, stats.hi) == (-3.0, 2.0)
    assert stats.counts.sum() == 4  # zeros are not counted
    assert stats.counts[0] == stats.counts[-1] == 1
    np.testing.assert_array_equal(stats.largest, [2, 1, 3])
    np.testing.assert_array_equal(stats.power, [2, 0.5, 5])
    np.testing.assert_array_equal(stats.mean, [1, 0.5, -1])
    assert len(stats.centres) == BINS
    assert stats.centres[0] == pytest.approx(-3, abs=0.01)


def test_merged_stats_cover_both() -> None:
    a, b = stats_of(np.full((1, 5), 2.0)), stats_of(np.linspace(-1, 1, 9)[None])
    both = merged([a, b])
    assert (both.lo, both.hi) == (-1, 2)
    assert both.counts.sum() == b.counts.sum()  # a is one value: there is nothing to weigh
    assert merged([a]) is a


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("array", [np.zeros((2, 3)), np.full((2, 3), 5.0), np.full((2, 3), -5.0), np.array([[1e-30]])])
def test_degenerate_values(method: str, array: Array) -> None:
    """A constant is represented exactly, or nearly so where it is tiny."""
    lo, hi = METHODS[method](stats_of(array), "s8")
    quant = affine(lo, hi)
    assert quant.scale[0] > 0
    back = quant.dequantize(quantized(array, quant, "s8"))
    np.testing.assert_allclose(back, array, rtol=1e-6, atol=1e-7)


@pytest.mark.parametrize(
    ("lo", "hi"), [(-1.0, 1.0), (0.0, 6.0), (-6.0, 0.0), (2.0, 5.0), (-7.0, -3.0), (-0.001, 1000.0), (-1e30, 1e30)]
)
@pytest.mark.parametrize("dtype", ["s8", "s16", "s4"])
def test_affine_contains_the_range_and_zero(lo: float, hi: float, dtype: Any) -> None:
    quant = affine(lo, hi, dtype)
    (scale,), (zero,) = quant.scale, quant.zero
    qmin, qmax = INT_RANGE[dtype]
    assert qmin <= zero <= qmax
    assert float(np.float32(scale)) == scale
    assert (qmin - zero) * scale <= min(lo, 0.0) + 0.51 * scale
    assert (qmax - zero) * scale >= max(hi, 0.0) - 0.51 * scale


def test_mse_clips_outliers_only_where_that_pays() -> None:
    rng = np.random.default_rng(1)
    bulk = rng.uniform(-1, 1, (1, 10_000))
    assert mse(stats_of(bulk), "s8") == pytest.approx(minmax(stats_of(bulk), "s8"), rel=0.05)
    outlier = np.append(bulk, 50.0)[None]
    lo, hi = mse(stats_of(outlier), "s8")
    assert -1.1 < lo < -0.9
    assert 0.9 < hi < 50.0
    wide = affine(*minmax(stats_of(outlier), "s8"))
    narrow = affine(lo, hi)

    def error(quant: Quant) -> float:
        return float(np.square(quant.dequantize(quantized(outlier, quant, "s8")) - outlier).sum())

    assert error(narrow) < error(wide)
    assert mse(stats_of(outlier), "s16")[1] == pytest.approx(50.0)  # with so many steps rounding costs less


@pytest.mark.parametrize("seed", range(3))
def test_percentile_leaves_out_a_ten_thousandth_at_each_end_and_no_more(seed: int) -> None:
    array = np.random.default_rng(seed).standard_cauchy((1, 30_000)).clip(-200, 300)
    stats = stats_of(array)
    lo, hi = percentile(stats, "s8")
    width = (stats.hi - stats.lo) / BINS
    held = array.astype(np.float32)
    assert (held > hi).mean() <= 1e-4 < (held > hi - 1.01 * width).mean()
    assert (held < lo).mean() <= 1e-4 < (held < lo + 1.01 * width).mean()


@pytest.mark.parametrize("axis", [0, 2])
def test_weights_are_symmetric_per_channel(axis: int) -> None:
    w = np.random.default_rng(1).standard_normal((5, 7, 5)).astype(np.float32)
    quant = symmetric_weights(w, axis, None, 1.0)
    assert quant.axis == axis
    assert quant.zero == (0,) * 5
    integers = np.moveaxis(quantized(w, quant, "s8"), axis, 0).reshape(5, -1)
    np.testing.assert_array_equal(np.abs(integers.astype(int)).max(axis=1), 127)
    assert np.abs(quant.dequantize(quantized(w, quant, "s8")) - w).max() <= 0.501 * max(quant.scale)


def test_dead_channels_and_large_biases_keep_scales_in_bounds() -> None:
    w = np.array([[0, 0], [1e-20, 0], [1, -1]], np.float32)
    bias = np.array([5, -5, 5], np.float32)
    quant = symmetric_weights(w, 0, bias, 0.1)
    assert (np.abs(bias) / (0.1 * np.array(quant.scale)) <= 2**29 * 1.001).all()
    assert quant.scale[2] == pytest.approx(1 / 127)
    denormal = symmetric_weights(np.array([[1e-45], [1]], np.float32), 0, None, 0.1)
    assert denormal.scale[0] > 0
    nothing = symmetric_weights(np.zeros((2, 3), np.float32), 0, np.zeros(2, np.float32), 0.1)
    assert min(nothing.scale) > 0


class Net:
    """A float graph built node by node; every value has the shape [1,4,3,2] unless said otherwise."""

    def __init__(self) -> None:
        self.values = {"x": Value("x", (1, 4, 3, 2), "f32")}
        self.consts: dict[str, Array] = {}
        self.nodes: list[Node] = []

    def const(self, name: str, array: Any) -> str:
        self.consts[name] = read_only(np.asarray(array, np.float32))
        self.values[name] = Value(name, self.consts[name].shape, "f32")
        return name

    def add(self, op: str, inputs: Sequence[str], attrs: Any, name: str) -> str:
        (type_,) = all_ops()[op].infer(attrs, *(self.values[n] for n in inputs))
        self.values[name] = Value(name, type_.shape, type_.dtype)
        self.nodes.append(Node(name, op, tuple(inputs), (name,), attrs))
        return name

    def graph(self, *outputs: str) -> Graph:
        return Graph("net", ("x",), outputs, tuple(self.nodes), self.values, self.consts)

    def quantize(self, *outputs: str, spread: float = 1.0) -> tuple[Graph, Graph, Array]:
        graph = self.graph(*outputs)
        x = (spread * np.random.default_rng(1).standard_normal((20, 1, 4, 3, 2))).astype(np.float32)
        return graph, quantize_model(graph, Calibration({"x": x}, "test", proven=True), PLAIN), x

    def assert_near(self, *outputs: str, spread: float = 1.0) -> Graph:
        """The integer graph, after asserting that every output is within two steps of the float one."""
        graph, integer, x = self.quantize(*outputs, spread=spread)
        check(integer, "quantize", all_ops())
        quant = integer.values["x"].quant
        assert quant is not None
        program = prepare_int(integer, Numerics.OURS)
        for sample in x:
            expected = run_float(graph, {"x": sample})
            integers = program({"x": quantized(sample, quant, "s8")})
            for name in outputs:
                scale = integer.values[name].quant
                assert scale is not None
                assert np.abs(scale.dequantize(integers[name]) - expected[name]).max() <= 2.01 * scale.scale[0]
        return integer


def quants(graph: Graph, *names: str) -> list[Quant | None]:
    return [graph.values[name].quant for name in names]


def test_moved_values_share_a_quantization() -> None:
    net = Net()
    net.add("max_pool2d", ["x"], MaxPool2D(Pair(2, 2)), "p")
    net.add("reshape", ["p"], Reshape((1, 12)), "r")
    integer = net.assert_near("r")
    x, p, r = quants(integer, "x", "p", "r")
    assert x == p == r


def test_concat_joins_its_inputs() -> None:
    net = Net()
    net.add("add", ["x", net.const("three", 3.0)], Add(), "a")
    net.add("concat", ["x", "a", net.const("k", np.full((1, 4, 3, 1), -9.0))], Concat(3), "c")
    integer = net.assert_near("c")
    x, a, k, c = quants(integer, "x", "a", "k", "c")
    assert x == a == k == c
    assert c is not None
    assert c.dequantize(np.array([-128], np.int8))[0] <= -8.9  # the constant is within the range


def test_concat_with_a_fixed_value_gets_a_requantize() -> None:
    net = Net()
    net.add("sigmoid", ["x"], Sigmoid(), "s")
    net.add("reshape", ["s"], Reshape((1, 4, 3, 2)), "v")
    net.add("concat", ["x", "v"], Concat(3), "c")
    integer = net.assert_near("c", "s")
    assert [node.op for node in integer.nodes] == ["sigmoid", "reshape", "requantize", "concat"]
    assert integer.values["s"].quant == integer.values["v"].quant == Quant((1 / 256,), (-128,))


def test_concat_of_equally_fixed_values_stays_fixed() -> None:
    net = Net()
    net.add("sigmoid", ["x"], Sigmoid(), "s")
    net.add("add", ["x", net.const("one", 1.0)], Add(), "a")
    net.add("sigmoid", ["a"], Sigmoid(), "t")
    net.add("concat", ["s", "t"], Concat(3), "c")
    integer = net.assert_near("c")
    assert integer.values["c"].quant == Quant((1 / 255,), (-128,))  # an output, which nothing computes with
    assert "requantize" not in [node.op for node in integer.nodes]


def test_concat_of_differently_fixed_values() -> None:
    net = Net()
    net.add("sigmoid", ["x"], Sigmoid(), "s")
    net.add("tanh", ["x"], Tanh(), "t")
    net.add("concat", ["s", "t"], Concat(3), "c")
    integer = net.assert_near("c")
    assert [node.op for node in integer.nodes].count("requantize") == 2


def test_constant_operands() -> None:
    """One constant read by two operators, a negative number, and a tensor."""
    net = Net()
    k = net.const("k", np.array([-0.75], np.float32))
    net.add("mul", ["x", k], Mul(), "m")
    net.add("add", ["m", k], Add(RELU), "a")
    net.add("add", ["a", net.const("t", np.linspace(-1, 2, 6).reshape(3, 2))], Add(), "y")
    integer = net.assert_near("y")
    assert integer.values["k"].dtype == "s8"


def test_an_input_is_never_clipped() -> None:
    sample = np.random.default_rng(1).standard_normal((2000, 1, 4, 3, 2)).astype(np.float32)
    sample[0, 0, 0, 0, 0] = 60.0
    net = Net()
    net.add("max_pool2d", ["x"], MaxPool2D(Pair(1, 1)), "p")
    net.add("add", ["p", net.const("zero", 0.0)], Add(), "a")
    integer = quantize_model(
        net.graph("a"),
        Calibration({"x": sample}, "t", proven=True),
        Recipe("mse", equalize=False, correct_biases=False),
    )
    x_quant, a_quant = quants(integer, "x", "a")
    assert x_quant is not None
    assert a_quant is not None
    assert 127 - x_quant.zero[0] >= 59.5 / x_quant.scale[0]
    assert 127 - a_quant.zero[0] < 58 / a_quant.scale[0]
