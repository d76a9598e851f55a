# SPDX-License-Identifier: Apache-2.0
"""`tinyc bench`: boards beside desktop runs of the same models, and two such reports against each other."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, cast

import typer

from tinyc.base.errors import TinycError
from tinyc.bench import BenchChange, BenchOptions, BenchReport, compare_files, run_bench
from tinyc.bench.report import BoardResult, ModelResult, ReferenceResult
from tinyc.bench.run import Kind
from tinyc.cli.cases import CasesFormat, CasesOption, print_cases
from tinyc.cli.listing import Listing, ListingColumn, figures, text
from tinyc.cli.options import ColorOption, Json, Verbose, board_names, with_model_options
from tinyc.cli.output import Color, Output, guarded, plural
from tinyc.cli.running import run_stages
from tinyc.explain.documents import Case, verdict_case
from tinyc.options.build import Options
from tinyc.sweep.compare import compare_sweeps
from tinyc.sweep.store import holds_results
from tinyc.verify.report import Verify

Models = Annotated[
    list[Path] | None, typer.Argument(metavar="MODEL...", help="Models: .onnx or .tflite files.", show_default=False)
]
References = Annotated[str, typer.Option(help="Desktop runs: cpu, gpu, cpu,gpu or none.")]
_NAME = "tinyc bench"
Csv = Annotated[bool, typer.Option("--csv", help="Print CSV, one line per board and desktop run.")]
Compare = Annotated[
    tuple[Path, Path] | None,
    typer.Option(metavar="OLD NEW", help="Compare reports (.json) or sweeps (.sqlite); exit code 1 if worse."),
]
Threshold = Annotated[float, typer.Option(min=0, help="With --compare: what share counts as worse.")]
LatencyThreshold = Annotated[
    float | None,
    typer.Option(min=0, help="With --compare: the same for latencies.", show_default="none"),
]
_NOT_HERE = (  # they make a library that takes or gives something else than the file's model
    *("name", "outputs", "signature", "state", "state_init", "sequence", "input_rows", "incremental", "hop"),
    *("stream_unpadded", "weights_blob", "like", "frontend", "picture", "ram_code", "stream_weights", "cores"),
)


@with_model_options(without=_NOT_HERE)
def command(
    options: Options,
    models: Models = None,
    reference: References = "cpu",
    seconds: Annotated[float, typer.Option(min=0.01, max=3600, help="Seconds of timing at batch 1, per model.")] = 3.0,
    threads: Annotated[
        int, typer.Option(min=0, max=1024, help="Threads of the CPU runtimes; 0: their own default.")
    ] = 1,
    compare: Compare = None,
    threshold: Threshold = 0.01,
    latency_threshold: LatencyThreshold = None,
    json: Json = False,
    csv: Csv = False,
    form: CasesOption = None,
    verbose: Verbose = False,
    color: ColorOption = Color.AUTO,
) -> None:
    """Measure MODELs on boards and beside desktop CPU and GPU runs: cost, latency, how near the outputs are."""
    with guarded(color, json, verbose, form is not None) as out:
        if csv and (json or form is not None):
            raise TinycError("--json, --csv and --format exclude each other", hint="leave out all but one")
        if compare is not None:
            if models:
                raise TinycError("--compare takes no models", hint="tinyc bench --compare old.json new.json")
            _compare(out, _changes(compare, threshold, latency_threshold), threshold, form)
            return
        asked = BenchOptions(board_names(options.board), _kinds(reference), options, seconds, threads)
        report = run_stages(out, lambda progress: run_bench(models or [], asked, progress))
        out.json(report.to_json())
        print_cases(
            out, form, _NAME, "boards", [_case(model, board) for model in report.models for board in model.boards]
        )
        if csv:
            typer.echo(report.to_csv(), nl=False)
        else:
            _show(out, report)
        if not report.passed:
            raise typer.Exit(1)


def _kinds(text: str) -> tuple[Kind, ...]:
    words = [word.strip() for word in text.split(",") if word.strip()]
    unknown = [word for word in words if word not in ("cpu", "gpu", "none")]
    if unknown or not words:
        raise TinycError(f"there is no reference '{', '.join(unknown)}'", hint="there are: cpu, gpu, none")
    return tuple(cast("Kind", word) for word in dict.fromkeys(words) if word != "none")


def _show(out: Output, report: BenchReport) -> None:
    computer = report.computer
    out.result(f"desktop: {computer.cpu}, {computer.system}, Python {computer.python}")
    for model in report.models:
        out.result(
            "", f"{model.model}: {model.macs:,} MACs, numerics {model.numerics}, inputs {model.inputs_source}", ""
        )
        out.result(_boards(model))
        for words in dict.fromkeys(board.cycle_model for board in model.boards if board.cycle_model):
            out.result(f"cycles: {words}")
        for board in model.boards:
            if board.energy is not None:
                out.result(f"energy on {board.board}: {board.energy.said}")
        out.result("", _references(model))
        for missing in model.missing:
            out.warn(f"{model.model}: {missing.reason}")
        for board in model.boards:
            if board.mismatches:
                out.warn(f"{model.model} on {board.board}: {plural(board.mismatches, 'output byte')} differ")


def _boards(model: ModelResult) -> Listing:
    numbers = ("instructions", "cycles", "ms", "arena", "stack", "code", "constants")
    rows = Listing(*text("board"), *figures(*numbers), ListingColumn("proved", "sentence"))
    for board in model.boards:
        rows.add(
            board.board,
            *map(_number, (board.instructions, board.cycles)),
            "-" if board.milliseconds is None else f"{board.milliseconds:.2f}",
            *map(_number, (board.arena_bytes, board.stack_bytes, board.code_bytes, board.const_bytes)),
            _verified(board),
        )
    return rows


def _verified(board: BoardResult) -> str:
    what = f"{plural(board.output_bytes, 'byte')} of {plural(board.inputs, 'input')}"
    return f"{what}, all equal" if not board.mismatches else f"{what}: {board.mismatches:,} DIFFER"


def _references(model: ModelResult) -> Listing:
    numbers = ("median us", "p90 us", "x C", "per second", "batch", "agreement", "SQNR dB", "top-1")
    rows = Listing(
        *text("desktop run", "arithmetic", "software"), *figures(*numbers), ListingColumn("device", "sentence")
    )
    for run in model.references:
        rows.add(
            run.name,
            run.arithmetic,
            run.software,
            f"{run.latency.median_us:,.1f}",
            f"{run.latency.p90_us:,.1f}",
            f"{run.times_c:.2f}",
            f"{run.throughput_per_s:,.0f}",
            str(run.best_batch),
            *_parity(run),
            run.device,
        )
    return rows


def _parity(run: ReferenceResult) -> tuple[str, str, str]:
    parity = run.parity
    sqnr = "equal" if parity.sqnr_db is None else f"{parity.sqnr_db:.1f}"
    agreement = "-" if parity.agreement is None else f"{parity.agreement:.1%}"
    if parity.top1_board is None or parity.top1_reference is None:
        return agreement, sqnr, "-"
    return agreement, sqnr, f"{parity.top1_reference:.1%} -> {parity.top1_board:.1%}"


def _case(model: ModelResult, board: BoardResult) -> Case:
    return verdict_case(
        model.model,
        board.board,
        Verify(board.inputs, board.output_bytes, board.mismatches, "integer reference"),
    )


def _changes(files: tuple[Path, Path], threshold: float, latency_threshold: float | None) -> list[BenchChange]:
    """Of two benchmarks, or of two sweeps."""
    if not any(holds_results(file) for file in files):
        return compare_files(*files, threshold, latency_threshold)
    if latency_threshold is not None:
        raise TinycError("a sweep has no desktop latencies", hint="leave out --latency-threshold")
    return compare_sweeps(*files, threshold)


def _change_case(change: BenchChange) -> Case:
    said = f"{change.figure}: {_figure(change.old)} -> {_figure(change.new)}"
    said += "" if change.relative is None else f" ({change.relative:+.1%})"
    name = f"{change.model}: {change.figure}"
    return Case(name, change.where, "failed", "worse", said) if change.worse else Case(name, change.where, detail=said)


def _compare(out: Output, changes: list[BenchChange], threshold: float, form: CasesFormat | None) -> None:
    print_cases(out, form, "tinyc bench --compare", "changes", [_change_case(change) for change in changes])
    worse = [change for change in changes if change.worse]
    out.json({"worse": len(worse), "changes": [_change_facts(change) for change in changes]})
    rows = Listing(*text("", "model", "where", "figure"), *figures("old", "new", "change"))
    for change in sorted(changes, key=lambda change: not change.worse):
        rows.add(
            "WORSE" if change.worse else "",
            change.model,
            change.where,
            change.figure,
            *(_figure(value) for value in (change.old, change.new)),
            "" if change.relative is None else f"{change.relative:+.1%}",
        )
    if changes:
        out.result(rows, "")
    out.result(f"{plural(len(changes), 'figure')} changed, {len(worse)} got worse by more than {threshold:.1%}")
    if worse:
        raise typer.Exit(1)


def _change_facts(change: BenchChange) -> dict[str, object]:
    return {
        "model": change.model,
        "where": change.where,
        "figure": change.figure,
        "old": change.old,
        "new": change.new,
        "worse": change.worse,
    }


def _figure(value: float | None) -> str:
    return "-" if value is None else f"{value:,.4g}" if value != int(value) else f"{int(value):,}"


def _number(value: int | None) -> str:
    return "-" if value is None else f"{value:,}"
