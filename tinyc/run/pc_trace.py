"""Counting from a list of every executed instruction's address, as Renode writes it."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

import numpy as np
import numpy.typing as npt

from tinyc.build.disassembly import RISCV, instruction_bytes
from tinyc.build.elf import Elf
from tinyc.errors import TinycError
from tinyc.run.base import BlockCount, Counts, InferenceCount
from tinyc.run.trace import TracePlan, ordered, ordered_jumps

Numbers = npt.NDArray[np.int64]


def read_addresses(path: Path) -> Numbers:
    """The addresses in a file with one hexadecimal number in each line. Raises TinycError for a line that is none."""
    try:
        with path.open(encoding="ascii", errors="replace") as lines:
            return np.fromiter((int(line, 16) for line in lines), np.int64)
    except ValueError as error:
        raise TinycError(f"the emulator's trace has a line that is no address: {error}") from error
    except OSError as error:
        raise TinycError(f"the emulator left no trace: {error.strerror}") from error


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
    found = {(slot, source, target): times for slot, source, target, times in jumps}
    return Counts(tuple(inferences), ordered(blocks), ordered_jumps(plan, found))


def _slots(plan: TracePlan, addresses: Numbers) -> Numbers:
    """The slot of each instruction: that of the last function before it that has one."""
    known = np.full(len(addresses), -1, np.int64)
    for slot, (_, start) in enumerate(plan.steps, 1):
        known[addresses == start] = slot
    for start, end in ((plan.run_start, plan.run_end), plan.inner):
        known[(addresses >= start) & (addresses < end)] = 0
    last = np.maximum.accumulate(np.where(known >= 0, np.arange(len(known)), 0))
    return known[last]


def _sizes(elf: Elf, addresses: Numbers) -> Numbers:
    """Bytes of the instruction at each address."""
    distinct, where = np.unique(addresses, return_inverse=True)
    riscv = elf.machine == RISCV
    sizes = [instruction_bytes(elf.read(address, 2), 0, riscv) for address in distinct.tolist()]
    return np.array(sizes, np.int64)[where]


def _distinct(*columns: Numbers) -> Iterable[tuple[int, ...]]:
    """Every row that occurs, with how often."""
    rows, times = np.unique(np.stack(columns, axis=1), axis=0, return_counts=True)
    return (tuple(row) for row in np.column_stack([rows, times]).tolist())
