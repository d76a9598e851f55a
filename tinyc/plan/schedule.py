# SPDX-License-Identifier: Apache-2.0
"""The order of the steps: topological, with the lowest peak of live bytes that was found.

A state is the set of tasks that have run; it fixes which tensors are alive. The search goes through states
by rising peak, so the first complete one is optimal (the bottleneck form of Dijkstra's algorithm).
Two rules keep it small:

* A *safe* task is taken at once, without alternatives: it fits under the peak already paid for, and
  leaves no more bytes alive than before. Doing it earlier never hurts: in any later state what it frees
  can only be more, what it made can only be less, and the other steps save at least as much in place.
* States whose peak is not below that of the graph's own order are dropped.

When that still leaves too many states, a beam search takes over; it proves nothing.
"""

from __future__ import annotations

import heapq

from tinyc.base.dataclass import dataclass
from tinyc.plan.live import Costs, costs_of
from tinyc.plan.problem import Problem

MAX_RUNS = 100_000
READY = 16  # tasks that may run next, from which more are looked at less: a model with 1,000 outputs has 1,000
BEAM_WIDTH = 16


@dataclass(frozen=True, slots=True)
class Order:
    """Indices of `Problem.tasks` as they run. optimal: it is proved that no order has a lower peak."""

    tasks: tuple[int, ...]
    peak: int  # live bytes, every buffer rounded up to the alignment
    optimal: bool


def graph_order(problem: Problem) -> Order:
    """The order of the graph. Optimal only if one of its steps, seen alone, needs that peak."""
    costs = costs_of(problem)
    tasks = tuple(range(len(problem.layers)))
    peak = _peak(costs, tasks)
    return Order(tasks, peak, peak <= _floor(costs))


def best_order(problem: Problem, max_runs: int = MAX_RUNS) -> Order:
    """The graph's own order if no other is found to have a lower peak, else the best one found.

    Exact unless the search would have to look at more than `max_runs` ways to go on. Deterministic.
    """
    given = graph_order(problem)
    if given.optimal:
        return given
    costs = costs_of(problem)
    tasks: tuple[int, ...] | None
    try:
        tasks = _exact(costs, given.peak, max_runs)
    except _TooManyError:
        tasks = _beam(costs)
        best = Order(tasks, _peak(costs, tasks), False)
        return best if best.peak < given.peak else given
    if tasks is None:
        return Order(given.tasks, given.peak, True)
    return Order(tasks, _peak(costs, tasks), True)


def lightest_order(problem: Problem, max_runs: int = MAX_RUNS) -> tuple[int, ...]:
    """Of the orders with the lowest peak, that with the fewest live bytes of all steps together: whatever else a step
    may need then meets few bytes. `best_order` where the search would take too long."""
    best, costs = best_order(problem, max_runs), costs_of(problem)
    heap = [(0, 0, _start(costs))]
    pushed = 0
    seen: set[int] = set()
    while heap:
        total, _, state = heapq.heappop(heap)
        if state.count == len(costs.needs):
            return state.order()
        if state.done in seen:
            continue
        seen.add(state.done)
        for task in state.ready:
            during, _ = costs.step(state.live, state.done, task)
            if during <= best.peak:
                pushed += 1
                heapq.heappush(heap, (total + during, pushed, _run(costs, state, task)))
        if pushed > max_runs:
            break
    return best.tasks


class _TooManyError(Exception):
    pass


@dataclass(frozen=True, slots=True)
class _State:
    """What has run. `last` and `before` spell the order backwards, so states share their past."""

    peak: int
    live: int
    done: int
    count: int
    ready: tuple[int, ...]  # tasks that may run next, ascending
    last: int = -1
    before: _State | None = None

    def order(self) -> tuple[int, ...]:
        steps, state = [], self
        while state.before is not None:
            steps.append(state.last)
            state = state.before
        return tuple(reversed(steps))


def _start(costs: Costs) -> _State:
    ready = tuple(task for task, needs in enumerate(costs.needs) if not needs)
    return _State(0, costs.begin(), 0, 0, ready)


def _run(costs: Costs, state: _State, task: int) -> _State:
    """The state after `task`."""
    during, after = costs.step(state.live, state.done, task)
    done = state.done | 1 << task
    woken = {t for t in costs.followers[task] if costs.needs[t] & ~done == 0}
    ready = tuple(sorted(woken.union(state.ready) - {task}))
    return _State(max(state.peak, during), after, done, state.count + 1, ready, task, state)


def _settle(costs: Costs, state: _State) -> _State:
    """The state after all safe tasks, lowest index first."""
    while True:
        for task in state.ready:
            during, live = costs.step(state.live, state.done, task)
            if during <= state.peak and live <= state.live:
                state = _run(costs, state, task)
                break
        else:
            return state


def _exact(costs: Costs, limit: int, max_runs: int) -> tuple[int, ...] | None:
    """An order with the least peak of all, None if none is below `limit`. _TooManyError when it gives up."""
    start = _settle(costs, _start(costs))
    heap = [(start.peak, -start.count, 0, start)]
    pushed = 0  # keeps the heap from comparing states, and the search deterministic
    runs = 0
    seen: set[int] = set()
    while heap:
        state = heapq.heappop(heap)[-1]
        if state.count == len(costs.needs):
            return state.order()
        if state.done in seen:
            continue
        seen.add(state.done)
        for task in state.ready:
            after = _settle(costs, _run(costs, state, task))
            runs += (after.count - state.count) * max(1, len(state.ready) // READY)
            if runs > max_runs:
                raise _TooManyError
            if after.peak < limit and after.done not in seen:
                pushed += 1
                heapq.heappush(heap, (after.peak, -after.count, pushed, after))
    return None


def _beam(costs: Costs) -> tuple[int, ...]:
    """A good order: of all states with as many tasks done, the few with the lowest peak go on."""
    states = [_start(costs)]
    for _ in costs.needs:
        reached: dict[int, _State] = {}
        for state in states:
            for task in state.ready[: 2 * READY]:
                after = _run(costs, state, task)
                incumbent = reached.get(after.done)
                if incumbent is None or after.peak < incumbent.peak:
                    reached[after.done] = after
        states = sorted(reached.values(), key=lambda s: (s.peak, s.live, s.done))[:BEAM_WIDTH]
    return states[0].order()


def _peak(costs: Costs, tasks: tuple[int, ...]) -> int:
    state = _start(costs)
    for task in tasks:
        state = _run(costs, state, task)
    return state.peak


def _floor(costs: Costs) -> int:
    """Live bytes that some step needs in every order: its tensors and scratch, overlapped where it may."""
    alone = [costs.begin()]
    for task, scratch in enumerate(costs.scratch):
        together = sum(costs.size[i] for i in {*costs.reads[task], *costs.writes[task]}) + scratch
        alone.append(together - max((s.bytes for s in costs.savings[task]), default=0))
    return max(alone)
