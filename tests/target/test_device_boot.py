# SPDX-License-Identifier: Apache-2.0
"""Firmware for real boards boots on a bare core with the board's registers watched: it sets up what the board's file
says in that order, gives the UART the right baud rate, and says hello."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import toy
from bare_board import IMXRT_GPR, LEFT, MPU_CTRL, BareBoard, factory_pairs
from bare_riscv import CONTROL, EVENT, MCOUNTINHIBIT, BareRiscv
from uart_models import SerialLine
from uarte import Uarte

from tinyc.base.errors import TinycError
from tinyc.board import Board, list_boards, load_board
from tinyc.board.board import Unicorn
from tinyc.board.parts import SetupStep
from tinyc.run.protocol import FrameReader, InfoFrame, ProtocolFrame, Reply, Request, encode, parse_info, parse_result
from tinyc.toolchain.compile import Sources, compile_library
from tinyc.toolchain.compilers import find_toolchain
from tinyc.toolchain.device import build_device
from tinyc.toolchain.elf import Elf, read_elf

REAL = (
    "adafruit-feather-m4", "arduino-uno-r4-minima", "nrf52840-dk", "nrf54l15-dk", "nucleo-f746zg", "nucleo-l4r5zi",
    "raspberry-pi-pico", "raspberry-pi-pico2", "seeed-xiao-samd21", "stm32f4-discovery", "teensy-4.1",
    "ek-ra8d1", "esp32-c3", "esp32-c6", "raspberry-pi-pico2-riscv",
)  # fmt: skip
ALL = [board.name for board in list_boards() if board.uart is not None and (board.unicorn or board.emulated != board)]
RISCV = {board.name for board in list_boards() if board.startup == "riscv"}
OLDER = "nrf52840-dk, older UART"
M33 = load_board("cortex-m33").cflags


def board_of(name: str) -> Board:
    board = load_board(name.split(",", maxsplit=1)[0])
    if "mve" in board.isa and board.unicorn is None:  # unicorn has no core with Helium
        return replace(board, core="cortex-m33", isa=board.isa - {"mve"}, cflags=M33, unicorn=Unicorn("cortex-m33"))
    if name != OLDER:
        return board
    assert board.uart is not None
    return replace(board, uart=replace(board.uart, kind="nrf"))


BOARDS = [*(name if name in REAL else pytest.param(name, marks=pytest.mark.slow) for name in ALL), OLDER]
STOPPED_BY_OVERRUN = ("imxrt-lpuart", "ra-sci", "ra-sci-b", "stm32l4", "stm32-lpuart")
SERVING = [
    pytest.param(name, overrun, marks=() if name in (*REAL, OLDER) else pytest.mark.slow)
    for name in (*ALL, OLDER)
    for overrun in ((None, 20) if board_of(name).uart.kind in STOPPED_BY_OVERRUN else (None,))  # type: ignore[union-attr]
]
FLEXRAM = [(IMXRT_GPR + 0x44, 0xAAAAAAFF), (IMXRT_GPR + 0x38, 0x00AA0000), (IMXRT_GPR + 0x40, 0x00200007)]
VTOR, CPACR, SYST_CSR = 0xE000ED08, 0xE000ED88, 0xE000E010


@dataclass
class Booted:
    elf: Elf
    info: InfoFrame
    written: list[tuple[int, int]]
    unit: Uarte | SerialLine
    memory: dict[int, int] = field(default_factory=dict)
    csrs: dict[int, int] = field(default_factory=dict)
    steps_left: list[SetupStep] = field(default_factory=list)  # of the board's file


@pytest.fixture(scope="module")
def boot(tmp_path_factory: pytest.TempPathFactory) -> Any:
    """boot(board, compiler) -> Booted; each once."""
    return cache(lambda name, compiler: boot_once(board_of(name), compiler, tmp_path_factory.mktemp("boot")))


def boot_once(board: Board, compiler: str, folder: Path) -> Booted:
    pytest.importorskip("unicorn", reason="unicorn is not installed: pip install unicorn")
    try:
        toolchain = find_toolchain(board, compiler)
    except TinycError as error:
        pytest.skip(error.message)
    library_dir = toy.write_library(folder / "library")
    library = compile_library(Sources(library_dir, "toy"), toolchain, "balanced", folder / "toy.o")
    build_device(Sources(library_dir, "toy"), board, toolchain, library, folder / "device")
    return run_until_hello(board, read_elf(folder / "device" / "toy.elf"))


@dataclass
class Heard:
    """Frames that the firmware has sent. The engine stops behind the last one; END is followed by a restart."""

    count: int
    engine: Any
    frames: list[ProtocolFrame] = field(default_factory=list)
    reader: FrameReader = field(default_factory=FrameReader)

    def take(self, sent: bytearray) -> None:
        for frame in self.reader.feed(bytes(sent)):
            self.frames.append(frame)
            if len(self.frames) == self.count and frame.type != Reply.END:
                self.engine.emu_stop()
        sent.clear()


def run_until(
    board: Board, elf: Elf, count: int, requests: bytes = b"", overrun: int | None = None
) -> tuple[list[ProtocolFrame], BareBoard]:
    """Runs firmware until it has sent `count` frames. requests: what comes over the line."""
    bare = BareBoard(board, elf, requests, overrun)
    heard = Heard(count, bare.engine)
    bare.run(heard.take)
    assert len(heard.frames) == count, f"{len(heard.frames)} frames"
    assert heard.frames[0].type == Reply.INFO, "no hello"
    return heard.frames, bare


def run_until_hello(board: Board, elf: Elf) -> Booted:
    frames, bare = run_until(board, elf, 1)
    said = parse_info(frames[0].payload)
    if isinstance(bare.core, BareRiscv):
        return Booted(elf, said, bare.written, bare.unit, csrs=bare.core.csrs, steps_left=bare.steps)
    core = {address: bare.word(address) for address in (VTOR, CPACR, SYST_CSR)}
    return Booted(elf, said, bare.written, bare.unit, core, steps_left=bare.steps)


@pytest.mark.quick_cases(3)
@pytest.mark.parametrize("compiler", ["gcc", pytest.param("zig", marks=pytest.mark.slow)])
@pytest.mark.parametrize("name", BOARDS)
def test_it_says_hello(boot: Any, name: str, compiler: str) -> None:
    booted = boot(name, compiler)
    assert booted.info.version == "toy 1"
    assert booted.info.started
    assert booted.info.input_bytes == (toy.A, toy.B)


@pytest.mark.parametrize("name", BOARDS)
def test_the_board_is_set_up_as_its_file_says(boot: Any, name: str) -> None:
    board = board_of(name)
    assert board.uart is not None
    booted = boot(name, "gcc")
    held: dict[int, int] = {}
    expected = []
    for step in board.setup:
        if step.op == "pairs":
            expected += factory_pairs(board)
        if step.op in ("pairs", "pause"):
            continue
        before = held.get(step.address, int.from_bytes(LEFT * step.width, "little"))
        rest = before & ~step.bits
        after = {"write": step.bits, "set": rest | step.value, "clear": rest, "wait": rest | step.value}[step.op]
        held[step.address] = after
        if step.op != "wait":
            expected.append((step.address, after))
    first = FLEXRAM if name == "teensy-4.1" else []
    if name in RISCV:  # whose protection is set in registers of the core
        own = range(board.uart.base, board.uart.base + booted.unit.SPAN)
        before_protection = [(at, value) for at, value in booted.written if at not in own]
    else:
        before_protection = booted.written[: booted.written.index((MPU_CTRL, 1))]
    assert before_protection == first + expected
    assert booted.steps_left == []


@pytest.mark.parametrize("name", BOARDS)
def test_the_baud_rate_is_right(boot: Any, name: str) -> None:
    uart = board_of(name).uart
    assert uart is not None
    if uart.kind == "esp32-usb":  # USB has none
        return
    assert boot(name, "gcc").unit.baud(uart.clock_hz) == pytest.approx(uart.baud, rel=0.01)


@pytest.mark.parametrize("name", BOARDS)
def test_the_core_is_set_up(boot: Any, name: str) -> None:
    """Vector table, FPU, timer; the stack at the start of the RAM, so that an overflow leaves it."""
    board = board_of(name)
    assert board.memory is not None
    booted = boot(name, "gcc")
    if name in RISCV:
        fault = booted.elf.symbol("tc_fault_entry").address
        assert fault % 256 == 0
        assert booted.elf.symbol("tc_stack_top").address == board.memory.ram_origin + board.memory.stack_bytes
        assert booted.csrs == ({MCOUNTINHIBIT: 0} if board.core == "hazard3" else {EVENT: 1, CONTROL: 1})
        return
    vectors = booted.elf.symbol("tc_vector_table").address
    table = [int.from_bytes(booted.elf.read(vectors + 4 * i, 4), "little") for i in range(16)]
    assert vectors % 128 == 0
    assert table[0] == board.memory.ram_origin + board.memory.stack_bytes
    assert table[1] == booted.elf.symbol("Reset_Handler").address | 1
    assert set(table[2:15]) == {booted.elf.symbol("tc_fault_entry").address | 1}
    assert table[15] == booted.elf.symbol("tc_systick").address | 1
    assert all(entry & 1 for entry in table[1:])
    if "thumb2" in board.isa:
        assert booted.memory[VTOR] == vectors
    assert booted.memory[CPACR] == (0xF << 20 if "fpu" in board.isa else 0)
    assert booted.memory[SYST_CSR] == 7


@pytest.mark.parametrize(("name", "overrun"), SERVING)
def test_it_serves_requests(boot: Any, name: str, overrun: int | None) -> None:
    """Over a UART that refuses whatever its description does not have; an overrun does not silence it. The last byte
    has left when the board starts again."""
    board = board_of(name)
    inputs = toy.inputs(3)
    requests = encode(Request.INFO) + b"".join(encode(Request.RUN, b"".join(tensors)) for tensors in inputs)
    frames, bare = run_until(board, boot(name, "gcc").elf, 6, requests + encode(Request.END), overrun)
    assert [frame.type for frame in frames] == [Reply.INFO, Reply.INFO, *3 * [Reply.RESULT], Reply.END]
    assert bare.core.starts_again
    results = [parse_result(frame.payload) for frame in frames[2:5]]
    assert [result.outputs for result in results] == [b"".join(toy.reference(t).outputs) for t in inputs]
    assert all(result.status == 0 and result.guards == 0 for result in results)
