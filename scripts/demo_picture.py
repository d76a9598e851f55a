# SPDX-License-Identifier: Apache-2.0
"""Draws docs/images/demo.svg: what `make demo` prints. Run: python scripts/demo_picture.py"""

from __future__ import annotations

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

ROOT = Path(__file__).resolve().parents[1]
FOLDER = ROOT / "examples" / "kws"
MODEL, INPUTS = FOLDER / "kws.onnx", FOLDER / "kws.test.npz"


def main() -> None:
    """Build the example as `make demo` does, and keep the report as a picture."""
    out = Output(Color.NEVER, json_mode=False, verbose=False)
    out.stdout = Console(record=True, width=170, force_terminal=True, highlight=False)
    report, _ = build(MODEL, ROOT / "build" / "kws", Options("cortex-m4", inputs=INPUTS, samples=0), Progress())
    show_report(out, report, Path("build/kws"))
    listens = Options("cortex-m4", frontend=str(FOLDER / "mfcc.toml"), wav=FOLDER / "words.wav")
    hearing = hear(MODEL, listens, Listening(INPUTS, smooth=5), Progress())
    show_heard(out, replace(hearing, recording="examples/kws/words.wav"))
    target = ROOT / "docs" / "images" / "demo.svg"
    target.parent.mkdir(parents=True, exist_ok=True)
    out.stdout.save_svg(str(target), title="tinyc build examples/kws/kws.onnx --board cortex-m4")


if __name__ == "__main__":
    main()
