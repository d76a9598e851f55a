# SPDX-License-Identifier: Apache-2.0
"""Where tensors are converted between layers in float32 and in integers: the same bytes, in fewer elements."""

from __future__ import annotations

import numpy as np
import pytest

from tinyc.base.numerics import Numerics
from tinyc.ir.graph import Graph, Node, Quant, Shape, Value
from tinyc.kernel.site import RELU, Pair
from tinyc.ops.max_pool2d import MaxPool2D
from tinyc.ops.reshape import Reshape
from tinyc.ops.resize_nearest import ResizeNearest
from tinyc.ops.sigmoid import Sigmoid
from tinyc.quantize import float_layers
from tinyc.quantize.float_layers import with_float_layers
from tinyc.reference.interpreter import run_int

IMAGE, HALF = (1, 8, 6, 4), (1, 4, 3, 4)
X, SHARES = Quant((0.05,), (3,)), Quant((1 / 256,), (-128,))
POOL = MaxPool2D(Pair(2, 2), Pair(2, 2))
TWICE = tuple(number // 2 for number in range(16))
Layer = tuple[str, object, Shape, Quant]


def chain(*layers: Layer) -> Graph:
    """Layers one after the other, each with its name, shape and quantization of what it makes."""
    values = {"x": Value("x", IMAGE, "s8", X)}
    nodes, last = [], "x"
    for name, attrs, shape, quant in layers:
        op = {MaxPool2D: "max_pool2d", Reshape: "reshape", Sigmoid: "sigmoid", ResizeNearest: "resize_nearest"}
        values[f"{name}_y"] = Value(f"{name}_y", shape, "s8", quant)
        nodes.append(Node(name, op[type(attrs)], (last,), (f"{name}_y",), attrs))
        last = f"{name}_y"
    return Graph("chain", ("x",), (last,), tuple(nodes), values, {})


def first(shape: Shape = IMAGE) -> Layer:
    return "first", Sigmoid(), shape, SHARES


def pool(shape: Shape = HALF, quant: Quant = SHARES, attrs: MaxPool2D = POOL) -> Layer:
    return "pool", attrs, shape, quant


def last(shape: Shape = HALF) -> Layer:
    return "last", Sigmoid(), shape, SHARES


CASES = {  # layers, those in float32, elements that are converted: as named, and now
    "pool behind floats": ((first(), pool(), last()), ["first"], [192, 192], [192, 48]),
    "a view and a pool": (
        (first(), ("view", Reshape((1, 6, 8, 4)), (1, 6, 8, 4), SHARES), pool((1, 3, 4, 4)), last((1, 3, 4, 4))),
        ["first"],
        [192, 192],
        [192, 48],
    ),
    "pool in front of floats": ((first(), pool(), last()), ["pool", "last"], [192], [48]),
    "views stay": (
        (first(), ("view", Reshape((1, 192)), (1, 192), SHARES), last((1, 192))),
        ["first"],
        [192, 192],
        [192, 192],
    ),
    "a pool with an activation": (
        (first(), pool(attrs=MaxPool2D(Pair(2, 2), Pair(2, 2), act=RELU)), last()),
        ["first"],
        [192, 192],
        [192, 192],
    ),
    "an enlarged image": (
        (first(), ("large", ResizeNearest(TWICE[:16], TWICE[:12]), (1, 16, 12, 4), SHARES), last((1, 16, 12, 4))),
        ["last"],
        [768],
        [192],
    ),
    "a pool that is an output": ((first(), pool()), ["first"], [192, 192], [192, 192]),
}


def converted(graph: Graph) -> list[int]:
    """Elements of each conversion, in order."""
    return [graph.values[n.outputs[0]].elements for n in graph.nodes if n.op in ("quantize", "dequantize")]


@pytest.mark.parametrize("case", CASES)
def test_conversions_are_few_and_change_nothing(case: str, monkeypatch: pytest.MonkeyPatch) -> None:
    layers, names, as_named, now = CASES[case]
    graph = chain(*layers)
    placed = with_float_layers(graph, None, names)
    monkeypatch.setattr(float_layers, "cheapest_sides", lambda _, named: named)
    plain = with_float_layers(graph, None, names)
    assert (converted(plain), converted(placed)) == (as_named, now)
    x = {"x": np.random.default_rng(1).integers(-128, 128, IMAGE).astype(np.int8)}
    (before,), (after,) = (run_int(one, x, Numerics.OURS).values() for one in (plain, placed))
    np.testing.assert_array_equal(after, before)
    assert after.dtype == before.dtype
