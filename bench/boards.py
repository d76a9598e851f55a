# SPDX-License-Identifier: Apache-2.0
"""Write the tables of docs/boards.md: how each board is proved and flashed, what six networks take there, and what
others measured.

    python bench/boards.py [BOARD]... [--models FOLDER]
    python bench/boards.py all

The first table is of all boards, from their files. The second has modelled milliseconds, as `tinyc estimate` says them;
rows of boards that are not named stay as they are, and a board that has none is an error. The third has the runs of
boards that were published beside the rows of the second, and the last what a cold cache of an ESP32 costs. FOLDER has
`mlperf_tiny/kws_int8.tflite`, ..., `zoo/person_detect_int8.tflite`.
"""

from __future__ import annotations

import argparse
import os
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from tables import FILES, ROOT, as_table, write_section

import tinyc
from tinyc.board import Board, list_boards, load_board
from tinyc.explain.estimate import Estimate

PAGE = ROOT / "docs" / "boards.md"
MODELS = ("kws", "vww", "ic", "ad", "sww", "person")
SPOKEN = {"stm32": "STM32 ROM", "samba": "SAM-BA", "uf2": "UF2", "drive": "drive"}
PROOF, TIMES, RUNS, COLD = "proof and flashing", "modelled times", "published runs", "cold caches"
TIMES_HEAD = ("board", *MODELS, "flash left", "RAM left")
SCRIPT = "bench/boards.py"


@dataclass(frozen=True)
class PublishedRun:
    """Milliseconds of networks on silicon. board: of tinyc with the same chip and clock, empty where there is none."""

    board: str
    machine: str
    software: str
    milliseconds: Mapping[str, float]
    source: str


NO_SOURCE = "quoted to us without its publication, and not verified"
LOGS = "logs of MLPerf's runner: github.com/SamsiGg/1.-Studienarbeit---KI-auf-ESP32, 9ae142b, DataVisualizer/Data"
PUBLISHED = (
    PublishedRun(
        "arduino-nano-33-ble",
        "Arduino Nano 33 BLE, 64 MHz",
        "TFLite Micro",
        {"kws": 224.6, "person": 657, "ic": 1242, "ad": 22.0},
        NO_SOURCE,
    ),
    PublishedRun(
        "arduino-nano-33-ble",
        "Arduino Nano 33 BLE, 64 MHz",
        "TFLite Micro",
        {"person": 653.0},
        "github.com/guberti/tvm-arduino-profiling, 60c189c",
    ),
    PublishedRun(
        "arduino-portenta-h7",
        "Arduino Giga R1, STM32H747, 480 MHz",
        "TFLite Micro",
        {"kws": 1000 / 61.008, "ic": 1000 / 9.636},
        LOGS,
    ),
    PublishedRun(
        "nucleo-u575zi-q",
        "NUCLEO-U575ZI-Q, 160 MHz",
        "X-CUBE-AI 10.2",
        {"kws": 29.0, "vww": 59.3, "ic": 109, "ad": 3.2, "sww": 11.7},
        "MLPerf Tiny v1.3, as quoted by github.com/gnotu/pico2-benchmark",
    ),
    PublishedRun(
        "raspberry-pi-pico2",
        "Waveshare RP2350-Plus, 150 MHz",
        "pico-tflmicro",
        {"kws": 60.4, "vww": 1375, "ic": 1710, "ad": 59.0, "sww": 192},
        "github.com/gnotu/pico2-benchmark, raspberrypi/pico-tflmicro#23",
    ),
    PublishedRun(
        "teensy-4.1",
        "Teensy 4.0, the same i.MX RT1062, 600 MHz",
        "TFLite Micro",
        {"kws": 1000 / 100.332, "vww": 1000 / 29.614, "ic": 1000 / 23.594},
        LOGS,
    ),
    PublishedRun(
        "", "ESP32, Xtensa, 240 MHz", "TFLite Micro", {"kws": 162, "person": 474, "ic": 724, "ad": 49}, NO_SOURCE
    ),
)


@dataclass(frozen=True)
class FlashCache:
    """Cycles of the core for a line that is not in it, by what reads the flash."""

    line_bytes: int
    cycles: Mapping[str, int]


# Command 8 clocks; on two lines address 12, mode 4 and data 128, on four 6, 2, 4 that nothing uses, and 64; at 80 MHz.
ESP32_CACHE = FlashCache(32, {"DIO": 2 * (8 + 12 + 4 + 128), "QIO": 2 * (8 + 6 + 2 + 4 + 64)})
CACHED = {"esp32-c3": ESP32_CACHE, "esp32-c6": ESP32_CACHE}


def main() -> int:
    parser = argparse.ArgumentParser(description="Write the tables of docs/boards.md")
    parser.add_argument("boards", nargs="*", metavar="BOARD")
    default = Path(os.environ.get("TINYC_MODELS", ROOT / ".." / "shared" / "models"))
    parser.add_argument("--models", type=Path, default=default)
    args = parser.parse_args()
    names = [board.name for board in list_boards() if not board.is_host]
    write_section(PAGE, PROOF, proof_table(list_boards()), SCRIPT)
    costs = {}
    for name in names if args.boards == ["all"] else args.boards:
        costs[name] = [tinyc.estimate(model_file(args.models, model), name) for model in MODELS]
        write_times({name: times_row(load_board(name), estimates) for name, estimates in costs.items()})
    if missing := set(names) - set(times_rows()):
        raise SystemExit(f"no modelled times of {', '.join(sorted(missing))}: python bench/boards.py all")
    write_section(PAGE, RUNS, runs_table(times_rows()), SCRIPT)
    if set(CACHED) <= set(costs):
        write_section(PAGE, COLD, cold_table({name: costs[name] for name in CACHED}), SCRIPT)
    return 0


def model_file(folder: Path, model: str) -> Path:
    return (
        folder / "zoo" / f"{FILES[model]}.tflite" if model in FILES else folder / "mlperf_tiny" / f"{model}_int8.tflite"
    )


def proof_table(boards: Sequence[Board]) -> str:
    """As text."""
    rows = [proof_row(board) for board in boards if not board.is_host]
    head = ("board", "core, clock", "flash", "its waits", "RAM", "proved in emulation", "flashed by", "console")
    return as_table(head, rows)


def proof_row(board: Board) -> tuple[str, ...]:
    memory = board.memory
    assert memory is not None
    timing = board.flash_timing
    machines = [f"QEMU {board.qemu.machine}"] if board.qemu else []
    machines += [f"unicorn {board.unicorn.cpu}"] if board.unicorn else []
    methods = board.flashing.methods if board.flashing is not None else ()
    clock = f", {board.clock_hz / 1e6:g} MHz" if board.clock_hz else ""
    return (
        board.name,
        f"{board.core}{clock}",
        _kib(memory.flash_bytes),
        f"{timing.wait_states} for {timing.word_bytes} B" if timing is not None else "-",
        _kib(memory.ram_bytes),
        ", ".join(machines),
        ", ".join(SPOKEN.get(method, method) for method in methods) or "-",
        f"UART ({board.uart.kind})" if board.uart is not None else "-",
    )


def _kib(size: int) -> str:
    return f"{size >> 20} MiB" if size % (1 << 20) == 0 else f"{size / 1024:,.0f} KiB"


def times_row(board: Board, costs: Sequence[Estimate]) -> tuple[str, ...]:
    """What the models take, and what is left beside the largest of them that fits; the board's stack is not left."""
    memory = board.memory
    assert memory is not None
    fitting = [cost for cost in costs if cost.fits]
    flash = min((memory.flash_bytes - (cost.flash_bytes or 0) for cost in fitting), default=0)
    ram = min((memory.ram_bytes - memory.stack_bytes - cost.arena_bytes for cost in fitting), default=0)
    return board.name, *map(_time, costs), f"{flash // 1024:,} KiB", f"{ram // 1024:,} KiB"


def _time(cost: Estimate) -> str:
    if not cost.fits:
        return "too large"
    if cost.milliseconds is None:
        return f"({cost.instructions / 1e6:.2f} M)"
    return f"{cost.milliseconds:.1f}" if cost.milliseconds < 100 else f"{cost.milliseconds:.0f}"


def times_rows() -> dict[str, tuple[str, ...]]:
    """Those of the page, by board."""
    page = PAGE.read_text(encoding="utf-8")
    section = re.search(rf"<!-- {TIMES}: .*?-->(.*?)<!-- end of {TIMES} -->", page, re.DOTALL)
    rows = dict[str, tuple[str, ...]]()
    for line in section[1].splitlines() if section else ():
        cells = tuple(cell.strip() for cell in line.strip().strip("|").split("|"))
        if len(cells) == len(TIMES_HEAD) and cells[0] != "board" and not set(cells[0]) <= {"-", ":"}:
            rows[cells[0]] = cells
    return rows


def write_times(rows: Mapping[str, tuple[str, ...]]) -> None:
    """Into the page, beside the rows that are there."""
    every = {**times_rows(), **rows}
    write_section(PAGE, TIMES, as_table(TIMES_HEAD, [every[name] for name in sorted(every)]), SCRIPT)


def runs_table(times: Mapping[str, tuple[str, ...]]) -> str:
    """What was published, a row for each network, beside what the page models for the same chip; sources below."""
    sources = list(dict.fromkeys(run.source for run in PUBLISHED))
    rows = []
    for run in PUBLISHED:
        modelled = dict(zip(TIMES_HEAD, times[run.board], strict=True)) if run.board else {}
        proved = proof_row(load_board(run.board))[5] if run.board else "-"
        for model, milliseconds in run.milliseconds.items():
            measured = f"{milliseconds:,.1f}".removesuffix(".0")
            by = f"{run.software}, {run.machine} [{sources.index(run.source) + 1}]"
            rows.append((run.board or "none", model, proved, modelled.get(model, "-"), measured, by))
    head = ("board of tinyc", "network", "proved in emulation", "modelled: tinyc, ms", "measured on silicon, ms", "by")
    notes = "\n".join(f"* [{number}] {source}" for number, source in enumerate(sources, 1))
    return f"{as_table(head, rows)}\n\n{notes}"


def cold_table(costs: Mapping[str, Sequence[Estimate]]) -> str:
    """Milliseconds of fetching every line of a library's code and constants from flash once."""
    rows = []
    for name, estimates in costs.items():
        clock_hz, cache = load_board(name).clock_hz, CACHED[name]
        for reading, cycles in cache.cycles.items():
            lines = [-(-(cost.flash_bytes or 0) // cache.line_bytes) for cost in estimates]
            times = (f"{1e3 * cycles * count / clock_hz:.1f}" for count in lines)
            rows.append((name, reading, f"{cycles}", *times))
    return as_table(("board", "flash read by", "cycles of a line", *MODELS), rows)


if __name__ == "__main__":
    raise SystemExit(main())
