# SPDX-License-Identifier: Apache-2.0
"""spectrum_log: logarithms to base 2 of what bands hold, in 1 / 2^20, without the scale of the samples.

x uint64 [C], s int32 [], least int32 [C], add uint64 [C] (optional) -> y int32 [C].

    v = max(x + add * 2^(k s), 1) modulo 2^64,  y = max(2^20 (log2(v) - k s), least)

k is 1 for magnitudes and 2 for powers; of s the lowest 4 bits count. The logarithm is the place of the highest bit and
a table of 128 steps, with straight lines in between: at most 1.2e-5 too small.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from tinyc.base.dataclass import dataclass
from tinyc.base.errors import TinycError
from tinyc.ir.graph import Array, Value
from tinyc.kernel.counted import CountedCost, of_elements
from tinyc.kernel.kernel import Call, Const, In, Kernel, Out, Params, Struct, offered
from tinyc.kernel.site import Site, Type
from tinyc.ops.op import Op, Trait, Unquantized
from tinyc.ops.signals import bit_length, need, need_between, need_length, no_reals

FRACTION = 20  # bits of the result behind the point
_STEPS = 128
ADD_BITS = 33  # of a number that is added, so that the largest scale leaves it in 64 bits


@dataclass(frozen=True, slots=True)
class SpectrumLog:
    """power: k."""

    power: int


def infer(a: SpectrumLog, x: Value, s: Value, least: Value, add: Value | None = None) -> Sequence[Type]:
    need(x, "the input", "u64")
    need(s, "the scale", "s32")
    need(least, "the least results", "s32")
    need_between("the power", a.power, 1, 2)
    need_length(s, "the scale", 1)
    need_length(least, "the least results", x.elements)
    if add is not None:
        need(add, "what is added", "u64")
        need_length(add, "what is added", x.elements)
    return [Type(x.shape, "s32")]


@dataclass(frozen=True, slots=True)
class LogParams:
    power: int


def prepare(site: Site) -> LogParams:
    """TinycError where what is added is computed or too large."""
    for index in (2, 3) if site.has(3) else (2,):
        if not site.is_const(index):
            raise TinycError("the least results, and what is added, have to be constants", site.node.where)
    if site.has(3) and int(site.const(3).max()) >> ADD_BITS:
        raise TinycError(f"what is added has more than {ADD_BITS} bits", site.node.where)
    return LogParams(site.attrs.power)


def log_table() -> Array:
    """int32 [129]: 2^20 log2(1 + k / 128)."""
    return np.round(np.log2(1 + np.arange(_STEPS + 1) / _STEPS) * (1 << FRACTION)).astype(np.int32)


_TABLE = log_table().astype(np.int64)


def _whole(v: Array) -> Array:
    """uint64 > 0 -> the place of the highest bit, from 0; float64 may round up to the next power."""
    n = np.minimum(bit_length(v) - 1, 63)
    return n - ((v >> n.astype(np.uint64)) == 0)


def logs(power: int, x: Array, shift: Array, least: Array, add: Array | None) -> Array:
    """uint64 [C, lines], int32 [lines]; least, add [C] -> int32 [C, lines]."""
    octaves = power * (shift.astype(np.int64) & 15)
    v = x if add is None else x + (add[:, None] << octaves.astype(np.uint64))
    v = np.maximum(v, np.uint64(1))
    n = _whole(v)
    fraction = ((v << (63 - n).astype(np.uint64)) & np.uint64((1 << 63) - 1)) >> np.uint64(31)  # 32 bits
    step = (fraction >> np.uint64(25)).astype(np.int64)
    rest = ((fraction >> np.uint64(9)) & np.uint64(0xFFFF)).astype(np.int64)
    low, high = _TABLE[step], _TABLE[step + 1]
    y = ((n - octaves) << FRACTION) + low + (((high - low) * rest) >> 16)
    return np.maximum(y, least[:, None]).astype(np.int32)


def int_ref(p: LogParams, x: Array, s: Array, least: Array, add: Array | None = None) -> tuple[Array, ...]:
    with np.errstate(over="ignore"):
        return (logs(p.power, x.reshape(-1, 1), s.reshape(1), least.reshape(-1), add).reshape(x.shape),)


def lower(site: Site, p: LogParams) -> Call:
    fields: dict[str, int | float | str | Const] = {
        "table": Const(log_table(), "[129]", "log2"),
        "least": Const(site.const(2).reshape(-1), "[n]", "least"),
        "add": Const(words(site.const(3)), "[n][2]: low, high", "add") if site.has(3) else 0,
        "n": site.x().elements,
        "power": p.power,
    }
    return Call((Params(), In(0), In(1), Out()), Struct("tc_spectrum_log_t", fields))


def words(numbers: Array) -> Array:
    """uint64 -> uint32 [.., 2], the low one first."""
    both = [numbers.reshape(-1) & np.uint64(0xFFFFFFFF), numbers.reshape(-1) >> np.uint64(32)]
    return np.stack(both, axis=-1).astype(np.uint32)


def table_bytes(site: Site, p: LogParams) -> int:
    return 516 + 12 * site.x().elements


OP = Op(
    name="spectrum_log",
    attrs=SpectrumLog,
    infer=infer,
    float_ref=no_reals,
    prepare=prepare,
    int_ref=int_ref,
    quant_in=(Unquantized(),),
    quant_out=(Unquantized(),),
    kernels=(
        Kernel(
            "tc_spectrum_log",
            offered(lower, cost=CountedCost("tc_spectrum_log", of_elements, flash=table_bytes)),
            inplace=(0,),
            shrinks=True,
        ),
    ),
    traits=frozenset({Trait.ANY_TYPE}),
)
