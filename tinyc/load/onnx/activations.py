# SPDX-License-Identifier: Apache-2.0
"""Activations: functions of one element, and softmax."""

from __future__ import annotations

import math

import numpy as np

from tinyc.base.errors import TinycError
from tinyc.ir.graph import Value
from tinyc.kernel.site import RELU, Act
from tinyc.load.onnx.grids import SHIFT
from tinyc.load.onnx.importing import OnnxStep, imports
from tinyc.ops.add import Add
from tinyc.ops.clip import Clip
from tinyc.ops.dequantize import Dequantize
from tinyc.ops.hard_swish import HardSwish
from tinyc.ops.leaky_relu import LeakyRelu
from tinyc.ops.mul import Mul
from tinyc.ops.quantize import Quantize
from tinyc.ops.reshape import Reshape
from tinyc.ops.sigmoid import Sigmoid
from tinyc.ops.tanh import Tanh

_LARGEST = float(np.finfo(np.float32).max)


def single(s: OnnxStep, number: float, what: str) -> Value:
    """A constant number beside the node. what: it is, in its name."""
    return s.builder.add_const(f"{s.node.outputs[0]}:{what}", np.array(number, np.float32))


@imports("Relu")
def relu(s: OnnxStep) -> None:
    s.emit([s.value(0)], Clip(RELU))


@imports("Clip")
def clip(s: OnnxStep) -> None:
    """Bounds are attributes before opset 11, optional inputs since. With lo > hi everything becomes hi."""
    if s.opset < 11:
        lo, hi = s.node.float_("min", -math.inf), s.node.float_("max", math.inf)
    else:
        lo, hi = s.scalar(1, -math.inf), s.scalar(2, math.inf)
    x = s.value(0)
    if x.dtype == "f32" or x.quant is None:
        clipped(s, x, lo, hi)
        return
    scale, zero = x.quant.per_tensor  # integers that have a scale, between QuantizeLinear and DequantizeLinear
    moved = SHIFT[x.dtype] if x.name in s.builder.unsigned and x.dtype in SHIFT else 0
    if x.name in s.builder.unsigned:
        s.builder.unsigned.add(s.node.outputs[0])
    act = Act(*(scale * (bound - moved - zero) for bound in (lo, hi)))
    reals = s.insert([s.insert([x], Dequantize(), "reals")], Clip(act), "clipped")
    s.emit([reals], Quantize(x.dtype, half_even=True), x.quant)


def clipped(s: OnnxStep, x: Value, lo: float, hi: float) -> None:
    """The output of the node: x within [lo, hi]; x, where neither is a bound."""
    # Exporters write "no bound" as the largest float.
    lo = -math.inf if lo <= -_LARGEST else min(lo, hi)
    hi = math.inf if hi >= _LARGEST else hi
    if (lo, hi) == (-math.inf, math.inf):
        s.emit([x], Reshape(x.shape))
    elif math.inf in (lo, -hi):
        raise TinycError(f"clip to [{lo}, {hi}] leaves no finite value", s.where)
    else:
        s.emit([x], Clip(Act(lo, hi)))


@imports("Sigmoid")
def sigmoid(s: OnnxStep) -> None:
    s.emit([s.value(0)], Sigmoid())


@imports("Tanh")
def tanh(s: OnnxStep) -> None:
    s.emit([s.value(0)], Tanh())


@imports("HardSigmoid")
def hard_sigmoid(s: OnnxStep) -> None:
    """clip(alpha * x + beta, 0, 1)."""
    alpha, beta = s.node.float_("alpha", 0.2), s.node.float_("beta", 0.5)
    scaled = s.insert([s.value(0), single(s, alpha, "alpha")], Mul(), "scaled")
    line = s.insert([scaled, single(s, beta, "beta")], Add(), "line")
    s.emit([line], Clip(Act(0.0, 1.0)))


@imports("HardSwish")
def hard_swish(s: OnnxStep) -> None:
    s.emit([s.value(0)], HardSwish())


@imports("LeakyRelu")
def leaky_relu(s: OnnxStep) -> None:
    s.emit([s.value(0)], LeakyRelu(s.node.float_("alpha", 0.01)))
