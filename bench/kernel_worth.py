# SPDX-License-Identifier: Apache-2.0
"""What each kernel is worth to a model: how much worse its libraries get without it.

    python bench/kernel_worth.py MODEL ... [--board NAME ...] [--only REGEX]

A row for every kernel that could run a layer: in how many corners of the model's front it is, and how far the front
without it is from these, at most; from each by the worst of cycles, flash and live bytes of the nearest corner. A
kernel that is worth nothing to any model on any board could go. All figures are the compiler's own estimates. Prints a
table in Markdown.
"""

from __future__ import annotations

import argparse
import re
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import numpy.typing as npt
from tables import as_table

from tinyc.board import Board, load_board
from tinyc.options.build import Options
from tinyc.pipeline.choosing import Candidates, Offers
from tinyc.pipeline.integers import make_integers
from tinyc.pipeline.lowering import forms_of
from tinyc.pipeline.progress import Progress
from tinyc.plan.front import Corner

_MOST_COMPARED = 400  # corners of a kernel, evenly among all of its own
_QUIET = Progress()
HEAD = ("model", "board", "kernel", "corners", "of", "worse without it")


def corners_of(forms: Sequence[Candidates], board: Board, options: Options) -> tuple[Corner, ...]:
    return Offers(forms, board, options).front.corners


def without(forms: Sequence[Candidates], kernel: str) -> Sequence[Candidates]:
    """The candidates but for a kernel, which stays where there is no other."""
    return [
        replace(
            form,
            choices={
                node: [choice for choice in own if choice.kernel.name != kernel] or own
                for node, own in form.choices.items()
            },
        )
        for form in forms
    ]


def figures(corners: Sequence[Corner]) -> npt.NDArray[np.float64]:
    """[corners][cycles, flash, live bytes]"""
    return np.array([(one.cycles, one.flash_bytes, max(one.live_bytes, 1)) for one in corners], np.float64)


def rows(path: Path, board: Board, only: str) -> Iterator[tuple[str, ...]]:
    """A row for each kernel, those that are worth least first."""
    options = Options(board.name, samples=1)
    forms = forms_of(make_integers(path, board, options, _QUIET), board, options, _QUIET)
    corners = corners_of(forms, board, options)
    used = [{form.choice.kernel.name for form in one.table.cut(one.state).forms} for one in corners]
    whole = figures(corners)
    names = {choice.kernel.name for form in forms for own in form.choices.values() for choice in own}
    worth = []
    for kernel in sorted(name for name in names if re.search(only, name)):
        own = [place for place, kernels in enumerate(used) if kernel in kernels]
        least = 0.0
        if own:
            others = figures(corners_of(without(forms, kernel), board, options))
            compared = own[:: -(-len(own) // _MOST_COMPARED)]
            least = max(float((others / whole[place]).max(axis=1).min()) - 1 for place in compared)
        worth.append((least, len(own), kernel))
    for least, count, kernel in sorted(worth):
        yield path.stem, board.name, kernel, f"{count:,}", f"{len(corners):,}", f"{max(least, 0):.2%}"


def main() -> None:
    """Prints the table."""
    parser = argparse.ArgumentParser(description="What each kernel is worth to a model")
    parser.add_argument("models", nargs="+", type=Path, metavar="MODEL")
    parser.add_argument("--board", nargs="+", default=["cortex-m4"])
    parser.add_argument("--only", default="", metavar="REGEX", help="of kernels' names")
    asked = parser.parse_args()
    boards = [load_board(name) for name in asked.board]
    print(as_table(HEAD, [row for path in asked.models for board in boards for row in rows(path, board, asked.only)]))


if __name__ == "__main__":
    main()
