# SPDX-License-Identifier: Apache-2.0
"""Firmware that runs on the board itself and talks over its UART, and the files that flash tools take."""

from __future__ import annotations

import hashlib
import json
from dataclasses import asdict
from pathlib import Path

from tinyc.base import paths
from tinyc.base.dataclass import dataclass
from tinyc.base.errors import Loc, TinycError
from tinyc.base.files import read_text
from tinyc.base.templates import render
from tinyc.board import Board
from tinyc.board.core import core_named
from tinyc.board.parts import Uart
from tinyc.options.build import Protocol
from tinyc.toolchain.compile import CONSOLE, Harness, Sources, link_firmware, macro
from tinyc.toolchain.compilers import Toolchain
from tinyc.toolchain.elf import read_elf, section_bytes
from tinyc.toolchain.image import Image, image_of, intel_hex, seal_boot2
from tinyc.toolchain.uart import at_baud, uart_driver
from tinyc.toolchain.uf2 import uf2

MANIFEST = "device.json"
DESCRIPTIONS = {  # of the image, for boot ROMs that need no second stage
    "esp32": "boot_esp32.S",
    "imxrt1060": "boot_imxrt1060.S",
    "rp2350": "image_def_rp2350.S",
}
REQUEST_SECONDS = 2  # the rest of a request that does not come in this time is given up


@dataclass(frozen=True, slots=True)
class MlperfTask:
    """How MLPerf Tiny gives a model its input and wants its output: as real numbers, or pixels from 0 to 255, else the
    input's own bytes; and the mean square of input minus output instead of the outputs. frame_bytes: of a model that
    listens, the features of one step in time. baud: what the benchmark uses."""

    model: str = ""
    float_input: bool = False
    unsigned_input: bool = False
    mean_square: bool = False
    frame_bytes: int = 0
    baud: int | None = None


TASKS = {
    "kws01": MlperfTask("kws01"),
    "vww01": MlperfTask("vww01", unsigned_input=True),
    "ic01": MlperfTask("ic01", unsigned_input=True),
    "ad01": MlperfTask("ad01", float_input=True, mean_square=True, baud=921_600),
    "sww01": MlperfTask("sww01", frame_bytes=40),
}


@dataclass(frozen=True, slots=True)
class Device:
    """What device.json says: firmware for a board in `<folder>/<model>.elf`, `.bin`, `.hex`, and `.uf2` where the
    board takes that. board_file: of a board that does not come with tinyc."""

    board: str
    board_file: str
    model: str
    protocol: Protocol
    baud: int
    origin: int
    flash_bytes: int
    sha256: str


@dataclass(frozen=True, slots=True)
class Dialogue:
    """How the firmware speaks. task: of MLPerf Tiny, for its protocol. baud: None for the task's, if the UART can make
    it, or the board's."""

    protocol: Protocol = "tinyc"
    task: str | None = None
    baud: int | None = None


_PLAIN = Dialogue()
_TASK_HINT = "give the --task of this model, or leave it out"


def build_device(
    sources: Sources,
    board: Board,
    toolchain: Toolchain,
    library: Path,
    folder: Path,
    dialogue: Dialogue = _PLAIN,
) -> Device:
    """Links the library's object with the UART harness, and writes the image in every form. Raises TinycError when the
    board has no UART, or one that cannot make that baud rate, the firmware does not fit, or the model cannot be asked
    by MLPerf's protocol."""
    model, protocol, task = sources.name, dialogue.protocol, dialogue.task
    uart = at_baud(require_uart(board), dialogue.baud, TASKS[task].baud if task in TASKS else None)
    folder.mkdir(parents=True, exist_ok=True)
    defines = {"TC_MODEL_RUN": "tc_timed_run", "TC_TIMED_RUN": f"{model}_run", "TC_RECEIVE_BYTES": "1"}
    if protocol == "mlperf":
        write_mlperf_glue(sources, folder, task)
    else:
        defines["TC_REQUEST_SECONDS"] = f"{REQUEST_SECONDS}u"
    main = "mlperf.c" if protocol == "mlperf" else "main.c"
    harness = _uart_harness(main, board, uart, folder, defines, toolchain)
    elf, _ = link_firmware(sources, board, toolchain, library, folder, harness)
    image = image_of(read_elf(elf))
    _write_images(image, folder / model, board)
    digest = hashlib.sha256(image.data).hexdigest()
    own = "" if Path(board.file).parent == paths.boards_dir() else str(Path(board.file).resolve())
    device = Device(board.name, own, model, protocol, uart.baud, image.origin, len(image.data), digest)
    (folder / MANIFEST).write_text(json.dumps(asdict(device), indent=2) + "\n", encoding="utf-8")
    return device


def require_uart(board: Board) -> Uart:
    """The board's UART. Raises TinycError when its description has none, or nothing runs firmware with one."""
    if board.uart is None or board.is_host or board.memory is None:
        raise TinycError(
            f"tinyc makes no firmware with a UART for {board.name}",
            hint="[uart] in the board's file describes one: docs/boards.md; the library itself needs none",
        )
    return board.uart


def read_device(folder: Path) -> Device:
    """What `tinyc build` wrote into the folder. Raises TinycError when there is no such file, or it is damaged."""
    path = folder / MANIFEST
    try:
        return Device(**json.loads(read_text(path)))
    except OSError as error:
        raise TinycError(
            f"there is no firmware for a board here: {error.strerror}",
            Loc(str(path)),
            "`tinyc build MODEL --board B` makes it, for boards with a UART",
        ) from error
    except (ValueError, TypeError, RecursionError) as error:
        raise TinycError("the file is damaged", Loc(str(path)), "build again") from error


def build_vectors(
    sources: Sources, board: Board, toolchain: Toolchain, library: Path, folder: Path, inputs: list[bytes]
) -> Path:
    """Firmware that runs the model on these inputs (each all inputs of one inference) and prints the outputs, for a
    UART whose every word written is a character at CONSOLE; its ELF file. No register of the board is touched."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "vectors.h").write_text(render("firmware/vectors.h.j2", {"vectors": inputs}), encoding="utf-8")
    uart = Uart("trivial", CONSOLE, 1)
    defines = {
        "TC_MODEL_RUN": "tc_timed_run",
        "TC_TIMED_RUN": f"{sources.name}_run",
        "TC_STAYS_WHEN_DONE": "1",
        "TC_WITHOUT_PROTECTION": "1",
        "TC_DWT": "1",  # the platform that tinyc describes to Renode has it
    }
    harness = _uart_harness("vectors.c", board, uart, folder, defines, None)
    elf, _ = link_firmware(sources, board, toolchain, library, folder, harness)
    return elf


def _uart_harness(
    main: str, board: Board, uart: Uart, folder: Path, defines: dict[str, str], boot2: Toolchain | None
) -> Harness:
    """boot2: the compiler of the second stage, None to leave it out, and the board's own registers alone."""
    setup = folder / "board_setup.c"
    steps = board.setup if boot2 is not None else ()
    setup.write_text(render("firmware/board_setup.c.j2", {"board": board.name, "steps": steps}), encoding="utf-8")
    source, selecting = uart_driver(uart.kind)
    core = core_named(board.core)
    generated = [setup]
    if boot2 is not None and board.boot2 in DESCRIPTIONS:
        generated.append(paths.templates_dir() / "firmware" / DESCRIPTIONS[board.boot2])
    elif boot2 is not None and board.boot2:
        generated.append(_write_boot2(board, boot2, folder))
    all_defines = {
        "TC_UART_BASE": f"0x{uart.base:08X}u",
        "TC_UART_CLOCK_HZ": f"{uart.clock_hz}u",
        "TC_UART_BAUD": f"{uart.baud}u",
        "TC_CORE_HZ": f"{board.clock_hz or 1_000_000}u",
        "TC_PERIPHERALS": "1",
        **selecting,
        **({"TC_CACHES": "1"} if core.cached and boot2 is not None else {}),
        **dict.fromkeys(core.defines, "1"),
        **defines,
    }
    own_timer = core.timer if boot2 is not None else ""  # an emulator has that of the instruction set
    timer = f"timer_{own_timer or board.startup.replace('-', '_')}.c"
    sources = (main, *(("text.c",) if main != "main.c" else ()), "port_uart.c", source, timer)
    return Harness(sources, all_defines, tuple(generated))


def _write_boot2(board: Board, toolchain: Toolchain, folder: Path) -> Path:
    """The second stage, assembled and with its checksum, as data for the linker."""
    code = folder / "boot2.o"
    source = paths.templates_dir() / "firmware" / f"boot2_{board.boot2}.S"
    origin = board.memory.flash_origin if board.memory is not None else 0
    define = f"-DTC_FLASH_ORIGIN=0x{origin:08x}"
    toolchain.run([define, "-c", source, "-o", code], "assembling the second stage bootloader")
    sealed = seal_boot2(section_bytes(code, ".boot2"))
    path = folder / "boot2_image.S"
    rows = (", ".join(map(str, sealed[at : at + 16])) for at in range(0, len(sealed), 16))
    path.write_text('    .section .boot2, "a"\n' + "".join(f"    .byte {row}\n" for row in rows), encoding="utf-8")
    return path


def _write_images(image: Image, stem: Path, board: Board) -> None:
    stem.with_suffix(".bin").write_bytes(image.data)
    stem.with_suffix(".hex").write_text(intel_hex(image), encoding="ascii")
    if board.flashing is not None and board.flashing.uf2_family:
        stem.with_suffix(".uf2").write_bytes(uf2(image, board.flashing.uf2_family))


def write_mlperf_glue(sources: Sources, folder: Path, task: str | None) -> None:
    """What mlperf.c needs of the model, `mlperf_glue.h`. Raises TinycError when the protocol cannot ask it."""
    header, model, prefix = sources.header, sources.name, sources.name.upper()
    text = header.read_text(encoding="utf-8")
    single = macro(header, f"{prefix}_INPUT_COUNT") == 1 and macro(header, f"{prefix}_OUTPUT_COUNT") == 1
    size = macro(header, f"{prefix}_INPUT_0_SIZE")
    hop = size if f"{model}_push(" in text else 0
    quantized = f"{model}_dequantize_output_0(" in text and (hop or f"{model}_quantize_input_0(" in text)
    bytes_each = hop or macro(header, f"{prefix}_INPUT_0_BYTES") == size
    if not (single and quantized and bytes_each):
        message = "MLPerf's protocol needs a model with one int8 input and one quantized output"
        raise TinycError(message, hint="build without --harness mlperf")
    if task is not None and task not in TASKS:
        raise TinycError(f"MLPerf Tiny has no task '{task}'", hint=f"there are: {', '.join(TASKS)}")
    mlperf = TASKS[task] if task is not None else MlperfTask()
    if hop:
        _check_listens(task, mlperf, text, model)
    elif mlperf.frame_bytes and (size % mlperf.frame_bytes or size == mlperf.frame_bytes or "int8_t *" not in text):
        message = f"the task {task} needs int8 inputs of several frames of {mlperf.frame_bytes}, not of {size} bytes"
        raise TinycError(message, hint=_TASK_HINT)
    if mlperf.mean_square and size != macro(header, f"{prefix}_OUTPUT_0_SIZE"):
        raise TinycError(f"the task {task} compares input and output: they must have the same size", hint=_TASK_HINT)
    scales = f"#define {prefix}_OUTPUT_0_SCALES " in text
    glue = render(
        "firmware/mlperf_glue.h.j2", {"model": model, "prefix": prefix, "task": mlperf, "hop": hop, "scales": scales}
    )
    (folder / "mlperf_glue.h").write_text(glue, encoding="utf-8")


def _check_listens(task: str | None, mlperf: MlperfTask, header: str, model: str) -> None:
    """Raises TinycError where the task gives the model something else than samples, or the outputs are no int8."""
    if task is not None and not mlperf.frame_bytes:
        raise TinycError(
            f"the task {task} gives the model its input, not samples",
            hint="build without --frontend, or --task sww01 or none",
        )
    if f"const int8_t *{model}_output_0(" not in header:
        raise TinycError(
            "MLPerf's protocol for a front end needs an int8 output", hint="build without --harness mlperf"
        )
