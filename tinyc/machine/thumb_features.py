# SPDX-License-Identifier: Apache-2.0
"""What a core of Arm's M profile needs for an instruction, and which conditions stand in mnemonics."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import replace

from tinyc.machine.instruction import UNKNOWN, Instruction

CONDITIONS = frozenset(("eq", "ne", "hs", "lo", "cs", "cc", "mi", "pl", "vs", "vc", "hi", "ls", "ge", "lt", "gt", "le"))
_IT = re.compile(r"it[te]{0,3}")
_SMALL_LANES = frozenset({"8", "16", "s8", "u8", "s16", "u16"})  # of VMOV: the FPU has 32 bits only
_PARALLEL = r"(s|q|sh|u|uq|uh)(add8|add16|sub8|sub16|asx|sax)"
_PRODUCTS = r"sml[as]l?dx?|smu[as]dx?|sm(la|lal|ul)[bt][bt]|sm(la|ul)w[bt]|smm(la|ls|ul)r?|umaal"
_DSP = re.compile(rf"{_PARALLEL}|{_PRODUCTS}|qd?(add|sub)|sel|[su]sat16|[su]xta(b|b16|h)|[su]xtb16|usada?8|pkh(bt|tb)")
_V8M = re.compile(r"lda(ex)?[bh]?|stl(ex)?[bh]?|tta?t?|sg|b(l)?xns|vlldm|vlstm")
_FPV5 = re.compile(r"vsel\w\w|v(max|min)nm|vrint\w|vcvt[anpm]")


def needed_feature(instruction: Instruction, there: frozenset[str]) -> str | None:
    """The feature that an instruction needs and a core with the features `there` has not; None when it has it.

    Features: the words of a board's `isa`, and fpv5, v8m, v8.1m. Without thumb2 a core is an Armv6-M one.
    """
    if "thumb2" not in there:
        return None if is_armv6m(instruction.code) else "thumb2"
    return next((feature for feature in _features(instruction) if feature not in there), None)


def _features(instruction: Instruction) -> tuple[str, ...]:
    """What an instruction needs beyond Armv7-M."""
    name, _, types = instruction.mnemonic.partition(".")
    if is_mve(instruction.code) or name == "vdup" or (name == "vmov" and types in _SMALL_LANES):
        return ("v8.1m", "mve")
    if instruction.mnemonic == UNKNOWN:
        return ("v8.1m",)
    if _V8M.fullmatch(name):
        return ("v8m",)
    if name.startswith("v"):
        if "f16" in types:
            return ("v8.1m",)
        wide = ("fpu64",) if "f64" in types else ()
        return ("fpu", *wide, *(("fpv5",) if _FPV5.fullmatch(name) else ()))
    return ("dsp",) if _DSP.fullmatch(name) else ()


def is_mve(code: bytes) -> bool:
    """Whether these 2 or 4 bytes are in the places of MVE (Armv8-M Architecture Reference Manual, C2.2): where the A
    profile has Advanced SIMD, coprocessors 8, 14 and 15, loops and predicates that count lanes. Moves between a core
    register and a lane, or all lanes, are among those of the FPU."""
    if len(code) == 2:
        return False
    first, second = int.from_bytes(code[:2], "little"), int.from_bytes(code[2:], "little")
    vector = first & 0xEF00 == 0xEF00
    coprocessor = first & 0xEC00 == 0xEC00 and second >> 8 & 0xF in (8, 14, 15)
    counted = first & 0xFFC0 == 0xF000 and second & 0xD001 == 0xC001  # VCTP, DLSTP, WLSTP, LETP
    le = first in (0xF00F, 0xF02F)
    return vector or coprocessor or (counted and not le)


def is_armv6m(code: bytes) -> bool:
    """Whether Armv6-M has the instruction with these 2 or 4 bytes (Armv6-M Architecture Reference Manual, A5)."""
    first = int.from_bytes(code[:2], "little")
    if len(code) == 2:
        compare_and_branch = first & 0xF500 == 0xB100
        if_then = first & 0xFF00 == 0xBF00 and first & 0xF != 0
        secure_branch = first & 0xFF07 == 0x4704
        halt = first & 0xFFC0 == 0xBA80
        return not (compare_and_branch or if_then or secure_branch or halt)
    second = int.from_bytes(code[2:], "little")
    call = first & 0xF800 == 0xF000 and second & 0xD000 == 0xD000
    to_special = first & 0xFFF0 == 0xF380 and second & 0xFF00 == 0x8800
    from_special = first == 0xF3EF and second & 0xF000 == 0x8000
    barrier = first == 0xF3BF and second & 0xFFF0 in (0x8F40, 0x8F50, 0x8F60)
    undefined = first & 0xFFF0 == 0xF7F0 and second & 0xF000 == 0xA000
    return call or to_special or from_special or barrier or undefined


def with_conditions(instructions: Iterable[Instruction]) -> Iterator[Instruction]:
    """Instructions in a row, each with its condition apart: its own, or that of an IT block."""
    pending = 0  # instructions left of an IT block
    for each in instructions:
        mnemonic, condition = _split(each.mnemonic, pending > 0)
        pending = len(mnemonic) - 1 if _IT.fullmatch(mnemonic) else max(pending - 1, 0)
        yield replace(each, mnemonic=mnemonic, condition=condition)


def _split(text: str, in_it_block: bool) -> tuple[str, str]:
    """Mnemonic and condition: `ldrsble.w` in an IT block -> `ldrsb`, `le`; `bne` anywhere -> `b`, `ne`."""
    name, *types = text.split(".")
    condition = ""
    if name[-2:] in CONDITIONS and (in_it_block or (len(name) == 3 and name[0] == "b")):
        name, condition = name[:-2], name[-2:]
    return ".".join([name, *(t for t in types if t not in ("w", "n"))]), condition
