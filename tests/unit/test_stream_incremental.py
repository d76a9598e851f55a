# SPDX-License-Identifier: Apache-2.0
"""Incremental libraries: after every call the output is that of the whole model on the last window."""

from __future__ import annotations

import ctypes
import subprocess
import tempfile
from functools import cache
from pathlib import Path

import numpy as np
import pytest

from tests.load.onnx_models import load
from tests.ops.harness import HOST_ISA
from tests.ops.sanitized import WARNINGS
from tests.unit.networks import Network
from tests.unit.stream_cases import NUMERICS, integer_graph, window_plan
from tinyc.base.errors import TinycError
from tinyc.emit.library import Info, emit_library
from tinyc.emit.lower import lower
from tinyc.ir.check import check
from tinyc.ir.graph import Array, Graph
from tinyc.ops import all_ops
from tinyc.passes import normalize
from tinyc.passes.inputs import take_inputs_as_computed
from tinyc.plan import validate
from tinyc.plan.answer import Plan
from tinyc.plan.rows import without_time_padding
from tinyc.quantize import UNPROVEN, Calibration, quantize_model
from tinyc.reference.interpreter import prepare_int

CORES = {"m55": frozenset({"dsp", "mve", "fpu"}), "plain": frozenset[str]()}


@cache
def network(strided: bool, padded: bool = False) -> Graph:
    """Convolutions over time without padding (columns are padded), a residual, then the average of all moments."""
    net = Network(3)
    net.input_shape = net.shape = (1, 2, 18, 5)
    rows = 1 if padded else 0

    def conv(out_c: int, k_h: int, stride: int = 1, groups: int = 1) -> None:
        _, c, h, w = net.shape
        weights = net.constant(out_c, c // groups, k_h, 3, scale=0.3)
        net.add("Conv", net.x, weights, pads=[rows, 1, rows, 1], strides=[stride, 1], group=groups)
        net.shape = (1, out_c, (h + 2 * rows - k_h) // stride + 1, w)

    conv(6, 3)
    net.relu()
    conv(6, 4, groups=6)
    net.pointwise()
    net.relu()
    before = net.x
    c = net.shape[1]
    net.add("Conv", net.x, net.constant(c, c, 1, 1))
    net.add("Add", before, net.x)
    conv(4, 3, 2 if strided else 1)
    net.add("GlobalAveragePool", net.x)
    net.add("Flatten", net.x)
    net.add("Gemm", net.x, net.constant(3, 4), net.constant(3), transB=1)
    with tempfile.TemporaryDirectory() as folder:
        graph = normalize(load(net.model(), Path(folder)))
    inputs = {"x": np.random.default_rng(1).standard_normal((4, *graph.values["x"].shape)).astype(np.float32)}
    data = Calibration(inputs, "synthetic", False)
    return take_inputs_as_computed(normalize(quantize_model(graph, data, UNPROVEN))).graph


def planned(graph: Graph, hop: int, isa: frozenset[str] = HOST_ISA) -> Plan:
    plan = window_plan(graph, hop, isa)
    validate(plan)
    return plan


class Streamed:
    """The library of a plan, on an arena of noise."""

    def __init__(self, graph: Graph, plan: Plan, folder: Path) -> None:
        program = lower(graph, plan, NUMERICS, "unit")
        for name, text in emit_library(program, Info("unit", "0" * 64, "host")).items():
            (folder / name).write_text(text)
        command = ["gcc", "-std=c99", "-O1", "-fPIC", "-shared", *WARNINGS, "unit.c", "-o", "unit.so"]
        subprocess.run(command, cwd=folder, check=True, timeout=120)
        self.library = ctypes.CDLL(str(folder / "unit.so"))
        self.library.unit_output_0.restype = ctypes.c_void_p
        self.bytes = program.arena_bytes
        assert program.incremental is not None
        self.window = program.incremental.window
        memory = np.random.default_rng(9).integers(0, 256, self.bytes + 16 + 64).astype(np.uint8)
        start = -memory.ctypes.data % 16
        self.arena, self.behind = memory[start : start + self.bytes], memory[start + self.bytes :]
        self.guard = self.behind.copy()
        self.size = graph.values[graph.outputs[0]].elements
        self.library.unit_reset(ctypes.c_void_p(self.arena.ctypes.data))

    def push(self, rows: Array) -> Array | None:
        """The output; None: not ready yet."""
        given = np.ascontiguousarray(rows)
        at = ctypes.c_void_p(self.arena.ctypes.data)
        data = ctypes.c_void_p(given.ctypes.data)
        assert self.library.unit_push_rows(ctypes.c_void_p(at.value + 1), data) == 1  # not aligned
        status = self.library.unit_push_rows(at, data)
        assert status in (0, 3)
        assert np.array_equal(self.behind, self.guard)
        offset = self.library.unit_output_0(at) - self.arena.ctypes.data
        return self.arena[offset : offset + self.size].view(np.int8).copy() if status == 0 else None


def check_stream(graph: Graph, hop: int, folder: Path, isa: frozenset[str] = HOST_ISA) -> None:
    """Every output of a long stream against the whole window."""
    name = graph.inputs[0]
    run = prepare_int(graph, NUMERICS)
    library = Streamed(graph, planned(graph, hop, isa), folder)
    window, shape = library.window, graph.values[name].shape
    row = graph.values[name].elements // window
    stream = np.random.default_rng(4).integers(-128, 128, (window + 8 * hop, row)).astype(np.int8)
    for end in range(hop, len(stream) + 1, hop):
        got = library.push(stream[end - hop : end])
        assert (got is None) == (end < window)
        if got is not None:
            seen = stream[end - window : end].reshape(shape)
            np.testing.assert_array_equal(got, run({name: seen})[graph.outputs[0]].ravel())


@pytest.mark.quick_cases(2)
@pytest.mark.parametrize(("seed", "hop", "isa"), [(5, 1, "m55"), (5, 4, "m55"), (25, 4, "m55"), (25, 2, "plain")])
def test_random_networks(seed: int, hop: int, isa: str, tmp_path: Path) -> None:
    """Where a dense layer sees a window as one row, a kept row moves up over itself, and a product could take the place
    of rows that the next call needs."""
    check_stream(without_time_padding(integer_graph(seed)), hop, tmp_path, CORES[isa])


@pytest.mark.quick_cases(2)
@pytest.mark.parametrize(("strided", "hop"), [(False, 1), (False, 3), (False, 11), (True, 2), (True, 4)])
def test_every_output_is_that_of_the_last_window(strided: bool, hop: int, tmp_path: Path) -> None:
    check_stream(network(strided), hop, tmp_path)


def test_without_padding_it_is_the_model_over_a_longer_window(tmp_path: Path) -> None:
    padded = network(False, padded=True)
    graph = without_time_padding(padded)
    assert graph.values["x"].shape[1] > padded.values["x"].shape[1]
    check_stream(graph, 1, tmp_path)


@cache
def residual(kind: str) -> Graph:
    """Residual blocks whose branches pad in time differently, or one inside the other; then the average."""
    net = Network(5)
    net.input_shape = net.shape = (1, 2, 15, 4)

    def conv(out_c: int, k_h: int, stride: int = 1, top: int = 1, bottom: int = 1) -> None:
        _, c, h, w = net.shape
        net.add("Conv", net.x, net.constant(out_c, c, k_h, 3, scale=0.3), pads=[top, 1, bottom, 1], strides=[stride, 1])
        net.shape = (1, out_c, (h + top + bottom - k_h) // stride + 1, w)

    conv(4, 3)
    before = net.x
    conv(4, 3)
    net.relu()
    if kind == "nested":
        inner = net.x
        conv(4, 5, top=3)
        net.add("Add", inner, net.x)
    conv(4, 3, top=2, bottom=0)
    around = net.x
    if kind == "both":
        net.x = before
        conv(4, 5, top=2, bottom=2)
        before = net.x
    net.add("Add", before, around)
    conv(4, 3, 2 if kind == "strided" else 1)
    net.add("GlobalAveragePool", net.x)
    net.add("Flatten", net.x)
    with tempfile.TemporaryDirectory() as folder:
        graph = normalize(load(net.model(), Path(folder)))
    inputs = {"x": np.random.default_rng(1).standard_normal((4, *graph.values["x"].shape)).astype(np.float32)}
    data = Calibration(inputs, "synthetic", False)
    return take_inputs_as_computed(normalize(quantize_model(graph, data, UNPROVEN))).graph


@pytest.mark.quick_cases(2)
@pytest.mark.parametrize(("kind", "hop"), [("plain", 1), ("plain", 3), ("nested", 1), ("both", 2), ("strided", 2)])
def test_the_branch_around_the_windows_is_cropped(kind: str, hop: int, tmp_path: Path) -> None:
    graph = without_time_padding(residual(kind))
    assert any(node.op == "slice" for node in graph.nodes)
    check(graph, "stream", all_ops())
    check_stream(graph, hop, tmp_path)


def test_moments_inside_the_window_are_those_of_the_model() -> None:
    """The window grows by what the layers pad; the branch around the block loses what the block's own layers do."""
    model = residual("plain")
    longer = without_time_padding(model)
    added = longer.values["x"].shape[1] - model.values["x"].shape[1]
    assert added == (1 + 1) + (1 + 1) + (2 + 0) + (1 + 1)
    block = next(node for node in longer.nodes if node.op == "slice")
    begin, left = block.attrs.begin[1], longer.values[block.inputs[0]].shape[1] - block.attrs.size[1]
    assert (begin, left - begin) == (1 + 2, 1 + 0)


def test_a_call_computes_only_what_is_new() -> None:
    plan = planned(network(False), 1)
    walks = [layer.walk for layer in plan.problem.layers if layer.walk is not None]
    assert walks
    assert all(walk.turns == 1 for walk in walks)


@pytest.mark.parametrize(
    ("graph", "hop", "word"),
    [
        (network(False, padded=True), 1, "pads in time, 1 rows before and 1 after"),
        (network(True), 3, "takes one row of 2, but a call gives it 3 new ones"),
        (network(False), 12, "looks at 11 rows, but a call gives it 12 new ones"),
    ],
    ids=["padding", "stride", "hop"],
)
def test_the_layer_that_stops_it_is_named(graph: Graph, hop: int, word: str) -> None:
    with pytest.raises(TinycError) as caught:
        planned(graph, hop)
    assert word in caught.value.message
    assert caught.value.where is not None
    assert "--stream-unpadded" in str(caught.value.hint)
