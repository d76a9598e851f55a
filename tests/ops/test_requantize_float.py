# SPDX-License-Identifier: Apache-2.0
"""Rounding.FLOAT: one float32 product, halves to even. Python equals C bit for bit, also beside every half."""

from __future__ import annotations

import ctypes
import subprocess
from pathlib import Path

import numpy as np
import pytest

from tinyc.base.numerics import Rounding
from tinyc.base.paths import runtime_dir
from tinyc.base.requantize import float_factor, quantize_multipliers, requantize
from tinyc.ir.graph import Array

SOURCE = """
#include "tc_math.h"
void run(int n, const int32_t *acc, const int32_t *bits, int32_t *y);
void run(int n, const int32_t *acc, const int32_t *bits, int32_t *y)
{
    for (int i = 0; i < n; i++) y[i] = tc_requantize(acc[i], bits[i], 0, 3);
}
"""


def cases(count: int) -> tuple[Array, Array]:
    """Accumulators of every size and float32 factors in [2^-32, 2^8), half of them near a half when scaled."""
    rng = np.random.default_rng(3)
    acc = (rng.integers(-(2**31), 2**31, count) >> rng.integers(0, 31, count)).astype(np.int32)
    factors = np.ldexp(rng.uniform(0.5, 1, count), rng.integers(-31, 9, count)).astype(np.float32)
    factors[: count // 8] = np.ldexp(1.0, rng.integers(-31, 8, count // 8))  # exact halves occur
    near = (rng.integers(-300, 300, count // 2) + 0.5) / factors[: count // 2]
    fits = np.abs(near) < 2**31 - 1
    acc[: count // 2] = np.where(fits, np.rint(np.where(fits, near, 0)), acc[: count // 2])
    return acc, factors


def test_python_is_the_float_product() -> None:
    acc, factors = cases(200_000)
    mult, shift = quantize_multipliers(factors)
    np.testing.assert_array_equal(float_factor(mult, shift), factors)
    expected = np.clip(np.rint(acc.astype(np.float32) * factors), -(2**21), 2**21)
    np.testing.assert_array_equal(requantize(acc, mult, shift, Rounding.FLOAT), expected)


BUILDS = {
    "sanitized": ["-O0", "-fsanitize=undefined", "-fno-sanitize-recover=all"],
    "contracted": ["-O3", "-march=native", "-ffp-contract=fast"],
}


@pytest.mark.parametrize("flags", BUILDS.values(), ids=BUILDS)
def test_c_equals_python(tmp_path: Path, flags: list[str]) -> None:
    source, library = tmp_path / "run.c", tmp_path / "run.so"
    source.write_text(SOURCE)
    warnings = ["-std=c99", "-Wall", "-Wextra", "-Wpedantic", "-Wconversion", "-Werror"]
    headers = runtime_dir() / "base"
    command = ["gcc", *warnings, *flags, "-shared", "-fPIC", f"-I{headers}", str(source), "-o", str(library)]
    subprocess.run(command, check=True)
    acc, factors = cases(1_000_000)
    y = np.empty_like(acc)
    pointers = [ctypes.c_void_p(a.ctypes.data) for a in (acc, factors, y)]
    ctypes.CDLL(str(library)).run(len(acc), *pointers)
    expected = np.clip(np.rint(acc.astype(np.float32) * factors), -(2**21), 2**21)
    np.testing.assert_array_equal(y, expected)
