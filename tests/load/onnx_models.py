# SPDX-License-Identifier: Apache-2.0
"""ONNX models made by the tests, and what ONNX Runtime computes with them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime
from onnx import NodeProto, TensorProto, helper, numpy_helper

from tinyc.ir.check import check
from tinyc.ir.graph import Array, Graph
from tinyc.load.onnx import load_onnx
from tinyc.ops import all_ops
from tinyc.passes import normalize
from tinyc.reference.interpreter import run_float

TOLERANCE = 2e-5


def op(name: str, inputs: str, outputs: str, **attributes: Any) -> NodeProto:
    """A node; inputs and outputs are names with blanks between, `-` for an absent one."""
    split = [["" if n == "-" else n for n in names.split()] for names in (inputs, outputs)]
    return helper.make_node(name, split[0], split[1], name=f"{name}_{split[1][0]}", **attributes)


def build(
    nodes: Sequence[NodeProto],
    inputs: Mapping[str, Sequence[int | str | None]],
    outputs: Sequence[str],
    constants: Mapping[str, Any] | None = None,
    opset: int = 17,
    ir_version: int = 8,
    elem_type: int = TensorProto.FLOAT,
) -> onnx.ModelProto:
    """A model; constants become initializers, inputs are floats."""
    graph = helper.make_graph(
        nodes,
        "test",
        [helper.make_tensor_value_info(name, elem_type, shape) for name, shape in inputs.items()],
        [helper.make_empty_tensor_value_info(name) for name in outputs],
        [numpy_helper.from_array(np.asarray(array), name) for name, array in (constants or {}).items()],
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=ir_version)


def one(
    name: str,
    shape: Sequence[int],
    constants: Sequence[Any] = (),
    opset: int = 17,
    *,
    constant_first: bool = False,
    **attributes: Any,
) -> onnx.ModelProto:
    """A model of one operator: y = op(x, constants...)."""
    names = [f"c{i}" if c is not None else "-" for i, c in enumerate(constants)]
    order = [*names, "x"] if constant_first else ["x", *names]
    held = {n: c for n, c in zip(names, constants, strict=True) if c is not None}
    return build([op(name, " ".join(order), "y", **attributes)], {"x": shape}, ["y"], held, opset)


def rand(seed: int, *shape: int) -> Array:
    """Standard normal float32 numbers."""
    return np.random.default_rng(seed).standard_normal(shape).astype(np.float32)


def run_onnxruntime(model: onnx.ModelProto, feeds: Mapping[str, Array]) -> dict[str, Array]:
    """The model's outputs by name."""
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    options.log_severity_level = 4
    session = onnxruntime.InferenceSession(model.SerializeToString(), options, ["CPUExecutionProvider"])
    names = [output.name for output in session.get_outputs()]
    return dict(zip(names, session.run(names, dict(feeds)), strict=True))


def load(model: onnx.ModelProto, folder: Path) -> Graph:
    """The model as tinyc reads it."""
    path = folder / "model.onnx"
    path.write_bytes(model.SerializeToString())
    return load_onnx(path)


def imported(model: onnx.ModelProto, folder: Path, seed: int = 0, scale: float = 1.0) -> Graph:
    """The normalized graph, after asserting that it and the graph as loaded compute what ONNX Runtime does."""
    graph = load(model, folder)
    feeds = {name: scale * rand(seed + i, *graph.values[name].shape) for i, name in enumerate(graph.inputs)}
    expected = run_onnxruntime(model, feeds)
    normal = normalize(graph)
    check(normal, "normalize", all_ops())
    assert normalize(normal) == normal
    for candidate in (graph, normal):
        outputs = run_float(candidate, feeds)
        assert list(outputs) == [o.name for o in model.graph.output]
        for name, array in expected.items():
            assert outputs[name].shape == array.shape
            np.testing.assert_allclose(outputs[name], array, rtol=TOLERANCE, atol=TOLERANCE)
    return normal


def ops_of(graph: Graph) -> list[str]:
    """The operators in run order."""
    return [node.op for node in graph.nodes]
