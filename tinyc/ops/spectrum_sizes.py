# SPDX-License-Identifier: Apache-2.0
"""spectrum_sizes: magnitudes or powers of the spectra of frames of lines: samples [.., N] -> [1, lines * frames, bins].

y[k] = factor * |X[k]|^power, X the transform of `length` points of window [n] * the n samples from frame * step on of a
line, zeros behind them. Samples are int16, whatever the model has else. Bins beyond the half are those of the negative
frequencies. With s the bits that a frame is shifted up by (`spectrum.py`) and m = |X|^power in counts,

    y = zero + round(floor(m * mult / 2^(32 power)) / 2^(shift + power s)), saturated
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from tinyc.base.dataclass import dataclass
from tinyc.base.errors import TinycError
from tinyc.ir.graph import INT_RANGE, NUMPY_DTYPE, Array, DType, Value
from tinyc.kernel.counted import CountedCost, Units
from tinyc.kernel.kernel import Call, Const, In, Kernel, Out, Params, Scratch, Struct, offered
from tinyc.kernel.site import Site, Type
from tinyc.ops.op import Observed, Op, Trait, Unquantized
from tinyc.ops.signal_square_root import roots
from tinyc.ops.spectrum import EMPHASIS_BITS, SpectrumParams, spectra, vector_twiddles, window_unit
from tinyc.ops.spectrum_power import powers
from tinyc.ops.transform import Fields, Transform, check_transform, mixed_fields

_AT_ONCE = 64  # frames
_MOST_SHIFT = 31
_LOW = np.uint64(0xFFFFFFFF)


@dataclass(frozen=True, slots=True)
class SpectrumSizes:
    """lines: how many there are in the samples, one after the other. power: 1 or 2. dtype: of integers."""

    lines: int
    step: int
    length: int
    bins: int
    power: int = 1
    factor: float = 1.0
    dtype: DType = "s8"


def infer(a: SpectrumSizes, x: Value, window: Value) -> Sequence[Type]:
    check_transform(a.length)
    n, each = window.elements, x.elements // max(a.lines, 1)
    fits = 0 < n <= min(a.length, each) and n % 2 == 0 and each * a.lines == x.elements and 0 < a.bins <= a.length
    if not fits or a.step < 1 or a.power not in (1, 2) or a.factor <= 0:
        raise TinycError(
            f"{a.bins} bins of transforms of {a.length} points, of frames of {n} samples every {a.step}, of {a.lines} "
            f"lines in {list(x.shape)}"
        )
    frames = a.lines * ((each - n) // a.step + 1)
    return [Type((1, frames, a.bins), "f32" if x.dtype == "f32" else a.dtype)]


def float_ref(a: SpectrumSizes, x: Array, window: Array) -> tuple[Array, ...]:
    frames = frames_of(a, x, window.size).astype(np.float64) * window.astype(np.float64)
    bins = np.abs(np.fft.rfft(frames, a.length))
    return ((a.factor * _mirrored(a, bins) ** a.power)[None].astype(np.float32),)


def frames_of(a: SpectrumSizes, x: Array, n: int) -> Array:
    """[lines * frames, n]."""
    lines = x.reshape(a.lines, -1)
    windows = np.lib.stride_tricks.sliding_window_view(lines, n, axis=1)[:, :: a.step]
    return np.asarray(windows.reshape(-1, n))


def _mirrored(a: SpectrumSizes, half: Array) -> Array:
    """[.., length / 2 + 1] -> [.., bins]."""
    k = np.arange(a.bins)
    return half[..., np.minimum(k, a.length - k)]


@dataclass(frozen=True, slots=True)
class SpectrumSizesParams:
    of: SpectrumSizes
    window: Array
    mult: int
    shift: int
    zero: int
    dtype: DType


def prepare(site: Site) -> SpectrumSizesParams:
    """TinycError for a window that is computed or 0, and for outputs of a scale far below that of the samples."""
    a, where = site.attrs, site.node.where
    if not site.is_const(1) or not site.const(1).any():
        raise TinycError("the window of magnitudes has to be a constant, and not all 0", where)
    window = site.const(1).reshape(-1).astype(np.float64)
    largest, unit = np.abs(window).max(), window_unit(a.length)
    (x_scale, _), (y_scale, zero) = site.scale_zero(site.x()), site.scale_zero(site.y())
    count = x_scale * largest * a.length * 2.0**-EMPHASIS_BITS
    fraction, up = math.frexp(a.factor * count**a.power / y_scale)
    mult, shift = min(round(fraction * 2**31), 2**31 - 1), 31 - up - 32 * a.power
    if shift < 1:
        raise TinycError(
            f"magnitudes of a scale of {y_scale:g} of samples of a scale of {x_scale:g}",
            where,
            "the calibration data has no signal here; take recordings of what the sensor gives",
        )
    table = np.minimum(np.round(window / largest * unit), 2**31 - 1).astype(np.int32)
    return SpectrumSizesParams(a, table, mult, shift, zero, site.y().dtype)


def int_ref(p: SpectrumSizesParams, x: Array, window: Array) -> tuple[Array, ...]:
    frames = frames_of(p.of, x, len(p.window))
    parts = [_sizes_of(p, frames[at : at + _AT_ONCE]) for at in range(0, len(frames), _AT_ONCE)]
    return (np.concatenate(parts)[None],)


def _sizes_of(p: SpectrumSizesParams, frames: Array) -> Array:
    none = np.zeros(len(frames), np.int16)
    bins, s = spectra(SpectrumParams(p.of.length, 0, 0), frames, none, p.window)
    squares, mult = powers(bins, 0, p.of.length // 2 + 1), np.uint64(p.mult)
    if p.of.power == 1:
        m = roots(squares) * mult
    else:
        m = (squares >> np.uint64(32)) * mult + ((squares & _LOW) * mult >> np.uint64(32))
    down = np.minimum(p.shift + p.of.power * s.astype(np.int64), _MOST_SHIFT)
    whole = (m >> np.uint64(32)).astype(np.int64)
    steps = (whole + (1 << (down - 1))) >> down
    _, hi = INT_RANGE[p.dtype]
    return _mirrored(p.of, np.minimum(steps + p.zero, hi).astype(NUMPY_DTYPE[p.dtype]).T)


def _fields(site: Site, p: SpectrumSizesParams) -> Fields:
    a, t = p.of, Transform(p.of.length)
    twiddles, each = t.twiddles(), site.x().elements // a.lines
    return {
        "window": Const(p.window, "[n]", "window"),
        "twiddles": Const(twiddles.reshape(-1, 3, 2), "[turns][3][2]", "twiddles")
        if t.is_power_of_two
        else Const(twiddles, "[turns][2]", "twiddles"),
        "split": Const(t.split(), "[half / 2][2]", "split"),
        "n": len(p.window),
        "half": t.half,
        "radix": t.radix,
        "mult": p.mult,
        "shift": p.shift,
        "zero": p.zero,
        "most": INT_RANGE[p.dtype][1],
        "power": a.power,
        "bins": a.bins,
        "wide": int(p.dtype == "s16"),
        "step": a.step,
        "frames": (each - len(p.window)) // a.step + 1,
        "lines": a.lines,
        "line": each,
    }


def _call(params: Struct) -> Call:
    return Call((Params(), In(0), Scratch(), Out()), params)


def lower(site: Site, p: SpectrumSizesParams) -> Call:
    """tc_spectrum_sizes: all frames of all lines."""
    return _call(Struct("tc_spectrum_sizes_t", _fields(site, p)))


def lower_mve(site: Site, p: SpectrumSizesParams) -> Call:
    """tc_spectrum_sizes_mve: with twiddles of four points at a time."""
    return _call(
        Struct("tc_spectrum_sizes_t", {**_fields(site, p), "twiddles": vector_twiddles(Transform(p.of.length))})
    )


def lower_mixed(site: Site, p: SpectrumSizesParams) -> Call:
    """tc_spectrum_sizes_mixed: the same, with what transforms of other lengths need."""
    fields = {f"of.{name}": value for name, value in _fields(site, p).items()}
    return _call(Struct("tc_spectrum_sizes_mixed_t", {**fields, **mixed_fields(Transform(p.of.length))}))


def scratch(site: Site, p: SpectrumSizesParams) -> int:
    """A spectrum."""
    return 4 * (p.of.length + 2)


def macs(site: Site) -> int:
    a = site.attrs
    return site.y().shape[1] * (site.x(1).elements + 2 * a.length + Transform(a.length).macs())


def of_frames(site: Site, p: SpectrumSizesParams) -> Units:
    """Of all frames: those of transforms, samples under the window, bins, roots of them, and bins that are others."""
    a, frames, t = p.of, site.y().shape[1], Transform(p.of.length)
    bins = frames * min(a.bins, t.half + 1)
    return {
        **t.units(frames),
        "sample": frames * len(p.window),
        "bin": bins,
        "root": bins if a.power == 1 else 0,
        "mirrored": frames * a.bins - bins,
    }


def table_bytes(site: Site, p: SpectrumSizesParams) -> int:
    """Of the window and the twiddles."""
    return 4 * len(p.window) + 12 * p.of.length


def is_int16(site: Site) -> bool:
    """int16 samples, int8 or int16 magnitudes"""
    return site.x().dtype == "s16" and site.y().dtype in ("s8", "s16")


def is_power_of_two(site: Site) -> bool:
    """transforms whose length is a power of two"""
    return Transform(site.attrs.length).is_power_of_two


def is_mixed(site: Site) -> bool:
    """transforms of any other length"""
    return not is_power_of_two(site)


OP = Op(
    name="spectrum_sizes",
    attrs=SpectrumSizes,
    infer=infer,
    float_ref=float_ref,
    prepare=prepare,
    int_ref=int_ref,
    quant_in=(Observed(), Unquantized()),
    quant_out=(Observed(),),
    kernels=tuple(
        Kernel(
            name,
            offered(lowered, scratch=scratch, cost=CountedCost(name, of_frames, flash=table_bytes)),
            isa=isa,
            when=(is_int16, has_length),
        )
        for name, lowered, isa, has_length in (
            ("tc_spectrum_sizes_mve", lower_mve, frozenset({"mve"}), is_power_of_two),
            ("tc_spectrum_sizes", lower, frozenset[str](), is_power_of_two),
            ("tc_spectrum_sizes_mixed", lower_mixed, frozenset[str](), is_mixed),
        )
    ),
    macs=macs,
    traits=frozenset({Trait.SAMPLES, Trait.INT16, Trait.SAYS_WIDTH}),
)
