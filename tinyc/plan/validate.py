# SPDX-License-Identifier: Apache-2.0
"""An independent check of a plan: its turns, its places, the lifetimes it reports, and a run of it (`replay.py`).

Uses nothing of the planner but the words of `problem.py` and `answer.py`. Tensors of plans of whole layers are one row.
"""

from __future__ import annotations

from collections.abc import Sequence

from tinyc.plan.answer import Plan, StreamPlan, in_line
from tinyc.plan.problem import WHOLE, Problem, Turn
from tinyc.plan.replay import InvalidPlanError, PlanRun, Replay, require


def validate(problem: Problem, plan: Plan | StreamPlan) -> None:
    """Raise InvalidPlanError unless the plan computes the model: turns, places, lifetimes, bounds."""
    if isinstance(plan, StreamPlan):
        _check_groups(problem, plan)
        _check_rows(problem, plan)
        run = _of_rows(problem, plan)
    else:
        turns = _turns_in_order(problem, plan)
        _check_values(problem, plan)
        run = _of_whole(problem, plan, turns)
        _check_buffers(run, plan)
    _check_places(run, plan)
    Replay(run).run()


def _of_whole(problem: Problem, plan: Plan, turns: Sequence[Turn]) -> PlanRun:
    named = {layer.node: index for index, layer in enumerate(problem.layers)}
    return PlanRun(
        problem=problem,
        turns=turns,
        forms=[layer.whole for layer in problem.layers],
        places={(name, 0): in_line(plan.offsets[name], plan.arena_bytes) for name in problem.tensors},
        scratch={(named[node], WHOLE): at for node, at in plan.scratch_offsets.items()},
        arena_bytes=plan.arena_bytes + plan.slow_bytes,
        bottom_up=frozenset(named[step.node] for step in plan.steps if step.bottom_up),
    )


def _of_rows(problem: Problem, plan: StreamPlan) -> PlanRun:
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
    )


def _turns_in_order(problem: Problem, plan: Plan) -> list[Turn]:
    named = {layer.node: index for index, layer in enumerate(problem.layers)}
    names = [step.node for step in plan.steps]
    require(sorted(names) == sorted(named), "the steps are not the nodes that run, each once")
    made = set(problem.inputs)
    for name in names:
        layer = problem.layers[named[name]]
        for tensor in layer.reads:
            require(tensor in made, f"step '{name}' reads '{tensor}' before it is made")
        made.update(layer.writes)
    for tensor in problem.outputs:
        require(tensor in made, f"no step makes the output '{tensor}'")
    return [(named[name], WHOLE) for name in names]


def _check_groups(problem: Problem, plan: StreamPlan) -> None:
    """Every layer runs once: whole, or all its rows from the first to the last; and in its group's time."""
    counts: dict[int, list[int]] = {index: [] for index in range(len(problem.layers))}
    expected = 0
    for group in plan.groups:
        require(group.start == expected and group.stop > group.start, "groups leave out a layer")
        expected = group.stop
        for index, row in group.turns:
            require(group.start <= index < group.stop, f"layer {index} runs outside its group")
            counts[index].append(row)
    require(expected == len(problem.layers), "groups leave out a layer")
    for index, rows in counts.items():
        walk = problem.layers[index].walk
        by_rows = walk is not None and rows == list(range(walk.turns)) and plan.forms[index].row is not None
        require(by_rows or (rows == [WHOLE] and plan.forms[index].row is None), f"layer {index} does not run once")


def _check_values(problem: Problem, plan: Plan) -> None:
    """Every tensor has a place; a view is where its tensor is."""
    for name in problem.tensors:
        require(name in plan.offsets, f"'{name}' has no place")
    for view, tensor in problem.views.items():
        require(plan.offsets.get(view) == plan.offsets[tensor], f"'{view}' is not where '{tensor}' is")
    for name, cut in problem.cuts.items():
        require(plan.offsets.get(name) == plan.offsets[cut.of] + cut.offset, f"'{name}' is not a part of '{cut.of}'")
        require(0 <= cut.offset <= problem.tensors[cut.of].size - cut.size, f"'{name}' leaves '{cut.of}'")


def _check_buffers(run: PlanRun, plan: Plan) -> None:
    """The lifetimes that the plan reports cover what the steps do."""
    last_use, count = run.last_use(), len(run.turns)
    born = dict.fromkeys(run.problem.inputs, -1)
    born |= {name: step for step, turn in enumerate(run.turns) for name, _ in run.writes(turn)}
    buffers = {buffer.name: buffer for buffer in plan.buffers if not buffer.scratch}
    for name, tensor in run.problem.tensors.items():
        buffer = buffers.get(name)
        if buffer is None:
            raise InvalidPlanError(f"'{name}' has no buffer")
        covered = buffer.born == born[name] and buffer.dies >= min(last_use[name, 0] + 1, count)
        require(covered and buffer.size == tensor.size, f"buffer '{name}' does not cover its use")


def _check_rows(problem: Problem, plan: StreamPlan) -> None:
    """What the caller sees lies row after row, and does not move."""
    for move in plan.moves:
        require(move.size == problem.tensors[move.tensor].row_bytes, f"a part of a row of '{move.tensor}' moves")
        stays = problem.is_resident(move.tensor) or move.tensor in problem.outputs or problem.hop
        require(not stays, f"a row of '{move.tensor}' moves, which must stay")
    for name in problem.tensors:
        fixed = problem.is_resident(name) or name in problem.outputs
        require(plan.is_contiguous(name) or not fixed, f"'{name}' must be contiguous")


def _check_places(run: PlanRun, plan: Plan | StreamPlan) -> None:
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
