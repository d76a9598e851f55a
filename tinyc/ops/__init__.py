# SPDX-License-Identifier: Apache-2.0
"""Operators: shapes, meaning in floats, exact integers, and the kernels that run them."""

from __future__ import annotations

import builtins
import importlib
import pkgutil
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from tinyc.base.errors import Loc
from tinyc.ir.graph import Graph, Node
from tinyc.ops.op import Op, SomeNodes, Trait

Kind = type | SomeNodes | Trait  # a class of attributes, some nodes of one, or what several operators have in common


class _Operators(Mapping[str, Op]):
    """Each operator is `OP` of the module of its name beside this one, which is imported when somebody asks for it."""

    def __init__(self) -> None:
        self._modules = {info.name for info in pkgutil.iter_modules(__path__)}
        self._imported: dict[str, Op] = {}

    def __getitem__(self, name: str) -> Op:
        if name not in self._imported:
            if name not in self._modules:
                raise KeyError(name)
            module = importlib.import_module(f"{__name__}.{name}")
            if not hasattr(module, "OP"):
                raise KeyError(name)
            self._imported[name] = module.OP
        return self._imported[name]

    def __iter__(self) -> Iterator[str]:
        return (name for name in sorted(self._modules) if name in self)

    def __len__(self) -> int:
        return builtins.sum(1 for _ in self)  # `sum` is an operator here


_OPERATORS = _Operators()


def all_ops() -> Mapping[str, Op]:
    """Operators by name, in alphabetical order."""
    return _OPERATORS


def op_of(node: Node) -> Op:
    """The operator of the node."""
    return _OPERATORS[node.op]


def is_a(node: Node, *kinds: Kind) -> bool:
    """Whether the node's attributes are of one of the classes, or its operator has one of the traits."""
    return any(type(node.attrs) is kind if isinstance(kind, type) else _is_one_of(node, kind) for kind in kinds)


def _is_one_of(node: Node, kind: SomeNodes | Trait) -> bool:
    if isinstance(kind, Trait):
        return kind in op_of(node).traits
    return type(node.attrs) is kind.attrs and kind.test(node)


def has(graph: Graph, *kinds: Kind) -> bool:
    """Whether a node of the graph `is_a` of one of the kinds."""
    return any(is_a(node, *kinds) for node in graph.nodes)


def op_with(attrs: Any) -> Op:
    """The operator whose attributes these are: every operator has a class of its own for them, in its module."""
    return _OPERATORS[type(attrs).__module__.removeprefix(f"{__name__}.")]


def node_of(
    attrs: Any, inputs: Sequence[str], outputs: Sequence[str], origin: tuple[Loc, ...] = (), name: str = ""
) -> Node:
    """A node of the operator whose attributes these are, called like its first output unless `name` says otherwise."""
    return Node(name or outputs[0], op_with(attrs).name, tuple(inputs), tuple(outputs), attrs, origin)
