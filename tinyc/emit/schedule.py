# SPDX-License-Identifier: Apache-2.0
"""The order in which rows are made, as lines that a reader can follow, and the tables that go with it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from tinyc.base.dataclass import dataclass
from tinyc.base.escape import C
from tinyc.emit.constants import ConstantArray
from tinyc.emit.program import Program
from tinyc.emit.text import filled
from tinyc.kernel.kernel import Const

# By their role: constants that say when and where rows are made, and nothing of the layers.
ROLES = ("row_order", "row_turns", "row_moves", "rows_at", "windows_at", "scratch_at")


@dataclass(frozen=True, slots=True)
class TurnTable:
    """A table of turns of the steps `first` to `last`. turn_type: C type of its elements. lines: initializers."""

    symbol: ConstantArray
    turn_type: C
    count: int
    first: int
    last: int
    lines: tuple[C, ...]

    @property
    def name(self) -> str:
        return self.symbol.name


@dataclass(frozen=True, slots=True)
class MoveTable:
    """Rows that go to other places: `{from, to, size}` of each."""

    symbol: ConstantArray
    about: C
    lines: tuple[C, ...]


def orders(program: Program) -> dict[str, TurnTable]:
    """Every order of the program by its symbol's name."""
    return {order.name: order for order in _orders(program)}


def moves(program: Program) -> MoveTable | None:
    """The moves between turns, or those between the calls of an incremental library."""
    const = program.moves.table if program.moves else program.incremental.moves if program.incremental else None
    if const is None:
        return None
    lines = tuple(C(f"{{{source}, {target}, {size}}}") for source, target, size in const.data.tolist())
    return MoveTable(_symbol(program, const), C(const.layout.capitalize()), lines)


def _symbol(program: Program, const: Const) -> ConstantArray:
    name = program.symbol_of(const)
    return next(symbol for symbol in program.symbols if symbol.name == name)


def _orders(program: Program) -> Iterator[TurnTable]:
    if program.row_input is not None:
        given = program.row_input
        ends = [int(end) for end in given.turns.data]
        yield _order(program, given.order, _by_input_rows(given.order, ends))
    elif program.incremental is not None:
        yield _order(program, program.incremental.order, _by_leader(program.incremental.order))
    else:
        for stream in program.streams:
            yield _order(program, stream.order, _by_leader(stream.order))


def _order(program: Program, const: Const, groups: Sequence[tuple[str, Sequence[tuple[int, int]]]]) -> TurnTable:
    symbol = _symbol(program, const)
    steps = [step for step, _ in _turns(const) if step < len(program.steps)]
    width = max(len(comment) for comment, _ in groups)
    lines = tuple(C(_line(f"    /* {comment:>{width}} */", turns)) for comment, turns in groups)
    turn_type = C(f"{symbol.name.removesuffix('row_order')}turn_t")
    return TurnTable(symbol, turn_type, len(const.data), min(steps), max(steps), lines)


def _turns(const: Const) -> list[tuple[int, int]]:
    return [(int(step), int(row)) for step, row in np.asarray(const.data)]


def _line(begin: str, turns: Sequence[tuple[int, int]]) -> str:
    return filled((f"{{{step},{row:>3}}}" for step, row in turns), begin)


def _by_leader(const: Const) -> list[tuple[str, list[tuple[int, int]]]]:
    """A group for each turn of the first step, and what that makes possible in the others."""
    turns = _turns(const)
    leader = turns[0][0]
    groups: list[tuple[str, list[tuple[int, int]]]] = []
    for step, row in turns:
        if step == leader or not groups:
            groups.append((f"{row}", []))
        groups[-1][1].append((step, row))
    return groups


def _by_input_rows(const: Const, ends: Sequence[int]) -> list[tuple[str, list[tuple[int, int]]]]:
    """A group for each row of the input that makes something possible."""
    turns = _turns(const)
    begins = [0, *ends[:-1]]
    pieces = ((f"{row}", turns[begin:end]) for row, (begin, end) in enumerate(zip(begins, ends, strict=True)))
    return [(comment, piece) for comment, piece in pieces if piece]
