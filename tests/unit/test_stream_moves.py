# SPDX-License-Identifier: Apache-2.0
"""Rows that move between turns: the arena that it saves, plans that run, libraries, what the validator refuses."""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import replace
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest

from tests.ops.harness import HOST_ISA, run_program
from tests.unit.stream_cases import NUMERICS, Machine, by_cycles, random_sample
from tests.unit.test_stream_ends import bound_of, layout_of
from tests.unit.test_stream_wider import network
from tinyc.choose.select import candidates
from tinyc.emit.library import Info, emit_library
from tinyc.emit.lower import lower
from tinyc.emit.order import in_turn
from tinyc.machine.cores import ABOUT_M4
from tinyc.plan import InvalidPlanError, validate
from tinyc.plan.answer import Plan
from tinyc.plan.builder import problem_of
from tinyc.plan.compact import Kinds, place_with_moves
from tinyc.plan.placement import plan_of
from tinyc.plan.rows.cuts import cheapest, measure
from tinyc.reference.interpreter import run_int
from tinyc.run.native import load_library

LIMITS = {False: (710, 890), True: (760, 1330)}  # bytes for which rows move


def plan_with_moves(by_rows: bool, limit: int) -> tuple[Plan, Plan]:
    """A plan whose rows move, and the same turns and forms without."""
    problem = problem_of(network(), candidates(network(), HOST_ISA, NUMERICS, core=ABOUT_M4), by_rows=by_rows)
    cut = cheapest(by_cycles(measure(problem)), limit)
    assert cut is not None
    return plan_of(problem, cut, work=1), plan_of(problem, cut, work=1, moves=False)


CASES = [(by_rows, limit) for by_rows, limits in LIMITS.items() for limit in limits]


@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize("arriving", [False, True])
def test_nothing_overlaps_and_the_bound_is_reached(seed: int, arriving: bool) -> None:
    """Rows of one size, scratch, sums, and rows of an input that are smaller."""
    rng = random.Random(seed)
    blocks = [(64, turn, turn + rng.randint(2, 6), 4) for turn in range(40) for _ in range(rng.randint(0, 2))]
    blocks += [(16, turn, turn + 3, 4) for turn in range(0, 38, 2)] * arriving
    blocks += [(24, 0, 40, 4)]
    kinds = Kinds(frozenset(range(len(blocks), len(blocks) + 14)), frozenset())
    blocks += [(rng.choice([40, 104, 216]), turn, turn + 1, 8) for turn in range(0, 42, 3)]
    layout = layout_of(blocks)
    bound = bound_of(layout)
    places = place_with_moves(layout, kinds, range(bound, 2 * bound, 4))
    assert places is not None
    ends = []
    for turn in range(max(block.dies for block in layout.blocks)):
        there = sorted(
            ([at for since, at in places[i] if since <= turn][-1], block.size)
            for i, block in enumerate(layout.blocks)
            if block.born <= turn < block.dies
        )
        assert all(a + size <= b for (a, size), (b, _) in pairwise(there))
        ends.append(max((at + size for at, size in there), default=0))
    assert max(ends) <= bound + 8  # scratch begins at multiples of 8


@pytest.mark.parametrize("seed", range(8))
def test_what_is_there_before_turn_0_keeps_apart_and_in_place(seed: int) -> None:
    """Inputs, one of them never read, of the rows' size or another; and what stays to the end."""
    rng = random.Random(seed)
    inputs = [(rng.choice([64, 64, 16, 24]), -1, rng.randint(0, 9), 4) for _ in range(3)]
    outputs = [(64, rng.randint(5, 12), 20, 4) for _ in range(2)]
    rows = [(64, turn, min(turn + rng.randint(2, 6), 20), 4) for turn in range(20)]
    blocks, first = [*inputs, *outputs, *rows], len(inputs + outputs + rows)
    scratch = [(rng.choice([40, 104, 216]), turn, turn + 1, 8) for turn in range(0, 20, 3)]
    still = range(len(inputs + outputs))
    kinds = Kinds(frozenset(range(first, first + len(scratch))), frozenset(), frozenset(still))
    layout = layout_of(blocks + scratch)
    bound = bound_of(layout)
    places = place_with_moves(layout, kinds, range(bound, 3 * bound, 4))
    assert places is not None
    assert all(len(places[i]) == 1 for i in still)
    for turn in range(-1, 20):
        there = sorted(
            ([at for since, at in places[i] if since <= max(turn, 0)][-1], block.size)
            for i, block in enumerate(layout.blocks)
            if block.born <= turn < block.dies
        )
        assert all(a + size <= b for (a, size), (b, _) in pairwise(there))


def test_rows_that_leave_no_room_have_no_places() -> None:
    layout = layout_of([(64, 0, 3, 4), (64, 1, 4, 4), (64, 2, 5, 4)])
    kinds = Kinds(frozenset(), frozenset())
    assert place_with_moves(layout, kinds, range(64, 192, 4)) is None
    assert place_with_moves(layout, kinds, range(64, 196, 4)) is not None


@pytest.mark.parametrize(("by_rows", "limit"), CASES)
def test_every_row_is_right_where_rows_move(by_rows: bool, limit: int) -> None:
    plan, still = plan_with_moves(by_rows, limit)
    assert plan.moves
    assert not still.moves
    assert plan.arena_bytes < still.arena_bytes
    for one in (plan, still):
        validate(one)
        assert Machine(network(), one, NUMERICS, random_sample(network(), 5)).run() == []


def broken(plan: Plan) -> Iterator[Plan]:
    for i, move in enumerate(plan.moves):
        before, after = plan.moves[:i], plan.moves[i + 1 :]
        yield replace(plan, moves=(*before, *after))
        yield replace(plan, moves=(*before, replace(move, target=move.target + 1), *after))
        yield replace(plan, moves=(*before, replace(move, source=move.source + 4), *after))
        yield replace(plan, moves=(*before, replace(move, size=move.size - 4), *after))
        yield replace(plan, moves=(*before, replace(move, turn=len(plan.turns)), *after))
        alive = next(p for p in plan.allocations if p.born < move.turn < p.dies - 1 and p.offset != move.source)
        yield replace(plan, moves=(*before, replace(move, target=alive.offset), *after))


@pytest.mark.parametrize(("by_rows", "limit"), CASES)
def test_the_validator_refuses_wrong_moves(by_rows: bool, limit: int) -> None:
    plan, _ = plan_with_moves(by_rows, limit)
    for mistake in broken(plan):
        with pytest.raises(InvalidPlanError):
            validate(mistake)


def test_bytes_of_a_library_whose_rows_move() -> None:
    graph = network()
    plan, _ = plan_with_moves(False, LIMITS[False][1])
    inputs = [random_sample(graph, n) for n in range(3)]
    outputs = run_program(graph, lower(graph, plan, NUMERICS, "unit"), inputs)
    for sample, got in zip(inputs, outputs, strict=True):
        reference = run_int(graph, sample, NUMERICS)
        for name, array in zip(graph.outputs, got, strict=True):
            np.testing.assert_array_equal(array, reference[name])


def test_bytes_of_a_library_that_takes_rows_and_moves_them(tmp_path: Path) -> None:
    graph = network()
    plan, _ = plan_with_moves(True, LIMITS[True][1])
    program = lower(graph, plan, NUMERICS, "unit")
    for name, text in emit_library(program, Info("unit", "0" * 64, "host")).items():
        (tmp_path / name).write_text(text)
    library = load_library(tmp_path)
    for seed in range(3):
        sample = random_sample(graph, seed)[graph.inputs[0]]
        reference = run_int(graph, {graph.inputs[0]: sample}, NUMERICS)
        for name, got in zip(graph.outputs, library.run(sample.reshape(library.inputs[0].sample_shape)), strict=True):
            np.testing.assert_array_equal(got.ravel(), reference[name].ravel())


@pytest.mark.parametrize("seed", range(60))
def test_moves_between_calls_lose_no_byte(seed: int) -> None:
    """Copied byte after byte, as tc_move_rows does: up and down, over each other, over themselves, in circles."""
    rng = random.Random(seed)
    size, count = rng.choice([18, 28, 48]), rng.randint(1, 8)
    steps = [size + rng.choice([0, 1, 4, 30]) for _ in range(count)]
    sources = [sum(steps[:i]) for i in range(count)]
    targets = [source + 7 * (i + 1) for i, source in enumerate(sources)]  # apart, and upwards
    if seed % 2:
        targets = rng.sample(sources, count)
    memory = np.random.default_rng(seed).integers(0, 256, 2000).astype(np.uint8)
    rows = [memory[source : source + size].copy() for source in sources]
    pending = [(a, b, size) for a, b in zip(sources, targets, strict=True) if a != b]
    for source, target, length in in_turn(pending, 1000)[0]:
        for i in range(length):
            memory[target + i] = memory[source + i]
    for target, row in zip(targets, rows, strict=True):
        np.testing.assert_array_equal(memory[target : target + size], row)
