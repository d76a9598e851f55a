# SPDX-License-Identifier: Apache-2.0
"""The order of the turns of a group.

* eager: always the deepest layer whose next row has its inputs. Least between the layers of a chain.
* lazy: the rows of the group's last layers in order, each demanding what it lacks. A branch then waits until it
  is asked for, which is less where a skip connection is cheap to make late.

On chains both are the same.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np

from tinyc.plan.problem import WHOLE, Turn
from tinyc.plan.rows.uses import Access, Ints, Uses

TurnOrder = Literal["eager", "lazy"]
ORDERS: tuple[TurnOrder, ...] = ("eager", "lazy")


@dataclass(frozen=True, slots=True)
class Slots:
    """When turns run: `of` each layer, the numbers of its turns among all `count`, ascending. whole: layers that run in
    one turn."""

    count: int
    of: Mapping[int, Ints]
    whole: frozenset[int] = frozenset()

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
    return Slots(len(turns), {index: np.array(own) for index, own in numbers.items()}, whole)


def orders(uses: Uses, start: int, stop: int) -> list[Slots]:
    """The different orders of layers [start, stop) by rows."""
    eager = group_slots(uses, start, stop, "eager")
    if all(_inside(uses, index, start) == [index - 1] for index in range(start + 1, stop)):
        return [eager]
    lazy = group_slots(uses, start, stop, "lazy")
    return [eager] if all(np.array_equal(eager.of[i], lazy.of[i]) for i in eager.of) else [eager, lazy]


def group_slots(uses: Uses, start: int, stop: int, order: TurnOrder) -> Slots:
    """When turns of layers [start, stop) run by rows; all of them have a walk."""
    access = {index: own for index in range(start, stop) if (own := uses.access[index])}
    demands = {index: _demands(uses, access, index, start) for index in access}
    return _eager(access, demands) if order == "eager" else _lazy(access, demands)


def whole_turn(layer: int) -> tuple[Turn, ...]:
    """The one turn of a layer that runs whole."""
    return ((layer, WHOLE),)


def _inside(uses: Uses, index: int, start: int) -> list[int]:
    """The layers from `start` on that make what a layer reads."""
    return [source for source in uses.sources[index] if source >= start]


# Of a layer, by the layer that makes what it reads: how many turns of that one each of its turns waits for.
Demands = Sequence[tuple[int, Ints]]


def _demands(uses: Uses, access: Mapping[int, Access], index: int, start: int) -> Demands:
    return [(source, access[source].needed[access[index].reach]) for source in _inside(uses, index, start)]


def _eager(access: Mapping[int, Access], demands: Mapping[int, Demands]) -> Slots:
    """A layer more is the deepest of all so far: each of its turns comes right behind the one that it waits for, and
    the others keep their order."""
    numbers = np.empty(sum(own.turns for own in access.values()), np.int64)  # of all layers, one behind the other
    places: dict[int, slice] = {}
    count = 0
    for index, own in access.items():
        gates = np.full(own.turns, -1)
        for source, turns in demands[index]:
            gates = np.maximum(gates, np.append(numbers[places[source]], -1)[turns - 1])
        gates = np.maximum.accumulate(gates)
        numbers[:count] += np.searchsorted(gates, numbers[:count])
        places[index] = slice(count, count + own.turns)
        numbers[places[index]] = gates + np.arange(1, own.turns + 1)
        count += own.turns
    return Slots(count, {index: numbers[place] for index, place in places.items()})


def _lazy(access: Mapping[int, Access], demands: Mapping[int, Demands]) -> Slots:
    waits = {index: [(source, turns.tolist()) for source, turns in own] for index, own in demands.items()}
    numbers: dict[int, list[int]] = {index: [] for index in access}
    count = 0

    def run(last: int) -> None:
        """The next turn of a layer, and before it whatever it lacks."""
        nonlocal count
        pending = [last]
        while pending:
            index = pending[-1]
            turn = len(numbers[index])
            for source, turns in waits[index]:
                if len(numbers[source]) < turns[turn]:
                    pending.append(source)
                    break
            else:
                numbers[index].append(count)
                count += 1
                pending.pop()

    read = {source for own in demands.values() for source, _ in own}
    ends = [index for index in access if index not in read]
    for index in (*ends, *reversed(list(access))):  # then the rows that nobody reads
        while len(numbers[index]) < access[index].turns:
            run(index)
    return Slots(count, {index: np.array(own) for index, own in numbers.items()})
