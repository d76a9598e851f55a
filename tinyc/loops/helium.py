# SPDX-License-Identifier: Apache-2.0
"""Loops of sums of products with Helium (MVE), four elements to a vector.

Narrowing shifts round (`kernels/mve/finish.py` says why not otherwise), so half of what they divide by comes off the
start of the sum first. A shift beyond 16 takes both narrowings: to int16, of which nothing is lost, then to int8.
"""

from __future__ import annotations

from tinyc.loops.before import products_before
from tinyc.loops.expression import (
    AddProduct,
    Centred,
    HighSum,
    Node,
    OneLess,
    Param,
    Saturate,
    inner,
    loads,
    moves,
)
from tinyc.machine.cores import CORTEX_M55
from tinyc.machine.thumb import Asm
from tinyc.machine.work import Work

GUARD = "TC_MVE_ASM"
CALL = Work(12, 18)  # around the function
SHIFTS = range(1, 25)

_TURN = 16  # elements
_PARAMS = ("r6", "r7", "r12", "r8", "r0")


def offset(shift: int) -> int:
    """What comes off the start, so that the sums round down."""
    return (1 << (shift - 1)) + (1 << 15 if shift > 16 else 0)


def code(root: Node, names: tuple[str, ...]) -> Asm:
    """The assembly of f(p, x0, ..., y). names: fields of p behind n. Units: a `turn` of the loop, `four` elements of
    the rest.

    r1 and on: inputs, then the output, r5: elements left, r6 and on, and r12: parameters; vectors below q4, from q3
    down, have the factors of products with a start that is a number, and of those of which the high word counts.
    """
    asm = Asm(CORTEX_M55)
    assert isinstance(root, Saturate)
    assert isinstance(root.shift, int)
    vectors = _in_vectors(root)
    homes: dict[Node, str] = {node: f"q{3 - number}" for number, node in enumerate(vectors) if isinstance(node, Param)}
    rest = [Param(name) for name in names if Param(name) not in homes]
    homes |= dict(zip(rest, _PARAMS, strict=False))
    asm.save("{r4-r8, lr}" if "r8" in homes.values() else "{r4-r7, lr}")
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
    for number, node in enumerate(vectors):
        if not isinstance(node, Param):
            asm.op("vdup.32", f"q{3 - number}", homes[node])
            homes[node] = f"q{3 - number}"
    for register in dict.fromkeys(homes[start] for start in _starts(root.x)):
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


def _in_vectors(root: Node) -> list[Node]:
    """What does not depend on an element, and an instruction wants in a vector."""
    products = (node for node in inner(root) if isinstance(node, AddProduct))
    factors = [node.factor for node in products if not moves(node.start) and not moves(node.factor)]
    return factors + [node.factor for node in inner(root) if isinstance(node, HighSum) and not node.twice]


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


def work(asm: Asm, elements: int, _root: Node) -> Work:
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
            case Centred(x, minus):
                places[node] = places[x]
                asm.op("vadd.i32", places[x], places[x], places[minus])
            case AddProduct(start, x, factor) if places[factor].startswith("q"):
                places[node] = places[x]
                asm.op("vmlas.s32", places[x], places[factor], places[start])
            case AddProduct(start, x, factor):
                places[node] = places[start]
                asm.op("vmla.s32", places[start], places[x], places[factor])
            case OneLess(start, x):  # in the place of a second input
                places[node] = "q1"
                asm.op("vshr.s32", "q1", places[x], "#31")
                asm.op("vadd.i32", "q1", "q1", places[start])
            case HighSum(x, factor, add, twice):
                places[node] = places[x]
                asm.op("vqrdmulh.s32" if twice else "vmulh.s32", places[x], places[x], places[factor])
                asm.op("vadd.i32", places[x], places[x], places[add])
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
