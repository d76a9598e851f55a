# SPDX-License-Identifier: Apache-2.0
"""The weights of a layer as a matrix, with what is found out about them once for all kernels of the layer."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import field, replace
from functools import cached_property
from typing import Any, TypeVar

import numpy as np
import numpy.typing as npt

from tinyc.base.dataclass import dataclass
from tinyc.kernel.windows import ConvParams, Rescale, accumulator_bounds
from tinyc.kernels.requantize import Int64s, ScalingConstants, Shifts, Steps, solve, steps_between

T = TypeVar("T")
GROUP = 4  # output channels that a kernel computes together


@dataclass(frozen=True, eq=False)
class Matrix:
    """Weights [O, K] of a layer with everything that scales them; O is padded to a multiple of 4 with nothing."""

    p: ConvParams
    taps: Int64s
    _memo: dict[Any, Any] = field(init=False, default_factory=dict, repr=False)

    @classmethod
    def of(cls, p: ConvParams, taps: npt.NDArray[np.int8]) -> Matrix:
        padded, wide, spare = replace(p, attrs=None, w=taps), taps.astype(np.int64), -len(taps) % GROUP
        if spare:
            padded = replace(
                padded,
                bias=np.pad(p.bias, (0, spare)),
                mult=np.pad(p.mult, (0, spare)),
                shift=np.pad(p.shift, (0, spare), constant_values=-1),
            )
            wide = np.pad(wide, ((0, spare), (0, 0)))
        return cls(padded, wide)

    def once(self, prove: Callable[..., T], *how: Any) -> T:
        """prove(self, *how): for the first kernel of the layer that asks; all others get what it found."""
        if (prove, how) not in self._memo:
            self._memo[prove, how] = prove(self, *how)
        proved: T = self._memo[prove, how]
        return proved

    @cached_property
    def steps(self) -> Steps:
        """The thresholds of its channels."""
        bounds = accumulator_bounds(self.taps, self.p.bias.astype(np.int64))
        return steps_between(self.p.rescale, *bounds)

    @cached_property
    def live_steps(self) -> Steps:
        """The same, with any accumulator for channels whose output is always the same."""
        return self.steps.without_dead()

    def multiplied(self, multiple: int) -> tuple[Rescale, Steps]:
        """What becomes of the layer's sums, and its `live_steps` for accumulators that come times `multiple`."""
        return self.once(_multiplied, multiple)

    def solved(self, shifts: Shifts, grain: Int64s, multiple: int = 1) -> ScalingConstants | None:
        """Constants proved for `multiplied` accumulators; None where there are none. Forms of a kernel ask for the
        same."""
        return self.once(_solved, _Asked(shifts, grain, multiple))


def _multiplied(matrix: Matrix, multiple: int) -> tuple[Rescale, Steps]:
    p, steps = matrix.p.rescale, matrix.live_steps
    if multiple == 1:
        return p, steps
    bits = multiple.bit_length() - 1
    mult = np.rint(p.mult.astype(np.int64) * 2**bits / multiple).astype(np.int32)
    return replace(p, mult=mult, shift=p.shift - bits), steps.times(multiple)


class _Asked:
    """What constants are asked for; equal by values."""

    def __init__(self, shifts: Shifts, grain: Int64s, multiple: int) -> None:
        self.shifts, self.grain, self.multiple = shifts, grain, multiple
        drop = b"" if shifts.drop is None else shifts.drop.tobytes()
        self._key = (shifts.scale.tobytes(), shifts.shift.tobytes(), shifts.sign, drop, grain.tobytes(), multiple)

    def __hash__(self) -> int:
        return hash(self._key)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Asked) and self._key == other._key


def _solved(matrix: Matrix, asked: _Asked) -> ScalingConstants | None:
    return solve(*matrix.multiplied(asked.multiple), asked.shifts, asked.grain)
