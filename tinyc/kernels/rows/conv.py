# SPDX-License-Identifier: Apache-2.0
"""conv2d on Cortex-M with DSP, one output row per call: how a streamed group makes the layers of `weighted/conv.py`."""

from __future__ import annotations

from dataclasses import replace
from functools import partial

from tinyc.kernel.kernel import Call, Const, Cost, In, Kernel, Once, Out, RowForm, SpecializedKernel, WrittenCode
from tinyc.kernel.site import Site
from tinyc.kernel.windows import ConvParams
from tinyc.kernels.form.function import LayerFunction, apart
from tinyc.kernels.rows import direct as rows_direct
from tinyc.kernels.rows import fast as rows_fast
from tinyc.kernels.stream import Fit, fours, packed, stream, twin_text, wide
from tinyc.kernels.weighted import conv, layer
from tinyc.kernels.weighted.pixels import pixels_function
from tinyc.kernels.weighted.unrolled import UnrolledLayer, unrolled_function, unrolled_layer
from tinyc.machine.thumb import Naked, Work

_CALL = Work(30, 45)  # around the calls of a row
_STACK_BYTES = 256  # of scratch that lies on the stack: no more than what pixel pairs of a 1x1 layer take there


def row_forms(site: Site, p: ConvParams, fit: Fit, family: str, fpu: bool = False) -> tuple[RowForm, ...]:
    """A row of pixel pairs, their taps unpacked on the stack or in scratch; rows of 1x1 weights with an odd pixel in a
    second form too; rows of 3x3 weights also by fast forms (`fast.py`),
    and larger windows without scratch (`direct.py`).

    1x1 weights of stride 1 read their pixels before they write the outputs, so such a row may be made in place.
    """
    work = conv.plan(site, p, fit, by_rows=True, fpu=fpu)
    assert work is not None  # or there is no offer to add this to
    pointwise = p.w.shape[1:3] == (1, 1) and p.attrs.stride == (1, 1) and not any(p.attrs.pad)
    in_place = (0,) if pointwise and p.w.shape[0] == p.w.shape[3] else ()
    pairs = _pairs_form(work, family, in_place)
    single = unrolled_layer(work.layer) if work.pixels % 2 and work.is_direct else None
    forms = [pairs] if single is None else [_unrolled_form(work, single, family, in_place), pairs]
    if fit in (wide, fours) and not fpu:  # once for weights of a kind
        forms += rows_fast.row_forms(site, p)
    if fit is wide and not fpu:
        forms += rows_direct.row_forms(site, p)
    return tuple(forms)


def _pairs_form(work: layer.WeightedPlan, family: str, in_place: tuple[int, ...]) -> RowForm:
    """Pixel pairs; small copies of columns at the border lie on the stack."""
    call, cost = layer.call(work), layer.cost(work)
    args, scratch = call.args, work.scratch_bytes
    on_stack = 0 < scratch <= _STACK_BYTES
    if on_stack:
        scratch, args = 0, args[:-1]
    return RowForm(
        call=Call(args, rows=call.rows),
        scratch_bytes=scratch,
        cost=replace(cost, scratch_bytes=scratch),
        special=Once(lambda: _on_stack(work, family) if on_stack else layer.special(work, family)),
        inplace=in_place,
    )


def _on_stack(work: layer.WeightedPlan, family: str) -> SpecializedKernel:
    """The function of the layer with its scratch on the stack."""
    special = layer.special(work, family)
    name = f"{special.name}_row"
    pieces = f"{name}_pieces"  # the same function may be there under its own name, of a layer made whole
    text = f"""{special.text.replace(special.name, pieces)}

/* The same with its scratch on the stack. */
static void {name}(const int32_t *stream, const int8_t *const *x, int8_t *y{", int32_t n" if work.is_direct else ""})
{{
    int32_t scratch[{-(-work.scratch_bytes // 4)}];

    {pieces}(stream, x, y, {"n, " if work.is_direct else ""}scratch);
}}"""
    return replace(special, name=name, text=text)


def _unrolled_form(work: layer.WeightedPlan, single: UnrolledLayer, family: str, in_place: tuple[int, ...]) -> RowForm:
    """The last pixel (of one: the only) by a function of its own."""
    functions, executed = _unrolled_functions(work, single)
    words = stream(work.matrix, work.finish, single.slots)
    whole = work.rows.out_h * (executed + _CALL)
    code = WrittenCode((single, work.layer, work.pixels), sum(function.code_bytes for function in functions))
    flash = words.nbytes + code.size
    constant = Const(words, f"stream of tc_stream.h, {single.steps} steps", "stream")
    return RowForm(
        call=Call((constant, In(0), Out()), rows=work.rows),
        scratch_bytes=0,
        cost=Cost(whole.instructions, flash, 0, whole.cycles, code=code),
        special=Once(lambda: _unrolled_special(work, single, family, [function.text for function in functions])),
        inplace=in_place,
    )


def _unrolled_functions(work: layer.WeightedPlan, single: UnrolledLayer) -> tuple[list[Naked], Work]:
    """The functions of the pairs of pixels, if there are any, and of the last pixel; what a row executes."""
    last = work.pixels - 1
    fast, executed = unrolled_function("@_last", single)
    if not last:
        return [fast], executed
    pairs, count = pixels_function("@_pixels", work.layer)
    return [pairs, fast], executed + count.of(last)


def _unrolled_special(
    work: layer.WeightedPlan, single: UnrolledLayer, family: str, fast: list[str]
) -> SpecializedKernel:
    stem = f"{family}_row{work.pixels}_i{single.row_taps}_o{single.out_c}"
    return _unrolled_function(work, single, fast).named(stem, "tc_stream.h")


def _unrolled_function(work: layer.WeightedPlan, single: UnrolledLayer, fast: list[str]) -> LayerFunction:
    """The functions of a row of an odd number of pixels."""
    last = work.pixels - 1
    twins = [twin_text("@", work.finish, single), layer.stream_twin("@_last", single)]
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
    return LayerFunction(contract, apart(fast), apart(twins), driver)


def _with_rows(kernel: Kernel, fit: Fit, fpu: bool) -> Kernel:
    return kernel.with_row_forms(partial(row_forms, fit=fit, family=kernel.name, fpu=fpu))


KERNELS = tuple(_with_rows(kernel, fit, False) for kernel, fit in zip(conv.KERNELS, (wide, packed), strict=True))
FPU_KERNELS = tuple(_with_rows(kernel, fit, True) for kernel, fit in zip(conv.FPU_KERNELS, (wide, packed), strict=True))


def _four_pixel_form(site: Site, p: ConvParams) -> tuple[RowForm, ...]:
    """A row of four pixels or more; made in place where a pixel keeps its bytes."""
    if site.y().shape[2] < conv.FOUR_PIXELS:
        return ()
    work = conv.four_pixels_plan(site, p, by_rows=True)
    assert work is not None  # or there is no offer to add this to
    in_place = (0,) if p.w.shape[0] == p.w.shape[3] else ()
    return (_pairs_form(work, conv.FOUR_PIXEL_KERNEL.name, in_place),)


FOUR_PIXEL_KERNEL = conv.FOUR_PIXEL_KERNEL.with_row_forms(_four_pixel_form)
