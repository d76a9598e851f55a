# SPDX-License-Identifier: Apache-2.0
"""What a node that is computed now becomes: a constant; or, where it makes an output of the model, a step that copies
one into the arena, where the caller looks for it."""

from __future__ import annotations

from tinyc.ir.graph import Array, Node
from tinyc.ops.concat import Concat
from tinyc.ops.reshape import Reshape
from tinyc.passes.rewrite import Rewrite, RewriteDraft, View


def is_stored(view: View, node: Node) -> bool:
    """Whether the node does nothing but copy a constant to an output."""
    return isinstance(node.attrs, Concat) and len(node.inputs) == 1 and view.is_const(node.inputs[0])


def constant_for(view: View, node: Node, array: Array, suffix: str) -> Rewrite:
    """The rewrite of a node by the elements of its output."""
    draft, y = RewriteDraft(view, node), view.value(node.outputs[0])
    if not view.is_output(y.name):
        return draft.becomes(draft.const(array, y, suffix))
    constant = draft.const(array.reshape(-1), y, suffix)
    if len(y.shape) == 1:
        return draft.finish((constant,), Concat(0))
    return draft.finish((draft.add((constant,), Concat(0), y, (array.size,), "stored"),), Reshape(y.shape))
