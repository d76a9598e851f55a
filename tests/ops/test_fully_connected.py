# SPDX-License-Identifier: Apache-2.0
"""fully_connected: the reference against a slow formula, TensorFlow Lite and ONNX Runtime, every kernel against it."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from tests.ops import slow
from tests.ops.harness import check_kernels
from tests.ops.one_node import assert_equals_litert, assert_equals_tflm
from tests.ops.onnx_float import run_onnx
from tests.ops.weighted import Layer, as_tflite, graph_of, samples
from tinyc.base.errors import TinycError
from tinyc.base.numerics import Numerics
from tinyc.ir.graph import Value
from tinyc.kernel.site import RELU, RELU6, Act
from tinyc.ops import fully_connected
from tinyc.ops.fully_connected import FullyConnected
from tinyc.reference.interpreter import run_int


def layer(x, w, act=None, keep_dims=False, **more) -> Layer:
    return Layer("fully_connected", FullyConnected(act or Act(), keep_dims), x, w, **more)


LAYERS = {
    "one scale": layer((3, 7), (9, 7), per_channel=False),
    "one scale, relu": layer((1, 64), (12, 64), RELU, per_channel=False, y_zero=-128),
    "a scale per output": layer((1, 33), (17, 33), RELU6, x_zero=-128),
    "without bias": layer((5, 8), (8, 8), bias=False, y_zero=127),
    "flattened": layer((1, 3, 5, 2), (3, 30), x_zero=127),
    "last axis": layer((1, 3, 5, 4), (5, 4), keep_dims=True),
    "one number": layer((1, 1), (1, 1), gain=60.0),
}


@pytest.mark.parametrize("name", LAYERS)
@pytest.mark.parametrize("numerics", Numerics)
def test_reference_is_the_formula(name, numerics):
    graph = graph_of(LAYERS[name])
    for sample in samples(LAYERS[name]):
        ours = run_int(graph, sample, numerics)["y"]
        np.testing.assert_array_equal(ours, slow.fully_connected(graph, sample["x"], numerics))


@pytest.mark.parametrize("theirs", [assert_equals_tflm, assert_equals_litert])
@pytest.mark.parametrize("name", ["one scale", "one scale, relu", "a scale per output", "without bias"])
def test_reference_is_tflites(name, theirs):
    """Enough outputs to tell a float32 from a float64 product of scales, which differ in one of a million."""
    for seed in range(30):
        shape = (512, LAYERS[name].x_shape[1])
        many = replace(LAYERS[name], x_shape=shape, seed=seed, gain=0.5 + seed / 30)
        theirs(graph_of(many), as_tflite(many), samples(many)[0])


@pytest.mark.quick_cases(4)
@pytest.mark.parametrize("name", LAYERS)
def test_kernels(name):
    numerics = list(Numerics)[list(LAYERS).index(name) % 3]
    names = check_kernels(graph_of(LAYERS[name]), samples(LAYERS[name]), numerics)
    one_row = graph_of(LAYERS[name]).values["y"].elements == LAYERS[name].w_shape[0]
    with_dsp = "tc_fully_connected_s8_row_dsp" if one_row else "tc_conv2d_1x1_s8_dsp"
    assert {with_dsp, "tc_fully_connected_s8"} <= set(names)


@pytest.mark.quick_cases(2)
@pytest.mark.parametrize(
    ("numerics", "act", "y_zero"),
    [(Numerics.TFLM, Act(), -5), (Numerics.TFLM, RELU, 7), (Numerics.OURS, RELU, 7), (Numerics.LITERT, RELU, 7)],
)
def test_kernels_in_all_ways_to_finish(numerics, act, y_zero):
    one = replace(LAYERS["a scale per output"], attrs=FullyConnected(act), y_zero=y_zero)
    check_kernels(graph_of(one), samples(one), numerics)


@pytest.mark.parametrize("weights", ["largest", "signs"])
def test_kernels_in_chunks(weights):
    """More taps than one packed dot product can hold when all weights are 127."""
    for rows in (1, 2):
        one = layer((rows, 1033), (9, 1033), weights=weights)
        check_kernels(graph_of(one), samples(one))


def test_kernels_with_the_least_weight():
    names = check_kernels(graph_of(replace(LAYERS["one scale"], weights="least")), samples(LAYERS["one scale"]))
    assert not {"tc_conv2d_1x1_s8_dsp", "tc_fully_connected_s8_row_dsp"} & set(names)


def test_float_is_onnxruntimes():
    rng = np.random.default_rng(0)
    x, w, b = (rng.normal(size=shape).astype(np.float32) for shape in ((5, 7), (3, 7), (3,)))
    (ours,) = fully_connected.float_ref(FullyConnected(RELU), x, w, b)
    theirs = np.maximum(run_onnx("Gemm", [x, w, b], transB=1), 0)
    np.testing.assert_allclose(ours, theirs, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize(("x", "keep_dims", "y"), [((2, 3, 4), False, (6, 5)), ((2, 3, 4), True, (2, 3, 5))])
def test_shape_of_the_output(x, keep_dims, y):
    (kind,) = fully_connected.infer(FullyConnected(keep_dims=keep_dims), Value("x", x, "s8"), Value("w", (5, 4), "s8"))
    assert kind.shape == y


@pytest.mark.parametrize(
    ("x", "w", "keep_dims"), [((1, 7), (3, 5), False), ((2, 2), (3, 4), True), ((1, 4), (4,), False)]
)
def test_shapes_that_do_not_fit(x, w, keep_dims):
    with pytest.raises(TinycError, match="do not fit"):
        fully_connected.infer(FullyConnected(keep_dims=keep_dims), Value("x", x, "s8"), Value("w", w, "s8"))
