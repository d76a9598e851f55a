# SPDX-License-Identifier: Apache-2.0
"""The Helium functions on an emulated Cortex-M55: the reference's bytes, counts as promised, in place where allowed."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import numpy as np
import pytest
import test_m4_depthwise
import test_m4_kernels
from one_layer import Asked, check_on_core, check_together
from row_layers import check_rows_on_core
from test_m4_kernels import check_all

from tests.ops import test_row_forms
from tests.ops.one_node import one_node, random_s8, tensor
from tests.ops.weighted import Layer, graph_of, samples
from tinyc.base.numerics import Numerics
from tinyc.choose.select import select
from tinyc.kernel.kernel import Kernel
from tinyc.kernel.site import RELU, RELU6, Act, Padding, Pair
from tinyc.kernels.mve import conv as mve_conv
from tinyc.kernels.mve import depthwise as mve_depthwise
from tinyc.kernels.mve import window as mve_window
from tinyc.ops.add import Add
from tinyc.ops.avg_pool2d import AvgPool2D
from tinyc.ops.conv2d import Conv2D
from tinyc.ops.depthwise_conv2d import DepthwiseConv2D
from tinyc.ops.lookup import Lookup
from tinyc.ops.max_pool2d import MaxPool2D
from tinyc.ops.mul import Mul
from tinyc.plan.planner import plan_graph
from tinyc.run import RunResult

BOARD = "cortex-m55"
ISA = frozenset({"mve"})
ROUNDINGS = [Numerics.TFLM, Numerics.OURS]
(CONV,) = mve_conv.CONV_KERNELS
(DENSE,) = mve_conv.FULLY_CONNECTED_KERNELS
ONE = Padding(1, 1, 1, 1)
conv, relu, dense, depthwise = (
    test_m4_kernels.layer,
    test_m4_kernels.relu,
    test_m4_kernels.dense,
    test_m4_depthwise.layer,
)

CONVS = {
    **{name: one for name, one in test_m4_kernels.CONVS.items() if not name.startswith("dilated")},
    **{name: one for name, one in test_m4_kernels.EXTREMES.items() if one.op == "conv2d"},
    **{f"{n} to {m}": relu((3, 3, n), (m, 1, 1, n)) for n, m in [(1, 8), (3, 16), (5, 24), (7, 17), (9, 3)]},
    **{f"held, {n}": conv((5, 1, n), (16, 1, 1, n)) for n in (8, 16, 17, 31, 32, 48)},
    "many taps": relu((3, 1, 1037), (8, 1, 1, 1037)),
    "many gathered taps": conv((3, 4, 90), (5, 3, 3, 90), Conv2D(pad=ONE, act=RELU6)),
    "many rows": conv((17, 5, 3), (9, 11, 2, 3), Conv2D(Pair(2, 1), Padding(3, 0, 4, 1))),
    "one pixel of many": conv((3, 5, 17), (9, 3, 5, 17)),
    "3x3, many channels": relu((4, 6, 16), (152, 3, 3, 16), Conv2D(pad=ONE)),
    "3x3, 131 channels": relu((3, 5, 8), (131, 2, 3, 8), Conv2D(pad=ONE)),
    "rows of words": relu((5, 7, 12), (12, 3, 3, 12), Conv2D(pad=ONE)),
}
DENSES = {
    **test_m4_kernels.DENSES,
    **{name: one for name, one in test_m4_kernels.EXTREMES.items() if one.op == "fully_connected"},
    "1000 -> 16": dense((1, 1000), 16),
    "64 -> 640, general": dense((1, 64), 640, Act()),
}
DEPTHWISE = {
    **test_m4_depthwise.LAYERS,
    **{f"{n} channels": depthwise((5, 4, n), (3, 3), DepthwiseConv2D(pad=ONE)) for n in (1, 2, 3, 16, 17, 64)},
    **{f"{n} columns": depthwise((6, n, 9), (3, 3), DepthwiseConv2D(pad=ONE, act=RELU)) for n in (1, 3, 5, 7, 9, 17)},
    "tall": depthwise((25, 5, 32), (3, 3), DepthwiseConv2D(pad=ONE, act=RELU), y_zero=-128),
    "stride 2, 40 channels": depthwise((12, 13, 40), (3, 3), DepthwiseConv2D(Pair(2, 2), Padding(0, 0, 1, 1))),
    "long steps": depthwise((4, 4, 516), (3, 3), DepthwiseConv2D(pad=ONE)),
    **{f"column, {k} taps": depthwise((28, 1, 16), (k, 1)) for k in (1, 2, 5, 9, 13)},
    "column, ragged": depthwise((23, 1, 37), (6, 1)),
    "column, 14 taps": depthwise((15, 1, 17), (14, 1)),
    "column, 16 taps": depthwise((16, 1, 24), (16, 1)),
    "signs": depthwise((5, 5, 8), (3, 3), DepthwiseConv2D(pad=ONE), weights="signs", bias=False),
    "largest": depthwise((5, 5, 8), (3, 3), DepthwiseConv2D(pad=ONE), weights="largest", bias=False),
}
DEPTHWISE_ROWS = {
    **{f"{n} channels": depthwise((5, 4, n), (3, 3), DepthwiseConv2D(pad=ONE)) for n in (1, 3, 16, 40)},
    **{f"{n} columns": depthwise((5, n, 32), (3, 3), DepthwiseConv2D(pad=ONE, act=RELU)) for n in (1, 5, 6, 7, 9)},
    "27 columns": depthwise((4, 27, 4), (3, 3), DepthwiseConv2D(pad=ONE, act=RELU6), x_zero=127),
    "3x2, stride 1x2": depthwise((6, 9, 16), (3, 2), DepthwiseConv2D(Pair(1, 2), Padding(1, 1, 1, 0))),
    # Five outputs in a row, of fours of channels: the last ones have the channels as lanes.
    "5 columns, 36 channels": depthwise((7, 5, 36), (3, 3), DepthwiseConv2D(pad=ONE, act=Act(-0.4, 0.6)), y_zero=9),
    "5 columns of 4 taps": depthwise((6, 8, 12), (3, 4), x_zero=-128),
    "5 columns, signs": depthwise((4, 5, 4), (3, 3), DepthwiseConv2D(pad=ONE), weights="signs", bias=False),
    "2x4": depthwise((6, 9, 8), (2, 4), DepthwiseConv2D(pad=Padding(1, 2, 0, 1))),
    "4x4": depthwise((6, 6, 24), (4, 4)),
    "stride 2": depthwise((9, 7, 24), (3, 3), DepthwiseConv2D(Pair(2, 2), ONE, act=RELU), y_zero=-128),
    "one row": depthwise((1, 3, 16), (3, 3), DepthwiseConv2D(pad=ONE)),
}


def taken(kernel: Kernel, layers: Mapping[str, Layer], numerics: Numerics) -> dict[str, Layer]:
    """The layers that the kernel takes."""
    return {name: one for name, one in layers.items() if Asked.of(graph_of(one), numerics, ISA).takes(kernel)}


@pytest.mark.quick_cases(2)
@pytest.mark.parametrize("numerics", ROUNDINGS)
@pytest.mark.parametrize(("kernel", "layers"), [(CONV, CONVS), (DENSE, DENSES)], ids=["conv2d", "fully_connected"])
def test_dot_products(kernel: Kernel, layers: Mapping[str, Layer], numerics: Numerics) -> None:
    assert set(taken(kernel, layers, numerics)) == set(layers)
    check_all(layers, kernel.name, numerics, board_name=BOARD)


@pytest.mark.quick_cases(2)
@pytest.mark.parametrize("numerics", ROUNDINGS)
@pytest.mark.parametrize("kernel", mve_depthwise.KERNELS, ids=lambda kernel: kernel.name)
def test_depthwise(kernel: Kernel, numerics: Numerics) -> None:
    layers = taken(kernel, DEPTHWISE, numerics)
    assert len(layers) > len(DEPTHWISE) // 2
    check_all(layers, kernel.name, numerics, board_name=BOARD)


WHOLE_WINDOWS = {
    "30x1": depthwise((30, 1, 64), (30, 1)),
    "4x1": depthwise((4, 1, 40), (4, 1), DepthwiseConv2D(act=RELU), y_zero=-128),
    "3x5, odd": depthwise((3, 5, 13), (3, 5), DepthwiseConv2D(act=RELU6), x_zero=127),
    "64 taps": depthwise((8, 8, 131), (8, 8)),
    "2 taps, one channel": depthwise((1, 2, 1), (1, 2)),
    "signs": depthwise((7, 1, 8), (7, 1), weights="signs", bias=False),
    "largest": depthwise((9, 1, 24), (9, 1), weights="largest", bias=False),
    "saturates": depthwise((6, 1, 16), (6, 1), gain=30.0),
    "small": depthwise((6, 1, 16), (6, 1), gain=0.05, y_zero=7),
}


@pytest.mark.quick_cases(2)
@pytest.mark.parametrize("numerics", ROUNDINGS)
def test_windows_that_are_the_image(numerics: Numerics) -> None:
    assert set(taken(mve_window.KERNEL, WHOLE_WINDOWS, numerics)) == set(WHOLE_WINDOWS)
    check_all(WHOLE_WINDOWS, mve_window.NAME, numerics, board_name=BOARD)
    one = WHOLE_WINDOWS["30x1"]
    ran = check_on_core(graph_of(one), samples(one)[:1], mve_window.NAME, board_name=BOARD)
    _promised(one, mve_window.KERNEL, ran, 60)


def test_sums_of_16_bits_hold_whatever_comes() -> None:
    taps = np.array([[127, 127, 1, 1], [-128, 127, 0, 1]])
    assert mve_window._groups(taps) == (3, 1)
    assert mve_window._groups(np.full((1, 3), -128)) == (1, 1, 1)


@pytest.mark.slow
@pytest.mark.parametrize("gain", [0.05, 30.0])
@pytest.mark.parametrize("numerics", ROUNDINGS)
def test_ways_to_finish(numerics: Numerics, gain: float) -> None:
    """Activations, zero points, and outputs that hardly ever or nearly always saturate."""
    acts = [(Act(), -5), (RELU, -128), (RELU, 7), (RELU6, -128), (RELU6, 20)]
    more = [{"y_zero": y_zero, "gain": gain, "seed": seed} for seed, (_, y_zero) in enumerate(acts)]
    convs = {str(n): conv((3, 3, 20), (12, 1, 1, 20), Conv2D(act=a), **more[n]) for n, (a, _) in enumerate(acts)}
    planes = {
        str(n): depthwise((5, 6, 7), (3, 3), DepthwiseConv2D(pad=ONE, act=a), **more[n])
        for n, (a, _) in enumerate(acts)
    }
    check_all(convs, CONV.name, numerics, board_name=BOARD)
    check_all(planes, mve_depthwise.NAME, numerics, board_name=BOARD)


def test_the_other_compiler() -> None:
    names = ("1x1", "3x3", "3x3, general", "first layer, RGB", "many taps")
    check_all({name: CONVS[name] for name in names}, CONV.name, toolchain="zig", board_name=BOARD)
    check_all({"": DEPTHWISE["tall"]}, mve_depthwise.KERNELS[0].name, toolchain="zig", board_name=BOARD)


@pytest.mark.quick_cases(2)
@pytest.mark.parametrize("name", ["1x1", "3x3", "first layer, 10x4", "held, 32"])
def test_counts_of_convolutions(name: str) -> None:
    """To within the loop over rows, and the padding instructions before loops."""
    rows = CONVS[name].x_shape[1]
    ran = check_on_core(graph_of(CONVS[name]), samples(CONVS[name])[:1], CONV.name, board_name=BOARD)
    _promised(CONVS[name], CONV, ran, 80 + 60 * rows)


@pytest.mark.parametrize("name", ["tall", "column, 5 taps", "5 columns"])
def test_counts_of_depthwise_layers(name: str) -> None:
    one, kernel = DEPTHWISE[name], mve_depthwise.KERNELS[0]
    ran = check_on_core(graph_of(one), samples(one)[:1], kernel.name, board_name=BOARD)
    _promised(one, kernel, ran, 300)


def _promised(one: Layer, kernel: Kernel, ran: RunResult, spare: int) -> None:
    assert abs(ran.instructions[0] - Asked.of(graph_of(one), Numerics.TFLM, ISA).instructions(kernel)) <= spare


@pytest.mark.parametrize("name", ["tall", "3x3 same", "column, 9 taps"])
def test_the_output_takes_the_place_of_the_input(name: str) -> None:
    choices = select(graph_of(DEPTHWISE[name]), ISA, Numerics.TFLM, {"layer": mve_depthwise.KERNELS[0].name})
    plan = plan_graph(graph_of(DEPTHWISE[name]), choices)
    assert plan.offset("x") == plan.offset("y")


@pytest.mark.quick_cases(1)
@pytest.mark.parametrize("numerics", ROUNDINGS)
def test_rows_of_depthwise_layers(numerics: Numerics) -> None:
    """Two rows per call and one, also where a call makes the second alone; instructions to within what passes rows."""
    ran = check_rows_on_core(test_row_forms.group(DEPTHWISE_ROWS), numerics, board_name=BOARD)
    own = [(case, executed) for _, case, executed in ran if case.kernel.name.startswith(mve_depthwise.NAME)]
    assert {case.rows.out_rows for case, _ in own} == {1, 2}
    special = [case.form.special().text for case, _ in own if case.form.special is not None]
    assert sum("channels are lanes" in text for text in special) >= 3
    for case, executed in own:
        assert executed == pytest.approx(case.form.cost.instructions, rel=0.1, abs=150), case.name


WINDOWS = {
    "2x2": ((8, 8, 64), {"kernel": Pair(2, 2), "stride": Pair(2, 2)}),
    "3x3, padded": ((5, 7, 17), {"kernel": Pair(3, 3), "pad": ONE}),
    "of one tap at the corner": ((3, 3, 9), {"kernel": Pair(2, 2), "stride": Pair(2, 2), "pad": Padding(1, 1, 0, 0)}),
    "8x8, dilated, clamped": (
        (20, 19, 5),
        {"kernel": Pair(8, 8), "dilation": Pair(2, 2), "pad": Padding(3, 2, 1, 4), "act": Act(-0.5, 0.7)},
    ),
    "7x1": ((9, 2, 33), {"kernel": Pair(7, 1), "stride": Pair(1, 2)}),
}


@pytest.mark.parametrize("op", ["max_pool2d", "avg_pool2d", "avg_pool2d of padding"])
def test_pooling(op: str) -> None:
    """Windows with padding and ends of the range: every number that a mean can divide by is tried below."""
    cases, name = [], op.partition(" ")[0]
    for shape, more in WINDOWS.values():
        attrs = MaxPool2D(**more) if op == "max_pool2d" else AvgPool2D(**more, count_pad=op.endswith("padding"))
        graph, inputs = test_row_forms.pool(name, attrs, (1, *shape))
        cases.append((graph, inputs, f"tc_{name}_s8_mve"))
    check_together(cases, board_name=BOARD)


def test_every_mean_is_exact() -> None:
    """The factor of tc_mve_mean_of divides every sum, with its rounding, by every count of taps."""
    for count in range(2, 65):
        shift = max((count - 1).bit_length() - 1, 0)
        factor = -(-(65536 << shift) // count)
        sizes = np.arange(count * 128 + count // 2 + 1)
        assert factor < 65536
        assert sizes[-1] < 32768
        np.testing.assert_array_equal((sizes * factor >> 16) >> shift, sizes // count)


def test_rows_of_averages() -> None:
    """Sums of channels that do not fill their vectors too."""
    attrs = [AvgPool2D(Pair(4, n)) for n in (1, 5, 3)]
    shapes = [(1, 4, 1, 3), (1, 4, 5, 64), (1, 4, 3, 133)]
    layers = {f"{s}": test_row_forms.pool("avg_pool2d", a, s) for a, s in zip(attrs, shapes, strict=True)}
    ran = check_rows_on_core(layers, board_name=BOARD)
    assert sum(case.kernel.name == "tc_avg_pool2d_s8_sums_mve" for _, case, _ in ran) == len(shapes)


@pytest.mark.parametrize(("scales", "y_zero"), [((0.02, 0.03, 0.04), -128), ((0.4, 0.3, 0.01), 17)])
def test_add(scales: tuple[float, float, float], y_zero: int) -> None:
    cases = []
    for channels in (1, 3, 5, 9, 17, 64):
        shape = (1, 3, 3, channels)
        x = [tensor("x0", shape, scales[0], 3), tensor("x1", shape, scales[1], -9)]
        ends = [np.full(shape, value, np.int8) for value in (-128, 127)]
        inputs = [{"x0": random_s8(1, shape), "x1": random_s8(2, shape)}]
        inputs += [{"x0": left, "x1": right} for left in ends for right in ends]
        cases.append((one_node("add", Add(), x, scales[2], y_zero), inputs, "tc_add_linear_s8_mve"))
    check_together(cases, board_name=BOARD)


@pytest.mark.parametrize("numerics", ROUNDINGS)
@pytest.mark.parametrize(("y_scale", "y_zero"), [(0.3, -128), (0.11, 9)])
def test_mul(y_scale: float, y_zero: int, numerics: Numerics) -> None:
    """Lines of all lengths up to two turns, numbers for whole lines on either side."""
    cases = []
    for shape0, shape1 in [
        *(((1, 1, 1, n), (1, 1, 1, n)) for n in (1, 3, 5, 16, 19, 33)),
        ((1, 3, 5, 7), (1, 3, 5, 1)),
        ((1, 3, 5, 1), (1, 3, 5, 7)),
        ((1, 3, 5, 20), (1, 1, 1, 20)),
    ]:
        x = [tensor("x0", shape0, 0.1, 3), tensor("x1", shape1, 0.2, -9)]
        ends = [(value, other) for value in (-128, 127) for other in (-128, 127)]
        inputs = [{"x0": random_s8(1, shape0), "x1": random_s8(2, shape1)}]
        inputs += [{"x0": np.full(shape0, a, np.int8), "x1": np.full(shape1, b, np.int8)} for a, b in ends]
        cases.append((one_node("mul", Mul(), x, y_scale, y_zero), inputs, "tc_mul_s8_mve"))
    check_together(cases, numerics, board_name=BOARD)


def test_tables() -> None:
    """Lengths around whole vectors, and every byte."""
    table = np.random.default_rng(3).integers(-128, 128, 256).astype(np.int8)
    cases = []
    for n in (1, 15, 16, 17, 33, 256):
        x = [tensor("x", (n,), 0.1, 7), tensor("t", (256,), 0.1, 7)]
        inputs = [{"x": np.arange(256, dtype=np.uint8).view(np.int8)[-n:]}, {"x": random_s8(n, (n,))}]
        cases.append((one_node("lookup", Lookup(), x, 0.1, 7, {"t": table}), inputs, "tc_lut_s8_mve"))
    check_together(cases, board_name=BOARD)


def test_weights_of_minus_128() -> None:
    layers = {"": replace(CONVS["3x3"], weights="least")}
    check_all(layers, CONV.name, board_name=BOARD)
