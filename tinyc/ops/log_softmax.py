# SPDX-License-Identifier: Apache-2.0
"""log_softmax over the last axis: y = x - log(sum(exp(x))). Output scale 1/16, zero point 127."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from tinyc.base import exact, fixedpoint
from tinyc.base.dataclass import dataclass
from tinyc.base.errors import TinycError
from tinyc.base.numerics import Numerics, Rounding
from tinyc.base.requantize import quantize_multiplier, requantize, rounding_divide_by_pot
from tinyc.ir.graph import Array, Value
from tinyc.kernel.counted import CountedCost, of_last_axis
from tinyc.kernel.float32 import Float32
from tinyc.kernel.kernel import Call, Const, In, Kernel, Out, Params, Struct, offered
from tinyc.kernel.site import Site, Type, s8_to_s8
from tinyc.kernels.float32 import pools
from tinyc.ops.op import Fixed, Observed, Op, Trait
from tinyc.ops.softmax import fixed_exps
from tinyc.ops.tables import need_scale

_DIFF_BITS, _SUM_BITS, _OUT_BITS = 5, 12, 4  # integer bits of differences, of the sum, of the output
_DOWN = 31 - _DIFF_BITS - _OUT_BITS
_MAX_DEPTH = 2**_SUM_BITS - 1


@dataclass(frozen=True, slots=True)
class LogSoftmax:
    """No attributes."""


def infer(a: LogSoftmax, x: Value) -> Sequence[Type]:
    if not x.shape:
        raise TinycError(f"log_softmax takes a tensor with at least one axis, '{x.name}' is a scalar")
    return [Type(x.shape, x.dtype)]


def float_ref(a: LogSoftmax, x: Array) -> tuple[Array, ...]:
    below = x - x.max(axis=-1, keepdims=True)
    return ((below - exact.log(exact.exp(below).sum(axis=-1, keepdims=True))).astype(np.float32),)


@dataclass(frozen=True, slots=True)
class FixedLogSoftmax:
    """y = clamp(round((d - log(sum of exps)) / 2^22) + 127), d = requantize(x - max, mult, shift) in Q5.26.

    exps[k]: exp of the k-th step below the maximum, Q0.31; beyond the table it counts as 0. What lies more than `most`
    steps below is -128.
    """

    exps: npt.NDArray[np.int32]
    mult: int
    shift: int
    most: int

    def run(self, x: Array) -> Array:
        below = x.max(axis=-1, keepdims=True).astype(np.int64) - x
        exps = np.zeros(256, np.int64)
        exps[: len(self.exps)] = self.exps
        total = rounding_divide_by_pot(exps[below], _SUM_BITS).sum(axis=-1, keepdims=True)
        logs = np.array([fixedpoint.log_of_sum(int(v)) for v in total.ravel()], np.int64).reshape(total.shape)
        near = requantize(-np.minimum(below, self.most), self.mult, self.shift, Rounding.DOUBLE)
        y = rounding_divide_by_pot(near - logs, _DOWN) + 127
        return np.where(below <= self.most, np.clip(y, -128, 127), -128).astype(np.int8)


def prepare(site: Site) -> FixedLogSoftmax:
    if not is_fixed(site):
        raise TinycError("log_softmax is known for numerics tflm, single and onnx only", site.node.where)
    if (site.x(0).dtype, site.y().dtype) != ("s8", "s8"):
        raise TinycError(f"log_softmax of {site.x(0).dtype}: the integer operator takes int8", site.node.where)
    need_scale(site, 1 / 16, 127)
    if site.x(0).shape[-1] > _MAX_DEPTH:
        raise TinycError(f"log_softmax over {site.x(0).shape[-1]} elements; at most {_MAX_DEPTH}", site.node.where)
    scale, _ = site.scale_zero(site.x(0))
    exps = fixed_exps(1.0, scale, 8)
    mult, shift = quantize_multiplier(min(scale * 2.0 ** (31 - _DIFF_BITS), 2.0**31 - 1))
    most = math.floor((2.0**_DIFF_BITS - 1) * 2.0 ** (31 - _DIFF_BITS) / 2.0**shift)
    return FixedLogSoftmax(exps, mult, shift, min(most, 255))


def int_ref(p: FixedLogSoftmax, x: Array) -> tuple[Array, ...]:
    return (p.run(x),)


def is_fixed(site: Site) -> bool:
    """numerics other than litert"""
    return site.numerics is not Numerics.LITERT


def lower(site: Site, p: FixedLogSoftmax) -> Call:
    """tc_log_softmax_s8: fixed point."""
    depth = site.x(0).shape[-1]
    fields: dict[str, int | float | str | Const] = {
        "exps": Const(p.exps, "[steps below the maximum] Q0.31", "exp"),
        "exp_count": len(p.exps),
        "outer": site.x(0).elements // depth,
        "depth": depth,
        "mult": p.mult,
        "shift": p.shift,
        "most": p.most,
    }
    return Call((Params(), In(0), Out()), Struct("tc_log_softmax_s8_t", fields))


def table_bytes(site: Site, p: FixedLogSoftmax) -> int:
    """Of the exponentials."""
    return 4 * len(p.exps)


OP = Op(
    name="log_softmax",
    attrs=LogSoftmax,
    infer=infer,
    float_ref=float_ref,
    prepare=prepare,
    int_ref=int_ref,
    quant_in=(Observed(),),
    quant_out=(Fixed(1 / 16, 127),),
    kernels=(
        Kernel(
            "tc_log_softmax_s8",
            offered(lower, cost=CountedCost("tc_log_softmax_s8", of_last_axis, flash=table_bytes)),
            when=(s8_to_s8, is_fixed),
            inplace=(0,),
        ),
        pools.LOG_SOFTMAX,
    ),
    traits=frozenset({Trait.LAST_AXIS}),
    float32=Float32(pools.log_softmax_ref),
)
