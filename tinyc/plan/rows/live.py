# SPDX-License-Identifier: Apache-2.0
"""How many bytes are alive in the turns of a group, and what each layer of it leaves for its own scratch.

A group's bytes depend on where it begins and ends, not on how the layers before and after it are grouped.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from tinyc.plan.problem import WHOLE, Form, Problem, TensorRows, Turn
from tinyc.plan.rows.schedule import Slots
from tinyc.plan.rows.uses import Access, Ints, Uses

_NEVER = np.array([-1])
TURN_BITS = 32  # turns that generated code tells apart one by one

Names = tuple[str, ...]
Lives = Mapping[str, tuple[Ints, Ints]]  # of each tensor: its rows live in turns [born, dies); 0, 0: in none


@dataclass(frozen=True, slots=True)
class Load:
    """A layer in a group: live bytes in each of its turns, without scratch.

    inplace: the same where rows are made in place of one of these tensors. fullest: the most in any turn, by what rows
    are made in place of; () for none.
    """

    turns: tuple[int, ...]
    inplace: Mapping[Names, tuple[int, ...]]
    fullest: Mapping[Names, int]

    @property
    def bytes(self) -> int:
        return self.fullest[()]

    def peak(self, inplace: Names) -> int:
        """Live bytes in the fullest turn where rows are made in place of one of these tensors."""
        return self.fullest.get(inplace, self.fullest[()])

    def need(self, form: Form) -> int:
        """Live bytes with the form's scratch, which is the same in all turns."""
        return self.peak(form.inplace) + form.scratch_bytes

    def tight(self, form: Form, limit: int) -> tuple[int, ...]:
        """The turns in which the form's scratch is too much; of more than a word has bits, with those between them."""
        room = limit - form.scratch_bytes
        found = [turn for turn, live in enumerate(self.inplace.get(form.inplace, self.turns)) if live > room]
        return tuple(range(found[0], found[-1] + 1)) if found and len(self.turns) > TURN_BITS else tuple(found)


def round_up(value: int, unit: int) -> int:
    """The least multiple of `unit` that is not below `value`."""
    return -(-value // unit) * unit


def reads_of(problem: Problem, turn: Turn) -> list[tuple[TensorRows, Sequence[int]]]:
    """The rows that a turn reads of each tensor."""
    layer = problem.layers[turn[0]]
    tensors = [problem.tensors[name] for name in layer.reads]
    if turn[1] == WHOLE:
        return [(tensor, range(tensor.rows)) for tensor in tensors]
    assert layer.walk is not None
    return [(tensor, layer.walk.needs[turn[1]]) for tensor in tensors]


def writes_of(problem: Problem, turn: Turn) -> list[tuple[TensorRows, Sequence[int]]]:
    """The rows that a turn makes of each tensor."""
    layer = problem.layers[turn[0]]
    tensors = [problem.tensors[name] for name in layer.writes]
    if turn[1] == WHOLE:
        return [(tensor, range(tensor.rows)) for tensor in tensors]
    assert layer.walk is not None
    made = layer.walk.made(turn[1])
    return [(tensor, made) for tensor in tensors] if made else []


@dataclass(frozen=True, slots=True)
class _Clock:
    """When the turns of layers [start, stop) begin and end. A turn that is never there, the number after a layer's last
    one, begins after all and ends before all."""

    slots: Slots
    start: int
    stop: int
    uses: Uses
    numbers: Mapping[int, Ints]  # of each layer's turns, with that of the turn that is never there: -1

    def begins(self, layer: int, turns: Ints | int) -> Ints:
        found: Ints = self.numbers[layer][turns]
        return np.where(found < 0, self.slots.count, found)

    def ends(self, layer: int, turns: Ints | int) -> Ints:
        found: Ints = self.numbers[layer][turns] + 1
        return found

    def access(self, layer: int) -> Access | None:
        """What the turns of a layer make and read; None where turn 0 does all."""
        return None if layer in self.slots.whole else self.uses.access[layer]


def lifetimes(problem: Problem, slots: Slots, start: int, stop: int, uses: Uses) -> Lives:
    """When each row of each tensor is alive, of those that have to do with layers [start, stop) and their turns."""
    numbers = {layer: np.concatenate((own, _NEVER)) for layer, own in slots.of.items()}
    clock = _Clock(slots, start, stop, uses, numbers)
    made = (name for layer in problem.layers[start:stop] for name in layer.writes)
    names = dict.fromkeys((*uses.crossing[start], *made, *problem.kept))
    return {name: life for name in names if (life := _life(problem, name, clock)) is not None}


def _life(problem: Problem, name: str, clock: _Clock) -> tuple[Ints, Ints] | None:
    """[born, dies) of a tensor's rows; None: it has nothing to do with the layers."""
    uses, end = clock.uses, clock.slots.count
    rows, kept, maker, last = problem.tensors[name].rows, problem.kept.get(name, 0), uses.maker[name], uses.last[name]
    arrives = problem.by_rows and name in problem.inputs
    comes = arrives and clock.start <= uses.first[name] < clock.stop
    there = maker < clock.start and not (arrives and uses.first[name] >= clock.start)
    made = clock.start <= maker < clock.stop
    if not made and not comes and not there and not kept:
        return None
    readers = [layer for layer in uses.readers[name] if clock.start <= layer < clock.stop]
    born = np.zeros(rows, np.int64) if there else np.full(rows, end)
    born[:kept] = 0
    for layer in readers if comes else ():
        born = np.minimum(born, clock.begins(layer, own.wanted if (own := clock.access(layer)) else 0))
    if comes:  # turns that read nothing of the input, as of rows of padding, run when its first row is there
        born[0] = 0
    given = clock.start == 0 and problem.is_resident(name)  # also rows that nobody reads
    dies = np.full(rows, end if (there or made or comes) and last >= clock.stop else int(given))
    for layer in readers if last < clock.stop else ():
        dies = np.maximum(dies, clock.ends(layer, own.read if (own := clock.access(layer)) else 0))
    if made:
        turns = own.made if (own := clock.access(maker)) else 0
        born, dies = np.minimum(born, clock.begins(maker, turns)), np.maximum(dies, clock.ends(maker, turns))
    if kept:  # from the call before, read later in this one; or for the next call
        dies[slice(kept) if maker >= clock.stop else slice(rows - kept, rows)] = end
    alive = born < dies
    return born * alive, dies * alive


def dying_rows(problem: Problem, turn: Turn, name: str, lives: Lives, number: int) -> tuple[int, ...]:
    """The rows of tensor `name` whose bytes the output rows of the turn may take, one each: of the topmost that it
    reads, as many as it makes, those that die here, if they have as many bytes."""
    layer = problem.layers[turn[0]]
    made = writes_of(problem, turn)
    if layer.walk is None or turn[1] == WHOLE or not made:
        return ()
    if problem.tensors[name].row_bytes != made[0][0].row_bytes:
        return ()
    top = layer.walk.needs[turn[1]][: len(made[0][1])]
    return tuple(row for row in top if lives[name][1][row] == number + 1)


def loads_of(problem: Problem, slots: Slots, start: int, stop: int, uses: Uses) -> tuple[Load, ...]:
    """The load of each layer of the group."""
    lives = lifetimes(problem, slots, start, stop, uses)
    sizes = [round_up(problem.tensors[name].row_bytes, problem.unit) for name in lives]
    weights = np.repeat(sizes, [len(born) for born, _ in lives.values()])
    changes = np.zeros(slots.count + 1)
    if lives:
        changes += np.bincount(np.concatenate([born for born, _ in lives.values()]), weights, slots.count + 1)
        changes -= np.bincount(np.concatenate([dies for _, dies in lives.values()]), weights, slots.count + 1)
    for index in range(start, stop):
        walk = problem.layers[index].walk
        if walk is not None and walk.accumulates and index not in slots.whole:
            own = slots.of[index]
            changes[0 if problem.early_sums else own[0]] += round_up(walk.accumulator_bytes, problem.unit)
            changes[own[-1] + 1] -= round_up(walk.accumulator_bytes, problem.unit)
    live = changes.cumsum().astype(np.int64)
    if slots.whole:
        return (_whole_load(problem, start, int(live[0]), uses),)
    return tuple(_row_load(problem, index, live, lives, slots, uses) for index in range(start, stop))


def _whole_load(problem: Problem, index: int, most: int, uses: Uses) -> Load:
    layer = problem.layers[index]
    saved = round_up(problem.tensors[layer.writes[0]].size, problem.unit)
    found = {form.inplace for form in layer.whole_forms if form.inplace}
    dying = {name for name in layer.reads if uses.last[name] == index}
    less = {names: (most - saved * bool(dying.intersection(names)),) for names in found}
    return Load((most,), less, {(): most, **{names: turns[0] for names, turns in less.items()}})


def _row_load(problem: Problem, index: int, live: Ints, lives: Lives, slots: Slots, uses: Uses) -> Load:
    numbers, layer, access = slots.of[index], problem.layers[index], uses.access[index]
    assert access is not None
    start, stop = min(slots.of), max(slots.of) + 1
    own, y = live[numbers], problem.tensors[layer.writes[0]]
    found: dict[Names, Ints] = {(): own}
    for names in access.inplace if uses.is_inside(y.name, start, stop) else ():
        dying = [
            (np.append(lives[name][1], -1)[access.tops] == numbers[:, None] + 1).sum(axis=1)
            for name in names
            if uses.is_inside(name, start, stop) and problem.tensors[name].row_bytes == y.row_bytes
        ]
        if dying:
            found[names] = own - round_up(y.row_bytes, problem.unit) * np.max(dying, axis=0)
    turns = {names: tuple(bytes_.tolist()) for names, bytes_ in found.items()}
    return Load(turns.pop(()), turns, {names: int(bytes_.max()) for names, bytes_ in found.items()})
