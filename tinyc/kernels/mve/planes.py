# SPDX-License-Identifier: Apache-2.0
"""Depthwise layers as dot products of a gathered window (VMLADAV.S8): the two functions of a layer.

Four lines of the image are interleaved: a word holds the four values of one place and channel. A gather of four
words is then a window of 4 x 4 (or, of a single column, of 16) values of one channel, which holds up to four windows of
the layer; each has its own vector of weights, the same 16 bytes shifted. Lines are rows; `transposed`, columns.
"""

from __future__ import annotations

from functools import cached_property

import numpy as np
import numpy.typing as npt

from tinyc.base.dataclass import dataclass
from tinyc.kernels.mve.dot import ACCUMULATORS, LANES, STEP
from tinyc.kernels.mve.finish import LaneRequantization
from tinyc.kernels.mve.lanes import narrow, to_bytes
from tinyc.machine.cores import CORTEX_M55
from tinyc.machine.thumb import Asm, Work, naked_function

LINES = 4
LEAD = 8  # zeros before the weights of a record
HEADER = 48  # bytes of the stream before the records: offsets of a gather, of outputs, of the last outputs
_WORD_REACH = 508
_BYTE_REACH = 127
_GATHER_REACH = 508  # of the immediate of a gather of words
_STORE_REACH = 255  # of STRB that moves its base on
_UNROLLED = 6  # blocks
_TURN = 4  # blocks per turn of a loop, at most
_SECOND = "r7"  # y1: stores of bytes that move on want a low register
LINES_PARAMETERS = ("const int8_t *const *x", "int32_t at", "int8_t *to", "int32_t channels")
TILE_PARAMETERS = (
    "const int32_t *header",
    "const int32_t *record",
    "const int8_t *from",
    "int8_t *y",
    "int32_t channels",
)
APART_PARAMETERS = (*TILE_PARAMETERS, "int8_t *y1")


@dataclass(frozen=True, slots=True)
class Lines:
    """How four lines are interleaved, up to 16 channels at a time.

    count: places of a line, `step` bytes apart. width: words of a place. missing: lines outside the image, of x_zero.
    left, right: places of x_zero at the ends. lines_step: bytes from line to line if they are evenly spaced, else 0.
    last: lines that the last place has. partial: fewer than 16 channels may come. flat: places are narrower than
    vectors and adjacent.
    """

    count: int
    step: int
    width: int
    missing: frozenset[int]
    left: int
    right: int
    x_zero: int
    aligned: bool
    partial: bool
    lines_step: int = 0
    last: int = LINES

    @property
    def flat(self) -> bool:
        return self.width < STEP


@dataclass(frozen=True)
class PlaneTile:
    """How windows become outputs, one channel after the other."""

    lines: int  # windows of one gather, across lines
    places: int  # windows of one gather, along lines
    count: int  # gathers
    advance: int  # places from one gather to the next
    width: int  # words of a place
    line_shift: int  # bytes by which the weights of the next line's window are shifted
    place_shift: int  # the same of the next place's
    outputs: int  # of a line
    out_line: int  # bytes from line to line of the output
    out_place: int  # bytes from place to place of the output
    requant: LaneRequantization
    last: bool = False  # whether these are the last lines, which are fewer
    apart: bool = False  # both lines of the output lie anywhere
    fours: bool = False  # calls are of a multiple of four channels

    @property
    def parameters(self) -> tuple[str, ...]:
        return APART_PARAMETERS if self.apart else TILE_PARAMETERS

    @cached_property
    def windows(self) -> tuple[tuple[int, int], ...]:
        """(line, place) of the windows of a gather."""
        return tuple((line, place) for line in range(self.lines) for place in range(self.places))

    @property
    def gathers(self) -> int:
        """Gathers of a block: eight windows."""
        return len(ACCUMULATORS) // len(self.windows)

    @property
    def gather_bytes(self) -> int:
        return 4 * self.width * self.advance

    @property
    def record_words(self) -> int:
        return (LEAD + STEP) // 4 + self.requant.constants

    @property
    def before(self) -> int:
        """Bytes between the register that goes through the records and the record that comes: it stays at the
        constants of the one before."""
        return 4 * self.requant.constants

    def shift(self, line: int, place: int) -> int:
        return line * self.line_shift + place * self.place_shift

    @property
    def back(self) -> int:
        """Bytes that the first gather of a channel moves on from the last one of the channel before, where the gather
        does that itself; 0: it moves by gather_bytes, and addresses are set back."""
        step = 4 - (self.count - 1) * self.gather_bytes
        return step if step >= -_GATHER_REACH and self.count <= _UNROLLED else 0

    @property
    def blocks(self) -> tuple[int, int]:
        """(blocks of which all windows have outputs, gathers of the last, which has fewer)."""
        whole = self.count // self.gathers
        whole -= self.count == whole * self.gathers and self.outputs < self.count * self.places
        return whole, self.count - whole * self.gathers

    @property
    def ahead(self) -> int:
        """apart: where one place is left behind one block, pointers stay at the outputs of that place; else 0."""
        block = self.gathers * self.places
        return block * self.out_place if self.apart and self.outputs == block + 1 else 0

    @property
    def together(self) -> int:
        """Channels in a turn: the last place of four is scaled at once, its channels being lanes, where a vector for
        each would have two outputs of eight."""
        plain = not (self.requant.add or self.requant.sign or self.requant.shift is None)
        return LANES if self.ahead and self.fours and plain else 1

    def windows_of(self, gather: int) -> list[int]:
        """The windows of a gather that have outputs."""
        return [number for number, (_, place) in enumerate(self.windows) if gather * self.places + place < self.outputs]

    def lane(self, gather: int, window: int) -> int:
        """The accumulator of a window, `gather` being the number in the block. apart: those of a line are together."""
        if not self.apart:
            return gather * len(self.windows) + window
        line, place = self.windows[window]
        return LANES * line + gather * self.places + place

    @property
    def offsets(self) -> npt.NDArray[np.int32]:
        """Where outputs of a block lie, from its first one on, as four words: for the halves of a narrowed block, of
        which bottom halves are accumulators 0 to 3; apart: for the first four accumulators."""
        bytes_at = np.zeros(len(ACCUMULATORS), np.int64)
        for gather in range(self.gathers):
            for window, (line, place) in enumerate(self.windows):
                at = (gather * self.places + place) * self.out_place
                bytes_at[self.lane(gather, window)] = at if self.apart else at + line * self.out_line
        if self.apart:
            return (bytes_at[:LANES] - self.ahead).astype(np.int32)
        return bytes_at.reshape(2, LANES).T.ravel().astype(np.uint16).view(np.int32)

    @property
    def furthest(self) -> int:
        """The largest offset, of halves."""
        return 0 if self.apart else int(self.offsets.view(np.uint16).max())

    def valid(self, first: int, count: int) -> int:
        """Predicate for the outputs of a block that begins at gather `first` and has `count`: of halves; apart: of the
        first four accumulators."""
        lanes = {self.lane(gather, window) for gather in range(count) for window in self.windows_of(first + gather)}
        if self.apart:
            return sum(15 << 4 * lane for lane in lanes if lane < LANES)
        return sum(3 << 2 * (lane % LANES * 2 + lane // LANES) for lane in lanes)


def lines_function(name: str, lines: Lines) -> tuple[str, Work]:
    """The naked function `name(x, at, to, channels)`: x LINES pointers, of which those of missing lines are not read;
    at: the byte of the first channel."""
    asm = _Lines(lines).write()
    return naked_function(name, LINES_PARAMETERS, asm), asm.work()


class _Lines:
    """Registers: r4-r7 lines, r2 the place in the scratch, q4 x_zero."""

    def __init__(self, lines: Lines) -> None:
        self.lines = lines
        self.asm = Asm(CORTEX_M55)
        self.limit = _WORD_REACH if lines.aligned else _BYTE_REACH
        reach = lines.lines_step * (LINES - 1)
        self.shared = lines.step > self.limit and 0 < reach <= self.limit  # one pointer
        self.there = [line for line in range(LINES) if line not in lines.missing]

    def write(self) -> Asm:
        asm, lines = self.asm, self.lines
        asm.note("registers and arguments")
        asm.save("{r4-r7, lr}", "{d8-d9}")
        pointers = [self.there[0]] if self.shared else self.there
        for line in pointers:
            asm.op("ldr", f"r{4 + line}", f"[r0, #{4 * line}]")
            asm.op("add", f"r{4 + line}", f"r{4 + line}", "r1")
        if lines.partial:
            asm.op("vctp.8", "r3")
        if lines.missing or lines.left or lines.right or lines.last < LINES:
            asm.constant("r12", lines.x_zero & 0xFF)
            asm.op("vdup.8", "q4", "r12")
        for line in sorted(lines.missing):
            asm.op("vmov", f"q{line}", "q4")
        self._fill(lines.left)
        vectors = -(-lines.count * lines.width // STEP) if lines.flat else lines.count
        short = lines.count * lines.width % STEP if lines.flat else 0
        whole = vectors - (short > 0 or lines.last < LINES)
        if whole:
            asm.note("16 bytes of each line, interleaved")
            asm.constant("lr", whole)
            with asm.loop("place", whole):
                self._vector(self.there, lines.partial)
                asm.branch("le", "place", "lr")
        if short:
            asm.constant("r12", short)
            asm.op("vctp.8", "r12")
            self._vector(self.there, True)
            asm.add("r2", "r2", -4 * (STEP - short))
        elif lines.last < LINES:
            for line in range(lines.last, LINES):
                asm.op("vmov", f"q{line}", "q4")
            self._vector([line for line in self.there if line < lines.last], lines.partial)
        self._fill(lines.right)
        asm.restore()
        return asm

    def _fill(self, places: int) -> None:
        for _ in range(-(-4 * self.lines.width * places // STEP)):
            self.asm.op("vstrw.32", "q4", "[r2]", f"#{STEP}")
        self.asm.add("r2", "r2", -(-4 * self.lines.width * places % STEP))

    def _vector(self, there: list[int], predicated: bool) -> None:
        """16 bytes of each line, interleaved."""
        asm, lines = self.asm, self.lines
        step = STEP if lines.flat else lines.step
        if predicated and there:
            asm.op("vpst" + "t" * (len(there) - 1))
        mnemonic = ("vldrwt.u32" if predicated else "vldrw.u32") if lines.aligned else "vldrb.u8"
        if predicated and not lines.aligned:
            mnemonic = "vldrbt.u8"
        for line in there:
            pointer = f"r{4 + self.there[0]}" if self.shared else f"r{4 + line}"
            if self.shared:
                offset = (line - self.there[0]) * lines.lines_step
                asm.op(mnemonic, f"q{line}", f"[{pointer}, #{offset}]" if offset else f"[{pointer}]")
            elif step <= self.limit:
                asm.op(mnemonic, f"q{line}", f"[{pointer}]", f"#{step}")
            else:
                asm.op(mnemonic, f"q{line}", f"[{pointer}]")
        if self.shared or step > self.limit:
            for pointer in [f"r{4 + self.there[0]}"] if self.shared else [f"r{4 + line}" for line in there]:
                asm.add(pointer, pointer, step, "r12")
        for part in range(LINES):
            asm.op(f"vst4{part}.8", "{q0, q1, q2, q3}", "[r2]!" if part == LINES - 1 else "[r2]")


def tile_function(name: str, tile: PlaneTile) -> tuple[str, Work, Work]:
    """The naked function `name(header, record, from, y, channels[, y1])`; what it executes once and per turn."""
    asm = _Tile(tile).write()
    return naked_function(name, tile.parameters, asm), asm.work(), asm.work("channel")


class _Tile:
    """Registers: even ones sums, r1 turns, r3 y, r5 record, r7 start, r9 mult, r11 blocks; apart, r7 y1 and r11 start.
    q0 and q1 windows and scaled sums, q2 2^scale, q3 addresses of a gather, q4 to q7 weights. At the stack pointer:
    offsets of outputs, of each channel of a turn; then blocks, or offsets of a turn's constants and the sums of its
    last place."""

    def __init__(self, tile: PlaneTile) -> None:
        self.tile = tile
        self.asm = Asm(CORTEX_M55)
        self.start = "r11" if tile.apart else "r7"
        self.offsets = STEP * tile.together  # in the frame, those of constants; sums come behind
        self.sums = self.offsets + STEP
        self.frame = self.sums + 2 * STEP if tile.together > 1 else 2 * STEP if tile.apart else STEP

    def write(self) -> Asm:
        asm, tile = self.asm, self.tile
        whole, rest = tile.blocks
        self._enter(whole, rest)
        with asm.loop("channel", "channel"):
            if tile.together > 1:
                self._four_channels()
            else:
                self._channel(whole, rest)
            asm.count_down("r1", "", "channel")
        asm.restore()
        return asm

    def _channel(self, whole: int, rest: int) -> None:
        """All outputs of a channel, and on to the next."""
        asm, tile = self.asm, self.tile
        self._constants()
        self._blocks(whole)
        moved = 0 if tile.ahead else self._moved(whole if rest else whole - (whole <= _UNROLLED))
        if self._is_pair(whole * tile.gathers, rest):
            moved += self._pair(whole * tile.gathers, 1 - moved)
        elif rest:
            self._block(whole * tile.gathers, rest, True)
        asm.note("the next channel")
        self._set_back()
        self._move(1 - moved)

    def _constants(self) -> None:
        asm, tile = self.asm, self.tile
        asm.note("weights and constants of a channel")
        for window, (line, place) in enumerate(tile.windows):
            asm.op("vldrb.u8", f"q{4 + window}", f"[r5, #{tile.before + LEAD - tile.shift(line, place)}]")
        asm.op("ldrd", self.start, "r9", f"[r5, #{4 * tile.record_words}]!")

    def _set_back(self) -> None:
        """Addresses of the gather to the next channel, where it does not move there itself."""
        if not self.tile.back:
            self.asm.constant("r0", self.tile.count * self.tile.gather_bytes - 4)
            self.asm.op("vsub.i32", "q3", "q3", "r0")

    def _four_channels(self) -> None:
        """A block of each of four channels, then the last place of all of them."""
        asm, tile = self.asm, self.tile
        for channel in range(tile.together):
            self._constants()
            self._block(0, tile.gathers, False, channel)
            sums = self._pair_sums(tile.gathers)
            asm.op("strd", *sums, f"[sp, #{self.sums + 8 * channel}]")
            self._set_back()
        asm.note("the last place: channels are lanes")
        asm.add("r0", "sp", self.sums)
        asm.op("vld20.32", "{q0, q1}", "[r0]")
        asm.op("vld21.32", "{q0, q1}", "[r0]")
        asm.op("vldrw.u32", "q6", f"[sp, #{self.offsets}]")
        asm.op("vadd.i32", "q6", "q6", "r5")
        asm.op("vldrw.u32", "q4", "[q6]")
        asm.op("vldrw.u32", "q5", "[q6, #4]")
        for vector in ("q0", "q1"):
            if tile.requant.scale > 1:
                asm.op("vshl.i32", vector, vector, f"#{tile.requant.scale - 1}")
            asm.op("vadd.i32", vector, vector, "q4")
            asm.op("vqdmulh.s32", vector, vector, "q5")
        self._narrow(("q0", "q1"))
        asm.op("vstrb.32", "q0", "[r3]", f"#{LANES}")
        asm.op("vshr.u32", "q0", "q0", "#16")
        asm.op("vstrb.32", "q0", f"[{_SECOND}]", f"#{LANES}")

    def _enter(self, whole: int, rest: int) -> None:
        asm, tile, frame = self.asm, self.tile, self.frame
        asm.note("registers and arguments")
        asm.save("{d8-d15}", "{r4-r11, lr}", frame=frame)
        asm.op("vldrw.u32", "q3", "[r0]")
        asm.op("vldrw.u32", "q0", f"[r0, #{STEP * (1 + tile.last)}]")
        asm.op("vstrw.32", "q0", "[sp]")
        if tile.together > 1:
            asm.op("mov", "r4", "#1")
            for channel in range(1, tile.together):
                asm.op("vadd.i32", "q0", "q0", "r4")
                asm.op("vstrw.32", "q0", f"[sp, #{STEP * channel}]")
            asm.op("vldrw.u32", "q0", f"[r0, #{2 * STEP}]")
            asm.op("vstrw.32", "q0", f"[sp, #{self.offsets}]")
        asm.op("vadd.i32", "q3", "q3", "r2")
        asm.add("r5", "r1", -tile.before)
        asm.op("ldr", "r1", f"[sp, #{frame + 36 + 64}]")
        if tile.together > 1:
            asm.op("lsr", "r1", "r1", f"#{LANES.bit_length() - 1}")
        if tile.apart:
            asm.op("ldr", _SECOND, f"[sp, #{frame + 36 + 68}]")
        if not tile.requant.sign:
            asm.op("mov", "r0", f"#{1 << (tile.requant.scale - 1)}")
            asm.op("vdup.32", "q2", "r0")
        if rest and tile.together == 1:
            asm.constant("r0", tile.valid(whole * tile.gathers, rest))
            asm.op("vmsr", "p0", "r0")
        if tile.ahead:
            self._move(tile.ahead)

    def _moved(self, blocks: int) -> int:
        return blocks * self.tile.gathers * self.tile.places * self.tile.out_place

    def _move(self, count: int) -> None:
        """Both lines of the output move on."""
        for pointer in ("r3", _SECOND) if self.tile.apart else ("r3",):
            self.asm.add(pointer, pointer, count, "r0")

    def _blocks(self, whole: int) -> None:
        """All full blocks. The outputs move on behind each but the last one of all, where there is no loop."""
        asm, tile = self.asm, self.tile
        rest = tile.blocks[1]
        if whole <= _UNROLLED:
            for number in range(whole):
                self._block(number * tile.gathers, tile.gathers, False)
                if (rest or number < whole - 1) and not tile.ahead:
                    self._move(self._moved(1))
            return
        turn = max(n for n in range(1, _TURN + 1) if whole % n == 0)
        temp, place = ("r0", f"[sp, #{STEP}]") if tile.apart else ("r11", "")
        asm.constant(temp, whole // turn)
        if place:
            asm.op("str", temp, place)
        with asm.loop("block", whole // turn):
            for _ in range(turn):
                self._block(0, tile.gathers, False)
                self._move(self._moved(1))
            asm.count_down(temp, place, "block")

    def _block(self, first: int, gathers: int, partial: bool, channel: int = 0) -> None:
        """The outputs of so many gathers from number `first` on; channel: of a turn."""
        asm, tile = self.asm, self.tile
        asm.note("products")
        lanes = set()
        for gather in range(gathers):
            vector = f"q{gather % 2}"
            step = tile.back if tile.back and first + gather == 0 else tile.gather_bytes
            asm.op("vldrw.u32", vector, f"[q3, #{step}]!")
            for window in tile.windows_of(first + gather) if partial else range(len(tile.windows)):
                lanes.add(tile.lane(gather, window))
                asm.op("vmladav.s8", ACCUMULATORS[tile.lane(gather, window)], vector, f"q{4 + window}")
        self._finish(lanes)
        if tile.apart:
            self._store_apart(partial, channel)
            return
        asm.op("vldrh.u16", "q1", "[sp]")
        if partial:
            asm.op("vpst")
        asm.op("vstrbt.16" if partial else "vstrb.16", "q0", "[r3, q1]")

    def _finish(self, lanes: set[int]) -> None:
        """Sums in these accumulators -> q0, as bytes of its halves."""
        asm, tile = self.asm, self.tile
        asm.note("requantize and store")
        vectors = ("q0", "q1")[: 1 + (max(lanes) >= LANES)]
        for number, vector in enumerate(vectors):
            for low in (0, 1):
                pair = [LANES * number + low, LANES * number + low + 2]
                sums = [ACCUMULATORS[lane if lane in lanes else min(lanes)] for lane in pair]
                if lanes.intersection(pair):
                    asm.op("vmov", f"{vector}[{low + 2}]", f"{vector}[{low}]", *sums)
        _scale(asm, tile.requant, vectors, self.start)
        self._narrow(vectors)

    def _narrow(self, vectors: tuple[str, ...]) -> None:
        """Scaled sums -> q0, as bytes of its halves."""
        asm, tile = self.asm, self.tile
        for number, vector in enumerate(vectors):
            narrow(asm, tile.requant, "q0", vector, top=number == 1)
        to_bytes(asm, tile.requant, ["q0"], "q1")

    def _is_pair(self, first: int, gathers: int) -> bool:
        """Whether these last gathers are one, with an output of each of two lines."""
        tile = self.tile
        return tile.apart and gathers == 1 and {tile.windows[i][1] for i in tile.windows_of(first)} == {0}

    def _pair(self, first: int, step: int) -> int:
        """Both outputs of the last gather, by way of general registers; how far the output's lines moved on, `step` or
        not at all."""
        asm = self.asm
        self._pair_sums(first)
        self._finish({0, 2})
        asm.op("vmov", "r0", "r2", "q0[2]", "q0[0]")
        moves = abs(step) <= _STORE_REACH
        for value, pointer in (("r0", "r3"), ("r2", _SECOND)):
            asm.op("strb", value, f"[{pointer}]", *([f"#{step}"] if moves else []))
        return step if moves else 0

    def _pair_sums(self, first: int) -> tuple[str, str]:
        """The products of the last gather; the registers of the two lines' sums."""
        asm, tile = self.asm, self.tile
        asm.note("products")
        asm.op("vldrw.u32", "q0", f"[q3, #{tile.back if tile.back and first == 0 else tile.gather_bytes}]!")
        for window in tile.windows_of(first):
            asm.op("vmladav.s8", ACCUMULATORS[tile.windows[window][0] * 2], "q0", f"q{4 + window}")
        return ACCUMULATORS[0], ACCUMULATORS[2]

    def _store_apart(self, partial: bool, channel: int) -> None:
        """Bottom halves to the first line, then top halves to the second, which may be the same."""
        asm = self.asm
        asm.op("vldrw.u32", "q1", f"[sp, #{STEP * channel}]" if channel else "[sp]")
        store = "vstrbt.32" if partial else "vstrb.32"
        for pointer in ("r3", _SECOND):
            if partial:
                asm.op("vpst")
            asm.op(store, "q0", f"[{pointer}, q1]")
            if pointer == "r3":
                asm.op("vshr.u32", "q0", "q0", "#16")


def _scale(asm: Asm, requant: LaneRequantization, vectors: tuple[str, ...], start: str) -> None:
    """Sums of one channel, r5 at its constants: X is half of what finish.py says, since the product is doubled."""
    if requant.sign:
        for vector in vectors:
            asm.op("vadd.i32", vector, vector, start)
            asm.op("vshr.s32", "q2", vector, "#31")
            asm.op("vqrdmulh.s32", vector, vector, "r9")
            asm.op("vadd.i32", vector, vector, "q2")
    else:
        for vector in vectors:
            asm.op("vmlas.s32", vector, "q2", start)
        for vector in vectors:
            asm.op("vqdmulh.s32", vector, vector, "r9")
    for index, op in enumerate(["vadd.i32"] * requant.add + ["vshl.s32"] * (requant.shift is None)):
        asm.op("ldr", "r0", f"[r5, #{8 + 4 * index}]")
        for vector in vectors:
            asm.op(op, vector, *([vector] if op == "vadd.i32" else []), "r0")
