# SPDX-License-Identifier: Apache-2.0
"""The fixed-point Fourier transform that TensorFlow Lite Micro and the micro front end take from kissfft, on many
lines.

Numbers are Q15 in int16, or Q31 in int32. Sums wrap. Every product is rounded once, v -> (v + 2^(Q-1)) >> Q, and values
are divided by the radix before they are combined, by a product with floor((2^Q - 1) / radix): so a transform of n
points is scaled by about 1/n, and a quarter is a little less than one. The order of the steps is part of the result.

Decimation in time: n = p m, the p interleaved parts are transformed, and then combined; p is 4 as long as 4 divides
n, then 2. A real transform of n points is a complex one of n/2 on even and odd samples as real and imaginary parts,
and a split.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import cache

import numpy as np

from tinyc.base.dataclass import dataclass
from tinyc.base.errors import TinycError
from tinyc.ir.graph import Array, DType
from tinyc.ops.signals import of_lines

_MOST = 1 << 14  # samples


@dataclass(frozen=True, slots=True)
class Fourier:
    """The transform of `length` real samples, a power of two, or back."""

    length: int
    dtype: DType
    inverse: bool = False

    @property
    def half(self) -> int:
        return self.length // 2

    @property
    def one(self) -> int:
        return (1 << self.fraction) - 1

    @property
    def fraction(self) -> int:
        """Bits of the fraction, Q."""
        return 15 if self.dtype == "s16" else 31

    @property
    def radixes(self) -> tuple[int, ...]:
        """Of the steps, in the order in which they run."""
        factors, n = [], self.half
        while n > 1:
            factors.append(4 if n % 4 == 0 else 2)
            n //= factors[-1]
        return tuple(reversed(factors))

    def twiddles(self) -> tuple[Array, Array]:
        """(cosines, sines) of k / half turns, k < half; turned backwards unless inverse."""
        return self._circle([2 * math.pi * k / self.half for k in range(self.half)])

    def split_twiddles(self) -> tuple[Array, Array]:
        """Those that part the spectra of even and odd samples, k = 1 .. half / 2."""
        return self._circle([math.pi * ((k + 1) / self.half + 0.5) for k in range(self.half // 2)])

    def steps(self) -> Array:
        """[.., 2]: cosines and sines in the order in which radix-4 steps use them: for each step but the first, of m
        points, for k = 1 .. m - 1 those by which points k of the parts 1, 2 and 3 are turned."""
        table, m, parts = np.stack(self.twiddles(), axis=-1), self.radixes[0], [np.zeros((0, 2), np.int16)]
        for radix in self.radixes[1:]:
            turns = np.arange(1, m)[:, None] * np.arange(1, radix) * (self.half // (m * radix))
            parts.append(table[turns.reshape(-1)])
            m *= radix
        return np.concatenate(parts)

    def vector_steps(self) -> Array:
        """[.., 3, 4, 2]: the same for four points at a time, with k = 0: of each step but the first, for every four k
        those of part 1, of part 2 and of part 3. A step of 2 points has k = 0, 1 twice."""
        table, m, parts = np.stack(self.twiddles(), axis=-1), self.radixes[0], []
        for _ in self.radixes[1:]:
            k = (np.arange(max(m, 4)) % m).reshape(-1, 1, 4)
            parts.append(table[k * np.arange(1, 4)[:, None] * (self.half // (4 * m))])
            m *= 4
        return np.concatenate(parts)

    def _circle(self, phases: Sequence[float]) -> tuple[Array, Array]:
        sign = 1 if self.inverse else -1
        kind = np.int16 if self.dtype == "s16" else np.int32
        return (
            np.array([math.floor(0.5 + self.one * math.cos(sign * p)) for p in phases], kind),
            np.array([math.floor(0.5 + self.one * math.sin(sign * p)) for p in phases], kind),
        )

    def order(self) -> tuple[int, ...]:
        """Which point of the input each butterfly of the first step begins with; the others follow at equal
        distances."""
        starts, step = [0], 1
        for radix in reversed(self.radixes[1:]):
            starts = [start + step * q for start in starts for q in range(radix)]
            step *= radix
        return tuple(starts)


def check_length(length: int) -> None:
    """Raise TinycError unless transforms of so many samples are computed."""
    if not 4 <= length <= _MOST or length & (length - 1):
        raise TinycError(f"a Fourier transform of {length} samples; the length is a power of two from 4 to {_MOST}")


@dataclass(frozen=True, slots=True)
class _Arithmetic:
    """Of int16 or int32 arrays; products in the next wider type."""

    narrow: type
    wide: type
    bits: int

    def shifted(self, v: Array) -> Array:
        """Wide numbers without their fraction, rounded; v is overwritten."""
        v += self.wide(1 << (self.bits - 1))
        v >>= self.wide(self.bits)
        return v

    def share(self, v: Array, divisor: int) -> Array:
        """v / divisor, nearly, as wide numbers."""
        w: Array = v.astype(self.wide)
        w *= self.wide(((1 << self.bits) - 1) // divisor)
        return self.shifted(w)

    def over(self, v: Array, divisor: int) -> Array:
        return self.share(v, divisor).astype(self.narrow)

    def product(self, ar: Array, ai: Array, br: Array, bi: Array) -> tuple[Array, Array]:
        ar, ai, br, bi = (v.astype(self.wide, copy=False) for v in (ar, ai, br, bi))
        re: Array = ar * br
        im: Array = ar * bi
        re -= ai * bi
        im += ai * br
        return self.shifted(re).astype(self.narrow), self.shifted(im).astype(self.narrow)


def _arithmetic(f: Fourier) -> _Arithmetic:
    return _Arithmetic(np.int16, np.int32, 15) if f.dtype == "s16" else _Arithmetic(np.int32, np.int64, 31)


@cache
def _tables(f: Fourier) -> tuple[tuple[Array, Array], tuple[Array, Array]]:
    return f.twiddles(), f.split_twiddles()


def _complex(f: Fourier, re: Array, im: Array) -> tuple[Array, Array]:
    """[half, lines] each -> the same, transformed."""
    a, (cosines, sines) = _arithmetic(f), _tables(f)[0]
    lines, m = re.shape[1], 1
    for radix in f.radixes:
        rest = f.half // (m * radix)
        shape = (m, radix, rest, lines)
        parts = [(a.over(re.reshape(shape)[:, 0], radix), a.over(im.reshape(shape)[:, 0], radix))]
        for q in range(1, radix):
            part = a.share(re.reshape(shape)[:, q], radix), a.share(im.reshape(shape)[:, q], radix)
            at = (q * rest * np.arange(m)) % f.half
            parts.append(a.product(*part, cosines[at][:, None, None], sines[at][:, None, None]))
        combined = _four(parts, f.inverse) if radix == 4 else _two(parts)
        re, im = (np.stack([part[k] for part in combined]).reshape(f.half, lines) for k in (0, 1))
        m *= radix
    return re, im


def _two(parts: list[tuple[Array, Array]]) -> list[tuple[Array, Array]]:
    (ar, ai), (br, bi) = parts
    return [(ar + br, ai + bi), (ar - br, ai - bi)]


def _four(parts: list[tuple[Array, Array]], inverse: bool) -> list[tuple[Array, Array]]:
    (zr, zi), (ar, ai), (br, bi), (cr, ci) = parts
    sr, si, dr, di = zr + br, zi + bi, zr - br, zi - bi
    ur, ui, vr, vi = ar + cr, ai + ci, ar - cr, ai - ci
    before, behind = (dr + vi, di - vr), (dr - vi, di + vr)
    first, third = (behind, before) if inverse else (before, behind)
    return [(sr + ur, si + ui), first, (sr - ur, si - ui), third]


def forward(f: Fourier, x: Array) -> Array:
    """[.., n] with n <= length, zeros behind -> [.., length + 2]: real and imaginary parts of the bins in turn."""
    return of_lines(lambda lines: _forward(f, lines))(x)


def _forward(f: Fourier, x: Array) -> Array:
    a, h = _arithmetic(f), f.half
    padded: Array = np.zeros((f.length, x.shape[1]), a.narrow)
    padded[: len(x)] = x
    zr, zi = _complex(f, padded[0::2], padded[1::2])
    y: Array = np.zeros((f.length + 2, x.shape[1]), a.narrow)
    first, last = a.over(zr[0], 2), a.over(zi[0], 2)
    y[0], y[2 * h] = first + last, first - last
    k = np.arange(1, h // 2 + 1)
    pr, pi, nr, ni = (a.over(v, 2) for v in (zr[k], zi[k], zr[h - k], -zi[h - k]))
    turned = a.product(pr - nr, pi - ni, *(table[:, None] for table in _tables(f)[1]))
    sr, si, tr, ti = ((v).astype(np.int32) for v in (pr + nr, pi + ni, *turned))
    y[2 * k], y[2 * k + 1] = (sr + tr) >> 1, (si + ti) >> 1
    y[2 * (h - k)], y[2 * (h - k) + 1] = (sr - tr) >> 1, (ti - si) >> 1  # the middle bin is written twice
    return y


def backward(f: Fourier, x: Array) -> Array:
    """[.., length + 2] -> [.., length]."""
    return of_lines(lambda lines: _backward(f, lines))(x)


def _backward(f: Fourier, x: Array) -> Array:
    a, h = _arithmetic(f), f.half
    xr, xi = x[0::2], x[1::2]
    zr: Array = np.zeros((h, x.shape[1]), a.narrow)
    zi: Array = np.zeros_like(zr)
    zr[0], zi[0] = a.over(xr[0] + xr[h], 2), a.over(xr[0] - xr[h], 2)
    k = np.arange(1, h // 2 + 1)
    pr, pi, nr, ni = (a.over(v, 2) for v in (xr[k], xi[k], xr[h - k], -xi[h - k]))
    er, ei = pr + nr, pi + ni
    wr, wi = a.product(pr - nr, pi - ni, *(table[:, None] for table in _tables(f)[1]))
    zr[k], zi[k] = er + wr, ei + wi
    zr[h - k], zi[h - k] = er - wr, -(ei - wi)
    yr, yi = _complex(f, zr, zi)
    y: Array = np.empty((f.length, x.shape[1]), a.narrow)
    y[0::2], y[1::2] = yr, yi
    return y
