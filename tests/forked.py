# SPDX-License-Identifier: Apache-2.0
"""Command lines of tinyc in processes of their own that need not import it first, which takes longer than most of them:
one process has imported all of tinyc, and forks for each.

Such a process shares with a started one: arguments, surroundings, folder, streams, signals, exit code. It does not show
what is imported when, what is read before `main`, and which modules are missing.
"""

from __future__ import annotations

import gc
import importlib
import json
import os
import pkgutil
import signal
import socket
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from types import ModuleType, TracebackType

import tinyc.cli

ROOT = Path(__file__).resolve().parents[1]
MAIN = "from tinyc.cli.main import main\nmain()\n"
_MOST_BYTES = 1 << 17  # of arguments and surroundings: one packet of a socket


class Forked:
    """A process that has imported tinyc, and runs programs in forks of it, one after the other."""

    def __init__(self) -> None:
        self._socket, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        with theirs:
            self._process = subprocess.Popen(
                [sys.executable, "-m", "tests.forked", str(theirs.fileno())],
                cwd=ROOT,
                env={**os.environ, "OPENBLAS_NUM_THREADS": "1"},  # a process with threads is not to fork
                pass_fds=[theirs.fileno()],
            )

    def __enter__(self) -> Forked:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self._socket.close()
        self._process.wait()

    def tinyc(
        self, *words: str | Path, cwd: Path | None = None, environment: Mapping[str, str] | None = None
    ) -> subprocess.CompletedProcess[str]:
        """What `tinyc WORDS` does, its output caught. environment: instead of this process's."""
        return self.python(MAIN, ["tinyc", *map(str, words)], cwd, environment)

    def python(
        self,
        program: str,
        arguments: Sequence[str],
        cwd: Path | None = None,
        environment: Mapping[str, str] | None = None,
    ) -> subprocess.CompletedProcess[str]:
        """What Python does with the text of a program. arguments: its sys.argv."""
        with tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as err, Path(os.devnull).open() as none:
            self.start(program, arguments, [file.fileno() for file in (none, out, err)], cwd, environment)
            code = self.wait()
            said = [file.seek(0) or file.read().decode() for file in (out, err)]
        return subprocess.CompletedProcess(arguments, code, *said)

    def start(
        self,
        program: str,
        arguments: Sequence[str],
        streams: Sequence[int],
        cwd: Path | None = None,
        environment: Mapping[str, str] | None = None,
    ) -> None:
        """As `python`, with these descriptors as its standard streams; `wait` has to follow."""
        surroundings = dict(os.environ if environment is None else environment)
        text = json.dumps([program, list(arguments), str(cwd or Path.cwd()), surroundings])
        socket.send_fds(self._socket, [text.encode()], streams)

    def wait(self) -> int:
        """The exit code of what runs; negative: the number of the signal that ended it."""
        return os.waitstatus_to_exitcode(int(self._socket.recv(64)))


def serve(asked: socket.socket) -> tuple[str, list[str]] | None:
    """In each fork: its program and sys.argv. In the process that forks: None, when nobody asks any more."""
    while True:
        text, streams, _, _ = socket.recv_fds(asked, _MOST_BYTES, 3)
        if not text:
            return None
        pid = os.fork()
        if pid == 0:
            asked.close()
            program, arguments, folder, environment = json.loads(text)
            _surround(streams, folder, environment)
            return program, arguments
        for stream in streams:
            os.close(stream)
        asked.send(str(os.waitpid(pid, 0)[1]).encode())


def _surround(streams: Sequence[int], folder: str, environment: Mapping[str, str]) -> None:
    """What a process is born with."""
    os.chdir(folder)
    os.environ.clear()
    os.environ.update(environment)
    for number, stream in enumerate(streams):
        os.dup2(stream, number)
        os.close(stream)
    sys.stdin, sys.stdout, sys.stderr = open(0), open(1, "w"), open(2, "w", errors="backslashreplace")  # noqa: SIM115
    sys.__stdin__, sys.__stdout__, sys.__stderr__ = sys.stdin, sys.stdout, sys.stderr
    signal.signal(signal.SIGINT, signal.default_int_handler)


def import_all() -> None:
    """Every command, and what it imports, but for packages that are not installed: it says so when it needs them."""
    for module in pkgutil.iter_modules(tinyc.cli.__path__, "tinyc.cli."):
        with suppress(ImportError):
            importlib.import_module(module.name)


if __name__ == "__main__":
    import_all()
    gc.collect()
    gc.freeze()  # what all forks share is written by none
    if (command := serve(socket.socket(fileno=int(sys.argv[1])))) is not None:
        code, sys.argv = command
        sys.modules["__main__"] = ModuleType("__main__")  # a program looks at it for its name
        exec(compile(code, "<program>", "exec"), vars(sys.modules["__main__"]))
