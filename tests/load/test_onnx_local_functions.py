# SPDX-License-Identifier: Apache-2.0
"""Functions that an ONNX file defines itself compute what ONNX Runtime makes of them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import onnx
import pytest
from onnx import AttributeProto, FunctionProto, NodeProto, helper

from tests.load.onnx_models import build, imported, load, op, ops_of, rand
from tinyc.base.errors import TinycError

_OPSETS = [helper.make_opsetid("", 17), helper.make_opsetid("my.modules", 1)]


def _function(
    name: str, inputs: str, output: str, nodes: list[NodeProto], attributes: tuple[str, ...] = ()
) -> FunctionProto:
    return helper.make_function("my.modules", name, inputs.split(), [output], nodes, _OPSETS, attributes)


def _call(name: str, inputs: str, output: str, **attributes: Any) -> NodeProto:
    return helper.make_node(name, inputs.split(), [output], name=output, domain="my.modules", **attributes)


def _model(nodes: list[NodeProto], functions: list[FunctionProto]) -> onnx.ModelProto:
    model = build(nodes, {"x": [3, 6]}, ["y"], {"w": rand(1, 6, 6), "v": rand(2, 6, 6)})
    model.opset_import.append(_OPSETS[1])
    model.functions.extend(functions)
    return model


def test_modules_that_hold_modules_are_called_twice(tmp_path: Path) -> None:
    """With a number of each call, tensors of one name in each, and a name that is an operator of the standard."""
    leaky = helper.make_node("LeakyRelu", ["a"], ["b"])
    leaky.attribute.append(AttributeProto(name="alpha", ref_attr_name="slope", type=AttributeProto.FLOAT))
    functions = [
        _function("Dense", "a w", "b", [op("MatMul", "a w", "m"), _call("Tanh", "m", "b")]),
        _function("Tanh", "a", "b", [op("Sigmoid", "a", "m"), op("Mul", "a m", "b")]),
        _function("Leaky", "a", "b", [leaky], ("slope",)),
    ]
    nodes = [_call("Dense", "x w", "h"), _call("Leaky", "h", "m", slope=0.3), _call("Dense", "m v", "y")]
    graph = imported(_model(nodes, functions), tmp_path)
    assert ops_of(graph) == ["fully_connected", "sigmoid", "mul", "leaky_relu", "fully_connected", "sigmoid", "mul"]


def test_functions_without_end_are_told(tmp_path: Path) -> None:
    itself = [_function("A", "a", "b", [_call("B", "a", "b")]), _function("B", "a", "b", [_call("A", "a", "b")])]
    with pytest.raises(TinycError, match="the function A of the model calls itself"):
        load(_model([_call("A", "x", "y")], itself), tmp_path)
    doubled = [_function("F0", "a", "b", [op("Tanh", "a", "b")])]
    for k in range(40):
        nodes = [_call(f"F{k}", "a", "m"), _call(f"F{k}", "m", "b")]
        doubled.append(_function(f"F{k + 1}", "a", "b", nodes))
    with pytest.raises(TinycError, match="more than 65536 nodes, with those of its functions"):
        load(_model([_call("F40", "x", "y")], doubled), tmp_path)
