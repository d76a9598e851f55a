# SPDX-License-Identifier: Apache-2.0
"""The interpreter of instructions: what it computes, what it refuses, and that it counts what `Asm.work` counts."""

from __future__ import annotations

import struct

import numpy as np
import pytest

from tinyc.loops import dsp
from tinyc.loops.expression import AddProduct, Element, Param, Saturate
from tinyc.machine.cores import CORTEX_M4
from tinyc.machine.interpret import Machine
from tinyc.machine.listing import assembled, functions_in
from tinyc.machine.memory import Area, Bytes, Fault
from tinyc.machine.thumb import Asm, naked_function

CODE, DATA = 0x8000, 0x2000


def run(
    *lines: str, arguments: tuple[int, ...] = (), data: bytes = bytes(16), writable: bool = True
) -> tuple[int, bytes]:
    """r0 and the data at DATA after a function of these lines."""
    area, stack = Area("data", DATA, bytearray(data), writable), Area("stack", 0x3000, bytearray(256))
    return Machine(assembled(lines, CODE), Bytes([area, stack])).call(CODE, arguments, stack), bytes(area.data)


@pytest.mark.parametrize(
    ("line", "a", "b", "result"),
    [
        ("smlad  r0, r0, r1, r2", 0x7FFF8000, 0x7FFF8000, 0x7FFF0001 + 5),
        ("smlabt r0, r0, r1, r2", 0x0001FFFF, 0x00030007, 2),
        ("smmlar r0, r0, r1, r2", 0x40000000, 2, 6),
        ("smmla  r0, r0, r1, r2", 0x7FFFFFFF, 2, 5),
        ("ssat   r0, #8, r0, asr #2", 1000, 0, 127),
        ("qadd   r0, r0, r0", 0x50000000, 0, 0x7FFFFFFF),
        ("qadd   r0, r0, r1", 5, 0xFFFFFFF7, 0xFFFFFFFC),
        ("qadd16 r0, r0, r1", 0x7FFF8000, 0x0001FFFF, 0x7FFF8000),
        ("qadd16 r0, r0, r1", 0x8001FFFF, 0xFFFF0003, 0x80000002),
        ("sxtb16 r0, r0, ror #8", 0x80FF7F01, 0, 0xFF80007F),
        ("pkhtb  r0, r0, r1, asr #16", 0x1234FFFF, 0x5678FFFF, 0x12345678),
        ("pkhbt  r0, r0, r1, lsl #16", 0xFFFF1234, 0xFFFF5678, 0x56781234),
        ("ssub16 r0, r0, r1", 0x00010000, 0x00020001, 0xFFFFFFFF),
        ("rsb    r0, r0, r1, lsl #1", 3, 5, 7),
        ("bic    r0, r0, r1", 0xFF, 0x0F, 0xF0),
        ("movt   r0, #4660", 0xFFFF0001, 0, 0x12340001),
    ],
)
def test_meanings(line: str, a: int, b: int, result: int) -> None:
    assert run(line, "bx     lr", arguments=(a, b, 5))[0] == result


@pytest.mark.parametrize(
    ("line", "a", "b", "result"),
    [
        ("ssub8  r3, r0, r1", 0x7F80FF00, 0x807F00FF, 0x7F7F0000),  # 127 >= -128, -128 < 127, -1 < 0, 0 >= -1
        ("uadd8  r3, r0, r1", 0x0001FF80, 0xFFFFFF7F, 0xFF01FF7F),  # 1 + 255 and 255 + 255 carry
    ],
)
def test_bytes_are_chosen_by_the_flags_of_a_comparison(line: str, a: int, b: int, result: int) -> None:
    lines = [line, "sel    r0, r0, r1", "bx     lr"]
    assert run(*lines, arguments=(a, b))[0] == result
    with pytest.raises(Fault, match="reads ge"):
        run(*lines[1:], arguments=(a, b))


def test_a_fused_product_is_rounded_once() -> None:
    lines = ["vmov   s0, r0", "vmov   s1, r1", "vfma.f32 s1, s0, s0", "vmov   r0, s1", "bx     lr"]
    above_one, minus_one = 0x3F800001, 0xBF800002  # (1 + 2^-23)^2 - (1 + 2^-22) = 2^-46
    assert run(*lines, arguments=(above_one, minus_one))[0] == 0x28800000


@pytest.mark.parametrize(
    ("lines", "fault"),
    [
        (["mov    r0, r5", "bx     lr"], "reads r5, which it has not set"),
        (["mov    r4, #1", "bx     lr"], "r4 is not as it was"),
        (["sub    sp, sp, #8", "bx     lr"], "stack pointer is not"),
        (["bne    1f", "1:", "bx     lr"], "flag 'z', which it has not set"),
        (["ldr    r0, [r0, #13]", "bx     lr"], "4 bytes at 0x200d are in no object"),
        (["add    r0, r0, #2", "ldm    r0, {r1, r2}", "bx     lr"], "0x2002 is no multiple of 4"),
        (["add    r0, r0, #1", "ldrd   r1, r2, [r0]", "bx     lr"], "0x2001 is no multiple of 4"),
        (["nop"], "here is no code"),
    ],
)
def test_faults(lines: list[str], fault: str) -> None:
    with pytest.raises(Fault, match=fault):
        run(*lines, arguments=(DATA,))


def test_constants_are_not_written() -> None:
    with pytest.raises(Fault, match="writes to data, which is constant"):
        run("str    r0, [r0]", "bx     lr", arguments=(DATA,), writable=False)


def test_a_word_may_lie_anywhere() -> None:
    assert run("ldr    r0, [r0, #1]", "bx     lr", arguments=(DATA,), data=bytes(range(16)))[0] == 0x04030201


def test_what_a_printed_function_computes_and_how_often_its_instructions_run() -> None:
    """y = saturate((3 * x0 - 2 * x1 + 40) >> 3) of a turn of the loop and of nine elements beside it."""
    total = AddProduct(AddProduct(Param("c"), Element(0), Param("a")), Element(1), Param("b"))
    asm, count = dsp.code(Saturate(total, 3), ("a", "b", "c"), CORTEX_M4), 41
    (lines,) = functions_in(naked_function("f", (), asm)).values()
    x0, x1 = bytes(7 * i % 256 for i in range(count)), bytes(31 * i % 256 for i in range(count))
    areas = [Area("p", 0x1000, bytearray(struct.pack("<4i", count, 3, -2, 40)))]
    areas += [Area("x0", 0x1100, bytearray(x0)), Area("x1", 0x1200, bytearray(x1)), Area("y", 0x1300, bytearray(count))]
    stack = Area("stack", 0x3000, bytearray(256))
    machine = Machine(assembled(lines, CODE), Bytes([*areas, stack]))
    machine.call(CODE, [area.start for area in areas], stack)
    signed = [struct.unpack(f"{count}b", x) for x in (x0, x1)]
    expected = [max(-128, min(127, (3 * a - 2 * b + 40) >> 3)) for a, b in zip(*signed, strict=True)]
    assert list(struct.unpack(f"{count}b", areas[-1].data)) == expected
    counted = asm.work() + asm.work("turn") + 9 * asm.work("last")
    assert sum(machine.executed.values()) == counted.instructions


def test_words_that_come_in_turn() -> None:
    """VLD2: two loads of half each."""
    asm = Asm(CORTEX_M4)
    for line in (
        ("vld20.32", "{q0, q1}", "[r0]"),
        ("vld21.32", "{q0, q1}", "[r0]!"),
        ("vstrw.32", "q1", "[r0, #-32]"),
        ("vstrw.32", "q0", "[r0, #-16]"),
        ("bx", "lr"),
    ):
        asm.op(*line)
    words = np.arange(1, 9, dtype="<i4")
    _, data = run(*asm.text(), arguments=(DATA,), data=words.tobytes())
    assert np.frombuffer(bytes(data[:32]), "<i4").tolist() == [2, 4, 6, 8, 1, 3, 5, 7]


def test_rounding_shifts_gathers_and_signs() -> None:
    """VRSHL and VRSHR round halves up, VQADD saturates, a gather's places count numbers, VPT is of single lanes."""
    asm = Asm(CORTEX_M4)
    for line in (
        ("vldrw.u32", "q0", "[r0]"),  # -3, 5, 2, -7
        ("mov", "r2", "#255"),  # -1 in its lowest byte
        ("vrshr.s32", "q1", "q0", "#1"),
        ("vrshl.s32", "q0", "r2"),
        ("vstrw.32", "q0", "[r0, #32]"),
        ("vpt.s32", "lt", "q1", "zr"),
        ("vnegt.s32", "q1", "q1"),
        ("vmov.i32", "q2", "#100"),
        ("vsubt.i32", "q2", "q2", "q1"),
        ("vstrw.32", "q2", "[r0, #48]"),
        ("vldrh.u32", "q3", "[r0, q1, uxtw #1]"),
        ("vstrw.32", "q3", "[r0, #64]"),
        ("vabs.s32", "q0", "q0"),
        ("vstrw.32", "q0", "[r0, #80]"),
        ("vldrw.u32", "q3", "[r0, #16]"),  # 30000, -30000, 1, -1 of int16, twice
        ("vqadd.s16", "q3", "q3", "q3"),
        ("vstrw.32", "q3", "[r0, #96]"),
        ("bx", "lr"),
    ):
        asm.op(*line)
    halves = np.array([30000, -30000, 1, -1] * 2, "<i2").tobytes()
    data = np.array([-3, 5, 2, -7], "<i4").tobytes() + halves + bytes(80)
    _, memory = run(*asm.text(), arguments=(DATA,), data=data)
    words = np.frombuffer(bytes(memory), "<i4")
    assert words[8:12].tolist() == [-1, 3, 1, -3]
    assert words[12:16].tolist() == [99, 100, 100, 97]
    assert words[16:20].tolist() == [0xFFFF, 0, 0xFFFF, 0]
    assert words[20:24].tolist() == [1, 3, 1, 3]
    assert np.frombuffer(bytes(memory[96:112]), "<i2").tolist() == [32767, -32768, 2, -2] * 2


def test_vectors_of_float32() -> None:
    """Rounding to even, subnormal numbers as zero, what is no number, infinity."""
    asm = Asm(CORTEX_M4)
    for line in (
        ("vldrw.u32", "q0", "[r0]"),
        ("vldrw.u32", "q1", "[r0, #16]"),
        ("vmul.f32", "q2", "q0", "q1"),
        ("vstrw.32", "q2", "[r0, #32]"),
        ("vmaxnm.f32", "q2", "q0", "q1"),
        ("vstrw.32", "q2", "[r0, #48]"),
        ("vcvtn.s32.f32", "q2", "q0"),
        ("vstrw.32", "q2", "[r0, #64]"),
        ("vcvt.f32.s32", "q2", "q2"),
        ("vstrw.32", "q2", "[r0, #80]"),
        ("bx", "lr"),
    ):
        asm.op(*line)
    a, b = [2.5, -3.5, np.nan, np.inf], [2e-38, 1e-38, 4.0, -2.0]
    data = np.array(a + b, "<f4").tobytes() + bytes(64)
    _, memory = run(*asm.text(), arguments=(DATA,), data=data)
    reals, words = np.frombuffer(bytes(memory), "<f4"), np.frombuffer(bytes(memory), "<i4")
    np.testing.assert_array_equal(reals[8:12], np.float32([5e-38, 0, np.nan, -np.inf]))
    np.testing.assert_array_equal(reals[12:16], np.float32([2.5, 0, 4, np.inf]))
    assert words[16:20].tolist() == [2, -4, 0, 2**31 - 1]
    assert reals[20:24].tolist() == [2, -4, 0, 2**31]


def test_vectors() -> None:
    """Predicated bytes, a dot product, and narrowing."""
    asm = Asm(CORTEX_M4)
    for line in (
        ("mov", "r2", "#3"),
        ("vctp.8", "r2"),
        ("vpst",),
        ("vldrbt.u8", "q0", "[r0]"),
        ("vmov.i8", "q1", "#2"),
        ("vmladav.s8", "r4", "q0", "q1"),
        ("vdup.32", "q2", "r4"),
        ("vqrshrnb.s32", "q2", "q2", "#1"),
        ("vqmovnb.s16", "q2", "q2"),
        ("vstrb.32", "q2", "[r0]", "#4"),
        ("mov", "r0", "r4"),
        ("mov", "r4", "r3"),
        ("bx", "lr"),
    ):
        asm.op(*line)
    lines = ["mov    r3, r4", *asm.text()]
    with pytest.raises(Fault, match="reads r4"):
        run(*lines, arguments=(DATA,))
    total, data = run(
        "push   {r4, lr}", *asm.text()[:-2], "pop    {r4, pc}", arguments=(DATA,), data=bytes([1, 2, 250] + [9] * 13)
    )
    assert total == 2 * (1 + 2 - 6) & 0xFFFFFFFF
    assert data[:4] == bytes([0xFD] * 4)
