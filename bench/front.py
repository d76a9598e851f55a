# SPDX-License-Identifier: Apache-2.0
"""What the front of a model has that its options do not lead to: fewer cycles, in no more flash and no more arena.

    python bench/front.py FOLDER [--board NAME ...]

FOLDER: of models, *.tflite or *.onnx. All figures are the compiler's own estimates, of the same kernels. Prints a table
in Markdown.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np

from tinyc.base.errors import TinycError
from tinyc.board import Board, load_board
from tinyc.options.build import Options
from tinyc.pipeline.choosing import Offers
from tinyc.pipeline.integers import IntegerModel, make_integers
from tinyc.pipeline.lowering import forms_of, lower_integers
from tinyc.pipeline.progress import Progress
from tinyc.plan.answer import Plan
from tinyc.plan.front import Front

WAYS = ("", "--prefer time", "--prefer ram", "--prefer flash", "--flash 64K")
_QUIET = Progress()


def options_of(words: str, board: str) -> Options:
    """The options of a line of `WAYS`."""
    given = dict(zip(words.split()[::2], words.split()[1::2], strict=True))
    flash = given.get("--flash")
    return Options(
        board,
        prefer=given.get("--prefer", "balanced"),  # type: ignore[arg-type]
        flash=int(flash.removesuffix("K")) * 1024 if flash else None,
    )


def better(front: Front, plan: Plan) -> Plan:
    """The plan of fewest cycles that takes no more flash and no more arena; the plan itself where there is none."""
    best = plan
    for family in front.families:
        table = family.solver.within(plan.arena_bytes)
        if table is None:
            continue
        fits = np.flatnonzero(table.flash_bytes <= plan.flash_bytes)
        state = int(fits[-1]) if len(fits) else -1
        while state >= 0 and table.cycles[state] < best.cycles:
            own = family.plan(table.cut(state))
            if own.flash_bytes <= plan.flash_bytes and own.arena_bytes <= plan.arena_bytes:
                best = own
                break
            state = int(np.searchsorted(-table.cycles, -table.cycles[state])) - 1  # the next that takes less flash
    return best


def rows(path: Path, board: Board) -> Iterator[str]:
    """A row for each of `WAYS`."""
    integers: IntegerModel | None = None
    for words in WAYS:
        options = options_of(words, board.name)
        try:
            integers = integers or make_integers(path, board, options, _QUIET)
            plan = lower_integers(integers, board, options, _QUIET).plan
        except TinycError as error:
            yield f"| {path.stem} | {board.name} | {words or 'default'} | {error.message.split(',')[0]} | | | | |"
            continue
        began = time.process_time()
        least = plan
        own = better(Offers(forms_of(integers, board, options, _QUIET), board, options).front, plan)
        least = own if own.cycles < least.cycles else least
        seconds = time.process_time() - began
        saved = f"{least.cycles:,} | {1 - least.cycles / plan.cycles:.1%}" if least is not plan else "- | -"
        figures = f"{plan.cycles:,} | {plan.flash_bytes:,} | {plan.arena_bytes:,}"
        yield f"| {path.stem} | {board.name} | {words or 'default'} | {figures} | {saved} | {seconds:.1f} |"


def main() -> None:
    """Prints the table."""
    parser = argparse.ArgumentParser()
    parser.add_argument("folder", type=Path)
    parser.add_argument("--board", nargs="+", default=["cortex-m4", "cortex-m33", "cortex-m0plus"])
    asked = parser.parse_args()
    print("| model | board | options | cycles | flash | arena | of the front | fewer | CPU s |")
    print("|---|---|---|---:|---:|---:|---:|---:|---:|")
    models = sorted(path for path in asked.folder.iterdir() if path.suffix in (".tflite", ".onnx"))
    for path in models:
        for name in asked.board:
            for row in rows(path, load_board(name)):
                print(row, flush=True)


if __name__ == "__main__":
    main()
