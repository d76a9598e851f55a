# SPDX-License-Identifier: Apache-2.0
"""batch_matmul, softmax, batch_matmul between int8 tensors -> attention, with the transposes and splits around them.

Exact: the operator computes the integers of the nodes that it stands for (tinyc/ops/attention.py). Exporters write
queries, keys and values of all heads in one tensor, split, reshaped and transposed to [heads, tokens, numbers]; the
operator walks the tensor itself.
"""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np

from tinyc.base.numerics import Numerics
from tinyc.ir.graph import Array, Graph, Node, Shape
from tinyc.ops import op_of
from tinyc.ops.add import Add
from tinyc.ops.attention import Attention, HeadWalk
from tinyc.ops.batch_matmul import BatchMatmul
from tinyc.ops.choose import Choose
from tinyc.ops.clip import Clip
from tinyc.ops.div import Div
from tinyc.ops.mul import Mul
from tinyc.ops.requantize import Requantize
from tinyc.ops.reshape import Reshape
from tinyc.ops.slice import Slice
from tinyc.ops.softmax import AT_OUTPUT, Softmax
from tinyc.ops.sub import Sub
from tinyc.ops.tables import is_ours
from tinyc.ops.transpose import Transpose
from tinyc.passes.rewrite import Rewrite, RewriteDraft, View, begins_with, rewrite, rule
from tinyc.passes.tables import table_of

_MOVES = (Reshape, Transpose, Slice)
_OF_ONE = (Mul, Div, Add, Sub, Clip, Requantize)  # with a number as the other input


@begins_with(BatchMatmul, Attention)
def join_attention(graph: Graph, numerics: Numerics) -> Graph:
    """The same integer function with attention in one node per layer. Float graphs come back unchanged."""

    @rule(BatchMatmul)
    def join_products(view: View, node: Node) -> Rewrite | None:
        return _joined(view, node, numerics)

    return rewrite(graph, (join_products, _lay_output))


def _whole(view: View, soft: Node, numerics: Numerics) -> bool:
    """Whether the softmax makes shares of 1/255, which the kernels of attention do not know."""
    return is_ours(numerics, view.value(soft.outputs[0]), AT_OUTPUT)


def _joined(view: View, node: Node, numerics: Numerics) -> Rewrite | None:
    """softmax(q k^T) v -> attention."""
    soft = _before(view, node.inputs[0], Softmax)
    if node.attrs.adj_x or soft is None or soft.attrs.widened or _whole(view, soft, numerics):
        return None
    shown, mask, hidden = _masked(view, soft.inputs[0])
    through = _numbered(view, shown, numerics)
    product = through and _before(view, through[0], BatchMatmul)
    if not through or product is None or not _all_s8(view, node, soft, product):
        return None
    scores, shares = view.value(product.outputs[0]), view.value(soft.outputs[0])
    y, lead = view.value(node.outputs[0]), scores.shape[:-2]
    heads, (rows, keys), width = math.prod(lead), scores.shape[-2:], y.shape[-1]
    if shares.shape[-2:] != (rows, keys) or y.elements != heads * rows * width:
        return None
    x, k = product.attrs.adj_x, product.attrs.adj_y
    q_name, q = _walk(view, product.inputs[0], lead, x)
    k_name, keys_walk = _walk(view, product.inputs[1], lead, not k)
    v_name, v = _walk(view, node.inputs[1], y.shape[:-2], node.attrs.adj_y)
    if q is None or keys_walk is None or v is None:
        return None
    depth = view.value(product.inputs[0]).shape[-2 if x else -1]
    logits = view.value(soft.inputs[0])
    quants = [value.quant for value in (scores, logits, shares)]
    if any(quant is None or quant.axis is not None for quant in quants):
        return None
    of_scores, of_logits, of_shares = (quant.per_tensor for quant in quants if quant is not None)
    plain = HeadWalk(0, rows * width, width, 1)
    sizes, walks = (heads, rows, keys, depth, width), (q, keys_walk, v, plain)
    attrs = Attention(*sizes, *walks, y.shape, soft.attrs.beta, of_scores, of_logits, of_shares, hidden)
    draft = RewriteDraft(view, node)
    inputs = [q_name, k_name, v_name]
    if through[1] is not None:
        inputs.append(draft.const(through[1], replace(logits, loc=None), "table"))
    if mask is not None:
        apart = _repeated(np.broadcast_to(mask, logits.shape).reshape(heads, rows, keys))
        inputs += [""] * (4 - len(inputs)) + [draft.const(apart, replace(logits, loc=None), "mask")]
    origin = tuple(dict.fromkeys((*product.origin, *soft.origin, *node.origin)))
    return draft.finish(inputs, attrs, origin)


def _all_s8(view: View, *nodes: Node) -> bool:
    names = {name for node in nodes for name in (*node.inputs, *node.outputs)}
    return all(view.value(name).dtype == "s8" and not view.is_const(name) for name in names)


def _before(view: View, name: str, kind: type) -> Node | None:
    """The node of this kind that makes the value for one reader, perhaps under another shape of the same rows."""
    last = view.value(name).shape[-2:]
    while view.sole_use(name):
        node = view.producer(name, kind, Reshape)
        if node is None or isinstance(node.attrs, kind):
            return node
        name = node.inputs[0]
        if view.value(name).shape[-2:] != last:
            return None
    return None


def _masked(view: View, name: str) -> tuple[str, Array | None, int]:
    """(value, mask, number): of which value, shown where the mask is -1, the softmax's input has the number where it is
    0; without a mask the input itself."""
    node = view.producer(name, Choose)
    if node is None or not view.sole_use(name) or not view.is_const(node.inputs[0]):
        return name, None, 0
    moving = [x for x in node.inputs[1:] if not view.is_const(x)]
    hiding = [x for x in node.inputs[1:] if view.is_const(x) and np.ptp(view.const(x)) == 0]
    if len(moving) != 1 or not hiding or view.value(moving[0]).shape != view.value(name).shape:
        return name, None, 0
    shown = view.const(node.inputs[0]).astype(bool) == (moving[0] == node.inputs[1])
    return moving[0], -shown.astype(np.int8), int(view.const(hiding[0]).flat[0])


def _repeated(mask: Array) -> Array:
    """[heads, rows, keys] without heads, and rows, that are all the same."""
    for axis in (0, 1):
        first = mask.take([0], axis)
        mask = first if np.array_equal(np.broadcast_to(first, mask.shape), mask) else mask
    return mask


def _numbered(view: View, name: str, numerics: Numerics) -> tuple[str, Array | None] | None:
    """(value, table [256]): what the softmax's input is of an earlier value, element by element."""
    node = view.producer(name, *_OF_ONE)
    if node is None:
        return name, None
    moving = [i for i, one in enumerate(node.inputs) if one and not view.is_const(one)]
    numbers = all(view.value(one).elements == 1 for one in node.inputs if one and view.is_const(one))
    if len(moving) != 1 or not numbers or not view.sole_use(name):
        return None
    source = node.inputs[moving[0]]
    if view.value(source).dtype != "s8" or view.value(name).dtype != "s8":
        return None
    table = table_of(view, [node], source, numerics)
    return None if table is None else (source, table)


def _walk(view: View, name: str, lead: Shape, turned: bool) -> tuple[str, HeadWalk | None]:
    """(tensor, how the matrices [lead, rows, numbers] of a value lie in it), as far back as there is such a walk."""
    walked: tuple[str, HeadWalk | None] = (name, None)
    between: list[Node] = []
    while True:
        value = view.value(name)
        at = np.arange(value.elements).reshape(value.shape)
        for node in reversed(between):
            (at,) = op_of(node).float_ref(node.attrs, at)
        at = at.swapaxes(-1, -2) if turned else at
        try:
            at = np.broadcast_to(at, (*lead, *at.shape[-2:]))
        except ValueError:
            return walked
        walk = HeadWalk.over(at.reshape(-1, *at.shape[-2:]))
        if walk is not None:
            walked = (name, walk)
        before = view.producer(name, *_MOVES)
        if before is None or view.value(before.inputs[0]).quant != value.quant or view.is_const(before.inputs[0]):
            return walked
        between.append(before)
        name = before.inputs[0]


@rule(Reshape, Transpose)
def _lay_output(view: View, node: Node) -> Rewrite | None:
    """attention, transpose or reshape -> attention that writes where its output goes."""
    producer = view.producer(node.inputs[0], Attention)
    if producer is None or not view.sole_use(node.inputs[0]):
        return None
    x, y = view.value(node.inputs[0]), view.value(node.outputs[0])
    if x.quant != y.quant:
        return None
    a: Attention = producer.attrs
    place = np.arange(x.elements).reshape(x.shape)
    (source,) = op_of(node).float_ref(node.attrs, place)
    target = np.empty(x.elements, np.int64)
    target[source.reshape(-1)] = np.arange(x.elements)
    walk = HeadWalk.over(target[a.y.indices(a.heads, a.rows, a.width)])
    if walk is None or walk.next != 1:
        return None
    origin = tuple(dict.fromkeys((*producer.origin, *node.origin)))
    return RewriteDraft(view, node).finish(producer.inputs, replace(a, y=walk, shape=y.shape), origin)
