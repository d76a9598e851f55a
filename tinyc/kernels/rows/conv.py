# SPDX-License-Identifier: Apache-2.0
"""conv2d on Cortex-M with DSP, one output row per call: how a streamed group makes the layers of `weighted/conv.py`."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from functools import partial

from tinyc.kernel.kernel import (
    Call,
    Condition,
    Const,
    Cost,
    In,
    Kernel,
    Once,
    Out,
    RowForm,
    SpecializedKernel,
    WrittenCode,
)
from tinyc.kernel.site import Site
from tinyc.kernel.windows import ConvParams, is_3x3, is_3x3_by_two
from tinyc.kernels.form.function import LayerFunction, apart
from tinyc.kernels.rows import direct as rows_direct
from tinyc.kernels.rows import fast as rows_fast
from tinyc.kernels.rows.odd_pixels import two_rows
from tinyc.kernels.stream import DIGITS, PACKED, RAISED, WIDE, Packing, stream, twin_text
from tinyc.kernels.tile.layer import WeightedLayer
from tinyc.kernels.tile.shape import (
    FOUR_PIXELS,
    ONE_PIXEL_STACK,
    TWO_PIXELS,
    TWO_PIXELS_FPU,
    TWO_PIXELS_OF_ANY,
    TWO_PIXELS_OF_ANY_LONG,
    TWO_PIXELS_SHORT,
    Tile,
)
from tinyc.kernels.tile.smlad import tile_function
from tinyc.kernels.weighted import conv, layer
from tinyc.machine.thumb import Naked, Work

_CALL = Work(30, 45)  # around the calls of a row
_MOST_STEPS = 64  # of a last pixel's unrolled code
_STACK_BYTES = 256  # of scratch that lies on the stack: no more than what pixel pairs of a 1x1 layer take there


def row_forms(site: Site, p: ConvParams, packing: Packing, tile: Tile, family: str) -> tuple[RowForm, ...]:
    """A row by the tile, taps unpacked on the stack or in scratch; rows of 1x1 weights with an odd pixel in a second
    form too; rows of 3x3 weights also by fast forms (`fast.py`), and larger windows without scratch (`direct.py`).

    1x1 weights of stride 1 read their pixels before they write the outputs, so such a row may be made in place.
    """
    if tile is TWO_PIXELS_SHORT or site.y().shape[2] < _least_pixels(packing, tile):
        return ()
    work = conv.plan(site, p, packing, tile, by_rows=True)
    assert work is not None  # or there is no offer to add this to
    pointwise = p.w.shape[1:3] == (1, 1) and p.attrs.stride == (1, 1) and not any(p.attrs.pad)
    in_place = (0,) if pointwise and p.w.shape[0] == p.w.shape[3] else ()
    forms = [_tile_form(work, family, in_place)]
    pairs = tile.pixels == 2 and not tile.of_any
    if work.pixels % 2 and work.is_direct and work.layer.fits_odd:
        forms = [_tile_form(replace(work, layer=replace(work.layer, odd=True)), family, in_place), *forms]
    elif work.pixels % 2 and work.is_direct and pairs and (last := last_pixel(work.layer)):
        forms = [_odd_form(work, last, family, in_place), *forms]
    if (both := two_rows(work, tile, family, p.x_zero, in_place)) is not None:
        forms.append(both)
    if tile is TWO_PIXELS:  # once for weights of a kind
        forms += _by_window(site, p, packing)
    return tuple(forms)


def _by_window(site: Site, p: ConvParams, packing: Packing) -> Iterator[RowForm]:
    """Those that only layers with such windows have."""
    if packing in (WIDE, DIGITS) and (is_3x3(site) or is_3x3_by_two(site)):
        yield from rows_fast.row_forms(site, p)
    out_c, k_h, k_w, in_c = p.w.shape
    is_wide = k_h * k_w > 1 and k_h <= 255 and p.attrs.dilation == (1, 1) and p.attrs.groups == 1
    if packing is WIDE and is_wide and in_c % 4 == out_c % 4 == 0:
        yield from rows_direct.row_forms(site, p)


def _least_pixels(packing: Packing, tile: Tile) -> int:
    """Of a row. None of one pixel unpacks `RAISED` weights; four are for rows that have them."""
    return 2 if packing is RAISED else 4 if tile is FOUR_PIXELS else 1


def last_pixel(layer: WeightedLayer) -> WeightedLayer | None:
    """The same layer for a single pixel whose taps are on the stack; None where it has more than one row of taps, too
    many, or int4 weights."""
    single = replace(layer, k_h=1, tile=ONE_PIXEL_STACK)
    fits = layer.k_h == 1 and single.steps <= _MOST_STEPS and single.slots == layer.slots
    return single if fits and layer.packing.words_per_step > 1 else None


def _tile_form(work: layer.WeightedPlan, family: str, in_place: tuple[int, ...]) -> RowForm:
    """By the tile; small copies of columns at the border lie on the stack."""
    call, cost = layer.call(work), layer.cost(work)
    args, scratch = call.args, work.scratch_bytes
    on_stack = 0 < scratch <= _STACK_BYTES
    if on_stack:
        scratch, args = 0, args[:-1]
        cost = replace(cost, code=replace(cost.code, key=("on the stack", cost.code.key))) if cost.code else cost
    return RowForm(
        call=Call(args, rows=call.rows),
        scratch_bytes=scratch,
        cost=replace(cost, scratch_bytes=scratch),
        special=Once(lambda: _on_stack(work, family) if on_stack else layer.special(work, family=family)),
        inplace=in_place,
    )


def _on_stack(work: layer.WeightedPlan, family: str) -> SpecializedKernel:
    """The function of the layer with its scratch on the stack."""
    special = layer.special(work, family=family)
    name = f"{special.name}_row"
    pieces = f"{name}_pieces"  # the same function may be there under its own name, of a layer made whole
    text = f"""{special.text.replace(special.name, pieces)}

/* The same with its scratch on the stack. */
static void {name}(const int32_t *stream, const int8_t *const *x, int8_t *y{", int32_t n" if work.is_direct else ""})
{{
    int32_t scratch[{-(-work.scratch_bytes // 4)}];

    {pieces}(stream, x, y, {"n, " if work.is_direct else ""}scratch);
}}"""
    return replace(special, name=name, text=text, array_bytes=work.scratch_bytes)


def _odd_form(work: layer.WeightedPlan, single: WeightedLayer, family: str, in_place: tuple[int, ...]) -> RowForm:
    """The last pixel (of one: the only) by a function of its own."""
    functions, executed = _odd_functions(work, single)
    words = stream(work.matrix, work.finish, single.slots)
    whole = work.rows.out_h * (executed + _CALL)
    code = WrittenCode((single, work.layer, work.pixels), sum(function.code_bytes for function in functions))
    flash = words.nbytes + code.size
    constant = Const(words, f"stream of tc_stream.h, {single.steps} steps", "stream")
    return RowForm(
        call=Call((constant, In(0), Out()), rows=work.rows),
        scratch_bytes=0,
        cost=Cost(whole.instructions, flash, 0, whole.cycles, code=code),
        special=Once(lambda: _odd_special(work, single, family, [function.text for function in functions])),
        inplace=in_place,
    )


def _odd_functions(work: layer.WeightedPlan, single: WeightedLayer) -> tuple[list[Naked], Work]:
    """The functions of the pairs of pixels, if there are any, and of the last pixel; what a row executes."""
    last = work.pixels - 1
    fast, work_of_last = tile_function("@_last", single)
    executed = work_of_last.call
    if not last:
        return [fast], executed
    pairs, count = tile_function("@_pixels", work.layer)
    return [pairs, fast], executed + count.of(last)


def _odd_special(work: layer.WeightedPlan, single: WeightedLayer, family: str, fast: list[str]) -> SpecializedKernel:
    stem = f"{family}_row{work.pixels}_i{single.row_taps}_o{single.out_c}"
    return _odd_function(work, single, fast).named(stem, "tc_stream.h")


def _odd_function(work: layer.WeightedPlan, single: WeightedLayer, fast: list[str]) -> LayerFunction:
    """The functions of a row of an odd number of pixels."""
    last = work.pixels - 1
    twins = [twin_text(work.finish, single), layer.stream_twin("@_last", single)]
    calls = f"    @_last(stream, x, y + {last * single.out_c}, 1, {last * single.pixel_bytes});"
    if last:
        twins.append(layer.stream_twin("@_pixels", work.layer))
        calls = f"    @_pixels(stream, x, y, {last}, 0);\n{calls}"
    contract = f"""/* 1 x {single.row_taps} taps -> {single.out_c} channels: a row of {work.pixels} pixels.
 * x: 1 row pointer{", at words" if single.aligned else ""}. y: [{work.pixels}][{single.out_c}]. stream: tc_stream.h.
 */"""
    driver = f"""static void @(const int32_t *stream, const int8_t *const *x, int8_t *y)
{{
{calls}
}}"""
    tile = f"{work.layer.text}; the last pixel alone" if last else single.text
    fpu = work.layer.held_steps > 0
    return LayerFunction(contract, apart(fast), apart(twins), driver, fpu=fpu, tile=tile)


def _kernel(name: str, packing: Packing, tile: Tile, *when: Condition) -> Kernel:
    kernel = conv.kernel(name, packing, tile, *when)
    return kernel.with_row_forms(partial(row_forms, packing=packing, tile=tile, family=name))


KERNELS = (
    _kernel("tc_conv2d_s8_w16_asm", WIDE, TWO_PIXELS),
    _kernel("tc_conv2d_s8_asm", PACKED, TWO_PIXELS),
    _kernel("tc_conv2d_s8_w16_fpu_asm", WIDE, TWO_PIXELS_FPU),
    _kernel("tc_conv2d_s8_fpu_asm", PACKED, TWO_PIXELS_FPU),
    _kernel("tc_conv2d_s8_rolled_asm", PACKED, TWO_PIXELS_SHORT),
    _kernel("tc_conv2d_s8_shared_asm", PACKED, TWO_PIXELS_OF_ANY),
    _kernel("tc_conv2d_s8_shared_long_asm", PACKED, TWO_PIXELS_OF_ANY_LONG),
    _kernel("tc_conv2d_s8_4x2_asm", PACKED, FOUR_PIXELS),
)
INT4_KERNELS = (
    _kernel("tc_conv2d_s8_w4_fpu_asm", DIGITS, TWO_PIXELS_FPU),
    _kernel("tc_conv2d_s8_w4_asm", DIGITS, TWO_PIXELS),
    _kernel("tc_conv2d_s8_w4_raised_asm", RAISED, TWO_PIXELS, conv.has_pairs, conv.on_stack),
)
