"""The order of the turns of a group.

* eager: always the deepest layer whose next row has its inputs. Least between the layers of a chain.
* lazy: the rows of the group's last layers in order, each demanding what it lacks. A branch then waits until it
  is asked for, which is less where a skip connection is cheap to make late.

On chains both are the same.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Literal

from tinyc.stream.problem import WHOLE, Layer, Turn

Order = Literal["eager", "lazy"]
ORDERS: tuple[Order, ...] = ("eager", "lazy")


def group_turns(layers: Sequence[Layer], start: int, stop: int, order: Order) -> tuple[Turn, ...]:
    """Turns that run layers [start, stop) by rows; all of them have a walk."""
    members = range(start, stop)
    makers = {name: index for index in members for name in layers[index].writes}
    return _eager(layers, members, makers) if order == "eager" else _lazy(layers, members, makers)


def whole_turn(layer: int) -> tuple[Turn, ...]:
    """The one turn of a layer that runs whole."""
    return ((layer, WHOLE),)


def _rows_needed(layer: Layer, turn: int) -> int:
    """How many rows of its inputs must have been made before the turn."""
    assert layer.walk is not None
    return max(layer.walk.needs[turn], default=-1) + 1


def _sources(layer: Layer, makers: Mapping[str, int]) -> list[int]:
    """The layers of the group that the layer reads from."""
    return [makers[name] for name in layer.reads if name in makers]


def _turns_for(layer: Layer, rows: int) -> int:
    """How many turns of the layer it takes until its output has so many rows."""
    assert layer.walk is not None
    if layer.walk.accumulates:
        return layer.walk.turns if rows else 0
    return max(rows - layer.walk.first, 0)


def _eager(layers: Sequence[Layer], members: range, makers: Mapping[str, int]) -> tuple[Turn, ...]:
    counts = dict.fromkeys(members, 0)  # turns that have run
    found: list[Turn] = []

    def ready(index: int) -> bool:
        layer = layers[index]
        assert layer.walk is not None
        if counts[index] == layer.walk.turns:
            return False
        rows = _rows_needed(layer, counts[index])
        return all(counts[s] >= _turns_for(layers[s], rows) for s in _sources(layer, makers))

    while True:
        index = next((i for i in reversed(members) if ready(i)), None)
        if index is None:
            return tuple(found)
        found.append((index, counts[index]))
        counts[index] += 1


def _lazy(layers: Sequence[Layer], members: range, makers: Mapping[str, int]) -> tuple[Turn, ...]:
    counts = dict.fromkeys(members, 0)
    found: list[Turn] = []
    read = {name for index in members for name in layers[index].reads}

    def run(index: int) -> None:
        """The next turn of a layer, and before it whatever it lacks."""
        layer, turn = layers[index], counts[index]
        rows = _rows_needed(layer, turn)
        for source in _sources(layer, makers):
            while counts[source] < _turns_for(layers[source], rows):
                run(source)
        found.append((index, turn))
        counts[index] += 1

    ends = [i for i in members if not read.intersection(layers[i].writes)]
    for index in (*ends, *reversed(members)):  # then the rows that nobody reads
        walk = layers[index].walk
        assert walk is not None
        while counts[index] < walk.turns:
            run(index)
    return tuple(found)
