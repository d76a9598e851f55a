# SPDX-License-Identifier: Apache-2.0
"""Loops over words of 32 bits on Cortex-M with Thumb-2: elements one after the other, two in a turn."""

from __future__ import annotations

from collections.abc import Mapping

from tinyc.base.dataclass import dataclass
from tinyc.loops.expression import (
    TABLE_BYTES,
    TABLE_ZERO,
    AddProduct,
    Element,
    Negative,
    Node,
    Param,
    Plus,
    Saturate,
    TableEntry,
    inner,
    loads,
    moves,
    result_type,
    tables,
)
from tinyc.loops.registers import Values
from tinyc.machine.cores import Core
from tinyc.machine.thumb import Asm
from tinyc.machine.work import Work

GUARD = "TC_COPY_ASM"
CALL = Work(10, 15)  # around the function

_TOGETHER = 2  # elements of a turn
_REGISTERS = ("r12", "lr", *(f"r{number}" for number in range(11, 2, -1)))
_LOADS = {"int8_t": ("ldrsb", 1), "int16_t": ("ldrsh", 2), "int32_t": ("ldr", 4)}
_STORES = {"int8_t": ("strb", 1), "int16_t": ("strh", 2)}
_BITS = {127: 8, 32767: 16}  # of a result, by the largest


@dataclass(frozen=True, slots=True)
class _Loop:
    """Where everything is that lasts, and the registers for all else."""

    root: Node
    homes: Mapping[Node, str]
    pointers: Mapping[Element, str]
    y: str
    pool: tuple[str, ...]


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
            asm.op(_LOADS[load.ctype][0], at[load], f"[{at[load]}]")
    loop = _Loop(root, homes, {load: at[load] for load in inputs if moves(load) and load not in homes}, y, pool)
    asm.op("subs", "r0", "r0", f"#{_TOGETHER}")
    asm.branch("blt.w", "rest")
    with asm.loop("turn", "turn", of_call=True):
        asm.note(f"{_TOGETHER} elements: loads, products, saturation, stores")
        _elements(asm, loop, _TOGETHER)
        asm.op("subs", "r0", "r0", f"#{_TOGETHER}")
        asm.branch("bge.w", "turn")
    asm.label("rest")
    asm.op("adds", "r0", "r0", f"#{_TOGETHER}")
    asm.branch("beq.w", "done")
    with asm.per("last"):
        asm.note("the last element")
        _elements(asm, loop, 1)
    asm.label("done")
    asm.note("return")
    asm.restore()
    asm.reorder()
    return asm


def work(asm: Asm, elements: int, _root: Node) -> Work:
    """What a call executes."""
    return asm.work() + elements // _TOGETHER * asm.work("turn") + elements % _TOGETHER * asm.work("last")


def _elements(asm: Asm, loop: _Loop, count: int) -> None:
    """So many elements; all are read before one is written."""
    values = Values(loop.root, loop.homes, loop.pool, count)
    for load, pointer in loop.pointers.items():
        name, size = _LOADS[load.ctype]
        for k in range(count):
            asm.op(name, values.load(load, k), f"[{pointer}]", f"#{size}")
    for node in inner(loop.root):
        for k in range(count):
            to, places = values.define(node, k)
            _node(asm, node, to, places)
            if isinstance(node, TableEntry):
                asm.op("add", places[node.table], places[node.table], f"#{TABLE_BYTES}")
    name, size = _STORES[result_type(loop.root)]
    for k in range(count):
        asm.op(name, values[loop.root, k], f"[{loop.y}]", f"#{size}")


def _node(asm: Asm, node: Node, to: str, places: Mapping[Node, str]) -> None:
    match node:
        case TableEntry(table, x):
            asm.op("ldrb", to, f"[{places[table]}, {places[x]}]")
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
