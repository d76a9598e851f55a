# SPDX-License-Identifier: Apache-2.0
"""Every ONNX operator beside ONNX Runtime, at random sizes and attributes; and what no importer looks at."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import helper, numpy_helper
from onnx.reference import ReferenceEvaluator

from tests.load.onnx_models import TOLERANCE, build, load, op, run_onnxruntime
from tests.load.onnx_random import GENERATORS, Case
from tinyc.base.errors import Loc, TinycError
from tinyc.ir.graph import Array, Graph
from tinyc.load.looked import Looked
from tinyc.load.onnx.every import IMPORTERS
from tinyc.load.onnx.file import OnnxNode
from tinyc.load.onnx.qoperator import SPELLINGS, spelled_out
from tinyc.passes import normalize
from tinyc.reference.interpreter import run_float

QUICK, MANY = 6, 150
TAKE_ANY_NUMBER = {"Concat", "Einsum", "Loop", "Max", "Mean", "Min", "Sum"}


def drawn(name: str, seed: int) -> tuple[Case, np.random.Generator]:
    rng = np.random.default_rng([seed, *name.encode()])
    return GENERATORS[name](rng), rng


def expected(case: Case, model: onnx.ModelProto, feeds: dict[str, Array]) -> dict[str, Array] | None:
    """What ONNX Runtime computes; None where it does not take the node."""
    try:
        return run_onnxruntime(model, feeds)
    except Exception:
        return None


def imported(model: onnx.ModelProto, folder: Path) -> Graph | None:
    try:
        return load(model, folder)
    except TinycError:
        return None


def compare(name: str, seed: int, folder: Path) -> bool:
    """Assert that tinyc, before and after the passes, computes what ONNX Runtime does. False where either refuses."""
    case, rng = drawn(name, seed)
    model, feeds = case.model(), case.feeds(rng)
    reference, graph = expected(case, model, feeds), imported(model, folder)
    if reference is None or graph is None or any(graph.values[x].dtype != "f32" for x in graph.inputs):
        return False
    for candidate in (graph, normalize(graph)):
        outputs = run_float(candidate, feeds)
        for output, array in reference.items():
            assert outputs[output].shape == array.shape, (name, seed, case)
            np.testing.assert_allclose(
                outputs[output], array, rtol=TOLERANCE, atol=TOLERANCE, err_msg=f"{name} {seed} {case.attributes}"
            )
    return True


def test_every_importer_has_a_generator() -> None:
    assert set(GENERATORS) == set(IMPORTERS)


@pytest.mark.quick_cases(55)
@pytest.mark.parametrize("name", sorted(GENERATORS))
def test_equals_onnxruntime(name: str, tmp_path: Path) -> None:
    compared = sum(compare(name, seed, tmp_path) for seed in range(QUICK))
    assert compared or name in (
        *("QuantizeLinear", "DequantizeLinear"),  # integer graphs: tests/load/test_onnx_quantized.py
        *(
            "CausalConvWithState",
            "LinearAttention",
            "SwiGLU",
        ),  # newer than ONNX Runtime: tests/load/test_onnx_standard_functions.py
    )


@pytest.mark.slow
@pytest.mark.parametrize("name", sorted(GENERATORS))
def test_equals_onnxruntime_often(name: str, tmp_path: Path) -> None:
    for seed in range(QUICK, MANY):
        compare(name, seed, tmp_path)


def accepted(name: str, folder: Path) -> onnx.ModelProto:
    """A model with the operator that tinyc imports."""
    for seed in range(100):
        model = drawn(name, seed)[0].model()
        if imported(model, folder) is not None:
            return model
    raise AssertionError(name)


@pytest.mark.parametrize("name", sorted(IMPORTERS))
def test_an_unknown_attribute_is_refused(name: str, tmp_path: Path) -> None:
    model = accepted(name, tmp_path)
    node = next(node for node in model.graph.node if node.op_type == name)
    node.attribute.append(helper.make_attribute("not_in_the_standard", 3))
    with pytest.raises(TinycError, match="'not_in_the_standard'") as caught:
        load(model, tmp_path)
    assert caught.value.hint
    assert caught.value.where
    assert caught.value.where.op == name


@pytest.mark.parametrize("name", sorted(set(IMPORTERS) - TAKE_ANY_NUMBER))
def test_an_unknown_input_is_refused(name: str, tmp_path: Path) -> None:
    model = accepted(name, tmp_path)
    node = next(node for node in model.graph.node if node.op_type == name)
    node.input.extend([""] * (9 - len(node.input)) + ["extra"])
    model.graph.initializer.append(numpy_helper.from_array(np.ones(3, np.float32), "extra"))
    with pytest.raises(TinycError, match=r"input 9 \('extra'\)") as caught:
        load(model, tmp_path)
    assert caught.value.where
    assert caught.value.where.op == name


@pytest.mark.parametrize(("domain", "name"), sorted(SPELLINGS))
def test_an_unknown_attribute_of_an_integer_operator_is_refused(domain: str, name: str) -> None:
    proto = op(name, " ".join(f"x{k}" for k in range(9)), "y", domain=domain)
    assert spelled_out([_node(proto)], 17)
    proto.attribute.append(helper.make_attribute("not_in_the_standard", 3))
    with pytest.raises(TinycError, match="'not_in_the_standard'"):
        spelled_out([_node(proto)], 17)


def _node(proto: onnx.NodeProto) -> OnnxNode:
    attributes = Looked({a.name: a for a in proto.attribute})
    where = Loc("model.onnx", 0, proto.name, proto.op_type)
    inputs, outputs = tuple(proto.input), tuple(proto.output)
    return OnnxNode(0, proto.op_type, proto.domain, proto.name, inputs, outputs, attributes, proto, where)


def test_what_an_attribute_says_by_default_may_be_written(tmp_path: Path) -> None:
    """Exporters write attributes that no importer asks for with the value that they have anyway."""
    node = op("Resize", "x - scales", "y", mode="nearest", cubic_coeff_a=-0.5, exclude_outside=0, antialias=0)
    scales = np.array([1, 1, 2, 2], np.float32)
    load(build([node], {"x": (1, 1, 3, 3)}, ["y"], {"scales": scales}, 19, 9), tmp_path)
    node.attribute.append(helper.make_attribute("keep_aspect_ratio_policy", "not_larger"))
    with pytest.raises(TinycError, match="'keep_aspect_ratio_policy'"):
        load(build([node], {"x": (1, 1, 3, 3)}, ["y"], {"scales": scales}, 19, 9), tmp_path)


@pytest.mark.parametrize("count", range(1, 40))
def test_resize_makes_as_many_rows_as_onnxruntime(count: int, tmp_path: Path) -> None:
    for scale in (0.1, 0.3, 0.6, 0.7, 0.9, 1.1, 1 / 3, 2 / 3, 10 / 3, 2.3):
        scales = np.array([1, 1, scale, 1], np.float32)
        model = build([op("Resize", "x - s", "y")], {"x": (1, 1, count, 1)}, ["y"], {"s": scales}, 13, 9)
        (theirs,) = run_onnxruntime(model, {"x": np.zeros((1, 1, count, 1), np.float32)}).values()
        graph = imported(model, tmp_path)
        assert (graph is None) if theirs.size == 0 else graph and graph.values["y"].shape == theirs.shape


def test_space_to_depth_either_way(tmp_path: Path) -> None:
    """The mode is newer than ONNX Runtime's operator: the standard's own evaluator is the judge."""
    x = np.arange(2 * 4 * 6, dtype=np.float32).reshape(1, 2, 4, 6)
    for mode in ("DCR", "CRD"):
        if onnx.defs.onnx_opset_version() < 28:
            pytest.skip("the installed `onnx` has no SpaceToDepth with a mode (opset 28)")
        model = build([op("SpaceToDepth", "x", "y", blocksize=2, mode=mode)], {"x": x.shape}, ["y"], opset=28)
        (theirs,) = ReferenceEvaluator(model).run(None, {"x": x})
        np.testing.assert_array_equal(run_float(load(model, tmp_path), {"x": x})["y"], theirs)


def test_automatic_padding_that_runtimes_do_not_agree_on(tmp_path: Path) -> None:
    dilated = build(
        [op("MaxPool", "x", "y", kernel_shape=[3], dilations=[2], auto_pad="SAME_UPPER")], {"x": (1, 1, 8)}, ["y"]
    )
    w = {"w": np.ones((1, 1, 1), np.float32)}
    strided = build([op("Conv", "x w", "y", strides=[4], auto_pad="SAME_UPPER")], {"x": (1, 1, 8)}, ["y"], w)
    for model in (dilated, strided):
        with pytest.raises(TinycError, match="auto_pad") as caught:
            load(model, tmp_path)
        assert "explicit pads" in caught.value.hint
