# SPDX-License-Identifier: Apache-2.0
"""Plans by execution: every step runs on one array of bytes, with kernels that read while they write.

Independent of the validator: what counts is that the bytes of the outputs are those of a run in which every
tensor has memory of its own. The kernels are the worst that the contract allows: a row call writes byte by
byte and reads its inputs anew for each, an in-place kernel reads an element just before it writes it.
"""

from __future__ import annotations

import random
from collections.abc import Mapping
from dataclasses import replace

import numpy as np
import pytest

from tests.unit.plan_problems import random_problem, with_moves, without_sliding
from tinyc.kernel.kernel import Across
from tinyc.plan import InvalidPlanError, Layer, Plan, Problem, SlidingInput, solve, validate
from tinyc.plan.placement import in_order, plan_of


class Memory:
    """Bytes of an arena, or (plan None) of tensors apart."""

    def __init__(self, problem: Problem, plan: Plan | None) -> None:
        rng = np.random.default_rng(1)
        at, self.places, self.scratch, self.apart = 0, {}, {}, plan is None
        for name, tensor in problem.tensors.items():
            self.places[name] = at if plan is None else plan.offset(name)
            at += tensor.size
        for task in problem.layers:
            self.scratch[task.node] = at if plan is None else plan.scratch_offsets.get(task.node, (0,))[0]
            at += task.whole.scratch_bytes
        self.bytes = rng.integers(0, 256, at if plan is None else plan.arena_bytes).tolist()

    def get(self, name: str, i: int) -> int:
        return int(self.bytes[self.places[name] + i])

    def put(self, name: str, i: int, value: int) -> None:
        self.bytes[self.places[name] + i] = value % 251


def execute(problem: Problem, plan: Plan | None) -> dict[str, list[int]]:
    """The output bytes of the model; without a plan, of its layers in graph order and each tensor apart."""
    memory = Memory(problem, plan)
    for n, name in enumerate(problem.inputs):
        for i in range(problem.tensors[name].size):
            memory.put(name, i, 7 * n + 3 * i + 1)
    for index in range(len(problem.layers)) if plan is None else plan.order:
        run(problem, problem.layers[index], plan is not None and index in plan.bottom_up, memory)
    return {name: [memory.get(name, i) for i in range(problem.tensors[name].size)] for name in problem.outputs}


def run(problem: Problem, task: Layer, bottom_up: bool, memory: Memory) -> None:
    key = sum(map(ord, task.node))
    for i in range(task.whole.scratch_bytes):
        memory.bytes[memory.scratch[task.node] + i] = (key + 5 * i) % 251
    if task.writes[0] in problem.joins:
        parts = [memory.get(x, i) for x in task.reads for i in range(problem.tensors[x].size)]
        for i, value in enumerate(parts):
            assert memory.apart or memory.get(task.writes[0], i) == value  # nothing runs: it is there
            memory.put(task.writes[0], i, value)
    elif task.whole.sliding is not None:
        run_rows(task, task.whole.sliding, bottom_up, memory, key)
    elif task.whole.inplace:
        for i in range(problem.tensors[task.writes[0]].size):
            memory.put(task.writes[0], i, key + sum((k + 2) * memory.get(x, i) for k, x in enumerate(task.reads)))
    else:
        for number, y in enumerate(task.writes):
            for i in range(problem.tensors[y].size):
                value = key + 31 * number + i
                for k, x in enumerate(task.reads):
                    value = value * 3 + sum(memory.get(x, j) * (j + k + 1) for j in range(problem.tensors[x].size))
                memory.put(y, i, value)
    for i in range(task.whole.scratch_bytes):  # nobody else touched it while the kernel ran
        assert memory.bytes[memory.scratch[task.node] + i] == (key + 5 * i) % 251


def run_rows(task: Layer, sliding: SlidingInput, bottom_up: bool, memory: Memory, key: int) -> None:
    rows, y = sliding.rows, task.writes[0]
    if rows.across is not None:
        run_along(task, sliding, rows.across, memory, key)
        return
    starts = range(0, rows.out_h, rows.out_rows)
    for start in reversed(starts) if bottom_up else starts:
        places = [
            (r, b) for r in range(start, min(start + rows.out_rows, rows.out_h)) for b in range(rows.out_row_bytes)
        ]
        if rows.buffered:
            values = [row_byte(sliding, memory, r, b, key) for r, b in places]
            for (r, b), value in zip(places, values, strict=True):
                memory.put(y, r * rows.out_row_bytes + b, value)
        else:
            for r, b in places:
                memory.put(y, r * rows.out_row_bytes + b, row_byte(sliding, memory, r, b, key))


def run_along(task: Layer, sliding: SlidingInput, across: Across, memory: Memory, key: int) -> None:
    """Piece by piece; what a call has read of its window's rows goes into all bytes that it writes from then on."""
    rows = sliding.rows
    in_w, out_w = rows.in_row_bytes // across.in_step, rows.out_row_bytes // across.out_step
    for start in range(0, rows.out_h, rows.out_rows):
        rows_of_call = range(start, min(start + rows.out_rows, rows.out_h))
        taps = {r * rows.stride - rows.pad_top + k * rows.dilation for r in rows_of_call for k in range(rows.k_h)}
        window = sorted(i for i in taps if 0 <= i < rows.in_h)
        columns_read, value = 0, key
        for left in range(0, out_w, across.columns):
            until = min(in_w, across.ahead + left * across.stride)
            for i in window:
                for j in range(columns_read * across.in_step, until * across.in_step):
                    value += memory.get(sliding.tensor, i * rows.in_row_bytes + j) * (i + j + 2)
            columns_read = max(columns_read, until)
            for r in rows_of_call:
                for b in range(left * across.out_step, min(left + across.columns, out_w) * across.out_step):
                    memory.put(task.writes[0], r * rows.out_row_bytes + b, value + 3 * r + b)


def row_byte(sliding: SlidingInput, memory: Memory, r: int, b: int, key: int) -> int:
    rows, value = sliding.rows, key + b
    for k in range(rows.k_h):
        i = r * rows.stride - rows.pad_top + k * rows.dilation
        if 0 <= i < rows.in_h:
            value += sum(
                memory.get(sliding.tensor, i * rows.in_row_bytes + j) * (k + j + 2) for j in range(rows.in_row_bytes)
            )
    return value


def expected(problem: Problem) -> Mapping[str, list[int]]:
    return execute(problem, None)


@pytest.mark.quick_cases(20)
@pytest.mark.parametrize("seed", range(100))
def test_every_plan_computes_the_model(seed: int) -> None:
    problem = random_problem(seed, 9, width=4)
    plan = solve(problem)
    assert plan.lower_bound_bytes <= plan.arena_bytes
    assert execute(problem, plan) == expected(problem)


@pytest.mark.quick_cases(2)
@pytest.mark.parametrize("first", range(0, 300, 50))
def test_layers_that_run_whole_where_rows_could_move(first: int) -> None:
    """Their inputs are there before turn 0, some of them are never read."""
    for seed in range(first, first + 50):
        problem = without_sliding(random_problem(seed, 14, width=6))
        plan = plan_of(problem, in_order(problem, range(len(problem.layers))), work=1)
        validate(plan)
        assert execute(problem, plan) == expected(problem)


@pytest.mark.quick_cases(30)
@pytest.mark.parametrize("seed", range(150))
def test_every_plan_with_joins_computes_the_model(seed: int) -> None:
    problem = with_moves(random_problem(seed, 7, width=4), seed)
    plan = solve(problem, exact=seed % 10 == 0)
    assert plan.lower_bound_bytes <= plan.arena_bytes
    assert execute(problem, plan) == expected(problem)
    for name, cut in problem.cuts.items():
        assert plan.offset(name) == plan.offset(cut.of) + cut.offset


def test_what_the_validator_accepts_computes_the_model() -> None:
    """Buffers thrown about and directions flipped: most such plans are wrong, and no wrong one is accepted."""
    accepted = wrong = 0
    for seed in range(160):
        rng = random.Random(seed)
        problem = random_problem(seed, 5, width=3, largest=12)
        problem = with_moves(problem, seed) if seed % 2 else problem
        plan = shaken(solve(problem), rng)
        try:
            validate(plan)
        except InvalidPlanError:
            wrong += 1
            continue
        accepted += 1
        assert execute(problem, plan) == expected(problem)
    assert accepted > 20
    assert wrong > 20


def shaken(plan: Plan, rng: random.Random) -> Plan:
    """The plan with a tensor somewhere else in a slightly larger arena, or with other directions; it says so."""
    arena, problem = plan.arena_bytes + rng.choice([0, 8, 16]), plan.problem
    name = rng.choice(list(problem.tensors))
    place = rng.randrange(0, max(arena - problem.tensors[name].size, 0) + 1) // problem.unit * problem.unit
    told = [replace(one, offset=place) if (one.kind, one.what) == ("tensor", name) else one for one in plan.allocations]
    turned = {index for index in plan.order if (index in plan.bottom_up) ^ (rng.random() < 0.3)}
    return replace(
        plan,
        arena_bytes=arena,
        row_offsets={**plan.row_offsets, name: (place,)},
        allocations=tuple(told),
        bottom_up=frozenset(rng.choice([turned, plan.bottom_up])),
    )
