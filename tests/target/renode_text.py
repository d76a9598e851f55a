"""Checkers for the part of Renode's .repl and .resc languages that tinyc writes; they refuse all else."""

from __future__ import annotations

import re
from dataclasses import dataclass, field


@dataclass
class Entry:
    type: str
    address: int | None
    attributes: dict[str, str] = field(default_factory=dict)
    interrupts: list[str] = field(default_factory=list)


@dataclass
class Platform:
    entries: dict[str, Entry]

    def address(self, name: str) -> int:
        found = self.entries[name].address
        assert found is not None
        return found

    def number(self, name: str, attribute: str) -> int:
        return int(self.entries[name].attributes[attribute], 0)


_ENTRY = re.compile(r"(\w+): ([A-Z]\w+\.\w+) @ sysbus(?: (0x[0-9A-Fa-f_]+))?")
_ATTRIBUTE = re.compile(r'(\w+): (0x[0-9A-Fa-f]+|\d+|"[^"]*"|[a-z]\w*)')
_INTERRUPT = re.compile(r"(?:\w+ )?-> (\w+)@\d+")


def read_repl(text: str) -> Platform:
    """Raises ValueError for a line that is not of the language, or a name that is not there."""
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
            last = next(reversed(entries.values()))
            if attribute := _ATTRIBUTE.fullmatch(code.strip()):
                last.attributes[attribute[1]] = attribute[2]
            elif interrupt := _INTERRUPT.fullmatch(code.strip()):
                last.interrupts.append(interrupt[1])
            else:
                raise ValueError(f"line {number}: no attribute: {line}")
        else:
            raise ValueError(f"line {number}: neither an entry nor indented by 4 spaces: {line}")
    _check_names(entries)
    return Platform(entries)


def _check_names(entries: dict[str, Entry]) -> None:
    for entry in entries.values():
        names = [v for v in entry.attributes.values() if re.fullmatch(r"[a-z]\w*", v) and v not in ("true", "false")]
        for name in [*names, *entry.interrupts]:
            if name not in entries:
                raise ValueError(f"'{name}' is not there")


@dataclass
class Script:
    symbols: list[str]
    files: list[str]
    machine_made_before_use: bool
    commands: list[str]

    def argument(self, pattern: str) -> str:
        """What the one command that the pattern fits has in place of the group; "" if there is none."""
        found = [match[1] for command in self.commands if (match := re.fullmatch(pattern, command))]
        if len(found) > 1:
            raise ValueError(f"{pattern} is there {len(found)} times")
        return found[0] if found else ""


_COMMANDS = (
    r":(name|description): .+",
    r'\$\w+\?=("[^"]*"|\$ORIGIN/[\w.-]+)',
    r"mach create \$\w+",
    r"machine LoadPlatformDescription \$ORIGIN/[\w.-]+",
    r"cpu PerformanceInMips \d+",
    r"sysbus LoadELF \$\w+",
    r'cpu VectorTableOffset `sysbus GetSymbolAddress "\w+"`',
    r'mach create "\w+"',
    r"sysbus LoadELF \$ORIGIN/[\w.-]+",
    r"sysbus LoadBinary \$ORIGIN/[\w.-]+ 0x[0-9A-F]{8}",
    r"sysbus\.\w+ CreateFileBackend \$ORIGIN/[\w.-]+ true",
    r'cpu CreateExecutionTracing "tracer" \$ORIGIN/[\w.-]+ PC',
    r"runMacro \$\w+",
    r"showAnalyzer sysbus\.\w+",
)


def read_resc(text: str) -> Script:
    """Raises ValueError for a command that is not known, an open macro, or a macro that is not there."""
    macros: set[str] = set()
    pending = ""
    inside = False
    commands = []
    for number, raw in enumerate(text.splitlines(), 1):
        line = raw.strip()
        if line == '"""':
            if inside:
                macros.add(pending)
            elif not pending:
                raise ValueError(f"line {number}: a text that belongs to no macro")
            inside = not inside
            pending = pending if inside else ""
        elif named := re.fullmatch(r"macro (\w+)", line):
            pending = named[1]
        elif line:
            if not any(re.fullmatch(pattern, line) for pattern in _COMMANDS):
                raise ValueError(f"line {number}: unknown command: {line}")
            if (run := re.fullmatch(r"runMacro \$(\w+)", line)) and run[1] not in macros:
                raise ValueError(f"line {number}: there is no macro {run[1]}")
            commands.append(line)
    if inside or pending:
        raise ValueError("a macro is not closed")
    made = next((i for i, c in enumerate(commands) if c.startswith("mach create")), len(commands))
    first_use = next(i for i, c in enumerate(commands) if re.match(r"(machine|cpu|sysbus) ", c))
    return Script(
        re.findall(r'GetSymbolAddress "(\w+)"', text),
        re.findall(r"\$ORIGIN/([\w.-]+)", text),
        made < first_use,
        commands,
    )
