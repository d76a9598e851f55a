# SPDX-License-Identifier: Apache-2.0
"""Options that are not on the command line: `tinyc.toml` beside the model, and builds in the place of models."""

from __future__ import annotations

import json
import sys
import tomllib
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, get_type_hints

import numpy as np
import pytest

from tests.cli.test_cli import write_model
from tests.unit.test_repeating import CASES
from tinyc.base.errors import TinycError
from tinyc.cli.app import COMMANDS, load_command
from tinyc.cli.main import main
from tinyc.cli.options import declared, make_options, name_of
from tinyc.cli.settings import FILE, saved_settings, settings_beside
from tinyc.options.build import Options
from tinyc.options.recipe import Pictures, Recipe

MOST_LINES, COLUMNS = 40, 80


@dataclass(frozen=True)
class Said:
    code: int
    out: str
    err: str

    @property
    def json(self) -> Any:
        return json.loads(self.out)


@pytest.fixture
def tinyc(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch):
    """tinyc("build", ...) -> Said."""
    monkeypatch.setenv("NO_COLOR", "1")

    def run(*words: object) -> Said:
        monkeypatch.setattr(sys, "argv", ["tinyc", *map(str, words)])
        capsys.readouterr()
        with pytest.raises(SystemExit) as leave:
            main()
        captured = capsys.readouterr()
        return Said(int(leave.value.code or 0), captured.out, captured.err)

    return run


@pytest.fixture
def model(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """In a folder below this one, with calibration data beside it."""
    monkeypatch.chdir(tmp_path)
    place = tmp_path / "models"
    place.mkdir()
    np.savez(place / "tiny.calib.npz", x=np.random.default_rng(1).standard_normal((40, 2, 6, 5)).astype(np.float32))
    return write_model(Path("models/tiny.onnx"))


# The help ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("words", [(), *((name,) for name in COMMANDS)], ids="-".join)
def test_every_help_fits_a_screen(words: tuple[str, ...], tinyc, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", str(COLUMNS))
    shown = tinyc(*words, "--help").out.splitlines()
    assert 5 < len(shown) <= MOST_LINES
    assert max(map(len, shown)) <= COLUMNS


def test_the_help_of_a_build_asks_five_questions(tinyc) -> None:
    shown = tinyc("build", "--help").out.splitlines()
    questions = [line for line in shown if line.endswith(":") and not line.startswith(" ")]
    assert questions == ["Which board:", "Of what:", "Within what:", "How exact:", "What to write:"]


@pytest.mark.parametrize("columns", [60, 80, 100])
@pytest.mark.parametrize("command", COMMANDS)
def test_helps_fit_a_terminal_and_name_every_option(
    command: str, columns: int, tinyc, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", str(columns))
    shown = tinyc(command, "--help-all").out
    assert all(len(line) <= columns or len(line.split()) == 1 for line in shown.splitlines())
    for each in load_command(command).params:
        if each.param_type_name == "option" and each.name != "help":
            assert {*each.opts, *each.secondary_opts} & set(shown.replace(",", " ").replace(".", " ").split()), each
    usual = tinyc(command, "-h").out
    assert ("--help-all shows" in usual) == (len(set(usual.split())) < len(set(shown.split())))


# tinyc.toml ----------------------------------------------------------------------------------------------------------


def options_of(context: Any) -> Options:
    options = make_options({name: value for name, value in context.params.items() if name in NAMES})
    return replace(options, recipe=options.recipe or Recipe(), pictures=options.pictures or Pictures())


NAMES = {name_of(each) for _, each, _, _ in declared()}


@pytest.mark.parametrize("name", CASES)
def test_what_is_saved_is_read_back(name: str, model: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("TINYC_QUANTIZE_CACHE", raising=False)
    given = replace(Options(cache=True, recipe=Recipe(), pictures=Pictures()), **CASES[name])
    saved_settings(given, {}, model)
    context = load_command("build").make_context("build", [str(model)])
    assert options_of(context) == given


def test_every_option_can_be_saved() -> None:
    """Whatever a value may be, the file has it as TOML; the cases above have each kind."""
    kinds = {str(get_type_hints(owner)[each.name]) for owner, each, _, _ in declared()}
    seen = {
        str(get_type_hints(type(value))[each])
        for case in CASES.values()
        for value in (replace(Options(), **case), case.get("recipe") or Recipe(), case.get("pictures") or Pictures())
        for each in value.__dataclass_fields__
    }
    assert kinds <= seen


def test_a_table_of_the_model_goes_over_what_is_at_the_top(tinyc, model: Path) -> None:
    Path("models/tinyc.toml").write_text(
        'board = "host"\nram = "64K"\n\n["tiny.onnx"]\nram = "4K" # bytes\nouput = 3\n["other.onnx"]\nprefer = "ram"\n'
    )
    wrong = tinyc("estimate", model)
    assert wrong.code == 2
    assert "there is no option 'ouput'" in wrong.err
    assert "hint: `outputs` is one" in wrong.err
    text = Path("models/tinyc.toml").read_text().replace("ouput = 3\n", "")
    Path("models/tinyc.toml").write_text(text)
    assert settings_beside(model) == {"board": ["host"], "ram": "4K"}
    ran = tinyc("estimate", model, "--json")
    assert (ran.code, ran.json["estimates"][0]["board"]) == (0, "host")
    assert "options of models/tinyc.toml: --board, --ram" in ran.err
    assert tinyc("estimate", model, "--json", "-b", "cortex-m4").json["estimates"][0]["board"] == "cortex-m4"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("ram = '4X'", "--ram: give bytes, like 65536, 64K or 1M (in models/tinyc.toml)"),
        ("samples = -1", "--samples: give at least 0 (in models/tinyc.toml)"),
        ("prefer = 'speed'", "balanced, time, ram, flash (in models/tinyc.toml)"),
        ("ram = ", "tinyc.toml cannot be read"),
        ("json = true", "there is no option 'json'"),
        ("'tiny.onnx' = 3", "'tiny.onnx' is no table"),
        ("[options]\nram = 3", "'options' is no model file"),
        ("ram = {a = 1}", "'ram' is no model file"),
        ("ram = [[1]]", "like 65536, 64K or 1M (in models/tinyc.toml)"),
        ("ram = true", "like 65536, 64K or 1M (in models/tinyc.toml)"),
        ("hop = 2.5", "--hop: give a whole number (in models/tinyc.toml)"),
        ("x = " + "[" * 10_000, "tinyc.toml cannot be read"),
        (".".join("a" * 50) + " = 1", "too many dots"),
        ("#" * 70_000, "tinyc.toml cannot be read"),
    ],
)
def test_what_is_wrong_in_the_file_is_told(text: str, message: str, tinyc, model: Path) -> None:
    Path("models/tinyc.toml").write_text(text)
    ran = tinyc("build", model, "-b", "host")
    assert ran.code == 2
    assert message in " ".join(ran.err.split()).replace("│ ", "")


def test_save_keeps_the_rest_of_the_file(tinyc, model: Path) -> None:
    Path("models/tinyc.toml").write_text(
        '# mine\nprefer = "ram"\n\n["tiny.onnx"]\nflash = "1M"\n\n["other.onnx"]\nhop = 2\n'
    )
    calibration = model.with_name("tiny.calib.npz")
    ran = tinyc(
        "build", model, "-b", "host", "-c", calibration, "--effort", "fast", "--save", "-o", "out", "--no-proof"
    )
    assert ran.code == 0
    text = Path("models/tinyc.toml").read_text()
    assert text.startswith('# mine\nprefer = "ram"\n\n["other.onnx"]\nhop = 2\n')
    assert tomllib.loads(text)["tiny.onnx"] == {
        **{"board": "host", "prefer": "ram", "flash": 1048576, "calibration": "tiny.calib.npz"},
        **{"effort": "fast", "no-proof": True, "out": "../out"},
    }


# Builds --------------------------------------------------------------------------------------------------------------


def test_a_build_stands_for_its_model_and_options(tinyc, model: Path) -> None:
    np.savez("models/test.npz", x=np.load("models/tiny.calib.npz")["x"][:7], y=np.arange(7) % 3)
    words = ("-b", "host", "--prefer", "ram", "--inputs", "models/test.npz", "--effort", "fast")
    assert tinyc("build", model, *words).code == 0
    report = json.loads(Path("build/tiny/report.json").read_text())
    assert [file["name"] for file in report["files"]] == ["test.npz"]
    ran = tinyc("verify", "build/tiny", "--json")
    assert (ran.code, ran.json["verify"]["inputs"]) == (0, 7)
    assert set(report["arguments"]) <= set(ran.json["arguments"])
    assert tinyc("verify", "build/tiny", "--samples", 3, "--json").json["verify"]["inputs"] == 3
    assert tinyc("estimate", "build/tiny", "--json").json["estimates"][0]["board"] == "host"
    same = tinyc("verify", "build/tiny", "--prefer", "ram", "-b", "host")
    assert same.code == 0


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("--prefer", "time"), "the build was made with --prefer ram, and --prefer time is given"),
        (("--ram", "9K"), "the build was made without --ram, and --ram 9K is given"),
        (("-b", "cortex-m4"), "the build was made with --board host, and --board cortex-m4 is given"),
    ],
)
def test_an_option_that_differs_is_named(words: tuple[str, ...], message: str, tinyc, model: Path) -> None:
    assert tinyc("build", model, "-b", "host", "--prefer", "ram", "--no-proof").code == 0
    ran = tinyc("verify", "build/tiny", *words)
    assert ran.code == 2
    assert message in ran.err
    assert "leave out" in ran.err
    assert tinyc("estimate", "build/tiny", *words).code == 0  # of what might be


def test_quantizing_looks_at_the_test_inputs_of_a_build(tinyc, model: Path) -> None:
    np.savez("test.npz", x=np.random.default_rng(2).standard_normal((30, 2, 6, 5)).astype(np.float32))
    words = ("-b", "host", "--inputs", "test.npz", "--effort", "fast")
    assert tinyc("build", model, *words, "--no-proof", "--save").code == 0
    for what in ("build/tiny", model):
        assert "evaluated on  test.npz, 30 inputs" in " ".join(tinyc("quantize", what).out.split(" " * 20))


def test_a_model_that_was_changed_or_is_gone_is_not_found(tinyc, model: Path) -> None:
    assert tinyc("build", model, "-b", "host", "--no-proof").code == 0
    write_model(model, "Sigmoid")
    changed = tinyc("verify", "build/tiny")
    assert changed.code == 2
    assert "tiny.onnx, is not found: there is one with other contents" in " ".join(changed.err.split())
    model.unlink()
    gone = tinyc("profile", "build/tiny")
    assert "it is not here, nor above the folder" in " ".join(gone.err.split())


def test_a_build_without_a_proof_is_proved_by_its_folder(tinyc, model: Path) -> None:
    assert tinyc("build", model, "-b", "host", "--no-proof").code == 0
    assert tinyc("verify", "build/tiny").code == 0
    assert json.loads(Path("build/tiny/report.json").read_text())["verify"]["mismatches"] == 0
    source = Path("build/tiny/tiny.c")
    source.write_text(source.read_text() + "/* mine */\n")
    assert "tiny.c is not what" in tinyc("verify", "build/tiny").err


def test_one_board_is_built_for(tinyc, model: Path) -> None:
    for boards in (("-b", "host,cortex-m4"), ("-b", "host", "-b", "cortex-m4")):
        ran = tinyc("build", model, *boards)
        assert ran.code == 2
        assert "one board is built for" in ran.err
        assert len(tinyc("estimate", model, *boards, "--json").json["estimates"]) == 2


def test_a_file_that_is_not_toml_has_a_place(model: Path) -> None:
    model.with_name(FILE).write_bytes(b"\xff")
    with pytest.raises(TinycError, match="cannot be read"):
        settings_beside(model)


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ('metric = "evil.py:score"', "'metric' would run code, evil.py:score"),
        ('calibration = "evil:data"', "'calibration' would run code, evil:data"),
        ('report = "../page.html"', "the report would be written outside of this folder, to ../page.html"),
    ],
)
def test_a_file_that_came_with_a_model_runs_no_code_and_writes_nowhere_else(
    tinyc: Any, model: Path, line: str, said: str
) -> None:
    (model.parent / "evil.py").write_text("raise SystemExit('evil ran')\n")
    (model.parent / FILE).write_text(f'board = "host"\n{line}\n')
    ran = tinyc("build", model)
    assert ran.code == 2
    assert said in ran.err
    assert "command line" in ran.err
    assert "evil ran" not in ran.out + ran.err


def test_a_build_that_came_from_elsewhere_runs_no_code(tinyc: Any, model: Path) -> None:
    """Its report names the options that it was built with."""
    assert tinyc("build", model, "-b", "host", "-o", "out", "--no-proof").code == 0
    report = json.loads(Path("out/report.json").read_text())
    report["arguments"] += ["--metric", "evil.py:score"]
    Path("out/report.json").write_text(json.dumps(report))
    Path("evil.py").write_text("raise SystemExit('evil ran')\n")
    ran = tinyc("verify", "out")
    assert ran.code == 2
    assert "'metric' would run code, evil.py:score" in ran.err
    assert "evil ran" not in ran.out + ran.err
