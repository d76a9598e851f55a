# SPDX-License-Identifier: Apache-2.0
"""`tinyc profile`: where an inference spends its time, per layer, function and source line."""

from __future__ import annotations

import json as json_format
from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from tinyc.base.errors import Loc, TinycError
from tinyc.base.files import write_file
from tinyc.cli.listing import Listing, ListingColumn, figures, text
from tinyc.cli.options import ColorOption, Json, Model, Verbose, with_model_options
from tinyc.cli.output import Color, Output, guarded, plural
from tinyc.cli.running import run_stages
from tinyc.explain.cycles import CORES_ERROR, SLOW_FLASH_ERROR, HotBlock, InferenceCost, Profile, speedscope
from tinyc.explain.cycles.flamegraph import flamegraph
from tinyc.explain.documents import chrome_trace
from tinyc.options.build import Options
from tinyc.pipeline.profiling import profile_model
from tinyc.run import OVERHEAD


class TraceFormat(StrEnum):
    """Formats in which a profile can be printed."""

    PERFETTO = "perfetto"
    SPEEDSCOPE = "speedscope"


_FORMATS = {TraceFormat.PERFETTO: chrome_trace, TraceFormat.SPEEDSCOPE: speedscope}
CODE_LINES = 32  # of a piece of hot code; unrolled loops have hundreds

SpeedscopeFile = Annotated[
    Path | None, typer.Option("--speedscope", help="Write a flame graph for speedscope.app (JSON).", show_default=False)
]
FlameGraphFile = Annotated[
    Path | None, typer.Option("--flamegraph", help="Draw a flame graph into this .svg file.", show_default=False)
]
ShowSource = Annotated[bool, typer.Option("--source", help="Show the dearest source lines and the hottest code.")]
Most = Annotated[int, typer.Option("--top", min=1, help="How many functions, lines and pieces of code to show.")]


@with_model_options(samples=1)
def command(
    model: Model,
    options: Options,
    speedscope_file: SpeedscopeFile = None,
    flamegraph_file: FlameGraphFile = None,
    form: Annotated[
        TraceFormat | None, typer.Option("--format", help="Print it as this, for another tool.", show_default=False)
    ] = None,
    source: ShowSource = False,
    top: Most = 10,
    json: Json = False,
    verbose: Verbose = False,
    color: ColorOption = Color.AUTO,
) -> None:
    """Say where an inference of MODEL spends its time: instructions counted exactly, cycles modelled.

    The folder of a build stands for its model and its options.
    """
    with guarded(color, json, verbose, form is not None) as out:
        profile = run_stages(out, lambda progress: profile_model(model, options, progress, source, top), options.effort)
        if speedscope_file is not None:
            _write(speedscope_file, json_format.dumps(speedscope(profile)))
        if flamegraph_file is not None:
            _write(flamegraph_file, flamegraph(profile))
        out.json(profile.to_json())
        if form is not None:
            out.document(_FORMATS[form](profile))
        _show(out, profile, top, speedscope_file)
        if flamegraph_file is not None:
            out.result(f"flame graph: {flamegraph_file}")


def _write(path: Path, text: str) -> None:
    try:
        write_file(path, text.encode())
    except OSError as error:
        message = f"cannot write the flame graph: {error.strerror}"
        raise TinycError(message, Loc(str(path)), "choose another file") from error


def _show(out: Output, profile: Profile, top: int, speedscope_file: Path | None) -> None:
    what = f"{profile.machine}, {profile.toolchain}, {plural(profile.inferences, 'inference')}"
    out.result(f"{profile.name} on {profile.board}: {profile.model} ({what})", "")
    out.result(_layers(profile), "", _functions(profile, top), "")
    if profile.sources:
        out.result(_sources(profile), "")
    for block in profile.blocks:
        where = f"step {block.step}" if block.step != OVERHEAD else "between layers"
        share = f"{profile.share(block.cost):.1%}"
        out.result(f"{block.function}, {where}: {block.executions:,} times an inference, {share}")
        out.result(_code(block), "")
    out.result(_total(profile))
    if speedscope_file is not None:
        out.result(f"flame graph: {speedscope_file}, to be opened in https://www.speedscope.app")


def _layers(profile: Profile) -> Listing:
    waits = ("flash waits",) if profile.flash_waits is not None else ()
    costs = figures("MACs", *_COSTS, *waits, spare=("per MAC",))
    rows = Listing(*figures("step"), *text("layer", "operator", "kernel"), *costs)
    for layer in profile.layers:
        rows.add(
            str(layer.step) if layer.step != OVERHEAD else "",
            layer.name,
            layer.op,
            layer.kernel,
            f"{layer.macs:,}" if layer.macs else "-",
            *_cost(profile, layer.cost, layer.macs),
            *([f"{layer.flash_waits:,}"] if layer.flash_waits is not None else []),
        )
    total = [f"{profile.flash_waits:,}"] if profile.flash_waits is not None else []
    rows.add("", "all", "", "", f"{profile.macs:,}", *_cost(profile, profile.cost, profile.macs), *total)
    return rows


_COSTS = ("instructions", "cycles", "per MAC", "ms", "share")


def _cost(profile: Profile, cost: InferenceCost, macs: int) -> tuple[str, ...]:
    milliseconds = profile.milliseconds(cost)
    return (
        f"{cost.instructions:,}",
        "-" if cost.cycles is None else f"{cost.cycles:,}",
        f"{cost.weight / macs:.2f}" if macs else "",
        "-" if milliseconds is None else f"{milliseconds:.3f}",
        f"{profile.share(cost):.1%}",
    )


def _functions(profile: Profile, top: int) -> Listing:
    rows = Listing(*text("function"), *figures("instructions", "cycles", "share"))
    for function in profile.functions[:top]:
        rows.add(function.name, *_short_cost(profile, function.cost))
    return rows


def _short_cost(profile: Profile, cost: InferenceCost) -> tuple[str, ...]:
    instructions, cycles, _, _, share = _cost(profile, cost, 0)
    return instructions, cycles, share


def _sources(profile: Profile) -> Listing:
    rows = Listing(*figures("instructions", "cycles", "share"), *text("line"), ListingColumn("source", "sentence"))
    for source in profile.sources:
        rows.add(*_short_cost(profile, source.cost), f"{source.file}:{source.line}", source.text)
    return rows


def _code(block: HotBlock) -> Listing:
    rows = Listing(*text("address"), *figures("cycles"), *text("instruction"))
    for line in block.lines[:CODE_LINES]:
        each = "" if line.cost.cycles is None else f"{line.cost.cycles / max(block.executions, 1):.2f}"
        rows.add(f"{line.address:08x}", each, line.text)
    if len(block.lines) > CODE_LINES:
        rows.add("", "", f"... and {len(block.lines) - CODE_LINES:,} more, all in --json")
    return rows


def _total(profile: Profile) -> str:
    if profile.cost.cycles is None:
        return f"{profile.cost.instructions:,} instructions; there is no cycle model for {profile.board}"
    milliseconds = profile.milliseconds(profile.cost)
    at = f", {milliseconds:.3f} ms at {profile.clock_hz / 1e6:g} MHz" if milliseconds is not None else ""
    return (
        f"{profile.cost.cycles:,} modelled cycles{at}: {profile.core}, memory without wait states; "
        f"error: {profile.error}{_on_cores(profile)}{_waits(profile)}"
    )


def _on_cores(profile: Profile) -> str:
    if profile.cycles_on_cores is None:
        return ""
    at = f", {1000 * profile.cycles_on_cores / profile.clock_hz:.3f} ms" if profile.clock_hz else ""
    return f"\n{profile.cycles_on_cores:,} until {profile.cores} cores are done{at}: {CORES_ERROR}"


def _waits(profile: Profile) -> str:
    if profile.flash_waits is None or profile.cost.cycles is None:
        if profile.wait_states is None:
            return ""
        what = "waits for its flash" if profile.energy is None else "waits for its flash and its energy"
        return f"\nwithout the {what}, which unicorn counts: `pip install 'tinyc[proof]'`"
    waiting = InferenceCost(profile.cost.instructions, profile.cost.cycles + profile.flash_waits)
    milliseconds = profile.milliseconds(waiting)
    at = f", {milliseconds:.3f} ms" if milliseconds is not None else ""
    said = f"\n{waiting.cycles:,} with flash of {profile.wait_states} wait states{at}: an estimate, docs/cycles.md"
    said = f"{said}; error: {SLOW_FLASH_ERROR}"
    if profile.microjoules is None or profile.energy is None:
        return said
    return f"{said}\n{profile.microjoules:,.0f} uJ an inference: these cycles at {profile.energy.said}"
