# SPDX-License-Identifier: Apache-2.0
"""Loops over elements with RISC-V's vectors: as many at a time as eight registers hold, 32 of 32 bits where registers
have 128 bits. VNCLIP shifts and saturates, by the rounding of vxrm, which is down here."""

from __future__ import annotations

from collections.abc import Mapping

from tinyc.loops.expression import (
    AddProduct,
    Centred,
    Element,
    HighSum,
    Node,
    Number,
    OneLess,
    Param,
    Saturate,
    before,
    inner,
    loads,
    moves,
)
from tinyc.machine.riscv import RiscvAsm
from tinyc.machine.work import Work

GUARD = "TC_RVV_ASM"
HEADER = "tc_rvv.h"
WITHIN = "TC_RVV_CODE"  # tells the assembler of the extension
LANES = 32  # of 32 bits in eight registers of 128 bits, the shortest that application profiles allow
CALL = Work(10, 10)  # around the function

_HOMES = ("t2", "t3", "t4", "t5", "t6", "a4", "a5")
_BYTES = ("v4", "v6")  # of inputs, as they are loaded
_WIDE = ("v8", "v16")  # of inputs, in 32 bits
_SUM = "v24"


def code(root: Node, names: tuple[str, ...]) -> RiscvAsm:
    """The assembly of f(p, x0, ..., y). names: fields of p behind n. Unit: a `turn` of the loop.

    a1 and on: inputs, then the output, t1: elements left, t0: those of the turn, t2 and on: parameters.
    """
    asm, inputs = RiscvAsm(WITHIN), loads(root)
    y = f"a{1 + len(inputs)}"
    homes: dict[Node, str] = {Param(name): register for name, register in zip(names, _HOMES, strict=False)}
    asm.words("lw", ["t1", *homes.values()], "a0")
    for node in before(root):
        match node:
            case Centred(x, minus):
                homes[node] = _number(asm, x)
                asm.op("add", homes[node], homes[node], homes[minus])
            case AddProduct(start, x, factor):
                product = _number(asm, x) if isinstance(x, Element) else homes[factor]
                asm.op("mul", product, product, homes[factor if isinstance(x, Element) else x])
                homes[node] = homes[start]
                asm.op("add", homes[node], homes[node], product)
            case _:
                raise ValueError(f"{node} is not computed before a loop")
    asm.op("csrwi", "vxrm", "2")  # down
    with asm.loop("turn", "turn", aligned=False, of_call=True):
        asm.op("vsetvli", "t0", "t1", "e32", "m8", "ta", "ma")
        moving = [load for load in inputs if moves(load)]
        for load, register in zip(moving, _BYTES, strict=False):
            asm.op("vle8.v", register, f"(a{1 + load.number})")
        places = dict(homes)
        for load, narrow, wide in zip(moving, _BYTES, _WIDE, strict=False):
            places[load] = wide
            asm.op("vsext.vf4", wide, narrow)
        for node in inner(root):
            _node(asm, node, places)
        asm.op("vse8.v", places[root], f"({y})")
        next_turn(asm, {f"a{1 + load.number}": 1 for load in moving} | {y: 1})
    asm.op("ret")
    return asm


def _number(asm: RiscvAsm, load: Element) -> str:
    """The register with an input that is one number, in place of its address."""
    register = f"a{1 + load.number}"
    asm.op("lb", register, f"0({register})")
    return register


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


def _node(asm: RiscvAsm, node: Node, places: dict[Node, str]) -> None:
    match node:
        case Centred(x, minus):
            places[node] = places[x]
            asm.op("vadd.vx", places[x], places[x], places[minus])
        case AddProduct(start, x, factor):
            if not moves(start):
                asm.op("vmv.v.x", _SUM, places[start])
            places[node] = _SUM
            asm.op("vmacc.vv" if moves(factor) else "vmacc.vx", _SUM, places[factor], places[x])
        case OneLess(start, x):  # in the place of an input
            places[node] = _WIDE[0]
            asm.op("vsra.vi", _WIDE[0], places[x], "31")
            asm.op("vadd.vx", _WIDE[0], _WIDE[0], places[start])
        case HighSum(x, factor, add, twice):
            places[node] = places[x]
            if twice:
                asm.op("csrwi", "vxrm", "0")  # halves up
                asm.op("vsmul.vx", places[x], places[x], places[factor])
                asm.op("csrwi", "vxrm", "2")
            else:
                asm.op("vmulh.vx", places[x], places[x], places[factor])
            asm.op("vadd.vv" if moves(add) else "vadd.vx", places[x], places[x], places[add])
        case Saturate(x):
            places[node] = places[x]
            saturate(asm, node, places[x], places)


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
