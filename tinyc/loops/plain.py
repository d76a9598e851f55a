# SPDX-License-Identifier: Apache-2.0
"""An expression in C: what other machines run instead of the assembly."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping
from types import MappingProxyType

from tinyc.base.escape import float_literal
from tinyc.loops.expression import (
    TABLE_BYTES,
    TABLE_ZERO,
    AddProduct,
    Centred,
    Element,
    Extreme,
    HighSum,
    Nearest,
    Negative,
    Node,
    Number,
    OneLess,
    Param,
    Plus,
    Real,
    Saturate,
    SaturatedSum,
    Scaled,
    TableEntry,
    Where,
    has_words,
    operands,
    ordered,
)

_LEAVES = (Element, Param, Number, Real)


Names = Mapping[Node, str]
_NO_NAMES: Names = MappingProxyType({})


def statements(root: Node) -> list[str]:
    """What computes y[i]; of an expression of words or of high ones, what is read more than once has a name."""
    order = ordered(root)
    if not (has_words(root) or any(isinstance(node, HighSum) for node in order)):
        order = []
    reads: Counter[Node] = Counter(each for node in order for each in operands(node) if not isinstance(each, _LEAVES))
    reads.update(node.x for node in order if isinstance(node, Negative | Nearest))  # which say it twice
    names: dict[Node, str] = {}
    lines = []
    for node in (node for node in order if reads[node] > 1):
        value = text(node, names)
        names[node] = f"v{len(names)}"
        lines.append(f"const {'float' if isinstance(node, Scaled) else 'int32_t'} {names[node]} = {value};")
    return [*lines, f"y[i] = {text(root, names)};"]


def text(node: Node | int, names: Names = _NO_NAMES) -> str:
    """The value of element i; parameters are fields of `p`, inputs are x0, x1 and so on. names: of values."""

    def of(operand: Node | int) -> str:
        return text(operand, names)

    if not isinstance(node, int) and node in names:
        return names[node]
    match node:
        case int():
            value = str(node)
        case Element(number, one, ctype):
            base = f"((const int8_t *)x{number})" if ctype == "void" else f"x{number}"
            value = f"{base}[{0 if one else 'i'}]"
        case Param(name):
            value = f"p->{name}"
        case SaturatedSum(a, b):
            value = f"(int16_t)tc_clamp({of(a)} + {of(b)}, -32768, 32767)"
        case AddProduct(start, x, factor):
            first = of(start)
            value = f"{of(factor)} * {of(x)} + {f'({first})' if isinstance(start, AddProduct) else first}"
        case Saturate(x, shift, zero, least, most):
            shifted = of(x) if shift == 0 else f"({of(x)}) >> {of(shift)}"
            sum_ = shifted if zero == 0 else f"({shifted}) + {of(zero)}"
            value = f"(int8_t)tc_clamp({sum_}, {of(least)}, {of(most)})"
        case Extreme(a, b, largest):
            value = f"({of(a)} {'>' if largest else '<'} {of(b)} ? {of(a)} : {of(b)})"
        case Where(condition, a, b):
            value = f"({of(condition)} ? {of(a)} : {of(b)})"
        case _:
            value = _of_words(node, of)
    return value


def _of_words(node: Node, of: Callable[[Node], str]) -> str:
    """The value of a node that expressions of words have, or of high ones."""
    match node:
        case Centred(x, minus):
            value = f"({of(x)} + {of(minus)})"
        case HighSum(x, factor, add, twice):
            product = f"(int64_t)({of(x)}) * {of(factor)}"
            value = f"(int32_t)({f'(2 * {product} + 0x80000000)' if twice else product} >> 32) + {of(add)}"
        case OneLess(start, x):
            value = f"{of(start)} - ({of(x)} < 0)"
        case Real(number):
            value = f"{float_literal(number)}f"
        case Number(number):
            value = f"({number})" if number < 0 else str(number)
        case Plus(a, b):
            value = f"({of(a)} + {of(b)})"
        case Negative(x):
            value = f"({of(x)} < 0 ? {of(x)} : 0)"
        case Scaled(x, factor):
            value = f"(float){of(x)} * {of(factor)}"
        case TableEntry(table, x):
            value = f"x{table.number}[{TABLE_BYTES} * i + {TABLE_ZERO} + {of(x)}]"
        case Nearest(x, least):
            value = f"tc_round_half_even({of(x)} > {of(least)} ? {of(x)} : {of(least)})"
        case _:
            raise ValueError(f"{node} has no words in C")
    return value
