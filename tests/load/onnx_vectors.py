# SPDX-License-Identifier: Apache-2.0
"""Support vector machines, nearest neighbours and Gaussian naive Bayes, node by node as skl2onnx writes them, of random
numbers."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

from tests.load.onnx_forests import model

ML = {"domain": "ai.onnx.ml"}
LABELLED = [("label", TensorProto.INT64), ("probabilities", TensorProto.FLOAT)]
FEATURES = 5


def _reals(rng: np.random.Generator, *shape: int, scale: float = 1.0) -> list[float]:
    return (scale * rng.standard_normal(shape)).astype(np.float32).ravel().tolist()


def classifier(
    rng: np.random.Generator, kernel: str, counts: list[int], *, proba: bool = False, features: int = FEATURES
) -> onnx.ModelProto:
    """An SVMClassifier with so many vectors of each class. proba: with Platt's numbers."""
    classes, total = len(counts), sum(counts)
    per_pair = classes * (classes - 1) // 2
    given: dict[str, Any] = {}
    if proba:
        given = {"prob_a": [-2.0 - k for k in range(per_pair)], "prob_b": _reals(rng, per_pair, scale=0.3)}
    node = helper.make_node(
        "SVMClassifier", ["x"], ["label", "probabilities"], **ML, classlabels_ints=[3 * k - 4 for k in range(classes)],
        coefficients=_reals(rng, classes - 1, total, scale=0.3), kernel_params=[0.2, 0.5, 3.0], kernel_type=kernel,
        rho=_reals(rng, per_pair, scale=0.1), support_vectors=_reals(rng, total, features), vectors_per_class=counts,
        post_transform="NONE", **given,
    )  # fmt: skip
    return model([node], features, LABELLED)


def regressor(rng: np.random.Generator, kernel: str, count: int, *, one_class: bool = False) -> onnx.ModelProto:
    """An SVMRegressor; of no vectors it is a sum of the features."""
    vectors = {"support_vectors": _reals(rng, count, FEATURES)} if count else {}
    node = helper.make_node(
        "SVMRegressor", ["x"], ["y"], **ML, **vectors, coefficients=_reals(rng, count or FEATURES), kernel_type=kernel,
        kernel_params=[0.3, 0.1, 2.0], n_supports=count, rho=[0.3], post_transform="NONE", one_class=int(one_class),
    )  # fmt: skip
    return model([node], FEATURES, [("y", TensorProto.FLOAT)])


def _table(name: str, array: Any) -> onnx.TensorProto:
    return numpy_helper.from_array(np.asarray(array), name)


def _scan(metric: str) -> onnx.NodeProto:
    """Distances from the state `x` to each row of `rows`."""
    ports = [helper.make_tensor_value_info(name, TensorProto.FLOAT, None) for name in ("kept", "row", "same", "far")]
    named = [helper.make_node("Identity", ["kept"], ["same"]), helper.make_node("Identity", ["total"], ["far"])]
    apart = [helper.make_node("Sub", ["kept", "row"], ["apart"])]
    if metric == "cityblock":
        apart.append(helper.make_node("Abs", ["apart"], ["size"]))
        apart.append(helper.make_node("ReduceSum", ["size", "one"], ["total"], keepdims=0))
    else:
        apart.append(helper.make_node("ReduceSumSquare", ["apart"], ["total"], axes=[1], keepdims=0))
    axis = [_table("one", np.array([1]))] if metric == "cityblock" else []
    body = helper.make_graph([named[0], *apart, named[1]], "body", ports[:2], ports[2:], axis)
    return helper.make_node("Scan", ["x", "rows"], ["state", "distances"], body=body, num_scan_inputs=1)


def neighbours(
    rng: np.random.Generator, count: int, k: int, metric: str = "euclidean", *, weighted: bool = False
) -> onnx.ModelProto:
    """A KNeighborsClassifier of three classes. weighted: votes count by their distances."""
    nodes = [_scan(metric), helper.make_node("Transpose", ["distances"], ["across"], perm=[1, 0])]
    far = "across"
    if metric == "euclidean":
        nodes.append(helper.make_node("Sqrt", ["across"], ["far"]))
        far = "far"
    nodes += [
        helper.make_node("TopK", [far, "k"], ["near", "places"], largest=0, sorted=1),
        helper.make_node("Flatten", ["places"], ["flat"]),
        helper.make_node("ArrayFeatureExtractor", ["classes_of", "flat"], ["found"], **ML),
        helper.make_node("Reshape", ["found", "row"], ["votes"]),
    ]
    if weighted:
        nodes += [
            helper.make_node("Max", ["near", "tiny"], ["off"]),
            helper.make_node("Reciprocal", ["off"], ["weight"]),
        ]
    for c in range(3):
        nodes += [
            helper.make_node("Equal", ["votes", f"class{c}"], [f"is{c}"]),
            helper.make_node("Cast", [f"is{c}"], [f"one{c}"], to=TensorProto.FLOAT),
            helper.make_node("Mul", [f"one{c}", "weight"], [f"part{c}"]),
            helper.make_node("ReduceSum", [f"part{c}" if weighted else f"one{c}", "axis"], [f"sum{c}"], keepdims=1),
        ]
        nodes = [node for node in nodes if weighted or node.op_type != "Mul"]
    nodes += [
        helper.make_node("Concat", ["sum0", "sum1", "sum2"], ["sums"], axis=1),
        helper.make_node("ArgMax", ["sums"], ["best"], axis=1, keepdims=0),
        helper.make_node("ArrayFeatureExtractor", ["labels", "best"], ["named"], **ML),
        helper.make_node("Cast", ["named"], ["whole"], to=TensorProto.INT64),
        helper.make_node("Reshape", ["whole", "flat_row"], ["label"]),
        helper.make_node("ReduceSum", ["sums", "axis"], ["all"], keepdims=1),
        helper.make_node("Div", ["sums", "all"], ["probabilities"]),
    ]
    tables = {
        "rows": rng.standard_normal((count, FEATURES)).astype(np.float32), "k": np.array([k]),
        "classes_of": rng.integers(0, 3, count), "row": np.array([-1, k]), "axis": np.array([1]),
        "labels": np.array([7, -2, 5]), "flat_row": np.array([-1]), "tiny": np.array([1e-6], np.float32),
        **{f"class{c}": np.array([c]) for c in range(3)},
    }  # fmt: skip
    return model(nodes, FEATURES, LABELLED, [_table(name, array) for name, array in tables.items()])


def naive_bayes(rng: np.random.Generator, classes: int) -> onnx.ModelProto:
    """GaussianNB."""
    nodes = [
        helper.make_node("Reshape", ["x", "wide"], ["rows"]),
        helper.make_node("Sub", ["rows", "theta"], ["apart"]),
        helper.make_node("Pow", ["apart", "two"], ["squares"]),
        helper.make_node("Div", ["squares", "sigma"], ["scaled"]),
        helper.make_node("ReduceSum", ["scaled", "axis"], ["sums"], keepdims=0),
        helper.make_node("Mul", ["sums", "half"], ["halves"]),
        helper.make_node("Sub", ["log_sigma", "halves"], ["part"]),
        helper.make_node("Add", ["prior", "part"], ["joint"]),
        helper.make_node("ArgMax", ["joint"], ["best"], axis=1),
        helper.make_node("ArrayFeatureExtractor", ["classes", "best"], ["named"], **ML),
        helper.make_node("Cast", ["named"], ["real"], to=TensorProto.FLOAT),
        helper.make_node("Reshape", ["real", "row"], ["flat"]),
        helper.make_node("Cast", ["flat"], ["label"], to=TensorProto.INT64),
        helper.make_node("ReduceLogSumExp", ["joint"], ["log_all"], axes=[1], keepdims=0),
        helper.make_node("Reshape", ["log_all", "column"], ["all"]),
        helper.make_node("Sub", ["joint", "all"], ["log"]),
        helper.make_node("Exp", ["log"], ["probabilities"]),
    ]
    tables = {
        "wide": np.array([-1, 1, FEATURES]), "theta": rng.standard_normal((1, classes, FEATURES)).astype(np.float32),
        "two": np.array(2, np.float32), "sigma": rng.uniform(0.5, 2, (1, classes, FEATURES)).astype(np.float32),
        "axis": np.array([2]), "half": np.array(0.5, np.float32), "row": np.array([-1]), "column": np.array([-1, 1]),
        "log_sigma": rng.standard_normal((1, classes)).astype(np.float32),
        "prior": -rng.uniform(0.5, 2, (1, classes)).astype(np.float32),
        "classes": np.arange(classes, dtype=np.int32) + 4,
    }  # fmt: skip
    return model(nodes, FEATURES, LABELLED, [_table(name, array) for name, array in tables.items()])
