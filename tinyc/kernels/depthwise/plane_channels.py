# SPDX-License-Identifier: Apache-2.0
"""The multiplications of a depthwise convolution over planes, channel by channel, in assembly: see planes.py."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import AbstractContextManager
from typing import NamedTuple

from tinyc.kernels.depthwise.plane_layer import PlaneLayer, row_macs, row_words
from tinyc.kernels.finish import Requantization
from tinyc.kernels.int4_words import NIBBLE_MASK
from tinyc.machine.frame import Frame
from tinyc.machine.thumb import Asm

MASKS = {4: NIBBLE_MASK, 8: 0xFF00FF00}  # by the bits of a weight on top of a half word
_PAIR_REACH = 1020  # of the immediate of LDRD and STRD
_WORD_BACK = 252  # of LDR, whose negative immediates end at 255
_WORD_REACH = 4095  # of LDR, STRB, ADDW


def tops(asm: Asm, to: Sequence[str], packed: Sequence[str], mask: str, bits: int) -> None:
    """Words with a weight of so many bits on top of each half, from words that hold several of them: the first on top.
    mask: the register that holds MASKS[bits]."""
    each = 16 // bits
    for i, register in enumerate(to):
        asm.op("and", register, mask, packed[i // each], *([f"lsl #{i % each * bits}"] if i % each else []))


class Cursor:
    """A pointer register whose immediates do not reach everywhere: it moves when it must, by what depends on how far
    offsets are from where it is alone."""

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
            self.move(first if last - first <= self.high else last - self.high)

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
        counts = tuple(count // layer.turn for count in (layer.last_band, layer.band)) if self._turns_vary else ()
        asm.piece(_enter_channels, bool(layer.rest and layer.groups > 1), layer.group, layer.bands == 1)
        if counts:
            asm.piece(_turns_of_band, *counts)
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

    def _resident_channel(self) -> None:
        """r6: start value, r7 ... r12: weights, then constants if all find room, r14: turns left, or a temporary that
        the requantization asks for, or a constant."""
        layer, asm, frame = self.layer, self.asm, self.frame
        spare = "r14" in self._held if self._held else layer.requant.shifts is None or layer.requant.sign
        asm.note("weights and constants of a channel")
        asm.piece(_enter_channel, layer.requant, self._held, (layer.weight_words, layer.bits), layer.pitch)
        if self._looped:
            counter = "r4" if spare else "r14"
            self._turn_count(counter)
            if spare:
                asm.op("str", counter, frame.at("left"))
        with self._rows():
            p, o = _pointers(asm, "r1")
            for row in range(layer.turn):
                for first in range(0, layer.out_w, 2):
                    outputs = min(2, layer.out_w - first)
                    plane = row * layer.stride_h * layer.plane_row + 4 * (first * layer.stride_w // 2) - p.base
                    out = row * layer.out_row + first * layer.out_step - o.base
                    moved = asm.piece(_resident_step, self._shape, self._held, outputs, (plane, out))
                    p.base, o.base = p.base + moved[0], o.base + moved[1]
            if self._looped:
                p.move(layer.turn * layer.stride_h * layer.plane_row)
                o.move(layer.turn * layer.out_row)
                asm.count_down(counter, frame.at("left") if spare else "", "rows")

    def _rows(self) -> AbstractContextManager[None]:
        """The loop over the output rows of a channel."""
        return self.asm.loop("rows", self.layer.channels * (self.layer.out_h // self.layer.turn), of_call=True)

    @property
    def _shape(self) -> _Shape:
        layer = self.layer
        return _Shape(layer.k_h, layer.k_w, layer.stride_w, layer.plane_row, layer.out_step, layer.requant)

    @property
    def _held(self) -> tuple[str, ...]:
        """Registers beside the weights that hold the constants of a channel, and what all channels add where there is
        room for it; none where not all constants can be held."""
        layer, count = self.layer, self.layer.requant.constants
        free = (*(f"r{i}" for i in range(7 + layer.weight_words, 13)), "r14")
        return free[: count + (layer.requant.base is not None)] if len(free) >= count else ()

    def _streamed_channel(self) -> None:
        """r0: planes, r1: weights, r4 ... r7: accumulators, r2 r3 r8 r9: columns, r10 ... r14: weights."""
        layer, asm, frame = self.layer, self.asm, self.frame
        words = layer.weight_words
        asm.note("constants of a channel")
        _begin_channel(asm, layer.pitch)
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
            p, _ = _pointers(asm, "r2")
            for row in range(layer.turn):
                for first in range(0, layer.out_w, 4):
                    plane = row * layer.stride_h * layer.plane_row + 4 * (first * layer.stride_w // 2) - p.base
                    out = row * layer.out_row + first * layer.out_step
                    p.base += asm.piece(_streamed_step, self._shape, min(4, layer.out_w - first), (plane, out))
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


def _enter_channels(asm: Asm, shares: bool, group: int, whole: bool) -> None:
    """The frame for the channels of a group. shares: the last one has channels of that before. whole: there is one
    band."""
    asm.op("ldr", "r4", place("scratch"))
    if shares:
        asm.op("ldrd", "r6", "r5", place("count"))
        asm.op("add", "r4", "r4", "r5")
    else:
        asm.op("mov", "r6", f"#{group}")
    asm.op("ldr", "r5", place("y" if whole else "y_band"))
    asm.op("strd", "r4", "r5", place("plane"))
    asm.op("str", "r6", place("channel"))


def _turns_of_band(asm: Asm, last: int, other: int) -> None:
    """To the frame: turns of the loop over the rows of the last band, or of another."""
    asm.op("ldr", "r4", place("bands"))
    asm.op("cmp", "r4", "#1")
    asm.op("ite", "eq")
    asm.op("moveq", "r4", f"#{last}")
    asm.op("movne", "r4", f"#{other}")
    asm.op("str", "r4", place("turns"))


def _begin_channel(asm: Asm, pitch: int) -> None:
    """r0: planes, r1: output, of the channel; the slots move to the next, `pitch` bytes on."""
    asm.op("ldrd", "r0", "r1", place("plane"))
    asm.add("r2", "r0", pitch)
    asm.op("add", "r3", "r1", "#1")
    asm.op("strd", "r2", "r3", place("plane"))


def _enter_channel(
    asm: Asm, requant: Requantization, held: tuple[str, ...], weights: tuple[int, int], pitch: int
) -> None:
    """The registers of `_resident_channel` but the turns. held: those of constants. weights: words, and bits of one."""
    words, bits = weights
    asm.op("ldr", "r14", place("stream"))
    if bits < 16:  # the start value to r6, weights on top of the halves of r7 ... r12; r4 is the mask
        packed = ("r2", "r3", "r5")[: -(-words * bits // 16)]
        asm.load_multiple("r14", (*packed, "r6"))
        asm.op("mov", "r4", f"#{MASKS[bits]:#x}")
        tops(asm, [f"r{7 + i}" for i in range(words)], packed, "r4", bits)
    else:
        asm.op("ldm", "r14!", f"{{r6-r{6 + words}}}")
    if held:
        asm.add("r2", "r14", 4 * requant.constants)
        asm.op("str", "r2", place("stream"))
        asm.load_multiple("r14", held[: requant.constants], advance=False)
        for register in held[requant.constants :]:
            requant.load_base(asm, register)
    elif requant.constants == 3:
        asm.op("ldm", "r14!", "{r2-r4}")
        asm.op("stm", "sp", "{r2-r4}")
        asm.op("str", "r14", place("stream"))
    else:
        asm.op("ldm", "r14!", "{r2, r3}")
        asm.op("strd", "r2", "r3", place("mult"))
        asm.op("str", "r14", place("stream"))
    _begin_channel(asm, pitch)


class _Shape(NamedTuple):
    """What the code of a step depends on. plane_row: bytes from row to row of a plane. out_step: from output to output
    of a row."""

    k_h: int
    k_w: int
    stride_w: int
    plane_row: int
    out_step: int
    requant: Requantization

    @property
    def row_words(self) -> int:
        """Words of weights of a kernel row."""
        return len(row_words(self.k_w, self.stride_w))


def _pointers(asm: Asm, outputs: str) -> tuple[Cursor, Cursor]:
    """Where a step reads planes, and where its outputs go."""
    return Cursor(asm, "r0", -_WORD_BACK, _PAIR_REACH), Cursor(asm, outputs, -255, _WORD_REACH)


def place(word: str) -> str:
    """Of a word in the frame."""
    return Frame(_WORDS).at(word)


MacStep = tuple[str, str, str, str, str]
"""A multiply-accumulate: mnemonic, sum, factors, what is added."""


def multiply(asm: Asm, steps: tuple[MacStep, ...]) -> None:
    """One after the other."""
    for step in steps:
        asm.op(*step)


def _resident_step(
    asm: Asm, shape: _Shape, held: tuple[str, ...], outputs: int, places: tuple[int, int]
) -> tuple[int, int]:
    """Two outputs (one at the end of an odd row); by how much the registers of `_pointers` moved.

    held: registers of the constants of a channel. places: of the first column in the plane, and of the output.
    """
    p, o = _pointers(asm, "r1")
    macs = row_macs(outputs, shape.k_w, shape.stride_w)
    last = max(mac.x for mac in macs)
    start, requant = places[0], shape.requant
    p.reach(start, start + (shape.k_h - 1) * shape.plane_row + 4 * last)
    acc = ("r4", "r5")
    begun: set[int] = set()
    asm.note("products")
    for k in range(shape.k_h):
        for word in range(0, last + 1, 2):
            at = start + k * shape.plane_row + 4 * word
            if word < last:
                asm.op("ldrd", "r2", "r3", p.at(at))
            else:
                asm.op("ldr", "r2", p.at(at))
            steps = list[MacStep]()
            for mac in sorted((m for m in macs if m.x // 2 == word // 2), key=lambda m: (m.x, m.out)):
                to = acc[mac.out]
                weight = f"r{7 + k * shape.row_words + mac.w}"
                steps.append((mac.op, to, f"r{2 + mac.x % 2}", weight, to if mac.out in begun else "r6"))
                begun.add(mac.out)
            asm.piece(multiply, tuple(steps))
    asm.note("requantize and store")
    if held:
        if requant.base is not None and len(held) == 1:
            requant.load_base(asm, "r2")
            held = (*held, "r2")
        done = requant.emit_each(asm, acc[:outputs], held, "r3")
    else:
        constants = _load_constants(asm, requant, ("r2", "r3", "r14"))
        done = requant.emit_each(asm, acc[:outputs], constants, "r14", place("add"))
    for out in done:
        asm.op("strb", acc[out], o.at(places[1] + out * shape.out_step))
    return p.base, o.base


def _load_constants(asm: Asm, requant: Requantization, registers: tuple[str, ...]) -> tuple[str, ...]:
    """Those of a channel from the frame; which of the registers have them."""
    constants = registers[: requant.constants]
    if requant.base is not None:
        asm.op("ldr", registers[0], place("mult"))
        requant.load_base(asm, registers[1])
        return registers[:2]
    if len(constants) == 3:
        asm.op("ldm", "sp", "{" + ", ".join(constants) + "}")
    else:
        asm.op("ldrd", *constants, place("mult"))
    return constants


def _streamed_step(asm: Asm, shape: _Shape, outputs: int, places: tuple[int, int]) -> int:
    """Four outputs (fewer at the end of a row); by how much the register of the planes moved. places: of the first
    column in the plane, and of the first output."""
    acc = ("r4", "r5", "r6", "r7")
    weights, words = _Weights(asm, shape.k_h * shape.row_words), shape.row_words
    p, o = _pointers(asm, "r2")
    macs = sorted(row_macs(outputs, shape.k_w, shape.stride_w), key=lambda m: (m.w, m.x, m.out))
    asm.note("products")
    asm.op("ldr", "r14", place("start"))
    begun: set[int] = set()
    for k in range(shape.k_h):
        row = places[0] + k * shape.plane_row
        p.reach(row, row + 4 * max(m.x for m in macs))
        columns = _Columns(asm, p, row, [mac.x for mac in macs])
        for w in range(words):
            weight = weights.next(all_begun=len(begun) == outputs)
            for mac in (m for m in macs if m.w == w):
                to = acc[mac.out]
                asm.op(mac.op, to, columns.next(), weight, to if mac.out in begun else "r14")
                begun.add(mac.out)
    asm.add("r1", "r1", -4 * shape.k_h * words)
    asm.note("requantize and store")
    constants = _load_constants(asm, shape.requant, ("r10", "r11", "r12"))
    asm.op("ldr", "r2", place("out"))
    for out in shape.requant.emit_each(asm, acc[:outputs], constants, "r3"):
        asm.op("strb", acc[out], o.at(places[1] + out * shape.out_step))
    return p.base


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
