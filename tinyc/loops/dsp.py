# SPDX-License-Identifier: Apache-2.0
"""Loops of sums of products on Cortex-M with DSP, in assembly.

Compilers turn multiplications by a constant into shifts and sums, and spill; here a sum of two products is five and a
half instructions per element: four elements are loaded as a word, two ANDs put each into the upper byte of a half, and
SMLAW multiplies a half by the factor, which is kept times 2^8, and drops 16 bits of zeros.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Hashable, Mapping, Sequence

from tinyc.base.dataclass import dataclass
from tinyc.loops.before import products_before
from tinyc.loops.expression import AddProduct, Element, Node, Param, Saturate, inner, loads, moves, operands
from tinyc.loops.registers import NoRegisterError, Registers, Values
from tinyc.machine.cores import Core
from tinyc.machine.thumb import Asm
from tinyc.machine.work import Work

GUARD = "TC_DSP_ASM"
CALL = Work(12, 18)  # around the function
FACTORS = 2**23  # what factors are below

_TURN = 32  # elements
_ODD = 0xFF00FF00  # bytes 1 and 3 of a word
_HALVES = (("even", "b"), ("odd", "b"), ("even", "t"), ("odd", "t"))  # where elements 0 to 3 of a word are
_SCALARS = ("r0", "r12", "r14")
_POOL = tuple(f"r{i}" for i in range(4, 11))
_POOL_OF_ONE = tuple(name for name in _POOL if name != "r8")  # which holds the end


@dataclass(frozen=True, slots=True)
class _Loop:
    """Where everything is that lasts. homes: of parameters, and of what is computed before the loop."""

    root: Node
    homes: Mapping[Node, str]
    pointers: Mapping[Element, str]
    y: str

    @property
    def factors(self) -> list[str]:
        """Registers that are times 2^8 in the turns."""
        return list(dict.fromkeys(self.homes[node.factor] for node in inner(self.root) if isinstance(node, AddProduct)))


def code(root: Node, names: tuple[str, ...], core: Core) -> Asm:
    """The assembly of f(p, x0, ..., y). names: fields of p behind n, at most three. Units: a `turn` of the loop, an
    element of the rest (`last`).

    r0, r12, r14: parameters, r1 and on: inputs, then the output, [sp]: where the turns end, [sp, #4]: where all ends.
    In the turns r11: the mask of odd bytes, and factors times 2^8.
    """
    asm, inputs = Asm(core), loads(root)
    params = dict(zip(names, _SCALARS, strict=False))
    homes: dict[Node, str] = {Param(name): register for name, register in params.items()}
    moving = {load: f"r{1 + load.number}" for load in inputs if moves(load)}
    loop = _Loop(root, homes, moving, f"r{1 + len(inputs)}")
    asm.note("registers and arguments to the stack")
    asm.save("{r4-r11, lr}", frame=12)
    asm.op("ldm", "r0", f"{{r4-r{4 + len(names)}}}")
    asm.op("add", "r8", "r1", "r4")
    asm.op("bic", "r4", "r4", f"#{_TURN - 1}")
    asm.op("add", "r4", "r4", "r1")
    asm.op("strd", "r4", "r8", "[sp]")
    for number, register in enumerate(params.values()):
        asm.op("mov", register, f"r{5 + number}")
    products_before(asm, root, homes)
    asm.op("cmp", "r1", "r4")
    asm.branch("beq.w", "rest")
    asm.op("mov", "r11", f"#{_ODD:#x}")
    for factor in loop.factors:
        asm.op("lsl", factor, factor, "#8")
    with asm.loop("turn", "turn"):
        asm.note(f"{_TURN} elements: loads, products, saturation, store")
        for first in range(0, _TURN, 4):
            _four(asm, loop, first)
        for pointer in (*moving.values(), loop.y):
            asm.op("add", pointer, pointer, f"#{_TURN}")
        asm.op("ldr", "r4", "[sp]")
        asm.until_equal("r1", "r4", "turn")
    for factor in loop.factors:
        asm.op("asr", factor, factor, "#8")
    asm.label("rest")
    asm.op("ldr", "r8", "[sp, #4]")
    asm.op("cmp", "r1", "r8")
    asm.branch("beq.w", "done")
    with asm.loop("one", "last", of_call=True):
        asm.note("an element of the rest")
        _one(asm, loop)
        asm.until_equal("r1", "r8", "one")
    asm.label("done")
    asm.note("return")
    asm.restore()
    asm.reorder()  # before it is kept, so that it costs the same before and after it is printed
    return asm


def work(asm: Asm, elements: int) -> Work:
    """What a call executes."""
    return asm.work() + elements // _TURN * asm.work("turn") + elements % _TURN * asm.work("last")


def _four(asm: Asm, loop: _Loop, first: int) -> None:
    """Four elements, each node of all of them together, or of fewer where registers are too few; all elements are read
    before one is written."""
    for together in (4, 2, 1):
        try:
            ops = _elements(loop, first, together)
        except NoRegisterError:
            continue
        for op in ops:
            asm.op(*op)
        return
    raise NoRegisterError


def _elements(loop: _Loop, first: int, together: int) -> list[tuple[str, ...]]:
    """Instructions of four elements, so many of them together. Raises NoRegisterError."""
    ops: list[tuple[str, ...]] = []

    def op(*words: str) -> None:
        ops.append(words)

    def value(node: Node, element: int) -> Hashable:
        return (node, _HALVES[element][0]) if isinstance(node, Element) else (node, element)

    def values(node: Node, element: int) -> Sequence[Hashable]:
        return [value(each, element) for each in operands(node) if each not in loop.homes]

    nodes, words = inner(loop.root), [(load, "word") for load in loop.pointers]
    reads: Counter[Hashable] = Counter(dict.fromkeys(words, 2))
    for element in range(4):
        reads.update(each for node in nodes for each in values(node, element))
        reads[value(loop.root, element)] += 1
    registers = Registers(_POOL, reads)
    for word, pointer in zip(words, loop.pointers.values(), strict=True):
        op("ldr", registers.define(word), f"[{pointer}, #{first}]")
    for word in words:
        source = registers[word]
        op("and", registers.define((word[0], "even"), [word]), "r11", source, "lsl #8")
    for word in words:
        source = registers[word]
        op("and", registers.define((word[0], "odd"), [word]), source, "r11")
    for start in range(0, 4, together):
        for node in nodes:
            for element in range(start, start + together):
                sources = {each: registers[value(each, element)] for each in operands(node) if each not in loop.homes}
                target = registers.define(value(node, element), values(node, element))
                _node(op, f"smlaw{_HALVES[element][1]}", node, target, {**loop.homes, **sources})
    for element in range(4):
        op("strb", registers[value(loop.root, element)], f"[{loop.y}, #{first + element}]")
    return ops


def _one(asm: Asm, loop: _Loop) -> None:
    """One element, as C computes it."""
    values = Values(loop.root, loop.homes, _POOL_OF_ONE)
    for load, pointer in loop.pointers.items():
        asm.op("ldrsb", values.load(load), f"[{pointer}], #1")
    for node in inner(loop.root):
        _node(asm.op, "mla", node, *values.define(node))
    asm.op("strb", values[loop.root, 0], f"[{loop.y}], #1")


def _node(op: Callable[..., None], product: str, node: Node, target: str, places: Mapping[Node, str]) -> None:
    """The instruction of a node. product: SMLAW of a half takes the factor first, MLA the element."""
    match node:
        case AddProduct(start, x, factor):
            sides = (places[x], places[factor])
            op(product, target, *(sides if product == "mla" else reversed(sides)), places[start])
        case Saturate(x, shift):
            op("ssat", target, "#8", places[x], f"asr #{shift}")
