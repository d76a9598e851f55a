# SPDX-License-Identifier: Apache-2.0
"""TFLite operators that reduce, divide and normalize; imported like those of tflite_ops.py."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from tinyc.base.errors import TinycError
from tinyc.kernel.site import Act
from tinyc.load.tflite_arrays import PIXELS
from tinyc.load.tflite_counts import converted, on_counts
from tinyc.load.tflite_graph import TfliteStep
from tinyc.load.tflite_ops import fused, imports
from tinyc.ops.add import Add
from tinyc.ops.choose import Choose
from tinyc.ops.dequantize import Dequantize
from tinyc.ops.div import Div
from tinyc.ops.function import Function
from tinyc.ops.l2_normalize import L2Normalize
from tinyc.ops.log_softmax import LogSoftmax
from tinyc.ops.mul import Mul
from tinyc.ops.reshape import Reshape
from tinyc.ops.sum import Sum


@imports("SUM")
def add_up(s: TfliteStep) -> None:
    s.emit((s.value(0),), Sum(s.numbers(1), bool(s.options("ReducerOptions")["KeepDims"])))


@imports("ADD_N")
def add_all(s: TfliteStep) -> None:
    """Of floats. (On integers TensorFlow Lite Micro's operator is one step above the sum.)"""
    if s.input_count < 2 or s.value(0).dtype != "f32":
        hint = "spell the sum as additions of two tensors (tf.add), each with its own quantization"
        raise TinycError(f"ADD_N of {s.input_count} {s.type_of(0)} tensors cannot be compiled", s.where, hint)
    total = s.value(0)
    for index in range(1, s.input_count - 1):
        y = s.between(f"sum{index}", total.shape, total)
        s.insert((total, s.value(index)), Add(), y)
        total = y
    s.emit((total, s.value(s.input_count - 1)), Add())


@imports("DIV")
def divide(s: TfliteStep) -> None:
    """Floats over a constant number are a product."""
    act = fused(s.options("DivOptions"))
    if on_counts(s, "div", act):
        return
    x = s.value(0)
    divisor = s.constant(1) if x.dtype == "f32" else None
    if divisor is not None and divisor.size == 1 and divisor.all() and x.name not in s.builder.consts:
        s.emit((x, s.number(float(np.float32(1) / divisor.reshape(())), "inverse")), Mul(act))
    else:
        s.emit((x, s.value(1)), Div(act))


@imports("L2_NORMALIZATION")
def l2_normalize(s: TfliteStep) -> None:
    """Over the last axis."""
    if fused(s.options("L2NormOptions")) != Act():
        raise TinycError(
            "L2_NORMALIZATION with a fused activation cannot be compiled", s.where, "put the activation behind it"
        )
    s.emit((s.value(0),), L2Normalize())


@imports("LOG_SOFTMAX")
def log_softmax(s: TfliteStep) -> None:
    """Over the last axis."""
    s.emit((s.value(0),), LogSoftmax())


@imports("CEIL", "FLOOR", "ROUND", "SIGN")
def rounded(s: TfliteStep) -> None:
    """Only of floats, as in TensorFlow Lite; a table once they are quantized."""
    if s.value(0).dtype != "f32":
        raise TinycError(f"{s.operator.code} of {s.type_of(0)}: TensorFlow Lite has it for floats only", s.where)
    s.emit((s.value(0),), Function(s.operator.code.lower()))


@imports("CAST", ignores=("in_data_type", "out_data_type"))  # the tensors have their types
def cast(s: TfliteStep) -> None:
    """Between floats, or between integers that count; of such integers to float32 with `--precision float32`. Truth
    becomes 1 or 0."""
    x, to = s.value(0), s.out_tensor().type
    if x.dtype == "bool" and to == "FLOAT32":
        s.emit((x, s.number(1.0, "true"), s.number(0.0, "false")), Choose())
        return
    if to == "FLOAT32" and x.quant == PIXELS and s.type_of(0) == "uint8":  # as a dequantization has it
        s.emit((x,), Dequantize())
        return
    kinds = {"f32": ("FLOAT32",), "s32": ("INT32", "INT64")}
    if x.quant is not None or to not in kinds.get(x.dtype, ()):
        if converted(s):
            return
        raise TinycError(
            f"CAST from {s.type_of(0)} to {to.lower()} of computed values is not supported",
            s.where,
            "quantize the model whole, so that no tensor changes its kind of number",
        )
    s.emit((x,), Reshape(x.shape), replace(s.declared(), dtype=x.dtype))
