# SPDX-License-Identifier: Apache-2.0
"""What MLPerf Tiny's own runner (mlcommons/tiny, benchmark/runner) wants to be told of a board: devices.yaml, by which
it finds the board's port, and the tests that it runs."""

from __future__ import annotations

import json
import math
from pathlib import Path

from tinyc.base.dataclass import dataclass

# It knows boards by the USB ids of their serial ports. Those of the debug probes and adapters that boards come with; it
# asks what is there for its name, so there may be more than one.
USB_SERIAL: dict[str, tuple[int, tuple[int, ...]]] = {
    "ST-LINK": (0x0483, (0x374B, 0x374E, 0x374F, 0x3752, 0x3753, 0x3754)),
    "J-Link": (0x1366, (0x0105, 0x1015, 0x1024, 0x1051, 0x1055, 0x1061)),
    "DAPLink": (0x0D28, (0x0204,)),
    "Raspberry Pi Debug Probe": (0x2E8A, (0x0004, 0x000C)),
    "FTDI": (0x0403, (0x6001, 0x6010, 0x6011, 0x6014, 0x6015)),
    "CP210x": (0x10C4, (0xEA60, 0xEA70)),
    "CH340": (0x1A86, (0x5523, 0x55D4, 0x7523)),
    "PL2303": (0x067B, (0x2303, 0x23A3)),
    "MCP2221": (0x04D8, (0x00DD,)),
}
NAME = "tinyc"  # what the firmware answers to `name%`
WINDOWS = 5  # timed windows of a performance run, not one more or less
WINDOW_SECONDS = 3.0  # all windows must take 10 s; one line of an answer must not take 5 s
WARMUP_SECONDS = 1.0
MOST_WARMUPS = 10


@dataclass(frozen=True, slots=True)
class Iterations:
    """Of one timed window."""

    inferences: int
    warmups: int


def iterations(seconds: float) -> Iterations:
    """For inferences that take so long each."""
    inferences = max(1, round(WINDOW_SECONDS / seconds))
    return Iterations(inferences, max(1, min(MOST_WARMUPS, math.floor(WARMUP_SECONDS / seconds))))


def write_runner_files(folder: Path, board: str, task: str, baud: int, seconds: float | None) -> None:
    """devices.yaml, tests_accuracy.yaml and, where the seconds of an inference are known, tests_performance.yaml."""
    folder.mkdir(parents=True, exist_ok=True)
    _write(folder / "devices.yaml", _devices(board, baud))
    _write(folder / "tests_accuracy.yaml", _tests(task, "loop", Iterations(1, 0)))
    if seconds:
        _write(folder / "tests_performance.yaml", _tests(task, f"loop {WINDOWS}", iterations(seconds)))


def _write(path: Path, lines: list[str]) -> None:
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")


def _devices(board: str, baud: int) -> list[str]:
    lines = [
        "# USB ids of the serial ports that boards come with, or are connected by; the board is the one that says its",
        "# name. Another port? `tinyc flash --ports` lists the ids of those that are there.",
        f"- name: {json.dumps(board)}",
        "  type: dut",
        f"  check_name: {NAME}",
        "  baud:",
        *(f"    {mode}: {baud}" for mode in ("accuracy", "performance", "energy")),
        "  usb:",
    ]
    for kind, (vendor, products) in USB_SERIAL.items():
        ids = ", ".join(f"0x{product:04X}" for product in products)
        lines.append(f"    0x{vendor:04X}: [{ids}]  # {kind}")
    return lines


def _tests(task: str, loop: str, count: Iterations) -> list[str]:
    return [
        f"{task}:",
        f"  name: {task}",
        f"  model: {task}",
        "  truth_file: y_labels.csv",
        "  script:",
        f"    - {loop}:",
        "      - download",
        f"      - infer {count.inferences} {count.warmups}",
    ]
