# SPDX-License-Identifier: Apache-2.0
"""The assembly of 1x1 weights for any number of channels and pixels: one function for many layers.

Two pixels by four output channels, as `two_pixels.py`, but what that has as immediates is in registers: the stream
begins with the numbers of input and output channels. Taps lie at the bottom of the stack, eight or sixteen steps a
turn. Where input channels are no multiple of four, the first four taps and those behind them overlap, and a tap's
second place has weight 0. A last odd pixel is gathered as a pair with itself, and multiplied as one, too, where no code
is there for one, or channels are no multiple of four: both write the same outputs.

The turns are a loop, which walks down to the stack pointer, so no register holds its end. Its loads are single ones to
low registers, so they are short, and of four in a row three take one cycle each.

r0 stream. What a call keeps in registers of the FPU: `_SPILLED`.
"""

from __future__ import annotations

from tinyc.kernels.finish import Requantization
from tinyc.kernels.matrix import GROUP
from tinyc.kernels.tile.groups import PARAMETERS, STREAM, PixelWork
from tinyc.kernels.tile.layer import ANY_TAPS, WeightedLayer
from tinyc.machine.frame import Frame
from tinyc.machine.thumb import Asm

MOST_TAPS = ANY_TAPS[-1]
_STEP_BYTES = 8
_LONE_TURN = 8  # steps of a turn of a last odd pixel
_WORDS = ("stream", "x", "n", "in_c", "out_c")
# Where the last group with fewer channels begins; the taps of the first turn; outputs of the first pixel and of the
# second; the end of the last group, if it is full; the channels of one that is not.
_SPILLED = ("shorter", "turn", "first_y", "second_y", "end", "rest")
_FIRST = ("r1", "r2", "r8", "r9")  # sums of the first pixel by channel
_SECOND = ("r10", "r11", "r12", "r14")  # of the second
_TAPS, _WEIGHTS = ("r3", "r4"), ("r5", "r6")  # of a step; then constants
_LOADS = (*_TAPS, *_WEIGHTS)
_PLACE = "r7"  # of the taps, then the first pixel's outputs
_SECOND_Y = _TAPS[0]  # the second pixel's outputs, once the first channel's constants are used
_FREE = _WEIGHTS[1]  # behind the outputs


class AnyShapeWriter:
    """Writes one function for n >= 1 pixels, whose steps are a loop; `asm` has the code."""

    def __init__(self, layer: WeightedLayer) -> None:
        self.layer = layer
        self.frame = Frame(_WORDS, below=_STEP_BYTES * layer.any_taps // 2)
        self.asm = Asm(layer.core)
        self.asm.reads_constants(STREAM)
        self.parameters = PARAMETERS[:-1]

    def write(self) -> PixelWork:
        """All of it; what it executes."""
        asm, rest = self.asm, self.layer.out_c % GROUP
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
                asm.op("vmov", _FREE, _spill("shorter"))
                asm.op("cmp", _FREE, STREAM)
                asm.leave("blo.w", "rest") if rest else asm.branch("blo.w", "rest")
                self._finish(GROUP)
                self._next_group("group", ("first_y", _PLACE), ("second_y", _SECOND_Y))
                group_bytes = 4 * (asm.lines - first)
            asm.branch("b.w", "next")
            asm.label("rest")
            self._finish(GROUP - 1)
            asm.label("next")
            asm.note("the next pair of pixels")
            asm.piece(_count_pixels, self.frame.at("n"))
            asm.branch("bgt.w", "pair")
        asm.label("done")
        asm.note("return")
        asm.restore()
        pair = asm.work("pair")
        last = asm.work("last") if makes_one and not rest else pair
        return PixelWork(asm.work(), pair, last, group_bytes)

    def _one_pixel(self) -> None:
        """All channels of a last odd pixel, if they are a multiple of four. r5: pixels that are left."""
        asm, turn = self.asm, self.layer.tile.turn
        with asm.per("pair", "last"):
            asm.op("cmp", "r5", "#1")
            asm.branch("bne.w", "two")
        with asm.per("last"):
            asm.op("vmov", _FREE, _spill("end"))
            asm.op("cmp", _FREE, "#0")
            asm.branch("beq.w", "two")
            asm.op("ldr", STREAM, self.frame.at("stream"))
            with asm.loop("lone_group", self.layer.groups):
                asm.note("products: a pixel by four channels")
                asm.load_multiple(STREAM, _FIRST)
                asm.op("vmov", _PLACE, _spill("turn"))
                asm.add(_PLACE, _PLACE, _STEP_BYTES * (turn - _LONE_TURN))
                with asm.loop("lone_steps", self.layer.steps // _LONE_TURN):
                    for step in range(0, _LONE_TURN, 2):
                        places = _STEP_BYTES * step, _STEP_BYTES * (_LONE_TURN - 1 - step)
                        asm.piece(_two_steps, *places)
                    self._next_turn("lone_steps", _LONE_TURN)
                self._finish(GROUP, pixels=1)
                self._next_group("lone_group", ("first_y", _PLACE))
            asm.branch("b.w", "done")
        asm.label("two")

    def _next_group(self, again: str, *outputs: tuple[str, str]) -> None:
        """To the next four channels, if there are some. outputs: where registers of outputs wait."""
        self.asm.piece(_spilled, outputs)
        self.asm.branch("bne.w", again)

    def _enter(self) -> None:
        layer, asm, frame = self.layer, self.asm, self.frame
        asm.note("registers and arguments to the stack, and to registers of the FPU")
        asm.save("{r4-r11, lr}", frame=frame.size)
        group_bytes = 4 * (GROUP + layer.requant.words(GROUP))
        asm.piece(_arguments, tuple(frame.at(name) for name in _WORDS), layer.tile.turn, group_bytes)

    def _gather(self) -> None:
        """The taps of two pixels to the stack, r9 r10 pixels, r11 taps; of one pixel twice."""
        asm, frame = self.asm, self.frame
        asm.note("loads: taps of two pixels to the stack, as int16")
        asm.piece(_first_four, tuple(frame.at(name) for name in ("x", "in_c", "n", "out_c")))
        with asm.loop("fours", -(-self.layer.row_taps // 4) - 1):
            asm.piece(_four)
            asm.count_down("r12", "", "fours", "bne")
        asm.op("str", "r10", frame.at("x"))

    def _sums(self) -> None:
        """Eight accumulators over all steps."""
        asm, turn = self.asm, self.layer.tile.turn
        asm.note("products: two pixels by four channels")
        asm.piece(_start)
        with asm.loop("steps", self.layer.steps // turn):
            for step in range(turn):
                asm.piece(_step, _STEP_BYTES * step, _STEP_BYTES * (turn - 1 - step))
            self._next_turn("steps", turn)

    def _next_turn(self, again: str, steps: int) -> None:
        """To the next turn of so many steps, if there is one."""
        self.asm.piece(_turned, _STEP_BYTES * steps)
        self.asm.branch("bne.w", again)

    def _finish(self, channels: int, pixels: int = 2) -> None:
        """Scales and stores the accumulators, with fewer than four as many as there are; registers of outputs: behind
        those stored. No store stands right behind another."""
        asm, requant = self.asm, self.layer.requant
        loads = _LOADS[requant.constants == 3 :]
        for position, constants in enumerate(requant.constants_in_turn(asm, STREAM, loads, channels, later=_FIRST[0])):
            asm.note(f"channel {position} of four: requantize and store")
            asm.piece(_outputs, requant, position, tuple(constants), pixels)
            if channels < GROUP and position + 1 < channels:
                asm.op("vmov", _SECOND[0], _spill("rest"))
                asm.op("cmp", _SECOND[0], f"#{position + 1}")
                is_last = position + 1 == self.layer.out_c % GROUP
                asm.always("beq.w", "next") if is_last else asm.branch("beq.w", "next")


def _spill(name: str) -> str:
    return f"s{_SPILLED.index(name)}"


def _arguments(asm: Asm, places: tuple[str, ...], turn: int, group_bytes: int) -> None:
    """Arguments to the frame, at the places of `_WORDS`; where steps and groups begin and end. turn: its steps.
    group_bytes: of the stream, of a group beside its weights."""
    asm.piece(_numbers, places)
    asm.op("add", "r6", "r4", f"#{2 * turn - 1}")
    asm.op("lsr", "r6", "r6", f"#{(2 * turn).bit_length() - 1}")
    asm.op("lsl", "r6", "r6", f"#{(turn * _STEP_BYTES).bit_length() - 1}")
    asm.op("add", "r7", "sp", "r6")
    asm.op("sub", "r7", "r7", f"#{_STEP_BYTES * turn}")
    asm.op("vmov", _spill("turn"), "r7")
    asm.piece(_ends, group_bytes)


def _numbers(asm: Asm, places: tuple[str, ...]) -> None:
    """What a call tells to the frame."""
    asm.op("ldrd", "r4", "r5", f"[{STREAM}], #8")
    asm.op("ldr", "r1", "[r1]")
    for register, place in zip((STREAM, "r1", "r3", "r4", "r5"), places, strict=True):
        asm.op("str", register, place)


def _ends(asm: Asm, group_bytes: int) -> None:
    """Where groups end, of as many bytes and those of their weights, which are in r6."""
    asm.op("add", "r6", "r6", f"#{group_bytes}")
    asm.op("lsr", "r7", "r5", "#2")
    asm.op("mla", "r7", "r7", "r6", STREAM)
    asm.op("vmov", _spill("shorter"), "r7")
    asm.op("and", "r5", "r5", f"#{GROUP - 1}")
    asm.op("vmov", _spill("rest"), "r5")
    asm.op("cmp", "r5", "#0")
    asm.op("it", "ne")
    asm.op("movne", "r7", "#0")
    asm.op("vmov", _spill("end"), "r7")
    asm.op("vmov", _spill("first_y"), "r2")


def _first_four(asm: Asm, places: tuple[str, ...]) -> None:
    """The first four taps of two pixels, or of one twice; r12: fours behind them. places: of x, in_c, n, out_c."""
    for register, place in zip(("r9", "r8", "r5", "r6"), places, strict=True):
        asm.op("ldr", register, place)
    asm.op("add", "r10", "r9", "r8")
    asm.op("cmp", "r5", "#1")
    asm.op("itt", "eq")
    asm.op("moveq", "r10", "r9")
    asm.op("moveq", "r6", "#0")
    asm.op("vmov", "r7", _spill("first_y"))
    asm.op("add", "r6", "r6", "r7")
    asm.op("vmov", _spill("second_y"), "r6")
    asm.op("mov", "r11", "sp")
    asm.piece(_four)
    asm.op("add", "r12", "r8", "#3")
    asm.op("lsr", "r12", "r12", "#2")
    asm.op("rsb", "r7", "r8", "#0")
    asm.op("and", "r7", "r7", "#3")
    asm.op("sub", "r9", "r9", "r7")
    asm.op("sub", "r10", "r10", "r7")
    asm.op("sub", "r12", "r12", "#1")


def _four(asm: Asm) -> None:
    """Four taps of two pixels."""
    asm.op("ldr", "r3", "[r9], #4")
    asm.op("ldr", "r4", "[r10], #4")
    asm.op("sxtb16", "r1", "r3")
    asm.op("sxtb16", "r2", "r4")
    asm.op("sxtb16", "r3", "r3", "ror #8")
    asm.op("sxtb16", "r4", "r4", "ror #8")
    asm.op("stm", "r11!", "{r1-r4}")


def _start(asm: Asm) -> None:
    """Start values of both pixels; where the steps begin."""
    asm.load_multiple(STREAM, _FIRST)
    for first, second in zip(_FIRST, _SECOND, strict=True):
        asm.op("mov", second, first)
    asm.op("vmov", _PLACE, _spill("turn"))


def _step(asm: Asm, weights_at: int, taps_at: int) -> None:
    """Two taps of both pixels times the weights of four channels. weights_at, taps_at: bytes behind their places."""
    for loaded, base, offset in ((_TAPS, _PLACE, taps_at), (_WEIGHTS, STREAM, weights_at)):
        asm.piece(_load, loaded, base, offset)
    asm.piece(_products)


def _load(asm: Asm, registers: tuple[str, ...], base: str, first: int) -> None:
    """Words from byte `first` behind a register on."""
    for at, register in enumerate(registers):
        asm.op("ldr", register, f"[{base}, #{first + 4 * at}]" if first + at else f"[{base}]")


def _products(asm: Asm) -> None:
    """Of a step."""
    for channel in range(GROUP):
        w = _WEIGHTS[channel // 2]
        if channel % 2:
            asm.op("sxtb16", w, w)
        for accs, tap in zip((_FIRST, _SECOND), _TAPS, strict=True):
            asm.op("smlad", accs[channel], tap, w, accs[channel])


def _turned(asm: Asm, turn_bytes: int) -> None:
    """To the taps and weights of the next turn; flags: whether there is one."""
    asm.op("adds", STREAM, STREAM, f"#{turn_bytes}")
    asm.op("cmp", "sp", _PLACE)
    asm.op("sub.w", _PLACE, _PLACE, f"#{turn_bytes}")


def _spilled(asm: Asm, outputs: tuple[tuple[str, str], ...]) -> None:
    """Registers of outputs to where they wait; flags: whether there are more groups."""
    asm.op("vmov", _FREE, _spill("end"))
    asm.op("cmp", STREAM, _FREE)
    for name, register in outputs:
        asm.op("vmov", _spill(name), register)


def _count_pixels(asm: Asm, place: str) -> None:
    """Two pixels less; flags: whether there are more. place: of their number."""
    asm.op("vmov", _spill("first_y"), _SECOND_Y)
    asm.op("ldr", _FREE, place)
    asm.op("subs", _FREE, _FREE, "#2")
    asm.op("str", _FREE, place)


def _two_steps(asm: Asm, weights_at: int, taps_at: int) -> None:
    """Four taps of a pixel times the weights of four channels. weights_at, taps_at: bytes behind their places; the
    second step's taps are before the first's."""
    for tap, at in zip(_SECOND[:2], (taps_at, taps_at - _STEP_BYTES), strict=True):
        asm.op("ldr", tap, f"[{_PLACE}, #{at}]" if at else f"[{_PLACE}]")
    asm.piece(_load, _LOADS, STREAM, weights_at)
    asm.piece(_products_of_two)


def _products_of_two(asm: Asm) -> None:
    """Of `_two_steps`."""
    for step, tap in enumerate(_SECOND[:2]):
        for channel, acc in enumerate(_FIRST):
            w = _LOADS[2 * step + channel // 2]
            if channel % 2:
                asm.op("sxtb16", w, w)
            asm.op("smlad", acc, tap, w, acc)


def _outputs(asm: Asm, requant: Requantization, position: int, constants: tuple[str, ...], pixels: int) -> None:
    """One channel of both pixels, or of one, with its constants."""
    accs, places = (_FIRST, _SECOND)[:pixels], (_PLACE, _SECOND_Y)[:pixels]
    temp = _SECOND[0] if position or pixels == 1 else _PLACE
    for acc, y in zip(accs, places, strict=True):
        below = acc[position + 1] if position + 1 < GROUP else ""
        free = constants[1] if acc is _SECOND and requant.base is None else temp
        requant.emit(asm, position, acc[position], below, constants, free)
        if position:
            asm.op("strb", acc[position], f"[{y}], #1")
    if position == 0:
        for acc, y, name in zip(accs, places, ("first_y", "second_y")[:pixels], strict=True):
            asm.op("vmov", y, _spill(name))
            asm.op("strb", acc[0], f"[{y}], #1")
