# SPDX-License-Identifier: Apache-2.0
"""Renode files: golden, by their grammar, and run by renode-test, which a stand-in plays (fake_renode.py)."""

from __future__ import annotations

import os
import re
import shutil
import stat
from collections.abc import Callable
from dataclasses import replace
from functools import cache
from pathlib import Path

import fake_renode
import pytest
import toy
from machines import target_for
from renode_monitor import Monitor
from renode_text import read_repl

from tinyc.base.errors import TinycError
from tinyc.board import load_board
from tinyc.run.renode import LINE_BYTES, Expected, expected_lines, platform, run_renode, write_renode
from tinyc.toolchain.compile import Sources, compile_firmware, compile_library
from tinyc.toolchain.compilers import find_toolchain
from tinyc.toolchain.elf import read_elf

GOLDEN = Path(__file__).resolve().parents[1] / "golden" / "renode"
FILES = ("board.repl", "run.resc", "test.robot")
INPUTS = toy.inputs(3)
OUTPUTS = [toy.reference(tensors).outputs for tensors in INPUTS]
BOARDS = (
    "cortex-m0plus",
    "cortex-m4",
    "riscv32imc",
    *(
        pytest.param(name, marks=pytest.mark.slow)
        for name in ("cortex-m3", "cortex-m7", "cortex-m33", "esp32-c3", "nrf52840-dk", "nucleo-l4r5zi")
    ),
)


Make = Callable[[str], Path]


@pytest.fixture(scope="module")
def renode(tmp_path_factory: pytest.TempPathFactory) -> Make:
    """renode(board) -> the folder that was written for it; made once."""
    return cache(lambda board_name: make(tmp_path_factory.mktemp("renode"), board_name))


def make(
    folder: Path,
    board_name: str,
    instructions: int | None = 1234,
    variant: toy.Variant = toy.Variant.NONE,
) -> Path:
    board = load_board(board_name)
    try:
        toolchain = find_toolchain(board, "gcc")
    except TinycError as error:
        pytest.skip(error.message)
    library_dir = toy.write_library(folder / "library", variant)
    library = compile_library(Sources(library_dir, "toy"), toolchain, "balanced", folder / "toy.o")
    expected = Expected(INPUTS, OUTPUTS, instructions, "QEMU")
    write_renode(folder / "renode", Sources(library_dir, "toy"), board, toolchain, library, expected)
    return folder / "renode"


@pytest.mark.parametrize(
    ("board_name", "folder", "name"),
    [*(("stm32f4-discovery", ".", name) for name in FILES), *(("riscv32imc", "riscv", name) for name in FILES[:2])],
)
def test_golden(renode: Make, board_name: str, folder: str, name: str, request: pytest.FixtureRequest) -> None:
    text = (renode(board_name) / name).read_text()
    golden = GOLDEN / folder / name
    if request.config.getoption("--update-golden"):
        golden.parent.mkdir(parents=True, exist_ok=True)
        golden.write_text(text)
    assert text == golden.read_text()


def test_folder_is_self_contained(renode: Make) -> None:
    folder = renode("cortex-m4")
    assert sorted(p.name for p in folder.iterdir()) == ["board.repl", "run.resc", "test.robot", "toy.elf"]
    for name in FILES:
        text = (folder / name).read_text()
        assert str(folder) not in text
        assert "http" not in text
        assert "using " not in text


@pytest.mark.parametrize("board_name", BOARDS)
def test_platform(renode: Make, board_name: str) -> None:
    board = load_board(board_name)
    described = read_repl((renode(board_name) / "board.repl").read_text())
    memory = board.emulated.memory  # of the ESP32-C3 they are where QEMU's machine has them
    assert memory is not None
    assert described.address("flash") == memory.flash_origin
    assert described.number("flash", "size") == memory.flash_bytes
    assert described.address("ram") == memory.ram_origin
    assert described.number("ram", "size") == memory.ram_bytes
    types = {entry.type for entry in described.entries.values()}
    if board.startup == "riscv":
        assert types == {
            "Memory.MappedMemory", "IRQControllers.CoreLevelInterruptor", "CPU.RiscV32", "UART.TrivialUart",
        }  # fmt: skip
        assert described.text("cpu", "timeProvider") == "clint"
        return
    assert described.text("cpu", "nvic") == "nvic"
    assert described.number("dwt", "frequency") == described.number("nvic", "systickFrequency") == 100_000_000
    assert types == {
        "Memory.MappedMemory", "IRQControllers.NVIC", "CPU.CortexM", "Miscellaneous.DWT", "UART.TrivialUart",
    }  # fmt: skip


@pytest.mark.parametrize("board_name", BOARDS)
def test_every_name_of_the_script_is_once_in_the_firmware(renode: Make, board_name: str) -> None:
    """Running it raises for a name that is there twice, or not; here they are counted once more, by the ELF file."""
    folder = renode(board_name)
    monitor = Monitor()
    monitor.run_script(folder / "run.resc")
    said = re.findall(r'GetSymbolAddress "(\w+)"', (folder / "run.resc").read_text())
    assert monitor.symbols == said
    names = [symbol.name for symbol in read_elf(folder / "toy.elf").symbols]
    assert [names.count(name) for name in said] == [1] * len(said)
    assert bool(said) == (load_board(board_name).startup == "cortex-m")
    assert monitor.elf == folder / "toy.elf"
    assert monitor.shown == ["console"]
    if said:
        assert monitor.vectors == read_elf(folder / "toy.elf").symbol(said[0]).address


def test_a_trace_is_made_under_a_name_that_the_disassembler_knows() -> None:
    board = load_board("cortex-m0plus")
    assert read_repl(platform(board, 1)).text("cpu", "cpuType") == "cortex-m0+"
    assert read_repl(platform(board, 1, traced=True)).text("cpu", "cpuType") == "cortex-m3"


# --- what the stand-in refuses ---


def script_of(folder: Path, text: str) -> None:
    """Runs the text in a folder that has a platform, firmware and a file, with what comes before each case."""
    before = 'mach create "m"\nmachine LoadPlatformDescription $ORIGIN/board.repl\nsysbus LoadELF $ORIGIN/toy.elf\n'
    script = folder / "case.resc"
    script.write_text(before + text)
    try:
        Monitor().run_script(script)
    finally:
        script.unlink()


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("machin LoadPlatformDescription $ORIGIN/board.repl", "'machin' is not there"),
        ("machine LoadPlatform $ORIGIN/board.repl", "unknown command"),
        ("machine LoadPlatformDescription $ORIGIN/none.repl", "is no file"),
        ('mach create "other"', "a machine already"),
        ("cpu Vectors 0x0", "unknown command"),
        ('cpu VectorTableOffset "0"', "is no number"),
        ('cpu VectorTableOffset `sysbus GetSymbolAddress "none"`', "0 symbols are named 'none'"),
        ('cpu VectorTableOffset `sysbus GetSymbolAddress "twice"`', "2 symbols are named 'twice'"),
        ("cpu ExecutedInstructions 5", "cannot be set"),
        ('cpu CreateExecutionTracing "t" $ORIGIN/t.txt PCs', "is no format"),
        ('cpu CreateExecutionTracing "t" $ORIGIN/t.txt', "takes 3 arguments"),
        ("sysbus.uart CreateFileBackend $ORIGIN/u true", "'sysbus.uart' is not there"),
        ("sysbus.ram CreateFileBackend $ORIGIN/u true", "unknown command"),
        ("sysbus.console CreateFileBackend $ORIGIN/u yes", "is no flag"),
        ("sysbus LoadBinary $ORIGIN/toy.elf 0x70000000", "in no memory"),
        ("emulation SetGlobalQuantum 0.01", "is no seconds"),
        ("emulation SetQuick true", "unknown command"),
        ("sysbus LoadELF $other", "variable \\$other is not set"),
        ("runMacro $reset", "no macro reset"),
        ('macro reset\n"""\nsysbus LoadELF $ORIGIN/toy.elf', "macro is not closed"),
        ("showAnalyzer sysbus.none", "'sysbus.none' is not there"),
    ],
)
def test_commands_that_renode_would_refuse(renode: Make, tmp_path: Path, line: str, message: str) -> None:
    if "twice" in line:
        line = line.replace("twice", "$t")  # the marks of Thumb code
        message = message.replace("2 symbols are named 'twice'", r"\d+ symbols are named '\$t'")
    with pytest.raises(ValueError, match=message):
        script_of(renode("cortex-m4"), line + "\n")


def test_commands_before_there_is_a_machine(tmp_path: Path) -> None:
    for line in ("machine LoadPlatformDescription $ORIGIN/x", 'emulation SetGlobalQuantum "0.1"', "cpu PC"):
        (tmp_path / "x").touch()
        (tmp_path / "case.resc").write_text(line + "\n")
        with pytest.raises(ValueError, match="there"):
            Monitor().run_script(tmp_path / "case.resc")


RAM = "ram: Memory.MappedMemory @ sysbus 0x20000000\n    size: 0x1000\n"
CLINT = "clint: IRQControllers.CoreLevelInterruptor @ sysbus 0x02000000\n    frequency: 1\n"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("ram: Memory.MappedMemory @ sysbus 0x0\n  size: 4\n", "indented"),
        ("ram: Memory.Mapped @ sysbus 0x0\n    size: 4096\n", "Renode has no Memory.Mapped"),
        ("ram: Memory.MappedMemory @ sysbus 0x0\n    bytes: 4096\n", "no parameter 'bytes'"),
        ('ram: Memory.MappedMemory @ sysbus 0x0\n    size: "4096"\n', "no number"),
        ("ram: Memory.MappedMemory @ sysbus 0x0\n", "needs 'size'"),
        ("ram: Memory.MappedMemory @ sysbus\n    size: 4096\n", "needs an address"),
        ("ram: Memory.MappedMemory @ sysbus 0x0\n    size: 4000\n", "not whole pages"),
        (RAM + RAM, "is there twice"),
        (RAM + RAM.replace("ram", "flash"), "overlaps"),
        ('cpu: CPU.CortexM @ sysbus\n    cpuType: "cortex-m4"\n    nvic: nvic\n', "nvic is not there"),
        (RAM + 'cpu: CPU.CortexM @ sysbus\n    cpuType: "cortex-m4"\n    nvic: ram\n', "no IRQControllers.NVIC"),
        ("n: IRQControllers.NVIC @ sysbus 0xE000E000\n    IRQ -> cpu@0\n", "'cpu' is not there"),
        ("n: IRQControllers.NVIC @ sysbus 0xE000E000\n    FIQ -> cpu@0\n", "no interrupt 'FIQ'"),
        (CLINT + 'cpu: CPU.RiscV32 @ sysbus\n    cpuType: "rv32imc"\n    timeProvider: clint\n', "control registers"),
        (CLINT + 'cpu: CPU.RiscV32 @ sysbus\n    cpuType: "rv33"\n    timeProvider: clint\n', "knows no 'rv33'"),
    ],
)
def test_platforms_that_renode_would_refuse(text: str, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        read_repl(text)


# --- the robot file ---


def keywords(folder: Path) -> list[tuple[str, tuple[str, ...]]]:
    """Name and arguments of every keyword call in test.robot, by Robot Framework's own parser."""
    api = pytest.importorskip("robot.api", reason="Robot Framework is not installed: pip install robotframework")
    model = api.get_model(str(folder / "test.robot"))
    calls = []
    for section in model.sections:
        for block in getattr(section, "body", []):
            for item in getattr(block, "body", []):
                assert not getattr(item, "errors", ()), f"{item}: {item.errors}"
                if hasattr(item, "keyword"):
                    calls.append((item.keyword, tuple(item.args)))
    return calls


def test_robot_file_parses(renode: Make) -> None:
    folder = renode("cortex-m4")
    api = pytest.importorskip("robot.api")
    suite = api.TestSuite.from_file_system(str(folder / "test.robot"))
    assert [test.name for test in suite.tests] == [
        "Should Compute The Reference Outputs", "Should Execute As Many Instructions", "Should Stay In Its Memories",
    ]  # fmt: skip
    named = {"content", "treatAsRegex", "timeout"}
    for name, arguments in keywords(folder):
        for argument in arguments:
            word = re.match(r"(\w+)=", argument)
            # Renode takes `word=...` for a named argument.
            assert word is None or word[1] in named, f"{name}: {argument}"


def test_robot_file_without_counts(tmp_path: Path) -> None:
    text = (make(tmp_path, "cortex-m4", instructions=None) / "test.robot").read_text()
    assert "INSTRUCTIONS" not in text
    assert "all done" in text


def counted(folder: Path, board_name: str) -> int:
    """Instructions of the first inference, by the machine that proves the board."""
    board = load_board(board_name)
    library = toy.write_library(folder / "library")
    firmware = compile_firmware(
        Sources(library, "toy"), board, find_toolchain(board, "gcc"), "balanced", folder / "plain"
    )
    return target_for(board_name, None).run(firmware, INPUTS[:1]).instructions[0]


def copy_of(folder: Path, to: Path, *changes: tuple[str, str]) -> Path:
    """A copy of the files, with texts of test.robot replaced."""
    shutil.copytree(folder, to)
    text = (to / "test.robot").read_text()
    for old, new in changes:
        assert text.count(old) == 1
        text = text.replace(old, new)
    (to / "test.robot").write_text(text)
    return to


@pytest.mark.parametrize("board_name", BOARDS)
def test_the_test_passes(renode: Make, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, board_name: str) -> None:
    """Outputs, memories, and as many instructions as were counted: to 20 of them, where the test allows 200."""
    fake_renode.install(tmp_path, monkeypatch)
    instructions = counted(tmp_path, board_name)
    folder = copy_of(
        renode(board_name), tmp_path / "renode", ("   1234", f"   {instructions}"), ("      200", "      20")
    )
    run_renode(folder)
    result = (folder / "results" / "robot_output.xml").read_text()
    assert len(re.findall("<test ", result)) == 3


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        (OUTPUTS[2][0].hex(), bytes(toy.A).hex(), "waiting for 'inference 2 output 0"),
        ("   1234", "   99", "200' should be true"),
    ],
)
def test_wrong_results_fail_the_test(
    renode: Make, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, old: str, new: str, message: str
) -> None:
    fake_renode.install(tmp_path, monkeypatch)
    failed(copy_of(renode("cortex-m4"), tmp_path / "renode", (old, new)), message)


def failed(folder: Path, message: str) -> None:
    with pytest.raises(TinycError, match="renode-test failed") as caught:
        run_renode(folder)
    assert caught.value.exit_code == 1
    assert re.search(re.escape(message), (folder / "results" / "robot_output.xml").read_text())


@pytest.mark.quick_cases(2)
@pytest.mark.parametrize(
    ("board_name", "variant", "message"),
    [
        ("riscv32imc", toy.Variant.UNDEFINED, "HARDFAULT pc"),
        ("cortex-m4", toy.Variant.UNMAPPED, "non existing peripheral"),
        ("cortex-m4", toy.Variant.UNDEFINED, "HARDFAULT pc"),
        ("cortex-m4", toy.Variant.MOVES_SP, "HARDFAULT pc"),
        ("cortex-m4", toy.Variant.BELOW, "waiting for 'inference 0 status 0 guards intact'"),
    ],
)
def test_wrong_firmware_fails_the_test(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, board_name: str, variant: toy.Variant, message: str
) -> None:
    fake_renode.install(tmp_path, monkeypatch)
    failed(make(tmp_path, board_name, None, variant), message)


def test_time_that_stands_still_ends_the_test(renode: Make, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As where the core has left its memories: the limits of the lines, which are virtual, never come."""
    fake_renode.install(tmp_path, monkeypatch)
    monkeypatch.setenv("TINYC_FAKE_RENODE", "still")
    folder = copy_of(renode("cortex-m4"), tmp_path / "renode", ("Timeout      160 seconds", "Timeout      1 second"))
    with pytest.raises(TinycError, match="Test timeout 1 second exceeded"):
        run_renode(folder)


def test_long_outputs_take_several_lines() -> None:
    lines = expected_lines([[bytes(range(40)), b"\xff"]])
    assert lines[1:] == [
        f"inference 0 output 0 at 0: {bytes(range(LINE_BYTES)).hex()}",
        f"inference 0 output 0 at {LINE_BYTES}: {bytes(range(LINE_BYTES, 40)).hex()}",
        "inference 0 output 1 at 0: ff",
    ]


# --- renode-test ---


def play(folder: Path, monkeypatch: pytest.MonkeyPatch, script: str) -> None:
    program = folder / "bin" / "renode-test"
    program.parent.mkdir()
    program.write_text(f"#!/bin/sh\n{script}\n")
    program.chmod(program.stat().st_mode | stat.S_IXUSR)
    monkeypatch.setenv("PATH", f"{program.parent}{os.pathsep}{os.environ['PATH']}")


def test_without_renode(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(TinycError, match="renode-test is not on PATH") as caught:
        run_renode(tmp_path)
    assert caught.value.exit_code == 2


def test_renode_passes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    play(tmp_path, monkeypatch, f'echo "$@" > {tmp_path}/called')
    run_renode(tmp_path / "renode")
    called = (tmp_path / "called").read_text().split()
    assert called == ["-r", str(tmp_path / "renode" / "results"), str(tmp_path / "renode" / "test.robot")]


def test_renode_fails(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    play(tmp_path, monkeypatch, "echo 'Tests failed: 1'; exit 1")
    with pytest.raises(TinycError, match="Tests failed: 1") as caught:
        run_renode(tmp_path)
    assert caught.value.exit_code == 1


@pytest.mark.parametrize(
    ("board_name", "message"),
    [("host", "writes no Renode files for host"), ("cortex-m55", "Renode 1.16 lacks instructions .* LSRL")],
)
def test_boards_without_renode(tmp_path: Path, board_name: str, message: str) -> None:
    with pytest.raises(TinycError, match=message) as caught:
        make(tmp_path, board_name)
    assert caught.value.exit_code == 2


@pytest.mark.parametrize(
    ("place", "message"),
    [
        ({"ram_origin": 0x4000_0000}, "RAM of riscv32imc lies where .* has its consoles, 0x40000000"),
        ({"flash_origin": 0x0200_8000}, "flash of riscv32imc lies where .* has its timer, 0x02000000"),
        ({"ram_origin": 0x9FFF_F000}, "has its requests"),
    ],
)
def test_boards_whose_memory_is_in_the_way(place: dict[str, int], message: str) -> None:
    board = load_board("riscv32imc")
    assert board.memory is not None
    with pytest.raises(TinycError, match=message):
        platform(replace(board, memory=replace(board.memory, **place)))


def test_memories_are_described_in_whole_pages() -> None:
    board = load_board("riscv32imc")
    assert board.memory is not None
    odd = replace(board.memory, flash_origin=0x8000_0800, flash_bytes=0x2000, ram_bytes=100)
    described = read_repl(platform(replace(board, memory=odd)))
    assert described.address("flash") == 0x8000_0000
    assert described.number("flash", "size") == 0x3000
    assert described.number("ram", "size") == 0x1000
