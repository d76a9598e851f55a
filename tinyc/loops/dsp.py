# SPDX-License-Identifier: Apache-2.0
"""Loops of sums of products on Cortex-M with DSP, in assembly.

Compilers turn multiplications by a constant into shifts and sums, and spill; here a sum of two products is five and a
half instructions per element: four elements are loaded as a word, two ANDs put each into the upper byte of a half, and
SMLAW multiplies a half by the factor, which is kept times 2^8, and drops 16 bits of zeros. Where both factors are
elements, SXTAB16 puts each into a half, less its zero point, and SMLABB and SMLATT multiply halves.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Hashable, Mapping, Sequence

from tinyc.base.dataclass import dataclass
from tinyc.loops.before import products_before
from tinyc.loops.expression import (
    AddProduct,
    Centred,
    Element,
    HighSum,
    Node,
    OneLess,
    Param,
    Saturate,
    inner,
    is_twice,
    loads,
    moves,
    operands,
    pair_of,
)
from tinyc.loops.registers import NoRegisterError, Registers, Values
from tinyc.machine.cores import Core
from tinyc.machine.thumb import Asm
from tinyc.machine.work import Work

GUARD = "TC_DSP_ASM"
CALL = Work(12, 18)  # around the function
FACTORS = 2**23  # what factors are below

_TURN, _TURN_OF_PAIRS = 32, 16  # elements
_ODD = 0xFF00FF00  # bytes 1 and 3 of a word
_HALVES = (("even", "b"), ("odd", "b"), ("even", "t"), ("odd", "t"))  # where elements 0 to 3 of a word are
_SCALARS = ("r0", "r12", "r14")  # of up to three parameters; more stay where they are loaded
_LOADED = tuple(f"r{i}" for i in range(5, 10))
_MASK = "r11"
_POOL = tuple(f"r{i}" for i in range(4, 12))


@dataclass(frozen=True, slots=True)
class _Loop:
    """Where everything is that lasts. homes: of parameters, and of what is computed before the loop. end: where all
    ends, in the rest. pair: of `pair_of`; of twice a product, the second factor is doubled."""

    root: Node
    homes: Mapping[Node, str]
    pointers: Mapping[Element, str]
    y: str
    end: str
    pair: tuple[Centred, Centred] | None

    @property
    def doubled(self) -> Node | None:
        """The factor that comes times 2."""
        return self.pair[-1] if self.pair and is_twice(self.root) else None

    def pool(self, *taken: str) -> tuple[str, ...]:
        """Registers that are free but for these."""
        mask = () if self.pair else (_MASK,)
        pool = (*_POOL, *_SCALARS) if _LOADED[0] in self.homes.values() else _POOL
        return tuple(name for name in pool if name not in {*self.homes.values(), *taken, *mask})

    @property
    def factors(self) -> list[str]:
        """Registers that are times 2^8 in the turns."""
        factors = (node.factor for node in inner(self.root) if isinstance(node, AddProduct))
        return list(dict.fromkeys(self.homes[factor] for factor in factors if factor in self.homes))


def code(root: Node, names: tuple[str, ...], core: Core) -> Asm:
    """The assembly of f(p, x0, ..., y). names: fields of p behind n, at most five. Units: a `turn` of the loop, of the
    rest four elements (`word`), where turns are short, and one (`last`).

    r0, r12, r14, or r5 to r9: parameters, r1 and on: inputs, then the output, [sp]: where the turns end, [sp, #4]:
    where all ends. In the turns r11: the mask of odd bytes, and factors times 2^8.
    """
    asm, inputs = Asm(core), loads(root)
    params = dict(zip(names, _SCALARS if len(names) <= len(_SCALARS) else _LOADED, strict=False))
    homes: dict[Node, str] = {Param(name): register for name, register in params.items()}
    moving = {load: f"r{1 + load.number}" for load in inputs if moves(load)}
    pair, turn = pair_of(root), turn_of(root)
    end = f"r{max(8, 5 + len(names))}"
    loop = _Loop(root, homes, moving, f"r{1 + len(inputs)}", end, pair)
    asm.note("registers and arguments to the stack")
    asm.save("{r4-r11, lr}", frame=12)
    asm.op("ldm", "r0", f"{{r4-r{4 + len(names)}}}")
    asm.op("add", end, "r1", "r4")
    asm.op("bic", "r4", "r4", f"#{turn - 1}")
    asm.op("add", "r4", "r4", "r1")
    asm.op("strd", "r4", end, "[sp]")
    for number, register in enumerate(params.values()):
        if register != f"r{5 + number}":
            asm.op("mov", register, f"r{5 + number}")
    products_before(asm, root, homes)
    _double(asm, loop)
    for centred in pair or ():
        minus = homes[centred.minus]
        asm.op("pkhbt", minus, minus, minus, "lsl #16")
    with_words = turn < _TURN
    if with_words:
        _begin_words(asm, loop)
    asm.op("cmp", "r1", "r4")
    asm.branch("beq.w", "rest")
    if not with_words:
        _begin_words(asm, loop)
    with asm.loop("turn", "turn"):
        asm.note(f"{turn} elements: loads, products, saturation, store")
        _fours(asm, loop, turn)
        asm.op("ldr", "r4", "[sp]")
        asm.until_equal("r1", "r4", "turn")
    if not with_words:
        _end_words(asm, loop)
    asm.label("rest")
    if with_words:
        _words(asm, loop)
        _end_words(asm, loop)
    asm.op("ldr", end, "[sp, #4]")
    asm.op("cmp", "r1", end)
    asm.branch("beq.w", "done")
    with asm.loop("one", "last", of_call=True):
        asm.note("an element of the rest")
        _one(asm, loop)
        asm.until_equal("r1", end, "one")
    asm.label("done")
    asm.note("return")
    asm.restore()
    asm.reorder()  # before it is kept, so that it costs the same before and after it is printed
    return asm


def _begin_words(asm: Asm, loop: _Loop) -> None:
    """What turns want in registers."""
    if not loop.pair:
        asm.op("mov", _MASK, f"#{_ODD:#x}")
    for factor in loop.factors:
        asm.op("lsl", factor, factor, "#8")


def _end_words(asm: Asm, loop: _Loop) -> None:
    for factor in loop.factors:
        asm.op("asr", factor, factor, "#8")


def _words(asm: Asm, loop: _Loop) -> None:
    """Of the rest all but the last one to three."""

    def left() -> None:
        asm.op("ldr", "r4", "[sp, #4]")
        asm.op("sub", "r4", "r4", "r1")
        asm.op("cmp", "r4", "#4")

    left()
    asm.branch("blt.w", "few")
    with asm.loop("word", "word", of_call=True):
        asm.note("four elements of the rest")
        _fours(asm, loop, 4)
        left()
        asm.branch("bge.w", "word")
    asm.label("few")


def turn_of(root: Node) -> int:
    """Elements of a turn of the loop."""
    return _TURN_OF_PAIRS if any(isinstance(node, HighSum) for node in inner(root)) else _TURN


def work(asm: Asm, elements: int, root: Node) -> Work:
    """What a call executes."""
    turn = turn_of(root)
    turns, rest = divmod(elements, turn)
    words, last = divmod(rest, 4) if turn < _TURN else (0, rest)
    return asm.work() + turns * asm.work("turn") + words * asm.work("word") + last * asm.work("last")


def _double(asm: Asm, loop: _Loop) -> None:
    """What products start with, and of one factor for all elements that, times 2 where twice a sum is scaled."""
    if is_twice(loop.root):
        products = (node for node in inner(loop.root) if isinstance(node, AddProduct))
        lasting = (loop.homes[each] for node in products for each in (node.start, node.factor) if each in loop.homes)
        for register in dict.fromkeys(lasting):
            asm.op("lsl", register, register, "#1")


def _fours(asm: Asm, loop: _Loop, count: int) -> None:
    """So many elements, and on to those behind them."""
    for first in range(0, count, 4):
        _four(asm, loop, first)
    for pointer in (*loop.pointers.values(), loop.y):
        asm.op("add", pointer, pointer, f"#{count}")


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
        return (node, _HALVES[element][0]) if isinstance(node, Centred if loop.pair else Element) else (node, element)

    def values(node: Node, element: int) -> Sequence[Hashable]:
        return [value(each, element) for each in operands(node) if each not in loop.homes]

    # Of pairs, so that each half is read for the last time as soon as can be.
    order = (0, 2, 1, 3) if loop.pair else (0, 1, 2, 3)
    loaded: Sequence[Node] = loop.pair or list(loop.pointers)
    nodes = [node for node in inner(loop.root) if node not in loaded]
    words = [(load, "word") for load in loop.pointers]
    reads: Counter[Hashable] = Counter(dict.fromkeys(words, 2))
    for element in range(4):
        reads.update(each for node in nodes for each in values(node, element))
        reads[value(loop.root, element)] += 1
    registers = Registers(loop.pool(), reads)
    for word, pointer in zip(words, loop.pointers.values(), strict=True):
        op("ldr", registers.define(word), f"[{pointer}, #{first}]")
    for half in ("even", "odd"):
        for word, of in zip(words, loaded, strict=True):
            source = registers[word]
            _half(op, loop, of, half, (registers.define((of, half), [word]), source))
    for start in range(0, 4, together):
        for node in nodes:
            for element in order[start : start + together]:
                sources = {each: registers[value(each, element)] for each in operands(node) if each not in loop.homes}
                target = registers.define(value(node, element), values(node, element))
                side = _HALVES[element][1]
                product = f"smla{side}{side}" if loop.pair else f"smlaw{side}"
                _node(op, product, node, target, {**loop.homes, **sources})
    for element in range(4):
        op("strb", registers[value(loop.root, element)], f"[{loop.y}, #{first + element}]")
    return ops


def _half(op: Callable[..., None], loop: _Loop, of: Node, half: str, places: tuple[str, str]) -> None:
    """Elements 0 and 2 of a word, or 1 and 3. places: where they go, and the word."""
    target, word = places
    if isinstance(of, Centred):
        op("sxtab16", target, loop.homes[of.minus], word, *(["ror #8"] if half == "odd" else []))
        if of == loop.doubled:
            op("sadd16", target, target, target)
    elif half == "even":
        op("and", target, _MASK, word, "lsl #8")
    else:
        op("and", target, word, _MASK)


def _one(asm: Asm, loop: _Loop) -> None:
    """One element, as C computes it."""
    values = Values(loop.root, loop.homes, loop.pool(loop.end))
    for load, pointer in loop.pointers.items():
        asm.op("ldrsb", values.load(load), f"[{pointer}], #1")
    for node in inner(loop.root):
        target, places = values.define(node)
        _node(asm.op, "mla", node, target, places)
        if node == loop.doubled:
            asm.op("lsl", target, target, "#1")
    asm.op("strb", values[loop.root, 0], f"[{loop.y}], #1")


def _node(op: Callable[..., None], product: str, node: Node, target: str, places: Mapping[Node, str]) -> None:
    """The instruction of a node. product: SMLAW of a half takes the factor first, others the element."""
    match node:
        case Centred(x, minus):
            op("sxtah", target, places[x], places[minus])
        case AddProduct(start, x, factor):
            sides = (places[x], places[factor])
            op(product, target, *(reversed(sides) if "smlaw" in product else sides), places[start])
        case OneLess(start, x):
            op("add", target, places[start], places[x], "asr #31")
        case HighSum(x, factor, add, twice):
            op("smmlar" if twice else "smmla", target, places[x], places[factor], places[add])
        case Saturate(x, shift):
            op("ssat", target, "#8", places[x], f"asr #{shift}")
