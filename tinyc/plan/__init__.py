# SPDX-License-Identifier: Apache-2.0
"""Where every tensor lives and when every node runs, whole layers or row by row."""

from __future__ import annotations

from tinyc.plan.answer import Allocation, Group, Plan
from tinyc.plan.arena import THOROUGH, WORK
from tinyc.plan.builder import Freedom, whole_problem
from tinyc.plan.needs import Needs
from tinyc.plan.planner import draft_plan, plan_graph, solve
from tinyc.plan.problem import Form, Layer, Problem, SlidingInput, TensorRows
from tinyc.plan.replay import InvalidPlanError
from tinyc.plan.schedule import MAX_RUNS
from tinyc.plan.validate import validate

__all__ = [
    "MAX_RUNS",
    "THOROUGH",
    "WORK",
    "Allocation",
    "Form",
    "Freedom",
    "Group",
    "InvalidPlanError",
    "Layer",
    "Needs",
    "Plan",
    "Problem",
    "SlidingInput",
    "TensorRows",
    "draft_plan",
    "plan_graph",
    "solve",
    "validate",
    "whole_problem",
]
