# SPDX-License-Identifier: Apache-2.0
"""Comparisons, choices, lookups and normalizations of dequantized values -> those of the integers."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from tinyc.base.requantize import quantize_array
from tinyc.ir.graph import INT_RANGE, Node, Quant
from tinyc.ops import is_a, op_of
from tinyc.ops.choose import Choose
from tinyc.ops.compare import Compare
from tinyc.ops.dequantize import Dequantize
from tinyc.ops.gather import Gather
from tinyc.ops.l2_normalize import L2Normalize
from tinyc.ops.log_softmax import LogSoftmax
from tinyc.ops.op import Fixed
from tinyc.ops.quantize import Quantize
from tinyc.ops.requantize import Requantize
from tinyc.ops.softmax import Softmax
from tinyc.passes.qdq_constants import integers_behind
from tinyc.passes.rewrite import Rewrite, RewriteDraft, View, rule


@rule(Gather)
def gather_of_integers(view: View, node: Node) -> Rewrite | None:
    """gather(dequantize(x), indices) -> dequantize(gather(x, indices))."""
    source = integers_behind(view, node.inputs[0])
    if source is None:
        return None
    x, y, draft = view.value(source), view.value(node.outputs[0]), RewriteDraft(view, node)
    like = replace(x, name=y.name, loc=y.loc)
    picked = draft.add([source, node.inputs[1]], node.attrs, like, y.shape, "picked")
    return draft.finish([picked], Dequantize())


@rule(Choose)
def choose_of_integers(view: View, node: Node) -> Rewrite | None:
    """choose(c, dequantize(a), dequantize(b)) of one scale -> dequantize(choose(c, a, b)); a constant b takes a's."""
    condition, first, second = node.inputs
    a, b = integers_behind(view, first), integers_behind(view, second)
    if a is None or view.is_const(a):
        return None
    x, y, draft = view.value(a), view.value(node.outputs[0]), RewriteDraft(view, node)
    if b is None and view.is_const(second) and view.value(second).dtype == "f32" and x.quant is not None:
        integers = quantize_array(view.const(second), *x.quant.per_tensor, *INT_RANGE[x.dtype])
        b = draft.const(integers, replace(x, name=second, loc=None), "integers")
    if b is None or draft.value(b).quant != x.quant or draft.value(b).dtype != x.dtype:
        return None
    like = replace(x, name=y.name, loc=y.loc)
    chosen = draft.add([condition, a, b], node.attrs, like, y.shape, "chosen")
    return draft.finish([chosen], Dequantize())


@rule(Compare)
def compare_of_integers(view: View, node: Node) -> Rewrite | None:
    """compare(dequantize(a), dequantize(b)) -> compare(a, b); a constant number is a multiple of a scale of its own."""
    draft, inputs = RewriteDraft(view, node), []
    for name in node.inputs:
        source = integers_behind(view, name)
        if source is None and view.is_const(name) and view.value(name).elements == 1:
            number = float(view.const(name).reshape(()))
            quant = Quant((abs(number) / 127 or 1.0,), (0,))
            array = np.full(view.value(name).shape, np.sign(number) * 127).astype(np.int8)
            source = draft.const(array, replace(view.value(name), dtype="s8", quant=quant), "integers")
        if source is None:
            return None
        inputs.append(source)
    return draft.finish(inputs, node.attrs)


@rule(Quantize)
def normalization_of_integers(view: View, node: Node) -> Rewrite | None:
    """quantize(f(dequantize(x))), f with one quantization for all its outputs -> f of integers, requantized."""
    f = view.producer(node.inputs[0])
    source = integers_behind(view, f.inputs[0]) if f and is_requantized(view, node, f) else None
    if f is None or source is None or view.is_const(source) or view.value(source).dtype != "s8":
        return None
    y, draft = view.value(node.outputs[0]), RewriteDraft(view, node)
    (fixed,) = op_of(f).quant_out
    assert isinstance(fixed, Fixed)
    assert y.quant is not None
    scale, zero = y.quant.per_tensor
    if scale < fixed.scale / 2:
        return None  # a fixed step would be more than two of these
    if isinstance(f.attrs, LogSoftmax) and (INT_RANGE[y.dtype][0] - zero) * scale < (-128.5 - fixed.zero) * fixed.scale:
        return None  # it would hold what the fixed range cuts off
    like = replace(y, dtype="s8", quant=Quant((fixed.scale,), (fixed.zero,)))
    inner = draft.add([source], f.attrs, like, y.shape, "fixed")
    return draft.finish([inner], Requantize(y.dtype), f.origin + node.origin)


def is_requantized(view: View, node: Node, f: Node) -> bool:
    """Whether the integers of an operator have one quantization, and a quantize behind it asks for another."""
    if node.attrs.after_float or not is_a(f, L2Normalize, LogSoftmax, Softmax):
        return False
    y, (fixed,) = view.value(node.outputs[0]), op_of(f).quant_out
    assert isinstance(fixed, Fixed)
    if isinstance(f.attrs, Softmax):  # with halves to even, as in ONNX, it has integers in any scale
        own = Quant((fixed.scale,), (fixed.zero,))
        return y.dtype == "s8" and y.quant != own and not node.attrs.half_even
    return True


RULES = (gather_of_integers, choose_of_integers, compare_of_integers, normalization_of_integers)
