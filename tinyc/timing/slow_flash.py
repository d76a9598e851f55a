"""Costs of kernels on a board whose flash is slower than its core: cycles of waiting, estimated.

What `run/flash_waits.py` finds by running, estimated from what a kernel says that it fetches: every word of constants
waits, because caches for data are small; code waits each time that it runs, unless it is a loop that the cache for
instructions holds.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from tinyc.board_parts import FlashTiming
from tinyc.kernels import Cost, Fetches, Kernel, RowForm

if TYPE_CHECKING:
    from tinyc.ops.base import Site

_INSTRUCTION_BYTES = 4  # of assembly, nearly always
_BYTES_PER_CYCLE = 3  # of code that a core runs while the next word is fetched ahead


def slowed(kernel: Kernel, timing: FlashTiming) -> Kernel:
    """The kernel with what it waits for the board's flash in its costs, those of its row forms included."""
    cost, forms = kernel.cost, kernel.row_forms
    if cost is None:
        return kernel

    def with_waits(site: Site, params: Any, base: Callable[[Site, Any], Cost] = cost) -> Cost:
        plain = base(site, params)
        return _waiting(plain, _fetches(kernel, plain, plain), timing)

    def forms_with_waits(site: Site, params: Any) -> tuple[RowForm, ...]:
        whole = cost(site, params)
        found = forms(site, params) if forms is not None else ()
        return tuple(
            replace(form, cost=_waiting(form.cost, _fetches(kernel, form.cost, whole), timing)) for form in found
        )

    return replace(kernel, cost=with_waits, row_forms=forms_with_waits if forms is not None else None)


def waits(fetches: Fetches, timing: FlashTiming) -> int:
    """Cycles of waiting."""
    held = (timing.instruction_lines - 1) * timing.line_bytes  # a loop need not begin with a line
    code = sum(size if size <= held else size * turns for size, turns in fetches.loops)
    ahead = timing.word_bytes // _BYTES_PER_CYCLE if timing.prefetch else 0
    next_wait = max(0, timing.wait_states - ahead)
    return (fetches.data_bytes * timing.wait_states + code * next_wait) // timing.word_bytes


def _waiting(cost: Cost, fetches: Fetches, timing: FlashTiming) -> Cost:
    return replace(cost, cycles=cost.cycles + waits(fetches, timing))


def _fetches(kernel: Kernel, cost: Cost, whole: Cost) -> Fetches:
    """What the cost says. Else constants are read as for the whole layer, or once; a function written for a layer is
    straight code, any other a short loop."""
    if cost.fetches is not None:
        return cost.fetches
    data = whole.fetches.data_bytes if whole.fetches is not None else cost.flash_bytes
    straight = kernel.specialize is not None
    return Fetches(data, ((_INSTRUCTION_BYTES * cost.instructions, 1),) if straight else ())
