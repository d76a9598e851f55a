# SPDX-License-Identifier: Apache-2.0
"""From sums to int8 on RV32IM: what is proved of a layer, constants of each channel, and the instructions.

In functions written for a layer:

    h = high word of (2^scale * sum + start) * mult,   y = clamp((h + add - 2, if h < 0 and `sign`) >> shift)

Where the high word of a product is to be rounded and 1 subtracted for what is below 0 (`sign` of tc_rv32.h), sums come
twice as large: half of a unit is a unit then, and goes with `add`, since floor((floor(z) + n) / 2^k) is
floor((z + n) / 2^k) for integers n.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import numpy.typing as npt

from tinyc.base.dataclass import dataclass
from tinyc.kernel.dsp import Fields
from tinyc.kernel.kernel import Const
from tinyc.kernel.site import Site
from tinyc.kernel.windows import ConvParams
from tinyc.kernels.finish import Finish, finish_wide
from tinyc.kernels.matrix import Matrix
from tinyc.kernels.requantize import without_add
from tinyc.kernels.stream import matrix_of
from tinyc.machine.riscv import RiscvAsm

ISA = frozenset({"rv32m"})
PROVED = "a requantization that is proved"
# log2 of the factor on sums before they are scaled; a larger one is more exact. The first is that of rv32_blocks.py.
_SCALES = (11, 10, 6, 3)


def scaled_finish(matrix: Matrix) -> tuple[Finish, int] | None:
    """(how sums times 2^scale are requantized, scale), with one scale for all channels; None if none is proved."""
    best: tuple[Finish, int] | None = None
    for scale in _SCALES:
        every = np.full(len(matrix.taps), scale)
        finish = finish_wide(matrix, scale, lambda steps, every=every: every)  # type: ignore[misc]
        if finish is not None and (best is None or not finish.requant.sign):
            best = finish, scale
        if best is not None and not best[0].requant.sign:
            break
    return None if best is None else (_without_add(matrix, best[0]), best[1])


def _without_add(matrix: Matrix, finish: Finish) -> Finish:
    """The same with an instruction less, where that is proved."""
    if finish.requant.sign:
        return finish
    scaling = without_add(finish.scaling, matrix.live_steps, len(matrix.p.w))
    if scaling is None:
        return finish
    return replace(finish, scaling=replace(scaling, add=scaling.add * 0))  # nobody has the channels that were added


def is_plain(finish: Finish, scale: int) -> bool:
    """Whether a block of rv32_blocks.py takes the way to int8: the first scale, neither sign nor add."""
    return scale == _SCALES[0] and not finish.requant.sign and not finish.scaling.add.any()


def channel_constants(finish: Finish, bias: npt.NDArray[np.int32]) -> Const:
    """The tc_rv32_channel_t of every output channel, whose biases these are."""
    # The multiplier of a channel whose output is always the same is 0, so its weights may stay.
    padded = np.pad(bias.astype(np.int64), (0, len(finish.live) - len(bias)))
    start = finish.start_values(padded)
    columns = (start, finish.scaling.mult, finish.scaling.add, finish.scaling.shift)
    channels = np.stack([column[: len(bias)] for column in columns], axis=1).astype(np.int32)
    return Const(channels, "[out_c][start, mult, add, shift]", "channels")


def out_fields(matrix: Matrix, bias: npt.NDArray[np.int32]) -> Fields:
    """Fields of the tc_rv32_out_t called `out`. ValueError where `scaled_finish` finds none."""
    scaled = matrix.once(scaled_finish)
    if scaled is None:
        raise ValueError("no requantization is proved")
    finish, scale = scaled
    low, high = finish.requant.clamp or (-128, 127)
    fields = {"out_c": len(bias), "scale": scale, "sign": int(finish.requant.sign), "y_min": low, "y_max": high}
    fields["plain"] = int(is_plain(finish, scale))
    channels = channel_constants(finish, bias)
    return {"out.channels": channels, **{f"out.{name}": value for name, value in fields.items()}}


def is_proved(site: Site, p: ConvParams) -> bool:
    """Whether there is a requantization."""
    return matrix_of(p).once(scaled_finish) is not None


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
