# SPDX-License-Identifier: Apache-2.0
"""ONNX functions of one number: tables once they are quantized."""

from __future__ import annotations

import numpy as np

from tinyc.base.errors import TinycError
from tinyc.load.onnx.importing import OnnxStep, imports
from tinyc.ops.function import SELU_ALPHA, SELU_SCALE, Function


@imports("Ceil", "Cos", "Erf", "Exp", "Floor", "Log", "Mish", "Round", "Sign", "Sin", "Softplus", "Softsign")
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
    """With ONNX's default constants only."""
    given = np.array([s.node.float_("alpha", SELU_ALPHA), s.node.float_("gamma", SELU_SCALE)], np.float32)
    if (given != np.array([SELU_ALPHA, SELU_SCALE], np.float32)).any():
        raise TinycError("Selu with constants of its own is not supported", s.where)
    s.emit([s.value(0)], Function("selu"))


@imports("Gelu")
def gelu(s: OnnxStep) -> None:
    """With the error function, or with tanh."""
    name = {"none": "gelu", "tanh": "gelu_tanh"}.get(s.node.text("approximate", "none"))
    if name is None:
        raise TinycError(f"Gelu approximated by {s.node.text('approximate', 'none')}", s.where)
    s.emit([s.value(0)], Function(name))
