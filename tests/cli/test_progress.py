# SPDX-License-Identifier: Apache-2.0
"""What a command shows while it works: on a terminal (here a pseudo-terminal), and nothing of it in a pipe."""

from __future__ import annotations

import os
import pty
import re
import subprocess
import sys
from pathlib import Path

import pytest
from rich.progress import Progress as Bar

from tests.cli.test_cli import write_model
from tests.forked import MAIN, Forked
from tinyc.cli import running
from tinyc.cli.output import Color, Output
from tinyc.cli.running import run_stages
from tinyc.options.recipe import Effort
from tinyc.pipeline.progress import Progress

# Stages as the pipeline has them: one that says nothing of itself, then one that counts its parts.
WORK = """
import time
from tinyc.cli.output import Color, Output
from tinyc.cli.running import run_stages

def work(progress):
    with progress.stage("plan"):
        time.sleep(0.5)
    here = progress.within("kws on [red]m4[/red]")
    with progress.stage("quantize"):
        counted = progress.counted("learned rounding", 6)
        for _ in range(5):
            time.sleep(0.15)
            counted()
    with here.stage("run"):
        counted = here.counted("run", 8)
        for _ in range(7):
            time.sleep(0.25)
            counted()

run_stages(Output(Color.AUTO, json_mode=False, verbose=False), work)
print("done")
"""
LEFT = re.compile(r"0:00:\d\d left")


def on_terminal(forked: Forked, program: str, *words: str) -> str:
    """All that the program writes to a terminal of 100 columns; it must succeed."""
    ours, theirs = pty.openpty()
    forked.start(
        program, ["tinyc", *words], [theirs] * 3, environment={**os.environ, "TERM": "xterm", "COLUMNS": "100"}
    )
    os.close(theirs)
    parts = []
    try:
        while part := os.read(ours, 4096):
            parts.append(part)
    except OSError:  # Linux says so that the other end is closed
        pass
    os.close(ours)
    shown = b"".join(parts).decode()
    assert forked.wait() == 0, shown
    return shown


def frames(shown: str) -> list[str]:
    """The lines that stood on the terminal, one after the other, without colours and movements of the cursor."""
    plain = re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", shown)
    return [line for line in re.split(r"[\r\n]+", plain) if line.strip()]


def test_time_left_stands_where_it_is_known(forked: Forked) -> None:
    lines = frames(on_terminal(forked, WORK))
    planning = [line for line in lines if " plan " in line]
    running = [line for line in lines if "kws on [red]m4[/red]: run " in line]
    assert planning, lines
    assert running, lines
    assert not any("left" in line or "-:--" in line for line in planning), planning
    assert sum(bool(LEFT.search(line)) for line in running) >= 3, running
    layers = [line for line in lines if "learned rounding" in line]
    assert layers, lines
    assert not any("left" in line for line in layers), layers  # layers take differently long


def test_nothing_is_shown_in_a_pipe() -> None:
    ran = subprocess.run([sys.executable, "-c", WORK], capture_output=True, text=True, check=True)
    assert (ran.stdout, ran.stderr) == ("done\n", "")


def test_a_build_shows_its_stages_and_leaves_no_trace_of_them(forked: Forked, tmp_path: Path) -> None:
    model = write_model(tmp_path / "small.onnx")
    shown = on_terminal(forked, MAIN, "build", str(model), "--board", "host", "--out", str(tmp_path / "b"))
    assert "\x1b[?25l" in shown
    assert "\x1b[?25h" in shown
    assert "\x1b[2K" in shown  # the bar's line is cleared at the end
    assert any(re.match(r"\S (load|quantize|select|emit|compile|run|report|device) ", line) for line in frames(shown))


def test_parts_of_one_of_many_are_told_with_its_name() -> None:
    heard: list[tuple[str, float | None]] = []
    progress = Progress(
        on_stage=lambda stage: heard.append((stage, None)), on_share=lambda what, share: heard.append((what, share))
    )
    inner = progress.within("a.onnx (1 of 2)").within("cortex-m4")
    with inner.stage("reference"):
        counted = inner.counted("reference", 2)
        counted()
        counted()
    name = "a.onnx (1 of 2): cortex-m4: reference"
    assert heard == [(name, None), (name, 0.5), (name, 1.0)]
    assert set(progress.seconds) == {"reference"}  # seconds of all of them together


@pytest.mark.parametrize(
    ("effort", "stage", "told"), [("full", "quantize", True), ("fast", "quantize", False), ("full", "plan", False)]
)
def test_who_waits_for_quantizing_hears_of_a_shorter_way(
    effort: Effort, stage: str, told: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(running, "PATIENCE", 0.0)
    said: list[str] = []

    def work(progress: Progress) -> None:
        with progress.stage(stage):
            progress.on_share("round weights", 0.5)

    monkeypatch.setattr(Bar, "update", lambda self, task, **words: said.append(str(words.get("description"))))
    run_stages(Output(Color.AUTO, json_mode=False, verbose=False), work, effort)
    assert any("--effort fast" in words for words in said) == told
