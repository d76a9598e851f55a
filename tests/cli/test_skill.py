# SPDX-License-Identifier: Apache-2.0
"""skills/tinyc/SKILL.md, what a coding agent reads: its twenty tasks run in order, and what it names is there."""

from __future__ import annotations

import json
import re
import shlex
import sys
from pathlib import Path

import numpy as np
import onnx
import pytest

from tests.cli.test_cli import write_model
from tinyc.cli.app import COMMANDS, load_command
from tinyc.cli.json_objects import schema_of
from tinyc.cli.main import main

SKILL = Path(__file__).resolve().parents[2] / "skills" / "tinyc" / "SKILL.md"
TEXT = SKILL.read_text(encoding="utf-8")
TASKS = re.findall(r"^\| [^|]+ \| `(tinyc [^`]+)` \|$", TEXT, re.MULTILINE)


def test_the_front_matter_is_that_of_a_skill() -> None:
    """Name as the folder's, and a description that says when it is of use, within the format's 1,024 letters."""
    head = dict(re.findall(r"^(\w+): (.+)$", TEXT.split("---")[1], re.MULTILINE))
    assert head["name"] == SKILL.parent.name
    assert 100 < len(head["description"]) <= 1024
    assert "Use it to" in head["description"]
    assert len(TEXT.splitlines()) < 500


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")
def test_the_twenty_tasks_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    pytest.importorskip("matplotlib", reason="needs the extra `plot`")
    monkeypatch.chdir(tmp_path)
    write_model(Path("net.onnx"))
    (value,) = onnx.load("net.onnx").graph.input
    shape = [each.dim_value for each in value.type.tensor_type.shape.dim][1:]
    rng = np.random.default_rng(0)
    for name in ("calib", "test"):
        np.savez(f"{name}.npz", x=rng.normal(size=(40, *shape)).astype(np.float32))
    assert len(TASKS) == 20
    for task in TASKS:
        monkeypatch.setattr(sys, "argv", shlex.split(task))
        capsys.readouterr()
        with pytest.raises(SystemExit) as end:
            main()
        said = capsys.readouterr()
        assert int(end.value.code or 0) == 0, (task, said.err)
        if "--json" in task:
            assert json.loads(said.out), task


def test_what_it_names_is_there() -> None:
    options = {option for name in COMMANDS for each in load_command(name).params for option in each.opts}
    for option in set(re.findall(r"(?<![\w-])--[a-z][\w-]*", TEXT)) - {"--json-schema"}:
        assert option in options, option
    keys = json.dumps([schema_of("build"), schema_of("quantize")])
    for cell in re.findall(r"^\| (`[a-z][^|]*) \|", TEXT.split("## Accuracy")[0], re.MULTILINE):
        for key in re.findall(r"`([\w.\[\]]+)`", cell):
            assert f'"{key.removesuffix("[]").split(".")[-1]}"' in keys, key
