# SPDX-License-Identifier: Apache-2.0
"""What the planner answers: when every layer runs, and where every tensor, every row and all scratch lie.

* group: layers that follow each other in graph order and run by rows, their turns interleaved; or one layer, whole.
  Where all layers run whole, groups may come in another order than the graph's.
* pooled: the rows of a tensor have an address each. contiguous: they lie one after another, because the caller or a
  whole call wants them so; a row that is dead leaves its bytes to others all the same.
* slow part: bytes of the arena in the board's second, slower RAM. Their offsets begin at SLOW; those of the other
  part, which counts as the arena where nothing else is said, at 0.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field
from typing import Literal

from tinyc.base.dataclass import dataclass
from tinyc.choose.select import Choice
from tinyc.kernel.kernel import flash_of
from tinyc.plan.problem import WHOLE, Form, Layer, Problem, Turn

SLOW = 1 << 30


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
class Partition:
    """Groups that cover all layers, the form of each layer, and the weight of all forms."""

    groups: tuple[Group, ...]
    forms: tuple[Form, ...]
    weight: int

    @property
    def cycles(self) -> int:
        return sum(form.cycles for form in self.forms)

    @property
    def flash_bytes(self) -> int:
        return flash_of(form.cost for form in self.forms)


@dataclass(frozen=True, slots=True)
class Allocation:
    """Bytes [offset, offset + size) of the arena, taken in turns [born, dies).

    what: a tensor, or the node whose scratch or accumulator it is. row: of the tensor, or the call of the scratch.
    state: a value that lasts from run to run. Allocations may share bytes in a turn where a tensor is made in place of
    another, uses it up, or is a part of it. What `tinyc estimate --map` draws.
    """

    what: str
    row: int
    offset: int
    size: int
    born: int
    dies: int
    kind: Literal["tensor", "scratch", "accumulator", "state"] = "tensor"


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
class Plan:
    """The order of the turns, the form of every layer, and the place of every row."""

    problem: Problem
    groups: tuple[Group, ...]
    forms: tuple[Form, ...]  # by layer
    row_offsets: Mapping[str, tuple[int, ...]]  # by tensor, of each row when it is made; contiguous tensors too
    scratch_offsets: Mapping[str, tuple[int, ...]]  # by node, of each call, for layers with scratch
    accumulator_offsets: Mapping[str, int]  # by node
    allocations: tuple[Allocation, ...]  # everything above as rectangles over turns and bytes
    arena_bytes: int  # one past the last byte in use
    lower_bound_bytes: int  # no placement is smaller, for these turns and forms
    arena_align: int
    moves: tuple[Move, ...] = ()  # in the order in which they are made
    # Layers that run whole and walk through their rows from the last to the first.
    bottom_up: frozenset[int] = frozenset()
    # Where the values lie that the problem does not have, because they last from run to run.
    lasting: Mapping[str, int] = field(default_factory=dict)
    optimal: bool = False  # proved that no arena is smaller in any order (to within the alignment)
    slow_bytes: int = 0  # one past the last byte in use of the slow part
    slow_waits: int = 0  # cycles that an inference waits for that, estimated
    refused: tuple[str, ...] = ()  # what the validator said of plans that were better, which are faults of the planner

    @property
    def gap_bytes(self) -> int:
        """How far the arena is above the lower bound; 0 proves that these turns cannot do with less."""
        return self.arena_bytes - self.lower_bound_bytes

    @property
    def turns(self) -> tuple[Turn, ...]:
        """All turns, in order."""
        return tuple(turn for group in self.groups for turn in group.turns)

    @property
    def order(self) -> tuple[int, ...]:
        """The layers as their groups run; those of a group in graph order."""
        return tuple(index for group in self.groups for index in range(group.start, group.stop))

    @property
    def layers(self) -> tuple[Layer, ...]:
        """The same as `order`."""
        return tuple(self.problem.layers[index] for index in self.order)

    def runs(self, layer: int) -> bool:
        """Whether anything runs for a layer; not for a join."""
        writes = self.problem.layers[layer].writes
        return not writes or writes[0] not in self.problem.joins

    @property
    def choices(self) -> dict[str, Choice]:
        """The kernel of every node that runs."""
        return {layer.node: form.choice for layer, form in zip(self.problem.layers, self.forms, strict=True)}

    @property
    def runs_by_rows(self) -> bool:
        """Whether any layer does."""
        return not all(group.is_whole for group in self.groups)

    @property
    def is_fused(self) -> bool:
        """Whether concats or slices are not run, because addresses do what they would."""
        return bool(self.problem.joins or self.problem.cuts)

    @property
    def cycles(self) -> int:
        """Estimated, of an inference."""
        return sum(form.cost.cycles for form in self.forms)

    @property
    def flash_bytes(self) -> int:
        """Estimated, of all kernels and constants."""
        return flash_of(form.cost for form in self.forms)

    def place(self, tensor: str, row: int, turn: int) -> int:
        """Where a row lies in a turn."""
        moved = [m.target for m in self.moves if (m.tensor, m.row) == (tensor, row) and m.turn <= turn]
        return moved[-1] if moved else self.row_offsets[tensor][row]

    def offset(self, value: str) -> int:
        """Where a value starts in the arena; KeyError for constants. Only the rows of a contiguous one lie behind each
        other there."""
        if value in self.lasting:
            return self.lasting[value]
        cut = self.problem.cuts.get(value)
        if cut is not None:
            return self.row_offsets[cut.of][0] + cut.offset
        return self.row_offsets[self.problem.tensor_of(value)][0]

    def is_contiguous(self, value: str) -> bool:
        """Whether the value lies in the arena as the caller expects it: row after row."""
        name = self.problem.tensor_of(value)
        if name not in self.row_offsets:  # it lasts, or is a part of a tensor of one row
            return True
        offsets, size = self.row_offsets[name], self.problem.tensors[name].row_bytes
        return all(at == offsets[0] + row * size for row, at in enumerate(offsets))


def in_line(offset: int, arena_bytes: int) -> int:
    """The offset where the slow part begins right behind the other one, as pictures and checks have it."""
    return offset - SLOW + arena_bytes if offset >= SLOW else offset
