# SPDX-License-Identifier: Apache-2.0
"""Einsum of two tensors: transposes, one product of matrices, a transpose."""

from __future__ import annotations

import math

from tinyc.base.errors import TinycError
from tinyc.ir.graph import Value
from tinyc.load.onnx.importing import OnnxStep, imports
from tinyc.ops.batch_matmul import BatchMatmul
from tinyc.ops.transpose import Transpose


@imports("Einsum")
def einsum(s: OnnxStep) -> None:
    """Two tensors, each letter once per tensor, no ellipsis: attention and dense layers."""
    text = s.node.text("equation", "").replace(" ", "")
    inputs, _, result = text.partition("->")
    left, _, right = inputs.partition(",")
    a, b = s.value(0), s.value(1) if s.input_count == 2 else None
    if b is None or not _is_plain(left, right, result) or (len(a.shape), len(b.shape)) != (len(left), len(right)):
        hint = "write it with MatMul, Mul, ReduceSum and Transpose"
        raise TinycError(f"Einsum '{text[:40]}' is not supported, only a product of two tensors", s.where, hint)
    sizes = dict(zip(left, a.shape, strict=True))
    if any(sizes.get(letter, n) != n for letter, n in zip(right, b.shape, strict=True)):
        raise TinycError(f"Einsum '{text}' of {list(a.shape)} and {list(b.shape)}", s.where)
    sizes |= dict(zip(right, b.shape, strict=True))
    both = [c for c in result if c in left and c in right]
    rows = [c for c in result if c in left and c not in right]
    columns = [c for c in result if c in right and c not in left]
    summed = [c for c in left if c in right and c not in result]

    def matrix(x: Value, letters: str, order: tuple[list[str], ...], name: str) -> Value:
        moved = s.transpose(x, tuple(letters.index(c) for group in order for c in group), f"{name}_moved")
        return s.reshape(moved, tuple(math.prod(sizes[c] for c in group) for group in order), name)

    first = matrix(a, left, (both, rows, summed), "a")
    second = matrix(b, right, (both, summed, columns), "b")
    product = s.insert([first, second], BatchMatmul(), "product")
    letters = [*both, *rows, *columns]
    apart = s.reshape(product, tuple(sizes[c] for c in letters), "apart")
    s.emit([apart], Transpose(tuple(letters.index(c) for c in result)))


def _is_plain(left: str, right: str, result: str) -> bool:
    """Whether every letter of a tensor is its own, and each is in the result or in both tensors."""
    texts = (left, right, result)
    if not all(text.isalpha() and len(set(text)) == len(text) for text in texts):
        return False
    return set(result) <= set(left) | set(right) and not (set(left) ^ set(right)) - set(result)
