# SPDX-License-Identifier: Apache-2.0
"""conv2d 3x3 of stride 1 by exact fast forms on cores without DSP instructions (tc_scalar_tiles.h).

A product of two transformed values takes a multiplication and an addition, as a tap does; tiles of 4x4 outputs have
36 of them where the definition has 144 taps, tiles of 2x2 have 16 for 36. Everything is computed modulo 2^32, so all
that has to be proved is that the multiples of the accumulators that come out fit int32: a bound from the weights.
"""

from __future__ import annotations

from dataclasses import replace
from functools import partial

import numpy as np
import numpy.typing as npt

from tinyc.kernel.kernel import (
    Call,
    Condition,
    Const,
    Cost,
    Fetches,
    In,
    Kernel,
    Out,
    Params,
    Scratch,
    SpecializedKernel,
    Struct,
    offered,
)
from tinyc.kernel.site import Site
from tinyc.kernel.types import is_s8_or_w4
from tinyc.kernel.windows import ConvParams, Window, accumulated, is_3x3, row_geometry
from tinyc.kernels.fast.bilinear import F2, F4, BilinearForm, nested_factors
from tinyc.kernels.form.function import LayerFunction
from tinyc.kernels.scalar.layer import CHANNEL_BYTES, greatest_sum, scale_fields
from tinyc.kernels.scalar.loops.headers import CORES, core_with
from tinyc.kernels.tile.shape import fast_tile_text

_LANES = 8  # output channels that a call of the products makes at most
_ACC_LIMIT = 2**28  # of what tc_scalar_scale takes
_SUM_LIMIT = 2**31
_CODE_BYTES = {"f2": 2600, "f4": 4400}  # of a layer, with what layers share
# Instructions on ARMv7-M: of the input's side for a channel of two tiles, of the output's side for a channel of a tile.
_INPUT, _OUTPUT = {"f2": 150, "f4": 640}, {"f2": 110, "f4": 420}
# Of the products: for an input channel of four output channels, and around them.
_CHANNEL, _AROUND = 13, 12


# ---- what all tiles share ----


def factors(w: npt.NDArray[np.int8], form: BilinearForm) -> npt.NDArray[np.int64]:
    """The weights' side of every product, int64[O, products of rows * products of columns, C]; w [O, 3, 3, C]."""
    return nested_factors(w, form, form.across).reshape(len(w), -1, w.shape[3])


def packed(sides: npt.NDArray[np.int64], segments: int = 1) -> npt.NDArray[np.int16]:
    """Factors [O, product, C] as [O / 4][segment][product][C / segments][4], O rounded up to a multiple of 8, channels
    of a segment of 4. Factors of int8 weights fit int16."""
    out_c, count, in_c = sides.shape
    channels = -(-in_c // (4 * segments)) * 4
    padded = np.pad(sides, ((0, -out_c % _LANES), (0, 0), (0, segments * channels - in_c)))
    fours = padded.reshape(-1, 4, count, segments, channels).transpose(0, 3, 2, 4, 1)
    return np.ascontiguousarray(fours).astype(np.int16)


def weights(p: ConvParams, form: BilinearForm, times: int = 1) -> Const:
    """The factors of the weights, `times` as large."""
    return Const(packed(times * factors(p.w, form))[:, 0], "[out_c / 4][product][in_c][4]", "w")


def constant_bytes(p: ConvParams, sides: int) -> int:
    """sides: factors of an output channel."""
    out_c = len(p.bias)
    return 2 * sides * -(-out_c // _LANES) * _LANES + CHANNEL_BYTES * out_c


def products_executed(p: ConvParams, sides: int, sums: int, channel: int = _CHANNEL) -> int:
    """Instructions of the products of tiles that share weights. sums: of an output channel; channel: instructions of
    an input channel of four products."""
    return -(-len(p.bias) // 4) * (channel * sides + _AROUND * sums)


def text(site: Site, count: int, outputs: tuple[int, int], most: int = _LANES) -> str:
    """So many tiles of these outputs, rows and columns, in words. most: output channels that share what is loaded."""
    return fast_tile_text(count, outputs, min(most, CORES[core_with(site.isa)].lanes), "int16 factors of weights")


# ---- stride 1, all at once ----


def _fits(site: Site, form: BilinearForm) -> bool:
    worst = greatest_sum(*accumulated(site, 0))
    return worst < _ACC_LIMIT and worst << (form.scale + form.most_raised) < _SUM_LIMIT


def fits_f2(site: Site) -> bool:
    """accumulators within 2^28"""
    return _fits(site, F2)


def fits_f4(site: Site) -> bool:
    """accumulators within 2^25"""
    return _fits(site, F4)


def lower(site: Site, p: ConvParams, form: BilinearForm) -> Call:
    """One call for the whole image; the rows of a tile are written when its input rows have been read."""
    rows = row_geometry(site, Window.of(p.attrs, 3, 3), p.x_zero)
    row = np.full(site.x(0).shape[2] * site.x(0).shape[3], p.x_zero, np.int8)
    fields = {
        "w": weights(p, form),
        "pad": Const(row, "[in_w][in_c] of x_zero", "pad"),
        **scale_fields(p, p.w.reshape(len(p.bias), -1), f"tc_scalar_tiles{form.m}"),
    }
    flow = replace(rows, pad=None, out_rows=form.m, buffered=True)
    return Call((Params(), In(0), Out(), Scratch()), Struct("tc_scalar_tiles_t", fields), flow=flow)


def specialize(site: Site, p: ConvParams, form: BilinearForm) -> SpecializedKernel:
    """The function of the layer: its sizes."""
    _, in_h, in_w, in_c = site.x(0).shape
    _, out_h, out_w, out_c = site.y().shape
    pad = p.attrs.pad
    sizes = (form.m, in_h, in_w, in_c, out_h, out_w, out_c, pad.top, pad.left)
    literals = ", ".join(map(str, sizes))
    shapes = f"{in_h}x{in_w}x{in_c} -> {out_h}x{out_w}x{out_c}"
    contract = f"""/* conv2d 3x3 by {form.products}x{form.products} products for {form.m}x{form.m} outputs, {shapes}: \
tc_scalar_tiles.h. scratch: word aligned. */"""
    driver = f"""static void @(const tc_scalar_tiles_t *p, const int8_t *x, int8_t *y, void *scratch)
{{
    tc_scalar_tiles_run(p, x, y, scratch, {literals});
}}"""
    stem = f"tc_conv2d_3x3_s8_tiles{form.m}_scalar_i{in_c}_o{out_c}"
    return LayerFunction(contract, driver=driver, tile=text(site, 2, (form.m, form.m))).named(stem, "tc_scalar_tiles.h")


def _across(site: Site, form: BilinearForm) -> int:
    """Pairs of tiles in a row."""
    return -(-site.y().shape[2] // (2 * form.m))


def scratch(site: Site, p: ConvParams, form: BilinearForm) -> int:
    """Factors of two tiles and sums of their products, and a strip as wide as the image."""
    channels, count = -(-p.w.shape[3] // 4) * 4, form.products**2
    columns = 2 * form.m * _across(site, form) + 2
    return 8 * count * (channels + _LANES) + 2 * channels * form.products * columns


def cost(site: Site, p: ConvParams, form: BilinearForm) -> Cost:
    """Estimate for ARMv7-M, on the scale of conv.py and rv32/conv.py."""
    out_c, in_c = len(p.bias), -(-p.w.shape[3] // 4) * 4
    pairs = _across(site, form) * -(-site.y().shape[1] // form.m)
    sums = form.products**2
    products = products_executed(p, sums * in_c, sums)
    executed = pairs * (products + in_c * _INPUT[form.name] + out_c * 2 * _OUTPUT[form.name])
    constants, code = constant_bytes(p, sums * in_c), _CODE_BYTES[form.name]
    return Cost(executed, constants, scratch(site, p, form), fetches=Fetches.around(constants, code, executed))


def _kernel(form: BilinearForm, fits: Condition) -> Kernel:
    return Kernel(
        f"tc_conv2d_3x3_s8_tiles{form.m}_scalar",
        offered(
            partial(lower, form=form),
            scratch=partial(scratch, form=form),
            cost=partial(cost, form=form),
            specialize=partial(specialize, form=form),
        ),
        when=(is_s8_or_w4, is_3x3, fits),
        written=True,
    )


KERNELS = (_kernel(F4, fits_f4), _kernel(F2, fits_f2))
