# SPDX-License-Identifier: Apache-2.0
"""Programs that flash for tinyc: the command lines that they get, for every board, against stand-ins on PATH; what they
say of their progress and failure; and the programs themselves where they are installed, without a board."""

from __future__ import annotations

import json
import os
import re
import shutil
import stat
import subprocess
import zipfile
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from tinyc.base.errors import TinycError
from tinyc.board import list_boards, load_board
from tinyc.flash import flash, plan_flash
from tinyc.flash.handover import CLIENTS, tool_command
from tinyc.toolchain.image import Image, intel_hex

DATA = bytes(range(256)) * 40
Program = Callable[..., Path]


@pytest.fixture
def program(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Program:
    """program(name, script): a program of that name on PATH; the file that each call of it adds its arguments to."""

    def make(name: str, script: str = "") -> Path:
        called = tmp_path / "called"
        file = tmp_path / "bin" / name
        file.parent.mkdir(exist_ok=True)
        file.write_text(f'#!/bin/sh\necho "$@" >> {called}\n{script}\n')
        file.chmod(file.stat().st_mode | stat.S_IXUSR)
        monkeypatch.setenv("PATH", f"{file.parent}{os.pathsep}/bin{os.pathsep}/usr/bin")
        return called

    return make


def binary(tmp_path: Path) -> Path:
    file = tmp_path / "app.bin"
    file.write_bytes(DATA)
    return file


OPENOCD = "program [^ ]*/app.hex verify reset exit"
COMMANDS = [
    ("nucleo-f446re", "openocd", None, f"-f interface/stlink.cfg -f target/stm32f4x.cfg -c {OPENOCD}"),
    ("nucleo-h743zi2", "openocd", None, f"-f interface/stlink.cfg -f target/stm32h7x.cfg -c {OPENOCD}"),
    ("nucleo-u575zi-q", "openocd", None, f"-f interface/stlink.cfg -f target/stm32u5x.cfg -c {OPENOCD}"),
    ("nucleo-wb55rg", "openocd", None, f"-f interface/stlink.cfg -f target/stm32wbx.cfg -c {OPENOCD}"),
    ("arduino-nano-rp2040", "openocd", None, f"-f interface/cmsis-dap.cfg -f target/rp2040.cfg -c {OPENOCD}"),
    ("nucleo-f767zi", "pyocd", None, "load --no-wait --target stm32f767zi --base-address 0x8000000 {bin}"),
    ("raspberry-pi-pico2", "pyocd", None, "load --no-wait --target rp2350 --base-address 0x10000000 {bin}"),
    ("raspberry-pi-pico2", "picotool", None, "load --verify --execute {bin}"),
    (
        "arduino-portenta-h7",
        "dfu",
        None,
        "--device ,2341:035b --alt 0 --dfuse-address 0x08040000:leave --download {bin}",
    ),
    ("arduino-uno-r4-minima", "dfu", None, "--device ,2341:0369 --alt 0 --reset --download {bin}"),
    ("arduino-uno-r4-wifi", "bossac", "COM7", "--port COM7 --erase --write --verify {bin} --reset"),
    ("seeed-xiao-samd21", "bossac", "COM7", "--port COM7 --offset=0x2000 --erase --write --verify {bin} --reset"),
    ("adafruit-feather-m4", "bossac", "COM7", "--port COM7 --offset=0x4000 --erase --write --verify {bin} --reset"),
    ("teensy-4.1", "teensy", None, "--mcu=TEENSY41 -w -v [^ ]*/app.hex"),
    (
        "seeed-xiao-nrf52840",
        "nrfutil",
        "COM7",
        "dfu genpkg --dev-type 0x0052 --sd-req 0x0123 --application [^ ]*/app.hex ([^ ]*/package.zip)\n"
        "dfu serial --package \\1 --port COM7 --baudrate 115200 --singlebank",
    ),
]  # fmt: skip


@pytest.mark.parametrize(("board", "method", "port", "arguments"), COMMANDS)
def test_command_lines(
    tmp_path: Path, program: Program, board: str, method: str, port: str | None, arguments: str
) -> None:
    client = CLIENTS[method]
    called = program(client.programs[0], f"echo '{client.says}'")
    result = flash(plan_flash(binary(tmp_path), board, port, method))
    assert result.method == method
    assert client.programs[0] in result.how
    assert ("does not read it back" in result.how) != client.checks
    pattern = arguments.replace("{bin}", re.escape(str(tmp_path / "app.bin")))
    assert re.fullmatch(pattern, called.read_text().strip())


def test_every_method_of_every_board_has_a_client_or_is_spoken_by_tinyc() -> None:
    spoken = {"stm32", "samba", "uf2", "drive"}
    seen = set()
    for board in list_boards():
        for method in board.flashing.methods if board.flashing is not None else ():
            assert method in spoken or method in CLIENTS
            seen.add(method)
    assert seen == spoken | set(CLIENTS)


def test_the_address_is_in_what_is_handed_over(tmp_path: Path, program: Program) -> None:
    """OpenOCD and Teensy's loader take Intel HEX: of a binary it is written."""
    copied = tmp_path / "kept.hex"
    program("openocd", f"cp $(echo $6 | cut -d' ' -f2) {copied}; echo '** Verified OK **'")
    flash(plan_flash(binary(tmp_path), "nucleo-f446re", None, "openocd"))
    lines = copied.read_text().split()
    assert lines[0] == ":020000040800F2"
    assert lines[1].startswith(":10000000000102030405060708090A0B0C0D0E0F")


def test_a_path_is_one_word_of_tcl(tmp_path: Path, program: Program) -> None:
    folder = tmp_path / "a b [exit] {x} $y"
    folder.mkdir()
    (folder / "app;x.bin").write_bytes(DATA)
    called = program("openocd", "echo '** Verified OK **'")
    job = plan_flash(folder / "app;x.bin", "nucleo-f446re", None, "openocd")
    flash(replace(job, files=replace(job.files, hex=folder / "app;x.hex")))
    said = called.read_text().partition("-c program ")[2].removesuffix(" verify reset exit\n")
    assert said == str(folder / "app;x.hex").replace("\\", "").translate(
        {ord(letter): f"\\{letter}" for letter in " []{}$;"}
    )


@pytest.mark.parametrize("form", ["printf '\\rWriting [==  ] {}%%'", "echo 'Flashing: {}.0 % done'"])
def test_progress(tmp_path: Path, program: Program, form: str) -> None:
    """The percentages that a program says, wherever they stand; the last one is all."""
    program("dfu-util", "\n".join(form.format(percent) for percent in (0, 5, 50, 100)))
    seen: list[tuple[str, int, int]] = []
    flash(plan_flash(binary(tmp_path), "arduino-uno-r4-minima", None, "dfu"), report=lambda *step: seen.append(step))
    whole = len(DATA)
    assert seen == [("write", percent * whole // 100, whole) for percent in (0, 5, 50, 100)]


@pytest.mark.parametrize("method", CLIENTS)
def test_a_client_that_is_missing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, method: str) -> None:
    """Its name, and where it comes from."""
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    board = next(b.name for b in list_boards() if b.flashing is not None and method in b.flashing.methods)
    file = binary(tmp_path)
    if method == "esptool":
        file.write_bytes(b"\xe9" + bytes(31) + (0xABCD5432).to_bytes(4, "little") + bytes(500))
    assert tool_command(method) is None
    with pytest.raises(TinycError, match=f"{CLIENTS[method].programs[0]} is not installed") as caught:
        flash(plan_flash(file, board, "COM7", method))
    assert "install" in caught.value.hint
    assert caught.value.exit_code == 2


@pytest.mark.parametrize(
    ("method", "script", "said"),
    [
        ("dfu", "echo 'No DFU capable USB device available' >&2; exit 74", "No DFU capable USB device available"),
        ("nrfutil", "echo 'Failed to upgrade target. Error is: no data'", "Failed to upgrade target"),
        ("openocd", "echo '** Programming Finished **'", "Programming Finished"),
        ("teensy", "kill -9 $$", "teensy_loader_cli failed"),
    ],
)
def test_a_client_that_fails(tmp_path: Path, program: Program, method: str, script: str, said: str) -> None:
    """adafruit-nrfutil fails with the exit code 0, and OpenOCD may end without having compared."""
    program(CLIENTS[method].programs[0], script)
    board = next(b.name for b in list_boards() if b.flashing is not None and method in b.flashing.methods)
    with pytest.raises(TinycError, match=said) as caught:
        flash(plan_flash(binary(tmp_path), board, "COM7", method))
    assert caught.value.exit_code == 1
    assert "the command was: " in caught.value.hint


def test_a_client_that_does_not_end(tmp_path: Path, program: Program, monkeypatch: pytest.MonkeyPatch) -> None:
    program("dfu-util", "exec sleep 60")
    monkeypatch.setattr("tinyc.flash.handover.TOOL_SECONDS", 0.3)
    with pytest.raises(TinycError, match=r"dfu-util did not end in 0\.3 s"):
        flash(plan_flash(binary(tmp_path), "arduino-uno-r4-minima", None, "dfu"))


def test_a_port_is_needed(tmp_path: Path, program: Program) -> None:
    program("bossac")
    with pytest.raises(TinycError, match="bossac needs to know the port"):
        flash(plan_flash(binary(tmp_path), "arduino-uno-r4-wifi", None, "bossac"))


# --- the programs themselves, without a board ---

WITHOUT_A_BOARD = {
    "pyocd": ("nucleo-h743zi2", "No connected debug probes|No target device"),
    "openocd": ("nucleo-f446re", "open failed|OpenOCD init failed"),
    "dfu": ("arduino-portenta-h7", "No DFU capable USB device available|unable to initialize|libusb"),
    "bossac": ("seeed-xiao-samd21", "No device found on"),
    "nrfutil": ("seeed-xiao-nrf52840", "Serial port could not be opened"),
}


@pytest.mark.parametrize("method", WITHOUT_A_BOARD)
def test_the_program_takes_the_command_line(tmp_path: Path, method: str) -> None:
    """It looks for the board, and does not complain of an option."""
    if tool_command(method) is None:
        pytest.skip(f"{CLIENTS[method].programs[0]} is not installed: {CLIENTS[method].install}")
    board, said = WITHOUT_A_BOARD[method]
    with pytest.raises(TinycError, match=said):
        flash(plan_flash(binary(tmp_path), board, "/dev/ttyNOBODY", method))


def test_teensys_loader_reads_the_file(tmp_path: Path) -> None:
    """An image at the address that FlexSPI has; it says so before it waits for a board."""
    loader = tool_command("teensy")
    if loader is None:
        pytest.skip("teensy_loader_cli is not installed: apt install teensy-loader-cli")
    file = tmp_path / "app.hex"
    file.write_text(intel_hex(Image(0x6000_0000, DATA)))
    command = [*loader, "--mcu=TEENSY41", "-w", "-v", str(file)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        said = next(line for line in process.stdout if "Read" in line)
        process.kill()
    assert f": {len(DATA)} bytes," in said


def test_the_package_for_adafruits_boot_loader(tmp_path: Path, program: Program) -> None:
    """The program itself makes it: the image as it is, for this chip and SoftDevice."""
    real = shutil.which("adafruit-nrfutil")
    if real is None:
        pytest.skip("adafruit-nrfutil is not installed: pip install adafruit-nrfutil")
    copied = tmp_path / "kept.zip"
    program("adafruit-nrfutil", f'[ $2 = genpkg ] && {{ {real} "$@"; exit; }}; cp $4 {copied}; echo Device programmed.')
    flash(plan_flash(binary(tmp_path), "seeed-xiao-nrf52840", "COM7", "nrfutil"))
    with zipfile.ZipFile(copied) as package:
        what = json.loads(package.read("manifest.json"))["manifest"]["application"]
        assert package.read(what["bin_file"]) == DATA
        packet = what["init_packet_data"]
    way = load_board("seeed-xiao-nrf52840").flashing
    assert way is not None
    assert way.nrfutil is not None
    assert packet["device_type"] == way.nrfutil.device
    assert packet["softdevice_req"] == [way.nrfutil.softdevice]
