# SPDX-License-Identifier: Apache-2.0
"""RenodeTarget: the firmware protocol through renode-test. That is played by a program that reads tinyc's files
strictly and runs the firmware on unicorn (fake_renode.py): the same results as from QEMU, to the instruction."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import cache
from pathlib import Path

import fake_renode
import numpy as np
import onnx
import pytest
import toy
from machines import target_for
from onnx import TensorProto, helper, numpy_helper

from tinyc.base.errors import TinycError
from tinyc.board import load_board
from tinyc.board.instruction_set import INSTRUCTION_SETS
from tinyc.options.build import Options
from tinyc.options.recipe import Recipe
from tinyc.pipeline.building import verify_model
from tinyc.pipeline.profiling import profile_model
from tinyc.pipeline.progress import Progress
from tinyc.run import RunError, find_target, firmware_board, renode_target
from tinyc.run.pc_trace import count_addresses, read_addresses
from tinyc.run.trace import TracePlan, executions_by_address
from tinyc.toolchain.compile import Checks, Firmware, Sources, compile_firmware
from tinyc.toolchain.compilers import find_toolchain
from tinyc.toolchain.elf import Elf, Section, Segment

INPUTS = toy.inputs(4)


Make = Callable[..., Firmware]


@pytest.fixture(scope="module")
def make(tmp_path_factory: pytest.TempPathFactory) -> Make:
    """make(board, variant, emulator, dump_steps) -> Firmware; each once."""

    @cache
    def make_one(
        board_name: str,
        variant: toy.Variant = toy.Variant.NONE,
        emulator: str | None = "renode",
        dump_steps: bool = False,
    ) -> Firmware:
        board = firmware_board(load_board(board_name), emulator)
        try:
            toolchain = find_toolchain(board, "gcc")
        except TinycError as error:
            pytest.skip(error.message)
        folder = tmp_path_factory.mktemp("renode")
        library = toy.write_library(folder / "library", variant)
        return compile_firmware(Sources(library, "toy"), board, toolchain, "balanced", folder, Checks(dump_steps))

    return make_one


@pytest.fixture
def renode(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """renode-test on PATH; a file that has a line for each run of it."""
    return fake_renode.install(tmp_path, monkeypatch)


@pytest.mark.quick_cases(1)
@pytest.mark.parametrize(
    ("board_name", "core"),
    [
        ("cortex-m4", "cortex-m4"),
        ("cortex-m0plus", "cortex-m0+"),
        ("riscv32imc", "rv32imc_zicsr_zifencei"),
        pytest.param("cortex-m33", "cortex-m33", marks=pytest.mark.slow),
    ],
)
def test_the_same_as_qemu(make: Make, renode: Path, board_name: str, core: str) -> None:
    other = target_for(board_name, None).run(make(board_name, emulator=None), INPUTS)
    firmware = make(board_name)
    ran = find_target(load_board(board_name), "renode").run(firmware, INPUTS)
    assert ran.machine == f"Renode {core}"
    assert ran.outputs == other.outputs == tuple(toy.reference(tensors).outputs for tensors in INPUTS)
    assert ran.stack_bytes == other.stack_bytes
    assert not ran.damaged_guards
    assert ran.counts == other.counts[:1]


def test_addresses_count_as_blocks_do(make: Make, renode: Path) -> None:
    """The same firmware's every instruction and jump; addresses differ between firmwares, so steps and totals do it."""
    firmware, plain = make("cortex-m4"), make("cortex-m4", emulator=None)
    one = INPUTS[:1]
    ran = find_target(load_board("cortex-m4"), "renode").run(firmware, one)
    other = target_for("cortex-m4", None).run(plain, one)
    ours, theirs = firmware.read_elf(), plain.read_elf()

    def place(elf, address):
        function = elf.function_at(address)
        return function.name, address - function.address

    by_place = {place(ours, a): n for a, n in executions_by_address(ran.blocks, ours).items()}
    by_place_there = {place(theirs, a): n for a, n in executions_by_address(other.blocks, theirs).items()}
    assert by_place == by_place_there
    jumps = sorted((j.step, place(ours, j.source), place(ours, j.target), j.executions) for j in ran.jumps)
    assert jumps == sorted(
        (j.step, place(theirs, j.source), place(theirs, j.target), j.executions) for j in other.jumps
    )


def test_steps_are_dumped(make: Make, renode: Path) -> None:
    ran = find_target(load_board("cortex-m4"), "renode").run(make("cortex-m4", dump_steps=True), INPUTS)
    assert [dict(steps) for steps in ran.steps] == [toy.reference(tensors).steps for tensors in INPUTS]
    assert ran.counts == ()


@pytest.mark.parametrize("variant", [toy.Variant.BELOW, pytest.param(toy.Variant.ABOVE, marks=pytest.mark.slow)])
def test_damaged_guards(make: Make, renode: Path, variant: toy.Variant) -> None:
    ran = find_target(load_board("cortex-m4"), "renode").run(make("cortex-m4", variant), INPUTS[:1])
    assert ran.damaged_guards == (f"inference 0: bytes {variant.name.lower()} the arena",)


@pytest.mark.quick_cases(2)
@pytest.mark.parametrize(
    ("board_name", "variant", "message"),
    [
        ("cortex-m4", toy.Variant.UNDEFINED, r"faulted toy_step_1\+0x\w+: hard fault \(inference 0\)"),
        ("riscv32imc", toy.Variant.UNDEFINED, r"faulted toy_step_1\+0x\w+: breakpoint \(inference 0\)"),
        ("cortex-m4", toy.Variant.UNMAPPED, "where there is no memory"),
        (
            "cortex-m4",
            toy.Variant.ENDLESS,
            r"inference 0 did not end within 2,000,000,000 instructions: it was toy_step_1\+0x",
        ),
    ],
)
def test_what_goes_wrong_in_the_firmware(
    make: Make, renode: Path, board_name: str, variant: toy.Variant, message: str
) -> None:
    with pytest.raises(RunError, match=message):
        find_target(load_board(board_name), "renode").run(make(board_name, variant), INPUTS)


@pytest.mark.parametrize(
    ("mode", "message"),
    [
        ("crash", r"renode-test ended with status 134 in inference 0\n  Unhandled exception: out of memory"),
        ("silent", "the firmware stopped after 0 of 4 inferences"),
        ("hang", "gave no answer for 1 s"),
    ],
)
def test_what_goes_wrong_in_renode(
    make: Make, renode: Path, monkeypatch: pytest.MonkeyPatch, mode: str, message: str
) -> None:
    """It is noticed before a second session begins."""
    firmware = make("cortex-m4")
    monkeypatch.setenv("TINYC_FAKE_RENODE", mode)
    if mode == "hang":
        monkeypatch.setattr(renode_target, "STALL_SECONDS", 1.0)
    with pytest.raises(RunError, match=message):
        find_target(load_board("cortex-m4"), "renode").run(firmware, INPUTS)
    assert len(renode.read_text().splitlines()) == 1


def test_without_renode(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(TinycError, match="renode is not installed") as caught:
        find_target(load_board("cortex-m4"), "renode")
    assert "renode-test" in caught.value.hint
    with pytest.raises(TinycError, match=r"cortex-m55 does not run in Renode: .* LSRL") as caught:
        find_target(load_board("cortex-m55"), "renode")
    assert "--emulator qemu" in caught.value.hint


@pytest.mark.parametrize("profiled", [False, pytest.param(True, marks=pytest.mark.slow)])
def test_the_same_report_and_profile_as_on_unicorn(tmp_path: Path, renode: Path, profiled: bool) -> None:
    """But for the machine's name and the command's: every layer's instructions, cycles and waits, and the energy."""
    rng = np.random.default_rng(0)
    model = tmp_path / "dense.onnx"
    constants = {"w": (5, 70), "b": (5,)}
    graph = helper.make_graph(
        [helper.make_node("Gemm", ["x", "w", "b"], ["y"], transB=1)],
        "dense",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, (1, 70))],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, (1, 5))],
        [numpy_helper.from_array(rng.normal(0, 1, s).astype(np.float32), n) for n, s in constants.items()],
    )
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)], ir_version=8), model)
    np.savez(tmp_path / "dense.calib.npz", x=rng.normal(0, 1, (4, 70)).astype(np.float32))
    quick = Recipe(method="minmax", equalize=False, rounding="nearest")
    reports = []
    for emulator in ("renode", "unicorn"):
        options = Options("nucleo-l4r5zi", emulator=emulator, samples=1, recipe=quick)
        if profiled:
            profile = profile_model(model, options, Progress(), False, 5)
            assert profile.microjoules is not None
            reports.append(replace(profile, machine=""))
        else:
            report = verify_model(model, options, Progress())
            assert report.passed
            assert report.machine.lower().startswith(emulator)
            assert report.energy is not None
            reports.append(replace(report, machine="", arguments=()))
    assert reports[0] == reports[1]


# --- traces ---


@pytest.mark.parametrize(
    ("board_name", "mode"),
    [
        ("cortex-m0plus", "blind"),
        ("riscv32imc", "gaps"),
        *(pytest.param(*pair, marks=pytest.mark.slow) for pair in (("cortex-m4", "blind"), ("cortex-m4", "gaps"))),
    ],
)
def test_what_the_disassembler_does_not_know_is_filled_in(
    make: Make, renode: Path, monkeypatch: pytest.MonkeyPatch, board_name: str, mode: str
) -> None:
    other = target_for(board_name, None).run(make(board_name, emulator=None), INPUTS[:1])
    firmware = make(board_name)
    monkeypatch.setenv("TINYC_FAKE_RENODE", mode)
    ran = find_target(load_board(board_name), "renode").run(firmware, INPUTS[:1])
    assert ran.counts == other.counts


# 0x108 movs r0, #0; 0x10A adds r0, #1; 0x10C bne 0x10A; 0x10E bx lr; 0x110 adds r0, #1; 0x112 bx lr
THUMB = Elf(
    (),
    (Segment(0x108, 0x108, bytes.fromhex("0020 0130 fdd1 7047 0130 7047")),),
    (Section("text", 12, executable=True, writable=False, is_note=False, address=0x108),),
)


def unknown(address: int) -> str:
    return f"Couldn't disassemble opcode at PC 0x{address:X}"


@pytest.mark.parametrize(
    ("lines", "addresses"),
    [
        (["0x108", "0x10A"], [0x108, 0x10A]),
        ([unknown(0x10A), "0x10A"], [0x10A, 0x10C, 0x10A]),
        ([unknown(0x108), "0x10A"], [0x108, 0x10A, 0x10C, 0x10A]),  # a loop, more likely than a block that was cut
        ([unknown(0x108), "0x10C"], [0x108, 0x10A, 0x10C]),  # cut: the jump does not lead there
        ([unknown(0x10C), unknown(0x10E)], [0x10C, 0x10E]),
        ([unknown(0x110), "0x112"], [0x110, 0x112]),  # cut: nothing returns to there
        (["0x108", unknown(0x10A), unknown(0x10E), "0x40"], [0x108, 0x10A, 0x10C, 0x10E, 0x40]),
        ([unknown(0x10E)], [0x10E]),
    ],
)
def test_rest_of_a_block(tmp_path: Path, lines: list[str], addresses: list[int]) -> None:
    path = tmp_path / "trace.txt"
    path.write_text("".join(f"{line}\n" for line in lines))
    assert read_addresses(path, THUMB).tolist() == addresses


def test_lines_that_are_no_addresses(tmp_path: Path) -> None:
    path = tmp_path / "trace.txt"
    path.write_text("0x8000\n0x359C08\n")
    assert read_addresses(path, THUMB).tolist() == [0x8000, 0x359C08]
    path.write_text("0x8000\nCould not\n")
    with pytest.raises(TinycError, match="no address"):
        read_addresses(path, THUMB)
    path.write_text(unknown(0x8002) + "\n")
    with pytest.raises(TinycError, match="leaves the firmware's code at 0x00008002"):
        read_addresses(path, THUMB)
    with pytest.raises(TinycError, match="left no trace"):
        read_addresses(tmp_path / "none.txt", THUMB)


def test_a_trace_without_the_model_counts_nothing(make: Make) -> None:
    plan = TracePlan(
        run_start=2,
        run_end=4,
        run_return=100,
        steps=(),
        step_count=0,
        limit=0,
        widths=INSTRUCTION_SETS["cortex-m"].widths,
    )
    assert count_addresses(plan, make("cortex-m4").read_elf(), np.array([8, 10], np.int64)).inferences == ()
