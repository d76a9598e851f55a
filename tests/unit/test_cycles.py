# SPDX-License-Identifier: Apache-2.0
"""The timing rules on hand-counted pieces of code, and what they read of an instruction. docs/cycles.md has the
sources of the rules; a figure changes here only when a rule changes there."""

from __future__ import annotations

import re

import pytest

from tinyc.board.instruction_set import THUMB
from tinyc.explain.cycles import core_of
from tinyc.machine.cores import Core
from tinyc.machine.instruction import Instruction
from tinyc.machine.op import Decoded, parse
from tinyc.machine.rv32_table import parse_riscv
from tinyc.machine.table import Kind
from tinyc.toolchain.disassembly import decode


def ops(code: str, start: int = 0x100) -> list[Decoded]:
    """Instructions from text, one per `;`. `.w` makes a long one; a condition is given as `bne` or `movne`."""
    decoded = []
    for text in code.split(";"):
        mnemonic, _, operands = text.strip().partition(" ")
        name, _, width = mnemonic.partition(".w")
        size = 4 if mnemonic.endswith(".w") else 2
        condition = ""
        if match := re.fullmatch(r"(b|mov|pop|bx|add)(ne|eq|lt|ge)", name):
            name, condition = match[1], match[2]
        decoded.append(parse(Instruction(start, bytes(size), name + width, operands, condition)))
        start += size
    return decoded


def core(name: str) -> Core:
    core_model = core_of(name)
    assert core_model is not None
    return core_model


def cycles(code: str, name: str = "cortex-m4", after: str = "") -> list[int]:
    return list(core(name).costs(ops(code), ops(after) if after else ()))  # type: ignore[arg-type]


M4 = [
    # data processing
    ("adds r0, r1, r2; mov r3, r0", [1, 1]),
    ("mul r0, r1, r2; mla r0, r1, r2, r3; smull r0, r1, r2, r3; smlad r0, r1, r2, r3", [1, 1, 1, 1]),
    ("sdiv r0, r1, r2", [6]),
    ("sxtb16 r0, r1, ror #8; ssat r0, #8, r1, asr #3; nop", [1, 1, 1]),
    # loads and stores: the manual's four examples
    ("ldr r0, [r1]; ldr r1, [r2]", [2, 1]),
    # which gives a load with two registers in its address 2 cycles; measured are 3, when it follows no load
    ("ldr r0, [r1, r2]; str r0, [r3, #0x14]", [3, 1]),
    ("ldr r0, [r1, r2]; str r1, [r3, r2]", [3, 1]),
    ("ldr r0, [r1, r5]; ldr r1, [r2]; ldr r2, [r3, #4]", [3, 1, 1]),
    ("ldr r0, [r1]; ldr r1, [r2, r5]; ldr r2, [r1, r5]", [2, 1, 2]),
    # right behind a store
    ("str r0, [r1]; str r0, [r1, #4]; nop; str r0, [r1]", [1, 2, 1, 1]),
    ("str r0, [r1]; ldr r0, [r1]; ldr r2, [r1]", [1, 3, 1]),
    ("str r0, [r1]; stm r0!, {r1, r2}; ldr r0, [r1]", [1, 3, 2]),
    # a load whose address was just loaded, and one after something else
    ("ldr r0, [r1]; ldr r2, [r0]", [2, 2]),
    ("ldr r0, [r1]; nop; ldr r2, [r3]", [2, 1, 2]),
    ("ldr r0, [r1], #4; ldrsb r2, [r1]", [2, 2]),
    ("ldr r0, [r1]; ldr r2, [r3], #4; ldr r4, [r5, #4]!; ldr r6, [r7]", [2, 2, 2, 1]),
    ("str r0, [r1]; str r0, [r1, r2]; str r0, [r1, r2]", [1, 3, 3]),
    ("ldrd r0, r1, [r2]; strd r0, r1, [r2]; ldr r3, [r2]", [3, 3, 2]),
    ("ldm r0!, {r1, r2, r3, r4}; push {r4, lr}; pop {r4, r5, r6}; stm r0!, {r1}", [5, 3, 4, 2]),
    # an address that the instruction before has computed
    ("add r0, r0, #4; ldr r1, [r0]", [1, 3]),
    ("adds r0, #4; str r1, [r0]", [1, 2]),
    ("adds r0, #4; ldm r0!, {r1, r2}", [1, 4]),
    ("adds r0, #4; str r0, [r1]", [1, 1]),
    ("cmp r0, r1; ldr r2, [r0]", [1, 2]),
    ("sub sp, #8; push {r0, r1}", [1, 4]),
    # branches that are not taken, IT
    ("cmp r0, r1; bne #0x100", [1, 1]),
    ("adds r0, #1; it ne; movne r0, r1", [1, 0, 1]),
    ("add.w r0, r0, #1; it ne; movne r0, r1", [1, 1, 1]),
    ("tbb [pc, r0]", [3]),
    # floating point
    ("vmul.f32 s0, s1, s2; vadd.f32 s3, s4, s5", [1, 1]),
    ("vmul.f32 s0, s1, s2; vadd.f32 s3, s0, s5", [1, 2]),
    ("vmla.f32 s0, s1, s2; vdiv.f32 s3, s0, s1; vsqrt.f32 s4, s5", [3, 15, 14]),
    ("vldr s0, [r0]; vstr d1, [r0]; vldm r0!, {s0, s1, s2}", [2, 3, 4]),
    ("vmov r0, r1, d0; vmov s0, r0", [2, 1]),
    ("vmov r0, s0; add r1, r0, r2; vmov s0, r1; vmov r2, s0", [1, 1, 1, 2]),
    # three long instructions that are not word aligned (0x100 is), behind a short one or one of several cycles
    ("nop; mla.w r0, r1, r2, r3; mla.w r0, r1, r2, r3; mla.w r0, r1, r2, r3; mla.w r0, r1, r2, r3", [1, 1, 1, 2, 1]),
    ("nop; nop; mla.w r0, r1, r2, r3; mla.w r0, r1, r2, r3; mla.w r0, r1, r2, r3", [1, 1, 1, 1, 1]),
    ("nop; mla.w r0, r1, r2, r3; mla.w r0, r1, r2, r3; nop; mla.w r0, r1, r2, r3", [1, 1, 1, 1, 1]),
    ("nop; ldr.w r8, [r1]; mla.w r0, r1, r2, r3; mla.w r0, r1, r2, r3; mla.w r0, r1, r2, r3", [1, 2, 1, 1, 2]),
    ("mla.w r0, r1, r2, r3; ldr.w r8, [r1]; mla.w r0, r1, r2, r3; mla.w r0, r1, r2, r3", [1, 2, 1, 1]),
]


@pytest.mark.parametrize(("code", "expected"), M4)
def test_m4(code: str, expected: list[int]) -> None:
    assert cycles(code) == expected


def test_first_instruction_of_a_piece_looks_at_what_ran_before() -> None:
    assert cycles("ldr r0, [r1]") == [2]
    assert cycles("ldr r0, [r1]", after="ldr r2, [r3]") == [1]
    assert cycles("ldr r0, [r1]", after="adds r1, #4") == [3]
    run = "nop; mla.w r0, r1, r2, r3; mla.w r0, r1, r2, r3; mla.w r0, r1, r2, r3"
    every = ops(run)
    assert core("cortex-m4").costs(every[3:], every[:3]) == [2]
    assert core("cortex-m4").costs(every[3:], every[1:3]) == [1]


@pytest.mark.parametrize(
    ("before", "branch", "more"),
    [
        ("nop; nop; subs r0, #1", "bne #0x200", 2),
        ("nop; cmp r0, r1; ldr r0, [r1]", "bne #0x200", 2),
        ("cmp r0, r1; ldr r0, [r1]; nop", "bne #0x200", 1),
        ("cmp r0, r1", "b #0x200", 1),  # nothing to wait for
        ("cmp r0, r1", "cbz r0, #0x200", 1),
        ("", "bne #0x200", 1),
    ],
)
def test_a_branch_waits_for_fresh_flags(before: str, branch: str, more: int) -> None:
    (op,) = ops(branch)
    assert core("cortex-m4").taken(op, NARROW_ODD, ops(before) if before else ()) == more


@pytest.mark.parametrize(
    ("name", "code", "expected"),
    [
        ("cortex-m3", "mul r0, r1, r2; mla r0, r1, r2, r3; mls r0, r1, r2, r3", [1, 2, 2]),
        ("cortex-m3", "smull r0, r1, r2, r3; umlal r0, r1, r2, r3", [5, 7]),
        ("cortex-m3", "ldr r0, [r1]; ldr r2, [r3]; str r0, [r3, r4]", [2, 1, 1]),
        ("cortex-m0plus", "ldr r0, [r1]; ldr r2, [r0]; str r0, [r1, r2]", [2, 2, 2]),
        ("cortex-m0plus", "muls r0, r1, r0; push {r4, r5, lr}; pop {r4}; mrs r0, ipsr", [1, 4, 2, 3]),
        ("cortex-m33", "ldr r0, [r1]; ldr r2, [r3]; add r2, r2, #1; smlad r0, r1, r2, r3", [1, 1, 2, 1]),
        ("cortex-m33", "ldm r0!, {r1, r2, r3}; ldrd r4, r5, [r9]; strd r4, r5, [r9]; push {r4, lr}", [3, 2, 2, 2]),
        # loaded, then added to, stored, a factor, an address
        ("cortex-m33", "ldr r0, [r1]; mla r2, r3, r4, r0; ldr r0, [r1]; str r0, [r2]", [1, 1, 1, 1]),
        ("cortex-m33", "ldr r0, [r1]; mla r2, r0, r4, r5; ldr r0, [r1]; ldr r3, [r0]", [1, 2, 1, 2]),
        ("cortex-m33", "ldr r0, [r1]; sxtab r2, r0, r3; ldr r0, [r1]; add.w r2, r0, r3, lsl #2", [1, 2, 1, 2]),
        # products chain by what they add to
        ("cortex-m33", "smlad r0, r1, r2, r0; smlad r0, r3, r4, r0; add r5, r0, r1", [1, 1, 2]),
        ("cortex-m33", "smlad r0, r1, r2, r0; smlad r5, r0, r4, r5; smull r1, r2, r3, r4; str r1, [r6]", [1, 2, 1, 1]),
        ("cortex-m33", "smlal r0, r1, r2, r3; smlal r0, r1, r4, r5; umaal r0, r1, r2, r3; mov r6, r1", [1, 1, 1, 2]),
        ("cortex-m33", "muls r0, r1, r0; mul.w r0, r1, r2; nop; add r0, r0, #1", [2, 1, 1, 1]),
        # both stages of execution
        ("cortex-m33", "sxtb16 r0, r1; smlad r2, r0, r3, r2; add.w r0, r1, r2, lsl #3; mov r4, r0", [1, 2, 2, 2]),
        ("cortex-m33", "sxtab16 r0, r1, r2; sxtab16 r0, r0, r3; uadd8 r1, r2, r3; orr r1, r1, r2", [1, 1, 1, 2]),
        ("cortex-m33", "lsl r0, r1, #3; mov r4, r0; bfi r0, r1, #0, #4; mov r4, r0", [1, 1, 1, 1]),
        # a short branch, and IT, behind a short instruction
        (
            "cortex-m33",
            "subs r7, #1; bne #0x200; add.w r0, r1, r2; bne #0x200; nop; it ne; movne r0, r1",
            [1, 0, 1, 1, 1, 0, 1],
        ),
        ("cortex-m7", "ldr r0, [r1]; smlad r2, r3, r4, r5", [1, 0]),
        ("cortex-m7", "ldr r0, [r1]; smlad r2, r3, r0, r5", [1, 2]),
        ("cortex-m7", "ldr r0, [r1]; smlad r2, r3, r4, r2; smlad r5, r3, r0, r5", [1, 0, 2]),  # of the cycle before
        ("cortex-m7", "ldrd r0, r6, [r1]; smlad r2, r3, r0, r2", [1, 2]),
        ("cortex-m7", "ldm r1, {r0, r6, r7}; smlad r2, r3, r0, r2; smlad r4, r3, r7, r4", [2, 1, 1]),
        ("cortex-m7", "smmla r0, r1, r2, r3; ssat r0, #8, r0, asr #3", [1, 3]),
        ("cortex-m7", "ssat r0, #8, r0; smlad r2, r3, r4, r2; smlad r2, r3, r4, r2; ssat r0, #8, r0", [1, 0, 1, 1]),
        ("cortex-m7", "ldr r0, [r1]; smlad r2, r3, r5, r0", [1, 1]),  # what is added to comes in time
        ("cortex-m7", "ldr r0, [r1]; add r2, r0, r3; ldrsb r0, [r1]; add r2, r0, r3", [1, 1, 0, 2]),
        ("cortex-m7", "ldr r0, [r1]; ldr r2, [r0]", [1, 2]),
        ("cortex-m7", "ldr r0, [r1]; ldr r2, [r1, #4]; ldr r0, [r1]; ldr r2, [r1, #8]; ldr r4, [r3]", [1, 0, 1, 1, 1]),
        ("cortex-m7", "ldr r0, [r1]; str r0, [r2]; str r3, [r2]; str r3, [r2]", [1, 0, 1, 1]),
        ("cortex-m7", "smlad r0, r1, r2, r0; str r3, [r4]; smlad r0, r1, r2, r0; add r0, r0, #1", [1, 1, 1, 2]),
        (
            "cortex-m7",
            "sxtb16 r0, r1; sxtb16 r2, r3; smlad r4, r5, r6, r4; sxtb16 r0, r1; add r7, r8, r9",
            [1, 1, 0, 1, 0],
        ),
        ("cortex-m7", "movw r0, #1; movt r0, #1; add r1, r2, r3; sub r1, r1, r3", [1, 0, 1, 1]),
        ("cortex-m7", "add r1, r2, r3, lsl #2; sub r4, r5, r6, lsl #2; add r7, r8, r9", [1, 1, 0]),
        ("cortex-m7", "adds r0, #1; adds r1, #1; adds r2, #1; adds r2, #1", [1, 0, 1, 1]),
        ("cortex-m7", "smlad r0, r1, r2, r0; smlad r3, r1, r2, r3", [1, 1]),
        ("cortex-m7", "ldrd r0, r1, [r2]; ldm r2!, {r3, r4, r5, r6}", [1, 2]),
    ],
)
def test_other_cores(name: str, code: str, expected: list[int]) -> None:
    assert cycles(code, name) == expected


# The arithmetic of inner loops, counted by hand with the manual's rules: code, multiply-accumulates, instructions,
# cycles. Weights of two channels share a word: smlad takes it as it is for one, and through sxtb16 for the other.
_ONE_WORD = "smlad r5, r1, {w}, r5; sxtb16 r8, {w}; smlad r6, r1, r8, r6; smlad r5, r2, {w}, r5; smlad r6, r2, r8, r6"
_TWO_WORDS = _ONE_WORD.format(w="r3") + "; " + _ONE_WORD.format(w="r4")
_X = "ldr r1, [r0]; ldr r2, [r0, #4]"
_W = "ldr r3, [r9]; ldr r4, [r9, #4]"
LOOPS = {
    "2 pixels, 2 channels": (f"{_X}; ldr r3, [r9]; {_ONE_WORD.format(w='r3')}", 8, 8, 9),
    "2 pixels, 4 channels, four loads in a row": (f"{_X}; {_W}; {_TWO_WORDS}", 16, 14, 15),
    "2 pixels, 4 channels, loads in pairs": (f"{_X}; sxtb16 r8, r3; {_W}; {_TWO_WORDS}", 16, 15, 17),
    "2 pixels, 4 channels, double loads": (f"ldrd r1, r2, [r0]; ldrd r3, r4, [r9]; {_TWO_WORDS}", 16, 12, 16),
}


@pytest.mark.parametrize(("code", "macs", "instructions", "expected"), LOOPS.values(), ids=LOOPS)
def test_inner_loops_on_the_m4(code: str, macs: int, instructions: int, expected: int) -> None:
    assert 2 * code.count("smlad") == macs
    assert len(ops(code)) == instructions
    assert sum(cycles(code)) == expected


WIDE_ALIGNED = Instruction(0x200, bytes(4), "ldr", "r0, [r1, #0x100]")
WIDE_ODD = Instruction(0x202, bytes(4), "ldr", "r0, [r1, #0x100]")
NARROW_ODD = Instruction(0x202, bytes(2), "nop", "")


@pytest.mark.parametrize(
    ("name", "code", "target", "more"),
    [
        ("cortex-m4", "bne #0x200", NARROW_ODD, 1),
        ("cortex-m4", "b #0x200", WIDE_ALIGNED, 1),
        ("cortex-m4", "cbz r0, #0x200", WIDE_ODD, 2),
        ("cortex-m4", "bl #0x200", None, 1),
        ("cortex-m4", "bx lr", NARROW_ODD, 2),
        ("cortex-m4", "pop {r4, pc}", WIDE_ODD, 3),
        ("cortex-m4", "ldr pc, [r0]", NARROW_ODD, 2),
        ("cortex-m4", "mov pc, lr", NARROW_ODD, 2),
        ("cortex-m0plus", "bne #0x200", NARROW_ODD, 1),
        ("cortex-m0plus", "bl #0x200", NARROW_ODD, 2),
        ("cortex-m0plus", "bx lr", NARROW_ODD, 1),
        ("cortex-m0plus", "pop {r4, pc}", NARROW_ODD, 2),
        ("cortex-m7", "bne #0x200", NARROW_ODD, 0),
        ("cortex-m7", "bx lr", NARROW_ODD, 1),
    ],
)
def test_taken_branches(name: str, code: str, target: Instruction | None, more: int) -> None:
    (op,) = ops(code)
    assert op.leaves
    assert core(name).taken(op, target) == more


@pytest.mark.parametrize(
    ("before", "branch", "cycles"),
    [
        ("subs r7, #1", "bne #0x200", 2),
        ("add r0, r1", "bne #0x200", 1),
        ("add.w r0, r1, r2", "bne #0x200", 2),
        ("nop", "bne.w #0x200", 2),
    ],
)
def test_a_taken_branch_of_the_m33_pairs_with_a_short_instruction(before: str, branch: str, cycles: int) -> None:
    (op,) = ops(branch)
    rules = core("cortex-m33")
    assert rules.costs([op], ops(before))[0] + rules.taken(op, NARROW_ODD, ops(before)) == cycles


@pytest.mark.parametrize(
    ("code", "kind", "reads", "writes", "address"),
    [
        ("add r0, r1, r2, lsl #2", Kind.ALU, "r1 r2", "r0", ""),
        ("adds r0, #1", Kind.ALU, "r0", "r0", ""),
        ("mov r0, sb", Kind.ALU, "r9", "r0", ""),
        ("movt r0, #1", Kind.ALU, "r0", "r0", ""),
        ("bfi r0, r1, #4, #4", Kind.ALU, "r0 r1", "r0", ""),
        ("cmp r0, ip", Kind.ALU, "r0 r12", "", ""),
        ("smull r0, r1, r2, r3", Kind.MULL, "r2 r3", "r0 r1", ""),
        ("smlal r0, r1, r2, r3", Kind.MLAL, "r0 r1 r2 r3", "r0 r1", ""),
        ("smlald r0, r1, r2, r3", Kind.MUL, "r0 r1 r2 r3", "r0 r1", ""),
        ("smmla r4, r4, fp, ip", Kind.MUL, "r4 r11 r12", "r4", ""),
        ("ldr r0, [r1, #4]!", Kind.LOAD, "r1", "r0 r1", "r1"),
        ("ldrb r0, [r1], #1", Kind.LOAD, "r1", "r0 r1", "r1"),
        ("ldrsh r0, [sp, r2, lsl #1]", Kind.LOAD, "sp r2", "r0", "sp r2"),
        ("strd r0, r1, [r2, #8]", Kind.STORES, "r0 r1 r2", "", "r2"),
        ("stmdb sp!, {r4, lr}", Kind.STORES, "sp r4 lr", "sp", "sp"),
        ("pop {r4, pc}", Kind.LOADS, "sp", "r4 pc sp", "sp"),
        ("ldm r0, {r1, r2}", Kind.LOADS, "r0", "r1 r2", "r0"),
        ("vldr d1, [r0, #8]", Kind.FP_LOAD, "r0", "s2 s3", "r0"),
        ("vpush {d8}", Kind.FP_STORE, "sp s16 s17", "sp", "sp"),
        ("vfma.f32 s0, s1, s2", Kind.FP_MAC, "s0 s1 s2", "s0", ""),
        ("vmov r0, r1, d4", Kind.FP_PAIR, "s8 s9", "r0 r1", ""),
        ("vcmp.f32 s0, s1", Kind.FP, "s0 s1", "", ""),
        ("umaal r0, r1, r2, r3", Kind.MLAL, "r0 r1 r2 r3", "r0 r1", ""),
        ("blx r3", Kind.INDIRECT, "r3", "", ""),
        ("mov pc, lr", Kind.INDIRECT, "lr", "pc", ""),
    ],
)
def test_what_is_read_of_an_instruction(code: str, kind: Kind, reads: str, writes: str, address: str) -> None:
    (op,) = ops(code)
    assert (op.kind, op.reads, op.writes, op.address) == (
        kind,
        frozenset(reads.split()),
        frozenset(writes.split()),
        frozenset(address.split()),
    )


def test_decoding_follows_it_blocks_and_steps_over_what_it_does_not_know() -> None:
    # ite ne; movne r0, r1; addeq.w r0, r1, r2; le lr, . (Armv8.1-M); movs r0, #1; half of a long instruction
    code = bytes.fromhex("14bf 0846 01eb0200 0ff001c0 0120 00f0")
    texts = [(i.address, str(i), i.condition) for i in decode(code, 0x40, THUMB)]
    assert texts == [
        (0x40, "ite ne", ""),
        (0x42, "movne r0, r1", "ne"),
        (0x44, "addeq r0, r1, r2", "eq"),
        (0x48, ".inst 0xf00fc001", ""),
        (0x4C, "movs r0, #1", ""),
    ]


RV32 = [
    # loaded, then added, stored, an address, a factor
    ("lw a0, 0(a1); addi a0, a0, 1", [1, 2]),
    ("lw a0, 0(a1); sw a0, 0(a2); c.lw a0, 0(a1); c.lw a2, 4(a0)", [1, 1, 1, 2]),
    ("lbu t0, 0(a1); mul a0, t0, a2; mulhu a3, a0, a2; mul a4, a3, a3", [1, 2, 1, 1]),
    ("lw a0, 0(a1); c.addi a0, 1; c.li a0, 1; c.mv a0, a1", [1, 2, 1, 1]),
    ("div a0, a1, a2; remu a0, a1, a2", [18, 18]),
    ("beq a0, a1, 0x20; bne a0, zero, -0x20", [1, 3]),  # not taken: the loop's end and its next beginning
]


def riscv(code: str, start: int = 0x100) -> list[Decoded]:
    decoded = []
    for text in code.split("; "):
        mnemonic, _, operands = text.partition(" ")
        size = 2 if mnemonic.startswith("c.") else 4
        decoded.append(parse_riscv(Instruction(start, bytes(size), mnemonic, operands)))
        start += size
    return decoded


@pytest.mark.parametrize(("code", "expected"), RV32)
def test_hazard3(code: str, expected: list[int]) -> None:
    assert core("riscv32imc").costs(riscv(code)) == expected


@pytest.mark.parametrize(
    ("code", "target", "more"),
    [
        ("bne a0, a1, -0x20", WIDE_ALIGNED, 0),  # a loop's branch is remembered
        ("c.bnez a0, -4", WIDE_ODD, 0),
        ("bne a0, a1, 0x20", WIDE_ALIGNED, 1),
        ("c.j -0x20", WIDE_ODD, 2),
        ("jal 0x40", NARROW_ODD, 1),
        ("c.jr ra", WIDE_ALIGNED, 1),
    ],
)
def test_taken_branches_of_hazard3(code: str, target: Instruction, more: int) -> None:
    (op,) = riscv(code)
    assert op.leaves
    assert core("riscv32imc").taken(op, target) == more


@pytest.mark.parametrize(
    ("code", "kind", "reads", "writes", "conditional"),
    [
        ("lw a0, 4(a1)", Kind.LOAD, "a1", "a0", False),
        ("c.swsp ra, 0xc(sp)", Kind.STORE, "ra sp", "", False),
        ("c.add a0, t1", Kind.ALU, "a0 t1", "a0", False),
        ("c.lui a0, 1", Kind.ALU, "", "a0", False),
        ("add zero, a0, s11", Kind.ALU, "a0 s11", "", False),
        ("c.beqz a0, 8", Kind.BRANCH, "a0", "", True),
        ("c.j 8", Kind.BRANCH, "", "", False),
        ("jalr ra, 0(a5)", Kind.INDIRECT, "ra a5", "", False),
    ],
)
def test_what_is_read_of_riscv(code: str, kind: Kind, reads: str, writes: str, conditional: bool) -> None:
    (op,) = riscv(code)
    assert (op.kind, op.reads, op.writes) == (kind, frozenset(reads.split()), frozenset(writes.split()))
    assert op.conditional is conditional


def test_the_m55_takes_so_many_cycles_for_each_instruction() -> None:
    assert core("cortex-m55").costs(ops("nop; nop")) == [1.12, 1.12]


def test_cores_without_a_model() -> None:
    assert core_of("esp32-c3") is None
    assert core_of("host") is None
