# SPDX-License-Identifier: Apache-2.0
"""Products and running sums along axes, triangles and places in a table, spelled out in simpler operators."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from tinyc.base.errors import TinycError
from tinyc.ir.graph import NUMPY_DTYPE, Value
from tinyc.load.onnx.importing import OnnxStep, imports, on_integers
from tinyc.load.onnx.integers import number
from tinyc.load.onnx.reductions import reduced
from tinyc.ops.argmax import ArgMax
from tinyc.ops.choose import Choose
from tinyc.ops.compare import Compare
from tinyc.ops.concat import Concat
from tinyc.ops.convert import Convert
from tinyc.ops.fully_connected import FullyConnected
from tinyc.ops.integer_binary import IntegerBinary
from tinyc.ops.mul import Mul
from tinyc.ops.reshape import Reshape
from tinyc.ops.slice import whole
from tinyc.ops.transpose import Transpose

_MOST = 64  # terms that are spelled out
_KINDS = {"ReduceSum": "add", "ReduceMax": "max", "ReduceMin": "min", "ReduceProd": "mul"}


def _first(s: OnnxStep, x: Value, axes: tuple[int, ...]) -> Value:
    """x as [n, rest]: the axes, of n elements together, come first."""
    others = tuple(k for k in range(len(x.shape)) if k not in axes)
    count = math.prod(x.shape[k] for k in axes)
    if count > _MOST:
        raise TinycError(f"{s.node.op} of {count} terms is not supported, only of {_MOST}", s.where)
    return s.reshape(s.transpose(x, (*axes, *others), "first"), (count, x.elements // count), "terms")


def _term(s: OnnxStep, terms: Value, k: int) -> Value:
    return s.insert([terms], whole(terms.shape, 0, k, 1), f"term{k}")


def _chain(s: OnnxStep, x: Value, attrs: Any) -> None:
    """The terms along the node's axes, joined one after the other."""
    axes = reduced(s, x)
    if axes is None:
        s.emit([x], Reshape(x.shape))
        return
    terms = _first(s, x, axes)
    total = _term(s, terms, 0)
    for k in range(1, terms.shape[0]):
        total = s.insert([total, _term(s, terms, k)], attrs, f"of{k + 1}")
    keeps_axes = s.node.flag("keepdims", True)
    left = [1 if k in axes else n for k, n in enumerate(x.shape) if keeps_axes or k not in axes]
    s.emit([total], Reshape(tuple(left)))


@imports("ReduceProd")
def product(s: OnnxStep) -> None:
    """The product over axes of at most 64 elements together, one factor after the other."""
    _chain(s, s.value(0), Mul())


@on_integers(*_KINDS)
def integer_reduction(s: OnnxStep) -> None:
    """Over axes of at most 64 elements together, one after the other."""
    x = s.value(0)
    _chain(s, x, IntegerBinary(_KINDS[s.node.op], x.dtype))


def _one_axis(s: OnnxStep, x: Value) -> int:
    """The axis that input 1 names."""
    axes = s.numbers(1)
    if len(axes) != 1:
        raise TinycError(f"{s.node.op} along axes {list(axes)}: one is expected", s.where)
    return s.axis(axes[0], len(x.shape))


@imports("CumSum")
def running_sums(s: OnnxStep) -> None:
    """Sums of all before an element, along one axis: a product with a triangle of ones."""
    x, exclusive, backwards = s.value(0), s.node.flag("exclusive", False), s.node.flag("reverse", False)
    axis, rank = _one_axis(s, x), len(x.shape)
    ones = np.tril(np.ones((x.shape[axis],) * 2, np.float32), -1 if exclusive else 0)
    w = s.const(ones.T if backwards else ones, 1)
    last = (*(k for k in range(rank) if k != axis), axis)
    rows = s.transpose(x, last, "axis_last")
    flat = s.reshape(rows, (rows.elements // rows.channels, rows.channels), "rows")
    sums = s.reshape(s.insert([flat, w], FullyConnected(), "sums"), rows.shape, "apart")
    s.emit([sums], Transpose(tuple(last.index(k) for k in range(rank))))


@imports("CumProd")
def running_products(s: OnnxStep) -> None:
    """Products of all before an element, along an axis of at most 64 elements."""
    _running(s, Mul(), lambda first: s.builder.add_const(f"{first.name}:ones", np.ones(first.shape, np.float32)))


@on_integers("CumProd")
def integer_running_products(s: OnnxStep) -> None:
    """Products of all before an element, along an axis of at most 64 elements."""
    x = s.value(0)
    ones = lambda first: s.builder.add_integers(  # noqa: E731
        f"{first.name}:ones", np.ones(first.shape, NUMPY_DTYPE[x.dtype]), x.dtype
    )
    _running(s, IntegerBinary("mul", x.dtype), ones)


@on_integers("CumSum")
def integer_running_sums(s: OnnxStep) -> None:
    """Sums of all before an element, along an axis of at most 64 elements."""
    x = s.value(0)
    zero = number(s, "zero", x, 0)
    _running(
        s, IntegerBinary("add", x.dtype), lambda first: s.insert([first, zero], IntegerBinary("and", x.dtype), "none")
    )


def _running(s: OnnxStep, attrs: Any, neutral: Callable[[Value], Value]) -> None:
    """Each element joined with all before it, along one axis. neutral: what the first is joined with, of its shape."""
    x, exclusive, backwards = s.value(0), s.node.flag("exclusive", False), s.node.flag("reverse", False)
    axis, rank = _one_axis(s, x), len(x.shape)
    terms = _first(s, x, (axis,))
    count = terms.shape[0]
    order = range(count - 1, -1, -1) if backwards else range(count)
    total = neutral(_term(s, terms, order[0]))
    partials = {}
    for k in order:
        before, total = total, s.insert([total, _term(s, terms, k)], attrs, f"sum{k}")
        partials[k] = before if exclusive else total
    joined = s.insert([partials[k] for k in range(count)], Concat(0), "joined") if count > 1 else partials[0]
    first = (axis, *(k for k in range(rank) if k != axis))
    apart = s.reshape(joined, tuple(x.shape[k] for k in first), "apart")
    s.emit([apart], Transpose(tuple(first.index(k) for k in range(rank))))


@imports("Hardmax")
def hard_max(s: OnnxStep) -> None:
    """1 at the first of the largest, 0 elsewhere. Before opset 13 over all axes from `axis` on (default 1) together,
    since then over `axis` alone."""
    x, rank = s.value(0), len(s.value(0).shape)
    axis = s.axis(s.node.int_("axis", 1 if s.opset < 13 else -1), rank)
    shape = (math.prod(x.shape[:axis]), math.prod(x.shape[axis:])) if s.opset < 13 else x.shape
    axis = 1 if s.opset < 13 else axis
    rows, name = s.reshape(x, shape, "rows"), s.node.outputs[0]
    places = np.arange(shape[axis], dtype=np.int32).reshape([-1 if k == axis else 1 for k in range(len(shape))])
    largest = s.insert([rows], ArgMax(axis, keep_dims=True), "largest")
    here = s.insert([largest, s.builder.add_integers(f"{name}:places", places, "s32")], Compare("equal"), "here")
    numbers = [s.builder.add_const(f"{name}:{word}", np.array(n, np.float32)) for word, n in (("one", 1), ("zero", 0))]
    s.emit([s.insert([here, *numbers], Choose(), "chosen")], Reshape(x.shape))


@imports("Trilu")
def triangle(s: OnnxStep) -> None:
    """What lies above (or below) a diagonal stays; the rest is 0."""
    _triangle(s, s.value(0), s.builder.add_const(f"{s.node.outputs[0]}:zero", np.array(0, np.float32)))


@on_integers("Trilu")
def integer_triangle(s: OnnxStep) -> None:
    """What lies above (or below) a diagonal stays; the rest is 0."""
    x = s.value(0)
    _triangle(s, x, number(s, "zero", x, 0))


def _triangle(s: OnnxStep, x: Value, zero: Value) -> None:
    k = s.number(1) if s.has(1) else 0
    if len(x.shape) < 2:
        raise TinycError(f"a triangle of {list(x.shape)}, which is no matrix", s.where)
    ones = np.ones(x.shape[-2:], np.bool_)
    ones_left = np.triu(ones, k) if s.node.flag("upper", True) else np.tril(ones, k)
    mask = s.builder.add_integers(f"{s.node.outputs[0]}:kept", ones_left, "bool")
    s.emit([mask, x, zero], Choose(), x.quant)


@imports("OneHot")
@on_integers("OneHot")
def one_hot(s: OnnxStep) -> None:
    """Of computed indices: one of two constants, as an index is the place of an element or not."""
    indices, depths, values = s.value(0), s.constant(1), s.constant(2)
    depth = int(depths.reshape(())) if depths is not None and depths.size == 1 and np.isfinite(depths).all() else 0
    if indices.dtype == "f32":
        indices = s.insert([indices], Convert("s32"), "whole")
    if indices.dtype != "s32" or values is None or values.size != 2 or not 0 < depth <= 1 << 16:
        raise TinycError(f"OneHot of {indices.dtype} to depth {depth} cannot be compiled", s.where)
    rank = len(indices.shape) + 1
    axis = s.axis(s.node.int_("axis", -1), rank)
    wide = s.reshape(indices, (*indices.shape[:axis], 1, *indices.shape[axis:]), "wide")
    places = np.arange(depth, dtype=np.int32).reshape(-1, *(1,) * (rank - 1 - axis))
    name = s.node.outputs[0]
    tables = [s.builder.add_integers(f"{name}:places{k}", places - k * depth, "s32") for k in (0, 1)]
    here = [s.insert([wide, table], Compare("equal"), f"here{k}") for k, table in enumerate(tables)]
    hot = s.insert(here, IntegerBinary("or", "bool"), "hot")
    kind = "s32" if values.dtype.kind in "iu" else "f32"
    on, off = (
        s.builder.add_integers(f"{name}:values", np.array(values[k], np.int32), "s32")
        if kind == "s32"
        else s.builder.add_const(f"{name}:values", np.array(values[k], np.float32))
        for k in (1, 0)
    )
    s.emit([hot, on, off], Choose())
