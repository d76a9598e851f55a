# SPDX-License-Identifier: Apache-2.0
"""Words of the command line that tinyc does not know: one error in tinyc's own form, with a hint that holds."""

from __future__ import annotations

import json
import sys

import pytest

from tinyc.cli.app import COMMANDS, load_command
from tinyc.cli.main import main
from tinyc.cli.usage import COMMANDS_BY_OTHER_NAMES, OPTIONS_BY_OTHER_NAMES


def said(capsys: pytest.CaptureFixture[str], *words: str) -> tuple[str, str]:
    """What is printed on stdout and stderr, at 60 columns, where all must fit."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sys, "argv", ["tinyc", *words])
        patch.setenv("COLUMNS", "60")
        with pytest.raises(SystemExit) as leave:
            main()
    assert leave.value.code == 2
    out, err = capsys.readouterr()
    assert err.startswith("error: ")
    assert max(map(len, err.splitlines())) <= 60
    return out, " ".join(err.split())


@pytest.mark.parametrize(
    ("words", "error"),
    [
        ("plan", "there is no command 'plan' hint: `tinyc estimate MODEL --map` does that"),
        ("bulid", "there is no command 'bulid' hint: `tinyc build`, perhaps;"),
        ("frobnicate", "there is no command 'frobnicate' hint: `tinyc -h` lists the commands"),
        ("--frobnicate", "tinyc has no option --frobnicate hint: `tinyc -h` lists all options"),
        ("build m.onnx --memory=ram", "tinyc build has no option --memory hint: give --prefer ram;"),
        ("build m.onnx --bord x", "tinyc build has no option --bord hint: --board, perhaps;"),
        ("build m.onnx -x", "tinyc build has no option -x hint: `tinyc build --help-all` lists all options"),
        (
            "report x --flash-budget 3",
            "tinyc report has no option --flash-budget hint: `tinyc report --help-all` lists",
        ),
        ("build", "MODEL is missing hint: `tinyc build --help-all` says"),
        ("build m.onnx n.onnx", "too many arguments: n.onnx"),
        ("build m.onnx --ram", "--ram needs a value hint: `tinyc build --help-all` says what it takes"),
        ("build m.onnx --json=3", "--json takes no value"),
        ("build m.onnx --ram 3Q", "--ram: give bytes, like 65536, 64K or 1M"),
        ("build m.onnx --samples x", "--samples: give a whole number"),
        ("build m.onnx --samples -4", "--samples: give at least 0"),
        ("build m.onnx --headroom x", "--headroom: give a number"),
        ("build m.onnx --min-top1 101", "--min-top1: give at most 100"),
        ("build m.onnx --prefer quick", "--prefer: 'quick' is not one of balanced, time, ram, flash hint:"),
        ("estimate m.onnx --prefer quick", "--prefer: 'quick' is not one of balanced, time, ram, flash, all hint:"),
        ("build m.onnx --numerics x", "--numerics: 'x' is not one of tflm, litert, single, onnx hint:"),
        ("flash --method telepathy", "--method: 'telepathy' is not one of stm32, samba,"),
        ("bench --compare a", "--compare needs 2 values"),
    ],
)
def test_a_wrong_word_is_an_error_like_others(words: str, error: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert f"error: {error}" in said(capsys, *words.split())[1]


@pytest.mark.parametrize(
    "words", [("build", "m.onnx", "--json", "--frob"), ("build", "--ram", "3Q", "m.onnx", "--json")]
)
def test_in_json_mode_it_is_an_object(words: tuple[str, ...], capsys: pytest.CaptureFixture[str]) -> None:
    out, err = said(capsys, *words)
    error = json.loads(out)["error"]
    assert f"error: {error['message']} hint: {error['hint']}" == err


@pytest.mark.parametrize("name", COMMANDS_BY_OTHER_NAMES)
def test_a_command_by_another_name_is_one(name: str) -> None:
    assert name not in COMMANDS
    command, *words = COMMANDS_BY_OTHER_NAMES[name].split()
    if command in COMMANDS:
        names = {flag for each in load_command(command).params for flag in each.opts} | {"--json-schema"}
        assert {word for word in words if word.startswith("--")} <= names
    else:
        assert command in ("--version", "--help")


@pytest.mark.parametrize("name", OPTIONS_BY_OTHER_NAMES)
def test_an_option_by_another_name_is_one(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    other = OPTIONS_BY_OTHER_NAMES[name]
    names = {flag for each in load_command("build").params for flag in (*each.opts, *each.secondary_opts)}
    assert name not in names
    assert other.split()[0] in names
    assert f"hint: give {other};" in said(capsys, "build", "m.onnx", name)[1]
