# SPDX-License-Identifier: Apache-2.0
"""Operators of images on a batch of several: TensorFlow Lite Micro's or LiteRT's bytes."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from tests.load.test_tflite_batches import load
from tests.load.tflite_models import CONV, act, bias, numbers, weights
from tests.ops.one_node import random_s8
from tests.ops.runtimes import run_tflm
from tests.ops.tflite_builder import Operator, Tensor, build_model
from tinyc.base.numerics import Numerics
from tinyc.reference.interpreter import run_int

COUNT = 3
POOL = {"FilterHeight": 2, "FilterWidth": 2, "StrideH": 2, "StrideW": 2, "Padding": 0}
UP = {"AlignCorners": False, "HalfPixelCenters": True}
X = act("x", COUNT, 6, 4, 4)
W, DW, B = weights("w", 5, 3, 3, 4), weights("dw", 1, 3, 3, 4, axis=3), bias("b", 5)
SHAPE = numbers("shape", [COUNT, 12, 4, 5])
CASES: dict[str, tuple[Operator, list[Tensor], Tensor]] = {
    "conv": (Operator("CONV_2D", ("x", "w", "b"), ("y",), "Conv2DOptions", CONV, 3), [W, B], act("y", COUNT, 3, 4, 5)),
    "depthwise": (
        Operator(
            "DEPTHWISE_CONV_2D", ("x", "dw", "db"), ("y",), "DepthwiseConv2DOptions", {**CONV, "DepthMultiplier": 1}, 3
        ),
        [DW, bias("db", 4)],
        act("y", COUNT, 3, 4, 4),
    ),
    "average": (Operator("AVERAGE_POOL_2D", ("x",), ("y",), "Pool2DOptions", POOL, 2), [], act("y", COUNT, 3, 2, 4)),
    "largest": (Operator("MAX_POOL_2D", ("x",), ("y",), "Pool2DOptions", POOL, 2), [], act("y", COUNT, 3, 2, 4)),
    "nearest": (
        Operator("RESIZE_NEAREST_NEIGHBOR", ("x", "size"), ("y",), "ResizeNearestNeighborOptions", UP, 3),
        [numbers("size", [9, 7])],
        act("y", COUNT, 9, 7, 4),
    ),
    "transposed": (
        Operator(
            "TRANSPOSE_CONV",
            ("shape", "w", "x"),
            ("y",),
            "TransposeConvOptions",
            {"StrideH": 2, "StrideW": 1, "Padding": 0},
            2,
        ),
        [SHAPE, W],
        act("y", COUNT, 12, 4, 5),
    ),
    "depth": (
        Operator("DEPTH_TO_SPACE", ("x",), ("y",), "DepthToSpaceOptions", {"BlockSize": 2}),
        [],
        act("y", COUNT, 12, 8, 1),
    ),
}


@pytest.mark.parametrize("case", CASES)
def test_each_image_gives_what_runtimes_make_of_the_batch(tmp_path: Path, case: str) -> None:
    operator, constants, y = CASES[case]
    content = build_model([X, *constants, y], [operator], ["x"], ["y"])
    x = random_s8(3, X.shape)
    (ours,) = run_int(load(tmp_path, content), {"x": x[None]}, Numerics.TFLM).values()
    np.testing.assert_array_equal(ours[0], run_tflm(content, x)[0])
    assert ours.shape[1] == COUNT
