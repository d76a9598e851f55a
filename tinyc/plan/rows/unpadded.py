# SPDX-License-Identifier: Apache-2.0
"""The model that never pads in time: over a longer window, another function.

Every value has moments [begin, end) in rows of the model's own tensor, some before its first row and behind its last:
those that its readers need. A window without padding reads all rows that it reaches, so moments grow from the outputs
to the input. A branch that reads fewer of them than another gets a slice: that of a residual block which goes around
the windows is cropped to the moments that they make.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from tinyc.base.errors import TinycError
from tinyc.ir.graph import Graph, Node, Value
from tinyc.ops import op_of
from tinyc.ops.reshape import Reshape
from tinyc.ops.slice import whole

Span = tuple[int, int]  # moments [begin, end)


def without_time_padding(graph: Graph) -> Graph:
    """The model over a longer window that never pads in time: every windowed layer sees rows of data only.

    What collapses time sees as many rows as before. Raises TinycError at a value without an axis of time.
    """
    spans: dict[str, Span] = {}
    reads: dict[tuple[str, str], Span] = {}  # by node and value
    for node in reversed(graph.nodes):
        y = node.outputs[0]
        out_span = spans.setdefault(y, (0, _rows(graph, y)))
        for name in _timed(graph, node):
            needed = _needed(graph, node, out_span) if _rows(graph, y) > 1 else (0, _rows(graph, name))
            reads[node.name, name] = needed
            begin, end = spans.get(name, needed)
            spans[name] = min(begin, needed[0]), max(end, needed[1])
    values = {name: _longer(value, spans[name]) if name in spans else value for name, value in graph.values.items()}
    values |= _given_otherwise(graph, values)
    nodes: list[Node] = []
    crops: dict[tuple[str, Span], str] = {}
    for node in graph.nodes:
        inputs = list(node.inputs)
        for name in _timed(graph, node):
            span = reads[node.name, name]
            if span != spans[name]:
                if (name, span) not in crops:
                    crops[name, span] = _free(f"{name} cropped", {*values, *(node.name for node in graph.nodes)})
                    nodes.append(_crop(values, name, spans[name], span, crops[name, span], node))
                inputs = [crops[name, span] if x == name else x for x in inputs]
        nodes.append(replace(node, inputs=tuple(inputs), attrs=_unpadded(graph, node, values)))
    return replace(graph, nodes=tuple(nodes), values=values)


def _given_otherwise(graph: Graph, values: Mapping[str, Value]) -> dict[str, Value]:
    """Inputs [1,1,T,C] of which a reshape alone makes [1,T,C,1], with as many moments as that has in `values`."""
    longer: dict[str, Value] = {}
    for node in graph.nodes:
        name, y = node.inputs[0], node.outputs[0]
        if name not in graph.inputs or not isinstance(node.attrs, Reshape):
            continue
        shape, readers = graph.values[name].shape, [other for other in graph.nodes if name in other.inputs]
        if readers == [node] and len(shape) == 4 and shape[:2] == (1, 1) and shape[2] == _rows(graph, y) > 1:
            longer[name] = replace(graph.values[name], shape=(1, 1, values[y].shape[1], shape[3]))
    return longer


def _timed(graph: Graph, node: Node) -> list[str]:
    """The inputs that have rows."""
    return [name for name in dict.fromkeys(node.inputs) if name and name not in graph.consts and _rows(graph, name) > 1]


def _windowed(graph: Graph, node: Node) -> bool:
    moves = hasattr(node.attrs, "pad") and hasattr(node.attrs, "stride") and node.op != "transpose_conv2d"
    return moves and not op_of(node).view and _rows(graph, node.outputs[0]) > 1


def _needed(graph: Graph, node: Node, out_span: Span) -> Span:
    """The moments of an input that a layer needs to make those of its output."""
    if not _windowed(graph, node):
        rows = {_rows(graph, name) for name in (*_timed(graph, node), node.outputs[0])}
        if len(rows) > 1:
            raise TinycError(
                f"{node.op} '{node.name}' changes the number of moments: {' and '.join(map(str, sorted(rows)))} rows",
                node.where,
                "--stream-unpadded knows windows with strides, and what works moment by moment",
            )
        return out_span
    attrs, (begin, end) = node.attrs, out_span
    kernel = attrs.kernel.h if hasattr(attrs, "kernel") else _kernel_height(graph, node)
    dilation = attrs.dilation.h if hasattr(attrs, "dilation") else 1
    first = begin * attrs.stride.h - attrs.pad.top
    return first, first + (end - begin - 1) * attrs.stride.h + (kernel - 1) * dilation + 1


def _unpadded(graph: Graph, node: Node, values: Mapping[str, Value]) -> object:
    if isinstance(node.attrs, Reshape) and _rows(graph, node.outputs[0]) > 1:
        return Reshape(values[node.outputs[0]].shape)  # the same moments in another shape
    if not _windowed(graph, node):
        return node.attrs
    return replace(node.attrs, pad=node.attrs.pad._replace(top=0, bottom=0))


def _longer(value: Value, span: Span) -> Value:
    rows = span[1] - span[0]
    if len(value.shape) < 3:
        if value.shape[1:2] == (rows,) or rows == 1:
            return value
        raise TinycError(
            f"'{value.name}' {list(value.shape)} has no axis of time", value.loc, "leave out --stream-unpadded"
        )
    return replace(value, shape=(value.shape[0], rows, *value.shape[2:]))


def _crop(values: dict[str, Value], name: str, span: Span, part: Span, cropped: str, reader: Node) -> Node:
    """The node that takes the wanted moments; its output joins the values."""
    x = values[name]
    cut = whole(x.shape, 1, part[0] - span[0], part[1] - part[0])
    values[cropped] = replace(x, name=cropped, shape=cut.size)
    return Node(cropped, "slice", (name,), (cropped,), cut, reader.origin)


def _free(preferred: str, taken: set[str]) -> str:
    return preferred if preferred not in taken else _free(f"{preferred} again", taken)


def _rows(graph: Graph, name: str) -> int:
    shape = graph.values[name].shape
    return shape[1] if len(shape) >= 3 else 1


def _kernel_height(graph: Graph, node: Node) -> int:
    return graph.values[node.inputs[1]].shape[-3]  # [out_c][k_h][k_w][in_c], or depthwise [k_h][k_w][channels]
