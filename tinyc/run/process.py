"""Runs a program that reads requests from one file and writes replies to another, and follows the replies."""

from __future__ import annotations

import contextlib
import subprocess
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

from tinyc.errors import TinycError
from tinyc.run.base import Conversation, RunError

REQUESTS = "requests.bin"
REPLIES = "replies.bin"
_LONGEST_WAIT = 0.05


@dataclass(frozen=True, slots=True)
class Ended:
    """How a program ended: its exit status (negative: the signal) and what it wrote to stderr."""

    status: int
    stderr: str


def follow(
    command: Sequence[str],
    folder: Path,
    talk: Conversation,
    stall_seconds: float,
    *,
    pipes: bool = False,
    environment: Mapping[str, str] | None = None,
) -> Ended:
    """Runs the command in `folder`, where it finds requests.bin and leaves replies.bin, until it ends.

    pipes: it takes them as stdin and stdout. Raises RunError when it gives no sign of life (a reply) for
    stall_seconds: whatever happens, this returns.
    """
    replies = folder / REPLIES
    replies.touch()
    errors = folder / "stderr.txt"
    with contextlib.ExitStack() as files:
        stdin = files.enter_context((folder / REQUESTS).open("rb")) if pipes else subprocess.DEVNULL
        stdout = files.enter_context(replies.open("wb")) if pipes else subprocess.DEVNULL
        stderr = files.enter_context(errors.open("wb"))
        try:
            process = subprocess.Popen(command, cwd=folder, stdin=stdin, stdout=stdout, stderr=stderr, env=environment)
        except OSError as error:
            raise TinycError(f"{command[0]} cannot be started: {error.strerror}", hint="run `tinyc doctor`") from error
        reading = files.enter_context(replies.open("rb"))
        try:
            _wait(process, reading, talk, stall_seconds)
        finally:
            if process.poll() is None:
                process.kill()
                process.wait()
        talk.feed(reading.read())
    return Ended(process.returncode, errors.read_text(errors="replace"))


def _wait(process: subprocess.Popen[bytes], reading: BinaryIO, talk: Conversation, stall_seconds: float) -> None:
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
