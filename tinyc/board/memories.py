# SPDX-License-Identifier: Apache-2.0
"""The memories of a board: flash and main RAM in `[memory]`, and beside them in `[[memories]]` slower RAM for a part of
the arena, and RAM for code."""

from __future__ import annotations

from collections.abc import Mapping

from tinyc.base.dataclass import dataclass
from tinyc.board.instruction_set import INSTRUCTION_SETS
from tinyc.board.table import TomlTable
from tinyc.board.words import read_word

PAGE = 1024  # addresses and sizes are multiples


@dataclass(frozen=True, slots=True)
class SlowRam:
    """RAM that answers later than the main one (PSRAM, SDRAM). read_waits, write_waits: cycles that the core waits for
    an access to width_bytes bytes; one to more of them is several. No cache is assumed."""

    name: str
    origin: int
    bytes: int
    read_waits: int
    write_waits: int
    width_bytes: int

    def accesses(self, size: int) -> int:
        """How many accesses of the memory one of the core to `size` bytes is."""
        return -(-size // self.width_bytes)


@dataclass(frozen=True, slots=True)
class CodeRam:
    """RAM that the core fetches code from without waiting (ITCM, an SRAM below 0x2000_0000), for `--ram-code`. alias:
    where in the main RAM the same bytes appear, 0: nowhere; with code in them the main RAM ends there."""

    name: str
    origin: int
    bytes: int
    alias: int = 0


@dataclass(frozen=True, slots=True)
class Memory:
    """The memories that firmware may use: addresses and bytes. The stack is the first part of the RAM. slow: a second
    RAM, where what does not fit the first may lie. code: RAM for code that is not to wait for flash. constants_origin:
    where the core reads constants of the flash, of one that cannot read all of them where it fetches code; 0: there.
    """

    flash_origin: int
    flash_bytes: int
    ram_origin: int
    ram_bytes: int
    stack_bytes: int
    slow: SlowRam | None = None
    code: CodeRam | None = None
    constants_origin: int = 0

    def ram_beside(self, has_code: bool) -> int:
        """Bytes of the main RAM, with code in the other one or without."""
        is_shared = has_code and self.code is not None and self.code.alias > 0
        return self.code.alias - self.ram_origin if is_shared and self.code is not None else self.ram_bytes

    def spans(self) -> Mapping[str, tuple[int, int]]:
        """(origin, bytes) of each, by the word of messages."""
        spans = {"flash": (self.flash_origin, self.flash_bytes), "RAM": (self.ram_origin, self.ram_bytes)}
        if self.constants_origin:
            spans["flash's constants"] = (self.constants_origin, self.flash_bytes)
        return spans | {ram.name: (ram.origin, ram.bytes) for ram in (self.slow, self.code) if ram is not None}


def read_memory(table: TomlTable, startup: str) -> Memory | None:
    """The memories of a board file; None where the operating system gives them (host). TinycError with the line."""
    memory = table.table("memory")
    if memory is None:
        if startup != "host":
            raise table.error("memory", "is missing")
        if table.has("memories"):
            raise table.error("memories", "needs [memory], which describes the main RAM")
        return None
    slow, code = _others(table, startup)
    result = Memory(
        flash_origin=memory.integer("flash_origin"),
        flash_bytes=memory.integer("flash_bytes", least=PAGE),
        ram_origin=memory.integer("ram_origin"),
        ram_bytes=memory.integer("ram_bytes", least=PAGE),
        stack_bytes=memory.integer("stack_bytes", least=512),
        slow=slow,
        code=code,
        constants_origin=memory.integer("constants_origin", 0),
    )
    for key in ("flash_origin", "flash_bytes", "ram_origin", "ram_bytes", "constants_origin"):
        if getattr(result, key) % PAGE:
            raise memory.error(key, f"must be a multiple of {PAGE}")
    inside = range(result.ram_origin + result.stack_bytes, result.ram_origin + result.ram_bytes)
    if code is not None and code.alias and (code.alias % PAGE or code.alias not in inside):
        raise table.error("memories", "has an alias that is no multiple of 1024 in the main RAM, behind the stack")
    if result.constants_origin and startup != "riscv":
        raise memory.error("constants_origin", "is for the startup 'riscv' so far")
    if result.stack_bytes % 8 or result.stack_bytes >= result.ram_bytes:
        raise memory.error("stack_bytes", "must be a multiple of 8 and less than ram_bytes")
    _check_apart(table, memory, result)
    memory.finish()
    return result


_HOLDS = ("arena", "code")


def _others(table: TomlTable, startup: str) -> tuple[SlowRam | None, CodeRam | None]:
    """The RAMs of `[[memories]]`, at most one for each use."""
    slow: SlowRam | None = None
    code: CodeRam | None = None
    items = table.tables("memories")
    for item in items:
        holds = item.choice("holds", _HOLDS) if item.has("holds") else "arena"
        its_set = INSTRUCTION_SETS.get(startup)
        if holds == "code" and not (its_set is not None and its_set.code_in_ram):
            able = " or ".join(f"'{each.name}'" for each in INSTRUCTION_SETS.values() if each.code_in_ram)
            raise item.error("holds", f"is 'code', which is for the startup {able} so far")
        if (slow if holds == "arena" else code) is not None:
            raise item.error("holds", f"is '{holds}' twice; at most one memory holds it beside the main RAM")
        if holds == "arena":
            slow = _slow(item)
        else:
            code = CodeRam(*_place(item), item.integer("alias", 0))
        item.finish()
    return slow, code


def _place(item: TomlTable) -> tuple[str, int, int]:
    """Name, origin and bytes."""
    place = read_word(item, "name"), item.integer("origin"), item.integer("bytes", least=PAGE)
    for key in ("origin", "bytes"):
        if item.integer(key) % PAGE:
            raise item.error(key, f"must be a multiple of {PAGE}")
    if place[0] in ("flash", "RAM"):
        raise item.error("name", "is the word for a memory of [memory]; give another")
    return place


def _slow(item: TomlTable) -> SlowRam:
    name, origin, size = _place(item)
    reads, writes = item.integer("read_waits"), item.integer("write_waits")
    ram = SlowRam(name, origin, size, reads, writes, item.integer("width_bytes", 4, least=1))
    if ram.width_bytes not in (1, 2, 4, 8):
        raise item.error("width_bytes", "must be 1, 2, 4 or 8")
    return ram


def _check_apart(table: TomlTable, memory: TomlTable, whole: Memory) -> None:
    flash, ram, *others = whole.spans().items()
    if _overlap(flash[1], ram[1]):
        raise memory.error("ram_origin", "puts the RAM into the flash")
    constants = (whole.constants_origin, whole.flash_bytes)
    if whole.constants_origin and (_overlap(constants, flash[1]) or _overlap(constants, ram[1])):
        raise memory.error("constants_origin", "puts the flash's constants into its code, or into the RAM")
    if whole.slow is not None and whole.code is not None and whole.slow.name == whole.code.name:
        raise table.error("memories", f"has two called '{whole.slow.name}'")
    for number, (name, span) in enumerate(others):
        for other, taken in (flash, ram, *others[:number]):
            if _overlap(span, taken):
                raise table.error("memories", f"has '{name}' in the board's {other}")
        if span[0] + span[1] > 1 << 32:
            raise table.error("memories", f"has '{name}' beyond the addresses of 32 bits")


def _overlap(a: tuple[int, int], b: tuple[int, int]) -> bool:
    return a[0] < b[0] + b[1] and b[0] < a[0] + a[1]
