# SPDX-License-Identifier: Apache-2.0
"""Operators of integers that stand for themselves, and of truth values: token numbers, indices, masks, counters.

64-bit integers are int32 here. What has a scale is no such integer: it stands between DequantizeLinear and
QuantizeLinear.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import onnx
from onnx import TensorProto

from tinyc.base.errors import TinycError
from tinyc.ir.graph import NUMPY_DTYPE, Array, DType, Value
from tinyc.load.onnx.file import FLOATS
from tinyc.load.onnx.importing import OnnxStep, imports, on_integers
from tinyc.load.onnx.narrow import NARROW, keep_low_bits, narrow_type
from tinyc.ops.choose import Choose
from tinyc.ops.compare import Compare
from tinyc.ops.convert import Convert
from tinyc.ops.integer_binary import IntegerBinary
from tinyc.ops.reshape import Reshape

_MANY = {"Min": "min", "Max": "max", "Sum": "add"}
_BINARY = {
    **{"Add": "add", "Sub": "sub", "Mul": "mul", "Div": "div"},
    **{"And": "and", "Or": "or", "Xor": "xor", "BitwiseAnd": "and", "BitwiseOr": "or", "BitwiseXor": "xor"},
}
_COMPARED = {
    **{"Equal": "equal", "Less": "less", "LessOrEqual": "less_equal"},
    **{"Greater": "greater", "GreaterOrEqual": "greater_equal"},
}
_TYPES: Mapping[int, DType] = {
    TensorProto.INT8: "s8",
    TensorProto.UINT8: "u8",
    TensorProto.INT16: "s16",
    TensorProto.INT32: "s32",
    TensorProto.INT64: "s32",
    TensorProto.UINT16: "u16",
    TensorProto.UINT32: "u32",
    TensorProto.UINT64: "u32",
    TensorProto.BOOL: "bool",
}

PLAIN_TYPES: Mapping[type, DType] = {  # of constants, by NumPy's words
    onnx.helper.tensor_dtype_to_np_dtype(number).type: kind for number, kind in _TYPES.items()
}


def operands(s: OnnxStep, count: int) -> list[Value]:
    """The inputs; constants get the type of the computed ones."""
    kind = next(s.value(k).dtype for k in range(count) if s.constant(k) is None)
    return [s.value(k) if s.constant(k) is None else constant(s, k, kind) for k in range(count)]


def constant(s: OnnxStep, index: int, dtype: DType) -> Value:
    """A constant input as integers of that type."""
    array = s.constant(index)
    assert array is not None
    held: Array = array.astype(NUMPY_DTYPE[dtype])
    if not np.array_equal(held, array):
        raise TinycError(f"input {index} has numbers beyond {dtype}", s.where)
    return s.builder.add_integers(s.node.inputs[index], held, dtype)


def number(s: OnnxStep, what: str, x: Value, held: int) -> Value:
    """One number of x's type."""
    array: Array = np.array(held).astype(NUMPY_DTYPE[x.dtype])
    return s.builder.add_integers(f"{s.node.outputs[0]}:{what}", array, x.dtype)


@imports("And", "Or")
@on_integers(*_BINARY)
def binary(s: OnnxStep) -> None:
    """Of two tensors of integers or truth values."""
    a, b = operands(s, 2)
    s.emit([a, b], IntegerBinary(_BINARY[s.node.op], a.dtype))


@on_integers(*_MANY)
def joined(s: OnnxStep) -> None:
    """Of any number of tensors, one after the other."""
    first, *others = operands(s, s.input_count)
    if not others:
        s.emit([first], Reshape(first.shape))
        return
    attrs, total = IntegerBinary(_MANY[s.node.op], first.dtype), first
    for k, x in enumerate(others[:-1]):
        total = s.insert([total, x], attrs, f"of{k + 2}")
    s.emit([total, others[-1]], attrs)


@on_integers(*_COMPARED)
def compare(s: OnnxStep) -> None:
    s.emit(operands(s, 2), Compare(_COMPARED[s.node.op]))


@on_integers("Mod")
def mod(s: OnnxStep) -> None:
    a, b = operands(s, 2)
    s.emit([a, b], IntegerBinary("rest" if s.node.flag("fmod", False) else "mod", a.dtype))


@on_integers("BitShift")
def shift(s: OnnxStep) -> None:
    a, b = operands(s, 2)
    way = s.node.text("direction", "")
    if way not in ("LEFT", "RIGHT") or a.dtype == "bool":
        raise TinycError(f"BitShift {way} of {a.dtype} cannot be compiled", s.where)
    s.emit([a, b], IntegerBinary(f"shift_{way.lower()}", a.dtype))


@imports("Not")
@on_integers("Not", "BitwiseNot")
def negate_bits(s: OnnxStep) -> None:
    """Of truth values, or of every bit."""
    x = s.value(0)
    s.emit([x, number(s, "ones", x, 1 if x.dtype == "bool" else -1)], IntegerBinary("xor", x.dtype))


@on_integers("Neg")
def negate(s: OnnxStep) -> None:
    x = s.value(0)
    s.emit([number(s, "zero", x, 0), x], IntegerBinary("sub", x.dtype))


@on_integers("Abs")
def absolute(s: OnnxStep) -> None:
    x = s.value(0)
    minus = s.insert([number(s, "zero", x, 0), x], IntegerBinary("sub", x.dtype), "minus")
    s.emit([x, minus], IntegerBinary("max", x.dtype))


@on_integers("Relu")
def relu(s: OnnxStep) -> None:
    x = s.value(0)
    s.emit([x, number(s, "zero", x, 0)], IntegerBinary("max", x.dtype))


@on_integers("Sign")
def sign(s: OnnxStep) -> None:
    x = s.value(0)
    least = number(s, "least", x, 0 if x.dtype in ("u8", "u16", "u32", "bool") else -1)
    most = s.insert([x, number(s, "one", x, 1)], IntegerBinary("min", x.dtype), "most", quant=x.quant)
    s.emit([most, least], IntegerBinary("max", x.dtype))


@on_integers("Clip")
def clip(s: OnnxStep) -> None:
    """Bounds may be computed. With lo > hi everything becomes hi."""
    x = s.value(0)
    for index, kind in ((1, "max"), (2, "min")):
        if s.has(index):
            bound = s.value(index) if s.constant(index) is None else constant(s, index, x.dtype)
            x = s.insert([x, bound], IntegerBinary(kind, x.dtype), kind)
    s.emit([x], Reshape(x.shape))


@on_integers("Where")
def where(s: OnnxStep) -> None:
    """Integers chosen by a computed or constant condition."""
    kind = next((s.value(k).dtype for k in (1, 2) if s.constant(k) is None), None)
    if kind is None:
        raise TinycError("Where of two constants is not supported", s.where)
    picked = [s.value(k) if s.constant(k) is None else constant(s, k, kind) for k in (1, 2)]
    condition = s.value(0) if s.constant(0) is None else constant(s, 0, "bool")
    s.emit([condition, *picked], Choose(), picked[0].quant)


@on_integers("Cast", ignores=("saturate", "round_mode"))
def cast(s: OnnxStep) -> None:
    """To another type of integers, which keeps the low bits, to truth values, or to float32."""
    _cast(s, s.node.int_("to", 0))


@on_integers("CastLike", ignores=("saturate", "round_mode"))
def cast_like(s: OnnxStep) -> None:
    """As Cast, to the second input's type."""
    like = s.constant(1)
    kind = s.value(1).dtype if like is None else ""
    to = next((number for number, held in _TYPES.items() if held == kind), TensorProto.FLOAT)
    if narrow := narrow_type(s.builder, s.node.inputs[1]):
        to = narrow
    elif like is not None and like.dtype.kind != "f":
        to = {"b": TensorProto.BOOL}.get(like.dtype.kind, TensorProto.INT64)
    _cast(s, to)


def _cast(s: OnnxStep, to: int) -> None:
    x = s.value(0)
    if to in FLOATS:
        s.emit([x], Convert("f32"))
        return
    kind = _TYPES.get(to)
    if to in NARROW:
        keep_low_bits(s, x, to)
        return
    if kind is None:
        raise TinycError(f"a cast of {x.dtype} to {TensorProto.DataType.Name(to)} is not supported", s.where)
    if kind == "bool":
        s.emit([x, number(s, "zero", x, 0)], Compare("not_equal"))
    elif kind == x.dtype:
        s.emit([x], Reshape(x.shape))
    else:
        s.emit([x, number(s, "zero", x, 0)], IntegerBinary("or", kind))
