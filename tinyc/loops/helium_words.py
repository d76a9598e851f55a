# SPDX-License-Identifier: Apache-2.0
"""Loops over words of 32 bits with Helium (MVE), four elements to a vector.

Narrowing shifts round, so half of what they divide by comes off the start of a sum first, as in `helium.py`. Products
of float32 take subnormal numbers for zero, and make none: who gives the expression keeps away from them.
"""

from __future__ import annotations

import struct
from collections.abc import Mapping
from functools import partial

from tinyc.base.dataclass import dataclass
from tinyc.loops.expression import (
    TABLE_BYTES,
    TABLE_ZERO,
    AddProduct,
    Element,
    Nearest,
    Negative,
    Node,
    Number,
    Param,
    Plus,
    Real,
    Saturate,
    Scaled,
    TableEntry,
    inner,
    loads,
    moves,
    numbers,
    ordered,
    result_type,
    tables,
)
from tinyc.loops.helium import CALL, GUARD, offset
from tinyc.loops.registers import Values
from tinyc.machine.cores import CORTEX_M55
from tinyc.machine.thumb import Asm
from tinyc.machine.work import Work

__all__ = ("CALL", "GUARD", "GUARD_FLOAT", "code", "work")

GUARD_FLOAT = f"{GUARD} && (__ARM_FEATURE_MVE & 2)"

_TURN = 4  # elements
_VECTORS = ("q0", "q1", "q2", "q3")  # which a function need not save
_NUMBERS = ("r12", "r4", "r5", "r6", "r7")
_LOADS = {
    "int8_t": ("b.s32", 4),
    "int16_t": ("h.s32", 8),
    "int32_t": ("w.u32", 16),
    "float": ("w.u32", 16),
}
_STORES = {"int8_t": ("b", 4), "float": ("w", 16)}
# Vectors: of zeros; where 0 is in the tables of the elements; where their entries are.
_ZERO, _PLACES, _OFFSETS = Number(0), Number(TABLE_BYTES), Number(TABLE_BYTES - 1)
_NARROWED = 16  # what the first of two narrowings shifts by, at most


@dataclass(frozen=True, slots=True)
class _Loop:
    """Where everything is that lasts, and the vectors for all else."""

    root: Node
    homes: Mapping[Node, str]
    y: str
    pool: tuple[str, ...]


def code(root: Node, names: tuple[str, ...], _size: int = 0) -> Asm:
    """The assembly of f(p, x0, ..., y), or without names, fields of p behind n, of f(n, x0, ..., y). Units: a `turn` of
    the loop, `some` elements of the rest.

    r0: p, then elements left; r1 and on: inputs, then the output; r12, r4 and on: parameters and numbers; vectors from
    q3 down: zero, inputs that are one number, what an instruction wants in a vector.
    """
    asm, inputs, nodes = Asm(CORTEX_M55), loads(root), inner(root)
    asm.save("{r4-r7, lr}")
    homes: dict[Node, str] = dict(zip([*map(Param, names), *dict.fromkeys(numbers(root))], _NUMBERS, strict=False))
    for number, name in enumerate(names, 1):
        asm.op("ldr", homes[Param(name)], f"[r0, #{4 * number}]")
    if names:
        asm.op("ldr", "r0", "[r0]")
    if isinstance(root, Saturate) and isinstance(root.shift, int) and root.shift:
        asm.constant("lr", offset(root.shift))
        start = homes[_start(root.x)]
        asm.op("sub", start, start, "lr")
    for constant in dict.fromkeys(numbers(root)):
        asm.constant(homes[constant], _bits(constant))
    free = list(_VECTORS)
    for table in tables(root):
        homes[table] = f"r{1 + table.number}"
        homes[_PLACES], homes[_OFFSETS] = free.pop(), free.pop()
        for element in range(2):
            for register, place in (("r4", element), ("r5", element + 2)):
                asm.op("mov", register, f"#{TABLE_ZERO + TABLE_BYTES * place}")
            vector = homes[_PLACES]
            asm.op("vmov", f"{vector}[{element + 2}]", f"{vector}[{element}]", "r4", "r5")
    for load in inputs:
        if not moves(load):
            homes[load] = free.pop()
            asm.op("ldr", "lr", f"[r{1 + load.number}]")
            asm.op("vdup.32", homes[load], "lr")
    if any(isinstance(node, Negative) for node in nodes):
        homes[_ZERO] = free.pop()
        asm.op("vmov.i32", homes[_ZERO], "#0")
    for node in nodes:
        if isinstance(node, Nearest):
            asm.op("vdup.32", free[-1], homes[node.least])
            homes[node.least] = free.pop()
    loop = _Loop(root, homes, f"r{1 + len(inputs)}", tuple(free))
    asm.op("lsrs", "lr", "r0", f"#{_TURN.bit_length() - 1}")
    asm.branch("beq", "rest")
    with asm.loop("turn", "turn", of_call=True):
        asm.note(f"{_TURN} elements: loads, products, store")
        _vector(asm, loop, "")
        asm.branch("le", "turn", "lr")
    asm.label("rest")
    asm.op("ands", "r0", "r0", f"#{_TURN - 1}")
    asm.branch("beq", "done")
    with asm.per("some"):
        asm.note("the rest")
        asm.op("vctp.32", "r0")
        _vector(asm, loop, "t")
    asm.label("done")
    asm.restore()
    return asm


def work(asm: Asm, elements: int, _root: Node) -> Work:
    """What a call executes; cycles are an upper bound for a Cortex-M55."""
    return asm.work() + elements // _TURN * asm.work("turn") + (elements % _TURN > 0) * asm.work("some")


def _start(sum_: Node) -> Node:
    """What a sum of products starts with."""
    return _start(sum_.start) if isinstance(sum_, AddProduct) else sum_


def _bits(node: Number | Real) -> int:
    return node.value if isinstance(node, Number) else int(struct.unpack("<i", struct.pack("<f", node.value))[0])


def _vector(asm: Asm, loop: _Loop, when: str) -> None:
    """A vector, or with `t` the elements of the predicate; all are read before one is written."""
    moving = [load for load in loads(loop.root) if moves(load) and load not in loop.homes]
    values = Values(loop.root, loop.homes, loop.pool)
    if when:
        asm.op("vpst" + "t" * (len(moving) - 1))
    for load in moving:
        name, size = _LOADS[load.ctype]
        at = f"vldr{name.replace('.', f'{when}.')}"
        asm.op(at, values.load(load), f"[r{1 + load.number}]", f"#{size}")
    for node in inner(loop.root):
        to, places = values.define(node, last=partial(_stays, node, loop.homes))
        if isinstance(node, TableEntry):
            _entries(asm, node, to, places, when)
        else:
            _node(asm, node, to, places)
    if when:
        asm.op("vpst")
    name, size = _STORES[result_type(loop.root)]
    asm.op(f"vstr{name}{when}.32", values[loop.root, 0], f"[{loop.y}]", f"#{size}")


def _stays(node: Node, homes: Mapping[Node, str], operand: Node) -> bool:
    """Whether the result has to take the place of another operand than this one."""
    return isinstance(node, AddProduct) and node.start in homes and operand != node.x


def _node(asm: Asm, node: Node, to: str, places: Mapping[Node, str]) -> None:
    match node:
        case Plus(a, b):
            asm.op("vadd.i32", to, places[a], places[b])
        case Negative(x):
            asm.op("vmin.s32", to, places[x], places[_ZERO])
        case AddProduct(Param() as start, x, factor):
            assert to == places[x], "a product takes the place of its element"
            asm.op("vmlas.s32", to, places[factor], places[start])
        case AddProduct(start, x, factor):
            assert to == places[start], "a sum of products takes the place of what it adds to"
            asm.op("vmla.s32", to, places[x], places[factor])
        case Scaled(x, factor):
            if not is_float(x):
                asm.op("vcvt.f32.s32", to, places[x])
            asm.op("vmul.f32", to, to if not is_float(x) else places[x], places[factor])
        case Nearest(x, least):
            asm.op("vmaxnm.f32", to, places[x], places[least])
            asm.op("vcvtn.s32.f32", to, to)
        case Saturate(x) if to == places[x]:
            _narrow(asm, node, to, places)
        case _:
            raise ValueError(f"{node} is no function of words")


def _entries(asm: Asm, node: TableEntry, to: str, places: Mapping[Node, str], when: str) -> None:
    """Of four tables; the next four come next."""
    asm.op("vadd.i32", places[_OFFSETS], places[node.x], places[_PLACES])
    if when:
        asm.op("vpst")
    asm.op(f"vldrb{when}.u32", to, f"[{places[node.table]}, {places[_OFFSETS]}]")
    asm.op("add", places[node.table], places[node.table], f"#{_TURN * TABLE_BYTES}")


def _narrow(asm: Asm, node: Saturate, to: str, places: Mapping[Node, str]) -> None:
    """From int32 to int8, in place."""
    assert isinstance(node.shift, int)
    first = min(node.shift, _NARROWED)
    if isinstance(node.zero, Number):
        asm.op("vqadd.s32", to, to, places[node.zero])
    for bits, shift in ((32, first), (16, node.shift - first)):
        if shift:
            asm.op(f"vqrshrnb.s{bits}", to, to, f"#{shift}")
        else:
            asm.op(f"vqmovnb.s{bits}", to, to)


def is_float(node: Node) -> bool:
    """Whether its value is a float32."""
    return isinstance(node, Scaled) or (isinstance(node, Element) and node.ctype == "float")


def has_floats(root: Node) -> bool:
    """Whether the code needs vectors of float32."""
    return any(map(is_float, ordered(root)))
