# SPDX-License-Identifier: Apache-2.0
"""log_mel: logarithms of bands of the spectra of overlapping frames: samples [.., N] -> [1, frames, bands].

y = factor * ln(max(sum_k weights[band, k] |X[k]|^power + add, floor)), X the transform of window * the samples from
frame * step on. Samples in [-1, 1) are int16, whatever the model has else; frames are computed one by one, as
the spectrum operators define it.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from tinyc.base.dataclass import dataclass
from tinyc.base.errors import TinycError
from tinyc.ir.graph import Array, Value
from tinyc.kernel.counted import CountedCost, Units
from tinyc.kernel.kernel import Call, Const, In, Kernel, Out, Params, Scratch, Struct, offered
from tinyc.kernel.site import Site, Type
from tinyc.ops.op import Fixed, Observed, Op, Trait, Unquantized
from tinyc.ops.signal_square_root import roots
from tinyc.ops.spectrum import SpectrumParams, spectra, unit_of, vector_twiddles, window_unit
from tinyc.ops.spectrum_bands import WEIGHT_BITS, BandsParams, banded, packed
from tinyc.ops.spectrum_log import ADD_BITS, FRACTION, log_table, logs, words
from tinyc.ops.spectrum_power import powers
from tinyc.ops.spectrum_project import ProjectParams, fixed_point, projected
from tinyc.ops.stft import spectra_of
from tinyc.ops.transform import Fields, Transform, check_transform, mixed_fields

_AT_ONCE = 64  # frames


@dataclass(frozen=True, slots=True)
class LogMel:
    """power: 1 or 2. factor: of the natural logarithm."""

    step: int
    power: int
    floor: float = 0.0
    add: float = 0.0
    factor: float = 1.0


def infer(a: LogMel, x: Value, window: Value, weights: Value) -> Sequence[Type]:
    check_transform(window.elements)
    if a.step < 1 or x.elements < window.elements or weights.shape[1:] != (window.elements // 2 + 1,):
        raise TinycError(
            f"bands {list(weights.shape)}, frames of {window.elements} every {a.step}, {x.elements} samples do not fit"
        )
    return [
        Type((1, (x.elements - window.elements) // a.step + 1, weights.shape[0]), "f32" if x.dtype == "f32" else "s8")
    ]


def float_ref(a: LogMel, x: Array, window: Array, weights: Array) -> tuple[Array, ...]:
    magnitude = np.abs(spectra_of(x.reshape(-1), window, a.step))
    bands = magnitude**a.power @ weights.T.astype(np.float64) + a.add
    return ((a.factor * np.log(np.maximum(bands, max(a.floor, 1e-30))))[None].astype(np.float32),)


@dataclass(frozen=True, slots=True)
class LogMelParams:
    """begin, end: the bins that count. add: uint64 or None."""

    step: int
    power: int
    window: Array
    begin: int
    end: int
    bands: BandsParams
    least: Array
    add: Array | None
    projection: ProjectParams
    factor: Array
    offset: Array

    @property
    def length(self) -> int:
        return len(self.window)


def prepare(site: Site) -> LogMelParams:
    """TinycError for a window or weights that are computed or negative, and for numbers that leave their bits."""
    a, where = site.attrs, site.node.where
    if not site.is_const(1) or not site.is_const(2):
        raise TinycError("window and bands have to be constants", where)
    window, weights = site.const(1).astype(np.float64), site.const(2).astype(np.float64)
    largest, peak = np.abs(window).max(), weights.max(axis=1)
    if weights.min() < -1e-9 * abs(peak.max()) or peak.max() <= 0 or largest == 0:
        raise TinycError("bands are sums with weights that are not negative, and not all 0", where)
    peak = np.where(
        peak > 0, peak, peak.max()
    )  # of more bands than bins some are empty, as torchaudio's 128 of 512 points
    used = np.flatnonzero(weights.max(axis=0))
    begin, end = int(used[0]), int(used[-1]) + 1
    matrix = np.round(np.maximum(weights[:, begin:end], 0) / peak[:, None] * (1 << WEIGHT_BITS))
    scale, _ = site.scale_zero(site.x())
    units = (scale * largest) ** a.power * unit_of(len(window), a.power) * peak
    y_scale, y_zero = site.scale_zero(site.y())
    octave = a.factor * math.log(2) / y_scale
    try:
        bits, factor, offset = fixed_point(np.full(len(peak), octave), octave * np.log2(units) + y_zero)
    except TinycError as error:
        raise error.located(where) from error
    unit = window_unit(len(window))
    return LogMelParams(
        a.step,
        a.power,
        np.minimum(np.round(window / largest * unit), 2**31 - 1).astype(np.int32),
        begin,
        end,
        BandsParams(np.minimum(matrix, (1 << WEIGHT_BITS) - 1).astype(np.int32)),
        _least(a, units),
        _added(a, units),
        ProjectParams(bits, -128, 127, cuts=False),
        factor,
        offset,
    )


def _least(a: LogMel, units: Array) -> Array:
    if a.floor <= 0:
        return np.full(len(units), -(1 << 30), np.int32)
    return np.round(np.clip(np.log2(a.floor / units), -1000, 1000) * (1 << FRACTION)).astype(np.int32)


def _added(a: LogMel, units: Array) -> Array | None:
    if a.add == 0:
        return None
    return np.clip(np.round(a.add / units), 0, (1 << ADD_BITS) - 1).astype(np.uint64)


def int_ref(p: LogMelParams, x: Array, window: Array, weights: Array) -> tuple[Array, ...]:
    frames = np.lib.stride_tricks.sliding_window_view(x.reshape(-1), p.length)[:: p.step]
    parts = [_frames(p, frames[at : at + _AT_ONCE]) for at in range(0, len(frames), _AT_ONCE)]
    return (np.concatenate(parts)[None],)


def _frames(p: LogMelParams, frames: Array) -> Array:
    none = np.zeros(len(frames), np.int16)
    bins, shift = spectra(SpectrumParams(p.length, 0, 0), frames, none, p.window)
    x = powers(bins, p.begin, p.end)
    if p.power == 1:
        x = roots(x).astype(np.uint32)
    octaves = logs(p.power, banded(p.bands, x), shift, p.least, p.add).T
    return projected(p.projection, octaves, p.factor, p.offset)


def lower(site: Site, p: LogMelParams) -> Call:
    """tc_log_mel: all frames of a line."""
    return Call((Params(), In(0), Scratch(), Out()), Struct("tc_log_mel_t", _fields(site, p)))


def lower_mve(site: Site, p: LogMelParams) -> Call:
    """tc_log_mel_mve: with twiddles of four points at a time."""
    fields = {**_fields(site, p), "twiddles": vector_twiddles(Transform(p.length))}
    return Call((Params(), In(0), Scratch(), Out()), Struct("tc_log_mel_t", fields))


def lower_mixed(site: Site, p: LogMelParams) -> Call:
    """tc_log_mel_mixed: the same, with what transforms of other lengths need."""
    fields = {f"of.{name}": value for name, value in _fields(site, p).items()}
    mixed = mixed_fields(Transform(p.length))
    return Call((Params(), In(0), Scratch(), Out()), Struct("tc_log_mel_mixed_t", {**fields, **mixed}))


def _fields(site: Site, p: LogMelParams) -> Fields:
    t, (weights, spans) = Transform(p.length), packed(p.bands)
    twiddles = t.twiddles()
    return {
        "window": Const(p.window, "[2 half]", "window"),
        "twiddles": Const(twiddles.reshape(-1, 3, 2), "[turns][3][2]", "twiddles")
        if t.is_power_of_two
        else Const(twiddles, "[turns][2]", "twiddles"),
        "split": Const(t.split(), "[half / 2][2]", "split"),
        "weights": weights,
        "spans": spans,
        "table": Const(log_table(), "[129]", "log2"),
        "least": Const(p.least, "[bands]", "least"),
        "add": 0 if p.add is None else Const(words(p.add), "[bands][2]: low, high", "add"),
        "factor": Const(p.factor, "[bands]", "factor"),
        "offset": Const(p.offset, "[bands]", "offset"),
        "half": t.half,
        "radix": t.radix,
        "begin": p.begin,
        "end": p.end,
        "bands": len(p.factor),
        "bits": p.projection.bits,
        "power": p.power,
        "step": p.step,
        "frames": site.y().shape[1],
    }


def scratch(site: Site, p: LogMelParams) -> int:
    """A spectrum, and what its bands hold."""
    return 4 * (p.length + 2) + 8 * len(p.factor)


def macs(site: Site) -> int:
    t = Transform(site.x(1).elements)
    return site.y().shape[1] * (3 * t.length + t.macs())


def of_frames(site: Site, p: LogMelParams) -> Units:
    """Of all frames: those of transforms, bins, roots of them, weights of bands, and bands."""
    frames, bins = site.y().shape[1], p.end - p.begin
    return {
        **Transform(p.length).units(frames),
        "bin": frames * bins,
        "root": frames * bins if p.power == 1 else 0,
        "weight": frames * _weights(p),
        "band": frames * len(p.factor),
    }


def table_bytes(site: Site, p: LogMelParams) -> int:
    """Of the window, the twiddles and the bands."""
    return 16 * p.length + 2 * _weights(p) + 24 * len(p.factor)


def _weights(p: LogMelParams) -> int:
    return sum(end - first for first, end in p.bands.spans())


def is_int16(site: Site) -> bool:
    """int16 samples, int8 bands"""
    return site.x().dtype == "s16" and site.y().dtype == "s8"


def is_power_of_two(site: Site) -> bool:
    """frames whose length is a power of two"""
    return Transform(site.x(1).elements).is_power_of_two


def is_mixed(site: Site) -> bool:
    """frames of any other length"""
    return not is_power_of_two(site)


OP = Op(
    name="log_mel",
    attrs=LogMel,
    infer=infer,
    float_ref=float_ref,
    prepare=prepare,
    int_ref=int_ref,
    quant_in=(Fixed(1 / 128, 0), Unquantized(), Unquantized()),  # in int16 1 / 32768: what a microphone gives
    quant_out=(Observed(),),
    kernels=tuple(
        Kernel(
            name,
            offered(lowered, scratch=scratch, cost=CountedCost(name, of_frames, flash=table_bytes)),
            isa=isa,
            when=(is_int16, has_length),
        )
        for name, lowered, isa, has_length in (
            ("tc_log_mel_mve", lower_mve, frozenset({"mve"}), is_power_of_two),
            ("tc_log_mel", lower, frozenset[str](), is_power_of_two),
            ("tc_log_mel_mixed", lower_mixed, frozenset[str](), is_mixed),
        )
    ),
    macs=macs,
    traits=frozenset({Trait.SAMPLES}),
)
