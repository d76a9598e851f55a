# SPDX-License-Identifier: Apache-2.0
"""Seeded random convolutional networks in ONNX, as PyTorch exports them (NCHW), for tests of passes and quantizer."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import onnx
from onnx import NodeProto

from tests.load.onnx_models import build, op
from tinyc.ir.graph import Array


class Network:
    """A network under construction. `x` is the current tensor, `shape` its shape [1,C,H,W]."""

    def __init__(self, seed: int) -> None:
        self.rng = np.random.default_rng(seed)
        self.input_shape = (1, int(self.rng.integers(1, 4)), *(int(n) for n in self.rng.integers(6, 11, 2)))
        self.x, self.shape = "x", self.input_shape
        self.others: dict[str, tuple[int, ...]] = {}  # inputs
        self.nodes: list[NodeProto] = []
        self.constants: dict[str, Array] = {}

    def constant(self, *shape: int, scale: float = 1.0, shift: float = 0.0) -> str:
        name = f"c{len(self.constants)}"
        self.constants[name] = (scale * self.rng.standard_normal(shape) + shift).astype(np.float32)
        return name

    def add(self, name: str, *inputs: str, **attributes: object) -> str:
        self.nodes.append(op(name, " ".join(inputs), f"t{len(self.nodes)}", **attributes))
        self.x = self.nodes[-1].output[0]
        return self.x

    def conv(self, out_c: int | None = None, groups: int = 1, k: int = 3, stride: int = 1) -> None:
        _, c, h, w = self.shape
        out_c = out_c or int(self.rng.integers(1, 7))
        weights = self.constant(out_c, c // groups, k, k, scale=1 / (k * np.sqrt(c // groups)))
        inputs = [self.x, weights] + ([self.constant(out_c, scale=0.3)] if self.rng.random() < 0.5 else [])
        pad = k // 2
        self.add("Conv", *inputs, pads=[pad] * 4, strides=[stride] * 2, group=groups)
        self.shape = (1, out_c, (h - 1) // stride + 1, (w - 1) // stride + 1)

    def depthwise(self) -> None:
        self.conv(self.shape[1] * int(self.rng.integers(1, 3)), groups=self.shape[1])

    def strided(self) -> None:
        self.conv(stride=2)

    def pointwise(self) -> None:
        self.conv(k=1)

    def batch_norm(self) -> None:
        c = self.shape[1]
        gamma, beta, mean = self.constant(c, shift=1, scale=0.3), self.constant(c), self.constant(c)
        variance = self.constant(c, scale=0.1, shift=1)
        self.add("BatchNormalization", self.x, gamma, beta, mean, variance)

    def relu(self) -> None:
        self.add("Relu", self.x)

    def relu6(self) -> None:
        self.constants |= {"zero": np.array(0, np.float32), "six": np.array(1.5, np.float32)}
        self.add("Clip", self.x, "zero", "six")

    def scale(self) -> None:
        self.add("Mul", self.x, self.constant(self.shape[1], 1, 1, shift=1, scale=0.3))

    def shift(self) -> None:
        self.add("Add", self.x, self.constant(*([] if self.rng.random() < 0.3 else [self.shape[1], 1, 1])))

    def subtract(self) -> None:
        self.add("Sub", self.constant(1), self.x)

    def residual(self) -> None:
        before = self.x
        self.conv(self.shape[1])
        self.add("Add", before, self.x)

    def branches(self) -> None:
        before, c = self.x, self.shape[1]
        self.pointwise()
        self.add("Concat", before, self.x, axis=1)
        self.shape = (1, c + self.shape[1], *self.shape[2:])

    def excite(self) -> None:
        """Squeeze and excitation: a factor per channel, computed from the image."""
        before, shape = self.x, self.shape
        self.add("GlobalAveragePool", self.x)
        self.shape = (1, shape[1], 1, 1)
        self.conv(shape[1], k=1)
        self.add("Sigmoid", self.x)
        self.add("Mul", before, self.x)
        self.shape = shape

    def gate(self) -> None:
        """A factor per channel, from an input of its own."""
        name = f"gate{len(self.others)}"
        self.others[name] = (1, self.shape[1], 1, 1)
        self.add("Mul", self.x, name)

    def update(self) -> None:
        """What a recurrent cell does: all is mixed with a state, which is an input, and what becomes of that."""
        name = f"state{len(self.others)}"
        self.others[name] = self.shape
        before, squashed = self.x, self.add("Sigmoid", self.x)
        self.add("Mul", squashed, name)
        self.add("Add", self.x, before)

    def pad(self) -> None:
        self.constants["pads"] = np.array([0, 0, 1, 0, 0, 0, 2, 1], np.int64)
        self.add("Pad", self.x, "pads")
        self.shape = (*self.shape[:2], self.shape[2] + 3, self.shape[3] + 1)

    def max_pool(self) -> None:
        self.add("MaxPool", self.x, kernel_shape=[2, 2], strides=[1, 1])
        self.shape = (*self.shape[:2], self.shape[2] - 1, self.shape[3] - 1)

    def avg_pool(self) -> None:
        self.add("AveragePool", self.x, kernel_shape=[3, 3], pads=[1, 1, 1, 1], strides=[1, 1])

    def head(self) -> None:
        """A classifier: flatten, or global pooling, then a dense layer and softmax."""
        kind = self.rng.integers(3)
        if kind:
            self.add("GlobalAveragePool" if kind == 1 else "GlobalMaxPool", self.x)
            self.shape = (*self.shape[:2], 1, 1)
        self.add("Flatten", self.x)
        width = int(np.prod(self.shape))
        w = self.constant(5, width, scale=1 / np.sqrt(width))
        self.add("Gemm", self.x, w, self.constant(5), transB=1)
        if self.rng.random() < 0.5:
            self.add("Softmax", self.x)

    def model(self) -> onnx.ModelProto:
        return build(self.nodes, {"x": self.input_shape} | self.others, [self.x], self.constants)


BLOCKS: tuple[Callable[[Network], None], ...] = (
    Network.conv,
    Network.depthwise,
    Network.strided,
    Network.pointwise,
    Network.batch_norm,
    Network.relu,
    Network.relu6,
    Network.scale,
    Network.shift,
    Network.subtract,
    Network.residual,
    Network.branches,
    Network.excite,
    Network.pad,
    Network.max_pool,
    Network.avg_pool,
)


def random_network(seed: int) -> onnx.ModelProto:
    """A convolution, up to eight random blocks that fit, and a classifier."""
    net = Network(seed)
    net.conv()
    for _ in range(int(net.rng.integers(2, 9))):
        block = BLOCKS[net.rng.integers(len(BLOCKS))]
        if min(net.shape[2:]) > 2 or block in (Network.relu, Network.batch_norm):
            block(net)
    net.head()
    return net.model()


def random_network_of_inputs(seed: int) -> onnx.ModelProto:
    """A small one with gates and states that are inputs, before, between or behind layers with rows."""
    net = Network(seed)
    blocks = (Network.gate, Network.update, Network.conv, Network.depthwise, Network.strided, Network.relu)
    for block in net.rng.permutation(len(blocks))[: int(net.rng.integers(3, 6))]:
        blocks[block](net)
    if net.rng.random() < 0.5:
        net.head()
    else:
        net.update()
    return net.model()
