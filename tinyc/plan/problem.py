# SPDX-License-Identifier: Apache-2.0
"""What the planner is asked (Problem) and what it answers (Plan). Every term of plan/ is defined here.

* value: a name of the graph. tensor: bytes in the arena. A reshape makes a new value of the same
  tensor, so values map to tensors (`Problem.views`); constants are neither.
* task: a node that runs. step: the place of a task in the chosen order, 0, 1, 2 ...
* lifetime: [born, dies) in steps, half-open: a tensor made at step 2 and last read at step 5 is
  [2, 6). The caller writes the model's inputs before step 0: they are born at -1. The model's outputs
  die at len(steps), so no step may overwrite them.
* while a step runs, the tensors that it reads, those that it makes and its scratch coexist. Two
  exceptions: in place (the kernel allows the output to take the bytes of an input that dies here,
  at the same start), and sliding (a row kernel whose input dies here: an output row may take the
  bytes of input rows that no later call needs, see `slide.py`).
* join: a concat that does nothing, because its inputs were made one after the other in its output's bytes; cut: a slice
  that is a place in its input (`moves.py`). The parts of a join and the join live as long as any of them is read.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence, Set
from dataclasses import dataclass, field
from typing import Protocol

from tinyc.base.errors import TinycError
from tinyc.ir.graph import Graph, Node, Shape
from tinyc.kernel.kernel import Call, In, Kernel, Offer, Rows
from tinyc.ops import all_ops
from tinyc.plan.moves import Cut, Moves, Part, moves_of
from tinyc.plan.states import lasting, views_of


class Choice(Protocol):
    """What the planner reads of a kernel choice (`select` makes them)."""

    @property
    def kernel(self) -> Kernel: ...
    @property
    def offer(self) -> Offer: ...


@dataclass(frozen=True, slots=True)
class Task:
    """A node that runs. `reads` and `writes` are tensors, each once, in the node's order.

    inplace: tensors of `reads` whose bytes `writes[0]` may take, from the same start.
    rows: how the kernel walks from tensor `row_input` to writes[0] (None: it wants whole tensors).
    forward: only from the first row to the last, because the kernel itself does the walking.
    """

    node: str
    reads: tuple[str, ...]
    writes: tuple[str, ...]
    inplace: tuple[str, ...] = ()
    scratch_bytes: int = 0
    rows: Rows | None = None
    row_input: str = ""
    forward: bool = False


@dataclass(frozen=True, slots=True)
class Problem:
    """Tasks in graph order, the bytes of every tensor, and which value is which tensor."""

    tasks: tuple[Task, ...]
    sizes: Mapping[str, int]
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    views: Mapping[str, str] = field(default_factory=dict)  # value -> tensor, reshapes only
    align: int = 4
    scratch_align: int = 16
    cuts: Mapping[str, Cut] = field(default_factory=dict)  # value -> bytes of a tensor
    joins: Mapping[str, tuple[Part, ...]] = field(default_factory=dict)  # what a task that runs nothing writes

    def leaves(self, name: str) -> tuple[str, ...]:
        """The tensors that a join consists of, joins among them taken apart; of another tensor itself."""
        parts = self.joins.get(name)
        return (name,) if parts is None else tuple(leaf for part in parts for leaf in self.leaves(part.name))


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
class Step:
    """A node that runs, and the way it walks through its rows when it is a row kernel. joins: it has nothing to do."""

    node: str
    bottom_up: bool = False
    joins: bool = False


@dataclass(frozen=True, slots=True)
class Plan:
    """The order of the steps and the place of every buffer.

    arena_bytes is one past the last byte in use. lower_bound_bytes: no placement is smaller, for
    these steps in this order. optimal: proved that none is in any order (to within the alignment).
    """

    steps: tuple[Step, ...]
    buffers: tuple[Buffer, ...]
    offsets: Mapping[str, int]  # by value name, views included
    scratch_offsets: Mapping[str, int]  # by node name, nodes with scratch only
    arena_bytes: int
    lower_bound_bytes: int
    arena_align: int
    optimal: bool
    fused: bool = False  # concats and slices that addresses can do are not run

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


def problem_of(
    graph: Graph,
    choices: Mapping[str, Choice],
    *,
    slide: bool = False,
    align: int = 4,
    scratch_align: int = 16,
    fuse: bool = False,
) -> Problem:
    """The planning problem of a graph whose kernels are chosen.

    With `slide`, row kernels may overlap input and output as far as rows are used up; with `fuse`, concats and slices
    that addresses can do are not run. Raises TinycError if an output of the model is a constant or a reshape of one.
    """
    kept = lasting(graph)
    moves = moves_of(graph, align) if fuse else Moves(views_of(graph))
    views = {**moves.views, **{name: cut.of for name, cut in moves.cuts.items()}}
    tasks = [
        task_of(graph, node, choices[node.name], moves, slide, kept)
        for node in graph.nodes
        if not all_ops()[node.op].view and node.outputs[0] not in moves.cuts
    ]
    wanted = [name for name in graph.sinks if views.get(name, name) not in kept]
    for name in wanted:
        if views.get(name, name) in graph.consts:
            message = f"output '{name}' of the model is a constant"
            raise TinycError(message, graph.values[name].loc, "remove it from the outputs")
    sizes = {
        name: value.size_bytes
        for name, value in graph.values.items()
        if name not in views and name not in graph.consts and name not in kept
    }
    used = {name for task in tasks for name in task.reads + task.writes} | set(graph.inputs)
    return Problem(
        tasks=tuple(tasks),
        sizes={name: size for name, size in sizes.items() if name in used},
        inputs=graph.inputs,
        outputs=tuple(dict.fromkeys(views.get(name, name) for name in wanted)),
        views={name: tensor for name, tensor in moves.views.items() if tensor in used},
        align=align,
        scratch_align=scratch_align,
        cuts=moves.cuts,
        joins=moves.joins,
    )


def task_of(graph: Graph, node: Node, choice: Choice, moves: Moves, slide: bool, kept: Set[str]) -> Task:
    """The task of a node with this kernel. kept: values that last from run to run, and have places of their own.

    Parts of tensors, and tensors that become part of a join, are not given up to an output.
    """
    cuts = moves.cuts
    tensors = [cuts[name].of if name in cuts else moves.views.get(name, name) for name in node.inputs]
    if node.outputs[0] in moves.joins:
        return Task(node.name, tuple(dict.fromkeys(tensors)), node.outputs)
    parts = {part.name for parts in moves.joins.values() for part in parts}
    parts |= {cuts[name].of for name in node.inputs if name in cuts}
    arena = [name for name in tensors if name and name not in graph.consts and name not in kept]
    own = kept.isdisjoint((*tensors, *node.outputs))  # reads and writes nothing but buffers of this plan
    call = choice.offer.call() if slide and own else None
    rows = (call.flow or call.rows) if call is not None else None
    row_input = _row_input(graph, node, call, rows, moves.views)
    row_input = "" if row_input in parts or not cuts.keys().isdisjoint(node.inputs) else row_input
    inplace = _inplace(graph, node, arena, tensors, choice.kernel) if node.outputs[0] not in kept else ()
    return Task(
        node=node.name,
        reads=tuple(dict.fromkeys(arena)),
        writes=tuple(name for name in node.outputs if name not in kept),
        inplace=tuple(name for name in inplace if name not in parts and not _shares(name, arena, moves)),
        scratch_bytes=choice.offer.scratch_bytes,
        rows=rows if row_input else None,
        row_input=row_input,
        forward=call is not None and call.flow is not None,
    )


def _shares(name: str, reads: Sequence[str], moves: Moves) -> bool:
    """Whether the tensor is a join of which one of the others read is a part."""
    parts = {part.name for part in moves.joins.get(name, ())}
    return not parts.isdisjoint(reads) or any(_shares(part, reads, moves) for part in parts)


def _inplace(graph: Graph, node: Node, arena: list[str], tensors: list[str], kernel: Kernel) -> tuple[str, ...]:
    """Tensors whose bytes the output may take: same shape (no broadcast; or more, where the kernel shrinks),
    no wider type, and no input that the kernel reads in another order is the same tensor."""
    y, allowed = graph.values[node.outputs[0]], kernel.inplace
    found = []
    for i in allowed:
        name = tensors[i] if i < len(tensors) else ""
        if name not in arena or name in found:
            continue
        x = graph.values[node.inputs[i]]
        alone = all(j in allowed for j, other in enumerate(tensors) if other == name)
        fits = kernel.shrinks or _extents(x.shape) == _extents(y.shape)
        if alone and fits and y.size_bytes <= x.size_bytes:
            found.append(name)
    return tuple(found)


def _extents(shape: Shape) -> Shape:
    """The shape without leading ones, which broadcasting ignores."""
    ones = next((i for i, n in enumerate(shape) if n != 1), len(shape))
    return shape[ones:]


def _row_input(graph: Graph, node: Node, call: Call | None, rows: Rows | None, views: Mapping[str, str]) -> str:
    """The tensor that a call walks through row by row; "" if it may not slide.

    It must be the only tensor of the arena that the node reads, once, and the rows must be all of it.
    """
    if call is None or rows is None or len(node.outputs) != 1:
        return ""
    indices = {arg.index for arg in call.args if isinstance(arg, In)}
    arena = [i for i, name in enumerate(node.inputs) if name and views.get(name, name) not in graph.consts]
    if len(indices) != 1 or arena != list(indices):
        return ""
    x, y = graph.values[node.inputs[arena[0]]], graph.values[node.outputs[0]]
    if (rows.in_h * rows.in_row_bytes, rows.out_h * rows.out_row_bytes) != (x.size_bytes, y.size_bytes):
        return ""
    return views.get(x.name, x.name)
