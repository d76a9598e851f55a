# SPDX-License-Identifier: Apache-2.0
"""Steps of an LSTM or a GRU between float32 operators, as files have them that write a layer out.

A step is found from its hidden state backwards. What goes into a gate is a sum of products of constants and vectors,
however the file splits, adds up and orders it: one product for all gates or one for each, biases in the product or
behind it, states that are zero already taken out.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from typing import Literal

import numpy as np
import numpy.typing as npt

from tinyc.base.dataclass import dataclass
from tinyc.ir.graph import Array, Graph, Node
from tinyc.kernel.site import Act
from tinyc.ops import is_a, op_of
from tinyc.ops.add import Add
from tinyc.ops.concat import Concat
from tinyc.ops.fully_connected import FullyConnected
from tinyc.ops.mul import Mul
from tinyc.ops.reshape import Reshape
from tinyc.ops.sigmoid import Sigmoid
from tinyc.ops.slice import Slice
from tinyc.ops.sub import Sub
from tinyc.ops.tanh import Tanh

_At = npt.NDArray[np.int64]
_MOVES = (Slice, Reshape)


@dataclass(frozen=True, slots=True)
class Elements:
    """`count` elements of a value, in C order, from element `first` on."""

    name: str
    first: int
    count: int


@dataclass(frozen=True, slots=True)
class GateSum:
    """bias [U] + the sum of matrices [U, count] times vectors."""

    terms: Mapping[Elements, Array]
    bias: npt.NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Cell:
    """A step. hidden: the state that it makes. left: the cell that it leaves, of a GRU the hidden state; before: the
    one that it begins with, None if that is zero. gates: i, f, g, o of an LSTM, f None if nothing came from `before`;
    z, r, n over the input, n over the hidden state of a GRU."""

    kind: Literal["lstm", "gru"]
    hidden: str
    left: str
    before: str | None
    gates: tuple[GateSum | None, ...]


class Reader:
    """A graph as steps are looked for in it."""

    def __init__(self, graph: Graph) -> None:
        self.graph = graph
        self._makers = graph.producer()

    def producer_of(self, name: str, *kinds: type) -> Node | None:
        """The node of one of these kinds that makes the value, if it has no activation."""
        node = self._makers.get(name)
        plain = node is not None and is_a(node, *kinds) and getattr(node.attrs, "act", Act()) == Act()
        return node if plain else None

    def all_of(self, name: str) -> Elements:
        """All elements of a value."""
        return self._vector(name, 0, self.graph.values[name].elements)

    def _whole(self, name: str) -> str:
        """The value whose elements, all and in order, this value has in another shape."""
        while (node := self.producer_of(name, Reshape)) is not None:
            name = node.inputs[0]
        return name

    def _start(self, name: str) -> str | None:
        """A state that a step begins with, None if it is zero."""
        return None if self._is_number(name, 0) else self._whole(name)

    def _factors(self, node: Node) -> Iterator[tuple[str, str]]:
        """Both operands, in both orders, if they have the shape of the result."""
        values = self.graph.values
        if all(values[name].shape == values[node.outputs[0]].shape for name in node.inputs):
            yield node.inputs[0], node.inputs[1]
            yield node.inputs[1], node.inputs[0]

    def cell(self, node: Node) -> Cell | None:
        """The step whose hidden state the node makes."""
        if self.graph.values[node.outputs[0]].dtype != "f32":
            return None
        return self._lstm(node) if is_a(node, Mul) else self._gru(node) if is_a(node, Add) else None

    def _gate(self, name: str, kind: type) -> GateSum | None:
        """What goes into a logistic or a tanh."""
        node = self.producer_of(name, kind)
        return None if node is None else self.linear(node.inputs[0])

    def _lstm(self, node: Node) -> Cell | None:
        for left, right in self._factors(node):
            shown = self.producer_of(right, Tanh)
            if shown is None or self.producer_of(left, Sigmoid) is None:
                continue
            left_cell = self._whole(shown.inputs[0])
            for before, f, i, g in self._cells(left_cell):
                gates = (
                    self._gate(i, Sigmoid),
                    None if f is None else self._gate(f, Sigmoid),
                    self._gate(g, Tanh),
                    self._gate(left, Sigmoid),
                )
                if None not in (gates[0], *gates[2:]) and (f is None or gates[1] is not None):
                    return Cell("lstm", node.outputs[0], left_cell, before, gates)
        return None

    def _cells(self, name: str) -> Iterator[tuple[str | None, str | None, str, str]]:
        """(cell before, f, i, g) of f * before + i * g, as it may be read."""
        total, alone = self.producer_of(name, Add), self.producer_of(name, Mul)
        if alone is not None:
            yield from ((None, None, i, g) for i, g in self._factors(alone))
        if total is None:
            return
        for carried, new in self._factors(total):
            products = self.producer_of(carried, Mul), self.producer_of(new, Mul)
            if products[0] is None or products[1] is None:
                continue
            for f, before in self._factors(products[0]):
                start = self._start(before)
                yield from ((start, f, i, g) for i, g in self._factors(products[1]))

    def _gru(self, node: Node) -> Cell | None:
        for z, before, n in self._blends(node):
            candidate = self.producer_of(n, Tanh)
            update = self._gate(z, Sigmoid)
            if candidate is None or update is None:
                continue
            for over_input, r, over_state in self._reset(candidate.inputs[0]):
                gates = (update, self._gate(r, Sigmoid), over_input, self.linear(over_state))
                if None not in gates:
                    return Cell("gru", node.outputs[0], node.outputs[0], self._start(before), gates)
        return None

    def _blends(self, node: Node) -> Iterator[tuple[str, str, str]]:
        """(z, before, n) of z * before + (1 - z) * n, and of n + z * (before - n)."""
        for left, right in self._factors(node):
            back = self.producer_of(left, Mul)
            other = self.producer_of(right, Mul)
            for z, part in self._factors(back) if back is not None else ():
                far = self.producer_of(part, Sub)
                if far is not None and far.inputs[1] == right:
                    yield z, far.inputs[0], right
                if other is not None:
                    yield from ((z, part, n) for rest, n in self._factors(other) if self._is_one_minus(rest, z))

    def _is_one_minus(self, name: str, z: str) -> bool:
        node = self.producer_of(name, Sub, Add)
        if node is None:
            return False
        if is_a(node, Sub):
            return node.inputs[1] == z and self._is_number(node.inputs[0], 1)
        for one, rest in (node.inputs, node.inputs[::-1]):
            minus = self.producer_of(rest, Mul)
            if minus is not None and z in minus.inputs and self._is_number(one, 1):
                return any(self._is_number(factor, -1) for factor in minus.inputs)
        return False

    def _is_number(self, name: str, number: int) -> bool:
        return name in self.graph.consts and bool((self.graph.consts[name] == number).all())

    def _reset(self, name: str) -> Iterator[tuple[GateSum, str, str]]:
        """(what comes from the input, r, what comes from the hidden state) of the sum that a candidate is made of."""
        parts = self._summands(name)
        for index, part in enumerate(parts):
            product = self.producer_of(part, Mul)
            if product is None:
                continue
            others = [self.linear(other) for k, other in enumerate(parts) if k != index]
            total = _sum(others)
            if total is not None:
                yield from ((total, r, seen) for r, seen in self._factors(product))

    def _summands(self, name: str) -> list[str]:
        node = self.producer_of(name, Add)
        if node is None or not any(True for _ in self._factors(node)):
            return [name]
        return [part for operand in node.inputs for part in self._summands(operand)]

    def linear(self, name: str, at: _At | None = None) -> GateSum | None:
        """Elements `at` of a value (all if None) as products of constants; None if they are not."""
        value = self.graph.values[name]
        at = np.arange(value.elements) if at is None else at
        if name in self.graph.consts:
            return GateSum({}, self.graph.consts[name].reshape(-1)[at].astype(np.float64))
        node = self.producer_of(name, Add, FullyConnected, *_MOVES)
        if node is None:
            return None
        if is_a(node, *_MOVES):
            return self.linear(node.inputs[0], self._moved(node)[at])
        if is_a(node, FullyConnected):
            return self._product(node, at)
        shapes = [self.graph.values[operand].shape for operand in node.inputs]
        places = [np.broadcast_to(np.arange(math.prod(s)).reshape(s), value.shape).reshape(-1)[at] for s in shapes]
        return _sum([self.linear(*operand) for operand in zip(node.inputs, places, strict=True)])

    def _moved(self, node: Node) -> _At:
        """Of each element of the output, which one of the input it is."""
        x = self.graph.values[node.inputs[0]]
        (at,) = op_of(node).float_ref(node.attrs, np.arange(x.elements).reshape(x.shape))
        return np.asarray(at, np.int64).reshape(-1)

    def _product(self, node: Node, at: _At) -> GateSum | None:
        x, w, *rest = node.inputs
        if w not in self.graph.consts or any(name and name not in self.graph.consts for name in rest):
            return None
        weights = self.graph.consts[w]
        rows, outputs = np.divmod(at, weights.shape[0])
        if np.ptp(rows):
            return None
        bias = self.graph.consts[rest[0]][outputs] if rest and rest[0] else np.zeros(len(at))
        parts: list[GateSum | None] = [GateSum({}, bias.astype(np.float64))]
        end = 0
        for vector in self._pieces(x, int(rows[0]) * weights.shape[1], weights.shape[1]):
            begin, end = end, end + vector.count
            parts.append(self._times(weights[outputs, begin:end], vector))
        return _sum(parts)

    def _times(self, matrix: Array, vector: Elements) -> GateSum:
        if vector.name not in self.graph.consts:
            return GateSum({vector: matrix}, np.zeros(len(matrix)))
        constants = self.graph.consts[vector.name].reshape(-1)[vector.first : vector.first + vector.count]
        return GateSum({}, matrix.astype(np.float64) @ constants)

    def _pieces(self, name: str, first: int, count: int) -> list[Elements]:
        """Elements of a value as those of the values that they were taken from, one behind the other."""
        vector = self._vector(name, first, count)
        node = self.producer_of(vector.name, Concat)
        if node is None:
            return [vector]
        shapes = [self.graph.values[x].shape for x in node.inputs]
        ends = np.cumsum([math.prod(shape) for shape in shapes])
        numbers = np.split(np.arange(ends[-1]), ends[:-1])
        (joined,) = op_of(node).float_ref(node.attrs, *(n.reshape(s) for n, s in zip(numbers, shapes, strict=True)))
        taken = joined.reshape(-1)[vector.first : vector.first + count]
        owners = np.searchsorted(ends, taken, "right")
        runs = np.split(taken, np.flatnonzero((np.diff(taken) != 1) | (np.diff(owners) != 0)) + 1)
        pieces = []
        for run in runs:
            owner = int(np.searchsorted(ends, run[0], "right"))
            pieces += self._pieces(node.inputs[owner], int(run[0] - numbers[owner][0]), len(run))
        return pieces

    def _vector(self, name: str, first: int, count: int) -> Elements:
        """Elements of a value as those of the value that they were taken from."""
        at: _At = np.arange(first, first + count)
        elements = Elements(name, first, count)
        while (node := self.producer_of(name, *_MOVES)) is not None:
            name, at = node.inputs[0], self._moved(node)[at]
            if (np.diff(at) == 1).all():
                elements = Elements(name, int(at[0]), count)
        return elements


def _sum(parts: list[GateSum | None]) -> GateSum | None:
    products: dict[Elements, Array] = {}
    bias: npt.NDArray[np.float64] = np.zeros(1)
    for part in parts:
        if part is None:
            return None
        for vector, matrix in part.terms.items():
            products[vector] = products[vector] + matrix if vector in products else matrix
        bias = bias + part.bias
    return GateSum(products, bias) if parts else None
