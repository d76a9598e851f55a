# SPDX-License-Identifier: Apache-2.0
"""The stages of `tinyc bench`: compile and prove per board, then time the desktop runs and compare their outputs."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Literal

import numpy as np

from tinyc import __version__
from tinyc.base.dataclass import dataclass
from tinyc.base.errors import Loc, TinycError
from tinyc.bench.references import Feed, Runtime, UnavailableError, computer, cpu_runner, generated_c, gpu_runner
from tinyc.bench.report import SCHEMA, BenchReport, BoardResult, Missing, ModelResult, Parity, ReferenceResult
from tinyc.bench.timing import interleaved, latency, ratio, throughput
from tinyc.board import Board, load_board
from tinyc.ir.graph import Array, Graph
from tinyc.options.build import Options
from tinyc.pipeline.compiling import Compiled, compile_model
from tinyc.pipeline.progress import Progress
from tinyc.pipeline.proving import proof_samples, prove
from tinyc.quantize.score import class_output, classes
from tinyc.reference.samples import Samples, as_classes
from tinyc.run.native import load_library
from tinyc.toolchain.compilers import OPTIMIZE_FLAGS, find_toolchain
from tinyc.verify.accuracy import agreement, arithmetic_of, dequantize
from tinyc.verify.compare import Outputs, reference_outputs
from tinyc.verify.report import Report

Kind = Literal["cpu", "gpu"]
_RUNNERS: dict[Kind, Callable[[Path, int], Runtime]] = {
    "cpu": cpu_runner,
    "gpu": lambda model, threads: gpu_runner(model),
}


@dataclass(frozen=True, slots=True)
class BenchOptions:
    """What a benchmark may be asked for. build: how libraries are made and proved, for each of `boards`; the parity
    uses all inputs. seconds: of timing at batch 1, per model. threads: of CPU runtimes, 0 for their own default."""

    boards: tuple[str, ...] = ("cortex-m4",)
    references: tuple[Kind, ...] = ("cpu",)
    build: Options = Options(board="")
    seconds: float = 3.0
    threads: int = 1


def run_bench(models: Sequence[Path], options: BenchOptions, progress: Progress) -> BenchReport:
    """Everything about each model, in order. A reference that cannot run is noted with its reason.

    Raises TinycError as `build` does, and when no model or board is given.
    """
    if not models or not options.boards:
        raise TinycError("nothing to measure", hint="give a model and a board: tinyc bench MODEL --board cortex-m4")
    results = tuple(
        _bench_model(model, options, progress.within(f"{model.name} ({number} of {len(models)})"))
        for number, model in enumerate(models, 1)
    )
    return BenchReport(SCHEMA, __version__, computer(), results)


def _bench_model(model: Path, options: BenchOptions, progress: Progress) -> ModelResult:
    boards = [load_board(name) for name in options.boards]
    compiled, results = _on_boards(model, boards, options, progress)
    everything = replace(options.build, board=boards[0].name, samples=0)
    originals, integers = proof_samples(compiled, everything)
    with progress.stage("reference"):
        counted = progress.counted("reference", len(integers))
        expected = reference_outputs(compiled.graph, compiled.program, integers, counted)
    with progress.stage("desktop"):
        runners, missing = _runners(model, options, progress)
        references = _measure(runners, compiled, originals, integers, expected, options)
    return ModelResult(
        model=model.name,
        model_sha256=compiled.sha256,
        name=compiled.program.name,
        numerics=compiled.program.numerics.value,
        macs=sum(step.macs for step in compiled.program.steps),
        inputs_source=Path(originals.source).name,
        boards=tuple(results),
        references=tuple(references),
        missing=tuple(missing),
    )


def _on_boards(
    model: Path, boards: Sequence[Board], options: BenchOptions, progress: Progress
) -> tuple[Compiled, list[BoardResult]]:
    """The model compiled for the first board, and what each board said."""
    results, first = [], None
    for board in boards:
        asked, here = replace(options.build, board=board.name), progress.within(board.name)
        compiled = compile_model(model, board, asked, here)
        first = first or compiled
        results.append(_board_result(board, prove(compiled, board, asked, here)))
    assert first is not None  # run_bench has checked that there is a board
    return first, results


def _board_result(board: Board, report: Report) -> BoardResult:
    timed = report.cycles is not None and board.clock_hz
    return BoardResult(
        board=report.board,
        machine=report.machine,
        toolchain=report.toolchain,
        instructions=report.instructions,
        cycles=report.cycles,
        milliseconds=round(1000 * (report.cycles or 0) / (board.clock_hz or 1), 3) if timed else None,
        arena_bytes=report.arena_bytes,
        stack_bytes=report.stack_bytes,
        code_bytes=report.flash.code_bytes,
        const_bytes=report.flash.const_bytes,
        inputs=report.verify.inputs,
        output_bytes=report.verify.output_bytes,
        mismatches=report.verify.mismatches,
        cycle_model=report.cycle_model,
        energy=report.energy,
        optimize=report.optimize,
    )


def _runners(model: Path, options: BenchOptions, progress: Progress) -> tuple[list[Runtime], list[Missing]]:
    """The generated C first, as it is for the board `host`; then what was asked for and is there."""
    host = load_board("host")
    asked = replace(options.build, board=host.name, toolchain=None, emulator=None)
    quiet = replace(progress, on_warning=lambda message: None)  # said for the boards already
    with tempfile.TemporaryDirectory(prefix="tinyc-") as folder:
        compiled = compile_model(model, host, asked, quiet)
        for name, text in compiled.files.items():
            Path(folder, name).write_text(text, encoding="utf-8")
        library = load_library(Path(folder), compiled.program.optimize)
    compiler = f"{find_toolchain(host)} {OPTIMIZE_FLAGS[compiled.program.optimize]}"
    runners, missing = [generated_c(library, compiler, arithmetic_of(compiled.graph))], []
    for kind in options.references:
        try:
            runners.append(_RUNNERS[kind](model, options.threads))
        except UnavailableError as error:
            missing.append(Missing(kind, str(error)))
    return runners, missing


def _measure(
    runners: Sequence[Runtime],
    compiled: Compiled,
    originals: Samples,
    integers: Samples,
    expected: Outputs,
    options: BenchOptions,
) -> list[ReferenceResult]:
    float_graph = compiled.float_graph or compiled.graph
    feeds = [
        _feeds(integers, compiled.graph) if runner.kind == "c" else _feeds(originals, float_graph) for runner in runners
    ]
    times = interleaved([runner.once(feed[0]) for runner, feed in zip(runners, feeds, strict=True)], options.seconds)
    results = []
    for runner, feed, taken in zip(runners, feeds, times, strict=True):
        rate, size = throughput(lambda n, runner=runner, feed=feed: runner.batch(feed[0], n))  # type: ignore[misc]
        results.append(
            ReferenceResult(
                kind=runner.kind,
                name=runner.name,
                device=runner.device,
                software=runner.software,
                arithmetic=runner.arithmetic,
                latency=latency(taken),
                times_c=ratio(taken, times[0]),
                throughput_per_s=rate,
                best_batch=size,
                parity=parity([runner.infer(one) for one in feed], expected, compiled.graph, originals.labels),
            )
        )
    return results


def _feeds(samples: Samples, graph: Graph) -> list[Feed]:
    rows = (samples.sample(index, graph) for index in range(len(samples)))
    return [[row[name] for name in graph.inputs] for row in rows]


def parity(theirs: Sequence[Sequence[Array]], ours: Outputs, graph: Graph, labels: Array | None) -> Parity:
    """Outputs of a desktop run, [sample][output], against the board's, which `graph` gives a meaning."""
    different: int | None = 0
    meant: dict[str, tuple[Array, Array]] = {}
    for index, name in enumerate(graph.outputs):
        them = _as_numbers(graph, name, np.stack([np.ravel(row[index]) for row in theirs]))
        us = np.stack([np.ravel(row[index]) for row in ours])
        integer = them.dtype.kind in "iu" and them.dtype == us.dtype
        different = different + int((them != us).sum()) if integer and different is not None else None
        value = graph.values[name]
        rows = [array.reshape(-1, *value.shape) for array in (them, us)]
        rows = [dequantize(array, value.quant) if array.dtype.kind in "iu" else array for array in rows]
        meant[name] = rows[0].reshape(them.shape), rows[1].reshape(us.shape)
    reals = [meant[name] for name in graph.outputs if name != class_output(graph)]
    signal = sum(float(np.square(them, dtype=np.float64).sum()) for them, _ in reals)
    noise = sum(float(np.square(them.astype(np.float64) - us).sum()) for them, us in reals)
    chosen = [classes(graph, {name: pair[side] for name, pair in meant.items()}) for side in (0, 1)]
    agreed = agreement(*chosen)
    true_classes = labels if labels is not None and len(np.unique(labels)) > 1 else None
    top = [
        None if true_classes is None or picked is None else round(float((picked == true_classes).mean()), 4)
        for picked in chosen
    ]
    return Parity(
        inputs=len(theirs),
        agreement=None if agreed is None else round(agreed, 4),
        sqnr_db=round(10 * float(np.log10(signal / noise)), 2) if noise > 0 and signal > 0 else None,
        different=different,
        top1_reference=top[0],
        top1_board=top[1],
    )


def _as_numbers(graph: Graph, name: str, rows: Array) -> Array:
    """A runtime's output [samples, elements]; of texts the numbers that the library gives in their place."""
    if rows.dtype.kind not in "OUS":
        return rows
    numbers = as_classes(graph, rows.astype(str))
    if numbers is None:
        raise TinycError(f"the output '{name}' holds texts, and the model says no numbers for them", Loc(graph.name))
    return numbers
