# SPDX-License-Identifier: Apache-2.0
"""motion: numbers that say how a sensor with several axes moved in a window of samples.

x int16 [n], with axes side by side, held int16 [h] (optional), the samples before them -> y int32 [axes * features], of
the `window` samples from sample `begin` of both together, in the order of the axes and for each of them of `features`.

    S = sum x,  Q = sum x^2,  z = window x - S
    mean S;  rms floor(sqrt(window Q));  std floor(sqrt(window Q - S^2));  min, max window times the least, the largest
    crossings 2^16 times how often z changes sides, where 0 counts as above

All but the last are in 1 / window of a sample's step, with an error below 1. For each of `peaks`, largest first, the
number of the bin of the spectrum of z, times 2^16, and its size: with c and s the cosines and sines in 1 / 2^15,

    re = sum(z c) / 2^shift,  im = sum(z s) / 2^shift,  size = floor(sqrt(re^2 + im^2)), at most 2^31 - 1

of bins 1 to (window - 1) / 2; of bins of one size the lower is first. shift keeps re and im in 31 bits.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from tinyc.base.errors import TinycError
from tinyc.ir.graph import Array, Value
from tinyc.kernel.kernel import Call, Const, Cost, In, Kernel, Out, Params, Scratch, Struct, offered
from tinyc.kernel.site import Site, Type
from tinyc.ops.op import Kept, Op, Trait
from tinyc.ops.signals import Ints, need, need_between, no_reals

FEATURES = ("mean", "rms", "std", "min", "max", "crossings")
COUNT_BITS = 16  # of counts and numbers of bins behind the point
MOST_WINDOW, MOST_AXES, MOST_PEAKS = 1024, 16, 8


@dataclass(frozen=True, slots=True)
class Motion:
    """features: of FEATURES, in this order. begin: in samples of all axes, counted from the first of `held`."""

    axes: int
    window: int
    features: tuple[str, ...]
    peaks: int = 0
    begin: int = 0

    @property
    def results(self) -> int:
        """Of an axis."""
        return len(self.features) + 2 * self.peaks

    @property
    def shift(self) -> int:
        """What sums of the spectrum are shifted by: 15 for the table, and what they have beyond 31 bits."""
        return 15 + max(2 * (self.window - 1).bit_length() + 16 - 30, 0)


def infer(a: Motion, x: Value, held: Value | None = None) -> Sequence[Type]:
    need(x, "the input", "s16")
    need_between("the number of axes", a.axes, 1, MOST_AXES)
    need_between("the window", a.window, 2, MOST_WINDOW)
    need_between("the number of peaks", a.peaks, 0, min(MOST_PEAKS, (a.window - 1) // 2))
    if not a.results or any(name not in FEATURES for name in a.features):
        raise TinycError(f"motion has no features {list(a.features)}; there are {', '.join(FEATURES)}, and peaks")
    before = 0
    if held is not None:
        need(held, "the samples before the input", "s16")
        before = held.elements
    need_between("begin", a.begin, 0, (before + x.elements) // a.axes - a.window)
    return [Type((a.axes * a.results,), "s32")]


def prepare(site: Site) -> Motion:
    a: Motion = site.attrs
    return Motion(a.axes, a.window, a.features, a.peaks, a.begin)


def int_ref(p: Motion, x: Array, held: Array | None = None) -> tuple[Array, ...]:
    samples = x.reshape(-1) if held is None else np.concatenate([held.reshape(-1), x.reshape(-1)])
    first = p.begin * p.axes
    return (moved(p, samples[first : first + p.window * p.axes].reshape(1, p.window, p.axes)).reshape(-1),)


def moved(p: Motion, windows: Array) -> Array:
    """int16 [n, window, axes] -> int32 [n, axes, results]."""
    x = windows.astype(np.int64).transpose(0, 2, 1)
    sums, squares = x.sum(-1), (x * x).sum(-1)
    z = p.window * x - sums[..., None]
    sides = z >= 0
    known: dict[str, Callable[[], Array]] = {
        "mean": lambda: sums,
        "rms": lambda: root(p.window * squares),
        "std": lambda: root(p.window * squares - sums * sums),
        "min": lambda: p.window * x.min(-1),
        "max": lambda: p.window * x.max(-1),
        "crossings": lambda: (sides[..., 1:] != sides[..., :-1]).sum(-1) << COUNT_BITS,
    }
    found = [known[name]() for name in p.features]
    return np.stack([*found, *(_peaks(p, z) if p.peaks else ())], axis=-1).astype(np.int32)


def root(v: Array) -> Ints:
    """The whole part of the square root of integers below 2^62."""
    y = np.sqrt(v.astype(np.float64)).astype(np.int64)
    y -= y * y > v
    return np.asarray(y + ((y + 1) * (y + 1) <= v))


def wave(window: int) -> Array:
    """int16 [window]: a turn of the sine, in 1 / 2^15."""
    return np.minimum(np.round(np.sin(2 * np.pi * np.arange(window) / window) * 32768), 32767).astype(np.int16)


def cosine(window: int) -> Array:
    """int16 [window]: a turn of the cosine."""
    return np.minimum(np.round(np.cos(2 * np.pi * np.arange(window) / window) * 32768), 32767).astype(np.int16)


def _peaks(p: Motion, z: Array) -> list[Array]:
    bins = np.arange(1, (p.window - 1) // 2 + 1)
    turn = np.outer(np.arange(p.window), bins) % p.window
    re, im = (z @ table(p.window).astype(np.int64)[turn] >> p.shift for table in (cosine, wave))
    size = np.minimum(root(re * re + im * im), 2**31 - 1)
    order = np.argsort(-size, axis=-1, kind="stable")[..., : p.peaks]
    found = []
    for k in range(p.peaks):
        found += [(order[..., k] + 1) << COUNT_BITS, np.take_along_axis(size, order[..., k : k + 1], -1)[..., 0]]
    return found


def lower(site: Site, p: Motion) -> Call:
    held = site.x(1).elements if site.has(1) else 0
    turns = {"cosine": cosine, "sine": wave}
    tables = {name: Const(make(p.window), "[window]", name) if p.peaks else 0 for name, make in turns.items()}
    fields: dict[str, int | float | str | Const] = {
        "features": Const(np.array([FEATURES.index(name) for name in p.features], np.int8), "[n]", "features"),
        **tables,
        "n": len(p.features),
        "axes": p.axes,
        "window": p.window,
        "begin": p.begin * p.axes,
        "held": held,
        "peaks": p.peaks,
        "shift": p.shift,
    }
    return Call((Params(), In(0), In(1) if held else 0, Scratch(), Out()), Struct("tc_motion_s16_t", fields))


def cost(site: Site, p: Motion) -> Cost:
    bins = (p.window - 1) // 2 if p.peaks else 0
    work = 30 * p.window + 12 * p.window * bins + 300 * bins + 400 * p.results
    return Cost(p.axes * work, (4 * p.window if p.peaks else 0) + 900, scratch(site, p))


def scratch(site: Site, p: Motion) -> int:
    """A word for each sample of the window."""
    return 4 * p.window


def macs(site: Site) -> int:
    p = site.attrs
    return math.prod((p.axes, p.window, 2, (p.window - 1) // 2)) if p.peaks else 0


OP = Op(
    name="motion",
    attrs=Motion,
    infer=infer,
    float_ref=no_reals,
    prepare=prepare,
    int_ref=int_ref,
    quant_in=(Kept(),),
    quant_out=(Kept(),),
    kernels=(Kernel("tc_motion_s16", offered(lower, scratch=scratch, cost=cost)),),
    macs=macs,
    traits=frozenset({Trait.ANY_TYPE}),
)
