# SPDX-License-Identifier: Apache-2.0
"""From integers to the steps of the library for a board: its kernels, and where everything lies."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path

from tinyc.base.errors import TinycError
from tinyc.base.numerics import Numerics
from tinyc.base.one_thread import one_thread
from tinyc.board import Board
from tinyc.choose.select import Choice, candidates, made_small
from tinyc.choose.slow_flash import SlowFlash
from tinyc.emit.blob import with_blob
from tinyc.emit.fetching import with_fetches
from tinyc.emit.in_ram import with_ram_code
from tinyc.emit.lower import lower
from tinyc.emit.program import Program
from tinyc.emit.push import with_push
from tinyc.explain.estimate import library_flash
from tinyc.ir.check import check
from tinyc.ir.graph import Graph
from tinyc.machine.target import written_for
from tinyc.ops import all_ops
from tinyc.options.build import Optimize, Options
from tinyc.passes.phases import as_convolutions
from tinyc.passes.time_rows import time_as_rows
from tinyc.pipeline.flash_budget import Tried, check_flash, in_flash, with_reserve
from tinyc.pipeline.integers import IntegerModel
from tinyc.pipeline.kernel_budgets import within_flash, within_ram
from tinyc.pipeline.progress import Progress
from tinyc.pipeline.weights import find_blob
from tinyc.plan.answer import Plan
from tinyc.plan.layout import OF_TIME, WORTHWHILE, Aim, Kernels, plan_memory, plan_window
from tinyc.plan.parts import SlowPart
from tinyc.plan.shrink import MEMORY_PRICE

BESIDE_ARENA = 4096  # bytes of other variables, where the arena may take all of a RAM
_WORD = 4  # bytes that most accesses of kernels have
_SLOW = 2  # times as long as what is nearly as small


@dataclass(frozen=True, slots=True)
class Lowered:
    """The graph as a board runs it, the steps of its library, how its memory is planned, and the kernels that may run
    each node."""

    graph: Graph
    program: Program
    plan: Plan
    choices: Mapping[str, Sequence[Choice]]


@dataclass(frozen=True, slots=True)
class Candidates:
    """A graph, and every kernel that may run each node on the board, with the waits of its flash, whatever the library
    shall be best in."""

    graph: Graph
    choices: Mapping[str, Sequence[Choice]]


@dataclass(frozen=True, slots=True)
class LaidOut:
    """A graph, the kernels that may run each node, and the plan of its memory. fits: the RAM."""

    graph: Graph
    choices: Mapping[str, Sequence[Choice]]
    plan: Plan
    fits: bool


@one_thread
def lower_integers(made: IntegerModel, board: Board, options: Options, progress: Progress) -> Lowered:
    """From the integer graph to the steps of the library for a board: all that says what it costs, and no text.

    Raises TinycError with exit code 1 where no library that is found takes as little flash as the user allows.
    """
    return lower_forms(forms_of(made, board, options, progress), made, board, options, progress)


def lower_forms(
    forms: Sequence[Candidates], made: IntegerModel, board: Board, options: Options, progress: Progress
) -> Lowered:
    """The same, of `forms_of` the model."""
    if options.flash_budget is None:
        return _lowered(forms, made, board, options, progress)
    return _within(forms, made, board, options, progress)


def forms_of(made: IntegerModel, board: Board, options: Options, progress: Progress) -> Sequence[Candidates]:
    """The graph, and behind it the same with time as rows, where that is another one and kernels run it."""
    graph, numerics = as_convolutions(made.graph, grow=options.optimize != "size"), made.numerics
    check(graph, "phases", all_ops())
    forms = [_candidates(graph, numerics, board, progress)]
    turned = time_as_rows(graph)
    if turned is not graph:
        check(turned, "rows", all_ops())
        with suppress(TinycError):  # where no kernel runs that form of a layer
            forms.append(_candidates(turned, numerics, board, progress))
    return forms


def _candidates(graph: Graph, numerics: Numerics, board: Board, progress: Progress) -> Candidates:
    with progress.stage("select"):
        timing = board.flash_timing
        flash = None if timing is None else SlowFlash(timing)
        core = written_for(board.core, timing is not None)
        return Candidates(graph, candidates(graph, board.isa, numerics, flash=flash, core=core))


def _within(
    forms: Sequence[Candidates], made: IntegerModel, board: Board, options: Options, progress: Progress
) -> Lowered:
    """The graph's steps, by kernels whose library keeps the budget of flash as it is estimated."""
    asked = options.flash_budget or 0

    def attempt(budget: int | None, optimize: Optimize = options.optimize) -> Tried[tuple[Lowered, list[str]]]:
        warnings: list[str] = []
        quiet = replace(progress, on_warning=warnings.append)
        lowered = _lowered(forms, made, board, replace(options, flash_budget=budget, optimize=optimize), quiet)
        said, taken = lowered.plan.flash_bytes, library_flash(lowered.program, board)
        return Tried((lowered, warnings), said, said if taken is None else with_reserve(taken))

    best = in_flash(attempt, asked)
    if options.optimize != "size":
        small = attempt(None, "size")  # does without the last bytes, which cost most
        times = [tried.made[0].plan.time for tried in (small, best)]
        if times[0] < times[1] and small.taken <= asked:
            best = small
        elif _SLOW * times[0] < times[1]:
            progress.on_warning("only slow kernels fit the flash budget: with --optimize size faster ones may")
    lowered, warnings = best.made
    for warning in warnings:  # of what was tried beside it nobody hears
        progress.on_warning(warning)
    check_flash(lowered.program, best.taken, asked)
    return lowered


def _lowered(
    forms: Sequence[Candidates], made: IntegerModel, board: Board, options: Options, progress: Progress
) -> Lowered:
    """The graph's steps, by the kernels and plan that the options lead to."""
    laid = _lay_out(forms[0], board, options, progress)
    for turned in forms[1:]:
        with suppress(TinycError):  # where it has no plan
            laid = better_of(laid, _lay_out(turned, board, options, progress), options)
    with progress.stage("lower"):
        program = program_of(made, laid.graph, laid.plan, options)
        program = with_blob(program) if options.weights_blob else program
        if options.stream_weights is not None:
            program = with_fetches(program, options.stream_weights)
            if not program.fetches:
                words = f"no weights of layers that run whole fit half of --stream-weights {options.stream_weights}"
                progress.on_warning(f"{words}: all are read where they are")
        if options.ram_code is not None:
            program = with_ram_code(program, options.ram_code, board.flash_timing, board.runs_code_from_ram)
        return Lowered(laid.graph, program, laid.plan, laid.choices)


def better_of(straight: LaidOut, turned: LaidOut, options: Options) -> LaidOut:
    """The faster of two, or the one with a smaller arena where that is worth its time; of equals the first."""
    if straight.fits != turned.fits:
        return straight if straight.fits else turned
    if options.optimize == "size":
        return min(straight, turned, key=lambda one: (one.plan.flash_bytes, one.plan.arena_bytes))
    fast, slow = sorted((straight, turned), key=lambda one: (one.plan.time, one.plan.arena_bytes))
    worth = slow.plan.arena_bytes < WORTHWHILE[options.memory] * fast.plan.arena_bytes
    price = MEMORY_PRICE[options.memory] * (OF_TIME if slow.plan.runs_by_rows else 1)
    return slow if worth and slow.plan.time <= fast.plan.time * (1 + price) else fast


def _lay_out(form: Candidates, board: Board, options: Options, progress: Progress) -> LaidOut:
    graph, choices, timing = form.graph, form.choices, board.flash_timing
    with progress.stage("select"):
        choices = as_compiled(choices, options)
        if options.ram_code is not None and timing is not None:
            choices = within_ram(graph, choices, timing, board, options)
        chosen = tuple(within_flash(graph, choices, board, options))
    with progress.stage("plan"):
        plan = _laid_out(graph, choices, chosen, board, options)
    for refused in plan.refused:
        progress.on_warning(f"a better plan was refused by its check, please report it as a bug of tinyc: {refused}")
    ram = _aim(board, options, None).ram_bytes
    return LaidOut(graph, choices, plan, ram is None or plan.arena_bytes <= ram)


def as_compiled(choices: Mapping[str, Sequence[Choice]], options: Options) -> Mapping[str, Sequence[Choice]]:
    """The kernels as the compiler makes them with these options."""
    return made_small(choices) if options.optimize == "size" else choices


def _laid_out(
    graph: Graph,
    choices: Mapping[str, Sequence[Choice]],
    chosen: Sequence[tuple[dict[str, Choice], int | None]],
    board: Board,
    options: Options,
) -> Plan:
    """Of the first of the chosen kernels that fit the RAM, else of the last."""

    def planned(kernels: dict[str, Choice], flash_bytes: int | None) -> Plan:
        aim = _aim(board, options, flash_bytes)
        if options.by_calls:
            return plan_window(graph, Kernels(choices, kernels), aim, options.hop)
        return plan_memory(graph, Kernels(choices, kernels), aim, options.input_rows)

    ram = _aim(board, options, None).ram_bytes
    for kernels, flash_bytes in chosen[:-1]:
        with suppress(TinycError):  # where less flash leaves no way for the input to come by rows
            plan = planned(kernels, flash_bytes)
            if ram is None or plan.arena_bytes <= ram:
                return plan
    return planned(*chosen[-1])


def _aim(board: Board, options: Options, flash_bytes: int | None) -> Aim:
    """What the user asks for, and else what the board has."""
    ram, slow = board.ram_bytes if options.ram_budget is None else options.ram_budget, _slow_part(board, options)
    if slow is not None and board.memory is not None and options.ram_budget is None:
        ram = board.memory.ram_bytes - board.memory.stack_bytes - BESIDE_ARENA
    return Aim(options.optimize, options.memory, ram, flash_bytes, slow)


def _slow_part(board: Board, options: Options) -> SlowPart | None:
    """The board's second RAM, for libraries that can have a part of their arena there: those that are called once for
    an inference, with all of the input."""
    ram = board.slow_ram
    if ram is None or options.input_rows or options.by_calls or options.frontend is not None:
        return None
    share = ram.accesses(_WORD) / _WORD
    return SlowPart(ram.bytes, ram.read_waits * share, ram.write_waits * share)


def _name(path: Path, options: Options) -> str:
    """Of the library: as asked for, else that of the code that is there, else the file's."""
    if options.name is None and options.like is not None:
        return find_blob(options.like)[0]
    return options.name or path.stem


def program_of(made: IntegerModel, graph: Graph, plan: Plan, options: Options) -> Program:
    """The steps of a plan's library."""
    program = lower(graph, plan, made.numerics, _name(made.path, options), made.perms)
    front = made.front
    return program if front is None else with_push(program, front.samples, front.held, front.runs, front.primed)
