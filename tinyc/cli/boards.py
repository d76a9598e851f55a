# SPDX-License-Identifier: Apache-2.0
"""`tinyc boards`: what can be built for, and whether that works here."""

from __future__ import annotations

from dataclasses import asdict
from typing import Annotated

import typer

from tinyc.board import Board, list_boards, load_board
from tinyc.cli.listing import SENTENCE, FactList, Listing, figures, text
from tinyc.cli.options import ColorOption, Json, Verbose
from tinyc.cli.output import Color, Output, guarded

Check = Annotated[bool, typer.Option("--check", help="Build and run a small model for each board, on each emulator.")]
Names = Annotated[
    list[str] | None,
    typer.Argument(metavar="[BOARD]...", help="Boards or .toml files; default: all.", show_default=False),
]


def command(
    names: Names = None,
    check: Check = False,
    json: Json = False,
    verbose: Verbose = False,
    color: ColorOption = Color.AUTO,
) -> None:
    """List the boards that tinyc knows; a .toml file of your own works as well."""
    with guarded(color, json, verbose) as out:
        boards = [load_board(name) for name in names] if names else list(list_boards())
        if check:
            _check(out, boards)
        else:
            _list(out, boards)


def _list(out: Output, boards: list[Board]) -> None:
    out.json({"boards": [_facts(board) for board in boards]})
    rows = Listing(*text("board", "core", "isa"), *figures("flash", "RAM"), *text("emulators"), *SENTENCE)
    for board in boards:
        isa = ", ".join(sorted(board.isa)) or "-"
        sizes = (_kib(board.flash_bytes), _kib(board.ram_bytes))
        rows.add(board.name, board.core, isa, *sizes, ", ".join(_machines(board)), board.description)
    out.result(rows)
    if out.verbose:
        for board in boards:
            _details(out, board)


def _details(out: Output, board: Board) -> None:
    """What the table has no room for."""
    rows = FactList(0)
    if board.clock_hz:
        rows.add("clock", f"{board.clock_hz / 1e6:g} MHz")
    if board.memory is not None:
        memory = board.memory
        rows.add("flash", f"0x{memory.flash_origin:08x}, {memory.flash_bytes:,} bytes")
        stack = f"the first {memory.stack_bytes:,} are the stack"
        rows.add("RAM", f"0x{memory.ram_origin:08x}, {memory.ram_bytes:,} bytes, {stack}")
        if (slow := memory.slow) is not None:
            waits = f"{slow.read_waits} waits to read, {slow.write_waits} to write {slow.width_bytes} bytes"
            rows.add(f"{slow.name} (RAM)", f"0x{slow.origin:08x}, {slow.bytes:,} bytes, {waits}")
        if (code := memory.code) is not None:
            rows.add(f"{code.name} (code)", f"0x{code.origin:08x}, {code.bytes:,} bytes, no waits")
    if board.uart is not None:
        rows.add("uart", f"{board.uart.kind} at 0x{board.uart.base:08x}, {board.uart.baud:,} baud")
    if board.flashing is not None:
        rows.add("flashing", ", ".join(board.flashing.methods))
    if board.flash_timing is not None:
        rows.add("flash speed", f"{board.flash_timing.wait_states} wait states")
    for family, flags in board.cflags.items():
        rows.add(family, " ".join(flags))
    out.result("", f"{board.name}: {board.file}", rows)


def _check(out: Output, boards: list[Board]) -> None:
    from tinyc.pipeline.selftest import BoardCheck, check_board  # noqa: PLC0415  what only --check needs

    checks: list[BoardCheck] = []
    with out.progress() as bar:
        task = bar.add_task("check", total=len(boards))
        for board in boards:
            bar.update(task, description=board.name)
            checks += check_board(board)
            bar.advance(task)
    out.json({"checks": [asdict(check) for check in checks]})
    rows = Listing(*text("", "board", "machine", "compiler"), *figures("instructions"), *SENTENCE)
    for check in checks:
        instructions = "-" if check.instructions is None else f"{check.instructions:,}"
        problem = f"{check.problem} ({check.hint})" if check.problem and check.hint else check.problem or ""
        mark = "ok" if check.passed else "--"
        rows.add(mark, check.board, check.machine, check.toolchain, instructions, problem)
    out.result(rows)
    if not all(check.passed for check in checks):
        raise typer.Exit(1)


def _facts(board: Board) -> dict[str, object]:
    return {
        "name": board.name,
        "description": board.description,
        "core": board.core,
        "isa": sorted(board.isa),
        "clock_hz": board.clock_hz,
        "flash_bytes": board.flash_bytes,
        "ram_bytes": board.ram_bytes,
        "slow_ram": None if board.slow_ram is None else asdict(board.slow_ram),
        "code_ram": None if board.code_ram is None else asdict(board.code_ram),
        "emulators": _machines(board),
        "uart": board.uart.kind if board.uart is not None else None,
        "flashing": list(board.flashing.methods) if board.flashing is not None else [],
    }


def _machines(board: Board) -> list[str]:
    machines = [f"qemu {board.qemu.machine}"] if board.qemu else []
    machines += [f"unicorn {board.unicorn.cpu}"] if board.unicorn else []
    return machines or ["this computer"]


def _kib(size: int | None) -> str:
    return "-" if size is None else f"{size // 1024} KiB"
