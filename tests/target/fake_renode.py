"""A stand-in for renode-test: reads the files of one run strictly, runs the firmware on unicorn with the platform's
devices, and leaves the files that Renode would. A command line: -r RESULTS TEST.robot. It takes session.robot alone,
and passes test.robot, which test_renode.py reads."""

from __future__ import annotations

import os
import re
import stat
import sys
import time
from pathlib import Path
from xml.sax.saxutils import escape

import pytest
from renode_machine import Machine
from renode_text import read_repl, read_resc

CPUS = {"cortex-m0+": "cortex-m0"}
KEYWORDS = [
    "Execute Script", "Create Log Tester", "Create Terminal Tester", "Run Keyword And Return Status",
    "Run Keyword And Return Status", "Execute Command", "Log", "Should Be True",
]  # fmt: skip
LIMIT = 500_000


def install(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Puts it on PATH. TINYC_FAKE_RENODE says how it fails. Skips where it cannot work."""
    pytest.importorskip("unicorn", reason="unicorn is not installed: pip install unicorn")
    pytest.importorskip("robot.api", reason="Robot Framework is not installed: pip install robotframework")
    program = folder / "bin" / "renode-test"
    program.parent.mkdir()
    program.write_text(f'#!/bin/sh\nexec "{sys.executable}" "{Path(__file__).resolve()}" "$@"\n')
    program.chmod(program.stat().st_mode | stat.S_IXUSR)
    monkeypatch.setenv("PATH", f"{program.parent}{os.pathsep}{os.environ['PATH']}")
    monkeypatch.setenv("PYTHONPATH", str(Path(__file__).resolve().parents[2]))


def main(arguments: list[str]) -> int:
    """TINYC_FAKE_RENODE: crash, hang, or silent (the firmware's answers are lost)."""
    assert arguments[0] == "-r"
    results, test = Path(arguments[1]), Path(arguments[2])
    if test.name == "test.robot":
        return 0
    mode = os.environ.get("TINYC_FAKE_RENODE", "")
    if mode == "crash":
        sys.stderr.write("Unhandled exception: out of memory\n")
        return 134
    if mode == "hang":
        time.sleep(600)
    line = read_robot(test)
    script = read_resc((test.parent / "session.resc").read_text())
    assert script.machine_made_before_use
    tracing = script.argument(r'cpu CreateExecutionTracing "tracer" \$ORIGIN/(\S+) PC')
    assert bool(tracing) == ("DisableExecutionTracing" in test.read_text())
    machine, printed = run(test.parent, script, silent=mode == "silent")
    if tracing:
        with (test.parent / tracing).open("x") as file:
            file.writelines(f"0x{address:X}\n" for address in machine.executed)
    ended, inside = line in printed, not machine.outside
    results.mkdir()
    found = f"ended {ended}, inside {inside}, at 0x{machine.pc:X}"
    (results / "robot_output.xml").write_text(f"<robot><arg>ended ${{ended}}</arg><msg>{escape(found)}</msg></robot>")
    passed = ended and inside
    sys.stdout.write("Tests finished successfully :)\n" if passed else f"Tests failed: {found}\n")
    return 0 if passed else 1


def read_robot(test: Path) -> str:
    """The line that the firmware must print."""
    from robot.api import get_model  # noqa: PLC0415  not on every computer

    calls = []
    for section in get_model(str(test)).sections:
        for block in getattr(section, "body", []):
            for item in getattr(block, "body", []):
                assert not getattr(item, "errors", ()), item.errors
                if hasattr(item, "keyword"):
                    calls.append((item.keyword, tuple(item.args)))
    names = [name for name, arguments in calls if arguments != ("cpu DisableExecutionTracing",)]
    assert names == KEYWORDS, names
    said = dict(calls)
    assert said["Execute Script"] == ("${CURDIR}/session.resc",)
    assert said["Create Terminal Tester"][0] == "sysbus.console"
    assert re.fullmatch(r"timeout=\d+", said["Create Terminal Tester"][1])
    (wait,) = (a for _, a in calls if a[0] == "Wait For Line On Uart")
    for _, arguments in calls:
        assert all(re.match(r"(timeout)=|(?!\w+=)", a) for a in arguments), arguments
    return str(wait[1])


def run(folder: Path, script: object, silent: bool) -> tuple[Machine, str]:
    """The machine after its end, and what it printed."""
    argument = script.argument  # type: ignore[attr-defined]
    platform = read_repl((folder / argument(r"machine LoadPlatformDescription \$ORIGIN/(\S+)")).read_text())
    elf = folder / argument(r"sysbus LoadELF \$ORIGIN/(\S+)")
    requests = (folder / argument(r"sysbus LoadBinary \$ORIGIN/(\S+) 0x[0-9A-F]{8}")).read_bytes()
    at = int(argument(r"sysbus LoadBinary \S+ (0x[0-9A-F]{8})"), 16)
    assert at == platform.address("requests")
    assert len(requests) <= platform.number("requests", "size")
    printed: list[str] = []
    with (folder / argument(r"sysbus\.replies CreateFileBackend \$ORIGIN/(\S+) true")).open("xb") as replies:

        def on_write(device: str, value: int) -> bool:
            if device == "replies" and not silent:
                replies.write(bytes([value & 0xFF]))
            elif device == "console":
                printed.append(chr(value))
            return not printed or printed[-1] != "\n"

        name = platform.entries["cpu"].attributes["cpuType"].strip('"')
        tracing = bool(argument(r"cpu CreateExecutionTracing (.*)"))
        machine = Machine(elf, CPUS.get(name, name), platform, on_write, requests, tracing)
        machine.run(LIMIT)
    return machine, "".join(printed)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
