# SPDX-License-Identifier: Apache-2.0
"""If with a condition that is known when the model is loaded: the branch takes its place."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest
from onnx import GraphProto, NodeProto, helper, numpy_helper

from tests.load.onnx_models import build, imported, load, op, ops_of, rand
from tinyc.base.errors import TinycError

SHAPE = [1, 4]


def branch(name: str, nodes: Sequence[NodeProto], outputs: Sequence[str], **constants: np.ndarray) -> GraphProto:
    held = [numpy_helper.from_array(array, constant) for constant, array in constants.items()]
    return helper.make_graph(nodes, name, [], [helper.make_empty_tensor_value_info(o) for o in outputs], held)


THEN = branch("then", [op("Add", "x k", "t")], ["t"], k=rand(1, 1, 4))
ELSE = branch("else", [op("Mul", "x h", "e")], ["e"])


def if_node(condition: str = "c", then: GraphProto = THEN, other: GraphProto = ELSE, outputs: str = "y") -> NodeProto:
    return helper.make_node("If", [condition], outputs.split(), then_branch=then, else_branch=other)


@pytest.mark.parametrize(("condition", "ops"), [(True, ["add"]), (False, ["mul"])])
def test_a_constant_condition(tmp_path: Path, condition: bool, ops: list[str]) -> None:
    """The branches read the input, an initializer of their own, and one of the model."""
    constants = {"c": np.array(condition), "h": rand(2, 1, 4)}
    graph = imported(build([if_node()], {"x": SHAPE}, ["y"], constants), tmp_path)
    assert ops_of(graph) == ops


def test_a_condition_that_follows_from_shapes(tmp_path: Path) -> None:
    nodes = [
        op("Neg", "x", "n"),
        op("Shape", "n", "s"),
        op("Gather", "s one", "size"),
        op("Equal", "size four", "c"),
        if_node(then=branch("then", [op("Add", "n k", "t")], ["t"], k=rand(1, 1, 4))),
        op("Relu", "y", "z"),
    ]
    constants = {"one": np.array(1), "four": np.array(4), "h": rand(2, 1, 4)}
    assert ops_of(imported(build(nodes, {"x": SHAPE}, ["z"], constants), tmp_path)).count("add") == 1


def test_branches_in_branches_and_several_outputs(tmp_path: Path) -> None:
    inner = if_node("d", outputs="deep")
    then = branch("outer", [inner, op("Neg", "x", "second")], ["deep", "second"], d=np.array(False))
    other = branch("none", [op("Identity", "x", "a"), op("Identity", "x", "b")], ["a", "b"])
    nodes = [if_node(then=then, other=other, outputs="y z")]
    imported(build(nodes, {"x": SHAPE}, ["y", "z"], {"c": np.array([True]), "h": rand(2, 1, 4)}), tmp_path)


def test_a_branch_that_is_a_constant(tmp_path: Path) -> None:
    then = branch("then", [op("Identity", "k", "t")], ["t"], k=rand(1, 1, 4))
    nodes = [if_node(then=then), op("Add", "x y", "z")]
    imported(build(nodes, {"x": SHAPE}, ["z"], {"c": np.array(True), "h": rand(2, 1, 4)}), tmp_path)


CONSTANTS = {"c": np.array(True), "h": rand(2, 1, 4)}
DEEP = branch("then", [op("Loop", "x", "t")], ["t"])
ERRORS = {
    "a condition of 1 elements of f32": build([if_node()], {"x": SHAPE, "c": [1]}, ["y"], {"h": rand(2, 1, 4)}),
    "attribute 'body' is missing": build([if_node(then=DEEP)], {"x": SHAPE}, ["y"], CONSTANTS),
    "made twice": build(
        [if_node(then=branch("then", [op("Neg", "x", "h")], ["h"]))], {"x": SHAPE}, ["y"], CONSTANTS
    ),
    "neither an input": build([if_node()], {"x": SHAPE}, ["y"], {"c": np.array(True)}),
    "outputs for 1": build(
        [if_node(then=branch("then", [op("Neg", "x", "t")], ["t", "t"]))], {"x": SHAPE}, ["y"], CONSTANTS
    ),
    "is missing": build([helper.make_node("If", ["c"], ["y"])], {"x": SHAPE}, ["y"], {"c": np.array(True)}),
}  # fmt: skip


@pytest.mark.parametrize("message", ERRORS)
def test_what_cannot_be_imported(tmp_path: Path, message: str) -> None:
    with pytest.raises(TinycError, match=message):
        load(ERRORS[message], tmp_path)
