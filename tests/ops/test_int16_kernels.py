# SPDX-License-Identifier: Apache-2.0
"""The kernels for int16 on cores with DSP, their C twins on the host: bytes of the reference."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from tests.ops.harness import check_kernels, usable_kernels
from tests.ops.int16_layers import CONV, DEPTHWISE, LAYERS, ROWS, conv, graph_of, samples
from tests.ops.row_harness import check_rows
from tinyc.base.numerics import Numerics
from tinyc.choose.select import select
from tinyc.ir.graph import read_only

VECTORS = "tc_conv2d_s16_mve"
ROUNDED_TWICE = ("1x1 of one tap", "dilated", "dense, three taps")  # by TensorFlow Lite, with a bias of 32 bits


@pytest.mark.quick_cases(4)
@pytest.mark.parametrize("name", LAYERS)
def test_kernels(name: str) -> None:
    layer, kernel = LAYERS[name]
    turn = list(LAYERS).index(name)
    numerics = (Numerics.OURS, Numerics.TFLM)[turn // 2 % 2]
    is_wide = turn % 2 == 0 or (layer.op == "depthwise_conv2d" and numerics is Numerics.TFLM)
    graph = graph_of(layer, "s64" if is_wide else "s32")
    vectors = [] if name in ROUNDED_TWICE else [kernel.replace("dsp", "mve")]
    assert check_kernels(graph, samples(layer), numerics) == [*vectors, kernel, "tc_conv2d_s16"]


@pytest.mark.parametrize("name", ["3x3", "depthwise, stride 2", "dense, rows"])
def test_zero_points(name: str) -> None:
    layer, kernel = LAYERS[name]
    graph = graph_of(layer, "s32", x_zero=-1234, y_zero=777)
    assert check_kernels(graph, samples(layer), Numerics.ONNX) == [kernel, "tc_conv2d_s16"]


def test_sums_that_leave_int32() -> None:
    """Random weights of 700 taps stay within int32 whatever the input; with the largest bias they do not."""
    layer = conv((1, 1, 700), (1, 1, 1))
    graph = graph_of(layer)
    assert usable_kernels(graph, graph.nodes[0], Numerics.TFLM) == [VECTORS, CONV, "tc_conv2d_s16"]
    large = replace(graph, consts={**graph.consts, "b": read_only(np.array([2**31 - 1], np.int64))})
    assert check_kernels(large, samples(layer), Numerics.TFLM) == ["tc_conv2d_s16"]


def test_the_dsp_kernel_is_chosen() -> None:
    for name in ("1x1", "depthwise", "dense"):
        layer, kernel = LAYERS[name]
        graph = graph_of(layer)
        assert select(graph, frozenset({"dsp"}), Numerics.OURS)["layer"].kernel.name == kernel
        assert select(graph, frozenset(), Numerics.OURS)["layer"].kernel.name == "tc_conv2d_s16"


def test_row_forms() -> None:
    forms = check_rows(ROWS, Numerics.OURS, all_forms=True)
    assert {CONV, DEPTHWISE, "tc_mean_rows_s16"} <= {case.function for case in forms}
