# SPDX-License-Identifier: Apache-2.0
"""signal_spectral_subtraction: each channel less the estimate of its noise, which is a running mean.

x uint32 [C], state uint32 [C] -> y uint32 [C], the estimate after the update uint32 [C], which is the next state too:

    up    = x * 2^smoothing_bits modulo 2^32
    state = (up * smoothing + state * one_minus) >> bits
    y     = max((up - min(state, up)) >> smoothing_bits, x * least >> bits)

Even and odd channels have a smoothing each. With `clamps` a state above `up` becomes `up`.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from tinyc.base.dataclass import dataclass
from tinyc.ir.graph import Array, Value
from tinyc.kernel.counted import counted_kernel, of_elements
from tinyc.kernel.kernel import Call, In, Out, Params, Struct
from tinyc.kernel.site import Site, Type
from tinyc.ops.op import Op, Trait, Unquantized
from tinyc.ops.signals import MOST_BITS, need, need_between, need_length, no_reals

_LOW = np.uint64(0xFFFFFFFF)
_MOST = (1 << 31) - 1  # a factor: the sum of two products of 32 bits and 31 fits 64


@dataclass(frozen=True, slots=True)
class SignalSpectralSubtraction:
    """smoothing, one_minus: of even and of odd channels."""

    smoothing: tuple[int, int]
    one_minus: tuple[int, int]
    least: int
    smoothing_bits: int
    bits: int
    clamps: bool


def infer(a: SignalSpectralSubtraction, x: Value, state: Value) -> Sequence[Type]:
    need(x, "the input", "u32")
    need(state, "the estimate", "u32")
    need_length(state, "the estimate", x.elements)
    for what, number in (("smoothing", a.smoothing), ("one minus smoothing", a.one_minus)):
        for each in number:
            need_between(what, each, 0, _MOST)
    need_between("the least signal that remains", a.least, 0, _MOST)
    need_between("the bits of smoothing", a.smoothing_bits, 0, MOST_BITS)
    need_between("the bits of the subtraction", a.bits, 0, MOST_BITS)
    return [Type(x.shape, "u32"), Type(x.shape, "u32")]


def prepare(site: Site) -> SignalSpectralSubtraction:
    a = site.attrs
    return SignalSpectralSubtraction(a.smoothing, a.one_minus, a.least, a.smoothing_bits, a.bits, a.clamps)


def _of_channels(pair: tuple[int, int], count: int) -> Array:
    return np.resize(np.array(pair, np.uint64), count)


def subtracted(p: SignalSpectralSubtraction, x: Array, state: Array) -> tuple[Array, Array]:
    """What is left of x [frames, .., C], frame after frame, and the estimate after each; state: that before, [.., C].

    uint64 arrays that hold uint32.
    """
    bits, smoothing_bits = np.uint64(p.bits), np.uint64(p.smoothing_bits)
    up = (x << smoothing_bits) & _LOW
    fresh = up * _of_channels(p.smoothing, x.shape[-1])
    rest = _of_channels(p.one_minus, x.shape[-1])
    after, last, shift = np.empty_like(x), state, np.full(x.shape[1:], bits)
    is_mean = all(a + b <= 1 << p.bits for a, b in zip(p.smoothing, p.one_minus, strict=True))  # stays in 32 bits
    for frame, (row, new) in enumerate(zip(after, fresh, strict=True)):  # the one thing that goes frame by frame
        np.multiply(last, rest, out=row)
        np.add(row, new, out=row)
        np.right_shift(row, shift, out=row)
        if not is_mean:
            np.bitwise_and(row, _LOW, out=row)
        if p.clamps:
            np.minimum(row, up[frame], out=row)
        last = row
    left = (up - np.minimum(after, up)) >> smoothing_bits
    floor = ((x * np.uint64(p.least)) >> bits) & _LOW
    return np.maximum(left, floor), after


def int_ref(p: SignalSpectralSubtraction, x: Array, state: Array) -> tuple[Array, ...]:
    y, after = subtracted(p, x.astype(np.uint64)[None], state.astype(np.uint64))
    return y[0].astype(np.uint32), after[0].astype(np.uint32)


def lower(site: Site, p: SignalSpectralSubtraction) -> Call:
    fields: dict[str, int | float | str] = {
        "even": p.smoothing[0],
        "odd": p.smoothing[1],
        "even_rest": p.one_minus[0],
        "odd_rest": p.one_minus[1],
        "least": p.least,
        "smoothing_bits": p.smoothing_bits,
        "bits": p.bits,
        "clamps": int(p.clamps),
        "channels": site.x(0).elements,
    }
    struct = Struct("tc_signal_subtraction_u32_t", fields)
    return Call((Params(), In(0), In(1), Out(0), Out(1)), struct)


def macs(site: Site) -> int:
    return 3 * site.x(0).elements


OP = Op(
    name="signal_spectral_subtraction",
    attrs=SignalSpectralSubtraction,
    infer=infer,
    float_ref=no_reals,
    prepare=prepare,
    int_ref=int_ref,
    quant_in=(Unquantized(),),
    quant_out=(Unquantized(),),
    kernels=(counted_kernel("tc_signal_subtraction_u32", lower, of_elements, when=(), inplace=(0,)),),
    macs=macs,
    updates=((1, 1),),
    traits=frozenset({Trait.ANY_TYPE}),
)
