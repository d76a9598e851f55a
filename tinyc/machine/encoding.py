# SPDX-License-Identifier: Apache-2.0
"""Which instructions of unified syntax an assembler for Thumb-2 encodes in 16 bits where nothing says how wide.

By the encodings of Arm's Architecture Reference Manual (DDI 0403, A7.7). Outside of IT blocks short data processing
sets flags; inside it does not.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from tinyc.machine.op import Decoded
from tinyc.machine.operands import Address, Immediate, Operand, Register, RegisterList

SHORT_ONLY = frozenset({"it", "bx", "blx", "cbz", "cbnz", "muls"})  # nothing wider does the same
_LOW = frozenset(f"r{number}" for number in range(8))
_SIZES = {"ldr": 4, "str": 4, "ldrh": 2, "strh": 2, "ldrb": 1, "strb": 1}
_MOVES = frozenset({"orr", "mov", "lsl", "lsr", "asr", "ror", "rrx"})
_SWAP = frozenset({"and", "orr", "eor", "adc"})  # whose two sources may be exchanged
_TWO = frozenset({"sbc", "bic", "ror", *_SWAP})


def is_short(op: Decoded, in_it: bool = False) -> bool:
    """Whether the instruction takes 16 bits, branches aside. in_it: it is made conditional by an IT instruction."""
    name = op.instruction.mnemonic
    if name in SHORT_ONLY or name == "nop" or (name[:2] == "it" and set(name[2:]) <= {"t", "e"}):
        return True
    if name in _PLAIN and _PLAIN[name](op.operands):
        return True
    sets = bool(op.row.flags) and name.endswith("s")
    if sets is in_it:
        return False
    rule = _FLAGGED.get(name.removesuffix("s") if sets else name)
    return rule is not None and rule(op.operands)


def can_be_wide(op: Decoded) -> bool:
    """Whether `.w` may be written: not where the long encoding has no sp as a second source, nor with two
    operands where assemblers want three."""
    name = op.instruction.mnemonic
    if name in SHORT_ONLY or name.startswith("it"):
        return False
    if name.rstrip("s") in ("add", "sub") and len(op.operands) == 2:
        return False
    sources = [operand.name for operand in op.operands[1:] if isinstance(operand, Register)]
    return name not in ("add", "cmp") or "sp" not in sources[-1:]


def moves_stack_pointer(op: Decoded) -> bool:
    """Whether the 32 bits of it are ORR or MOV, shifted or not, of sp or pc. Armv7-M has `mov.w rd, sp` and leaves the
    others open; Renode (from August 2025 on, with 1.16.1) takes all for undefined."""
    name, sources = op.instruction.mnemonic.removesuffix("s"), op.operands[1:]
    return name in _MOVES and (Register("sp") in sources[-2:] or Register("pc") in sources[-2:])


def _low(*operands: Operand) -> bool:
    return all(isinstance(operand, Register) and operand.name in _LOW for operand in operands)


def _number(operand: Operand, most: int, step: int = 1) -> bool:
    return isinstance(operand, Immediate) and 0 <= operand.value <= most and operand.value % step == 0


def _registers(operands: Sequence[Operand]) -> bool:
    return all(isinstance(operand, Register) for operand in operands)


# ---- whose short form sets no flags, or is there with and without ----


def _add(operands: Sequence[Operand]) -> bool:
    if len(operands) == 3 and operands[1] == Register("sp") and isinstance(operands[2], Immediate):
        to_sp = operands[0] == Register("sp")
        return _number(operands[2], 508, 4) if to_sp else _low(operands[0]) and _number(operands[2], 1020, 4)
    if len(operands) == 2:
        return _registers(operands) or (operands[0] == Register("sp") and _number(operands[1], 508, 4))
    return _registers(operands) and operands[0] in operands[1:]


def _sub(operands: Sequence[Operand]) -> bool:
    return all(operand == Register("sp") for operand in operands[:-1]) and _number(operands[-1], 508, 4)


def _cmp(operands: Sequence[Operand]) -> bool:
    return len(operands) == 2 and (_registers(operands) or (_low(operands[0]) and _number(operands[1], 255)))


def _extend(operands: Sequence[Operand]) -> bool:
    return len(operands) == 2 and _low(*operands)


def _access(size: int, offsets: bool = True) -> Callable[[Sequence[Operand]], bool]:
    """A load or store of so many bytes; offsets: there is a short one with a number as offset."""

    def rule(operands: Sequence[Operand]) -> bool:
        if len(operands) != 2 or not isinstance(operands[1], Address) or not _low(operands[0]):
            return False
        place = operands[1]
        if place.writeback or place.shift:
            return False
        if place.index:
            return _low(Register(place.base), Register(place.index))
        if place.base == "sp":
            return size == 4 and _number(Immediate(place.offset), 1020, 4)
        return offsets and _low(Register(place.base)) and _number(Immediate(place.offset), 31 * size, size)

    return rule


def _multiple(loads: bool) -> Callable[[Sequence[Operand]], bool]:
    def rule(operands: Sequence[Operand]) -> bool:
        base, moved = operands[0], operands[-1]
        if not isinstance(base, Register) or not isinstance(moved, RegisterList) or base.name not in _LOW:
            return False
        moves_on = base.name not in moved.names if loads else True  # what the short form does to its base
        return set(moved.names) <= _LOW and len(moved.names) > 1 and base.writeback is moves_on

    return rule


def _stack(with_them: str) -> Callable[[Sequence[Operand]], bool]:
    def rule(operands: Sequence[Operand]) -> bool:
        (moved,) = operands
        return isinstance(moved, RegisterList) and set(moved.names) <= _LOW | {with_them}

    return rule


def _move(operands: Sequence[Operand]) -> bool:
    return len(operands) == 2 and _registers(operands)


_PLAIN: dict[str, Callable[[Sequence[Operand]], bool]] = {
    "add": _add,
    "sub": _sub,
    "cmp": _cmp,
    "cmn": _extend,
    "tst": _extend,
    "mov": _move,
    **dict.fromkeys(("sxtb", "sxth", "uxtb", "uxth", "rev", "rev16", "revsh"), _extend),
    **{name: _access(size) for name, size in _SIZES.items()},
    "ldrsb": _access(1, offsets=False),
    "ldrsh": _access(2, offsets=False),
    "ldm": _multiple(loads=True),
    "stm": _multiple(loads=False),
    "push": _stack("lr"),
    "pop": _stack("pc"),
}

# ---- whose short form sets flags, but not in an IT block ----


def _sum(operands: Sequence[Operand]) -> bool:
    if isinstance(operands[-1], Immediate):
        same = len(operands) == 2 or operands[0] == operands[1]
        return _low(*operands[:-1]) and _number(operands[-1], 255 if same else 7)
    return _low(*operands)


def _in_place(swap: bool) -> Callable[[Sequence[Operand]], bool]:
    def rule(operands: Sequence[Operand]) -> bool:
        if not _low(*operands):
            return False
        return len(operands) == 2 or operands[0] == operands[1] or (swap and operands[0] == operands[2])

    return rule


def _shift(operands: Sequence[Operand]) -> bool:
    if isinstance(operands[-1], Immediate):
        return _low(*operands[:-1])
    return _in_place(swap=False)(operands)


_FLAGGED: dict[str, Callable[[Sequence[Operand]], bool]] = {
    "add": _sum,
    "sub": _sum,
    "mov": lambda operands: _low(operands[0]) and (_low(operands[1]) or _number(operands[1], 255)),
    "mvn": _extend,
    "rsb": lambda operands: _low(*operands[:-1]) and _number(operands[-1], 0),
    "neg": _extend,
    **dict.fromkeys(("lsl", "lsr", "asr"), _shift),
    **{name: _in_place(name in _SWAP) for name in _TWO},
}
