# SPDX-License-Identifier: Apache-2.0
"""Profiles in the program that they are for: speedscope itself, in Chromium, opens its own format and Chrome's traces,
and shows every function with its cost. `make browser` and `make test-tools` install what that needs."""

from __future__ import annotations

import base64
import json
import re
from pathlib import Path

import pytest

from tests.browser.pages import CHROMIUM, KWS, open_chromium, tinyc
from tests.package.tools import tools_folder

playwright = pytest.importorskip("playwright.sync_api", reason="make browser")
pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(CHROMIUM is None, reason="chromium is not installed: make browser"),
]


@pytest.fixture(scope="module")
def functions() -> dict[str, int]:
    """Cycles of one inference of the example model by function, as `tinyc profile` states them."""
    profile = json.loads(tinyc("profile", KWS / "kws.onnx", "--board", "cortex-m4", "--json"))
    return {each["name"]: each["cost"]["cycles"] for each in profile["functions"]}


def cycles_of(text: str) -> float:
    """Of `1,776,500 (50%)`, or of a time such as `17.77ms (50%)` at the board's 100 MHz."""
    match = re.fullmatch(r"([\d,.]+)(ms|µs|ns|) \([^)]*\)", text)
    assert match, text
    return float(match[1].replace(",", "")) * {"ms": 100_000, "µs": 100, "ns": 0.1, "": 1}[match[2]]


@pytest.mark.parametrize("form", ["speedscope", "perfetto"])
def test_speedscope_shows_every_function_s_cost(form: str, functions: dict[str, int], tmp_path: Path) -> None:
    index = tools_folder() / "node_modules" / "speedscope" / "dist" / "release" / "index.html"
    if not index.is_file():
        pytest.skip("speedscope is not installed (npm): make test-tools")
    text = tinyc("profile", KWS / "kws.onnx", "--board", "cortex-m4", "--format", form)
    # How speedscope's own command hands a file to the page: a script that it loads.
    held = base64.b64encode(text.encode()).decode()
    (tmp_path / "profile.js").write_text(f"speedscope.loadFileFromBase64('profile.json', '{held}')")
    with playwright.sync_playwright() as running:
        page, said = open_chromium(running).new_page(), list[str]()
        page.on("console", lambda message: said.append(message.text))
        page.on("pageerror", lambda error: said.append(str(error)))
        page.goto(f"{index.resolve().as_uri()}#localProfilePath={tmp_path / 'profile.js'}")
        page.get_by_text("Sandwich").click()
        page.get_by_text("Symbol Name").wait_for()
        rows = [row.inner_text() for row in page.locator("table tr").all()[1:]]
    expected = ("speedscope v", "WebGL", "GL Driver", "Importing as", "import: ")
    assert [text for text in said if not any(part in text for part in expected)] == []
    shown: dict[str, float] = {}
    for row in rows:
        own, name = (part.strip() for part in row.split("\t")[-2:])
        shown[name.partition(" {")[0]] = shown.get(name.partition(" {")[0], 0) + cycles_of(own)
    for name, cycles in functions.items():
        assert shown[name] == pytest.approx(cycles, rel=0.01, abs=10), name
