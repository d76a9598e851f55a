# SPDX-License-Identifier: Apache-2.0
"""Constant factors and offsets (batch norm is both) disappear into the weights beside them. Float graphs only.

In integers the sums would round differently; there, only padding is folded (`fold_padding`).
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from tinyc.ir.graph import Array, Graph, Node, Shape
from tinyc.kernel.site import Act, Padding
from tinyc.kernel.windows import Window
from tinyc.ops.add import Add
from tinyc.ops.avg_pool2d import AvgPool2D
from tinyc.ops.conv2d import Conv2D
from tinyc.ops.depthwise_conv2d import DepthwiseConv2D
from tinyc.ops.max_pool2d import MaxPool2D
from tinyc.ops.mean import Mean
from tinyc.ops.mul import Mul
from tinyc.ops.pad import Pad
from tinyc.ops.softmax import Softmax
from tinyc.ops.sub import Sub
from tinyc.passes.rewrite import Rewrite, RewriteDraft, View, begins_with, rewrite, rule
from tinyc.passes.weights import has_weights, out_axis, per_input, per_output, sum_inputs

_NONE = Act()


_Operand = tuple[str, Array]


def _operand(view: View, node: Node) -> _Operand | None:
    """(computed input, constant) of a binary node that has one of each."""
    for name, other in (node.inputs, node.inputs[::-1]):
        if view.is_const(other) and not view.is_const(name):
            return name, view.const(other)
    return None


def _two_constants(view: View, node: Node, *ops: type[Add | Mul]) -> tuple[Node, _Operand, _Operand] | None:
    """(the node before, its operand and constant, those of the node), where that is one of `ops` without an activation,
    nobody else reads it, and nothing repeats."""
    operand = _operand(view, node)
    before = view.producer(operand[0], *ops) if operand else None
    if operand is None or before is None or before.attrs.act != _NONE or not view.sole_use(operand[0]):
        return None
    first = _operand(view, before)
    if first is None or not view.is_float(node) or view.value(first[0]).shape != view.value(node.outputs[0]).shape:
        return None
    return before, first, operand


def _per_channel(constant: Array, shape: Shape) -> Array | None:
    """The constant as one number per index of the last axis of `shape`; None if it varies along another."""
    along_last = constant.shape[-1:] == shape[-1:] == (constant.size,) and constant.ndim <= len(shape)
    if constant.size != 1 and not along_last:
        return None
    return np.broadcast_to(constant.reshape(-1), shape[-1:])


def _weighted(view: View, name: str) -> Node | None:
    """The layer that makes the value, if its constants may change: float, no activation, no other reader."""
    node = view.producer(name)
    if node is None or not has_weights(node) or node.attrs.act != _NONE or not view.sole_use(name):
        return None
    return node if view.is_float(node) and all(view.is_const(other) for other in node.inputs[1:] if other) else None


def _bias(view: View, node: Node) -> Array:
    """The layer's bias [O] in float64, zeros where it has none."""
    if len(node.inputs) > 2 and node.inputs[2]:
        return view.const(node.inputs[2]).astype(np.float64)
    return np.zeros(view.const(node.inputs[1]).shape[out_axis(node)])


def _with(draft: RewriteDraft, layer: Node, x: str, w: Array, b: Array, origin: Node) -> Rewrite:
    """`layer` reading x, with new weights and bias, in place of the draft's node."""
    view, like = draft.view, draft.view.value(layer.inputs[1])
    has_bias = len(layer.inputs) > 2 and layer.inputs[2]
    bias_like = view.value(layer.inputs[2]) if has_bias else replace(like, name=f"{like.name}:bias")
    names = [x, draft.const(w, like, "scaled"), draft.const(b, bias_like, "shifted")]
    return draft.finish(names, layer.attrs, layer.origin + origin.origin)


@rule(Mul)
def mul_into_layer_before(view: View, node: Node) -> Rewrite | None:
    """layer, mul by c per channel -> layer with weights and bias times c."""
    layer_and_factor = _after_layer(view, node)
    if layer_and_factor is None:
        return None
    layer, factor = layer_and_factor
    w = view.const(layer.inputs[1])
    scaled = w * per_output(layer, w, factor)
    return _with(RewriteDraft(view, node), layer, layer.inputs[0], scaled, _bias(view, layer) * factor, node)


@rule(Add)
def add_into_layer_before(view: View, node: Node) -> Rewrite | None:
    """layer, add of c per channel -> layer with c in its bias."""
    layer_and_factor = _after_layer(view, node)
    if layer_and_factor is None:
        return None
    layer, offset = layer_and_factor
    w, shifted = view.const(layer.inputs[1]), _bias(view, layer) + offset
    return _with(RewriteDraft(view, node), layer, layer.inputs[0], w, shifted, node)


def _after_layer(view: View, node: Node) -> tuple[Node, Array] | None:
    """(layer, constant per channel) of a binary node of these two."""
    operand = _operand(view, node)
    layer = _weighted(view, operand[0]) if operand else None
    if operand is None or layer is None or node.attrs.act != _NONE:
        return None
    x = view.value(operand[0])
    constant = _per_channel(operand[1], x.shape)
    return None if constant is None or view.value(node.outputs[0]).shape != x.shape else (layer, constant)


@rule()
def mul_into_layer_after(view: View, node: Node) -> Rewrite | None:
    """mul by c per channel, layer -> layer with c in its weights; padding is zero before and after."""
    binary = _binary_before(view, node, Mul)
    if binary is None:
        return None
    before, x, factor = binary
    w = view.const(node.inputs[1]) * per_input(node, view.const(node.inputs[1]), factor)
    return _with(RewriteDraft(view, node), node, x, w, _bias(view, node), before)


@rule()
def add_into_layer_after(view: View, node: Node) -> Rewrite | None:
    """add of c per channel, layer -> layer with c times its weights in the bias; only where it pads nothing."""
    binary = _binary_before(view, node, Add)
    if binary is None or any(getattr(node.attrs, "pad", ())):
        return None
    before, x, offset = binary
    w = view.const(node.inputs[1])
    bias = _bias(view, node) + sum_inputs(node, w * per_input(node, w, offset))
    return _with(RewriteDraft(view, node), node, x, w, bias, before)


def _binary_before(view: View, node: Node, kind: type) -> tuple[Node, str, Array] | None:
    """(binary node, its computed input, constant per channel) that only this float layer reads."""
    before = view.producer(node.inputs[0], kind) if has_weights(node) else None
    if before is None or before.attrs.act != _NONE or not view.sole_use(node.inputs[0]) or not view.is_float(node):
        return None
    if not all(view.is_const(other) for other in node.inputs[1:] if other):
        return None
    operand = _operand(view, before)
    if operand is None or view.value(operand[0]).shape != view.value(before.outputs[0]).shape:
        return None
    constant = _per_channel(operand[1], view.value(operand[0]).shape)
    return None if constant is None else (before, operand[0], constant)


@rule(Mul)
def mul_before_add(view: View, node: Node) -> Rewrite | None:
    """add of c, mul by d -> mul by d, add of c*d; and mul by c, mul by d -> mul by c*d."""
    pair = _two_constants(view, node, Add, Mul)
    if pair is None:
        return None
    before, first, operand = pair
    draft, y = RewriteDraft(view, node), view.value(node.outputs[0])
    origin = before.origin + node.origin
    both = draft.const(np.asarray(first[1] * operand[1]), view.value(node.inputs[1]), "product")
    if isinstance(before.attrs, Mul):
        return draft.finish([first[0], both], node.attrs, origin)
    factor = draft.const(operand[1], view.value(node.inputs[1]), "factor")
    scaled = draft.add([first[0], factor], Mul(), replace(y, loc=None), y.shape, "scaled")
    return draft.finish([scaled, both], Add(node.attrs.act), origin)


@rule(Add)
def merge_adds(view: View, node: Node) -> Rewrite | None:
    """add of c, add of d -> add of c+d."""
    pair = _two_constants(view, node, Add)
    if pair is None:
        return None
    before, first, operand = pair
    draft = RewriteDraft(view, node)
    both = draft.const(np.asarray(first[1] + operand[1]), view.value(node.inputs[1]), "sum")
    return draft.finish([first[0], both], node.attrs, before.origin + node.origin)


@rule(Sub)
def sub_to_add(view: View, node: Node) -> Rewrite | None:
    """x - c -> x + (-c), and c - x -> x * (-1) + c, which the other rules fold."""
    operand = _operand(view, node)
    if operand is None or not view.is_float(node):
        return None
    draft, y = RewriteDraft(view, node), view.value(node.outputs[0])
    name, constant = operand
    if name == node.inputs[0]:
        negative = draft.const(-constant, view.value(node.inputs[1]), "negative")
        return draft.finish([name, negative], Add(node.attrs.act))
    x, like = view.value(name), view.value(node.inputs[0])
    minus = draft.const(np.array(-1, np.float32), like, "minus")
    flipped = draft.add([name, minus], Mul(), replace(y, loc=None), x.shape, "flipped")
    return draft.finish([flipped, node.inputs[0]], Add(node.attrs.act))


@rule(Mul)
def scale_to_depthwise(view: View, node: Node) -> Rewrite | None:
    """mul of an image by c per channel -> depthwise 1x1 convolution, which takes the offset and activation too."""
    operand, y = _operand(view, node), view.value(node.outputs[0])
    if operand is None or not view.is_float(node) or len(y.shape) != 4 or y.shape[0] != 1:
        return None
    factor = _per_channel(operand[1], y.shape)
    if factor is None or operand[1].size == 1 or view.value(operand[0]).shape != y.shape:
        return None
    draft = RewriteDraft(view, node)
    w = draft.const(np.asarray(factor).reshape(1, 1, -1), view.value(node.inputs[1]), "depthwise")
    return draft.finish([operand[0], w], DepthwiseConv2D(act=node.attrs.act))


@rule(AvgPool2D)
def global_pool_to_mean(view: View, node: Node) -> Rewrite | None:
    """avg_pool2d over the whole image -> mean, whose output has a finer scale of its own."""
    x, y = view.value(node.inputs[0]), view.value(node.outputs[0])
    a: AvgPool2D = node.attrs
    whole = tuple(a.kernel) == x.shape[1:3] and y.shape[1:3] == (1, 1) and not any(a.pad)
    if not whole or a.act != _NONE or not view.is_float(node):
        return None
    return RewriteDraft(view, node).finish(node.inputs, Mean((1, 2), keep_dims=True))


@rule(Conv2D, DepthwiseConv2D, AvgPool2D, MaxPool2D)
def fold_padding(view: View, node: Node) -> Rewrite | None:
    """pad of rows and columns with zero -> padding of the convolution or pool behind it. Integer graphs too.

    Exact: a convolution pads with the zero point, which is what the integer 0.0 is. avg_pool2d then
    counts the padding; max_pool2d ignores it, which is the same only if its input is never negative.
    """
    before = view.producer(node.inputs[0], Pad)
    if before is None or before.attrs.value != 0 or not view.sole_use(node.inputs[0]):
        return None
    (_, top, left, depth), (_, bottom, right, more) = before.attrs.before, before.attrs.after
    if depth or more or before.attrs.before[0] or before.attrs.after[0]:
        return None
    own: Padding = node.attrs.pad
    attrs = replace(node.attrs, pad=Padding(own.top + top, own.left + left, own.bottom + bottom, own.right + right))
    if isinstance(attrs, AvgPool2D):
        if any(own) and not attrs.count_pad:
            return None
        attrs = replace(attrs, count_pad=True)
    if isinstance(attrs, MaxPool2D) and (any(own) or not _never_negative(view, before.inputs[0])):
        return None
    if isinstance(attrs, AvgPool2D | MaxPool2D) and not _touches_image(view, before.inputs[0], attrs):
        return None
    inputs = (before.inputs[0], *node.inputs[1:])
    return RewriteDraft(view, node).finish(inputs, attrs, before.origin + node.origin)


def _never_negative(view: View, name: str) -> bool:
    node = view.producer(name)
    return node is not None and getattr(node.attrs, "act", _NONE).lo >= 0


def _touches_image(view: View, name: str, attrs: AvgPool2D | MaxPool2D) -> bool:
    """Whether every window has a tap inside the unpadded image, as pools ask for."""
    counts = Window.of(attrs, *attrs.kernel).taps_inside(view.value(name).shape)
    return bool(min(c.min() for c in counts) >= 1)


@rule(Softmax)
def mul_into_softmax(view: View, node: Node) -> Rewrite | None:
    """mul by a number above 0, softmax -> softmax with it in beta: how attention scales its scores."""
    before = view.producer(node.inputs[0], Mul)
    if before is None or before.attrs.act != _NONE or not view.sole_use(node.inputs[0]) or not view.is_float(before):
        return None
    operand = _operand(view, before)
    if operand is None or operand[1].size != 1 or not 0 < float(operand[1].reshape(())) < np.inf:
        return None
    if view.value(operand[0]).shape != view.value(node.inputs[0]).shape or not view.is_float(node):
        return None
    attrs = replace(node.attrs, beta=node.attrs.beta * float(operand[1].reshape(())))
    return RewriteDraft(view, node).finish([operand[0]], attrs, before.origin + node.origin)


_RULES = (
    mul_into_softmax,
    mul_into_layer_before,
    add_into_layer_before,
    mul_before_add,
    merge_adds,
    sub_to_add,
    mul_into_layer_after,
    add_into_layer_after,
)


def fold_constants(graph: Graph) -> Graph:
    """The graph with factors and offsets folded into weights; what is left of them per channel is depthwise."""
    graph = rewrite(graph, _RULES)
    return rewrite(graph, (*_RULES, scale_to_depthwise))


@begins_with(AvgPool2D)
def global_means(graph: Graph) -> Graph:
    """The float graph with average pools over whole images as means."""
    return rewrite(graph, (global_pool_to_mean,))


@begins_with(Pad)
def fold_pads(graph: Graph) -> Graph:
    """The graph with explicit zero padding folded into the operators behind it."""
    return rewrite(graph, (fold_padding,))
