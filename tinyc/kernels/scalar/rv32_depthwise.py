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
from tinyc.kernel.kernel import (
    Call,
    Const,
    Cost,
    Fetches,
    In,
    Kernel,
    Offer,
    Once,
    Out,
    Refused,
    RowForm,
    SpecializedKernel,
    writing,
)
from tinyc.kernel.site import Site
from tinyc.kernel.windows import ConvParams, Window, is_s8, row_geometry
from tinyc.kernels.form.function import RV32, LayerFunction
from tinyc.kernels.nibbles import is_s8_w4, pack_nibbles
from tinyc.kernels.scalar.loops.costs import ARMV7M_SHARE
from tinyc.kernels.scalar.rv32_conv import ISA, PROVED
from tinyc.kernels.scalar.rv32_finish import ChannelFinish, finished
from tinyc.kernels.scalar.rv32_twin import HEADER, taps_twin
from tinyc.kernels.stream import depthwise_matrix_of
from tinyc.machine.frame import Frame
from tinyc.machine.riscv import SAVED, RiscvAsm

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
        self.frame = Frame(names, above=-4 * len(names) % 16, saved=0)
        self.begun: set[int] = set()  # pixels whose sums are in registers
        self.base, self.base_pixel = 0, 0  # the column and pixel that pointers are at

    def at(self, name: str) -> str:
        return f"{self.frame.place(name)}(sp)"

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
        asm.op("sw", self.temp, self.at("last"))
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
            asm.op("lw", self.temp, self.at("last"))
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
        asm.op("sw", self.temp, self.at("end"))
        with asm.loop("pixels", turns, aligned=False):
            for pixel in looped[: row.turn]:
                self._pixel(pixel)
            for register in self.x:
                asm.more(register, steps[0] * row.channels, self.temp)
            asm.more(self.y, steps[1] * row.channels, self.temp)
            asm.op("lw", self.temp, self.at("end"))
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
        asm.op("slli", total, total, str(finish.scale))
        asm.op("add", total, total, self.start)
        finish.write(asm, total, (self.mult, self.shift, self.more))
        asm.clamp(total, self.least, self.greatest)
        asm.op("sb", total, f"{(pixel - self.base_pixel) * self.row.channels}({self.y})")
        self.begun.discard(pixel)


def _row(row: DepthwiseRow) -> RiscvAsm:
    return _RowWriter(row).write()


def _taps(p: ConvParams) -> npt.NDArray[np.int8]:
    """Weights as [C, 9]."""
    return np.ascontiguousarray(p.w.reshape(9, -1).T).astype(np.int8)


def takes(site: Site) -> bool:
    """constant 3x3 weights, one output per input channel, horizontal stride 1 or 2, no dilation, left padding of at
    most 3 - stride"""
    if not site.is_const(1) or site.x(1).shape[:2] != (3, 3) or site.x(1).shape[2] != site.x(0).shape[3]:
        return False
    a = site.attrs
    return a.stride.w in (1, 2) and tuple(a.dilation) == (1, 1) and a.pad.left <= 3 - a.stride.w


def _special(row: DepthwiseRow) -> SpecializedKernel:
    """The function that makes an output row."""
    parameters = ("const int8_t *w", "const int32_t *channels", "const int8_t *const *x", "int8_t *y")
    sizes = f"{row.in_w}x{row.channels} -> {row.out_w}x{row.channels}, stride {row.stride}"
    contract = f"/* depthwise_conv2d 3x3 on RV32IM ({HEADER}): a row of {sizes}. */"
    window = {"k_h": 3, "k_w": 3, "stride": row.stride, "dilation": 1, "pad_left": row.pad_left, "x_zero": row.x_zero}
    image = {"in_w": row.in_w, "out_w": row.out_w, "out_c": row.channels, "late": row.in_place and row.pad_left > 0}
    weights = {"lanes": 1, "tap": 1, "block": 10 if row.int4 else 9, "int4": row.int4}
    portable = taps_twin(parameters, ("x", "NULL"), window | image | weights, row.finish)
    function = LayerFunction(contract, writing(_row, row).function("@", parameters), portable, isa=RV32)
    stem = f"tc_depthwise_conv2d_3x3_s8{'_w4' * row.int4}_rv32_{row.in_w}x{row.channels}"
    return function.named(stem, "tc_rv32.h", HEADER)


def _lower(site: Site, p: ConvParams, channels: Const) -> Call:
    """One output row from three input rows."""
    weights = Const(_taps(p), "[out_c][k_h][k_w]", "w")
    if site.x(1).dtype == "s4":
        even = np.pad(_taps(p), ((0, 0), (0, 1)))
        weights = Const(pack_nibbles(even).view(np.int8), "[out_c][5], two int4 in a byte, low half first", "w")
    return Call((weights, channels, In(0), Out()), rows=row_geometry(site, Window.of(p.attrs, 3, 3), p.x_zero))


def _cost(site: Site, row: DepthwiseRow) -> Cost:
    """On the scale of `rv32_conv.cost`."""
    asm = writing(_row, row)
    executed = int(site.y().shape[1] * asm.work().instructions * ARMV7M_SHARE)
    constants = (5 if row.int4 else 9) * row.channels + 16 * row.channels
    fetches = Fetches.around(constants, asm.code_bytes, executed)
    return Cost(executed, constants + asm.code_bytes, 0, fetches=fetches)


def _offer(site: Site, p: ConvParams) -> Offer | Refused:
    proved = finished(depthwise_matrix_of(p), p.bias)
    if proved is None:
        return Refused(PROVED)
    sizes = site.x(0).shape[2], site.y().shape[2], len(p.bias), p.attrs.stride.w, p.attrs.pad.left
    row = DepthwiseRow(*sizes, p.x_zero, site.x(1).dtype == "s4", proved.finish)
    cost, call, special = _cost(site, row), Once(lambda: _lower(site, p, proved.const)), Once(lambda: _special(row))

    def row_forms() -> tuple[RowForm, ...]:
        """A row in place of an input row, where that may be."""
        return (RowForm(call(), 0, cost, special, inplace=(0,)),) if row.in_place else ()

    return Offer(0, cost, call, special, Once(row_forms))


KERNELS = (
    Kernel("tc_depthwise_conv2d_3x3_s8_rv32", _offer, isa=ISA, when=(is_s8, takes), asks=PROVED, written=True),
    Kernel("tc_depthwise_conv2d_3x3_s8_w4_rv32", _offer, isa=ISA, when=(is_s8_w4, takes), asks=PROVED, written=True),
)
