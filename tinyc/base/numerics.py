# SPDX-License-Identifier: Apache-2.0
"""Whose integers a model reproduces. Three rules turn an int32 accumulator into an output, and they differ by one step
now and then:

* `Rounding.DOUBLE`: doubling high multiply, then rounding shift (TensorFlow Lite Micro, CMSIS-NN);
* `Rounding.SINGLE`: one 64-bit product, one rounding shift (models that tinyc quantizes);
* `Rounding.FLOAT`: one float32 product, rounded to nearest, halves to even (XNNPACK's convolutions and
  fully connected layers, and so desktop LiteRT's default path).
"""

from __future__ import annotations

from enum import Enum

from tinyc.base.errors import TinycError


class Rounding(Enum):
    """How an accumulator is scaled down; see the module's docstring."""

    SINGLE = "single"
    DOUBLE = "double"
    FLOAT = "float"

    @property
    def code(self) -> int:
        """The argument `rounds` of tc_requantize in tc_math.h."""
        return {Rounding.SINGLE: 1, Rounding.DOUBLE: 2, Rounding.FLOAT: 3}[self]


class Numerics(Enum):
    """Whose integers the model has to reproduce, where two runtimes differ.

    TFLM: TensorFlow Lite Micro's kernels. LITERT: desktop LiteRT's default path (XNNPACK where it
    applies). ONNX: the reals that QuantizeLinear and DequantizeLinear stand for, rounded to nearest, halves
    to even, as ONNX Runtime's integer kernels do. OURS: models that tinyc quantized; `single` rounding,
    otherwise as TFLM.
    """

    TFLM = "tflm"
    LITERT = "litert"
    OURS = "single"
    ONNX = "onnx"

    @property
    def rounding(self) -> Rounding:
        return Rounding.DOUBLE if self is Numerics.TFLM else Rounding.SINGLE

    @property
    def scales_in_float(self) -> bool:
        """Whether weighted layers and means multiply their accumulators by a float32 factor (`Rounding.FLOAT`)."""
        return self in (Numerics.LITERT, Numerics.ONNX)


def numerics_of(name: str) -> Numerics:
    """Those with a name. Raises TinycError, which lists the names, where there are none."""
    try:
        return Numerics(name)
    except ValueError as error:
        names = ", ".join(choice.value for choice in Numerics)
        raise TinycError(f"there are no numerics '{name}'", hint=f"there are: {names}") from error
