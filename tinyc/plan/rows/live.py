# SPDX-License-Identifier: Apache-2.0
"""How many bytes are alive in the turns of a group, and what each layer of it leaves for its own scratch.

A group's bytes depend on where it begins and ends, not on how the layers before and after it are grouped.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate

from tinyc.plan.rows.problem import WHOLE, Form, Layer, Problem, Tensor, Turn

TURN_BITS = 32  # turns that generated code tells apart one by one


@dataclass(frozen=True, slots=True)
class Uses:
    """Of each tensor: the layer that makes it (-1: a model input), the first and the last that read it.

    last is the number of layers for outputs of the model. A tensor that nobody reads: first and last are its maker.
    """

    maker: Mapping[str, int]
    first: Mapping[str, int]
    last: Mapping[str, int]


@dataclass(frozen=True, slots=True)
class Load:
    """A layer in a group: live bytes in the fullest of its turns, without scratch.

    turns: in each of them. inplace: the same where rows are made in place of one of these tensors.
    """

    turns: tuple[int, ...]
    inplace: Mapping[tuple[str, ...], tuple[int, ...]]

    @property
    def bytes(self) -> int:
        return max(self.turns)

    def peak(self, inplace: tuple[str, ...]) -> int:
        """Live bytes in the fullest turn where rows are made in place of one of these tensors."""
        return max(self.inplace.get(inplace, self.turns))

    def need(self, form: Form) -> int:
        """Live bytes with the form's scratch, which is the same in all turns."""
        return self.peak(form.inplace) + form.scratch_bytes

    def tight(self, form: Form, limit: int) -> tuple[int, ...]:
        """The turns in which the form's scratch is too much; of more than a word has bits, with those between them."""
        room = limit - form.scratch_bytes
        found = [turn for turn, live in enumerate(self.inplace.get(form.inplace, self.turns)) if live > room]
        return tuple(range(found[0], found[-1] + 1)) if found and len(self.turns) > TURN_BITS else tuple(found)


def uses_of(problem: Problem) -> Uses:
    """Makers and readers of every tensor of the problem."""
    maker = dict.fromkeys(problem.inputs, -1)
    maker |= {name: i for i, layer in enumerate(problem.layers) for name in layer.writes}
    first: dict[str, int] = {}
    last: dict[str, int] = {}
    for i, layer in enumerate(problem.layers):
        for name in layer.reads:
            first.setdefault(name, i)
            last[name] = i
    last |= dict.fromkeys(problem.outputs, len(problem.layers))
    ends = {name: max(made, 0) for name, made in maker.items()}
    return Uses(maker, ends | first, ends | last)


def round_up(value: int, unit: int) -> int:
    """The least multiple of `unit` that is not below `value`."""
    return -(-value // unit) * unit


def reads_of(problem: Problem, turn: Turn) -> list[tuple[Tensor, Sequence[int]]]:
    """The rows that a turn reads of each tensor."""
    layer = problem.layers[turn[0]]
    tensors = [problem.tensors[name] for name in layer.reads]
    if turn[1] == WHOLE:
        return [(tensor, range(tensor.rows)) for tensor in tensors]
    assert layer.walk is not None
    return [(tensor, layer.walk.needs[turn[1]]) for tensor in tensors]


def writes_of(problem: Problem, turn: Turn) -> list[tuple[Tensor, Sequence[int]]]:
    """The rows that a turn makes of each tensor."""
    layer = problem.layers[turn[0]]
    tensors = [problem.tensors[name] for name in layer.writes]
    if turn[1] == WHOLE:
        return [(tensor, range(tensor.rows)) for tensor in tensors]
    assert layer.walk is not None
    made = layer.walk.made(turn[1])
    return [(tensor, made) for tensor in tensors] if made else []


Life = tuple[int, int]  # born, dies: turns, both included


def lifetimes(problem: Problem, turns: Sequence[Turn], start: int, stop: int, uses: Uses) -> dict[str, list[Life]]:
    """Of each row of each tensor that is alive in the turns of layers [start, stop): when, in turns from 0.

    A row that is dead before the group, or that is never there, is (0, -1).
    """
    born: dict[str, list[int]] = {}
    dies: dict[str, list[int]] = {}
    end = len(turns) - 1
    for name in problem.tensors:
        found = _before_turns(problem, name, end, start, stop, uses)
        if found is not None:
            born[name], dies[name] = found
    for number, turn in enumerate(turns):
        for tensor, rows in reads_of(problem, turn):
            if uses.last[tensor.name] < stop:
                for row in rows:
                    if not problem.stays(tensor.name, row):
                        dies[tensor.name][row] = number
            if problem.by_rows and tensor.name in problem.inputs and rows:
                _arrive(born[tensor.name], max(rows), number)
        for tensor, rows in writes_of(problem, turn):
            for row in rows:
                born[tensor.name][row] = number
                dies[tensor.name][row] = max(dies[tensor.name][row], number)
    return {name: [_life(*life) for life in zip(born[name], dies[name], strict=True)] for name in born}


def _before_turns(
    problem: Problem, name: str, end: int, start: int, stop: int, uses: Uses
) -> tuple[list[int], list[int]] | None:
    """(born, dies) of a tensor's rows as far as the turns 0 .. end do not decide them; end + 1 and -1: not known yet.

    None: the tensor has nothing to do with the layers [start, stop).
    """
    rows, maker, last = problem.tensors[name].rows, uses.maker[name], uses.last[name]
    arrives = problem.by_rows and name in problem.inputs
    there = maker < start and not (arrives and uses.first[name] >= start)
    made = start <= maker < stop or (arrives and start <= uses.first[name] < stop)
    kept = problem.kept.get(name, 0)
    if not made and not (there and last >= start) and not kept:
        return None
    born = [0 if there or row < kept else end + 1 for row in range(rows)]
    used_later = (there or made) and last >= stop
    given = start == 0 and problem.is_resident(name)  # also rows that nobody reads
    dies = [end if used_later else 0 if given else -1] * rows
    for row in range(rows):
        waits = row < kept and maker >= stop  # of the call before, to be read later in this one
        if waits or (maker < stop and problem.stays(name, row)):
            dies[row] = end
    return born, dies


def _arrive(born: list[int], row: int, number: int) -> None:
    """Rows come in order: those up to `row` are there by this turn."""
    for r in range(row, -1, -1):
        if born[r] <= number:
            return
        born[r] = number


def _life(born: int, dies: int) -> Life:
    return (born, dies) if born <= dies else (0, -1)


def dying_rows(
    problem: Problem, turn: Turn, name: str, lives: Mapping[str, Sequence[Life]], number: int
) -> tuple[int, ...]:
    """The rows of tensor `name` whose bytes the output rows of the turn may take, one each: of the topmost that it
    reads, as many as it makes, those that die here, if they have as many bytes."""
    layer = problem.layers[turn[0]]
    made = writes_of(problem, turn)
    if layer.walk is None or turn[1] == WHOLE or not made:
        return ()
    if problem.tensors[name].row_bytes != made[0][0].row_bytes:
        return ()
    top = layer.walk.needs[turn[1]][: len(made[0][1])]
    return tuple(row for row in top if lives[name][row][1] == number)


def is_inside(name: str, start: int, stop: int, uses: Uses) -> bool:
    """Whether a tensor is made and used up within layers [start, stop)."""
    return start <= uses.maker[name] and uses.last[name] < stop


def loads_of(problem: Problem, turns: Sequence[Turn], start: int, stop: int, uses: Uses) -> tuple[Load, ...]:
    """The load of each layer of the group."""
    lives = lifetimes(problem, turns, start, stop, uses)
    changes = [0] * (len(turns) + 1)
    for name, rows in lives.items():
        size = round_up(problem.tensors[name].row_bytes, problem.unit)
        for born, dies in rows:
            if born <= dies:
                changes[born] += size
                changes[dies + 1] -= size
    for index in range(start, stop):
        walk = problem.layers[index].walk
        if walk is not None and walk.accumulates and turns[0][1] != WHOLE:
            own = [number for number, turn in enumerate(turns) if turn[0] == index]
            changes[0 if problem.early_sums else own[0]] += round_up(walk.accumulator_bytes, problem.unit)
            changes[own[-1] + 1] -= round_up(walk.accumulator_bytes, problem.unit)
    live = list(accumulate(changes))
    numbers: dict[int, list[int]] = {index: [] for index in range(start, stop)}
    for number, turn in enumerate(turns):
        numbers[turn[0]].append(number)
    if turns[0][1] == WHOLE:
        return (_whole_load(problem, start, live[0], uses),)
    return tuple(_row_load(problem, turns, own, live, lives, (start, stop), uses) for own in numbers.values())


def _whole_load(problem: Problem, index: int, most: int, uses: Uses) -> Load:
    layer = problem.layers[index]
    saved = round_up(problem.tensors[layer.writes[0]].size, problem.unit)
    found = {form.inplace for form in layer.whole_forms}
    dying = {name for name in layer.reads if uses.last[name] == index}
    return Load((most,), {names: (most - saved * bool(dying.intersection(names)),) for names in found})


def _row_load(
    problem: Problem,
    turns: Sequence[Turn],
    numbers: Sequence[int],
    live: Sequence[int],
    lives: Mapping[str, Sequence[Life]],
    group: tuple[int, int],
    uses: Uses,
) -> Load:
    """numbers: of the layer's turns."""
    layer: Layer = problem.layers[turns[numbers[0]][0]]
    found = {}
    for names in {form.inplace for form in layer.row_forms if form.inplace}:
        inside = [name for name in names if is_inside(name, *group, uses)]
        if not inside or not is_inside(layer.writes[0], *group, uses):
            continue
        saved = round_up(problem.tensors[layer.writes[0]].row_bytes, problem.unit)
        dying = (
            max(len(dying_rows(problem, turns[number], name, lives, number)) for name in inside) for number in numbers
        )
        found[names] = tuple(live[number] - saved * count for number, count in zip(numbers, dying, strict=True))
    return Load(tuple(live[number] for number in numbers), found)
