# SPDX-License-Identifier: Apache-2.0
"""The order of the turns of layers that run row by row, what waits for which input row, and which rows move."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

import numpy as np

from tinyc.emit.constants import ConstPool
from tinyc.emit.program import Incremental, RowInput, RowMoves, Stream
from tinyc.emit.row_tables import arriving
from tinyc.ir.graph import Graph
from tinyc.kernel.kernel import Const
from tinyc.plan.answer import Plan
from tinyc.plan.liveness import reads_of
from tinyc.plan.problem import Problem, Turn

_SEEN_BYTES = 4  # the count of rows
_MOVES = "rows that move"


def streams_of(plan: Plan, steps: Mapping[int, int]) -> tuple[Stream, ...]:
    """The groups whose layers run row by row. steps: the number of each layer's."""
    streams, number = [], 0
    for group in plan.groups:
        if not group.is_whole:
            turns = [turn for turn, _ in _with_moves(plan, number, number + len(group.turns))]
            own = tuple(steps[index] for index in range(group.start, group.stop))
            streams.append(Stream(own, len(group.turns), _order(turns)))
        number += len(group.turns)
    return tuple(streams)


def _with_moves(plan: Plan, start: int, stop: int) -> Iterator[tuple[Turn, bool]]:
    """Turns start ... stop - 1, before each the moves made then as turns of a step behind the last; and which those
    are."""
    step = len(plan.problem.layers)
    for number, turn in enumerate(plan.turns[start:stop], start):
        for i, move in enumerate(plan.moves):
            if move.turn == number:
                yield (step, i), True
        yield turn, False


def moves_between_turns(plan: Plan, pool: ConstPool) -> RowMoves:
    """As the library copies them."""
    unit = plan.problem.unit
    triples = [(move.source // unit, move.target // unit, -(-move.size // unit)) for move in plan.moves]
    table = Const(np.array(triples, np.uint16), f"{_MOVES}: from, to, size, in units of {unit} bytes", "row_moves")
    pool.add(table, "")
    return RowMoves(unit, table)


def _order(turns: Sequence[Turn]) -> Const:
    pairs = np.array([(step, max(row, 0)) for step, row in turns])
    data = pairs.astype(np.uint8 if pairs.max() < 256 else np.uint16)
    return Const(data, "", "row_order")


def given_by_rows(plan: Plan, pool: ConstPool) -> RowInput:
    """Turns wait for the last row that they, or turns before them, read."""
    (name,) = plan.problem.inputs
    tensor = plan.problem.tensors[name]
    waits, last = [], -1
    read: set[int] = set()
    turns = list(_with_moves(plan, 0, len(plan.turns)))
    for turn, is_move in turns:
        if is_move:  # right after the turn before
            waits.append(last)
            continue
        rows = [row for row_input, rows in reads_of(plan.problem, turn) if row_input.name == name for row in rows]
        read.update(rows)
        last = max([last, *rows])
        waits.append(last)
    counts = [sum(wait <= row for wait in waits) for row in range(tensor.rows)]
    counts[-1] = len(waits)
    lost = [row for row in range(tensor.rows) if row not in read]
    row_input = RowInput(
        count=tensor.rows,
        row_bytes=tensor.row_bytes,
        rows=arriving(plan.row_offsets[name], lost, plan.problem.unit, pool),
        loses_rows=bool(lost),
        order=_order([turn for turn, _ in turns]),
        turns=Const(np.array(counts, np.uint16), "turns that have run when an input row is there", "row_turns"),
    )
    pool.add(row_input.order, "")
    pool.add(row_input.turns, "input")
    return row_input


def incremental_of(graph: Graph, plan: Plan, pool: ConstPool) -> Incremental:
    """What one call of the library takes, makes and keeps for the next."""
    problem = plan.problem
    (name,) = problem.inputs
    tensor, carried = problem.tensors[name], problem.carried.get(name, 0)
    moves, spare = moves_of(plan, plan.arena_bytes + _SEEN_BYTES)
    read = _needed(plan)
    lost = [row - carried for row in range(carried, tensor.rows) if (name, row) not in read]
    incremental = Incremental(
        hop=problem.hop,
        window=window_rows(graph, problem),
        row_bytes=tensor.row_bytes,
        places=arriving(plan.row_offsets[name][carried:], lost, problem.unit, pool),
        loses_rows=bool(lost),
        order=_order(plan.turns),
        turns=len(plan.turns),
        moves=_moves_between_calls(moves) if moves else None,
        seen=plan.arena_bytes,
        extra_bytes=_SEEN_BYTES + -(-spare // 4) * 4,
    )
    pool.add(incremental.order, "")
    if incremental.moves is not None:
        pool.add(incremental.moves, "")
    return incremental


def window_rows(graph: Graph, problem: Problem) -> int:
    """Of the model's input, whichever of its axes they are."""
    (name,) = problem.inputs
    return graph.values[name].size_bytes // problem.tensors[name].row_bytes


Move = tuple[int, int, int]  # from, to, bytes


def _moves_between_calls(moves: Sequence[Move]) -> Const:
    return Const(np.array(moves, np.uint16), f"{_MOVES} between two calls: from, to, size, in bytes", "row_moves")


def moves_of(plan: Plan, spare: int) -> tuple[list[Move], int]:
    """Moves that make a tensor's row r its row r - new of the next call; and how many bytes at `spare` they need. A row
    that nobody reads any more has no place of its own, and must not go where others are."""
    problem, needed = plan.problem, _needed(plan)
    pending: list[Move] = []
    for name in reversed([*problem.inputs, *(n for layer in problem.layers for n in layer.writes)]):
        tensor, carried = problem.tensors[name], problem.carried.get(name, 0)
        offsets = plan.row_offsets[name]
        new = tensor.rows - carried
        pairs = [(offsets[row + new], offsets[row]) for row in range(carried) if (name, row) in needed]
        pending += [(source, target, tensor.row_bytes) for source, target in pairs if source != target]
    return in_turn(pending, spare)


def _needed(plan: Plan) -> set[tuple[str, int]]:
    """(tensor, row) of all that a turn reads, of outputs, and of the last rows, which the next call has. Others have no
    place of their own."""
    problem = plan.problem
    needed = {(tensor.name, row) for turn in plan.turns for tensor, rows in reads_of(problem, turn) for row in rows}
    needed |= {(name, row) for name in problem.outputs for row in range(problem.tensors[name].rows)}
    for name, carried in problem.carried.items():
        rows = problem.tensors[name].rows
        needed |= {(name, row) for row in range(rows - carried, rows)}
    return needed


def in_turn(pending: Sequence[Move], spare: int) -> tuple[list[Move], int]:
    """The moves in an order in which no bytes are overwritten before they have moved, each by copying its bytes from
    the first to the last; and how many bytes at `spare` they need, where rows change places in a circle."""
    left, moves, used = list(pending), list[Move](), 0
    while left:
        free = [move for move in left if not any(_overwrites(move, other) for other in left if other != move)]
        if free:
            left.remove(free[0])
            for part in _parts(free[0]):
                _append(moves, part)
        else:
            source, target, size = left[0]
            moves.append((source, spare + used, size))
            left[0] = (spare + used, target, size)
            used += size
    return moves, used


def _parts(move: Move) -> Iterator[Move]:
    """The move; one to a higher address that overlaps its source in parts that do not, the last bytes first."""
    source, target, size = move
    step = target - source
    while 0 < step < size:
        size -= step
        yield source + size, target + size, step
    yield source, target, size


def _overwrites(move: Move, other: Move) -> bool:
    """Whether the move destroys what the other one still has to read."""
    return other[0] < move[1] + move[2] and move[1] < other[0] + other[2]


def _append(moves: list[Move], move: Move) -> None:
    """Together with the last one, where both lie behind each other and go to lower addresses."""
    source, target, size = move
    if moves:
        before = moves[-1]
        if (source, target) == (before[0] + before[2], before[1] + before[2]) and target < source:
            moves[-1] = (before[0], before[1], before[2] + size)
            return
    moves.append(move)
