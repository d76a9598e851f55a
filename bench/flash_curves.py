# SPDX-License-Identifier: Apache-2.0
"""Writes a section of docs/benchmarks.md: what each int8 MLPerf Tiny model takes in time and RAM as its flash grows.

    python bench/flash_curves.py [--board cortex-m4] [--model kws ...]

From the least flash (`--prefer flash`) to the fastest kernels (`--prefer time`), budgets between in equal ratios.
Every point is a build, proved byte for byte against TensorFlow Lite Micro's outputs; its options are the row's first
column. With --model the text is printed, not written.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Mapping
from contextlib import suppress
from typing import Any

from choices import measure
from peers import MODELS
from tables import PAGE, TITLES, as_table, write_section

from tinyc.base.errors import TinycError
from tinyc.options.build import Options
from tinyc.verify.report import Report

POINTS = 5  # budgets between the ends
HEAD = ("options", "flash", "instructions", "modelled cycles", "arena", "different bytes")


def main() -> int:
    parser = argparse.ArgumentParser(description="Write the section of docs/benchmarks.md about flash")
    parser.add_argument("--board", default="cortex-m4")
    parser.add_argument("--model", action="append", choices=MODELS, help="only these, printed and not written")
    args = parser.parse_args()
    parts = [
        f"Each row is `tinyc build MODEL --board {args.board}` with these options. No library takes more "
        "than its budget. Each is the best one within it by its preference, in which the arena counts "
        "too: a faster library may have the larger arena. Budgets that no library of these options "
        "keeps are left out."
    ]
    good = True
    for model in args.model or MODELS:
        points = curve(model, args.board)
        good &= all(report.passed for report in points.values())
        parts += [
            f"### {model}, {TITLES[model]} ({args.board}, flash)",
            as_table(HEAD, list(map(_row, points.items()))),
        ]
    text = "\n\n".join(parts) + "\n"
    if args.model:
        print(text)
    else:
        write_section(PAGE, f"flash on {args.board}", text, "bench/flash_curves.py", "Flash against time and RAM")
    return 0 if good else 1


def curve(model: str, board: str) -> Mapping[str, Report]:
    """The reports by their options, from the least flash to the most."""
    least, most = _report(model, board, prefer="flash"), _report(model, board, prefer="time")
    low, high = _flash(least), _flash(most)
    points = {"--prefer flash": least}
    for number in range(1, POINTS + 1):
        kib = round(low * (high / low) ** (number / (POINTS + 1)) / 1024)
        with suppress(TinycError):  # for speed a compiler makes the same C larger
            points[f"--flash {kib}K"] = _report(model, board, flash=1024 * kib)
    return points | {"--prefer time": most}


def _report(model: str, board: str, **asked: Any) -> Report:
    report = measure(model, Options(board, **asked))
    assert report is not None  # of models with whole inputs
    return report


def _flash(report: Report) -> int:
    return report.flash.code_bytes + report.flash.const_bytes


def _row(item: tuple[str, Report]) -> list[str]:
    words, report = item
    numbers = (_flash(report), report.instructions, report.cycles, report.arena_bytes, report.verify.mismatches)
    return [f"`{words}`", *("-" if number is None else f"{number:,}" for number in numbers)]


if __name__ == "__main__":
    try:
        sys.exit(main())
    except TinycError as error:
        print(error, file=sys.stderr)
        sys.exit(error.exit_code)
