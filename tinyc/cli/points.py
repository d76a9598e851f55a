# SPDX-License-Identifier: Apache-2.0
"""What `tinyc estimate` shows of several values of an option: the points that no other beats."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from pathlib import Path

from rich.text import Text

from tinyc.base.errors import TinycError
from tinyc.cli.listing import SENTENCE, Listing, figures, text
from tinyc.cli.output import Output, plural
from tinyc.explain.front_plot import PlotPoint, plot_front
from tinyc.explain.points import Point, pick


def show_points(out: Output, model: Path, points: Sequence[Point], wish: str | None, *, everything: bool) -> None:
    """The points, and the command for the fastest of those that have what is wished for. TinycError with exit code 1
    where none has."""
    chosen = pick(points, wish) if wish is not None else None
    picked = {"pick": chosen.to_json() if chosen else None} if wish is not None else {}
    out.json({"model": model.name, "points": [point.to_json() for point in points], **picked})
    _list_points(out, points, everything)
    if chosen is not None:
        out.result("", Text(f"tinyc build {shlex.quote(str(model))} {chosen.options()}"))
    elif wish is not None:
        raise TinycError(f"no point has {wish}", hint="loosen a limit, or try more boards", exit_code=1)


def draw_points(points: Sequence[Point], plot: Path, title: str) -> None:
    """In milliseconds where every board's are known, else in instructions."""
    there = [point for point in points if point.problem is None]
    timed = all(point.milliseconds is not None for point in there)
    dots = [
        PlotPoint(
            f"{point.board} {point.weights}".strip(),
            point.milliseconds or 0.0 if timed else point.instructions,
            point.ram_bytes,
            point.flash_bytes,
            point.best,
        )
        for point in there
    ]
    plot_front(dots, plot, title, "milliseconds" if timed else "instructions")


def _list_points(out: Output, points: Sequence[Point], everything: bool) -> None:
    """The best points, the failed ones, and how many others there are (with -v those too)."""
    weighted = any(point.weights for point in points)
    proved = any(point.sqnr_db is not None for point in points)
    rows = Listing(
        *text("board", "prefer", *["weights"] * weighted, "limits", ""),
        *figures("ms", "instructions", "RAM", "flash", *["SQNR"] * proved),
        *SENTENCE,
    )
    shown = [point for point in points if point.best or point.problem or everything]
    for point in shown:
        cells = [point.board, point.prefer, *([point.weights] if weighted else [])]
        limits = (("RAM", point.ram), ("flash", point.flash))
        cells.append(", ".join(f"{what} {most:,}" for what, most in limits if most is not None))
        cells.append("" if point.problem else "proved" if point.proved else "best" if point.best else "")
        if point.problem is None or point.instructions:
            time = "-" if point.milliseconds is None else f"{point.milliseconds:,.2f}"
            cells += [time, f"{point.instructions:,}", f"{point.ram_bytes:,}", f"{point.flash_bytes:,}"]
        else:
            cells += [""] * 4
        cells += ["" if point.sqnr_db is None else f"{point.sqnr_db:.1f} dB"] if proved else []
        rows.add(*cells, point.problem or "")
    out.result(rows)
    for words in dict.fromkeys(point.cycle_error for point in shown if point.cycle_error):
        out.result("", f"ms: {words}")
    beaten = len(points) - len(shown)
    if beaten:
        out.result(
            "", f"{plural(beaten, 'other point')} of {len(points)}: as good or worse in everything (-v shows them)"
        )
