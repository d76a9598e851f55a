# SPDX-License-Identifier: Apache-2.0
"""What a compiled library needs of others, nothing but the compiler's own arithmetic, and how large its assembly is."""

from __future__ import annotations

import re
import struct
from pathlib import Path

from elftools.elf.elffile import ELFFile

from tinyc.machine.text_size import code_bytes
from tinyc.toolchain.compile import Firmware
from tinyc.toolchain.elf import read_elf

# What a core without the instruction may need of the compiler's own library (docs/library.md): floats, integers of
# 64 bits, division.
HELPERS = {
    "cortex-m0plus": r"__aeabi_(f\w+|i2f|ui2f|u?idiv(mod)?|u?ldivmod|lmul|l(sl|sr|asr)|llsl|llsr)"
    r"|__gnu_thumb1_case_\w+|__clz[sd]i2",
    "cortex-m3": r"__aeabi_(f\w+|i2f|ui2f|u?ldivmod)",
    "cortex-m4": "__aeabi_(llsl|llsr|lasr|u?ldivmod)",  # shifts: clang -Oz
    "cortex-m55": "__aeabi_u?ldivmod",
    "riscv32imc": r"__(add|sub|mul|div|eq|ne|lt|le|gt|ge|unord)sf[23]|__fixsfsi|__float(un)?sisf"
    r"|__(ashl|ashr|lshr|u?div|u?mod)di3|__clz[sd]i2",
}

# Elf32_Sym of System V's ABI: name, value, size, info, other, section; 0 is no section. Programs that list it (nm) take
# longer to start than a library to look at.
ENTRY = struct.Struct("<IIIBBH")


def foreign_symbols(library: Path, board_name: str) -> set[str]:
    """Symbols that the library's object needs, but for the helpers of the board's core."""
    with library.open("rb") as file:
        elf = ELFFile(file)
        assert elf.elfclass == 32
        table = elf.get_section_by_name(".symtab")
        names, entries = table.stringtable.data(), list(ENTRY.iter_unpack(table.data()))
    undefined = [name for name, *_, section in entries if name and not section]
    needed = {names[at : names.index(0, at)].decode() for at in undefined} - {"__aeabi_unwind_cpp_pr0"}
    return {name for name in needed if not re.fullmatch(HELPERS[board_name], name)}


_NAKED = re.compile(r"^static TC_NAKED \w+ \*?(\w+)\(.*?^}$", re.MULTILINE | re.DOTALL)
_FILLED = 2  # bytes behind a function that an assembler may count to it


def check_sizes(firmware: Firmware) -> None:
    """Assert that the functions in assembly are as large as `code_bytes` says: estimates and limits of flash ask it."""
    assert firmware.sources is not None
    sizes = {symbol.name: symbol.size for symbol in read_elf(firmware.library_object).symbols if symbol.is_function}
    for file in firmware.sources.folder.glob("*_kernels.h"):
        for function in _NAKED.finditer(file.read_text(encoding="utf-8")):
            said, name = code_bytes(function[0]), function[1]
            assert name not in sizes or abs(said - sizes[name]) <= _FILLED, (name, said, sizes[name])


def check_links_alone(firmware: Firmware) -> None:
    """Assert that the library of a firmware needs nothing else, on the cores of which that is known."""
    if firmware.board.name in HELPERS:
        foreign = foreign_symbols(firmware.library_object, firmware.board.name)
        assert not foreign, f"the library calls {sorted(foreign)}"
        check_sizes(firmware)
