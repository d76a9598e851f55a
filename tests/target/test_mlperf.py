# SPDX-License-Identifier: Apache-2.0
"""The MLPerf Tiny firmware: on QEMU over its UART, and its parser as a process of this computer with sanitizers."""

from __future__ import annotations

import json
import os
import random
import re
import select
import subprocess
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from mlperf_host import INPUT, OUTPUT, Host, dense, reference, wake, write_library
from mlperf_runner import Runner, says_its_name
from serial_board import board_at_port

from tests.frontend.pushing import expected, window_model
from tests.frontend.sounds import voice
from tinyc.base.errors import TinycError
from tinyc.base.serial_line import SerialPort
from tinyc.board import load_board
from tinyc.frontend import load_frontend
from tinyc.ir.graph import Graph, Quant
from tinyc.load import load_model
from tinyc.options.build import Options
from tinyc.passes import normalize
from tinyc.pipeline.compiling import compile_model
from tinyc.pipeline.progress import Progress
from tinyc.run.host import fixed_addresses
from tinyc.toolchain.compile import Checks, Harness, Sources, compile_library, link_firmware
from tinyc.toolchain.compilers import find_toolchain
from tinyc.toolchain.device import Dialogue, build_device, write_mlperf_glue

GRAPH = dense(70, 5)
SQUARE = dense(9, 9)
X = random.Random(7).randbytes(70)
FRONT = 'kind = "logmel"\nwindow_ms = 10\nstep_ms = 10\n[mel]\nbands = 12\n[log]\nkind = "log10"\nfloor = 1e-9\n'
HEARD = Quant((0.07,), (30,))


def device(folder: Path, board_name: str, task: str | None, graph=GRAPH, compiler: str = "gcc") -> Path:
    """The ELF file."""
    board = load_board(board_name)
    try:
        toolchain = find_toolchain(board, compiler)
    except TinycError as error:
        pytest.skip(error.message)
    library_dir = write_library(folder / "library", graph, board_name)
    sources = Sources(library_dir, "dense")
    library = compile_library(sources, toolchain, "balanced", folder / "dense.o")
    build_device(sources, board, toolchain, library, folder / "device", Dialogue("mlperf", task))
    return folder / "device" / "dense.elf"


def host_over(line: SerialPort) -> Host:
    return Host(line.write, lambda: line.read(4096, 20))


# --- on an emulated board ---


@pytest.mark.parametrize(
    "board_name",
    [
        "stm32f4-discovery",
        "riscv32imc",
        *(pytest.param(n, marks=pytest.mark.slow) for n in ("cortex-m4", "cortex-m0plus")),
    ],
)
def test_a_benchmark_run(tmp_path: Path, board_name: str) -> None:
    elf = device(tmp_path, board_name, "kws01")
    with board_at_port(load_board(board_name), elf) as port:
        wake(port)
        with SerialPort(port, 115_200) as line:
            drive(host_over(line))
        assert says_its_name(port, 115_200, "tinyc")
        with Runner(port, 115_200) as runner:
            assert runner.model() == "kws01"
            other = bytes(reversed(X))
            runner.load(other)
            assert runner.infer(1, 0, "", 0).results == reference(GRAPH, other)


def drive(host: Host) -> None:
    assert host.ask("name") == ["m-name-dut-[tinyc]"]
    assert host.ask("profile") == ["m-profile-[ULPMark for tinyML Firmware V0.0.1]", "m-model-[kws01]"]
    host.load(X)
    (first,) = host.ask("timestamp")
    elapsed, results = host.infer(3, 2)
    (last,) = host.ask("timestamp")
    assert results == reference(GRAPH, X)
    assert host.ask("results") == ["m-results-[" + ",".join(f"{r:.6f}" for r in results) + "]"]
    times = [int(text.removeprefix("m-lap-us-")) for text in (first, last)]
    assert 0 < elapsed <= times[1] - times[0]


# --- as a process of this computer ---


PROGRAMS: dict[Path, Path] = {}


def host_program(folder: Path, task: str | None, graph: Graph = GRAPH) -> Path:
    """Made once for each folder."""
    if folder not in PROGRAMS:
        PROGRAMS[folder] = _host_program(folder, task, graph)
    return PROGRAMS[folder]


def _host_program(folder: Path, task: str | None, graph: Graph) -> Path:
    return program_of(Sources(write_library(folder / "library", graph, "host"), "dense"), folder, task)


def program_of(sources: Sources, folder: Path, task: str | None) -> Path:
    """The firmware for a library of the host, with sanitizers."""
    board = load_board("host")
    toolchain = find_toolchain(board)
    library = compile_library(sources, toolchain, "balanced", folder / "library.o", Checks(sanitize=True))
    write_mlperf_glue(sources, folder, task)
    harness = Harness(("mlperf.c", "text.c", "port_host.c"), {"TC_SANITIZE": "1"}, sanitize=True)
    elf, _ = link_firmware(sources, board, toolchain, library, folder, harness)
    return elf


class Process:
    """The firmware as a process; `host` talks to it."""

    def __init__(self, program: Path) -> None:
        self._process = subprocess.Popen(
            [*fixed_addresses(), str(program)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            env={**os.environ, "ASAN_OPTIONS": "detect_leaks=0"},
        )
        assert self._process.stdout is not None
        stream = self._process.stdout
        self.host = Host(self._write, lambda: self._read(stream.fileno()))
        assert self.host.greeting() == ["m-init-done", "m-name-dut-[tinyc]"]

    @staticmethod
    def _read(descriptor: int) -> bytes:
        ready, _, _ = select.select([descriptor], [], [], 20)
        return os.read(descriptor, 4096) if ready else b""

    def _write(self, data: bytes) -> None:
        assert self._process.stdin is not None
        self._process.stdin.write(data)
        self._process.stdin.flush()

    def end(self) -> int:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.close()
        status = self._process.wait(30)
        self._process.stdout.close()
        return status


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("mlperf")


@pytest.fixture
def host(folder: Path) -> Iterator[Host]:
    process = Process(host_program(folder / "raw", None))
    yield process.host
    assert process.end() == 0


def test_raw_input(host: Host) -> None:
    assert host.ask("profile")[1] == "m-model-[dense]"
    host.load(X)
    assert host.infer(1, 0)[1] == reference(GRAPH, X)


def test_pixels_become_signed(folder: Path) -> None:
    process = Process(host_program(folder / "ic", "ic01"))
    process.host.load(X)
    assert process.host.infer(1, 0)[1] == reference(GRAPH, bytes(b ^ 0x80 for b in X))
    assert process.end() == 0


def test_real_numbers_in_and_mean_square_out(folder: Path) -> None:
    process = Process(host_program(folder / "ad", "ad01", SQUARE))
    real = np.array([-80.0, -3.25, -0.25, 0.0, 0.25, 1.0, 7.3, 70.0, 1e9], np.float32)
    process.host.load(real.astype("<f4").tobytes())
    away = np.where(real < 0, np.float32(-0.5), np.float32(0.5))
    limits = (-128 - INPUT.zero[0], 127 - INPUT.zero[0])
    clipped = np.clip(real / np.float32(INPUT.scale[0]), *map(np.float32, limits))
    q = ((clipped + away).astype(np.int32) + INPUT.zero[0]).astype(np.int8)
    small = np.append(real[:-1], np.float32(0))  # an input whose square has no place in the answer
    assert q[-1] == 127
    process.host.load(small.astype("<f4").tobytes())
    q[-1] = INPUT.zero[0]
    outputs = np.array(reference(SQUARE, q.tobytes()), np.float32)
    (result,) = process.host.infer(1, 1)[1]
    assert result == pytest.approx(float(np.mean((outputs - small) ** 2)), rel=1e-6, abs=0.000002)
    assert OUTPUT.scale[0] > 0
    assert process.end() == 0


def test_results_are_exact_to_the_millionth(folder: Path) -> None:
    """Softmax outputs are 256ths, some of which lie between two thousandths."""
    process = Process(host_program(folder / "raw", None))
    for number in range(20):
        process.host.load(random.Random(number).randbytes(70))
        lines = process.host.ask("infer 1 0")
        (results,) = [line for line in lines if line.startswith("m-results-[")]
        assert all(re.fullmatch(r"-?\d+\.\d{6}", text) for text in results[11:-1].split(","))
    assert process.end() == 0


# --- the streaming wakeword, with features over the line ---

LISTENS = dense(120, 3)  # three frames of 40


def test_frames_move_the_window_on(folder: Path) -> None:
    process = Process(host_program(folder / "sww", "sww01", LISTENS))
    host = process.host
    assert host.ask("profile")[1] == "m-model-[sww01]"
    assert host.ask("stop") == ["e-[Not started]", "m-lap-us-0", "target activations:", "[]"]
    window = bytes(120)
    for _ in range(2):  # the second time as the first: `start` forgets
        assert host.ask("start") == ["m-detecting"]
        window, expected = bytes(120), []
        for number in range(5):
            frame = random.Random(number).randbytes(40)
            window = window[40:] + frame
            host.load(frame)
            outputs = reference(LISTENS, window)
            expected.append(round(outputs[0] / OUTPUT.scale[0]) + OUTPUT.zero[0])
            assert host.ask("results")[0].startswith(f"m-results-[{outputs[0]:.6f}")
        busy, header, listed = host.ask("stop")
        assert int(busy.removeprefix("m-lap-us-")) >= 0
        # What the runner looks for: the lines joined, a list in brackets between this header and m-ready.
        match = re.search(r"target activations:\s*(\[.*?\])\s*m-ready", header + listed + "m-ready")
        assert match is not None
        assert json.loads(match[1]) == expected
    host.load(window)  # a whole window, as for every other task
    assert host.infer(1, 0)[1] == reference(LISTENS, window)
    assert process.end() == 0


def test_a_frame_in_two_pieces(folder: Path) -> None:
    process = Process(host_program(folder / "sww", "sww01", LISTENS))
    process.host.ask("start")
    for _ in range(3):
        process.host.ask("db load 40")
        assert process.host.ask(f"db {bytes(36).hex()}") == []
        assert process.host.ask(f"db {bytes(4).hex()}") == ["m-load-done"]
    assert process.host.ask("stop")[2].count(",") == 2
    assert process.end() == 0


# --- the streaming wakeword, with audio over the line ---


@pytest.fixture(scope="module")
def hearing(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path, Path]:
    """(program, model, settings): a model of three frames behind a front end that takes 160 samples at a time."""
    folder = tmp_path_factory.mktemp("hearing")
    settings_file = folder / "front.toml"
    settings_file.write_text(FRONT)
    model = window_model(folder / "unit.tflite", 3, HEARD, 12)
    options = Options("host", name="unit", frontend=str(settings_file))
    library = folder / "library"
    library.mkdir()
    for file, text in compile_model(model, load_board("host"), options, Progress()).files.items():
        (library / file).write_text(text)
    return program_of(Sources(library, "unit"), folder, "sww01"), model, settings_file


def test_samples_become_activations(hearing: tuple[Path, Path, Path]) -> None:
    program, model, settings_file = hearing
    front = load_frontend(str(settings_file))
    samples = voice(0.2)[: 15 * 160]
    expected_activations = [int(run.ravel()[0]) for run in expected(normalize(load_model(model)), front, samples)]
    assert len(set(expected_activations)) > 5
    process = Process(program)
    for _ in range(2):  # `start` forgets
        assert process.host.ask("start") == ["m-detecting"]
        for hop in samples.reshape(-1, 160):
            process.host.load(hop.astype("<i2").tobytes())
        activations = json.loads(process.host.ask("stop")[2])
        assert activations == [-128] * (15 - len(expected_activations)) + expected_activations
    assert process.host.ask("db load 321") == ["e-[The input has 320 bytes]"]
    assert process.end() == 0


@pytest.mark.parametrize("task", ["kws01", "ad01"])
def test_samples_are_for_the_wakeword(hearing: tuple[Path, Path, Path], task: str, tmp_path: Path) -> None:
    sources = Sources(hearing[0].parent / "library", "unit")
    with pytest.raises(TinycError, match=f"the task {task} gives the model its input, not samples"):
        write_mlperf_glue(sources, tmp_path, task)


@pytest.mark.parametrize("board", ["cortex-m4", "cortex-m0plus", "riscv32imc"])
def test_frames_on_a_board(tmp_path: Path, board: str) -> None:
    assert device(tmp_path, board, "sww01", LISTENS).is_file()


@pytest.mark.parametrize("inputs", [40, 70])
def test_frames_that_do_not_fit(tmp_path: Path, inputs: int) -> None:
    with pytest.raises(TinycError, match=f"several frames of 40, not of {inputs}"):
        device(tmp_path, "cortex-m4", "sww01", dense(inputs, 3))


@pytest.mark.parametrize(
    ("command", "answer"),
    [
        ("start", "e-[Unknown command: start]"),
        ("", "e-[Empty command]"),
        ("   ", "e-[Empty command]"),
        ("frobnicate", "e-[Unknown command: frobnicate]"),
        ("Name", "e-[Unknown command: Name]"),
        ("db", "e-[Command 'db' requires a subcommand]"),
        ("db load", "e-[Command 'db load' requires the # of bytes]"),
        ("db load 0", "e-[Command 'db load' must be >0 bytes]"),
        ("db load -1", "e-[Command 'db load' must be >0 bytes]"),
        ("db load 7x", "e-[Command 'db load' must be >0 bytes]"),
        ("db load 99999999999999999999", "e-[Command 'db load' must be >0 bytes]"),
        ("db load 71", "e-[The input has 70 bytes]"),
        ("db 00", "e-[Use 'db load' first]"),
        ("db 0", "e-[Insufficient number of hex digits]"),
        ("db 0g", "e-[Invalid hex digit]"),
        ("infer 0", "e-[Inference iterations must be >0]"),
        ("infer x", "e-[Inference iterations must be >0]"),
        ("infer 1 -1", "e-[Inference warmup must be >=0]"),
        ("infer 1 0", "e-[Load all 70 bytes of the input first]"),
        ("results", "e-[Infer first]"),
        ("db print x", "e-[Command 'db print' takes the # of bytes and an offset]"),
        ("x" * 81, "e-[Command too long]"),
        ("db " + "00" * 200, "e-[Command too long]"),
    ],
)
def test_wrong_commands_are_answered(host: Host, command: str, answer: str) -> None:
    assert host.ask(command) == [answer]
    assert host.ask("name") == ["m-name-dut-[tinyc]"]


def test_short_data_is_refused_until_it_is_all_there(host: Host) -> None:
    host.ask("db load 70")
    assert host.ask(f"db {X[:31].hex()}") == []
    assert host.ask("infer 1 0") == ["e-[Load all 70 bytes of the input first]"]
    assert host.ask(f"db {X[31:62].hex().upper()}") == []
    assert host.ask(f"db {X[62:].hex()}ffff") == ["m-load-done"]  # what is too much is left out
    assert host.ask("db ff") == ["e-[Use 'db load' first]"]
    assert host.infer(2, 0)[1] == reference(GRAPH, X)
    host.ask("db load 10")
    assert host.ask(f"db {X[:10].hex()}") == ["m-load-done"]
    assert host.ask("infer 1 0") == ["e-[Load all 70 bytes of the input first]"]


def test_a_wrong_digit_changes_nothing(host: Host) -> None:
    host.ask("db load 70")
    host.ask("db 0102")
    assert host.ask("db 03zz") == ["e-[Invalid hex digit]"]
    assert host.ask("db print 4") == ["m-buffer-01-02-00-00"]


def test_print(host: Host) -> None:
    host.load(X)
    lines = host.ask("db print")
    shown = "".join(line.removeprefix("m-buffer-").replace("-", "") for line in lines)
    assert bytes.fromhex(shown) == X
    assert host.ask("db print 3 9") == [f"m-buffer-{X[9:12].hex('-')}"]
    assert host.ask("db print 100 69") == [f"m-buffer-{X[69:].hex()}"]
    assert host.ask("db print 1 70") == []


def test_line_ends_and_spaces_do_no_harm(host: Host) -> None:
    assert host.ask("\r\n  name  ") == ["m-name-dut-[tinyc]"]
    assert host.ask("help")[0] == "ULPMark for tinyML Firmware V0.0.1"


WORDS = [
    "name",
    "profile",
    "timestamp",
    "help",
    "db",
    "load",
    "print",
    "infer",
    "results",
    "70",
    "0",
    "1",
    "-1",
    "aa",
    "g",
]
COMMANDS = st.lists(st.sampled_from(WORDS) | st.text(st.characters(codec="ascii", exclude_characters="%"), max_size=90))


@settings(max_examples=25, deadline=None)
@given(st.lists(COMMANDS.map(" ".join), max_size=20))
def test_every_command_is_answered(folder: Path, commands: list[str]) -> None:
    process = Process(host_program(folder / "raw", None))
    for command in commands:
        process.host.ask(command)
    assert process.end() == 0


# --- what cannot be built ---


def test_wrong_task(tmp_path: Path) -> None:
    with pytest.raises(TinycError, match="no task 'abc'"):
        device(tmp_path, "cortex-m4", "abc")


def test_mean_square_needs_equal_sizes(tmp_path: Path) -> None:
    with pytest.raises(TinycError, match="the same size"):
        device(tmp_path, "cortex-m4", "ad01")


def test_board_without_uart(tmp_path: Path) -> None:
    with pytest.raises(TinycError, match="no firmware with a UART for coral-npu"):
        device(tmp_path, "coral-npu", None)
