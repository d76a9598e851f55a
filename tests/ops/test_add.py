# SPDX-License-Identifier: Apache-2.0
"""add: broadcasting, TensorFlow Lite's integers over all pairs of inputs, the exact linear form, kernels."""

from __future__ import annotations

import numpy as np
import pytest

from tests.ops.harness import check_kernels
from tests.ops.one_node import (
    as_tflite,
    assert_equals_litert,
    assert_equals_tflm,
    one_node,
    random_s8,
    tensor,
)
from tests.ops.runtimes import every_pair
from tinyc.base.errors import TinycError
from tinyc.base.numerics import Numerics
from tinyc.ir.graph import Graph, Shape
from tinyc.kernel.site import RELU, RELU6, Act, Site
from tinyc.ops import sums
from tinyc.ops.add import Add, float_ref
from tinyc.ops.binary import Loop, loops
from tinyc.reference.interpreter import run_int

# x0 scale and zero, x1 scale and zero, y scale and zero, activation, its TFLite number
SETTINGS = {
    "plain": (0.1, 3, 0.07, -5, 0.15, 10, Act(), 0),
    "relu at -128": (0.023517, -128, 0.011713, -128, 0.031219, -128, RELU, 1),
    "relu above -128": (0.02, 11, 0.3, -90, 0.25, -31, RELU, 1),
    "relu6": (0.050133, -7, 0.030171, 100, 0.061519, -128, RELU6, 3),
    "saturates": (0.2, 0, 0.2, -1, 0.1, 5, Act(), 0),
    "ties": (0.25, 7, 0.25, -3, 0.5, 1, Act(), 0),
    "very different scales": (0.0041271, 1, 0.50231, 2, 0.60417, -4, Act(), 0),
    "beyond XNNPACK": (0.00010313, 1, 0.50231, 2, 0.60417, -4, Act(), 0),
}


def graph_of(setting: str, shape0: Shape, shape1: Shape) -> Graph:
    scale0, zero0, scale1, zero1, y_scale, y_zero, act, _ = SETTINGS[setting]
    inputs = [tensor("a", shape0, scale0, zero0), tensor("b", shape1, scale1, zero1)]
    return one_node("add", Add(act), inputs, y_scale, y_zero)


@pytest.mark.parametrize("setting", SETTINGS)
@pytest.mark.parametrize("theirs", [assert_equals_tflm, assert_equals_litert])
def test_all_pairs_are_tflites(setting, theirs):
    x0, x1 = every_pair()
    graph = graph_of(setting, x0.shape, x1.shape)
    model = as_tflite(graph, "ADD", "AddOptions", {"FusedActivationFunction": SETTINGS[setting][-1]})
    theirs(graph, model, {"a": x0, "b": x1})


@pytest.mark.parametrize("setting", SETTINGS)
@pytest.mark.parametrize("numerics", Numerics)
def test_linear_form_equals_the_rounding_rule_for_all_pairs(setting, numerics):
    x0, x1 = every_pair()
    graph = graph_of(setting, x0.shape, x1.shape)
    p = sums.prepare_sum(Site(graph, graph.nodes[0], numerics), 1)
    form = sums.linear_form(p)
    if numerics is Numerics.ONNX and setting == "ties":
        assert form is None  # no line rounds halves to even
        return
    assert form is not None
    np.testing.assert_array_equal(form.run(x0, x1), p.run(x0, x1))
    assert (abs(form.a) + abs(form.b)) * 128 + abs(form.c) < 2**31


def test_a_sum_without_linear_form_keeps_the_general_kernel():
    # Scales in a simple ratio put thousands of sums halfway, and the 20 extra bits round them either way.
    x0, x1 = every_pair()
    inputs = [tensor("a", x0.shape, 0.05, -7), tensor("b", x1.shape, 0.03, 100)]
    graph = one_node("add", Add(RELU6), inputs, 0.06, -128)
    assert sums.linear_form(sums.prepare_sum(Site(graph, graph.nodes[0], Numerics.OURS), 1)) is None
    assert check_kernels(graph, [{"a": x0, "b": x1}], Numerics.OURS) == ["tc_add_s8_mve", "tc_add_s8"]


@pytest.mark.quick_cases(6)
@pytest.mark.parametrize("setting", ["plain", "relu above -128", "saturates"])
@pytest.mark.parametrize("numerics", Numerics)
def test_kernels(setting, numerics):
    x0, x1 = every_pair()
    names = check_kernels(graph_of(setting, x0.shape, x1.shape), [{"a": x0, "b": x1}], numerics)
    assert "tc_add_linear_s8" in names
    assert ("tc_add_linear_s8_asm" in names) == (setting != "relu above -128")
    assert ("tc_add_s8" in names) == (numerics in (Numerics.TFLM, Numerics.OURS))
    assert ("tc_add_even_s8" in names) == (numerics is Numerics.ONNX)


@pytest.mark.parametrize("setting", SETTINGS)
def test_onnx_is_the_rounded_sum_of_reals(setting):
    """Exact fractions for all pairs; where they are as near to a half as the coefficients' last bit, one step off."""
    x0, x1 = every_pair()
    graph = graph_of(setting, x0.shape, x1.shape)
    scale0, zero0, scale1, zero1, y_scale, y_zero, act, _ = SETTINGS[setting]
    real = np.float32(scale0) * (x0.astype(np.float64) - zero0) + np.float32(scale1) * (x1.astype(np.float64) - zero1)
    ratio = real.astype(np.float64) / float(np.float32(y_scale))
    lo, hi = act.range_of(graph.values["y"])
    reference = np.clip(np.rint(ratio) + y_zero, lo, hi).astype(np.int8)
    y = run_int(graph, {"a": x0, "b": x1}, Numerics.ONNX)["y"]
    near_half = np.abs(np.abs(ratio - np.rint(ratio)) - 0.5) < 1e-4
    np.testing.assert_array_equal(y[~near_half], reference[~near_half])
    assert np.abs(y.astype(int) - reference).max() <= 1
    if setting == "ties":
        np.testing.assert_array_equal(y, reference)


def test_kernel_that_rounds_to_even():
    x0, x1 = every_pair()
    names = check_kernels(graph_of("ties", x0.shape, x1.shape), [{"a": x0, "b": x1}], Numerics.ONNX)
    assert names == ["tc_add_even_s8"]


@pytest.mark.parametrize(
    ("shape0", "shape1"),
    [
        ((1, 5, 3, 7), (7,)),
        ((1, 1, 1, 9), (1, 3, 5, 9)),
        ((1, 3, 1, 5), (1, 1, 7, 5)),
        ((1, 3, 5, 1), (1, 3, 1, 8)),
        ((3, 1, 5, 1), (1, 2, 1, 7)),
        ((1,), (1, 1)),
    ],
)
def test_kernels_broadcast(shape0, shape1):
    graph = graph_of("plain", shape0, shape1)
    samples = [{"a": random_s8(k, shape0), "b": random_s8(k + 9, shape1)} for k in range(2)]
    check_kernels(graph, samples)
    np.testing.assert_array_equal(
        float_ref(Add(), samples[0]["a"].astype(np.float32), samples[0]["b"].astype(np.float32))[0],
        samples[0]["a"].astype(np.float32) + samples[0]["b"],
    )


@pytest.mark.parametrize("const", ["a", "b"])
@pytest.mark.parametrize("const_shape", [(7,), (1, 1), (1, 3, 5, 7)])
def test_kernels_with_a_constant(const, const_shape):
    shapes = {"a": (1, 3, 5, 7), "b": (1, 3, 5, 7)} | {const: const_shape}
    inputs = [tensor("a", shapes["a"], 0.1, 3), tensor("b", shapes["b"], 0.07, -5)]
    graph = one_node("add", Add(), inputs, 0.12, 9, {const: random_s8(1, const_shape)})
    (free,) = graph.inputs
    names = check_kernels(graph, [{free: random_s8(2, shapes[free])}])
    assert ("tc_lut_s8" in names) == (const_shape == (1, 1))


@pytest.mark.quick_cases(5)
@pytest.mark.parametrize("elements", [1, 7, 8, 9, 23])
@pytest.mark.parametrize("numerics", [Numerics.TFLM, Numerics.LITERT])
def test_kernels_at_odd_sizes(elements, numerics):
    shape = (1, elements)
    sample = {"a": random_s8(1, shape), "b": random_s8(2, shape)}
    assert "tc_add_linear_s8_asm" in check_kernels(graph_of("plain", shape, shape), [sample], numerics)


def test_linear_form_has_the_output_zero_point_inside():
    # XNNPACK adds it after the shift, where a saturating shift can no longer be one instruction.
    for setting in SETTINGS:
        graph = graph_of(setting, (1, 3), (1, 3))
        form = sums.linear_form(sums.prepare_sum(Site(graph, graph.nodes[0], Numerics.LITERT), 1))
        assert form is not None
        assert form.y_zero == 0


def test_loops():
    assert loops((1, 4, 4, 8), (1, 4, 4, 8)) == (Loop(128, 1, 1),)
    assert loops((1, 4, 4, 8), (8,)) == (Loop(16, 8, 0), Loop(8, 1, 1))
    assert loops((1, 4, 4, 8), (1, 4, 4, 1)) == (Loop(16, 8, 1), Loop(8, 1, 0))
    assert loops((2, 1), (1, 3)) == (Loop(2, 1, 0), Loop(3, 0, 1))
    assert loops((1,), (1, 1)) == (Loop(1, 0, 0),)


def test_errors():
    with pytest.raises(TinycError, match="do not broadcast"):
        one_node("add", Add(), [tensor("a", (3,), 0.1), tensor("b", (4,), 0.1)], 0.1)
    graph = one_node("add", Add(), [tensor("a", (3,), 0.5), tensor("b", (3,), 0.1)], 0.5 / 2**20)
    with pytest.raises(TinycError, match="too small"):
        sums.prepare_sum(Site(graph, graph.nodes[0], Numerics.TFLM), 1)
