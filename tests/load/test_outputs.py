# SPDX-License-Identifier: Apache-2.0
"""A model that ends at tensors which the user names: what only its tail needs may be anything."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import pytest

from tests.load.onnx_models import build, op
from tests.ops.tflite_builder import Operator, Tensor, build_model
from tinyc.base.errors import TinycError
from tinyc.board import load_board
from tinyc.load import load_model
from tinyc.pipeline.compiling import compile_model
from tinyc.pipeline.options import Options, Progress
from tinyc.reference.interpreter import run_float


def onnx_file(folder: Path) -> Path:
    """A layer, its activation, and a tail that cannot be compiled."""
    nodes = [op("MatMul", "x w", "z"), op("Relu", "z", "r"), op("NonZero", "r", "which")]
    w = np.random.default_rng(0).normal(size=(4, 3)).astype(np.float32)
    onnx.save(build(nodes, {"x": [1, 4]}, ["which"], {"w": w}), folder / "tail.onnx")
    return folder / "tail.onnx"


def tflite_file(folder: Path) -> Path:
    x, y = (Tensor(name, (1, 4), "s8", (0.1,), (0,)) for name in ("x", "y"))
    tail = Tensor("tail", (1, 4), "s8", (0.1,), (0,))
    operators = [Operator("RELU", ("x",), ("y",)), Operator("WHERE", ("y",), ("tail",))]
    (folder / "tail.tflite").write_bytes(build_model([x, y, tail], operators, ("x",), ("tail",)))
    return folder / "tail.tflite"


def test_onnx(tmp_path: Path) -> None:
    path = onnx_file(tmp_path)
    with pytest.raises(TinycError, match="NonZero"):
        load_model(path)
    graph = load_model(path, ("z", "r"))
    assert graph.outputs == ("z", "r")
    found = run_float(graph, {"x": np.ones((1, 4), np.float32)})
    np.testing.assert_array_equal(found["r"], np.maximum(found["z"], 0))


def test_tflite(tmp_path: Path) -> None:
    path = tflite_file(tmp_path)
    with pytest.raises(TinycError, match="WHERE"):
        load_model(path)
    assert load_model(path, ("y",)).outputs == ("y",)


@pytest.mark.parametrize("make", [onnx_file, tflite_file])
def test_names_that_are_not_there(make, tmp_path: Path) -> None:
    path = make(tmp_path)
    with pytest.raises(TinycError, match="no operator of the model makes") as caught:
        load_model(path, ("rr",))
    assert caught.value.hint
    name = "r" if path.suffix == ".onnx" else "y"
    with pytest.raises(TinycError, match="twice"):
        load_model(path, (name, name))


def test_a_library_says_where_it_ends(tmp_path: Path) -> None:
    options = Options(board="host", outputs=("r",), precision="float32")
    compiled = compile_model(onnx_file(tmp_path), load_board("host"), options, Progress())
    assert compiled.graph.outputs == ("r",)
    assert "--outputs r" in compiled.files["tail.c"]
