# SPDX-License-Identifier: Apache-2.0
"""Which layers can do with 4-bit weights: measured one by one, chosen together, exactly.

Each layer alone is put to 4 bits, all others to 8, and the noise that this adds at the output is measured. Noises of
several layers add up, to a good approximation, so the choice of layers within a number of bytes is a knapsack
problem, which is solved exactly by keeping the undominated sums.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

from tinyc.base.dataclass import dataclass
from tinyc.base.errors import Missed, TinycError
from tinyc.base.knapsack import exact
from tinyc.ir.graph import Graph, Node
from tinyc.quantize.layerwise import narrowable, weight_constants
from tinyc.quantize.score import Teacher

Learn = Callable[[Mapping[str, int]], Graph]
Loss = Callable[[Graph], float]

_GRAIN = 16  # bytes; sums are compared in these
_WIDTHS = (4, 8)
_TIE = 1e-6  # beside any loss of a metric that can be told from none


@dataclass(frozen=True, slots=True)
class Sensitivity:
    """A layer, its bytes with int8 weights, and the noise that 4-bit weights add (a power beside the signal's, which
    is 1). loss: of the metric, where one is asked for."""

    layer: str
    elements: int
    noise: float
    loss: float = 0.0

    def bytes_of(self, bits: int) -> int:
        """Bytes of the weights, two of 4 bits to a byte."""
        return -(-self.elements * bits // 8)


def sensitivities(
    graph: Graph, learn: Learn, teacher: Teacher, report: Callable[[int, int], None]
) -> list[Sensitivity]:
    """What 4-bit weights cost in each layer: the rise of noise at the output, and of the metric's loss where one is
    asked for, over weights of 8 bits everywhere.

    As measured: by chance it may be below zero.
    """
    nodes = narrowable(graph)
    least = _costs(teacher, learn({}))
    sensitivities = []
    for done, node in enumerate(nodes):
        noise, loss = _costs(teacher, learn({node.name: 4}))
        sensitivities.append(Sensitivity(node.name, _elements(graph, node), noise - least[0], loss - least[1]))
        report(done + 1, len(nodes))
    return sensitivities


def averaged(many: Sequence[Sequence[Sensitivity]]) -> list[Sensitivity]:
    """The mean of several measurements, at least zero."""
    return [
        Sensitivity(
            each[0].layer,
            each[0].elements,
            max(sum(one.noise for one in each) / len(each), 0.0),
            max(sum(one.loss for one in each) / len(each), 0.0),
        )
        for each in zip(*many, strict=True)
    ]


def by_loss(sensitivities: Sequence[Sensitivity]) -> list[Sensitivity]:
    """With the loss of the metric in the place of the noise, which decides where no loss was measured."""
    total = sum(layer.noise for layer in sensitivities) or 1.0
    return [replace(layer, noise=layer.loss + _TIE * layer.noise / total) for layer in sensitivities]


def _elements(graph: Graph, node: Node) -> int:
    return sum(graph.values[name].elements for name in weight_constants(graph, node))


def _costs(teacher: Teacher, integer: Graph) -> tuple[float, float]:
    """Noise at the output, a power beside the signal's, and loss of the metric, 0 without one."""
    noise = float(10 ** (-teacher.score(integer) / 10))
    return noise, teacher.changed(integer) if teacher.judge is not None else 0.0


def within(sensitivities: Sequence[Sensitivity], budget: int) -> dict[str, int]:
    """Bits per layer with the least noise whose weights take at most `budget` bytes. TinycError if 4 bits are too
    many."""
    least = _least([layer.elements for layer in sensitivities], budget)
    items = [
        [(0, layer.noise), (-(-(layer.bytes_of(8) - layer.bytes_of(4)) // _GRAIN), 0.0)] for layer in sensitivities
    ]
    taken = exact(items, (budget - least) // _GRAIN)
    assert taken is not None  # 4 bits everywhere fit
    return {layer.layer: _WIDTHS[i] for layer, i in zip(sensitivities, taken, strict=True)}


def need_room(graph: Graph, budget: int) -> None:
    """TinycError if the weights of the float graph take more than so many bytes in 4 bits."""
    _least([_elements(graph, node) for node in narrowable(graph)], budget)


def _least(elements: Sequence[int], budget: int) -> int:
    """Bytes of layers of so many weights in 4 bits. TinycError if that is more than the budget."""
    least = sum(-(-each * _WIDTHS[0] // 8) for each in elements)
    if least > budget:
        raise TinycError(
            f"4-bit weights take {least:,} bytes, the budget for weights is {budget:,}: {least - budget:,} too few",
            hint="give a larger budget, or a smaller model",
            exit_code=1,
            missed=[Missed("weights", "bytes", budget, least)],
        )
    return least


def for_loss(sensitivities: Sequence[Sensitivity], learn: Learn, loss: Loss, most: float) -> dict[str, int]:
    """Bits with the fewest bytes whose measured loss is at most `most`; 8 everywhere if nothing less will do.

    Budgets are halved in between: more bytes hardly ever make the loss greater.
    """
    all_bytes = [sum(layer.bytes_of(bits) for layer in sensitivities) for bits in _WIDTHS]
    low, high = all_bytes
    best = {layer.layer: 8 for layer in sensitivities}
    if loss(learn(within(sensitivities, low))) <= most:
        return within(sensitivities, low)
    while high - low > max(all_bytes[1] // 64, 2 * _GRAIN):
        middle = (low + high) // 2
        bits = within(sensitivities, middle)
        if loss(learn(bits)) <= most:
            best, high = bits, middle
        else:
            low = middle
    return best
