# SPDX-License-Identifier: Apache-2.0
"""Which requantization a layer's kernel runs: the cheapest sequence of instructions that is provably right.

Accumulators reach the end of a kernel in one of two forms:

* wide (int16 weights): the register holds acc * 2^scale; the scale is in the weights and the bias;
* packed (int8 weights, "A over B", tc_dsp.h): channels 0 and 2 of each four hold T - B = 256 * acc
  after one subtraction, channels 1 and 3 hold acc;
  (of exact fast convolutions with narrow factors of weights: each times 2^scale of its channel);
* digits (int4 weights, int4_words.py): the registers hold acc * 2^12, 2^8, 2^4 and 2^4 after a few subtractions.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace

import numpy as np

from tinyc.base.dataclass import dataclass
from tinyc.base.numerics import Rounding
from tinyc.kernel.windows import Rescale
from tinyc.kernels.matrix import GROUP, Matrix
from tinyc.kernels.requantize import MAX_SHIFT, Bools, Int64s, ScalingConstants, Shifts, Steps, solve_with_base
from tinyc.machine.thumb import Asm

DIGIT_SHIFTS = np.array([12, 8, 4, 0])  # log2 of the factors on four int4 weights that share half a word
RAISED_DOWN = 11  # what registers of 2^12 acc are shifted right by, to 2 acc
Strings = tuple[str, ...]
_SUM_LIMIT = 2**31  # of 256 * acc in the registers of channels 0 and 2
_LARGEST_SCALE = 8  # 127 * 2^8 fits int16
_BYTE = 8
_USUAL_SHIFT = 11  # of sums times 2^8: few layers' multipliers ask for less, and hardly any for more
_SHARED_SHIFTS = range(3, MAX_SHIFT, 4)  # tried first: layers with equal shifts share their code


@dataclass(frozen=True, slots=True)
class Requantization:
    """The instructions from accumulator register to int8; they are the same for every group of 4 channels.
    With halve, but not packed: int4 weights times 2^12, and 2^12 acc -> 2 acc.
    """

    packed: bool = False  # positions 0 and 2 first subtract B
    halve: bool = False  # and shift right by 7 (256 acc -> 2 acc)
    # Positions 1 and 3 are doubled; with halve and double, registers that come times 2^unit are lowered on the way.
    double: bool = False
    sign: bool = False  # 1 is taken off for negative registers
    # The immediate of SSAT at each position; None: each channel has its shift in a register.
    shifts: tuple[int, ...] | None = None
    clamp: tuple[int, int] | None = None  # None where saturation to int8 does
    # Of digits: what is added to the weights of four channels; with halve all registers come to 2 acc.
    offsets: tuple[int, int, int, int] | None = None
    drops: bool = False  # with sign, each channel has in a register what is taken off
    unit: int = 0
    base: int | None = None  # what all channels add, of packed ones positions 0 and 2; else each has its own
    # Mult and add are those of all channels; they stand before the first. Of packed sums all come times 2^8, or with
    # halve times 2.
    common: bool = False

    @property
    def extra_instructions(self) -> int:
        """Of an output, beyond the least."""
        return 2 * self.sign + (self.shifts is None) + (self.sign and not self.drops)

    @property
    def takes_no_multiples(self) -> bool:
        """Whether sums that come times a power of two are shifted down first; else they pass through the scaling."""
        return (self.sign and not self.drops) or self.shifts is None

    @property
    def last_scale(self) -> int:
        """Of digits: log2 of the factor with which the sum of the fourth channel enters its register."""
        return 1 if self.halve else 4

    @property
    def constants(self) -> int:
        """Words per channel after the weights: mult, add where channels differ, and the shift if it varies, or the
        drop."""
        if self.common:
            return 0
        if self.base is not None and not self.packed:
            return 1
        return 2 if self.shifts is not None and not self.drops else 3

    @property
    def head_words(self) -> int:
        """Words before the first channel."""
        return 2 * self.common

    def words(self, channels: int) -> int:
        """Words of so many channels, from one at an even position on, after the weights."""
        spared = -(-channels // 2) if self.packed and self.base is not None else 0
        return channels * self.constants - spared

    @property
    def lowered(self) -> tuple[int, int]:
        """packed: by how much registers of positions 0 and 2, and of 1 and 3, are shifted right at first."""
        if self.common and not self.halve:
            return 0, -_BYTE
        return (7 + self.unit) * self.halve, (self.unit - 1) * self.double

    @property
    def c_text(self) -> str:
        """A tc_finish_t of tc_dsp.h, for twins."""
        low, high = self.clamp or (-128, 127)
        shifts = ", ".join(map(str, self.shifts or (0,) * GROUP))
        words = f"{int(self.sign)}, {int(self.drops)}, {int(self.shifts is None)}, {{{shifts}}}, {low}, {high}"
        return f"{{{words}, {self._based}, {self.base or 0}}}"

    @property
    def _based(self) -> int:
        """Which channels add the base: 1 all, 2 those at even positions, 0 none."""
        return 0 if self.base is None else 1 + self.packed

    def load_base(self, asm: Asm, register: str) -> None:
        """What all channels add, to a register: an immediate (`finish_bytes`)."""
        if self.base is not None:
            asm.op("mov" if self.base >= 0 else "mvn", register, f"#{max(self.base, ~self.base):#x}")

    def constants_in_turn(
        self, asm: Asm, stream: str, registers: Strings, channels: int, later: str = "", common: Strings = ()
    ) -> Iterator[Strings]:
        """The registers of each channel's constants, which are loaded when they are asked for: of two channels at a
        time where they are two words each. registers: four; or three, for one channel at a time. later: what stands for
        the first register once the first channels are done. common: where mult and add of all channels wait."""
        if self.common:
            load_words(asm, registers[-2:], common)
            yield from [registers[-2:]] * channels
            return
        if self.base is not None:
            yield from self._based_constants(asm, stream, registers, channels, later)
            return
        for channel in range(channels):
            if self.constants == 3 or len(registers) == 3:
                constants = registers[: self.constants]
                asm.load_multiple(stream, constants)
                yield constants
                continue
            if channel == 2 and later:
                registers = (later, *registers[1:])
            if channel % 2 == 0:
                asm.load_multiple(stream, registers[: 4 if channel + 1 < channels else 2])
            yield registers[2:] if channel % 2 else registers[:2]

    def _based_constants(
        self, asm: Asm, stream: str, registers: Strings, channels: int, later: str
    ) -> Iterator[Strings]:
        """`constants_in_turn` with the base in the last register."""
        base = registers[-1]
        self.load_base(asm, base)
        free = registers[-4:-1] if self.packed else registers[-3:-1]
        for channel in range(channels):
            if channel == 2 and later and self.packed:
                free = (later, *free[1:])
            if channel % 2 == 0:
                asm.load_multiple(stream, free[: self.words(min(2, channels - channel))])
            if self.packed:
                yield free[1:] if channel % 2 else (free[0], base)
            else:
                yield (free[channel % 2], base)

    def emit_each(self, asm: Asm, accs: Sequence[str], constants: Strings, temp: str, add: str = "") -> Iterator[int]:
        """`emit` for several outputs of one channel; their numbers, when each is done. temp: a free register. add:
        where that constant lies, if its register may be used up and loaded again; not with drops."""
        for number, acc in enumerate(accs):
            last = number == len(accs) - 1
            own = constants[1] if add and (last or self.shifts is None) else temp
            self.emit(asm, 0, acc, "", constants, own)
            if self.sign and own == constants[1] and not last:
                asm.op("ldr", own, add)
            yield number

    def emit(self, asm: Asm, position: int, acc: str, below: str, constants: Strings, temp: str) -> None:
        """Turns `acc` into an output in the register's low byte. below: the register of B for positions 0 and 2.

        constants: registers of mult, add[, shift or drop]. temp: any free register, or (not with drops) that of add if
        add is not needed again.
        """
        asm.piece(_emit, self, position, (acc, below), constants, temp)


def _emit(
    asm: Asm, requant: Requantization, position: int, accs: tuple[str, str], constants: Strings, temp: str
) -> None:
    """`Requantization.emit`. accs: the accumulator, and the one below."""
    acc, below = accs
    mult, add, *shift = constants
    if requant.packed and position % 2 == 0:
        asm.op("sub", acc, acc, below)
        if requant.halve:
            asm.op("asr", acc, acc, f"#{requant.lowered[0]}")
    elif requant.packed and requant.lowered[1]:
        asm.op("asr" if requant.unit else "lsl", acc, acc, f"#{abs(requant.lowered[1])}")
    elif requant.halve and not requant.packed and not requant.offsets:
        asm.op("asr", acc, acc, f"#{RAISED_DOWN}")
    if requant.drops:
        asm.op("and", temp, shift[0], f"{acc}, asr #31")
        asm.op("sub", temp, add, temp)
    elif requant.sign:
        asm.op("add", temp, add, f"{acc}, asr #31")
    asm.op("smmlar" if requant.sign and not requant.drops else "smmla", acc, acc, mult, temp if requant.sign else add)
    if requant.shifts is None:
        asm.op("asr", acc, acc, shift[0])
    amount = requant.shifts[position] if requant.shifts is not None else 0
    asm.op("ssat", acc, "#8", f"{acc}, asr #{amount}" if amount else acc)
    for bound, condition, saturated in zip(requant.clamp or (), ("lt", "gt"), (-128, 127), strict=False):
        if bound != saturated:
            asm.op("cmp", acc, f"#{bound}")
            asm.op("it", condition)
            asm.op(f"mov{condition}", acc, f"#{bound}")


def load_words(asm: Asm, registers: Strings, places: Strings) -> None:
    """Words into registers, two by one instruction where they have one place."""
    if len(places) == 1:
        asm.op("ldrd", *registers, places[0])
        return
    for register, place in zip(registers, places, strict=True):
        asm.op("ldr", register, place)


@dataclass(frozen=True, slots=True)
class Finish:
    """A requantization and its constants for one layer, one entry of `scaling` per output channel.

    live: channels whose output depends on the input. The others' weights and biases count as 0.
    """

    requant: Requantization
    scaling: ScalingConstants
    live: Bools

    def fits_multiples(self, top: int) -> bool:
        """Whether sums times 2^top still pass: constants in int32, shifts up to 31."""
        if self.requant.takes_no_multiples or self.requant.shifts is None:
            return True
        add = (np.abs(self.scaling.add) + self.scaling.fall) << top
        return bool((add < 2**30).all()) and self.requant.shifts[0] + top <= 31

    @property
    def weight_scale(self) -> Int64s:
        """log2 of the factor on wide weights, per channel."""
        return self.scaling.scale

    def start_values(self, bias: Int64s) -> Int64s:
        """Start values of the accumulator registers, int64[O], O a multiple of 4; modulo 2^32 they fit."""
        s, bias = self.scaling, bias * self.live
        if self.requant.offsets:
            return self._start_of_digits(bias)
        if not self.requant.packed and self.requant.halve:
            return (bias << DIGIT_SHIFTS[0]) + (s.nudge << (DIGIT_SHIFTS[0] - 1))
        if not self.requant.packed:
            return (bias << s.scale) + s.nudge
        halved, doubled = self.requant.lowered
        raised = max(doubled, 0)  # else the registers are multiplied by 2^-doubled later
        start = (bias << (s.scale + doubled)) + (s.nudge >> max(-doubled, 0) << raised)  # of channels 1 and 3
        over = (bias << (s.scale + halved)) + (s.nudge << halved)
        start[0::2] = over[0::2] + start[1::2]
        return start

    def _start_of_digits(self, bias: Int64s) -> Int64s:
        """Each register starts as the sum of those behind it, which are subtracted in the end."""
        low, nudge = self.requant.last_scale, self.scaling.nudge.reshape(-1, GROUP)
        start = (bias.reshape(-1, GROUP) << DIGIT_SHIFTS) + (nudge << (np.array([11, 7, 3, 0]) * self.requant.halve))
        start[:, 3] = bias[3::GROUP] + (nudge[:, 3] >> low)
        return np.asarray(np.cumsum(start[:, ::-1], axis=1)[:, ::-1].reshape(-1))

    def constants(self) -> Int64s:
        """int64[O, words per channel] of mult, add[, shift or drop]."""
        last = self.scaling.shift if self.scaling.drop is None else self.scaling.drop
        columns = (self.scaling.mult, self.scaling.add, last)
        return np.stack(columns, axis=1)[:, : self.requant.constants]

    @property
    def head(self) -> Int64s:
        """The words before the first channel."""
        own = (self.scaling.mult[:1], self.scaling.add[:1]) if self.requant.common else ()
        return np.concatenate([*own, np.empty(0, np.int64)])

    def constants_of_groups(self, together: int) -> Int64s:
        """int64[groups, words], of so many channels together; of more than there are zeros."""
        groups, each = -(-len(self.live) // together), self.requant.constants
        spare = groups * together - len(self.live)
        padded = np.pad(self.constants(), ((0, spare), (0, 0))).reshape(groups, together, each)
        has = np.ones((together, each), np.bool_)
        if self.requant.packed and self.requant.base is not None:
            has[0::2, 1] = False
        return padded[:, has]


def finish_wide(
    matrix: Matrix,
    least: int = 0,
    most: Callable[[Steps], Int64s] | None = None,
    multiple: int = 1,
    packed: bool = False,
) -> Finish | None:
    """The cheapest proved requantization for int16 weights; None if none is.

    The scale of each channel is at least `least`; `most` says what it is at most, where the factors of the
    products are not the weights themselves. multiple: accumulators come times that. packed: the scales are those of
    weights of which two channels lie over each other; channels 0 and 2 of four come times 2^8 more.
    """
    over = _over(len(matrix.taps), packed)
    p, steps = matrix.multiplied(multiple)
    room = _wide_room(matrix.taps, steps) if most is None else most(steps)
    if (room < least).any():
        return None
    live = steps.is_live
    grain = np.ones_like(p.shift, np.int64)
    for sign, shift, varies in _wide_shifts(-p.shift[live].astype(np.int64), least):
        # The definition shifts right by this (without sign: were its sums scaled by 2^least).
        down = -p.shift.astype(np.int64) + (0 if sign else least)
        shifts = np.where(live, np.broadcast_to(shift if not varies else _varying(down, sign), down.shape), 0)
        shifts = shifts if varies else np.full_like(down, shift)
        scale = np.ones_like(down) if sign else shifts + 1 - down + least
        scale = np.where(live, np.clip(scale, least, room), least)
        if not sign:
            shifts = np.where(live, shifts + over, 0) if varies else shifts + over
        constants = matrix.solved(Shifts(scale + over, shifts, sign), grain, multiple)
        if constants is not None:
            fixed = None if varies else tuple(int(s) for s in shifts[:GROUP])
            return Finish(Requantization(packed=packed, sign=sign, shifts=fixed, clamp=clamp_of(p)), constants, live)
    return None


def finish_bytes(matrix: Matrix) -> Finish | None:
    """The cheapest proved requantization for int8 weights in the upper bits of int16, times 2^8; None if none is."""
    based = matrix.once(_finish_based, False)
    if based is not None:
        return based
    p, steps = matrix.p.rescale, matrix.live_steps
    down, scale = -p.shift.astype(np.int64), np.full_like(p.shift, _BYTE, np.int64)
    if (np.maximum(np.abs(steps.low), np.abs(steps.high)) << _BYTE >= _SUM_LIMIT - 2**20).any():
        return None
    for shift in _raised_shifts(matrix):
        constants = matrix.solved(Shifts(scale, np.full_like(down, shift), False), np.ones_like(down))
        if constants is not None:
            return Finish(Requantization(shifts=(shift,) * GROUP, clamp=clamp_of(p)), constants, steps.is_live)
    return finish_wide(matrix, _BYTE, lambda steps: scale)


def finish_int16(matrix: Matrix) -> Finish | None:
    """The cheapest proved requantization for int16 weights; None if none is. int8 ones may come times 2^8."""
    small = matrix.taps.min(initial=0) >= -128 and matrix.taps.max(initial=0) <= 127
    based = matrix.once(_finish_based, False) if small else None
    return based if based is not None else finish_wide(matrix)


def _finish_common(matrix: Matrix) -> Finish | None:
    """One multiplier and addend for all channels, where the layer has one scale: the definition itself, of sums times
    2^8, or with `sign` times 2. None if it is not proved, as where multipliers lose bits that count."""
    p, steps = matrix.p.rescale, matrix.live_steps
    live = steps.is_live
    if not live.all() or len(set(zip(p.mult.tolist(), p.shift.tolist(), strict=True))) > 1:
        return None
    down, half = -int(p.shift[0]), 1 << max(-int(p.shift[0]), 0) >> 1
    if down < 0 or p.rounding is not Rounding.DOUBLE:
        return None
    first = down + _BYTE - 1
    for shift in dict.fromkeys(s for s in (*_SHARED_SHIFTS[1:], first) if s <= min(first, MAX_SHIFT)):
        # What the definition adds to the sum times its multiplier before it shifts, first by 31, then by `down`.
        added = ((1 << 30) + (half << 31)) << _BYTE >> (first - shift + 32)
        mult = (int(p.mult[0]) + (1 << (first - shift) >> 1)) >> (first - shift)
        finish = _common(matrix, Requantization(packed=True), _BYTE, shift, mult, added)
        if finish is not None:
            return finish
    signed = Requantization(packed=True, halve=True, double=True, sign=True)
    return _common(matrix, signed, 1, down, int(p.mult[0]), half)


def _common(matrix: Matrix, requant: Requantization, scale: int, shift: int, mult: int, added: int) -> Finish | None:
    """The finish with these constants for every channel, sums times 2^scale; None if it is not proved."""
    p, steps = matrix.p.rescale, matrix.live_steps
    if shift > MAX_SHIFT or (np.maximum(np.abs(steps.low), np.abs(steps.high)) << _BYTE >= _SUM_LIMIT - 2**20).any():
        return None
    every = np.ones(len(matrix.taps), np.int64)
    add = (p.y_zero << shift) + added
    scaling = ScalingConstants(every * scale, every * shift, every * mult, every * add, every * 0, requant.sign)
    if not scaling.equals(steps).all():
        return None
    return Finish(replace(requant, shifts=(shift,) * GROUP, clamp=clamp_of(p), common=True), scaling, steps.is_live)


def _raised_shifts(matrix: Matrix) -> tuple[int, ...]:
    """Shifts to try for sums times 2^8: the usual one, one that layers share, the largest that there may be."""
    down = -matrix.p.shift.astype(np.int64)[matrix.live_steps.is_live]
    first = int(down.min(initial=MAX_SHIFT)) + _BYTE - 1
    shared = max((s for s in _SHARED_SHIFTS if s <= first), default=first)
    usual = min(_USUAL_SHIFT, first)
    return tuple(dict.fromkeys(s for s in (usual, shared, first) if _BYTE <= s <= MAX_SHIFT))


def _finish_based(matrix: Matrix, packed: bool) -> Finish | None:
    """One addend for all channels, whose sums come times 2^8; with packed for those at even positions, where the others
    come as they are. None if none is proved.

    Half of an output and y_zero, or one less, which nudges make up for: so that an immediate holds it.
    """
    p, count = matrix.p.rescale, len(matrix.taps)
    over = np.arange(count) % (1 + packed) == 0
    for shift in _raised_shifts(matrix):
        base = ((2 * p.y_zero + 1) << shift >> 1) - (p.y_zero < 0)
        shifts = Shifts(over * _BYTE, shift - _BYTE * ~over, False)
        constants = solve_with_base(p, matrix.live_steps, shifts, base, over)
        if constants is not None:
            fixed = tuple(int(s) for s in shifts.shift[:GROUP])
            requant = Requantization(packed=packed, shifts=fixed, clamp=clamp_of(p), base=base)
            return Finish(requant, constants, matrix.live_steps.is_live)
    return None


def _over(channels: int, packed: bool) -> Int64s:
    """log2 of what channels over others are multiplied by."""
    return 8 * packed * (np.arange(channels, dtype=np.int64) % 2 == 0)


def finish_drops(
    matrix: Matrix,
    least: int,
    most: Callable[[Steps], Int64s],
    multiple: int,
    packed: bool = False,
) -> Finish | None:
    """As `finish_wide`, a requantization with one shift for all channels, which takes a drop of each off negative sums;
    None if none is proved."""
    over = _over(len(matrix.taps), packed)
    live, down = matrix.live_steps.is_live, -matrix.p.shift.astype(np.int64)
    p, steps = matrix.multiplied(multiple)
    room = most(steps)
    if (room < least).any() or not live.any():
        return None
    for sign, shift, varies in _wide_shifts(-p.shift[live].astype(np.int64), least):
        if sign or varies or shift < down[live].max():
            continue
        scale = np.where(live, np.clip(shift + 1 + p.shift.astype(np.int64), least, room), least)
        shifts = shift + over
        drop = np.where(live, np.int64(1) << np.clip(shifts - down, 0, MAX_SHIFT), 0)
        constants = matrix.solved(Shifts(scale + over, shifts, True, drop), np.ones_like(down), multiple)
        if constants is not None:
            fixed = tuple(int(s) for s in shifts[:GROUP])
            requant = Requantization(packed=packed, sign=True, shifts=fixed, clamp=clamp_of(p), drops=True)
            return Finish(requant, constants, live)
    return None


def _wide_room(taps: Int64s, steps: Steps) -> Int64s:
    """The largest scale of each channel: weights fit int16 and accumulators int32."""
    largest = np.maximum(np.abs(taps).max(axis=1, initial=0), 1)
    worst = np.maximum(np.maximum(np.abs(steps.low), np.abs(steps.high)), 1)
    room = np.minimum(15 - np.ceil(np.log2(largest + 1)), 30 - np.ceil(np.log2(worst + 1)))
    return np.asarray(np.clip(room, 0, _LARGEST_SCALE).astype(np.int64))


def _wide_shifts(down: Int64s, raised: int) -> Iterator[tuple[bool, int, bool]]:
    """(sign, shift, varies) to try, cheapest first; `down` of the channels that matter.

    raised: how much more shifts are without sign.
    """
    least, most = (int(down.min()), int(down.max())) if len(down) else (1, 1)
    for sign in (False, True):
        if sign:
            yield True, max(least, 0), False
        else:
            first, last = least + raised - 1, most + raised - 1
            yield from ((False, s, False) for s in _SHARED_SHIFTS if last <= s <= first + _LARGEST_SCALE)
            yield from ((False, s, False) for s in dict.fromkeys((max(first, 0), max(last, 0))))
    yield False, 0, True
    yield True, 0, True


def _varying(down: Int64s, sign: bool) -> Int64s:
    return np.clip(down if sign else down - 1, 0, MAX_SHIFT)


def finish_packed(matrix: Matrix, unit: int = 0) -> Finish | None:
    """The cheapest proved requantization for packed int8 weights; None if none is.

    unit: the registers come times 2^unit more, and are lowered.
    """
    p, steps = matrix.p.rescale, matrix.live_steps
    if (np.maximum(np.abs(steps.low), np.abs(steps.high))[0::2] << (8 + unit) >= _SUM_LIMIT - 2**20).any():
        return None
    shared = (matrix.once(_finish_common) or matrix.once(_finish_based, True)) if unit == 0 else None
    if shared is not None:
        return shared
    down = -p.shift.astype(np.int64)
    live = steps.is_live
    least = int(down[live].min()) if live.any() else 1
    over = np.arange(len(down)) % 2 == 0
    for requant, shift in _packed_requantizations(least):
        if unit and not (requant.halve and requant.double):
            continue
        high = 1 if requant.halve else 8
        scale = np.where(over, high, 1 if requant.double else 0)
        if shift is None:
            shifts = np.where(live, np.where(requant.sign, down, down + scale - 1), 0)
            shifts = np.clip(shifts, 0, MAX_SHIFT)
        elif requant.sign:
            shifts = np.full_like(down, shift)
        else:
            shifts = shift + scale
        grain = np.where(over, 1, 2 if requant.double else 1)
        constants = matrix.solved(Shifts(scale, shifts, requant.sign), grain)
        if constants is not None:
            fixed = None if shift is None else tuple(int(s) for s in shifts[:GROUP])
            return Finish(replace(requant, shifts=fixed, clamp=clamp_of(p), unit=unit), constants, live)
    return None


def _packed_requantizations(least: int) -> Iterator[tuple[Requantization, int | None]]:
    """(requant, shift beyond the scale) to try, cheapest first; shift None: varies."""
    shared = max((s for s in _SHARED_SHIFTS if s <= least - 1), default=None)
    for shift in dict.fromkeys(s for s in (shared, least - 1) if s is not None):
        if shift >= 0:
            yield Requantization(packed=True), shift
    yield Requantization(packed=True, double=True), least - 1
    if least >= 0:
        yield Requantization(packed=True, double=True, sign=True), least
        yield Requantization(packed=True, halve=True, double=True, sign=True), least
    yield Requantization(packed=True), None
    yield Requantization(packed=True, halve=True, double=True), None
    yield Requantization(packed=True, halve=True, double=True, sign=True), None


def clamp_of(p: Rescale) -> tuple[int, int] | None:
    """The clamp of a Requantization."""
    return None if (p.y_min, p.y_max) == (-128, 127) else (p.y_min, p.y_max)
