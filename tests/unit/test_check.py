# SPDX-License-Identifier: Apache-2.0
"""ir/check.py: every rule refuses the graph that breaks it, and names the place."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from tinyc.base.errors import Loc, TinycError
from tinyc.ir.check import check
from tinyc.ir.graph import Graph, Node, Quant, Value, read_only
from tinyc.kernel.site import RELU
from tinyc.ops import all_ops
from tinyc.ops.add import Add
from tinyc.ops.clip import Clip
from tinyc.ops.fully_connected import FullyConnected

WHERE = Loc("m.onnx", 3, "fc", "Gemm")
Q = Quant((0.5,), (-3,))


def graph() -> Graph:
    """x [1,3] -> fully_connected -> h [1,2] -> clip -> y."""
    values = [
        Value("x", (1, 3), "s8", Q),
        Value("w", (2, 3), "s8", Quant((0.1, 0.2), (0, 0), 0)),
        Value("b", (2,), "s32", Quant((0.05, 0.1), (0, 0), 0)),
        Value("h", (1, 2), "s8", Q),
        Value("y", (1, 2), "s8", Q),
    ]
    consts = {"w": read_only(np.ones((2, 3), np.int8)), "b": read_only(np.ones(2, np.int32))}
    nodes = (
        Node("fc", "fully_connected", ("x", "w", "b"), ("h",), FullyConnected(), (WHERE,)),
        Node("act", "clip", ("h",), ("y",), Clip(RELU), (replace(WHERE, node=4),)),
    )
    return Graph("m", ("x",), ("y",), nodes, {v.name: v for v in values}, consts)


def with_value(name: str, /, **changes: Any) -> Graph:
    g = graph()
    return replace(g, values={**g.values, name: replace(g.values[name], **changes)})


def with_const(name: str, array: Any) -> Graph:
    g = graph()
    return replace(g, consts={**g.consts, name: array})


def with_node(index: int, **changes: Any) -> Graph:
    g = graph()
    nodes = list(g.nodes)
    nodes[index] = replace(nodes[index], **changes)
    return replace(g, nodes=tuple(nodes))


def test_a_good_graph_passes() -> None:
    check(graph(), "fold", all_ops())


BROKEN = {
    "order": (replace(graph(), nodes=graph().nodes[::-1]), "'h' is read before anything computes it"),
    "unknown input": (with_node(0, inputs=("x", "w", "c")), "'c' is read before"),
    "two producers": (with_node(1, outputs=("h",)), "'h' is made twice: by node 'fc' and by node 'act'"),
    "overwritten input": (with_node(1, outputs=("x",)), "'x' is made twice"),
    "overwritten constant": (with_node(1, outputs=("w",)), "'w' is made twice"),
    "no value": (with_node(1, outputs=("z",)), "'z' has no shape and type"),
    "orphan": (replace(graph(), values={**graph().values, "o": Value("o", (1,), "f32")}), "'o' is neither"),
    "misnamed": (with_value("h", name="g"), "'h' is recorded under the name 'g'"),
    "constant output": (replace(graph(), outputs=("w",)), "output 'w' is not computed"),
    "unknown output": (replace(graph(), outputs=("z",)), "output 'z' is not computed"),
    "two outputs": (replace(graph(), outputs=("y", "y")), "two outputs are called 'y'"),
    "two names": (with_node(1, name="fc"), "two nodes are called 'fc'"),
    "empty": (with_value("x", shape=(0, 3)), "every size must be 1 or more"),
    "no quantization": (with_value("h", quant=None), "'h' is s8 but has no scale and zero point"),
    "float scale": (with_value("h", dtype="f32"), "'h' is f32 and cannot have a scale"),
    "zero scale": (with_value("h", quant=Quant((0.0,), (0,))), "scale 0.0"),
    "nan scale": (with_value("h", quant=Quant((float("nan"),), (0,))), "scale nan"),
    "zero point": (with_value("h", quant=Quant((1.0,), (-129,))), "zero point -129, outside [-128, 127]"),
    "counts": (with_value("h", quant=Quant((1.0,), ())), "1 scales, 0 zero points"),
    "two scales": (with_value("h", quant=Quant((1.0, 1.0), (0, 0))), "2 scales where 1 belong"),
    "axis": (with_value("w", quant=Quant((1.0, 1.0), (0, 0), 2)), "axis 2, beyond its rank"),
    "axis length": (with_value("w", quant=Quant((1.0, 1.0), (0, 0), 1)), "2 scales where 3 belong"),
    "shape": (with_value("y", shape=(1, 3)), "'y' is declared s8 [1, 3], but clip gives s8 [1, 2]"),
    "dtype": (with_value("y", dtype="s16"), "'y' is declared s16 [1, 2], but clip gives s8 [1, 2]"),
    "const dtype": (with_const("b", read_only(np.ones(2, np.int64))), "constant 'b' is int64 [2], not s32 [2]"),
    "const shape": (with_const("w", read_only(np.ones((3, 2), np.int8))), "int8 [3, 2], not s8 [2, 3]"),
    "writable": (with_const("b", np.ones(2, np.int32)), "constant 'b' is not read-only"),
    "operator": (with_node(1, op="relu9"), "there is no operator 'relu9'"),
    "attributes": (with_node(1, attrs=Add()), "not Clip"),
    "outputs": (with_node(1, outputs=("y", "y2")), "'y2' has no shape and type"),
}


@pytest.mark.parametrize("what", BROKEN)
def test_a_broken_graph_is_refused(what: str) -> None:
    broken, message = BROKEN[what]
    with pytest.raises(TinycError) as caught:
        check(broken, "fold", all_ops())
    assert message in caught.value.message
    assert "after stage 'fold'" in caught.value.message


def test_the_node_is_named() -> None:
    with pytest.raises(TinycError) as caught:
        check(with_value("h", shape=(1, 5)), "fold", all_ops())
    assert caught.value.where == WHERE


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
def test_constants_are_finite(bad: float) -> None:
    value = Value("c", (2,), "f32")
    y = Value("y", (2,), "f32")
    node = Node("add", "add", ("x", "c"), ("y",), Add())
    values = {"x": Value("x", (2,), "f32"), "c": value, "y": y}
    for last, fine in ((1.0, True), (bad, False)):
        consts = {"c": read_only(np.array([0.0, last], np.float32))}
        g = Graph("m", ("x",), ("y",), (node,), values, consts)
        if fine:
            check(g, "load", all_ops())
        else:
            with pytest.raises(TinycError, match="NaN or infinity"):
                check(g, "load", all_ops())


def test_int4_range() -> None:
    w = Value("w", (2, 3), "s4", Quant((0.1, 0.2), (0, 0), 0))
    for top, fine in ((7, True), (8, False)):
        g = with_const("w", read_only(np.array([[-8, 0, 1], [2, 3, top]], np.int8)))
        g = replace(g, values={**g.values, "w": w})
        if fine:
            check(g, "load", all_ops())
        else:
            with pytest.raises(TinycError, match="leaves"):
                check(g, "load", all_ops())
