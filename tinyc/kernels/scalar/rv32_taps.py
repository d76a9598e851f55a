# SPDX-License-Identifier: Apache-2.0
"""depthwise_conv2d of any small size on RV32IM, int8 and int4 weights: a function in assembly for each layer
(tc_rv32_taps.h says what it computes).

Pointers to the taps of one pixel or two are on the stack, those outside the image at zero points, so that a pixel at
the edge is made like any other. Up to eight channels of it are sums in registers: they share the way to a tap, and two
pixels share the weights.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from tinyc.base.dataclass import dataclass
from tinyc.kernel.kernel import Once, writing
from tinyc.kernel.site import Site
from tinyc.kernel.types import is_s8, is_s8_w4
from tinyc.kernel.windows import ConvParams, Window
from tinyc.kernels.nibbles import pack_nibbles
from tinyc.kernels.scalar.rv32_finish import ChannelFinish
from tinyc.kernels.scalar.rv32_layer import DepthwiseTile, depthwise_kernel
from tinyc.kernels.tile.shape import tile_text
from tinyc.machine.riscv import SAVED, RiscvAsm, RiscvFrame

_MOST_TAPS = 32  # pointers of two pixels are on the stack
_LANES, _LEAST = 8, 5  # channels beside each other at most, and of a layer at least: fewer do not pay for the pointers
_PIXELS = (1, 2)
_SUMS = (*SAVED, "t3", "t4", "t5", "t6")


@dataclass(frozen=True, slots=True)
class TapsRow:
    """What the code of a row depends on. stride, dilation, pad: horizontal ones."""

    k_h: int
    k_w: int
    stride: int
    dilation: int
    pad: int
    in_w: int
    out_w: int
    channels: int
    int4: bool
    finish: ChannelFinish

    @property
    def taps(self) -> int:
        return self.k_h * self.k_w

    @property
    def blocks(self) -> int:
        """Of channels."""
        return -(-self.channels // _LANES)

    @property
    def lanes(self) -> int:
        """Channels of a block; the last one begins within the one before where they are too many."""
        return -(-self.channels // self.blocks)

    @property
    def tap_bytes(self) -> int:
        """Weights of a tap of a block."""
        return -(-self.lanes // 2) if self.int4 else self.lanes

    @property
    def reads_outside(self) -> bool:
        """Whether a pixel has a tap beside the image."""
        return self.pad > 0 or (self.out_w - 1) * self.stride + (self.k_w - 1) * self.dilation >= self.in_w

    @property
    def starts(self) -> list[int]:
        """The first channels of the blocks."""
        return [min(self.lanes * block, self.channels - self.lanes) for block in range(self.blocks)]


class _RowWriter:
    """pixels: made at a time. a0 weights, a1 a tap's pointers, a2 their end, a3 the block's first channel."""

    def __init__(self, row: TapsRow, pixels: int) -> None:
        self.row, self.pixels, self.asm = row, pixels, RiscvAsm()
        names = (*SAVED, "ra", "w", "channels", "pad", "x", "y", "last", "column", "greatest column")
        self.frame = RiscvFrame(names, below=4 * pixels * row.taps)
        self.weights = ("a6", "a7")
        self.inputs = (("t0", "t1"), ("t2", "ra"))  # of a channel, and of the next

    def write(self) -> RiscvAsm:
        asm, row = self.asm, self.row
        saved = self.frame.place(SAVED[0])
        asm.save(self.frame.size, (*SAVED, "ra"), ("a0", "a1", "a2", "a3", "a4"), at=saved)
        groups = -(-row.out_w // self.pixels)
        if groups > 1:
            asm.immediate("t0", (row.out_w - self.pixels) * row.channels)
            asm.op("add", "t0", "t0", "a4")
            asm.op("sw", "t0", self.frame.at("last"))
        asm.immediate("t0", -row.pad)
        asm.op("sw", "t0", self.frame.at("column"))
        with asm.loop("pixels", groups, aligned=False):
            for pixel in range(self.pixels):
                self._pointers(pixel)
            self._channels()
            if groups > 1:
                self._next_pixels()
        asm.enter("done")
        asm.restore()
        return asm

    def _pointers(self, pixel: int) -> None:
        """Of a pixel's taps, to the first channel. t0 where they go, t1 rows, a4 their end, t2 the first column, t3 its
        byte, t4 a tap, t5 its column, t6 the last of the row; a5 zero points, a6 columns of the image, a7 from tap to
        tap."""
        asm, row = self.asm, self.row
        asm.note(f"pointers to the taps of pixel {pixel}")
        asm.add("t0", "sp", 4 * pixel)
        asm.op("lw", "t1", self.frame.at("x"))
        asm.op("lw", "t2", self.frame.at("column"))
        asm.more("t2", pixel * row.stride, "t3")
        asm.immediate("a7", row.channels)
        asm.op("mul", "t3", "t2", "a7")
        if row.reads_outside:
            asm.op("lw", "a5", self.frame.at("pad"))
            asm.immediate("a6", row.in_w)
        if row.k_w > 1:
            asm.immediate("a7", row.dilation * row.channels)
            asm.immediate("t6", row.k_w * row.dilation)
            asm.op("add", "t6", "t6", "t2")
        asm.add("a4", "t1", 4 * row.k_h)
        rows = f"rows{pixel}"
        with asm.loop(rows, row.k_h, aligned=False):
            asm.op("lw", "t4", "0(t1)")
            asm.add("t1", "t1", 4)
            asm.op("add", "t4", "t4", "t3")
            self._pointers_of_row(pixel)
            asm.branch("bne", rows, "t1", "a4")

    def _pointers_of_row(self, pixel: int) -> None:
        asm, row, columns = self.asm, self.row, f"columns{pixel}"
        if row.k_w == 1:
            self._pointer(pixel, "t2")
            return
        asm.op("mv", "t5", "t2")
        with asm.loop(columns, row.k_w, aligned=False):
            self._pointer(pixel, "t5")
            asm.op("add", "t4", "t4", "a7")
            asm.more("t5", row.dilation, "a3")
            asm.branch("bne", columns, "t5", "t6")

    def _pointer(self, pixel: int, column: str) -> None:
        """t4, or a5 where the column is outside."""
        asm, inside, place = self.asm, f"inside{pixel}", "t4"
        if self.row.reads_outside:
            place = "a3"
            asm.op("mv", place, "t4")
            asm.branch("bltu", inside, column, "a6")
            asm.op("mv", place, "a5")
            asm.enter(inside)
        asm.op("sw", place, "0(t0)")
        asm.add("t0", "t0", 4 * self.pixels)

    def _channels(self) -> None:
        asm, row = self.asm, self.row
        asm.op("lw", "a0", self.frame.at("w"))
        if row.blocks > 1:
            asm.op("li", "a3", "0")
        with asm.loop("block", row.blocks, aligned=False):
            sums = _SUMS[: self.pixels * row.lanes]
            for register in sums:
                asm.op("li", register, "0")
            asm.op("mv", "a1", "sp")
            asm.add("a2", "sp", 4 * self.pixels * row.taps)
            with asm.loop("taps", row.taps, aligned=False):
                self._tap()
                asm.branch("bne", "taps", "a1", "a2")
            self._bytes()
            if row.blocks > 1:
                self._next_block()

    def _next_block(self) -> None:
        """The last one ends with the channels."""
        asm, row = self.asm, self.row
        asm.immediate("t0", row.channels - row.lanes)
        asm.branch("beq", "blocks", "a3", "t0")
        asm.add("a3", "a3", row.lanes)
        if row.channels % row.lanes:
            asm.branch("bge", "block", "t0", "a3")
            with asm.per():
                asm.op("mv", "a3", "t0")
                asm.branch("j", "block")
        else:
            asm.branch("j", "block")
        asm.enter("blocks")

    def _tap(self) -> None:
        """What is loaded is not used at once: a core may wait for it."""
        asm, row = self.asm, self.row
        pointers = ("a4", "a5")[: self.pixels]
        asm.words("lw", pointers, "a1")
        asm.add("a1", "a1", 4 * self.pixels)
        for pointer in pointers if row.blocks > 1 else ():
            asm.op("add", pointer, pointer, "a3")
        self._load(0, pointers)
        for lane in range(row.lanes):
            if lane + 1 < row.lanes:
                self._load(lane + 1, pointers)
            else:
                asm.add("a0", "a0", row.tap_bytes)
            for pixel in range(self.pixels):
                register, total = self.inputs[lane % 2][pixel], self._sum(pixel, lane)
                asm.op("mul", register, register, self.weights[lane % 2])
                asm.op("add", total, total, register)

    def _load(self, lane: int, pointers: Sequence[str]) -> None:
        asm, weight = self.asm, self.weights[lane % 2]
        asm.op("lb", weight, f"{lane // 2 if self.row.int4 else lane}(a0)")
        for register, pointer in zip(self.inputs[lane % 2], pointers, strict=False):
            asm.op("lb", register, f"{lane}({pointer})")
        if self.row.int4:
            if lane % 2 == 0:
                asm.op("slli", weight, weight, "28")
            asm.op("srai", weight, weight, "4" if lane % 2 else "28")

    def _sum(self, pixel: int, lane: int) -> str:
        return _SUMS[pixel * self.row.lanes + lane]

    def _bytes(self) -> None:
        """t0, t1, t2, ra a channel's constants, a1 and a2 the clamp, a6 channels, a4 and a5 y."""
        asm, row, finish = self.asm, self.row, self.row.finish
        places = ("a4", "a5")[: self.pixels]
        asm.note("requantize and store")
        asm.op("lw", "a4", self.frame.at("y"))
        asm.op("lw", "a6", self.frame.at("channels"))
        if row.blocks > 1:
            asm.op("add", "a4", "a4", "a3")
            asm.op("slli", "a7", "a3", "4")
            asm.op("add", "a6", "a6", "a7")
        if self.pixels > 1:
            asm.op("mv", "a5", "a4")
            asm.more("a5", row.channels, "a7")
        asm.op("li", "a1", str(finish.low))
        asm.op("li", "a2", str(finish.high))
        for lane in range(row.lanes):
            for register, place in finish.registers("t0", "t1", "t2", "ra"):
                asm.op("lw", register, f"{16 * lane + place}(a6)")
            for pixel, place_of in enumerate(places):
                total = self._sum(pixel, lane)
                finish.clamped(asm, total, "t0", ("t1", "t2", "ra"), ("a1", "a2"))
                asm.op("sb", total, f"{lane}({place_of})")

    def _next_pixels(self) -> None:
        """The last ones end with the row."""
        asm, row, pixels = self.asm, self.row, self.pixels
        asm.op("lw", "t0", self.frame.at("y"))
        asm.op("lw", "t1", self.frame.at("last"))
        asm.op("lw", "t2", self.frame.at("column"))
        asm.branch("beq", "done", "t0", "t1")
        asm.more("t0", pixels * row.channels, "t3")
        asm.more("t2", pixels * row.stride, "t3")
        if row.out_w % pixels:
            asm.branch("bgeu", "whole", "t1", "t0")
            with asm.per():
                asm.op("mv", "t0", "t1")
                asm.more("t2", -(-row.out_w % pixels) * row.stride, "t3")
            asm.enter("whole")
        asm.op("sw", "t0", self.frame.at("y"))
        asm.op("sw", "t2", self.frame.at("column"))
        asm.branch("j", "pixels")


def _row(row: TapsRow) -> tuple[int, RiscvAsm]:
    """The pixels at a time, one or two, of which the code executes less, and the code."""
    codes = [(pixels, _RowWriter(row, pixels).write()) for pixels in _PIXELS if pixels <= row.out_w]
    return min(codes, key=lambda code: code[1].work().instructions)


def takes(site: Site) -> bool:
    """constant weights, at most 32 taps, 5 channels or more, one output per input channel"""
    k_h, k_w, out_c = site.x(1).shape
    return site.is_const(1) and _LEAST <= out_c == site.x(0).shape[3] and k_h * k_w <= _MOST_TAPS


def _weights(row: TapsRow, p: ConvParams) -> npt.NDArray[np.int8]:
    """[block][tap][lane], with int4 two in a byte."""
    taps = p.w.reshape(row.taps, row.channels).astype(np.int8)
    blocks = np.stack([taps[:, start : start + row.lanes] for start in row.starts])
    if not row.int4:
        return np.ascontiguousarray(blocks)
    return pack_nibbles(np.pad(blocks, ((0, 0), (0, 0), (0, row.lanes % 2)))).view(np.int8)


def _tile(site: Site, p: ConvParams, finish: ChannelFinish) -> DepthwiseTile:
    """A row, up to two pixels and eight channels at a time."""
    k_h, k_w, channels = p.w.shape
    window = Window.of(p.attrs, k_h, k_w)
    across = window.stride.w, window.dilation.w, window.pad.left
    in_w, out_w = site.x(0).shape[2], site.y().shape[2]
    row = TapsRow(k_h, k_w, *across, in_w, out_w, channels, site.x(1).dtype == "s4", finish)
    pixels, code = writing(_row, row)
    tap = row.tap_bytes * (2 if row.int4 else 1)
    fields = {"k_h": k_h, "k_w": k_w, "stride": row.stride, "dilation": row.dilation, "pad_left": row.pad}
    fields |= {"in_w": in_w, "out_w": out_w, "out_c": channels}
    kind = f"{row.tap_bytes}], two int4 in a byte, low half first" if row.int4 else f"{row.lanes}]"
    return DepthwiseTile(
        code=code,
        name=f"tc_depthwise_conv2d_s8{'_w4' * row.int4}_rv32_{k_h}x{k_w}x{channels}",
        kernel=f"{k_h}x{k_w}",
        extent=f"a row of {in_w}x{channels} -> {out_w}x{channels}",
        fields=fields | {"lanes": row.lanes, "tap": tap, "block": row.taps * tap, "int4": row.int4},
        weights=Once(lambda: _weights(row, p)),
        layout=f"[block][k_h][k_w][{kind}",
        weight_bytes=row.blocks * row.taps * row.tap_bytes,
        tile=tile_text(pixels, row.lanes, "taps by pointers on the stack", f"int{4 if row.int4 else 8} weights"),
        reads_pad=True,
    )


KERNELS = (
    depthwise_kernel("tc_depthwise_conv2d_s8_rv32", _tile, is_s8, takes),
    depthwise_kernel("tc_depthwise_conv2d_s8_w4_rv32", _tile, is_s8_w4, takes),
)
