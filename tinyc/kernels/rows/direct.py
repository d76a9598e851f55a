# SPDX-License-Identifier: Apache-2.0
"""conv2d on Cortex-M with DSP, one output row per call, without scratch: where RAM is short."""

from __future__ import annotations

from functools import partial

import numpy as np
import numpy.typing as npt

from tinyc.base.dataclass import dataclass
from tinyc.kernel.kernel import Call, Const, Cost, In, Once, Out, RowForm, WrittenCode
from tinyc.kernel.site import Site
from tinyc.kernel.windows import ConvParams, Window, row_geometry
from tinyc.kernels.finish import Finish, Requantization
from tinyc.kernels.form.function import LayerFunction, described_twin
from tinyc.kernels.matrix import GROUP, Matrix
from tinyc.kernels.rows.tiles import MOVE_TWIN, move_function
from tinyc.kernels.stream import WIDE, as_words, in_fours, matrix_of, stream
from tinyc.kernels.tile.groups import Weights
from tinyc.kernels.tile.shape import tile_text
from tinyc.machine.cores import Core
from tinyc.machine.frame import Frame
from tinyc.machine.thumb import Asm, Work, naked_function

_ACC = ("r1", "r2", "r3", "r4")
_WEIGHTS = ("r8", "r9", "r10", "r11", "r12", "r14")
_TURN = 32  # taps of a kernel row without a loop
_WORDS = ("x", "row", "row_end", "tap_end", "y", "y_end", "start", "first", "count", "before", "after")
_FRAME = Frame(_WORDS, first="[sp, #0]")
_SAVED = 36  # bytes: r4-r11, lr
PARAMETERS = (
    "const int32_t *stream",
    "const int8_t *const *x",
    "int8_t *y",
    "const int32_t *start",
    "int32_t first",
    "int32_t count",
    "int32_t before",
    "int32_t after",
)


@dataclass(frozen=True)
class Direct:
    """What the code depends on: windows of k_h x k_w taps of in_c channels."""

    k_h: int
    k_w: int
    in_c: int
    out_c: int
    requant: Requantization
    core: Core

    @property
    def groups(self) -> int:
        return self.out_c // GROUP

    @property
    def column_bytes(self) -> int:
        """Weights of a column of a kernel row, for four output channels."""
        return 2 * GROUP * self.in_c

    @property
    def turn(self) -> int:
        """Taps of a turn: they divide those of a column."""
        return max(n for n in range(4, _TURN + 1, 4) if self.in_c % n == 0)


def pixel_function(name: str, direct: Direct) -> tuple[str, Work, Work, Work]:
    """`name(stream, x, y, start, first, count, before, after)`: the outputs y [out_c] of one pixel. Its text; what a
    call executes, and beside that each kernel row of a group, and each turn.

    In each row, `count` bytes from `first` on are read; `before` and `after` them, bytes of weights are passed over.
    start: start values of all output channels.
    """
    asm = Asm(direct.core)
    _enter(asm, direct)
    with asm.loop("group", direct.groups):
        asm.note("start values of four channels")
        asm.op("ldr", "r5", _FRAME.at("start"))
        asm.load_multiple("r5", _ACC)
        asm.op("str", "r5", _FRAME.at("start"))
        asm.op("add", "r0", "r0", f"#{4 * GROUP}")
        asm.op("ldr", "r5", _FRAME.at("x"))
        _rows(asm, direct)
        _finish(asm, direct.requant)
        asm.op("ldr", "r5", _FRAME.at("y_end"))
        asm.op("str", "r14", _FRAME.at("y"))
        asm.until_equal("r14", "r5", "group")
    asm.restore()
    return naked_function(name, PARAMETERS, asm), asm.work(), asm.work("row"), asm.work("turn")


def _enter(asm: Asm, direct: Direct) -> None:
    """Saves registers and arguments."""
    asm.note("registers and arguments to the stack")
    asm.save("{r4-r11, lr}", frame=_FRAME.size)
    asm.add("r4", "r1", 4 * direct.k_h)
    asm.op("str", "r1", _FRAME.at("x"))
    asm.op("str", "r4", _FRAME.at("row_end"))
    asm.add("r4", "r2", direct.out_c)
    asm.op("strd", "r2", "r4", _FRAME.at("y"))
    asm.op("str", "r3", _FRAME.at("start"))
    asm.add("r4", "sp", _FRAME.size + _SAVED)
    asm.op("ldm", "r4", "{r5, r6, r7, r8}")
    asm.add("r4", "sp", _FRAME.place("first"))
    asm.op("stm", "r4", "{r5, r6, r7, r8}")


def _rows(asm: Asm, direct: Direct) -> None:
    """The sums of four output channels over all kernel rows; r5: the first row's pointer."""
    with asm.loop("row", "row", of_call=True):
        asm.note("a kernel row: its taps, and weights that they pass over")
        asm.op("ldr", "r7", "[r5], #4")
        asm.op("str", "r5", _FRAME.at("row"))
        asm.op("ldrd", "r5", "r6", _FRAME.at("first"))
        asm.op("add", "r7", "r7", "r5")
        asm.op("add", "r6", "r6", "r7")
        asm.op("str", "r6", _FRAME.at("tap_end"))
        asm.op("ldr", "r5", _FRAME.at("before"))
        asm.op("add", "r0", "r0", "r5")
        with asm.loop("taps", "turn", of_call=True):
            asm.note("products")
            _taps(asm, direct.turn)
        asm.op("ldr", "r5", _FRAME.at("after"))
        asm.op("add", "r0", "r0", "r5")
        asm.op("ldrd", "r5", "r6", _FRAME.at("row"))
        asm.until_equal("r5", "r6", "row")


def _taps(asm: Asm, count: int) -> None:
    """A turn of the innermost loop."""
    weights = Weights(asm, _WEIGHTS, count * 2)
    for _ in range(count // 4):
        asm.op("ldr", "r5", "[r7], #4")
        asm.op("sxtb16", "r6", "r5")
        asm.op("sxtb16", "r5", "r5", "ror #8")
        for x in ("r6", "r5"):
            for acc in _ACC:
                asm.op("smlad", acc, x, weights.next(), acc)
    asm.op("ldr", "r5", _FRAME.at("tap_end"))
    asm.until_equal("r7", "r5", "taps")


def _finish(asm: Asm, requant: Requantization) -> None:
    """Scales and stores four outputs; r14: the next."""
    asm.note("requantize and store")
    asm.op("ldr", "r14", _FRAME.at("y"))
    in_turn = requant.constants_in_turn(asm, "r0", ("r9", "r10", "r11", "r12"), GROUP)
    for position, (acc, constants) in enumerate(zip(_ACC, in_turn, strict=True)):
        requant.emit(asm, position, acc, "", constants, "r5")
        asm.op("strb", acc, "[r14], #1")


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
    """The form, and (equal rows, stride 1, at most one column of padding) one in place; empty if there is none. The
    layer has one group, channels in fours, no dilation, and windows of more than a pixel and at most 255 rows."""
    a, (out_c, k_h, k_w, in_c) = p.attrs, p.w.shape
    matrix = matrix_of(p)
    finish = WIDE.finish_of(matrix)
    if finish is None:
        return ()
    direct = Direct(k_h, k_w, in_c, out_c, finish.requant, site.core)
    window = Window.of(a, k_h, k_w)
    in_w, out_w = site.x(0).shape[2], site.y().shape[2]
    plain = DirectRow(in_w, out_w, window.stride.w, window.pad.left, held=False)
    if any(left + right >= k_w for left, right in plain.kinds(direct)):
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
    array_bytes = 2 * direct.out_c * row.held
    return LayerFunction(contract, fast, pixel_twin + move, driver, tile=tile, array_bytes=array_bytes), executed


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
