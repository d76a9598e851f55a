# SPDX-License-Identifier: Apache-2.0
"""What `unwind.py` has to know of RV32's standard calling convention: constants are added to the stack pointer, and
registers of the caller are stored one by one."""

from __future__ import annotations

from dataclasses import replace

from tinyc.machine.op import Decoded
from tinyc.machine.operands import Address, Immediate
from tinyc.machine.unwind import FrameState

LINK = "ra"
_CALLEE_SAVED = frozenset((LINK, *(f"s{number}" for number in range(12))))


def may_save(op: Decoded) -> bool:
    """Whether it stores a register that may be the caller's on the stack."""
    place = op.operands[-1] if op.is_memory and not op.row.loads else None
    return isinstance(place, Address) and place.base == "sp" and op.operands[0].words[0] in _CALLEE_SAVED


def after(op: Decoded, state: FrameState, _: dict[str, str]) -> FrameState:
    """Once an instruction has run. What was saved is the caller's again where the stack ends above it: until then it is
    found there too. Raises ValueError where the stack pointer is moved by anything but a constant."""
    if may_save(op):
        name, place = op.operands[0].words[0], op.operands[1]
        assert isinstance(place, Address)
        below = state.depth - place.offset
        return state if state.has_moved(name) else replace(state, saved=(*state.saved, (name, below)))
    if "sp" not in op.writes:
        return state
    words, moved = [word for operand in op.operands for word in operand.words], op.operands[-1]
    if op.instruction.mnemonic != "addi" or words != ["sp", "sp"] or not isinstance(moved, Immediate):
        raise ValueError(f"{op.instruction}: a debugger could not follow the stack pointer")
    depth = state.depth - moved.value
    return replace(state, depth=depth, saved=tuple(each for each in state.saved if each[1] <= depth))
