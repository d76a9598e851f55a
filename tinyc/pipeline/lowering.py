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
from tinyc.choose.select import Choice, as_compiled, offered
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
from tinyc.pipeline.choosing import Candidates, LaidOut, Offers, copies_of, lay_out, limits_of, worth_of
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
    """The same as `lower_integers`, of all that is offered for the model.

    Limits that the library keeps without them change nothing. Where it does not, all libraries that any preference
    leads to are looked at, so that what one of them finds within the limits, no other one misses.
    """
    offers = offers.preferring(options.prefer)
    usual = replace(options, flash=None, flash_reserve=None, ram=None, time=None)
    lowered = _lowered([(offers, usual)], model, board, usual, progress)
    if not _is_within(lowered, board, options, usual):
        own = options
        if options.ram is not None:  # of which what lies behind the plan's arena takes its part
            own = replace(options, ram=max(options.ram - lowered.program.arena_bytes + lowered.plan.arena_bytes, 0))
        lowered = _lowered(_asked(offers, own), model, board, own, progress)
    for refused in lowered.plan.refused:
        progress.on_warning(f"a better plan was refused by its check, please report it as a bug of tinyc: {refused}")
    if options.flash is not None:
        check_flash(lowered.program, lowered.plan.flash_bytes + (options.flash_reserve or 0), options.flash)
    if options.stream_weights is not None and not lowered.program.fetches:
        words = f"no weights of layers that run whole fit half of --stream-weights {options.stream_weights}"
        progress.on_warning(f"{words}: all are read where they are")
    return lowered


def _asked(offers: Offers, options: Options) -> list[tuple[Offers, Options]]:
    """What is looked at within limits, and by which preference. Where nothing waits for flash all preferences have the
    same front but for what the compiler is told, so that the own one finds the best of both."""
    if offers.waits:
        return [(own, replace(options, prefer=prefer)) for prefer, own in offers.by_preference.items()]
    return [(own, options) for own in dict.fromkeys(offers.by_preference.values())]


def _lowered(
    asked: Sequence[tuple[Offers, Options]], model: IntegerModel, board: Board, options: Options, progress: Progress
) -> Lowered:
    """The library worth most by the options, of those asked for; bytes that are copied at the price of the first."""
    with progress.stage("plan"):
        laid = [way for offers, own in asked for way in lay_out(offers, board, own)]
        different = {(way.optimize, way.plan.arena_bytes, *map(id, way.plan.forms)): way for way in laid}.values()
    with progress.stage("lower"):
        preferences = [own for _, own in asked]
        ways = [lowered for way in different for lowered in _with_each_copies(model, way, board, preferences)]
        return _worth_most(ways, asked[0][0], board, options)


def _is_within(lowered: Lowered, board: Board, options: Options, usual: Options) -> bool:
    """Whether a library keeps limits, of which none is above what the board has. usual: the options without them."""
    asked, there = limits_of(board, options), limits_of(board, usual)
    pairs = (asked.flash_bytes, there.flash_bytes), (asked.arena_bytes, there.arena_bytes)
    if any(own is not None and most is not None and own > most for own, most in pairs):
        return False
    copied = lowered.program.in_ram.size if lowered.program.in_ram is not None and options.ram_code is None else 0
    in_ram = options.ram is None or lowered.program.arena_bytes + copied <= options.ram
    fast = asked.cycles is None or _cycles(lowered, board) <= asked.cycles
    return in_ram and fast and (options.flash is None or lowered.plan.flash_bytes <= (asked.flash_bytes or 0))


def lower_plan(model: IntegerModel, laid: LaidOut, board: Board, options: Options) -> Lowered:
    """The library of one plan, with its copies to RAM."""
    return _with_each_copies(model, laid, board, [options])[0]


def _with_each_copies(model: IntegerModel, laid: LaidOut, board: Board, asked: Sequence[Options]) -> list[Lowered]:
    """The library of one plan, with what is worth a copy to RAM by some options; by none twice."""
    program = replace(_program_of(model, laid.graph, laid.plan, asked[0]), optimize=laid.optimize)
    copying = (_with_copies(program, laid.plan, board, options) for options in asked)
    different = {own.in_ram: own for own in copying}.values()
    return [Lowered(laid.graph, own, laid.plan, laid.choices) for own in different]


def _worth_most(ways: Sequence[Lowered], offers: Offers, board: Board, options: Options) -> Lowered:
    """Of the libraries within the limits, or that miss those of flash and RAM by least. Raises TinycError (exit code 1)
    where none of them keeps a limit of time."""
    limits = limits_of(board, options)

    def missing(way: Lowered) -> tuple[int, int]:
        pairs = (way.plan.flash_bytes, limits.flash_bytes), (way.plan.arena_bytes, limits.arena_bytes)
        flash, arena = (max(own - most, 0) if most is not None else 0 for own, most in pairs)
        return flash, arena

    least = min(map(missing, ways))
    ways = [way for way in ways if missing(way) == least]
    if limits.cycles is not None:
        fast = [way for way in ways if _cycles(way, board) <= limits.cycles]
        if not fast:
            raise _too_slow(limits.cycles, min(_cycles(way, board) for way in ways))
        ways = fast
    price = offers.copies.price if offers.copies is not None else 0.0
    return min(ways, key=lambda way: value_beside_copies(way, board, options, price))


def _too_slow(limit: int, least: int) -> TinycError:
    """That no library takes so few cycles. least: those of the fastest one."""
    return TinycError(
        f"no library of this model takes {limit:,} cycles within these limits of flash and RAM: "
        f"the fastest takes about {least:,}",
        hint="a larger --time, --flash or --ram",
        exit_code=1,
        missed=[Missed("cycles", "cycles", limit, least)],
    )


def _cycles(lowered: Lowered, board: Board) -> int:
    """Of a library: with the waits that its copies to RAM leave, where flash is slow."""
    if board.flash_timing is None or lowered.program.in_ram is None:
        return lowered.plan.cycles
    return cycles_beside_copies(lowered.program, board.flash_timing)


def value_beside_copies(lowered: Lowered, board: Board, options: Options, price: float) -> float:
    """What a library is worth; less is better. price: cycles for each byte that is copied to RAM."""
    program, plan = lowered.program, lowered.plan
    cycles = _cycles(lowered, board) + price * (program.in_ram.size if program.in_ram is not None else 0)
    return worth_of(options).of(cycles, plan.flash_bytes, plan.arena_bytes)


def forms_of(model: IntegerModel, board: Board, options: Options, progress: Progress) -> Sequence[Candidates]:
    """The graph with transposed convolutions as one convolution, with one for each of their phases, and as it is;
    behind each the same with time as rows. Of those that differ all but the first are there if kernels run them."""
    given = model.graph
    graphs: list[Graph] = []
    for graph in (as_convolutions(given), as_convolutions(given, apart=True), given):
        for own in (graph, time_as_rows(graph)):
            if all(own.nodes != other.nodes for other in graphs):
                graphs.append(own)
    forms = [_candidates(graphs[0], model.numerics, board, options, progress)]
    for graph in graphs[1:]:
        with suppress(TinycError):  # where no kernel runs that form of a layer
            forms.append(_candidates(graph, model.numerics, board, options, progress))
    return forms


def _candidates(graph: Graph, numerics: Numerics, board: Board, options: Options, progress: Progress) -> Candidates:
    check(graph, "forms", all_ops())
    with progress.stage("select"):
        timing = board.flash_timing
        compiled = compiled_code(board.core, board.isa, "speed")
        flash = None if timing is None else SlowFlash(timing, compiled=compiled)
        core = written_for(board.core, timing is not None)
        choices = offered(graph, board.isa, numerics, flash=flash, core=core)
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
