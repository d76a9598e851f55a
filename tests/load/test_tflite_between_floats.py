# SPDX-License-Identifier: Apache-2.0
"""Float operators between DEQUANTIZE and QUANTIZE: desktop LiteRT's bytes, and TensorFlow Lite Micro's to a step."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.ops.one_node import random_s8
from tests.ops.runtimes import every_pair, run_litert, run_tflm
from tests.ops.tflite_builder import Operator, Tensor, build_model
from tinyc.base.numerics import Numerics
from tinyc.board import load_board
from tinyc.ir.graph import Array
from tinyc.options.build import Options
from tinyc.pipeline.integers import make_integers
from tinyc.pipeline.progress import Progress
from tinyc.reference.interpreter import run_int

SCALES = [(0.1, 0.2), (0.25, 0.5), (0.0235, 0.031), (1.0, 3.0), (0.1, 1 / 256)]  # of input and output


@dataclass(frozen=True)
class Island:
    """An operator on one tensor, and constants."""

    code: str
    options: str
    fields: Mapping[str, Any] = field(default_factory=dict)
    x: tuple[int, ...] = (1, 6, 6, 4)
    y: tuple[int, ...] = (1, 6, 6, 4)
    constant: Array | None = None


NUMBERS = np.array([0.11, -0.52, 0.377, 1.3], np.float32).reshape(1, 1, 1, 4)
WHOLE = np.array([1, 2], np.int32)
ISLANDS = {
    "mean": Island("MEAN", "ReducerOptions", {"KeepDims": True}, y=(1, 1, 1, 4), constant=WHOLE),
    "sum": Island("SUM", "ReducerOptions", {"KeepDims": True}, y=(1, 1, 1, 4), constant=WHOLE),
    "softmax": Island("SOFTMAX", "SoftmaxOptions", {"Beta": 1.0}, (1, 16), (1, 16)),
    "norm": Island("L2_NORMALIZATION", "L2NormOptions", {}, (1, 16), (1, 16)),
    "log": Island("LOG_SOFTMAX", "LogSoftmaxOptions", {}, (1, 16), (1, 16)),
    "resize": Island("RESIZE_BILINEAR", "ResizeBilinearOptions", y=(1, 12, 12, 4), constant=np.full(2, 12, np.int32)),
    "add": Island("ADD", "AddOptions", constant=NUMBERS),
    "mul": Island("MUL", "MulOptions", constant=NUMBERS),
}


def file_of(island: Island, scales: tuple[float, float]) -> bytes:
    x, y = Tensor("x", island.x, "s8", scales[:1], (5,)), Tensor("y", island.y, "s8", scales[1:], (-9,))
    tensors, inputs = [x, y, Tensor("fx", island.x, "f32"), Tensor("fy", island.y, "f32")], ("fx",)
    if island.constant is not None:
        dtype = "f32" if island.constant.dtype == np.float32 else "s32"
        tensors.append(Tensor("k", island.constant.shape, dtype, data=island.constant))
        inputs = ("fx", "k")
    operators = [
        Operator("DEQUANTIZE", ("x",), ("fx",)),
        Operator(island.code, inputs, ("fy",), island.options, dict(island.fields)),
        Operator("QUANTIZE", ("fy",), ("y",)),
    ]
    return build_model(tensors, operators, ["x"], ["y"])


def ours(folder: Path, model: bytes, numerics: Numerics, *inputs: Array) -> Array:
    (folder / "m.tflite").write_bytes(model)
    graph = make_integers(folder / "m.tflite", load_board("host"), Options("host", numerics=numerics), Progress()).graph
    return run_int(graph, dict(zip(graph.inputs, inputs, strict=True)), numerics)["y"]


@pytest.mark.parametrize("scales", SCALES, ids=str)
@pytest.mark.parametrize("name", ISLANDS)
def test_one_tensor(tmp_path: Path, name: str, scales: tuple[float, float]) -> None:
    island = ISLANDS[name]
    model = file_of(island, scales)
    for seed in range(3):
        x = random_s8(seed, island.x)
        np.testing.assert_array_equal(ours(tmp_path, model, Numerics.LITERT, x), run_litert(model, x)[0])
        steps = ours(tmp_path, model, Numerics.TFLM, x).astype(int) - run_tflm(model, x)[0]
        assert np.abs(steps).max() <= 1


@pytest.mark.parametrize("scales", [(1.0, 1.0, 2.0), (0.1, 0.1, 0.2), (0.0235, 0.031, 0.05), (0.25, 0.5, 1.0)], ids=str)
@pytest.mark.parametrize(("code", "options"), [("ADD", "AddOptions"), ("SUB", "SubOptions"), ("MUL", "MulOptions")])
def test_all_pairs_of_bytes(tmp_path: Path, code: str, options: str, scales: tuple[float, float, float]) -> None:
    """Halves too: LiteRT rounds the sum or product of floats, where integers round once more."""
    pair = every_pair()
    zeros, shape = (5, -9, 3), pair[0].shape
    tensors = [Tensor(name, shape, "s8", (s,), (z,)) for name, s, z in zip("aby", scales, zeros, strict=True)]
    floats = [Tensor(name, shape, "f32") for name in ("fa", "fb", "fy")]
    operators = [
        Operator("DEQUANTIZE", ("a",), ("fa",)),
        Operator("DEQUANTIZE", ("b",), ("fb",)),
        Operator(code, ("fa", "fb"), ("fy",), options),
        Operator("QUANTIZE", ("fy",), ("y",)),
    ]
    model = build_model([*tensors, *floats], operators, ["a", "b"], ["y"])
    np.testing.assert_array_equal(ours(tmp_path, model, Numerics.LITERT, *pair), run_litert(model, *pair)[0])
    steps = ours(tmp_path, model, Numerics.TFLM, *pair).astype(int) - run_tflm(model, *pair)[0]
    assert np.abs(steps).max() <= 1
