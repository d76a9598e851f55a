# SPDX-License-Identifier: Apache-2.0
"""Weighted layers on int16, for the tests of their kernels on the host and on cores."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import numpy as np

from tests.ops.one_node import one_node, tensor
from tests.ops.weighted import Layer
from tests.ops.weighted import graph_of as graph_of_int8
from tinyc.ir.graph import Array, Graph, Quant, read_only
from tinyc.kernel.site import RELU, RELU6, Act, Padding, Pair
from tinyc.ops.conv2d import Conv2D
from tinyc.ops.depthwise_conv2d import DepthwiseConv2D
from tinyc.ops.fully_connected import FullyConnected
from tinyc.ops.mean import Mean

ONE = Padding(1, 1, 1, 1)
CONV, DEPTHWISE = "tc_conv2d_s16_dsp", "tc_depthwise_conv2d_s16_dsp"


def conv(x: tuple[int, ...], w: tuple[int, ...], attrs: Conv2D | None = None, **more: float) -> Layer:
    return Layer("conv2d", attrs or Conv2D(), (1, *x), (w[0], w[1], w[2], x[2]), **more)  # type: ignore[arg-type]


def depthwise(x: tuple[int, ...], w: tuple[int, ...], attrs: DepthwiseConv2D | None = None, **more: float) -> Layer:
    return Layer(
        "depthwise_conv2d",
        attrs or DepthwiseConv2D(),
        (1, *x),
        (*w, x[2]),
        **more,  # type: ignore[arg-type]
    )


def dense(x: tuple[int, ...], out: int, act: Act | None = None, **more: float) -> Layer:
    return Layer("fully_connected", FullyConnected(act or Act()), x, (out, x[-1]), **more)  # type: ignore[arg-type]


LAYERS: Mapping[str, tuple[Layer, str]] = {
    "1x1": (conv((3, 5, 12), (8, 1, 1), Conv2D(act=RELU)), CONV),
    "1x1, odd taps and channels": (conv((3, 3, 7), (9, 1, 1)), CONV),
    "1x1 of one": (conv((1, 1, 17), (3, 1, 1), Conv2D(act=RELU6)), CONV),
    "1x1 of one tap": (conv((3, 3, 1), (5, 1, 1), gain=9.0), CONV),
    "3x3": (conv((4, 5, 16), (17, 3, 3), Conv2D(pad=ONE, act=RELU6)), CONV),
    "3x3 of 3, stride 2": (conv((9, 8, 3), (7, 3, 3), Conv2D(Pair(2, 2), Padding(0, 0, 1, 1), act=RELU)), CONV),
    "3x3 of 9, saturating": (conv((3, 4, 9), (5, 3, 3), Conv2D(pad=ONE), gain=30.0), CONV),
    "dilated": (conv((7, 9, 5), (4, 2, 3), Conv2D(dilation=Pair(2, 3))), CONV),
    "10x4 of one, stride 2": (conv((13, 9, 1), (8, 10, 4), Conv2D(Pair(2, 2), Padding(4, 1, 5, 1))), CONV),
    "depthwise": (depthwise((5, 9, 5), (3, 3), DepthwiseConv2D(pad=ONE, act=RELU)), DEPTHWISE),
    "depthwise, stride 2": (depthwise((8, 7, 7), (3, 3), DepthwiseConv2D(Pair(2, 2), ONE, act=RELU6)), DEPTHWISE),
    "depthwise, column": (depthwise((17, 1, 4), (7, 1), DepthwiseConv2D(pad=Padding(3, 0, 3, 0))), DEPTHWISE),
    "depthwise, even taps": (depthwise((6, 6, 8), (2, 4), gain=30.0), DEPTHWISE),
    "depthwise, three": (depthwise((3, 3, 3), (1, 1)), DEPTHWISE),
    "dense": (dense((1, 130), 9), CONV),
    "dense, three taps": (dense((1, 3), 5), CONV),
    "dense, hardly scaled down": (dense((1, 3), 5, gain=100.0), CONV),
    "dense, rows": (dense((3, 17), 6, RELU), CONV),
    "dense, signs": (dense((1, 300), 8, gain=30.0), CONV),
}


def graph_of(layer: Layer, bias: str = "s64", x_zero: int = 0, y_zero: int = 0) -> Graph:
    """The layer with int16 input and output. bias: its dtype."""
    graph = graph_of_int8(layer)
    values = dict(graph.values)
    for name, zero in (("x", x_zero), ("y", y_zero)):
        quant = values[name].quant
        assert quant is not None
        values[name] = replace(values[name], dtype="s16", quant=Quant((quant.scale[0] / 256,), (zero,)))
    consts = dict(graph.consts)
    values["b"] = replace(values["b"], dtype="s64" if bias == "s64" else "s32")
    consts["b"] = read_only(consts["b"].astype(np.int64 if bias == "s64" else np.int32) * 256)
    return replace(graph, values=values, consts=consts)


def samples(layer: Layer) -> list[Mapping[str, Array]]:
    """Inputs: random, random ends of the range, all least, all greatest."""
    rng = np.random.default_rng(layer.seed + 1000)
    shape = layer.x_shape
    arrays = [
        rng.integers(-32768, 32768, shape),
        rng.choice([-32768, 32767], shape),
        np.full(shape, -32768),
        np.full(shape, 32767),
    ]
    return [{"x": array.astype(np.int16)} for array in arrays]


def mean_of(shape: tuple[int, ...]) -> tuple[Graph, list[Mapping[str, Array]]]:
    """A mean over the pixels of an image, and inputs."""
    graph = one_node("mean", Mean((1, 2)), [tensor("x", shape, 0.001, 0, "s16")], 0.0008)
    rng = np.random.default_rng(4)
    arrays = [rng.integers(-32768, 32768, shape), np.full(shape, -32768), np.full(shape, 32767), np.zeros(shape)]
    return graph, [{"x": array.astype(np.int16)} for array in arrays]


# What makes rows: layers by name, with their samples.
ROWS: Mapping[str, tuple[Graph, list[Mapping[str, Array]]]] = {
    **{
        name: (graph_of(one), samples(one))
        for name, (one, _) in LAYERS.items()
        if one.op != "fully_connected" and one.x_shape[1] > 1
    },
    "mean": mean_of((1, 7, 5, 9)),
}
