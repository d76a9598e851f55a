# SPDX-License-Identifier: Apache-2.0
"""depthwise_conv2d 3x3 on RV32IM, int8 and int4 weights: a function in assembly for each layer
(tc_rv32_depthwise.h says what it computes).

A channel's nine weights stay in registers, and the sums of the pixels that a column belongs to, so that a column of
three taps is read once. Zero points outside the image are one product, with the sum of a column of weights.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import numpy.typing as npt

from tinyc.base.dataclass import dataclass
from tinyc.kernel.kernel import Once, writing
from tinyc.kernel.site import Site
from tinyc.kernel.types import is_s8, is_s8_w4
from tinyc.kernel.windows import ConvParams
from tinyc.kernels.nibbles import pack_nibbles
from tinyc.kernels.scalar.rv32_finish import ChannelFinish
from tinyc.kernels.scalar.rv32_layer import DepthwiseTile, depthwise_kernel
from tinyc.kernels.tile.shape import tile_text
from tinyc.machine.riscv import SAVED, RiscvAsm, RiscvFrame

_UNROLLED = 8  # pixels of a row without a loop
_REACH = 2048  # bytes that a load or store goes from its register


@dataclass(frozen=True, slots=True)
class DepthwiseRow:
    """What the code of a row depends on."""

    in_w: int
    out_w: int
    channels: int
    stride: int
    pad_left: int
    x_zero: int
    int4: bool
    finish: ChannelFinish

    def columns(self, pixel: int) -> range:
        """The columns that are read for a pixel beside those of the pixel before."""
        last = pixel * self.stride - self.pad_left + 3
        return range(last - (3 if pixel == 0 else self.stride), last)

    @property
    def in_place(self) -> bool:
        """Whether every column is read before the pixel in its place is written."""
        return self.stride == 1 and self.pad_left < 2 and self.in_w == self.out_w

    @property
    def turn(self) -> int:
        """Pixels of a turn: then sums are in the same registers again."""
        return 3 if self.stride == 1 else 2

    @property
    def looped(self) -> range:
        """Pixels that a loop makes: they read no column outside, as little as those whose sums have begun, and are
        many."""
        inside = [i for i in range(1, self.out_w) if self._is_inside(i)]
        last = min(inside[-1], self.out_w - 3) if inside else 0
        columns = range(inside[0], last + 1) if inside else range(0)
        whole = len(columns) // self.turn * self.turn
        return columns[:whole] if whole > _UNROLLED else range(0)

    def _is_inside(self, pixel: int) -> bool:
        return self.columns(pixel)[0] >= 0 and self.columns(pixel)[-1] < self.in_w

    def pixels_of(self, column: int) -> Iterator[tuple[int, int]]:
        """(pixel, column of the weights) that a column belongs to, first pixels first."""
        for k in (2, 1, 0):
            pixel, rest = divmod(column + self.pad_left - k, self.stride)
            if rest == 0 and 0 <= pixel < self.out_w:
                yield pixel, k


class _RowWriter:
    """a0 weights, a1 channels, a2 row pointers, a3 y; x0 to x2 and y are a channel's, from `base` on."""

    def __init__(self, row: DepthwiseRow) -> None:
        self.row, self.asm = row, RiscvAsm()
        free = iter(("a4", "a5", "a6", "a7", *(f"t{i}" for i in range(7)), *SAVED, "ra"))
        self.w, self.channels, self.y = "a0", "a1", "a3"
        self.x = ["a2", next(free), next(free)]
        self.taps = [next(free) for _ in range(9)]
        self.sums = [next(free) for _ in range(3)]
        self.column = [next(free) for _ in range(3)]
        self.temp, self.start, self.mult, self.shift = (next(free) for _ in range(4))
        self.least, self.greatest = next(free), next(free)
        self.more = next(free)
        names = (*SAVED, "ra", "last", "x0", "x1", "x2", "y", "end")
        self.frame = RiscvFrame(names)
        self.begun: set[int] = set()  # pixels whose sums are in registers
        self.base, self.base_pixel = 0, 0  # the column and pixel that pointers are at

    @property
    def moves(self) -> bool:
        """Whether pointers move within a channel."""
        row = self.row
        return bool(row.looped) or max(row.in_w, row.out_w) * row.channels >= _REACH

    def write(self) -> RiscvAsm:
        asm, row = self.asm, self.row
        asm.save(self.frame.size, (*SAVED, "ra"))
        asm.immediate(self.temp, row.channels)
        asm.op("add", self.temp, self.temp, "a3")
        asm.op("sw", self.temp, self.frame.at("last"))
        for number in (2, 1, 0):  # the first is over their address
            asm.op("lw", self.x[number], f"{4 * number}(a2)")
        asm.op("li", self.least, str(row.finish.low))
        asm.op("li", self.greatest, str(row.finish.high))
        with asm.loop("channel", row.channels, aligned=False):
            if self.moves:
                asm.words("sw", (*self.x, self.y), "sp", self.frame.place("x0"))
            self._constants()
            self._pixels()
            if self.moves:
                asm.words("lw", (*self.x, self.y), "sp", self.frame.place("x0"))
            asm.op("lw", self.temp, self.frame.at("last"))
            for register in (*self.x, self.y):
                asm.add(register, register, 1)
            asm.branch("bne", "channel", self.y, self.temp)
        asm.restore()
        return asm

    def _constants(self) -> None:
        """Of a channel; pointers to the next one's."""
        asm, row = self.asm, self.row
        asm.note("a channel's weights and constants")
        if row.int4:
            for byte in range(5):
                even = self.taps[2 * byte]
                asm.op("lb", even, f"{byte}({self.w})")
                if byte < 4:
                    asm.op("srai", self.taps[2 * byte + 1], even, "4")
                asm.op("slli", even, even, "28")
                asm.op("srai", even, even, "28")
        else:
            for number, tap in enumerate(self.taps):
                asm.op("lb", tap, f"{number}({self.w})")
        for register, place in row.finish.registers(self.start, self.mult, self.shift, self.more):
            asm.op("lw", register, f"{place}({self.channels})")
        asm.add(self.w, self.w, 5 if row.int4 else 9)
        asm.add(self.channels, self.channels, 16)

    def _pixels(self) -> None:
        row, looped = self.row, self.row.looped
        self.begun, self.base, self.base_pixel = set(), 0, 0
        pixel = 0
        while pixel < row.out_w:
            if looped and pixel == looped[0]:
                self._loop(looped)
                pixel = looped[-1] + 1
            else:
                self._pixel(pixel)
                pixel += 1

    def _loop(self, looped: range) -> None:
        asm, row, turns = self.asm, self.row, len(looped) // self.row.turn
        self._rebase(row.columns(looped[0])[0], looped[0])
        steps = row.turn * row.stride, row.turn
        asm.immediate(self.temp, turns * row.turn * row.channels)
        asm.op("add", self.temp, self.temp, self.y)
        asm.op("sw", self.temp, self.frame.at("end"))
        with asm.loop("pixels", turns, aligned=False):
            for pixel in looped[: row.turn]:
                self._pixel(pixel)
            for register in self.x:
                asm.more(register, steps[0] * row.channels, self.temp)
            asm.more(self.y, steps[1] * row.channels, self.temp)
            asm.op("lw", self.temp, self.frame.at("end"))
            asm.branch("bne", "pixels", self.y, self.temp)
        # Sums go on in the same registers, of later pixels.
        ahead = len(looped) - row.turn
        self.begun = {pixel + ahead for pixel in self.begun}
        self.base, self.base_pixel = self.base + turns * steps[0], self.base_pixel + turns * steps[1]

    def _rebase(self, column: int, pixel: int) -> None:
        """Pointers to this column and pixel."""
        for register in self.x:
            self.asm.more(register, (column - self.base) * self.row.channels, self.temp)
        self.asm.more(self.y, (pixel - self.base_pixel) * self.row.channels, self.temp)
        self.base, self.base_pixel = column, pixel

    def _pixel(self, pixel: int) -> None:
        """The columns that end at a pixel, and its output."""
        row = self.row
        inside = [column for column in row.columns(pixel) if 0 <= column < row.in_w]
        if inside and max(inside[-1] - self.base, pixel - self.base_pixel) * row.channels >= _REACH:
            self._rebase(inside[0], pixel)
        for column in row.columns(pixel):
            if 0 <= column < row.in_w:
                self._inside(column)
            else:
                self._outside(column)
        self._finish(pixel)

    def _sum(self, pixel: int) -> str:
        return self.sums[pixel % 3] if self.row.stride == 1 else self.sums[pixel % 2]

    def _inside(self, column: int) -> None:
        asm, row = self.asm, self.row
        place = (column - self.base) * row.channels
        for register, rows in zip(self.column, self.x, strict=True):
            asm.op("lb", register, f"{place}({rows})")
        for pixel, k in row.pixels_of(column):
            total = self._sum(pixel)
            for number, register in enumerate(self.column):
                product = self.temp if pixel in self.begun else total
                asm.op("mul", product, register, self.taps[3 * number + k])
                if pixel in self.begun:
                    asm.op("add", total, total, product)
                self.begun.add(pixel)

    def _outside(self, column: int) -> None:
        """x_zero times the sum of a column of weights."""
        asm, zero = self.asm, self.row.x_zero
        for pixel, k in self.row.pixels_of(column):
            total = self._sum(pixel)
            weights, first = self.column[0], pixel not in self.begun
            asm.op("add", weights, self.taps[k], self.taps[3 + k])
            asm.op("add", weights, weights, self.taps[6 + k])
            if -zero > 0 and -zero & (-zero - 1) == 0:
                asm.op("slli", weights, weights, str((-zero).bit_length() - 1))
                asm.op("sub", total, "zero" if first else total, weights)
            else:
                asm.op("li", self.temp, str(zero))
                asm.op("mul", weights, weights, self.temp)
                asm.op("add", total, "zero" if first else total, weights)
            self.begun.add(pixel)

    def _finish(self, pixel: int) -> None:
        asm, finish, total = self.asm, self.row.finish, self._sum(pixel)
        finish.clamped(asm, total, self.start, (self.mult, self.shift, self.more), (self.least, self.greatest))
        asm.op("sb", total, f"{(pixel - self.base_pixel) * self.row.channels}({self.y})")
        self.begun.discard(pixel)


def _row(row: DepthwiseRow) -> RiscvAsm:
    return _RowWriter(row).write()


def _weights(row: DepthwiseRow, p: ConvParams) -> npt.NDArray[np.int8]:
    """[C, 9], with int4 two in a byte."""
    taps = np.ascontiguousarray(p.w.reshape(9, -1).T).astype(np.int8)
    return pack_nibbles(np.pad(taps, ((0, 0), (0, 1)))).view(np.int8) if row.int4 else taps


def takes(site: Site) -> bool:
    """constant 3x3 weights, one output per input channel, horizontal stride 1 or 2, no dilation, left padding of at
    most 3 - stride"""
    if not site.is_const(1) or site.x(1).shape[:2] != (3, 3) or site.x(1).shape[2] != site.x(0).shape[3]:
        return False
    a = site.attrs
    return a.stride.w in (1, 2) and tuple(a.dilation) == (1, 1) and a.pad.left <= 3 - a.stride.w


def _tile(site: Site, p: ConvParams, finish: ChannelFinish) -> DepthwiseTile:
    """A row, one channel of it after the other."""
    in_w, out_w, channels = site.x(0).shape[2], site.y().shape[2], len(p.bias)
    stride, pad_left = p.attrs.stride.w, p.attrs.pad.left
    row = DepthwiseRow(in_w, out_w, channels, stride, pad_left, p.x_zero, site.x(1).dtype == "s4", finish)
    fields = {"k_h": 3, "k_w": 3, "stride": stride, "dilation": 1, "pad_left": pad_left, "x_zero": p.x_zero}
    fields |= {"in_w": in_w, "out_w": out_w, "out_c": channels, "late": row.in_place and pad_left > 0}
    return DepthwiseTile(
        code=writing(_row, row),
        name=f"tc_depthwise_conv2d_3x3_s8{'_w4' * row.int4}_rv32_{in_w}x{channels}",
        kernel="3x3",
        extent=f"a row of {in_w}x{channels} -> {out_w}x{channels}, stride {stride}",
        fields=fields | {"lanes": 1, "tap": 1, "block": 10 if row.int4 else 9, "int4": row.int4},
        weights=Once(lambda: _weights(row, p)),
        layout="[out_c][5], two int4 in a byte, low half first" if row.int4 else "[out_c][k_h][k_w]",
        weight_bytes=(5 if row.int4 else 9) * channels,
        tile=tile_text(row.turn, 1, "columns from the rows", "nine weights in registers"),
        in_place=row.in_place,
    )


KERNELS = (
    depthwise_kernel("tc_depthwise_conv2d_3x3_s8_rv32", _tile, is_s8, takes),
    depthwise_kernel("tc_depthwise_conv2d_3x3_s8_w4_rv32", _tile, is_s8_w4, takes),
)
