# SPDX-License-Identifier: Apache-2.0
"""What files compute of the leaves of trees: averages, votes, medians and tables of them, as scikit-learn's ensembles
are exported, beside ONNX Runtime, on thresholds and beside them."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper
from onnx.reference import ReferenceEvaluator

import tinyc
from tests.load.onnx_forests import Trees, model, saved
from tests.load.test_onnx_trees import CLASS, ML, check, theirs, vote
from tinyc.base.errors import TinycError
from tinyc.base.numerics import Numerics
from tinyc.load import load_model
from tinyc.passes import normalize
from tinyc.reference.interpreter import prepare_int

VALUE = [("y", TensorProto.FLOAT)]


def ours(folder: Path, x: np.ndarray) -> np.ndarray:
    """The one output of the built model for each row of x."""
    return np.asarray(tinyc.load(folder).run(x)).reshape(len(x), -1)


def members(rng: np.random.Generator, count: int, columns: int) -> tuple[list[onnx.NodeProto], Trees]:
    """(classifiers of one tree each, with outputs label{k} and scores{k}, over 5 features; one of them)."""
    nodes = []
    for k in range(count):
        trees = Trees(rng, 5, range(columns)).grow(1, 5, 0.25, vote)
        nodes.append(helper.make_node(
            "TreeEnsembleClassifier", ["x"], [f"label{k}", f"scores{k}"], **ML, **trees.attributes("class"),
            classlabels_int64s=list(range(columns)),
        ))  # fmt: skip
    return nodes, trees


def bagging(rng: np.random.Generator) -> tuple[list[onnx.NodeProto], list[onnx.TensorProto], Trees]:
    """The mean of the scores of single trees, and the class that has most, as BaggingClassifier is exported."""
    nodes, trees = members(rng, 8, 3)
    for k in range(8):
        nodes.append(helper.make_node("Reshape", [f"scores{k}", "shape"], [f"reshaped{k}"]))
    nodes += [
        helper.make_node("Concat", [f"reshaped{k}" for k in range(8)], ["merged"], axis=0),
        helper.make_node("ReduceMean", ["merged"], ["scores"], axes=[0], keepdims=0),
        helper.make_node("ArgMax", ["scores"], ["most"], axis=1),
        helper.make_node("ArrayFeatureExtractor", ["classes", "most"], ["taken"], **ML),
        helper.make_node("Reshape", ["taken", "flat"], ["label"]),
    ]
    shapes = {"shape": [1, -1, 3], "flat": [-1], "classes": [4, -2, 7]}
    return nodes, [numpy_helper.from_array(np.array(a, np.int64), n) for n, a in shapes.items()], trees


def boosted(rng: np.random.Generator) -> tuple[list[onnx.NodeProto], list[onnx.TensorProto], Trees]:
    """Weighted votes for the class that each tree names, as AdaBoostClassifier is exported."""
    nodes, trees = members(rng, 6, 3)
    consts = {"classes": np.array([[0, 1, 2]]), "one": np.ones((1, 3), np.float32), "other": np.float32([-0.5])}
    for k in range(6):
        consts[f"weight{k}"] = np.float32([rng.integers(1, 9) / 4])
        nodes += [
            helper.make_node("ArgMax", [f"scores{k}"], [f"most{k}"], axis=1),
            helper.make_node("Equal", [f"most{k}", "classes"], [f"is{k}"]),
            helper.make_node("Where", [f"is{k}", "one", "other"], [f"vote{k}"]),
            helper.make_node("Mul", [f"vote{k}", f"weight{k}"], [f"weighted{k}"]),
        ]
    nodes += [
        helper.make_node("Sum", [f"weighted{k}" for k in range(6)], ["scores"]),
        helper.make_node("ArgMax", ["scores"], ["label"], axis=1, keepdims=0),
    ]
    return nodes, [numpy_helper.from_array(array, name) for name, array in consts.items()], trees


@pytest.mark.parametrize("make", [bagging, boosted])
def test_many_classifiers_become_one_ensemble(make, tmp_path: Path) -> None:
    nodes, consts, trees = make(np.random.default_rng(1))
    graph = check(model(nodes, 5, CLASS, consts), trees.samples(200), tmp_path)
    assert [node.op for node in graph.nodes].count("tree_ensemble") == 1
    assert {node.op for node in graph.nodes} <= {"tree_ensemble", "argmax", "gather", "reshape"}


def test_a_joined_ensemble_on_a_board(tmp_path: Path) -> None:
    """Reference, C with sanitizers and the emulated board are equal to the byte, and decide as ONNX Runtime does."""
    nodes, consts, trees = bagging(np.random.default_rng(2))
    model_file, x = model(nodes, 5, CLASS, consts), trees.samples(69)[9:]
    built = tinyc.build(saved(model_file, tmp_path), "cortex-m0plus", out=tmp_path / "built", inputs=x[:20])
    assert built.report.passed
    label, _ = tinyc.load(tmp_path / "built").run(x)
    np.testing.assert_array_equal(label.ravel(), theirs(model_file, x)[0])


def test_anything_of_one_tree_is_a_table_of_its_leaves(tmp_path: Path) -> None:
    """Sums of logarithms of what each of two trees says; the exponential behind the sum is computed on the board."""
    nodes, trees = members(np.random.default_rng(3), 2, 2)
    for k in range(2):
        nodes += [
            helper.make_node("Abs", [f"scores{k}"], [f"size{k}"]),
            helper.make_node("Add", [f"size{k}", "one"], [f"above{k}"]),
            helper.make_node("Log", [f"above{k}"], [f"log{k}"]),
        ]
    nodes += [
        helper.make_node("Add", ["log0", "log1"], ["sum"]),
        helper.make_node("Pow", ["base", "sum"], ["y"]),
    ]
    consts = [numpy_helper.from_array(np.float32([n]), name) for name, n in (("one", 1), ("base", 2))]
    model_file, x = model(nodes, 5, VALUE, consts), trees.samples(69)[9:]
    graph = normalize(load_model(saved(model_file, tmp_path)))
    assert [node.op for node in graph.nodes] == ["tree_ensemble", "dequantize", "function"]
    built = tinyc.build(tmp_path / "forest.onnx", "cortex-m4", out=tmp_path / "b", inputs=x[:20], precision="float32")
    assert built.report.passed
    np.testing.assert_allclose(ours(tmp_path / "b", x), theirs(model_file, x)[0], rtol=1e-6)


def test_a_median_of_trees_stays_apart(tmp_path: Path) -> None:
    """As AdaBoostRegressor is exported: trees side by side would be one wide row of leaves each."""
    rng, nodes = np.random.default_rng(4), []
    for k in range(7):
        trees = Trees(rng, 5, [0]).grow(1, 4, 0.25, vote)
        nodes.append(
            helper.make_node("TreeEnsembleRegressor", ["x"], [f"y{k}"], **ML, **trees.attributes("target"), n_targets=1)
        )
    nodes += [
        helper.make_node("Concat", [f"y{k}" for k in range(7)], ["all"], axis=1),
        helper.make_node("TopK", ["all", "seven"], ["sorted", "places"]),
        helper.make_node("Slice", ["places", "three", "four", "one"], ["middle"]),
        helper.make_node("GatherElements", ["all", "middle"], ["y"], axis=1),
    ]
    numbers = {"seven": 7, "three": 3, "four": 4, "one": 1}
    consts = [numpy_helper.from_array(np.array([n], np.int64), name) for name, n in numbers.items()]
    model_file, x = model(nodes, 5, VALUE, consts), trees.samples(69)[9:]
    file = saved(model_file, tmp_path)
    built = tinyc.build(file, "cortex-m4", out=tmp_path / "b", inputs=x[:20], precision="float32")
    assert built.report.passed
    np.testing.assert_array_equal(ours(tmp_path / "b", x), theirs(model_file, x)[0])


def values(aggregate: str, post: str, leaf=lambda r: r.integers(1, 8) / 64) -> tuple[onnx.ModelProto, np.ndarray]:
    trees = Trees(np.random.default_rng(6), 4, [0]).grow(5, 4, 0.25, leaf)
    node = helper.make_node(
        "TreeEnsembleRegressor", ["x"], ["y"], **ML, **trees.attributes("target"), n_targets=1,
        aggregate_function=aggregate, post_transform=post, base_values=[0.0625],
    )  # fmt: skip
    return model([node], 4, VALUE), trees.samples(159)[9:]


@pytest.mark.parametrize("aggregate", ["MIN", "MAX"])
def test_least_and_largest_of_trees(aggregate: str, tmp_path: Path) -> None:
    model_file, x = values(aggregate, "NONE", lambda r: np.float32(r.normal(0, 9)))
    check(model_file, x, tmp_path, 1e-5)
    assert tinyc.build(tmp_path / "forest.onnx", "cortex-m4", out=tmp_path / "b", inputs=x[:20]).report.passed


def test_probit(tmp_path: Path) -> None:
    model_file, x = values("SUM", "PROBIT")
    file = saved(model_file, tmp_path)
    built = tinyc.build(file, "cortex-m4", out=tmp_path / "b", inputs=x[:20], precision="float32")
    assert built.report.passed
    np.testing.assert_allclose(ours(tmp_path / "b", x), theirs(model_file, x)[0], rtol=2e-5, atol=2e-6)


def test_probit_of_a_linear_model(tmp_path: Path) -> None:
    node = helper.make_node(
        "LinearRegressor", ["x"], ["y"], **ML, coefficients=[0.25, -0.125], intercepts=[0.5], post_transform="PROBIT"
    )
    model_file, x = model([node], 2, VALUE), np.random.default_rng(0).uniform(-1, 1, (50, 2)).astype(np.float32)
    built = tinyc.build(saved(model_file, tmp_path), "host", out=tmp_path / "b", inputs=x[:20], precision="float32")
    assert built.report.passed
    np.testing.assert_allclose(ours(tmp_path / "b", x), theirs(model_file, x)[0], rtol=2e-5, atol=2e-6)


def asks_for_members(sets: list[float], tracks: int) -> onnx.ModelProto:
    """One tree whose second feature is looked for in two sets, the first or the second by its first feature."""
    tensors = {
        "nodes_splits": np.array([0.5, 0, 0], np.float32),
        "nodes_modes": np.array([0, 6, 6], np.uint8),
        "leaf_weights": np.array([0.5, -1.25, 3.0, 0.75], np.float32),
        "membership_values": np.array(sets, np.float32),
    }
    node = helper.make_node(
        "TreeEnsemble", ["x"], ["y"], **ML, n_targets=1, aggregate_function=1, post_transform=0, tree_roots=[0],
        nodes_featureids=[0, 1, 1], leaf_targetids=[0, 0, 0, 0], nodes_truenodeids=[1, 0, 2], nodes_trueleafs=[0, 1, 1],
        nodes_falsenodeids=[2, 1, 3], nodes_falseleafs=[0, 1, 1], nodes_missing_value_tracks_true=[0, tracks, tracks],
        **{name: numpy_helper.from_array(array) for name, array in tensors.items()},
    )  # fmt: skip
    model_file = model([node], 2, VALUE)
    model_file.opset_import[1].version = 5
    return model_file


@pytest.mark.parametrize("tracks", [0, 1])
def test_sets_of_whole_numbers(tracks: int, tmp_path: Path) -> None:
    """ONNX Runtime takes no others."""
    model_file = asks_for_members([3, 12, 7, 8, np.nan, 1, np.nan], tracks)
    x = np.array([[a, b] for a in (0.4, 0.6) for b in (*range(-3, 40), 1e9, -1e9)], np.float32)
    check(model_file, x, tmp_path)


def test_sets_of_any_numbers(tmp_path: Path) -> None:
    model_file = asks_for_members([3, -1.5, 7, np.nan, 5.5, np.nan], 0)
    sizes = [3, -1.5, 7, 5.5, 0.0, -0.0, 2.9999998, 3.0000002, -1.5000001, 8, -9, np.inf, -np.inf, np.nan]
    x = np.array([[a, b] for a in (0.4, 0.6) for b in sizes], np.float32)
    graph = normalize(load_model(saved(model_file, tmp_path)))
    run = prepare_int(graph, Numerics.ONNX)
    got = np.concatenate([run({"x": row[None]})["y"] for row in x])
    (want,) = ReferenceEvaluator(model_file).run(None, {"x": x})
    np.testing.assert_array_equal(graph.values["y"].quant.dequantize(got), want)


def encoder(keys: dict, elem: int, count: int, opset: int = 2) -> onnx.ModelProto:
    node = helper.make_node("LabelEncoder", ["x"], ["y"], **ML, **keys)
    kind = TensorProto.FLOAT if "values_floats" in keys else TensorProto.INT64
    model_file = model([node], count, [("y", kind)])
    model_file.opset_import[1].version = opset
    model_file.graph.input[0].type.tensor_type.elem_type = elem
    return model_file


@pytest.mark.parametrize(
    "values",
    [
        {"values_int64s": [5, -7, 123456789, 0], "default_int64": -3},
        {"values_floats": [1e-6, 3e5, -0.1, 7.0], "default_float": 0.5},
    ],
    ids=["integers", "floats"],
)
@pytest.mark.parametrize(("last", "opset"), [(4.0, 2), (float("nan"), 2), (float("nan"), 4)])
def test_labels_of_floats(values: dict, last: float, opset: int, tmp_path: Path) -> None:
    model_file = encoder({"keys_floats": [0.1, -2.5, 0.0, last], **values}, TensorProto.FLOAT, 2, opset)
    hits = np.float32([0.1, -2.5, 0.0, -0.0, 4.0])
    near = [*hits, *np.nextafter(hits, np.float32(9)), *np.nextafter(hits, np.float32(-9))]
    x = np.array([[a, b] for b in (0.1, -0.0, 4.0) for a in near], np.float32)
    odd = np.array([[a, b] for a in (np.nan, np.inf, -np.inf) for b in (0.1, np.nan, np.inf)], np.float32)
    check(model_file, np.concatenate([x, odd]), tmp_path)
    precision = "float32" if "values_floats" in values else "integer"
    built = tinyc.build(tmp_path / "forest.onnx", "cortex-m4", out=tmp_path / "b", inputs=x[:20], precision=precision)
    assert built.report.passed
    np.testing.assert_array_equal(ours(tmp_path / "b", x), theirs(model_file, x)[0])


def test_one_tree_that_votes(tmp_path: Path) -> None:
    """Its scores are whole numbers; the model is one of integers all the same."""
    trees = Trees(np.random.default_rng(8), 4, [0]).grow(1, 4, 0.25, lambda r: 1.0)
    trees.weights = [(tree, at, int(at % 3), 1.0) for tree, at, _, _ in trees.weights]
    node = helper.make_node(
        "TreeEnsembleClassifier", ["x"], ["label", "scores"], **ML, **trees.attributes("class"),
        classlabels_int64s=[0, 1, 2],
    )  # fmt: skip
    model_file, x = model([node], 4, CLASS), trees.samples(69)[9:]
    assert tinyc.build(saved(model_file, tmp_path), "cortex-m4", out=tmp_path / "b", inputs=x[:20]).report.passed
    label, _ = tinyc.load(tmp_path / "b").run(x)
    np.testing.assert_array_equal(label.ravel(), theirs(model_file, x)[0])


def test_labels_of_integers(tmp_path: Path) -> None:
    model_file = encoder({"keys_int64s": [-5, 70000, 3], "values_int64s": [1, 2, 3]}, TensorProto.INT64, 1)
    x = np.array([[-5], [-4], [70000], [3], [2], [0], [2**31 - 1], [-(2**31)]])
    built = tinyc.build(saved(model_file, tmp_path), "cortex-m4", out=tmp_path / "b", inputs=x.astype(np.int32))
    assert built.report.passed
    got = ours(tmp_path / "b", x.astype(np.int32))
    np.testing.assert_array_equal(got, theirs(model_file, x)[0])


def test_texts_are_their_indices(tmp_path: Path) -> None:
    texts = {"values_strings": ["cat", "dog", "cat"], "default_string": "other"}
    model_file = encoder({"keys_floats": [1.0, 2.0, 3.0], **texts}, TensorProto.FLOAT, 1)
    model_file.graph.output[0].type.tensor_type.elem_type = TensorProto.STRING
    x = np.float32([[1], [2], [3], [4]])
    tinyc.build(saved(model_file, tmp_path), "host", out=tmp_path / "b", inputs=x)
    names = np.array(["cat", "dog", "other"])
    np.testing.assert_array_equal(names[ours(tmp_path / "b", x)], theirs(model_file, x)[0])


@pytest.mark.parametrize(
    ("keys", "message"),
    [
        ({"keys_strings": ["a"], "values_int64s": [1]}, "texts"),
        ({"keys_floats": [1.0], "values_int64s": [1, 2]}, "1 keys for 2"),
        ({"keys_floats": [1.0], "values_floats": [float("inf")]}, "infinite"),
        ({"keys_floats": [1.0], "values_int64s": [2**40]}, "int32"),
    ],
    ids=str,
)
def test_encoders_that_are_refused(keys: dict, message: str, tmp_path: Path) -> None:
    with pytest.raises(TinycError, match=message):
        load_model(saved(encoder(keys, TensorProto.FLOAT, 1), tmp_path))
