# SPDX-License-Identifier: Apache-2.0
"""What runtimes of TFLite run without a word: bytes read in another scale, inputs that are outputs, joined scales."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from tests.ops.one_node import random_s8
from tests.ops.runtimes import run_litert, run_tflm
from tests.ops.tflite_builder import Operator, Tensor, build_model
from tinyc.api import build as build_library
from tinyc.base.numerics import Numerics
from tinyc.ir.graph import Array
from tinyc.load import load_model
from tinyc.passes import normalize
from tinyc.reference.interpreter import run_int


def s8(name: str, shape: tuple[int, ...], scale: float = 0.1, zero: int = 0) -> Tensor:
    return Tensor(name, shape, "s8", (scale,), (zero,))


def s32(name: str, *numbers: int) -> Tensor:
    return Tensor(name, (len(numbers),), "s32", data=np.array(numbers, np.int32))


def outputs_of(folder: Path, model: bytes, numerics: Numerics, *inputs: Array) -> list[Array]:
    """Ours."""
    (folder / "m.tflite").write_bytes(model)
    graph = normalize(load_model(folder / "m.tflite"))
    results = run_int(graph, dict(zip(graph.inputs, inputs, strict=True)), numerics)
    return [results[name] for name in graph.outputs]


NEAREST = {"HalfPixelCenters": True}
# the operator, x, constants, y; LiteRT refuses those that are not in the list below
MOVES = {
    "reshape": (Operator("RESHAPE", ("x", "k"), ("y",), "ReshapeOptions"), (1, 30), [s32("k", 5, 6)], (5, 6)),
    "slice": (
        Operator("SLICE", ("x", "k", "n"), ("y",), "SliceOptions"),
        (1, 30),
        [s32("k", 0, 6), s32("n", 1, 16)],
        (1, 16),
    ),
    "transpose": (Operator("TRANSPOSE", ("x", "k"), ("y",), "TransposeOptions"), (3, 8), [s32("k", 1, 0)], (8, 3)),
    "planes": (
        Operator("DEPTH_TO_SPACE", ("x",), ("y",), "DepthToSpaceOptions", {"BlockSize": 2}),
        (1, 2, 3, 8),
        [],
        (1, 4, 6, 2),
    ),
    "nearest": (
        Operator("RESIZE_NEAREST_NEIGHBOR", ("x", "k"), ("y",), "ResizeNearestNeighborOptions", NEAREST),
        (1, 4, 5, 3),
        [s32("k", 7, 9)],
        (1, 7, 9, 3),
    ),
    "gather": (Operator("GATHER", ("x", "k"), ("y",), "GatherOptions"), (8, 3), [s32("k", 7, 0, 0, 2)], (4, 3)),
}
LITERT_TOO = ("reshape", "nearest", "gather")


@pytest.mark.parametrize("name", MOVES)
def test_bytes_are_moved_whatever_their_scale(tmp_path: Path, name: str) -> None:
    operator, shape, constants, moved = MOVES[name]
    model = build_model([s8("x", shape), *constants, s8("y", moved, 0.3, 4)], [operator], ["x"], ["y"])
    x = random_s8(1, shape)
    np.testing.assert_array_equal(outputs_of(tmp_path, model, Numerics.TFLM, x), run_tflm(model, x))
    if name in LITERT_TOO:
        np.testing.assert_array_equal(outputs_of(tmp_path, model, Numerics.LITERT, x), run_litert(model, x))


@pytest.mark.parametrize("outputs", [["y", "x"], ["y", "y"], ["x"]], ids=str)
def test_an_input_or_another_output_may_be_an_output(tmp_path: Path, outputs: list[str]) -> None:
    model = build_model([s8("x", (1, 8)), s8("y", (1, 8))], [Operator("RELU", ("x",), ("y",))], ["x"], outputs)
    x = random_s8(1, (1, 8))
    for numerics, theirs in ((Numerics.TFLM, run_tflm), (Numerics.LITERT, run_litert)):
        np.testing.assert_array_equal(outputs_of(tmp_path, model, numerics, x), theirs(model, x))
    assert build_library(tmp_path / "m.tflite", "host", out=tmp_path / "out", samples=2).report.passed


@pytest.mark.parametrize("y_scale", [0.25, 0.05])
def test_uint8_of_several_scales_is_joined_as_litert_does(tmp_path: Path, y_scale: float) -> None:
    shapes = [(1, 64, k + 1) for k in range(3)]
    xs = [Tensor(f"x{k}", shape, "u8", (0.1 * (k + 1),), (100 + k,)) for k, shape in enumerate(shapes)]
    y = Tensor("y", (1, 64, 6), "u8", (y_scale,), (120,))
    names = tuple(x.name for x in xs)
    operator = Operator("CONCATENATION", names, ("y",), "ConcatenationOptions", {"Axis": 2})
    model = build_model([*xs, y], [operator], list(names), ["y"])
    inputs = [random_s8(k, shape).view(np.uint8) for k, shape in enumerate(shapes)]
    np.testing.assert_array_equal(outputs_of(tmp_path, model, Numerics.LITERT, *inputs), run_litert(model, *inputs))
