# SPDX-License-Identifier: Apache-2.0
"""The pictures of the README and of docs/report.md show what `make demo` says today."""

from __future__ import annotations

import html
import json
import re
import sys
from dataclasses import asdict
from pathlib import Path

import pytest

from tinyc.verify.report import Report

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "scripts"))

import demo_picture

ROOT = Path(__file__).resolve().parents[2]
REDRAW = "python scripts/demo_picture.py and make screenshots draw the pictures again"


@pytest.fixture(scope="module")
def report(tmp_path_factory: pytest.TempPathFactory, quantized_once: None) -> Report:
    return demo_picture.built(tmp_path_factory.mktemp("demo") / "kws")


def lines_of_picture(svg: str) -> list[str]:
    """The lines of a terminal in a picture that Rich has drawn."""
    lines: dict[str, dict[float, str]] = {}
    for x, y, text in re.findall(r'<text class="[^"]*-r\d+" x="([\d.]+)" y="([\d.]+)"[^>]*>([^<]*)</text>', svg):
        lines.setdefault(y, {})[float(x)] = html.unescape(text).replace("\xa0", " ")
    in_order = (lines[y] for y in sorted(lines, key=float))
    return [line for parts in in_order if (line := "".join(parts[x] for x in sorted(parts)).strip())]


def test_the_terminal_of_the_readme_shows_todays_figures(report: Report) -> None:
    svg = demo_picture.TARGET.read_text(encoding="utf-8")
    shown = lines_of_picture(svg)
    if not all(any(word in line for line in shown) for word in (report.toolchain, report.machine)):
        pytest.skip("drawn with another compiler or emulator")
    said = [line.strip() for line in demo_picture.drawn(report).export_text().splitlines()]
    assert shown == [line for line in said if line], REDRAW
    assert max(map(len, shown)) <= demo_picture.COLUMNS


def test_the_page_of_the_docs_shows_todays_figures(report: Report) -> None:
    image = pytest.importorskip("PIL.Image", reason="needs pillow")
    with image.open(ROOT / "docs" / "images" / "report.png") as picture:
        shown = json.loads(picture.text["figures"])
    told = asdict(report)
    if shown["toolchain"] != told["toolchain"]:
        pytest.skip("drawn with another compiler")
    assert shown == {name: told[name] for name in shown}, REDRAW
