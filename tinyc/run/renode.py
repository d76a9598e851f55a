# SPDX-License-Identifier: Apache-2.0
"""Files that run a model in Renode, and renode-test on them: board.repl, run.resc, test.robot, and their firmware."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Sequence
from pathlib import Path

from tinyc.base.dataclass import dataclass
from tinyc.base.errors import TinycError
from tinyc.base.templates import render
from tinyc.board import Board, Memory
from tinyc.board.core import CORES, CoreFacts, core_named
from tinyc.board.instruction_set import CLINT, INSTRUCTION_SETS
from tinyc.toolchain.compile import CONSOLE, REPLIES, REQUESTS, Sources
from tinyc.toolchain.compilers import Toolchain
from tinyc.toolchain.device import build_vectors

MIPS = 100
MOST_INFERENCES = 4
TEST_SECONDS = 1800
LINE_BYTES = 32  # of an output, in one line; as in templates/firmware/vectors.c
_TOLERANCE = 200  # instructions
_START_SECONDS = 60  # of the host, a test's share of Renode's start
_SLOWEST = 10  # seconds of the host in one of virtual time
_PAGE = 4096


# What else is in board.repl: name, first and last address.
_TAKEN = (("consoles", CONSOLE, REPLIES + _PAGE - 1), ("requests", REQUESTS, REQUESTS + 0x0FFF_FFFF))


@dataclass(frozen=True, slots=True)
class Expected:
    """What the firmware must print: inputs and outputs of each inference, and the instructions of the first one (None:
    not counted), as `machine` counted them."""

    inputs: Sequence[Sequence[bytes]]
    outputs: Sequence[Sequence[bytes]]
    instructions: int | None
    machine: str

    def first(self, most: int) -> Expected:
        return Expected(self.inputs[:most], self.outputs[:most], self.instructions, self.machine)


def check_renode_board(board: Board) -> tuple[CoreFacts, Memory]:
    """Renode's core for the board, and the board's memories. Raises TinycError when tinyc cannot describe it."""
    core = core_named(board.core)
    if core.not_in_renode:
        raise TinycError(
            f"{board.name} does not run in Renode: {core.not_in_renode}",
            hint="QEMU has them: --emulator qemu",
        )
    its_set = INSTRUCTION_SETS.get(board.startup)
    if not core.renode or board.memory is None or its_set is None or its_set.renode_device is None:
        raise TinycError(
            f"tinyc writes no Renode files for {board.name}",
            hint=f"cores: {', '.join(name for name, facts in CORES.items() if facts.renode)}",
        )
    if board.memory.constants_origin:
        raise TinycError(
            f"{board.name} reads constants elsewhere than code, and tinyc's platform for Renode has one flash",
            hint="another machine proves the library: --emulator qemu",
        )
    for kind, start, size in _places(board.memory):
        for device, origin, last in (*_TAKEN, its_set.renode_device):
            if start <= last and origin < start + size:
                message = (
                    f"{kind} of {board.name} lies where tinyc's platform for Renode has its {device}, 0x{origin:08x}"
                )
                raise TinycError(message, hint="another machine proves the library: --emulator qemu")
    return core, board.memory


def _places(memory: Memory) -> tuple[tuple[str, int, int], ...]:
    """The memories, each with origin and size, in whole pages: Renode maps no others."""
    spans = memory.spans().items()
    return tuple((kind, at // _PAGE * _PAGE, _whole_pages(at % _PAGE + size)) for kind, (at, size) in spans)


def write_renode(
    folder: Path, sources: Sources, board: Board, toolchain: Toolchain, library: Path, expected: Expected
) -> None:
    """Writes the self-contained folder: firmware with at most MOST_INFERENCES inputs in it, platform, script, test.

    library: the library's object. Raises TinycError when Renode has no such core, or the firmware does not fit.
    """
    board = board.emulated
    check_renode_board(board)
    shown = expected.first(MOST_INFERENCES)
    parts = folder / "parts"
    elf = build_vectors(sources, board, toolchain, library, parts, [b"".join(i) for i in shown.inputs])
    shutil.copyfile(elf, folder / elf.name)
    shutil.rmtree(parts)
    seconds = _seconds(shown.instructions, len(shown.inputs))
    values = {
        "board": board,
        "mips": MIPS,
        "model": sources.name,
        "inferences": len(shown.inputs),
        "instructions": shown.instructions,
        "tolerance": _TOLERANCE,
        "machine": shown.machine,
        "seconds": seconds,
        "host_seconds": _START_SECONDS + _SLOWEST * seconds,
        "lines": expected_lines(shown.outputs),
        "vectors": INSTRUCTION_SETS[board.startup].vectors,
    }
    (folder / "board.repl").write_text(platform(board), encoding="utf-8")
    for name in ("run.resc", "test.robot"):
        (folder / name).write_text(render(f"renode/{name}.j2", values), encoding="utf-8")


def platform(board: Board, requests_bytes: int = 0, traced: bool = False) -> str:
    """The text of board.repl. requests_bytes: with a memory of at least that size for the requests of port_memory.c,
    and a console for its replies. traced: for a session with an execution trace."""
    core, memory = check_renode_board(board)
    values = {
        "board": board,
        "places": _places(memory),
        "priority_mask": core.priority_mask,
        "cpu": core.traced if traced and core.traced else core.renode,
        "hz": MIPS * 1_000_000,
        "clint": CLINT,
        "console": CONSOLE,
        "replies": REPLIES,
        "requests": REQUESTS,
        "requests_bytes": _whole_pages(requests_bytes),
    }
    return render("renode/board.repl.j2", values)


def _whole_pages(size_bytes: int) -> int:
    return -(-size_bytes // _PAGE) * _PAGE


def expected_lines(outputs: Sequence[Sequence[bytes]]) -> list[str]:
    """What the firmware prints for these outputs: [inference][output]."""
    lines = []
    for inference, tensors in enumerate(outputs):
        lines.append(f"inference {inference} status 0 guards intact")
        for number, data in enumerate(tensors):
            for at in range(0, len(data), LINE_BYTES):
                text = data[at : at + LINE_BYTES].hex()
                lines.append(f"inference {inference} output {number} at {at}: {text}")
    return lines


def _seconds(instructions: int | None, inferences: int) -> int:
    """Virtual time until a line must have come: several times what the model takes, and the printing."""
    return 10 + 4 * inferences * (instructions or 0) // (MIPS * 1_000_000)


def run_renode(folder: Path) -> None:
    """Runs renode-test on what `write_renode` wrote; its results go to `<folder>/results`.

    Raises TinycError: exit code 2 when renode-test is not on PATH, 1 when a test fails.
    """
    test = folder / "test.robot"
    program = shutil.which("renode-test")
    if program is None:
        raise TinycError(
            f"renode-test is not on PATH: the files are in {folder}, and they were not run",
            hint=f"install Renode (https://renode.io), then `renode-test {test}`; QEMU and unicorn have run the model",
        )
    results = folder / "results"
    try:
        done = subprocess.run(
            [program, "-r", str(results), str(test)],
            check=False,
            capture_output=True,
            text=True,
            errors="replace",
            timeout=TEST_SECONDS,
        )
    except subprocess.TimeoutExpired as error:
        raise TinycError(f"renode-test did not end in {TEST_SECONDS} s", exit_code=1) from error
    except OSError as error:
        raise TinycError(f"renode-test cannot be started: {error.strerror}", hint="run `tinyc doctor`") from error
    if done.returncode != 0:
        lines = [line for line in (done.stdout + done.stderr).splitlines() if line.strip()]
        shown = "\n".join(f"  {line}" for line in lines[-12:])
        raise TinycError(f"renode-test failed:\n{shown}", hint=f"{results} has the log of every test", exit_code=1)
