# SPDX-License-Identifier: Apache-2.0
"""int4 weights in the assembly of weighted layers: four channels of two taps in a word.

Each half of a weight word belongs to a tap and holds a digit of four bits for each of four output channels, channel 0
on top. With the digits' values d0 (signed, the weight itself) and d1, d2, d3 (what is left of the half when those above
are taken off), three instructions give three more operands of SMLAD, in the register of the word:

    raw       4096 d0 + 256 d1 + 16 d2 + d3
    BIC              256 d1 + 16 d2 + d3       top digits cleared
    [SU]XTB16                  16 d2 + d3
    AND                               d3       lowest digits alone

Four accumulators take one each; in the end, neighbours are subtracted from each other, so they hold 4096, 256, 16 and 1
times a sum of x * d. A digit that is not signed is the weight plus 8, so that 8 times the sum of the taps has to go:
it is computed once per pixel. Exact whatever x and the weights are, for everything may wrap modulo 2^32 until the end.

Where taps are few, that end is dear. The other way (`top`) takes a shift and a mask for each channel, in a second
register, and every accumulator holds 4096 times a sum: nothing is left to do, and no digit has an offset.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import pairwise

import numpy as np

from tinyc.kernels.finish import DIGIT_SHIFTS, Finish, Requantization, clamp_of, finish_wide
from tinyc.kernels.matrix import GROUP, Matrix
from tinyc.kernels.requantize import MAX_SHIFT, Int64s, Shifts
from tinyc.machine.thumb import Asm

_SIGNED, _UNSIGNED = (0, 8, 0, 8), (0, 8, 8, 8)
_LARGEST = 2**31 - 2**20
_PER_TURN = 8  # steps whose taps are summed without a branch
_SHARED_SHIFTS = range(3, MAX_SHIFT, 4)  # tried first: layers with equal shifts share their code


def finish_digits(matrix: Matrix) -> Finish | None:
    """The cheapest proved requantization for int4 weights; None if none is, or they leave [-8, 7]."""
    p, taps = matrix.p, matrix.taps
    if taps.min(initial=0) < -8 or taps.max(initial=0) > 7:
        return None
    steps = matrix.live_steps
    down, live, groups = -p.shift.astype(np.int64), steps.is_live, len(taps) // GROUP
    if (np.maximum(np.abs(steps.low), np.abs(steps.high)) << np.tile(DIGIT_SHIFTS, groups) >= _LARGEST).any():
        return None
    least = int(down[live].min()) if live.any() else 1
    for requant, shift in _requantizations(least):
        scale = np.tile([1, 1, 1, 1] if requant.halve else [12, 8, 4, requant.last_scale], groups)
        if shift is None:
            shifts = np.clip(np.where(live, down if requant.sign else down + scale - 1, 0), 0, MAX_SHIFT)
        else:
            shifts = np.full_like(down, shift) if requant.sign else shift + scale
        grain = np.tile([1, 1, 1, 1 << requant.last_scale], groups)
        constants = matrix.solved(Shifts(scale, shifts, requant.sign), grain)
        if constants is not None:
            fixed = None if shift is None else tuple(int(s) for s in shifts[:GROUP])
            return Finish(
                replace(requant, shifts=fixed, clamp=clamp_of(p.rescale), offsets=_offsets(taps)), constants, live
            )
    return None


def finish_raised(matrix: Matrix) -> Finish | None:
    """The cheapest proved requantization for int4 weights on top of int16, times 2^12; None if none is, or they leave
    [-8, 7]."""
    p, taps = matrix.p, matrix.taps
    if taps.min(initial=0) < -8 or taps.max(initial=0) > 7:
        return None
    scale = np.full(len(taps), DIGIT_SHIFTS[0])
    finish = finish_wide(matrix, int(DIGIT_SHIFTS[0]), lambda steps: scale)
    if finish is not None:
        return finish
    steps = matrix.live_steps
    if (np.maximum(np.abs(steps.low), np.abs(steps.high)) << DIGIT_SHIFTS[0] >= _LARGEST).any():
        return None
    live, ones = steps.is_live, np.ones_like(scale)
    down = np.clip(np.where(live, -p.shift.astype(np.int64), 0), 0, MAX_SHIFT)
    for shift in (int(down[live].min()) if live.any() else 1, None):
        shifts = down if shift is None else np.full_like(down, shift)
        scaling = matrix.solved(Shifts(ones, shifts, True), ones)
        if scaling is not None:
            fixed = None if shift is None else (shift,) * GROUP
            return Finish(Requantization(halve=True, sign=True, shifts=fixed, clamp=clamp_of(p.rescale)), scaling, live)
    return None


def _offsets(taps: Int64s) -> tuple[int, int, int, int]:
    """What is added to the weights of four channels. Channel 2 can do without if channel 1 leaves room."""
    _, second, third, fourth = (taps[i::GROUP] for i in range(GROUP))
    below = 256 * (second + 8) + 16 * third + fourth + 8
    return _SIGNED if below.min(initial=0) >= 0 else _UNSIGNED


def _requantizations(least: int) -> Iterator[tuple[Requantization, int | None]]:
    """(requant, shift beyond the scale) to try, cheapest first; shift None: varies."""
    plain, halved, signed = Requantization(), Requantization(halve=True), Requantization(halve=True, sign=True)
    shared = max((s for s in _SHARED_SHIFTS if s <= least - 1), default=None)
    yield from ((plain, s) for s in dict.fromkeys((shared, least - 1)) if s is not None and s >= 0)
    if least >= 0:
        yield signed, least
    yield plain, None
    yield halved, None
    yield signed, None


def nibbles(taps: Int64s) -> Int64s:
    """Weights [O, taps] -> [O / 4, taps]: the half of a word for each tap, for `top`."""
    return np.asarray(((taps.reshape(-1, GROUP, taps.shape[1]) & 15) << DIGIT_SHIFTS[:, None]).sum(axis=1))


def halves(taps: Int64s, offsets: tuple[int, int, int, int]) -> Int64s:
    """Weights [O, taps] -> [O / 4, taps]: the half of a word for each tap, as the module says."""
    digits = taps.reshape(-1, GROUP, taps.shape[1]) + np.array(offsets)[:, None]
    return np.asarray((digits << DIGIT_SHIFTS[:, None]).sum(axis=1))


Offsets = tuple[int, int, int, int] | None
"""What is added to the weights of four channels (`Requantization.offsets`)."""


def unpack(asm: Asm, channel: int, w: str, offsets: Offsets) -> None:
    """Before the multiplications of `channel`: turns the operand of the channel before into that of this one."""
    if offsets is None:
        raise ValueError("the weights are not int4")
    if channel == 1:
        asm.op("bic", w, w, f"#{0xF000F000:#x}")
    elif channel == 2:
        asm.op("uxtb16" if offsets[2] else "sxtb16", w, w)
    elif channel == 3:
        asm.op("and", w, w, f"#{0x000F000F:#x}")


NIBBLE_MASK = 0xF000F000


def top(asm: Asm, channel: int, to: str, w: str, mask: str) -> None:
    """The weights of `channel` for both taps, times 2^12, to a register of their own. mask: holds NIBBLE_MASK."""
    asm.op("and", to, mask, w, *([f"lsl #{4 * channel}"] if channel else []))


def split(asm: Asm, acc: Sequence[str], offset: str, requant: Requantization) -> None:
    """Four accumulators -> one channel each, times 2^scale. offset: register of the pixel's sum, see `sum_of_taps`."""
    if requant.offsets is None:
        raise ValueError("the weights are not int4")
    low = requant.last_scale
    for upper, lower in pairwise(acc):
        asm.op("sub", upper, upper, lower)
    asm.op("sub", acc[1], acc[1], offset, f"lsl #{8 - low}")
    if requant.offsets[2]:
        asm.op("sub", acc[2], acc[2], *([offset, f"lsl #{4 - low}"] if low < 4 else [offset]))
    asm.op("rsb", acc[3], offset, acc[3], f"lsl #{low}")
    if requant.halve:
        for register, amount in zip(acc, (11, 7, 3), strict=False):
            asm.op("asr", register, register, f"#{amount}")


def sum_of_taps(asm: Asm, steps: int, pixels: int, requant: Requantization) -> None:
    """The taps that r9 points to, `steps` words of each pixel in turn, summed and scaled for `split`.

    The sums of the first and second pixel come in r11 and r12; uses r0-r10.
    """
    asm.op("mov", "r0", f"#{0x00010001:#x}")
    asm.op("mov", "r11", "#0")
    asm.op("mov", "r12", "#0")
    turns, ahead = divmod(steps * pixels, 2 * _PER_TURN)
    _sum(asm, ahead)
    if turns > 1:
        asm.add("r10", "r9", 8 * _PER_TURN * turns, "r1")
        with asm.loop("sum_steps", turns):
            _sum(asm, 2 * _PER_TURN)
            asm.until_equal("r9", "r10", "sum_steps")
    elif turns:
        _sum(asm, 2 * _PER_TURN)
    if pixels == 1:
        asm.op("add", "r11", "r11", "r12")
    for register in ("r11", "r12")[:pixels]:
        asm.op("lsl", register, register, f"#{requant.last_scale + 3}")


def sum_of_windows(asm: Asm, k_h: int, row_taps: int, apart: int, requant: Requantization) -> None:
    """As `sum_of_taps` for two windows of k_h rows, the second `apart` taps to the right. What they share is summed
    once.

    row_taps and apart: multiples of 8, apart less than row_taps. Uses r0-r10 and r14.
    """
    asm.op("mov", "r0", f"#{0x00010001:#x}")
    for register in ("r11", "r12", "r14"):  # of the first alone, of the second alone, of both
        asm.op("mov", register, "#0")
    asm.add("r10", "r9", 4 * k_h * row_taps, "r1")
    with asm.loop("sum_rows", k_h):
        for tap in range(0, row_taps, 8):
            asm.load_multiple("r9", [f"r{i}" for i in range(1, 9)])
            for i in range(1, 9, 2):
                own = "r11" if tap < apart else "r14"
                asm.op("smlad", own, f"r{i}", "r0", own)
                if tap >= row_taps - apart:
                    asm.op("smlad", "r12", f"r{i + 1}", "r0", "r12")
        asm.until_equal("r9", "r10", "sum_rows")
    for register in ("r11", "r12"):
        asm.op("add", register, register, "r14")
        asm.op("lsl", register, register, f"#{requant.last_scale + 3}")


def _sum(asm: Asm, count: int) -> None:
    """`count` words of taps from r9 on; an odd number is a single pixel's."""
    for first in range(0, count, 8):
        registers = [f"r{i}" for i in range(1, 9)][: min(8, count - first)]
        asm.load_multiple("r9", registers)
        for i, register in enumerate(registers):
            total = ("r11", "r12")[i % 2]
            asm.op("smlad", total, register, "r0", total)
