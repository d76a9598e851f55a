# SPDX-License-Identifier: Apache-2.0
"""Many builds on many machines: what a sweep's file asks for, the jobs, their results on disk."""

from tinyc.sweep.compare import compare_sweeps
from tinyc.sweep.engine import Cluster, run_sweep
from tinyc.sweep.job import Job, ResultRow, run_job
from tinyc.sweep.spec import Sweep, load_sweep
from tinyc.sweep.store import Store, holds_results, read_results

__all__ = [
    "Cluster",
    "Job",
    "ResultRow",
    "Store",
    "Sweep",
    "compare_sweeps",
    "holds_results",
    "load_sweep",
    "read_results",
    "run_job",
    "run_sweep",
]
