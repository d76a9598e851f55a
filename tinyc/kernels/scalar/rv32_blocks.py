# SPDX-License-Identifier: Apache-2.0
"""The assembly of convolutions on RV32IM: a block of output channels for three or six pixels (tc_rv32.h).

Three pixels' taps lie in two words, so a tap of a block takes two or four loads of the input, a load for each weight,
and MUL and ADD for each sum of two words; all sixteen sums stay in registers. `blocks_text` goes on to bytes: a sum
P1 = A + 2^10 C, P2 = B + 2^21 C is wanted times 2^11, plus the channel's start, in the product with its multiplier.
Then two of the three dot products need not be taken apart first: modulo 2^32, P2 * 2^11 is B * 2^11, and 2 (P1 - A) is
C * 2^11. `dot_text` writes the sums to memory.
"""

from __future__ import annotations

from collections.abc import Sequence

from tinyc.base.dataclass import dataclass
from tinyc.kernel.kernel import SpecializedKernel, writing
from tinyc.kernels.form.function import RV32, LayerFunction, twin
from tinyc.kernels.tile.shape import tile_text
from tinyc.machine.riscv import SAVED, RiscvAsm, RiscvFrame
from tinyc.machine.work import Work

_SUMS = (*SAVED, "t3", "t4", "t5", "t6")
_INPUTS = ("t0", "t1", "ra", "a7")  # the words of a tap
_PRODUCT = "a4"
_FOUR = 4  # taps that are unrolled; blocks_text takes two fours a turn


@dataclass(frozen=True, slots=True)
class PixelTile:
    """groups: of three pixels, 1 or 2; lanes: channels of a block. nibbles: weights of int4, eight in a word."""

    groups: int
    lanes: int
    nibbles: bool = False

    @property
    def pixels(self) -> int:
        return 3 * self.groups

    @property
    def words(self) -> int:
        """Of the input for each tap."""
        return 2 * self.groups

    @property
    def weight_bytes(self) -> int:
        """Of a tap of a block."""
        return 4 if self.nibbles else self.lanes

    @property
    def name(self) -> str:
        return f"{self.pixels}x{self.lanes}"

    @property
    def text(self) -> str:
        """In words."""
        weights = "int4 weights, eight channels in a word" if self.nibbles else "int8 weights"
        return tile_text(self.pixels, self.lanes, "a tap of three pixels in two words of scratch", weights)


BROAD, TALL = PixelTile(1, 8), PixelTile(2, 4)
NIBBLES = PixelTile(1, 8, nibbles=True)


class _Writer:
    """Registers: a0 taps, a1 weights, a2 the end of the taps."""

    def __init__(self, tile: PixelTile) -> None:
        self.tile, self.asm = tile, RiscvAsm()
        self.weights = ("t2", "ra" if tile.groups == 1 else "a6")

    def sums(self, group: int, lane: int) -> tuple[str, str]:
        """P1 and P2 of a channel."""
        first = 2 * (group * self.tile.lanes + lane)
        return _SUMS[first], _SUMS[first + 1]

    def clear(self) -> None:
        for register in _SUMS:
            self.asm.op("li", register, "0")

    def taps(self, taps: Sequence[int]) -> None:
        """These taps, one after the other."""
        for tap in taps:
            self.tap(tap)

    def tap(self, tap: int, begins: bool = False) -> None:
        """What is loaded is not used at once: a core may wait for it. begins: the sums begin here."""
        asm, tile = self.asm, self.tile
        inputs = _INPUTS[: tile.words]
        self._weight(tap, 0)
        asm.words("lw", inputs, "a0", 4 * tile.words * tap)
        for lane in range(tile.lanes):
            weight = self.weights[0 if tile.nibbles else lane % 2]
            if lane + 1 < tile.lanes and not tile.nibbles:
                self._weight(tap, lane + 1)
            elif lane and tile.nibbles:
                asm.op("srai", weight, weight, "4")
            for number, word in enumerate(inputs):
                total = self.sums(number // 2, lane)[number % 2]
                asm.op("mul", total if begins else _PRODUCT, word, weight)
                if not begins:
                    asm.op("add", total, total, _PRODUCT)

    def _weight(self, tap: int, lane: int) -> None:
        if self.tile.nibbles:
            self.asm.op("lw", self.weights[0], f"{4 * tap}(a1)")
        else:
            self.asm.op("lb", self.weights[lane % 2], f"{self.tile.lanes * tap + lane}(a1)")

    def advance(self, fours: int) -> None:
        """Behind the taps of a turn."""
        self.asm.add("a0", "a0", 4 * self.tile.words * _FOUR * fours)
        self.asm.add("a1", "a1", self.tile.weight_bytes * _FOUR * fours)

    def end_of_taps(self) -> None:
        """a2 = behind the taps, of a2 fours."""
        self.asm.op("slli", "a2", "a2", str((4 * self.tile.words * _FOUR).bit_length() - 1))
        self.asm.op("add", "a2", "a2", "a0")


def _dot(tile: PixelTile) -> RiscvAsm:
    """The function of `dot_text`."""
    writer = _Writer(tile)
    asm = writer.asm
    asm.note("s0-s11 and t3-t6: sums; a3: where they go")
    asm.save(64, (*SAVED, "ra"))
    writer.end_of_taps()
    writer.clear()
    with asm.loop("taps", "four", aligned=False):
        writer.taps(range(_FOUR))
        writer.advance(1)
        asm.branch("bne", "taps", "a0", "a2")
    asm.words("sw", _SUMS, "a3")
    asm.restore()
    return asm


class _BlocksWriter(_Writer):
    """Of the bytes: a0, ra and a5, or a2, are the pixels' places, a3 the channel, a6 and a7 the clamp, t0-t2 and a4
    temporary."""

    def __init__(self, tile: PixelTile) -> None:
        super().__init__(tile)
        places = [f"place{pixel}" for pixel in range(1, tile.pixels)]
        names = [*SAVED, "ra", "x", "channels_end", "odd", "taps_end", "least", "greatest", *places]
        self.frame = RiscvFrame(names)

    def write(self) -> RiscvAsm:
        asm, tile = self.asm, self.tile
        self._enter()
        with asm.loop("block", "block", aligned=False):
            self.tap(0, begins=True)
            asm.op("lw", "t0", self.frame.at("odd"))
            asm.branch("beqz", "next", "t0")
            with asm.loop("to odd", "odd block", aligned=False, of_call=True):  # counted by the caller, as what follows
                asm.branch("bnez", "odd", "t0")
            with asm.loop("taps", "first", aligned=False, of_call=True):
                self.tap(0)
            with asm.loop("next", "even four", aligned=False, of_call=True):
                self.taps(range(1, _FOUR))
            with asm.loop("second", "middle", aligned=False, of_call=True):
                self.tap(_FOUR)
            with asm.loop("next odd", "odd four", aligned=False, of_call=True):
                self.taps(range(_FOUR + 1, 2 * _FOUR))
                self.advance(2)
                asm.branch("bne", "taps", "a0", "a2")
            if tile.groups > 1:
                asm.op("lw", "a6", self.frame.at("least"))
                asm.op("lw", "a7", self.frame.at("greatest"))
            for group in reversed(range(tile.groups)):  # a pixel that is not there is written over
                self._bytes(group)
            self._next_block()
        asm.restore()
        asm.note("an odd number of fours: the first is the second half of a turn")
        with asm.loop("odd", "odd block", aligned=False, of_call=True):
            asm.add("a0", "a0", -4 * tile.words * _FOUR)
            asm.add("a1", "a1", -tile.weight_bytes * _FOUR)
            asm.branch("j", "next odd")
        return asm

    def _enter(self) -> None:
        """a3: tc_rv32_out_t, then the channel; a4: blocks; a5: y; a6: the pixels' places."""
        asm, tile = self.asm, self.tile
        asm.save(self.frame.size, (*SAVED, "ra"), ("a0",))
        for pixel in range(1, tile.pixels):
            asm.op("lw", "t0", f"{4 * pixel}(a6)")
            asm.op("sw", "t0", self.frame.at(f"place{pixel}"))
        asm.op("andi", "t0", "a2", "1")
        asm.op("sw", "t0", self.frame.at("odd"))
        self.end_of_taps()
        asm.op("slli", "a4", "a4", str((16 * tile.lanes).bit_length() - 1))
        asm.op("lw", "a6", "16(a3)")
        asm.op("lw", "a7", "20(a3)")
        asm.op("lw", "a3", "0(a3)")
        asm.op("add", "a4", "a4", "a3")
        asm.op("sw", "a4", self.frame.at("channels_end"))
        if tile.groups > 1:
            asm.op("sw", "a2", self.frame.at("taps_end"))
            asm.op("sw", "a6", self.frame.at("least"))
            asm.op("sw", "a7", self.frame.at("greatest"))

    def _bytes(self, group: int) -> None:
        """The outputs of three pixels."""
        asm = self.asm
        asm.note(f"pixels {3 * group} to {3 * group + 2}: requantize and store")
        places = ("a5" if group == 0 else "a2", "a0", "ra")
        for number, place in enumerate(places):
            if place != "a5":
                asm.op("lw", place, self.frame.at(f"place{3 * group + number}"))
                asm.op("add", place, place, "a5")
        for lane in range(self.tile.lanes):
            self._channel(*self.sums(group, lane), lane, places)

    def _channel(self, p1: str, p2: str, lane: int, places: tuple[str, str, str]) -> None:
        """t1, t0, p1 = A, B, C times 2^11, then the bytes."""
        asm = self.asm
        asm.op("slli", "t0", p2, "11")
        asm.op("lw", "a4", f"{16 * lane + 4}(a3)")
        asm.op("srai", "t1", "t0", "11")
        asm.op("sub", "t1", p2, "t1")
        asm.op("lw", p2, f"{16 * lane}(a3)")
        asm.op("srli", "t1", "t1", "11")  # C modulo 2^11, times 2^10
        asm.op("sub", "t1", p1, "t1")
        asm.op("slli", "t1", "t1", "11")
        asm.op("srai", "t2", "t1", "10")
        asm.op("slli", p1, p1, "1")
        asm.op("sub", p1, p1, "t2")
        three = ("t0", "t1", p1)
        for register in three:
            asm.op("add", register, register, p2)
        asm.op("lw", p2, f"{16 * lane + 12}(a3)")
        for register in three:
            asm.op("mulh", register, register, "a4")
        for register in three:
            asm.op("sra", register, register, p2)
        for register, place in zip((p1, "t0", "t1"), reversed(places), strict=True):
            asm.clamp(register, "a6", "a7")
            asm.op("sb", register, f"{lane}({place})")

    def _next_block(self) -> None:
        asm, tile = self.asm, self.tile
        asm.op("lw", "t0", self.frame.at("channels_end"))
        asm.op("lw", "a0", self.frame.at("x"))
        if tile.groups > 1:
            asm.op("lw", "a2", self.frame.at("taps_end"))
        asm.add("a3", "a3", 16 * tile.lanes)
        asm.add("a5", "a5", tile.lanes)
        asm.branch("bne", "block", "a3", "t0")


@dataclass(frozen=True, slots=True)
class TileFunction:
    """The function of a tile, and what it executes: a call, a block, what a block of an odd number of fours of taps has
    more, the first taps of even and of odd fours but for the block's first tap, and their other taps; and its bytes."""

    kernel: SpecializedKernel
    call: Work
    block: Work
    extra: Work
    firsts: tuple[Work, Work]
    fours: tuple[Work, Work]
    code_bytes: int

    def work(self, fours: int, blocks: int) -> Work:
        """Of a call with so many blocks of so many fours of taps."""
        even, odd = fours // 2, fours % 2
        firsts = self.firsts[0] * (even - 1 + odd) + self.firsts[1] * even
        taps = self.fours[0] * even + self.fours[1] * (fours - even)
        return self.call + (self.block + firsts + taps + self.extra * odd) * blocks


def blocks(tile: PixelTile) -> TileFunction:
    """Packed taps x [4 * fours][groups][X1, X2] times w [block][4 * fours][lanes] -> y at `places` [3 * groups], whole
    blocks of channels; p is `plain`."""
    return writing(_blocks_function, tile)


def _blocks_function(tile: PixelTile) -> TileFunction:
    asm = _BlocksWriter(tile).write()
    parameters = (
        *("const int32_t *x", "const int8_t *w", "int32_t fours", "const tc_rv32_out_t *p", "int32_t blocks"),
        *("int8_t *y", "const int32_t *places"),
    )
    kernel = part(
        f"tc_rv32_blocks_{tile.name}",
        f"""/* Packed taps x [4 * fours][{tile.words}] times w [block][4 * fours][{tile.lanes}] -> {tile.pixels} pixels,
 * at places [{tile.pixels}], of whole blocks of {tile.lanes} channels; p is `plain`. */""",
        parameters,
        asm,
        f"tc_rv32_blocks(x, w, fours, p, blocks, y, places, {tile.groups}, {tile.lanes})",
    )
    units = ("", "block", "odd block", "first", "middle", "even four", "odd four")
    call, block, extra, first, middle, even, odd = (asm.work(unit) for unit in units)
    return TileFunction(kernel, call, block, extra, (first, middle), (even, odd), asm.code_bytes)


def dot(tile: PixelTile) -> TileFunction:
    """Packed taps x [4 * fours][groups][X1, X2] times w [4 * fours][lanes] -> p [groups][lanes][P1, P2]; fours > 0. It
    makes one block a call."""
    return writing(_dot_function, tile)


def _dot_function(tile: PixelTile) -> TileFunction:
    asm = _dot(tile)
    kind, weights = ("nibbles", "int32_t") if tile.nibbles else ("dot", "int8_t")
    parameters = ("const int32_t *x", f"const {weights} *w", "int32_t fours", "int32_t *p")
    layout = "[4 * fours] >> 0, 4, ... 28" if tile.nibbles else f"[4 * fours][{tile.lanes}]"
    sizes = "" if tile.nibbles else f", {tile.groups}, {tile.lanes}"
    kernel = part(
        f"tc_rv32_{kind}_{tile.name}",
        f"""/* Packed taps x [4 * fours][{tile.words}] times w {layout}
 * -> p [{tile.groups}][{tile.lanes}][P1, P2]. fours > 0. */""",
        parameters,
        asm,
        f"tc_rv32_{kind}(x, w, fours, p{sizes})",
    )
    four = asm.work("four")
    return TileFunction(kernel, asm.work(), Work(), Work(), (Work(), Work()), (four, four), asm.code_bytes)


def part(
    name: str, contract: str, parameters: Sequence[str], asm: RiscvAsm, call: str, *includes: str
) -> SpecializedKernel:
    """A function in assembly, elsewhere a call in C."""
    portable = twin(name, parameters, f"{call};", shared=True)
    function = LayerFunction(contract, asm.function(name, parameters), portable, isa=RV32)
    return function.called(name, "tc_rv32.h", *includes)
