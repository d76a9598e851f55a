# SPDX-License-Identifier: Apache-2.0
"""`tinyc flash` around the protocols: images, what is planned and refused, SAM-BA, other programs, and the whole chain
from a model over a flashed chip to outputs."""

from __future__ import annotations

import json
import os
import random
import stat
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper
from samba_simulator import NrfBoard, SamBaBoard, SamdBoard
from serial.tools.list_ports_common import ListPortInfo
from stm32_simulator import LineFault, SimulatedLine, Stm32

from tinyc.base.errors import TinycError
from tinyc.base.serial_line import SerialPort
from tinyc.board import load_board
from tinyc.cli.main import main
from tinyc.cli.serial_text import frame_text
from tinyc.flash import flash, plan_flash, samba
from tinyc.flash.handover import tool_command
from tinyc.flash.samba import flash_samba
from tinyc.run import protocol, serial
from tinyc.toolchain.compile import Sources, compile_firmware
from tinyc.toolchain.compilers import find_toolchain
from tinyc.toolchain.elf import Elf, Segment, read_elf
from tinyc.toolchain.image import Image, image_of, intel_hex, seal_boot2
from tinyc.toolchain.uf2 import uf2

sys.path.append(str(Path(__file__).resolve().parents[1] / "target"))
from serial_board import board_at_port

DATA = random.Random(2).randbytes(9_001)

# --- images ---


def test_image_fills_gaps_as_erased() -> None:
    segments = (Segment(0x0800_0010, 0x2000_0000, b"data"), Segment(0x0800_0000, 0x0800_0000, b"code"))
    image = image_of(Elf((), segments, ()))
    assert image == Image(0x0800_0000, b"code" + b"\xff" * 12 + b"data")


def test_image_of_nothing() -> None:
    with pytest.raises(TinycError, match="nothing to load"):
        image_of(Elf((), (), ()))


@pytest.mark.parametrize("origin", [0, 0x0800_0000, 0x1000_FFF8])
def test_intel_hex(origin: int) -> None:
    image = Image(origin, DATA)
    memory: dict[int, int] = {}
    high = 0
    lines = intel_hex(image).split()
    for line in lines:
        record = bytes.fromhex(line.removeprefix(":"))
        assert sum(record) % 256 == 0
        assert record[0] == len(record) - 5
        address, kind, data = int.from_bytes(record[1:3], "big"), record[3], record[4:-1]
        if kind == 4:
            high = int.from_bytes(data, "big") << 16
        elif kind == 0:
            memory |= {high + (address + i) % 0x10000: byte for i, byte in enumerate(data)}
    assert lines[-1] == ":00000001FF"
    assert bytes(memory[origin + i] for i in range(len(DATA))) == DATA
    assert len(memory) == len(DATA)


def test_uf2() -> None:
    blocks = uf2(Image(0x1000_0000, DATA), 0xE48B_FF56)
    assert len(blocks) == 512 * -(-len(DATA) // 256)
    content = b""
    for at in range(0, len(blocks), 512):
        words = np.frombuffer(blocks[at : at + 32], "<u4").tolist()
        assert words[:3] == [0x0A324655, 0x9E5D5157, 0x2000]
        assert words[3:] == [0x1000_0000 + at // 2, 256, at // 512, len(blocks) // 512, 0xE48B_FF56]
        assert blocks[at + 508 : at + 512] == bytes.fromhex("306fb10a")
        content += blocks[at + 32 : at + 32 + 256]
    assert content[: len(DATA)] == DATA
    assert not any(content[len(DATA) :])


def test_boot2_checksum() -> None:
    """CRC-32/MPEG-2 of `123456789` is 0x0376E6E7; and of a sealed block with its own,
    most significant byte first, 0."""

    def crc(data: bytes) -> int:
        value = 0xFFFFFFFF
        for bit in (byte >> shift & 1 for byte in data for shift in range(7, -1, -1)):
            value = (value << 1 & 0xFFFFFFFF) ^ (0x04C11DB7 if (value >> 31) ^ bit else 0)
        return value

    assert crc(b"123456789") == 0x0376E6E7
    sealed = seal_boot2(b"\x01\x02\x03")
    assert len(sealed) == 256
    assert crc(sealed[:252] + sealed[:251:-1]) == 0
    with pytest.raises(TinycError, match="room for 252"):
        seal_boot2(bytes(253))


# --- builds ---


def write_model(path: Path) -> Path:
    """gemm 9 -> 5 with an .npz of calibration inputs beside it."""
    rng = np.random.default_rng(0)
    consts = [
        numpy_helper.from_array(rng.standard_normal((9, 5)).astype(np.float32), "w"),
        numpy_helper.from_array(rng.standard_normal(5).astype(np.float32), "b"),
    ]
    graph = helper.make_graph(
        [helper.make_node("Gemm", ["x", "w", "b"], ["y"], "dense")], "net",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, [1, 9])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, [1, 5])], consts,
    )  # fmt: skip
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)], ir_version=8), path)
    np.savez(path.with_suffix(".calib.npz"), x=rng.standard_normal((6, 1, 9)).astype(np.float32))
    return path


Tinyc = Callable[..., tuple[int, str, str]]


@pytest.fixture
def tinyc(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Tinyc:
    """tinyc("flash", ...) -> exit code, stdout, stderr."""
    monkeypatch.setenv("NO_COLOR", "1")

    def run(*arguments: object) -> tuple[int, str, str]:
        monkeypatch.setattr(sys, "argv", ["tinyc", *map(str, arguments)])
        capsys.readouterr()
        with pytest.raises(SystemExit) as leave:
            main()
        captured = capsys.readouterr()
        return int(leave.value.code or 0), captured.out, captured.err

    return run


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_model(tmp_path_factory.mktemp("model") / "net.onnx")


@pytest.fixture(scope="module")
def built(model: Path) -> Callable[[str], Path]:
    """built(board) -> the build folder, made once."""
    from tinyc.options.build import Options  # noqa: PLC0415
    from tinyc.pipeline.building import build  # noqa: PLC0415
    from tinyc.pipeline.progress import Progress  # noqa: PLC0415

    folders: dict[str, Path] = {}

    def folder(board: str) -> Path:
        if board not in folders:
            try:
                _, folders[board] = build(model, model.parent / board, Options(board), Progress())
            except TinycError as error:
                if error.exit_code == 2 and "install" in error.hint:
                    pytest.skip(error.message)
                raise
        return folders[board]

    return folder


def test_what_a_build_writes(built: Callable[[str], Path]) -> None:
    folder = built("stm32f4-discovery") / "device"
    device = json.loads((folder / "device.json").read_text())
    binary = (folder / "net.bin").read_bytes()
    assert device["board"] == "stm32f4-discovery"
    assert device["board_file"] == ""
    assert device["flash_bytes"] == len(binary)
    stack, entry = np.frombuffer(binary[:8], "<u4").tolist()
    memory = load_board("stm32f4-discovery").memory
    assert memory is not None
    assert stack == memory.ram_origin + memory.stack_bytes
    assert entry & 1
    assert device["origin"] <= entry < device["origin"] + len(binary)


def test_the_whole_chain(built: Callable[[str], Path], model: Path, tmp_path: Path, tinyc: Tinyc) -> None:
    """Build, flash a simulated chip, boot what lies in its flash, infer, compare."""
    folder = built("stm32f4-discovery")
    chip = Stm32(contents=b"\x00" * 40_000)
    with chip.at_port() as port:
        code, out, err = tinyc("flash", folder, "--port", port, "--method", "stm32")
    assert code == 0, err
    assert "bytes flashed and checked" in out
    image = tmp_path / "flash.bin"
    image.write_bytes(bytes(chip.flash))
    assert chip.started == 0x0800_0000
    with board_at_port(load_board("stm32f4-discovery"), image) as port:
        code, out, err = tinyc("run", model, "--board", "stm32f4-discovery", "--port", port, "--json")
        assert code == 0, err
        report = json.loads(out)
        assert report["passed"]
        assert report["inferences"] == 6
        assert report["output_bytes"] == 30
        assert report["mismatches"] == 0
        assert report["emulated"]
        assert (report["cycles"], report["mean_cycles"]) == ([], None), "the board is QEMU"
        assert len(report["ticks"]) == 6
        assert report["modelled_cycles"] > 0
        code, out, err = tinyc("run", model, "--board", "stm32f4-discovery", "--port", port)
        assert code == 0, err
        assert "30 output bytes of 6 inputs against the integer reference: all equal" in out
        assert "no cycles of stm32f4-discovery" in out
        assert "modelled" in out
        assert "measured / modelled" not in out
        assert not any(line.startswith("measured") for line in out.splitlines())
        # Another model than the one that was flashed.
        code, out, err = tinyc("run", model, "--board", "stm32f4-discovery", "--port", port, "--name", "other")
        assert code == 2
        assert "the board has another model: 'net " in err


def test_run_sees_wrong_outputs(
    built: Callable[[str], Path], model: Path, tinyc: Tinyc, monkeypatch: pytest.MonkeyPatch
) -> None:
    from tinyc.pipeline import device_run as ondevice  # noqa: PLC0415

    original = ondevice.reference_outputs

    def wrong(*arguments: object, **words: object) -> object:
        outputs = original(*arguments, **words)  # type: ignore[arg-type]
        outputs[2][0] = outputs[2][0] ^ 1
        return outputs

    monkeypatch.setattr(ondevice, "reference_outputs", wrong)
    elf = built("cortex-m4") / "device" / "net.elf"
    with board_at_port(load_board("cortex-m4"), elf) as port:
        code, out, _ = tinyc("run", model, "--board", "cortex-m4", "--port", port)
    assert code == 1
    assert "5 differ, first in input 2" in out


def test_a_fault_is_looked_up_in_what_was_flashed(built: Callable[[str], Path], tmp_path: Path) -> None:
    """The emulator's firmware has its functions at other addresses."""
    folder, board = built("cortex-m4"), load_board("cortex-m4")
    (step,) = read_elf(folder / "device" / "net.elf").step_functions("net").values()
    firmware = compile_firmware(Sources(folder, "net"), board, find_toolchain(board), "speed", tmp_path)
    assert firmware.read_elf().step_functions("net")[0].address != step.address
    fault = protocol.FaultFrame(0, 3, 0xFFFFFFF9, 0, (step.address & ~1) + 2, 0, 1 << 25, 0, 0, 0)
    said = serial._fault_on_board(firmware, fault, 7)
    assert said.message == f"the firmware faulted in step 0, {step.name}+0x2: division by zero (inference 7)"
    assert said.step == 0


def test_riscv_over_its_uart(built: Callable[[str], Path], model: Path, tinyc: Tinyc) -> None:
    """It begins again when it is told to end, without a reset of the machine, and then answers as before."""
    elf = built("riscv32imc") / "device" / "net.elf"
    with board_at_port(load_board("riscv32imc"), elf) as port:
        with SerialPort(port, 115_200) as line:
            reader = protocol.FrameReader(skip_noise=True)
            frames: list[protocol.ProtocolFrame] = []
            hello: list[protocol.ProtocolFrame] = []  # behind the answer to END
            silent = 0
            while not hello and silent < 40:  # what is sent before the other side listens is lost
                data = line.read(4096, 0.5)
                if not data:
                    silent += 1
                    line.write(protocol.encode(protocol.Request.END))
                frames += reader.feed(data)
                ends = [index for index, frame in enumerate(frames) if frame.type == protocol.Reply.END]
                hello = frames[ends[0] + 1 :] if ends else []
            assert protocol.parse_info(hello[0].payload).started
        code, out, err = tinyc("run", model, "--board", "riscv32imc", "--port", port, "--json")
    assert code == 0, err
    report = json.loads(out)
    assert report["passed"]
    assert (report["inferences"], report["mismatches"], len(report["ticks"])) == (6, 0, 6)
    assert report["stack_bytes"] > 0
    assert report["damaged_guards"] == []


def test_monitor(built: Callable[[str], Path], tinyc: Tinyc, monkeypatch: pytest.MonkeyPatch) -> None:
    """Somebody asks until there is an answer, and presses Ctrl-C at the next one."""
    shown: list[str] = []

    def typed() -> Iterator[str]:
        while len(shown) < 2:
            yield protocol.encode(protocol.Request.INFO).decode("latin-1")
            time.sleep(0.5)

    def text(frame: protocol.ProtocolFrame) -> str:
        shown.append(frame_text(frame))
        if len(shown) == 2:
            raise KeyboardInterrupt
        return shown[0]

    monkeypatch.setattr(sys, "stdin", typed())
    monkeypatch.setattr("tinyc.cli.serial_text._encoded", lambda text: text.encode("latin-1"))
    monkeypatch.setattr("tinyc.cli.serial_text.frame_text", text)
    elf = built("cortex-m4") / "device" / "net.elf"
    with board_at_port(load_board("cortex-m4"), elf) as port:
        code, out, _ = tinyc("flash", "--monitor", "--port", port, "--frames")
    assert code == 130
    assert out.startswith("INFO net ")


def test_monitor_without_a_board(tinyc: Tinyc) -> None:
    code, _, err = tinyc("flash", "--monitor", "--port", "/dev/ttyNOBODY")
    assert code == 2
    assert "there is no such port" in err
    for words, hint in (
        ((), "--monitor alone"),
        (("--monitor",), "--ports lists"),
        (("none.bin", "--monitor"), "--ports"),
    ):
        code, _, err = tinyc("flash", *words)
        assert code == 2
        assert hint in err


def test_ports_are_listed_with_their_usb_ids(tinyc: Tinyc, monkeypatch: pytest.MonkeyPatch) -> None:
    """MLPerf Tiny's runner has to be told them."""
    probe, uart = ListPortInfo("/dev/ttyACM0"), ListPortInfo("/dev/ttyS0")
    probe.vid, probe.pid, probe.description = 0x0483, 0x374B, "STM32 STLink"
    monkeypatch.setattr("serial.tools.list_ports.comports", lambda: [uart, probe])
    code, out, _ = tinyc("flash", "--ports")
    assert code == 0
    assert out.splitlines() == ["/dev/ttyACM0  0483:374b  STM32 STLink", "/dev/ttyS0"]
    ports = [
        {"port": "/dev/ttyACM0", "usb": "0483:374b", "description": "STM32 STLink"},
        {"port": "/dev/ttyS0", "usb": None, "description": None},
    ]
    assert json.loads(tinyc("flash", "--ports", "--json")[1]) == {"ports": ports}
    code, out, _ = tinyc("flash", "--monitor", "--json", "--port", "/dev/ttyS0")
    assert (code, json.loads(out)["error"]["message"]) == (2, "what a board sends is no JSON")


# --- refusals before a port is touched ---


def test_wrong_board_for_a_build(built: Callable[[str], Path], tinyc: Tinyc) -> None:
    code, _, err = tinyc("flash", built("stm32f4-discovery"), "--port", "x", "--board", "nucleo-f746zg")
    assert code == 2
    assert "was built for stm32f4-discovery, not for nucleo-f746zg" in err


def test_board_that_is_not_flashed(built: Callable[[str], Path], tinyc: Tinyc) -> None:
    code, _, err = tinyc("flash", built("cortex-m4"), "--port", "x")
    assert code == 2
    assert "cortex-m4 is not flashed by tinyc" in err


def test_changed_image(built: Callable[[str], Path], tmp_path: Path, tinyc: Tinyc) -> None:
    folder = tmp_path / "device"
    folder.mkdir()
    for file in (built("stm32f4-discovery") / "device").iterdir():
        (folder / file.name).write_bytes(file.read_bytes() + (b"x" if file.suffix == ".bin" else b""))
    code, _, err = tinyc("flash", folder, "--port", "x", "--method", "stm32")
    assert code == 2
    assert "not what the build wrote" in err


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["nowhere"], "there is no such folder or file"),
        (["{bin}"], "a file does not say which board it is for"),
        (["{bin}", "--board", "stm32f4-discovery", "--method", "stm32"], "needs the board's port"),
        (["{bin}", "--board", "stm32f4-discovery", "--method", "bossac"], "cannot be flashed by bossac"),
        (["{bin}", "--board", "stm32f4-discovery", "--port", "/dev/ttyNOBODY"], "there is no such port"),
        (["{big}", "--board", "stm32f4-discovery", "--port", "x"], "the image takes 0x08000000 to 0x08100000"),
        (["{empty}"], "there is no firmware for a board here"),
    ],
)
def test_refusals(tmp_path: Path, tinyc: Tinyc, arguments: list[str], message: str) -> None:
    places = {"bin": tmp_path / "app.bin", "big": tmp_path / "big.bin", "empty": tmp_path / "folder"}
    places["bin"].write_bytes(DATA)
    places["big"].write_bytes(bytes((1 << 20) + 1))
    places["empty"].mkdir()
    code, _, err = tinyc("flash", *(text.format(**places) for text in arguments))
    assert code in (1, 2)
    assert message in err


# --- SAM-BA ---


def samba_job(tmp_path: Path, port: str, offset: int = 0x1_0000):
    binary = tmp_path / "app.bin"
    binary.write_bytes(DATA)
    job = plan_flash(binary, "arduino-nano-33-ble", port, "samba")
    return replace(job, flashing=replace(job.flashing, enter=()))


BOARDS = {
    "samd": SamdBoard,
    "samd, no checksum": lambda **options: SamdBoard(letters="XY", **options),
    "nrf": NrfBoard,
}


@pytest.mark.parametrize("kind", BOARDS)
def test_samba(tmp_path: Path, kind: str) -> None:
    board = BOARDS[kind]()
    with board.at_port() as port:
        result = flash(samba_job(tmp_path, port))
    assert board.flash[: len(DATA)] == DATA
    assert board.reset
    assert not board.accidents
    assert f"[Arduino:{board.letters}]" in result.how


@pytest.mark.parametrize("kind", ["samd", "nrf"])
def test_samba_finds_wrong_bytes(tmp_path: Path, kind: str) -> None:
    for wrong, page in ((5000, "00011000"), (len(DATA) - 1, "00012000")):
        board = BOARDS[kind](corrupt=wrong)
        with board.at_port() as port, pytest.raises(TinycError, match=f"what was written at 0x{page} is not there"):
            flash(samba_job(tmp_path, port))
        assert not board.reset


def test_samba_without_extensions(tmp_path: Path) -> None:
    board = SamdBoard(letters="")
    with board.at_port() as port, pytest.raises(TinycError, match="cannot write flash by itself"):
        flash(samba_job(tmp_path, port))
    assert not any(board.flash)  # nothing was erased


@pytest.mark.parametrize(
    ("kind", "message"), [("samd", "writing at 0x00002000 failed"), ("nrf", "what was written at 0x00012000 is not")]
)
def test_samba_beyond_the_flash(tmp_path: Path, kind: str, message: str) -> None:
    board = BOARDS[kind](flash_bytes=8192)
    with board.at_port() as port, pytest.raises(TinycError, match=message):
        flash(samba_job(tmp_path, port))


def test_samba_version_without_an_end() -> None:
    class Endless(SamdBoard):
        def _answer(self, command: str) -> bytes:
            return b"v" * 1000 if command == "V" else super()._answer(command)

    with pytest.raises(TinycError, match="has no end"):
        flash_samba(SimulatedLine(Endless()), 0, Image(0, DATA))


@pytest.mark.parametrize("kind", BOARDS)
def test_samba_every_byte(kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Every byte of a session is lost, comes twice or is damaged: a wrong flash is never called good."""
    image = Image(0x1_0000, DATA[:40])
    monkeypatch.setattr(samba, "PAGE", 64)
    options = {"page": 64} if kind == "nrf" else {}

    def run(*faults: LineFault) -> tuple[SamBaBoard, SimulatedLine, bool]:
        board = BOARDS[kind](flash_bytes=8192, **options)
        line = SimulatedLine(board, *faults)
        try:
            flash_samba(line, 0x1_0000, image)
        except TinycError:
            return board, line, False
        return board, line, True

    _, line, done = run()
    assert done
    flashed = 0
    for to_board, count in line.bytes.items():
        for position in range(count):
            for kind_of_fault in ("lose", "twice", 0x01, 0x02, 0x10, 0x40, 0xFF):
                board, _, done = run(LineFault(to_board, position, kind_of_fault))
                assert not done or board.flash[:40] == image.data
                flashed += done
    assert flashed > 20  # in the version's text, and where the same digits come twice


# --- other programs ---


@pytest.fixture
def program(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[str, str], Path]:
    """program(name, script): a program of that name on PATH, alone there; the file that it writes its arguments to."""

    def make(name: str, script: str = "") -> Path:
        called = tmp_path / "called"
        file = tmp_path / "bin" / name
        file.parent.mkdir(exist_ok=True)
        file.write_text(f'#!/bin/sh\necho "$@" > {called}\n{script}\n')
        file.chmod(file.stat().st_mode | stat.S_IXUSR)
        monkeypatch.setenv("PATH", f"{file.parent}{os.pathsep}/bin{os.pathsep}/usr/bin")
        return called

    return make


@pytest.mark.parametrize(
    ("board", "name", "port", "arguments"),
    [
        ("nrf52840-dk", "pyocd", None, "load --no-wait --target nrf52840 --base-address 0x0 {stem}.bin"),
        ("arduino-nano-33-ble", "bossac", "/dev/ttyACM0", "--port ttyACM0 --erase --write --verify {stem}.bin --reset"),
        ("raspberry-pi-pico", "picotool", None, "load --verify --execute {stem}.bin"),
    ],
)
def test_handed_over(
    tmp_path: Path, program: Callable[..., Path], board: str, name: str, port: str | None, arguments: str
) -> None:
    binary = tmp_path / "app.bin"
    binary.write_bytes(DATA)
    called = program(name)
    result = flash(plan_flash(binary, board, port, name))
    assert result.method == name
    assert called.read_text().strip() == arguments.format(stem=tmp_path / "app")


ESP_APP = b"\xe9" + bytes(31) + (0xABCD5432).to_bytes(4, "little") + bytes(500)
ESP_DIRECT = b"\x1d\x04\xdb\xae\x1d\x04\xdb\xae" + bytes(range(200))
ESP_MERGED = (b"\xe9" + bytes(31) + b"P\0\0\0").ljust(0x8000, b"\xff") + b"\xaa\x50" + bytes(0x8000) + ESP_APP


@pytest.mark.parametrize(("says", "write"), [("esptool.py v4.8.1\n4.8.1", "write_flash"), ("v5.0.2", "write-flash")])
@pytest.mark.parametrize(("data", "offset"), [(ESP_APP, "0x10000"), (ESP_MERGED, "0x0"), (ESP_DIRECT, "0x0")])
def test_an_image_of_espressif_belongs_where_its_kind_does(
    tmp_path: Path, program: Callable[..., Path], says: str, write: str, data: bytes, offset: str
) -> None:
    binary = tmp_path / "app.bin"
    binary.write_bytes(data)
    called = program("esptool", f"[ $1 = version ] && echo '{says}' || true")
    job = plan_flash(binary, "esp32-c3", "/dev/ttyUSB0")
    assert job.image.origin == int(offset, 0)
    flash(job)
    assert called.read_text().strip() == f"--port /dev/ttyUSB0 {write} {offset} {binary}"


@pytest.mark.parametrize("data", [DATA, b"", ESP_MERGED[:0x8000], b"\xe9", b"\x7fELF" + ESP_APP[4:], ESP_DIRECT[4:]])
def test_what_is_no_image_of_espressif_is_refused(tmp_path: Path, data: bytes) -> None:
    binary = tmp_path / "app.bin"
    binary.write_bytes(data)
    with pytest.raises(TinycError, match="neither an application of ESP-IDF nor"):
        plan_flash(binary, "esp32-c3", "/dev/ttyUSB0")


def test_program_that_fails(tmp_path: Path, program: Callable[..., Path]) -> None:
    binary = tmp_path / "app.bin"
    binary.write_bytes(DATA)
    program("picotool", "echo no board found; exit 1")
    with pytest.raises(TinycError, match="picotool failed:\n  no board found") as caught:
        flash(plan_flash(binary, "raspberry-pi-pico", None, "picotool"))
    assert caught.value.exit_code == 1


def test_program_that_is_not_there(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    binary = tmp_path / "app.bin"
    binary.write_bytes(DATA)
    monkeypatch.setenv("PATH", str(tmp_path))
    assert tool_command("picotool") is None
    with pytest.raises(TinycError, match="picotool is not installed") as caught:
        flash(plan_flash(binary, "raspberry-pi-pico", None, "picotool"))
    assert "apt install picotool" in caught.value.hint


def test_drive(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, built: Callable[[str], Path]) -> None:
    drives = tmp_path / "drives"
    monkeypatch.setenv("TINYC_DRIVES", str(drives))
    folder = built("raspberry-pi-pico")
    job = plan_flash(folder, None, None, "uf2")
    with pytest.raises(TinycError, match="no drive RPI-RP2 is mounted"):
        flash(job)
    (drives / "RPI-RP2").mkdir(parents=True)
    (drives / "OTHER").mkdir()
    result = flash(job)
    assert result.how == f"copied to {drives / 'RPI-RP2' / 'net.uf2'}"
    assert (drives / "RPI-RP2" / "net.uf2").read_bytes() == (folder / "device" / "net.uf2").read_bytes()


@pytest.mark.parametrize(
    ("mounted", "port", "method"),
    [(True, "/dev/ttyUSB0", "drive"), (True, None, "drive"), (False, "/dev/ttyUSB0", "stm32"), (False, None, "pyocd")],
)
def test_the_first_possible_method(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, mounted: bool, port: str | None, method: str
) -> None:
    """Without pyOCD a board with a drive and a bootloader is flashed by what is there."""
    binary = tmp_path / "app.bin"
    binary.write_bytes(DATA)
    monkeypatch.setattr("tinyc.flash.jobs.tool_command", lambda name: None)
    monkeypatch.setenv("TINYC_DRIVES", str(tmp_path / "drives"))
    if mounted:
        (tmp_path / "drives" / "NODE_L4R5ZI").mkdir(parents=True)
    assert plan_flash(binary, "nucleo-l4r5zi", port).method == method


def test_pico_image_begins_with_its_second_stage(built: Callable[[str], Path]) -> None:
    binary = (built("raspberry-pi-pico") / "device" / "net.bin").read_bytes()
    assert seal_boot2(binary[:252]) == binary[:256]
    assert any(binary[:32])
    stack, entry = np.frombuffer(binary[256:264], "<u4").tolist()
    memory = load_board("raspberry-pi-pico").memory
    assert memory is not None
    assert stack == memory.ram_origin + memory.stack_bytes
    assert memory.flash_origin < entry < memory.flash_origin + len(binary)


def test_pico2_image_says_what_it_is(built: Callable[[str], Path]) -> None:
    """As the boot ROM of an RP2350 reads it (data sheet, 5.9): a loop of one block in the first 4 KiB, whose item says
    that this is a program for the Arm cores, secure; vectors at the start of the flash."""
    folder = built("raspberry-pi-pico2") / "device"
    binary = (folder / "net.bin").read_bytes()
    words = np.frombuffer(binary[:4096], "<u4").tolist()
    at = words.index(0xFFFFDED3)
    image_type, last, link, end = words[at + 1 : at + 5]
    assert (image_type & 0xFF, image_type >> 8 & 0xFF) == (0x42, 1)
    flags = image_type >> 16
    assert (flags & 0xF, flags >> 4 & 3, flags >> 8 & 7, flags >> 12 & 7) == (1, 2, 0, 1)
    assert (last & 0xFF, last >> 8 & 0xFFFF) == (0xFF, 1)
    assert (link, end) == (0, 0xAB123579)
    memory = load_board("raspberry-pi-pico2").memory
    assert memory is not None
    assert words[0] == memory.ram_origin + memory.stack_bytes
    assert memory.flash_origin < words[1] < memory.flash_origin + len(binary)
    assert (folder / "net.uf2").read_bytes()[28:32] == (0xE48B_FF59).to_bytes(4, "little")
