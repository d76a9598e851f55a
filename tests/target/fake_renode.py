# SPDX-License-Identifier: Apache-2.0
"""A stand-in for renode-test: Robot Framework itself on a test, with keywords that imitate Renode's on
unicorn (renode_keywords.py). A command line: -r RESULTS TEST.robot."""

from __future__ import annotations

import os
import stat
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import pytest

HERE = Path(__file__).resolve().parent


def install(folder: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Puts it on PATH; gives a file that has a line for each run. TINYC_FAKE_RENODE says how it fails. Skips where it
    cannot work."""
    import pytest  # noqa: PLC0415  a run does without: it takes longer to import than what runs here

    pytest.importorskip("unicorn", reason="unicorn is not installed: pip install unicorn")
    pytest.importorskip("robot.api", reason="Robot Framework is not installed: pip install robotframework")
    program = folder / "bin" / "renode-test"
    runs = folder / "runs.txt"
    runs.touch()
    program.parent.mkdir()
    program.write_text(f'#!/bin/sh\necho "$3" >> "{runs}"\nexec "{sys.executable}" "{Path(__file__).resolve()}" "$@"\n')
    program.chmod(program.stat().st_mode | stat.S_IXUSR)
    monkeypatch.setenv("PATH", f"{program.parent}{os.pathsep}{os.environ['PATH']}")
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join((str(HERE.parents[1]), str(HERE))))
    return runs


def main(arguments: list[str]) -> int:
    """TINYC_FAKE_RENODE: crash, hang, or silent (the firmware's answers are lost)."""
    from robot import run  # noqa: PLC0415  not on every computer

    assert arguments[0] == "-r"
    mode = os.environ.get("TINYC_FAKE_RENODE", "")
    if mode == "crash":
        sys.stderr.write("Unhandled exception: out of memory\n")
        return 134
    if mode == "hang":
        time.sleep(600)
    resource = HERE / "renode_keywords.robot"
    results = arguments[1]
    status = run(
        arguments[2], outputdir=results, output="robot_output.xml", variable=[f"RENODEKEYWORDS:{resource}"], log=None,
        report=None,
    )  # fmt: skip
    return 1 if status else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
