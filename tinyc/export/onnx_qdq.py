# SPDX-License-Identifier: Apache-2.0
"""An integer graph as ONNX with QuantizeLinear and DequantizeLinear around float operators.

Inputs and outputs are float, as in the model that was quantized, so the file takes its place. Images are NCHW
between convolutions, as ONNX wants them: transposes appear only where the graph's own order shows.
Weights of 4 bits are INT4 tensors (opset 21). onnxruntime runs the result with integer kernels of its own, whose
rounding of accumulators may differ from ours by a step.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any

import numpy as np

from tinyc.base.errors import TinycError
from tinyc.export.qdq_operators import OPERATORS, elementwise
from tinyc.export.qdq_writer import TO_NCHW, TO_NHWC, QdqWriter
from tinyc.ir.graph import Array, Graph, Node
from tinyc.ops.add import Add
from tinyc.ops.avg_pool2d import AvgPool2D
from tinyc.ops.clip import Clip
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
from tinyc.ops.recurrent_kept import RecurrentKept
from tinyc.ops.requantize import Requantize
from tinyc.ops.reshape import Reshape
from tinyc.ops.sigmoid import Sigmoid
from tinyc.ops.slice import Slice
from tinyc.ops.softmax import Softmax
from tinyc.ops.sub import Sub
from tinyc.ops.tanh import Tanh
from tinyc.ops.transpose import Transpose
from tinyc.ops.transpose_conv2d import TransposeConv2D
from tinyc.ops.units import ChannelUnits

_OF_LASTING_LOOPS = (
    "give the float model to `tinyc build`, which quantizes it the same way; or with --state none its states are inputs"
    " and outputs, and the calibration file has values of them"
)


def to_onnx(graph: Graph) -> bytes:
    """The file's bytes. TinycError, with the layer, for an operator that this writer does not know."""
    writer = QdqWriter(graph)
    for node in graph.nodes:
        rule = _RULES.get(type(node.attrs))
        if isinstance(node.attrs, RecurrentKept):
            raise TinycError(
                "a loop that goes on from run to run cannot be saved as QDQ ONNX", node.where, _OF_LASTING_LOOPS
            )
        if rule is None:
            raise TinycError(f"{node.op} cannot be saved as QDQ ONNX", node.where)
        rule(writer, node)
    return writer.finish()


def _window(a: Any) -> dict[str, Any]:
    """Strides, pads and dilations; the latter only where there are any, since not every kernel of a runtime knows
    them."""
    dilated = {"dilations": list(a.dilation)} if tuple(a.dilation) != (1, 1) else {}
    return {"strides": list(a.stride), "pads": list(a.pad), **dilated}


def _conv2d(to: QdqWriter, node: Node) -> None:
    w = to.graph.consts[node.inputs[1]].transpose(0, 3, 1, 2)
    _convolution(to, node, w, node.attrs.groups)


def _depthwise(to: QdqWriter, node: Node) -> None:
    w = to.graph.consts[node.inputs[1]].transpose(2, 0, 1)[:, None]
    _convolution(to, node, w, to.graph.values[node.inputs[0]].shape[3])


def _convolution(to: QdqWriter, node: Node, w: Array, groups: int) -> None:
    x = to.real(node.inputs[0], channels_first=True)
    inputs = [x, to.weights(node.inputs[1], w, 0), *to.bias(node)]
    y = to.emit("Conv", inputs, group=groups, kernel_shape=list(w.shape[2:]), **_window(node.attrs))
    to.store(node.outputs[0], to.activated(y, node.attrs.act), channels_first=True)


def _transpose_conv2d(to: QdqWriter, node: Node) -> None:
    a, (_, in_h, in_w, _) = node.attrs, to.graph.values[node.inputs[0]].shape
    w = to.graph.consts[node.inputs[1]].transpose(3, 0, 1, 2)
    # Rows and columns beyond the last window are zeros, which ONNX calls output padding.
    beyond = [a.pad[k] + a.size[k] - a.stride[k] * (size - 1) - w.shape[2 + k] for k, size in enumerate((in_h, in_w))]
    x = to.real(node.inputs[0], channels_first=True)
    window = {"strides": list(a.stride), "pads": [*a.pad, *(max(0, -n) for n in beyond)]}
    inputs = [x, to.weights(node.inputs[1], w, 1), *to.bias(node)]
    y = to.emit("ConvTranspose", inputs, output_padding=[max(0, n) for n in beyond], **window)
    to.store(node.outputs[0], to.activated(y, a.act), channels_first=True)


def _fully_connected(to: QdqWriter, node: Node) -> None:
    w = to.graph.consts[node.inputs[1]]
    of = to.graph.values[node.inputs[0]].shape
    rows = None if len(of) == 2 and of[1] == w.shape[1] else (-1, w.shape[1])
    x = to.real(node.inputs[0], channels_first=False, shape=rows)
    y = to.emit("Gemm", [x, to.weights(node.inputs[1], w, 0), *to.bias(node)], transB=1)
    to.store(node.outputs[0], to.activated(y, node.attrs.act), channels_first=False)
    shape = to.graph.values[node.outputs[0]].shape
    if len(shape) != 2:
        reshaped = to.emit("Reshape", [to.tensors[node.outputs[0]], to.constant(np.array(shape, np.int64))])
        to.tensors[node.outputs[0]] = reshaped


def _pool(op: str) -> Callable[[QdqWriter, Node], None]:
    def write(to: QdqWriter, node: Node) -> None:
        extra = {"count_include_pad": int(node.attrs.count_pad)} if op == "AveragePool" else {}
        x = to.real(node.inputs[0], channels_first=True)
        y = to.emit(op, [x], kernel_shape=list(node.attrs.kernel), **_window(node.attrs), **extra)
        to.store(node.outputs[0], to.activated(y, node.attrs.act), channels_first=True)

    return write


def _mean(to: QdqWriter, node: Node) -> None:
    first = to.first[node.inputs[0]]
    rank = len(to.graph.values[node.inputs[0]].shape)
    axes = [axis % rank for axis in node.attrs.axes]
    stays_image = first and (node.attrs.keep_dims or set(axes) == {1, 2})
    if first and stays_image:
        axes = [{1: 2, 2: 3, 3: 1}.get(axis, axis) for axis in axes]
    x = to.real(node.inputs[0], channels_first=stays_image)
    y = to.emit("ReduceMean", [x, to.constant(np.array(axes, np.int64))], keepdims=int(node.attrs.keep_dims))
    to.store(node.outputs[0], y, channels_first=stays_image and node.attrs.keep_dims)


def _clip(to: QdqWriter, node: Node) -> None:
    first = to.first[node.inputs[0]]
    x = to.real(node.inputs[0], channels_first=first)
    to.store(node.outputs[0], to.activated(x, node.attrs.act), channels_first=first)


def _leaky_relu(to: QdqWriter, node: Node) -> None:
    elementwise("LeakyRelu", alpha=float(node.attrs.alpha))(to, node)


def _softmax(to: QdqWriter, node: Node) -> None:
    x = to.real(node.inputs[0], channels_first=False)
    if node.attrs.beta != 1:
        x = to.emit("Mul", [x, to.constant(np.array(node.attrs.beta, np.float32))])
    to.store(node.outputs[0], to.emit("Softmax", [x], axis=-1), channels_first=False)


def _reshape(to: QdqWriter, node: Node) -> None:
    (x,), (y,) = node.inputs, node.outputs
    tensor, shape = to.tensors[x], to.graph.values[x].shape
    if to.first[x] and shape[1:3] != (1, 1):
        tensor = to.emit("Transpose", [tensor], perm=TO_NHWC)
    target = to.constant(np.array(to.graph.values[y].shape, np.int64))
    to.tensors[y], to.first[y] = to.emit("Reshape", [tensor, target]), False


def _transpose(to: QdqWriter, node: Node) -> None:
    (x,), (y,) = node.inputs, node.outputs
    perm = tuple(node.attrs.perm)
    if perm == TO_NHWC and not to.first[x]:
        to.alias(y, x, channels_first=True)
    elif perm == TO_NCHW and to.first[x]:
        to.alias(y, x, channels_first=False)
    else:
        tensor = to.tensors[x] if not to.first[x] else to.emit("Transpose", [to.tensors[x]], perm=TO_NHWC)
        to.tensors[y], to.first[y] = to.emit("Transpose", [tensor], perm=perm), False


def _concat(to: QdqWriter, node: Node) -> None:
    rank = len(to.graph.values[node.outputs[0]].shape)
    computed = [name for name in node.inputs if name not in to.graph.consts]
    first = rank == 4 and all(to.first[name] for name in computed)
    axis = node.attrs.axis % rank
    inputs = [to.real(name, channels_first=first) for name in node.inputs]
    y = to.emit("Concat", inputs, axis={1: 2, 2: 3, 3: 1}.get(axis, axis) if first else axis)
    to.store(node.outputs[0], y, channels_first=first)


def _pad(to: QdqWriter, node: Node) -> None:
    first = to.first[node.inputs[0]]
    order = TO_NCHW if first else tuple(range(len(node.attrs.before)))
    pads = [side[axis] for side in (node.attrs.before, node.attrs.after) for axis in order]
    fill = to.constant(np.array(node.attrs.value, np.float32))
    x = to.real(node.inputs[0], channels_first=first)
    y = to.emit("Pad", [x, to.constant(np.array(pads, np.int64)), fill])
    to.store(node.outputs[0], y, channels_first=first)


def _slice(to: QdqWriter, node: Node) -> None:
    a, shape = node.attrs, to.graph.values[node.inputs[0]].shape
    first = to.first[node.inputs[0]]
    order = TO_NCHW if first else tuple(range(len(shape)))
    # Backwards to the first index: its end lies before 0, and negative numbers count from the end.
    ends = [begin + step * size for begin, size, step in zip(a.begin, a.size, a.step, strict=True)]
    ends = [end if end >= 0 else -n - 1 for end, n in zip(ends, shape, strict=True)]
    numbers = [[part[axis] for axis in order] for part in (a.begin, ends)]
    steps = [a.step[axis] for axis in order]
    x = to.real(node.inputs[0], channels_first=first)
    given = [to.constant(np.array(part, np.int64)) for part in (*numbers, range(len(shape)), steps)]
    to.store(node.outputs[0], to.emit("Slice", [x, *given]), channels_first=first)


def _units(to: QdqWriter, node: Node) -> None:
    to.alias(node.outputs[0], node.inputs[0], channels_first=to.first[node.inputs[0]])


def _requantize(to: QdqWriter, node: Node) -> None:
    first = to.first[node.inputs[0]]
    to.store(node.outputs[0], to.real(node.inputs[0], channels_first=first), channels_first=first)


_RULES: Mapping[type, Callable[[QdqWriter, Node], None]] = MappingProxyType(
    {
        Conv2D: _conv2d,
        DepthwiseConv2D: _depthwise,
        FullyConnected: _fully_connected,
        TransposeConv2D: _transpose_conv2d,
        AvgPool2D: _pool("AveragePool"),
        MaxPool2D: _pool("MaxPool"),
        Mean: _mean,
        Add: elementwise("Add"),
        Sub: elementwise("Sub"),
        Mul: elementwise("Mul"),
        Sigmoid: elementwise("Sigmoid"),
        Tanh: elementwise("Tanh"),
        HardSwish: elementwise("HardSwish"),
        LeakyRelu: _leaky_relu,
        Clip: _clip,
        Softmax: _softmax,
        Reshape: _reshape,
        Transpose: _transpose,
        Concat: _concat,
        Pad: _pad,
        Slice: _slice,
        Requantize: _requantize,
        ChannelUnits: _units,
        **OPERATORS,
    }
)
