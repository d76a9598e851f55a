# SPDX-License-Identifier: Apache-2.0
"""The published int8 models, from file to bytes on the board: equal to TensorFlow Lite Micro's own outputs."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from pathlib import Path

import numpy as np
import pytest

from tinyc.base.errors import TinycError
from tinyc.board import load_board
from tinyc.options.build import Options, Prefer
from tinyc.options.recipe import Recipe
from tinyc.pipeline.building import build
from tinyc.pipeline.compiling import compile_model
from tinyc.pipeline.progress import Progress
from tinyc.run import find_target
from tinyc.toolchain.compile import Checks, Firmware, Sources, compile_firmware
from tinyc.toolchain.compilers import find_toolchain

INPUTS = {"kws": "kws_dev", "vww": "vww_synthetic", "ic": "ic_synthetic", "ad": "ad_dev", "sww": "sww_dev"}
MODELS = [f"{name}_int8.tflite" for name in INPUTS]
LONG = "sww_int8.tflite"  # of a long sequence of inputs
LARGE = "ic_int8.tflite"  # takes as long as the others together
ON_HOST = Options("host", toolchain="clang")
CORES = ["cortex-m0plus", "cortex-m3", "cortex-m7", "cortex-m33", "cortex-m55", "riscv32imc"]
# Every model and every core, convolutions on each, but not the largest one where code is also put in order.
QUICK = {
    ("kws", "cortex-m0plus"),
    ("ic", "cortex-m3"),
    ("ad", "cortex-m3"),
    ("kws", "cortex-m7"),
    ("kws", "cortex-m33"),
    ("vww", "cortex-m55"),
    ("sww", "riscv32imc"),
}


Make = Callable[[str, Options, bool], Firmware]


@pytest.fixture(scope="session")
def firmware(tmp_path_factory: pytest.TempPathFactory, models_dir: Path) -> Make:
    """firmware(file, options, sanitize) of a model; skips without the compiler."""

    @cache
    def make(file: str, options: Options, sanitize: bool) -> Firmware:
        folder = tmp_path_factory.mktemp("model")
        board = load_board(options.board)
        try:
            toolchain = find_toolchain(board, options.toolchain)
        except TinycError as missing:
            pytest.skip(missing.message)
        compiled = compile_model(models_dir / "mlperf_tiny" / file, board, options, Progress())
        for name, text in compiled.files.items():
            (folder / name).write_text(text)
        sources = Sources(folder, compiled.program.name)
        return compile_firmware(sources, board, toolchain, "balanced", folder / "fw", Checks(sanitize=sanitize))

    return make


def run_on(firmware: Firmware, models: Path, count: int | None, data: str = "") -> np.ndarray:
    """Output bytes [samples, bytes] of the generated library on the board's machine; skips without it."""
    try:
        target = find_target(firmware.board)
    except TinycError as missing:
        pytest.skip(missing.message)
    stem = (data or INPUTS[firmware.model.split("_", maxsplit=1)[0]]).replace("_", "_inputs_", 1)
    x = np.load(models / "mlperf_tiny" / f"{stem}.npz")["x"][:count]
    ran = target.run(firmware, [[sample.tobytes()] for sample in x])
    assert not ran.damaged_guards
    return np.array([np.frombuffer(outputs[0], np.int8) for outputs in ran.outputs])


def expected(models: Path, file: str, count: int | None) -> np.ndarray:
    """What TensorFlow Lite Micro's reference kernels gave for the same inputs."""
    stem = INPUTS[file.split("_", maxsplit=1)[0]]
    outputs = np.load(models / "mlperf_tiny" / f"{stem}_ref_outputs.npz")["int8_tflm"][:count]
    return outputs.reshape(len(outputs), -1)


@pytest.mark.parametrize(
    ("file", "count"),
    [
        *((file, None) for file in MODELS if file not in (LARGE, LONG)),
        *(pytest.param(file, None, marks=pytest.mark.slow) for file in (LARGE, LONG)),
    ],
)
def test_every_input_on_the_host_with_sanitizers(
    firmware: Make, models_dir: Path, file: str, count: int | None
) -> None:
    got = run_on(firmware(file, ON_HOST, True), models_dir, count)
    np.testing.assert_array_equal(got, expected(models_dir, file, count))


@pytest.mark.parametrize("file", MODELS)
def test_the_emulated_cortex_m4(firmware: Make, models_dir: Path, file: str) -> None:
    got = run_on(firmware(file, Options("cortex-m4"), False), models_dir, 20)
    np.testing.assert_array_equal(got, expected(models_dir, file, 20))


@pytest.mark.parametrize("options", [ON_HOST, Options("cortex-m4")], ids=["host", "cortex-m4"])
def test_real_pictures_of_a_person_and_of_none(firmware: Make, models_dir: Path, options: Options) -> None:
    pair = "vww_gray_pair"
    got = run_on(firmware("vww_int8.tflite", options, options is ON_HOST), models_dir, None, data=pair)
    reference = np.load(models_dir / "mlperf_tiny" / f"{pair}_ref_outputs.npz")["int8_tflm"]
    np.testing.assert_array_equal(got, reference.reshape(got.shape))


@pytest.mark.parametrize(
    ("file", "board"),
    [
        pytest.param(file, board, marks=() if (file.split("_")[0], board) in QUICK else pytest.mark.slow)
        for file in MODELS
        for board in CORES
    ],
)
def test_every_other_core(firmware: Make, models_dir: Path, file: str, board: str) -> None:
    got = run_on(firmware(file, Options(board), False), models_dir, 3)
    np.testing.assert_array_equal(got, expected(models_dir, file, 3))


@pytest.mark.quick_cases(5)
@pytest.mark.parametrize("prefer", ["time", "ram", "flash"])
@pytest.mark.parametrize("file", MODELS)
def test_whatever_is_preferred(firmware: Make, models_dir: Path, file: str, prefer: Prefer) -> None:
    """Without a word of it, `test_the_emulated_cortex_m4`."""
    got = run_on(firmware(file, Options("cortex-m4", prefer=prefer), False), models_dir, 3)
    np.testing.assert_array_equal(got, expected(models_dir, file, 3))


@pytest.mark.slow
@pytest.mark.parametrize("board", ["cortex-m4", "cortex-m0plus", "cortex-m55", "riscv32imc"])
def test_every_model_file_becomes_a_library_that_equals_the_reference(
    tmp_path: Path, models_dir: Path, board: str
) -> None:
    """Several minutes for each board. Float models are quantized without a search."""
    files = sorted(path for path in models_dir.rglob("*") if path.suffix in (".tflite", ".onnx"))
    assert files
    failures = []
    for file in files:
        try:
            options = Options(
                board, recipe=Recipe("minmax", equalize=False, rounding="nearest"), name="model", samples=2
            )
            report, _ = build(file, tmp_path / "library", options, Progress())
        except TinycError as error:
            if "bytes" not in error.message:  # too large for the board is an answer
                failures.append(f"{file.name}: {error}")
            continue
        if not report.passed:
            failures.append(f"{file.name}: {report.verify.mismatches} bytes differ")
    assert not failures, "\n".join(failures)


@pytest.mark.parametrize(("prefer", "code", "flash"), [("flash", 6 * 1024, 34_000), ("balanced", 11 * 1024, 40_000)])
def test_flash_of_the_keyword_model(tmp_path: Path, models_dir: Path, prefer: Prefer, code: int, flash: int) -> None:
    """What the library has come down to."""
    options = Options("cortex-m4", prefer=prefer, samples=1)
    report, _ = build(models_dir / "mlperf_tiny" / "kws_int8.tflite", tmp_path / "kws", options, Progress())
    assert report.flash.code_bytes < code
    assert report.flash.code_bytes + report.flash.const_bytes < flash
