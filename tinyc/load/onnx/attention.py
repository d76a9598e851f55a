# SPDX-License-Identifier: Apache-2.0
"""Attention -> products of computed matrices with a softmax between; passes/attention.py joins them in integers."""

from __future__ import annotations

import numpy as np

from tinyc.base.errors import TinycError
from tinyc.ir.graph import Array, Value
from tinyc.load.onnx.choices import FAR
from tinyc.load.onnx.importing import OnnxStep, imports
from tinyc.ops.add import Add
from tinyc.ops.batch_matmul import BatchMatmul
from tinyc.ops.choose import HIDDEN, Choose
from tinyc.ops.mul import Mul
from tinyc.ops.reshape import Reshape
from tinyc.ops.softmax import Softmax
from tinyc.ops.transpose import Transpose

_MASK = 3
_HINT = "export the model without a cache of keys, or write attention with MatMul and Softmax"


@imports("Attention", ignores=("softmax_precision",))
def attention(s: OnnxStep) -> None:
    """Of 3 or 4 axes, with groups of heads that share keys, masks, is_causal; no cache, no softcap."""
    _check(s)
    q, k, v = (_heads(s, index, "q_num_heads" if index == 0 else "kv_num_heads") for index in range(3))
    (batch, heads, rows, depth), (shared, keys), width = q.shape, k.shape[1:3], v.shape[-1]
    fits = k.shape == (batch, shared, keys, depth) and v.shape[:3] == k.shape[:3] and heads % shared == 0
    if not fits:
        raise TinycError(f"queries {list(q.shape)}, keys {list(k.shape)}, values {list(v.shape)} do not fit", s.where)
    masked = s.has(_MASK) or s.node.flag("is_causal", False)
    scale = s.const(np.asarray(s.node.float_("scale", 0.0) or depth**-0.5, np.float32), 0)
    if masked:
        q = s.insert([q, scale], Mul(), "scaled")
    if heads != shared:  # the heads that share keys are rows of one product
        q = s.reshape(q, (batch, shared, heads // shared * rows, depth), "grouped")
    scores = s.insert([q, k], BatchMatmul(adj_y=True), "scores")
    if masked:
        scores = _masked(s, s.reshape(scores, (batch, heads, rows, keys), "by_head"))
        shares = s.insert([scores], Softmax(), "shares")
        shares = s.reshape(shares, (batch, shared, heads // shared * rows, keys), "by_group")
    else:
        shares = s.insert([s.insert([scores, scale], Mul(), "scaled")], Softmax(), "shares")
    context = s.insert([shares, v], BatchMatmul(), "context")
    if len(s.value(0).shape) == 4:
        s.emit([context], Reshape((batch, heads, rows, width)))
        return
    apart = s.reshape(context, (batch, heads, rows, width), "apart")
    s.emit([s.insert([apart], Transpose((0, 2, 1, 3)), "together")], Reshape((batch, rows, heads * width)))


def _check(s: OnnxStep) -> None:
    """TinycError for what is not computed."""
    if any(s.has(index) for index in (4, 5, 6)) or any(s.node.outputs[1:]):
        raise TinycError("Attention with past keys, or with more than one output", s.where, _HINT)
    if s.node.float_("softcap", 0.0) or s.node.int_("qk_matmul_output_mode", 0):
        raise TinycError("Attention with softcap or an output of its scores", s.where, _HINT)


def _heads(s: OnnxStep, index: int, attribute: str) -> Value:
    """An input as [batch, heads, tokens, numbers]."""
    x = s.value(index)
    if len(x.shape) == 4:
        return x
    count = s.node.int_(attribute, 0)
    if len(x.shape) != 3 or count < 1 or x.shape[2] % count:
        raise TinycError(f"Attention of {list(x.shape)} with {attribute} {count}", s.where)
    batch, tokens, numbers = x.shape
    split = s.reshape(x, (batch, tokens, count, numbers // count), "split")
    return s.transpose(split, (0, 2, 1, 3), "by_head")


def _masked(s: OnnxStep, scores: Value) -> Value:
    """The scores, far below all others where they do not count."""
    rows, keys = scores.shape[-2:]
    shown: Array = np.tril(np.ones((rows, keys), np.bool_)) if s.node.flag("is_causal", False) else np.ones(1, np.bool_)
    if s.has(_MASK):
        array = s.constant(_MASK)
        if array is None:
            scores = _masked_by_computed(s, scores)
        elif array.dtype == np.bool_:
            shown = shown & array
        else:
            near = array >= -HIDDEN
            shown = shown & near
            offsets = np.where(near, array, 0).astype(np.float32)
            scores = s.insert([scores, s.const(offsets, _MASK)], Add(), "offset") if offsets.any() else scores
    if not shown.any(axis=-1).all():
        raise TinycError("a row of the mask of Attention hides all keys", s.where, "its softmax is not defined")
    return scores if shown.all() else _hidden(s, scores, s.builder.add_const(f"{s.node.outputs[0]}:shown", shown))


def _masked_by_computed(s: OnnxStep, scores: Value) -> Value:
    mask = s.value(_MASK)
    return _hidden(s, scores, mask) if mask.dtype == "bool" else s.insert([scores, mask], Add(), "offset")


def _hidden(s: OnnxStep, scores: Value, shown: Value) -> Value:
    fill = s.builder.add_const(f"{s.node.outputs[0]}:hidden", np.array(-FAR, np.float32))
    return s.insert([shown, scores, fill], Choose(), "masked")
