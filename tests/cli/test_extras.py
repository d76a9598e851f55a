# SPDX-License-Identifier: Apache-2.0
"""Without the packages that not everybody needs: what works all the same, and what is said of the rest."""

from __future__ import annotations

import json
import re
import subprocess
import sys
import tomllib
from pathlib import Path
from types import ModuleType

import pytest

from tests.cli.test_cli import tinyc, write_model  # noqa: F401  (tinyc: a fixture)
from tests.load.tflite_models import network_bytes
from tinyc.base.errors import Loc, TinycError
from tinyc.base.extras import load_extra, requirements
from tinyc.explain.words import explain

ROOT = Path(__file__).resolve().parents[2]
OPTIONAL = ("onnx", "onnxruntime", "unicorn", "capstone", "matplotlib", "PIL", "ortools", "ziglang")
WITHOUT = f"""import sys
for name in {OPTIONAL}:
    sys.modules[name] = None  # importing it raises ModuleNotFoundError
from tinyc.cli.main import main
main()
"""


def bare(*words: str | Path, cwd: Path) -> subprocess.CompletedProcess[str]:
    """A command where none of the optional packages is installed."""
    call = [sys.executable, "-c", WITHOUT, *map(str, words)]
    return subprocess.run(call, cwd=cwd, capture_output=True, text=True, check=False)


@pytest.fixture
def model(tmp_path: Path) -> Path:
    file = tmp_path / "net.tflite"
    file.write_bytes(network_bytes())
    return file


@pytest.mark.slow
def test_a_tflite_model_is_compiled_with_what_every_installation_has(model: Path) -> None:
    done = bare("build", model.name, "-b", "cortex-m4", "--no-proof", "--json", cwd=model.parent)
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["arena_bytes"] > 0
    assert (model.parent / "build" / "net" / "net.c").exists()


@pytest.mark.slow
@pytest.mark.parametrize(
    "words",
    [
        ["inspect", "net.tflite"],
        ["estimate", "net.tflite"],
        ["doctor"],
        ["boards"],
        ["inspect", "CONV_2D"],
    ],
    ids=lambda words: words[0],
)
def test_commands_without_the_optional_packages(model: Path, words: list[str]) -> None:
    done = bare(*words, cwd=model.parent)
    assert done.returncode == (1 if words == ["doctor"] else 0), done.stderr  # no emulated board runs: its answer is no
    assert "Traceback" not in done.stderr


def missing(monkeypatch: pytest.MonkeyPatch, *names: str) -> None:
    for name in names:
        monkeypatch.setitem(sys.modules, name, None)


def test_a_float_onnx_model_names_what_it_needs(tinyc, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:  # noqa: F811
    file = write_model(tmp_path / "tiny.onnx")
    missing(monkeypatch, "onnxruntime")
    ran = tinyc("build", file, "-b", "host", "-o", tmp_path / "out")
    assert ran.code == 2
    assert "error: quantizing a float ONNX model needs the package onnxruntime\n  --> tiny.onnx\n" in ran.err
    assert "hint: `pip install 'tinyc[onnx]'`" in ran.err
    assert not (tmp_path / "out").exists()
    missing(monkeypatch, "onnx")
    ran = tinyc("inspect", file)
    assert ran.code == 2
    assert "error: reading an ONNX model needs the package onnx\n  --> tiny.onnx\n" in ran.err


def test_a_proof_on_a_board_names_what_it_needs(tinyc, model: Path, monkeypatch: pytest.MonkeyPatch) -> None:  # noqa: F811
    missing(monkeypatch, "capstone")
    for board in ("cortex-m4", "riscv32imc"):
        ran = tinyc("verify", model, "-b", board)
        assert ran.code == 2
        assert "needs the package capstone" in ran.err
        assert "`pip install 'tinyc[proof]'`" in ran.err


def test_words_of_onnx_are_known_with_onnx(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in [name for name in sys.modules if name.startswith("tinyc.load.onnx")]:
        monkeypatch.delitem(sys.modules, name)
    missing(monkeypatch, "onnx")
    assert [meaning.kind for meaning in explain("softmax")] == ["operator", "TFLite operator"]
    with pytest.raises(TinycError) as caught:
        explain("Gemm")
    assert "`pip install 'tinyc[onnx]'`" in caught.value.hint


def test_a_package_that_is_there_and_broken(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "broken_extra.py").write_text("import not_there_either\n")
    monkeypatch.syspath_prepend(tmp_path)
    with pytest.raises(TinycError, match="installed and cannot be loaded: No module named 'not_there_either'"):
        load_extra("broken_extra", "plot", "drawing", Loc("x"))
    assert isinstance(load_extra("json.decoder", "plot", "drawing"), ModuleType)


def test_every_extra_that_a_message_names_is_one() -> None:
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]["optional-dependencies"]
    sources = [*(ROOT / "tinyc").rglob("*.py"), ROOT / "README.md", *(ROOT / "docs").glob("*.md")]
    text = "".join(file.read_text(encoding="utf-8") for file in sources)
    named = {extra for names in re.findall(r"\[([\w,]+)\]'`", text) for extra in names.split(",")}
    loaded = set(re.findall(r'load_extra\("[\w.]+", "(\w+)"', text))
    assert loaded == {"onnx", "proof", "plot", "exact", "pictures", "sweep", "sign", "torch"}
    assert loaded | named <= set(extras)
    assert {package.extra for package in requirements()} <= {"", *extras}
