# SPDX-License-Identifier: Apache-2.0
"""From what an emulator counted to modelled cycles of every instruction of every step."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import field

from tinyc.base.dataclass import dataclass
from tinyc.board.instruction_set import set_of_elf
from tinyc.kernel.kernel import CoreSplit
from tinyc.machine.cores import LOOKS_BACK, Core
from tinyc.machine.instruction import Instruction
from tinyc.machine.op import Decoded
from tinyc.machine.sets import READERS
from tinyc.run import RunResult
from tinyc.run.trace import instruction_starts
from tinyc.toolchain.disassembly import decode, disassemble
from tinyc.toolchain.elf import Elf


@dataclass(frozen=True, slots=True)
class InstructionShare:
    """One instruction on behalf of one step (OVERHEAD: the run function), over all inferences. cycles: 0 where the
    core has no model."""

    step: int
    instruction: Instruction
    executions: int
    cycles: int


@dataclass(frozen=True, slots=True)
class ModelledCycles:
    """Every executed instruction with its modelled cycles, by step and address; and how many inferences that was.

    Zero wait states. Totals are means over the inferences, rounded.
    """

    core: Core | None
    inferences: int
    lines: tuple[InstructionShare, ...]

    @property
    def total(self) -> int:
        """Cycles of one inference."""
        return self._mean(self.lines)

    def of_step(self, step: int) -> int:
        """Cycles of one inference that belong to a step."""
        return self._mean(line for line in self.lines if line.step == step)

    def on_cores(self, splits: Mapping[int, CoreSplit]) -> int:
        """Cycles until an inference is done whose steps several cores run together; splits: by the step. What cores
        wait for each other's accesses to memory is not in them."""
        own = {step: self.of_step(step) for step in splits}
        return self.total - sum(cycles - splits[step].time_of(cycles) for step, cycles in own.items())

    def _mean(self, lines: Iterable[InstructionShare]) -> int:
        return (sum(line.cycles for line in lines) + self.inferences // 2) // max(self.inferences, 1)


def model_cycles(ran: RunResult, elf: Elf, core: Core | None) -> ModelledCycles | None:
    """What a run took on a core: None when its machine did not count. core None: instructions only.

    Costs are exact sums over what was executed: they do not depend on how an emulator cuts code into blocks.
    An instruction whose IT condition failed is taken as if it had held (on Cortex-M3 and M4 one that failed
    takes a cycle).
    """
    if not ran.blocks:
        return None
    listing = _listing(ran, elf)
    steps = _steps(ran, listing)
    read = READERS[set_of_elf(elf.machine).name].parse
    ops = {address: read(listing[address]) for step in steps.values() for address in step.executions}
    lines = [line for number, step in sorted(steps.items()) for line in _lines(number, step, ops, listing, core)]
    return ModelledCycles(core, len(ran.counts), tuple(lines))


def _listing(ran: RunResult, elf: Elf) -> Mapping[int, Instruction]:
    """Every instruction of the firmware; what was executed although the ELF file calls it data included."""
    listing, its_set = dict(disassemble(elf)), set_of_elf(elf.machine)
    for block in ran.blocks:
        code = elf.read(block.address, block.size_bytes)
        starts = instruction_starts(code, its_set.widths)
        if any(block.address + start not in listing for start in starts):
            listing |= {i.address: i for i in decode(code, block.address, its_set)}
    return listing


@dataclass(slots=True)
class _Step:
    """What one step executed: instructions by address, and jumps by (source, target)."""

    executions: Counter[int] = field(default_factory=Counter)
    jumps: dict[tuple[int, int], int] = field(default_factory=dict)


def _steps(ran: RunResult, listing: Mapping[int, Instruction]) -> dict[int, _Step]:
    steps: defaultdict[int, _Step] = defaultdict(_Step)
    for block in ran.blocks:
        executions = steps[block.step].executions
        address = block.address
        while address < block.address + block.size_bytes:
            executions[address] += block.executions
            address = listing[address].end
    for jump in ran.jumps:
        steps[jump.step].jumps[jump.source, jump.target] = jump.executions
    return dict(steps)


def _lines(
    number: int, step: _Step, ops: Mapping[int, Decoded], listing: Mapping[int, Instruction], core: Core | None
) -> Iterator[InstructionShare]:
    if core is None:
        for address, executions in sorted(step.executions.items()):
            yield InstructionShare(number, listing[address], executions, 0)
        return
    left = _left(step)
    before = _Before(step, ops)
    extra = _jump_cycles(step, left, ops, listing, core, before)
    for piece, fell in _pieces(step, left, ops):
        first = piece[0].instruction.address
        executions = step.executions[first]
        jumped_to = core.costs(piece)
        fallen_into = core.costs(piece, before(first)) if fell else jumped_to
        for op, cold, warm in zip(piece, jumped_to, fallen_into, strict=True):
            address = op.instruction.address
            cycles = round((executions - fell) * cold + fell * warm) + extra[address]
            yield InstructionShare(number, op.instruction, executions, cycles)


class _Before:
    """The instructions that a step ran before the one at an address, coming from above."""

    def __init__(self, step: _Step, ops: Mapping[int, Decoded]) -> None:
        self._ending = {ops[address].instruction.end: ops[address] for address in step.executions}

    def __call__(self, address: int) -> tuple[Decoded, ...]:
        decoded: list[Decoded] = []
        while len(decoded) < LOOKS_BACK:
            op = self._ending.get(address)
            if op is None or (op.leaves and not op.conditional):
                break
            decoded.append(op)
            address = op.instruction.address
        return tuple(reversed(decoded))


def _left(step: _Step) -> Counter[int]:
    """How often each instruction went elsewhere than to the next one."""
    left: Counter[int] = Counter()
    for (source, _), executions in step.jumps.items():
        left[source] += executions
    return left


def _jump_cycles(
    step: _Step,
    left: Counter[int],
    ops: Mapping[int, Decoded],
    listing: Mapping[int, Instruction],
    core: Core,
    before: Callable[[int], Sequence[Decoded]],
) -> Counter[int]:
    """Cycles of taken branches, by the branch's address."""
    cycles: Counter[int] = Counter()
    for (source, target), executions in step.jumps.items():
        cycles[source] += executions * core.taken(ops[source], listing.get(target), before(source))
    for address, executions in step.executions.items():
        op = ops[address]
        if op.leaves and not op.conditional and executions > left[address]:  # a jump to the next address
            next_one = listing.get(op.instruction.end)
            cycles[address] += (executions - left[address]) * core.taken(op, next_one, before(address))
    return cycles


def _pieces(step: _Step, left: Counter[int], ops: Mapping[int, Decoded]) -> Iterator[tuple[Sequence[Decoded], int]]:
    """Straight pieces of code: their instructions, all executed equally often; and how often execution fell into them
    from above. What the disassembler does not know may jump as well."""
    targets = {target for _, target in step.jumps}
    piece: list[Decoded] = []
    fell = 0
    for address in sorted(step.executions):
        last = piece[-1] if piece else None
        adjacent = last is not None and last.instruction.end == address
        goes_on = last is not None and not last.leaves and not left[last.instruction.address]
        if goes_on and adjacent and address not in targets:
            piece.append(ops[address])
            continue
        if last is not None:
            yield piece, fell
        fell = _falls_through(step, left, last) if last is not None and adjacent else 0
        piece = [ops[address]]
    if piece:
        yield piece, fell


def _falls_through(step: _Step, left: Counter[int], op: Decoded) -> int:
    address = op.instruction.address
    return 0 if op.leaves and not op.conditional else step.executions[address] - left[address]
