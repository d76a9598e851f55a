# SPDX-License-Identifier: Apache-2.0
"""Functions of one number, from ONNX: in float32 near ONNX Runtime, in int8 within a step of its reals."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import TensorProto, helper

from tinyc.base.numerics import Numerics
from tinyc.board import load_board
from tinyc.load import load_model
from tinyc.options.build import Options
from tinyc.passes import normalize
from tinyc.pipeline.compiling import compile_model
from tinyc.pipeline.progress import Progress
from tinyc.reference.interpreter import run_int

RANGES = {  # between them the function is tried
    **{"Acos": (-1, 1), "Acosh": (1, 30), "Asin": (-1, 1), "Asinh": (-30, 30), "Atan": (-30, 30)},
    **{"Atanh": (-0.99, 0.99), "Cosh": (-4, 4), "Sinh": (-4, 4), "Tan": (-1.4, 1.4)},
}
COUNT = 400


def _model(folder: Path, op: str) -> Path:
    ports = [helper.make_tensor_value_info(name, TensorProto.FLOAT, [1, COUNT]) for name in ("x", "y")]
    graph = helper.make_graph([helper.make_node(op, ["x"], ["y"])], "one", ports[:1], ports[1:])
    path = folder / "one.onnx"
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9), path)
    return path


@pytest.mark.parametrize("op", RANGES)
def test_functions(op: str, tmp_path: Path) -> None:
    path, x = _model(tmp_path, op), np.linspace(*RANGES[op], COUNT, dtype=np.float32)[None]
    (theirs,) = onnxruntime.InferenceSession(path).run(None, {"x": x})
    y = run_int(normalize(load_model(path)), {"x": x}, Numerics.ONNX)["y"]
    np.testing.assert_allclose(y, theirs, rtol=1e-6, atol=1e-6)
    np.savez(tmp_path / "one.calib.npz", x=x[None])
    compiled = compile_model(path, load_board("host"), Options(board="host"), Progress())
    ends = [compiled.graph.values[name].quant for name in ("x", "y")]
    assert ends[0] is not None
    assert ends[1] is not None
    scale, zero = ends[0].per_tensor
    held = np.clip(np.rint(x / scale) + zero, -128, 127).astype(np.int8)
    reals = np.clip(ends[0].dequantize(held), *RANGES[op])
    (theirs,) = onnxruntime.InferenceSession(path).run(None, {"x": reals.astype(np.float32)})
    y = run_int(compiled.graph, {"x": held}, compiled.program.numerics)["y"]
    assert np.abs(ends[1].dequantize(y) - theirs).max() <= 0.6 * ends[1].per_tensor[0]
