# SPDX-License-Identifier: Apache-2.0
"""From sums to int8 on RV32IM in functions written for a layer: constants of each channel, and the instructions.

    h = high word of (2^scale * sum + start) * mult,   y = clamp((h + add - 2, if h < 0 and `sign`) >> shift)

Where the high word of a product is to be rounded and 1 subtracted for what is below 0 (`sign` of tc_rv32.h), sums come
twice as large: half of a unit is a unit then, and goes with `add`, since floor((floor(z) + n) / 2^k) is
floor((z + n) / 2^k) for integers n.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from tinyc.base.dataclass import dataclass
from tinyc.kernel.kernel import Const
from tinyc.kernels.matrix import Matrix
from tinyc.kernels.scalar.rv32_conv import channel_constants, scaled_finish
from tinyc.machine.riscv import RiscvAsm


@dataclass(frozen=True, slots=True)
class ChannelFinish:
    """What the code depends on. adds: whether any add is not 0; low, high: of the clamp."""

    scale: int
    sign: bool
    adds: bool
    low: int
    high: int

    def registers(self, start: str, mult: str, shift: str, more: str) -> list[tuple[str, int]]:
        """Those that hold a channel's constants, each with its place."""
        return [(start, 0), (mult, 4), (shift, 12), (more, 8)][: 4 if self.adds else 3]

    def clamped(
        self, asm: RiscvAsm, total: str, start: str, constants: tuple[str, str, str], clamp: tuple[str, str]
    ) -> None:
        """total = the output, of a sum. start, and as of `write` constants: a channel's; clamp: least and greatest."""
        asm.op("slli", total, total, str(self.scale))
        asm.op("add", total, total, start)
        self.write(asm, total, constants)
        asm.clamp(total, *clamp)

    def write(self, asm: RiscvAsm, total: str, constants: tuple[str, str, str]) -> None:
        """total = what is clamped, of a sum that was scaled. constants: mult, shift and add."""
        mult, shift, more = constants
        asm.op("mulh", total, total, mult)
        if self.sign:
            asm.less_below_zero(total, 2)  # as the sum is, since mult is not
        if self.adds:
            asm.op("add", total, total, more)
        asm.op("sra", total, total, shift)


@dataclass(frozen=True, slots=True)
class Finished:
    """A layer's way to int8. constants: [out_c][start, mult, add, shift]."""

    finish: ChannelFinish
    constants: npt.NDArray[np.int32]

    @property
    def const(self) -> Const:
        return Const(self.constants, "[out_c][start, mult, add, shift]", "channels")


def finished(matrix: Matrix, bias: npt.NDArray[np.int32]) -> Finished | None:
    """None where no requantization is proved, or sums have no bit to spare for it."""
    scaled = matrix.once(scaled_finish)
    if scaled is None:
        return None
    finish, scale = scaled
    channels = channel_constants(finish, bias).data.astype(np.int64)
    sign = finish.requant.sign
    if sign:
        scale, channels = scale + 1, channels * np.array([2, 1, 2, 1]) + np.array([0, 0, 1, 1])
    if channels[:, 1].min() < 0:
        return None
    largest = (128 * np.abs(matrix.taps[: len(bias)]).sum(axis=1) << scale) + np.abs(channels[:, 0])
    if max(largest.max(), np.abs(channels[:, 2]).max()) >= 2**31 or channels[:, 3].max() > 31:
        return None
    low, high = finish.requant.clamp or (-128, 127)
    how = ChannelFinish(scale, sign, bool(channels[:, 2].any()), low, high)
    return Finished(how, channels.astype(np.int32))
