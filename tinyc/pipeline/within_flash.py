# SPDX-License-Identifier: Apache-2.0
"""A limit of flash, with what the board's compiler makes of the library."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Generic, Protocol, TypeVar

from tinyc.base.errors import TinycError
from tinyc.board import Board
from tinyc.emit.program import Program
from tinyc.options.build import Options
from tinyc.pipeline.choosing import WORTH, worth_of
from tinyc.pipeline.progress import Progress
from tinyc.plan.answer import Plan
from tinyc.plan.worth import Worth
from tinyc.toolchain.compile import Sources, compile_library
from tinyc.toolchain.compilers import Toolchain, find_toolchain
from tinyc.toolchain.size import library_size

_MOST_COMPILED = 6  # libraries for one limit, with that without it
_NEVER = 1 << 60  # bytes
_NEAR = 32  # bytes of estimates: so near to what was tried nothing else is looked for, and less where none fits


class LibraryText(Protocol):
    """The text of a library, and how its memory is planned."""

    @property
    def program(self) -> Program: ...
    @property
    def files(self) -> Mapping[str, str]: ...
    @property
    def plan(self) -> Plan: ...


L = TypeVar("L", bound=LibraryText)


def within_flash(library: Callable[[Options], L], board: Board, options: Options, progress: Progress) -> L:
    """The library that is worth most of those whose compiled code fits `options.flash`, which is some number; where
    there is no compiler, the first that does by estimates. If that without the limit fits, it is this one.

    Kernels are chosen by estimates of what a compiler makes of C. What it made of one library corrects the estimate by
    which the next is chosen, until that is the same. library: that of options which say the correction. Where none
    fits, the one by which flash is preferred, as the correction of one may be too much for another; else that which
    another preference leads to without the limit, as estimates may refuse what fits; else the smallest that was
    compiled.
    """
    assert options.flash is not None
    toolchain = _toolchain(board, options)
    if options.flash_reserve is not None or toolchain is None:
        return library(options)
    tries: _Tries[L] = _Tries(options.flash, options.ram, worth_of(options))
    with suppress(TinycError):  # by other limits there may be none
        usual = library(replace(options, flash=None))
        with progress.stage("compile"):
            tries.add(usual, _flash_bytes(usual, board, options, toolchain))
        if tries.has_one_that_fits:  # the correction says so, too
            return library(replace(options, flash_reserve=min(0, options.flash - usual.plan.flash_bytes)))
    refused: TinycError | None = None
    compiled: L | None = None
    try:
        compiled = library(options)
    except TinycError as error:
        refused = error
        if options.time is not None:  # so fast none may be but in the last bytes, which are left for compilers
            with suppress(TinycError):
                compiled = library(replace(options, flash_reserve=0))
    while compiled is not None:
        with progress.stage("compile"):
            taken = _flash_bytes(compiled, board, options, toolchain)
        reserve = tries.next_reserve(compiled.plan.flash_bytes, taken)
        tries.add(compiled, taken)
        if reserve is None or len(tries.libraries) == _MOST_COMPILED:
            break
        try:
            compiled = library(replace(options, flash_reserve=reserve))
        except TinycError:  # so little is not to be had
            break
    others = [replace(options, prefer=prefer, flash=None) for prefer in WORTH if prefer != options.prefer]
    smallest = [replace(options, prefer="flash")] if options.prefer != "flash" and compiled is not None else []
    for own in (*smallest, *others):
        if tries.has_one_that_fits:
            break
        with suppress(TinycError), progress.stage("compile"):
            compiled = library(own)
            tries.add(compiled, _flash_bytes(compiled, board, options, toolchain))
    if refused is not None and not tries.has_one_that_fits:
        raise refused
    return tries.best


class _Tries(Generic[L]):
    """Libraries that were compiled for a limit of flash. arena_bytes: the limit of RAM, which what is chosen for less
    flash may miss."""

    def __init__(self, limit: int, arena_bytes: int | None, worth: Worth) -> None:
        self._limit, self._arena_bytes, self._worth = limit, arena_bytes, worth
        self._fits, self._exceeds = 0, _NEVER  # estimates: the largest of a library that fits, the smallest of others
        self._reserves: set[int] = set()
        self.libraries: list[tuple[bool, float, L]] = []

    def next_reserve(self, estimate: int, taken: int) -> int | None:
        """The correction for the next library: by what this one takes, but for less than what does not fit; and where
        that is known to be wrong, half way between what fits and what does not. None where nothing is left to try."""
        if taken <= self._limit:
            self._fits = max(self._fits, estimate)
        else:
            self._exceeds = min(self._exceeds, estimate)
        target = self._limit - (taken - estimate)
        if self._fits and self._exceeds < _NEVER and not self._fits < target < self._exceeds:
            target = (self._fits + self._exceeds) // 2
        if not self._fits:
            target = min(target, self._exceeds - _NEAR - 1)
        reserve = self._limit - target
        if not self._fits + _NEAR < target < self._exceeds - _NEAR or reserve in self._reserves:
            return None
        self._reserves.add(reserve)
        return reserve

    def add(self, library: L, taken: int) -> None:
        """A library of so many bytes."""
        plan = library.plan
        arena_bytes = library.program.arena_bytes
        fits = taken <= self._limit and (self._arena_bytes is None or arena_bytes <= self._arena_bytes)
        value = self._worth.of(plan.cycles, taken, plan.arena_bytes)
        self.libraries.append((not fits, value if fits else taken, library))

    @property
    def has_one_that_fits(self) -> bool:
        """Whether a library is within the limits."""
        return any(not over for over, _, _ in self.libraries)

    @property
    def best(self) -> L:
        """What is worth most of what fits; else the smallest."""
        return min(self.libraries, key=lambda one: one[:2])[2]


def _toolchain(board: Board, options: Options) -> Toolchain | None:
    """The compiler, where there is one."""
    try:
        return find_toolchain(board, options.toolchain)
    except TinycError:
        return None


def _flash_bytes(compiled: LibraryText, board: Board, options: Options, toolchain: Toolchain) -> int:
    """Of the compiled library."""
    with tempfile.TemporaryDirectory(prefix="tinyc-") as name:
        folder, model = Path(name), compiled.program.name
        for file, text in compiled.files.items():
            (folder / file).write_text(text, encoding="utf-8")
        library = compile_library(Sources(folder, model), toolchain, compiled.program.optimize, folder / f"{model}.o")
        return library_size(library, toolchain, board, folder).flash_bytes
