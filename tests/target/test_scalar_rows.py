# SPDX-License-Identifier: Apache-2.0
"""Row forms of cores without DSP instructions on emulated ones: the reference's bytes, and what they cost."""

from __future__ import annotations

import pytest
from row_layers import check_rows_on_core

from tests.ops.test_row_forms import conv, every, group
from tests.ops.test_scalar_rows import LAYERS, MORE, ONE, TWO
from tinyc.base.numerics import Numerics
from tinyc.kernel.site import RELU
from tinyc.ops.conv2d import Conv2D

RUNS = [
    pytest.param(board, family, marks=[] if (board, family) == ("cortex-m3", "gcc") else [pytest.mark.slow])
    for board in ("cortex-m3", "cortex-m0plus", "riscv32imc")
    for family in ("gcc", "zig")
]
COSTS = {
    "3x3": conv((4, 8, 16), (12, 3, 3, 16), Conv2D(pad=ONE, act=RELU), y_zero=-128),
    "stride 2": conv((8, 12, 16), (16, 3, 3, 16), Conv2D(TWO, ONE, act=RELU), y_zero=-128),
}


@pytest.mark.parametrize(("board_name", "family"), RUNS)
def test_equal_the_reference(board_name: str, family: str) -> None:
    layers = every(2, LAYERS, Numerics.TFLM) if (board_name, family) == ("cortex-m3", "gcc") else LAYERS | MORE
    where = {"toolchain": family, "board_name": board_name}
    assert check_rows_on_core(group(layers), scalar=True, most_bytes=60_000, **where)


def test_costs() -> None:
    """On the Cortex-M3, whose instructions are estimated."""
    rows = check_rows_on_core(group(COSTS), board_name="cortex-m3", scalar=True, most_bytes=1)
    for name, case, executed in rows:
        if case.form.special is not None:
            assert executed == pytest.approx(case.form.cost.instructions, rel=0.1), f"{name}: {case.name}"
