# SPDX-License-Identifier: Apache-2.0
"""Attention -> products of computed matrices with a softmax between; passes/attention.py joins them in integers."""

from __future__ import annotations

import numpy as np

from tinyc.base.errors import TinycError
from tinyc.ir.graph import Array, Shape, Value
from tinyc.load.onnx.choices import FAR
from tinyc.load.onnx.importing import OnnxStep, imports
from tinyc.ops.add import Add
from tinyc.ops.batch_matmul import BatchMatmul
from tinyc.ops.choose import HIDDEN, Choose
from tinyc.ops.concat import Concat
from tinyc.ops.mul import Mul
from tinyc.ops.reshape import Reshape
from tinyc.ops.softmax import Softmax
from tinyc.ops.tanh import Tanh
from tinyc.ops.transpose import Transpose

_MASK, _SCORES = 3, 3  # an input, and an output
_HINT = "write attention with MatMul and Softmax"


@imports("Attention", ignores=("softmax_precision",))
def attention(s: OnnxStep) -> None:
    """Of 3 or 4 axes, with groups of heads that share keys, masks, is_causal, windows, softcap; with keys and values of
    before, and with those of now and the scores as outputs."""
    q, k, v = (_heads(s, index, "q_num_heads" if index == 0 else "kv_num_heads") for index in range(3))
    past = _past(s, k, v)
    if past is not None:
        k, v = (
            s.insert([old, new], Concat(2), f"all{n}") for n, (old, new) in enumerate(zip(past, (k, v), strict=True))
        )
    for output, tensor in ((1, k), (2, v)):
        if _is_read(s, output):
            s.emit([tensor], Reshape(tensor.shape), output=output)
    (batch, heads, rows, depth), (shared, keys), width = q.shape, k.shape[1:3], v.shape[-1]
    fits = k.shape == (batch, shared, keys, depth) and v.shape[:3] == k.shape[:3] and heads % shared == 0
    if not fits:
        raise TinycError(f"queries {list(q.shape)}, keys {list(k.shape)}, values {list(v.shape)} do not fit", s.where)
    shares = _shares(s, q, k, 0 if past is None else past[0].shape[2])
    context = s.insert([shares, v], BatchMatmul(), "context")
    if len(s.value(0).shape) == 4:
        s.emit([context], Reshape((batch, heads, rows, width)))
        return
    apart = s.reshape(context, (batch, heads, rows, width), "apart")
    s.emit([s.insert([apart], Transpose((0, 2, 1, 3)), "together")], Reshape((batch, rows, heads * width)))


def _shares(s: OnnxStep, q: Value, k: Value, before: int) -> Value:
    """[batch, heads that have keys of their own, rows of queries, keys]: what each query takes of each key."""
    (batch, heads, rows, depth), (shared, keys) = q.shape, k.shape[1:3]
    by_head, by_group = (batch, heads, rows, keys), (batch, shared, heads // shared * rows, keys)
    shown, cap = _shown(s, by_head, before), s.node.float_("softcap", 0.0)
    mode = s.node.int_("qk_matmul_output_mode", 0)
    apart = not shown.all() or s.has(_MASK) or bool(cap) or _is_read(s, _SCORES)
    scale = s.const(np.asarray(s.node.float_("scale", 0.0) or depth**-0.5, np.float32), 0)
    if apart:
        q = s.insert([q, scale], Mul(), "scaled")
    if heads != shared:  # the heads that share keys are rows of one product
        q = s.reshape(q, (batch, shared, heads // shared * rows, depth), "grouped")
    scores = s.insert([q, k], BatchMatmul(adj_y=True), "scores")
    if not apart:
        return s.insert([s.insert([scores, scale], Mul(), "scaled")], Softmax(), "shares")
    stages = [s.reshape(scores, by_head, "by_head")]
    stages.append(_capped(s, stages[0], cap))
    stages.append(_masked(s, stages[1], shown))
    shares = s.insert([stages[2]], Softmax(), "shares")
    some = shown.any(axis=-1, keepdims=True)
    if not some.all():  # a query that sees no key takes nothing
        masks = [
            s.builder.add_const(f"{s.node.outputs[0]}:{name}", a)
            for name, a in (("some", np.asarray(some)), ("none", np.zeros((), np.float32)))
        ]
        shares = s.insert([masks[0], shares, masks[1]], Choose(), "seen")
    stages.append(shares)
    if _is_read(s, _SCORES):
        if mode not in range(4) or (mode == 2 and not shown.all()):
            raise TinycError(
                f"scores as an output, in mode {mode} and with infinities, cannot be compiled", s.where, _HINT
            )
        s.emit([stages[mode]], Reshape(by_head), output=_SCORES)
    return s.reshape(shares, by_group, "by_group")


def _is_read(s: OnnxStep, output: int) -> bool:
    return output < len(s.node.outputs) and s.node.outputs[output] in s.builder.read


def _past(s: OnnxStep, k: Value, v: Value) -> tuple[Value, Value] | None:
    """Keys and values of before, if the node takes them."""
    given = [index for index in (4, 5) if s.has(index)]
    if not given:
        return None
    if len(given) == 1:
        raise TinycError("Attention with only past keys, or only past values, cannot be compiled", s.where)
    past = s.value(4), s.value(5)
    for old, new in zip(past, (k, v), strict=True):
        if len(old.shape) != 4 or old.shape[:2] != new.shape[:2] or old.shape[3] != new.shape[3]:
            raise TinycError(f"past keys or values {list(old.shape)} do not fit {list(new.shape)}", s.where)
    return past


def _capped(s: OnnxStep, scores: Value, cap: float) -> Value:
    """cap * tanh(scores / cap)."""
    if not cap > 0:
        return scores
    factors = [
        s.builder.add_const(f"{s.node.outputs[0]}:cap{k}", np.array(n, np.float32))
        for k, n in enumerate((1 / cap, cap))
    ]
    bent = s.insert([s.insert([scores, factors[0]], Mul(), "small")], Tanh(), "bent")
    return s.insert([bent, factors[1]], Mul(), "capped")


def _shown(s: OnnxStep, shape: Shape, before: int) -> Array:
    """Which keys count, as far as that is known when the model is loaded: [batch or 1, heads or 1, rows, keys]."""
    batch, _, rows, keys = shape
    counts = s.constant(6) if s.has(6) else None
    if s.has(6) and (counts is None or counts.size != batch or before):
        raise TinycError("how many keys count is computed, or stands beside past keys", s.where, _HINT)
    first = np.full((1, 1, 1, 1), before) if counts is None else counts.reshape(batch, 1, 1, 1) - rows
    ahead = np.arange(keys) - (first + np.arange(rows)[:, None])  # how far a key lies before its query
    shown: Array = np.ones_like(ahead, np.bool_)
    if s.node.flag("is_causal", False):
        shown &= ahead <= 0
    left, right = (s.node.int_(f"{side}_window_size", -1) for side in ("left", "right"))
    shown &= (left < 0) | (-ahead <= left)
    shown &= (right < 0) | (ahead <= right)
    if counts is not None:
        shown = shown & (np.arange(keys) < counts.reshape(batch, 1, 1, 1))
    mask = s.constant(_MASK) if s.has(_MASK) else None
    if mask is not None:
        seen = mask if mask.dtype == np.bool_ else mask >= -HIDDEN
        if mask.ndim and mask.shape[-1] < keys:  # keys that the mask does not reach do not count
            seen = np.pad(seen, [(0, 0)] * (mask.ndim - 1) + [(0, keys - mask.shape[-1])])
        if len(seen.shape) > 4 or any(n not in (1, m) for n, m in zip(seen.shape[::-1], shape[::-1], strict=False)):
            raise TinycError(f"a mask {list(mask.shape)} for scores {list(shape)} does not fit", s.where)
        shown = shown & seen
    return shown


def _heads(s: OnnxStep, index: int, attribute: str) -> Value:
    """An input as [batch, heads, tokens, numbers]."""
    x = s.value(index)
    if len(x.shape) == 4:
        return x
    count = s.node.int_(attribute, 0)
    if len(x.shape) != 3 or count < 1 or x.shape[2] % count:
        raise TinycError(f"Attention of {list(x.shape)} with {attribute} {count} cannot be compiled", s.where)
    batch, tokens, numbers = x.shape
    split = s.reshape(x, (batch, tokens, count, numbers // count), "split")
    return s.transpose(split, (0, 2, 1, 3), "by_head")


def _masked(s: OnnxStep, scores: Value, shown: Array) -> Value:
    """The scores and what the mask adds to them, far below all others where they do not count."""
    array = s.constant(_MASK) if s.has(_MASK) else None
    if array is not None and array.dtype != np.bool_:
        offsets = np.where(array >= -HIDDEN, array, 0).astype(np.float32)
        if array.ndim and array.shape[-1] < scores.shape[-1]:
            offsets = np.pad(offsets, [(0, 0)] * (array.ndim - 1) + [(0, scores.shape[-1] - array.shape[-1])])
        scores = s.insert([scores, s.const(offsets, _MASK)], Add(), "offset") if offsets.any() else scores
    elif s.has(_MASK) and array is None:
        mask = s.value(_MASK)
        scores = _hidden(s, scores, mask) if mask.dtype == "bool" else s.insert([scores, mask], Add(), "offset")
    return scores if shown.all() else _hidden(s, scores, s.builder.add_const(f"{s.node.outputs[0]}:shown", shown))


def _hidden(s: OnnxStep, scores: Value, shown: Value) -> Value:
    fill = s.builder.add_const(f"{s.node.outputs[0]}:hidden", np.array(-FAR, np.float32))
    return s.insert([shown, scores, fill], Choose(), "masked")
