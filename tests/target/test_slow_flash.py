# SPDX-License-Identifier: Apache-2.0
"""Waits for flash: what the emulated caches find on the toy firmware, and what kernels are thought to wait."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import toy
from machines import Build

from tests.ops.harness import OneStepPlan, run_plan
from tests.ops.weighted import Layer, graph_of, samples
from tests.unit.reports import small_report
from tinyc.base.errors import TinycError
from tinyc.base.numerics import Numerics
from tinyc.board import load_board
from tinyc.board.parts import FlashTiming
from tinyc.choose.select import Choice, candidates, fastest
from tinyc.choose.slow_flash import SlowFlash, waits
from tinyc.emit.library import Info, emit_library
from tinyc.emit.lower import lower
from tinyc.kernel.kernel import Fetches
from tinyc.kernel.site import RELU, Padding
from tinyc.ops.conv2d import Conv2D
from tinyc.ops.depthwise_conv2d import DepthwiseConv2D
from tinyc.ops.fully_connected import FullyConnected
from tinyc.pipeline.proving import _with_energy
from tinyc.plan.planner import plan_graph
from tinyc.plan.row_forms import row_forms
from tinyc.reference.interpreter import run_int
from tinyc.run import OVERHEAD
from tinyc.run.flash_waits import counted_waits, flash_waits
from tinyc.run.unicorn import find_unicorn
from tinyc.toolchain.compile import Firmware, Sources, compile_firmware
from tinyc.toolchain.compilers import Toolchain, find_toolchain

INPUTS = toy.inputs(3)
ONE = Padding(1, 1, 1, 1)
POINT = Layer("conv2d", Conv2D(act=RELU), (1, 9, 8, 64), (64, 1, 1, 64), y_zero=-128)
SQUARE = Layer("conv2d", Conv2D(pad=ONE, act=RELU), (1, 8, 16, 16), (16, 3, 3, 16), y_zero=-128)
DEPTHWISE = Layer("depthwise_conv2d", DepthwiseConv2D(pad=ONE, act=RELU), (1, 25, 5, 64), (3, 3, 64), y_zero=-128)
DENSE = Layer("fully_connected", FullyConnected(act=RELU), (1, 256), (64, 256), y_zero=-128, per_channel=False)
LINE = Layer("depthwise_conv2d", DepthwiseConv2D(act=RELU), (1, 32, 1, 64), (5, 1, 64), y_zero=-128)
CASES = [
    ("tc_conv2d_s8_w16_fpu_asm", POINT),
    ("tc_conv2d_s8_rolled_asm", POINT),
    ("tc_conv2d_s8_4x2_asm", POINT),
    ("tc_conv2d_1x1_s8_dsp", POINT),
    ("tc_conv2d_3x3_s8_tiles4_inline_asm", SQUARE),
    ("tc_conv2d_3x3_s8_tiles2_asm", SQUARE),
    ("tc_conv2d_s8_rolled_asm", SQUARE),
    ("tc_depthwise_conv2d_s8_asm", DEPTHWISE),
    ("tc_depthwise_conv2d_s8_asm", LINE),
    ("tc_depthwise_conv2d_s8_asm_cut", LINE),
    ("tc_fully_connected_s8_asm", DENSE),
    ("tc_fully_connected_s8_rolled_asm", DENSE),
]


def test_rows_wait_for_flash_as_the_whole_layer_does() -> None:
    """A kernel waits for its constants in every row, and for its code: the row before was another layer's. One that
    copies its constants has no rows."""
    board = load_board("nucleo-l4r5zi")
    slow, fast = _choices(POINT, board.flash_timing), _choices(POINT, None)
    at_once = {choice.kernel.name: choice for choice in fast}
    compared = 0
    for choice in slow:
        free = at_once.get(choice.kernel.name)
        if choice.offer.copies:
            assert not list(row_forms(choice))
        elif free is not None and choice.kernel.written:
            whole = choice.cost.cycles - free.cost.cycles
            for ours, theirs in zip(row_forms(choice), row_forms(free), strict=True):
                assert ours.cost.cycles - theirs.cost.cycles > whole / 2
                compared += 1
    assert compared >= 4


def test_waits_of_the_toy(build: Build) -> None:
    board = load_board("nucleo-l4r5zi")
    target, timing = find_unicorn(board), board.flash_timing
    if target is None:
        pytest.skip("unicorn is not installed: pip install unicorn")
    assert timing is not None
    firmware = build("nucleo-l4r5zi", "gcc")
    waits = flash_waits(target, timing, firmware, INPUTS)
    assert set(waits) == {OVERHEAD, 0, 1, 2}
    assert all(cycles > 0 for cycles in waits.values())
    assert flash_waits(target, replace(timing, wait_states=0), firmware, INPUTS).keys() == waits.keys()
    assert not any(flash_waits(target, replace(timing, wait_states=0), firmware, INPUTS).values())
    without_caches = replace(timing, instruction_lines=0, data_lines=0)
    worse = flash_waits(target, without_caches, firmware, INPUTS)
    assert all(worse[step] > waits[step] for step in (0, 1, 2))
    # Everything is in large caches after the first inference.
    large = replace(timing, instruction_lines=4096, data_lines=4096)
    assert flash_waits(target, large, firmware, INPUTS) == flash_waits(target, large, firmware, INPUTS[:1])


def test_the_energy_of_the_toy(build: Build) -> None:
    """What its cycles and waits take at the board's figure, with the errors of both; none without such a figure."""
    firmware = build("nucleo-l4r5zi", "gcc")
    counted = counted_waits(firmware, INPUTS[:1])
    if counted is None:
        pytest.skip("unicorn is not installed: pip install unicorn")
    report = replace(small_report(), cycles=1_000_000)
    energy = _with_energy(report, firmware, INPUTS[:1]).energy
    assert energy is not None
    assert energy.cycles == 1_000_000 + sum(counted.values())
    assert energy.microjoules == pytest.approx(energy.cycles * 541e-6, rel=1e-3)
    assert energy.least == pytest.approx(energy.microjoules / 1.08 * 0.79, rel=1e-3)
    assert energy.most == pytest.approx(energy.microjoules / 0.92 * 1.21, rel=1e-3)
    silent = replace(firmware, board=replace(firmware.board, energy=None))
    assert _with_energy(report, silent, INPUTS[:1]).energy is None


def test_waits_of_fetches() -> None:
    timing = FlashTiming(5, 8, 32, 32, 8, prefetch=True)
    assert waits(Fetches(800), timing) == 700
    assert waits(Fetches(0, ((800, 10), (1600, 10))), timing) == (800 + 16000) * (5 - 2) // 8
    assert waits(Fetches(80, ((80, 2),)), replace(timing, instruction_lines=1, prefetch=False)) == 50 + 100


def _choices(layer: Layer, flash: FlashTiming | None, kernel: str | None = None) -> list[Choice]:
    prefer = {"layer": kernel} if kernel else None
    board = load_board("nucleo-l4r5zi")
    slow = None if flash is None else SlowFlash(flash)
    return candidates(graph_of(layer), board.isa, Numerics.TFLM, prefer, slow)["layer"]


@pytest.mark.quick_cases(2)
@pytest.mark.parametrize(("kernel", "layer"), CASES)
def test_kernels_wait_as_they_say(kernel: str, layer: Layer, tmp_path: Path) -> None:
    board = load_board("nucleo-l4r5zi")
    target, timing = find_unicorn(board), board.flash_timing
    if target is None:
        pytest.skip("unicorn is not installed: pip install unicorn")
    assert timing is not None
    try:
        compiler = find_toolchain(board, "gcc")
    except TinycError as error:
        pytest.skip(error.message)
    (plain,), (slow, *copying) = _choices(layer, None, kernel), _choices(layer, timing, kernel)
    firmware = _firmware(layer, plain, compiler, tmp_path)
    measured = flash_waits(target, timing, firmware, [[samples(layer)[0]["x"].tobytes()]])[0]
    assert slow.cost.instructions == plain.cost.instructions
    estimated = slow.cost.cycles - plain.cost.cycles
    assert measured / 1.4 < estimated < measured * 1.4
    assert bool(copying) == (kernel.startswith(("tc_conv2d_s8", "tc_conv2d_3x3")) and "quads" not in kernel)
    for choice in copying:
        _check_copy(layer, choice, plain, compiler, tmp_path / "copying")


def _check_copy(layer: Layer, choice: Choice, plain: Choice, compiler: Toolchain, folder: Path) -> None:
    """The layer with its constants in RAM gives the same bytes, executes what it says, and waits for no more."""
    board = load_board("nucleo-l4r5zi")
    target, timing = find_unicorn(board), board.flash_timing
    assert target is not None
    assert timing is not None
    folder.mkdir()
    firmware, sample = _firmware(layer, choice, compiler, folder), samples(layer)[0]
    ran = target.run(firmware, [[sample["x"].tobytes()]])
    reference = run_int(graph_of(layer), sample, Numerics.TFLM)
    assert ran.outputs[0][0] == next(iter(reference.values())).tobytes()
    assert ran.instructions[0] == pytest.approx(choice.cost.instructions, rel=0.05)
    measured = flash_waits(target, timing, firmware, [[sample["x"].tobytes()]])[0]
    copying = choice.cost.instructions - plain.cost.instructions
    assert measured < 1.2 * (choice.cost.cycles - plain.cost.cycles - 4 * copying // 3)


def _firmware(layer: Layer, choice: Choice, compiler: Toolchain, folder: Path) -> Firmware:
    graph, board, choices = graph_of(layer), load_board("nucleo-l4r5zi"), {"layer": choice}
    program = lower(graph, plan_graph(graph, choices, slide=True, work=0), Numerics.TFLM, "one")
    for file, text in emit_library(program, Info("one", "0" * 64, board.name)).items():
        (folder / file).write_text(text)
    return compile_firmware(Sources(folder, "one"), board, compiler, "speed", folder / "firmware")


@pytest.mark.parametrize("layer", [POINT, SQUARE], ids=["1x1", "3x3"])
def test_copied_constants_give_the_same_bytes_on_the_host(layer: Layer) -> None:
    """With sanitizers: in the scratch that the layer says, and no byte beside."""
    graph, inputs = graph_of(layer), samples(layer)[:2]
    timing = load_board("nucleo-l4r5zi").flash_timing
    copying = [choice for choice in _choices(layer, timing) if choice.offer.copies]
    assert len({choice.kernel.name for choice in copying}) >= 4
    reference = [run_int(graph, sample, Numerics.TFLM) for sample in inputs]
    for choice in copying[::2]:
        plan = OneStepPlan(graph, {"layer": choice.scratch_bytes})
        outputs = run_plan(graph, {"layer": choice}, plan, inputs, Numerics.TFLM)
        for (y,), want in zip(outputs, reference, strict=True):
            np.testing.assert_array_equal(y, next(iter(want.values())), err_msg=choice.kernel.name)


@pytest.mark.parametrize(
    ("layer", "fast", "slow"),
    [
        (POINT, "tc_conv2d_s8_fpu_asm", "tc_conv2d_s8_shared_asm"),
        (DENSE, "tc_fully_connected_s8_fpu_pairs_asm", "tc_fully_connected_s8_rolled_asm"),
    ],
)
def test_slow_flash_changes_the_choice(layer: Layer, fast: str, slow: str) -> None:
    timing = load_board("nucleo-l4r5zi").flash_timing
    for flash, name in ((None, fast), (timing, slow)):
        assert fastest({"layer": _choices(layer, flash)})["layer"].kernel.name == name
