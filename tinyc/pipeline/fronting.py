# SPDX-License-Identifier: Apache-2.0
"""The front of a model on a board: what its library can be, in cycles, flash and arena, and where one stands."""

from __future__ import annotations

import math
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

from tinyc.base.errors import TinycError
from tinyc.base.one_thread import one_thread
from tinyc.board import Board, load_board
from tinyc.explain.estimate import Estimate, estimate
from tinyc.options.build import Options
from tinyc.pipeline.choosing import Candidates, LaidOut, Offers, limits_within, slow_part, worth_of
from tinyc.pipeline.integers import IntegerModel, make_integers
from tinyc.pipeline.lowering import forms_of, lower_offers, lower_plan
from tinyc.pipeline.progress import Progress
from tinyc.plan.answer import Plan
from tinyc.plan.blocks import TooManyRowsError
from tinyc.plan.persistent import place_states, state_bytes
from tinyc.plan.replay import InvalidPlanError
from tinyc.plan.validate import validate
from tinyc.verify.front import FrontPoint, ModelFront

MOST_POINTS = 24  # that are shown


@one_thread
def front_of_model(path: Path, options: Options, progress: Progress) -> ModelFront:
    """The front of a model on the board of the options.

    Raises TinycError for a model that cannot be compiled, and for libraries that are called for every window or row.
    """
    if options.input_rows or options.by_calls:
        raise TinycError(
            "the front is that of libraries which take their input whole",
            hint="leave out --input-rows, --incremental and --frontend",
        )
    board = load_board(options.board)
    quiet = replace(progress, on_warning=lambda message: None)  # each of the libraries would warn
    model = make_integers(path, board, options, quiet)
    forms = forms_of(model, board, options, quiet)
    with progress.stage("plan"):
        offers = Offers(forms, board, options)
    built = lower_offers(offers, model, board, options, quiet)
    estimated = estimate(path.name, built.program, board)
    chosen = _point(estimated, by_rows=built.plan.runs_by_rows, built=True)
    with progress.stage("front"):
        apart, corners = offers.front.some(MOST_POINTS)
        points = [chosen]
        for number, corner in enumerate(corners):
            progress.on_share("front", number / len(corners))
            with suppress(TinycError, InvalidPlanError, TooManyRowsError):  # what its check refuses is no point
                plan = corner.family.plan(corner.table.cut(corner.state))
                points.append(_placed(model, board, options, offers.of(corner.family), plan))
    marked = [replace(own, beaten=any(other.beats(own) for other in points)) for own in dict.fromkeys(points)]
    shown = [own for own in marked if own.built or not (own.beaten or own.key == chosen.key)]
    ordered = tuple(sorted(shown, key=lambda own: own.key[::-1]))
    gap = gap_of(offers, built.plan, board, options)
    return ModelFront(path.name, board.name, ordered, apart, estimated.cycle_error, options.prefer, gap)


def gap_of(offers: Offers, plan: Plan, board: Board, options: Options) -> float | None:
    """With which share less of what is preferred the chosen plan is worth as much as any of these kernels could be at
    best; None where more than its plan has chosen it: waits for flash, and a second RAM."""
    if offers.waits or slow_part(board, options) is not None:
        return None
    bound, worth = bound_of(offers, board, options), worth_of(options)
    if bound is None:
        return None
    value = worth.of(plan.cycles, plan.flash_bytes, plan.arena_bytes - state_bytes(offers.forms[0].graph))
    return max(-math.expm1((bound - value) / max(1.0, worth.flash, worth.arena)), 0.0)


def bound_of(offers: Offers, board: Board, options: Options) -> float | None:
    """What no plan that the options may lead to is worth less than; None where nothing is within the limits. Within
    those that the user gives all preferences' kernels are looked at, as `lower_offers` does."""
    limits = limits_within(offers.forms[0].graph, board, options)
    is_limited = any(limit is not None for limit in (options.flash, options.ram, options.time))
    looked_at = offers.by_preference.values() if is_limited else (offers,)
    bounds = [front.bound(worth_of(options), limits) for front in dict.fromkeys(own.front for own in looked_at)]
    return min((bound for bound in bounds if bound is not None), default=None)


def _placed(model: IntegerModel, board: Board, options: Options, form: Candidates, plan: Plan) -> FrontPoint:
    """The library of a plan. Raises InvalidPlanError where the plan's check refuses it."""
    validate(plan)
    placed = place_states(form.graph, plan) if form.graph.states else plan
    lowered = lower_plan(model, LaidOut(form.graph, form.choices, placed, options.optimize), board, options)
    estimated = estimate(model.path.name, lowered.program, board)
    return _point(estimated, by_rows=plan.runs_by_rows)


def _point(own: Estimate, *, by_rows: bool, built: bool = False) -> FrontPoint:
    cycles = own.instructions if own.cycles is None else own.cycles
    return FrontPoint(cycles, own.milliseconds, own.flash_bytes, own.arena_bytes, by_rows, built)
