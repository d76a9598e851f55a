# SPDX-License-Identifier: Apache-2.0
"""Board: what a target is (core, memories, flags, emulators), read from a TOML file."""

from __future__ import annotations

import difflib
import re
import tomllib
from collections.abc import Mapping
from dataclasses import field, replace
from pathlib import Path
from typing import Any

from tinyc.base import paths
from tinyc.base.dataclass import dataclass
from tinyc.base.errors import Loc, TinycError
from tinyc.base.files import read_text
from tinyc.board.chips import chip_hint
from tinyc.board.core import core_named
from tinyc.board.instruction_set import INSTRUCTION_SETS, ISA_WORDS
from tinyc.board.memories import PAGE, CodeRam, Memory, SlowRam, read_memory
from tinyc.board.parts import (
    Energy,
    Flashing,
    FlashTiming,
    SetupStep,
    Uart,
    read_energy,
    read_flash_timing,
    read_flashing,
    read_setup,
    read_uart,
)
from tinyc.board.table import TomlTable, shown
from tinyc.board.words import read_flags, read_qemu_arguments, read_qemu_program, read_word


@dataclass(frozen=True, slots=True)
class Qemu:
    """The QEMU machine that stands for the board. origins: of its flash and RAM, where they are not the board's."""

    program: str
    machine: str
    arguments: tuple[str, ...] = ()
    origins: tuple[int, int] | None = None


@dataclass(frozen=True, slots=True)
class Unicorn:
    """The unicorn CPU model that stands for the board's core (`cortex-m4`)."""

    cpu: str


@dataclass(frozen=True, slots=True)
class Board:
    """A target."""

    name: str
    description: str
    core: str
    # What kernels ask for (`dsp`, `fpu`, `mve`, `rv32m`, `rv32v`) and instructions may need (`rv32b`).
    isa: frozenset[str]
    clock_hz: int  # typical clock, for times in reports; 0 when unknown
    memory: Memory | None  # None where the operating system gives it (host)
    startup: str  # file in templates/firmware
    io: str  # file in templates/firmware
    cflags: Mapping[str, tuple[str, ...]] = field(default_factory=dict)  # per compiler family (`gcc`, `zig`)
    # What the chip's boot ROM wants beside startup and io: a second stage bootloader (rp2040), a description of the
    # image (rp2350), words that say that it is one (esp32).
    boot2: str = ""
    cores: int = 1  # that are alike and see the same memory
    uart: Uart | None = None  # of firmware on the board itself, as setup and flashing
    setup: tuple[SetupStep, ...] = ()
    flashing: Flashing | None = None
    flash_timing: FlashTiming | None = None  # for that firmware's cycles
    energy: Energy | None = None  # of these cycles
    qemu: Qemu | None = None
    unicorn: Unicorn | None = None
    file: str = ""  # where the description came from

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

    @property
    def slow_ram(self) -> SlowRam | None:
        """The slower RAM beside it, None where there is none."""
        return self.memory.slow if self.memory else None

    @property
    def runs_code_from_ram(self) -> bool:
        """Whether the core fetches code from a RAM of the board without waiting: one that the board names, or the main
        one, unless that is for data."""
        memory, data_only_from = self.memory, core_named(self.core).data_only_from
        its_set = INSTRUCTION_SETS.get(self.startup)
        if memory is None or its_set is None or not its_set.code_in_ram:
            return False
        return memory.code is not None or data_only_from is None or memory.ram_origin < data_only_from

    @property
    def emulated(self) -> Board:
        """The board as its emulators have it: its memories are where QEMU's machine has some, if that says so."""
        if self.memory is None or self.qemu is None or self.qemu.origins is None:
            return self
        flash, ram = self.qemu.origins
        return replace(self, memory=replace(self.memory, flash_origin=flash, ram_origin=ram, constants_origin=0))

    @property
    def code_ram(self) -> CodeRam | None:
        """The RAM for code beside it, None where there is none."""
        return self.memory.code if self.memory else None


STARTUPS = (*INSTRUCTION_SETS, "host")
FAMILIES = ("gcc", "zig")
IOS = ("semihosting", "host")
BOOT2S = ("esp32", "imxrt1060", "rp2040", "rp2350")
NO_FPU = "+nofp"  # behind a board's name
_FLOAT_ABI = (("gcc", "-mfloat-abi=hard", "-mfloat-abi=soft"), ("zig", "-eabihf", "-eabi"))
_ZIG_FPU = r"\+(vfp|fp_|mve)\w*"  # features of Zig's -mcpu
_MOST_LETTERS = 1 << 16  # of a board file; those that ship have some 3,000
_MOST_DOTS = 40  # in a line of it


def list_boards() -> tuple[Board, ...]:
    """Every board that ships with tinyc, sorted by name."""
    return tuple(_read(file) for file in sorted(paths.boards_dir().glob("*.toml")))


def _without_fpu(board: Board) -> Board:
    """The board as code sees it that leaves the registers of its FPU alone."""
    if board.startup != "cortex-m" or "fpu" not in board.isa:
        raise TinycError(f"{board.name} has no FPU that code could leave alone", hint=f"--board {board.name}")
    cflags = dict(board.cflags)
    for family, hard, soft in _FLOAT_ABI:
        if family in cflags:
            without_fpu = (flag for flag in cflags[family] if not flag.startswith("-mfpu="))
            cflags[family] = tuple(re.sub(_ZIG_FPU, "", flag.replace(hard, soft)) for flag in without_fpu)
    return replace(
        board,
        name=board.name + NO_FPU,
        isa=board.isa - {"fpu", "fpu64", "mve"},
        cflags=cflags,
        file=board.file + NO_FPU,
    )


def load_board(name_or_path: str | Path) -> Board:
    """The board of that name, or the one that a `.toml` file of the user describes.

    Raises TinycError when the name is unknown (with the closest one) or the file is not a valid board
    (with its line). What a file's texts may be: board_words.py. `NAME+nofp` is the board without its FPU.
    """
    text = str(name_or_path)
    if text.endswith(NO_FPU):
        return _without_fpu(load_board(text.removesuffix(NO_FPU)))
    if text.endswith(".toml"):
        return _read(Path(text))
    file = paths.boards_dir() / f"{text}.toml"
    if re.fullmatch(r"[\w.-]+", text) and file.is_file():
        return _read(file)
    if "," in text:
        message = f"one board is built for, and here are several: {text.replace(',', ', ')}"
        raise TinycError(message, hint="`tinyc estimate` and `tinyc bench` take several")
    names = sorted(f.stem for f in paths.boards_dir().glob("*.toml"))
    if chip := chip_hint(text, {board.name: board.description for board in list_boards()}):
        raise TinycError(f"there is no board '{text}'", hint=f"{chip}; `tinyc boards` lists all boards")
    word = text.lower().replace("_", "-")
    close = [name for name in names if word and word in name][:1] or difflib.get_close_matches(word, names, n=1)
    guess = f"did you mean '{close[0]}'? " if close else ""
    raise TinycError(
        f"there is no board '{text}'",
        hint=f"{guess}known boards: {', '.join(names)}; a board of your own is given as a .toml file",
    )


def _read(file: Path) -> Board:
    try:
        text = read_text(file)
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "it is not UTF-8 text"
        hint = "`tinyc boards` lists the boards that tinyc knows; docs/boards.md describes a file of your own"
        raise TinycError(f"cannot read the board file: {reason}", Loc(str(file)), hint) from error
    hint = "docs/boards.md has an example"
    # What the reader of TOML takes for a key grows with the cube of its parts.
    if len(text) > _MOST_LETTERS or any(line.count(".") > _MOST_DOTS for line in text.splitlines()):
        raise TinycError("this is no board file: it is too long, or has too many dots in a line", Loc(str(file)), hint)
    try:
        table = tomllib.loads(text)
    except RecursionError as error:
        raise TinycError("the board file is nested too deeply", Loc(str(file)), hint) from error
    except tomllib.TOMLDecodeError as error:
        raise TinycError(f"the board file is not valid TOML: {error}", Loc(str(file)), hint) from error
    return _board(TomlTable(_with_likeness(table, file, text), "", text, str(file)))


def _with_likeness(table: dict[str, Any], file: Path, text: str) -> dict[str, Any]:
    """The table, and what it leaves out from the board that ships and that it is `like`. QEMU's machine is not for
    another one's addresses. TinycError where there is no such board."""
    if "like" not in table:
        return table
    reader = TomlTable(table, "", text, str(file))
    like = read_word(reader, "like")
    source = paths.boards_dir() / f"{like}.toml"
    if not source.is_file():
        raise reader.error("like", f"is '{like}', and no board that ships is called so: `tinyc boards` lists them")
    base = tomllib.loads(read_text(source))
    base |= {"name": _name_of(file), "description": f"like {like}"}
    own = {key: value for key, value in table.items() if key != "like"}
    memory = own.get("memory")
    if isinstance(memory, dict) and memory.keys() & {"flash_origin", "ram_origin"}:
        base.get("emulator", {}).pop("qemu", None)
    return _merged(base, own)


def _name_of(file: Path) -> str:
    """A name for the board of a file that gives none: the file's, with the letters that a name may have."""
    return re.sub(r"[^\w.-]", "-", file.stem, flags=re.ASCII).strip("-.") or "board"


def _merged(base: Mapping[str, Any], own: Mapping[str, Any]) -> dict[str, Any]:
    """own over base; tables key by key."""
    both = {key: _merged(base[key], own[key]) for key in base.keys() & own.keys() if _are_tables(base[key], own[key])}
    return {**base, **own, **both}


def _are_tables(*values: Any) -> bool:
    return all(isinstance(value, dict) for value in values)


def _board(table: TomlTable) -> Board:
    _check_complete(table)
    firmware = table.table("firmware")
    if firmware is None:
        raise table.error("firmware", "is missing")
    startup = firmware.choice("startup", STARTUPS)
    io = firmware.choice("io", IOS)
    boot2 = firmware.choice("boot2", BOOT2S) if firmware.has("boot2") else ""
    firmware.finish()
    clock_hz = table.integer("clock_hz", 0)
    board = Board(
        name=read_word(table, "name"),
        description=table.string("description"),
        core=read_word(table, "core"),
        isa=_isa(table),
        clock_hz=clock_hz,
        memory=read_memory(table, startup),
        startup=startup,
        io=io,
        boot2=boot2,
        cores=table.integer("cores", 1, least=1, most=8),
        cflags=_cflags(table, startup),
        uart=read_uart(table, clock_hz),
        setup=read_setup(table),
        flashing=read_flashing(table),
        flash_timing=read_flash_timing(table),
        energy=read_energy(table),
        file=table.file,
        **_emulators(table),
    )
    if board.emulated.memory is not None and board.emulated.memory.constants_origin and (board.qemu or board.unicorn):
        message = "is where no emulator has it: give flash_origin and ram_origin in [emulator.qemu], without unicorn"
        raise table.error("memory", f"has a 'constants_origin', which {message}")
    table.finish()
    return board


_NEEDED = {
    "firmware": ("startup", "io"),
    "name": (),
    "description": (),
    "core": (),
    "isa": (),
    "memory": ("flash_origin", "flash_bytes", "ram_origin", "ram_bytes", "stack_bytes"),
    "cflags": (),
}


def _check_complete(table: TomlTable) -> None:
    """Raises TinycError that tells all keys that are missing, where there are several."""
    missing = []
    firmware = table.table("firmware")
    is_host = firmware is not None and firmware.string("startup", "host") == "host"
    for key, within in _NEEDED.items():
        if key in ("memory", "cflags") and is_host:
            continue
        part = table.table(key) if within and table.has(key) else None
        missing += [key] if not table.has(key) else [f"{key}.{name}" for name in within if part and not part.has(name)]
    if len(missing) > 1:
        others = ", ".join(f"'{key}'" for key in missing[1:])
        error = table.error(missing[0], f"is missing, and so {'is' if len(missing) == 2 else 'are'} {others}")
        hint = 'a line `like = "cortex-m4"` takes what is left out from a board that ships: docs/boards.md'
        raise TinycError(error.message, error.where, hint)


def _isa(table: TomlTable) -> frozenset[str]:
    words = table.strings("isa")
    for word in words:
        if word not in ISA_WORDS:
            raise table.error("isa", f"has {shown(word)}; the words are: {', '.join(ISA_WORDS)}")
    return frozenset(words)


def _cflags(table: TomlTable, startup: str) -> Mapping[str, tuple[str, ...]]:
    cflags = table.table("cflags")
    if cflags is None:
        if startup != "host":
            raise table.error("cflags", "is missing")
        return {}
    result = {family: read_flags(cflags, family) for family in FAMILIES if cflags.has(family)}
    cflags.finish()
    if not result:
        raise table.error("cflags", "needs the flags of at least one compiler: gcc, zig")
    return result


def _emulators(table: TomlTable) -> dict[str, Any]:
    emulator = table.table("emulator")
    if emulator is None:
        return {}
    emulators: dict[str, Any] = {}
    if (qemu := emulator.table("qemu")) is not None:
        emulators["qemu"] = Qemu(
            read_qemu_program(qemu, "program"),
            read_word(qemu, "machine"),
            read_qemu_arguments(qemu, "arguments"),
            _origins(qemu),
        )
        qemu.finish()
    if (unicorn := emulator.table("unicorn")) is not None:
        emulators["unicorn"] = Unicorn(read_word(unicorn, "cpu"))
        unicorn.finish()
    if len(emulators) > 1 and emulators["qemu"].origins is not None:
        raise emulator.error("unicorn", "has the board's own memories, and qemu others: leave one of them out")
    emulator.finish()
    return emulators


def _origins(qemu: TomlTable) -> tuple[int, int] | None:
    """Where the machine has flash and RAM, in whole pages; None where the board has them there."""
    keys = ("flash_origin", "ram_origin")
    if not any(qemu.has(key) for key in keys):
        return None
    flash, ram = (qemu.integer(key) for key in keys)
    for key, origin in zip(keys, (flash, ram), strict=True):
        if origin % PAGE:
            raise qemu.error(key, f"must be a multiple of {PAGE}")
    return flash, ram
