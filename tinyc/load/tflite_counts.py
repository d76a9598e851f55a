# SPDX-License-Identifier: Apache-2.0
"""Arithmetic on integers without a scale: int32 tensors with constants, and conversions between widths."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from tinyc.base.errors import TinycError
from tinyc.ir.graph import Array, Value
from tinyc.kernel.site import Act
from tinyc.load.tflite_arrays import dtype_of
from tinyc.load.tflite_graph import TfliteStep
from tinyc.ops.convert import Convert
from tinyc.ops.integer_binary import IntegerBinary
from tinyc.ops.integer_map import KINDS, IntegerMap
from tinyc.ops.signals import COUNT

_BOTH_WAYS = ("add", "mul", "min", "max")


def is_count(value: Value) -> bool:
    """Whether the integers stand for themselves."""
    return value.dtype in KINDS and value.quant in (None, COUNT)


def declared_count(s: TfliteStep) -> Value:
    """The output as the file describes it; int8 without a scale is a count too."""
    tensor = s.out_tensor()
    if dtype_of(tensor, s.where) == "s8" and not len(tensor.scale):
        tensor = replace(tensor, scale=np.ones(1, np.float32), zero=np.zeros(1, np.int64))
    return s.builder.declare(tensor, s.where)


def on_counts(s: TfliteStep, name: str, act: Act | None = None) -> bool:
    """Import the operator as a step of `integer_map`, if one input is int32 without a scale and the other a number."""
    operands = _operands(s, name)
    if operands is None:
        return act in (None, Act()) and of_two(s, name)
    x, constant = operands
    if act is not None and act != Act():
        raise TinycError(
            f"{s.operator.code} of int32 with a fused activation cannot be compiled",
            s.where,
            "put the activation behind it",
        )
    if constant.size != 1:
        return of_two(s, name)
    s.emit((x,), IntegerMap(((name, int(constant.reshape(()))),), "s32"))
    return True


def of_two(s: TfliteStep, kind: str) -> bool:
    """Import the operator as int32 arithmetic of two tensors, if they are int32 without a scale."""
    if s.input_count != 2 or any(s.tensor(k).type != "INT32" or len(s.tensor(k).scale) for k in (0, 1)):
        return False
    s.emit((s.value(0), s.value(1)), IntegerBinary(kind, "s32"))
    return True


def _operands(s: TfliteStep, name: str) -> tuple[Value, Array] | None:
    for index in (0, 1) if name in _BOTH_WAYS else (0,):
        if s.input_count != 2 or dtype_of(s.tensor(index), s.where) != "s32" or s.constant(index) is not None:
            continue
        x, constant = s.value(index), s.constant(1 - index)
        if constant is not None and constant.dtype == np.int32 and is_count(x):
            return x, constant
    return None


def converted(s: TfliteStep) -> bool:
    """Import a CAST between counts, or of counts to float32: what follows is computed in float32 then."""
    x, tensor = s.value(0), s.out_tensor()
    if not is_count(x) or len(tensor.scale):
        return False
    if tensor.type == "FLOAT32":
        s.emit((x,), Convert("f32"), s.declared())
        return True
    if tensor.type not in ("INT8", "INT16", "INT32", "UINT32"):
        return False
    y = declared_count(s)
    s.emit((x,), IntegerMap((), y.dtype), y)
    return True
