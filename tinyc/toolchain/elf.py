# SPDX-License-Identifier: Apache-2.0
"""What tinyc reads of an ELF file: symbols, loadable segments, sections."""

from __future__ import annotations

import bisect
import functools
import io
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from elftools.common.exceptions import ELFError
from elftools.elf.constants import SH_FLAGS
from elftools.elf.elffile import ELFFile
from elftools.elf.enums import ENUM_ST_INFO_BIND, ENUM_ST_INFO_TYPE
from elftools.elf.sections import SymbolTableSection

from tinyc.base.dataclass import dataclass
from tinyc.base.errors import TinycError
from tinyc.base.files import plain_file


@dataclass(frozen=True, slots=True)
class Symbol:
    """A function or object: its address (for Thumb without the mode bit) and size in bytes."""

    name: str
    address: int
    size: int
    is_function: bool
    is_global: bool


@dataclass(frozen=True, slots=True)
class Segment:
    """Bytes that are loaded: `load` is where they lie (flash), `address` where the program sees them."""

    load: int
    address: int
    data: bytes


@dataclass(frozen=True, slots=True)
class Section:
    """A section that takes memory."""

    name: str
    size: int
    executable: bool
    writable: bool
    is_note: bool
    address: int = 0


@dataclass(frozen=True)
class Elf:
    """An ELF file, read once. machine: `EM_ARM`, `EM_RISCV` and so on."""

    symbols: tuple[Symbol, ...]
    segments: tuple[Segment, ...]
    sections: tuple[Section, ...]
    machine: str = "EM_ARM"

    def symbol(self, name: str) -> Symbol:
        """The symbol of that name. Raises TinycError when there is none."""
        symbol = self._by_name.get(name)
        if symbol is None:
            raise TinycError(f"the firmware has no symbol '{name}'")
        return symbol

    def function_at(self, address: int) -> Symbol | None:
        """The function that contains the address."""
        index = bisect.bisect_right(self._starts, address) - 1
        if index < 0:
            return None
        function = self._functions[index]
        return function if address < function.address + max(function.size, 1) else None

    def read(self, address: int, size: int) -> bytes:
        """Initialised bytes at a program address. Raises TinycError when they are not in the file."""
        for segment in self.segments:
            start = address - segment.address
            if start >= 0 and start + size <= len(segment.data):
                return segment.data[start : start + size]
        raise TinycError(f"the firmware has no data at 0x{address:08x}")

    def moved_code(self) -> tuple[int, int, int] | None:
        """Code that runs elsewhere than it is loaded: [first, end) of its addresses, and where the first is loaded."""
        for section in self.sections:
            for segment in self.segments:
                at = section.address - segment.address
                if (
                    section.executable
                    and section.size
                    and 0 <= at < len(segment.data)
                    and segment.load != segment.address
                ):
                    return section.address, section.address + section.size, segment.load + at
        return None

    def step_functions(self, model: str) -> Mapping[int, Symbol]:
        """The functions of the model's steps, `<model>_step_<n>_<operator>`, by step number.

        A compiler's clone of a whole function (`.isra.0`, `.constprop.0`) counts as the function, a part
        that it split off (`.part.0`, `.cold`) does not.
        """
        operator = r"(_(?!step_)\w+)?"  # not `net_step_1_step_0`, of another library
        pattern = re.compile(rf"{re.escape(model)}_step_(\d+){operator}(\.(isra|constprop)\.\d+)*")
        own = (symbol for symbol in self._functions if not symbol.is_global)
        by_step = {int(match[1]): s for s in own if (match := pattern.fullmatch(s.name))}
        return dict(sorted(by_step.items()))

    @functools.cached_property
    def _functions(self) -> tuple[Symbol, ...]:
        return tuple(sorted((s for s in self.symbols if s.is_function), key=lambda s: (s.address, s.size)))

    @functools.cached_property
    def _starts(self) -> list[int]:
        return [s.address for s in self._functions]

    @functools.cached_property
    def _by_name(self) -> dict[str, Symbol]:
        return {s.name: s for s in self.symbols}


def read_elf(path: Path) -> Elf:
    """Symbols, segments and sections of an ELF file. Raises TinycError when it is not one."""
    try:
        elf = ELFFile(io.BytesIO(plain_file(path).read_bytes()))  # it seeks before each of thousands of short reads
        sections = list(elf.iter_sections())
        symbols = tuple(_symbols(elf, sections))
        return Elf(symbols, tuple(_segments(elf)), tuple(_sections(sections)), elf["e_machine"])
    except OSError as error:
        raise TinycError(f"cannot read {path}: {error.strerror}", hint="give an ELF file, a linked program") from error
    except ELFError as error:
        raise TinycError(
            f"{path} is not an ELF file: {error}", hint="give the linked program, not a .bin or .hex"
        ) from error
    except (ValueError, IndexError) as error:
        message = f"{path} is damaged: its table of symbols ends in the middle of one"
        raise TinycError(message, hint="link it again") from error


def section_bytes(path: Path, name: str) -> bytes:
    """The bytes of one section of an ELF file, which may be an object file. Raises TinycError when it has none."""
    section = ELFFile(io.BytesIO(plain_file(path).read_bytes())).get_section_by_name(name)
    if section is None:
        raise TinycError(f"{path.name} has no section {name}")
    data: bytes = section.data()
    return data


# Table of symbols in System V's ABI (gABI, "Symbol Table"): Elf32_Sym, Elf64_Sym.
_SYMBOLS = {
    32: [("name", "u4"), ("value", "u4"), ("size", "u4"), ("info", "u1"), ("other", "u1"), ("section", "u2")],
    64: [("name", "u4"), ("info", "u1"), ("other", "u1"), ("section", "u2"), ("value", "u8"), ("size", "u8")],
}
_FUNCTION, _GLOBAL = ENUM_ST_INFO_TYPE["STT_FUNC"], ENUM_ST_INFO_BIND["STB_GLOBAL"]


def _symbols(elf: Any, sections: Sequence[Any]) -> list[Symbol]:
    """Of all tables. numpy reads them: a library of some thousand symbols takes pyelftools a good part of a second."""
    thumb = elf["e_machine"] == "EM_ARM"
    # Symbols in other sections mark places in debug information, whose addresses begin at 0 as those of flash do.
    memory = [bool(section["sh_flags"] & SH_FLAGS.SHF_ALLOC) for section in sections]
    order = "<" if elf.little_endian else ">"
    entry = np.dtype([(name, order + kind) for name, kind in _SYMBOLS[elf.elfclass]])
    symbols = []
    for table in sections:
        if not isinstance(table, SymbolTableSection):
            continue
        names = table.stringtable.data()
        for name, address, size, info, section in np.frombuffer(table.data(), entry)[
            ["name", "value", "size", "info", "section"]
        ].tolist():
            if not section or (section < len(memory) and not memory[section]) or not names[name]:
                continue
            function = info & 15 == _FUNCTION
            text = names[name : names.index(0, name)].decode("utf-8", "replace")
            symbols.append(
                Symbol(text, address & ~1 if thumb and function else address, size, function, info >> 4 == _GLOBAL)
            )
    return symbols


def _segments(elf: Any) -> list[Segment]:
    loads = (segment for segment in elf.iter_segments() if segment["p_type"] == "PT_LOAD")
    return [Segment(s["p_paddr"], s["p_vaddr"], s.data()) for s in loads if s["p_filesz"] > 0]


def _sections(sections: Sequence[Any]) -> list[Section]:
    read_sections = []
    for section in sections:
        flags = section["sh_flags"]
        if flags & SH_FLAGS.SHF_ALLOC:
            read_sections.append(
                Section(
                    section.name,
                    section["sh_size"],
                    bool(flags & SH_FLAGS.SHF_EXECINSTR),
                    bool(flags & SH_FLAGS.SHF_WRITE),
                    section["sh_type"] == "SHT_NOTE",
                    section["sh_addr"],
                )
            )
    return read_sections
