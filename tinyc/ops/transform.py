# SPDX-License-Identifier: Apache-2.0
"""The Fourier transform of the spectrum operators: real samples, 32 bits, every product rounded once.

Where nobody's integers have to be equalled (`fourier.py` has kissfft's), numbers are int32 and twiddles have 30 bits of
fraction, so that an upper half of a product, one instruction of many cores, is a quarter of it. A real transform of n
points is a complex one of n/2 on even and odd samples as real and imaginary parts, and a split, which halves.

The complex one is decimation in time, for n/2 of any factors up to 13. The first step, of radix 4, 2 or an odd prime,
sums only; all others, of radix 4 and then of odd primes p, divide by their radix. Odd ones pair the parts j and p - j,
as their sums need cosines and their differences sines alone. Points come in the order in which parts of parts lie:
those of radix 4 as 0, 2, 1, 3, so that powers of two have bit-reversed order.

No number leaves int32 while the samples stay within `Transform.most`: with complex moduli at most M = sqrt(2) most
before the first step, they are at most radix M <= 2^29.5 behind it and behind every other one, and sums of two in the
split below 2^31. Sums of two parts of p, p >= 3, are at most 2/3 of 2^29.5 and are shifted up by two bits, to have
products with cosines of 30 bits whole: 2^30.95. What all roundings together change is at most `Transform.worst`, and
about one count of the result (root mean square).
"""

from __future__ import annotations

import math
from functools import cache

import numpy as np

from tinyc.base.dataclass import dataclass
from tinyc.base.errors import TinycError
from tinyc.base.unbuffered import unbuffered
from tinyc.ir.graph import Array
from tinyc.kernel.counted import Units
from tinyc.kernel.kernel import Const

ONE = 1 << 30  # of twiddles
LENGTHS = (32, 8192)  # samples of a transform
MOST_FACTOR = 13  # of the number of complex points
Fields = dict[str, int | float | str | Const]
_HALF = np.int64(1 << 31)
_PLACES = (0, 2, 1, 3)  # of the parts of radix 4


@dataclass(frozen=True, slots=True)
class Transform:
    """Of `length` real samples. The result is radix / length of the transform."""

    length: int

    @property
    def half(self) -> int:
        """Complex points."""
        return self.length // 2

    @property
    def radixes(self) -> tuple[int, ...]:
        """Of all steps."""
        twos = (self.half & -self.half).bit_length() - 1
        return (*(2,) * (twos % 2), *(4,) * (twos // 2), *_odd_factors(self.half >> twos))

    @property
    def radix(self) -> int:
        """Of the first step."""
        return self.radixes[0]

    @property
    def is_power_of_two(self) -> bool:
        return self.length & (self.length - 1) == 0

    @property
    def most(self) -> int:
        """How large a sample may be at most."""
        return (1 << 29) // self.radix

    @property
    def worst(self) -> float:
        """What a bin is off by at most, in counts, as a modulus.

        A first step of radix 2 or 4 is exact. Every other step adds up the errors before it of its parts, each over
        the radix, and its own. Of parts: half a count in each coordinate of the first and one (two products, each
        rounded) in those of turned ones; and of the twiddles, which are off by at most sqrt(2) 2^-31 of a point, an
        eighth for points of at most 2^29.5; a quarter is exact. Of sums and differences of two parts, of odd radix:
        half a count in each coordinate of every product, and of the cosine, off by 2^-31 of at most 2/p 2^29.5. The
        split adds two quarters of two errors each, half a count and one, and a quarter for sums of two such points.
        """
        root = math.sqrt(2)
        parts = sum(root / 2 + (radix - 1) * root + (radix - (radix == 4)) / 8 for _, radix in self.steps())
        paired = sum((p - 1) * (root / 2 + root / (2 * p)) for p in self.radixes if p % 2)
        return parts + paired + root / 2 + root + 1 / 4

    def order(self) -> Array:
        """[half]: the place of each point of the input."""
        points, places, size = np.arange(self.half), np.zeros(self.half, np.int64), self.half
        for radix in reversed(self.radixes):
            size //= radix
            part = points % radix
            places += size * (np.array(_PLACES)[part] if radix == 4 else part)
            points //= radix
        return places

    def turns(self, m: int, radix: int = 4) -> Array:
        """int32 [m, radix - 1, 2]: cosines and sines of the turns of points k of parts 1, 2 .. of m points, over the
        radix: in 1 / 2^32."""
        phases = -2 * np.pi * np.arange(m)[:, None] * np.arange(1, radix) / (radix * m)
        return _circle(phases, share(radix))

    def steps(self) -> tuple[tuple[int, int], ...]:
        """(points of the parts that a step combines, its radix), of each but the first."""
        radixes, m = [], self.radix
        for radix in self.radixes[1:]:
            radixes.append((m, radix))
            m *= radix
        return tuple(radixes)

    def twiddles(self) -> Array:
        """int32 [.., 2]: those of all steps but the first, without the turns by 0."""
        return np.concatenate([self.turns(m, radix)[1:].reshape(-1, 2) for m, radix in self.steps()])

    def vector_twiddles(self) -> Array:
        """int32 [.., 3, 2, 4]: of all radix-4 steps but the first those of four points after each other, with the turns
        by 0; of two points twice."""
        parts = []
        for m, _ in self.steps():
            turns = np.concatenate([self.turns(m)] * (2 if m == 2 else 1))
            parts.append(turns.reshape(-1, 4, 3, 2).transpose(0, 2, 3, 1))
        return np.concatenate(parts)

    def macs(self) -> int:
        """Products, two of them as one."""
        return self.half * (2 + sum(radix - 1 if radix == 4 else 2 * radix - 2 for _, radix in self.steps()))

    def units(self, frames: int = 1) -> Units:
        """What so many transforms repeat: points, those of steps of radix 4 but the first, those of steps of odd radix,
        and what these turn."""
        points, odd = frames * self.half, [radix for radix in self.radixes if radix % 2]
        return {
            "point": points,
            "four": points * sum(radix == 4 for _, radix in self.steps()),
            "odd": points * len(odd),
            "turn": points * sum(radix - 1 for radix in odd),
        }

    def roots(self) -> Array:
        """int32 [.., 2]: those of all steps of odd radix."""
        return np.concatenate([np.zeros((0, 2), np.int32), *(roots_of_unity(p) for p in self.radixes if p % 2)])

    def split(self) -> Array:
        """int32 [half / 2, 2]: -i times a turn by k / length, k = 1 .. half / 2."""
        return _circle(-2 * np.pi * np.arange(1, self.half // 2 + 1) / self.length - np.pi / 2)


def _odd_factors(n: int) -> list[int]:
    factors, p = [], 3
    while n > 1:
        while n % p == 0:
            factors.append(p)
            n //= p
        p += 2
    return factors


def _circle(phases: Array, one: float = ONE) -> Array:
    return np.round(one * np.stack([np.cos(phases), np.sin(phases)], axis=-1)).astype(np.int32)


def share(radix: int) -> int:
    """A part of that many, in 1 / 2^32: for radix 4 and more it is the largest factor, below 2^31."""
    return round((1 << 32) / radix)


def roots_of_unity(p: int) -> Array:
    """int32 [p, 2]: cosines and sines of turns by k / p; in place of the turn by 0 the share of a part, and 0."""
    roots = _circle(2 * np.pi * np.arange(p) / p)
    roots[0] = share(p), 0
    return roots


def is_transformed(length: int) -> bool:
    """Whether transforms of so many samples are computed."""
    return LENGTHS[0] <= length <= LENGTHS[1] and not length % 2 and not _rest(length)


def _rest(n: int) -> int:
    """What remains of n without its factors up to MOST_FACTOR; 0: nothing."""
    for p in (2, *range(3, MOST_FACTOR + 1, 2)):
        while n % p == 0:
            n //= p
    return n if n > 1 else 0


def check_transform(length: int) -> None:
    """Raise TinycError unless transforms of so many samples are computed."""
    if not is_transformed(length):
        least, most = LENGTHS
        near = [n for n in range(length, min(length + 200, most + 1)) if is_transformed(n)]
        raise TinycError(
            f"a transform of {length} samples; the length is even, from {least} to {most}, and has no prime factor "
            f"above {MOST_FACTOR}",
            hint=f"a transform of {near[0]} samples is possible, with zeros behind the window" if near else "",
        )


def upper(a: Array, b: Array) -> Array:
    """a * b / 2^32, rounded; int64 arrays that hold int32."""
    product: Array = a * b
    product += _HALF
    product >>= 32
    return product


def _scale(a: Array, b: Array) -> None:
    """The same in the place of a."""
    a *= b
    a += _HALF
    a >>= 32


def _turn(z: Array, turns: Array) -> None:
    """Turns points [2, ..] where they lie by turns [2, ..]: two products in each sum, each rounded."""
    c, s = turns
    other = z * s
    np.subtract(_HALF, other[1], out=other[1])
    other[0] += _HALF
    other >>= 32
    _scale(z, c)
    z += other[::-1]


@cache
def _tables(t: Transform) -> tuple[list[Array], Array]:
    """(turns of each step [2, m, parts without the first, 1, 1], split [2, half / 2, 1]) in int64."""
    steps = [np.moveaxis(t.turns(m, radix), 2, 0).astype(np.int64)[..., None, None] for m, radix in t.steps()]
    return [np.ascontiguousarray(turns) for turns in steps], t.split().T.astype(np.int64)[..., None]


def transformed(t: Transform, x: Array) -> Array:
    """int32 [lines, length] -> int32 [lines, length + 2]: the bins, real and imaginary parts in turn."""
    z = spectrum_of(t, np.ascontiguousarray(x.reshape(-1, t.half, 2).transpose(2, 1, 0)).astype(np.int64))
    return np.ascontiguousarray(z.transpose(2, 1, 0)).reshape(len(x), -1).astype(np.int32)


@unbuffered
def spectrum_of(t: Transform, z: Array) -> Array:
    """int64 [2, half, lines], real and imaginary parts of points -> int64 [2, half + 1, lines].

    Where C puts points in order first, the parts of a step lie one behind the other here: [2, m, radix, rest, lines],
    of which m points of the parts are transformed. So the loops of NumPy are long.
    """
    lines = z.shape[-1]
    z = _combined(z.reshape(2, 1, t.radix, -1, lines), t.radix)
    for (m, radix), turns in zip(t.steps(), _tables(t)[0], strict=True):
        z = z.reshape(2, m, radix, -1, lines)
        _scale(z[:, :, 0], np.array(share(radix)))
        _turn(z[:, :, 1:], turns)
        z = _combined(z, radix)
    return _split(t, z.reshape(2, t.half, lines))


def _combined(z: Array, radix: int) -> Array:
    """Parts [2, m, radix, rest, lines] -> their points [2, radix, m, rest, lines]."""
    y: Array = np.empty((2, radix, z.shape[1], *z.shape[3:]), np.int64)
    if radix == 4:
        _four(z, y)
    elif radix == 2:
        np.add(z[:, :, 0], z[:, :, 1], out=y[:, 0])
        np.subtract(z[:, :, 0], z[:, :, 1], out=y[:, 1])
    else:
        _odd(z, y, radix)
    return y


def _four(z: Array, y: Array) -> None:
    a, b, c, d = (z[:, :, place] for place in range(4))
    e, f, g, h = a + c, a - c, b + d, b - d
    np.add(e, g, out=y[:, 0])
    np.subtract(e, g, out=y[:, 2])
    _aside(f, h, y[:, 1], y[:, 3])


def _aside(f: Array, h: Array, first: Array, second: Array) -> None:
    """f - i h and f + i h."""
    np.add(f[0], h[1], out=first[0])
    np.subtract(f[1], h[0], out=first[1])
    np.subtract(f[0], h[1], out=second[0])
    np.add(f[1], h[0], out=second[1])


def _odd(z: Array, y: Array, p: int) -> None:
    cosines, sines = roots_of_unity(p).T.astype(np.int64)
    pairs = [(z[:, :, j] + z[:, :, p - j], z[:, :, j] - z[:, :, p - j]) for j in range(1, (p + 1) // 2)]
    y[:, 0] = z[:, :, 0] + sum(both for both, _ in pairs)
    up = [(both << 2, apart << 2) for both, apart in pairs]
    for k in range(1, (p + 1) // 2):
        even, odd = z[:, :, 0].copy(), np.zeros_like(z[:, :, 0])
        for j, (both, apart) in enumerate(up, 1):
            even += upper(both, cosines[j * k % p])
            odd += upper(apart, sines[j * k % p])
        _aside(even, odd, y[:, k], y[:, p - k])


def _split(t: Transform, z: Array) -> Array:
    """[2, half, lines] -> [2, half + 1, lines]."""
    h = t.half
    k = h // 2
    low, high = z[:, 1 : k + 1], z[:, : h - k - 1 : -1]
    both, turned = low + high, low - high
    both[1], turned[1] = turned[1].copy(), both[1].copy()
    both += 2
    both >>= 2
    _turn(turned, _tables(t)[1])
    y: Array = np.empty((2, h + 1, z.shape[-1]), np.int64)
    y[0, 0], y[0, h] = (z[0, 0] + z[1, 0] + 1) >> 1, (z[0, 0] - z[1, 0] + 1) >> 1
    y[1, 0] = y[1, h] = 0
    np.add(both, turned, out=y[:, 1 : k + 1])
    there = y[:, h - 1 : h - k - 1 : -1]  # the middle bin of an even half is written twice
    np.subtract(both[0], turned[0], out=there[0])
    np.subtract(turned[1], both[1], out=there[1])
    return y


def mixed_fields(t: Transform) -> Fields:
    """Of tc_mixed_t."""
    return {
        "mixed.roots": Const(t.roots(), "[..][2]", "roots"),
        "mixed.order": Const((2 * t.order()).astype(np.uint16), "[half]", "order"),
        "mixed.radixes": Const(np.array(t.radixes, np.int8), "[steps]", "radixes"),
        "mixed.steps": len(t.radixes),
    }
