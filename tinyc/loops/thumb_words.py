# SPDX-License-Identifier: Apache-2.0
"""Loops over words of 32 bits on Cortex-M with Thumb-2: elements one after the other, two in a turn."""

from __future__ import annotations

from collections.abc import Mapping

from tinyc.loops.expression import (
    TABLE_BYTES,
    TABLE_ZERO,
    AddProduct,
    Negative,
    Node,
    Param,
    Plus,
    Saturate,
    TableEntry,
    loads,
    moves,
    tables,
)
from tinyc.loops.thumb import CTYPES, CountDown, ThumbLoop, count_down
from tinyc.machine.cores import Core
from tinyc.machine.thumb import Asm
from tinyc.machine.work import Work

GUARD = "TC_COPY_ASM"
CALL = Work(10, 15)  # around the function

_TOGETHER = 2  # elements of a turn
_REGISTERS = ("r12", "lr", *(f"r{number}" for number in range(11, 2, -1)))
_BITS = {127: 8, 32767: 16}  # of a result, by the largest


def code(root: Node, names: tuple[str, ...], core: Core) -> Asm:
    """The assembly of f(p, x0, ..., y), or without names, fields of p behind n, of f(n, x0, ..., y). Units: a `turn` of
    the loop, an element of the rest (`last`).

    r0: p, then elements left; r1 and on: inputs, then the output; r12, r14 and on: parameters.
    """
    asm, inputs = Asm(core), loads(root)
    homes: dict[Node, str] = {Param(name): register for name, register in zip(names, _REGISTERS, strict=False)}
    at = {load: f"r{1 + load.number}" for load in inputs}
    y = f"r{1 + len(inputs)}"
    taken = {*homes.values(), *at.values(), y}
    pool = tuple(sorted(({f"r{number}" for number in range(3, 12)} - taken), key=lambda name: int(name[1:])))
    asm.note("registers and parameters")
    asm.save("{r4-r11, lr}")
    for number, register in enumerate(homes.values(), 1):
        asm.op("ldr", register, f"[r0, #{4 * number}]")
    if names:
        asm.op("ldr", "r0", "[r0]")
    for table in tables(root):
        homes[table] = at[table]
        asm.op("add", at[table], at[table], f"#{TABLE_ZERO}")
    for load in inputs:
        if not moves(load):
            homes[load] = at[load]
            asm.op(f"ldr{CTYPES[load.ctype][0]}", at[load], f"[{at[load]}]")
    pointers = {load: at[load] for load in inputs if moves(load) and load not in homes}
    loop = ThumbLoop(root, homes, pointers, y, pool, _node)
    many = f"{_TOGETHER} elements: loads, products, saturation, stores"
    turn = CountDown("turn", "turn", _TOGETHER, many, lambda: loop.write(asm, _TOGETHER))
    last = CountDown("last", "last", 1, "the last element", lambda: loop.write(asm, 1))
    count_down(asm, (turn, last), ("rest", "done"), once=True)
    asm.restore()
    asm.reorder()
    return asm


def work(asm: Asm, elements: int, _root: Node) -> Work:
    """What a call executes."""
    return asm.work() + elements // _TOGETHER * asm.work("turn") + elements % _TOGETHER * asm.work("last")


def _node(asm: Asm, node: Node, to: str, places: Mapping[Node, str]) -> None:
    match node:
        case TableEntry(table, x):
            asm.op("ldrb", to, f"[{places[table]}, {places[x]}]")
            asm.op("add", places[table], places[table], f"#{TABLE_BYTES}")
        case Plus(a, b):
            asm.op("add", to, places[a], places[b])
        case Negative(x):
            asm.op("and", to, places[x], places[x], "asr #31")
        case AddProduct(start, x, factor):
            asm.op("mla", to, places[x], places[factor], places[start])
        case Saturate(x, int(shift), 0, _, int(most)):
            asm.op("ssat", to, f"#{_BITS[most]}", places[x], *([f"asr #{shift}"] if shift else []))
        case _:
            raise ValueError(f"{node} is no function of words")
