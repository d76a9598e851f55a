# SPDX-License-Identifier: Apache-2.0
"""Streamed models on the emulated cores: bytes, guards, counts by step, and what a difference is traced to."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from tests.unit.networks import Network
from tinyc.base.errors import TinycError
from tinyc.board import load_board
from tinyc.options.build import Options
from tinyc.pipeline.building import build
from tinyc.pipeline.compiling import Compiled, compile_model
from tinyc.pipeline.progress import Progress
from tinyc.pipeline.proving import prove

PREFER = "ram"


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Convolutions that shrink the image, a residual block, average, dense layer: streaming more than halves it."""
    net = Network(5)
    for layer in (net.relu, net.depthwise, net.pointwise, net.relu, net.residual, net.strided):
        if layer == net.relu and net.shape == net.input_shape:
            net.conv(8)
        layer()
    net.head()
    path = tmp_path_factory.mktemp("streamed") / "net.onnx"
    path.write_bytes(net.model().SerializeToString())
    return path


def compiled(model: Path, options: Options) -> Compiled:
    return compile_model(model, load_board(options.board), options, Progress())


@pytest.mark.quick_cases(1)
@pytest.mark.parametrize(("board", "rows"), [("cortex-m4", False), ("cortex-m0plus", True), ("host", False)])
def test_streamed_models_give_the_bytes_of_the_reference(model: Path, board: str, rows: bool) -> None:
    options = Options(board=board, prefer=PREFER, input_rows=rows, samples=2)
    built = compiled(model, options)
    assert built.plan.runs_by_rows
    report = prove(built, load_board(board), options, Progress())
    assert report.passed
    assert report.verify.mismatches == 0
    assert report.arena_bytes == built.plan.arena_bytes
    if board != "host":
        assert report.instructions is not None
        assert report.overhead_instructions is not None
        counted = [layer.instructions for layer in report.layers]
        assert all(counted)
        assert sum(n or 0 for n in counted) + report.overhead_instructions == report.instructions


@pytest.mark.parametrize("rows", [False, True])
def test_a_wrong_row_is_traced_to_its_step(model: Path, rows: bool) -> None:
    """A row of a streamed layer is damaged in the C text: that layer is the first to differ."""
    options = Options(board="host", prefer=PREFER, input_rows=rows, samples=2)
    built = compiled(model, options)
    step = [step for step in built.program.steps if step.row_step is not None][-2]
    name = f"{built.program.name}_step_{step.index}_{step.node.op}(uint8_t *arena, int32_t r)\n{{\n"
    source = f"{built.program.name}.c"
    text = built.files[source]
    at = text.index(name) + len(name)
    end = text.index(f"{built.program.name.upper()}_AFTER_ROW({step.index}", at)
    wrong = text[:end] + "if (r == 1) y[0] = y[1] = (int8_t)(y[0] ^ 0x55);\n    " + text[end:]
    report = prove(
        replace(built, files={**built.files, source: wrong}),
        load_board("host"),
        options,
        Progress(),
    )
    assert report.verify.first_difference is not None
    assert report.verify.first_difference.startswith(f"step {step.index} ")


def test_a_budget_that_cannot_be_met_says_what_is_missing(model: Path) -> None:
    options = Options(board="cortex-m4", prefer=PREFER, ram=1, samples=1)
    built = compiled(model, options)
    with pytest.raises(TinycError) as caught:
        prove(built, load_board("cortex-m4"), options, Progress())
    assert f"takes {built.plan.arena_bytes:,} bytes, --ram is 1: {built.plan.arena_bytes - 1:,} too few" in str(
        caught.value.message
    )
    assert "--input-rows" in str(caught.value.hint)
    assert caught.value.exit_code == 1


@pytest.mark.parametrize("channels", [1, 3])
def test_incremental_library_on_the_board(tmp_path: Path, channels: int) -> None:
    """NCHW: rows are axis 2. The layers pad in time, so only the unpadded function can be streamed."""
    net = Network(2)
    net.input_shape = net.shape = (1, channels, *net.shape[2:])
    for layer in (net.pointwise, net.relu, net.depthwise, net.pointwise, net.strided, net.head):
        layer()
    model = tmp_path / "chain.onnx"
    model.write_bytes(net.model().SerializeToString())
    options = Options(board="cortex-m4", incremental=2, hop=2, stream_unpadded=True, samples=2)
    built = compiled(model, options)
    report = prove(built, load_board("cortex-m4"), options, Progress())
    assert report.passed
    assert built.program.incremental is not None
    assert report.calls == -(-built.program.incremental.window // 2)


@pytest.mark.parametrize(
    ("options", "word"),
    [
        (Options(board="cortex-m4", hop=2), "are options of --incremental"),
        (Options(board="cortex-m4", stream_unpadded=True), "are options of --incremental"),
        (Options(board="cortex-m4", incremental=1), "has its rows on axis 2, not on axis 1"),
        (Options(board="cortex-m4", incremental=2, input_rows=True), "takes rows anyway"),
        (Options(board="cortex-m4", incremental=2), "pads in time"),
        (
            Options(board="cortex-m4", incremental=2, stream_unpadded=True),
            "takes one row of 2, but a call gives it 1 new",
        ),
    ],
    ids=["hop", "unpadded", "axis", "rows", "padding", "strides"],
)
def test_options_that_do_not_fit_are_refused(model: Path, options: Options, word: str) -> None:
    with pytest.raises(TinycError) as caught:
        compiled(model, options)
    assert word in caught.value.message


@pytest.mark.quick_cases(1)
@pytest.mark.parametrize("board", ["cortex-m0plus", "riscv32imc"])
def test_an_input_larger_than_the_boards_ram_is_given_row_by_row(tmp_path: Path, board: str) -> None:
    """The test has the whole input behind the board's RAM; firmware for the board itself cannot."""
    memory = load_board(board).memory
    assert memory is not None
    net = Network(3)
    net.shape = net.input_shape = (1, 1, memory.ram_bytes // 128 + 8, 128)
    net.strided()
    net.head()
    path = tmp_path / "large.onnx"
    path.write_bytes(net.model().SerializeToString())
    told: list[str] = []
    options = Options(board, prefer=PREFER, input_rows=True, samples=1)
    report, folder = build(path, tmp_path / "large", options, Progress(on_warning=told.append))
    assert report.passed
    assert report.arena_bytes < memory.ram_bytes - memory.stack_bytes
    assert not (folder / "device").exists()
    assert any("cannot hold a whole input" in message for message in told)
