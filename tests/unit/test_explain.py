# SPDX-License-Identifier: Apache-2.0
"""`tinyc inspect` knows every kernel and operator; the shell completes what can be completed; pipes get no color."""

from __future__ import annotations

import importlib
import json
import os
import re
from collections.abc import Callable
from pathlib import Path

import numpy as np
import onnx
import pytest

import tinyc
from tests.forked import Forked
from tests.load import onnx_models
from tinyc.base.errors import TinycError
from tinyc.cli import app
from tinyc.explain.messages import GAP, PAGES
from tinyc.explain.words import EXIT_CODES, explain
from tinyc.load.onnx.every import IMPORTERS as ONNX
from tinyc.load.tflite import IMPORTERS as TFLITE
from tinyc.ops import all_ops

ROOT = Path(__file__).resolve().parents[2]


def test_every_kernel_and_operator_is_explained() -> None:
    for op in all_ops().values():
        assert "operator" in [meaning.kind for meaning in explain(op.name)]
        for kernel in op.every_kernel:
            (explained,) = explain(kernel.name)
            assert explained.kind == "kernel"
            assert op.name in explained.of
            assert set(kernel.isa) == set(explained.core)
            assert bool(explained.contract) != kernel.written, kernel.name
    for names, kind in ((ONNX, "ONNX operator"), (TFLITE, "TFLite operator")):
        for name in names:
            assert name in [meaning.name for meaning in explain(name) if meaning.kind == kind]


def test_what_is_said() -> None:
    (kernel,) = explain("tc_conv2d_s8_dsp")
    assert kernel.of == ("conv2d",)
    assert "dsp" in kernel.core
    assert not any(line.startswith("*") for line in kernel.contract.splitlines())
    (shared,) = explain("tc_depthwise_conv2d_3x3_s8_w4_scalar")  # in a header with the one of int8 weights
    assert shared.contract.startswith("One row of a 3x3 depthwise convolution")
    assert shared.contract.endswith("two in a byte, the first in the low\nhalf.")
    (written,) = explain("tc_conv2d_s8_w16_asm_k3x6_o4_4509c7")
    assert written.name == "tc_conv2d_s8_w16_asm"
    foreign = explain("conv")
    assert [(meaning.kind, meaning.name) for meaning in foreign] == [("ONNX operator", "Conv")]
    assert "conv2d" in foreign[0].of
    assert [meaning.kind for meaning in explain("softmax")] == ["operator", "ONNX operator", "TFLite operator"]
    assert {explain(code)[0].says for code in EXIT_CODES} == set(EXIT_CODES.values())


def test_other_words() -> None:
    with pytest.raises(TinycError, match="is no kernel") as caught:
        explain("tc_conv2d_s9")
    assert "tc_conv2d_s8" in caught.value.hint
    with pytest.raises(TinycError, match="no message of an error") as caught:
        explain("the weather is nice today")
    assert "docs/troubleshooting.md" in caught.value.hint
    for word in ("", "tc_", "tc", "\x1b[31m", "x" * 10_000, "tc_" + "a_" * 5000):
        with pytest.raises(TinycError):
            explain(word)


def raised(work: Callable[[], object]) -> TinycError:
    with pytest.raises(TinycError) as caught:
        work()
    return caught.value


ERRORS: dict[str, Callable[[Path], object]] = {
    "a file that is not there": lambda folder: tinyc.inspect(folder / "no.onnx"),
    "no model": lambda folder: tinyc.inspect(Path(__file__)),
    "a board that is none": lambda folder: tinyc.build(folder / "m.onnx", "no-board"),
    "an option that is none": lambda folder: tinyc.build(folder / "m.onnx", "host", prefer="much"),  # type: ignore[arg-type]
    "state that is none": lambda folder: tinyc.build(folder / "m.onnx", "host", state=["z:w"]),
    "data of another shape": lambda folder: tinyc.build(folder / "m.onnx", "host", calibration=np.ones((3, 2), "f4")),
    "an operator that is none": lambda folder: tinyc.memory_map(folder / "det.onnx", "host"),
}


@pytest.mark.parametrize("name", ERRORS)
def test_messages_of_errors(name: str, tmp_path: Path) -> None:
    """As they are raised, in one line of what the command line prints, and with other names in them."""
    onnx.save(onnx_models.build([onnx_models.op("Relu", "x", "y")], {"x": [1, 4]}, ["y"]), str(tmp_path / "m.onnx"))
    onnx.save(onnx_models.build([onnx_models.op("Det", "x", "y")], {"x": [4, 4]}, ["y"]), str(tmp_path / "det.onnx"))
    error = raised(lambda: ERRORS[name](tmp_path))
    for said in (error.message, str(error)):
        (meaning,) = explain(said)
        assert meaning.kind == "error"
        assert re.search(".+?".join(map(re.escape, meaning.name.split(GAP))), error.message), meaning.name
        page = re.search(r"More: (docs/\S+\.md)$", meaning.says)
        assert page
        assert (ROOT / page[1]).is_file()
        if name == "a file that is not there":  # others have hints that are made as they are raised
            assert f"What to do: {error.hint}" in meaning.says


def test_every_room_that_raises_errors_has_a_page() -> None:
    rooms = {file.relative_to(ROOT / "tinyc").parts[0] for file in (ROOT / "tinyc").glob("*/**/*.py")}
    assert set(PAGES) <= rooms
    assert all((ROOT / "docs" / page).is_file() for page in PAGES.values())


def test_the_command_prints_json_and_no_color_into_a_file(forked: Forked) -> None:
    assert json.loads(forked.tinyc("inspect", "1", "--json").stdout)["meanings"][0]["kind"] == "exit code"
    terminal = {**os.environ, "TERM": "xterm-256color", "FORCE_COLOR": ""}
    for words, said in ((["inspect", "tc_conv2d_s8_dsp"], "computes: conv2d"), (["boards"], "cortex-m4")):
        text = forked.tinyc(*words, environment=terminal).stdout
        assert said in text
        assert "\x1b" not in text


@pytest.mark.quick_cases(2)
@pytest.mark.parametrize(
    ("words", "offered"),
    [
        ("tinyc packa", "package"),
        ("tinyc b", "bench boards build"),
        ("tinyc plan b", "build bench boards"),  # after a word that is no command
        ("tinyc build --board cortex-m3", "cortex-m3 cortex-m33"),
        ("tinyc package build/kws --as cmake,ru", "cmake,rust"),
        ("tinyc build --packa", "--package"),
    ],
)
def test_the_shell_is_offered(forked: Forked, words: str, offered: str) -> None:
    settings = {"_TINYC_COMPLETE": "complete_bash", "COMP_WORDS": words, "COMP_CWORD": str(len(words.split()) - 1)}
    ran = forked.tinyc(environment={**os.environ, **settings})
    assert sorted(ran.stdout.split()) == sorted(offered.split())  # versions of typer order them differently
    assert ran.stderr == ""


def test_every_command_that_prints_a_table_takes_json() -> None:
    for name in app.COMMANDS:
        importlib.import_module(f"tinyc.cli.{name}")
        options = [option for each in app.load_command(name).params for option in each.opts]
        assert "--json" in options, name
