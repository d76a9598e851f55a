# SPDX-License-Identifier: Apache-2.0
"""The multiplications of a depthwise convolution over planes, channel by channel, in assembly: see planes.py."""

from __future__ import annotations

from contextlib import AbstractContextManager

from tinyc.kernels.depthwise.plane_layer import PlaneLayer, row_macs
from tinyc.kernels.int4_words import MASKS, tops
from tinyc.machine.frame import Frame
from tinyc.machine.thumb import Asm

_PAIR_REACH = 1020  # of the immediate of LDRD and STRD
_WORD_BACK = 252  # of LDR, whose negative immediates end at 255
_WORD_REACH = 4095  # of LDR, STRB, ADDW


class Cursor:
    """A pointer register whose immediates do not reach everywhere: it moves when it must."""

    def __init__(self, asm: Asm, register: str, low: int, high: int) -> None:
        self.asm, self.register, self.low, self.high = asm, register, low, high
        self.base = 0

    def at(self, offset: int, size: int = 0) -> str:
        """`[register, #imm]` for byte `offset`; further offsets up to `size` beyond are near then."""
        self.reach(offset, offset + size)
        imm = offset - self.base
        return f"[{self.register}, #{imm}]" if imm else f"[{self.register}]"

    def reach(self, first: int, last: int) -> None:
        """Moves so that offsets first ... last can be reached."""
        if first - self.base < self.low or last - self.base > self.high:
            self.move(max(first, 0) if last - first <= self.high else last - self.high)

    def move(self, base: int) -> None:
        """The register points to byte `base`."""
        left = base - self.base
        while left:
            step = max(-_WORD_REACH, min(left, _WORD_REACH))
            self.asm.add(self.register, self.register, step)
            left -= step
        self.base = base


# The constants of a channel come first, where LDM finds them. Above are unpacked weights.
_WORDS = (
    *("mult", "add", "shift", "start", "plane", "output", "out", "left", "stream", "channel", "turns", "z"),
    *("x", "y", "scratch", "groups", "count", "first", "row", "from", "y_band", "stream_group", "bands"),
)


class ChannelWriter:
    """Writes the channels of a function; `asm` has the code."""

    def __init__(self, layer: PlaneLayer) -> None:
        self.layer = layer
        self.frame = Frame(_WORDS, above=4 * layer.stacked_words)
        self.asm = Asm(layer.core)

    def _channels(self) -> None:
        """The output rows of a band, channel by channel."""
        layer, asm, frame = self.layer, self.asm, self.frame
        asm.note("the channels of the planes, one by one")
        asm.op("ldr", "r4", frame.at("scratch"))
        if layer.rest and layer.groups > 1:
            asm.op("ldrd", "r6", "r5", frame.at("count"))
            asm.op("add", "r4", "r4", "r5")
        else:
            asm.op("mov", "r6", f"#{layer.group}")
        asm.op("ldr", "r5", frame.at("y" if layer.bands == 1 else "y_band"))
        asm.op("strd", "r4", "r5", frame.at("plane"))
        asm.op("str", "r6", frame.at("channel"))
        if self._turns_vary:
            asm.op("ldr", "r4", frame.at("bands"))
            asm.op("cmp", "r4", "#1")
            asm.op("ite", "eq")
            asm.op("moveq", "r4", f"#{layer.last_band // layer.turn}")
            asm.op("movne", "r4", f"#{layer.band // layer.turn}")
            asm.op("str", "r4", frame.at("turns"))
        with asm.loop("channel", layer.channels * layer.bands, aligned=False, of_call=True):
            if layer.resident:
                self._resident_channel()
            else:
                self._streamed_channel()
            asm.count_down("r4", frame.at("channel"), "channel")

    @property
    def _turns_vary(self) -> bool:
        return self.layer.bands > 1 and self.layer.last_band != self.layer.band

    @property
    def _looped(self) -> bool:
        rows = self.layer.out_h if self.layer.bands == 1 else self.layer.band
        return rows > self.layer.turn or self._turns_vary

    def _turn_count(self, register: str) -> None:
        layer, asm = self.layer, self.asm
        if self._turns_vary:
            asm.op("ldr", register, self.frame.at("turns"))
        else:
            rows = layer.out_h if layer.bands == 1 else layer.band
            asm.constant(register, rows // layer.turn)

    def _begin_channel(self) -> None:
        """r0: planes, r1: output, of the channel; the slots move to the next."""
        asm, frame = self.asm, self.frame
        asm.op("ldrd", "r0", "r1", frame.at("plane"))
        asm.add("r2", "r0", self.layer.pitch)
        asm.op("add", "r3", "r1", "#1")
        asm.op("strd", "r2", "r3", frame.at("plane"))

    def _resident_channel(self) -> None:
        """r6: start value, r7 ... r12: weights, then constants if all find room, r14: turns left, or a temporary that
        the requantization asks for, or a constant."""
        layer, asm, frame = self.layer, self.asm, self.frame
        spare = "r14" in self._held if self._held else layer.requant.shifts is None or layer.requant.sign
        words = layer.weight_words
        asm.note("weights and constants of a channel")
        asm.op("ldr", "r14", frame.at("stream"))
        if layer.bits < 16:
            self._unpack_weights()
        else:
            asm.op("ldm", "r14!", f"{{r6-r{6 + words}}}")
        if self._held:
            asm.add("r2", "r14", 4 * layer.requant.constants)
            asm.op("str", "r2", frame.at("stream"))
            asm.load_multiple("r14", self._held[: layer.requant.constants], advance=False)
            for register in self._held[layer.requant.constants :]:
                layer.requant.load_base(asm, register)
        elif layer.requant.constants == 3:
            asm.op("ldm", "r14!", "{r2-r4}")
            asm.op("stm", "sp", "{r2-r4}")
            asm.op("str", "r14", frame.at("stream"))
        else:
            asm.op("ldm", "r14!", "{r2, r3}")
            asm.op("strd", "r2", "r3", frame.at("mult"))
            asm.op("str", "r14", frame.at("stream"))
        self._begin_channel()
        if self._looped:
            counter = "r4" if spare else "r14"
            self._turn_count(counter)
            if spare:
                asm.op("str", counter, frame.at("left"))
        with self._rows():
            p, o = Cursor(asm, "r0", -_WORD_BACK, _PAIR_REACH), Cursor(asm, "r1", -255, _WORD_REACH)
            for row in range(layer.turn):
                for first in range(0, layer.out_w, 2):
                    self._resident_step(p, o, row, first)
            if self._looped:
                p.move(layer.turn * layer.stride_h * layer.plane_row)
                o.move(layer.turn * layer.out_row)
                asm.count_down(counter, frame.at("left") if spare else "", "rows")

    def _rows(self) -> AbstractContextManager[None]:
        """The loop over the output rows of a channel."""
        return self.asm.loop("rows", self.layer.channels * (self.layer.out_h // self.layer.turn), of_call=True)

    @property
    def _held(self) -> tuple[str, ...]:
        """Registers beside the weights that hold the constants of a channel, and what all channels add where there is
        room for it; none where not all constants can be held."""
        layer, wanted = self.layer, self.layer.requant.constants
        free = (*(f"r{i}" for i in range(7 + layer.weight_words, 13)), "r14")
        return free[: wanted + (layer.requant.base is not None)] if len(free) >= wanted else ()

    def _unpack_weights(self) -> None:
        """The start value to r6, weights on top of the halves of r7 ... r12; r4 is the mask."""
        packed = ("r2", "r3", "r5")[: self.layer.stored_words]
        self.asm.load_multiple("r14", (*packed, "r6"))
        self.asm.op("mov", "r4", f"#{MASKS[self.layer.bits]:#x}")
        tops(self.asm, [f"r{7 + i}" for i in range(self.layer.weight_words)], packed, "r4", self.layer.bits)

    def _resident_step(self, p: Cursor, o: Cursor, row: int, first: int) -> None:
        """Two outputs (one at the end of an odd row)."""
        layer, asm = self.layer, self.asm
        outputs = min(2, layer.out_w - first)
        macs = row_macs(outputs, layer.k_w, layer.stride_w)
        last = max(mac.x for mac in macs)
        start = row * layer.stride_h * layer.plane_row + 4 * (first * layer.stride_w // 2)
        p.reach(start, start + (layer.k_h - 1) * layer.plane_row + 4 * last)
        acc = ("r4", "r5")
        begun: set[int] = set()
        asm.note("products")
        for k in range(layer.k_h):
            for word in range(0, last + 1, 2):
                at = start + k * layer.plane_row + 4 * word
                if word < last:
                    asm.op("ldrd", "r2", "r3", p.at(at))
                else:
                    asm.op("ldr", "r2", p.at(at))
                for mac in sorted((m for m in macs if m.x // 2 == word // 2), key=lambda m: (m.x, m.out)):
                    to = acc[mac.out]
                    weight = f"r{7 + k * layer.row_words + mac.w}"
                    asm.op(mac.op, to, f"r{2 + mac.x % 2}", weight, to if mac.out in begun else "r6")
                    begun.add(mac.out)
        asm.note("requantize and store")
        if self._held:
            held = self._held
            if layer.requant.base is not None and len(held) == 1:
                layer.requant.load_base(asm, "r2")
                held = (*held, "r2")
            done = layer.requant.emit_each(asm, acc[:outputs], held, "r3")
        else:
            constants = self._load_constants("r2", "r3", "r14")
            done = layer.requant.emit_each(asm, acc[:outputs], constants, "r14", self.frame.at("add"))
        for out in done:
            asm.op("strb", acc[out], o.at(row * layer.out_row + (first + out) * layer.out_step))

    def _load_constants(self, *registers: str) -> tuple[str, ...]:
        constants = registers[: self.layer.requant.constants]
        if self.layer.requant.base is not None:
            self.asm.op("ldr", registers[0], self.frame.at("mult"))
            self.layer.requant.load_base(self.asm, registers[1])
            return registers[:2]
        if len(constants) == 3:
            self.asm.op("ldm", "sp", "{" + ", ".join(constants) + "}")
        else:
            self.asm.op("ldrd", *constants, self.frame.at("mult"))
        return constants

    def _streamed_channel(self) -> None:
        """r0: planes, r1: weights, r4 ... r7: accumulators, r2 r3 r8 r9: columns, r10 ... r14: weights."""
        layer, asm, frame = self.layer, self.asm, self.frame
        words = layer.weight_words
        asm.note("constants of a channel")
        self._begin_channel()
        asm.op("str", "r1", frame.at("out"))
        asm.op("ldr", "r1", frame.at("stream"))
        if layer.bits < 16:
            self._stack_weights()
            words = 0
        asm.op("ldr", "r2", "[r1], #4")
        asm.op("str", "r2", frame.at("start"))
        constants = Cursor(asm, "r1", -255, _WORD_REACH)
        for i, slot in enumerate(("mult", "add", "shift")[: layer.requant.constants]):
            asm.op("ldr", "r2", constants.at(4 * (words + i)))
            asm.op("str", "r2", frame.at(slot))
        asm.add("r2", "r1", 4 * (words + layer.requant.constants) - constants.base)
        constants.move(0)
        asm.op("str", "r2", frame.at("stream"))
        if layer.bits < 16:
            asm.add("r1", "sp", frame.top)
        if self._looped:
            self._turn_count("r14")
            asm.op("str", "r14", frame.at("left"))
        with self._rows():
            p = Cursor(asm, "r0", -_WORD_BACK, _PAIR_REACH)
            for row in range(layer.turn):
                for first in range(0, layer.out_w, 4):
                    self._streamed_step(p, row, first)
            if self._looped:
                p.move(layer.turn * layer.stride_h * layer.plane_row)
                asm.op("ldrd", "r2", "r3", frame.at("out"))
                Cursor(asm, "r2", 0, 0).move(layer.turn * layer.out_row)
                asm.op("subs", "r3", "r3", "#1")
                asm.op("strd", "r2", "r3", frame.at("out"))
                asm.branch("bne.w", "rows")

    def _stack_weights(self) -> None:
        """Weights from r1 on, which moves on, to the stack, on top of halves."""
        asm, count, bits = self.asm, self.layer.weight_words, self.layer.bits
        asm.op("mov", "r8", f"#{MASKS[bits]:#x}")
        asm.add("r9", "sp", self.frame.top)
        for first in range(0, count, 4):
            registers = [f"r{2 + i}" for i in range(min(4, count - first))]
            packed = ("r10", "r11")[: -(-len(registers) * bits // 16)]
            asm.load_multiple("r1", packed)
            tops(asm, registers, packed, "r8", bits)
            asm.op("stm", "r9!", "{" + ", ".join(registers) + "}")

    def _streamed_step(self, p: Cursor, row: int, first: int) -> None:
        """Four outputs (fewer at the end of a row)."""
        layer, asm, frame = self.layer, self.asm, self.frame
        outputs = min(4, layer.out_w - first)
        acc = ("r4", "r5", "r6", "r7")
        weights = _Weights(asm, layer.k_h * layer.row_words)
        start = row * layer.stride_h * layer.plane_row + 4 * (first * layer.stride_w // 2)
        macs = sorted(row_macs(outputs, layer.k_w, layer.stride_w), key=lambda m: (m.w, m.x, m.out))
        asm.note("products")
        asm.op("ldr", "r14", frame.at("start"))
        begun: set[int] = set()
        for k in range(layer.k_h):
            p.reach(start + k * layer.plane_row, start + k * layer.plane_row + 4 * max(m.x for m in macs))
            columns = _Columns(asm, p, start + k * layer.plane_row, [mac.x for mac in macs])
            for w in range(layer.row_words):
                weight = weights.next(all_begun=len(begun) == outputs)
                for mac in (m for m in macs if m.w == w):
                    to = acc[mac.out]
                    asm.op(mac.op, to, columns.next(), weight, to if mac.out in begun else "r14")
                    begun.add(mac.out)
        asm.add("r1", "r1", -4 * layer.k_h * layer.row_words)
        asm.note("requantize and store")
        constants = self._load_constants("r10", "r11", "r12")
        asm.op("ldr", "r2", frame.at("out"))
        o = Cursor(asm, "r2", -255, _WORD_REACH)
        for out in layer.requant.emit_each(asm, acc[:outputs], constants, "r3"):
            asm.op("strb", acc[out], o.at(row * layer.out_row + (first + out) * layer.out_step))


class _Weights:
    """The next weight words at r1, several per load; r14 is free once all accumulators are begun."""

    def __init__(self, asm: Asm, words: int) -> None:
        self._asm, self._left = asm, words
        self._ready: list[str] = []

    def next(self, all_begun: bool) -> str:
        if not self._ready:
            registers = ["r10", "r11", "r12", "r14"][: 4 if all_begun else 3][: self._left]
            self._asm.load_multiple("r1", registers)
            self._ready = registers
            self._left -= len(registers)
        return self._ready.pop(0)


class _Columns:
    """Plane words in the order of `uses`; a register is free again after the last use of its word."""

    def __init__(self, asm: Asm, pointer: Cursor, start: int, uses: list[int]) -> None:
        self._asm, self._pointer, self._start, self._uses = asm, pointer, start, uses
        self._held: dict[int, str] = {}

    def next(self) -> str:
        word = self._uses[0]
        if word not in self._held:
            self._load(word)
        register = self._held[word]
        self._uses = self._uses[1:]
        for done in [other for other in self._held if other not in self._uses]:
            del self._held[done]
        return register

    def _load(self, word: int) -> None:
        free = [r for r in ("r2", "r3", "r8", "r9") if r not in self._held.values()]
        at = self._pointer.at(self._start + 4 * word)
        if len(free) > 1 and word + 1 in self._uses and word + 1 not in self._held:
            self._asm.op("ldrd", *free[:2], at)
            self._held[word + 1] = free[1]
        else:
            self._asm.op("ldr", free[0], at)
        self._held[word] = free[0]
