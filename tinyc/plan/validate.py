# SPDX-License-Identifier: Apache-2.0
"""An independent check of a plan: its turns, its places, the lifetimes it reports, and a run of it (`replay.py`).

Uses nothing of the planner but the words of `problem.py` and `answer.py`.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from itertools import pairwise

from tinyc.plan.answer import Allocation, Plan, in_line
from tinyc.plan.problem import WHOLE
from tinyc.plan.replay import InvalidPlanError, PlanRun, Replay, Row, require


def validate(plan: Plan) -> None:
    """Raise InvalidPlanError unless the plan computes the model: turns, places, lifetimes, bounds."""
    _check_groups(plan)
    _check_values(plan)
    run = _run_of(plan)
    _check_turns(run)
    _check_places(run, plan)
    _check_allocations(run, plan)
    Replay(run).run()


def first_valid(plans: Iterable[Plan]) -> Plan:
    """The first plan that `validate` takes; `refused` says what it said of those before. Raises InvalidPlanError where
    it refuses them all."""
    refused: list[InvalidPlanError] = []
    for plan in plans:
        try:
            validate(plan)
        except InvalidPlanError as error:
            refused.append(error)
        else:
            return replace(plan, refused=(*plan.refused, *map(str, refused)))
    raise refused[-1]


def _run_of(plan: Plan) -> PlanRun:
    problem = plan.problem
    return PlanRun(
        problem=problem,
        turns=plan.turns,
        forms=plan.forms,
        places={
            (name, row): in_line(at, plan.arena_bytes)
            for name in problem.tensors
            for row, at in enumerate(plan.row_offsets[name])
        },
        scratch={
            (index, turn if form.row else WHOLE): at
            for index, (layer, form) in enumerate(zip(problem.layers, plan.forms, strict=True))
            for turn, at in enumerate(plan.scratch_offsets.get(layer.node, ()))
        },
        arena_bytes=plan.arena_bytes + plan.slow_bytes,
        accumulators={i: plan.accumulator_offsets.get(layer.node, 0) for i, layer in enumerate(problem.layers)},
        moves=plan.moves,
        bottom_up=plan.bottom_up,
    )


def _check_groups(plan: Plan) -> None:
    """Every layer runs once: whole, or all its rows from the first to the last; and in its group's time."""
    layers = plan.problem.layers
    require(sorted(plan.order) == list(range(len(layers))), "the groups are not the layers that run, each once")
    calls: dict[int, list[int]] = {index: [] for index in plan.order}
    for group in plan.groups:
        for index, row in group.turns:
            require(group.start <= index < group.stop, f"layer {index} runs outside its group")
            calls[index].append(row)
    for index, rows in calls.items():
        walk = layers[index].walk
        by_rows = walk is not None and rows == list(range(walk.turns)) and plan.forms[index].row is not None
        require(by_rows or (rows == [WHOLE] and plan.forms[index].row is None), f"layer {index} does not run once")


def _check_values(plan: Plan) -> None:
    """Every tensor has a place, and so have all its rows; a part of one lies in it. What the caller sees lies row after
    row, and does not move."""
    problem = plan.problem
    for name, tensor in problem.tensors.items():
        require(len(plan.row_offsets.get(name, ())) == tensor.rows, f"'{name}' has no place")
        fixed = problem.is_resident(name) or name in problem.outputs
        require(plan.is_contiguous(name) or not fixed, f"'{name}' must be contiguous")
    for name, cut in problem.cuts.items():
        require(0 <= cut.offset <= problem.tensors[cut.of].size - cut.size, f"'{name}' leaves '{cut.of}'")
    for move in plan.moves:
        require(move.size == problem.tensors[move.tensor].row_bytes, f"a part of a row of '{move.tensor}' moves")
        stays = problem.is_resident(move.tensor) or move.tensor in problem.outputs or problem.hop
        require(not stays, f"a row of '{move.tensor}' moves, which must stay")


def _check_turns(run: PlanRun) -> None:
    """No turn reads a row before it is made, and the outputs are."""
    problem = run.problem
    given = dict(problem.carried) | {name: problem.tensors[name].rows for name in problem.inputs}
    written = {(name, row) for name, rows in given.items() for row in range(rows)}
    for turn in run.turns:
        for name, row in run.reads(turn):
            node = problem.layers[turn[0]].node
            require((name, row) in written, f"step '{node}' reads row {row} of '{name}' before it is made")
        written.update(run.writes(turn))
    for name in problem.outputs:
        rows = range(problem.tensors[name].rows)
        require(all((name, row) in written for row in rows), f"no step makes the output '{name}'")


def _check_allocations(run: PlanRun, plan: Plan) -> None:
    """The lifetimes that the plan reports cover what the turns do: those of every row that is made or read, where it
    is; and of all scratch."""
    reported: dict[tuple[str, Row], list[Allocation]] = {}
    for one in sorted(plan.allocations, key=lambda one: one.born):
        reported.setdefault((one.kind, (one.what, one.row)), []).append(one)
    for (name, row), (born, dies) in run.lives().items():
        if size := run.problem.tensors[name].row_bytes:
            own = reported.get(("tensor", (name, row)), [])
            require(bool(own), f"the plan reports no bytes for row {row} of '{name}'")
            joined = all(one.dies == other.born for one, other in pairwise(own))
            covered = own[0].born <= born and own[-1].dies >= dies and all(one.size == size for one in own)
            there = in_line(own[0].offset, plan.arena_bytes) == run.places[name, row]
            require(joined and covered and there, f"the bytes reported for row {row} of '{name}' do not cover its use")
    for number, turn in enumerate(run.turns):
        if size := run.forms[turn[0]].scratch_at(turn[1]):
            node = run.problem.layers[turn[0]].node
            own = reported.get(("scratch", (node, max(turn[1], 0))), [])
            expected = [(run.scratch[turn], size, number, number + 1)]
            allocations = [(one.offset, one.size, one.born, one.dies) for one in own]
            require(allocations == expected, f"the bytes reported for the scratch of '{node}' do not cover its use")


def _check_places(run: PlanRun, plan: Plan) -> None:
    """Everything is inside one part of the arena and aligned; rows that lie one after another as a whole."""
    problem = run.problem
    apart = {
        name
        for (name, row), at in run.places.items()
        if at != run.places[name, 0] + row * problem.tensors[name].row_bytes
    }
    spans = [
        (f"'{name}'", at, problem.tensors[name].row_bytes, problem.unit if row == 0 or name in apart else 1)
        for (name, row), at in run.places.items()
    ]
    tensors = len(spans)  # what follows has no slow part
    for turn in run.turns:
        node, size = problem.layers[turn[0]].node, run.forms[turn[0]].scratch_at(turn[1])
        require(not size or turn in run.scratch, f"'scratch of {node}' has no place")
        if size:
            spans.append((f"'scratch of {node}'", run.scratch[turn], size, problem.scratch_unit))
    for move in run.moves:
        spans += [
            (f"'{move.tensor}'", at, move.size, unit) for at, unit in ((move.source, 1), (move.target, problem.unit))
        ]
    spans += [
        (f"the accumulator of '{layer.node}'", run.accumulators[index], layer.walk.accumulator_bytes, 1)
        for index, layer in enumerate(problem.layers)
        if plan.slow_bytes and layer.walk is not None and run.forms[index].row is not None
    ]
    for name in problem.tensors if plan.slow_bytes else ():
        parts = {at >= plan.arena_bytes for (of, _), at in run.places.items() if of == name}
        require(len(parts) == 1, f"'{name}' lies in both parts of the arena")
    for number, (what, at, size, unit) in enumerate(spans):
        is_slow = at >= plan.arena_bytes and plan.slow_bytes > 0 and number < tensors
        first = plan.arena_bytes if is_slow else 0
        end = first + (plan.slow_bytes if is_slow else plan.arena_bytes)
        require((at - first) % unit == plan.arena_align % unit == 0, f"{what} is not aligned to {unit} bytes")
        require(0 <= at <= end - size, f"{what} leaves the arena")
    require(plan.lower_bound_bytes <= plan.arena_bytes, "the arena is smaller than its lower bound")
