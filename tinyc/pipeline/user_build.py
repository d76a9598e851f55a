# SPDX-License-Identifier: Apache-2.0
"""A library that the user has built, with other flags, another compiler or linker script, against the reference."""

from __future__ import annotations

import re
import tempfile
from collections.abc import Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

from tinyc.base.dataclass import dataclass
from tinyc.base.errors import Loc, TinycError
from tinyc.board import Board, load_board
from tinyc.options.build import Options
from tinyc.pipeline.compiling import Compiled, compile_model
from tinyc.pipeline.progress import Progress
from tinyc.pipeline.proving import as_integers, chosen_samples, input_bytes, run_samples, with_window
from tinyc.reference.samples import Samples
from tinyc.run import RunError, find_target, firmware_board
from tinyc.run.linked import DIGEST, LinkedRun, identity_of, run_linked
from tinyc.toolchain.compile import Sources, firmware_around
from tinyc.toolchain.compilers import find_toolchain
from tinyc.toolchain.elf import Elf, read_elf
from tinyc.verify.compare import compare, expected_outputs, first_difference, reference_outputs
from tinyc.verify.report import Verify, reference_name

SCHEMA = "tinyc user build 1"


@dataclass(frozen=True, slots=True)
class BuildProof:
    """What running a user's build gave. build: the file. unaligned: accesses of one inference that were not aligned;
    None where the machine does not tell."""

    schema: str
    model: str
    model_sha256: str
    name: str
    board: str
    machine: str
    build: str
    stack_bytes: int | None
    unaligned: int | None
    verify: Verify

    @property
    def passed(self) -> bool:
        return self.verify.mismatches == 0

    def to_json(self) -> dict[str, Any]:
        """Plain lists, dicts, numbers and strings; keys in a fixed order."""
        return asdict(self)


_OBJECTS = (b"\x7fELF", b"!<arch>\n", b"!<thin>\n")  # what files of objects and archives begin with


@dataclass(frozen=True, slots=True)
class _Ran:
    """Outputs [sample][output], and the program that gave them."""

    elf: Elf
    machine: str
    outputs: Sequence[Sequence[bytes]]
    stack_bytes: int | None
    unaligned: int | None = None


def verify_program(path: Path, elf: Path, options: Options, progress: Progress) -> BuildProof:
    """A whole program for a Cortex-M, linked by the user: its library's functions are called, its main is not.

    Raises TinycError when the program holds no library, or one that tinyc writes for another model or other options;
    with exit code 1 when the library faults, or writes where it must not."""
    board = load_board(options.board)
    if board.is_host:
        raise TinycError("a program for this computer cannot be called", hint="--object takes the library's object")
    program = read_elf(elf)
    compiled = compile_model(path, board, options, progress)
    samples = _samples(compiled, options)
    with progress.stage("run"):
        _check_identity(program, compiled, elf, progress)
        linked = _call(program, compiled, board, options, samples)
    result = linked.result
    _check_guards(result.damaged_guards)
    ran = _Ran(program, result.machine, result.outputs, result.stack_bytes, linked.unaligned)
    return _proof(elf, ran, compiled, board, options, samples)


def verify_object(path: Path, library: Path, options: Options, progress: Progress) -> BuildProof:
    """The library's object file or archive, built by the user, linked with the test firmware of the board."""
    if not library.is_file():
        raise TinycError(
            "there is no such file", Loc(str(library)), "give the library's .o or .a, as your build made it"
        )
    with library.open("rb") as opened:
        if not opened.read(8).startswith(_OBJECTS):
            hint = "give the library's .o or .a, as your build made it"
            raise TinycError("this is neither an object file nor an archive", Loc(str(library)), hint)
    board = load_board(options.board)
    toolchain, target = find_toolchain(board, options.toolchain), find_target(board, options.emulator)
    compiled = compile_model(path, board, options, progress)
    samples = _samples(compiled, options)
    with tempfile.TemporaryDirectory(prefix="tinyc-") as temporary:
        folder = Path(temporary)
        for file, text in compiled.files.items():
            (folder / file).write_text(text, encoding="utf-8")
        with progress.stage("compile"):
            emulated = firmware_board(with_window(board, compiled, options), options.emulator)
            firmware = firmware_around(
                library.resolve(), Sources(folder, compiled.program.name), emulated, toolchain, folder / "firmware"
            )
        program = firmware.read_elf()
        _check_identity(program, compiled, library, progress)
        with progress.stage("run"):
            result = run_samples(target, replace(firmware, sequence=samples.sequence), compiled, samples, progress)
    _check_guards(result.damaged_guards)
    ran = _Ran(program, result.machine, result.outputs, result.stack_bytes)
    return _proof(library, ran, compiled, board, options, samples)


def _samples(compiled: Compiled, options: Options) -> Samples:
    return as_integers(chosen_samples(compiled, options), compiled)


def _call(program: Elf, compiled: Compiled, board: Board, options: Options, samples: Samples) -> LinkedRun:
    """The linked library on the samples; a run that broke off names the user's layer."""
    steps = compiled.program.steps
    sequence = samples.sequence if compiled.graph.states else None
    try:
        return run_linked(program, compiled.program, board, input_bytes(compiled.graph, samples), sequence=sequence)
    except RunError as error:
        raise error.located(steps[error.step].node.where if error.step is not None else None) from error


def _check_guards(damaged: Sequence[str]) -> None:
    if damaged:
        raise TinycError(f"the library wrote outside its arena: {'; '.join(damaged)}", exit_code=1)


def _check_identity(elf: Elf, compiled: Compiled, file: Path, progress: Progress) -> None:
    """Raises when the program says that it holds another library than tinyc writes for these options; warns when it
    says nothing, as after a compiler without GNU C."""
    program = compiled.program
    identity = identity_of(elf, program.name)
    declared = re.search(rf"{program.name}{DIGEST}, 0x([0-9a-f]+)", compiled.files[f"{program.name}.c"])
    if identity.digest is None or declared is None:
        others = sorted(symbol.name.removesuffix(DIGEST) for symbol in elf.symbols if symbol.name.endswith(DIGEST))
        if others:
            hint = f"it holds {', '.join(others)}: --name says what the library is called"
            raise TinycError(f"no library '{program.name}' in it", Loc(str(file)), hint)
        progress.on_warning(
            f"{file.name} does not say which library it holds: bytes that differ may be another model's"
        )
    elif identity.digest != int(declared[1], 16):
        arena = ""
        if identity.arena_bytes != program.arena_bytes:
            arena = f" (an arena of {identity.arena_bytes:,} bytes, not {program.arena_bytes:,})"
        raise TinycError(
            f"it holds a library '{program.name}' that tinyc does not write for this model and these options{arena}",
            Loc(str(file)),
            "give the model and the options of `tinyc build`, and the version of tinyc that made the library",
        )


def _proof(file: Path, ran: _Ran, compiled: Compiled, board: Board, options: Options, samples: Samples) -> BuildProof:
    graph, program = compiled.graph, compiled.program
    if options.expect is not None:
        expected = expected_outputs(options.expect, graph, samples)
    else:
        expected = reference_outputs(graph, program, samples, sequence=samples.sequence)
    compared = compare(graph, ran.outputs, expected)
    first = compared.first_input
    difference = _difference(ran.elf, compiled, board, options, samples, first) if first is not None else None
    return BuildProof(
        SCHEMA,
        compiled.path.name,
        compiled.sha256,
        program.name,
        board.name,
        ran.machine,
        str(file),
        ran.stack_bytes,
        ran.unaligned,
        Verify(
            compared.inputs,
            compared.output_bytes,
            compared.mismatches,
            options.expect or reference_name(program.kind),
            difference,
        ),
    )


def _difference(elf: Elf, compiled: Compiled, board: Board, options: Options, samples: Samples, first: int) -> str:
    """What is known of the first input with other bytes: the layer, where the program shows its steps."""
    unknown = f"input {first}; which layer differs cannot be told of this build"
    if board.unicorn is None or board.is_host:
        return unknown
    start = first
    if compiled.graph.states:  # with all that led to it
        start -= first % samples.sequence if samples.sequence else first
    some = samples.slice(start, first + 1 - start)
    linked = _call(elf, compiled, board, options, some)
    if linked.called is None:
        return f"input {first}; the program has no step: the compiler dropped the functions, or wrote them into others"
    for step in compiled.program.steps:
        if step.index not in linked.called:
            return f"step {step.index} {step.title} '{step.node.name}' is never called: the compiler dropped it"
    rows = [some.sample(index, compiled.graph) for index in range(len(some))]
    difference = first_difference(compiled.graph, compiled.program, rows, linked.steps)
    return difference or f"every step that can be looked at equals the {reference_name(compiled.program.kind)}"
