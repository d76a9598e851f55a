# SPDX-License-Identifier: Apache-2.0
"""The memories of a board: flash and main RAM in `[memory]`, and slower RAM beside them in `[[memories]]`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

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
class Memory:
    """The memories that firmware may use: addresses and bytes. The stack is the first part of the RAM. slow: a second
    RAM, where what does not fit the first may lie."""

    flash_origin: int
    flash_bytes: int
    ram_origin: int
    ram_bytes: int
    stack_bytes: int
    slow: SlowRam | None = None

    def spans(self) -> Mapping[str, tuple[int, int]]:
        """(origin, bytes) of each, by the word of messages."""
        found = {"flash": (self.flash_origin, self.flash_bytes), "RAM": (self.ram_origin, self.ram_bytes)}
        return found | ({self.slow.name: (self.slow.origin, self.slow.bytes)} if self.slow else {})


def read_memory(table: TomlTable, startup: str) -> Memory | None:
    """The memories of a board file; None where the operating system gives them (host). TinycError with the line."""
    memory = table.table("memory")
    if memory is None:
        if startup != "host":
            raise table.error("memory", "is missing")
        if table.has("memories"):
            raise table.error("memories", "needs [memory], which describes the main RAM")
        return None
    result = Memory(
        flash_origin=memory.integer("flash_origin"),
        flash_bytes=memory.integer("flash_bytes", least=PAGE),
        ram_origin=memory.integer("ram_origin"),
        ram_bytes=memory.integer("ram_bytes", least=PAGE),
        stack_bytes=memory.integer("stack_bytes", least=512),
        slow=_slow(table, startup),
    )
    for key in ("flash_origin", "flash_bytes", "ram_origin", "ram_bytes"):
        if getattr(result, key) % PAGE:
            raise memory.error(key, f"must be a multiple of {PAGE}")
    if result.stack_bytes % 8 or result.stack_bytes >= result.ram_bytes:
        raise memory.error("stack_bytes", "must be a multiple of 8 and less than ram_bytes")
    _check_apart(table, memory, result)
    memory.finish()
    return result


def _slow(table: TomlTable, startup: str) -> SlowRam | None:
    items = table.tables("memories")
    if len(items) > 1:
        raise table.error("memories", f"is there {len(items)} times; the arena has two parts, so at most once")
    if not items:
        return None
    if startup != "cortex-m":
        raise table.error("memories", "is for the startup 'cortex-m' so far: the others protect one RAM")
    item = items[0]
    found = SlowRam(
        name=read_word(item, "name"),
        origin=item.integer("origin"),
        bytes=item.integer("bytes", least=PAGE),
        read_waits=item.integer("read_waits"),
        write_waits=item.integer("write_waits"),
        width_bytes=item.integer("width_bytes", 4, least=1),
    )
    for key in ("origin", "bytes"):
        if getattr(found, key) % PAGE:
            raise item.error(key, f"must be a multiple of {PAGE}")
    if found.width_bytes not in (1, 2, 4, 8):
        raise item.error("width_bytes", "must be 1, 2, 4 or 8")
    if found.name in ("flash", "RAM"):
        raise item.error("name", "is the word for a memory of [memory]; give another")
    item.finish()
    return found


def _check_apart(table: TomlTable, memory: TomlTable, found: Memory) -> None:
    flash, ram, *others = found.spans().items()
    if _overlap(flash[1], ram[1]):
        raise memory.error("ram_origin", "puts the RAM into the flash")
    for name, span in others:
        for other, taken in (flash, ram):
            if _overlap(span, taken):
                raise table.error("memories", f"has '{name}' in the board's {other}")
        if span[0] + span[1] > 1 << 32:
            raise table.error("memories", f"has '{name}' beyond the addresses of 32 bits")


def _overlap(a: tuple[int, int], b: tuple[int, int]) -> bool:
    return a[0] < b[0] + b[1] and b[0] < a[0] + a[1]
