# SPDX-License-Identifier: Apache-2.0
"""Operators that cut, pick, repeat and rearrange: Slice, Split, Gather, Tile, DepthToSpace; ArgMax."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from tinyc.base.errors import TinycError
from tinyc.base.limits import check_shape
from tinyc.ir.graph import Array, Value
from tinyc.load.onnx.importing import OnnxStep, imports
from tinyc.load.picking import picked, tiled
from tinyc.ops.absolute import Absolute
from tinyc.ops.argmax import ArgMax
from tinyc.ops.gather import Gather
from tinyc.ops.integer_binary import IntegerBinary
from tinyc.ops.reshape import Reshape
from tinyc.ops.slice import Slice, whole
from tinyc.ops.transpose import Transpose

_MOST_INDICES = 1 << 22


@imports("Slice")
def slice_(s: OnnxStep) -> None:
    """Starts and ends are attributes before opset 10, inputs since; steps may be negative."""
    x = s.value(0)
    rank = len(x.shape)
    if s.opset < 10:
        starts, ends = s.node.ints("starts") or (), s.node.ints("ends") or ()
        axes = s.node.ints("axes") or tuple(range(len(starts)))
        steps: tuple[int, ...] = (1,) * len(starts)
    else:
        starts, ends = s.numbers(1), s.numbers(2)
        axes = s.numbers(3) if s.has(3) else tuple(range(len(starts)))
        steps = s.numbers(4) if s.has(4) else (1,) * len(starts)
    if not len(starts) == len(ends) == len(axes) == len(steps) or 0 in steps:
        raise TinycError(f"starts {list(starts)}, ends {list(ends)}, steps {list(steps)} do not fit together", s.where)
    ranges = [range(size) for size in x.shape]
    for start, end, axis, step in zip(starts, ends, axes, steps, strict=True):
        k = s.axis(axis, rank)
        ranges[k] = range(*slice(start, end, step).indices(x.shape[k]))
    if min((len(r) for r in ranges), default=1) < 1:
        raise TinycError(f"starts {list(starts)}, ends {list(ends)} leave nothing of {list(x.shape)}", s.where)
    steps = tuple(r.step if len(r) > 1 else 1 for r in ranges)
    s.emit([x], Slice(tuple(r.start for r in ranges), tuple(len(r) for r in ranges), steps))


@imports("Split")
def split(s: OnnxStep) -> None:
    """Into equal parts, or as the attribute or (since opset 13) the input says."""
    x = s.value(0)
    axis = s.axis(s.node.int_("axis", 0), len(x.shape))
    given = s.numbers(1) if s.has(1) else s.node.ints("split")
    count = s.node.int_("num_outputs", len(s.node.outputs))
    size = x.shape[axis]
    if given is None and 0 < count <= size:
        part = -(-size // count)
        given = tuple(min(part, size - k * part) for k in range(count))
    if given is None or sum(given) != size or min(given) < 1 or len(given) != len(s.node.outputs):
        raise TinycError(f"axis {axis} of {list(x.shape)} is not split into {list(given or ())}", s.where)
    at = 0
    for k, part in enumerate(given):
        if s.node.outputs[k]:
            s.emit([x], whole(x.shape, axis, at, part), output=k)
        at += part


@imports("Gather")
def gather(s: OnnxStep) -> None:
    """Constant indices in step are a slice. Computed ones are int32; one outside is taken as the nearest inside."""
    x = s.value(0)
    axis = s.axis(s.node.int_("axis", 0), len(x.shape))
    indices = s.constant(1)
    if indices is None:
        s.emit([x, s.value(1)], Gather(axis))
        return
    at = gather_places(s, indices)
    part = _picked(s, x, axis, at.reshape(-1))
    s.emit([part], Reshape((*x.shape[:axis], *at.shape, *x.shape[axis + 1 :])))


@imports("GatherND")
def gather_nd(s: OnnxStep) -> None:
    """Constant indices: those of one axis, which joins the axes that they go through."""
    x, at, same = s.value(0), gather_places(s, s.constant(1)), s.node.int_("batch_dims", 0)
    axes = same + (at.shape[-1] if at.ndim else 0)
    if not (0 <= same < min(at.ndim, axes) and axes <= len(x.shape) and at.shape[:same] == x.shape[:same]):
        raise TinycError(
            f"indices {list(at.shape)} of {list(x.shape)} with batch_dims {same} do not fit together", s.where
        )
    places = [*np.indices(at.shape[:-1])[:same], *np.moveaxis(at, -1, 0)]
    flat = s.reshape(x, (math.prod(x.shape[:axes]), *x.shape[axes:]), "joined")
    part = _picked(s, flat, 0, joined_places(s, x, places).reshape(-1))
    s.emit([part], Reshape((*at.shape[:-1], *x.shape[axes:])))


@imports("GatherElements")
def gather_elements(s: OnnxStep) -> None:
    """Constant indices: those of all elements in one axis. Computed ones where no other axis is longer than 1."""
    x = s.value(0)
    axis = s.axis(s.node.int_("axis", 0), len(x.shape))
    if s.constant(1) is None and x.elements == x.shape[axis] and s.value(1).elements == s.value(1).shape[axis]:
        computed = s.value(1)
        places = s.reshape(computed, (computed.elements,), "places")
        gathered = s.insert([s.reshape(x, (x.elements,), "joined"), places], Gather(0), "found")
        s.emit([gathered], Reshape(computed.shape))
        return
    at = gather_places(s, s.constant(1))
    fits = at.ndim == len(x.shape) and all(
        n <= m for k, (n, m) in enumerate(zip(at.shape, x.shape, strict=True)) if k != axis
    )
    if not fits:
        raise TinycError(f"indices {list(at.shape)} of {list(x.shape)} do not fit together", s.where)
    spread = np.indices(at.shape)
    spread[axis] = at
    flat = s.reshape(x, (x.elements,), "joined")
    s.emit([_picked(s, flat, 0, joined_places(s, x, list(spread)).reshape(-1))], Reshape(at.shape))


def gather_places(s: OnnxStep, indices: Array | None) -> Array:
    """Constant indices. TinycError for others."""
    if indices is None or indices.dtype.kind not in "iu":
        raise TinycError("its indices must be constant integers", s.where)
    check_shape("the list of its indices", (max(indices.size, 1),), s.where, _MOST_INDICES)
    return indices.astype(np.int64)


def joined_places(s: OnnxStep, x: Value, places: Sequence[Array]) -> Array:
    """Indices of x's first axes, as those of one axis that joins them; negative ones count from the end."""
    total = np.zeros((), np.int64)
    for at, size in zip(places, x.shape, strict=False):
        if not np.all((at >= -size) & (at < size)):
            raise TinycError(f"its indices leave an axis of {list(x.shape)}", s.where)
        total = total * size + at % size
    return total


def _picked(s: OnnxStep, x: Value, axis: int, indices: Array) -> Value:
    try:
        attrs = picked(x.shape, axis, [int(k) for k in indices])
    except ValueError as e:
        raise TinycError(str(e), s.where) from e
    return s.insert([x], attrs, "picked")


@imports("DepthToSpace", "SpaceToDepth")
def move_blocks(s: OnnxStep) -> None:
    """As a reshape, a transpose and a reshape."""
    x, b = s.value(0), s.node.int_("blocksize", 0)
    mode = s.node.text("mode", "DCR")
    if mode not in ("DCR", "CRD"):
        raise TinycError(f"mode '{mode}' of DepthToSpace cannot be compiled", s.where, "there are DCR and CRD")
    if len(x.shape) != 4 or b < 1:
        raise TinycError(f"blocks of {b}x{b} of {list(x.shape)} are not possible", s.where)
    n, c, h, w = x.shape
    if s.node.op == "SpaceToDepth":
        wide, shape = (n, c, h // b, b, w // b, b), (n, c * b * b, h // b, w // b)
        perm = (0, 3, 5, 1, 2, 4) if mode == "DCR" else (0, 1, 3, 5, 2, 4)
    elif mode == "DCR":
        wide, perm, shape = (n, b, b, c // b**2, h, w), (0, 3, 4, 1, 5, 2), (n, c // b**2, h * b, w * b)
    else:
        wide, perm, shape = (n, c // b**2, b, b, h, w), (0, 1, 4, 2, 5, 3), (n, c // b**2, h * b, w * b)
    if math.prod(wide) != x.elements:
        raise TinycError(f"{list(x.shape)} has no whole blocks of {b}x{b}", s.where)
    moved = s.insert([s.reshape(x, wide, "blocks")], Transpose(perm), "moved")
    s.emit([moved], Reshape(shape))


@imports("ArgMax", "ArgMin")
def arg_max(s: OnnxStep) -> None:
    """The index is int32 here, int64 in the model. The last of equals is the first from the other end."""
    x = s.value(0)
    axis = s.axis(s.node.int_("axis", 0), len(x.shape))
    attrs = ArgMax(axis, s.node.op == "ArgMax", s.node.flag("keepdims", True))
    if not s.node.flag("select_last_index", False):
        s.emit([x], attrs)
        return
    count = x.shape[axis]
    turned = s.insert([x], whole(x.shape, axis, count - 1, count, -1), "turned")
    last = s.builder.add_integers(f"{s.node.outputs[0]}:last", np.array(count - 1, np.int32), "s32")
    s.emit([last, s.insert([turned], attrs, "from_end")], IntegerBinary("sub", "s32"))


@imports("Abs")
def absolute(s: OnnxStep) -> None:
    s.emit([s.value(0)], Absolute())


@imports("Tile")
def tile(s: OnnxStep) -> None:
    x = s.value(0)
    try:
        narrow, attrs = tiled(x.shape, s.numbers(1))
    except ValueError as e:
        raise TinycError(str(e), s.where) from e
    wide = s.insert([s.reshape(x, narrow, "narrow")], attrs, "wide")
    s.emit([wide], Reshape(tuple(n * k for n, k in zip(x.shape, s.numbers(1), strict=True))))
