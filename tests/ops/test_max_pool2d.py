# SPDX-License-Identifier: Apache-2.0
"""max_pool2d: the reference against a slow formula, TensorFlow Lite and ONNX Runtime, the kernel against it."""

from __future__ import annotations

import numpy as np
import pytest

from tests.ops import slow
from tests.ops.harness import check_kernels
from tests.ops.one_node import assert_equals_litert, assert_equals_tflm, one_node, random_s8, tensor
from tests.ops.onnx_float import run_onnx
from tests.ops.pooling import POOLS, graph_of, tflite_of
from tinyc.base.numerics import Numerics
from tinyc.kernel.site import RELU, Padding, Pair
from tinyc.ops import max_pool2d
from tinyc.ops.max_pool2d import MaxPool2D
from tinyc.reference.interpreter import run_int


@pytest.mark.parametrize("name", POOLS)
def test_reference_is_the_formula(name):
    graph = graph_of("max_pool2d", MaxPool2D, name)
    for seed in range(3):
        x = random_s8(seed, POOLS[name][0])
        np.testing.assert_array_equal(run_int(graph, {"x": x}, Numerics.TFLM)["y"], slow.pool(graph, x))


@pytest.mark.parametrize("theirs", [assert_equals_tflm, assert_equals_litert])
@pytest.mark.parametrize(
    ("attrs", "shape"),
    [
        (MaxPool2D(Pair(2, 2), Pair(2, 2)), (1, 32, 33, 8)),
        (MaxPool2D(Pair(3, 3), Pair(1, 1), Padding(1, 1, 1, 1), act=RELU), (1, 31, 33, 8)),
    ],
)
def test_reference_is_tflites(attrs, shape, theirs):
    graph = one_node("max_pool2d", attrs, [tensor("x", shape, 0.1, -3)], 0.1, -3)
    theirs(graph, tflite_of(graph, "MAX_POOL_2D"), {"x": random_s8(0, shape)})


@pytest.mark.parametrize("name", POOLS)
def test_kernels(name):
    shape = POOLS[name][0]
    inputs = [random_s8(0, shape), np.full(shape, -128, np.int8)]
    names = check_kernels(graph_of("max_pool2d", MaxPool2D, name), [{"x": x} for x in inputs])
    kernel = POOLS[name][1]["kernel"]
    helium = ["tc_max_pool2d_s8_mve"] if 2 <= kernel.h * kernel.w <= 64 else []
    assert names == ["tc_max_pool2d_s8_rvv", *helium, "tc_max_pool2d_s8"]


@pytest.mark.parametrize("name", [name for name in POOLS if name != "one pixel"])
def test_float_is_onnxruntimes(name):
    shape, fields = POOLS[name]
    a = MaxPool2D(**fields)
    x = np.random.default_rng(0).normal(size=shape).astype(np.float32)
    theirs = run_onnx(
        "MaxPool",
        [x.transpose(0, 3, 1, 2)],
        kernel_shape=list(a.kernel),
        strides=list(a.stride),
        pads=list(a.pad),
        dilations=list(a.dilation),
    )
    theirs = np.clip(theirs.transpose(0, 2, 3, 1), a.act.lo, a.act.hi)
    np.testing.assert_array_equal(max_pool2d.float_ref(a, x)[0], theirs.astype(np.float32))
