# SPDX-License-Identifier: Apache-2.0
"""Networks with attention on a Cortex-M4: instructions and memory with attention in one step, and as in the file.

`python bench/attention.py [NETWORK...]` prints a Markdown table. The networks are written here as exporters write them,
with random weights: `vit`, 64 tokens of 64 numbers, 4 heads, 2 blocks; `conformer`, 49 frames, else the same; `layer`,
scores, softmax and context of one such block alone, also with portable kernels (on a Cortex-M3); `causal`, that layer
where no token looks at later ones.
"""

from __future__ import annotations

import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any
from unittest.mock import patch

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

from tinyc.ir.graph import Array
from tinyc.options.build import Options
from tinyc.options.recipe import Recipe
from tinyc.pipeline import integers
from tinyc.pipeline.building import build
from tinyc.pipeline.progress import Progress
from tinyc.verify.report import Report

HEADS, DEPTH = 4, 16
WIDTH = HEADS * DEPTH
QUICK = Recipe("minmax", equalize=False, rounding="nearest", augment=False)


class Net:
    """An ONNX graph under construction: `add` gives the name of a node's output."""

    def __init__(self) -> None:
        self.nodes: list[onnx.NodeProto] = []
        self.weights: list[onnx.TensorProto] = []
        self._rng = np.random.default_rng(7)

    def const(self, array: Array) -> str:
        name = f"c{len(self.weights)}"
        self.weights.append(numpy_helper.from_array(array, name))
        return name

    def random(self, *shape: int) -> str:
        scale = 1.2 / np.sqrt(np.prod(shape[:-1]) if len(shape) == 2 else np.prod(shape[1:]))
        return self.const((self._rng.normal(size=shape) * scale).astype(np.float32))

    def add(self, op: str, *inputs: str, **attrs: Any) -> str:
        name = f"{op.lower()}{len(self.nodes)}"
        self.nodes.append(helper.make_node(op, inputs, [name], **attrs))
        return name

    def shaped(self, x: str, *shape: int) -> str:
        return self.add("Reshape", x, self.const(np.array(shape, np.int64)))

    def dense(self, x: str, inner: int, outer: int) -> str:
        return self.add("Add", self.add("MatMul", x, self.random(inner, outer)), self.bias(outer))

    def bias(self, count: int) -> str:
        return self.const((self._rng.normal(size=count) * 0.1).astype(np.float32))

    def norm(self, x: str) -> str:
        ones = self.const(np.ones(WIDTH, np.float32))
        return self.add("LayerNormalization", x, ones, self.bias(WIDTH), axis=-1, epsilon=1e-5)

    def model(self, shape: tuple[int, ...], last: str, *sizes: int) -> onnx.ModelProto:
        ports = [("x", shape), (last, (1, *sizes))]
        kinds = [helper.make_tensor_value_info(n, TensorProto.FLOAT, s) for n, s in ports]
        graph = helper.make_graph(self.nodes, "net", kinds[:1], kinds[1:], self.weights)
        return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


def attention(net: Net, x: str, tokens: int) -> str:
    """As PyTorch's nn.Module of a vision transformer is exported: one layer for queries, keys and values."""
    return net.dense(heads(net, net.dense(x, WIDTH, 3 * WIDTH), tokens), WIDTH, WIDTH)


def heads(net: Net, x: str, tokens: int, causal: bool = False) -> str:
    """The context of each token, of x with queries, keys and values; causal: of those before it and itself."""
    joined = net.shaped(x, 1, tokens, 3, HEADS, DEPTH)
    moved = net.add("Transpose", joined, perm=[2, 0, 3, 1, 4])
    q, k, v = (net.add("Gather", moved, net.const(np.array(i, np.int64)), axis=0) for i in range(3))
    scores = net.add("MatMul", q, net.add("Transpose", k, perm=[0, 1, 3, 2]))
    scaled = net.add("Mul", scores, net.const(np.array(DEPTH**-0.5, np.float32)))
    if causal:
        scaled = net.add("Add", scaled, net.const(np.triu(np.full((tokens, tokens), -1e9, np.float32), 1)))
    context = net.add("MatMul", net.add("Softmax", scaled, axis=-1), v)
    return net.shaped(net.add("Transpose", context, perm=[0, 2, 1, 3]), 1, tokens, WIDTH)


def feed_forward(net: Net, x: str, act: str) -> str:
    inner = net.dense(x, WIDTH, 2 * WIDTH)
    if act == "Swish":
        inner = net.add("Mul", inner, net.add("Sigmoid", inner))
    else:
        erf = net.add("Erf", net.add("Div", inner, net.const(np.array(2**0.5, np.float32))))
        one, half = (net.const(np.array(number, np.float32)) for number in (1, 0.5))
        gate = net.add("Mul", net.add("Add", erf, one), half)
        inner = net.add("Mul", inner, gate)
    return net.dense(inner, 2 * WIDTH, WIDTH)


def vit() -> onnx.ModelProto:
    """An image of 32x32 in patches of 4x4."""
    net = Net()
    patches = net.add("Conv", "x", net.random(WIDTH, 3, 4, 4), net.bias(WIDTH), kernel_shape=[4, 4], strides=[4, 4])
    x = net.add("Transpose", net.shaped(patches, 1, WIDTH, 64), perm=[0, 2, 1])
    x = net.add("Add", x, net.const(np.random.default_rng(1).normal(size=(1, 64, WIDTH)).astype(np.float32)))
    for _ in range(2):
        x = net.add("Add", x, attention(net, net.norm(x), 64))
        x = net.add("Add", x, feed_forward(net, net.norm(x), "Gelu"))
    pooled = net.add("ReduceMean", net.norm(x), axes=[1], keepdims=0)
    return net.model((1, 3, 32, 32), net.dense(pooled, WIDTH, 10), 10)


def conformer() -> onnx.ModelProto:
    """49 frames of 40 bands; feed forward, attention, convolution, feed forward."""
    net = Net()
    x = net.dense("x", 40, WIDTH)
    for _ in range(2):
        x = net.add("Add", x, feed_forward(net, net.norm(x), "Swish"))
        x = net.add("Add", x, attention(net, net.norm(x), 49))
        line = net.add("Transpose", net.norm(x), perm=[0, 2, 1])
        wide = net.add("Conv", line, net.random(2 * WIDTH, WIDTH, 1), net.bias(2 * WIDTH), kernel_shape=[1])
        sizes = net.const(np.array([WIDTH, WIDTH], np.int64))
        left, right = f"left{len(net.nodes)}", f"right{len(net.nodes)}"
        net.nodes.append(helper.make_node("Split", [wide, sizes], [left, right], axis=1))
        gated = net.add("Mul", left, net.add("Sigmoid", right))
        deep = net.add(
            "Conv", gated, net.random(WIDTH, 1, 15), net.bias(WIDTH), kernel_shape=[15], pads=[7, 7], group=WIDTH
        )
        swish = net.add("Mul", deep, net.add("Sigmoid", deep))
        mixed = net.add("Conv", swish, net.random(WIDTH, WIDTH, 1), net.bias(WIDTH), kernel_shape=[1])
        x = net.add("Add", x, net.add("Transpose", mixed, perm=[0, 2, 1]))
        x = net.norm(net.add("Add", x, feed_forward(net, net.norm(x), "Swish")))
    pooled = net.add("ReduceMean", x, axes=[1], keepdims=0)
    return net.model((1, 49, 40), net.dense(pooled, WIDTH, 12), 12)


def layer() -> onnx.ModelProto:
    net = Net()
    return net.model((1, 64, 3 * WIDTH), heads(net, "x", 64), 64, WIDTH)


def causal() -> onnx.ModelProto:
    net = Net()
    return net.model((1, 64, 3 * WIDTH), heads(net, "x", 64, causal=True), 64, WIDTH)


# Steps of attention, by the operators that do it one after the other.
PARTS = ("attention", "batch_matmul", "choose", "softmax")
NETWORKS: dict[str, Callable[[], onnx.ModelProto]] = {
    "vit": vit,
    "conformer": conformer,
    "layer": layer,
    "causal": causal,
}


def report_of(path: Path, joined: bool, board: str = "cortex-m4") -> Report:
    """Of a build, proved; joined: with attention in one step."""
    options = Options(board, recipe=QUICK, prefer="time", samples=1)
    with tempfile.TemporaryDirectory() as out:
        if joined:
            report, _ = build(path, Path(out, "out"), options, Progress())
        else:
            with patch.object(integers, "join_attention", lambda graph, numerics: graph):
                report, _ = build(path, Path(out, "out"), options, Progress())
    assert isinstance(report, Report)
    assert report.passed
    return report


def row(name: str, report: Report) -> str:
    """Instructions of all and of attention alone, memory."""
    steps = [layer for layer in report.layers if any(part in layer.op for part in PARTS)]
    attention_alone = sum(layer.instructions or 0 for layer in steps)
    cells = (
        name,
        f"{report.instructions:,}",
        f"{attention_alone:,}",
        f"{report.arena_bytes:,}",
        f"{report.flash.code_bytes + report.flash.const_bytes:,}",
    )
    return f"| {' | '.join(cells)} |"


def main(names: list[str]) -> None:
    titles = ("Network", "Instructions", "of attention", "Arena, bytes", "Flash, bytes")
    print(f"| {' | '.join(titles)} |\n|---|{'--:|' * (len(titles) - 1)}")
    for name in names or NETWORKS:
        model = NETWORKS[name]()
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder, f"{name}.onnx")
            path.write_bytes(model.SerializeToString())
            shape = [d.dim_value for d in model.graph.input[0].type.tensor_type.shape.dim]
            samples = np.random.default_rng(3).normal(size=(16, *shape[1:])).astype(np.float32)
            np.savez(path.with_suffix(".calib.npz"), x=samples)
            print(row(name, report_of(path, joined=True)), flush=True)
            print(row(f"{name}, as in the file", report_of(path, joined=False)), flush=True)
            if name in ("layer", "causal"):
                plain = report_of(path, joined=False, board="cortex-m3")  # no DSP: the portable kernels
                print(row(f"{name}, as in the file, Cortex-M3", plain), flush=True)


if __name__ == "__main__":
    main(sys.argv[1:])
