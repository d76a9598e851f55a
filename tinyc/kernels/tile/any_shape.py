# SPDX-License-Identifier: Apache-2.0
"""The assembly of 1x1 weights for any number of channels and pixels: one function for many layers.

Two pixels by four output channels, as `two_pixels.py`, but what that has as immediates is in registers: the stream
begins with the numbers of input and output channels. Taps lie at the bottom of the stack, eight or sixteen steps a
turn. Where input channels are no multiple of four, the first four taps and those behind them overlap, and a tap's
second place has weight 0. A last odd pixel is gathered as a pair with itself, and multiplied as one, too, where no code
is there for one, or channels are no multiple of four: both write the same outputs.

The turns are a loop, which walks down to the stack pointer, so no register holds its end (`AnyShapeWriter`). Its loads
are single ones to low registers, so they are short, and of four in a row three take one cycle each. Or the turns stand
one after the other, and the code is entered where as many are left as there are (`StraightWriter`): addresses are
immediates, three weights are loaded at once, and registers of the FPU hold the taps of the last steps.

r0 stream; the others: `TileRegisters`. What a call keeps in registers of the FPU: `_SPILLED`.
"""

from __future__ import annotations

from tinyc.base.dataclass import dataclass
from tinyc.kernels.finish import Requantization
from tinyc.kernels.matrix import GROUP
from tinyc.kernels.stream import PACKED
from tinyc.kernels.tile.groups import FIRST, PARAMETERS, SECOND, STREAM, PixelWork, Weights
from tinyc.kernels.tile.layer import ANY_TAPS, WeightedLayer
from tinyc.machine.frame import Frame
from tinyc.machine.thumb import Asm, Work, fpu_registers

MOST_TAPS = ANY_TAPS[-1]
_STEP_BYTES = 8
_LONE_TURN = 8  # steps of a turn of a last odd pixel
_WORDS = ("stream", "x", "n", "in_c", "out_c")
# Where the last group with fewer channels begins; the taps of the first turn; outputs of the first pixel and of the
# second; the end of the last group, if it is full; the channels of one that is not.
_SPILLED = ("shorter", "turn", "first_y", "second_y", "end", "rest")
_FPU_REGISTERS, _SCRATCH_FPU = 32, 16  # all, and those that no function need save


@dataclass(frozen=True, slots=True)
class TileRegisters:
    """first, second: sums of the first pixel and of the second. loads: weights and taps, then constants. place: the
    taps' place, then the first pixel's outputs. All in ascending order."""

    first: tuple[str, ...]
    second: tuple[str, ...]
    loads: tuple[str, str, str, str]
    place: str


class AnyShapeWriter:
    """Writes one function for n >= 1 pixels, whose steps are a loop; `asm` has the code."""

    registers = TileRegisters(("r1", "r2", "r8", "r9"), ("r10", "r11", "r12", "r14"), ("r3", "r4", "r5", "r6"), "r7")
    words: tuple[str, ...] = _WORDS
    saved_fpu = ""
    first_spill = 0  # the register of the FPU with the first of `_SPILLED`

    def __init__(self, layer: WeightedLayer) -> None:
        self.layer = layer
        self.frame = Frame(self.words, below=_STEP_BYTES * layer.any_taps // 2)
        self.asm = Asm(layer.core)
        self.asm.reads_constants(STREAM)
        self.parameters = PARAMETERS[:-1]

    def write(self) -> PixelWork:
        """All of it; what it executes."""
        asm, rest, free = self.asm, self.layer.out_c % GROUP, self.registers.loads[-1]
        makes_one = self.layer.tile.takes_one
        self._enter()
        asm.label("pair")
        with asm.per("pair", "last"):
            self._gather()
        if makes_one:
            self._one_pixel()
        with asm.per("pair"):
            asm.op("ldr", STREAM, self.frame.at("stream"))
            with asm.loop("group", self.layer.groups):
                first = asm.lines
                self._sums()
                asm.op("vmov", free, self._spill("shorter"))
                asm.op("cmp", free, STREAM)
                asm.leave("blo.w", "rest") if rest else asm.branch("blo.w", "rest")
                self._finish(GROUP)
                self._next_group("group", ("first_y", self.registers.place), ("second_y", self._second_y))
                group_bytes = 4 * (asm.lines - first) - self._skipped_bytes
            asm.branch("b.w", "next")
            asm.label("rest")
            self._finish(GROUP - 1)
            asm.label("next")
            asm.note("the next pair of pixels")
            asm.op("vmov", self._spill("first_y"), self._second_y)
            asm.op("ldr", free, self.frame.at("n"))
            asm.op("subs", free, free, "#2")
            asm.op("str", free, self.frame.at("n"))
            asm.branch("bgt.w", "pair")
        asm.label("done")
        asm.note("return")
        asm.restore()
        pair = asm.work("pair") - self.layer.groups * self._skipped()
        last = asm.work("last") if makes_one and not rest else pair
        return PixelWork(asm.work(), pair, last, group_bytes)

    def _one_pixel(self) -> None:
        """All channels of a last odd pixel, if they are a multiple of four. r5: pixels that are left."""
        asm, free, turn = self.asm, self.registers.loads[-1], self.layer.tile.turn
        with asm.per("pair", "last"):
            asm.op("cmp", "r5", "#1")
            asm.branch("bne.w", "two")
        with asm.per("last"):
            asm.op("vmov", free, self._spill("end"))
            asm.op("cmp", free, "#0")
            asm.branch("beq.w", "two")
            asm.op("ldr", STREAM, self.frame.at("stream"))
            with asm.loop("lone_group", self.layer.groups):
                asm.note("products: a pixel by four channels")
                asm.load_multiple(STREAM, self.registers.first)
                asm.op("vmov", self.registers.place, self._spill("turn"))
                asm.add(self.registers.place, self.registers.place, _STEP_BYTES * (turn - _LONE_TURN))
                with asm.loop("lone_steps", self.layer.steps // _LONE_TURN):
                    for step in range(0, _LONE_TURN, 2):
                        places = _STEP_BYTES * step, _STEP_BYTES * (_LONE_TURN - 1 - step)
                        asm.piece(_two_steps, self.registers, *places)
                    self._next_turn("lone_steps", _LONE_TURN)
                self._finish(GROUP, pixels=1)
                self._next_group("lone_group", ("first_y", self.registers.place))
            asm.branch("b.w", "done")
        asm.label("two")

    def _next_group(self, again: str, *outputs: tuple[str, str]) -> None:
        """To the next four channels, if there are some. outputs: where registers of outputs wait."""
        asm, free = self.asm, self.registers.loads[-1]
        asm.op("vmov", free, self._spill("end"))
        asm.op("cmp", STREAM, free)
        for name, register in outputs:
            asm.op("vmov", self._spill(name), register)
        asm.branch("bne.w", again)

    def _spill(self, name: str) -> str:
        return f"s{self.first_spill + _SPILLED.index(name)}"

    @property
    def _second_y(self) -> str:
        """The register of the second pixel's outputs, once the first channel's constants are used."""
        return self.registers.loads[0]

    @property
    def _skipped_bytes(self) -> int:
        """Of a turn of the loop over channels, that this layer does not run."""
        return 0

    def _skipped(self) -> Work:
        """What a turn of the loop over channels would execute there."""
        return Work()

    def _enter(self) -> None:
        asm, requant = self.asm, self.layer.requant
        asm.note("registers and arguments to the stack, and to registers of the FPU")
        asm.save("{r4-r11, lr}", self.saved_fpu, frame=self.frame.size)
        asm.op("ldrd", "r4", "r5", f"[{STREAM}], #8")
        asm.op("ldr", "r1", "[r1]")
        for register, name in zip((STREAM, "r1", "r3", "r4", "r5"), _WORDS, strict=True):
            asm.op("str", register, self.frame.at(name))
        asm.op("add", "r6", "r4", f"#{2 * self.layer.tile.turn - 1}")
        asm.op("lsr", "r6", "r6", f"#{(2 * self.layer.tile.turn).bit_length() - 1}")
        asm.op("lsl", "r6", "r6", f"#{(self.layer.tile.turn * _STEP_BYTES).bit_length() - 1}")
        self._begin_of_steps()
        asm.op("add", "r6", "r6", f"#{4 * (GROUP + requant.words(GROUP))}")
        asm.op("lsr", "r7", "r5", "#2")
        asm.op("mla", "r7", "r7", "r6", STREAM)
        asm.op("vmov", self._spill("shorter"), "r7")
        asm.op("and", "r5", "r5", f"#{GROUP - 1}")
        asm.op("vmov", self._spill("rest"), "r5")
        asm.op("cmp", "r5", "#0")
        asm.op("it", "ne")
        asm.op("movne", "r7", "#0")
        asm.op("vmov", self._spill("end"), "r7")
        asm.op("vmov", self._spill("first_y"), "r2")

    def _begin_of_steps(self) -> None:
        """Keeps where the steps begin. r6: bytes of the taps."""
        self.asm.op("add", "r7", "sp", "r6")
        self.asm.op("sub", "r7", "r7", f"#{_STEP_BYTES * self.layer.tile.turn}")
        self.asm.op("vmov", self._spill("turn"), "r7")

    def _gather(self) -> None:
        """The taps of two pixels to the stack, r9 r10 pixels, r11 taps; of one pixel twice."""
        asm, frame = self.asm, self.frame
        asm.note("loads: taps of two pixels to the stack, as int16")
        for register, name in (("r9", "x"), ("r8", "in_c"), ("r5", "n"), ("r6", "out_c")):
            asm.op("ldr", register, frame.at(name))
        asm.op("add", "r10", "r9", "r8")
        asm.op("cmp", "r5", "#1")
        asm.op("itt", "eq")
        asm.op("moveq", "r10", "r9")
        asm.op("moveq", "r6", "#0")
        asm.op("vmov", "r7", self._spill("first_y"))
        asm.op("add", "r6", "r6", "r7")
        asm.op("vmov", self._spill("second_y"), "r6")
        asm.op("mov", "r11", "sp")
        self._four()
        asm.op("add", "r12", "r8", "#3")
        asm.op("lsr", "r12", "r12", "#2")
        asm.op("rsb", "r7", "r8", "#0")
        asm.op("and", "r7", "r7", "#3")
        asm.op("sub", "r9", "r9", "r7")
        asm.op("sub", "r10", "r10", "r7")
        asm.op("sub", "r12", "r12", "#1")
        with asm.loop("fours", -(-self.layer.row_taps // 4) - 1):
            self._four()
            asm.count_down("r12", "", "fours", "bne")
        asm.op("str", "r10", frame.at("x"))
        self._hold()

    def _hold(self) -> None:
        """Taps to registers of the FPU."""

    def _four(self) -> None:
        asm = self.asm
        asm.op("ldr", "r3", "[r9], #4")
        asm.op("ldr", "r4", "[r10], #4")
        asm.op("sxtb16", "r1", "r3")
        asm.op("sxtb16", "r2", "r4")
        asm.op("sxtb16", "r3", "r3", "ror #8")
        asm.op("sxtb16", "r4", "r4", "ror #8")
        asm.op("stm", "r11!", "{r1-r4}")

    def _sums(self) -> None:
        """Eight accumulators over all steps."""
        asm = self.asm
        asm.note("products: two pixels by four channels")
        asm.load_multiple(STREAM, self.registers.first)
        for first, second in zip(self.registers.first, self.registers.second, strict=True):
            asm.op("mov", second, first)
        self._steps()

    def _steps(self) -> None:
        asm, place = self.asm, self.registers.place
        turn = self.layer.tile.turn
        asm.op("vmov", place, self._spill("turn"))
        with asm.loop("steps", self.layer.steps // turn):
            for step in range(turn):
                asm.piece(_step, self.registers, _STEP_BYTES * step, _STEP_BYTES * (turn - 1 - step))
            self._next_turn("steps", turn)

    def _next_turn(self, again: str, steps: int) -> None:
        """To the next turn of so many steps, if there is one."""
        asm, place, turn_bytes = self.asm, self.registers.place, f"#{_STEP_BYTES * steps}"
        asm.op("adds", STREAM, STREAM, turn_bytes)
        asm.op("cmp", "sp", place)
        asm.op("sub.w", place, place, turn_bytes)
        asm.branch("bne.w", again)

    def _finish(self, channels: int, pixels: int = 2) -> None:
        """Scales and stores the accumulators, with fewer than four as many as there are; registers of outputs: behind
        those stored. No store stands right behind another."""
        asm, requant = self.asm, self.layer.requant
        first, second = self.registers.first, self.registers.second
        accs = (first, second)[:pixels]
        places = (self.registers.place, self._second_y)[:pixels]
        loads = self.registers.loads[requant.constants == 3 :]
        for position, constants in enumerate(requant.constants_in_turn(asm, STREAM, loads, channels, later=first[0])):
            asm.note(f"channel {position} of four: requantize and store")
            temp = second[0] if position or pixels == 1 else self.registers.place
            for acc, y in zip(accs, places, strict=True):
                below = acc[position + 1] if position + 1 < GROUP else ""
                free = constants[1] if acc is second and requant.base is None else temp
                requant.emit(asm, position, acc[position], below, constants, free)
                if position:
                    asm.op("strb", acc[position], f"[{y}], #1")
            if position == 0:
                for acc, y, name in zip(accs, places, ("first_y", "second_y")[:pixels], strict=True):
                    asm.op("vmov", y, self._spill(name))
                    asm.op("strb", acc[0], f"[{y}], #1")
            if channels < GROUP and position + 1 < channels:
                asm.op("vmov", second[0], self._spill("rest"))
                asm.op("cmp", second[0], f"#{position + 1}")
                asm.branch("beq.w", "next")


def _step(asm: Asm, registers: TileRegisters, weights_at: int, taps_at: int) -> None:
    """Two taps of both pixels times the weights of four channels. weights_at, taps_at: bytes behind their places."""
    taps, weights = registers.loads[:2], registers.loads[2:]
    for loaded, base, offset in ((taps, registers.place, taps_at), (weights, STREAM, weights_at)):
        for register, at in zip(loaded, (offset, offset + 4), strict=True):
            asm.op("ldr", register, f"[{base}, #{at}]" if at else f"[{base}]")
    for channel in range(GROUP):
        w = weights[channel // 2]
        if channel % 2:
            asm.op("sxtb16", w, w)
        for accs, tap in zip((registers.first, registers.second), taps, strict=True):
            asm.op("smlad", accs[channel], tap, w, accs[channel])


def _two_steps(asm: Asm, registers: TileRegisters, weights_at: int, taps_at: int) -> None:
    """Four taps of a pixel times the weights of four channels. weights_at, taps_at: bytes behind their places; the
    second step's taps are before the first's."""
    taps, weights = registers.second[:2], registers.loads
    for tap, at in zip(taps, (taps_at, taps_at - _STEP_BYTES), strict=True):
        asm.op("ldr", tap, f"[{registers.place}, #{at}]" if at else f"[{registers.place}]")
    for i, register in enumerate(weights):
        asm.op("ldr", register, f"[{STREAM}, #{weights_at + 4 * i}]" if weights_at + i else f"[{STREAM}]")
    for step, tap in enumerate(taps):
        for channel, acc in enumerate(registers.first):
            w = weights[2 * step + channel // 2]
            if channel % 2:
                asm.op("sxtb16", w, w)
            asm.op("smlad", acc, tap, w, acc)


class StraightWriter(AnyShapeWriter):
    """The same with the steps of the most taps one after the other, for as many taps as fit before them."""

    registers = TileRegisters(FIRST, SECOND, ("r9", "r10", "r11", "r12"), "r14")
    words = (*_WORDS, "entry")
    saved_fpu = fpu_registers(_SCRATCH_FPU, _FPU_REGISTERS - _SCRATCH_FPU)
    first_spill = _FPU_REGISTERS - len(_SPILLED)

    def _begin_of_steps(self) -> None:
        asm = self.asm
        asm.constant("r7", self._turn_bytes)
        asm.op("lsr", "r8", "r6", f"#{(self.layer.tile.turn * _STEP_BYTES).bit_length() - 1}")
        asm.op("rsb", "r8", "r8", f"#{self._turns}")
        asm.address("r9", "steps", comes_back=False)
        asm.op("mla", "r7", "r7", "r8", "r9")
        asm.op("str", "r7", self.frame.at("entry"))

    def _hold(self) -> None:
        self.asm.op("vldmia", "sp", fpu_registers(0, self.first_spill))

    def _steps(self) -> None:
        asm = self.asm
        asm.go_on("steps", "ldr", "pc", self.frame.at("entry"))
        asm.label("steps", aligned=True)
        for turn in reversed(range(self._turns)):
            asm.piece(_turn, self._steps_of(turn), self.first_spill // 2, self.layer.requant)

    def _steps_of(self, turn: int) -> range:
        size = self.layer.tile.turn
        return range(turn * size, (turn + 1) * size)

    @property
    def _turns(self) -> int:
        """Of the most taps."""
        return self.layer.any_taps // 2 // self.layer.tile.turn

    @property
    def _turn_bytes(self) -> int:
        """Of the code of each turn: all of its instructions have 32 bits."""
        return 4 * self._alone(self._turns - 1).lines

    @property
    def _skipped_bytes(self) -> int:
        return self._turn_bytes * (self._turns - self.layer.steps // self.layer.tile.turn)

    def _skipped(self) -> Work:
        turns = range(self.layer.steps // self.layer.tile.turn, self._turns)
        return sum((self._alone(turn).work() for turn in turns), Work())

    def _alone(self, turn: int) -> Asm:
        asm = Asm(self.layer.core)
        asm.piece(_turn, self._steps_of(turn), self.first_spill // 2, self.layer.requant)
        return asm


def _turn(asm: Asm, steps: range, held: int, requant: Requantization) -> None:
    """Some steps, the last one first; the taps of the first `held` of all steps are in registers of the FPU."""
    weights = Weights(asm, ("r9", "r10", "r11"), len(steps) * PACKED.words_per_step)
    for step in reversed(steps):
        load: tuple[str, ...] = ("ldrd", "r12", "r14", f"[sp, #{_STEP_BYTES * step}]" if step else "[sp]")
        if step < held:
            load = ("vmov", "r12", "r14", f"s{2 * step}", f"s{2 * step + 1}")
        weights.multiply(requant, PACKED.words_per_step, (("r12", FIRST, FIRST), ("r14", SECOND, SECOND)), load)
