# SPDX-License-Identifier: Apache-2.0
"""Operators that treat every element alike: arithmetic, bounds, casts."""

from __future__ import annotations

import math
from collections.abc import Mapping

import numpy as np
from onnx import TensorProto

from tinyc.base.errors import TinycError
from tinyc.ir.graph import NUMPY_DTYPE, DType, Value
from tinyc.load.onnx.activations import clipped, single
from tinyc.load.onnx.choices import before_softmax, hide
from tinyc.load.onnx.file import FLOATS
from tinyc.load.onnx.importing import OnnxStep, imports
from tinyc.load.onnx.narrow import NARROW, keep_low_bits, narrow_type
from tinyc.load.onnx.products import divide_by_computed
from tinyc.ops.add import Add
from tinyc.ops.choose import HIDDEN, Choose
from tinyc.ops.compare import Compare
from tinyc.ops.convert import Convert
from tinyc.ops.extremum import Extremum
from tinyc.ops.integer_binary import IntegerBinary
from tinyc.ops.mul import Mul
from tinyc.ops.reshape import Reshape
from tinyc.ops.sub import Sub

_ARITHMETIC = {"Add": Add(), "Sub": Sub(), "Mul": Mul()}
WHOLE_TYPES: Mapping[int, DType] = {  # what reals may become
    TensorProto.INT8: "s8",
    TensorProto.UINT8: "u8",
    TensorProto.INT16: "s16",
    TensorProto.INT32: "s32",
    TensorProto.INT64: "s32",
    TensorProto.BOOL: "bool",
}


@imports("Add", "Sub", "Mul")
def arithmetic(s: OnnxStep) -> None:
    """Two tensors, or one and a constant, which becomes the second operand where the order is free."""
    attrs = _ARITHMETIC[s.node.op]
    if s.node.op == "Sub" and s.constant(1) is not None and s.node.inputs[1] not in s.builder.grids:
        s.emit([s.value(0), s.const(-s.weights(1), 1)], Add())
    elif s.node.op == "Add" and (mask := _mask(s)) is not None:
        shown = s.constant(mask)
        assert shown is not None
        hide(s, s.value(1 - mask), shown == 0)
    elif s.node.op != "Sub" and s.constant(0) is not None:
        s.emit([s.value(1), s.value(0)], attrs)
    else:
        s.emit([s.value(0), s.value(1)], attrs)


def _mask(s: OnnxStep) -> int | None:
    """Which input is a constant that hides scores from the softmax behind the sum: each 0, or far below all scores."""
    for index in (0, 1):
        array = s.constant(index)
        if array is not None and array.dtype.kind == "f" and array.size > 1 and array.min() < -HIDDEN:
            return index if before_softmax(s) and ((array == 0) | (array < -HIDDEN)).all() else None
    return None


@imports("Div")
def divide(s: OnnxStep) -> None:
    if s.constant(1) is None:
        divide_by_computed(s)
        return
    divisor = s.weights(1)
    if not divisor.all():
        raise TinycError("division by zero", s.where)
    with np.errstate(over="ignore"):  # infinite: refused by const()
        s.emit([s.value(0), s.const(np.float32(1) / divisor, 1)], Mul())


@imports("Neg")
def negate(s: OnnxStep) -> None:
    s.emit([s.value(0), single(s, -1.0, "minus")], Mul())


@imports("Sum")
def add_all(s: OnnxStep) -> None:
    total = s.value(0)
    for index in range(1, s.input_count - 1):
        total = s.insert([total, s.value(index)], Add(), f"sum{index}")
    if s.input_count == 1:
        s.emit([total], Reshape(total.shape))
    else:
        s.emit([total, s.value(s.input_count - 1)], Add())


@imports("Max", "Min")
def bound(s: OnnxStep) -> None:
    """The larger (smaller) of tensors and constant numbers."""
    largest = s.node.op == "Max"
    numbers = [k for k in range(s.input_count) if (c := s.constant(k)) is not None and c.size == 1]
    tensors = [s.value(k) for k in range(s.input_count) if k not in numbers]
    if not tensors:
        raise TinycError(f"{s.node.op} of {s.input_count} numbers cannot be compiled", s.where)
    x = tensors[0]
    for k, other in enumerate(tensors[1:], 1):
        if k == len(tensors) - 1 and not numbers:
            s.emit([x, other], Extremum(largest))
            return
        x = s.insert([x, other], Extremum(largest), f"of{k + 1}")
    bounds = [s.scalar(k, 0.0) for k in numbers]
    lo, hi = (max(bounds, default=-math.inf), math.inf) if largest else (-math.inf, min(bounds, default=math.inf))
    clipped(s, x, lo, hi)


@imports("Mean")
def mean_of_all(s: OnnxStep) -> None:
    """The sum of the tensors over their number."""
    total = s.value(0)
    for index in range(1, s.input_count):
        total = s.insert([total, s.value(index)], Add(), f"sum{index}")
    s.emit([total, single(s, 1 / s.input_count, "part")], Mul())


@imports("Cast", ignores=("saturate", "round_mode"))  # both only say how float8 is rounded
def cast(s: OnnxStep) -> None:
    """Between floats, or between integers: nothing to do, all are float32, or int32, here. Truth becomes 1 or 0."""
    _cast(s, s.node.int_("to", TensorProto.FLOAT))


@imports("CastLike", ignores=("saturate", "round_mode"))
def cast_like(s: OnnxStep) -> None:
    """As Cast, to the second input's kind of number."""
    like, array = s.constant(1), s.constant(0)
    computed = s.value(1).dtype if like is None else ""
    if array is not None and computed in NUMPY_DTYPE:
        s.builder.fold(s.node.outputs[0], array.astype(NUMPY_DTYPE[computed]))
        return
    floats = computed == "f32" or (like is not None and like.dtype.kind == "f")
    integers = computed == "s32" or (like is not None and like.dtype in (np.int32, np.int64))
    kind = TensorProto.FLOAT if floats else TensorProto.INT64 if integers else TensorProto.UNDEFINED
    _cast(s, narrow_type(s.builder, s.node.inputs[1]) or kind)


def _cast(s: OnnxStep, to: int) -> None:
    x = s.value(0)
    if x.dtype == "bool" and to in FLOATS:
        s.emit([x, single(s, 1.0, "true"), single(s, 0.0, "false")], Choose())
        return
    if x.dtype == "f32" and to in WHOLE_TYPES:
        _to_integers(s, x, WHOLE_TYPES[to])
        return
    if x.dtype == "f32" and to in NARROW:
        keep_low_bits(s, s.insert([x], Convert("s32"), "int32"), to)
        return
    is_index = x.dtype == "s32" and x.quant is None and to in (TensorProto.INT32, TensorProto.INT64)
    if not is_index and (x.dtype != "f32" or to not in FLOATS):
        raise TinycError(
            "a cast of computed values to this kind of number is not supported",
            s.where,
            "leave the index, or the comparison, as the model's output, and convert it in the program",
        )
    s.emit([x], Reshape(x.shape))


def _to_integers(s: OnnxStep, x: Value, kind: DType) -> None:
    """Reals towards zero, saturated at int32; of fewer bits the low ones."""
    if kind == "bool":
        s.emit([x, single(s, 0.0, "false")], Compare("not_equal"))  # which integers have, too
        return
    if kind == "s32":
        s.emit([x], Convert(kind))
        return
    wide = s.insert([x], Convert("s32"), "int32")
    zero = s.builder.add_integers(f"{s.node.outputs[0]}:zero", np.array(0, np.int32), "s32")
    s.emit([wide, zero], IntegerBinary("or", kind))


@imports("Identity")
def identity(s: OnnxStep) -> None:
    x = s.value(0)
    s.emit([x], Reshape(x.shape))


@imports("Dropout", ignores=("ratio", "seed", 1))
def dropout(s: OnnxStep) -> None:
    """Does nothing in inference."""
    training = s.constant(2) if s.has(2) else np.array(False)
    if training is None or training.any():
        raise TinycError("Dropout in training mode cannot be compiled", s.where, "export the model for inference")
    x = s.value(0)
    s.emit([x], Reshape(x.shape))
