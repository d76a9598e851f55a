# SPDX-License-Identifier: Apache-2.0
"""What is made of a sweep's file of results: a page, a comparison with another, documents for other tools."""

from __future__ import annotations

import hashlib
import random
import xml.etree.ElementTree as ET
from dataclasses import replace
from pathlib import Path

import pytest
import typer
from typer.testing import CliRunner, Result

from tests.hostile_names import HOSTILE
from tests.unit.test_report_page import Page
from tinyc.base.errors import TinycError
from tinyc.base.escape import visible
from tinyc.cli import bench, report
from tinyc.sweep import ResultRow, Store, compare_sweeps, holds_results, read_results
from tinyc.sweep.page import on_front, sweep_page

pytest.importorskip("matplotlib")


def row(model: str, board: str, options: str = "", **figures: object) -> ResultRow:
    key = hashlib.sha256(repr((model, board, options, figures)).encode()).hexdigest()
    figures_of_row = {
        "instructions": 1000,
        "cycles": 2000,
        "milliseconds": 2.0,
        "arena_bytes": 300,
        "flash_bytes": 4000,
    }
    facts = {**figures_of_row, "status": "passed", **figures}
    return ResultRow(key, model, board, "prove", options, **facts)  # type: ignore[arg-type]


def rows() -> list[ResultRow]:
    """Two models; of the first one job is refused, and one was beaten."""
    return [
        row("kws.onnx", "cortex-m4", "--prefer time", sqnr_db=30.0),
        row("kws.onnx", "cortex-m4", "--prefer ram", milliseconds=3.0, arena_bytes=200, sqnr_db=30.0),
        row("kws.onnx", "cortex-m4", "--prefer balanced", milliseconds=3.5, arena_bytes=300, sqnr_db=29.0),
        row("kws.onnx", "cortex-m0plus", milliseconds=9.0, sqnr_db=30.0),
        replace(row("kws.onnx", "tiny"), status="refused", reason="the arena needs 300 bytes", instructions=None),
        row("vww.onnx", "cortex-m4", agreement=0.995),
    ]


def written(path: Path, results: list[ResultRow]) -> Path:
    with Store(path) as store:
        for each in results:
            store.add(each)
    return path


def test_the_page_says_what_the_rows_do() -> None:
    text = sweep_page(rows(), "s.sqlite")
    page = Page(text)
    words = " ".join(" ".join(page.texts).split())
    for part in (
        "Sweep s.sqlite",
        "6 jobs: 5 passed, 1 refused.",
        "kws.onnx tiny refused the arena needs 300 bytes",
        "cortex-m4 --prefer ram 1,000 2,000 3.00 200 4,000 30.0 passed ●",
        "cortex-m4 --prefer balanced 1,000 2,000 3.50 300 4,000 29.0 passed",
        "99.5",
    ):
        assert part in words, part
    assert page.count["svg"] == 2, "of the first model; one point says nothing"
    assert page.count["table"] == 3
    assert sweep_page(rows(), "s.sqlite") == text
    ids = [value for name, value in page.attributes if name == "id"]
    assert len(ids) == len(set(ids))
    links = [value for name, value in page.attributes if name in ("src", "href", "xlink:href")]
    assert all(link.startswith("#") and link[1:] in ids for link in links)
    crashed = replace(rows()[0], status="crashed", reason="KilledWorker")
    assert 'class="verdict bad"' in sweep_page([crashed], "x")


def test_hostile_names_are_text() -> None:
    most = "".join(name for name in HOSTILE if len(name) < 100)

    def one(name: str) -> list[ResultRow]:
        lines = [replace(row(name, name, name), arena_bytes=ram, tinyc=name) for ram in (1, 2)]
        return [*lines, replace(lines[0], status="refused", reason=name)]

    page = Page(sweep_page(one(most), most))
    assert page.count == Page(sweep_page(one("x"), "x")).count
    assert visible(most).strip() in "".join(page.texts)


def test_the_front_is_what_no_other_row_beats() -> None:
    rng = random.Random(0)
    figures = ("milliseconds", "arena_bytes", "flash_bytes", "sqnr_db")
    results = [row("m", "b", str(i), **{name: rng.randrange(1, 6) for name in figures}) for i in range(60)]

    def beats(a: ResultRow, b: ResultRow) -> bool:
        pairs = [(getattr(a, name), getattr(b, name)) for name in figures[:3]]
        pairs.append((-(a.sqnr_db or 0), -(b.sqnr_db or 0)))
        return all(x <= y for x, y in pairs) and any(x < y for x, y in pairs)

    front = [on_front(each, results) for each in results]
    assert front == [not any(beats(other, each) for other in results) for each in results]
    assert 0 < sum(front) < 60
    assert on_front(row("m", "b", milliseconds=None, instructions=9**9), results), "nothing to compare it with"


def test_the_last_row_of_a_job_counts(tmp_path: Path) -> None:
    old, new = row("kws.onnx", "host", cycles=1), row("kws.onnx", "host", cycles=2)
    file = written(tmp_path / "r.sqlite", [old, row("vww.onnx", "host"), new])
    assert [(each.model, each.cycles) for each in read_results(file)] == [("kws.onnx", 2), ("vww.onnx", 2000)]
    assert holds_results(file)
    (tmp_path / "x.json").write_text("{}")
    assert not holds_results(tmp_path / "x.json")
    for name in ("x.json", "none.sqlite"):
        with pytest.raises(TinycError, match="no file of results"):
            read_results(tmp_path / name)
    assert not (tmp_path / "none.sqlite").exists()


@pytest.mark.parametrize(
    ("changed", "worse"),
    [
        ({}, []),
        ({"cycles": 2019}, []),
        ({"cycles": 2021}, ["cycles"]),
        ({"cycles": 1500, "arena_bytes": 310, "flash_bytes": 5000}, ["arena_bytes", "flash_bytes"]),
        ({"sqnr_db": 29.0}, ["sqnr_db"]),
        ({"sqnr_db": 31.0}, []),
        ({"status": "differs"}, ["failed"]),
        ({"status": "refused", "cycles": None}, ["failed"]),
    ],
)
def test_what_got_worse(tmp_path: Path, changed: dict[str, object], worse: list[str]) -> None:
    old = written(tmp_path / "old.sqlite", rows())
    new = written(tmp_path / "new.sqlite", [replace(rows()[0], **changed), *rows()[1:]])  # type: ignore[arg-type]
    changes = compare_sweeps(old, new)
    assert [change.figure for change in changes if change.worse] == worse
    assert {(change.model, change.where) for change in changes} <= {("kws.onnx --prefer time", "cortex-m4")}
    assert not any(change.worse for change in compare_sweeps(old, old))


def test_what_is_gone_or_new_and_fails_is_worse(tmp_path: Path) -> None:
    whole, part = written(tmp_path / "a.sqlite", rows()), written(tmp_path / "b.sqlite", rows()[:4])
    gone = [change for change in compare_sweeps(whole, part) if change.worse]
    assert {(change.model, change.where) for change in gone} >= {("vww.onnx", "cortex-m4")}
    fails = [change for change in compare_sweeps(part, whole) if change.worse]
    assert [(change.where, change.figure) for change in fails] == [("tiny", "failed")]


def run(module: object, *words: object) -> Result:
    app = typer.Typer()
    app.command()(module.command)  # type: ignore[attr-defined]
    return CliRunner().invoke(app, [str(word) for word in words])


def test_the_commands(tmp_path: Path) -> None:
    old = written(tmp_path / "old.sqlite", rows())
    new = written(tmp_path / "new.sqlite", [replace(rows()[0], cycles=4000), *rows()[1:]])
    assert run(report, old).exit_code == 0
    assert (tmp_path / "old.html").read_text(encoding="utf-8") == sweep_page(rows(), "old.sqlite")
    same = run(bench, "--compare", old, old)
    assert (same.exit_code, "0 figures changed" in same.output) == (0, True)
    assert run(bench, "--compare", old, new).exit_code == 1
    assert run(bench, "--compare", old, new, "--threshold", "2").exit_code == 0
    told = run(bench, "--compare", old, new, "--format", "github")
    assert told.exit_code == 1
    title = "kws.onnx --prefer time%3A cycles%2C cortex-m4"
    assert f"::error title={title}::cycles: 2,000 -> 4,000 (+100.0%25)" in told.output
    suite = ET.fromstring(run(bench, "--compare", old, new, "--format", "junit").output)
    assert suite.get("failures") == "1"
    (tmp_path / "x.json").write_text("{}")
    assert run(bench, "--compare", old, tmp_path / "x.json").exit_code == 2
    assert run(bench, "--compare", old, new, "--latency-threshold", "1").exit_code == 2
