# SPDX-License-Identifier: Apache-2.0
"""ONNX functions of one number: tables once they are quantized."""

from __future__ import annotations

import numpy as np

from tinyc.base.errors import TinycError
from tinyc.ir.graph import Value
from tinyc.load.onnx.file import MICROSOFT
from tinyc.load.onnx.importing import OnnxStep, imports
from tinyc.ops.add import Add
from tinyc.ops.choose import Choose
from tinyc.ops.compare import Compare
from tinyc.ops.function import SELU_ALPHA, SELU_SCALE, Function
from tinyc.ops.mul import Mul
from tinyc.ops.reshape import Reshape


@imports("Acos", "Acosh", "Asin", "Asinh", "Atan", "Atanh", "Ceil", "Cos", "Cosh", "Erf", "Exp", "Floor")
@imports("Log", "Mish", "Round", "Sign", "Sin", "Sinh", "Softplus", "Softsign", "Tan")
def function(s: OnnxStep) -> None:
    s.emit([s.value(0)], Function(s.node.op.lower()))


@imports("Celu", "Elu", "Swish")
def function_of_alpha(s: OnnxStep) -> None:
    s.emit([s.value(0)], Function(s.node.op.lower(), s.node.float_("alpha", 1.0)))


@imports("ThresholdedRelu")
def thresholded_relu(s: OnnxStep) -> None:
    s.emit([s.value(0)], Function("thresholded_relu", s.node.float_("alpha", 1.0)))


@imports("Selu")
def selu(s: OnnxStep) -> None:
    """With constants of its own it is a scaled Elu."""
    alpha, gamma = s.node.float_("alpha", SELU_ALPHA), s.node.float_("gamma", SELU_SCALE)
    if np.float32(alpha) == np.float32(SELU_ALPHA) and np.float32(gamma) == np.float32(SELU_SCALE):
        s.emit([s.value(0)], Function("selu"))
        return
    bent = s.insert([s.value(0)], Function("elu", alpha), "bent")
    s.emit([bent, _number(s, "gamma", gamma)], Mul())


@imports("Shrink")
def shrink(s: OnnxStep) -> None:
    """Nearer to 0 by the bias outside of -lambd to lambd, 0 inside."""
    x, limit, bias = s.value(0), s.node.float_("lambd", 0.5), s.node.float_("bias", 0.0)
    y = _number(s, "zero", 0.0)
    for name, kind, sign in (("above", "greater", 1), ("below", "less", -1)):
        far = s.insert([x, _number(s, f"limit_{name}", sign * limit)], Compare(kind), f"is_{name}")
        moved = s.insert([x, _number(s, f"bias_{name}", -sign * bias)], Add(), name) if bias else x
        y = s.insert([far, moved, y], Choose(), f"unless_{name}")
    s.emit([y], Reshape(x.shape))


def _number(s: OnnxStep, what: str, number: float) -> Value:
    return s.builder.add_const(f"{s.node.outputs[0]}:{what}", np.array(number, np.float32))


@imports("FastGelu", "BiasGelu", domain=MICROSOFT)
def gelu_of_sum(s: OnnxStep) -> None:
    """With a bias that is added before: the first with tanh, the second with the error function."""
    x = s.value(0)
    if s.has(1):
        x = s.insert([x, s.value(1)], Add(), "biased")
    s.emit([x], Function("gelu_tanh" if s.node.op == "FastGelu" else "gelu"))


@imports("Gelu", domain=MICROSOFT)
@imports("Gelu")
def gelu(s: OnnxStep) -> None:
    """With the error function, or with tanh."""
    name = {"none": "gelu", "tanh": "gelu_tanh"}.get(s.node.text("approximate", "none"))
    if name is None:
        raise TinycError(f"Gelu approximated by {s.node.text('approximate', 'none')} cannot be compiled", s.where)
    s.emit([s.value(0)], Function(name))
