# SPDX-License-Identifier: Apache-2.0
"""Where the rows of a step lie that makes them one by one, or a few at a time: arithmetic, or a table in flash."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from tinyc.emit.constants import ConstPool
from tinyc.emit.program import LOST, RowStep, RowTable
from tinyc.kernel.kernel import Const, CoreSplit, In, RowForm, Rows
from tinyc.kernel.site import Site
from tinyc.plan.answer import SLOW, Plan
from tinyc.plan.problem import Form

_TABLE_LIMIT = 2**16
_WHERE = "where each row lies in the arena"


def arriving(places: Sequence[int], lost: Sequence[int], unit: int, pool: ConstPool) -> RowTable:
    """Where rows of the input go."""
    return _lossy_table(places, lost, unit, pool) if lost else _table(places, unit, pool, "input", "rows_at")


def _lossy_table(places: Sequence[int], lost: Sequence[int], unit: int, pool: ConstPool) -> RowTable:
    base = SLOW if max(places) >= SLOW else 0
    units = [LOST if row in lost else (at - base) // unit for row, at in enumerate(places)]
    what = f"{_WHERE}, in units of {unit} bytes; {LOST}: nobody reads the row"
    const = Const(np.array(units, np.uint16), what, "rows_at")
    pool.add(const, "input")
    return RowTable(base, 0, unit, const)


def row_step(form: Form, row: RowForm, index: int, inputs: Sequence[str], plan: Plan, pool: ConstPool) -> RowStep:
    """Of the layer of that number, whose form makes one row, or a few, per call. inputs: of its node."""
    problem, layer = plan.problem, plan.problem.layers[index]
    used = {arg.index for arg in row.call.args if isinstance(arg, In)}
    tensors = {number: problem.tensor_of(inputs[number]) for number in used}
    makers = {name: layer.node for layer in problem.layers for name in layer.writes}
    moved = {move.tensor for move in plan.moves}
    walk, rows = layer.walk, row.call.rows
    assert walk is not None
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
        output=table_of(layer.writes[0], walk.first),
        scratch=_table(plan.scratch_offsets.get(layer.node, (0,)), problem.unit, pool, layer.node, "scratch_at"),
        accumulator=plan.accumulator_offsets.get(layer.node, 0),
        spare=form.spare,
        spare_calls=form.spare_turns,
    )


def shared_out(split: CoreSplit, site: Site, plan: Plan) -> RowStep:
    """Of a layer that runs whole, its calls shared out to cores."""
    form, rows, node = split.form, split.form.call.rows, site.node
    assert rows is not None  # of every row form
    scratch = plan.scratch_offsets[node.name][0] if form.scratch_bytes else 0
    used = {arg.index for arg in form.call.args if isinstance(arg, In)}
    return RowStep(
        form=form,
        inputs={i: RowTable(plan.offset(node.inputs[i]), site.x(i).size_bytes // rows.in_h) for i in used},
        output=RowTable(plan.offset(node.outputs[0]), rows.out_row_bytes),
        scratch=RowTable(scratch, split.scratch_step),
        accumulator=0,
    )


def _places_of_calls(plan: Plan, index: int, rows: Rows, tensor: str, pool: ConstPool) -> RowTable:
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
