# SPDX-License-Identifier: Apache-2.0
"""Loops over bytes and half words on Cortex-M with Thumb-2, four or two in a word: SSUB8 or UADD8 compares bytes and
SEL chooses, QADD16 adds."""

from __future__ import annotations

from collections.abc import Mapping

from tinyc.loops.expression import (
    Element,
    Extreme,
    Node,
    SaturatedSum,
    Where,
    loads,
    moves,
    ordered,
    packed_size,
)
from tinyc.loops.registers import NoRegisterError
from tinyc.loops.thumb import CountDown, ThumbLoop, count_down
from tinyc.machine.cores import Core
from tinyc.machine.thumb import Asm
from tinyc.machine.work import Work

GUARD = "TC_DSP_ASM"
CALL = Work(10, 15)  # around the function

_WORDS = 4  # of a turn
_TURN = 4 * _WORDS  # bytes
_WORD = 4
_NARROW = {1: "b", 2: "h"}  # loads and stores of an element, by its bytes
_POOL = tuple(f"r{i}" for i in range(4, 12))
_OF_CALLER = ("r3", "r12")  # which a copy leaves
_ONES, _COMPARED = "r12", "lr"  # all bits; what a comparison leaves beside its flags
_ARGUMENTS = 3  # beside the first in registers


def code(root: Node, names: tuple[str, ...], core: Core) -> Asm:
    """The assembly of f(n, x0, ..., y). Units: a `turn` of the loop, of the rest a `word` and an element (`last`).

    r0: bytes left, r1 and on: inputs, then the output; r12: all bits where something is chosen.
    """
    asm, inputs, size = Asm(core), loads(root), packed_size(root)
    copies = isinstance(root, Element)
    pool, y = list(_OF_CALLER if copies else _POOL), f"r{1 + len(inputs)}"
    asm.note("registers")
    if not copies:
        asm.save("{r4-r11, lr}")
    if len(inputs) == _ARGUMENTS:
        y = pool.pop()
        asm.op("ldr", y, "[sp, #36]")
    if any(isinstance(node, Where) for node in ordered(root)):
        asm.op("mov", _ONES, "#-1")
    homes: dict[Node, str] = {load: f"r{1 + load.number}" for load in inputs if not moves(load)}
    for register in homes.values():
        asm.op("ldrb", register, f"[{register}]")
        for by in (8, 16):
            asm.op("orr", register, register, register, f"lsl #{by}")
    pointers: dict[Element, str] = {load: f"r{1 + load.number}" for load in inputs if moves(load)}
    loop = ThumbLoop(root, homes, pointers, y, pool, _node)
    if size > 1:
        asm.op("lsl", "r0", "r0", f"#{size.bit_length() - 1}")
    many = f"{_TURN // size} elements: loads, {'sums' if size > 1 else 'comparisons'}, stores"
    few = f"{'two' if size > 1 else 'four'} elements of the rest"
    stages = (
        CountDown("turn", "turn", _TURN, many, lambda: _words(asm, loop)),
        CountDown("word", "word", _WORD, few, lambda: loop.write(asm, 1, ("", _WORD))),
        CountDown("one", "last", size, "an element of the rest", lambda: loop.write(asm, 1, (_NARROW[size], size))),
    )
    count_down(asm, stages, ("words", "rest", "done"))
    if copies:
        asm.op("bx", "lr")
    else:
        asm.restore()
    asm.reorder()
    return asm


def work(asm: Asm, elements: int, root: Node) -> Work:
    """What a call executes."""
    size = packed_size(root)
    turns, rest = divmod(elements * size, _TURN)
    words, last = divmod(rest, _WORD)
    return asm.work() + turns * asm.work("turn") + words * asm.work("word") + last // size * asm.work("last")


def _words(asm: Asm, loop: ThumbLoop) -> None:
    """The words of a turn, as many together as there are registers for."""
    for together in (4, 2, 1):
        try:
            loop.write(Asm(asm.core), together, ("", _WORD))
        except NoRegisterError:
            continue
        for _ in range(_WORDS // together):
            loop.write(asm, together, ("", _WORD))
        return
    raise NoRegisterError


def _node(asm: Asm, node: Node, target: str, places: Mapping[Node, str]) -> None:
    """A comparison, whose flags say for each byte which side is taken."""
    match node:
        case Extreme(a, b, largest):
            asm.op("ssub8", _COMPARED, places[a], places[b])
            asm.op("sel", target, *((places[a], places[b]) if largest else (places[b], places[a])))
        case Where(condition, a, b):
            asm.op("uadd8", _COMPARED, places[condition], _ONES)
            asm.op("sel", target, places[a], places[b])
        case SaturatedSum(a, b):
            asm.op("qadd16", target, places[a], places[b])
        case _:
            assert isinstance(node, Element)
