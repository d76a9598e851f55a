# SPDX-License-Identifier: Apache-2.0
"""conv2d 3x3 on Cortex-M with DSP by exact fast forms: fewer multiplications, more flash for the weights.

Tiles of 2x2 and of 4x4 outputs at stride 1, of 2x2 and of 2x4 at stride 2. Each with the product as a subroutine, or
(few channels, and not 2x2 at stride 1) with code for several in a row: a few kilobytes for a few percent. Weights are
transformed here, once; that the factors fit int16 and the sums int32 is proved from them. Where the factors fit int8,
as those of int4 weights do but for 4x4 outputs, two channels may lie over each other: half of the flash for one
instruction in eleven.
"""

from __future__ import annotations

from dataclasses import replace
from functools import cached_property, partial

import numpy as np
import numpy.typing as npt

from tinyc.base.dataclass import dataclass
from tinyc.ir.graph import Array
from tinyc.kernel.kernel import (
    Across,
    Call,
    Condition,
    Const,
    Cost,
    Fetches,
    In,
    Kernel,
    Once,
    Out,
    Scratch,
    SpecializedKernel,
    WrittenCode,
    planned,
)
from tinyc.kernel.site import Site
from tinyc.kernel.windows import ConvParams, Window, is_s8_or_w4, row_geometry
from tinyc.kernels.fast.bilinear import F2, F4, S2, S24, BilinearForm
from tinyc.kernels.fast.product_code import step_instructions
from tinyc.kernels.fast.products import products_function
from tinyc.kernels.fast.text import Parts, geometry_of, layer_function, parts_of
from tinyc.kernels.fast.tiles import Tiles
from tinyc.kernels.fast.transforms import horizontal_function, vertical_function
from tinyc.kernels.finish import Finish, finish_drops, finish_packed, finish_wide
from tinyc.kernels.form.function import LayerFunction
from tinyc.kernels.form.plan import as_words
from tinyc.kernels.matrix import GROUP, Matrix
from tinyc.kernels.requantize import Int64s, Steps
from tinyc.kernels.stream import matrix_of
from tinyc.machine.thumb import Naked, Work

_STORE_REACH = 4095  # of STRB
_LARGEST_SCALE = 10
INLINE_CHANNELS = {"s2": 32, "s24": 32, "f4": 32}  # of input, most for the longer code of `product_code.py`


@dataclass(frozen=True)
class TilePlan:
    """How a conv2d is made: its functions' text, the instructions of each call, the proof, the factors of weights.

    factors: int64[O, P, P, C]. order: (row, column) products as they are used. parts: vertical and horizontal.
    """

    tiles: Tiles
    finish: Finish
    matrix: Matrix
    factors: Int64s
    order: list[tuple[int, int]]
    function: Once[LayerFunction]
    parts: Once[Parts]
    code_bytes: int
    vertical: tuple[Work, Work]  # of a call, and of each column
    horizontal: Work
    products: Work

    @cached_property
    def stream(self) -> npt.NDArray[np.int32]:
        """The words of `_stream`."""
        return _stream(self)

    @cached_property
    def constants(self) -> npt.NDArray[np.int32]:
        """The words of `constants_of`."""
        return constants_of(self.tiles, self.finish)


def plan(site: Site, p: ConvParams, form: BilinearForm, inline: bool, packed: bool = False) -> TilePlan | None:
    """The functions that run the layer; None where no requantization is proved."""
    matrix = matrix_of(p)
    proved = matrix.once(proved_finish, form, packed)
    if proved is None:
        return None
    finish, divided = proved
    tiles = Tiles(form, p.w.shape[3], p.w.shape[0], finish.requant, site.core, divided, inline)
    fast, inputs, counts, order = _functions(tiles)
    code = fast.code_bytes + sum(function.code_bytes for function in inputs)
    parts = Once(lambda: parts_of(tiles, *inputs, order))
    function = Once(lambda: layer_function(geometry_of(site, p, tiles), tiles, fast.text, order, parts()))
    return TilePlan(tiles, finish, matrix, weight_factors(p.w, form), order, function, parts, code, *counts)


_Counts = tuple[tuple[Work, Work], Work, Work]


def _functions(tiles: Tiles) -> tuple[Naked, tuple[Naked, Naked], _Counts, list[tuple[int, int]]]:
    """The products in assembly, the functions before them (vertical, horizontal), what all three execute, the order of
    the products."""
    products, products_count, order = products_function("@_products", tiles)
    horizontal, horizontal_count = horizontal_function(tiles, order)
    vertical, around, column = vertical_function(tiles)
    return products, (vertical, horizontal), ((around, column), horizontal_count, products_count), order


def weight_factors(w: Array, form: BilinearForm) -> Int64s:
    """The weights' side of every product, int64[O, P, P, C]; w [O, 3, 3, C]."""
    rows, columns = (np.array(one.weights, np.int64) for one in (form, form.across))
    factors: Int64s = np.einsum("ik,okxc,jx->oijc", rows, w.astype(np.int64), columns)
    return factors


def proved_finish(matrix: Matrix, form: BilinearForm, packed: bool = False) -> tuple[Finish, bool] | None:
    """The proved requantization, for sums raised least; and whether sums must be divided by the form's odd
    factor before. The multiplier divides them where that multiple of the accumulators fits. None if there is none.
    packed: with factors of weights that fit int8, two channels over each other, of forms that divide and raise
    nothing."""
    if packed:
        narrow = _proved(matrix, form, 1, packed=True)
        return (narrow, False) if narrow else None
    finish = _proved(matrix, form, form.odd)
    if form.odd == 1 or (finish and finish.requant.constants == 2):
        return (finish, False) if finish else None
    plain = _proved(matrix, form, 1)
    if plain is None:
        return (finish, False) if finish else None
    if finish and finish.requant.extra_instructions <= plain.requant.extra_instructions + 1:
        return finish, False
    return plain, True


def _proved(matrix: Matrix, form: BilinearForm, multiple: int, packed: bool = False) -> Finish | None:
    out_c = len(matrix.taps)
    factors = weight_factors(matrix.taps.reshape(out_c, 3, 3, -1), form)
    largest = np.maximum(np.abs(factors).reshape(out_c, -1).max(axis=1, initial=0), 1)
    top, over = form.most_raised, 8 * packed * (np.arange(out_c) % 2 == 0)
    bound = 2**7 - 1 if packed else 2**15 - 1
    if packed and (largest > bound).any():
        return None

    def most(steps: Steps) -> Int64s:
        worst = np.maximum(np.maximum(np.abs(steps.low), np.abs(steps.high)), 1)
        bits = np.floor(np.log2(bound / largest)) + form.scale
        room = np.minimum(bits, 30 - top - over - np.ceil(np.log2(worst + 1)))
        scale: Int64s = np.minimum(room, _LARGEST_SCALE).astype(np.int64)
        return scale

    finish = finish_wide(matrix, form.scale, most, multiple, packed)
    if form.largest_input < 2**15 and (finish is None or finish.requant.sign or finish.requant.shifts is None):
        dropping = finish_drops(matrix, form.scale, most, multiple, packed)
        if dropping is not None and dropping.fits_multiples(top):
            return dropping
    if finish is None and packed:
        return finish_packed(matrix, form.scale)
    if finish is None or form.largest_input >= 2**15:
        return None
    return finish if finish.fits_multiples(top) else None


# ---- constants ----


def _stream(work: TilePlan) -> npt.NDArray[np.int32]:
    """Start values and weights, four output channels after each other."""
    tiles, finish = work.tiles, work.finish
    form, groups, packed = tiles.form, tiles.groups, tiles.requant.packed
    spare = finish.weight_scale[: tiles.out_c] - form.scale
    if packed:
        spare = spare - 8 * (np.arange(tiles.out_c) % 2 == 0) if not tiles.requant.halve else np.zeros_like(spare)
    factors = (work.factors * finish.live[: tiles.out_c, None, None, None]) << spare[:, None, None, None]
    assert np.abs(factors).max(initial=0) < 2 ** (7 if packed else 15)  # the proof has seen to it
    if packed:
        factors = 256 * factors[::2] + factors[1::2]
    factors = np.pad(factors, ((0, 0), (0, 0), (0, 0), (0, 4 * tiles.quads - tiles.in_c)))
    used = np.stack([factors[:, i, j] for i, j in work.order], axis=1)  # [O or O / 2, products, C]
    pairs = used.reshape(len(used), len(work.order), tiles.quads, 2, 2)  # ... [quad][half][step]
    words = (pairs[..., 0, :] & 0xFFFF) | ((pairs[..., 1, :] & 0xFFFF) << 16)  # ... [products, quad, step]
    weights = words.reshape(groups, tiles.words_per_step, -1).transpose(0, 2, 1).reshape(groups, -1)
    return as_words(np.concatenate([start_values(tiles, finish, work.matrix), weights], axis=1)).ravel()


def start_values(tiles: Tiles, finish: Finish, matrix: Matrix) -> Int64s:
    """int64[groups, 4], of accumulators."""
    odd = tiles.form.odd
    start = finish.start_values(matrix.p.bias.astype(np.int64) * (1 if tiles.divided else odd))
    return (start[: tiles.out_c] * (odd if tiles.divided else 1)).reshape(tiles.groups, GROUP)


def constants_of(tiles: Tiles, finish: Finish) -> npt.NDArray[np.int32]:
    """mult, add[, shift or drop] of each channel for every raise, four output channels after each other."""
    plain = finish.constants()[: tiles.out_c].reshape(tiles.groups, 1, GROUP, -1)
    blocks = np.repeat(plain, len(tiles.raises), axis=1)
    for block, raised in enumerate(tiles.raises):
        blocks[:, block, :, 1] <<= raised
        if tiles.requant.drops:
            blocks[:, block, :, 2] <<= raised
    return as_words(blocks).ravel()


# ---- the kernel ----


def special(work: TilePlan, family: str) -> SpecializedKernel:
    """The functions of the layer."""
    stem = f"{family}_i{work.tiles.in_c}_o{work.tiles.out_c}"
    return work.function().named(stem, "tc_tiles.h", parts=work.parts())


def call(work: TilePlan, site: Site, p: ConvParams) -> Call:
    """One call for the whole image; output rows follow the input rows that they need."""
    form = work.tiles.form
    rows = row_geometry(site, Window.of(p.attrs, 3, 3), p.x_zero)
    row = np.full(site.x(0).shape[2] * site.x(0).shape[3], p.x_zero, np.int8)
    args = (
        Const(work.stream, "stream of tc_tiles.h", "stream"),
        Const(work.constants, "constants of tc_tiles.h", "constants"),
        Const(row, "[in_w][in_c] of x_zero", "pad"),
        *(In(0), Out(), Scratch()),
    )
    ahead = work.tiles.columns - p.attrs.pad.left
    across = Across(2 * form.across.m, ahead, form.stride, site.x(0).shape[3], site.y().shape[3])
    return Call(args, flow=replace(rows, pad=None, out_rows=form.m, across=across))


def scratch(tiles: Tiles, site: Site) -> int:
    """Bytes of strip, factors, and a pair of tiles where tiles leave the image."""
    form = tiles.form
    _, out_h, out_w, out_c = site.y().shape
    ragged = out_h % form.m or out_w % (2 * form.across.m)
    return 4 * (tiles.strip_words + tiles.factor_words) + (2 * form.m * form.across.m * out_c if ragged else 0)


def cost(work: TilePlan, site: Site, p: ConvParams) -> Cost:
    """Instructions exact but for the loop over the tiles, estimated."""
    form = work.tiles.form
    _, out_h, out_w, _ = site.y().shape
    down, across = -(-out_h // form.m), -(-out_w // (2 * form.across.m))
    around, column = work.vertical
    fresh = 2 * form.across.m * form.stride
    per_pair = work.horizontal + work.products + around + fresh * column + _PAIR_COST
    per_row = across * per_pair + work.tiles.carried * column + 3 * around + _ROW_COST
    geometry = (site.x(0).shape, site.y().shape, p.attrs.pad.top, p.attrs.pad.left)
    code = WrittenCode((work.tiles, *geometry), work.code_bytes)
    flash = work.stream.nbytes + work.constants.nbytes + code.size
    whole = down * per_row
    fetches = _fetches(work, down * across, whole.instructions)
    return Cost(whole.instructions, flash, scratch(work.tiles, site), whole.cycles, fetches, code)


def _fetches(work: TilePlan, pairs: int, executed: int) -> Fetches:
    """Each pair of tiles takes all weights, and all code but for the subroutine of a product, a loop of its steps."""
    tiles = work.tiles
    data = pairs * (work.stream.nbytes + work.constants.nbytes)
    steps = 0 if tiles.inline else tiles.products * tiles.steps * tiles.groups * pairs
    products = tiles.products * tiles.groups * pairs
    each = step_instructions(tiles)
    looped = (4 * tiles.steps * each, 0 if tiles.inline else products)
    return Fetches(data, ((4 * (executed - steps * each), 1), looped), (work.stream.nbytes, pairs))


def takes(site: Site, form: BilinearForm) -> bool:
    """Whether the form serves a layer of this shape."""
    if not site.is_const(1):
        return False
    a, (out_c, k_h, k_w, _) = site.attrs, site.x(1).shape
    square = (k_h, k_w) == (3, 3) and a.stride == (form.stride, form.stride) and a.dilation == (1, 1)
    return bool(square and a.groups == 1 and out_c % GROUP == 0 and (2 * form.across.m - 1) * out_c + 3 <= _STORE_REACH)


def takes_f2(site: Site) -> bool:
    """3x3 weights, stride 1, no dilation, one group, output channels in fours up to 1364"""
    return takes(site, F2)


def takes_f4(site: Site) -> bool:
    """3x3 weights, stride 1, no dilation, one group, output channels in fours up to 584"""
    return takes(site, F4)


def takes_s2(site: Site) -> bool:
    """3x3 weights, stride 2, no dilation, one group, output channels in fours up to 1364"""
    return takes(site, S2)


def takes_s24(site: Site) -> bool:
    """3x3 weights, stride 2, no dilation, one group, output channels in fours up to 584"""
    return takes(site, S24)


_PAIR_COST = Work(70, 110)  # instructions of the loop over pairs of tiles, around its calls
_ROW_COST = Work(100, 160)  # instructions of the loop over rows of tiles
NAMES = {
    "f2": "tc_conv2d_3x3_s8_tiles2_asm",
    "f4": "tc_conv2d_3x3_s8_tiles4_asm",
    "s2": "tc_conv2d_3x3s2_s8_tiles2_asm",
    "s24": "tc_conv2d_3x3s2_s8_tiles24_asm",
}


def kernel_name(form: BilinearForm, inline: bool, packed: bool = False) -> str:
    """Of the kernel."""
    return NAMES[form.name].replace("_asm", "_packed" * packed + "_inline" * inline + "_asm")


def _inline(takes: Condition, most: int) -> Condition:
    def takes_inline(site: Site) -> bool:
        return bool(site.x(1).shape[3] <= most and takes(site))

    takes_inline.__doc__ = f"at most {most} input channels, {takes.__doc__}"
    return takes_inline


ASKS = {
    False: "factors of products that are proved to fit",
    True: "factors of products that are proved to fit, those of the weights in int8",
}


def _kernel(form: BilinearForm, packed: bool, takes: Condition, inline: bool) -> Kernel:
    name = kernel_name(form, inline, packed)
    return Kernel(
        name,
        planned(
            partial(plan, form=form, inline=inline, packed=packed),
            ASKS[packed],
            call=call,
            cost=cost,
            special=lambda work, site, p: special(work, name),
        ),
        isa=frozenset({"dsp"}),
        when=(is_s8_or_w4, _inline(takes, INLINE_CHANNELS[form.name]) if inline else takes),
        asks=ASKS[packed],
        written=True,
    )


KERNELS = tuple(
    _kernel(form, packed, takes, inline)
    for form, packed, takes in (
        (F4, False, takes_f4),
        (F2, False, takes_f2),
        (S24, False, takes_s24),
        (S2, False, takes_s2),
        (F2, True, takes_f2),
        (S2, True, takes_s2),
    )
    for inline in ((False, True) if form.name in INLINE_CHANNELS else (False,))
)
