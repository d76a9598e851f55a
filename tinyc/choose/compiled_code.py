# SPDX-License-Identifier: Apache-2.0
"""Bytes that compilers make of kernels in C, measured on libraries of one layer and of several (`bench/estimates.py`).

Assembly is counted in its text (`machine/text_size.py`). code_bytes.json has, by core and compiler's option, of each
kernel: `k alone` where one step of a library calls it, `k shared` where some do and `k many` where more than `FEW` do,
bytes of a step, its call and the constants that C makes of it; `k alone f`, bytes of a function f that these steps
call, of C or one of the compiler's helpers, which a library has once, and so on; and under `base` what it has beside.
`k rows` is a step that calls the kernel for each row, with several of the input; `k window` one that makes a row of
several when it is called; `k tiles` one that makes rows by tiles in C. Where a table has no such step it is as any
other of k.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from functools import cached_property, lru_cache
from pathlib import Path
from typing import NamedTuple

from tinyc.base.dataclass import dataclass
from tinyc.board.core import core_named
from tinyc.kernel.counted import CODE, counts, kind_of, measured_table
from tinyc.kernel.kernel import Call, Kernel, RowForm
from tinyc.options.build import Optimize

TABLE = Path(__file__).with_name("code_bytes.json")
BASE = "base"
ALONE, SHARED, MANY = "alone", "shared", "many"
# Where else code of a kernel is looked for that no measured library of the core had: on the core of its kind, and on
# these.
_OF_KIND = {"mve": "cortex-m55", "dsp": "cortex-m4", "thumb1": "cortex-m0plus", "rv32": "riscv32imc"}
_NEXT = ("cortex-m3", "cortex-m0plus")
# Steps for each of which gcc may make a function of its own, with the layer's sizes in it: the different values of an
# argument that it follows (its `ipa-cp-value-list-size`). Where more steps call the function it is there once.
FEW = 8
_STEP = 44  # bytes of a step that calls a function and does no more
ROW_CODE = 24  # of a step that makes rows, for each pointer to one

_WAYS = (SHARED, MANY, ALONE, "")  # the first that was measured stands for one that was not

# Functions that no compiler takes into a step, so however often it calls its kernel: those of gcc, and one of float32.
_HELPER = re.compile("__|tc_fma$")

ROWS, WINDOW, TILES = "rows", "window", "tiles"

Sizes = Mapping[str, int]


class KernelCode(NamedTuple):
    """What a layer takes of a kernel: bytes of each step, and of functions in C, by their names: (all of these, where
    several layers have them; where one has).  Functions that the same kernels call have the name of the first."""

    step: int
    functions: tuple[tuple[str, int, int], ...] = ()

    @property
    def bytes(self) -> int:
        """Of the only layer that has it."""
        return self.step + sum(once for _, _, once in self.functions)


class _Measured(NamedTuple):
    """Of a kernel in one of two ways: a step, and functions."""

    step: int
    functions: Mapping[str, int]


def _sum(measured: _Measured, functions: Iterable[str]) -> int:
    """Bytes of these functions, as far as it has them."""
    return sum(measured.functions.get(function, 0) for function in functions)


@dataclass(frozen=True)
class CompiledCode:
    """What a core's compiler makes of C. tables: sizes of the core, then of those that its code is most like. kind: of
    `kernel/counted.py`, for kernels that no library had. many: kernels that more than `FEW` layers may have."""

    tables: Sequence[Sizes]
    kind: str
    many: frozenset[str] = frozenset()

    @cached_property
    def _parsed(self) -> Sequence[Mapping[str, Mapping[str, _Measured]]]:
        return [_parsed(table) for table in self.tables]

    def for_layers(self, kernels: Iterable[str]) -> CompiledCode:
        """The same, for layers that may have these kernels, one by one."""
        return replace(self, many=frozenset(name for name, count in Counter(kernels).items() if count > FEW))

    def library(self, kernels: Iterable[str]) -> int:
        """Bytes of a library's compiled code. kernels: of its steps, one by one, by `compiled_name`."""
        names = list(kernels)
        steps = Counter(map(_plain, names))
        size = next((table[BASE] for table in self.tables if BASE in table), 0)
        functions: dict[str, int] = {}
        for name in names:
            measured = self._measured(name, way_of(steps[_plain(name)]))
            size += measured.step
            functions |= {key: max(own, functions.get(key, 0)) for key, own in measured.functions.items()}
        return size + sum(functions.values())

    def kernel(self, name: str, *, written: bool = False) -> KernelCode:
        """What a layer takes of a kernel. name: of `compiled_name`. written: its functions are, for each layer."""
        if written and not self._of(name):
            return KernelCode(_STEP)
        alone, shared = self._measured(name, ALONE), self._measured(name, MANY if _plain(name) in self.many else SHARED)
        users = self._users(name)
        own = [key for key in {**shared.functions, **alone.functions} if len(users.get(key, ())) < 2]  # of it alone
        by_users: dict[frozenset[str], list[str]] = {}
        for key in {**shared.functions, **alone.functions}:
            if key not in own:
                by_users.setdefault(users[key], []).append(key)
        first = {of: min(key for key, other in users.items() if other == of) for of in by_users}
        others = [(first[of], _sum(shared, keys), _sum(alone, keys)) for of, keys in by_users.items()]
        size = sum(shared.functions.get(key, 0) for key in own)
        once = alone.step - shared.step + sum(alone.functions.values()) - sum(other for _, _, other in others)
        main = ((_plain(name), size, max(once, 0)),) if size or once > 0 else ()
        return KernelCode(shared.step, (*main, *others))

    def _measured(self, name: str, way: str) -> _Measured:
        ways = self._of(name)
        if ways:
            return ways.get(way) or next(iter(ways.values()))
        step = _STEP
        return _Measured(step, {_plain(name): max(self._counted(_plain(name)) - step, 0)})

    def _of(self, name: str) -> Mapping[str, _Measured]:
        """Both ways of a step so called, of the first of the tables that this kernel was measured for; else none."""
        for table in self._parsed:
            if name in table or _plain(name) in table:
                return table.get(name) or table[_plain(name)]
        return {}

    def _users(self, name: str) -> Mapping[str, frozenset[str]]:
        """By function, kernels of the same table that call it."""
        for number, table in enumerate(self._parsed):
            if name in table or _plain(name) in table:
                return self._users_by_table[number]
        return {}

    @cached_property
    def _users_by_table(self) -> Sequence[Mapping[str, frozenset[str]]]:
        by_table = []
        for table in self._parsed:
            users: dict[str, set[str]] = {}
            for name, ways in table.items():
                for measured in ways.values():
                    for key in measured.functions:
                        users.setdefault(key, set()).add(_plain(name))
            by_table.append({key: frozenset(own) for key, own in users.items()})
        return by_table

    def _counted(self, kernel: str) -> int:
        """Of one that no library had: what it took alone on a core of the kind, else what kernels take mostly."""
        measured = counts().get(kernel, {}).get(self.kind)
        return round(measured[CODE]) if measured else next((table.get("", _STEP) for table in self.tables), _STEP)


def compiled_name(kernel: Kernel, call: Call, form: RowForm | None = None) -> str:
    """Of a step in the tables. form: by which it makes a row, or some, when it is called."""
    of_several = call.rows is not None and call.rows.k_h > 1
    word = (form.in_c or WINDOW * of_several) if form is not None else ROWS * of_several
    return f"{kernel.name} {word}" if word else kernel.name


def way_of(steps: int) -> str:
    """The word for a kernel that so many steps of a library call."""
    return ALONE if steps == 1 else SHARED if steps <= FEW else MANY


def _plain(name: str) -> str:
    """The kernel's name."""
    return name.partition(" ")[0]


def _parsed(table: Sizes) -> Mapping[str, Mapping[str, _Measured]]:
    """By name of a step, and way."""
    steps: dict[str, dict[str, int]] = {}
    functions: dict[tuple[str, str], dict[str, int]] = {}
    for key, size in table.items():
        kernel, *words = key.split(" ")
        name = f"{kernel} {words.pop(0)}" if words and words[0] in (ROWS, WINDOW, TILES) else kernel
        if len(words) == 1:
            steps.setdefault(name, {})[words[0]] = size
        elif words:
            functions.setdefault((name, words[0]), {})[words[1]] = size
        elif kernel and kernel != BASE:
            steps.setdefault(name, {}).setdefault("", size)
    helpers: dict[str, dict[str, int]] = {}
    for (name, _), own in functions.items():
        helpers.setdefault(_plain(name), {}).update((key, size) for key, size in own.items() if _HELPER.match(key))
    return {
        name: {
            way: _Measured(ways[way], helpers.get(_plain(name), {}) | functions.get((name, way), {}))
            for way in _WAYS
            if way in ways
        }
        for name, ways in steps.items()
    }


@lru_cache
def compiled_code(core: str, isa: frozenset[str], optimize: Optimize) -> CompiledCode:
    """What compilers make for a core of `board/core.py`."""
    kind = kind_of(isa)
    facts, like = core_named(core), _OF_KIND.get(kind, _NEXT[0])
    names = dict.fromkeys((facts.code or core, core, facts.measured_as or core, like, *_NEXT))
    tables = dict.fromkeys(table for name in names for table in (table_of(name, optimize), name))
    return CompiledCode([_measured()[name] for name in tables if name in _measured()], kind)


def table_of(core: str, optimize: Optimize) -> str:
    """The name of what was measured on a core of code that the compiler has made so."""
    return f"{core} size" if optimize == "size" else core


def _measured() -> Mapping[str, Sizes]:
    sizes: Mapping[str, Sizes] = measured_table(TABLE)
    return sizes
