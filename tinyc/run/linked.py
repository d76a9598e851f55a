# SPDX-License-Identifier: Apache-2.0
"""A generated library inside a program that somebody else linked: its functions are called one by one on unicorn,
without the program's start-up code, its main, or anything else of it.

The program's bytes lie where they lie for its code, and nothing can be written there: a library has no variables.
Arena, stack and input rows get memory of their own in the RAM region of the Arm memory map, where the program has
nothing."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import field
from typing import Any

import numpy as np

from tinyc.base.dataclass import dataclass
from tinyc.base.errors import TinycError
from tinyc.board import Board
from tinyc.emit.program import Place, Program, RowStep
from tinyc.run.accesses import Accesses, watched
from tinyc.run.base import INSTRUCTION_LIMIT, Inputs, RunError, RunResult
from tinyc.run.protocol import begins_sequence
from tinyc.run.unicorn import CPUS, PAGE, load_unicorn
from tinyc.toolchain.elf import Elf, Symbol

STACK_BYTES = 64 * 1024
GUARD_BYTES = 64
_RAM, _RAM_END = 0x2000_0000, 0x4000_0000  # of the Arm memory map: data, never a device
_HOLE = 0x10_0000
_PAINT = 0xC3
_LOOP = b"\xfe\xe7"  # b .

DIGEST = "_tinyc_digest"
ARENA = "_tinyc_arena"


@dataclass(frozen=True, slots=True)
class LinkedRun:
    """What running a linked library gave: the RunResult, and of the last inference the bytes of each step's output.

    called: the steps that ran in the last inference; None where the program does not show its steps. unaligned:
    accesses of one inference whose address is no multiple of their size, or of 4; in_steps: of each step, where the
    program shows its steps, without what lies before the first.
    """

    result: RunResult
    steps: Mapping[int, bytes]
    called: frozenset[int] | None
    unaligned: int
    in_steps: Mapping[int, int]


@dataclass(frozen=True, slots=True)
class Identity:
    """What a library says of itself in a linked program, by symbols that take no memory; None: it does not."""

    digest: int | None
    arena_bytes: int | None


def identity_of(elf: Elf, model: str) -> Identity:
    addresses = {symbol.name: symbol.address for symbol in elf.symbols}
    return Identity(addresses.get(model + DIGEST), addresses.get(model + ARENA))


def run_linked(elf: Elf, program: Program, board: Board, inputs: Inputs, *, sequence: int | None = None) -> LinkedRun:
    """Runs every inference. sequence: as for `run.protocol.requests`.

    Raises TinycError when the program is not for this core or lacks the library's functions, RunError when the library
    faults, does not end, or writes outside its arena and stack.
    """
    if board.unicorn is None:
        hint = "`tinyc verify --object` links the library's object with the test firmware, for any board"
        raise TinycError(f"unicorn has no core for {board.name}, on which a linked program could run", hint=hint)
    core = _Core(elf, program, CPUS[board.unicorn.cpu], INSTRUCTION_LIMIT)
    outputs = []
    for index, tensors in enumerate(inputs):
        if begins_sequence(index, sequence):
            core.reset()
        outputs.append(core.infer(index, tensors, watch=index == 0))
    machine = f"unicorn {load_unicorn().__version__} {board.unicorn.cpu}, called"
    result = RunResult(machine, tuple(outputs), stack_bytes=core.stack_bytes, damaged_guards=tuple(sorted(core.damage)))
    called = frozenset(core.called) if core.step_at else None
    return LinkedRun(result, core.step_outputs, called, core.unaligned, core.in_steps)


@dataclass
class _Memory:
    """Where arena, stack and input rows lie."""

    stack: int
    arena: int
    rows: int
    end: int


def _layout(elf: Elf, program: Program) -> _Memory:
    """The first hole of the RAM region that is large enough, with unmapped pages between its parts."""
    align = max(program.arena_align, GUARD_BYTES)
    held = sum(place.value.size_bytes for place in program.inputs)
    size = STACK_BYTES + program.arena_bytes + 2 * GUARD_BYTES + align + held + 8 * PAGE
    taken = [(segment.address, segment.address + len(segment.data)) for segment in elf.segments]
    taken += [(s.address, s.address + s.size) for s in elf.sections]
    for start in range(_RAM, _RAM_END, _HOLE):
        if all(end <= start or start + size <= begin for begin, end in taken):
            arena = _up(start + STACK_BYTES + PAGE + GUARD_BYTES, math.lcm(align, PAGE)) + align
            rows = _up(arena + program.arena_bytes + GUARD_BYTES, PAGE) + PAGE
            return _Memory(start, arena, rows, _up(rows + held, PAGE) + PAGE)
    raise TinycError(
        "the program leaves no room in RAM for an arena of its own", hint="no segment may fill the RAM region"
    )


def _up(address: int, unit: int) -> int:
    return -(-address // unit) * unit


@dataclass
class _Core:
    """The emulated core, the program in it, and what is seen while its functions run."""

    elf: Elf
    program: Program
    cpu: str
    limit: int
    damage: set[str] = field(default_factory=set)
    called: list[int] = field(default_factory=list)
    step_outputs: dict[int, bytes] = field(default_factory=dict)
    row_outputs: dict[int, bytes] = field(default_factory=dict)  # of the steps that run row by row, so far
    unaligned: int = 0
    in_steps: dict[int, int] = field(default_factory=dict)
    stack_bytes: int = 0

    def __post_init__(self) -> None:
        if self.elf.machine != "EM_ARM":
            raise TinycError(f"the program is for {self.elf.machine.removeprefix('EM_')}, not for an Arm core")
        self._uc = load_unicorn()
        self._arm = load_unicorn("unicorn.arm_const")
        self._at = _layout(self.elf, self.program)
        self._engine = self._uc.Uc(self._uc.UC_ARCH_ARM, self._uc.UC_MODE_THUMB, cpu=getattr(self._arm, self.cpu))
        self._fault: str | None = None
        self._watched, self._counted = Accesses(), 0
        self._map()
        functions = self.elf.step_functions(self.program.name)
        self.step_at = {symbol.address: step for step, symbol in functions.items()}
        self._hook_all()

    # ---- memory ----

    def _map(self) -> None:
        """Pages of the program, which cannot be written, then those of arena, stack and rows."""
        code, data = self._uc.UC_PROT_READ | self._uc.UC_PROT_EXEC, self._uc.UC_PROT_READ | self._uc.UC_PROT_WRITE
        pages = {
            page
            for segment in self.elf.segments
            for page in range(segment.address // PAGE, (segment.address + len(segment.data) - 1) // PAGE + 1)
        }
        for page in sorted(pages):
            self._engine.mem_map(page * PAGE, PAGE, code)
        for segment in self.elf.segments:
            self._engine.mem_write(segment.address, segment.data)
        at = self._at
        self._engine.mem_map(at.stack, STACK_BYTES, data)
        first, last = (at.arena - GUARD_BYTES) // PAGE, _up(at.arena + self.program.arena_bytes + GUARD_BYTES, PAGE)
        self._engine.mem_map(first * PAGE, last - first * PAGE, data)
        self._engine.mem_map(at.rows, at.end - at.rows, data)
        self._engine.mem_map(at.end, PAGE, code)
        self._engine.mem_write(at.end, _LOOP)

    def _hook_all(self) -> None:
        uc = self._uc
        self._engine.hook_add(uc.UC_HOOK_INTR, self._on_exception)
        self._engine.hook_add(uc.UC_HOOK_MEM_INVALID, self._on_bad_access)
        for address in self.step_at:
            self._engine.hook_add(uc.UC_HOOK_CODE, self._on_step, None, address, address)

    # ---- hooks ----

    def _on_exception(self, engine: Any, number: int, data: Any) -> None:
        self._fault = self._fault or f"exception {number}"
        engine.emu_stop()

    def _on_bad_access(self, engine: Any, access: int, address: int, size: int, value: int, data: Any) -> bool:
        writes = access in (self._uc.UC_MEM_WRITE_UNMAPPED, self._uc.UC_MEM_WRITE_PROT)
        below = self._at.stack - PAGE <= address < self._at.stack
        what = "the stack overflowed: " if below else ""
        self._fault = f"{what}{'write' if writes else 'read'} at 0x{address:08x}, outside arena and stack"
        return False

    def _on_step(self, engine: Any, address: int, size: int, data: Any) -> None:
        self._keep_output()
        self._count_until(self._watched.so_far)
        self.called.append(self.step_at[address])

    def _count_until(self, unaligned: int) -> None:
        """What was not aligned since the last step began is that step's."""
        if self.called:
            step = self.called[-1]
            self.in_steps[step] = self.in_steps.get(step, 0) + unaligned - self._counted
        self._counted = unaligned

    def _keep_output(self) -> None:
        """Before the next step begins, the bytes that the last one has made."""
        if not self.called:
            return
        step = self.program.steps[self.called[-1]]
        if step.row_step is None or not step.is_streamed:
            self.step_outputs[step.index] = self._read_place(step.outputs[0])
        elif self.program.incremental is None:
            self._keep_rows(step.index, step.row_step)

    def _keep_rows(self, index: int, row_step: RowStep) -> None:
        """The rows that a call has made are in the arena until the next step begins; all of them are the output."""
        rows = row_step.form.call.rows
        assert rows is not None  # of every row form
        sums = row_step.form.accumulator_bytes > 0  # its last call writes the row
        before = b"" if sums else self.row_outputs.get(index, b"")
        numbers = range(1) if sums else rows.output_rows(self.called.count(index) - 1)
        places = (self._at.arena + row_step.output.place_of(row) for row in numbers)
        self.row_outputs[index] = before + b"".join(self._read(place, rows.out_row_bytes) for place in places)
        if len(self.row_outputs[index]) == rows.out_h * rows.out_row_bytes:
            self.step_outputs[index] = self.row_outputs[index]

    # ---- calls ----

    def reset(self) -> None:
        self._call("reset", self._at.arena)

    def infer(self, index: int, tensors: Sequence[bytes], watch: bool) -> tuple[bytes, ...]:
        """One inference. watch: every access to memory is looked at, which is slow."""
        noise = self._prepare(index, tensors)
        self.called.clear()
        self.step_outputs.clear()
        self.row_outputs.clear()
        if watch:
            self._run_watched(tensors)
        else:
            self._run_model(tensors)
        self._keep_output()
        self._look(noise)
        return tuple(self._read_place(place) for place in self.program.outputs)

    def _run_watched(self, tensors: Sequence[bytes]) -> None:
        """As `_run_model`; says so where an access that a core refuses has ended it."""
        accesses = Accesses()
        try:
            with watched(self._engine) as accesses:
                self._watched = accesses
                self._run_model(tensors)
        except RunError as error:
            if accesses.refused is None:
                raise
            what = f"an instruction that takes multiples of 4 only accessed 0x{accesses.refused:08x}"
            raise RunError(f"{self.program.name}: {what}", error.step) from error
        self._count_until(accesses.unaligned)
        self.unaligned, self._watched, self._counted = accesses.unaligned, Accesses(), 0

    def _run_model(self, tensors: Sequence[bytes]) -> None:
        program, rows = self.program, self._at.rows
        if program.incremental is not None:
            hop, window = program.incremental.hop, program.incremental.window
            row_bytes = len(tensors[0]) // window
            before = -window % hop
            self._engine.mem_write(rows, bytes(before * row_bytes) + tensors[0])
            self.reset()
            for first in range(0, before + window, hop):
                self._call("push_rows", self._at.arena, rows + first * row_bytes)
        elif program.row_input is not None:
            self._engine.mem_write(rows, tensors[0])
            row_bytes = len(tensors[0]) // program.row_input.count
            for row in range(program.row_input.count):
                self._succeed("push_row", self._at.arena, row, rows + row * row_bytes)
        else:
            self._succeed("run", self._at.arena)

    def _succeed(self, name: str, *arguments: int) -> None:
        status = self._call(name, *arguments)
        if status != 0:
            raise RunError(f"{self.program.name}_{name} returned {status}, not OK")

    def _function(self, name: str) -> Symbol:
        symbol_name = f"{self.program.name}_{name}"
        symbol = next((s for s in self.elf.symbols if s.name == symbol_name and s.is_function), None)
        if symbol is None:
            raise TinycError(
                f"the program has no function {symbol_name}",
                hint="it must call the library and keep its symbols (no `strip`); --name says how it is called",
            )
        return symbol

    def _call(self, name: str, *arguments: int) -> int:
        """r0 after a call by the rules of the Arm ABI."""
        registers = (self._arm.UC_ARM_REG_R0, self._arm.UC_ARM_REG_R1, self._arm.UC_ARM_REG_R2)
        for register, value in zip(registers, arguments, strict=False):
            self._engine.reg_write(register, value)
        self._engine.reg_write(self._arm.UC_ARM_REG_SP, self._at.stack + STACK_BYTES)
        self._engine.reg_write(self._arm.UC_ARM_REG_LR, self._at.end | 1)
        function = self._function(name)
        try:
            self._engine.emu_start(function.address | 1, self._at.end, count=self.limit)
        except self._uc.UcError as error:
            self._fault = self._fault or str(error).partition(" (")[0]
        pc = self._engine.reg_read(self._arm.UC_ARM_REG_PC)
        if self._fault is None and pc != self._at.end:
            self._fault = f"no end after {self.limit:,} instructions"
        if self._fault is not None:
            inside = self.elf.function_at(pc)
            where = f" in {inside.name}" if inside else f" at 0x{pc:08x}"
            raise RunError(f"{function.name} stopped{where}: {self._fault}", self.called[-1] if self.called else None)
        return int(self._engine.reg_read(self._arm.UC_ARM_REG_R0))

    # ---- the arena ----

    def _prepare(self, index: int, tensors: Sequence[bytes]) -> bytes:
        """Noise everywhere but in the inputs and what lasts from run to run; what was written around the arena."""
        program, at = self.program, self._at
        rng = np.random.default_rng(index)
        noise = rng.bytes(program.arena_bytes + 2 * GUARD_BYTES)
        state = self._read(at.arena + program.state_offset, program.arena_bytes - program.state_offset)
        self._engine.mem_write(at.arena - GUARD_BYTES, noise)
        self._engine.mem_write(at.arena + program.state_offset, state)
        self._engine.mem_write(at.stack, bytes([_PAINT]) * STACK_BYTES)
        if program.row_input is None and program.incremental is None:
            for place, data in zip(program.inputs, tensors, strict=True):
                self._engine.mem_write(at.arena + (place.offset or 0), data)
        return noise

    def _look(self, noise: bytes) -> None:
        """Guards that were written, and how deep the stack was."""
        start, size = self._at.arena - GUARD_BYTES, self.program.arena_bytes
        if self._read(start, GUARD_BYTES) != noise[:GUARD_BYTES]:
            self.damage.add("below the arena")
        if self._read(start + GUARD_BYTES + size, GUARD_BYTES) != noise[GUARD_BYTES + size :]:
            self.damage.add("above the arena")
        stack = self._read(self._at.stack, STACK_BYTES)
        untouched = len(stack) - len(stack.lstrip(bytes([_PAINT])))
        self.stack_bytes = max(self.stack_bytes, STACK_BYTES - untouched)

    def _read(self, address: int, size: int) -> bytes:
        return bytes(self._engine.mem_read(address, size)) if size else b""

    def _read_place(self, place: Place) -> bytes:
        return self._read(self._at.arena + (place.offset or 0), place.value.size_bytes)
