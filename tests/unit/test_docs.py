# SPDX-License-Identifier: Apache-2.0
"""The pages: links and anchors lead somewhere, and every command that they show is one that `tinyc` takes."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator
from pathlib import Path

import pytest

from tinyc.cli import app

ROOT = Path(__file__).resolve().parents[2]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
LINK = re.compile(r"\[[^\]]*\]\(([^)\s]+)\)")
BLOCK = re.compile(r"^ *```.*?^ *```$", re.MULTILINE | re.DOTALL)  # within a list, too
COMMANDS = {name: app.load_command(name) for name in app.COMMANDS}
NOT_COMMANDS = ("tinyc-", "tinyc's", "tinyc:")


def anchors(page: Path) -> set[str]:
    """Of the headings, as GitHub makes them."""
    text = BLOCK.sub("", page.read_text(encoding="utf-8"))
    heads = re.findall(r"^#+ (.+)$", text, re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", head.lower()).strip().replace(" ", "-") for head in heads}


OTHERS = [ROOT / "CONTRIBUTING.md", ROOT / "CHANGELOG.md", *sorted((ROOT / "examples").rglob("*.md"))]


@pytest.mark.parametrize("page", [*PAGES, *OTHERS], ids=lambda page: str(page.relative_to(ROOT)))
def test_links_lead_somewhere(page: Path) -> None:
    for target in LINK.findall(BLOCK.sub("", page.read_text(encoding="utf-8"))):
        if target.startswith(("http://", "https://")):
            continue
        file, _, anchor = target.partition("#")
        linked = (page.parent / file).resolve() if file else page
        assert linked.exists(), f"{target} in {page.name}"
        assert not anchor or anchor in anchors(linked), f"{target} in {page.name}"


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_links_have_words(page: Path) -> None:
    """What a reader gets there, and not the name of a file."""
    links = re.findall(r"\[([^\]]*)\]\([^)]*\)", page.read_text(encoding="utf-8"))
    assert [words for words in links if re.fullmatch(r"[\w./-]+\.md", words)] == []


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_sentences_go_forward(page: Path) -> None:
    """No clause that begins with `of which` or `that which`: another sentence says it."""
    text = " ".join(BLOCK.sub("", page.read_text(encoding="utf-8")).split())
    assert re.findall(r"[^.]*(?:\w,? of which|\bthat which)\b[^.]*", text.replace("of which file", "")) == []


HEAD = re.compile(r"^\|(.*)\|\n\|[-: |]+\|$", re.MULTILINE)
TIMES = re.compile(r"\bcycles?\b|\bms\b|milliseconds|times faster")


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_times_in_tables_say_where_they_come_from(page: Path) -> None:
    """Modelled, measured or estimated: in the table, or in what stands around it on the page, with a link to the rules
    and their errors. Cycles that an emulator's timer gives are in none."""
    text = page.read_text(encoding="utf-8")
    if page.name == "cycles.md" or not any(TIMES.search(head) for head in HEAD.findall(text)):
        return
    assert re.search(r"\bmodel(?:s|led)\b", text), "no word that cycles are modelled"
    assert "cycles.md" in text, "no link to the rules"


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_commands_that_are_gone_are_not_named(page: Path) -> None:
    """Whole command lines are looked at below."""
    assert re.findall(r"`(?:tinyc )?(?:plan|explore|pack|monitor|explain)`", page.read_text(encoding="utf-8")) == []


def test_every_page_and_picture_is_linked() -> None:
    everything = "".join(page.read_text(encoding="utf-8") for page in PAGES)
    for page in PAGES[1:]:
        assert re.search(rf"\((docs/)?{re.escape(page.name)}[)#]", everything), page.name
    for picture in (ROOT / "docs" / "images").iterdir():
        assert f"images/{picture.name})" in everything


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_named_files_are_there(page: Path) -> None:
    """`plan/arena.py`, below the root or below tinyc/."""
    shown = BLOCK.sub("", page.read_text(encoding="utf-8"))
    for name in re.findall(r"`((?:[\w-]+/)+[\w-]+\.(?:py|h|toml|md))`", shown):
        places = [ROOT / name, ROOT / "tinyc" / name]
        assert any(place.exists() for place in places), f"{name} in {page.name}"


def commands(page: Path) -> Iterator[str]:
    """`tinyc ...` of indented blocks, fenced blocks and code in sentences."""
    text = page.read_text(encoding="utf-8")
    blocks = "\n".join(BLOCK.findall(text)) + "\n".join(re.findall(r"^    .*$", text, re.MULTILINE))
    for line in blocks.splitlines():
        shown = line.strip().split("  #")[0].split(" > ")[0]
        if shown.startswith("tinyc "):
            yield shown
    yield from (command for command in re.findall(r"`(tinyc [^`]+)`", text) if not command.startswith(NOT_COMMANDS))


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_commands_have_the_options_that_pages_show(page: Path) -> None:
    for shown in commands(page):
        name, *words = shlex.split(re.sub(r"[\[\]|]|\.\.\.", " ", shown))[1:]
        if name.startswith("-"):
            continue
        assert name in COMMANDS, shown
        options = {option for each in COMMANDS[name].params for option in (*each.opts, *each.secondary_opts)}
        options |= {"--help-all", "--json-schema"}  # which every command has
        for word in words:
            if re.match(r"--?[a-z]", word):
                assert word.partition("=")[0] in options, f"{word} of {shown}"


def test_every_option_of_build_is_described() -> None:
    pages = "".join(
        (ROOT / "docs" / f"{name}.md").read_text(encoding="utf-8")
        for name in ("build", "build-reference", "quantize", "quantize-reference", "state")
    )
    for each in COMMANDS["build"].params:
        options = [option for option in each.opts if option.startswith("-")]
        assert not options or any(f"`{option}" in pages for option in options), options


def test_the_comparison_states_the_figures_of_the_tables() -> None:
    """Cycles on a NUCLEO-L4R5ZI, and the size of TinyEngine's code."""
    compare = " ".join((ROOT / "docs" / "compare.md").read_text(encoding="utf-8").split())
    benchmarks = (ROOT / "docs" / "benchmarks.md").read_text(encoding="utf-8")
    board = benchmarks.partition("### ST NUCLEO-L4R5ZI")[2].partition("### ST STM32F4")[0]
    rows = {
        row[0]: row[1:] for row in re.findall(r"^\| ([^|]*) \| ([^|]*) \|(?: [^|]* \|){2} ([^|]*) \|.*$", board, re.M)
    }
    kws, low, high = re.findall(r"[\d.]+", rows["tinyc, estimated"][0])
    st, plumerai = rows["ST X-CUBE-AI 9 (v1.2)"][0], rows["Plumerai (v1.1)"]
    assert f"{st} and {plumerai[0]} million cycles for kws" in compare
    assert f"is {kws} million" in compare
    assert f"which makes it {low} to {high} (" in compare
    ours = rows["tinyc, estimated"][1].split()[0]
    relation = "less" if float(plumerai[1]) < float(ours) else "more"
    assert f"For ad, Plumerai's {plumerai[1]} million is {relation} than our {ours}." in compare
    (code,) = re.findall(r"^\| TinyEngine \| (7,\d+) \(", benchmarks, re.M)
    assert f"TinyEngine's code for one model, {int(code.replace(',', '')) / 1000:.1f} KB for kws" in compare
