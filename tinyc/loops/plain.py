# SPDX-License-Identifier: Apache-2.0
"""An expression in C: what other machines run instead of the assembly."""

from __future__ import annotations

from tinyc.loops.expression import AddProduct, Element, Node, Param, Saturate

SSAT, CLAMP = "tc_ssat8({})", "tc_clamp({}, -128, 127)"  # how C says that int8 saturates


def text(node: Node | int, saturated: str = CLAMP) -> str:
    """The value of element i; parameters are fields of `p`, inputs are x0, x1 and so on. saturated: with `{}` for what
    becomes int8."""
    match node:
        case Element(number, one):
            return f"x{number}[{0 if one else 'i'}]"
        case Param(name):
            return f"p->{name}"
        case AddProduct(start, x, factor):
            first = text(start, saturated)
            return f"{text(factor)} * {text(x, saturated)} + {f'({first})' if isinstance(start, AddProduct) else first}"
        case Saturate(x, shift):
            return f"(int8_t){_finished(node, f'({text(x, saturated)}) >> {text(shift)}', saturated)}"
        case _:
            return str(node)


def _finished(node: Saturate, shifted: str, saturated: str) -> str:
    if node.saturates:
        return saturated.format(shifted)
    return f"tc_clamp(({shifted}) + {text(node.zero)}, {text(node.least)}, {text(node.most)})"
