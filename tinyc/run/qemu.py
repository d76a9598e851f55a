# SPDX-License-Identifier: Apache-2.0
"""QemuTarget: firmware on a QEMU machine, counted by a TCG plugin."""

from __future__ import annotations

import functools
import re
import shutil
import subprocess
import tempfile
from pathlib import Path

from tinyc.base.dataclass import dataclass
from tinyc.base.errors import TinycError
from tinyc.board import Board, Qemu
from tinyc.board.instruction_set import Widths
from tinyc.run import protocol
from tinyc.run.base import (
    INSTRUCTION_LIMIT,
    OVERHEAD,
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
from tinyc.run.process import REQUESTS, Ended, follow
from tinyc.run.trace import TracePlan, TraceReport, build_trace_library, plan_trace, read_report
from tinyc.toolchain.compile import Firmware

STALL_SECONDS = 600.0  # the instruction limit strikes long before, where the plugin works
_REPORT = "trace.txt"
_CONFIG = "trace.cfg"
_PLUGIN_APIS = (1, 2, 3, 4, 5, 6)  # what is used of the plugin interface is the same in all of them


@dataclass(frozen=True, slots=True)
class QemuTarget:
    """A QEMU machine. plugin: the tracer that this QEMU takes, None when it takes none (no counts then)."""

    qemu: Qemu
    program: str
    version: str
    plugin: Path | None
    stall_seconds: float = STALL_SECONDS

    @property
    def machine(self) -> str:
        return f"QEMU {self.version} {self.qemu.machine}"

    def run(
        self,
        firmware: Firmware,
        inputs: Inputs,
        *,
        instruction_limit: int = INSTRUCTION_LIMIT,
        on_progress: Progress | None = None,
    ) -> RunResult:
        check_inputs(firmware.info, inputs)
        plan = plan_trace(firmware, firmware.read_elf(), instruction_limit)
        talk = Conversation(firmware, len(inputs), on_progress)
        with tempfile.TemporaryDirectory(prefix="tinyc-") as name:
            folder = Path(name)
            (folder / REQUESTS).write_bytes(protocol.requests(inputs, firmware.resets))
            # Relative: QEMU runs in the folder, and its options end at a comma.
            (folder / _CONFIG).write_text(plan.config(Path(_REPORT)))
            ended = follow(self._command(firmware), folder, talk, self.stall_seconds)
            traced = (folder / _REPORT).is_file()
            report = read_report(plan, folder / _REPORT) if traced else TraceReport(False, None, Counts())
        if report.stopped:
            raise limit_error(firmware, instruction_limit, report.step, talk.done)
        if talk.fault is not None:
            fault = talk.fault
            raise fault_error(firmware, protocol.fault_reason(fault), report.step, fault.pc, fault.inference)
        if ended.status != 0:
            raise self._crash(firmware, ended, report.step, talk.done)
        return talk.finish(self.machine, report.counts)

    def _crash(self, firmware: Firmware, ended: Ended, step: int | None, inference: int) -> RunError:
        if re.search(r"[Ll]ockup", ended.stderr):
            return fault_error(firmware, "the core locked up, as after a stack overflow", step, None, inference)
        lines = "\n".join(f"  {line}" for line in ended.stderr.splitlines()[:4])
        return RunError(
            f"QEMU ended with status {ended.status} in inference {inference}\n{lines}".rstrip(),
            step=step if step != OVERHEAD else None,
            hint=f"its machine is '{self.qemu.machine}', of [emulator.qemu] in {firmware.board.file}",
        )

    def _command(self, firmware: Firmware) -> list[str]:
        return [
            *(self.program, "-M", self.qemu.machine, *machine_arguments(self.qemu, firmware.board)),
            *("-display", "none", "-serial", "none", "-monitor", "none", "-nic", "none", "-no-reboot"),
            *("-semihosting-config", "enable=on,target=native"),
            *("-kernel", str(firmware.elf.resolve())),
            *(_plugin_arguments(self.plugin) if self.plugin is not None else ()),
        ]


def find_qemu(board: Board) -> QemuTarget | None:
    """QEMU for the board, None when it is not installed or the board has no machine there."""
    if board.qemu is None:
        return None
    probed = _probe(board.qemu.program)
    if probed is None:
        return None
    program, version, plugin = probed
    return QemuTarget(board.qemu, program, version, plugin)


@functools.cache
def _probe(name: str) -> tuple[str, str, Path | None] | None:
    program = shutil.which(name)
    if program is None:
        return None
    try:
        done = subprocess.run([program, "--version"], check=False, capture_output=True, text=True, timeout=60)
    except (OSError, subprocess.TimeoutExpired):
        return None
    version = re.search(r"\d+(\.\d+)+", done.stdout)
    if done.returncode != 0 or version is None:
        return None
    return program, version[0], _accepted_plugin(program)


def _accepted_plugin(program: str) -> Path | None:
    """The tracer for the plugin API that this QEMU speaks, None when it loads none."""
    for api in _PLUGIN_APIS:
        try:
            plugin = build_trace_library(api)
        except TinycError:
            return None
        if plugin is None:
            return None
        if accepts(program, plugin):
            return plugin
    return None


def accepts(program: str, plugin: Path) -> bool:
    """Whether QEMU loads the plugin: an empty machine that is told to quit leaves a report then."""
    with tempfile.TemporaryDirectory(prefix="tinyc-") as name:
        empty = TracePlan(run_start=0, run_end=0, run_return=0, steps=(), step_count=0, limit=0, widths=Widths())
        (Path(name) / _CONFIG).write_text(empty.config(Path(_REPORT)))
        command = [program, "-M", "none", "-display", "none", "-monitor", "stdio", *_plugin_arguments(plugin)]
        try:
            subprocess.run(command, cwd=name, input=b"quit\n", check=False, capture_output=True, timeout=60)
        except (OSError, subprocess.TimeoutExpired):
            return False
        return (Path(name) / _REPORT).is_file()


def machine_arguments(qemu: Qemu, board: Board) -> list[str]:
    """The board's options; `{ram_bytes}` and `{flash_bytes}` are those of its memory."""
    sizes = {"ram_bytes": board.memory.ram_bytes, "flash_bytes": board.memory.flash_bytes} if board.memory else {}
    arguments = list(qemu.arguments)
    for name, size in sizes.items():
        arguments = [argument.replace(f"{{{name}}}", str(size)) for argument in arguments]
    return arguments


def _plugin_arguments(plugin: Path) -> list[str]:
    return ["-plugin", f"{str(plugin).replace(',', ',,')},config={_CONFIG}"]
