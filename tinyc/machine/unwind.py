# SPDX-License-Identifier: Apache-2.0
"""Where a debugger finds the caller at every instruction of a function: DWARF's call frame information, as directives.

The stack pointer and what was saved are followed from instruction to instruction and through jumps; nobody counts by
hand. A function's subroutines are part of it: their caller is its own.

Terms are those of DWARF 5, section 6.4. The canonical frame address is the stack pointer before the call.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace

from tinyc.base.dataclass import dataclass
from tinyc.machine.op import Decoded
from tinyc.machine.operands import Address, Immediate
from tinyc.machine.table import Kind

_PUSHES, _POPS = ("push", "vpush"), ("pop", "vpop")
_CALLEE_SAVED = frozenset((*(f"r{i}" for i in range(4, 12)), "lr", *(f"d{i}" for i in range(8, 16))))  # by AAPCS
_MOST = 4  # directives of a line


@dataclass(frozen=True, slots=True)
class FrameState:
    """depth: bytes from the stack pointer up to the canonical frame address. saved: the caller's registers, and how
    many bytes below that address. held: those whose value is in another register, on its way back. is_certain: False
    where a subroutine is called from several depths: nobody can say then.
    """

    depth: int = 0
    saved: tuple[tuple[str, int], ...] = ()
    held: tuple[tuple[str, str], ...] = ()
    is_certain: bool = True

    def has_moved(self, register: str) -> bool:
        """Whether the caller's value of a register is elsewhere."""
        return register in dict(self.saved) or register in dict(self.held)


_UNKNOWN = FrameState(is_certain=False)


@dataclass(frozen=True, slots=True)
class Mark:
    """What matters of a function: item number `at`, a label, or an instruction that moves the stack pointer, goes
    elsewhere, to a label or away, or copies a register that only such copies are saved of (`Decoded.is_high_copy`)."""

    at: int
    label: str
    op: Decoded | None = None


After = Callable[[Decoded, FrameState, dict[str, str]], FrameState]
"""The state once an instruction has run. The last: registers with the value of one that is the caller's, kept up to
date."""


def directives(places: Sequence[Mark], after: After | None = None, link: str = "lr") -> Mapping[int, Sequence[str]]:
    """What the assembler is told before an item, in lines. after: by the calling convention, AAPCS if there is none;
    link: where a function finds its caller. Raises ValueError where the stack pointer is moved by anything but a push,
    a pop or a constant."""
    changes = _changes(places, after or _after)
    printed, waiting = FrameState(), None
    lines: dict[int, list[str]] = {}
    for number, (at, state) in enumerate(changes):
        if state == printed:
            continue
        if state == waiting:
            lines[at], waiting = [".cfi_restore_state"], None
        else:
            comes_back = state.is_certain and state.depth < printed.depth and waiting is None
            if comes_back and any(later == printed for _, later in changes[number:]):
                waiting = printed
            lines[at] = [".cfi_remember_state"] * (waiting is printed) + _in_lines(_told(printed, state, link))
        printed = state
    return lines


def _changes(places: Sequence[Mark], after: After) -> list[tuple[int, FrameState]]:
    """From which item on which state holds."""
    at_label: dict[str, FrameState] = {}
    while True:
        before = dict(at_label)
        states = list(_followed(places, at_label, after))
        if at_label == before:
            return states


def _followed(
    places: Sequence[Mark], at_label: dict[str, FrameState], after: After
) -> Iterator[tuple[int, FrameState]]:
    """One pass through the function. at_label: what is known of labels, which may be reached from behind them."""
    now: FrameState | None = FrameState()
    copies: dict[str, str] = {}  # registers with a value of the caller's, to be saved in its place
    for place in places:
        op = place.op
        if place.label:
            met = _meet(at_label, place.label, now)
            now = met if op is None else now
        if op is None:
            copies.clear()
            if now:
                yield place.at, now
        elif now:
            goes_on = not op.leaves or op.conditional or op.kind is Kind.CALL
            now = after(op, now, copies) if goes_on else None
            if now:
                yield place.at + 1, now


def _meet(at_label: dict[str, FrameState], label: str, state: FrameState | None) -> FrameState | None:
    """What holds at a label that is also reached in this state (None: not from here)."""
    if state:
        at_label[label] = state if at_label.get(label, state) == state else _UNKNOWN
    return at_label.get(label)


def _after(op: Decoded, state: FrameState, copies: dict[str, str]) -> FrameState:
    """By AAPCS."""
    name, words = op.instruction.mnemonic, [word for operand in op.operands for word in operand.words]
    if state.is_certain and op.is_high_copy:
        return _copied(words[0], words[1], state, copies)
    before = dict(copies)
    copies.clear()
    moved = op.operands[-1] if op.operands else None
    might_have = isinstance(moved, Address) and not moved.writeback  # a vector's access
    if not state.is_certain or "sp" not in op.writes or might_have:
        return state
    if name in _PUSHES:
        return _pushed(state, words, before)
    if name in _POPS:
        return _popped(state, words)
    if name not in ("add", "addw", "sub", "subw") or words != ["sp", "sp"] or not isinstance(moved, Immediate):
        raise ValueError(f"{op.instruction}: a debugger could not follow the stack pointer")
    return replace(state, depth=state.depth + (moved.value if name.startswith("sub") else -moved.value))


def _copied(target: str, source: str, state: FrameState, copies: dict[str, str]) -> FrameState:
    copies.pop(target, None)
    if source in _CALLEE_SAVED and not state.has_moved(source):
        copies[target] = source
    return replace(state, held=tuple(each for each in state.held if each != (target, source)))


def _pushed(state: FrameState, words: Sequence[str], copies: Mapping[str, str]) -> FrameState:
    depth, saved = state.depth + 4 * len(words), dict(state.saved)
    for number, word in enumerate(words):
        name = copies.get(word, _debugger_name(word))
        if name in _CALLEE_SAVED and name not in saved:
            saved[name] = depth - 4 * number
    return replace(state, depth=depth, saved=tuple(saved.items()))


def _popped(state: FrameState, words: Sequence[str]) -> FrameState:
    owners = {below: name for name, below in state.saved}
    words_by_owner = {
        owners[at]: word for number, word in enumerate(words) if (at := state.depth - 4 * number) in owners
    }
    held = {name: word for name, word in words_by_owner.items() if _debugger_name(word) != name}
    saved = tuple(each for each in state.saved if each[0] not in words_by_owner)
    return replace(state, depth=state.depth - 4 * len(words), saved=saved, held=(*state.held, *held.items()))


def _debugger_name(word: str) -> str:
    """The register that debuggers know: `d8` for `s16` and `s17`."""
    return f"d{int(word[1:]) // 2}" if word[0] == "s" and word != "sp" else word


def _told(before: FrameState, after: FrameState, link: str) -> Iterator[str]:
    if not after.is_certain:
        yield f".cfi_undefined {link}"
        return
    if before.depth != after.depth or not before.is_certain:
        yield f".cfi_def_cfa_offset {after.depth}"
    old, new = _places(before), _places(after)
    yield from (f".cfi_restore {register}" for register in old if register not in new)
    yield from (f".cfi_{place.format(register)}" for register, place in new.items() if old.get(register) != place)


def _places(state: FrameState) -> dict[str, str]:
    """Directives by the registers of the caller that are elsewhere."""
    offsets = {register: f"offset {{}}, -{below}" for register, below in state.saved}
    return offsets | {register: f"register {{}}, {other}" for register, other in state.held}


def _in_lines(parts: Iterator[str]) -> list[str]:
    every = list(parts)
    return ["; ".join(every[at : at + _MOST]) for at in range(0, len(every), _MOST)]
