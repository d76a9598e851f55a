# SPDX-License-Identifier: Apache-2.0
"""TFLite operators that remember something from run to run."""

from __future__ import annotations

from tinyc.base.errors import TinycError
from tinyc.load.tflite_graph import TfliteStep
from tinyc.load.tflite_ops import fused, imports
from tinyc.ops.lstm import Lstm
from tinyc.ops.svdf import Svdf

_TANH = 4  # schema enum ActivationFunctionType


@imports("SVDF", ignores=("asymmetric_quantize_inputs",))
def svdf(s: TfliteStep) -> None:
    """The state is a variable tensor of the file, 0 after a reset."""
    o, x = s.options("SVDFOptions"), s.value(0)
    w, times = s.weights(1, x, axis=0), s.value(2)
    bias = s.bias(3, x, w) if s.has(3) else None
    before, after = s.variable(4)
    y = s.declared()
    s.insert((x, w, times, bias, before), Svdf(int(o["Rank"]), fused(o)), y, after)
    s.define(0, y)


_NEEDED = (1, 2, 3, 4, 5, 6, 7, 8)  # weights of the gates i, f, g, o, from the input and from the hidden state
_UNUSED = {9: "peepholes", 10: "peepholes", 11: "peepholes", 16: "a projection", 20: "layer normalization"}


@imports("UNIDIRECTIONAL_SEQUENCE_LSTM", ignores=("asymmetric_quantize_inputs", "proj_clip"))
def lstm(s: TfliteStep) -> None:
    """The full-integer layer; hidden state and cell are variable tensors of the file, 0 after a reset."""
    o, x = s.options("UnidirectionalSequenceLSTMOptions"), s.value(0)
    for index, what in _UNUSED.items():
        if s.has(index):
            raise TinycError(f"LSTM with {what} is not supported", s.where)
    if not s.has(1) or o["FusedActivationFunction"] != _TANH:
        raise TinycError("LSTM needs all four gates (no coupled input and forget gate) and tanh", s.where)
    if x.dtype not in ("s8", "f32"):
        message = f"LSTM on {x.dtype} activations: int8 with an int16 cell, and float32, are supported"
        raise TinycError(message, s.where)
    weights = [s.weights(index, x, axis=0) for index in _NEEDED]
    biases = [s.bias(12 + gate, x, weights[gate]) for gate in range(4)]
    hidden, next_hidden = s.variable(18)
    cell, next_cell = s.variable(19)
    y = s.declared()
    attrs = Lstm(float(o["CellClip"]), bool(o["TimeMajor"]))
    s.insert((x, *weights, *biases, hidden, cell), attrs, y, next_hidden, next_cell)
    s.define(0, y)
