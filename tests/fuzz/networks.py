# SPDX-License-Identifier: Apache-2.0
"""Random small networks in ONNX: every kind of layer, every way to join them.

For whoever needs random models: `network(seed)` is a float model (opset 17, one input `x`), and
`samples(model, seed, count)` are inputs for it. The same seed gives the same bytes. A network is made of pieces
(`pieces(seed)`), each of which draws from random numbers of its own: with some of them left out the others stay as they
are as far as shapes allow, which is how a failing network is made smaller.
"""

from __future__ import annotations

from collections.abc import Callable, Collection

import numpy as np
import onnx

from tests.load.onnx_models import build, op
from tests.unit.networks import BLOCKS, Network
from tinyc.ir.graph import Array

LARGEST = 6000  # elements of a tensor: an emulator has to run what comes of it


class WideNetwork(Network):
    """A network with more kinds of layers than `Network`, and more than one output where `outputs` says so."""

    def __init__(self, seed: int) -> None:
        super().__init__(seed)
        self.rng = np.random.default_rng([seed, 0])
        tall = self.rng.random() < 0.3
        h, w = (int(n) for n in self.rng.integers(10 if tall else 4, 25 if tall else 11, 2))
        self.shape = self.input_shape = (1, int(self.rng.choice([1, 2, 3, 4, 8])), h, w)
        self.outputs: list[str] = []

    def pick(self, *values: int) -> int:
        return int(self.rng.choice(values))

    def vector(self, name: str, values: list[int]) -> str:
        unique = f"{name}{len(self.constants)}"
        self.constants[unique] = np.array(values, np.int64)
        return unique

    def any_conv(self) -> None:
        """Kernel, stride, dilation, padding and groups at random."""
        _, c, h, w = self.shape
        groups = self.pick(1, 1, 1, c, 2) if c % 2 == 0 else self.pick(1, c)
        out_c = groups * self.pick(1, 2, 3, 5) if groups > 1 else self.pick(1, 3, 4, 5, 7, 8, 12, 16)
        k = [self.pick(1, 2, 3, 5), self.pick(1, 2, 3, 5)]
        stride, dilation = [self.pick(1, 1, 2, 3), self.pick(1, 1, 2)], [self.pick(1, 1, 2), self.pick(1, 1, 3)]
        reach = [(k[i] - 1) * dilation[i] + 1 for i in (0, 1)]
        pads = [int(self.rng.integers(0, reach[i % 2])) for i in range(4)]
        size = [(n + pads[i] + pads[i + 2] - reach[i]) // stride[i] + 1 for i, n in enumerate((h, w))]
        if min(size) < 1 or out_c > 24:
            return
        weights = self.constant(out_c, c // groups, *k, scale=1 / np.sqrt(k[0] * k[1] * (c // groups)))
        bias = [self.constant(out_c, scale=0.3)] if self.rng.random() < 0.7 else []
        self.add("Conv", self.x, weights, *bias, pads=pads, strides=stride, dilations=dilation, group=groups)
        self.shape = (1, out_c, *size)

    def transposed(self) -> None:
        _, c, h, w = self.shape
        k, stride, out_c = self.pick(2, 3, 4), self.pick(1, 2), self.pick(1, 2, 4, 6)
        pads = [self.pick(0, 1)] * 4
        size = [(n - 1) * stride + k - 2 * pads[0] for n in (h, w)]
        if min(size) < 1:
            return
        self.add("ConvTranspose", self.x, self.constant(c, out_c, k, k, scale=0.4), strides=[stride] * 2, pads=pads)
        self.shape = (1, out_c, *size)

    def strided_pool(self) -> None:
        k, (h, w) = self.pick(2, 3), self.shape[2:]
        kind = "MaxPool" if self.rng.random() < 0.5 else "AveragePool"
        self.add(kind, self.x, kernel_shape=[k, k], strides=[2, self.pick(1, 2)])
        stride_w = self.nodes[-1].attribute[-1].ints[1]
        self.shape = (*self.shape[:2], (h - k) // 2 + 1, (w - k) // int(stride_w) + 1)

    def activation(self) -> None:
        names = ("Relu", "Sigmoid", "Tanh", "HardSwish", "HardSigmoid", "LeakyRelu", "Elu", "Softplus", "Abs", "Neg")
        self.add(names[self.rng.integers(len(names))], self.x)

    def prelu(self) -> None:
        self.add("PRelu", self.x, self.constant(self.shape[1], 1, 1, scale=0.3))

    def limit(self) -> None:
        """The larger, or the smaller, of the tensor and something else."""
        kind = "Max" if self.rng.random() < 0.5 else "Min"
        self.add(kind, self.x, self.constant(1, scale=0.5))

    def resize(self) -> None:
        linear = self.rng.random() < 0.5
        scales = f"scales{len(self.constants)}"
        self.constants[scales] = np.array([1, 1, 2, self.pick(1, 2)], np.float32)
        mode = {"mode": "linear", "coordinate_transformation_mode": "half_pixel"}
        if not linear:
            mode = {"mode": "nearest", "coordinate_transformation_mode": "asymmetric", "nearest_mode": "floor"}
        self.add("Resize", self.x, "-", scales, **mode)
        by_w = int(self.constants[scales][3])
        self.shape = (*self.shape[:2], 2 * self.shape[2], by_w * self.shape[3])

    def split(self) -> None:
        """Both halves of the channels go their own ways and meet again."""
        c = self.shape[1]
        if c < 2:
            return
        first = int(self.rng.integers(1, c))
        names = [f"s{len(self.nodes)}a", f"s{len(self.nodes)}b"]
        sizes = self.vector("sizes", [first, c - first])
        self.nodes.append(op("Split", f"{self.x} {sizes}", " ".join(names), axis=1))
        self.x, self.shape = names[0], (1, first, *self.shape[2:])
        self.conv()
        channels = self.shape[1] + c - first
        order = (self.x, names[1]) if self.rng.random() < 0.5 else (names[1], self.x)
        self.add("Concat", *order, axis=1)
        self.shape = (1, channels, *self.shape[2:])

    def crop(self) -> None:
        h, w = self.shape[2:]
        first = [int(self.rng.integers(0, 2)), int(self.rng.integers(0, 2))]
        step = [self.pick(1, 1, 2), 1]
        ends = [h - self.pick(0, 1), w - self.pick(0, 1)]
        size = [-(-(ends[i] - first[i]) // step[i]) for i in (0, 1)]
        if min(size) < 1:
            return
        names = [self.vector("crop", values) for values in (first, ends, [2, 3], step)]
        self.add("Slice", self.x, *names)
        self.shape = (*self.shape[:2], *size)

    def shuffle(self) -> None:
        c, h, w = self.shape[1:]
        if c % 2:
            return
        self.add("Reshape", self.x, self.vector("shape", [1, 2, c // 2, h, w]))
        self.add("Transpose", self.x, perm=[0, 2, 1, 3, 4])
        self.add("Reshape", self.x, self.vector("shape", [1, c, h, w]))

    def turn(self) -> None:
        """Height and width change places."""
        self.add("Transpose", self.x, perm=[0, 1, 3, 2])
        self.shape = (*self.shape[:2], self.shape[3], self.shape[2])

    def norm(self) -> None:
        c = self.shape[1]
        self.add("InstanceNormalization", self.x, self.constant(c, shift=1, scale=0.3), self.constant(c))

    def mean(self) -> None:
        self.add("ReduceMean", self.x, axes=[2], keepdims=1)
        self.shape = (*self.shape[:2], 1, self.shape[3])

    def inception(self) -> None:
        """Three ways of the same size side by side."""
        before, shape = self.x, self.shape
        ways, channels = [], 0
        for k in (1, 3, 5):
            self.x, self.shape = before, shape
            self.conv(k=k)
            ways.append(self.x)
            channels += self.shape[1]
        self.add("Concat", *ways, axis=1)
        self.shape = (1, channels, *shape[2:])

    def inverted(self) -> None:
        """MobileNetV2's block: wide, depthwise, narrow, and the sum."""
        before, c = self.x, self.shape[1]
        self.conv(min(2 * c, 24), k=1)
        self.relu6()
        self.conv(self.shape[1], groups=self.shape[1])
        self.relu()
        self.conv(c, k=1)
        self.add("Add", before, self.x)

    def product(self) -> None:
        before = self.x
        self.conv(self.shape[1])
        self.add("Mul", before, self.x)

    def output(self) -> None:
        """What is here is an output of the model too."""
        if self.nodes and self.x not in self.outputs:
            self.outputs.append(self.x)

    def attention(self) -> None:
        """One head over the pixels as tokens."""
        c, h, w = self.shape[1:]
        if h * w > 64:
            return
        self.add("Reshape", self.x, self.vector("shape", [1, c, h * w]))
        tokens = self.add("Transpose", self.x, perm=[0, 2, 1])
        q, k, v = (self.add("MatMul", tokens, self.constant(c, c, scale=1 / np.sqrt(c))) for _ in range(3))
        self.add("Transpose", k, perm=[0, 2, 1])
        self.add("MatMul", q, self.x)
        self.add("Softmax", self.x, axis=-1)
        mixed = self.add("MatMul", self.x, v)
        self.add("Add", tokens, mixed)
        self.add("Transpose", self.x, perm=[0, 2, 1])
        self.add("Reshape", self.x, self.vector("shape", [1, c, h, w]))

    def classify(self) -> None:
        """A dense layer on all there is, and softmax or not."""
        self.head()

    def recurrent(self) -> None:
        """Rows of the image are steps of a sequence: LSTM, GRU or RNN, all steps given out or the last one."""
        c, h, w = self.shape[1:]
        if c * w > 96:
            return self.head()
        kind, gates = (("LSTM", 4), ("GRU", 3), ("RNN", 1))[self.rng.integers(3)]
        units = self.pick(2, 3, 4, 8)
        self.add("Transpose", self.x, perm=[2, 0, 1, 3])
        self.add("Reshape", self.x, self.vector("shape", [h, 1, c * w]))
        weights = self.constant(1, gates * units, c * w, scale=1 / np.sqrt(c * w))
        again = self.constant(1, gates * units, units, scale=1 / np.sqrt(units))
        names = [f"r{len(self.nodes)}y", f"r{len(self.nodes)}h"]
        bias = self.constant(1, 2 * gates * units, scale=0.2)
        self.nodes.append(op(kind, f"{self.x} {weights} {again} {bias}", " ".join(names), hidden_size=units))
        self.x = names[self.rng.integers(2)]
        self.add("Reshape", self.x, self.vector("shape", [1, -1]))
        return None

    def as_it_is(self) -> None:
        """No end: the image goes out."""

    def model(self) -> onnx.ModelProto:
        outputs = [*self.outputs, self.x] if self.x not in self.outputs else self.outputs
        return build(self.nodes, {"x": self.input_shape}, outputs, self.constants)


Piece = Callable[[WideNetwork], None]
MIDDLE: tuple[Piece, ...] = (
    *BLOCKS,
    *[WideNetwork.any_conv] * 6,
    *[WideNetwork.inverted] * 2,
    *[WideNetwork.activation] * 2,
    WideNetwork.transposed,
    WideNetwork.strided_pool,
    WideNetwork.prelu,
    WideNetwork.limit,
    WideNetwork.resize,
    WideNetwork.split,
    WideNetwork.crop,
    WideNetwork.shuffle,
    WideNetwork.turn,
    WideNetwork.norm,
    WideNetwork.mean,
    WideNetwork.inception,
    WideNetwork.product,
    WideNetwork.output,
    WideNetwork.attention,
)
ENDS: tuple[Piece, ...] = (
    WideNetwork.classify,
    WideNetwork.classify,
    WideNetwork.recurrent,
    WideNetwork.as_it_is,
    WideNetwork.pointwise,
)


def pieces(seed: int) -> tuple[Piece, ...]:
    """What the network of this seed is made of: a convolution, up to nine blocks, an end."""
    rng = np.random.default_rng([seed, 1])
    middle = [MIDDLE[rng.integers(len(MIDDLE))] for _ in range(rng.integers(1, 10))]
    return (WideNetwork.any_conv, *middle, ENDS[rng.integers(len(ENDS))])


def network(seed: int, subset: Collection[int] | None = None) -> onnx.ModelProto:
    """The float model of this seed; `subset`: with these of its pieces only. One that does not fit is left out."""
    net = WideNetwork(seed)
    for index, piece in enumerate(pieces(seed)):
        if subset is not None and index not in subset:
            continue
        before = (net.x, net.shape, list(net.nodes), dict(net.constants), list(net.outputs))
        net.rng = np.random.default_rng([seed, 2 + index])
        if min(net.shape[2:]) > 2 or piece in ENDS or piece is WideNetwork.activation:
            piece(net)
        if int(np.prod(net.shape)) > LARGEST:
            net.x, net.shape, net.nodes, net.constants, net.outputs = before
    if not net.nodes:
        net.relu()
    return net.model()


def samples(model: onnx.ModelProto, seed: int, count: int) -> dict[str, Array]:
    """float32 [count, ...] for every input of the model."""
    rng = np.random.default_rng([seed, 1 << 20])
    shapes = {info.name: [d.dim_value for d in info.type.tensor_type.shape.dim] for info in model.graph.input}
    return {name: rng.standard_normal((count, *shape[1:])).astype(np.float32) for name, shape in shapes.items()}
