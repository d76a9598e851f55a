# SPDX-License-Identifier: Apache-2.0
"""spectrum: the Fourier transform of the last samples times a window, in 32 bits, scaled up as far as they go.

x [m] int16, w [n] int32, the samples before x [h] int16 (optional) -> bins int32 [length + 2], real and imaginary parts
in turn, s int32 []. With the samples before and x one after the other, the n from `begin` on are v; s = 15 - bits(the
largest |v|, and the |sample| before them where there is a pre-emphasis), at least 0. What is transformed, with zeros
behind it, by `transform.py`, is

    round(w * (2^15 v[i] or 2^14 v[i] - emphasis * v[i - 1]) * 2^s / 2^32)
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from tinyc.base.dataclass import dataclass
from tinyc.base.errors import TinycError
from tinyc.ir.graph import Array, Value
from tinyc.kernel.counted import CountedCost, Units
from tinyc.kernel.kernel import Call, Const, In, Kernel, Out, Params, Struct, offered
from tinyc.kernel.site import Site, Type
from tinyc.ops.op import Op, Trait, Unquantized
from tinyc.ops.signals import bit_length, need, need_between, no_reals
from tinyc.ops.spectrum_bands import WEIGHT_BITS
from tinyc.ops.transform import Fields, Transform, check_transform, mixed_fields, spectrum_of, upper

EMPHASIS_BITS = 14


@dataclass(frozen=True, slots=True)
class Spectrum:
    """emphasis: what of the sample before is taken away, in 1 / 2^14; 0: none."""

    length: int
    begin: int = 0
    emphasis: int = 0


def infer(a: Spectrum, x: Value, w: Value, before: Value | None = None) -> Sequence[Type]:
    need(x, "the input", "s16")
    need(w, "the window", "s32")
    check_transform(a.length)
    need_between("the pre-emphasis", a.emphasis, 0, 1 << EMPHASIS_BITS)
    if before is not None:
        need(before, "the samples before the input", "s16")
    held = before.elements if before is not None else 0
    if w.elements > a.length or w.elements % 2 or held % 2 or a.begin % 2:
        raise TinycError(
            f"a window of {w.elements} samples from {a.begin} on, {held} samples from before, for a transform of "
            f"{a.length}: all have to be even, and the window no longer than the transform"
        )
    need_between("begin", a.begin, 1 if a.emphasis else 0, held + x.elements - w.elements)
    return [Type((a.length + 2,), "s32"), Type((), "s32")]


@dataclass(frozen=True, slots=True)
class SpectrumParams:
    length: int
    begin: int
    emphasis: int


def prepare(site: Site) -> SpectrumParams:
    """TinycError for a window that is computed, or so large that a transform could leave int32."""
    a = site.attrs
    if not site.is_const(1):
        raise TinycError("the window has to be a constant", site.node.where)
    largest = int(np.abs(site.const(1).astype(np.int64)).max())
    if largest > window_unit(a.length):
        raise TinycError(f"a window up to {largest}: at most {window_unit(a.length)}", site.node.where)
    return SpectrumParams(a.length, a.begin, a.emphasis)


def window_unit(length: int) -> int:
    """What stands for 1 in the window: then samples stay within `Transform.most`, for they have 2^30 before."""
    return 4 * Transform(length).most


def unit_of(length: int, power: int, emphasis: bool = False) -> float:
    """What a count of a band (spectrum_bands) stands for where a count of the samples is 1, and s is 0: of powers, or
    of magnitudes (power 1), whose weights have 16 bits."""
    magnitude = length * 2.0 ** -(EMPHASIS_BITS - emphasis)
    return magnitude**2 if power == 2 else magnitude * 2.0**-WEIGHT_BITS


def tapered(p: SpectrumParams, frames: Array, first: Array, w: Array) -> tuple[Array, Array]:
    """int16 [lines, n], the samples before each [lines] -> points int64 [2, length / 2, lines], s int32
    [lines]."""
    v = np.ascontiguousarray(frames.T).astype(np.int64)
    most = np.maximum(v.max(axis=0), -v.min(axis=0))
    if p.emphasis:
        most = np.maximum(most, np.abs(first.astype(np.int64)))
        emphasized = v << EMPHASIS_BITS
        emphasized[1:] -= p.emphasis * v[:-1]
        emphasized[0] -= p.emphasis * first.astype(np.int64)
        v = emphasized
    else:
        v <<= EMPHASIS_BITS + 1
    shift = np.maximum(15 - bit_length(most), 0)
    v <<= shift
    t = Transform(p.length)
    points: Array = np.zeros((2, t.half, len(frames)), np.int64)
    points[:, : len(w) // 2] = upper(v, w.astype(np.int64)[:, None]).reshape(-1, 2, len(frames)).swapaxes(0, 1)
    return points, shift.astype(np.int32)


def spectra(p: SpectrumParams, frames: Array, first: Array, w: Array) -> tuple[Array, Array]:
    """int16 [lines, n], the samples before each [lines] -> bins int64 [2, length / 2 + 1, lines], real and imaginary
    parts, s int32 [lines]."""
    points, shift = tapered(p, frames, first, w)
    return spectrum_of(Transform(p.length), points), shift


def int_ref(p: SpectrumParams, x: Array, w: Array, before: Array | None = None) -> tuple[Array, ...]:
    samples = x.reshape(-1) if before is None else np.concatenate([before.reshape(-1), x.reshape(-1)])
    first = samples[p.begin - 1 : p.begin] if p.emphasis else np.zeros(1, np.int16)
    bins, shift = spectra(p, samples[None, p.begin : p.begin + w.size], first, w.reshape(-1))
    return bins[..., 0].T.reshape(-1).astype(np.int32), shift[0]


def lower(site: Site, p: SpectrumParams) -> Call:
    """tc_spectrum: samples from two places, twiddles in the order of their use."""
    return _plain(site, p, Const(Transform(p.length).twiddles().reshape(-1, 3, 2), "[turns][3][2]", "twiddles"))


def lower_mve(site: Site, p: SpectrumParams) -> Call:
    """tc_spectrum_mve: with twiddles of four points at a time."""
    return _plain(site, p, vector_twiddles(Transform(p.length)))


def _plain(site: Site, p: SpectrumParams, twiddles: Const) -> Call:
    fields: Fields = {
        "window": Const(site.const(1).reshape(-1), "[n]", "window"),
        "twiddles": twiddles,
        "split": Const(Transform(p.length).split(), "[half / 2][2]", "split"),
        **_sizes(site, p),
    }
    return _call(site, Struct("tc_spectrum_t", fields))


def vector_twiddles(t: Transform) -> Const:
    return Const(t.vector_twiddles(), "[..][3][2][4]", "twiddles")


def lower_mixed(site: Site, p: SpectrumParams) -> Call:
    """tc_spectrum_mixed: with the order of points, and what steps of odd radix need."""
    t = Transform(p.length)
    fields: Fields = {
        "of.window": Const(site.const(1).reshape(-1), "[n]", "window"),
        "of.twiddles": Const(t.twiddles(), "[turns][2]", "twiddles"),
        "of.split": Const(t.split(), "[half / 2][2]", "split"),
        **{f"of.{name}": number for name, number in _sizes(site, p).items()},
        **mixed_fields(t),
    }
    return _call(site, Struct("tc_spectrum_mixed_t", fields))


def _sizes(site: Site, p: SpectrumParams) -> Fields:
    t = Transform(p.length)
    return {
        "n": site.x(1).elements,
        "begin": p.begin,
        "held": site.x(2).elements if site.has(2) else 0,
        "emphasis": p.emphasis,
        "half": t.half,
        "radix": t.radix,
    }


def _call(site: Site, params: Struct) -> Call:
    return Call((Params(), In(0), In(2) if site.has(2) else 0, Out(0), Out(1)), params)


def macs(site: Site) -> int:
    """Of the window, of the complex steps and of the split."""
    t = Transform(site.attrs.length)
    return site.x(1).elements + t.macs()


def is_power_of_two(site: Site) -> bool:
    """a transform whose length is a power of two"""
    return Transform(site.attrs.length).is_power_of_two


def is_mixed(site: Site) -> bool:
    """a transform of any other length"""
    return not is_power_of_two(site)


def of_samples(site: Site, p: SpectrumParams) -> Units:
    """Those of the transform, samples under the window, and those among them with emphasis."""
    n = site.x(1).elements
    return {**Transform(p.length).units(), "sample": n, "emphasis": n if p.emphasis else 0}


def table_bytes(site: Site, p: SpectrumParams) -> int:
    """Of the window and the twiddles."""
    return 4 * site.x(1).elements + 12 * p.length


OP = Op(
    name="spectrum",
    attrs=Spectrum,
    infer=infer,
    float_ref=no_reals,
    prepare=prepare,
    int_ref=int_ref,
    quant_in=(Unquantized(),),
    quant_out=(Unquantized(),),
    kernels=tuple(
        Kernel(
            name, offered(lowered, cost=CountedCost(name, of_samples, flash=table_bytes)), isa=isa, when=(has_length,)
        )
        for name, lowered, isa, has_length in (
            ("tc_spectrum_mve", lower_mve, frozenset({"mve"}), is_power_of_two),
            ("tc_spectrum", lower, frozenset[str](), is_power_of_two),
            ("tc_spectrum_mixed", lower_mixed, frozenset[str](), is_mixed),
        )
    ),
    macs=macs,
    traits=frozenset({Trait.ANY_TYPE}),
)
