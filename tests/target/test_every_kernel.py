# SPDX-License-Identifier: Apache-2.0
"""Every kernel on every core that has its instructions, under both compilers: bytes of the reference.

One firmware per core, compiler and numerics, or level of optimization, holds all of them. By default one core runs
those of one numerics.
"""

from __future__ import annotations

from collections.abc import Callable

import pytest
from kernel_cases import (
    ONE_VALUE,
    KernelLibrary,
    clamped_to_one,
    kernels_for,
    run_together,
    together,
    with_cases,
)
from machines import target_for

from tinyc.base.errors import TinycError
from tinyc.base.numerics import Numerics
from tinyc.board import load_board
from tinyc.options.build import Optimize
from tinyc.toolchain.compilers import find_toolchain

BOARDS = [
    "host",
    "cortex-m0plus",
    "cortex-m3",
    "cortex-m4",
    "cortex-m7",
    "cortex-m33",
    "cortex-m55",
    "riscv32imc",
    "riscv32-zve32x",
]
QUICK = {("cortex-m4", "zig")}
RUNS = [
    pytest.param(
        board,
        family,
        numerics,
        marks=[] if (board, family) in QUICK and numerics is Numerics.TFLM else [pytest.mark.slow],
    )
    for board in BOARDS
    for family in ("gcc", "zig")
    for numerics in Numerics
]


@pytest.mark.parametrize(("board_name", "family", "numerics"), RUNS)
def test_all_kernels(
    kernel_library: Callable[..., KernelLibrary], board_name: str, family: str, numerics: Numerics
) -> None:
    board = load_board(board_name)
    target_for(board_name, None)
    try:
        compiler = find_toolchain(board, family)
    except TinycError as error:
        pytest.skip(error.message)
    library = kernel_library(board.isa, numerics)
    run_together(library.network, board, compiler, numerics, library.folder)


@pytest.mark.slow
@pytest.mark.parametrize("optimize", ["speed", "size"])
@pytest.mark.parametrize("board_name", BOARDS)
def test_all_kernels_at_other_levels(
    kernel_library: Callable[..., KernelLibrary], board_name: str, optimize: Optimize
) -> None:
    """The level that a library is built with is the user's. What gcc 12 compiled wrongly for the Cortex-M55 at -Os
    wrote past its scratch and into no result: `test_m55_int16.py` sees that."""
    board = load_board(board_name)
    target_for(board_name, None)
    library = kernel_library(board.isa, Numerics.TFLM)
    compiler = find_toolchain(board, "gcc")
    run_together(library.network, board, compiler, Numerics.TFLM, library.folder, optimize)


ENDS = [(board, 1, which) for board in BOARDS for which in ("least", "greatest")]


@pytest.mark.parametrize(
    ("board_name", "step", "which"),
    [*(("cortex-m4", 20, which) for which in ONE_VALUE), *(pytest.param(*end, marks=pytest.mark.slow) for end in ENDS)],
)
def test_an_activation_leaves_one_value(board_name: str, step: int, which: str) -> None:
    """A fused activation whose ends are the same integer, such as RELU with the zero point 127. step: of the cases, one
    in so many."""
    board = load_board(board_name)
    target_for(board_name, None)
    network = together(board.isa, Numerics.TFLM, graphs=clamped_to_one(which)[::step])
    run_together(network, board, find_toolchain(board, "gcc"), Numerics.TFLM)


@pytest.mark.parametrize("board_name", BOARDS)
def test_none_is_left_out(board_name: str) -> None:
    """Every kernel that the core has the instructions for is among those that `test_all_kernels` runs there."""
    missing = sorted(kernels_for(load_board(board_name).isa) - with_cases())
    assert not missing, f"no case of kernel_cases.py is for {missing}"
