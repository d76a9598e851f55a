# SPDX-License-Identifier: Apache-2.0
"""What `tinyc estimate --map` and `--front` show: where every tensor lives in the arena, and what libraries can be."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from rich.text import Text

from tinyc.cli.listing import Listing, figures, text
from tinyc.cli.output import Output
from tinyc.explain.boundaries import Boundary
from tinyc.explain.front_plot import PlotPoint, plot_front
from tinyc.explain.memory_map import MemoryMap, letters_held, map_legend, map_text
from tinyc.verify.front import ModelFront

# Of what is preferred.
_LESS = {"balanced": "fewer cycles", "time": "fewer cycles", "ram": "less arena", "flash": "less flash"}

LEAST_CELLS, MOST_CELLS = 8, 64
MOST_PEAKS = 5  # named in the last line


def show_map(out: Output, memory_map: MemoryMap, said: Sequence[Boundary], width: int | None) -> None:
    """What lies where in each step, and why groups of rows end. width: cells of a line; None: what fits."""
    beside = max(map(len, map_text(memory_map, 1))) - 1  # what a line has but for its cells
    cells = width or max(min(MOST_CELLS, out.width - beside), LEAST_CELLS)
    out.result(*map(Text, map_text(memory_map, cells)), "", map_legend(memory_map, cells), "", _held(memory_map))
    gap = memory_map.arena_bytes - memory_map.lower_bound_bytes
    bound = f"lower bound {memory_map.lower_bound_bytes:,}" + (f", {gap:,} above it" if gap else ", reached")
    fullest = ", ".join(map(str, memory_map.peak[:MOST_PEAKS])) + (" ..." if len(memory_map.peak) > MOST_PEAKS else "")
    out.result("", f"arena {memory_map.arena_bytes:,} bytes; {bound}; fullest in step {fullest}")
    if memory_map.slow_bytes:
        out.result(
            f"and {memory_map.slow_bytes:,} bytes in slower RAM, which the map has from {memory_map.arena_bytes:,} on"
        )
    out.result("", *(line for one in said for line in one.lines()))


def _held(memory_map: MemoryMap) -> Listing:
    """Who the letters are."""
    rows = Listing(*text("", "holds"), *figures("bytes", "at", "steps"), *text("name"))
    for letter, kind, size, at, steps, name in letters_held(memory_map):
        rows.add(letter, kind, size, at, steps, name)
    return rows


def show_front(out: Output, front: ModelFront) -> None:
    """A line for each library, and how well the figures are known."""
    timed = all(point.milliseconds is not None for point in front.points)
    what = "cycles" if front.cycle_error else "instructions"
    rows = Listing(*figures(*["ms"] * timed, what, "flash", "arena"), *text("layers", ""))
    for point in front.points:
        time = [f"{point.milliseconds:,.2f}"] if timed else []
        mark = "built" + ", beaten" * point.beaten if point.built else ""
        order = "by rows" if point.by_rows else "whole"
        rows.add(*time, f"{point.cycles:,}", f"{point.flash_bytes:,}", f"{point.arena_bytes:,}", order, mark)
    out.result(rows, "")
    out.result(
        f"Every other library of these kernels is as these or worse, but for {front.apart:.1%} in each figure. "
        "`built`: what the options lead to. The arena is exact, the rest estimated."
    )
    if front.gap is not None:
        out.result(
            f"No library of these kernels is worth more than `built` with {front.gap:.1%} {_LESS[front.prefer]}."
        )
    if front.cycle_error:
        out.result(f"cycles: {front.cycle_error}")


def draw_front(front: ModelFront, plot: Path) -> None:
    """Into a file. Raises TinycError if it cannot be drawn."""
    timed = all(point.milliseconds is not None for point in front.points)
    dots = [
        PlotPoint(
            "built" if point.built else "by rows" if point.by_rows else "layer by layer",
            (point.milliseconds or 0.0) if timed else point.cycles,
            point.arena_bytes,
            point.flash_bytes,
            best=True,
        )
        for point in front.points
    ]
    plot_front(
        dots, plot, f"{front.model} on {front.board}", "milliseconds" if timed else "instructions", flash_up=True
    )
