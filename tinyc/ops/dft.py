# SPDX-License-Identifier: Apache-2.0
"""dft: the Fourier transform of real numbers along one axis, as ONNX's DFT: x [.., n, .., 1] -> [.., bins, .., 2].

Real and imaginary parts last; n numbers are cut off or filled up with zeros to `length`. It has no integers of its own:
`passes/sizes.py` makes one operator of it and of what takes the sizes of its bins, or a product with a matrix.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from tinyc.base.dataclass import dataclass
from tinyc.base.errors import TinycError
from tinyc.ir.graph import Array, Value
from tinyc.kernel.site import Type
from tinyc.ops.op import Op, Unquantized
from tinyc.ops.stft import without_integers


@dataclass(frozen=True, slots=True)
class Dft:
    """bins: length / 2 + 1, or length."""

    axis: int
    length: int
    bins: int


def infer(a: Dft, x: Value) -> Sequence[Type]:
    if not 0 <= a.axis < len(x.shape) - 1 or x.shape[-1] != 1 or not 0 < a.bins <= a.length:
        raise TinycError(f"a DFT of {list(x.shape)} along axis {a.axis}, of {a.length} numbers cannot be compiled")
    return [Type((*x.shape[: a.axis], a.bins, *x.shape[a.axis + 1 : -1], 2), "f32")]


def float_ref(a: Dft, x: Array) -> tuple[Array, ...]:
    bins = np.fft.fft(x[..., 0].astype(np.float64), a.length, axis=a.axis).take(range(a.bins), axis=a.axis)
    return (np.stack([bins.real, bins.imag], axis=-1).astype(np.float32),)


def matrix(count: int, length: int, parts: int, bins: int, back: bool) -> Array:
    """float32 [bins * 2, count * parts] of the transform of `count` numbers, cut off or filled up to `length`."""
    turns = np.outer(np.arange(bins), np.arange(count)) % length * (2 * math.pi / length)
    re, im = np.cos(turns), np.sin(turns) * (1 if back else -1)
    full = np.array([[re, -im], [im, re]])[:, :parts]  # [re or im made, re or im given, bins, count]
    full[..., length:] = 0
    flat = full.transpose(2, 0, 3, 1).reshape(2 * bins, count * parts)
    return np.asarray(flat / length if back else flat, np.float32)


prepare, int_ref = without_integers("a DFT")

OP = Op(
    name="dft",
    attrs=Dft,
    infer=infer,
    float_ref=float_ref,
    prepare=prepare,
    int_ref=int_ref,
    quant_in=(Unquantized(),),
    quant_out=(Unquantized(),),
    kernels=(),
)
