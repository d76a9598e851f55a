# SPDX-License-Identifier: Apache-2.0
"""What a build adds to the proved library: firmware for the board itself, and files for Renode."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np

from tinyc.board import Board
from tinyc.build.device import TASKS, Protocol, build_device, require_uart
from tinyc.build.runner_files import write_runner_files
from tinyc.build.toolchain import Toolchain
from tinyc.build.uart import at_baud
from tinyc.emit.program import Program
from tinyc.ir.graph import Array, Graph
from tinyc.reference.samples import Samples
from tinyc.run.renode import MOST_INFERENCES, Expected, check_renode_board, write_renode
from tinyc.verify.compare import reference_outputs

DEVICE = "device"
RENODE = "renode"
RUNNER = "runner"  # in DEVICE


def check_request(board: Board, protocol: Protocol, task: str | None, baud: int | None, emulator: str | None) -> None:
    """Raises TinycError, before anything is compiled, when the board cannot have what is asked for."""
    if protocol == "mlperf" or task is not None or baud is not None:
        at_baud(require_uart(board), baud, None)
    if emulator == RENODE:
        check_renode_board(board)


def add_device(
    folder: Path,
    model: str,
    board: Board,
    toolchain: Toolchain,
    protocol: Protocol,
    task: str | None,
    baud: int | None,
    cycles: int | None,
) -> None:
    """Writes `<folder>/device/` where the board has a UART. The library and its object are in the folder already.
    cycles: of one inference, for the files that MLPerf Tiny's runner wants; None if not known."""
    if board.uart is None:
        return
    library = folder / "firmware" / f"{model}.o"
    device = build_device(folder, model, board, toolchain, library, folder / DEVICE, protocol, task, baud)
    if protocol == "mlperf" and task in TASKS and not TASKS[task].frame_bytes:
        seconds = cycles / board.clock_hz if cycles is not None and board.clock_hz else None
        write_runner_files(folder / DEVICE / RUNNER, board.name, task, device.baud, seconds)


def add_renode(
    folder: Path,
    graph: Graph,
    program: Program,
    samples: Samples,
    board: Board,
    toolchain: Toolchain,
    instructions: int | None,
    machine: str,
) -> None:
    """Writes `<folder>/renode/`: the first samples with the integer reference's outputs."""
    few = samples.slice(0, min(MOST_INFERENCES, len(samples)))
    inputs = [[_bytes(few.sample(i, graph)[name]) for name in graph.inputs] for i in range(len(few))]
    expected = Expected(inputs, _rows(reference_outputs(graph, program, few)), instructions, machine)
    library = folder / "firmware" / f"{program.name}.o"
    write_renode(folder / RENODE, folder, program.name, board, toolchain, library, expected)


def _rows(outputs: Sequence[Sequence[Array]]) -> list[list[bytes]]:
    return [[_bytes(array) for array in tensors] for tensors in outputs]


def _bytes(array: Array) -> bytes:
    return np.ascontiguousarray(array).tobytes()
