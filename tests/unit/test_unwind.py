# SPDX-License-Identifier: Apache-2.0
"""What the assembler is told of a function's caller; tests/target/test_interpreted.py: whether it is found there."""

from __future__ import annotations

import pytest

from tinyc.machine.cores import CORES, CORTEX_M4
from tinyc.machine.riscv import RiscvAsm
from tinyc.machine.thumb import Asm, naked_function


def test_pushes_and_pops_are_followed():
    asm = Asm(CORTEX_M4)
    asm.op("push", "{r1, r4, r5, lr}")
    asm.op("sub", "sp", "sp", "#8")
    asm.op("add", "sp", "sp", "#12")
    asm.op("pop", "{r4, r5, pc}")
    assert asm.unwinding() == {
        1: [".cfi_def_cfa_offset 16; .cfi_offset r4, -12; .cfi_offset r5, -8; .cfi_offset lr, -4"],
        2: [".cfi_def_cfa_offset 24"],
        3: [".cfi_def_cfa_offset 12"],
    }


def test_registers_of_the_fpu_are_told_in_pairs_and_given_back():
    asm = Asm(CORTEX_M4)
    asm.op("vpush", "{s16, s17, s18, s19}")
    asm.op("vpop", "{d8-d9}")
    asm.op("bx", "lr")
    assert asm.unwinding() == {
        1: [".cfi_def_cfa_offset 16; .cfi_offset d8, -16; .cfi_offset d9, -8"],
        2: [".cfi_def_cfa_offset 0; .cfi_restore d8; .cfi_restore d9"],
    }


def test_code_behind_the_return_has_the_frame_of_its_callers():
    asm = Asm(CORTEX_M4)
    asm.op("push", "{r4, lr}")
    asm.op("sub", "sp", "sp", "#8")
    asm.branch("bl", "subroutine")
    asm.op("add", "sp", "sp", "#8")
    asm.op("pop", "{r4, pc}")
    asm.label("subroutine")
    asm.op("bx", "lr")
    assert asm.unwinding() == {
        1: [".cfi_def_cfa_offset 8; .cfi_offset r4, -8; .cfi_offset lr, -4"],
        2: [".cfi_def_cfa_offset 16"],
        4: [".cfi_remember_state", ".cfi_def_cfa_offset 8"],
        5: [".cfi_restore_state"],
    }


def test_a_subroutine_that_is_called_from_several_depths_has_no_known_caller():
    asm = Asm(CORTEX_M4)
    asm.op("push", "{r4, lr}")
    asm.branch("bl", "subroutine")
    asm.op("sub", "sp", "sp", "#64")
    asm.branch("bl", "subroutine")
    asm.op("add", "sp", "sp", "#64")
    asm.op("pop", "{r4, pc}")
    asm.label("subroutine")
    asm.op("bx", "lr")
    assert asm.unwinding()[6] == [".cfi_undefined lr"]


def test_a_stack_pointer_that_nobody_can_follow_is_refused():
    asm = Asm(CORTEX_M4)
    asm.op("mov", "sp", "r4")
    with pytest.raises(ValueError, match="mov sp, r4: a debugger could not follow"):
        asm.unwinding()


def test_a_function_has_notes_and_unwinding_between_its_strings():
    asm = Asm(CORTEX_M4)
    asm.note("registers to the stack")
    asm.op("push", "{r4, lr}")
    asm.op("pop", "{r4, pc}")
    lines = [line.strip() for line in naked_function("f", [], asm).splitlines()]
    at = lines.index("/* registers to the stack */")
    assert lines[at + 1].startswith('"push ')
    assert lines[at + 2] == 'TC_CFI(".cfi_def_cfa_offset 8; .cfi_offset r4, -8; .cfi_offset lr, -4")'
    assert asm.lines == 2


def test_high_registers_are_saved_by_copies_and_come_back_by_copies():
    asm = Asm(CORES["cortex-m0plus"])
    asm.op("push", "{r3, r4, lr}")
    asm.op("mov", "r4", "r8")
    asm.op("push", "{r4}")
    asm.op("mov", "r8", "r0")
    asm.op("pop", "{r4}")
    asm.op("mov", "r8", "r4")
    asm.op("pop", "{r3, r4, pc}")
    assert asm.unwinding() == {
        1: [".cfi_def_cfa_offset 12; .cfi_offset r4, -8; .cfi_offset lr, -4"],
        3: [".cfi_def_cfa_offset 16; .cfi_offset r8, -16"],
        5: [".cfi_def_cfa_offset 12; .cfi_register r8, r4"],
        6: [".cfi_restore r8"],
    }


def test_what_rv32_stores_is_the_callers_until_the_stack_ends_above_it():
    asm = RiscvAsm()
    asm.add("sp", "sp", -32)
    asm.words("sw", ("s1", "ra", "a0"), "sp", 8)
    asm.op("sw", "s1", "0(sp)")
    asm.words("lw", ("s1", "ra"), "sp", 8)
    asm.add("sp", "sp", 32)
    asm.op("ret")
    assert asm.unwinding() == {
        1: [".cfi_def_cfa_offset 32"],
        2: [".cfi_offset s1, -24"],
        3: [".cfi_offset ra, -20"],
        8: [".cfi_def_cfa_offset 0; .cfi_restore s1; .cfi_restore ra"],
    }


def test_a_stack_pointer_that_cannot_be_followed_is_refused_on_rv32():
    asm = RiscvAsm()
    asm.op("add", "sp", "sp", "a0")
    with pytest.raises(ValueError, match="could not follow"):
        asm.unwinding()
