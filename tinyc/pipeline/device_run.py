# SPDX-License-Identifier: Apache-2.0
"""`tinyc run`: a model on flashed firmware, over a serial line; its outputs and cycles beside what was expected."""

from __future__ import annotations

import re
import tempfile
from dataclasses import replace
from pathlib import Path
from typing import Any

from tinyc.base.dataclass import dataclass
from tinyc.base.errors import TinycError
from tinyc.base.serial_line import is_of_a_program
from tinyc.base.shown import Shown, Summary, nonempty, proved
from tinyc.board import Board, load_board
from tinyc.explain.cycles import core_of, model_cycles, rules_in_words
from tinyc.options.build import Options
from tinyc.pipeline.compiling import Compiled, compile_model
from tinyc.pipeline.progress import Progress
from tinyc.pipeline.proving import proof_samples
from tinyc.run import Inputs, find_target, firmware_board
from tinyc.run.serial import SerialTarget
from tinyc.toolchain.compile import Firmware, Sources, compile_firmware
from tinyc.toolchain.compilers import find_toolchain
from tinyc.toolchain.device import require_uart
from tinyc.verify.compare import compare, reference_outputs

MODELLED_INFERENCES = 4  # an emulator takes its time


@dataclass(frozen=True, slots=True)
class BoardRun(Shown):
    """What a board computed, against the integer reference. cycles: measured, one for each inference, empty where the
    core counts none. modelled_cycles: of one inference, None without a cycle model or an emulator. ticks: in the place
    of cycles where the port is that of a program and no board (emulated), whose timer counts no cycles of the core."""

    name: str
    board: str
    port: str
    inferences: int
    output_bytes: int
    mismatches: int
    first_input: int | None
    damaged_guards: tuple[str, ...]
    stack_bytes: int | None
    clock_hz: int
    cycles: tuple[int, ...]
    modelled_cycles: int | None
    cycle_model: str | None
    emulated: bool = False
    ticks: tuple[int, ...] = ()

    __repr__ = Shown.text

    def summary(self) -> Summary:
        """Whether the bytes are the reference's, and the cycles."""
        facts = nonempty(
            proved=proved(self.output_bytes, self.mismatches),
            inferences=f"{self.inferences:,}",
            cycles="" if self.mean_cycles is None else f"{self.mean_cycles:,}, measured",
            modelled="" if self.modelled_cycles is None else f"{self.modelled_cycles:,}",
        )
        return Summary(f"{self.name} on {self.board} at {self.port}", facts)

    @property
    def passed(self) -> bool:
        return self.mismatches == 0 and not self.damaged_guards

    @property
    def mean_cycles(self) -> int | None:
        return mean(self.cycles)

    def to_json(self) -> dict[str, Any]:
        return {
            "name": self.name,
            "board": self.board,
            "port": self.port,
            "passed": self.passed,
            "inferences": self.inferences,
            "output_bytes": self.output_bytes,
            "mismatches": self.mismatches,
            "first_input": self.first_input,
            "damaged_guards": list(self.damaged_guards),
            "stack_bytes": self.stack_bytes,
            "clock_hz": self.clock_hz,
            "cycles": list(self.cycles),
            "mean_cycles": self.mean_cycles,
            "modelled_cycles": self.modelled_cycles,
            "cycle_model": self.cycle_model,
            "emulated": self.emulated,
            "ticks": list(self.ticks),
        }


def mean(values: tuple[int, ...]) -> int | None:
    """In whole numbers; None of none."""
    return round(sum(values) / len(values)) if values else None


@dataclass(frozen=True, slots=True)
class DeviceLine:
    """A serial port at which flashed firmware answers. baud: None: the board's."""

    port: str
    baud: int | None = None


def board_target(board: Board, compiled: Compiled, line: DeviceLine) -> SerialTarget:
    """The board at the port, which has to hold this library."""
    return SerialTarget(line.port, line.baud or require_uart(board).baud, version_text(compiled))


def run_on_board(path: Path, options: Options, port: str, baud: int | None, progress: Progress) -> BoardRun:
    """Sends the test inputs to the firmware at the port and compares every output byte.

    The firmware must be that of `tinyc build` with the same options. Raises TinycError when the board does not answer,
    or has another model.
    """
    board = load_board(options.board)
    require_uart(board)
    compiled = compile_model(path, board, options, progress)
    graph, program = compiled.graph, compiled.program
    _, samples = proof_samples(compiled, options)
    rows = (samples.sample(index, graph) for index in range(len(samples)))
    inputs = [[row[name].tobytes() for name in graph.inputs] for row in rows]
    with progress.stage("reference"):
        counted = progress.counted("reference", len(samples))
        expected = reference_outputs(graph, program, samples, counted, samples.sequence)
    with tempfile.TemporaryDirectory(prefix="tinyc-") as name:
        with progress.stage("compile"):
            firmware = _firmware(Path(name), compiled, firmware_board(board, options.emulator), options)
            firmware = replace(firmware, sequence=samples.sequence)
        with progress.stage("run"):
            ran = board_target(board, compiled, DeviceLine(port, baud)).run(firmware, inputs)
        with progress.stage("model"):
            modelled, model = _modelled(firmware, board, options, inputs[:MODELLED_INFERENCES])
    compared, emulated = compare(graph, ran.outputs, expected), is_of_a_program(port)
    return BoardRun(
        name=program.name,
        board=board.name,
        port=port,
        inferences=compared.inputs,
        output_bytes=compared.output_bytes,
        mismatches=compared.mismatches,
        first_input=compared.first_input,
        damaged_guards=ran.damaged_guards,
        stack_bytes=ran.stack_bytes,
        clock_hz=board.clock_hz,
        cycles=() if emulated else ran.cycles,
        modelled_cycles=modelled,
        cycle_model=model,
        emulated=emulated,
        ticks=ran.cycles if emulated else (),
    )


def version_text(compiled: Compiled) -> str:
    """What the library's `_version()` returns."""
    name = compiled.program.name
    match = re.search(rf'{name}_version\(void\)\s*{{\s*return "([^"]*)"', compiled.files[f"{name}.c"])
    return match[1] if match else ""


def _firmware(folder: Path, compiled: Compiled, board: Board, options: Options) -> Firmware:
    for name, text in compiled.files.items():
        (folder / name).write_text(text, encoding="utf-8")
    toolchain = find_toolchain(board, options.toolchain)
    sources = Sources(folder, compiled.program.name)
    return compile_firmware(sources, board, toolchain, compiled.program.optimize, folder / "firmware")


def _modelled(firmware: Firmware, board: Board, options: Options, inputs: Inputs) -> tuple[int | None, str | None]:
    """Modelled cycles of one inference, and by which rules; None where there is no emulator or no model."""
    core = core_of(board.core)
    if core is None:
        return None, None
    try:
        ran = find_target(board, options.emulator).run(firmware, inputs)
    except TinycError:
        return None, None
    modelled = model_cycles(ran, firmware.read_elf(), core)
    return (modelled.total if modelled else None), (rules_in_words(core) if modelled else None)
