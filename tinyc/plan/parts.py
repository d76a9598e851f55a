# SPDX-License-Identifier: Apache-2.0
"""An arena in two parts: tensors that a fast RAM has no room for lie in a slow one, those whose accesses cost least.

What the layers do, and in which order, stays. A tensor lies in one part as a whole; scratch and accumulators, which
kernels use most, in the fast one. Nothing is computed in place of a tensor of the other part, so the fast part is
planned as if the slow tensors had no bytes, and the slow part the other way round. Which tensors are slow is chosen one
by one: where the fast part is fullest, the one that costs least for the bytes that it gives back.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from itertools import accumulate

from tinyc.base.dataclass import dataclass
from tinyc.plan.answer import SLOW, Partition, Plan
from tinyc.plan.live import costs_of, round_up
from tinyc.plan.placement import plan_of, plan_order
from tinyc.plan.problem import Form, Layer, Problem

Names = frozenset[str]

_BACK = 12  # of the groups of tensors that were moved, so many are tried in the fast part again
_ABOUT = 1.05
_WORK = 100_000  # of `place`, for each choice of tensors
_TABLE_UNITS = 2**16  # what a table of places of rows can tell apart


@dataclass(frozen=True, slots=True)
class SlowPart:
    """What a slow RAM is to a plan. bytes: its size. read_cost, write_cost: cycles of a byte that is read or written
    there, more than in the fast one."""

    bytes: int
    read_cost: float
    write_cost: float


def in_parts(plan: Plan, most: int, slow: SlowPart) -> Plan | None:
    """The plan with the turns and forms of `plan`, of which at most `most` bytes lie in the fast part; nothing has
    validated it.

    None where that cannot be, or the slow part is too small.
    """
    problem, costs = plan.problem, _costs(plan.problem, plan.forms, slow)
    part = _rows_apart(plan) if plan.runs_by_rows else _layers_apart(plan)
    picked = _chosen(problem, costs, most, part)
    if picked is None:
        return None
    fast_names, fast = picked
    others = _names(problem) - fast_names
    there = part.rest(others)
    allocations = [one for one in fast.allocations if one.kind != "tensor" or one.what in fast_names]
    allocations += [replace(one, offset=SLOW + one.offset) for one in there.allocations if one.what in others]
    parted = replace(
        fast,
        problem=replace(_unmixed(fast.problem, fast_names), tensors=problem.tensors, joins=problem.joins),
        row_offsets={
            **fast.row_offsets,
            **{name: tuple(SLOW + at for at in there.row_offsets[name]) for name in others},
        },
        allocations=tuple(allocations),
        bottom_up=_written_in(fast_names, fast) | _written_in(others, there),
        arena_bytes=round_up(fast.arena_bytes, fast.arena_align),
        slow_bytes=there.arena_bytes,
        slow_waits=round(sum(costs[name] for name in others)),
    )
    limit = min(slow.bytes, problem.unit * _TABLE_UNITS) if plan.runs_by_rows else slow.bytes
    return parted if parted.slow_bytes <= limit else None


def _written_in(tensors: Names, plan: Plan) -> frozenset[int]:
    """The layers that run from the last row to the first and write one of these."""
    return frozenset(index for index in plan.bottom_up if plan.problem.layers[index].writes[0] in tensors)


@dataclass(frozen=True, slots=True)
class _Part:
    """The fast part with some of the tensors. placed: its plan. rest: the plan of tensors of the slow part. live: bytes
    alive in each turn, or somewhat more. alive: of each tensor, turns [born, dies)."""

    placed: Callable[[Names], Plan]
    rest: Callable[[Names], Plan]
    live: Callable[[Names], Sequence[int]]
    alive: Mapping[str, tuple[int, int]]


def _layers_apart(plan: Plan) -> _Part:
    """Of layers that all run whole."""
    problem, order = plan.problem, plan.order
    return _Part(
        placed=lambda names: plan_order(_only(problem, names), order, work=_WORK),
        rest=lambda others: plan_order(_without_scratch(_only(problem, others)), order),
        live=lambda names: _live(_only(problem, names), order),
        alive={name: _life(plan, name) for name in problem.tensors},
    )


def _rows_apart(plan: Plan) -> _Part:
    problem = plan.problem
    return _Part(
        placed=lambda names: plan_of(_only(problem, names), _cut(plan, names)),
        rest=lambda others: plan_of(_only(problem, others), _cut(plan, others, scratch=False), moves=False),
        live=lambda names: _live_rows(plan, names),
        alive={name: _life(plan, name) for name in problem.tensors},
    )


def _chosen(problem: Problem, costs: Mapping[str, float], most: int, part: _Part) -> tuple[Names, Plan] | None:
    """The tensors of the fast part, and its plan; None where scratch alone takes more than `most` bytes.

    A placement takes work, so it is tried only when about as much is alive as fits.
    """
    groups = [group for group in _groups(problem) if any(problem.tensors[name].size for name in group)]
    fast_names, moved = _names(problem), list[Names]()
    plan = part.placed(fast_names)
    while plan.arena_bytes > most:
        live = part.live(fast_names)
        best = _cheapest(
            [group for group in groups if group <= fast_names], fast_names, min(most, max(live) - 1), costs, part
        )
        if best is None:
            return None
        moved.append(best)
        fast_names -= best
        if max(part.live(fast_names)) <= _ABOUT * most:
            plan = part.placed(fast_names)
    for group in sorted(moved, key=lambda one: -_cost(one, costs))[:_BACK]:
        if max(part.live(fast_names | group)) > _ABOUT * most:
            continue
        again = part.placed(fast_names | group)
        if again.arena_bytes <= most:
            fast_names, plan = fast_names | group, again
    return fast_names, plan


def _cheapest(
    groups: Sequence[Names], names: Names, limit: int, costs: Mapping[str, float], part: _Part
) -> Names | None:
    """Of the groups alive in the fullest turn the one that costs least for what it takes from all turns above the
    limit; None: scratch alone is above it there."""
    live = part.live(names)
    fullest = live.index(max(live))
    excess = sum(max(own - limit, 0) for own in live)
    best, worth = None, 0.0
    for group in groups:
        if not any(part.alive[name][0] <= fullest < part.alive[name][1] for name in group):
            continue
        gain = excess - sum(max(own - limit, 0) for own in part.live(names - group))
        if gain / (_cost(group, costs) + 1) > worth:
            best, worth = group, gain / (_cost(group, costs) + 1)
    return best


def _cost(group: Names, costs: Mapping[str, float]) -> float:
    return sum(costs[name] for name in group)


def _live(problem: Problem, order: Sequence[int]) -> list[int]:
    """Bytes alive in each step."""
    costs = costs_of(problem)
    live, done, bytes_alive = costs.begin(), 0, []
    for task in order:
        during, live = costs.step(live, done, task)
        done |= 1 << task
        bytes_alive.append(during)
    return bytes_alive


def _live_rows(plan: Plan, names: Names) -> list[int]:
    """Bytes alive in each turn; a row and that in whose place it is made count both."""
    changes = [0] * (len(plan.turns) + 1)
    for one in plan.allocations:
        if one.kind != "tensor" or one.what in names:
            changes[one.born] += one.size
            changes[one.dies] -= one.size
    return list(accumulate(changes))[:-1]


def _life(plan: Plan, name: str) -> tuple[int, int]:
    own = [one for one in plan.allocations if (one.kind, one.what) == ("tensor", name)]
    return min((one.born for one in own), default=0), max((one.dies for one in own), default=0)


def _names(problem: Problem) -> Names:
    return frozenset(problem.tensors)


def _groups(problem: Problem) -> list[Names]:
    """Tensors that share bytes for good: a join and all that it consists of."""
    of = {name: name for name in problem.tensors}
    for name, parts in problem.joins.items():
        taken = {of[part.name] for part in parts}
        of = {tensor: of[name] if root in taken else root for tensor, root in of.items()}
    return [frozenset(name for name, root in of.items() if root == own) for own in dict.fromkeys(of.values())]


def _only(problem: Problem, names: Names) -> Problem:
    """The problem in which of all tensors only these take bytes."""
    tensors = {name: own if name in names else replace(own, row_bytes=0) for name, own in problem.tensors.items()}
    joins = {name: parts for name, parts in problem.joins.items() if name in names}
    return replace(_unmixed(problem, names), tensors=tensors, joins=joins)


def _unmixed(problem: Problem, names: Names) -> Problem:
    """The problem in which no output takes the place of an input of the other part."""

    def apart(layer: Layer) -> Layer:
        return replace(layer, whole_forms=tuple(_apart(form, layer, names) for form in layer.whole_forms))

    return replace(problem, layers=tuple(map(apart, problem.layers)))


def _apart(form: Form, layer: Layer, names: Names) -> Form:
    there = bool(layer.writes) and layer.writes[0] in names
    inplace = tuple(name for name in form.inplace if (name in names) == there)
    slides = form.sliding is not None and (form.sliding.tensor in names) == there
    return replace(form, inplace=inplace, sliding=form.sliding if slides else None)


def _bare(form: Form) -> Form:
    return replace(form, cost=replace(form.cost, scratch_bytes=0), spare=None, spare_turns=())


def _without_scratch(problem: Problem) -> Problem:
    layers = (replace(layer, whole_forms=tuple(map(_bare, layer.whole_forms))) for layer in problem.layers)
    return replace(problem, layers=tuple(layers))


def _cut(plan: Plan, names: Names, scratch: bool = True) -> Partition:
    """The groups and forms of a plan, for these tensors alone."""
    forms = [_apart(form, layer, names) for form, layer in zip(plan.forms, plan.problem.layers, strict=True)]
    return Partition(plan.groups, tuple(forms if scratch else map(_bare, forms)), 0)


def _costs(problem: Problem, forms: Sequence[Form], slow: SlowPart) -> dict[str, float]:
    """Cycles more that each tensor would cost in the slow part, estimated: each row is read for every window that it is
    in, and written once."""
    costs = dict.fromkeys(problem.tensors, 0.0)
    for layer, form in zip(problem.layers, forms, strict=True):
        if layer.writes and layer.writes[0] in problem.joins:
            continue  # nothing runs
        times = _times_read(form)
        for name in layer.reads:
            costs[name] += problem.tensors[name].size * times * slow.read_cost
        for name in layer.writes:
            costs[name] += problem.tensors[name].size * slow.write_cost
    return costs


def _times_read(form: Form) -> float:
    call = form.row.call if form.row is not None else form.choice.offer.call()
    rows = call.rows or call.flow
    return max(1.0, rows.k_h / rows.stride) if rows is not None else 1.0
