"""Exact fast convolutions on an emulated Cortex-M4: bytes equal to the reference, counts as promised."""

from __future__ import annotations

from dataclasses import replace

import pytest
from one_layer import check_on_core

from tests.ops.weighted import Layer, graph_of, samples
from tinyc.codegen import winograd
from tinyc.numerics import Numerics
from tinyc.ops.base import RELU, RELU6, Act, Padding, Pair
from tinyc.ops.conv2d import Conv2D

ONE = Padding(1, 1, 1, 1)
F2, F4, S2 = (winograd.NAMES[form] for form in ("f2", "f4", "s2"))


def layer(x, out_c, attrs=None, **more) -> Layer:
    return Layer("conv2d", attrs or Conv2D(pad=ONE), (1, *x), (out_c, 3, 3, x[2]), **more)


LAYERS = {
    "whole tiles": layer((8, 16, 8), 8, Conv2D(pad=ONE, act=RELU), y_zero=-128),
    "odd sizes": layer((7, 9, 8), 4, x_zero=-128),
    "one pixel": layer((1, 1, 4), 4),
    "one row": layer((1, 5, 4), 4, x_zero=127),
    "one column": layer((3, 1, 4), 4),
    "three channels": layer((8, 8, 3), 8, Conv2D(pad=ONE, act=RELU6)),
    "one channel": layer((5, 17, 1), 4),
    "six channels": layer((9, 7, 6), 4, bias=False),
    "valid": layer((9, 11, 4), 4, Conv2D()),
    "wide pads": layer((4, 5, 4), 4, Conv2D(pad=Padding(2, 2, 1, 3))),
    "many channels": layer((4, 6, 72), 12, Conv2D(pad=ONE, act=RELU), per_channel=False),
    "many more": layer((4, 5, 264), 4),
}


def strided(one: Layer) -> Layer:
    return replace(one, attrs=replace(one.attrs, stride=Pair(2, 2)))


@pytest.mark.parametrize("kernel", [F2, F4, S2])
@pytest.mark.parametrize("name", LAYERS)
def test_equals_the_reference(name: str, kernel: str) -> None:
    one = strided(LAYERS[name]) if kernel == S2 else LAYERS[name]
    numerics = list(Numerics)[list(LAYERS).index(name) % 3]
    check_on_core(graph_of(one), samples(one), kernel, numerics)


@pytest.mark.parametrize("weights", ["largest", "signs", "least"])
@pytest.mark.parametrize("kernel", [F2, F4, S2])
def test_at_the_limits(kernel: str, weights: str) -> None:
    one = replace(LAYERS["odd sizes"], weights=weights, bias=False, per_channel=False)
    one = strided(one) if kernel == S2 else one
    for numerics in (Numerics.TFLM, Numerics.OURS):
        check_on_core(graph_of(one), samples(one), kernel, numerics)


@pytest.mark.parametrize("numerics", Numerics)
@pytest.mark.parametrize(("act", "y_zero"), [(Act(), -5), (RELU, -128), (RELU6, 20)])
@pytest.mark.parametrize("kernel", [F2, F4, S2])
def test_ways_to_finish(kernel: str, act: Act, y_zero: int, numerics: Numerics) -> None:
    one = layer((5, 7, 4), 8, Conv2D(pad=ONE, act=act), y_zero=y_zero, seed=7)
    one = strided(one) if kernel == S2 else one
    check_on_core(graph_of(one), samples(one)[:2], kernel, numerics)
