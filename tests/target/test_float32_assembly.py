# SPDX-License-Identifier: Apache-2.0
"""float32 layers in assembly: run by the meanings of their instructions, and what they cost."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from interpreted import in_assembly, outputs_of
from kernel_cases import Together, together

from tinyc.base.errors import TinycError
from tinyc.base.numerics import Numerics
from tinyc.board import load_board
from tinyc.build.toolchain import Toolchain, find_toolchain
from tinyc.kernels.float32.blocks import Channels, FloatBlock
from tinyc.reference.interpreter import run_int

BOARD = load_board("cortex-m4")


def layers() -> Together:
    """Those of kernel_cases.py that have float32 kernels in assembly."""
    return together(BOARD.isa, Numerics.OURS, lambda kernel: "fpu" in kernel.isa and kernel.name.endswith("_f32_asm"))


def compiler() -> Toolchain:
    try:
        return find_toolchain(BOARD, "gcc")
    except TinycError as error:
        pytest.skip(error.message)


def test_gives_the_reference_and_touches_nothing_else(tmp_path: Path) -> None:
    made = in_assembly(layers(), "fpu")
    assert {node.op for node in made.graph.nodes} == {"conv2d", "depthwise_conv2d", "fully_connected"}
    found = outputs_of(made, BOARD, compiler(), Numerics.OURS, tmp_path)
    wanted = run_int(made.graph, made.inputs, Numerics.OURS)
    for name, data in zip(made.graph.outputs, found, strict=True):
        assert data == np.ascontiguousarray(wanted[name]).tobytes(), name


def test_products_take_little_more_than_an_instruction() -> None:
    """Of the inner loops: docs/float32.md says how many."""
    for outputs, pixels, most in ((8, 2, 1.11), (8, 1, 1.11), (4, 2, 1.13), (4, 1, 1.20)):
        block = FloatBlock(outputs, pixels, 8, "relu")
        assert block.work("turn").instructions <= most * 8 * outputs * pixels
    assert Channels(8, 2, 3, "relu").work("turn").instructions <= 1.36 * 3 * 16
