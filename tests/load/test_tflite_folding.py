# SPDX-License-Identifier: Apache-2.0
"""Operators of constants in TFLite files, shapes computed as converters do, and the small importers beside them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.load.tflite_models import act, numbers, single, weights
from tests.ops.one_node import random_s8
from tests.ops.runtimes import run_litert, run_tflm
from tests.ops.tflite_builder import Operator, Tensor, build_model
from tinyc.base.errors import TinycError
from tinyc.base.numerics import Numerics
from tinyc.ir.graph import Graph
from tinyc.load import load_model
from tinyc.reference.interpreter import run_float, run_int


def load(folder: Path, content: bytes) -> Graph:
    path = folder / "m.tflite"
    path.write_bytes(content)
    return load_model(path)


def list_of(name: str, count: int) -> Tensor:
    """A computed list of int32."""
    return Tensor(name, (count,), "s32")


def test_a_resize_to_twice_the_shape(tmp_path):
    """UpSampling2D with an open batch: SHAPE, STRIDED_SLICE, MUL."""
    slicing = {"BeginMask": 0, "EndMask": 0, "ShrinkAxisMask": 0}
    tensors = [
        act("x", 1, 3, 5, 2),
        list_of("s", 4),
        numbers("one", [1]),
        numbers("three", [3]),
        numbers("step", [1]),
        list_of("hw", 2),
        numbers("two", [2, 2]),
        list_of("size", 2),
        act("y", 1, 6, 10, 2),
    ]
    operators = [
        Operator("SHAPE", ("x",), ("s",), "ShapeOptions", {"OutType": 2}),
        Operator("STRIDED_SLICE", ("s", "one", "three", "step"), ("hw",), "StridedSliceOptions", slicing),
        Operator("MUL", ("hw", "two"), ("size",), "MulOptions"),
        Operator("RESIZE_NEAREST_NEIGHBOR", ("x", "size"), ("y",), "ResizeNearestNeighborOptions"),
    ]
    content = build_model(tensors, operators, ["x"], ["y"])
    graph = load(tmp_path, content)
    assert [node.op for node in graph.nodes] == ["resize_nearest"]
    x = random_s8(1, (1, 3, 5, 2))
    np.testing.assert_array_equal(run_int(graph, {"x": x}, Numerics.TFLM)["y"], run_litert(content, x)[0])


def test_a_transposed_convolution_of_a_computed_shape(tmp_path):
    """Conv2DTranspose with an open batch: the output's shape is put together from numbers."""
    tensors = [
        act("x", 1, 3, 4, 2),
        list_of("s", 4),
        numbers("at", [1, 2]),
        list_of("hw", 2),
        numbers("two", [2]),
        list_of("size", 2),
        numbers("batch", [1]),
        numbers("channels", [5]),
        list_of("shape", 4),
        weights("w", 5, 2, 2, 2),
        act("y", 1, 6, 8, 5, scale=0.2),
    ]
    operators = [
        Operator("SHAPE", ("x",), ("s",), "ShapeOptions", {"OutType": 2}),
        Operator("GATHER", ("s", "at"), ("hw",), "GatherOptions", {"Axis": 0}),
        Operator("MUL", ("hw", "two"), ("size",), "MulOptions"),
        Operator("CONCATENATION", ("batch", "size", "channels"), ("shape",), "ConcatenationOptions", {"Axis": 0}),
        Operator("TRANSPOSE_CONV", ("shape", "w", "x"), ("y",), "TransposeConvOptions", {"StrideH": 2, "StrideW": 2}),
    ]
    graph = load(tmp_path, build_model(tensors, operators, ["x"], ["y"]))
    assert [node.op for node in graph.nodes] == ["transpose_conv2d"]


# operator, inputs, options, their fields, what comes out
COMPUTED: dict[str, tuple[str, list[Any], str, dict[str, Any], Any]] = {
    "sub": ("SUB", [[7, 5], [3]], "SubOptions", {}, [4, 2]),
    "div": ("DIV", [[-7, 7], [2]], "DivOptions", {}, [-3, 3]),
    "floor_div": ("FLOOR_DIV", [[-7, 7], [2]], "FloorDivOptions", {}, [-4, 3]),
    "floor_mod": ("FLOOR_MOD", [[-7, 7], [4]], "FloorModOptions", {}, [1, 3]),
    "maximum": ("MAXIMUM", [[1, 5], [3]], "MaximumMinimumOptions", {}, [3, 5]),
    "fill": ("FILL", [[2, 3], 7], "FillOptions", {}, [[7, 7, 7], [7, 7, 7]]),
    "range": ("RANGE", [2, 9, 3], "RangeOptions", {}, [2, 5, 8]),
    "slice": ("SLICE", [[4, 5, 6, 7], [1], [-1]], "SliceOptions", {}, [5, 6, 7]),
    "product": ("REDUCE_PROD", [[2, 3, 4], [0]], "ReducerOptions", {"KeepDims": True}, [24]),
    "broadcast args": ("BROADCAST_ARGS", [[3, 1], [2, 3, 5]], "", {}, [2, 3, 5]),
    "tile": ("TILE", [[1, 2], [2]], "TileOptions", {}, [1, 2, 1, 2]),
    "cumsum": ("CUMSUM", [[1, 2, 3], 0], "CumsumOptions", {"Exclusive": True, "Reverse": True}, [5, 3, 0]),
    "reverse": ("REVERSE_V2", [[1, 2, 3], [0]], "ReverseV2Options", {}, [3, 2, 1]),
    "transpose": ("TRANSPOSE", [[[1, 2, 3]], [1, 0]], "TransposeOptions", {}, [[1], [2], [3]]),
    "rank": ("RANK", [[[1, 2]]], "RankOptions", {}, 2),
    "zeros": ("ZEROS_LIKE", [[[1, 2]]], "ZerosLikeOptions", {}, [[0, 0]]),
}


@pytest.mark.parametrize("name", COMPUTED)
def test_numbers_are_computed(tmp_path, name):
    """The result times an input: float(x) * y."""
    code, inputs, options, fields, expected = COMPUTED[name]
    exact = np.array(expected, np.int32)
    arrays = [np.array(array, np.int32) for array in inputs]
    tensors = [Tensor(f"i{k}", array.shape, "s32", data=array) for k, array in enumerate(arrays)]
    tensors += [Tensor("r", exact.shape, "s32"), Tensor("f", exact.shape, "f32")]
    tensors += [Tensor("x", (1,), "f32"), Tensor("y", exact.shape or (1,), "f32")]
    operators = [
        Operator(code, tuple(f"i{k}" for k in range(len(arrays))), ("r",), options, fields),
        Operator("CAST", ("r",), ("f",), "CastOptions"),
        Operator("MUL", ("x", "f"), ("y",), "MulOptions"),
    ]
    graph = load(tmp_path, build_model(tensors, operators, ["x"], ["y"]))
    y = run_float(graph, {"x": np.float32([2])})["y"]
    np.testing.assert_array_equal(y, 2 * exact.reshape(y.shape))


@pytest.mark.parametrize(
    ("operator", "values", "words"),
    [
        (Operator("FILL", ("a", "b"), ("r",), "FillOptions"), ([1 << 30, 9], 7), "of shape"),
        (Operator("FLOOR_DIV", ("a", "b"), ("r",), "FloorDivOptions"), ([4], [0]), "cannot be computed"),
        (Operator("RANGE", ("a", "b", "b"), ("r",), "RangeOptions"), (0, 0), "cannot be computed"),
        (Operator("GATHER", ("a", "b"), ("r",), "GatherOptions", {"Axis": 0}), ([1, 2], [5]), "cannot be computed"),
        (Operator("TILE", ("a", "b"), ("r",), "TileOptions"), ([1], [1 << 30]), "of shape"),
    ],
)
def test_nonsense_is_refused(tmp_path, operator, values, words):
    arrays = [np.array(array, np.int32) for array in values]
    tensors = [Tensor(name, array.shape, "s32", data=array) for name, array in zip("ab", arrays, strict=True)]
    tensors += [Tensor("r", (3,), "s32"), act("x", 1, 3), act("y", 1, 3)]
    reshape = Operator("RESHAPE", ("x", "r"), ("y",), "ReshapeOptions")
    with pytest.raises(TinycError, match=words):
        load(tmp_path, build_model(tensors, [operator, reshape], ["x"], ["y"]))


IMPORTED = {
    "sum": (Operator("SUM", ("x", "k"), ("y",), "ReducerOptions", {"KeepDims": True}), [3, 1], 0.3, 7),
    "division": (Operator("DIV", ("x", "c"), ("y",), "DivOptions"), [3, 5], 0.02, 3),
    "l2": (Operator("L2_NORMALIZATION", ("x",), ("y",), "L2NormOptions"), [3, 5], 1 / 128, 0),
    "log_softmax": (Operator("LOG_SOFTMAX", ("x",), ("y",), "LogSoftmaxOptions"), [3, 5], 1 / 16, 127),
}


@pytest.mark.parametrize("name", IMPORTED)
def test_imported_operators_are_tflms(tmp_path, name):
    operator, shape, scale, zero = IMPORTED[name]
    divisor = Tensor("c", (1,), "s8", (0.05,), (-3,), data=np.array([90], np.int8))
    tensors = [act("x", 3, 5), numbers("k", [1]), divisor, act("y", *shape, scale=scale, zero=zero)]
    content = single(operator, [t for t in tensors if t.name in (*operator.inputs, "y")])
    x = random_s8(1, (3, 5))
    ours = run_int(load(tmp_path, content), {"x": x}, Numerics.TFLM)["y"]
    np.testing.assert_array_equal(ours, run_tflm(content, x)[0])


def test_sums_of_many_are_for_floats(tmp_path):
    operator = Operator("ADD_N", ("x", "x", "x"), ("y",), "AddNOptions")
    graph = load(tmp_path, single(operator, [Tensor("x", (3,), "f32"), Tensor("y", (3,), "f32")]))
    np.testing.assert_array_equal(run_float(graph, {"x": np.float32([1, 2, 5])})["y"], [3, 6, 15])
    with pytest.raises(TinycError, match="ADD_N of 3"):
        load(tmp_path, single(operator, [act("x", 3), act("y", 3)]))


@pytest.mark.parametrize("code", ["FLOOR", "CEIL", "ROUND"])
def test_rounding_is_for_floats(tmp_path, code):
    reals = [Tensor("x", (1, 5), "f32"), Tensor("y", (1, 5), "f32")]
    content = single(Operator(code, ("x",), ("y",)), reals)
    x = np.float32([[-2.5, -0.2, 0.5, 1.5, 7]])
    np.testing.assert_array_equal(run_float(load(tmp_path, content), {"x": x})["y"], run_litert(content, x)[0])
    with pytest.raises(TinycError, match="floats only"):
        load(tmp_path, single(Operator(code, ("x",), ("y",)), [act("x", 1, 5), act("y", 1, 5)]))


SLICES = {
    "ellipsis": ({"EllipsisMask": 2}, [0, 0, 1], [2, 0, 3], [1, 1, 2], np.s_[0:2, ..., 1:3:2]),
    "ellipsis in front": ({"EllipsisMask": 1, "ShrinkAxisMask": 2}, [0, -1], [0, 0], [1, 1], np.s_[..., -1]),
    "new axes": ({"NewAxisMask": 5, "EndMask": 2}, [0, 1, 0], [0, 0, 0], [1, 2, 1], np.s_[None, 1::2, None]),
    "ellipsis and new": ({"EllipsisMask": 1, "NewAxisMask": 2}, [0, 0], [0, 0], [1, 1], np.s_[..., None]),
    "backwards": ({"BeginMask": 1, "EndMask": 1}, [0, 2], [0, 0], [-1, -1], np.s_[::-1, 2:0:-1]),
}


@pytest.mark.parametrize("name", SLICES)
def test_slices_are_numpys_and_litert(tmp_path, name):
    masks, begin, end, step, index = SLICES[name]
    x = random_s8(1, (3, 4, 5))
    exact = x[index]
    options = {"BeginMask": 0, "EndMask": 0, "ShrinkAxisMask": 0, "NewAxisMask": 0, "EllipsisMask": 0, **masks}
    lists = [numbers(n, values) for n, values in zip("bes", (begin, end, step), strict=True)]
    operator = Operator("STRIDED_SLICE", ("x", "b", "e", "s"), ("y",), "StridedSliceOptions", options)
    content = single(operator, [act("x", 3, 4, 5), *lists, act("y", *exact.shape)])
    np.testing.assert_array_equal(run_int(load(tmp_path, content), {"x": x}, Numerics.TFLM)["y"], exact)
    np.testing.assert_array_equal(run_litert(content, x)[0], exact)


def test_a_dense_layer_on_time_and_channels_with_an_open_batch(tmp_path: Path) -> None:
    """As Keras writes Dense on [batch, T, C]: the shape is computed, and what it gives is left open in the file."""

    def tensor(name: str, shape: tuple[int, ...], dtype: str = "f32", data: object = None, open_: str = "") -> Tensor:
        signature = tuple(map(int, open_.split(","))) if open_ else ()
        return Tensor(name, shape, dtype, data=None if data is None else np.asarray(data), signature=signature)

    w = np.random.default_rng(0).normal(size=(4, 9)).astype(np.float32)
    fixed = {"front": [0, 1], "axis": [0], "nine": 9, "four": [4]}
    tensors = [
        tensor("x", (1, 32, 9), open_="-1,32,9"),
        tensor("flat", (1, 1), open_="-1,-1"),
        tensor("dense", (1, 4), open_="-1,4"),
        tensor("y", (1, 32, 4), open_="-1,32,4"),
        tensor("w", (4, 9), data=w),
        *(tensor(name, np.shape(held), "s32", np.array(held, np.int32)) for name, held in fixed.items()),
        *(tensor(name, (size,), "s32") for name, size in (("sizes", 3), ("kept", 2), ("new", 2), ("last", 3))),
        tensor("rows", (), "s32"),
    ]
    operators = [
        Operator("SHAPE", ("x",), ("sizes",)),
        Operator("GATHER", ("sizes", "front"), ("kept",), "GatherOptions", {}),
        Operator("REDUCE_PROD", ("kept", "axis"), ("rows",), "ReducerOptions", {}),
        Operator("PACK", ("rows", "nine"), ("new",), "PackOptions", {"ValuesCount": 2}),
        Operator("RESHAPE", ("x", "new"), ("flat",)),
        Operator("FULLY_CONNECTED", ("flat", "w"), ("dense",), "FullyConnectedOptions", {}),
        Operator("CONCATENATION", ("kept", "four"), ("last",), "ConcatenationOptions", {}),
        Operator("RESHAPE", ("dense", "last"), ("y",)),
    ]
    path = tmp_path / "dense.tflite"
    path.write_bytes(build_model(tensors, operators, ("x",), ("y",)))
    x = np.random.default_rng(1).normal(size=(1, 32, 9)).astype(np.float32)
    y = run_float(load_model(path), {"x": x})["y"]
    np.testing.assert_allclose(y, x @ w.T, rtol=1e-5, atol=1e-5)


def test_truth_becomes_one_or_zero(tmp_path: Path) -> None:
    zeros = Tensor("z", (1, 6), "f32", data=np.zeros((1, 6), np.float32))
    tensors = [Tensor("x", (1, 6), "f32"), zeros, Tensor("b", (1, 6), "bool"), Tensor("y", (1, 6), "f32")]
    greater = Operator("GREATER", ("x", "z"), ("b",), "GreaterOptions")
    path = tmp_path / "m.tflite"
    content = build_model(tensors, [greater, Operator("CAST", ("b",), ("y",), "CastOptions", {})], ("x",), ("y",))
    path.write_bytes(content)
    x = np.random.default_rng(1).normal(size=(1, 6)).astype(np.float32)
    np.testing.assert_array_equal(run_float(load_model(path), {"x": x})["y"], run_litert(content, x)[0])
