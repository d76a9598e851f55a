# SPDX-License-Identifier: Apache-2.0
"""depthwise_conv2d down a single column of pixels on RV32IM, as in networks over time: a function in assembly for each
layer. A channel's weights stay in registers, and as many of its pixels, so that every pixel is loaded once."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from tinyc.base.dataclass import dataclass
from tinyc.kernel.kernel import Once, writing
from tinyc.kernel.site import Site
from tinyc.kernel.types import is_s8
from tinyc.kernel.windows import ConvParams
from tinyc.kernels.scalar.rv32_finish import ChannelFinish
from tinyc.kernels.scalar.rv32_layer import DepthwiseTile, depthwise_kernel
from tinyc.kernels.tile.shape import tile_text
from tinyc.machine.riscv import SAVED, RiscvAsm, RiscvFrame

_MOST_TAPS = 10  # with as many pixels in registers
_REACH = 2048  # bytes that a load or store goes from its register


@dataclass(frozen=True, slots=True)
class ColumnLayer:
    """What the code depends on."""

    k_h: int
    out_h: int
    channels: int
    finish: ChannelFinish

    @property
    def turns(self) -> tuple[int, int]:
        """How often as many outputs as there are taps are made, and outputs behind them."""
        return divmod(self.out_h, self.k_h)


class _Writer:
    """Per channel: x and y its pixels, `sum` and `product` temporary, `least` and `greatest` where registers are left
    for them."""

    def __init__(self, layer: ColumnLayer) -> None:
        self.layer, self.asm = layer, RiscvAsm()
        free = iter(("a0", "a1", "a2", "a3", "a4", "a5", "a6", "a7", *(f"t{i}" for i in range(7)), *SAVED, "ra"))
        self.x, self.y, self.sum, self.product = (next(free) for _ in range(4))
        self.start, self.mult, self.shift = (next(free) for _ in range(3))
        self.more = next(free) if layer.finish.adds else ""
        self.pixels = [next(free) for _ in range(layer.k_h)]
        self.weights = [next(free) for _ in range(layer.k_h)]
        self.least, self.greatest = next(free, ""), next(free, "")
        self.saved = (*SAVED, "ra")
        names = (*self.saved, "w", "channels", "x", "y", "last", "end")
        self.frame = RiscvFrame(names)

    def write(self) -> RiscvAsm:
        """a0 weights, a1 channels, a2 x, a3 y."""
        asm, layer = self.asm, self.layer
        asm.save(self.frame.size, self.saved, ("a0", "a1", "a2", "a3"))
        asm.op("li", "t0", str(layer.channels))
        asm.op("add", "t0", "t0", "a3")
        asm.op("sw", "t0", self.frame.at("last"))
        if self.greatest:
            asm.op("li", self.least, str(layer.finish.low))
            asm.op("li", self.greatest, str(layer.finish.high))
        with asm.loop("channel", layer.channels, aligned=False):
            self._constants()
            asm.note("pixels above the first output")
            self._begin()
            self._rows()
            asm.op("lw", self.y, self.frame.at("y"))
            asm.op("lw", self.sum, self.frame.at("last"))
            asm.branch("bne", "channel", self.y, self.sum)
        asm.restore()
        return asm

    def _constants(self) -> None:
        """Weights times 2^scale, so that sums are."""
        asm, layer = self.asm, self.layer
        asm.op("lw", self.product, self.frame.at("w"))
        asm.op("lw", self.sum, self.frame.at("channels"))
        for tap, weight in enumerate(self.weights):
            asm.op("lb", weight, f"{tap}({self.product})")
        for register, place in layer.finish.registers(self.start, self.mult, self.shift, self.more):
            asm.op("lw", register, f"{place}({self.sum})")
        for weight in self.weights:
            asm.op("slli", weight, weight, str(layer.finish.scale))
        for register, name, step in ((self.product, "w", layer.k_h), (self.sum, "channels", 16)):
            asm.add(register, register, step)
            asm.op("sw", register, self.frame.at(name))

    def _begin(self) -> None:
        asm = self.asm
        asm.op("lw", self.x, self.frame.at("x"))
        asm.op("lw", self.y, self.frame.at("y"))
        for register, name in ((self.x, "x"), (self.y, "y")):
            asm.add(self.sum, register, 1)
            asm.op("sw", self.sum, self.frame.at(name))
        for pixel, register in enumerate(self.pixels[:-1]):
            asm.op("lb", register, f"{pixel * self.layer.channels}({self.x})")
        self._add(self.x, (self.layer.k_h - 1) * self.layer.channels)

    def _add(self, register: str, value: int) -> None:
        if value < _REACH:
            self.asm.add(register, register, value)
        else:
            self.asm.op("li", self.sum, str(value))
            self.asm.op("add", register, register, self.sum)

    def _rows(self) -> None:
        asm, layer = self.asm, self.layer
        turns, rest = layer.turns
        step = layer.k_h * layer.channels
        if turns:
            if turns > 1:
                self._end_of(turns * step)
            with asm.loop("rows", turns, aligned=False):
                for output in range(layer.k_h):
                    self._output(output)
                if rest or turns > 1:
                    self._add(self.x, step)
                    self._add(self.y, step)
                if turns > 1:
                    asm.op("lw", self.sum, self.frame.at("end"))
                    asm.branch("bne", "rows", self.y, self.sum)
        for output in range(rest):
            self._output(output)

    def _end_of(self, size: int) -> None:
        self.asm.op("li", self.sum, str(size))
        self.asm.op("add", self.sum, self.sum, self.y)
        self.asm.op("sw", self.sum, self.frame.at("end"))

    def _output(self, output: int) -> None:
        """The pixel of its last tap is loaded over that of the first tap of the output before."""
        asm, layer = self.asm, self.layer
        count = layer.k_h
        place = output * layer.channels
        asm.op("lb", self.pixels[(output - 1) % count], f"{place}({self.x})")
        total = self.start
        for tap, weight in enumerate(self.weights):
            asm.op("mul", self.product, self.pixels[(output + tap) % count], weight)
            asm.op("add", self.sum, total, self.product)
            total = self.sum
        layer.finish.write(asm, self.sum, (self.mult, self.shift, self.more))
        if self.greatest:
            asm.clamp(self.sum, self.least, self.greatest)
        else:
            asm.clamp_to(self.sum, layer.finish.low, layer.finish.high, self.product)
        asm.op("sb", self.sum, f"{place}({self.y})")


def _column(layer: ColumnLayer) -> RiscvAsm:
    return _Writer(layer).write()


def takes(site: Site) -> bool:
    """constant weights of 2 to 10 taps down one column of pixels, stride 1, no padding, one output per input channel,
    and rows of channels within 2047 bytes of each other"""
    k_h, k_w, out_c = site.x(1).shape
    a, in_w = site.attrs, site.x(0).shape[2]
    if not site.is_const(1) or out_c != site.x(0).shape[3] or (k_w, in_w, site.y().shape[2]) != (1, 1, 1):
        return False
    near = 2 <= k_h <= _MOST_TAPS and k_h * out_c < _REACH
    return near and (a.stride.h, a.dilation.h) == (1, 1) and not any(a.pad) and site.x(0).shape[0] == 1


def _tile(site: Site, p: ConvParams, finish: ChannelFinish) -> DepthwiseTile:
    """The whole image, one channel of it after the other."""
    layer = ColumnLayer(p.w.shape[0], site.y().shape[1], len(p.bias), finish)
    k_h, out_h, channels = layer.k_h, layer.out_h, layer.channels
    fields = {"k_h": 1, "k_w": k_h, "stride": 1, "dilation": 1}  # the column as a row
    fields |= {"in_w": out_h + k_h - 1, "out_w": out_h, "out_c": channels}
    return DepthwiseTile(
        code=writing(_column, layer),
        name=f"tc_depthwise_conv2d_column_s8_rv32_{k_h}x{channels}",
        kernel=f"{k_h}x1",
        extent=f"{out_h} pixels of {channels} channels",
        fields=fields | {"lanes": 1, "tap": 1, "block": k_h},
        weights=Once(lambda: np.ascontiguousarray(p.w.reshape(k_h, -1).T).astype(np.int8)),
        layout="[out_c][k_h]",
        weight_bytes=k_h * channels,
        tile=tile_text(1, 1, f"{k_h} pixels in registers", f"{k_h} weights in registers"),
        is_whole=True,
    )


_KERNEL = depthwise_kernel("tc_depthwise_conv2d_column_s8_rv32", _tile, is_s8, takes)
KERNELS = (replace(_KERNEL, inplace=(0,), shrinks=True),)
