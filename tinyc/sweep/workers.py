# SPDX-License-Identifier: Apache-2.0
"""Dask workers on this machine: a process each, started again when it ends.

Dask's own nanny gives a worker up that ends while it is being started, as one does whose first job is waiting already.
"""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager

_LOOK_SECONDS = 0.2  # between looks whether they are there
_END_SECONDS = 5.0  # that a worker has to end by itself


def cores() -> int:
    """Cores that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


@contextmanager
def local_workers(address: str, count: int) -> Iterator[None]:
    """`count` workers of the scheduler at that address, each with a thread, while the block runs.

    Where this process is killed, they end as soon as they miss the scheduler.
    """
    running = [_start(address) for _ in range(count)]
    over = threading.Event()

    def keep() -> None:
        while not over.wait(_LOOK_SECONDS):
            for place, worker in enumerate(running):
                if worker.poll() is not None:
                    running[place] = _start(address)

    keeper = threading.Thread(target=keep, daemon=True)
    keeper.start()
    try:
        yield
    finally:
        over.set()
        keeper.join()
        _end(running)


def _start(address: str) -> subprocess.Popen[bytes]:
    """In a session of its own: an interrupt of the terminal is for this process, which then ends its workers."""
    words = ["--nthreads", "1", "--memory-limit", "0", "--no-nanny", "--no-dashboard", "--death-timeout", "60"]
    return subprocess.Popen(
        [sys.executable, "-m", "dask", "worker", address, *words],
        env={**os.environ, "PYTHONPATH": os.pathsep.join(path or os.getcwd() for path in sys.path)},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )


def _end(running: list[subprocess.Popen[bytes]]) -> None:
    for worker in running:
        worker.terminate()
    for worker in running:
        try:
            worker.wait(_END_SECONDS)
        except subprocess.TimeoutExpired:
            worker.kill()
            worker.wait()
