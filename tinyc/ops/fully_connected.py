# SPDX-License-Identifier: Apache-2.0
"""fully_connected: x flattened to [B,I], times w[O,I], plus b[O] -> y[B,O], with a fused activation."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from tinyc.base.dataclass import dataclass
from tinyc.base.errors import TinycError
from tinyc.base.exact import dot, weighted
from tinyc.ir.graph import Array, Value
from tinyc.kernel.counted import Units, counted_kernel
from tinyc.kernel.dsp import dot_fields, narrow_weights, pad_taps, paired_cost, pixels_kernel
from tinyc.kernel.float32 import Float32
from tinyc.kernel.kernel import Call, Const, In, Kernel, Out, Params, Struct, Tiled, offered
from tinyc.kernel.site import Act, Site, Type
from tinyc.kernel.types import is_s8
from tinyc.kernel.wide import MATRIX_KERNELS, Runtimes, WideParams, wide_params
from tinyc.kernel.windows import ConvParams, check_bias, conv_params, of_outputs
from tinyc.kernels import nibbles
from tinyc.kernels.float32 import matrix
from tinyc.kernels.float32 import weighted as weighted_f32
from tinyc.kernels.mve import conv as mve_conv
from tinyc.kernels.mve import s16 as s16_mve
from tinyc.kernels.rvv import conv as rvv_conv
from tinyc.kernels.scalar import dense as scalar_dense
from tinyc.kernels.scalar import pairs as scalar_pairs
from tinyc.kernels.scalar import rv32_dense
from tinyc.kernels.weighted import fully_connected as asm
from tinyc.kernels.weighted import input_stationary
from tinyc.kernels.weighted import s16 as s16_dsp
from tinyc.ops.batched import Batched, Gradients, active, finished
from tinyc.ops.op import Bias, Observed, Op, Trait, WeightRules


@dataclass(frozen=True, slots=True)
class FullyConnected:
    """keep_dims: y has x's shape but for the last axis, which must be I; otherwise y is [B,O]."""

    act: Act = Act()
    keep_dims: bool = False


def infer(a: FullyConnected, x: Value, w: Value, b: Value | None = None) -> Sequence[Type]:
    whole = len(w.shape) == 2 and x.elements % w.shape[1] == 0 and w.shape[1] % x.channels == 0
    if not whole or (a.keep_dims and x.shape[-1:] != w.shape[1:]):
        raise TinycError(f"weights {list(w.shape)} do not fit input {list(x.shape)}; they are [O,I]")
    out_c, in_c = w.shape
    check_bias(b, out_c)
    batch = x.shape[:-1] if a.keep_dims else (x.elements // in_c,)
    return [Type((*batch, out_c), x.dtype)]


def _accumulate(a: FullyConnected, x: Array, w: Array) -> Array:
    """Sums of products, y's shape, in the arrays' own dtype."""
    batch = x.shape[:-1] if a.keep_dims else (x.size // w.shape[1],)
    return dot(x.reshape(-1, w.shape[1]), w.T).reshape(*batch, w.shape[0])


def float_ref(a: FullyConnected, x: Array, w: Array, b: Array | None = None) -> tuple[Array, ...]:
    y = _accumulate(a, x, w)
    if b is not None:
        y = y + b
    return (a.act.clip(y),)


RUNTIMES = Runtimes(short_sums=True)  # on int16


def prepare(site: Site) -> ConvParams | WideParams:
    if site.x(0).dtype == "s16":
        return wide_params(site, RUNTIMES)
    return conv_params(site, 0)


def int_ref(p: ConvParams | WideParams, x: Array, *_: Array | None) -> tuple[Array, ...]:
    # float64 products and sums of int8 are exact (below 2^53) and use BLAS, int64 matmul does not.
    acc = _accumulate(p.attrs, x.astype(np.float64), p.w.astype(np.float64))
    return (p.finish(acc.astype(np.int64) + p.bias),)


def macs(site: Site) -> int:
    """Output elements times inputs of each."""
    return site.y().elements * site.x(1).shape[1]


def lower(site: Site, p: ConvParams) -> Call:
    """tc_fully_connected_s8: the whole tensor."""
    out_c, in_c = p.w.shape
    fields = {
        "w": Const(p.w, "[out_c][in_c]", "w"),
        **p.struct_fields(),
        "batch": site.y().elements // out_c,
        "in_c": in_c,
        "out_c": out_c,
    }
    return Call((Params(), In(0), Out()), Struct("tc_fully_connected_s8_t", fields))


def is_many_rows(site: Site) -> bool:
    """more than one row of inputs"""
    return not asm.is_one_row(site)


def lower_row(site: Site, p: ConvParams) -> Call:
    """tc_fully_connected_s8_row_dsp: the whole tensor, of one row."""
    fields = {**dot_fields(p, pad_taps(p.w), 8, "[out_c][in_c]"), "in_c": p.w.shape[1]}
    return Call((Params(), In(0), Out()), Struct("tc_fully_connected_s8_row_dsp_t", fields))


def of_row(site: Site, p: ConvParams) -> Units:
    """What tc_fully_connected_s8_row_dsp repeats: words of four inputs for eight outputs and for one, their calls, and
    outputs."""
    out_c, in_c = p.w.shape
    blocks, alone, words = out_c // 8, out_c % 8, -(-in_c // 4)
    tails = in_c % 4 != 0
    return {
        "word": blocks * words,
        "word alone": alone * words,
        "block": blocks,
        "tail": blocks * tails,
        "tail alone": alone * tails,
        **of_outputs(p, out_c),
        "row": 1,
    }


def per_input(w: Array, channels: Array) -> npt.NDArray[np.float64]:
    """One number per input channel, as it broadcasts against w[O,I]: a flattened image repeats its channels."""
    return np.tile(channels.astype(np.float64), w.shape[1] // len(channels))


def windows(a: FullyConnected, w: Array, x: Array, at: npt.NDArray[np.int64] | None) -> Array:
    """`WeightRules.windows`."""
    rows = x.reshape(1, -1, w.shape[1])
    return rows if at is None else rows[:, at]


def forward(a: FullyConnected, x: Array, w: Array, b: Array | None = None) -> Array:
    return _shaped(a, x, w, finished(a, dot(x.reshape(-1, w.shape[1]), w.T), b))


def in_steps(
    a: FullyConnected,
    x: Array,
    w: Array,
    b: Array | None,
    steps: tuple[float, float],
    w_steps: npt.NDArray[np.float64] | None,
) -> Array:
    """`Batched.in_steps`."""
    rows = x.reshape(-1, w.shape[1])
    return _shaped(
        a, x, w, weighted(lambda x, w: np.asarray(x @ w.T), rows, w, steps, w_steps, lambda y: finished(a, y, b))
    )


def _shaped(a: FullyConnected, x: Array, w: Array, y: Array) -> Array:
    return y.reshape(*x.shape[:-1], len(w)) if a.keep_dims else y.reshape(len(x), -1, len(w))


def backward(a: FullyConnected, inputs: Sequence[Array], y: Array, dy: Array) -> Gradients:
    x, w = inputs[0], inputs[1]
    flat = active(a, y, dy).reshape(-1, len(w))
    return (dot(flat, w).reshape(x.shape), *[None] * (len(inputs) - 1))


def of_products(site: Site, p: ConvParams) -> Units:
    """Products, and sums that become outputs."""
    return {"product": macs(site), **of_outputs(p, site.y().elements)}


OP = Op(
    name="fully_connected",
    attrs=FullyConnected,
    infer=infer,
    float_ref=float_ref,
    prepare=prepare,
    int_ref=int_ref,
    quant_in=(Observed(), Observed(axis=0, symmetric=True), Bias()),
    quant_out=(Observed(),),
    kernels=(
        *mve_conv.FULLY_CONNECTED_KERNELS,
        *rvv_conv.DENSE,
        Tiled("register tiles of SMLAD", (*asm.KERNELS, *input_stationary.KERNELS)),
        Kernel(
            "tc_fully_connected_s8_row_dsp",
            offered(lower_row, cost=paired_cost("tc_fully_connected_s8_row_dsp", of_row, read="row")),
            isa=frozenset({"dsp"}),
            when=(is_s8, narrow_weights, asm.is_one_row),
        ),
        pixels_kernel(is_many_rows),
        *rv32_dense.KERNELS,
        *scalar_pairs.KERNELS,
        *scalar_dense.KERNELS,
        counted_kernel("tc_fully_connected_s8", lower, of_products, when=(is_s8,)),
        *s16_mve.DENSE,
        *s16_dsp.DENSE,
        *MATRIX_KERNELS,
        *asm.INT4_KERNELS,
        scalar_dense.INT4_KERNEL,
        *nibbles.DENSE,
        matrix.DENSE_MVE,
        matrix.DENSE,
        weighted_f32.DENSE,
    ),
    macs=macs,
    weights=WeightRules(
        per_input,
        groups=lambda a, in_c: 1,
        windows=windows,
        as_rows=lambda w, groups: w[None],
        from_rows=lambda rows, shape: rows[0],
    ),
    traits=frozenset({Trait.FUSES_CLIP, Trait.ANY_SCALES, Trait.INT16, Trait.ALL_AT_ONCE}),
    float32=Float32(weighted_f32.dense_ref),
    batched=Batched(forward, backward, in_steps),
)
