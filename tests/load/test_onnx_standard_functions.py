# SPDX-License-Identifier: Apache-2.0
"""Operators that ONNX defines by simpler ones, batches of images, reductions of axes that are apart: as ONNX has it."""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import TensorProto, helper, numpy_helper

from tinyc.base.errors import TinycError
from tinyc.base.numerics import Numerics
from tinyc.board import load_board
from tinyc.load import load_model
from tinyc.options.build import Options
from tinyc.passes import normalize
from tinyc.pipeline.compiling import compile_model
from tinyc.pipeline.progress import Progress
from tinyc.reference.interpreter import run_int

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "bench"))

import onnx_conformance as conformance  # noqa: E402

MODULES = (
    *(
        "meanvariancenormalization",
        "center_crop_pad",
        "swiglu",
        "negativeloglikelihoodloss",
        "rotaryembedding",
        "matmul",
    ),
    *("hardmax", "isnan", "isinf", "cumprod", "onehot", "gemm", "causal_conv_with_state"),
)
NAMES = (
    *("mvn", "center_crop_pad_crop_axes_hwc", "swiglu", "nllloss_NCd1d2_with_weight_reduction_mean"),
    *("rotary_embedding_with_interleaved_rotary_dim", "rotary_embedding_3d_input", "matmul_1d_1d", "matmul_4d_1d"),
    *("hardmax_axis_1", "hardmax_one_hot", "isnan", "isinf_negative", "isinf", "cumprod_1d_reverse_exclusive"),
    *("cumprod_2d_int32", "onehot_negative_indices", "gemm_default_matrix_bias", "causal_conv_with_state_basic"),
)


def test_cases_of_the_onnx_package() -> None:
    results = conformance.run_all(conformance.chosen(f"^test_({'|'.join(NAMES)})$", MODULES))
    assert {result.name for result in results} == {f"test_{name}" for name in NAMES}
    assert {result.way for result in results} <= {"exact", "float32"}, results


def _saved(folder: Path, nodes: list[onnx.NodeProto], x: list[int], weights: dict[str, np.ndarray]) -> Path:
    graph = helper.make_graph(
        nodes,
        "model",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, x)],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, None)],
        [numpy_helper.from_array(array, name) for name, array in weights.items()],
    )
    path = folder / "model.onnx"
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=9), path)
    return path


def _same_as_onnxruntime(path: Path, x: np.ndarray) -> None:
    (theirs,) = onnxruntime.InferenceSession(path).run(None, {"x": x})
    y = run_int(normalize(load_model(path), in_floats=True), {"x": x}, Numerics.OURS)["y"]
    np.testing.assert_allclose(y, theirs, rtol=1e-5, atol=1e-5)


def test_attributes_that_the_node_leaves_out_have_their_defaults(tmp_path: Path) -> None:
    """The mean of MeanVarianceNormalization is of each channel: its axes are 0, 2 and 3 where it has none."""
    path = _saved(tmp_path, [helper.make_node("MeanVarianceNormalization", ["x"], ["y"])], [1, 3, 4, 5], {})
    _same_as_onnxruntime(path, np.random.default_rng(0).normal(size=(1, 3, 4, 5)).astype(np.float32))


def test_a_definition_that_does_not_fit_is_refused(tmp_path: Path) -> None:
    nodes = [helper.make_node("CenterCropPad", ["x", "shape"], ["y"], axes=[0, 1, 2])]
    path = _saved(tmp_path, nodes, [1, 3, 4, 5], {"shape": np.array([1, 2])})
    with pytest.raises(TinycError, match=r"CenterCropPad|do not fit|cannot be"):
        load_model(path)


@pytest.mark.parametrize("op", ["ReduceMean", "ReduceSum", "ReduceMax"])
@pytest.mark.parametrize("keep", [0, 1])
def test_axes_that_are_apart(op: str, keep: int, tmp_path: Path) -> None:
    path = _saved(tmp_path, [helper.make_node(op, ["x", "axes"], ["y"], keepdims=keep)], [3, 4, 5, 2], {})
    model = onnx.load(path)
    model.graph.initializer.append(numpy_helper.from_array(np.array([0, 2]), "axes"))
    onnx.save(model, path)
    x = np.random.default_rng(1).normal(size=(3, 4, 5, 2)).astype(np.float32)
    _same_as_onnxruntime(path, x)
    np.savez(tmp_path / "model.calib.npz", x=x[None])
    compiled = compile_model(path, load_board("host"), Options(board="host"), Progress())
    assert "transpose" in [node.op for node in compiled.graph.nodes]


def test_a_batch_of_images_is_one_after_the_other(tmp_path: Path) -> None:
    rng = np.random.default_rng(2)
    nodes = [
        helper.make_node("Conv", ["x", "w", "b"], ["c"], pads=[1, 1, 1, 1]),
        helper.make_node("MaxPool", ["c"], ["m"], kernel_shape=[2, 2], strides=[2, 2]),
        helper.make_node("ConvTranspose", ["m", "t"], ["y"], strides=[2, 2]),
    ]
    shapes = {"w": (4, 2, 3, 3), "b": (4,), "t": (4, 3, 2, 2)}
    weights = {name: rng.normal(size=shape).astype(np.float32) for name, shape in shapes.items()}
    path = _saved(tmp_path, nodes, [3, 2, 6, 6], weights)
    x = rng.normal(size=(3, 2, 6, 6)).astype(np.float32)
    _same_as_onnxruntime(path, x)
    np.savez(tmp_path / "model.calib.npz", x=rng.normal(size=(16, 3, 2, 6, 6)).astype(np.float32))
    compiled = compile_model(path, load_board("host"), Options(board="host"), Progress())
    (theirs,) = onnxruntime.InferenceSession(path).run(None, {"x": x})
    q = compiled.graph.values["x"].quant
    assert q is not None
    held = np.clip(np.rint(x / q.per_tensor[0]) + q.per_tensor[1], -128, 127).astype(np.int8)
    perm = compiled.program.input_perms.get("x", (0, 1, 2, 3))
    y_steps = run_int(compiled.graph, {"x": held.transpose(perm)}, compiled.program.numerics)["y"]
    y = compiled.graph.values["y"].quant
    assert y is not None
    assert np.linalg.norm(y.dequantize(y_steps) - theirs) < 0.1 * np.linalg.norm(theirs)
