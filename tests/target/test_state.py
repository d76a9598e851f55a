# SPDX-License-Identifier: Apache-2.0
"""Models that remember: states in place or stored, resets, sequences, on a core and on the host with sanitizers."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from machines import target_for

from tests.ops.one_node import random_s8, tensor
from tests.ops.test_recurrent import with_states
from tests.target.state_cases import svdf
from tinyc.base.numerics import Numerics
from tinyc.board import load_board
from tinyc.choose.select import candidates
from tinyc.emit.library import Info, emit_library
from tinyc.emit.lower import lower
from tinyc.emit.program import Program
from tinyc.ir.check import check
from tinyc.ir.graph import Array, Graph, Node, State
from tinyc.ops import all_ops
from tinyc.ops.add import Add
from tinyc.ops.concat import Concat
from tinyc.ops.extremum import Extremum
from tinyc.ops.reshape import Reshape
from tinyc.ops.slice import Slice
from tinyc.plan.families import families_of
from tinyc.plan.front import Front
from tinyc.plan.persistent import place_states
from tinyc.plan.states import overwritten
from tinyc.plan.worth import Worth
from tinyc.reference.interpreter import prepare_int
from tinyc.reference.samples import Samples
from tinyc.run.native import load_library
from tinyc.toolchain.compile import Checks, Sources, compile_firmware
from tinyc.toolchain.compilers import find_toolchain
from tinyc.verify.compare import first_difference, reference_outputs

X = (1, 2, 3)
STEPS = 7


def _node(op: str, inputs: str, output: str, attrs: object) -> Node:
    return Node(output, op, tuple(inputs.split()), (output,), attrs)


def delays() -> Graph:
    """A window of the last three inputs (its state in place), and the greatest input so far (stored at the end: the
    node that makes it runs before others that read what it replaces)."""
    window = tensor("window", (1, 4, 3), 0.1, 7)
    named = {v.name: v for v in (tensor("x", X, 0.1, 7), window, tensor("all", (1, 6, 3), 0.1, 7))}
    named |= {v.name: v for v in (tensor("later", (1, 4, 3), 0.1, 7), tensor("flat", (1, 1, 6), 0.1, 7))}
    named |= {v.name: v for v in (tensor("most", (1, 1, 6), 0.1, 7), tensor("top", (1, 1, 6), 0.1, 7))}
    named |= {v.name: v for v in (tensor("y", (1, 6, 3), 0.2, 3), tensor("z", (1, 1, 6), 0.2, 3))}
    first = tensor("seen", (1, 6, 3), 0.1, 7)
    named[first.name] = first
    nodes = (
        _node("concat", "window x", "all", Concat(1)),
        _node("slice", "all", "later", Slice((0, 2, 0), (1, 4, 3), (1, 1, 1))),
        _node("slice", "all", "seen", Slice((0, 5, 0), (1, 6, 3), (1, -1, 1))),
        _node("reshape", "x", "flat", Reshape((1, 1, 6))),
        _node("extremum", "flat most", "top", Extremum(largest=True)),
        _node("add", "top most", "z", Add()),
        _node("add", "all seen", "y", Add()),
    )
    states = (
        State("window", "later", random_s8(5, (1, 4, 3)).tobytes()),
        State("most", "top", np.full(6, -128, np.int8).tobytes()),
    )
    graph = Graph("delays", ("x",), ("y", "z"), nodes, named, {}, states)
    check(graph, "test", all_ops())
    return graph


def library(graph: Graph, board: str) -> Program:
    choices = candidates(graph, load_board(board).isa, Numerics.TFLM)
    best = Front(families_of(graph, choices)).best(Worth(1 / 3, 1 / 3))
    assert best is not None
    plan = place_states(graph, best.plan)
    return lower(graph, plan, Numerics.TFLM, "toy")


def files_of(program: Program, folder: Path) -> Path:
    for file, text in emit_library(program, Info("toy", "0" * 64, "any")).items():
        (folder / file).write_text(text)
    return folder


def inputs_of(graph: Graph) -> list[Array]:
    return [random_s8(20 + k, graph.values["x"].shape) for k in range(STEPS)]


def expected(graph: Graph, inputs: Sequence[Array]) -> list[list[bytes]]:
    run = prepare_int(graph, Numerics.TFLM)
    return [
        [run_outputs[name].tobytes() for name in graph.outputs]
        for run_outputs in run.sequence({"x": x} for x in inputs)
    ]


def test_only_what_all_readers_precede_is_written_in_place() -> None:
    assert overwritten(delays()) == {"later": "window"}
    layer = with_states(svdf(5, 2, 3, 7), {"state": "after"})
    assert overwritten(layer) == {"after": "state"}


def test_states_lie_behind_all_other_buffers() -> None:
    program = library(delays(), "cortex-m4")
    window, most = program.states
    assert program.state_offset == window.place.offset
    assert (most.place.offset, most.place.end) == (window.place.end, program.arena_bytes)
    assert window.computed is None
    assert window.data is not None
    assert most.data is None
    assert most.computed is not None
    others = [place.end for step in program.steps for place in step.outputs if place.value.name != "later"]
    assert max(others) <= program.state_offset


@pytest.mark.parametrize(
    ("name", "board"),
    [
        ("delays", "cortex-m4"),
        ("svdf", "host"),
        *(pytest.param(*pair, marks=pytest.mark.slow) for pair in (("svdf", "riscv32imc"), ("delays", "host"))),
    ],
)
def test_sequences_give_the_bytes_of_the_reference(tmp_path: Path, name: str, board: str) -> None:
    """All runs as one sequence, and again with a reset after each three; noise in all of the arena but the state."""
    graph = delays() if name == "delays" else with_states(svdf(5, 2, 3, 7), {"state": "after"})
    machine = load_board(board)
    target = target_for(board, None)
    folder = files_of(library(graph, board), tmp_path)
    compiler = find_toolchain(machine, "gcc")
    firmware = compile_firmware(
        Sources(folder, "toy"), machine, compiler, "speed", tmp_path / "firmware", Checks(sanitize=machine.is_host)
    )
    assert firmware.info.has_state
    inputs = inputs_of(graph)
    once = target.run(firmware, [[x.tobytes()] for x in inputs])
    assert [list(outputs) for outputs in once.outputs] == expected(graph, inputs)
    assert not once.damaged_guards
    again = target.run(replace(firmware, sequence=3), [[x.tobytes()] for x in inputs])
    parts = [expected(graph, inputs[start : start + 3]) for start in range(0, STEPS, 3)]
    assert [list(outputs) for outputs in again.outputs] == [outputs for part in parts for outputs in part]
    assert once.outputs != again.outputs


def test_reference_outputs_reset_as_the_firmware_does() -> None:
    graph = delays()
    inputs = inputs_of(graph)
    program = library(graph, "host")
    outputs_by_sample = reference_outputs(graph, program, Samples({"x": np.stack(inputs)}, None, "test"), sequence=4)
    parts = [*expected(graph, inputs[:4]), *expected(graph, inputs[4:])]
    assert [[array.tobytes() for array in outputs] for outputs in outputs_by_sample] == parts


def test_a_difference_late_in_a_sequence_is_traced_to_its_step() -> None:
    graph = delays()
    program = library(graph, "host")
    samples = [{"x": x} for x in inputs_of(graph)]
    (*_, values) = prepare_int(graph, Numerics.TFLM).sequence(samples, keep="all")
    dumped = {step.index: values[step.outputs[0].value.name].tobytes() for step in program.steps}
    assert first_difference(graph, program, samples, dumped) is None
    step = next(step for step in program.steps if step.outputs[0].value.name == "top")
    dumped[step.index] = bytes(6)
    assert str(first_difference(graph, program, samples, dumped)).startswith(f"step {step.index} ")


def test_python_runs_samples_as_a_sequence(tmp_path: Path) -> None:
    graph = delays()
    loaded = load_library(files_of(library(graph, "host"), tmp_path))
    inputs = inputs_of(graph)
    for _ in range(2):  # every call begins with a reset
        y, z = loaded.run(np.concatenate(inputs))
        reference = expected(graph, inputs)
        assert [y[k].tobytes() for k in range(STEPS)] == [outputs[0] for outputs in reference]
        assert [z[k].tobytes() for k in range(STEPS)] == [outputs[1] for outputs in reference]
