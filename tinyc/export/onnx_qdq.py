# SPDX-License-Identifier: Apache-2.0
"""An integer graph as ONNX with QuantizeLinear and DequantizeLinear around float operators.

Inputs and outputs are float, as in the model that was quantized, so the file takes its place. Images are NCHW
between convolutions, as ONNX wants them: transposes appear only where the graph's own order shows.
Weights of 4 bits are INT4 tensors (opset 21). onnxruntime runs the result with integer kernels of its own, whose
rounding of accumulators may differ from ours by a step.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import Any

import numpy as np
from onnx import NodeProto, TensorProto, checker, helper, numpy_helper

from tinyc import __version__
from tinyc.base.errors import TinycError
from tinyc.ir.graph import Array, Graph, Node, Quant
from tinyc.kernel.site import Act
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
from tinyc.ops.requantize import Requantize
from tinyc.ops.reshape import Reshape
from tinyc.ops.resize_nearest import ResizeNearest
from tinyc.ops.sigmoid import Sigmoid
from tinyc.ops.slice import Slice
from tinyc.ops.softmax import Softmax
from tinyc.ops.sub import Sub
from tinyc.ops.tanh import Tanh
from tinyc.ops.transpose import Transpose
from tinyc.ops.transpose_conv2d import TransposeConv2D
from tinyc.ops.units import ChannelUnits

_OPSET, _IR = 21, 10
_TO_NCHW, _TO_NHWC = (0, 3, 1, 2), (0, 2, 3, 1)
_ONNX_TYPE: Mapping[str, int] = MappingProxyType(
    {"s8": TensorProto.INT8, "s16": TensorProto.INT16, "s32": TensorProto.INT32, "s4": TensorProto.INT4}
)


def to_onnx(graph: Graph) -> bytes:
    """The file's bytes. TinycError, with the layer, for an operator that this writer does not know."""
    writer = _Writer(graph)
    for node in graph.nodes:
        rule = _RULES.get(type(node.attrs))
        if rule is None:
            raise TinycError(f"{node.op} cannot be saved as QDQ ONNX", node.where)
        rule(writer, node)
    return writer.finish()


class _Writer:
    """Collects the nodes; `tensors[value]` is the ONNX tensor that holds a value's integers, `first[value]` whether its
    channels come first."""

    def __init__(self, graph: Graph) -> None:
        self.graph = graph
        self.nodes: list[NodeProto] = []
        self.constants: list[TensorProto] = []
        self.tensors: dict[str, str] = {}
        self.first: dict[str, bool] = {}
        self._count = 0
        for name in graph.inputs:
            self.store(name, name, channels_first=False)

    def emit(self, op: str, inputs: Sequence[str], **attributes: Any) -> str:
        """A node with one output, whose name is returned."""
        self._count += 1
        out = f"{op}_{self._count}"
        self.nodes.append(helper.make_node(op, list(inputs), [out], name=out, **attributes))
        return out

    def constant(self, array: Array, kind: int | None = None) -> str:
        """An initializer; `kind` where it is not what the array's dtype says."""
        name = f"const_{len(self.constants)}"
        if kind == TensorProto.INT4:
            self.constants.append(helper.make_tensor(name, kind, array.shape, array.ravel().tolist()))
        else:
            self.constants.append(numpy_helper.from_array(np.ascontiguousarray(array).reshape(array.shape), name))
        return name

    def quant_of(self, name: str) -> Quant:
        quant = self.graph.values[name].quant
        if quant is None:
            raise TinycError(f"'{name}' has no quantization")
        return quant

    def store(self, name: str, real: str, *, channels_first: bool) -> None:
        """Quantize a float tensor as the graph's value `name`."""
        scale, zero = self.quant_of(name).per_tensor
        zeros = np.array(zero, np.int16 if self.graph.values[name].dtype == "s16" else np.int8)
        parameters = [self.constant(np.array(scale, np.float32)), self.constant(zeros)]
        self.tensors[name] = self.emit("QuantizeLinear", [real, *parameters])
        self.first[name] = channels_first

    def alias(self, name: str, other: str, *, channels_first: bool) -> None:
        """Value `name` is held by the tensor of `other`, with the same or another meaning of its axes."""
        self.tensors[name], self.first[name] = self.tensors[other], channels_first

    def real(self, name: str, *, channels_first: bool, shape: tuple[int, ...] | None = None) -> str:
        """The float tensor of a value, constant or computed, with the axes asked for. shape: of a computed value, if
        not its own; its integers are reshaped, for onnxruntime moves what quantizes reals through a Reshape."""
        if name in self.graph.consts:
            array = self.graph.consts[name]
            moved = array.transpose(_TO_NCHW) if channels_first and array.ndim == 4 else array
            return self.weights(name, moved, None)
        tensor = self.tensors[name]
        if self.first[name] != channels_first and len(self.graph.values[name].shape) == 4:
            tensor = self.emit("Transpose", [tensor], perm=_TO_NCHW if channels_first else _TO_NHWC)
        if shape is not None:
            tensor = self.emit("Reshape", [tensor, self.constant(np.array(shape, np.int64))])
        quant, kind = self.quant_of(name), np.int16 if self.graph.values[name].dtype == "s16" else np.int8
        if quant.axis is None:
            scale, zero = (np.array(one) for one in quant.per_tensor)
            along = {}
        else:  # of an output, whose axes are its own
            scale, zero, along = np.array(quant.scale), np.array(quant.zero), {"axis": quant.axis}
        parameters = [self.constant(scale.astype(np.float32)), self.constant(zero.astype(kind))]
        return self.emit("DequantizeLinear", [tensor, *parameters], **along)

    def weights(self, name: str, array: Array, axis: int | None) -> str:
        """The float tensor of constant integers, with the output channels on `axis`."""
        quant, kind = self.quant_of(name), _ONNX_TYPE[self.graph.values[name].dtype]
        scale = np.asarray(quant.scale, np.float32)
        zero = np.asarray(quant.zero, {"s32": np.int32, "s16": np.int16}.get(self.graph.values[name].dtype, np.int8))
        if len(scale) == 1:
            scale, zero, axis = scale.reshape(()), zero.reshape(()), None
        inputs = [self.constant(array, kind), self.constant(scale), self.constant(zero, kind)]
        return self.emit("DequantizeLinear", inputs, **({} if axis is None else {"axis": axis}))

    def bias(self, node: Node) -> list[str]:
        """The bias as a float tensor, if the node has one."""
        if len(node.inputs) < 3 or not node.inputs[2]:
            return []
        return [self.weights(node.inputs[2], self.graph.consts[node.inputs[2]], 0)]

    def activated(self, real: str, act: Act) -> str:
        """The tensor after a fused activation."""
        if act.lo == 0 and act.hi == np.inf:
            return self.emit("Relu", [real])
        if act.lo == -np.inf and act.hi == np.inf:
            return real
        bounds = [self.constant(np.array(b, np.float32)) if np.isfinite(b) else "" for b in act]
        return self.emit("Clip", [real, *bounds])

    def finish(self) -> bytes:
        outputs = []
        for name in self.graph.outputs:
            real = self.real(name, channels_first=False)
            self.nodes.append(helper.make_node("Identity", [real], [f"{name}:out" if name in self._taken() else name]))
            outputs.append(self.nodes[-1].output[0])
        infos = [self._info(name, name) for name in self.graph.inputs]
        results = [self._info(output, name) for output, name in zip(outputs, self.graph.outputs, strict=True)]
        graph = helper.make_graph(self.nodes, self.graph.name, infos, results, self.constants)
        opset = [helper.make_opsetid("", _OPSET)]
        model = helper.make_model(
            graph, opset_imports=opset, ir_version=_IR, producer_name="tinyc", producer_version=__version__
        )
        checker.check_model(model)
        return model.SerializeToString()

    def _taken(self) -> set[str]:
        return {*self.graph.inputs, *(out for node in self.nodes for out in node.output)}

    def _info(self, tensor: str, name: str) -> Any:
        return helper.make_tensor_value_info(tensor, TensorProto.FLOAT, list(self.graph.values[name].shape))


def _window(a: Any) -> dict[str, Any]:
    """Strides, pads and dilations; the latter only where there are any, since not every kernel of a runtime knows
    them."""
    dilated = {"dilations": list(a.dilation)} if tuple(a.dilation) != (1, 1) else {}
    return {"strides": list(a.stride), "pads": list(a.pad), **dilated}


def _conv2d(to: _Writer, node: Node) -> None:
    w = to.graph.consts[node.inputs[1]].transpose(0, 3, 1, 2)
    _convolution(to, node, w, node.attrs.groups)


def _depthwise(to: _Writer, node: Node) -> None:
    w = to.graph.consts[node.inputs[1]].transpose(2, 0, 1)[:, None]
    _convolution(to, node, w, to.graph.values[node.inputs[0]].shape[3])


def _convolution(to: _Writer, node: Node, w: Array, groups: int) -> None:
    x = to.real(node.inputs[0], channels_first=True)
    inputs = [x, to.weights(node.inputs[1], w, 0), *to.bias(node)]
    y = to.emit("Conv", inputs, group=groups, kernel_shape=list(w.shape[2:]), **_window(node.attrs))
    to.store(node.outputs[0], to.activated(y, node.attrs.act), channels_first=True)


def _transpose_conv2d(to: _Writer, node: Node) -> None:
    a, (_, in_h, in_w, _) = node.attrs, to.graph.values[node.inputs[0]].shape
    w = to.graph.consts[node.inputs[1]].transpose(3, 0, 1, 2)
    # Rows and columns beyond the last window are zeros, which ONNX calls output padding.
    beyond = [a.pad[k] + a.size[k] - a.stride[k] * (size - 1) - w.shape[2 + k] for k, size in enumerate((in_h, in_w))]
    x = to.real(node.inputs[0], channels_first=True)
    window = {"strides": list(a.stride), "pads": [*a.pad, *(max(0, -n) for n in beyond)]}
    inputs = [x, to.weights(node.inputs[1], w, 1), *to.bias(node)]
    y = to.emit("ConvTranspose", inputs, output_padding=[max(0, n) for n in beyond], **window)
    to.store(node.outputs[0], to.activated(y, a.act), channels_first=True)


def _fully_connected(to: _Writer, node: Node) -> None:
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


def _pool(op: str) -> Callable[[_Writer, Node], None]:
    def write(to: _Writer, node: Node) -> None:
        extra = {"count_include_pad": int(node.attrs.count_pad)} if op == "AveragePool" else {}
        x = to.real(node.inputs[0], channels_first=True)
        y = to.emit(op, [x], kernel_shape=list(node.attrs.kernel), **_window(node.attrs), **extra)
        to.store(node.outputs[0], to.activated(y, node.attrs.act), channels_first=True)

    return write


def _mean(to: _Writer, node: Node) -> None:
    first = to.first[node.inputs[0]]
    rank = len(to.graph.values[node.inputs[0]].shape)
    axes = [axis % rank for axis in node.attrs.axes]
    stays_image = first and (node.attrs.keep_dims or set(axes) == {1, 2})
    if first and stays_image:
        axes = [{1: 2, 2: 3, 3: 1}.get(axis, axis) for axis in axes]
    x = to.real(node.inputs[0], channels_first=stays_image)
    y = to.emit("ReduceMean", [x, to.constant(np.array(axes, np.int64))], keepdims=int(node.attrs.keep_dims))
    to.store(node.outputs[0], y, channels_first=stays_image and node.attrs.keep_dims)


def _elementwise(op: str, **fixed: Any) -> Callable[[_Writer, Node], None]:
    def write(to: _Writer, node: Node) -> None:
        constant = any(name in to.graph.consts for name in node.inputs)
        ranks = {len(to.graph.values[name].shape) for name in node.inputs}
        first = not constant and ranks == {4} and to.first[node.inputs[0]]
        inputs = [to.real(name, channels_first=first) for name in node.inputs]
        y = to.emit(op, inputs, **fixed)
        act = getattr(node.attrs, "act", Act())
        to.store(node.outputs[0], to.activated(y, act), channels_first=first)

    return write


def _clip(to: _Writer, node: Node) -> None:
    first = to.first[node.inputs[0]]
    x = to.real(node.inputs[0], channels_first=first)
    to.store(node.outputs[0], to.activated(x, node.attrs.act), channels_first=first)


def _leaky_relu(to: _Writer, node: Node) -> None:
    _elementwise("LeakyRelu", alpha=float(node.attrs.alpha))(to, node)


def _softmax(to: _Writer, node: Node) -> None:
    x = to.real(node.inputs[0], channels_first=False)
    if node.attrs.beta != 1:
        x = to.emit("Mul", [x, to.constant(np.array(node.attrs.beta, np.float32))])
    to.store(node.outputs[0], to.emit("Softmax", [x], axis=-1), channels_first=False)


def _reshape(to: _Writer, node: Node) -> None:
    (x,), (y,) = node.inputs, node.outputs
    tensor, shape = to.tensors[x], to.graph.values[x].shape
    if to.first[x] and shape[1:3] != (1, 1):
        tensor = to.emit("Transpose", [tensor], perm=_TO_NHWC)
    target = to.constant(np.array(to.graph.values[y].shape, np.int64))
    to.tensors[y], to.first[y] = to.emit("Reshape", [tensor, target]), False


def _transpose(to: _Writer, node: Node) -> None:
    (x,), (y,) = node.inputs, node.outputs
    perm = tuple(node.attrs.perm)
    if perm == _TO_NHWC and not to.first[x]:
        to.alias(y, x, channels_first=True)
    elif perm == _TO_NCHW and to.first[x]:
        to.alias(y, x, channels_first=False)
    else:
        tensor = to.tensors[x] if not to.first[x] else to.emit("Transpose", [to.tensors[x]], perm=_TO_NHWC)
        to.tensors[y], to.first[y] = to.emit("Transpose", [tensor], perm=perm), False


def _concat(to: _Writer, node: Node) -> None:
    rank = len(to.graph.values[node.outputs[0]].shape)
    computed = [name for name in node.inputs if name not in to.graph.consts]
    first = rank == 4 and all(to.first[name] for name in computed)
    axis = node.attrs.axis % rank
    inputs = [to.real(name, channels_first=first) for name in node.inputs]
    y = to.emit("Concat", inputs, axis={1: 2, 2: 3, 3: 1}.get(axis, axis) if first else axis)
    to.store(node.outputs[0], y, channels_first=first)


def _pad(to: _Writer, node: Node) -> None:
    first = to.first[node.inputs[0]]
    order = _TO_NCHW if first else tuple(range(len(node.attrs.before)))
    pads = [side[axis] for side in (node.attrs.before, node.attrs.after) for axis in order]
    fill = to.constant(np.array(node.attrs.value, np.float32))
    x = to.real(node.inputs[0], channels_first=first)
    y = to.emit("Pad", [x, to.constant(np.array(pads, np.int64)), fill])
    to.store(node.outputs[0], y, channels_first=first)


def _slice(to: _Writer, node: Node) -> None:
    a, shape = node.attrs, to.graph.values[node.inputs[0]].shape
    first = to.first[node.inputs[0]]
    order = _TO_NCHW if first else tuple(range(len(shape)))
    # Backwards to the first index: its end lies before 0, and negative numbers count from the end.
    ends = [begin + step * size for begin, size, step in zip(a.begin, a.size, a.step, strict=True)]
    ends = [end if end >= 0 else -n - 1 for end, n in zip(ends, shape, strict=True)]
    numbers = [[part[axis] for axis in order] for part in (a.begin, ends)]
    steps = [a.step[axis] for axis in order]
    x = to.real(node.inputs[0], channels_first=first)
    given = [to.constant(np.array(part, np.int64)) for part in (*numbers, range(len(shape)), steps)]
    to.store(node.outputs[0], to.emit("Slice", [x, *given]), channels_first=first)


def _resize_nearest(to: _Writer, node: Node) -> None:
    a, (_, in_h, in_w, channels) = node.attrs, to.graph.values[node.inputs[0]].shape
    for picked, size in ((a.rows, in_h), (a.columns, in_w)):
        if list(picked) != [k * size // len(picked) for k in range(len(picked))]:
            raise TinycError(
                "resize_nearest by another rule than rounding down cannot be saved as QDQ ONNX", node.where
            )
    sizes = to.constant(np.array((1, channels, len(a.rows), len(a.columns)), np.int64))
    x = to.real(node.inputs[0], channels_first=True)
    how = {"mode": "nearest", "coordinate_transformation_mode": "asymmetric", "nearest_mode": "floor"}
    to.store(node.outputs[0], to.emit("Resize", [x, "", "", sizes], **how), channels_first=True)


def _units(to: _Writer, node: Node) -> None:
    to.alias(node.outputs[0], node.inputs[0], channels_first=to.first[node.inputs[0]])


def _requantize(to: _Writer, node: Node) -> None:
    first = to.first[node.inputs[0]]
    to.store(node.outputs[0], to.real(node.inputs[0], channels_first=first), channels_first=first)


_RULES: Mapping[type, Callable[[_Writer, Node], None]] = MappingProxyType(
    {
        Conv2D: _conv2d,
        DepthwiseConv2D: _depthwise,
        FullyConnected: _fully_connected,
        TransposeConv2D: _transpose_conv2d,
        AvgPool2D: _pool("AveragePool"),
        MaxPool2D: _pool("MaxPool"),
        Mean: _mean,
        Add: _elementwise("Add"),
        Sub: _elementwise("Sub"),
        Mul: _elementwise("Mul"),
        Sigmoid: _elementwise("Sigmoid"),
        Tanh: _elementwise("Tanh"),
        HardSwish: _elementwise("HardSwish"),
        LeakyRelu: _leaky_relu,
        Clip: _clip,
        Softmax: _softmax,
        Reshape: _reshape,
        Transpose: _transpose,
        Concat: _concat,
        Pad: _pad,
        Slice: _slice,
        ResizeNearest: _resize_nearest,
        Requantize: _requantize,
        ChannelUnits: _units,
    }
)
