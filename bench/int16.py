# SPDX-License-Identifier: Apache-2.0
"""What int16 activations give and take: the five MLPerf Tiny models, quantized from float, on a Cortex-M4.

`python bench/int16.py MODELS` prints a Markdown table. MODELS is the folder of published models. Every second
development input is for calibration, the others are for the test; each library is proved byte for byte on all of these.
"""

from __future__ import annotations

import argparse
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Literal

from quantizers import load

from tinyc.api import build
from tinyc.verify.report import Report

MODELS = ("kws", "ic", "vww", "ad", "sww")
WIDTHS: tuple[Literal["int8", "int16"], ...] = ("int8", "int16")


def measure(models: Path, name: str, activations: Literal["int8", "int16"]) -> Report:
    """The report of a proved build. RuntimeError if a byte differs from the reference."""
    task = load(models, name, swap=False)
    with tempfile.TemporaryDirectory() as out:
        built = build(task.path, out=Path(out, name), calibration=task.fit, inputs=task.test, activations=activations)
    report = built.report
    if not isinstance(report, Report) or not report.passed:
        raise RuntimeError(f"{name}, {activations}: output differs from the reference")
    return report


def figures(report: Report) -> Mapping[str, str]:
    """The cells of a column, by the titles of their rows."""
    accuracy = report.accuracy
    assert accuracy is not None
    return {
        "output SQNR": f"{accuracy.sqnr_db:.1f} dB",
        "agreement with float": "" if accuracy.agreement is None else f"{accuracy.agreement:.1%}",
        "instructions": f"{(report.instructions or 0) / 1e6:.2f} M",
        "cycles": f"{(report.cycles or 0) / 1e6:.2f} M",
        "flash bytes": f"{report.flash.code_bytes + report.flash.const_bytes:,}",
        "arena bytes": f"{report.arena_bytes:,}",
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("models", type=Path)
    models = parser.parse_args().models
    reports = {(name, width): measure(models, name, width) for name in MODELS for width in WIDTHS}
    cells = {key: figures(report) for key, report in reports.items()}
    print(f"| | {' | '.join(MODELS)} |")
    print(f"|---|{'---|' * len(MODELS)}")
    for title in cells[MODELS[0], WIDTHS[0]]:
        for width in WIDTHS:
            print(f"| {title}, {width} | {' | '.join(cells[name, width][title] for name in MODELS)} |")


if __name__ == "__main__":
    main()
