# SPDX-License-Identifier: Apache-2.0
"""The kernels of each layer that keep what the user, or the board, has of flash and of RAM for code."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress

from tinyc.base.errors import TinycError
from tinyc.board import Board
from tinyc.board.parts import FlashTiming
from tinyc.choose.select import FASTEST, Choice, Goal, choose, least_flash, repriced
from tinyc.choose.slow_flash import RamCode, SlowFlash
from tinyc.ir.graph import Graph
from tinyc.options.build import Options

_ESTIMATED = 50  # flash is estimated to one part of so many
INTERPRETER_BYTES = 58 * 1024  # TensorFlow Lite Micro with CMSIS-NN and the operators of the MLPerf Tiny models
# What its model files hold beside constants: a scale and a zero point of each channel, and of an operator, with its
# tensors, 450 to 1,200 bytes.
_CHANNEL_BYTES = 12
_OPERATOR_BYTES = 700
_MOST_FOR_A_BYTE = 64.0  # cycles that a byte of RAM may have to save; and prices that are tried
_PRICES = 9
APPLICATION_BYTES = 12 * 1024  # of flash that are left beside a library where it would fill it: our test firmware's


def interpreted_bytes(graph: Graph) -> int:
    """Flash that an interpreter would take for the model: its code, and the file."""
    quants = [graph.values[name].quant for name in graph.consts]
    channels = sum(len(quant.scale) for quant in quants if quant is not None)
    constants = sum(array.nbytes for array in graph.consts.values())
    return INTERPRETER_BYTES + constants + _CHANNEL_BYTES * channels + _OPERATOR_BYTES * len(graph.nodes)


def _wants_all_small(options: Options) -> bool:
    """Whether neither time nor arena nor a library that is called for every window is asked for before flash."""
    other = options.ram_budget is not None or options.by_calls
    return options.memory == "balanced" and options.optimize == "speed" and not other


def within_flash(
    graph: Graph, choices: Mapping[str, Sequence[Choice]], board: Board, options: Options
) -> Iterator[tuple[dict[str, Choice], int | None]]:
    """The fastest kernels, and the bytes that constants and kernels may take: the user's.

    By default first those of the model's file and of an interpreter's code, so that no model takes more flash
    compiled than interpreted, where arena and time are not wanted before flash. Not where the flash is slow: forms that
    take less of it wait for more. Then kernels within half of the board's flash, since the application needs some, or,
    on a board that an interpreter would fill beyond that, within what it would take; where that is not enough, within
    all of the flash but what the smallest application needs, and at last the fastest of those that are estimated as
    small as can be.
    """
    is_slow = board.flash_timing is not None
    price = FASTEST if options.optimize == "speed" and (options.memory == "speed" or is_slow) else None
    if options.flash_budget is not None or board.flash_bytes is None:
        budget = options.flash_budget and max(options.flash_budget, least_flash(choices))
        yield choose(choices, Goal(options.optimize, budget, price)), budget
        return
    usual = interpreted_bytes(graph)
    room = max(board.flash_bytes // 2, min(usual, board.flash_bytes - APPLICATION_BYTES))
    if _wants_all_small(options) and not is_slow:
        with suppress(TinycError):
            budget = min(usual, room)
            yield choose(choices, Goal(options.optimize, budget)), budget
    for budget in (room, board.flash_bytes - APPLICATION_BYTES, board.flash_bytes):
        with suppress(TinycError):
            yield choose(choices, Goal(options.optimize, budget, price)), board.flash_bytes
            return
    least = least_flash(choices)
    yield choose(choices, Goal(options.optimize, least + least // _ESTIMATED, price)), board.flash_bytes


def within_ram(
    graph: Graph, choices: Mapping[str, Sequence[Choice]], timing: FlashTiming, board: Board, options: Options
) -> Mapping[str, Sequence[Choice]]:
    """The candidates at the price of a byte of RAM at which the best of them take what `--ram-code` allows."""
    budget, code = options.ram_code or 0, board.runs_code_from_ram
    low, high, best = 0.0, _MOST_FOR_A_BYTE, choices
    for price in (0.0, *[None] * _PRICES):
        tried = (low + high) / 2 if price is None else price
        offered = repriced(choices, SlowFlash(timing, RamCode(tried, code)))
        chosen, _ = next(within_flash(graph, offered, board, options))
        taken = sum(choice.cost.ram_code + choice.cost.ram_consts for choice in chosen.values())
        if taken <= budget:
            best, high = offered, tried
        else:
            low = tried
        if best is offered and tried == 0:
            break
    return best
