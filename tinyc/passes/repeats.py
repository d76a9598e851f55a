# SPDX-License-Identifier: Apache-2.0
"""Repetitions that nothing needs: operators of two tensors repeat the smaller one by themselves."""

from __future__ import annotations

from tinyc.ir.graph import Node, Shape
from tinyc.ops.broadcast import Broadcast
from tinyc.ops.op import Trait
from tinyc.passes.rewrite import Rewrite, RewriteDraft, View, rule


def _broadcast(*shapes: Shape) -> Shape:
    rank = max(len(shape) for shape in shapes)
    wide = [(1,) * (rank - len(shape)) + shape for shape in shapes]
    return tuple(max(sizes) for sizes in zip(*wide, strict=True))


@rule(Trait.BROADCASTS)
def drop_broadcast(view: View, node: Node) -> Rewrite | None:
    """f(broadcast(x), y) -> f(x, y) where y, or another input, has the size that x is repeated to."""
    for index, name in enumerate(node.inputs):
        before = view.producer(name, Broadcast)
        if before is None:
            continue
        inputs = [*node.inputs[:index], before.inputs[0], *node.inputs[index + 1 :]]
        if _broadcast(*(view.value(x).shape for x in inputs)) == view.value(node.outputs[0]).shape:
            return RewriteDraft(view, node).finish(inputs, node.attrs)
    return None
