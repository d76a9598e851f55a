# SPDX-License-Identifier: Apache-2.0
"""Constants between dequantize and quantize go into the layer before them: bias and scales take them."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from tinyc.ir.graph import INT_RANGE, Array, Node, Quant, Value
from tinyc.kernel.site import Act
from tinyc.ops.add import Add
from tinyc.ops.dequantize import Dequantize
from tinyc.ops.mul import Mul
from tinyc.passes.rewrite import Rewrite, RewriteDraft, View, rule
from tinyc.passes.weights import has_weights, out_axis

_NONE = Act()


def integers_behind(view: View, name: str) -> str | None:
    """The integers behind a float value; None if it is computed in float."""
    node = view.producer(name, Dequantize)
    return node.inputs[0] if node else None


@rule(Add)
def add_into_bias(view: View, node: Node) -> Rewrite | None:
    """A weighted layer in float, add of a constant per output -> the layer with that constant in its bias."""
    for name, other in (node.inputs, node.inputs[::-1]):
        layer = view.producer(name)
        if layer is None or not has_weights(layer) or not view.sole_use(name) or layer.attrs.act != _NONE:
            continue
        y = view.value(name)
        offset = real_constant(view, other)
        if y.dtype != "f32" or y.shape != view.value(node.outputs[0]).shape or offset is None:
            continue
        if offset.size not in (1, y.shape[-1]) or (offset.size > 1 and offset.shape[-1] != offset.size):
            continue
        out_c = view.value(layer.inputs[1]).shape[out_axis(layer)]
        bias = np.broadcast_to(offset.astype(np.float64).reshape(-1), (out_c,))
        if len(layer.inputs) > 2 and layer.inputs[2]:
            before = real_constant(view, layer.inputs[2])
            if before is None:
                return None
            bias = bias + before
        draft = RewriteDraft(view, node)
        like = Value(f"{node.outputs[0]}:bias", (out_c,), "f32")
        b = draft.const(bias.astype(np.float32), like)
        attrs = replace(layer.attrs, act=node.attrs.act)
        return draft.finish([*layer.inputs[:2], b], attrs, layer.origin + node.origin)
    return None


@rule(Mul)
def mul_into_scales(view: View, node: Node) -> Rewrite | None:
    """A layer with integer weights in float, mul by a constant per output -> that factor in the weights' scales.

    Exact: a negative factor turns the signs of its channel's integers. (Batch norm behind a quantized convolution.)
    """
    for name, other in (node.inputs, node.inputs[::-1]):
        layer = view.producer(name)
        factor = real_constant(view, other)
        y = view.value(node.outputs[0])
        if layer is None or not has_weights(layer) or factor is None or not view.sole_use(name):
            continue
        if layer.attrs.act != _NONE:
            continue
        if view.value(name).shape != y.shape or y.dtype != "f32" or factor.size not in (1, y.shape[-1]):
            continue
        if factor.size > 1 and factor.shape[-1] != factor.size:
            continue
        w = view.value(layer.inputs[1])
        axis = out_axis(layer)
        by = np.broadcast_to(factor.astype(np.float64).reshape(-1), (w.shape[axis],))
        if w.quant is None or not view.is_const(w.name) or not by.all():
            continue
        return _scaled(view, node, layer, w, by)
    return None


def _scaled(view: View, node: Node, layer: Node, w: Value, by: Array) -> Rewrite | None:
    """The layer with its outputs times `by`, in place of the node."""
    axis = out_axis(layer)
    shape = [-1 if k == axis else 1 for k in range(len(w.shape))]
    ints = view.const(w.name).astype(np.int64) * np.sign(by).astype(np.int64).reshape(shape)
    if w.quant is None or w.dtype not in INT_RANGE or ints.max() > INT_RANGE[w.dtype][1]:
        return None
    scale = np.broadcast_to(np.asarray(w.quant.scale), by.shape) * np.abs(by)
    draft = RewriteDraft(view, node)
    quant = Quant(tuple(map(float, scale)), (0,) * len(scale), axis)
    names = [layer.inputs[0], draft.const(ints, replace(w, quant=quant), "scaled")]
    if len(layer.inputs) > 2 and layer.inputs[2]:
        bias = real_constant(view, layer.inputs[2])
        if bias is None:
            return None
        names.append(draft.const((bias * by).astype(np.float32), Value(f"{node.outputs[0]}:bias", by.shape, "f32")))
    attrs = replace(layer.attrs, act=node.attrs.act)
    return draft.finish(names, attrs, layer.origin + node.origin)


def real_constant(view: View, name: str) -> Array | None:
    """The reals of a constant, held as floats or behind a dequantize; None if the value is computed."""
    held = integers_behind(view, name) or name
    if not view.is_const(held):
        return None
    quant = view.value(held).quant
    return view.const(held) if quant is None else quant.dequantize(view.const(held))
