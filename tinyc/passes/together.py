# SPDX-License-Identifier: Apache-2.0
"""Reductions over axes that are not neighbours: a transpose brings these together, for kernels take neighbours."""

from __future__ import annotations

import math
from dataclasses import replace

from tinyc.ir.graph import Graph, Node
from tinyc.ops.op import Trait
from tinyc.ops.reshape import Reshape
from tinyc.ops.transpose import Transpose
from tinyc.passes.rewrite import Rewrite, RewriteDraft, View, begins_with, rewrite, rule


@rule(Trait.REDUCES)
def bring_together(view: View, node: Node) -> Rewrite | None:
    """mean, sum, extremum over axes with another between them -> transpose, the same over rows, reshape."""
    x, y = view.value(node.inputs[0]), view.value(node.outputs[0])
    rank = len(x.shape)
    axes = {axis % rank for axis in node.attrs.axes}
    wide = [axis for axis in range(rank) if x.shape[axis] > 1]
    places = [place for place, axis in enumerate(wide) if axis in axes]
    if not places or places[-1] - places[0] == len(places) - 1:
        return None
    others = tuple(axis for axis in range(rank) if axis not in axes)
    perm = (*others, *sorted(axes))
    draft = RewriteDraft(view, node)
    moved = draft.add([x.name], Transpose(perm), x, tuple(x.shape[axis] for axis in perm), "together")
    rows = math.prod(x.shape[axis] for axis in others)
    flat = draft.add([moved], Reshape((rows, x.elements // rows)), x, (rows, x.elements // rows), "rows")  # no image
    reduced = draft.add([flat], replace(node.attrs, axes=(1,), keep_dims=False), y, (rows,), "reduced")
    return draft.finish([reduced], Reshape(y.shape))


@begins_with(Trait.REDUCES)
def neighbouring_axes(graph: Graph) -> Graph:
    """The graph whose reductions go over neighbouring axes."""
    return rewrite(graph, (bring_together,))
