# SPDX-License-Identifier: Apache-2.0
"""Reshapes that split channels and join them again, with a transpose between: the shuffle of ShuffleNet, in NHWC.

In NCHW it is [1,C,H,W] -> [1,a,b,H,W] -> [1,b,a,H,W] -> [1,C,H,W]. The transposes of the layout are carried through,
so that they meet those of the convolutions behind it.
"""

from __future__ import annotations

from collections.abc import Sequence

from tinyc.ir.graph import Node, Shape
from tinyc.ops.reshape import Reshape
from tinyc.ops.transpose import Transpose
from tinyc.passes.rewrite import Rewrite, RewriteDraft, View, rule


@rule(Reshape)
def sink_through_split(view: View, node: Node) -> Rewrite | None:
    """reshape(transpose(x)) -> transpose(reshape(x)) where it splits axes, for a transpose that follows."""
    moved = view.producer(node.inputs[0], Transpose)
    readers = view.consumers(node.outputs[0])
    if moved is None or len(readers) != 1 or not isinstance(readers[0].attrs, Transpose):
        return None
    x, y = view.value(moved.inputs[0]).shape, view.value(node.outputs[0])
    groups = _runs(y.shape, [x[k] for k in moved.attrs.perm])  # axes of y, by axis of the transposed x
    if groups is None:
        return None
    apart = [axis for k in range(len(x)) for axis in groups[moved.attrs.perm.index(k)]]
    shape = tuple(y.shape[axis] for axis in apart)
    draft = RewriteDraft(view, node)
    inner = draft.add([moved.inputs[0]], Reshape(shape), y, shape, "split")
    return draft.finish([inner], Transpose(tuple(apart.index(axis) for axis in range(len(apart)))))


@rule(Reshape)
def sink_through_shuffle(view: View, node: Node) -> Rewrite | None:
    """reshape(transpose(x)) -> transpose(reshape(transpose(x))) where it joins axes of an image (or the channels of a
    sequence), whose channels are not last in y as they are in x: the last transpose is that of the layout."""
    moved = view.producer(node.inputs[0], Transpose)
    y = view.value(node.outputs[0])
    if moved is None or len(y.shape) not in (3, 4):
        return None
    x, perm = view.value(moved.inputs[0]).shape, moved.attrs.perm
    groups = _runs([x[k] for k in perm], y.shape)  # axes of the transposed x, by axis of y
    if groups is None:
        return None
    sources = [[perm[k] for k in group] for group in groups]  # axes of x, by axis of y
    last = (0, *range(2, len(sources)), 1)
    shuffled = [k for axis in last for k in sources[axis]]
    if shuffled == sorted(shuffled) or (len(sources) == 3 and len(sources[1]) < 2):
        return None
    if sorted(range(len(sources)), key=lambda axis: min(sources[axis])) != list(last):
        return None
    draft = RewriteDraft(view, node)
    inner = draft.add([moved.inputs[0]], Transpose(tuple(shuffled)), y, tuple(x[k] for k in shuffled), "shuffled")
    shape = tuple(y.shape[axis] for axis in last)
    joined = draft.add([inner], Reshape(shape), y, shape, "nhwc")
    return draft.finish([joined], Transpose(tuple(last.index(axis) for axis in range(len(last)))))


def _runs(fine: Sequence[int], coarse: Shape | Sequence[int]) -> list[list[int]] | None:
    """The axes of `fine` of which each axis of `coarse` consists, all of them in order; None if it does not.

    Axes of size 1 beyond the first are ambiguous: None.
    """
    if 1 in fine[1:] or 1 in coarse[1:] or fine[0] != coarse[0]:
        return None
    runs: list[list[int]] = [[0]]
    at = 1
    for size in coarse[1:]:
        group, product = [], 1
        while product < size and at < len(fine):
            group.append(at)
            product *= fine[at]
            at += 1
        if product != size:
            return None
        runs.append(group)
    return runs if at == len(fine) else None
