# SPDX-License-Identifier: Apache-2.0
"""Functions of pixel pairs have no code for a last odd pixel where no layer has one: a library on an emulated core."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.unit.networks import Network
from tinyc.board import load_board
from tinyc.options.build import Options
from tinyc.pipeline.compiling import compile_model
from tinyc.pipeline.progress import Progress
from tinyc.pipeline.proving import prove

LAST = "a last odd pixel"  # in a comment of the assembly


@pytest.mark.quick_cases(1)
@pytest.mark.parametrize("has_odd", [True, False])
def test_layers_with_weights_of_one_shape_have_what_the_odd_ones_need(has_odd: bool, tmp_path: Path) -> None:
    """1x1 weights of 12 channels on 6x6 pixels, then on 5x5 or again on 6x6."""
    net = Network(7)
    net.input_shape = net.shape = (1, 12, 6, 6)
    net.conv(12, k=1)
    net.relu()
    if has_odd:
        net.max_pool()
    net.conv(12, k=1)
    net.head()
    path = tmp_path / "net.onnx"
    path.write_bytes(net.model().SerializeToString())
    options = Options(board="cortex-m4", prefer="time", samples=2)
    built = compile_model(path, load_board("cortex-m4"), options, Progress())
    assert any(LAST in text for text in built.files.values()) == has_odd
    report = prove(built, load_board("cortex-m4"), options, Progress())
    assert report.passed
    assert report.verify.mismatches == 0
