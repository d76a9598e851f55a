# SPDX-License-Identifier: Apache-2.0
"""mean: the reference against a slow formula, TensorFlow Lite and ONNX Runtime, the kernel against it."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pytest

from tests.ops.harness import check_kernels
from tests.ops.one_node import (
    assert_equals_litert,
    assert_equals_tflm,
    one_node,
    random_s8,
    tensor,
)
from tests.ops.onnx_float import run_onnx
from tests.ops.runtimes import litert_sequence
from tests.ops.slow import half_away, half_up
from tests.ops.tflite_builder import Operator, Tensor, build_model
from tinyc.base.errors import TinycError
from tinyc.base.numerics import Numerics
from tinyc.ir.graph import Graph, Value
from tinyc.ops import mean
from tinyc.ops.mean import Mean
from tinyc.reference.interpreter import run_int

# x shape, axes, keep_dims, x scale and zero, y scale and zero
MEANS = {
    "global": ((1, 7, 5, 9), (1, 2), True, 0.1, 7, 0.03, -3),
    "global, dropped": ((1, 3, 3, 8), (1, 2), False, 0.1, -128, 0.1, -128),
    "ties": ((1, 2, 2, 64), (1, 2), True, 0.1, 7, 0.1, 7),
    "columns": ((1, 5, 8, 3), (2,), False, 0.1, 0, 0.05, 127),
    "rows": ((1, 9, 5, 3), (-3,), True, 0.1, 5, 0.013, -6),
    "channels": ((1, 5, 7, 5), (-1,), True, 0.1, 127, 0.04, 0),
    "everything": ((1, 3, 5, 2), (0, 1, 2, 3), False, 0.1, 7, 0.01, -3),
    "across axes of size 1": ((3, 1, 5, 1), (0, 2), False, 0.1, 7, 0.02, -3),
    "nothing": ((1, 3, 1, 5), (2,), True, 0.1, 7, 0.02, -3),
    "larger scale": ((1, 64, 64, 3), (1, 2), True, 0.001, 7, 30.0, -3),
}


def graph_of(name: str) -> Graph:
    shape, axes, keep_dims, x_scale, x_zero, y_scale, y_zero = MEANS[name]
    return one_node("mean", Mean(axes, keep_dims), [tensor("x", shape, x_scale, x_zero)], y_scale, y_zero)


def slow_mean(graph: Graph, total: int, n: int, numerics: Numerics) -> int:
    """The output for `n` values that sum up to `total`."""
    (x_scale, x_zero), (y_scale, y_zero) = (graph.values[name].quant.per_tensor for name in "xy")
    acc = total - n * x_zero
    if numerics.scales_in_float:
        scales = np.float32(x_scale) / np.float32(y_scale)
        if numerics is Numerics.ONNX:
            product = np.float32(acc) * (scales / np.float32(n))
            return max(-128, min(127, round(Fraction(float(product))) + y_zero))
        factor = scales * (np.float32(1) / np.float32(n))  # XNNPACK: both zeros are in what is added
        y = np.float32(total) * factor + (np.float32(y_zero) - np.float32(n * x_zero) * factor)
        return max(-128, min(127, round(Fraction(float(y)))))
    mantissa, exponent = math.frexp(x_scale / y_scale)
    spare = min(n.bit_length() - 1, 31 + exponent)
    factor = Fraction(half_up(Fraction(mantissa) * 2**31) * 2**spare // n, 2**31)
    exponent -= spare
    if numerics is Numerics.OURS:
        y = half_up(acc * factor * Fraction(2) ** exponent)
    else:
        y = half_away(Fraction(half_up(acc * factor * 2 ** max(exponent, 0)), 2 ** max(-exponent, 0)))
    return max(-128, min(127, y + y_zero))


@pytest.mark.parametrize("name", MEANS)
@pytest.mark.parametrize("numerics", Numerics)
def test_reference_is_the_formula(name, numerics):
    graph, (shape, axes, *_) = graph_of(name), MEANS[name]
    x = random_s8(0, shape)
    n = math.prod(shape[axis] for axis in axes)
    totals = x.astype(int).sum(axis=axes).ravel().tolist()
    ours = run_int(graph, {"x": x}, numerics)["y"]
    assert ours.ravel().tolist() == [slow_mean(graph, total, n, numerics) for total in totals]


def tflite_mean(graph: Graph, axes: tuple[int, ...], keep_dims: bool) -> bytes:
    tensors = [
        Tensor(v.name, v.shape, "s8", v.quant.scale, v.quant.zero) for v in (graph.values["x"], graph.values["y"])
    ]
    tensors.append(Tensor("axes", (len(axes),), "s32", data=np.array(axes, np.int32)))
    operator = Operator("MEAN", ("x", "axes"), ("y",), "ReducerOptions", {"KeepDims": keep_dims}, version=2)
    return build_model(tensors, [operator], ["x"], ["y"])


@pytest.mark.parametrize("theirs", [assert_equals_tflm, assert_equals_litert])
@pytest.mark.parametrize("name", ["global", "global, dropped", "ties", "columns", "rows", "channels"])
def test_reference_is_tflites(name, theirs):
    shape, axes, keep_dims, *_ = MEANS[name]
    graph = graph_of(name)
    model = tflite_mean(graph, axes, keep_dims)
    for seed in range(5):
        theirs(graph, model, {"x": random_s8(seed, shape)})


@pytest.mark.parametrize("seed", range(12))
def test_halves_are_desktop_litert_s(seed):
    """Scales in small ratios, so that many means lie within float32's error of a half."""
    rng = np.random.default_rng(seed)
    shape = (1, *(int(size) for size in rng.integers(1, 12, rng.integers(1, 4))))
    axes = tuple(int(axis) for axis in rng.permutation(np.arange(1, len(shape)))[: rng.integers(1, len(shape))])
    x_scale = float(np.float32(rng.uniform(0.001, 1)))
    y_scale = float(np.float32(x_scale * rng.choice([1 / 7, 0.25, 1 / 3, 0.4, 0.5, 0.6, 2 / 3, 0.75, 1, 1.5])))
    x_zero, y_zero = (int(zero) for zero in rng.integers(-128, 128, 2))
    x = tensor("x", shape, x_scale, x_zero)
    graph = one_node("mean", Mean(axes, True), [x], y_scale, y_zero)
    model = tflite_mean(graph, axes, keep_dims=True)
    samples = [np.clip(np.rint(rng.normal(x_zero, 30, shape)), -128, 127).astype(np.int8) for _ in range(200)]
    theirs = litert_sequence(model, [(sample,) for sample in samples])
    for sample, (y,) in zip(samples, theirs, strict=True):
        assert np.array_equal(run_int(graph, {"x": sample}, Numerics.LITERT)["y"], y)


@pytest.mark.quick_cases(5)
@pytest.mark.parametrize("name", MEANS)
def test_kernels(name):
    shape = MEANS[name][0]
    inputs = [random_s8(0, shape), np.full(shape, -128, np.int8), np.full(shape, 127, np.int8)]
    for numerics in (Numerics.LITERT, Numerics.TFLM):
        assert check_kernels(graph_of(name), [{"x": x} for x in inputs], numerics)[-1] == "tc_mean_s8"


@pytest.mark.parametrize("name", MEANS)
def test_float_is_onnxruntimes(name):
    shape, axes, keep_dims, *_ = MEANS[name]
    x = np.random.default_rng(0).normal(size=shape).astype(np.float32)
    theirs = run_onnx("ReduceMean", [x, np.array(axes)], keepdims=int(keep_dims))
    (ours,) = mean.float_ref(Mean(axes, keep_dims), x)
    assert ours.shape == theirs.shape
    np.testing.assert_allclose(ours, theirs, rtol=1e-5, atol=1e-6)


def test_axes_that_are_not_neighbours_have_no_kernel():
    graph = one_node("mean", Mean((1, 3)), [tensor("x", (1, 3, 5, 2), 0.1, 7)], 0.02, -3)
    with pytest.raises(AssertionError, match="no kernel"):
        check_kernels(graph, [{"x": random_s8(0, (1, 3, 5, 2))}])


def test_axis_outside():
    with pytest.raises(TinycError, match="rank 3"):
        mean.infer(Mean((3,)), Value("x", (2, 3, 4), "s8"))
