# SPDX-License-Identifier: Apache-2.0
"""Loops over elements with RISC-V's vectors: as many at a time as eight registers hold, 32 of 32 bits where registers
have 128 bits. VNCLIP shifts and saturates, by the rounding of vxrm, which is down here."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial

from tinyc.loops.expression import (
    TABLE_BYTES,
    TABLE_ZERO,
    AddProduct,
    Centred,
    HighSum,
    Negative,
    Node,
    Number,
    OneLess,
    Param,
    Plus,
    Saturate,
    TableEntry,
    before,
    inner,
    loads,
    moves,
    tables,
)
from tinyc.loops.registers import Values
from tinyc.machine.riscv import RiscvAsm
from tinyc.machine.work import Work

GUARD = "TC_RVV_ASM"
HEADER = "tc_rvv.h"
WITHIN = "TC_RVV_CODE"  # tells the assembler of the extension
LANES = 32  # of 32 bits in eight registers of 128 bits, the shortest that application profiles allow
CALL = Work(10, 10)  # around the function

_HOMES = ("t3", "t4", "t5", "t6", "a4", "a5", "a6", "a7")
_GROUPS = ("v8", "v16", "v24")
_NARROW = "v4"  # of an input of fewer bits, as it is loaded
_SIZES = {"int8_t": 1, "int16_t": 2, "int32_t": 4}
_LOADS = {"int8_t": "lb", "int32_t": "lw"}  # of an input that is one number


def code(root: Node, names: tuple[str, ...]) -> RiscvAsm:
    """The assembly of f(p, x0, ..., y), or without names, fields of p behind n, of f(n, x0, ..., y). Unit: a `turn` of
    the loop.

    a1 and on: inputs, then the output, t1: elements left, t0: those of the turn, t2: free, t3 and on: parameters.
    """
    asm, inputs = RiscvAsm(WITHIN), loads(root)
    moving = [load for load in inputs if moves(load)]
    y = f"a{1 + len(inputs)}"
    homes: dict[Node, str] = {Param(name): register for name, register in zip(names, _HOMES, strict=False)}
    if names:
        asm.words("lw", ["t1", *homes.values()], "a0")
    else:
        asm.op("mv", "t1", "a0")
    for table in tables(root):
        homes[table] = f"a{1 + table.number}"
        moving.remove(table)
        asm.add(homes[table], homes[table], TABLE_ZERO)
    for load in inputs:
        if not moves(load):
            homes[load] = f"a{1 + load.number}"
            asm.op(_LOADS[load.ctype], homes[load], f"0({homes[load]})")
    _before(asm, root, homes)
    if any(isinstance(node, Saturate) for node in inner(root)):
        asm.op("csrwi", "vxrm", "2")  # down
    with asm.loop("turn", "turn", aligned=False, of_call=True):
        asm.op("vsetvli", "t0", "t1", "e32", "m8", "ta", "ma")
        values = Values(root, homes, _GROUPS)
        for load in moving:
            to, bits = values.load(load), 8 * _SIZES[load.ctype]
            asm.op(f"vle{bits}.v", to if bits == 32 else _NARROW, f"(a{1 + load.number})")
            if bits < 32:
                asm.op(f"vsext.vf{32 // bits}", to, _NARROW)
        for node in inner(root):
            _node(asm, node, *values.define(node, last=partial(_is_factor, node)))
        asm.op("vse8.v", values[root, 0], f"({y})")
        sizes = {f"a{1 + load.number}": _SIZES[load.ctype] for load in moving} | {y: 1}
        next_turn(asm, sizes | {homes[table]: TABLE_BYTES for table in tables(root)})
    asm.op("ret")
    return asm


def _before(asm: RiscvAsm, root: Node, homes: dict[Node, str]) -> None:
    """What is computed before the loop, in registers of numbers that are not read again."""
    for node in before(root):
        match node:
            case Centred(x, minus):
                homes[node] = homes[x]
                asm.op("add", homes[node], homes[node], homes[minus])
            case AddProduct(start, x, factor):
                product = homes[factor if isinstance(x, Centred) else x]
                asm.op("mul", product, homes[x], homes[factor])
                homes[node] = homes[start]
                asm.op("add", homes[node], homes[node], product)
            case _:
                raise ValueError(f"{node} is not computed before a loop")


def next_turn(asm: RiscvAsm, sizes: Mapping[str, int]) -> None:
    """The end of a turn: inputs and output go on by its t0 elements. sizes: bytes of those of each pointer."""
    for size in sorted({*sizes.values()}):
        if size > 1:
            asm.op("slli", "t2", "t0", str(size.bit_length() - 1))
        for pointer in (pointer for pointer, own in sizes.items() if own == size):
            asm.op("add", pointer, pointer, "t2" if size > 1 else "t0")
    asm.op("sub", "t1", "t1", "t0")
    asm.branch("bnez", "turn", "t1")


def work(asm: RiscvAsm, elements: int, _root: Node) -> Work:
    """What a call executes with registers of 128 bits."""
    return asm.work() + -(-elements // LANES) * asm.work("turn")


def _is_factor(node: Node, operand: Node) -> bool:
    return isinstance(node, AddProduct) and operand not in (node.start, node.x)


def _node(asm: RiscvAsm, node: Node, to: str, places: Mapping[Node, str]) -> None:
    match node:
        case TableEntry(table, x):
            places_of = _GROUPS[-1]
            asm.op("vid.v", places_of)
            asm.op("vsll.vi", places_of, places_of, str(TABLE_BYTES.bit_length() - 1))
            asm.op("vadd.vv", places_of, places_of, places[x])
            asm.op("vsetvli", "zero", "zero", "e8", "m2", "ta", "ma")
            asm.op("vluxei32.v", to, f"({places[table]})", places_of)
        case Plus(a, b) | Centred(a, b):
            asm.op("vadd.vx", to, places[a], places[b])
        case Negative(x):
            asm.op("vmin.vx", to, places[x], "zero")
        case AddProduct(start, x, factor):
            by = "v" if places[factor].startswith("v") else "x"
            if not moves(start):
                asm.op(f"vmul.v{by}", to, places[x], places[factor])
                asm.op("vadd.vx", to, to, places[start])
            else:
                assert to == places[start], "a sum of products takes the place of what it adds to"
                asm.op(f"vmacc.v{by}", to, places[factor], places[x])
        case OneLess(start, x):
            asm.op("vsra.vi", to, places[x], "31")
            asm.op("vadd.vx", to, to, places[start])
        case HighSum(x, factor, add):
            _high_product(asm, node, to, (places[x], places[factor]))
            asm.op("vadd.vv" if moves(add) else "vadd.vx", to, to, places[add])
        case Saturate() if to == places[node.x]:
            saturate(asm, node, to, places)
        case _:
            raise ValueError(f"{node} is no function of words")


def _high_product(asm: RiscvAsm, node: HighSum, to: str, sides: tuple[str, str]) -> None:
    if node.twice:
        asm.op("csrwi", "vxrm", "0")  # halves up
        asm.op("vsmul.vx", to, *sides)
        asm.op("csrwi", "vxrm", "2")
    else:
        asm.op("vmulh.vx", to, *sides)


def saturate(asm: RiscvAsm, node: Saturate, vector: str, places: Mapping[Node, str]) -> None:
    """From int32 to int8, in place."""
    asm.op("vsetvli", "zero", "zero", "e16", "m4", "ta", "ma")
    _with(asm, "vnclip.w", vector, node.shift, places)
    assert not isinstance(node.zero, Number)
    if node.zero != 0:
        _with(asm, "vsadd.v", vector, node.zero, places)
    asm.op("vsetvli", "zero", "zero", "e8", "m2", "ta", "ma")
    asm.op("vnclip.wi", vector, vector, "0")
    for name, limit, of_int8 in (("vmax.v", node.least, -128), ("vmin.v", node.most, 127)):
        if limit != of_int8:
            _with(asm, name, vector, limit, places)


def _with(asm: RiscvAsm, name: str, vector: str, number: int | Param, places: Mapping[Node, str]) -> None:
    """vector = vector and a number, in an instruction that takes it from a register or as it is."""
    if isinstance(number, Param):
        asm.op(f"{name}x", vector, vector, places[number])
    else:
        asm.op(f"{name}i", vector, vector, str(number))
