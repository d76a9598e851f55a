# SPDX-License-Identifier: Apache-2.0
"""The assembly of one output row of a depthwise convolution with two or three kernel rows, from row pointers.

Four channels at a time are unpacked to int16 in scratch (small planes: on the stack), then each makes its
outputs. Two kernel rows lie over each
other, a word per column; a third row lies by pairs of columns. So an output takes five multiplications for
3x3 taps, and the five words of its weights stay in registers:

    r0 planes of the channel, r1 its outputs, r2 r3 columns, r4 r5 accumulators, r6 start value, r7 ... r11
    weights, r12 a temporary, counter, or the multiplier, r14 stream.

All bytes of four channels are read before their outputs are written, so the output row may be an input row.
"""

from __future__ import annotations

from tinyc.kernels.depthwise.plane_channels import MacStep, multiply
from tinyc.kernels.int4_words import MASKS, tops
from tinyc.kernels.matrix import GROUP
from tinyc.kernels.rows.plane_layer import PAIR_REACH, WORD_REACH, RowLayer, loads
from tinyc.machine.frame import Frame
from tinyc.machine.thumb import Asm, Naked, Work

_UNROLLED = 400  # instructions of four channels one after the other; beyond, they are a loop
_WORDS = ("first", "second", "third", "planes", "y", "stream", "groups", "z", "spare")  # of the stack, below the planes


def row_function(name: str, layer: RowLayer) -> tuple[Naked, Work]:
    """C text of the naked function `name(stream, x, y, scratch)`, and what a call executes."""
    asm = _Writer(layer).write()
    asm.reorder()
    return Naked(name, layer.parameters, asm), asm.work()


class _Writer:
    """Writes one function."""

    def __init__(self, layer: RowLayer) -> None:
        self.layer = layer
        self.asm = Asm(layer.core)
        self.frame = Frame(_WORDS, above=layer.plane_bytes if layer.on_stack else 0, first="[sp, #0]")
        self.at = self.frame.at

    def write(self) -> Asm:
        layer, asm = self.layer, self.asm
        self._enter()
        with asm.loop("group", layer.groups):
            self._unpack()
            self._channels()
            self._next_group()
        asm.label("done")
        asm.note("return")
        asm.restore()
        return asm

    def _enter(self) -> None:
        layer, asm = self.layer, self.asm
        asm.note("registers and arguments to the stack")
        asm.save("{r4-r11, lr}", frame=self.frame.size)
        asm.op("ldr", "r4", "[r0], #4")
        asm.op("str", "r4", self.at("z"))
        if layer.has_single:
            asm.op("ldm", "r1", "{r5, r6, r7}")
        else:
            asm.op("ldm", "r1", "{r5, r6}")
        if layer.on_stack:
            asm.add("r3", "sp", self.frame.top)
        asm.op("mov", "r8", "r3")
        asm.op("stm", "sp", "{r5, r6, r7, r8}")
        asm.op("strd", "r2", "r0", self.at("y"))
        asm.constant("r5", layer.groups)
        asm.op("str", "r5", self.at("groups"))
        self._fill()

    def _fill(self) -> None:
        """The words that lie in the padding: they stay the same for all channels. r3: planes."""
        layer, asm = self.layer, self.asm
        places = [column for column in range(layer.columns) if not layer.is_real(column)]
        places += [
            layer.columns + pair
            for pair in range(layer.pairs)
            if not (layer.is_real(2 * pair) or layer.is_real(2 * pair + 1))
        ]
        if not places:
            return
        asm.note("words of the planes that are padding")
        asm.op("sxtb16", "r4", "r4")
        if layer.plane_bytes <= WORD_REACH:
            for channel in range(GROUP):
                for place in places:
                    asm.op("str", "r4", f"[r3, #{channel * layer.pitch + 4 * place}]")
            return
        for channel in range(GROUP):
            for place in places:
                asm.op("str", "r4", f"[r3, #{4 * place}]")
            if channel < GROUP - 1:
                asm.add("r3", "r3", layer.pitch)

    # ---- unpacking: r0 ... r2 rows, r3 planes, r4 ... r11 words of two columns, r12 r14 bytes ----

    def _unpack(self) -> None:
        """Four channels of the rows to the planes; the rows move to the next four."""
        layer, asm = self.layer, self.asm
        asm.note("loads: four channels of the rows to planes of int16")
        asm.op("ldm", "sp", "{r0, r1, r2, r3}" if layer.has_single else "{r0, r1}")
        if not layer.has_single:
            asm.op("ldr", "r3", self.at("planes"))
        to = _Planes(asm, layer)
        for column in range(0, layer.columns, 2):
            planes = [c for c in (column, column + 1) if c < layer.columns and layer.is_real(c)]
            for c in planes:
                self._load(("r0", "r1"), (c, c))
                asm.piece(_spread, 4 + 4 * (c - column))
            to.store([4 + 4 * (c - column) for c in planes], planes)
        for pair in range(0, layer.pairs, 2):
            planes = []
            for p in (pair, pair + 1):
                if p < layer.pairs and (layer.is_real(2 * p) or layer.is_real(2 * p + 1)):
                    self._load(("r2", "r2"), (2 * p, 2 * p + 1))
                    asm.piece(_spread, 4 + 4 * (p - pair))
                    planes.append(p)
            to.store([4 + 4 * (p - pair) for p in planes], [layer.columns + p for p in planes])
        pointers = ("r0", "r1", "r2")[: layer.k_h]
        for pointer in pointers:
            asm.op("add", pointer, pointer, f"#{GROUP}")
        asm.op("stm", "sp", "{" + ", ".join(pointers) + "}")
        to.rewind()

    def _load(self, pointers: tuple[str, str], columns: tuple[int, int]) -> None:
        """Four channels of two columns to r12 and r14."""
        layer = self.layer
        for register, pointer, column in zip(("r12", "r14"), pointers, columns, strict=True):
            if layer.is_real(column):
                offset = (column - layer.pad_left) * layer.channels
                self.asm.op("ldr", register, f"[{pointer}, #{offset}]" if offset else f"[{pointer}]")
            else:
                self.asm.op("ldr", register, self.at("z"))

    # ---- channels ----

    def _channels(self) -> None:
        """The outputs of up to four channels."""
        layer, asm = self.layer, self.asm
        asm.op("mov", "r0", "r3")
        asm.op("ldrd", "r1", "r14", self.at("y"))
        partial = layer.rest and layer.groups > 1
        if partial:
            asm.op("ldr", "r2", self.at("groups"))
        if self._is_unrolled:
            if partial:
                asm.op("cmp", "r2", "#1")
                asm.branch("beq.w", f"channel{GROUP - layer.rest}", taken=1)
            for channel in range(GROUP):
                asm.label(f"channel{channel}")
                self._channel(channel * layer.pitch, channel)
            asm.op("add", "r1", "r1", f"#{GROUP}")
        else:
            self._channel_loop()
        asm.op("strd", "r1", "r14", self.at("y"))

    def _channel_loop(self) -> None:
        """One channel after the other."""
        layer, asm = self.layer, self.asm
        asm.op("mov", "r12", f"#{GROUP}")
        if layer.rest and layer.groups > 1:
            asm.op("cmp", "r2", "#1")
            asm.branch("bne", "full", taken=layer.groups - 1)
            asm.op("mov", "r12", f"#{layer.rest}")
            asm.add("r0", "r0", (GROUP - layer.rest) * layer.pitch)
            asm.op("add", "r1", "r1", f"#{GROUP - layer.rest}")
            asm.label("full")
        if self._busy:
            asm.op("str", "r12", self.at("spare"))
        with asm.loop("channel", layer.channels, of_call=True):
            self._channel(0, 0)
            asm.add("r0", "r0", layer.pitch)
            asm.op("add", "r1", "r1", "#1")
            asm.count_down("r12", self.at("spare") if self._busy else "", "channel")

    @property
    def _busy(self) -> bool:
        """Whether the requantization needs r12."""
        requant = self.layer.requant
        return requant.sign or requant.shifts is None or requant.base is not None

    @property
    def _is_unrolled(self) -> bool:
        layer = self.layer
        macs = sum(len(list(macs)) for _, macs in loads(layer, 0, min(2, layer.out_w)))
        instructions = GROUP * (-(-layer.out_w // 2)) * (macs + 11)
        reach = layer.plane_bytes <= PAIR_REACH and layer.out_w * layer.channels + GROUP <= WORD_REACH
        return instructions <= _UNROLLED and reach

    def _channel(self, planes: int, out: int) -> None:
        """All outputs of one channel: `planes` bytes behind r0, `out` bytes behind r1."""
        layer, asm = self.layer, self.asm
        asm.note("a channel: its start value and weights")
        multiplier = ("r12",) if layer.requant.base is not None else ()
        weights = [f"r{7 + i}" for i in range(layer.weight_words)]
        if layer.bits < 16:
            packed = ("r2", "r3", "r4")[: layer.stored_words]
            asm.load_multiple("r14", (*packed, "r6", *multiplier))
            asm.op("mov", "r5", f"#{MASKS[layer.bits]:#x}")
            tops(asm, weights, packed, "r5", layer.bits)
        else:
            asm.load_multiple("r14", ("r6", *weights, *multiplier))
        for first in range(0, layer.out_w, 2):
            self._step(planes, out + first * layer.channels, first)

    def _step(self, planes: int, out: int, first: int) -> None:
        """Two outputs (one at the end of an odd row)."""
        layer, asm = self.layer, self.asm
        outputs = min(2, layer.out_w - first)
        acc, begun = ("r4", "r5"), set[int]()
        asm.note("products")
        for place, macs in loads(layer, first, outputs):
            words = sorted({mac.x for mac in macs})
            at = f"[r0, #{planes + 4 * (place + words[0])}]"
            asm.op("ldrd", "r2", "r3", at) if len(words) == 2 else asm.op("ldr", "r2", at)
            steps = list[MacStep]()
            for mac in macs:
                to = acc[mac.out]
                x = f"r{2 + words.index(mac.x)}"
                steps.append((mac.op, to, x, f"r{7 + mac.w}", to if mac.out in begun else "r6"))
                begun.add(mac.out)
            asm.piece(multiply, tuple(steps))
        self._finish(acc, outputs, out, last=first + outputs == layer.out_w)

    def _finish(self, acc: tuple[str, str], outputs: int, out: int, last: bool) -> None:
        """Scales and stores; after the last outputs of a channel the stream moves to the next."""
        layer, asm, requant = self.layer, self.asm, self.layer.requant
        constants = ("r2", "r3", "r12")[: requant.constants]
        asm.note("requantize and store")
        if requant.base is not None:
            constants = ("r12", "r3")
            requant.load_base(asm, "r3")
        elif requant.constants == 3:
            asm.op("ldm", "r14!" if last else "r14", "{r2, r3, r12}")
        else:
            asm.op("ldrd", "r2", "r3", "[r14], #8" if last else "[r14]")
        for i in requant.emit_each(asm, acc[:outputs], constants, "r12", "[r14, #-8]" if last else "[r14, #4]"):
            at = out + i * layer.channels
            asm.op("strb", acc[i], f"[r1, #{at}]" if at else "[r1]")

    def _next_group(self) -> None:
        layer, asm = self.layer, self.asm
        if layer.groups == 1:
            return
        asm.note("the next four channels")
        asm.op("ldr", "r2", self.at("groups"))
        asm.op("subs", "r2", "r2", "#1")
        asm.leave("beq.w", "done")
        asm.op("str", "r2", self.at("groups"))
        if layer.rest:
            # The last group loads the four channels that end with the last, and makes `rest` of them.
            asm.op("cmp", "r2", "#1")
            asm.branch("bne.w", "group", taken=layer.groups - 2)
            pointers = ("r2", "r3", "r4")[: layer.k_h]
            asm.op("ldm", "sp", "{" + ", ".join(pointers) + "}")
            for pointer in (*pointers, "r1"):
                asm.op("sub", pointer, pointer, f"#{GROUP - layer.rest}")
            asm.op("stm", "sp", "{" + ", ".join(pointers) + "}")
            asm.op("str", "r1", self.at("y"))
        asm.branch("b.w", "group")


def _spread(asm: Asm, base: int) -> None:
    """Bytes of r12 (low halves) and r14 (high halves) to a word for each channel, in r<base> ... r<base + 3>."""
    asm.op("pkhbt", f"r{base + 1}", "r12", "r14", "lsl #16")
    asm.op("pkhtb", f"r{base + 3}", "r14", "r12", "asr #16")
    for i in (0, 2):
        asm.op("sxtb16", f"r{base + i}", f"r{base + i + 1}")
        asm.op("sxtb16", f"r{base + i + 1}", f"r{base + i + 1}", "ror #8")


class _Planes:
    """Stores words of four channels at r3, which moves where the offsets of STRD do not reach."""

    def __init__(self, asm: Asm, layer: RowLayer) -> None:
        self._asm, self._layer = asm, layer
        self._base = 0

    def store(self, registers: list[int], words: list[int]) -> None:
        """Word `words[0]` (and the next) of each channel from registers[0] + channel (and registers[1] + channel)."""
        if not words:
            return
        for channel in range(GROUP):
            offset = channel * self._layer.pitch + 4 * words[0]
            if not 0 <= offset - self._base <= PAIR_REACH:
                self._move(channel * self._layer.pitch)
            at = f"[r3, #{offset - self._base}]"
            names = [f"r{register + channel}" for register in registers]
            self._asm.op("strd" if len(names) == 2 else "str", *names, at)

    def rewind(self) -> None:
        self._move(0)

    def _move(self, base: int) -> None:
        self._asm.add("r3", "r3", base - self._base, "r12")
        self._base = base
