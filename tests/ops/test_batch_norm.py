"""batch_norm: onnxruntime's floats; no integer form."""

from __future__ import annotations

import numpy as np
import onnxruntime
import pytest
from onnx import TensorProto, helper

from tests.ops.one_node import one_node, tensor
from tinyc.errors import TinycError
from tinyc.numerics import Numerics
from tinyc.ops.base import Site
from tinyc.ops.batch_norm import BatchNorm, float_ref, prepare


def test_float_equals_onnxruntime():
    rng = np.random.default_rng(0)
    x = rng.normal(0, 3, (1, 5, 3, 7)).astype(np.float32)
    gamma, beta, mean = (rng.normal(0, 2, 7).astype(np.float32) for _ in range(3))
    variance = rng.uniform(1e-4, 4, 7).astype(np.float32)
    names = ["x", "gamma", "beta", "mean", "variance"]
    ports = [helper.make_tensor_value_info(n, TensorProto.FLOAT, None) for n in [*names, "y"]]
    node = helper.make_node("BatchNormalization", names, ["y"], epsilon=1e-3)
    model = helper.make_model(
        helper.make_graph([node], "g", ports[:-1], ports[-1:]), opset_imports=[helper.make_opsetid("", 15)]
    )
    model.ir_version = 8
    session = onnxruntime.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
    feeds = dict(zip(names, [x.transpose(0, 3, 1, 2), gamma, beta, mean, variance], strict=True))
    (theirs,) = session.run(None, feeds)
    (ours,) = float_ref(BatchNorm(1e-3), x, gamma, beta, mean, variance)
    np.testing.assert_allclose(ours, theirs.transpose(0, 2, 3, 1), rtol=1e-4, atol=1e-5)


def test_there_is_no_integer_form():
    channels = [tensor(n, (7,), dtype="f32") for n in ("gamma", "beta", "mean", "variance")]
    graph = one_node("batch_norm", BatchNorm(), [tensor("x", (1, 3, 7), dtype="f32"), *channels])
    with pytest.raises(TinycError, match="no integer form"):
        prepare(Site(graph, graph.nodes[0], Numerics.TFLM))


def test_a_parameter_of_another_length_is_an_error():
    channels = [tensor(n, (6,), dtype="f32") for n in ("gamma", "beta", "mean", "variance")]
    with pytest.raises(TinycError, match="'gamma'"):
        one_node("batch_norm", BatchNorm(), [tensor("x", (1, 3, 7), dtype="f32"), *channels])
