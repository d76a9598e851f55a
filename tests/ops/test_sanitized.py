# SPDX-License-Identifier: Apache-2.0
"""What the sanitizers find fails, and the failure says where."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.ops.sanitized import sanitized

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
