# SPDX-License-Identifier: Apache-2.0
"""Runs a program that reads requests from one file and writes replies to another, and follows the replies."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

from tinyc.base.dataclass import dataclass
from tinyc.base.errors import TinycError
from tinyc.run.base import Conversation, RunError

REQUESTS = "requests.bin"
REPLIES = "replies.bin"
_LONGEST_WAIT = 0.05


@dataclass(frozen=True, slots=True)
class Ended:
    """How a program ended: its exit status (negative: the signal), and what it wrote to stderr and, unless that was
    its reply, to stdout."""

    status: int
    stderr: str
    stdout: str = ""


def follow(
    command: Sequence[str],
    folder: Path,
    talk: Conversation,
    stall_seconds: float,
    *,
    pipes: bool = False,
    environment: Mapping[str, str] | None = None,
) -> Ended:
    """Runs the command in `folder`, where it finds requests.bin and makes replies.bin, until it ends.

    pipes: it takes them as stdin and stdout. Raises RunError when it gives no sign of life (a reply) for
    stall_seconds: whatever happens, this returns.
    """
    said, errors = folder / "stdout.txt", folder / "stderr.txt"
    with contextlib.ExitStack() as files:
        stdin = files.enter_context((folder / REQUESTS).open("rb")) if pipes else subprocess.DEVNULL
        stdout = files.enter_context((folder / REPLIES if pipes else said).open("wb"))
        stderr = files.enter_context(errors.open("wb"))
        reading = _Replies(folder / REPLIES)
        try:
            process = subprocess.Popen(
                command, cwd=folder, stdin=stdin, stdout=stdout, stderr=stderr, env=environment, start_new_session=True
            )
        except OSError as error:
            raise TinycError(f"{command[0]} cannot be started: {error.strerror}", hint="run `tinyc doctor`") from error
        try:
            _wait(process, reading, talk, stall_seconds)
        finally:
            _kill(process)
        talk.feed(reading.read())
    text = "" if pipes else said.read_text(errors="replace")
    return Ended(process.returncode, errors.read_text(errors="replace"), text)


class _Replies:
    """A file that the program makes, and that grows.

    No handle is kept: Renode makes and deletes a file of the name, to see whether it may, before it makes the one
    that it writes. What was made only to be deleted is empty, so bytes that were read are those of the one that stays.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._taken = 0

    def read(self) -> bytes:
        """What is new in it."""
        try:
            with self._path.open("rb") as file:
                file.seek(self._taken)
                data = file.read()
        except FileNotFoundError:
            return b""
        self._taken += len(data)
        return data


def _kill(process: subprocess.Popen[bytes]) -> None:
    """Ends the program, if it has not ended, with all that it started: renode-test is a script."""
    if process.poll() is not None:
        return
    if hasattr(os, "killpg"):
        os.killpg(process.pid, signal.SIGKILL)
    else:
        process.kill()
    process.wait()


def _wait(process: subprocess.Popen[bytes], reading: _Replies, talk: Conversation, stall_seconds: float) -> None:
    last_sign = time.monotonic()
    wait = 0.001
    while True:
        try:
            process.wait(wait)
            return
        except subprocess.TimeoutExpired:
            wait = min(wait * 2, _LONGEST_WAIT)
        if data := reading.read():
            talk.feed(data)
            last_sign = time.monotonic()
        elif time.monotonic() - last_sign > stall_seconds:
            raise RunError(f"the firmware gave no answer for {stall_seconds:.0f} s; inference {talk.done} was stopped")
