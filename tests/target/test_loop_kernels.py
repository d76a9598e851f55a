# SPDX-License-Identifier: Apache-2.0
"""Kernels that are loops over elements, on emulated cores: the reference's bytes, instructions as promised."""

from __future__ import annotations

import numpy as np
import pytest
from kernel_cases import samples_of
from one_layer import check_together, counts_together, offer_of
from signal_cases import count, node_of

from tests.ops.one_node import one_node, tensor
from tinyc.base.numerics import Numerics
from tinyc.frontend.resizing import taps_of
from tinyc.ir.graph import Array, Graph, Shape
from tinyc.kernel.site import Site
from tinyc.loops.written import WORD_CORES
from tinyc.ops import all_ops
from tinyc.ops.add import Add
from tinyc.ops.broadcast import Broadcast
from tinyc.ops.choose import Choose
from tinyc.ops.concat import Concat
from tinyc.ops.extremum import Extremum
from tinyc.ops.gather import Gather
from tinyc.ops.lookup_channels import LookupChannels
from tinyc.ops.mul import Mul
from tinyc.ops.pad import Pad
from tinyc.ops.prelu import Prelu
from tinyc.ops.reduce_extremum import ReduceExtremum
from tinyc.ops.resample_rows import ResampleRows
from tinyc.ops.resize_nearest import ResizeNearest
from tinyc.ops.signal_overlap_add import SignalOverlapAdd
from tinyc.ops.slice import Slice
from tinyc.ops.sub import Sub
from tinyc.ops.transpose import Transpose

CORES = {"cortex-m4": ("asm", "dsp"), "cortex-m55": ("mve",), "riscv32-zve32x": ("rvv",)}  # with endings of kernels
ENDS = [(a, b) for a in (-128, 127) for b in (-128, 127)]
# Nothing repeats, of all lengths around words and vectors; one input repeats in a line, or the other, or from line to
# line; nothing but one number; lines within lines.
SHAPES = [
    *((((1, n), (1, n))) for n in (1, 3, 15, 16, 17, 35, 130)),
    ((1, 3, 5, 40), (1, 1, 1, 40)),
    ((1, 3, 5, 33), (1, 3, 5, 1)),
    ((1, 3, 5, 1), (1, 3, 5, 70)),
    ((1, 2, 150), (1, 1, 150)),
    ((1, 4, 7), (1, 1, 1)),
    ((2, 1, 3, 35), (1, 4, 1, 35)),
]

REDUCED: list[tuple[Shape, tuple[int, ...]]] = [
    ((1, 8, 8, 64), (1, 2)),
    ((1, 7, 4, 5), (1,)),
    ((3, 2, 17), (1,)),
    ((1, 3, 2, 140), (1, 2)),
]


def graph_of(op: str, shapes: tuple[Shape, Shape], number: int) -> Graph:
    if op == "extremum":
        inputs = [tensor("a", shapes[0], 0.02, 5), tensor("b", shapes[1], 0.02, 5)]
        return one_node(op, Extremum(number % 2 == 0), inputs, 0.02, 5)
    inputs = [tensor("a", shapes[0], 0.0213, 3), tensor("b", shapes[1], 0.0317, -9)]
    return one_node(op, {"add": Add(), "sub": Sub(), "mul": Mul()}[op], inputs, 0.0411, 5)


def check(op: str, cases: list[tuple[Graph, list[dict[str, Array]]]], board_name: str) -> None:
    """On the core of which costs speak, they are what is executed."""
    (name,) = {
        kernel.name
        for kernel in all_ops()[op].every_kernel
        if kernel.written and "s8" in kernel.name and kernel.name.endswith(CORES[board_name])
    } - {"tc_add_s8_mve"}
    named = [(graph, inputs, name) for graph, inputs in cases]
    if board_name != "cortex-m4":
        check_together(named, board_name=board_name)
        return
    kernel = next(k for k in all_ops()[op].every_kernel if k.name == name)
    for (graph, _), executed in zip(cases, counts_together(named), strict=True):
        cost = offer_of(kernel, Site(graph, graph.nodes[0], Numerics.TFLM)).cost
        assert cost.instructions == pytest.approx(executed, rel=0.12, abs=40)


@pytest.mark.parametrize("op", ["add", "sub", "mul", "extremum"])
@pytest.mark.parametrize("board_name", CORES)
def test_equals_the_reference(board_name: str, op: str) -> None:
    """With either input at every end."""
    cases = []
    for number, shapes in enumerate(SHAPES):
        rng = np.random.default_rng(number)
        drawn = {x: rng.integers(-128, 128, shapes[k]).astype(np.int8) for k, x in enumerate("ab")}
        ends = [{"a": np.full(shapes[0], a, np.int8), "b": np.full(shapes[1], b, np.int8)} for a, b in ENDS]
        cases.append((graph_of(op, shapes, number), [drawn, *ends]))
    check(op, cases, board_name)


@pytest.mark.parametrize("board_name", CORES)
def test_extremes_of_lines(board_name: str) -> None:
    cases = []
    for number, (shape, axes) in enumerate(REDUCED):
        attrs = ReduceExtremum(axes, largest=number % 2 == 0)
        graph = one_node("reduce_extremum", attrs, [tensor("x", shape, 0.1, 7)], 0.1, 7)
        x = np.random.default_rng(number).integers(-128, 128, shape).astype(np.int8)
        cases.append((graph, [{"x": x}, {"x": np.full(shape, -128, np.int8)}]))
    check("reduce_extremum", cases, board_name)


@pytest.mark.parametrize("board_name", CORES)
def test_choices(board_name: str) -> None:
    cases = []
    for n in (1, 3, 15, 16, 17, 35, 130):
        values = [tensor("c", (1, n), dtype="bool"), tensor("a", (1, n), 0.1, 7), tensor("b", (1, n), 0.1, 7)]
        rng = np.random.default_rng(n)
        a, b = (rng.integers(-128, 128, (1, n)).astype(np.int8) for _ in range(2))
        conditions = (rng.integers(0, 2, (1, n)), np.ones((1, n)), np.zeros((1, n)))
        inputs = [{"c": c.astype(np.bool_), "a": a, "b": b} for c in conditions]
        cases.append((one_node("choose", Choose(), values, 0.1, 7), inputs))
    check("choose", cases, board_name)


# Quantization of input, slopes and output; slopes for each channel, for all, and for each place.
SLOPES = [
    ((0.1, 3), (0.008, 0), (0.08, 10), (1, 1, 1, 7)),
    ((0.05, -128), (0.004, 0), (0.03, -128), (1, 1, 1, 40)),
    ((0.3, 127), (0.007, -100), (0.25, 90), (1, 3, 5, 1)),
    ((0.02, 0), (0.005, 0), (0.02, -3), (1, 1, 1, 1)),
    ((0.021, -9), (0.005, 0), (0.0194, -3), (1, 3, 5, 33)),
]


@pytest.mark.parametrize(
    ("board_name", "ending"),
    [("cortex-m4", "thumb2"), ("cortex-m3", "thumb2"), ("cortex-m55", "mve"), ("riscv32-zve32x", "rvv")],
)
def test_slopes(board_name: str, ending: str) -> None:
    cases, costs = [], []
    for number, (x, s, y, shape) in enumerate(SLOPES):
        rng = np.random.default_rng(number)
        image = (1, 3, 5, shape[3] if shape[3] > 1 else 9)
        slopes = rng.integers(0, 128, shape).astype(np.int8)
        graph = one_node("prelu", Prelu(), [tensor("x", image, *x), tensor("s", shape, *s)], *y, {"s": slopes})
        inputs = [{"x": rng.integers(-128, 128, image).astype(np.int8)}]
        inputs += [{"x": np.full(image, end, np.int8)} for end in (-128, 127)]
        kernel = next(k for k in all_ops()["prelu"].every_kernel if k.name == f"tc_prelu_s8_{ending}")
        cases.append((graph, inputs, kernel.name))
        costs.append(offer_of(kernel, Site(graph, graph.nodes[0], Numerics.TFLM)).cost.instructions)
    if board_name != "cortex-m4":
        check_together(cases, board_name=board_name)
        return
    for executed, cost in zip(counts_together(cases), costs, strict=True):
        assert cost == pytest.approx(executed, rel=0.12, abs=40)


TABLES = [(1, 1, 1), (1, 70, 3), (2, 3, 33), (1, 5, 80)]  # shapes, without the first axis


@pytest.mark.parametrize(
    ("board_name", "ending"),
    [("cortex-m4", "thumb2"), ("cortex-m55", "mve"), ("riscv32-zve32x", "rvv")],
)
def test_tables_of_channels(board_name: str, ending: str) -> None:
    cases, costs = [], []
    for number, shape in enumerate(TABLES):
        rng = np.random.default_rng(number)
        table = rng.integers(-128, 128, (shape[-1], 256)).astype(np.int8)
        values = [tensor("x", (1, *shape), 0.1, 7), tensor("t", table.shape, 0.1, 7)]
        graph = one_node("lookup_channels", LookupChannels(), values, 0.1, 7, {"t": table})
        kernel = next(k for k in all_ops()["lookup_channels"].every_kernel if k.name.endswith(ending))
        cases.append((graph, [samples_of(graph)], kernel.name))
        costs.append(offer_of(kernel, Site(graph, graph.nodes[0], Numerics.TFLM)).cost.instructions)
    if board_name != "cortex-m4":
        check_together(cases, board_name=board_name)
        return
    for executed, cost in zip(counts_together(cases), costs, strict=True):
        assert cost == pytest.approx(executed, rel=0.2, abs=60)


@pytest.mark.parametrize(
    ("board_name", "ending"), [("cortex-m4", "dsp"), ("cortex-m55", "mve"), ("riscv32-zve32x", "rvv")]
)
def test_means_of_two_rows(board_name: str, ending: str) -> None:
    cases, costs = [], []
    for rows, width in ((3, 1), (5, 11), (8, 43), (20, 60)):
        taps, x = ResampleRows(taps_of("pillow-bilinear", 4, rows)), tensor("x", (1, 4, width, 3), 1.0, -128)
        graph = one_node("resample_rows", taps, [x], 1.0, -128)
        (kernel,) = (k for k in all_ops()["resample_rows"].every_kernel if k.name.endswith(ending))
        ends = [{"x": np.full(x.shape, end, np.int8)} for end in (-128, 127)]
        cases.append((graph, [samples_of(graph), *ends], kernel.name))
        costs.append(offer_of(kernel, Site(graph, graph.nodes[0], Numerics.TFLM)).cost.instructions)
    if board_name != "cortex-m4":
        check_together(cases, board_name=board_name)
        return
    for executed, cost in zip(counts_together(cases), costs, strict=True):
        assert cost == pytest.approx(executed, rel=0.2, abs=60)


FRAMES = [(2, 3, 12, 5), (1, 2, 40, 40), (3, 1, 77, 30), (1, 4, 160, 80)]  # lines, frames, samples, step


@pytest.mark.parametrize(
    ("board_name", "ending"), [("cortex-m4", "dsp"), ("cortex-m55", "mve"), ("riscv32-zve32x", "rvv")]
)
def test_sums_of_frames(board_name: str, ending: str) -> None:
    cases, costs = [], []
    for number, (lines, frames, size, step) in enumerate(FRAMES):
        values = [count("x", (lines, frames, size)), count("held", (lines, size))]
        graph = node_of("signal_overlap_add", SignalOverlapAdd(step), values)
        rng = np.random.default_rng(number)
        drawn = {value.name: rng.integers(-32768, 32768, value.shape).astype(np.int16) for value in values}
        (kernel,) = (k for k in all_ops()["signal_overlap_add"].every_kernel if k.name.endswith(ending))
        cases.append((graph, [drawn], kernel.name))
        costs.append(offer_of(kernel, Site(graph, graph.nodes[0], Numerics.TFLM)).cost.instructions)
    if board_name != "cortex-m4":
        check_together(cases, board_name=board_name)
        return
    for executed, cost in zip(counts_together(cases), costs, strict=True):
        assert cost == pytest.approx(executed, rel=0.25, abs=60)


MOVES: list[Graph] = [
    graph
    for runs, unit in ((40, 4), (10, 40), (3, 205), (25, 16))
    for x in [tensor("x", (1, runs, unit), 0.1, 7)]
    for graph in (
        one_node("concat", Concat(2), [x, tensor("b", (1, runs, unit + 3), 0.1, 7)], 0.1, 7),
        one_node("pad", Pad((0, 1, 0), (0, 0, 5)), [x], 0.1, 7),
        one_node("slice", Slice((0, 0, 1), (1, runs, unit - 2), (1, 1, 1)), [x], 0.1, 7),
        one_node("broadcast", Broadcast((4, runs, unit)), [x], 0.1, 7),
        one_node("gather", Gather(1), [x, tensor("k", (runs,), dtype="s32")], 0.1, 7),
        one_node("transpose", Transpose((0, 2, 1, 3)), [tensor("x", (1, 3, runs, unit), 0.1, 7)], 0.1, 7),
        one_node("resize_nearest", ResizeNearest((0, 0), (1, 0, 0)), [tensor("x", (1, 2, 3, unit), 0.1, 7)], 0.1, 7),
    )
]


@pytest.mark.parametrize(
    ("board_name", "ending"),
    [("cortex-m4", "thumb2"), ("cortex-m3", "thumb2"), ("cortex-m55", "mve"), ("riscv32-zve32x", "rvv")],
)
def test_copies_of_runs(board_name: str, ending: str) -> None:
    cases, costs = [], []
    for graph in MOVES:
        (node,) = graph.nodes
        kernel = all_ops()[node.op].kernels[[*WORD_CORES].index(ending)]
        assert kernel.name.endswith(ending)
        cases.append((graph, [samples_of(graph)], kernel.name))
        costs.append(offer_of(kernel, Site(graph, node, Numerics.TFLM)).cost.instructions)
    if board_name != "cortex-m4":
        check_together(cases, board_name=board_name)
        return
    for (graph, _, name), executed, cost in zip(cases, counts_together(cases), costs, strict=True):
        print(name, graph.nodes[0].attrs, executed, cost)
        assert cost == pytest.approx(executed, rel=0.2, abs=60)
