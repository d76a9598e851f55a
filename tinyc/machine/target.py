# SPDX-License-Identifier: Apache-2.0
"""The core that functions in assembly are written for: whose rules their costs and the order of their instructions
follow. It is that of the board that is compiled for, not an argument of each of a hundred functions between."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any, ParamSpec, TypeVar

from tinyc.machine.cores import CORES, Core

P = ParamSpec("P")
T = TypeVar("T")

OF_THEIR_OWN = frozenset({"cortex-m7", "cortex-m33"})  # cores that get an order of their own; others that of the M4
ORDERED_FOR = OF_THEIR_OWN | {"cortex-m4"}  # whose rules the costs of kernels follow, then
_now: ContextVar[Core] = ContextVar("core", default=CORES["cortex-m4"])


def written_for() -> Core:
    """The core that is written for now."""
    return _now.get()


def cycles_alone() -> bool:
    """Whether a core's instructions say little of its time: those that begin beside another one take none."""
    return written_for().name != CORES["cortex-m4"].name


def weighed(instructions: int, cycles: int) -> int:
    """What is compared of two ways to run a layer. Where cycles are known less well, instructions count as much: a
    kernel that saves one must not lose as much of the other."""
    return 2 * cycles if cycles_alone() else instructions + cycles


@contextmanager
def code_for(core: str) -> Iterator[None]:
    """Within the context, functions in assembly are written for this core of a board's file."""
    token = _now.set(CORES[core if core in OF_THEIR_OWN else "cortex-m4"])
    try:
        yield
    finally:
        _now.reset(token)


def kept_by_core(maxsize: int) -> Callable[[Callable[P, T]], Callable[P, T]]:
    """`functools.lru_cache` of what depends on the core that is written for."""

    def keeping(function: Callable[P, T]) -> Callable[P, T]:
        def of_core(core: str, *args: Any) -> T:
            return function(*args)  # type: ignore[call-arg]

        kept = functools.lru_cache(maxsize=maxsize)(of_core)

        @functools.wraps(function)
        def found(*args: P.args, **_: P.kwargs) -> T:
            return kept(written_for().name, *args)

        return found

    return keeping
