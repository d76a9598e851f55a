# SPDX-License-Identifier: Apache-2.0
"""The turns of a plan, run on an array that knows who owns each byte: what `validate.py` does last.

Uses nothing of the planner but the words of `problem.py`. A turn may read only bytes that still belong to the row it
asks for, and may write only bytes that belong to nobody, with two exceptions that are checked for what they are: in
place, and row by row over its own used-up input.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import field

import numpy as np
import numpy.typing as npt

from tinyc.base.dataclass import dataclass
from tinyc.kernel.kernel import Across, Rows
from tinyc.plan.answer import Move
from tinyc.plan.problem import WHOLE, Form, Layer, Problem, SlidingInput, Turn

NOBODY = -1
SCRATCH = -2

Row = tuple[str, int]


class InvalidPlanError(Exception):
    """The planner is wrong: which turn, which bytes. Never the user's fault."""


def require(holds: bool, message: str) -> None:
    """Raise InvalidPlanError with the message unless it holds."""
    if not holds:
        raise InvalidPlanError(message)


@dataclass(frozen=True, slots=True)
class PlanRun:
    """What is checked: turns, the form of each layer, and places of rows, of the scratch of turns, of accumulators."""

    problem: Problem
    turns: Sequence[Turn]
    forms: Sequence[Form]
    places: Mapping[Row, int]
    scratch: Mapping[Turn, int]
    arena_bytes: int
    accumulators: Mapping[int, int] = field(default_factory=dict)
    moves: Sequence[Move] = ()
    bottom_up: frozenset[int] = frozenset()

    def reads(self, turn: Turn) -> list[Row]:
        layer = self.problem.layers[turn[0]]
        if turn[1] == WHOLE:
            return [(name, row) for name in layer.reads for row in range(self.problem.tensors[name].rows)]
        assert layer.walk is not None
        return [(name, row) for name in layer.reads for row in layer.walk.needs[turn[1]]]

    def writes(self, turn: Turn) -> list[Row]:
        layer = self.problem.layers[turn[0]]
        if turn[1] == WHOLE:
            return [(name, row) for name in layer.writes for row in range(self.problem.tensors[name].rows)]
        assert layer.walk is not None
        return [(layer.writes[0], row) for row in layer.walk.output_rows(turn[1])]

    def lives(self) -> dict[Row, tuple[int, int]]:
        """[born, dies) of each row that a turn makes or reads: from the first such turn on, up to the last one that
        reads it, or to the end."""
        first: dict[Row, int] = {}
        for number, turn in enumerate(self.turns):
            for row in (*self.reads(turn), *self.writes(turn)):
                first.setdefault(row, number)
        last, count = self.last_use(), len(self.turns)
        return {row: (born, min(max(last[row], born) + 1, count)) for row, born in first.items()}

    def last_use(self) -> dict[Row, int]:
        """The last turn that reads each row; the number of turns for what the caller gets, -1 for never."""
        last = dict.fromkeys(self.places, -1)
        for number, turn in enumerate(self.turns):
            last.update(dict.fromkeys(self.reads(turn), number))
        for name, row in last:
            if name in self.problem.outputs or self.problem.stays(name, row):
                last[name, row] = len(self.turns)
        for index, _ in self.turns:
            for name in self.problem.layers[index].writes:
                if name in self.problem.joins:  # whoever reads a part reads the join
                    parts = self.problem.joins[name]
                    last[name, 0] = max(last[name, 0], *(last[part.name, 0] for part in parts))
        return last


class Replay:
    """The arena's owners while the turns run."""

    def __init__(self, run: PlanRun) -> None:
        self.of, self.problem = run, run.problem
        self.last = run.last_use()
        sizes = {row: run.problem.tensors[row[0]].row_bytes for row in run.places}
        self.arena = _Arena(run.arena_bytes, sizes, run.places)
        self.arrived = dict.fromkeys(run.problem.inputs, 0)
        self.moves = list(run.moves)

    def run(self) -> None:
        """Raise InvalidPlanError at the first turn that reads or writes what it may not."""
        for name, tensor in self.problem.tensors.items():
            given = tensor.rows if name in self.problem.inputs and not self.problem.by_rows else 0
            for row in range(max(given, self.problem.carried.get(name, 0))):
                if self.last[name, row] >= 0 or (given and not self.problem.hop):
                    self.arena.claim((name, row), "the caller")
        self.arena.release(row for row in self.of.places if self.last[row] < 0)
        for number, turn in enumerate(self.of.turns):
            self._move(number)
            self._arrive(turn)
            layer = self.problem.layers[turn[0]]
            if layer.writes and layer.writes[0] in self.problem.joins:
                self._join(layer)
            else:
                self._turn(number, turn)
            joins = [(name, 0) for name in self.problem.joins]
            self.arena.release(row for row in (*self.of.reads(turn), *joins) if self.last[row] == number)
            self.arena.release(row for row in self.of.writes(turn) if self.last[row] < 0)
        require(not self.moves, "a row moves after the last turn")
        for survivor, last in self.last.items():
            held = last < len(self.of.turns) or self.arena.intact(survivor)
            require(held, f"{_name(survivor)} is overwritten before the run ends")

    def _move(self, number: int) -> None:
        """Rows that move before a turn."""
        while self.moves and self.moves[0].turn == number:
            move = self.moves.pop(0)
            row = (move.tensor, move.row)
            require(self.arena.places[row] == move.source, f"{_name(row)} moves from where it is not")
            require(self.arena.intact(row), f"{_name(row)} moves when its bytes are overwritten")
            apart = move.target >= move.source + move.size
            require(move.target <= move.source or apart, f"{_name(row)} moves up, over bytes that it still reads")
            self.arena.release([row])
            self.arena.places[row] = move.target
            self.arena.claim(row, "a move")

    def _arrive(self, turn: Turn) -> None:
        """Input rows come in order, right before the turn that reads them; the first before all turns."""
        first = [(name, 0) for name in self.problem.inputs]
        for name, row in (*first, *self.of.reads(turn)) if self.problem.by_rows else ():
            while name in self.arrived and self.arrived[name] <= row:
                arriving = (name, self.arrived[name])
                if self.last[arriving] >= 0:
                    self.arena.claim(arriving, "the caller")
                self.arrived[name] += 1

    def _join(self, layer: Layer) -> None:
        """Nothing runs: the inputs lie one after the other where the output is, and are the output from now on."""
        output, end, problem, places = layer.writes[0], 0, self.problem, self.arena.places
        parts = problem.joins[output]
        require(len(layer.writes) == 1 and not layer.whole.scratch_bytes, f"join '{layer.node}' does something")
        require(tuple(part.name for part in parts) == layer.reads, f"join '{layer.node}' has other parts")
        for part in parts:
            there = places[part.name, 0] - places[output, 0]
            require(part.offset == there == end, f"'{part.name}' is not where '{output}' has it")
            require(self.arena.intact((part.name, 0)), f"join '{layer.node}': '{part.name}' is overwritten")
            end += problem.tensors[part.name].size
        require(end == problem.tensors[output].size, f"'{output}' is not all parts of it")
        for part in parts:
            self.arena.become((part.name, 0), (output, 0))

    def _turn(self, number: int, turn: Turn) -> None:
        index, row = turn
        layer, form = self.problem.layers[index], self.of.forms[index]
        where = f"step '{layer.node}'" + (f", row {row}" if row != WHOLE else "")
        reads, writes = self.of.reads(turn), self.of.writes(turn)
        for read in reads:
            require(self.arena.intact(read), f"{where} reads {_name(read)}, whose bytes are overwritten")
        ended = self._accumulate(turn, where)
        scratch = slice(0, 0)
        if size := form.scratch_at(row):
            scratch = slice(self.of.scratch[turn], self.of.scratch[turn] + size)
            self.arena.take(scratch, SCRATCH, f"scratch of {where}")
        dying = [read for read in dict.fromkeys(reads) if self.last[read] == number]
        hosts = self._hosts(turn, dying)
        self.arena.release(hosts)
        sliding = form.sliding
        if sliding is not None and not hosts and (sliding.tensor, 0) in dying and row == WHOLE:
            bottom_up = index in self.of.bottom_up
            require(not (bottom_up and sliding.forward), f"{where} cannot run bottom-up")
            if sliding.rows.across is not None and sliding.forward:
                _walk_along(self.arena, sliding, writes.pop(0), where, sliding.rows.across)
            else:
                _walk(self.arena, sliding, writes.pop(0), where, bottom_up)
        for write in writes:
            self.arena.claim(write, where)
        self.arena.owner[scratch] = NOBODY
        self.arena.owner[ended] = NOBODY

    def _hosts(self, turn: Turn, dying: Sequence[Row]) -> list[Row]:
        """The dying rows whose very bytes the turn writes, where its form allows it."""
        layer, allowed, places = self.problem.layers[turn[0]], self.of.forms[turn[0]].inplace, self.arena.places
        if not layer.writes:
            return []
        if turn[1] == WHOLE:
            starts = {name for name in allowed if places[name, 0] == places[layer.writes[0], 0]}
            return [gone for gone in dying if gone[0] in starts]
        assert layer.walk is not None
        writes = self.of.writes(turn)
        top = sorted(layer.walk.needs[turn[1]])[: len(writes)]
        taken = [self.arena.span(write) for write in writes]
        hosts = [gone for gone in dying if gone[0] in allowed and gone[1] in top and self.arena.span(gone) in taken]
        return [gone for gone in hosts if gone[0] == hosts[0][0]]

    def _accumulate(self, turn: Turn, where: str) -> slice:
        """An accumulator is taken at row 0 and still there at every later row. The bytes that the turn frees: the last
        one does."""
        index, row = turn
        walk = self.problem.layers[index].walk
        if row == WHOLE or walk is None or not walk.accumulates:
            return slice(0, 0)
        at, owner = self.of.accumulators[index], SCRATCH - 1 - index
        there = slice(at, at + walk.accumulator_bytes)
        require(at >= 0 and there.stop <= self.of.arena_bytes, f"the accumulator of {where} leaves the arena")
        if row == 0:
            self.arena.take(there, owner, f"the accumulator of {where}")
        require(self.arena.owned(there, owner), f"the accumulator of {where} shares its bytes")
        return there if row == walk.turns - 1 else slice(0, 0)


def _name(row: Row) -> str:
    return f"row {row[1]} of '{row[0]}'"


def _walk(arena: _Arena, sliding: SlidingInput, write: Row, where: str, bottom_up: bool) -> None:
    """Call by call: the input rows are intact when they are read, and none that is still needed is written.

    A call's own rows are needed until it ends, those of a buffered call until it writes.
    """
    x, rows = (sliding.tensor, 0), sliding.rows
    calls = list(range(0, rows.out_h, rows.out_rows))
    if bottom_up:
        calls.reverse()
    reads = [_rows_read(rows, start) for start in calls]
    last_call = {row: number for number, read in enumerate(reads) for row in read}
    for number, start in enumerate(calls):
        what = f"{where}, output row {start}"
        for row in reads[number]:
            span = slice(row * rows.in_row_bytes, (row + 1) * rows.in_row_bytes)
            require(arena.span_intact(x, span), f"{what}: input row {row} is overwritten")
        size = (min(start + rows.out_rows, rows.out_h) - start) * rows.out_row_bytes
        destroyed = arena.write_over(x, write, start * rows.out_row_bytes, size, what) // rows.in_row_bytes
        for row in sorted(set(destroyed.tolist())):
            until = last_call.get(row, -1)
            gone = until < number or (until == number and rows.buffered)
            require(gone, f"{what} overwrites input row {row}, which is still needed")


def _walk_along(arena: _Arena, sliding: SlidingInput, write: Row, where: str, across: Across) -> None:
    """Piece by piece: every byte is the input's still when it is read; a call reads each column once."""
    x, rows = (sliding.tensor, 0), sliding.rows
    in_w, out_w = rows.in_row_bytes // across.in_step, rows.out_row_bytes // across.out_step
    for start in range(0, rows.out_h, rows.out_rows):
        columns_read = 0
        for number in range(-(-out_w // across.columns)):
            what = f"{where}, output row {start}, piece {number}"
            until = min(max(across.ahead + number * across.columns * across.stride, columns_read), in_w)
            for row in _rows_read(rows, start):
                at = row * rows.in_row_bytes
                span = slice(at + columns_read * across.in_step, at + until * across.in_step)
                require(arena.span_intact(x, span), f"{what}: input row {row} is overwritten")
            columns_read = until
            left = number * across.columns
            size = (min(left + across.columns, out_w) - left) * across.out_step
            for row in range(start, min(start + rows.out_rows, rows.out_h)):
                arena.write_over(x, write, row * rows.out_row_bytes + left * across.out_step, size, what)


def _rows_read(rows: Rows, start: int) -> set[int]:
    taps = (
        r * rows.stride + k * rows.dilation - rows.pad_top
        for r in range(start, min(start + rows.out_rows, rows.out_h))
        for k in range(rows.k_h)
    )
    return {i for i in taps if 0 <= i < rows.in_h}


class _Arena:
    """Who owns each byte. Rows have numbers from 0; NOBODY, SCRATCH and accumulators are below."""

    def __init__(self, arena_bytes: int, sizes: Mapping[Row, int], places: Mapping[Row, int]) -> None:
        self.owner = np.full(arena_bytes, NOBODY, np.int64)
        self.sizes, self.places = sizes, dict(places)  # which change where rows move
        self.number = {row: i for i, row in enumerate(places)}
        self.part_of: dict[Row, Row] = {}  # tensors that are parts of a join now

    def span(self, row: Row) -> slice:
        return slice(self.places[row], self.places[row] + self.sizes[row])

    def owned(self, span: slice, owner: int) -> bool:
        return bool((self.owner[span] == owner).all())

    def intact(self, row: Row) -> bool:
        return self.owned(self.span(row), self.number[row])

    def span_intact(self, row: Row, inside: slice) -> bool:
        at = self.places[row]
        return self.owned(slice(at + inside.start, at + inside.stop), self.number[row])

    def take(self, span: slice, owner: int, who: str) -> None:
        free = self.owned(span, NOBODY)
        require(free, f"{who} writes [{span.start}, {span.stop}), where something is alive")
        self.owner[span] = owner

    def claim(self, row: Row, who: str) -> None:
        self.take(self.span(row), self.number[row], f"{who}: {_name(row)}")

    def write_over(self, x: Row, y: Row, start: int, size: int, where: str) -> npt.NDArray[np.int64]:
        """Write bytes of y, over nobody's bytes or x's; which bytes of x this destroys, counted from its first."""
        at = self.places[y] + start
        there = self.owner[at : at + size]
        of_x = there == self.number[x]
        require(bool((of_x | (there == NOBODY)).all()), f"{where} overwrites bytes of something else")
        there[:] = self.number[y]
        return np.flatnonzero(of_x) + at - self.places[x]

    def become(self, part: Row, whole: Row) -> None:
        """The bytes of `part` are those of `whole`; who asks for the part finds them."""
        self.owner[self.span(part)] = self.number[whole]
        for row in (part, *(row for row, of in self.part_of.items() if of == part)):
            self.number[row], self.part_of[row] = self.number[whole], whole

    def release(self, rows: Iterable[Row]) -> None:
        """What is left of these rows belongs to nobody; parts of a join go with it."""
        for row in rows:
            if row not in self.part_of:
                there = self.owner[self.span(row)]
                there[there == self.number[row]] = NOBODY
