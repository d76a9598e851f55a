# SPDX-License-Identifier: Apache-2.0
"""How wide instructions are, against what assemblers make of them."""

from __future__ import annotations

import itertools
import re
from pathlib import Path

import pytest

from tinyc.base.errors import TinycError
from tinyc.board import load_board
from tinyc.machine.encoding import can_be_wide, is_short
from tinyc.machine.lines import emitted, line_of, wide
from tinyc.machine.op import Decoded
from tinyc.machine.thumb_features import CONDITIONS
from tinyc.toolchain.compilers import find_toolchain
from tinyc.toolchain.disassembly import disassemble
from tinyc.toolchain.elf import read_elf

_THREE = "add adds sub subs and ands orrs bics eors adcs sbcs rors mul"
_TWO = "mov movs cmp cmn tst mvn mvns adds ands"
_LOADS = "ldr str ldrb strb ldrh strh ldrsb ldrsh"
_OFFSETS = (0, 1, 2, 4, 31, 32, 62, 64, 124, 128, 255, 1020, 1024)
_PLACES = ("]", ", #-4]", ", #4]!", "], #4", ", r4]", ", r9]", ", r4, lsl #2]")
_OTHERS = """ldm r1, {r1, r2}; push {r4-r7, lr}; push {r4-r8, lr}; pop {r4-r7, pc}; pop {r4, r5, lr}; push {r4, r5};
bx lr; nop; smlad r0, r1, r2, r0; ldrd r0, r1, [r2]; muls r1, r2, r1; vmov r0, s0; ssat r0, #8, r1; movt r1, #1"""


def _every(form: str, *choices: object) -> list[str]:
    """The form with each choice in each of its places."""
    lists = [choice.split() if isinstance(choice, str) else choice for choice in choices]
    return [form.format(*picked) for picked in itertools.product(*lists)]  # type: ignore[arg-type]


def _cases() -> list[str]:
    """Every operand that decides, at both sides of its limits."""
    sums = "add adds sub subs rsb rsbs"
    return [
        *_every("{} {}, {}, {}", _THREE, "r0 r1 r9", "r0 r1 r9", "r0 r1 r9"),
        *_every("{} {}, {}", _TWO, "r0 r7 r8", "r0 r7 r8"),
        *_every("{} {}, #{}", "mov movs cmp movw adds subs", "r1 r9", (0, 7, 8, 255)),
        *_every("{} {}, #{}", sums, ("r1, r1", "r1, r2", "r9, r9"), (0, 1, 7, 8, 255, 256)),
        *_every("{} {}, #{}", "lsl lsls lsrs asr asrs", ("r1, r2", "r9, r1"), (1, 16, 31)),
        *_every("{} {}, sp, #{}", "add sub", "sp r1 r9", (4, 6, 508, 512, 1020, 1024)),
        *_every("{} {}, [{}, #{}]", _LOADS, "r2 r9", "r3 r10 sp", _OFFSETS),
        *_every("{} r2, [r3{}", "ldr strb", _PLACES),
        *_every("{} {}, [r3, r4]", _LOADS, "r2 r9"),
        *_every("{} {}, {{{}}}", "ldm stm", "r0 r0! r2 r8!", ("r1, r2", "r1, r2, r9", "r3-r7")),
        *_every("{} {}", "sxtb sxth uxtb uxth rev sxtb16", ("r1, r2", "r1, r9")),
        *_every("{} r1, r2, ror #8", "sxtb uxth uxtb16"),
        *(case.strip() for case in _OTHERS.split(";")),
    ]


_IN_IT = [
    *_every("{} {}, {}", "mov", "r0 r9", ("r1", "#1", "#256")),
    *_every("{} {}", "add sub lsl", ("r0, r0, #1", "r0, r1, #9", "r1, r1, #20", "r9, r1, #1")),
    *("and r0, r0, r1", "and r0, r1, r2", "add r0, r1, r2", "mvn r0, r1", "cmp r0, r1", "ldr r0, [r1]"),
]


def _sizes(lines: list[str], folder: Path, compiler: str) -> list[int]:
    """Bytes of each instruction, between two that no assembler shortens."""
    try:
        chain = find_toolchain(load_board("cortex-m4"), compiler)
    except TinycError as error:
        pytest.skip(error.message)
    source, program = folder / "code.s", folder / "code.elf"
    source.write_text("\n".join([".syntax unified", ".thumb", ".text", ".global start", "start:", *lines]) + "\n")
    chain.run(["-nostdlib", "-Wl,-e,start", source, "-o", program], "assembling")
    return [instruction.size for instruction in disassemble(read_elf(program)).values()]


@pytest.mark.parametrize("compiler", ["gcc", "zig"])
def test_widths_are_those_of_assemblers(compiler: str, tmp_path: Path) -> None:
    cases = _cases()
    conditional = [re.sub(r"^(\w+)", r"\1ne", case) for case in _IN_IT]
    lines = [*cases, *itertools.chain.from_iterable(("it ne", case) for case in conditional)]
    sizes = _sizes(lines, tmp_path, compiler)
    assert len(sizes) == len(lines)
    said = [2 if is_short(_op(case)) else 4 for case in cases]
    for case in _IN_IT:
        said += [2, 2 if is_short(_op(case), in_it=True) else 4]
    different = [(line, size, own) for line, size, own in zip(lines, sizes, said, strict=True) if size != own]
    assert different == []


@pytest.mark.parametrize("compiler", ["gcc", "zig"])
def test_what_may_be_wide_is_wide_where_it_is_asked_for(compiler: str, tmp_path: Path) -> None:
    short = [case for case in _cases() if is_short(_op(case)) and can_be_wide(_op(case))]
    assert len(short) > 100
    sizes = _sizes([re.sub(r"^(\w+)", r"\1.w", case) for case in short], tmp_path, compiler)
    assert [case for case, size in zip(short, sizes, strict=True) if size != 4] == []


@pytest.mark.parametrize("compiler", ["gcc", "zig"])
def test_sp_is_copied_in_32_bits_by_an_addition(compiler: str, tmp_path: Path) -> None:
    """Renode 1.16.1 takes `mov.w rd, sp` for undefined."""
    lines = [wide(line_of("mov", (register, "sp"))).text for register in ("r0", "r7", "r11", "lr")]
    assert lines[2] == "add.w  r11, sp, #0"
    assert _sizes(lines, tmp_path, compiler) == [4] * 4


@pytest.mark.parametrize(
    "line", ["mov.w r0, sp", "movs r0, sp", "orr r0, r1, sp, lsl #2", "orrs r0, r0, pc", "lsl r0, sp, #2"]
)
def test_moves_of_sp_in_32_bits_are_never_written(line: str) -> None:
    mnemonic, _, operands = line.partition(" ")
    with pytest.raises(ValueError, match="undefined in Renode"):
        line_of(mnemonic, tuple(operands.split(", ")))


def _op(case: str) -> Decoded:
    mnemonic, _, operands = case.partition(" ")
    return emitted(mnemonic, operands)


@pytest.mark.parametrize("condition", sorted(CONDITIONS - {"cs", "cc"}))
def test_conditions_of_what_is_written_are_seen(condition: str) -> None:
    """An instruction whose condition is not seen has no meaning, and gets an order as if it always ran."""
    moved, branch = emitted(f"mov{condition}", "r1, r2"), emitted(f"b{condition}.w", "there")
    assert (moved.instruction.mnemonic, moved.instruction.condition) == ("mov", condition)
    assert (branch.instruction.mnemonic, branch.instruction.condition) == ("b", condition)
