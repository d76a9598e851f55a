# SPDX-License-Identifier: Apache-2.0
"""CPU seconds of `tinyc estimate`, start included.

    python bench/estimate_times.py MODELS [--boards NAME ...] [--runs 3]

MODELS is the folder of published MLPerf Tiny models (`mlperf_tiny` within it). Every figure is the least of some runs,
user and system time; run it on a computer that does nothing else: on a busy one the same work takes half as many more.
"""

from __future__ import annotations

import argparse
import resource
import subprocess
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
NAMES = ("kws", "vww", "ic", "ad", "sww")
BOARDS = ("cortex-m4", "cortex-m7", "cortex-m33", "cortex-m55", "cortex-m3", "cortex-m0plus", "riscv32imc")


def seconds(model: Path, *words: str) -> float:
    """Of one run in a process of its own. Exit code 1 says that the board has no room."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    command = [sys.executable, "-m", "tinyc", "estimate", str(model), *words]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, check=False)
    if done.returncode > 1:
        raise RuntimeError(done.stderr.decode())
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime - before.ru_utime + after.ru_stime - before.ru_stime


def lines(models: Path, boards: Sequence[str], runs: int) -> Iterator[str]:
    """The table: a row for each board, and one for the front."""
    yield f"| | {' | '.join(NAMES)} |"
    yield f"|---|{'---:|' * len(NAMES)}"
    asked = [(board, ("--board", board)) for board in boards]
    for title, words in (*asked, ("`--front`, cortex-m4", ("--board", "cortex-m4", "--front"))):
        paths = [models / "mlperf_tiny" / f"{name}_int8.tflite" for name in NAMES]
        least = [min(seconds(path, *words) for _ in range(runs)) for path in paths]
        yield f"| {title} | {' | '.join(f'{one:.2f}' for one in least)} |"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("models", type=Path)
    parser.add_argument("--boards", nargs="+", default=BOARDS)
    parser.add_argument("--runs", type=int, default=3)
    given = parser.parse_args()
    for line in lines(given.models, given.boards, given.runs):
        print(line, flush=True)


if __name__ == "__main__":
    main()
