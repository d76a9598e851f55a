# SPDX-License-Identifier: Apache-2.0
"""What commands print with --json is what --json-schema says of it: every key, of its type, and no other."""

from __future__ import annotations

import copy
import json
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from tests.cli.test_cli import write_model
from tests.frontend.pushing import window_model
from tests.frontend.sounds import voice
from tests.frontend.test_picture import picture_model
from tests.frontend.test_recordings import FRONT, write_wav
from tinyc.cli.app import COMMANDS, app, load_command
from tinyc.cli.json_objects import schema_of, shapes
from tinyc.ir.graph import Quant

# Command lines in a folder with kws.onnx -> what they end with.
QUICK = {
    "boards": 0,
    "estimate kws.onnx --board cortex-m4": 0,
    "estimate kws.onnx --board host": 0,
    "inspect tc_conv2d_s8_dsp": 0,
    "inspect 1": 0,
    "inspect nothing_of_that_name": 2,
    "estimate kws.onnx --board host,cortex-m4 --prefer all --pick ram<=1M": 0,
    "inspect kws.onnx": 0,
    "flash --ports": 0,
    "estimate kws.onnx --board cortex-m4 --prefer ram --map": 0,
    "estimate kws.onnx --board cortex-m4 --front": 0,
    "quantize kws.onnx": 0,
    "build kws.onnx --board cortex-m4 --no-proof -o planned": 0,
    "build missing.onnx": 2,
}
# Limits that are not met: what, and how much was allowed.
MISSED = {
    "build kws.onnx --board cortex-m4 --no-proof --ram 40 -o small": ("RAM", "bytes", 40),
    "build kws.onnx --board cortex-m4 --no-proof --flash 1K -o small": ("flash", "bytes", 1024),
    "build kws.onnx --board cortex-m4 --no-proof --time 10 -o small": ("cycles", "cycles", 10),
    "quantize kws.onnx --weights auto --flash 10": ("weights", "bytes", 10),
}
BUILT = {
    "build kws.onnx --board host -o kws --package cmake": 0,
    "package kws --as cpp": 0,
    "package kws kws2 --name both": 0,
    "report kws": 0,
    "verify kws.onnx --board host": 0,
    "run listening.tflite --board host --frontend mfcc.toml --wav voice.wav": 0,
    "run seeing.tflite --board host --picture rgb565:12x10,crop=fit --image frame.raw": 0,
    "boards host --check": 0,
    "profile kws.onnx --board cortex-m4 --source --top 2": 0,
    "bench kws.onnx --board host --seconds 0.05": 0,
    "doctor": None,
    "sweep sweep.toml": 0,
    "build kws.onnx --board cortex-m4 -o apart --weights-blob": 0,
    "package apart/kws.blob": 0,
}


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    write_model(tmp_path / "kws.onnx")
    (tmp_path / "sweep.toml").write_text('models = ["kws.onnx"]\nboards = ["host"]\nkind = "estimate"\n')
    return tmp_path


def validator(schema: Any) -> Any:
    """jsonschema's; importing it builds a grammar, which takes seconds: not when tests are collected."""
    jsonschema = pytest.importorskip("jsonschema")
    jsonschema.Draft202012Validator.check_schema(schema)
    return jsonschema.Draft202012Validator(schema)


def closed(schema: Any) -> Any:
    """The schema with no key allowed that it does not name."""
    closed_schema = copy.deepcopy(schema)
    waiting = [closed_schema]
    while waiting:
        part = waiting.pop()
        if isinstance(part, dict):
            if isinstance(part.get("properties"), dict):
                part["additionalProperties"] = False
            waiting += part.values()
        elif isinstance(part, list):
            waiting += part
    return closed_schema


def check(line: str, code: int | None) -> Any:
    """Runs a command line and holds what it prints to the schema."""
    words = line.split()
    ran = CliRunner().invoke(app, [*words, "--json"])
    assert ran.exit_code == code or code is None, ran.output
    said = json.loads(ran.stdout)
    validator(closed(schema_of(words[0]))).validate(said)
    assert isinstance(said.get("error"), dict) == (code == 2 or (code == 1 and words[0] in ("build", "quantize")))
    return said


@pytest.mark.quick_cases(8)
@pytest.mark.parametrize("line", QUICK)
@pytest.mark.filterwarnings("ignore")
def test_what_is_printed_is_what_the_schema_says(folder: Path, line: str) -> None:
    check(line, QUICK[line])


@pytest.mark.quick_cases(2)
@pytest.mark.parametrize("line", MISSED)
@pytest.mark.filterwarnings("ignore")
def test_a_limit_that_is_not_met_has_its_figures(folder: Path, line: str) -> None:
    (missed,) = check(line, 1)["error"]["missed"]
    assert (missed["what"], missed["unit"], missed["limit"]) == MISSED[line]
    assert missed["reached"] > missed["limit"]


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")
def test_what_builds_and_runs_print_is_what_their_schemas_say(folder: Path) -> None:
    write_model(folder / "kws2.onnx")
    assert CliRunner().invoke(app, ["build", "kws2.onnx", "--board", "host", "-o", "kws2"]).exit_code == 0
    window_model(folder / "listening.tflite", 3, Quant((0.5,), (30,)), 10)
    (folder / "mfcc.toml").write_text(FRONT.read_text(encoding="utf-8"))
    write_wav(folder / "voice.wav", voice(0.2))
    picture_model(folder / "seeing.tflite", (5, 6, 3))
    (folder / "frame.raw").write_bytes(bytes(240))
    for line, code in BUILT.items():
        check(line, code)


def test_schemas_are_schemas_of_every_command_that_prints_json() -> None:
    takes = {name for name in COMMANDS if any("--json" in each.opts for each in load_command(name).params)}
    assert shapes().keys() == takes
    for name in takes:
        validator(schema_of(name))


def test_a_key_that_is_missing_or_of_another_type_is_found(folder: Path) -> None:
    said = check("estimate kws.onnx --board host", 0)
    estimates = validator(schema_of("estimate"))
    for wrong in ({"arena_bytes": "many"}, {"layers": [{}]}, {"fits": None}):
        assert not estimates.is_valid({"estimates": [said["estimates"][0] | wrong]})
    del said["estimates"][0]["macs"]
    assert not estimates.is_valid(said)


def test_every_command_prints_its_schema() -> None:
    for name in COMMANDS:
        ran = CliRunner().invoke(app, [name, "--json-schema"])
        assert ran.exit_code == 0
        assert json.loads(ran.stdout) == schema_of(name)
