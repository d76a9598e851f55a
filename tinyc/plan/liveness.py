# SPDX-License-Identifier: Apache-2.0
"""How many bytes are alive in the turns of a group, and what each layer of it leaves for its own scratch.

A group's bytes depend on where it begins and ends, not on how the layers before and after it are grouped.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import accumulate, pairwise

import numpy as np

from tinyc.base.dataclass import dataclass
from tinyc.plan.live import round_up
from tinyc.plan.problem import WHOLE, Form, Problem, TensorRows, Turn
from tinyc.plan.turns import Slots
from tinyc.plan.uses import Access, Ints, Uses

TURN_BITS = 32  # turns that generated code tells apart one by one

Names = tuple[str, ...]
Lives = Mapping[str, tuple[Ints, Ints]]  # of each tensor: its rows live in turns [born, dies); 0, 0: in none


@dataclass(frozen=True, slots=True, eq=False)
class Load:
    """A layer in a group: live bytes in each of its turns, without scratch.

    inplace: the same where rows are made in place of one of these tensors. fullest: the most in any turn, by what rows
    are made in place of; () for none.
    """

    turns: Ints
    inplace: Mapping[Names, Ints]
    fullest: Mapping[Names, int]

    @property
    def bytes(self) -> int:
        return self.fullest[()]

    @property
    def content(self) -> tuple[object, ...]:
        """Equal of loads that leave the same."""
        return self.turns.tobytes(), *((names, live.tobytes()) for names, live in self.inplace.items())

    def live(self, inplace: Names) -> Ints:
        """Live bytes in each turn where rows are made in place of one of these tensors."""
        return self.inplace.get(inplace, self.turns)

    def peak(self, inplace: Names) -> int:
        """Live bytes in the fullest turn where rows are made in place of one of these tensors."""
        return self.fullest.get(inplace, self.fullest[()])

    def need(self, form: Form) -> int:
        """Live bytes with the form's scratch, which is the same in all turns."""
        return self.peak(form.inplace) + form.scratch_bytes

    def turns_above(self, form: Form, limit: int) -> tuple[int, ...]:
        """The turns in which the form's scratch is too much; of more than a word has bits, with those between them."""
        over = np.flatnonzero(self.live(form.inplace) > limit - form.scratch_bytes).tolist()
        return tuple(range(over[0], over[-1] + 1)) if over and len(self.turns) > TURN_BITS else tuple(over)


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
    rows = layer.walk.output_rows(turn[1])
    return [(tensor, rows) for tensor in tensors] if rows else []


@dataclass(frozen=True, slots=True)
class _Rows:
    """The rows of tensors one behind the other. Turns are places in `Liveness.numbers`.

    places: where the rows of each tensor are. makers: the turn that makes each row; None: it is there before the group.
    read: the last turn in which a reader reads it, of one reader after the other. last: the last layer that reads it.
    given: it is there even where nobody reads it. sizes: bytes.
    """

    places: Mapping[str, slice]
    makers: Ints | None
    read: Sequence[Ints]
    last: Ints
    given: Ints
    sizes: Ints


_Alive = tuple[tuple[Ints, Ints], tuple[Ints, Ints]]  # [born, dies) of rows that a group makes, and of those before it


class Liveness:
    """When rows are alive in groups of layers [first, stop) with these walks. whole: layers that run in one turn.

    What groups make is one table of rows by the layers that make them, and what is there before a group another, so
    that a group looks at all its rows at once. What arrives row by row, or lasts from call to call, is looked at tensor
    by tensor.
    """

    def __init__(
        self, problem: Problem, uses: Uses, first: int, stop: int, whole: frozenset[int] = frozenset()
    ) -> None:
        self.problem, self.uses, self.whole = problem, uses, whole
        self.layers = range(first, stop)
        counts = [1 if (own := self._access(index)) is None else own.turns for index in self.layers]
        self.starts = {first + i: at for i, at in enumerate(accumulate((count + 1 for count in counts), initial=0))}
        self.never = self.starts[stop]  # the place of a number that no turn has
        self.numbers = np.full(self.never + 1, -1, np.int64)
        self.alone = {*problem.carried, *(problem.inputs if problem.by_rows else ())}
        written = [[name for name in problem.layers[index].writes if name not in self.alone] for index in self.layers]
        rows = [sum(problem.tensors[name].rows for name in names) for names in written]
        self.own = {first + i: at for i, at in enumerate(accumulate(rows, initial=0))}  # rows of each layer
        self.written = self._table([name for names in written for name in names], with_makers=True)
        self.there: dict[int, _Rows] = {}

    def _access(self, index: int) -> Access | None:
        """What the turns of a layer make and read; None where turn 0 does all."""
        return None if index in self.whole else self.uses.access[index]

    def _table(self, names: Sequence[str], with_makers: bool = False, since: int = 0) -> _Rows:
        """The rows of tensors, with their readers from layer `since` on."""
        uses, tensors = self.uses, self.problem.tensors
        ends = list(accumulate((tensors[name].rows for name in names), initial=0))
        readers = [[i for i in uses.readers[name] if i in self.layers and i >= since] for name in names]
        read = np.full((max(map(len, readers), default=0), ends[-1]), self.never, np.int64)
        makers = np.zeros(ends[-1], np.int64)
        for name, own, (start, stop) in zip(names, readers, pairwise(ends), strict=True):
            for k, index in enumerate(own):
                read[k, start:stop] = self.starts[index] + (0 if (a := self._access(index)) is None else a.read)
            if with_makers:
                index = uses.maker[name]
                makers[start:stop] = self.starts[index] + (0 if (a := self._access(index)) is None else a.written_in)
        facts = [
            (uses.last[name], self.problem.is_resident(name), round_up(tensors[name].row_bytes, self.problem.unit))
            for name in names
        ]
        rows = [tensors[name].rows for name in names]
        last, given, sizes = np.repeat(np.array(facts, np.int64).reshape(-1, 3).T, rows, axis=1)
        return _Rows(
            {name: slice(start, stop) for name, (start, stop) in zip(names, pairwise(ends), strict=True)},
            makers if with_makers else None,
            list(read),
            last,
            given,
            sizes,
        )

    def _before(self, start: int) -> _Rows:
        """What is there before the layers from `start` on, and read by them."""
        if start not in self.there:
            names = [name for name in self.uses.crossing[start] if name not in self.alone]
            self.there[start] = self._table(names, since=start)
        return self.there[start]

    def _alive(self, slots: Slots, start: int, stop: int) -> _Alive:
        """[born, dies) of the rows that the group makes, and of those that are there before it."""
        numbers, count = self.numbers, slots.count
        numbers[self.starts[start] : self.starts[stop]] = slots.numbers
        own, there = slice(self.own[start], self.own[stop]), self._before(start)
        assert self.written.makers is not None
        makes = numbers[self.written.makers[own]]
        dies = makes + 1
        for read in self.written.read:
            np.maximum(dies, numbers[read[own]] + 1, out=dies)
        dies[self.written.last[own] >= stop] = count
        alive = (makes >= 0) & (makes < dies)
        written = makes * alive, dies * alive
        dies = there.given.copy() if start == 0 else np.zeros_like(there.given)
        for read in there.read:
            np.maximum(dies, numbers[read] + 1, out=dies)
        dies[there.last >= stop] = max(count, 1)
        return written, (np.zeros_like(dies), dies)

    def lives(self, slots: Slots, start: int, stop: int) -> Lives:
        """When each row of each tensor is alive, of those that have to do with layers [start, stop) and their turns."""
        return self._named(self._alive(slots, start, stop), slots.count, start, stop)

    def _named(self, alive: _Alive, count: int, start: int, stop: int) -> Lives:
        (born, dies), (before, ends) = alive
        shift = self.own[start]
        lives = {name: (before[place], ends[place]) for name, place in self._before(start).places.items()}
        for index in range(start, stop):
            for name in self.problem.layers[index].writes:
                if name not in self.alone:
                    own = self.written.places[name]
                    place = slice(own.start - shift, own.stop - shift)
                    lives[name] = born[place], dies[place]
        return {**lives, **self._lives_alone(count, start, stop)}

    def _lives_alone(self, count: int, start: int, stop: int) -> Lives:
        """Of tensors that arrive row by row, or last from call to call. Turns are in `numbers`."""
        writes = (name for layer in self.problem.layers[start:stop] for name in layer.writes)
        names = dict.fromkeys((*self.uses.crossing[start], *writes, *self.problem.carried)) if self.alone else ()
        lives = {name: self._life(name, count, start, stop) for name in names if name in self.alone}
        return {name: life for name, life in lives.items() if life is not None}

    def _life(self, name: str, end: int, start: int, stop: int) -> tuple[Ints, Ints] | None:
        """[born, dies) of a tensor's rows; None: it has nothing to do with the layers."""
        uses, problem = self.uses, self.problem
        rows, carried, maker, last = (
            problem.tensors[name].rows,
            problem.carried.get(name, 0),
            uses.maker[name],
            uses.last[name],
        )
        arrives = problem.by_rows and name in problem.inputs
        comes = arrives and start <= uses.first[name] < stop
        there = maker < start and not (arrives and uses.first[name] >= start)
        is_written = start <= maker < stop
        if not is_written and not comes and not there and not carried:
            return None
        readers = [layer for layer in uses.readers[name] if start <= layer < stop]
        born = np.zeros(rows, np.int64) if there else np.full(rows, end)
        born[:carried] = 0
        for layer in readers if comes else ():
            own = self._access(layer)
            born = np.minimum(born, self._begins(layer, 0 if own is None else own.first_read, end))
        if comes:  # turns that read nothing of the input, as of rows of padding, run when its first row is there
            born[0] = 0
        given = start == 0 and problem.is_resident(name)  # also rows that nobody reads
        dies = np.full(rows, end if (there or is_written or comes) and last >= stop else int(given))
        for layer in readers if last < stop else ():
            own = self._access(layer)
            dies = np.maximum(dies, self._ends(layer, 0 if own is None else own.read))
        if is_written:
            own = self._access(maker)
            turns = 0 if own is None else own.written_in
            born, dies = np.minimum(born, self._begins(maker, turns, end)), np.maximum(dies, self._ends(maker, turns))
        if carried:  # from the call before, read later in this one; or for the next call
            dies[slice(carried) if maker >= stop else slice(rows - carried, rows)] = end
        alive = born < dies
        return born * alive, dies * alive

    def _begins(self, layer: int, turns: Ints | int, end: int) -> Ints:
        """When turns begin; one that is never there begins after all, and ends before all."""
        numbers: Ints = self.numbers[self.starts[layer] + turns]
        return np.where(numbers < 0, end, numbers)

    def _ends(self, layer: int, turns: Ints | int) -> Ints:
        numbers: Ints = self.numbers[self.starts[layer] + turns] + 1
        return numbers

    def loads(self, slots: Slots, start: int, stop: int) -> tuple[Load, ...]:
        """The load of each layer of a group."""
        alive = self._alive(slots, start, stop)
        live = self._live(alive, slots, start, stop)
        if slots.whole:
            return (_whole_load(self.problem, start, int(live[0]), self.uses),)
        own = live[slots.numbers]  # and 0 behind each layer's turns, as after the last turn of all
        peaks = np.maximum.reduceat(own, [place.start for place in slots.places.values()]).tolist()
        lives: Lives | None = None
        loads = []
        for (index, place), peak in zip(slots.places.items(), peaks, strict=True):
            access = self.uses.access[index]
            inplace: dict[Names, Ints] = {}
            if access is not None and access.inplace:
                lives = lives or self._named(alive, slots.count, start, stop)
                inplace = self._in_place(index, own[place], slots, lives)
            fullest = {(): peak, **{names: int(most.max()) for names, most in inplace.items()}}
            loads.append(Load(own[place], inplace, fullest))
        return tuple(loads)

    def _live(self, alive: _Alive, slots: Slots, start: int, stop: int) -> Ints:
        """Live bytes in each turn, without scratch; 0 after the last one."""
        written, there = alive
        sizes = self.written.sizes[self.own[start] : self.own[stop]]
        born, dies = np.concatenate((written[0], there[0])), np.concatenate((written[1], there[1]))
        sizes = np.concatenate((sizes, self._before(start).sizes))
        changes = np.zeros(slots.count + 1)  # bincount of nothing is of integers
        changes += np.bincount(born, sizes, slots.count + 1) - np.bincount(dies, sizes, slots.count + 1)
        for name, (first, last) in self._lives_alone(slots.count, start, stop).items():
            size = np.full(len(first), round_up(self.problem.tensors[name].row_bytes, self.problem.unit))
            changes += np.bincount(first, size, slots.count + 1) - np.bincount(last, size, slots.count + 1)
        for index, place in slots.places.items():
            walk = self.problem.layers[index].walk
            if walk is not None and walk.accumulates and index not in slots.whole:
                turns = slots.numbers[place]
                size_bytes = round_up(walk.accumulator_bytes, self.problem.unit)
                changes[0 if self.problem.early_sums else turns[0]] += size_bytes
                changes[turns[-1] + 1] -= size_bytes
        return changes.cumsum().astype(np.int64)

    def _in_place(self, index: int, own: Ints, slots: Slots, lives: Lives) -> dict[Names, Ints]:
        """Live bytes in a layer's turns where its rows are made in place of tensors, by these. own: where not."""
        numbers, layer, access = slots.numbers[slots.places[index]], self.problem.layers[index], self.uses.access[index]
        assert access is not None
        start, stop = min(slots.places), max(slots.places) + 1
        y, by_names = self.problem.tensors[layer.writes[0]], dict[Names, Ints]()
        ends, there = numbers[:, None] + 1, access.tops >= 0
        for names in access.inplace if self.uses.is_inside(y.name, start, stop) else ():
            dying = [
                ((lives[name][1][access.tops] == ends) & there).sum(axis=1)
                for name in names
                if self.uses.is_inside(name, start, stop) and self.problem.tensors[name].row_bytes == y.row_bytes
            ]
            if dying:
                most = dying[0] if len(dying) == 1 else np.max(dying, axis=0)
                by_names[names] = own - round_up(y.row_bytes, self.problem.unit) * most
        return by_names


def lifetimes(problem: Problem, slots: Slots, start: int, stop: int, uses: Uses) -> Lives:
    """When each row of each tensor is alive, of those that have to do with layers [start, stop) and their turns.

    Layers that run whole may come in any order. The parts of a join, and the join, live as long as any of them.
    """
    lives = dict(Liveness(problem, uses, start, stop, slots.whole).lives(slots, start, stop))
    joins = list(problem.joins.items())
    for name, parts in (*joins, *reversed(joins)):  # a join may be part of another
        sharing = (name, *(part.name for part in parts))
        end = np.max([lives[own][1] for own in sharing], axis=0)
        lives |= {own: (lives[own][0], end) for own in sharing}
    return lives


def _whole_load(problem: Problem, index: int, most: int, uses: Uses) -> Load:
    layer = problem.layers[index]
    saved = round_up(problem.tensors[layer.writes[0]].size, problem.unit)
    inplaces = {form.inplace for form in layer.whole_forms if form.inplace}
    dying = {name for name in layer.reads if uses.last[name] == index}
    less = {names: most - saved * bool(dying.intersection(names)) for names in inplaces}
    return Load(np.array([most]), {names: np.array([left]) for names, left in less.items()}, {(): most, **less})


def dying_rows(problem: Problem, turn: Turn, row_bytes: int, dies: Ints, number: int) -> tuple[int, ...]:
    """The rows of a tensor whose bytes the output rows of the turn may take, one each: of the topmost that it reads, as
    many as it makes, those that die here, if they have as many bytes. row_bytes: of the tensor. dies: when each does.
    """
    layer = problem.layers[turn[0]]
    writes = writes_of(problem, turn)
    if layer.walk is None or turn[1] == WHOLE or not writes:
        return ()
    if row_bytes != writes[0][0].row_bytes:
        return ()
    top = layer.walk.needs[turn[1]][: len(writes[0][1])]
    return tuple(row for row in top if dies[row] == number + 1)
