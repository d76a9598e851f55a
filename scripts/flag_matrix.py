# SPDX-License-Identifier: Apache-2.0
"""Libraries at every level of every compiler that is installed here: built as users build them, run, and compared with
the reference byte for byte.

    python scripts/flag_matrix.py                      # 200 random networks and every kernel; about 20 minutes of CPU
    python scripts/flag_matrix.py --networks 20        # fewer; --first N: others
    python scripts/flag_matrix.py --minutes 10         # as many as CPU time allows
    python scripts/flag_matrix.py --kernels --only clang    # every kernel, by compilers whose names contain the word

Each build is linked with nothing but the compiler's own helpers (-nostdlib), and its functions are called: on a core of
unicorn, or in this process. A network goes through every level of the first compiler (gcc for Cortex-M4) and, in turn,
of one of the others. Exit code 1 and the seeds if any byte differs.
"""

from __future__ import annotations

import argparse
import ctypes
import resource
import shutil
import subprocess
import sys
import tempfile
import warnings
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
import onnx

ROOT = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(ROOT), str(ROOT / "tests" / "target")]

from kernel_cases import Together, lowered, together  # noqa: E402

from tests.fuzz.networks import network, samples  # noqa: E402
from tinyc.base.errors import TinycError  # noqa: E402
from tinyc.base.numerics import Numerics  # noqa: E402
from tinyc.board import load_board  # noqa: E402
from tinyc.emit.library import Info, emit_library  # noqa: E402
from tinyc.emit.program import Program  # noqa: E402
from tinyc.machine.cores import written_for  # noqa: E402
from tinyc.options.build import Options, Prefer  # noqa: E402
from tinyc.pipeline.compiling import compile_model  # noqa: E402
from tinyc.pipeline.progress import Progress  # noqa: E402
from tinyc.pipeline.proving import input_bytes, proof_samples  # noqa: E402
from tinyc.reference.interpreter import run_int  # noqa: E402
from tinyc.run.linked import run_linked  # noqa: E402
from tinyc.run.native import Library  # noqa: E402
from tinyc.toolchain.compilers import find_toolchain  # noqa: E402
from tinyc.toolchain.elf import read_elf  # noqa: E402
from tinyc.verify.compare import reference_outputs  # noqa: E402

LEVELS = ("-O0", "-O1", "-O2", "-O3", "-Os")
CLANG_LEVELS = (*LEVELS, "-Oz")
LTO = ("-O2 -flto", "-Os -flto")
SAMPLES = 2
_BARE = ("-nostdlib", "-static", "-Wl,--gc-sections")
ZIG_OFF = ("-fno-sanitize=undefined",)  # zig turns it on by itself


@dataclass(frozen=True)
class Compiler:
    """A compiler for a board, with the flags that select the core; what links its objects, and
    with what; what it is asked for. The name of the linker is that of the compiler where it links LTO objects."""

    name: str
    board: str
    command: tuple[str, ...]
    linker: tuple[str, ...]
    helpers: tuple[str, ...]
    levels: tuple[str, ...]

    @property
    def is_host(self) -> bool:
        return self.board == "host"


@dataclass(frozen=True)
class Case:
    """A library and what it must answer: `expected` are bytes [sample][output]."""

    name: str
    program: Program
    files: Mapping[str, str]
    inputs: Sequence[Sequence[bytes]]
    expected: Sequence[Sequence[bytes]]
    has_state: bool


@dataclass
class Tally:
    """Counts by compiler and level, and what differed, in words."""

    runs: Counter[tuple[str, str]] = field(default_factory=Counter)
    wrong: list[str] = field(default_factory=list)
    cases: int = 0
    refused: int = 0


def compilers() -> tuple[Compiler, ...]:
    """Those that are installed; every network goes through the first."""
    m4, m0 = load_board("cortex-m4").cflags["gcc"], load_board("cortex-m0plus").cflags["gcc"]
    present = [
        _gcc("arm-none-eabi-gcc", "cortex-m4", m4),
        _gcc("arm-none-eabi-gcc", "cortex-m0plus", m0),
        *(_gcc(f"arm-linux-gnueabihf-gcc-{n}", "cortex-m4", m4) for n in range(9, 16) if n != 12),
        *(_clang(f"clang-{n}") for n in range(13, 22)),
        _zig(),
        _host("gcc", LEVELS + LTO),
        _host("clang", CLANG_LEVELS),
        _host("tcc", ("-O0",)),
    ]
    return tuple(compiler for compiler in present if compiler is not None)


def _gcc(program: str, board: str, core: Sequence[str]) -> Compiler | None:
    if shutil.which(program) is None:
        return None
    command = (program, *core, "-ffreestanding")
    return Compiler(program, board, command, (program, *core, *_BARE), ("-lgcc",), LEVELS + LTO)


def _clang(program: str) -> Compiler | None:
    """Its objects and those of its link-time optimizer, linked by LLVM's linker with gcc's helpers."""
    linker, gcc = shutil.which("ld.lld"), shutil.which("arm-none-eabi-gcc")
    if shutil.which(program) is None or linker is None or gcc is None:
        return None
    core = ("--target=thumbv7em-none-eabihf", "-mcpu=cortex-m4", "-mfpu=fpv4-sp-d16", "-ffreestanding")
    same = f"LLD {_version(program)}." in _output(linker, "--version")
    helpers = _output(gcc, *load_board("cortex-m4").cflags["gcc"], "-print-libgcc-file-name")
    levels = CLANG_LEVELS + (LTO if same else ())
    return Compiler(program, "cortex-m4", (program, *core), (linker, "--gc-sections"), (helpers,), levels)


def _version(program: str) -> str:
    return _output(program, "-dumpversion").partition(".")[0]


def _output(*command: str) -> str:
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()


def _zig() -> Compiler | None:
    try:
        zig = find_toolchain(load_board("cortex-m4"), "zig")
    except TinycError:
        return None
    command = (*zig.command, *zig.target_flags, "-g")  # else no symbols with -Os
    return Compiler("zig", "cortex-m4", (*command, *ZIG_OFF), (*command, "-nostdlib"), (), ("-O1", "-O2", "-Os", "-Oz"))


def _host(program: str, levels: tuple[str, ...]) -> Compiler | None:
    if shutil.which(program) is None:
        return None
    return Compiler(program, "host", (program, "-fPIC"), (program, "-shared"), (), levels)


def run(case: Case, compiler: Compiler, level: str, folder: Path) -> str | None:
    """What is wrong with this build of the case; None if every byte is right."""
    name = case.program.name
    program = folder / f"{name}.elf"
    roots = [f"{name}_run", *([f"{name}_reset"] if case.has_state else [])]
    roots_for_linker = [word for root in roots for word in ("-u", root)] + ["-e", roots[0]]
    if not compiler.linker[0].endswith("ld.lld"):
        roots_for_linker = [
            f"-Wl,{option},{root}" for option, root in zip(roots_for_linker[::2], roots_for_linker[1::2], strict=True)
        ]
    entries = () if compiler.is_host else roots_for_linker
    lto = tuple(flag for flag in level.split() if compiler.linker[0] == compiler.command[0])
    compiling = [*compiler.command, *level.split(), "-ffunction-sections", "-w", "-c", f"{name}.c", "-o", f"{name}.o"]
    linking = [*compiler.linker, *lto, f"{name}.o", *entries, *compiler.helpers, "-o", str(program)]
    for command in (compiling, linking):
        done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
        if done.returncode != 0:
            return f"does not build: {(done.stderr + done.stdout).strip()[:300]}"
    got = _call_here(case, folder, program) if compiler.is_host else _call_on_core(case, compiler, program)
    return None if got == [list(map(bytes, one)) for one in case.expected] else "other bytes than the reference"


def _call_on_core(case: Case, compiler: Compiler, elf: Path) -> list[list[bytes]]:
    board = load_board(compiler.board)
    sequence = 0 if case.has_state else None
    ran = run_linked(read_elf(elf), case.program, board, case.inputs, sequence=sequence).result
    return [] if ran.damaged_guards else [list(outputs) for outputs in ran.outputs]


def _call_here(case: Case, folder: Path, shared: Path) -> list[list[bytes]]:
    header = (folder / f"{case.program.name}.h").read_text()
    library = Library(case.program.name, header, ctypes.CDLL(str(shared)))
    arrays = [
        np.stack([np.frombuffer(sample[i], port.dtype).reshape(port.sample_shape) for sample in case.inputs])
        for i, port in enumerate(library.inputs)
    ]
    outputs = library.run(*arrays, real=False)
    return [[np.ascontiguousarray(array[i]).tobytes() for array in outputs] for i in range(len(case.inputs))]


def network_case(seed: int, board: str, folder: Path) -> Case:
    """A random network, compiled by options that depend on the seed. Raises TinycError for one that is refused."""
    model = network(seed)
    path = folder / f"n{seed}.onnx"
    onnx.save(model, path)
    arrays: dict[str, Any] = samples(model, seed, 8)  # numpy types what it is given by name as `allow_pickle`
    np.savez(folder / f"n{seed}.calib.npz", **arrays)
    preferences: tuple[Prefer, ...] = ("balanced", "ram", "time", "flash")
    options = Options(board=board, samples=SAMPLES, prefer=preferences[seed % 4])
    compiled = compile_model(path, load_board(board), options, Progress())
    _, proof = proof_samples(compiled, options)
    reference = reference_outputs(compiled.graph, compiled.program, proof)
    return Case(
        f"network {seed}",
        compiled.program,
        compiled.files,
        input_bytes(compiled.graph, proof),
        [[np.ascontiguousarray(array).tobytes() for array in one] for one in reference],
        bool(compiled.graph.states),
    )


def kernel_case(board: str) -> Case:
    """Every kernel that the core has the instructions for, in one library."""
    isa = load_board(board).isa
    kernels: Together = together(isa, Numerics.TFLM)
    program = lowered(kernels, isa, Numerics.TFLM, written_for(load_board(board).core))
    reference = run_int(kernels.graph, kernels.inputs, Numerics.TFLM)
    outputs = [[np.ascontiguousarray(reference[name]).tobytes() for name in kernels.graph.outputs]]
    files = emit_library(program, Info("all", "0" * 64, board))
    return Case(f"all kernels of {board}", program, files, kernels.requests, outputs, False)


def try_case(case: Case, chosen: Sequence[Compiler], tally: Tally) -> None:
    tally.cases += 1
    with tempfile.TemporaryDirectory(prefix="tinyc-") as name:
        folder = Path(name)
        for file, text in case.files.items():
            (folder / file).write_text(text)
        for compiler in chosen:
            for level in compiler.levels:
                try:
                    wrong = run(case, compiler, level, folder)
                except TinycError as error:
                    wrong = error.message
                tally.runs[f"{compiler.name} ({compiler.board})", level] += 1
                if wrong:
                    tally.wrong.append(f"{case.name}, {compiler.name} {level} for {compiler.board}: {wrong}")
                    print(tally.wrong[-1], flush=True)


def try_network(seed: int, every: Sequence[Compiler], tally: Tally) -> None:
    """All levels of the first compiler, and of another one in turn."""
    first, *others = every
    for compiler in (first, *others[seed % len(others) :][:1]) if others else (first,):
        with tempfile.TemporaryDirectory(prefix="tinyc-") as name, warnings.catch_warnings():
            warnings.simplefilter("ignore")
            try:
                case = network_case(seed, compiler.board, Path(name))
            except TinycError:
                tally.refused += 1
                return
            except Exception as error:  # the compiler's own defect: told, and the run goes on
                tally.wrong.append(f"network {seed} for {compiler.board}: {type(error).__name__}: {error}")
                print(tally.wrong[-1], flush=True)
                return
        try_case(case, [compiler], tally)


def try_kernels(every: Sequence[Compiler], tally: Tally) -> None:
    for board in dict.fromkeys(compiler.board for compiler in every):
        chosen = [compiler for compiler in every if compiler.board == board]
        try_case(kernel_case(board), chosen, tally)


def seeds(first: int, count: int, minutes: float | None) -> Iterator[int]:
    """Until the count, or the CPU time of this process and its children, is spent."""
    for seed in range(first, first + count):
        if minutes is not None and sum(_times()) > 60 * minutes:
            return
        yield seed


def _times() -> tuple[float, float]:
    usage = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return (sum(one.ru_utime for one in usage), sum(one.ru_stime for one in usage))


def show(tally: Tally) -> None:
    names: dict[str, dict[str, int]] = {}
    for (compiler, level), count in sorted(tally.runs.items()):
        names.setdefault(compiler, {})[level] = count
    for compiler, levels in names.items():
        print(f"  {compiler:<40} {', '.join(f'{level}: {count}' for level, count in levels.items())}")
    total = sum(tally.runs.values())
    print(f"{tally.cases} libraries, {total} builds run, {len(tally.wrong)} wrong; {tally.refused} networks refused")


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--networks", type=int, default=200, help="how many random networks")
    parser.add_argument("--first", type=int, default=0, help="the first seed")
    parser.add_argument("--minutes", type=float, help="of CPU time, at most")
    parser.add_argument("--only", default="", help="compilers whose names or boards contain this word")
    parser.add_argument("--board", help="compilers for this board")
    parser.add_argument("--levels", help="these levels only, with commas between")
    parser.add_argument("--kernels", action="store_true", help="the kernels only, no networks")
    parser.add_argument("--no-kernels", action="store_true", help="networks only")
    given = parser.parse_args(arguments)
    every = [c for c in compilers() if given.only in c.name or given.only in c.board]
    every = [c for c in every if given.board in (None, c.board)]
    if given.levels:
        every = [
            replace(c, levels=tuple(level for level in given.levels.split(",") if level in c.levels)) for c in every
        ]
    tally = Tally()
    try:
        if not given.no_kernels:
            try_kernels(every, tally)
        if not given.kernels:
            for seed in seeds(given.first, given.networks, given.minutes):
                try_network(seed, every, tally)
    except KeyboardInterrupt:
        print("interrupted")
    show(tally)
    return 1 if tally.wrong else 0


if __name__ == "__main__":
    raise SystemExit(main())
