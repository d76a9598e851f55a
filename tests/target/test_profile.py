# SPDX-License-Identifier: Apache-2.0
"""Modelled cycles of firmware that ran, the profile made of them, and the check of linked instructions."""

from __future__ import annotations

import dataclasses
from collections import Counter

import pytest
import toy
from machines import Build, target_for
from toy import Variant

from tinyc.base.errors import TinycError
from tinyc.board import load_board
from tinyc.explain.cycles import ModelledCycles, core_of, model_cycles
from tinyc.explain.cycles.profile import LayerFacts, function_costs, hot_blocks, layer_costs, source_costs
from tinyc.run import OVERHEAD, RunResult
from tinyc.toolchain.compile import Firmware
from tinyc.toolchain.disassembly import disassemble
from tinyc.toolchain.legality import check_legal

INPUTS = toy.inputs(3)
BOARDS = ("cortex-m0plus", "cortex-m3", "cortex-m4", "cortex-m7", "cortex-m33")


def run(firmware: Firmware, emulator: str | None = None) -> RunResult:
    return target_for(firmware.board.name, emulator).run(firmware, INPUTS)


def modelled(firmware: Firmware, emulator: str | None = None) -> ModelledCycles:
    modelled_cycles = model_cycles(run(firmware, emulator), firmware.read_elf(), core_of(firmware.board.core))
    assert modelled_cycles is not None
    return modelled_cycles


@pytest.mark.quick_cases(2)
@pytest.mark.parametrize("compiler", ["gcc", "zig"])
@pytest.mark.parametrize("board", BOARDS)
def test_both_emulators_give_the_same_cycles(build: Build, board: str, compiler: str) -> None:
    firmware = build(board, compiler)
    qemu, unicorn = (modelled(firmware, emulator) for emulator in ("qemu", "unicorn"))
    assert qemu == unicorn
    assert qemu.inferences == len(INPUTS)
    assert 0 < qemu.total < 100_000
    assert abs(sum(qemu.of_step(step) for step in (OVERHEAD, 0, 1, 2)) - qemu.total) <= 2  # rounding


@pytest.mark.quick_cases(3)
@pytest.mark.parametrize("board", [*BOARDS, "cortex-m55", "riscv32imc"])
def test_every_instruction_is_in_the_lines_as_often_as_it_was_executed(build: Build, board: str) -> None:
    firmware = build(board, "gcc")
    ran = run(firmware)
    modelled_cycles = model_cycles(ran, firmware.read_elf(), core_of(board))
    assert modelled_cycles is not None
    for step in (OVERHEAD, 0, 1, 2):
        counted = sum(c.overhead if step == OVERHEAD else c.steps[step] for c in ran.counts)
        assert sum(line.executions for line in modelled_cycles.lines if line.step == step) == counted


@pytest.mark.quick_cases(2)
@pytest.mark.parametrize(
    ("board", "cycles"),
    [("cortex-m4", 4), ("cortex-m3", 4), ("cortex-m33", 3), ("cortex-m0plus", 3), ("cortex-m7", 1)],
)
def test_one_more_turn_of_a_loop(build: Build, board: str, cycles: int) -> None:
    """subs 1, bne 1, and 1 for the pipeline, which on the M3 and M4 waits another for the flags; the M33 and the M7 run
    both at once, but the M33 takes 2 for its pipeline."""
    short, long = (modelled(build(board, "gcc", v)) for v in (Variant.COUNT_100, Variant.COUNT_101))
    assert long.of_step(1) - short.of_step(1) == cycles
    assert long.of_step(0) == short.of_step(0)


def test_a_hand_counted_piece_inside_firmware(build: Build) -> None:
    """601 instructions of one cycle in a row, 600 of them long. One half of these is not word aligned: its third is
    fetched a cycle late, and nothing else is added."""
    firmware = build("cortex-m4", "gcc", Variant.PAGES)
    lines = [line for line in modelled(firmware).lines if line.step == 1]
    adds = [i for i, line in enumerate(lines) if line.instruction.mnemonic in ("add", "nop")]
    longest = max(_runs(adds), key=len)
    assert len(longest) >= 601
    cycles = [lines[i].cycles for i in longest[-601:]]
    (late,) = [at for at, each in enumerate(cycles) if each == 2 * len(INPUTS)]
    assert late in (2, 303)
    assert sum(cycles) == 602 * len(INPUTS)


def test_code_that_was_written_as_data(build: Build) -> None:
    """adds, then adds and add.w as half-words, then adds."""
    lines = [line for line in modelled(build("cortex-m4", "gcc", Variant.AS_DATA)).lines if line.step == 1]
    adds = [
        str(line.instruction) for line in lines if str(line.instruction).startswith(("adds r2, #1", "add r2, r2, #1"))
    ]
    assert adds == ["adds r2, #1", "adds r2, #1", "add r2, r2, #1", "adds r2, #1"]


def _runs(indices: list[int]) -> list[list[int]]:
    runs: list[list[int]] = []
    for index in indices:
        if runs and runs[-1][-1] == index - 1:
            runs[-1].append(index)
        else:
            runs.append([index])
    return runs


def test_a_core_without_a_model_has_instructions_only(build: Build) -> None:
    firmware = build("cortex-m55", "gcc")
    modelled_cycles = model_cycles(run(firmware), firmware.read_elf(), None)
    assert modelled_cycles is not None
    assert modelled_cycles.core is None
    assert modelled_cycles.total == 0
    assert sum(line.executions for line in modelled_cycles.lines) > 0


def test_a_machine_that_does_not_count_gives_nothing(build: Build) -> None:
    ran = run(build("cortex-m4", "gcc", dump_steps=True))
    assert model_cycles(ran, build("cortex-m4", "gcc").read_elf(), core_of("cortex-m4")) is None


# --- the profile ---

LAYERS = [LayerFacts(step, f"layer{step}", "op", "kernel", 10 * step) for step in range(3)]


def test_layers_and_functions_share_the_same_total(build: Build) -> None:
    firmware = build("cortex-m0plus", "gcc")
    ran = run(firmware)
    elf = firmware.read_elf()
    modelled_cycles = dataclasses.replace(modelled(firmware), inferences=1)  # sums, so that nothing is rounded
    layers = layer_costs(modelled_cycles, elf, ran.jumps, LAYERS)
    assert [layer.step for layer in layers] == [0, 1, 2, OVERHEAD]
    assert sum(layer.cost.cycles or 0 for layer in layers) == modelled_cycles.total
    by_function: Counter[str] = Counter()
    for layer in layers:
        assert sum(f.cost.instructions for f in layer.functions) == layer.cost.instructions
        for function in layer.functions:
            by_function[function.name] += function.cost.cycles or 0
    assert {f.name: f.cost.cycles for f in function_costs(modelled_cycles, elf)} == dict(by_function)


def test_functions_know_who_called_them(build: Build) -> None:
    firmware = build("cortex-m4", "gcc")
    layers = layer_costs(modelled(firmware), firmware.read_elf(), run(firmware).jumps, LAYERS)
    callers = {f.name: f.callers for f in layers[1].functions}
    assert callers == {"toy_step_1": (), "toy_requantize": ("toy_step_1",)}


@pytest.mark.parametrize("compiler", ["gcc", "zig"])
def test_source_lines(build: Build, compiler: str) -> None:
    """The dearest line of the toy is in its matrix product."""
    firmware = build("cortex-m4", compiler)
    sources = firmware.elf.parent / "library"
    lines = source_costs(modelled(firmware), firmware.elf, sources, 3)
    assert [s.file for s in lines] == ["toy.c"] * 3
    text = (sources / "toy.c").read_text().splitlines()
    assert all(s.text == text[s.line - 1].strip() for s in lines)
    assert any("acc" in s.text for s in lines)
    assert [s.cost.weight for s in lines] == sorted((s.cost.weight for s in lines), reverse=True)


def test_hot_code(build: Build) -> None:
    firmware = build("cortex-m4", "gcc", Variant.COUNT_100)
    modelled_cycles = modelled(firmware)
    blocks = hot_blocks(modelled_cycles, firmware.read_elf(), 100)
    weights = [block.cost.weight for block in blocks]
    assert weights == sorted(weights, reverse=True)
    (block,) = (block for block in blocks if block.executions == 100)
    assert (block.function, block.step) == ("toy_step_1", 1)
    assert [line.text.split()[0] for line in block.lines] == ["subs", "bne"]
    assert block.cost.cycles == 2 * 100 + 2 * 99


# --- only instructions that the core has ---


@pytest.mark.quick_cases(3)
@pytest.mark.parametrize("compiler", ["gcc", "zig"])
@pytest.mark.parametrize(
    ("board", "variant", "said"),
    [
        ("cortex-m3", Variant.SMLAD, r"`smlad r3, r1, r2, r0` in toy_step_1\+0x\w+ needs the DSP extension"),
        ("cortex-m0plus", Variant.CBZ, r"`cbz r0, #0x\w+` in toy_step_1\+0x\w+ needs Thumb-2 of Armv7-M"),
        ("cortex-m33", Variant.DIV64, r"`vdiv\.f64 d0, d0, d1` in toy_step_1\+0x\w+ needs a double-precision"),
    ],
)
def test_an_instruction_that_the_core_has_not(
    build: Build, board: str, compiler: str, variant: Variant, said: str
) -> None:
    with pytest.raises(TinycError, match=said):
        build(board, compiler, variant)


@pytest.mark.parametrize(("board", "variant"), [("cortex-m4", Variant.SMLAD), ("cortex-m7", Variant.DIV64)])
def test_a_core_that_has_it(build: Build, board: str, variant: Variant) -> None:
    build(board, "gcc", variant)


def test_what_an_option_of_the_core_leaves_out(build: Build) -> None:
    """The same firmware on a Cortex-M4 without FPU: the harness saves no FPU registers, the toy uses none."""
    board = load_board("cortex-m4")
    elf = build("cortex-m4", "gcc", Variant.SMLAD).read_elf()
    check_legal(elf, dataclasses.replace(board, isa=frozenset({"thumb2", "dsp"})))
    with pytest.raises(TinycError, match="DSP"):
        check_legal(elf, dataclasses.replace(board, isa=frozenset({"thumb2"})))


@pytest.mark.quick_cases(5)
@pytest.mark.parametrize("compiler", ["gcc", "zig"])
@pytest.mark.parametrize("board", [*BOARDS, "cortex-m55", "riscv32imc"])
def test_disassembly_covers_every_function(build: Build, board: str, compiler: str) -> None:
    elf = build(board, compiler).read_elf()
    listing = disassemble(elf)
    functions = [s for s in elf.symbols if s.is_function and s.size > 0]
    assert len(functions) > 5
    assert all(function.address in listing for function in functions)
    if board != "cortex-m55":
        assert all(instruction.mnemonic for instruction in listing.values())
