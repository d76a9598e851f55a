# SPDX-License-Identifier: Apache-2.0
"""What the sanitized programs of tests would see: undefined behavior and stray accesses, with the line of each."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from tests.ops.sanitized import COMPILER, sanitized

PROGRAM = """#include <stdint.h>
static int32_t at(const int32_t *x, int i)
{
    return x[i];
}

int main(int argc, char **argv)
{
    (void)argv, (void)at;
    const int32_t x[2] = {INT32_MAX, argc};
    return RESULT;
}
"""


@pytest.mark.parametrize("compiler", [COMPILER, "gcc"])
@pytest.mark.parametrize(
    ("result", "said"),
    [
        ("x[0] + x[1] == 3", "unit.c:11:.*signed integer overflow"),
        ("1 << (x[1] + 31)", "unit.c:11:.*shift exponent 32"),
        ("at(x, argc + 1) * 0", "stack-buffer-overflow"),
    ],
    ids=["overflow", "shift", "access"],
)
def test_what_is_undefined_ends_a_program_with_the_line(tmp_path: Path, compiler: str, result: str, said: str) -> None:
    if shutil.which(compiler) is None:
        pytest.skip(f"{compiler} is not installed")
    (tmp_path / "unit.c").write_text(PROGRAM.replace("RESULT", result), encoding="utf-8")
    with pytest.raises(AssertionError, match=said):
        sanitized(tmp_path, ["unit.c"], b"", compiler)


def test_a_right_program_ends_with_its_answer(tmp_path: Path) -> None:
    if shutil.which(COMPILER) is None:
        pytest.skip(f"{COMPILER} is not installed")
    (tmp_path / "unit.c").write_text(PROGRAM.replace("RESULT", "at(x, argc) - 1"), encoding="utf-8")
    assert sanitized(tmp_path, ["unit.c"], b"") == b""
