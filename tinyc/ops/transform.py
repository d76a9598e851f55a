# SPDX-License-Identifier: Apache-2.0
"""The Fourier transform of the spectrum operators: real samples, 32 bits, every product rounded once.

Where nobody's integers have to be equalled (`fourier.py` has kissfft's), numbers are int32 and twiddles have 30 bits of
fraction, so that an upper half of a product, one instruction of many cores, is a quarter of it. Decimation in time:
points come in bit-reversed order; the first step, of radix 4, or 2 where the number of points asks for it, sums only,
all others are of radix 4 and divide by it. A real transform of n points is a complex one of n/2 on even and odd samples
as real and imaginary parts, and a split, which halves.

No number leaves int32 while the samples stay within `Transform.most`: with complex moduli at most M = sqrt(2) most
before the first step, they are at most radix M <= 2^29.5 behind it and behind every other one, and sums of two in the
split below 2^31. What all roundings together change is at most `Transform.worst`, and about one count of the result
(root mean square).
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cache

import numpy as np

from tinyc.base.errors import TinycError
from tinyc.ir.graph import Array

ONE = 1 << 30  # of twiddles
LENGTHS = (32, 8192)  # samples of a transform
_HALF = np.int64(1 << 31)


@dataclass(frozen=True, slots=True)
class Transform:
    """Of `length` real samples. The result is radix / length of the transform."""

    length: int

    @property
    def half(self) -> int:
        """Complex points."""
        return self.length // 2

    @property
    def radix(self) -> int:
        """Of the first step."""
        return 4 if (self.half.bit_length() - 1) % 2 == 0 else 2

    @property
    def most(self) -> int:
        """How large a sample may be at most."""
        return (1 << 29) // self.radix

    @property
    def worst(self) -> float:
        """What a bin is off by at most, in counts, as a modulus.

        The first step is exact. Every other one adds four quarters of the errors before it, and of its own: half a
        count in each coordinate of the quarter, one (two products, each rounded) in those of three turned points, and
        of the twiddles, which are off by at most sqrt(2) 2^-31, an eighth for points of at most 2^29.5. The split adds
        two quarters of two errors each, half a count and one, and a quarter for sums of two such points.
        """
        root = math.sqrt(2)
        return len(self.steps()) * (root / 2 + 3 * root + 3 / 8) + root / 2 + root + 1 / 4

    def order(self) -> Array:
        """[half]: the place of each point of the input, bit-reversed."""
        found = np.zeros(1, np.int64)
        while len(found) < self.half:
            found = np.concatenate([2 * found, 2 * found + 1])
        return found

    def turns(self, m: int) -> Array:
        """int32 [m, 3, 2]: cosines and sines of the turns of points k of parts 1, 2 and 3 of m points."""
        return _circle(-2 * np.pi * np.arange(m)[:, None] * np.arange(1, 4) / (4 * m))

    def steps(self) -> tuple[int, ...]:
        """Points of the parts that each step but the first combines."""
        found, m = [], self.radix
        while m < self.half:
            found.append(m)
            m *= 4
        return tuple(found)

    def twiddles(self) -> Array:
        """int32 [.., 3, 2]: those of all steps but the first, without the turns by 0."""
        return np.concatenate([self.turns(m)[1:] for m in self.steps()])

    def split(self) -> Array:
        """int32 [half / 2, 2]: -i times a turn by k / length, k = 1 .. half / 2."""
        return _circle(-2 * np.pi * np.arange(1, self.half // 2 + 1) / self.length - np.pi / 2)


def _circle(phases: Array) -> Array:
    return np.round(ONE * np.stack([np.cos(phases), np.sin(phases)], axis=-1)).astype(np.int32)


def check_transform(length: int) -> None:
    """Raise TinycError unless transforms of so many samples are computed."""
    least, most = LENGTHS
    if not least <= length <= most or length & (length - 1):
        raise TinycError(f"a transform of {length} samples; the length is a power of two from {least} to {most}")


def upper(a: Array, b: Array) -> Array:
    """a * b / 2^32, rounded; int64 arrays that hold int32."""
    product: Array = a * b
    product += _HALF
    return product >> 32


def _quarter(a: Array) -> Array:
    return (a + 2) >> 2


def _turned(re: Array, im: Array, turn: Array) -> tuple[Array, Array]:
    """A quarter of a point, turned by turn [2, ..]: two products in each sum, each rounded."""
    c, s = turn
    return upper(re, c) + ((_HALF - im * s) >> 32), upper(re, s) + upper(im, c)


@cache
def _tables(t: Transform) -> tuple[Array, list[Array], Array]:
    """(places, turns of each step [2, 3, m], split [2, half / 2]) in int64."""
    steps = [np.moveaxis(t.turns(m), (2, 1), (0, 1)).astype(np.int64) for m in t.steps()]
    return t.order(), steps, t.split().T.astype(np.int64)


def transformed(t: Transform, x: Array) -> Array:
    """int32 [lines, length], points in bit-reversed order -> int32 [lines, length + 2]: the bins, real and imaginary
    parts in turn."""
    z = np.ascontiguousarray(x.reshape(-1, t.half, 2).transpose(2, 1, 0)).astype(np.int64)
    re, im = _split(t, *_points(t, z[0], z[1]))
    return np.ascontiguousarray(np.stack([re, im], axis=1).reshape(t.length + 2, -1).T).astype(np.int32)


def _points(t: Transform, re: Array, im: Array) -> tuple[Array, Array]:
    """[half, lines] each -> the same, transformed."""
    lines = re.shape[1]
    if t.radix == 2:
        re, im = (np.concatenate([v[:, :1] + v[:, 1:], v[:, :1] - v[:, 1:]], 1) for v in _blocks(re, im, 2, 1))
    else:
        re, im = _four([(a[:, q], b[:, q]) for a, b in [_blocks(re, im, 4, 1)] for q in (0, 2, 1, 3)])
    for m, turns in zip(t.steps(), _tables(t)[1], strict=True):
        r, i = _blocks(re, im, 4, m)
        parts = [(_quarter(r[:, 0]), _quarter(i[:, 0]))]
        for part, place in ((1, 2), (2, 1), (3, 3)):
            parts.append(_turned(r[:, place], i[:, place], turns[:, part - 1, :, None]))
        re, im = _four(parts)
    return re.reshape(t.half, lines), im.reshape(t.half, lines)


def _blocks(re: Array, im: Array, radix: int, m: int) -> tuple[Array, Array]:
    """[blocks, radix, m, lines] each."""
    shape = (-1, radix, m, re.shape[-1])
    return re.reshape(shape), im.reshape(shape)


def _four(parts: list[tuple[Array, Array]]) -> tuple[Array, Array]:
    """Parts [blocks, m, lines] -> [blocks, 4, m, lines]."""
    (ar, ai), (br, bi), (cr, ci), (dr, di) = parts
    er, ei, fr, fi = ar + cr, ai + ci, ar - cr, ai - ci
    gr, gi, hr, hi = br + dr, bi + di, br - dr, bi - di
    re = np.stack([er + gr, fr + hi, er - gr, fr - hi], axis=1)
    return re, np.stack([ei + gi, fi - hr, ei - gi, fi + hr], axis=1)


def _split(t: Transform, zr: Array, zi: Array) -> tuple[Array, Array]:
    """[half, lines] each -> [half + 1, lines] each."""
    h = t.half
    k = np.arange(1, h // 2 + 1)
    sr, si = _quarter(zr[k] + zr[h - k]), _quarter(zi[k] - zi[h - k])
    tr, ti = _turned(zr[k] - zr[h - k], zi[k] + zi[h - k], _tables(t)[2][:, :, None])
    re, im = (np.zeros((h + 1, zr.shape[1]), np.int64) for _ in range(2))
    re[0], re[h] = (zr[0] + zi[0] + 1) >> 1, (zr[0] - zi[0] + 1) >> 1
    re[k], im[k] = sr + tr, si + ti
    re[h - k], im[h - k] = sr - tr, ti - si  # the middle bin is written twice
    return re, im
