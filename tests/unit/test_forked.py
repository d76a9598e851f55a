# SPDX-License-Identifier: Apache-2.0
"""What is forked behaves as what is started."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests.forked import Forked

SEEN = """
import json, os, sys, threading
print(json.dumps([sys.argv[1:], os.getcwd(), dict(os.environ), sys.stdin.read(), __name__, threading.active_count()]))
print("and", file=sys.stderr)
"""
ENDS = {
    "0": "pass",
    "7": "sys.exit(7)",
    "a text": "sys.exit('why')",
    "an error": "raise ValueError('no')",
    "a signal": f"os.kill(os.getpid(), {int(signal.SIGTERM)})",
    "Ctrl-C": (
        "import signal, time; signal.signal(signal.SIGINT, signal.default_int_handler)\n"  # ignored in the background
        "os.kill(os.getpid(), signal.SIGINT); time.sleep(60)"
    ),
    "at once": "os.write(1, b'x'); os._exit(3)",
    "at exit": "import atexit; atexit.register(print, 'late'); print('early', end='')",
}


def started(program: str, *words: str, cwd: Path, environment: dict[str, str]) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-c", program, *words],
        cwd=cwd,
        env=environment,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
    )


def test_it_has_the_surroundings_of_its_own(forked: Forked, tmp_path: Path) -> None:
    environment = {"PATH": os.environ["PATH"], "ONE": "ä b"}
    ours = forked.python(SEEN, ["-c", "a b", "ü"], tmp_path, environment)
    theirs = started(SEEN, "a b", "ü", cwd=tmp_path, environment=environment)
    words, folder, seen, *rest = json.loads(ours.stdout)
    assert [words, folder, *rest] == [["a b", "ü"], str(tmp_path), "", "__main__", 1]
    assert seen == environment
    assert json.loads(theirs.stdout)[2].items() >= environment.items()  # Python adds LC_CTYPE when it starts
    assert (ours.stderr, ours.returncode) == (theirs.stderr, theirs.returncode) == ("and\n", 0)


@pytest.mark.parametrize("end", ENDS)
def test_it_ends_the_same_way(forked: Forked, tmp_path: Path, end: str) -> None:
    program = f"import os, sys\n{ENDS[end]}\n"
    ours = forked.python(program, ["-c"], tmp_path)
    theirs = started(program, cwd=tmp_path, environment=dict(os.environ))
    assert (ours.returncode, ours.stdout) == (theirs.returncode, theirs.stdout)
    assert ours.stderr.splitlines()[-1:] == theirs.stderr.splitlines()[-1:]


def test_none_sees_the_one_before(forked: Forked, tmp_path: Path) -> None:
    forked.python("import os, tinyc\nos.environ['GONE'] = tinyc.gone = 'x'\nos.chdir('/')", ["-c"], tmp_path)
    left = "import os, tinyc\nprint('GONE' in os.environ, hasattr(tinyc, 'gone'), os.getcwd())"
    assert forked.python(left, ["-c"], tmp_path).stdout == f"False False {tmp_path}\n"


def test_the_command_is_called_tinyc(forked: Forked) -> None:
    ran = forked.tinyc("build", "-h")
    assert ran.returncode == 0
    assert "Usage: tinyc build " in ran.stdout
