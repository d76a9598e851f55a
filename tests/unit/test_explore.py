# SPDX-License-Identifier: Apache-2.0
"""Exploring: no best point is beaten, failed ones have reasons, proofs replace estimates, limits pick."""

from __future__ import annotations

import itertools
import json
import sys
from dataclasses import replace
from pathlib import Path

import onnx
import pytest
from test_estimate import network

from tinyc.base.errors import TinycError
from tinyc.cli.main import main
from tinyc.explain.points import Point, pick
from tinyc.options.build import Options, Prefer
from tinyc.pipeline.exploring import _is_best, explore_model
from tinyc.pipeline.progress import Progress


@pytest.fixture
def model(tmp_path: Path) -> Path:
    path = tmp_path / "m.onnx"
    onnx.save(network(8, 32), path)
    return path


def variants(
    prefer: tuple[Prefer, ...] = ("balanced", "time", "ram", "flash"),
    ram: tuple[int | None, ...] = (None,),
    flash: tuple[int | None, ...] = (None,),
) -> list[Options]:
    """Every combination, on a Cortex-M4."""
    combinations = itertools.product(prefer, ram, flash)
    return [Options("cortex-m4", prefer=what, ram=most, flash=limit) for what, most, limit in combinations]


def test_no_best_point_is_beaten_and_every_other_is(model: Path) -> None:
    points = explore_model(model, variants(flash=(None, 100)), Progress())
    assert len(points) == 4 * 2
    failed = [point for point in points if point.problem]
    assert all(point.flash == 100 and not point.best for point in failed)
    assert failed
    there = [point for point in points if not point.problem]
    best = [point for point in there if point.best]
    for point in there:
        beats = [o for o in best if all(a <= b for a, b in zip(o.key, point.key, strict=True)) and o is not point]
        assert point.best != bool(beats)
    assert len({point.key for point in best}) == len(best) > 1


def test_proved_points_have_measured_figures(model: Path) -> None:
    options = [Options("cortex-m4", samples=1, prefer="time")]
    (said,) = explore_model(model, options, Progress())
    (point,) = explore_model(model, options, Progress(), proof=True)
    assert point.proved
    assert not said.proved
    assert point.ram_bytes == said.ram_bytes
    assert abs(point.instructions / said.instructions - 1) < 0.08
    assert point.options() == "--board cortex-m4 --prefer time"


def test_a_later_point_beats_an_earlier_one() -> None:
    slow, fast, equal = (
        Point("a", prefer, "", None, None, False, None, 1, time, 6516, flash)
        for prefer, time, flash in (("time", 10.5, 16524), ("balanced", 10.3, 13900), ("flash", 10.3, 13900))
    )
    assert [_is_best(point, [slow, fast, equal]) for point in (slow, fast, equal)] == [False, True, False]


def test_what_a_point_may_need_is_a_limit_of_its_own(model: Path) -> None:
    fast, small = explore_model(model, variants(("time", "ram")), Progress())
    assert small.ram_bytes < fast.ram_bytes
    limited = variants(("time",), ram=(None, small.ram_bytes, 16))
    first, second, third = explore_model(model, limited, Progress())
    assert first.key == fast.key
    assert second.ram_bytes <= small.ram_bytes
    assert second.options() == f"--board cortex-m4 --prefer time --ram {small.ram_bytes}"
    assert "bytes of RAM, 16 allowed" in (third.problem or "")
    points = explore_model(model, variants(("time", "ram"), flash=(1000,)), Progress())
    assert all("1,000" in (point.problem or "") for point in points)


def test_accuracy_counts_between_proved_points() -> None:
    wide = Point("a", "ram", "int8", None, None, False, None, 1000, 2.0, 9000, 5000, 30.0, proved=True)
    worse = replace(wide, weights="int4", sqnr_db=20.0)
    smaller = replace(worse, flash_bytes=4000)
    assert wide.beats(worse)
    assert not wide.beats(smaller)
    assert not smaller.beats(wide)
    assert not wide.beats(replace(wide, weights="int4"))


POINTS = [
    Point("a", "time", "", None, None, False, None, 1000, 2.0, 20000, 50000),
    Point("a", "ram", "", None, None, False, None, 1500, 3.0, 10000, 50000),
    Point("a", "flash", "", None, None, False, None, 9000, 9.0, 9000, 20000, agreement=0.95),
    Point("b", "flash", "", None, None, True, "too large"),
]


@pytest.mark.parametrize(
    ("words", "number"),
    [
        ("", 0),
        ("ram<=16K", 1),
        ("ram<10000", 2),
        ("flash < 30K, time<=0.01s", 2),
        ("agreement >= 95 %", 2),
        ("ram<1K", None),
        ("sqnr>10", None),
    ],
)
def test_limits_pick_the_fastest(words: str, number: int | None) -> None:
    assert pick(POINTS, words) is (None if number is None else POINTS[number])


@pytest.mark.parametrize("words", ["ram", "ram<=16X", "speed<3", "ram<=", "ram<=1K time<3"])
def test_words_that_are_no_limit(words: str) -> None:
    with pytest.raises(TinycError, match="is no condition"):
        pick(POINTS, words)


def run(monkeypatch: pytest.MonkeyPatch, *words: object) -> int:
    monkeypatch.setattr(sys, "argv", ["tinyc", *map(str, words)])
    with pytest.raises(SystemExit) as leave:
        main()
    return int(leave.value.code or 0)


def test_the_command(
    model: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    picture = tmp_path / "front.svg"
    words = ("estimate", model, "--board", "cortex-m4", "--prefer", "ram,flash")
    assert run(monkeypatch, *words, "--plot", picture, "--pick", "ram<=64K") == 0
    out = capsys.readouterr().out
    assert f"tinyc build {model} --board cortex-m4 --prefer" in out
    assert "<svg" in picture.read_text()
    assert run(monkeypatch, *words, "--json", "--pick", "ram<=64K") == 0
    report = json.loads(capsys.readouterr().out)
    assert len(report["points"]) == 2
    assert report["pick"]["options"].startswith("--board cortex-m4")
    assert run(monkeypatch, *words, "--pick", "ram<=1") == 1
    assert run(monkeypatch, *words, "--prefer", "least") == 2
    assert run(monkeypatch, *words, "--pick", "speed") == 2
