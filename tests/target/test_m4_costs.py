# SPDX-License-Identifier: Apache-2.0
"""What kernels in assembly promise in cycles, against the cycle model on what an emulated Cortex-M4 executed."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from machines import target_for

from tests.ops.weighted import Layer, graph_of, samples
from tinyc.base.errors import TinycError
from tinyc.base.numerics import Numerics
from tinyc.board import load_board
from tinyc.choose.select import select
from tinyc.emit.library import Info, emit_library
from tinyc.emit.lower import lower
from tinyc.explain.cycles import core_of, model_cycles
from tinyc.kernel.site import RELU, Padding, Pair
from tinyc.machine.three_stage import ThreeStage
from tinyc.ops.conv2d import Conv2D
from tinyc.ops.depthwise_conv2d import DepthwiseConv2D
from tinyc.ops.fully_connected import FullyConnected
from tinyc.plan.planner import plan_graph
from tinyc.toolchain.compile import Sources, compile_firmware
from tinyc.toolchain.compilers import find_toolchain

M4 = core_of("cortex-m4")
assert isinstance(M4, ThreeStage)
ONE = Padding(1, 1, 1, 1)
POINT = Layer("conv2d", Conv2D(act=RELU), (1, 9, 8, 32), (24, 1, 1, 32), y_zero=-128)
ONE_PIXEL = Layer("conv2d", Conv2D(act=RELU), (1, 1, 1, 128), (32, 1, 1, 128), y_zero=-128)
SQUARE = Layer("conv2d", Conv2D(pad=ONE), (1, 8, 16, 8), (8, 3, 3, 8))
HALVING = DepthwiseConv2D(Pair(2, 2), ONE, act=RELU)
DEPTHWISE = Layer("depthwise_conv2d", HALVING, (1, 20, 20, 12), (3, 3, 12), y_zero=-128)
LINE = Layer("depthwise_conv2d", DepthwiseConv2D(act=RELU), (1, 32, 1, 64), (5, 1, 64), y_zero=-128)
DENSE = Layer("fully_connected", FullyConnected(act=RELU), (1, 200), (40, 200), y_zero=-128, per_channel=False)
CASES = [
    ("tc_conv2d_s8_w16_asm", POINT),
    ("tc_conv2d_s8_w16_fpu_asm", POINT),
    ("tc_conv2d_s8_asm", SQUARE),
    ("tc_conv2d_s8_rolled_asm", SQUARE),
    ("tc_conv2d_s8_shared_asm", POINT),
    ("tc_conv2d_s8_shared_long_asm", POINT),
    ("tc_conv2d_s8_shared_long_asm", ONE_PIXEL),
    ("tc_conv2d_s8_4x2_asm", POINT),
    ("tc_conv2d_3x3_s8_tiles4_asm", SQUARE),
    ("tc_conv2d_3x3_s8_tiles4_inline_asm", SQUARE),
    ("tc_conv2d_3x3_s8_tiles2_asm", SQUARE),
    ("tc_depthwise_conv2d_s8_asm", DEPTHWISE),
    ("tc_depthwise_conv2d_s8_asm_cut", LINE),
    ("tc_depthwise_conv2d_s8_asm_cut_small", LINE),
    ("tc_depthwise_conv2d_s8_direct_asm", DEPTHWISE),
    ("tc_depthwise_conv2d_s8_shared_fpu_asm", DEPTHWISE),
    ("tc_fully_connected_s8_asm", DENSE),
    ("tc_fully_connected_s8_rolled_asm", DENSE),
    ("tc_fully_connected_s8_fpu_asm", DENSE),
    ("tc_fully_connected_s8_fpu_pairs_asm", DENSE),
    ("tc_fully_connected_s8_pairs_asm", DENSE),
]


@pytest.mark.quick_cases(3)
@pytest.mark.parametrize(("kernel", "layer"), CASES, ids=[kernel for kernel, _ in CASES])
def test_cycles_are_as_promised(kernel: str, layer: Layer, tmp_path: Path) -> None:
    board = load_board("cortex-m4")
    try:
        compiler = find_toolchain(board, "gcc")
    except TinycError as error:
        pytest.skip(error.message)
    graph = graph_of(layer)
    choices = select(graph, board.isa, Numerics.TFLM, prefer={"layer": kernel})
    program = lower(graph, plan_graph(graph, choices, slide=True, work=0), Numerics.TFLM, "one")
    for file, text in emit_library(program, Info("one", "0" * 64, board.name)).items():
        (tmp_path / file).write_text(text)
    firmware = compile_firmware(Sources(tmp_path, "one"), board, compiler, "speed", tmp_path / "firmware")
    ran = target_for("cortex-m4", None).run(firmware, [[samples(layer)[0]["x"].tobytes()]])
    modelled = model_cycles(ran, firmware.read_elf(), M4)
    assert modelled is not None
    assert choices["layer"].cost.cycles == pytest.approx(modelled.total, rel=0.04)
    without = model_cycles(ran, firmware.read_elf(), replace(M4, late_fetch=0))
    assert without is not None
    assert modelled.total - without.total <= modelled.total // 200, "code runs out of fetched instructions"
