# SPDX-License-Identifier: Apache-2.0
"""What the streaming planner is asked (Problem), and what it answers (StreamPlan). It defines every term of stream/.

* row: row r of an image [1,H,W,C], W*C elements. A tensor of another shape is one row.
* layer: a node that runs. It runs *by rows*, one call per output row (or per pair of them), or *whole*, one call for
  its tensors.
* turn: one call: (layer, number of the call), or (layer, WHOLE). Turns have numbers from 0 in the order in which they
  run.
* group: layers that follow each other in graph order and run by rows, their turns interleaved; or one layer, whole.
* a row lives in turns [born, dies), half-open: from the turn that makes it to the last turn that reads it. Rows of the
  model's inputs are there before turn 0, those of its outputs stay to the end. With `by_rows`, an input row
  arrives right before the first turn that reads it or a later row.
* pooled: the rows of a tensor have an address each. contiguous: they lie one after another, because the caller or a
  whole call wants them so; a row that is dead leaves its bytes to others all the same.
* in place: an output row takes exactly the bytes of an input row that dies in the same turn.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import accumulate

from tinyc.choose.select import Choice
from tinyc.kernel.kernel import Cost, RowForm

WHOLE = -1
Turn = tuple[int, int]  # (index of the layer, row; or WHOLE)


@dataclass(frozen=True, slots=True)
class Tensor:
    """`rows` rows of `row_bytes` bytes."""

    name: str
    rows: int
    row_bytes: int

    @property
    def size(self) -> int:
        return self.rows * self.row_bytes


@dataclass(frozen=True, slots=True)
class Form:
    """One way to run a layer: a kernel with what it takes and costs.

    row: how the kernel is called by rows; None: whole. inplace: tensors that the layer reads, of which
    dying rows (whole: all of it) may become the output. tight: turns that run as `spare` says, with less scratch than
    the others, ascending.
    """

    choice: Choice
    row: RowForm | None
    cost: Cost
    inplace: tuple[str, ...] = ()
    spare: RowForm | None = None
    tight: tuple[int, ...] = ()

    @property
    def scratch_bytes(self) -> int:
        """The most in any turn."""
        return self.cost.scratch_bytes

    def scratch_at(self, turn: int) -> int:
        """Bytes in a turn."""
        if self.spare is not None and turn in self.tight:
            return self.spare.scratch_bytes
        return self.cost.scratch_bytes

    @property
    def time(self) -> int:
        return self.cost.time

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

    def made(self, turn: int) -> tuple[int, ...]:
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
        wanted = rows - self.first
        return -(-(wanted + self.phase) // self.rows) if wanted > 0 else 0


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

    def with_walk(self, rows: int, phase: int) -> Layer:
        """The layer with the walk whose calls make so many rows in place of its own."""
        if self.walk is None or (self.walk.rows, self.walk.phase) == (rows, phase):
            return self
        walk, forms = next(one for one in self.wider if (one[0].rows, one[0].phase) == (rows, phase))
        others = [one for one in self.wider if one[0] != walk]
        return replace(self, walk=walk, row_forms=forms, wider=(*others, (self.walk, self.row_forms)))


@dataclass(frozen=True, slots=True)
class Problem:
    """Layers in graph order, the tensors, and which value of the graph is which tensor.

    views: a reshaped value -> its tensor. unit: rows, scratch and tensors start at multiples of it.
    hop: > 0: the turns are those of one call of an incremental library, which takes so many new input rows. kept: the
    first rows of a tensor, which the call finds there; its last rows, as many, are there for the next call. early_sums:
    accumulators count as alive from the first turn of their group on, as their place is where rows move (`compact.py`).
    """

    layers: tuple[Layer, ...]
    tensors: Mapping[str, Tensor]
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    views: Mapping[str, str] = field(default_factory=dict)
    by_rows: bool = False
    unit: int = 4
    scratch_unit: int = 8
    hop: int = 0
    kept: Mapping[str, int] = field(default_factory=dict)
    early_sums: bool = False

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
        return row >= self.tensors[name].rows - self.kept.get(name, 0)


@dataclass(frozen=True, slots=True)
class Group:
    """Layers [start, stop) of the problem, and the turns that run them."""

    start: int
    stop: int
    turns: tuple[Turn, ...]

    @property
    def is_whole(self) -> bool:
        return self.turns[0][1] == WHOLE


@dataclass(frozen=True, slots=True)
class Piece:
    """Bytes [offset, offset + size) of the arena, taken in turns [born, dies).

    what: a tensor, `scratch of <node>` or `accumulator of <node>`. row: of the tensor, or the turn of the scratch.
    Pieces may share bytes in a turn only where `in place` says so. What `tinyc plan` draws.
    """

    what: str
    row: int
    offset: int
    size: int
    born: int
    dies: int


@dataclass(frozen=True, slots=True)
class Move:
    """A row goes from one place to another before a turn, and before rows of the input arrive for it."""

    turn: int
    tensor: str
    row: int
    source: int
    target: int
    size: int


@dataclass(frozen=True, slots=True)
class StreamPlan:
    """The order of the turns, the form of every layer, and the place of every row.

    forms: by layer. row_offsets: by tensor, of each row when it is made; contiguous tensors too. scratch_offsets: by
    node, of each turn, for layers with scratch. accumulator_offsets: by node. lower_bound_bytes: no
    placement is smaller, for these turns and forms. pieces: everything above as rectangles over turns and bytes. moves:
    in the order in which they are made.
    """

    problem: Problem
    groups: tuple[Group, ...]
    forms: tuple[Form, ...]
    row_offsets: Mapping[str, tuple[int, ...]]
    scratch_offsets: Mapping[str, tuple[int, ...]]
    accumulator_offsets: Mapping[str, int]
    pieces: tuple[Piece, ...]
    arena_bytes: int
    lower_bound_bytes: int
    arena_align: int
    moves: tuple[Move, ...] = ()

    @property
    def gap_bytes(self) -> int:
        """How far the arena is above the lower bound."""
        return self.arena_bytes - self.lower_bound_bytes

    @property
    def turns(self) -> tuple[Turn, ...]:
        """All turns, in order."""
        return tuple(turn for group in self.groups for turn in group.turns)

    @property
    def peak(self) -> int:
        """The first turn in which the pieces have the most bytes together."""
        live = [0] * (len(self.turns) + 1)
        for piece in self.pieces:
            live[piece.born] += piece.size
            live[piece.dies] -= piece.size
        totals = list(accumulate(live))
        return totals.index(max(totals))

    @property
    def time(self) -> int:
        """Estimated, of an inference: see Cost.time."""
        return sum(form.time for form in self.forms)

    @property
    def flash_bytes(self) -> int:
        """Estimated, of all kernels and constants."""
        return sum(form.flash_bytes for form in self.forms)

    def place(self, tensor: str, row: int, turn: int) -> int:
        """Where a row lies in a turn."""
        moved = [m.target for m in self.moves if (m.tensor, m.row) == (tensor, row) and m.turn <= turn]
        return moved[-1] if moved else self.row_offsets[tensor][row]

    def offset(self, value: str) -> int:
        """Where a value starts in the arena. Only the rows of a contiguous one lie behind each other there."""
        return self.row_offsets[self.problem.tensor_of(value)][0]

    def is_contiguous(self, value: str) -> bool:
        """Whether the value lies in the arena as the caller expects it: row after row."""
        tensor = self.problem.tensors[self.problem.tensor_of(value)]
        offsets = self.row_offsets[tensor.name]
        return all(at == offsets[0] + row * tensor.row_bytes for row, at in enumerate(offsets))
