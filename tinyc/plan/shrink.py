# SPDX-License-Identifier: Apache-2.0
"""Smaller arena: kernels with less scratch, or whose output may overlap its input, where the arena peaks.

Within a number of bytes every step keeps its kernel if that fits beside what is alive, and takes the fastest that does
if not. The fewest bytes that the time allows come by bisection, and then by placing what the few next numbers lead to.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from tinyc.choose.select import FLASH_PER_RAM, Choice
from tinyc.ir.graph import Graph
from tinyc.kernel.kernel import instructions_of
from tinyc.plan import MAX_RUNS, THOROUGH, WORK, Needs, Plan, draft_plan

# How much longer an inference may take, in estimated time (`Cost.time`), for a smaller arena.
MEMORY_PRICE: Mapping[str, float] = {"speed": 0.01, "balanced": 0.05, "min": 0.2}
# Instructions alone may grow by this where cycles do not.
_INSTRUCTIONS = 0.05

LARGE = 64  # nodes; of larger graphs fewer plans are tried, and each with less effort
PLANS = 12
QUICK_WORK, QUICK_RUNS = 100_000, 1_000

Picked = dict[str, Choice]
Totals = tuple[int, int, int]  # time, instructions, flash bytes


@dataclass(frozen=True, slots=True)
class Ceilings:
    """What all kernels together may take. flash_bytes: of constants and code."""

    time: float
    instructions: float
    flash_bytes: float

    def excess(self, totals: Totals) -> float:
        """How far above the ceilings, as a sum of shares; 0: within."""
        ceilings = (self.time, self.instructions, self.flash_bytes)
        return sum(value / ceiling - 1 for ceiling, value in zip(ceilings, totals, strict=True) if value > ceiling)


@dataclass(frozen=True, slots=True)
class Budget:
    """price: a share of all time, which a smaller arena may cost; above `ram_bytes` of arena, any. flash_bytes: of
    constants and code, None: what the kernels take that are there at first. flash_per_ram: what a byte of arena is
    worth."""

    price: float
    ram_bytes: int | None = None
    flash_bytes: int | None = None
    flash_per_ram: int = FLASH_PER_RAM["speed"]


def shrink(
    graph: Graph, candidates: Mapping[str, Sequence[Choice]], choices: Mapping[str, Choice], budget: Budget
) -> tuple[Picked, Plan]:
    """Choices and their plan, with an arena as small as the budget buys; of all plans that are tried none has been
    validated, the one that is taken has to be. candidates: of each node, all."""
    base = dict(choices)
    search = _Search(graph, candidates, base, budget.flash_per_ram)
    instructions = instructions_of([choice.cost for choice in base.values()])
    room = max(_flash(base), budget.flash_bytes or 0)
    worth = min(room, _flash(base) + budget.flash_per_ram * search.plan.arena_bytes)
    price, ram_bytes = budget.price, budget.ram_bytes
    paid = Ceilings(time_of(base) * (1 + price), instructions * (1 + max(price, _INSTRUCTIONS)), worth)
    best = search.smallest(paid)
    if ram_bytes is not None and best[1].arena_bytes > ram_bytes:
        best = search.within(ram_bytes, Ceilings(float("inf"), float("inf"), room), best)
    return _polished(graph, *best)


class _Search:
    """The kernels that fit a number of bytes, and the plans that they lead to."""

    def __init__(self, graph: Graph, choices: Mapping[str, Sequence[Choice]], base: Picked, flash_per_ram: int) -> None:
        self.graph, self.choices, self.base, self.flash_per_ram = graph, choices, base, flash_per_ram
        self.plan = draft_plan(graph, base, slide=True)
        self.needs = Needs(graph, base, [layer.node for layer in self.plan.layers], self.plan.is_fused)
        large = len(base) > LARGE
        self.work, self.runs = (QUICK_WORK, QUICK_RUNS) if large else (WORK, MAX_RUNS)
        self.tries = PLANS // 4 if large else PLANS

    def smallest(self, ceilings: Ceilings) -> tuple[Picked, Plan]:
        """The smallest arena within the ceilings, the kernels that it was given where nothing smaller is."""
        best = self.base, self.plan
        limits = self._limits()
        low, high = 0, len(limits)
        while low < high:
            middle = (low + high) // 2
            if self._pick(limits[middle], ceilings) is None:
                low = middle + 1
            else:
                high = middle
        for limit in limits[low : low + self.tries]:
            if limit >= best[1].arena_bytes:
                break
            picked = self._pick(limit, ceilings)
            if picked is not None:
                best = min(best, (picked, self._planned(picked)), key=_rank)
        return best

    def within(self, ram: int, ceilings: Ceilings, known: tuple[Picked, Plan]) -> tuple[Picked, Plan]:
        """The fastest with at most `ram` bytes of arena; the smallest found if that is more."""
        best, limit = known, ram
        for _ in range(self.tries):
            picked = self._pick(limit, ceilings)
            if picked is None:
                break
            plan = self._planned(picked)
            best = min(best, (picked, plan), key=_rank)
            if plan.arena_bytes <= ram:
                return best
            limit -= max(plan.arena_bytes - ram, 1)
        smallest = self.smallest(ceilings)
        return min(best, smallest, key=_rank)

    def _limits(self) -> list[int]:
        """Numbers of bytes at which another kernel fits, ascending, below what the kernels now take."""
        needs = {self.needs.floor}
        for node, choice in self.base.items():
            if self.needs.of(node, choice) > self.needs.floor:
                needs |= {self.needs.of(node, other) for other in self.choices[node]}
        return sorted(need for need in needs if need >= self.needs.floor)

    def _pick(self, limit: int, ceilings: Ceilings) -> Picked | None:
        """Kernels whose steps need at most `limit` bytes, within the ceilings; None if there are none."""
        picked: Picked = {}
        for node, choice in self.base.items():
            if self.needs.fits(node, choice, limit):
                picked[node] = choice
                continue
            fits = [other for other in self.choices[node] if self.needs.fits(node, other, limit)]
            if not fits:
                return None
            picked[node] = min(fits, key=lambda other: other.cost.time + other.cost.flash_bytes)
        saved = max(self.plan.arena_bytes - limit, 0)
        room = min(ceilings.flash_bytes, _flash(picked) + self.flash_per_ram * saved)
        return self._repaired(picked, limit, Ceilings(ceilings.time, ceilings.instructions, max(room, 1)))

    def _repaired(self, picked: Picked, limit: int, ceilings: Ceilings) -> Picked | None:
        """Other kernels elsewhere that bring the sums down to the ceilings; None if there are none."""
        totals = (time_of(picked), sum(choice.cost.instructions for choice in picked.values()), _flash(picked))
        excess, before = ceilings.excess(totals), float("inf")
        while 0 < excess < before:
            before = excess
            swaps = [
                (ceilings.excess(_exchanged(totals, now, other)), other.cost.flash_bytes, node, other)
                for node, now in picked.items()
                for other in self.choices[node]
            ]
            for _, _, node, other in sorted((swap for swap in swaps if swap[0] < before), key=lambda swap: swap[:3]):
                after = _exchanged(totals, picked[node], other)
                if excess and ceilings.excess(after) < excess and self.needs.fits(node, other, limit):
                    totals, excess = after, ceilings.excess(after)
                    picked[node] = other
        return None if excess else picked

    def _planned(self, picked: Picked) -> Plan:
        fuse = self.plan.is_fused
        return draft_plan(self.graph, picked, slide=True, work=self.work, runs=self.runs, fuse=fuse)


def _rank(trial: tuple[Picked, Plan]) -> tuple[int, int]:
    return trial[1].arena_bytes, time_of(trial[0])


def _polished(graph: Graph, choices: Picked, plan: Plan) -> tuple[Picked, Plan]:
    """The same choices, planned more thoroughly if their plan is above its bound."""
    if not plan.gap_bytes:
        return choices, plan
    again = draft_plan(graph, choices, slide=True, work=THOROUGH, fuse=plan.is_fused)
    return choices, again if again.arena_bytes < plan.arena_bytes else plan


def time_of(choices: Mapping[str, Choice]) -> int:
    """Estimated time of all kernels."""
    return sum(choice.cost.time for choice in choices.values())


def _exchanged(totals: Totals, old: Choice, new: Choice) -> Totals:
    """The totals with one choice for another."""
    a, b = old.cost, new.cost
    time, instructions, flash = totals
    return time + b.time - a.time, instructions + b.instructions - a.instructions, flash + b.flash_bytes - a.flash_bytes


def _flash(choices: Mapping[str, Choice]) -> int:
    return sum(choice.cost.flash_bytes for choice in choices.values())
