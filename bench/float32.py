# SPDX-License-Identifier: Apache-2.0
"""What float32 costs beside int8: the table of docs/float32.md.

    python bench/float32.py                        # the five models of MLPerf Tiny on a board with 2 MiB of flash
    python bench/float32.py --board cortex-m7 kws

Each model is built from its int8 file and from its float file, proved on the emulated board and measured there. Models
come from TINYC_MODELS (default ../shared/models).
"""

from __future__ import annotations

import argparse
import os
from pathlib import Path

from tinyc import api
from tinyc.verify.report import Report

ROOT = Path(__file__).resolve().parents[1]
MODELS = Path(os.environ.get("TINYC_MODELS", ROOT.parent / "shared" / "models")) / "mlperf_tiny"
FIVE = ("kws", "vww", "ic", "ad", "sww")


def measured(name: str, board: str, float32: bool) -> Report:
    """The report of a proof with one input."""
    if float32:
        return api.verify(MODELS / f"{name}_fp32.onnx", board, precision="float32", samples=1)
    return api.verify(MODELS / f"{name}_int8.tflite", board, samples=1)


def row(name: str, board: str) -> str:
    """Of the table."""
    cells = [name]
    reports = [measured(name, board, float32) for float32 in (False, True)]
    cells += [f"{(report.instructions or 0):,}" for report in reports]
    cells += [f"{(report.instructions or 0) / report.macs:.2f}" for report in reports]
    cells += [f"{report.arena_bytes:,}" for report in reports]
    cells += [f"{report.flash.code_bytes + report.flash.const_bytes:,}" for report in reports]
    verdict = "equal" if all(report.passed for report in reports) else "DIFFERENT"
    return f"| {' | '.join(cells)} | {verdict} |"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--board", default="nucleo-l4r5zi")
    parser.add_argument("models", nargs="*", default=FIVE)
    asked = parser.parse_args()
    pairs = ("instructions", "per MAC", "arena", "flash")
    print("| model | " + " | ".join(f"{what} int8 | float32" for what in pairs) + " | bytes |")
    print("|" + "---|" * 10)
    for name in asked.models:
        print(row(name, asked.board), flush=True)


if __name__ == "__main__":
    main()
