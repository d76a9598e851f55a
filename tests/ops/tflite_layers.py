# SPDX-License-Identifier: Apache-2.0
"""What random layers of TFLite operators are made of: scales, zero points and shapes at their edges, and samples."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.random import Generator

from tests.ops.tflite_builder import Operator, Tensor, build_model
from tinyc.ir.graph import NUMPY_DTYPE, Array, Shape

CHANNELS = (1, 2, 3, 7, 9, 16)
LIMITS = {"s8": (-128, 127), "s16": (-32768, 32767)}
INTEGERS = ("s8", "s8", "s8", "s16")  # what to draw a dtype from
REALS = ("s8", "s8", "s16", "f32")
S8_F32 = ("s8", "s8", "f32")


@dataclass(frozen=True)
class Layer:
    """One operator with its tensors; those without data and not among the outputs are inputs. runs: how many in a row.

    low, high: of the real inputs.
    """

    operator: Operator
    tensors: tuple[Tensor, ...]
    runs: int = 1
    low: float = -3.0
    high: float = 3.0
    before: tuple[Operator, ...] = field(default=())  # operators in front of it
    after: tuple[Operator, ...] = field(default=())

    @property
    def inputs(self) -> list[Tensor]:
        operators = (*self.before, self.operator, *self.after)
        written = {name for operator in operators for name in operator.outputs}
        read = {name for operator in operators for name in operator.inputs}
        return [
            t for t in self.tensors if t.data is None and not t.variable and t.name not in written and t.name in read
        ]

    def model(self, operator: Operator | None = None) -> bytes:
        """The file, perhaps with another operator in the place of its own."""
        operators = [*self.before, operator or self.operator, *self.after]
        read = {name for other in operators for name in other.inputs}
        outputs = [name for other in operators for name in other.outputs if name not in read]
        return build_model(self.tensors, operators, [t.name for t in self.inputs], outputs)

    def feeds(self, r: Generator) -> dict[str, Array]:
        """Inputs: over the whole range with many at its ends, or all at one end."""
        return {t.name: self._feed(r, t) for t in self.inputs}

    def _feed(self, r: Generator, tensor: Tensor) -> Array:
        if tensor.dtype == "f32":
            return r.uniform(self.low, self.high, tensor.shape).astype(np.float32)
        if tensor.dtype == "bool":
            return r.integers(0, 2, tensor.shape).astype(np.bool_)
        if tensor.dtype == "s32":
            return r.integers(0, 2, tensor.shape).astype(np.int32)
        low, high = LIMITS[tensor.dtype]
        how = r.random()
        if how < 0.1:
            return np.full(tensor.shape, pick(r, low, high), NUMPY_DTYPE[tensor.dtype])
        x = r.integers(low, high + 1, tensor.shape)
        ends = r.choice((low, high, low + 1, high - 1), tensor.shape)
        return np.where(r.random(tensor.shape) < (0.8 if how < 0.25 else 0.2), ends, x).astype(
            NUMPY_DTYPE[tensor.dtype]
        )


def pick(r: Generator, *choices: Any) -> Any:
    return choices[int(r.integers(len(choices)))]


def ints(r: Generator, low: int, high: int, count: int) -> list[int]:
    return [int(n) for n in r.integers(low, high + 1, count)]


def shape_of(r: Generator, least: int = 1, most: int = 4) -> Shape:
    return tuple(int(n) for n in r.integers(1, 6, int(r.integers(least, most + 1))))


def image(r: Generator, channels: int | None = None) -> Shape:
    return (1, *(int(n) for n in r.choice((1, 2, 3, 4, 5, 7, 8), 2)), channels or pick(r, *CHANNELS))


def scale_near(r: Generator, about: float) -> float:
    """A scale: any near `about`, a power of two, or the next float32 below or above one."""
    power = np.float32(2.0 ** round(math.log2(about)))
    near = (np.nextafter(power, np.float32(0)), power, np.nextafter(power, np.float32(1e9)))
    return float(pick(r, *near)) if r.random() < 0.35 else float(np.float32(about * 2 ** r.uniform(-1, 1)))


def act(
    r: Generator, name: str, shape: Sequence[int], dtype: str, about: float | None = None, zero: int | None = None
) -> Tensor:
    """An activation with one scale, often an edge; zero points at the ends of the range every other time."""
    if dtype not in LIMITS:
        return Tensor(name, tuple(shape), dtype)
    low, high = LIMITS[dtype]
    about = about or (0.05 if dtype == "s8" else 0.05 / 256)
    if zero is None:
        zero = 0 if dtype == "s16" else pick(r, low, high, 0, *ints(r, low, high, 2))
    return Tensor(name, tuple(shape), dtype, (scale_near(r, about),), (zero,))


def output(r: Generator, like: Tensor, shape: Sequence[int], name: str = "y", spread: float = 12) -> Tensor:
    """An activation whose scale is up to 2^(spread / 2) times larger or smaller than that of `like`; often near it."""
    if not like.scale:
        return Tensor(name, tuple(shape), like.dtype)
    how = pick(r, "same", "near", "near", "far")
    if how == "same":
        return Tensor(name, tuple(shape), like.dtype, like.scale, like.zero)
    apart = r.uniform(-1, 1) * (spread / 2 if how == "far" else 1)
    return act(r, name, shape, like.dtype, like.scale[0] * 2**apart)


def same(like: Tensor, shape: Sequence[int], name: str = "y") -> Tensor:
    return replace(like, name=name, shape=tuple(shape), data=None)


def numbers(name: str, values: Any, dtype: type = np.int32) -> Tensor:
    data = np.array(values, dtype)
    return Tensor(name, data.shape, "s32" if dtype is np.int32 else "s64", data=data)


def constant(r: Generator, like: Tensor) -> Tensor:
    """The tensor as a constant."""
    if like.dtype == "f32":
        return replace(like, data=r.uniform(-3, 3, like.shape).astype(np.float32))
    low, high = LIMITS[like.dtype]
    return replace(like, data=r.integers(low, high + 1, like.shape).astype(NUMPY_DTYPE[like.dtype]))


def fused(r: Generator) -> dict[str, int]:
    return {"FusedActivationFunction": pick(r, 0, 0, 1, 2, 3)}


def pair(r: Generator, dtype: str, broadcasts: bool = True) -> tuple[Tensor, Tensor, Shape]:
    shape = shape_of(r, 1, 4)
    other = tuple(1 if r.random() < 0.3 else n for n in shape) if broadcasts and r.random() < 0.5 else shape
    if broadcasts and r.random() < 0.15:
        other = other[int(r.integers(0, len(other))) :]
    a, b = act(r, "a", shape, dtype), act(r, "b", other, dtype)
    if a.scale and r.random() < 0.3:
        b = act(r, "b", other, dtype, a.scale[0] * 2 ** r.uniform(-7, 7))
    if r.random() < 0.25:
        b = constant(r, b)
    return (b, a, shape) if r.random() < 0.2 and b.data is None else (a, b, shape)


def sliding(r: Generator, x: Shape, kernel: Sequence[int], dilated: bool) -> tuple[dict[str, int], Shape]:
    """(options, rows and columns of the output)."""
    stride = ints(r, 1, 3, 2) if r.random() < 0.8 else ints(r, 1, 6, 2)
    dilation = ints(r, 1, 3, 2) if dilated and r.random() < 0.4 else [1, 1]
    if max(dilation) > 1 and r.random() < 0.7:
        stride = [1, 1]
    is_same = r.random() < 0.6
    size = []
    for n, k, s, d in zip(x[1:3], kernel, stride, dilation, strict=True):
        size.append(-(-n // s) if is_same else (n - (k - 1) * d - 1) // s + 1)
    options = {"StrideH": stride[0], "StrideW": stride[1], "Padding": 0 if is_same else 1}
    if dilated:
        options |= {"DilationHFactor": dilation[0], "DilationWFactor": dilation[1]}
    return options, tuple(max(n, 1) for n in size)


def kernel_of(r: Generator, x: Shape) -> list[int]:
    """At times larger than the image."""
    most = [5, 5] if r.random() < 0.3 else [min(5, n) for n in x[1:3]]
    return [int(r.integers(1, m + 1)) for m in most]
