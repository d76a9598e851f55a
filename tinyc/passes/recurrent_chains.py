# SPDX-License-Identifier: Apache-2.0
"""Steps of a recurrent layer, one behind another: each begins where another ended, with the same weights, and their
inputs are neighbouring rows of one value."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import pairwise

import numpy as np

from tinyc.base.dataclass import dataclass
from tinyc.ir.graph import Array
from tinyc.passes.recurrent_cells import Cell, Elements, GateSum, Reader

_FEWEST = 2  # steps that are worth a loop


@dataclass(frozen=True, slots=True)
class CellStep:
    """x: its input; before: the hidden state that it begins with, None if that is zero. w [G,U,I], r [G,U,U], bias
    [G,U]; late [U] of a GRU, else None. r is None where `before` is."""

    cell: Cell
    x: Elements
    before: Elements | None
    w: Array
    r: Array | None
    bias: Array
    late: Array | None

    def continues(self, other: CellStep) -> bool:
        """Whether the weights are those of another step, which has all of them. Biases may be added up in another
        order."""
        same = np.array_equal(self.w, other.w) and (self.r is None or _equal(self.r, other.r))
        return same and _near(self.bias, other.bias) and _near(self.late, other.late)


def _equal(a: Array, b: Array | None) -> bool:
    return b is not None and np.array_equal(a, b)


def _near(a: Array | None, b: Array | None) -> bool:
    if a is None or b is None:
        return a is b
    return bool(np.allclose(a, b, rtol=1e-5, atol=1e-6 * float(np.abs(b).max(initial=0.0))))


def next_chain(reader: Reader, refused: set[str]) -> list[CellStep] | None:
    """The first steps that make a loop, but for those whose last hidden state is among the refused."""
    candidates = (reader.cell(node) for node in reader.graph.nodes)
    cells = [cell for cell in candidates if cell is not None]
    ends = {cell.left: cell for cell in cells}
    after: dict[str, list[Cell]] = {}
    for cell in cells:
        earlier = None if cell.before is None else ends.get(cell.before)
        if earlier is not None:
            after.setdefault(earlier.hidden, []).append(cell)
    linked = {cell.hidden for later in after.values() for cell in later}
    chains = (_beginning_with(reader, cell, after) for cell in cells if cell.hidden not in linked)
    return next((chain for chain in chains if chain and chain[-1].cell.hidden not in refused), None)


def _beginning_with(reader: Reader, first: Cell, after: Mapping[str, Sequence[Cell]]) -> list[CellStep]:
    """The steps from a cell on, or from the one behind it; none if they are no loop."""
    steps: list[CellStep] = []
    last = first
    while len(following := after.get(last.hidden, ())) == 1:
        step = _linked(following[0], Elements(last.hidden, 0, reader.graph.values[last.hidden].elements))
        if step is None or (steps and not (step.continues(steps[0]) and _in_line(reader, [*steps[-2:], step]))):
            break
        steps.append(step)
        last = following[0]
    start = _start(reader, first, steps[0]) if steps else None
    if start is not None and _in_line(reader, [start, *steps[:2]]):
        steps.insert(0, start)
    return steps if len(steps) >= _FEWEST and _in_line(reader, steps) else []


def _in_line(reader: Reader, steps: Sequence[CellStep]) -> bool:
    """Whether the inputs are neighbouring rows of one value, forwards or backwards."""
    x = steps[0].x
    ways = {b.x.first - a.x.first for a, b in pairwise(steps)}
    rows = all((s.x.name, s.x.count) == (x.name, x.count) and s.x.first % x.count == 0 for s in steps)
    return rows and ways in ({x.count}, {-x.count}) and reader.graph.values[x.name].elements % x.count == 0


def _linked(cell: Cell, before: Elements) -> CellStep | None:
    """A step behind another, whose hidden state `before` is."""
    others = _vectors(cell) - {before}
    return _step(cell, cell.gates, others.pop(), before) if len(others) == 1 else None


def _vectors(cell: Cell) -> set[Elements]:
    return {vector for gate in cell.gates if gate is not None for vector in gate.terms}


def _start(reader: Reader, cell: Cell, following: CellStep) -> CellStep | None:
    """The step before all others. Where its states are zero, products with them may be gone."""
    vectors, x = _vectors(cell), following.x
    near = [neighbour for way in (-x.count, x.count) if (neighbour := replace(x, first=x.first + way)) in vectors]
    others = vectors.difference(near)
    if len(near) != 1 or len(others) > 1:
        return None
    before = next(iter(others), None)
    if cell.kind == "gru" and before != (None if cell.before is None else reader.all_of(cell.before)):
        return None
    missing = GateSum({near[0]: following.w[1]}, following.bias[1])
    step = _step(cell, [missing if gate is None else gate for gate in cell.gates], near[0], before)
    return step if step is not None and step.continues(following) else None


def _step(cell: Cell, gates: Sequence[GateSum | None], x: Elements, before: Elements | None) -> CellStep | None:
    """None if a gate is anything but products with all of the vectors that go into it."""
    lstm, gate_sums = cell.kind == "lstm", [gate for gate in gates if gate is not None]
    over_x, over_state = (range(4), range(4)) if lstm else ((0, 1, 2), (0, 1, 3))
    expected = [{*([x] if k in over_x else []), *([before] if before and k in over_state else [])} for k in range(4)]
    if [gate.terms.keys() for gate in gate_sums] != expected:
        return None
    w, bias = (
        np.stack(part) for part in zip(*((gate_sums[k].terms[x], gate_sums[k].bias) for k in over_x), strict=True)
    )
    r = None if before is None else np.stack([gate_sums[k].terms[before] for k in over_state])
    return CellStep(cell, x, before, w, r, bias, None if lstm else gate_sums[3].bias)
