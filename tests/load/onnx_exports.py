# SPDX-License-Identifier: Apache-2.0
"""Networks as exporters write them: an open batch, shapes computed from it, constants as nodes, layers spelled out."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

ENDLESS = 2**63 - 1


class Exported:
    """A graph being written; every method adds nodes and returns the name of the result."""

    def __init__(self, *shape: int, opset: int = 17) -> None:
        self.nodes: list[onnx.NodeProto] = []
        self.weights: list[onnx.TensorProto] = []
        self.shape: Sequence[int | str] = ("batch", *shape)
        self.opset = opset
        self.rng = np.random.default_rng(len(shape))

    def op(self, kind: str, *inputs: str, **attributes: Any) -> str:
        return self.ops(kind, 1, *inputs, **attributes)[0]

    def ops(self, kind: str, count: int, *inputs: str, **attributes: Any) -> list[str]:
        names = [f"/{kind}_{len(self.nodes)}_output_{k}" for k in range(count)]
        self.nodes.append(helper.make_node(kind, inputs, names, name=f"/{kind}_{len(self.nodes)}", **attributes))
        return names

    def node(self, value: Any) -> str:
        """A Constant node."""
        return self.op("Constant", value=numpy_helper.from_array(np.asarray(value)))

    def ints(self, *values: int) -> str:
        return self.node(np.array(values, np.int64))

    def real(self, value: float) -> str:
        return self.node(np.float32(value))

    def w(self, *shape: int) -> str:
        """Random weights, an initializer."""
        name = f"w{len(self.weights)}"
        array = self.rng.normal(0, 1 / np.sqrt(np.prod(shape[1:])), shape).astype(np.float32)
        self.weights.append(numpy_helper.from_array(array, name))
        return name

    def conv(self, x: str, out_c: int, in_c: int, k: int = 3, stride: int = 1, groups: int = 1) -> str:
        weights = self.w(out_c, in_c // groups, k, k)
        return self.op("Conv", x, weights, self.w(out_c), pads=[k // 2] * 4, strides=[stride] * 2, group=groups)

    def dense(self, x: str, out_c: int, in_c: int) -> str:
        return self.op("Gemm", x, self.w(out_c, in_c), self.w(out_c), transB=1)

    def linear(self, x: str, out_c: int, in_c: int) -> str:
        """Of the last axis of three."""
        return self.op("Add", self.op("MatMul", x, self.w(in_c, out_c)), self.w(out_c))

    def size(self, x: str, axis: int) -> str:
        """x.shape[axis] as a list of one."""
        return self.op("Unsqueeze", self.op("Gather", self.op("Shape", x), self.node(np.int64(axis))), self.ints(0))

    def view(self, x: str, *rest: int) -> str:
        """x.view(x.shape[0], ...)."""
        sizes = [self.ints(n) for n in rest]
        return self.op("Reshape", x, self.op("Concat", self.size(x, 0), *sizes, axis=0))

    def model(self, y: str) -> onnx.ModelProto:
        graph = helper.make_graph(
            self.nodes,
            "main_graph",
            [helper.make_tensor_value_info("x", TensorProto.FLOAT, self.shape)],
            [helper.make_empty_tensor_value_info(y)],
            self.weights,
        )
        return helper.make_model(graph, opset_imports=[helper.make_opsetid("", self.opset)], ir_version=8)


def mobilenet_v3() -> onnx.ModelProto:
    m = Exported(3, 16, 16)
    x = m.conv("x", 8, 3, stride=2)
    bounded = m.op("Clip", m.op("Add", x, m.real(3)), m.real(0), m.real(6))
    x = m.op("Mul", x, m.op("Div", bounded, m.real(6)))
    gate = m.op("Relu", m.conv(m.op("GlobalAveragePool", x), 4, 8, 1))
    x = m.op("Mul", x, m.op("HardSigmoid", m.conv(gate, 8, 4, 1), alpha=1 / 6))
    x = m.op("HardSwish", m.conv(x, 8, 8, groups=8))
    return m.model(m.dense(m.view(m.op("ReduceMean", x, axes=[2, 3]), -1), 5, 8))


def squeezenet() -> onnx.ModelProto:
    m = Exported(3, 17, 17)
    x = m.op("MaxPool", m.op("Relu", m.conv("x", 8, 3)), kernel_shape=[3, 3], strides=[2, 2], ceil_mode=1)
    thin = m.op("Relu", m.conv(x, 4, 8, 1))
    x = m.op("Concat", m.op("Relu", m.conv(thin, 6, 4, 1)), m.op("Relu", m.conv(thin, 6, 4)), axis=1)
    return m.model(m.op("Flatten", m.op("GlobalAveragePool", m.conv(m.op("Dropout", x), 5, 12, 1))))


def shufflenet() -> onnx.ModelProto:
    m = Exported(8, 6, 6)
    through, worked = m.ops("Split", 2, "x", m.ints(4, 4), axis=1)
    x = m.op("Concat", through, m.op("Relu", m.conv(worked, 4, 4, 1)), axis=1)
    n, h, w = (m.size(x, axis) for axis in (0, 2, 3))
    x = m.op("Reshape", x, m.op("Concat", n, m.ints(2), m.ints(4), h, w, axis=0))
    x = m.op("Transpose", x, perm=[0, 2, 1, 3, 4])
    return m.model(m.conv(m.op("Reshape", x, m.op("Concat", n, m.ints(-1), h, w, axis=0)), 8, 8))


def unet() -> onnx.ModelProto:
    """Resized to the size of the skip connection, and by a transposed convolution."""
    m = Exported(3, 12, 12)
    wide = m.op("Relu", m.conv("x", 4, 3))
    deep = m.op("Relu", m.conv(m.op("MaxPool", wide, kernel_shape=[2, 2], strides=[2, 2]), 4, 4))
    size = m.op("Slice", m.op("Shape", wide), m.ints(2), m.ints(4), m.ints(0))
    start = m.op("Slice", m.op("Shape", deep), m.ints(0), m.ints(2), m.ints(0))
    up = m.op("Resize", deep, "", "", m.op("Concat", start, size, axis=0), mode="linear")
    other = m.op("ConvTranspose", deep, m.w(4, 4, 2, 2), m.w(4), strides=[2, 2])
    return m.model(m.op("Sigmoid", m.conv(m.op("Concat", wide, up, other, axis=1), 1, 12, 1)))


def tcn() -> onnx.ModelProto:
    """Padded on both sides, what is too much cut off."""
    m = Exported(4, 24)
    x = "x"
    for d in (1, 2, 4):
        y = m.op("Conv", x, m.w(4, 4, 3), m.w(4), pads=[2 * d, 2 * d], dilations=[d])
        y = m.op("Relu", m.op("Slice", y, m.ints(0), m.ints(-2 * d), m.ints(2), m.ints(1)))
        x = m.op("Relu", m.op("Add", y, x))
    return m.model(m.op("LogSoftmax", m.dense(m.op("Gather", x, m.node(np.int64(-1)), axis=2), 5, 4), axis=1))


def padded() -> onnx.ModelProto:
    """torch.nn.functional.pad: the pads are turned around by a chain of operators."""
    m = Exported(3, 8, 8)
    zeros = m.op("ConstantOfShape", m.ints(4), value=numpy_helper.from_array(np.zeros(1, np.int64)))
    pairs = m.op("Reshape", m.op("Concat", m.ints(1, 0, 2, 1), zeros, axis=0), m.ints(-1, 2))
    turned = m.op("Slice", pairs, m.ints(-1), m.ints(-ENDLESS), m.ints(0), m.ints(-1))
    pads = m.op("Cast", m.op("Reshape", m.op("Transpose", turned, perm=[1, 0]), m.ints(-1)), to=TensorProto.INT64)
    return m.model(m.op("Conv", m.op("Pad", "x", pads, m.real(0)), m.w(4, 3, 3, 3), m.w(4)))


def transformer() -> onnx.ModelProto:
    """Attention and GELU, layer normalization spelled out."""
    m = Exported(6, 12)

    def normal(x: str) -> str:
        centred = m.op("Sub", x, m.op("ReduceMean", x, axes=[-1]))
        variance = m.op("ReduceMean", m.op("Pow", centred, m.real(2)), axes=[-1])
        root = m.op("Sqrt", m.op("Add", variance, m.real(1e-5)))
        return m.op("Add", m.op("Mul", m.op("Div", centred, root), m.w(12)), m.w(12))

    def heads(perm: list[int]) -> str:
        sizes = (m.size("x", 0), m.size("x", 1), m.ints(3), m.ints(4))
        return m.op("Transpose", m.op("Reshape", m.linear("x", 12, 12), m.op("Concat", *sizes, axis=0)), perm=perm)

    scores = m.op("Div", m.op("MatMul", heads([0, 2, 1, 3]), heads([0, 2, 3, 1])), m.real(2))
    mixed = m.op("MatMul", m.op("Softmax", scores, axis=-1), heads([0, 2, 1, 3]))
    mixed = m.view(m.op("Transpose", mixed, perm=[0, 2, 1, 3]), 6, 12)
    x = normal(m.op("Add", "x", m.linear(mixed, 12, 12)))
    wide = m.linear(x, 24, 12)
    gate = m.op("Add", m.op("Erf", m.op("Div", wide, m.real(2**0.5))), m.real(1))
    wide = m.op("Mul", m.op("Mul", wide, gate), m.real(0.5))
    return m.model(normal(m.op("Add", x, m.linear(wide, 12, 24))))


def vision_transformer() -> onnx.ModelProto:
    """The class token repeated for a batch that is only known when it runs."""
    m = Exported(3, 8, 8)
    x = m.view(m.op("Conv", "x", m.w(12, 3, 4, 4), m.w(12), strides=[4, 4]), 12, -1)
    x = m.op("Transpose", x, perm=[0, 2, 1])
    token_shape = m.op("Concat", m.size(x, 0), m.ints(-1), m.ints(-1), axis=0)
    ones = m.op("ConstantOfShape", m.ints(3), value=numpy_helper.from_array(np.ones(1, np.int64)))
    is_open = m.op("Equal", token_shape, m.op("Mul", ones, m.ints(-1)))
    token = m.op("Expand", m.w(1, 1, 12), m.op("Where", is_open, ones, token_shape))
    x = m.op("Add", m.op("Concat", token, x, axis=1), m.w(1, 5, 12))
    x = m.op("LayerNormalization", x, m.w(12), m.w(12), axis=-1)
    return m.model(m.dense(m.op("Gather", x, m.node(np.int64(0)), axis=1), 5, 12))


def group_norm() -> onnx.ModelProto:
    m = Exported(8, 6, 6)
    x = m.conv("x", 8, 8)
    rows = m.op("Reshape", x, m.ints(0, 2, -1))
    one, zero = (m.node(np.full(2, n, np.float32)) for n in (1, 0))
    x = m.op("Reshape", m.op("InstanceNormalization", rows, one, zero), m.op("Shape", x))
    return m.model(m.conv(m.op("Add", m.op("Mul", x, m.w(8, 1, 1)), m.w(8, 1, 1)), 4, 8, 1))


def lstm() -> onnx.ModelProto:
    """batch_first, with a beginning of zeros for the open batch."""
    m = Exported(7, 6)
    shape = m.op("Concat", m.ints(1), m.size("x", 0), m.ints(5), axis=0)
    zeros = m.op("ConstantOfShape", shape, value=numpy_helper.from_array(np.zeros(1, np.float32)))
    other = m.op("Expand", m.real(0), shape)
    turned = m.op("Transpose", "x", perm=[1, 0, 2])
    y = m.ops("LSTM", 3, turned, m.w(1, 20, 6), m.w(1, 20, 5), m.w(1, 40), "", zeros, other, hidden_size=5)[0]
    y = m.op("Transpose", m.op("Squeeze", y, m.ints(1)), perm=[1, 0, 2])
    return m.model(m.dense(m.op("Gather", y, m.node(np.int64(-1)), axis=1), 3, 5))


def keras_conv1d() -> onnx.ModelProto:
    """tf2onnx: channels last outside, an axis put in for the convolution."""
    m = Exported(16, 4)
    x = m.op("Transpose", m.op("Unsqueeze", "x", m.ints(1)), perm=[0, 3, 1, 2])
    x = m.op("Conv", x, m.w(8, 4, 1, 3), m.w(8), auto_pad="SAME_UPPER")
    x = m.op("Relu", m.op("Squeeze", m.op("Transpose", x, perm=[0, 2, 3, 1]), m.ints(1)))
    return m.model(m.linear(m.op("ReduceMax", x, axes=[1], keepdims=0), 3, 8))


def channel_attention() -> onnx.ModelProto:
    """ECA: a convolution over channels, the gate repeated to the image."""
    m = Exported(8, 6, 6)
    pooled = m.op("Transpose", m.op("Squeeze", m.op("GlobalAveragePool", "x"), m.ints(-1)), perm=[0, 2, 1])
    gate = m.op("Transpose", m.op("Conv", pooled, m.w(1, 1, 3), pads=[1, 1]), perm=[0, 2, 1])
    gate = m.op("Expand", m.op("Sigmoid", m.op("Unsqueeze", gate, m.ints(-1))), m.op("Shape", "x"))
    return m.model(m.op("Mul", "x", gate))


def focus() -> onnx.ModelProto:
    """Every other row and column, four times; then pixels shuffled back."""
    m = Exported(3, 8, 8)

    def every_other(x: str, axis: int, first: int) -> str:
        return m.op("Slice", x, m.ints(first), m.ints(ENDLESS), m.ints(axis), m.ints(2))

    parts = [every_other(every_other("x", 2, a), 3, b) for a in (0, 1) for b in (0, 1)]
    return m.model(m.op("DepthToSpace", m.conv(m.op("Concat", *parts, axis=1), 8, 12), blocksize=2, mode="CRD"))


def weight_norm() -> onnx.ModelProto:
    m = Exported(4, 12)
    direction = m.w(6, 4, 3)
    size = m.op("Div", m.w(6, 1, 1), m.op("ReduceL2", direction, axes=[1, 2]))
    return m.model(m.op("Conv", "x", m.op("Mul", direction, size), m.op("Identity", m.w(6)), pads=[1, 1]))


EXPORTS: dict[str, Callable[[], onnx.ModelProto]] = {
    make.__name__: make
    for make in (
        *(mobilenet_v3, squeezenet, shufflenet, unet, tcn, padded, transformer, vision_transformer, group_norm, lstm),
        *(keras_conv1d, channel_attention, focus, weight_norm),
    )
}
