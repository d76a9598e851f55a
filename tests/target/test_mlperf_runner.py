# SPDX-License-Identifier: Apache-2.0
"""The firmware of the published models under a host that does what MLPerf Tiny's own runner does, from `tinyc build` to
results: equal to those of TensorFlow Lite Micro."""

from __future__ import annotations

import json
import re
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest
import yaml
from mlperf_host import dense, wake, write_library
from mlperf_runner import Runner, baud_of, finds_its_name, says_its_name
from serial_board import Cable, board_at_port, started

from tests.frontend.sounds import sirens, voice
from tinyc.base.errors import TinycError
from tinyc.board import list_boards, load_board
from tinyc.board.parts import Uart
from tinyc.frontend import Declared, load_frontend
from tinyc.options.build import Options
from tinyc.pipeline.building import build
from tinyc.pipeline.progress import Progress
from tinyc.toolchain.compile import Sources, compile_library
from tinyc.toolchain.compilers import find_toolchain
from tinyc.toolchain.device import Dialogue, build_device
from tinyc.toolchain.runner_files import iterations, write_runner_files
from tinyc.toolchain.uart import at_baud

BOARD = "stm32f4-discovery"
SWW = Path(__file__).resolve().parents[2] / "examples" / "frontend" / "sww.toml"
ST_LINK = (0x0483, 0x374B)
MODELS = {"kws01": "kws_dev", "ad01": "ad_dev", "ic01": "ic_synthetic", "vww01": "vww_synthetic"}
SAMPLES = {"kws01": 8, "ad01": 3, "ic01": 3, "vww01": 2}


def quantization(model: Path, output: bool) -> tuple[float, int]:
    runtime = pytest.importorskip("tflite_micro.python.tflite_micro.runtime", reason="pip install tflite-micro")
    interpreter = runtime.Interpreter.from_file(str(model))
    details = interpreter.get_output_details(0) if output else interpreter.get_input_details(0)
    parameters = details["quantization_parameters"]
    return float(parameters["scales"][0]), int(parameters["zero_points"][0])


def write_dataset(folder: Path, task: str, x: np.ndarray, model: Path) -> None:
    """The files that the runner reads: pixels from 0 to 255 for images, real numbers for ad01, else the integers."""
    folder.mkdir(parents=True)
    scale, zero = quantization(model, output=False)
    rows = []
    for number, sample in enumerate(x):
        data = sample.astype(np.int8).tobytes()
        if task in ("ic01", "vww01"):
            data = bytes(byte ^ 0x80 for byte in data)
        if task == "ad01":
            data = (scale * (sample.astype(np.float64) - zero)).astype("<f4").tobytes()
        (folder / f"{number}.bin").write_bytes(data)
        window = f",{len(data)},{len(data) // 5}" if task == "ad01" else ""
        rows.append(f"{number}.bin,2,{number % 2}{window}")
    (folder / "y_labels.csv").write_text("\n".join(rows) + "\n")


def expected(task: str, x: np.ndarray, y: np.ndarray, model: Path) -> np.ndarray:
    scale, zero = quantization(model, output=True)
    real = scale * (y.astype(np.float64).reshape(len(y), -1) - zero)
    if task != "ad01":
        return real
    scale, zero = quantization(model, output=False)
    given = (scale * (x.astype(np.float64).reshape(len(x), -1) - zero)).astype(np.float32)
    return np.mean((real - given) ** 2, axis=1, keepdims=True)


@pytest.mark.parametrize(
    "task", ["kws01", *(pytest.param(task, marks=pytest.mark.slow) for task in ("ad01", "ic01", "vww01"))]
)
def test_the_runner_gets_the_results_of_tflm(tmp_path: Path, models_dir: Path, task: str) -> None:
    folder, stem = models_dir / "mlperf_tiny", MODELS[task]
    model = folder / f"{stem.split('_')[0]}_int8.tflite"
    x = np.load(folder / f"{stem.replace('_', '_inputs_', 1)}.npz")["x"][: SAMPLES[task]]
    y = np.load(folder / f"{stem}_ref_outputs.npz")["int8_tflm"][: SAMPLES[task]]
    write_dataset(tmp_path / "datasets" / task, task, x, model)
    options = Options(BOARD, samples=1, harness="mlperf", task=task)
    _, built = build(model, tmp_path / "built", options, Progress())
    device = built / "device"
    baud, name = baud_of(device / "runner" / "devices.yaml", ST_LINK, "accuracy")
    assert baud == (921_600 if task == "ad01" else 115_200)
    with board_at_port(load_board(BOARD), next(device.glob("*.elf"))) as port:
        wake(port)
        assert says_its_name(port, baud, name)
        with Runner(port, baud) as runner:
            results_read = list(runner.run(device / "runner" / "tests_accuracy.yaml", tmp_path / "datasets", len(x)))
            runner.load((tmp_path / "datasets" / task / "0.bin").read_bytes())
            again = runner.infer(3, 1, "0.bin", 0)
    assert len(results_read) == len(x)
    results = np.array([one.results for one in results_read])
    assert np.abs(results - expected(task, x, y, model)).max() < 0.0005
    assert again.results == results_read[0].results
    assert again.seconds > 0
    check_performance(device / "runner" / "tests_performance.yaml", task, built)


@pytest.mark.slow
def test_the_streaming_wakeword_frame_by_frame(tmp_path: Path, models_dir: Path) -> None:
    """The activations of a window that moves on by a frame each time: TensorFlow Lite Micro's."""
    runtime = pytest.importorskip("tflite_micro.python.tflite_micro.runtime", reason="pip install tflite-micro")
    model = models_dir / "mlperf_tiny" / "sww_int8.tflite"
    heard = np.load(models_dir / "mlperf_tiny" / "sww_dev_ref_outputs.npz")["int8_tflm"][:, 0]
    x = np.load(models_dir / "mlperf_tiny" / "sww_inputs_dev.npz")["x"][np.argsort(heard)[-2:]].astype(np.int8)
    frames = x.reshape(-1, 40)
    interpreter = runtime.Interpreter.from_file(str(model))
    window, reference = np.zeros_like(x[0]).reshape(-1, 40), []
    for frame in frames:
        window = np.concatenate([window[1:], frame[None]])
        interpreter.set_input(window.reshape(1, *x.shape[1:]), 0)
        interpreter.invoke()
        reference.append(int(interpreter.get_output(0).ravel()[0]))
    options = Options(BOARD, samples=1, harness="mlperf", task="sww01")
    _, built = build(model, tmp_path / "built", options, Progress())
    assert not (built / "device" / "runner").exists()  # its test needs what the firmware has not
    with board_at_port(load_board(BOARD), next((built / "device").glob("*.elf"))) as port:
        wake(port)
        assert says_its_name(port, 115_200, "tinyc")
        with Runner(port, 115_200) as runner:
            assert runner.model() == "sww01"
            runner.ask("start")
            for frame in frames:
                runner.load(frame.tobytes())
            match = re.search(r"target activations:\s*(\[.*?\])\s*m-ready", "".join(runner.ask("stop")))
    assert match is not None
    assert json.loads(match[1]) == reference
    assert len(set(reference)) > 3


@pytest.mark.slow
def test_the_streaming_wakeword_from_samples(tmp_path: Path, models_dir: Path) -> None:
    """16 kHz in, activations out, as the benchmark's runner reads them: TensorFlow Lite Micro's for the same features,
    of which each frame is computed once."""
    runtime = pytest.importorskip("tflite_micro.python.tflite_micro.runtime", reason="pip install tflite-micro")
    model, front = models_dir / "mlperf_tiny" / "sww_int8.tflite", load_frontend(str(SWW))
    assert isinstance(front, Declared)
    samples = np.concatenate([sirens(1.6), voice(0.4)])
    hops = samples[: len(samples) // 512 * 512].reshape(-1, 512)
    features = front.quantized(hops.ravel(), *quantization(model, output=False))
    interpreter = runtime.Interpreter.from_file(str(model))
    reference = [-128] * 30
    for last in range(30, len(features) + 1):
        interpreter.set_input(features[last - 30 : last].reshape(1, 30, 1, 40), 0)
        interpreter.invoke()
        reference.append(int(interpreter.get_output(0).ravel()[0]))
    options = Options(BOARD, samples=1, harness="mlperf", task="sww01", frontend=str(SWW), incremental=1)
    report, built = build(model, tmp_path / "built", options, Progress())
    assert report.passed
    with board_at_port(load_board(BOARD), next((built / "device").glob("*.elf"))) as port:
        wake(port)
        with Runner(port, 115_200) as runner:
            assert runner.model() == "sww01"
            runner.ask("start")
            for hop in hops:
                runner.load(hop.astype("<i2").tobytes())
            said = "".join(runner.ask("stop"))
    match = re.search(r"m-lap-us-(\d+)\s*target activations:\s*(\[.*?\])\s*m-ready", said)
    assert match is not None
    assert json.loads(match[2]) == reference
    assert len(set(reference)) > 8
    assert 0 < int(match[1]) < len(hops) * 32_000  # less than the sound lasts


@pytest.mark.parametrize("seconds", [0.0, 0.05, 0.2])
def test_a_board_that_is_just_starting_is_found(tmp_path: Path, seconds: float) -> None:
    """The runner asks for the name once, and what comes before the firmware listens is lost. The board says its name
    when it starts; and that is not taken for the answer to the next question."""
    board = load_board(BOARD)
    toolchain = find_toolchain(board)
    sources = Sources(write_library(tmp_path / "library", dense(40, 12), BOARD), "dense")
    library = compile_library(sources, toolchain, "balanced", tmp_path / "dense.o")
    build_device(sources, board, toolchain, library, tmp_path / "device", Dialogue("mlperf", "kws01"))
    with board_at_port(board, tmp_path / "device" / "dense.elf") as port:
        time.sleep(seconds)
        assert finds_its_name(port, 115_200) == "tinyc"
        with Runner(port, 115_200) as runner:
            assert runner.model(settled=False) == "kws01"
            assert runner.ask("timestamp")[0].startswith("m-lap-us-")


@pytest.mark.parametrize("lost", [False, True])
def test_a_host_that_asks_before_the_board_starts(tmp_path: Path, lost: bool) -> None:
    """What it asked comes late, or not at all: it finds the board, and is answered from then on."""
    board = load_board(BOARD)
    toolchain = find_toolchain(board)
    sources = Sources(write_library(tmp_path / "library", dense(40, 12), BOARD), "dense")
    library = compile_library(sources, toolchain, "balanced", tmp_path / "dense.o")
    build_device(sources, board, toolchain, library, tmp_path / "device", Dialogue("mlperf", "kws01"))
    with Cable() as cable, ThreadPoolExecutor(1) as pool:
        name = pool.submit(finds_its_name, cable.host, 115_200)
        time.sleep(0.5)
        cable.plug_in(lost)
        with started(board, tmp_path / "device" / "dense.elf", cable.board):
            assert name.result() == "tinyc"
            with Runner(cable.host, 115_200) as runner:
                assert runner.model(settled=False) == "kws01"
                assert runner.ask("timestamp")[0].startswith("m-lap-us-")


def check_performance(tests: Path, task: str, built: Path) -> None:
    """Five windows that take ten seconds together, and no silence of five."""
    report = yaml.safe_load((built / "report.json").read_text())
    seconds = (report["cycles"] or report["instructions"]) / load_board(BOARD).clock_hz
    ((loop, (download, infer)),) = yaml.safe_load(tests.read_text())[task]["script"][0].items()
    inferences, warmups = map(int, infer.split()[1:])
    assert (loop, download) == ("loop 5", "download")
    assert 5 * inferences * seconds > 10
    assert inferences * seconds < 4.5
    assert 0 < warmups * seconds < 4.5


# --- the files for the runner ---


@pytest.mark.parametrize("seconds", [1e-5, 0.003, 0.0101, 0.4, 1.6, 2.9])
def test_iterations(seconds: float) -> None:
    count = iterations(seconds)
    assert count.inferences * seconds * 5 >= 10
    assert max(count.inferences, count.warmups) * seconds < 5
    assert 1 <= count.warmups <= 10


def test_files_without_known_cycles(tmp_path: Path) -> None:
    write_runner_files(tmp_path, "my: board's", "kws01", 9600, None)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["devices.yaml", "tests_accuracy.yaml"]
    (device,) = yaml.safe_load((tmp_path / "devices.yaml").read_text())
    assert device["name"] == "my: board's"
    assert device["type"] == "dut"
    assert set(device["baud"].values()) == {9600}
    ids = [(vendor, product) for vendor, products in device["usb"].items() for product in products]
    assert len(ids) == len(set(ids)) > 20
    assert all(0 < vendor < 0x10000 and 0 < product < 0x10000 for vendor, product in ids)


# --- baud rates ---


def test_what_the_uarts_of_the_boards_can_do() -> None:
    fast = {board.name for board in list_boards() if board.uart and at_baud(board.uart, None, 921_600).baud == 921_600}
    slow = {board.name for board in list_boards() if board.uart} - fast
    assert {"stm32f4-discovery", "nucleo-l4r5zi", "nucleo-f746zg", "nrf52840-dk", "raspberry-pi-pico"} <= fast
    assert slow == {
        "riscv32imc", "riscv32imc-psram", "riscv32-zve32x", "hazard3",  # 3.6864 MHz / 16
        "arduino-uno-r4-minima", "arduino-uno-r4-wifi",  # 48 MHz / 8 / 7
        "ek-ra8d1",  # 20 MHz / 8 / 3
    }  # fmt: skip
    for board in list_boards():
        if board.uart is not None:
            assert at_baud(board.uart, 115_200, None).baud == 115_200
            assert at_baud(board.uart, None, None) == board.uart


@pytest.mark.parametrize(
    ("kind", "clock_hz", "baud"),
    [
        ("ns16550", 3_686_400, 921_600),
        ("stm32f4", 42_000_000, 3_000_000),
        ("stm32l4", 16_000_000, 1_500_000),
        ("stm32-lpuart", 120_000_000, 9_600),  # its divisor has 20 bits
        ("nrf", 64_000_000, 2_000_000),
        ("nrf-uarte", 64_000_000, 2_000_000),
        ("nrf54-uarte", 16_000_000, 2_000_000),
        ("ra-sci", 48_000_000, 921_600),
        ("ra-sci", 48_000_000, 9_600),  # its divisor has 8 bits
        ("sam-sercom", 48_000_000, 4_000_000),
        ("imxrt-lpuart", 24_000_000, 4_000_000),
        ("cmsdk", 25_000_000, 1_700_000),
        ("pl011", 1_843_200, 921_600),
    ],
)
def test_baud_rates_that_cannot_be_made(kind: str, clock_hz: int, baud: int) -> None:
    with pytest.raises(TinycError, match=f"cannot make {baud} baud"):
        at_baud(Uart(kind, 0x4000_0000, clock_hz), baud, None)
    assert at_baud(Uart(kind, 0x4000_0000, clock_hz), None, baud).baud == 115_200
