# SPDX-License-Identifier: Apache-2.0
"""Writes docs/images/{report,report-graph,report-layer,bench,sweep}.png: the pages that tinyc makes, in headless
Chromium: `make screenshots`. The graph is of a network of the folder of models that TINYC_MODELS names (default
../shared/models); where that is not there, its picture stays as it is."""

from __future__ import annotations

import json
import os
import sys
import tempfile
from pathlib import Path
from typing import Literal

from PIL import Image, PngImagePlugin
from playwright.sync_api import Browser, Page, sync_playwright

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))
from tests.browser.pages import KWS, bench, open_chromium, report, sweep  # noqa: E402

IMAGES = ROOT / "docs" / "images"
LARGE = Path(os.environ.get("TINYC_MODELS", ROOT.parent / "shared" / "models")) / "zoo" / "mcunet_detection_int8.tflite"
Scheme = Literal["light", "dark"]
DESKTOP, PHONE = (1280, 900), (390, 844)
FIGURES = "figures"  # a picture's text
SHOWN = ("toolchain", "flash", "arena_bytes", "stack_bytes", "instructions", "cycles")
BOARDS = ("cortex-m0plus", "cortex-m4", "cortex-m7")


def shown(browser: Browser, file: Path, size: tuple[int, int] = DESKTOP, scheme: Scheme = "light") -> Page:
    """The page in a window of that many CSS pixels."""
    page = browser.new_page(viewport={"width": size[0], "height": size[1]}, color_scheme=scheme)
    page.goto(file.as_uri())
    return page


def of_the_report(browser: Browser, folder: Path) -> None:
    """The top of the page, and one of its layers on a phone."""
    file = report(folder, KWS / "kws.onnx", "cortex-m4", "--inputs", KWS / "kws.test.npz", "--samples", 0)  # make demo
    shown(browser, file).screenshot(path=IMAGES / "report.png")
    with_figures(IMAGES / "report.png", file.with_suffix("") / "report.json")
    phone = shown(browser, file, PHONE)
    phone.locator(".graph a").nth(1).click()
    phone.screenshot(path=IMAGES / "report-layer.png")


def with_figures(picture: Path, file: Path) -> None:
    """Writes into the picture's own text what it shows, for a test that compares it with what a build says today."""
    told = json.loads(file.read_text(encoding="utf-8"))
    text = PngImagePlugin.PngInfo()
    text.add_text(FIGURES, json.dumps({name: told[name] for name in SHOWN}))
    with Image.open(picture) as image:
        image.load()
        image.save(picture, pnginfo=text, optimize=True)


def of_a_graph(browser: Browser, folder: Path) -> None:
    page = shown(browser, report(folder, LARGE, "cortex-m7"), scheme="dark")
    page.locator(".graph").evaluate("graph => { graph.scrollTop = 900; }")
    page.locator(".graph").screenshot(path=IMAGES / "report-graph.png")


def main() -> None:
    with tempfile.TemporaryDirectory() as name, sync_playwright() as playwright:
        folder, browser = Path(name), open_chromium(playwright)
        of_the_report(browser, folder)
        shown(browser, bench(folder, BOARDS)).screenshot(path=IMAGES / "bench.png", full_page=True)
        shown(browser, sweep(folder, BOARDS)).screenshot(path=IMAGES / "sweep.png", full_page=True)
        if LARGE.exists():
            of_a_graph(browser, folder)
        else:
            print(f"docs/images/report-graph.png stays as it is: no {LARGE.name}; set TINYC_MODELS", file=sys.stderr)


if __name__ == "__main__":
    main()
