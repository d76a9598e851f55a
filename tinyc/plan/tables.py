# SPDX-License-Identifier: Apache-2.0
"""The cheapest cuts of groups and forms within a number of live bytes: one for each number of grains of flash.

best[j][f], the fewest cycles of layers 0 .. j-1 in f grains of flash, is the minimum over i of best[i] and what the
groups [i, j) offer: a multiple-choice knapsack along a shortest path, exact but for the grains. A group offers what the
sums of its layers' forms leave when those are left out that another sum beats in cycles and flash. Groups of the same
layers, in other orders of turns, are one offer.
"""

from __future__ import annotations

import itertools
from bisect import bisect_right
from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import field
from functools import cached_property

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view

from tinyc.base.dataclass import dataclass
from tinyc.plan.answer import Partition
from tinyc.plan.liveness import Load
from tinyc.plan.polygon import PRICES, Polygon
from tinyc.plan.problem import Form, Layer
from tinyc.plan.rows.cuts import Measured, mixes, mixture
from tinyc.plan.sharing import Ways, functions_of, shared_code
from tinyc.plan.uses import Ints
from tinyc.plan.worth import Floats

NEVER = 2**46  # cycles: nothing fits
_GRAIN = 64  # bytes of flash, at least
_GRAIN_STEP = 16  # bytes that grains are multiples of, so that tables which count other code once share their sums
_STATES = 2048  # of a table, at most
_PRICES_APART = 3  # of those at which it is looked at what code layers share
_NONE = -1  # no form
_NUMBER_BITS = 16  # of an offer among those of its span, of which there is at most one for each state
_Span = tuple[int, int]  # layers [start, stop)


@dataclass(frozen=True, slots=True, eq=False)
class _Fitting:
    """Which forms of a layer fit, by their numbers. above: those that fit in some turns, with the turns in which they
    do not; turns: how many there are."""

    forms: tuple[Form, ...]
    whole: tuple[int, ...]
    above: Mapping[int, tuple[int, ...]]
    turns: int
    mixed: dict[tuple[int, int], Form] = field(default_factory=dict)  # of those that cuts have

    def form(self, fast: int, spare: int) -> Form:
        """The form of a number, or a mixture of it and a spare one."""
        if spare == _NONE:
            return self.forms[fast]
        if (fast, spare) not in self.mixed:
            form = mixture(self.forms[fast], self.forms[spare], self.above[fast], self.turns)
            assert form is not None
            self.mixed[fast, spare] = form
        return self.mixed[fast, spare]


@dataclass(frozen=True, eq=False)
class _Forms:
    """Forms of a layer that no other ones beat: bytes of flash ascending, cycles descending. fast: their numbers;
    spare: those of what is there in some turns in their place, or _NONE."""

    flash: Ints
    cycles: Ints
    fitting: _Fitting
    fast: Ints
    spare: Ints

    def at(self, place: int) -> tuple[Form, ...]:
        return (self.fitting.form(int(self.fast[place]), int(self.spare[place])),)

    @property
    def forms(self) -> tuple[Form, ...]:
        """All of them."""
        return tuple(itertools.chain.from_iterable(map(self.at, range(len(self.flash)))))

    def cheapest(self, price: float) -> tuple[Form, ...]:
        """The one form that is the cheapest at a price of a byte."""
        return self.at(int((self.cycles + self.flash * price).argmin()))

    @cached_property
    def at_prices(self) -> Floats:
        """Cycles and flash of the cheapest, at each price of a byte."""
        least: Floats = (self.cycles[:, None] + self.flash[:, None] * PRICES).min(axis=0)
        return least


@dataclass(frozen=True, slots=True, eq=False)
class _Sums:
    """The same of several layers: which of the first ones, and which of the last, made each sum."""

    flash: Ints
    cycles: Ints
    first: _Sums | _Forms
    last: _Forms
    places: tuple[Ints, Ints]

    def at(self, place: int) -> tuple[Form, ...]:
        """The forms of the layers."""
        return (*self.first.at(int(self.places[0][place])), *self.last.at(int(self.places[1][place])))


@dataclass(frozen=True, slots=True, eq=False)
class _Offers:
    """What the groups of a span offer: grains ascending, beyond the least that its layers take in any group; of each
    the group and the place in its forms; and its cycles, which descend, with its number behind them, so that a minimum
    says which it is."""

    grains: Ints
    numbered: Ints
    groups: Ints
    places: Ints


_CYCLES, _GROUP, _PLACE, _BEFORE = range(4)


class _Prefix:
    """The cheapest cuts of the first layers, by state, up to the one from which on no cycles are saved.

    columns, [4, states]: cycles, the last group, the place in its forms, the state before it.
    """

    def __init__(self, columns: Ints) -> None:
        self.columns = columns

    @property
    def is_possible(self) -> bool:
        return bool(self.columns[_CYCLES, -1] < NEVER)

    def extended(self, states: int) -> Ints:
        """The columns, for at least so many states."""
        missing = states - self.columns.shape[1]
        if missing <= 0:
            return self.columns
        return np.concatenate((self.columns, np.repeat(self.columns[:, -1:], missing, axis=1)), axis=1)

    def offer(self, before: _Prefix, offers: _Offers, states: int) -> None:
        """Takes what is cheaper with a last group behind a shorter prefix. states: at most."""
        earlier = before.columns[_CYCLES]
        grains = offers.grains[: int(np.searchsorted(offers.grains, states))]
        reach = int(grains[-1])
        width = min(len(earlier) + reach, states)
        padded = np.concatenate((np.full(reach, NEVER), earlier, np.full(reach, earlier[-1]))) << _NUMBER_BITS
        sums = sliding_window_view(padded, width)[reach - grains]
        sums += offers.numbered[: len(grains), None]
        least = sums.min(axis=0)
        cycles = least >> _NUMBER_BITS
        columns = self.extended(width)
        better = np.flatnonzero(cycles < columns[_CYCLES, :width])
        offer = least[better] & (1 << _NUMBER_BITS) - 1
        earlier_states = np.minimum(better - grains[offer], len(earlier) - 1)
        columns[:, better] = cycles[better], offers.groups[offer], offers.places[offer], earlier_states
        self.columns = columns

    def trim(self) -> None:
        """Leaves out states that save no cycles. To be called when all groups are offered."""
        self.columns = self.columns[:, : int(self.columns[_CYCLES].argmin()) + 1]


@dataclass(frozen=True, slots=True, eq=False)
class CutTable:
    """The cheapest cuts within `live_bytes`, by state: grains of flash beyond the least that there is.

    cycles: they fall from state to state, or stay; NEVER where nothing fits.
    """

    live_bytes: int
    solver: CutTables
    cycles: Ints
    prefixes: Sequence[_Prefix]  # by how many layers they have

    @property
    def flash_bytes(self) -> Ints:
        """By state, to the grain."""
        return self.solver.least_bytes + np.arange(len(self.cycles)) * self.solver.grain

    def cut(self, state: int) -> Partition:
        """The cut of a state, whose cycles are not NEVER."""
        taken = self._taken(state)
        chosen = tuple(form for number, place in taken for form in self.solver.forms(number, place, self.live_bytes))
        groups = tuple(self.solver.measured[number].group for number, _ in taken)
        return Partition(groups, chosen, sum(form.cost.cycles for form in chosen))

    def _taken(self, state: int) -> list[tuple[int, int]]:
        """Each group of a state's cut, and the place in its forms, in order."""
        taken, stop = [], len(self.prefixes) - 1
        while stop:
            columns = self.prefixes[stop].columns
            _, number, place, state = columns[:, min(state, columns.shape[1] - 1)].tolist()
            taken.append((number, place))
            stop = self.solver.measured[number].start
        return taken[::-1]


@dataclass(frozen=True, slots=True, eq=False)
class _Ranges:
    """What fits of each layer of a group from so many live bytes on, ascending, and up to which."""

    since: list[int]
    fitting: list[tuple[Sequence[_Fitting] | None, int]]


class _CommonTables:
    """What tables of the same groups have in common, whatever they count once."""

    def __init__(self) -> None:
        self.of_layer: dict[tuple[object, ...], _Forms] = {}
        self.of_group: dict[tuple[object, ...], _Sums] = {}
        self._needs: dict[tuple[int, int], tuple[int, ...]] = {}  # by id of the forms and of the load
        self._mixing: dict[int, list[bool]] = {}  # which of the forms may be mixed; by their id
        self._codes: dict[int, frozenset[Hashable]] = {}
        self._fitting: dict[tuple[object, ...], _Fitting] = {}
        self._ranges: dict[int, _Ranges] = {}  # by id of the group

    def codes(self, forms: tuple[Form, ...]) -> frozenset[Hashable]:
        """Keys of all code that the forms may share with others."""
        if id(forms) not in self._codes:
            self._codes[id(forms)] = frozenset(code.key for form in forms for code in form.cost.codes)
        return self._codes[id(forms)]

    def mixing(self, forms: tuple[Form, ...]) -> list[bool]:
        """Which of the forms may be mixed with others."""
        if id(forms) not in self._mixing:
            self._mixing[id(forms)] = [mixes(form) for form in forms]
        return self._mixing[id(forms)]

    def fitting(self, own: Measured, live_bytes: int) -> tuple[Sequence[_Fitting] | None, int]:
        """What fits of each layer of a group, None where one has none that fits; and the number of live bytes from
        which on there may be others."""
        ranges = self._ranges.setdefault(id(own), _Ranges([], []))
        at = bisect_right(ranges.since, live_bytes)
        if not at or live_bytes >= ranges.fitting[at - 1][1]:
            ranges.since.insert(at, live_bytes)
            ranges.fitting.insert(at, self._fitting_of(own, live_bytes))
            at += 1
        return ranges.fitting[at - 1]

    def _fitting_of(self, own: Measured, live_bytes: int) -> tuple[Sequence[_Fitting] | None, int]:
        if own.need > live_bytes:
            return None, own.need
        layers, until = [], NEVER
        for layer, load in zip(own.layers, own.loads, strict=True):
            fitting, changes = self._of_layer(layer, load, live_bytes, whole=own.is_whole)
            if not fitting.whole:
                return None, changes
            layers.append(fitting)
            until = min(until, changes)
        return layers, until

    def _of_layer(self, layer: Layer, load: Load, live_bytes: int, *, whole: bool) -> tuple[_Fitting, int]:
        """The forms of a layer that fit beside the load, and those that do in some turns."""
        forms = layer.whole_forms if whole else layer.row_forms
        needs = self._needs_of(forms, load)
        fits = tuple([i for i, need in enumerate(needs) if need <= live_bytes])
        until = min((need for need in needs if need > live_bytes), default=NEVER)
        key: tuple[object, ...] = (id(forms), fits)
        above: dict[int, tuple[int, ...]] = {}
        if not whole and until < NEVER and fits and any(self.mixing(forms)):
            others = [i for i, need in enumerate(needs) if need > live_bytes]
            above = {i: load.turns_above(forms[i], live_bytes) for i in others}
            until = min(until, *(_next_level(load, forms[i], live_bytes) for i in others))
            key = (*key, *above.values(), len(load.turns))
        if key not in self._fitting:
            self._fitting[key] = _Fitting(forms, fits, above, len(load.turns))
        return self._fitting[key], until

    def _needs_of(self, forms: tuple[Form, ...], load: Load) -> tuple[int, ...]:
        """Live bytes with each of the forms."""
        key = (id(forms), id(load))
        if key not in self._needs:
            self._needs[key] = tuple([load.need(form) for form in forms])
        return self._needs[key]


class CutTables:
    """The tables of groups that may be chosen. flash_bytes: of cuts the most; None: any. shared: code that counts once
    for all layers, whether they have it or not; None: each form counts its part of what layers may share. common: of
    other tables of these groups."""

    def __init__(
        self,
        measured: Sequence[Measured],
        flash_bytes: int | None = None,
        shared: frozenset[Hashable] | None = None,
        common: _CommonTables | None = None,
    ) -> None:
        self.common = common = common or _CommonTables()
        self.measured = sorted(measured, key=lambda one: one.stop)
        self.shared = shared
        self._of_forms: dict[int, tuple[Ints, Ints]] = {}  # bytes and cycles, by id of the forms
        once: dict[Hashable, int] = {}
        sizes: dict[str, tuple[int, int]] = {}  # of a layer, the least and most bytes of its forms
        forms_of = {
            (layer.node, id(forms)): forms
            for one in self.measured
            for layer in one.layers
            for forms in (layer.whole_forms, layer.row_forms)
            if forms
        }
        for (node, _), forms in forms_of.items():
            if shared and shared & common.codes(forms):
                for code in (code for form in forms for code in form.cost.codes if code.key in shared):
                    once[code.key] = max(code.size, once.get(code.key, 0))
            own = self._figures(forms)[0]
            low, high = sizes.get(node, (NEVER, 0))
            sizes[node] = min(low, int(own.min())), max(high, int(own.max()))
        self._least = {node: low for node, (low, _) in sizes.items()}
        self.once_bytes = sum(once.values())
        self.least_bytes = sum(self._least.values()) + self.once_bytes
        most = sum(high for _, high in sizes.values()) + self.once_bytes
        span = max((most if flash_bytes is None else min(most, flash_bytes)) - self.least_bytes, 0)
        self.grain = max(_GRAIN, -(-span // (_STATES * _GRAIN_STEP)) * _GRAIN_STEP)
        self.states = span // self.grain + 1 + len(sizes)  # what is rounded up may come to one grain a group
        self._forms: dict[_Fitting, _Forms] = {}
        self._spans: dict[_Span, list[int]] = {}
        for number, one in enumerate(self.measured):
            self._spans.setdefault((one.start, one.stop), []).append(number)
        self._totals: dict[tuple[int, int], _Sums | _Forms] = {}  # by number of the group, and id of what fits of it
        self._offers: dict[tuple[object, ...], _Offers | None] = {}
        self._ways: dict[_Fitting, Ways] = {}
        self._costs: dict[int, Floats] = {}  # by id of what fits of the layers, which the common tables keep alive

    def _bytes(self, form: Form) -> int:
        """Of flash, beside what counts once."""
        if self.shared is None:
            return form.flash_bytes
        return form.cost.own_bytes + sum(code.alone_bytes for code in form.cost.codes if code.key not in self.shared)

    def counted(self, forms: Iterable[Form]) -> int:
        """Bytes of flash of the forms of a cut, as its table counts them: at least what they take."""
        return self.once_bytes + sum(map(self._bytes, forms))

    def needs(self) -> list[int]:
        """Numbers of live bytes at which another form fits, ascending."""
        return sorted({need for own in self.measured for need in _needs(own)})

    def within(self, live_bytes: int) -> CutTable | None:
        """The table of cuts within so many live bytes; None if there are none."""
        nothing = np.array([[NEVER], [-1], [-1], [-1]], np.int64)
        prefixes = [_Prefix(nothing.copy()) for _ in range(max(one.stop for one in self.measured) + 1)]
        prefixes[0].columns[_CYCLES] = 0
        for stop, spans in itertools.groupby(self._spans.items(), key=lambda item: item[0][1]):
            for (start, _), numbers in spans:
                offers = self._offered(numbers, live_bytes) if prefixes[start].is_possible else None
                if offers is not None and offers.grains[0] < self.states:
                    prefixes[stop].offer(prefixes[start], offers, self.states)
            prefixes[stop].trim()
        last = prefixes[-1]
        return CutTable(live_bytes, self, last.extended(self.states)[_CYCLES], prefixes) if last.is_possible else None

    def polygon(self, live_bytes: int) -> Polygon | None:
        """What no cut within so many live bytes is below; None if there are none."""
        costs = np.full((self.measured[-1].stop + 1, len(PRICES)), np.inf)
        costs[0] = 0
        for one in self.measured:
            layers, _ = self.common.fitting(one, live_bytes)
            if layers is not None:
                np.minimum(costs[one.stop], costs[one.start] + self._at_prices(layers), out=costs[one.stop])
        if costs[-1, 0] == np.inf:
            return None
        return Polygon.of(costs[-1] + PRICES * self.once_bytes, self.least_bytes)

    def shared_sets(self, live_bytes: int) -> Iterator[frozenset[Hashable]]:
        """Keys of code that layers share in good cuts within so many live bytes: of cuts that are the cheapest at a
        price of a byte, their forms exchanged for such code."""
        seen: set[tuple[int, ...]] = set()
        for price, taken in self._cheapest(live_bytes):
            layers = [fitting for number in taken for fitting in self._fitting(number, live_bytes)]
            forms = [form for fitting in layers for form in self._forms_of(fitting).cheapest(price)]
            if (identity := tuple(map(id, forms))) not in seen:
                seen.add(identity)
                functions = shared_code(forms, [self._ways_of(fitting) for fitting in layers], price)
                yield frozenset(self.keys[function] for function in functions)

    def _cheapest(self, live_bytes: int) -> Iterator[tuple[float, list[int]]]:
        """Some prices, and numbers of the groups of the cut that is the cheapest at each; none if there is none."""
        some = slice(None, None, _PRICES_APART)
        costs = np.full((self.measured[-1].stop + 1, len(PRICES[some])), np.inf)
        last = np.full(costs.shape, -1)
        costs[0] = 0
        for number, one in enumerate(self.measured):
            layers, _ = self.common.fitting(one, live_bytes)
            if layers is not None:
                own = costs[one.start] + self._at_prices(layers)[some]
                last[one.stop, own < costs[one.stop]] = number
                np.minimum(costs[one.stop], own, out=costs[one.stop])
        for place, price in enumerate(PRICES[some].tolist() if costs[-1, 0] < np.inf else ()):
            taken, stop = [], len(costs) - 1
            while stop:
                taken.append(int(last[stop, place]))
                stop = self.measured[taken[-1]].start
            yield price, taken[::-1]

    def _at_prices(self, layers: Sequence[_Fitting]) -> Floats:
        """What a group of layers costs at each price of a byte."""
        if id(layers) not in self._costs:
            self._costs[id(layers)] = np.sum([self._forms_of(fitting).at_prices for fitting in layers], axis=0)
        return self._costs[id(layers)]

    def forms(self, number: int, place: int, live_bytes: int) -> tuple[Form, ...]:
        """The forms of a group's layers in a place of the sums that fit."""
        sums = self._sums(number, live_bytes)
        assert sums is not None
        return sums.at(place)

    def _fitting(self, number: int, live_bytes: int) -> Sequence[_Fitting]:
        """What fits of each of a group's layers."""
        return self.common.fitting(self.measured[number], live_bytes)[0] or ()

    def _ways_of(self, fitting: _Fitting) -> Ways:
        """The forms that fit, those too that others beat: where a layer beside has their code they take less flash than
        it seems."""
        if fitting not in self._ways:
            whole = (fitting.forms[i] for i in fitting.whole)
            forms = {id(form): form for form in (*self._forms_of(fitting).forms, *whole)}
            self._ways[fitting] = Ways.of(tuple(forms.values()), self._functions)
        return self._ways[fitting]

    @cached_property
    def keys(self) -> tuple[Hashable, ...]:
        """Of functions that several layers may have, by number."""
        return tuple(self._functions)

    @cached_property
    def _functions(self) -> Mapping[Hashable, int]:
        layers: dict[str, dict[int, tuple[Form, ...]]] = {}
        for layer in (layer for one in self.measured for layer in one.layers):
            for forms in (layer.whole_forms, layer.row_forms):
                layers.setdefault(layer.node, {})[id(forms)] = forms
        return functions_of(ways.values() for ways in layers.values())

    def _offered(self, numbers: Sequence[int], live_bytes: int) -> _Offers | None:
        """What groups of the same layers offer together; None where none fits."""
        own = [(number, sums) for number in numbers if (sums := self._sums(number, live_bytes)) is not None]
        if not own:
            return None
        key = tuple((number, id(sums)) for number, sums in own)
        if key not in self._offers:
            least = sum(self._least[layer.node] for layer in self.measured[numbers[0]].layers)
            flash = np.concatenate([sums.flash for _, sums in own]) - least
            cycles = np.concatenate([sums.cycles for _, sums in own])
            groups = np.concatenate([np.full(len(sums.flash), number) for number, sums in own])
            places = np.concatenate([np.arange(len(sums.flash)) for _, sums in own])
            grains = (flash + self.grain // 2) // self.grain
            front = undominated(grains, cycles)
            numbered = (cycles[front] << _NUMBER_BITS) + np.arange(len(front))
            self._offers[key] = _Offers(grains[front], numbered, groups[front], places[front])
        return self._offers[key]

    def _sums(self, number: int, live_bytes: int) -> _Sums | _Forms | None:
        """Sums of forms of a group's layers; None where one has none that fits."""
        layers, _ = self.common.fitting(self.measured[number], live_bytes)
        if layers is None:
            return None
        key = (number, id(layers))
        if key not in self._totals:
            self._totals[key] = self._total(layers)
        return self._totals[key]

    def _total(self, layers: Sequence[_Fitting]) -> _Sums | _Forms:
        total: _Sums | _Forms = self._forms_of(layers[0])
        for fitting in layers[1:]:
            forms = self._forms_of(fitting)
            key = (self.grain, total, forms)  # groups that begin with the same layers share the sums of these
            if key not in self.common.of_group:
                self.common.of_group[key] = _sum(total, forms, self.grain)
            total = self.common.of_group[key]
        return total

    def _forms_of(self, fitting: _Fitting) -> _Forms:
        """The forms of a layer that fit, and mixtures of one that does with one that does in some turns."""
        if fitting not in self._forms:
            counted = self.shared and self.shared & self.common.codes(fitting.forms)
            key = (fitting, counted)
            if key not in self.common.of_layer:
                self.common.of_layer[key] = self._best_forms(fitting)
            self._forms[fitting] = self.common.of_layer[key]
        return self._forms[fitting]

    def _best_forms(self, fitting: _Fitting) -> _Forms:
        flash, cycles = self._figures(fitting.forms)
        fast = np.array(fitting.whole, np.int64)
        of_flash, of_cycles, spare = flash[fast], cycles[fast], np.full(len(fast), _NONE)
        if fitting.above:
            mixed = _mixtures(fitting, self.common.mixing(fitting.forms))
            part = np.array([len(fitting.above[number]) for number in mixed[0].tolist()], np.int64)
            of_both = (cycles[mixed[0]] * (fitting.turns - part) + cycles[mixed[1]] * part) // fitting.turns
            of_flash = np.concatenate((of_flash, flash[mixed[0]] + flash[mixed[1]]))
            of_cycles = np.concatenate((of_cycles, of_both))
            fast, spare = np.concatenate((fast, mixed[0])), np.concatenate((spare, mixed[1]))
        front = undominated(of_flash, of_cycles)
        return _Forms(of_flash[front], of_cycles[front], fitting, fast[front], spare[front])

    def _figures(self, forms: tuple[Form, ...]) -> tuple[Ints, Ints]:
        """Bytes of flash, beside what counts once, and cycles of a layer's forms."""
        if id(forms) not in self._of_forms:
            flash = np.array([self._bytes(form) for form in forms], np.int64)
            self._of_forms[id(forms)] = flash, np.array([form.cycles for form in forms], np.int64)
        return self._of_forms[id(forms)]


def _next_level(load: Load, form: Form, live_bytes: int) -> int:
    """The number of live bytes above these from which on the form fits in more turns."""
    levels = load.live(form.inplace) + form.scratch_bytes
    return int(levels[levels > live_bytes].min())


def _mixtures(fitting: _Fitting, mixing: Sequence[bool]) -> tuple[Ints, Ints]:
    """Numbers of forms that do not fit in some turns, and of each that may be there in their place. mixing: which may
    be mixed."""
    forms = fitting.forms
    spares = [i for i in fitting.whole if mixing[i]]
    pairs = [
        (fast, spare)
        for fast in fitting.above
        if mixing[fast]
        for spare in spares
        if forms[fast].cycles < forms[spare].cycles and forms[fast].inplace == forms[spare].inplace
    ]
    numbers = np.array(pairs, np.int64).reshape(-1, 2)
    return numbers[:, 0], numbers[:, 1]


def undominated(flash: Ints, cycles: Ints) -> Ints:
    """Where those stand that no other one beats in both, by flash."""
    order = np.argsort(cycles, kind="stable")  # by one key, in a third of the time that two take
    by_cycles = flash[order]
    less = np.ones(len(order), np.bool_)
    less[1:] = by_cycles[1:] < np.minimum.accumulate(by_cycles)[:-1]
    front = order[less]
    last = np.ones(len(front), np.bool_)  # of as many cycles, which takes least flash
    last[:-1] = cycles[front[:-1]] < cycles[front[1:]]
    chosen: Ints = front[last][::-1]
    return chosen


def _sum(a: _Sums | _Forms, b: _Forms, grain: int) -> _Sums:
    """Every form of one with every form of the other; of those in the same grain of flash the one of fewest cycles."""
    flash = (a.flash[:, None] + b.flash).ravel()
    cycles = (a.cycles[:, None] + b.cycles).ravel()
    front = undominated(flash // grain, cycles)
    return _Sums(flash[front], cycles[front], a, b, divmod(front, len(b.flash)))


def _needs(own: Measured) -> Iterator[int]:
    for layer, load in zip(own.layers, own.loads, strict=True):
        for form in layer.whole_forms if own.is_whole else layer.row_forms:
            yield max(load.need(form), own.need)
