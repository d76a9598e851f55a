# SPDX-License-Identifier: Apache-2.0
"""The ways to lay out the arena of a graph: layer by layer, by rows, or as one call of a window that slides; and how a
cut of each is placed."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np

from tinyc.base.dataclass import dataclass
from tinyc.choose.select import Choice
from tinyc.ir.graph import Graph
from tinyc.plan.answer import Partition, Plan
from tinyc.plan.arena import THOROUGH, WORK
from tinyc.plan.builder import Freedom, problem_of, whole_problem
from tinyc.plan.front import Effort, Family
from tinyc.plan.liveness import Load
from tinyc.plan.needs import Needs
from tinyc.plan.placement import FULL_WORK, QUICK_WORK, plan_of
from tinyc.plan.planner import draft_plan
from tinyc.plan.problem import Form, Layer, Problem
from tinyc.plan.row_forms import Candidates
from tinyc.plan.rows.cuts import Measured, measure, without_worse
from tinyc.plan.rows.incremental import incremental_problem
from tinyc.plan.rows.wider import widened
from tinyc.plan.schedule import MAX_RUNS, lightest_order
from tinyc.plan.turns import slots_of, whole_turn

STREAMED_UP_TO = 400  # layers; more take minutes to plan row by row: only where nothing else fits the RAM
_LARGE = 64  # layers; an order of more of them is looked for with less effort
_QUICK_WORK, _QUICK_RUNS = 100_000, 1_000
UNITS, ROW_ADDRESSES = (4, 16), 2**16  # row addresses are multiples; a table holds 16 bits of them


def families_of(
    graph: Graph, choices: Candidates, *, flash_bytes: int | None = None, up_to: int | None = None
) -> list[Family]:
    """Layer by layer; and by rows, where layers can. One with states runs layer by layer: what lasts has a place that
    no row of another tensor takes. flash_bytes: the most that is there. up_to: of more layers none run by rows; None:
    any number."""
    whole = _whole(graph, choices, flash_bytes)
    families = whole.by_shared_code()
    if not graph.states and (up_to is None or len(whole.measured) <= up_to):
        families += by_rows(graph, choices, flash_bytes)
    return families


def by_rows(graph: Graph, choices: Candidates, flash_bytes: int | None, *, input_rows: bool = False) -> list[Family]:
    """By rows; none where no layer can. input_rows: the input comes row by row, too."""
    problem = problem_of(graph, choices, by_rows=input_rows)
    return _of_rows(problem, flash_bytes).by_shared_code() if any(layer.walk for layer in problem.layers) else []


def window(graph: Graph, choices: Candidates, hop: int, flash_bytes: int | None) -> Family:
    """One call of an incremental library, that takes `hop` rows. Raises TinycError naming the layer that cannot."""
    return _of_rows(incremental_problem(graph, choices, hop), flash_bytes)


def _of_rows(problem: Problem, flash_bytes: int | None) -> Family:
    wide = replace(problem, unit=UNITS[-1], scratch_unit=UNITS[-1])
    placed: dict[tuple[object, ...], Plan] = {}  # by what places depend on

    def place(cut: Partition, effort: Effort) -> Plan:
        key = (effort, *map(id, cut.groups), *(form.asks for form in cut.forms))
        if key not in placed:
            plan = plan_of(problem, cut, FULL_WORK if effort == "thorough" else QUICK_WORK, moves=effort != "plain")
            placed[key] = plan if plan.arena_bytes < problem.unit * ROW_ADDRESSES else plan_of(wide, cut)
        return replace(placed[key], forms=cut.forms)

    return Family(without_worse(widened(problem, measure(problem))), flash_bytes, place, problem)


def _whole(graph: Graph, choices: Candidates, flash_bytes: int | None) -> Family:
    """Layer by layer, in an order that leaves as much room as there can be beside each layer's tensors."""
    large = len(choices) > _LARGE
    work, runs = (_QUICK_WORK, _QUICK_RUNS) if large else (WORK, MAX_RUNS)
    leanest = {node: min(own, key=lambda choice: choice.scratch_bytes) for node, own in choices.items()}
    draft = draft_plan(graph, leanest, slide=True)
    problem = whole_problem(graph, leanest, Freedom(slide=True, fuse=draft.is_fused))
    layers = [problem.layers[task] for task in lightest_order(problem, runs)]
    needs = Needs(graph, leanest, [layer.node for layer in layers], draft.is_fused)
    measured = [_step(number, layer, choices[layer.node], needs) for number, layer in enumerate(layers)]

    placed: dict[tuple[object, ...], Plan] = {}  # by what places depend on

    def place(cut: Partition, effort: Effort) -> Plan:
        picked: Mapping[str, Choice] = {form.choice.site.node.name: form.choice for form in cut.forms}
        limit = THOROUGH if effort == "thorough" else work
        fuse = draft.is_fused and effort != "plain"
        own = whole_problem(graph, picked, Freedom(slide=True, fuse=fuse))
        forms = tuple(layer.whole for layer in own.layers)
        key = (effort, *(form.asks for form in forms))
        if key not in placed:
            placed[key] = draft_plan(graph, picked, slide=True, work=limit, runs=runs, fuse=fuse)
        return replace(placed[key], problem=own, forms=forms)

    return Family(measured, flash_bytes, place)


@dataclass(frozen=True, slots=True, eq=False)
class _Whole(Load):
    """Of a layer that runs whole. needs: by id of the choice."""

    needs: Mapping[int, int]

    def need(self, form: Form) -> int:
        return self.needs[id(form.choice)]


def _step(number: int, layer: Layer, choices: Sequence[Choice], needs: Needs) -> Measured:
    forms = tuple(Form(choice, None, choice.cost.in_scratch(choice.scratch_bytes)) for choice in choices)
    by_choice = {id(choice): max(needs.of(layer.node, choice), needs.floor) for choice in choices}
    least = min(by_choice.values())
    own = Layer(layer.node, layer.reads, layer.writes, None, (), forms)
    load = _Whole(np.array([least]), {}, {(): least}, by_choice)
    return Measured(number, number + 1, slots_of(whole_turn(number)), (own,), (load,), least)
