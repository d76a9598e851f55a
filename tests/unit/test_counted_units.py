# SPDX-License-Identifier: Apache-2.0
"""Units that costs may ask for: of every kernel those that its functions of units can name, whatever the model."""

from __future__ import annotations

import ast
import inspect
import sys
from collections.abc import Callable, Iterator, Mapping
from functools import cache, partial
from pathlib import Path
from types import FunctionType, MappingProxyType
from typing import Any

import pytest

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "bench"))

from counted import counted_costs  # noqa: E402

from tests.ops.forests import forest, grown_forest  # noqa: E402
from tinyc.base.numerics import Numerics  # noqa: E402
from tinyc.board.board import list_boards  # noqa: E402
from tinyc.choose.select import candidates  # noqa: E402
from tinyc.ir.graph import Graph  # noqa: E402
from tinyc.kernel.counted import CALL, CODE, SIZE, counts  # noqa: E402
from tinyc.ops import all_ops  # noqa: E402
from tinyc.ops.integer_binary import KINDS  # noqa: E402
from tinyc.ops.integer_map import STEPS  # noqa: E402

RETURNS = ("Units", "Mapping[str, int]", "dict[str, int]")
# Keys that are computed, and what they may be.
COMPUTED: Mapping[str, frozenset[str]] = MappingProxyType({"p.kind": frozenset(KINDS)})
# What a part names that the kernel leaves out of it: branches take a vote for a row of one column; bits have no codes.
LEFT_OUT: Mapping[str, frozenset[str]] = MappingProxyType(
    {
        "tc_tree_branches_bits": frozenset({"vote", "halving"}),
        **{f"tc_tree_branches_{codes}": frozenset({"vote"}) for codes in ("u8", "s16", "s32")},
    }
)


def units_named_by(function: Callable[..., Any], seen: set[object] | None = None) -> frozenset[str]:
    """The keys of all dicts that a function of units writes, and of those that it calls for more of them."""
    seen = set() if seen is None else seen
    while isinstance(function, partial):
        function = function.func
    if not isinstance(function, FunctionType) or function in seen:
        return frozenset()
    seen.add(function)
    tree = _written(function)
    scope = {**function.__globals__, **inspect.getclosurevars(function).nonlocals}
    own = {key for node in ast.walk(tree) if isinstance(node, ast.Dict) for key in _keys(node)}
    own |= {key for node in ast.walk(tree) for key in _stored(node)}
    return frozenset(own).union(*(units_named_by(other, seen) for other in _functions(tree, scope)))


def _written(function: FunctionType) -> ast.AST:
    """The function or lambda as its file has it."""
    name, first = function.__name__, function.__code__.co_firstlineno
    (own,) = [
        node
        for node in _functions_of(Path(inspect.getfile(function)))
        if first == min(_lines(node)) and (node.name if isinstance(node, ast.FunctionDef) else "<lambda>") == name
    ]
    return own


@cache
def _functions_of(file: Path) -> list[ast.Lambda | ast.FunctionDef]:
    nodes = ast.walk(ast.parse(file.read_text("utf-8")))
    return [node for node in nodes if isinstance(node, ast.Lambda | ast.FunctionDef)]


def _lines(node: ast.Lambda | ast.FunctionDef) -> Iterator[int]:
    yield node.lineno
    if isinstance(node, ast.FunctionDef):
        yield from (decorator.lineno for decorator in node.decorator_list)


def _keys(node: ast.Dict) -> Iterator[str]:
    for key in node.keys:
        if key is not None:
            yield from _constants(key)


def _stored(node: ast.AST) -> Iterator[str]:
    """The key of `units[key] = ...`, or of a comprehension."""
    if isinstance(node, ast.Subscript) and isinstance(node.ctx, ast.Store):
        yield from _constants(node.slice)
    if isinstance(node, ast.DictComp):
        yield from _constants(node.key)


def _constants(key: ast.expr) -> Iterator[str]:
    if isinstance(key, ast.IfExp):
        yield from (*_constants(key.body), *_constants(key.orelse))
    elif isinstance(key, ast.Constant):
        yield str(key.value)
    else:
        yield from COMPUTED[ast.unparse(key)]


def _functions(tree: ast.AST, scope: Mapping[str, Any]) -> Iterator[FunctionType]:
    """Functions of units whose names stand there, and methods of classes that stand there."""
    names = {node.id for node in ast.walk(tree) if isinstance(node, ast.Name)}
    attributes = {node.attr for node in ast.walk(tree) if isinstance(node, ast.Attribute)}
    values = [scope[name] for name in sorted(names & scope.keys())]
    values += [getattr(value, name) for value in values for name in sorted(attributes) if hasattr(value, name)]
    values += [
        getattr(kind, name)
        for kind in scope.values()
        if isinstance(kind, type) and kind.__module__.startswith("tinyc.")
        for name in sorted(attributes)
        if hasattr(kind, name)
    ]
    for value in values:
        function = value.func if isinstance(value, partial) else value
        if isinstance(function, FunctionType) and function.__annotations__.get("return") in RETURNS:
            yield function


def test_every_unit_that_a_cost_may_name_was_counted() -> None:
    """Whatever the model: a unit that no small layer of bench/counted.py has is missing from the table, and the first
    model that has it ended in a KeyError. All kinds of cores have the same units (test_counted.py)."""
    missing, vain = dict[str, frozenset[str]](), dict[str, frozenset[str]]()
    for cost in counted_costs():
        of_kernel = next(iter(counts()[cost.kernel].values())).keys() - {CALL, CODE, SIZE}
        named = units_named_by(cost.units)
        missing[cost.kernel] = missing.get(cost.kernel, frozenset()) | named - of_kernel
        vain[cost.kernel] = vain.get(cost.kernel, of_kernel) - named
    assert len(missing) > 200
    assert {kernel: units for kernel, units in missing.items() if units} == LEFT_OUT
    assert not {kernel: units for kernel, units in vain.items() if units}
    assert counts()["tc_integer_map"]["thumb1"].keys() >= STEPS.keys()


def test_units_are_read_wherever_functions_name_them() -> None:
    def of_part(count: int) -> dict[str, int]:
        return {"a": count}

    def of_whole(count: int) -> dict[str, int]:
        whole = {**of_part(count), "b" if count else "c": 1}
        whole["d"] = 2
        return whole

    def of_another(count: int) -> dict[str, int]:
        return {f"part {count}": 1}

    assert units_named_by(partial(of_whole, 3)) == {"a", "b", "c", "d"}
    with pytest.raises(KeyError):
        units_named_by(of_another)


FORESTS = {
    "votes for one of few": forest("f32", 0, 3, None, 20),
    "votes for one of many": forest("f32", 0, 7, None, 20),
    "votes for one of many, of integers": grown_forest("s32", 12, 7, 30, 8, 1, votes=True),
    "one sum of a large forest": grown_forest("f32", 1, 300, 40, 7, 2),
    "one sum of a large forest, of integers": grown_forest("s32", 1, 300, 40, 7, 3),
    "rows of many columns, mostly 0": forest("s32", 100, 12, None, 12, 7),
}


@pytest.mark.parametrize("words", FORESTS)
def test_forests_of_every_kind_have_costs_on_every_core(words: str) -> None:
    graph: Graph = FORESTS[words]
    every = {kernel.name for kernel in all_ops()["tree_ensemble"].every_kernel if "branches" in kernel.name}
    taken = set[str]()
    for isa in {board.isa for board in list_boards()}:
        (choices,) = candidates(graph, isa, Numerics.OURS).values()
        taken |= {choice.kernel.name for choice in choices}
    assert taken & every
