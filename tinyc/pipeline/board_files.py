# SPDX-License-Identifier: Apache-2.0
"""What a build adds to the proved library: firmware for the board itself, and files for Renode."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np

from tinyc.board import Board
from tinyc.ir.graph import Array
from tinyc.pipeline.compiling import Compiled
from tinyc.reference.samples import Samples
from tinyc.run.renode import MOST_INFERENCES, Expected, check_renode_board, write_renode
from tinyc.toolchain.compile import Sources
from tinyc.toolchain.compilers import Toolchain
from tinyc.toolchain.device import TASKS, Dialogue, build_device, require_uart
from tinyc.toolchain.runner_files import write_runner_files
from tinyc.toolchain.uart import at_baud
from tinyc.verify.compare import reference_outputs
from tinyc.verify.report import Report

DEVICE = "device"
RENODE = "renode"
RUNNER = "runner"  # in DEVICE


def check_request(board: Board, dialogue: Dialogue, emulator: str | None) -> None:
    """Raises TinycError, before anything is compiled, when the board cannot have what is asked for."""
    if dialogue != Dialogue():
        at_baud(require_uart(board), dialogue.baud, None)
    if emulator == RENODE:
        check_renode_board(board)


def add_device(sources: Sources, board: Board, toolchain: Toolchain, dialogue: Dialogue, cycles: int | None) -> None:
    """Writes `device/` beside the library where the board has a UART. The library's object is there already.
    cycles: of one inference, for the files that MLPerf Tiny's runner wants; None if not known."""
    if board.uart is None:
        return
    folder, task = sources.folder / DEVICE, dialogue.task
    device = build_device(sources, board, toolchain, _object(sources), folder, dialogue)
    if dialogue.protocol == "mlperf" and task in TASKS and not TASKS[task].frame_bytes:
        seconds = cycles / board.clock_hz if cycles is not None and board.clock_hz else None
        write_runner_files(folder / RUNNER, board.name, task, device.baud, seconds)


def _object(sources: Sources) -> Path:
    return sources.folder / "firmware" / f"{sources.name}.o"


def add_renode(
    folder: Path, compiled: Compiled, samples: Samples, board: Board, toolchain: Toolchain, report: Report
) -> None:
    """Writes `<folder>/renode/`: the first samples with the integer reference's outputs, and the report's counts."""
    graph, program = compiled.graph, compiled.program
    few = samples.slice(0, min(MOST_INFERENCES, len(samples)))
    inputs = [[_bytes(few.sample(i, graph)[name]) for name in graph.inputs] for i in range(len(few))]
    expected = Expected(inputs, _rows(reference_outputs(graph, program, few)), report.instructions, report.machine)
    sources = Sources(folder, program.name)
    write_renode(folder / RENODE, sources, board, toolchain, _object(sources), expected)


def _rows(outputs: Sequence[Sequence[Array]]) -> list[list[bytes]]:
    return [[_bytes(array) for array in tensors] for tensors in outputs]


def _bytes(array: Array) -> bytes:
    return np.ascontiguousarray(array).tobytes()
