# SPDX-License-Identifier: Apache-2.0
"""The TFLite loader: what each operator becomes, and what is said about models that cannot be taken."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.load.tflite_models import (
    CONV,
    act,
    bias,
    network,
    network_bytes,
    numbers,
    samples,
    single,
    weights,
)
from tests.ops.runtimes import run_litert, run_tflm
from tests.ops.tflite_builder import Operator, Tensor, build_model
from tinyc.base.errors import Loc, TinycError
from tinyc.base.numerics import Numerics
from tinyc.ir.graph import Graph, Quant
from tinyc.kernel.site import RELU, RELU6, Act, Padding, Pair
from tinyc.load import load_model, unsupported
from tinyc.ops.avg_pool2d import AvgPool2D
from tinyc.ops.clip import Clip
from tinyc.ops.concat import Concat
from tinyc.ops.conv2d import Conv2D
from tinyc.ops.depthwise_conv2d import DepthwiseConv2D
from tinyc.ops.fully_connected import FullyConnected
from tinyc.ops.mean import Mean
from tinyc.ops.pad import Pad
from tinyc.ops.quantize import Quantize
from tinyc.ops.requantize import Requantize
from tinyc.ops.reshape import Reshape
from tinyc.ops.softmax import Softmax
from tinyc.ops.transpose import Transpose
from tinyc.reference.interpreter import prepare_int, run_float


@pytest.fixture
def load(tmp_path: Path) -> Any:
    def load_bytes(content: bytes) -> Graph:
        path = tmp_path / "m.tflite"
        path.write_bytes(content)
        return load_model(path)

    return load_bytes


@pytest.fixture
def refuse(load: Any) -> Any:
    def error_of(content: bytes) -> TinycError:
        with pytest.raises(TinycError) as caught:
            load(content)
        error = caught.value
        assert error.where is not None
        assert error.where.file == "m.tflite"
        assert error.hint
        return error

    return error_of


def test_network(load: Any) -> None:
    g = load(network_bytes())
    assert g.name == "m"
    assert g.inputs == ("x",)
    assert g.outputs == ("y",)
    assert [(n.op, n.attrs) for n in g.nodes[:3]] == [
        ("conv2d", Conv2D(Pair(2, 1), Padding(1, 1, 1, 1), act=RELU6)),
        ("depthwise_conv2d", DepthwiseConv2D(Pair(1, 1), Padding(1, 1, 1, 1), act=RELU)),
        ("pad", Pad((0, 1, 0, 0), (0, 0, 1, 0), 0.0)),
    ]
    assert g.nodes[5].attrs == AvgPool2D(Pair(2, 2), Pair(2, 2))
    assert [(n.op, n.attrs) for n in g.nodes[6:]] == [
        ("reshape", Reshape((1, 48))),
        ("fully_connected", FullyConnected()),
        ("softmax", Softmax(1.0)),
    ]
    assert g.nodes[1].origin == (Loc("m.tflite", 1, "d", "DEPTHWISE_CONV_2D"),)
    assert g.values["d"].loc == g.nodes[1].where
    assert g.values["x"].loc == Loc("m.tflite", None, "x")
    assert g.values["x"].quant == Quant((float(np.float32(0.05)),), (-3,))


def test_network_computes_what_other_runtimes_do(load: Any) -> None:
    content = network_bytes()
    g, x = load(content), samples(9)
    for theirs, numerics in ((run_tflm, Numerics.TFLM), (run_litert, Numerics.LITERT)):
        ours = prepare_int(g, numerics)({"x": x})["y"]
        for sample, y in zip(x, ours, strict=True):
            np.testing.assert_array_equal(y, theirs(content, sample)[0])


def test_weights_and_bias(load: Any) -> None:
    tensors = {t.name: t for t in network()[0]}
    g = load(network_bytes())
    assert g.values["dw"].shape == (3, 3, 8)
    assert g.values["dw"].quant.axis == 2
    np.testing.assert_array_equal(g.consts["dw"], tensors["dw"].data[0])
    np.testing.assert_array_equal(g.consts["cb"], tensors["cb"].data)
    x_scale, w_scale = g.values["x"].quant.scale[0], g.values["cw"].quant.scale
    assert g.values["cb"].quant == Quant(tuple(x_scale * s for s in w_scale), (0,) * 4, 0)
    assert g.values["fw"].quant.axis is None
    assert not any(array.flags.writeable for array in g.consts.values())


def test_bias_with_a_wrong_axis(load: Any) -> None:
    """Published files have it; what the bias stands for follows from input and weights alone."""
    g = load(change("cb", axis=3))
    assert g.values["cb"] == load(network_bytes()).values["cb"]


@pytest.mark.parametrize("size", [1, 2, 3, 7, 8, 9])
@pytest.mark.parametrize("stride", [1, 2, 3])
@pytest.mark.parametrize(("kernel", "dilation"), [(1, 1), (2, 1), (3, 1), (3, 2), (5, 1), (4, 3)])
def test_same_padding(load: Any, size: int, stride: int, kernel: int, dilation: int) -> None:
    out = -(-size // stride)
    fields = {
        **CONV, "StrideH": stride, "StrideW": 1, "DilationHFactor": dilation, "DilationWFactor": 1,
    }  # fmt: skip
    operator = Operator("CONV_2D", ("x", "w", ""), ("y",), "Conv2DOptions", fields)
    g = load(single(operator, [act("x", 1, size, 1, 2), weights("w", 3, kernel, 1, 2), act("y", 1, out, 1, 3)]))
    pad = g.nodes[0].attrs.pad
    extent = (kernel - 1) * dilation + 1
    assert 0 <= pad.bottom - pad.top <= 1
    assert pad.top + pad.bottom == max((out - 1) * stride + extent - size, 0)
    assert (pad.left, pad.right) == (0, 0)
    assert g.nodes[0].inputs == ("x", "w") or g.nodes[0].inputs == ("x", "w", "")


def test_grouped_convolution(load: Any) -> None:
    operator = Operator("CONV_2D", ("x", "w", "b"), ("y",), "Conv2DOptions", {**CONV, "StrideH": 1, "Padding": 1})
    g = load(single(operator, [act("x", 1, 3, 5, 6), weights("w", 4, 1, 1, 3), bias("b", 4), act("y", 1, 3, 5, 4)]))
    assert g.nodes[0].attrs == Conv2D(groups=2)


ELEMENTWISE: list[tuple[Operator, list[Tensor], str, Any]] = [
    (Operator("RELU", ("x",), ("y",)), [], "clip", Clip(RELU)),
    (Operator("RELU6", ("x",), ("y",)), [], "clip", Clip(RELU6)),
    (Operator("RELU_N1_TO_1", ("x",), ("y",)), [], "clip", Clip(Act(-1.0, 1.0))),
    (Operator("QUANTIZE", ("x",), ("y",)), [], "requantize", Requantize("s8")),
    (Operator("SQUEEZE", ("x",), ("y",), "SqueezeOptions"), [], "reshape", Reshape((1, 6))),
    (Operator("PADV2", ("x", "p", "v"), ("y",), "PadV2Options"),
     [numbers("p", [[0, 0], [0, 0]], "s64"), Tensor("v", (), "s8", (0.05,), (-3,), data=np.array(17, np.int8))],
     "pad", Pad((0, 0), (0, 0), 1.0)),
    (Operator("TRANSPOSE", ("x", "p"), ("y",), "TransposeOptions"), [numbers("p", [0, 1])],
     "transpose", Transpose((0, 1))),
    (Operator("MEAN", ("x", "a"), ("y",), "ReducerOptions", {"KeepDims": True}), [numbers("a", [0])],
     "mean", Mean((0,), True)),
    (Operator("CONCATENATION", ("x",), ("y",), "ConcatenationOptions", {"Axis": -1}), [], "concat", Concat(-1)),
]  # fmt: skip


@pytest.mark.parametrize(("operator", "more", "op", "attrs"), ELEMENTWISE, ids=lambda v: getattr(v, "code", ""))
def test_small_operators(load: Any, operator: Operator, more: list[Tensor], op: str, attrs: Any) -> None:
    g = load(single(operator, [act("x", 1, 6), *more, act("y", 1, 6)]))
    assert [(n.op, n.attrs) for n in g.nodes] == [(op, attrs)]
    assert g.nodes[0].inputs == ("x",)
    assert set(g.consts) == set(), "axes and paddings are attributes, not values"


def test_quantize_and_dequantize(load: Any) -> None:
    tensors = [act("x", 1, 5, dtype="f32"), act("q", 1, 5), act("y", 1, 5, dtype="f32")]
    operators = [Operator("QUANTIZE", ("x",), ("q",)), Operator("DEQUANTIZE", ("q",), ("y",))]
    g = load(build_model(tensors, operators, ["x"], ["y"]))
    assert [n.op for n in g.nodes] == ["quantize", "dequantize"]
    assert g.nodes[0].attrs == Quantize("s8")
    x = np.array([[-100, -0.026, 0.0, 0.024, 100]], np.float32)
    y = prepare_int(g, Numerics.TFLM)({"x": x})["y"]
    np.testing.assert_allclose(y, [[-6.25, -0.05, 0.0, 0.0, 6.5]], rtol=1e-6, atol=1e-7)


def test_fused_activation_after_concat(load: Any) -> None:
    fields = {"Axis": 1, "FusedActivationFunction": 1}
    operator = Operator("CONCATENATION", ("x", "x"), ("y",), "ConcatenationOptions", fields)
    g = load(single(operator, [act("x", 1, 3), act("y", 1, 6)]))
    assert [n.op for n in g.nodes] == ["concat", "clip"]
    y = prepare_int(g, Numerics.TFLM)({"x": np.array([[-128, -3, 127]], np.int8)})["y"]
    assert y.tolist() == [[-3, -3, 127, -3, -3, 127]]


def test_shape_computed_from_shapes(load: Any) -> None:
    """reshape(x, pack(shape(x)[0], 6)): what Keras' Flatten became with an open batch."""
    tensors = [
        act("x", 1, 2, 3),
        Tensor("s", (3,), "s32"),
        numbers("zero", [0]), numbers("one", [1]),
        Tensor("n", (), "s32"),
        Tensor("six", (), "s32", data=np.array(6, np.int32)),
        Tensor("to", (2,), "s32"),
        act("y", 1, 6),
    ]  # fmt: skip
    operators = [
        Operator("SHAPE", ("x",), ("s",), "ShapeOptions", {"OutType": 2}),
        Operator("STRIDED_SLICE", ("s", "zero", "one", "one"), ("n",), "StridedSliceOptions", {"ShrinkAxisMask": 1}),
        Operator("PACK", ("n", "six"), ("to",), "PackOptions", {"ValuesCount": 2}),
        Operator("RESHAPE", ("x", "to"), ("y",), "ReshapeOptions"),
    ]
    g = load(build_model(tensors, operators, ["x"], ["y"]))
    assert [(n.op, n.attrs) for n in g.nodes] == [("reshape", Reshape((1, 6)))]


def test_float16_weights(load: Any) -> None:
    w16 = np.array([[0.5, -1.25, 3.0], [0.1, 0.2, 0.3]], np.float16)
    tensors = [
        act("x", 1, 3, dtype="f32"),
        Tensor("w16", (2, 3), "f16", data=w16),
        Tensor("w", (2, 3), "f32"),
        act("y", 1, 2, dtype="f32"),
    ]
    operators = [
        Operator("DEQUANTIZE", ("w16",), ("w",)),
        Operator("FULLY_CONNECTED", ("x", "w", ""), ("y",), "FullyConnectedOptions"),
    ]
    g = load(build_model(tensors, operators, ["x"], ["y"]))
    assert [n.op for n in g.nodes] == ["fully_connected"]
    x = np.array([[1.0, 2.0, -4.0]], np.float32)
    np.testing.assert_allclose(run_float(g, {"x": x})["y"], x @ w16.astype(np.float32).T, rtol=1e-6)


@pytest.mark.parametrize(
    ("shape", "width"), [((1, 8), 4), ((2, 3, 4), 6), ((2, 3, 4), 2), ((2, 3, 4), 8), ((2, 6), 12)]
)
def test_fully_connected_takes_rows_of_its_weights_width(load: Any, shape: tuple[int, ...], width: int) -> None:
    """Whatever the last axis of x is: TFLite's batch is the number of elements over the width of the weights."""
    rng = np.random.default_rng(3)
    x, w = rng.normal(size=shape).astype(np.float32), rng.normal(size=(3, width)).astype(np.float32)
    tensors = [act("x", *shape, dtype="f32"), Tensor("w", w.shape, "f32", data=w)]
    operator = Operator("FULLY_CONNECTED", ("x", "w", ""), ("y",), "FullyConnectedOptions")
    g = load(single(operator, [*tensors, act("y", x.size // width, 3, dtype="f32")]))
    np.testing.assert_allclose(run_float(g, {"x": x})["y"], x.reshape(-1, width) @ w.T, rtol=1e-5)


def test_damaged_constant_to_dequantize(refuse: Any) -> None:
    w = replace(weights("w", 2, 3), axis=7)
    tensors = [act("x", 1, 3, dtype="f32"), w, Tensor("r", (2, 3), "f32"), act("y", 1, 2, dtype="f32")]
    operators = [
        Operator("DEQUANTIZE", ("w",), ("r",)),
        Operator("FULLY_CONNECTED", ("x", "r", ""), ("y",), "FullyConnectedOptions"),
    ]
    assert "axis 7, beyond its rank" in str(refuse(build_model(tensors, operators, ["x"], ["y"])))


def test_int4_weights(load: Any) -> None:
    w = np.array([[-8, 7, -1], [3, 0, 5]], np.int8)
    low, high = np.append(w.ravel()[0::2], []), np.append(w.ravel()[1::2], [])
    packed = ((low.astype(np.int64) & 15) | (high.astype(np.int64) & 15) << 4).astype(np.uint8)
    tensors = [act("x", 1, 3), Tensor("w", (2, 3), "s4", (0.1, 0.2), (0, 0), 0, packed), act("y", 1, 2)]
    operator = Operator("FULLY_CONNECTED", ("x", "w", ""), ("y",), "FullyConnectedOptions")
    g = load(single(operator, tensors))
    assert g.values["w"].dtype == "s4"
    np.testing.assert_array_equal(g.consts["w"], w)


def test_names_are_unique_and_printable(load: Any) -> None:
    tensors = [act("x", 1, 3), act("y", 1, 3), act("z", 1, 3)]
    renamed = [replace(t, name=f"{name}") for t, name in zip(tensors, ["a\nb", "same;1", "same;2"], strict=True)]
    operators = [Operator("RELU", ("a\nb",), ("same;1",)), Operator("RELU", ("same;1",), ("same;2",))]
    g = load(build_model(renamed, operators, ["a\nb"], ["same;2"]))
    assert g.inputs == ("a?b",)
    assert [n.outputs for n in g.nodes] == [("same",), ("same#2",)]
    assert [g.values[n.outputs[0]].loc.tensor for n in g.nodes] == ["same;1", "same;2"]


def test_open_batch_becomes_one(load: Any) -> None:
    tensors = [replace(act("x", 1, 3), signature=(-1, 3)), act("y", 1, 3)]
    assert load(single(Operator("RELU", ("x",), ("y",)), tensors)).values["x"].shape == (1, 3)


def change(name: str, **changes: Any) -> bytes:
    """`network` with one tensor changed."""
    tensors, operators = network()
    changed = [replace(t, **changes) if t.name == name else t for t in tensors]
    return build_model(changed, operators, ["x"], ["y"])


DAMAGED: Mapping[str, tuple[dict[str, Any], str]] = {
    "negative size": ({"name": "x", "shape": (1, -7, 5, 3)}, "every size must be 1 or more"),
    "empty": ({"name": "x", "shape": (1, 0, 5, 3)}, "every size must be 1 or more"),
    "huge": ({"name": "x", "shape": (1, 65536, 65536, 3)}, "beyond tinyc's limit"),
    "huge constant": ({"name": "cw", "shape": (2**30, 3, 3, 3)}, "beyond tinyc's limit"),
    "rank": ({"name": "x", "shape": (1,) * 9}, "tensor 0 cannot be read"),
    "batch": ({"name": "x", "shape": (2, 7, 5, 3)}, "is declared s8 [1, 5, 6, 8], but pad gives s8 [2, 5, 6, 8]"),
    "other shape": ({"name": "c", "shape": (1, 4, 4, 4)}, "is declared s8 [1, 4, 4, 4], but conv2d gives"),
    "short buffer": ({"name": "cb", "data": np.zeros(3, np.int32)}, "has 12 bytes, not 16"),
    "long buffer": ({"name": "cw", "data": np.zeros(200, np.int8)}, "has 200 bytes, not 108"),
    "missing buffer": ({"name": "cw", "data": None}, "must be a constant, but is computed at run time"),
    "zero scale": ({"name": "c", "scale": (0.0,)}, "scale 0.0"),
    "negative scale": ({"name": "x", "scale": (-1.0,)}, "scale -1.0"),
    "nan scale": ({"name": "x", "scale": (float("nan"),)}, "scale nan"),
    "infinite scale": ({"name": "cw", "scale": (1.0, 1.0, float("inf"), 1.0)}, "scale inf"),
    "zero point": ({"name": "x", "zero": (128,)}, "zero point 128, outside [-128, 127]"),
    "far zero point of weights": ({"name": "fw", "zero": (2**32 - 1,)}, "outside [-128, 127]"),
    "far zero point": ({"name": "x", "zero": (-(2**40),)}, "outside [-128, 127]"),
    "asymmetric weights": ({"name": "cw", "zero": (0, 0, 1, 0)}, "have a zero point"),
    "scales": ({"name": "cw", "scale": (0.1, 0.1), "zero": (0, 0)}, "2 scales where 4 belong"),
    "activation scales": ({"name": "x", "scale": (0.1,) * 3, "zero": (0,) * 3, "axis": 3}, "activations have one"),
    "no scale": ({"name": "p", "scale": ()}, "has no scale and zero point"),
    "many zeros": ({"name": "x", "zero": (0, 0)}, "1 scales and 2 zero points"),
    "string": ({"name": "x", "dtype": "string", "scale": ()}, "has type STRING"),
    "float16 activation": ({"name": "x", "dtype": "f16", "scale": ()}, "has type FLOAT16"),
    "float input": ({"name": "x", "dtype": "f32", "scale": ()}, "but conv2d gives f32"),
    "float weights": (
        {"name": "cw", "dtype": "f32", "scale": (), "data": np.zeros((4, 3, 3, 3), np.float32)},
        "are float32, but the input 'x' is int8",
    ),
    "variable size": ({"name": "x", "signature": (-1, -1, 5, 3)}, "has a variable size in axis 1"),
    "variable tensor": ({"name": "x", "variable": True}, "is a variable"),
    "computed constant": ({"name": "c", "data": np.zeros((1, 4, 5, 4), np.int8)}, "it has a value already"),
    "paddings": ({"name": "pads", "shape": (2, 2), "data": np.zeros(4, np.int32)}, "4 paddings for a tensor"),
    "negative paddings": ({"name": "pads", "data": np.full(8, -1, np.int32)}, "negative"),
    "long list": ({"name": "pads", "shape": (100,), "data": np.zeros(100, np.int32)}, "a short list"),
}  # fmt: skip


@pytest.mark.parametrize("what", DAMAGED)
def test_damaged_tensors(refuse: Any, what: str) -> None:
    changes, message = DAMAGED[what]
    error = refuse(change(**changes))
    assert message in str(error)


def test_non_finite_constants(refuse: Any) -> None:
    w = Tensor("w", (2, 3), "f32", data=np.array([[1, 2, np.nan], [0, 0, 0]], np.float32))
    operator = Operator("FULLY_CONNECTED", ("x", "w", ""), ("y",), "FullyConnectedOptions")
    error = refuse(single(operator, [act("x", 1, 3, dtype="f32"), w, act("y", 1, 2, dtype="f32")]))
    assert "NaN or infinity" in error.message


def test_use_before_definition_and_cycles(refuse: Any) -> None:
    tensors = [act(name, 1, 3) for name in "xabcy"]
    late = [Operator("RELU", ("a",), ("y",)), Operator("RELU", ("x",), ("a",))]
    assert "read before any operator computes it" in str(refuse(build_model(tensors, late, ["x"], ["y"])))
    add = {"options": "AddOptions", "fields": {"FusedActivationFunction": 0}}
    cycle = [
        Operator("ADD", ("x", "c"), ("a",), **add),
        Operator("RELU", ("a",), ("c",)),
        Operator("RELU", ("c",), ("y",)),
    ]
    assert "read before any operator computes it" in str(refuse(build_model(tensors, cycle, ["x"], ["y"])))


def test_two_producers(refuse: Any) -> None:
    tensors = [act(name, 1, 3) for name in "xy"]
    twice = [Operator("RELU", ("x",), ("y",))] * 2
    assert "it has a value already" in str(refuse(build_model(tensors, twice, ["x"], ["y"])))
    split = Operator("SPLIT", ("x",), ("y", "y"))
    assert "same output twice" in str(refuse(build_model(tensors, [split], ["x"], ["y"])))


@pytest.mark.parametrize(
    ("inputs", "outputs", "message"),
    [
        ([], ["y"], "read before any operator"),
        (["x"], [], "no inputs or no outputs"),
        (["x"], ["z"], "'z' is not computed by any operator"),
        (["x", "x"], ["y"], "listed twice as an input"),
        (["x", "y"], ["y"], "it has a value already"),
    ],
)
def test_inputs_and_outputs(refuse: Any, inputs: list[str], outputs: list[str], message: str) -> None:
    tensors = [act(name, 1, 3) for name in "xyz"]
    error = refuse(build_model(tensors, [Operator("RELU", ("x",), ("y",))], inputs, outputs))
    assert message in str(error)


def test_options(refuse: Any) -> None:
    tensors = [act("x", 1, 3, 3, 2), act("y", 1, 3, 3, 2)]
    none = single(Operator("MAX_POOL_2D", ("x",), ("y",)), tensors)
    assert "options NONE, not Pool2DOptions" in str(refuse(none))
    good = {"FilterHeight": 1, "FilterWidth": 1, "StrideH": 1, "StrideW": 1, "Padding": 0}
    for fields, message in (
        ({"StrideH": 0}, "must be positive"),
        ({"FilterWidth": -1}, "must be positive"),
        ({"FilterWidth": 2**30}, "pads the image beyond"),
        ({"FilterHeight": 5, "Padding": 1}, "does not fit"),
        ({"FusedActivationFunction": 4}, "fused activation TANH"),
        ({"FusedActivationFunction": 99}, "fused activation 99"),
    ):
        operator = Operator("MAX_POOL_2D", ("x",), ("y",), "Pool2DOptions", {**good, **fields})
        assert message in str(refuse(single(operator, tensors)))


def test_all_unsupported_operators_are_listed(refuse: Any, tmp_path: Path) -> None:
    tensors = [act(name, 1, 3) for name in "xabcdey"]
    operators = [
        Operator("HASHTABLE", ("x",), ("a",)),
        Operator("RELU", ("a",), ("b",)),
        Operator("HASHTABLE", ("b",), ("c",)),
        Operator("MAX_POOL_2D", ("c",), ("d",)),
        Operator("TANH", ("d",), ("y",)),
    ]
    content = build_model(tensors, operators, ["x"], ["y"])
    error = refuse(content)
    assert error.message == (
        "3 operators cannot be imported\n"
        "  nodes 0, 2 (HASHTABLE): operator HASHTABLE is not supported\n"
        "  node 3 'd' (MAX_POOL_2D): the operator has options NONE, not Pool2DOptions"
    )
    path = tmp_path / "m.tflite"
    problems = unsupported(path)
    places = [(p.where.node, p.where.op) for p in problems if p.where]
    assert places == [(0, "HASHTABLE"), (2, "HASHTABLE"), (3, "MAX_POOL_2D")]
    path.write_bytes(network_bytes())
    assert unsupported(path) == []


def test_a_follow_up_is_no_problem_of_its_own(tmp_path: Path) -> None:
    """An operator whose input could not even be described is not reported beside the one that makes it."""
    tensors = [act("x", 1, 3), Tensor("a", (1, 3), "string"), act("y", 1, 3)]
    operators = [Operator("HASHTABLE", ("x",), ("a",)), Operator("RELU", ("a",), ("y",))]
    path = tmp_path / "m.tflite"
    path.write_bytes(build_model(tensors, operators, ["x"], ["y"]))
    assert [p.message for p in unsupported(path)] == ["operator HASHTABLE is not supported"]


def test_a_constant_is_made_once(refuse: Any) -> None:
    tensors = [act("x", 1, 3), Tensor("s", (2,), "s32"), act("y", 1, 3)]
    shape = Operator("SHAPE", ("x",), ("s",), "ShapeOptions", {"OutType": 2})
    relu = Operator("RELU", ("x",), ("y",))
    assert "it has a value already" in str(refuse(build_model(tensors, [shape, shape, relu], ["x"], ["y"])))
    onto = replace(shape, outputs=("x",))
    assert "it has a value already" in str(refuse(build_model(tensors, [onto, relu], ["x"], ["y"])))
