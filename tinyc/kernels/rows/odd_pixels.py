# SPDX-License-Identifier: Apache-2.0
"""1x1 weights on Cortex-M with DSP, two output rows per call where rows have an odd number of pixels: the last pixels
of both rows are a pair. A row alone has one left over, for which all weights are read once more."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from tinyc.kernel.kernel import Call, Const, Once, Out, RowForm, SpecializedKernel, WrittenCode
from tinyc.kernels.form.function import LayerFunction
from tinyc.kernels.tile.shape import Tile
from tinyc.kernels.weighted import layer
from tinyc.machine.thumb import Work

# As counted on a Cortex-M4, in C around the calls of two rows, and of rows of one pixel, which take one call.
_CALLS, _CALL = Work(56, 88), Work(28, 53)
_WORD = Work(2, 3)  # of the last pixels or their outputs, copied; in a loop it takes twice as much
_UNROLLED = 128  # bytes of the longest copy that a compiler makes without a loop
_DRIVER_BYTES = 510  # that compilers make of the C around the function of pixels
_MOST_BYTES = 256  # of a pixel and its outputs: two lie on the stack


def two_rows(
    work: layer.WeightedPlan, tile: Tile, family: str, x_zero: int, in_place: tuple[int, ...]
) -> RowForm | None:
    """The form, of pixels and rows next to each other; None where rows are even, or alone, or taps do not lie on the
    stack.

    tile: of two pixels; that of the work is of one where a row is one.
    """
    if work.pixels == 1:
        work = replace(work, layer=replace(work.layer, tile=tile))
    one, rows, pixels, (in_c, out_c) = work.layer, work.rows, work.pixels, (work.layer.row_taps, work.layer.out_c)
    beside = work.is_direct and one.k_h == rows.stride == 1 and one.pixel_bytes == in_c and tile.pixels == 2
    if not beside or pixels % 2 == 0 or rows.out_h < 2 or work.scratch_bytes or max(in_c, out_c) > _MOST_BYTES:
        return None
    count = work.code[1]
    pairs = 2 * count.of(pixels - 1) if pixels > 1 else Work()
    both = pairs + count.of(2) + 2 * (_copied(in_c) + _copied(out_c)) + (_CALLS if pixels > 1 else _CALL)
    alone = count.of(pixels) + _CALL if pixels > 1 else both
    whole = rows.out_h // 2 * both + rows.out_h % 2 * alone
    pad = rows.pad or Const(np.full(rows.in_row_bytes, x_zero, np.int8), "[in_w][in_c] of x_zero", "pad")
    words, x, *_ = layer.call(work).args
    around = WrittenCode(("two rows", one, pixels), _DRIVER_BYTES)
    cost = replace(layer.cost(work), instructions=whole.instructions, cycles=whole.cycles).beside([around])
    return RowForm(
        call=Call((words, x, Out()), rows=replace(rows, out_rows=2, pad=pad)),
        scratch_bytes=0,
        cost=cost,
        special=Once(lambda: _special(work, layer.special(work, family=family))),
        inplace=in_place,
        only_own_rows=True,
        lone_row=(alone.instructions - both.instructions // 2, alone.cycles - both.cycles // 2),
    )


def _copied(size: int) -> Work:
    """A copy of so many bytes."""
    return -(-size // 4) * (1 if size <= _UNROLLED else 2) * _WORD


def _special(work: layer.WeightedPlan, pixels: SpecializedKernel) -> SpecializedKernel:
    """In C around the function of pixels, which reads two before it writes their outputs."""
    in_c, out_c, paired = work.layer.row_taps, work.layer.out_c, work.pixels - 1
    words = -(-2 * max(in_c, out_c) // 4)
    contract = f"""/* Two rows, 1x1 weights: {work.pixels}x{in_c} -> {work.pixels}x{out_c}. stream: tc_stream.h.
 * x: 2 row pointers. y: 2, which may be those of x; where they are the same, the second row stays.
 */"""
    alone = f"""
    if (y[0] == y[1]) {{
        {pixels.name}(stream, x + 1, y[1], {work.pixels});
        return;
    }}"""
    pairs = f"""
    for (int32_t i = 0; i < 2; i++) {{
        const int32_t row = y[0] == x[1] ? 1 - i : i; /* what the first row overwrites is read before */
        {pixels.name}(stream, x + row, y[row], {paired});
    }}"""
    driver = f"""static void @(const int32_t *stream, const int8_t *const *x, int8_t *const *y)
{{
    int32_t words[{words}];
    int8_t *last = (int8_t *)words;
    const int8_t *const both = last;
{alone if paired else ""}
    tc_copy(last, x[0] + {paired * in_c}, {in_c});
    tc_copy(last + {in_c}, x[1] + {paired * in_c}, {in_c});{pairs if paired else ""}
    {pixels.name}(stream, &both, last, 2);
    tc_copy(y[0] + {paired * out_c}, last, {out_c});
    tc_copy(y[1] + {paired * out_c}, last + {out_c}, {out_c});
}}"""
    function = LayerFunction(contract, driver=driver, array_bytes=4 * words)
    return function.named(f"{pixels.name}_two_rows", *pixels.includes, "tc_copy.h", parts=(*pixels.parts, pixels))
