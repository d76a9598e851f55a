# SPDX-License-Identifier: Apache-2.0
"""Tests in several processes say what they say in one."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
TESTS = """
import os, signal, sys, time, warnings
from pathlib import Path
import pytest

HERE = Path(__file__).parent

@pytest.fixture(scope="module")
def noted():
    with (HERE / "begun").open("a") as file:
        file.write(f"{os.getpid()}\\n")
    yield
    with (HERE / "ended").open("a") as file:
        file.write(f"{os.getpid()}\\n")

@pytest.mark.parametrize("number", range(30))
def test_one(noted, number, tmp_path, capfd):
    tmp_path.joinpath("file").touch(exist_ok=False)
    if number == 29:
        time.sleep(0.3)  # others take what is left of its process
    print("seen", number)
    assert number != 3
    if number == 4:
        pytest.skip("not this one")
    if number == 5:
        warnings.warn("odd number")
    if number == 6 and DIES:
        os.kill(os.getpid(), signal.SIGKILL)
"""


def run(folder: Path, *options: str, dies: bool = False) -> tuple[int, str]:
    """(exit code, what is said) of pytest without the other plugins."""
    (folder / "test_it.py").write_text(TESTS.replace("DIES", str(dies)), encoding="utf-8")
    (folder / "pytest.ini").write_text("[pytest]\n", encoding="utf-8")
    command = [sys.executable, "-m", "pytest", "-c", str(folder / "pytest.ini"), "-p", "tests.workers", "-rs"]
    done = subprocess.run(
        [*command, f"--basetemp={folder / 'temporary'}", *options, str(folder / "test_it.py")],
        cwd=ROOT,
        env={**os.environ, "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"},
        capture_output=True,
        text=True,
        check=False,
    )
    return done.returncode, done.stdout + done.stderr


@pytest.mark.parametrize("processes", [1, 40])
def test_each_test_runs_once(tmp_path: Path, processes: int) -> None:
    code, said = run(tmp_path, "--processes", str(processes))
    assert code == 1
    assert re.search(r"1 failed, 28 passed, 1 skipped, 1 warning in", said), said
    assert "E       assert 3 != 3" in said
    assert "seen 3" in said
    assert "not this one" in said
    assert "UserWarning: odd number" in said
    begun, ended = ((tmp_path / name).read_text(encoding="utf-8").split() for name in ("begun", "ended"))
    assert sorted(begun) == sorted(ended)
    assert len(begun) == min(processes, 30) == len(set(begun))


def test_a_process_that_dies_fails_its_test_and_no_other(tmp_path: Path) -> None:
    code, said = run(tmp_path, "--processes", "2", dies=True)
    assert code == 1
    assert re.search(r"2 failed, 27 passed, 1 skipped", said), said
    assert "the process that ran this test ended with -9" in said


def test_the_first_failure_ends_the_run(tmp_path: Path) -> None:
    code, said = run(tmp_path, "--processes", "2", "-x")
    assert code == 1
    assert "1 failed" in said
    assert "stopping after 1 failures" in said
    assert "Traceback" not in said


def test_what_cannot_be_collected_is_not_run(tmp_path: Path) -> None:
    (tmp_path / "test_other.py").write_text("import no_such_module\n", encoding="utf-8")
    code, said = run(tmp_path, "--processes", "2", str(tmp_path / "test_other.py"))
    assert code == 2
    assert "no_such_module" in said
    assert "passed" not in said
