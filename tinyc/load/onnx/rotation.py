# SPDX-License-Identifier: Apache-2.0
"""RotaryEmbedding: pairs of numbers turned by an angle that depends on the place of their token."""

from __future__ import annotations

import numpy as np

from tinyc.base.errors import TinycError
from tinyc.ir.graph import Value
from tinyc.load.onnx.importing import OnnxStep, imports
from tinyc.ops.add import Add
from tinyc.ops.concat import Concat
from tinyc.ops.mul import Mul
from tinyc.ops.reshape import Reshape
from tinyc.ops.slice import whole
from tinyc.ops.sub import Sub
from tinyc.ops.transpose import Transpose


@imports("RotaryEmbedding")
def rotate(s: OnnxStep) -> None:
    """Of [batch, heads, tokens, numbers], or of 3 axes with num_heads; constant places where there are any."""
    x = s.value(0)
    heads = x.shape[1] if len(x.shape) == 4 else s.node.int_("num_heads", 0)
    if len(x.shape) not in (3, 4) or heads < 1 or (len(x.shape) == 3 and x.shape[2] % heads):
        raise TinycError(f"RotaryEmbedding of {list(x.shape)} with {heads} heads cannot be compiled", s.where)
    batch, tokens = (x.shape[0], x.shape[2]) if len(x.shape) == 4 else x.shape[:2]
    depth = x.elements // (batch * tokens * heads)
    apart = s.transpose(x, (0, 2, 1, 3), "tokens") if len(x.shape) == 4 else x
    apart = s.reshape(apart, (batch, tokens, heads, depth), "apart")
    turned = s.node.int_("rotary_embedding_dim", 0) or depth
    if turned % 2 or not 0 < turned <= depth:
        raise TinycError(f"{turned} of {depth} numbers are rotated", s.where)
    angles = [_angles(s, index, (batch, tokens, 1, turned // 2)) for index in (1, 2)]
    parts = [_rotated(s, apart, turned, angles)]
    if turned < depth:
        parts.append(s.insert([apart], whole(apart.shape, 3, turned, depth - turned), "rest"))
    joined = s.insert(parts, Concat(3), "joined") if len(parts) > 1 else parts[0]
    if len(x.shape) == 4:
        s.emit([joined], Transpose((0, 2, 1, 3)))
    else:
        s.emit([joined], Reshape(x.shape))


def _angles(s: OnnxStep, index: int, shape: tuple[int, ...]) -> Value:
    """Cosines or sines of each token, from a table by its place or as they are."""
    array = s.constant(index)
    if array is None:
        x = s.value(index)
        if s.has(3) or x.elements != shape[0] * shape[1] * shape[3]:
            raise TinycError(
                f"computed cosines or sines {list(x.shape)} for {list(shape)} do not fit together", s.where
            )
        return s.reshape(x, shape, f"angles{index}")
    if s.has(3):
        places = s.constant(3)
        if places is None or places.size != shape[0] * shape[1] or array.ndim != 2:
            raise TinycError("the places of the tokens are computed, or do not fit", s.where)
        at = places.reshape(-1)
        if at.size and not 0 <= at.min() <= at.max() < len(array):
            raise TinycError(f"a place beyond the table of {len(array)}", s.where)
        array = array[at]
    if array.size != np.prod(shape):
        raise TinycError(f"cosines or sines {list(array.shape)} for {list(shape)} do not fit together", s.where)
    return s.const(array.reshape(shape), index)


def _rotated(s: OnnxStep, x: Value, turned: int, angles: list[Value]) -> Value:
    """The first numbers, each pair turned: neighbours where it is interleaved, else one of each half."""
    half, mixed = turned // 2, s.node.flag("interleaved", False)
    starts, step = ((0, 1), 2) if mixed else ((0, half), 1)
    pair = [s.insert([x], whole(x.shape, 3, start, half, step), f"half{k}") for k, start in enumerate(starts)]

    def times(k: int, angle: int) -> Value:
        return s.insert([pair[k], angles[angle]], Mul(), f"product{k}{angle}")

    real = s.insert([times(0, 0), times(1, 1)], Sub(), "real")
    imaginary = s.insert([times(0, 1), times(1, 0)], Add(), "imaginary")
    if not mixed:
        return s.insert([real, imaginary], Concat(3), "rotated")
    columns = [s.reshape(v, (*v.shape, 1), f"column{k}") for k, v in enumerate((real, imaginary))]
    both = s.insert(columns, Concat(4), "beside")
    return s.reshape(both, (*x.shape[:3], turned), "rotated")
