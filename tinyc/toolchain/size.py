# SPDX-License-Identifier: Apache-2.0
"""Flash that a generated library takes, without the harness that tests it."""

from __future__ import annotations

import re
from pathlib import Path

from tinyc.base import paths
from tinyc.base.dataclass import dataclass
from tinyc.base.errors import Missed, TinycError
from tinyc.board import Board
from tinyc.toolchain.compile import HARNESS_FLAGS, WARNING_FLAGS, link_alone
from tinyc.toolchain.compilers import Toolchain
from tinyc.toolchain.elf import Elf, read_elf


@dataclass(frozen=True, slots=True)
class LibrarySize:
    """Flash bytes of a library: executable sections and read-only constants, compiler helpers included.

    memory_bytes: memcpy and the like where compiled code calls them; every C program has these anyway, so
    they are not part of code_bytes. ram_code_bytes, ram_const_bytes: of code and constants, what start-up code copies
    to RAM.
    """

    code_bytes: int
    const_bytes: int
    memory_bytes: int = 0
    ram_code_bytes: int = 0
    ram_const_bytes: int = 0

    @property
    def ram_bytes(self) -> int:
        return self.ram_code_bytes + self.ram_const_bytes

    @property
    def flash_bytes(self) -> int:
        return self.code_bytes + self.const_bytes


def library_size(library_object: Path, toolchain: Toolchain, board: Board, out_dir: Path) -> LibrarySize:
    """Links the library's object with nothing but the helpers it needs, and reads the sections.

    Raises TinycError when the library has variables (.data or .bss): the contract is that it has none, but for the slow
    part of an arena.
    """
    roots = [s.name for s in read_elf(library_object).symbols if s.is_function and s.is_global]
    folder = paths.templates_dir() / "firmware"
    probe = out_dir / "library.elf"
    flags = [
        "-std=c99",
        "-O2",
        "-ffunction-sections",
        "-fno-unwind-tables",
        "-fno-asynchronous-unwind-tables",
    ]
    flags += [*WARNING_FLAGS, *HARNESS_FLAGS[toolchain.family]]
    link = ["-nostartfiles", "-Wl,--gc-sections", f"-Wl,-T,{folder / 'library.ld'}", f"-Wl,-e,{roots[0]}"]
    link += [f"-Wl,-u,{name}" for name in roots]
    words: list[str | Path] = [*flags, library_object, folder / "memory.c", *link]
    what = f"linking {library_object.name} to measure it"
    if board.is_host:
        toolchain.run([*words, "-static", "-nostdlib", "-o", probe], what)
    else:
        link_alone(toolchain, words, probe, what)
    return _measure(read_elf(probe))


_MEMORY_FUNCTION = re.compile(r"(__aeabi_)?mem(cpy|move|set|clr)[48]?")


# Where a position-independent object of the host keeps constants that hold addresses.
RELOCATED = ".data.rel.ro"
RAM_CODE, RAM_CONST = ".tc_ramfunc", ".tc_ramconst"  # what start-up code copies to RAM
SLOW_PART = ".tinyc_slow"  # of the arena, which a library has room for where the board has a second RAM


def _measure(elf: Elf) -> LibrarySize:
    variables = [s for s in elf.sections if s.writable and s.name not in (RELOCATED, SLOW_PART, RAM_CODE, RAM_CONST)]
    slow = [s for s in elf.sections if s.name == SLOW_PART]
    for section in variables:
        if section.size > 0:
            raise TinycError(f"the library has {section.size} bytes of variables ({section.name})")
    code = sum(s.size for s in elf.sections if s.executable)
    const = sum(s.size for s in elf.sections if not s.executable and s not in (*variables, *slow) and not s.is_note)
    memory = {s.address: s.size for s in elf.symbols if s.is_function and is_memory_function(s.name)}
    memory_bytes = sum(memory.values())
    in_ram = {s.name: s.size for s in elf.sections}
    return LibrarySize(code - memory_bytes, const, memory_bytes, in_ram.get(RAM_CODE, 0), in_ram.get(RAM_CONST, 0))


def is_memory_function(name: str) -> bool:
    """Whether every C program has it anyway."""
    return _MEMORY_FUNCTION.fullmatch(name) is not None


def check_fits(board: Board, size: LibrarySize | None, arena_bytes: int, stack_bytes: int = 0) -> None:
    """Raises TinycError (exit code 1) when the model does not fit the board's flash or RAM, with the bytes.

    size None: only the RAM is checked, before anything is compiled.
    """
    if board.memory is None:
        return
    apart = 0 if size is None or board.code_ram is None else size.ram_code_bytes
    copied = 0 if size is None else size.ram_bytes - apart
    needed_ram = arena_bytes + stack_bytes + copied
    there = board.memory.ram_beside(size is not None and size.ram_code_bytes > 0)
    if needed_ram > there:
        parts = f"arena {arena_bytes:,}" + (f", stack {stack_bytes:,}" if stack_bytes else "")
        parts += f", copied from flash {copied:,}" if copied else ""
        raise _does_not_fit(board, "RAM", needed_ram, there, parts)
    if size is not None and board.code_ram is not None and size.ram_code_bytes > board.code_ram.bytes:
        parts = "code that is copied from flash"
        raise _does_not_fit(board, board.code_ram.name, size.ram_code_bytes, board.code_ram.bytes, parts)
    if size is not None and size.flash_bytes > board.memory.flash_bytes:
        parts = f"code {size.code_bytes:,}, constants {size.const_bytes:,}"
        raise _does_not_fit(board, "flash", size.flash_bytes, board.memory.flash_bytes, parts)


def _does_not_fit(board: Board, memory: str, needed: int, there: int, parts: str) -> TinycError:
    return TinycError(
        f"the model does not fit {board.name}: it needs {needed:,} bytes of {memory} ({parts}), "
        f"the board has {there:,}: {needed - there:,} too few",
        hint="choose a larger board (`tinyc boards`), or a smaller model",
        exit_code=1,
        missed=[Missed(memory, "bytes", there, needed)],
    )
