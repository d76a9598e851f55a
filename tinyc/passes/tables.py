# SPDX-License-Identifier: Apache-2.0
"""Functions of one byte, one after the other -> the table of what they do together.

Exact: the table holds what the integers of the nodes would have been, one after the other. A hard sigmoid is a product,
a sum and a clamp; a hard swish as exporters write it also multiplies by its own input: f(x, g(x)) is a function of x.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from itertools import chain

import numpy as np

from tinyc.base.errors import TinycError
from tinyc.base.numerics import Numerics
from tinyc.ir.graph import NUMPY_DTYPE, Array, Graph, Node
from tinyc.kernel.site import Site
from tinyc.ops import is_a, op_of
from tinyc.ops.lookup import Lookup
from tinyc.ops.op import Trait
from tinyc.passes.rewrite import Rewrite, RewriteDraft, View, begins_with, rewrite, rule

_BYTES = ("s8", "u8")
_BY_ELEMENT = (Trait.ELEMENTWISE, Trait.BROADCASTS)


@begins_with(*_BY_ELEMENT)
def join_tables(graph: Graph, numerics: Numerics) -> Graph:
    """The same integer function with a table in place of functions of one byte that follow each other."""

    @rule(*_BY_ELEMENT)
    def join(view: View, node: Node) -> Rewrite | None:
        nodes = _functions_of_one(view, node)
        if len(nodes) < 2:
            return None
        (source,) = _moving(view, nodes[0])
        table = table_of(view, nodes, source, numerics)
        if table is None:
            return None
        draft = RewriteDraft(view, node)
        lut = draft.const(table, replace(view.value(node.outputs[0]), loc=None), "table")
        origin = tuple(dict.fromkeys(chain.from_iterable(step.origin for step in nodes)))
        return draft.finish([source, lut], Lookup(), origin)

    return rewrite(graph, (join,))


def table_of(view: View, nodes: list[Node], source: str, numerics: Numerics) -> Array | None:
    """[256] by the source's unsigned byte: what the last of the nodes makes of it; None where one has no integers."""
    order = np.arange(256, dtype=np.uint8)
    by_name: dict[str, Array] = {source: order.view(NUMPY_DTYPE[view.value(source).dtype])}
    try:
        for node in nodes:
            by_name[node.outputs[0]] = _result(view, node, by_name, numerics)
    except TinycError:
        return None
    return by_name[nodes[-1].outputs[0]]


def _result(view: View, node: Node, by_name: Mapping[str, Array], numerics: Numerics) -> Array:
    """The 256 outputs of a node for inputs that are known, or constants."""
    names = [name for name in (*node.inputs, *node.outputs) if name]
    consts = {name: view.const(name) for name in node.inputs if name and view.is_const(name)}
    values = {n: view.value(n) if n in consts else replace(view.value(n), shape=(256,)) for n in names}
    moving = tuple(name for name in values if name not in consts and name not in node.outputs)
    alone = Graph("alone", moving, node.outputs, (node,), values, consts)
    given = [by_name[name] if name in by_name else consts.get(name) for name in node.inputs]
    op = op_of(node)
    (y,) = op.int_ref(op.prepare(Site(alone, node, numerics)), *given)
    return np.asarray(y, NUMPY_DTYPE[values[node.outputs[0]].dtype]).reshape(256)


def _functions_of_one(view: View, node: Node) -> list[Node]:
    """The node and those right before it which make its output a function of one byte, in run order; [] if it is none.
    What lies further before has become one node: nodes are looked at in run order."""
    if not _is_by_byte(view, node):
        return []
    nodes: list[Node] = []
    sources: dict[str, None] = {}
    for name in _moving(view, node):
        before = view.producer(name, *_BY_ELEMENT)
        if before is not None and view.sole_use(name) and _is_by_byte(view, before) and len(_moving(view, before)) == 1:
            nodes.append(before)
            sources.update(dict.fromkeys(_moving(view, before)))
        else:
            sources[name] = None
    return [*nodes, node] if len(sources) == 1 else []


def _is_by_byte(view: View, node: Node) -> bool:
    """Whether each byte of the output is made of those at its place, and of numbers."""
    y = view.value(node.outputs[0])
    moving = [view.value(name) for name in _moving(view, node)]
    fixed = [view.value(name) for name in node.inputs if name and view.is_const(name)]
    numbers = is_a(node, Lookup) or all(value.elements == 1 for value in fixed)
    bytes_of_one_shape = all(value.dtype in _BYTES and value.shape == y.shape for value in (y, *moving))
    return len(node.outputs) == 1 and bool(moving) and numbers and bytes_of_one_shape


def _moving(view: View, node: Node) -> list[str]:
    return list(dict.fromkeys(name for name in node.inputs if name and not view.is_const(name)))
