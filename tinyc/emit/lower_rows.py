# SPDX-License-Identifier: Apache-2.0
"""Graph + streamed plan -> Program: a function per layer that makes one row, and the order of their calls."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

import numpy as np

from tinyc.base.names import identifier
from tinyc.base.numerics import Numerics
from tinyc.emit.constants import ConstPool
from tinyc.emit.lower import Lowering
from tinyc.emit.program import (
    LOST,
    Incremental,
    Place,
    Program,
    RowInput,
    RowMoves,
    RowStep,
    RowTable,
    Step,
    Stream,
)
from tinyc.ir.graph import Graph, Node
from tinyc.kernel.kernel import Const, In, RowForm, Rows
from tinyc.ops import all_ops
from tinyc.plan.answer import SLOW, StreamPlan
from tinyc.plan.problem import Form, Problem, Turn
from tinyc.plan.rows.live import reads_of

_TABLE_LIMIT = 2**16
_SEEN_BYTES = 4  # the count of rows
_WHERE = "where each row lies in the arena"
_MOVES = "rows that move"


def lower_streamed(
    graph: Graph,
    plan: StreamPlan,
    numerics: Numerics,
    name: str,
    input_perms: Mapping[str, tuple[int, ...]] | None = None,
) -> Program:
    """The Program of an integer graph whose rows have addresses. `name`, `input_perms`: as `lower` has them."""
    nodes = {node.name: node for node in graph.nodes}
    pool = ConstPool(identifier(name), {layer.node: nodes[layer.node] for layer in plan.problem.layers})
    lowering = Lowering(graph, pool, lambda value: _place(graph, value, plan))
    steps = [_step(lowering, index, nodes[layer.node], plan) for index, layer in enumerate(plan.problem.layers)]
    streams = tuple(_streams(plan))
    row_input = _row_input(plan, pool) if plan.problem.by_rows else None
    incremental = _incremental(graph, plan, pool) if plan.problem.hop else None
    for stream in streams:
        if row_input is None and incremental is None:
            pool.add(stream.order, f"steps_{stream.steps[0]}_to_{stream.steps[-1]}")
    moves = _moves(plan, pool) if plan.moves else None
    return replace(
        lowering.program(steps, plan, numerics, input_perms),
        arena_bytes=plan.arena_bytes + (incremental.extra_bytes if incremental else 0),
        streams=streams,
        row_input=row_input,
        incremental=incremental,
        moves=moves,
    )


def _streams(plan: StreamPlan) -> Iterator[Stream]:
    number = 0
    for group in plan.groups:
        if not group.is_whole:
            turns = [turn for turn, _ in _with_moves(plan, number, number + len(group.turns))]
            yield Stream(tuple(range(group.start, group.stop)), len(group.turns), _order(turns))
        number += len(group.turns)


def _with_moves(plan: StreamPlan, start: int, stop: int) -> Iterator[tuple[Turn, bool]]:
    """Turns start ... stop - 1, before each the moves made then as turns of a step behind the last; and which those
    are."""
    step = len(plan.problem.layers)
    for number, turn in enumerate(plan.turns[start:stop], start):
        for i, move in enumerate(plan.moves):
            if move.turn == number:
                yield (step, i), True
        yield turn, False


def _moves(plan: StreamPlan, pool: ConstPool) -> RowMoves:
    unit = plan.problem.unit
    triples = [(move.source // unit, move.target // unit, -(-move.size // unit)) for move in plan.moves]
    table = Const(np.array(triples, np.uint16), f"{_MOVES}: from, to, size, in units of {unit} bytes", "row_moves")
    pool.add(table, "")
    return RowMoves(unit, table)


def _order(turns: Sequence[Turn]) -> Const:
    pairs = np.array([(step, max(row, 0)) for step, row in turns])
    data = pairs.astype(np.uint8 if pairs.max() < 256 else np.uint16)
    return Const(data, "", "row_order")


def _row_input(plan: StreamPlan, pool: ConstPool) -> RowInput:
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
        rows = [row for found, rows in reads_of(plan.problem, turn) if found.name == name for row in rows]
        read.update(rows)
        last = max([last, *rows])
        waits.append(last)
    counts = [sum(wait <= row for wait in waits) for row in range(tensor.rows)]
    counts[-1] = len(waits)
    lost = [row for row in range(tensor.rows) if row not in read]
    found = RowInput(
        count=tensor.rows,
        row_bytes=tensor.row_bytes,
        rows=_arriving(plan.row_offsets[name], lost, plan.problem.unit, pool),
        loses_rows=bool(lost),
        order=_order([turn for turn, _ in turns]),
        turns=Const(np.array(counts, np.uint16), "turns that have run when an input row is there", "row_turns"),
    )
    pool.add(found.order, "")
    pool.add(found.turns, "input")
    return found


def _incremental(graph: Graph, plan: StreamPlan, pool: ConstPool) -> Incremental:
    problem = plan.problem
    (name,) = problem.inputs
    tensor, kept = problem.tensors[name], problem.kept.get(name, 0)
    moves, spare = moves_of(plan, plan.arena_bytes + _SEEN_BYTES)
    read = _needed(plan)
    lost = [row - kept for row in range(kept, tensor.rows) if (name, row) not in read]
    found = Incremental(
        hop=problem.hop,
        window=_window_rows(graph, problem),
        row_bytes=tensor.row_bytes,
        places=_arriving(plan.row_offsets[name][kept:], lost, problem.unit, pool),
        loses_rows=bool(lost),
        order=_order(plan.turns),
        turns=len(plan.turns),
        moves=_moves_between_calls(moves) if moves else None,
        seen=plan.arena_bytes,
        extra_bytes=_SEEN_BYTES + -(-spare // 4) * 4,
    )
    pool.add(found.order, "")
    if found.moves is not None:
        pool.add(found.moves, "")
    return found


def _window_rows(graph: Graph, problem: Problem) -> int:
    """Of the model's input, whichever of its axes they are."""
    (name,) = problem.inputs
    return graph.values[name].size_bytes // problem.tensors[name].row_bytes


Move = tuple[int, int, int]  # from, to, bytes


def _moves_between_calls(moves: Sequence[Move]) -> Const:
    return Const(np.array(moves, np.uint16), f"{_MOVES} between two calls: from, to, size, in bytes", "row_moves")


def moves_of(plan: StreamPlan, spare: int) -> tuple[list[Move], int]:
    """Moves that make a tensor's row r its row r - new of the next call; and how many bytes at `spare` they need. A row
    that nobody reads any more has no place of its own, and must not go where others are."""
    problem, needed = plan.problem, _needed(plan)
    pending: list[Move] = []
    for name in reversed([*problem.inputs, *(n for layer in problem.layers for n in layer.writes)]):
        tensor, kept = problem.tensors[name], problem.kept.get(name, 0)
        offsets = plan.row_offsets[name]
        new = tensor.rows - kept
        pairs = [(offsets[row + new], offsets[row]) for row in range(kept) if (name, row) in needed]
        pending += [(source, target, tensor.row_bytes) for source, target in pairs if source != target]
    return in_turn(pending, spare)


def _needed(plan: StreamPlan) -> set[tuple[str, int]]:
    """(tensor, row) of all that a turn reads, of outputs, and of the last rows, which the next call has. Others have no
    place of their own."""
    problem = plan.problem
    needed = {(tensor.name, row) for turn in plan.turns for tensor, rows in reads_of(problem, turn) for row in rows}
    needed |= {(name, row) for name in problem.outputs for row in range(problem.tensors[name].rows)}
    for name, kept in problem.kept.items():
        rows = problem.tensors[name].rows
        needed |= {(name, row) for row in range(rows - kept, rows)}
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


def _arriving(places: Sequence[int], lost: Sequence[int], unit: int, pool: ConstPool) -> RowTable:
    """Where rows of the input go."""
    return _lossy_table(places, lost, unit, pool) if lost else _table(places, unit, pool, "input", "rows_at")


def _lossy_table(places: Sequence[int], lost: Sequence[int], unit: int, pool: ConstPool) -> RowTable:
    base = SLOW if max(places) >= SLOW else 0
    units = [LOST if row in lost else (at - base) // unit for row, at in enumerate(places)]
    what = f"{_WHERE}, in units of {unit} bytes; {LOST}: nobody reads the row"
    const = Const(np.array(units, np.uint16), what, "rows_at")
    pool.add(const, "input")
    return RowTable(base, 0, unit, const)


def _place(graph: Graph, value: str, plan: StreamPlan) -> Place:
    found = graph.values[value]
    if plan.is_contiguous(value):
        return Place(found, plan.offset(value))
    rows = plan.row_offsets[plan.problem.tensor_of(value)]
    return Place(found, min(rows), rows)


def _step(lowering: Lowering, index: int, node: Node, plan: StreamPlan) -> Step:
    form, before = plan.forms[index], lowering.pool.total_bytes
    scratch = plan.scratch_offsets[node.name][0] if form.scratch_bytes else 0
    step = lowering.step(index, node, form, scratch)
    row_step = _row_step(form, form.row, node, plan, lowering.pool) if form.row else None
    const_bytes = lowering.pool.total_bytes - before
    return replace(step, row_step=row_step, macs=_macs(node, plan, index), const_bytes=const_bytes)


def _macs(node: Node, plan: StreamPlan, index: int) -> int:
    """Of a window; incremental: of as many calls as give a window."""
    site = plan.forms[index].choice.site
    macs = all_ops()[node.op].macs(site)
    if not plan.problem.hop:
        return macs
    calls = -(-_window_rows(site.graph, plan.problem) // plan.problem.hop)
    walk = plan.problem.layers[index].walk
    made, rows = (walk.turns, site.y().shape[1]) if walk and len(site.y().shape) == 4 else (1, 1)
    return macs * made * calls // max(rows, 1)


def _row_step(form: Form, row: RowForm, node: Node, plan: StreamPlan, pool: ConstPool) -> RowStep:
    problem = plan.problem
    used = {arg.index for arg in row.call.args if isinstance(arg, In)}
    tensors = {index: problem.tensor_of(node.inputs[index]) for index in used}
    makers = {name: layer.node for layer in problem.layers for name in layer.writes}

    walk = next(layer.walk for layer in problem.layers if layer.node == node.name)
    assert walk is not None

    moved = {move.tensor for move in plan.moves}
    index = next(i for i, layer in enumerate(problem.layers) if layer.node == node.name)
    rows = row.call.rows
    assert rows is not None  # of every row form

    def table_of(tensor: str, first: int = 0) -> RowTable:
        offsets = plan.row_offsets[tensor][first:]
        return _table(offsets, problem.unit, pool, makers.get(tensor, "input"), "rows_at")

    return RowStep(
        form=row,
        inputs={
            i: _places_of_calls(plan, index, rows, tensor, pool) if tensor in moved else table_of(tensor)
            for i, tensor in tensors.items()
        },
        output=table_of(problem.tensor_of(node.outputs[0]), walk.first),
        scratch=_table(plan.scratch_offsets.get(node.name, (0,)), problem.unit, pool, node.name, "scratch_at"),
        accumulator=plan.accumulator_offsets.get(node.name, 0),
        spare=form.spare,
        tight=form.tight,
    )


def _places_of_calls(plan: StreamPlan, index: int, rows: Rows, tensor: str, pool: ConstPool) -> RowTable:
    """Where the rows of each call's window lie while it runs."""
    unit = plan.problem.unit
    places = []
    for number, (layer, call) in enumerate(plan.turns):
        if layer == index:
            first = rows.begins(min(call * rows.out_rows - rows.phase, rows.out_h - rows.out_rows))
            window = [first + k * rows.dilation for k in range(rows.window_rows)]
            inside = [0 <= row < rows.in_h for row in window]
            places += [
                plan.place(tensor, row, number) // unit if is_in else LOST
                for row, is_in in zip(window, inside, strict=True)
            ]
    if max(place for place in places if place != LOST) >= LOST:
        raise ValueError(f"{tensor}: a row at {max(places)} units, a table holds 16 bits")
    what = f"where the {rows.window_rows} rows that each call reads lie in the arena"
    what = f"{what}, in units of {unit} bytes; {LOST}: padding"
    const = Const(np.array(places, np.uint16), what, "windows_at")
    pool.add(const, plan.problem.layers[index].node)
    return RowTable(0, 0, unit, const, rows.window_rows)


def _table(offsets: Sequence[int], unit: int, pool: ConstPool, owner: str, role: str) -> RowTable:
    """Arithmetic where the offsets are an arithmetic sequence, else a table."""
    step = offsets[1] - offsets[0] if len(offsets) > 1 else 0
    if all(at == offsets[0] + row * step for row, at in enumerate(offsets)):
        return RowTable(offsets[0], step)
    base = SLOW if offsets[0] >= SLOW else 0
    units = (np.array(offsets) - base) // unit
    if units.max() >= _TABLE_LIMIT:
        raise ValueError(f"{owner}: row at {units.max()} units, a table holds 16 bits")
    where = _WHERE if role == "rows_at" else "where the scratch of each call lies in the arena"
    const = Const(units.astype(np.uint16), f"{where}, in units of {unit} bytes", role)
    pool.add(const, owner)
    return RowTable(base, 0, unit, const)
