# SPDX-License-Identifier: Apache-2.0
"""What the sanitizers find fails, and the failure says where."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from tests.ops.sanitized import COMPILER, sanitized

PROGRAM = """
#include <stdio.h>
#include <stdlib.h>
int main(int count, char **words)
{{
    char *bytes = calloc(4, 1);
    (void)words;
    {statement}
    printf("%d", bytes[0]);
    free(bytes);
    return 0;
}}
"""


@pytest.mark.parametrize(
    ("statement", "said"),
    [
        ("bytes[3 + count] = 1;", "heap-buffer-overflow"),
        ("bytes[0] = (char)((2147483647 + count) & 1);", "signed integer overflow"),
        ("exit(2 + count);", "exit status 3"),
        ("unused = 1;", "undeclared identifier"),
    ],
)
def test_what_is_wrong_is_said(tmp_path: Path, statement: str, said: str) -> None:
    (tmp_path / "main.c").write_text(PROGRAM.format(statement=statement))
    with pytest.raises(AssertionError, match=said) as raised:
        sanitized(tmp_path, ["main.c"], b"")
    assert "main.c:8" in str(raised.value) or "exit status 3" in said


def test_what_is_right_answers(tmp_path: Path) -> None:
    (tmp_path / "main.c").write_text(PROGRAM.format(statement="bytes[count] = 1;"))
    assert sanitized(tmp_path, ["main.c"], b"") == b"0"


UNDEFINED = """#include <stdint.h>
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
    (tmp_path / "unit.c").write_text(UNDEFINED.replace("RESULT", result), encoding="utf-8")
    with pytest.raises(AssertionError, match=said):
        sanitized(tmp_path, ["unit.c"], b"", compiler)
