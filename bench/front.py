# SPDX-License-Identifier: Apache-2.0
"""How far the library of a model may be from the best one of its kernels: writes a section of docs/figures.md.

    python bench/front.py FOLDER [--board NAME ...] [--write]

FOLDER: of models, *.tflite or *.onnx. All figures are the compiler's own estimates. A share: no library of these
kernels is worth more than the one that is chosen with as much less of what is preferred (`Front.bound`).
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

from tables import write_section

from tinyc.base.errors import TinycError
from tinyc.board import load_board
from tinyc.options.build import Options
from tinyc.pipeline.choosing import WORTH, Offers, limits_of, worth_of
from tinyc.pipeline.fronting import gap_of
from tinyc.pipeline.integers import make_integers
from tinyc.pipeline.lowering import forms_of
from tinyc.pipeline.progress import Progress

PAGE = Path(__file__).resolve().parents[1] / "docs" / "figures.md"
BOARDS = ("cortex-m4", "cortex-m33", "cortex-m0plus", "riscv32imc")
_QUIET = Progress()


def row(path: Path, board_name: str) -> tuple[str, float]:
    """A row of the table; and CPU seconds of all its bounds, the kernels and forms apart."""
    board, options = load_board(board_name), Options(board_name)
    model = make_integers(path, board, options, _QUIET)
    offers = Offers(forms_of(model, board, options, _QUIET), board, options)
    began = time.process_time()
    gaps = []
    for prefer in WORTH:
        own = Options(board_name, prefer=prefer)
        best = offers.front.best(worth_of(own), limits_of(board, own))
        gaps.append(None if best is None else gap_of(offers, best.plan, board, own))
    shares = " | ".join("-" if gap is None else f"{gap:.1%}" for gap in gaps)
    return f"| {path.stem} | {board_name} | {shares} |", time.process_time() - began


def lines(models: Sequence[Path], boards: Sequence[str]) -> Iterator[str]:
    """The table, and what it took."""
    yield f"| model | board | {' | '.join(f'`--prefer {prefer}`' for prefer in WORTH)} |"
    yield f"|---|---|{'---:|' * len(WORTH)}"
    seconds = []
    for path in models:
        for board in boards:
            try:
                text, took = row(path, board)
            except TinycError as error:
                yield f"| {path.stem} | {board} | {error.message.split(',')[0]} |{' |' * (len(WORTH) - 1)}"
            else:
                seconds.append(took)
                yield text
    yield ""
    took_text = f"{min(seconds):.2f} to {max(seconds):.1f} CPU seconds"
    yield f"To choose all four and to bound what could be better took {took_text}, kernels and forms apart."


def main() -> None:
    """Prints the section, or writes it."""
    parser = argparse.ArgumentParser(description="Say how far libraries may be from the best ones.")
    parser.add_argument("folder", type=Path)
    parser.add_argument("--board", nargs="+", default=BOARDS)
    parser.add_argument("--write", action="store_true", help="put the table into docs/figures.md")
    asked = parser.parse_args()
    models = sorted(path for path in asked.folder.iterdir() if path.name.endswith("_int8.tflite"))
    text = "\n".join(lines(models, asked.board)) + "\n"
    print(text)
    if asked.write:
        write_section(PAGE, "front", text, "bench/front.py")


if __name__ == "__main__":
    main()
