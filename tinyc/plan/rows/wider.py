# SPDX-License-Identifier: Apache-2.0
"""Which layers make several rows per call: they run faster, and more rows are alive.

The order of a group's turns depends on it, so every choice of walks is another group to choose from. They are far too
many; those are measured that a beam search comes to, one more layer at a time, for the groups that are the cheapest
within a number of bytes when all calls make one row.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

from tinyc.plan.answer import Partition
from tinyc.plan.liveness import Liveness
from tinyc.plan.problem import Layer, Problem
from tinyc.plan.rows.cuts import (
    Candidate,
    LeastScratch,
    Measured,
    Measuring,
    Weighing,
    cheapest,
)
from tinyc.plan.turns import Eager, Slots, different_orders
from tinyc.plan.uses import Access, Uses, access_of, uses_of

_WIDTH = 4  # choices that are carried on
_STEP = 0.9  # from arena to arena
_TURNS = 200_000  # of all groups that are tried: some seconds

WalkChoice = tuple[tuple[int, int], ...]  # (rows, phase) of each layer of a group


def widened(problem: Problem, measured: tuple[Measured, ...]) -> tuple[Measured, ...]:
    """The groups, and others of several rows per call that seem useful in one arena or another."""
    if not any(layer.wider for layer in problem.layers):
        return measured
    search = _Search(problem)
    plain = tuple(map(search.weighing.candidate, measured))
    limit = max(option.need for c in plain for options in c.options for option in options)
    while cut := cheapest(plain, limit):
        search.widen(cut, limit)
        limit = int(limit * _STEP)
    return tuple(sorted((*measured, *search.useful), key=lambda one: one.stop))


class _Search:
    """What has been measured."""

    def __init__(self, problem: Problem) -> None:
        self.problem, self.uses = problem, uses_of(problem)
        self.weighing = Weighing(lambda form: form.cycles)
        self._wider = [_walks(problem, layer) for layer in problem.layers]
        self._candidates: dict[tuple[int, int, WalkChoice], tuple[tuple[Measured, Candidate], ...]] = {}
        self._turns = _TURNS
        self._useful: dict[tuple[int, int, WalkChoice], None] = {}  # of all that were measured
        self._scratch = LeastScratch()
        self._eager: dict[tuple[int, WalkChoice], Eager] = {}  # of the first layers of a group, with their walks

    @property
    def useful(self) -> tuple[Measured, ...]:
        """Of those what a beam has carried on."""
        return tuple(measured for key in self._useful for measured, _ in self._candidates.get(key, ()))

    def widen(self, cut: Partition | None, limit: int) -> None:
        """Measures choices of walks for every group of the cut."""
        for group in cut.groups if cut else ():
            if not group.is_whole:
                self._beam(group.start, group.stop, limit)

    def _beam(self, start: int, stop: int, limit: int) -> None:
        layers = self.problem.layers[start:stop]
        beam: list[WalkChoice] = [
            tuple((layer.walk.rows, layer.walk.phase) if layer.walk else (1, 0) for layer in layers)
        ]
        for _ in [layer for layer in layers if layer.wider]:
            wider = dict.fromkeys(choice for before in beam for choice in _one_more(layers, before))
            ranked = sorted((self._rank(start, stop, choice, limit), choice) for choice in wider)
            beam = [choice for _, choice in ranked[:_WIDTH]]
            self._useful |= {(start, stop, choice): None for choice in beam}

    def _rank(self, start: int, stop: int, choice: WalkChoice, limit: int) -> tuple[int, int]:
        """(0, time within the limit), or (1, bytes) of what does not fit."""
        candidates = [candidate for _, candidate in self._measured(start, stop, choice)]
        times = [chosen[0] for candidate in candidates if (chosen := candidate.choose(limit))]
        if times:
            return 0, min(times)
        return 1, min((candidate.need for candidate in candidates), default=limit)

    def _measured(self, start: int, stop: int, choice: WalkChoice) -> tuple[tuple[Measured, Candidate], ...]:
        key = (start, stop, choice)
        if key not in self._candidates and self._turns > 0:
            layers, access = list(self.problem.layers), list(self.uses.access)
            for i, walk in enumerate(choice, start):
                layers[i], access[i] = self._wider[i][walk]
            problem, uses = replace(self.problem, layers=tuple(layers)), replace(self.uses, access=access)
            measuring = Measuring(problem, Liveness(problem, uses, start, stop), self._scratch)
            eager = self._eager_of(start, choice, uses)
            cuts = [measuring.of(slots, start, stop) for slots in different_orders(eager, uses, start, stop)]
            self._candidates[key] = tuple((measured, self.weighing.candidate(measured)) for measured in cuts)
            self._turns -= sum(measured.slots.count for measured in cuts)
        return self._candidates.get(key, ())

    def _eager_of(self, start: int, choice: WalkChoice, uses: Uses) -> Slots:
        """The eager order of layers with these walks: from that of the most of them that are known so."""
        count = len(choice)
        while count and (start, choice[:count]) not in self._eager:
            count -= 1
        eager = self._eager[start, choice[:count]] if count else Eager.empty(start)
        while count < len(choice):
            count += 1
            eager = self._eager[start, choice[:count]] = eager.with_next(uses)
        return eager.slots


def _walks(problem: Problem, layer: Layer) -> dict[tuple[int, int], tuple[Layer, Access | None]]:
    """The layer with each of its walks, by (rows, phase)."""
    walks = [layer.walk, *(walk for walk, _ in layer.wider)] if layer.walk else []
    layers = [layer.with_walk(walk.rows, walk.phase) for walk in walks if walk]
    by_walk = {(own.walk.rows, own.walk.phase): (own, access_of(own, problem.tensors)) for own in layers if own.walk}
    return by_walk or {(1, 0): (layer, None)}


def _one_more(layers: Sequence[Layer], choice: WalkChoice) -> Iterator[WalkChoice]:
    """The choices with another walk for one layer that has its first."""
    for i, layer in enumerate(layers):
        if layer.walk is not None and choice[i] == (layer.walk.rows, layer.walk.phase):
            for walk, _ in layer.wider:
                yield (*choice[:i], (walk.rows, walk.phase), *choice[i + 1 :])
