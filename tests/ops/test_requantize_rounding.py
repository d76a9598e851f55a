# SPDX-License-Identifier: Apache-2.0
"""Rounding.SINGLE and Rounding.DOUBLE: one 64-bit product, or a doubling high product and a shift. Python equals C bit
for bit; both are the definition, also where a sum is half of a step, of either sign."""

from __future__ import annotations

import ctypes
import subprocess
from pathlib import Path

import numpy as np
import pytest

from tests.ops.test_requantize_float import BUILDS
from tinyc.base.numerics import Rounding
from tinyc.base.paths import runtime_dir
from tinyc.base.requantize import requantize
from tinyc.ir.graph import Array

SOURCE = """
#include "tc_math.h"
void run(int n, int rounds, const int32_t *acc, const int32_t *mult, const int32_t *shift, int32_t *y);
void run(int n, int rounds, const int32_t *acc, const int32_t *mult, const int32_t *shift, int32_t *y)
{
    for (int i = 0; i < n; i++) y[i] = tc_requantize(acc[i], mult[i], shift[i], rounds);
}
"""


def cases(count: int) -> tuple[Array, Array, Array]:
    """Accumulators of every size, multipliers, and shifts that leave the sums in int32; for a fourth of them the factor
    is a power of two, so that halves are exact."""
    rng = np.random.default_rng(4)
    shift = rng.integers(-31, 31, count).astype(np.int32)
    most = 31 - np.maximum(shift, 0)  # bits of an accumulator that still fits when it is shifted left
    acc = rng.integers(-(2**31), 2**31, count) >> (31 - rng.integers(0, 1 + most))
    mult = rng.integers(2**30, 2**31, count).astype(np.int32)
    mult[: count // 4] = 2**30
    return acc.astype(np.int32), mult, shift


def exactly(acc: int, mult: int, shift: int, rounding: Rounding) -> int:
    """The definition, in whole numbers."""
    if rounding is Rounding.SINGLE:
        return (acc * mult * 2 ** (shift + 31) + 2**61) // 2**62
    high = (acc * 2 ** max(shift, 0) * mult * 2 + 2**31) // 2**32
    step = 2 ** max(-shift, 0)
    return (1 if high >= 0 else -1) * ((2 * abs(high) + step) // (2 * step))


@pytest.mark.parametrize("rounding", [Rounding.SINGLE, Rounding.DOUBLE])
def test_python_is_the_definition(rounding: Rounding) -> None:
    acc, mult, shift = cases(20_000)
    exact = [exactly(*(int(v) for v in case), rounding) for case in zip(acc, mult, shift, strict=True)]
    np.testing.assert_array_equal(requantize(acc, mult, shift, rounding), exact)


@pytest.mark.parametrize("rounding", [Rounding.SINGLE, Rounding.DOUBLE])
@pytest.mark.parametrize("flags", BUILDS.values(), ids=BUILDS)
def test_c_equals_python(tmp_path: Path, flags: list[str], rounding: Rounding) -> None:
    source, library = tmp_path / "run.c", tmp_path / "run.so"
    source.write_text(SOURCE)
    warnings = ["-std=c99", "-Wall", "-Wextra", "-Wpedantic", "-Wconversion", "-Werror"]
    headers = runtime_dir() / "base"
    command = ["gcc", *warnings, *flags, "-shared", "-fPIC", f"-I{headers}", str(source), "-o", str(library)]
    subprocess.run(command, check=True)
    acc, mult, shift = cases(200_000)
    y = np.empty_like(acc)
    pointers = [ctypes.c_void_p(a.ctypes.data) for a in (acc, mult, shift, y)]
    ctypes.CDLL(str(library)).run(len(acc), rounding.code, *pointers)
    np.testing.assert_array_equal(y, requantize(acc, mult, shift, rounding))
