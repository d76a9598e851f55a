# SPDX-License-Identifier: Apache-2.0
"""Write the tables of docs/boards.md: how each board is proved and flashed, and what MLPerf Tiny's models take there.

    python bench/boards.py [BOARD]... [--models FOLDER]

The first table is of all boards, from their files. The second has modelled milliseconds, as `tinyc estimate` says them;
rows of boards that are not named stay as they are. FOLDER has `kws_int8.tflite`, `vww_int8.tflite`, ...
"""

from __future__ import annotations

import argparse
import os
import re
from collections.abc import Mapping, Sequence
from pathlib import Path

from tables import ROOT, as_table, write_section

import tinyc
from tinyc.board import Board, list_boards, load_board
from tinyc.explain.estimate import Estimate

PAGE = ROOT / "docs" / "boards.md"
MODELS = ("kws", "vww", "ic", "ad", "sww")
SPOKEN = {"stm32": "STM32 ROM", "samba": "SAM-BA", "uf2": "UF2", "drive": "drive"}
PROOF, TIMES = "proof and flashing", "modelled times"


def main() -> int:
    parser = argparse.ArgumentParser(description="Write the tables of docs/boards.md")
    parser.add_argument("boards", nargs="*", metavar="BOARD")
    default = Path(os.environ.get("TINYC_MODELS", ROOT / ".." / "shared" / "models")) / "mlperf_tiny"
    parser.add_argument("--models", type=Path, default=default)
    args = parser.parse_args()
    write_section(PAGE, PROOF, proof_table(list_boards()), "bench/boards.py")
    rows = {}
    for name in args.boards:
        files = (args.models / f"{model}_int8.tflite" for model in MODELS)
        rows[name] = times_row(load_board(name), [tinyc.estimate(file, name) for file in files])
        write_times(rows)
    return 0


def proof_table(boards: Sequence[Board]) -> str:
    """As text."""
    rows = [proof_row(board) for board in boards if not board.is_host]
    return as_table(("board", "core, clock", "flash", "RAM", "proved in emulation", "flashed by", "console"), rows)


def proof_row(board: Board) -> tuple[str, ...]:
    memory = board.memory
    assert memory is not None
    machines = [f"QEMU {board.qemu.machine}"] if board.qemu else []
    machines += [f"unicorn {board.unicorn.cpu}"] if board.unicorn else []
    methods = board.flashing.methods if board.flashing is not None else ()
    clock = f", {board.clock_hz / 1e6:g} MHz" if board.clock_hz else ""
    return (
        board.name,
        f"{board.core}{clock}",
        _kib(memory.flash_bytes),
        _kib(memory.ram_bytes),
        ", ".join(machines),
        ", ".join(SPOKEN.get(method, method) for method in methods) or "-",
        f"UART ({board.uart.kind})" if board.uart is not None else "-",
    )


def _kib(size: int) -> str:
    return f"{size >> 20} MiB" if size % (1 << 20) == 0 else f"{size / 1024:,.0f} KiB"


def times_row(board: Board, costs: Sequence[Estimate]) -> tuple[str, ...]:
    """What the models take, and what is left beside the largest of them that fits; the board's stack is not left."""
    memory = board.memory
    assert memory is not None
    fitting = [cost for cost in costs if cost.fits]
    flash = min((memory.flash_bytes - (cost.flash_bytes or 0) for cost in fitting), default=0)
    ram = min((memory.ram_bytes - memory.stack_bytes - cost.arena_bytes for cost in fitting), default=0)
    return board.name, *map(_time, costs), f"{flash // 1024:,} KiB", f"{ram // 1024:,} KiB"


def _time(cost: Estimate) -> str:
    if not cost.fits:
        return "too large"
    if cost.milliseconds is None:
        return f"({cost.instructions / 1e6:.2f} M)"
    return f"{cost.milliseconds:.1f}" if cost.milliseconds < 100 else f"{cost.milliseconds:.0f}"


def write_times(rows: Mapping[str, tuple[str, ...]]) -> None:
    """Into the page, beside the rows that are there."""
    head = ("board", *MODELS, "flash left", "RAM left")
    page = PAGE.read_text(encoding="utf-8")
    old = re.search(rf"<!-- {TIMES}: .*?-->(.*?)<!-- end of {TIMES} -->", page, re.DOTALL)
    kept = dict[str, tuple[str, ...]]()
    for line in old[1].splitlines() if old else ():
        cells = tuple(cell.strip() for cell in line.strip().strip("|").split("|"))
        if len(cells) == len(head) and cells[0] != "board" and not set(cells[0]) <= {"-", ":"}:
            kept[cells[0]] = cells
    every = {**kept, **rows}
    write_section(PAGE, TIMES, as_table(head, [every[name] for name in sorted(every)]), "bench/boards.py")


if __name__ == "__main__":
    raise SystemExit(main())
