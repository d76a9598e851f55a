# SPDX-License-Identifier: Apache-2.0
"""Products of two computed int8 matrices with Helium (MVE): tc_matmul_mve.h. Its scalings are those that
kernels/matmul.py proves."""

from __future__ import annotations

from tinyc.kernel.dsp import Fields
from tinyc.kernels.matmul import ProductRequantization
from tinyc.machine.thumb import Work

FAR = "numbers of a matrix at most 8191 apart"

_EIGHT, _COLUMNS = 8, 4
_MOST_APART = 8191  # TC_MATMUL_MVE_MOST
# Instructions and cycles by beats of two rows by four columns: of eight steps of the sum, and around them.
_STEP, _ENDS, _TWICE = Work(15, 29), Work(32, 50), Work(7, 13)
_WIDENED, _LINE = Work(10, 15), Work(32, 40)  # of eight numbers, and around a line of them
_ROWS = Work(50, 60)  # around a call of two rows


def requant_fields(name: str, requant: ProductRequantization) -> Fields:
    """Those of the tc_matmul_mve_t called `name`."""
    c = requant.constants
    return {
        f"{name}.mult": int(c.mult[0]),
        f"{name}.add": int(c.add[0]),
        f"{name}.start": int(c.nudge[0]) >> int(c.scale[0]),
        f"{name}.minus_shift": -int(c.shift[0]),
        f"{name}.twice": int(c.sign),
    }


def reaches(*steps: int) -> bool:
    """Whether gathers reach numbers that are so far apart."""
    return max(steps) <= _MOST_APART


def eights(count: int) -> int:
    return -(-count // _EIGHT)


def row_bytes(depth: int) -> int:
    """Of two rows of the left side, widened."""
    return 4 * _EIGHT * eights(depth)


def side_bytes(depth: int, columns: int) -> int:
    """Of the right side, widened."""
    return 2 * _EIGHT * eights(depth) * _COLUMNS * -(-columns // _COLUMNS)


def work(rows: int, columns: int, depth: int, requant: ProductRequantization) -> Work:
    """Of a product, both sides widened before."""
    steps, fours, pairs = eights(depth), -(-columns // _COLUMNS), -(-rows // 2)
    block = steps * _STEP + _ENDS + int(requant.constants.sign) * _TWICE
    line = steps * _WIDENED + _LINE
    return pairs * (fours * block + _ROWS + 2 * line) + _COLUMNS * fours * line
