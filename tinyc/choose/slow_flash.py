# SPDX-License-Identifier: Apache-2.0
"""Costs of kernels on a board whose flash is slower than its core: cycles of waiting, estimated.

What `run/flash_waits.py` finds by running, estimated from what a kernel says that it fetches: every word of constants
waits, because caches for data are small; code waits each time that it runs, unless it is a loop that the cache for
instructions holds.
"""

from __future__ import annotations

from dataclasses import replace

from tinyc.board.parts import FlashTiming
from tinyc.kernel.kernel import Cost, Fetches, Kernel, Offer, Once, RowForm

_INSTRUCTION_BYTES = 4  # of assembly, nearly always
_BYTES_PER_CYCLE = 3  # of code that a core runs while the next word is fetched ahead


def slowed(kernel: Kernel, offer: Offer, timing: FlashTiming) -> Offer:
    """The offer with what the kernel waits for the board's flash in its costs, those of its row forms included."""
    whole = offer.cost
    if whole is None:
        return offer

    def waiting(cost: Cost) -> Cost:
        return replace(cost, cycles=cost.cycles + waits(_fetches(kernel, cost, whole), timing))

    def forms() -> tuple[RowForm, ...]:
        return tuple(replace(form, cost=waiting(form.cost)) for form in offer.row_forms())

    return replace(offer, cost=waiting(whole), row_forms=Once(forms))


def waits(fetches: Fetches, timing: FlashTiming) -> int:
    """Cycles of waiting."""
    held = (timing.instruction_lines - 1) * timing.line_bytes  # a loop need not begin with a line
    code = sum(size if size <= held else size * turns for size, turns in fetches.loops)
    ahead = timing.word_bytes // _BYTES_PER_CYCLE if timing.prefetch else 0
    next_wait = max(0, timing.wait_states - ahead)
    return (fetches.data_bytes * timing.wait_states + code * next_wait) // timing.word_bytes


def _fetches(kernel: Kernel, cost: Cost, whole: Cost) -> Fetches:
    """What the cost says. Else constants are read as for the whole layer, or once; a function written for a layer is
    straight code, any other a short loop."""
    if cost.fetches is not None:
        return cost.fetches
    data = whole.fetches.data_bytes if whole.fetches is not None else cost.flash_bytes
    straight = kernel.written
    return Fetches(data, ((_INSTRUCTION_BYTES * cost.instructions, 1),) if straight else ())
