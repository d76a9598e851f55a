# SPDX-License-Identifier: Apache-2.0
"""What of tinyc's surroundings is there: packages, compilers, emulators, and how to install what is not."""

from __future__ import annotations

import re
import shutil
from enum import StrEnum

from tinyc import __version__
from tinyc.base import paths
from tinyc.base.dataclass import dataclass
from tinyc.base.errors import TinycError
from tinyc.base.extras import installed_version, requirements
from tinyc.board import Board, list_boards
from tinyc.board.instruction_set import INSTRUCTION_SETS
from tinyc.flash.handover import CLIENTS, tool_command
from tinyc.run import find_target
from tinyc.run.qemu import find_qemu
from tinyc.toolchain.compilers import find_toolchain
from tinyc.toolchain.disassembly import check_disassembler

THERE = "installed"  # instead of a version, where asking for it takes seconds


class FindingKind(StrEnum):
    """Groups of findings, in the order in which they are shown."""

    PACKAGE = "Python packages"
    COMPILER = "compilers"
    EMULATOR = "emulators"
    BOARD = "boards"
    FLASHING = "programs for real boards"


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing looked for.

    version: what is there, empty when it is not. required: without it something does not work (else there is
    another way). install: commands, the best first. note: what it is for, or what is wrong with it.
    """

    kind: FindingKind
    name: str
    version: str
    required: bool
    install: tuple[str, ...] = ()
    note: str = ""

    @property
    def is_present(self) -> bool:
        return bool(self.version)

    @property
    def ok(self) -> bool:
        return self.is_present or not self.required


def examine() -> tuple[Finding, ...]:
    """Everything that tinyc uses on this computer, found or not, and which boards can be built and run."""
    boards = [board for board in list_boards() if not board.is_host]
    return (*_packages(), *_compilers(boards), *_emulators(boards), *_boards(), *_flashing())


def _packages() -> list[Finding]:
    """tinyc itself, and what its distribution asks for (nothing to ask when it runs from bare sources)."""
    findings = [Finding(FindingKind.PACKAGE, "tinyc", __version__, True)]
    for package in requirements():
        name, version = package.name, package.version
        if not package.extra:
            findings.append(Finding(FindingKind.PACKAGE, name, version, True, (f"pip install {name}",)))
        elif package.extra in _EXTRAS and name not in _ELSEWHERE:
            install, note = f"pip install 'tinyc[{package.extra}]'", _EXTRAS[package.extra]
            findings.append(Finding(FindingKind.PACKAGE, name, version, False, (install,), note))
    return findings


_EXTRAS = {
    "onnx": "ONNX models",
    "proof": "proofs on emulated boards, profiles",
    "plot": "pictures, and the report as a page",
    "pictures": "pictures as calibration data",
    "exact": "the exact planner",
}
_ELSEWHERE = frozenset({"unicorn"})  # an emulator


_COMPILERS = (
    *(
        (each.gcc, (f"apt install {each.gcc_package}",), f"builds for {each.builds_for}")
        for each in INSTRUCTION_SETS.values()
        if each.gcc
    ),
    ("zig", ("pip install ziglang",), "builds for every board, from pip alone"),
    ("gcc", ("apt install gcc",), "builds for the host, and the instruction counter"),
    ("clang", ("apt install clang",), "builds for the host"),
)


def _compilers(boards: list[Board]) -> list[Finding]:
    host = next(board for board in list_boards() if board.is_host)
    findings = []
    for name, install, note in _COMPILERS:
        startup = next((each.name for each in INSTRUCTION_SETS.values() if each.gcc == name), None)
        board = next((board for board in boards if board.startup == startup), host)
        try:
            version = find_toolchain(board, name).version
        except TinycError:
            version = ""
        findings.append(Finding(FindingKind.COMPILER, name, version, False, install, note))
    return findings


def _emulators(boards: list[Board]) -> list[Finding]:
    qemu = next((target for board in boards if (target := find_qemu(board)) is not None), None)
    note = "runs every core"
    if qemu is not None and qemu.plugin is None:
        note = f"counts no instructions: it does not take the plugin in {paths.cache_dir()}"
    return [
        Finding(
            FindingKind.EMULATOR, "QEMU", qemu.version if qemu else "", False, ("apt install qemu-system-arm",), note
        ),
        Finding(
            FindingKind.EMULATOR,
            "unicorn",
            installed_version("unicorn"),
            False,
            ("pip install 'tinyc[proof]'",),
            "runs every core but Cortex-M55 and RISC-V, from pip alone",
        ),
        Finding(
            FindingKind.EMULATOR,
            "renode-test",
            THERE if shutil.which("renode-test") else "",
            False,
            (),
            "runs what `tinyc build --emulator renode` writes: https://renode.io",
        ),
    ]


def _flashing() -> list[Finding]:
    """The programs that `tinyc flash` can hand firmware to; STM32 boards and drives need none."""
    return [
        Finding(
            FindingKind.FLASHING,
            client.programs[0],
            THERE if tool_command(method) else "",
            False,
            client.commands,
            f"flashes {client.boards}",
        )
        for method, client in CLIENTS.items()
    ]


def _boards() -> list[Finding]:
    """Whether each board can be built and run here. That one cannot is no defect, that none can is one."""
    tried = [(board, *_try_board(board)) for board in list_boards()]
    required = not any(version for board, version, _ in tried if not board.is_host)
    return [
        Finding(FindingKind.BOARD, board.name, version, required, *(_advice(error) if error else ((), "")))
        for board, version, error in tried
    ]


def _try_board(board: Board) -> tuple[str, TinycError | None]:
    try:
        tools = f"{find_toolchain(board)}, {find_target(board).machine}"
        check_disassembler(board)
        return tools, None
    except TinycError as error:
        return "", error


def _advice(error: TinycError) -> tuple[tuple[str, ...], str]:
    """The commands that an error's hint quotes, and what it says."""
    return tuple(re.findall(r"`([^`]+)`", error.hint)), error.message
