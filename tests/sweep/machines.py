# SPDX-License-Identifier: Apache-2.0
"""A Dask scheduler and its workers on this computer."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]


class Machines:
    """A scheduler and workers, each a process that may be killed."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.running = folder, []
        file = folder / "scheduler.json"
        self._start("scheduler", "--host", "127.0.0.1", "--port", "0", "--no-dashboard", "--scheduler-file", str(file))
        while not file.exists() or not file.read_text().strip().endswith("}"):
            time.sleep(0.05)
        self.address = json.loads(file.read_text())["address"]

    def _start(self, *words: str) -> subprocess.Popen[bytes]:
        environment = {**os.environ, "PYTHONPATH": str(ROOT)}
        command = [sys.executable, "-m", "dask", *words]
        quiet = subprocess.DEVNULL
        self.running.append(subprocess.Popen(command, cwd=self.folder, env=environment, stdout=quiet, stderr=quiet))
        return self.running[-1]

    def worker(self) -> subprocess.Popen[bytes]:
        return self._start("worker", self.address, "--nthreads", "1", "--no-nanny", "--no-dashboard")

    def end(self) -> None:
        for process in self.running:
            process.kill()
            process.wait()
