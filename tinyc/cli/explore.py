# SPDX-License-Identifier: Apache-2.0
"""`tinyc explore`: what boards and options trade, and the best of them for given limits."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any, TypeVar, get_args

import typer
from rich.text import Text

from tinyc.base.errors import TinycError, check_word
from tinyc.cli.listing import SENTENCE, Listing, figures, text
from tinyc.cli.options import ColorOption, Json, Model, Verbose, board_names, number_of_bytes, with_model_options
from tinyc.cli.output import Color, Output, guarded, plural
from tinyc.cli.running import run_stages
from tinyc.explain.drawing import check_format
from tinyc.explain.front_plot import PlotPoint, plot_front
from tinyc.options.build import Options, Prefer
from tinyc.pipeline.exploring import Point, Space, explore_model, pick

WEIGHTS = ("int8", "int4")

Prefers = Annotated[str, typer.Option("--prefer", help="Values of --prefer to try: balanced, time, ram, flash.")]
Weights = Annotated[
    str | None, typer.Option("--weights", help="For a float model, weights to try: int8, int4.", show_default="int8")
]
Rows = Annotated[bool, typer.Option("--input-rows", help="Try libraries that take their input by rows, too.")]
Ram = Annotated[
    str | None,
    typer.Option(
        "--ram", help="RAM that the arena may take, with commas between several: 8K,16K.", show_default="the board's"
    ),
]
Flash = Annotated[
    str | None,
    typer.Option(
        "--flash",
        help="Flash that a library may take, with commas between several: 64K,128K.",
        show_default="the board's",
    ),
]
Pick = Annotated[
    str | None,
    typer.Option("--pick", help="Print the command for the fastest with `ram<=16K, time<=50ms`.", show_default=False),
]
Prove = Annotated[bool, typer.Option("--prove", help="Prove and measure the points that no other beats.")]
Plot = Annotated[
    Path | None, typer.Option("--plot", help="Draw them into this .svg, .png or .pdf.", show_default=False)
]

_VARIED = ("prefer", "weights", "ram", "flash", "input_rows", "name")
Word = TypeVar("Word", bound=str)


@with_model_options(without=(*_VARIED, "incremental", "hop", "stream_unpadded"))
def command(
    model: Model,
    options: Options,
    prefers: Prefers = "balanced,time,ram,flash",
    widths: Weights = None,
    rows: Rows = False,
    ram: Ram = None,
    flash: Flash = None,
    pick_words: Pick = None,
    prove: Prove = False,
    plot: Plot = None,
    json: Json = False,
    verbose: Verbose = False,
    color: ColorOption = Color.AUTO,
) -> None:
    """Show what boards and options trade for MODEL: time, RAM, flash; the points that no other beats.

    Every combination is estimated; with --prove the best ones are built, run and measured. -b takes several boards, or
    `all`.
    """
    with guarded(color, json, verbose) as out:
        if plot is not None:
            check_format(plot)
        pick((), pick_words or "")
        space = Space(
            boards=board_names(options.board),
            prefer=_words("preference", prefers, get_args(Prefer)),
            weights=_words("width of weights", widths, WEIGHTS) if widths else (),
            ram=tuple(number_of_bytes(word) for word in _split(ram)) if ram else (None,),
            flash=tuple(number_of_bytes(word) for word in _split(flash)) if flash else (None,),
            input_rows=(False, True) if rows else (False,),
        )
        points = run_stages(out, lambda progress: explore_model(model, space, options, progress, prove), options.effort)
        chosen = pick(points, pick_words) if pick_words is not None else None
        picked = {"pick": chosen.to_json() if chosen else None} if pick_words is not None else {}
        out.json({"model": model.name, "points": [point.to_json() for point in points], **picked})
        _show(out, points, verbose)
        if plot is not None:
            _draw(points, plot, model.name)
            out.result(f"drawn in {plot}")
        if pick_words is not None:
            if chosen is None:
                raise TinycError(f"no point has {pick_words}", hint="loosen a limit, or try more boards", exit_code=1)
            out.result("", Text(f"tinyc build {model} {chosen.options()}"))
        if all(point.problem for point in points):
            raise typer.Exit(1)


def _draw(points: Sequence[Point], plot: Path, title: str) -> None:
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


def _split(words: str) -> list[str]:
    return [word.strip() for word in words.split(",") if word.strip()]


def _words(what: str, words: str, allowed: Sequence[Any]) -> tuple[Any, ...]:
    parts = _split(words)
    for word in parts:
        check_word(what, word, allowed)
    return tuple(dict.fromkeys(parts))


def _show(out: Output, points: Sequence[Point], everything: bool) -> None:
    """The best points, the failed ones, and how many others there are (with -v those too)."""
    weighted = any(point.weights for point in points)
    proved = any(point.sqnr_db is not None for point in points)
    rows = Listing(
        *text("board", "prefer", *["weights"] * weighted, "limits", "by rows", ""),
        *figures("ms", "instructions", "RAM", "flash", *["SQNR"] * proved),
        *SENTENCE,
    )
    shown = [point for point in points if point.best or point.problem or everything]
    for point in shown:
        cells = [point.board, point.prefer, *([point.weights] if weighted else [])]
        limits = (("RAM", point.ram), ("flash", point.flash))
        cells.append(", ".join(f"{what} {most:,}" for what, most in limits if most is not None))
        cells.append("yes" if point.input_rows else "")
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
