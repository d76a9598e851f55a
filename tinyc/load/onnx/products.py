"""ONNX operators of attention and normalization: roots and powers, layer normalization, extrema over axes."""

from __future__ import annotations

import numpy as np

from tinyc.errors import TinycError
from tinyc.ir.graph import Value
from tinyc.load.onnx.importing import Step, imports
from tinyc.ops.add import Add
from tinyc.ops.mean import Mean
from tinyc.ops.mul import Mul
from tinyc.ops.power import Power
from tinyc.ops.reduce_extremum import ReduceExtremum
from tinyc.ops.reshape import Reshape
from tinyc.ops.sub import Sub


@imports("Sqrt")
def root(s: Step) -> None:
    s.emit("power", [s.value(0)], Power(0.5))


@imports("Reciprocal")
def reciprocal(s: Step) -> None:
    base, exponent = _base(s, s.value(0))
    s.emit("power", [base], Power(-exponent))


@imports("Pow")
def power(s: Step) -> None:
    """With one constant exponent; 2 is a product, which rounds once for all magnitudes."""
    exponent = s.constant(1)
    if exponent is None or exponent.size != 1:
        raise TinycError("Pow with a computed exponent, or several, is not supported; only one constant", s.where)
    number, x = float(exponent.reshape(())), s.value(0)
    if not np.isfinite(number):
        raise TinycError(f"Pow with exponent {number}", s.where)
    if number == 1:
        s.emit("reshape", [x], Reshape(x.shape))
    elif number == 2:
        s.emit("mul", [x, x], Mul())
    else:
        s.emit("power", [x], Power(number))


def divide_by_computed(s: Step) -> None:
    """x / y as x * y^-1; a root that made y becomes part of the power, so that it is rounded once."""
    base, exponent = _base(s, s.value(1))
    inverse = s.insert("power", [base], Power(-exponent), "inverse")
    s.emit("mul", [s.value(0), inverse], Mul())


def _base(s: Step, y: Value) -> tuple[Value, float]:
    """(x, e) with y = x^e: a square root is looked through, its argument cannot be negative."""
    for node in reversed(s.builder.nodes):
        if y.name in node.outputs:
            if node.op == "power" and node.attrs.exponent == 0.5:
                return s.builder.values[node.inputs[0]], 0.5
            break
    return y, 1.0


@imports("ReduceMax", "ReduceMin")
def reduce_extremum(s: Step) -> None:
    """Axes are an attribute, since opset 18 an input. None means all axes, or nothing if so requested."""
    x = s.value(0)
    rank = len(x.shape)
    given = s.numbers(1) if s.has(1) else s.node.ints("axes") or ()
    axes = tuple(sorted({s.axis(axis, rank) for axis in given})) or tuple(range(rank))
    if not given and s.node.int_("noop_with_empty_axes", 0):
        s.emit("reshape", [x], Reshape(x.shape))
    else:
        keep = bool(s.node.int_("keepdims", 1))
        s.emit("reduce_extremum", [x], ReduceExtremum(axes, keep, s.node.op == "ReduceMax"))


@imports("LayerNormalization")
def layer_normalization(s: Step) -> None:
    """scale * (x - mean) / sqrt(variance + epsilon) + bias over the axes from `axis` on, spelled out."""
    if any(s.node.outputs[1:]):
        raise TinycError("LayerNormalization with the mean or deviation as an output is not supported", s.where)
    x = s.value(0)
    rank = len(x.shape)
    axes = tuple(range(s.axis(s.node.int_("axis", -1), rank), rank))
    epsilon = s.builder.add_const(f"{s.node.outputs[0]}:epsilon", np.array(s.node.float_("epsilon", 1e-5), np.float32))
    mean = s.insert("mean", [x], Mean(axes, keep_dims=True), "mean")
    centred = s.insert("sub", [x, mean], Sub(), "centred")
    squares = s.insert("mul", [centred, centred], Mul(), "squares")
    variance = s.insert("mean", [squares], Mean(axes, keep_dims=True), "variance")
    spread = s.insert("add", [variance, epsilon], Add(), "spread")
    inverse = s.insert("power", [spread], Power(-0.5), "inverse")
    if not s.has(2):
        normal = s.insert("mul", [centred, inverse], Mul(), "normal")
        s.emit("mul", [normal, s.const(s.weights(1), 1)], Mul())
        return
    normal = s.insert("mul", [centred, inverse], Mul(), "normal")
    scaled = s.insert("mul", [normal, s.const(s.weights(1), 1)], Mul(), "scaled")
    s.emit("add", [scaled, s.const(s.weights(2), 2)], Add())
