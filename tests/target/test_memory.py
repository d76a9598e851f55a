# SPDX-License-Identifier: Apache-2.0
"""The harness's own memcpy, memmove and memset against slow ones, at every alignment, under the sanitizers."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from tinyc.base import paths
from tinyc.base.errors import TinycError
from tinyc.board import load_board
from tinyc.toolchain.compile import HARNESS_FLAGS, SANITIZE_FLAGS
from tinyc.toolchain.compilers import find_toolchain

RENAMED = [f"-D{name}=tested_{name}" for name in ("memcpy", "memmove", "memset")]

PROGRAM = r"""
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
void *memcpy(void *restrict to, const void *restrict from, size_t bytes);
void *memmove(void *to, const void *from, size_t bytes);
void *memset(void *to, int value, size_t bytes);

enum { SIZE = 128, LONGEST = 41 };
static uint32_t got_words[SIZE / 4], want_words[SIZE / 4], from_words[SIZE / 4];
static uint8_t *got = (uint8_t *)got_words, *want = (uint8_t *)want_words, *from = (uint8_t *)from_words;

static void fill(void)
{
    for (int i = 0; i < SIZE; i++) {
        got[i] = want[i] = (uint8_t)(i * 7 + 1);
        from[i] = (uint8_t)(i * 13 + 5);
    }
}

static int differs(void *returned, void *to)
{
    for (int i = 0; i < SIZE; i++) {
        if (got[i] != want[i]) return 1;
    }
    return returned != to;
}

int main(void)
{
    for (size_t to = 0; to < 8; to++) {
        for (size_t n = 0; n < LONGEST; n++) {
            for (size_t at = 0; at < 8; at++) {
                fill();
                for (size_t i = 0; i < n; i++) want[to + i] = from[at + i];
                if (differs(memcpy(got + to, from + at, n), got + to)) return printf("memcpy %zu %zu %zu\n", to, at, n);
            }
            for (size_t at = 0; at < 64; at++) {
                fill();
                for (size_t i = 0; i < n; i++) want[24 + to + i] = (uint8_t)((at + i) * 7 + 1);
                if (differs(memmove(got + 24 + to, got + at, n), got + 24 + to)) {
                    return printf("memmove %zu %zu %zu\n", to, at, n);
                }
            }
            fill();
            for (size_t i = 0; i < n; i++) want[to + i] = 0xA5;
            if (differs(memset(got + to, 0x3A5, n), got + to)) return printf("memset %zu %zu\n", to, n);
        }
    }
    return 0;
}
"""


@pytest.mark.parametrize("compiler", ["gcc", "clang"])
def test_memory_functions(tmp_path: Path, compiler: str) -> None:
    try:
        toolchain = find_toolchain(load_board("host"), compiler)
    except TinycError as error:
        pytest.skip(error.message)
    program = tmp_path / "program.c"
    program.write_text(PROGRAM)
    memory = paths.templates_dir() / "firmware" / "memory.c"
    flags = ["-std=c99", "-O2", *SANITIZE_FLAGS, *HARNESS_FLAGS[toolchain.family], *RENAMED]
    toolchain.run([*flags, program, memory, "-o", tmp_path / "program"], "the test of memory.c")
    done = subprocess.run([tmp_path / "program"], capture_output=True, text=True, check=False, timeout=60)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
