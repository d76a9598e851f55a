# SPDX-License-Identifier: Apache-2.0
"""Row forms of cores without DSP instructions, on the host (firmware: tests/target/test_scalar_rows.py)."""

from __future__ import annotations

import pytest

from tests.ops.row_harness import cases, check_rows
from tests.ops.test_row_forms import CONVS, DEPTHWISES, conv, depthwise, every, group
from tinyc.base.numerics import Numerics
from tinyc.kernel.site import RELU, RELU6, Padding, Pair
from tinyc.ops.conv2d import Conv2D
from tinyc.ops.depthwise_conv2d import DepthwiseConv2D

ONE, TWO = Padding(1, 1, 1, 1), Pair(2, 2)
LAYERS = {
    "3x3": conv((5, 9, 8), (8, 3, 3, 8), Conv2D(pad=ONE, act=RELU), x_zero=-128, y_zero=-128),
    "3x3, many channels": conv((4, 5, 20), (9, 3, 3, 20), Conv2D(pad=Padding(1, 2, 1, 2), act=RELU6), x_zero=77),
    "stride 2": conv((9, 13, 8), (12, 3, 3, 8), Conv2D(TWO, ONE, act=RELU), y_zero=-128),
    "stride 2, segments": conv((4, 3, 21), (4, 3, 3, 21), Conv2D(TWO, ONE), weights="largest", bias=False),
    "1x1": conv((5, 7, 8), (8, 1, 1, 8), Conv2D(act=RELU), y_zero=-128),
    "1x1, odd": conv((4, 5, 9), (7, 1, 1, 9)),
    "depthwise": depthwise((5, 5, 8), (3, 3), DepthwiseConv2D(pad=ONE, act=RELU), x_zero=-128, y_zero=-128),
    "depthwise, one column": depthwise((4, 1, 5), (3, 3), DepthwiseConv2D(pad=ONE)),
}
MORE = {
    "3x3, odd": conv((6, 7, 5), (5, 3, 3, 5), Conv2D(pad=ONE)),
    "3x3, one column": conv((4, 1, 3), (3, 3, 3, 3), Conv2D(pad=ONE), x_zero=127),
    "3x3, unpadded": conv((7, 6, 4), (4, 3, 3, 4)),
    "signs": conv((4, 8, 16), (4, 3, 3, 16), Conv2D(pad=ONE), weights="signs", bias=False),
    "saturates": conv((3, 5, 8), (8, 3, 3, 8), Conv2D(pad=ONE), gain=20.0),
    "stride 2, odd": conv((7, 9, 5), (5, 3, 3, 5), Conv2D(TWO, Padding(0, 0, 1, 1)), x_zero=-128),
    "1x1, one column": conv((7, 1, 17), (17, 1, 1, 17)),
    "1x1, two columns": conv((3, 2, 5), (7, 1, 1, 5)),
    "depthwise, every other row": depthwise((6, 17, 3), (3, 3), DepthwiseConv2D(Pair(2, 1), ONE)),
}


def test_equal_the_reference() -> None:
    forms = check_rows(group(every(2, LAYERS, Numerics.OURS)), Numerics.OURS, scalar=True)
    assert {case.rows.out_rows for case in forms} == {1, 2, 3, 4}
    assert {case.in_place for case in forms} == {None, 0}


@pytest.mark.slow
@pytest.mark.parametrize("numerics", [Numerics.TFLM, Numerics.OURS])
def test_all_equal_the_reference(numerics: Numerics) -> None:
    weighted = {f"conv2d {name}": layer for name, layer in CONVS.items() if layer.w_shape[1] in (1, 3)}
    layers = {**LAYERS, **MORE, **weighted, **{f"depthwise {name}": layer for name, layer in DEPTHWISES.items()}}
    rows_of = {name: pair for name, pair in group(layers).items() if cases(pair[0], numerics, scalar=True)}
    check_rows(rows_of, numerics, compiler="gcc", scalar=True)
