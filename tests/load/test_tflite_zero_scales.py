# SPDX-License-Identifier: Apache-2.0
"""Constants that are all zero with a scale of 0, as converters write them: zero on every scale."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from tests.load.tflite_models import CONV, act, bias, single, weights
from tests.ops.one_node import random_s8
from tests.ops.runtimes import run_tflm
from tests.ops.tflite_builder import Operator, Tensor, build_model
from tinyc.base.errors import TinycError
from tinyc.base.numerics import Numerics
from tinyc.load import load_model
from tinyc.passes import normalize
from tinyc.reference.interpreter import run_int

PLAIN = {**CONV, "StrideH": 1, "FusedActivationFunction": 0}
# layer: its options, weights, the axis of channels
LAYERS = {
    "FULLY_CONNECTED": ("FullyConnectedOptions", {}, weights("w", 4, 6), 0, (1, 6), (1, 4)),
    "CONV_2D": ("Conv2DOptions", PLAIN, weights("w", 4, 3, 3, 2), 0, (1, 5, 5, 2), (1, 5, 5, 4)),
    "DEPTHWISE_CONV_2D": (
        "DepthwiseConv2DOptions",
        {**PLAIN, "DepthMultiplier": 1},
        weights("w", 1, 3, 3, 4, axis=3),
        3,
        (1, 5, 5, 4),
        (1, 5, 5, 4),
    ),
}


def dead(w: Tensor, axis: int, channel: int) -> Tensor:
    """The weights with one channel of zeros whose scale is 0."""
    data = np.moveaxis(np.array(w.data), axis, 0)
    data[channel] = 0
    scale = tuple(0.0 if k == channel else s for k, s in enumerate(w.scale))
    return replace(w, scale=scale, data=np.ascontiguousarray(np.moveaxis(data, 0, axis)))


def assert_tflms(folder: Path, content: bytes, x: np.ndarray) -> None:
    path = folder / "m.tflite"
    path.write_bytes(content)
    graph = normalize(load_model(path))
    (theirs,) = run_tflm(content, x)
    np.testing.assert_array_equal(run_int(graph, {"x": x}, Numerics.TFLM)["y"], theirs)


@pytest.mark.parametrize("code", LAYERS)
def test_a_dead_channel(tmp_path, code):
    options, fields, w, axis, x_shape, y_shape = LAYERS[code]
    b = bias("b", 4)
    b.data[2] = 0
    tensors = [act("x", *x_shape), dead(w, axis, 2), b, act("y", *y_shape, scale=0.2)]
    operator = Operator(code, ("x", "w", "b"), ("y",), options, fields)
    assert_tflms(tmp_path, single(operator, tensors), random_s8(3, x_shape))


def test_a_state_of_zeros(tmp_path):
    """The first step of an unrolled LSTM of a 16x8 file."""
    zeros = Tensor("zeros", (1, 8), "s16", (0.0,), (0,), data=np.zeros((1, 8), np.int16))
    wide = {"dtype": "s16", "zero": 0}
    tensors = [act("x", 1, 8, scale=2**-15, **wide), zeros, act("m", 1, 8, scale=3.59e-43, **wide)]
    tensors.append(act("y", 1, 8, scale=2**-14, **wide))
    operators = [
        Operator("MUL", ("x", "zeros"), ("m",), "MulOptions", {}),
        Operator("ADD", ("x", "m"), ("y",), "AddOptions", {}),
    ]
    x = np.random.default_rng(2).integers(-32768, 32768, (1, 8)).astype(np.int16)
    assert_tflms(tmp_path, build_model(tensors, operators, ["x"], ["y"]), x)


@pytest.mark.parametrize("what", ["an activation", "weights that are not zero"])
def test_others_with_that_scale_are_refused(tmp_path, what):
    w = weights("w", 4, 6) if what == "an activation" else replace(weights("w", 4, 6), scale=(0.01, 0.0, 0.01, 0.01))
    x = act("x", 1, 6, scale=0.0 if what == "an activation" else 0.1)
    operator = Operator("FULLY_CONNECTED", ("x", "w", ""), ("y",), "FullyConnectedOptions", {})
    path = tmp_path / "m.tflite"
    path.write_bytes(single(operator, [x, w, act("y", 1, 4)]))
    with pytest.raises(TinycError, match=r"scale 0\.0"):
        load_model(path)
