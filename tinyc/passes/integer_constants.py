# SPDX-License-Identifier: Apache-2.0
"""Integer nodes of constants, such as a layer on a state that begins with zeros, are computed now.

Not in the normal form: numerics decide how they round.
"""

from __future__ import annotations

from tinyc.base.numerics import Numerics
from tinyc.ir.graph import Graph, Node
from tinyc.kernel.site import Site
from tinyc.ops import op_of
from tinyc.passes.constants import constant_for, is_stored
from tinyc.passes.rewrite import Rewrite, View, rewrite, rule


def compute_constants(graph: Graph, numerics: Numerics) -> Graph:
    """The same integer function, with what it computes of constants alone as constants."""

    @rule()
    def constant_node(view: View, node: Node) -> Rewrite | None:
        given = [name for name in node.inputs if name]
        integers = all(view.value(name).quant is not None for name in given)
        if not integers or not given or not all(view.is_const(name) for name in given):
            return None
        if len(node.outputs) != 1 or is_stored(view, node):
            return None
        alone = Graph(
            "known",
            (),
            node.outputs,
            (node,),
            {name: view.value(name) for name in (*given, *node.outputs)},
            {name: view.const(name) for name in given},
        )
        op = op_of(node)
        params = op.prepare(Site(alone, node, numerics))
        (array,) = op.int_ref(params, *(view.const(name) if name else None for name in node.inputs))
        return constant_for(view, node, array, "known")

    return rewrite(graph, (constant_node,))
