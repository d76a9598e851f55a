# SPDX-License-Identifier: Apache-2.0
"""A serial line: bytes with deadlines, control lines, and errors that say what to do."""

from __future__ import annotations

import errno
import importlib.util
import os
import re
import time
from collections.abc import Iterable
from contextlib import suppress
from types import TracebackType
from typing import Any

import serial
from serial.tools import list_ports

from tinyc.base.dataclass import dataclass
from tinyc.base.errors import Loc, TinycError

_BROKEN: tuple[type[Exception], ...] = (serial.SerialException, OSError)
if importlib.util.find_spec("termios") is not None:  # not on Windows
    import termios

    _BROKEN = (*_BROKEN, termios.error)  # which is no OSError
_REFUSED: tuple[type[Exception], ...] = (*_BROKEN, ValueError)
_GONE: tuple[type[Exception], ...] = (*_BROKEN, TypeError)  # TypeError: closed in another thread

# Of one look at the line. pyserial sets the whole port up again when its timeout changes, so that stays as it is.
_SLICE_SECONDS = 0.02
_BABBLE_SECONDS = 2.0  # a firmware that prints all the time is never quiet


def is_of_a_program(port: str) -> bool:
    """Whether a program answers there, as emulators do: at a pseudo-terminal, a link to one, or a socket."""
    return port.startswith("socket://") or re.match(r"/dev/(pts/|ttys\d)", os.path.realpath(port)) is not None


class LineError(TinycError):
    """The line broke while it was in use: unplugged, or taken by another program."""


class SerialPort:
    """An open port: `/dev/ttyUSB0`, `COM3`, or an URL that pyserial knows (`socket://localhost:4000`)."""

    def __init__(self, port: str, baud: int, *, even_parity: bool = False) -> None:
        """Raises TinycError when the port cannot be opened, with the ports that there are."""
        self.port = port
        try:
            self._serial: Any = _open(port, baud, even_parity)
        except _REFUSED as error:
            raise _cannot_open(port, error) from error

    def __enter__(self) -> SerialPort:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """What was written leaves first."""
        with suppress(*_BROKEN):
            self._serial.flush()
        self._serial.close()

    def write(self, data: bytes) -> None:
        """Raises LineError when the line is gone."""
        try:
            self._serial.write(data)
        except _BROKEN as error:
            raise self._lost(error) from error

    def read(self, most: int, seconds: float) -> bytes:
        """Up to `most` bytes: as soon as there is one, or none after `seconds`. Raises LineError."""
        deadline = time.monotonic() + seconds
        try:
            while not (first := self._serial.read(1)):
                if time.monotonic() >= deadline:
                    return b""
            more = min(self._serial.in_waiting, most - 1)
            data: bytes = first + (self._serial.read(more) if more > 0 else b"")
        except _GONE as error:
            raise self._lost(error) from error
        return data

    def read_exactly(self, count: int, seconds: float) -> bytes:
        """`count` bytes, or fewer when they do not come within `seconds` of each other."""
        data = b""
        while len(data) < count:
            more = self.read(count - len(data), seconds)
            if not more:
                break
            data += more
        return data

    def unread(self) -> bytes:
        """What has arrived and nobody has read, at once. Raises LineError."""
        try:
            data: bytes = self._serial.read(waiting) if (waiting := self._serial.in_waiting) else b""
        except _GONE as error:
            raise self._lost(error) from error
        return data

    def drain(self, seconds: float = 0.05) -> None:
        """Throws away what arrives until the line is quiet for `seconds`, or is not for _BABBLE_SECONDS."""
        end = time.monotonic() + _BABBLE_SECONDS
        while self.read(4096, seconds) and time.monotonic() < end:
            pass

    def sequence(self, steps: Iterable[str]) -> None:
        """Goes through control steps: `dtr on`, `rts off`, `wait 0.1`. Lines that the port has not are left out."""
        for step in steps:
            what, value = step.split()
            if what == "wait":
                time.sleep(float(value))
            elif what in ("dtr", "rts"):
                self._control(what, value == "on")

    def _control(self, line: str, on: bool) -> None:
        try:
            setattr(self._serial, line, on)
        except _BROKEN as error:
            if not {errno.ENOTTY, errno.EINVAL} & set(error.args):
                raise self._lost(error) from error

    def _lost(self, error: Exception) -> LineError:
        return LineError(
            f"the serial line broke: {_reason(error)}",
            Loc(self.port),
            "is the board still plugged in, and no other program at its port?",
        )


def _open(port: str, baud: int, even_parity: bool) -> Any:
    parity = serial.PARITY_EVEN if even_parity else serial.PARITY_NONE
    try:
        return serial.serial_for_url(port, baud, parity=parity, timeout=_SLICE_SECONDS, write_timeout=10)
    except _BROKEN as error:
        if even_parity and errno.EINVAL in error.args:
            return _open(port, baud, even_parity=False)  # a pseudo-terminal: it has no parity
        raise


def touch(port: str, baud: int) -> None:
    """Opens a port at a baud rate and closes it: Arduino boards start their bootloader when that is 1200."""
    with SerialPort(port, baud) as line:
        line.sequence(("dtr off",))


def port_names() -> tuple[str, ...]:
    """Serial ports of this computer, those of USB devices first."""
    return tuple(port.device for port in _ports())


@dataclass(frozen=True, slots=True)
class DescribedPort:
    """A port of this computer; of one at USB the vendor and product id (`0483:374b`) and what it says that it is."""

    port: str
    usb: str | None
    description: str | None

    def __str__(self) -> str:
        return "  ".join(filter(None, (self.port, self.usb, self.description)))


def described_ports() -> tuple[DescribedPort, ...]:
    """The same, with what is known of each."""
    return tuple(
        DescribedPort(port.device, f"{port.vid:04x}:{port.pid:04x}", port.description)
        if port.vid is not None
        else DescribedPort(port.device, None, None)
        for port in _ports()
    )


def _ports() -> list[Any]:
    return sorted(list_ports.comports(), key=lambda p: (p.vid is None, p.device))


def _cannot_open(port: str, error: Exception) -> TinycError:
    ports = ", ".join(port_names()[:8]) or "none"
    code = getattr(error, "errno", None)
    right = "; you need the right to use it: on Linux `sudo usermod -aG dialout $USER`, then log in again"
    extra = right if code in (errno.EACCES, errno.EPERM) else ""
    return TinycError(f"the port cannot be opened: {_reason(error)}", Loc(port), f"ports here: {ports}{extra}")


def _reason(error: Exception) -> str:
    code = getattr(error, "errno", None)
    reasons = {
        errno.ENOENT: "there is no such port",
        errno.EACCES: "permission denied",
        errno.EBUSY: "another program has it open",
        errno.EIO: "the device is gone",
    }
    if os.strerror(errno.ENOTTY) in str(error):  # pyserial puts it into a text of its own
        return "it is no serial port"
    return reasons.get(code) or str(error) if code is not None else str(error)
