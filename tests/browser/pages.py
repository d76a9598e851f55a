# SPDX-License-Identifier: Apache-2.0
"""The pages that tinyc makes, as its user gets them, and the browser that opens them: for tests/browser/ and
scripts/screenshots.py."""

from __future__ import annotations

import shutil
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Playwright

ROOT = Path(__file__).resolve().parents[2]
KWS = ROOT / "examples" / "kws"
CHROMIUM = shutil.which("chromium")
SWEEP = f"""
models = ["{KWS}/kws.onnx"]
boards = [%s]
[options]
prefer = ["balanced", "time", "ram", "flash"]
[calibration]
kws = "{KWS}/kws.calib.npz"
[inputs]
kws = "{KWS}/kws.test.npz"
"""


def open_chromium(playwright: Playwright) -> Browser:
    """Headless, not sandboxed: in containers there is no sandbox to be had, and the pages are our own."""
    return playwright.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox", "--disable-gpu"])


def report(folder: Path, model: Path = KWS / "kws.onnx", board: str = "cortex-m4", *more: object) -> Path:
    """The page of a build. more: options."""
    tinyc("build", model, "--board", board, "-o", folder / model.stem, "--report", *more)
    return folder / f"{model.stem}.html"


def bench(folder: Path, boards: Sequence[str]) -> Path:
    """The page of a benchmark of the example model, beside runs on this computer."""
    data = ("--calibration", KWS / "kws.calib.npz", "--inputs", KWS / "kws.test.npz", "--seconds", 0.5)
    file = folder / "bench.json"
    file.write_text(tinyc("bench", KWS / "kws.onnx", *(f"--board={board}" for board in boards), *data, "--json"))
    tinyc("report", file)
    return file.with_suffix(".html")


def sweep(folder: Path, boards: Sequence[str]) -> Path:
    """The page of a sweep of the example model."""
    file = folder / "sweep.toml"
    file.write_text(SWEEP % ", ".join(f'"{board}"' for board in boards))
    tinyc("sweep", file, "--workers", 2)
    tinyc("report", folder / "sweep.sqlite")
    return folder / "sweep.html"


def tinyc(*arguments: object) -> str:
    """What the command prints. Raises RuntimeError with what it says where it fails."""
    command = [sys.executable, "-m", "tinyc", *map(str, arguments)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    if done.returncode:
        raise RuntimeError(f"{' '.join(command)}\n{done.stdout}{done.stderr}")
    return done.stdout
