# SPDX-License-Identifier: Apache-2.0
"""Costs that are counted: of every kernel on every kind of core, and each unit that a kernel repeats."""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "bench"))

from counted import BOARDS, ESTIMATES, counted_names  # noqa: E402

from tests.ops.one_node import one_node, tensor  # noqa: E402
from tinyc.base.numerics import Numerics  # noqa: E402
from tinyc.board.board import list_boards, load_board  # noqa: E402
from tinyc.kernel.counted import CALL, CODE, SCALE, SIZE, alone_on, counted, counted_at, counts, kind_of  # noqa: E402
from tinyc.kernel.site import Pair, Site  # noqa: E402
from tinyc.ops import all_ops  # noqa: E402
from tinyc.ops.avg_pool2d import AvgPool2D  # noqa: E402


def test_every_kernel_was_counted_on_every_kind_of_core() -> None:
    """As `python bench/counted.py KERNEL` counts a new one; one with instructions of its own where there are these."""
    assert set(counts()) == counted_names()
    features = {kernel.name: kernel.isa for op in all_ops().values() for kernel in op.every_kernel}
    plain = SCALE.keys() - {"rv32v"}  # whose compiler makes what it makes of others
    for kernel, kinds in counts().items():
        own = features[kernel]
        of_cores = {kind for kind in (SCALE if own else plain) if own <= load_board(BOARDS[kind]).isa}
        assert of_cores <= kinds.keys() <= of_cores | {alone_on(kind) for kind in of_cores}, kernel
        (units,) = {frozenset(each) - {SIZE} for each in kinds.values()}
        assert {CALL, CODE} < units, kernel


# Kernels that are C around loops of vector instructions, or around assembly that is written at each layer.
OF_VECTORS = {
    "tc_add_s16_mve",
    "tc_add_s8_mve",
    "tc_attention_f32_s8_mve",
    "tc_attention_s8_mve",
    "tc_batch_matmul_s8_mve",
    "tc_conv2d_s16_mve",
    "tc_conv2d_s8_rvv",
    "tc_conv2d_s8_rvv_planes",
    "tc_depthwise_conv2d_s16_mve",
    "tc_depthwise_conv2d_s8_rvv",
    "tc_fully_connected_s8_rvv",
    "tc_gru_loop_mve",
    "tc_gru_loop_w4_mve",
    "tc_lstm_loop_mve",
    "tc_lstm_loop_w4_mve",
    "tc_lut_s8_mve",
}
# Kernels for DSP whose cost still has constants that were measured by hand.
BY_HAND = {
    "tc_attention_f32_s8_dsp",
    "tc_attention_s8_dsp",
    "tc_batch_matmul_s8_dsp",
}


def test_no_cost_of_compiled_code_is_a_guess() -> None:
    """A new kernel in C is counted, whatever cores it is for. Two more copy runs, and build on what is counted of
    that."""
    named = {kernel.name for op in all_ops().values() for kernel in op.every_kernel if not kernel.written}
    assert len(named) > 200
    assert named - counted_names() == OF_VECTORS | BY_HAND | {"tc_signal_framer_s16", "tc_signal_stacker_s16"}


@pytest.mark.parametrize("kernel", sorted(counts()))
def test_no_kernel_is_free(kernel: str) -> None:
    for each in counts()[kernel].values():
        assert max(count for unit, count in each.items() if unit not in (CALL, CODE, SIZE)) > 0


def test_a_layer_alone_costs_what_its_sizes_in_the_code_leave() -> None:
    """Where several layers have the kernel, a compiler makes one function for all; one is likely to have it alone, that
    with the fewest outputs."""
    x = tensor("x", (1, 8, 8, 24), 0.1, 7)
    alone = one_node("avg_pool2d", AvgPool2D(Pair(2, 2), Pair(2, 2)), [x], 0.1, 7)
    (node,) = alone.nodes
    other, smaller = (
        replace(node, name="other", outputs=("z",)),
        replace(alone.values["y"], name="z", shape=(1, 2, 2, 24)),
    )
    two = replace(alone, nodes=(node, other), values={**alone.values, "z": smaller})
    units = {"element": 384, "tap": 64, "compared": 1536}
    of_one, of_both = (counted("tc_avg_pool2d_s8", Site(graph, node, Numerics.TFLM), units) for graph in (alone, two))
    table = counts()["tc_avg_pool2d_s8"]
    said = [each[CALL] + sum(each[unit] * count for unit, count in units.items()) for each in on_thumb2(table)]
    assert said[0] < said[1] / 2
    assert [of_one.instructions, of_both.instructions] == pytest.approx(said, rel=0.001)
    assert counted("tc_avg_pool2d_s8", Site(two, other, Numerics.TFLM), units).instructions == of_one.instructions
    shares = [counted_at("tc_avg_pool2d_s8", Site(graph, node, Numerics.TFLM)) for graph in (alone, two)]
    assert [share.for_size for share in shares if share] == [each.get(SIZE, 1.0) for each in on_thumb2(table)]


def on_thumb2(kinds: Mapping[str, Mapping[str, float]]) -> tuple[Mapping[str, float], Mapping[str, float]]:
    """What units take alone, and usually."""
    return kinds[alone_on("thumb2")], kinds["thumb2"]


def test_every_board_has_a_kind() -> None:
    assert {kind_of(board.isa) for board in list_boards()} == SCALE.keys() - {"rv32v"}
    assert kind_of(frozenset({"of another set"})) == "thumb2"


def test_estimates_take_assembly_on_the_scale_of_its_core() -> None:
    """What a kernel for RV32IM says is on ARMv7-M's scale; an estimate that takes it as counted needs no other term for
    that, which a small layer would get too."""
    written = {k.name for op in all_ops().values() for k in op.every_kernel if "rv32m" in k.isa and k.written}
    tables = json.loads(ESTIMATES.read_text("utf-8"))["kernels"]
    lines = [
        line
        for table in ("riscv32imc", "riscv32imc size")
        for key, line in tables[table].items()
        if key.partition(" ")[0] in written
    ]
    assert len(lines) > 5
    assert [line[0] for line in lines] == pytest.approx([1 / SCALE["rv32"]] * len(lines), rel=0.05)
