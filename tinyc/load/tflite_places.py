# SPDX-License-Identifier: Apache-2.0
"""TFLite operators that find places in tensors and compute with them: the largest elements, int32 arithmetic of two
computed tensors, elements at computed places, truth along axes."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np

from tinyc.base.errors import TinycError
from tinyc.ir.graph import Array, DType, Shape, Value, read_only
from tinyc.kernel.site import Act
from tinyc.load.picking import picked
from tinyc.load.tflite_counts import of_two
from tinyc.load.tflite_graph import TfliteStep
from tinyc.load.tflite_ops import imports
from tinyc.load.tflite_phases import reshaped
from tinyc.ops.div import Div
from tinyc.ops.function import Function
from tinyc.ops.gather import Gather
from tinyc.ops.integer_binary import IntegerBinary
from tinyc.ops.reshape import Reshape
from tinyc.ops.slice import whole
from tinyc.ops.top_k import TopK


def _integers(s: TfliteStep, suffix: str, array: Array, dtype: DType = "s32") -> Value:
    """A new constant of integers that stand for themselves."""
    name = s.builder.unique(f"{s.builder.name_of(s.out_tensor())}:{suffix}")
    value = Value(name, array.shape, dtype, None, s.where)
    s.builder.values[name] = value
    s.builder.consts[name] = read_only(np.array(array, np.int32))
    return value


def _joined(s: TfliteStep, kind: str, a: Value, b: Value, suffix: str) -> Value:
    """integer_binary of two values of one type."""
    shape = np.broadcast_shapes(a.shape, b.shape)
    y = Value(s.builder.unique(f"{s.builder.name_of(s.out_tensor())}:{suffix}"), shape, a.dtype, None, s.where)
    s.insert((a, b), IntegerBinary(kind, a.dtype), y)
    return y


@imports("TOPK_V2")
def best(s: TfliteStep) -> None:
    """Along the last axis: the best elements, and where they are. Of equals the first is better."""
    x, k = s.value(0), s.numbers(1)
    if len(k) != 1 or not x.shape or s.output_count != 2:
        raise TinycError(f"TOPK_V2 of {list(x.shape)} with k {list(k)} cannot be compiled", s.where)
    places = replace(s.declared(1), dtype="s32", quant=None)
    s.insert((x,), TopK(len(x.shape) - 1, k[0]), places)
    size, rows = x.shape[-1], x.elements // x.shape[-1]
    flat = places
    if rows > 1:
        starts = np.arange(rows).reshape(*x.shape[:-1], 1) * size
        flat = _joined(s, "add", places, _integers(s, "starts", starts), "flat")
    y = s.declared(0)
    s.insert((reshaped(s, x, (x.elements,), "row"), flat), Gather(0), y)
    s.define(0, y)
    s.define(1, places)


@imports("FLOOR_DIV")
def floor_div(s: TfliteStep) -> None:
    """Of int32 (a division by 0 gives 0), and of floats."""
    if of_two(s, "floor"):
        return
    x = s.value(0)
    if x.dtype != "f32":
        raise TinycError(f"FLOOR_DIV of {s.type_of(0)} cannot be compiled", s.where, "it is for int32 and float32")
    y = s.declared()
    quotient = s.between("quotient", y.shape, y)
    s.insert((x, s.value(1)), Div(Act()), quotient)
    s.emit((quotient,), Function("floor"), y)


@imports("FLOOR_MOD")
def floor_mod(s: TfliteStep) -> None:
    """Of int32: what FLOOR_DIV leaves."""
    if not of_two(s, "mod"):
        raise TinycError(f"FLOOR_MOD of {s.type_of(0)} cannot be compiled", s.where, "it is for int32")


@imports("GATHER_ND")
def gather_nd(s: TfliteStep) -> None:
    """Places along the first axes, constant or computed as int32; one outside is taken as the nearest inside of the
    elements as they lie."""
    x, y, constant = s.value(0), s.declared(), s.constant(1)
    shape = s.value(1).shape if constant is None else constant.shape
    depth = shape[-1] if shape else 0
    if not 1 <= depth <= len(x.shape):
        raise TinycError(f"GATHER_ND with indices {list(shape)} of {list(x.shape)} cannot be compiled", s.where)
    sizes, rest = x.shape[:depth], x.shape[depth:]
    steps = [math.prod(sizes[k + 1 :]) for k in range(depth)]
    flat = reshaped(s, x, (math.prod(sizes), *rest), "joined")
    if constant is None:
        s.emit((flat, _computed_places(s, s.value(1), steps)), Gather(0), y)
        return
    places = np.moveaxis(constant, -1, 0)
    if constant.dtype.kind not in "iu" or any(a.min() < 0 or a.max() >= n for a, n in zip(places, sizes, strict=True)):
        raise TinycError(f"indices '{s.tensor(1).name}' lie outside of {list(x.shape)}", s.where)
    at = [int(n) for n in np.asarray(sum(a * step for a, step in zip(places, steps, strict=True))).reshape(-1)]
    part = s.between("picked", (len(at), *rest), x)
    s.insert((flat,), picked(flat.shape, 0, at), part)
    s.emit((part,), Reshape(y.shape), y)


def _computed_places(s: TfliteStep, indices: Value, steps: list[int]) -> Value:
    """Places in the joined axes, of indices [..., axes]."""
    if indices.dtype != "s32":
        hint = "convert the model again with int32 indices"
        raise TinycError(f"indices '{indices.name}' are {s.type_of(1)}; tinyc takes int32", s.where, hint)
    total: Value | None = None
    axis, shape = len(indices.shape) - 1, indices.shape[:-1]
    for k, step in enumerate(steps):
        part = s.between(f"index{k}", (*shape, 1), indices)
        s.insert((indices,), whole(indices.shape, axis, k, 1), part)
        part = reshaped(s, part, shape, f"of_axis{k}")
        if step != 1:
            part = _joined(s, "mul", part, _integers(s, f"step{k}", np.array(step)), f"from{k}")
        total = part if total is None else _joined(s, "add", total, part, f"upto{k}")
    assert total is not None
    return total


@imports("REDUCE_ANY", "REDUCE_ALL")
def any_or_all(s: TfliteStep) -> None:
    """Of truth values: halves of an axis joined until one is left."""
    x, axes = s.value(0), s.numbers(1)
    s.options("ReducerOptions")["KeepDims"]  # the output has its shape
    rank, kind = len(x.shape), "or" if s.operator.code == "REDUCE_ANY" else "and"
    if x.dtype != "bool" or any(not -rank <= axis < rank for axis in axes):
        raise TinycError(f"{s.operator.code} of {s.type_of(0)} along {list(axes)} cannot be compiled", s.where)
    for axis in sorted({axis % rank for axis in axes}):
        while (n := x.shape[axis]) > 1:
            half = -(-n // 2)  # halves may share an element: joining it with itself changes nothing
            first, last = (_part(s, x, axis, begin, half) for begin in (0, n - half))
            x = _joined(s, kind, first, last, f"of{half}")
    s.emit((x,), Reshape(s.out_tensor().shape))


def _part(s: TfliteStep, x: Value, axis: int, begin: int, size: int) -> Value:
    shape: Shape = (*x.shape[:axis], size, *x.shape[axis + 1 :])
    part = Value(s.builder.unique(f"{s.builder.name_of(s.out_tensor())}:part"), shape, x.dtype, None, s.where)
    s.insert((x,), whole(x.shape, axis, begin, size), part)
    return part
