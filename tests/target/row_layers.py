# SPDX-License-Identifier: Apache-2.0
"""Whole layers made row by row on an emulated core, with every row form that there is."""

from __future__ import annotations

import tempfile
from collections.abc import Mapping
from pathlib import Path

import pytest
from machines import target_for
from symbols import check_links_alone

from tests.ops.row_harness import Layer, Layers
from tests.ops.row_program import Case
from tests.target.kernel_cases import roomy
from tinyc.base.errors import TinycError
from tinyc.base.numerics import Numerics
from tinyc.board import load_board
from tinyc.options.build import Optimize
from tinyc.toolchain.compile import Sources, compile_firmware
from tinyc.toolchain.compilers import find_toolchain

_MOST_BYTES = 150_000  # of RAM in one firmware


def check_rows_on_core(
    layers: Mapping[str, Layer],
    numerics: Numerics = Numerics.TFLM,
    toolchain: str = "gcc",
    board_name: str = "cortex-m4",
    all_forms: bool = False,
    scalar: bool | None = None,
    most_bytes: int = _MOST_BYTES,
    optimize: Optimize = "speed",
) -> list[tuple[str, Case, int]]:
    """Assert that every row form gives the reference's bytes on the core and touches nothing else; for each
    (layer, case, instructions of the first sample: all rows, with the loop around them)."""
    board = roomy(load_board(board_name))  # all forms of all layers are in one firmware
    target = target_for(board_name, None)
    try:
        compiler = find_toolchain(board, toolchain)
    except TinycError as error:
        pytest.skip(error.message)
    forms_run: list[tuple[str, Case, int]] = []
    for work in Layers.of(layers, numerics, board.isa, all_forms, most_bytes, scalar):
        with tempfile.TemporaryDirectory() as name:
            folder = Path(name)
            for file, text in work.program.files().items():
                (folder / file).write_text(text)
            firmware = compile_firmware(Sources(folder, "unit"), board, compiler, optimize, folder / "firmware")
            check_links_alone(firmware)
            ran = target.run(firmware, work.inputs)
        assert not ran.damaged_guards
        for number, outputs in enumerate(ran.outputs):
            work.compare(number, outputs)
        steps = ran.counts[0].steps if ran.counts else {}
        forms_run += [(work.names[i], case, steps[i]) for i, case in enumerate(work.program.cases)]
    return forms_run
