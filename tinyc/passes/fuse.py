# SPDX-License-Identifier: Apache-2.0
"""An activation becomes part of the operator before it."""

from __future__ import annotations

from dataclasses import replace

from tinyc.ir.graph import Graph, Node
from tinyc.kernel.site import Act
from tinyc.ops.clip import Clip
from tinyc.ops.op import Trait
from tinyc.passes.rewrite import Rewrite, View, rewrite, rule


def combined(first: Act, then: Act) -> Act:
    """The one activation that equals `first`, then `then`."""
    lo, hi = (min(max(bound, then.lo), then.hi) for bound in first)
    return Act(lo, hi)


@rule(Clip)
def fuse_clip(view: View, node: Node) -> Rewrite | None:
    """f, clip -> f with the clip as its activation.

    In integers only where clip keeps the quantization: then both clamp the same integers, as rounding
    to the grid is monotone. With another scale behind it, the clip rounds a second time; it stays.
    """
    before = view.producer(node.inputs[0], Trait.FUSES_CLIP)
    if before is None or not view.sole_use(node.inputs[0]):
        return None
    x, y = view.value(node.inputs[0]), view.value(node.outputs[0])
    if (x.dtype, x.quant) != (y.dtype, y.quant):
        return None
    attrs = replace(before.attrs, act=combined(before.attrs.act, node.attrs.act))
    fused = replace(before, name=node.name, outputs=node.outputs, attrs=attrs, origin=before.origin + node.origin)
    return Rewrite((fused,))


def fuse_activations(graph: Graph) -> Graph:
    """The graph with clips fused into the nodes that feed them."""
    return rewrite(graph, (fuse_clip,))
