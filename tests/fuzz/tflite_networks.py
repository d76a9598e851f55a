# SPDX-License-Identifier: Apache-2.0
"""Random TFLite networks, int8 or int16 activations, and TensorFlow Lite Micro as their judge: equal bytes."""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

from tests.fuzz import builds
from tests.fuzz.case import WrongError
from tests.load.tflite_models import numbers
from tests.ops.tflite_builder import Operator, Tensor, build_model
from tinyc.base.errors import TinycError
from tinyc.base.numerics import Numerics
from tinyc.board import load_board
from tinyc.ir.graph import NUMPY_DTYPE, Array, Graph
from tinyc.load.tflite import load_tflite
from tinyc.options.build import Options
from tinyc.passes import normalize
from tinyc.passes.dead_channels import drop_dead_channels
from tinyc.reference.interpreter import prepare_int

RUNS = 3  # inferences, of a model with state one after the other
ON_A_CORE = 0.04  # of the cases: seconds instead of milliseconds
LARGEST = 4000


@dataclass(frozen=True, slots=True)
class TfliteNetwork:
    """The file, and what it was made of; its only input is the first of the tensors."""

    content: bytes
    tensors: tuple[Tensor, ...]
    operators: tuple[Operator, ...]
    outputs: tuple[str, ...]


class Net:
    """A network under construction. `x`: the current activation, [1,H,W,C] until a dense layer makes it [1,C]."""

    def __init__(self, seed: int) -> None:
        self.rng = np.random.default_rng([seed, 0])
        self.wide = self.rng.random() < 0.15  # int16 activations
        h, w = (int(n) for n in self.rng.integers(3, 12, 2))
        self.tensors: list[Tensor] = []
        self.operators: list[Operator] = []
        self.x = self.act("x", (1, h, w, int(self.rng.choice([1, 2, 3, 4, 8]))))

    def pick(self, *values: int) -> int:
        return int(self.rng.choice(values))

    def act(self, name: str, shape: tuple[int, ...], quant: tuple[float, int] | None = None) -> Tensor:
        """A new activation, in steps of 0.003 to 0.3 unless `quant` says otherwise."""
        scale = float(np.float32(np.exp(self.rng.uniform(np.log(0.003), np.log(0.3)))))
        zero = int(self.rng.integers(-128, 128)) if self.rng.random() < 0.9 else self.pick(-128, 127)
        if self.wide:
            scale, zero = scale / 256, 0
        scale, zero = quant or (scale, zero)
        tensor = Tensor(name, shape, "s16" if self.wide else "s8", (scale,), (zero,))
        self.tensors.append(tensor)
        return tensor

    def constant(self, tensor: Tensor) -> str:
        named = replace(tensor, name=f"k{len(self.tensors)}")
        self.tensors.append(named)
        return named.name

    def weights(self, shape: tuple[int, ...], axis: int, per_channel: bool = True) -> tuple[str, Array]:
        """int8, or int4, with a scale per index of `axis`; and the scales."""
        count = shape[axis] if per_channel else 1
        scale = np.exp(self.rng.uniform(np.log(0.002), np.log(0.05), count)).astype(np.float32)
        data = self.rng.integers(-127, 128, shape).astype(np.int8)
        if self.rng.random() < 0.1:  # a channel without weights
            np.moveaxis(data, axis, 0)[self.rng.integers(shape[axis])] = 0
        zero = (0,) * count
        return self.constant(Tensor("", shape, "s8", tuple(map(float, scale)), zero, axis * per_channel, data)), scale

    def bias(self, count: int, scale: Array, optional: bool = True) -> str:
        """At x.scale * w.scale, int64 beside int16 activations; "" for none."""
        if optional and not self.wide and self.rng.random() < 0.25:  # the judge dies of others without
            return ""
        scales = np.float32(self.x.scale[0]) * np.broadcast_to(scale, count if len(scale) > 1 else 1)
        data = self.rng.integers(-3000, 3000, count).astype(np.int64 if self.wide else np.int32)
        kind = "s64" if self.wide else "s32"
        return self.constant(Tensor("", (count,), kind, tuple(map(float, scales)), (0,) * len(scales), 0, data))

    def add(
        self,
        code: str,
        inputs: Collection[str],
        shape: tuple[int, ...],
        options: str = "",
        quant: tuple[float, int] | None = None,
        version: int = 1,
        **fields: Any,
    ) -> None:
        """An operator on the current activation and others; its output is the current one then."""
        y = self.act(f"t{len(self.tensors)}", shape, quant)
        operator = Operator(code, (self.x.name, *inputs), (y.name,), options, fields, version)
        self.operators.append(operator)
        self.x = y

    @property
    def same(self) -> tuple[float, int]:
        return self.x.scale[0], self.x.zero[0]

    def window(self, k: tuple[int, int], stride: tuple[int, int], dilation: tuple[int, int] = (1, 1)) -> Any:
        """(padding, output size) of a window over the image; None where it does not fit."""
        padding = self.pick(0, 1)
        size = self.x.shape[1:3]
        reach = [(k[i] - 1) * dilation[i] + 1 for i in (0, 1)]
        out = tuple(-(-size[i] // stride[i]) if padding == 0 else (size[i] - reach[i]) // stride[i] + 1 for i in (0, 1))
        return None if min(out) < 1 else (padding, out)

    def conv(self) -> None:
        c, out_c = self.x.shape[3], self.pick(1, 2, 3, 4, 5, 8, 12)
        k, stride = (self.pick(1, 2, 3), self.pick(1, 3, 5)), (self.pick(1, 1, 2), self.pick(1, 1, 2))
        dilation = (1, 1) if max(stride) > 1 else (self.pick(1, 1, 2), self.pick(1, 1, 2))
        if (window := self.window(k, stride, dilation)) is None:
            return
        w, scale = self.weights((out_c, *k, c), 0)
        fields = {"StrideH": stride[0], "StrideW": stride[1], "Padding": window[0]}
        fields |= {"DilationHFactor": dilation[0], "DilationWFactor": dilation[1]}
        fields["FusedActivationFunction"] = self.pick(0, 0, 1, 3)
        self.add("CONV_2D", (w, self.bias(out_c, scale)), (1, *window[1], out_c), "Conv2DOptions", version=3, **fields)

    def depthwise(self) -> None:
        c = self.x.shape[3]
        multiplier = self.pick(1, 1, 1, 2) if c < 12 else 1
        k, s = (self.pick(1, 2, 3), self.pick(1, 3, 5)), self.pick(1, 1, 2)
        if (window := self.window(k, (s, s))) is None:
            return
        w, scale = self.weights((1, *k, c * multiplier), 3)
        fields = {"StrideH": s, "StrideW": s, "Padding": window[0], "DepthMultiplier": multiplier}
        fields |= {"DilationHFactor": 1, "DilationWFactor": 1, "FusedActivationFunction": self.pick(0, 0, 1, 3)}
        names = (w, self.bias(c * multiplier, scale, optional=False))
        shape = (1, *window[1], c * multiplier)
        self.add("DEPTHWISE_CONV_2D", names, shape, "DepthwiseConv2DOptions", version=3, **fields)

    def transposed(self) -> None:
        _, h, w, c = self.x.shape
        out_c, k, s, padding = self.pick(1, 3, 4), self.pick(2, 3), self.pick(1, 2), self.pick(0, 1)
        size = (h * s, w * s) if padding == 0 else ((h - 1) * s + k, (w - 1) * s + k)
        shape = self.constant(numbers("", [1, *size, out_c]))
        weights, scale = self.weights((out_c, k, k, c), 0)
        x, bias = self.x, self.bias(out_c, scale)
        y = self.act(f"t{len(self.tensors)}", (1, *size, out_c))
        fields = {"StrideH": s, "StrideW": s, "Padding": padding}
        inputs = (shape, weights, x.name, *([bias] if bias else []))
        self.operators.append(Operator("TRANSPOSE_CONV", inputs, (y.name,), "TransposeConvOptions", fields, 3))
        self.x = y

    def pool(self) -> None:
        k, s = (self.pick(1, 2, 3), self.pick(2, 3)), (self.pick(1, 2), self.pick(1, 2))
        if (window := self.window(k, s)) is None:
            return
        fields = {"FilterHeight": k[0], "FilterWidth": k[1], "StrideH": s[0], "StrideW": s[1], "Padding": window[0]}
        fields["FusedActivationFunction"] = self.pick(0, 0, 1, 3)
        code = ("MAX_POOL_2D", "AVERAGE_POOL_2D")[self.pick(0, 1)]
        self.add(code, (), (1, *window[1], self.x.shape[3]), "Pool2DOptions", self.same, 2, **fields)

    def residual(self) -> None:
        before = self.x
        self.pointwise()
        code, options = (("ADD", "AddOptions"), ("SUB", "SubOptions"), ("MUL", "MulOptions"))[self.pick(0, 0, 1, 2)]
        self.add(code, (before.name,), before.shape, options, version=2, FusedActivationFunction=self.pick(0, 0, 1, 3))

    def pointwise(self) -> None:
        c = self.x.shape[3]
        w, scale = self.weights((c, 1, 1, c), 0)
        fields = {"StrideH": 1, "StrideW": 1, "Padding": 0, "DilationHFactor": 1, "DilationWFactor": 1}
        self.add("CONV_2D", (w, self.bias(c, scale)), self.x.shape, "Conv2DOptions", version=3, **fields)

    def with_constant(self) -> None:
        """A sum, product or limit with a constant of one number, one per channel, or of the same shape."""
        shape = ((1,), self.x.shape[-1:], self.x.shape)[self.rng.integers(3)]
        low = -32767 if self.wide else -128
        data = self.rng.integers(low, -low, shape).astype(np.int16 if self.wide else np.int8)
        code, options = (("ADD", "AddOptions"), ("MUL", "MulOptions"), ("MAXIMUM", "MaximumMinimumOptions"))[
            self.rng.integers(3)
        ]
        like = self.same if code == "MAXIMUM" else (self.same[0] * float(self.rng.uniform(0.3, 3)), self.same[1])
        name = self.constant(Tensor("", shape, self.x.dtype, (like[0],), (like[1],), 0, data))
        self.add(code, (name,), self.x.shape, options, self.same if code == "MAXIMUM" else None, 2)

    def concat(self) -> None:
        before = self.x
        self.pointwise()
        axis = 3 if self.rng.random() < 0.7 else 1
        shape = list(before.shape)
        shape[axis] *= 2
        quant = self.same
        self.tensors[[t.name for t in self.tensors].index(self.x.name)] = replace(
            self.x, scale=before.scale, zero=before.zero
        )
        quant = (before.scale[0], before.zero[0])
        self.add("CONCATENATION", (before.name,), tuple(shape), "ConcatenationOptions", quant, 2, Axis=axis)

    def pad(self) -> None:
        pads = [[0, 0], *([self.pick(0, 1, 2), self.pick(0, 1)] for _ in range(2)), [0, self.pick(0, 0, 1)]]
        shape = tuple(n + a + b for n, (a, b) in zip(self.x.shape, pads, strict=True))
        self.add("PAD", (self.constant(numbers("", pads)),), shape, "PadOptions", self.same, 2)

    def activation(self) -> None:
        kind = self.rng.integers(7)
        unit = (1 / 32768, 0) if self.wide else (1 / 256, -128)
        both = (1 / 32768, 0) if self.wide else (1 / 128, 0)
        shape = self.x.shape
        if kind == 0:
            self.add("LOGISTIC", (), shape, quant=unit)
        elif kind == 1:
            self.add("TANH", (), shape, quant=both)
        elif kind == 2:
            self.add("SOFTMAX", (), shape, "SoftmaxOptions", unit, 2, Beta=1.0)
        elif kind == 3:
            self.add("LEAKY_RELU", (), shape, "LeakyReluOptions", version=2, Alpha=float(self.rng.uniform(0.01, 0.9)))
        elif kind == 4 and not self.wide:
            self.add("HARD_SWISH", (), shape)
        elif kind == 5 and not self.wide:
            self.add(("RELU", "RELU6")[self.pick(0, 1)], (), shape, version=2)
        else:
            self.add("QUANTIZE", (), shape, version=2)

    def resize(self) -> None:
        _, h, w, c = self.x.shape
        size = (h * self.pick(1, 2), w * 2)
        names = (self.constant(numbers("", list(size))),)
        if self.rng.random() < 0.5:
            options = "ResizeNearestNeighborOptions"
            self.add("RESIZE_NEAREST_NEIGHBOR", names, (1, *size, c), options, self.same, 3)
        elif not self.wide:
            fields = {"HalfPixelCenters": bool(self.rng.random() < 0.5)}
            self.add("RESIZE_BILINEAR", names, (1, *size, c), "ResizeBilinearOptions", self.same, 3, **fields)

    def crop(self) -> None:
        _, h, w, c = self.x.shape
        first = [0, self.pick(0, 1), self.pick(0, 1), 0]
        last, step = [1, h, w - self.pick(0, 1), c], [1, self.pick(1, 2), 1, 1]
        shape = tuple(-(-(b - a) // s) for a, b, s in zip(first, last, step, strict=True))
        names = [self.constant(numbers("", values)) for values in (first, last, step)]
        if min(shape) > 0:
            self.add("STRIDED_SLICE", names, shape, "StridedSliceOptions", self.same, 2)

    def turn(self) -> None:
        perm = [0, 2, 1, 3] if self.rng.random() < 0.5 else [0, 1, 3, 2]
        shape = tuple(self.x.shape[i] for i in perm)
        self.add("TRANSPOSE", (self.constant(numbers("", perm)),), shape, "TransposeOptions", self.same, 2)

    def mean(self) -> None:
        axes = self.constant(numbers("", [1, 2]))
        self.add("MEAN", (axes,), (1, 1, 1, self.x.shape[3]), "ReducerOptions", version=2, KeepDims=True)

    def dense(self) -> None:
        """A fully connected layer on everything, and softmax or not."""
        size, out = int(np.prod(self.x.shape)), self.pick(1, 3, 4, 10)
        self.add("RESHAPE", (self.constant(numbers("", [1, size])),), (1, size), "ReshapeOptions", self.same)
        w, scale = self.weights((out, size), 0, self.rng.random() < 0.5)
        fields = {"FusedActivationFunction": self.pick(0, 0, 1)}
        self.add("FULLY_CONNECTED", (w, self.bias(out, scale)), (1, out), "FullyConnectedOptions", version=4, **fields)
        if self.rng.random() < 0.5:
            unit = (1 / 32768, 0) if self.wide else (1 / 256, -128)
            self.add("SOFTMAX", (), (1, out), "SoftmaxOptions", unit, 2, Beta=1.0)

    def remember(self) -> None:
        """An SVDF layer: from here on the model has a state."""
        if self.wide:
            return
        size = int(np.prod(self.x.shape))
        self.add("RESHAPE", (self.constant(numbers("", [1, size])),), (1, size), "ReshapeOptions", self.same)
        units, rank, memory = self.pick(2, 4, 5), self.pick(1, 2), self.pick(2, 3, 6)
        filters, state, times = units * rank, 2.0**-12, 2.0**-16
        rng = self.rng
        w = rng.integers(-127, 128, (filters, size)).astype(np.int8)
        t = rng.integers(-8000, 8000, (filters, memory)).astype(np.int16)
        b = rng.integers(-(2**18), 2**18, units).astype(np.int32)
        names = [
            self.constant(Tensor("", w.shape, "s8", (0.003,), (0,), 0, w)),
            self.constant(Tensor("", t.shape, "s16", (times,), (0,), 0, t)),
            self.constant(Tensor("", b.shape, "s32", (state * times,), (0,), 0, b)),
            self.constant(Tensor("", (1, filters * memory), "s16", (state,), (0,), variable=True)),
        ]
        fields = {"Rank": rank, "FusedActivationFunction": 1}
        self.add("SVDF", names, (1, units), "SVDFOptions", (0.02, -128), 4, **fields)

    def network(self) -> TfliteNetwork:
        if not self.operators:
            self.add("QUANTIZE", (), self.x.shape, version=2)
        content = build_model(self.tensors, self.operators, [self.tensors[0].name], [self.x.name])
        return TfliteNetwork(content, tuple(self.tensors), tuple(self.operators), (self.x.name,))


Piece = Callable[[Net], None]
MIDDLE: tuple[Piece, ...] = (
    *[Net.conv] * 3,
    *[Net.depthwise] * 2,
    *[Net.activation] * 2,
    Net.transposed,
    Net.pool,
    Net.residual,
    Net.pointwise,
    Net.with_constant,
    Net.concat,
    Net.pad,
    Net.resize,
    Net.crop,
    Net.turn,
    Net.mean,
)
ENDS: tuple[Piece, ...] = (Net.dense, Net.dense, Net.conv, Net.remember)


def pieces(seed: int) -> tuple[Piece, ...]:
    """One to seven blocks and an end."""
    rng = np.random.default_rng([seed, 1])
    middle = [MIDDLE[rng.integers(len(MIDDLE))] for _ in range(rng.integers(1, 8))]
    return (*middle, ENDS[rng.integers(len(ENDS))])


def count(seed: int) -> int:
    return len(pieces(seed))


@cache
def tflite_network(seed: int, subset: frozenset[int] | None = None) -> TfliteNetwork:
    """The network of a seed, or of some of its pieces. One that does not fit is left out."""
    net = Net(seed)
    for index, piece in enumerate(pieces(seed)):
        if subset is not None and index not in subset:
            continue
        before = (net.x, list(net.tensors), list(net.operators))
        net.rng = np.random.default_rng([seed, 2 + index])
        piece(net)
        if int(np.prod(net.x.shape)) > LARGEST:
            net.x, net.tensors, net.operators = before
    return net.network()


def describe(seed: int, subset: frozenset[int]) -> str:
    return " ".join(operator.code for operator in tflite_network(seed, subset).operators)


def check(seed: int, subset: frozenset[int], folder: Path) -> str:
    """`equal` to TensorFlow Lite Micro; `no judge` where that does not take the model; `refused` by tinyc."""
    path = folder / "net.tflite"
    path.write_bytes(tflite_network(seed, subset).content)
    try:
        loaded = load_tflite(path)
        graph = normalize(loaded)
        drawn = drawn_inputs(graph, seed)
        ours = list(prepare_int(graph, Numerics.TFLM).sequence(drawn))
    except TinycError:
        return "refused"
    reduced = drop_dead_channels(graph, Numerics.TFLM)
    compare_runs("dead channels", graph, list(prepare_int(reduced, Numerics.TFLM).sequence(drawn)), ours)
    theirs = judged(path, graph, drawn)
    if theirs is not None:
        compare_runs("bytes of TFLM", graph, ours, theirs)
    rng = np.random.default_rng([seed, 500])
    if rng.random() < ON_A_CORE:
        board = load_board(builds.CORES[rng.integers(len(builds.CORES))])
        builds.check_on(seed, path, board, Options(""), folder / board.name)
    return "no judge" if theirs is None else "equal"


def drawn_inputs(graph: Graph, seed: int) -> list[dict[str, Array]]:
    rng = np.random.default_rng([seed, 400])
    samples = []
    for _ in range(RUNS):
        drawn = {}
        for name in graph.inputs:
            dtype = NUMPY_DTYPE[graph.values[name].dtype]
            limits = np.iinfo(dtype)
            drawn[name] = rng.integers(limits.min, limits.max + 1, graph.values[name].shape).astype(dtype)
        samples.append(drawn)
    return samples


def judged(path: Path, graph: Graph, drawn: list[dict[str, Array]]) -> list[dict[str, Array]] | None:
    from tflite_micro.python.tflite_micro import runtime  # noqa: PLC0415  (slow to load)

    try:
        interpreter = runtime.Interpreter.from_bytes(path.read_bytes(), arena_size=2_000_000)
    except RuntimeError:
        return None
    results = []
    for sample in drawn:
        for index, name in enumerate(graph.inputs):
            interpreter.set_input(sample[name], index)
        interpreter.invoke()
        results.append({name: np.array(interpreter.get_output(i)) for i, name in enumerate(graph.outputs)})
    return results


def compare_runs(kind: str, graph: Graph, ours: list[dict[str, Array]], theirs: list[dict[str, Array]]) -> None:
    for number, (mine, other) in enumerate(zip(ours, theirs, strict=True)):
        for name in graph.outputs:
            wrong = np.flatnonzero(mine[name].ravel() != other[name].ravel())
            if wrong.size:
                at = int(wrong[0])
                values = f"{mine[name].ravel()[at]}, not {other[name].ravel()[at]}"
                of = mine[name].size
                raise WrongError(
                    kind, f"run {number}, output {name}: {wrong.size} of {of} differ, first {at}: {values}"
                )
