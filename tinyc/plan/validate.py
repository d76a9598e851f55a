# SPDX-License-Identifier: Apache-2.0
"""An independent check of a plan: run its steps on an array that knows who owns each byte.

Uses nothing of the planner but the words of `problem.py`. A step may read only bytes that still belong to the
tensor it asks for, and may write only bytes that belong to nobody, with two exceptions that are checked
for what they are: in place, and row by row over its own used-up input.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import numpy.typing as npt

from tinyc.kernel.kernel import Across, Rows
from tinyc.plan.answer import Plan, Step
from tinyc.plan.problem import Layer, Problem, Sliding

NOBODY = -1
SCRATCH = -2


class InvalidPlanError(Exception):
    """The planner is wrong: which step, which bytes. Never the user's fault."""


def validate(problem: Problem, plan: Plan) -> None:
    """Raise InvalidPlanError unless the plan computes the model: steps, places, lifetimes, bounds."""
    tasks = _tasks_in_order(problem, plan)
    _check_places(problem, plan)
    last_use = _last_use(problem, tasks)
    _check_lifetimes(problem, plan, tasks, last_use)
    _replay(problem, plan, tasks, last_use)


def _require(holds: bool, message: str) -> None:
    if not holds:
        raise InvalidPlanError(message)


def _tasks_in_order(problem: Problem, plan: Plan) -> list[Layer]:
    by_name = {task.node: task for task in problem.layers}
    names = [step.node for step in plan.steps]
    _require(sorted(names) == sorted(by_name), "the steps are not the nodes that run, each once")
    made = set(problem.inputs)
    for name in names:
        for tensor in by_name[name].reads:
            _require(tensor in made, f"step '{name}' reads '{tensor}' before it is made")
        made.update(by_name[name].writes)
    for tensor in problem.outputs:
        _require(tensor in made, f"no step makes the output '{tensor}'")
    return [by_name[name] for name in names]


def _check_places(problem: Problem, plan: Plan) -> None:
    """Every buffer has an aligned place inside the arena; a view is where its tensor is."""
    places = [(name, plan.offsets.get(name), tensor.size, problem.unit) for name, tensor in problem.tensors.items()]
    for task in problem.layers:
        if task.whole.scratch_bytes:
            offset = plan.scratch_offsets.get(task.node)
            places.append((f"scratch of {task.node}", offset, task.whole.scratch_bytes, problem.scratch_unit))
    for name, offset, size, align in places:
        if offset is None:
            raise InvalidPlanError(f"'{name}' has no place")
        _require(offset % align == plan.arena_align % align == 0, f"'{name}' is not aligned to {align} bytes")
        _require(0 <= offset <= plan.arena_bytes - size, f"'{name}' leaves the arena")
    for view, tensor in problem.views.items():
        _require(plan.offsets.get(view) == plan.offsets[tensor], f"'{view}' is not where '{tensor}' is")
    for name, cut in problem.cuts.items():
        _require(plan.offsets.get(name) == plan.offsets[cut.of] + cut.offset, f"'{name}' is not a part of '{cut.of}'")
        _require(0 <= cut.offset <= problem.tensors[cut.of].size - cut.size, f"'{name}' leaves '{cut.of}'")
    _require(plan.lower_bound_bytes <= plan.arena_bytes, "the arena is smaller than its lower bound")


def _last_use(problem: Problem, tasks: list[Layer]) -> dict[str, int]:
    """The last step that reads each tensor; len(tasks) for outputs of the model, -1 for never."""
    last = dict.fromkeys(problem.tensors, -1)
    for step, task in enumerate(tasks):
        last.update(dict.fromkeys(task.reads, step))
    last.update(dict.fromkeys(problem.outputs, len(tasks)))
    for task in tasks:
        for name in task.writes:
            if name in problem.joins:  # whoever reads a part reads the join
                last[name] = max(last[name], *(last[part.name] for part in problem.joins[name]))
    return last


def _check_lifetimes(problem: Problem, plan: Plan, tasks: list[Layer], last_use: Mapping[str, int]) -> None:
    """The lifetimes that the plan reports cover what the steps do."""
    born = dict.fromkeys(problem.inputs, -1)
    born |= {name: step for step, task in enumerate(tasks) for name in task.writes}
    buffers = {buffer.name: buffer for buffer in plan.buffers if not buffer.scratch}
    for name, tensor in problem.tensors.items():
        buffer = buffers.get(name)
        if buffer is None:
            raise InvalidPlanError(f"'{name}' has no buffer")
        covered = buffer.born == born[name] and buffer.dies >= min(last_use[name] + 1, len(tasks))
        _require(covered and buffer.size == tensor.size, f"buffer '{name}' does not cover its use")


def _replay(problem: Problem, plan: Plan, tasks: list[Layer], last_use: Mapping[str, int]) -> None:
    owner = np.full(plan.arena_bytes, NOBODY, np.int64)
    sizes = {name: tensor.size for name, tensor in problem.tensors.items()}
    arena = _Arena(owner, {name: i for i, name in enumerate(sizes)}, sizes, plan.offsets)
    for name in dict.fromkeys(problem.inputs):
        arena.claim(name, "the caller")
    for step, task in enumerate(tasks):
        arena.release({name for name in problem.inputs if step == 0 and last_use[name] < 0})
        dying = {name for name in task.reads if last_use[name] == step}
        if task.writes and task.writes[0] in problem.joins:
            _join(arena, problem, task)
        else:
            _run_step(arena, plan, plan.steps[step], task, dying)
        dying |= {name for name in problem.joins if last_use[name] == step}
        arena.release(dying | {name for name in task.writes if last_use[name] < 0})
    for name in problem.outputs:
        _require(arena.intact(name), f"output '{name}' is overwritten before the run ends")


def _join(arena: _Arena, problem: Problem, task: Layer) -> None:
    """Nothing runs: the inputs lie one after the other where the output is, and are the output from now on."""
    made, end = task.writes[0], 0
    _require(len(task.writes) == 1 and not task.whole.scratch_bytes, f"join '{task.node}' does something")
    _require(tuple(part.name for part in problem.joins[made]) == task.reads, f"join '{task.node}' has other parts")
    for part in problem.joins[made]:
        there = arena.offsets[part.name] - arena.offsets[made]
        _require(part.offset == there == end, f"'{part.name}' is not where '{made}' has it")
        _require(arena.intact(part.name), f"join '{task.node}': '{part.name}' is overwritten")
        end += problem.tensors[part.name].size
    _require(end == problem.tensors[made].size, f"'{made}' is not all parts of it")
    for part in problem.joins[made]:
        arena.become(part.name, made)


def _run_step(arena: _Arena, plan: Plan, step: Step, task: Layer, dying: set[str]) -> None:
    for name in task.reads:
        _require(arena.intact(name), f"step '{task.node}' reads '{name}', whose bytes are overwritten")
    if task.whole.scratch_bytes:
        arena.take(plan.scratch_offsets[task.node], task.whole.scratch_bytes, SCRATCH, f"scratch of '{task.node}'")
    for position, name in enumerate(task.writes):
        here = [x for x in task.whole.inplace if x in dying and arena.offsets[x] == arena.offsets[name]]
        if here and position == 0:
            arena.release({here[0]})
            arena.claim(name, f"step '{task.node}' in place")
        elif position == 0 and task.whole.sliding is not None and task.whole.sliding.tensor in dying:
            sliding = task.whole.sliding
            if sliding.rows.across is not None and sliding.forward:
                _walk_along(arena, step, task, sliding, sliding.rows.across)
            else:
                _walk(arena, step, task, sliding)
        else:
            arena.claim(name, f"step '{task.node}'")
    owner = arena.owner
    owner[owner == SCRATCH] = NOBODY


def _walk(arena: _Arena, step: Step, task: Layer, sliding: Sliding) -> None:
    """Call by call: the input rows are intact when they are read, and none that is still needed is written.

    A call's own rows are needed until it ends, those of a buffered call until it writes.
    """
    x, y, rows = sliding.tensor, task.writes[0], sliding.rows
    calls = list(range(0, rows.out_h, rows.out_rows))
    _require(not (step.bottom_up and sliding.forward), f"step '{task.node}' cannot run bottom-up")
    if step.bottom_up:
        calls.reverse()
    reads = [_rows_read(rows, start) for start in calls]
    last_call = {row: number for number, read in enumerate(reads) for row in read}
    for number, start in enumerate(calls):
        where = f"step '{task.node}', output row {start}"
        for row in reads[number]:
            _require(arena.row_intact(x, row, rows.in_row_bytes), f"{where}: input row {row} is overwritten")
        size = (min(start + rows.out_rows, rows.out_h) - start) * rows.out_row_bytes
        for row in arena.write_rows(x, y, start * rows.out_row_bytes, size, rows.in_row_bytes, where):
            until = last_call.get(row, -1)
            gone = until < number or (until == number and rows.buffered)
            _require(gone, f"{where} overwrites input row {row}, which is still needed")


def _walk_along(arena: _Arena, step: Step, task: Layer, sliding: Sliding, across: Across) -> None:
    """Piece by piece: every byte is the input's still when it is read; a call reads each column once."""
    x, y, rows = sliding.tensor, task.writes[0], sliding.rows
    _require(not step.bottom_up, f"step '{task.node}' cannot run bottom-up")
    in_w, out_w = rows.in_row_bytes // across.in_step, rows.out_row_bytes // across.out_step
    for start in range(0, rows.out_h, rows.out_rows):
        known = 0
        for number in range(-(-out_w // across.columns)):
            where = f"step '{task.node}', output row {start}, piece {number}"
            until = min(max(across.ahead + number * across.columns * across.stride, known), in_w)
            for row in _rows_read(rows, start):
                at = row * rows.in_row_bytes
                span = slice(at + known * across.in_step, at + until * across.in_step)
                _require(arena.span_intact(x, span), f"{where}: input row {row} is overwritten")
            known = until
            left = number * across.columns
            size = (min(left + across.columns, out_w) - left) * across.out_step
            for row in range(start, min(start + rows.out_rows, rows.out_h)):
                at = row * rows.out_row_bytes + left * across.out_step
                arena.write_rows(x, y, at, size, rows.in_row_bytes, where)


def _rows_read(rows: Rows, start: int) -> set[int]:
    taps = (
        r * rows.stride + k * rows.dilation - rows.pad_top
        for r in range(start, min(start + rows.out_rows, rows.out_h))
        for k in range(rows.k_h)
    )
    return {i for i in taps if 0 <= i < rows.in_h}


class _Arena:
    """Who owns each byte. Tensors have numbers from 0; NOBODY and SCRATCH are below."""

    def __init__(
        self,
        owner: npt.NDArray[np.int64],
        number: Mapping[str, int],
        sizes: Mapping[str, int],
        offsets: Mapping[str, int],
    ) -> None:
        self.owner, self.number, self.sizes, self.offsets = owner, dict(number), sizes, offsets
        self.part_of: dict[str, str] = {}  # tensors that are parts of a join now

    def bytes_of(self, name: str) -> npt.NDArray[np.int64]:
        at = self.offsets[name]
        return self.owner[at : at + self.sizes[name]]

    def intact(self, name: str) -> bool:
        return bool((self.bytes_of(name) == self.number[name]).all())

    def row_intact(self, name: str, row: int, row_bytes: int) -> bool:
        there = self.bytes_of(name)[row * row_bytes : (row + 1) * row_bytes]
        return bool((there == self.number[name]).all())

    def span_intact(self, name: str, span: slice) -> bool:
        return bool((self.bytes_of(name)[span] == self.number[name]).all())

    def take(self, at: int, size: int, owner: int, who: str) -> None:
        there = self.owner[at : at + size]
        _require(bool((there == NOBODY).all()), f"{who} writes [{at}, {at + size}), where something is alive")
        there[:] = owner

    def claim(self, name: str, who: str) -> None:
        self.take(self.offsets[name], self.sizes[name], self.number[name], f"{who}: '{name}'")

    def write_rows(self, x: str, y: str, start: int, size: int, row_bytes: int, where: str) -> list[int]:
        """Write bytes of y, over nobody's bytes or x's; the rows of x that this destroys."""
        at = self.offsets[y] + start
        there = self.owner[at : at + size]
        of_x = there == self.number[x]
        _require(bool((of_x | (there == NOBODY)).all()), f"{where} overwrites bytes of something else")
        rows = np.unique((np.flatnonzero(of_x) + at - self.offsets[x]) // row_bytes)
        there[:] = self.number[y]
        return [int(row) for row in rows]

    def become(self, part: str, whole: str) -> None:
        """The bytes of `part` are those of `whole`; who asks for the part finds them."""
        self.bytes_of(part)[:] = self.number[whole]
        for name in (part, *(name for name, of in self.part_of.items() if of == part)):
            self.number[name], self.part_of[name] = self.number[whole], whole

    def release(self, names: set[str]) -> None:
        """What is left of these tensors belongs to nobody; parts of a join go with it."""
        for name in names - self.part_of.keys():
            there = self.bytes_of(name)
            there[there == self.number[name]] = NOBODY
