# SPDX-License-Identifier: Apache-2.0
"""Boards beside desktop runs of the same model: costs, time, and how near the outputs are."""

from __future__ import annotations

from tinyc.bench.compare import BenchChange, compare_files
from tinyc.bench.report import BenchReport
from tinyc.bench.run import BenchOptions, run_bench

__all__ = ["BenchChange", "BenchOptions", "BenchReport", "compare_files", "run_bench"]
