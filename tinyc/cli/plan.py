# SPDX-License-Identifier: Apache-2.0
"""`tinyc plan`: where every tensor of a model lives in the arena, and when."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer
from rich.text import Text

from tinyc.board import load_board
from tinyc.cli.listing import Listing, figures, text
from tinyc.cli.options import ColorOption, Json, Model, Verbose, with_model_options
from tinyc.cli.output import Color, Output, guarded
from tinyc.cli.running import run_stages
from tinyc.explain.boundaries import Boundary, boundaries
from tinyc.explain.drawing import check_format
from tinyc.explain.front_plot import PlotPoint, plot_front
from tinyc.explain.memory_map import MemoryMap, letters_held, map_legend, map_of, map_text
from tinyc.explain.memory_plot import plot_map
from tinyc.options.build import Options
from tinyc.pipeline.compiling import compile_model
from tinyc.pipeline.fronting import ModelFront, front_of_model

LEAST_CELLS, MOST_CELLS = 8, 64
MOST_PEAKS = 5  # named in the last line

PlotFile = Annotated[
    Path | None,
    typer.Option("--plot", help="Draw the map, or the front, into this .svg, .png or .pdf.", show_default=False),
]
FrontOption = Annotated[
    bool, typer.Option("--front", help="Show instead what the library can be: cycles against flash against arena.")
]
Width = Annotated[
    int | None,
    typer.Option(
        min=LEAST_CELLS, max=400, help="Cells of a line of the map.", show_default=f"what fits, at most {MOST_CELLS}"
    ),
]


@with_model_options(without=("inputs", "samples", "name", "toolchain", "emulator"))
def command(
    model: Model,
    options: Options,
    plot: PlotFile = None,
    width: Width = None,
    front: FrontOption = False,
    json: Json = False,
    verbose: Verbose = False,
    color: ColorOption = Color.AUTO,
) -> None:
    """Show the arena of MODEL over time: what lies where, the peak, and what no plan goes below; with --front, what its
    library can be."""
    with guarded(color, json, verbose) as out:
        if plot is not None:
            check_format(plot)
        board = load_board(options.board)
        if front:
            found = run_stages(out, functools.partial(front_of_model, model, board, options), options.effort)
            _show_front(out, found, plot)
            return
        compiled = run_stages(out, lambda progress: compile_model(model, board, options, progress), options.effort)
        memory_map = map_of(compiled.graph, compiled.plan)
        said = boundaries(compiled.graph, compiled.choices, compiled.plan)
        if plot is not None:
            plot_map(memory_map, plot, f"{model.stem} on {board.name}: {memory_map.arena_bytes:,} bytes of arena")
        out.json({**memory_map.to_json(), "boundaries": [asdict(one) for one in said]})
        _show(out, memory_map, width, plot, said)


def _show(out: Output, memory_map: MemoryMap, width: int | None, plot: Path | None, said: Sequence[Boundary]) -> None:
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
    if plot is not None:
        out.result(f"drawn in {plot}")


def _held(memory_map: MemoryMap) -> Listing:
    """Who the letters are."""
    rows = Listing(*text("", "holds"), *figures("bytes", "at", "steps"), *text("name"))
    for letter, kind, size, at, steps, name in letters_held(memory_map):
        rows.add(letter, kind, size, at, steps, name)
    return rows


def _show_front(out: Output, front: ModelFront, plot: Path | None) -> None:
    out.json(front.to_json())
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
    if front.cycle_error:
        out.result(f"cycles: {front.cycle_error}")
    if plot is not None:
        _draw_front(front, plot, timed=timed)
        out.result(f"drawn in {plot}")


def _draw_front(front: ModelFront, plot: Path, *, timed: bool) -> None:
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
