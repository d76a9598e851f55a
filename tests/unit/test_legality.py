# SPDX-License-Identifier: Apache-2.0
"""Which core has which instruction. Encodings are GNU as's."""

from __future__ import annotations

import pytest

from tinyc.board.instruction_set import RISCV, THUMB
from tinyc.machine.rv32_bits import needed_extension
from tinyc.machine.thumb_features import is_armv6m, needed_feature
from tinyc.toolchain.disassembly import decode

M0 = frozenset[str]()
M3 = frozenset({"thumb2"})
M4 = frozenset({"thumb2", "dsp", "fpu"})
M7 = frozenset({"thumb2", "dsp", "fpu", "fpu64", "fpv5"})
M33 = frozenset({"thumb2", "dsp", "fpu", "fpv5", "v8m"})
M55 = M33 | {"fpu64", "mve", "v8.1m"}

#            encoding    what              who lacks it: M0 M3 M4 M7 M33 M55, bare55 (without Helium)
TABLE = [
    ("00bf", "nop", ""),
    ("48b2", "sxtb r0, r1", ""),
    ("08ba", "rev r0, r1", ""),
    ("72b6", "cpsid i", ""),
    ("70bd", "pop {r4, r5, r6, pc}", ""),
    ("fff7feff", "bl", ""),
    ("bff35f8f", "dmb sy", ""),
    ("eff30580", "mrs r0, ipsr", ""),
    ("80f30888", "msr msp, r0", ""),
    ("08b1", "cbz r0", "M0"),
    ("08bf", "it eq", "M0"),
    ("40f2d240", "movw r0, #1234", "M0"),
    ("b1fbf2f0", "udiv r0, r1, r2", "M0"),
    ("01f30700", "ssat r0, #8, r1", "M0"),
    ("fff7febf", "b.w", "M0"),
    ("82fb0301", "smull r0, r1, r2, r3", "M0"),
    ("d2e90001", "ldrd r0, r1, [r2]", "M0"),
    ("22fb0341", "smlad r1, r2, r3, r4", "M0 M3"),
    ("71fb02f0", "usad8 r0, r1, r2", "M0 M3"),
    ("2ffa81f0", "sxtb16 r0, r1", "M0 M3"),
    ("20ee810a", "vmul.f32 s0, s1, s2", "M0 M3"),
    ("90ed000b", "vldr d0, [r0]", "M0 M3"),
    ("31ee020b", "vadd.f64 d0, d1, d2", "M0 M3 M4 M33"),
    ("80fe810a", "vmaxnm.f32 s0, s1, s2", "M0 M3 M4"),
    ("d1e8af0f", "lda r0, [r1]", "M0 M3 M4 M7"),
    ("7447", "bxns lr", "M0 M3 M4 M7"),
    ("0ff001c0", "le lr", "M0 M3 M4 M7 M33"),
    ("40f001e0", "dls lr, r0", "M0 M3 M4 M7 M33"),
    ("b1ec101f", "vldrw.u32 q0, [r1], #64", "M0 M3 M4 M7 M33 bare55"),
    ("f0ee020f", "vmladav.s8 r0, q0, q1", "M0 M3 M4 M7 M33 bare55"),
    ("10ec040f", "vmov q0[2], q0[0], r4, r0", "M0 M3 M4 M7 M33 bare55"),
    ("20ef4208", "vadd.i32 q0, q0, q1", "M0 M3 M4 M7 M33 bare55"),
    ("71fe4d0f", "vpst", "M0 M3 M4 M7 M33 bare55"),
    ("03f001e8", "vctp.8 r3", "M0 M3 M4 M7 M33 bare55"),
    ("a0ee101b", "vdup.32 q0, r1", "M0 M3 M4 M7 M33 bare55"),
]


@pytest.mark.parametrize(("encoding", "text", "lacking"), TABLE, ids=[text for _, text, _ in TABLE])
def test_who_has_an_instruction(encoding: str, text: str, lacking: str) -> None:
    (instruction,) = decode(bytes.fromhex(encoding), 0, THUMB)
    cores = {"M0": M0, "M3": M3, "M4": M4, "M7": M7, "M33": M33, "M55": M55, "bare55": M55 - {"mve"}}
    lacking_cores = {name for name, there in cores.items() if needed_feature(instruction, there) is not None}
    assert lacking_cores == set(lacking.split())


def test_armv6m_long_instructions_are_only_these() -> None:
    """Of all first half-words of long instructions: BL, MSR, MRS, barriers, and the undefined one."""
    second = {"bl": 0xF800, "msr": 0x8808, "mrs": 0x8005, "barrier": 0x8F5F, "udf": 0xA000}
    for name, half in second.items():
        firsts = [f for f in range(0xE800, 0x10000) if is_armv6m(f.to_bytes(2, "little") + half.to_bytes(2, "little"))]
        expected = {
            "bl": list(range(0xF000, 0xF800)),
            "msr": [*range(0xF380, 0xF390), 0xF3EF],  # these second halves are those of an MRS as well
            "mrs": [0xF3EF],
            "barrier": [0xF3BF, 0xF3EF],
            "udf": list(range(0xF7F0, 0xF800)),
        }
        assert firsts == expected[name]


RV32I, RV32IM, RV32IMB = frozenset[str](), frozenset({"rv32m"}), frozenset({"rv32m", "rv32b"})
#            encoding    what                 the extension
RISCV_TABLE = [
    ("3385c500", "add t2, a1, a2", None),
    ("0505", "c.addi a0, 1", None),
    ("13f57500", "andi a0, a1, 7", None),
    ("13954500", "slli a0, a1, 4", None),
    ("732500b0", "csrr a0, mcycle", None),
    ("3385c502", "mul a0, a1, a2", "rv32m"),
    ("33a5c520", "sh1add a0, a1, a2", "rv32b"),
    ("33c4bf0b", "min s0, t6, s11", "rv32b"),
    ("33feee0b", "maxu t3, t4, t5", "rv32b"),
    ("13954560", "sext.b a0, a1", "rv32b"),
    ("33c50508", "zext.h a0, a1", "rv32b"),
    ("13d57560", "rori a0, a1, 0x7", "rv32b"),
    ("1395b528", "bseti a0, a1, 0xb", "rv32b"),
    ("13d58569", "rev8 a0, a1", "rv32b"),
    ("33d5c548", "bext a0, a1, a2", "rv32b"),
    ("2fa50510", "lr.w a0, (a1)", "rv32a"),
    ("53f5c500", "fadd.s fa0, fa1, fa2", "rv32f"),
    ("07a54500", "flw fa0, 4(a1)", "rv32f"),
    ("4861", "c.flw fa0, 4(a0)", "rv32f"),
    ("87000502", "vle8.v v1, (a0)", "rv32v"),
    ("d7802102", "vadd.vv v1, v2, v3", "rv32v"),
    ("57f0370d", "vsetvli zero, a5, e32, m8, ta, ma", "rv32v"),
    ("57f0b30d", "vsetvli zero, t2, e64, m8, ta, ma", "rv32v64"),
    ("57f001cc", "vsetivli zero, 3, e8, m1", "rv32v"),
    ("57f0c880", "vsetvl zero, a7, a2", "rv32v"),
    ("87700502", "vle64.v v1, (a0)", "rv32v64"),
    ("d7902102", "vfadd.vv v1, v2, v3", "rv32vf"),
    ("d7d02102", "vfadd.vf v1, v2, ft3", "rv32vf"),
]


@pytest.mark.parametrize(("encoding", "text", "needed"), RISCV_TABLE, ids=[text for _, text, _ in RISCV_TABLE])
def test_which_extension_of_riscv_an_instruction_needs(encoding: str, text: str, needed: str | None) -> None:
    (instruction,) = decode(bytes.fromhex(encoding), 0, RISCV)
    assert needed_extension(instruction, RV32I) == needed
    assert needed_extension(instruction, RV32IM) == (needed if needed != "rv32m" else None)
    assert needed_extension(instruction, RV32IMB) == (needed if needed not in ("rv32m", "rv32b") else None)
    if needed == "rv32b":
        assert f"{instruction.mnemonic} {instruction.operands}" == text
