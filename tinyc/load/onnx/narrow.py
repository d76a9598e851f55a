# SPDX-License-Identifier: Apache-2.0
"""Integers of 4 and 2 bits, which ONNX stores and casts, but does not compute with: each is held in 8 bits."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from onnx import TensorProto

from tinyc.base.dataclass import dataclass
from tinyc.ir.graph import NUMPY_DTYPE, DType, Value
from tinyc.load.onnx.importing import OnnxBuilder, OnnxStep
from tinyc.ops.integer_binary import IntegerBinary


@dataclass(frozen=True, slots=True)
class Narrow:
    """An element type of `bits` bits."""

    bits: int
    signed: bool

    @property
    def held(self) -> DType:
        return "s8" if self.signed else "u8"

    @property
    def limits(self) -> tuple[int, int]:
        """The least and the largest number."""
        least = -(1 << (self.bits - 1)) if self.signed else 0
        return least, least + (1 << self.bits) - 1


NARROW: Mapping[int, Narrow] = {
    TensorProto.INT4: Narrow(4, True),
    TensorProto.UINT4: Narrow(4, False),
    TensorProto.INT2: Narrow(2, True),
    TensorProto.UINT2: Narrow(2, False),
}


def narrow_type(builder: OnnxBuilder, name: str) -> int:
    """The element type of a stored tensor, an input or what a Cast makes, where it is one of NARROW; else 0."""
    held = builder.file.initializers.get(name)
    code = int(held.data_type) if held is not None else builder.narrow.get(name, 0)
    return code if code in NARROW else 0


def keep_low_bits(s: OnnxStep, x: Value, to: int) -> None:
    """Emit integers x as the numbers of a narrow type that have their low bits."""
    kind, last = NARROW[to], (1 << NARROW[to].bits) - 1
    zero = s.builder.add_integers(f"{s.node.outputs[0]}:zero", np.zeros((), NUMPY_DTYPE[x.dtype]), x.dtype)
    wide = s.insert([x, zero], IntegerBinary("or", "s32"), "wide") if x.dtype != "s32" else x
    s.builder.narrow[s.node.outputs[0]] = to
    if not kind.signed:
        s.emit([wide, _number(s, "mask", last)], IntegerBinary("and", kind.held))
        return
    half = 1 << (kind.bits - 1)  # ((x & last) ^ half) - half carries the top bit on
    low = s.insert([wide, _number(s, "mask", last)], IntegerBinary("and", "s32"), "low")
    turned = s.insert([low, _number(s, "sign", half)], IntegerBinary("xor", "s32"), "turned")
    s.emit([turned, _number(s, "half", half)], IntegerBinary("sub", kind.held))


def _number(s: OnnxStep, what: str, held: int) -> Value:
    return s.builder.add_integers(f"{s.node.outputs[0]}:{what}", np.array(held, np.int32), "s32")
