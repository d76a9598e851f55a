"""ONNX functions of one number: tables once they are quantized."""

from __future__ import annotations

from tinyc.errors import TinycError
from tinyc.load.onnx.importing import Step, imports
from tinyc.ops.function import Function


@imports(
    *("Ceil", "Celu", "Cos", "Elu", "Erf", "Exp", "Floor", "Log", "Mish", "Round", "Sign", "Sin"),
    *("Softplus", "Softsign", "Swish"),
)
def function(s: Step) -> None:
    s.emit("function", [s.value(0)], Function(s.node.op.lower(), s.node.float_("alpha", 1.0)))


@imports("ThresholdedRelu")
def thresholded_relu(s: Step) -> None:
    s.emit("function", [s.value(0)], Function("thresholded_relu", s.node.float_("alpha", 1.0)))


@imports("Selu")
def selu(s: Step) -> None:
    """With ONNX's default constants only."""
    if not {"alpha", "gamma"}.isdisjoint(s.node.attributes):
        raise TinycError("Selu with constants of its own is not supported", s.where)
    s.emit("function", [s.value(0)], Function("selu"))


@imports("Gelu")
def gelu(s: Step) -> None:
    """With the error function, or with tanh."""
    name = {"none": "gelu", "tanh": "gelu_tanh"}.get(s.node.text("approximate", "none"))
    if name is None:
        raise TinycError(f"Gelu approximated by {s.node.text('approximate', 'none')}", s.where)
    s.emit("function", [s.value(0)], Function(name))
