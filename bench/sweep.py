# SPDX-License-Identifier: Apache-2.0
"""What a sweep costs beside its jobs: jobs that do nothing, on one worker of this machine.

python bench/sweep.py [--jobs 1000]
"""

from __future__ import annotations

import argparse
import hashlib
import resource
import sys
import tempfile
import time
from collections.abc import Mapping
from pathlib import Path

from tinyc.base.source import source_digest
from tinyc.sweep import Cluster, Job, ResultRow, Store, run_sweep
from tinyc.sweep.job import SentFile, empty_row


def nothing(job: Job, contents: Mapping[str, bytes]) -> ResultRow:
    """A job without work; contents: as `run_job` gets them."""
    return empty_row(job, "passed")


def cpu_seconds() -> float:
    """Of this process and of those that have ended."""
    used = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return sum(one.ru_utime + one.ru_stime for one in used)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--jobs", type=int, default=1000)
    count = parser.parse_args().jobs
    data = bytes(100_000)
    file, source = SentFile("m.tflite", hashlib.sha256(data).hexdigest()), source_digest()
    jobs = [Job(file, "host", "prove", (("seed", number),), source=source) for number in range(count)]
    before, began = cpu_seconds(), time.perf_counter()
    with tempfile.TemporaryDirectory() as folder, Store(Path(folder) / "r.sqlite") as store:
        run_sweep(jobs, {file.sha256: data}, store, Cluster(workers=1), work=nothing)
        assert len(store.rows(job.key for job in jobs)) == count
    spent, seconds = cpu_seconds() - before, time.perf_counter() - began
    sys.stdout.write(
        f"{count:,} jobs: {1000 * spent / count:.1f} ms of CPU each, {1000 * seconds / count:.1f} by the clock\n"
    )


if __name__ == "__main__":
    main()
