# SPDX-License-Identifier: Apache-2.0
"""The order of the turns of a group.

* eager: always the deepest layer whose next row has its inputs. Least between the layers of a chain.
* lazy: the rows of the group's last layers in order, each demanding what it lacks. A branch then waits until it
  is asked for, which is less where a skip connection is cheap to make late.

On chains both are the same.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Literal

from tinyc.plan.rows.problem import WHOLE, Layer, Turn

Order = Literal["eager", "lazy"]
ORDERS: tuple[Order, ...] = ("eager", "lazy")


def group_turns(layers: Sequence[Layer], start: int, stop: int, order: Order) -> tuple[Turn, ...]:
    """Turns that run layers [start, stop) by rows; all of them have a walk."""
    members = range(start, stop)
    demands = _demands(layers, members)
    return _eager(members, demands) if order == "eager" else _lazy(layers, members, demands)


def whole_turn(layer: int) -> tuple[Turn, ...]:
    """The one turn of a layer that runs whole."""
    return ((layer, WHOLE),)


# Of each layer of a group, for each of its turns: how many turns of which layers must have run before it.
Demands = Mapping[int, Sequence[Sequence[tuple[int, int]]]]


def _demands(layers: Sequence[Layer], members: range) -> Demands:
    makers = {name: index for index in members for name in layers[index].writes}
    found = {}
    for index in members:
        layer = layers[index]
        sources = [(makers[name], layers[makers[name]].walk) for name in layer.reads if name in makers]
        assert layer.walk is not None
        rows = [max(needs, default=-1) + 1 for needs in layer.walk.needs]
        found[index] = [[(source, walk.turns_for(count)) for source, walk in sources if walk] for count in rows]
    return found


def _eager(members: range, demands: Demands) -> tuple[Turn, ...]:
    counts = dict.fromkeys(members, 0)  # turns that have run
    found: list[Turn] = []
    affected = {index: [index] for index in members}  # by a turn of the layer: itself, and those that read from it
    for index in members:
        for source, _ in demands[index][0] if demands[index] else ():
            affected[source].append(index)

    def is_ready(index: int) -> bool:
        turn = counts[index]
        return turn < len(demands[index]) and all(counts[s] >= turns for s, turns in demands[index][turn])

    ready = {index for index in members if is_ready(index)}
    while ready:
        index = max(ready)
        found.append((index, counts[index]))
        counts[index] += 1
        for other in affected[index]:
            (ready.add if is_ready(other) else ready.discard)(other)
    return tuple(found)


def _lazy(layers: Sequence[Layer], members: range, demands: Demands) -> tuple[Turn, ...]:
    counts = dict.fromkeys(members, 0)
    found: list[Turn] = []
    read = {name for index in members for name in layers[index].reads}

    def run(index: int) -> None:
        """The next turn of a layer, and before it whatever it lacks."""
        turn = counts[index]
        for source, turns in demands[index][turn]:
            while counts[source] < turns:
                run(source)
        found.append((index, turn))
        counts[index] += 1

    ends = [i for i in members if not read.intersection(layers[i].writes)]
    for index in (*ends, *reversed(members)):  # then the rows that nobody reads
        while counts[index] < len(demands[index]):
            run(index)
    return tuple(found)
