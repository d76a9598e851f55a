# SPDX-License-Identifier: Apache-2.0
"""Runs the jobs of a sweep with Dask: on this machine's cores, or on a cluster whose scheduler is given.

Dask sends each job again where a worker died; results are written here, by one process, as they come. A job whose
result is in the file is not run again, so a sweep that was killed goes on where it was.
"""

from __future__ import annotations

import logging
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from typing import Any

from tinyc.base.dataclass import dataclass
from tinyc.base.errors import TinycError
from tinyc.base.extras import load_extra
from tinyc.sweep.job import Job, ResultRow, empty_row, run_job
from tinyc.sweep.store import Store
from tinyc.sweep.workers import cores, local_workers

Work = Callable[[Job, Mapping[str, bytes]], ResultRow]
_AHEAD = 2000  # jobs that the scheduler knows at a time
_RETRIES = 2  # of a job that ended with an exception
_LOCAL_FAILURES = 1  # workers of this machine that may die of a job before Dask gives it up


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
    with ExitStack() as stack:
        try:
            address = cluster.scheduler or stack.enter_context(_local(distributed, cluster))
            client = distributed.Client(address, timeout=cluster.patience, set_as_default=False)
        except (OSError, ValueError) as error:
            where = cluster.scheduler or "this machine"
            hint = "start `dask scheduler` and workers, or leave out --scheduler"
            raise TinycError(f"no Dask scheduler at {where}: {error}", hint=hint) from error
        stack.callback(client.close, timeout=5)
        stack.enter_context(client.as_current())
        yield client, distributed


@contextmanager
def _local(distributed: Any, cluster: Cluster) -> Iterator[str]:
    """The address of a scheduler in this process that has workers on this machine."""
    scheduler = distributed.LocalCluster(
        n_workers=0,
        processes=True,
        dashboard_address=":0",
        silence_logs=logging.CRITICAL,
        scheduler_kwargs={"allowed_failures": _LOCAL_FAILURES},
    )
    with scheduler, local_workers(scheduler.scheduler_address, cluster.workers or cores()):
        yield scheduler.scheduler_address


def _quieten() -> None:
    """What Dask logs of lost connections, tracebacks among it, is no news to the user: each job has its row."""
    for name in ("distributed", "tornado", *logging.root.manager.loggerDict):
        if name.split(".")[0] in ("distributed", "tornado"):
            logging.getLogger(name).setLevel(logging.CRITICAL)


def _results(
    client: Any, distributed: Any, jobs: Sequence[Job], contents: Mapping[str, bytes], work: Work
) -> Iterator[ResultRow]:
    """A row for each job, as they are finished; ends early where the scheduler is gone.

    Dask blames every job that a dying worker had in hand, and whose result it held. Which of them ended it shows only
    when each runs alone, so jobs with a dead worker are asked once more at the end, one at a time.
    """
    blamed = []
    for job, answer in _together(client, distributed, jobs, contents, work):
        if isinstance(answer, distributed.KilledWorker):
            blamed.append(job)
        elif answer is None:
            return
        else:
            yield _row(job, answer)
    for job in blamed:
        answer = _answer(client, distributed, _alone(client, job, contents, work))
        if answer is None:
            return
        yield _row(job, answer)


def _row(job: Job, answer: ResultRow | Exception) -> ResultRow:
    return answer if isinstance(answer, ResultRow) else empty_row(job, "crashed", _reason(answer))


def _together(
    client: Any, distributed: Any, jobs: Sequence[Job], contents: Mapping[str, bytes], work: Work
) -> Iterator[tuple[Job, ResultRow | Exception | None]]:
    """Jobs with their answers, as they are finished, _AHEAD of them at a time with the scheduler."""
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
        yield asked.pop(future), _answer(client, distributed, future)
        for following in waiting:
            coming.add(ask(following))
            break


def _alone(client: Any, job: Job, contents: Mapping[str, bytes], work: Work) -> Any:
    """The future of a job that brings its files itself, so that nothing else runs or is held for it."""
    files = {file.sha256: contents[file.sha256] for file in job.files}
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "Sending large graph")
        return client.submit(work, job, files, key=f"{job.key}-alone", pure=False, retries=_RETRIES)


def _answer(client: Any, distributed: Any, future: Any) -> ResultRow | Exception | None:
    """What a job came to, waited for; None where the scheduler is gone. A worker may die between the end of a job and
    the moment its result is fetched: Dask runs it again, and may then blame it, so any answer may be an error."""
    try:
        row: ResultRow = future.result()
    except Exception as error:  # whatever the job or its worker came to
        gone = isinstance(error, distributed.CancelledError) or client.status != "running"
        return None if gone else error
    finally:
        future.release()
    return row


def _same(data: bytes) -> bytes:
    """A file as a task: Dask makes it again where the worker that held it dies, which it cannot for scattered data."""
    return data


def _reason(error: Exception) -> str:
    return f"{type(error).__name__}: {error}".split("\n", maxsplit=1)[0]
