# SPDX-License-Identifier: Apache-2.0
"""An expression in C: what other machines run instead of the assembly."""

from __future__ import annotations

from tinyc.loops.expression import AddProduct, Element, Node, Param, Saturate


def text(node: Node | int) -> str:
    """The value of element i; parameters are fields of `p`, inputs are x0, x1 and so on."""
    match node:
        case Element(number, one):
            return f"x{number}[{0 if one else 'i'}]"
        case Param(name):
            return f"p->{name}"
        case AddProduct(start, x, factor):
            first = text(start)
            return f"{text(factor)} * {text(x)} + {f'({first})' if isinstance(start, AddProduct) else first}"
        case Saturate(x, shift, zero, least, most):
            shifted = f"({text(x)}) >> {text(shift)}"
            value = shifted if zero == 0 else f"({shifted}) + {text(zero)}"
            return f"(int8_t)tc_clamp({value}, {text(least)}, {text(most)})"
        case _:
            return str(node)
