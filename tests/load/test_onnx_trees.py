# SPDX-License-Identifier: Apache-2.0
"""Forests decide as ONNX Runtime does, on thresholds and beside them, with missing values, behind scalers."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import TensorProto, helper, numpy_helper

import tinyc
from tests.load.onnx_forests import MODES, Trees, model, saved
from tinyc.base.errors import TinycError
from tinyc.base.numerics import Numerics
from tinyc.ir.graph import Graph
from tinyc.load import load_model
from tinyc.passes import normalize
from tinyc.reference.interpreter import prepare_int

ML = {"domain": "ai.onnx.ml"}
CLASS = [("label", TensorProto.INT64), ("scores", TensorProto.FLOAT)]


def vote(rng: np.random.Generator) -> float:
    """One of a few numbers that sums of float32 hold exactly."""
    return rng.integers(-4, 5) / 8


def theirs(model_file: onnx.ModelProto, x: np.ndarray) -> list[np.ndarray]:
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    session = onnxruntime.InferenceSession(model_file.SerializeToString(), options, providers=["CPUExecutionProvider"])
    return session.run(None, {"x": x})


def check(model_file: onnx.ModelProto, x: np.ndarray, folder: Path, atol: float = 1e-6) -> Graph:
    """The model in integers; asserts that labels are equal and reals close to ONNX Runtime's."""
    graph = normalize(load_model(saved(model_file, folder)))
    run = prepare_int(graph, Numerics.ONNX)
    for name, want in zip(graph.outputs, theirs(model_file, x), strict=True):
        got = np.stack([run({"x": row[None]})[name][0] for row in x])
        quant = graph.values[name].quant
        if quant is None:
            np.testing.assert_array_equal(got.ravel(), want.ravel())
        else:
            np.testing.assert_allclose(quant.dequantize(got), want, atol=atol, rtol=1e-6)
    return graph


@pytest.mark.parametrize("nan", [False, True], ids=["numbers", "missing"])
@pytest.mark.parametrize("grid", [0.25, 1e-6])
@pytest.mark.parametrize("modes", [MODES[:1], MODES], ids=["one_mode", "all_modes"])
def test_classifier(modes, grid: float, nan: bool, tmp_path: Path) -> None:
    rng = np.random.default_rng(len(modes) + nan)
    trees = Trees(rng, 5, range(3), modes=modes).grow(12, 5, grid, vote, nan)
    node = helper.make_node(
        "TreeEnsembleClassifier", ["x"], ["label", "scores"], **ML, **trees.attributes("class"),
        classlabels_int64s=[4, -2, 7], base_values=[0.5, 0.0, -0.25],
    )  # fmt: skip
    x = trees.samples(120)
    if nan:
        x[20:60] = np.where(rng.random((40, 5)) < 0.5, np.nan, x[20:60])
        x[61] = -x[20]  # a NaN with a sign
    check(model([node], 5, CLASS), x, tmp_path)


@pytest.mark.parametrize(
    ("classes", "post"), [(2, "NONE"), (2, "LOGISTIC"), (3, "NONE"), (3, "LOGISTIC"), (3, "SOFTMAX")]
)
def test_probabilities(classes: int, post: str, tmp_path: Path) -> None:
    """Boosted trees: a score for the second of two classes, or one for each."""
    rng = np.random.default_rng(classes)
    trees = Trees(rng, 4, [0] if classes == 2 else range(3)).grow(9, 4, 0.25, lambda r: np.float32(r.normal()))
    node = helper.make_node(
        "TreeEnsembleClassifier", ["x"], ["label", "scores"], **ML, **trees.attributes("class"),
        classlabels_int64s=list(range(classes)), post_transform=post,
    )  # fmt: skip
    bound = {"NONE": 1e-6, "LOGISTIC": 1e-3 if classes == 2 else 2e-2, "SOFTMAX": 1e-3}[post]
    check(model([node], 4, CLASS), trees.samples(100), tmp_path, bound)


def test_votes_of_two_classes(tmp_path: Path) -> None:
    rng = np.random.default_rng(2)
    trees = Trees(rng, 4, [0]).grow(16, 4, 0.25, lambda r: r.integers(0, 2) / 16)
    node = helper.make_node(
        "TreeEnsembleClassifier", ["x"], ["label", "scores"], **ML, **trees.attributes("class"),
        classlabels_int64s=[0, 1],
    )  # fmt: skip
    graph = check(model([node], 4, CLASS), trees.samples(200), tmp_path)
    assert graph.values["scores"].quant.scale == (1 / 16,)


@pytest.mark.parametrize("aggregate", ["SUM", "AVERAGE"])
def test_regressor(aggregate: str, tmp_path: Path) -> None:
    rng = np.random.default_rng(3)
    trees = Trees(rng, 6, range(2)).grow(7, 6, 1e-6, lambda r: np.float32(r.normal(5, 40)))
    node = helper.make_node(
        "TreeEnsembleRegressor", ["x"], ["y"], **ML, **trees.attributes("target"),
        n_targets=2, aggregate_function=aggregate, base_values=[1.5, -2.0],
    )  # fmt: skip
    check(model([node], 6, [("y", TensorProto.FLOAT)]), trees.samples(100), tmp_path, 1e-4)


def test_scaler_and_imputer_go_into_the_thresholds(tmp_path: Path) -> None:
    """Columns are picked, missing numbers filled in, the rest scaled, some by negative numbers: no float arithmetic."""
    rng = np.random.default_rng(4)
    trees = Trees(rng, 4, range(3)).grow(10, 5, 0.01, vote)
    nodes = [
        helper.make_node("ArrayFeatureExtractor", ["x", "columns"], ["picked"], **ML),
        helper.make_node(
            "Imputer", ["picked"], ["filled"], **ML, imputed_value_floats=[0.5, -1.0, 3.0, 0.0],
            replaced_value_float=float("nan"),
        ),
        helper.make_node(
            "Scaler", ["filled"], ["scaled"], **ML, offset=[0.1, 2.0, -0.3, 0.0], scale=[3.0, -0.7, 1e-3, 1.0]
        ),
        helper.make_node(
            "TreeEnsembleClassifier", ["scaled"], ["label", "scores"], **ML, **trees.attributes("class"),
            classlabels_int64s=[0, 1, 2],
        ),
    ]  # fmt: skip
    columns = numpy_helper.from_array(np.array([3, 0, 4, 1]), "columns")
    features = trees.samples(300)[:, :4].clip(-1e30, 1e30) / np.array([3.0, -0.7, 1e-3, 1.0]) + np.array(
        [0.1, 2.0, -0.3, 0.0]
    )
    x = rng.normal(size=(300, 5)).astype(np.float32)
    x[:, [3, 0, 4, 1]] = features
    x[100:200] = np.where(rng.random((100, 5)) < 0.3, np.nan, x[100:200])
    graph = check(model(nodes, 5, CLASS, [columns]), x, tmp_path)
    assert [node.op for node in graph.nodes] == ["tree_ensemble", "argmax"]


def test_trees_behind_layers_that_compute_run_in_float32(tmp_path: Path) -> None:
    """As a PCA before a forest is exported. Products are exact, so that features meet thresholds; a sum of float32
    that is rounded may lie on either side of one."""
    rng = np.random.default_rng(9)
    trees = Trees(rng, 3, range(3)).grow(8, 4, 1 / 16, vote)
    nodes = [
        helper.make_node("Sub", ["x", "mean"], ["centred"]),
        helper.make_node("MatMul", ["centred", "axes"], ["turned"]),
        helper.make_node(
            "TreeEnsembleClassifier", ["turned"], ["label", "scores"], **ML, **trees.attributes("class"),
            classlabels_int64s=[2, 5, 9],
        ),
    ]  # fmt: skip
    mean = numpy_helper.from_array(np.array([0.5, -0.25, 1.0, 0.0], np.float32), "mean")
    axes = numpy_helper.from_array((rng.integers(-4, 5, (4, 3)) / 4).astype(np.float32), "axes")
    model_file = model(nodes, 4, CLASS, [mean, axes])
    file = saved(model_file, tmp_path)
    x = (rng.integers(-32, 33, (200, 4)) / 16).astype(np.float32)
    graph = check(model_file, x, tmp_path)
    assert [node.op for node in graph.nodes] == ["fully_connected", "tree_ensemble", "argmax", "gather"]
    with pytest.raises(TinycError) as refused:
        tinyc.build(file, "host", out=tmp_path / "int8", precision="integer", proof=False)
    assert "--precision float32" in refused.value.hint
    built = tinyc.build(file, "cortex-m4", out=tmp_path / "f32", inputs=x[:20], precision="float32")
    assert built.report.passed
    label, scores = tinyc.load(tmp_path / "f32").run(x)
    np.testing.assert_array_equal(label.ravel(), theirs(model_file, x)[0])
    np.testing.assert_array_equal(graph.values["scores"].quant.dequantize(scores), theirs(model_file, x)[1])


def test_tree_ensemble_of_the_newest_operator_set(tmp_path: Path) -> None:
    tensors = {
        "nodes_splits": np.array([0.5, -1, 2], np.float32),
        "nodes_modes": np.array([0, 3, 2], np.uint8),
        "leaf_weights": np.array([0.5, -1.25, 3.0, 0.75], np.float32),
    }
    node = helper.make_node(
        "TreeEnsemble", ["x"], ["y"], **ML, n_targets=2, aggregate_function=1, post_transform=0, tree_roots=[0, 2],
        nodes_featureids=[0, 1, 1], leaf_targetids=[0, 1, 1, 0], nodes_truenodeids=[1, 0, 2], nodes_trueleafs=[0, 1, 1],
        nodes_falsenodeids=[1, 3, 3], nodes_falseleafs=[1, 1, 1],
        **{name: numpy_helper.from_array(array) for name, array in tensors.items()},
    )  # fmt: skip
    model_file = model([node], 2, [("y", TensorProto.FLOAT)])
    model_file.opset_import[1].version = 5
    x = np.array([[a, b] for a in (0.4, 0.5, 0.6) for b in (-1.5, -1.0, 0, 2.0, 2.5)], np.float32)
    check(model_file, x, tmp_path)


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"nodes_modes": ["BRANCH_MEMBER"]}, "mode"),
        ({"nodes_truenodeids": [0]}, "lists|different lengths"),
        ({"nodes_featureids": [99]}, "feature 99 of 2"),
        ({"nodes_values": [float("nan")]}, "NaN"),
        ({"class_ids": [9]}, "columns"),
        ({"post_transform": "PROBIT"}, "PROBIT"),
    ],
    ids=str,
)
def test_what_is_refused(changed: dict, message: str, tmp_path: Path) -> None:
    trees = Trees(np.random.default_rng(5), 2, range(3)).grow(1, 1, 0.25, vote)
    attributes = trees.attributes("class")
    for name, value in changed.items():
        attributes[name] = value + attributes[name][1:] if isinstance(value, list) and value != [0] else value
    node = helper.make_node(
        "TreeEnsembleClassifier", ["x"], ["label", "scores"], **ML, **attributes, classlabels_int64s=[0, 1, 2]
    )
    with pytest.raises(TinycError, match=message):
        load_model(saved(model([node], 2, CLASS), tmp_path))
