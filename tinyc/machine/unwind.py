# SPDX-License-Identifier: Apache-2.0
"""Where a debugger finds the caller at every instruction of a function: DWARF's call frame information, as directives.

The stack pointer and what was saved are followed from instruction to instruction and through jumps; nobody counts by
hand. A function's subroutines are part of it: their caller is its own.

Terms are those of DWARF 5, section 6.4. The canonical frame address is the stack pointer before the call.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from tinyc.machine.op import Decoded
from tinyc.machine.operands import Address, Immediate
from tinyc.machine.table import Kind

_PUSHES, _POPS = ("push", "vpush"), ("pop", "vpop")
_KEPT = frozenset((*(f"r{i}" for i in range(4, 12)), "lr", *(f"d{i}" for i in range(8, 16))))  # by AAPCS
_MOST = 4  # directives of a line


@dataclass(frozen=True, slots=True)
class FrameState:
    """depth: bytes from the stack pointer up to the canonical frame address. saved: the caller's registers, and how
    many bytes below that address. known: False where a subroutine is called from several depths: nobody can say then.
    """

    depth: int = 0
    saved: tuple[tuple[str, int], ...] = ()
    known: bool = True


_UNKNOWN = FrameState(known=False)


@dataclass(frozen=True, slots=True)
class Mark:
    """What matters of a function: item number `at`, a label, or an instruction that moves the stack pointer or goes
    elsewhere, to a label or away."""

    at: int
    label: str
    op: Decoded | None = None


def directives(places: Sequence[Mark]) -> Mapping[int, Sequence[str]]:
    """What the assembler is told before an item, in lines. Raises ValueError where the stack pointer is moved by
    anything but a push, a pop or a constant."""
    changes = _changes(places)
    printed, waiting = FrameState(), None
    found: dict[int, list[str]] = {}
    for number, (at, state) in enumerate(changes):
        if state == printed:
            continue
        if state == waiting:
            found[at], waiting = [".cfi_restore_state"], None
        else:
            comes_back = state.known and state.depth < printed.depth and waiting is None
            if comes_back and any(later == printed for _, later in changes[number:]):
                waiting = printed
            found[at] = [".cfi_remember_state"] * (waiting is printed) + _in_lines(_told(printed, state))
        printed = state
    return found


def _changes(places: Sequence[Mark]) -> list[tuple[int, FrameState]]:
    """From which item on which state holds."""
    at_label: dict[str, FrameState] = {}
    while True:
        before = dict(at_label)
        found = list(_followed(places, at_label))
        if at_label == before:
            return found


def _followed(places: Sequence[Mark], at_label: dict[str, FrameState]) -> Iterator[tuple[int, FrameState]]:
    """One pass through the function. at_label: what is known of labels, which may be reached from behind them."""
    now: FrameState | None = FrameState()
    for place in places:
        op = place.op
        if place.label:
            met = _meet(at_label, place.label, now)
            now = met if op is None else now
        if op is None:
            if now:
                yield place.at, now
        elif now:
            goes_on = not op.leaves or op.conditional or op.kind is Kind.CALL
            now = _after(op, now) if goes_on else None
            if now:
                yield place.at + 1, now


def _meet(at_label: dict[str, FrameState], label: str, state: FrameState | None) -> FrameState | None:
    """What holds at a label that is also reached in this state (None: not from here)."""
    if state:
        at_label[label] = state if at_label.get(label, state) == state else _UNKNOWN
    return at_label.get(label)


def _after(op: Decoded, state: FrameState) -> FrameState:
    """Once an instruction has run."""
    if not state.known or "sp" not in op.writes:
        return state
    name, words = op.instruction.mnemonic, [word for operand in op.operands for word in operand.words]
    if name in _PUSHES:
        return _pushed(state, words)
    if name in _POPS:
        gone = {_kept(word) for word in words}
        return FrameState(state.depth - 4 * len(words), tuple(each for each in state.saved if each[0] not in gone))
    moved = op.operands[-1]
    if isinstance(moved, Address) and not moved.writeback:  # a vector's access that only might have moved it
        return state
    if name not in ("add", "addw", "sub", "subw") or words != ["sp", "sp"] or not isinstance(moved, Immediate):
        raise ValueError(f"{op.instruction}: a debugger could not follow the stack pointer")
    return FrameState(state.depth + (moved.value if name.startswith("sub") else -moved.value), state.saved)


def _pushed(state: FrameState, words: Sequence[str]) -> FrameState:
    depth, saved = state.depth + 4 * len(words), dict(state.saved)
    for number, word in enumerate(words):
        name = _kept(word)
        if name in _KEPT and name not in saved:
            saved[name] = depth - 4 * number
    return FrameState(depth, tuple(saved.items()))


def _kept(word: str) -> str:
    """The register that debuggers know: `d8` for `s16` and `s17`."""
    return f"d{int(word[1:]) // 2}" if word[0] == "s" and word != "sp" else word


def _told(before: FrameState, after: FrameState) -> Iterator[str]:
    if not after.known:
        yield ".cfi_undefined lr"
        return
    if before.depth != after.depth or not before.known:
        yield f".cfi_def_cfa_offset {after.depth}"
    old, new = dict(before.saved), dict(after.saved)
    yield from (f".cfi_restore {register}" for register in old if register not in new)
    yield from (f".cfi_offset {register}, -{below}" for register, below in new.items() if register not in old)


def _in_lines(parts: Iterator[str]) -> list[str]:
    every = list(parts)
    return ["; ".join(every[at : at + _MOST]) for at in range(0, len(every), _MOST)]
