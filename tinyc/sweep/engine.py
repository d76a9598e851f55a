# SPDX-License-Identifier: Apache-2.0
"""Runs the jobs of a sweep with Dask: on this machine's cores, or on a cluster whose scheduler is given.

Dask sends each job again where a worker died; results are written here, by one process, as they come. A job whose
result is in the file is not run again, so a sweep that was killed goes on where it was.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from tinyc.base.errors import TinycError
from tinyc.base.extras import load_extra
from tinyc.sweep.job import Job, ResultRow, empty_row, run_job
from tinyc.sweep.store import Store

Work = Callable[[Job, Mapping[str, bytes]], ResultRow]
_AHEAD = 2000  # jobs that the scheduler knows at a time
_RETRIES = 2  # of a job whose worker died


@dataclass(frozen=True, slots=True)
class Cluster:
    """Where jobs run. scheduler: the address of a Dask scheduler; None: `workers` processes here, a core each (None: as
    many as there are cores). patience: seconds in which the scheduler has to answer."""

    scheduler: str | None = None
    workers: int | None = None
    patience: float = 20.0


def run_sweep(
    jobs: Sequence[Job],
    contents: Mapping[str, bytes],
    store: Store,
    cluster: Cluster,
    on_row: Callable[[ResultRow, int], None] = lambda row, left: None,
    work: Work = run_job,
) -> int:
    """Runs the jobs that have no result in the store, or one that says `crashed`; how many there were.

    on_row(row, left) hears of each result, once it is written. Raises TinycError where Dask is not installed, or its
    scheduler cannot be reached or goes away; what was written stays.
    """
    done = {row.key for row in store.rows(job.key for job in jobs) if row.status != "crashed"}
    due = [job for job in jobs if job.key not in done]
    if not due:
        return 0
    left = len(due)
    with _client(cluster) as (client, distributed):
        for row in _results(client, distributed, due, contents, work):
            store.add(row)
            left -= 1
            on_row(row, left)
    if left:
        raise TinycError(
            f"the scheduler went away with {left:,} jobs to do", hint="run the same command again to go on"
        )
    return len(due)


@contextmanager
def _client(cluster: Cluster) -> Iterator[tuple[Any, Any]]:
    """A client of the cluster, and Dask's module."""
    distributed: Any = load_extra("distributed", "sweep", "a sweep")
    _quieten()
    try:
        if cluster.scheduler is not None:
            client = distributed.Client(cluster.scheduler, timeout=cluster.patience, set_as_default=False)
            local = None
        else:
            local = distributed.LocalCluster(
                n_workers=cluster.workers,
                threads_per_worker=1,
                processes=True,
                dashboard_address=None,
                silence_logs=logging.CRITICAL,
            )
            client = distributed.Client(local, set_as_default=False)
    except (OSError, ValueError) as error:
        where = cluster.scheduler or "this machine"
        hint = "start `dask scheduler` and workers, or leave out --scheduler"
        raise TinycError(f"no Dask scheduler at {where}: {error}", hint=hint) from error
    try:
        with client.as_current():
            yield client, distributed
    finally:
        client.close(timeout=5)
        if local is not None:
            local.close(timeout=5)


def _quieten() -> None:
    """What Dask logs of lost connections, tracebacks among it, is no news to the user: each job has its row."""
    for name in ("distributed", "tornado", *logging.root.manager.loggerDict):
        if name.split(".")[0] in ("distributed", "tornado"):
            logging.getLogger(name).setLevel(logging.CRITICAL)


def _results(
    client: Any, distributed: Any, jobs: Sequence[Job], contents: Mapping[str, bytes], work: Work
) -> Iterator[ResultRow]:
    """A row for each job, as they are finished; ends early where the scheduler is gone."""
    sent = {digest: client.submit(_same, data, key=f"file-{digest}") for digest, data in contents.items()}
    waiting = iter(jobs)
    asked: dict[Any, Job] = {}

    def ask(job: Job) -> Any:
        files = {file.sha256: sent[file.sha256] for file in job.files}
        future = client.submit(work, job, files, key=f"{job.key}", pure=False, retries=_RETRIES)
        asked[future] = job
        return future

    first = [ask(job) for job, _ in zip(waiting, range(_AHEAD), strict=False)]
    coming = distributed.as_completed(first)
    for future in coming:
        job = asked.pop(future)
        if future.status in ("cancelled", "lost"):  # with its scheduler
            return
        yield future.result() if future.status == "finished" else empty_row(job, "crashed", _reason(future))
        future.release()
        for following in waiting:
            coming.add(ask(following))
            break


def _same(data: bytes) -> bytes:
    """A file as a task: Dask makes it again where the worker that held it dies, which it cannot for scattered data."""
    return data


def _reason(future: Any) -> str:
    error = future.exception()
    return f"{type(error).__name__}: {error}".split("\n", maxsplit=1)[0]
