# SPDX-License-Identifier: Apache-2.0
"""Loops over words of 32 bits with RISC-V's vectors, 32 elements at a time where registers have 128 bits."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial

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
    inner,
    loads,
    moves,
    tables,
)
from tinyc.loops.registers import Values
from tinyc.loops.vectors import CALL, GUARD, LANES, WITHIN, next_turn, saturate
from tinyc.machine.riscv import RiscvAsm
from tinyc.machine.work import Work

__all__ = ("CALL", "GUARD", "LANES", "code", "work")

_HOMES = ("t3", "t4", "t5", "t6", "a4", "a5")
_GROUPS = ("v8", "v16", "v24")
_NARROW = "v4"  # of an input of fewer bits, as it is loaded
_SIZES = {"int8_t": 1, "int16_t": 2, "int32_t": 4}


def code(root: Node, names: tuple[str, ...]) -> RiscvAsm:
    """The assembly of f(p, x0, ..., y). names: fields of p behind n. Unit: a `turn` of the loop.

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
            asm.op("lw", homes[load], f"0({homes[load]})")
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
        case Plus(a, b):
            asm.op("vadd.vx", to, places[a], places[b])
        case Negative(x):
            asm.op("vmin.vx", to, places[x], "zero")
        case AddProduct(start, x, factor):
            by = "v" if places[factor].startswith("v") else "x"
            if isinstance(start, Param):
                asm.op(f"vmul.v{by}", to, places[x], places[factor])
                asm.op("vadd.vx", to, to, places[start])
            else:
                assert to == places[start], "a sum of products takes the place of what it adds to"
                asm.op(f"vmacc.v{by}", to, places[factor], places[x])
        case Saturate() if to == places[node.x]:
            saturate(asm, node, to, places)
        case _:
            raise ValueError(f"{node} is no function of words")
