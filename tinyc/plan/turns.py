# SPDX-License-Identifier: Apache-2.0
"""The order of the turns of a group.

* eager: always the deepest layer whose next row has its inputs. Least between the layers of a chain.
* lazy: the rows of the group's last layers in order, each demanding what it lacks. A branch then waits until it
  is asked for, which is less where a skip connection is cheap to make late.

On chains both are the same.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from tinyc.base.dataclass import dataclass
from tinyc.plan.problem import WHOLE, Turn
from tinyc.plan.uses import Access, Ints, Uses

ORDERS = 2  # eager and lazy


@dataclass(frozen=True, slots=True)
class Slots:
    """When turns run, among all `count`. numbers: those of each layer's turns, ascending, layer after layer, and behind
    each of them -1, the number of a turn that is never there. places: where those of a layer are, without the -1.
    whole: layers that run in one turn."""

    count: int
    numbers: Ints
    places: Mapping[int, slice]
    whole: frozenset[int] = frozenset()

    @property
    def of(self) -> Mapping[int, Ints]:
        """The numbers of each layer's turns."""
        return {index: self.numbers[place] for index, place in self.places.items()}

    @property
    def turns(self) -> tuple[Turn, ...]:
        """All turns, in order."""
        layers, rows = np.empty(self.count, np.int64), np.empty(self.count, np.int64)
        for index, numbers in self.of.items():
            layers[numbers] = index
            rows[numbers] = WHOLE if index in self.whole else np.arange(len(numbers))
        return tuple(zip(layers.tolist(), rows.tolist(), strict=True))


def slots_of(turns: Sequence[Turn]) -> Slots:
    """When the turns of each layer run."""
    numbers: dict[int, list[int]] = {}
    for number, (index, _) in enumerate(turns):
        numbers.setdefault(index, []).append(number)
    whole = frozenset(index for index, row in turns if row == WHOLE)
    return _slots(len(turns), dict(sorted(numbers.items())), whole)


def _slots(count: int, numbers: Mapping[int, Sequence[int]], whole: frozenset[int] = frozenset()) -> Slots:
    return Slots(
        count,
        np.array([number for own in numbers.values() for number in (*own, -1)], np.int64),
        _places({index: len(own) for index, own in numbers.items()}),
        whole,
    )


def _places(turns: Mapping[int, int]) -> dict[int, slice]:
    """Where the numbers of each layer's turns are. turns: how many it has."""
    places, at = {}, 0
    for index, count in turns.items():
        places[index] = slice(at, at + count)
        at += count + 1
    return places


class Orders:
    """The orders of groups of layers with these walks. What a group has in common with one of fewer layers from the
    same layer on is done once."""

    def __init__(self, uses: Uses) -> None:
        self._uses = uses
        self._eager: dict[int, Eager] = {}  # of each first layer, the last group that was asked for

    def of(self, start: int, stop: int) -> list[Slots]:
        """The different orders of layers [start, stop) by rows."""
        return different_orders(self.eager(start, stop), self._uses, start, stop)

    def eager(self, start: int, stop: int) -> Slots:
        """When the turns of layers [start, stop) run by rows, each as soon as it can; all of them have a walk."""
        eager = self._eager.get(start)
        if eager is None or eager.stop > stop:
            eager = Eager.empty(start)
        self._eager[start] = eager = eager.until(stop, self._uses)
        return eager.slots


def different_orders(eager: Slots, uses: Uses, start: int, stop: int) -> list[Slots]:
    """The eager order of layers [start, stop), and the lazy one where that is another."""
    if all(_inside(uses, index, start) == [index - 1] for index in range(start + 1, stop)):
        return [eager]
    lazy = lazy_slots(uses, start, stop)
    return [eager] if np.array_equal(eager.numbers, lazy.numbers) else [eager, lazy]


def whole_turn(layer: int) -> tuple[Turn, ...]:
    """The one turn of a layer that runs whole."""
    return ((layer, WHOLE),)


def _inside(uses: Uses, index: int, start: int) -> list[int]:
    """The layers from `start` on that make what a layer reads."""
    return [source for source in uses.sources[index] if source >= start]


def _access(uses: Uses, index: int) -> Access:
    access = uses.access[index]
    assert access is not None
    return access


def _waits(uses: Uses, index: int, source: int) -> Ints:
    """Of each turn of a layer, how many turns it waits for of the layer that makes what it reads."""
    return _access(uses, source).needed[_access(uses, index).reach]


@dataclass(frozen=True, slots=True)
class Eager:
    """The numbers of the turns of layers [start, stop), as `Slots` has them.

    A layer more is the deepest of all so far: each of its turns comes right behind the one that it waits for, and the
    others keep their order.
    """

    start: int
    stop: int
    count: int
    numbers: Ints
    places: Mapping[int, slice]

    @classmethod
    def empty(cls, start: int) -> Eager:
        return cls(start, start, 0, np.empty(0, np.int64), {})

    @property
    def slots(self) -> Slots:
        return Slots(self.count, self.numbers, self.places)

    def until(self, stop: int, uses: Uses) -> Eager:
        """With the layers up to `stop`."""
        eager = self
        while eager.stop < stop:
            eager = eager.with_next(uses)
        return eager

    def with_next(self, uses: Uses) -> Eager:
        """With a layer more."""
        index, own = self.stop, _access(uses, self.stop)
        gates = np.full(own.turns, -1)
        for source in _inside(uses, index, self.start):
            place, waits = self.places[source], _waits(uses, index, source)
            last = np.where(waits > 0, waits - 1, place.stop - place.start)  # of none: the number of no turn
            gates = np.maximum(gates, self.numbers[place.start + last])
        gates = np.maximum.accumulate(gates)
        numbers = np.empty(len(self.numbers) + own.turns + 1, np.int64)
        place = slice(len(self.numbers), len(numbers) - 1)
        np.add(self.numbers, np.searchsorted(gates, self.numbers), out=numbers[: place.start])
        np.add(gates, np.arange(1, own.turns + 1), out=numbers[place])
        numbers[-1] = -1
        return Eager(self.start, self.stop + 1, self.count + own.turns, numbers, {**self.places, index: place})


def lazy_slots(uses: Uses, start: int, stop: int) -> Slots:
    """When the turns of layers [start, stop) run by rows, each only when it is asked for; all of them have a walk."""
    layers = range(start, stop)
    waits = {
        index: [(source, _waits(uses, index, source).tolist()) for source in _inside(uses, index, start)]
        for index in layers
    }
    numbers: dict[int, list[int]] = {index: [] for index in layers}
    count = 0
    read = {source for own in waits.values() for source, _ in own}
    ends = [index for index in layers if index not in read]
    for last in (*ends, *reversed(layers)):  # then the rows that nobody reads
        pending = [(last, _access(uses, last).turns)]  # layers, and how many turns of each there have to be
        while pending:
            index, turns = pending[-1]
            own = numbers[index]
            if len(own) == turns:
                pending.pop()
                continue
            for source, needed in waits[index]:
                if len(numbers[source]) < needed[len(own)]:
                    pending.append((source, needed[len(own)]))
                    break
            else:
                own.append(count)
                count += 1
    return _slots(count, numbers)
