# SPDX-License-Identifier: Apache-2.0
"""Which forms of the layers of groups fit within a number of live bytes.

Most of that is alike from group to group, and from one number of live bytes to the next: what is alike is one object,
so that what follows from it is made once.
"""

from __future__ import annotations

from bisect import bisect_right
from collections import Counter
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import field
from functools import cached_property

import numpy as np

from tinyc.base.dataclass import dataclass
from tinyc.plan.liveness import Load
from tinyc.plan.problem import Form
from tinyc.plan.rows.cuts import Measured, mixes, mixture
from tinyc.plan.sharing import Flags
from tinyc.plan.uses import Ints

ANY_BYTES = 2**46  # more than there are
NO_FORM = -1


@dataclass(frozen=True, eq=False)
class LayerForms:
    """All forms of a layer. sizes: of the code that they may share with others, by key, bytes, ascending."""

    node: str
    forms: tuple[Form, ...]

    @cached_property
    def sizes(self) -> Mapping[Hashable, Sequence[int]]:
        sizes: dict[Hashable, set[int]] = {}
        for code in (code for form in self.forms for code in form.cost.codes):
            sizes.setdefault(code.key, set()).add(code.size)
        return {key: sorted(own) for key, own in sizes.items()}

    @cached_property
    def own_bytes(self) -> Ints:
        """Of flash, beside that code, by form."""
        return np.array([form.cost.own_bytes for form in self.forms], np.int64)

    @cached_property
    def cycles(self) -> Ints:
        return np.array([form.cycles for form in self.forms], np.int64)

    @cached_property
    def mixing(self) -> Flags:
        """Which of the forms may be mixed with others."""
        return np.array([mixes(form) for form in self.forms])

    @cached_property
    def inplace(self) -> Ints:
        """Numbers of what rows are made in place of, by form."""
        numbers = {names: number for number, names in enumerate(dict.fromkeys(form.inplace for form in self.forms))}
        return np.array([numbers[form.inplace] for form in self.forms])


@dataclass(frozen=True, eq=False)
class Fitting:
    """Which forms of a layer fit, by their numbers. above: those that fit in some turns, with the turns in which they
    do not; turns: how many there are. number: its own, among all."""

    number: int
    layer: LayerForms
    whole: tuple[int, ...]
    above: Mapping[int, tuple[int, ...]]
    turns: int
    _mixed: dict[tuple[int, int], Form] = field(default_factory=dict)  # of those that cuts have

    def form(self, fast: int, spare: int) -> Form:
        """The form of a number, or a mixture of it and a spare one."""
        forms = self.layer.forms
        if spare == NO_FORM:
            return forms[fast]
        if (fast, spare) not in self._mixed:
            form = mixture(forms[fast], forms[spare], self.above[fast], self.turns)
            assert form is not None
            self._mixed[fast, spare] = form
        return self._mixed[fast, spare]

    @cached_property
    def mixtures(self) -> tuple[Ints, Ints, Ints]:
        """Numbers of forms that do not fit in some turns, of each that may be there in their place, and in how many
        turns."""
        layer = self.layer
        fast = np.array([number for number in self.above if layer.mixing[number]], np.int64)
        spares = np.array([number for number in self.whole if layer.mixing[number]], np.int64)
        faster = layer.cycles[fast][:, None] < layer.cycles[spares]
        first, second = np.nonzero(faster & (layer.inplace[fast][:, None] == layer.inplace[spares]))
        counts = np.array([len(self.above[number]) for number in fast.tolist()], np.int64)
        return fast[first], spares[second], counts[first]


@dataclass(frozen=True, slots=True, eq=False)
class FittingGroups:
    """The groups that fit within a number of live bytes. numbers: those of most layers first. columns: of the first
    layer of each of them, of the second of each that has one, and so on, the number of its `Fitting`. stops: by where
    groups end, places among the numbers and where these begin. fittings: the numbers of all, each once."""

    numbers: Ints
    columns: Sequence[Ints]
    stops: Sequence[tuple[int, Ints, Ints]]
    fittings: Ints


class Fittings:
    """What fits of groups. measured: those, by their ends."""

    def __init__(self, measured: Sequence[Measured]) -> None:
        self.measured = sorted(measured, key=lambda one: one.stop)
        self._layers: dict[tuple[str, int], LayerForms] = {}  # by id of the forms
        for own in self.measured:
            for layer in own.layers:
                for forms in (layer.whole_forms, layer.row_forms):
                    if (layer.node, id(forms)) not in self._layers:
                        self._layers[layer.node, id(forms)] = LayerForms(layer.node, forms)
        self._rooms: list[list[_Room]] = [[] for _ in self.measured]
        self._equal_rooms: dict[tuple[object, ...], _Room] = {}
        self._ranges = [_Ranges([], []) for _ in self.measured]
        self._equal: dict[tuple[object, ...], Fitting] = {}  # in the order of their numbers
        self._within: dict[int, FittingGroups] = {}

    @property
    def layers(self) -> Sequence[LayerForms]:
        """The forms of each layer, whole and by rows, where it has some."""
        return [layer for layer in self._layers.values() if layer.forms]

    @cached_property
    def users(self) -> Mapping[Hashable, int]:
        """How many layers may have code, whole or by rows, by its key."""
        return Counter(key for _, key in {(layer.node, key) for layer in self.layers for key in layer.sizes})

    @property
    def every(self) -> Sequence[Fitting]:
        """What fits of layers, by number."""
        return list(self._equal.values())

    def needs(self) -> list[int]:
        """Numbers of live bytes at which another form fits, ascending."""
        needs: set[int] = set()
        for number, own in enumerate(self.measured):
            for room in self._rooms_of(number):
                needs.update([max(need, own.need) for need in room.needs])
        return sorted(needs)

    def of(self, number: int, live_bytes: int) -> Sequence[Fitting] | None:
        """What fits of each layer of a group; None where one has none that fits. The same object while it is alike."""
        ranges = self._ranges[number]
        at = bisect_right(ranges.since, live_bytes)
        if not at or live_bytes >= ranges.fitting[at - 1][1]:
            ranges.since.insert(at, live_bytes)
            ranges.fitting.insert(at, self._group(number, live_bytes))
            at += 1
        return ranges.fitting[at - 1][0]

    def within(self, live_bytes: int) -> FittingGroups:
        """The groups of which forms of each layer fit."""
        if live_bytes not in self._within:
            fits = [(number, own) for number in range(len(self.measured)) if (own := self.of(number, live_bytes))]
            fits.sort(key=lambda one: -len(one[1]))
            columns: list[Ints] = []
            while longer := [own[len(columns)].number for _, own in fits if len(own) > len(columns)]:
                columns.append(np.array(longer, np.int32))
            by_stop: dict[int, list[int]] = {}
            for place in sorted(range(len(fits)), key=lambda place: fits[place][0]):
                by_stop.setdefault(self.measured[fits[place][0]].stop, []).append(place)
            numbers = np.array([number for number, _ in fits], np.int64)
            starts = np.array([self.measured[number].start for number, _ in fits], np.int64)
            stops = [(stop, np.array(places), starts[places]) for stop, places in by_stop.items()]
            # `np.unique` would give the same, and imports masked arrays to do so.
            fittings = np.flatnonzero(np.bincount(np.concatenate(columns))) if columns else np.zeros(0, np.int64)
            self._within[live_bytes] = FittingGroups(numbers, columns, stops, fittings)
        return self._within[live_bytes]

    def _group(self, number: int, live_bytes: int) -> tuple[Sequence[Fitting] | None, int]:
        """What fits of each layer of a group, and from how many live bytes on there may be others."""
        own = self.measured[number]
        if own.need > live_bytes:
            return None, own.need
        layers, until = [], ANY_BYTES
        for room in self._rooms_of(number):
            fitting, changes = room.within(live_bytes)
            if not fitting.whole:
                return None, changes
            layers.append(fitting)
            until = min(until, changes)
        return layers, until

    def _rooms_of(self, number: int) -> Sequence[_Room]:
        """Of each layer of a group; equal ones are one object."""
        if not self._rooms[number]:
            own = self.measured[number]
            for layer, load in zip(own.layers, own.loads, strict=True):
                forms = layer.whole_forms if own.is_whole else layer.row_forms
                key = (layer.node, id(forms), load if own.is_whole else load.content)
                if key not in self._equal_rooms:
                    of_layer = self._layers[layer.node, id(forms)]
                    self._equal_rooms[key] = _Room(of_layer, load, self._equal, mixes=not own.is_whole)
                self._rooms[number].append(self._equal_rooms[key])
        return self._rooms[number]


@dataclass(frozen=True, slots=True, eq=False)
class _Ranges:
    """What fits of each layer of a group from so many live bytes on, ascending, and up to which."""

    since: list[int]
    fitting: list[tuple[Sequence[Fitting] | None, int]]


class _Room:
    """What a load leaves for the forms of a layer. needs: live bytes with each of them. mixes: forms may be mixed."""

    def __init__(self, layer: LayerForms, load: Load, equal: dict[tuple[object, ...], Fitting], *, mixes: bool) -> None:
        self.needs = [load.need(form) for form in layer.forms]
        self._layer, self._load, self._equal = layer, load, equal
        self._mixes = mixes and bool(layer.mixing.any())
        self._levels: dict[tuple[str, ...], list[int]] = {}  # live bytes in some turn, ascending, by what is made where
        self._turns: dict[tuple[tuple[str, ...], int], tuple[int, ...]] = {}  # above the first so many levels

    def within(self, live_bytes: int) -> tuple[Fitting, int]:
        """The forms that fit, and those that do in some turns; from how many live bytes on there may be others."""
        fits = tuple([i for i, need in enumerate(self.needs) if need <= live_bytes])
        until = min([need for need in self.needs if need > live_bytes], default=ANY_BYTES)
        turns, above = len(self._load.turns), dict[int, tuple[int, ...]]()
        key: tuple[object, ...] = (self._layer, fits)
        if self._mixes and until < ANY_BYTES and fits:
            for number, need in enumerate(self.needs):
                if need > live_bytes:
                    above[number], level = self._above(self._layer.forms[number], live_bytes)
                    until = min(until, level)
            key = (*key, *above.values(), turns)
        if key not in self._equal:
            self._equal[key] = Fitting(len(self._equal), self._layer, fits, above, turns)
        return self._equal[key], until

    def _above(self, form: Form, live_bytes: int) -> tuple[tuple[int, ...], int]:
        """The turns in which a form does not fit, and from how many live bytes on it does in one more."""
        names, left = form.inplace, live_bytes - form.scratch_bytes
        if names not in self._levels:
            self._levels[names] = np.unique(self._load.live(names)).tolist()
        levels = self._levels[names]
        at = bisect_right(levels, left)
        if (names, at) not in self._turns:
            self._turns[names, at] = self._load.turns_above(form, live_bytes)
        return self._turns[names, at], levels[at] + form.scratch_bytes
