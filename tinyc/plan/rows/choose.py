# SPDX-License-Identifier: Apache-2.0
"""The streamed plan of a model: as small as the time that may be spent buys, or fast within a number of bytes."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial

from tinyc.choose.select import FLASH_PER_RAM, PRICE
from tinyc.ir.graph import Graph
from tinyc.kernel.kernel import instructions_of
from tinyc.options.build import Optimize
from tinyc.plan.answer import Partition, Plan
from tinyc.plan.builder import problem_of
from tinyc.plan.live import round_up
from tinyc.plan.placement import FULL_WORK, QUICK_WORK, plan_like, plan_of
from tinyc.plan.problem import Problem
from tinyc.plan.row_forms import Candidates
from tinyc.plan.rows.cuts import (
    Candidate,
    Weigh,
    cheapest,
    measure,
    measure_group,
    smallest,
    weigh_all,
)
from tinyc.plan.rows.flash import InFlash
from tinyc.plan.rows.incremental import incremental_problem
from tinyc.plan.rows.slot_forms import cuts_in_slots, others_in_slots
from tinyc.plan.rows.wider import with_wider
from tinyc.plan.uses import uses_of
from tinyc.plan.validate import first_valid

UNITS, ROW_ADDRESSES = (4, 16), 2**16  # row addresses are multiples; a table holds 16 bits of them
_UNLIMITED = 2**40  # bytes
_WORTHWHILE = 0.98  # a better placement is looked for where the bound is below this share of the arena
_TRIES = 24  # placements that miss the limit
_HARDER = ((8, FULL_WORK), (40, 4 * FULL_WORK))  # (share, work): a placement that misses it by less is tried again
_SLOTTED_UP_TO = 100  # layers; of more, slots take minutes to look for and save next to nothing
_SCRATCH_PRICE = 100  # instructions per byte
_ROOMS, _ROOM_STEPS = 8, 128  # forms are chosen for that many arenas, each smaller by such a part of the RAM
_BEST = 3  # of the cuts for an arena,
_OTHERS = 12  # how many others are made like each
_PLACED = 30  # of all of them, how many are placed
_LITTLE_WORK = 1000  # of `place`, for those
_LADDER, _RUNGS = 32, 4  # arenas to try from one to twice its bytes; and so many of them
_FAR = 2  # every which of all, where a smaller arena is worth little time
_NARROW = 32  # bytes between arenas that are told apart

Rank = tuple[float, ...]  # of plans the least is the best


@dataclass(frozen=True, slots=True)
class Limits:
    """What a plan may take, of all layers together: instructions, time (Cost.time), flash bytes; and bytes of arena
    above which any instructions and time are paid. None: no limit. exchange: the share of a longer time that a share
    of a smaller arena is worth, where flash is short; None: the smallest arena is wanted."""

    instructions: float = float("inf")
    time: float = float("inf")
    flash_bytes: int | None = None
    ram_bytes: int | None = None
    exchange: float | None = None

    def allow(self, cut: Partition) -> bool:
        return cut.instructions <= self.instructions and cut.time <= self.time and self.fit_flash(cut)

    def fit_flash(self, cut: Partition) -> bool:
        return self.flash_bytes is None or cut.flash_bytes <= self.flash_bytes


def plan_streamed(
    graph: Graph, choices: Candidates, optimize: Optimize, limits: Limits, *, by_rows: bool = False
) -> Plan | None:
    """The validated plan with the smallest arena within the limits; None if no layer runs by rows, or nothing fits.

    choices: every kernel that may run each node. by_rows: the inputs arrive row by row.
    """
    for unit in UNITS:
        problem = problem_of(graph, choices, by_rows=by_rows, unit=unit)
        if not any(layer.walk for layer in problem.layers):
            return None
        plan = plan_problem(problem, optimize, limits)
        if plan is None or plan.arena_bytes < unit * ROW_ADDRESSES:
            return plan
    return None


def plan_incremental(
    graph: Graph, choices: Candidates, optimize: Optimize, price: float, limits: Limits, hop: int
) -> Plan | None:
    """The validated plan of one call that takes `hop` rows, at most `price` (a share) slower than the fastest. Of the
    limits the bytes count.

    None if no plan fits the flash. Raises TinycError naming the layer that cannot run incrementally.
    """
    problem = incremental_problem(graph, choices, hop)
    fastest = cheapest(weigh_all(measure(problem), lambda form: form.time), _UNLIMITED)
    if fastest is None:
        return None
    time = fastest.time * (1 + 2 * price)
    instructions = instructions_of([form.cost for form in fastest.forms]) * (1 + price)
    return plan_problem(problem, optimize, replace(limits, instructions=instructions, time=time))


def plan_problem(problem: Problem, optimize: Optimize, limits: Limits) -> Plan | None:
    """The best plan of those that several ways to choose among forms lead to: the smallest arena for `speed`, else the
    least flash and arena together, as `FLASH_PER_RAM` weighs them."""
    rank = partial(_ranked, limits=limits, flash_per_ram=None if optimize == "speed" else FLASH_PER_RAM[optimize])
    measured = with_wider(problem, measure(problem), limits.allow, limits.ram_bytes)
    ranked = [weigh_all(measured, weigh) for weigh in _weights(optimize)]
    if limits.flash_bytes is not None and _is_short_of_flash(ranked[0], limits):
        in_flash = InFlash(measured, ranked[0][0].weigh, limits.flash_bytes)
        exchanged = optimize == "speed" and limits.exchange is not None
        return _in_flash(problem, in_flash, limits, partial(_exchanged, limits) if exchanged else rank)
    chosen = [smallest(candidates, limits.allow) for candidates in ranked]
    if not any(chosen):  # of a small network flash weighs more than all the time there is
        chosen = [smallest(weigh_all(measured, lambda form: form.time), limits.allow)]
    plans: list[Plan] = []
    for cut in chosen:
        if cut is not None and (optimize != "speed" or all(cut[0] < plan.arena_bytes for plan in plans)):
            plans.append(_plan_among(plans, problem, cut[1]))
    if limits.ram_bytes is not None and all(plan.arena_bytes > limits.ram_bytes for plan in plans):
        plans += _within(problem, ranked[0], limits, limits.ram_bytes)
    best = min(plans, key=rank, default=None)
    harder: list[Plan] = []  # with more work
    for plan in sorted(plans, key=rank):
        if best is not None and plan.lower_bound_bytes + 2 * problem.scratch_unit < _WORTHWHILE * best.arena_bytes:
            harder.append(_plan_among(harder, problem, Partition(plan.groups, plan.forms, 0), FULL_WORK))
            best = min(best, harder[-1], key=rank)
    if best is not None:
        if 2 * problem.scratch_unit > best.gap_bytes >= problem.scratch_unit:
            best = min(best, _plan_among(harder, problem, Partition(best.groups, best.forms, 0), FULL_WORK), key=rank)
        best = min((best, *_with_early_sums(problem, limits, optimize, best)), key=rank)
        fits = limits.ram_bytes is None or best.arena_bytes <= limits.ram_bytes
        few = len(problem.layers) <= _SLOTTED_UP_TO
        if fits and few and best.lower_bound_bytes < _WORTHWHILE * best.arena_bytes:
            best = _smaller_in_slots(problem, ranked[0], limits, best, FLASH_PER_RAM[optimize])
        return first_valid(_then(best, sorted((*harder, *plans), key=rank)))
    return None


def _then(best: Plan, others: Iterable[Plan]) -> Iterator[Plan]:
    """The best plan, and what is taken where it is refused: the others, and the same turns without moves."""
    yield best
    yield from others
    yield plan_of(best.problem, Partition(best.groups, best.forms, 0), moves=False)


def _plan_among(plans: Sequence[Plan], problem: Problem, cut: Partition, work: int = QUICK_WORK) -> Plan:
    """The plan of a cut, in the places of one of the plans (of as much work) where it differs in kernels alone."""
    alike = (plan_like(plan, problem, cut) for plan in plans)
    return next((plan for plan in alike if plan is not None), None) or plan_of(problem, cut, work)


def _is_short_of_flash(candidates: tuple[Candidate, ...], limits: Limits) -> bool:
    """Whether the forms that the price of flash alone leads to take more than there is."""
    free = replace(limits, flash_bytes=None)
    few = smallest(candidates, free.allow)
    cuts = [cheapest(candidates, _UNLIMITED), few[1] if few else None]
    return any(cut is not None and not limits.fit_flash(cut) for cut in cuts)


def _in_flash(problem: Problem, in_flash: InFlash, limits: Limits, rank: Callable[[Plan], Rank]) -> Plan | None:
    """The best plan in the flash: of those near the smallest arena that is allowed, or else the fastest in the RAM; the
    smallest where none is in the RAM. Arenas are tried at the same bytes whatever the limits, so that what a
    tighter limit finds is found within a looser one, too."""
    few, ram = in_flash.smallest(limits.allow), limits.ram_bytes
    if few is not None and (ram is None or few[0] <= ram):
        arenas = [arena for arena in _ladder(few[0], limits.exchange) if ram is None or arena <= ram]
        cuts = [few[1], *(cut for arena in arenas if (cut := in_flash.cheapest(arena)) is not None)]
        plans = [_placed(problem, cut, ram) for cut in cuts if limits.allow(cut)]
        plans = [plan for plan in plans if ram is None or plan.arena_bytes <= ram]
        if plans:
            return _first_valid(plans, rank)
    tried: list[Plan] = []
    for arena in _ladder_down(_UNLIMITED if ram is None else ram):
        cut = in_flash.cheapest(arena)
        if cut is None or len(tried) == _TRIES:
            break
        tried.append(_placed(problem, cut, ram))
        if ram is None or tried[-1].arena_bytes <= ram:
            break
    if not tried and (fewest := in_flash.smallest(limits.fit_flash)) is not None:
        tried.append(_placed(problem, fewest[1], ram))
    return _first_valid(tried, rank) if tried else None


def _placed(problem: Problem, cut: Partition, ram: int | None) -> Plan:
    """The plan of a cut, placed with more effort where it misses the RAM by little."""
    plan = plan_of(problem, cut)
    for share, work in _HARDER:
        if ram is not None and ram < plan.arena_bytes <= ram + ram // share:
            plan = min(plan, plan_of(problem, cut, work), key=lambda one: one.arena_bytes)
    return plan


def _first_valid(plans: Sequence[Plan], rank: Callable[[Plan], Rank]) -> Plan:
    best, *others = sorted(plans, key=rank)
    return first_valid(_then(best, others))


def _ladder(least: int, exchange: float | None) -> Iterator[int]:
    """Arenas to try from so many bytes on: to twice as many where a smaller one is worth little."""
    step = math.ceil(math.log2(least) * _LADDER)
    numbers = [*range(step, step + _RUNGS)]
    if exchange is not None and exchange < 1:
        numbers += range(step + _RUNGS + 1, step + _LADDER + 1, _FAR)
    return (int(2 ** (number / _LADDER)) for number in numbers)


def _ladder_down(most: int) -> Iterator[int]:
    """Arenas to try from so many bytes down."""
    step = math.floor(math.log2(most) * _LADDER)
    return (int(2 ** (number / _LADDER)) for number in range(step, 0, -1))


def _priced(price: int) -> Weigh:
    return lambda form: form.time + price * form.flash_bytes


def _with_early_sums(problem: Problem, limits: Limits, optimize: Optimize, best: Plan) -> Iterator[Plan]:
    """Where rows move: plans of the same turns, their forms chosen for what moves leave beside sums."""
    for weigh in _weights(optimize) if best.moves else ():
        early = smallest(_early(problem, best, weigh), limits.allow)
        if early is not None:
            yield plan_of(problem, Partition(best.groups, early[1].forms, early[1].weight))


def _early(problem: Problem, plan: Plan, weigh: Weigh) -> tuple[Candidate, ...]:
    """The groups of the plan, and what they leave for forms where sums have a place of their own from the beginning."""
    early = replace(problem.for_forms(plan.forms), early_sums=True)
    return weigh_all([measure_group(early, group, uses_of(early)) for group in plan.groups], weigh)


def _in_slots(
    problem: Problem, candidates: tuple[Candidate, ...], limits: Limits, ram: int, room: int, any_time: bool
) -> Plan | None:
    """The fastest plan found whose rows have slots in an arena of `ram` bytes, of forms chosen for `room` bytes; None
    if none is found. any_time: also beyond the limits of time."""
    fits = limits.fit_flash
    cuts = [cut for cut in cuts_in_slots(problem, candidates, room, fits) if any_time or limits.allow(cut)]
    ranked = [(cut, QUICK_WORK) for cut in cuts[:_BEST]]
    for cut in cuts[:_BEST]:
        ranked += [(other, _LITTLE_WORK) for other in others_in_slots(problem, cut, room, fits, _OTHERS)]
    for cut, work in sorted(ranked, key=lambda one: one[0].time)[:_PLACED]:
        if any_time or limits.allow(cut):
            plan = plan_of(problem, cut, work, room=ram)
            if plan.arena_bytes <= ram:
                return plan
    return None


def _smaller_in_slots(
    problem: Problem, candidates: tuple[Candidate, ...], limits: Limits, best: Plan, flash_per_ram: int
) -> Plan:
    """The plan, or one of a smaller arena, worth its flash, whose rows have slots in it: by bisection of the gap."""
    low, high = best.lower_bound_bytes, best.arena_bytes
    worth = best.flash_bytes + flash_per_ram * best.arena_bytes
    while high - low > _NARROW:
        middle = round_up((low + high) // 2, problem.scratch_unit)
        smaller = _in_slots(problem, candidates, limits, middle, middle, any_time=False)
        if smaller is None or smaller.flash_bytes + flash_per_ram * smaller.arena_bytes > worth:
            low = middle
        else:
            best, high = smaller, smaller.arena_bytes
    return best


def _exchanged(limits: Limits, plan: Plan) -> Rank:
    """Time against arena, each by its share."""
    assert limits.exchange is not None
    over = 0 if limits.ram_bytes is None else max(plan.arena_bytes - limits.ram_bytes, 0)
    return over, math.log(plan.time) + limits.exchange * math.log(plan.arena_bytes), plan.time


def _ranked(plan: Plan, limits: Limits, flash_per_ram: int | None) -> Rank:
    over = 0 if limits.ram_bytes is None else max(plan.arena_bytes - limits.ram_bytes, 0)
    if flash_per_ram is None or over:
        return over, plan.arena_bytes, plan.time
    return 0, plan.flash_bytes + flash_per_ram * plan.arena_bytes, plan.time


def _weights(optimize: Optimize) -> Iterator[Weigh]:
    """What may be minimized within a number of bytes: as `select` does; time, or instructions, and less flash; and with
    little scratch, which is easier to place."""
    price = PRICE[optimize]
    yield _priced(price)
    less = price // 4
    yield lambda form: form.time + less * form.flash_bytes
    yield lambda form: 2 * form.cost.instructions + less * form.flash_bytes
    yield lambda form: form.time + less * form.flash_bytes + _SCRATCH_PRICE * form.scratch_bytes


def _within(problem: Problem, candidates: tuple[Candidate, ...], limits: Limits, ram: int) -> list[Plan]:
    """The cheapest plan whose arena, as placed, has at most `ram` bytes; if none has, those that come near.

    How far a placement stays above the live bytes differs from plan to plan, so one after another is placed.
    """
    slots: list[Plan] = []
    for step in range(_ROOMS):
        within = _in_slots(problem, candidates, limits, ram, ram - step * ram // _ROOM_STEPS, any_time=True)
        if within is not None:
            slots = [within]
            break
    limit = ram
    plans: list[Plan] = []
    for _ in range(_TRIES):
        cut = cheapest(candidates, limit)
        if cut is None:
            break
        if not limits.fit_flash(cut):
            return slots or plans
        plan = plan_of(problem, cut)
        for share, work in _HARDER:
            if ram < plan.arena_bytes <= ram + ram // share:
                plan = min(plan, plan_of(problem, cut, work), key=lambda one: one.arena_bytes)
        if ram < plan.arena_bytes and plan.moves:
            early = cheapest(_early(problem, plan, candidates[0].weigh), ram)
            if early is not None and limits.fit_flash(early):
                plan = plan_of(problem, Partition(plan.groups, early.forms, early.weight))
        if plan.arena_bytes <= ram:
            return [min((*slots, plan), key=lambda one: one.time)]
        plans.append(plan)
        limit = min(plan.lower_bound_bytes - 1, limit - limit // _ROOM_STEPS)
    if slots:
        return slots
    fewest = smallest(candidates, limits.fit_flash)
    return plans if fewest is None else [*plans, plan_of(problem, fewest[1])]
