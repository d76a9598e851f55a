# SPDX-License-Identifier: Apache-2.0
"""One layout, NHWC: transposes move towards the outputs until they meet their inverse, or weights.

Loaders wrap NCHW operators in transposes. Here a transpose passes through every operator that can do
its work in the other order; two that meet become one or none (cleanup.py). What is left is what the
model asks for at its own inputs and outputs.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from tinyc.ir.graph import Graph, Node, Shape, Value
from tinyc.ops import is_a
from tinyc.ops.argmax import ArgMax
from tinyc.ops.concat import Concat
from tinyc.ops.fully_connected import FullyConnected
from tinyc.ops.op import Trait
from tinyc.ops.pad import Pad
from tinyc.ops.reductions import reduced_axes
from tinyc.ops.reshape import Reshape
from tinyc.ops.slice import Slice
from tinyc.ops.transpose import Transpose
from tinyc.passes.cleanup import (
    cleanup,
    drop_identity,
    merge_reshapes,
    merge_transposes,
    moves_nothing,
    transpose_to_view,
)
from tinyc.passes.rewrite import Rewrite, RewriteDraft, View, rewrite, rule
from tinyc.passes.shuffles import sink_through_shuffle, sink_through_split

Perm = tuple[int, ...]

_LIFTED = (Trait.ELEMENTWISE, Trait.BROADCASTS, Pad)
_PASSED = (*_LIFTED, Trait.REDUCES, Trait.LAST_AXIS, Concat)


def inverse(perm: Perm) -> Perm:
    """The permutation that undoes `perm`."""
    return tuple(perm.index(k) for k in range(len(perm)))


def permuted(shape: Shape, perm: Perm) -> Shape:
    return tuple(shape[k] for k in perm)


def _stays_at_input(view: View, moved: Node) -> bool:
    """Whether a transpose of a model input has nothing to gain by moving: `lift_to_input` has put it there.

    It gains if another transpose, or a reshape that may end in dense weights, comes within reach.
    """
    if not isinstance(moved.attrs, Transpose) or not view.is_input(moved.inputs[0]):
        return False
    reached, new = {moved.outputs[0]}, [moved.outputs[0]]
    while new:
        for reader in view.consumers(new.pop()):
            if is_a(reader, Transpose, Reshape):
                return False
            if is_a(reader, *_PASSED) and not reached.issuperset(reader.outputs):
                reached.update(reader.outputs)
                new.extend(reader.outputs)
    return True


def _after(draft: RewriteDraft, inputs: Sequence[str], attrs: object, perm: Perm, y: Value) -> Rewrite:
    """y = transpose(f(inputs), perm) in place of the draft's node; y's elements are those of the new value."""
    shape = permuted(y.shape, inverse(perm))
    inner = draft.add(inputs, attrs, y, shape, "nhwc" if len(shape) == 4 else "moved")
    return draft.finish([inner], Transpose(perm))


@rule(Trait.ELEMENTWISE)
def sink_through_unary(view: View, node: Node) -> Rewrite | None:
    """f(transpose(x)) -> transpose(f(x)) and f(reshape(x)) -> reshape(f(x)), f treating all elements alike."""
    moved = view.producer(node.inputs[0], Transpose, Reshape)
    if moved is None or _stays_at_input(view, moved):
        return None
    y, x = view.value(node.outputs[0]), view.value(moved.inputs[0])
    draft = RewriteDraft(view, node)
    inner = draft.add([x.name, *node.inputs[1:]], node.attrs, y, x.shape, "moved")
    return draft.finish([inner], moved.attrs)


@rule(Trait.BROADCASTS)
def sink_through_binary(view: View, node: Node) -> Rewrite | None:
    """f(transpose(a), b) -> transpose(f(a, b')) where b' = b transposed back costs nothing."""
    y = view.value(node.outputs[0])
    for name in node.inputs:
        moved = view.producer(name, Transpose)
        if moved is None or len(view.value(name).shape) != len(y.shape) or _stays_at_input(view, moved):
            continue
        perm = moved.attrs.perm
        draft = RewriteDraft(view, node)
        inputs = [_undone(draft, other, moved) for other in node.inputs]
        if None not in inputs:
            return _after(draft, [i for i in inputs if i], node.attrs, perm, y)
    return None


def _undone(draft: RewriteDraft, name: str, transpose: Node) -> str | None:
    """The value as it was before the transpose, if that needs no byte to move; lower ranks broadcast."""
    perm: Perm = transpose.attrs.perm
    view, value, back = draft.view, draft.view.value(name), inverse(perm)
    wide = (1,) * (len(perm) - len(value.shape)) + value.shape
    if len(wide) != len(perm):
        return None
    if view.is_const(name):
        per_axis = value.quant is not None and value.quant.axis is not None
        return None if per_axis else draft.const(view.const(name).reshape(wide).transpose(back), value, "moved")
    moved = view.producer(name, Transpose)
    if moved is not None and moved.attrs.perm == perm:
        return moved.inputs[0]
    return _transposed_for_free(draft, name, wide, back, transpose.outputs[0])


def _transposed_for_free(draft: RewriteDraft, name: str, wide: Shape, back: Perm, undone: str) -> str | None:
    """transpose(name, back), if the graph has it already or it moves no byte. `wide`: the shape with its full rank.

    undone: the transposed operand beside it. Where other nodes read that as well, f(undone, b) and f(a, transpose(b,
    back)) cost the same, and to go from one to the other would never end: then only the way from channels last is open.
    """
    view, value = draft.view, draft.view.value(name)
    is_open = view.sole_use(undone) or inverse(back) > back
    for reader in view.consumers(name) if is_open else ():
        if reader.outputs[0] == undone:
            continue
        if isinstance(reader.attrs, Transpose) and reader.attrs.perm == back and view.is_available(reader.outputs[0]):
            return reader.outputs[0]
    if moves_nothing(wide, back):
        return draft.add([name], Reshape(permuted(wide, back)), value, permuted(wide, back), "moved")
    return None


@rule(Trait.BROADCASTS)
def sink_reshape_through_binary(view: View, node: Node) -> Rewrite | None:
    """f(reshape(a), b) -> reshape(f(a, b')) for b a number, or a reshape from the same shape as a.

    Also for b a constant, where the reshape only adds or removes axes of size 1.
    """
    y = view.value(node.outputs[0])
    if len(node.inputs) != 2:
        return None
    for name, other in (node.inputs, node.inputs[::-1]):
        moved = view.producer(name, Reshape)
        if moved is None or view.value(name).shape != y.shape:
            continue
        x, draft = view.value(moved.inputs[0]), RewriteDraft(view, node)
        back = _unreshaped(draft, other, x.shape, y.shape)
        if back is not None:
            inputs = [x.name, back] if node.inputs[0] == name else [back, x.name]
            inner = draft.add(inputs, node.attrs, y, x.shape, "moved")
            return draft.finish([inner], Reshape(y.shape))
    return None


def _unreshaped(draft: RewriteDraft, name: str, x: Shape, y: Shape) -> str | None:
    """An operand for shape x that acts as `name` does on the same elements in shape y; None if there is none."""
    view, value = draft.view, draft.view.value(name)
    moved = view.producer(name, Reshape)
    if moved is not None and value.shape == y and view.value(moved.inputs[0]).shape == x:
        return moved.inputs[0]
    if not view.is_const(name) or (value.quant is not None and value.quant.axis is not None):
        return None
    if value.elements == 1:
        return draft.const(view.const(name).reshape(()), value, "moved")
    long_x, long_y = ([k for k, size in enumerate(s) if size != 1] for s in (x, y))
    if [x[k] for k in long_x] != [y[k] for k in long_y]:
        return None
    wide = (1,) * (len(y) - len(value.shape)) + value.shape
    shape = [1] * len(x)
    for kx, ky in zip(long_x, long_y, strict=True):
        shape[kx] = wide[ky]
    return draft.const(view.const(name).reshape(shape), value, "moved")


@rule(Concat)
def sink_through_concat(view: View, node: Node) -> Rewrite | None:
    """concat of transposes -> transpose of concat, where all inputs can be transposed back for nothing."""
    y = view.value(node.outputs[0])
    for name in node.inputs:
        moved = view.producer(name, Transpose)
        if moved is None:
            continue
        perm, draft = moved.attrs.perm, RewriteDraft(view, node)
        inputs = [_undone(draft, other, moved) for other in node.inputs]
        if None not in inputs:
            axis = perm[node.attrs.axis % len(perm)]
            return _after(draft, [i for i in inputs if i], Concat(axis), perm, y)
    return None


@rule(Pad)
def sink_through_pad(view: View, node: Node) -> Rewrite | None:
    """pad(transpose(x)) -> transpose(pad(x))."""
    moved = view.producer(node.inputs[0], Transpose)
    if moved is None or _stays_at_input(view, moved):
        return None
    perm, back = moved.attrs.perm, inverse(moved.attrs.perm)
    attrs = Pad(permuted(node.attrs.before, back), permuted(node.attrs.after, back), node.attrs.value)
    return _after(RewriteDraft(view, node), moved.inputs, attrs, perm, view.value(node.outputs[0]))


@rule(Slice)
def sink_through_slice(view: View, node: Node) -> Rewrite | None:
    """slice(transpose(x)) -> transpose(slice(x))."""
    moved = view.producer(node.inputs[0], Transpose)
    if moved is None or _stays_at_input(view, moved):
        return None
    perm, back, a = moved.attrs.perm, inverse(moved.attrs.perm), node.attrs
    attrs = Slice(permuted(a.begin, back), permuted(a.size, back), permuted(a.step, back))
    return _after(RewriteDraft(view, node), moved.inputs, attrs, perm, view.value(node.outputs[0]))


@rule(ArgMax)
def sink_through_argmax(view: View, node: Node) -> Rewrite | None:
    """argmax(transpose(x)) -> transpose(argmax(x)) along the axis that x has it on."""
    moved = view.producer(node.inputs[0], Transpose)
    if moved is None:
        return None
    perm, keep = moved.attrs.perm, node.attrs.keep_dims
    axis = perm[node.attrs.axis % len(perm)]
    left = [k for k in range(len(perm)) if keep or k != axis]
    order = tuple(left.index(k) for k in perm if k in left)
    attrs = replace(node.attrs, axis=axis)
    return _after(RewriteDraft(view, node), moved.inputs, attrs, order, view.value(node.outputs[0]))


@rule(Trait.REDUCES)
def sink_through_mean(view: View, node: Node) -> Rewrite | None:
    """mean(transpose(x)) -> transpose(mean(x)) over the axes that x has them on; a sum and an extremum alike."""
    moved = view.producer(node.inputs[0], Transpose)
    if moved is None:
        return None
    perm = moved.attrs.perm
    axes = tuple(sorted(perm[k] for k in reduced_axes(node.attrs, len(perm))))
    left = tuple(range(len(perm))) if node.attrs.keep_dims else tuple(k for k in range(len(perm)) if k not in axes)
    order = tuple(left.index(k) for k in perm if k in left)
    attrs = replace(node.attrs, axes=axes)
    return _after(RewriteDraft(view, node), moved.inputs, attrs, order, view.value(node.outputs[0]))


@rule(Trait.LAST_AXIS)
def sink_through_softmax(view: View, node: Node) -> Rewrite | None:
    """softmax(transpose(x)) -> transpose(softmax(x)) if the last axis stays the last."""
    moved = view.producer(node.inputs[0], Transpose)
    if moved is None or moved.attrs.perm[-1] != len(moved.attrs.perm) - 1:
        return None
    y = view.value(node.outputs[0])
    return _after(RewriteDraft(view, node), moved.inputs, node.attrs, moved.attrs.perm, y)


@rule(Reshape)
def sink_through_reshape(view: View, node: Node) -> Rewrite | None:
    """reshape(transpose(x)) -> transpose(reshape(x)) where axes are merged that are neighbours in x as well."""
    moved = view.producer(node.inputs[0], Transpose)
    if moved is None:
        return None
    x, y = view.value(moved.inputs[0]), view.value(node.outputs[0])
    order = _order_of_groups(x.shape, moved.attrs.perm, y.shape)
    if order is None:
        return None
    shape = permuted(y.shape, order)
    return _after(RewriteDraft(view, node), [x.name], Reshape(shape), inverse(order), y)


def _order_of_groups(x: Shape, perm: Perm, y: Shape) -> Perm | None:
    """The order of y's axes in which they lie in x, if every axis of y is one run of whole axes of x.

    Axes of size 1 keep their place in y; the others fill the places that remain.
    """
    source = [k for k in perm if x[k] != 1]  # x's axes in the order in which y's elements run
    rank_in_x = {k: i for i, k in enumerate(k for k in range(len(x)) if x[k] != 1)}
    long_axes = [k for k, size in enumerate(y) if size != 1]
    starts, at = [], 0
    for axis in long_axes:
        end, size = at, 1
        while size < y[axis] and end < len(source):
            size *= x[source[end]]
            end += 1
        ranks = [rank_in_x[k] for k in source[at:end]]
        if size != y[axis] or ranks != list(range(ranks[0], ranks[0] + len(ranks))):
            return None
        starts.append(ranks[0])
        at = end
    in_x_order = iter([long_axes[i] for i in np.argsort(starts)])
    return tuple(k if y[k] == 1 else next(in_x_order) for k in range(len(y)))


@rule(FullyConnected)
def permute_weights(view: View, node: Node) -> Rewrite | None:
    """fully_connected of a flattened transpose -> the weights' columns in the order of the untransposed input."""
    w = view.value(node.inputs[1])
    flat = view.producer(node.inputs[0], Reshape)
    moved = view.producer(flat.inputs[0] if flat else node.inputs[0], Transpose)
    if moved is None or not view.is_const(w.name):
        return None
    x, given = view.value(moved.inputs[0]), view.value(node.inputs[0])
    if x.elements != w.shape[1]:
        return None
    draft = RewriteDraft(view, node)
    source = np.arange(x.elements).reshape(x.shape).transpose(moved.attrs.perm).reshape(-1)
    weights = draft.const(view.const(w.name)[:, np.argsort(source)], w, "moved")
    shape = given.shape if node.attrs.keep_dims else (1, x.elements)
    flattened = draft.add([x.name], Reshape(shape), x, shape, "flat")
    return draft.finish([flattened, weights, *node.inputs[2:]], node.attrs)


@rule(Transpose)
def lift_to_input(view: View, node: Node) -> Rewrite | None:
    """transpose(f(x, c)) -> f(transpose(x), c') where x leads up to a model input: there it can be folded."""
    f = view.producer(node.inputs[0], *_LIFTED)
    if f is None or not view.is_float(f) or not view.sole_use(node.inputs[0]) or not _at_input(view, f):
        return None
    perm, draft, inputs = node.attrs.perm, RewriteDraft(view, node), []
    for name in f.inputs:
        value = view.value(name)
        wide = (1,) * (len(perm) - len(value.shape)) + value.shape
        if view.is_const(name):
            inputs.append(draft.const(view.const(name).reshape(wide).transpose(perm), value, "moved"))
        elif len(value.shape) == len(perm):
            shape = permuted(value.shape, perm)
            inputs.append(draft.add([name], Transpose(perm), value, shape, "nhwc"))
        else:
            return None
    attrs = f.attrs
    if isinstance(attrs, Pad):
        attrs = Pad(permuted(attrs.before, perm), permuted(attrs.after, perm), attrs.value)
    return draft.finish(inputs, attrs, f.origin)


def _at_input(view: View, node: Node) -> bool:
    """Whether only operators with one computed operand lie between the node and a model input."""
    while True:
        computed = [name for name in node.inputs if not view.is_const(name)]
        if len(computed) != 1:
            return False
        if view.is_input(computed[0]):
            return True
        before = view.producer(computed[0], *_LIFTED)
        if before is None:
            return False
        node = before


_SINK = (
    drop_identity,
    merge_reshapes,
    merge_transposes,
    transpose_to_view,
    sink_through_unary,
    sink_through_binary,
    sink_reshape_through_binary,
    sink_through_concat,
    sink_through_pad,
    sink_through_slice,
    sink_through_argmax,
    sink_through_mean,
    sink_through_softmax,
    sink_through_reshape,
    sink_through_split,
    sink_through_shuffle,
    permute_weights,
)
_LIFT = (drop_identity, merge_reshapes, merge_transposes, transpose_to_view, lift_to_input)


def to_nhwc(graph: Graph) -> Graph:
    """The graph with its transposes cancelled, moved to the outputs or lifted to the inputs.

    Integers and floats alike: every rule computes the same elements, only in another order.
    """
    graph = cleanup(graph)
    before = None
    while before is not graph:  # merging equal transposes can make way for the next
        before = graph
        graph = cleanup(rewrite(graph, _SINK))
    return cleanup(rewrite(graph, _LIFT))
