# SPDX-License-Identifier: Apache-2.0
"""Every board file that ships is proved: the self-test on each of its emulators, and the keyword spotter of examples/
with the board's own memories, its firmware included."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from tinyc.base import paths
from tinyc.base.errors import TinycError
from tinyc.board import Board, list_boards, load_board
from tinyc.options.build import Options
from tinyc.pipeline.building import build
from tinyc.pipeline.progress import Progress
from tinyc.pipeline.selftest import check_board
from tinyc.toolchain.compilers import find_toolchain
from tinyc.toolchain.elf import read_elf

sys.path.append(str(Path(__file__).resolve().parents[2] / "bench"))

KWS = Path(__file__).resolve().parents[2] / "examples" / "kws"
NAMES = sorted(file.stem for file in paths.boards_dir().glob("*.toml"))
TOO_SMALL = {"coral-npu"}  # 8 KiB for code and constants
FAMILIES = ("raspberry-pi-pico2", "nucleo-u575zi-q", "seeed-xiao-samd21", "coral-npu-highmem", "ek-ra8d1", "teensy-4.1")

pytestmark = pytest.mark.usefixtures("quantized_once")


def able(name: str) -> Board:
    board = load_board(name)
    try:
        find_toolchain(board)
    except TinycError as error:
        pytest.skip(error.message)
    return board


@pytest.mark.parametrize("name", [n if n in FAMILIES else pytest.param(n, marks=pytest.mark.slow) for n in NAMES])
def test_the_self_test_passes(name: str) -> None:
    checks = check_board(able(name))
    assert checks
    assert [check.problem for check in checks] == [None] * len(checks)


@pytest.mark.parametrize(
    "name", [pytest.param(n, marks=() if n in FAMILIES[::2] else pytest.mark.slow) for n in NAMES if n not in TOO_SMALL]
)
def test_a_keyword_spotter_runs_in_its_memories(name: str, tmp_path: Path) -> None:
    """Library and firmware, every byte as the reference; the firmware for the board lies in the board's flash."""
    board = able(name)
    options = Options(name, inputs=KWS / "kws.test.npz", samples=2)
    report, folder = build(KWS / "kws.onnx", tmp_path / "kws", options, Progress())
    assert report.passed
    assert report.verify.inputs == 2
    if board.memory is None or board.uart is None:
        return
    flash = range(board.memory.flash_origin, board.memory.flash_origin + board.memory.flash_bytes + 1)
    for segment in read_elf(folder / "device" / "kws.elf").segments:
        if segment.data:
            assert segment.load in flash
            assert segment.load + len(segment.data) in flash


def test_what_is_too_small_says_so(tmp_path: Path) -> None:
    able("coral-npu")
    with pytest.raises(TinycError, match="its flash is too small by"):
        build(KWS / "kws.onnx", tmp_path / "kws", Options("coral-npu", samples=1), Progress())


def test_the_table_of_the_page_is_that_of_the_files() -> None:
    import boards as table  # noqa: PLC0415  bench/boards.py

    assert table.proof_table(list_boards()) in table.PAGE.read_text(encoding="utf-8"), "python bench/boards.py"


def test_every_board_has_modelled_times_and_a_place_among_the_families() -> None:
    import boards as table  # noqa: PLC0415  bench/boards.py

    page = table.PAGE.read_text(encoding="utf-8")
    families = page[page.index("## Families") :]
    assert set(table.times_rows()) == {board.name for board in list_boards() if not board.is_host}
    for board in list_boards():
        family = any(name in families for name in (f"`{board.name}`", f"`{board.name.split('-')[0]}-...`"))
        assert board.flashing is None or family or board.name.startswith("stm32"), board.name


def test_published_runs_stand_beside_the_modelled_times_of_the_page() -> None:
    import boards as table  # noqa: PLC0415  bench/boards.py

    assert table.runs_table(table.times_rows()) in table.PAGE.read_text(encoding="utf-8"), "python bench/boards.py"


def test_every_board_has_an_emulator() -> None:
    for board in list_boards():
        assert board.is_host or board.qemu is not None or board.unicorn is not None, board.name
