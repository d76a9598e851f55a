# SPDX-License-Identifier: Apache-2.0
"""Masks of attention that a model computes from an input, as exporters of PyTorch write them, survive int8."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import TensorProto, helper, numpy_helper

from tinyc.base.numerics import Numerics
from tinyc.load import load_model
from tinyc.options.recipe import Recipe
from tinyc.passes import normalize
from tinyc.quantize import Calibration, quantize_model
from tinyc.reference.interpreter import prepare_int

N = helper.make_node
RECIPE = Recipe("minmax", equalize=False, correct_biases=False, rounding="nearest")
KEYS, LEAST = 6, float(np.finfo(np.float32).min)
INVERTED = [N("Cast", ["wide"], ["m"], to=TensorProto.FLOAT), N("Sub", ["one", "m"], ["inverted"])]
WAYS = {
    "where": [N("Cast", ["wide"], ["shown"], to=TensorProto.BOOL), N("Where", ["shown", "zero", "far"], ["mask"])],
    "masked_fill": [
        *INVERTED,
        N("Cast", ["inverted"], ["hidden"], to=TensorProto.BOOL),
        N("Where", ["hidden", "far", "inverted"], ["mask"]),
    ],
    "product": [*INVERTED, N("Mul", ["inverted", "far"], ["mask"])],
}


def model(way: str, far: float, path: Path) -> Path:
    nodes = [
        N("Unsqueeze", ["attention_mask", "axes"], ["wide"]),
        *WAYS[way],
        N("Add", ["scores", "mask"], ["sum"]),
        N("Softmax", ["sum"], ["y"], axis=-1),
    ]
    numbers = {"zero": np.float32(0), "one": np.float32(1), "far": np.float32(far), "axes": np.int64([1, 2])}
    inputs = [
        helper.make_tensor_value_info("scores", TensorProto.FLOAT, [1, 2, KEYS, KEYS]),
        helper.make_tensor_value_info("attention_mask", TensorProto.INT64, [1, KEYS]),
    ]
    outputs = [helper.make_tensor_value_info("y", TensorProto.FLOAT, [1, 2, KEYS, KEYS])]
    constants = [numpy_helper.from_array(np.asarray(array), name) for name, array in numbers.items()]
    graph = helper.make_graph(nodes, "masked", inputs, outputs, constants)
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), path)
    return path


def data(padded: bool, count: int) -> dict[str, np.ndarray]:
    rng = np.random.default_rng(count)
    lengths = rng.integers(2, KEYS + 1, count) if padded else np.full(count, KEYS)
    shown = (np.arange(KEYS) < lengths[:, None]).astype(np.int32)
    return {"scores": rng.normal(0, 2, (count, 1, 2, KEYS, KEYS)).astype(np.float32), "attention_mask": shown[:, None]}


@pytest.mark.parametrize("padded", [True, False], ids=["padded", "calibrated without padding"])
@pytest.mark.parametrize(
    ("way", "far"), [("where", LEAST), ("masked_fill", LEAST), ("product", LEAST), ("product", -1e4)]
)
def test_hidden_keys_get_nothing_and_others_keep_their_scale(
    way: str, far: float, padded: bool, tmp_path: Path
) -> None:
    path = model(way, far, tmp_path / "masked.onnx")
    graph = quantize_model(normalize(load_model(path)), Calibration(data(padded, 40), "test", proven=True), RECIPE)
    run, session = prepare_int(graph, Numerics.OURS), onnxruntime.InferenceSession(path)
    test = data(True, 20)
    scores = graph.values["scores"].quant
    assert scores is not None
    for k in range(20):
        sample = {name: array[k] for name, array in test.items()}
        (theirs,) = session.run(None, sample | {"attention_mask": sample["attention_mask"].astype(np.int64)})
        q = np.clip(np.rint(sample["scores"] / scores.scale[0]) + scores.zero[0], -128, 127).astype(np.int8)
        (y,) = run({"scores": q, "attention_mask": sample["attention_mask"]}).values()
        shares = (y.astype(np.float32) + 128) / 256
        assert not shares[np.broadcast_to(sample["attention_mask"] == 0, shares.shape)].any()
        np.testing.assert_allclose(shares, theirs, atol=0.06)
