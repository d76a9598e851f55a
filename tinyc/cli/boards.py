"""`tinyc boards`: what can be built for."""

from __future__ import annotations

from tinyc.board import Board, list_boards
from tinyc.cli.options import ColorOption, Json, Verbose
from tinyc.cli.output import Color, guarded, table


def command(json: Json = False, verbose: Verbose = False, color: ColorOption = Color.AUTO) -> None:
    """List the boards that tinyc knows; a .toml file of your own works as well."""
    with guarded(color, json, verbose) as out:
        known = list_boards()
        out.json({"boards": [_facts(board) for board in known]})
        rows = table("", "board", "core", "isa", "flash", "RAM", "emulators", "description", right=("flash", "RAM"))
        for board in known:
            isa = ", ".join(sorted(board.isa)) or "-"
            sizes = (_kib(board.flash_bytes), _kib(board.ram_bytes))
            rows.add_row(board.name, board.core, isa, *sizes, ", ".join(_machines(board)), board.description)
        out.result(rows)


def _facts(board: Board) -> dict[str, object]:
    return {
        "name": board.name,
        "description": board.description,
        "core": board.core,
        "isa": sorted(board.isa),
        "clock_hz": board.clock_hz,
        "flash_bytes": board.flash_bytes,
        "ram_bytes": board.ram_bytes,
        "emulators": _machines(board),
    }


def _machines(board: Board) -> list[str]:
    found = [f"qemu {board.qemu.machine}"] if board.qemu else []
    found += [f"unicorn {board.unicorn.cpu}"] if board.unicorn else []
    return found or ["this computer"]


def _kib(size: int | None) -> str:
    return "-" if size is None else f"{size // 1024} KiB"
