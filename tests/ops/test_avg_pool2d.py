# SPDX-License-Identifier: Apache-2.0
"""avg_pool2d: the reference against a slow formula, TensorFlow Lite and ONNX Runtime, the kernel against it."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from tests.ops import slow
from tests.ops.harness import check_kernels
from tests.ops.one_node import assert_equals_litert, assert_equals_tflm, one_node, random_s8, tensor
from tests.ops.onnx_float import run_onnx
from tests.ops.pooling import POOLS, graph_of, tflite_of
from tinyc.base.errors import TinycError
from tinyc.base.numerics import Numerics
from tinyc.ir.graph import Value
from tinyc.kernel.site import RELU, Padding, Pair
from tinyc.ops import avg_pool2d
from tinyc.ops.avg_pool2d import AvgPool2D
from tinyc.reference.interpreter import run_int


@pytest.mark.parametrize("name", POOLS)
@pytest.mark.parametrize("count_pad", [False, True])
@pytest.mark.parametrize("numerics", Numerics)
@pytest.mark.parametrize("halves_up", [False, True])
def test_reference_is_the_formula(name, count_pad, numerics, halves_up):
    graph = graph_of("avg_pool2d", AvgPool2D, name, count_pad=count_pad, halves_up=halves_up)
    for seed in range(3):
        x = random_s8(seed, POOLS[name][0])
        np.testing.assert_array_equal(run_int(graph, {"x": x}, numerics)["y"], slow.pool(graph, x))


@pytest.mark.parametrize("theirs", [assert_equals_tflm, assert_equals_litert])
@pytest.mark.parametrize(
    ("attrs", "shape"),
    [
        (AvgPool2D(Pair(2, 2), Pair(1, 1)), (1, 32, 33, 8)),  # ties
        (AvgPool2D(Pair(3, 3), Pair(1, 1), Padding(1, 1, 1, 1), act=RELU), (1, 31, 33, 8)),
        (AvgPool2D(Pair(25, 5)), (1, 25, 5, 64)),
        (AvgPool2D(Pair(9, 9)), (1, 9, 9, 256)),
    ],
)
def test_reference_is_tflites(attrs, shape, theirs):
    graph = one_node("avg_pool2d", attrs, [tensor("x", shape, 0.1, -3)], 0.1, -3)
    theirs(graph, tflite_of(graph, "AVERAGE_POOL_2D"), {"x": random_s8(0, shape)})


@pytest.mark.quick_cases(10)
@pytest.mark.parametrize("name", POOLS)
@pytest.mark.parametrize("count_pad", [False, True])
@pytest.mark.parametrize("kind", ["s8", "u8"])
def test_kernels(name, count_pad, kind):
    graph = graph_of("avg_pool2d", AvgPool2D, name, zero=-128, count_pad=count_pad, halves_up=kind == "u8")
    shape = POOLS[name][0]
    inputs = [random_s8(0, shape), np.full(shape, -128, np.int8), np.full(shape, 127, np.int8)]
    assert check_kernels(graph, [{"x": x} for x in inputs])[-1] == f"tc_avg_pool2d_{kind}"


@pytest.mark.parametrize("name", [name for name in POOLS if name != "one pixel"])
@pytest.mark.parametrize("count_pad", [False, True])
def test_float_is_onnxruntimes(name, count_pad):
    shape, fields = POOLS[name]
    a = AvgPool2D(**fields, count_pad=count_pad)
    x = np.random.default_rng(0).normal(size=shape).astype(np.float32)
    theirs = run_onnx(
        "AveragePool",
        [x.transpose(0, 3, 1, 2)],
        kernel_shape=list(a.kernel),
        strides=list(a.stride),
        pads=list(a.pad),
        dilations=list(a.dilation),
        count_include_pad=int(count_pad),
    )
    theirs = np.clip(theirs.transpose(0, 2, 3, 1), a.act.lo, a.act.hi)
    np.testing.assert_allclose(avg_pool2d.float_ref(a, x)[0], theirs, rtol=1e-5, atol=1e-6)


def test_input_and_output_must_be_quantized_alike():
    graph = graph_of("avg_pool2d", AvgPool2D, "global")
    y = replace(graph.values["y"], quant=replace(graph.values["y"].quant, zero=(8,)))
    with pytest.raises(TinycError, match="keeps the quantization"):
        run_int(replace(graph, values={**graph.values, "y": y}), {"x": random_s8(0, (1, 7, 5, 9))}, Numerics.OURS)


@pytest.mark.parametrize(
    ("attrs", "message"),
    [
        (AvgPool2D(Pair(8, 1)), "does not fit"),
        (AvgPool2D(Pair(2, 2), pad=Padding(2, 0, 0, 0)), "misses the image"),
        (AvgPool2D(Pair(2, 1), pad=Padding(1, 0, 1, 0), dilation=Pair(8, 1)), "misses the image"),
    ],
)
def test_windows_that_do_not_fit(attrs, message):
    with pytest.raises(TinycError, match=message):
        avg_pool2d.infer(attrs, Value("x", (1, 7, 5, 3), "s8"))
