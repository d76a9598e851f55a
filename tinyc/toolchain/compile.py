# SPDX-License-Identifier: Apache-2.0
"""A generated library and the firmware harness -> an ELF file that runs the model on test inputs."""

from __future__ import annotations

import re
import struct
from collections.abc import Mapping, Sequence
from pathlib import Path

from tinyc.base import paths
from tinyc.base.dataclass import dataclass
from tinyc.base.errors import Loc, TinycError
from tinyc.base.files import read_text
from tinyc.base.templates import render
from tinyc.board import Board
from tinyc.board.memories import PAGE
from tinyc.options.build import Optimize
from tinyc.toolchain.compilers import OPTIMIZE_FLAGS, Toolchain, argument
from tinyc.toolchain.elf import Elf, read_elf
from tinyc.toolchain.legality import check_legal

CODE_FLAGS = (
    "-std=c99",
    "-ffunction-sections",
    "-fdata-sections",
    "-fno-unwind-tables",
    "-fno-asynchronous-unwind-tables",
    "-fomit-frame-pointer",
    "-ffp-contract=off",
    "-g1",  # lines and callers, for profiles; to follow variables through optimized code takes gcc as long as the rest
)
WARNING_FLAGS = ("-Wall", "-Wextra", "-Wpedantic", "-Wconversion", "-Werror")
SANITIZE_FLAGS = ("-fsanitize=address,undefined", "-fno-sanitize-recover=all", "-fno-omit-frame-pointer")
# gcc: two equal steps must stay two functions, or a step could not be told from the other.
FAMILY_FLAGS = {"gcc": ("-fno-ipa-icf",), "clang": (), "zig": ("-fno-sanitize=undefined",)}
# The harness defines memcpy and memset; its loops must not become calls of them. It is compiled and linked in
# one command: clang would complain of the flags that only linking needs.
HARNESS_FLAGS = {
    "gcc": ("-fno-builtin", "-fno-tree-loop-distribute-patterns"),
    "clang": ("-fno-builtin", "-Wno-unused-command-line-argument"),
    "zig": ("-fno-builtin", "-Wno-unused-command-line-argument"),
}

# Where port_memory.c finds its requests and consoles: addresses at which no core has memory of its own.
REQUESTS, CONSOLE, REPLIES = 0xA000_0000, 0x4000_0000, 0x4000_1000
IO_DEFINES = {
    "memory": {
        "TC_REQUESTS": f"0x{REQUESTS:08X}u",
        "TC_CONSOLE": f"0x{CONSOLE:08X}u",
        "TC_REPLIES": f"0x{REPLIES:08X}u",
        "TC_WITHOUT_PROTECTION": "1",
    }
}


DUMPS_STEPS, HAS_STATE = 1, 4  # of the flags in tc_firmware_info


@dataclass(frozen=True, slots=True)
class Sources:
    """A generated library: `<name>.c`, `<name>.h` and what they include, in a folder."""

    folder: Path
    name: str

    @property
    def header(self) -> Path:
        return self.folder / f"{self.name}.h"


@dataclass(frozen=True, slots=True)
class Checks:
    """What firmware does beside running the model. dump_steps: it also sends the output bytes of every step. sanitize
    (host only): it stops at the first access outside the arena and at undefined behaviour."""

    dump_steps: bool = False
    sanitize: bool = False


NO_CHECKS = Checks()
_GUARD_BYTES = 64  # TC_GUARD_BYTES of port.h


@dataclass(frozen=True, slots=True)
class FirmwareInfo:
    """What the firmware says of its model: arena, bytes of every input and output, number of steps, and whether it
    remembers something from run to run."""

    arena_bytes: int
    arena_align: int
    input_bytes: tuple[int, ...]
    output_bytes: tuple[int, ...]
    steps: int
    has_state: bool = False


@dataclass(frozen=True, slots=True)
class Firmware:
    """An ELF file that runs `model` on `board`, ready for a Target.

    library_object: the library alone, compiled. dump_steps: it also sends the output of every step (and
    its counts and stack are then those of the sending, so they are not reported). sequence: of a model with state,
    how many inferences follow each reset; 0: all. sources: of the library.
    """

    elf: Path
    model: str
    board: Board
    toolchain: Toolchain
    library_object: Path
    info: FirmwareInfo
    dump_steps: bool = False
    sanitize: bool = False
    sequence: int = 0
    sources: Sources | None = None

    @property
    def resets(self) -> int | None:
        """The length of sequences, as `run.protocol.requests` takes it; None for a model without state."""
        return self.sequence if self.info.has_state else None

    def read_elf(self) -> Elf:
        return read_elf(self.elf)


def compile_library(
    sources: Sources, toolchain: Toolchain, optimize: Optimize, output: Path, checks: Checks = NO_CHECKS
) -> Path:
    """Compiles the library to the object file `output`, with all warnings as errors."""
    source = sources.folder / f"{sources.name}.c"
    flags: list[str | Path] = [*_flags(toolchain, optimize, checks.sanitize), *_placeless(sources.folder)]
    flags.append("-ffreestanding")
    if checks.dump_steps:
        output.parent.mkdir(parents=True, exist_ok=True)
        header = output.with_name("after_step.h")
        header.write_text(render("firmware/after_step.h.j2", {"prefix": sources.name.upper()}))
        flags += ["-include", header]
    toolchain.run([*flags, "-c", source, "-o", output], f"compiling {source.name}")
    return output


def compile_firmware(
    sources: Sources,
    board: Board,
    toolchain: Toolchain,
    optimize: Optimize,
    out_dir: Path,
    checks: Checks = NO_CHECKS,
) -> Firmware:
    """Builds the firmware `<out_dir>/<model>.elf` that runs the model on inputs and reports back.

    Raises TinycError when the library does not compile, does not fit the board, or has an instruction that the board's
    core has not.
    """
    if checks.sanitize and not board.is_host:
        raise TinycError(f"sanitizers run on the host only, not on {board.name}", hint="--board host")
    if checks.sanitize and toolchain.family == "zig":
        raise TinycError("zig has no address sanitizer", hint="`apt install gcc` or `apt install clang`")
    out_dir.mkdir(parents=True, exist_ok=True)
    library = compile_library(sources, toolchain, optimize, out_dir / f"{sources.name}.o", checks)
    return firmware_around(library, sources, board, toolchain, out_dir, checks)


def firmware_around(
    library: Path,
    sources: Sources,
    board: Board,
    toolchain: Toolchain,
    out_dir: Path,
    checks: Checks = NO_CHECKS,
) -> Firmware:
    """`compile_firmware` with a library that is compiled already, for these checks: an object file or an archive.
    Of the sources only the header is read."""
    board = board.emulated
    out_dir.mkdir(parents=True, exist_ok=True)
    defines = {"TC_MODEL_RUN": f"{sources.name}_run"}
    if checks.dump_steps:
        defines["TC_DUMP_STEPS"] = "1"
    if checks.sanitize:
        defines["TC_SANITIZE"] = "1"
    defines |= IO_DEFINES.get(board.io, {})
    harness = Harness(("main.c", f"port_{board.io}.c"), defines, sanitize=checks.sanitize)
    elf, info = link_firmware(sources, board, toolchain, library, out_dir, harness)
    return Firmware(
        elf, sources.name, board, toolchain, library, info, checks.dump_steps, checks.sanitize, sources=sources
    )


@dataclass(frozen=True, slots=True)
class Harness:
    """What is linked around a library to make firmware: sources of templates/firmware, macros, and sources that were
    written into the output folder. Start-up code, memory functions and the model's glue are always there.
    sanitize: as of Checks."""

    sources: tuple[str, ...]
    defines: Mapping[str, str]
    generated: tuple[Path, ...] = ()
    sanitize: bool = False


def link_firmware(
    sources: Sources, board: Board, toolchain: Toolchain, library: Path, out_dir: Path, harness: Harness
) -> tuple[Path, FirmwareInfo]:
    """Links the library's object with a harness to `<out_dir>/<model>.elf`; also what the firmware says of the model.

    Raises TinycError when it does not fit the board, or has an instruction that the board's core has not.
    """
    glue = _write_glue(sources, board, out_dir, "TC_DUMP_STEPS" in harness.defines)
    elf = out_dir / f"{sources.name}.elf"
    in_ram = {"TC_RAM_CODE": "1"} if has_ram_code(sources) else {}
    values = {**_memory_defines(board, bool(in_ram)), **in_ram, **harness.defines}
    defines = [f"-D{name}={value}" for name, value in values.items()]
    include = [f"-I{argument(folder)}" for folder in (sources.folder, out_dir, paths.templates_dir() / "firmware")]
    flags = [*_flags(toolchain, "balanced", harness.sanitize), *HARNESS_FLAGS[toolchain.family], *include, *defines]
    flags += _placeless(sources.folder)
    around = [*_sources(board, harness), *harness.generated, glue, *_whole_input(sources, out_dir)]
    words = [*flags, *around, library, *_link_flags(toolchain, board, out_dir, bool(in_ram))]
    what = f"building the firmware of {sources.name} for {board.name}"
    if board.is_host:
        toolchain.run([*words, "-o", elf], what)
    else:
        link_alone(toolchain, words, elf, what)
    linked = read_elf(elf)
    check_legal(linked, board)
    return elf, read_info(linked)


def read_info(elf: Elf) -> FirmwareInfo:
    """What the table `tc_firmware_info` of the harness says."""
    table = elf.symbol("tc_firmware_info")
    words = struct.unpack(f"<{table.size // 4}I", elf.read(table.address, table.size))
    flag_bits, arena_bytes, arena_align, inputs, outputs, steps = words[:6]
    sizes = words[6:]
    outputs_end = inputs + outputs
    has_state = bool(flag_bits & HAS_STATE)
    return FirmwareInfo(arena_bytes, arena_align, sizes[:inputs], sizes[inputs:outputs_end], steps, has_state)


def _flags(toolchain: Toolchain, optimize: Optimize, sanitize: bool) -> list[str]:
    flags = [*CODE_FLAGS, OPTIMIZE_FLAGS[optimize], *FAMILY_FLAGS[toolchain.family]]
    # gcc warns of things that are not there in code that the sanitizers have blown up.
    return [*flags, *SANITIZE_FLAGS] if sanitize else [*flags, *WARNING_FLAGS]


def _sources(board: Board, harness: Harness) -> list[Path]:
    names = [*harness.sources]
    if not board.is_host:
        startup = board.startup.replace("-", "_")
        names += [f"startup_{startup}.S", f"machine_{startup}.c", "memory.c"]
    return [paths.templates_dir() / "firmware" / name for name in names]


def _memory_defines(board: Board, ram_code: bool) -> dict[str, str]:
    if board.memory is None:
        return {}
    others = {"SLOW": board.memory.slow, "CODE": board.memory.code}
    spans = {name: ram for name, ram in others.items() if ram is not None}
    defines = {f"TC_{name}_ORIGIN": f"{ram.origin}u" for name, ram in spans.items()}
    defines |= {f"TC_{name}_BYTES": f"{ram.bytes}u" for name, ram in spans.items()}
    return defines | {
        "TC_FLASH_ORIGIN": f"{board.memory.flash_origin}u",
        "TC_FLASH_BYTES": f"{board.memory.flash_bytes}u",
        "TC_RAM_ORIGIN": f"{board.memory.ram_origin}u",
        "TC_RAM_BYTES": f"{board.memory.ram_beside(ram_code)}u",
        **({"TC_CONSTANTS_ORIGIN": f"{constants}u"} if (constants := board.memory.constants_origin) else {}),
    }


def _placeless(library_dir: Path) -> list[str]:
    """Flags for debug information that is the same wherever a library is built: its folder is `.`."""
    places = {Path.cwd(): ".", paths.templates_dir() / "firmware": "firmware", library_dir: "."}
    kinds = ("-ffile-prefix-map", "-fdebug-prefix-map")  # the second for the assembler
    return [f"{kind}={old}={new}" for old, new in places.items() for kind in kinds]


def _link_flags(toolchain: Toolchain, board: Board, out_dir: Path, ram_code: bool) -> list[str | Path]:
    if board.is_host:
        return []
    script = out_dir / "firmware.ld"
    values = {"board": board.name, "memory": board.memory, "guard_bytes": _GUARD_BYTES, "ram_code": ram_code}
    script.write_text(render("firmware/firmware.ld.j2", values))
    flags: list[str | Path] = [
        "-nostartfiles",
        "-T",
        script,
        "-Wl,--gc-sections",
        "-Wl,-e,Reset_Handler",
    ]  # -Wl ends at a comma
    flags.append("-Wl,-u,tc_firmware_info")  # read from the ELF file, whether or not the firmware sends it
    if toolchain.family == "zig":  # whose linker puts the file's headers before flash that begins within a page
        flags.append(f"-Wl,-z,max-page-size={PAGE}")
    return flags


def link_alone(toolchain: Toolchain, words: Sequence[str | Path], output: Path, what: str) -> None:
    """Links what these words say, with no library but the compiler's own helper functions (64-bit arithmetic,
    division). Raises TinycError.

    zig compiles its helpers when one is first asked for on a core, which takes five seconds; most firmware needs none.
    """
    if toolchain.family != "zig":
        toolchain.run([*words, "-nostdlib", toolchain.helpers(), "-o", output], what)
        return
    try:
        toolchain.run([*words, "-nostdlib", "-o", output], what)
    except TinycError:  # for want of a helper, or it fails again
        toolchain.run([*words, "-o", output], what)


def _write_glue(sources: Sources, board: Board, out_dir: Path, dump_steps: bool) -> Path:
    """The one source file of the harness that depends on the model."""
    header, prefix = sources.header, sources.name.upper()
    has_state = f"{prefix}_STATE_BYTES" in _read_text(header)
    inputs = macro(header, f"{prefix}_INPUT_COUNT")
    outputs = macro(header, f"{prefix}_OUTPUT_COUNT")
    values = {
        "model": sources.name,
        "prefix": prefix,
        "inputs": inputs,
        "outputs": outputs,
        "input_bytes": [f"{prefix}_INPUT_{i}_BYTES" for i in range(inputs)],
        "output_bytes": [f"{prefix}_OUTPUT_{i}_BYTES" for i in range(outputs)],
        "steps": _dumped_steps(header, prefix),
        "row_input": _row_type(sources),
        "dump_steps": dump_steps,
        "has_state": has_state,
        "flags": (DUMPS_STEPS if dump_steps else 0) | (HAS_STATE if has_state else 0),
        "static_arena": not board.is_host,
        "has_slow": f"{prefix}_SLOW_BYTES" in _read_text(header),
    }
    glue = out_dir / "tc_model.c"
    glue.write_text(render("firmware/tc_model.c.j2", values))
    return glue


def has_ram_code(sources: Sources) -> bool:
    """Whether the library has code for the section that start-up code copies to RAM."""
    return f"#define {sources.name.upper()}_RAM_CODE" in _read_text(sources.header)


def _whole_input(sources: Sources, out_dir: Path) -> list[Path]:
    """For a library that takes rows: the source file that gives it the harness's whole input, row by row."""
    ctype, model = _row_type(sources), sources.name
    if not ctype:
        return []
    source = out_dir / "whole_input.c"
    incremental = f"int {model}_push_rows(" in _read_text(sources.header)
    values = {"model": model, "prefix": model.upper(), "ctype": ctype, "incremental": incremental}
    source.write_text(render("firmware/whole_input.c.j2", values))
    return [source]


def _row_type(sources: Sources) -> str:
    """The C type of the rows that the library takes; "" if it takes its inputs as a whole."""
    push = rf"^int {sources.name}_push_rows?\(void \*arena,(?: int32_t row,)? const (\w+) \*data\);$"
    match = re.search(push, _read_text(sources.header), re.MULTILINE)
    return match[1] if match else ""


def _dumped_steps(header: Path, prefix: str) -> list[int]:
    """The steps whose output lies in the arena as a whole, by the library's header."""
    return [
        int(n) for n in re.findall(rf"^#define {prefix}_STEP_(\d+)_OUTPUT_OFFSET ", _read_text(header), re.MULTILINE)
    ]


def macro(header: Path, name: str) -> int:
    """The number that the library's header defines under a name."""
    match = re.search(rf"^#define {name} (\d+)$", _read_text(header), re.MULTILINE)
    if match is None:
        raise TinycError(f"the library's header does not define {name}", Loc(str(header)))
    return int(match[1])


def _read_text(path: Path) -> str:
    try:
        return read_text(path)
    except OSError as error:
        raise TinycError(f"cannot read the library: {error.strerror}", Loc(str(path))) from error
