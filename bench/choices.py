# SPDX-License-Identifier: Apache-2.0
"""Writes a section of docs/benchmarks.md: what a user's options trade, model by model, on one board.

    python bench/choices.py [--board cortex-m4] [--model kws ...]

Every row is a build of an int8 MLPerf Tiny model, proved byte for byte against TensorFlow Lite Micro's outputs. With
--model the text is printed, not written.
"""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from peers import MODELS
from tables import PAGE, ROOT, TITLES, as_table, files_of, write_section

from tinyc.base.errors import TinycError
from tinyc.options.build import Options
from tinyc.pipeline.building import build
from tinyc.pipeline.progress import Progress
from tinyc.verify.report import Report

SAMPLES = 8  # instructions are those of one inference, whatever the number

CHOICES: dict[str, dict[str, Any]] = {
    "default": {},
    "--prefer time": {"prefer": "time"},
    "--prefer ram": {"prefer": "ram"},
    "--prefer ram --input-rows": {"prefer": "ram", "input_rows": True},
    "--prefer flash": {"prefer": "flash"},
}
HEAD = ("options", "instructions", "modelled cycles", "arena", "stack", "code", "constants", "flash", "different bytes")


def main() -> int:
    args = _arguments()
    parts = ["Every model's first row is the default, `--prefer balanced`."]
    good = True
    for model in args.model or MODELS:
        measured = [(name, measure(model, Options(args.board, **change))) for name, change in CHOICES.items()]
        rows = [_row(name, report) for name, report in measured if report is not None]
        good &= all(report.passed for _, report in measured if report is not None)
        parts += [f"### {model}, {TITLES[model]} ({args.board}, options)", as_table(HEAD, rows)]
    text = "\n\n".join(parts) + "\n"
    if args.model:
        print(text)
    else:
        part = f"options on {args.board}"
        write_section(PAGE, part, text, "bench/choices.py", f"What the options trade on {args.board}")
    return 0 if good else 1


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description="Write the section of docs/benchmarks.md about options")
    parser.add_argument("--board", default="cortex-m4")
    parser.add_argument("--model", action="append", choices=MODELS, help="only these, printed and not written")
    return parser.parse_args()


def measure(model: str, options: Options) -> Report | None:
    """The report of one build; None where a model cannot be built so (ad has no rows to give one by one)."""
    folder = Path(os.environ.get("TINYC_MODELS", ROOT.parent / "shared" / "models")) / "mlperf_tiny"
    print(f"{model}: {options}", file=sys.stderr)
    try:
        with tempfile.TemporaryDirectory(prefix="tinyc-choices-") as out:
            path, inputs, expected = files_of(folder, model, True, Path(out))
            asked = replace(options, inputs=inputs, expect=expected, samples=SAMPLES)
            report, _ = build(path, Path(out) / model, asked, Progress())
    except TinycError as error:
        if not options.input_rows:
            raise
        print(error, file=sys.stderr)
        return None
    assert isinstance(report, Report)
    return report


def _row(name: str, report: Report) -> Sequence[str]:
    flash = report.flash
    numbers = (
        report.instructions,
        report.cycles,
        report.arena_bytes,
        report.stack_bytes,
        flash.code_bytes,
        flash.const_bytes,
        flash.code_bytes + flash.const_bytes,
        report.verify.mismatches,
    )
    return [f"`{name}`" if name.startswith("-") else name, *("-" if n is None else f"{n:,}" for n in numbers)]


if __name__ == "__main__":
    try:
        sys.exit(main())
    except TinycError as error:
        print(error, file=sys.stderr)
        sys.exit(error.exit_code)
