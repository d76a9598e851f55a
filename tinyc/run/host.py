# SPDX-License-Identifier: Apache-2.0
"""HostTarget: the firmware harness as a native process of this computer."""

from __future__ import annotations

import os
import platform
import re
import shutil
import signal
import subprocess
import tempfile
from functools import cache
from pathlib import Path

from tinyc.base.dataclass import dataclass
from tinyc.base.errors import TinycError
from tinyc.run import protocol
from tinyc.run.base import INSTRUCTION_LIMIT, Conversation, Inputs, Progress, RunError, RunResult, check_inputs
from tinyc.run.process import REQUESTS, Ended, follow
from tinyc.toolchain.compile import Firmware

STALL_SECONDS = 120.0


@dataclass(frozen=True, slots=True)
class HostTarget:
    """Runs firmware of the board `host`. Counts no instructions; stall_seconds stands for the limit."""

    stall_seconds: float = STALL_SECONDS

    @property
    def machine(self) -> str:
        return f"host {platform.machine()}"

    def run(
        self,
        firmware: Firmware,
        inputs: Inputs,
        *,
        instruction_limit: int = INSTRUCTION_LIMIT,
        on_progress: Progress | None = None,
    ) -> RunResult:
        if not firmware.board.is_host:
            raise TinycError(f"firmware for {firmware.board.name} does not run on the host")
        check_inputs(firmware.info, inputs)
        talk = Conversation(firmware, len(inputs), on_progress)
        with tempfile.TemporaryDirectory(prefix="tinyc-") as name:
            folder = Path(name)
            (folder / REQUESTS).write_bytes(protocol.requests(inputs, firmware.resets))
            ended = follow(
                [*(fixed_addresses() if firmware.sanitize else ()), str(firmware.elf.resolve())],
                folder,
                talk,
                self.stall_seconds,
                pipes=True,
                # The leak check needs ptrace, which containers refuse; the harness frees nothing on purpose.
                environment={**os.environ, "ASAN_OPTIONS": "detect_leaks=0"},
            )
        if ended.status != 0:
            raise _crash(firmware, ended, talk.done)
        return talk.finish(f"{self.machine}, {firmware.toolchain}" + (", sanitizers" if firmware.sanitize else ""))


def _crash(firmware: Firmware, ended: Ended, inference: int) -> RunError:
    marks = ("runtime error:", "ERROR: AddressSanitizer", " in ", "is located")
    lines = [line.strip() for line in ended.stderr.splitlines() if any(mark in line for mark in marks)]
    if lines:
        what = "a sanitizer stopped it:\n" + "\n".join(f"  {line}" for line in lines[:6])
    elif ended.status < 0:
        what = f"it was ended by {signal.Signals(-ended.status).name}"
    else:
        what = f"it ended with status {ended.status}"
    step = re.search(rf"\b{re.escape(firmware.model)}_step_(\d+)", ended.stderr)
    return RunError(
        f"the firmware did not come to its end in inference {inference}: {what}",
        step=int(step[1]) if step else None,
    )


@cache
def fixed_addresses() -> tuple[str, ...]:
    """Command prefix that turns address randomization off, () where that cannot be had.

    AddressSanitizer wants certain addresses free and dies now and then ("DEADLYSIGNAL") if they are not.
    """
    command = ("setarch", "-R")
    if shutil.which(command[0]) is None:
        return ()
    return command if subprocess.run([*command, "true"], capture_output=True, check=False).returncode == 0 else ()
