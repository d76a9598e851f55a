# SPDX-License-Identifier: Apache-2.0
"""How the sums of nested fast forms (`tiles.py`) become int8, proved for the weights of a layer."""

from __future__ import annotations

import numpy as np

from tinyc.kernels.fast.bilinear import BilinearForm
from tinyc.kernels.fast.weights import largest_factors
from tinyc.kernels.finish import Finish, finish_drops, finish_wide
from tinyc.kernels.matrix import Matrix
from tinyc.kernels.requantize import Int64s, Steps

_LARGEST_SCALE = 10


def has_third(vertical: BilinearForm, form: BilinearForm) -> bool:
    """Whether sums are multiples of 3."""
    return vertical.unit * form.unit % 3 == 0


def unit_of(vertical: BilinearForm, form: BilinearForm) -> int:
    """log2 of the multiple of the least raised output, once a factor of 3 is divided out."""
    unit = vertical.unit * form.unit
    return (unit // 3 if unit % 3 == 0 else unit).bit_length() - 1


def proof(matrix: Matrix, vertical: BilinearForm, form: BilinearForm) -> tuple[Finish, bool] | None:
    """The proved requantization, for sums raised least; and whether sums must be divided by 3 before. The
    multiplier divides them where three times the accumulators fit. None if there is none."""
    thirds = has_third(vertical, form)
    finish = _proved(matrix, vertical, form, 3 if thirds else 1)
    if not thirds or (finish and finish.requant.extra_instructions == 0):
        return (finish, False) if finish else None
    plain = _proved(matrix, vertical, form, 1)
    if plain is None or (finish and finish.requant.extra_instructions <= plain.requant.extra_instructions + 1):
        return (finish, False) if finish else None
    return plain, True


def _proved(matrix: Matrix, vertical: BilinearForm, form: BilinearForm, multiple: int) -> Finish | None:
    largest = matrix.once(largest_factors, vertical, form)
    top, unit = max(form.raised), unit_of(vertical, form)

    def most(steps: Steps) -> Int64s:
        worst = np.maximum(np.maximum(np.abs(steps.low), np.abs(steps.high)), 1)
        bits = np.floor(np.log2((2**15 - 1) / largest)) + unit
        room = np.minimum(bits, 30 - top - np.ceil(np.log2(worst + 1)))
        scale: Int64s = np.minimum(room, _LARGEST_SCALE).astype(np.int64)
        return scale

    finish = finish_wide(matrix, unit, most, multiple)
    if finish is None or finish.requant.sign or finish.requant.shifts is None:
        dropping = finish_drops(matrix, unit, most, multiple)
        if dropping is not None and dropping.fits_multiples(top):
            return dropping
    return finish if finish is not None and finish.fits_multiples(top) else None
