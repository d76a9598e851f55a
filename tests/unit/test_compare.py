# SPDX-License-Identifier: Apache-2.0
"""What a proof counts: bytes that differ, one by one, and the first input with one."""

from __future__ import annotations

import numpy as np

from tests.ops.one_node import tensor
from tinyc.ir.graph import Graph
from tinyc.verify.compare import Comparison, compare

SHAPES = {"y": ((3,), np.int8), "z": ((2,), np.int16)}
VALUES = {name: tensor(name, (1, *shape), 0.1, 0) for name, (shape, _) in SHAPES.items()}
GRAPH = Graph("two outputs", (), tuple(SHAPES), (), VALUES)


def _outputs(samples: int) -> list[list[np.ndarray]]:
    rng = np.random.default_rng(3)
    return [[rng.integers(-99, 99, shape).astype(dtype) for shape, dtype in SHAPES.values()] for _ in range(samples)]


def test_equal_outputs() -> None:
    reference = _outputs(4)
    same = [[array.tobytes() for array in sample] for sample in reference]
    assert compare(GRAPH, same, reference) == Comparison(inputs=4, output_bytes=4 * 7, mismatches=0, first_input=None)


def test_bytes_count_one_by_one_and_the_first_input_is_told() -> None:
    reference = _outputs(4)
    wrong = [[array.copy() for array in sample] for sample in reference]
    wrong[1][0][[0, 2]] += 1  # two bytes of the first output
    wrong[1][1][1] ^= 0x0101  # both of a word of the second
    wrong[3][0][1] += 1
    got = [[array.tobytes() for array in sample] for sample in wrong]
    assert compare(GRAPH, got, reference) == Comparison(inputs=4, output_bytes=4 * 7, mismatches=5, first_input=1)
