# SPDX-License-Identifier: Apache-2.0
"""The smallest offsets, with proof, by the CP-SAT solver of OR-tools (optional: 80 MB with what it needs).

One integer per block, and for each pair of blocks alive together the distances that they allow each
other. The solver starts from the offsets that `arena.place` found, works single-threaded and counts its effort
instead of timing it, so one version of it gives one answer.
"""

from __future__ import annotations

from collections.abc import Sequence

from tinyc.base.dataclass import dataclass
from tinyc.base.extras import load_extra
from tinyc.plan.arena import height
from tinyc.plan.blocks import Interval, Layout

EFFORT = 5.0  # the solver's deterministic seconds


@dataclass(frozen=True, slots=True)
class SolverAnswer:
    """The best offsets known, and a height that no offsets can go below."""

    offsets: tuple[int, ...]
    lower_bound: int


def prove(layout: Layout, lower_bound: int, offsets: Sequence[int], effort: float = EFFORT) -> SolverAnswer:
    """Offsets at least as good as those given, and the best lower bound that was proved for the layout.

    Raises TinycError if OR-tools is not installed.
    """
    cp_model = load_extra("ortools.sat.python.cp_model", "exact", "the exact planner")
    upper_bound = height(layout, offsets)
    if upper_bound <= lower_bound:
        return SolverAnswer(tuple(offsets), lower_bound)
    model = cp_model.CpModel()
    top = model.new_int_var(lower_bound, upper_bound, "top")
    units = [model.new_int_var(0, (upper_bound - block.size) // block.align, "") for block in layout.blocks]
    starts = [unit * block.align for unit, block in zip(units, layout.blocks, strict=True)]
    for i, block in enumerate(layout.blocks):
        model.add(starts[i] + block.size <= top)
        model.add_hint(units[i], offsets[i] // block.align)
        for j, intervals in layout.forbidden[i].items():
            if j < i:
                allowed = cp_model.Domain.from_intervals(_complement(intervals, upper_bound))
                model.add_linear_expression_in_domain(starts[i] - starts[j], allowed)
    model.minimize(top)
    solver = cp_model.CpSolver()
    solver.parameters.num_workers = 1
    solver.parameters.random_seed = 0
    solver.parameters.max_deterministic_time = effort
    status = solver.solve(model)
    bound = max(lower_bound, round(solver.best_objective_bound))
    if status not in (cp_model.OPTIMAL, cp_model.FEASIBLE):
        return SolverAnswer(tuple(offsets), lower_bound)
    placed = tuple(solver.value(start) for start in starts)
    return SolverAnswer(placed if height(layout, placed) < upper_bound else tuple(offsets), bound)


def _complement(forbidden: Sequence[Interval], reach: int) -> list[list[int]]:
    """Closed intervals of [-reach, reach] outside the open `forbidden` ones, which are sorted and disjoint."""
    edges = [-reach, *(edge for interval in forbidden for edge in interval), reach]
    return [[low, high] for low, high in zip(edges[::2], edges[1::2], strict=True) if low <= high]
