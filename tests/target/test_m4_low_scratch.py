# SPDX-License-Identifier: Apache-2.0
"""Fast convolutions with less scratch on an emulated Cortex-M4: bytes of the reference, counts as promised."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from one_layer import check_on_core, offer_of

from tests.ops.harness import run_kernel
from tests.ops.weighted import Layer, graph_of, samples
from tinyc.base.numerics import Numerics
from tinyc.kernel.site import RELU, Padding, Site
from tinyc.kernels.fast import low_scratch, winograd
from tinyc.kernels.fast.bilinear import F2, BilinearForm
from tinyc.kernels.fast.low_scratch import NAMES
from tinyc.kernels.fast.winograd import kernel_name
from tinyc.ops.conv2d import Conv2D
from tinyc.reference.interpreter import run_int

ONE = Padding(1, 1, 1, 1)


def layer(x, out_c, attrs=None, **more) -> Layer:
    return Layer("conv2d", attrs or Conv2D(pad=ONE), (1, *x), (out_c, 3, 3, x[2]), **more)


LAYERS = {
    "whole tiles": layer((8, 16, 16), 16, Conv2D(pad=ONE, act=RELU), y_zero=-128),
    "odd sizes": layer((7, 9, 8), 4, x_zero=-128),
    "one pixel": layer((1, 1, 4), 4, x_zero=127),
    "valid": layer((9, 11, 12), 4, Conv2D()),
    "wide pads": layer((4, 5, 4), 4, Conv2D(pad=Padding(2, 2, 1, 3))),
}
FORMS = pytest.mark.parametrize("form", [F2], ids=lambda form: form.name)


@pytest.mark.quick_cases(2)
@FORMS
@pytest.mark.parametrize("name", LAYERS)
def test_equals_the_reference(name: str, form: BilinearForm) -> None:
    """On the core, and the twin on this computer."""
    one = LAYERS[name]
    numerics = (Numerics.TFLM, Numerics.OURS)[list(LAYERS).index(name) % 2]
    graph = graph_of(one)
    check_on_core(graph, samples(one), NAMES[form.name], numerics)
    found = run_kernel(graph, graph.nodes[0], NAMES[form.name], samples(one), numerics)
    for sample, (y,) in zip(samples(one), found, strict=True):
        np.testing.assert_array_equal(y, run_int(graph, sample, numerics)["y"])


@FORMS
@pytest.mark.parametrize("weights", ["largest", "least"])
def test_at_the_limits(form: BilinearForm, weights: str) -> None:
    one = replace(LAYERS["odd sizes"], weights=weights, bias=False, per_channel=False)
    check_on_core(graph_of(one), samples(one), NAMES[form.name])


@FORMS
def test_costs_are_as_promised(form: BilinearForm) -> None:
    """To within the loop over the tiles; with less scratch than the kernel that keeps sums of all channels."""
    one = LAYERS["whole tiles"]
    graph = graph_of(one)
    site = Site(graph, graph.nodes[0], Numerics.TFLM)
    promised = offer_of(low_scratch.KERNELS[0], site).cost
    ran = check_on_core(graph, samples(one)[:1], NAMES[form.name])
    assert abs(ran.instructions[0] - promised.instructions) < 0.05 * promised.instructions + 300
    fast = next(kernel for kernel in winograd.KERNELS if kernel.name == kernel_name(form, inline=True))
    assert promised.scratch_bytes < offer_of(fast, site).scratch_bytes


def test_channels_that_are_no_fours_are_refused() -> None:
    graph = graph_of(layer((4, 5, 6), 4))
    site = Site(graph, graph.nodes[0], Numerics.TFLM)
    assert winograd.takes_f2(site)
    assert not low_scratch.takes_f2(site)
