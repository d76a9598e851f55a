# SPDX-License-Identifier: Apache-2.0
"""Constants that operators make of constants, and sparse ones: pruned models, training with quantization."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from tests.ops.runtimes import run_litert
from tests.ops.tflite_builder import Operator, Tensor, build_model
from tinyc.base.errors import TinycError
from tinyc.base.numerics import Numerics
from tinyc.ir.graph import Array
from tinyc.load import load_model
from tinyc.load.tflite_sparse import Level, Sparsity
from tinyc.passes import normalize
from tinyc.reference.interpreter import run_float, run_int

NONE = np.zeros(0, np.int64)


def pruned(rows: int, columns: int) -> Array:
    rng = np.random.default_rng(3)
    matrix = rng.normal(size=(rows, columns)).astype(np.float32)
    matrix[rng.random(matrix.shape) < 0.8] = 0
    matrix[1] = 0
    return matrix


@pytest.mark.parametrize("densified", [False, True])
def test_sparse_weights(tmp_path: Path, densified: bool) -> None:
    w = Tensor("w", (6, 16), "f32", data=pruned(6, 16), sparse=True)
    tensors = [Tensor("x", (1, 16), "f32"), w, Tensor("d", (6, 16), "f32"), Tensor("y", (1, 6), "f32")]
    dense = Operator("FULLY_CONNECTED", ("x", "d" if densified else "w", ""), ("y",), "FullyConnectedOptions", {})
    operators = [Operator("DENSIFY", ("w",), ("d",), "DensifyOptions"), dense] if densified else [dense]
    path = tmp_path / "m.tflite"
    path.write_bytes(build_model(tensors, operators, ["x"], ["y"]))
    x = np.random.default_rng(4).normal(size=(1, 16)).astype(np.float32)
    np.testing.assert_allclose(run_float(load_model(path), {"x": x})["y"], x @ pruned(6, 16).T, rtol=1e-5, atol=1e-6)
    if densified:  # its own kernel of sparse weights takes blocks of 1x4 only, and reads beyond others
        np.testing.assert_allclose(run_litert(path.read_bytes(), x)[0], x @ pruned(6, 16).T, rtol=1e-5, atol=1e-6)


def test_blocks_of_a_matrix() -> None:
    """Blocks of 1x2 in compressed rows, the inner axis of the block dense."""
    levels = (Level(3, NONE, NONE), Level(0, np.array([0, 1, 1, 3]), np.array([1, 0, 2])), Level(2, NONE, NONE))
    places = Sparsity((0, 1, 2), (1,), levels).places((3, 6), "w", None)
    assert places.tolist() == [2, 3, 12, 13, 16, 17]


def test_columns_before_rows() -> None:
    levels = (Level(2, NONE, NONE), Level(0, np.array([0, 2, 3]), np.array([0, 2, 1])))
    assert Sparsity((1, 0), (), levels).places((3, 2), "w", None).tolist() == [0, 4, 3]


NONSENSE = {
    "axes": Sparsity((0, 0), (), (Level(2, NONE, NONE), Level(2, NONE, NONE))),
    "an index beyond the row": Sparsity(
        (0, 1), (), (Level(2, NONE, NONE), Level(0, np.array([0, 1, 1]), np.array([7])))
    ),
    "too many": Sparsity((0, 1), (), (Level(2, NONE, NONE), Level(0, np.array([0, 9**9, 9**9]), np.array([0])))),
    "segments that are missing": Sparsity((0, 1), (), (Level(2, NONE, NONE), Level(0, np.array([0]), np.array([0])))),
    "a block of no axis": Sparsity((0, 1, 2), (5,), (Level(2, NONE, NONE),) * 3),
}


@pytest.mark.parametrize("what", NONSENSE)
def test_nonsense_is_an_error(what: str) -> None:
    with pytest.raises(TinycError, match="makes no sense"):
        NONSENSE[what].places((2, 2), "w", None)


def test_weights_that_are_quantized_and_dequantized_are_litert(tmp_path: Path) -> None:
    """As models trained with quantization are converted without it: all of it float but for the rounding."""
    w = np.random.default_rng(5).normal(0, 0.3, (4, 8)).astype(np.float32)
    tensors = [
        Tensor("x", (1, 8), "u8", (0.05,), (120,)),
        Tensor("xf", (1, 8), "f32"),
        Tensor("w", (4, 8), "f32", data=w),
        Tensor("wq", (4, 8), "u8", (0.01,), (128,)),
        Tensor("wf", (4, 8), "f32"),
        Tensor("f", (1, 4), "f32"),
        Tensor("y", (1, 4), "u8", (0.05,), (100,)),
    ]
    operators = [
        Operator("DEQUANTIZE", ("x",), ("xf",), "DequantizeOptions", {}, 2),
        Operator("QUANTIZE", ("w",), ("wq",), "QuantizeOptions", {}, 1),
        Operator("DEQUANTIZE", ("wq",), ("wf",), "DequantizeOptions", {}, 2),
        Operator("FULLY_CONNECTED", ("xf", "wf", ""), ("f",), "FullyConnectedOptions", {}, 1),
        Operator("QUANTIZE", ("f",), ("y",), "QuantizeOptions", {}, 1),
    ]
    path = tmp_path / "m.tflite"
    path.write_bytes(build_model(tensors, operators, ["x"], ["y"]))
    graph = normalize(load_model(path))
    assert [node.op for node in graph.nodes if node.op != "requantize"] == ["fully_connected"]
    for seed in range(5):
        x = np.random.default_rng(seed).integers(0, 256, (1, 8)).astype(np.uint8)
        (theirs,) = run_litert(path.read_bytes(), x)
        ours = run_int(graph, {"x": x}, Numerics.LITERT)["y"]
        assert np.abs(ours.astype(int) - theirs).max() <= 1  # float32 beside exact sums
