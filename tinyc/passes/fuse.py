# SPDX-License-Identifier: Apache-2.0
"""An activation becomes part of the operator before it."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

from tinyc.ir.graph import Graph, Node
from tinyc.kernel.site import Act
from tinyc.ops import is_a
from tinyc.ops.clip import Clip
from tinyc.ops.concat import Concat
from tinyc.ops.op import Trait
from tinyc.ops.reshape import Reshape
from tinyc.passes.rewrite import Rewrite, RewriteDraft, View, begins_with, rewrite, rule


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


@rule(Clip)
def clip_parts(view: View, node: Node) -> Rewrite | None:
    """concat of layers, perhaps under another shape, clip -> concat of clipped layers."""
    x, y = view.value(node.inputs[0]), view.value(node.outputs[0])
    last = view.producer(x.name, Concat, Reshape)
    if last is None or not view.sole_use(x.name) or (x.dtype, x.quant) != (y.dtype, y.quant):
        return None
    joined = last if isinstance(last.attrs, Concat) else view.producer(last.inputs[0], Concat)
    if joined is None or not view.sole_use(joined.outputs[0]):
        return None
    parts = [view.value(name) for name in joined.inputs]
    if not all(view.sole_use(part.name) and view.producer(part.name, Trait.FUSES_CLIP) for part in parts):
        return None
    if any((part.dtype, part.quant) != (y.dtype, y.quant) for part in parts):
        return None
    draft, like = RewriteDraft(view, node), replace(y, loc=x.loc)
    clipped = [draft.add([part.name], node.attrs, like, part.shape, f"part{k}") for k, part in enumerate(parts)]
    origin = last.origin + node.origin
    if joined is last:
        return draft.finish(clipped, joined.attrs, origin)
    whole = draft.add(clipped, joined.attrs, like, view.value(joined.outputs[0]).shape, "parts")
    return draft.finish([whole], last.attrs, origin)


@begins_with(Clip)
def fuse_activations(graph: Graph) -> Graph:
    """The graph with clips fused into the nodes that feed them."""
    parts = rewrite(graph, (clip_parts,))
    fused = rewrite(parts, (fuse_clip,))
    return fused if parts is graph else copies_where_read(fused)


def copies_where_read(graph: Graph) -> Graph:
    """The same nodes, each copy for one reader right before it: layers that now stand at their clip's place have left
    the copies that they read behind, and all of these would live at once."""
    readers = Counter(name for node in graph.nodes for name in node.inputs)
    waiting: dict[str, Node] = {}
    nodes: list[Node] = []

    for node in graph.nodes:
        (y, *others) = node.outputs
        if is_a(node, Trait.MOVES) and not others and readers[y] == 1 and y not in graph.sinks:
            waiting[y] = node
            continue
        placed = [node]
        for reader in placed:  # grows by the copies that each reads
            placed += [waiting.pop(name) for name in reader.inputs if name in waiting]
        nodes += reversed(placed)
    return replace(graph, nodes=tuple(nodes))
