# SPDX-License-Identifier: Apache-2.0
"""The planner's stages in order: order of steps, lifetimes, offsets, check."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from tinyc.choose.select import Choice
from tinyc.ir.graph import Graph
from tinyc.plan.answer import Plan
from tinyc.plan.arena import WORK
from tinyc.plan.builder import Freedom, whole_problem
from tinyc.plan.live import lower_bound
from tinyc.plan.placement import plan_order
from tinyc.plan.problem import Problem
from tinyc.plan.schedule import MAX_RUNS, best_order, graph_order
from tinyc.plan.validate import validate


def plan_graph(
    graph: Graph,
    choices: Mapping[str, Choice],
    *,
    slide: bool = False,
    work: int = WORK,
    fuse: bool | None = None,
) -> Plan:
    """Order of the steps, lifetimes and arena offsets of a graph; `choices` by node name (views have none).

    Layer by layer: each step finishes its output before the next begins. With `slide`, the output of a row
    kernel may overlap the input that it uses up; Plan.bottom_up then says which way its rows must run.
    work: how long to look for offsets, see `arena.place`. With `fuse`, concats and slices that addresses can do are not
    run; None: where that takes no more bytes. The plan has been validated. Raises TinycError if an output of the model
    is a constant.
    """
    plan = draft_plan(graph, choices, slide=slide, work=work, fuse=fuse)
    validate(plan)
    return plan


def draft_plan(
    graph: Graph,
    choices: Mapping[str, Choice],
    *,
    slide: bool = False,
    work: int = WORK,
    runs: int = MAX_RUNS,
    fuse: bool | None = None,
) -> Plan:
    """As `plan_graph`, of many plans one, of which the one that is taken has to be validated. work: THOROUGH for the
    last of them. runs: how long to look for an order, see `best_order`."""

    def problem_with(moves: bool) -> Problem:
        return whole_problem(graph, choices, Freedom(slide=slide, fuse=moves))

    plan = _drafted(problem_with(fuse is not False), work=work, runs=runs)
    if fuse is not None or not plan.is_fused:
        return plan
    copied = _drafted(problem_with(False), work=work, runs=runs)
    return copied if copied.arena_bytes < plan.arena_bytes else plan


def solve(problem: Problem, exact: bool = False) -> Plan:
    """The smallest plan found, validated: in the graph's own order unless another one gives a smaller arena.

    exact: a plan above its lower bound goes to an exact solver, which improves it or raises the bound; TinycError where
    OR-tools is not installed.
    """
    plan = _drafted(problem, exact)
    validate(plan)
    return plan


def _drafted(problem: Problem, exact: bool = False, work: int = WORK, runs: int = MAX_RUNS) -> Plan:
    best, given = best_order(problem, runs), graph_order(problem)
    plan = plan_order(problem, best.tasks, exact, work)
    if given.tasks != best.tasks and lower_bound(problem, given.tasks) < plan.arena_bytes:
        other = plan_order(problem, given.tasks, exact, work)
        plan = other if other.arena_bytes <= plan.arena_bytes else plan
    least = lower_bound(problem, best.tasks)
    return replace(plan, optimal=best.optimal and plan.arena_bytes <= least)
