# SPDX-License-Identifier: Apache-2.0
"""Toolchain: a C compiler that can build for a board, found on this computer."""

from __future__ import annotations

import functools
import importlib.util
import os
import re
import shlex
import shutil
import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import Literal

from tinyc.base.dataclass import dataclass
from tinyc.base.errors import TinycError
from tinyc.base.private import private_folder
from tinyc.board import Board
from tinyc.board.instruction_set import INSTRUCTION_SETS

Family = Literal["gcc", "clang", "zig"]

OPTIMIZE_FLAGS: dict[str, str] = {"speed": "-O3", "balanced": "-O2", "size": "-Os"}
COMPILE_SECONDS = 600  # a compiler that takes longer hangs


@dataclass(frozen=True, slots=True)
class Toolchain:
    """A compiler and the flags that make it build for one board.

    name: what `prefer` takes and reports show (`arm-none-eabi-gcc`, `zig`, `gcc`, `clang`). command: the
    program with its leading arguments. target_flags: the board's flags, for compiling and linking.
    """

    name: str
    family: Family
    version: str
    command: tuple[str, ...]
    target_flags: tuple[str, ...] = ()

    def __str__(self) -> str:
        return f"{self.name} {self.version}"

    def run(self, arguments: Sequence[str | Path], what: str) -> None:
        """Runs the compiler. Raises TinycError with its first complaints when it fails; `what` is the job."""
        command = [*self.command, *self.target_flags, *map(argument, arguments)]
        try:
            done = subprocess.run(
                command,
                check=False,
                capture_output=True,
                text=True,
                errors="replace",
                env=self._environment(),
                timeout=COMPILE_SECONDS,
            )
        except subprocess.TimeoutExpired as error:
            raise TinycError(f"{self.name} did not finish in {COMPILE_SECONDS} s: {what}") from error
        except OSError as error:
            raise TinycError(f"{self.name} cannot be started: {error.strerror}", hint="run `tinyc doctor`") from error
        if done.returncode < 0:
            message = f"{self.name} was killed by signal {-done.returncode}: {what}"
            raise TinycError(message, hint="if the computer's memory ran out, end other programs, and build again")
        if done.returncode != 0:
            raise compiler_error(self.name, what, command, done.stderr + done.stdout)

    def helpers(self) -> str:
        """What links gcc's own helper functions (64-bit shifts, float).

        Of a RISC-V core with `_` extensions (Zba) gcc 12 takes those of RV64, which do not link; those for the core
        without the extensions do.
        """
        plain = [re.sub(r"^(-march=rv32[a-z]+)_.*", r"\1", flag) for flag in self.target_flags]
        if plain == list(self.target_flags):
            return "-lgcc"
        command = [*self.command, *plain, "-print-libgcc-file-name"]
        done = subprocess.run(command, check=False, capture_output=True, text=True, timeout=COMPILE_SECONDS)
        return done.stdout.strip() if done.returncode == 0 else "-lgcc"

    def _environment(self) -> dict[str, str]:
        environment = {**os.environ, "LC_ALL": "C"}
        if self.family == "zig":
            cache = str(private_folder("zig"))
            environment.setdefault("ZIG_GLOBAL_CACHE_DIR", cache)
            environment.setdefault("ZIG_LOCAL_CACHE_DIR", cache)
        return environment


def argument(given: str | Path) -> str:
    """A path is never an option (`-x`), a list of options (`@x`) or below the compiler's own root (`=x`)."""
    return f"./{given}" if isinstance(given, Path) and str(given)[0] in "-@=" else str(given)


def compiler_error(name: str, what: str, command: Sequence[str], output: str) -> TinycError:
    """What a failed compiler run means to the user: too large for the board, or the first diagnostics."""
    overflow = re.search(r"region [`']?(\w+)'?.*?overflowed by (\d+) bytes", output)
    if overflow:
        memory = {"FLASH": "flash", "RAM": "RAM"}.get(overflow[1], overflow[1])
        hint = "--prefer flash or a smaller --flash"
        if memory == "RAM":
            hint = "--prefer ram; --input-rows where the input fills the arena (`tinyc estimate --map` shows what does)"
        return TinycError(
            f"the firmware does not fit the board: its {memory} is too small by {int(overflow[2]):,} bytes",
            hint=f"{hint}; else a larger board, or a smaller model",
            exit_code=1,
        )
    lines = [line for line in output.splitlines() if re.search(r"\b(error|undefined|warning)\b", line)]
    shown = "\n".join(f"  {line.strip()}" for line in (lines or output.splitlines())[:6])
    return TinycError(f"{name} failed: {what}\n{shown}", hint=f"the command was: {shlex.join(command)}")


def find_toolchain(board: Board, prefer: str | None = None) -> Toolchain:
    """The compiler for the board: the one that `prefer` names, else the first that is installed.

    Raises TinycError, with the commands that install one, when there is none.
    """
    names = _candidates(board)
    if prefer is not None:
        preferred = next((name for name in names if prefer in (name, "gcc" if name.endswith("-gcc") else name)), None)
        if preferred is None:
            raise TinycError(
                f"'{prefer}' is not a compiler for {board.name}",
                hint=f"it can be built with: {', '.join(names)}",
            )
        names = (preferred,)
    for name in names:
        if (toolchain := _find(name, board)) is not None:
            return toolchain
    for name in names:
        if (program := _program(name)) is not None:
            message = f"{program} does not say its version, so it does not run here"
            raise TinycError(message, hint="start it by hand to see why; --toolchain NAME takes another compiler")
    raise TinycError(f"no compiler for {board.name} is installed: {' or '.join(names)}", hint=_install_hint(names))


def host_compiler() -> Toolchain | None:
    """A compiler for this computer, None when there is none."""
    return next((toolchain for name in ("gcc", "clang", "zig") if (toolchain := _locate(name)) is not None), None)


def _candidates(board: Board) -> tuple[str, ...]:
    if board.is_host:
        return ("gcc", "clang", "zig")
    names = {"gcc": INSTRUCTION_SETS[board.startup].gcc, "zig": "zig"}
    return tuple(name for family, name in names.items() if name and family in board.cflags)


def _find(name: str, board: Board) -> Toolchain | None:
    located = _locate(name)
    if located is None:
        return None
    flags = () if board.is_host else tuple(board.cflags[located.family])
    return Toolchain(located.name, located.family, located.version, located.command, flags)


@functools.cache
def _locate(name: str) -> Toolchain | None:
    family: Family = "zig" if name == "zig" else "clang" if name == "clang" else "gcc"
    program = _program(name)
    if program is None:
        return None
    version = _version(program, family)
    if version is None:
        return None
    return Toolchain(name, family, version, (program, "cc") if family == "zig" else (program,))


def _program(name: str) -> str | None:
    return _zig_program() if name == "zig" else shutil.which(name)


def _zig_program() -> str | None:
    """zig of the Python package ziglang, else the one on PATH."""
    spec = importlib.util.find_spec("ziglang")
    if spec is not None and spec.origin is not None:
        program = Path(spec.origin).with_name("zig.exe" if os.name == "nt" else "zig")
        if program.is_file():
            return str(program)
    return shutil.which("zig")


def _version(program: str, family: Family) -> str | None:
    argument = {"gcc": "-dumpfullversion", "clang": "--version", "zig": "version"}[family]
    try:
        done = subprocess.run([program, argument], check=False, capture_output=True, text=True, timeout=60)
    except (OSError, subprocess.TimeoutExpired):
        return None
    number = re.search(r"\d+(\.\d+)+", done.stdout)
    return number[0] if done.returncode == 0 and number else None


def _install_hint(names: Sequence[str]) -> str:
    commands = {
        **{each.gcc: f"apt install {each.gcc_package}" for each in INSTRUCTION_SETS.values() if each.gcc},
        "zig": "pip install ziglang",
        "gcc": "apt install gcc",
        "clang": "apt install clang",
    }
    return "install one with " + " or ".join(f"`{commands[name]}`" for name in names)
