# SPDX-License-Identifier: Apache-2.0
"""The assembly of 1x1 weights for any number of channels and pixels: one function for many layers.

Two pixels by four output channels, as `two_pixels.py`, but what that has as immediates is in registers: the stream
begins with the numbers of input and output channels. Taps lie at the bottom of the stack, eight steps a turn. Where
input channels are no multiple of four, the first four taps and those behind them overlap, and a tap's second place has
weight 0. A last odd pixel is a pair with itself: both write the same outputs.

The turns are a loop, which walks down to the stack pointer, so no register holds its end (`AnyShapeWriter`). Or they
stand one after the other, and the code is entered where as many are left as there are (`StraightWriter`): addresses
are immediates, three weights are loaded at once, and registers of the FPU hold the taps of the last steps.

r0 stream, r1-r4 and r5-r8 accumulators, r9 r10 (r11) weights, r11 r12 (r12 r14) taps, r14 taps' place, then outputs.
What a call keeps in registers of the FPU: `_SPILLED`.
"""

from __future__ import annotations

from tinyc.base.dataclass import dataclass
from tinyc.kernels.finish import Requantization
from tinyc.kernels.matrix import GROUP
from tinyc.kernels.stream import PACKED
from tinyc.kernels.tile.groups import FIRST, PARAMETERS, SECOND, STREAM, PixelWork, Weights
from tinyc.kernels.tile.layer import ANY_TAPS, ANY_TURN, WeightedLayer
from tinyc.machine.frame import Frame
from tinyc.machine.thumb import Asm, Work, fpu_registers

MOST_TAPS = ANY_TAPS[-1]
_STEP_BYTES = 8
_WORDS = ("stream", "x", "n", "in_c", "out_c")
# Where the last group with fewer channels begins; where the taps end; outputs; from the first pixel's outputs to the
# second's; the end of the last group, if it is full; the channels of one that is not.
_SPILLED = ("shorter", "taps_end", "y", "second", "end", "rest")
_FPU_REGISTERS, _SCRATCH_FPU = 32, 16  # all, and those that no function need save


@dataclass(frozen=True, slots=True)
class AnyShapeWork(PixelWork):
    """A last odd pixel takes as long as a pair."""

    def of(self, pixels: int) -> Work:
        return self.call + -(-pixels // 2) * self.pair


class AnyShapeWriter:
    """Writes one function for n >= 1 pixels, whose steps are a loop; `asm` has the code."""

    words: tuple[str, ...] = _WORDS
    saved_fpu = ""
    first_spill = 0  # the register of the FPU with the first of `_SPILLED`

    def __init__(self, layer: WeightedLayer) -> None:
        self.layer = layer
        self.frame = Frame(self.words, below=_STEP_BYTES * layer.any_taps // 2)
        self.asm = Asm(layer.core)
        self.asm.reads_constants(STREAM)
        self.parameters = PARAMETERS[:-1]

    def write(self) -> AnyShapeWork:
        """All of it; what it executes."""
        asm, rest = self.asm, self.layer.out_c % GROUP
        self._enter()
        with asm.loop("pair", "pair", aligned=False):
            self._gather()
            asm.op("ldr", STREAM, self.frame.at("stream"))
            with asm.loop("group", self.layer.groups):
                first = asm.lines
                self._sums()
                asm.op("vmov", "r9", self._spill("shorter"))
                asm.op("cmp", "r9", STREAM)
                asm.leave("blo.w", "rest") if rest else asm.branch("blo.w", "rest")
                self._finish(GROUP)
                asm.op("vmov", self._spill("y"), "r14")
                asm.op("vmov", "r9", self._spill("end"))
                asm.op("cmp", STREAM, "r9")
                asm.branch("bne.w", "group")
                group_bytes = 4 * (asm.lines - first) - self._skipped_bytes
            asm.branch("b.w", "next")
            asm.label("rest")
            self._finish(GROUP - 1)
            asm.label("next")
            asm.note("the next pair of pixels")
            asm.op("vmov", "r9", self._spill("second"))
            asm.op("add", "r14", "r14", "r9")
            asm.op("vmov", self._spill("y"), "r14")
            asm.op("ldr", "r9", self.frame.at("n"))
            asm.op("subs", "r9", "r9", "#2")
            asm.op("str", "r9", self.frame.at("n"))
            asm.branch("bgt.w", "pair")
        asm.note("return")
        asm.restore()
        return AnyShapeWork(asm.work(), asm.work("pair") - self.layer.groups * self._skipped(), Work(), group_bytes)

    def _spill(self, name: str) -> str:
        return f"s{self.first_spill + _SPILLED.index(name)}"

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
        asm.op("add", "r6", "r4", f"#{2 * ANY_TURN - 1}")
        asm.op("lsr", "r6", "r6", f"#{(2 * ANY_TURN).bit_length() - 1}")
        asm.op("lsl", "r6", "r6", f"#{(ANY_TURN * _STEP_BYTES).bit_length() - 1}")
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
        asm.op("vmov", self._spill("y"), "r2")

    def _begin_of_steps(self) -> None:
        """Keeps where the steps begin. r6: bytes of the taps."""
        self.asm.op("mov", "r7", "sp")
        self.asm.op("add", "r7", "r7", "r6")
        self.asm.op("vmov", self._spill("taps_end"), "r7")

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
        asm.op("vmov", self._spill("second"), "r6")
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
        asm.load_multiple(STREAM, FIRST)
        for first, second in zip(FIRST, SECOND, strict=True):
            asm.op("mov", second, first)
        self._steps()

    def _steps(self) -> None:
        asm = self.asm
        asm.op("vmov", "r14", self._spill("taps_end"))
        with asm.loop("steps", self.layer.steps // ANY_TURN):
            for _ in range(ANY_TURN):
                asm.piece(_step)
            asm.op("cmp", "sp", "r14")
            asm.branch("bne.w", "steps")

    def _finish(self, channels: int) -> None:
        """Scales and stores the accumulators, with fewer than four as many as there are; r14: behind the first's."""
        asm, requant = self.asm, self.layer.requant
        registers = ("r9", "r10", "r11", "r12")[requant.constants == 3 :]
        in_turn = requant.constants_in_turn(asm, STREAM, registers, channels, later=FIRST[0])
        for position, constants in enumerate(in_turn):
            asm.note(f"channel {position} of four: requantize and store")
            temp = SECOND[0] if position else "r14"
            for acc in (FIRST, SECOND):
                below = acc[position + 1] if position + 1 < GROUP else ""
                free = constants[1] if acc is SECOND and requant.base is None else temp
                requant.emit(asm, position, acc[position], below, constants, free)
            if position == 0:
                asm.op("vmov", "r14", self._spill("y"))
                asm.op("vmov", "r9", self._spill("second"))
            asm.op("strb", SECOND[position], "[r14, r9]")
            asm.op("strb", FIRST[position], "[r14], #1")
            if channels < GROUP and position + 1 < channels:
                asm.op("vmov", "r5", self._spill("rest"))
                asm.op("cmp", "r5", f"#{position + 1}")
                asm.branch("beq.w", "next")


def _step(asm: Asm) -> None:
    """Two taps of both pixels times the weights of four channels."""
    asm.op("ldrd", "r11", "r12", f"[r14, #-{_STEP_BYTES}]!")
    asm.op("ldrd", "r9", "r10", f"[{STREAM}], #8")
    for channel in range(GROUP):
        weights = ("r9", "r10")[channel // 2]
        if channel % 2:
            asm.op("sxtb16", weights, weights)
        for acc, tap in ((FIRST, "r11"), (SECOND, "r12")):
            asm.op("smlad", acc[channel], tap, weights, acc[channel])


class StraightWriter(AnyShapeWriter):
    """The same with the steps of the most taps one after the other, for as many taps as fit before them."""

    words = (*_WORDS, "entry")
    saved_fpu = fpu_registers(_SCRATCH_FPU, _FPU_REGISTERS - _SCRATCH_FPU)
    first_spill = _FPU_REGISTERS - len(_SPILLED)

    def _begin_of_steps(self) -> None:
        asm = self.asm
        asm.constant("r7", self._turn_bytes)
        asm.op("lsr", "r8", "r6", f"#{(ANY_TURN * _STEP_BYTES).bit_length() - 1}")
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
            asm.piece(_turn, turn, self.first_spill // 2, self.layer.requant)

    @property
    def _turns(self) -> int:
        """Of the most taps."""
        return self.layer.any_taps // 2 // ANY_TURN

    @property
    def _turn_bytes(self) -> int:
        """Of the code of each turn: all of its instructions have 32 bits."""
        return 4 * self._alone(self._turns - 1).lines

    @property
    def _skipped_bytes(self) -> int:
        return self._turn_bytes * (self._turns - self.layer.steps // ANY_TURN)

    def _skipped(self) -> Work:
        turns = range(self.layer.steps // ANY_TURN, self._turns)
        return sum((self._alone(turn).work() for turn in turns), Work())

    def _alone(self, turn: int) -> Asm:
        asm = Asm(self.layer.core)
        asm.piece(_turn, turn, self.first_spill // 2, self.layer.requant)
        return asm


def _turn(asm: Asm, turn: int, held: int, requant: Requantization) -> None:
    """Eight steps, the last one first; the taps of the first `held` of all steps are in registers of the FPU."""
    weights = Weights(asm, ("r9", "r10", "r11"), ANY_TURN * PACKED.words_per_step)
    for step in reversed(range(turn * ANY_TURN, (turn + 1) * ANY_TURN)):
        load: tuple[str, ...] = ("ldrd", "r12", "r14", f"[sp, #{_STEP_BYTES * step}]" if step else "[sp]")
        if step < held:
            load = ("vmov", "r12", "r14", f"s{2 * step}", f"s{2 * step + 1}")
        weights.multiply(requant, PACKED.words_per_step, (("r12", FIRST, FIRST), ("r14", SECOND, SECOND)), load)
