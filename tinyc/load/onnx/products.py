# SPDX-License-Identifier: Apache-2.0
"""ONNX operators of attention and normalization: roots and powers, layer normalization, extrema over axes."""

from __future__ import annotations

import numpy as np

from tinyc.ir.graph import Node, Value
from tinyc.load.onnx.importing import OnnxStep, imports
from tinyc.load.onnx.reductions import moments, over_norm, reduced
from tinyc.ops.add import Add
from tinyc.ops.mul import Mul
from tinyc.ops.power import Power
from tinyc.ops.reduce_extremum import ReduceExtremum
from tinyc.ops.reshape import Reshape

_TINY = 1e-4  # a bound on a norm that only guards against division by 0


@imports("Sqrt")
def root(s: OnnxStep) -> None:
    s.emit([s.value(0)], Power(0.5))


@imports("Reciprocal")
def reciprocal(s: OnnxStep) -> None:
    base, exponent = _base(s, s.value(0))
    s.emit([base], Power(-exponent))


def divide_by_computed(s: OnnxStep) -> None:
    """x / y as x * y^-1; a root that made y becomes part of the power, so that it is rounded once. x over its own
    Euclidean norm is one operator."""
    x, y = s.value(0), _unrepeated(s, s.value(1))
    axis = _own_norm(s, x, y)
    if axis is not None:
        over_norm(s, x, axis)
        return
    base, exponent = _base(s, y)
    inverse = s.insert([base], Power(-exponent), "inverse")
    s.emit([x, inverse], Mul())


def _maker(s: OnnxStep, y: Value, op: str) -> Node | None:
    """The node that makes the value, if it is of the operator."""
    maker = next((node for node in reversed(s.builder.nodes) if y.name in node.outputs), None)
    return maker if maker is not None and maker.op == op else None


def _unrepeated(s: OnnxStep, y: Value) -> Value:
    """y before a broadcast, which x's own shape implies."""
    node = _maker(s, y, "broadcast")
    return y if node is None or s.value(0).shape != y.shape else s.builder.values[node.inputs[0]]


def _own_norm(s: OnnxStep, x: Value, y: Value) -> int | None:
    """The axis along which y is the Euclidean norm of x, perhaps not less than a tiny number; None if it is not."""
    clip = _maker(s, y, "clip")
    if clip is not None and clip.attrs.act.lo <= _TINY and clip.attrs.act.hi == np.inf:
        y = s.builder.values[clip.inputs[0]]
    root = _maker(s, y, "power")
    total = _maker(s, s.builder.values[root.inputs[0]], "sum") if root and root.attrs.exponent == 0.5 else None
    squares = _maker(s, s.builder.values[total.inputs[0]], "mul") if total else None
    if total is None or squares is None or squares.inputs != (x.name, x.name):
        return None
    axes = [axis % len(x.shape) for axis in total.attrs.axes]
    return axes[0] if len(axes) == 1 and total.attrs.keep_dims else None


def _base(s: OnnxStep, y: Value) -> tuple[Value, float]:
    """(x, e) with y = x^e: a square root is looked through, its argument cannot be negative."""
    node = _maker(s, y, "power")
    if node is not None and node.attrs.exponent == 0.5:
        return s.builder.values[node.inputs[0]], 0.5
    return y, 1.0


@imports("ReduceMax", "ReduceMin")
def reduce_extremum(s: OnnxStep) -> None:
    """Axes are an attribute, since opset 18 an input. None means all axes, or nothing if so requested."""
    x, axes, keep = s.value(0), reduced(s, s.value(0)), s.node.flag("keepdims", True)
    if axes is None:
        s.emit([x], Reshape(x.shape))
    else:
        s.emit([x], ReduceExtremum(axes, keep, s.node.op == "ReduceMax"))


@imports("LayerNormalization", ignores=("stash_type",))  # float32 inside, whatever it says
def layer_normalization(s: OnnxStep) -> None:
    """scale * (x - mean) / sqrt(variance + epsilon) + bias over the axes from `axis` on, spelled out; mean and inverse
    deviation where they are outputs."""
    x = s.value(0)
    rank = len(x.shape)
    axes = tuple(range(s.axis(s.node.int_("axis", -1), rank), rank))
    mean, inverse, centred = moments(s, x, axes, s.node.float_("epsilon", 1e-5))
    normal = s.insert([centred, inverse], Mul(), "normal")
    for index, statistic in enumerate((mean, inverse), 1):
        if index < len(s.node.outputs) and s.node.outputs[index] in s.builder.read:
            s.emit([statistic], Reshape(statistic.shape), output=index)
    if not s.has(2):
        s.emit([normal, s.const(s.weights(1), 1)], Mul())
        return
    scaled = s.insert([normal, s.const(s.weights(1), 1)], Mul(), "scaled")
    s.emit([scaled, s.const(s.weights(2), 2)], Add())
