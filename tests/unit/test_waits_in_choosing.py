# SPDX-License-Identifier: Apache-2.0
"""What kernels are taken to wait for slow flash behind a cache that holds code and constants of a layer."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

import tinyc
from tinyc.base import paths
from tinyc.base.errors import TinycError
from tinyc.board import Board, load_board
from tinyc.board.parts import FlashTiming
from tinyc.choose.compiled_code import compiled_code
from tinyc.choose.slow_flash import Waits, fetched, split_waits
from tinyc.emit.in_ram import cycles_beside_copies, with_ram_code
from tinyc.explain.estimate import estimate
from tinyc.kernel.kernel import Cost, Fetches, WrittenCode
from tinyc.ops import all_ops
from tinyc.options.build import Options, Prefer
from tinyc.pipeline.choosing import WORTH, copies_of, worth_of
from tinyc.pipeline.integers import IntegerModel, make_integers
from tinyc.pipeline.lowering import Lowered, lower_integers, lower_offers, offers_of, value_beside_copies
from tinyc.pipeline.progress import Progress

TIMING = FlashTiming(wait_states=304, word_bytes=32, line_bytes=32, instruction_lines=256, data_lines=256)
PICO = "raspberry-pi-pico2"
_ROUNDING = 1e-6  # of values, whose costs are whole cycles
KERNELS = {kernel.name: kernel for op in all_ops().values() for kernel in op.every_kernel}


@pytest.mark.parametrize(("size", "read"), [(8192, 8192), (8224, 3 * 8224)])
def test_a_stream_that_the_cache_holds_comes_once(size: int, read: int) -> None:
    assert split_waits(Fetches(3 * size, stream=(size, 3)), TIMING) == Waits(0, read * 304 // 32)


def test_a_function_is_a_loop_of_its_size_for_rows_too() -> None:
    kernel = KERNELS["tc_conv2d_s8_rv32"]
    whole = Cost(10_000, 3200, 0, code=WrittenCode("conv", 2400))
    row = Cost(1000, 0, 0)
    assert fetched(kernel, whole, whole, None) == Fetches(800, ((2400, 17),))
    assert fetched(kernel, row, whole, None).loops == ((2400, 2),)
    assert fetched(kernel, replace(whole, code=None), replace(whole, code=None), None).loops == ((40_000, 1),)


def test_code_that_is_compiled_comes_from_flash_as_well() -> None:
    kernel, compiled = KERNELS["tc_conv2d_s8_scalar"], compiled_code("esp32-c3", frozenset({"rv32m"}), "speed")
    assert fetched(kernel, Cost(10_000, 800, 0), Cost(10_000, 800, 0), None) == Fetches(800)
    with_code = fetched(kernel, Cost(10_000, 800, 0), Cost(10_000, 800, 0), compiled)
    assert with_code == Fetches(800, ((compiled.kernel(kernel.name).bytes, 1),))
    assert with_code.loops[0][0] > 100


def _without_cache(folder: Path) -> str:
    """A board file: the ESP32-C3 without its slow flash."""
    text = (paths.boards_dir() / "esp32-c3.toml").read_text()
    begin, end = text.index("[flash_timing]"), text.index("[emulator.qemu]")
    (folder / "fast.toml").write_text(text[:begin] + text[end:])
    return str(folder / "fast.toml")


def test_a_cache_of_16_kib_takes_no_slower_kernels(models_dir: Path, tmp_path: Path) -> None:
    """Loops of every kernel fit it, and weights come once whatever reads them."""
    file = models_dir / "mlperf_tiny" / "kws_int8.tflite"
    slow, fast = tinyc.estimate(file, "esp32-c3"), tinyc.estimate(file, _without_cache(tmp_path))
    assert slow.instructions <= 1.01 * fast.instructions


@pytest.mark.parametrize("prefer", ["balanced", "time"])
@pytest.mark.parametrize("model", ["kws", pytest.param("ic", marks=pytest.mark.slow)])
def test_what_is_chosen_with_its_waits_is_worth_no_less(
    models_dir: Path, tmp_path: Path, model: str, prefer: Prefer
) -> None:
    """Than what is chosen without them. Where RAM has no room for all copies, as for ic, they are chosen for each."""
    board, fast = load_board("esp32-c3"), load_board(_without_cache(tmp_path))
    options, quiet = Options("esp32-c3", prefer=prefer), Progress()
    integers = make_integers(models_dir / "mlperf_tiny" / f"{model}_int8.tflite", board, options, quiet)
    offers = offers_of(integers, board, options, quiet)
    assert offers.copies is not None
    chosen = lower_offers(offers, integers, board, options, quiet)
    other = lower_offers(offers_of(integers, fast, options, quiet), integers, fast, options, quiet)
    copies = copies_of(board, options, cycles=other.plan.cycles, arena_bytes=other.plan.arena_bytes)
    assert copies is not None
    other = replace(other, program=with_ram_code(other.program, copies.most_bytes, board, copies.price))
    values = [_value(own, board, options, offers.copies.price) for own in (chosen, other)]
    assert values[0] <= values[1] + _ROUNDING


def _value(lowered: Lowered, board: Board, options: Options, price: float) -> float:
    """What it is worth beside its copies, with what a choice counts of kernels in C, too: their code comes once, as a
    layer begins. price: cycles for each byte that is copied."""
    compiled, timing, program = compiled_code(board.core, board.isa, "speed"), board.flash_timing, lowered.program
    assert timing is not None
    assert program.in_ram is not None
    kernels = [step.choice.kernel for step in program.steps if not step.choice.kernel.written]
    code = sum(split_waits(Fetches(0, ((compiled.kernel(own.name).bytes, 1),)), timing).code for own in kernels)
    cycles = cycles_beside_copies(program, timing) + code + price * program.in_ram.size
    return worth_of(options).of(cycles, lowered.plan.flash_bytes, lowered.plan.arena_bytes)


@pytest.fixture(scope="module")
def kws(models_dir: Path) -> IntegerModel:
    options = Options(PICO)
    return make_integers(models_dir / "mlperf_tiny" / "kws_int8.tflite", load_board(PICO), options, Progress())


def _lowered(model: IntegerModel, **words: Any) -> Lowered:
    return lower_integers(model, load_board(PICO), Options(PICO, **words), Progress())


def _cycles(lowered: Lowered) -> int:
    timing = load_board(PICO).flash_timing
    assert timing is not None
    return cycles_beside_copies(lowered.program, timing)


def test_a_limit_of_time_is_that_of_the_library_with_its_copies(kws: IntegerModel) -> None:
    """What it takes is allowed, whatever its plan says of copies; less is refused."""
    least = _cycles(_lowered(kws, prefer="time", ram=16_000))
    assert _cycles(_lowered(kws, prefer="time", ram=16_000, time=str(least))) <= least
    with pytest.raises(TinycError, match="the fastest takes about") as refused:
        _lowered(kws, prefer="time", ram=16_000, time=str(9 * least // 10))
    said = refused.value.message.rsplit(" ", 1)[1].replace(",", "")
    assert _cycles(_lowered(kws, prefer="time", ram=16_000, time=said)) <= int(said)


@pytest.mark.parametrize("limit", [3_450_000, 3_400_000, 3_300_000])
def test_copies_without_room_do_not_break_a_limit_of_time(kws: IntegerModel, limit: int) -> None:
    """Kernels that were to be copied took 11.6 million cycles from flash."""
    assert _cycles(_lowered(kws, prefer="ram", ram_code=3_000, time=str(limit))) <= limit


def test_more_ram_is_never_worth_less_beside_copies(kws: IntegerModel) -> None:
    """Where the arena leaves little for them a smaller one is tried."""
    board, options = load_board(PICO), Options(PICO, prefer="time")
    values = [
        value_beside_copies(_lowered(kws, prefer="time", ram=ram), board, options, 0.0)
        for ram in (4_000, 8_000, 12_000, 16_000, 24_000)
    ]
    assert values == sorted(values, reverse=True)


@pytest.mark.parametrize("cores", [1, 2])
def test_cycles_beside_copies_are_those_of_the_estimate(kws: IntegerModel, cores: int) -> None:
    """Layers that cores share take a part of the time; a library on one core was preferred."""
    lowered = _lowered(kws, cores=cores, ram_code=3_000)
    assert lowered.program.cores == cores
    said = estimate("kws", lowered.program, load_board(PICO)).cycles
    assert said == pytest.approx(_cycles(lowered), rel=0.01)


def test_copies_to_little_ram_are_never_worse_than_none(models_dir: Path) -> None:
    """Kernels were chosen as if all were copied: with 100 bytes for that they took 6.0 million cycles, without 3.5."""
    board, quiet = load_board("nucleo-l4r5zi"), Progress()
    model = make_integers(models_dir / "mlperf_tiny" / "kws_int8.tflite", board, Options(board.name), quiet)
    timing = board.flash_timing
    assert timing is not None
    without, *copied = (
        lower_integers(model, board, Options(board.name, ram_code=size), quiet) for size in (0, 100, 2_000, 9_000)
    )
    least = without.plan.cycles  # of which all waits are a part
    for own in copied:
        values = (
            WORTH["balanced"].of(cycles, one.plan.flash_bytes, one.plan.arena_bytes)
            for cycles, one in ((cycles_beside_copies(own.program, timing), own), (least, without))
        )
        assert next(values) <= next(values) + _ROUNDING
