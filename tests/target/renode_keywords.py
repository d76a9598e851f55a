# SPDX-License-Identifier: Apache-2.0
"""A library for Robot Framework: Renode's keywords, as far as tinyc uses them, on `renode_monitor` and
`renode_machine`. Parameters have Renode's names. TINYC_FAKE_RENODE: silent (what a file backend writes is lost), gaps
(the disassembler knows no instruction at a third of the addresses), blind (it knows none), still (virtual time does not
go on, so no limit of it comes)."""

from __future__ import annotations

import os
import re
import time
from pathlib import Path
from types import SimpleNamespace
from typing import BinaryIO

from renode_facts import disassembles
from renode_machine import Machine
from renode_monitor import Monitor

LIMIT = 3_000_000


class renode_keywords:  # noqa: N801  Robot Framework looks for the file's name
    ROBOT_LIBRARY_SCOPE = "GLOBAL"

    def reset_emulation(self) -> None:
        self.monitor = Monitor()
        self.uart = ""
        self.lines: list[str] = []
        self.position = 0
        self.failing: list[str] = []
        self.machine: Machine | None = None
        self.backends: dict[str, BinaryIO] = {}
        self.watches_log = False

    def execute_script(self, path: str) -> None:
        self.monitor.run_script(Path(path))
        for uart, file in self.monitor.outputs.items():
            self.backends[uart] = make_as_renode_does(file)

    def execute_command(self, command: str) -> str:
        tracing = self.monitor.tracing
        if self.machine is not None:
            self.monitor.settings["cpu PC"] = f"0x{self.machine.pc:X}"
        said = self.monitor.execute(command)
        if tracing is not None and self.monitor.tracing is None and self.machine is not None:
            self._write_trace(tracing)
        return said + "\n"

    def create_log_tester(self, timeout: float) -> None:
        self.watches_log = True

    def create_terminal_tester(self, uart: str, timeout: float = 8) -> int:
        assert self.monitor.platform is not None
        assert uart.startswith("sysbus."), uart
        assert self.monitor.platform.entries[uart.removeprefix("sysbus.")].type.startswith("UART."), uart
        self.uart = uart.removeprefix("sysbus.")
        return 1

    def register_failing_uart_string(self, string: str) -> None:
        self.failing.append(string)

    def wait_for_line_on_uart(
        self,
        content: str,
        timeout: float | None = None,
        treatAsRegex: bool = False,  # noqa: N803
        pauseEmulation: bool = False,  # noqa: N803
    ) -> SimpleNamespace:
        if re.match(r"\w+=", content):
            raise AssertionError(f"Renode takes {content} for a named argument")
        if not self.uart:
            raise AssertionError("there is no terminal tester")
        while os.environ.get("TINYC_FAKE_RENODE") == "still":
            time.sleep(1)
        self._run()
        while self.position < len(self.lines):
            line = self.lines[self.position]
            self.position += 1
            if any(text in line for text in self.failing):
                raise AssertionError(f"the line '{line}' must not come")
            match = re.search(content if treatAsRegex else re.escape(content), line)
            if match is not None:
                return SimpleNamespace(Line=line, Groups=list(match.groups()), Timestamp=0.0)
        raise AssertionError(f"Terminal tester failed! Next line event: timeout; waiting for '{content}'")

    def should_not_be_in_log(self, pattern: str, timeout: float | None = None) -> None:
        if not self.watches_log:
            raise AssertionError("there is no log tester")
        outside = self.machine.outside if self.machine is not None else []
        log = [f"sysbus: [cpu: 0x0] WriteDoubleWord to non existing peripheral at 0x{address:X}" for address in outside]
        for entry in log:
            if pattern in entry:
                raise AssertionError(f"Unexpected line detected in the log: {entry}")

    def _run(self) -> None:
        """The whole run, at the first line that is waited for."""
        if self.machine is not None:
            return
        written = bytearray()
        silent = os.environ.get("TINYC_FAKE_RENODE") == "silent"

        def on_write(uart: str, value: int) -> None:
            if uart in self.backends and not silent:
                self.backends[uart].write(bytes([value & 0xFF]))
            if uart == self.uart:
                written.append(value & 0xFF)

        self.machine = Machine(self.monitor, on_write, self.monitor.tracing is not None)
        self.machine.run(LIMIT)
        self.monitor.settings["cpu ExecutedInstructions"] = f"0x{self.machine.instructions:016X}"
        self.lines = [line.rstrip("\r") for line in written.decode("latin-1").split("\n")[:-1]]

    def _write_trace(self, path: Path) -> None:
        """Renode writes of each block what its disassembler knows, and says where it does not."""
        assert self.machine is not None
        assert self.monitor.platform is not None
        mode = os.environ.get("TINYC_FAKE_RENODE")
        is_readable = disassembles(self.monitor.platform.text("cpu", "cpuType")) and mode != "blind"
        with path.open("x", encoding="ascii") as file:
            for block in self.machine.executed:
                for address in block:
                    if not is_readable or (mode == "gaps" and address // 2 % 3 == 0):
                        file.write(f"Couldn't disassemble opcode at PC 0x{address:X}\n")
                        break
                    file.write(f"0x{address:X}\n")


def make_as_renode_does(path: Path) -> BinaryIO:
    """A file of the name is made and deleted, to see whether it may be made, before the one that stays. One that was
    there is renamed."""
    if path.exists():
        path.rename(f"{path}.1")
    path.touch()
    time.sleep(0.01)
    path.unlink()
    time.sleep(0.01)
    return path.open("xb", buffering=0)
