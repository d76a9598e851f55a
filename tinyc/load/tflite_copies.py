# SPDX-License-Identifier: Apache-2.0
"""TFLite operators that repeat, pick and turn elements around; imported like those of tflite_ops.py."""

from __future__ import annotations

from tinyc.base.errors import TinycError
from tinyc.load.picking import picked, tiled
from tinyc.load.tflite_arrays import elements
from tinyc.load.tflite_graph import TfliteStep
from tinyc.load.tflite_ops import imports
from tinyc.ops.broadcast import Broadcast
from tinyc.ops.gather import Gather
from tinyc.ops.reshape import Reshape
from tinyc.ops.slice import Slice


@imports("BROADCAST_TO")
def broadcast_to(s: TfliteStep) -> None:
    shape = s.numbers(1)
    if shape != s.out_tensor().shape:
        raise TinycError(f"BROADCAST_TO {list(shape)} makes {list(s.out_tensor().shape)}", s.where)
    elements(s.out_tensor(), s.where)
    s.emit((s.value(0),), Broadcast(shape))


@imports("TILE")
def tile(s: TfliteStep) -> None:
    x, y = s.value(0), s.declared()
    try:
        narrow, attrs = tiled(x.shape, s.numbers(1))
    except ValueError as e:
        raise TinycError(f"TILE: {e}", s.where) from e
    if y.elements != x.elements * _times(s):
        raise TinycError(f"TILE of {list(x.shape)} makes {list(y.shape)}", s.where)
    thin = s.between("narrow", narrow, x)
    s.insert((x,), Reshape(narrow), thin)
    wide = s.between("wide", attrs.shape, x)
    s.insert((thin,), attrs, wide)
    s.emit((wide,), Reshape(y.shape), y)


def _times(s: TfliteStep) -> int:
    count = 1
    for times in s.numbers(1):
        count *= times
    return count


@imports("REVERSE_V2")
def reverse(s: TfliteStep) -> None:
    x = s.value(0)
    rank = len(x.shape)
    axes = s.numbers(1)
    if any(not -rank <= axis < rank for axis in axes):
        raise TinycError(f"REVERSE_V2 of axes {list(axes)} of a tensor of rank {rank} cannot be compiled", s.where)
    turned = {axis % rank for axis in axes if x.shape[axis] > 1}
    begin = tuple(n - 1 if k in turned else 0 for k, n in enumerate(x.shape))
    s.emit((x,), Slice(begin, x.shape, tuple(-1 if k in turned else 1 for k in range(rank))))


@imports("GATHER")
def gather(s: TfliteStep) -> None:
    """Constant indices in step are a slice. Computed ones are int32; one outside is taken as the nearest inside."""
    o, x, y = s.options("GatherOptions"), s.value(0), s.declared()
    axis, indices = int(o["Axis"]), s.constant(1)
    if o["BatchDims"] or not -len(x.shape) <= axis < len(x.shape):
        raise TinycError(f"GATHER along axis {axis} with {o['BatchDims']} batch dimensions cannot be compiled", s.where)
    axis %= len(x.shape)
    if indices is None:
        _look_up(s, 0, 1, axis)
        return
    if indices.dtype.kind not in "iu":
        raise TinycError(f"indices '{s.tensor(1).name}' must be integers", s.where)
    try:
        attrs = picked(x.shape, axis, [int(k) for k in indices.reshape(-1)])
    except ValueError as e:
        raise TinycError(f"GATHER: {e}", s.where) from e
    shape = (*x.shape[:axis], indices.size, *x.shape[axis + 1 :])
    part = s.between("picked", shape, x)
    s.insert((x,), attrs, part)
    s.emit((part,), Reshape(y.shape), y)


@imports("EMBEDDING_LOOKUP")
def embedding_lookup(s: TfliteStep) -> None:
    """Rows of a table by int32 numbers."""
    _look_up(s, 1, 0, 0)


def _look_up(s: TfliteStep, table: int, indices: int, axis: int) -> None:
    """gather with computed indices."""
    x, at = s.value(table), s.value(indices)
    if at.dtype != "s32":
        hint = "convert the model again with int32 indices"
        raise TinycError(f"indices '{at.name}' are {at.dtype}; tinyc takes int32", s.where, hint)
    if x.quant is not None and x.quant.axis is not None:
        raise TinycError(f"table '{x.name}' has {len(x.quant.scale)} scales; one is needed", s.where)
    s.emit((x, at), Gather(axis))
