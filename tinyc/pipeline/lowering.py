# SPDX-License-Identifier: Apache-2.0
"""From integers to the steps of the library for a board: its kernels, and where everything lies."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

from tinyc.base.dataclass import dataclass
from tinyc.base.errors import Missed, TinycError
from tinyc.base.numerics import Numerics
from tinyc.base.one_thread import one_thread
from tinyc.board import Board
from tinyc.choose.compiled_code import compiled_code
from tinyc.choose.select import Choice, as_compiled, candidates
from tinyc.choose.slow_flash import SlowFlash
from tinyc.emit.blob import with_blob
from tinyc.emit.fetching import with_fetches
from tinyc.emit.in_ram import cycles_beside_copies, with_ram_code
from tinyc.emit.lower import lower
from tinyc.emit.program import Program
from tinyc.emit.push import with_push
from tinyc.ir.check import check
from tinyc.ir.graph import Graph
from tinyc.machine.cores import written_for
from tinyc.ops import all_ops
from tinyc.options.build import Options
from tinyc.passes.phases import as_convolutions
from tinyc.passes.time_rows import time_as_rows
from tinyc.pipeline.choosing import Candidates, LaidOut, Offers, copies_of, lay_out, limits_of, too_slow, worth_of
from tinyc.pipeline.integers import IntegerModel
from tinyc.pipeline.progress import Progress
from tinyc.pipeline.weights import find_blob
from tinyc.plan.answer import Plan

_ERROR = 20  # the size of compiled code is estimated to one part of so many of a library; what is compiled says


def check_flash(program: Program, taken: int, asked: int) -> None:
    """Raises TinycError (exit code 1) where a library is estimated to take more bytes of flash than asked for, beyond
    what the estimate may be wrong by, with the layer that weighs most."""
    if taken <= asked + asked // _ERROR:
        return
    layer = max(program.steps, key=lambda step: step.const_bytes)
    raise TinycError(
        f"the smallest library found takes about {taken:,} bytes of flash, --flash is {asked:,}: "
        f"{taken - asked:,} too few",
        layer.node.where,
        "`--prefer flash` without --flash builds a small library, and says how many bytes it takes; this layer has the "
        f"most constants, {layer.const_bytes:,} bytes",
        exit_code=1,
        missed=[Missed("flash", "bytes", asked, taken)],
    )


@dataclass(frozen=True, slots=True)
class Lowered:
    """The graph as a board runs it, the steps of its library, how its memory is planned, and the kernels that may run
    each node."""

    graph: Graph
    program: Program
    plan: Plan
    choices: Mapping[str, Sequence[Choice]]


@one_thread
def lower_integers(model: IntegerModel, board: Board, options: Options, progress: Progress) -> Lowered:
    """From the integer graph to the steps of the library for a board: all that says what it costs, and no text.

    Raises TinycError with exit code 1 where no library that is found takes as little flash as the user allows.
    """
    return lower_offers(offers_of(model, board, options, progress), model, board, options, progress)


def offers_of(model: IntegerModel, board: Board, options: Options, progress: Progress) -> Offers:
    """All libraries that the model may become. Raises TinycError where the options are not for the board."""
    _check_cores(board, options)
    forms = forms_of(model, board, options, progress)
    with progress.stage("plan"):
        return Offers(forms, board, options)


def _check_cores(board: Board, options: Options) -> None:
    if options.cores > board.cores:
        words = f"--cores {options.cores}: {board.name} has {board.cores}, by its board file"
        raise TinycError(words, hint=f"--cores {board.cores}, or a board file with `cores = {options.cores}`")
    if options.cores > 1 and (options.input_rows or options.by_calls or options.stream_weights is not None):
        words = "--cores is for libraries that take their whole input and read weights where they are"
        raise TinycError(words, hint="leave out --input-rows, --incremental, --stream-weights")


def lower_offers(offers: Offers, model: IntegerModel, board: Board, options: Options, progress: Progress) -> Lowered:
    """The same as `lower_integers`, of all that is offered for the model."""

    lowered = _lowered(offers, model, board, options, progress)
    if options.flash is not None and offers.optimize != "size" and not _is_within(lowered, options, options.flash):
        small = _lowered(offers.for_size(), model, board, options, progress)
        lowered = min(lowered, small, key=lambda own: own.plan.flash_bytes)
    for refused in lowered.plan.refused:
        progress.on_warning(f"a better plan was refused by its check, please report it as a bug of tinyc: {refused}")
    if options.flash is not None:
        check_flash(lowered.program, lowered.plan.flash_bytes + (options.flash_reserve or 0), options.flash)
    if options.stream_weights is not None and not lowered.program.fetches:
        words = f"no weights of layers that run whole fit half of --stream-weights {options.stream_weights}"
        progress.on_warning(f"{words}: all are read where they are")
    return lowered


def _lowered(offers: Offers, model: IntegerModel, board: Board, options: Options, progress: Progress) -> Lowered:
    with progress.stage("plan"):
        ways = lay_out(offers, board, options)
    with progress.stage("lower"):
        return _worth_most([lower_plan(model, laid, board, options) for laid in ways], offers, board, options)


def _is_within(lowered: Lowered, options: Options, flash_bytes: int) -> bool:
    """Whether the library is estimated to be within a limit of flash."""
    return lowered.plan.flash_bytes + (options.flash_reserve or 0) <= flash_bytes


def lower_plan(model: IntegerModel, laid: LaidOut, board: Board, options: Options) -> Lowered:
    """The library of one plan, with its copies to RAM."""
    program = replace(_program_of(model, laid.graph, laid.plan, options), optimize=laid.optimize)
    return Lowered(laid.graph, _with_copies(program, laid.plan, board, options), laid.plan, laid.choices)


def _worth_most(ways: Sequence[Lowered], offers: Offers, board: Board, options: Options) -> Lowered:
    """Of those that keep a limit of time with what they copy. Raises TinycError where none does."""
    limit = limits_of(board, options).cycles
    if limit is not None and offers.waits:
        least = min(_cycles(way, board) for way in ways)
        if least > limit:
            raise too_slow(limit, least)
        ways = [way for way in ways if _cycles(way, board) <= limit]
    if len(ways) == 1:
        return ways[0]
    assert offers.copies is not None
    price = offers.copies.price
    return min(ways, key=lambda way: value_beside_copies(way, board, options, price))


def _cycles(lowered: Lowered, board: Board) -> int:
    """Of a library on a board with slow flash."""
    assert board.flash_timing is not None
    return cycles_beside_copies(lowered.program, board.flash_timing)


def value_beside_copies(lowered: Lowered, board: Board, options: Options, price: float) -> float:
    """What a library is worth on a board with slow flash; less is better. price: cycles for each byte that is copied to
    RAM."""
    program, plan = lowered.program, lowered.plan
    assert program.in_ram is not None
    cycles = _cycles(lowered, board) + price * program.in_ram.size
    return worth_of(options).of(cycles, plan.flash_bytes, plan.arena_bytes)


def forms_of(model: IntegerModel, board: Board, options: Options, progress: Progress) -> Sequence[Candidates]:
    """The graph, and behind it the same with time as rows, where that is another one and kernels run it."""
    graph, numerics = as_convolutions(model.graph, grow=options.optimize != "size"), model.numerics
    check(graph, "phases", all_ops())
    forms = [_candidates(graph, numerics, board, options, progress)]
    turned = time_as_rows(graph)
    if turned is not graph:
        check(turned, "rows", all_ops())
        with suppress(TinycError):  # where no kernel runs that form of a layer
            forms.append(_candidates(turned, numerics, board, options, progress))
    return forms


def _candidates(graph: Graph, numerics: Numerics, board: Board, options: Options, progress: Progress) -> Candidates:
    with progress.stage("select"):
        timing = board.flash_timing
        compiled = compiled_code(board.core, board.isa, "speed")
        flash = None if timing is None else SlowFlash(timing, compiled=compiled)
        core = written_for(board.core, timing is not None)
        choices = candidates(graph, board.isa, numerics, flash=flash, core=core)
        if options.weights_blob:
            choices = {node: _of_one_size(own) for node, own in choices.items()}
        return Candidates(graph, as_compiled(choices, compiled))


def _of_one_size(choices: list[Choice]) -> list[Choice]:
    """Those in whose place other constants fit; all, where there are none."""
    return [choice for choice in choices if not choice.kernel.sized_by_values] or choices


def _with_copies(program: Program, plan: Plan, board: Board, options: Options) -> Program:
    """The program with what start-up code, or a DMA, copies to RAM."""
    program = with_blob(program) if options.weights_blob else program
    if options.stream_weights is not None:
        program = with_fetches(program, options.stream_weights)
    copies = copies_of(board, options, cycles=plan.cycles, arena_bytes=program.arena_bytes)
    if copies is not None:
        program = with_ram_code(program, copies.most_bytes, board, copies.price)
    return program


def _program_of(model: IntegerModel, graph: Graph, plan: Plan, options: Options) -> Program:
    """The steps of a plan's library."""
    program = lower(graph, plan, model.numerics, _name(model.path, options), model.perms)
    front = model.front
    return program if front is None else with_push(program, front.samples, front.held, front.runs, front.primed)


def _name(path: Path, options: Options) -> str:
    """Of the library: as asked for, else that of the code that is there, else the file's."""
    if options.name is None and options.like is not None:
        return find_blob(options.like)[0]
    return options.name or path.stem
