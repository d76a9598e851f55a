# SPDX-License-Identifier: Apache-2.0
"""`tinyc run --wav`: a recording streamed to a library with a front end, on the board's machine or on the board."""

from __future__ import annotations

import tempfile
from collections.abc import Iterable, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from tinyc.base.dataclass import dataclass
from tinyc.base.errors import TinycError
from tinyc.base.shown import Shown, Summary, SummaryTable, nonempty, proved
from tinyc.board import Board, load_board
from tinyc.ir.graph import Labels
from tinyc.options.build import Options
from tinyc.pipeline.answers import answer, labels_of, reals_of
from tinyc.pipeline.compiling import Compiled, compile_model
from tinyc.pipeline.device_run import DeviceLine, board_target
from tinyc.pipeline.progress import Progress
from tinyc.pipeline.proving import compile_library, proof_samples, run_samples
from tinyc.reference.samples import Samples
from tinyc.run import RunResult, find_target, firmware_board
from tinyc.toolchain.compilers import find_toolchain
from tinyc.verify.compare import compare, reference_outputs


@dataclass(frozen=True, slots=True)
class Heard:
    """From `at_s` seconds on the model answers so: label and score as `answer` gives them."""

    at_s: float
    label: str | None
    score: float | None


@dataclass(frozen=True, slots=True)
class Hearing(Shown):
    """What a library made of a recording, against the integer reference. heard: where the answer changes."""

    name: str
    board: str
    machine: str
    recording: str
    seconds: float
    runs: int
    output_bytes: int
    mismatches: int
    first_input: int | None
    damaged_guards: tuple[str, ...]
    heard: tuple[Heard, ...]

    __repr__ = Shown.text

    def summary(self) -> Summary:
        """What was made of it."""
        rows = [
            (f"{one.at_s:.2f}", one.label or "", "" if one.score is None else f"{one.score:.3g}") for one in self.heard
        ]
        table = SummaryTable(("seconds", "label", "score"), rows)
        heard = ", ".join(f"{one.label} at {one.at_s:.1f} s" for one in self.heard if one.label)
        title = f"{self.name} on {self.board}: {self.recording}"
        return Summary(title, nonempty(proved=proved(self.output_bytes, self.mismatches), heard=heard), [table])

    @property
    def passed(self) -> bool:
        return self.mismatches == 0 and not self.damaged_guards

    def to_json(self) -> dict[str, Any]:
        return {**asdict(self), "passed": self.passed}


@dataclass(frozen=True, slots=True)
class Listening:
    """How outputs become answers. labels: a file of names; None: numbers. smooth: so many outputs are averaged. line:
    where a flashed board answers; None: on the board's machine."""

    labels: Path | None = None
    smooth: int = 1
    line: DeviceLine | None = None


def hear(path: Path, options: Options, listening: Listening, progress: Progress) -> Hearing:
    """Streams `options.wav` to the model's library; before the recording it is silent. TinycError where the recording
    does not fit the front end."""
    assert options.wav is not None
    board = load_board(options.board)
    compiled = compile_model(path, board, options, progress)
    output = compiled.graph.values[compiled.graph.outputs[0]]
    labels = labels_of(listening.labels, compiled.graph)
    if labels.by_value and listening.smooth > 1:
        raise TinycError("the output is a class, and classes have no average", output.loc, "leave out --smooth")
    _, samples = proof_samples(compiled, options)
    assert compiled.front is not None
    with progress.stage("reference"):
        counted = progress.counted("reference", len(samples))
        expected = reference_outputs(compiled.graph, compiled.program, samples, counted)
    ran = run_library(compiled, board, options, samples, listening.line, progress)
    compared = compare(compiled.graph, ran.outputs, expected)
    seconds = compiled.graph.values[compiled.front.samples].elements / compiled.front.rate
    scores = [reals_of(output, outputs[0]) for outputs in ran.outputs][compiled.front.runs - 1 :]
    return Hearing(
        name=compiled.program.name,
        board=board.name,
        machine=ran.machine,
        recording=str(options.wav),
        seconds=len(samples) * seconds,
        runs=compared.inputs,
        output_bytes=compared.output_bytes,
        mismatches=compared.mismatches,
        first_input=compared.first_input,
        damaged_guards=ran.damaged_guards,
        heard=tuple(_changes(_smoothed(scores, listening.smooth), labels, seconds, compiled.front.runs)),
    )


def run_library(
    compiled: Compiled, board: Board, options: Options, samples: Samples, line: DeviceLine | None, progress: Progress
) -> RunResult:
    target = find_target(board, options.emulator) if line is None else board_target(board, compiled, line)
    toolchain = find_toolchain(board, options.toolchain)
    with tempfile.TemporaryDirectory(prefix="tinyc-") as folder:
        with progress.stage("compile"):
            machine = firmware_board(board, options.emulator)
            firmware = compile_library(Path(folder), compiled, machine, options, toolchain)
        with progress.stage("run"):
            return run_samples(target, firmware, compiled, samples, progress)


def _smoothed(scores: Sequence[npt.NDArray[np.float64]], count: int) -> list[npt.NDArray[np.float64]]:
    """The mean of each with those before it, `count` together."""
    return [np.mean(scores[max(k + 1 - count, 0) : k + 1], axis=0) for k in range(len(scores))]


def _changes(scores: Sequence[npt.NDArray[np.float64]], labels: Labels, seconds: float, first: int) -> Iterable[Heard]:
    """The first answer, and every other than the one before. first: runs until the first."""
    before: tuple[str | None] | None = None
    for run, reals in enumerate(scores, first):
        label, score = answer(labels, reals)
        if before != (label,):
            yield Heard(round(run * seconds, 3), label, score)
        before = (label,)
