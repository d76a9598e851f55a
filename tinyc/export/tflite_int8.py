# SPDX-License-Identifier: Apache-2.0
"""An integer graph as an int8 TFLite file, for TensorFlow Lite Micro and LiteRT.

Inputs and outputs are integers. Layers on int16 are those of TFLite's 16x8 scheme, with int64 biases. Explicit padding
becomes SAME where it is the same, else an operator of its own.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from types import MappingProxyType
from typing import Any

import numpy as np

from tinyc.base.errors import TinycError
from tinyc.export.tflite_file import Operator, Tensor, build_model
from tinyc.ir.graph import Array, Graph, Node, Value
from tinyc.kernel.site import Act, Padding
from tinyc.kernel.windows import Window
from tinyc.ops.add import Add
from tinyc.ops.avg_pool2d import AvgPool2D
from tinyc.ops.concat import Concat
from tinyc.ops.conv2d import Conv2D
from tinyc.ops.depthwise_conv2d import DepthwiseConv2D
from tinyc.ops.fully_connected import FullyConnected
from tinyc.ops.hard_swish import HardSwish
from tinyc.ops.leaky_relu import LeakyRelu
from tinyc.ops.max_pool2d import MaxPool2D
from tinyc.ops.mean import Mean
from tinyc.ops.mul import Mul
from tinyc.ops.pad import Pad
from tinyc.ops.requantize import Requantize
from tinyc.ops.reshape import Reshape
from tinyc.ops.sigmoid import Sigmoid
from tinyc.ops.softmax import Softmax
from tinyc.ops.sub import Sub
from tinyc.ops.tanh import Tanh
from tinyc.ops.transpose import Transpose
from tinyc.passes.weights import has_weights

_ACTS: Mapping[str, int] = MappingProxyType({"": 0, "relu": 1, "relu_n1_to_1": 2, "relu6": 3})
_SAME, _VALID = 0, 1


def to_tflite(graph: Graph) -> bytes:
    """The file's bytes. TinycError, with the layer, for what TFLite's int8 operators cannot express."""
    writer = _Writer(graph)
    for node in graph.nodes:
        rule = _RULES.get(type(node.attrs))
        if rule is None:
            raise TinycError(f"{node.op} cannot be saved as int8 TFLite", node.where)
        try:
            rule(writer, node)
        except TinycError as error:
            raise error.located(node.where) from error
    return build_model(writer.tensors, writer.operators, graph.inputs, graph.outputs)


class _Writer:
    """Collects the file's tensors and operators."""

    def __init__(self, graph: Graph) -> None:
        self.graph = graph
        self.tensors: list[Tensor] = []
        self.operators: list[Operator] = []
        weighted = [node for node in graph.nodes if has_weights(node) and graph.values[node.inputs[0]].dtype == "s16"]
        self._wide_biases = {name for node in weighted for name in node.inputs[2:] if name}
        for name, value in graph.values.items():
            if name not in graph.consts:
                self.add(value)

    def add(self, value: Value, data: Array | None = None, axis: int | None = None) -> str:
        """A tensor for the value; data and axis as TFLite has them."""
        quant = value.quant
        if value.dtype not in ("s8", "s16", "s4", "s32") or quant is None:
            message = f"'{value.name}' is {value.dtype}, which int8 TFLite does not hold here"
            raise TinycError(message, value.loc)
        shape = value.shape if data is None else data.shape
        packed = _nibbles(data) if data is not None and value.dtype == "s4" else data
        where = (quant.axis or 0) if axis is None else axis
        dtype: str = value.dtype
        if value.name in self._wide_biases and data is not None:
            dtype, packed = "s64", data.astype(np.int64)
        self.tensors.append(Tensor(value.name, shape, dtype, quant.scale, quant.zero, where, packed))
        return value.name

    def const(self, name: str, data: Array | None = None, axis: int | None = None) -> str:
        """A constant of the graph, perhaps with its axes moved; written once."""
        if all(tensor.name != name for tensor in self.tensors):
            self.add(self.graph.values[name], self.graph.consts[name] if data is None else data, axis)
        return name

    def numbers(self, data: Array) -> str:
        """A constant without a quantization: a shape, axes, paddings."""
        name = f"numbers_{len(self.tensors)}"
        self.tensors.append(Tensor(name, data.shape, "s32", data=data.astype(np.int32)))
        return name

    def inputs(self, node: Node) -> list[str]:
        """The node's inputs, constants written."""
        return [self.const(name) if name in self.graph.consts else name for name in node.inputs]

    def emit(self, node: Node, code: str, inputs: list[str], options: str = "", **fields: Any) -> None:
        """The operator that makes the node's outputs."""
        kinds = {self.graph.values[n].dtype for n in (*node.inputs, *node.outputs) if n}
        if {"s4", "s16"} <= kinds:
            raise TinycError(f"TFLite has no {code} of int16 and int4")
        self.operators.append(Operator(code, tuple(inputs), node.outputs, options, fields, _version(code, kinds)))

    def padded(self, node: Node, k_h: int, k_w: int) -> tuple[str, int]:
        """(the tensor to slide over, SAME or VALID): the node's input, or a padded copy of it."""
        a, x = node.attrs, self.graph.values[node.inputs[0]]
        if not any(a.pad):
            return x.name, _VALID
        if tuple(a.pad) == _same_padding(a, k_h, k_w, x.shape):
            return x.name, _SAME
        shape = (1, x.shape[1] + a.pad.top + a.pad.bottom, x.shape[2] + a.pad.left + a.pad.right, x.shape[3])
        name = f"{node.name}:padded"
        assert x.quant is not None  # `add` has refused the value otherwise
        self.tensors.append(Tensor(name, shape, x.dtype, x.quant.scale, x.quant.zero))
        pads = np.array([[0, 0], [a.pad.top, a.pad.bottom], [a.pad.left, a.pad.right], [0, 0]])
        self.operators.append(Operator("PAD", (x.name, self.numbers(pads)), (name,), "PadOptions", {}, 2))
        return name, _VALID


def _nibbles(data: Array) -> Array:
    """4-bit integers two to a byte, the first in the low half."""
    flat = data.ravel().astype(np.uint8) & 15
    if len(flat) % 2:
        flat = np.append(flat, np.uint8(0))
    return np.asarray(flat[0::2] | (flat[1::2] << 4), np.uint8).view(np.int8)


def _version(code: str, kinds: Collection[str]) -> int:
    """The operator versions that converters write for int8, for int4 weights, and for int16 activations."""
    versions = {"CONV_2D": 3, "DEPTHWISE_CONV_2D": 3, "FULLY_CONNECTED": 4, "SOFTMAX": 2, "MEAN": 2, "PAD": 2}
    narrow = {"CONV_2D": 7, "DEPTHWISE_CONV_2D": 7, "FULLY_CONNECTED": 10}
    wide = {"CONV_2D": 4, "DEPTHWISE_CONV_2D": 5, "FULLY_CONNECTED": 7, "SOFTMAX": 3, "ADD": 3, "SUB": 5, "MUL": 4}
    wide |= {"AVERAGE_POOL_2D": 3, "MAX_POOL_2D": 3, "MEAN": 3, "CONCATENATION": 3, "QUANTIZE": 2, "PAD": 2}
    if "s16" in kinds and code in wide:
        return wide[code]
    if "s4" in kinds and code in narrow:
        return narrow[code]
    return versions.get(code, 2 if code in {"ADD", "SUB", "MUL", "AVERAGE_POOL_2D", "MAX_POOL_2D"} else 1)


def _same_padding(a: Any, k_h: int, k_w: int, x: tuple[int, ...]) -> Padding:
    """What SAME means for this input: as many windows as steps, the spare row or column at the end."""
    window = Window.of(a, k_h, k_w)
    sides = []
    for axis in (0, 1):
        size, stride, span = x[1 + axis], window.stride[axis], window.span[axis]
        total = max((-(-size // stride) - 1) * stride + span - size, 0)
        sides.append((total // 2, total - total // 2))
    return Padding(sides[0][0], sides[1][0], sides[0][1], sides[1][1])


def _act(act: Act) -> int:
    code = _ACTS.get(str(act))
    if code is None:
        raise TinycError(f"TFLite has no fused activation {act}")
    return code


def _conv2d(to: _Writer, node: Node) -> None:
    a = node.attrs
    w = to.graph.consts[node.inputs[1]]
    if a.groups != 1:
        raise TinycError("TensorFlow Lite Micro has no grouped convolution")
    x, padding = to.padded(node, *w.shape[1:3])
    fields = {
        "Padding": padding,
        "StrideH": a.stride.h,
        "StrideW": a.stride.w,
        "DilationHFactor": a.dilation.h,
        "DilationWFactor": a.dilation.w,
        "FusedActivationFunction": _act(a.act),
    }
    to.emit(node, "CONV_2D", [x, *to.inputs(node)[1:]], "Conv2DOptions", **fields)


def _depthwise(to: _Writer, node: Node) -> None:
    a = node.attrs
    w = to.graph.consts[node.inputs[1]]
    x, padding = to.padded(node, *w.shape[:2])
    weights = to.const(node.inputs[1], w[None], 3)
    bias = [to.const(name) for name in node.inputs[2:] if name]
    fields = {
        "Padding": padding,
        "StrideH": a.stride.h,
        "StrideW": a.stride.w,
        "DepthMultiplier": w.shape[2] // to.graph.values[node.inputs[0]].shape[3],
        "DilationHFactor": a.dilation.h,
        "DilationWFactor": a.dilation.w,
        "FusedActivationFunction": _act(a.act),
    }
    to.emit(node, "DEPTHWISE_CONV_2D", [x, weights, *bias], "DepthwiseConv2DOptions", **fields)


def _fully_connected(to: _Writer, node: Node) -> None:
    fields = {"FusedActivationFunction": _act(node.attrs.act), "KeepNumDims": node.attrs.keep_dims}
    to.emit(node, "FULLY_CONNECTED", to.inputs(node), "FullyConnectedOptions", **fields)


def _pool(code: str) -> Callable[[_Writer, Node], None]:
    def write(to: _Writer, node: Node) -> None:
        a = node.attrs
        if any(a.pad) and tuple(a.pad) != _same_padding(
            a, a.kernel.h, a.kernel.w, to.graph.values[node.inputs[0]].shape
        ):
            raise TinycError(f"{node.op} with padding {tuple(a.pad)}: TFLite pools with SAME or no padding")
        if any(a.pad) and getattr(a, "count_pad", False):
            raise TinycError("TFLite leaves padded taps out of an average")
        if getattr(a, "halves_up", False):
            raise TinycError("TFLite's int8 averages round halves away from zero, those of uint8 up")
        if tuple(a.dilation) != (1, 1):
            raise TinycError("TFLite has no dilated pooling")
        fields = {
            "Padding": _SAME if any(a.pad) else _VALID,
            "StrideH": a.stride.h,
            "StrideW": a.stride.w,
            "FilterHeight": a.kernel.h,
            "FilterWidth": a.kernel.w,
            "FusedActivationFunction": _act(a.act),
        }
        to.emit(node, code, to.inputs(node), "Pool2DOptions", **fields)

    return write


def _mean(to: _Writer, node: Node) -> None:
    axes = to.numbers(np.array(node.attrs.axes))
    to.emit(node, "MEAN", [node.inputs[0], axes], "ReducerOptions", KeepDims=node.attrs.keep_dims)


def _binary(code: str, options: str) -> Callable[[_Writer, Node], None]:
    def write(to: _Writer, node: Node) -> None:
        to.emit(node, code, to.inputs(node), options, FusedActivationFunction=_act(node.attrs.act))

    return write


def _plain(code: str, options: str = "") -> Callable[[_Writer, Node], None]:
    def write(to: _Writer, node: Node) -> None:
        to.emit(node, code, to.inputs(node), options)

    return write


def _softmax(to: _Writer, node: Node) -> None:
    to.emit(node, "SOFTMAX", to.inputs(node), "SoftmaxOptions", Beta=float(node.attrs.beta))


def _leaky_relu(to: _Writer, node: Node) -> None:
    to.emit(node, "LEAKY_RELU", to.inputs(node), "LeakyReluOptions", Alpha=float(node.attrs.alpha))


def _reshape(to: _Writer, node: Node) -> None:
    shape = to.numbers(np.array(to.graph.values[node.outputs[0]].shape))
    to.emit(node, "RESHAPE", [node.inputs[0], shape], "ReshapeOptions")


def _transpose(to: _Writer, node: Node) -> None:
    to.emit(node, "TRANSPOSE", [node.inputs[0], to.numbers(np.array(node.attrs.perm))], "TransposeOptions")


def _concat(to: _Writer, node: Node) -> None:
    to.emit(node, "CONCATENATION", to.inputs(node), "ConcatenationOptions", Axis=node.attrs.axis)


def _pad(to: _Writer, node: Node) -> None:
    if node.attrs.value != 0:
        raise TinycError(f"padding with {node.attrs.value:g}: TFLite's PAD pads with zero")
    pads = np.stack([node.attrs.before, node.attrs.after], axis=1)
    to.emit(node, "PAD", [node.inputs[0], to.numbers(pads)], "PadOptions")


_RULES: Mapping[type, Callable[[_Writer, Node], None]] = MappingProxyType(
    {
        Conv2D: _conv2d,
        DepthwiseConv2D: _depthwise,
        FullyConnected: _fully_connected,
        AvgPool2D: _pool("AVERAGE_POOL_2D"),
        MaxPool2D: _pool("MAX_POOL_2D"),
        Mean: _mean,
        Add: _binary("ADD", "AddOptions"),
        Sub: _binary("SUB", "SubOptions"),
        Mul: _binary("MUL", "MulOptions"),
        Softmax: _softmax,
        Sigmoid: _plain("LOGISTIC"),
        Tanh: _plain("TANH"),
        HardSwish: _plain("HARD_SWISH", "HardSwishOptions"),
        LeakyRelu: _leaky_relu,
        Reshape: _reshape,
        Transpose: _transpose,
        Concat: _concat,
        Pad: _pad,
        Requantize: _plain("QUANTIZE"),
    }
)
