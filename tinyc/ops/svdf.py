# SPDX-License-Identifier: Apache-2.0
"""svdf: a layer that remembers: each filter takes a number from x, and weighs those of the last `memory` runs.

x [1,I]; features w [F,I]; times w [F,M]; bias [U]; state [1,F*M], oldest run first. F = U * rank.

    state'[f] = state[f] without its oldest, and x . features[f]
    y[u]      = act(bias[u] + sum over the `rank` filters f of unit u of state'[f] . times[f])

Akin to a fully connected layer over the last M inputs, its weights factored: Nakkiran et al., "Compressing deep neural
networks using a rank-constrained topology" (2015).
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from tinyc.base import exact
from tinyc.base.dataclass import dataclass
from tinyc.base.errors import TinycError
from tinyc.base.numerics import Numerics, Rounding
from tinyc.base.requantize import quantize_multiplier, requantize
from tinyc.ir.graph import INT_RANGE, NUMPY_DTYPE, Array, DType, Value
from tinyc.kernel.counted import CountedCost, Units
from tinyc.kernel.dsp import narrow_weights, pack, pad_taps
from tinyc.kernel.float32 import Float32
from tinyc.kernel.kernel import (
    Call,
    Const,
    Cost,
    In,
    Kernel,
    Out,
    Params,
    Scratch,
    SpecializedKernel,
    Struct,
    offered,
    planned,
)
from tinyc.kernel.site import Act, Site, Type
from tinyc.kernel.windows import check_bias
from tinyc.kernels.float32 import recurrent
from tinyc.kernels.mve import svdf as mve
from tinyc.ops.op import Bias, Observed, Op, SameAs, Trait, Unquantized

_MOST_TAPS = 512  # of a dot product: 512 * 127 * 128 < 2^23, as tc_dsp.h asks


@dataclass(frozen=True, slots=True)
class Svdf:
    """rank: filters per unit."""

    rank: int = 1
    act: Act = Act()


def infer(a: Svdf, x: Value, w: Value, times: Value, b: Value | None, state: Value) -> Sequence[Type]:
    if len(w.shape) != 2 or len(times.shape) != 2 or w.shape[0] != times.shape[0] or x.shape != (1, w.shape[1]):
        raise TinycError(f"SVDF weights {list(w.shape)} and {list(times.shape)} do not fit input {list(x.shape)}")
    filters, memory = times.shape
    if a.rank < 1 or filters % a.rank:
        raise TinycError(f"SVDF with {filters} filters of rank {a.rank} is not possible")
    check_bias(b, filters // a.rank)
    if state.elements != filters * memory:
        raise TinycError(f"the state of SVDF is {list(state.shape)}, it needs {filters} x {memory} numbers")
    return [Type((1, filters // a.rank), x.dtype), Type(state.shape, state.dtype)]


def float_ref(a: Svdf, x: Array, w: Array, times: Array, b: Array | None, state: Array) -> tuple[Array, ...]:
    after = _shifted(state.reshape(times.shape), exact.product(w, x[0][:, None])[:, 0])
    y = (after * times).sum(axis=1).reshape(-1, a.rank).sum(axis=1)
    if b is not None:
        y = y + b
    return a.act.clip(y[None]), after.reshape(state.shape).astype(np.float32)


def _shifted(state: Array, newest: Array) -> Array:
    """[F,M]: every filter's numbers moved by one, the newest last."""
    return np.concatenate([state[:, 1:], newest[:, None]], axis=1)


@dataclass(frozen=True, slots=True)
class SvdfParams:
    """Integers of the layer: clamp(requantize(feature_bias[f] + x . w[f], in_mult, in_shift)) + state_zero goes into
    the state, and y[u] = clamp(requantize(bias[u] + sum, mult, shift) + y_zero, y_min, y_max).

    feature_bias: -x_zero * sum(w[f]). bias: less state_zero times the sum of the unit's times. The sums over time wrap
    as int32 does, where the weights allow them to leave it.
    """

    rank: int
    w: Array
    times: Array
    feature_bias: npt.NDArray[np.int32]
    bias: npt.NDArray[np.int32]
    in_mult: int
    in_shift: int
    mult: int
    shift: int
    rounding: Rounding
    y_zero: int
    y_min: int
    y_max: int
    state_dtype: DType
    state_zero: int  # of int8; int16 has none

    def run(self, x: Array, state: Array) -> tuple[Array, Array]:
        lo, hi = INT_RANGE[self.state_dtype]
        acc = self.feature_bias.astype(np.int64) + self.w.astype(np.int64) @ x[0].astype(np.int64)
        newest = np.clip(requantize(acc, self.in_mult, self.in_shift, self.rounding), lo, hi) + self.state_zero
        after = _shifted(state.reshape(self.times.shape), newest.astype(state.dtype))  # wraps, as theirs does
        sums = (after.astype(np.int64) * self.times).sum(axis=1).reshape(-1, self.rank).sum(axis=1)
        wrapped = (sums + self.bias + (1 << 31)) % (1 << 32) - (1 << 31)
        y = requantize(wrapped, self.mult, self.shift, self.rounding) + self.y_zero
        return np.clip(y, self.y_min, self.y_max).astype(np.int8)[None], after.reshape(state.shape)


def prepare(site: Site) -> SvdfParams:
    """TinycError for values that the integer layer does not take, or where a sum over the input could leave int32."""
    x, w, times, state, y = site.x(0), site.x(1), site.x(2), site.x(4), site.y()
    kinds = (x.dtype, w.dtype, y.dtype, times.dtype, state.dtype)
    if kinds not in (("s8", "s8", "s8", "s16", "s16"), ("s8", "s8", "s8", "s8", "s8")):
        raise TinycError(
            f"SVDF of {', '.join(kinds)} (input, features, output, times, state): the integer layer takes int8, "
            "with times and state both int16 or both int8",
            site.node.where,
        )
    if site.numerics is Numerics.LITERT and state.dtype == "s8":
        raise TinycError(
            "SVDF with an int8 state: desktop LiteRT reads it as int16",
            site.node.where,
            "build with --numerics tflm, or convert the model again with an int16 state",
        )
    if not site.is_const(1) or not site.is_const(2):
        raise TinycError("the weights of SVDF must be constants", site.node.where)
    (x_scale, x_zero), (w_scale, w_zero) = site.scale_zero(x), site.scale_zero(w)
    (t_scale, t_zero), (s_scale, s_zero) = site.scale_zero(times), site.scale_zero(state)
    y_scale, y_zero = site.scale_zero(y)
    if w_zero or t_zero or (s_zero and state.dtype != "s8"):
        raise TinycError("weights of SVDF, and a state of int16, need zero point 0", site.node.where)
    features = site.const(1).astype(np.int64)
    folded = -x_zero * features.sum(axis=1)
    # As TensorFlow Lite Micro: products of float32 scales, in float32.
    into = quantize_multiplier(float(np.float32(x_scale) * np.float32(w_scale) / np.float32(s_scale)))
    out = quantize_multiplier(float(np.float32(s_scale) * np.float32(t_scale) / np.float32(y_scale)))
    worst = int((np.abs(folded) + 128 * np.abs(features).sum(axis=1)).max()) << max(into[1], 0)
    if worst >= 2**31 or out[1] > 0:
        raise TinycError("a sum of SVDF, scaled up, could leave int32", site.node.where)
    units = features.shape[0] // site.attrs.rank
    bias = site.const(3).astype(np.int64) if site.has(3) else np.zeros(units, np.int64)
    bias = bias - s_zero * site.const(2).astype(np.int64).reshape(units, -1).sum(axis=1)
    # Both runtimes clamp to int8 only: they ask for a RELU and take the output's zero point for its least integer.
    is_theirs = site.numerics in (Numerics.TFLM, Numerics.LITERT)
    lo, hi = INT_RANGE[y.dtype] if is_theirs else site.attrs.act.range_of(y)
    return SvdfParams(
        rank=site.attrs.rank,
        w=site.const(1),
        times=site.const(2),
        feature_bias=folded.astype(np.int32),
        bias=bias.astype(np.int32),
        in_mult=into[0],
        in_shift=into[1],
        mult=out[0],
        shift=out[1],
        rounding=site.builtin_rounding,
        y_zero=y_zero,
        y_min=lo,
        y_max=hi,
        state_dtype=state.dtype,
        state_zero=s_zero,
    )


def int_ref(p: SvdfParams, x: Array, w: Array, times: Array, b: Array | None, state: Array) -> tuple[Array, ...]:
    return p.run(x, state)


def macs(site: Site) -> int:
    """Products with features, and with times."""
    return site.x(1).elements + site.x(2).elements


def has_wide_state(site: Site) -> bool:
    """int8 input and output, constant weights, times and state int16"""
    return _kinds(site) == ("s8", "s8", "s16", "s16", "s8") and site.is_const(1) and site.is_const(2)


def has_byte_state(site: Site) -> bool:
    """int8 input and output, constant weights, times and state int8"""
    return _kinds(site) == ("s8", "s8", "s8", "s8", "s8") and site.is_const(1) and site.is_const(2)


def _kinds(site: Site) -> tuple[DType, ...]:
    return (*(site.x(index).dtype for index in (0, 1, 2, 4)), site.y().dtype)


def lower(site: Site, p: SvdfParams) -> Call:
    """tc_svdf_s8, tc_svdf_s8_s8: the whole layer, the state over the old one or elsewhere."""
    spare = -len(p.w) % 4
    fours = np.pad(p.w, ((0, spare), (0, 0))).reshape(-1, 4, p.w.shape[1]).transpose(0, 2, 1)
    fields = {"features": Const(fours, "[fours of filters][in_c][4]", "w"), **_fields(p, spare)}
    if p.state_dtype == "s8":
        fields["state_zero"] = p.state_zero
    ctype = "tc_svdf_s8_t" if p.state_dtype == "s16" else "tc_svdf_s8_s8_t"
    return Call((Params(), In(0), In(4), Out(0), Out(1)), Struct(ctype, fields))


def _fields(p: SvdfParams, spare: int) -> dict[str, int | float | str | Const]:
    """All but the features. spare: filters of zeros behind the last."""
    return {
        "times": Const(p.times.astype(NUMPY_DTYPE[p.state_dtype]), "[filters][memory]", "times"),
        "feature_bias": Const(np.pad(p.feature_bias, (0, spare)), "[filters]", "feature_bias"),
        "bias": Const(p.bias, "[units]", "bias"),
        "filters": len(p.w),
        "rank": p.rank,
        "memory": p.times.shape[1],
        "in_c": p.w.shape[1],
        **{name: getattr(p, name) for name in ("in_mult", "in_shift", "mult", "shift")},
        "rounds": p.rounding.code,
        **{name: getattr(p, name) for name in ("y_zero", "y_min", "y_max")},
    }


def fits_dots(site: Site) -> bool:
    """features in [-127, 127], at most 512 inputs"""
    return narrow_weights(site) and site.x(1).shape[1] <= _MOST_TAPS


def scratch_dsp(site: Site, p: SvdfParams) -> int:
    """The input as int16."""
    return 2 * int(pad_taps(p.w).shape[1])


def lower_dsp(site: Site, p: SvdfParams) -> Call:
    """tc_svdf_s8_dsp: the whole layer."""
    spare = -len(p.w) % 8
    rows = np.pad(pad_taps(p.w), ((0, spare), (0, 0)))
    features = Const(pack(rows, 8), "[filters][in_c], packed by 8 filters (tc_dsp.h)", "w")
    fields = {"features": features, **_fields(p, spare), "words": rows.shape[1] // 4}
    return Call((Params(), In(0), In(4), Out(0), Out(1), Scratch()), Struct("tc_svdf_s8_dsp_t", fields))


def of_filters(site: Site, p: SvdfParams) -> Units:
    """Products with the input, numbers of the state, filters and units."""
    filters = len(p.times)
    return {"product": p.w.size, "moved": p.times.size, "filter": filters, "unit": filters // p.rank}


def weight_bytes(site: Site, p: SvdfParams) -> int:
    """Of weights and biases."""
    filters = len(p.times)
    return p.w.nbytes + p.times.nbytes + 4 * filters + 4 * filters // p.rank


def is_vectored(site: Site) -> bool:
    """int8 input and output, constant weights, times and state both int16 or both int8; the numerics tflm or litert"""
    return (has_wide_state(site) or has_byte_state(site)) and site.builtin_rounding is Rounding.DOUBLE


_MVE_ASKS = "sums over the input that are scaled by less than 2^31, a state with zero point 0"


def plan_mve(site: Site, p: SvdfParams) -> mve.SvdfLayer | None:
    if p.in_shift > 30 or p.state_zero:
        return None
    filters, memory = p.times.shape
    factors = (p.in_mult, p.in_shift), (p.mult, p.shift)
    clamp = (p.y_min, p.y_max)
    return mve.SvdfLayer(p.w.shape[1], filters, p.rank, memory, p.times.dtype.itemsize, *factors, p.y_zero, clamp)


def _stream(p: SvdfParams) -> npt.NDArray[np.int32]:
    return mve.stream(mve.SvdfWeights(p.w, p.feature_bias, p.times, p.bias))


def lower_mve(work: mve.SvdfLayer, site: Site, p: SvdfParams) -> Call:
    """tc_svdf_s8_mve: the whole layer, the state over the old one or elsewhere."""
    return Call((Const(_stream(p), "stream of tc_svdf_s8_mve.h", "stream"), In(0), In(4), Out(0), Out(1)))


def cost_mve(work: mve.SvdfLayer, site: Site, p: SvdfParams) -> Cost:
    """Exact but for the step around the calls; cycles are an upper bound for a Cortex-M55."""
    executed, code = mve.work(work)
    return Cost(executed.instructions, _stream(p).nbytes + code, 0, executed.cycles)


def special_mve(work: mve.SvdfLayer, site: Site, p: SvdfParams) -> SpecializedKernel:
    return mve.special(work)


OP = Op(
    name="svdf",
    attrs=Svdf,
    infer=infer,
    float_ref=float_ref,
    prepare=prepare,
    int_ref=int_ref,
    quant_in=(Observed(), Observed(symmetric=True), Observed(symmetric=True), Bias(), Unquantized()),
    quant_out=(Observed(), SameAs(4)),
    kernels=(
        Kernel(
            mve.NAME,
            planned(plan_mve, _MVE_ASKS, call=lower_mve, cost=cost_mve, special=special_mve),
            isa=frozenset({"mve"}),
            when=(is_vectored,),
            asks=_MVE_ASKS,
            written=True,
        ),
        Kernel(
            "tc_svdf_s8_dsp",
            offered(lower_dsp, scratch=scratch_dsp, cost=CountedCost("tc_svdf_s8_dsp", of_filters, flash=weight_bytes)),
            isa=frozenset({"dsp"}),
            when=(has_wide_state, fits_dots),
        ),
        *(
            Kernel(name, offered(lower, cost=CountedCost(name, of_filters, flash=weight_bytes)), when=(has_state,))
            for name, has_state in (("tc_svdf_s8", has_wide_state), ("tc_svdf_s8_s8", has_byte_state))
        ),
        recurrent.SVDF,
    ),
    macs=macs,
    updates=((1, 4),),
    traits=frozenset({Trait.ANY_TYPE, Trait.ALL_AT_ONCE}),
    float32=Float32(recurrent.svdf_ref),
)
