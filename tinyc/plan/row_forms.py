# SPDX-License-Identifier: Apache-2.0
"""The forms in which a layer runs by rows: what its kernels offer, and the walks that these are calls of.

A kernel is called as its `row_forms` say, or, where it makes one output row per call anyway, as it is.
An operator whose row r depends on row r of its inputs only (`Op.rowwise`) is run on an image of one row.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace

from tinyc.choose.compiled_code import ROW_CODE
from tinyc.choose.select import Choice, compiled_cost, cost_of
from tinyc.choose.slow_flash import slowed
from tinyc.ir.graph import Node, Shape
from tinyc.kernel.kernel import Call, In, Refused, RowForm, Rows
from tinyc.kernel.site import Site
from tinyc.ops import op_of
from tinyc.plan.problem import Form, TensorRows, Walk

TURN_COST = 30  # instructions of a turn around the kernel's call: the loop over turns, and finding the rows
_TURN_BYTES = 4  # of the schedule
Candidates = Mapping[str, Sequence[Choice]]  # candidates of `select`, by node


def height_of(shape: Shape) -> int:
    return shape[1] if len(shape) == 4 and shape[0] == 1 else 1


def walks_of(
    node: Node, choices: Sequence[Choice], names: Sequence[str], reads: Sequence[str], tensors: Mapping[str, TensorRows]
) -> tuple[tuple[Walk, tuple[Form, ...]], ...]:
    """The walks by which these kernels run a node by rows, each with its forms, cheapest first; none if no kernel does.

    First the walk that holds the fewest bytes between turns, then those of more rows per call that are faster. names:
    the tensors that the node's inputs lie in. reads: those of the arena, each once.
    """
    offered = [(choice, one) for choice, form in _each_once(choices) for one in phases(form)]
    offered = [(c, f) for c, f in offered if fits(f, node, names, reads, tensors)]
    if not offered:
        return ()
    walks = _walks([form for _, form in offered])
    by_walk: dict[int, list[Form]] = {id(own_walk): [] for own_walk in walks}
    for (choice, form), its_walk in zip(offered, walks, strict=True):
        by_walk[id(its_walk)].append(_row_form(choice, form, names, reads))
    held = [_window_bytes(form, tensors[reads[0]]) for _, form in offered]
    walk = walks[held.index(min(held))]
    rows = useful(by_walk[id(walk)])
    wider = {id(other): other for other in walks if other.rows > walk.rows}
    others = [(other, useful(by_walk[number])) for number, other in wider.items()]
    return (walk, rows), *_worthwhile(rows, others)


def _worthwhile(
    rows: Sequence[Form], wider: Sequence[tuple[Walk, tuple[Form, ...]]]
) -> Iterator[tuple[Walk, tuple[Form, ...]]]:
    """The walks of more rows per call that are faster than all of fewer, with every phase."""
    fastest = {1: min((form.cycles for form in rows), default=0)}
    for walk, forms in wider:
        fastest[walk.rows] = min(fastest.get(walk.rows, forms[0].cycles), forms[0].cycles)
    for walk, forms in wider:
        if fastest[walk.rows] < min(time for count, time in fastest.items() if count < walk.rows):
            yield walk, forms


def fits(
    form: RowForm, node: Node, names: Sequence[str], reads: Sequence[str], tensors: Mapping[str, TensorRows]
) -> bool:
    """Whether the rows of the form are the rows of the tensors: of a view they may be others. names: the tensors that
    the node's inputs lie in."""
    rows = form.call.rows
    if rows is None or not reads or len(node.outputs) != 1:
        return False
    used = {names[arg.index] for arg in form.call.args if isinstance(arg, In)}
    y = tensors[node.outputs[0]]
    row_count = 1 if form.accumulator_bytes else rows.out_h
    return (
        used == set(reads)
        and all(tensors[name].rows == rows.in_h for name in reads)
        and tensors[reads[0]].row_bytes == rows.in_row_bytes
        and (y.rows, y.row_bytes) == (row_count, rows.out_row_bytes)
        and rows.in_h * rows.out_h > 1
    )


def _walks(forms: Sequence[RowForm]) -> list[Walk]:
    """The walk of each form; equal ones are one object."""
    by_key: dict[object, Walk] = {}
    distinct: dict[Walk, Walk] = {}
    walks = []
    for form in forms:
        rows = form.call.rows
        assert rows is not None  # `fits`
        window = rows.k_h, rows.stride, rows.pad_top, rows.dilation, id(rows.starts)
        key = (rows.in_h, rows.out_h, rows.out_rows, rows.phase, form.accumulator_bytes, window)
        if key not in by_key:
            walk = _walk(form, rows)
            by_key[key] = distinct.setdefault(walk, walk)
        walks.append(by_key[key])
    return walks


def _walk(form: RowForm, rows: Rows) -> Walk:
    needs = tuple(rows_read(rows, call) for call in range(rows.calls))
    if rows.out_rows == 1:
        return Walk(needs, form.accumulator_bytes)
    return Walk(needs, rows=rows.out_rows, phase=rows.phase, out_h=rows.out_h)


def rows_read(rows: Rows, call: int) -> tuple[int, ...]:
    """The input rows inside the tensor that a call needs for the rows that it makes, ascending."""
    taps = {rows.begins(r) + k * rows.dilation for r in rows.output_rows(call) for k in range(rows.k_h)}
    return tuple(sorted(i for i in taps if 0 <= i < rows.in_h))


def phases(form: RowForm) -> Iterator[RowForm]:
    """The form, and where it makes several rows, with first calls that make fewer."""
    rows = form.call.rows
    yield form
    if rows is None:
        return
    for phase in range(1, rows.out_rows):
        moved = replace(rows, phase=phase)
        part = 1.0 if form.only_own_rows else moved.calls / rows.calls
        whole, lone = form.cost, rows.out_rows * (moved.calls - rows.calls)  # more rows that calls do not make
        cost = replace(
            whole,
            instructions=int(whole.instructions * part) + lone * form.lone_row[0],
            cycles=int(whole.cycles * part) + lone * form.lone_row[1],
            waits=int(whole.waits * part),
        )
        yield replace(form, call=replace(form.call, rows=moved), cost=cost)


def _window_bytes(form: RowForm, x: TensorRows) -> int:
    """Bytes that the layer holds between two of its turns: accumulators, or the rows of a window."""
    rows = form.call.rows
    assert rows is not None
    return form.accumulator_bytes or (rows.k_h + rows.out_rows - 2) * x.row_bytes


def _row_form(choice: Choice, form: RowForm, names: Sequence[str], reads: Sequence[str]) -> Form:
    rows = form.call.rows
    assert rows is not None
    own = compiled_cost(choice, form.cost, form.call, form)
    cost = replace(
        own,
        instructions=own.instructions + TURN_COST * rows.calls,
        cycles=own.cycles + 2 * TURN_COST * rows.calls,
        flash_bytes=own.flash_bytes + ROW_CODE * rows.window_rows + _TURN_BYTES * rows.calls,
        scratch_bytes=form.scratch_bytes,
    )
    return Form(
        choice=choice,
        row=form,
        cost=cost,
        inplace=tuple(dict.fromkeys(names[i] for i in form.inplace if i < len(names) and names[i] in reads)),
    )


def useful(forms: Sequence[Form]) -> tuple[Form, ...]:
    """Cheapest first, without those that another one beats or equals in everything."""
    undominated: list[tuple[int, int, int, Form]] = []
    asked = [(form.cycles, form.flash_bytes, form.scratch_bytes, form) for form in forms]
    for time, flash, scratch, form in sorted(asked, key=lambda one: (*one[:3], not one[3].inplace)):
        beaten = (flash >= k[1] and scratch >= k[2] and set(k[3].inplace) >= set(form.inplace) for k in undominated)
        if not any(beaten):
            undominated.append((time, flash, scratch, form))
    return tuple(form for _, _, _, form in undominated)


def _each_once(choices: Iterable[Choice]) -> Iterator[tuple[Choice, RowForm]]:
    """The row forms of one node's kernels; what several kernels share, of the first."""
    by_id: dict[int, RowForm] = {}  # by id; they are kept alive
    for choice in choices:
        for form in row_forms(choice):
            if id(form) not in by_id:
                by_id[id(form)] = form
                yield choice, form


def row_forms(choice: Choice, at_a_time: int = 1) -> Iterator[RowForm]:
    """Every way in which the chosen kernel makes the rows of its node one at a time. at_a_time: rows that a call takes
    as one, where an output row depends on the same row of the inputs only; the height is a multiple."""
    site, offer = choice.site, choice.offer
    if offer.copies or offer.split is not None:
        return
    yield from offer.row_forms()
    if height_of(site.y().shape) == 1 and all(height_of(site.x(i).shape) == 1 for i in moving_inputs(site)):
        return
    call = offer.call()
    if call.rows is not None and call.rows.out_rows == 1 and _walks_image(site, call):
        inplace = (0,) if call.rows.buffered else ()
        yield RowForm(call, choice.scratch_bytes, cost_of(offer, site), offer.special, inplace)
    elif op_of(site.node).rowwise(site):
        yield from _one_row(choice, at_a_time)


def moving_inputs(site: Site) -> list[int]:
    """Inputs that are tensors of the arena."""
    return [i for i in range(len(site.node.inputs)) if site.has(i) and not site.is_const(i)]


def _walks_image(site: Site, call: Call) -> bool:
    moving, rows = moving_inputs(site), call.rows
    if rows is None or len(moving) != 1:
        return False
    x, y = site.x(moving[0]), site.y()
    return (rows.in_h, rows.out_h) == (height_of(x.shape), height_of(y.shape))


def _one_row(choice: Choice, at_a_time: int) -> Iterator[RowForm]:
    """The kernel on an image of one row, or of so many, where it takes that."""
    kernel = choice.kernel
    calls = height_of(choice.site.y().shape) // at_a_time
    site = one_row_site(choice.site, at_a_time)
    if site is None or not all(test(site) for test in kernel.when):
        return
    offer = kernel.offer(site, choice.params)
    if isinstance(offer, Refused):
        return
    if choice.flash is not None:  # a row finds the code of the layer before in the cache, and waits for its own
        offer = slowed(kernel, offer, choice.flash)
    call, scratch, cost = offer.call(), offer.scratch_bytes, cost_of(offer, site)
    if call.rows is not None and (call.rows.in_h, call.rows.out_h, call.rows.k_h) != (1, 1, 1):
        return
    x, y = site.x(moving_inputs(site)[0]), site.y()
    flow = call.flow
    # In place of the row that it reads, unless it comes back to pixels whose outputs it has written.
    buffered = flow is not None and flow.buffered and flow.in_row_bytes == flow.out_row_bytes and flow.pad_top == 0
    yield RowForm(
        call=replace(call, rows=Rows(calls, calls, 1, 1, 0, 1, x.size_bytes, y.size_bytes, None), flow=None),
        scratch_bytes=scratch,
        cost=replace(
            cost,
            instructions=cost.instructions * calls,
            cycles=cost.cycles * calls,
            fetches=None,
            waits=cost.waits * calls,
        ),
        special=offer.special,
        inplace=(0,) if buffered else kernel.inplace,
        direct=call.rows is None,
    )


def one_row_site(site: Site, rows: int = 1) -> Site | None:
    """The same node on one row of its image, or so many; None if its tensors are not images of one height."""
    graph, node = site.graph, site.node
    height = height_of(site.y().shape)
    values = dict(graph.values)
    for i in range(len(node.inputs)):
        if not site.has(i) or site.is_const(i):
            continue
        x = site.x(i)
        if height_of(x.shape) != height:
            return None
        values[x.name] = replace(x, shape=(1, rows, *x.shape[2:]))
    y = site.y()
    values[y.name] = replace(y, shape=(1, rows, *y.shape[2:]))
    return replace(site, graph=replace(graph, values=values))
