# SPDX-License-Identifier: Apache-2.0
"""Latency and throughput of functions that run a model once."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence

import numpy as np
import numpy.typing as npt

from tinyc.bench.report import Latency

Once = Callable[[], object]
Nanoseconds = npt.NDArray[np.int64]

WARM_UP_RUNS = 10
LEAST_RUNS, MOST_RUNS = 20, 5000
BATCHES = (1, 4, 16, 64, 256)
_BATCH_RUNS = 5


def interleaved(functions: Sequence[Once], seconds: float) -> list[Nanoseconds]:
    """Time of every run of each function, [function][round], warmed up, for about `seconds` in all.

    The functions take turns, each round beginning with another one, so that what the computer does besides meets
    all of them alike.
    """
    per_round = sum(_warm_up(function) for function in functions)
    rounds = min(max(int(seconds * 1e9 / max(per_round, 1)), LEAST_RUNS), MOST_RUNS)
    times = np.empty((len(functions), rounds), np.int64)
    for index in range(rounds):
        for turn in range(len(functions)):
            which = (index + turn) % len(functions)
            times[which, index] = _time(functions[which])
    return list(times)


def _warm_up(function: Once) -> int:
    """Nanoseconds of the last of some runs."""
    return [_time(function) for _ in range(WARM_UP_RUNS)][-1]


def _time(function: Once) -> int:
    began = time.perf_counter_ns()
    function()
    return time.perf_counter_ns() - began


def latency(times: Nanoseconds) -> Latency:
    """Median and 90th percentile, to a tenth of a microsecond."""
    median, p90 = np.percentile(times, [50, 90]) / 1000
    return Latency(round(float(median), 1), round(float(p90), 1), len(times))


def ratio(times: Nanoseconds, base: Nanoseconds) -> float:
    """The median of the ratios of runs of the same round."""
    return round(float(np.median(times / base)), 3)


def throughput(batch_of: Callable[[int], Once | None]) -> tuple[float, int]:
    """(inferences a second, batch size) at the best of BATCHES. batch_of(n) runs n samples; None: it cannot."""
    best, best_batch = 0.0, 1
    for size in BATCHES:
        function = batch_of(size)
        if function is None:
            break
        function()
        times = [_time(function) for _ in range(_BATCH_RUNS)]
        rate = size * 1e9 / max(float(np.median(times)), 1.0)
        if rate > best:
            best, best_batch = rate, size
    return round(best, 1), best_batch
