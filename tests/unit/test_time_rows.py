# SPDX-License-Identifier: Apache-2.0
"""Time as rows: the same integers, of every operator that can be turned and around those that cannot."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from tests.fuzz.builds import check_on
from tests.unit.stream_cases import NUMERICS, in_integers
from tests.unit.test_stream_incremental import check_stream
from tinyc.base.errors import TinycError
from tinyc.board import load_board
from tinyc.ir.check import check
from tinyc.ir.graph import Graph
from tinyc.ops import all_ops
from tinyc.options.build import Options, Prefer
from tinyc.passes.time_rows import in_rows, time_as_rows, turned
from tinyc.pipeline.compiling import compile_model
from tinyc.pipeline.progress import Progress
from tinyc.pipeline.proving import prove
from tinyc.plan.rows import without_time_padding
from tinyc.quantize import UNPROVEN
from tinyc.reference.interpreter import run_int

MOMENTS, CHANNELS = 24, 6


class Series:
    """A random network over [1,C,T], as PyTorch writes them."""

    def __init__(self, seed: int) -> None:
        self.rng = np.random.default_rng(seed)
        self.nodes: list[onnx.NodeProto] = []
        self.consts: list[onnx.TensorProto] = []
        self.x, self.shape = "x", (1, CHANNELS, MOMENTS)

    def add(self, op: str, *inputs: str, shape: tuple[int, ...] | None = None, **attrs: object) -> None:
        name = f"t{len(self.nodes)}"
        self.nodes.append(helper.make_node(op, [self.x, *inputs], [name], name, **attrs))
        self.x, self.shape = name, shape or self.shape

    def const(self, array: np.ndarray) -> str:
        name = f"c{len(self.consts)}"
        self.consts.append(numpy_helper.from_array(array, name))
        return name

    def floats(self, *shape: int) -> str:
        return self.const((self.rng.standard_normal(shape) * 0.4).astype(np.float32))

    def conv(self, padded: bool = True) -> None:
        _, c, t = self.shape
        k, d, stride = int(self.rng.integers(1, 4)), int(self.rng.integers(1, 3)), int(self.rng.integers(1, 3))
        groups, out = (c, c) if self.rng.random() < 0.3 else (1, int(self.rng.choice([3, 4, 8])))
        pads = [int(n) for n in self.rng.integers(0, 3, 2)] if padded else [0, 0]
        moments = (t + sum(pads) - (k - 1) * d - 1) // stride + 1
        if moments > 2:
            attrs = {"pads": pads, "dilations": [d], "strides": [stride], "group": groups}
            self.add("Conv", self.floats(out, c // groups, k), self.floats(out), shape=(1, out, moments), **attrs)

    def deconv(self) -> None:
        _, c, t = self.shape
        if t < 40:
            weights = self.floats(c, 4, 4)
            self.add("ConvTranspose", weights, shape=(1, 4, 2 * t), strides=[2], pads=[1, 1])

    def pool(self) -> None:
        _, c, t = self.shape
        if t > 4:
            op = str(self.rng.choice(["MaxPool", "AveragePool"]))
            self.add(op, shape=(1, c, (t - 2) // 2 + 1), kernel_shape=[2], strides=[2])

    def act(self) -> None:
        self.add(str(self.rng.choice(["Relu", "Sigmoid", "Tanh", "HardSwish"])))

    def both(self) -> None:
        """With a constant of each channel, of each moment, of one number, or itself."""
        _, c, t = self.shape
        other = [self.floats(1, c, 1), self.floats(t), self.floats(1), self.x][self.rng.integers(4)]
        self.add(str(self.rng.choice(["Add", "Mul", "Sub"])), other)

    def concat(self) -> None:
        _, c, t = self.shape
        self.add(
            "Concat",
            self.x,
            **({"axis": 1, "shape": (1, 2 * c, t)} if t > 30 or c < 9 else {"axis": 2, "shape": (1, c, 2 * t)}),
        )

    def cut(self) -> None:
        _, c, t = self.shape
        if t > 5:
            bounds = [self.const(np.array([n])) for n in (1, t - 1, 2)]
            self.add("Slice", *bounds, shape=(1, c, t - 2))

    def pad(self) -> None:
        _, c, t = self.shape
        self.add("Pad", self.const(np.array([0, 0, 2, 0, 0, 1])), shape=(1, c, t + 3))

    def twice(self) -> None:
        _, c, t = self.shape
        if t < 40:
            self.add("Resize", "", self.const(np.array([1, 1, 2], np.float32)), shape=(1, c, 2 * t), mode="nearest")

    def softmax(self) -> None:
        """Along the channels, and along time, which is none of its forms by rows."""
        self.add("Softmax", axis=int(self.rng.choice([1, 2])))

    def turn(self) -> None:
        _, c, t = self.shape
        self.add("Transpose", perm=[0, 2, 1], shape=(1, t, c))

    def end(self) -> None:
        _, c, t = self.shape
        if self.rng.random() < 0.5:
            self.add("ReduceMean", self.const(np.array([2])), shape=(1, c), keepdims=0)
        else:
            self.add("Flatten", shape=(1, c * t))
        self.add("Gemm", self.floats(3, self.shape[1]), transB=1, shape=(1, 3))

    def model(self) -> onnx.ModelProto:
        x = helper.make_tensor_value_info("x", TensorProto.FLOAT, [1, CHANNELS, MOMENTS])
        y = helper.make_tensor_value_info(self.x, TensorProto.FLOAT, list(self.shape))
        graph = helper.make_graph(self.nodes, "series", [x], [y], self.consts)
        return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=8)


STEPS = ("conv", "conv", "act", "pool", "both", "concat", "cut", "pad", "twice", "softmax", "deconv", "turn")


def random_series(seed: int) -> onnx.ModelProto:
    net = Series(seed)
    net.conv()
    for step in net.rng.choice(STEPS, net.rng.integers(2, 7)):
        getattr(net, str(step))()
    if net.rng.random() < 0.7:
        net.end()
    return net.model()


def series(seed: int) -> Graph:
    return in_integers(random_series(seed), seed)


@pytest.mark.quick_cases(20)
@pytest.mark.parametrize("seed", range(60))
def test_the_integers_are_the_same(seed: int) -> None:
    graph = series(seed)
    rows = time_as_rows(graph)
    check(rows, "rows", all_ops())
    x = graph.inputs[0]
    sample = {x: np.random.default_rng(seed).integers(-128, 128, graph.values[x].shape).astype(np.int8)}
    reference, as_rows = run_int(graph, sample, NUMERICS), run_int(rows, sample, NUMERICS)
    assert rows.inputs == graph.inputs
    for name in graph.outputs:
        assert as_rows[name].shape == reference[name].shape
        np.testing.assert_array_equal(as_rows[name], reference[name])


ROWS = {
    "a window over rows": lambda net: net.add("Conv", net.floats(4, 4, 3, 3), shape=(1, 4, 1, 12), pads=[1, 1, 1, 1]),
    "rows of padding": lambda net: net.add("Pad", net.const(np.array([0, 0, 1, 0, 0, 0, 0, 2])), shape=(1, 4, 2, 14)),
    "rows side by side": lambda net: net.add("Concat", net.x, axis=2, shape=(1, 4, 2, 12)),
    "more rows by padding": lambda net: net.add("Conv", net.floats(4, 4, 1, 3), shape=(1, 4, 3, 12), pads=[1, 1, 1, 1]),
    "rows of a constant": lambda net: net.add("Mul", net.floats(1, 4, 3, 1), shape=(1, 4, 3, 12)),
    "the mean of columns": lambda net: net.add("ReduceMean", net.const(np.array([-1])), shape=(1, 4, 1, 1), keepdims=1),
    "the maximum of channels": lambda net: net.add(
        "ReduceMax", net.const(np.array([1])), shape=(1, 1, 1, 12), keepdims=1
    ),
}


@pytest.mark.parametrize("what", ROWS)
def test_images_of_one_row_that_get_more(what: str) -> None:
    net = Series(4)
    net.shape = (1, 4, 1, 12)
    net.add("Conv", net.floats(4, 4, 1, 3), pads=[0, 1, 0, 1])
    ROWS[what](net)
    net.add("Sigmoid")
    model = net.model()
    del model.graph.input[0].type.tensor_type.shape.dim[:]
    for size in (1, 4, 1, 12):
        model.graph.input[0].type.tensor_type.shape.dim.add().dim_value = size
    graph = in_integers(model, 4)
    rows = time_as_rows(graph)
    check(rows, "rows", all_ops())
    sample = {"x": np.random.default_rng(4).integers(-128, 128, graph.values["x"].shape).astype(np.int8)}
    for name, reference in run_int(graph, sample, NUMERICS).items():
        np.testing.assert_array_equal(run_int(rows, sample, NUMERICS)[name], reference)


def test_convolutions_are_turned() -> None:
    graph = series(0)
    convolved = [node.outputs[0] for node in time_as_rows(graph).nodes if node.op in ("conv2d", "depthwise_conv2d")]
    assert any(in_rows(graph.values[name].shape) for name in convolved)
    assert not any(in_rows(time_as_rows(graph).values[name].shape) for name in convolved)


def test_turning_twice_changes_nothing() -> None:
    for node in series(3).nodes:
        if hasattr(node.attrs, "pad") or hasattr(node.attrs, "axis"):
            assert turned(turned(node.attrs)) == node.attrs


def plain(seed: int) -> onnx.ModelProto:
    """Convolutions over time without padding, the average of all moments, a dense layer."""
    net = Series(seed)
    for stride in (1, 1):
        _, c, t = net.shape
        moments = (t - 3) // stride + 1
        net.add("Conv", net.floats(4, c, 3), net.floats(4), shape=(1, 4, moments), strides=[stride])
        net.add("Relu")
    net.add("ReduceMean", net.const(np.array([2])), shape=(1, 4), keepdims=0)
    net.add("Gemm", net.floats(3, 4), transB=1, shape=(1, 3))
    return net.model()


@pytest.mark.parametrize("hop", [1, 3])
def test_they_run_incrementally(hop: int, tmp_path: Path) -> None:
    graph = in_integers(plain(1), 1)
    with pytest.raises(TinycError, match="image with rows"):
        check_stream(graph, hop, tmp_path)
    check_stream(time_as_rows(graph), hop, tmp_path)


def test_they_lose_their_padding_in_time(tmp_path: Path) -> None:
    net = Series(5)
    net.add("Conv", net.floats(4, CHANNELS, 3), shape=(1, 4, MOMENTS), pads=[1, 1])
    net.add("ReduceMean", net.const(np.array([2])), shape=(1, 4), keepdims=0)
    graph = without_time_padding(time_as_rows(in_integers(net.model(), 5)))
    check(graph, "stream", all_ops())
    assert graph.values["x"].shape == (1, MOMENTS + 2, CHANNELS)
    check_stream(graph, 2, tmp_path)


@pytest.mark.parametrize(
    "options",
    [Options("cortex-m4", incremental=2, samples=3), Options("cortex-m4", input_rows=True, samples=3, prefer="ram")],
    ids=["incremental", "rows"],
)
def test_the_library_is_proved(options: Options, tmp_path: Path) -> None:
    """The input of the library is [T,C], as images have their channels last."""
    path = tmp_path / "series.onnx"
    onnx.save(plain(2), path)
    compiled = compile_model(path, load_board("cortex-m4"), options, Progress())
    assert compiled.program.input_perms == {"x": (0, 2, 1)}
    assert prove(compiled, load_board("cortex-m4"), options, Progress()).passed


@pytest.mark.quick_cases(1)
@pytest.mark.parametrize(("seed", "by_rows"), [(7, False), (13, False), (26, True)])
def test_on_a_cortex_m55(seed: int, by_rows: bool, tmp_path: Path) -> None:
    """Where the window of one column is dilated, and where gcc warned of a copy of three bytes."""
    onnx.save(random_series(seed), tmp_path / "series.onnx")
    options = Options("cortex-m55", prefer="ram" if by_rows else "time", input_rows=by_rows)
    assert check_on(seed, tmp_path / "series.onnx", load_board("cortex-m55"), options, tmp_path / "out") == "equal"


def as_images(model: onnx.ModelProto) -> onnx.ModelProto:
    """The same network over [1,C,T,1]: of convolutions, and what works element by element."""
    for value in (*model.graph.input, *model.graph.output):
        if len(value.type.tensor_type.shape.dim) == 3:
            value.type.tensor_type.shape.dim.add().dim_value = 1
    changed = {name for node in model.graph.node if node.op_type == "Conv" for name in node.input[1:2]}
    for const in model.graph.initializer:
        if const.name in changed:
            const.CopyFrom(numpy_helper.from_array(numpy_helper.to_array(const)[..., None], const.name))
    for node in model.graph.node:
        for attribute in node.attribute:
            ints = list(attribute.ints)
            if attribute.name in ("pads", "dilations", "strides"):
                one = {"pads": [ints[0], 0, ints[-1], 0]}.get(attribute.name, [*ints, 1])
                attribute.CopyFrom(helper.make_attribute(attribute.name, one))
    return model


def causal() -> onnx.ModelProto:
    """Residual blocks of dilated convolutions that see the past only."""
    net = Series(9)
    net.shape = (1, CHANNELS, 200)
    net.add("Conv", net.floats(12, CHANNELS, 1), shape=(1, 12, 200))
    for dilation in (1, 2, 4):
        before = net.x
        net.add("Conv", net.floats(12, 12, 3), shape=(1, 12, 200), pads=[2 * dilation, 0], dilations=[dilation])
        net.add("Relu")
        net.add("Add", before)
    net.add("Conv", net.floats(2, 12, 1), shape=(1, 2, 200))
    model = net.model()
    model.graph.input[0].type.tensor_type.shape.dim[2].dim_value = 200
    return model


@pytest.mark.quick_cases(2)
@pytest.mark.parametrize("board", ["cortex-m4", "cortex-m55"])
@pytest.mark.parametrize("prefer", ["balanced", "ram"])
def test_arenas_are_those_of_images(board: str, prefer: Prefer, tmp_path: Path) -> None:
    """Of the same network with time as rows in the file."""
    arenas = []
    for name, model in (("series", causal()), ("image", as_images(causal()))):
        onnx.save(model, tmp_path / f"{name}.onnx")
        options = Options(board, prefer=prefer, recipe=UNPROVEN)
        arenas.append(compile_model(tmp_path / f"{name}.onnx", load_board(board), options, Progress()).plan.arena_bytes)
    assert arenas[0] == arenas[1]
