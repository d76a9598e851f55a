# SPDX-License-Identifier: Apache-2.0
"""What `tinyc bench` states; docs/bench.md documents the schema."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterator
from dataclasses import asdict
from typing import Any

from tinyc.base.dataclass import dataclass
from tinyc.base.shown import Shown, Summary, SummaryTable, nonempty, number
from tinyc.verify.report import EnergyReport

SCHEMA = 1
CSV_COLUMNS = (
    "model",
    "where",
    "device",
    "software",
    "arithmetic",
    "instructions",
    "cycles",
    "arena_bytes",
    "stack_bytes",
    "code_bytes",
    "const_bytes",
    "mismatches",
    "median_us",
    "p90_us",
    "times_c",
    "throughput_per_s",
    "best_batch",
    "agreement",
    "sqnr_db",
    "top1_reference",
    "top1_board",
)


@dataclass(frozen=True, slots=True)
class Computer:
    """What the desktop runs ran on."""

    cpu: str
    system: str
    python: str


@dataclass(frozen=True, slots=True)
class Latency:
    """Microseconds of one inference at batch 1, warm-up excluded, over `runs` runs."""

    median_us: float
    p90_us: float
    runs: int


@dataclass(frozen=True, slots=True)
class Parity:
    """The board's outputs against the reference's on the same inputs.

    agreement: share of equal arg max of the first output; None where it is no choice between classes, or the same for
    all inputs. sqnr_db: 10 log10 of reference power over error power, all outputs, dequantized; None: no error.
    different: output integers that differ, where the reference gives integers.
    top1_*: share of right answers where labels are known.
    """

    inputs: int
    agreement: float | None
    sqnr_db: float | None
    different: int | None = None
    top1_reference: float | None = None
    top1_board: float | None = None


@dataclass(frozen=True, slots=True)
class ReferenceResult:
    """A desktop run. kind: `c` (the generated library), `cpu` or `gpu`. times_c: its latency over that of the generated
    C, the median of the ratios of neighbouring runs."""

    kind: str
    name: str
    device: str
    software: str
    arithmetic: str
    latency: Latency
    times_c: float
    throughput_per_s: float
    best_batch: int
    parity: Parity


@dataclass(frozen=True, slots=True)
class BoardResult:
    """What the library costs on a board, as in the report of `tinyc build`. cycles, milliseconds: modelled, by the
    rules that cycle_model names. energy: where the board's file says what a cycle takes. optimize: what the C compiler
    was told; None in reports of before."""

    board: str
    machine: str
    toolchain: str
    instructions: int | None
    cycles: int | None
    milliseconds: float | None
    arena_bytes: int
    stack_bytes: int | None
    code_bytes: int
    const_bytes: int
    inputs: int
    output_bytes: int
    mismatches: int
    cycle_model: str | None = None
    energy: EnergyReport | None = None
    optimize: str | None = None


@dataclass(frozen=True, slots=True)
class Missing:
    """A reference that was asked for and could not be run, and why."""

    kind: str
    reason: str


@dataclass(frozen=True, slots=True)
class ModelResult:
    """One model: its boards, its desktop runs. inputs_source: the file of the inputs, or how they were made."""

    model: str
    model_sha256: str
    name: str
    numerics: str
    macs: int
    inputs_source: str
    boards: tuple[BoardResult, ...]
    references: tuple[ReferenceResult, ...]
    missing: tuple[Missing, ...]


@dataclass(frozen=True, slots=True)
class BenchReport(Shown):
    """Everything that `tinyc bench` measured."""

    schema: int
    tinyc: str
    computer: Computer
    models: tuple[ModelResult, ...]

    __repr__ = Shown.text

    def summary(self) -> Summary:
        """Boards and desktop runs of each model."""
        boards = [
            (model.name, one.board, *map(number, (one.instructions, one.cycles, one.arena_bytes)))
            for model in self.models
            for one in model.boards
        ]
        runs = [
            (model.name, one.name, f"{one.latency.median_us:,.0f}", f"{one.times_c:.2f}")
            for model in self.models
            for one in model.references
        ]
        tables = [
            SummaryTable(("model", "board", "instructions", "cycles", "arena"), boards),
            SummaryTable(("model", "run", "microseconds", "times the C"), runs),
        ]
        equal = nonempty(bytes="all equal" if self.passed else "DIFFERENT")
        return Summary(f"{len(self.models)} models on {self.computer.cpu}", equal, tables)

    @property
    def passed(self) -> bool:
        """Whether every board gave the reference's bytes."""
        return not any(board.mismatches for model in self.models for board in model.boards)

    def to_json(self) -> dict[str, Any]:
        """Plain lists, dicts, numbers and strings; keys in a fixed order."""
        return asdict(self)

    def to_csv(self) -> str:
        """One line per model and board or desktop run, empty where a figure does not apply."""
        text = io.StringIO()
        lines = csv.DictWriter(text, CSV_COLUMNS, restval="", lineterminator="\n")
        lines.writeheader()
        for model in self.models:
            lines.writerows(_lines(model))
        return text.getvalue()


def _lines(model: ModelResult) -> Iterator[dict[str, Any]]:
    for board in model.boards:
        row = asdict(board) | {"model": model.model, "where": board.board, "device": board.machine}
        row["software"], row["arithmetic"] = board.toolchain, "int8"
        yield _of_columns(row)
    for reference in model.references:
        row = asdict(reference) | asdict(reference.latency) | asdict(reference.parity)
        yield _of_columns(row | {"model": model.model, "where": reference.kind})


def _of_columns(values: dict[str, Any]) -> dict[str, Any]:
    return {key: values[key] for key in CSV_COLUMNS if values.get(key) is not None}
