# SPDX-License-Identifier: Apache-2.0
"""Tests in a private copy of the checkout, with a fault or without."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from enum import Enum
from pathlib import Path

from tests.seeded.fault import ROOT, Fault

_SECONDS = 1800  # of the tests of a fault; a test that never ends is no answer
_BESIDE = ("shared",)  # folders beside the checkout that tests look for


class Verdict(Enum):
    CAUGHT = "caught"
    MISSED = "NOT caught"
    STALE = "text gone"
    BROKEN = "no answer"


@dataclass(frozen=True, slots=True)
class Trial:
    """What came of a fault. said: the test that failed, or what to do."""

    fault: Fault
    verdict: Verdict
    said: str = ""


def try_fault(fault: Fault, root: Path = ROOT) -> Trial:
    """The tests of the fault, up to the first that fails, in a copy of the checkout that has the fault."""
    if (times := fault.times(root)) != 1:
        return Trial(fault, Verdict.STALE, f"{fault.file} has the text {times} times: renew it in tests/seeded/faults")
    with copy_of(root) as copy:
        fault.seed(copy)
        code, output = run_tests(copy, fault.tests)
    if code == 1 and (failed := re.search(r"^(?:FAILED|ERROR) (.+?)(?: - |$)", output, re.M)):
        return Trial(fault, Verdict.CAUGHT, failed[1])
    if code == 0 and re.search(r"\d+ passed", output):
        return Trial(fault, Verdict.MISSED, f"by {', '.join(fault.tests)}")
    return Trial(fault, Verdict.BROKEN, f"pytest ended with {code}: {output[-2000:]}")


def run_tests(copy: Path, tests: Sequence[str], *options: str) -> tuple[int, str]:
    """(exit code, output) of pytest in a copy of the checkout, up to the first test that fails."""
    private = copy.parent
    surroundings = {
        **os.environ,
        "PYTHONPATH": os.pathsep.join(filter(None, (str(copy), os.environ.get("PYTHONPATH")))),
        "TMPDIR": str(private / "tmp"),
        "XDG_CACHE_HOME": str(private / "cache"),  # what a wrong program has computed stays here
    }
    command = [sys.executable, "-m", "pytest", "-q", "-x", "-rfE", "--tb=short", "-p", "no:cacheprovider"]
    try:
        done = subprocess.run(
            [*command, *options, *tests],
            cwd=copy,
            env=surroundings,
            check=False,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            timeout=_SECONDS,
        )
    except subprocess.TimeoutExpired:
        return -1, f"the tests took longer than {_SECONDS} seconds"
    return done.returncode, done.stdout.decode(errors="replace")


@contextmanager
def copy_of(root: Path) -> Iterator[Path]:
    """A folder with the files of the checkout as they are now, those that git ignores left out."""
    with tempfile.TemporaryDirectory(prefix="tinyc-seeded-") as private:
        copy = Path(private, root.name)
        listed = ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
        names = subprocess.run(listed, cwd=root, check=True, stdout=subprocess.PIPE).stdout.decode().split("\0")
        for name in filter(None, names):
            if (root / name).is_file():  # deleted, and not yet committed
                (copy / name).parent.mkdir(parents=True, exist_ok=True)
                shutil.copy2(root / name, copy / name)
        for compiled in (root / "tinyc").rglob("__pycache__"):
            shutil.copytree(compiled, copy / compiled.relative_to(root))
        for name in _BESIDE:
            if (root.parent / name).is_dir():
                Path(private, name).symlink_to(root.parent / name)
        Path(private, "tmp").mkdir()
        yield copy
