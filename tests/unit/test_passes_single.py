# SPDX-License-Identifier: Apache-2.0
"""Depthwise convolutions of one channel become convolutions with the same integers."""

from __future__ import annotations

import numpy as np
import pytest

from tests.ops.weighted import Layer, graph_of, samples
from tinyc.base.numerics import Numerics
from tinyc.kernel.site import RELU, Padding, Pair
from tinyc.ops.depthwise_conv2d import DepthwiseConv2D
from tinyc.passes import normalize
from tinyc.reference.interpreter import run_int

ATTRS = DepthwiseConv2D(Pair(2, 1), Padding(1, 2, 0, 1), Pair(1, 2), RELU)


@pytest.mark.parametrize("per_channel", [True, False])
@pytest.mark.parametrize("bias", [True, False])
@pytest.mark.parametrize("numerics", Numerics)
def test_same_integers(numerics: Numerics, bias: bool, per_channel: bool) -> None:
    one = Layer("depthwise_conv2d", ATTRS, (1, 9, 8, 1), (4, 3, 5), bias=bias, per_channel=per_channel, x_zero=7)
    graph = graph_of(one)
    changed = normalize(graph)
    assert [node.op for node in changed.nodes] == ["conv2d"]
    for sample in samples(one):
        np.testing.assert_array_equal(run_int(changed, sample, numerics)["y"], run_int(graph, sample, numerics)["y"])


def test_more_channels_stay() -> None:
    graph = graph_of(Layer("depthwise_conv2d", DepthwiseConv2D(), (1, 9, 8, 2), (3, 3, 4)))
    assert [node.op for node in normalize(graph).nodes] == ["depthwise_conv2d"]
