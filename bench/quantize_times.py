# SPDX-License-Identifier: Apache-2.0
"""CPU seconds of `tinyc quantize`, evaluation included: the default, again from the cache, and with `--effort fast`.

    python bench/quantize_times.py MODELS [--only kws,ic]

MODELS is the folder of published MLPerf Tiny models (`mlperf_tiny` within it). All development inputs calibrate, and
are measured on. The models are copied to a folder of their own, so that nothing but these runs is in the cache. Prints
the columns of a Markdown table, a row for each model; run it on a computer that does nothing else: on a busy one the
same work takes twice the CPU seconds.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from quantizers import INPUTS

RUNS: tuple[tuple[str, ...], ...] = ((), (), ("--effort", "fast", "--no-cache"))  # the second: from the cache


def measured(model: Path, inputs: Path, options: tuple[str, ...]) -> tuple[float, float]:
    """CPU seconds of one run in a process of its own, and the SQNR of its output in dB. The cache is its folder."""
    command = [sys.executable, "-m", "tinyc", "quantize", str(model), "-c", str(inputs), "-e", str(inputs), "--json"]
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    alone = {**os.environ, "TINYC_CACHE": str(model.parent)}
    done = subprocess.run([*command, *options], check=True, capture_output=True, text=True, env=alone)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    seconds = after.ru_utime - before.ru_utime + after.ru_stime - before.ru_stime
    return seconds, json.loads(done.stdout)["diagnosis"]["sqnr_db"]


def row(models: Path, name: str) -> str:
    """The table's row of a model."""
    with tempfile.TemporaryDirectory() as folder:
        paths = (Path(folder, f"{name}_fp32.onnx"), Path(folder, f"{INPUTS[name]}.npz"))
        for path in paths:
            shutil.copyfile(models / "mlperf_tiny" / path.name, path)
        seconds = [measured(*paths, options) for options in RUNS]
    (first, db), (again, _), (fast, fast_db) = seconds
    return f"| {name} | {first:.1f} | {again:.1f} | {fast:.1f} | {db:.1f}, {fast_db:.1f} |"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("models", type=Path)
    parser.add_argument("--only", default=",".join(INPUTS))
    given = parser.parse_args()
    print("| | the default | again: found in the cache | `--effort fast` | output SQNR in dB: the default, fast |")
    print("|---|---:|---:|---:|---:|")
    for name in given.only.split(","):
        print(row(given.models, name), flush=True)


if __name__ == "__main__":
    main()
