# SPDX-License-Identifier: Apache-2.0
"""`tinyc run --image`: pictures given to a library with a camera, on the board's machine or on the board."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import Any

from tinyc.base.dataclass import dataclass
from tinyc.base.shown import Shown, Summary, SummaryTable, nonempty, proved
from tinyc.board import load_board
from tinyc.options.build import Options
from tinyc.pipeline.answers import answer, labels_of, reals_of
from tinyc.pipeline.compiling import compile_model
from tinyc.pipeline.hearing import Listening, run_library
from tinyc.pipeline.progress import Progress
from tinyc.pipeline.proving import pictures_for
from tinyc.verify.compare import compare, reference_outputs


@dataclass(frozen=True, slots=True)
class Seen:
    """What the model answers of a picture: label and score as `answer` gives them."""

    picture: str
    label: str | None
    score: float | None


@dataclass(frozen=True, slots=True)
class Looking(Shown):
    """What a library made of pictures, against the integer reference."""

    name: str
    board: str
    machine: str
    output_bytes: int
    mismatches: int
    first_input: int | None
    damaged_guards: tuple[str, ...]
    seen: tuple[Seen, ...]

    __repr__ = Shown.text

    def summary(self) -> Summary:
        """What was made of it."""
        rows = [(one.picture, one.label or "", "" if one.score is None else f"{one.score:.3g}") for one in self.seen]
        table = SummaryTable(("picture", "label", "score"), rows)
        seen = ", ".join(f"{one.picture}: {one.label}" for one in self.seen)
        title = f"{self.name} on {self.board}"
        return Summary(title, nonempty(proved=proved(self.output_bytes, self.mismatches), seen=seen), [table])

    @property
    def passed(self) -> bool:
        return self.mismatches == 0 and not self.damaged_guards

    def to_json(self) -> dict[str, Any]:
        return {**asdict(self), "passed": self.passed}


def look(path: Path, options: Options, listening: Listening, progress: Progress) -> Looking:
    """Gives `options.image` to the model's library, picture after picture."""
    board = load_board(options.board)
    compiled = compile_model(path, board, options, progress)
    output = compiled.graph.values[compiled.graph.outputs[0]]
    labels = labels_of(listening.labels, compiled.graph)
    samples, pictures = pictures_for(compiled, options)
    with progress.stage("reference"):
        counted = progress.counted("reference", len(samples))
        expected = reference_outputs(compiled.graph, compiled.program, samples, counted)
    ran = run_library(compiled, board, options, samples, listening.line, progress)
    compared = compare(compiled.graph, ran.outputs, expected)
    answers = [answer(labels, reals_of(output, outputs[0])) for outputs in ran.outputs]
    return Looking(
        name=compiled.program.name,
        board=board.name,
        machine=ran.machine,
        output_bytes=compared.output_bytes,
        mismatches=compared.mismatches,
        first_input=compared.first_input,
        damaged_guards=ran.damaged_guards,
        seen=tuple(Seen(name, *said) for name, said in zip(pictures, answers, strict=True)),
    )
