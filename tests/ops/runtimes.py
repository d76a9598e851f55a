# SPDX-License-Identifier: Apache-2.0
"""Other people's interpreters, where installed: what tinyc's integers are compared with."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
import tflite

from tinyc.ir.graph import Array

_ARENA_BYTES = 4_000_000


def run_tflm(model: bytes, *inputs: Array) -> list[Array]:
    """Outputs of TensorFlow Lite Micro's reference kernels; skips the test where it is not installed."""
    return tflm_sequence(model, [inputs])[0]


def tflm_sequence(model: bytes, samples: Sequence[Sequence[Array]]) -> list[list[Array]]:
    """The same for samples that one interpreter runs one after the other, with the state that each leaves."""
    runtime = pytest.importorskip("tflite_micro.python.tflite_micro.runtime", reason="needs `tflite-micro`")
    interpreter = runtime.Interpreter.from_bytes(model, arena_size=_ARENA_BYTES)
    count, results = _output_count(model), []
    for sample in samples:
        for i, array in enumerate(sample):
            interpreter.set_input(array, i)
        interpreter.invoke()
        results.append([np.array(interpreter.get_output(i)) for i in range(count)])
    return results


def run_litert(model: bytes, *inputs: Array) -> list[Array]:
    """Outputs of desktop LiteRT on its default path (XNNPACK); skips the test if it is not installed."""
    return litert_sequence(model, [inputs])[0]


def litert_sequence(model: bytes, samples: Sequence[Sequence[Array]]) -> list[list[Array]]:
    """The same for samples that one interpreter runs one after the other, with the state that each leaves."""
    module: Any = pytest.importorskip("ai_edge_litert.interpreter", reason="needs `ai-edge-litert`")
    interpreter = module.Interpreter(model_content=model, num_threads=1)
    interpreter.allocate_tensors()
    results = []
    for sample in samples:
        for detail, array in zip(interpreter.get_input_details(), sample, strict=True):
            interpreter.set_tensor(detail["index"], array)
        interpreter.invoke()
        results.append([interpreter.get_tensor(detail["index"]) for detail in interpreter.get_output_details()])
    return results


def _output_count(model: bytes) -> int:
    return int(tflite.Model.GetRootAs(model, 0).Subgraphs(0).OutputsLength())


def every_pair() -> tuple[Array, Array]:
    """Two int8 arrays [1, 256, 256, 1] that hold all 65,536 pairs of values."""
    x = np.arange(-128, 128, dtype=np.int8)
    x0, x1 = np.meshgrid(x, x, indexing="ij")
    return x0.reshape(1, 256, 256, 1).copy(), x1.reshape(1, 256, 256, 1).copy()


def every_byte() -> Array:
    """An int8 array [1, 256] that holds every value."""
    return np.arange(-128, 128, dtype=np.int8).reshape(1, 256)
