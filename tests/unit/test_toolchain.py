# SPDX-License-Identifier: Apache-2.0
"""Finding compilers and emulators, what their failures say, and whether a model fits a board."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest

from tinyc.base.errors import TinycError
from tinyc.board import load_board
from tinyc.pipeline.doctor import FindingKind, examine
from tinyc.run import find_target, qemu, unicorn
from tinyc.toolchain import compilers
from tinyc.toolchain.compile import link_alone
from tinyc.toolchain.compilers import Toolchain, compiler_error, find_toolchain
from tinyc.toolchain.elf import read_elf
from tinyc.toolchain.size import LibrarySize, check_fits


@pytest.fixture
def nothing_installed(monkeypatch: pytest.MonkeyPatch) -> None:
    def missing(name: str = "") -> None:
        raise ImportError(name)

    monkeypatch.setattr(compilers, "_locate", lambda name: None)
    monkeypatch.setattr(compilers, "_program", lambda name: None)
    monkeypatch.setattr(qemu, "_probe", lambda name: None)
    monkeypatch.setattr(unicorn, "load_unicorn", missing)


def only(monkeypatch: pytest.MonkeyPatch, *names: str) -> None:
    def locate(name: str) -> Toolchain | None:
        family = "zig" if name == "zig" else "clang" if name == "clang" else "gcc"
        return Toolchain(name, family, "1.2", (name,)) if name in names else None

    monkeypatch.setattr(compilers, "_locate", locate)


def test_first_installed_compiler(monkeypatch: pytest.MonkeyPatch) -> None:
    only(monkeypatch, "arm-none-eabi-gcc", "zig", "gcc", "clang")
    assert str(find_toolchain(load_board("cortex-m4"))) == "arm-none-eabi-gcc 1.2"
    assert find_toolchain(load_board("cortex-m4"), "gcc").name == "arm-none-eabi-gcc"
    assert find_toolchain(load_board("cortex-m4"), "zig").target_flags[0] == "-target"
    assert find_toolchain(load_board("host")).name == "gcc"
    assert find_toolchain(load_board("host"), "clang").name == "clang"
    only(monkeypatch, "zig")
    assert find_toolchain(load_board("cortex-m4")).name == "zig"
    assert find_toolchain(load_board("host")).name == "zig"


def test_preferred_compiler_that_is_not_for_the_board() -> None:
    with pytest.raises(TinycError, match="'clang' is not a compiler for cortex-m4"):
        find_toolchain(load_board("cortex-m4"), "clang")


@pytest.mark.usefixtures("nothing_installed")
def test_no_compiler() -> None:
    with pytest.raises(TinycError, match="no compiler for cortex-m4 is installed") as caught:
        find_toolchain(load_board("cortex-m4"))
    assert "`apt install gcc-arm-none-eabi`" in caught.value.hint
    assert "`pip install ziglang`" in caught.value.hint


def test_a_compiler_that_crashes_is_not_called_missing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    program = tmp_path / "arm-none-eabi-gcc"
    program.write_text("#!/bin/sh\nkill -SEGV $$\n")
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:/bin")
    compilers._locate.cache_clear()
    with pytest.raises(TinycError, match="does not say its version") as caught:
        find_toolchain(load_board("cortex-m4"), "gcc")
    compilers._locate.cache_clear()
    assert str(program) in caught.value.message


@pytest.mark.usefixtures("nothing_installed")
def test_no_emulator() -> None:
    with pytest.raises(TinycError, match="no emulator for cortex-m4 is installed") as caught:
        find_target(load_board("cortex-m4"))
    assert "`apt install qemu-system-arm` or `pip install 'tinyc[proof]'`" in caught.value.hint
    with pytest.raises(TinycError) as caught:
        find_target(load_board("cortex-m55"))
    assert "unicorn" not in caught.value.hint


@pytest.mark.usefixtures("nothing_installed")
def test_doctor_of_a_bare_computer() -> None:
    findings = {f.name: f for f in examine()}
    assert not findings["arm-none-eabi-gcc"].is_present
    assert findings["arm-none-eabi-gcc"].install == ("apt install gcc-arm-none-eabi",)
    board = findings["cortex-m4"]
    assert board.kind is FindingKind.BOARD
    assert not board.ok
    assert "no compiler for cortex-m4 is installed" in board.note
    assert "pip install ziglang" in board.install


def test_unknown_emulator() -> None:
    with pytest.raises(TinycError, match="there is no emulator 'bochs'") as caught:
        find_target(load_board("cortex-m4"), "bochs")
    assert "qemu, unicorn" in caught.value.hint
    with pytest.raises(TinycError, match="runs as a process"):
        find_target(load_board("host"), "qemu")


GCC_OVERFLOW = """\
ld: toy.elf section `.rodata' will not fit in region `FLASH'
ld: region `FLASH' overflowed by 1234567 bytes
"""
LLD_OVERFLOW = "ld.lld: error: section '.bss' will not fit in region 'RAM': overflowed by 99 bytes\n"


@pytest.mark.parametrize(
    ("output", "message"),
    [(GCC_OVERFLOW, "flash is too small by 1,234,567 bytes"), (LLD_OVERFLOW, "RAM is too small by 99 bytes")],
)
def test_overflow_of_a_memory(output: str, message: str) -> None:
    error = compiler_error("gcc", "linking", ["gcc"], output)
    assert message in error.message
    assert error.exit_code == 1


def test_diagnostics() -> None:
    output = "In file included from a.h:1:\na.c:3:9: error: no such thing\n   3 | x\na.c:4:1: error: two\n"
    error = compiler_error("gcc", "compiling a.c", ["gcc", "-c", "a b.c"], output)
    assert error.message == "gcc failed: compiling a.c\n  a.c:3:9: error: no such thing\n  a.c:4:1: error: two"
    assert error.hint == "the command was: gcc -c 'a b.c'"
    assert error.exit_code == 2


def test_check_fits() -> None:
    board = load_board("cortex-m4")
    check_fits(board, LibrarySize(1 << 19, 1 << 19), 256 << 10)
    check_fits(load_board("host"), LibrarySize(1 << 30, 1 << 30), 1 << 33)
    with pytest.raises(TinycError, match=r"needs 262,145 bytes of RAM .*the board has 262,144: 1 too few") as caught:
        check_fits(board, None, (256 << 10) + 1)
    assert caught.value.exit_code == 1
    with pytest.raises(TinycError, match=r"RAM \(arena 262,000, stack 200\)"):
        check_fits(board, None, 262_000, 200)
    with pytest.raises(TinycError, match=r"needs 1,048,579 bytes of flash .*: 3 too few"):
        check_fits(board, LibrarySize(3, 1 << 20), 0)


@pytest.mark.parametrize(("board_name", "helpers"), [("cortex-m3", False), ("cortex-m0plus", True)])
def test_zig_compiles_helpers_where_one_is_needed(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, board_name: str, helpers: bool
) -> None:
    board = load_board(board_name)
    try:
        zig = find_toolchain(board, "zig")
    except TinycError as error:
        pytest.skip(error.message)
    asked: list[Sequence[str | Path]] = []

    def run(toolchain: Toolchain, words: Sequence[str | Path], what: str) -> None:
        asked.append(words)
        compiling(toolchain, words, what)

    compiling = Toolchain.run
    monkeypatch.setattr(Toolchain, "run", run)
    (tmp_path / "divides.c").write_text("long long divides(long long a, long long b) { return a / b; }\n")
    (tmp_path / "adds.c").write_text("long long adds(long long a, long long b) { return a + b; }\n")
    name = "divides" if helpers else "adds"
    words = ["-O2", "-fno-unwind-tables", tmp_path / f"{name}.c", "-nostartfiles", f"-Wl,-e,{name}"]
    link_alone(zig, words, tmp_path / "it.elf", "linking")
    assert read_elf(tmp_path / "it.elf").symbol(name).is_function
    assert ["-nostdlib" in words for words in asked] == ([True, False] if helpers else [True])


@pytest.mark.parametrize("board_name", ["riscv32imc", "hazard3", "raspberry-pi-pico2-riscv"])
def test_helpers_of_risc_v_link_beside_extensions(tmp_path: Path, board_name: str) -> None:
    board = load_board(board_name)
    try:
        gcc = find_toolchain(board, "gcc")
    except TinycError as error:
        pytest.skip(error.message)
    source = tmp_path / "scales.c"
    source.write_text("float scales(long long a, int by, float b) { return (float)(a >> by) * b; }\n")
    words = ["-Os", source, "-nostartfiles", "-Wl,-e,scales"]
    link_alone(gcc, words, tmp_path / "it.elf", "linking")
    assert read_elf(tmp_path / "it.elf").symbol("scales").is_function
