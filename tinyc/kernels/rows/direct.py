# SPDX-License-Identifier: Apache-2.0
"""conv2d on Cortex-M with DSP, one output row per call, without scratch (`direct_pixel.py`): where RAM is short."""

from __future__ import annotations

from functools import partial

import numpy as np
import numpy.typing as npt

from tinyc.base.dataclass import dataclass
from tinyc.kernel.kernel import Call, Const, Cost, In, Once, Out, RowForm, WrittenCode
from tinyc.kernel.site import Site
from tinyc.kernel.windows import ConvParams, Window, row_geometry
from tinyc.kernels.finish import Finish
from tinyc.kernels.form.function import LayerFunction, described_twin
from tinyc.kernels.form.plan import as_words
from tinyc.kernels.matrix import GROUP, Matrix
from tinyc.kernels.rows.direct_pixel import PARAMETERS, Direct, pixel_function
from tinyc.kernels.rows.tiles import MOVE_TWIN, move_function
from tinyc.kernels.stream import WIDE, in_fours, matrix_of, stream
from tinyc.kernels.tile.shape import tile_text
from tinyc.machine.thumb import Work

NAME = "tc_conv2d_s8_row_direct_asm"
_PIXEL = Work(12, 18)  # instructions of the loop over pixels, around its calls
_KINDS = Work(14, 21)  # where windows leave the image
_CALL = Work(20, 30)
_MOST_HELD = 256  # bytes of two pixels' outputs, on the stack


@dataclass(frozen=True)
class DirectRow:
    """The geometry of a row. held: outputs are written a pixel late, so that they may lie over the row's input."""

    in_w: int
    out_w: int
    stride: int
    pad_left: int
    held: bool

    def outside(self, direct: Direct, pixel: int) -> tuple[int, int]:
        """Columns of the pixel's window that lie left and right of the image."""
        first = pixel * self.stride - self.pad_left
        return max(0, -first), max(0, first + direct.k_w - self.in_w)

    def kinds(self, direct: Direct) -> list[tuple[int, int]]:
        """What `outside` gives, each once, from left to right."""
        return list(dict.fromkeys(self.outside(direct, i) for i in range(self.out_w)))


def row_forms(site: Site, p: ConvParams) -> tuple[RowForm, ...]:
    """The form, and (equal rows, stride 1, at most one column of padding) one in place; empty if there is none."""
    a, (out_c, k_h, k_w, in_c) = p.attrs, p.w.shape
    if a.groups != 1 or a.dilation != (1, 1) or (k_h, k_w) == (1, 1):
        return ()
    matrix = matrix_of(p)
    finish = WIDE.finish_of(matrix)
    if finish is None:
        return ()
    direct = Direct(k_h, k_w, in_c, out_c, finish.requant, site.core)
    window = Window.of(a, k_h, k_w)
    in_w, out_w = site.x(0).shape[2], site.y().shape[2]
    plain = DirectRow(in_w, out_w, window.stride.w, window.pad.left, held=False)
    if not direct.fits or any(left + right >= k_w for left, right in plain.kinds(direct)):
        return ()
    rows = row_geometry(site, window, p.x_zero)
    same = rows.in_row_bytes == rows.out_row_bytes and window.stride.w == 1 and in_c == out_c
    forms = []
    for held in (False, True):
        if held and not (same and window.pad.left <= 1 and 2 * out_c <= _MOST_HELD):
            continue
        row = DirectRow(in_w, out_w, window.stride.w, window.pad.left, held)
        function, executed = _function(direct, row)
        words = stream(matrix, finish, in_fours(k_h * k_w * in_c))
        starts = _starts(direct, row, p, matrix, finish)
        args = (
            Const(words, "stream of tc_row_direct.h", "stream"),
            Const(starts, "start values by columns outside", "start"),
            *(In(0), Out()),
        )
        whole = rows.out_h * executed
        code = WrittenCode(function, 4 * function.text.count("\\n"))
        flash = words.nbytes + starts.nbytes + code.size
        forms.append(
            RowForm(
                call=Call(args, rows=rows),
                scratch_bytes=0,
                cost=Cost(whole.instructions, flash, 0, whole.cycles, code=code),
                special=Once(partial(function.named, f"{NAME}_k{k_h}x{k_w}_i{in_c}_o{out_c}", "tc_row_direct.h")),
                inplace=(0,) if held else (),
            )
        )
    return tuple(forms)


def _starts(direct: Direct, row: DirectRow, p: ConvParams, matrix: Matrix, finish: Finish) -> npt.NDArray[np.int32]:
    """[kinds][out_c]: bias with the zero points of the columns outside."""
    w = p.w.astype(np.int64)
    starts = []
    for left, right in row.kinds(direct):
        columns = [*range(left), *range(direct.k_w - right, direct.k_w)]
        bias = matrix.p.bias.astype(np.int64) + p.x_zero * w[:, :, columns].sum(axis=(1, 2, 3))
        starts.append(finish.start_values(bias))
    return as_words(np.stack(starts))


def _function(direct: Direct, row: DirectRow) -> tuple[LayerFunction, Work]:
    """The functions of a layer, and what a row executes."""
    fast, call, per_row, turn = pixel_function("@_pixel", direct)
    kinds = len(row.kinds(direct))
    executed = _CALL + row.out_w * (call + _PIXEL + (_KINDS + 2 * kinds if kinds > 1 else Work()))
    for pixel in range(row.out_w):
        columns = direct.k_w - sum(row.outside(direct, pixel))
        turns = columns * direct.in_c // direct.turn
        executed += direct.groups * direct.k_h * (per_row + turns * turn)
    move = ""
    if row.held:
        moving, around, each = move_function("@_move", direct.core, pairs=False)
        fast += moving.text
        executed += row.out_w * (around + direct.groups * each)
        move = MOVE_TWIN.replace("@", "@_move")
    names = ", ".join(parameter.split()[-1].lstrip("*") for parameter in PARAMETERS)
    contract = f"""/* conv2d {direct.k_h}x{direct.k_w}, {direct.in_c} -> {direct.out_c} channels, column stride \
{row.stride}: a row of {row.out_w} pixels, without scratch.
 * x: {direct.k_h} row pointers, at words.{" y may be the first of them." if row.held else ""} stream, start: \
tc_row_direct.h.
 */"""
    fields: dict[str, int | str] = {"k_h": direct.k_h, "out_c": direct.out_c, "finish": direct.requant.c_text}
    pixel_twin = described_twin("@_pixel", PARAMETERS, "tc_row_direct_t", fields, f"tc_row_direct(&layer, {names});")
    driver = f"""static void @(const int32_t *stream, const int32_t *start, const int8_t *const *x, int8_t *y)
{{
{_loop(direct, row)}}}"""
    tile = tile_text(1, GROUP, "taps from the rows", WIDE.weights)
    return LayerFunction(contract, fast, pixel_twin + move, driver, tile=tile), executed


def _loop(direct: Direct, row: DirectRow) -> str:
    """The pixels, one after the other."""
    kinds = row.kinds(direct)
    lines = []
    if len(kinds) > 1:
        lines.append(f"    static const uint8_t outside[{len(kinds)}][2] = {{")
        lines += [f"        {{{left}, {right}}}," for left, right in kinds]
        lines.append("    };")
    if row.held:
        lines.append(f"    int32_t held[2][{direct.out_c // 4}];")
    lines += ["", f"    for (int32_t i = 0; i < {row.out_w}; i++) {{"]
    edges = [next(i for i in range(row.out_w) if row.outside(direct, i) == kind) for kind in kinds[1:]]
    chosen = "".join(f" + (i >= {edge})" for edge in edges)
    if len(kinds) > 1:
        lines.append(f"        const int32_t kind = 0{chosen};")
        lines.append("        const int32_t left = outside[kind][0], right = outside[kind][1];")
    else:
        lines.append(f"        const int32_t kind = 0, left = {kinds[0][0]}, right = {kinds[0][1]};")
    c, column = direct.in_c, direct.column_bytes
    first = f"(i * {row.stride} - {row.pad_left} + left) * {c}"
    y = "(int8_t *)held[i % 2]" if row.held else f"y + i * {direct.out_c}"
    lines.append(f"        @_pixel(stream, x, {y}, start + {direct.out_c} * kind, {first},")
    lines.append(f"            ({direct.k_w} - left - right) * {c}, left * {column}, right * {column});")
    if row.held:
        move = f"@_move((const int8_t *)held[{{}} % 2], y + {{}} * {direct.out_c}, {direct.out_c // 4});"
        lines += ["        if (i > 0) {", f"            {move.format('(i - 1)', '(i - 1)')}", "        }"]
    lines.append("    }")
    if row.held:
        lines.append(f"    {move.format(row.out_w - 1, row.out_w - 1)}")
    return "\n".join(lines) + "\n"
