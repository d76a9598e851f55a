# SPDX-License-Identifier: Apache-2.0
"""Fast convolutions and paired products on cores without DSP instructions: odd sizes, extreme values, both compilers.

All layers of a core and a compiler are in one firmware.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace

import numpy as np
import pytest
from kernel_cases import Together, run_together
from machines import target_for

from tests.ops.weighted import Layer, graph_of, samples
from tinyc.base.errors import TinycError
from tinyc.base.numerics import Numerics
from tinyc.board import load_board
from tinyc.choose.select import ask
from tinyc.ir.graph import Graph, Node
from tinyc.kernel.kernel import Offer, Refused
from tinyc.kernel.site import RELU, RELU6, Padding, Pair, Site
from tinyc.kernels.fast.bilinear import F2, F4, S2, BilinearForm
from tinyc.kernels.scalar.pairs import best_fit, fitted
from tinyc.kernels.scalar.strided import segment_channels
from tinyc.kernels.scalar.tiles import factors
from tinyc.ops import all_ops
from tinyc.ops.conv2d import Conv2D
from tinyc.ops.fully_connected import FullyConnected
from tinyc.toolchain.compilers import find_toolchain

ONE, TWO = Padding(1, 1, 1, 1), Pair(2, 2)
BOARDS = ["cortex-m0plus", "cortex-m3", "cortex-m33", "riscv32imc"]
RUNS = [
    pytest.param(board, family, marks=[] if (board, family) in {("cortex-m3", "zig")} else [pytest.mark.slow])
    for board in BOARDS
    for family in ("gcc", "zig")
]


def conv(x, out, attrs=None, **more) -> Layer:
    return Layer("conv2d", attrs or Conv2D(pad=ONE), (1, *x), (out, 3, 3, x[2]), **more)


def dense(x, out, **more) -> Layer:
    return Layer("fully_connected", more.pop("attrs", FullyConnected()), x, (out, x[-1]), **more)


CONVS = [
    conv((1, 1, 1), 1),
    conv((3, 17, 5), 7, Conv2D(pad=ONE, act=RELU), y_zero=-128, x_zero=-128),
    conv((9, 5, 8), 9, Conv2D(), x_zero=127),
    conv((5, 7, 17), 3, Conv2D(pad=Padding(2, 0, 1, 2), act=RELU6), bias=False),
    conv((4, 8, 3), 8, weights="least", gain=20.0),
    conv((7, 9, 40), 5, weights="signs", bias=False),
    conv((4, 3, 40), 4, weights="largest", bias=False),
    conv((5, 9, 17), 7, bits=4, x_zero=-128),
    conv((3, 7, 8), 8, bits=4, weights="all least", bias=False),
]
STRIDED = [
    conv((1, 1, 1), 1, Conv2D(TWO, ONE)),
    conv((3, 17, 5), 7, Conv2D(TWO, ONE, act=RELU), y_zero=-128, x_zero=-128),
    conv((9, 5, 8), 9, Conv2D(TWO), x_zero=127),
    conv((5, 7, 17), 3, Conv2D(TWO, Padding(2, 0, 1, 2), act=RELU6), bias=False),
    conv((8, 8, 3), 8, Conv2D(TWO, Padding(0, 0, 1, 1)), weights="least", gain=20.0),
    conv((7, 9, 40), 5, Conv2D(TWO, ONE), weights="signs", bias=False),
    conv((4, 3, 21), 4, Conv2D(TWO, ONE), weights="largest", bias=False),
    conv((7, 5, 9), 3, Conv2D(TWO, ONE), bits=4, weights="all least"),
]
DENSES = [
    dense((1, 1), 1),
    dense((3, 17), 9, attrs=FullyConnected(act=RELU), y_zero=-128),
    dense((1, 40), 5, weights="least"),
    dense((1, 33), 3, weights="signs"),
    dense((2, 64), 17, weights="largest", bias=False),
    dense((2, 150), 70, weights="signs"),
]
KERNELS = (
    "tc_conv2d_3x3_s8_tiles2_scalar",
    "tc_conv2d_3x3_s8_tiles4_scalar",
    "tc_conv2d_3x3s2_s8_tiles2_scalar",
    "tc_fully_connected_s8_pairs",
    "tc_fully_connected_s8_pairs_held",
)


def side_by_side(layers: Iterable[Layer], isa: frozenset[str], numerics: Numerics) -> Together:
    """Every layer with each of KERNELS that takes it, once with any inputs and once with those at the ends."""
    nodes: list[Node] = []
    values, consts, prefer, inputs = {}, {}, {}, {}
    for number, graph, data in _graphs(layers):
        (node,) = graph.nodes
        site = Site(graph, node, numerics)
        takers = [
            k.name
            for k in all_ops()[node.op].every_kernel
            if k.name in KERNELS and isinstance(ask(k, site, isa), Offer)
        ]
        for taker in takers:
            name = f"c{number}_{taker}"
            renamed = {old: f"{name}_{old}" for old in graph.values}
            values |= {renamed[old]: replace(value, name=renamed[old]) for old, value in graph.values.items()}
            consts |= {renamed[old]: array for old, array in graph.consts.items()}
            inputs[renamed["x"]] = data
            nodes.append(Node(name, node.op, tuple(renamed[x] for x in node.inputs), (renamed["y"],), node.attrs))
            prefer[name] = taker
    outputs = tuple(node.outputs[0] for node in nodes)
    return Together(Graph("all", tuple(inputs), outputs, tuple(nodes), values, consts), prefer, inputs)


def _graphs(layers: Iterable[Layer]) -> Iterator[tuple[int, Graph, np.ndarray]]:
    for number, layer in enumerate(layers):
        graph, arrays = graph_of(layer), samples(layer)
        yield 2 * number, graph, arrays[0]["x"]
        yield 2 * number + 1, graph, arrays[1]["x"]


@pytest.mark.parametrize(("board_name", "family"), RUNS)
def test_equals_the_reference(board_name: str, family: str) -> None:
    board = load_board(board_name)
    target_for(board_name, None)
    try:
        compiler = find_toolchain(board, family)
    except TinycError as error:
        pytest.skip(error.message)
    network = side_by_side([*CONVS, *STRIDED, *DENSES], board.isa, Numerics.TFLM)
    assert {kernel for _, kernel in network.covered} >= set(KERNELS)
    run_together(network, board, compiler, Numerics.TFLM)


@pytest.mark.parametrize("form", [F2, F4, S2])
def test_products_are_multiples_of_the_outputs(form: BilinearForm) -> None:
    """Two dimensions of the form on random integers, modulo 2^32 as the kernels compute."""
    rng = np.random.default_rng(3)
    w = rng.integers(-128, 128, (2, 3, 3, 5)).astype(np.int8)
    x = rng.integers(-128, 128, (form.n, form.n, 5)).astype(np.int64)
    inputs, sums = np.array(form.inputs, np.int64), np.array(form.sums, np.int64)
    sides = np.einsum("ik,klc,jl->ijc", inputs, x, inputs).reshape(-1, 5)
    products = (factors(w, form) * sides).sum(axis=2).reshape(2, form.products, form.products)
    sums_of_form = np.einsum("ai,oij,bj->oab", sums, products, sums) % 2**32
    for a in range(form.m):
        for b in range(form.m):
            at, left = form.stride * a, form.stride * b
            exact = (w.astype(np.int64) * x[at : at + 3, left : left + 3]).sum(axis=(1, 2, 3))
            multiple = form.unit**2 << (form.raised[a] + form.raised[b])
            np.testing.assert_array_equal(sums_of_form[:, a, b], exact * multiple % 2**32)


def test_factors_of_int8_weights_fit_int16() -> None:
    least = np.full((1, 3, 3, 1), -128, np.int8)
    for form in (F2, F4, S2):
        assert np.abs(factors(least, form)).max() == 128 * max(sum(map(abs, row)) for row in form.weights) ** 2 < 2**15


def test_too_large_sums_are_refused() -> None:
    """A multiple of 64 leaves 2^25 for accumulators: 229 channels of 127 stay below, 230 do not."""
    for channels, taken in ((229, True), (230, False)):
        graph = graph_of(conv((4, 4, channels), 1, weights="largest", bias=False, x_zero=0))
        kernels = {kernel.name: kernel for kernel in all_ops()["conv2d"].every_kernel}
        offer = ask(kernels[KERNELS[1]], Site(graph, graph.nodes[0], Numerics.TFLM), frozenset())
        assert isinstance(offer, Offer) == taken


def test_segments_of_channels() -> None:
    """2^20 holds 7 channels of 9 taps of 127, 14 of 63, 60 of 15; the segments are in fours and alike."""
    largest = np.full((2, 3, 3, 40), 127, np.int8)
    assert segment_channels(largest) == 4
    assert segment_channels(largest // 2) == 12
    assert segment_channels(largest // 8) == 40
    assert segment_channels(np.full((1, 3, 3, 1), -128, np.int8)) == 4


def test_strides_are_refused() -> None:
    graph = graph_of(conv((8, 8, 8), 8, Conv2D(TWO, ONE)))
    kernels = {kernel.name: kernel for kernel in all_ops()["conv2d"].every_kernel}
    assert isinstance(ask(kernels[KERNELS[0]], Site(graph, graph.nodes[0], Numerics.TFLM), frozenset()), Refused)


@pytest.mark.parametrize("segment", [2, 4])
@pytest.mark.parametrize("largest", [127, 128, 30])
def test_segments_fit(segment: int, largest: int) -> None:
    """Weights and fixes together are the weights, and no segment leaves 16 bits at the worst input."""
    rng = np.random.default_rng(largest)
    w = np.clip(rng.integers(-largest, largest + 1, (5, 37)), -128, 127).astype(np.int8)
    fit = fitted(w, segment)
    whole = fit.taps.copy()
    for output, tap, weight in fit.fixes:
        whole[output, tap] += weight
    np.testing.assert_array_equal(whole[:, :37], w)
    assert not whole[:, 37:].any()
    parts = fit.taps.reshape(5, -1, 4 * segment)
    greatest, least = (np.maximum(ends[0] * parts, ends[1] * parts).sum(axis=2) for ends in ((127, -128), (-127, 128)))
    assert greatest.max() < 2**15
    assert least.max() <= 2**15


def test_small_weights_take_long_segments() -> None:
    w = np.random.default_rng(0).integers(-10, 11, (16, 64)).astype(np.int8)
    assert best_fit(w, frozenset({"thumb2"})).segment == 4
    assert len(best_fit(w, frozenset({"thumb2"})).fixes) == 0
