# SPDX-License-Identifier: Apache-2.0
"""Every function in assembly, run by what the table says that its instructions mean: the reference's bytes, nothing
read or written beyond a tensor, a constant or the scratch, no register read that was not set, none lost that is the
caller's. The table is `tinyc/machine/table.py`; what is run is the text that is printed."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path

import numpy as np
import pytest
from interpreted import check_rows_interpreted, for_core, in_assembly, outputs_of
from kernel_cases import KernelLibrary, needing, together

from tests.ops.row_harness import Layer
from tests.ops.test_row_forms import CONVS, DEPTHWISES, POOLS, SUMS, group
from tinyc.base.errors import TinycError
from tinyc.base.numerics import Numerics
from tinyc.board import load_board
from tinyc.reference.interpreter import run_int
from tinyc.toolchain.compilers import find_toolchain

QUICK = 9  # of the layers, every so many


@pytest.mark.parametrize(
    ("board_name", "feature", "every", "core"),
    [
        ("cortex-m4", "dsp", QUICK, "cortex-m4"),
        ("cortex-m4", "dsp", 3 * QUICK, "cortex-m7"),  # the order of instructions is of another core
        ("cortex-m55", "mve", 1, "cortex-m55"),
        ("riscv32imc", "rv32m", 3, "riscv32imc"),
        pytest.param("riscv32imc", "rv32m", 1, "riscv32imc", marks=pytest.mark.slow),
        pytest.param("cortex-m4", "dsp", 1, "cortex-m4", marks=pytest.mark.slow),
        pytest.param("cortex-m4", "dsp", 1, "cortex-m7", marks=pytest.mark.slow),
        pytest.param("cortex-m4", "dsp", 1, "cortex-m33", marks=pytest.mark.slow),
    ],
)
def test_gives_the_reference_and_touches_nothing_else(
    kernel_library: Callable[..., KernelLibrary], board_name: str, feature: str, every: int, core: str, tmp_path: Path
) -> None:
    board = load_board(board_name)
    try:
        compiler = find_toolchain(board, "gcc")
    except TinycError as error:
        pytest.skip(error.message)
    is_shared = feature == "dsp"  # other tests need this library too
    every_kernel = (
        kernel_library(board.isa).network if is_shared else together(board.isa, Numerics.TFLM, needing(feature))
    )
    network = for_core(in_assembly(every_kernel, feature, every), board, core)
    assert len(network.graph.nodes) >= 5
    outputs = outputs_of(network, board, compiler, Numerics.TFLM, tmp_path, core)
    reference = run_int(network.graph, network.inputs, Numerics.TFLM)
    differ = [
        name
        for name, data in zip(network.graph.outputs, outputs, strict=True)
        if data != np.ascontiguousarray(reference[name]).tobytes()
    ]
    assert differ == []


ROWS: Mapping[str, Mapping[str, Layer]] = {
    "conv2d": group(CONVS),
    "depthwise": group(DEPTHWISES),
    "pools and sums": POOLS | SUMS,
}


@pytest.mark.parametrize(
    ("kind", "board_name", "every"),
    [
        *(("conv2d", "cortex-m4", 30), ("depthwise", "cortex-m4", 16), ("pools and sums", "cortex-m4", 4)),
        ("conv2d", "cortex-m55", 30),  # among them an odd row in place of its input
        ("depthwise", "cortex-m55", 16),
        *(pytest.param(kind, "cortex-m4", 1, marks=pytest.mark.slow) for kind in ROWS),
        *(pytest.param(kind, "cortex-m55", 1, marks=pytest.mark.slow) for kind in ROWS),
    ],
)
def test_row_forms_too(kind: str, board_name: str, every: int, tmp_path: Path) -> None:
    """Every row form in assembly makes its layer row by row; each row is an object of its own, as scratch and sums."""
    board = load_board(board_name)
    try:
        compiler = find_toolchain(board, "gcc")
    except TinycError as error:
        pytest.skip(error.message)
    checked = 0
    for number, (name, layer) in enumerate(ROWS[kind].items()):
        if number % every == 0:
            folder = tmp_path / str(number)
            folder.mkdir()
            checked += check_rows_interpreted(name, layer, board, compiler, folder)
    assert checked > 0
