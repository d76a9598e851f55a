# SPDX-License-Identifier: Apache-2.0
"""Following a program's replies while it makes, deletes and makes anew the file that they lie in, as Renode does."""

from __future__ import annotations

import random
import sys
from pathlib import Path
from typing import Any

import pytest

from tinyc.run.process import REPLIES, REQUESTS, follow

# In turn: how long each state of the file lasts, in ms, and at the end the bytes, one by one.
PROGRAM = """
import sys, time
from pathlib import Path
path, *waits = Path(sys.argv[1]), *map(int, sys.argv[2:])
for wait in waits:
    path.unlink() if path.exists() else path.touch()
    time.sleep(wait / 1000)
path.unlink(missing_ok=True)
with path.open("xb", buffering=0) as file:
    for value in range(200):
        file.write(bytes([value]))
        if value % 50 == 0:
            time.sleep(0.002)
"""


class Listener:
    """What `follow` talks to: keeps the bytes."""

    def __init__(self) -> None:
        self.heard = b""
        self.done = 0

    def feed(self, data: bytes) -> None:
        self.heard += data


def run(folder: Path, waits: list[int]) -> Listener:
    (folder / REQUESTS).touch()
    listener: Any = Listener()
    command = [sys.executable, "-ISc", PROGRAM, REPLIES, *map(str, waits)]
    ended = follow(command, folder, listener, 60)
    assert ended.status == 0, ended.stderr
    return listener


@pytest.mark.parametrize("seed", [*range(12), *(pytest.param(n, marks=pytest.mark.slow) for n in range(12, 200))])
def test_no_reply_is_lost(tmp_path: Path, seed: int) -> None:
    rng = random.Random(seed)
    waits = [rng.choice((0, 1, 3, 10)) for _ in range(rng.choice((0, 2, 2, 4)))]
    assert run(tmp_path, waits).heard == bytes(range(200))


def test_the_deleted_file_was_seen(tmp_path: Path) -> None:
    """It stays long enough to be opened for certain, and is gone as long."""
    assert run(tmp_path, [200, 200]).heard == bytes(range(200))
