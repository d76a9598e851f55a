# SPDX-License-Identifier: Apache-2.0
"""What the functions of all tiles share: frame, weight loads, the loop over output channels.

Registers: r0 walks through the stream, r1-r4 are the accumulators of the (first) pixel, r5-r8 those of a second
or weights, r9-r12 and r14 taps, weights, and after the sums constants and the output address.
"""

from __future__ import annotations

from collections.abc import Callable

from tinyc.base.dataclass import dataclass
from tinyc.kernels import int4_words
from tinyc.kernels.finish import Requantization
from tinyc.kernels.matrix import GROUP
from tinyc.kernels.tile.layer import WeightedLayer
from tinyc.machine.frame import Frame
from tinyc.machine.three_stage import ThreeStage
from tinyc.machine.thumb import Asm, Work, fpu_registers

STREAM = "r0"
FIRST = ("r1", "r2", "r3", "r4")
SECOND = ("r5", "r6", "r7", "r8")
PARAMETERS = (
    "const int32_t *stream",
    "const int8_t *const *x",
    "int8_t *y",
    "int32_t n",
    "int32_t first",
    "int32_t *buffer",
)
_SAVED_BYTES = 36  # r4-r11, lr
_SCRATCH_FPU = 16  # registers s0 ... that a function need not save
_LDRD_REACH = 1020


@dataclass(frozen=True, slots=True)
class PixelWork:
    """What is executed: per call, per pair of pixels, for a last odd pixel. group_bytes: code for four channels."""

    call: Work
    pair: Work
    last: Work
    group_bytes: int = 0

    def of(self, pixels: int) -> Work:
        return self.call + pixels // 2 * self.pair + pixels % 2 * self.last


class WeightedFrame(Frame):
    """The stack: the buffer of the taps (if it is there), above it words by name, then what the call pushed."""

    def __init__(self, layer: WeightedLayer) -> None:
        base = 0 if layer.in_scratch else layer.buffer_bytes
        names = ["first_sum", "second_sum"] if layer.requant.offsets else []
        names += ["y", "end", "stream"]
        names += [] if layer.alone else ["n"]
        names += ["x"] if layer.k_h == 1 else ["rows", "first"]
        names += ["buffer", "buffer_end"] if layer.in_scratch else []
        names += ["mult", "add"] if layer.requant.common else []
        super().__init__(names, below=base, first="[sp, #0]")
        held = layer.steps if layer.odd else 0
        self.saved = max(2 * layer.held_steps - _SCRATCH_FPU, held - _SCRATCH_FPU, 0)

    def argument(self, index: int) -> str:
        """A stack argument of the function; number 4 is the first."""
        return f"[sp, #{self.size + 4 * self.saved + _SAVED_BYTES + 4 * (index - 4)}]"

    def common(self) -> tuple[str, ...]:
        """Where mult and add of all channels wait."""
        both = self.both("mult")
        return (both,) if both else (self.at("mult"), self.at("add"))

    def both(self, first: str) -> str | None:
        """Place of the word of that name and the next one, if LDRD reaches it."""
        return self.at(first) if self.place(first) <= _LDRD_REACH else None


Pixel = tuple[str, tuple[str, ...], tuple[str, ...]]
"""The register of a pixel's taps, those of its sums by channel, and those that the products are added to."""


Word = tuple[tuple[str, ...], str]
"""The register of a word of the stream, and those that are loaded before it is used."""


class Weights:
    """Hands out registers with the next words of the stream, loaded as many at a time as there are registers.

    words: of the stream that are left.
    """

    def __init__(self, asm: Asm, registers: tuple[str, ...], words: int) -> None:
        self._asm = asm
        self._registers = registers
        self._left = words
        self._ready: tuple[str, ...] = ()

    def next(self) -> str:
        ((loaded, word),) = self.take(1)
        if loaded:
            self._asm.load_multiple(STREAM, loaded)
        return word

    def take(self, count: int) -> tuple[Word, ...]:
        """The next words; whoever takes them loads them."""
        words: list[Word] = []
        for _ in range(count):
            loaded: tuple[str, ...] = ()
            if not self._ready:
                loaded = self._ready = self._registers[: self._left]
                self._left -= len(loaded)
            words.append((loaded, self._ready[0]))
            self._ready = self._ready[1:]
        return tuple(words)

    def multiply(
        self, requant: Requantization, words: int, pixels: tuple[Pixel, ...], load: tuple[str, ...] = ()
    ) -> None:
        """Two taps of each pixel times the weights of four channels, `words` words. load: the instruction before, which
        brings the taps."""
        self._asm.piece(_step, load, self.take(words), (requant.packed, requant.offsets), pixels)


Unpacked = tuple[bool, int4_words.Offsets]
"""Of a step's weights: whether two channels lie over each other, and the offsets of int4 ones."""


def _step(
    asm: Asm, load: tuple[str, ...], words: tuple[Word, ...], unpacked: Unpacked, pixels: tuple[Pixel, ...]
) -> None:
    """`Weights.multiply`."""
    if load:
        asm.op(*load)
    asm.piece(_products, words, unpacked, pixels)


def _products(asm: Asm, words: tuple[Word, ...], unpacked: Unpacked, pixels: tuple[Pixel, ...]) -> None:
    """`Weights.multiply` of taps that are there."""
    (packed, offsets), w = unpacked, ""
    for channel in range(GROUP):
        at, again = divmod(channel * len(words), GROUP)
        if not again:
            loaded, w = words[at]
            if loaded:
                asm.load_multiple(STREAM, loaded)
        elif packed:
            asm.op("sxtb16", w, w)
        else:
            int4_words.unpack(asm, channel, w, offsets)
        for tap, to, sums in pixels:
            asm.op("smlad", to[channel], tap, w, sums[channel])


class GroupWriter:
    """Writes a function `(stream, x, y, n, first[, buffer])`; `asm` has the code.

    x: k_h row pointers; taps of the first pixel start `first` bytes into the rows. y: [n][out_c].
    """

    def __init__(self, layer: WeightedLayer) -> None:
        self.layer = layer
        self.frame = WeightedFrame(layer)
        self.asm = Asm(layer.core)
        self.asm.reads_constants(STREAM)
        self.group_bytes = 0

    def write(self) -> PixelWork:
        """All of it; what it executes."""
        raise NotImplementedError

    @property
    def parameters(self) -> tuple[str, ...]:
        return PARAMETERS if self.layer.in_scratch else PARAMETERS[:-1]

    def enter(self) -> None:
        """Saves registers and arguments."""
        layer, asm, frame = self.layer, self.asm, self.frame
        asm.note("registers and arguments to the stack")
        fpu = fpu_registers(_SCRATCH_FPU, frame.saved) if frame.saved else ""
        asm.save("{r4-r11, lr}", fpu, frame=frame.size)
        end = 4 * layer.group_words * layer.groups
        if layer.out_c % GROUP:
            end -= 4 * layer.requant.words(GROUP)  # a shorter last group is told before its constants
        if layer.requant.common:
            asm.piece(_common, frame.at("mult"), frame.at("add"))
        if layer.ended:
            asm.op("ldr", "r4", f"[{STREAM}], #8")
            asm.op("add", "r4", "r4", STREAM)
        else:
            asm.add("r4", STREAM, end, "r5")
        on_stack = tuple(frame.argument(index) for index in ((4, 5) if layer.in_scratch else (4,)))
        asm.piece(_arguments, frame.words, on_stack, layer.buffer_bytes)

    def leave(self) -> None:
        """Returns to the caller."""
        self.asm.note("return")
        self.asm.restore()

    def load_stream(self) -> None:
        self.asm.op("ldr", STREAM, self.frame.at("stream"))

    def groups(self, name: str, sums: Callable[[], None], paired: bool) -> None:
        """All output channels of one or two pixels; leaves y behind the (first) pixel in r14.

        sums: writes the accumulation of four channels.
        """
        layer, asm = self.layer, self.asm
        full, rest = divmod(layer.out_c, GROUP)
        again, shorter = f"{name}_group", f"{name}_rest"
        with asm.loop(again, layer.groups):
            first = asm.lines
            asm.note(f"products: {'two pixels' if paired else 'a pixel'} by four channels")
            sums()
            if rest and full:
                asm.op("ldr", "r9", self.frame.at("end"))
                asm.op("cmp", STREAM, "r9")
                asm.leave("beq.w", shorter)
            if full:
                self._finish(GROUP, paired, checked=rest == 0)
                if rest == 0 and layer.requant.clamp:
                    asm.op("cmp", STREAM, "r9")
                asm.branch("b.w" if rest else "bne.w", again)
                self.group_bytes = max(self.group_bytes, 4 * (asm.lines - first))
        if rest:
            asm.label(shorter)
            self._finish(rest, paired, checked=False)

    def sum_taps(self) -> None:
        """For int4 weights: the sums of the taps in the buffer to the frame. Uses r0-r12.

        Windows of a pair that overlap: a subroutine does it, whose lr waits in the frame."""
        layer, asm, frame = self.layer, self.asm, self.frame
        if not layer.requant.offsets:
            return
        asm.note("sums of the taps, which int4 weights ask for")
        asm.op("ldr", "r9", frame.at("buffer")) if layer.in_scratch else asm.op("mov", "r9", "sp")
        if layer.windows_overlap:
            asm.op("str", "lr", frame.at("first_sum"))
            int4_words.sum_of_windows(asm, layer.k_h, layer.row_taps, layer.pixel_bytes, layer.requant)
            asm.op("ldr", "lr", frame.at("first_sum"))
        else:
            int4_words.sum_of_taps(asm, layer.steps, 1 if layer.alone else 2, layer.requant)
        asm.op("str", "r11", frame.at("first_sum"))
        if not layer.alone:
            asm.op("str", "r12", frame.at("second_sum"))

    def split(self, first: str | None, second: str | None) -> None:
        """For int4 weights: what the accumulators stand for after the sums. first, second: names of the frame's sums
        for both pixels' registers, None for none. Uses r12, r14."""
        asm, requant = self.asm, self.layer.requant
        if not requant.offsets:
            return
        both = self.frame.both("first_sum") if first and second else None
        if both:
            asm.op("ldrd", "r12", "r14", both)
        for name, register in ((first, "r12"), (second, "r14")):
            if name and not both:
                asm.op("ldr", register, self.frame.at(name))
        for name, register, acc in ((first, "r12", FIRST), (second, "r14", SECOND)):
            if name:
                int4_words.split(asm, acc, register, requant)

    def _finish(self, channels: int, paired: bool, checked: bool) -> None:
        """Scales and stores the first `channels` accumulators; next y to r14, and of four to the frame. checked: the
        stream's end to r9, and whether it is reached to the flags, unless a clamp sets them."""
        layer, frame = self.layer, self.frame
        common = frame.common() if layer.requant.common else ()
        both = frame.both("y") if checked else None
        places = ("r14,r9", both) if both else ("r14", frame.at("y"), *(("r9", frame.at("end")) if checked else ()))
        self.asm.piece(_outputs, layer.requant, channels, layer.out_c if paired else 0, common, places)


def _common(asm: Asm, mult: str, add: str) -> None:
    """What scales all channels, to its places in the frame."""
    asm.op("ldrd", "r4", "r5", f"[{STREAM}], #8")
    asm.op("str", "r4", mult)
    asm.op("str", "r5", add)


def _arguments(asm: Asm, words: tuple[tuple[str, str], ...], on_stack: tuple[str, ...], buffer_bytes: int) -> None:
    """Arguments to the frame, and the end of the stream, which is in r4. words: of the frame. on_stack: where the
    caller has the further arguments."""
    at = dict(words)
    asm.op("str", STREAM, at["stream"])
    asm.op("str", "r2", at["y"])
    asm.op("str", "r4", at["end"])
    if "n" in at:
        asm.op("sub", "r3", "r3", "#2")
        asm.op("str", "r3", at["n"])
    asm.op("ldr", "r4", on_stack[0])
    if "x" in at:
        asm.op("ldr", "r1", "[r1]")
        asm.op("add", "r1", "r1", "r4")
        asm.op("str", "r1", at["x"])
    else:
        asm.op("str", "r1", at["rows"])
        asm.op("str", "r4", at["first"])
    if "buffer" in at:
        asm.op("ldr", "r4", on_stack[1])
        asm.op("str", "r4", at["buffer"])
        asm.add("r4", "r4", buffer_bytes, "r5")
        asm.op("str", "r4", at["buffer_end"])


def _outputs(
    asm: Asm,
    requant: Requantization,
    channels: int,
    out_c: int,
    common: tuple[str, ...],
    places: tuple[str, ...],
) -> None:
    """`GroupWriter._finish`. out_c: outputs from the first pixel's to the second's; 0: there is one pixel. places:
    registers, and where the next output (and the stream's end) are that go there."""
    # After the first channel, r9 has the end of the stream, r5 is free; after the second, r1 too. Flags are set before
    # the last output, the first pixel's first store comes late, and the frame's early: no store stands behind another.
    # Where instructions are ordered later, a store to the frame holds up those of outputs: it is the last.
    early = isinstance(asm.core, ThreeStage)
    registers = ("r9", "r10", "r11", "r12")[requant.constants == 3 :]
    in_turn = requant.constants_in_turn(asm, STREAM, registers, channels, later=FIRST[0], common=common)
    first_y = f"[r14], #{channels}"  # the first store of the first pixel moves y on
    for position in range(channels):
        asm.note(f"channel {position} of four: requantize and store")
        constants, temp = next(in_turn), SECOND[0] if position else "r14"
        if early and position == 2 and channels == GROUP:
            asm.op("str", "r14", places[1])
        for acc in (FIRST, SECOND) if out_c else (FIRST,):
            last_use = acc is SECOND or not out_c
            if last_use and position == GROUP - 1 and places[-2].endswith("r9") and not requant.clamp:
                asm.op("cmp", STREAM, "r9")
            below = acc[position + 1] if position + 1 < GROUP else ""
            free = constants[1] if last_use and not requant.common else temp
            requant.emit(asm, position, acc[position], below, constants, free)
            if position == 1 and acc is FIRST and out_c:
                asm.op("strb", FIRST[0], first_y)
        if position == 0:
            for loaded, place in zip(places[::2], places[1::2], strict=True):
                asm.op("ldrd" if "," in loaded else "ldr", *loaded.split(","), place)
        asm.piece(_stores, position, channels, out_c, first_y)
    if channels == GROUP and not early:
        asm.op("str", "r14", places[1])


def _stores(asm: Asm, position: int, channels: int, out_c: int, first_y: str) -> None:
    """One channel's outputs. first_y: the place of the first pixel's first one, which moves r14."""
    if out_c:
        asm.op("strb", SECOND[position], f"[r14, #{out_c + position - (channels if position else 0)}]")
    if position:
        asm.op("strb", FIRST[position], f"[r14, #{position - channels}]")
    elif not out_c or channels == 1:
        asm.op("strb", FIRST[0], first_y)
