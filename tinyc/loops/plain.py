# SPDX-License-Identifier: Apache-2.0
"""An expression in C: what other machines run instead of the assembly."""

from __future__ import annotations

from tinyc.loops.expression import AddProduct, Element, Extreme, Node, Param, Saturate, Where


def text(node: Node | int) -> str:
    """The value of element i; parameters are fields of `p`, inputs are x0, x1 and so on."""
    match node:
        case int():
            value = str(node)
        case Element(number, one, ctype):
            base = f"((const int8_t *)x{number})" if ctype == "void" else f"x{number}"
            value = f"{base}[{0 if one else 'i'}]"
        case Param(name):
            value = f"p->{name}"
        case AddProduct(start, x, factor):
            first = text(start)
            value = f"{text(factor)} * {text(x)} + {f'({first})' if isinstance(start, AddProduct) else first}"
        case Saturate(x, shift, zero, least, most):
            shifted = f"({text(x)}) >> {text(shift)}"
            sum_ = shifted if zero == 0 else f"({shifted}) + {text(zero)}"
            value = f"(int8_t)tc_clamp({sum_}, {text(least)}, {text(most)})"
        case Extreme(a, b, largest):
            value = f"({text(a)} {'>' if largest else '<'} {text(b)} ? {text(a)} : {text(b)})"
        case Where(condition, a, b):
            value = f"({text(condition)} ? {text(a)} : {text(b)})"
    return value
