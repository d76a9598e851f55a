# SPDX-License-Identifier: Apache-2.0
"""The pages of report, bench and sweep in a real browser: nothing sticks out, nothing is fetched, no complaint; tables
and graph work by keyboard; axe-core finds no barrier; paper has everything. `make browser` installs what that needs."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial
from pathlib import Path

import pytest

from tests.browser.pages import CHROMIUM, bench, open_chromium, report, sweep
from tests.shared_folder import SharedFolder
from tests.unit.test_bench_page import bench_report
from tests.unit.test_report_page import several_layers, unproved
from tinyc.bench.page import bench_page
from tinyc.explain.report_page import report_page
from tinyc.verify.report_file import read_report

playwright = pytest.importorskip("playwright.sync_api", reason="make browser")
axe = pytest.importorskip("axe_playwright_python.sync_playwright", reason="make browser")
pypdf = pytest.importorskip("pypdf", reason="make browser")
pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(CHROMIUM is None, reason="chromium is not installed: make browser"),
]
LONG = "block_with_a_name_that_no_line_can_break/" + "x" * 200
BOARDS = ("cortex-m0plus", "cortex-m4")


def with_long_names(folder: Path) -> Path:
    """A report of 60 layers, and everything named at length."""
    file, built = folder / "long.html", several_layers()
    layers = tuple(replace(layer, name=f"{LONG}{layer.step}") for layer in built.layers)
    file.write_text(report_page(replace(built, model=f"{LONG}.onnx", name=LONG, layers=layers)), encoding="utf-8")
    return file


def without_proof(folder: Path) -> Path:
    file = folder / "unproved.html"
    file.write_text(report_page(unproved()), encoding="utf-8")
    return file


def with_differences(folder: Path) -> Path:
    """A benchmark in which a board gave other bytes and a run is missing, with long names."""
    file = folder / "differs.html"
    file.write_text(bench_page(bench_report(LONG)), encoding="utf-8")
    return file


PAGES: dict[str, Callable[[Path], Path]] = {
    "report": report,
    "bench": partial(bench, boards=BOARDS),
    "sweep": partial(sweep, boards=BOARDS),
    "report with long names": with_long_names,
    "report without proof": without_proof,
    "bench with differences": with_differences,
}
SIZES = {"desktop": (1280, 900), "phone": (390, 844)}


@pytest.fixture(scope="module")
def browser() -> Iterator[playwright.Browser]:
    with playwright.sync_playwright() as running:
        opened = open_chromium(running)
        yield opened
        opened.close()


@pytest.fixture
def page_file(shared_folder: SharedFolder) -> Callable[[str], Path]:
    def file_of(name: str) -> Path:
        def make(folder: Path) -> None:
            folder.mkdir()
            PAGES[name](folder).rename(folder / "page.html")

        return shared_folder.folder_of(("page in a browser", name), make) / "page.html"

    return file_of


def opened(browser: playwright.Browser, file: Path, **options: object) -> tuple[playwright.Page, list[str]]:
    """The page, and what it complains of or asks for, as far as it has come."""
    page, heard = browser.new_page(**options), list[str]()
    page.on("console", lambda message: heard.append(message.text))
    page.on("pageerror", lambda error: heard.append(str(error)))
    page.on("request", lambda request: heard.append(request.url) if request.url != file.as_uri() else None)
    page.goto(file.as_uri())
    return page, heard


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("name", PAGES)
def test_it_fits_is_alone_and_has_no_barrier(
    browser: playwright.Browser, page_file: Callable[[str], Path], name: str, size: str, scheme: str
) -> None:
    width, height = SIZES[size]
    window = {"viewport": {"width": width, "height": height}, "color_scheme": scheme}
    page, heard = opened(browser, page_file(name), **window)
    for layer in page.locator("details").all()[:3]:
        layer.locator("summary").click()
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    results = axe.Axe().run(page).response
    assert "color-contrast" in {rule["id"] for rule in results["passes"]}
    assert results["violations"] == []
    assert heard == []
    page.close()


def test_what_must_not_be_is_found(browser: playwright.Browser, tmp_path: Path) -> None:
    """The checks above fail for a page with a picture without words, pale text, a wide box and a broken script."""
    file = tmp_path / "bad.html"
    file.write_text(
        "<html lang=en><title>x</title><main><h1>x</h1><img src=none.png><p style='color:#bbb'>pale</p>"
        "<div style='width:3000px'>wide</div><script>undefined_name()</script></main>"
    )
    page, heard = opened(browser, file, viewport={"width": 390, "height": 844})
    assert page.evaluate("document.documentElement.scrollWidth") == pytest.approx(3000, abs=20)
    assert {rule["id"] for rule in axe.Axe().run(page).response["violations"]} >= {"image-alt", "color-contrast"}
    assert any("undefined_name" in text for text in heard)
    assert any(text.endswith("none.png") for text in heard)


@pytest.mark.parametrize("name", ["report", "bench", "sweep"])
def test_every_column_sorts_by_keyboard(
    browser: playwright.Browser, page_file: Callable[[str], Path], name: str
) -> None:
    page, _ = opened(browser, page_file(name))
    table = page.locator("table.sortable").first
    heads = table.locator("th").all()
    for at, head in enumerate(heads):
        head.locator("button").focus()
        orders = []
        for _ in range(2):
            page.keyboard.press("Enter")
            cells = table.locator(f"tbody td:nth-child({at + 1})")
            values = cells.evaluate_all("cells => cells.map(cell => cell.dataset.v)")
            numbers = "n" in (head.get_attribute("class") or "").split()
            keys = [float(value) for value in values] if numbers else [value.lower() for value in values]
            backwards = head.get_attribute("aria-sort") == "descending"
            assert keys == sorted(keys, reverse=backwards), head.inner_text()
            orders.append(head.get_attribute("aria-sort"))
        assert set(orders) == {"ascending", "descending"}
        assert [other.get_attribute("aria-sort") for other in heads].count(None) == len(heads) - 1
    page.close()


def test_tab_reaches_everything_and_shows_where_it_is(
    browser: playwright.Browser, page_file: Callable[[str], Path]
) -> None:
    page, _ = opened(browser, page_file("report"))
    page.locator("details").evaluate_all("all => all.forEach((each) => { each.open = true; })")
    count = page.locator("a[href], button, summary, [tabindex='0']").count()
    seen = []
    for _ in range(count):
        page.keyboard.press("Tab")
        mark = page.evaluate(
            """() => {
                const at = document.activeElement, box = at.querySelector(".box");
                const drawn = at.closest("svg") ? getComputedStyle(box ?? at).strokeWidth === "3px"
                                                : getComputedStyle(at).outlineStyle !== "none";
                return [at === document.body ? "" : [...document.querySelectorAll("*")].indexOf(at), drawn];
            }"""
        )
        seen.append(tuple(mark))
    assert len(set(seen)) == count
    assert all(drawn for _, drawn in seen), [place for place, drawn in seen if not drawn]


def test_the_graph_is_walked_by_arrows_and_opened_by_enter(
    browser: playwright.Browser, page_file: Callable[[str], Path]
) -> None:
    page, _ = opened(browser, page_file("report"))
    page.locator(".graph a").first.focus()
    for _ in range(3):
        page.keyboard.press("ArrowDown")
    page.keyboard.press("ArrowUp")
    page.keyboard.press("Enter")
    page.wait_for_function("document.querySelectorAll('details[open]').length === 1")
    assert page.locator("details[open] > summary").inner_text().startswith("step 2:")
    assert page.evaluate("document.activeElement.closest('details[open]') !== null")


def test_without_scripts_everything_is_there(browser: playwright.Browser, page_file: Callable[[str], Path]) -> None:
    page, heard = opened(browser, page_file("report"), java_script_enabled=False)
    names = page.locator("table.sortable tbody a").all_inner_texts()
    assert len(names) == page.locator("details:has(.why)").count() == 12
    fused = page.locator("details", has_text="of several nodes")
    fused.locator("summary").click()
    assert fused.get_by_text("BatchNormalization").first.is_visible()
    page.locator("summary").nth(4).click()
    assert page.locator("details").nth(4).get_by_text("place in the arena").is_visible()
    assert heard == []


def test_paper_has_every_layer_open(browser: playwright.Browser, page_file: Callable[[str], Path]) -> None:
    file = page_file("report")
    page, _ = opened(browser, file)
    printed = file.parent / "printed.pdf"
    page.pdf(path=printed)
    text = " ".join(sheet.extract_text() for sheet in pypdf.PdfReader(printed).pages)
    built = read_report(next(file.parent.glob("*/report.json")))
    assert text.count("place in the arena") == text.count("Kernels that take it") == len(built.layers) == 12
    for layer in built.layers:
        assert f"step {layer.step}:" in text
        assert layer.kernel in text
