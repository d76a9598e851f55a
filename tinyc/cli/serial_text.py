# SPDX-License-Identifier: Apache-2.0
"""What a board says at its serial port: `tinyc flash --monitor`."""

from __future__ import annotations

import sys
import threading
import time
from dataclasses import asdict

from rich.text import Text

from tinyc.base.dataclass import dataclass
from tinyc.base.serial_line import SerialPort, described_ports
from tinyc.cli.output import Output
from tinyc.run import protocol

DEFAULT_BAUD = 115_200


@dataclass(frozen=True, slots=True)
class Watch:
    """How a board is listened to. frames: only those of tinyc's protocol are shown; seconds: 0 is until Ctrl-C."""

    baud: int
    frames: bool
    seconds: float


def show_ports(out: Output) -> None:
    """The serial ports of this computer, with their USB ids."""
    ports = described_ports()
    out.json({"ports": [asdict(each) for each in ports]})
    out.result(Text("\n".join(map(str, ports)) if ports else "there is no serial port"))


def watch_port(out: Output, port: str, watch: Watch) -> None:
    """Prints what a board sends; lines that are typed go to it. Raises TinycError for a port that cannot be opened."""
    with SerialPort(port, watch.baud) as line:
        out.note(f"{port} at {watch.baud} baud; Ctrl-C ends")
        threading.Thread(target=_send_typed, args=(line,), daemon=True).start()
        _show(out, line, watch.frames, time.monotonic() + watch.seconds if watch.seconds else None)


def _show(out: Output, line: SerialPort, frames: bool, deadline: float | None) -> None:
    reader = protocol.FrameReader(skip_noise=True)
    while deadline is None or time.monotonic() < deadline:
        data = line.read(4096, 0.1)
        if frames:
            for frame in reader.feed(data):
                out.result(Text(frame_text(frame)))
        elif data:
            out.stdout.print(Text(shown_text(data)), end="", soft_wrap=True)


def shown_text(data: bytes) -> str:
    """Printable characters and line ends as they are, other bytes as \\xNN."""
    return "".join(chr(b) if 32 <= b < 127 or b in b"\n\t" else "" if b == 13 else f"\\x{b:02x}" for b in data)


def frame_text(frame: protocol.ProtocolFrame) -> str:
    """One line for a frame of the firmware; what cannot be decoded is shown as it is, and why."""
    try:
        return _message_text(protocol.decode(frame))
    except protocol.FrameError as error:
        return f"{error.message}: {frame.payload.hex() or 'no bytes'}"


def _message_text(message: protocol.Message) -> str:
    if isinstance(message, protocol.InfoFrame):
        name = shown_text(message.version.encode())
        return (
            f"INFO {name}: arena {message.arena_bytes:,}, inputs {message.input_bytes}, outputs {message.output_bytes}"
        )
    if isinstance(message, protocol.Result):
        cycles = "" if message.cycles is None else f", {message.cycles:,} cycles"
        return f"RESULT {message.inference}: status {message.status}{cycles}, outputs {message.outputs.hex()}"
    if isinstance(message, protocol.FaultFrame):
        return f"FAULT in inference {message.inference}: {protocol.fault_reason(message)}"
    if isinstance(message, protocol.StepFrame):
        return f"STEP {message.step} of inference {message.inference}: {message.output.hex()}"
    if isinstance(message, protocol.Refusal):
        return f"ERROR {message.code}, detail {message.detail}"
    return message.reply.name


def _send_typed(line: SerialPort) -> None:
    for text in sys.stdin:
        line.write(_encoded(text))


def _encoded(text: str) -> bytes:
    return text.encode()
