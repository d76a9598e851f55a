# SPDX-License-Identifier: Apache-2.0
"""Renode's platform descriptions, read as strictly as Renode and more: what `renode_facts` does not know is refused."""

from __future__ import annotations

import itertools
import re
from dataclasses import dataclass, field

from renode_facts import PERIPHERALS, has_control_registers, knows_core

PAGE = 0x1000


@dataclass
class Entry:
    type: str
    address: int | None
    attributes: dict[str, str] = field(default_factory=dict)
    interrupts: list[tuple[str, str, int]] = field(default_factory=list)  # output, of what, its input


@dataclass
class Platform:
    entries: dict[str, Entry]

    def address(self, name: str) -> int:
        value = self.entries[name].address
        assert value is not None
        return value

    def number(self, name: str, attribute: str) -> int:
        return int(self.entries[name].attributes[attribute], 0)

    def text(self, name: str, attribute: str) -> str:
        return self.entries[name].attributes[attribute].strip('"')

    def size(self, name: str) -> int:
        declared = PERIPHERALS[self.entries[name].type].size
        return self.number(name, "size") if declared is None else declared


_ENTRY = re.compile(r"([a-z]\w*): ([A-Z]\w+\.\w+) @ sysbus(?: (0x[0-9A-Fa-f_]+))?")
_ATTRIBUTE = re.compile(r'(\w+): (0x[0-9A-Fa-f]+|\d+|"[^"]*"|[a-z]\w*)')
_INTERRUPT = re.compile(r"(?:(\w+) )?-> (\w+)@(\d+)")
_INTERRUPTS = re.compile(r"\[(\d+(?:, \d+)*)\] -> (\w+)@\[(\d+(?:, \d+)*)\]")


def read_repl(text: str) -> Platform:
    """Raises ValueError for a line that is not of the language, and for a type, parameter or name that is not there."""
    entries: dict[str, Entry] = {}
    for number, line in enumerate(text.splitlines(), 1):
        code = line.split("//")[0].rstrip()
        if not code:
            continue
        if entry := _ENTRY.fullmatch(code):
            if entry[1] in entries:
                raise ValueError(f"line {number}: {entry[1]} is there twice")
            entries[entry[1]] = Entry(entry[2], int(entry[3], 16) if entry[3] else None)
        elif code.startswith("    ") and not code.startswith("     ") and entries:
            _add_line(next(reversed(entries.values())), code.strip(), f"line {number}")
        else:
            raise ValueError(f"line {number}: neither an entry nor indented by 4 spaces: {line}")
    platform = Platform(entries)
    for name in entries:
        _check_entry(platform, name)
    _check_places(platform)
    return platform


def _add_line(entry: Entry, code: str, where: str) -> None:
    if attribute := _ATTRIBUTE.fullmatch(code):
        if attribute[1] in entry.attributes:
            raise ValueError(f"{where}: {attribute[1]} is there twice")
        entry.attributes[attribute[1]] = attribute[2]
    elif interrupt := _INTERRUPT.fullmatch(code):
        entry.interrupts.append((interrupt[1] or "", interrupt[2], int(interrupt[3])))
    elif several := _INTERRUPTS.fullmatch(code):
        pairs = zip(several[1].split(", "), several[3].split(", "), strict=True)
        entry.interrupts += [(output, several[2], int(line)) for output, line in pairs]
    else:
        raise ValueError(f"{where}: no attribute: {code}")


def _check_entry(platform: Platform, name: str) -> None:
    entry = platform.entries[name]
    kind_of_entry = PERIPHERALS.get(entry.type)
    if kind_of_entry is None:
        raise ValueError(f"{name}: Renode has no {entry.type}")
    for attribute, value in entry.attributes.items():
        kind = kind_of_entry.parameters.get(attribute)
        if kind is None:
            raise ValueError(f"{name}: {entry.type} has no parameter '{attribute}'")
        if not _is_a(platform, value, kind):
            raise ValueError(f"{name}: {attribute}: {value} is not there or no {kind}")
    for attribute in kind_of_entry.required:
        if attribute not in entry.attributes:
            raise ValueError(f"{name}: {entry.type} needs '{attribute}'")
    if (kind_of_entry.size == 0) != (entry.address is None):
        raise ValueError(f"{name}: {entry.type} {'has no' if entry.address is not None else 'needs an'} address")
    for output, target, line in entry.interrupts:
        if output not in kind_of_entry.outputs and not (output == "" and len(kind_of_entry.outputs) == 1):
            raise ValueError(f"{name}: {entry.type} has no interrupt '{output}'")
        if target not in platform.entries:
            raise ValueError(f"{name}: '{target}' is not there")
        if line not in PERIPHERALS[platform.entries[target].type].inputs:
            raise ValueError(f"{name}: {target} has no input {line}")
    if "cpuType" in entry.attributes:
        _check_core(entry.type, platform.text(name, "cpuType"))


def _check_core(kind: str, core: str) -> None:
    if not knows_core(kind, core):
        raise ValueError(f"{kind} knows no '{core}'")
    if core.startswith("rv") and not has_control_registers(core):
        raise ValueError(f"'{core}' has no control registers: the firmware's first csrw would fault")


def _is_a(platform: Platform, value: str, kind: str) -> bool:
    if kind == "number":
        return re.fullmatch(r"0x[0-9A-Fa-f]+|\d+", value) is not None
    if kind == "text":
        return value.startswith('"')
    if kind == "flag":
        return value in ("true", "false")
    return value in platform.entries and platform.entries[value].type == kind


def _check_places(platform: Platform) -> None:
    """Nothing on the bus overlaps; memories are whole pages."""
    places = []
    for name, entry in platform.entries.items():
        if entry.address is None:
            continue
        places.append((entry.address, entry.address + platform.size(name), name))
        if entry.type == "Memory.MappedMemory" and (entry.address % PAGE or platform.size(name) % PAGE):
            raise ValueError(f"{name}: not whole pages")
    places.sort()
    for (_, end, below), (start, _, above) in itertools.pairwise(places):
        if start < end:
            raise ValueError(f"{above} overlaps {below}")
