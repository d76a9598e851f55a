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
from uart_models import MODELS, SerialLine
from uarte import LAYOUTS, Uarte

from tinyc.base.errors import TinycError
from tinyc.board import Board, list_boards, load_board
from tinyc.run.protocol import FrameReader, InfoFrame, ProtocolFrame, Reply, Request, encode, parse_info, parse_result
from tinyc.run.unicorn import CPUS
from tinyc.toolchain.compile import Sources, compile_library
from tinyc.toolchain.compilers import find_toolchain
from tinyc.toolchain.device import build_device
from tinyc.toolchain.elf import Elf, read_elf

REAL = (
    "adafruit-feather-m4", "arduino-uno-r4-minima", "nrf52840-dk", "nrf54l15-dk", "nucleo-f746zg", "nucleo-l4r5zi",
    "raspberry-pi-pico", "raspberry-pi-pico2", "seeed-xiao-samd21", "stm32f4-discovery", "teensy-4.1",
)  # fmt: skip
ALL = [board.name for board in list_boards() if board.uart is not None and board.unicorn is not None]
OLDER = "nrf52840-dk, older UART"


def board_of(name: str) -> Board:
    board = load_board(name.split(",", maxsplit=1)[0])
    if name != OLDER:
        return board
    assert board.uart is not None
    return replace(board, uart=replace(board.uart, kind="nrf"))


BOARDS = [*(name if name in REAL else pytest.param(name, marks=pytest.mark.slow) for name in ALL), OLDER]
PAGE = 0x1000
LEFT = b"\x5a"  # bytes of registers as something else left them
STOPPED_BY_OVERRUN = ("imxrt-lpuart", "ra-sci", "stm32l4", "stm32-lpuart")
SERVING = [
    pytest.param(name, overrun, marks=() if name in (*REAL, OLDER) else pytest.mark.slow)
    for name in (*ALL, OLDER)
    for overrun in ((None, 20) if board_of(name).uart.kind in STOPPED_BY_OVERRUN else (None,))  # type: ignore[union-attr]
]
MPU_TYPE, MPU_CTRL = 0xE000ED90, 0xE000ED94
IMXRT_GPR = 0x400AC000  # IOMUXC_GPR, which the first steps of an i.MX RT write
FLEXRAM = [(IMXRT_GPR + 0x44, 0xAAAAAAFF), (IMXRT_GPR + 0x38, 0x00AA0000), (IMXRT_GPR + 0x40, 0x00200007)]
VTOR, AIRCR, CPACR, SYST_CSR = 0xE000ED08, 0xE000ED0C, 0xE000ED88, 0xE000E010


@dataclass
class Booted:
    elf: Elf
    info: InfoFrame
    written: list[tuple[int, int]]
    unit: Uarte | SerialLine
    memory: dict[int, int] = field(default_factory=dict)


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


def ready_bits(board: Board) -> dict[int, tuple[int, int]]:
    """Of registers that are waited for: the bits, and what they are when everything is ready."""
    bits_by_address: dict[int, tuple[int, int]] = {}
    for step in board.setup:
        if step.op == "wait":
            bits, value = bits_by_address.get(step.address, (0, 0))
            bits_by_address[step.address] = bits | step.bits, value | step.value
    return bits_by_address


def factory_pairs(board: Board) -> list[tuple[int, int]]:
    """What the factory has written to be copied: to registers of the UART's page that nothing else uses."""
    assert board.uart is not None
    page = board.uart.base // PAGE * PAGE
    return [(page + 0xF00, 0x12345678), (page + 0xF04, 0x9ABCDEF0)]


def run_until_hello(board: Board, elf: Elf) -> Booted:
    frames, written, unit, memory = run_until(board, elf, 1)
    return Booted(elf, parse_info(frames[0].payload), written, unit, memory)


def loaded(board: Board, elf: Elf, pages: set[int]) -> Any:
    """A bare core with the board's memories, the firmware in them, and these pages of registers. It has no DWT: an
    access to it faults."""
    import unicorn  # noqa: PLC0415
    from unicorn import arm_const  # noqa: PLC0415

    assert board.memory is not None
    assert board.unicorn is not None
    cpu = getattr(arm_const, CPUS[board.unicorn.cpu])
    engine = unicorn.Uc(unicorn.UC_ARCH_ARM, unicorn.UC_MODE_THUMB, cpu=cpu)
    engine.mem_map(board.memory.flash_origin, board.memory.flash_bytes)
    engine.mem_map(board.memory.ram_origin, board.memory.ram_bytes)
    for page in {0xE000E000} | pages:
        engine.mem_map(page, PAGE)
    for segment in elf.segments:
        engine.mem_write(segment.load, segment.data)
    return engine


def imxrt_vectors(board: Board, engine: Any) -> int:
    """As the boot ROM of an i.MX RT reads the flash: the vector table that it starts by. IMXRT1060RM, 9.6.3 and 9.7."""
    assert board.memory is not None
    origin = board.memory.flash_origin

    def words(address: int, count: int) -> list[int]:
        return [int.from_bytes(engine.mem_read(address + 4 * i, 4), "little") for i in range(count)]

    assert words(origin, 1) == [0x42464346], "FCFB, a configuration of FlexSPI"
    header, entry, _, dcd, image, itself, csf, _ = words(origin + 0x1000, 8)
    assert header & 0xF0FFFFFF == 0x402000D1 & 0xF0FFFFFF, "an image vector table of 32 bytes"
    assert (itself, dcd, csf) == (origin + 0x1000, 0, 0), "where it says, no commands, no signature"
    assert words(image, 3) == [origin, 8 << 20, 0]
    return entry


def unit_of(board: Board, engine: Any, requests: bytes, overrun: int | None) -> Uarte | SerialLine:
    """The model of the board's UART."""
    assert board.memory is not None
    assert board.uart is not None
    if board.uart.kind in LAYOUTS:
        ram = range(board.memory.ram_origin, board.memory.ram_origin + board.memory.ram_bytes)
        return Uarte(
            board.uart.kind, ram, lambda at, size: bytes(engine.mem_read(at, size)), engine.mem_write, requests
        )
    return MODELS[board.uart.kind](requests, overrun)


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
) -> tuple[list[ProtocolFrame], list[tuple[int, int]], Uarte | SerialLine, dict[int, int]]:
    """Runs firmware until it has sent `count` frames: these, what it wrote to registers, its UART's model, and
    registers of the core. requests: what comes over the line."""
    import unicorn  # noqa: PLC0415
    from unicorn import arm_const  # noqa: PLC0415

    assert board.memory is not None
    assert board.uart is not None
    used = {step.address // PAGE * PAGE for step in board.setup} | {board.uart.base // PAGE * PAGE}
    used |= {IMXRT_GPR} if board.boot2 == "imxrt1060" else set()
    engine = loaded(board, elf, used)
    for page in used:
        engine.mem_write(page, LEFT * PAGE)
    answers = ready_bits(board)
    widths = {step.address: step.width for step in board.setup}
    written: list[tuple[int, int]] = []
    heard = Heard(count, engine)
    unit = unit_of(board, engine, requests, overrun)
    modelled = range(board.uart.base, board.uart.base + unit.SPAN)

    def on_read(uc: Any, access: int, address: int, size: int, value: int, data: Any) -> None:
        if address in modelled:
            engine.mem_write(address, unit.read(address - modelled.start, size).to_bytes(size, "little"))
            heard.take(unit.sent)
        elif address in answers:
            assert size == widths.get(address, 4), "the register's width"
            bits, ready = answers[address]
            value = int.from_bytes(engine.mem_read(address, size), "little")
            engine.mem_write(address, (value & ~bits & (1 << 8 * size) - 1 | ready).to_bytes(size, "little"))

    def on_write(uc: Any, access: int, address: int, size: int, value: int, data: Any) -> None:
        value &= (1 << 8 * size) - 1
        written.append((address, value))
        if address in modelled:
            unit.write(address - modelled.start, size, value)
        else:
            assert size == widths.get(address, 4), "the register's width"

    engine.hook_add(unicorn.UC_HOOK_MEM_WRITE, lambda *_: engine.emu_stop(), begin=AIRCR, end=AIRCR)
    for page in used:
        engine.hook_add(unicorn.UC_HOOK_MEM_READ, on_read, begin=page, end=page + PAGE - 1)
        engine.hook_add(unicorn.UC_HOOK_MEM_WRITE, on_write, begin=page, end=page + PAGE - 1)
    engine.mem_write(MPU_TYPE, (8 << 8).to_bytes(4, "little"))  # eight regions
    engine.hook_add(unicorn.UC_HOOK_MEM_WRITE, on_write, begin=MPU_CTRL, end=MPU_CTRL)
    for step in board.setup:
        if step.op == "pairs":
            words = [*(word for pair in factory_pairs(board) for word in pair), 0xFFFFFFFF]
            engine.mem_write(step.address, b"".join(word.to_bytes(4, "little") for word in words))
    vectors = imxrt_vectors(board, engine) if board.boot2 == "imxrt1060" else elf.symbol("tc_vector_table").address
    stack, entry = (int.from_bytes(engine.mem_read(vectors + at, 4), "little") for at in (0, 4))
    engine.reg_write(arm_const.UC_ARM_REG_SP, stack)
    engine.emu_start(entry | 1, 0xDFFFFFFE, count=5_000_000)
    assert len(heard.frames) == count, f"{len(heard.frames)} frames"
    assert heard.frames[0].type == Reply.INFO, "no hello"
    core = {a: int.from_bytes(engine.mem_read(a, 4), "little") for a in (VTOR, AIRCR, CPACR, SYST_CSR)}
    return heard.frames, written, unit, core


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
    waited = ready_bits(board)
    for step in board.setup:
        if step.op == "pairs":
            expected += factory_pairs(board)
        if step.op in ("wait", "pairs"):
            continue
        bits, ready = waited.get(step.address, (0, 0))
        before = held.get(step.address, int.from_bytes(LEFT * step.width, "little")) & ~bits | ready
        rest = before & ~step.bits
        after = {"write": step.bits, "set": rest | step.value, "clear": rest}[step.op]
        held[step.address] = after
        expected.append((step.address, after))
    first = FLEXRAM if name == "teensy-4.1" else []
    before_protection = booted.written[: booted.written.index((MPU_CTRL, 1))]
    assert before_protection == first + expected


@pytest.mark.parametrize("name", BOARDS)
def test_the_baud_rate_is_right(boot: Any, name: str) -> None:
    uart = board_of(name).uart
    assert uart is not None
    assert boot(name, "gcc").unit.baud(uart.clock_hz) == pytest.approx(uart.baud, rel=0.01)


@pytest.mark.parametrize("name", BOARDS)
def test_the_core_is_set_up(boot: Any, name: str) -> None:
    """Vector table, FPU, timer; the stack at the start of the RAM, so that an overflow leaves it."""
    board = board_of(name)
    assert board.memory is not None
    booted = boot(name, "gcc")
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
    frames, _, _, core = run_until(board, boot(name, "gcc").elf, 6, requests + encode(Request.END), overrun)
    assert [frame.type for frame in frames] == [Reply.INFO, Reply.INFO, *3 * [Reply.RESULT], Reply.END]
    assert core[AIRCR] == 0x05FA0004, "it starts again"
    results = [parse_result(frame.payload) for frame in frames[2:5]]
    assert [result.outputs for result in results] == [b"".join(toy.reference(t).outputs) for t in inputs]
    assert all(result.status == 0 and result.guards == 0 for result in results)
