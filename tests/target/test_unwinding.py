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
from tinyc.machine.riscv import RiscvAsm
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
    ("compiler", "flags", "is_told"),
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
def test_every_way_to_compile(compiler: str, flags: str, is_told: bool, tmp_path: Path) -> None:
    depths = _depths(f"{compiler} {TARGET}", flags, _function(), tmp_path)
    assert is_told == (depths >= {36, 44, 56})


@pytest.mark.parametrize(
    ("compiler", "flags", "is_told"),
    [
        ("riscv64-unknown-elf-gcc", "-g -Os", True),
        ("riscv64-unknown-elf-gcc", "", False),
        ("riscv64-unknown-elf-gcc", "-g -DTC_UNWIND=0", False),
        ("clang --target=riscv32-none-elf", "-g -DTC_UNWIND=1", True),
        ("clang --target=riscv32-none-elf", "-g", False),
    ],
)
def test_rv32_too(compiler: str, flags: str, is_told: bool, tmp_path: Path) -> None:
    asm = RiscvAsm()
    asm.add("sp", "sp", -48)
    asm.words("sw", ("s0", "s11", "ra"), "sp", 4)
    asm.op("li", "s0", "0")
    asm.words("lw", ("s0", "s11", "ra"), "sp", 4)
    asm.add("sp", "sp", 48)
    asm.op("ret")
    text = asm.function("subject", ("int8_t *y",))
    depths = _depths(f"{compiler} -march=rv32imc -mabi=ilp32", flags, text, tmp_path)
    assert is_told == (48 in depths)


def _depths(command: str, flags: str, function: str, folder: Path) -> set[int]:
    """Bytes that the frames say there are from the stack pointer to the caller's; none where nothing is told."""
    program = command.partition(" ")[0]
    if shutil.which(program) is None or ("riscv" in command and shutil.which("riscv64-unknown-elf-ld") is None):
        pytest.skip(f"{program} is not installed")
    calls = "void call(int8_t *y);\nvoid call(int8_t *y)\n{\n    subject(y);\n}\n"
    (folder / "subject.c").write_text(f'#include "tc_compiler.h"\n{function}{calls}')
    given = f"{command} {WARNED} -I {runtime_dir() / 'base'} {flags} -c subject.c"
    subprocess.run(given.split(), cwd=folder, check=True)
    if "riscv" in command:  # whose relocations pyelftools does not know
        linked = "riscv64-unknown-elf-ld -m elf32lriscv -e call subject.o -o subject.elf"
        subprocess.run(linked.split(), cwd=folder, check=True)
    file = folder / ("subject.elf" if "riscv" in command else "subject.o")
    tables = frames(file).values() if "-g" in flags else ()
    return {row["cfa"].offset for table in tables for row in table}
