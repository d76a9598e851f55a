# SPDX-License-Identifier: Apache-2.0
"""Loops over elements with Helium (MVE), four to a vector, in words of 32 bits.

Narrowing shifts round (`kernels/mve/finish.py` says why not otherwise), so half of what they divide by comes off the
start of the sum first. A shift beyond 16 takes both narrowings: to int16, of which nothing is lost, then to int8.
Products of float32 take subnormal numbers for zero, and make none: who gives the expression keeps away from them.
"""

from __future__ import annotations

import struct
from collections.abc import Mapping
from functools import partial

from tinyc.base.dataclass import dataclass
from tinyc.loops.before import products_before
from tinyc.loops.expression import (
    TABLE_BYTES,
    TABLE_ZERO,
    AddProduct,
    Centred,
    Element,
    HighSum,
    Nearest,
    Negative,
    Node,
    Number,
    OneLess,
    Param,
    Plus,
    Real,
    Saturate,
    Scaled,
    TableEntry,
    has_words,
    inner,
    loads,
    moves,
    numbers,
    ordered,
    result_type,
    tables,
)
from tinyc.loops.registers import Values
from tinyc.machine.cores import CORTEX_M55
from tinyc.machine.thumb import Asm
from tinyc.machine.work import Work

GUARD = "TC_MVE_ASM"
GUARD_FLOAT = f"{GUARD} && (__ARM_FEATURE_MVE & 2)"
CALL = Work(12, 18)  # around the function
SHIFTS = range(1, 25)

_LANES = 4
_VECTORS = ("q0", "q1", "q2", "q3")  # which a function need not save
_NUMBERS = ("r6", "r7", "r12", "r8", "r0")
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


def offset(shift: int) -> int:
    """What comes off the start, so that the sums round down."""
    return (1 << (shift - 1)) + (1 << 15 if shift > 16 else 0)


def code(root: Node, names: tuple[str, ...]) -> Asm:
    """The assembly of f(p, x0, ..., y), or without names, fields of p behind n, of f(n, x0, ..., y). Units: a `turn` of
    the loop, up to `four` elements of the rest.

    r1 and on: inputs, then the output, r5, or without names r0: elements left, r6 and on, and r12: parameters and
    numbers; vectors from q3 down: what an instruction wants in a vector.
    """
    asm, count, turn = Asm(CORTEX_M55), "r5" if names else "r0", turn_of(root)
    loop = _enter(asm, root, names)
    asm.op("lsrs", "lr", count, f"#{turn.bit_length() - 1}")
    asm.branch("beq", "rest")
    with asm.loop("turn", "turn", of_call=True):
        asm.note(f"{turn} elements: loads, products, store")
        for _ in range(0, turn, _LANES):
            _vector(asm, loop, "")
        asm.branch("le", "turn", "lr")
    asm.label("rest")
    asm.op("ands", count, count, f"#{turn - 1}")
    asm.branch("beq", "done")
    with asm.loop("four", "four", of_call=True) if turn > _LANES else asm.per("four"):
        asm.note("up to four of the rest")
        asm.op("vctp.32", count)
        _vector(asm, loop, "t")
        if turn > _LANES:
            asm.op("subs", count, count, f"#{_LANES}")
            asm.branch("bgt.w", "four")
    asm.label("done")
    asm.restore()
    return asm


def turn_of(root: Node) -> int:
    """Elements of a turn of the loop."""
    return _LANES if has_words(root) else 4 * _LANES


def work(asm: Asm, elements: int, root: Node) -> Work:
    """What a call executes; cycles are an upper bound for a Cortex-M55."""
    turns, rest = divmod(elements, turn_of(root))
    return asm.work() + turns * asm.work("turn") + -(-rest // _LANES) * asm.work("four")


def _enter(asm: Asm, root: Node, names: tuple[str, ...]) -> _Loop:
    """Registers, parameters, numbers, and what is computed before the loop."""
    free, vectors = list(_VECTORS), _in_vectors(root)
    homes: dict[Node, str] = {node: free.pop() for node in vectors if isinstance(node, Param)}
    rest = [Param(name) for name in names if Param(name) not in homes]
    homes |= dict(zip([*rest, *dict.fromkeys(numbers(root))], _NUMBERS, strict=False))
    asm.save("{r4-r8, lr}" if "r8" in homes.values() else "{r4-r7, lr}")
    words = ["r5", *("r4" if homes[Param(name)].startswith("q") else homes[Param(name)] for name in names)]
    for number in range(0, len(words) if names else 0, 2):
        at = f"[r0, #{4 * number}]" if number else "[r0]"
        pair = words[number : number + 2]
        asm.op("ldrd" if len(pair) == 2 else "ldr", *pair, at)
    for register in homes.values():
        if register.startswith("q"):
            asm.op("vdup.32", register, "r4")
    for constant in dict.fromkeys(numbers(root)):
        asm.constant(homes[constant], _bits(constant))
    _tables(asm, root, homes, free)
    for load in loads(root):
        if not moves(load) and load.ctype == "int32_t":
            homes[load] = f"r{1 + load.number}"
            asm.op("ldr", homes[load], f"[{homes[load]}]")
    if isinstance(root, Saturate) and isinstance(root.shift, int) and root.shift:
        asm.constant("r4", offset(root.shift))
    products_before(asm, root, homes)
    for node in vectors:
        if not isinstance(node, Param):
            asm.op("vdup.32", free[-1], homes[node])
            homes[node] = free.pop()
    if isinstance(root, Saturate) and isinstance(root.shift, int) and root.shift:
        for register in dict.fromkeys(homes[start] for start in _starts(root.x)):
            asm.op("sub", register, register, "r4")
    if any(isinstance(node, Negative) for node in inner(root)):
        homes[_ZERO] = free.pop()
        asm.op("vmov.i32", homes[_ZERO], "#0")
    return _Loop(root, homes, f"r{1 + len(loads(root))}", tuple(free))


def _tables(asm: Asm, root: Node, homes: dict[Node, str], free: list[str]) -> None:
    """Where the entries of four elements' tables are."""
    for table in tables(root):
        homes[table] = f"r{1 + table.number}"
        homes[_PLACES], homes[_OFFSETS] = free.pop(), free.pop()
        for element in range(2):
            for register, place in (("r4", element), ("r5", element + 2)):
                asm.op("mov", register, f"#{TABLE_ZERO + TABLE_BYTES * place}")
            vector = homes[_PLACES]
            asm.op("vmov", f"{vector}[{element + 2}]", f"{vector}[{element}]", "r4", "r5")


def _in_vectors(root: Node) -> list[Node]:
    """What does not depend on an element, and an instruction wants in a vector."""
    nodes = inner(root)
    products = (node for node in nodes if isinstance(node, AddProduct) and not moves(node.factor))
    factors: list[Node] = [
        node.factor for node in products if not moves(node.start) or isinstance(node.factor, Element)
    ]
    factors += [node.factor for node in nodes if isinstance(node, HighSum) and not node.twice]
    return factors + [node.least for node in nodes if isinstance(node, Nearest)]


def _starts(total: Node) -> list[Node]:
    """What the sum that is shifted starts with."""
    match total:
        case HighSum(_, _, add):
            return _starts(add)
        case OneLess(start):
            return [start]
        case AddProduct(start) if moves(start):
            return _starts(start)
        case AddProduct(start):
            return [start]
    return [total]


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
        case Plus(a, b) | Centred(a, b):
            asm.op("vadd.i32", to, places[a], places[b])
        case Negative(x):
            asm.op("vmin.s32", to, places[x], places[_ZERO])
        case AddProduct(start, x, factor) if not moves(start):
            assert to == places[x], "a product takes the place of its element"
            asm.op("vmlas.s32", to, places[factor], places[start])
        case AddProduct(start, x, factor):
            assert to == places[start], "a sum of products takes the place of what it adds to"
            asm.op("vmla.s32", to, places[x], places[factor])
        case OneLess(start, x):
            asm.op("vshr.s32", to, places[x], "#31")
            asm.op("vadd.i32", to, to, places[start])
        case HighSum(x, factor, add, twice):
            asm.op("vqrdmulh.s32" if twice else "vmulh.s32", to, places[x], places[factor])
            asm.op("vadd.i32", to, to, places[add])
        case Saturate(x) if to == places[x]:
            _narrow(asm, node, to, places)
        case _:
            _node_of_floats(asm, node, to, places)


def _node_of_floats(asm: Asm, node: Node, to: str, places: Mapping[Node, str]) -> None:
    match node:
        case Scaled(x, factor):
            if not is_float(x):
                asm.op("vcvt.f32.s32", to, places[x])
            asm.op("vmul.f32", to, to if not is_float(x) else places[x], places[factor])
        case Nearest(x, least):
            asm.op("vmaxnm.f32", to, places[x], places[least])
            asm.op("vcvtn.s32.f32", to, to)
        case _:
            raise ValueError(f"{node} is no function of words")


def _entries(asm: Asm, node: TableEntry, to: str, places: Mapping[Node, str], when: str) -> None:
    """Of four tables; the next four come next."""
    asm.op("vadd.i32", places[_OFFSETS], places[node.x], places[_PLACES])
    if when:
        asm.op("vpst")
    asm.op(f"vldrb{when}.u32", to, f"[{places[node.table]}, {places[_OFFSETS]}]")
    asm.op("add", places[node.table], places[node.table], f"#{_LANES * TABLE_BYTES}")


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
