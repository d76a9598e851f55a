# SPDX-License-Identifier: Apache-2.0
"""Layers that make two rows per call, and others with less scratch in some calls: generated C on core and host."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.unit.networks import Network
from tinyc.board import load_board
from tinyc.options.build import Options
from tinyc.pipeline.compiling import compile_model
from tinyc.pipeline.progress import Progress
from tinyc.pipeline.proving import prove

RAM = 3_450


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """3x3 convolutions of 16 channels on 13x13 pixels, one of stride 2."""
    net = Network(4)
    net.input_shape = net.shape = (1, 4, 13, 13)
    net.conv(16)
    net.relu()
    net.conv(16)
    net.residual()
    net.relu()
    net.conv(16, stride=2)
    net.head()
    path = tmp_path_factory.mktemp("pairs") / "net.onnx"
    path.write_bytes(net.model().SerializeToString())
    return path


@pytest.mark.quick_cases(1)
@pytest.mark.parametrize(("board", "rows"), [("cortex-m4", False), ("cortex-m4", True), ("host", False)])
def test_pairs_of_rows_give_the_bytes_of_the_reference(model: Path, board: str, rows: bool) -> None:
    options = Options(board=board, prefer="time", ram=RAM, input_rows=rows, samples=2)
    built = compile_model(model, load_board(board), options, Progress())
    assert built.plan.runs_by_rows
    geometries = [form.row.call.rows for form in built.plan.forms if form.row]
    if board != "host":  # which has other kernels
        assert sum(geometry is not None and geometry.out_rows == 2 for geometry in geometries) >= 2
        assert any(form.spare is not None for form in built.plan.forms)
    report = prove(built, load_board(board), options, Progress())
    assert report.passed
    assert report.verify.mismatches == 0
    assert report.arena_bytes <= RAM
