# SPDX-License-Identifier: Apache-2.0
"""Weights and output constants as the DSP kernels want them; tc_dsp.h says what they mean."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt

from tinyc.base.numerics import Rounding
from tinyc.base.requantize import float_factor, requantize
from tinyc.ir.graph import Array
from tinyc.kernel.counted import CountedCost, Units
from tinyc.kernel.kernel import (
    Call,
    Condition,
    Const,
    In,
    Kernel,
    Out,
    Params,
    Scratch,
    Struct,
    buffered_flow,
    offered,
)
from tinyc.kernel.site import Site
from tinyc.kernel.types import is_s8
from tinyc.kernel.windows import ConvParams, accumulator_bounds, of_outputs

Fields = dict[str, int | float | str | Const]

_SUM_LIMIT = 2**23  # of the packed products of one dot product
_SAFE_UNITS = 128  # 4 * 128 taps * 127 * 128 < 2^23
_MAX_SHIFT = 22  # y_zero * 2^shift must leave room for the product in int32
_CYCLES = 1.37  # of an instruction of these kernels, on a Cortex-M4


def narrow_weights(site: Site) -> bool:
    """weights in [-127, 127]"""
    return site.is_const(1) and int(site.const(1).min(initial=0)) >= -127


def of_pairs(p: ConvParams, taps: npt.NDArray[np.int8], rows: int, columns: int) -> Units:
    """What kernels for pairs of pixels repeat: products of both pixels with channels in fours, and with the others;
    taps that are unpacked for both, outputs, pairs of pixels, rows. Those in fours are C in chunks where assembly does
    not take the layer. taps: the weights [O, K]. rows, columns: of the output; the last of an odd number of columns
    makes a pair with itself."""
    out_c, depth = taps.shape
    pairs, alone = rows * -(-columns // 2), out_c % 4
    in_fours = pairs * depth * (out_c - alone)
    chunks = way_of(p, taps) == 0
    return {
        "product": in_fours * (not chunks),
        "product in chunks": in_fours * chunks,
        "product alone": pairs * depth * alone,
        "tap": pairs * depth,
        **of_outputs(p, rows * columns * out_c),
        "pair": pairs,
        "row": rows,
    }


def paired_cost(kernel: str, units: Callable[[Site, Any], Units], read: str = "pair") -> CountedCost:
    """Of such a kernel, which reads all weights for each pair. read: of another one, the unit for which it does."""
    return CountedCost(kernel, units, read=read, pace=_CYCLES)


def pixels_kernel(*when: Condition) -> Kernel:
    """tc_conv2d_1x1_s8_dsp: every pixel, or row of inputs, times the weights [O, ..., I]. when: conditions beside those
    on the weights."""

    def taps(p: ConvParams) -> npt.NDArray[np.int8]:
        return pad_taps(p.w.reshape(len(p.bias), -1))

    def pixels(site: Site) -> int:
        return site.y().elements // site.y().shape[-1]

    def scratch(site: Site, p: ConvParams) -> int:
        """Taps of two pixels as int16."""
        return 4 * taps(p).shape[1]

    def lower(site: Site, p: ConvParams) -> Call:
        out_c, in_c = len(p.bias), p.w.size // len(p.bias)
        fields = {**matrix_fields(p, taps(p), "[out_c][in_c]"), "pixels": pixels(site), "in_c": in_c}
        flow = buffered_flow(pixels(site), 2, in_c, out_c)
        return Call((Params(), In(0), Out(), Scratch()), Struct("tc_conv2d_1x1_s8_dsp_t", fields), flow=flow)

    def units(site: Site, p: ConvParams) -> Units:
        return of_pairs(p, taps(p), 1, pixels(site))

    return Kernel(
        "tc_conv2d_1x1_s8_dsp",
        offered(lower, scratch=scratch, cost=paired_cost("tc_conv2d_1x1_s8_dsp", units)),
        isa=frozenset({"dsp"}),
        when=(is_s8, narrow_weights, *when),
    )


def one_group(site: Site) -> bool:
    """one group"""
    return int(site.attrs.groups) == 1


def pad_taps(taps: Array) -> npt.NDArray[np.int8]:
    """[..., K] int8 with zeros appended to the last axis until it is a multiple of 4."""
    return np.asarray(with_spare(taps, -taps.shape[-1] % 4), np.int8)


def with_spare(taps: Array, spare: int) -> Array:
    """[..., K] with so many zeros behind the last axis; the array itself where there are none."""
    if not spare:
        return taps
    padded = np.zeros((*taps.shape[:-1], taps.shape[-1] + spare), taps.dtype)
    padded[..., : taps.shape[-1]] = taps
    return padded


def pack(taps: npt.NDArray[np.int8], block: int) -> npt.NDArray[np.int32]:
    """[O, K] int8, K a multiple of 4 -> words of every `block` channels, then the rest as plain int8 words.

    In a block, unit by unit: the words of channel pairs (0,1), (2,3) ... for taps (0,2), then for (1,3); each
    half is 256 * first + second. Weights must lie in [-127, 127].
    """
    out_c, count = taps.shape
    blocks = out_c // block
    units = taps[: blocks * block].astype(np.int32).reshape(blocks, block // 2, 2, count // 4, 4)
    halves = 256 * units[:, :, 0] + units[:, :, 1]  # [blocks, pairs, units, taps]
    low, high = halves[..., [0, 1]], halves[..., [2, 3]]
    words = (low & 0xFFFF) | (high << 16)  # [blocks, pairs, units, (0,2) or (1,3)]
    rest = np.ascontiguousarray(taps[blocks * block :]).view("<i4")
    packed = words.transpose(0, 2, 3, 1).astype(np.int32)
    return np.concatenate([packed.ravel(), rest.ravel().astype(np.int32)])


def dot_fields(p: ConvParams, taps: npt.NDArray[np.int8], block: int, layout: str) -> Fields:
    """Packed weights, their `units` and `chunk`, and `out`, for weights [O, K] with K a multiple of 4."""
    units = taps.shape[1] // 4
    chunk = units if _fits_one_dot(taps) else min(units, _SAFE_UNITS)
    return {
        "w": Const(pack(taps, block), f"{layout}, packed by {block} channels (tc_dsp.h)", "w"),
        "units": units,
        "chunk": chunk,
        **{f"out.{name}": value for name, value in out_fields(p, taps).items()},
    }


def matrix_fields(p: ConvParams, taps: npt.NDArray[np.int8], layout: str) -> Fields:
    """Fields of the tc_dsp_matrix_t called `m` for weights [O, K], K a multiple of 4."""
    fields = dot_fields(p, taps, 4, layout)
    return {f"m.{name}": value for name, value in fields.items()} | {"m.blocks": f"tc_dsp_blocks_{way_of(p, taps)}"}


def way_of(p: ConvParams, taps: npt.NDArray[np.int8]) -> int:
    """The number of tc_dsp_blocks_<way>; 0: in chunks, in C. taps: weights [O, K], K a multiple of 4."""
    return int(out_fields(p, taps)["finish"]) if _fits_one_dot(taps) else 0  # type: ignore[arg-type]


def _fits_one_dot(taps: npt.NDArray[np.int8]) -> bool:
    """Whether the sums of every channel fit a packed dot product whatever the input."""
    return 128 * int(np.abs(taps.astype(np.int64)).sum(axis=1).max(initial=0)) < _SUM_LIMIT


def out_fields(p: ConvParams, taps: npt.NDArray[np.int8]) -> Fields:
    """Fields of a tc_dsp_out_t for a layer with weights [O, K]."""
    least, greatest = accumulator_bounds(taps.astype(np.int64), p.bias.astype(np.int64))
    worst = np.abs(p.bias.astype(np.int64)) + 128 * np.abs(taps.astype(np.int64)).sum(axis=1)
    mult, shift = _without_dead(p, least, greatest)
    finish = _finish(p, shift, int(worst.max(initial=0)))
    if finish == 0:
        is_float = p.rounding is Rounding.FLOAT
        mult = float_factor(p.mult, p.shift).view(np.int32) if is_float else p.mult
        shift, c = p.shift, np.zeros_like(p.mult)
    else:
        shift = -shift
        c = (np.left_shift(1, shift - 1) + np.left_shift(p.y_zero, shift)).astype(np.int32)
    scale = np.stack([mult, c, shift], axis=1).astype(np.int32)
    return {
        "bias": Const(p.bias, "[out_c]", "bias"),
        "scale": Const(scale, "[out_c][mult, c, shift]", "scale"),
        "out_c": len(p.bias),
        "finish": finish,
        "rounds": p.rounding.code,
        "y_zero": p.y_zero,
        "y_min": p.y_min,
        "y_max": p.y_max,
        "clamp": p.is_clamped,
    }


def _finish(p: ConvParams, shift: npt.NDArray[np.int32], worst: int) -> int:
    """The way from accumulator to output, as tc_dsp.h numbers them."""
    in_range = int(shift.min(initial=-1)) >= -_MAX_SHIFT and int(shift.max(initial=-1)) <= -1
    if p.rounding is Rounding.FLOAT or not in_range or worst >= 2**30:
        return 0
    if p.rounding is Rounding.SINGLE:
        return 1
    return 2 if p.y_min >= p.y_zero else 3


def _without_dead(
    p: ConvParams, least: npt.NDArray[np.int64], greatest: npt.NDArray[np.int64]
) -> tuple[npt.NDArray[np.int32], npt.NDArray[np.int32]]:
    """(mult, shift), with factor 0 for channels whose output is y_zero whatever the input.

    Their factor is tiny and its shift may be beyond what the fast ways take. Exact: scaling is monotone.
    """
    if p.rounding is Rounding.FLOAT:
        return p.mult, p.shift
    low = requantize(least, p.mult, p.shift, p.rounding)
    high = requantize(greatest, p.mult, p.shift, p.rounding)
    dead = (low == 0) & (high == 0)
    return np.where(dead, 0, p.mult).astype(np.int32), np.where(dead, -1, p.shift).astype(np.int32)
