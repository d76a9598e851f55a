# SPDX-License-Identifier: Apache-2.0
"""Arithmetic of plain integers, comparisons and conversions as one-node graphs, for kernel_cases.py."""

from __future__ import annotations

from collections.abc import Iterator

from tests.ops.one_node import one_node, tensor
from tinyc.ir.graph import DType, Graph, Shape, Value
from tinyc.ops.compare import Compare
from tinyc.ops.convert import Convert
from tinyc.ops.integer_binary import IntegerBinary


def plain(name: str, shape: Shape, dtype: DType) -> Value:
    """A tensor whose integers stand for themselves."""
    return tensor(name, shape, float(dtype in ("s8", "u8", "s16")), 0, dtype)


def integer_cases() -> Iterator[Graph]:
    kinds: dict[str, DType] = {"add": "s32", "div": "s32", "mod": "s8", "mul": "u8", "xor": "u32"}
    for kind, dtype in kinds.items():
        inputs = [plain("a", (2, 3, 4), dtype), plain("b", (3, 1), dtype)]
        yield one_node("integer_binary", IntegerBinary(kind, dtype), inputs, float(dtype in ("s8", "u8")))
    yield one_node("compare", Compare("less_equal"), [plain("a", (3, 5), "bool"), plain("b", (5,), "bool")])
    yield one_node("convert", Convert("s32"), [plain("x", (9,), "f32")])
    yield one_node("convert", Convert("f32"), [plain("x", (9,), "s32")])
    yield one_node("convert", Convert("s8"), [plain("x", (9,), "s32")], 0.5, -100)
    yield one_node("convert", Convert("s16"), [plain("x", (9,), "bool")], 0.001)
