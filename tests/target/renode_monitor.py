# SPDX-License-Identifier: Apache-2.0
"""Renode's monitor, for the part of its language that tinyc writes: a script makes a machine. What Renode would refuse
raises ValueError: unknown commands and names, arguments of the wrong type, and symbols that are not there just once."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from pathlib import Path

from renode_facts import CORTEX_M, FORMATS, MEMBERS, READ_ONLY
from renode_text import Platform, read_repl

from tinyc.toolchain.elf import read_elf

_TOKEN = re.compile(r'"([^"]*)"|`([^`]*)`|(\$\w+(?:/[\w.-]+)?)|(\S+)')
_SET_IF_UNSET = re.compile(r'\$(\w+)\?=("[^"]*"|\$ORIGIN/[\w.-]+)')


@dataclass
class Monitor:
    """What the commands so far have made. loads: binary files with their addresses. outputs: uart -> its file.
    settings: values of properties. tracing: the file of the execution trace, None when there is none."""

    machine: str = ""
    platform: Platform | None = None
    elf: Path | None = None
    vectors: int | None = None
    loads: list[tuple[Path, int]] = field(default_factory=list)
    outputs: dict[str, Path] = field(default_factory=dict)
    settings: dict[str, str] = field(default_factory=dict)
    shown: list[str] = field(default_factory=list)
    tracing: Path | None = None
    symbols: list[str] = field(default_factory=list)
    variables: dict[str, str] = field(default_factory=dict)
    macros: dict[str, list[str]] = field(default_factory=dict)

    def run_script(self, script: Path) -> None:
        self.variables["ORIGIN"] = str(script.parent)
        lines = script.read_text(encoding="utf-8").splitlines()
        pending: str | None = None
        body: list[str] | None = None
        for number, raw in enumerate(lines, 1):
            line = raw.strip()
            try:
                if line == '"""':
                    if body is None and pending is None:
                        raise ValueError("a text that belongs to no macro")
                    if body is not None:
                        self.macros[str(pending)], pending, body = body, None, None
                    else:
                        body = []
                elif body is not None:
                    body.append(line)
                elif named := re.fullmatch(r"macro (\w+)", line):
                    pending = named[1]
                elif line:
                    self.execute(line)
            except ValueError as error:
                raise ValueError(f"{script.name}, line {number}: {error}") from error
        if pending is not None:
            raise ValueError(f"{script.name}: a macro is not closed")

    def execute(self, line: str) -> str:
        """What the command prints."""
        if re.fullmatch(r":(name|description): .+", line):
            return ""
        if setting := _SET_IF_UNSET.fullmatch(line):
            self.variables.setdefault(setting[1], self._word(setting[2]))
            return ""
        if named := re.fullmatch(r"runMacro \$(\w+)", line):
            if named[1] not in self.macros:
                raise ValueError(f"there is no macro {named[1]}")
            for inner in self.macros[named[1]]:
                self.execute(inner)
            return ""
        words = [self._word(match[0]) for match in _TOKEN.finditer(line)]
        if words[0] == "showAnalyzer":
            self.shown.append(self._peripheral(words[1]))
            return ""
        return self._member(line, words)

    def _word(self, token: str) -> str:
        if token.startswith('"'):
            return token[1:-1]
        if token.startswith("`"):
            return self.execute(token[1:-1])
        if token.startswith("$"):
            name, _, rest = token[1:].partition("/")
            if name not in self.variables:
                raise ValueError(f"variable ${name} is not set")
            return f"{self.variables[name]}/{rest}" if rest else self.variables[name]
        return token

    def _peripheral(self, name: str) -> str:
        short = name.removeprefix("sysbus.")
        if self.platform is None or short not in self.platform.entries:
            raise ValueError(f"'{name}' is not there")
        return short

    def _member(self, line: str, words: list[str]) -> str:
        if words[0] in MEMBERS and "." not in words[0]:
            name, members = words[0], MEMBERS[words[0]]
            if name not in ("mach", "emulation") and not self.machine:
                raise ValueError("there is no machine")
        else:
            name = self._peripheral(words[0])
            assert self.platform is not None
            members = MEMBERS.get(self.platform.entries[name].type) or MEMBERS["mach"].__class__()
        if len(words) < 2:
            raise ValueError(f"unknown command: {line}")
        member, arguments = words[1], words[2:]
        if member in members.properties and len(arguments) < 2:
            raw = [match[0] for match in _TOKEN.finditer(line)][2:]
            return self._property(name, member, raw, arguments)
        if member not in members.commands:
            raise ValueError(f"unknown command: {line}")
        required, optional = members.commands[member]
        if not len(required) <= len(arguments) <= len(required) + len(optional):
            raise ValueError(f"{member} takes {len(required)} arguments: {line}")
        raw = [match[0] for match in _TOKEN.finditer(line)][2:]
        for text, value, kind in zip(raw, arguments, required + optional, strict=False):
            _check(text, value, kind)
        return str(getattr(self, f"_do_{member}")(name, *arguments) or "")

    def _property(self, name: str, member: str, raw: list[str], arguments: list[str]) -> str:
        if not arguments:
            return self.settings.get(f"{name} {member}", "0x0")
        if member in READ_ONLY:
            raise ValueError(f"{member} cannot be set")
        _check(raw[0], arguments[0], "number")
        self.settings[f"{name} {member}"] = arguments[0]
        if member == "VectorTableOffset":
            self.vectors = int(arguments[0], 0)
        return ""

    def _do_create(self, _: str, name: str) -> None:
        if self.machine:
            raise ValueError("there is a machine already")
        self.machine = name

    def _do_LoadPlatformDescription(self, _: str, path: str) -> None:  # noqa: N802
        self.platform = read_repl(Path(path).read_text(encoding="utf-8"))

    def _do_SetGlobalQuantum(self, _: str, seconds: str) -> None:  # noqa: N802
        """Of the time sources that are there: a machine that is made later keeps its own."""
        if not self.machine:
            raise ValueError("there is no machine")
        self.settings["quantum"] = seconds

    def _do_SetGlobalAdvanceImmediately(self, _: str, value: str) -> None:  # noqa: N802
        if not self.machine:
            raise ValueError("there is no machine")
        self.settings["advance"] = value

    def _do_LoadELF(self, _: str, path: str) -> None:  # noqa: N802
        if self.platform is None:
            raise ValueError("there is no memory")
        elf = read_elf(Path(path))
        for segment in elf.segments:
            self._check_memory(segment.load, len(segment.data))
        self.elf = Path(path)
        if elf.machine == "EM_ARM":  # Renode guesses: the first section
            self.vectors = min(s.address for s in elf.sections if not s.is_note)

    def _do_LoadBinary(self, _: str, path: str, address: str) -> None:  # noqa: N802
        self._check_memory(int(address, 0), Path(path).stat().st_size)
        self.loads.append((Path(path), int(address, 0)))

    def _do_GetSymbolAddress(self, _: str, name: str) -> str:  # noqa: N802
        if self.elf is None:
            raise ValueError("no ELF file is loaded")
        symbols = [symbol for symbol in read_elf(self.elf).symbols if symbol.name == name]
        if len(symbols) != 1:
            raise ValueError(f"{len(symbols)} symbols are named '{name}'")
        self.symbols.append(name)
        return f"0x{symbols[0].address:X}"

    def _do_CreateFileBackend(self, uart: str, path: str, immediate: str = "false") -> None:  # noqa: N802
        if immediate != "true":
            raise ValueError("what it writes would come with its end")
        self.outputs[uart] = Path(path)

    def _do_CreateExecutionTracing(self, _: str, name: str, path: str, trace: str) -> None:  # noqa: N802
        if trace != "PC":
            raise ValueError(f"the stand-in has no format {trace}")
        if Path(path).exists():
            raise ValueError(f"{path} is there already")
        self.tracing = Path(path)

    def _do_DisableExecutionTracing(self, _: str) -> None:  # noqa: N802
        self.tracing = None

    def _check_memory(self, address: int, size: int) -> None:
        assert self.platform is not None
        for name, entry in self.platform.entries.items():
            if entry.type == "Memory.MappedMemory":
                start = self.platform.address(name)
                if start <= address and address + size <= start + self.platform.size(name):
                    return
        raise ValueError(f"{size} bytes at 0x{address:08X} are in no memory")

    @property
    def is_arm(self) -> bool:
        assert self.platform is not None
        return self.platform.entries["cpu"].type == CORTEX_M


def _check(text: str, value: str, kind: str) -> None:
    """text: the argument as the script has it."""
    right = {
        "number": not text.startswith('"') and re.fullmatch(r"0x[0-9A-Fa-f]+|\d+", value) is not None,
        "flag": text in ("true", "false"),
        "text": text.startswith(('"', "$")),
        "seconds": re.fullmatch(r'"\d+\.\d+"', text) is not None,
        "file": not text.startswith('"') and Path(value).is_file(),
        "new": not text.startswith('"') and Path(value).parent.is_dir(),
        "format": value in FORMATS,
    }[kind]
    if not right:
        raise ValueError(f"{text} is no {kind}")
