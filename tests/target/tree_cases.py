# SPDX-License-Identifier: Apache-2.0
"""Forests, and the class that their sums name, as one-node graphs, for kernel_cases.py."""

from __future__ import annotations

from collections.abc import Iterator

from tests.ops.forests import forest
from tests.ops.one_node import one_node, tensor
from tinyc.ir.graph import Graph
from tinyc.ops.argmax import ArgMax


def tree_cases() -> Iterator[Graph]:
    yield forest("f32", 100, 3, None, 20)
    yield forest("s32", 3000, 1, 70000, 5)
    yield forest("f32", 10**7, 7, None, 12, 0.5)
    yield forest("s32", 100, 12, None, 12, 7)
    yield forest("f32", 0, 7, None, 12)
    yield one_node("argmax", ArgMax(1), [tensor("x", (1, 5), 0.1, 0, "s32")])
