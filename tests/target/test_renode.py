"""Renode files: golden, by their grammar, and their firmware run on unicorn with the platform's devices made here."""

from __future__ import annotations

import os
import re
import stat
from collections.abc import Callable
from functools import cache
from pathlib import Path

import pytest
import toy
from machines import target_for
from renode_machine import Machine
from renode_text import Platform, read_repl, read_resc

from tinyc.board import load_board
from tinyc.build.compile import compile_firmware, compile_library
from tinyc.build.elf import read_elf
from tinyc.build.toolchain import find_toolchain
from tinyc.errors import TinycError
from tinyc.run.renode import LINE_BYTES, Expected, expected_lines, run_renode, write_renode

GOLDEN = Path(__file__).resolve().parents[1] / "golden" / "renode"
FILES = ("board.repl", "run.resc", "test.robot")
INPUTS = toy.inputs(3)
OUTPUTS = [toy.reference(tensors).outputs for tensors in INPUTS]
BOARDS = (
    "cortex-m0plus",
    "cortex-m4",
    *(pytest.param(name, marks=pytest.mark.slow) for name in ("cortex-m3", "cortex-m7", "cortex-m33")),
)


Make = Callable[[str], Path]


@pytest.fixture(scope="module")
def renode(tmp_path_factory: pytest.TempPathFactory) -> Make:
    """renode(board) -> the folder that was written for it; made once."""
    return cache(lambda board_name: make(tmp_path_factory.mktemp("renode"), board_name))


def make(folder: Path, board_name: str, instructions: int | None = 1234) -> Path:
    board = load_board(board_name)
    try:
        toolchain = find_toolchain(board, "gcc")
    except TinycError as error:
        pytest.skip(error.message)
    library_dir = toy.write_library(folder / "library")
    library = compile_library(library_dir, "toy", toolchain, "balanced", folder / "toy.o")
    expected = Expected(INPUTS, OUTPUTS, instructions, "QEMU")
    write_renode(folder / "renode", library_dir, "toy", board, toolchain, library, expected)
    return folder / "renode"


@pytest.mark.parametrize("name", FILES)
def test_golden(renode: Make, name: str, request: pytest.FixtureRequest) -> None:
    text = (renode("stm32f4-discovery") / name).read_text()
    golden = GOLDEN / name
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
    platform = read_repl((renode(board_name) / "board.repl").read_text())
    memory = board.memory
    assert memory is not None
    assert platform.address("flash") == memory.flash_origin
    assert platform.number("flash", "size") == memory.flash_bytes
    assert platform.address("ram") == memory.ram_origin
    assert platform.number("ram", "size") == memory.ram_bytes
    assert platform.entries["cpu"].attributes["nvic"] == "nvic"
    assert platform.number("dwt", "frequency") == platform.number("nvic", "systickFrequency") == 100_000_000
    assert {entry.type for entry in platform.entries.values()} == {
        "Memory.MappedMemory", "IRQControllers.NVIC", "CPU.CortexM", "Miscellaneous.DWT", "UART.TrivialUart",
    }  # fmt: skip


def test_script_loads_what_is_there(renode: Make) -> None:
    folder = renode("cortex-m4")
    script = read_resc((folder / "run.resc").read_text())
    elf = read_elf(folder / "toy.elf")
    for symbol in script.symbols:
        elf.symbol(symbol)
    for name in script.files:
        assert (folder / name).is_file()
    assert script.machine_made_before_use


def test_script_checker_refuses_what_renode_would() -> None:
    with pytest.raises(ValueError, match="unknown command"):
        read_resc("mach create $name\nmachin LoadPlatformDescription $ORIGIN/board.repl\n")
    with pytest.raises(ValueError, match="macro"):
        read_resc('macro reset\n"""\n    sysbus LoadELF $bin\n')
    with pytest.raises(ValueError, match="indented"):
        read_repl("ram: Memory.MappedMemory @ sysbus 0x0\n  size: 4\n")
    with pytest.raises(ValueError, match="not there"):
        read_repl("cpu: CPU.CortexM @ sysbus\n    nvic: nvic\n")


# --- the robot file ---


def keywords(folder: Path) -> list[tuple[str, tuple[str, ...]]]:
    """Name and arguments of every keyword call in test.robot, by Robot Framework's own parser."""
    api = pytest.importorskip("robot.api", reason="Robot Framework is not installed: pip install robotframework")
    model = api.get_model(str(folder / "test.robot"))
    found = []
    for section in model.sections:
        for block in getattr(section, "body", []):
            for item in getattr(block, "body", []):
                assert not getattr(item, "errors", ()), f"{item}: {item.errors}"
                if hasattr(item, "keyword"):
                    found.append((item.keyword, tuple(item.args)))
    return found


RENODE_KEYWORDS = {
    "Execute Script", "Create Log Tester", "Create Terminal Tester", "Register Failing Uart String",
    "Wait For Line On Uart", "Should Not Be In Log", "Should Be True", "Start Firmware",
}  # fmt: skip


def test_robot_file_parses(renode: Make) -> None:
    folder = renode("cortex-m4")
    calls = keywords(folder)
    assert {name for name, _ in calls} == RENODE_KEYWORDS
    api = pytest.importorskip("robot.api")
    suite = api.TestSuite.from_file_system(str(folder / "test.robot"))
    assert [test.name for test in suite.tests] == [
        "Should Compute The Reference Outputs", "Should Execute As Many Instructions", "Should Stay In Its Memories",
    ]  # fmt: skip
    named = {"content", "treatAsRegex", "timeout"}
    for name, arguments in calls:
        for argument in arguments:
            word = re.match(r"(\w+)=", argument)
            # Renode takes `word=...` for a named argument.
            assert word is None or word[1] in named, f"{name}: {argument}"


def test_robot_file_without_counts(tmp_path: Path) -> None:
    text = (make(tmp_path, "cortex-m4", instructions=None) / "test.robot").read_text()
    assert "INSTRUCTIONS" not in text
    assert "all done" in text


# --- the firmware ---


def console_of(elf_path: Path, cpu: str, platform: Platform) -> str:
    """What the firmware prints on a machine with exactly the devices of the platform; DWT counts instructions, block
    by block as Renode does."""
    printed: list[str] = []

    def on_write(device: str, value: int) -> bool:
        assert device == "console"
        printed.append(chr(value))
        return "".join(printed[-10:]) != "all done\r\n"

    Machine(elf_path, cpu, platform, on_write).run(3_000_000)
    return "".join(printed)


@pytest.mark.parametrize("board_name", BOARDS)
def test_firmware_prints_what_the_robot_file_waits_for(renode: Make, board_name: str) -> None:
    folder = renode(board_name)
    board = load_board(board_name)
    assert board.unicorn is not None
    platform = read_repl((folder / "board.repl").read_text())
    lines = console_of(folder / "toy.elf", board.unicorn.cpu, platform).split("\r\n")
    waited = [args[0] for name, args in keywords(folder) if name == "Wait For Line On Uart"]
    outputs = waited[: waited.index("all done") + 1]
    position = 0
    for text in outputs:
        position = next(i for i in range(position, len(lines)) if text in lines[i]) + 1
    assert not any("=" in line for line in lines)


def test_firmware_measures_the_instructions_that_qemu_counts(renode: Make, tmp_path: Path) -> None:
    folder = renode("cortex-m4")
    board = load_board("cortex-m4")
    firmware = compile_firmware(
        toy.write_library(tmp_path), "toy", board, find_toolchain(board, "gcc"), "balanced", tmp_path / "plain"
    )
    counted = target_for("cortex-m4", None).run(firmware, INPUTS).instructions
    platform = read_repl((folder / "board.repl").read_text())
    text = console_of(folder / "toy.elf", "cortex-m4", platform)
    ticks = [int(n) for n in re.findall(r"stack \d+ ticks (\d+)", text)]
    assert len(ticks) == len(counted) == len(INPUTS)
    for measured, exact in zip(ticks, counted, strict=True):
        assert abs(measured - exact) <= 20


def test_long_outputs_take_several_lines() -> None:
    lines = expected_lines([[bytes(range(40)), b"\xff"]])
    assert lines[1:] == [
        f"inference 0 output 0 at 0: {bytes(range(LINE_BYTES)).hex()}",
        f"inference 0 output 0 at {LINE_BYTES}: {bytes(range(LINE_BYTES, 40)).hex()}",
        "inference 0 output 1 at 0: ff",
    ]


# --- renode-test ---


def fake_renode(folder: Path, monkeypatch: pytest.MonkeyPatch, script: str) -> None:
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
    fake_renode(tmp_path, monkeypatch, f'echo "$@" > {tmp_path}/called')
    run_renode(tmp_path / "renode")
    called = (tmp_path / "called").read_text().split()
    assert called == ["-r", str(tmp_path / "renode" / "results"), str(tmp_path / "renode" / "test.robot")]


def test_renode_fails(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    fake_renode(tmp_path, monkeypatch, "echo 'Tests failed: 1'; exit 1")
    with pytest.raises(TinycError, match="Tests failed: 1") as caught:
        run_renode(tmp_path)
    assert caught.value.exit_code == 1


@pytest.mark.parametrize("board_name", ["host", "riscv32imc"])
def test_boards_without_renode(tmp_path: Path, board_name: str) -> None:
    with pytest.raises(TinycError, match="writes no Renode files"):
        make(tmp_path, board_name)
