# SPDX-License-Identifier: Apache-2.0
"""Why layers run whole, and why groups of layers that run row by row end where they do: said below the map."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from tinyc.base.dataclass import dataclass
from tinyc.base.numerics import Numerics
from tinyc.choose.select import Choice
from tinyc.explain.memory_map import map_of
from tinyc.ir.graph import Graph, Node
from tinyc.kernel.site import Site
from tinyc.ops import is_a, op_of
from tinyc.ops.concat import Concat
from tinyc.ops.op import Trait
from tinyc.ops.transpose import Transpose
from tinyc.plan.answer import Plan
from tinyc.plan.builder import problem_of
from tinyc.plan.families import STREAMED_UP_TO
from tinyc.plan.live import round_up
from tinyc.plan.problem import Layer, Problem
from tinyc.plan.rows.cuts import measure_rows
from tinyc.plan.uses import Uses, uses_of


@dataclass(frozen=True, slots=True)
class Boundary:
    """Steps first .. last, and what is to be said of them: by rows, or why not; what would help, or ``. fullest: the
    arena's first peak is in one of them."""

    first: int
    last: int
    by_rows: bool
    reason: str
    hint: str = ""
    fullest: bool = False

    @property
    def steps(self) -> str:
        return f"step {self.first}" if self.first == self.last else f"steps {self.first} to {self.last}"

    def lines(self) -> list[str]:
        """As text."""
        how = "row by row" if self.by_rows else "whole"
        mark = "; the arena is fullest here" if self.fullest else ""
        return [f"{self.steps} {how}: {self.reason}{mark}", *([f"  {self.hint}"] if self.hint else [])]


def boundaries(graph: Graph, choices: Mapping[str, Sequence[Choice]], plan: Plan) -> tuple[Boundary, ...]:
    """Of all steps in order. choices: all kernels of each node."""
    if not plan.runs_by_rows:
        return _layer_by_layer(graph, choices, plan)
    nodes = {node.name: node for node in graph.nodes}
    said = []
    peak, _ = plan.turns[map_of(graph, plan).peak[0]]
    uses = uses_of(plan.problem)
    for number, group in enumerate(plan.groups):
        layer = plan.problem.layers[group.start]
        if group.is_whole and layer.walk is None:
            reason, hint = _needs_all(graph, plan.problem, nodes[layer.node], layer)
            said.append(Boundary(group.start, group.stop - 1, False, reason, hint))
        elif group.is_whole:
            said.append(Boundary(group.start, group.stop - 1, False, "faster than by rows, in no larger arena"))
        else:
            said.append(Boundary(group.start, group.stop - 1, True, _end(graph, plan, number, uses)))
    return tuple(replace(one, fullest=one.first <= peak <= one.last) for one in _joined(said))


def _joined(said: Sequence[Boundary]) -> tuple[Boundary, ...]:
    """Neighbours of which the same is said, as one."""
    joined: list[Boundary] = []
    for one in said:
        last = joined[-1] if joined and joined[-1].last + 1 == one.first else None
        if last is not None and not last.by_rows and replace(one, first=last.first) == replace(last, last=one.last):
            joined[-1] = replace(last, last=one.last)
        else:
            joined.append(one)
    return tuple(joined)


def _end(graph: Graph, plan: Plan, number: int, uses: Uses) -> str:
    """Why the group does not go on into the next one."""
    problem, group = plan.problem, plan.groups[number]
    if number + 1 == len(plan.groups):
        return "to the end of the model"
    following = plan.groups[number + 1]
    layer = problem.layers[following.start]
    title = _title(graph, layer)
    if layer.walk is None:
        return f"up to {title}, which needs all rows"
    needs = []
    for measured in measure_rows(problem, group.start, following.stop, uses):
        least = (
            min(load.need(form) for form in one.row_forms)
            for one, load in zip(measured.layers, measured.loads, strict=True)
        )
        needs.append(max(least))
    crossing = sum(
        round_up(problem.tensors[name].size, problem.unit)
        for name, last in uses.last.items()
        if uses.maker[name] < following.start <= last
    )
    if min(needs) > plan.arena_bytes:
        return f"up to {title}: together they hold {min(needs):,} bytes at least; between them lie {crossing:,}"
    return f"up to {title}: together they fit too, but take more time; between them lie {crossing:,} bytes"


def _title(graph: Graph, layer: Layer) -> str:
    node = next(node for node in graph.nodes if node.name == layer.node)
    return f"{node.op} '{node.layer}'"


def _layer_by_layer(graph: Graph, choices: Mapping[str, Sequence[Choice]], plan: Plan) -> tuple[Boundary, ...]:
    last = max(len(plan.turns) - 1, 0)
    if graph.states:
        reason = "a model with state runs layer by layer: what it keeps from run to run has a place of its own"
        return (Boundary(0, last, False, reason, "the state's own bytes are the least that any plan could take"),)
    if len(plan.turns) > STREAMED_UP_TO:
        reason = f"models of more than {STREAMED_UP_TO} layers run layer by layer where that fits the RAM"
        return (Boundary(0, last, False, reason, "--ram BYTES, less than this arena, looks for groups by rows"),)
    problem = problem_of(graph, choices)
    nodes = {node.name: node for node in graph.nodes}
    steps = {layer.node: number for number, layer in enumerate(plan.layers)}
    stopping = [layer for layer in problem.layers if layer.walk is None and layer.node in steps]
    reason = "row by row would cost more time and flash than the bytes that it saves are worth"
    said = [
        Boundary(0, last, False, reason, "--prefer ram, or --ram BYTES, spends more" if len(stopping) < last else "")
    ]
    for layer in sorted(stopping, key=lambda one: steps[one.node]):
        why, hint = _needs_all(graph, problem, nodes[layer.node], layer)
        said.append(Boundary(steps[layer.node], steps[layer.node], False, why, hint))
    layers = _joined(said[1:])
    return layers if len(stopping) > last else (said[0], *layers)  # where no layer can run by rows, time is no reason


def _needs_all(graph: Graph, problem: Problem, node: Node, layer: Layer) -> tuple[str, str]:
    """Why no kernel makes the layer's rows one at a time, and what would help."""
    short = sorted(name for name in layer.reads if problem.tensors[name].rows == 1)
    if len(short) == len(layer.reads):
        hint = (
            "one column of many rows runs row by row: [1,T,1,C] rather than [1,1,T,C]" if _is_long(graph, node) else ""
        )
        return "its input is one row", hint
    elementwise = op_of(node).rowwise(Site(graph, node, Numerics.OURS))
    cases = (
        (is_a(node, Trait.ALL_AT_ONCE), "reads all of its input for every output", ""),
        (
            elementwise and bool(short),
            f"waits for '{short[0] if short else ''}', which is computed from all rows",
            "as in squeeze and excitation: without the gate its layers could run row by row",
        ),
        (isinstance(node.attrs, Transpose), "makes rows of columns or channels", ""),
        (
            isinstance(node.attrs, Concat),
            "joins rows, or takes a constant",
            "channels and columns are joined row by row",
        ),
        (problem.tensors[layer.writes[0]].rows == 1, "makes one row of all rows", ""),
        (True, "has no kernel that makes one row at a time", ""),
    )
    why, hint = next((why, hint) for holds, why, hint in cases if holds)
    return f"{_title(graph, layer)} {why}", hint


def _is_long(graph: Graph, node: Node) -> bool:
    """Whether it works along a row of many columns, as a layer over time does."""
    shape = graph.values[node.inputs[0]].shape
    return len(shape) == 4 and shape[1] == 1 < shape[2]
