# SPDX-License-Identifier: Apache-2.0
"""Masks that a model computes: 0, or a number far below all scores, added to scores in front of a softmax.

Such a number (-10,000, or the least float32) says that a score is hidden, and needs no place in a scale. Masks get the
range of the scores instead, and a little more. Where no calibration sample hides anything, as without padding, the mask
was 0 throughout: its range is then what the operators that make it can give.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import replace

import numpy as np

from tinyc.ir.graph import Array, Graph, Node
from tinyc.ops.add import Add
from tinyc.ops.broadcast import Broadcast
from tinyc.ops.choose import HIDDEN, Choose
from tinyc.ops.mul import Mul
from tinyc.ops.reshape import Reshape
from tinyc.ops.softmax import Softmax
from tinyc.ops.sub import Sub
from tinyc.ops.transpose import Transpose
from tinyc.passes.rewrite import begins_with
from tinyc.quantize.groups import Groups
from tinyc.quantize.observe import Stats
from tinyc.quantize.ranges import Method, Range, merged

BELOW = 6.0  # exp(-6) is half a step of a softmax's output
_FAR = 4 * HIDDEN  # the largest number that makes a mask


@begins_with(Add)
def with_near_factors(graph: Graph) -> Graph:
    """The graph with factors and terms of computed masks, (1 - shown) * -3.4e38, that integers can hold."""
    makers = {name: node for node in graph.nodes for name in node.outputs}
    reads = Counter(name for node in graph.nodes for name in node.inputs)
    near: dict[str, Array] = {}
    for node in _sums(graph):
        for name in node.inputs:
            numbers = _numbers(graph, makers, name)
            largest = max((float(np.abs(graph.consts[one]).max()) for one in numbers), default=0.0)
            if largest > _FAR and all(reads[one] == 1 for one in numbers):
                near |= {one: graph.consts[one] * np.float32(_FAR / largest) for one in numbers}
    return replace(graph, consts={**graph.consts, **near}) if near else graph


def _numbers(graph: Graph, makers: Mapping[str, Node], name: str) -> list[str]:
    """Constants that a value is proportional to, all of them together: the factor of a product, terms behind it."""
    consts: list[str] = []
    while (node := makers.get(name)) is not None:
        computed = [one for one in node.inputs if one not in graph.consts]
        constant = [one for one in node.inputs if one in graph.consts]
        if len(computed) != 1 or (constant and not isinstance(node.attrs, Add | Mul)):
            return []
        consts += constant
        if isinstance(node.attrs, Mul):
            return consts
        if not constant and not isinstance(node.attrs, Reshape | Broadcast | Transpose):
            return []
        name = computed[0]
    return []


def zero_ranges(graph: Graph, stats: Mapping[str, Stats]) -> dict[str, Range]:
    """Of sums and products that were 0 in all samples: what they can be with the ranges of what they are made from."""
    ranges: dict[str, Range] = {}

    def of(name: str) -> Range | None:
        if name in graph.consts:
            return float(graph.consts[name].min()), float(graph.consts[name].max())
        if name in ranges or name not in stats:
            return ranges.get(name)
        return min(stats[name].lo, 0.0), max(stats[name].hi, 0.0)

    for node in graph.nodes:
        y = node.outputs[0]
        if not isinstance(node.attrs, Add | Sub | Mul) or y not in stats or (stats[y].lo, stats[y].hi) != (0.0, 0.0):
            passed = [ranges[name] for name in node.inputs if name in ranges]
            if passed and len(node.inputs) == 1 and y in stats and stats[y].lo == stats[y].hi == 0.0:
                ranges[y] = passed[0]
            continue
        a, b = (of(name) for name in node.inputs)
        if a is not None and b is not None:
            ranges[y] = _combined(node, a, b)
    return ranges


def _combined(node: Node, a: Range, b: Range) -> Range:
    if isinstance(node.attrs, Mul):
        products = [x * y for x in a for y in b]
        lo, hi = min(products), max(products)
    elif isinstance(node.attrs, Sub):
        lo, hi = a[0] - b[1], a[1] - b[0]
    else:
        lo, hi = a[0] + b[0], a[1] + b[1]
    act = node.attrs.act
    return max(lo, act.lo), min(hi, act.hi)


def mask_ranges(
    graph: Graph, groups: Groups, stats: Mapping[str, Stats], zeros: Mapping[str, Range], method: Method
) -> dict[str, Range]:
    """By group: ranges of computed masks and of the sums in which they hide scores."""
    hiding = {
        groups.of(node.outputs[0])
        for node in graph.nodes
        if isinstance(node.attrs, Choose)
        for name in node.inputs[1:]
        if name in graph.consts and graph.consts[name].min() < -HIDDEN
    }
    ranges: dict[str, Range] = {}
    for node in _sums(graph):
        y, masks = node.outputs[0], [name for name in node.inputs if _hides(name, groups, stats, zeros, hiding)]
        scores = [name for name in node.inputs if name in stats and stats[name].lo > -HIDDEN and name not in masks]
        if len(masks) != 1 or len(scores) != 1:
            continue
        lo, hi = method(merged([stats[scores[0]]]), "s8")
        lo, hi = min(lo, 0.0), max(hi, 0.0)
        group = [name for name in stats if groups.of(name) == groups.of(masks[0])]
        beside = max(zeros[name][1] if name in zeros else stats[name].hi for name in group)
        for name, low, high in ((y, lo - BELOW, hi), (masks[0], lo - hi - BELOW, beside)):
            before = ranges.get(groups.of(name), (0.0, 0.0))
            ranges[groups.of(name)] = min(before[0], low), max(before[1], high)
    return ranges


def _sums(graph: Graph) -> Iterator[Node]:
    """Sums of two computed values that only softmaxes read."""
    readers: dict[str, list[Node]] = {}
    for node in graph.nodes:
        for name in node.inputs:
            readers.setdefault(name, []).append(node)
    for node in graph.nodes:
        y = node.outputs[0]
        if (
            isinstance(node.attrs, Add)
            and y not in graph.outputs
            and not graph.consts.keys() & set(node.inputs)
            and readers.get(y)
            and all(isinstance(reader.attrs, Softmax) for reader in readers[y])
        ):
            yield node


def _hides(name: str, groups: Groups, stats: Mapping[str, Stats], zeros: Mapping[str, Range], hiding: set[str]) -> bool:
    seen = zeros.get(name) or ((stats[name].lo, stats[name].hi) if name in stats else (0.0, 0.0))
    return seen[1] <= 0 and (seen[0] < -HIDDEN or groups.of(name) in hiding)
