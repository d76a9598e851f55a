# SPDX-License-Identifier: Apache-2.0
"""Boards that another program flashes: pyOCD, OpenOCD, esptool, picotool, bossac, dfu-util, adafruit-nrfutil, Teensy's
loader. The firmware is handed to it, and its percentages are shown."""

from __future__ import annotations

import importlib.util
import os
import re
import shutil
import subprocess
import sys
import tempfile
import threading
from collections.abc import Callable, Mapping
from pathlib import Path
from types import MappingProxyType

from tinyc.base.dataclass import dataclass
from tinyc.base.errors import TinycError
from tinyc.board.parts import Flashing
from tinyc.flash.base import FlashError, Report, silent
from tinyc.toolchain.image import Image, intel_hex

TOOL_SECONDS = 900
_SHOWN_LINES = 6  # of a program that failed


@dataclass(frozen=True, slots=True)
class Files:
    """The firmware in the forms that programs take; origin: where the bytes of `binary` belong."""

    elf: Path
    binary: Path
    hex: Path
    uf2: Path
    origin: int


@dataclass(frozen=True, slots=True)
class Handed:
    """What a program is given: the board's settings, files, image, port, and a folder for files of its own."""

    flashing: Flashing
    files: Files
    image: Image
    port: str
    folder: Path

    def hex(self) -> Path:
        """The image as Intel HEX, which says its address; written where only a binary was given."""
        if self.files.hex.suffix.lower() == ".hex":
            return self.files.hex
        path = self.folder / f"{self.files.binary.stem}.hex"
        path.write_text(intel_hex(self.image), encoding="ascii")
        return path


@dataclass(frozen=True, slots=True)
class Client:
    """A program that flashes boards. programs: its names on PATH; module: of the Python package that brings it;
    commands: that install it; note: where else it comes from; arguments: of each call of it, in order; checks: whether
    it compares what it wrote; says: what the last call must have said, of one that may fail with the exit code 0."""

    programs: tuple[str, ...]
    boards: str
    arguments: Callable[[Handed], list[list[str]]]
    commands: tuple[str, ...] = ()
    note: str = ""
    module: str = ""
    needs_port: bool = False
    checks: bool = True
    says: str = ""

    @property
    def install(self) -> str:
        """Where it comes from, in words."""
        return ", or ".join((*(f"`{command}`" for command in self.commands), *((self.note,) if self.note else ())))


def _pyocd(given: Handed) -> list[list[str]]:
    files = given.files
    where = ["--base-address", hex(files.origin)] if files.hex.suffix == ".bin" else []
    return [["load", "--no-wait", "--target", given.flashing.pyocd, *where, str(files.hex)]]


def _openocd(given: Handed) -> list[list[str]]:
    file = re.sub(r"([^\w./-])", r"\\\1", str(given.hex()))  # a word of Tcl
    scripts = [word for script in given.flashing.openocd for word in ("-f", script)]
    return [[*scripts, "-c", f"program {file} verify reset exit"]]


def _esptool(given: Handed) -> list[list[str]]:
    return [["--port", given.port, write_command(), hex(given.files.origin), str(given.files.binary)]]


def _picotool(given: Handed) -> list[list[str]]:
    return [["load", "--verify", "--execute", str(given.files.uf2)]]


def _bossac(given: Handed) -> list[list[str]]:
    offset = given.flashing.bossac_offset
    where = [f"--offset={offset:#x}"] if offset else []
    port = given.port.removeprefix("/dev/")
    return [["--port", port, *where, "--erase", "--write", "--verify", str(given.files.binary), "--reset"]]


def _dfu(given: Handed) -> list[list[str]]:
    dfu = given.flashing.dfu
    assert dfu is not None
    where = ["--dfuse-address", f"{given.image.origin:#010x}:leave"] if dfu.st else ["--reset"]
    return [["--device", f",{dfu.id}", "--alt", str(dfu.alt), *where, "--download", str(given.files.binary)]]


def _nrfutil(given: Handed) -> list[list[str]]:
    settings = given.flashing.nrfutil
    assert settings is not None
    package = str(given.folder / "package.zip")
    ids = ["--dev-type", f"{settings.device:#06x}", "--sd-req", f"{settings.softdevice:#06x}"]
    return [
        ["dfu", "genpkg", *ids, "--application", str(given.hex()), package],
        ["dfu", "serial", "--package", package, "--port", given.port, "--baudrate", "115200", "--singlebank"],
    ]


def _teensy(given: Handed) -> list[list[str]]:
    return [[f"--mcu={given.flashing.teensy}", "-w", "-v", str(given.hex())]]


CLIENTS: Mapping[str, Client] = MappingProxyType(
    {
        "pyocd": Client(("pyocd",), "boards with a debug probe", _pyocd, ("pip install pyocd",), module="pyocd"),
        "openocd": Client(
            ("openocd",), "boards with a debug probe", _openocd, ("apt install openocd",), says="Verified OK"
        ),
        "esptool": Client(
            ("esptool", "esptool.py"),
            "Espressif's chips",
            _esptool,
            ("pip install esptool",),
            module="esptool",
            needs_port=True,
        ),
        "picotool": Client(
            ("picotool",),
            "the Raspberry Pi Pico",
            _picotool,
            ("apt install picotool",),
            "github.com/raspberrypi/picotool: Debian 12 has no package of it",
        ),
        "bossac": Client(
            ("bossac",),
            "Arduino boards, most of which `--method samba` flashes without",
            _bossac,
            ("apt install bossa-cli",),
            "Arduino's own, in its IDE's core of the board: Debian's does not know the Nano 33 BLE and the Uno R4",
            needs_port=True,
        ),
        "dfu": Client(
            ("dfu-util",),
            "Arduino boards with a USB boot loader (DFU)",
            _dfu,
            ("apt install dfu-util",),
            checks=False,
        ),
        "nrfutil": Client(
            ("adafruit-nrfutil",),
            "boards with Adafruit's boot loader for the nRF52",
            _nrfutil,
            ("pip install adafruit-nrfutil",),
            needs_port=True,
            says="Device programmed",
        ),
        "teensy": Client(
            ("teensy_loader_cli", "teensy-loader-cli"),
            "the Teensy",
            _teensy,
            ("apt install teensy-loader-cli",),
            "github.com/PaulStoffregen/teensy_loader_cli",
            checks=False,
        ),
    }
)


def tool_command(method: str) -> list[str] | None:
    """How the program of a method is started here: from PATH, or a Python package; None when it is not installed."""
    client = CLIENTS.get(method)
    for name in client.programs if client is not None else ():
        if (program := shutil.which(name)) is not None:
            return [program]
    if client is not None and client.module and importlib.util.find_spec(client.module) is not None:
        return [sys.executable, "-m", client.module]
    return None


def run_tool(
    method: str, flashing: Flashing, files: Files, image: Image, port: str | None, report: Report = silent
) -> str:
    """Flashes with the board's program; what it did. Raises TinycError when it is not installed, or fails."""
    client, program = CLIENTS[method], tool_command(method)
    if program is None:
        name = client.programs[0]
        raise TinycError(f"{name} is not installed", hint=f"{client.install}; tinyc hands the firmware to it")
    if client.needs_port and port is None:
        raise TinycError(f"{method} needs to know the port", hint="give --port")
    with tempfile.TemporaryDirectory(prefix="tinyc-") as folder:
        said, command = "", list[str]()
        for arguments in client.arguments(Handed(flashing, files, image, port or "", Path(folder))):
            command = [*program, *arguments]
            said = _run(method, flashing, command, len(image.data), report)
        if client.says not in said:
            raise _failed(method, flashing, said, command)
    return client.programs[0] + ("" if client.checks else ", which does not read it back")


def _run(method: str, flashing: Flashing, command: list[str], size: int, report: Report) -> str:
    """Runs the program and shows how far it says that it is; what it said."""
    name = CLIENTS[method].programs[0]
    try:
        done = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    except OSError as error:
        raise TinycError(f"{name} cannot be started: {error.strerror}", hint="run `tinyc doctor`") from error
    too_late = threading.Event()
    late = threading.Timer(TOOL_SECONDS, _stop, (done, too_late))
    late.start()
    try:
        said = _listen(done, size, report)
        status = done.wait()
    finally:
        late.cancel()
        done.kill()
        done.wait()
    if too_late.is_set():
        raise FlashError(f"{name} did not end in {TOOL_SECONDS} s")
    if status != 0:
        raise _failed(method, flashing, said, command)
    return said


def _stop(late: subprocess.Popen[bytes], told: threading.Event) -> None:
    told.set()
    late.kill()


def _failed(method: str, flashing: Flashing, said: str, command: list[str]) -> FlashError:
    lines = [line for line in re.split(r"[\r\n]+", said) if line.strip()]
    shown = "\n".join(f"  {line}" for line in lines[-_SHOWN_LINES:])
    pack = f"; `pyocd pack install {flashing.pyocd}` if it does not know the target" if method == "pyocd" else ""
    message = f"{CLIENTS[method].programs[0]} failed:\n{shown}"
    return FlashError(message, hint=f"the command was: {' '.join(command)}{pack}")


_PERCENT = re.compile(rb"(?<![\d.])(\d{1,3})(?:\.\d+)?\s?%")


def _listen(done: subprocess.Popen[bytes], size: int, report: Report) -> str:
    """What the program says, to its end; percentages are reported as bytes of `size`."""
    assert done.stdout is not None
    said = b""
    seen = 0
    while more := os.read(done.stdout.fileno(), 4096):
        said += more
        for percent in _PERCENT.finditer(said, seen):
            report("write", min(100, int(percent[1])) * size // 100, size)
            seen = percent.end()
    return said.decode("utf-8", "replace")


def write_command() -> str:
    """What the esptool that is installed calls writing: version 5 deprecates the name of 4, which does not know its."""
    try:
        command = [*(tool_command("esptool") or []), "version"]
        said = subprocess.run(command, check=False, capture_output=True, text=True, errors="replace", timeout=60).stdout
    except (OSError, subprocess.TimeoutExpired):
        said = ""
    version = re.search(r"v?(\d+)\.\d+", said)
    return "write-flash" if version is not None and int(version[1]) >= 5 else "write_flash"
