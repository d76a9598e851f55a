# SPDX-License-Identifier: Apache-2.0
"""The kernels for int16 on an emulated Cortex-M4: bytes equal to the reference, instructions as promised."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from machines import target_for
from one_layer import check_on_core
from row_layers import check_rows_on_core

from tests.cli.test_cli import write_model
from tests.ops.int16_layers import LAYERS, ROWS, conv, dense, depthwise, graph_of, samples
from tests.ops.weighted import Layer
from tinyc.api import build
from tinyc.base.numerics import Numerics
from tinyc.board import load_board
from tinyc.choose.select import select
from tinyc.kernel.site import RELU, Padding
from tinyc.ops.conv2d import Conv2D
from tinyc.ops.depthwise_conv2d import DepthwiseConv2D
from tinyc.options.recipe import Recipe

ONE = Padding(1, 1, 1, 1)
LARGE = {
    "1x1": (conv((12, 5, 64), (64, 1, 1), Conv2D(act=RELU)), 0.90),
    "3x3": (conv((8, 8, 16), (16, 3, 3), Conv2D(pad=ONE, act=RELU)), 1.10),
    "3x3 of 3": (conv((8, 9, 3), (16, 3, 3), Conv2D(pad=ONE, act=RELU)), 1.70),
    "depthwise": (depthwise((9, 5, 64), (3, 3), DepthwiseConv2D(pad=ONE, act=RELU)), 3.6),
    "dense": (dense((1, 256), 64), 0.95),
}


QUICK = ("3x3 of 3, stride 2", "depthwise", "dense, three taps")


@pytest.mark.parametrize("name", [n if n in QUICK else pytest.param(n, marks=pytest.mark.slow) for n in LAYERS])
def test_equals_the_reference(name: str) -> None:
    layer, kernel = LAYERS[name]
    turn = list(LAYERS).index(name)
    numerics = (Numerics.OURS, Numerics.TFLM)[turn // 2 % 2]
    narrow = turn % 2 == 1 and not (numerics is Numerics.TFLM and layer.op == "depthwise_conv2d")  # which reads 64 bits
    check_on_core(graph_of(layer, "s32" if narrow else "s64"), samples(layer), kernel, numerics)


@pytest.mark.slow
@pytest.mark.parametrize("name", ["3x3", "depthwise, stride 2", "dense, rows"])
def test_zero_points_and_the_other_compiler(name: str) -> None:
    layer, kernel = LAYERS[name]
    check_on_core(graph_of(layer, "s32", -1234, 777), samples(layer), kernel, Numerics.ONNX, toolchain="zig")


@pytest.mark.parametrize("name", LARGE)
def test_instructions(name: str) -> None:
    """As promised, and no more per MAC than the documentation says."""
    layer, most = LARGE[name]
    graph = graph_of(layer)
    choice = select(graph, load_board("cortex-m4").isa, Numerics.OURS)["layer"]
    ran = check_on_core(graph, samples(layer)[:1], choice.kernel.name, Numerics.OURS)
    executed = ran.counts[0].steps[0]
    assert executed == pytest.approx(choice.cost.instructions, rel=0.12)
    assert executed <= most * _macs(layer)


def _macs(layer: Layer) -> int:
    y = graph_of(layer).values["y"].elements
    return y * graph_of(layer).values["w"].elements // layer.out_c


@pytest.mark.quick_cases(1)
@pytest.mark.parametrize(
    "words", [{"activations": "int16"}, {"int16_layers": ("conv",)}, {"activations": "auto", "min_sqnr": 36.0}], ids=str
)
def test_a_model(tmp_path: Path, words: dict[str, Any]) -> None:
    """int16 everywhere, at a layer, and where it is needed: the reference's bytes, and more SQNR than int8."""
    target_for("cortex-m4", None)
    model = write_model(tmp_path / "tiny.onnx")
    inputs = np.random.default_rng(3).standard_normal((24, 2, 6, 5)).astype(np.float32)
    recipe = Recipe("minmax", equalize=False, rounding="nearest", **words)
    built = build(
        model, board="cortex-m4", calibration=inputs, inputs=inputs, samples=3, out=tmp_path / "out", recipe=recipe
    )
    assert built.report.passed
    assert built.report.accuracy is not None
    assert "int16" in built.report.accuracy.integers
    assert built.report.accuracy.sqnr_db is not None
    assert built.report.accuracy.sqnr_db > 30


def test_row_by_row() -> None:
    """Row forms: everything poisoned that they may not touch."""
    for name, case, _ in check_rows_on_core(ROWS, Numerics.OURS, all_forms=True):
        assert case.graph.values["x"].dtype == "s16", name
