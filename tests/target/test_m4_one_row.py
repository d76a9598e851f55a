# SPDX-License-Identifier: Apache-2.0
"""Fast convolutions of few input channels on an emulated Cortex-M4: bytes of the reference, counts as promised."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from one_layer import check_on_core, offer_of

from tests.ops.harness import run_kernel
from tests.ops.weighted import Layer, graph_of, samples
from tinyc.base.numerics import Numerics
from tinyc.choose.select import ask
from tinyc.kernel.kernel import Refused
from tinyc.kernel.site import RELU, RELU6, Act, Padding, Site
from tinyc.kernels.fast import one_row
from tinyc.ops.conv2d import Conv2D
from tinyc.reference.interpreter import run_int

KERNEL = "tc_conv2d_3x3_s8_one_row_asm"
ONE = Padding(1, 1, 1, 1)


def layer(x, out_c, attrs=None, **more) -> Layer:
    return Layer("conv2d", attrs or Conv2D(pad=ONE), (1, *x), (out_c, 3, 3, x[2]), **more)


LAYERS = {
    "whole tiles": layer((8, 16, 3), 16, Conv2D(pad=ONE, act=RELU), y_zero=-128),
    "odd sizes": layer((7, 9, 3), 4, x_zero=-128),
    "one channel": layer((5, 17, 1), 8, Conv2D(pad=ONE, act=RELU6)),
    "two channels": layer((9, 7, 2), 4, bias=False),
    "four channels": layer((6, 8, 4), 12, x_zero=127),
    "one pixel": layer((1, 1, 3), 4),
    "one row": layer((1, 5, 3), 4, x_zero=127),
    "one column": layer((3, 1, 2), 4, per_channel=False),
    "valid": layer((9, 11, 3), 4, Conv2D()),
    "wide pads": layer((4, 5, 3), 4, Conv2D(pad=Padding(2, 2, 1, 3))),
}


@pytest.mark.quick_cases(2)
@pytest.mark.parametrize("name", LAYERS)
def test_equals_the_reference(name: str) -> None:
    one = LAYERS[name]
    numerics = (Numerics.TFLM, Numerics.OURS)[list(LAYERS).index(name) % 2]
    check_on_core(graph_of(one), samples(one), KERNEL, numerics)


@pytest.mark.quick_cases(3)
@pytest.mark.parametrize("name", ["odd sizes", "one channel", "two channels", "four channels", "wide pads"])
def test_portable_twin_equals_the_reference(name: str) -> None:
    """On this computer, with sanitizers."""
    one = LAYERS[name]
    graph = graph_of(one)
    for numerics in (Numerics.TFLM, Numerics.OURS):
        outputs_by_sample = run_kernel(graph, graph.nodes[0], KERNEL, samples(one), numerics)
        for sample, (y,) in zip(samples(one), outputs_by_sample, strict=True):
            np.testing.assert_array_equal(y, run_int(graph, sample, numerics)["y"])


@pytest.mark.parametrize("weights", ["largest", "signs", "least"])
def test_at_the_limits(weights: str) -> None:
    one = replace(LAYERS["odd sizes"], weights=weights, bias=False, per_channel=False)
    check_on_core(graph_of(one), samples(one), KERNEL)


@pytest.mark.quick_cases(2)
@pytest.mark.parametrize(
    ("act", "y_zero", "numerics"),
    [
        (Act(), -5, Numerics.TFLM),
        (Act(), 9, Numerics.OURS),
        (RELU, -128, Numerics.TFLM),
        (RELU6, 20, Numerics.LITERT),
    ],
)
def test_ways_to_finish(act: Act, y_zero: int, numerics: Numerics) -> None:
    one = layer((5, 7, 3), 8, Conv2D(pad=ONE, act=act), y_zero=y_zero, seed=7)
    check_on_core(graph_of(one), samples(one)[:2], KERNEL, numerics)


@pytest.mark.slow
def test_zig_builds_it() -> None:
    one = LAYERS["odd sizes"]
    check_on_core(graph_of(one), samples(one)[:2], KERNEL, toolchain="zig")


@pytest.mark.parametrize("name", ["whole tiles", "two channels"])
def test_costs_are_as_promised(name: str) -> None:
    """To within the loop over the tiles."""
    one = LAYERS[name]
    graph = graph_of(one)
    site = Site(graph, graph.nodes[0], Numerics.TFLM)
    promised = offer_of(one_row.KERNELS[0], site).cost.instructions
    ran = check_on_core(graph, samples(one)[:1], KERNEL)
    assert abs(ran.instructions[0] - promised) < 0.05 * promised + 300


def test_more_channels_are_refused() -> None:
    graph = graph_of(layer((4, 5, 5), 4))
    (kernel,) = one_row.KERNELS
    offer = ask(kernel, Site(graph, graph.nodes[0], Numerics.TFLM), kernel.isa)
    assert offer == Refused("up to 4 input channels, output channels in fours up to 584")
