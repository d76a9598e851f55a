# SPDX-License-Identifier: Apache-2.0
"""How deep the stack of compiled functions can get: frames as debuggers are told of them, along all calls."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from pathlib import Path

from elftools.dwarf.callframe import FDE
from elftools.elf.elffile import ELFFile

from tinyc.toolchain.disassembly import disassemble
from tinyc.toolchain.elf import Elf

_CALLS = re.compile(r"(bl?|jal|j|c\.jal|c\.j)")  # beside branches within the function, whose targets are no functions
_INDIRECT = re.compile(r"(blx|bx|jalr|c\.jalr|jr)")
_TARGET = re.compile(r"(?:.*, *)?#?(-?)0x([0-9a-f]+)")


def depths_of(path: Path, elf: Elf) -> Mapping[str, int]:
    """Bytes of stack that each function of a firmware takes at most, with all that it calls. A call through a pointer
    may reach any function whose own calls are none."""
    frames = dict(_frames(path))
    calls: dict[str, set[str]] = {}
    starts = {symbol.address & ~1: symbol.name for symbol in elf.symbols if symbol.address & ~1 in frames}
    indirect: set[str] = set()
    for address, instruction in disassemble(elf).items():
        symbol = elf.function_at(address)
        if symbol is None:
            continue
        name = symbol.name
        if _CALLS.fullmatch(instruction.mnemonic):
            match = _TARGET.fullmatch(instruction.operands)
            target = None if match is None else int(match[2], 16) * (-1 if match[1] else 1)
            for place in () if target is None else (target, address + target):
                if place in starts and place != symbol.address & ~1:
                    calls.setdefault(name, set()).add(starts[place])
        elif _INDIRECT.fullmatch(instruction.mnemonic) and instruction.operands not in ("lr", "ra"):
            indirect.add(name)
    own = {starts[at]: size for at, size in frames.items() if at in starts}
    leaf = max((size for name, size in own.items() if name not in calls and name.startswith("tc_")), default=0)
    depth_by_function: dict[str, int] = {}

    def depth(name: str, above: frozenset[str]) -> int:
        if name not in depth_by_function:
            inner = [depth(other, above | {name}) for other in calls.get(name, ()) if other not in above]
            depth_by_function[name] = own.get(name, 0) + max([*inner, leaf * (name in indirect)], default=0)
        return depth_by_function[name]

    return {name: depth(name, frozenset()) for name in own}


def _frames(path: Path) -> Iterator[tuple[int, int]]:
    """Start of each function and the most bytes between its stack pointer and its caller's."""
    with path.open("rb") as stream:
        dwarf = ELFFile(stream).get_dwarf_info()
        entries = [
            *(dwarf.CFI_entries() if dwarf.has_CFI() else ()),
            *(dwarf.EH_CFI_entries() if dwarf.has_EH_CFI() else ()),
        ]
        for entry in entries:
            if isinstance(entry, FDE):
                rows = entry.get_decoded().table
                yield entry.header["initial_location"] & ~1, max((row["cfa"].offset or 0 for row in rows), default=0)
