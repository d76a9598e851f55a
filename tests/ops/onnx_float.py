# SPDX-License-Identifier: Apache-2.0
"""One ONNX operator in ONNX Runtime: what a float operator means."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest

from tinyc.ir.graph import Array


def run_onnx(op: str, inputs: Sequence[Array], opset: int = 19, **attributes: Any) -> Array:
    """The one output of an operator on float32 or int64 inputs; skips the test without ONNX Runtime."""
    onnx = pytest.importorskip("onnx", reason="needs `onnx`")
    runtime = pytest.importorskip("onnxruntime", reason="needs `onnxruntime`")
    names = [f"x{i}" for i in range(len(inputs))]
    types = {np.dtype(np.float32): onnx.TensorProto.FLOAT, np.dtype(np.int64): onnx.TensorProto.INT64}
    graph = onnx.helper.make_graph(
        [onnx.helper.make_node(op, names, ["y"], **attributes)],
        "one_operator",
        [
            onnx.helper.make_tensor_value_info(name, types[array.dtype], array.shape)
            for name, array in zip(names, inputs, strict=True)
        ],
        [onnx.helper.make_tensor_value_info("y", onnx.TensorProto.FLOAT, None)],
    )
    model = onnx.helper.make_model(graph, opset_imports=[onnx.helper.make_opsetid("", opset)], ir_version=9)
    options = runtime.SessionOptions()
    options.intra_op_num_threads = 1
    session = runtime.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])
    return session.run(None, dict(zip(names, inputs, strict=True)))[0]
