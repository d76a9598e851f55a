# SPDX-License-Identifier: Apache-2.0
"""What the planner answers: when every layer runs, and where every tensor, every row and all scratch lie.

* group: layers that follow each other in graph order and run by rows, their turns interleaved; or one layer, whole.
* pooled: the rows of a tensor have an address each. contiguous: they lie one after another, because the caller or a
  whole call wants them so; a row that is dead leaves its bytes to others all the same.
* slow part: bytes of the arena in the board's second, slower RAM. Their offsets begin at SLOW; those of the other
  part, which counts as the arena where nothing else is said, at 0.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from itertools import accumulate

from tinyc.plan.problem import WHOLE, Form, Problem, Turn

SLOW = 1 << 30


@dataclass(frozen=True, slots=True)
class Alias:
    """`offset` bytes into buffer `of`."""

    of: str
    offset: int = 0


@dataclass(frozen=True, slots=True)
class Buffer:
    """Bytes of the arena: a value, or (scratch=True, named by its node) the scratch of one step.

    Alive in steps [born, dies). alias: these bytes are another buffer's (reshape, in place); both
    together count once.
    """

    name: str
    size: int
    align: int
    born: int
    dies: int
    alias: Alias | None = None
    scratch: bool = False


@dataclass(frozen=True, slots=True)
class PlanStep:
    """A node that runs, and the way it walks through its rows when it is a row kernel. joins: it has nothing to do."""

    node: str
    bottom_up: bool = False
    joins: bool = False


@dataclass(frozen=True, slots=True)
class Plan:
    """The order of the steps and the place of every buffer.

    arena_bytes is one past the last byte in use, slow_bytes the same of the slow part; slow_waits: cycles that an
    inference waits for that, estimated. lower_bound_bytes: no placement is smaller, for
    these steps in this order. optimal: proved that none is in any order (to within the alignment).
    """

    steps: tuple[PlanStep, ...]
    buffers: tuple[Buffer, ...]
    offsets: Mapping[str, int]  # by value name, views included
    scratch_offsets: Mapping[str, int]  # by node name, nodes with scratch only
    arena_bytes: int
    lower_bound_bytes: int
    arena_align: int
    optimal: bool
    fused: bool = False  # concats and slices that addresses can do are not run
    slow_bytes: int = 0
    slow_waits: int = 0

    @property
    def gap_bytes(self) -> int:
        """How far the arena is above the lower bound; 0 proves that this order cannot do with less."""
        return self.arena_bytes - self.lower_bound_bytes

    def offset(self, value: str) -> int:
        """Where a value starts in the arena. KeyError for constants."""
        return self.offsets[value]

    def scratch_offset(self, node: str) -> int:
        """Where the scratch of a node starts; KeyError if it has none."""
        return self.scratch_offsets[node]

    def step_of(self, node: str) -> int:
        """The step that runs `node`; KeyError for views, which do not run."""
        for index, step in enumerate(self.steps):
            if step.node == node:
                return index
        raise KeyError(node)


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
class Allocation:
    """Bytes [offset, offset + size) of the arena, taken in turns [born, dies).

    what: a tensor, `scratch of <node>` or `accumulator of <node>`. row: of the tensor, or the turn of the scratch.
    Allocations may share bytes in a turn only where `in place` says so. What `tinyc plan` draws.
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
    node, of each turn, for layers with scratch. accumulator_offsets: by node. lower_bound_bytes: no placement is
    smaller, for these turns and forms. allocations: everything above as rectangles over turns and bytes. moves: in the
    order in which they are made. slow_bytes, slow_waits: as of Plan.
    """

    problem: Problem
    groups: tuple[Group, ...]
    forms: tuple[Form, ...]
    row_offsets: Mapping[str, tuple[int, ...]]
    scratch_offsets: Mapping[str, tuple[int, ...]]
    accumulator_offsets: Mapping[str, int]
    allocations: tuple[Allocation, ...]
    arena_bytes: int
    lower_bound_bytes: int
    arena_align: int
    moves: tuple[Move, ...] = ()
    slow_bytes: int = 0
    slow_waits: int = 0

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
        """The first turn in which the allocations have the most bytes together."""
        live = [0] * (len(self.turns) + 1)
        for one in self.allocations:
            live[one.born] += one.size
            live[one.dies] -= one.size
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


def in_line(offset: int, arena_bytes: int) -> int:
    """The offset where the slow part begins right behind the other one, as pictures and checks have it."""
    return offset - SLOW + arena_bytes if offset >= SLOW else offset
