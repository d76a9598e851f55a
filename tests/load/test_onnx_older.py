# SPDX-License-Identifier: Apache-2.0
"""Models of operator sets 1 to 6 compute what the same model of operator set 13 does."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import TensorProto, helper, numpy_helper

from tinyc.base.errors import TinycError
from tinyc.base.numerics import Numerics
from tinyc.load import load_model
from tinyc.passes import normalize
from tinyc.reference.interpreter import run_int

N = helper.make_node
RNG = np.random.default_rng(0)
SHAPES = {"w": (4, 3, 3, 3), "b": (4,), "plane": (4, 1, 1), "dense": (5, 64), "c": (5,)}
WEIGHTS = {name: RNG.normal(size=shape).astype(np.float32) for name, shape in SHAPES.items()}
WEIGHTS |= {name: np.abs(RNG.normal(size=4)).astype(np.float32) for name in ("scale", "bias", "mean", "var")}
OLD = [
    N("Conv", ["x", "w"], ["a"], pads=[1, 1, 1, 1], strides=[2, 2]),
    N("Add", ["a", "b"], ["d"], broadcast=1, axis=1),
    N("BatchNormalization", ["d", "scale", "bias", "mean", "var"], ["e"], is_test=1, consumed_inputs=[0, 0, 0, 1, 1]),
    N("Relu", ["e"], ["f"], consumed_inputs=[0]),
    N("Concat", ["f", "f"], ["g"]),
    N("Selu", ["g"], ["h"]),
    N("Pad", ["h"], ["i"], paddings=[0, 0, 0, 0, 0, 0, 0, 0]),
    N("AveragePool", ["i"], ["j"], kernel_shape=[2, 2]),
    N("Slice", ["j"], ["k"], axes=[2, 3], starts=[0, 0], ends=[2, 4]),
    N("Reshape", ["k"], ["l"], shape=[1, 64]),
    N("Dropout", ["l"], ["m"], is_test=1, ratio=0.5),
    N("Gemm", ["m", "dense", "c"], ["n"], broadcast=1, transB=1),
    N("Cast", ["n"], ["y"], to="FLOAT"),
]
NEW = [
    N("Conv", ["x", "w"], ["a"], pads=[1, 1, 1, 1], strides=[2, 2]),
    N("Add", ["a", "plane"], ["d"]),
    N("BatchNormalization", ["d", "scale", "bias", "mean", "var"], ["e"]),
    N("Relu", ["e"], ["f"]),
    N("Concat", ["f", "f"], ["g"], axis=1),
    N("Selu", ["g"], ["h"], alpha=1.6732, gamma=1.0507),
    N("AveragePool", ["h"], ["j"], kernel_shape=[2, 2]),
    N("Slice", ["j", "starts", "ends"], ["k"]),
    N("Reshape", ["k", "shape"], ["l"]),
    N("Gemm", ["l", "dense", "c"], ["y"], transB=1),
]


def saved(folder: Path, nodes: list[onnx.NodeProto], opset: int, extra: dict[str, np.ndarray], out: int = 1) -> Path:
    read = {name for node in nodes for name in node.input}
    graph = helper.make_graph(
        nodes,
        "model",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, [1, 3, 10, 10])],
        [helper.make_tensor_value_info("y", out, None)],
        [numpy_helper.from_array(array, name) for name, array in {**WEIGHTS, **extra}.items() if name in read],
    )
    path = folder / f"model{opset}.onnx"
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=3), path)
    return path


def test_a_model_of_operator_set_1(tmp_path: Path) -> None:
    WEIGHTS["plane"] = WEIGHTS["b"].reshape(4, 1, 1)
    numbers = {"starts": np.array([0, 0, 0, 0]), "ends": np.array([1, 8, 2, 4]), "shape": np.array([1, 64])}
    x = RNG.normal(size=(1, 3, 10, 10)).astype(np.float32)
    new = onnx.load(saved(tmp_path, NEW, 13, numbers))
    new.ir_version = 8
    (theirs,) = onnxruntime.InferenceSession(new.SerializeToString()).run(None, {"x": x})
    graph = normalize(load_model(saved(tmp_path, OLD, 1, {})))
    perm = (0, 2, 3, 1) if graph.values["x"].shape == (1, 10, 10, 3) else (0, 1, 2, 3)
    y = run_int(graph, {"x": x.transpose(perm)}, Numerics.OURS)["y"]
    np.testing.assert_allclose(y, theirs, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize(
    ("node", "says"),
    [
        (N("BatchNormalization", ["x", "c", "c", "c", "c"], ["y"]), "training"),
        (N("Add", ["x", "b"], ["y"]), r"\[1, 3, 10, 10\] and \[4\]"),
        (N("Tile", ["x", "b", "b"], ["y"]), "operator set 1"),
        (N("Cast", ["x"], ["y"], to="WORD"), "a cast to 'WORD'"),
        (N("Mish", ["x"], ["y"]), "no operator of operator set 1"),
    ],
)
def test_what_meant_something_else_is_refused(node: onnx.NodeProto, says: str, tmp_path: Path) -> None:
    with pytest.raises(TinycError, match=says):
        load_model(saved(tmp_path, [node], 1, {}))
