# SPDX-License-Identifier: Apache-2.0
"""One-node graphs of weighted layers with random or extreme integers, and the same as TFLite files."""

from __future__ import annotations

import functools
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, Literal

import numpy as np

from tests.ops.tflite_builder import Operator, Tensor, build_model
from tinyc.ir.graph import Array, DType, Graph, Node, Quant, Value, read_only
from tinyc.ops import all_ops

OUT_AXIS = {"transpose_conv2d": 0, "conv2d": 0, "depthwise_conv2d": 2, "fully_connected": 0}
ACT_NUMBER = {"": 0, "relu": 1, "relu_n1_to_1": 2, "relu6": 3}
DTYPES: Mapping[int, DType] = {9: "s16", 8: "s8", 4: "s4"}
X_SCALE = float(np.float32(0.0235))


@dataclass(frozen=True)
class Layer:
    """What a weighted layer of a test looks like. `gain` divides the output scale: above 1, more saturates.

    bits: of the weights; 9: int8 ones less a zero point, held as int16. w_zero: of uint8 weights, which they are less
    it then; otherwise each output channel may have its own.
    """

    op: str
    attrs: Any
    x_shape: tuple[int, ...]
    w_shape: tuple[int, ...]
    x_zero: int = 3
    y_zero: int = -5
    bias: bool = True
    per_channel: bool = True
    # or "largest": 127, "signs": +-127, "least": one -128 among random ones, "all least": -128, "small": a tenth
    weights: str = "random"
    gain: float = 1.0
    seed: int = 0
    bits: Literal[9, 8, 4] = 8
    w_zero: int | None = None

    @property
    def out_c(self) -> int:
        return self.w_shape[OUT_AXIS[self.op]]


@functools.cache
def graph_of(layer: Layer) -> Graph:
    """The one-node graph: input x, constants w and maybe b, output y. One graph for all who ask for the layer."""
    rng = np.random.default_rng(layer.seed)
    taps = int(np.prod(layer.w_shape)) // layer.out_c
    axis = OUT_AXIS[layer.op] if layer.per_channel else None
    scales = rng.uniform(0.002, 0.02, layer.out_c if layer.per_channel else 1) * {9: 0.5, 8: 1, 4: 18}[layer.bits]
    w_scale = tuple(float(v) for v in scales.astype(np.float32))
    y_scale = float(np.float32(0.01 * X_SCALE * np.sqrt(taps) * 74 / layer.gain))
    values = [
        Value("x", layer.x_shape, "s8", Quant((X_SCALE,), (layer.x_zero,))),
        Value("w", layer.w_shape, DTYPES[layer.bits], Quant(w_scale, (0,) * len(w_scale), axis)),
    ]
    consts = {"w": read_only(_weights(layer, rng))}
    if layer.bias:
        values.append(Value("b", (layer.out_c,), "s32"))
        reach = 12 * taps if layer.bits == 4 else 200 * taps
        consts["b"] = read_only(rng.integers(-reach, reach, layer.out_c, dtype=np.int32))
    (kind,) = all_ops()[layer.op].infer(layer.attrs, *values)
    y = Value("y", kind.shape, "s8", Quant((y_scale,), (layer.y_zero,)))
    node = Node("layer", layer.op, tuple(v.name for v in values), ("y",), layer.attrs)
    return Graph("one_node", ("x",), ("y",), (node,), {v.name: v for v in (*values, y)}, consts)


def _weights(layer: Layer, rng: np.random.Generator) -> Array:
    if layer.w_zero is not None:
        return _unsigned_weights(layer, rng)
    largest = 2 ** (layer.bits - 1) - 1
    dtype = np.int16 if layer.bits == 9 else np.int8
    w = rng.integers(-largest, largest + 1, layer.w_shape).astype(dtype)
    if layer.weights == "largest":
        w[...] = largest
    elif layer.weights == "signs":
        w = (largest * rng.choice([-1, 1], layer.w_shape)).astype(dtype)
    elif layer.weights == "all least":
        w[...] = -largest - 1
    elif layer.weights == "small":
        w = (w / 10).astype(dtype)
    elif layer.weights == "least":
        w.flat[w.size // 2] = -largest - 1
    return w


def _unsigned_weights(layer: Layer, rng: np.random.Generator) -> Array:
    w = rng.integers(0, 256, layer.w_shape)
    if layer.weights == "largest":
        w[...] = 255
    elif layer.weights == "signs":
        w = 255 * rng.integers(0, 2, layer.w_shape)
    elif layer.weights == "all least":
        w[...] = 0
    return (w - (layer.w_zero or 0)).astype(np.int16)


def samples(layer: Layer) -> list[Mapping[str, Array]]:
    """Inputs: random, random ends of the range, all least, all greatest."""
    rng = np.random.default_rng(layer.seed + 1000)
    shape = layer.x_shape
    ends = rng.choice(np.array([-128, 127], np.int8), shape)
    arrays = [rng.integers(-128, 128, shape).astype(np.int8), ends, np.full(shape, -128), np.full(shape, 127)]
    return [{"x": array.astype(np.int8)} for array in arrays]


def as_tflite(layer: Layer) -> bytes:
    """The layer as a TFLite file. Its padding must be none, or what TFLite's SAME gives: then pad.bottom > 0."""
    graph, a = graph_of(layer), layer.attrs
    tensors = [_tensor(graph, name, layer) for name in graph.values]
    code, options, fields = {
        "conv2d": ("CONV_2D", "Conv2DOptions", {}),
        "depthwise_conv2d": ("DEPTHWISE_CONV_2D", "DepthwiseConv2DOptions", {"DepthMultiplier": 1}),
        "fully_connected": ("FULLY_CONNECTED", "FullyConnectedOptions", {}),
    }[layer.op]
    fields = {**fields, "FusedActivationFunction": ACT_NUMBER[str(a.act)]}
    if layer.op != "fully_connected":
        fields |= {"Padding": 0 if a.pad.bottom else 1, "StrideH": a.stride.h, "StrideW": a.stride.w}
        fields |= {"DilationHFactor": a.dilation.h, "DilationWFactor": a.dilation.w}
    if layer.op == "depthwise_conv2d":
        fields["DepthMultiplier"] = layer.out_c // layer.x_shape[3]
    operator = Operator(code, graph.nodes[0].inputs, ("y",), options, fields, version=3)
    return build_model(tensors, [operator], ["x"], ["y"])


def _tensor(graph: Graph, name: str, layer: Layer) -> Tensor:
    value, data = graph.values[name], graph.consts.get(name)
    shape, quant, axis = value.shape, value.quant, 0
    w = graph.values["w"].quant
    assert w is not None
    if name == "w" and layer.op == "depthwise_conv2d":
        shape, axis = (1, *shape), 3
    if name == "b":
        scales = tuple(float(np.float32(X_SCALE) * np.float32(s)) for s in w.scale)
        quant = Quant(scales, (0,) * len(scales))
    assert quant is not None
    return Tensor(name, shape, value.dtype, quant.scale, quant.zero, axis, data)


def in_int16(graph: Graph) -> Graph:
    """The graph with int16 input and output; a bias becomes 64 bits wide, as TensorFlow Lite has it."""
    values = dict(graph.values)
    for name in ("x", "y"):
        scale, _ = values[name].quant.per_tensor  # type: ignore[union-attr]
        values[name] = replace(values[name], dtype="s16", quant=Quant((scale / 256,), (0,)))
    consts = dict(graph.consts)
    if "b" in values:
        values["b"] = replace(values["b"], dtype="s64")
        consts["b"] = read_only(consts["b"].astype(np.int64) * 256)
    return replace(graph, values=values, consts=consts)


def with_int16_weights(graph: Graph) -> Graph:
    """The graph with weights of -255 .. 255, as int8 ones with a zero point become."""
    w = graph.consts["w"].astype(np.int16)
    values = {**graph.values, "w": replace(graph.values["w"], dtype="s16")}
    return replace(graph, values=values, consts={**graph.consts, "w": read_only(w + np.sign(w) * 128)})
