# SPDX-License-Identifier: Apache-2.0
"""Loops of sums of products with Helium (MVE), four elements to a vector.

Narrowing shifts round (`kernels/mve/finish.py` says why not otherwise), so half of what they divide by comes off the
start of the sum first. A shift beyond 16 takes both narrowings: to int16, of which nothing is lost, then to int8.
"""

from __future__ import annotations

from tinyc.loops.before import products_before
from tinyc.loops.expression import AddProduct, Node, Param, Saturate, inner, loads, moves
from tinyc.machine.cores import CORTEX_M55
from tinyc.machine.thumb import Asm
from tinyc.machine.work import Work

GUARD = "TC_MVE_ASM"
CALL = Work(12, 18)  # around the function
SHIFTS = range(1, 25)

_TURN = 16  # elements


def offset(shift: int) -> int:
    """What comes off the start, so that the sums round down."""
    return (1 << (shift - 1)) + (1 << 15 if shift > 16 else 0)


def code(root: Node, names: tuple[str, ...]) -> Asm:
    """The assembly of f(p, x0, ..., y). names: fields of p behind n. Units: a `turn` of the loop, `four` elements of
    the rest.

    r1 and on: inputs, then the output, r5: elements left, r6 and on: parameters; vectors below q4, from q3 down, have
    the factors of products with a start that is a number.
    """
    asm, nodes = Asm(CORTEX_M55), inner(root)
    assert isinstance(root, Saturate)
    assert isinstance(root.shift, int)
    firsts = [node for node in nodes if isinstance(node, AddProduct) and not moves(node.start)]
    homes: dict[Node, str] = {node.factor: f"q{3 - number}" for number, node in enumerate(firsts)}
    rest = [Param(name) for name in names if Param(name) not in homes]
    homes |= {param: f"r{6 + number}" for number, param in enumerate(rest)}
    asm.save("{r4-r7, lr}")
    words = ["r5", *("r4" if homes[Param(name)].startswith("q") else homes[Param(name)] for name in names)]
    for number in range(0, len(words), 2):
        at = f"[r0, #{4 * number}]" if number else "[r0]"
        pair = words[number : number + 2]
        asm.op("ldrd" if len(pair) == 2 else "ldr", *pair, at)
    for register in homes.values():
        if register.startswith("q"):
            asm.op("vdup.32", register, "r4")
    asm.constant("r4", offset(root.shift))
    products_before(asm, root, homes)
    for register in dict.fromkeys(homes[node.start] for node in firsts):
        asm.op("sub", register, register, "r4")
    asm.op("lsrs", "lr", "r5", f"#{_TURN.bit_length() - 1}")
    asm.branch("beq", "rest")
    with asm.loop("turn", "turn", of_call=True):
        asm.note(f"{_TURN} elements: loads, products, saturation, store")
        for _ in range(0, _TURN, 4):
            _four(asm, root, homes, "")
        asm.branch("le", "turn", "lr")
    asm.label("rest")
    asm.op("ands", "r5", "r5", f"#{_TURN - 1}")
    asm.branch("beq", "done")
    with asm.loop("four", "four", of_call=True):
        asm.note("up to four of the rest")
        asm.op("vctp.32", "r5")
        _four(asm, root, homes, "t")
        asm.op("subs", "r5", "r5", "#4")
        asm.branch("bgt.w", "four")
    asm.label("done")
    asm.restore()
    return asm


def work(asm: Asm, elements: int) -> Work:
    """What a call executes; cycles are an upper bound for a Cortex-M55."""
    fours = -(-(elements % _TURN) // 4)
    return asm.work() + elements // _TURN * asm.work("turn") + fours * asm.work("four")


def _four(asm: Asm, root: Node, homes: dict[Node, str], when: str) -> None:
    """Four elements, or with `t` those of the predicate; all are read before one is written."""
    inputs = loads(root)
    moving = [load for load in inputs if moves(load)]
    places = dict(homes)
    if when:
        asm.op("vpst" + "t" * (len(moving) - 1))
    for number, load in enumerate(moving):
        places[load] = f"q{number}"
        asm.op(f"vldrb{when}.s32", places[load], f"[r{1 + load.number}]", "#4")
    for node in inner(root):
        match node:
            case AddProduct(start, x, factor) if places[factor].startswith("q"):
                places[node] = places[x]
                asm.op("vmlas.s32", places[x], places[factor], places[start])
            case AddProduct(start, x, factor):
                places[node] = places[start]
                asm.op("vmla.s32", places[start], places[x], places[factor])
            case Saturate(x, int(shift)):
                places[node] = vector = places[x]
                asm.op("vqrshrnb.s32", vector, vector, f"#{min(shift, 16)}")
                if shift > 16:
                    asm.op("vqrshrnb.s16", vector, vector, f"#{shift - 16}")
                else:
                    asm.op("vqmovnb.s16", vector, vector)
    if when:
        asm.op("vpst")
    asm.op(f"vstrb{when}.32", places[root], f"[r{1 + len(inputs)}]", "#4")
