# SPDX-License-Identifier: Apache-2.0
"""Largest elements, arithmetic of computed int32, computed places, truth along axes, and IF: beside LiteRT."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest

from tests.load.tflite_models import act, numbers
from tests.ops.one_node import random_s8
from tests.ops.runtimes import run_litert
from tests.ops.tflite_builder import Operator, Tensor, build_model
from tinyc import build as build_library
from tinyc.base.errors import TinycError
from tinyc.base.numerics import Numerics
from tinyc.export.tflite_file import Subgraph
from tinyc.ir.graph import Array
from tinyc.load import load_model
from tinyc.passes import normalize
from tinyc.reference.interpreter import run_int

NONE = {"FusedActivationFunction": 0}


def s32(name: str, *shape: int) -> Tensor:
    return Tensor(name, shape, "s32")


def truth(name: str, *shape: int, data: Array | None = None) -> Tensor:
    return Tensor(name, shape, "bool", data=data)


def assert_theirs(folder: Path, content: bytes, **inputs: Array) -> None:
    """All outputs are LiteRT's."""
    path = folder / "m.tflite"
    path.write_bytes(content)
    graph = normalize(load_model(path))
    ours = run_int(graph, {name: x[None] for name, x in inputs.items()}, Numerics.LITERT)
    theirs = run_litert(content, *inputs.values())
    for name, y in zip(graph.outputs, theirs, strict=True):
        np.testing.assert_array_equal(ours[name][0].reshape(y.shape), y)


@pytest.mark.parametrize("kind", ["s8", "f32", "s32"])
@pytest.mark.parametrize("shape", [(7,), (3, 5, 9)])
def test_the_best_elements_are_theirs(tmp_path: Path, kind: str, shape: tuple[int, ...]) -> None:
    few = np.random.default_rng(3).integers(-4, 5, shape)  # many equal ones
    x, values = (Tensor(n, s, kind) for n, s in (("x", shape), ("v", (*shape[:-1], 4))))
    if kind == "s8":
        x, values = act("x", *shape), act("v", *values.shape)
    tensors = [x, values, s32("i", *values.shape), Tensor("k", (), "s32", data=np.array(4, np.int32))]
    content = build_model(tensors, [Operator("TOPK_V2", ("x", "k"), ("v", "i"), "TopKV2Options")], ["x"], ["v", "i"])
    assert_theirs(tmp_path, content, x=few.astype({"s8": np.int8, "f32": np.float32, "s32": np.int32}[kind]))


@pytest.mark.parametrize("code", ["FLOOR_DIV", "FLOOR_MOD", "ADD", "SUB", "MUL"])
def test_arithmetic_of_computed_integers(tmp_path: Path, code: str) -> None:
    a, b = (np.array(v, np.int32) for v in ([7, -7, 7, -7, 0, 2**31 - 1, -(2**31) + 1], [2, 2, -2, -2, 5, 3, 3]))
    options = {"FLOOR_DIV": "FloorDivOptions", "FLOOR_MOD": "FloorModOptions"}.get(code, f"{code.title()}Options")
    operator = Operator(code, ("a", "b"), ("y",), options, {} if code.startswith("FLOOR") else NONE)
    tensors = [s32("a", 7), s32("b", 7), s32("y", 7)]
    if code in ("ADD", "MUL"):
        b = np.array([1, 2, 3, -4, 5, 0, 1], np.int32)
    assert_theirs(tmp_path, build_model(tensors, [operator], ["a", "b"], ["y"]), a=a, b=b)


def test_floor_div_of_floats(tmp_path: Path) -> None:
    a, b = (np.array(v, np.float32) for v in ([7, -7, 0.3, -5.5], [2, 2, 0.1, 1.25]))
    tensors = [Tensor(name, (4,), "f32") for name in "aby"]
    operator = Operator("FLOOR_DIV", ("a", "b"), ("y",), "FloorDivOptions")
    content = build_model(tensors, [operator], ["a", "b"], ["y"])
    path = tmp_path / "m.tflite"
    path.write_bytes(content)
    built = build_library(path, "host", out=tmp_path / "out", precision="float32", samples=1)
    assert built.report.verify.mismatches == 0
    assert_theirs(tmp_path, content, a=a, b=b)


def tail() -> bytes:
    """Where a map is largest, channel by channel, and what another map has there: the end of a pose network."""
    channels = np.arange(5, dtype=np.int32)
    tensors = [
        act("x", 1, 6, 8, 5), act("f", 6, 8, 5), numbers("two", [48, 5]), act("flat", 48, 5),
        Tensor("axis", (), "s32", data=np.array(0, np.int32)), s32("at", 5),
        Tensor("wide", (), "s32", data=np.array(8, np.int32)),
        s32("row", 5), s32("first", 5), s32("column", 5), Tensor("channel", (5,), "s32", data=channels),
        s32("place", 5, 3), act("y", 5),
    ]  # fmt: skip
    operators = [
        Operator("RESHAPE", ("x", "two"), ("flat",), "ReshapeOptions"),
        Operator("ARG_MAX", ("flat", "axis"), ("at",), "ArgMaxOptions", {"OutputType": 2}),
        Operator("FLOOR_DIV", ("at", "wide"), ("row",), "FloorDivOptions"),
        Operator("MUL", ("row", "wide"), ("first",), "MulOptions", NONE),
        Operator("SUB", ("at", "first"), ("column",), "SubOptions", NONE),
        Operator("PACK", ("row", "column", "channel"), ("place",), "PackOptions", {"Axis": 1, "ValuesCount": 3}),
        Operator("GATHER_ND", ("f", "place"), ("y",), "GatherNdOptions"),
    ]
    return build_model(tensors, operators, ["x", "f"], ["y", "row", "column"])


def test_the_end_of_a_pose_network(tmp_path: Path) -> None:
    inputs = {"x": random_s8(1, (1, 6, 8, 5)), "f": random_s8(2, (6, 8, 5))}
    assert_theirs(tmp_path, tail(), **inputs)
    path = tmp_path / "m.tflite"
    assert build_library(path, "host", out=tmp_path / "out", samples=2).report.verify.mismatches == 0


@pytest.mark.parametrize("places", [[[0, 2], [2, 0], [1, 1]], [[2], [0]], [[[1, 1, 3]], [[2, 0, 0]]]])
def test_constant_places(tmp_path: Path, places: Sequence[object]) -> None:
    at = np.array(places, np.int32)
    shape = (*at.shape[:-1], *(3, 4, 5)[at.shape[-1] :])
    tensors = [act("x", 3, 4, 5), Tensor("at", at.shape, "s32", data=at), act("y", *shape)]
    operator = Operator("GATHER_ND", ("x", "at"), ("y",), "GatherNdOptions")
    assert_theirs(tmp_path, build_model(tensors, [operator], ["x"], ["y"]), x=random_s8(4, (3, 4, 5)))


@pytest.mark.parametrize("code", ["REDUCE_ANY", "REDUCE_ALL"])
@pytest.mark.parametrize("axes", [[1], [0, 2], [-1]])
def test_truth_along_axes(tmp_path: Path, axes: Sequence[int], code: str) -> None:
    x, y = truth("x", 3, 7, 4), tuple(1 if k in {a % 3 for a in axes} else n for k, n in enumerate((3, 7, 4)))
    given = (np.random.default_rng(1).integers(0, 6, x.shape) == 0) ^ (code == "REDUCE_ALL")
    operator = Operator(code, ("x", "axes"), ("y",), "ReducerOptions", {"KeepDims": True})
    content = build_model([x, numbers("axes", list(axes)), truth("y", *y)], [operator], ["x"], ["y"])
    assert_theirs(tmp_path, content, x=given)


def branching(condition: Tensor) -> bytes:
    """y = x + x where the condition holds, else the negative part of x."""
    zero = Tensor("z", (4,), "s8", (0.05,), (-3,), data=np.full(4, -3, np.int8))
    doubled = Operator("ADD", ("a", "a"), ("b",), "AddOptions", NONE)
    negative = Operator("MINIMUM", ("a", "z"), ("b",), "MaximumMinimumOptions")
    sides = [
        Subgraph([act("a", 4), act("b", 4)], [doubled], ["a"], ["b"]),
        Subgraph([act("a", 4), zero, act("b", 4)], [negative], ["a"], ["b"]),
    ]
    operator = Operator("IF", ("c", "x"), ("y",), "IfOptions", {"ThenSubgraphIndex": 1, "ElseSubgraphIndex": 2})
    inputs = ["x"] if condition.data is not None else ["c", "x"]
    return build_model([condition, act("x", 4), act("y", 4)], [operator], inputs, ["y"], sides)


@pytest.mark.parametrize("holds", [False, True])
@pytest.mark.parametrize("is_constant", [False, True])
def test_branches(tmp_path: Path, holds: bool, is_constant: bool) -> None:
    x, c = np.array([-100, -3, 5, 90], np.int8), np.array([holds])
    content = branching(truth("c", 1, data=c if is_constant else None))
    given = {"x": x} if is_constant else {"c": c, "x": x}
    assert_theirs(tmp_path, content, **given)


def test_what_does_not_fit_is_refused(tmp_path: Path) -> None:
    operator = Operator("FLOOR_DIV", ("x", "x"), ("y",), "FloorDivOptions")
    path = tmp_path / "m.tflite"
    path.write_bytes(build_model([act("x", 4), act("y", 4)], [operator], ["x"], ["y"]))
    with pytest.raises(TinycError, match="FLOOR_DIV of int8"):
        load_model(path)
