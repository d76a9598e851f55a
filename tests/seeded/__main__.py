# SPDX-License-Identifier: Apache-2.0
"""The command: `python -m tests.seeded`, or `python -m tests.seeded conv2d-padding --jobs 2` for some of the faults.

    python -m tests.seeded --list       # the faults and their tests
    python -m tests.seeded 'planner-*'  # those whose names are so

First the tests of the faults run without a fault: all of them have to pass. Exit code 0: each fault is caught; 1: one
is not; 2: a fault has to be renewed, its tests give no answer, or fail without it.
"""

from __future__ import annotations

import argparse
import sys
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from fnmatch import fnmatchcase

from tests.seeded.fault import ROOT, Fault, all_faults
from tests.seeded.trial import Verdict, copy_of, run_tests, try_fault


def main(arguments: list[str] | None = None) -> int:
    given = _parser().parse_args(arguments)
    faults = all_faults()
    chosen = [fault for fault in faults.values() if any(fnmatchcase(fault.name, name) for name in given.names or "*")]
    if unknown := [name for name in given.names if not any(fnmatchcase(fault, name) for fault in faults)]:
        print(f"no fault is called {', '.join(unknown)}: see --list", file=sys.stderr)
        return 2
    if given.list:
        for fault in chosen:
            print(f"{fault.name}\n    {fault.about}\n    {fault.file}; {', '.join(fault.tests)}")
        return 0
    if not _pass_without(chosen, given.jobs):
        return 2
    words: Counter[Verdict] = Counter()
    with ThreadPoolExecutor(given.jobs) as pool:
        for trial in pool.map(try_fault, chosen):
            words[trial.verdict] += 1
            print(f"{trial.verdict.value:10}  {trial.fault.name:32}  {trial.said}", flush=True)
    print(", ".join(f"{count} {verdict.value}" for verdict, count in words.items()))
    if words[Verdict.STALE] or words[Verdict.BROKEN]:
        return 2
    return 1 if words[Verdict.MISSED] else 0


def _pass_without(faults: list[Fault], jobs: int) -> bool:
    """Whether the tests of the faults pass where there is none."""
    tests = dict.fromkeys(test for fault in faults for test in fault.tests)
    with copy_of(ROOT) as copy:
        code, output = run_tests(copy, list(tests), "--processes", str(jobs))
    if code:
        print(f"without a fault the tests do not pass:\n{output}", file=sys.stderr)
    return code == 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m tests.seeded", description="Seeds faults and runs their tests.")
    parser.add_argument("names", nargs="*", metavar="NAME", help="a fault, or a pattern of several; default: all")
    parser.add_argument("--jobs", type=int, default=1, metavar="N", help="so many at a time (default 1)")
    parser.add_argument("--list", action="store_true", help="print the faults")
    return parser


if __name__ == "__main__":
    sys.exit(main())
