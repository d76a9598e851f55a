# SPDX-License-Identifier: Apache-2.0
"""Watching every access to memory of code on unicorn: how many are not aligned, and the first that a core refuses."""

from __future__ import annotations

import ctypes
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from tinyc.base.dataclass import dataclass
from tinyc.run.trace import build_trace_library
from tinyc.run.unicorn import (
    add_native_access_hook,
    add_native_hook,
    forget_it_block,
    load_engine_library,
    load_unicorn,
    must_be_aligned,
)

_NEVER = 2**64 - 1
_one_at_a_time = threading.Lock()  # what is seen lies in one set of C variables


@dataclass
class Accesses:
    """unaligned: accesses whose address is no multiple of their size, or of 4. refused: the address of the first that
    faults on every core, LDRD, LDM, FPU and the like at no multiple of 4; the engine has been stopped there."""

    unaligned: int = 0
    refused: int | None = None
    seen: Callable[[], int] = lambda: 0

    @property
    def so_far(self) -> int:
        """As `unaligned`, while it lasts."""
        return self.seen()


@contextmanager
def watched(engine: Any) -> Iterator[Accesses]:
    """Counts while it lasts; the numbers are there at its end. In C where there is a compiler, else in Python."""
    accesses = Accesses()
    library, engine_library = build_trace_library(None), load_engine_library()
    if library is None or engine_library is None:
        yield from _in_python(engine, accesses)
    else:
        with _one_at_a_time:
            yield from _in_c(engine, accesses, ctypes.CDLL(str(library)), engine_library)


def _in_c(engine: Any, accesses: Accesses, trace: ctypes.CDLL, engine_library: ctypes.CDLL) -> Iterator[Accesses]:
    unicorn = load_unicorn()
    stop, read = (ctypes.cast(f, ctypes.c_void_p) for f in (engine_library.uc_emu_stop, engine_library.uc_mem_read))
    trace.watch_open(stop, read)
    trace.watch_close.restype = trace.watch_unaligned.restype = ctypes.c_uint64
    accesses.seen = trace.watch_unaligned
    hooks = [
        add_native_hook(engine, engine_library, unicorn.UC_HOOK_CODE, trace.watch_instruction),
        add_native_access_hook(engine, engine_library, trace, trace.watch_access),
    ]
    try:
        yield accesses
    finally:
        for hook in hooks:
            engine_library.uc_hook_del(engine._uch, ctypes.c_size_t(hook))
        address = ctypes.c_uint64()
        accesses.unaligned = trace.watch_close(ctypes.byref(address))
        accesses.refused = None if address.value == _NEVER else address.value


def _in_python(engine: Any, accesses: Accesses) -> Iterator[Accesses]:
    unicorn = load_unicorn()
    pc = 0
    accesses.seen = lambda: accesses.unaligned

    def on_instruction(engine: Any, address: int, size: int, data: Any) -> None:
        nonlocal pc
        pc = address

    def on_access(engine: Any, access: int, address: int, size: int, value: int, data: Any) -> None:
        forget_it_block(engine)
        if address % min(size, 4) == 0:  # two words at once need no more than one
            return
        accesses.unaligned += 1
        if size >= 4 and address % 4 and must_be_aligned(bytes(engine.mem_read(pc, 2))):
            accesses.refused = address
            engine.emu_stop()

    hooks = [
        engine.hook_add(unicorn.UC_HOOK_CODE, on_instruction),
        engine.hook_add(unicorn.UC_HOOK_MEM_READ | unicorn.UC_HOOK_MEM_WRITE, on_access),
    ]
    try:
        yield accesses
    finally:
        for hook in hooks:
            engine.hook_del(hook)
