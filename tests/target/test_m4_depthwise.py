# SPDX-License-Identifier: Apache-2.0
"""The depthwise functions in assembly on an emulated Cortex-M4: bytes equal to the reference, counts as promised."""

from __future__ import annotations

from dataclasses import replace

import pytest
from one_layer import check_together, counts_together

from tests.ops.weighted import Layer, graph_of, samples
from tinyc.base.numerics import Numerics
from tinyc.choose.select import ask, select
from tinyc.kernel.kernel import Offer
from tinyc.kernel.site import RELU, RELU6, Act, Padding, Pair, Site
from tinyc.kernels.depthwise import depthwise
from tinyc.kernels.stream import WIDE
from tinyc.ops.depthwise_conv2d import DepthwiseConv2D, prepare
from tinyc.plan.planner import plan_graph

ONE = Padding(1, 1, 1, 1)
PLANES = {kernel.name: kernel for kernel in depthwise.kernels("tc_depthwise_conv2d_s8_asm", WIDE)}
KERNELS = [*PLANES]


def layer(x, w, attrs=None, **more) -> Layer:
    return Layer("depthwise_conv2d", attrs or DepthwiseConv2D(), (1, *x), (*w, x[2]), **more)


LAYERS = {
    "3x3 same, relu": layer((7, 9, 9), (3, 3), DepthwiseConv2D(pad=ONE, act=RELU), y_zero=-128),
    "3x3 same": layer((5, 8, 8), (3, 3), DepthwiseConv2D(pad=ONE), x_zero=-128, y_zero=127),
    "one column": layer((9, 1, 5), (3, 3), DepthwiseConv2D(pad=ONE, act=RELU), x_zero=127),
    "one row": layer((1, 3, 6), (3, 3), DepthwiseConv2D(pad=ONE)),
    "one pixel": layer((1, 1, 7), (3, 3), DepthwiseConv2D(pad=ONE)),
    "wide": layer((3, 50, 4), (3, 3), DepthwiseConv2D(pad=ONE, act=RELU6)),
    "many channels": layer((8, 17, 131), (3, 3), DepthwiseConv2D(pad=ONE, act=RELU)),
    "stride 2, even": layer((8, 8, 7), (3, 3), DepthwiseConv2D(Pair(2, 2), Padding(0, 0, 1, 1), act=RELU6)),
    "stride 2, odd": layer((9, 7, 4), (3, 3), DepthwiseConv2D(Pair(2, 2), ONE, act=RELU)),
    "stride 2, bands": layer((33, 24, 5), (3, 3), DepthwiseConv2D(Pair(2, 2), ONE), y_zero=0),
    "strides 3, 1": layer((9, 7, 4), (2, 2), DepthwiseConv2D(Pair(3, 1))),
    "strides 1, 2": layer((9, 7, 4), (3, 4), DepthwiseConv2D(Pair(1, 2), Padding(2, 1, 0, 2))),
    "1x1": layer((3, 5, 5), (1, 1)),
    "1x1, stride 2": layer((5, 5, 5), (1, 1), DepthwiseConv2D(Pair(2, 2))),
    "2x2": layer((6, 6, 8), (2, 2), DepthwiseConv2D(pad=Padding(0, 0, 1, 1))),
    "5x5": layer((9, 11, 5), (5, 5), DepthwiseConv2D(pad=Padding(2, 2, 2, 2), act=RELU)),
    "5x5, stride 2": layer((9, 12, 6), (5, 5), DepthwiseConv2D(Pair(2, 2), Padding(1, 1, 2, 2))),
    "4x6": layer((7, 8, 4), (4, 6), DepthwiseConv2D(pad=Padding(3, 3, 1, 2))),
    "3x1": layer((17, 1, 8), (3, 1), bias=False),
    "8x1": layer((17, 1, 9), (8, 1)),
    "9x1": layer((17, 1, 8), (9, 1)),
    "narrower": layer((40, 37, 4), (3, 5), DepthwiseConv2D(pad=Padding(1, 0, 1, 0))),
    "wider, lower": layer((37, 30, 4), (5, 3), DepthwiseConv2D(pad=Padding(0, 2, 0, 2))),
    "1x5, long row": layer((1, 32, 12), (1, 5), DepthwiseConv2D(act=RELU), y_zero=-128),
    "1x4, stride 2": layer((1, 30, 7), (1, 4), DepthwiseConv2D(Pair(1, 2)), x_zero=-128),
    "12x1, more than is read": layer((40, 1, 5), (12, 1), DepthwiseConv2D(Pair(2, 1))),
    "15x1, one output": layer((15, 1, 8), (15, 1), per_channel=False),
}


LARGE = {"stride 2, bands", "narrower", "wider, lower"}  # their planes of two channels take more than 2 KiB
FOLDED = {"3x1", "8x1", "9x1", "1x5, long row", "1x4, stride 2", "12x1, more than is read"}  # one row, unpadded
MUCH = {"9x1", "12x1, more than is read"}  # whose pieces take more than 704 bytes of code


LONG = {"one pixel", "many channels", "5x5", "15x1, one output", *LARGE}  # a turn of the loop makes one row at most


def is_run(name: str, kernel: str) -> bool:
    if kernel.endswith("_short"):
        return name not in LONG
    if "_cut" in kernel:
        return name in (FOLDED if kernel.endswith("_cut") else FOLDED - MUCH)
    return not (name in LARGE and kernel.endswith("_pairs"))


RUNS = [(name, kernel) for name in LAYERS for kernel in KERNELS if is_run(name, kernel)]


def test_what_is_folded_and_short() -> None:
    """Single rows without padding are cut; loops with several rows in a turn may have one."""
    assert taken("tc_depthwise_conv2d_s8_asm_cut") == FOLDED
    assert taken("tc_depthwise_conv2d_s8_asm_cut_small") == FOLDED - MUCH
    assert taken("tc_depthwise_conv2d_s8_asm_short") == set(LAYERS) - LONG


def taken(name: str) -> set[str]:
    """The layers that a kernel takes."""
    kernel = PLANES[name]
    graphs = {name: graph_of(one) for name, one in LAYERS.items()}
    sites = {name: Site(graph, graph.nodes[0], Numerics.TFLM) for name, graph in graphs.items()}
    return {name for name, site in sites.items() if isinstance(ask(kernel, site, frozenset({"dsp"})), Offer)}


@pytest.mark.quick_cases(3)
@pytest.mark.parametrize("part", range(6))
def test_equals_the_reference(part: int) -> None:
    """Every layer by every kernel, side by side in one firmware for each part."""
    names = list(LAYERS)[part::6]
    cases = [(graph_of(LAYERS[name]), samples(LAYERS[name]), kernel) for name, kernel in RUNS if name in names]
    check_together(cases, list(Numerics)[part % 3])


@pytest.mark.parametrize("name", ["3x3 same", "stride 2, bands", "8x1", "narrower", "5x5, stride 2"])
def test_the_output_takes_the_place_of_the_input(name: str) -> None:
    graph = graph_of(LAYERS[name])
    for kernel in [kernel for one, kernel in RUNS if one == name]:
        choices = select(graph, frozenset({"dsp"}), Numerics.TFLM, prefer={"layer": kernel})
        plan = plan_graph(graph, choices)
        assert plan.offset("x") == plan.offset("y")


@pytest.mark.parametrize("numerics", [Numerics.TFLM, Numerics.OURS])
def test_at_the_limits(numerics: Numerics) -> None:
    names, weights = ("3x3 same", "5x5", "stride 2, odd"), ("largest", "signs", "least")
    layers = [replace(LAYERS[name], weights=kind, bias=False) for name in names for kind in weights]
    check_together([(graph_of(one), samples(one), depthwise.NAME) for one in layers], numerics)


@pytest.mark.quick_cases(2)
@pytest.mark.parametrize("numerics", Numerics)
def test_ways_to_finish(numerics: Numerics) -> None:
    ways = [(Act(), -5), (RELU, -128), (RELU, 7), (RELU6, -128), (RELU6, 20)]
    layers = [
        layer((5, 7, 6), (3, 3), DepthwiseConv2D(pad=ONE, act=act), y_zero=y_zero, gain=gain, seed=7)
        for act, y_zero in ways
        for gain in (0.05, 30.0)
    ]
    check_together([(graph_of(one), samples(one)[:2], depthwise.NAME) for one in layers], numerics)


@pytest.mark.parametrize("toolchain", ["zig"])
def test_other_compilers(toolchain: str) -> None:
    layers = [LAYERS[name] for name in ("3x3 same, relu", "stride 2, bands", "9x1")]
    check_together([(graph_of(one), samples(one), depthwise.NAME) for one in layers], toolchain=toolchain)


@pytest.mark.parametrize(
    ("kernel", "choices"), list(zip(KERNELS[:2], (depthwise.fast, depthwise.least_scratch), strict=True))
)
def test_counts_are_as_promised(kernel: str, choices: depthwise.Choices) -> None:
    """To within the padding instructions before loops: one per group of channels, and one per channel and band."""
    layers = [LAYERS[name] for name in ("3x3 same, relu", "many channels", "stride 2, bands", "5x5", "9x1")]
    counts = counts_together([(graph_of(one), samples(one)[:1], kernel) for one in layers])
    for one, count in zip(layers, counts, strict=True):
        graph = graph_of(one)
        site = Site(graph, graph.nodes[0], Numerics.TFLM)
        work = depthwise.plan(site, prepare(site), choices)
        assert work is not None
        spare = 2 * work.layer.bands * (work.layer.channels + 2) + 60
        assert work.executed.instructions <= count <= work.executed.instructions + spare
