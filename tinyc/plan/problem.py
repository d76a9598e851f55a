# SPDX-License-Identifier: Apache-2.0
"""What the planner is asked. Every term of plan/ is defined here and in `answer.py`.

* value: a name of the graph. tensor: bytes in the arena. A reshape makes a new value of the same tensor, so values map
  to tensors (`Problem.views`); constants are neither.
* row: row r of an image [1,H,W,C], W*C elements. A tensor of another shape is one row; so is every tensor of a problem
  whose layers all run whole.
* layer: a node that runs. It runs *whole*, one call for its tensors, or *by rows*, one call per output row (or per pair
  of them).
* turn: one call: (layer, number of the call), or (layer, WHOLE). Turns have numbers from 0 in the order in which they
  run. step: the turn of a layer that runs whole.
* lifetime: [born, dies) in turns, half-open: a row made in turn 2 and last read in turn 5 is [2, 6). What the caller
  writes is there before turn 0, what the model gives stays to the end: no turn may overwrite it. With `by_rows`, an
  input row arrives right before the first turn that reads it or a later row.
* while a turn runs, what it reads, what it makes and its scratch coexist. Two exceptions: in place (an output row, or a
  whole output, takes exactly the bytes of an input that dies here, where the kernel allows it), and sliding (a whole
  call whose input dies here: an output row may take the bytes of input rows that no later row needs, see `slide.py`).
* join: a concat that does nothing, because its inputs were made one after the other in its output's bytes; cut: a slice
  that is a place in its input (`moves.py`). The parts of a join and the join live as long as any of them is read.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import field, replace

from tinyc.base.dataclass import dataclass
from tinyc.choose.select import Choice
from tinyc.kernel.kernel import Cost, RowForm, Rows
from tinyc.plan.moves import Cut, Part

WHOLE = -1
Turn = tuple[int, int]  # (index of the layer, row; or WHOLE)


@dataclass(frozen=True, slots=True)
class TensorRows:
    """`rows` rows of `row_bytes` bytes."""

    name: str
    rows: int
    row_bytes: int

    @property
    def size(self) -> int:
        return self.rows * self.row_bytes


@dataclass(frozen=True, slots=True)
class SlidingInput:
    """How a whole call walks, row by row, from a tensor to its output. forward: only from the first row to the last,
    because the kernel itself does the walking."""

    tensor: str
    rows: Rows
    forward: bool = False

    @property
    def asks(self) -> tuple[object, ...]:
        """All that places depend on: not what rows outside the tensor hold."""
        starts = self.rows.starts and self.rows.starts.data.tobytes()
        return self.tensor, replace(self.rows, pad=None, starts=None), starts, self.forward


@dataclass(frozen=True, slots=True)
class Form:
    """One way to run a layer: a kernel with what it takes and costs.

    row: how the kernel is called by rows; None: whole. inplace: tensors that the layer reads, of which
    dying rows (whole: all of it, from the same start) may become the output. spare_turns: turns that run as `spare`
    says, with less scratch than the others, ascending. sliding: how a whole call uses up its input; None: it wants all
    of it to the end.
    """

    choice: Choice
    row: RowForm | None
    cost: Cost
    inplace: tuple[str, ...] = ()
    spare: RowForm | None = None
    spare_turns: tuple[int, ...] = ()
    sliding: SlidingInput | None = None

    @property
    def scratch_bytes(self) -> int:
        """The most in any turn."""
        return self.cost.scratch_bytes

    def scratch_at(self, turn: int) -> int:
        """Bytes in a turn."""
        if self.spare is not None and turn in self.spare_turns:
            return self.spare.scratch_bytes
        return self.cost.scratch_bytes

    @property
    def asks(self) -> tuple[object, ...]:
        """All that places in the arena depend on: with the same turns, forms that ask for the same are placed alike."""
        rows = self.row.call.rows if self.row is not None else None
        turns = (self.row is None, rows and (rows.out_rows, rows.phase))
        spared, sliding = self.spare and self.spare.scratch_bytes, self.sliding and self.sliding.asks
        return (*turns, self.inplace, self.scratch_bytes, spared, self.spare_turns, sliding)

    @property
    def cycles(self) -> int:
        return self.cost.cycles

    @property
    def flash_bytes(self) -> int:
        return self.cost.flash_bytes


@dataclass(frozen=True, slots=True)
class Walk:
    """How a layer runs by rows: turn r reads rows needs[r] of each tensor that it reads, ascending.

    accumulates: the turns add input rows up, and the last one makes the only output row; accumulator_bytes
    live from the first turn to the last. Otherwise turn r makes the `rows` output rows from r * rows - phase on, as far
    as they are among out_h (0: one per turn); they are counted from `first`.
    """

    needs: tuple[tuple[int, ...], ...]
    accumulator_bytes: int = 0
    first: int = 0
    rows: int = 1
    phase: int = 0
    out_h: int = 0

    @property
    def accumulates(self) -> bool:
        return self.accumulator_bytes > 0

    @property
    def turns(self) -> int:
        return len(self.needs)

    def output_rows(self, turn: int) -> tuple[int, ...]:
        """The output rows that a turn makes; none where it only adds up."""
        if self.accumulates:
            return (0,) if turn == len(self.needs) - 1 else ()
        start = turn * self.rows - self.phase
        stop = min(start + self.rows, self.out_h or self.turns)
        return tuple(range(self.first + max(start, 0), self.first + stop))

    def turns_for(self, rows: int) -> int:
        """How many turns it takes until the output has so many rows."""
        if self.accumulates:
            return self.turns if rows else 0
        missing = rows - self.first
        return -(-(missing + self.phase) // self.rows) if missing > 0 else 0


@dataclass(frozen=True, slots=True)
class Layer:
    """A node that runs: the tensors that it reads and writes, each once, and its forms.

    walk, row_forms: by rows; None and () where no kernel can. whole_forms: whole. Cheapest first. wider: other walks,
    of calls that make more rows, with their forms.
    """

    node: str
    reads: tuple[str, ...]
    writes: tuple[str, ...]
    walk: Walk | None
    row_forms: tuple[Form, ...]
    whole_forms: tuple[Form, ...]
    wider: tuple[tuple[Walk, tuple[Form, ...]], ...] = ()

    @property
    def whole(self) -> Form:
        """How it runs whole: the cheapest way, and the only one where kernels are chosen."""
        return self.whole_forms[0]

    def with_walk(self, rows: int, phase: int) -> Layer:
        """The layer with the walk whose calls make so many rows in place of its own."""
        if self.walk is None or (self.walk.rows, self.walk.phase) == (rows, phase):
            return self
        walk, forms = next(one for one in self.wider if (one[0].rows, one[0].phase) == (rows, phase))
        others = [one for one in self.wider if one[0] != walk]
        return replace(self, walk=walk, row_forms=forms, wider=(*others, (self.walk, self.row_forms)))


@dataclass(frozen=True, slots=True)
class Problem:
    """Layers in graph order, the tensors, and which value of the graph is which tensor."""

    layers: tuple[Layer, ...]
    tensors: Mapping[str, TensorRows]
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    views: Mapping[str, str] = field(default_factory=dict)  # a reshaped value -> its tensor
    by_rows: bool = False
    unit: int = 4  # rows and tensors start at multiples of it
    scratch_unit: int = 8  # scratch starts at multiples of it
    hop: int = 0  # > 0: the turns are those of one call of an incremental library, which takes so many new input rows
    # The first rows of a tensor, which the call finds there; its last rows, as many, are there for the next call.
    carried: Mapping[str, int] = field(default_factory=dict)
    # Accumulators count as alive from the first turn of their group on, as their place is where rows move
    # (`compact.py`).
    early_sums: bool = False
    cuts: Mapping[str, Cut] = field(default_factory=dict)  # values that are a part of a tensor
    # Of what a layer that runs nothing writes, the parts.
    joins: Mapping[str, tuple[Part, ...]] = field(default_factory=dict)

    def leaves(self, name: str) -> tuple[str, ...]:
        """The tensors that a join consists of, joins among them taken apart; of another tensor itself."""
        parts = self.joins.get(name)
        return (name,) if parts is None else tuple(leaf for part in parts for leaf in self.leaves(part.name))

    def tensor_of(self, value: str) -> str:
        return self.views.get(value, value)

    def for_forms(self, forms: Sequence[Form]) -> Problem:
        """The problem whose layers have the walks of these forms, one per layer."""
        rows = [form.row.call.rows if form.row else None for form in forms]
        layers = tuple(
            layer.with_walk(own.out_rows, own.phase) if own else layer
            for layer, own in zip(self.layers, rows, strict=True)
        )
        return replace(self, layers=layers)

    def is_resident(self, name: str) -> bool:
        """Whether the tensor is an input that the caller writes into the arena as a whole."""
        return name in self.inputs and not self.by_rows and not self.hop

    def stays(self, name: str, row: int) -> bool:
        """Whether a row is there for the next call."""
        return row >= self.tensors[name].rows - self.carried.get(name, 0)
