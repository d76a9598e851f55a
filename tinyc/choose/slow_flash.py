# SPDX-License-Identifier: Apache-2.0
"""Costs of kernels on a board whose flash is slower than its core: cycles of waiting, estimated.

What `run/flash_waits.py` finds by running, estimated from what a kernel says that it fetches: every word of constants
waits, unless it is of a stream that the cache for data holds from the first reading on; code waits each time that it
runs, unless it is a loop that the cache for instructions holds.
"""

from __future__ import annotations

from dataclasses import replace

from tinyc.base.dataclass import dataclass
from tinyc.board.parts import FlashTiming
from tinyc.choose.compiled_code import CompiledCode
from tinyc.kernel.kernel import STREAM, Arg, Call, Const, Copied, Cost, Fetches, Kernel, Offer, Once, RowForm
from tinyc.machine.work import Work

_INSTRUCTION_BYTES = 4  # of assembly, nearly always
_READINGS = 3  # of a stream that is worth a copy
_WORD = 4
_COPY = Work(3, 4)  # of a word, by tc_copy_words
_BYTES_PER_CYCLE = 3  # of code that a core runs while the next word is fetched ahead


@dataclass(frozen=True, slots=True)
class RamCode:
    """RAM for what waits for flash most. price: cycles that each byte of it has to save. code: whether code may run
    there, not constants alone."""

    price: float
    code: bool = True


@dataclass(frozen=True, slots=True)
class SlowFlash:
    """A board's flash, and RAM that code and constants may be copied to; None: there is none for that. compiled: what
    the board's compiler makes of C, whose code comes from flash, too; None: it is not counted."""

    timing: FlashTiming
    ram: RamCode | None = None
    compiled: CompiledCode | None = None


def slowed(kernel: Kernel, offer: Offer, flash: SlowFlash) -> Offer:
    """The offer with what the kernel waits for the board's flash in its costs, those of its row forms included."""
    whole = offer.cost

    def forms() -> tuple[RowForm, ...]:
        return tuple(replace(form, cost=_waiting(kernel, form.cost, whole, flash)) for form in offer.row_forms())

    return replace(offer, cost=_waiting(kernel, whole, whole, flash), row_forms=Once(forms))


def copied(offer: Offer) -> Offer | None:
    """The offer of a kernel that reads its stream of constants again and again, with the stream in scratch memory,
    copied there before the layer begins. None where no kernel says so, or it is read once.

    Such a layer runs whole: by rows it would have to copy for each, or keep the copy all the time.
    """
    cost = offer.cost
    if cost.fetches is None or cost.fetches.stream[1] < _READINGS:
        return None
    (size, readings), at = cost.fetches.stream, -(-offer.scratch_bytes // _WORD) * _WORD
    whole = replace(
        cost,
        instructions=cost.instructions + _COPY.instructions * size // _WORD,
        cycles=cost.cycles + _COPY.cycles * size // _WORD,
        scratch_bytes=at + size,
        fetches=replace(cost.fetches, data_bytes=cost.fetches.data_bytes - size * (readings - 1), stream=(size, 1)),
    )
    call = Once(lambda: _from_scratch(offer.call(), at, size))
    return replace(offer, scratch_bytes=at + size, cost=whole, call=call, row_forms=Once(tuple), copies=True)


def _from_scratch(call: Call, at: int, size: int) -> Call:
    """The call with its stream of so many bytes in scratch memory."""

    def moved(arg: Arg) -> Arg:
        return Copied(arg, at) if isinstance(arg, Const) and arg.role == STREAM and arg.data.nbytes == size else arg

    copying = replace(call, args=tuple(map(moved, call.args)))
    if sum(isinstance(arg, Copied) for arg in copying.args) != 1:
        raise ValueError(f"no stream of {size} bytes among the arguments")
    return copying


def _waiting(kernel: Kernel, cost: Cost, whole: Cost, flash: SlowFlash) -> Cost:
    """With waits, or, for what is worth a place in RAM, with the price of that: then it is not taken for free."""
    waits = split_waits(fetched(kernel, cost, whole, flash.compiled), flash.timing)
    if flash.ram is None:
        both = waits.code + waits.data
        return replace(cost, cycles=cost.cycles + both, waits=both)
    code_bytes = sum(code.size for code in cost.codes)
    const_bytes, price = cost.flash_bytes - code_bytes, flash.ram.price
    code_in_ram = flash.ram.code and code_bytes > 0 and code_bytes * price < waits.code
    consts_in_ram = const_bytes * price < waits.data
    code = round(code_bytes * price) if code_in_ram else waits.code
    data = round(const_bytes * price) if consts_in_ram else waits.data
    return replace(
        cost,
        cycles=cost.cycles + code + data,
        waits=code + data,
        ram_code=code_bytes * code_in_ram,
        ram_consts=const_bytes * consts_in_ram,
    )


@dataclass(frozen=True, slots=True)
class Waits:
    """Cycles of waiting for code, and for constants."""

    code: int
    data: int


def waits(fetches: Fetches, timing: FlashTiming) -> int:
    """Cycles of waiting."""
    waiting = split_waits(fetches, timing)
    return waiting.code + waiting.data


def split_waits(fetches: Fetches, timing: FlashTiming) -> Waits:
    """Cycles of waiting, by what is waited for."""
    held = (timing.instruction_lines - 1) * timing.line_bytes  # a loop need not begin with a line
    code = sum(size if size <= held else size * turns for size, turns in fetches.loops)
    ahead = timing.word_bytes // _BYTES_PER_CYCLE if timing.prefetch else 0
    next_wait = max(0, timing.wait_states - ahead)
    size, readings = fetches.stream
    again = size * (readings - 1) if 0 < size <= timing.data_lines * timing.line_bytes else 0
    data = (fetches.data_bytes - again) * timing.data_waits
    both = (data + code * next_wait) // timing.word_bytes
    return Waits(both - data // timing.word_bytes, data // timing.word_bytes)


def fetched(kernel: Kernel, cost: Cost, whole: Cost, compiled: CompiledCode | None) -> Fetches:
    """What the cost says. Else constants are read as for the whole layer, or once; a function written for a layer is
    one loop, straight code where its size is not known, and what is compiled comes once."""
    if cost.fetches is not None:
        return cost.fetches
    code_bytes = sum(code.size for code in cost.codes or whole.codes)
    data = whole.fetches.data_bytes if whole.fetches is not None else max(cost.flash_bytes - code_bytes, 0)
    if not kernel.written:
        return Fetches(data, ((compiled.kernel(kernel.name).bytes, 1),) if compiled is not None else ())
    return Fetches.around(data, code_bytes or _INSTRUCTION_BYTES * cost.instructions, cost.instructions)
