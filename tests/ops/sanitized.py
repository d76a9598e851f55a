# SPDX-License-Identifier: Apache-2.0
"""Generated C with a `main`, compiled for this computer with the address and undefined behavior sanitizers, and run."""

from __future__ import annotations

import functools
import platform
import shutil
import subprocess
from collections.abc import Sequence
from pathlib import Path

from tests.compiled_once import key_of
from tests.shared_folder import SharedFolder
from tinyc.run.host import fixed_addresses

COMPILER = "clang"  # with sanitizers it compiles three times as fast as gcc, whose warnings tests/target sees
WARNINGS = ["-Wall", "-Wextra", "-Wpedantic", "-Wconversion", "-Werror"]
SANITIZE = ["-fsanitize=address,undefined", "-fno-sanitize-recover=all"]
SILENT = ["-fsanitize-trap=undefined"]  # undefined behavior ends the program without a word
programs: SharedFolder | None = None  # those of the same text; None: each is made


def sanitized(folder: Path, sources: Sequence[str], requests: bytes, compiler: str = COMPILER) -> bytes:
    """What the program of these files of the folder answers. compiler: flags may follow; they win over -O0.

    Raises AssertionError with what the compiler or a sanitizer says. A program that fails is made again with lines
    and words for the report: for all programs they would be a third of the time.
    """
    name, *flags = compiler.split()
    ran = None
    for report in (SILENT if name == COMPILER else [], ["-g"]):
        options = ["-std=c99", "-O0", *report, *WARNINGS, *SANITIZE, "-pipe", *_linker(name), *flags]
        program = _program(folder, name, options, sources)
        ran = subprocess.run([*fixed_addresses(), program], input=requests, capture_output=True, check=False)
        if ran.returncode == 0:
            return ran.stdout
    assert ran is not None
    raise AssertionError(f"exit status {ran.returncode}: {ran.stderr.decode()}")


def _program(folder: Path, compiler: str, options: Sequence[str], sources: Sequence[str]) -> Path:
    """The program of these files of the folder. Raises AssertionError with what the compiler says."""

    def make(output: Path) -> None:
        command = [compiler, *options, *sources, "-o", str(output)]
        done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr

    key = key_of([*options, *(folder / source for source in sources)]) if programs and "-g" not in options else None
    if programs and key:
        return programs.folder_of((_version(compiler), *key), make)
    make(folder / "unit")
    return folder / "unit"


@functools.cache
def _version(compiler: str) -> str:
    return subprocess.run([compiler, "--version"], capture_output=True, text=True, check=True).stdout


@functools.cache
def _linker(compiler: str) -> list[str]:
    """LLVM's linker, and the sanitizers as a library that is loaded, where they are there: copied into each program,
    they take a third of the time to make it."""
    if compiler != "clang":
        return []
    runtime = f"libclang_rt.asan-{platform.machine()}.so"
    said = subprocess.run([compiler, f"-print-file-name={runtime}"], capture_output=True, text=True, check=True)
    folder = Path(said.stdout.strip()).parent
    loaded = ["-shared-libasan", f"-Wl,-rpath,{folder}"] if (folder / runtime).is_file() else []
    return [*(["-fuse-ld=lld"] if shutil.which("ld.lld") else []), *loaded]
