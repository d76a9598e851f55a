# SPDX-License-Identifier: Apache-2.0
"""A dense layer behind a flattened image: its inputs lie in the arena once, and not as int16 beside themselves."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from tests.ops.tflite_builder import Operator, Tensor, build_model
from tinyc.board import load_board
from tinyc.options.build import Options
from tinyc.pipeline.compiling import compile_model
from tinyc.pipeline.progress import Progress

SIDE, OUTPUTS = 9, 32
WINDOW = {"StrideW": 1, "StrideH": 1, "DilationWFactor": 1, "DilationHFactor": 1}


def flattened(path: Path, channels: int) -> Path:
    """A 3x3 convolution, and a dense layer of all its numbers."""
    rng = np.random.default_rng(0)
    inputs = SIDE * SIDE * channels
    k, d = (rng.integers(-127, 128, shape).astype(np.int8) for shape in ((channels, 3, 3, 1), (OUTPUTS, inputs)))
    tensors = [
        Tensor("x", (1, SIDE, SIDE, 1), "s8", (0.05,), (3,)),
        Tensor("k", k.shape, "s8", (0.01,), (0,), data=k),
        Tensor("a", (1, SIDE, SIDE, channels), "s8", (0.1,), (-128,)),
        Tensor("d", d.shape, "s8", (0.01,), (0,), data=d),
        Tensor("y", (1, OUTPUTS), "s8", (0.5,), (0,)),
    ]
    operators = [
        Operator("CONV_2D", ("x", "k"), ("a",), "Conv2DOptions", WINDOW),
        Operator("FULLY_CONNECTED", ("a", "d"), ("y",), "FullyConnectedOptions", {}),
    ]
    path.write_bytes(build_model(tensors, operators, ("x",), ("y",)))
    return path


@pytest.mark.parametrize("channels", [8, 7])  # 648 inputs, and 567
@pytest.mark.parametrize("board", ["cortex-m4", "cortex-m33"])
def test_the_arena_is_the_dense_layers_tensors(tmp_path: Path, board: str, channels: int) -> None:
    path = flattened(tmp_path / "m.tflite", channels)
    compiled = compile_model(path, load_board(board), Options(board=board, prefer="ram"), Progress())
    tensors = SIDE * SIDE * channels + OUTPUTS
    assert compiled.plan.arena_bytes <= tensors + 3  # word aligned
