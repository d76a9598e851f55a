# SPDX-License-Identifier: Apache-2.0
"""Which layers form groups, and the form of every layer: the cheapest within a number of bytes.

best[j], the least cost of layers 0 .. j-1 within the bytes, is the minimum over i of best[i] plus the cost of
the group [i, j): exact, because a group's bytes depend only on its ends. A group costs what the cheapest forms
cost whose scratch fits beside the live bytes in every turn of their layer; the order of its turns does not depend on
them. The least bytes for a given cost come by bisection.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace

from tinyc.kernel.kernel import Cost
from tinyc.plan.rows.live import Load, Uses, loads_of, uses_of
from tinyc.plan.rows.problem import Form, Group, Layer, Problem
from tinyc.plan.rows.schedule import ORDERS, group_turns, whole_turn

WORK = 400_000  # turns of all groups that are tried: some seconds

Weigh = Callable[[Form], int]  # what is minimized


@dataclass(frozen=True, slots=True)
class Measured:
    """A group that may be chosen, its layers (with the walks that the group has), and the load of each of them."""

    group: Group
    layers: tuple[Layer, ...]
    loads: tuple[Load, ...]


@dataclass(frozen=True, slots=True)
class Option:
    """A form of a layer in a group, and the bytes alive with it."""

    need: int
    weight: int
    form: Form


@dataclass(frozen=True, slots=True)
class Candidate:
    """A group that may be chosen: its options by layer, least weight first, and the loads of its layers."""

    group: Group
    options: tuple[tuple[Option, ...], ...]
    loads: tuple[Load, ...]
    weigh: Weigh

    def choose(self, limit: int) -> tuple[int, tuple[Form, ...]] | None:
        """(weight, forms) of the cheapest forms within the limit of bytes; None if there are none."""
        forms, weight = [], 0
        for options, load in zip(self.options, self.loads, strict=True):
            rank = next((rank for rank, option in enumerate(options) if option.need <= limit), None)
            if rank is None:
                return None
            mixed = [] if self.group.is_whole else self._mixtures(options, rank, load, limit)
            found = min((options[rank], *mixed), key=lambda option: option.weight)
            forms.append(found.form)
            weight += found.weight
        return weight, tuple(forms)

    def _mixtures(self, options: Sequence[Option], rank: int, load: Load, limit: int) -> Iterator[Option]:
        """Those of the options that do not fit, options[:rank], but where they do not with one that does."""
        for option in options[:rank]:
            spare = next((other.form for other in options[rank:] if other.form.inplace == option.form.inplace), None)
            tight = load.tight(option.form, limit)
            mixed = mixture(option.form, spare, tight, len(load.turns)) if spare else None
            if mixed is not None:
                yield Option(limit, self.weigh(mixed), mixed)


@dataclass(frozen=True, slots=True)
class Cut:
    """Groups that cover all layers, the form of each layer, and the weight of all forms."""

    groups: tuple[Group, ...]
    forms: tuple[Form, ...]
    weight: int

    @property
    def time(self) -> int:
        return sum(form.time for form in self.forms)

    @property
    def instructions(self) -> int:
        return sum(form.cost.instructions for form in self.forms)

    @property
    def flash_bytes(self) -> int:
        return sum(form.flash_bytes for form in self.forms)


def measure(problem: Problem) -> tuple[Measured, ...]:
    """Every group that may be chosen, by its last layer; of large models those between narrow places."""
    uses = uses_of(problem)
    places = _places(problem, uses)
    found = []
    for stop in range(1, len(problem.layers) + 1):
        groups = [Group(stop - 1, stop, whole_turn(stop - 1)), *_ending(problem, stop, places)]
        found += [measure_group(problem, group, uses) for group in groups]
    return tuple(found)


def measure_group(problem: Problem, group: Group, uses: Uses) -> Measured:
    """The group with the walks that its layers have in the problem."""
    layers = problem.layers[group.start : group.stop]
    return Measured(group, layers, loads_of(problem, group.turns, group.start, group.stop, uses))


def _places(problem: Problem, uses: Uses) -> frozenset[int]:
    """Where groups may begin and end: everywhere, or where the fewest bytes cross, as far as the work allows."""
    count = len(problem.layers)
    crossing = [
        sum(
            tensor.size
            for name, tensor in problem.tensors.items()
            if uses.maker[name] < place <= uses.last[name] and uses.maker[name] >= 0
        )
        for place in range(count + 1)
    ]
    narrow = sorted(range(count + 1), key=lambda place: (crossing[place], place))
    while narrow and _work(problem, frozenset(narrow)) > WORK:
        narrow = narrow[: len(narrow) * 3 // 4]
    return frozenset(narrow)


def _work(problem: Problem, places: frozenset[int]) -> int:
    return sum(
        len(ORDERS) * turns
        for stop in places
        for start, turns in _starts(problem, stop)
        if start in places or start == stop - 1
    )


def _starts(problem: Problem, stop: int) -> Iterator[tuple[int, int]]:
    """(first layer, turns) of every group of layers with walks that ends before `stop`."""
    turns = 0
    for start in range(stop - 1, -1, -1):
        walk = problem.layers[start].walk
        if walk is None:
            return
        turns += walk.turns
        yield start, turns


def _ending(problem: Problem, stop: int, places: frozenset[int]) -> Iterator[Group]:
    for start, _ in _starts(problem, stop):
        if start == stop - 1 or (start in places and stop in places):
            for turns in dict.fromkeys(group_turns(problem.layers, start, stop, order) for order in ORDERS):
                yield Group(start, stop, turns)


def mixture(fast: Form, spare: Form, tight: tuple[int, ...], turns: int) -> Form | None:
    """The fast form, but in some of the turns the other; None if they cannot share a step's function."""
    if fast.row is None or spare.row is None or fast.inplace != spare.inplace:
        return None
    if any(
        row.special is None or row.call.params or row.direct or row.accumulator_bytes for row in (fast.row, spare.row)
    ):
        return None
    part = len(tight)

    def share(of_fast: int, of_spare: int) -> int:
        return (of_fast * (turns - part) + of_spare * part) // turns

    cost = Cost(
        share(fast.cost.instructions, spare.cost.instructions),
        fast.flash_bytes + spare.flash_bytes,
        fast.scratch_bytes,
        share(fast.cost.cycles, spare.cost.cycles),
    )
    return replace(fast, cost=cost, spare=spare.row, tight=tight)


def weigh_all(found: Sequence[Measured], weigh: Weigh) -> tuple[Candidate, ...]:
    """The candidates with their options in order of weight; groups with a layer that cannot run so are left out."""
    candidates = []
    weights: dict[int, list[int]] = {}  # of a layer's forms, which many groups share
    for measured in found:
        group = measured.group
        options = []
        for index, load in zip(range(group.start, group.stop), measured.loads, strict=True):
            layer = measured.layers[index - group.start]
            forms = layer.whole_forms if group.is_whole else layer.row_forms
            if id(forms) not in weights:
                weights[id(forms)] = [weigh(form) for form in forms]
            peaks = {inplace: load.peak(inplace) for inplace in {form.inplace for form in forms}}
            needs = [peaks[form.inplace] + form.scratch_bytes for form in forms]
            ranked = sorted(zip(weights[id(forms)], needs, range(len(forms)), strict=True))
            options.append(_undominated([Option(need, weight, forms[i]) for weight, need, i in ranked]))
        candidates.append(Candidate(group, tuple(options), measured.loads, weigh))
    return tuple(candidates)


def _undominated(options: Sequence[Option]) -> tuple[Option, ...]:
    """Without those that need more bytes than a cheaper one."""
    kept: list[Option] = []
    for option in options:
        if not kept or option.need < kept[-1].need:
            kept.append(option)
    return tuple(kept)


def cheapest(found: Sequence[Candidate], limit: int) -> Cut | None:
    """The cut of least weight within `limit` bytes; None if none fits."""
    count = max(candidate.group.stop for candidate in found)
    best: list[int | None] = [0] + [None] * count
    last: list[tuple[Candidate, tuple[Form, ...]] | None] = [None] * (count + 1)
    for candidate in found:
        before = best[candidate.group.start]
        chosen = candidate.choose(limit) if before is not None else None
        if before is None or chosen is None:
            continue
        total, known = before + chosen[0], best[candidate.group.stop]
        if known is None or total < known:
            best[candidate.group.stop] = total
            last[candidate.group.stop] = (candidate, chosen[1])
    weight = best[count]
    return None if weight is None else _trace(last, count, weight)


def _trace(last: Sequence[tuple[Candidate, tuple[Form, ...]] | None], stop: int, weight: int) -> Cut:
    groups: list[Group] = []
    forms: list[Form] = []
    while stop:
        entry = last[stop]
        assert entry is not None
        candidate, chosen = entry
        groups.insert(0, candidate.group)
        forms[:0] = chosen
        stop = candidate.group.start
    return Cut(tuple(groups), tuple(forms), weight)


def smallest(found: Sequence[Candidate], allowed: Callable[[Cut], bool]) -> tuple[int, Cut] | None:
    """(bytes, cut) of the fewest bytes whose cheapest cut is allowed; None if none is."""
    limits = sorted({option.need for c in found for options in c.options for option in options})
    low, high = 0, len(limits)
    best = None
    while low < high:
        middle = (low + high) // 2
        cut = cheapest(found, limits[middle])
        if cut is not None and allowed(cut):
            best, high = (limits[middle], cut), middle
        else:
            low = middle + 1
    return best
