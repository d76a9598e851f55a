"""Boards beside desktop runs of the same model: what it costs there, how long it takes here, how near it is."""

from __future__ import annotations

from tinyc.bench.compare import Change, compare_files
from tinyc.bench.report import BenchReport
from tinyc.bench.run import BenchOptions, run_bench

__all__ = ["BenchOptions", "BenchReport", "Change", "compare_files", "run_bench"]
