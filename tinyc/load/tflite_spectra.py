# SPDX-License-Identifier: Apache-2.0
"""RFFT2D of rows and what is taken of its complex numbers, as `tf.signal.stft` and `tf.signal.rfft` are converted."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from tinyc.base.dataclass import dataclass
from tinyc.base.errors import TinycError
from tinyc.ir.graph import Shape, Value
from tinyc.load.tflite_graph import TfliteStep
from tinyc.load.tflite_ops import imports
from tinyc.load.tflite_phases import reshaped
from tinyc.ops.dft import Dft
from tinyc.ops.mul import Mul
from tinyc.ops.power import Power
from tinyc.ops.reshape import Reshape
from tinyc.ops.slice import whole
from tinyc.ops.sum import Sum


@dataclass(frozen=True, slots=True)
class Complex:
    """A tensor of complex numbers, which no value of the graph is. pair: float32 [rows, bins, 2], real and imaginary
    parts of its elements. origin: the operator that declares the tensor."""

    origin: TfliteStep
    pair: Value
    shape: Shape

    def make(self) -> Value:
        """TinycError: the tensor is not made."""
        raise TinycError(
            f"'{self.origin.out_tensor().name}' is complex; COMPLEX_ABS, REAL and IMAG take it, as it is or reshaped",
            self.origin.where,
            "compute with magnitudes (tf.abs), or with real and imaginary parts",
        )

    def reshaped(self, s: TfliteStep, shape: Shape) -> Complex | None:
        """The same numbers under another shape."""
        return Complex(s, self.pair, shape) if np.prod(shape) == np.prod(self.shape) else None


@imports("RFFT2D")
def rfft(s: TfliteStep) -> None:
    """Of rows: the first of the two lengths is 1. Rows are cut off or filled up with zeros to the second."""
    x, lengths = s.value(0), s.numbers(1)
    s.options("Rfft2dOptions")
    if x.dtype != "f32" or len(x.shape) < 2 or x.shape[-2] != 1 or len(lengths) != 2 or lengths[0] != 1:
        raise TinycError(
            f"RFFT2D of {s.type_of(0)} {list(x.shape)} with lengths {list(lengths)} cannot be compiled",
            s.where,
            "transforms of rows are (tf.signal.rfft, tf.signal.stft)",
        )
    size, length = x.shape[-1], lengths[1]
    bins, rows = length // 2 + 1, x.elements // size
    line = reshaped(s, x, (rows, size, 1), "rows")
    pair = s.of_floats("parts", (rows, bins, 2))
    s.insert((line,), Dft(1, length, bins), pair)
    s.defer(Complex(s, pair, (*x.shape[:-1], bins)))


@imports("COMPLEX_ABS")
def magnitude(s: TfliteStep) -> None:
    """The root of the sum of squares."""
    given = _complex(s)
    squares = s.of_floats("squares", given.pair.shape)
    s.insert((given.pair, given.pair), Mul(), squares)
    total = s.of_floats("power", given.pair.shape[:-1])
    s.insert((squares,), Sum((-1,), False), total)
    root = s.of_floats("magnitude", total.shape)
    s.insert((total,), Power(0.5), root)
    s.emit((root,), Reshape(given.shape))


def _part(index: int) -> Callable[[TfliteStep], None]:
    def importer(s: TfliteStep) -> None:
        given = _complex(s)
        part = s.of_floats("part", (*given.pair.shape[:-1], 1))
        s.insert((given.pair,), whole(given.pair.shape, 2, index, 1), part)
        s.emit((part,), Reshape(given.shape))

    importer.__doc__ = f"The {('real', 'imaginary')[index]} part of what RFFT2D makes."
    return importer


imports("REAL")(_part(0))
imports("IMAG")(_part(1))


def _complex(s: TfliteStep) -> Complex:
    given = s.deferred
    if not isinstance(given, Complex):
        raise TinycError(
            f"{s.operator.code} of '{s.tensor(0).name}', which no RFFT2D makes, cannot be compiled", s.where
        )
    return given
