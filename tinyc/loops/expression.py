# SPDX-License-Identifier: Apache-2.0
"""What a loop computes of its elements: y[i] = expression, over elements of the inputs and int32 parameters.

Nodes are values, so an expression that occurs twice is one node, and what does not depend on i is found by asking.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import fields

from tinyc.base.dataclass import dataclass


@dataclass(frozen=True, slots=True)
class Element:
    """Element i of an input. one: the input is one number for the whole loop. ctype: of an element; `void`:
    of a byte of any type."""

    number: int
    one: bool = False
    ctype: str = "int8_t"


@dataclass(frozen=True, slots=True)
class Param:
    """An int32 of the layer, by the name of its field."""

    name: str


@dataclass(frozen=True, slots=True)
class Number:
    """An int32 in the code."""

    value: int


@dataclass(frozen=True, slots=True)
class Real:
    """A float32 in the code."""

    value: float


@dataclass(frozen=True, slots=True)
class Plus:
    """a + b, in int32."""

    a: Node
    b: Node


@dataclass(frozen=True, slots=True)
class Negative:
    """x where it is below 0, else 0; int32."""

    x: Node


@dataclass(frozen=True, slots=True)
class AddProduct:
    """start + x * factor, in int32, which the compiler has proved to hold it."""

    start: Node
    x: Node
    factor: Node


@dataclass(frozen=True, slots=True)
class Centred:
    """An int8 and a number more, in 16 bits: less its zero point."""

    x: Element
    minus: Param


@dataclass(frozen=True, slots=True)
class HighSum:
    """(x * factor >> 32) + add, in int32; twice: (2 * x * factor + 2^31 >> 32) + add."""

    x: Node
    factor: Param
    add: Node
    twice: bool = False


@dataclass(frozen=True, slots=True)
class OneLess:
    """start, less 1 where x is below 0; int32."""

    start: Node
    x: Node


@dataclass(frozen=True, slots=True)
class Scaled:
    """x * factor in float32; x is int32 or float32."""

    x: Node
    factor: Real


@dataclass(frozen=True, slots=True)
class Nearest:
    """The int32 next to a float32, halves to even; `least` where it is below that or no number."""

    x: Node
    least: Real


@dataclass(frozen=True, slots=True)
class TableEntry:
    """Of the table of element i, 256 bytes that lie in a row for all i, the int8 at 128 + x, which is int8."""

    table: Element
    x: Node


@dataclass(frozen=True, slots=True)
class SaturatedSum:
    """a + b, limited to int16, of which both are."""

    a: Node
    b: Node


@dataclass(frozen=True, slots=True)
class Saturate:
    """clamp((x >> shift) + zero, least, most), from int32 to int8."""

    x: Node
    shift: int | Param
    zero: int | Param | Number = 0
    least: int | Param = -128
    most: int | Param = 127


@dataclass(frozen=True, slots=True)
class Extreme:
    """The larger of two int8, or the smaller."""

    a: Node
    b: Node
    largest: bool


@dataclass(frozen=True, slots=True)
class Where:
    """One of two bytes, as a third says: a where it is not 0."""

    condition: Node
    a: Node
    b: Node


Node = (
    Element
    | Param
    | Number
    | Real
    | Plus
    | Negative
    | AddProduct
    | Centred
    | HighSum
    | OneLess
    | Scaled
    | Nearest
    | TableEntry
    | SaturatedSum
    | Saturate
    | Extreme
    | Where
)


def operands(node: Node) -> Iterator[Node]:
    """The nodes that it reads, in the order of its fields."""
    for field in fields(node):
        value = getattr(node, field.name)
        if isinstance(value, Node):
            yield value


def ordered(root: Node) -> list[Node]:
    """Every node once, operands before those that read them."""
    order: dict[Node, None] = {}

    def visit(node: Node) -> None:
        for operand in operands(node):
            visit(operand)
        order[node] = None

    visit(root)
    return list(order)


TABLE_BYTES, TABLE_ZERO = 256, 128  # of a table; where 0 is


def loads(root: Node) -> list[Element]:
    """The inputs, in their order."""
    return sorted((node for node in ordered(root) if isinstance(node, Element)), key=lambda load: load.number)


def moves(node: Node) -> bool:
    """Whether it depends on i."""
    return not node.one if isinstance(node, Element) else any(map(moves, operands(node)))


def inner(root: Node) -> list[Node]:
    """Of `ordered` what a turn of the loop computes: what is no load and depends on i."""
    return [node for node in ordered(root) if moves(node) and not isinstance(node, Element)]


def before(root: Node) -> list[Node]:
    """Of `ordered` what is computed before the loop."""
    return [node for node in ordered(root) if not moves(node) and not isinstance(node, Element | Param | Number | Real)]


def numbers(root: Node) -> list[Number | Real]:
    """Those in the code, in the order of `ordered`."""
    return [node for node in ordered(root) if isinstance(node, Number | Real)]


def result_type(root: Node) -> str:
    """The C type of y."""
    match root:
        case Scaled():
            return "float"
        case SaturatedSum():
            return "int16_t"
    return "int8_t"


def tables(root: Node) -> list[Element]:
    """The inputs that are tables."""
    return [node.table for node in ordered(root) if isinstance(node, TableEntry)]


def is_packed(root: Node) -> bool:
    """Whether all values have the few bits of an element, so that a register holds several."""
    return all(isinstance(node, Element | Extreme | Where | SaturatedSum) for node in ordered(root))


def packed_size(root: Node) -> int:
    """Bytes of an element where all are packed."""
    return 2 if isinstance(root, SaturatedSum) else 1


def has_words(root: Node) -> bool:
    """Whether it is more than a sum of products of bytes and parameters, in words of 32 bits."""
    return any(
        isinstance(node, Number | Real | Plus | Negative | Scaled | Nearest | TableEntry) for node in ordered(root)
    )


def pair_of(root: Node) -> tuple[Centred, Centred] | None:
    """The factors of products of two inputs that both depend on i, if there are such."""
    for node in inner(root):
        match node:
            case AddProduct(_, Centred() as x, Centred() as factor) if moves(x) and moves(factor):
                return x, factor
    return None


def is_twice(root: Node) -> bool:
    """Whether twice a sum is scaled."""
    return any(isinstance(node, HighSum) and node.twice for node in ordered(root))
