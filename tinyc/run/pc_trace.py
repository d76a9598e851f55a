# SPDX-License-Identifier: Apache-2.0
"""Counting from a list of every executed instruction's address, as Renode writes it."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path

import numpy as np
import numpy.typing as npt

from tinyc.base.errors import TinycError
from tinyc.board.instruction_set import set_of_elf
from tinyc.machine.instruction import Instruction
from tinyc.run.base import BlockCount, Counts, InferenceCount
from tinyc.run.trace import TracePlan, ordered, ordered_jumps
from tinyc.toolchain.disassembly import disassemble
from tinyc.toolchain.elf import Elf

Numbers = npt.NDArray[np.int64]


_GAP = re.compile(r"Couldn't disassemble opcode at PC 0x([0-9A-Fa-f]+)\s*")
_JUMP = re.compile(
    r"b|bl|bx|blx|cbz|cbnz|tbb|tbh|svc|bkpt|udf"
    r"|(c\.)?(b(eq|ne|lt|ge|le|gt)(u|z)?|j|jr|jal|jalr|ret|ecall|ebreak|mret)"
)
_ABSOLUTE = re.compile(r"#(0x[0-9a-f]+)")


def read_addresses(path: Path, elf: Elf) -> Numbers:
    """The addresses in a file with one hexadecimal number in each line.

    Where Renode's disassembler does not know an instruction, it leaves out the rest of the block and says so; our own
    fills it in. Raises TinycError for a line that is neither.
    """
    try:
        with path.open(encoding="ascii", errors="replace") as lines:
            return np.fromiter(_addresses(lines, elf), np.int64)
    except ValueError as error:
        raise TinycError(f"the emulator's trace has a line that is no address: {error}") from error
    except OSError as error:
        raise TinycError(f"the emulator left no trace: {error.strerror}") from error


def _addresses(lines: Iterable[str], elf: Elf) -> Iterator[int]:
    missing: int | None = None  # where the block goes on whose rest is not in the trace
    code: Mapping[int, Instruction] = {}
    for line in lines:
        gap = _GAP.fullmatch(line) if line[0] == "C" else None
        address = int(gap[1] if gap else line, 16)
        if missing is not None:
            yield from _rest_of_block(code, missing, address)
        missing = address if gap else None
        if gap is None:
            yield address
        elif not code:
            code = disassemble(elf)
    if missing is not None:
        yield from _rest_of_block(code, missing, None)


def _rest_of_block(code: Mapping[int, Instruction], start: int, following: int | None) -> list[int]:
    """The addresses from `start` to the jump that ends the block, or to where the block was cut: before `following`,
    the next one in the trace, unless the jump says that it leads there. One by a register comes from elsewhere: it
    returns to behind a call, and calls end blocks."""
    straight = []
    at = start
    while True:
        instruction = code.get(at)
        if instruction is None:
            raise TinycError(f"the emulator's trace leaves the firmware's code at 0x{at:08x}")
        straight.append(at)
        at = instruction.end
        if _may_jump(instruction):
            break
    if following in straight[1:] and following not in (_target(instruction), instruction.end):
        return straight[: straight.index(following)]
    return straight


def _may_jump(instruction: Instruction) -> bool:
    """Whether the next instruction may be another than the one behind it."""
    to_pc = re.match(r"pc\b", instruction.operands) or re.search(r"\bpc\}", instruction.operands)
    return _JUMP.fullmatch(instruction.mnemonic) is not None or bool(to_pc)


def _target(instruction: Instruction) -> int | None:
    """Where a jump leads; None when a register says it."""
    last = instruction.operands.split(", ")[-1]
    if absolute := _ABSOLUTE.fullmatch(last):
        return int(absolute[1], 16)
    try:
        return instruction.address + int(last, 0)  # RISC-V: relative
    except ValueError:
        return None


def count_addresses(plan: TracePlan, elf: Elf, addresses: Numbers) -> Counts:
    """What tracers of blocks count, by the same rules; every block is one instruction."""
    begins = np.flatnonzero(addresses == plan.run_start)
    ends = np.flatnonzero(addresses == plan.run_return)
    parts: list[tuple[Numbers, Numbers, Numbers]] = []  # slot, address, the address after it
    inferences: list[InferenceCount] = []
    for begin in begins:
        end = int(ends[np.searchsorted(ends, begin)]) if ends.size and begin < ends[-1] else len(addresses) - 1
        inside = addresses[begin:end]
        slots = _slots(plan, inside)
        inferences.append(plan.inference(np.bincount(slots, minlength=len(plan.numbers)).tolist()))
        parts.append((slots, inside, addresses[begin + 1 : end + 1]))
    if not parts:
        return Counts()
    slots, sources, targets = (np.concatenate(columns) for columns in zip(*parts, strict=True))
    sizes = _sizes(elf, sources)
    blocks = (
        BlockCount(plan.numbers[slot], address, size, 1, times)
        for slot, address, size, times in _distinct(slots, sources, sizes)
    )
    jumped = targets != sources + sizes
    jumps = _distinct(slots[jumped], sources[jumped], targets[jumped])
    counts = {(slot, source, target): times for slot, source, target, times in jumps}
    return Counts(tuple(inferences), ordered(blocks), ordered_jumps(plan, counts))


def _slots(plan: TracePlan, addresses: Numbers) -> Numbers:
    """The slot of each instruction: that of the last function before it that has one."""
    slots = np.full(len(addresses), -1, np.int64)
    for slot, (_, start) in enumerate(plan.steps, 1):
        slots[addresses == start] = slot
    for start, end in ((plan.run_start, plan.run_end), plan.inner):
        slots[(addresses >= start) & (addresses < end)] = 0
    last = np.maximum.accumulate(np.where(slots >= 0, np.arange(len(slots)), 0))
    return slots[last]


def _sizes(elf: Elf, addresses: Numbers) -> Numbers:
    """Bytes of the instruction at each address."""
    distinct, where = np.unique(addresses, return_inverse=True)
    widths = set_of_elf(elf.machine).widths
    sizes = [widths.of(elf.read(address, 2)) for address in distinct.tolist()]
    return np.array(sizes, np.int64)[where]


def _distinct(*columns: Numbers) -> Iterable[tuple[int, ...]]:
    """Every row that occurs, with how often."""
    rows, times = np.unique(np.stack(columns, axis=1), axis=0, return_counts=True)
    return (tuple(row) for row in np.column_stack([rows, times]).tolist())
