# SPDX-License-Identifier: Apache-2.0
"""Writes what inferences take on boards with slow flash, beside what was published for the same boards.

    python bench/board_estimates.py [--board nucleo-l4r5zi ...] [--model kws ...]

Cycles by the timing rules of the core, and the waits for the board's flash (docs/cycles.md), of libraries that are made
for the board. Goes to docs/benchmarks.md, and to docs/benchmarks.json for scripts/peer_plot.py. Figures without wait
states are in other tables: they never stand beside those of a board.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from peers import LIVE, MODELS, Published, read_peers
from tables import FIGURES, PAGE, ROOT, as_table, files_of, write_section

from tinyc.base.errors import TinycError
from tinyc.board import load_board
from tinyc.board.parts import Energy
from tinyc.explain.cycles.profile import Profile
from tinyc.machine.cores import CORES, SLOW_FLASH_ERROR, SLOW_FLASH_SHARES
from tinyc.options.build import Options
from tinyc.pipeline.profiling import profile_model
from tinyc.pipeline.progress import Progress

PART = "board estimates"
BOARDS = ("nucleo-l4r5zi", "stm32f4-discovery")
SCRIPT = "bench/board_estimates.py"

Estimates = Mapping[str, Mapping[str, int]]  # cycles by what is asked for, and by model
PLAIN = "estimated"
# What tinyc is asked for, and what its row says of that.
ASKED: Mapping[str, Mapping[str, Any]] = {
    PLAIN: {},
    "`--prefer time`": {"prefer": "time"},
    "`--ram-code 0`": {"ram_code": 0},
}


def main() -> int:
    parser = argparse.ArgumentParser(description="Write the board estimates of docs/benchmarks.md")
    parser.add_argument("--board", action="append", help=f"may be repeated (default {', '.join(BOARDS)})")
    parser.add_argument("--model", action="append", choices=MODELS + LIVE, help="only these, printed and not written")
    args = parser.parse_args()
    folder = Path(os.environ.get("TINYC_MODELS", ROOT.parent / "shared" / "models")) / "mlperf_tiny"
    if not folder.is_dir():
        print(f"no models in {folder}; set TINYC_MODELS", file=sys.stderr)
        return 2
    _, published = read_peers()
    estimates = {
        board: {
            asked: {model: estimate(folder, model, board, options) for model in args.model or MODELS + LIVE}
            for asked, options in ASKED.items()
            if asked == PLAIN or board == published.board
        }
        for board in args.board or BOARDS
    }
    text = section(estimates, published)
    if args.model:
        print(text)
        return 0
    write_section(PAGE, PART, text, SCRIPT, "Board estimates beside published results")
    figures = json.loads(FIGURES.read_text(encoding="utf-8"))
    figures[PART] = {board: rows[PLAIN] for board, rows in estimates.items()}
    FIGURES.write_text(json.dumps(figures, indent=2, sort_keys=True) + "\n", encoding="utf-8")
    return 0


def estimate(folder: Path, model: str, board: str, asked: Mapping[str, Any]) -> int:
    """Cycles of an inference of the int8 model, the flash's waits included."""
    print(f"{board}: {model} {dict(asked) or ''}", file=sys.stderr)
    with tempfile.TemporaryDirectory(prefix="tinyc-bench-") as scratch:
        path, inputs, _ = files_of(folder, model, True, Path(scratch))
        profile = profile_model(path, Options(board, inputs=inputs, samples=1, **asked), Progress(), False, 0)
    return with_waits(profile)


def with_waits(profile: Profile) -> int:
    """Cycles with the flash's waits. Raises TinycError where either is not known."""
    if profile.cost.cycles is None or profile.flash_waits is None:
        raise TinycError(f"{profile.board} has no cycles with flash waits", hint="its file needs [flash_timing]")
    return profile.cost.cycles + profile.flash_waits


def section(estimates: Mapping[str, Estimates], published: Published) -> str:
    """A table for each board, with a row for each thing that tinyc is asked for; the published one's with their
    results."""
    low, high = SLOW_FLASH_SHARES
    core = CORES[load_board(published.board).core]
    parts = [
        "Million cycles of one inference. Ours are estimates of libraries made for the board: cycles by the rules of "
        f"the {core.name} (error: {core.error}), and the waits of its flash. Such estimates were "
        f"{SLOW_FLASH_ERROR.partition('waits ')[2]} ([with slow flash](cycles.md#with-slow-flash)); in brackets is "
        f"what a board takes if these are off by as much: the estimate over {high} and over {low}.",
    ]
    for board, asked in estimates.items():
        models = list(asked[PLAIN])
        rows = [[f"tinyc, {words}", *(_range(cycles[model]) for model in models)] for words, cycles in asked.items()]
        if board == published.board:
            rows += [[name, *(_figure(row, model) for model in models)] for name, row in published.cycles.items()]
        rows += _energy_rows(load_board(board).energy, asked)
        parts += [f"### {load_board(board).description}", as_table(("product", *models), rows)]
        if (energy := load_board(board).energy) is not None:
            parts.append(f"Energy: the cycles in brackets times {energy.said}.")
        if board == published.board:
            parts.append(f"{published.how}.")
    return "\n\n".join([*parts, *_elsewhere(published.elsewhere)]) + "\n"


def _range(cycles: int) -> str:
    low, high = SLOW_FLASH_SHARES
    return f"{cycles / 1e6:.3g} ({cycles / high / 1e6:.3g} to {cycles / low / 1e6:.3g})"


def _energy_rows(energy: Energy | None, asked: Estimates) -> list[list[str]]:
    """Microjoules of an inference, from the least that cycles and energy may be to the most."""
    if energy is None:
        return []

    def said(cycles: int) -> str:
        least, most = energy.between(cycles, SLOW_FLASH_SHARES)
        return f"{least:,.0f} to {most:,.0f}"

    return [[f"tinyc, {words}, uJ", *map(said, cycles.values())] for words, cycles in asked.items()]


def _figure(row: Mapping[str, float], model: str) -> str:
    return f"{row[model]:g}" if model in row else "-"


def _elsewhere(results: Sequence[Mapping[str, str]]) -> list[str]:
    """What others published of these models on boards whose cycles tinyc does not model, or of more than the model."""
    keys = ("product", "model", "board", "figure", "source")
    rows = [[result[key] for key in keys] for result in results]
    return ["### Other published results of these models", as_table(keys, rows)] if rows else []


if __name__ == "__main__":
    try:
        sys.exit(main())
    except TinycError as error:
        print(error, file=sys.stderr)
        sys.exit(error.exit_code)
