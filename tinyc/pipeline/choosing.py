# SPDX-License-Identifier: Apache-2.0
"""Which library a model becomes on a board: the point of its front that is worth most within the limits."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import cached_property

from tinyc.base.dataclass import dataclass
from tinyc.base.errors import TinycError
from tinyc.board import Board
from tinyc.choose.compiled_code import compiled_code
from tinyc.choose.select import Choice, fastest, optimized_for_size, repriced
from tinyc.choose.slow_flash import RamCode, SlowFlash
from tinyc.ir.graph import Graph
from tinyc.kernel.kernel import Cost
from tinyc.options.build import Optimize, Options, Prefer
from tinyc.plan.answer import Plan
from tinyc.plan.cores import on_cores
from tinyc.plan.families import STREAMED_UP_TO, by_rows, families_of, window
from tinyc.plan.front import Best, Family, Front
from tinyc.plan.parts import SlowPart, in_parts
from tinyc.plan.persistent import place_states, state_bytes
from tinyc.plan.planner import plan_graph
from tinyc.plan.replay import InvalidPlanError
from tinyc.plan.validate import first_valid
from tinyc.plan.worth import Limits, Worth

APPLICATION_BYTES = 12 * 1024  # of flash that are left beside a library where it would fill it: our test firmware's
BESIDE_ARENA = 4096  # bytes of other variables, where the arena may take all of a RAM
# 1 % of time is worth 3 % of flash or of RAM. Of what is preferred, 1 % is worth 4 % of time; 16 % where it is flash,
# most of which are weights that no choice makes fewer. Time is worth nearly any bytes that there are.
WORTH: Mapping[Prefer, Worth] = {
    "balanced": Worth(1 / 3, 1 / 3),
    "time": Worth(1 / 50, 1 / 50),
    "ram": Worth(1 / 3, 4),
    "flash": Worth(16, 1 / 3),
}
_ERROR = 100  # one part of so many is left of a limit of flash, for what a compiler makes more than is planned
_WORD = 4  # bytes that most accesses of kernels have
_LEAST_FLASH, _LEAST_ARENA = Worth(1e6, 1), Worth(1, 1e6)
_MOST_FOR_A_BYTE = 64.0  # cycles that a byte of RAM may have to save; and prices that are tried
_PRICES = 9
_NO_COPIES = 1e9  # of cycles for a byte, which no copy saves
_ROUNDS = 8  # of less flash, of which a few are enough
_TIME = re.compile(r"([0-9]{1,12}(?:\.[0-9]{1,6})?) ?(|K|M|s|ms|us)")


@dataclass(frozen=True, slots=True)
class Candidates:
    """A graph, and every kernel that may run each node on the board, with the waits of its flash, whatever the library
    shall be best in."""

    graph: Graph
    choices: Mapping[str, Sequence[Choice]]


@dataclass(frozen=True, slots=True)
class LaidOut:
    """A graph, the kernels that may run each node, and the plan of its memory. optimize: what the compiler is told."""

    graph: Graph
    choices: Mapping[str, Sequence[Choice]]
    plan: Plan
    optimize: Optimize


def worth_of(options: Options) -> Worth:
    """What the user wants."""
    return WORTH[options.prefer]


def limits_of(board: Board, options: Options) -> Limits:
    """What the user allows, and else what the board has, but for what the smallest application takes."""
    ram = board.ram_bytes if options.ram is None else options.ram
    if options.ram is None and board.memory is not None and slow_part(board, options) is not None:
        ram = board.memory.ram_bytes - board.memory.stack_bytes - BESIDE_ARENA
    flash = options.flash
    if flash is not None:
        flash -= flash // _ERROR if options.flash_reserve is None else options.flash_reserve
    elif board.flash_bytes is not None:
        flash = board.flash_bytes - APPLICATION_BYTES
    return Limits(flash, ram, None if options.time is None else cycles_within(options.time, board))


def limits_within(graph: Graph, board: Board, options: Options) -> Limits:
    """The same, of RAM what the states of a graph leave."""
    limits = limits_of(board, options)
    if not graph.states or limits.arena_bytes is None:
        return limits
    return replace(limits, arena_bytes=max(limits.arena_bytes - state_bytes(graph), 0))


def cycles_within(text: str, board: Board) -> int:
    """Cycles of a time: `3.3M`, `250K`, or `12ms`, `800us`, at the board's clock. Raises TinycError for other words."""
    match = _TIME.fullmatch(text.replace("_", ""))
    if match is None:
        raise TinycError(f"--time {text!r} is no time", hint="like 12ms, 800us, or in cycles: 250K, 3.3M")
    if match[2] in ("ms", "us", "s") and not board.clock_hz:
        raise TinycError(f"--time {text}: the clock of {board.name} is not known", hint="give cycles, like 3.3M")
    units = {"": 1.0, "K": 1e3, "M": 1e6, "s": board.clock_hz, "ms": board.clock_hz / 1e3, "us": board.clock_hz / 1e6}
    return int(float(match[1]) * units[match[2]])


def lay_out(offers: Offers, board: Board, options: Options) -> list[LaidOut]:
    """The plan of one of the forms of the graph; several where RAM has no room for all that is worth a copy: what is
    copied of each says which is worth most. With a limit of time the fastest is one of them, which may miss it.

    Where nothing is within the limits of flash and RAM, what misses them by least. Raises TinycError where the input is
    asked for row by row, and has none.
    """
    graph = offers.forms[0].graph
    limits = limits_within(graph, board, options)
    if not any(family.measured for family in offers.front.families):  # nothing runs: addresses do all that there is
        choices = offers.forms[0].choices
        plan = plan_graph(graph, fastest(choices))
        return [LaidOut(graph, choices, place_states(graph, plan), offers.optimize)]

    worth, slow = worth_of(options), slow_part(board, options)
    laid = []
    for own, best in _ways(offers, worth, limits):
        form, plan = own.of(best.family), best.plan
        if slow is not None and limits.arena_bytes is not None:
            plan = _in_parts(own, worth, limits, slow, best)
        placed = place_states(form.graph, plan) if form.graph.states else plan
        laid.append(LaidOut(form.graph, form.choices, placed, own.optimize))
    return laid


def _as_compiled(
    choices: Mapping[str, Sequence[Choice]], board: Board, optimize: Optimize
) -> Mapping[str, Sequence[Choice]]:
    """The kernels as the compiler makes them."""
    if optimize != "size":
        return choices
    return optimized_for_size(choices, compiled_code(board.core, board.isa, optimize))


def _with_copies(
    choices: Mapping[str, Sequence[Choice]], board: Board, copies: Copies | None
) -> Mapping[str, Sequence[Choice]]:
    """The candidates, what is worth a place in RAM at the price of that."""
    if copies is None or board.flash_timing is None:
        return choices
    ram = RamCode(copies.price, board.runs_code_from_ram)
    return repriced(choices, SlowFlash(board.flash_timing, ram, compiled_code(board.core, board.isa, "speed")))


def _copied_bytes(costs: Iterable[Cost]) -> int:
    """Of RAM."""
    return sum(cost.ram_code + cost.ram_consts for cost in costs)


class Offers:
    """The families of all forms of a graph, as the compiler makes them, with what is worth its place in RAM there."""

    def __init__(
        self,
        forms: Sequence[Candidates],
        board: Board,
        options: Options,
        copies: Copies | None = None,
        others: dict[tuple[Optimize, Copies | None], Offers] | None = None,
    ) -> None:
        """copies: to RAM, at another price than that of the board's; None: at that. others: those of the same forms."""
        self._forms = forms
        self.optimize: Optimize = options.optimize
        self._compiled = [replace(form, choices=_as_compiled(form.choices, board, self.optimize)) for form in forms]
        self._board, self._options = board, options
        self.copies = copies or self._copies(options)
        self._others = {} if others is None else others
        self._others[self.optimize, self.copies] = self
        self.forms = [replace(form, choices=self._priced(form.choices)) for form in self._compiled]
        self._form: dict[int, Candidates] = {}  # by id of the family
        self.front = Front(self._families(STREAMED_UP_TO))

    def _copies(self, options: Options) -> Copies | None:
        """At the price of what is preferred, in cycles of code that is compiled for speed, whoever asks."""
        cycles = sum(choice.cost.cycles for choice in fastest(self._forms[0].choices).values())
        return copies_of(self._board, options, cycles=cycles)

    def _priced(self, choices: Mapping[str, Sequence[Choice]]) -> Mapping[str, Sequence[Choice]]:
        """The kernels with their costs on the board, and on as many cores."""
        priced = _with_copies(choices, self._board, self.copies)
        return on_cores(priced, self._options.cores) if self._options.cores > 1 else priced

    @property
    def waits(self) -> bool:
        """Whether kernels wait for flash, unless they are copied to RAM."""
        return self.copies is not None and self._board.flash_timing is not None

    def dearer(self, plan: Plan) -> list[Offers]:
        """The same at the least price at which the copies of the fastest kernels are in the RAM beside the plan's
        arena, if it is not this one, and at one at which nothing is worth a copy: a library is never worse than without
        its copies."""
        room = self.room(plan)
        if self.copies is None:
            return []
        prices, low, high = [_NO_COPIES], self.copies.price, max(_MOST_FOR_A_BYTE, self.copies.price)
        for _ in range(_PRICES if self._copied(self.copies) > room else 0):
            price = (low + high) / 2
            if self._copied(replace(self.copies, price=price)) <= room:
                prices, high = [price, _NO_COPIES], price
            else:
                low = price
        return [self._with(self._options, replace(self.copies, price=price)) for price in prices]

    def _with(self, options: Options, copies: Copies | None) -> Offers:
        """The same by other options, with copies at another price."""
        terms = options.optimize, copies
        return self._others.get(terms) or Offers(self._forms, self._board, options, copies, self._others)

    def preferring(self, prefer: Prefer) -> Offers:
        """The same by a preference."""
        return self if prefer == self._options.prefer else self.by_preference[prefer]

    @cached_property
    def by_preference(self) -> Mapping[Prefer, Offers]:
        """The same for each preference: at the price that RAM has by it, as compilers make code for it."""
        asked = {prefer: replace(self._options, prefer=prefer) for prefer in (self._options.prefer, *WORTH)}
        return {prefer: self._with(options, self._copies(options)) for prefer, options in asked.items()}

    def _copied(self, copies: Copies) -> int:
        """Bytes of the copies of the fastest kernels."""
        choices = fastest(_with_copies(self._compiled[0].choices, self._board, copies)).values()
        return _copied_bytes(choice.cost for choice in choices)

    def room(self, plan: Plan) -> int:
        """Bytes of RAM for copies beside the arena of a plan."""
        copies = copies_of(self._board, self._options, cycles=plan.cycles, arena_bytes=plan.arena_bytes)
        return 0 if copies is None else copies.most_bytes

    def excess(self, plan: Plan) -> int:
        """Bytes of the copies of a plan for which there is no RAM beside its arena; 0: there is."""
        return max(_copied_bytes(form.cost for form in plan.forms) - self.room(plan), 0)

    def of(self, family: Family) -> Candidates:
        """The form of the graph that a family is of."""
        return self._form[id(family)]

    @cached_property
    def every(self) -> Front:
        """With rows of large graphs, too; the same front where none is large."""
        large = any(len(form.choices) > STREAMED_UP_TO for form in self.forms)
        return Front(self._families(None)) if large else self.front

    def _families(self, up_to: int | None) -> list[Family]:
        families: list[Family] = []
        refused: TinycError | None = None
        for form in self.forms:
            try:
                own = self._of_form(form, up_to)
            except TinycError as error:  # of another form of the graph there may be one
                refused = refused or error
            else:
                families += own
                self._form |= {id(family): form for family in own}
        if refused is not None and not families:
            raise refused
        return families

    def _of_form(self, form: Candidates, up_to: int | None) -> list[Family]:
        graph, choices, options, flash = form.graph, form.choices, self._options, self._board.flash_bytes
        if options.by_calls:
            if graph.states:
                raise TinycError("a model with state keeps its own past", hint="leave out --incremental")
            return window(graph, choices, options.hop, flash).by_shared_code()
        if not options.input_rows:
            return families_of(graph, choices, flash_bytes=flash, up_to=up_to)
        hint = "leave out --input-rows"
        if graph.states:
            raise TinycError("a model with state takes its input whole", hint=hint)
        if len(graph.inputs) != 1:
            words = f"only a model with one input can take it row by row; this one has {len(graph.inputs)}"
            raise TinycError(words, hint=hint)
        first = graph.values[graph.inputs[0]]
        families = by_rows(graph, choices, flash, input_rows=True)
        if not any(family.problem and family.problem.tensors[first.name].rows > 1 for family in families):
            words = f"input '{first.name}' {list(first.shape)} has no rows that layers could take one after another"
            raise TinycError(words, first.loc, hint)
        return families


def _ways(offers: Offers, worth: Worth, limits: Limits) -> list[tuple[Offers, Best]]:
    """Plans, of which the best is among those that the limits allow once it is known what is copied to RAM.

    Cycles of a plan count a price for each byte that is copied, and copies for which there may be no room. So a limit
    of time is kept by the library as built: the fastest is beside what keeps it by these, and what may keep it.
    """
    if limits.cycles is None:
        return _beside_copies(offers, worth, limits)
    any_time = replace(limits, cycles=None)
    ways = _beside_copies(offers, WORTH["time"], any_time) + _beside_copies(offers, worth, limits)
    return ways + _beside_copies(offers, worth, any_time) if offers.waits else ways


def _beside_copies(offers: Offers, worth: Worth, limits: Limits) -> list[tuple[Offers, Best]]:
    """The best plan that leaves RAM for what it copies, and whose it is; none where none takes so few cycles.

    At the price that RAM has there may be none. All that is copied is flash: with less flash there is, or more of it
    with a smaller arena. Or fewer copies are worth a higher price, or none.
    """
    best = _best(offers, worth, limits)
    if best is None or not offers.excess(best.plan):
        return [] if best is None else [(offers, best)]
    less = _with_less_flash(offers, worth, limits, best), *_in_halves(offers, worth, limits, best)
    ways = [(offers, own) for own in less]
    dearer = [(own, _best(own, worth, limits)) for own in offers.dearer(best.plan)]
    return ways + [(own, other) for own, other in dearer if other is not None]


def _in_halves(offers: Offers, worth: Worth, limits: Limits, best: Best) -> Iterator[Best]:
    """The best plans in half of its arena, in half of that ... while it takes more than it leaves for copies."""
    own: Best | None = best
    while own is not None and offers.excess(own.plan) and own.plan.arena_bytes > offers.room(own.plan):
        own = offers.front.best(worth, replace(limits, arena_bytes=own.plan.arena_bytes // 2))
        if own is not None:
            yield own


def _with_less_flash(offers: Offers, worth: Worth, limits: Limits, best: Best) -> Best:
    """The best plan in as much less flash as there must be for its copies to have room; the last one that is."""
    for _ in range(_ROUNDS):
        excess = offers.excess(best.plan)
        if not excess:
            break
        less = offers.front.best(worth, replace(limits, flash_bytes=best.plan.flash_bytes - excess))
        if less is None:
            break
        best = less
    return best


def _best(offers: Offers, worth: Worth, limits: Limits) -> Best | None:
    """Within the limits; else in all the flash, whatever the RAM; else in the least flash. None where none takes so few
    cycles."""
    best = offers.front.best(worth, limits)
    if best is None and limits.cycles is not None:
        return None
    if best is None and offers.every is not offers.front:
        best = offers.every.best(worth, limits)
    if best is None:
        best = offers.every.best(_LEAST_ARENA, replace(limits, arena_bytes=None))
    if best is None:
        best = offers.every.best(_LEAST_FLASH)
    if best is None:
        raise InvalidPlanError("no plan of this model passes its check")
    return best


def _in_parts(offers: Offers, worth: Worth, limits: Limits, slow: SlowPart, best: Best) -> Plan:
    """The best plan, or one with tensors in the slow RAM, where that is worth more."""
    most = limits.arena_bytes
    assert most is not None
    free = offers.front.best(worth, replace(limits, arena_bytes=None))
    small = offers.front.best(_LEAST_ARENA, replace(limits, arena_bytes=None))
    plans = [one.plan for one in (free, small) if one is not None and one.plan.arena_bytes > most]
    parted = [part for plan in plans if (part := in_parts(plan, most - most % plan.arena_align, slow)) is not None]
    fits = best.plan.arena_bytes <= most

    def value(plan: Plan) -> float:
        cycles, arena = plan.cycles + plan.slow_waits, plan.arena_bytes + plan.slow_bytes
        return worth.of(cycles, plan.flash_bytes, arena)

    better = [plan for plan in sorted(parted, key=value) if not fits or value(plan) < value(best.plan)]
    return first_valid((*better, best.plan))


def slow_part(board: Board, options: Options) -> SlowPart | None:
    """The board's second RAM, for libraries that can have a part of their arena there: those that are called once for
    an inference, with all of the input."""
    ram = board.slow_ram
    if ram is None or options.input_rows or options.by_calls or options.frontend is not None:
        return None
    share = ram.accesses(_WORD) / _WORD
    return SlowPart(ram.bytes, ram.read_waits * share, ram.write_waits * share)


@dataclass(frozen=True, slots=True)
class Copies:
    """What start-up code may copy to RAM: bytes at most, and the cycles of an inference that each has to save."""

    most_bytes: int
    price: float


def copies_of(board: Board, options: Options, *, cycles: int, arena_bytes: int = 0) -> Copies | None:
    """What of the RAM copies of code and constants are worth; None: no copies. cycles: of an inference.

    Where the board's flash is slow, RAM that is left is there to be used: 1 % of all that the board has for what 1 % of
    an arena is worth.
    """
    if options.ram_code is not None:
        return Copies(options.ram_code, 0.0) if options.ram_code else None
    if board.flash_timing is None or board.memory is None:
        return None
    ram = board.memory.ram_beside(board.runs_code_from_ram) - board.memory.stack_bytes - BESIDE_ARENA
    most = ram if options.ram is None else min(ram, options.ram)
    return Copies(max(most - arena_bytes, 0), worth_of(options).arena * cycles / board.memory.ram_bytes)
