# SPDX-License-Identifier: Apache-2.0
"""Products of two computed int8 matrices on cores with DSP: tc_matmul_dsp.h."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from tinyc.base.dataclass import dataclass
from tinyc.base.numerics import Rounding
from tinyc.kernel.dsp import Fields
from tinyc.kernel.windows import Rescale
from tinyc.kernels.requantize import ScalingConstants, Shifts, solve, steps_between

ASKS = "a scaling from sums to int8 that one product of 32 bits gives"

_MOST_SHIFT = 16  # tc_matmul_dsp.h has no other functions
_UNIT = 4  # steps of a sum that are widened together
_COLUMNS = 4


@dataclass(frozen=True, slots=True)
class ProductScaling:
    """From a sum of products to int8: saturate(requantize(sum, mult, shift) + zero). x_zero, y_zero: of the factors."""

    depth: int
    x_zero: int
    y_zero: int
    mult: int
    shift: int
    rounding: Rounding
    zero: int

    def bounds(self) -> tuple[int, int]:
        """The least and greatest sum."""
        left, right = (-128 - self.x_zero, 127 - self.x_zero), (-128 - self.y_zero, 127 - self.y_zero)
        products = [a * b for a in left for b in right]
        return self.depth * min(products), self.depth * max(products)


@dataclass(frozen=True, slots=True)
class ProductRequantization:
    """The fields of a tc_matmul_requant_t."""

    constants: ScalingConstants

    def fields(self, name: str) -> Fields:
        """Those of the tc_matmul_requant_t called `name`, with the function that is made for the shift."""
        blocks = f"tc_matmul_blocks{'_twice' * self.constants.sign}_{int(self.constants.shift[0])}"
        return {f"{name}.{field}": value for field, value in {**self.numbers, "blocks": blocks}.items()}

    @property
    def numbers(self) -> Fields:
        """All but the shift: from a sum s the product is that of s + start."""
        c = self.constants
        return {"mult": int(c.mult[0]), "add": int(c.add[0]), "start": int(c.nudge[0]) >> int(c.scale[0])}

    @property
    def per_output(self) -> int:
        """Instructions from a sum to int8."""
        return 5 if self.constants.sign else 3


def requantization_of(s: ProductScaling) -> ProductRequantization | None:
    """The shortest requantization that is proved for every sum; None if none is."""
    low, high = s.bounds()
    mult, shift = np.array([s.mult], np.int32), np.array([s.shift], np.int32)
    p = Rescale(mult, shift, s.zero, -128, 127, s.rounding)
    steps = steps_between(p, np.array([low], np.int64), np.array([high], np.int64))
    if not steps.is_live.all():
        steps, p = steps.without_dead(), replace(p, mult=mult * 0)
    for scale in (0, 1):
        down = min(max(-s.shift - 1 + scale, 1), _MOST_SHIFT)
        asked = Shifts(np.array([scale]), np.array([down]), bool(scale))
        constants = solve(p, steps, asked, np.array([1 << scale]))
        if constants is not None and constants.fits(steps).all():
            return ProductRequantization(constants)
    return None


def widened_words(depth: int, columns: int) -> int:
    """int32 words of a right side that is widened."""
    return -(-depth // _UNIT) * -(-columns // _COLUMNS) * 2 * _COLUMNS


def row_words(depth: int) -> int:
    """int32 words of two rows of the left side."""
    return -(-depth // _UNIT) * 4


def product_instructions(rows: int, columns: int, depth: int, requant: ProductRequantization) -> float:
    """Of a product whose right side is widened: loop and finish, as counted on a Cortex-M4."""
    blocks, units = -(-columns // _COLUMNS), -(-depth // _UNIT)
    turns = -(-(units - 1) // 4)  # after the first unit
    block = 22 * units + 3 * turns + 9 + 8 * requant.per_output
    return -(-rows // 2) * (blocks * block + 90)


def widening_instructions(rows: int, columns: int, depth: int) -> float:
    """Of both sides, where rows of the left and either way of the right are walked by words."""
    return -(-rows // 2) * (3.0 * depth + 30) + 1.9 * columns * depth
