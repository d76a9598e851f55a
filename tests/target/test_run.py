# SPDX-License-Identifier: Apache-2.0
"""Building and running firmware: every machine and compiler computes the same bytes and counts the same."""

from __future__ import annotations

import dataclasses
import subprocess
import zlib
from pathlib import Path

import pytest
import toy
from machines import Build, target_for
from toy import Variant

from tinyc.base.errors import TinycError
from tinyc.board import load_board
from tinyc.run import OVERHEAD, RunError, RunResult
from tinyc.run.host import HostTarget
from tinyc.run.protocol import FrameReader, ProtocolFrame, Reply, Request, encode, parse_result
from tinyc.run.qemu import QemuTarget, accepts
from tinyc.run.trace import build_trace_library, executions_by_address
from tinyc.run.unicorn import UnicornTarget
from tinyc.toolchain.compile import Sources, compile_firmware
from tinyc.toolchain.compilers import find_toolchain
from tinyc.toolchain.size import library_size

UNICORN_BOARDS = ("cortex-m0plus", "cortex-m3", "cortex-m4", "cortex-m7", "cortex-m33")
QEMU_BOARDS = (*UNICORN_BOARDS, "cortex-m55", "riscv32imc")
MACHINES = [(b, "qemu") for b in QEMU_BOARDS] + [(b, "unicorn") for b in UNICORN_BOARDS]
REAL_BOARDS = {
    "nucleo-l4r5zi": ("unicorn",),
    "nucleo-f746zg": ("unicorn",),
    "stm32f4-discovery": ("qemu", "unicorn"),
    "nrf52840-dk": ("qemu", "unicorn"),
    "arduino-nano-33-ble": ("unicorn",),
    "raspberry-pi-pico": ("unicorn",),
}
# One machine for each way in which cores differ: fault registers, memory protection, stack alignment.
VARIETY = [
    ("cortex-m4", "qemu"),
    ("cortex-m4", "unicorn"),
    ("cortex-m0plus", "qemu"),
    ("cortex-m55", "qemu"),
    ("riscv32imc", "qemu"),
]
INPUTS = toy.inputs(9)
EXPECTED = [toy.reference(tensors) for tensors in INPUTS]
OUTPUTS = tuple(e.outputs for e in EXPECTED)


def run(build: Build, board: str, compiler: str, emulator: str | None, variant: Variant) -> RunResult:
    target = target_for(board, emulator)
    return target.run(build(board, compiler, variant), INPUTS, instruction_limit=1_000_000)


# --- the same bytes everywhere ---


@pytest.mark.quick_cases(6)
@pytest.mark.parametrize("compiler", ["gcc", "zig"])
@pytest.mark.parametrize(("board", "emulator"), MACHINES)
def test_outputs_on_emulators(build: Build, board: str, emulator: str, compiler: str) -> None:
    result = run(build, board, compiler, emulator, Variant.NONE)
    assert result.outputs == OUTPUTS
    assert not result.damaged_guards
    assert len(result.instructions) == len(INPUTS)


@pytest.mark.quick_cases(2)
@pytest.mark.parametrize("compiler", ["gcc", pytest.param("zig", marks=pytest.mark.slow)])
@pytest.mark.parametrize(("board", "emulator"), [(b, e) for b, machines in REAL_BOARDS.items() for e in machines])
def test_outputs_on_real_boards(build: Build, board: str, emulator: str, compiler: str) -> None:
    result = run(build, board, compiler, emulator, Variant.NONE)
    assert result.outputs == OUTPUTS
    assert not result.damaged_guards
    memory = load_board(board).memory
    assert memory is not None
    entry = build(board, compiler).read_elf().symbol("Reset_Handler").address
    assert memory.flash_origin <= entry < memory.flash_origin + memory.flash_bytes


@pytest.mark.quick_cases(2)
@pytest.mark.parametrize("sanitize", [False, True])
@pytest.mark.parametrize("compiler", ["gcc", "clang"])
def test_outputs_on_host(build: Build, compiler: str, sanitize: bool) -> None:
    result = HostTarget().run(build("host", compiler, sanitize=sanitize), INPUTS)
    assert result.outputs == OUTPUTS
    assert result.instructions == ()
    assert result.stack_bytes is None


@pytest.mark.parametrize(
    ("board", "compiler", "emulator"),
    [("cortex-m4", "gcc", "qemu"), ("cortex-m4", "zig", "unicorn"), ("host", "gcc", None)],
)
def test_step_outputs(build: Build, board: str, compiler: str, emulator: str | None) -> None:
    firmware = build(board, compiler, dump_steps=True)
    result = target_for(board, emulator).run(firmware, INPUTS)
    assert result.steps == tuple(e.steps for e in EXPECTED)
    assert result.outputs == OUTPUTS
    assert result.instructions == ()  # they would count the sending


def test_no_inferences(build: Build) -> None:
    result = target_for("cortex-m4", None).run(build("cortex-m4", "gcc"), [])
    assert result.outputs == ()
    assert result.stack_bytes is None


def test_progress_and_machine(build: Build) -> None:
    seen: list[tuple[int, int]] = []
    target = target_for("cortex-m4", "unicorn")
    result = target.run(build("cortex-m4", "gcc"), INPUTS, on_progress=lambda done, of: seen.append((done, of)))
    assert seen == [(i + 1, len(INPUTS)) for i in range(len(INPUTS))]
    assert result.machine == target.machine
    assert result.machine.startswith("unicorn ")


@pytest.mark.parametrize("wrong", [[[b"\0" * 9]], [[b"\0" * 9, b"\0" * 8]], [[b"\0" * 7, b"\0" * 9]]])
def test_inputs_of_the_wrong_size(build: Build, wrong: list[list[bytes]]) -> None:
    with pytest.raises(TinycError, match="inference 0 has inputs of"):
        target_for("cortex-m4", None).run(build("cortex-m4", "gcc"), wrong)


# --- counts ---


@pytest.mark.quick_cases(4)
@pytest.mark.parametrize("compiler", ["gcc", "zig"])
@pytest.mark.parametrize("board", UNICORN_BOARDS)
def test_qemu_and_unicorn_count_the_same_at_every_address(build: Build, board: str, compiler: str) -> None:
    elf = build(board, compiler).read_elf()
    qemu, unicorn = (run(build, board, compiler, e, Variant.NONE) for e in ("qemu", "unicorn"))
    assert qemu.counts == unicorn.counts
    assert qemu.jumps == unicorn.jumps
    assert len(qemu.jumps) >= 8
    for step in (OVERHEAD, 0, 1, 2):
        by_address = [executions_by_address((b for b in r.blocks if b.step == step), elf) for r in (qemu, unicorn)]
        assert by_address[0] == by_address[1]
        total = sum(c.overhead if step == OVERHEAD else c.steps[step] for c in qemu.counts)
        assert sum(by_address[0].values()) == total


@pytest.mark.parametrize("emulator", ["qemu", "unicorn"])
def test_jumps_tell_how_often_a_branch_was_taken(build: Build, emulator: str) -> None:
    """A loop of 100 turns goes back 99 times; every step is entered once an inference and left once."""
    result = run(build, "cortex-m4", "gcc", emulator, Variant.COUNT_100)
    elf = build("cortex-m4", "gcc", Variant.COUNT_100).read_elf()
    n = len(INPUTS)
    assert 99 * n in [j.executions for j in result.jumps if j.step == 1 and j.target == j.source - 2]
    for step, function in elf.step_functions("toy").items():
        assert sum(j.executions for j in result.jumps if j.step == OVERHEAD and j.target == function.address) == n
        run_function = elf.symbol("toy_run")
        back = range(run_function.address, run_function.address + run_function.size)
        assert sum(j.executions for j in result.jumps if j.step == step and j.target in back) == n


def test_instructions_across_page_boundaries_are_counted_once(build: Build) -> None:
    """Emulators end blocks at pages; long instructions at every even offset lie across two of them."""
    elf = build("cortex-m4", "gcc", Variant.PAGES).read_elf()
    qemu, unicorn = (run(build, "cortex-m4", "gcc", e, Variant.PAGES) for e in ("qemu", "unicorn"))
    assert qemu.jumps == unicorn.jumps
    by_address = [executions_by_address(r.blocks, elf) for r in (qemu, unicorn)]
    assert by_address[0] == by_address[1]
    assert sum(by_address[0].values()) == sum(qemu.instructions)


def test_python_tracer_equals_the_native_one(build: Build) -> None:
    native = target_for("cortex-m0plus", "unicorn")
    assert isinstance(native, UnicornTarget)
    python = dataclasses.replace(native, native=False)
    firmware = build("cortex-m0plus", "gcc")
    assert python.run(firmware, INPUTS) == native.run(firmware, INPUTS)


@pytest.mark.parametrize("emulator", ["qemu", "unicorn"])
def test_one_more_turn_of_a_loop_is_two_instructions(build: Build, emulator: str) -> None:
    short, long = (run(build, "cortex-m4", "gcc", emulator, v) for v in (Variant.COUNT_100, Variant.COUNT_101))
    for a, b in zip(short.counts, long.counts, strict=True):
        assert b.steps[1] == a.steps[1] + 2
        assert b.total == a.total + 2
        assert b.overhead == a.overhead


def test_helper_functions_belong_to_the_step_that_calls_them(build: Build) -> None:
    """Armv6-M divides in a function of the compiler's library."""
    result = run(build, "cortex-m0plus", "gcc", None, Variant.NONE)
    elf = build("cortex-m0plus", "gcc").read_elf()
    names = {f.name for b in result.blocks if b.step == 2 and (f := elf.function_at(b.address)) is not None}
    assert "toy_step_2" in names
    assert len(names) > 1


# --- memory ---


@pytest.mark.quick_cases(3)
@pytest.mark.parametrize(("board", "emulator"), VARIETY)
def test_an_emulator_measures_no_cycles(build: Build, board: str, emulator: str) -> None:
    """Whatever its timers count: nothing that is called measured comes of it, in any command."""
    assert run(build, board, "gcc", emulator, Variant.NONE).cycles == ()


@pytest.mark.quick_cases(3)
@pytest.mark.parametrize(("board", "emulator"), VARIETY)
def test_stack_is_measured(build: Build, board: str, emulator: str) -> None:
    small, large = (run(build, board, "gcc", emulator, v).stack_bytes for v in (Variant.NONE, Variant.BIG_STACK))
    assert small is not None
    assert large is not None
    assert 0 < small < 200
    assert 1000 <= large < 1200


@pytest.mark.parametrize(("board", "emulator"), [("cortex-m4", "qemu"), ("cortex-m4", "unicorn"), ("host", None)])
@pytest.mark.parametrize(("variant", "side"), [(Variant.BELOW, "below"), (Variant.ABOVE, "above")])
def test_write_outside_the_arena(build: Build, board: str, emulator: str | None, variant: Variant, side: str) -> None:
    result = run(build, board, "gcc", emulator, variant)
    assert result.damaged_guards
    assert result.damaged_guards[0] == f"inference 0: bytes {side} the arena"
    assert len(result.damaged_guards) == len(INPUTS)


@pytest.mark.quick_cases(2)
@pytest.mark.parametrize("compiler", ["gcc", "clang"])
@pytest.mark.parametrize("variant", [Variant.BELOW, Variant.ABOVE])
def test_sanitizers_stop_at_the_access(build: Build, compiler: str, variant: Variant) -> None:
    with pytest.raises(RunError, match="heap-buffer-overflow") as caught:
        HostTarget().run(build("host", compiler, variant, sanitize=True), INPUTS)
    assert caught.value.step == 1


@pytest.mark.parametrize(("board", "emulator"), [("cortex-m4", "qemu"), ("host", None)])
def test_byte_read_before_it_is_written(build: Build, board: str, emulator: str | None) -> None:
    """The arena is full of noise, so the outputs change."""
    assert run(build, board, "gcc", emulator, Variant.UNINITIALISED).outputs != OUTPUTS


# --- faults and limits ---


@pytest.mark.quick_cases(5)
@pytest.mark.parametrize("variant", [Variant.UNMAPPED, Variant.FLASH_WRITE, Variant.UNDEFINED, Variant.STACK_OVERFLOW])
@pytest.mark.parametrize(("board", "emulator"), VARIETY)
def test_fault_names_the_step(build: Build, board: str, emulator: str, variant: Variant) -> None:
    with pytest.raises(RunError, match="faulted in step 1") as caught:
        run(build, board, "gcc", emulator, variant)
    assert caught.value.step == 1
    assert "inference 0" in caught.value.message
    if variant is Variant.STACK_OVERFLOW:
        assert "the stack overflowed" in caught.value.message
    else:
        assert "toy_step_1" in caught.value.message
    if variant is Variant.UNMAPPED and (emulator == "unicorn" or board != "cortex-m0plus"):
        assert "at 0x60000001" in caught.value.message


@pytest.mark.parametrize("variant", [Variant.LDRD, Variant.STM, Variant.VLDR])
@pytest.mark.parametrize("emulator", ["qemu", "unicorn", "python"])
def test_unaligned_access_that_hardware_refuses(build: Build, emulator: str, variant: Variant) -> None:
    target = target_for("cortex-m4", "qemu" if emulator == "qemu" else "unicorn")
    if emulator == "python":
        assert isinstance(target, UnicornTarget)
        target = dataclasses.replace(target, native=False)
    with pytest.raises(RunError, match=r"faulted in step 1, toy_step_1\+0x\w+: unaligned access.* \(inference 0\)"):
        target.run(build("cortex-m4", "gcc", variant), INPUTS)


@pytest.mark.parametrize("emulator", ["qemu", "unicorn"])
def test_unaligned_access_that_hardware_carries_out(build: Build, emulator: str) -> None:
    assert run(build, "cortex-m4", "gcc", emulator, Variant.LDR).outputs == OUTPUTS


@pytest.mark.quick_cases(2)
@pytest.mark.parametrize(("board", "emulator"), VARIETY)
def test_endless_loop_ends_at_the_limit(build: Build, board: str, emulator: str) -> None:
    with pytest.raises(RunError, match="did not end within 1,000,000 instructions: it was in step 1") as caught:
        run(build, board, "gcc", emulator, Variant.ENDLESS)
    assert caught.value.step == 1


def test_endless_loop_on_the_host(build: Build) -> None:
    with pytest.raises(RunError, match="gave no answer for 1 s; inference 0"):
        HostTarget(stall_seconds=1).run(build("host", "gcc", Variant.ENDLESS), INPUTS)


def test_endless_loop_without_a_plugin(build: Build) -> None:
    target = target_for("cortex-m4", "qemu")
    assert isinstance(target, QemuTarget)
    blind = dataclasses.replace(target, plugin=None, stall_seconds=1)
    with pytest.raises(RunError, match="gave no answer for 1 s"):
        blind.run(build("cortex-m4", "gcc", Variant.ENDLESS), INPUTS)
    result = blind.run(build("cortex-m4", "gcc"), INPUTS)
    assert result.outputs == OUTPUTS
    assert result.instructions == ()


def test_limit_holds_for_each_inference(build: Build) -> None:
    target = target_for("cortex-m4", None)
    firmware = build("cortex-m4", "gcc")
    longest = max(target.run(firmware, INPUTS).instructions)
    many = INPUTS * 40
    assert len(target.run(firmware, many, instruction_limit=longest).outputs) == len(many)
    with pytest.raises(RunError, match="did not end within"):
        target.run(firmware, many, instruction_limit=longest - 1)


# --- building ---


@pytest.mark.quick_cases(2)
@pytest.mark.parametrize(
    ("board", "compiler"), [("cortex-m4", "gcc"), ("cortex-m4", "zig"), ("host", "gcc"), ("host", "clang")]
)
def test_library_size(build: Build, tmp_path: Path, board: str, compiler: str) -> None:
    plain, wide = (
        library_size(f.library_object, f.toolchain, f.board, tmp_path)
        for f in (build(board, compiler), build(board, compiler, Variant.WIDE_CONSTANTS))
    )
    assert toy.A * toy.B + len("toy 1\0") <= plain.const_bytes < 200
    assert 5000 <= wide.const_bytes - plain.const_bytes < 5100
    assert 100 < plain.code_bytes < 2000
    assert plain.flash_bytes == plain.code_bytes + plain.const_bytes


def test_library_with_variables_is_refused(build: Build, tmp_path: Path) -> None:
    firmware = build("cortex-m4", "gcc", Variant.VARIABLE)
    with pytest.raises(TinycError, match="bytes of variables"):
        library_size(firmware.library_object, firmware.toolchain, firmware.board, tmp_path)


@pytest.mark.quick_cases(2)
@pytest.mark.parametrize("compiler", ["gcc", "zig"])
@pytest.mark.parametrize(("key", "memory", "stack"), [("flash_bytes", "flash", 512), ("ram_bytes", "RAM", 960)])
def test_firmware_too_large_for_the_board(tmp_path: Path, compiler: str, key: str, memory: str, stack: int) -> None:
    board = load_board("cortex-m4")
    assert board.memory is not None
    small = dataclasses.replace(board, memory=dataclasses.replace(board.memory, **{key: 1024, "stack_bytes": stack}))
    library = toy.write_library(tmp_path / "library")
    try:
        toolchain = find_toolchain(small, compiler)
    except TinycError as error:
        pytest.skip(error.message)
    with pytest.raises(TinycError, match=rf"its {memory} is too small by [\d,]+ bytes") as caught:
        compile_firmware(Sources(library, "toy"), small, toolchain, "size", tmp_path)
    assert caught.value.exit_code == 1


def test_compiler_diagnostics_are_shown(tmp_path: Path) -> None:
    library = toy.write_library(tmp_path / "library")
    source = (library / "toy.c").read_text()
    (library / "toy.c").write_text(source.replace("int32_t acc = mid[o];", "int32_t acc = mid[o] + nothing;"))
    board = load_board("host")
    with pytest.raises(TinycError, match=r"failed: compiling toy\.c\n.*toy\.c:\d+:.*nothing") as caught:
        compile_firmware(Sources(library, "toy"), board, find_toolchain(board), "size", tmp_path)
    assert " -c " in caught.value.hint


# --- the protocol, spoken to the harness itself ---


def talk(build: Build, stream: bytes) -> list[ProtocolFrame]:
    elf = build("host", "gcc").elf
    done = subprocess.run([str(elf)], input=stream, capture_output=True, timeout=60, check=True)
    return FrameReader().feed(done.stdout)


def test_info(build: Build) -> None:
    frames = talk(build, encode(Request.INFO) + encode(Request.END))
    assert [f.type for f in frames] == [Reply.INFO, Reply.INFO, Reply.END]
    for frame, flags in zip(frames, (2, 0), strict=False):  # the first one is sent unasked, and says so
        words = [int.from_bytes(frame.payload[i : i + 4], "little") for i in range(0, 40, 4)]
        assert words == [flags, toy.ARENA_BYTES, 16, 2, 2, 3, toy.A, toy.B, toy.A, toy.C]
        assert frame.payload[40:] == b"toy 1"


def test_noise_between_frames_is_skipped(build: Build) -> None:
    request = encode(Request.RUN, b"".join(INPUTS[2]))
    frames = talk(build, b"\0TT\xffT" + request + b"noise" + request + encode(Request.END))
    results = [parse_result(f.payload) for f in frames if f.type == Reply.RESULT]
    assert [r.outputs for r in results] == [b"".join(OUTPUTS[2])] * 2
    assert [r.inference for r in results] == [0, 1]


def test_refused_requests_are_answered_and_the_next_one_served(build: Build) -> None:
    good = encode(Request.RUN, b"".join(INPUTS[2]))
    bad_crc = bytearray(good)
    bad_crc[-6] ^= 1
    wrong_length = encode(Request.RUN, b"123")
    unknown = _frame(1, 0x55, b"")
    wrong_version = _frame(9, Request.INFO, b"")
    stream = bytes(bad_crc) + wrong_length + unknown + wrong_version + good + encode(Request.END)
    frames = talk(build, stream)
    errors = [int.from_bytes(f.payload[:4], "little") for f in frames if f.type == Reply.ERROR]
    assert errors == [1, 3, 2, 4]
    assert [f.type for f in frames if f.type == Reply.RESULT] == [Reply.RESULT]


def test_stream_that_ends_early(build: Build) -> None:
    assert [f.type for f in talk(build, encode(Request.RUN, b"".join(INPUTS[2]))[:-7])] == [Reply.INFO]


def _frame(version: int, type_: int, payload: bytes) -> bytes:
    head = bytes([version, type_]) + len(payload).to_bytes(4, "little")
    return b"TC" + head + payload + zlib.crc32(head + payload).to_bytes(4, "little")


# --- the tracer ---


def test_qemu_refuses_a_plugin_of_another_version() -> None:
    target = target_for("cortex-m4", "qemu")
    assert isinstance(target, QemuTarget)
    future = build_trace_library(1000)
    assert future is not None
    assert not accepts(target.program, future)
    assert target.plugin is not None
    assert accepts(target.program, target.plugin)


def test_step_without_a_function_counts_nothing(build: Build) -> None:
    """Compilers drop a step whose function is empty."""
    firmware = build("cortex-m4", "gcc")
    four_steps = dataclasses.replace(firmware, info=dataclasses.replace(firmware.info, steps=4))
    target = target_for("cortex-m4", None)
    usual, more = (target.run(f, INPUTS).counts[0] for f in (firmware, four_steps))
    assert more.steps == {**usual.steps, 3: 0}
    assert more.total == usual.total
