# SPDX-License-Identifier: Apache-2.0
"""`tinyc run --wav`: a recording streamed to a library with a front end, on the board's machine or on the board."""

from __future__ import annotations

import tempfile
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from tinyc.base.errors import Loc, TinycError
from tinyc.board import Board, load_board
from tinyc.build.toolchain import find_toolchain
from tinyc.ir.arrays import load_npz
from tinyc.ir.graph import NUMPY_DTYPE, Graph, Value
from tinyc.pipeline.compiling import Compiled, compile_model
from tinyc.pipeline.device_run import DeviceLine, board_target
from tinyc.pipeline.options import Options, Progress
from tinyc.pipeline.proving import compile_library, proof_samples, run_samples
from tinyc.reference.samples import Samples
from tinyc.run import RunResult, find_target, firmware_board
from tinyc.verify.compare import compare, reference_outputs

SURE = 0.5  # what the only output of a model has to reach
_LABELS = "labels"  # their key in an .npz file
_MOST_LETTERS = 1 << 16
_LABELS_HINT = f"give a text file of one label a line, or an .npz with an array '{_LABELS}': one for each output"


@dataclass(frozen=True, slots=True)
class Heard:
    """From `at_s` seconds on the model answers so. label: None where the only output is below a half."""

    at_s: float
    label: str | None
    score: float


@dataclass(frozen=True, slots=True)
class Hearing:
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
    names = names_of(listening.labels, compiled.graph)
    _, samples = proof_samples(compiled, options)
    assert compiled.front is not None
    with progress.stage("reference"):
        counted = progress.counted("reference", len(samples))
        wanted = reference_outputs(compiled.graph, compiled.program, samples, counted)
    ran = run_library(compiled, board, options, samples, listening.line, progress)
    compared = compare(compiled.graph, ran.outputs, wanted)
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
        heard=tuple(_changes(_smoothed(scores, listening.smooth), names, seconds, compiled.front.runs)),
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


def reals_of(value: Value, data: bytes) -> npt.NDArray[np.float64]:
    numbers = np.frombuffer(data, NUMPY_DTYPE[value.dtype]).astype(np.float64)
    if value.quant is None:
        return numbers
    scale, zero = value.quant.per_tensor
    return scale * (numbers - zero)


def _smoothed(scores: Sequence[npt.NDArray[np.float64]], count: int) -> list[npt.NDArray[np.float64]]:
    """The mean of each with those before it, `count` together."""
    return [np.mean(scores[max(k + 1 - count, 0) : k + 1], axis=0) for k in range(len(scores))]


def _changes(
    scores: Sequence[npt.NDArray[np.float64]], names: Sequence[str], seconds: float, first: int
) -> Iterable[Heard]:
    """The first answer, and every other than the one before. first: runs until the first."""
    before: tuple[str | None] | None = None
    for run, score in enumerate(scores, first):
        best = int(score.argmax())
        label = names[best] if len(score) > 1 or score[best] >= SURE else None
        if before != (label,):
            yield Heard(round(run * seconds, 3), label, round(float(score[best]), 4))
        before = (label,)


def names_of(labels: Path | None, graph: Graph) -> Sequence[str]:
    """One for each element of the first output: of an .npz file the array `labels`, else lines of a text; without a
    file those of the model; else numbers."""
    output, own = graph.values[graph.outputs[0]], graph.labels.get(graph.outputs[0])
    if labels is None:
        if own is not None and not own.by_value:
            return own.texts
        return [str(index) for index in range(output.elements)]
    where = Loc(str(labels))
    try:
        held = load_npz(labels).get(_LABELS) if labels.suffix == ".npz" else labels.read_text("utf-8")[:_MOST_LETTERS]
    except OSError as error:
        raise TinycError(f"cannot read the labels: {error.strerror}", where, _LABELS_HINT) from error
    except UnicodeDecodeError as error:
        raise TinycError("the labels are not UTF-8 text", where, _LABELS_HINT) from error
    if held is None:
        raise TinycError(f"the file has no array '{_LABELS}'", where, _LABELS_HINT)
    names = held.split("\n") if isinstance(held, str) else [str(name) for name in held.reshape(-1)]
    names = [name.strip() for name in names if name.strip()]
    if len(names) != output.elements:
        message = f"there are {len(names)} labels; the model's output '{output.name}' has {output.elements} elements"
        raise TinycError(message, where, _LABELS_HINT)
    return names
