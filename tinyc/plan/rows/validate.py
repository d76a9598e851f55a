# SPDX-License-Identifier: Apache-2.0
"""An independent check of a streamed plan: run its turns on an array that knows who owns each byte.

Uses nothing of the planner but the words of `problem.py`. Every read must find the row that it asks for, every write
may only take bytes that belong to nobody, or exactly those of a dying row where the form allows it.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from tinyc.plan.answer import StreamPlan
from tinyc.plan.problem import WHOLE, Form, Layer
from tinyc.plan.validate import InvalidPlanError

NOBODY = -1
_SCRATCH = -2

Row = tuple[str, int]


def validate(plan: StreamPlan) -> None:
    """Raise InvalidPlanError unless the plan computes the model: turns, places, owners, bounds."""
    _check_turns(plan)
    _check_places(plan)
    _Replay(plan).run()


def _require(holds: bool, message: str) -> None:
    if not holds:
        raise InvalidPlanError(message)


def _check_turns(plan: StreamPlan) -> None:
    """Every layer runs once: whole, or all its rows from the first to the last; and in its group's time."""
    counts: dict[int, list[int]] = {index: [] for index in range(len(plan.problem.layers))}
    expected = 0
    for group in plan.groups:
        _require(group.start == expected and group.stop > group.start, "groups leave out a layer")
        expected = group.stop
        for index, row in group.turns:
            _require(group.start <= index < group.stop, f"layer {index} runs outside its group")
            counts[index].append(row)
    _require(expected == len(plan.problem.layers), "groups leave out a layer")
    for index, rows in counts.items():
        walk = plan.problem.layers[index].walk
        by_rows = walk is not None and rows == list(range(walk.turns)) and plan.forms[index].row is not None
        _require(by_rows or (rows == [WHOLE] and plan.forms[index].row is None), f"layer {index} does not run once")


def _check_places(plan: StreamPlan) -> None:
    problem = plan.problem
    spans = [
        (f"row {row} of '{t.name}'", at, t.row_bytes)
        for t in problem.tensors.values()
        for row, at in enumerate(plan.row_offsets[t.name])
    ]
    for layer, form in zip(problem.layers, plan.forms, strict=True):
        places = plan.scratch_offsets.get(layer.node, ())
        _require(not form.scratch_bytes or len(places) > 0, f"scratch of '{layer.node}' has no place")
        spans += [(f"scratch of '{layer.node}'", at, form.scratch_at(turn)) for turn, at in enumerate(places)]
        _require(all(at % problem.scratch_unit == 0 for at in places), f"scratch of '{layer.node}' is not aligned")
    for move in plan.moves:
        tensor = problem.tensors[move.tensor]
        spans += [(f"row {move.row} of '{move.tensor}', moved,", at, move.size) for at in (move.source, move.target)]
        _require(move.size == tensor.row_bytes, f"a part of a row of '{move.tensor}' moves")
        _require(move.target % problem.unit == 0, f"a row of '{move.tensor}' is not aligned")
        stays = problem.is_resident(move.tensor) or move.tensor in problem.outputs or problem.hop
        _require(not stays, f"a row of '{move.tensor}' moves, which must stay")
    for what, at, size in spans:
        _require(0 <= at <= plan.arena_bytes - size, f"{what} leaves the arena")
    for name, tensor in problem.tensors.items():
        first = plan.row_offsets[name][0]
        _require(first % problem.unit == 0, f"'{name}' is not aligned")
        if not plan.is_contiguous(name):
            _require(all(at % problem.unit == 0 for at in plan.row_offsets[name]), f"a row of '{name}' is not aligned")
            _require(
                not problem.is_resident(name) and name not in problem.outputs, f"'{tensor.name}' must be contiguous"
            )
    _require(plan.lower_bound_bytes <= plan.arena_bytes, "the arena is smaller than its lower bound")


class _Replay:
    """The arena's owners while the turns run. Rows have numbers from 0."""

    def __init__(self, plan: StreamPlan) -> None:
        self.plan, self.problem = plan, plan.problem
        self.owner = np.full(plan.arena_bytes, NOBODY, np.int64)
        names = [(t.name, row) for t in self.problem.tensors.values() for row in range(t.rows)]
        self.number = {row: i for i, row in enumerate(names)}
        self.left = self._reads_left()
        self.arrived = dict.fromkeys(self.problem.inputs, 0)
        self.places = {row: plan.row_offsets[row[0]][row[1]] for row in names}  # they change where rows move
        self.moves = list(plan.moves)

    def _reads_left(self) -> dict[Row, int]:
        """How often each row will be read; once more for outputs, which nobody may overwrite."""
        left = dict.fromkeys(self.number, 0)
        for turn in self.plan.turns:
            for row in self._reads(*turn):
                left[row] += 1
        for name, number in left:
            left[name, number] += name in self.problem.outputs or self.problem.stays(name, number)
        return left

    def _reads(self, index: int, row: int) -> list[Row]:
        layer = self.problem.layers[index]
        if row == WHOLE:
            return [(name, r) for name in layer.reads for r in range(self.problem.tensors[name].rows)]
        assert layer.walk is not None
        return [(name, r) for name in layer.reads for r in layer.walk.needs[row]]

    def _writes(self, index: int, row: int) -> list[Row]:
        layer = self.problem.layers[index]
        if row == WHOLE:
            return [(name, r) for name in layer.writes for r in range(self.problem.tensors[name].rows)]
        assert layer.walk is not None
        return [(layer.writes[0], made) for made in layer.walk.made(row)]

    def run(self) -> None:
        for name, tensor in self.problem.tensors.items():
            given = tensor.rows if name in self.problem.inputs and not self.problem.by_rows else 0
            for row in range(max(given, self.problem.kept.get(name, 0))):
                if self.left[name, row]:
                    self._claim((name, row), "the caller")
        accumulators: dict[int, tuple[int, int]] = {}
        for number, (index, row) in enumerate(self.plan.turns):
            self._move(number)
            self._turn(index, row, accumulators)
        _require(not self.moves, "a row moves after the last turn")
        for name, tensor in self.problem.tensors.items():
            for row in range(tensor.rows):
                if name in self.problem.outputs or self.problem.stays(name, row):
                    _require(self._intact((name, row)), f"row {row} of '{name}' is overwritten before the end")

    def _move(self, turn: int) -> None:
        """Rows that move before a turn."""
        while self.moves and self.moves[0].turn == turn:
            move = self.moves.pop(0)
            row = (move.tensor, move.row)
            what = f"row {move.row} of '{move.tensor}'"
            _require(self.places[row] == move.source, f"{what} moves from where it is not")
            _require(self._intact(row), f"{what} moves when its bytes are overwritten")
            self._release(row)
            self.places[row] = move.target
            self._claim(row, f"a move of {what}")

    def _turn(self, index: int, row: int, accumulators: dict[int, tuple[int, int]]) -> None:
        layer, form = self.problem.layers[index], self.plan.forms[index]
        where = f"layer '{layer.node}'" + (f", row {row}" if row != WHOLE else "")
        reads = self._reads(index, row)
        self._arrive(reads)
        for read in reads:
            _require(self._intact(read), f"{where} reads row {read[1]} of '{read[0]}', whose bytes are overwritten")
        self._accumulator(layer, row, where)
        scratch = self._scratch(layer, form, row, where)
        writes = self._writes(index, row)
        for read in reads:
            self.left[read] -= 1
        dying = [read for read in dict.fromkeys(reads) if not self.left[read]]
        hosts = self._hosts(layer, form, row, dying, writes)
        for host in hosts:
            self._release(host)
        for write in writes:
            self._claim(write, where)
        for gone in (*dying, *(write for write in writes if not self.left[write])):
            if gone not in hosts:
                self._release(gone)
        self.owner[scratch] = NOBODY
        if layer.walk is not None and layer.walk.accumulates and row == layer.walk.turns - 1:
            self.owner[self._accumulator_bytes(layer)] = NOBODY

    def _arrive(self, reads: Sequence[Row]) -> None:
        """Input rows come in order, right before the turn that reads them."""
        if not self.problem.by_rows:
            return
        for name, row in reads:
            while name in self.arrived and self.arrived[name] <= row:
                arriving = (name, self.arrived[name])
                if self.left[arriving]:
                    self._claim(arriving, "the caller")
                self.arrived[name] += 1

    def _hosts(self, layer: Layer, form: Form, row: int, dying: Sequence[Row], writes: Sequence[Row]) -> list[Row]:
        """The dying rows whose very bytes the turn writes, where its form allows it."""
        if row == WHOLE:
            starts = {name for name in form.inplace if self.plan.offset(name) == self.plan.offset(layer.writes[0])}
            return [gone for gone in dying if gone[0] in starts]
        assert layer.walk is not None
        top = sorted(layer.walk.needs[row])[: len(writes)]
        places = [self._bytes(write) for write in writes]
        found = [gone for gone in dying if gone[0] in form.inplace and gone[1] in top and self._bytes(gone) in places]
        return [gone for gone in found if gone[0] == found[0][0]]

    def _scratch(self, layer: Layer, form: Form, row: int, where: str) -> slice:
        size = form.scratch_at(row)
        if not size:
            return slice(0, 0)
        at = self.plan.scratch_offsets[layer.node][max(row, 0)]
        there = slice(at, at + size)
        _require(bool((self.owner[there] == NOBODY).all()), f"scratch of {where} lies where something is alive")
        self.owner[there] = _SCRATCH
        return there

    def _accumulator_bytes(self, layer: Layer) -> slice:
        assert layer.walk is not None
        at = self.plan.accumulator_offsets[layer.node]
        return slice(at, at + layer.walk.accumulator_bytes)

    def _accumulator(self, layer: Layer, row: int, where: str) -> None:
        """Taken at row 0, still there at every later row."""
        if row == WHOLE or layer.walk is None or not layer.walk.accumulates:
            return
        owned = _SCRATCH - 1 - self.problem.layers.index(layer)
        there = self._accumulator_bytes(layer)
        _require(there.stop <= len(self.owner), f"the accumulator of {where} leaves the arena")
        wanted = NOBODY if row == 0 else owned
        _require(bool((self.owner[there] == wanted).all()), f"the accumulator of {where} shares its bytes")
        self.owner[there] = owned

    def _bytes(self, row: Row) -> slice:
        at = self.places[row]
        return slice(at, at + self.problem.tensors[row[0]].row_bytes)

    def _intact(self, row: Row) -> bool:
        return bool((self.owner[self._bytes(row)] == self.number[row]).all())

    def _claim(self, row: Row, who: str) -> None:
        there = self._bytes(row)
        free = bool((self.owner[there] == NOBODY).all())
        _require(free, f"{who} writes row {row[1]} of '{row[0]}' where something is alive")
        self.owner[there] = self.number[row]

    def _release(self, row: Row) -> None:
        there = self.owner[self._bytes(row)]
        there[there == self.number[row]] = NOBODY
