# SPDX-License-Identifier: Apache-2.0
"""Nodes over many samples at once: what the quantizer runs thousands of times.

An activation of shape S is held as an array [samples, *S] of float32; constants have no sample axis. Operators that say
nothing of their own (`Op.batched`) run sample by sample in their float reference, so every graph runs.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from tinyc.ir.graph import Array, Graph, Node
from tinyc.ops import is_a, op_of
from tinyc.ops.batched import Gradients
from tinyc.ops.op import Trait

# A sample axis in front of the others changes nothing for them.
_ALONE = (Trait.ELEMENTWISE, Trait.BROADCASTS, Trait.LAST_AXIS)


Steps = tuple[tuple[float, float], npt.NDArray[np.float64] | None]


def compute(
    graph: Graph, node: Node, inputs: list[Array | None], count: int, steps: Steps | None = None
) -> tuple[Array, ...]:
    """The node's outputs, [count, *shape] each, of inputs in the order of the node. steps: of a layer's input and
    weights (`exact.weighted`), where they are integers times steps. What is infinite in float32, as the logarithm of an
    input that was rounded to 0, and what is none then, is so without a warning."""
    with np.errstate(all="ignore"):
        return _computed(graph, node, inputs, count, steps)


def _computed(
    graph: Graph, node: Node, inputs: list[Array | None], count: int, steps: Steps | None
) -> tuple[Array, ...]:
    is_const = [name in graph.consts for name in node.inputs]
    if all(is_const):
        return tuple(np.broadcast_to(y, (count, *y.shape)) for y in op_of(node).float_ref(node.attrs, *inputs))
    if steps is not None and (in_steps := op_of(node).batched.in_steps) is not None:
        return (in_steps(node.attrs, *inputs[:3], *[None] * (3 - len(inputs)), *steps),)
    forward = op_of(node).batched.forward
    if forward is not None:
        return (forward(node.attrs, *inputs),)
    if is_a(node, *_ALONE) and _broadcasts(graph, node):
        return op_of(node).float_ref(node.attrs, *inputs)
    return _one_by_one(node, inputs, is_const, count)


def _broadcasts(graph: Graph, node: Node) -> bool:
    """Whether broadcasting from the last axis pairs the same elements with a sample axis in front."""
    ranks = [len(graph.values[name].shape) for name in node.inputs]
    activations = [r for r, name in zip(ranks, node.inputs, strict=True) if name not in graph.consts]
    return len(set(activations)) == 1 and max(ranks) == activations[0]


def _one_by_one(node: Node, inputs: list[Array | None], is_const: list[bool], count: int) -> tuple[Array, ...]:
    float_ref = op_of(node).float_ref
    rows = [
        float_ref(node.attrs, *(x if const or x is None else x[k] for x, const in zip(inputs, is_const, strict=True)))
        for k in range(count)
    ]
    return tuple(np.stack(column) for column in zip(*rows, strict=True))


def differentiable(graph: Graph) -> bool:
    """Whether gradients reach every layer from the outputs."""
    return all(op_of(node).batched.backward is not None for node in graph.nodes)


def backward(node: Node, inputs: Sequence[Array | None], y: Array, dy: Array) -> Gradients:
    """The gradient with respect to each input of a node of a `differentiable` graph."""
    rule = op_of(node).batched.backward
    assert rule is not None, node.op
    return rule(node.attrs, inputs, y, dy)
