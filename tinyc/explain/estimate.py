# SPDX-License-Identifier: Apache-2.0
"""What a compiled model will cost, said from its kernels' own costs: no compiler, no emulator, no run.

Arena and constants are those of the library, exactly. Instructions and cycles are sums of what the kernels say
(`Cost`), which assembly knows to the instruction and compiled C does not: measured_costs.json holds, by core and
kernel, what a proof counted over what the kernel said (`bench/estimates.py` measures it). docs/estimate.md has the
errors.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, field, replace
from pathlib import Path
from typing import Any

from tinyc.base.dataclass import dataclass
from tinyc.base.shown import Shown, Summary, SummaryTable, bytes_of, nonempty, number
from tinyc.board import Board
from tinyc.board.core import core_named
from tinyc.choose.compiled_code import ROW_CODE, CompiledCode, compiled_code, compiled_name, table_of
from tinyc.emit.in_ram import waits_left
from tinyc.emit.program import Program, Step
from tinyc.kernel.counted import CountedShares, counted_at, measured_table
from tinyc.kernel.kernel import Cost
from tinyc.kernel.site import Act, Site
from tinyc.machine.cores import CORES_ERROR, SLOW_FLASH_ERROR, Core, PerInstruction, core_of, rules_in_words
from tinyc.machine.text_size import code_bytes
from tinyc.ops import op_of
from tinyc.ops.op import Trait
from tinyc.options.build import Optimize

_MEASURED = Path(__file__).with_name("measured_costs.json")
_CALL = 12  # instructions around each call of a step's function, its arguments included
_CALL_CYCLES = 18  # of these
_WAITS = "the waits within 40 %, mostly 15 %"  # tests/target/test_slow_flash.py
ASSEMBLY = "assembly"  # stands for a kernel in assembly that was never measured on the core, `""` for one in C
OTHERS = (ASSEMBLY, "")
_FRAME = re.compile(r"cfi_def_cfa_offset (\d+)")


@dataclass(frozen=True, slots=True)
class LayerEstimate:
    """One step. instructions, cycles: of an inference; cycles None where the core has no timing rules."""

    step: int
    name: str
    op: str
    kernel: str
    macs: int
    const_bytes: int
    instructions: int
    cycles: int | None


@dataclass(frozen=True, slots=True)
class Estimate(Shown):
    """arena_bytes, state_bytes (of the arena), const_bytes: exact. stack_bytes: at most, by the deepest that was
    measured of each kernel; None where the core's are not known. code_bytes, instructions, cycles, milliseconds:
    estimated; `error` says how well the instructions, `cycle_error` how well the cycles. cycles and milliseconds are
    None where the core's are not known, microjoules where the board's energy is not; `energy`: where it was measured.
    problem: why it does not fit the board, None if it does."""

    model: str
    board: str
    arena_bytes: int
    state_bytes: int
    const_bytes: int
    code_bytes: int
    stack_bytes: int | None
    instructions: int
    cycles: int | None
    milliseconds: float | None
    microjoules: float | None
    macs: int
    error: str
    cycle_error: str | None
    energy: str | None
    problem: str | None
    layers: tuple[LayerEstimate, ...]

    __repr__ = Shown.text

    def summary(self) -> Summary:
        """The figures, and the layers."""
        milliseconds = "" if self.milliseconds is None else f", {self.milliseconds:,.2f} ms"
        facts = nonempty(
            fits=self.problem or "yes",
            instructions=f"{self.instructions:,}, error {self.error}",
            cycles="" if self.cycles is None else f"{self.cycles:,}{milliseconds}",
            flash=f"{self.flash_bytes:,} bytes: code {self.code_bytes:,}, constants {self.const_bytes:,}",
            arena=bytes_of(self.arena_bytes),
            stack="" if self.stack_bytes is None else f"at most {self.stack_bytes:,} bytes",
        )
        heads = ("step", "layer", "operator", "kernel", "MACs", "constants", "instructions", "cycles")
        rows = [
            (str(one.step), one.name, one.op, one.kernel, *map(number, figures))
            for one in self.layers
            for figures in [(one.macs, one.const_bytes, one.instructions, one.cycles)]
        ]
        return Summary(f"{self.model} on {self.board}, estimated", facts, [SummaryTable(heads, rows)])

    @property
    def flash_bytes(self) -> int:
        """Constants and code."""
        return self.const_bytes + self.code_bytes

    @property
    def fits(self) -> bool:
        """Whether arena and flash are within the board's, without anything else of the application."""
        return self.problem is None

    def to_json(self) -> dict[str, Any]:
        """Plain values, with `flash_bytes` and `fits`."""
        return asdict(self) | {"flash_bytes": self.flash_bytes, "fits": self.fits}


@dataclass(frozen=True)
class MeasuredCosts:
    """measured_costs.json, each by core, kernels, cycles and errors also by `table_of`. kernels: by `kernel_keys`, how
    many instructions each of `FEATURES` stands for, as far as the last that stands for any. cycles: the same of
    modelled cycles, of `cycle_features`. errors, cycle_errors: in words. `OTHERS` stand for kernels that were never
    measured on the core. stack: by kernel, bytes that a step takes beside functions in assembly; `""`: that are taken
    beside steps."""

    kernels: Mapping[str, Mapping[str, Sequence[float]]]
    errors: Mapping[str, str]
    stack: Mapping[str, Mapping[str, int]] = field(default_factory=dict)
    cycles: Mapping[str, Mapping[str, Sequence[float]]] = field(default_factory=dict)
    cycle_errors: Mapping[str, str] = field(default_factory=dict)

    def counted(self, step: StepOnCore) -> int:
        """Instructions of a step with these features. A kernel whose cost is counted takes that where no proof of a
        model has the kernel."""
        other = core_named(step.core).measured_as
        tables = [*_tables(step.core, step.optimize), *((other,) if other else ())]
        lines = [self.kernels.get(table, {}) for table in tables]
        if step.shares is not None:
            lines.append({step.keys[0]: (step.shares.instructions,)})
        return round(_on_line(_first_with(step.keys, lines), step) * _share(self.kernels, step))

    def cycled(self, step: StepOnCore) -> int:
        """Cycles of a step with these `cycle_features`."""
        lines = [self.cycles.get(table, {}) for table in _tables(step.core, step.optimize)]
        return round(_on_line(_first_with(step.keys, lines), step) * _share(self.cycles, step))


@dataclass(frozen=True, slots=True)
class StepOnCore:
    """What a step's costs on a core are looked up by. keys: of `kernel_keys`. features: what the costs grow with.
    optimize: what the compiler is told. shares: of a kernel whose cost is counted."""

    core: str
    keys: Sequence[str]
    features: Sequence[float]
    optimize: Optimize = "speed"
    shares: CountedShares | None = None


def _share(measured: Mapping[str, Mapping[str, Sequence[float]]], step: StepOnCore) -> float:
    """What code that is compiled for size takes of what is said; 1 where proofs of such code have said it."""
    table = measured.get(table_of(step.core, step.optimize), {})
    return 1.0 if step.optimize != "size" or step.shares is None or _have(table, step.keys) else step.shares.for_size


def _tables(core: str, optimize: Optimize) -> Sequence[str]:
    """The one of the compiler's option, and of the usual one."""
    return tuple(dict.fromkeys((table_of(core, optimize), core)))


def _first_with(keys: Sequence[str], tables: Sequence[Mapping[str, Sequence[float]]]) -> Mapping[str, Sequence[float]]:
    """The first of the tables that has the kernel; else the first one that has anything."""
    return next((table for table in tables if _have(table, keys)), next(filter(None, tables), {}))


def _have(lines: Mapping[str, Sequence[float]], keys: Sequence[str]) -> bool:
    """Whether there is one of the kernel, not only of others."""
    return any(key in lines for key in keys if key not in OTHERS)


def _on_line(lines: Mapping[str, Sequence[float]], step: StepOnCore) -> int:
    factors = next((lines[key] for key in step.keys if key in lines), (1.0,))
    return max(round(sum(factor * value for factor, value in zip(factors, step.features, strict=False))), 0)


def kernel_keys(
    kernel: str, title: str, steps: int, same_scale: bool = False, *, assembly: bool = False
) -> Sequence[str]:
    """The kernel's name with what decides how a compiler translates it, and with less of that. title: of the step, with
    what is fused into it. steps: that call the kernel; of a single one it becomes part, its parameters constants.
    same_scale: of input and output; then a factor between them that is a constant is 1. assembly: what it takes is
    counted in its text, so where it was never measured, it is compared with others in assembly."""
    fused = " fused" * (" + " in title)
    called = f"{kernel}{fused} {'shared' if steps > 1 else 'alone'}"
    exact = (f"{called} {'same' if same_scale else 'other'} scale",) if steps == 1 else ()
    return (*exact, called, f"{kernel}{fused}", kernel, ASSEMBLY if assembly else "")


def has_one_scale(step: Step) -> bool:
    """Whether the step's first input and output are quantized alike."""
    site = step.choice.site
    if not step.node.inputs or not site.has(0) or site.is_const(0):
        return False
    x, y = site.x().quant, site.y().quant
    return x is not None and y is not None and x.scale == y.scale


FEATURES = ("said", "step", "macs", "outputs", "pixels", "inputs", "calls", "runs", "more", "zeros")


def features_of(step: Step) -> tuple[float, ...]:
    """What instructions of a step may grow with, as `FEATURES`: what its kernel says that it takes, with the call; 1;
    MACs; elements of its outputs; elements of one channel of them; elements of its largest input; calls of the kernel;
    products with all channels of a pixel, which are one loop; elements that outputs have more than inputs; MACs in
    float32 of an input with many zeros, which take less where a library does them. Compilers decide what each of them
    costs, so that is measured."""
    site = step.choice.site
    outputs = [site.y(i) for i in range(len(step.node.outputs))]
    inputs = [site.x(i).elements for i in range(len(step.node.inputs)) if site.has(i) and not site.is_const(i)]
    elements = sum(y.elements for y in outputs)
    channels = outputs[0].shape[-1] if outputs and outputs[0].shape else 1
    calls = step.call.rows.calls if step.call.rows else 1
    of_pixel = site.x().shape[-1] if inputs and site.x().shape else 1
    most = max(inputs, default=0)
    return (
        step_cost(step).instructions + _CALL,
        1,
        step.macs,
        elements,
        elements // max(channels, 1),
        most,
        calls,
        step.macs // max(of_pixel, 1),
        max(elements - most, 0),
        step.macs if inputs and has_zeros(site) else 0,
    )


def has_zeros(site: Site) -> bool:
    """Whether the first input is float32 and comes out of a ReLU, perhaps moved since."""
    if site.is_const(0) or site.x().dtype != "f32":
        return False
    producer, name = site.graph.producer(), site.node.inputs[0]
    while (node := producer.get(name)) is not None:
        if getattr(node.attrs, "act", Act()).lo == 0:
            return True
        if not op_of(node).traits & {Trait.MOVES, Trait.SELECTS}:
            return False
        name = node.inputs[0]
    return False


def cycle_features(step: Step, core: str) -> tuple[float, ...]:
    """What cycles of a step on a core may grow with: as `features_of`, but said are cycles, where the kernel's are this
    core's. Waits for slow flash are not in them."""
    said, *others = features_of(step)
    cost = step_cost(step)
    return (cost.cycles - cost.waits + _CALL_CYCLES if core_named(core).ordered else said, *others)


def estimate(
    model: str,
    program: Program,
    board: Board,
    measured: MeasuredCosts | None = None,
    *,
    ram: int | None = None,
) -> Estimate:
    """The costs of a program that `compile_model` has made for the board. ram: bytes that the arena may take, where
    these are fewer than the board's."""
    costs = measured or MeasuredCosts(**measured_table(_MEASURED))
    compiled = core_named(board.core).code or board.core
    core, optimize = core_of(board.core), program.optimize
    if not isinstance(core, PerInstruction) and compiled not in costs.cycles:
        core = None
    waits = {step.index: _waits(program, step, board) for step in program.steps}
    layers = tuple(_layers(program, compiled, costs, core, optimize, waits))
    table = next((name for name in _tables(compiled, optimize) if name in costs.errors), compiled)
    consts, code = _constants(program), _code(program, compiled_code(board.core, board.isa, optimize))
    cycles = sum(layer.cycles or 0 for layer in layers) if core is not None else None
    energy = board.energy
    return Estimate(
        model=model,
        board=board.name,
        arena_bytes=program.arena_bytes,
        state_bytes=program.arena_bytes - program.state_offset,
        const_bytes=consts,
        code_bytes=code,
        stack_bytes=_stack_bytes(program, costs.stack.get(compiled, {})),
        instructions=sum(layer.instructions for layer in layers),
        cycles=cycles,
        milliseconds=round(1000 * cycles / board.clock_hz, 3) if cycles is not None and board.clock_hz else None,
        microjoules=round(energy.microjoules(cycles), 1) if energy is not None and cycles is not None else None,
        macs=sum(step.macs for step in program.steps),
        error=costs.errors.get(table, "not measured on this core"),
        cycle_error=_cycle_error(core, board, costs, table, program.cores) if core is not None else None,
        energy=energy.said if energy is not None and cycles is not None else None,
        problem=_problem(board, program.arena_bytes, consts + code, ram),
        layers=layers,
    )


def _constants(program: Program) -> int:
    return sum(symbol.const.data.nbytes for symbol in program.symbols)


def _code(program: Program, compiled: CompiledCode) -> int:
    kernels = [
        compiled_name(step.choice.kernel, step.call, step.row_step.form if step.row_step else None)
        for step in program.steps
        if not _grown(step)
    ]
    pointers = sum(step.call.rows.window_rows for step in program.steps if step.is_streamed and step.call.rows)
    return assembly_bytes(program) + compiled.library(kernels) + ROW_CODE * pointers


def _grown(step: Step) -> bool:
    """Whether the step's C grows with the layer, so that its bytes are not those of its kernel."""
    return any(special.compiled_bytes for special in step.specials)


def _waits(program: Program, step: Step, board: Board) -> int:
    """Cycles of an inference that the step waits for the board's flash."""
    if board.flash_timing is None or program.in_ram is None:
        return step_cost(step).waits
    return waits_left(program, step, board.flash_timing)


def _layers(
    program: Program,
    core: str,
    costs: MeasuredCosts,
    timed: Core | None,
    optimize: Optimize,
    waits: Mapping[int, int],
) -> Iterator[LayerEstimate]:
    """timed: by whose rules there are cycles. waits: for slow flash, of each step."""
    kernels = Counter(step.choice.kernel.name for step in program.steps)
    for step in program.steps:
        kernel = step.choice.kernel.name
        assembly = assembly_stack_bytes(step) > 0
        keys = kernel_keys(kernel, step.title, kernels[kernel], has_one_scale(step), assembly=assembly)
        own = StepOnCore(core, keys, features_of(step), optimize, counted_at(kernel, step.choice.site))
        instructions = costs.counted(own)
        cycles, split = None, step.split
        if isinstance(timed, PerInstruction):
            cycles = round(timed.rate * instructions)
        elif timed is not None:
            cycles = costs.cycled(replace(own, features=cycle_features(step, core)))
        if cycles is not None:
            cycles = (split.time_of(cycles) if split else cycles) + waits[step.index]
        yield LayerEstimate(
            step=step.index,
            name=step.node.layer,
            op=step.title,
            kernel=kernel,
            macs=step.macs,
            const_bytes=step.const_bytes,
            instructions=instructions,
            cycles=cycles,
        )


@dataclass(frozen=True, slots=True)
class StepCost:
    """Of an inference, as the step's kernel says it. waits: of the cycles, those for slow flash."""

    instructions: float
    cycles: float
    waits: int


def step_cost(step: Step) -> StepCost:
    """Of two forms of a row step, each by its share of the calls."""
    row = step.row_step
    if row is None:
        return _shared_out(step.choice.cost, step.choice.cost, 0)
    calls = step.call.rows.calls if step.call.rows else 1
    if row.spare is None:
        return _shared_out(row.form.cost, row.form.cost, 0)
    return _shared_out(row.form.cost, row.spare.cost, len(row.spare_calls) / calls)


def _shared_out(one: Cost, other: Cost, share: float) -> StepCost:
    """share: of the other."""
    return StepCost(
        one.instructions * (1 - share) + other.instructions * share,
        one.cycles * (1 - share) + other.cycles * share,
        round(one.waits * (1 - share) + other.waits * share),
    )


def assembly_bytes(program: Program) -> int:
    """Bytes of the functions that were written for single layers: of assembly, and of C that grows with the layer."""
    return sum(special.compiled_bytes or code_bytes(special.text) for special in program.specials)


def assembly_stack_bytes(step: Step) -> int:
    """The deepest frame of the functions in assembly that were written for the layer, none of which calls another, and
    the arrays of C around them."""
    frames = (int(depth) for special in step.specials for depth in _FRAME.findall(special.text))
    return max(frames, default=0) + max((special.array_bytes for special in step.specials), default=0)


def _stack_bytes(program: Program, by_kernel: Mapping[str, int]) -> int | None:
    """What the library takes at most; None where a kernel was never measured. by_kernel: of the core, by kernel."""
    if not by_kernel or any(step.choice.kernel.name not in by_kernel for step in program.steps):
        return None
    deepest = max(
        (by_kernel[step.choice.kernel.name] + assembly_stack_bytes(step) for step in program.steps), default=0
    )
    return by_kernel[""] + deepest


def _cycle_error(core: Core, board: Board, costs: MeasuredCosts, table: str, cores: int = 1) -> str:
    """With how near the estimate is to what a proof models; to what it counts, of cycles that are so many for each
    instruction."""
    measured = costs.cycle_errors.get(table) or costs.errors.get(table, "what was not measured")
    waits = f", without the waits of {board.slow_ram.name}" if board.slow_ram is not None else ""
    waits += f"; on {cores} cores, {CORES_ERROR}" if cores > 1 else ""
    if board.flash_timing is None:
        return f"{rules_in_words(core)}; estimated within {measured}{waits}"
    return f"{core.name}, within {measured}, but for the flash's waits, {_WAITS}; {SLOW_FLASH_ERROR}{waits}"


def _problem(board: Board, arena: int, flash: int, ram: int | None) -> str | None:
    if board.ram_bytes is not None and arena > board.ram_bytes:
        return f"the arena takes {arena:,} bytes, {board.name} has {board.ram_bytes:,} of RAM"
    if ram is not None and arena > ram:
        return f"the arena takes {arena:,} bytes, --ram is {ram:,}"
    if board.flash_bytes is not None and flash > board.flash_bytes:
        return f"the library takes about {flash:,} bytes of flash, {board.name} has {board.flash_bytes:,}"
    return None
