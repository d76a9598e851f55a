# SPDX-License-Identifier: Apache-2.0
"""Operators: shapes, meaning in floats, exact integers, and the kernels that run them."""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Sequence
from functools import cache
from typing import Any

from tinyc.base.errors import Loc
from tinyc.ir.graph import Node
from tinyc.ops.op import Op, Trait

Kind = type | Trait  # a class of attributes, or what several operators have in common


@cache
def _operators() -> tuple[dict[str, Op], dict[type, Op]]:
    """By name, in alphabetical order, and by the class of their attributes."""
    names = sorted(info.name for info in pkgutil.iter_modules(__path__))
    modules = [importlib.import_module(f"{__name__}.{name}") for name in names]
    ops = [module.OP for module in modules if hasattr(module, "OP")]
    return {op.name: op for op in ops}, {op.attrs: op for op in ops}


def all_ops() -> dict[str, Op]:
    """Operators by name, in alphabetical order."""
    return _operators()[0]


def op_of(node: Node) -> Op:
    """The operator of the node."""
    return all_ops()[node.op]


def is_a(node: Node, *kinds: Kind) -> bool:
    """Whether the node's attributes are of one of the classes, or its operator has one of the traits."""
    return any(kind in op_of(node).traits if isinstance(kind, Trait) else type(node.attrs) is kind for kind in kinds)


def op_with(attrs: Any) -> Op:
    """The operator whose attributes these are: every operator has a class of its own for them."""
    return _operators()[1][type(attrs)]


def node_of(
    attrs: Any, inputs: Sequence[str], outputs: Sequence[str], origin: tuple[Loc, ...] = (), name: str = ""
) -> Node:
    """A node of the operator whose attributes these are, called like its first output unless `name` says otherwise."""
    return Node(name or outputs[0], op_with(attrs).name, tuple(inputs), tuple(outputs), attrs, origin)
