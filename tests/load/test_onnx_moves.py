# SPDX-License-Identifier: Apache-2.0
"""Slice, Split, Gather, Resize, DepthToSpace, ArgMax, ConvTranspose ...: float graphs equal ONNX Runtime."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest

from tests.load.onnx_models import build, load, one, op, rand, run_onnxruntime
from tinyc.base.errors import TinycError
from tinyc.passes import normalize
from tinyc.reference.interpreter import run_float

I64 = np.int64
IMAGE = [1, 6, 5, 7]


def ints(*numbers: int) -> Any:
    return np.array(numbers, I64)


MODELS: dict[str, onnx.ModelProto] = {
    "slice": one("Slice", IMAGE, [ints(1, -6), ints(4, 7), ints(1, 3), ints(1, 2)]),
    "slice, backwards": one("Slice", IMAGE, [ints(-1), ints(-100), ints(2), ints(-2)]),
    "slice, opset 9": one("Slice", IMAGE, opset=9, starts=[1, 0], ends=[3, 2], axes=[1, 2]),
    "split": build(
        [op("Split", "x", "a b c", axis=1, num_outputs=3), op("Sum", "a b c", "y")], {"x": IMAGE}, ["y"], opset=18
    ),
    "split, unequal": build(
        [op("Split", "x n", "a b", axis=3), op("Concat", "b a", "y", axis=3)], {"x": IMAGE}, ["y"], {"n": ints(3, 4)}
    ),
    "split, opset 12": build(
        [op("Split", "x", "a b", axis=1, split=[2, 4]), op("Concat", "b a", "y", axis=1)], {"x": IMAGE}, ["y"], opset=12
    ),
    "tile of a number": build(
        [op("ReduceL1", "x", "a", keepdims=0), op("Tile", "a n", "y")], {"x": IMAGE}, ["y"], {"n": ints()}, opset=13
    ),
    "unsqueeze of a constant": build(
        [op("Unsqueeze", "k", "t", axes=[3, 0, 2, 1]), op("Add", "t x", "y")],
        {"x": [1]},
        ["y"],
        {"k": rand(1, 2, 3)},
        opset=11,
    ),
    "gather, one": one("Gather", IMAGE, [np.array(2, I64)], axis=1),
    "gather, regular": one("Gather", IMAGE, [ints(5, 3, 1)], axis=1),
    "gather, any": one("Gather", IMAGE, [ints(2, 2, 0)], axis=2),
    "resize, nearest": one(
        "Resize",
        IMAGE,
        [None, np.float32([1, 1, 2, 2])],
        coordinate_transformation_mode="asymmetric",
        nearest_mode="floor",
    ),
    "resize, sizes": one("Resize", IMAGE, [None, None, ints(1, 6, 9, 4)]),
    "resize, linear": one("Resize", IMAGE, [None, np.float32([1, 1, 2, 2])], mode="linear"),
    "resize, opset 10": one("Resize", IMAGE, [np.float32([1, 1, 2, 3])], opset=10),
    "upsample": one("Upsample", IMAGE, [np.float32([1, 1, 2, 2])], opset=9),
    "upsample, opset 7": one("Upsample", IMAGE, opset=7, scales=[1.0, 1.0, 2.0, 3.0]),
    "depth to space": one("DepthToSpace", [1, 8, 3, 5], blocksize=2),
    "depth to space, CRD": one("DepthToSpace", [1, 8, 3, 5], blocksize=2, mode="CRD"),
    "space to depth": one("SpaceToDepth", [1, 3, 4, 6], blocksize=2),
    "abs": one("Abs", IMAGE),
    "max": build([op("Neg", "x", "n"), op("Max", "x n", "y")], {"x": IMAGE}, ["y"]),
    "min": build([op("Neg", "x", "n"), op("Min", "x n", "y")], {"x": IMAGE}, ["y"]),
    "transposed": one(
        "ConvTranspose",
        IMAGE,
        [rand(1, 6, 4, 3, 2), rand(2, 4)],
        strides=[2, 3],
        pads=[1, 0, 1, 1],
        output_padding=[1, 0],
    ),
    "transposed, dilated": one(
        "ConvTranspose", IMAGE, [rand(1, 6, 4, 3, 2), rand(2, 4)], strides=[2, 1], dilations=[2, 3], pads=[1, 0, 2, 1]
    ),
    "transposed in groups, dilated": one("ConvTranspose", IMAGE, [rand(1, 6, 4, 2, 2)], group=2, dilations=[3, 1]),
    "between convolutions": build(
        [
            op("Conv", "x w", "c", pads=[1, 1, 1, 1]),
            op("Slice", "c st en ax", "s"),
            op("Resize", "s - k", "r"),
            op("ConvTranspose", "r v", "t", strides=[2, 2]),
            op("Abs", "t", "a"),
            op("Conv", "a u", "y"),
        ],
        {"x": [1, 3, 8, 8]},
        ["y"],
        {
            "w": rand(1, 4, 3, 3, 3),
            "st": ints(1),
            "en": ints(3),
            "ax": ints(1),
            "k": np.float32([1, 1, 2, 2]),
            "v": rand(2, 2, 3, 2, 2),
            "u": rand(3, 5, 3, 1, 1),
        },
    ),
}


@pytest.mark.parametrize("name", MODELS)
def test_equals_onnxruntime(tmp_path: Path, name: str) -> None:
    model = MODELS[name]
    graph = normalize(load(model, tmp_path))
    (info,) = model.graph.input
    x = rand(9, *(d.dim_value for d in info.type.tensor_type.shape.dim))
    expected = run_onnxruntime(model, {"x": x})
    outputs = run_float(graph, {"x": x})
    np.testing.assert_allclose(outputs["y"], expected["y"], rtol=1e-4, atol=2e-4)
    if name == "between convolutions":
        assert [node.op for node in graph.nodes].count("transpose") == 2  # of input and output


@pytest.mark.parametrize("keep", [0, 1])
def test_argmax(tmp_path: Path, keep: int) -> None:
    model = one("ArgMax", IMAGE, axis=1, keepdims=keep)
    x = rand(3, *IMAGE)
    places = run_float(normalize(load(model, tmp_path)), {"x": x})["y"]
    np.testing.assert_array_equal(places, run_onnxruntime(model, {"x": x})["y"])


ERRORS: list[tuple[onnx.ModelProto, str]] = [
    (one("Slice", IMAGE, [ints(3), ints(3), ints(1)]), "leave nothing"),
    (one("Gather", IMAGE, [ints(9)], axis=1), "leave axis 1"),
    (one("Resize", IMAGE, [None, np.float32([1, 1, 2, 2])], mode="area"), "mode 'area'"),
    (one("Resize", IMAGE, [None, np.float32([1, 0.1, 2, 2])]), "cannot be resized"),
    (one("Resize", IMAGE, [None, np.float32([1, 1, 2, 2])], opset=18, axes=[2, 3]), "4 sizes or scales for 2 axes"),
    (one("Resize", IMAGE, [None, None, ints(6)], opset=18, axes=[2, 3]), "1 sizes or scales for 2 axes"),
    (
        one("Resize", IMAGE, [None, np.float32([1, 1, 2, 2])], coordinate_transformation_mode="tf_crop_and_resize"),
        "give sizes, not scales",
    ),
    (one("Resize", IMAGE, [None, np.float32([1, 1, 2, 2])], coordinate_transformation_mode="other"), "rule 'other'"),
    (one("ConvTranspose", IMAGE, [rand(1, 6, 4, 3, 3)], group=4), "4 groups"),
    (one("ConvTranspose", IMAGE, [rand(1, 6, 4, 3, 3)], dilations=[2]), "dilations"),
    (one("DepthToSpace", [1, 6, 3, 5], blocksize=2), "no whole blocks"),
]


@pytest.mark.parametrize(("model", "message"), ERRORS, ids=[message for _, message in ERRORS])
def test_errors(tmp_path: Path, model: onnx.ModelProto, message: str) -> None:
    with pytest.raises(TinycError, match=message):
        load(model, tmp_path)
