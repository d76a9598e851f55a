# SPDX-License-Identifier: Apache-2.0
"""Loops over bytes and half words with Helium (MVE), sixteen or eight in a vector."""

from __future__ import annotations

from tinyc.loops.expression import Extreme, Node, SaturatedSum, Where, inner, loads, moves, packed_size
from tinyc.machine.cores import CORTEX_M55
from tinyc.machine.thumb import Asm
from tinyc.machine.work import Work

GUARD = "TC_MVE_ASM"
CALL = Work(10, 15)  # around the function

VECTOR = 16  # bytes


def code(root: Node, names: tuple[str, ...], size: int = 0) -> Asm:
    """The assembly of f(n, x0, ..., y). Units: a `turn` of the loop; `some` elements of the rest. size: elements of all
    calls, which makes code without a loop; 0: n says how many.

    r0: elements left, r1 and on: inputs, then the output.
    """
    return _straight(root, size) if size else _loop(root)


def _straight(root: Node, size: int) -> Asm:
    """So many elements of two inputs."""
    asm, y = Asm(CORTEX_M55), f"r{1 + len(loads(root))}"
    _numbers(asm, root)
    for _ in range(size // VECTOR):
        _vector(asm, root, y, "")
    if size % VECTOR:
        asm.op("mov", "r0", f"#{size % VECTOR}")
        asm.op("vctp.8", "r0")
        _vector(asm, root, y, "t")
    asm.op("bx", "lr")
    return asm


def _numbers(asm: Asm, root: Node) -> None:
    """Inputs that are one number, in all lanes."""
    for load in loads(root):
        if not moves(load):
            asm.op("ldrsb", f"r{1 + load.number}", f"[r{1 + load.number}]")
            asm.op("vdup.8", f"q{load.number}", f"r{1 + load.number}")


def _loop(root: Node) -> Asm:
    asm, inputs = Asm(CORTEX_M55), loads(root)
    y = f"r{1 + len(inputs)}"
    asm.save("{r4, lr}")
    if len(inputs) == 3:
        y = "r4"
        asm.op("ldr", y, "[sp, #8]")
    _numbers(asm, root)
    size = packed_size(root)
    turn = VECTOR // size
    asm.op("lsrs", "lr", "r0", f"#{turn.bit_length() - 1}")
    asm.branch("beq", "rest")
    with asm.loop("turn", "turn", of_call=True):
        asm.note(f"{turn} elements: loads, {'sums' if size > 1 else 'comparisons'}, store")
        _vector(asm, root, y, "")
        asm.branch("le", "turn", "lr")
    asm.label("rest")
    asm.op("ands", "r0", "r0", f"#{turn - 1}")
    asm.branch("beq", "done")
    with asm.per("some"):
        asm.note("the rest")
        asm.op(f"vctp.{8 * size}", "r0")
        _vector(asm, root, y, "t")
    asm.label("done")
    asm.restore()
    return asm


def work(asm: Asm, elements: int, root: Node) -> Work:
    """What a call executes; cycles are an upper bound for a Cortex-M55. Code without a loop has no units."""
    turns, rest = divmod(elements * packed_size(root), VECTOR)
    return asm.work() + turns * asm.work("turn") + (rest > 0) * asm.work("some")


def _vector(asm: Asm, root: Node, y: str, when: str) -> None:
    """A vector, or with `t` the elements of the predicate; all are read before one is written."""
    moving = [load for load in loads(root) if moves(load)]
    width, bits = {1: ("b", 8), 2: ("h", 16)}[packed_size(root)]
    places: dict[Node, str] = {load: f"q{load.number}" for load in loads(root)}
    if when:
        asm.op("vpst" + "t" * (len(moving) - 1))
    for load in moving:
        asm.op(f"vldr{width}{when}.s{bits}", places[load], f"[r{1 + load.number}]", f"#{VECTOR}")
    for node in inner(root):
        match node:
            case Extreme(a, b, largest):
                places[node] = places[a]
                asm.op("vmax.s8" if largest else "vmin.s8", places[a], places[a], places[b])
            case SaturatedSum(a, b):
                places[node] = places[a]
                asm.op("vqadd.s16", places[a], places[a], places[b])
            case Where(condition, a, b):
                places[node] = places[a]
                asm.op("vcmp.i8", "ne", places[condition], "zr")
                asm.op("vpsel", places[a], places[a], places[b])
    if when:
        if any(isinstance(node, Where) for node in inner(root)):
            asm.op("vctp.8", "r0")  # the choice has a predicate of its own
        asm.op("vpst")
    asm.op(f"vstr{width}{when}.{bits}", places[root], f"[{y}]", f"#{VECTOR}")
