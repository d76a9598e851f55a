# SPDX-License-Identifier: Apache-2.0
"""What loops of Thumb code compute before their first turn."""

from __future__ import annotations

from tinyc.loops.expression import AddProduct, Element, Node, before
from tinyc.machine.thumb import Asm


def products_before(asm: Asm, root: Node, homes: dict[Node, str]) -> None:
    """Products of inputs that are one number, each in the register of what it is added to."""
    for node in before(root):
        assert isinstance(node, AddProduct)
        assert isinstance(node.x, Element)
        at = f"r{1 + node.x.number}"
        asm.op("ldrsb", at, f"[{at}]")
        homes[node] = homes[node.start]
        asm.op("mla", homes[node], at, homes[node.factor], homes[node])
