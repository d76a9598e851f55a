# SPDX-License-Identifier: Apache-2.0
"""Live bytes of every step of an order, for the schedule's search, and what no placement can be smaller than.

There are two such bounds. `lower_bound` looks at the problem, before it is known which output lies over which input:
each step takes the overlap that saves most. It serves layers that run whole. `lower_bound_of` looks at blocks, which
say what shares bytes: of layers that run by rows, whose overlaps the cut has decided.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import accumulate, pairwise

from tinyc.base.dataclass import dataclass
from tinyc.plan.blocks import Block, joined
from tinyc.plan.problem import Layer, Problem
from tinyc.plan.slide import slide_of


@dataclass(frozen=True, slots=True)
class Saving:
    """If these tensors (one, or all parts of a join) die in the step, they and the output take `bytes` less."""

    tensors: tuple[int, ...]
    bytes: int


@dataclass(frozen=True, slots=True)
class Costs:
    """The problem in numbers; sets of tasks are bit masks.

    size: bytes of each tensor, rounded up to the alignment (every start is aligned, so only the topmost
    buffer of an arena can use less). readers: the tasks that read it. is_output: it is an output of the model.
    """

    size: tuple[int, ...]
    slack: tuple[int, ...]  # what rounding added
    readers: tuple[int, ...]
    is_output: tuple[bool, ...]
    inputs: tuple[int, ...]
    needs: tuple[int, ...]  # per task: the set of tasks that must run before
    followers: tuple[tuple[int, ...], ...]  # per task: the tasks that need it
    reads: tuple[tuple[int, ...], ...]
    writes: tuple[tuple[int, ...], ...]
    written: tuple[int, ...]  # per task: bytes of what it writes
    stays: tuple[int, ...]  # per task: bytes of what it writes that is alive after it
    scratch: tuple[int, ...]
    savings: tuple[tuple[Saving, ...], ...]

    def begin(self) -> int:
        """Live bytes before step 0: the inputs of the model that somebody needs."""
        return sum(self.size[i] for i in self.inputs if self.is_output[i] or self.readers[i])

    def step(self, live: int, done: int, task: int) -> tuple[int, int]:
        """(live bytes while `task` runs, live bytes after it), from the live bytes before it.

        `done`: the tasks that have run; `task` is not among them.
        """
        left = ~(done | 1 << task)
        dying = [i for i in self.reads[task] if not self.is_output[i] and not self.readers[i] & left]
        during = live + self.written[task] + self.scratch[task]
        after = live + self.stays[task]
        for i in dying:
            after -= self.size[i]
        # The output overlaps one dying input, the one with which that saves most.
        return during - max(
            (s.bytes for s in self.savings[task] if all(i in dying for i in s.tensors)), default=0
        ), after


def costs_of(problem: Problem) -> Costs:
    """The numbers of a problem."""
    names = list(problem.tensors)
    index = {name: i for i, name in enumerate(names)}
    raw = [
        0 if name in problem.joins else tensor.size for name, tensor in problem.tensors.items()
    ]  # its parts have the bytes
    reads = [tuple(dict.fromkeys(leaf for x in task.reads for leaf in problem.leaves(x))) for task in problem.layers]
    outputs = {leaf for name in problem.outputs for leaf in problem.leaves(name)}
    size = [round_up(n, problem.unit) for n in raw]
    producer = {name: t for t, task in enumerate(problem.layers) for name in task.writes}
    readers = [0] * len(names)
    for t, names_read in enumerate(reads):
        for name in names_read:
            readers[index[name]] |= 1 << t
    needs = [{producer[name] for name in task.reads if name in producer} for task in problem.layers]
    followers: list[list[int]] = [[] for _ in needs]
    for t, before in enumerate(needs):
        for b in sorted(before):
            followers[b].append(t)
    return Costs(
        size=tuple(size),
        slack=tuple(rounded - n for rounded, n in zip(size, raw, strict=True)),
        readers=tuple(readers),
        is_output=tuple(name in outputs for name in names),
        inputs=tuple(index[name] for name in dict.fromkeys(problem.inputs)),
        needs=tuple(sum(1 << t for t in before) for before in needs),
        followers=tuple(tuple(after) for after in followers),
        reads=tuple(tuple(index[name] for name in names_read) for names_read in reads),
        writes=tuple(tuple(index[name] for name in task.writes) for task in problem.layers),
        written=tuple(sum(size[index[name]] for name in task.writes) for task in problem.layers),
        stays=tuple(
            sum(size[index[name]] for name in task.writes if readers[index[name]] or name in outputs)
            for task in problem.layers
        ),
        scratch=tuple(round_up(task.whole.scratch_bytes, problem.unit) for task in problem.layers),
        savings=tuple(savings_of(problem, task, index) for task in problem.layers),
    )


def savings_of(problem: Problem, task: Layer, index: Mapping[str, int]) -> tuple[Saving, ...]:
    """What the output of a task may save by overlapping an input, by input; index: number of each tensor."""
    if not task.writes:
        return ()
    y = round_up(problem.tensors[task.writes[0]].size, problem.unit)
    savings = [Saving(tuple(index[leaf] for leaf in problem.leaves(name)), y) for name in task.whole.inplace]
    if (sliding := task.whole.sliding) is not None:
        x = problem.tensors[sliding.tensor].size
        both = slide_of(sliding.rows, sliding.forward).extent(x, problem.tensors[task.writes[0]].size)
        saving = round_up(x, problem.unit) + y - round_up(both, problem.unit)
        tensors = tuple(index[leaf] for leaf in problem.leaves(sliding.tensor))
        savings.append(Saving(tensors, max(saving, 0)))
    return tuple(savings)


def lower_bound(problem: Problem, order: Sequence[int]) -> int:
    """Most live bytes at any step of the order: no placement uses fewer.

    Counts starts as aligned, and lets the topmost buffer of each step end unrounded.
    """
    costs = costs_of(problem)
    live, done = costs.begin(), 0
    alive = {i for i in costs.inputs if costs.is_output[i] or costs.readers[i]}
    bound = _unrounded(sum(costs.size[i] for i in costs.inputs), [costs.slack[i] for i in costs.inputs])
    for task in order:
        during, live = costs.step(live, done, task)
        done |= 1 << task
        here = alive | set(costs.writes[task])
        scratch = problem.layers[task].whole.scratch_bytes
        slacks = [costs.slack[i] for i in here] + [costs.scratch[task] - scratch]
        bound = max(bound, _unrounded(during, slacks))
        alive = {i for i in here if costs.is_output[i] or costs.readers[i] & ~done}
    return bound


def lower_bound_of(blocks: Sequence[Block], turns: int, unit: int) -> int:
    """The same of blocks, whose overlaps are decided: most live bytes in any turn. Bytes that two members of a block
    share count once. Every start is a multiple of `unit`; the topmost block of a turn may end between."""
    early = max((0, *(-block.born for block in blocks)))  # turns before turn 0
    changes, slack = [0] * (early + turns + 1), 0
    for block in blocks:
        times = sorted({time for m in block.members for time in (m.born, m.dies)})
        for born, dies in pairwise(times):
            alive = ((m.at, m.at + m.size) for m in block.members if m.born <= born < m.dies)
            for low, high in joined(alive, touching=True):
                # Bytes that begin between two units: another block may end there, and has that unit in its own count.
                size = max(0, round_up(high, unit) - round_up(low, unit))
                changes[early + born] += size
                changes[early + dies] -= size
                slack = max(slack, round_up(high, unit) - high)
    return max(accumulate(changes)) - slack


def _unrounded(rounded: int, slacks: Sequence[int]) -> int:
    return max(rounded - max(slacks, default=0), 0)


def round_up(value: int, unit: int) -> int:
    """The least multiple of `unit` that is not below `value`."""
    return -(-value // unit) * unit
