# SPDX-License-Identifier: Apache-2.0
"""Support vector machines, nearest neighbours and naive Bayes decide as ONNX Runtime does, in float32."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import TensorProto, helper, numpy_helper

from tests.load.onnx_forests import model, saved
from tests.load.onnx_vectors import FEATURES, classifier, naive_bayes, neighbours, regressor
from tests.load.test_onnx_trees import theirs
from tinyc import api
from tinyc.base.errors import TinycError
from tinyc.base.numerics import Numerics
from tinyc.ir.graph import Graph
from tinyc.load import load_model
from tinyc.passes import normalize
from tinyc.quantize import Calibration, quantize_model
from tinyc.reference.interpreter import prepare_int

KERNELS = ("LINEAR", "POLY", "RBF", "SIGMOID")


def check(model_file: onnx.ModelProto, folder: Path, features: int = FEATURES, count: int = 60) -> Graph:
    """Asserts that in float32 labels are equal, and reals near ONNX Runtime's."""
    graph = normalize(load_model(saved(model_file, folder)), True)
    run = prepare_int(graph, Numerics.OURS)
    x = (1.5 * np.random.default_rng(1).standard_normal((count, features))).astype(np.float32)
    rows = [run({"x": row[None]}) for row in x]
    for name, want in zip(graph.outputs, theirs(model_file, x), strict=True):
        got = np.concatenate([row[name] for row in rows])
        assert got.shape == want.shape
        if want.dtype.kind == "i":
            assert len(np.unique(want)) > 1
            np.testing.assert_array_equal(got, want)
        else:
            np.testing.assert_allclose(got, want, rtol=2e-5, atol=1e-5)
    return graph


@pytest.mark.parametrize("kernel", KERNELS)
@pytest.mark.parametrize("counts", [[4, 3], [3, 5, 1, 4]], ids=["two", "four"])
@pytest.mark.parametrize("proba", [False, True], ids=["sums", "probabilities"])
def test_classifier(kernel: str, counts: list[int], proba: bool, tmp_path: Path) -> None:
    rng = np.random.default_rng(len(counts) + 10 * proba)
    graph = check(classifier(rng, kernel, counts, proba=proba), tmp_path)
    assert ("pair_coupling" in {node.op for node in graph.nodes}) == proba


def test_linear_vectors_become_a_row_for_each_pair(tmp_path: Path) -> None:
    model_file = classifier(np.random.default_rng(3), "LINEAR", [40, 30, 20])
    graph = normalize(load_model(saved(model_file, tmp_path)), True)
    shapes = {graph.values[node.inputs[1]].shape for node in graph.nodes if node.op == "fully_connected"}
    assert (3, FEATURES) in shapes
    assert max(n for shape in shapes for n in shape) <= FEATURES


@pytest.mark.parametrize("kernel", KERNELS)
@pytest.mark.parametrize("one_class", [False, True], ids=["sum", "one_class"])
def test_regressor(kernel: str, one_class: bool, tmp_path: Path) -> None:
    check(regressor(np.random.default_rng(5), kernel, 7, one_class=one_class), tmp_path)


def test_regressor_without_vectors(tmp_path: Path) -> None:
    check(regressor(np.random.default_rng(6), "LINEAR", 0), tmp_path)


@pytest.mark.parametrize(("metric", "weighted"), [("euclidean", False), ("sqeuclidean", True), ("cityblock", True)])
def test_neighbours(metric: str, weighted: bool, tmp_path: Path) -> None:
    check(neighbours(np.random.default_rng(7), 20, 4, metric, weighted=weighted), tmp_path)


@pytest.mark.parametrize("metric", ["euclidean", "sqeuclidean"])
def test_distances_of_onnxruntimes_own_operator(metric: str, tmp_path: Path) -> None:
    rows = numpy_helper.from_array(np.random.default_rng(8).standard_normal((9, FEATURES)).astype(np.float32), "rows")
    node = helper.make_node("CDist", ["x", "rows"], ["y"], domain="com.microsoft", metric=metric)
    model_file = model([node], FEATURES, [("y", TensorProto.FLOAT)], [rows])
    model_file.opset_import.append(helper.make_opsetid("com.microsoft", 1))
    check(model_file, tmp_path)


def test_naive_bayes(tmp_path: Path) -> None:
    model_file = naive_bayes(np.random.default_rng(9), 4)
    check(model_file, tmp_path)
    data = np.random.default_rng(1).standard_normal((32, FEATURES)).astype(np.float32)
    with pytest.raises(TinycError) as refused:  # the class is a real in the file, which int8 would not hold
        api.build(
            saved(model_file, tmp_path),
            "host",
            out=tmp_path / "int8",
            calibration=data,
            precision="integer",
            proof=False,
        )
    assert "--precision float32" in refused.value.hint


MODELS = {
    "svm": lambda rng: classifier(rng, "RBF", [2, 1, 2], proba=True),
    "knn": lambda rng: neighbours(rng, 6, 3),
    "bayes": lambda rng: naive_bayes(rng, 2),
}
QUICK = [("cortex-m4", "svm"), ("cortex-m0plus", "knn")]
SLOW = [
    (board, kind)
    for board in ("cortex-m4", "cortex-m0plus", "cortex-m3", "cortex-m55", "riscv32imc")
    for kind in MODELS
    if (board, kind) not in QUICK
]


@pytest.mark.parametrize(("board", "kind"), [*QUICK, *(pytest.param(*case, marks=pytest.mark.slow) for case in SLOW)])
def test_on_boards(board: str, kind: str, tmp_path: Path) -> None:
    """The reference's bytes on the emulated core; those without FPU compute in software."""
    path = saved(MODELS[kind](np.random.default_rng(11)), tmp_path)
    assert api.verify(path, board, precision="float32", samples=2).passed


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"kernel_type": "OTHER"}, "kernel 'OTHER'"),
        ({"kernel_type": "POLY", "kernel_params": [0.1, 0.0, 2.5]}, "degree 2.5"),
        ({"rho": [0.0]}, "1 numbers 'rho' for 3 pairs"),
        ({"vectors_per_class": [1, 2]}, "3 classes, and support vectors of 2"),
        ({"vectors_per_class": [1, 2, 9]}, "coefficients for 12 support vectors"),
        ({"post_transform": "SOFTMAX"}, "post_transform 'SOFTMAX'"),
    ],
    ids=str,
)
def test_what_is_refused(changed: dict, message: str, tmp_path: Path) -> None:
    model_file = classifier(np.random.default_rng(2), "RBF", [2, 2, 2])
    node = model_file.graph.node[0]
    unchanged = [attribute for attribute in node.attribute if attribute.name not in changed]
    del node.attribute[:]
    node.attribute.extend([*unchanged, *(helper.make_attribute(name, value) for name, value in changed.items())])
    with pytest.raises(TinycError, match=message):
        load_model(saved(model_file, tmp_path))


def test_a_loop_of_anything_else_is_unrolled(tmp_path: Path) -> None:
    """Its body and the graph around it have a tensor of one name, `far`."""
    model_file = neighbours(np.random.default_rng(2), 5, 2)
    body = model_file.graph.node[0].attribute[0].g
    next(node for node in body.node if node.op_type == "Sub").op_type = "Add"
    graph = check(model_file, tmp_path)
    assert "distance" not in {node.op for node in graph.nodes}


def test_one_hot_of_numbers_that_are_no_category(tmp_path: Path) -> None:
    """All of it 0, as ONNX Runtime has it; reals count as the integers below them."""
    nodes = [
        helper.make_node("Cast", ["x"], ["whole"], to=TensorProto.INT64),
        helper.make_node("OneHotEncoder", ["whole"], ["y"], cats_int64s=[-2, 0, 1, 7], zeros=1, domain="ai.onnx.ml"),
        helper.make_node("OneHotEncoder", ["x"], ["z"], cats_int64s=[1, 3, 0], zeros=1, domain="ai.onnx.ml"),
    ]
    model_file = model(nodes, 3, [("y", TensorProto.FLOAT), ("z", TensorProto.FLOAT)])
    graph = normalize(load_model(saved(model_file, tmp_path)), True)
    run = prepare_int(graph, Numerics.OURS)
    x = np.array([[-2, 0, 7], [5, 1, -1], [1.75, 3.5, 0.25]], np.float32)
    reference = dict(zip(graph.outputs, theirs(model_file, x), strict=True))
    assert reference["y"].any()
    for k, row in enumerate(x):
        got = run({"x": row[None]})
        for name, want in reference.items():
            np.testing.assert_array_equal(got[name][0], want[k])


@pytest.mark.parametrize("shape", [(3, 4), (2, 3, 4)])
def test_columns_of_a_table_at_computed_places(shape: tuple[int, ...], tmp_path: Path) -> None:
    """As forests of several outputs and CategoricalNB look up their numbers."""
    table = np.random.default_rng(5).normal(size=shape).astype(np.float32)
    nodes = [
        helper.make_node("Cast", ["x"], ["places"], to=TensorProto.INT64),
        helper.make_node("ArrayFeatureExtractor", ["table", "places"], ["y"], domain="ai.onnx.ml"),
    ]
    model_file = model(nodes, 2, [("y", TensorProto.FLOAT)], [numpy_helper.from_array(table, "table")])
    run = prepare_int(normalize(load_model(saved(model_file, tmp_path)), True), Numerics.OURS)
    for places in ([0, 3], [2, 2]):
        x = np.array([places], np.float32)
        (reference,) = theirs(model_file, x)
        np.testing.assert_array_equal(run({"x": x})["y"], reference)


def test_calibration_that_onnxruntime_refuses(tmp_path: Path) -> None:
    """Places in tables beyond their ends, and a layer of reals behind them."""
    table = numpy_helper.from_array(np.ones((1, 4), np.float32), "table")
    weights = numpy_helper.from_array(np.ones((2, 3), np.float32), "weights")
    nodes = [
        helper.make_node("ArrayFeatureExtractor", ["table", "x"], ["found"], domain="ai.onnx.ml"),
        helper.make_node("MatMul", ["found", "weights"], ["y"]),
    ]
    model_file = model(nodes, 2, [("y", TensorProto.FLOAT)], [table, weights])
    model_file.graph.input[0].type.tensor_type.elem_type = TensorProto.INT64
    graph = normalize(load_model(saved(model_file, tmp_path)))
    x = np.full((40, 1, 2), 9, np.int32)
    x[0] = 1  # a model that does not even run once is one that onnxruntime lacks something of
    calibration = Calibration({"x": x}, "test", proven=True, model=tmp_path / "forest.onnx")
    with pytest.raises(TinycError, match=r"onnxruntime does not run the model on a calibration sample: .*range"):
        quantize_model(graph, calibration)


@pytest.mark.parametrize("zipped", [False, True])
def test_classes_with_names_are_quantized(zipped: bool, tmp_path: Path) -> None:
    """What ONNX Runtime gives as texts, or as a list of maps, is not compared with the model's numbers."""
    ml = {"domain": "ai.onnx.ml"}
    weights = np.random.default_rng(6).normal(size=6).tolist()
    names = ["red", "green", "blue"]
    linear = {"coefficients": weights, "intercepts": [0.1, 0.2, 0.3], "post_transform": "SOFTMAX"}
    nodes = [helper.make_node("LinearClassifier", ["x"], ["label", "p"], classlabels_strings=names, **linear, **ml)]
    outputs = [("label", TensorProto.STRING), ("p", TensorProto.FLOAT)]
    if zipped:
        nodes.append(helper.make_node("ZipMap", ["p"], ["maps"], classlabels_strings=names, **ml))
        outputs[1] = ("maps", TensorProto.UNDEFINED)
    model_file = model(nodes, 2, outputs)
    if zipped:
        maps = helper.make_map_type_proto(TensorProto.STRING, helper.make_tensor_type_proto(TensorProto.FLOAT, []))
        model_file.graph.output[1].type.CopyFrom(helper.make_sequence_type_proto(maps))
    x = np.random.default_rng(7).normal(size=(40, 1, 2)).astype(np.float32)
    built = api.build(
        saved(model_file, tmp_path), "host", calibration=x, out=tmp_path / "out", precision="integer", proof=False
    )
    library = built.load()
    session = onnxruntime.InferenceSession(model_file.SerializeToString())
    agreed = 0
    for row in x:
        label, _ = library.run(row[0])
        (text,) = session.run(["label"], {"x": row})[0]
        agreed += names[int(label[0])] == text
    assert agreed >= len(x) - 2


def test_missing_numbers_before_a_linear_model(tmp_path: Path) -> None:
    ml = {"domain": "ai.onnx.ml"}
    numbers = np.random.default_rng(8).normal(size=9)
    nodes = [
        helper.make_node(
            "Imputer", ["x"], ["filled"], imputed_value_floats=[0.5, -1.0, 3.0], replaced_value_float=np.nan, **ml
        ),
        helper.make_node("Scaler", ["filled"], ["scaled"], offset=[0.1, 2.0, -0.3], scale=[3.0, -0.7, 1.5], **ml),
        helper.make_node("LinearRegressor", ["scaled"], ["y"], coefficients=numbers[:3].tolist(), **ml),
    ]
    model_file = model(nodes, 3, [("y", TensorProto.FLOAT)])
    run = prepare_int(normalize(load_model(saved(model_file, tmp_path)), True), Numerics.OURS)
    x = np.random.default_rng(9).normal(size=(20, 3)).astype(np.float32)
    x[np.random.default_rng(10).random(x.shape) < 0.3] = np.nan
    (reference,) = theirs(model_file, x)
    assert np.isnan(x).any()
    assert not np.isnan(reference).any()
    for row, want in zip(x, reference, strict=True):
        np.testing.assert_allclose(run({"x": row[None]})["y"][0], want, rtol=1e-5, atol=1e-5)
    built = api.build(tmp_path / "forest.onnx", "host", precision="float32", out=tmp_path / "out", proof=False)
    assert built.folder.exists()
