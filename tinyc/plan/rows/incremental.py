# SPDX-License-Identifier: Apache-2.0
"""A model over a sliding window as one call per hop: what the calls before have computed is kept, not computed again.

Time is the rows of the input image. A call takes `hop` new rows. A layer whose windows lie inside its input makes of
them hop / (product of the strides so far) new rows, from these and the last rows of the calls before. A layer that
collapses time, one output row from all input rows, keeps its window and makes its row in every call. Then the output
equals that of the whole model on the last window, bit for bit. It does not where a layer pads in time: the rows at a
window's edge are computed from zeros that the next window has data for. `unpadded.py` gives the model that never pads,
another function.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

from tinyc.base.dataclass import dataclass
from tinyc.base.errors import TinycError
from tinyc.choose.select import Choice
from tinyc.ir.graph import Graph, Node
from tinyc.kernel.kernel import Cost, RowForm, Rows
from tinyc.plan.builder import problem_of
from tinyc.plan.problem import Form, Layer, Problem, TensorRows, Walk
from tinyc.plan.row_forms import TURN_COST, Candidates, fits, row_forms, rows_read, useful


def incremental_problem(graph: Graph, choices: Candidates, hop: int) -> Problem:
    """The streaming problem of one call that takes `hop` rows of the only input.

    Raises TinycError naming the layer that makes it impossible.
    """
    call = call_of(graph, choices, hop)
    nodes = {node.name: node for node in graph.nodes}
    layers = tuple(_layer(call, nodes[layer.node], layer) for layer in call.whole.layers)
    carried = {name: rows for name, rows in call.carried.items() if rows}
    return replace(call.whole, layers=layers, tensors=call.tensors, hop=hop, carried=carried)


def call_of(graph: Graph, choices: Candidates, hop: int) -> Moving:
    """The rows of one call that takes `hop` new ones. TinycError as `incremental_problem`."""
    whole = problem_of(graph, choices)
    nodes = {node.name: node for node in graph.nodes}
    if len(graph.inputs) != 1 or whole.tensors[graph.inputs[0]].rows == 1:
        message = "only a model with one input, an image with rows, can run incrementally"
        raise TinycError(message, hint="leave out --incremental")
    new = _new_rows(whole, nodes, choices, hop)
    carried = _carried_rows(graph, whole, choices, new)
    tensors = {
        name: replace(tensor, rows=new[name] + carried[name]) if name in new else tensor
        for name, tensor in whole.tensors.items()
    }
    return Moving(graph, choices, whole, tensors, new, carried)


@dataclass(frozen=True, slots=True)
class Moving:
    """A call, in rows: those of each tensor that are new, those that are kept from calls before, and both together in
    `tensors`. whole: the problem of the whole model."""

    graph: Graph
    choices: Candidates
    whole: Problem
    tensors: Mapping[str, TensorRows]
    new: Mapping[str, int]
    carried: Mapping[str, int]

    def reads(self, layer: Layer) -> tuple[int, int]:
        """The rows [begin, end) of each tensor that a layer needs in a call."""
        moving = next(name for name in layer.reads if name in self.new)
        total = self.tensors[moving].rows
        if not _timed(layer, self.whole)[1]:
            return total - self.whole.tensors[moving].rows, total
        rows = _geometry(layer, self.whole, self.choices)
        assert rows is not None  # `_new_rows` has found one
        end = total - _ahead(rows)
        return end - _span(rows) - (self.new[layer.writes[0]] - 1) * rows.stride, end


def _timed(layer: Layer, whole: Problem) -> tuple[bool, bool]:
    """Whether its inputs have moments, and whether its output has."""
    x = max(whole.tensors[name].rows for name in layer.reads)
    y = max(whole.tensors[name].rows for name in layer.writes)
    return x > 1, x > 1 and y > 1


def _geometry(layer: Layer, whole: Problem, choices: Candidates) -> Rows | None:
    """How the layer goes through its rows; None if no kernel can."""
    return next((rows for _, _, rows in _row_by_row(layer, whole, choices)), None)


def _row_by_row(layer: Layer, whole: Problem, choices: Candidates) -> Iterator[tuple[Choice, RowForm, Rows]]:
    """The forms of its kernels that make one row per call, of rows as the tensors have them."""
    for choice in choices[layer.node]:
        node = choice.site.node
        names = [whole.tensor_of(name) for name in node.inputs]
        for form in row_forms(choice):
            rows = form.call.rows
            if form.accumulator_bytes or rows is None or rows.out_rows > 1:
                continue
            if fits(form, node, names, layer.reads, whole.tensors):
                yield choice, form, rows


def _new_rows(whole: Problem, nodes: Mapping[str, Node], choices: Candidates, hop: int) -> dict[str, int]:
    """New rows per call of every tensor with moments."""
    new = dict.fromkeys(whole.inputs, hop)
    for layer in whole.layers:
        x_timed, y_timed = _timed(layer, whole)
        if not x_timed or not any(name in new for name in layer.reads):
            continue
        node = nodes[layer.node]
        if not y_timed:
            continue
        rows = _geometry(layer, whole, choices)
        if rows is None:
            raise stopped(node, "needs all rows at once")
        if rows.starts is not None:
            raise stopped(node, "makes several rows of one")
        last = (rows.out_h - 1) * rows.stride - rows.pad_top + (rows.k_h - 1) * rows.dilation
        if rows.pad_top > 0 or last >= rows.in_h:
            raise stopped(node, f"pads in time, {rows.pad_top} rows before and {max(last - rows.in_h + 1, 0)} after")
        if len({new.get(name) for name in layer.reads}) != 1:
            raise stopped(node, "joins tensors that do not advance together")
        before = new[layer.reads[0]]
        if before % rows.stride:
            raise stopped(node, f"takes one row of {rows.stride}, but a call gives it {before} new ones")
        new |= dict.fromkeys(layer.writes, before // rows.stride)
    return new


def stopped(node: Node, reason: str) -> TinycError:
    """The error that names the layer."""
    return TinycError(
        f"the model cannot run incrementally: {node.op} '{node.name}' {reason}",
        node.where,
        "a hop that is a multiple of all strides; layers without padding in time; or --stream-unpadded, which computes "
        "another function: nothing is padded inside the stream",
    )


def _carried_rows(graph: Graph, whole: Problem, choices: Candidates, new: Mapping[str, int]) -> dict[str, int]:
    """Rows of each tensor that a call needs from the calls before it: the most that any reader does; of an output all
    that are not new."""
    nodes = {node.name: node for node in graph.nodes}
    carried = dict.fromkeys(new, 0)
    for output in graph.outputs:
        name = whole.tensor_of(output)
        if name in new:
            carried[name] = whole.tensors[name].rows - new[name]
            if carried[name] < 0:
                maker = next(layer.node for layer in whole.layers if name in layer.writes)
                raise stopped(nodes[maker], f"has fewer rows as an output than the {new[name]} new ones of a call")
    for layer in whole.layers:
        _x_timed, y_timed = _timed(layer, whole)
        for name in layer.reads:
            if name not in new:
                continue
            window = whole.tensors[name].rows
            rows = _geometry(layer, whole, choices) if y_timed else None
            if rows is None and new[name] > window:
                raise stopped(nodes[layer.node], f"looks at {window} rows, but a call gives it {new[name]} new ones")
            needed = window - new[name] if rows is None else _span(rows) - rows.stride + _ahead(rows)
            carried[name] = max(carried[name], needed)
    while True:  # a layer with several inputs reads the same rows of each
        before = dict(carried)
        for layer in whole.layers:
            moving = [name for name in layer.reads if name in new]
            carried |= dict.fromkeys(moving, max((carried[name] for name in moving), default=0))
        if carried == before:
            return carried


def _span(rows: Rows) -> int:
    """Rows from the first to the last of a window."""
    return (rows.k_h - 1) * rows.dilation + 1


def _ahead(rows: Rows) -> int:
    """Rows of the input behind the last one that any window reads: in a stream they are there already."""
    return rows.in_h - (rows.out_h - 1) * rows.stride + rows.pad_top - _span(rows)


def _layer(call: Moving, node: Node, layer: Layer) -> Layer:
    """The layer with its turns of one call."""
    whole, tensors = call.whole, call.tensors
    x_timed, y_timed = _timed(layer, whole)
    if not x_timed or not any(name in call.new for name in layer.reads):  # or it has rows that are no moments any more
        return replace(layer, walk=None, row_forms=(), wider=())
    (x, *_), (y, *_) = layer.reads, layer.writes
    names = [whole.tensor_of(name) for name in node.inputs]
    same = tensors[x].rows == whole.tensors[x].rows  # where no layer beside it needs rows of more calls
    forms = []
    walk = None
    for choice, form, rows in _row_by_row(layer, whole, call.choices):
        if not y_timed and not (rows.out_h == 1 and same):
            continue
        if y_timed:
            walk, part = _new_windows(call, x, y, rows)
        else:
            walk, part = Walk((rows_read(rows, 0),)), rows
        forms.append(_form(choice, form, part, names, layer.reads))
    whole_forms = [_whole(call, form) for form in layer.whole_forms if same and not y_timed]
    return replace(layer, walk=walk, row_forms=useful(forms), whole_forms=useful(whole_forms), wider=())


def _new_windows(call: Moving, x: str, y: str, rows: Rows) -> tuple[Walk, Rows]:
    """How a layer makes the new rows of a call, the last of the rows that it has."""
    count, total = call.new[y], call.tensors[x].rows
    start = total - _ahead(rows) - _span(rows) - (count - 1) * rows.stride
    reads = tuple(
        tuple(start + turn * rows.stride + k * rows.dilation for k in range(rows.k_h)) for turn in range(count)
    )
    return Walk(reads, first=call.carried[y]), replace(rows, in_h=total, out_h=count, pad_top=-start, pad=None)


def _whole(call: Moving, form: Form) -> Form:
    """Not in place of a tensor whose rows the next call needs."""
    return replace(form, inplace=tuple(name for name in form.inplace if not call.carried.get(name)))


def _form(choice: Choice, form: RowForm, part: Rows, names: Sequence[str], reads: Sequence[str]) -> Form:
    """The row form for the rows of a call."""
    turns, share = part.out_h, part.out_h / (form.call.rows or part).out_h
    cost = Cost(
        int(form.cost.instructions * share) + TURN_COST * turns,
        form.cost.flash_bytes,
        form.scratch_bytes,
        int(form.cost.cycles * share) + 2 * TURN_COST * turns,
    )
    moved = replace(form, call=replace(form.call, rows=part))
    inplace = tuple(dict.fromkeys(names[i] for i in form.inplace if i < len(names) and names[i] in reads))
    return Form(choice, moved, cost, inplace)
