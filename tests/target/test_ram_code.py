# SPDX-License-Identifier: Apache-2.0
"""Code and constants that start-up code copies to RAM: they run there, in QEMU and unicorn, and give the same bytes."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tests.ops.weighted import Layer, graph_of, samples
from tinyc.base.errors import TinycError
from tinyc.base.numerics import Numerics
from tinyc.base.templates import render
from tinyc.board import Board, CodeRam, load_board
from tinyc.choose.select import candidates, fastest, repriced
from tinyc.choose.slow_flash import RamCode, SlowFlash
from tinyc.emit.in_ram import with_ram_code
from tinyc.emit.library import Info, emit_library
from tinyc.emit.lower import lower
from tinyc.emit.program import Program
from tinyc.kernel.site import RELU, Padding
from tinyc.ops.conv2d import Conv2D
from tinyc.options.build import Options
from tinyc.pipeline.integers import make_integers
from tinyc.pipeline.lowering import lower_integers
from tinyc.pipeline.progress import Progress
from tinyc.plan.planner import plan_graph
from tinyc.reference.interpreter import run_int
from tinyc.run import find_target
from tinyc.run.flash_waits import flash_waits
from tinyc.run.unicorn import find_unicorn
from tinyc.toolchain.compile import Firmware, Sources, compile_firmware
from tinyc.toolchain.compilers import find_toolchain
from tinyc.toolchain.elf import read_elf
from tinyc.toolchain.size import check_fits, library_size

LAYER = Layer("conv2d", Conv2D(pad=Padding(1, 1, 1, 1), act=RELU), (1, 8, 8, 8), (16, 3, 3, 8), y_zero=-128)
BUDGET = 8192


def _board(name: str) -> Board:
    """The board; a Cortex-M4 of QEMU with a RAM for code behind its flash, as parts have it below 0x2000_0000."""
    board = load_board(name)
    if name != "cortex-m4" or board.memory is None:
        return board
    return replace(board, memory=replace(board.memory, code=CodeRam("sram2", 0x0020_0000, 65_536)))


def _program(board: Board, budget: int | None) -> Program:
    graph = graph_of(LAYER)
    flash = None if board.flash_timing is None else SlowFlash(board.flash_timing)
    kernel = "tc_conv2d_3x3_s8_tiles2_asm" if flash is None else "tc_conv2d_s8_rolled_asm"
    every_choice = candidates(graph, board.isa, Numerics.TFLM, {"layer": kernel}, flash=flash)
    read_from_flash = {node: [one for one in own if not one.offer.copies] for node, own in every_choice.items()}
    choices = fastest(read_from_flash)
    program = lower(graph, plan_graph(graph, choices, slide=True, work=0), Numerics.TFLM, "one")
    if budget is None:
        return program
    return with_ram_code(program, budget, board)


def _firmware(board: Board, compiler: str, budget: int | None, folder: Path) -> Firmware:
    try:
        toolchain = find_toolchain(board, compiler)
    except TinycError as error:
        pytest.skip(error.message)
    folder.mkdir()
    for file, text in emit_library(_program(board, budget), Info("one", "0" * 64, board.name)).items():
        (folder / file).write_text(text)
    return compile_firmware(Sources(folder, "one"), board, toolchain, "speed", folder / "firmware")


def _run(firmware: Firmware, board: Board, emulator: str) -> tuple[bytes, int]:
    """Output and instructions of one inference."""
    try:
        target = find_target(board, emulator)
    except TinycError as error:
        pytest.skip(error.message)
    ran = target.run(firmware, [[samples(LAYER)[0]["x"].tobytes()]])
    return ran.outputs[0][0], ran.instructions[0]


@pytest.mark.parametrize(
    ("name", "compiler", "emulator"),
    [
        ("cortex-m4", "gcc", "qemu"),
        ("cortex-m4", "gcc", "unicorn"),
        ("cortex-m4", "zig", "qemu"),
        ("cortex-m33", "gcc", "qemu"),
        ("nucleo-l4r5zi", "gcc", "unicorn"),
        ("nucleo-f746zg", "gcc", "unicorn"),
    ],
)
def test_code_runs_from_ram(name: str, compiler: str, emulator: str, tmp_path: Path) -> None:
    board = _board(name)
    assert board.memory is not None
    firmware = _firmware(board, compiler, BUDGET, tmp_path / "ram")
    output, executed = _run(firmware, board, emulator)
    assert output == next(iter(run_int(graph_of(LAYER), samples(LAYER)[0], Numerics.TFLM).values())).tobytes()
    code = board.memory.code or CodeRam("RAM", board.memory.ram_origin, board.memory.ram_bytes)
    elf = firmware.read_elf()
    names = [symbol for symbol in elf.symbols if symbol.is_function and "_asm_" in symbol.name and symbol.size > 64]
    assert names
    assert all(code.origin <= symbol.address < code.origin + code.bytes for symbol in names)
    stream = next(symbol for symbol in elf.symbols if symbol.name.endswith("conv2d_stream"))
    assert board.memory.ram_origin <= stream.address < board.memory.ram_origin + board.memory.ram_bytes
    usual = _firmware(board, compiler, None, tmp_path / "flash")
    assert _run(usual, board, emulator)[0] == output
    assert abs(_run(usual, board, emulator)[1] - executed) < 100  # veneers
    size = library_size(firmware.library_object, firmware.toolchain, board, tmp_path / "ram" / "firmware")
    assert 0 < size.ram_code_bytes < size.code_bytes
    assert 0 < size.ram_bytes <= BUDGET


def test_qemu_and_unicorn_count_the_same(tmp_path: Path) -> None:
    board = _board("cortex-m4")
    firmware = _firmware(board, "gcc", BUDGET, tmp_path / "ram")
    assert _run(firmware, board, "qemu") == _run(firmware, board, "unicorn")


def test_code_in_ram_does_not_wait(tmp_path: Path) -> None:
    board = load_board("nucleo-l4r5zi")
    target, timing = find_unicorn(board), board.flash_timing
    if target is None:
        pytest.skip("unicorn is not installed: pip install unicorn")
    assert timing is not None
    inputs = [[samples(LAYER)[0]["x"].tobytes()]]
    usual, moved = (
        sum(flash_waits(target, timing, _firmware(board, "gcc", budget, tmp_path / str(budget)), inputs).values())
        for budget in (None, BUDGET)
    )
    assert moved < usual / 4


def test_budgets_hold() -> None:
    board = _board("cortex-m4")
    taken = [_program(board, budget).in_ram for budget in (0, 1024, 2048, BUDGET)]
    counts = [len(in_ram.functions) + len(in_ram.constants) for in_ram in taken if in_ram is not None]
    assert counts[0] == 0
    assert counts[-1] == max(counts) >= 3
    stock = load_board("cortex-m4")
    assert not stock.runs_code_from_ram
    code_in_ram = _program(stock, BUDGET).in_ram
    assert code_in_ram is not None
    assert not code_in_ram.functions
    assert code_in_ram.constants


def test_kernels_are_chosen_with_ram_in_mind() -> None:
    """The dearer a byte of RAM is, the fewer are taken; at no price those that are fastest without waits win."""
    board = load_board("nucleo-l4r5zi")
    assert board.flash_timing is not None
    choices = candidates(graph_of(LAYER), board.isa, Numerics.TFLM, flash=SlowFlash(board.flash_timing))
    best = [
        fastest(repriced(choices, SlowFlash(board.flash_timing, RamCode(price))))["layer"] for price in (0.0, 4.0, 64.0)
    ]
    bytes_taken = [choice.cost.ram_code + choice.cost.ram_consts for choice in best]
    assert bytes_taken == sorted(bytes_taken, reverse=True)
    assert bytes_taken[0] > 0
    free = fastest(candidates(graph_of(LAYER), board.isa, Numerics.TFLM))["layer"]
    assert best[0].kernel.name == free.kernel.name


def test_functions_take_no_more_than_the_ram_for_code() -> None:
    board = load_board("nucleo-l4r5zi")
    assert board.memory is not None
    assert board.memory.code is not None
    small = replace(board, memory=replace(board.memory, code=replace(board.memory.code, bytes=64)))
    much, little = (with_ram_code(_program(own, None), BUDGET, own).in_ram for own in (board, small))
    assert much is not None
    assert little is not None
    assert much.functions
    assert not little.functions
    assert little.constants == much.constants


def test_by_default_a_board_with_slow_flash_has_in_ram_what_is_worth_it(models_dir: Path) -> None:
    """Its RAM is there to be used: the less, the dearer RAM is; none where flash is fast, or with --ram-code 0."""
    file = models_dir / "mlperf_tiny" / "ad_int8.tflite"

    def copied(board: str, **words: Any) -> int | None:
        options = Options(board, **words)
        integers = make_integers(file, load_board(board), options, Progress())
        program = lower_integers(integers, load_board(board), options, Progress()).program
        if program.in_ram is None:
            return None
        memory = load_board(board).memory
        assert memory is not None
        sizes = {symbol.name: symbol.const.data.nbytes for symbol in program.symbols}
        taken = sum(sizes[name] for name in program.in_ram.constants)
        assert taken + program.arena_bytes + memory.stack_bytes <= memory.ram_beside(bool(program.in_ram.functions))
        return taken

    default = copied("nucleo-l4r5zi") or 0
    assert default > 100_000
    assert (copied("nucleo-l4r5zi", prefer="ram") or 0) < default
    within = copied("nucleo-l4r5zi", ram=16_384)
    assert within is not None
    assert 0 < within <= 16_384
    assert copied("nucleo-l4r5zi", ram_code=0) is None
    assert copied("cortex-m4") is None


def test_what_is_copied_has_to_fit(tmp_path: Path) -> None:
    board = _board("nucleo-f746zg")
    assert board.memory is not None
    firmware = _firmware(board, "gcc", BUDGET, tmp_path / "ram")
    size = library_size(firmware.library_object, firmware.toolchain, board, tmp_path)
    small = replace(board, memory=replace(board.memory, code=CodeRam("itcm", 0, 1024)))
    check_fits(board, size, 1024)
    with pytest.raises(TinycError, match="bytes of itcm"):
        check_fits(small, size, 1024)
    with pytest.raises(TinycError, match="copied from flash"):
        check_fits(board, size, board.memory.ram_bytes - 1024)


@pytest.mark.parametrize("board_name", ["cortex-m33", "nucleo-l476rg"])
@pytest.mark.parametrize("data_bytes", [0, 4, 8, 12])
def test_start_up_code_copies_from_where_code_is_loaded(board_name: str, data_bytes: int, tmp_path: Path) -> None:
    """Whatever lies before it in RAM: after 12 bytes of data code begins 4 bytes later there, and not in flash."""
    board = load_board(board_name)
    try:
        toolchain = find_toolchain(board, "gcc")
    except TinycError as error:
        pytest.skip(error.message)
    script, source, elf = tmp_path / "firmware.ld", tmp_path / "code.S", tmp_path / "code.elf"
    values = {"board": board.name, "memory": board.memory, "guard_bytes": 64, "ram_code": True}
    script.write_text(render("firmware/firmware.ld.j2", values))
    source.write_text(
        f'.section .data\n.space {data_bytes}, 1\n.section .tc_ramfunc, "ax"\n.global code\ncode: .word 0x12345678\n'
        '.section .vectors, "a"\n.word code, tc_code_load\n.text\n.global Reset_Handler\nReset_Handler: .word 0\n'
    )
    toolchain.run(["-nostdlib", "-T", script, source, "-o", elf], "linking code")
    linked = read_elf(elf)
    code = linked.symbol("code").address
    assert code == linked.symbol("tc_code_start").address
    (segment,) = (each for each in linked.segments if each.data and code in range(each.address, each.address + 8))
    loaded_at = segment.load + code - segment.address
    vectors = next(each for each in linked.segments if each.address == board.memory.flash_origin)  # type: ignore[union-attr]
    assert int.from_bytes(vectors.data[4:8], "little") == loaded_at
