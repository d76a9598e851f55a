# SPDX-License-Identifier: Apache-2.0
"""depthwise_conv2d: the reference against a slow formula, TensorFlow Lite and ONNX Runtime, every kernel against it."""

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
from tinyc.kernel.site import RELU, RELU6, Act, Padding, Pair
from tinyc.ops import depthwise_conv2d
from tinyc.ops.depthwise_conv2d import DepthwiseConv2D
from tinyc.reference.interpreter import run_int

ONE = Padding(1, 1, 1, 1)


def layer(x, w, attrs=None, **more) -> Layer:
    return Layer("depthwise_conv2d", attrs or DepthwiseConv2D(), (1, *x), w, **more)


LAYERS = {
    "3x3 same, relu": layer((7, 9, 9), (3, 3, 9), DepthwiseConv2D(pad=ONE, act=RELU), y_zero=-128),
    "3x3 same": layer((5, 8, 8), (3, 3, 8), DepthwiseConv2D(pad=ONE), x_zero=-128, y_zero=127),
    "3x3 stride 2": layer((8, 7, 7), (3, 3, 7), DepthwiseConv2D(Pair(2, 2), Padding(0, 0, 1, 1), act=RELU6)),
    "3x3 valid": layer((5, 5, 4), (3, 3, 4), y_zero=11),
    "3x3 one row": layer((1, 3, 5), (3, 3, 5), DepthwiseConv2D(pad=ONE), x_zero=127),
    "two per input": layer((5, 7, 3), (3, 3, 6), DepthwiseConv2D(pad=ONE)),
    "eight of one": layer((9, 8, 1), (4, 3, 8), DepthwiseConv2D(Pair(2, 2), Padding(1, 1, 2, 1), act=RELU)),
    "15x1": layer((17, 1, 8), (15, 1, 8), bias=False),
    "4x5 dilated, wide pads": layer((7, 9, 5), (4, 5, 5), DepthwiseConv2D(Pair(2, 1), Padding(3, 2, 1, 4), Pair(1, 2))),
    "stride above kernel": layer((5, 9, 4), (2, 2, 4), DepthwiseConv2D(Pair(3, 3)), per_channel=False),
    "1x1": layer((3, 3, 5), (1, 1, 5), gain=40.0),
    "3x1 of one column": layer((11, 1, 5), (3, 1, 5), x_zero=9, y_zero=3),
}


@pytest.mark.parametrize("name", LAYERS)
@pytest.mark.parametrize("numerics", Numerics)
def test_reference_is_the_formula(name, numerics):
    graph = graph_of(LAYERS[name])
    for sample in samples(LAYERS[name])[:2]:
        ours = run_int(graph, sample, numerics)["y"]
        np.testing.assert_array_equal(ours, slow.conv2d(graph, sample["x"], numerics))


@pytest.mark.parametrize("theirs", [assert_equals_tflm, assert_equals_litert])
@pytest.mark.parametrize("name", ["3x3 same, relu", "3x3 stride 2", "two per input", "3x3 valid"])
def test_reference_is_tflites(name, theirs):
    for seed in range(3):
        wide = replace(LAYERS[name], x_shape=(1, 32, 32, LAYERS[name].x_shape[3]), seed=seed)
        theirs(graph_of(wide), as_tflite(wide), samples(wide)[0])


@pytest.mark.quick_cases(3)
@pytest.mark.parametrize("name", LAYERS)
def test_kernels(name):
    numerics = list(Numerics)[list(LAYERS).index(name) % 3]
    names = check_kernels(graph_of(LAYERS[name]), samples(LAYERS[name]), numerics)
    assert ("tc_depthwise_conv2d_s8_dsp" in names) == (name not in {"two per input", "eight of one"})
    assert names[-1] == "tc_depthwise_conv2d_s8"


@pytest.mark.quick_cases(2)
@pytest.mark.parametrize(
    ("numerics", "act", "y_zero"),
    [(Numerics.TFLM, Act(), -5), (Numerics.TFLM, RELU, 7), (Numerics.OURS, RELU, 7), (Numerics.LITERT, RELU, 7)],
)
def test_kernels_in_all_ways_to_finish(numerics, act, y_zero):
    one = replace(LAYERS["3x3 same"], attrs=DepthwiseConv2D(pad=ONE, act=act), y_zero=y_zero)
    check_kernels(graph_of(one), samples(one), numerics)


@pytest.mark.parametrize("weights", ["largest", "signs", "least"])
def test_kernels_at_the_limits(weights):
    one = replace(LAYERS["3x3 same"], weights=weights)
    check_kernels(graph_of(one), samples(one))


@pytest.mark.parametrize("name", ["3x3 same, relu", "two per input", "4x5 dilated, wide pads"])
def test_float_is_onnxruntimes(name):
    one = LAYERS[name]
    rng = np.random.default_rng(0)
    x, w = (rng.normal(size=shape).astype(np.float32) for shape in (one.x_shape, one.w_shape))
    b = rng.normal(size=one.out_c).astype(np.float32)
    a = one.attrs
    theirs = run_onnx(
        "Conv",
        [x.transpose(0, 3, 1, 2), w.transpose(2, 0, 1)[:, None], b],
        strides=list(a.stride),
        pads=list(a.pad),
        dilations=list(a.dilation),
        group=one.x_shape[3],
    )
    (ours,) = depthwise_conv2d.float_ref(a, x, w, b)
    theirs = np.clip(theirs.transpose(0, 2, 3, 1), a.act.lo, a.act.hi)
    np.testing.assert_allclose(ours, theirs, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("w", [(3, 3, 4), (3, 3, 1), (1, 3, 3, 3)])
def test_weights_that_do_not_fit(w):
    with pytest.raises(TinycError, match="do not fit"):
        depthwise_conv2d.infer(DepthwiseConv2D(), Value("x", (1, 5, 5, 3), "f32"), Value("w", w, "f32"))
