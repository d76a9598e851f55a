# SPDX-License-Identifier: Apache-2.0
"""Work that stands for builds where the engine is tested: workers import it by name."""

from __future__ import annotations

import os
import time
from collections.abc import Mapping
from pathlib import Path

from tinyc.sweep.job import Job, ResultRow, empty_row


def nothing(job: Job, contents: Mapping[str, bytes]) -> ResultRow:
    return empty_row(job, "passed")


def noted(job: Job, contents: Mapping[str, bytes]) -> ResultRow:
    """Leaves a line in the file that the board's name says: which job began, and in which process."""
    with Path(job.board).open("a") as file:
        file.write(f"{job.key} {os.getpid()}\n")
    time.sleep(0.2)
    assert contents[job.model.sha256] == b"a model"
    return empty_row(job, "passed")


def fatal(job: Job, contents: Mapping[str, bytes]) -> ResultRow:
    """Ends its process where the seed is 1."""
    if dict(job.settings)["seed"] == 1:
        os._exit(1)
    return empty_row(job, "passed")


def unlucky(job: Job, contents: Mapping[str, bytes]) -> ResultRow:
    """Its process ends three times, as if by a neighbour, where the seed is 0; the board is a folder for how often it
    ran."""
    ran = Path(job.board) / job.key
    with ran.open("a") as file:
        file.write("x")
    if dict(job.settings)["seed"] == 0 and len(ran.read_text()) <= 3:
        os._exit(1)
    return empty_row(job, "passed")
