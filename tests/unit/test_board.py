# SPDX-License-Identifier: Apache-2.0
"""Board files: the shipped ones load, and a wrong one is refused with its line."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from tinyc.base import paths
from tinyc.base.errors import TinycError
from tinyc.board import Board, CodeRam, Memory, SlowRam, chips, list_boards, load_board

GOOD = (paths.boards_dir() / "cortex-m4.toml").read_text()


def write(folder: Path, text: str) -> Path:
    file = folder / "my.toml"
    file.write_text(text)
    return file


def test_shipped_boards() -> None:
    boards = {board.name: board for board in list_boards()}
    assert {"cortex-m0plus", "cortex-m3", "cortex-m4", "cortex-m7", "cortex-m33", "cortex-m55", "host"} <= set(boards)
    for file in paths.boards_dir().glob("*.toml"):
        assert file.stem in boards
    for board in boards.values():
        assert load_board(board.name) == board
        assert board.is_host == (board.memory is None)


def test_cortex_m4() -> None:
    board = load_board("cortex-m4")
    assert board.memory == Memory(0, 1 << 20, 0x20000000, 256 << 10, 16 << 10)
    assert (board.flash_bytes, board.ram_bytes) == (1 << 20, 256 << 10)
    assert board.isa == {"thumb2", "dsp", "fpu"}
    assert board.qemu is not None
    assert board.qemu.machine == "mps2-an386"


def test_host_has_no_limits() -> None:
    board = load_board("host")
    assert board.is_host
    assert board.flash_bytes is None
    assert board.ram_bytes is None


def test_own_board_by_path(tmp_path: Path) -> None:
    file = write(tmp_path, GOOD.replace('name = "cortex-m4"', 'name = "mine"'))
    board = load_board(file)
    assert isinstance(board, Board)
    assert board.name == "mine"
    assert load_board(str(file)) == board


@pytest.mark.parametrize(
    ("name", "guess"),
    [("cortex_m4", "cortex-m4"), ("Cortex-M33", "cortex-m33"), ("cortexm7", "cortex-m7"), ("hosst", "host")],
)
def test_unknown_board_suggests_the_closest(name: str, guess: str) -> None:
    with pytest.raises(TinycError) as caught:
        load_board(name)
    assert f"there is no board '{name}'" in caught.value.message
    assert f"did you mean '{guess}'?" in caught.value.hint
    assert "cortex-m0plus, " in caught.value.hint


@pytest.mark.parametrize("name", ["", "../../pyproject", "xyzzy"])
def test_unknown_board_lists_the_known_ones(name: str) -> None:
    with pytest.raises(TinycError) as caught:
        load_board(name)
    assert "known boards: adafruit-feather-m4, arduino-nano-33-ble, " in caught.value.hint
    assert "did you mean" not in caught.value.hint


def line_of(text: str, start: str) -> int:
    return next(n for n, line in enumerate(text.splitlines(), 1) if line.startswith(start))


@pytest.mark.parametrize(
    ("old", "new", "message", "line"),
    [
        ("flash_bytes = 1_048_576", 'flash_bytes = "1M"', "'memory.flash_bytes' must be a whole", "flash_bytes"),
        ("flash_bytes = 1_048_576", "flash_bytes = true", "'memory.flash_bytes' must be a whole", "flash_bytes"),
        ("flash_bytes = 1_048_576", "flash_bytes = 1_048_577", "flash_bytes' must be a multiple", "flash_bytes"),
        ("flash_bytes = 1_048_576", "flash_bytes = -1024", "'memory.flash_bytes' must be from 1024", "flash_bytes"),
        ("ram_origin = 0x2000_0000", "ram_origin = 0x0008_0000", "'memory.ram_origin' puts the RAM", "ram_origin"),
        ("ram_origin = 0x2000_0000\n", "", "'memory.ram_origin' is missing", "[memory]"),
        ("stack_bytes = 16_384", "stack_bytes = 262_144", "'memory.stack_bytes' must be a multiple", "stack_bytes"),
        ('isa = ["thumb2", "dsp", "fpu"]', "isa = [1]", "'isa' must be a list of texts", "isa"),
        ('core = "cortex-m4"', 'core = ""', "'core' must be a text", "core"),
        ("clock_hz = 100_000_000", "clock = 1", "file; did you mean 'clock_hz'?", "clock"),
        ('io = "semihosting"', 'io = "telex"', "'firmware.io' is 'telex'; it must be one of: semihosting", "io"),
        ("[emulator.unicorn]", "[emulator.unicron]", "'emulator.unicron' is not a key", "[emulator.unicron]"),
        ('machine = "mps2-an386"', 'machin = "x"', "'emulator.qemu.machine' is missing", "[emulator.qemu]"),
        ("[uart]", "[uart.extra]\nx = 1\n[uart]", "'uart.extra' is not a key", "[uart.extra]"),
    ],
)  # fmt: skip
def test_wrong_file_is_refused_with_its_line(tmp_path: Path, old: str, new: str, message: str, line: str) -> None:
    assert old in GOOD
    text = GOOD.replace(old, new)
    file = write(tmp_path, text)
    with pytest.raises(TinycError) as caught:
        load_board(file)
    assert message in caught.value.message
    assert str(caught.value.where) == f"{file}:{line_of(text, line)}"


HOSTILE_TEXTS = [
    (key, name)
    for key in ("name", "core", "machine", "cpu")
    for name in ("", " ", "x y", "*/ x", "-x", "x\n", "a/b", "../x", "$(x)", "é", "x" * 65, 'x"', "{x}", "a,b")
] + [
    ("description", "two\nlines"), ("description", "\u202e"), ("description", "\x1b[31m"), ("description", "x" * 201),
    ("program", "/bin/sh"), ("program", "sh"), ("program", "qemu-system-arm -x"), ("program", "./qemu-system-arm"),
    ("gcc", "-fplugin=x.so"), ("gcc", "@flags"), ("gcc", "-wrapper"), ("gcc", "-B."), ("gcc", "-specs=x"),
    ("gcc", "-o"), ("gcc", "-Wl,-T,x"), ("gcc", "-include"), ("gcc", "-I/"), ("gcc", "-mllvm"), ("gcc", "-Dx=$(y)"),
    ("gcc", "-fdump-tree-all"), ("gcc", "-target"), ("zig", "-fpass-plugin=x"), ("zig", "-Xclang"), ("zig", ""),
    ("arguments", ["-bios", "x.bin"]), ("arguments", ["-chardev", "file,path=x"]), ("arguments", ["-bios"]),
    ("arguments", ["-global", "x=y,z"]), ("arguments", ["-plugin", "x.so"]), ("arguments", ["none"]),
]  # fmt: skip


@pytest.mark.parametrize(("key", "text"), HOSTILE_TEXTS)
def test_texts_that_are_not_for_a_board_to_say(tmp_path: Path, key: str, text: str | list[str]) -> None:
    """They go into generated files and onto command lines: refused, with the line."""
    line_there = re.search(rf"^{key} = .*", GOOD, re.MULTILINE)
    old = line_there[0] if line_there else "[emulator.qemu]"
    line = f"{key} = {json.dumps([text] if key in ('gcc', 'zig') else text)}"
    file = write(tmp_path, GOOD.replace(old, line if line_there else f"{old}\n{line}"))
    with pytest.raises(TinycError) as caught:
        load_board(file)
    assert f"{key}'" in caught.value.message
    assert str(caught.value).replace("\n", "").isprintable()
    assert re.fullmatch(rf"{re.escape(str(file))}:\d+", str(caught.value.where))
    assert file.read_text().splitlines()[int(str(caught.value.where).rpartition(":")[2]) - 1] == line


def test_flags_that_a_board_may_have(tmp_path: Path) -> None:
    flags = [
        "-mcpu=cortex-m4+nofp",
        "-mno-unaligned-access",
        "-fno-builtin",
        "-DX=1",
        "-target",
        "arm-none-eabi",
        "-EL",
    ]
    file = write(tmp_path, re.sub(r"^gcc = .*", f"gcc = {json.dumps(flags)}", GOOD, flags=re.MULTILINE))
    assert load_board(file).cflags["gcc"] == tuple(flags)


def test_nested_too_deeply(tmp_path: Path) -> None:
    for text in ("x = " + "[" * 10_000, "x = " + "{a=" * 10_000, f"x = [\n{'[' * 10_000}"):
        with pytest.raises(TinycError, match="nested too deeply"):
            load_board(write(tmp_path, text))
    for text in (".".join("a" * 50) + " = 1", f"[{'a . ' * 50}a]", "#\n" * 40_000):
        with pytest.raises(TinycError, match="too long, or has too many dots"):
            load_board(write(tmp_path, text))


@pytest.mark.parametrize("section", ["firmware", "memory", "cflags"])
def test_missing_section(tmp_path: Path, section: str) -> None:
    head, _, tail = GOOD.partition(f"[{section}]\n")
    rest = tail[tail.index("\n[") + 1 :]
    with pytest.raises(TinycError, match=f"'{section}' is missing"):
        load_board(write(tmp_path, head + rest))


def test_no_compiler_flags(tmp_path: Path) -> None:
    text = "\n".join(line for line in GOOD.splitlines() if not line.startswith(("gcc =", "zig =")))
    with pytest.raises(TinycError, match="needs the flags of at least one compiler"):
        load_board(write(tmp_path, text))


@pytest.mark.parametrize("data", [b"name = \n", b"\xff\xfe", b"[memory\n", b"= 3"])
def test_file_that_is_not_toml(tmp_path: Path, data: bytes) -> None:
    file = tmp_path / "my.toml"
    file.write_bytes(data)
    with pytest.raises(TinycError, match=r"not valid TOML|not UTF-8"):
        load_board(file)


def test_file_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(TinycError, match="No such file"):
        load_board(tmp_path / "none.toml")


def test_empty_file(tmp_path: Path) -> None:
    with pytest.raises(TinycError, match="'firmware' is missing"):
        load_board(write(tmp_path, ""))


SLOW = """
[[memories]]
name = "psram"
origin = 0x6000_0000
bytes = 8_388_608
read_waits = 12
write_waits = 6
width_bytes = 2
"""


def with_slow(text: str = SLOW, board: str = GOOD) -> str:
    return board.replace("\n[firmware]", f"{text}\n[firmware]", 1)


def test_a_second_ram(tmp_path: Path) -> None:
    ram = load_board(write(tmp_path, with_slow())).slow_ram
    assert ram == SlowRam("psram", 0x60000000, 8 << 20, 12, 6, 2)
    assert [ram.accesses(size) for size in (1, 2, 4)] == [1, 1, 2]
    assert load_board("cortex-m4").slow_ram is None


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ('name = "psram"\n', "", "whose 'name' is missing"),
        ('"psram"', '"RAM"', "is the word for a memory of"),
        ("0x6000_0000", "0x2000_0000", "has 'psram' in the board's RAM"),
        ("0x6000_0000", "0x000F_0000", "has 'psram' in the board's flash"),
        ("0x6000_0000", "0xFFF0_0000", "has 'psram' beyond the addresses of 32 bits"),
        ("0x6000_0000", "0x6000_0001", "whose 'origin' must be a multiple of 1024"),
        ("8_388_608", "1000", "whose 'bytes' must be from 1024"),
        ("width_bytes = 2", "width_bytes = 3", "whose 'width_bytes' must be 1, 2, 4 or 8"),
        ("read_waits = 12", "read_wait = 12", "whose 'read_waits' is missing"),
        ("width_bytes = 2", "width = 2", "whose 'width' is not a key of a board file; did you mean 'width_bytes'?"),
        (SLOW, SLOW + SLOW, "'holds' is 'arena' twice"),
    ],
)
def test_a_second_ram_that_cannot_be(tmp_path: Path, old: str, new: str, message: str) -> None:
    file = write(tmp_path, with_slow(SLOW.replace(old, new)))
    with pytest.raises(TinycError) as caught:
        load_board(file)
    assert message in caught.value.message
    assert str(caught.value.where) == f"{file}:{line_of(file.read_text(), '[[memories]]')}"


CODE = """
[[memories]]
name = "itcm"
holds = "code"
origin = 0x1000_0000
bytes = 65_536
alias = 0x2000_8000
"""


def test_a_ram_for_code(tmp_path: Path) -> None:
    board = load_board(write(tmp_path, with_slow(SLOW + CODE)))
    assert board.code_ram == CodeRam("itcm", 0x1000_0000, 65_536, 0x2000_8000)
    assert board.slow_ram is not None
    assert board.memory is not None
    assert board.memory.ram_beside(True) == 0x8000
    assert board.memory.ram_beside(False) == board.memory.ram_bytes
    assert load_board("cortex-m4").code_ram is None


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ('"code"', '"data"', "whose 'holds' is 'data'; it must be one of: arena, code"),
        ("0x1000_0000", "0x6000_0000", "has 'itcm' in the board's psram"),
        ('"itcm"', '"psram"', "has two called 'psram'"),
        ("0x2000_8000", "0x2000_8001", "has an alias that is no multiple of 1024"),
        ("0x2000_8000", "0x3000_0000", "has an alias that is no multiple of 1024 in the main RAM"),
        ("bytes = 65_536", "bytes = 65_536\nread_waits = 1", "'read_waits' is not a key of a board file"),
        (CODE, CODE + CODE, "'holds' is 'code' twice"),
    ],
)
def test_a_ram_for_code_that_cannot_be(tmp_path: Path, old: str, new: str, message: str) -> None:
    with pytest.raises(TinycError) as caught:
        load_board(write(tmp_path, with_slow(SLOW + CODE.replace(old, new))))
    assert message in caught.value.message


@pytest.mark.parametrize(
    ("text", "message"),
    [(CODE, "'code', which is for the startup 'cortex-m' so far")],
)
def test_memories_of_riscv(tmp_path: Path, text: str, message: str) -> None:
    board = with_slow(text, board=(paths.boards_dir() / "riscv32imc.toml").read_text())
    with pytest.raises(TinycError, match=message):
        load_board(write(tmp_path, board))


ORIGINS = "flash_origin = 0x8000_0000\nram_origin = 0x8040_0000\n"


def at_other_addresses(old: str = "", new: str = "") -> str:
    """The file of an ESP32-C3, which QEMU's machine has at addresses of its own."""
    text = (paths.boards_dir() / "esp32-c3.toml").read_text()
    assert text.endswith(ORIGINS)
    assert old in text
    return text.replace(old, new)


def test_an_emulator_with_memories_elsewhere(tmp_path: Path) -> None:
    board = load_board(write(tmp_path, at_other_addresses()))
    memory, emulated = board.memory, board.emulated.memory
    assert memory is not None
    assert emulated is not None
    assert (memory.flash_origin, memory.constants_origin) == (0x4200_0000, 0x3C00_0000)
    assert (emulated.flash_origin, emulated.ram_origin, emulated.constants_origin) == (0x8000_0000, 0x8040_0000, 0)
    assert (emulated.flash_bytes, emulated.ram_bytes) == (memory.flash_bytes, memory.ram_bytes)
    assert load_board("riscv32imc").emulated == load_board("riscv32imc")


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("0x8040_0000", "0x8040_0001", "'emulator.qemu.ram_origin' must be a multiple of 1024"),
        ("ram_origin = 0x8040_0000", "", "'emulator.qemu.ram_origin' is missing"),
        ("0x3C00_0000", "0x3C00_0010", "'memory.constants_origin' must be a multiple of 1024"),
        ("0x3C00_0000", "0x3FC8_0000", "'memory.constants_origin' puts the flash's constants into its code, or"),
        ('startup = "riscv"', 'startup = "cortex-m"', "'memory.constants_origin' is for the startup 'riscv' so far"),
        (ORIGINS, ORIGINS + '[emulator.unicorn]\ncpu = "cortex-m4"\n', "has the board's own memories"),
        (ORIGINS, "", "'memory' has a 'constants_origin', which is where no emulator has it: give flash_origin"),
    ],
)
def test_memories_elsewhere_that_cannot_be(tmp_path: Path, old: str, new: str, message: str) -> None:
    with pytest.raises(TinycError) as caught:
        load_board(write(tmp_path, at_other_addresses(old, new)))
    assert message in caught.value.message


# Likeness, chips, and keys that are missing --------------------------------------------------------------------------

MINIMAL = """like = "cortex-m4"

[memory]
flash_bytes = 262_144
ram_bytes = 65_536
"""


def test_a_board_like_another_has_what_it_does_not_say(tmp_path: Path) -> None:
    board, base = load_board(write(tmp_path, MINIMAL)), load_board("cortex-m4")
    assert board.memory is not None
    assert (board.flash_bytes, board.ram_bytes, board.memory.ram_origin) == (262_144, 65_536, 0x2000_0000)
    same = {each: getattr(base, each) for each in ("core", "isa", "cflags", "qemu", "unicorn", "startup", "clock_hz")}
    assert {each: getattr(board, each) for each in same} == same
    assert board.description == "like cortex-m4"
    assert board.name == Path(board.file).stem


def test_another_ones_addresses_are_not_for_its_machine(tmp_path: Path) -> None:
    board = load_board(write(tmp_path, MINIMAL + "flash_origin = 0x0800_0000\n"))
    assert board.qemu is None
    assert board.unicorn is not None
    machine = '[emulator.qemu]\nprogram = "qemu-system-arm"\nmachine = "netduinoplus2"\n'
    board = load_board(write(tmp_path, MINIMAL + f"flash_origin = 0x0800_0000\n{machine}"))
    assert board.qemu is not None
    assert board.qemu.machine == "netduinoplus2"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ('like = "cortex-m5"', "'like' is 'cortex-m5', and no board that ships"),
        ('like = "../x"', "'like' "),
        ("like = 3", "'like' "),
        ('like = "cortex-m4"\nmemory = 3', "'memory' must be a table"),
        ('like = "cortex-m4"\nclok_hz = 3', "did you mean 'clock_hz'"),
        ('like = "cortex-m4"\n[memory]\nflash_bytes = 3', "'memory.flash_bytes'"),
    ],
)
def test_a_likeness_that_cannot_be(tmp_path: Path, text: str, message: str) -> None:
    with pytest.raises(TinycError, match=re.escape(message)) as caught:
        load_board(write(tmp_path, text))
    assert re.search(r":\d+$", str(caught.value.where))


def test_all_missing_keys_are_told_at_once(tmp_path: Path) -> None:
    with pytest.raises(TinycError) as caught:
        load_board(write(tmp_path, ""))
    told = "'firmware' is missing, and so are 'name', 'description', 'core', 'isa', 'memory', 'cflags'"
    assert caught.value.message == told
    assert 'like = "cortex-m4"' in caught.value.hint
    text = GOOD.replace("ram_origin = 0x2000_0000\n", "").replace("stack_bytes = 16_384\n", "")
    with pytest.raises(TinycError, match=r"'memory\.ram_origin' is missing, and so is 'memory\.stack_bytes'"):
        load_board(write(tmp_path, text))


@pytest.mark.parametrize(
    ("name", "hint"),
    [
        ("stm32f407", "stm32f407 is on stm32f4-discovery; `--board cortex-m4` is its core"),
        ("STM32F411", "`--board cortex-m4` is its core"),
        ("stm32g071rb", "`--board cortex-m0plus` is its core"),
        ("stm32wba55", "`--board cortex-m33` is its core"),
        ("nrf54", "is on nrf54l15-dk; `--board cortex-m33` is its core"),
        ("nrf52833", "`--board cortex-m4` is its core"),
        ("rp2350", "raspberry-pi-pico2"),
        ("esp32-s3", "Xtensa core has no emulator here: `--board host` writes the same library in portable C"),
        ("esp32", "Xtensa"),
        ("ESP32C5", "`--board riscv32imc` is its core"),
        ("ch32v003", "16 registers"),
        ("atmega328p", "its int has 16 bits"),
        ("arduino-uno", "its int has 16 bits"),
        ("cortex-m23", "`--board cortex-m0plus` makes code that it runs"),
        ("cortex-m85", "with Helium `--board cortex-m55`"),
        ("cortex-a53", "`--board host` writes the library in portable C"),
    ],
)
def test_a_chip_answers_with_its_board_or_core(name: str, hint: str) -> None:
    with pytest.raises(TinycError, match=f"there is no board '{name}'") as caught:
        load_board(name)
    assert hint in caught.value.hint
    assert "known boards" not in caught.value.hint


def test_every_core_that_a_chip_leads_to_is_a_board() -> None:
    cores = {core for _, core in chips._FAMILIES if " " not in core}
    assert cores <= {board.name for board in list_boards()}


def test_the_name_of_every_board_is_its_own() -> None:
    """No board that ships is taken for a chip."""
    assert [load_board(board.name).name for board in list_boards()] == [board.name for board in list_boards()]
