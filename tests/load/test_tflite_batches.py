# SPDX-License-Identifier: Apache-2.0
"""SPACE_TO_BATCH_ND and BATCH_TO_SPACE_ND: dilated convolutions, their crops, and both operators alone."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from tests.load.tflite_models import CONV, act, bias, numbers, weights
from tests.ops.one_node import random_s8
from tests.ops.runtimes import run_litert, run_tflm
from tests.ops.tflite_builder import Operator, Tensor, build_model
from tinyc.base.errors import TinycError
from tinyc.base.numerics import Numerics
from tinyc.ir.graph import Graph
from tinyc.load import load_model
from tinyc.reference.interpreter import run_int

PLAIN = {**CONV, "StrideH": 1, "StrideW": 1, "Padding": 1, "FusedActivationFunction": 1}
CUT = ("SpaceToBatchNDOptions", "BatchToSpaceNDOptions")


def phases(x: Tensor, block: Sequence[int], pads: Sequence[Sequence[int]], name: str) -> Tensor:
    """The tensor that SPACE_TO_BATCH_ND makes of x."""
    sizes = [(n + sum(p)) // b for n, p, b in zip(x.shape[1:], pads, block, strict=False)]
    return act(name, int(np.prod(block)), *sizes, *x.shape[1 + len(block) :], zero=x.zero[0], scale=x.scale[0])


def dilated(
    x: Tensor, block: Sequence[int], pads: Sequence[Sequence[int]], crops: Sequence[Sequence[int]], layer: str
) -> tuple[list[Tensor], list[Operator]]:
    """x [1,H,W,3] -> phases, a 3x3 convolution of each, the image again."""
    cut = phases(x, block, pads, "cut")
    out_c = 5 if layer == "CONV_2D" else 6
    shape = (cut.shape[0], cut.shape[1] - 2, cut.shape[2] - 2, out_c)
    y = [n * b - sum(c) for n, b, c in zip(shape[1:3], block, crops, strict=True)]
    w = weights("w", out_c, 3, 3, 3) if layer == "CONV_2D" else weights("w", 1, 3, 3, 6, axis=3)
    options = {**PLAIN, "DepthMultiplier": 2} if layer != "CONV_2D" else PLAIN
    tensors = [
        x,
        numbers("block", block),
        numbers("pads", pads),
        numbers("crops", crops),
        cut,
        w,
        bias("b", out_c),
        act("c", *shape, scale=0.1, zero=-128),
        act("y", 1, *y, out_c, scale=0.1, zero=-128),
    ]
    operators = [
        Operator("SPACE_TO_BATCH_ND", ("x", "block", "pads"), ("cut",), CUT[0]),
        Operator(layer, ("cut", "w", "b"), ("c",), "Conv2DOptions" if layer == "CONV_2D" else _DEPTHWISE, options),
        Operator("BATCH_TO_SPACE_ND", ("c", "block", "crops"), ("y",), CUT[1]),
    ]
    return tensors, operators


_DEPTHWISE = "DepthwiseConv2DOptions"


def load(folder: Path, content: bytes) -> Graph:
    path = folder / "m.tflite"
    path.write_bytes(content)
    return load_model(path)


def assert_theirs(folder: Path, content: bytes, x: np.ndarray, numerics: Numerics = Numerics.TFLM) -> Graph:
    """The graph, whose integers are TensorFlow Lite Micro's or desktop LiteRT's."""
    graph = load(folder, content)
    (ours,) = run_int(graph, {"x": x}, numerics).values()
    (theirs,) = (run_tflm if numerics is Numerics.TFLM else run_litert)(content, x)
    np.testing.assert_array_equal(ours, theirs)
    return graph


def opened(tensors: Sequence[Tensor]) -> list[Tensor]:
    """The tensors as Keras' converter writes them for an open batch: the sizes that hang on it are 1, a placeholder."""
    return [
        t if t.data is not None else replace(t, shape=(1, *t.shape[1:]), signature=(-1, *t.shape[1:])) for t in tensors
    ]


GEOMETRIES = {
    "same": ([2, 2], [[2, 3], [2, 3]], [[0, 1], [0, 1]]),
    "valid": ([2, 3], [[0, 1], [0, 1]], [[0, 1], [0, 1]]),
    "crops more than it pads": ([2, 2], [[1, 0], [3, 2]], [[2, 0], [0, 1]]),
    "rows only": ([3, 1], [[2, 3], [1, 1]], [[0, 2], [0, 0]]),
    "no padding": ([2, 3], [[0, 0], [0, 0]], [[0, 0], [1, 2]]),
}


@pytest.mark.parametrize(
    # TensorFlow Lite Micro pads phases with what its memory happens to hold, so it is asked for none.
    ("name", "numerics"),
    [*((name, Numerics.LITERT) for name in GEOMETRIES), ("no padding", Numerics.TFLM)],
)
@pytest.mark.parametrize("layer", ["CONV_2D", "DEPTHWISE_CONV_2D"])
@pytest.mark.parametrize("is_open", [False, True])
def test_dilated_convolutions_are_theirs(tmp_path, name, layer, numerics, is_open):
    block, pads, crops = GEOMETRIES[name]
    sizes = {"valid": (7, 11), "rows only": (7, 5), "no padding": (8, 12)}.get(name, (7, 7))
    x = act("x", 1, *sizes, 3)
    tensors, operators = dilated(x, block, pads, crops, layer)
    if is_open:  # TensorFlow Lite Micro takes the placeholders for shapes
        tensors, numerics = opened(tensors), Numerics.LITERT
    graph = assert_theirs(tmp_path, build_model(tensors, operators, ["x"], ["y"]), random_s8(1, x.shape), numerics)
    moves = [node.op for node in graph.nodes if node.op not in ("conv2d", "depthwise_conv2d", "reshape")]
    assert moves == (["slice"] if name in ("crops more than it pads", "no padding") else [])
    (conv,) = (node for node in graph.nodes if "conv2d" in node.op)
    assert tuple(conv.attrs.dilation) == tuple(block)


@pytest.mark.parametrize("column", [False, True])
@pytest.mark.parametrize("is_open", [False, True])
def test_a_causal_convolution_over_time_is_one_layer(tmp_path, column, is_open):
    """As of Keras' Conv1D: a tensor of rank 3, a row (or column) while it is convolved."""
    x, y = act("x", 1, 11, 3), act("y", 1, 11, 5, scale=0.1, zero=-128)
    taps = weights("w", 5, 1, 3, 3)
    tensors = [
        x,
        numbers("block", [3]),
        numbers("pads", [[6, 1]]),
        numbers("crops", [[0, 1]]),
        act("cut", 3, 6, 3),
        numbers("row", [3, 6, 1, 3] if column else [3, 1, 6, 3]),
        act("r", *((3, 6, 1, 3) if column else (3, 1, 6, 3))),
        replace(taps, shape=(5, 3, 1, 3), data=taps.data.reshape(5, 3, 1, 3)) if column else taps,
        bias("b", 5),
        act("c", *((3, 4, 1, 5) if column else (3, 1, 4, 5)), scale=0.1, zero=-128),
        numbers("flat", [3, 4, 5]),
        act("d", 3, 4, 5, scale=0.1, zero=-128),
        y,
    ]
    row = Operator("RESHAPE", ("cut", "row"), ("r",), "ReshapeOptions")
    if is_open:
        tensors.append(numbers("axis", [2 if column else 1]))
        row = Operator("EXPAND_DIMS", ("cut", "axis"), ("r",), "ExpandDimsOptions")
    operators = [
        Operator("SPACE_TO_BATCH_ND", ("x", "block", "pads"), ("cut",), CUT[0]),
        row,
        Operator("CONV_2D", ("r", "w", "b"), ("c",), "Conv2DOptions", PLAIN),
        Operator("RESHAPE", ("c", "flat"), ("d",), "ReshapeOptions"),
        Operator("BATCH_TO_SPACE_ND", ("d", "block", "crops"), ("y",), CUT[1]),
    ]
    if is_open:
        flat = numbers("flat", [-1, 4, 5])
        tensors = [flat if t.name == "flat" else t for t in opened(tensors)]
    graph = assert_theirs(
        tmp_path, build_model(tensors, operators, ["x"], ["y"]), random_s8(1, x.shape), Numerics.LITERT
    )
    assert {node.op for node in graph.nodes} == {"conv2d", "reshape"}


@pytest.mark.parametrize(("shape", "block"), [((1, 6, 9, 3), [2, 3]), ((1, 8, 5), [4])])
@pytest.mark.parametrize(
    ("numerics", "is_open"), [(Numerics.TFLM, False), (Numerics.LITERT, False), (Numerics.LITERT, True)]
)
def test_phases_alone_are_theirs(tmp_path, shape, block, numerics, is_open):
    """As an output of the model, and put together by an operator that does not know where they come from."""
    pads = [[1, 3], [0, 6]] if len(block) == 2 else [[0, 4]]
    pads = [[0, 0]] * len(pads) if numerics is Numerics.TFLM else pads
    crops = [[1, 0], [2, 1]] if len(block) == 2 else [[1, 1]]
    x = act("x", *shape)
    cut = phases(x, block, pads, "cut")
    sizes = [n * b - sum(c) for n, b, c in zip(cut.shape[1:], block, crops, strict=False)]
    y = act("y", 1, *sizes, shape[-1])
    tensors = [x, numbers("block", block), numbers("pads", pads), numbers("crops", crops), cut, y]
    tensors.append(act("t", *cut.shape))
    tensors = opened(tensors) if is_open else tensors
    split = Operator("SPACE_TO_BATCH_ND", ("x", "block", "pads"), ("cut",), CUT[0])
    relu = Operator("RELU6", ("cut",), ("t",))
    join = Operator("BATCH_TO_SPACE_ND", ("t", "block", "crops"), ("y",), CUT[1])
    data = random_s8(1, shape)
    assert_theirs(tmp_path, build_model(tensors, [split, relu, join], ["x"], ["y"]), data, numerics)
    assert_theirs(tmp_path, build_model(tensors, [split], ["x"], ["cut"]), data, numerics)


def test_strides_between_phases_are_refused(tmp_path):
    tensors, operators = dilated(act("x", 1, 8, 8, 3), [2, 2], [[0, 0], [0, 0]], [[0, 0], [0, 0]], "CONV_2D")
    strided = Operator("CONV_2D", ("cut", "w", "b"), ("c",), "Conv2DOptions", {**PLAIN, "StrideH": 2})
    with pytest.raises(TinycError, match="strides"):
        load(tmp_path, build_model(tensors, [operators[0], strided, operators[2]], ["x"], ["y"]))


def test_blocks_that_do_not_fit_are_refused(tmp_path):
    tensors, operators = dilated(act("x", 1, 8, 8, 3), [2, 2], [[0, 0], [0, 0]], [[0, 0], [0, 0]], "CONV_2D")
    other = [numbers("block", [3, 2]) if t.name == "block" else t for t in tensors]
    with pytest.raises(TinycError, match="whole blocks"):
        load(tmp_path, build_model(other, operators, ["x"], ["y"]))
