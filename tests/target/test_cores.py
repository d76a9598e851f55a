# SPDX-License-Identifier: Apache-2.0
"""Layers that cores share: the reference's bytes in either order of the parts, on threads, and on two emulated cores;
and no byte that one part writes and the other one touches, which makes every way to interleave them the same."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from machines import target_for

from tests.ops.harness import run_program
from tests.unit.networks import Network
from tinyc.base.errors import TinycError
from tinyc.board import Board, load_board
from tinyc.options.build import Options
from tinyc.pipeline.building import build
from tinyc.pipeline.compiling import Compiled, compile_model
from tinyc.pipeline.progress import Progress
from tinyc.pipeline.proving import as_integers, check_ram, chosen_samples, compile_library, input_bytes, prove
from tinyc.reference.interpreter import run_int
from tinyc.run import protocol
from tinyc.run.base import Conversation
from tinyc.run.qemu import find_qemu
from tinyc.run.unicorn import EmulatedCore, Semihosting, load_unicorn
from tinyc.toolchain.compilers import find_toolchain
from tinyc.verify.report import Report

KWS = Path(__file__).parents[2] / "examples" / "kws" / "kws.onnx"
BACKWARDS = """
#define NET_ON_CORES(part, arena) \\
    for (int32_t core = NET_CORES; core-- > 0;) part(arena, core)
"""
THREADS = """
#include <pthread.h>
#include <stdint.h>
struct work { void (*part)(uint8_t *, int32_t); uint8_t *arena; int32_t core; };
static void *run_part(void *arg)
{
    const struct work *work = arg;
    work->part(work->arena, work->core);
    return NULL;
}
static void on_threads(void (*part)(uint8_t *, int32_t), uint8_t *arena)
{
    pthread_t threads[CORES];
    struct work work[CORES];
    for (int32_t core = 0; core < CORES; core++) {
        work[core] = (struct work){part, arena, core};
        pthread_create(&threads[core], NULL, run_part, &work[core]);
    }
    for (int32_t core = 0; core < CORES; core++) pthread_join(threads[core], NULL);
}
#define UNIT_ON_CORES(part, arena) on_threads(part, arena)
"""


# Starts the second core of QEMU's mps2-an521 (SSE-200: INITSVTOR1, CPUWAIT), and hands it its parts through a mailbox
# in RAM that the firmware leaves alone. The first core's memory protection, which knows of neither, goes off.
TWO_CORES = """
#include <stdint.h>
struct mailbox { void (*part)(uint8_t *, int32_t); uint8_t *arena; uint32_t asked, done; };
#define BOX ((volatile struct mailbox *)0x38070000)
#define WORD(address) (*(volatile uint32_t *)(address))
#define BARRIER() __asm__ volatile("dsb\\n isb" ::: "memory")
static void second_core(void);
static const struct { void *stack; void (*handlers[15])(void); } vectors __attribute__((aligned(128))) = {
    (void *)0x38070000, {second_core, second_core, second_core}};
static void second_core(void)
{
    WORD(0xE000ED88) |= 0xF00000;
    BARRIER();
    for (uint32_t done = 0;;) {
        while (BOX->asked == done) { }
        BARRIER();
        BOX->part(BOX->arena, 1);
        BARRIER();
        BOX->done = ++done;
    }
}
static void on_both(void (*part)(uint8_t *, int32_t), uint8_t *arena)
{
    if (WORD(0xE000ED94) != 0) {
        WORD(0xE000ED94) = 0;
        BARRIER();
        BOX->asked = BOX->done = 0;
        WORD(0x50021114) = (uint32_t)(uintptr_t)&vectors;
        WORD(0x50021118) = 0;
    }
    BOX->part = part;
    BOX->arena = arena;
    BARRIER();
    const uint32_t number = BOX->asked + 1;
    BOX->asked = number;
    part(arena, 0);
    while (BOX->done != number) { }
    BARRIER();
}
#define NET_ON_CORES(part, arena) on_both(part, arena)
"""
TWO_CORES_BOARD = """
like = "cortex-m33"
cores = 2
[memory]
ram_bytes = 524_288
[emulator.qemu]
program = "qemu-system-arm"
machine = "mps2-an521"
arguments = ["-global", "sse-200.CPU0_FPU=true", "-global", "sse-200.CPU0_DSP=true"]
"""


@pytest.fixture(scope="module")
def models(tmp_path_factory: pytest.TempPathFactory) -> Callable[[int], Path]:
    """Networks of convolutions of every kind, with sums of images, whose heights are odd and even."""
    folder = tmp_path_factory.mktemp("cores")

    def model(seed: int) -> Path:
        path = folder / f"net{seed}.onnx"
        if not path.is_file():
            net = Network(seed)
            for layer in (net.relu, net.depthwise, net.pointwise, net.relu, net.residual, net.strided, net.scale):
                if layer == net.relu and net.shape == net.input_shape:
                    net.conv(8)
                layer()
            net.head()
            path.write_bytes(net.model().SerializeToString())
        return path

    return model


def board_of(folder: Path, like: str, cores: int = 2) -> str:
    file = folder / f"{like}-{cores}.toml"
    file.write_text(f'like = "{like}"\ncores = {cores}\n')
    return str(file)


def compiled(model: Path, board: str, cores: int = 2, **others: Any) -> tuple[Compiled, Board, Options]:
    options = Options(board=board, cores=cores, prefer="time", samples=2, name="net", **others)
    return compile_model(model, load_board(board), options, Progress()), load_board(board), options


def with_hook(built: Compiled, hook: str) -> Compiled:
    """The same library with a hook of the user's before its code."""
    source = f"{built.program.name}.c"
    return replace(built, files={**built.files, source: hook + built.files[source]})


@pytest.mark.quick_cases(1)
@pytest.mark.parametrize("backwards", [False, True])
@pytest.mark.parametrize("cores", [2, 3])
@pytest.mark.parametrize("like", ["cortex-m33", "cortex-m0plus", "riscv32imc", "cortex-m55", "cortex-m3"])
def test_either_order_gives_the_bytes_of_the_reference(
    models: Callable[[int], Path], tmp_path: Path, like: str, cores: int, backwards: bool
) -> None:
    built, board, options = compiled(models(5), board_of(tmp_path, like, cores), cores)
    assert built.program.cores == cores
    assert len(built.program.splits) > 4
    report = prove(with_hook(built, BACKWARDS) if backwards else built, board, options, Progress())
    assert report.passed
    assert report.cores == cores
    if report.cycles is not None:
        assert report.cycles_on_cores is not None
        assert report.cycles / cores < report.cycles_on_cores < report.cycles


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("cores", [2, 3])
def test_threads_give_the_bytes_of_the_reference(
    models: Callable[[int], Path], tmp_path: Path, cores: int, seed: int
) -> None:
    """Their accesses are watched: two threads that touch a byte that one of them writes end the program."""
    built, _, _ = compiled(models(seed), board_of(tmp_path, "cortex-m33", cores), cores)
    (tmp_path / "threads.h").write_text(f"#define CORES {cores}\n{THREADS}")
    random, graph = np.random.default_rng(seed), built.graph
    values = [graph.values[name] for name in graph.inputs]
    inputs = [{v.name: random.integers(-128, 128, v.shape).astype(np.int8) for v in values} for _ in range(3)]
    flags = f"gcc -include {tmp_path / 'threads.h'} -fno-sanitize=all -fsanitize=thread -pthread -std=gnu11"
    outputs_by_sample = run_program(graph, replace(built.program, name="unit"), inputs, flags)
    for sample, outputs in zip(inputs, outputs_by_sample, strict=True):
        reference = run_int(graph, sample, built.program.numerics)
        for name, output in zip(graph.outputs, outputs, strict=True):
            np.testing.assert_array_equal(output, reference[name])


@pytest.mark.parametrize("seed", range(3))
def test_two_emulated_cores_give_the_bytes_of_the_reference(
    models: Callable[[int], Path], tmp_path: Path, seed: int
) -> None:
    """Both run at once, each in a thread of QEMU. Its tracer is for one core: here it counts nothing."""
    file = tmp_path / "an521.toml"
    file.write_text(TWO_CORES_BOARD)
    built, board, options = compiled(models(seed), str(file))
    machine = find_qemu(board)
    if machine is None:
        pytest.skip("there is no QEMU")
    (tmp_path / "net").mkdir()
    library = with_hook(built, TWO_CORES)
    firmware = compile_library(tmp_path / "net", library, board, options, find_toolchain(board, None))
    samples = as_integers(chosen_samples(built, options), built)
    ran = replace(machine, plugin=None, stall_seconds=60).run(firmware, input_bytes(built.graph, samples))
    assert len(ran.outputs) == len(samples) > 1
    for number, outputs in enumerate(ran.outputs):
        reference = run_int(built.graph, samples.sample(number, built.graph), built.program.numerics)
        assert outputs == tuple(reference[name].tobytes() for name in built.graph.outputs)


@dataclass
class Touched:
    """Addresses that a part of a step has read and written."""

    read: set[int] = field(default_factory=set)
    written: set[int] = field(default_factory=set)


def touched_by_parts(built: Compiled, board: Board, options: Options, folder: Path) -> dict[int, dict[int, Touched]]:
    """What each part of each step touches of the arena, by step and core, in one inference on an emulated core."""
    assert board.memory is not None
    assert board.unicorn is not None
    folder.mkdir()
    firmware = compile_library(folder, built, board, options, find_toolchain(board, None))
    samples = as_integers(chosen_samples(built, options), built)
    requests = protocol.requests(input_bytes(built.graph, samples)[:1], firmware.resets)
    elf = firmware.read_elf()
    core = EmulatedCore(board.unicorn.cpu, board.memory, elf)
    splits = built.program.splits
    entries = {symbol.address & ~1: step for step, symbol in elf.step_functions(built.program.name).items()}
    touched: dict[int, dict[int, Touched]] = defaultdict(lambda: defaultdict(Touched))
    unicorn, arm = load_unicorn(), load_unicorn("unicorn.arm_const")
    now: list[tuple[int, Touched | None]] = [(0, None)]  # the arena, and what the running part touches

    def on_code(engine: Any, address: int, size: int, data: Any) -> None:
        if address in entries:
            step, arena, number = entries[address], *map(engine.reg_read, (arm.UC_ARM_REG_R0, arm.UC_ARM_REG_R1))
            now[0] = arena, touched[step][number] if step in splits else None

    def on_access(engine: Any, access: int, address: int, size: int, value: int, data: Any) -> None:
        arena, own = now[0]
        if own is not None and arena <= address < arena + built.program.arena_bytes:
            kind = own.written if access == unicorn.UC_MEM_WRITE else own.read
            kind.update(range(address - arena, address - arena + size))

    core.engine.hook_add(unicorn.UC_HOOK_CODE, on_code)
    core.engine.hook_add(unicorn.UC_HOOK_MEM_READ | unicorn.UC_HOOK_MEM_WRITE, on_access)
    core.run(Semihosting(core, requests, Conversation(firmware, 1)).call)
    assert core.fault is core.failure is None
    return touched


@pytest.mark.quick_cases(2)
@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("like", ["cortex-m33", "cortex-m0plus", "cortex-m3", "cortex-m7"])
def test_no_part_writes_what_another_one_touches(
    models: Callable[[int], Path], tmp_path: Path, like: str, seed: int
) -> None:
    target_for(like, "unicorn")
    built, board, options = compiled(models(seed), board_of(tmp_path, like))
    parts = touched_by_parts(built, board, options, tmp_path / "net")
    assert parts.keys() == built.program.splits.keys()
    for step, (first, second) in ((step, own.values()) for step, own in parts.items()):
        assert first.written
        assert second.written
        for one, other in ((first, second), (second, first)):
            assert not one.written & (other.read | other.written), f"step {step}"


def test_the_keyword_spotter_on_the_pico_2(tmp_path: Path) -> None:
    """At least 1.7 times as fast on both cores as on one, by the rules of its core."""
    reports = [
        build(
            KWS, tmp_path / str(cores), Options("raspberry-pi-pico2", cores=cores, prefer="time", samples=1), Progress()
        )[0]
        for cores in (1, 2)
    ]
    assert all(isinstance(report, Report) for report in reports)
    alone, together = reports[0].cycles, reports[1].cycles_on_cores
    assert alone is not None
    assert together is not None
    assert alone > 1.7 * together


@pytest.mark.parametrize(
    ("others", "words"),
    [
        ({"board": "cortex-m33"}, "--cores 2: cortex-m33 has 1"),
        ({"input_rows": True}, "--cores is for libraries that take their whole input"),
        ({"stream_weights": 4096}, "--cores is for libraries that take their whole input"),
    ],
)
def test_what_cannot_be_shared(models: Callable[[int], Path], others: dict[str, Any], words: str) -> None:
    options = Options(**{"board": "raspberry-pi-pico2", "cores": 2, **others})
    with pytest.raises(TinycError, match=words):
        compile_model(models(5), load_board(options.board), options, Progress())


def test_the_hint_of_too_little_ram_names_what_goes_with_cores(models: Callable[[int], Path]) -> None:
    """Rows of the input are no way out while several cores share layers."""
    options = Options(board="raspberry-pi-pico2", cores=2, ram=1, samples=1)
    board = load_board(options.board)
    with pytest.raises(TinycError) as caught:
        check_ram(compile_model(models(5), board, options, Progress()), options)
    assert "try --input-rows with --cores 1;" in str(caught.value.hint)
    compile_model(models(5), board, replace(options, cores=1, input_rows=True, ram=None), Progress())
