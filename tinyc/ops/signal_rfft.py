# SPDX-License-Identifier: Apache-2.0
"""signal_rfft: real samples -> spectrum, in fixed point as `fourier.py` defines it.

x [.., n] int16 or int32, n <= length, zeros behind -> [.., length + 2]: real and imaginary parts of length / 2 + 1
bins in turn, about 1/length of the transform.
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
from tinyc.ops.fourier import Fourier, check_length, forward
from tinyc.ops.op import Op, Trait, Unquantized
from tinyc.ops.signals import need, no_reals


@dataclass(frozen=True, slots=True)
class SignalRfft:
    length: int


def infer(a: SignalRfft, x: Value) -> Sequence[Type]:
    need(x, "the input", "s16", "s32")
    check_length(a.length)
    if not x.shape or x.shape[-1] > a.length:
        raise TinycError(f"a transform of {a.length} samples takes no lines of {list(x.shape)}")
    return [Type((*x.shape[:-1], a.length + 2), x.dtype)]


def prepare(site: Site) -> Fourier:
    return Fourier(site.attrs.length, site.x().dtype)


def int_ref(p: Fourier, x: Array) -> tuple[Array, ...]:
    return (forward(p, x),)


def is_short(site: Site) -> bool:
    """int16"""
    return site.x(0).dtype == "s16"


def is_long(site: Site) -> bool:
    """int32"""
    return site.x(0).dtype == "s32"


def has_pairs(site: Site) -> bool:
    """lines of even length, a transform of at least 16"""
    return site.x(0).shape[-1] % 2 == 0 and site.attrs.length >= 16


def has_vectors(site: Site) -> bool:
    """lines of even length, a transform of at least 32"""
    return site.x(0).shape[-1] % 2 == 0 and site.attrs.length >= 32


def interleaved(pair: tuple[Array, Array], what: str, role: str) -> Const:
    """Cosines and sines in turn."""
    return Const(np.stack(pair, axis=-1), f"[{what}][2]", role)


def fourier_fields(site: Site, p: Fourier, twiddles: Const, samples: int) -> dict[str, int | float | str | Const]:
    """Those of a tc_fourier_s16_t, tc_fourier_s32_t or tc_rfft_words_t. samples: of a line."""
    x = site.x(0)
    return {
        "twiddles": twiddles,
        "split": interleaved(p.split_twiddles(), "half / 2", "split"),
        "order": Const(np.array(p.order(), np.uint16), "[half / radix]", "order"),
        "half": p.half,
        "radix": p.radixes[0],
        "samples": samples,
        "lines": x.elements // x.shape[-1],
    }


def defined_twiddles(p: Fourier) -> Const:
    """As they are defined."""
    return interleaved(p.twiddles(), "half", "twiddles")


def lower(site: Site, p: Fourier) -> Call:
    """tc_signal_rfft_s16 or _s32: the tables as they are defined."""
    x = site.x(0)
    fields = fourier_fields(site, p, defined_twiddles(p), x.shape[-1])
    return Call((Params(), In(0), Out()), Struct(f"tc_fourier_{x.dtype}_t", fields))


def lower_dsp(site: Site, p: Fourier) -> Call:
    """tc_signal_rfft_s16_dsp: twiddles in the order of their use."""
    steps = p.steps()
    return _lower_steps(site, p, Const(steps if len(steps) else np.zeros((1, 2), np.int16), "[turns][2]", "twiddles"))


def lower_mve(site: Site, p: Fourier) -> Call:
    """tc_signal_rfft_s16_mve: those of four points at a time."""
    return _lower_steps(site, p, Const(p.vector_steps(), "[..][3][4][2]", "twiddles"))


def _lower_steps(site: Site, p: Fourier, twiddles: Const) -> Call:
    fields = fourier_fields(site, p, twiddles, site.x(0).shape[-1])
    return Call((Params(), In(0), Out()), Struct("tc_rfft_words_t", fields))


def macs(site: Site) -> int:
    """Of the complex steps and of the split."""
    a = site.attrs
    lines = site.x(0).elements // site.x(0).shape[-1]
    return lines * (a.length // 2 * 5 * len(Fourier(a.length, "s16").radixes) + 2 * a.length)


def of_points(site: Site, p: Fourier) -> Units:
    """Points of all steps but the first, points, and lines."""
    lines = site.x(0).elements // site.x(0).shape[-1]
    points = lines * p.half
    return {"step": points * (len(p.radixes) - 1), "point": points, "line": lines}


def table_bytes(site: Site, p: Fourier) -> int:
    """Of twiddles, of those of the split, and of the order of points."""
    return (3 * p.half * (2 if p.dtype == "s16" else 4)) + p.half


OP = Op(
    name="signal_rfft",
    attrs=SignalRfft,
    infer=infer,
    float_ref=no_reals,
    prepare=prepare,
    int_ref=int_ref,
    quant_in=(Unquantized(),),
    quant_out=(Unquantized(),),
    kernels=tuple(
        Kernel(name, offered(lowered, cost=CountedCost(name, of_points, flash=table_bytes)), isa=isa, when=when)
        for name, lowered, isa, when in (
            ("tc_signal_rfft_s16_mve", lower_mve, frozenset({"mve"}), (is_short, has_vectors)),
            ("tc_signal_rfft_s16_dsp", lower_dsp, frozenset({"dsp"}), (is_short, has_pairs)),
            ("tc_signal_rfft_s16", lower, frozenset[str](), (is_short,)),
            ("tc_signal_rfft_s32", lower, frozenset[str](), (is_long,)),
        )
    ),
    macs=macs,
    traits=frozenset({Trait.ANY_TYPE}),
)
