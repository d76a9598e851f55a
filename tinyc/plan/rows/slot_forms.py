# SPDX-License-Identifier: Apache-2.0
"""The fastest forms whose scratch leaves every row a slot (`slots.py`) in an arena of given bytes.

A row that lives while much scratch is taken must lie below it, all its life. So live bytes do not say what fits. What
does, nearly: of the rows that may only have the lowest k slots, never more than k are alive together.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator, Sequence

import numpy as np

from tinyc.plan.answer import Group, Partition
from tinyc.plan.buffers import Key, Running, contiguous, in_place
from tinyc.plan.live import round_up
from tinyc.plan.liveness import Load, lifetimes, loads_of
from tinyc.plan.problem import WHOLE, Form, Layer, Problem
from tinyc.plan.rows.cuts import Candidate, cheapest, mixture
from tinyc.plan.turns import slots_of
from tinyc.plan.uses import Ints, uses_of

_PASSES = 2
_CANDIDATES = 16  # ways to run the group
_THOROUGH = 3  # of them, the best


def cuts_in_slots(
    problem: Problem, candidates: Sequence[Candidate], ram: int, fits_flash: Callable[[Partition], bool]
) -> list[Partition]:
    """Cuts whose rows should have slots in `ram` bytes, fastest first; of one group that the candidates have most ways
    for, between whole layers."""
    cut = cheapest(candidates, ram)
    main = max((g for g in cut.groups if not g.is_whole), key=lambda g: len(g.turns), default=None) if cut else None
    if cut is None or main is None:
        return []
    weigh = candidates[0].weigh
    ranked: list[tuple[int, int, Group, tuple[Form, ...]]] = []
    for candidate in candidates:
        one = candidate.measured
        chosen = candidate.choose(ram) if (one.start, one.stop) == (main.start, main.stop) else None
        if chosen and not one.is_whole:
            ranked.append((chosen[0], len(ranked), one.group, chosen[1]))
    partitions = []
    for _, _, group, forms in sorted(ranked)[:_CANDIDATES]:
        groups = tuple(group if other == main else other for other in cut.groups)
        other = Partition(groups, (*cut.forms[: group.start], *forms, *cut.forms[group.stop :]), 0)
        fast = fastest_in_slots(problem, other, ram, fits_flash)
        if fast is not None:
            partitions.append(fast)
    partitions.sort(key=lambda cut: sum(map(weigh, cut.forms)))
    better = [fastest_in_slots(problem, cut, ram, fits_flash, thorough=True) for cut in partitions[:_THOROUGH]]
    partitions[:_THOROUGH] = [cut for cut in better if cut is not None]
    return sorted(partitions, key=lambda cut: sum(map(weigh, cut.forms)))


def fastest_in_slots(
    problem: Problem, cut: Partition, ram: int, fits_flash: Callable[[Partition], bool], thorough: bool = False
) -> Partition | None:
    """The cut with other forms of the same walks, such that rows have slots in `ram` bytes; None if there are none, or
    rows differ in size. thorough: for some more work."""
    slots = _Slots(problem.for_forms(cut.forms), cut, ram, fits_flash)
    if not slots.begin():
        return None
    order = sorted(slots.loads, key=lambda i: slots.least[i].time - min(form.time for form in slots.ways(i)))
    order.reverse()
    forms = slots.faster(slots.least, order)
    for index in order if thorough else ():  # what a layer took may be worth more to the others
        without = [*forms[:index], slots.least[index], *forms[index + 1 :]]
        others = slots.faster(without, [*(i for i in order if i != index), index])
        forms = min(forms, others, key=_time)
    return Partition(cut.groups, tuple(forms), _time(forms))


def others_in_slots(
    problem: Problem, cut: Partition, ram: int, fits_flash: Callable[[Partition], bool], count: int
) -> list[Partition]:
    """Cuts found like `fastest_in_slots` that favour other layers, at random, fastest first: what `fit` allows is not
    always to be placed."""
    slots = _Slots(problem.for_forms(cut.forms), cut, ram, fits_flash)
    if not slots.begin():
        return []
    rng, order = random.Random(0), list(slots.loads)
    by_slots: dict[tuple[int, ...], list[Form]] = {}
    for _ in range(count):
        rng.shuffle(order)
        forms = slots.faster(slots.least, order)
        by_slots[tuple(id(form) for form in forms)] = forms
    return [Partition(cut.groups, tuple(forms), _time(forms)) for forms in sorted(by_slots.values(), key=_time)]


def _time(forms: Sequence[Form]) -> int:
    return sum(form.time for form in forms)


class _Slots:
    """What the turns of a cut leave for rows."""

    def __init__(self, problem: Problem, cut: Partition, ram: int, fits_flash: Callable[[Partition], bool]) -> None:
        self.problem, self.cut, self.fits_flash = problem, cut, fits_flash
        self.turns = tuple(turn for group in cut.groups for turn in group.turns)
        uses, slots = uses_of(problem), slots_of(self.turns)
        self.uses, self.numbers = uses, slots.of
        self.lives = lifetimes(problem, slots, 0, len(problem.layers), uses)
        self.loads: dict[int, Load] = {}
        for group in cut.groups:
            if not group.is_whole:
                loads = loads_of(problem, slots_of(group.turns), group.start, group.stop, uses)
                self.loads |= dict(zip(range(group.start, group.stop), loads, strict=True))
        together = contiguous(problem, cut.groups)
        self.pooled = [
            name
            for name in problem.tensors
            if name not in together and any(uses.is_inside(name, group.start, group.stop) for group in cut.groups)
        ]
        sizes = {problem.tensors[name].row_bytes for name in self.pooled}
        self.unit = sizes.pop() if len(sizes) == 1 else 0
        self.room = ram - self._others()
        self._rows: dict[tuple[tuple[str, ...], ...], tuple[Ints, Ints]] = {}
        self._ways: dict[int, list[Form]] = {}
        self.least = self._least()

    def begin(self) -> bool:
        """Whether the forms that need the fewest bytes fit."""
        few = Partition(self.cut.groups, tuple(self.least), 0)
        return self.unit > 0 and self.fits_flash(few) and self.fit(self.least)

    def _others(self) -> Ints:
        """Bytes in each turn that are neither rows in slots nor scratch: what is left of contiguous tensors, and the
        most that the rest of them take."""
        live = np.zeros(len(self.turns), np.int64)
        small = np.zeros(len(self.turns), np.int64)
        for name, tensor in self.problem.tensors.items():
            if name in self.pooled:
                continue
            target = live if tensor.rows > 1 else small
            for born, dies in zip(*self.lives[name], strict=True):
                target[born:dies] += round_up(tensor.row_bytes, self.problem.unit)
        for index, numbers in self.numbers.items():
            walk = self.problem.layers[index].walk
            if walk is not None and walk.accumulates and self.turns[numbers[0]][1] != WHOLE:
                small[numbers[0] : numbers[-1] + 1] += round_up(walk.accumulator_bytes, self.problem.unit)
        others: Ints = live + small.max(initial=0)
        return others

    def _least(self) -> list[Form]:
        """The forms that need the fewest bytes."""
        forms = list(self.cut.forms)
        for index, load in self.loads.items():
            own = self.problem.layers[index].row_forms
            forms[index] = min(own, key=lambda form, load=load: (load.need(form), form.time))  # type: ignore[misc]
        return forms

    def ways(self, index: int) -> list[Form]:
        """Forms of a layer, fastest first; also two of them, for different turns."""
        if index not in self._ways:
            layer, load = self.problem.layers[index], self.loads[index]
            forms = [*layer.row_forms, *_mixtures(layer, load)]
            self._ways[index] = sorted(forms, key=lambda form: (form.time, form.scratch_bytes))
        return self._ways[index]

    def faster(self, forms: Sequence[Form], order: Sequence[int]) -> list[Form]:
        """Each layer in turn with its fastest form beside those of the others."""
        left = list(forms)
        for _ in range(_PASSES):
            for index in order:
                for form in self.ways(index):
                    if form.time >= left[index].time:
                        break
                    other = [*left[:index], form, *left[index + 1 :]]
                    if self.fits_flash(Partition(self.cut.groups, tuple(other), 0)) and self.fit(other):
                        left = other
                        break
        return left

    def fit(self, forms: Sequence[Form]) -> bool:
        """Whether, nearly, every row has a slot."""
        room = self.room.copy()
        for index, numbers in self.numbers.items():
            form = forms[index]
            if form.scratch_bytes:
                sizes = np.full(len(numbers), round_up(form.scratch_bytes, self.problem.scratch_unit))
                if form.spare is not None:
                    sizes[list(form.spare_turns)] = round_up(form.spare.scratch_bytes, self.problem.scratch_unit)
                room[numbers] -= sizes
        if room.min(initial=0) < 0:
            return False
        slots = np.append(room // self.unit, 0)
        born, dies = self._rows_of(forms)
        own = np.minimum.reduceat(slots, np.stack([born, dies], axis=1).ravel())[::2]
        for most in np.unique(own):
            among = own <= most
            changes = np.bincount(born[among], minlength=len(slots)) - np.bincount(dies[among], minlength=len(slots))
            if changes.cumsum().max() > most:
                return False
        return True

    def _rows_of(self, forms: Sequence[Form]) -> tuple[Ints, Ints]:
        """[born, dies) of every row in a slot; those made in place of each other are one."""
        key = tuple(form.inplace for form in forms)
        if key not in self._rows:
            cut = Partition(self.cut.groups, tuple(forms), 0)
            hosts = dict(in_place(Running(self.problem, cut, self.uses, self.lives)))
            by_row: dict[Key, list[int]] = {}
            rows = [
                (born, name, row, dies)
                for name in self.pooled
                for row, (born, dies) in enumerate(zip(*(own.tolist() for own in self.lives[name]), strict=True))
                if born < dies
            ]
            for born, name, row, dies in sorted(rows):
                at: Key = ("tensor", name, row)
                while at in hosts:
                    at = hosts[at]
                known = by_row.setdefault(at, [born, dies])
                known[1] = max(known[1], dies)
            spans = np.array(list(by_row.values()), np.int64)
            self._rows[key] = spans[:, 0], spans[:, 1]
        return self._rows[key]


def _mixtures(layer: Layer, load: Load) -> Iterator[Form]:
    """Every form with each that takes less scratch, which runs in the turns around the fullest ones."""
    for fast in layer.row_forms:
        live = load.live(fast.inplace).tolist()
        spans = dict.fromkeys(load.turns_above(fast, level - 1 + fast.scratch_bytes) for level in sorted(set(live)))
        for spare in layer.row_forms:
            if spare.inplace == fast.inplace and spare.scratch_bytes < fast.scratch_bytes and fast.time < spare.time:
                for turns in spans:
                    if len(turns) < len(live) and (mixed := mixture(fast, spare, turns, len(live))) is not None:
                        yield mixed
