# SPDX-License-Identifier: Apache-2.0
"""What a build states: one value that prints as text and as JSON. docs/report.md documents the schema."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, fields
from typing import Any

from tinyc.base.dataclass import dataclass
from tinyc.base.shown import Shown, Summary, SummaryTable, bytes_of, nonempty, number
from tinyc.verify.front import ModelFront

SCHEMA = 1


def reference_name(kind: str) -> str:
    """What outputs are compared with where the user gives none. kind: `Program.kind`."""
    return f"{kind} reference"


@dataclass(frozen=True, slots=True)
class Integers:
    """How a tensor's integers stand for reals: scale * (q - zero). Both None where there are several `scales`."""

    dtype: str
    scales: int
    scale: float | None = None
    zero: int | None = None


@dataclass(frozen=True, slots=True)
class Alternative:
    """A kernel that a layer might have had, and the one that it has. Costs are what it was chosen by, cycles those of a
    Cortex-M4, estimates but for kernels written for the layer; None where it does not take the layer, and `asks` says
    why."""

    kernel: str
    instructions: int | None = None
    cycles: int | None = None
    flash_bytes: int | None = None
    scratch_bytes: int | None = None
    asks: str = ""


@dataclass(frozen=True, slots=True)
class Change:
    """Something of the model file that is no step of the library: what, and what became of it."""

    what: str
    why: str


@dataclass(frozen=True, slots=True)
class LayerReport:
    """One step of the library. arena: the output's bytes [first, end). instructions: None where not counted;
    cycles: modelled, None where the core has no cycle model. made_of: the nodes of the model file that are in it.
    sqnr_db: of its output beside the float model's, None where that is not known. reads: the steps whose outputs it
    reads; -1: what is there when a run begins, inputs and states."""

    step: int
    name: str
    op: str
    kernel: str
    input_shapes: tuple[tuple[int, ...], ...]
    output_shape: tuple[int, ...]
    macs: int
    const_bytes: int
    arena: tuple[int, int]
    scratch_bytes: int
    instructions: int | None
    cycles: int | None = None
    made_of: tuple[str, ...] = ()
    tensor: str = ""  # the model file's name of its output, or of the output of the node that it is a part of
    output: Integers | None = None
    weights: Integers | None = None
    sqnr_db: float | None = None
    why: str = ""  # it has this kernel
    tile: str = ""  # of its inner loop: accumulators, where inputs come from, how weights lie; empty where none is told
    alternatives: tuple[Alternative, ...] = ()
    reads: tuple[int, ...] = ()
    in_slow: bool = False  # `arena` counts in the part of the arena that lies in a second RAM


@dataclass(frozen=True, slots=True)
class GroupReport:
    """Steps `first` to `last` that run row by row, their calls interleaved. calls: of all of them in an inference."""

    first: int
    last: int
    calls: int


@dataclass(frozen=True, slots=True)
class SlowReport:
    """The part of the arena in the board's second RAM, by its name. waits: cycles more that its accesses take in an
    inference; `cycles` is without them. counted: every access, in the emulator; else estimated from the bytes that
    layers read and write there."""

    memory: str
    bytes: int
    waits: int
    counted: bool


@dataclass(frozen=True, slots=True)
class Holding:
    """Bytes [first, end) of the arena in the steps [born, dies), and what has them: the name of a tensor, or of the
    layer whose scratch it is. kind: input, tensor, output, scratch or state."""

    name: str
    kind: str
    first: int
    end: int
    born: int
    dies: int


@dataclass(frozen=True, slots=True)
class MemoryReport:
    """The arena over time. moments: of an inference, a step each, of steps that run row by row a call each. live: bytes
    that hold something, in so many equal shares of that time, the most of each. holds: who has which bytes; empty where
    steps run row by row, since then each row has a place of its own."""

    moments: int
    live: tuple[int, ...]
    holds: tuple[Holding, ...]


@dataclass(frozen=True, slots=True)
class Flash:
    """Bytes of the library alone, without the firmware harness: code, and constants with parameter structs."""

    code_bytes: int
    const_bytes: int


@dataclass(frozen=True, slots=True)
class RamCodeReport:
    """What start-up code copies from flash to RAM (`--ram-code`), where it lies beside the arena. In Flash it counts,
    too. budget: what was allowed."""

    code_bytes: int
    const_bytes: int
    budget: int


@dataclass(frozen=True, slots=True)
class EnergyReport:
    """What an inference takes on a board whose file says what a cycle does, estimated. cycles: with the waits for its
    flash, which the first input was followed for. microjoules: of these; least, most: with the errors of both, which
    `source` says, with where they were measured."""

    microjoules: float
    least: float
    most: float
    cycles: int
    source: str

    @property
    def said(self) -> str:
        """In words."""
        figures = f"{self.least:,.0f} to {self.most:,.0f} uJ an inference, estimated"
        return f"{figures}: {self.cycles:,} cycles {self.source}"


@dataclass(frozen=True, slots=True)
class Verify:
    """Bytes compared with the reference. `first_difference` names the first step that differs."""

    inputs: int
    output_bytes: int
    mismatches: int
    against: str
    first_difference: str | None = None


@dataclass(frozen=True, slots=True)
class Quality:
    """A figure of both models on labelled samples: top-1 and AUC are shares, MSE in units of the output squared."""

    name: str
    float_model: float
    integer_model: float

    @property
    def words(self) -> str:
        """`0.97 -> 0.95`."""
        return f"{self.float_model:.4g} -> {self.integer_model:.4g}"


@dataclass(frozen=True, slots=True)
class Accuracy:
    """The integer model against the float model on all inputs that were given; top1 where labels are known.

    sqnr_db: 10 log10 of float output power over error power. agreement: share of equal arg max, of models that choose
    between classes. None: no error, or the figure would say nothing (`tinyc.verify.accuracy`). integers: widths of
    weights and activations, in words. source: the file of the inputs. on_calibration: the model was quantized with
    them. exact: the float model's outputs, every one. never_chosen: classes that labels or the float model choose, and
    the integers never. qualities: what labels tell beside top-1, that of `--metric` first; metric: its name.
    """

    inputs: int
    sqnr_db: float | None
    agreement: float | None
    top1_float: float | None = None
    top1_int: float | None = None
    integers: str = "int8"
    source: str = ""
    on_calibration: bool = False
    exact: bool = False
    never_chosen: tuple[int, ...] = ()
    qualities: tuple[Quality, ...] = ()
    metric: str | None = None

    @property
    def words(self) -> str:
        """`top-1 95.0% -> 95.0%, agreement 100.0%, SQNR 35.4 dB; float -> int8 on 480 inputs of test.npz`."""
        figures = [f"{name} {value}" for name, value in self._figures()]
        if self.exact:
            figures.append("outputs equal to the float model's")
        compared = self.agreement is not None or self.sqnr_db is not None or self.exact
        what = f"float -> {self.integers}" if compared or self.top1_float is not None else self.integers
        inputs = f"{self.inputs:,} input{'' if self.inputs == 1 else 's'}"
        of = f" of {self.source}" if self.source else ""
        kind = ", the calibration inputs" if self.on_calibration else ""
        return f"{', '.join(figures) or 'no figure says anything'}; {what} on {inputs}{of}{kind}"

    def _figures(self) -> Iterator[tuple[str, str]]:
        asked = [figure for figure in self.qualities if figure.name == self.metric]
        yield from ((figure.name, figure.words) for figure in asked)
        if self.top1_float is not None and self.top1_int is not None:
            yield "top-1", f"{self.top1_float:.1%} -> {self.top1_int:.1%}"
        elif self.top1_int is not None:
            yield "top-1", f"{self.top1_int:.1%}"
        yield from ((figure.name, figure.words) for figure in self.qualities if figure not in asked)
        if self.agreement is not None:
            yield "agreement", f"{self.agreement:.1%}"
        if self.sqnr_db is not None:
            yield "SQNR", f"{self.sqnr_db:.1f} dB"


@dataclass(frozen=True, slots=True)
class CalibrationReport:
    """Where the activation ranges came from; `proven` is false for synthetic inputs."""

    source: str
    samples: int
    proven: bool


@dataclass(frozen=True, slots=True)
class NamedFile:
    """A file that `arguments` name."""

    name: str
    sha256: str


@dataclass(frozen=True, slots=True)
class Report(Shown):
    """Everything that `tinyc build` states. Sizes in bytes; `instructions` is one inference, exact;
    `cycles` is the mean of the inferences run, by the timing rules that `cycle_model` names, of all cores together;
    `cycles_on_cores` is what passes until `cores` of them are done, None where one runs it."""

    schema: int
    tinyc: str
    model: str
    model_sha256: str
    name: str
    board: str
    machine: str
    toolchain: str
    optimize: str
    numerics: str
    macs: int
    arena_bytes: int
    arena_lower_bound_bytes: int
    stack_bytes: int | None
    flash: Flash
    instructions: int | None
    overhead_instructions: int | None
    layers: tuple[LayerReport, ...]
    verify: Verify
    calibration: CalibrationReport | None = None
    accuracy: Accuracy | None = None
    cycles: int | None = None
    cycle_model: str | None = None
    groups: tuple[GroupReport, ...] = ()  # empty: every step finishes its output before the next one begins
    input_rows: bool = False  # the input is given row by row
    state_bytes: int = 0  # of the arena, kept from run to run
    calls: int = 1  # of an incremental library, for one window; instructions, cycles and MACs are of all of them
    changes: tuple[Change, ...] = ()
    slow: SlowReport | None = None  # the part of the arena that lies in a second RAM; arena_bytes is without it
    memory: MemoryReport | None = None
    arguments: tuple[str, ...] = ()  # of `tinyc build MODEL`, files by their names
    files: tuple[NamedFile, ...] = ()  # that the arguments name
    ram_code: RamCodeReport | None = None  # code and constants that start-up code copies to RAM
    energy: EnergyReport | None = None
    cores: int = 1
    cycles_on_cores: int | None = None
    front: ModelFront | None = None  # with `--report`: what else the library can be

    __repr__ = Shown.text

    @property
    def passed(self) -> bool:
        return self.verify.mismatches == 0

    def summary(self) -> Summary:
        """The figures of a build, and its layers."""
        verify = self.verify
        what = f"{verify.output_bytes:,} output bytes on {self.machine}"
        facts = nonempty(
            proved=f"yes, {what}: all equal" if self.passed else f"NO, {what}: {verify.mismatches:,} differ",
            accuracy="" if self.accuracy is None else self.accuracy.words,
            instructions="" if self.instructions is None else f"{self.instructions:,} an inference",
            cycles="" if self.cycles is None else f"{self.cycles:,} modelled",
            flash=bytes_of(self.flash.code_bytes + self.flash.const_bytes),
            arena=bytes_of(self.arena_bytes),
            stack=bytes_of(self.stack_bytes),
        )
        return Summary(f"{self.name} for {self.board}: {self.model}", facts, [layer_table(self.layers)])

    def to_json(self) -> dict[str, Any]:
        """Plain lists, dicts, numbers and strings; keys in a fixed order."""
        return asdict(self)


@dataclass(frozen=True, slots=True)
class UnprovedReport(Shown):
    """What `tinyc build --no-proof` states: the library as it was planned and written; nothing ran. Fields as in
    Report; toolchain and flash are None where no compiler is installed. In JSON, what a run would tell is null."""

    schema: int
    tinyc: str
    model: str
    model_sha256: str
    name: str
    board: str
    optimize: str
    numerics: str
    macs: int
    arena_bytes: int
    arena_lower_bound_bytes: int
    layers: tuple[LayerReport, ...]
    toolchain: str | None
    flash: Flash | None
    calibration: CalibrationReport | None = None
    groups: tuple[GroupReport, ...] = ()
    input_rows: bool = False
    state_bytes: int = 0
    calls: int = 1
    changes: tuple[Change, ...] = ()
    slow: SlowReport | None = None
    memory: MemoryReport | None = None
    arguments: tuple[str, ...] = ()
    files: tuple[NamedFile, ...] = ()
    ram_code: RamCodeReport | None = None
    accuracy: Accuracy | None = None  # of the integer reference, which the library was not compared with
    cores: int = 1
    front: ModelFront | None = None

    __repr__ = Shown.text

    @property
    def passed(self) -> bool:
        """Not proved."""
        return False

    def summary(self) -> Summary:
        """What is known without a run, and its layers."""
        flash = self.flash
        facts = nonempty(
            proved="NO, nothing was run",
            accuracy="" if self.accuracy is None else self.accuracy.words,
            flash="" if flash is None else bytes_of(flash.code_bytes + flash.const_bytes),
            arena=bytes_of(self.arena_bytes),
        )
        return Summary(f"{self.name} for {self.board}: {self.model}", facts, [layer_table(self.layers)])

    def to_json(self) -> dict[str, Any]:
        """The keys of Report, in their order."""
        own = asdict(self)
        return {each.name: own.get(each.name) for each in fields(Report)}


def layer_table(layers: Sequence[LayerReport]) -> SummaryTable:
    """A row for each step of a library."""
    rows = [
        (str(one.step), one.name, one.op, one.kernel, *map(number, (one.macs, one.const_bytes, one.instructions)))
        for one in layers
    ]
    return SummaryTable(("step", "layer", "operator", "kernel", "MACs", "constants", "instructions"), rows)


def timings_text(seconds: Mapping[str, float]) -> str:
    """`load 0.1 s, quantize 2.3 s, ...`: where the time of a build went."""
    return ", ".join(f"{stage} {taken:.1f} s" for stage, taken in seconds.items())
