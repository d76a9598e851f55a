# SPDX-License-Identifier: Apache-2.0
"""Writes the desktop part of docs/benchmarks.md: the MLPerf Tiny models on Cortex-M4 beside desktop runs of them.

    python bench/desktop.py [--reference cpu,gpu] [--seconds 3]

Runs `tinyc bench` on the five int8 and the five float models. Also writes docs/desktop.json, the same figures for
scripts/peer_plot.py. Times are those of the computer that ran it, whose name is stated; ratios come from runs
that took turns.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
from collections.abc import Sequence
from pathlib import Path

from peers import MODELS
from tables import INPUTS, PAGE, ROOT, as_table, write_section

from tinyc.base.errors import TinycError
from tinyc.bench.report import BenchReport, ModelResult, ReferenceResult
from tinyc.bench.run import BenchOptions, run_bench
from tinyc.options.build import Options
from tinyc.pipeline.progress import Progress

FIGURES = ROOT / "docs" / "desktop.json"


def main() -> int:
    """Measure, write the page's part and the figures; exit code 1 when a byte differs from the reference."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--reference", default="cpu,gpu", help="desktop runs, of cpu and gpu (default both)")
    parser.add_argument("--seconds", type=float, default=3.0, help="of timing per model (default 3)")
    args = parser.parse_args()
    folder = Path(os.environ.get("TINYC_MODELS", ROOT.parent / "shared" / "models")) / "mlperf_tiny"
    if not folder.is_dir():
        print(f"no models in {folder}; set TINYC_MODELS", file=sys.stderr)
        return 2
    reports = []
    for model in MODELS:
        for file in (f"{model}_int8.tflite", f"{model}_fp32.onnx"):
            print(file, file=sys.stderr)
            inputs = folder / f"{INPUTS[model]}.npz"
            options = BenchOptions(
                references=tuple(args.reference.split(",")),
                build=Options(board="", inputs=inputs, calibration=inputs if file.endswith(".onnx") else None),
                seconds=args.seconds,
            )
            reports.append(run_bench([folder / file], options, Progress()))
    write_section(PAGE, "desktop", section(reports), script="bench/desktop.py", title="Beside desktop runs")
    figures = [report.to_json() for report in reports]
    FIGURES.write_text(json.dumps(figures, indent=1, sort_keys=True) + "\n", encoding="utf-8")
    return int(any(b.mismatches for report in reports for m in report.models for b in m.boards))


def section(reports: Sequence[BenchReport]) -> str:
    """The Markdown: computer, times, parity."""
    first = reports[0]
    models = [model for report in reports for model in report.models]
    missing = sorted({f"{one.kind}: {one.reason}" for model in models for one in model.missing})
    software = sorted({ref.software for model in models for ref in model.references})
    lines = [
        f"On {first.computer.cpu}, {first.computer.system}, one thread; the board's milliseconds are modelled cycles "
        "over its clock. Ratios in brackets: to the generated C compiled for this computer, from runs that took turns.",
        "",
        as_table(
            ["model", "board, ms", "desktop run", "device", "median us (ratio)", "p90 us", "best per s (batch)"],
            [row for model in models for row in _times(model)],
        ),
        "",
        "Parity of the board's output with each run, on all inputs:",
        "",
        as_table(
            ["model", "desktop run", "same arg max", "SQNR", "different integers", "top-1 run", "top-1 board"],
            [_parity(model, ref) for model in models for ref in model.references],
        ),
        "",
        *(f"* {text}" for text in software),
        *(f"* not run: {text}" for text in missing),
    ]
    return "\n".join(lines)


def _times(model: ModelResult) -> list[list[str]]:
    board = model.boards[0]
    rows = []
    for index, ref in enumerate(model.references):
        speed = f"{ref.throughput_per_s:,.0f} ({ref.best_batch})"
        rows.append(
            [
                model.model if index == 0 else "",
                f"{board.milliseconds:.2f}" if index == 0 and board.milliseconds is not None else "",
                f"{ref.name}, {ref.arithmetic}",
                ref.device,
                f"{ref.latency.median_us:,.0f} ({ref.times_c:.2f})",
                f"{ref.latency.p90_us:,.0f}",
                speed,
            ]
        )
    return rows


def _parity(model: ModelResult, ref: ReferenceResult) -> list[str]:
    p = ref.parity
    sqnr = "no error" if p.sqnr_db is None else f"{p.sqnr_db:.1f} dB"
    shares = [p.agreement, p.top1_reference, p.top1_board]
    agreement, top1, ours = ["-" if share is None else f"{share:.1%}" for share in shares]
    different = "-" if p.different is None else f"{p.different:,}"
    return [model.model, ref.name, agreement, sqnr, different, top1, ours]


if __name__ == "__main__":
    try:
        sys.exit(main())
    except TinycError as error:
        sys.stderr.write(f"{error}\n")
        sys.exit(error.exit_code)
