# SPDX-License-Identifier: Apache-2.0
"""bench/board_cycles.py: what it makes of made-up boards, and the errors of the rules against published ones."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "bench"))

import board_cycles  # noqa: E402

PUBLISHED = Path(os.environ.get("TINYC_TIMING", ROOT.parent / "shared" / "timing"))
EVENTS = (*board_cycles.CHARGES.values(), board_cycles.NO_WAIT)


def write(folder: Path, rows: list[tuple[str, int, int, dict[str, int]]]) -> None:
    """Rows of (scheme, cycles on the board, by the manual's rules, events); every run is twice the shortest."""
    key = "scheme,implementation,operation"
    board = [f"{key},board_min,asm_dominated", *(f"{name},m4,sign,{cycles},yes" for name, cycles, _, _ in rows)]
    head = ",".join(EVENTS)
    events = [f"{key},instructions_min,instructions,modelled_cycles_now,{head}"]
    for name, _, manual, counted in rows:
        numbers = ",".join(str(2 * counted.get(event, 0)) for event in EVENTS)
        events.append(f"{name},m4,sign,500,1000,{2 * manual},{numbers}")
    (folder / "board_cycles.csv").write_text("\n".join(board) + "\n")
    (folder / "events.csv").write_text("\n".join(events) + "\n")


def read(folder: Path) -> list[board_cycles.Row]:
    return board_cycles.read_rows(folder / "board_cycles.csv", folder / "events.csv")


def test_errors_are_those_of_the_shortest_run(tmp_path: Path) -> None:
    write(tmp_path, [("one-1", 1000, 900, {"store_then_store": 50, board_cycles.NO_WAIT: 10})])
    (row,) = read(tmp_path)
    charges = board_cycles.charges_of_m4()
    assert row.error((), charges) == pytest.approx(-11)
    assert row.error(("late_fetch", "store_behind_store"), charges) == pytest.approx(-6)
    assert row.family == "one"


def test_a_half_chooses_the_rules_that_its_boards_show(tmp_path: Path) -> None:
    rows = [(name, 1100, 1000, {"store_then_load": 100, "store_then_store": 200}) for name in ("aa", "bb", "cc", "dd")]
    write(tmp_path, rows)
    text = board_cycles.tables(read(tmp_path), board_cycles.charges_of_m4())
    assert "`load_behind_store` 100%" in text
    assert "`store_behind_store` 0%" in text
    assert "Test medians: 0.0 to 0.0 (with the manual's rules 9.1 to 9.1)" in text


def test_without_the_figures_nothing_is_compared(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys, "argv", ["board_cycles.py", str(tmp_path)])
    assert board_cycles.main() == 2
    assert "nothing to compare with" in capsys.readouterr().out


@pytest.mark.skipif(not PUBLISHED.is_dir(), reason=f"no published board cycles in {PUBLISHED}; set TINYC_TIMING")
def test_the_rules_of_the_m4_hold_on_published_boards(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys, "argv", ["board_cycles.py", str(PUBLISHED)])
    assert board_cycles.main() == 0, capsys.readouterr().out
