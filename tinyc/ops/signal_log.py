# SPDX-License-Identifier: Apache-2.0
"""signal_log: scale * ln(x * 2^correction), rounded, at most 32767; 0 where the logarithm would not be positive.

x uint32 [C] -> int16 [C]. The logarithm to base 2 is the number of bits and a table of 128 steps for the rest; what
TensorFlow Lite Micro adds between two steps is 2^7 too small, so it is nearly nothing, and is kept.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from tinyc.base.dataclass import dataclass
from tinyc.ir.graph import Array, Value
from tinyc.kernel.counted import CountedCost, of_elements
from tinyc.kernel.kernel import Call, Const, In, Kernel, Out, offered
from tinyc.kernel.site import Site, Type
from tinyc.ops.op import Op, Trait, Unquantized
from tinyc.ops.signals import bit_length, need, need_between, no_reals

_SEGMENTS = 128
_TABLE_BYTES = 260
_MOST_SCALE = 1 << 15
_LN2 = 45426  # 2^16 ln 2, rounded


@dataclass(frozen=True, slots=True)
class SignalLog:
    """correction: bits; negative: to the right."""

    scale: int
    correction: int


def infer(a: SignalLog, x: Value) -> Sequence[Type]:
    need(x, "the input", "u32")
    need_between("the scale of the logarithm", a.scale, 0, _MOST_SCALE)
    need_between("the correction in bits", a.correction, -31, 31)
    return [Type(x.shape, "s16")]


@dataclass(frozen=True, slots=True)
class SignalLogParams:
    scale: int
    correction: int


def prepare(site: Site) -> SignalLogParams:
    return SignalLogParams(site.attrs.scale, site.attrs.correction)


def log_table() -> Array:
    """uint16 [130]: 2^16 (log2(1 + k / 128) - k / 128), and a 0 behind."""
    k = np.arange(_SEGMENTS + 1) / _SEGMENTS
    return np.append(np.round(65536 * (np.log2(1 + k) - k)), 0).astype(np.uint16)


_TABLE = log_table().astype(np.int64)


def logs(x: Array, scale: int, correction: int) -> Array:
    """uint32 -> int16."""
    wide = x.astype(np.int64)
    v = (wide << correction) & 0xFFFFFFFF if correction >= 0 else wide >> -correction
    n = np.maximum(bit_length(v) - 1, 0)
    rest = v - (np.int64(1) << n)
    fraction = np.where(n < 16, rest << np.maximum(16 - n, 0), rest >> np.maximum(n - 16, 0))
    segment = np.clip(fraction >> 9, 0, _SEGMENTS)
    low, high = _TABLE[segment], _TABLE[segment + 1]
    log2 = (n << 16) + fraction + low + (((high - low) * (fraction - (segment << 9))) >> 16)
    natural = (_LN2 * log2 + 32768) >> 16
    y = ((scale * natural + 32768) & 0xFFFFFFFF) >> 16
    return np.where(v > 1, np.minimum(y, 32767), 0).astype(np.int16)


def int_ref(p: SignalLogParams, x: Array) -> tuple[Array, ...]:
    return (logs(x, p.scale, p.correction),)


def lower(site: Site, p: SignalLogParams) -> Call:
    table = Const(log_table(), "[130]", "log2")
    return Call((In(0), table, site.x().elements, p.scale, p.correction, Out()))


OP = Op(
    name="signal_log",
    attrs=SignalLog,
    infer=infer,
    float_ref=no_reals,
    prepare=prepare,
    int_ref=int_ref,
    quant_in=(Unquantized(),),
    quant_out=(Unquantized(),),
    kernels=(
        Kernel(
            "tc_signal_log_u32",
            offered(lower, cost=CountedCost("tc_signal_log_u32", of_elements, _TABLE_BYTES)),
            inplace=(0,),
            shrinks=True,
        ),
    ),
    traits=frozenset({Trait.ANY_TYPE}),
)
