# SPDX-License-Identifier: Apache-2.0
"""motion: numbers that say how a sensor with several axes moved in a window of samples.

x int16 [n], with axes side by side, held int16 [h] (optional), the samples before them -> y int32 [axes * features], of
the `window` samples from sample `begin` of both together, in the order of the axes and for each of them of `features`.

    S = sum x,  Q = sum x^2,  z = window x - S
    mean S;  rms floor(sqrt(window Q));  std floor(sqrt(window Q - S^2));  min, max window times the least, the largest
    crossings 2^16 times how often z changes sides, where 0 counts as above

All but the last are in 1 / window of a sample's step, with an error below 1. For each of `peaks`, largest first, the
number of the bin of the spectrum of z, times 2^16, and its size, floor(sqrt(re^2 + im^2)), at most 2^31 - 1, of bins 1
to (window - 1) / 2; of bins of one size (squared) the lower is first. Where `transform.py` transforms windows so long,
re and im are what it makes of z * 2^up, as large as it may be; elsewhere, with cosines c and sines s in 1 / 2^15,

    re = sum(z c) / 2^shift,  im = sum(z s) / 2^shift

where shift keeps re and im in 31 bits. Either way a size is `1 / size_unit` of the sum.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import numpy as np

from tinyc.base.dataclass import dataclass
from tinyc.base.errors import TinycError
from tinyc.ir.graph import Array, Value
from tinyc.kernel.counted import CountedCost, Units
from tinyc.kernel.kernel import Call, Const, In, Kernel, Out, Params, Scratch, Struct, offered
from tinyc.kernel.site import Site, Type
from tinyc.ops.op import Op, Trait, Unquantized
from tinyc.ops.signals import Ints, need, need_between, no_reals
from tinyc.ops.spectrum import vector_twiddles
from tinyc.ops.transform import Fields, Transform, is_transformed, mixed_fields, spectrum_of

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

    @property
    def transform(self) -> Transform | None:
        """Of the spectrum, where there is one of that length."""
        return Transform(self.window) if self.peaks and is_transformed(self.window) else None

    @property
    def up(self) -> int:
        """What z, below window * 2^16, is shifted by for the transform."""
        return (self.transform.most // (self.window << 16)).bit_length() - 1 if self.transform else 0

    @property
    def size_unit(self) -> float:
        """What a count of a size is of sum(z c), with cosines of 1."""
        if self.transform:
            return self.window / (self.transform.radix << self.up)
        return 2.0 ** (self.shift - 15)


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
    by_name: dict[str, Callable[[], Array]] = {
        "mean": lambda: sums,
        "rms": lambda: root(p.window * squares),
        "std": lambda: root(p.window * squares - sums * sums),
        "min": lambda: p.window * x.min(-1),
        "max": lambda: p.window * x.max(-1),
        "crossings": lambda: (sides[..., 1:] != sides[..., :-1]).sum(-1) << COUNT_BITS,
    }
    columns = [by_name[name]() for name in p.features]
    return np.stack([*columns, *(_peaks(p, z) if p.peaks else ())], axis=-1).astype(np.int32)


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
    re, im = _transformed(p.transform, z << p.up) if p.transform else _sums(p, z)
    power = re * re + im * im
    order = np.argsort(-power, axis=-1, kind="stable")[..., : p.peaks]
    numbers = []
    for k in range(p.peaks):
        size = np.minimum(root(np.take_along_axis(power, order[..., k : k + 1], -1)[..., 0]), 2**31 - 1)
        numbers += [(order[..., k] + 1) << COUNT_BITS, size]
    return numbers


def _sums(p: Motion, z: Array) -> tuple[Array, Array]:
    bins = np.arange(1, (p.window - 1) // 2 + 1)
    turn = np.outer(np.arange(p.window), bins) % p.window
    cosines, sines = (table(p.window).astype(np.int64)[turn] for table in (cosine, wave))
    return z @ cosines >> p.shift, z @ sines >> p.shift


def _transformed(t: Transform, z: Array) -> tuple[Array, Array]:
    points = np.ascontiguousarray(z.reshape(-1, t.half, 2).transpose(2, 1, 0))
    re, im = spectrum_of(t, points)[:, 1 : t.half].swapaxes(1, 2).reshape(2, *z.shape[:-1], -1)
    return re, im


def lower(site: Site, p: Motion) -> Call:
    """tc_motion_s16: a sum for each bin."""
    tables = {"cosine": cosine, "sine": wave}
    fields: Fields = {name: Const(make(p.window), "[window]", name) if p.peaks else 0 for name, make in tables.items()}
    return _call(site, Struct("tc_motion_s16_t", {**_fields(site, p), **fields, "shift": p.shift}))


def lower_spectrum(site: Site, p: Motion) -> Call:
    """tc_motion_spectrum_s16: by the transform, of a power of two."""
    return _call(site, Struct("tc_motion_spectrum_s16_t", _transform_fields(site, p)))


def lower_mve(site: Site, p: Motion) -> Call:
    """tc_motion_spectrum_s16_mve: with twiddles of four points at a time."""
    assert p.transform is not None
    fields = {**_transform_fields(site, p), "transform.twiddles": vector_twiddles(p.transform)}
    return _call(site, Struct("tc_motion_spectrum_s16_mve_t", fields))


def lower_mixed(site: Site, p: Motion) -> Call:
    """tc_motion_mixed_s16: by the transform, of other lengths."""
    assert p.transform is not None
    fields = {**_transform_fields(site, p), **mixed_fields(p.transform)}
    return _call(site, Struct("tc_motion_mixed_s16_t", {n: v for n, v in fields.items() if n != "mixed.order"}))


def _call(site: Site, params: Struct) -> Call:
    return Call((Params(), In(0), In(1) if site.has(1) else 0, Scratch(), Out()), params)


def _fields(site: Site, p: Motion) -> Fields:
    numbers = np.array([FEATURES.index(name) for name in p.features], np.int8)
    return {
        "features": Const(numbers, "[n]", "features") if p.features else 0,
        "n": len(p.features),
        "axes": p.axes,
        "window": p.window,
        "begin": p.begin * p.axes,
        "held": site.x(1).elements if site.has(1) else 0,
        "peaks": p.peaks,
    }


def _transform_fields(site: Site, p: Motion) -> Fields:
    t = p.transform
    assert t is not None
    return {
        **{f"of.{name}": value for name, value in _fields(site, p).items()},
        "of.order": Const((2 * t.order()).astype(np.uint16), "[window / 2]", "order"),
        "of.up": p.up,
        "transform.twiddles": Const(t.twiddles(), "[turns][2]", "twiddles"),
        "transform.split": Const(t.split(), "[half / 2][2]", "split"),
        "transform.half": t.half,
        "transform.radix": t.radix,
    }


def is_power_of_two(site: Site) -> bool:
    """peaks of a window whose length is a power of two, from 32 on"""
    t = site.attrs.transform
    return t is not None and t.is_power_of_two


def is_mixed(site: Site) -> bool:
    """peaks of a window of another even length, with prime factors up to 13"""
    return site.attrs.transform is not None and not is_power_of_two(site)


def is_summed(site: Site) -> bool:
    """no peaks, or windows of another length"""
    return site.attrs.transform is None


def of_sums(site: Site, p: Motion) -> Units:
    """Of all axes: samples, roots, peaks, bins, and the products that these are sums of."""
    bins = (p.window - 1) // 2 if p.peaks else 0
    return {**_of_axes(p), "bin": p.axes * bins, "product": p.axes * bins * p.window}


def of_transforms(site: Site, p: Motion) -> Units:
    """Of all axes: samples, roots, peaks, and those of transforms."""
    assert p.transform is not None
    return {**_of_axes(p), **p.transform.units(p.axes)}


def _of_axes(p: Motion) -> Units:
    roots = sum(name in ("rms", "std") for name in p.features)
    return {"sample": p.axes * p.window, "root": p.axes * roots, "peak": p.axes * p.peaks}


def table_bytes(site: Site, p: Motion) -> int:
    """Of the twiddles, or of cosines and sines."""
    if p.transform:
        return 14 * p.window
    return 4 * p.window if p.peaks else 0


def scratch(site: Site, p: Motion) -> int:
    """A word for each sample of the window, and two more for a spectrum."""
    return 4 * p.window + (8 if p.transform else 0)


def macs(site: Site) -> int:
    p = site.attrs
    if p.transform:
        return int(p.axes * p.transform.macs())
    return math.prod((p.axes, p.window, 2, (p.window - 1) // 2)) if p.peaks else 0


OP = Op(
    name="motion",
    attrs=Motion,
    infer=infer,
    float_ref=no_reals,
    prepare=prepare,
    int_ref=int_ref,
    quant_in=(Unquantized(),),
    quant_out=(Unquantized(),),
    kernels=tuple(
        Kernel(
            name,
            offered(lowered, scratch=scratch, cost=CountedCost(name, units, flash=table_bytes)),
            isa=isa,
            when=(has_window,),
        )
        for name, lowered, units, isa, has_window in (
            ("tc_motion_s16", lower, of_sums, frozenset[str](), is_summed),
            ("tc_motion_spectrum_s16_mve", lower_mve, of_transforms, frozenset({"mve"}), is_power_of_two),
            ("tc_motion_spectrum_s16", lower_spectrum, of_transforms, frozenset[str](), is_power_of_two),
            ("tc_motion_mixed_s16", lower_mixed, of_transforms, frozenset[str](), is_mixed),
        )
    ),
    macs=macs,
    traits=frozenset({Trait.ANY_TYPE}),
)
