# SPDX-License-Identifier: Apache-2.0
"""The arena of networks that people run beside MLPerf Tiny's, layer by layer and row by row.

    python bench/streamed_networks.py                         # a table of all, each build proved byte for byte
    python bench/streamed_networks.py --network unet fomo     # some of them
    python bench/streamed_networks.py --write FOLDER          # the models alone, with calibration inputs beside them

The networks are built here, small, with random weights of fixed seeds, and quantized plainly: what a
plan takes depends on shapes alone.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from onnx import NodeProto, helper, numpy_helper

from tinyc.ir.graph import Array
from tinyc.options.build import Options, Prefer
from tinyc.pipeline.building import verify_model
from tinyc.pipeline.progress import Progress
from tinyc.quantize import UNPROVEN
from tinyc.verify.report import Report

PREFERENCES: tuple[Prefer, ...] = ("time", "balanced", "ram")
CALIBRATION, SAMPLES = 8, 2  # inputs to quantize with, and to compare


class Network:
    """An ONNX model under construction, NCHW as PyTorch exports it. `shapes`: of every tensor, without the batch."""

    def __init__(self, seed: int, *shape: int) -> None:
        self.rng = np.random.default_rng(seed)
        self.shapes: dict[str, tuple[int, ...]] = {"x": shape}
        self.nodes: list[NodeProto] = []
        self.constants: dict[str, Array] = {}

    def constant(self, array: Array) -> str:
        name = f"c{len(self.constants)}"
        self.constants[name] = array
        return name

    def add(self, op: str, inputs: Sequence[str], shape: tuple[int, ...], **attributes: Any) -> str:
        name = f"{op.lower()}_{len(self.nodes)}"
        self.nodes.append(helper.make_node(op, list(inputs), [name], name=name, **attributes))
        self.shapes[name] = shape
        return name

    def conv(self, x: str, out: int, k: int = 3, stride: int = 1, groups: int = 1, act: str = "Relu") -> str:
        """Padded so that stride 1 keeps the size. act: an operator of one input, `` for none."""
        c, h, w = self.shapes[x]
        weights = self.rng.standard_normal((out, c // groups, k, k)) * np.sqrt(2 / (k * k * (c // groups)))
        bias = 0.1 * self.rng.standard_normal(out)
        inputs = [x, self.constant(weights.astype(np.float32)), self.constant(bias.astype(np.float32))]
        shape = (out, -(-h // stride), -(-w // stride))
        attributes = {"pads": [k // 2] * 4, "strides": [stride] * 2, "group": groups}
        return self.activate(self.add("Conv", inputs, shape, **attributes), act)

    def depthwise(self, x: str, stride: int = 1, act: str = "Relu") -> str:
        return self.conv(x, self.shapes[x][0], 3, stride, self.shapes[x][0], act)

    def activate(self, x: str, act: str) -> str:
        if act == "Relu6":
            limits = [self.constant(np.array(limit, np.float32)) for limit in (0, 6)]
            return self.add("Clip", [x, *limits], self.shapes[x])
        return self.add(act, [x], self.shapes[x]) if act else x

    def max_pool(self, x: str, k: int = 2, stride: int = 2) -> str:
        c, h, w = self.shapes[x]
        pad = (k - 1) // 2
        size = [(n + 2 * pad - k) // stride + 1 for n in (h, w)]
        attributes = {"kernel_shape": [k, k], "strides": [stride] * 2, "pads": [pad] * 4}
        return self.add("MaxPool", [x], (c, *size), **attributes)

    def concat(self, *xs: str) -> str:
        return self.add("Concat", xs, (sum(self.shapes[x][0] for x in xs), *self.shapes[xs[0]][1:]), axis=1)

    def sum(self, a: str, b: str) -> str:
        return self.add("Add", [a, b], self.shapes[a])

    def pool(self, x: str) -> str:
        return self.add("GlobalAveragePool", [x], (self.shapes[x][0], 1, 1))

    def upsample(self, x: str, mode: str) -> str:
        c, h, w = self.shapes[x]
        scales = self.constant(np.array([1, 1, 2, 2], np.float32))
        how = {"mode": mode, "coordinate_transformation_mode": "asymmetric" if mode == "nearest" else "half_pixel"}
        more = {"nearest_mode": "floor"} if mode == "nearest" else {}
        return self.add("Resize", [x, "", scales], (c, 2 * h, 2 * w), **how, **more)

    def transposed(self, x: str, out: int, k: int = 2) -> str:
        c, h, w = self.shapes[x]
        weights = self.rng.standard_normal((c, out, k, k)) * np.sqrt(2 / (k * k * c))
        pad = (k - 2) // 2
        attributes = {"strides": [2, 2], "pads": [pad, pad, k - 2 - pad, k - 2 - pad]}
        return self.add(
            "ConvTranspose", [x, self.constant(weights.astype(np.float32))], (out, 2 * h, 2 * w), **attributes
        )

    def classify(self, x: str, classes: int) -> str:
        flat = self.add("Flatten", [self.pool(x)], self.shapes[x][:1])
        c = self.shapes[flat][0]
        weights = (self.rng.standard_normal((classes, c)) / np.sqrt(c)).astype(np.float32)
        bias = np.zeros(classes, np.float32)
        return self.add("Gemm", [flat, self.constant(weights), self.constant(bias)], (classes,), transB=1)

    def model(self, y: str) -> onnx.ModelProto:
        graph = helper.make_graph(
            self.nodes,
            "network",
            [helper.make_tensor_value_info("x", onnx.TensorProto.FLOAT, [1, *self.shapes["x"]])],
            [helper.make_tensor_value_info(y, onnx.TensorProto.FLOAT, [1, *self.shapes[y]])],
            [numpy_helper.from_array(array, name) for name, array in self.constants.items()],
        )
        return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


def inverted(net: Network, x: str, out: int, expand: int, stride: int = 1) -> str:
    """MobileNetV2's block: wide, depthwise, narrow, and the sum with what went in."""
    y = net.conv(x, net.shapes[x][0] * expand, 1, act="Relu6") if expand > 1 else x
    y = net.conv(net.depthwise(y, stride, "Relu6"), out, 1, act="")
    return net.sum(x, y) if net.shapes[y] == net.shapes[x] else y


def mobilenet_v2() -> onnx.ModelProto:
    """Inverted residuals on a color image of 64x64."""
    net = Network(1, 3, 64, 64)
    x = net.conv("x", 16, 3, 2, act="Relu6")
    for out, expand, stride in ((8, 1, 1), (12, 6, 2), (12, 6, 1), (16, 6, 2), (16, 6, 1), (32, 6, 2), (32, 6, 1)):
        x = inverted(net, x, out, expand, stride)
    return net.model(net.classify(net.conv(x, 64, 1, act="Relu6"), 10))


def fomo() -> onnx.ModelProto:
    """A grid of object classes on MobileNetV2's first blocks: softmax over the channels of each cell."""
    net = Network(2, 1, 64, 64)
    x = net.conv("x", 16, 3, 2, act="Relu6")
    for out, expand, stride in ((8, 1, 1), (8, 6, 2), (8, 6, 1), (16, 6, 2), (16, 6, 1)):
        x = inverted(net, x, out, expand, stride)
    y = net.conv(net.conv(x, 32, 1), 3, 1, act="")
    return net.model(net.add("Softmax", [y], net.shapes[y], axis=1))


def squeezenet() -> onnx.ModelProto:
    """Fire modules: a narrow layer, then 1x1 and 3x3 side by side, their channels joined."""
    net = Network(3, 3, 48, 48)
    x = net.max_pool(net.conv("x", 16, 3, 2), 3, 2)
    for number, (narrow, wide) in enumerate(((8, 16), (8, 16), (12, 24), (12, 24))):
        if number == 2:
            x = net.max_pool(x, 3, 2)
        squeezed = net.conv(x, narrow, 1)
        x = net.concat(net.conv(squeezed, wide, 1), net.conv(squeezed, wide, 3))
    return net.model(net.pool(net.conv(x, 10, 1)))


def _unet(seed: int, up: Callable[[Network, str, int], str]) -> onnx.ModelProto:
    net = Network(seed, 1, 48, 48)
    x, skips = "x", []
    for out in (8, 16):
        x = net.conv(net.conv(x, out), out)
        skips.append(x)
        x = net.max_pool(x)
    x = net.conv(net.conv(x, 32), 32)
    for out in (16, 8):
        x = net.concat(up(net, x, out), skips.pop())
        x = net.conv(net.conv(x, out), out)
    return net.model(net.activate(net.conv(x, 1, 1, act=""), "Sigmoid"))


def unet() -> onnx.ModelProto:
    """Two levels down and up: nearest and bilinear upsampling, joined with the maps of the way down."""
    return _unet(4, lambda net, x, out: net.upsample(x, "nearest" if out == 16 else "linear"))


def unet_transposed() -> onnx.ModelProto:
    """The same with transposed convolutions."""
    return _unet(5, lambda net, x, out: net.transposed(x, out, 2 if out == 16 else 4))


def inception() -> onnx.ModelProto:
    """Two blocks of four branches: 1x1, 3x3, 5x5, and pooling."""
    net = Network(6, 3, 48, 48)
    x = net.max_pool(net.conv("x", 16, 3, 2))
    for a, b, c, d in ((8, 12, 4, 8), (12, 16, 8, 8)):
        wide = net.conv(net.conv(x, b // 2, 1), b, 3)
        wider = net.conv(net.conv(x, c // 2, 1), c, 5)
        x = net.concat(net.conv(x, a, 1), wide, wider, net.conv(net.max_pool(x, 3, 1), d, 1))
    return net.model(net.classify(x, 10))


def _shuffle(net: Network, x: str) -> str:
    c, h, w = net.shapes[x]
    split = net.constant(np.array([1, 2, c // 2, h, w], np.int64))
    y = net.add("Reshape", [x, split], (2, c // 2, h, w))
    y = net.add("Transpose", [y], (c // 2, 2, h, w), perm=[0, 2, 1, 3, 4])
    return net.add("Reshape", [y, net.constant(np.array([1, c, h, w], np.int64))], (c, h, w))


def shufflenet() -> onnx.ModelProto:
    """ShuffleNetV2's unit: half of the channels go around, then all are shuffled."""
    net = Network(7, 3, 48, 48)
    x = net.conv("x", 24, 3, 2)
    for number in range(4):
        c, h, w = net.shapes[x]
        if number == 2:
            x = net.max_pool(x)
            h, w = h // 2, w // 2
        parts = [f"half_{number}_{k}" for k in (0, 1)]
        sizes = net.constant(np.array([c // 2, c // 2], np.int64))
        net.nodes.append(helper.make_node("Split", [x, sizes], parts, name=f"split_{number}", axis=1))
        net.shapes |= dict.fromkeys(parts, (c // 2, h, w))
        y = net.conv(net.depthwise(net.conv(parts[1], c // 2, 1), act=""), c // 2, 1)
        x = _shuffle(net, net.concat(parts[0], y))
    return net.model(net.classify(x, 10))


def densenet() -> onnx.ModelProto:
    """Every layer reads all before it: a concat after each."""
    net = Network(8, 3, 48, 48)
    x = net.conv("x", 16, 3, 2)
    for block in range(2):
        for _ in range(4):
            x = net.concat(x, net.conv(net.conv(x, 16, 1), 8, 3))
        if block == 0:
            x = net.max_pool(net.conv(x, net.shapes[x][0] // 2, 1))
    return net.model(net.classify(x, 10))


def _over_time(net: Network, x: str, out: int, k: int, dilation: int = 1, causal: bool = False) -> str:
    """A one-dimensional convolution that keeps the moments, and a ReLU."""
    weights = net.rng.standard_normal((out, net.shapes[x][0], k)) * np.sqrt(2 / (k * net.shapes[x][0]))
    bias = (0.1 * net.rng.standard_normal(out)).astype(np.float32)
    inputs = [x, net.constant(weights.astype(np.float32)), net.constant(bias)]
    before = (k - 1) * dilation if causal else (k - 1) * dilation // 2
    attributes = {"pads": [before, (k - 1) * dilation - before], "dilations": [dilation]}
    return net.activate(net.add("Conv", inputs, (out, net.shapes[x][1]), **attributes), "Relu")


def tcn() -> onnx.ModelProto:
    """Dilated causal convolutions over time, in residual blocks; 1-D."""
    net = Network(9, 16, 128)
    x = _over_time(net, "x", 24, 1)
    for dilation in (1, 2, 4, 8):
        inner = _over_time(net, x, 24, 3, dilation, causal=True)
        x = net.sum(x, _over_time(net, inner, 24, 3, dilation, causal=True))
    x = net.add("GlobalAveragePool", [x], (24, 1))
    x = net.add("Flatten", [x], (24,))
    weights = (net.rng.standard_normal((6, 24)) / 5).astype(np.float32)
    return net.model(net.add("Gemm", [x, net.constant(weights)], (6,), transB=1))


def unet_1d() -> onnx.ModelProto:
    """Two levels down and up over time, of an electrocardiogram: a class for each moment."""
    net = Network(11, 2, 512)
    skips, x = [], "x"
    for out in (8, 16):
        x = _over_time(net, x, out, 5)
        skips.append(x)
        c, t = net.shapes[x]
        x = net.add("MaxPool", [x], (c, t // 2), kernel_shape=[2], strides=[2])
    x = _over_time(net, x, 24, 5)
    for skip in reversed(skips):
        c, t = net.shapes[x]
        scales = net.constant(np.array([1, 1, 2], np.float32))
        how = {"mode": "nearest", "coordinate_transformation_mode": "asymmetric", "nearest_mode": "floor"}
        wide = net.add("Resize", [x, "", scales], (c, 2 * t), **how)
        x = _over_time(net, net.concat(wide, skip), net.shapes[skip][0], 5)
    return net.model(_over_time(net, x, 3, 1))


def mobilenet_v3() -> onnx.ModelProto:
    """Inverted residuals with hard swish, two of them with squeeze and excitation."""
    net = Network(10, 3, 64, 64)
    x = net.conv("x", 16, 3, 2, act="HardSwish")
    for out, wide, stride, excite in ((8, 16, 2, True), (12, 40, 2, False), (12, 48, 1, False), (16, 48, 2, True)):
        y = net.conv(x, wide, 1, act="HardSwish")
        y = net.depthwise(y, stride, "HardSwish")
        if excite:
            gate = net.conv(net.conv(net.pool(y), wide // 4, 1), wide, 1, act="HardSigmoid")
            y = net.add("Mul", [y, gate], net.shapes[y])
        y = net.conv(y, out, 1, act="")
        x = net.sum(x, y) if net.shapes[x] == net.shapes[y] else y
    return net.model(net.classify(net.conv(x, 48, 1, act="HardSwish"), 10))


NETWORKS: Mapping[str, Callable[[], onnx.ModelProto]] = {
    build_network.__name__: build_network
    for build_network in (
        *(mobilenet_v2, mobilenet_v3, fomo, squeezenet, inception, densenet, shufflenet),
        *(unet, unet_transposed, tcn, unet_1d),
    )
}


def write(name: str, folder: Path) -> Path:
    """The model's file, with random calibration inputs beside it."""
    model, path = NETWORKS[name](), folder / f"{name}.onnx"
    onnx.save(model, path)
    shape = [d.dim_value for d in model.graph.input[0].type.tensor_type.shape.dim[1:]]
    data = np.random.default_rng(0).standard_normal((CALIBRATION, *shape)).astype(np.float32)
    np.savez(folder / f"{name}.calib.npz", x=data)
    return path


def measure(path: Path, board: str, prefer: Prefer) -> Report:
    """The report of a build that was proved. RuntimeError where bytes differ."""
    options = Options(board=board, prefer=prefer, samples=SAMPLES, recipe=UNPROVEN)
    report = verify_model(path, options, Progress())
    if not report.passed:
        raise RuntimeError(f"{path.stem}: output differs from the reference")
    return report


def row(name: str, reports: Sequence[Report]) -> str:
    """A line of the table."""
    cells = []
    for own in reports:
        executed = "-" if own.instructions is None else f"{own.instructions / 1e6:.2f} M"
        cells.append(f"{own.arena_bytes:,} B, {own.flash.code_bytes + own.flash.const_bytes:,} B, {executed}")
    steps = sum(group.last - group.first + 1 for group in reports[-1].groups)
    return f"| {name} | {' | '.join(cells)} | {steps} of {len(reports[-1].layers)} |"


def main() -> int:
    """Print the table, or write the models."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--board", default="cortex-m4")
    parser.add_argument("--network", nargs="+", choices=NETWORKS, default=list(NETWORKS))
    parser.add_argument("--write", type=Path, metavar="FOLDER", help="write the models there, and stop")
    args = parser.parse_args()
    if args.write is not None:
        args.write.mkdir(parents=True, exist_ok=True)
        for name in args.network:
            print(write(name, args.write))
        return 0
    print(f"| network | {' | '.join(f'`--prefer {prefer}`' for prefer in PREFERENCES)} | steps row by row |")
    print(f"|---|{'---:|' * (len(PREFERENCES) + 1)}")
    with tempfile.TemporaryDirectory() as folder:
        for name in args.network:
            path = write(name, Path(folder))
            print(row(name, [measure(path, args.board, prefer) for prefer in PREFERENCES]), flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
