# SPDX-License-Identifier: Apache-2.0
"""MatMul of computed tensors, roots, powers, normalization, extrema over axes: float graphs equal ONNX Runtime."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import pytest

from tests.load.onnx_models import build, imported, load, one, op, rand
from tinyc.base.errors import TinycError
from tinyc.passes import normalize

ATTENTION = [
    op("MatMul", "x wq", "q"),
    op("MatMul", "x wk", "k"),
    op("Transpose", "k", "kt", perm=[0, 2, 1]),
    op("MatMul", "q kt", "scores"),
    op("Softmax", "scores", "weights"),
    op("MatMul", "weights x", "mixed"),
    op("Add", "x mixed", "sum"),
    op("LayerNormalization", "sum scale bias", "y", axis=-1, epsilon=1e-3),
]
SPELLED_OUT = [
    op("ReduceMean", "x", "m", axes=[2]),
    op("Sub", "x m", "d"),
    op("Pow", "d two", "p"),
    op("ReduceMean", "p", "v", axes=[2]),
    op("Add", "v eps", "e"),
    op("Sqrt", "e", "s"),
    op("Div", "d s", "y"),
]
SHAPE = [1, 6, 8]


def opened(name: str) -> onnx.ModelProto:
    """An operator of onnxruntime's own domain."""
    inputs = ["x"] if name == "Gelu" else ["x", "b"]
    node = onnx.helper.make_node(name, inputs, ["y"], domain="com.microsoft")
    model = build([node], {"x": SHAPE}, ["y"], {} if name == "Gelu" else {"b": rand(9, SHAPE[-1])})
    model.opset_import.append(onnx.helper.make_opsetid("com.microsoft", 1))
    return model


MODELS: dict[str, onnx.ModelProto] = {
    "attention": build(
        ATTENTION,
        {"x": SHAPE},
        ["y"],
        {"wq": rand(1, 8, 8), "wk": rand(2, 8, 8), "scale": rand(3, 8), "bias": rand(4, 8)},
    ),
    "normalization": build(
        SPELLED_OUT, {"x": SHAPE}, ["y"], {"two": np.float32(2), "eps": np.float32(1e-3)}, opset=13
    ),
    "matrices of a batch": one("MatMul", (2, 1, 5), [rand(1, 2, 5, 3)]),
    "constant first": one("MatMul", (2, 5, 3), [rand(1, 4, 5)], constant_first=True),
    "quotient": build([op("Exp", "k", "e"), op("Abs", "x", "a"), op("Add", "a e", "b"), op("Div", "x b", "y")],
                      {"x": SHAPE}, ["y"], {"k": np.float32(0)}),
    "reciprocal": build([op("Abs", "x", "a"), op("Add", "a one", "b"), op("Reciprocal", "b", "y")],
                        {"x": SHAPE}, ["y"], {"one": np.float32(1)}),
    "cube": one("Pow", SHAPE, [np.float32(3)]),
    "first power": one("Pow", SHAPE, [np.float32(1)]),
    **{name: one(name, SHAPE) for name in ("Cos", "Erf", "Exp", "Selu", "Sin", "Softplus", "Softsign", "Celu")},
    "Elu": one("Elu", SHAPE, alpha=0.5),
    "Celu, alpha": one("Celu", SHAPE, alpha=0.5),
    "Mish": one("Mish", SHAPE, opset=18),
    "Gelu": one("Gelu", SHAPE, opset=20),
    "Gelu, tanh": one("Gelu", SHAPE, opset=20, approximate="tanh"),
    **{name: opened(name) for name in ("Gelu", "FastGelu", "BiasGelu")},
    "Log": build([op("Exp", "x", "e"), op("Log", "e", "y")], {"x": SHAPE}, ["y"]),
    "largest": one("ReduceMax", SHAPE, axes=[1], keepdims=0),
    "smallest": one("ReduceMin", SHAPE, axes=[-1, 1]),
    "largest, opset 18": one("ReduceMax", SHAPE, [np.array([2], np.int64)], opset=18),
}  # fmt: skip


@pytest.mark.parametrize("name", MODELS)
def test_equals_onnxruntime(tmp_path: Path, name: str) -> None:
    imported(MODELS[name], tmp_path)


def test_a_root_and_its_division_are_one_power(tmp_path: Path) -> None:
    graph = normalize(load(MODELS["normalization"], tmp_path))
    assert [node.attrs.exponent for node in graph.nodes if node.op == "power"] == [-0.5]


def test_computed_exponents_are_refused(tmp_path: Path) -> None:
    model = build([op("Pow", "x k", "y")], {"x": SHAPE, "k": SHAPE}, ["y"])
    with pytest.raises(TinycError, match="exponent"):
        load(model, tmp_path)
