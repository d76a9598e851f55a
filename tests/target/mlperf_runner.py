# SPDX-License-Identifier: Apache-2.0
"""A host that asks as MLPerf Tiny's own runner does (mlcommons/tiny, benchmark/runner, as its sources of 2025 say), and
is as easily put off: what it does not expect is an error here, where the runner would go wrong without a word.

* It finds the board by the USB ids of devices.yaml, and asks `name%` there at the mode's baud rate; the name must be
  `check_name`.
* A command is text and `%`. Its answer is lines of UTF-8 that end in a line feed (CR and NUL are dropped), the last of
  them the first that has `m-ready` in it.
* `name`, `profile`; the model that it says chooses the test of the tests file.
* `download`: `db load N`, and commands of 31 bytes, from the files of y_labels.csv; ad01's are cut into windows.
* `infer N W`: two lines `m-lap-us-`, microseconds, and `m-results-[...]`.

The runner wants each line within five seconds. An emulator's time is not the board's, so this one only gives up when
nothing comes at all.
"""

from __future__ import annotations

import csv
import re
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import serial
import yaml

HANGS_SECONDS = 300.0
LOAD_BYTES = 31
EXPECTED = (
    r"m-init-done", r"m-ready", r"m-name-dut-\[[^]]+]", r"m-profile-\[[^]]+]", r"m-model-\[[^]]+]",
    r"m-\[Expecting \d+ bytes\]", r"m-load-done", r"m-warmup-start-\d+", r"m-warmup-done",
    r"m-infer-start-\d+", r"m-lap-us-\d+", r"m-infer-done", r"m-results-\[[^]]+\]",
    r"m-detecting", r"target activations:", r"\[[-\d,]*\]",
)  # fmt: skip


@dataclass(frozen=True)
class Measured:
    """One `infer`: the file, its class, seconds of all inferences, and the results."""

    file: str
    true_class: int
    seconds: float
    results: list[float]


def baud_of(devices: Path, usb: tuple[int, int], mode: str) -> tuple[int, str]:
    """Baud rate and name of the board under test behind a port with these USB ids."""
    boards = [
        device
        for device in yaml.safe_load(devices.read_text())
        for vendor, products in device["usb"].items()
        if device["type"] == "dut"
        and vendor == usb[0]
        and usb[1] in (products if isinstance(products, list) else [products])
    ]
    assert len(boards) == 1, f"no board with the ids {usb}"
    return int(boards[0]["baud"][mode]), boards[0]["check_name"]


def says_its_name(port: str, baud: int, name: str) -> bool:
    with serial.Serial(port, baud, timeout=HANGS_SECONDS) as line:
        line.write(b"name%")
        said = line.read_until(b"m-ready\r\n").decode("utf-8")
    return re.findall(r"m-name-dut-\[(.*)\]", said) == [name]


def finds_its_name(port: str, baud: int) -> str | None:
    """The name in whatever comes once it was asked for, as the runner looks before it takes a port; it asks once."""
    with serial.Serial(port, baud, timeout=1) as line:
        line.write(b"name%")
        said, deadline = "", time.monotonic() + HANGS_SECONDS
        while (more := line.read(1).decode("utf-8")) or (not said and time.monotonic() < deadline):
            said += more
    match = re.search(r"m-name-dut-\[(.*)\]", said)
    return match[1] if match else None


class Runner:
    """With an open port. Use as a context."""

    def __init__(self, port: str, baud: int) -> None:
        self._line = serial.Serial(port, baud, timeout=0.1)

    def __enter__(self) -> Runner:
        return self

    def __exit__(self, *_: object) -> None:
        self._line.close()

    def ask(self, command: str) -> list[str]:
        """The lines of the answer, `m-ready` and all."""
        self._line.write(command.encode())
        self._line.write(b"%")
        lines: list[str] = []
        while not lines or "m-ready" not in lines[-1]:
            line = self._next_line(command)
            assert any(re.fullmatch(pattern, line) for pattern in EXPECTED), f"{command!r} is answered by {line!r}"
            lines.append(line)
        assert lines[-1] == "m-ready"
        return lines

    def _next_line(self, command: str) -> str:
        deadline = time.monotonic() + HANGS_SECONDS
        text = ""
        while not text.endswith("\n"):
            assert time.monotonic() < deadline, f"no answer to {command!r} after {text!r}"
            text += self._line.read(1).decode("utf-8")
        return text.translate({0: None, 10: None, 13: None})

    def model(self, settled: bool = True) -> str:
        """settled: the board has started before; else what it says then is in front of the first answer."""
        lines = self.ask("name")
        assert re.search(r"^m-name-dut-\[[^]]+]$", "\n".join(lines[:1] if settled else lines), re.MULTILINE)
        profile, model, _ = self.ask("profile")
        assert profile.startswith("m-profile-[")
        return model.removeprefix("m-model-[").removesuffix("]")

    def run(self, tests: Path, datasets: Path, most: int) -> Iterator[Measured]:
        """The test of the board's model, with the first files of its dataset; of ad01 the first windows of each."""
        model = self.model()
        test: dict[str, Any] = yaml.safe_load(tests.read_text())[model]
        (loop,) = test["script"]
        ((_, steps),) = loop.items()
        assert steps[0] == "download"
        inferences, warmups = map(int, re.fullmatch(r"infer (\d+) (\d+)", steps[1]).groups())  # type: ignore[union-attr]
        with (datasets / test["model"] / test["truth_file"]).open() as file:
            rows = list(csv.DictReader(file, fieldnames=("file", "classes", "class", "bytes", "stride")))
        for row in rows[:most]:
            data = (datasets / test["model"] / row["file"]).read_bytes()
            for window in self._windows(data, row)[:2]:
                self.load(window)
                yield self.infer(inferences, warmups, row["file"], int(row["class"]))

    @staticmethod
    def _windows(data: bytes, row: dict[str, str]) -> list[bytes]:
        if row["bytes"] is None:
            return [data]
        size, stride = int(row["bytes"]), int(row["stride"])
        return [data[at : at + size] for at in range(0, len(data) - size + 1, stride)]

    def load(self, data: bytes) -> None:
        assert self.ask(f"db load {len(data)}")[:-1] == [f"m-[Expecting {len(data)} bytes]"]
        answer: list[str] = []
        for at in range(0, len(data), LOAD_BYTES):
            assert answer in ([], ["m-ready"])
            answer = self.ask(f"db {data[at : at + LOAD_BYTES].hex()}")
        assert answer == ["m-load-done", "m-ready"]

    def infer(self, inferences: int, warmups: int, file: str, true_class: int) -> Measured:
        lines = self.ask(f"infer {inferences} {warmups}")
        laps = [int(line.removeprefix("m-lap-us-")) for line in lines if line.startswith("m-lap-us-")]
        (results,) = [line for line in lines if line.startswith("m-results-[")]
        assert len(laps) == 2
        values = [float(text) for text in results.removeprefix("m-results-[").removesuffix("]").split(",")]
        return Measured(file, true_class, (laps[1] - laps[0]) / 1e6, values)
