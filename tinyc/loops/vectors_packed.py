# SPDX-License-Identifier: Apache-2.0
"""Loops over bytes and half words with RISC-V's vectors: 128 bytes at a time where registers have 128 bits."""

from __future__ import annotations

from tinyc.loops.expression import Extreme, Node, SaturatedSum, Where, inner, loads, moves, packed_size
from tinyc.loops.vectors import CALL, GUARD, WITHIN, next_turn
from tinyc.machine.riscv import RiscvAsm
from tinyc.machine.work import Work

LANES = 128  # bytes in eight registers of 128 bits, the shortest that application profiles allow

__all__ = ("CALL", "GUARD", "LANES", "code", "work")

_VECTORS = ("v8", "v16", "v24")  # of inputs


def code(root: Node, names: tuple[str, ...]) -> RiscvAsm:
    """The assembly of f(n, x0, ..., y). Unit: a `turn` of the loop.

    a1 and on: inputs, then the output, t1: elements left, t0: those of the turn.
    """
    asm, inputs = RiscvAsm(WITHIN), loads(root)
    y, moving = f"a{1 + len(inputs)}", [load for load in inputs if moves(load)]
    size = packed_size(root)
    bits = 8 * size
    asm.op("mv", "t1", "a0")
    for load in inputs:
        if not moves(load):
            asm.op("lb", f"a{1 + load.number}", f"0(a{1 + load.number})")
    with asm.loop("turn", "turn", aligned=False, of_call=True):
        asm.op("vsetvli", "t0", "t1", f"e{bits}", "m8", "ta", "ma")
        places: dict[Node, str] = dict(zip(inputs, _VECTORS, strict=False))
        for load in moving:
            asm.op(f"vle{bits}.v", places[load], f"(a{1 + load.number})")
        for node in inner(root):
            places[node] = _node(asm, node, places)
        asm.op(f"vse{bits}.v", places[root], f"({y})")
        next_turn(asm, {f"a{1 + load.number}": size for load in moving} | {y: size})
    asm.op("ret")
    return asm


def work(asm: RiscvAsm, elements: int, root: Node) -> Work:
    """What a call executes with registers of 128 bits."""
    return asm.work() + -(-elements * packed_size(root) // LANES) * asm.work("turn")


def _node(asm: RiscvAsm, node: Node, places: dict[Node, str]) -> str:
    """The vector of a node."""
    match node:
        case Extreme(a, b, largest):
            name = "vmax.v" if largest else "vmin.v"
            if moves(b):
                asm.op(f"{name}v", places[a], places[a], places[b])
            else:
                (number,) = (load.number for load in loads(b))
                asm.op(f"{name}x", places[a], places[a], f"a{1 + number}")
            return places[a]
        case SaturatedSum(a, b):
            asm.op("vsadd.vv", places[a], places[a], places[b])
            return places[a]
        case Where(condition, a, b):
            asm.op("vmsne.vi", "v0", places[condition], "0")
            asm.op("vmerge.vvm", places[condition], places[b], places[a], "v0")
            return places[condition]
    raise ValueError(f"{node} is no function of bytes")
