# SPDX-License-Identifier: Apache-2.0
"""Pooling layers for the tests of both pooling operators."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tests.ops.one_node import as_tflite, one_node, tensor
from tinyc.ir.graph import Graph, Shape
from tinyc.kernel.site import RELU6, Act, Padding, Pair

# x shape; kernel, stride, pad, dilation, act
POOLS: dict[str, tuple[Shape, dict[str, Any]]] = {
    "global": ((1, 7, 5, 9), {"kernel": Pair(7, 5)}),
    "2x2 stride 2": ((1, 7, 9, 3), {"kernel": Pair(2, 2), "stride": Pair(2, 2)}),
    "3x3 same": ((1, 5, 7, 8), {"kernel": Pair(3, 3), "pad": Padding(1, 1, 1, 1)}),
    "one pixel": ((1, 1, 1, 5), {"kernel": Pair(1, 1), "act": Act(-0.7, 0.4)}),
    "wide pads": ((1, 3, 1, 7), {"kernel": Pair(3, 2), "pad": Padding(2, 1, 2, 1), "act": RELU6}),
    "one row": ((1, 1, 9, 1), {"kernel": Pair(1, 4), "stride": Pair(1, 3), "pad": Padding(0, 3, 0, 2)}),
    "dilated": ((1, 9, 8, 3), {"kernel": Pair(3, 2), "pad": Padding(1, 0, 1, 1), "dilation": Pair(2, 3)}),
}


def graph_of(op: str, attrs: Callable[..., Any], name: str, scale: float = 0.1, zero: int = 7, **more: Any) -> Graph:
    """The one-node graph of a pool; input and output share scale and zero point."""
    shape, fields = POOLS[name]
    return one_node(op, attrs(**fields, **more), [tensor("x", shape, scale, zero)], scale, zero)


def tflite_of(graph: Graph, code: str) -> bytes:
    """The graph as a TFLite file: no padding, or (pad.bottom > 0) what SAME gives."""
    a = graph.nodes[0].attrs
    fields = {
        "Padding": 0 if a.pad.bottom else 1,
        "StrideH": a.stride.h,
        "StrideW": a.stride.w,
        "FilterHeight": a.kernel.h,
        "FilterWidth": a.kernel.w,
        "FusedActivationFunction": {"": 0, "relu": 1, "relu6": 3}[str(a.act)],
    }
    return as_tflite(graph, code, "Pool2DOptions", fields)
