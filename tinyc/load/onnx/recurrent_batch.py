# SPDX-License-Identifier: Apache-2.0
"""Sequences side by side, of several lengths: how recurrent layers cut their inputs, and how their outputs are joined.

Unrolled, a step computes the rows of all sequences that have it in one product. For that the sequences are taken in the
order of their lengths, the longest first, so that those that have a step are always the first ones:

    length 4   0 1 2 3
    length 2   0 1            at step 0 and 1 there are 3 rows, at step 2 and 3 there is 1
    length 2   0 1

Forward, rows end between two steps; backward, they begin there. An output has zeros where a sequence has ended, and
what is left of a sequence of length 0 is zeros, too, whatever it began with: so does ONNX Runtime.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Sequence

import numpy as np

from tinyc.base.dataclass import dataclass
from tinyc.base.errors import TinycError
from tinyc.ir.graph import Value
from tinyc.load.onnx.importing import OnnxStep
from tinyc.load.onnx.recurrent_layer import RecurrentLayer
from tinyc.ops.concat import Concat
from tinyc.ops.pad import Pad
from tinyc.ops.reshape import Reshape
from tinyc.ops.slice import Slice, whole


@dataclass(frozen=True)
class Packed:
    """order: the sequence at each place. rows: of each step that any sequence has, how many have it."""

    order: tuple[int, ...]
    rows: tuple[int, ...]

    @staticmethod
    def of(lengths: Sequence[int]) -> Packed:
        order = sorted(range(len(lengths)), key=lambda b: -lengths[b])
        return Packed(tuple(order), tuple(sum(n > t for n in lengths) for t in range(max(lengths))))

    def first_row(self, t: int) -> int:
        """Where the rows of step t begin among those of all steps."""
        return sum(self.rows[:t])

    def stretches(self) -> Iterator[tuple[range, int]]:
        """Steps one after the other with the same number of rows, and that number."""
        begin = 0
        for count, steps in itertools.groupby(self.rows):
            end = begin + len(list(steps))
            yield range(begin, end), count
            begin = end


def zeros(s: OnnxStep, rows: int, units: int) -> Value:
    return s.builder.add_const(f"{s.node.outputs[0]}:zeros", np.zeros((rows, units), np.float32))


def part(s: OnnxStep, x: Value, axis: int, begin: int, size: int, what: str) -> Value:
    """Some indices of an axis; x itself where those are all."""
    return x if size == x.shape[axis] else s.insert([x], whole(x.shape, axis, begin, size), what)


def joined(s: OnnxStep, parts: Sequence[Value], axis: int, what: str) -> Value:
    return parts[0] if len(parts) == 1 else s.insert(parts, Concat(axis), what)


def in_order(s: OnnxStep, x: Value, axis: int, order: Sequence[int], what: str) -> Value:
    """The indices of an axis in that order."""
    parts, begin = [], 0
    for k in range(1, len(order) + 1):
        if k == len(order) or order[k] != order[k - 1] + 1:
            parts.append(part(s, x, axis, order[begin], k - begin, what))
            begin = k
    return joined(s, parts, axis, what)


def one_sequence(s: OnnxStep, layer: RecurrentLayer, b: int) -> Value:
    """[n,I]: the n steps that a sequence has."""
    count, numbers = layer.lengths[b], layer.x.shape[2]
    begin, size = ((b, 0, 0), (1, count, numbers)) if layer.batch_first else ((0, b, 0), (count, 1, numbers))
    x = layer.x if size == layer.x.shape else s.insert([layer.x], Slice(begin, size, (1, 1, 1)), f"b{b}:sequence")
    return s.reshape(x, (count, numbers), "steps")


def all_steps(s: OnnxStep, layer: RecurrentLayer, packed: Packed) -> Value:
    """The rows [*,I] of all steps, those of one step side by side."""
    x = layer.x
    if layer.batch_first:
        turned = (layer.steps, layer.batch, x.shape[2])
        x = s.reshape(x, turned, "turned") if layer.batch == 1 else s.transpose(x, (1, 0, 2), "turned")
    x = in_order(s, x, 1, packed.order, "ordered")
    parts = []
    for steps, count in packed.stretches():
        size = (len(steps), count, x.shape[2])
        taken = x if size == x.shape else s.insert([x], Slice((steps[0], 0, 0), size, (1, 1, 1)), f"from{steps[0]}")
        parts.append(s.reshape(taken, (len(steps) * count, x.shape[2]), "steps"))
    return joined(s, parts, 0, "steps")


def initial(s: OnnxStep, layer: RecurrentLayer, index: int, direction: int) -> Value | None:
    """[B,U]: what the sequences begin with in that direction; None for zeros."""
    if not s.has(index):
        return None
    constant = s.constant(index)
    if constant is not None and not constant.any():
        return None
    x, count, units = s.value(index), len(layer.directions), layer.units
    shape = (layer.batch, count, units) if layer.batch_first else (count, layer.batch, units)
    if x.shape != shape:
        raise TinycError(f"the initial state is {list(x.shape)}, not {list(shape)}", s.where)
    x = part(s, x, 1 if layer.batch_first else 0, direction, 1, f"d{direction}:initial")
    return s.reshape(x, (layer.batch, units), f"d{direction}:start")


def entering(s: OnnxStep, before: Value | None, start: Value | None, rows: int, what: str) -> Value | None:
    """[rows,U]: what a step begins with: what the step before has left, or `start` of sequences that begin here.
    None for zeros."""
    if before is None:
        return None if start is None else part(s, start, 0, 0, rows, what)
    here = before.shape[0]
    if here >= rows:
        return part(s, before, 0, 0, rows, what)
    more = zeros(s, rows - here, before.shape[1]) if start is None else part(s, start, 0, here, rows - here, what)
    return joined(s, [before, more], 0, what)


def last_rows(s: OnnxStep, layer: RecurrentLayer, states: Sequence[Value], backward: bool, what: str) -> Value:
    """[B,U]: of the states of all steps, those that the sequences end with, the longest first."""
    ends = [states[0]]
    if not backward:
        rows = [state.shape[0] for state in states] + [0]
        ending = [t for t in reversed(range(len(states))) if rows[t] > rows[t + 1]]
        ends = [part(s, states[t], 0, rows[t + 1], rows[t] - rows[t + 1], what) for t in ending]
    return _filled(s, joined(s, ends, 0, what), 0, layer.batch, what)


def _filled(s: OnnxStep, x: Value, axis: int, size: int, what: str) -> Value:
    """x with zeros behind it, so that the axis has that size."""
    if x.shape[axis] == size:
        return x
    after = tuple(size - n if k == axis else 0 for k, n in enumerate(x.shape))
    return s.insert([x], Pad((0,) * len(after), after), f"{what}:filled")


def with_all_steps(s: OnnxStep, layer: RecurrentLayer, x: Value, what: str) -> Value:
    """[T,U] of the steps [n,U] that a sequence has."""
    return _filled(s, x, 0, layer.steps, what)


def all_rows(s: OnnxStep, layer: RecurrentLayer, packed: Packed, hidden: Sequence[Sequence[Value]]) -> Value:
    """The rows of Y, the longest sequences first, of the states of all steps in each direction."""
    parts, units, count = [], layer.units, len(layer.directions)
    for steps, rows in packed.stretches():
        stacked = joined(s, [states[t] for t in steps for states in hidden], 0, "all0")
        if rows < layer.batch:
            stacked = _filled(s, s.reshape(stacked, (len(steps) * count, rows, units), "rows"), 1, layer.batch, "rows")
        parts.append(s.reshape(stacked, (len(steps) * count * layer.batch, units), "rows"))
    return _filled(s, joined(s, parts, 0, "all0"), 0, layer.steps * count * layer.batch, "rows")


def emit(
    s: OnnxStep, layer: RecurrentLayer, output: int, parts: Sequence[Value], order: Sequence[int], axis: int = 0
) -> None:
    """The parts, one after the other along the axis, are [T,D,B,U] or [D,B,U]: make them that output, or the one with
    the batch first. order: the sequence at each place."""
    x, units = joined(s, parts, axis, f"all{output}"), layer.units
    outer = (*((layer.steps,) if output == 0 else ()), len(layer.directions))
    rows = (math.prod(outer), layer.batch, units)
    back = [order.index(b) for b in range(layer.batch)]
    if back != sorted(back):
        x = in_order(s, s.reshape(x, rows, f"all{output}:rows"), 1, back, f"all{output}:ordered")
    if not layer.batch_first:
        s.emit([x], Reshape((*outer, layer.batch, units)), output=output)
        return
    if layer.batch > 1:
        x = s.transpose(s.reshape(x, rows, f"all{output}:rows"), (1, 0, 2), f"all{output}:turned")
    s.emit([x], Reshape((layer.batch, *outer, units)), output=output)
