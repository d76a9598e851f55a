# SPDX-License-Identifier: Apache-2.0
"""Bytes that compilers make of kernels in C, measured on libraries of one layer and of several (`bench/estimates.py`).

Assembly is counted in its text (`machine/text_size.py`). code_bytes.json has, by core and compiler's option, of each
kernel: `k alone` where one step of a library calls it and `k shared` where several do, bytes of a step's function;
`k function`, bytes of the kernel itself where several share it, since alone it becomes part of its step; and under
`base` what a library has beside its steps.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from tinyc.base.dataclass import dataclass
from tinyc.board.core import core_named
from tinyc.kernel.counted import CODE, counts, kind_of, measured_table
from tinyc.options.build import Optimize

TABLE = Path(__file__).with_name("code_bytes.json")
BASE = "base"
# Where else code of a kernel is looked for that no measured library of the core had.
_NEXT = ("cortex-m3", "cortex-m0plus")
_STEP = 44  # bytes of a step that calls a function and does no more

Sizes = Mapping[str, int]


class KernelCode(NamedTuple):
    """Bytes of a kernel's functions, which layers share, and of each step that calls them."""

    function: int
    step: int


@dataclass(frozen=True)
class CompiledCode:
    """What a core's compiler makes of C. tables: sizes of the core, then of those that its code is most like. kind: of
    `kernel/counted.py`, for kernels that no library had."""

    tables: Sequence[Sizes]
    kind: str

    def library(self, kernels: Iterable[str]) -> int:
        """Bytes of a library's compiled code. kernels: of its steps, one by one."""
        size = next((table[BASE] for table in self.tables if BASE in table), 0)
        for kernel, steps in Counter(kernels).items():
            size += self._alone(kernel) if steps == 1 else self._function(kernel) + steps * self._shared(kernel)
        return size

    def kernel(self, kernel: str) -> KernelCode:
        """What a layer takes of a kernel in C that others may run, too."""
        step = self._shared(kernel)
        return KernelCode(max(self._function(kernel), self._alone(kernel) - step, 0), step)

    def _alone(self, kernel: str) -> int:
        return self._size(f"{kernel} alone", kernel, self._counted(kernel))

    def _shared(self, kernel: str) -> int:
        return self._size(f"{kernel} shared", kernel, _STEP)

    def _function(self, kernel: str) -> int:
        sizes = self._of(kernel)
        return sizes.get(f"{kernel} function", 0 if kernel in sizes else self._counted(kernel) - _STEP)

    def _size(self, key: str, kernel: str, other: int) -> int:
        sizes = self._of(kernel)
        return sizes.get(key, sizes.get(kernel, other))

    def _of(self, kernel: str) -> Sizes:
        """The first of the tables that this kernel was measured for; else none."""
        return next((table for table in self.tables if kernel in table), {})

    def _counted(self, kernel: str) -> int:
        """Of one that no library had: what it took alone on a core of the kind, else what kernels take mostly."""
        measured = counts().get(kernel, {}).get(self.kind)
        return round(measured[CODE]) if measured else next((table.get("", _STEP) for table in self.tables), _STEP)


def compiled_code(core: str, isa: frozenset[str], optimize: Optimize) -> CompiledCode:
    """What compilers make for a core of `board/core.py`."""
    names = dict.fromkeys((core_named(core).code or core, core, core_named(core).measured_as or core, *_NEXT))
    tables = dict.fromkeys(table for name in names for table in (table_of(name, optimize), name))
    return CompiledCode([_measured()[name] for name in tables if name in _measured()], kind_of(isa))


def table_of(core: str, optimize: Optimize) -> str:
    """The name of what was measured on a core of code that the compiler has made so."""
    return f"{core} size" if optimize == "size" else core


def _measured() -> Mapping[str, Sizes]:
    sizes: Mapping[str, Sizes] = measured_table(TABLE)
    return sizes
