# SPDX-License-Identifier: Apache-2.0
"""Nodes that do nothing, do the same as another, or could be computed now."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from tinyc.base.errors import TinycError
from tinyc.ir.graph import Graph, Node, Shape
from tinyc.ops import is_a, op_of
from tinyc.ops.broadcast import Broadcast
from tinyc.ops.op import Trait
from tinyc.ops.reshape import Reshape
from tinyc.ops.transpose import Transpose, strided_loops
from tinyc.passes.constants import constant_for, is_stored
from tinyc.passes.rewrite import Rewrite, RewriteDraft, View, rewrite, rule


def _broadcast(*shapes: Shape) -> Shape:
    rank = max(len(shape) for shape in shapes)
    wide = [(1,) * (rank - len(shape)) + shape for shape in shapes]
    return tuple(max(sizes) for sizes in zip(*wide, strict=True))


@rule(Trait.BROADCASTS)
def drop_broadcast(view: View, node: Node) -> Rewrite | None:
    """f(broadcast(x), y) -> f(x, y) where y, or another input, has the size that x is repeated to."""
    for index, name in enumerate(node.inputs):
        before = view.producer(name, Broadcast)
        if before is None:
            continue
        inputs = [*node.inputs[:index], before.inputs[0], *node.inputs[index + 1 :]]
        if _broadcast(*(view.value(x).shape for x in inputs)) == view.value(node.outputs[0]).shape:
            return RewriteDraft(view, node).finish(inputs, node.attrs)
    return None


def moves_nothing(shape: tuple[int, ...], perm: tuple[int, ...]) -> bool:
    """Whether the permutation leaves the elements where they are, for only axes of size 1 change places."""
    loops = strided_loops(shape, perm)
    return len(loops) == 1 and loops[0][1] == 1


@rule(Reshape, Transpose)
def drop_identity(view: View, node: Node) -> Rewrite | None:
    """reshape to the same shape, transpose that keeps the order -> the input itself."""
    x, y = view.value(node.inputs[0]), view.value(node.outputs[0])
    identity = isinstance(node.attrs, Reshape) or node.attrs.perm == tuple(range(len(x.shape)))
    if not identity or x.shape != y.shape or x.quant != y.quant or view.is_const(x.name):  # or `compute_now`
        return None
    return Rewrite(same=(y.name, x.name))


@rule(Transpose)
def transpose_to_view(view: View, node: Node) -> Rewrite | None:
    """transpose in which only axes of size 1 change places -> reshape, which moves no byte."""
    x, y = view.value(node.inputs[0]), view.value(node.outputs[0])
    if not moves_nothing(x.shape, node.attrs.perm):
        return None
    return RewriteDraft(view, node).finish(node.inputs, Reshape(y.shape))


@rule(Reshape)
def merge_reshapes(view: View, node: Node) -> Rewrite | None:
    """reshape, reshape -> one reshape."""
    before = view.producer(node.inputs[0], Reshape)
    if before is None:
        return None
    return RewriteDraft(view, node).finish(before.inputs, node.attrs)


@rule(Transpose)
def merge_transposes(view: View, node: Node) -> Rewrite | None:
    """transpose, transpose -> one transpose."""
    before = view.producer(node.inputs[0], Transpose)
    if before is None:
        return None
    perm = tuple(before.attrs.perm[k] for k in node.attrs.perm)
    return RewriteDraft(view, node).finish(before.inputs, Transpose(perm))


@rule()
def compute_now(view: View, node: Node) -> Rewrite | None:
    """A node of constants -> a constant. Integer nodes only where they just move elements.

    TinycError where the constant would not be finite.
    """
    computable = view.is_float(node) or is_a(node, Trait.MOVES)
    if not computable or not all(view.is_const(name) for name in node.inputs if name):
        return None
    outputs = [view.value(name) for name in node.outputs]
    if len(outputs) != 1 or is_stored(view, node):
        return None
    with np.errstate(all="ignore"):
        (array,) = op_of(node).float_ref(node.attrs, *(view.const(n) if n else None for n in node.inputs))
    if not np.isfinite(array).all():
        message = f"'{outputs[0].name}' is computed from constants and holds NaN or infinity"
        raise TinycError(message, node.where, "the model is damaged, or its training diverged")
    return constant_for(view, node, np.asarray(array), "folded")


def cleanup(graph: Graph) -> Graph:
    """The graph without identities, constant nodes and repeated nodes or constants."""
    rules = (drop_identity, merge_reshapes, merge_transposes, transpose_to_view, drop_broadcast, compute_now)
    before = None
    while before is not graph:
        before = graph
        graph = merge_equal(rewrite(graph, rules))
    return graph


def merge_equal(graph: Graph) -> Graph:
    """One constant for equal constants, one node for nodes that compute the same from the same inputs.

    Model outputs keep their own nodes. Returns the graph itself where there is nothing to merge.
    """
    same: dict[str, str] = {}
    seen: dict[object, str] = {}
    for name, array in graph.consts.items():
        value = graph.values[name]
        if (first := seen.setdefault((value.dtype, value.shape, value.quant, array.tobytes()), name)) != name:
            same[name] = first
    distinct = []
    for node in graph.nodes:
        now = replace(node, inputs=tuple(same.get(name, name) for name in node.inputs))
        types = tuple((graph.values[name].dtype, graph.values[name].quant) for name in now.outputs)
        if len(now.outputs) == 1 and now.outputs[0] not in graph.sinks:
            first = seen.setdefault((now.op, now.attrs, now.inputs, types), now.outputs[0])
            if first != now.outputs[0]:
                same[now.outputs[0]] = first
                continue
        distinct.append(now)
    if not same:
        return graph
    gone = set(same)
    return replace(
        graph,
        nodes=tuple(distinct),
        values={name: value for name, value in graph.values.items() if name not in gone},
        consts={name: array for name, array in graph.consts.items() if name not in gone},
    )
