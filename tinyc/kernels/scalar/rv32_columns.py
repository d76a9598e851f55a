# SPDX-License-Identifier: Apache-2.0
"""depthwise_conv2d down a single column of pixels on RV32IM, as in networks over time: a function in assembly for each
layer. A channel's weights stay in registers, and as many of its pixels, so that every pixel is loaded once."""

from __future__ import annotations

import numpy as np

from tinyc.base.dataclass import dataclass
from tinyc.kernel.kernel import Call, Const, Cost, Fetches, In, Kernel, Offer, Once, Out, Refused, SpecializedKernel
from tinyc.kernel.site import Site
from tinyc.kernel.windows import ConvParams, is_s8
from tinyc.kernels.form.function import RV32, LayerFunction
from tinyc.kernels.scalar.loops.costs import ARMV7M_SHARE
from tinyc.kernels.scalar.rv32_conv import ISA, PROVED
from tinyc.kernels.scalar.rv32_finish import ChannelFinish, finished
from tinyc.kernels.scalar.rv32_twin import HEADER, taps_twin
from tinyc.kernels.stream import depthwise_matrix_of
from tinyc.machine.frame import Frame
from tinyc.machine.riscv import SAVED, RiscvAsm

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
        self.frame = Frame(names, above=-4 * len(names) % 16, saved=0)

    def at(self, name: str) -> str:
        return f"{self.frame.place(name)}(sp)"

    def write(self) -> RiscvAsm:
        """a0 weights, a1 channels, a2 x, a3 y."""
        asm, layer = self.asm, self.layer
        asm.save(self.frame.size, self.saved, ("a0", "a1", "a2", "a3"))
        asm.op("li", "t0", str(layer.channels))
        asm.op("add", "t0", "t0", "a3")
        asm.op("sw", "t0", self.at("last"))
        if self.greatest:
            asm.op("li", self.least, str(layer.finish.low))
            asm.op("li", self.greatest, str(layer.finish.high))
        with asm.loop("channel", layer.channels, aligned=False):
            self._constants()
            asm.note("pixels above the first output")
            self._begin()
            self._rows()
            asm.op("lw", self.y, self.at("y"))
            asm.op("lw", self.sum, self.at("last"))
            asm.branch("bne", "channel", self.y, self.sum)
        asm.restore()
        return asm

    def _constants(self) -> None:
        """Weights times 2^scale, so that sums are."""
        asm, layer = self.asm, self.layer
        asm.op("lw", self.product, self.at("w"))
        asm.op("lw", self.sum, self.at("channels"))
        for tap, weight in enumerate(self.weights):
            asm.op("lb", weight, f"{tap}({self.product})")
        for register, place in layer.finish.registers(self.start, self.mult, self.shift, self.more):
            asm.op("lw", register, f"{place}({self.sum})")
        for weight in self.weights:
            asm.op("slli", weight, weight, str(layer.finish.scale))
        for register, name, step in ((self.product, "w", layer.k_h), (self.sum, "channels", 16)):
            asm.add(register, register, step)
            asm.op("sw", register, self.at(name))

    def _begin(self) -> None:
        asm = self.asm
        asm.op("lw", self.x, self.at("x"))
        asm.op("lw", self.y, self.at("y"))
        for register, name in ((self.x, "x"), (self.y, "y")):
            asm.add(self.sum, register, 1)
            asm.op("sw", self.sum, self.at(name))
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
                    asm.op("lw", self.sum, self.at("end"))
                    asm.branch("bne", "rows", self.y, self.sum)
        for output in range(rest):
            self._output(output)

    def _end_of(self, size: int) -> None:
        self.asm.op("li", self.sum, str(size))
        self.asm.op("add", self.sum, self.sum, self.y)
        self.asm.op("sw", self.sum, self.at("end"))

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


def _special(layer: ColumnLayer) -> SpecializedKernel:
    """The function of the layer."""
    parameters = ("const int8_t *w", "const int32_t *channels", "const int8_t *x", "int8_t *y")
    contract = f"""\
/* depthwise_conv2d {layer.k_h}x1 on RV32IM ({HEADER}): {layer.out_h} pixels of {layer.channels}
 * channels. */"""
    window = {"k_h": 1, "k_w": layer.k_h, "stride": 1, "dilation": 1}  # the column as a row
    image = {"in_w": layer.out_h + layer.k_h - 1, "out_w": layer.out_h, "out_c": layer.channels}
    weights = {"lanes": 1, "tap": 1, "block": layer.k_h}
    portable = taps_twin(parameters, ("&x", "NULL"), window | image | weights, layer.finish)
    function = LayerFunction(contract, _column(layer).function("@", parameters), portable, isa=RV32)
    stem = f"tc_depthwise_conv2d_column_s8_rv32_{layer.k_h}x{layer.channels}"
    return function.named(stem, "tc_rv32.h", HEADER)


def _lower(p: ConvParams, channels: Const) -> Call:
    taps = np.ascontiguousarray(p.w.reshape(p.w.shape[0], -1).T).astype(np.int8)
    return Call((Const(taps, "[out_c][k_h]", "w"), channels, In(0), Out()))


def _cost(layer: ColumnLayer) -> Cost:
    asm = _column(layer)
    constants = (layer.k_h + 16) * layer.channels
    executed = int(asm.work().instructions * ARMV7M_SHARE)
    fetches = Fetches.around(constants, asm.code_bytes, executed)
    return Cost(executed, constants + asm.code_bytes, 0, fetches=fetches)


def _offer(site: Site, p: ConvParams) -> Offer | Refused:
    proved = finished(depthwise_matrix_of(p), p.bias)
    if proved is None:
        return Refused(PROVED)
    layer = ColumnLayer(p.w.shape[0], site.y().shape[1], len(p.bias), proved.finish)
    return Offer(0, _cost(layer), Once(lambda: _lower(p, proved.const)), Once(lambda: _special(layer)))


KERNELS = (
    Kernel(
        "tc_depthwise_conv2d_column_s8_rv32",
        _offer,
        isa=ISA,
        when=(is_s8, takes),
        asks=PROVED,
        inplace=(0,),
        shrinks=True,
        written=True,
    ),
)
