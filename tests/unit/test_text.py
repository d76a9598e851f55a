# SPDX-License-Identifier: Apache-2.0
"""ir/text.py: the dump is complete, stable, and changes when the graph does."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from tinyc.base.errors import Loc
from tinyc.ir.graph import Graph, Node, Quant, Value, read_only
from tinyc.ir.text import text
from tinyc.kernel.site import RELU6, Padding, Pair
from tinyc.ops.conv2d import Conv2D

EXPECTED = """\
graph 'm'
input 'x': s8 [1,3,3,1] 0.5 * (q + 3)
const "it's": s8 [2,2,2,1] axis 0, 2 scales 0.1 to 0.25 (9cb9dd5d8caa); sha256 8a851ff82ee7
step 0: 'first' = conv2d('x', "it's", -) pad=(0, 0, 1, 1) act=relu6 -> 'y': s8 [1,3,3,2] 0.125 * (q - 7)
    from m.onnx: node 2 'conv' (Conv)
    from m.onnx: node 3 'relu' (Clip)
output 'y'
"""


def graph() -> Graph:
    values = [
        Value("x", (1, 3, 3, 1), "s8", Quant((0.5,), (-3,))),
        Value("it's", (2, 2, 2, 1), "s8", Quant((0.1, 0.25), (0, 0), 0)),
        Value("y", (1, 3, 3, 2), "s8", Quant((0.125,), (7,))),
    ]
    attrs = Conv2D(Pair(1, 1), Padding(0, 0, 1, 1), act=RELU6)
    origin = (Loc("m.onnx", 2, "conv", "Conv"), Loc("m.onnx", 3, "relu", "Clip"))
    node = Node("first", "conv2d", ("x", "it's", ""), ("y",), attrs, origin)
    consts = {"it's": read_only(np.arange(8, dtype=np.int8).reshape(2, 2, 2, 1))}
    return Graph("m", ("x",), ("y",), (node,), {v.name: v for v in values}, consts)


def test_text() -> None:
    assert text(graph()) == EXPECTED


def test_text_shows_every_change() -> None:
    g = graph()
    (node,) = g.nodes
    changed = [
        replace(g, consts={"it's": read_only(g.consts["it's"] + np.int8(1))}),
        replace(g, values={**g.values, "it's": replace(g.values["it's"], quant=Quant((0.1, 0.2), (0, 0), 0))}),
        replace(g, nodes=(replace(node, attrs=replace(node.attrs, stride=Pair(1, 2))),)),
        replace(g, nodes=(replace(node, inputs=("x", "it's")),)),
        replace(g, name="n"),
        replace(g, outputs=("x",)),
    ]
    assert len({text(one) for one in (g, *changed)}) == 1 + len(changed)
