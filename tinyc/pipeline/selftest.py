# SPDX-License-Identifier: Apache-2.0
"""Whether firmware for a board can be built and run here: a small model goes the whole way, on every emulator."""

from __future__ import annotations

import tempfile
from pathlib import Path

import numpy as np

from tinyc.base.dataclass import dataclass
from tinyc.base.errors import TinycError
from tinyc.base.numerics import Numerics
from tinyc.board import Board
from tinyc.choose.select import candidates
from tinyc.emit.library import Info, emit_library
from tinyc.emit.lower import lower
from tinyc.ir.check import check
from tinyc.ir.graph import Graph, Quant, Value, read_only
from tinyc.kernels.scalar.loops.headers import cores_of
from tinyc.ops import all_ops, node_of
from tinyc.ops.fully_connected import FullyConnected
from tinyc.options.build import Options
from tinyc.pipeline.compiling import Compiled
from tinyc.pipeline.progress import Progress
from tinyc.pipeline.proving import prove
from tinyc.plan import plan_graph
from tinyc.toolchain.compile import Sources, compile_library
from tinyc.toolchain.compilers import find_toolchain
from tinyc.toolchain.device import build_device

IN, OUT = 9, 5


@dataclass(frozen=True, slots=True)
class BoardCheck:
    """What came of one emulator of a board: machine, compiler and executed instructions, or the problem."""

    board: str
    machine: str
    toolchain: str
    instructions: int | None
    problem: str | None
    hint: str

    @property
    def passed(self) -> bool:
        return self.problem is None


def check_board(board: Board) -> tuple[BoardCheck, ...]:
    """A check for every emulator that the board's description names; for the host, of the computer itself."""
    emulators = [name for name, there in (("qemu", board.qemu), ("unicorn", board.unicorn)) if there is not None]
    return tuple(_check(board, emulator) for emulator in (["host"] if board.is_host else emulators))


def _check(board: Board, emulator: str) -> BoardCheck:
    try:
        report = prove(_compiled(board), board, Options(board=board.name, emulator=emulator), Progress())
    except TinycError as error:
        return BoardCheck(board.name, emulator, "", None, error.message, error.hint)
    problem = None if report.passed else f"outputs differ: {report.verify.first_difference}"
    if problem is None and board.uart is not None:
        problem = _device_problem(board)
    return BoardCheck(board.name, report.machine, report.toolchain, report.instructions, problem, "")


def _device_problem(board: Board) -> str | None:
    """Why firmware for the board itself cannot be built; None when it can."""
    compiled = _compiled(board)
    name = compiled.program.name
    with tempfile.TemporaryDirectory(prefix="tinyc-") as folder_name:
        folder = Path(folder_name)
        for file, text in compiled.files.items():
            (folder / file).write_text(text, encoding="utf-8")
        try:
            toolchain = find_toolchain(board)
            sources = Sources(folder, name)
            library = compile_library(sources, toolchain, "balanced", folder / f"{name}.o")
            build_device(sources, board, toolchain, library, folder / "device")
        except TinycError as error:
            return f"firmware for the board itself: {error.message}"
    return None


def _compiled(board: Board) -> Compiled:
    graph = small_graph()
    check(graph, "selftest", all_ops())
    # What needs most of what the board claims to have.
    every = candidates(graph, board.isa, Numerics.TFLM)
    choices = {node: max(own, key=lambda choice: len(choice.kernel.isa)) for node, own in every.items()}
    plan = plan_graph(graph, choices)
    program = lower(graph, plan, Numerics.TFLM, "selftest")
    files = emit_library(program, Info("selftest", "0" * 64, board.name, loops=cores_of(board.core, board.isa)))
    return Compiled(Path("selftest"), "0" * 64, None, graph, program, files, None, plan)


def small_graph() -> Graph:
    """y = x * w + b, 9 inputs and 5 outputs, with zero points, and results that saturate."""
    w = (np.arange(IN * OUT, dtype=np.int64) * 37 % 255 - 127).astype(np.int8).reshape(OUT, IN)
    b = np.arange(OUT, dtype=np.int32) * 1000 - 2000
    values = [
        Value("x", (1, IN), "s8", Quant((0.5,), (3,))),
        Value("w", (OUT, IN), "s8", Quant((0.25,), (0,))),
        Value("b", (OUT,), "s32", Quant((0.125,), (0,))),
        Value("y", (1, OUT), "s8", Quant((20.0,), (-5,))),
    ]
    node = node_of(FullyConnected(), ("x", "w", "b"), ("y",), name="dense")
    consts = {"w": read_only(w), "b": read_only(b)}
    return Graph("selftest", ("x",), ("y",), (node,), {value.name: value for value in values}, consts)
