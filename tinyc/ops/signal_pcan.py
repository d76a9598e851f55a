# SPDX-License-Identifier: Apache-2.0
"""signal_pcan: automatic gain control per channel: each channel by a gain that falls with its noise, then compressed.

x uint32 [C], noise uint32 [C], table int16 [125] -> uint32 [C]:

    s = (x * gain(noise)) >> snr_shift modulo 2^32
    y = s^2 >> 20 if s < 8192, else (s >> 6) - 64

The gain is a parabola per octave of the noise, whose three coefficients are in the table. After Wang et al., "Trainable
frontend for robust and far-field keyword spotting" (2017), in the integers of TensorFlow Lite Micro.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from tinyc.base.dataclass import dataclass
from tinyc.base.errors import TinycError
from tinyc.ir.graph import Array, Value
from tinyc.kernel.counted import counted_kernel, of_elements
from tinyc.kernel.kernel import Call, Const, In, Out
from tinyc.kernel.site import Site, Type
from tinyc.ops.op import Op, Trait, Unquantized
from tinyc.ops.signals import MOST_BITS, Ints, bit_length, need, need_between, need_length, no_reals

TABLE = 125  # two numbers, then four for each of the octaves 2 to 32, the fourth of no use
_LOW = 0xFFFFFFFF


@dataclass(frozen=True, slots=True)
class SignalPcan:
    snr_shift: int


def infer(a: SignalPcan, x: Value, noise: Value, table: Value) -> Sequence[Type]:
    need(x, "the input", "u32")
    need(noise, "the noise", "u32")
    need_length(noise, "the noise", x.elements)
    need(table, "the table of gains", "s16")
    need_length(table, "the table of gains", TABLE)
    need_between("snr_shift", a.snr_shift, 0, MOST_BITS)
    return [Type(x.shape, "u32")]


@dataclass(frozen=True, slots=True)
class PcanParams:
    snr_shift: int


def prepare(site: Site) -> PcanParams:
    if not site.is_const(2):
        raise TinycError("the table of gains must be a constant", site.node.where)
    return PcanParams(site.attrs.snr_shift)


def gains(noise: Array, table: Array) -> Ints:
    """int16 gains, by the noise (int64)."""
    octave = np.maximum(bit_length(noise), 2)
    at = 4 * octave - 6
    fraction = np.where(octave < 11, noise << np.maximum(11 - octave, 0), noise >> np.maximum(octave - 11, 0)) & 1023
    lut = table.astype(np.int64)
    slope = ((lut[at + 2] * fraction) >> 5) + lut[at + 1] * 32
    rise = (slope * fraction).astype(np.int32).astype(np.int64)  # wraps
    gain = (((rise + 16384) >> 15) + lut[at]).astype(np.int16).astype(np.int64)
    small: Ints = np.where(noise <= 2, lut[np.minimum(noise, 2)], gain)
    return small


def controlled(x: Array, noise: Array, table: Array, snr_shift: int) -> Array:
    """uint32 arrays of any one shape -> uint32."""
    gain = gains(noise.astype(np.int64), table).astype(np.uint64) & np.uint64(_LOW)
    s = ((x.astype(np.uint64) * gain) >> np.uint64(snr_shift)).astype(np.uint32)
    return np.where(s < 8192, (s * s) >> np.uint32(20), (s >> np.uint32(6)) - np.uint32(64)).astype(np.uint32)


def int_ref(p: PcanParams, x: Array, noise: Array, table: Array) -> tuple[Array, ...]:
    return (controlled(x, noise.reshape(x.shape), table, p.snr_shift),)


def lower(site: Site, p: PcanParams) -> Call:
    table = Const(site.const(2).reshape(-1), "[125]", "gains")
    return Call((In(0), In(1), table, site.x(0).elements, p.snr_shift, Out()))


def macs(site: Site) -> int:
    return 4 * site.x(0).elements


OP = Op(
    name="signal_pcan",
    attrs=SignalPcan,
    infer=infer,
    float_ref=no_reals,
    prepare=prepare,
    int_ref=int_ref,
    quant_in=(Unquantized(),),
    quant_out=(Unquantized(),),
    kernels=(counted_kernel("tc_signal_pcan_u32", lower, of_elements, when=(), inplace=(0, 1)),),
    macs=macs,
    traits=frozenset({Trait.ANY_TYPE}),
)
