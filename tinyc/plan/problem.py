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
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol

from tinyc.errors import TinycError
from tinyc.ir.graph import Graph, Node, Shape
from tinyc.kernels import Call, In, Kernel, Rows
from tinyc.ops import all_ops


class Choice(Protocol):
    """What the planner reads of a kernel choice (`select` makes them)."""

    @property
    def site(self) -> Any: ...
    @property
    def params(self) -> Any: ...
    @property
    def kernel(self) -> Kernel: ...
    @property
    def scratch_bytes(self) -> int: ...


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
    """A node that runs, and the way it walks through its rows when it is a row kernel."""

    node: str
    bottom_up: bool = False


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
) -> Problem:
    """The planning problem of a graph whose kernels are chosen.

    With `slide`, row kernels may overlap input and output as far as rows are used up. Raises
    TinycError if an output of the model is a constant or a reshape of one.
    """
    views: dict[str, str] = {}
    tasks = []
    for node in graph.nodes:
        if all_ops()[node.op].view:
            source = node.inputs[0]
            views[node.outputs[0]] = views.get(source, source)
        else:
            tasks.append(_task(graph, node, choices[node.name], views, slide))
    for name in graph.outputs:
        if views.get(name, name) in graph.consts:
            message = f"output '{name}' of the model is a constant"
            raise TinycError(message, graph.values[name].loc, "remove it from the outputs")
    sizes = {
        name: value.size_bytes for name, value in graph.values.items() if name not in views and name not in graph.consts
    }
    used = {name for task in tasks for name in task.reads + task.writes} | set(graph.inputs)
    return Problem(
        tasks=tuple(tasks),
        sizes={name: size for name, size in sizes.items() if name in used},
        inputs=graph.inputs,
        outputs=tuple(dict.fromkeys(views.get(name, name) for name in graph.outputs)),
        views={name: tensor for name, tensor in views.items() if tensor in used},
        align=align,
        scratch_align=scratch_align,
    )


def _task(graph: Graph, node: Node, choice: Choice, views: Mapping[str, str], slide: bool) -> Task:
    tensors = [views.get(name, name) for name in node.inputs]
    arena = [name for name in tensors if name and name not in graph.consts]
    call = choice.kernel.lower(choice.site, choice.params) if slide else None
    rows = (call.flow or call.rows) if call is not None else None
    row_input = _row_input(graph, node, call, rows, views)
    return Task(
        node=node.name,
        reads=tuple(dict.fromkeys(arena)),
        writes=node.outputs,
        inplace=_inplace(graph, node, tensors, choice.kernel),
        scratch_bytes=choice.scratch_bytes,
        rows=rows if row_input else None,
        row_input=row_input,
        forward=call is not None and call.flow is not None,
    )


def _inplace(graph: Graph, node: Node, tensors: list[str], kernel: Kernel) -> tuple[str, ...]:
    """Tensors whose bytes the output may take: same shape (no broadcast; or more, where the kernel shrinks),
    no wider type, and no input that the kernel reads in another order is the same tensor."""
    y, allowed = graph.values[node.outputs[0]], kernel.inplace
    found = []
    for i in allowed:
        name = tensors[i] if i < len(tensors) else ""
        if not name or name in graph.consts or name in found:
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
