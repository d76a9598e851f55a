# SPDX-License-Identifier: Apache-2.0
"""conv2d 3x3 on Cortex-M with DSP by exact fast forms: fewer multiplications, more flash for the weights.

Tiles of 2x2 and of 4x4 outputs at stride 1, of 2x2 and of 2x4 at stride 2. Each with the product as a subroutine, or
(few channels, and not 2x2 at stride 1) with code for several in a row: a few kilobytes for a few percent. Weights are
transformed here, once; that the factors fit int16 and the sums int32 is proved from them. Where the factors fit int8,
as those of int4 weights do but for 4x4 outputs, two channels may lie over each other: half of the flash for one
instruction in eleven. Or weights stay int8 in flash (`w8`), and the layer transforms them when it runs: first of all,
or (`band`) once for each band of tile rows, whose inputs are transformed before, with room for four output channels.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
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
    writing,
)
from tinyc.kernel.site import Site
from tinyc.kernel.types import is_s8_or_w4
from tinyc.kernel.windows import ConvParams, Window, is_3x3, is_3x3_by_two, row_geometry
from tinyc.kernels.fast.bilinear import F2, F4, S2, S24, BilinearForm, nested_factors
from tinyc.kernels.fast.product_code import step_size
from tinyc.kernels.fast.products import products_function
from tinyc.kernels.fast.text import Parts, geometry_of, layer_function, parts_of
from tinyc.kernels.fast.tiles import Tiles
from tinyc.kernels.fast.transforms import horizontal_function, vertical_function
from tinyc.kernels.fast.weights import TAPS, largest_factors, weight_words, weights_function
from tinyc.kernels.finish import Finish, finish_drops, finish_packed, finish_wide
from tinyc.kernels.matrix import GROUP, Matrix
from tinyc.kernels.requantize import Int64s, Steps
from tinyc.kernels.stream import as_words, in_halves, matrix_of
from tinyc.machine.thumb import Naked, Work

_STORE_REACH = 4095  # of STRB
_LARGEST_SCALE = 10
INLINE_CHANNELS = {"s2": 32, "s24": 32, "f4": 32}  # of input, most for the longer code of `product_code.py`


@dataclass(frozen=True)
class TilePlan:
    """How a conv2d is made: its functions, the instructions of each call, and the proof."""

    tiles: Tiles
    finish: Finish
    matrix: Matrix
    weights: Array  # int8-valued [O, 3, 3, C]
    order: list[tuple[int, int]]  # (row, column) products as they are used
    parts: Once[Parts]  # functions of the inputs (vertical, horizontal) and, with `narrow`, of the weights
    products: Naked  # the function that is the layer's own
    parts_code: WrittenCode  # the other functions, which layers of other outputs share
    functions: FunctionsWork

    @cached_property
    def stream(self) -> npt.NDArray[np.int32]:
        """What lies in flash: start values and factors, or with `narrow` weights."""
        return _stream(self) if self.functions.weights is None else _narrow_words(self)

    @cached_property
    def constants(self) -> npt.NDArray[np.int32]:
        """The words of `constants_of`."""
        return constants_of(self.tiles, self.finish)


@dataclass(frozen=True, slots=True)
class FunctionsWork:
    """What the functions of a layer execute in a call, and beside for each ..."""

    vertical: tuple[Work, Work]  # ... column
    horizontal: Work
    products: tuple[Work, Work]  # ... group of four output channels
    weights: tuple[Work, Work] | None  # ... such group; None: factors lie in flash


def plan(
    site: Site, p: ConvParams, form: BilinearForm, inline: bool, packed: bool = False, narrow: bool = False
) -> TilePlan | None:
    """The functions that run the layer; None where no requantization is proved."""
    matrix = matrix_of(p)
    proved = matrix.once(proved_finish, form, packed, narrow)
    if proved is None:
        return None
    finish, divided = proved
    tiles = Tiles(site.core, form, p.w.shape[3], p.w.shape[0], finish.requant, divided, inline)
    products, products_work, order = products_function("@_products", tiles)
    inputs, places = tiles.inputs, tuple(order)
    horizontal, horizontal_work = writing(horizontal_function, inputs, places)
    vertical, around, column = writing(vertical_function, inputs)
    of_weights, weights_work = writing(weights_function, inputs, places) if narrow else (None, None)
    before = [function for function in (vertical, horizontal, of_weights) if function]
    parts = Once(lambda: parts_of(tiles, order, *before))
    code = WrittenCode((inputs, places, narrow), sum(f.code_bytes for f in before))
    work = FunctionsWork((around, column), horizontal_work, products_work, weights_work)
    return TilePlan(tiles, finish, matrix, p.w, order, parts, products, code, work)


def proved_finish(
    matrix: Matrix, form: BilinearForm, packed: bool = False, narrow: bool = False
) -> tuple[Finish, bool] | None:
    """The proved requantization, for sums raised least; and whether sums must be divided by the form's odd
    factor before. The multiplier divides them where that multiple of the accumulators fits. None if there is none.
    packed: with factors of weights that fit int8, two channels over each other, of forms that divide and raise
    nothing. narrow: factors are what the form makes of the weights, not multiples."""
    if packed:
        over = _proved(matrix, form, 1, packed=True)
        return (over, False) if over else None
    finish = _proved(matrix, form, form.odd, narrow=narrow)
    if form.odd == 1 or (finish and finish.requant.extra_instructions == 0):
        return (finish, False) if finish else None
    plain = _proved(matrix, form, 1, narrow=narrow)
    if plain is None:
        return (finish, False) if finish else None
    if finish and finish.requant.extra_instructions <= plain.requant.extra_instructions + 1:
        return finish, False
    return plain, True


def _proved(
    matrix: Matrix, form: BilinearForm, multiple: int, packed: bool = False, narrow: bool = False
) -> Finish | None:
    out_c = len(matrix.taps)
    largest = matrix.once(largest_factors, form, form.across)
    scale = form.narrow_scale if narrow else form.scale
    top, over = form.most_raised, 8 * packed * (np.arange(out_c) % 2 == 0)
    bound = 2**7 - 1 if packed else 2**15 - 1
    if packed and (largest > bound).any():
        return None

    def most(steps: Steps) -> Int64s:
        worst = np.maximum(np.maximum(np.abs(steps.low), np.abs(steps.high)), 1)
        bits = np.floor(np.log2(bound / largest)) + form.scale
        room = np.minimum(bits, 30 - top - over - np.ceil(np.log2(worst + 1)))
        scales: Int64s = np.minimum(room, scale if narrow else _LARGEST_SCALE).astype(np.int64)
        return scales

    finish = finish_wide(matrix, scale, most, multiple, packed)
    if form.largest_input < 2**15 and (finish is None or finish.requant.sign or finish.requant.shifts is None):
        dropping = finish_drops(matrix, scale, most, multiple, packed)
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
    live = nested_factors(work.weights, form, form.across) * finish.live[: tiles.out_c, None, None, None]
    factors = live << spare[:, None, None, None]
    assert np.abs(factors).max(initial=0) < 2 ** (7 if packed else 15)  # the proof has seen to it
    if packed:
        factors = 256 * factors[::2] + factors[1::2]
    factors = np.pad(factors, ((0, 0), (0, 0), (0, 0), (0, 4 * tiles.quads - tiles.in_c)))
    used = np.stack([factors[:, i, j] for i, j in work.order], axis=1)  # [O or O / 2, products, C]
    pairs = used.reshape(len(used), len(work.order), tiles.quads, 2, 2)  # ... [quad][half][step]
    words = in_halves(pairs[..., 0, :], pairs[..., 1, :])  # ... [products, quad, step]
    weights = words.reshape(groups, tiles.words_per_step, -1).transpose(0, 2, 1).reshape(groups, -1)
    return as_words(np.concatenate([start_values(tiles, finish, work.matrix), weights], axis=1)).ravel()


def _narrow_words(work: TilePlan) -> npt.NDArray[np.int32]:
    """Start values and int8 weights, four output channels after each other."""
    live = work.weights * work.finish.live[: work.tiles.out_c, None, None, None]
    return weight_words(live, work.tiles, start_values(work.tiles, work.finish, work.matrix))


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


def special(work: TilePlan, site: Site, p: ConvParams, family: str, band: int) -> SpecializedKernel:
    """The functions of the layer. band: tile rows whose factors are made together; 0: the factors of weights are made
    first, or lie in flash."""
    tiles = work.tiles
    bands = _bands(tiles, site, band) if band else {}
    function = layer_function(geometry_of(site, p, tiles), tiles, work.products.text, work.order, work.parts(), bands)
    return function.named(f"{family}_i{tiles.in_c}_o{tiles.out_c}", "tc_tiles.h", parts=work.parts())


def _bands(tiles: Tiles, site: Site, band: int) -> dict[str, int]:
    """Fields of tc_tiles_bands_t."""
    return {
        "tile_rows": band,
        "pairs": band * _pairs(tiles.form, site)[1],
        "weight_words": GROUP + GROUP * TAPS * tiles.quads,
        "constant_words": tiles.finish_words,
        "stream_words": tiles.group_words,
    }


def _pairs(form: BilinearForm, site: Site) -> tuple[int, int]:
    """Rows of tiles, and pairs of tiles in each."""
    _, out_h, out_w, _ = site.y().shape
    return -(-out_h // form.m), -(-out_w // (2 * form.across.m))


def call(work: TilePlan, site: Site, p: ConvParams, band: int) -> Call:
    """One call for the whole image; output rows follow the input rows that they need."""
    form = work.tiles.form
    rows = row_geometry(site, Window.of(p.attrs, 3, 3), p.x_zero)
    row = np.full(site.x(0).shape[2] * site.x(0).shape[3], p.x_zero, np.int8)
    what = "weights" if work.functions.weights else "stream"
    args = (
        Const(work.stream, f"{what} of tc_tiles.h", "stream"),
        Const(work.constants, "constants of tc_tiles.h", "constants"),
        Const(row, "[in_w][in_c] of x_zero", "pad"),
        *(In(0), Out(), Scratch()),
    )
    if band:
        return Call(args, flow=replace(rows, pad=None, out_rows=form.m * band, buffered=True))
    ahead = work.tiles.columns - p.attrs.pad.left
    across = Across(2 * form.across.m, ahead, form.stride, site.x(0).shape[3], site.y().shape[3])
    return Call(args, flow=replace(rows, pad=None, out_rows=form.m, across=across))


def scratch(work: TilePlan, site: Site, band: int) -> int:
    """Bytes of the stream that is made, the strip, factors, and a pair of tiles where tiles leave the image."""
    tiles, form = work.tiles, work.tiles.form
    _, out_h, out_w, out_c = site.y().shape
    groups = 0 if work.functions.weights is None else 1 if band else tiles.groups
    pairs = band * _pairs(form, site)[1] if band else 1
    ragged = out_h % form.m or out_w % (2 * form.across.m)
    words = groups * tiles.group_words + tiles.strip_words + pairs * tiles.factor_words
    return 4 * words + (2 * form.m * form.across.m * out_c if ragged else 0)


def cost(work: TilePlan, site: Site, p: ConvParams, band: int) -> Cost:
    """Instructions exact but for the loop over the tiles, estimated."""
    tiles, form, functions = work.tiles, work.tiles.form, work.functions
    down, across = _pairs(form, site)
    around, column = functions.vertical
    fresh = 2 * form.across.m * form.stride
    calls = tiles.groups if band else 1  # of the products of a pair
    outputs = (
        calls * (functions.products[0] + _OUTPUTS_COST + form.m * _OUTPUT_ROW_COST)
        + tiles.groups * functions.products[1]
    )
    per_pair = functions.horizontal + around + fresh * column + _INPUTS_COST + outputs
    outside = max(across * fresh + tiles.carried - site.x(0).shape[2], 0)  # columns, each with a call of its own
    per_row = across * per_pair + tiles.carried * column + outside * (around + _OUTSIDE_COST) + _ROW_COST
    pairs, pixels = _leaving(form, site)
    copy = _COPIED_ALONE_COST if band else _COPIED_PIXEL_COST + tiles.groups * _COPIED_WORD_COST
    whole = down * per_row + calls * (pairs * _LEAVING_COST + pixels * copy)
    turns = -(-down // band) if band else 1
    if functions.weights is not None:
        whole = whole + turns * (calls * (functions.weights[0] + _WEIGHTS_COST) + tiles.groups * functions.weights[1])
    geometry = (site.x(0).shape, site.y().shape, p.attrs.pad.top, p.attrs.pad.left)
    code = WrittenCode((tiles, *geometry, band, functions.weights is not None), work.products.code_bytes)
    flash = work.stream.nbytes + work.constants.nbytes + code.size
    readings = down * across if functions.weights is None else turns
    fetches = _fetches(work, down * across, readings, whole.instructions)
    cost = Cost(whole.instructions, flash, scratch(work, site, band), whole.cycles, fetches, code)
    return cost.beside([work.parts_code])


def _leaving(form: BilinearForm, site: Site) -> tuple[int, int]:
    """Pairs of tiles that leave the image, and their outputs in it."""
    _, out_h, out_w, _ = site.y().shape
    wide, (down, across) = 2 * form.across.m, _pairs(form, site)
    high_inside, wide_inside = out_h // form.m, out_w // wide
    pixels = out_h * out_w - (high_inside * form.m) * (wide_inside * wide)
    return down * across - high_inside * wide_inside, pixels


def _fetches(work: TilePlan, pairs: int, readings: int, executed: int) -> Fetches:
    """Each pair of tiles takes all code but for the subroutine of a product, a loop of its steps. readings: of the
    stream."""
    tiles = work.tiles
    data = readings * work.stream.nbytes + pairs * work.constants.nbytes
    steps = 0 if tiles.inline else tiles.products * tiles.steps * tiles.groups * pairs
    products = tiles.products * tiles.groups * pairs
    each, each_bytes = step_size(tiles)
    looped = (tiles.steps * each_bytes, 0 if tiles.inline else products)
    return Fetches(data, ((4 * (executed - steps * each), 1), looped), (work.stream.nbytes, readings))


def stores_four(site: Site) -> bool:
    """output channels in fours up to 1364"""
    return _stores(site, F2)


def stores_eight(site: Site) -> bool:
    """output channels in fours up to 584"""
    return _stores(site, F4)


def _stores(site: Site, form: BilinearForm) -> bool:
    """Whether stores reach all outputs of a row of a pair of tiles."""
    out_c = site.x(1).shape[0]
    return out_c % GROUP == 0 and (2 * form.across.m - 1) * out_c + 3 <= _STORE_REACH


_TAKEN: Mapping[str, tuple[Condition, ...]] = {
    "f2": (is_s8_or_w4, is_3x3, stores_four),
    "f4": (is_s8_or_w4, is_3x3, stores_eight),
    "s2": (is_s8_or_w4, is_3x3_by_two, stores_four),
    "s24": (is_s8_or_w4, is_3x3_by_two, stores_eight),
}

# Instructions of `tc_tiles.h`, as counted in 168 layers on a Cortex-M4 (gcc -O3), which these say to 1.4 %, and cycles
# that are half as many more. For a pair of tiles: of the inputs, of outputs, and of each row of these.
_INPUTS_COST, _OUTPUTS_COST, _OUTPUT_ROW_COST = Work(58, 87), Work(58, 87), Work(3, 5)
_OUTSIDE_COST = Work(24, 36)
# Of a pair that leaves the image, of each of its pixels in it, and of each word of that; of one that is one word.
_LEAVING_COST, _COPIED_PIXEL_COST, _COPIED_WORD_COST = Work(29, 44), Work(18, 27), Work(4, 7)
_COPIED_ALONE_COST = Work(8, 13)
_ROW_COST = Work(107, 165)  # of the loop over rows of tiles
_WEIGHTS_COST = Work(43, 65)  # of a call that makes factors of weights
NAMES = {
    "f2": "tc_conv2d_3x3_s8_tiles2_asm",
    "f4": "tc_conv2d_3x3_s8_tiles4_asm",
    "s2": "tc_conv2d_3x3s2_s8_tiles2_asm",
    "s24": "tc_conv2d_3x3s2_s8_tiles24_asm",
}


def kernel_name(form: BilinearForm, inline: bool = False, packed: bool = False, way: str = "") -> str:
    """Of the kernel. way: a key of BANDS."""
    narrow = way and f"_{way}"
    return NAMES[form.name].replace("_asm", f"{narrow}{'_packed' * packed}{'_inline' * inline}_asm")


_ALL = -1
# Ways of kernels whose weights stay int8: tile rows of a band; 0: no bands, there is room for all factors of weights.
BANDS = {"w8": 0, "w8_band": _ALL, "w8_band2": 2, "w8_band1": 1}


def _inline(most: int) -> Condition:
    def has_few_channels(site: Site) -> bool:
        return site.x(1).shape[3] <= most

    has_few_channels.__doc__ = f"at most {most} input channels"
    return has_few_channels


ASKS = {
    False: "factors of products that are proved to fit",
    True: "factors of products that are proved to fit, those of the weights in int8",
}


def _kernel(form: BilinearForm, packed: bool, inline: bool) -> Kernel:
    few = (_inline(INLINE_CHANNELS[form.name]),) if inline else ()
    plan_of_form = partial(plan, form=form, inline=inline, packed=packed)
    return _offered(kernel_name(form, inline, packed), plan_of_form, (*_TAKEN[form.name], *few), ASKS[packed])


def _narrow_kernels(form: BilinearForm) -> Iterator[Kernel]:
    """With weights that stay int8: those of one layer share their plan."""
    plan_of_form = partial(plan, form=form, inline=False, narrow=True)

    def plan_once(site: Site, p: ConvParams) -> TilePlan | None:
        return p.once_at(site, plan_of_form)

    for way, rows in BANDS.items():
        when = (*_TAKEN[form.name], *_in_bands(form, rows))
        yield _offered(kernel_name(form, way=way), plan_once, when, ASKS[False], rows)


def _offered(
    name: str,
    plan: Callable[[Site, ConvParams], TilePlan | None],
    when: tuple[Condition, ...],
    asks: str,
    rows: int = 0,
) -> Kernel:
    """rows: a value of BANDS."""

    def band(work: TilePlan, site: Site) -> int:
        return _pairs(work.tiles.form, site)[0] if rows == _ALL else rows

    return Kernel(
        name,
        planned(
            plan,
            asks,
            call=lambda work, site, p: call(work, site, p, band(work, site)),
            cost=lambda work, site, p: cost(work, site, p, band(work, site)),
            special=lambda work, site, p: special(work, site, p, name, band(work, site)),
        ),
        isa=frozenset({"dsp"}),
        when=when,
        asks=asks,
        written=True,
    )


def _in_bands(form: BilinearForm, rows: int) -> tuple[Condition, ...]:
    """None, where the image is one band."""

    def has_bands(site: Site) -> bool:
        return _pairs(form, site)[0] > rows and site.x(1).shape[0] > GROUP

    has_bands.__doc__ = f"{f'more than {rows} rows of tiles, ' * (rows != _ALL)}more than {GROUP} output channels"
    return (has_bands,) if rows else ()


KERNELS = tuple(
    _kernel(form, packed, inline)
    for form, packed in ((F4, False), (F2, False), (S24, False), (S2, False), (F2, True), (S2, True))
    for inline in ((False, True) if form.name in INLINE_CHANNELS else (False,))
) + tuple(kernel for form in (F4, F2, S2) for kernel in _narrow_kernels(form))
