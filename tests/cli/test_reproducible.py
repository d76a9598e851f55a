# SPDX-License-Identifier: Apache-2.0
"""The same inputs give the same bytes: whatever the folder, the hash seed, the number of threads and cores, the
processor, time zone and language. `reproduced.py` is the process whose surroundings change here."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import threading
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import onnx
import pytest

from tests.load.onnx_models import build, op
from tinyc.base.one_thread import OneThread, _blas, one_thread

ROOT = Path(__file__).resolve().parents[2]
PLAIN = {"OPENBLAS_NUM_THREADS": "1", "OMP_NUM_THREADS": "1", "PYTHONHASHSEED": "0"}
OTHER = {
    "OPENBLAS_NUM_THREADS": "4",
    "OMP_NUM_THREADS": "4",
    "MKL_NUM_THREADS": "4",
    "PYTHONHASHSEED": "4711",
    "TZ": "Asia/Kolkata",
    "LC_ALL": "tr_TR.UTF-8",
    "COLUMNS": "40",
}
# What other x86 processors have: BLAS kernels without fused operations or with narrower registers, and loops of numpy
# without AVX2 and AVX-512 (names of new and of older versions; those that it does not know it only warns of).
PROCESSORS = {
    "prescott": {"OPENBLAS_CORETYPE": "Prescott", "NPY_DISABLE_CPU_FEATURES": "X86_V3 X86_V4"},
    "sandybridge": {"OPENBLAS_CORETYPE": "Sandybridge", "NPY_DISABLE_CPU_FEATURES": "AVX2 FMA3 AVX512F AVX512_SKX"},
}
QUICK = ("int4.onnx", "host")
# The one in the middle is the one case of `make test-slow CASES=1`.
TASKS = {"ad": "ad_dev", "ic": "ic_synthetic", "kws": "kws_dev", "sww": "sww_dev", "vww": "vww_synthetic"}
CALIBRATED = 16  # samples: more take longer, and add the same way


@pytest.fixture(scope="module")
def inputs(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """A network with layers large enough for a BLAS library to use its threads, and calibration data."""
    rng = np.random.default_rng(0)

    def weights(*shape: int) -> np.ndarray:
        return (rng.standard_normal(shape) / np.sqrt(np.prod(shape[1:]))).astype(np.float32)

    nodes = [
        op("Conv", "x w1 b1", "c1", pads=[1] * 4),
        op("Relu", "c1", "r1"),
        op("Conv", "r1 w2", "c2", pads=[1] * 4, strides=[2, 2]),
        op("Relu", "c2", "r2"),
        op("Conv", "r2 w3", "c3", pads=[1] * 4, group=16),
        op("Flatten", "c3", "flat"),
        op("Gemm", "flat w4", "y", transB=1),
    ]
    constants = {"w1": weights(16, 1, 3, 3), "b1": weights(16), "w2": weights(16, 16, 3, 3)}
    constants |= {"w3": weights(16, 1, 3, 3), "w4": weights(5, 16 * 36)}
    folder = tmp_path_factory.mktemp("inputs")
    onnx.save(build(nodes, {"x": (1, 1, 12, 12)}, ["y"], constants), folder / "m.onnx")
    np.savez(folder / "c.npz", x=rng.standard_normal((16, 1, 12, 12)).astype(np.float32))
    return folder / "m.onnx", folder / "c.npz"


def _files_of(
    inputs: tuple[Path, Path], folder: Path, names: Sequence[str], environment: dict[str, str], cores: int | None = None
) -> list[str]:
    """Hash and path of every file, from a process of its own."""
    limit = [] if cores is None else ["taskset", "-c", f"0-{cores - 1}"]
    ran = subprocess.run(
        [*limit, sys.executable, "-m", "tests.cli.reproduced", *map(str, (*inputs, folder)), *names],
        capture_output=True,
        text=True,
        check=False,
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": str(ROOT), **environment},
    )
    assert ran.returncode == 0, ran.stderr
    return ran.stdout.splitlines()


@pytest.fixture(scope="module")
def plain(inputs: tuple[Path, Path], tmp_path_factory: pytest.TempPathFactory) -> list[str]:
    """What comes of QUICK in plain surroundings."""
    return _files_of(inputs, tmp_path_factory.mktemp("plain") / "a", QUICK, PLAIN)


def test_the_same_bytes_in_other_surroundings(inputs: tuple[Path, Path], plain: list[str], tmp_path: Path) -> None:
    assert {line.split("  ")[1] for line in plain} > {"int4.onnx", "host/m.c", "host/report.json"}
    moved = tmp_path / "copies"
    moved.mkdir()
    copies = tuple(Path(shutil.copy(file, moved)) for file in inputs)
    assert _files_of((copies[0], copies[1]), tmp_path / "other" / "folder", QUICK, OTHER) == plain


@pytest.mark.parametrize("processor", ["prescott", pytest.param("sandybridge", marks=pytest.mark.slow)])
def test_the_same_bytes_on_another_processor(
    inputs: tuple[Path, Path], plain: list[str], tmp_path: Path, processor: str
) -> None:
    expected = [line for line in plain if line.endswith("  int4.onnx")]
    assert len(expected) == 1
    assert _files_of(inputs, tmp_path / "b", ["int4.onnx"], PLAIN | PROCESSORS[processor]) == expected


@pytest.mark.slow
@pytest.mark.parametrize("board", ["m4", "rv32"])
@pytest.mark.parametrize("threads", ["1", "2", "4"])
def test_the_same_firmware(inputs: tuple[Path, Path], tmp_path: Path, board: str, threads: str) -> None:
    if shutil.which("taskset") is None:
        pytest.skip("taskset is not installed")
    expected = _files_of(inputs, tmp_path / "a", [board], PLAIN)
    assert any(line.endswith("firmware/m.elf") for line in expected)
    other = OTHER | {"OPENBLAS_NUM_THREADS": threads, "OMP_NUM_THREADS": threads}
    assert _files_of(inputs, tmp_path / "b" / "c", [board], other, cores=1 if threads == "2" else None) == expected


@pytest.mark.slow
@pytest.mark.parametrize("task", TASKS)
def test_the_published_models_are_quantized_to_the_same_bytes(models_dir: Path, tmp_path: Path, task: str) -> None:
    folder = models_dir / "mlperf_tiny"
    with np.load(folder / f"{TASKS[task].partition('_')[0]}_inputs_{TASKS[task].partition('_')[2]}.npz") as held:
        np.savez(tmp_path / "c.npz", x=(held["x_f32"] if "x_f32" in held else held["x"])[:CALIBRATED])
    files = folder / f"{task}_fp32.onnx", tmp_path / "c.npz"
    expected = _files_of(files, tmp_path / "a", ("int8.tflite", "int4.onnx"), PLAIN)
    assert len(expected) == 2
    assert _files_of(files, tmp_path / "b", ("int8.tflite", "int4.onnx"), OTHER) == expected
    prescott = PLAIN | PROCESSORS["prescott"]
    assert _files_of(files, tmp_path / "c", ("int8.tflite", "int4.onnx"), prescott) == expected


def test_the_number_of_threads_comes_back() -> None:
    blas = _blas()
    if blas is None:
        pytest.skip("numpy has no BLAS library whose threads can be set")
    before = blas.threads()
    blas.set_threads(3)
    try:
        with OneThread():
            assert blas.threads() == 1
            with OneThread():
                assert blas.threads() == 1
            assert blas.threads() == 1
            inside = threading.Thread(target=one_thread(lambda: None))
            inside.start()
            inside.join()
            assert blas.threads() == 1
        assert blas.threads() == 3
        with pytest.raises(ValueError, match="inside"), OneThread():
            raise ValueError("inside")
        assert blas.threads() == 3
    finally:
        blas.set_threads(before)


def test_every_session_of_onnxruntime_has_one_thread() -> None:
    """But for the desktop references of `tinyc bench`, which are timed."""
    for file in (ROOT / "tinyc").rglob("*.py"):
        text = file.read_text(encoding="utf-8")
        if "bench" not in file.parts:
            sessions = re.findall(r"InferenceSession\(", text)
            assert len(re.findall("intra_op_num_threads = 1", text)) == len(sessions), file
