# SPDX-License-Identifier: Apache-2.0
"""`tinyc estimate`: what a model will cost on boards, without compiling or running anything."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Annotated

import typer

from tinyc.base.errors import TinycError
from tinyc.cli.arena import LEAST_CELLS, MOST_CELLS, draw_front, show_front, show_map
from tinyc.cli.listing import SENTENCE, FactList, Listing, figures, text
from tinyc.cli.options import ColorOption, Json, Model, Verbose, with_model_options
from tinyc.cli.output import Color, Output, guarded, plural
from tinyc.cli.points import draw_points, show_points
from tinyc.cli.running import run_stages
from tinyc.explain.drawing import check_format
from tinyc.explain.estimate import Estimate
from tinyc.explain.memory_plot import plot_map
from tinyc.explain.points import pick
from tinyc.options.build import Options
from tinyc.pipeline.estimating import MappedEstimate, estimate_model, map_model
from tinyc.pipeline.exploring import explore_model
from tinyc.pipeline.fronting import front_of_model
from tinyc.pipeline.progress import Progress
from tinyc.verify.front import ModelFront

Result = Estimate | MappedEstimate | ModelFront

Layers = Annotated[bool, typer.Option("--layers", help="A line for each layer too.")]
MapOption = Annotated[bool, typer.Option("--map", help="Also what lies where in the arena, step by step.")]
FrontOption = Annotated[bool, typer.Option("--front", help="What the library can be: cycles, flash and arena.")]
PickOption = Annotated[
    str | None,
    typer.Option("--pick", help="The command for the fastest in `ram<=16K,time<=50ms`.", show_default=False),
]
ProveOption = Annotated[bool, typer.Option("--prove", help="Prove and measure the points that no other beats.")]
PlotFile = Annotated[
    Path | None,
    typer.Option("--plot", help="Draw map, front or points: .svg, .png or .pdf.", show_default=False),
]
Width = Annotated[
    int | None,
    typer.Option(
        min=LEAST_CELLS, max=400, help="Cells of a line of the map.", show_default=f"what fits, at most {MOST_CELLS}"
    ),
]


@with_model_options(
    without=("inputs", "samples", "toolchain", "emulator"), several=("prefer", "weights", "ram", "flash")
)
def command(
    model: Model,
    options: tuple[Options, ...],
    layers: Layers = False,
    mapped: MapOption = False,
    front: FrontOption = False,
    pick_words: PickOption = None,
    prove: ProveOption = False,
    plot: PlotFile = None,
    width: Width = None,
    json: Json = False,
    verbose: Verbose = False,
    color: ColorOption = Color.AUTO,
) -> None:
    """Say in a moment what MODEL will cost on a board, and with --map what lies where in its arena; compiles and runs
    nothing.

    -b takes several boards, or `all`; of several values the best are shown.
    """
    with guarded(color, json, verbose) as out:
        if plot is not None:
            check_format(plot)
        pick((), pick_words or "")
        _check_shown(layers=layers, mapped=mapped, front=front, wide=width is not None)
        boards = {each.board for each in options}
        if len(options) > len(boards) or prove or pick_words is not None:
            _check_compared(layers or mapped or front)
            points = run_stages(out, lambda progress: explore_model(model, options, progress, prove), options[0].effort)
            show_points(out, model, points, pick_words, everything=verbose)
            if plot is not None:
                draw_points(points, plot, model.name)
                out.result(f"drawn in {plot}")
            if all(point.problem for point in points):
                raise typer.Exit(1)
            return
        if plot is not None and len(boards) > 1:
            raise TinycError("a picture is of one board", hint="leave out --plot, or all boards but one")
        work = front_of_model if front else map_model if mapped or plot is not None else estimate_model
        _show_all(out, _answers(out, model, options, work), layers=layers, width=width, plot=plot)


def _check_shown(*, layers: bool, mapped: bool, front: bool, wide: bool) -> None:
    """Raises TinycError for options that do not go together. wide: the width of a map is given."""
    if front and (layers or mapped):
        hint = "leave out --front, or the others"
        raise TinycError("--front is of many libraries, --layers and --map are of one", hint=hint)
    if wide and not mapped:
        raise TinycError("--width is of the map of an arena", hint="give --map with it, or leave it out")


def _check_compared(detailed: bool) -> None:
    """Raises TinycError where details of one library are asked for of many."""
    if detailed:
        hint = "give one value of --prefer, --weights, --ram and --flash"
        raise TinycError("--layers, --map and --front are of one library", hint=hint)


def _answers(
    out: Output, model: Path, options: Sequence[Options], work: Callable[[Path, Options, Progress], Result]
) -> list[Result]:
    """What is asked for, for each board."""
    return run_stages(out, lambda progress: [work(model, each, progress) for each in options], options[0].effort)


def _show_all(out: Output, answers: Sequence[Result], *, layers: bool, width: int | None, plot: Path | None) -> None:
    estimates = [each.estimate if isinstance(each, MappedEstimate) else each for each in answers]
    costs = [each for each in estimates if isinstance(each, Estimate)]
    out.json({"estimates" if costs else "fronts": [each.to_json() for each in answers]})
    if costs:
        _show(out, costs, layers)
    for each in answers:
        _show_more(out, each, width, plot, headed=len(answers) > 1)
    if costs and not any(each.fits for each in costs):
        raise typer.Exit(1)


def _show_more(out: Output, result: Result, width: int | None, plot: Path | None, *, headed: bool) -> None:
    """The map of an arena, or a front, and its picture."""
    if isinstance(result, Estimate):
        return
    board = result.board if isinstance(result, ModelFront) else result.estimate.board
    if headed:
        out.result("", f"on {board}")
    if isinstance(result, ModelFront):
        show_front(out, result)
    else:
        out.result("")
        show_map(out, result.memory_map, result.boundaries, width)
    if plot is not None:
        if isinstance(result, ModelFront):
            draw_front(result, plot)
        else:
            arena = f"{result.memory_map.arena_bytes:,} bytes of arena"
            plot_map(result.memory_map, plot, f"{Path(result.estimate.model).stem} on {board}: {arena}")
        out.result(f"drawn in {plot}")


def _show(out: Output, estimates: Sequence[Estimate], layers: bool) -> None:
    is_timed = all(each.milliseconds is not None for each in estimates)
    energy = any(each.microjoules is not None for each in estimates)
    names = ("instructions", "cycles", "ms", *["uJ"] * energy, "arena", "stack", "constants", "code")
    rows = Listing(
        *text("board"),
        *figures(*names, spare=["cycles"] * is_timed),
        *text("fits"),
        *SENTENCE,
    )
    for each in estimates:
        rows.add(
            each.board,
            f"{each.instructions:,}",
            "-" if each.cycles is None else f"{each.cycles:,}",
            "-" if each.milliseconds is None else f"{each.milliseconds:,.2f}",
            *["-" if each.microjoules is None else f"{each.microjoules:,.0f}"] * energy,
            f"{each.arena_bytes:,}",
            "-" if each.stack_bytes is None else f"<= {each.stack_bytes:,}",
            f"{each.const_bytes:,}",
            f"{each.code_bytes:,}",
            "no" if each.problem else "yes",
            each.problem or "",
        )
    first = estimates[0]
    out.result(f"{first.model}: {plural(first.macs, 'MAC')}; arena and constants are exact, the rest is estimated", "")
    out.result(rows, "", _errors(estimates))
    for each in estimates if layers else ():
        out.result("", _layers(each))


def _errors(estimates: Sequence[Estimate]) -> FactList:
    """How far the figures are from what is built, and on which of the boards."""
    facts = FactList()
    boards: dict[tuple[str, str], list[str]] = {}
    for each in estimates:
        boards.setdefault(("instructions", f"error: {each.error}"), []).append(each.board)
    for each in estimates:
        boards.setdefault(("cycles", each.cycle_error or ""), []).append(each.board)
    for each in estimates:
        boards.setdefault(("uJ", f"these cycles at {each.energy}" if each.energy else ""), []).append(each.board)
    for (what, words), names in boards.items():
        if words:
            facts.add(what, words if len(estimates) == 1 else f"{', '.join(names)}: {words}")
    return facts


def _layers(estimate: Estimate) -> Listing:
    rows = Listing(
        *figures("step"),
        *text("layer", "operator", "kernel"),
        *figures("MACs", "constants", "instructions", "cycles"),
        title=f"on {estimate.board}",
    )
    for layer in estimate.layers:
        rows.add(
            layer.step,
            layer.name,
            layer.op,
            layer.kernel,
            f"{layer.macs:,}" if layer.macs else "-",
            f"{layer.const_bytes:,}" if layer.const_bytes else "-",
            f"{layer.instructions:,}",
            "-" if layer.cycles is None else f"{layer.cycles:,}",
        )
    return rows
