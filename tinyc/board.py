"""Board: what a target is (core, memories, flags, emulators), read from a TOML file."""

from __future__ import annotations

import difflib
import re
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tinyc import paths
from tinyc.errors import Loc, TinycError


@dataclass(frozen=True, slots=True)
class Memory:
    """The memories that firmware may use: addresses and bytes. The stack is the first part of the RAM."""

    flash_origin: int
    flash_bytes: int
    ram_origin: int
    ram_bytes: int
    stack_bytes: int


@dataclass(frozen=True, slots=True)
class Qemu:
    """The QEMU machine that stands for the board."""

    program: str
    machine: str
    arguments: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Unicorn:
    """The unicorn CPU model that stands for the board's core (`cortex-m4`)."""

    cpu: str


@dataclass(frozen=True, slots=True)
class Uart:
    """The board's UART: its register model and base address."""

    kind: str
    base: int


@dataclass(frozen=True, slots=True)
class Board:
    """A target. `memory` is None where the operating system gives it (host).

    isa: features that kernels ask for (`dsp`, `fpu`, `mve`). clock_hz: typical clock, for times in
    reports; 0 when unknown. cflags: per compiler family (`gcc`, `zig`). startup and io name the
    harness files in templates/firmware. file: where the description came from.
    """

    name: str
    description: str
    core: str
    isa: frozenset[str]
    clock_hz: int
    memory: Memory | None
    startup: str
    io: str
    cflags: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    uart: Uart | None = None
    qemu: Qemu | None = None
    unicorn: Unicorn | None = None
    file: str = ""

    @property
    def is_host(self) -> bool:
        """Whether the firmware is a native process of this computer."""
        return self.startup == "host"

    @property
    def flash_bytes(self) -> int | None:
        """Flash that the board has, None when there is no limit."""
        return self.memory.flash_bytes if self.memory else None

    @property
    def ram_bytes(self) -> int | None:
        """RAM that the board has, None when there is no limit."""
        return self.memory.ram_bytes if self.memory else None


STARTUPS = ("cortex-m", "riscv", "host")
FAMILIES = ("gcc", "zig")
IOS = ("semihosting", "host")


def list_boards() -> tuple[Board, ...]:
    """Every board that ships with tinyc, sorted by name."""
    return tuple(_read(file) for file in sorted(paths.boards_dir().glob("*.toml")))


def load_board(name_or_path: str | Path) -> Board:
    """The board of that name, or the one that a `.toml` file of the user describes.

    Raises TinycError when the name is unknown (with the closest one) or the file is not a valid board
    (with its line).
    """
    text = str(name_or_path)
    if text.endswith(".toml"):
        return _read(Path(text))
    file = paths.boards_dir() / f"{text}.toml"
    if re.fullmatch(r"[\w.-]+", text) and file.is_file():
        return _read(file)
    known = sorted(f.stem for f in paths.boards_dir().glob("*.toml"))
    close = difflib.get_close_matches(text.lower().replace("_", "-"), known, n=1, cutoff=0.4)
    guess = f"did you mean '{close[0]}'? " if close else ""
    raise TinycError(
        f"there is no board '{text}'",
        hint=f"{guess}known boards: {', '.join(known)}; a board of your own is given as a .toml file",
    )


def _read(file: Path) -> Board:
    try:
        text = file.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "it is not UTF-8 text"
        raise TinycError(f"cannot read the board file: {reason}", Loc(str(file))) from error
    try:
        table = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise TinycError(f"the board file is not valid TOML: {error}", Loc(str(file))) from error
    return _board(_Table(table, "", text, str(file)))


class _Table:
    """A TOML table that is read key by key; every complaint names file, line and key."""

    def __init__(self, data: Mapping[str, Any], section: str, text: str, file: str) -> None:
        self._data = dict(data)
        self._section = section
        self._text = text
        self.file = file
        self._read: set[str] = set()

    def string(self, key: str, default: str | None = None) -> str:
        value = self._value(key, default)
        if not isinstance(value, str) or not value:
            raise self.error(key, f"must be a text, not {_shown(value)}")
        return value

    def integer(self, key: str, default: int | None = None, least: int = 0) -> int:
        value = self._value(key, default)
        if not isinstance(value, int) or isinstance(value, bool):
            raise self.error(key, f"must be a whole number, not {_shown(value)}")
        if not least <= value < 1 << 32:
            raise self.error(key, f"must be from {least} to 2^32 - 1, not {value}")
        return value

    def strings(self, key: str, default: tuple[str, ...] | None = None) -> tuple[str, ...]:
        value = self._value(key, default)
        if not isinstance(value, (list, tuple)) or not all(isinstance(item, str) for item in value):
            raise self.error(key, f"must be a list of texts, not {_shown(value)}")
        return tuple(value)

    def choice(self, key: str, choices: tuple[str, ...]) -> str:
        value = self.string(key)
        if value not in choices:
            raise self.error(key, f"is '{value}'; it must be one of: {', '.join(choices)}")
        return value

    def table(self, key: str) -> _Table | None:
        if key not in self._data:
            return None
        value = self._value(key, None)
        path = f"{self._section}.{key}" if self._section else key
        if not isinstance(value, dict):
            raise self.error(key, f"must be a table, [{path}]")
        return _Table(value, path, self._text, self.file)

    def has(self, key: str) -> bool:
        return key in self._data

    def finish(self) -> None:
        """Refuse keys that nobody asked for: a misspelt key would be ignored silently."""
        for key in self._data:
            if key not in self._read:
                close = difflib.get_close_matches(key, self._read, n=1)
                guess = f"; did you mean '{close[0]}'?" if close else ""
                raise self.error(key, f"is not a key of a board file{guess}")

    def error(self, key: str, what: str) -> TinycError:
        name = f"{self._section}.{key}" if self._section else key
        line = self._line(key)
        where = f"{self.file}:{line}" if line else self.file
        hint = "docs/boards.md describes the keys of a board file"
        return TinycError(f"'{name}' {what}", Loc(where), hint)

    def _value(self, key: str, default: Any) -> Any:
        self._read.add(key)
        if key not in self._data and default is None:
            raise self.error(key, "is missing")
        return self._data.get(key, default)

    def _line(self, key: str) -> int | None:
        """Line of the key, or of its table's header when the key is missing; None when neither is found."""
        header = None
        section = ""
        for number, line in enumerate(self._text.splitlines(), 1):
            if opened := re.match(r"\s*\[\s*([^\]]+?)\s*\]", line):
                section = opened[1].replace(" ", "")
                if section == f"{self._section}.{key}".lstrip("."):
                    return number
                header = number if section == self._section else header
            elif section == self._section and re.match(rf"\s*[\"']?{re.escape(key)}[\"']?\s*=", line):
                return number
        return header


def _shown(value: Any) -> str:
    return "empty" if value == "" else f"{value!r}"


def _board(table: _Table) -> Board:
    firmware = table.table("firmware")
    if firmware is None:
        raise table.error("firmware", "is missing")
    startup = firmware.choice("startup", STARTUPS)
    io = firmware.choice("io", IOS)
    firmware.finish()
    board = Board(
        name=table.string("name"),
        description=table.string("description"),
        core=table.string("core"),
        isa=frozenset(table.strings("isa")),
        clock_hz=table.integer("clock_hz", 0),
        memory=_memory(table, startup),
        startup=startup,
        io=io,
        cflags=_cflags(table, startup),
        uart=_uart(table),
        file=table.file,
        **_emulators(table),
    )
    table.finish()
    return board


def _memory(table: _Table, startup: str) -> Memory | None:
    memory = table.table("memory")
    if memory is None:
        if startup != "host":
            raise table.error("memory", "is missing")
        return None
    result = Memory(
        flash_origin=memory.integer("flash_origin"),
        flash_bytes=memory.integer("flash_bytes", least=1024),
        ram_origin=memory.integer("ram_origin"),
        ram_bytes=memory.integer("ram_bytes", least=1024),
        stack_bytes=memory.integer("stack_bytes", least=512),
    )
    for key in ("flash_origin", "flash_bytes", "ram_origin", "ram_bytes"):
        if getattr(result, key) % 1024:
            raise memory.error(key, "must be a multiple of 1024")
    if result.stack_bytes % 8 or result.stack_bytes >= result.ram_bytes:
        raise memory.error("stack_bytes", "must be a multiple of 8 and less than ram_bytes")
    if _overlap(result):
        raise memory.error("ram_origin", "puts the RAM into the flash")
    memory.finish()
    return result


def _overlap(memory: Memory) -> bool:
    return (
        memory.flash_origin < memory.ram_origin + memory.ram_bytes
        and memory.ram_origin < memory.flash_origin + memory.flash_bytes
    )


def _cflags(table: _Table, startup: str) -> Mapping[str, tuple[str, ...]]:
    cflags = table.table("cflags")
    if cflags is None:
        if startup != "host":
            raise table.error("cflags", "is missing")
        return {}
    result = {family: cflags.strings(family) for family in FAMILIES if cflags.has(family)}
    cflags.finish()
    if not result:
        raise table.error("cflags", "needs the flags of at least one compiler: gcc, zig")
    return result


def _uart(table: _Table) -> Uart | None:
    uart = table.table("uart")
    if uart is None:
        return None
    result = Uart(uart.string("kind"), uart.integer("base"))
    uart.finish()
    return result


def _emulators(table: _Table) -> dict[str, Any]:
    emulator = table.table("emulator")
    if emulator is None:
        return {}
    found: dict[str, Any] = {}
    if (qemu := emulator.table("qemu")) is not None:
        found["qemu"] = Qemu(qemu.string("program"), qemu.string("machine"), qemu.strings("arguments", ()))
        qemu.finish()
    if (unicorn := emulator.table("unicorn")) is not None:
        found["unicorn"] = Unicorn(unicorn.string("cpu"))
        unicorn.finish()
    emulator.finish()
    return found
