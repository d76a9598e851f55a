# SPDX-License-Identifier: Apache-2.0
"""Inputs without calibration data: of the size that the first layer with biases was trained for."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import helper, numpy_helper

from tinyc.base.errors import TinycError
from tinyc.ir.graph import Array, Graph
from tinyc.load.onnx import load_onnx
from tinyc.options.recipe import Recipe
from tinyc.passes import normalize
from tinyc.quantize import calibrate, quantize
from tinyc.quantize.synthetic import first_norm

MEAN, DEVIATION = 70.0, 20.0  # of what the model was trained with


def model(folder: Path, *, folded: bool, first: str = "") -> Path:
    """Conv, batch norm trained on inputs of MEAN and DEVIATION, relu, mean; the norm folded into the convolution, or
    apart with gammas of 3 and betas of 5. first: an operator before it."""
    rng = np.random.default_rng(2)
    w = rng.normal(0, 0.1, (24, 3, 3, 3)) + rng.normal(0, 0.1, (24, 1, 1, 1))
    mean = MEAN * w.sum(axis=(1, 2, 3))
    deviation = DEVIATION * np.sqrt(np.square(w).sum(axis=(1, 2, 3)))
    arrays = {"w": w, "b": np.zeros(24)}
    if folded:
        arrays = {"w": w / deviation[:, None, None, None], "b": -mean / deviation}
    else:
        arrays |= {"gamma": np.full(24, 3.0), "beta": np.full(24, 5.0), "mean": mean, "variance": deviation**2}
    nodes = [helper.make_node(first, ["x"], ["x1"])] if first else []
    nodes.append(helper.make_node("Conv", ["x1" if first else "x", "w", "b"], ["c"]))
    if not folded:
        nodes.append(helper.make_node("BatchNormalization", ["c", "gamma", "beta", "mean", "variance"], ["n"]))
    nodes += [
        helper.make_node("Relu", ["c" if folded else "n"], ["r"]),
        helper.make_node("GlobalAveragePool", ["r"], ["y"]),
    ]
    ports = [
        helper.make_tensor_value_info(name, onnx.TensorProto.FLOAT, shape)
        for name, shape in (("x", [1, 3, 20, 20]), ("y", [1, 24, 1, 1]))
    ]
    weights = [numpy_helper.from_array(array.astype(np.float32), name) for name, array in arrays.items()]
    graph = helper.make_graph(nodes, "g", ports[:1], ports[1:], weights)
    path = folder / "model.onnx"
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), path)
    return path


def first_inputs(path: Path) -> tuple[Graph, Array]:
    graph = normalize(load_onnx(path))
    calibration = calibrate(path, graph, None)
    assert not calibration.proven
    return graph, calibration.inputs["x"]


@pytest.mark.parametrize("folded", [True, False])
def test_inputs_are_those_that_the_norm_was_trained_with(tmp_path: Path, folded: bool) -> None:
    """Also where gammas and betas are apart, and say that outputs have another mean and deviation than 0 and 1."""
    _, x = first_inputs(model(tmp_path, folded=folded))
    assert x.mean() == pytest.approx(MEAN, rel=0.15)
    assert x.std() == pytest.approx(DEVIATION, rel=0.15)


def test_what_is_not_linear_before_the_first_layer_leaves_noise_as_it_is(tmp_path: Path) -> None:
    _, x = first_inputs(model(tmp_path, folded=True, first="Abs"))
    assert abs(x.mean()) < 0.1
    assert x.std() == pytest.approx(1, rel=0.1)


def test_a_norm_in_a_file_of_its_own_says_nothing(tmp_path: Path) -> None:
    """Nothing beside the model's file is opened a second time, wherever it points to."""
    path = model(tmp_path, folded=False)
    proto = onnx.load(path)
    onnx.save(proto, path, save_as_external_data=True, location="weights.bin", size_threshold=0)
    assert first_norm(path) is None
    _, x = first_inputs(path)
    assert np.isfinite(x).all()


def test_a_norm_behind_a_later_layer_says_nothing_of_the_first(tmp_path: Path) -> None:
    path = model(tmp_path, folded=False)
    assert first_norm(path) is not None
    proto = onnx.load(path)
    nodes = [helper.make_node("Conv", ["x", "square", "none"], ["x1"]), *proto.graph.node]
    nodes[1].input[0] = "x1"
    del proto.graph.node[:]
    proto.graph.node.extend(nodes)
    for name, shape in (("square", (3, 3, 1, 1)), ("none", (3,))):
        proto.graph.initializer.append(numpy_helper.from_array(np.ones(shape, np.float32), name))
    onnx.save(proto, path)
    assert first_norm(path) is None


def test_ranges_hold_what_real_inputs_are(tmp_path: Path) -> None:
    path = model(tmp_path, folded=True)
    graph, _ = first_inputs(path)
    integer = quantize(graph, calibrate(path, graph, None)).graph
    quant = integer.values["x"].quant
    assert quant is not None
    least, most = quant.dequantize(np.array([-128, 127]))
    assert least < MEAN - 3 * DEVIATION
    assert most > MEAN + 3 * DEVIATION


def test_a_budget_that_cannot_be_kept_is_said_before_the_search(tmp_path: Path) -> None:
    path = model(tmp_path, folded=True)
    graph, _ = first_inputs(path)
    heard: list[str] = []
    recipe, calibration = Recipe(weights="auto", weight_bytes=323), calibrate(path, graph, None)
    with pytest.raises(TinycError, match="324 bytes, the budget for weights is 323: 1 too few"):
        quantize(graph, calibration, recipe, lambda what, share: heard.append(what))
    assert not heard


def test_a_budget_of_ram_that_cannot_be_kept_is_said_before_the_search(tmp_path: Path) -> None:
    path = model(tmp_path, folded=True)
    graph, _ = first_inputs(path)
    heard: list[str] = []
    calibration = calibrate(path, graph, None)
    with pytest.raises(TinycError, match=r"take ([\d,]+) bytes even in int8, the budget for them is 7") as refused:
        quantize(graph, calibration, Recipe(activations="auto", ram_bytes=7), lambda what, share: heard.append(what))
    assert not heard
    least = int(str(refused.value).split(" take ")[1].split(" bytes")[0].replace(",", ""))
    with pytest.raises(TinycError, match=f"{least:,} bytes"):
        quantize(graph, calibration, Recipe(activations="auto", ram_bytes=least - 1))
    quantize(graph, calibration, Recipe(activations="auto", ram_bytes=least))
