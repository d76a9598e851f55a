# SPDX-License-Identifier: Apache-2.0
"""The depthwise functions without scratch on an emulated Cortex-M4: bytes equal to the reference, costs as promised."""

from __future__ import annotations

from dataclasses import replace

import pytest
from one_layer import check_on_core, check_together, offer_of

from tests.ops.weighted import Layer, graph_of, samples
from tinyc.base.numerics import Numerics
from tinyc.kernel.kernel import Kernel
from tinyc.kernel.site import RELU, RELU6, Act, Padding, Pair, Site
from tinyc.kernels.depthwise import any_shape, direct
from tinyc.ops.depthwise_conv2d import DepthwiseConv2D

ONE = Padding(1, 1, 1, 1)


def layer(x, w, attrs=None, times=1, **more) -> Layer:
    return Layer("depthwise_conv2d", attrs or DepthwiseConv2D(), (1, *x), (*w, x[2] * times), **more)


LAYERS = {
    "3x3 same, relu": layer((7, 9, 9), (3, 3), DepthwiseConv2D(pad=ONE, act=RELU), y_zero=-128),
    "3x3 same": layer((5, 8, 8), (3, 3), DepthwiseConv2D(pad=ONE), x_zero=-128, y_zero=127),
    "stride 2, even": layer((8, 8, 7), (3, 3), DepthwiseConv2D(Pair(2, 2), Padding(0, 0, 1, 1), act=RELU6)),
    "stride 2, odd": layer((9, 7, 4), (3, 3), DepthwiseConv2D(Pair(2, 2), ONE, act=RELU)),
    "stride 3": layer((9, 17, 6), (5, 5), DepthwiseConv2D(Pair(3, 3), ONE, act=RELU)),
    "stride above kernel": layer((5, 9, 4), (2, 2), DepthwiseConv2D(Pair(3, 3)), per_channel=False),
    "dilated": layer((9, 11, 5), (3, 3), DepthwiseConv2D(pad=Padding(2, 2, 2, 2), dilation=Pair(2, 2))),
    "dilated, stride 2": layer((9, 13, 5), (3, 3), DepthwiseConv2D(Pair(2, 2), Padding(2, 2, 2, 2), Pair(2, 2))),
    "dilated 2, stride 3": layer((9, 13, 4), (3, 3), DepthwiseConv2D(Pair(3, 3), Padding(2, 2, 2, 2), Pair(2, 2))),
    "5x5": layer((9, 11, 5), (5, 5), DepthwiseConv2D(pad=Padding(2, 2, 2, 2), act=RELU)),
    "1x7": layer((3, 17, 8), (1, 7), DepthwiseConv2D(pad=Padding(0, 0, 3, 3)), x_zero=127),
    "two columns": layer((4, 2, 131), (3, 3), DepthwiseConv2D(pad=ONE, act=RELU6)),
    "many channels": layer((3, 5, 260), (3, 3), DepthwiseConv2D(pad=ONE)),
    "two per input": layer((5, 7, 3), (3, 3), DepthwiseConv2D(pad=ONE), times=2),
    "two per input, stride 2": layer((5, 8, 4), (3, 3), DepthwiseConv2D(Pair(2, 2), ONE, act=RELU), times=2),
    "four per input": layer((5, 7, 3), (3, 3), DepthwiseConv2D(pad=ONE), times=4),
    "eight of one": layer((9, 8, 1), (4, 3), DepthwiseConv2D(Pair(2, 2), Padding(1, 1, 2, 1), act=RELU), times=8),
}

ANY_SHAPE = {
    **{name: LAYERS[name] for name in ("3x3 same, relu", "3x3 same", "stride 2, even", "stride 2, odd", "two columns")},
    "no padding": layer((5, 6, 9), (3, 3), DepthwiseConv2D(act=RELU), y_zero=-128),
    "left alone": layer((5, 7, 6), (3, 3), DepthwiseConv2D(pad=Padding(1, 0, 1, 0)), x_zero=127),
    "right alone": layer((5, 7, 8), (3, 3), DepthwiseConv2D(pad=Padding(0, 1, 0, 1)), x_zero=-128),
    "three columns": layer((3, 3, 10), (3, 3), DepthwiseConv2D(pad=ONE)),
    "four of stride 2": layer((4, 4, 11), (3, 3), DepthwiseConv2D(Pair(2, 2), ONE)),
    "five of stride 2": layer((5, 5, 4), (3, 3), DepthwiseConv2D(Pair(2, 2), ONE)),
    "1x3": layer((2, 12, 5), (1, 3), DepthwiseConv2D(pad=Padding(0, 0, 1, 1))),
    "2x3": layer((4, 9, 4), (2, 3), DepthwiseConv2D(Pair(1, 2)), x_zero=5),
    "rows two apart": layer((9, 5, 4), (3, 3), DepthwiseConv2D(Pair(2, 1), ONE, Pair(2, 1))),
    "many channels": layer((3, 5, 1030), (3, 3), DepthwiseConv2D(pad=ONE)),
}


@pytest.mark.quick_cases(2)
@pytest.mark.parametrize("numerics", Numerics)
def test_any_shape_equals_the_reference(numerics: Numerics) -> None:
    """A third of the layers by each rounding; those of one stride have one function, whatever their sizes."""
    layers = list(ANY_SHAPE.values())[list(Numerics).index(numerics) :: len(Numerics)]
    check_together([(graph_of(one), samples(one), any_shape.NAME) for one in layers], numerics)


@pytest.mark.quick_cases(1)
@pytest.mark.parametrize("kind", ["largest", "signs", "least"])
def test_any_shape_at_the_limits(kind: str) -> None:
    layers = [replace(one, weights=kind, bias=False) for one in ANY_SHAPE.values()]
    check_together([(graph_of(one), samples(one), any_shape.NAME) for one in layers])


def test_layers_of_any_shape_have_one_function() -> None:
    """What is written does not depend on the layer's sizes, nor on how often the layer runs its parts."""
    texts = set()
    for size in ((7, 9, 9), (5, 8, 8), (3, 5, 260), (20, 2, 4)):
        graph = graph_of(layer(size, (3, 3), DepthwiseConv2D(pad=ONE, act=RELU), y_zero=-128))
        offer = offer_of(any_shape.KERNELS[0], Site(graph, graph.nodes[0], Numerics.TFLM))
        assert offer.special is not None
        texts.add(offer.special().text)
    assert len(texts) == 1


@pytest.mark.quick_cases(2)
@pytest.mark.parametrize("numerics", Numerics)
def test_equals_the_reference(numerics: Numerics) -> None:
    """A third of the layers by each rounding, side by side in one firmware."""
    layers = list(LAYERS.values())[list(Numerics).index(numerics) :: len(Numerics)]
    check_together([(graph_of(one), samples(one), direct.NAME) for one in layers], numerics)


def test_at_the_limits() -> None:
    names, weights = ("3x3 same", "two per input", "stride 2, odd"), ("largest", "signs", "least")
    layers = [replace(LAYERS[name], weights=kind, bias=False) for name in names for kind in weights]
    check_together([(graph_of(one), samples(one), direct.NAME) for one in layers])


@pytest.mark.quick_cases(2)
@pytest.mark.parametrize("numerics", Numerics)
def test_ways_to_finish(numerics: Numerics) -> None:
    layers = [
        layer((5, 7, 6), (3, 3), DepthwiseConv2D(pad=ONE, act=act), y_zero=y_zero, gain=30.0, seed=7)
        for act, y_zero in ((Act(), -5), (RELU, 7), (RELU6, 20))
    ]
    check_together([(graph_of(one), samples(one)[:2], direct.NAME) for one in layers], numerics)


def test_another_compiler() -> None:
    for name in ("stride 2, odd", "eight of one"):
        check_on_core(graph_of(LAYERS[name]), samples(LAYERS[name]), direct.NAME, toolchain="zig")
    one = ANY_SHAPE["stride 2, odd"]
    check_on_core(graph_of(one), samples(one), any_shape.NAME, toolchain="zig")


@pytest.mark.parametrize(
    ("name", "kernel"),
    [
        ("stride 2, even", direct.KERNELS[0]),
        ("many channels", direct.KERNELS[0]),
        ("eight of one", direct.KERNELS[0]),
        ("stride 2, even", any_shape.KERNELS[0]),
        ("many channels", any_shape.KERNELS[0]),
    ],
)
def test_costs_are_as_promised(name: str, kernel: Kernel) -> None:
    one = LAYERS[name]
    graph = graph_of(one)
    site = Site(graph, graph.nodes[0], Numerics.TFLM)
    ran = check_on_core(graph, samples(one)[:1], kernel.name)
    assert offer_of(kernel, site).cost.instructions == pytest.approx(ran.instructions[0], rel=0.1)
