# SPDX-License-Identifier: Apache-2.0
"""Published float models in float32: near their own runtimes, and the same bytes on the boards."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnxruntime
import pytest

from tests.ops.runtimes import run_litert
from tinyc import api
from tinyc.base.numerics import Numerics
from tinyc.ir.graph import Array
from tinyc.load import load_model
from tinyc.passes import normalize
from tinyc.reference.interpreter import prepare_int

FIVE = ("kws", "vww", "ic", "ad", "sww")
MOST = 2.0**-20  # of the largest output: docs/float32.md says it


def reference(path: Path, samples: list[Array]) -> list[Array]:
    """The first output, flattened, for each sample of the only input."""
    graph = normalize(load_model(path))
    run, (name,), (output, *_) = prepare_int(graph, Numerics.OURS), graph.inputs, graph.outputs
    return [run({name: sample.reshape(graph.values[name].shape)})[output].ravel() for sample in samples]


@pytest.mark.parametrize("name", FIVE)
def test_near_onnxruntime(models_dir, name):
    path = models_dir / "mlperf_tiny" / f"{name}_fp32.onnx"
    settings = onnxruntime.SessionOptions()
    settings.intra_op_num_threads = 1
    session = onnxruntime.InferenceSession(str(path), settings, providers=["CPUExecutionProvider"])
    (port,), rng = session.get_inputs(), np.random.default_rng(1)
    shape = [size if isinstance(size, int) else 1 for size in port.shape]
    samples = [rng.standard_normal(shape).astype(np.float32) for _ in range(2)]
    for mine, sample in zip(reference(path, samples), samples, strict=True):
        theirs = session.run(None, {port.name: sample})[0].ravel()
        assert np.abs(mine - theirs).max() <= MOST * np.abs(theirs).max()


def test_near_litert(models_dir):
    path = models_dir / "zoo" / "hello_world_fp32.tflite"
    samples = [np.float32([[x]]) for x in np.linspace(0, 6.28, 40)]
    for mine, sample in zip(reference(path, samples), samples, strict=True):
        (theirs,) = run_litert(path.read_bytes(), sample)
        assert np.abs(mine - theirs.ravel()).max() <= MOST


ROOMY = ("host", "nucleo-l4r5zi", "cortex-m7")  # with flash for the largest of them
SMALL = ("kws", "ic", "sww")  # that fit 512 KiB of flash


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "board"), [*((n, b) for n in FIVE for b in ROOMY), *((n, "cortex-m55") for n in SMALL)]
)
def test_same_bytes(models_dir, tmp_path, name, board):
    path = models_dir / "mlperf_tiny" / f"{name}_fp32.onnx"
    report = api.verify(path, board, precision="float32", samples=2)
    assert report.passed
    assert report.numerics == "float32"
    assert report.verify.against == "float32 reference"


@pytest.mark.slow
@pytest.mark.parametrize("board", ["cortex-m3", "cortex-m0plus", "riscv32imc", "cortex-m7", "cortex-m33"])
def test_same_bytes_on_other_cores(models_dir, board):
    path = models_dir / "zoo" / "hello_world_fp32.tflite"
    assert api.verify(path, board, precision="float32", samples=5).passed
