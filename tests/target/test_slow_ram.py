# SPDX-License-Identifier: Apache-2.0
"""Arenas with a part in a board's second RAM, on emulators that have it: bytes, guards, waits, what a difference is
traced to."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from tests.target.machines import target_for
from tests.unit.networks import Network
from tinyc.base.errors import TinycError
from tinyc.board import load_board
from tinyc.options.build import Options
from tinyc.pipeline.compiling import Compiled, compile_model
from tinyc.pipeline.progress import Progress
from tinyc.pipeline.proving import prove

BOARD = "cortex-m7-psram"
BUDGET = 270


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Convolutions, a residual block, average, dense layer."""
    net = Network(5)
    for layer in (net.conv, net.relu, net.depthwise, net.pointwise, net.relu, net.residual, net.strided):
        layer()
    net.head()
    path = tmp_path_factory.mktemp("slow") / "net.onnx"
    path.write_bytes(net.model().SerializeToString())
    return path


def options(**others: object) -> Options:
    return replace(Options(board=BOARD, prefer="time", ram=BUDGET, samples=2), **others)  # type: ignore[arg-type]


@pytest.fixture(scope="module")
def compiled(model: Path) -> Compiled:
    library = compile_model(model, load_board(BOARD), options(), Progress())
    assert library.plan.slow_bytes > 0
    assert library.plan.arena_bytes <= BUDGET
    return library


@pytest.mark.parametrize("emulator", ["unicorn", "qemu"])
def test_both_rams_give_the_bytes_of_the_reference(compiled: Compiled, emulator: str) -> None:
    target_for(BOARD, emulator)
    report = prove(compiled, load_board(BOARD), options(emulator=emulator), Progress())
    assert report.passed
    assert report.arena_bytes == compiled.plan.arena_bytes
    assert report.slow is not None
    assert (report.slow.memory, report.slow.bytes) == ("psram", compiled.plan.slow_bytes)
    assert report.slow.counted == (emulator == "unicorn")
    assert report.slow.waits > 0
    assert any(layer.in_slow for layer in report.layers)
    assert all(
        layer.arena[1] <= (report.slow.bytes if layer.in_slow else report.arena_bytes) for layer in report.layers
    )


@pytest.mark.parametrize(
    ("board", "emulator"),
    [("riscv32imc-psram", "qemu"), ("stm32h747i-disco", "unicorn"), ("mimxrt1060-evk", "unicorn")],
)
def test_boards_with_two_rams(model: Path, board: str, emulator: str) -> None:
    """An arena in both, and on those with a RAM for code some of that."""
    target_for(board, emulator)
    target = load_board(board)
    asked = options(board=board, emulator=emulator, ram=256, ram_code=4096 if target.code_ram else None)
    report = prove(compile_model(model, target, asked, Progress()), target, asked, Progress())
    assert report.passed
    assert report.slow is not None
    assert report.slow.bytes > 0
    assert report.slow.waits > 0
    assert report.slow.counted == (emulator == "unicorn")
    if target.code_ram is not None:
        assert report.ram_code is not None
        assert report.ram_code.code_bytes > 0


def test_waits_are_those_of_every_access(compiled: Compiled) -> None:
    """Twice the waits of the memory, twice those of the run; a RAM of twice the width has fewer."""
    target_for(BOARD, "unicorn")
    board, waits = load_board(BOARD), []
    assert board.memory is not None
    assert board.slow_ram is not None
    for reading, width in ((12, 2), (24, 2), (12, 4)):
        ram = replace(board.slow_ram, read_waits=reading, write_waits=reading, width_bytes=width)
        slower = replace(board, memory=replace(board.memory, slow=ram))
        report = prove(compiled, slower, options(emulator="unicorn", samples=1), Progress())
        assert report.slow is not None
        waits.append(report.slow.waits)
    assert waits[1] == 2 * waits[0]
    assert waits[2] < waits[0]


def test_bytes_written_beyond_the_slow_part_are_noticed(compiled: Compiled) -> None:
    target_for(BOARD, "unicorn")
    name = compiled.program.name
    source, begin = f"{name}.c", "    uint8_t *base = (uint8_t *)arena;\n"
    past = f"    volatile int32_t past = {name.upper()}_SLOW_BYTES;\n    {name}_slow[past] ^= 1;\n"
    assert begin in compiled.files[source]
    text = compiled.files[source].replace(begin, f"{begin}{past}")
    with pytest.raises(TinycError, match="the library wrote outside its arena"):
        prove(
            replace(compiled, files={**compiled.files, source: text}),
            load_board(BOARD),
            options(emulator="unicorn"),
            Progress(),
        )


def test_a_wrong_byte_is_traced_to_its_step(compiled: Compiled) -> None:
    """A step whose output lies in the slow part is damaged, on the emulator: it is the first to differ."""
    target_for(BOARD, "unicorn")
    step = next(step for step in compiled.program.steps if step.outputs[0].is_slow and step.row_step is None)
    source, after = f"{compiled.program.name}.c", f"_AFTER_STEP({step.index}, base);"
    line = next(line for line in compiled.files[source].splitlines() if after in line)
    wrong = f"    {compiled.program.name}_slow[{step.outputs[0].first}] ^= 0x55;\n{line}"
    files = {**compiled.files, source: compiled.files[source].replace(line, wrong)}
    report = prove(replace(compiled, files=files), load_board(BOARD), options(emulator="unicorn"), Progress())
    assert not report.passed
    assert report.verify.first_difference is not None
    assert report.verify.first_difference.startswith(f"step {step.index} ")
