# SPDX-License-Identifier: Apache-2.0
"""Counting of executed instructions: builds templates/host/block_trace.c, configures it, reads its report."""

from __future__ import annotations

import functools
import hashlib
import tempfile
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

from tinyc.base import paths, private
from tinyc.base.dataclass import dataclass
from tinyc.base.errors import TinycError
from tinyc.board.instruction_set import Widths, set_of_elf
from tinyc.run.base import OVERHEAD, BlockCount, Counts, InferenceCount, JumpCount
from tinyc.toolchain.compile import Firmware
from tinyc.toolchain.compilers import Toolchain, host_compiler
from tinyc.toolchain.elf import Elf

OUTSIDE = -1
RETURN_SYMBOL = "tc_run_return"


@functools.cache
def build_trace_library(qemu_api: int | None) -> Path | None:
    """The compiled tracer: a QEMU plugin for that API version, or (None) the library for unicorn.

    Kept in the user's cache under the hash of its source. None when this computer has no C compiler, or no folder that
    can be written.
    """
    compiler = host_compiler()
    if compiler is None:
        return None
    source = paths.templates_dir() / "host" / "block_trace.c"
    defines = [] if qemu_api is None else [f"-DTC_QEMU_API={qemu_api}"]
    key = hashlib.sha256(source.read_bytes() + f"{compiler} {defines}".encode()).hexdigest()[:16]
    try:
        folder = private.private_folder("trace")
        if (before := private.stored(folder, key, ".so")) is not None:
            return before[0]
        return private.store(folder, key, ".so", _compiled(compiler, [*defines, str(source)]))
    except OSError:
        return None


def _compiled(compiler: Toolchain, arguments: Sequence[str]) -> bytes:
    with tempfile.TemporaryDirectory() as folder:
        library = Path(folder) / "block_trace.so"
        compiler.run(["-std=c99", "-O2", "-shared", "-fPIC", *arguments, "-o", library], "building the tracer")
        return library.read_bytes()


@dataclass(frozen=True, slots=True)
class TracePlan:
    """The addresses that a tracer watches. Slot 0 is the run function, slots 1, 2, ... the steps in `steps`,
    which are (number, address)."""

    run_start: int
    run_end: int
    run_return: int
    steps: tuple[tuple[int, int], ...]
    step_count: int
    limit: int
    widths: Widths
    inner: tuple[int, int] = (0, 0)  # [start, end) of the function that the run function calls for each row

    @property
    def numbers(self) -> tuple[int, ...]:
        """The step number of every slot."""
        return (OVERHEAD, *(number for number, _ in self.steps))

    def inference(self, totals: Sequence[int]) -> InferenceCount:
        """The count of one inference from the executed instructions of each slot."""
        counted = {number: count for (number, _), count in zip(self.steps, totals[1:], strict=True)}
        return InferenceCount(totals[0], {number: counted.get(number, 0) for number in range(self.step_count)})

    def step_of(self, slot: int) -> int | None:
        """The step number of a slot; OVERHEAD for the run function, None outside the model."""
        return None if slot == OUTSIDE else self.numbers[slot]

    def config(self, report: Path) -> str:
        """The text of the tracer's configuration file."""
        return "\n".join(
            [
                f"run {self.run_start:x} {self.run_end:x}",
                f"inner {self.inner[0]:x} {self.inner[1]:x}",
                f"return {self.run_return:x}",
                *(f"step {address:x}" for _, address in self.steps),
                f"width {self.widths.at} {self.widths.mask:x} {self.widths.least:x}",
                f"limit {self.limit}",
                f"report {report}",
                "",
            ]
        )


def plan_trace(firmware: Firmware, elf: Elf, limit: int) -> TracePlan:
    """What to watch in this firmware. A step without a function does nothing: compilers drop empty ones."""
    run = elf.symbol(f"{firmware.model}_run")
    inner = [
        s
        for s in elf.symbols
        if s.is_function and s.name in (f"{firmware.model}_push_row", f"{firmware.model}_push_rows")
    ]
    return TracePlan(
        run_start=run.address,
        run_end=run.address + run.size,
        run_return=elf.symbol(RETURN_SYMBOL).address & ~1,
        steps=tuple((number, symbol.address) for number, symbol in elf.step_functions(firmware.model).items()),
        step_count=firmware.info.steps,
        limit=limit,
        widths=set_of_elf(elf.machine).widths,
        inner=(inner[0].address & ~1, (inner[0].address & ~1) + inner[0].size) if inner else (0, 0),
    )


@dataclass(frozen=True, slots=True)
class TraceReport:
    """stopped: at the limit. step: where execution ended (None: outside the model). misaligned: address of the
    instruction and of the data of an access that cores refuse and unicorn does not, if accesses were watched."""

    stopped: bool
    step: int | None
    counts: Counts
    misaligned: tuple[int, int] | None = None


def read_report(plan: TracePlan, report: Path) -> TraceReport:
    """The tracer's report file in tinyc's terms. Raises TinycError when there is none or it is cut short."""
    try:
        lines = [line.split() for line in report.read_text().splitlines()]
    except OSError as error:
        raise TinycError(f"the emulator left no instruction counts: {error.strerror}") from error
    kinds = ("stopped", "slot", "inference", "block", "jump", "misaligned")
    rows: dict[str, list[list[int]]] = {kind: [] for kind in kinds}
    for kind, *numbers in lines:
        rows[kind].append([int(number) for number in numbers])
    inferences = tuple(plan.inference(totals) for totals in rows["inference"])
    blocks = (BlockCount(plan.numbers[slot], *rest) for slot, *rest in rows["block"])
    jumps: Counter[tuple[int, int, int]] = Counter()
    for slot, source, target, executions in rows["jump"]:
        jumps[slot, source, target] += executions
    return TraceReport(
        stopped=rows["stopped"][0][0] != 0,
        step=plan.step_of(rows["slot"][0][0]),
        counts=Counts(inferences, ordered(blocks), ordered_jumps(plan, jumps)),
        misaligned=next(((pc, address) for pc, address in rows["misaligned"]), None),
    )


def ordered(blocks: Iterable[BlockCount]) -> tuple[BlockCount, ...]:
    """Blocks by step, address and size, so that two machines give the same sequence."""
    return tuple(sorted(blocks, key=lambda b: (b.step, b.address, b.size_bytes)))


def ordered_jumps(plan: TracePlan, jumps: Mapping[tuple[int, int, int], int]) -> tuple[JumpCount, ...]:
    """Jumps by step, source and target, from (slot, source, target) -> executions."""
    counts = (JumpCount(plan.numbers[slot], source, target, n) for (slot, source, target), n in jumps.items())
    return tuple(sorted(counts, key=lambda j: (j.step, j.source, j.target)))


def instruction_starts(code: bytes, widths: Widths) -> tuple[int, ...]:
    """Offsets of the instructions in code."""
    starts = []
    at = 0
    while at < len(code):
        starts.append(at)
        at += widths.of(code, at)
    return tuple(starts)


def executions_by_address(blocks: Iterable[BlockCount], elf: Elf) -> Mapping[int, int]:
    """How often every single instruction was executed: address -> times, over all steps and inferences."""
    counts: Counter[int] = Counter()
    widths = set_of_elf(elf.machine).widths
    for block in blocks:
        for offset in instruction_starts(elf.read(block.address, block.size_bytes), widths):
            counts[block.address + offset] += block.executions
    return counts
