# SPDX-License-Identifier: Apache-2.0
"""What of a library start-up code copies to RAM: functions and constants that wait for flash most, for their bytes.

Functions are those in assembly that are written for layers; where in one a layer waits is not known, so its waits are
shared among its functions by their bytes, and so are those for constants. The bytes of functions are an upper bound:
every instruction as a long one.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import replace

from tinyc.base.dataclass import dataclass
from tinyc.base.knapsack import exact
from tinyc.board import Board
from tinyc.board.parts import FlashTiming
from tinyc.choose.slow_flash import Waits, fetched, split_waits
from tinyc.emit.program import InRam, Program, Step
from tinyc.kernel.kernel import SpecializedKernel, call_consts
from tinyc.machine.text_size import code_bytes

# Where a board does not say what its flash takes: every word of it is as dear as any other.
PLAIN_FLASH = FlashTiming(wait_states=1, word_bytes=4, line_bytes=4, instruction_lines=0, data_lines=0)
_GRAIN = 16  # bytes; sums are compared in these
_MOST_GRAINS = 8192
_WORD = 4


@dataclass(frozen=True, slots=True)
class _Piece:
    """A function or a constant array: its bytes, and the cycles that an inference waits for it."""

    name: str
    size: int
    waits: float


def with_ram_code(program: Program, budget: int, board: Board, price: float = 0.0) -> Program:
    """The program with the functions and constants in RAM that save the most waits, within `budget` bytes, and what the
    board's RAM for code takes. price: cycles that each byte has to save."""
    waits = [_waits_of(step, board.flash_timing or PLAIN_FLASH) for step in program.steps]
    functions: Mapping[str, _Piece] = {}
    if board.runs_code_from_ram:
        room = budget if board.code_ram is None else min(budget, board.code_ram.bytes)
        functions = {piece.name: piece for piece in _best(_functions(program, waits).values(), room, price)}
    constants = _constants(program, waits)
    pieces = _best((*functions.values(), *constants.values()), budget, price)
    names, size = frozenset(piece.name for piece in pieces), sum(piece.size for piece in pieces)
    in_ram = InRam(names.intersection(functions), names.difference(functions), budget, size)
    return replace(program, in_ram=in_ram)


def cycles_beside_copies(program: Program, timing: FlashTiming) -> int:
    """Of an inference, with the waits for what does not lie in RAM."""
    return sum(_cycles_without_waits(step) + waits_left(program, step, timing) for step in program.steps)


def _cycles_without_waits(step: Step) -> int:
    """Until all cores are done."""
    cycles = step.cost.cycles - step.cost.waits
    return step.split.time_of(cycles) if step.split else cycles


def waits_left(program: Program, step: Step, timing: FlashTiming) -> int:
    """Cycles of an inference that the step waits for flash, where a part of it lies in RAM; its costs have a price for
    that part in place of waits."""
    assert program.in_ram is not None
    own = _waits_of(step, timing)
    sizes = {special.name: _code_bytes(special) for special in step.specials}
    code = sum(size for name, size in sizes.items() if name not in program.in_ram.functions)
    constants = {program.symbol_of(const): const.data.nbytes for const in call_consts(step.call)}
    data = sum(size for name, size in constants.items() if name not in program.in_ram.constants)
    whole = max(sum(sizes.values()), 1), max(sum(constants.values()), 1)
    return own.code * code // whole[0] + own.data * data // whole[1]


def _best(pieces: Iterable[_Piece], budget: int, price: float) -> list[_Piece]:
    """Those that save most, in so many bytes."""
    worth = [piece for piece in pieces if piece.waits > price * piece.size]
    grain = max(_GRAIN, -(-budget // _MOST_GRAINS))
    classes = [[(0, 0.0), (-(-piece.size // grain), price * piece.size - piece.waits)] for piece in worth]
    taken = exact(classes, budget // grain) if worth else None
    return [piece for piece, is_taken in zip(worth, taken or (), strict=False) if is_taken]


def _waits_of(step: Step, timing: FlashTiming) -> Waits:
    choice = step.choice
    return split_waits(fetched(choice.kernel, step.cost, choice.offer.cost, choice.compiled), timing)


def _functions(program: Program, waits: list[Waits]) -> Mapping[str, _Piece]:
    sizes = {special.name: _code_bytes(special) for special in program.specials}
    calls: Counter[str] = Counter()
    for step, own in zip(program.steps, waits, strict=True):
        names = {special.name for special in step.specials}
        whole = sum(sizes[name] for name in names)
        for name in names:
            calls[name] += own.code * sizes[name] // max(whole, 1)
    return {name: _Piece(name, size, calls[name]) for name, size in sizes.items() if size}


def _code_bytes(special: SpecializedKernel) -> int:
    """Of its assembly, in whole words."""
    return -(-code_bytes(special.text) // _WORD) * _WORD


def _constants(program: Program, waits: list[Waits]) -> Mapping[str, _Piece]:
    arrays = {symbol.name: symbol.const for symbol in program.symbols}
    apart = program.fetched_symbols | (program.blob.offsets.keys() if program.blob is not None else set())
    reads: Counter[str] = Counter()
    for step, own in zip(program.steps, waits, strict=True):
        consts = call_consts(step.call)
        whole = sum(const.data.nbytes for const in consts)
        for const in consts:
            reads[program.symbol_of(const)] += own.data * const.data.nbytes // max(whole, 1)
    return {name: _Piece(name, arrays[name].data.nbytes + 2, reads[name]) for name in reads if name not in apart}
