# SPDX-License-Identifier: Apache-2.0
"""Which layers form groups, and the form of every layer: the cheapest within a number of bytes.

best[j], the least cost of layers 0 .. j-1 within the bytes, is the minimum over i of best[i] plus the cost of
the group [i, j): exact, because a group's bytes depend only on its ends. A group costs what the cheapest forms
cost whose scratch fits beside the live bytes in every turn of their layer; the order of its turns does not depend on
them. The least bytes for a given cost come by bisection.
"""

from __future__ import annotations

import functools
from bisect import bisect_left
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import accumulate

import numpy as np

from tinyc.base.dataclass import dataclass
from tinyc.kernel.kernel import Cost
from tinyc.plan.answer import Group, Partition
from tinyc.plan.liveness import TURN_BITS, Liveness, Load, Names
from tinyc.plan.problem import Form, Layer, Problem
from tinyc.plan.turns import ORDERS, Orders, Slots, slots_of, whole_turn
from tinyc.plan.uses import Ints, Uses, uses_of

WORK = 400_000  # turns of all groups that are tried: some seconds
_NEVER = 2**60  # bytes
_ROUNDED = 8  # more than rounding takes from the weight of a form that is two

Weigh = Callable[[Form], int]  # what is minimized


@dataclass(frozen=True, eq=False)
class Measured:
    """Layers [start, stop) as a group that may be chosen: when its turns run, its layers (with the walks that the group
    has), and the load of each of them. need: bytes without which no forms fit."""

    start: int
    stop: int
    slots: Slots
    layers: tuple[Layer, ...]
    loads: tuple[Load, ...]
    need: int

    @property
    def is_whole(self) -> bool:
        return bool(self.slots.whole)

    @functools.cached_property
    def group(self) -> Group:
        """Of most that are measured nobody asks for it."""
        return Group(self.start, self.stop, self.slots.turns)


@dataclass(frozen=True, slots=True)
class Option:
    """A form of a layer in a group, and the bytes alive with it."""

    need: int
    weight: int
    form: Form


class Ranking:
    """Forms of a layer that may be the best somewhere, least weight first: (weight, scratch bytes, form). least: none
    weighs less."""

    def __init__(self, forms: tuple[tuple[int, int, Form], ...]) -> None:
        self.forms = forms
        self.least = forms[0][0] - _ROUNDED if forms else 0
        self._names = tuple(dict.fromkeys(form.inplace for _, _, form in forms))
        self._options: dict[tuple[int, ...], tuple[Option, ...]] = {}  # by the live bytes in place of each of the names

    def options(self, load: Load) -> tuple[Option, ...]:
        """Those that the load leaves, without forms that need more bytes than a cheaper one. Many loads are alike."""
        fullest = load.fullest
        live = tuple([fullest.get(names, fullest[()]) for names in self._names])
        options = self._options.get(live)
        if options is None:
            options = self._options[live] = _options(self.forms, dict(zip(self._names, live, strict=True)))
        return options


@dataclass(frozen=True)
class Candidate:
    """A group that may be chosen, and the forms of its layers, least weight first. weight: no forms weigh less."""

    measured: Measured
    rankings: tuple[Ranking, ...]
    weigh: Weigh
    weight: int

    @property
    def need(self) -> int:
        """Bytes without which no forms fit."""
        return self.measured.need

    @functools.cached_property
    def options(self) -> tuple[tuple[Option, ...], ...]:
        """By layer, least weight first; of most groups that are weighed nobody asks for them."""
        return tuple(ranking.options(load) for ranking, load in zip(self.rankings, self.measured.loads, strict=True))

    def choose(self, limit: int) -> tuple[int, tuple[Form, ...]] | None:
        """(weight, forms) of the cheapest forms within the limit of bytes; None if there are none."""
        if limit < self.need:
            return None
        forms, weight = [], 0
        for options, load in zip(self.options, self.measured.loads, strict=True):
            rank = next(rank for rank, option in enumerate(options) if option.need <= limit)
            best = options[rank]
            if rank and not self.measured.is_whole:
                mixed = self._mixtures(options, rank, load, limit)
                best = min((best, *mixed), key=lambda option: option.weight)
            forms.append(best.form)
            weight += best.weight
        return weight, tuple(forms)

    def _mixtures(self, options: Sequence[Option], rank: int, load: Load, limit: int) -> Iterator[Option]:
        """Those of the options that do not fit, options[:rank], but where they do not with one that does."""
        for option in options[:rank]:
            spare = next((other.form for other in options[rank:] if other.form.inplace == option.form.inplace), None)
            spare_turns = load.turns_above(option.form, limit)
            mixed = mixture(option.form, spare, spare_turns, len(load.turns)) if spare else None
            if mixed is not None:
                yield Option(limit, self.weigh(mixed), mixed)


def measure(problem: Problem) -> tuple[Measured, ...]:
    """Every group that may be chosen, by its last layer; of large models those between narrow places."""
    uses = uses_of(problem)
    firsts = _firsts(problem)
    measuring, orders = Measuring(problem, Liveness(problem, uses, 0, len(problem.layers))), Orders(uses)
    places = sorted(_places(problem, uses, firsts))
    measured = []
    for stop in range(1, len(problem.layers) + 1):
        measured.append(measure_group(problem, Group(stop - 1, stop, whole_turn(stop - 1)), uses))
        ends = bisect_left(places, stop)
        chosen = places[bisect_left(places, firsts[stop]) : ends] if stop in places[ends : ends + 1] else []
        starts = {stop - 1, *chosen} if firsts[stop] < stop else ()
        for start in sorted(starts, reverse=True):
            measured += [measuring.of(slots, start, stop) for slots in orders.of(start, stop)]
    return tuple(measured)


def measure_group(problem: Problem, group: Group, uses: Uses) -> Measured:
    """The group with the walks that its layers have in the problem."""
    slots = slots_of(group.turns)
    liveness = Liveness(problem, uses, group.start, group.stop, slots.whole)
    return Measuring(problem, liveness).of(slots, group.start, group.stop)


def measure_rows(problem: Problem, start: int, stop: int, uses: Uses) -> list[Measured]:
    """The groups of layers [start, stop) by rows, one for each order of their turns."""
    measuring = Measuring(problem, Liveness(problem, uses, start, stop))
    return [measuring.of(slots, start, stop) for slots in Orders(uses).of(start, stop)]


def without_worse(measured: Sequence[Measured]) -> tuple[Measured, ...]:
    """The groups, without those whose layers have nowhere more room than by another order of the same turns."""
    alike: dict[tuple[object, ...], list[int]] = {}
    for number, one in enumerate(measured):
        forms = (id(layer.whole_forms if one.is_whole else layer.row_forms) for layer in one.layers)
        names = tuple((len(load.turns), *load.inplace) for load in one.loads)
        alike.setdefault((one.start, one.stop, *forms, names), []).append(number)
    worse: set[int] = set()
    for numbers in alike.values():
        if len(numbers) > 1:
            room = np.array([np.concatenate(list(_levels(measured[number]))) for number in numbers])
            for place, number in enumerate(numbers):
                as_good = (room <= room[place]).all(axis=1)
                better = as_good & (room < room[place]).any(axis=1)
                if better.any() or as_good[:place].any():
                    worse.add(number)
    return tuple(one for number, one in enumerate(measured) if number not in worse)


def _levels(one: Measured) -> Iterator[Ints]:
    """All that says which forms fit beside a group's loads, and in how many turns: less is better."""
    for load in one.loads:
        for turns in (load.turns, *load.inplace.values()):
            yield turns if len(turns) > TURN_BITS else np.sort(turns)


class Measuring:
    """Measures groups of layers with the walks that these have in the problem. scratch: of forms the least, by what
    they are made in place of; found once for all groups."""

    def __init__(self, problem: Problem, liveness: Liveness, scratch: LeastScratch | None = None) -> None:
        self._problem, self._liveness = problem, liveness
        self._scratch = LeastScratch() if scratch is None else scratch

    def of(self, slots: Slots, start: int, stop: int) -> Measured:
        """Layers [start, stop) as a group whose turns run so."""
        layers = self._problem.layers[start:stop]
        loads = self._liveness.loads(slots, start, stop)
        forms = [layer.whole_forms if slots.whole else layer.row_forms for layer in layers]
        need = max(self._scratch.need(own, load) for own, load in zip(forms, loads, strict=True))
        return Measured(start, stop, slots, layers, loads, need)


class LeastScratch:
    """The least scratch of forms, which many groups share, by what they are made in place of."""

    def __init__(self) -> None:
        self._least: dict[int, tuple[tuple[Form, ...], Mapping[Names, int]]] = {}  # by id of the forms, kept alive

    def need(self, forms: tuple[Form, ...], load: Load) -> int:
        """Bytes without which none of the forms fits beside the load."""
        if id(forms) not in self._least:
            least: dict[Names, int] = {}
            for form in forms:
                least[form.inplace] = min(least.get(form.inplace, _NEVER), form.scratch_bytes)
            self._least[id(forms)] = forms, least
        most = load.fullest[()]
        least_of = self._least[id(forms)][1]
        return min((load.fullest.get(names, most) + scratch for names, scratch in least_of.items()), default=_NEVER)


def _places(problem: Problem, uses: Uses, firsts: Sequence[int]) -> frozenset[int]:
    """Where groups may begin and end: everywhere, or where the fewest bytes cross, as far as the work allows."""
    count = len(problem.layers)
    changes = [0] * (count + 2)  # of the bytes that cross from one place to the next
    for name, tensor in problem.tensors.items():
        if 0 <= uses.maker[name] < uses.last[name]:
            changes[uses.maker[name] + 1] += tensor.size
            changes[min(uses.last[name], count) + 1] -= tensor.size
    crossing = list(accumulate(changes))
    narrow = sorted(range(count + 1), key=lambda place: (crossing[place], place))
    while narrow and _work(problem, narrow, firsts) > WORK:
        narrow = narrow[: len(narrow) * 3 // 4]
    return frozenset(narrow)


def _work(problem: Problem, places: Iterable[int], firsts: Sequence[int]) -> int:
    """Turns of all groups between the places, and of the layers before them alone, in all orders.

    By sums of what lies before: a group has as many turns as there are before its end and not before its start.
    """
    walks = [layer.walk for layer in problem.layers]
    before = list(accumulate((walk.turns if walk else 0 for walk in walks), initial=0))
    work = first = starts = passed = 0  # of the starts that may belong to a stop: how many, and all turns before them
    place_set = set(places)
    for stop in range(1, len(walks) + 1):
        if firsts[stop] != first:
            first, starts, passed = firsts[stop], 0, 0
        if stop - 1 in place_set and first < stop:
            starts, passed = starts + 1, passed + before[stop - 1]
        if stop in place_set and first < stop:
            work += starts * before[stop] - passed
            work += 0 if stop - 1 in place_set else before[stop] - before[stop - 1]
    return ORDERS * work


def _firsts(problem: Problem) -> list[int]:
    """Of each number of layers, where the layers with walks begin that end with the last of them; that number itself
    where the last has none."""
    firsts = [0]
    for index, layer in enumerate(problem.layers):
        firsts.append(firsts[index] if layer.walk else index + 1)
    return firsts


def mixes(form: Form) -> bool:
    """Whether it may run in some turns where another one that mixes runs in the others."""
    row = form.row
    return row is not None and not (row.special is None or row.call.params or row.direct or row.accumulator_bytes)


def mixture(fast: Form, spare: Form, spare_turns: tuple[int, ...], turns: int) -> Form | None:
    """The fast form, but in some of the turns the other; None if they cannot share a step's function."""
    if fast.inplace != spare.inplace or not (mixes(fast) and mixes(spare)):
        return None
    part = len(spare_turns)

    def share(of_fast: int, of_spare: int) -> int:
        return (of_fast * (turns - part) + of_spare * part) // turns

    cost = Cost(
        share(fast.cost.instructions, spare.cost.instructions),
        fast.flash_bytes + spare.flash_bytes,
        fast.scratch_bytes,
        share(fast.cost.cycles, spare.cost.cycles),
        code=fast.cost.code,
        others=(*fast.cost.others, *spare.cost.codes),
        code_part=fast.flash_bytes + spare.flash_bytes - fast.cost.own_bytes - spare.cost.own_bytes,
    )
    return replace(fast, cost=cost, spare=spare.row, spare_turns=spare_turns)


class Weighing:
    """Candidates of measured groups by one weight; how it ranks the forms of layers, which many groups share, is
    remembered."""

    def __init__(self, weigh: Weigh) -> None:
        self.weigh = weigh
        self._rankings: dict[int, tuple[tuple[Form, ...], Ranking]] = {}  # by id of the forms, which it keeps alive

    def candidate(self, measured: Measured) -> Candidate:
        """The group with its options in order of weight."""
        memo, whole, rankings, weight = self._rankings, measured.is_whole, [], 0
        for layer in measured.layers:
            forms = layer.whole_forms if whole else layer.row_forms
            if id(forms) not in memo:
                memo[id(forms)] = forms, _ranked(forms, self.weigh)
            ranking = memo[id(forms)][1]
            rankings.append(ranking)
            weight += ranking.least
        return Candidate(measured, tuple(rankings), self.weigh, weight)


def _ranked(forms: Sequence[Form], weigh: Weigh) -> Ranking:
    """Without those that take no less scratch than a cheaper one in place of the same tensors."""
    least: dict[Names, int] = {}
    undominated = []
    for weight, scratch, rank in sorted((weigh(form), form.scratch_bytes, i) for i, form in enumerate(forms)):
        if scratch < least.get(forms[rank].inplace, _NEVER):
            least[forms[rank].inplace] = scratch
            undominated.append((weight, rank, scratch))
    return Ranking(tuple((weight, scratch, forms[rank]) for weight, rank, scratch in sorted(undominated)))


def _options(forms: Sequence[tuple[int, int, Form]], live: Mapping[Names, int]) -> tuple[Option, ...]:
    """Without forms that need more bytes than a cheaper one. live: bytes in place of each of the tensors."""
    undominated: list[Option] = []
    least = _NEVER
    for weight, scratch, form in forms:
        need = live[form.inplace] + scratch
        if need >= least:
            continue
        if undominated and weight == undominated[-1].weight:
            undominated.pop()
        undominated.append(Option(need, weight, form))
        least = need
    return tuple(undominated)


def cheapest(candidates: Sequence[Candidate], limit: int) -> Partition | None:
    """The cut of least weight within `limit` bytes; None if none fits."""
    count = max(candidate.measured.stop for candidate in candidates)
    best: list[int | None] = [0] + [None] * count
    last: list[tuple[Candidate, tuple[Form, ...]] | None] = [None] * (count + 1)
    for candidate in candidates:
        start, stop = candidate.measured.start, candidate.measured.stop
        before, incumbent = best[start], best[stop]
        if before is None or (incumbent is not None and incumbent <= before + candidate.weight):
            continue
        chosen = candidate.choose(limit)
        total = before + chosen[0] if chosen else 0
        if chosen and (incumbent is None or total < incumbent):
            best[stop] = total
            last[stop] = (candidate, chosen[1])
    weight = best[count]
    return None if weight is None else _trace(last, count, weight)


def _trace(last: Sequence[tuple[Candidate, tuple[Form, ...]] | None], stop: int, weight: int) -> Partition:
    groups: list[Group] = []
    forms: list[Form] = []
    while stop:
        entry = last[stop]
        assert entry is not None
        candidate, chosen = entry
        groups.insert(0, candidate.measured.group)
        forms[:0] = chosen
        stop = candidate.measured.start
    return Partition(tuple(groups), tuple(forms), weight)
