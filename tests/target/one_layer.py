"""One-layer models on an emulated core, with a kernel of choice."""

from __future__ import annotations

import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np
import pytest
from machines import target_for

from tinyc.board import load_board
from tinyc.build.compile import compile_firmware
from tinyc.build.toolchain import find_toolchain
from tinyc.emit.library import Info, emit_library
from tinyc.errors import TinycError
from tinyc.ir.graph import Array, Graph
from tinyc.lower import lower
from tinyc.numerics import Numerics
from tinyc.plan.planner import plan_graph
from tinyc.reference import run_int
from tinyc.run import RunResult
from tinyc.select import select


def check_on_core(
    graph: Graph,
    samples: Sequence[Mapping[str, Array]],
    kernel: str,
    numerics: Numerics = Numerics.TFLM,
    toolchain: str = "gcc",
    board_name: str = "cortex-m4",
) -> RunResult:
    """Assert that the model, planned as for users, gives the reference's bytes on the core; the run."""
    board = load_board(board_name)
    target = target_for(board_name, None)
    try:
        compiler = find_toolchain(board, toolchain)
    except TinycError as error:
        pytest.skip(error.message)
    choices = select(graph, board.isa, numerics, prefer={node.name: kernel for node in graph.nodes})
    program = lower(graph, choices, plan_graph(graph, choices, slide=True), numerics, "one")
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        for file, text in emit_library(program, Info("one", "0" * 64, board.name)).items():
            (folder / file).write_text(text)
        firmware = compile_firmware(folder, "one", board, compiler, "speed", folder / "firmware")
        ran = target.run(firmware, [[sample[x].tobytes() for x in graph.inputs] for sample in samples])
    assert not ran.damaged_guards
    for sample, outputs in zip(samples, ran.outputs, strict=True):
        wanted = run_int(graph, sample, numerics)
        for output, found in zip(graph.outputs, outputs, strict=True):
            np.testing.assert_array_equal(
                np.frombuffer(found, wanted[output].dtype).reshape(wanted[output].shape), wanted[output]
            )
    return ran
