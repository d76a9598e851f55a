# SPDX-License-Identifier: Apache-2.0
"""Draws docs/images/demo.svg: what `make demo` prints. Run: python scripts/demo_picture.py"""

from __future__ import annotations

import io
from dataclasses import replace
from pathlib import Path

from rich.console import Console

from tinyc.cli.output import Color, Output
from tinyc.cli.run import show_heard
from tinyc.cli.show import show_report
from tinyc.options.build import Options
from tinyc.pipeline.building import build
from tinyc.pipeline.hearing import Listening, hear
from tinyc.pipeline.progress import Progress
from tinyc.verify.report import Report

ROOT = Path(__file__).resolve().parents[1]
FOLDER = ROOT / "examples" / "kws"
COLUMNS = 80
MODEL, INPUTS = FOLDER / "kws.onnx", FOLDER / "kws.test.npz"


TARGET = ROOT / "docs" / "images" / "demo.svg"
TITLE = "make demo: tinyc build examples/kws/kws.onnx --board cortex-m4"


def drawn(report: Report) -> Console:
    """What `make demo` prints, in a terminal of 80 columns. report: of the build that it begins with."""
    out = Output(Color.NEVER, json_mode=False, verbose=False)
    out.stdout = Console(record=True, file=io.StringIO(), width=COLUMNS, force_terminal=True, highlight=False)
    show_report(out, report, Path("build/kws"))
    listens = Options("cortex-m4", frontend=str(FOLDER / "mfcc.toml"), wav=FOLDER / "words.wav")
    hearing = hear(MODEL, listens, Listening(INPUTS, smooth=5), Progress())
    show_heard(out, replace(hearing, recording="examples/kws/words.wav"))
    return out.stdout


def built(folder: Path) -> Report:
    """The report of the build that `make demo` begins with."""
    report, _ = build(MODEL, folder, Options("cortex-m4", inputs=INPUTS, samples=0), Progress())
    assert isinstance(report, Report)
    return report


def main() -> None:
    TARGET.parent.mkdir(parents=True, exist_ok=True)
    drawn(built(ROOT / "build" / "kws")).save_svg(str(TARGET), title=TITLE)


if __name__ == "__main__":
    main()
