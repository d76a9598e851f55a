# SPDX-License-Identifier: Apache-2.0
"""What loops of Thumb code compute before their first turn."""

from __future__ import annotations

from tinyc.loops.expression import AddProduct, Centred, Element, Node, before
from tinyc.machine.thumb import Asm


def products_before(asm: Asm, root: Node, homes: dict[Node, str]) -> None:
    """Products of inputs that are one number, each in the register of what it is added to."""
    for node in before(root):
        match node:
            case Centred(x, minus):
                homes[node] = _number(asm, x)
                asm.op("add", homes[node], homes[node], homes[minus])
            case AddProduct(start, x, factor):
                at = _number(asm, x) if isinstance(x, Element) else homes[x]
                homes[node] = homes[start]
                asm.op("mla", homes[node], at, homes[factor], homes[node])
            case _:
                raise ValueError(f"{node} is not computed before a loop")


def _number(asm: Asm, load: Element) -> str:
    """The register with an input that is one number, in place of its address."""
    register = f"r{1 + load.number}"
    asm.op("ldrsb", register, f"[{register}]")
    return register
