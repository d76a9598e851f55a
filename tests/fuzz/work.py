# SPDX-License-Identifier: Apache-2.0
"""Cases in worker processes with bounds on CPU and memory, so that a hang or a crash is a result like any other.

A worker reads cases from stdin, a line each, and writes what came of them. It is a process of its own from the start,
not a fork: libraries that are imported here have threads.
"""

from __future__ import annotations

import io
import json
import os
import resource
import select
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import FrameType
from typing import IO

from tests.fuzz.case import Case, Outcome, Target, details, signature
from tests.fuzz.targets import TARGETS

ROOT = Path(__file__).resolve().parents[2]
MOST_CASES = 400  # of one worker: what leaks is not held against the cases after it
_GRACE = 10  # CPU seconds from the signal that Python sees to the end of the process
_LOOK_SECONDS = 2.0  # between two looks at a silent worker
_SILENCE_SECONDS = 900  # of one that computes nothing: it waits for something that will not come


class TooLongError(BaseException):
    """The case has used up its CPU seconds. Not an Exception: nothing in between may take it for one."""


class Worker:
    """Runs cases of one target, in a process that is replaced when it dies."""

    def __init__(self, target: Target) -> None:
        self.target = target
        self._process: subprocess.Popen[bytes] | None = None
        self._last_words: IO[bytes] = io.BytesIO()
        self._cases = 0

    def run(self, case: Case) -> Outcome:
        process = self._ready()
        assert process.stdin is not None
        process.stdin.write(f"{case}\n".encode())
        process.stdin.flush()
        self._cases += 1
        line = self._answer(process)
        if line is not None:
            return Outcome(case, **json.loads(line))
        self.close()
        kind, text = _death(process.returncode)
        return Outcome(case, "", kind, text + self._stderr())

    def _ready(self) -> subprocess.Popen[bytes]:
        if self._cases >= MOST_CASES:
            self.close()
        if self._process is None:
            command = [sys.executable, "-m", "tests.fuzz.work"]
            self._process = subprocess.Popen(
                command,
                cwd=ROOT,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,
                process_group=0,
            )
        return self._process

    def _stderr(self) -> str:
        """The end of what a process wrote there that is no more."""
        size = self._last_words.seek(0, os.SEEK_END)
        self._last_words.seek(max(0, size - 2000))
        return self._last_words.read().decode("utf-8", "replace")

    def _answer(self, process: subprocess.Popen[bytes]) -> bytes | None:
        """What the worker writes; None if it ends, or takes longer than a case may."""
        assert process.stdout is not None
        most = self.target.cpu_seconds + _GRACE
        began, used, line = time.monotonic(), _cpu_seconds(process.pid), b""
        while _cpu_seconds(process.pid) - used < most and time.monotonic() - began < _SILENCE_SECONDS:
            if select.select([process.stdout], [], [], _LOOK_SECONDS)[0]:
                data = os.read(process.stdout.fileno(), 1 << 16)
                if not data:
                    process.wait()  # it has closed its stdout: it is at its end
                    return None
                line += data
                if line.endswith(b"\n"):
                    return line
        return None

    def close(self) -> None:
        """Ends the process and what it has started, which is its group."""
        process, self._process, self._cases = self._process, None, 0
        if process is None:
            return
        if process.poll() is None or process.returncode < 0:
            with maybe_gone():
                os.killpg(process.pid, signal.SIGKILL)
        process.wait()
        for pipe in (process.stdin, process.stdout):
            if pipe is not None:
                with maybe_gone():
                    pipe.close()


@contextmanager
def maybe_gone() -> Iterator[None]:
    """What is done to a process that may be gone already."""
    try:
        yield
    except (ProcessLookupError, BrokenPipeError):
        return


def _cpu_seconds(pid: int) -> float:
    """That the process has used, without its children; endless when it is gone."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_text(encoding="ascii", errors="replace").rpartition(")")[2].split()
    except OSError:
        return float("inf")
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def _death(status: int) -> tuple[str, str]:
    """Signature and text for a process that ended on its own."""
    if status < 0:
        name = signal.Signals(-status).name
        return f"{'hang' if name == 'SIGKILL' else 'crash'} {name}", f"the process was ended by {name}\n"
    return "exit", f"the process ended by itself with status {status}\n"


def serve() -> None:
    """The worker's life. What the cases print goes nowhere; answers go where stdout was."""
    answers = os.fdopen(os.dup(1), "wb")
    quiet = os.open(os.devnull, os.O_WRONLY)
    os.dup2(quiet, 1)
    signal.signal(signal.SIGXCPU, _too_long)
    for line in sys.stdin:
        case = Case.parse(line.strip())
        outcome = run_here(TARGETS[case.target], case)
        answer = {"word": outcome.word, "signature": outcome.signature, "text": outcome.text}
        answers.write(json.dumps(answer).encode() + b"\n")
        answers.flush()


def _too_long(number: int, frame: FrameType | None) -> None:
    raise TooLongError


def run_here(target: Target, case: Case) -> Outcome:
    """One case, in this process."""
    with tempfile.TemporaryDirectory(prefix="tinyc-fuzz-") as folder, _bounds(target):
        try:
            word = target.check(case.seed, target.subset_of(case), Path(folder))
        except TooLongError as error:
            return Outcome(case, "", "hang", f"more than {target.cpu_seconds} s of CPU\n{details(error)}")
        except Exception as error:
            return Outcome(case, "", signature(error), details(error))
    return Outcome(case, word)


@contextmanager
def _bounds(target: Target) -> Iterator[None]:
    """CPU and address space of this process, for one case. Only in a worker: elsewhere nobody waits for the signal."""
    if signal.getsignal(signal.SIGXCPU) is not _too_long:
        yield
        return
    used = resource.getrusage(resource.RUSAGE_SELF)
    seconds = int(used.ru_utime + used.ru_stime) + 1 + target.cpu_seconds
    unbounded = resource.RLIM_INFINITY
    resource.setrlimit(resource.RLIMIT_CPU, (seconds, unbounded))
    if target.memory_bytes is not None:
        resource.setrlimit(resource.RLIMIT_AS, (_address_space() + target.memory_bytes, unbounded))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_AS, (unbounded, unbounded))
        resource.setrlimit(resource.RLIMIT_CPU, (unbounded, unbounded))


def _address_space() -> int:
    """Bytes that this process has mapped."""
    pages = int(Path("/proc/self/statm").read_text(encoding="ascii").split()[0])
    return pages * resource.getpagesize()


if __name__ == "__main__":
    serve()
