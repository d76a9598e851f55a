# SPDX-License-Identifier: Apache-2.0
"""What of a model file is no step of its library, and what became of it."""

from __future__ import annotations

from collections.abc import Iterator

from tinyc.base.errors import Loc
from tinyc.ir.graph import Graph
from tinyc.ops import op_of
from tinyc.verify.report import Change

_VIEW = "the same bytes under another shape: no code, no copy"
_GONE = "computed when the model was compiled, or without effect: nothing of it is left to do"


def changes_of(loaded: Graph, whole: Graph, reduced: Graph) -> tuple[Change, ...]:
    """Nodes of the file that no step computes, and channels that were dropped, in the file's order.

    loaded: the file's graph; whole: its integers, normalized; reduced: without dead channels.
    """
    return (*_nodes(loaded, whole), *_channels(whole, reduced))


def _nodes(loaded: Graph, whole: Graph) -> Iterator[Change]:
    views, layers = set[Loc](), set[Loc]()
    for node in whole.nodes:
        (views if op_of(node).view else layers).update(node.origin)
    told = set(layers)
    for node in loaded.nodes:
        for loc in node.origin:
            if loc not in told:
                told.add(loc)
                yield Change(str(loc), _VIEW if loc in views else _GONE)


def _channels(whole: Graph, reduced: Graph) -> Iterator[Change]:
    """A dropped channel is the same for every input, or nobody reads it: the proof is in passes/dead_channels.py."""
    left = {node.name: node for node in reduced.nodes}
    for node in whole.nodes:
        after = left.get(node.name)
        if after is None:
            yield Change(_named(node.where, node.name), "every channel of it is constant, and in later biases")
            continue
        before, now = (graph.values[node.outputs[0]].shape for graph in (whole, reduced))
        if before and now and before[-1] > now[-1]:
            count = f"{before[-1] - now[-1]} of {before[-1]} channels"
            why = f"{count} are constant or read by nobody; constants went into later biases, and no output bit changes"
            yield Change(_named(node.where, node.name), why)


def _named(where: Loc | None, name: str) -> str:
    return name if where is None else str(where)
