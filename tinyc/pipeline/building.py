# SPDX-License-Identifier: Apache-2.0
"""The commands that go all the way: build keeps a folder, verify keeps nothing."""

from __future__ import annotations

import json
import shlex
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from tinyc import __version__
from tinyc.base.errors import Loc, TinycError
from tinyc.base.names import identifier
from tinyc.base.one_thread import one_thread
from tinyc.base.output_folder import REPORT_FILE, check_replaceable, replacing
from tinyc.board import Board, load_board
from tinyc.emit.library import marked_unproved
from tinyc.options.build import Options
from tinyc.package.sbom import SBOM_FILE, bill_of_materials
from tinyc.pipeline.board_files import RENODE, add_device, add_renode, check_request
from tinyc.pipeline.compiling import Compiled, compile_model
from tinyc.pipeline.fronting import front_of_model
from tinyc.pipeline.progress import Progress
from tinyc.pipeline.proving import (
    holds_window,
    proof_samples,
    prove,
    prove_in,
    proved_files,
    write_proof,
    write_unproved,
)
from tinyc.run import find_target
from tinyc.run.renode_target import find_renode
from tinyc.toolchain.compile import Sources
from tinyc.toolchain.compilers import Toolchain, find_toolchain
from tinyc.toolchain.device import Dialogue
from tinyc.toolchain.disassembly import check_disassembler
from tinyc.verify.front import ModelFront
from tinyc.verify.report import Report, UnprovedReport
from tinyc.verify.report_file import read_report

UNPROVED_HINT = (
    "nobody has run this library; `tinyc verify FOLDER` proves it where an emulator for the board is installed"
)


@one_thread
def build(
    path: Path, out: Path | None, options: Options, progress: Progress, *, with_front: bool = False
) -> tuple[Report | UnprovedReport, Path]:
    """The report of a model that was compiled, run on the board's machine and verified; and its folder.

    The folder (default `build/<name>`) holds the library, `firmware/` and `report.json`; it appears complete or not at
    all. With it come `device/`, firmware for the board itself where that has a UART, and `renode/` when that is the
    emulator: `run_renode` runs what was written; the proof is another emulator's where Renode is not installed.
    with_front: the report has the model's front, where there is one. Without a proof (`options.proof`) neither compiler
    nor emulator is needed, and the folder holds the library, its report and its bill of materials only. Raises
    TinycError, with exit code 1 when the model does not fit the board.
    """
    board = load_board(options.board)
    check_request(board, _dialogue(options), options.emulator)
    without = options.emulator == RENODE and find_renode(board) is None
    proof = replace(options, emulator=None) if without else options
    target_folder = out or Path("build") / identifier(options.name or path.stem)
    check_replaceable(target_folder)
    if options.proof:
        _check_tools(board, proof)
    compiled = compile_model(path, board, options, progress)
    if not options.proof:
        compiled = replace(compiled, files=marked_unproved(compiled.files, compiled.program.name))
    front = _front(path, options, progress) if with_front else None
    report: Report | UnprovedReport
    with replacing(target_folder) as folder:
        if options.proof:
            report = replace(prove_in(folder, compiled, board, proof, progress), front=front)
            _write_proved(folder, compiled, board, options, report, progress)
        else:
            written = write_unproved(folder, compiled, board, options, _toolchain(board, options), progress)
            report = replace(written, front=front)
            progress.on_warning(f"not proved, as asked: {UNPROVED_HINT}")
            _write_reports(folder, compiled, report)
    return report, target_folder


def _front(path: Path, options: Options, progress: Progress) -> ModelFront | None:
    """None for libraries that are called for every window or row."""
    return None if options.input_rows or options.by_calls else front_of_model(path, options, progress)


def _write_proved(
    folder: Path, compiled: Compiled, board: Board, options: Options, report: Report, progress: Progress
) -> None:
    """Into the folder of a library that was proved: its banner, firmware for the board itself, the reports."""
    compiled = write_proof(folder, compiled, report)
    with progress.stage("device"):
        _add_for_board(folder, compiled, board, options, report, progress)
    _write_reports(folder, compiled, report)


def _write_reports(folder: Path, compiled: Compiled, report: Report | UnprovedReport) -> None:
    _write_json(folder / REPORT_FILE, report.to_json())
    _write_json(folder / SBOM_FILE, bill_of_materials(report, compiled.files))


def _write_json(file: Path, value: Any) -> None:
    file.write_text(json.dumps(value, indent=2) + "\n", encoding="utf-8")


def _toolchain(board: Board, options: Options) -> Toolchain | None:
    """Where nothing is proved a compiler tells sizes; one that the user names has to be there."""
    if options.toolchain is not None:
        return find_toolchain(board, options.toolchain)
    try:
        check_disassembler(board)
        return find_toolchain(board, None)
    except TinycError:
        return None


def _check_tools(board: Board, options: Options) -> None:
    """Raises for a missing tool now, not after minutes of quantizing."""
    check_disassembler(board)
    find_toolchain(board, options.toolchain)
    find_target(board, options.emulator)


def _add_for_board(
    folder: Path, compiled: Compiled, board: Board, options: Options, report: Report, progress: Progress
) -> None:
    toolchain = find_toolchain(board, options.toolchain)
    if holds_window(board, compiled, options):
        cycles = report.cycles if report.cycles is not None else report.instructions
        add_device(Sources(folder, compiled.program.name), board, toolchain, _dialogue(options), cycles)
    else:
        progress.on_warning("no firmware for the board itself: beside the library its RAM cannot hold a whole input")
    if options.emulator == RENODE:
        _, samples = proof_samples(compiled, options)
        add_renode(folder, compiled, samples, board, toolchain, report)


@one_thread
def verify_model(path: Path, options: Options, progress: Progress) -> Report:
    """Like `build`, in a temporary folder of which nothing is kept."""
    board = load_board(options.board)
    _check_tools(board, options)
    return prove(compile_model(path, board, options, progress), board, options, progress)


@one_thread
def prove_built(path: Path, folder: Path, options: Options, progress: Progress) -> Report:
    """Proves the library that `build` wrote into the folder, with the same model and options. Where it was written
    without a proof, the folder becomes what `build` with a proof would have written; else it stays as it is.

    Raises TinycError, with exit code 2 and the folder as it was, where it holds another library, or one that was
    changed.
    """
    board = load_board(options.board)
    earlier = read_report(folder / REPORT_FILE)
    if isinstance(earlier, UnprovedReport):
        check_replaceable(folder)
    _check_tools(board, options)
    compiled = compile_model(path, board, options, progress)
    _check_written(folder, compiled, earlier)
    if isinstance(earlier, Report):
        return prove(compiled, board, options, progress)
    with replacing(folder) as fresh:
        arguments = tuple(word for word in earlier.arguments if word != "--no-proof")
        report = replace(prove_in(fresh, compiled, board, options, progress), arguments=arguments)
        _write_proved(fresh, compiled, board, options, report, progress)
    return report


def _check_written(folder: Path, compiled: Compiled, report: Report | UnprovedReport) -> None:
    """Raises TinycError where the folder's library is not, byte for byte, the one that was compiled, but for what its
    banner says of the proof."""
    name = compiled.program.name
    asked = shlex.join(["tinyc", "build", report.model, *report.arguments])
    same = f"it was written by tinyc {report.tinyc}, `{asked}`: give the same model and options"
    if report.name != name:
        raise TinycError(f"the library there is called {report.name}, this model's {name}", Loc(str(folder)), same)
    files: Mapping[str, str]
    if isinstance(report, UnprovedReport):
        files = marked_unproved(compiled.files, name)
    else:
        files = proved_files(compiled, report)
    written = {file: text.encode() for file, text in files.items()}
    if compiled.blob is not None:
        written[f"{name}.blob"] = compiled.blob
    for file, content in sorted(written.items()):
        if not (folder / file).is_file() or (folder / file).read_bytes() != content:
            raise TinycError(
                f"{file} is not what this model and these options give, with tinyc {__version__}",
                Loc(str(folder)),
                same,
            )


def _dialogue(options: Options) -> Dialogue:
    """How the firmware for the board itself speaks."""
    return Dialogue(options.harness, options.task, options.baud)
