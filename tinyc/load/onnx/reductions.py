# SPDX-License-Identifier: Apache-2.0
"""Sums and norms over axes, and the normalizations that are spelled out in them."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import numpy as np

from tinyc.base.errors import TinycError
from tinyc.ir.graph import Array, Value
from tinyc.load.onnx.importing import TO_NHWC, OnnxStep, imports
from tinyc.ops.absolute import Absolute
from tinyc.ops.add import Add
from tinyc.ops.div import Div
from tinyc.ops.function import Function
from tinyc.ops.l2_normalize import L2Normalize
from tinyc.ops.log_softmax import LogSoftmax
from tinyc.ops.mean import Mean
from tinyc.ops.mul import Mul
from tinyc.ops.power import Power
from tinyc.ops.reduce_extremum import ReduceExtremum
from tinyc.ops.reshape import Reshape
from tinyc.ops.softmax import Softmax
from tinyc.ops.sub import Sub
from tinyc.ops.sum import Sum
from tinyc.ops.transpose import Transpose


def reduced(s: OnnxStep, x: Value) -> tuple[int, ...] | None:
    """The axes of a reduction: an attribute, in newer opsets an input. None given means all axes, or (None here) that
    nothing is to be done, if so requested."""
    given = s.numbers(1) if s.has(1) else s.node.ints("axes") or ()
    rank = len(x.shape)
    if s.node.flag("noop_with_empty_axes", False) and not given:
        return None
    return tuple(sorted({s.axis(axis, rank) for axis in given})) or tuple(range(rank))


@imports("ReduceSum", "ReduceL1", "ReduceL2", "ReduceSumSquare", "ReduceLogSum", "ReduceLogSumExp")
def reduce_sum(s: OnnxStep) -> None:
    """The sum of x, its size, its square or its exponential; then the root or the logarithm."""
    x = s.value(0)
    axes, keep = reduced(s, x), s.node.flag("keepdims", True)
    if axes is None:
        _of_each(s, x)
    elif s.node.op == "ReduceSum":
        s.emit([x], Sum(axes, keep))
    elif s.node.op == "ReduceL1":
        s.emit([s.insert([x], Absolute(), "size")], Sum(axes, keep))
    elif s.node.op == "ReduceSumSquare":
        s.emit([s.insert([x, x], Mul(), "squares")], Sum(axes, keep))
    elif s.node.op == "ReduceL2":
        squares = s.insert([x, x], Mul(), "squares")
        s.emit([s.insert([squares], Sum(axes, keep), "sum")], Power(0.5))
    elif s.node.op == "ReduceLogSum":
        s.emit([s.insert([x], Sum(axes, keep), "sum")], Function("log"))
    else:
        _log_of_exponentials(s, x, axes, keep)


def _of_each(s: OnnxStep, x: Value) -> None:
    """A reduction of nothing still takes sizes, squares and logarithms."""
    if s.node.op in ("ReduceL1", "ReduceL2"):
        s.emit([x], Absolute())
    elif s.node.op == "ReduceSumSquare":
        s.emit([x, x], Mul())
    elif s.node.op == "ReduceLogSum":
        s.emit([x], Function("log"))
    else:
        s.emit([x], Reshape(x.shape))


def _log_of_exponentials(s: OnnxStep, x: Value, axes: tuple[int, ...], keep: bool) -> None:
    """log(sum(exp(x - max))) + max."""
    most = s.insert([x], ReduceExtremum(axes, keep_dims=True), "most")
    exps = s.insert([s.insert([x, most], Sub(), "below")], Function("exp"), "exps")
    logs = s.insert([s.insert([exps], Sum(axes, keep_dims=True), "sum")], Function("log"), "logs")
    total = s.insert([logs, most], Add(), "total")
    left = tuple(n for k, n in enumerate(x.shape) if k not in axes)
    s.emit([total], Reshape(total.shape if keep else left))


def along_last(s: OnnxStep, x: Value, axis: int, work: Callable[[Value], Value]) -> None:
    """An operator that works along the last axis, along another one: between transposes."""
    rank = len(x.shape)
    last = (*(k for k in range(rank) if k != axis), axis)
    y = work(s.transpose(x, last, "axis_last"))
    s.emit([y], Transpose(tuple(last.index(k) for k in range(rank))))


def over_norm(s: OnnxStep, x: Value, axis: int) -> None:
    """x over its Euclidean norm along an axis."""
    if axis == len(x.shape) - 1:
        s.emit([x], L2Normalize())
    else:
        along_last(s, x, axis, lambda v: s.insert([v], L2Normalize(), "l2", s.node.outputs[0]))


@imports("Softmax")
def softmax(s: OnnxStep) -> None:
    """Before opset 13 over all axes from `axis` on (default 1) taken together, since then over `axis` alone."""
    _shares(s, Softmax(), "softmax")


@imports("LogSoftmax")
def log_softmax(s: OnnxStep) -> None:
    """Before opset 13 over all axes from `axis` on (default 1) taken together, since then over `axis` alone."""
    _shares(s, LogSoftmax(), "log_softmax")


def _shares(s: OnnxStep, attrs: Softmax | LogSoftmax, name: str) -> None:
    """The shares of e^x, or their logarithms. name: of an operator that is put in."""
    x, is_old = s.value(0), s.opset < 13
    rank = len(x.shape)

    def along(v: Value) -> Value:
        return s.insert([v], attrs, name, s.node.outputs[0])

    axis = s.axis(s.node.int_("axis", 1 if is_old else -1), max(rank, is_old))
    if is_old:
        rows = s.reshape(x, (math.prod(x.shape[:axis]), math.prod(x.shape[axis:])), "rows")
        s.emit([along(rows)], Reshape(x.shape))
    elif axis == rank - 1:
        s.emit([x], attrs)
    else:
        along_last(s, x, axis, along)


@imports("LpNormalization")
def normalize(s: OnnxStep) -> None:
    """x over its Euclidean norm along an axis, or (p = 1) over the sum of its sizes."""
    x = s.value(0)
    axis, p = s.axis(s.node.int_("axis", -1), len(x.shape)), s.node.int_("p", 2)
    if p == 1:
        sizes = s.insert([x], Absolute(), "size")
        s.emit([x, s.insert([sizes], Sum((axis,), keep_dims=True), "sum")], Div())
    elif p != 2:
        raise TinycError(f"LpNormalization with p = {p}: only 1 and 2 are supported", s.where)
    else:
        over_norm(s, x, axis)


def moments(s: OnnxStep, x: Value, axes: tuple[int, ...], epsilon: float) -> tuple[Value, Value, Value]:
    """(mean, 1 / sqrt(variance + epsilon), x - mean) over the axes, as new values."""
    least = s.builder.add_const(f"{s.node.outputs[0]}:epsilon", np.array(epsilon, np.float32))
    mean = s.insert([x], Mean(axes, keep_dims=True), "mean")
    centred = s.insert([x, mean], Sub(), "centred")
    squares = s.insert([centred, centred], Mul(), "squares")
    variance = s.insert([squares], Mean(axes, keep_dims=True), "variance")
    inverse = s.insert([s.insert([variance, least], Add(), "spread")], Power(-0.5), "inverse")
    return mean, inverse, centred


def standardized(s: OnnxStep, x: Value, axes: tuple[int, ...], epsilon: float) -> Value:
    """(x - mean) / sqrt(variance + epsilon) over the axes, as new values."""
    _, inverse, centred = moments(s, x, axes, epsilon)
    return s.insert([centred, inverse], Mul(), "normal")


def _per_channel(s: OnnxStep, index: int, rank: int, channels: int) -> Value:
    """A constant [C] as it broadcasts against [1,C,...]."""
    array: Array = s.weights(index)
    if array.shape != (channels,):
        raise TinycError(f"input {index} {list(array.shape)} does not fit {channels} channels", s.where)
    return s.const(array.reshape(-1, *(1,) * (rank - 2)), index)


def _scaled(s: OnnxStep, normal: Value, shape: Sequence[int]) -> None:
    """normal * scale + bias per channel: the last node."""
    rank, channels = len(shape), shape[1]
    scaled = s.insert([normal, _per_channel(s, 1, rank, channels)], Mul(), "scaled")
    s.emit([scaled, _per_channel(s, 2, rank, channels)], Add())


@imports("InstanceNormalization")
def instance_normalization(s: OnnxStep) -> None:
    """scale * (x - mean) / sqrt(variance + epsilon) + bias, over rows and columns of each channel, spelled out."""
    x = s.value(0)
    if len(x.shape) < 3:
        raise TinycError(f"InstanceNormalization of {list(x.shape)} cannot be compiled", s.where)
    _scaled(s, standardized(s, x, tuple(range(2, len(x.shape))), s.node.float_("epsilon", 1e-5)), x.shape)


@imports("GroupNormalization", ignores=("stash_type",))
def group_normalization(s: OnnxStep) -> None:
    """As InstanceNormalization, over groups of channels. Before opset 21 scale and bias are per group."""
    x, groups = s.value(0), s.node.int_("num_groups", 0)
    if len(x.shape) < 3 or groups < 1 or x.shape[1] % groups:
        raise TinycError(f"GroupNormalization of {list(x.shape)} in {groups} groups cannot be compiled", s.where)
    each = x.shape[1] // groups
    together = s.reshape(x, (x.shape[0], groups, each * math.prod(x.shape[2:])), "groups")
    normal = standardized(s, together, (2,), s.node.float_("epsilon", 1e-5))
    if s.weights(1).shape == (groups,) and each > 1:
        scaled = s.insert([normal, _per_channel(s, 1, 3, groups)], Mul(), "scaled")
        moved = s.insert([scaled, _per_channel(s, 2, 3, groups)], Add(), "moved")
        s.emit([moved], Reshape(x.shape))
    else:
        _scaled(s, s.reshape(normal, x.shape, "apart"), x.shape)


@imports("MeanVarianceNormalization")
def mean_variance_normalization(s: OnnxStep) -> None:
    """(x - mean) / sqrt(variance + 1e-9) over the axes (0, 2 and 3 unless said), spelled out."""
    x = s.value(0)
    axes = tuple(sorted(s.axis(axis, len(x.shape)) for axis in s.node.ints("axes") or (0, 2, 3)))
    normal = standardized(s, x, axes, 1e-9)
    s.emit([normal], Reshape(normal.shape))


@imports("RMSNormalization", ignores=("stash_type",))
def root_mean_square_normalization(s: OnnxStep) -> None:
    """scale * x / sqrt(mean(x^2) + epsilon) over the axes from `axis` on, spelled out."""
    x = s.value(0)
    rank = len(x.shape)
    axes = tuple(range(s.axis(s.node.int_("axis", -1), rank), rank))
    least = s.builder.add_const(f"{s.node.outputs[0]}:epsilon", np.array(s.node.float_("epsilon", 1e-5), np.float32))
    mean = s.insert([s.insert([x, x], Mul(), "squares")], Mean(axes, keep_dims=True), "mean")
    inverse = s.insert([s.insert([mean, least], Add(), "spread")], Power(-0.5), "inverse")
    normal = s.insert([x, inverse], Mul(), "normal")
    s.emit([normal, s.const(s.weights(1), 1)], Mul())


@imports("ReduceMean")
def reduce_mean(s: OnnxStep) -> None:
    """Axes are an attribute, in newer opsets an input. None means all axes, or nothing if so requested."""
    x = s.value(0)
    rank = len(x.shape)
    axes, keep = reduced(s, x), s.node.flag("keepdims", True)
    if axes is None:
        s.emit([x], Reshape(x.shape))
    elif keep and rank in TO_NHWC and axes == tuple(range(2, rank)) and x.shape[0] == 1:
        s.emit_image([s.image(0)], Mean((1, 2), keep_dims=True), rank=rank)
    else:
        s.emit([x], Mean(axes, keep))
