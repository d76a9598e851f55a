# SPDX-License-Identifier: Apache-2.0
"""Sums, norms, normalizations, comparisons, repetitions, transposed convolutions: float graphs equal ONNX Runtime."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import pytest

from tests.load.onnx_models import build, load, one, op, rand, run_onnxruntime
from tests.load.test_onnx_moves import ints
from tinyc.base.errors import TinycError
from tinyc.passes import normalize
from tinyc.quantize import quantize_model
from tinyc.quantize.calibration import Calibration
from tinyc.reference.interpreter import run_float

IMAGE = [1, 6, 5, 7]
F = np.float32


def norm_of_torch() -> onnx.ModelProto:
    """torch.nn.functional.normalize."""
    return build(
        [
            op("ReduceL2", "x", "n", axes=[1], keepdims=1),
            op("Clip", "n least", "c"),
            op("Shape", "x", "s"),
            op("Expand", "c s", "e"),
            op("Div", "x e", "y"),
        ],
        {"x": [1, 9]},
        ["y"],
        {"least": F(1e-12)},
    )


def masked(kind: str) -> onnx.ModelProto:
    """Scores that a softmax must not see, behind Where or Add."""
    shown = np.tril(np.ones((5, 5))) > 0
    if kind == "where":
        nodes, constants = [op("Where", "shown x fill", "m")], {"shown": shown, "fill": F(-np.inf)}
    else:
        nodes, constants = [op("Add", "mask x", "m")], {"mask": np.where(shown, 0, -1e4).astype(F)}
    return build([*nodes, op("Softmax", "m", "y", axis=-1)], {"x": [1, 2, 5, 5]}, ["y"], constants)


def repeated() -> onnx.ModelProto:
    """As squeeze and excite of some exporters: the gate repeated before the product."""
    nodes = [
        op("GlobalAveragePool", "x", "p"),
        op("Shape", "x", "s"),
        op("Expand", "p s", "e"),
        op("Mul", "x e", "y"),
    ]
    return build(nodes, {"x": IMAGE}, ["y"])


MODELS: dict[str, onnx.ModelProto] = {
    "sum": one("ReduceSum", IMAGE, [ints(2, 3)], keepdims=0),
    "sum, opset 11": one("ReduceSum", IMAGE, opset=11, axes=[1]),
    "sum of nothing": one("ReduceSum", IMAGE, [ints()], noop_with_empty_axes=1),
    "sizes": one("ReduceL1", IMAGE, axes=[2, 3]),
    "norm": one("ReduceL2", IMAGE, axes=[1], keepdims=0),
    "squares": one("ReduceSumSquare", IMAGE, [ints(3)], 18),
    "log of sum": build([op("Abs", "x", "a"), op("ReduceLogSum", "a", "y", axes=[1])], {"x": IMAGE}, ["y"]),
    "log of exponentials": one("ReduceLogSumExp", IMAGE, axes=[1, 3], keepdims=0),
    "log_softmax": one("LogSoftmax", [3, 7], axis=1),
    "log_softmax of channels": one("LogSoftmax", IMAGE, axis=1),
    "log_softmax, opset 11": one("LogSoftmax", [2, 3, 5], opset=11, axis=1),
    "l2": one("LpNormalization", [3, 7]),
    "l2 of channels": one("LpNormalization", IMAGE, axis=1),
    "l1": one("LpNormalization", [3, 7], p=1),
    "batches of a constant": build(
        [op("BatchNormalization", "k a a a a", "t"), op("Add", "x t", "y")],
        {"x": [1, 3, 7]},
        ["y"],
        {"k": rand(1, 1, 3, 7), "a": np.float32([0.1, 0.5, 0.9])},
        opset=9,
    ),
    "l1 of a constant": build(
        [op("LpNormalization", "k", "t", p=1), op("Add", "x t", "y")], {"x": [3, 7]}, ["y"], {"k": rand(1, 3, 7)}
    ),
    "torch's l2": norm_of_torch(),
    "instance": one("InstanceNormalization", IMAGE, [rand(1, 6), rand(2, 6)]),
    "groups of 18": one("GroupNormalization", IMAGE, [rand(1, 3), rand(2, 3)], 18, num_groups=3),
    "groups of 21": one("GroupNormalization", IMAGE, [rand(1, 6), rand(2, 6)], 21, num_groups=2),
    "mean and variance": one("MeanVarianceNormalization", IMAGE),
    "mean of three": build([op("Neg", "x", "n"), op("Abs", "x", "a"), op("Mean", "x n a", "y")], {"x": IMAGE}, ["y"]),
    "max of three": build([op("Neg", "x", "n"), op("Max", "x n c", "y")], {"x": IMAGE}, ["y"], {"c": F(0.5)}),
    "einsum": build([op("Einsum", "x w", "y", equation="bchw,cd->bdhw")], {"x": IMAGE}, ["y"], {"w": rand(1, 6, 3)}),
    "einsum of attention": build(
        [op("Neg", "x", "k"), op("Einsum", "x k", "y", equation="bhid,bhjd->bihj")], {"x": IMAGE}, ["y"]
    ),
    "tile": one("Tile", [1, 3, 5], [ints(1, 2, 3)]),
    "tile of one": one("Tile", [1, 3, 1, 1], [ints(1, 1, 4, 5)]),
    "expand": one("Expand", [3, 1], [ints(2, 1, 7)]),
    "repeated for a product": repeated(),
    "gather, many": one("Gather", [1, 9, 3], [np.arange(100) * 7 % 9], axis=1),
    "gather by an index": build(
        [op("ArgMax", "x", "i", axis=2, keepdims=0), op("Gather", "t i", "y", axis=0)],
        {"x": [1, 3, 5]},
        ["y"],
        {"t": rand(1, 5, 4)},
    ),
    "cropping pads": one("Pad", IMAGE, [ints(0, 0, 1, -2, 0, 0, -1, 3), F(0.5)]),
    "floor": one("Floor", IMAGE),
    "sign": one("Sign", IMAGE),
    "thresholded": one("ThresholdedRelu", IMAGE, alpha=0.3),
    "where, constant": build(
        [op("Where", "c x k", "y")], {"x": [1, 6]}, ["y"], {"c": np.arange(6) > 2, "k": rand(1, 6)}
    ),
    "where, turned": build([op("Where", "c k x", "y")], {"x": [1, 6]}, ["y"], {"c": np.arange(6) > 2, "k": F(2)}),
    "where, nothing": build([op("Where", "c x k", "y")], {"x": [1, 6]}, ["y"], {"c": np.ones(6, bool), "k": F(2)}),
    "where, computed": build([op("Less", "x k", "c"), op("Where", "c k x", "y")], {"x": [1, 6]}, ["y"], {"k": F(0.25)}),
    "truth as numbers": build(
        [
            op("Less", "x k", "c"),
            op("Not", "c", "n"),
            op("Greater", "x j", "d"),
            op("Or", "c d", "e"),
            op("And", "e n", "f"),
            op("Cast", "f", "g", to=1),
            op("Mul", "g x", "y"),
        ],
        {"x": [1, 6]},
        ["y"],
        {"k": F(0.25), "j": F(-0.25)},
    ),
    "masked by where": masked("where"),
    "masked by a sum": masked("add"),
    "transposed over time": one(
        "ConvTranspose", [1, 4, 9], [rand(1, 4, 6, 4), rand(2, 6)], strides=[2], pads=[1, 1], output_padding=[1]
    ),
    "transposed in groups": one(
        "ConvTranspose", [1, 4, 5, 6], [rand(1, 4, 3, 3, 2), rand(2, 6)], group=2, strides=[2, 1]
    ),
    "transposed, same": one(
        "ConvTranspose", [1, 4, 5, 6], [rand(1, 4, 3, 3, 3)], strides=[2, 2], auto_pad="SAME_UPPER"
    ),
    "transposed to a shape": one(
        "ConvTranspose", [1, 4, 5, 6], [rand(1, 4, 3, 3, 3)], strides=[2, 2], output_shape=[10, 13]
    ),
    "weights over their norm": build(
        [op("ReduceL2", "v", "n", axes=[1, 2], keepdims=1), op("Div", "v n", "w"), op("Conv", "x w", "y")],
        {"x": [1, 4, 9]},
        ["y"],
        {"v": rand(1, 6, 4, 3)},
    ),
}
_WITHOUT = {"torch's l2": {"l2_normalize"}, "repeated for a product": {"mean", "mul"}}  # all that is left of them


@pytest.mark.parametrize("name", MODELS)
def test_equals_onnxruntime(tmp_path: Path, name: str) -> None:
    model = MODELS[name]
    graph = normalize(load(model, tmp_path))
    (info,) = model.graph.input
    x = rand(9, *(d.dim_value for d in info.type.tensor_type.shape.dim))
    expected = run_onnxruntime(model, {"x": x})
    np.testing.assert_allclose(run_float(graph, {"x": x})["y"], expected["y"], rtol=1e-4, atol=2e-4)
    if name in _WITHOUT:
        assert {node.op for node in graph.nodes} - {"transpose", "reshape"} == _WITHOUT[name]


@pytest.mark.parametrize("size", [1, 2, 4, 5])
def test_lrn_of_any_size_is_the_formula(tmp_path: Path, size: int) -> None:
    """ONNX Runtime takes odd sizes only; of an even one the channel more is behind."""
    model = one("LRN", IMAGE, size=size, alpha=0.5, beta=0.7, bias=1.5)
    x = rand(4, *IMAGE)
    around = [x[:, max(0, c - (size - 1) // 2) : c + size // 2 + 1] for c in range(IMAGE[1])]
    sums = np.stack([np.square(channels).sum(axis=1) for channels in around], axis=1)
    y = run_float(normalize(load(model, tmp_path)), {"x": x})["y"]
    np.testing.assert_allclose(y, x / (1.5 + 0.5 / size * sums) ** 0.7, rtol=1e-5)


@pytest.mark.parametrize("kind", ["where", "add"])
def test_a_mask_costs_the_scores_few_bits(tmp_path: Path, kind: str) -> None:
    """Minus infinity gets no place in the scale of the scores but a little below them."""
    graph = normalize(load(masked(kind), tmp_path))
    samples = np.random.default_rng(1).normal(0, 2, (20, 1, 2, 5, 5)).astype(F)
    integer = quantize_model(graph, Calibration({"x": samples}, "made here", proven=False))
    (chosen,) = (node for node in integer.nodes if node.op == "choose")
    quant = integer.values[chosen.outputs[0]].quant
    assert quant is not None
    assert quant.scale[0] * 255 < float(samples.max() - samples.min()) + 7


ERRORS = [
    (one("Tile", [1, 3], [ints(2)]), "repeated"),
    (one("Expand", [1, 3], [ints(1, 4)]), "expanded"),
    (one("ConvTranspose", [1, 4, 9], [rand(1, 4, 6, 4)], group=3), "groups"),
    (one("Cast", [1, 3], to=12), "cast"),
    (one("NonZero", [3]), "NonZero is not supported"),
    (one("Det", [1, 3, 3]), "Det is not supported"),
]


@pytest.mark.parametrize(("model", "words"), ERRORS)
def test_what_cannot_be_imported_is_said(tmp_path: Path, model: onnx.ModelProto, words: str) -> None:
    with pytest.raises(TinycError, match=words):
        load(model, tmp_path)
