# SPDX-License-Identifier: Apache-2.0
"""Functions that a file defines itself, as PyTorch writes modules: their nodes in the place of each call."""

from __future__ import annotations

from collections.abc import Iterable

import onnx
import onnx.inliner
from google.protobuf.message import DecodeError

from tinyc.base.errors import Loc, TinycError

_Name = tuple[str, str, str]  # domain, operator, overload


def without_functions(model: onnx.ModelProto, most: int, where: Loc) -> onnx.ModelProto:
    """The model with the nodes of its functions where they are called. TinycError for functions that call themselves,
    and for more than `most` nodes."""
    bodies = {(f.domain, f.name, f.overload): f.node for f in model.functions}
    if _count(model.graph.node, bodies, {}, where) > most:
        raise TinycError(f"the model has more than {most} nodes, with those of its functions", where)
    try:
        return onnx.inliner.inline_local_functions(model)
    except (DecodeError, RuntimeError, ValueError, onnx.checker.ValidationError) as e:
        raise TinycError("the functions of the model do not fit their calls", where, _WITHOUT) from e


_WITHOUT = "inline them when the model is exported, or export it again without functions"


def _count(
    nodes: Iterable[onnx.NodeProto], bodies: dict[_Name, Iterable[onnx.NodeProto]], counts: dict[_Name, int], where: Loc
) -> int:
    """Nodes when all functions are in their places; counts: of the functions, -1 of those that are being counted."""
    total = 0
    for node in nodes:
        name = (node.domain, node.op_type, node.overload)
        for attribute in node.attribute:
            total += _count(attribute.g.node, bodies, counts, where)
        if name not in bodies:
            total += 1
            continue
        if name not in counts:
            counts[name] = -1
            counts[name] = _count(bodies[name], bodies, counts, where)
        if counts[name] < 0:
            raise TinycError(f"the function {node.op_type} of the model calls itself", where, _WITHOUT)
        total += counts[name]
    return total
