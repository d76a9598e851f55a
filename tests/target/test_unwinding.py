# SPDX-License-Identifier: Apache-2.0
"""Whatever flags a library is compiled with, the assembler takes what functions in assembly tell of their callers."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest
from unwound import frames

from tinyc.base.paths import runtime_dir
from tinyc.machine.cores import CORTEX_M4
from tinyc.machine.thumb import Asm, naked_function


def _function() -> str:
    asm = Asm(CORTEX_M4)
    asm.op("push", "{r4-r11, lr}")
    asm.op("vpush", "{s16, s17}")
    asm.op("sub", "sp", "sp", "#12")
    asm.branch("bl", "subroutine")
    asm.op("add", "sp", "sp", "#12")
    asm.op("vpop", "{s16, s17}")
    asm.op("pop", "{r4-r11, pc}")
    asm.label("subroutine", aligned=True)
    asm.op("bx", "lr")
    return naked_function("subject", ("int8_t *y",), asm)


TARGET = "-mcpu=cortex-m4 -mthumb -mfloat-abi=hard -mfpu=fpv4-sp-d16"
CLANG = "clang --target=arm-none-eabi"
WARNED = "-std=c99 -ffreestanding -fomit-frame-pointer -Wall -Wextra -Wpedantic -Werror"


@pytest.mark.parametrize(
    ("compiler", "flags", "found"),
    [
        ("arm-none-eabi-gcc", "-g", True),
        ("arm-none-eabi-gcc", "-g -Os", True),
        ("arm-none-eabi-gcc", "", False),
        ("arm-none-eabi-gcc", "-funwind-tables -fasynchronous-unwind-tables -fexceptions", False),
        ("arm-none-eabi-gcc", "-g -fno-dwarf2-cfi-asm", False),
        ("arm-none-eabi-gcc", "-g -DTC_UNWIND=0", False),
        (CLANG, "-g -DTC_UNWIND=1", True),
        (CLANG, "-g", False),
        (CLANG, "-funwind-tables -fasynchronous-unwind-tables -fexceptions", False),
    ],
)
def test_every_way_to_compile(compiler: str, flags: str, found: bool, tmp_path: Path) -> None:
    program = compiler.partition(" ")[0]
    if shutil.which(program) is None:
        pytest.skip(f"{program} is not installed")
    calls = "void call(int8_t *y);\nvoid call(int8_t *y)\n{\n    subject(y);\n}\n"
    (tmp_path / "subject.c").write_text(f'#include "tc_compiler.h"\n{_function()}{calls}')
    command = f"{compiler} {TARGET} {WARNED} -I {runtime_dir()} {flags} -c subject.c"
    subprocess.run(command.split(), cwd=tmp_path, check=True)
    tables = frames(tmp_path / "subject.o").values() if "-g" in flags else ()
    depths = {row["cfa"].offset for table in tables for row in table}
    assert found == (depths >= {36, 44, 56})
