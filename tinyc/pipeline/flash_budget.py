# SPDX-License-Identifier: Apache-2.0
"""A budget of flash is kept by the whole library, where kernels are chosen by what each is said to take.

Functions that layers share, and what a compiler makes of C, are known when the steps are: then the library's size is
estimated anew (`explain.estimate.library_flash`), and kernels are chosen again for as much more or less.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Generic, TypeVar

from tinyc.base.errors import TinycError
from tinyc.emit.program import Program
from tinyc.explain.estimate import FlashEstimate

T = TypeVar("T")

# What is left for what a compiler makes more of C than estimated: one part of so many of the code, and of the library.
_OF_CODE, _OF_ALL = 16, 100
_ROUNDS = 8  # of choosing kernels
_NEAR = 100  # a library that leaves one part of so many of its budget is near enough
_ERROR = 20  # the size of compiled code is estimated to one part of so many of a library; what is compiled says
_GRAIN = 128  # bytes; budgets that differ by no more lead to the same kernels


@dataclass(frozen=True, slots=True)
class Tried(Generic[T]):
    """What was made with kernels chosen within a budget: what they were said to take, and what they take."""

    made: T
    said: int
    taken: int


def in_flash(attempt: Callable[[int], Tried[T]], asked: int) -> Tried[T]:
    """Of attempts, by what kernels may be said to take, the one with the largest such budget that takes at most the
    bytes asked for; where none does, the smallest.

    A budget that leaves bytes unused gives what a smaller one gives, down to what the kernels are said to take. One
    that is too small for any kernels gives the smallest.
    """
    budget, low, high = asked, 0, 0  # low: the largest that fits; high: the smallest that does not; 0: none yet
    latest = best = attempt(budget)
    for _ in range(_ROUNDS - 1):
        spare = asked - latest.taken
        if spare >= 0:
            low = max(budget, latest.said)
        else:
            high = min(budget, latest.said)
        if 0 <= spare <= asked // _NEAR or (high and high - low <= _GRAIN):
            break
        budget = _next(low + spare if spare >= 0 else high + spare, low, high)
        before, latest = latest, attempt(budget)
        if latest.taken <= asked or (best.taken > asked and latest.taken < best.taken):
            best = latest
        if not high and latest.taken == before.taken:
            break  # there is nothing better to buy
    return best


def with_reserve(taken: FlashEstimate) -> int:
    """Bytes that a library takes at most, but for compilers that make much more of C than estimated."""
    return taken.total + max(taken.code_bytes // _OF_CODE, taken.total // _OF_ALL)


def _next(guess: int, low: int, high: int) -> int:
    """The guess, where it lies between what fits and what does not; else what lies in their middle."""
    inside = low < guess and (not high or guess < high)
    return guess if inside else (low + high) // 2


def check_flash(program: Program, taken: int, asked: int) -> None:
    """Raises TinycError (exit code 1) where a library is estimated to take more bytes of flash than asked for, beyond
    what the estimate may be wrong by, with the layer that weighs most."""
    if taken <= asked + asked // _ERROR:
        return
    layer = max(program.steps, key=lambda step: step.const_bytes)
    raise TinycError(
        f"the smallest library found takes about {taken:,} bytes of flash, the budget is {asked:,}: "
        f"{taken - asked:,} too few",
        layer.node.where,
        f"`--optimize size --flash-budget {taken}` builds it; this layer has the most constants, "
        f"{layer.const_bytes:,} bytes",
        exit_code=1,
    )
