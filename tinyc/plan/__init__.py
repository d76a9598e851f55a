# SPDX-License-Identifier: Apache-2.0
"""Where every tensor lives and when every node runs, whole layers or row by row."""

from __future__ import annotations

from tinyc.plan.arena import THOROUGH, WORK
from tinyc.plan.needs import Needs
from tinyc.plan.planner import plan_graph, solve
from tinyc.plan.problem import Alias, Buffer, Choice, Plan, Problem, Step, Task, problem_of
from tinyc.plan.schedule import MAX_RUNS
from tinyc.plan.validate import InvalidPlanError, validate

__all__ = [
    "MAX_RUNS",
    "THOROUGH",
    "WORK",
    "Alias",
    "Buffer",
    "Choice",
    "InvalidPlanError",
    "Needs",
    "Plan",
    "Problem",
    "Step",
    "Task",
    "plan_graph",
    "problem_of",
    "solve",
    "validate",
]
