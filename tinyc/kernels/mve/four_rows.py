# SPDX-License-Identifier: Apache-2.0
"""Sums of four rows of weights at a time (MVE): 16 taps of each row after the other, by VMLADAVA.S8."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from tinyc.ir.graph import Array
from tinyc.kernels.mve.dot import BYTE_REACH, LANES, STEP
from tinyc.kernels.mve.lanes import STREAM
from tinyc.machine.thumb import Asm

SUMS = ("r0", "r2", "r4", "r6")  # VMLADAVA takes even registers


def four_rows(weights: Array, bias: npt.NDArray[np.int32]) -> npt.NDArray[np.int32]:
    """Words of up to four rows int8 [n, taps]: four biases, then the weights of each 16 taps, 16 bytes of each row."""
    rows = np.zeros((LANES, -(-weights.shape[1] // STEP) * STEP), np.int8)
    rows[: len(weights), : weights.shape[1]] = weights
    begin = np.zeros(LANES, np.int32)
    begin[: len(bias)] = bias
    taps = rows.reshape(LANES, -1, STEP).transpose(1, 0, 2)
    return np.concatenate([begin, np.ascontiguousarray(taps).view(np.int32).ravel()])


def sum_rows(asm: Asm, inputs: str, taps: int) -> None:
    """r0, r2, r4, r6 = biases and products of four rows; the stream goes on behind them.

    Uses r5, r12, lr and q1 to q3."""
    asm.op("ldm", f"{STREAM}!", "{" + ", ".join(SUMS) + "}")
    whole, rest = divmod(taps, STEP)
    is_near = STEP * whole <= BYTE_REACH
    if is_near:
        for step in range(whole):
            asm.op("vldrb.u8", "q3", f"[{inputs}, #{STEP * step}]" if step else f"[{inputs}]")
            _four_rows(asm)
    else:
        asm.op("mov", "r5", inputs)
        asm.constant("lr", whole)
        with asm.loop(f"taps of {inputs}", whole):
            asm.op("vldrb.u8", "q3", "[r5]", f"#{STEP}")
            _four_rows(asm)
            asm.branch("le", f"taps of {inputs}", "lr")
    if rest:
        asm.op("movs", "r12", f"#{rest}")
        asm.op("vctp.8", "r12")
        asm.op("vpst")
        at = f"[{inputs}, #{STEP * whole}]" if whole else f"[{inputs}]"
        asm.op("vldrbt.u8", "q3", at if is_near else "[r5]")
        _four_rows(asm)


def _four_rows(asm: Asm) -> None:
    """16 taps in q3 of four rows."""
    for number, total in enumerate(SUMS):
        weights = f"q{1 + number % 2}"
        asm.op("vldrw.u32", weights, f"[{STREAM}]", f"#{STEP}")
        asm.op("vmladava.s8", total, "q3", weights)


def spread_sums(asm: Asm, target: str) -> None:
    """target = the four sums."""
    asm.op("vmov", f"{target}[2]", f"{target}[0]", SUMS[0], SUMS[2])
    asm.op("vmov", f"{target}[3]", f"{target}[1]", SUMS[1], SUMS[3])


def shift_down(asm: Asm, vector: str, temp: str, by: int) -> None:
    """vector / 2^by, halves away from zero: VRSHR rounds them up, so 1 comes off negative numbers before."""
    if by:
        asm.op("vshr.s32", temp, vector, "#31")
        asm.op("vadd.i32", vector, vector, temp)
        asm.op("vrshr.s32", vector, vector, f"#{by}")
