# SPDX-License-Identifier: Apache-2.0
"""How good the arena's offsets are: tinyc beside greedy-by-size and the exact solver.

    python bench/allocation.py                     # generated instances, as markdown; --write: into docs/figures.md
    python bench/allocation.py benchmarks/*.csv    # MiniMalloc's own files, or any others in their format

Generated: `perfect`, a rectangle cut into pieces, so that the optimum is known and wastes nothing; `crowded`, many
short lifetimes and a few long ones. Lower bound: most bytes alive at once, or what the solver proves.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from tinyc.base.errors import TinycError
from tinyc.plan.arena import THOROUGH, greedy_by_size, height, place
from tinyc.plan.exact import prove
from tinyc.plan.instances import Instance, crowded, perfect, read_instance

PAGE = Path(__file__).resolve().parents[1] / "docs" / "figures.md"
BEGIN, END = "<!-- written by bench/allocation.py -->", "<!-- end of allocation -->"
EXACT_UP_TO = 150  # buffers; beyond, the solver's model is too large to gain anything in its effort


@dataclass(frozen=True, slots=True)
class Result:
    """Bytes that each method needs; seconds of `place` on this machine."""

    instance: Instance
    lower_bound: int
    greedy: int
    placed: int
    exact: int | None
    seconds: float


def main() -> int:
    """Measure the files given, or the generated instances; print the table, or write it into the page."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("files", nargs="*", type=Path, help="MiniMalloc CSV files instead of generated instances")
    parser.add_argument("--write", action="store_true", help="put the table into docs/figures.md")
    args = parser.parse_args()
    try:
        instances = [read_instance(path) for path in args.files] or generated()
        text = as_table([measure(instance) for instance in instances])
    except TinycError as error:
        sys.stderr.write(f"{error}\n")
        return error.exit_code
    if args.write:
        old = PAGE.read_text(encoding="utf-8")
        before, rest = old.split(BEGIN)
        PAGE.write_text(f"{before}{BEGIN}\n\n{text}\n{END}{rest.split(END)[1]}", encoding="utf-8")
    else:
        print(text)
    return 0


def generated() -> list[Instance]:
    """Five sizes of two kinds, MiniMalloc's files have 120 to 450 buffers."""
    puzzles = [perfect(seed, count, count, 1 << 20) for count in (30, 60, 120, 240, 480) for seed in (1, 2)]
    crowds = [crowded(seed, count, count, [1024, 2048, 4096]) for count in (30, 120, 240, 480, 1000) for seed in (1, 2)]
    return puzzles + crowds


def measure(instance: Instance) -> Result:
    """Place the buffers by each method. TinycError if OR-tools is missing."""
    layout, bound = instance.layout, instance.live_bytes
    began = time.perf_counter()
    offsets = place(layout, bound, THOROUGH)
    seconds = time.perf_counter() - began
    exact = None
    if len(layout.blocks) <= EXACT_UP_TO:
        proof = prove(layout, bound, offsets)
        exact, bound = height(layout, proof.offsets), proof.lower_bound
    return Result(instance, bound, height(layout, greedy_by_size(layout)), height(layout, offsets), exact, seconds)


def as_table(results: Sequence[Result]) -> str:
    """Markdown; wasted is above the lower bound."""
    lines = [
        "| instance | buffers | lower bound | greedy by size | wasted | tinyc | wasted | with the solver | wasted |",
        "|---|---:|---:|---:|---:|---:|---:|---:|---:|",
    ]
    for r in results:
        exact = f"{r.exact:,} | {_wasted(r.exact, r)}" if r.exact is not None else "- | -"
        lines.append(
            f"| {r.instance.name} | {len(r.instance.layout.blocks)} | {r.lower_bound:,} | {r.greedy:,} "
            f"| {_wasted(r.greedy, r)} | {r.placed:,} | {_wasted(r.placed, r)} | {exact} |"
        )
    mean = [sum(getattr(r, key) / r.lower_bound - 1 for r in results) / len(results) for key in ("greedy", "placed")]
    slowest = max(results, key=lambda r: r.seconds)
    lines += [
        "",
        f"Mean waste: greedy by size {mean[0]:.1%}, tinyc {mean[1]:.2%}. The slowest took tinyc about "
        f"{slowest.seconds:.0f} s ({slowest.instance.name}).",
    ]
    return "\n".join(lines)


def _wasted(arena: int, r: Result) -> str:
    return f"{arena / r.lower_bound - 1:.2%}"


if __name__ == "__main__":
    sys.exit(main())
