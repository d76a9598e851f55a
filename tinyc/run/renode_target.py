# SPDX-License-Identifier: Apache-2.0
"""RenodeTarget: firmware on Renode, driven by renode-test."""

from __future__ import annotations

import re
import shutil
import subprocess
import tempfile
from pathlib import Path

from tinyc.base.dataclass import dataclass
from tinyc.base.templates import render
from tinyc.board import Board
from tinyc.board.instruction_set import INSTRUCTION_SETS
from tinyc.run import protocol
from tinyc.run.base import (
    INSTRUCTION_LIMIT,
    Conversation,
    Counts,
    Inputs,
    Progress,
    RunError,
    RunResult,
    check_inputs,
    fault_error,
    limit_error,
)
from tinyc.run.pc_trace import count_addresses, read_addresses
from tinyc.run.process import REPLIES, REQUESTS, Ended, follow
from tinyc.run.renode import MIPS, check_renode_board, platform
from tinyc.run.trace import plan_trace
from tinyc.toolchain.compile import REQUESTS as REQUESTS_ADDRESS
from tinyc.toolchain.compile import Firmware

IO = "memory"  # port_memory.c: Renode has no semihosting for these cores
STALL_SECONDS = 1800.0
# Virtual time from one of Renode's synchronizations to the next. With the 0.0001 of the default they take longer than
# the instructions between them.
QUANTUM_SECONDS = "0.01"
OVERHEAD_SECONDS = 10  # virtual, for what the harness does around an inference
ENDED = "firmware ended"
_FAULT = re.compile(r"ended (True|False), inside (True|False), at 0x([0-9A-Fa-f]+)")  # session.robot logs it
_TRACE = "trace.txt"
_RESULTS = "results"


@dataclass(frozen=True, slots=True)
class RenodeTarget:
    """Renode with the board's core and memories. The first inference is run a second time, with the address of every
    instruction written to a file, which the counts are made of."""

    board: Board
    program: str
    version: str

    @property
    def machine(self) -> str:
        return f"Renode {self.version} {check_renode_board(self.board)[0].renode}".replace("  ", " ")

    def run(
        self,
        firmware: Firmware,
        inputs: Inputs,
        *,
        instruction_limit: int = INSTRUCTION_LIMIT,
        on_progress: Progress | None = None,
    ) -> RunResult:
        check_inputs(firmware.info, inputs)
        talk = Conversation(firmware, len(inputs), on_progress)
        with tempfile.TemporaryDirectory(prefix="tinyc-") as name:
            self._session(Path(name), firmware, inputs, talk, instruction_limit, trace=False)
        counts = Counts()
        if inputs and not firmware.dump_steps:
            with tempfile.TemporaryDirectory(prefix="tinyc-") as name:
                first = Conversation(firmware, 1)
                self._session(Path(name), firmware, inputs[:1], first, instruction_limit, trace=True)
                elf = firmware.read_elf()
                plan = plan_trace(firmware, elf, instruction_limit)
                counts = count_addresses(plan, elf, read_addresses(Path(name) / _TRACE, elf))
        return talk.finish(self.machine, counts)

    def _session(
        self, folder: Path, firmware: Firmware, inputs: Inputs, talk: Conversation, limit: int, trace: bool
    ) -> None:
        """Runs the firmware on the inputs. Raises RunError when it faults, or does not come to its end."""
        requests = protocol.requests(inputs, firmware.resets)
        (folder / REQUESTS).write_bytes(requests)
        shutil.copyfile(firmware.elf, folder / f"{firmware.model}.elf")
        (folder / "board.repl").write_text(platform(self.board, len(requests), trace), encoding="utf-8")
        values = {
            "board": self.board,
            "model": firmware.model,
            "mips": MIPS,
            "quantum": QUANTUM_SECONDS,
            "vectors": INSTRUCTION_SETS[self.board.startup].vectors,
            "requests": REQUESTS_ADDRESS,
            "requests_file": REQUESTS,
            "replies_file": REPLIES,
            "trace_file": _TRACE if trace else "",
            "seconds": OVERHEAD_SECONDS + -(-limit * len(inputs) // (MIPS * 1_000_000)),
            "ended": ENDED,
        }
        for name in ("session.resc", "session.robot"):
            (folder / name).write_text(render(f"renode/{name}.j2", values), encoding="utf-8")
        command = [self.program, "-r", str(folder / _RESULTS), str(folder / "session.robot")]
        ended = follow(command, folder, talk, STALL_SECONDS)
        if talk.fault is not None:
            fault = talk.fault
            raise fault_error(firmware, protocol.fault_reason(fault), None, fault.pc, fault.inference)
        if ended.status != 0:
            raise _failure(firmware, ended, folder / _RESULTS, talk.done, limit)
        talk.require_all()


def find_renode(board: Board) -> RenodeTarget | None:
    """Renode for the board, None when renode-test is not on PATH. Raises TinycError for a board whose core tinyc cannot
    describe to Renode."""
    board = board.emulated
    check_renode_board(board)
    program = shutil.which("renode-test")
    return RenodeTarget(board, program, _version()) if program is not None else None


def _version() -> str:
    """Renode's version, "" when it does not say."""
    program = shutil.which("renode")
    if program is None:
        return ""
    try:
        done = subprocess.run([program, "--version"], check=False, capture_output=True, text=True, timeout=60)
    except (OSError, subprocess.TimeoutExpired):
        return ""
    number = re.search(r"\d+\.\d+(\.\d+)?", done.stdout)
    return number[0] if number else ""


def _failure(firmware: Firmware, ended: Ended, results: Path, done: int, limit: int) -> RunError:
    """Why renode-test did not pass, from its results and what it printed."""
    said = ended.stdout + ended.stderr
    try:
        report = (results / "robot_output.xml").read_text(encoding="utf-8", errors="replace")
    except OSError:
        report = ""
    fault = _FAULT.search(report) or _FAULT.search(said)
    if fault is not None and fault[2] == "False":
        return RunError(
            "the firmware read or wrote where there is no memory, says Renode's log",
            hint="QEMU and unicorn stop at such an access and name the place: --emulator qemu",
        )
    if fault is not None and fault[1] == "False":
        return limit_error(firmware, limit, None, done, int(fault[3], 16))
    lines = [f"  {line}" for line in said.splitlines() if line.strip()][-8:]
    return RunError("\n".join([f"renode-test ended with status {ended.status} in inference {done}", *lines]))
