# SPDX-License-Identifier: Apache-2.0
"""A benchmark's page: complete, alone, well-formed, with names of any kind; and its file read back."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from tests.hostile_names import HOSTILE
from tests.unit.test_report_page import Page
from tinyc.base.errors import TinycError
from tinyc.bench.page import bench_page, read_bench
from tinyc.bench.report import (
    BenchReport,
    BoardResult,
    Computer,
    Latency,
    Missing,
    ModelResult,
    Parity,
    ReferenceResult,
)
from tinyc.cli.main import main

pytest.importorskip("matplotlib")


def bench_report(name: str = "kws.onnx") -> BenchReport:
    """Two boards, of which one has no cycle model, and two desktop runs, of which one gives no integers."""
    board = BoardResult(
        "cortex-m4", "QEMU", "gcc", 2_256_560, 3_611_502, 30.1, 3452, 520, 12_264, 53_048, 20, 240, 0, "M4"
    )
    host = BoardResult(name, name, name, None, None, None, 3452, None, 9000, 53_048, 20, 240, 3)
    exact, near = Parity(20, 1, None, 0), Parity(20, 0.995, 29.3)
    ours = ReferenceResult("c", "generated C", name, name, "int8", Latency(105.25, 110, 9), 1.0, 9000, 1, exact)
    cpu = ReferenceResult("cpu", "onnxruntime", "a CPU", "1", "float32", Latency(51, 60, 9), 0.48, 40_000, 16, near)
    both = ModelResult(
        name, "0" * 64, name, "single", 2_656_768, name, (board, host), (ours, cpu), (Missing("gpu", name),)
    )
    one = replace(both, boards=(board,), references=())
    return BenchReport(1, "0.1.0", Computer(name, "Linux", "3.11"), (both, one))


@pytest.fixture(scope="module")
def text() -> str:
    return bench_page(bench_report())


def test_the_page_says_what_the_report_does(text: str) -> None:
    page = Page(text)
    words = " ".join(" ".join(page.texts).split())
    for part in ("2,256,560", "30,100", "3,452", "105.2", "0.48", "99.5", "29.3", "Not run: gpu", "cycles by M4"):
        assert part in words, part
    assert "Some board gave other bytes" in words
    assert page.count["table"] == 3
    assert page.count["svg"] == 2  # one bar says nothing
    right = replace(bench_report(), models=bench_report().models[1:])
    assert "Every board gave the reference's bytes." in bench_page(right)
    ids = [value for name, value in page.attributes if name == "id"]
    assert len(ids) == len(set(ids))
    links = [value for name, value in page.attributes if name in ("src", "href", "xlink:href")]
    assert all(link.startswith("#") and link[1:] in ids for link in links)


@pytest.mark.slow
def test_hostile_names_are_text(text: str) -> None:
    most = "".join(name for name in HOSTILE if len(name) < 100 and set(name) & set("<&\"'$"))
    assert Page(bench_page(bench_report(most))).count == Page(text).count


def test_the_file_is_read_back(
    text: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "bench.json"
    file.write_text(json.dumps(bench_report().to_json()))
    assert read_bench(file) == bench_report()
    monkeypatch.setattr("sys.argv", ["tinyc", "report", str(file)])
    with pytest.raises(SystemExit) as end:
        main()
    assert end.value.code == 0
    assert capsys.readouterr().out == f"page: {tmp_path / 'bench.html'}\n"
    assert (tmp_path / "bench.html").read_text(encoding="utf-8") == text
    for damaged, message in (
        ("[", "no JSON"),
        ("{}", "no benchmark report"),
        ('{"schema": 1, "models": 3}', "damaged"),
    ):
        file.write_text(damaged)
        with pytest.raises(TinycError, match=message):
            read_bench(file)
