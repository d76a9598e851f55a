# SPDX-License-Identifier: Apache-2.0
"""Arithmetic on counts: steps behind each other become one loop, and what changes no energy is left out."""

from __future__ import annotations

from tinyc.ir.graph import Graph, Node
from tinyc.ops.concat import Concat
from tinyc.ops.integer_map import IntegerMap
from tinyc.ops.signal_energy import SignalEnergy
from tinyc.ops.slice import Slice
from tinyc.passes.rewrite import Rewrite, RewriteDraft, View, begins_with, rewrite, rule


@rule(IntegerMap)
def join_steps(view: View, node: Node) -> Rewrite | None:
    """integer_map, integer_map -> one, unless the first cuts off bits that the second would see."""
    before = view.producer(node.inputs[0], IntegerMap)
    if before is None or not view.sole_use(node.inputs[0]) or before.attrs.dtype not in ("s32", "u32"):
        return None
    attrs = IntegerMap((*before.attrs.steps, *node.attrs.steps), node.attrs.dtype)
    return RewriteDraft(view, node).finish(before.inputs, attrs)


@rule(IntegerMap)
def drop_zeroing(view: View, node: Node) -> Rewrite | None:
    """energy of some bins, cast, those cut out, zeros put around them, cast back -> the energy: its other bins are 0.

    So front ends of TensorFlow Lite Micro make what their interpreter leaves undefined.
    """
    joined = view.producer(node.inputs[0], Concat)
    if node.attrs != IntegerMap((), "u32") or joined is None:
        return None
    cuts = [(k, cut) for k, name in enumerate(joined.inputs) if (cut := view.producer(name, Slice)) is not None]
    if len(cuts) != 1:
        return None
    place, cut = cuts[0]
    cast = view.producer(cut.inputs[0], IntegerMap)
    energy = cast and view.producer(cast.inputs[0], SignalEnergy)
    if cast is None or energy is None or cast.attrs != IntegerMap((), "s32") or cut.attrs.step != (1,):
        return None
    others = [name for k, name in enumerate(joined.inputs) if k != place]
    if not all(view.is_const(name) and not view.const(name).any() for name in others):
        return None
    before = sum(view.value(name).elements for name in joined.inputs[:place])
    (begin,), (size,) = cut.attrs.begin, cut.attrs.size
    same_place = before == begin and view.value(energy.outputs[0]).shape == view.value(node.outputs[0]).shape
    if not same_place or begin > energy.attrs.start or begin + size < energy.attrs.end:
        return None
    return Rewrite(same=(node.outputs[0], energy.outputs[0]))


@begins_with(IntegerMap)
def join_counts(graph: Graph) -> Graph:
    """The graph with less arithmetic on counts."""
    return rewrite(graph, (drop_zeroing, join_steps))
