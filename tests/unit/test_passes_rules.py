# SPDX-License-Identifier: Apache-2.0
"""Each rewriting rule: when it fires, what is left, and when it must not. `imported` asserts equality in float."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.load.onnx_models import build, imported, load, op, ops_of, rand
from tinyc.base.errors import TinycError
from tinyc.base.numerics import Numerics
from tinyc.ir.graph import Graph, Node, Quant, Value, read_only
from tinyc.kernel.site import RELU, Act, Padding, Pair
from tinyc.ops.binary import Binary
from tinyc.ops.clip import Clip
from tinyc.ops.div import Div
from tinyc.ops.max_pool2d import MaxPool2D
from tinyc.ops.pad import Pad
from tinyc.ops.squared_difference import SquaredDifference
from tinyc.passes import normalize
from tinyc.passes.cleanup import cleanup, moves_nothing
from tinyc.passes.fuse import combined
from tinyc.passes.rewrite import Rewrite, RewriteDraft, View, rewrite, rule
from tinyc.reference.interpreter import run_int

I64 = np.int64
CONV = {"w": rand(1, 4, 3, 3, 3), "b": rand(2, 4)}
IMAGE = {"x": [1, 3, 6, 5]}


def net(folder: Path, *nodes: Any, constants: dict[str, Any] | None = None, **more: Any) -> Graph:
    """The normalized graph of nodes that read x [1,3,6,5] and end in y."""
    return imported(
        build(nodes, more.get("inputs", IMAGE), more.get("outputs", ["y"]), {**CONV, **(constants or {})}), folder
    )


def inner(graph: Graph) -> list[str]:
    """The operators without those that the NCHW input and output ask for."""
    return [name for name in ops_of(graph) if name not in ("transpose", "reshape")]


# Softmax


@pytest.mark.parametrize(("factor", "left"), [(0.25, ["softmax"]), (-0.25, ["mul", "softmax"])])
def test_the_scale_of_scores_is_the_softmaxs_own(tmp_path: Path, factor: float, left: list[str]) -> None:
    nodes = (op("Mul", "x f", "m"), op("Softmax", "m", "y", axis=-1))
    graph = imported(build(nodes, {"x": [1, 6, 5]}, ["y"], {"f": np.array(factor, np.float32)}), tmp_path)
    assert ops_of(graph) == left


# Layout


def test_transposes_cancel_between_convolutions(tmp_path: Path) -> None:
    graph = net(
        tmp_path,
        op("Conv", "x w b", "c"),
        op("Relu", "c", "r"),
        op("Conv", "r v", "y"),
        constants={"v": rand(3, 2, 4, 1, 1)},
    )
    assert ops_of(graph) == ["transpose", "conv2d", "conv2d", "transpose"]


def test_nhwc_input_needs_no_transpose(tmp_path: Path) -> None:
    """tf2onnx: the input is NHWC and transposed in the model."""
    graph = net(
        tmp_path,
        op("Transpose", "x", "t", perm=[0, 3, 1, 2]),
        op("Conv", "t w b", "c"),
        op("GlobalAveragePool", "c", "g"),
        op("Flatten", "g", "y"),
        inputs={"x": [1, 6, 5, 3]},
    )
    assert ops_of(graph) == ["conv2d", "mean", "reshape"]


@pytest.mark.parametrize("name", ["Sigmoid", "Tanh", "LeakyRelu", "HardSwish"])
def test_transposes_pass_activations(tmp_path: Path, name: str) -> None:
    graph = net(
        tmp_path,
        op("Conv", "x w b", "c"),
        op(name, "c", "s"),
        op("Conv", "s v", "y"),
        constants={"v": rand(3, 2, 4, 1, 1)},
    )
    assert ops_of(graph).count("transpose") == 2


def test_transposes_pass_a_residual_from_the_input(tmp_path: Path) -> None:
    """The skip branch starts at the NCHW input: one transpose serves both branches."""
    graph = net(
        tmp_path,
        op("Conv", "x w1", "c", pads=[1, 1, 1, 1]),
        op("Add", "x c", "a"),
        op("GlobalMaxPool", "a", "y"),
        constants={"w1": rand(3, 3, 3, 3, 3)},
    )
    assert ops_of(graph) == ["transpose", "conv2d", "add", "max_pool2d", "reshape"]


def test_transposes_pass_concat_pad_and_mean(tmp_path: Path) -> None:
    graph = net(
        tmp_path,
        op("Conv", "x w b", "c"),
        op("Conv", "x w", "d"),
        op("Concat", "c k d", "cat", axis=1),
        op("Pad", "cat pads half", "p"),
        op("ReduceMean", "p", "y", axes=[3], keepdims=0),
        constants={
            "k": rand(4, 1, 1, 4, 3),
            "pads": np.array([0, 1, 2, 0, 0, 0, 0, 1], I64),
            "half": np.float32(0.5),
        },
    )
    assert ops_of(graph) == ["transpose", "conv2d", "conv2d", "concat", "pad", "mean", "transpose"]


def test_flatten_permutes_the_dense_weights(tmp_path: Path) -> None:
    graph = net(
        tmp_path,
        op("Conv", "x w b", "c"),
        op("Flatten", "c", "f"),
        op("Relu", "f", "r"),
        op("Gemm", "r g", "y", transB=1),
        constants={"g": rand(5, 7, 48)},
    )
    assert ops_of(graph) == ["transpose", "conv2d", "reshape", "fully_connected"]


def test_reshape_that_merges_height_and_width(tmp_path: Path) -> None:
    """[1,C,H,W] -> [1,C,H*W] -> [1,H*W,C], as sequence models do: all transposes go."""
    graph = net(
        tmp_path,
        op("Conv", "x w b", "c"),
        op("Reshape", "c s", "r"),
        op("Transpose", "r", "t", perm=[0, 2, 1]),
        op("MatMul", "t m", "y"),
        constants={"s": np.array([1, 4, 12], I64), "m": rand(5, 4, 3)},
    )
    assert ops_of(graph) == ["transpose", "conv2d", "reshape", "fully_connected"]


def test_one_dimensional_network(tmp_path: Path) -> None:
    graph = net(
        tmp_path,
        op("Conv", "x w1", "c"),
        op("Relu", "c", "r"),
        op("MaxPool", "r", "p", kernel_shape=[2], strides=[2]),
        op("Conv", "p w2", "d"),
        op("GlobalAveragePool", "d", "g"),
        op("Squeeze", "g", "y"),
        inputs={"x": [1, 3, 20]},
        constants={"w1": rand(3, 4, 3, 3), "w2": rand(4, 5, 4, 3)},
    )
    assert inner(graph) == ["conv2d", "max_pool2d", "conv2d", "mean"]
    assert ops_of(graph).count("transpose") == 1


def test_softmax_over_channels(tmp_path: Path) -> None:
    graph = net(tmp_path, op("Conv", "x w b", "c"), op("Softmax", "c", "y", axis=1))
    assert ops_of(graph) == ["transpose", "conv2d", "softmax", "transpose"]


def test_one_channel_is_a_view(tmp_path: Path) -> None:
    graph = net(
        tmp_path,
        op("Conv", "x w1", "c"),
        op("Add", "c k", "a"),
        op("Relu", "a", "y"),
        inputs={"x": [1, 1, 6, 5]},
        constants={"w1": rand(3, 1, 1, 3, 3), "k": rand(4, 1, 1, 1)},
    )
    assert ops_of(graph) == ["reshape", "conv2d", "reshape"]


def test_normalization_at_the_input_is_folded(tmp_path: Path) -> None:
    """(x - mean) / std before the first convolution, which pads nothing."""
    graph = net(
        tmp_path,
        op("Sub", "x mean", "s"),
        op("Div", "s std", "d"),
        op("Conv", "d w b", "y"),
        constants={"mean": rand(3, 3, 1, 1), "std": np.abs(rand(4, 3, 1, 1)) + 1},
    )
    assert inner(graph) == ["conv2d"]


def test_an_offset_before_padding_stays(tmp_path: Path) -> None:
    """Padding is zero after the offset, so the bias cannot take it; the factor can go."""
    graph = net(
        tmp_path,
        op("Mul", "x k", "m"),
        op("Add", "m k", "s"),
        op("Conv", "s w b", "y", pads=[1, 1, 1, 1]),
        constants={"k": rand(3, 3, 1, 1)},
    )
    assert inner(graph) == ["depthwise_conv2d", "conv2d"]


# Folding


def test_batch_norm_after_every_layer(tmp_path: Path) -> None:
    bn = {f"{k}{i}": (np.abs(rand(i, 4)) if k == "v" else rand(i + 7, 4)) for i in (1, 2, 3) for k in "gbmv"}
    graph = net(
        tmp_path,
        op("Conv", "x w b", "c"),
        op("BatchNormalization", "c g1 b1 m1 v1", "n1"),
        op("Relu", "n1", "r"),
        op("Conv", "r d", "e", group=4),
        op("BatchNormalization", "e g2 b2 m2 v2", "n2"),
        op("Flatten", "n2", "f"),
        op("Gemm", "f k", "q"),
        op("BatchNormalization", "q g3 b3 m3 v3", "y"),
        constants={**bn, "d": rand(5, 4, 1, 2, 2), "k": rand(6, 24, 4)},
    )
    assert inner(graph) == ["conv2d", "depthwise_conv2d", "fully_connected"]


def test_batch_norm_before_a_layer(tmp_path: Path) -> None:
    bn = {"g": rand(1, 3), "bb": rand(2, 3), "m": rand(3, 3), "v": np.abs(rand(4, 3))}
    graph = net(tmp_path, op("BatchNormalization", "x g bb m v", "n"), op("Conv", "n w b", "y"), constants=bn)
    assert inner(graph) == ["conv2d"]
    graph = net(
        tmp_path,
        op("BatchNormalization", "x g bb m v", "n"),
        op("Conv", "n u", "y", group=3),
        constants={**bn, "u": rand(5, 6, 1, 3, 3)},
    )
    assert inner(graph) == ["depthwise_conv2d"]


def test_factor_before_a_grouped_convolution(tmp_path: Path) -> None:
    graph = net(
        tmp_path,
        op("Mul", "x k", "m"),
        op("Conv", "m u", "y", group=2),
        inputs={"x": [1, 4, 6, 5]},
        constants={"k": rand(3, 4, 1, 1), "u": rand(5, 6, 2, 3, 3)},
    )
    assert inner(graph) == ["conv2d"]


def test_batch_norm_alone_becomes_depthwise(tmp_path: Path) -> None:
    """Before a relu there is nothing to fold into: one depthwise 1x1 convolution with bias and relu."""
    bn = {"g": rand(1, 3), "bb": rand(2, 3), "m": rand(3, 3), "v": np.abs(rand(4, 3))}
    graph = net(
        tmp_path,
        op("BatchNormalization", "x g bb m v", "n"),
        op("Relu", "n", "r"),
        op("Conv", "r w", "y"),
        constants=bn,
    )
    assert inner(graph) == ["depthwise_conv2d", "conv2d"]
    assert next(n for n in graph.nodes if n.op == "depthwise_conv2d").attrs.act == RELU


def test_a_layer_with_two_readers_is_not_scaled(tmp_path: Path) -> None:
    graph = net(
        tmp_path,
        op("Conv", "x w b", "c"),
        op("Mul", "c k", "m"),
        op("Add", "c m", "y"),
        constants={"k": rand(3, 1)},
    )
    assert inner(graph) == ["conv2d", "mul", "add"]


def test_factor_along_another_axis_stays(tmp_path: Path) -> None:
    graph = net(tmp_path, op("Conv", "x w b", "c"), op("Mul", "c k", "y"), constants={"k": rand(3, 1, 1, 1, 3)})
    assert inner(graph) == ["conv2d", "mul"]


@pytest.mark.parametrize("name", ["Add", "Mul"])
def test_constants_that_widen_the_result_stay(tmp_path: Path, name: str) -> None:
    """[1,1] + [1,4] has four elements: that is no bias."""
    graph = net(
        tmp_path,
        op("MatMul", "x m", "c"),
        op(name, "c k", "y"),
        inputs={"x": [1, 3]},
        constants={"m": rand(3, 3, 1), "k": rand(4, 1, 4)},
    )
    assert inner(graph) == ["fully_connected", name.lower()]


def test_padding_goes_into_the_convolution(tmp_path: Path) -> None:
    pads = {"pads": np.array([0, 0, 1, 2, 0, 0, 0, 1], I64)}
    graph = net(tmp_path, op("Pad", "x pads", "p"), op("Conv", "p w b", "y", pads=[1, 0, 0, 0]), constants=pads)
    assert inner(graph) == ["conv2d"]
    assert next(n for n in graph.nodes if n.op == "conv2d").attrs.pad == Padding(2, 2, 0, 1)


@pytest.mark.parametrize("pads", [[0, 1, 0, 0, 0, 0, 0, 0], [0, 0, 1, 1, 0, 0, 1, 1]])
def test_padding_that_must_stay(tmp_path: Path, pads: list[int]) -> None:
    """Padded channels, and padding with something else than zero."""
    constants = {
        "pads": np.array(pads, I64),
        "value": np.float32(0 if pads[1] else 1),
        "u": rand(3, 4, 3 + pads[1], 3, 3),
    }
    graph = net(tmp_path, op("Pad", "x pads value", "p"), op("Conv", "p u", "y"), constants=constants)
    assert inner(graph) == ["pad", "conv2d"]


def test_padding_before_pools(tmp_path: Path) -> None:
    """Max pooling may ignore zeros only beside values that are never negative; average pooling counts them."""
    pads = {"pads": np.array([0, 0, 1, 1, 0, 0, 1, 1], I64)}
    pool = op("MaxPool", "p", "y", kernel_shape=[3, 3])
    assert inner(net(tmp_path, op("Pad", "x pads", "p"), pool, constants=pads)) == ["pad", "max_pool2d"]
    graph = net(tmp_path, op("Conv", "x w", "c"), op("Relu", "c", "r"), op("Pad", "r pads", "p"), pool, constants=pads)
    assert inner(graph) == ["conv2d", "max_pool2d"]
    average = op("AveragePool", "p", "y", kernel_shape=[3, 3])
    graph = net(tmp_path, op("Pad", "x pads", "p"), average, constants=pads)
    assert inner(graph) == ["avg_pool2d"]
    assert next(n for n in graph.nodes if n.op == "avg_pool2d").attrs.count_pad


def test_average_pool_of_the_whole_image_is_a_mean(tmp_path: Path) -> None:
    graph = net(tmp_path, op("AveragePool", "x", "y", kernel_shape=[6, 5]))
    assert inner(graph) == ["mean"]


# Fusing


@pytest.mark.parametrize("before", ["Conv", "ConvTranspose", "Add", "Mul", "Sub", "MaxPool", "AveragePool"])
def test_activation_is_fused(tmp_path: Path, before: str) -> None:
    inputs = {"Conv": "x w", "ConvTranspose": "x u", "MaxPool": "x", "AveragePool": "x"}.get(before, "x z")
    attributes = {"kernel_shape": [2, 2]} if "Pool" in before else {}
    graph = net(
        tmp_path,
        op(before, inputs, "c", **attributes),
        op("Relu", "c", "r"),
        op("Clip", "r - six", "y"),
        inputs={"x": [1, 3, 6, 5], "z": [1, 3, 6, 5]} if inputs == "x z" else IMAGE,
        constants={"six": np.float32(1.5), "u": np.ones((3, 4, 2, 2), np.float32)},
    )
    (fused,) = [node for node in graph.nodes if node.op not in ("transpose", "reshape")]
    assert fused.attrs.act == Act(0.0, 1.5)


def test_activation_is_not_fused_if_the_sum_is_needed(tmp_path: Path) -> None:
    graph = net(tmp_path, op("Conv", "x w", "c"), op("Relu", "c", "r"), op("Add", "r c", "y"))
    assert inner(graph) == ["conv2d", "clip", "add"]


@pytest.mark.parametrize("first", [Act(0.0), Act(0.0, 6.0), Act(-1.0, 1.0), Act(hi=-2.0), Act(3.0, 5.0)])
@pytest.mark.parametrize("then", [Act(0.0), Act(-0.5, 0.5), Act(7.0, 8.0), Act(hi=-9.0), Act()])
def test_two_activations_in_one(first: Act, then: Act) -> None:
    x = np.linspace(-10, 10, 401, dtype=np.float32)
    np.testing.assert_array_equal(combined(first, then).clip(x), then.clip(first.clip(x)))


def integer_chain(second_scale: float) -> Graph:
    """max_pool2d, clip; the clip's output has the given scale."""
    first, second = Quant((0.05,), (-20,)), Quant((second_scale,), (-20,))
    values = {
        "x": Value("x", (1, 5, 5, 3), "s8", first),
        "p": Value("p", (1, 4, 4, 3), "s8", first),
        "y": Value("y", (1, 4, 4, 3), "s8", second),
    }
    nodes = (
        Node("p", "max_pool2d", ("x",), ("p",), MaxPool2D(Pair(2, 2), act=Act(hi=3.0))),
        Node("y", "clip", ("p",), ("y",), Clip(Act(-0.52, 4.0))),
    )
    return Graph("chain", ("x",), ("y",), nodes, values)


def test_integer_activation_is_fused_only_where_that_is_exact() -> None:
    x = np.random.default_rng(1).integers(-128, 128, (20, 5, 5, 3)).astype(np.int8)
    same, other = integer_chain(0.05), integer_chain(0.04)
    assert ops_of(normalize(same)) == ["max_pool2d"]
    assert ops_of(normalize(other)) == ["max_pool2d", "clip"]
    for graph in (same, other):
        expected = run_int(graph, {"x": x}, Numerics.TFLM)["y"]
        np.testing.assert_array_equal(run_int(normalize(graph), {"x": x}, Numerics.TFLM)["y"], expected)


@pytest.mark.parametrize("attrs", [Div(), SquaredDifference()], ids=["div", "squared_difference"])
def test_integer_activation_of_two_tensors_is_fused(attrs: Binary, request: pytest.FixtureRequest) -> None:
    name = request.node.callspec.id
    quant = {
        "x": Quant((0.05,), (-20,)),
        "z": Quant((0.04,), (3,)),
        "p": Quant((0.1,), (-7,)),
        "y": Quant((0.1,), (-7,)),
    }
    values = {one: Value(one, (1, 40), "s8", scale) for one, scale in quant.items()}
    nodes = (Node("p", name, ("x", "z"), ("p",), attrs), Node("y", "clip", ("p",), ("y",), Clip(Act(-0.52, 4.0))))
    graph = Graph("two", ("x", "z"), ("y",), nodes, values)
    assert ops_of(normalize(graph)) == [name]
    rng = np.random.default_rng(2)
    data = {one: rng.integers(-128, 128, (20, 40)).astype(np.int8) for one in ("x", "z")}
    for row in range(20):
        inputs = {one: array[row : row + 1] for one, array in data.items()}
        fused, expected = (run_int(one, inputs, Numerics.TFLM)["y"] for one in (normalize(graph), graph))
        np.testing.assert_array_equal(fused, expected)


@pytest.mark.parametrize(("value", "left"), [(0.0, ["max_pool2d"]), (-0.05, ["pad", "max_pool2d"])])
def test_integer_padding_before_max_pool(value: float, left: list[str]) -> None:
    """Exact with the zero point, beside values that a relu keeps at or above it."""
    q = Quant((0.05,), (-20,))
    shapes = {"x": (1, 5, 5, 3), "r": (1, 5, 5, 3), "p": (1, 7, 7, 3), "y": (1, 5, 5, 3)}
    nodes = (
        Node("r", "max_pool2d", ("x",), ("r",), MaxPool2D(Pair(1, 1), act=RELU)),
        Node("p", "pad", ("r",), ("p",), Pad((0, 1, 1, 0), (0, 1, 1, 0), value)),
        Node("y", "max_pool2d", ("p",), ("y",), MaxPool2D(Pair(3, 3))),
    )
    graph = Graph("pools", ("x",), ("y",), nodes, {n: Value(n, s, "s8", q) for n, s in shapes.items()})
    normal = normalize(graph)
    assert ops_of(normal)[1:] == left
    x = np.random.default_rng(1).integers(-128, 128, (20, 5, 5, 3)).astype(np.int8)
    expected = run_int(graph, {"x": x}, Numerics.TFLM)["y"]
    np.testing.assert_array_equal(run_int(normal, {"x": x}, Numerics.TFLM)["y"], expected)


# Cleaning up


def test_identities_go_but_output_names_stay(tmp_path: Path) -> None:
    graph = net(
        tmp_path,
        op("Identity", "x", "i"),
        op("Conv", "i w", "c"),
        op("Dropout", "c", "d"),
        op("Reshape", "d s", "r"),
        op("Reshape", "r s2", "y"),
        constants={"s": np.array([1, 48], I64), "s2": np.array([1, 4, 4, 3], I64)},
    )
    assert ops_of(graph) == ["transpose", "conv2d", "transpose"]
    assert graph.outputs == ("y",)


def test_an_input_handed_on_stays_a_node(tmp_path: Path) -> None:
    assert ops_of(net(tmp_path, op("Identity", "x", "y"))) == ["reshape"]


def test_two_outputs_of_one_value(tmp_path: Path) -> None:
    graph = net(tmp_path, op("Relu", "x", "y"), op("Identity", "y", "z"), outputs=["y", "z"])
    assert ops_of(graph) == ["clip", "reshape"]
    graph = net(tmp_path, op("Relu", "x", "r"), op("Identity", "r", "y"), op("Identity", "r", "z"), outputs=["y", "z"])
    assert ops_of(graph) == ["clip", "reshape"]


def test_repeated_nodes_and_constants_are_merged(tmp_path: Path) -> None:
    graph = net(
        tmp_path,
        op("Conv", "x w", "c"),
        op("Conv", "x w2", "d"),
        op("Add", "c d", "y"),
        constants={"w2": CONV["w"]},
    )
    assert ops_of(graph) == ["transpose", "conv2d", "add", "transpose"]
    assert len(graph.consts) == 1


def test_nodes_of_constants_are_computed(tmp_path: Path) -> None:
    """Also those that appear only after loading."""
    graph = net(tmp_path, op("Relu", "k", "r"), op("Add", "x r", "y"), constants={"k": rand(3, 1, 3, 6, 5)})
    assert ops_of(graph) == ["add"]


@pytest.mark.parametrize(
    ("shape", "perm", "nothing"),
    [
        ((1, 5, 7, 1), (0, 3, 1, 2), True),
        ((1, 1, 1, 9), (0, 3, 1, 2), True),
        ((1, 5, 7, 2), (0, 3, 1, 2), False),
        ((2, 3), (0, 1), True),
        ((2, 3), (1, 0), False),
        ((1, 1), (1, 0), True),
    ],
)
def test_moves_nothing(shape: tuple[int, ...], perm: tuple[int, ...], nothing: bool) -> None:
    array = np.arange(np.prod(shape)).reshape(shape)
    assert moves_nothing(shape, perm) == nothing == np.array_equal(array.transpose(perm).ravel(), array.ravel())


def test_a_normalized_graph_is_returned_as_it_is(tmp_path: Path) -> None:
    graph = net(tmp_path, op("Conv", "x w b", "c"), op("Relu", "c", "y"))
    assert normalize(graph) is graph


# The mechanism


@rule(Clip)
def swap(view: View, node: Node) -> Rewrite | None:
    """A rule that never comes to an end."""
    return RewriteDraft(view, node).finish(node.inputs, Clip(Act(-node.attrs.act.hi, -node.attrs.act.lo)))


def test_rules_that_undo_each_other_are_found(tmp_path: Path) -> None:
    graph = load(build([op("Relu", "x", "y")], {"x": [1, 3]}, ["y"]), tmp_path)
    with pytest.raises(RuntimeError, match="swap"):
        rewrite(graph, (swap,))


def test_unneeded_parts_are_dropped(tmp_path: Path) -> None:
    graph = load(build([op("Relu", "x", "y")], {"x": [1, 3], "spare": [1, 2]}, ["y"]), tmp_path)
    dead = Value("dead", (1, 3), "f32")
    extra = Node("dead", "clip", ("x",), ("dead",), Clip(RELU))
    constant = Value("c", (2,), "f32")
    full = replace(
        graph,
        nodes=(*graph.nodes, extra),
        values={**graph.values, "dead": dead, "c": constant},
        consts={"c": read_only(np.zeros(2, np.float32))},
    )
    clean = cleanup(full)
    assert set(clean.values) == {"x", "spare", "y"}
    assert not clean.consts
    assert clean.inputs == ("x", "spare")


def test_constants_that_a_pass_makes_infinite_are_refused_in_words(tmp_path: Path) -> None:
    """A resized constant is computed by a pass, not when the file is read: the check after it said no, as of a bug."""
    constants = {"c": np.array([[[[-1.0], [2.0]]]], np.float32), "sizes": np.array([1, 1, 2, 1], np.int64)}
    resize = op("Resize", "c sizes", "big")
    resize.input[:] = ["c", "", "", "sizes"]
    model = build([resize, op("Log", "big", "log"), op("Add", "x log", "y")], {"x": (1, 1, 2, 1)}, ["y"], constants)
    with pytest.raises(TinycError, match="computed from constants and holds NaN or infinity") as caught:
        normalize(load(model, tmp_path))
    assert caught.value.where is not None
