# SPDX-License-Identifier: Apache-2.0
"""signal_fft_auto_scale: samples times 2^s, as far as 16 bits allow, and s: what a fixed-point FFT wants to be fed.

x [n] int16 -> y [n] int16, s int32 []. s = 15 - bits(m) where m is the largest |x|; 0 for silence. TensorFlow Lite
Micro searches m in 16 bits, where -(-32768) is -32768 again: such a sample makes all that came before it forgotten,
and every later one that is greater, or whose opposite is, becomes m.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from tinyc.base.dataclass import dataclass
from tinyc.ir.graph import Array, Value
from tinyc.kernel.counted import CountedCost, of_elements
from tinyc.kernel.kernel import Call, In, Kernel, Out, offered
from tinyc.kernel.site import Site, Type
from tinyc.ops.op import Op, Trait, Unquantized
from tinyc.ops.signals import bit_length, need, no_reals


@dataclass(frozen=True, slots=True)
class SignalFftAutoScale:
    """micro: as the micro front end does it: |-32768| is ignored, and the s of silence is 15."""

    micro: bool = False


def infer(a: SignalFftAutoScale, x: Value) -> Sequence[Type]:
    need(x, "the input", "s16")
    return [Type(x.shape, "s16"), Type((), "s32")]


@dataclass(frozen=True, slots=True)
class ScaleParams:
    micro: bool


def prepare(site: Site) -> ScaleParams:
    return ScaleParams(site.attrs.micro)


def scaled(x: Array, shift: Array) -> Array:
    """x * 2^shift modulo 2^16."""
    return np.left_shift(x, shift.astype(np.int16))


def micro_shift(x: Array) -> Array:
    """[.., n] int16 -> [.., 1]: what the micro front end shifts each line by."""
    return 15 - bit_length(np.maximum(np.abs(x).max(axis=-1, keepdims=True), 0))


def int_ref(p: ScaleParams, x: Array) -> tuple[Array, ...]:
    shift = micro_shift(x.reshape(-1))[0] if p.micro else _shift(x)
    return scaled(x, np.asarray(shift)), np.asarray(shift, np.int32)


def _shift(x: Array) -> int:
    """As TensorFlow Lite Micro finds it: one sample after the other."""
    if x.min() > -32768:
        most = int(np.abs(x).max())
        return 15 - most.bit_length() if most else 0
    most = 0
    for sample in x.reshape(-1).tolist():
        if sample > most:
            most = sample
        elif -sample > most:
            most = -sample if sample > -32768 else -32768
    return 15 - most.bit_length() if most > 0 else 0


def lower(site: Site, p: ScaleParams) -> Call:
    return Call((In(0), site.x().elements, int(p.micro), Out(0), Out(1)))


OP = Op(
    name="signal_fft_auto_scale",
    attrs=SignalFftAutoScale,
    infer=infer,
    float_ref=no_reals,
    prepare=prepare,
    int_ref=int_ref,
    quant_in=(Unquantized(),),
    quant_out=(Unquantized(),),
    kernels=tuple(
        Kernel(name, offered(lower, cost=CountedCost(name, of_elements)), isa=isa, inplace=(0,))
        for name, isa in (
            ("tc_signal_auto_scale_s16_mve", frozenset({"mve"})),
            ("tc_signal_auto_scale_s16_dsp", frozenset({"dsp"})),
            ("tc_signal_auto_scale_s16", frozenset[str]()),
        )
    ),
    traits=frozenset({Trait.ANY_TYPE}),
)
