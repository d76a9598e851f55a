"""Bad input, strange names and interruptions: every answer says what, where and what to do; nothing is half-written."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from tests.cli.test_cli import Ran, model, tinyc, write_model  # noqa: F401  fixtures
from tinyc.build import toolchain
from tinyc.ir.graph import Array

# ruff: noqa: F811  fixtures are arguments too


def save(path: Path, nodes: list[onnx.NodeProto], outputs: dict[str, list[int]], **consts: Array) -> Path:
    """A float model of the nodes, with the input x [1,3]."""

    def declared(name: str, shape: list[int]) -> onnx.ValueInfoProto:
        return helper.make_tensor_value_info(name, TensorProto.FLOAT, shape)

    graph = helper.make_graph(
        nodes,
        "hostile",
        [declared("x", [1, 3])],
        [declared(name, shape) for name, shape in outputs.items()],
        [numpy_helper.from_array(array, name) for name, array in consts.items()],
    )
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), path)
    return path


def explained(ran: Ran, said: str) -> None:
    """The answer has the words, a hint, and neither a traceback nor a warning of a library."""
    assert ran.code in (1, 2), ran.err
    assert said in ran.err
    assert "hint: " in ran.err
    assert "Traceback" not in ran.err
    assert ".py:" not in ran.err


# --- models ---


def test_a_model_that_computes_nothing_is_a_library_too(tinyc, tmp_path: Path) -> None:
    path = save(tmp_path / "same.onnx", [helper.make_node("Identity", ["x"], ["y"])], {"y": [1, 3]})
    assert tinyc("build", path, "-b", "host", "-o", tmp_path / "out").code == 0


@pytest.mark.parametrize(
    ("op", "inputs", "consts", "said"),
    [
        (None, ["x"], {}, "the model has no nodes"),
        ("Det", ["x"], {}, "operator Det is not supported"),
        ("MatMul", ["x", "w"], {"w": np.full((3, 2), np.nan, np.float32)}, "contains NaN"),
        ("MatMul", ["x", "w"], {"w": np.zeros((5, 2), np.float32)}, "do not fit input [1, 3]"),
        ("Identity", ["w"], {"w": np.zeros((1, 2), np.float32)}, "does not depend on any input"),
    ],
)
def test_models_that_cannot_be_compiled(
    tinyc, tmp_path: Path, op: str | None, inputs: list[str], consts: dict[str, Array], said: str
) -> None:
    nodes = [helper.make_node(op, inputs, ["y"], "layer")] if op else []
    path = save(tmp_path / "bad.onnx", nodes, {"y": [1, 2]}, **consts)
    explained(tinyc("build", path, "-b", "host", "-o", tmp_path / "out"), said)
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize("name", ["stdint", "tc", "tc_math", "my model (v2)", "модель", "while", "-dash", "a;b&c"])
def test_names_of_files(tinyc, tmp_path: Path, name: str) -> None:
    """Whatever the file is called, the library compiles and hides no header of the compiler."""
    path = save(tmp_path / f"{name}.onnx", [helper.make_node("Relu", ["x"], ["y"])], {"y": [1, 3]})
    ran = tinyc("build", path, "-b", "host", "-o", tmp_path / "out", "--json")
    assert ran.code == 0, ran.err
    assert ran.json["name"] not in ("stdint", "tc")


def test_names_of_layers_are_text(tinyc, tmp_path: Path) -> None:
    """Brackets are no markup, colons no emoji, and a comment in C stays one."""
    rude = "[/bold]:cat: */ #error ../x\\"
    nodes = [helper.make_node("Relu", ["x"], [rude], rude), helper.make_node("Sigmoid", [rude], ["for"], "int")]
    path = save(tmp_path / "m[red].onnx", nodes, {rude: [1, 3], "for": [1, 3]})
    ran = tinyc("inspect", path)
    assert ran.code == 0, ran.err
    assert rude in ran.out
    for command in (["build", "-o", tmp_path / "out[/b]"], ["plan"]):
        ran = tinyc(command[0], path, "-b", "host", *command[1:])
        assert ran.code == 0, ran.err
    assert (tmp_path / "out[/b]" / "m_red.c").is_file()


# --- data ---


@pytest.mark.parametrize(
    ("arrays", "said"),
    [
        ({"x": np.zeros((4, 3, 3), np.float32)}, "expected [samples, 2, 6, 5]"),
        ({"x": np.zeros((0, 2, 6, 5), np.float32)}, "expected [samples, 2, 6, 5]"),
        ({"x": np.full((4, 2, 6, 5), np.nan, np.float32)}, "no finite 32-bit floats"),
        ({"x": np.full((4, 2, 6, 5), 1e300)}, "no finite 32-bit floats"),
        ({"x": np.array(["a", "b"])}, "expected numbers"),
        ({"x": np.zeros((4, 2, 6, 5), np.float32), "y": np.arange(5)}, "5 labels 'y' for 4 samples"),
        ({"a": np.zeros(3), "b": np.zeros(3)}, "the file has a, b"),
        ({}, "the file has none"),
    ],
)
@pytest.mark.parametrize("option", ["--calibration", "--inputs"])
def test_bad_data(tinyc, model: Path, tmp_path: Path, option: str, arrays: dict[str, Array], said: str) -> None:
    np.savez(tmp_path / "bad.npz", **arrays)
    explained(tinyc("build", model, "-b", "host", option, tmp_path / "bad.npz", "-o", tmp_path / "out"), said)


def test_a_quantized_model_does_not_replace_the_float_one(tinyc, model: Path) -> None:
    before = model.read_bytes()
    explained(tinyc("quantize", model, "-o", model), "would replace the float one")
    assert model.read_bytes() == before


@pytest.mark.parametrize(("words", "code"), [("1K", 0), ("1KiB", 0), ("1_024", 0), ("1k", 2), ("-1", 2), ("K", 2)])
def test_budgets(tinyc, model: Path, words: str, code: int) -> None:
    ran = tinyc("plan", model, "-b", "host", f"--ram-budget={words}", "--json")
    assert ran.code == code
    if code:
        assert "give bytes, like 65536, 64K or 1M" in ran.err
    else:
        assert ran.json["arena_bytes"] <= 1024


# --- boards and tools ---


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ('"dsp"', '"dps"', "'isa' has 'dps'"),
        ("flash_bytes = 1_048_576", 'flash_bytes = "1M"', "must be a whole number"),
        ("clock_hz", "clok_hz", "did you mean"),
        ('name = "cortex-m4"', "name = ", "not valid TOML"),
    ],
)
def test_broken_board_files(tinyc, model: Path, tmp_path: Path, old: str, new: str, said: str) -> None:
    text = (Path(__file__).resolve().parents[2] / "boards" / "cortex-m4.toml").read_text()
    assert old in text
    (tmp_path / "board.toml").write_text(text.replace(old, new, 1))
    explained(tinyc("build", model, "-b", tmp_path / "board.toml", "-o", tmp_path / "out"), said)


def test_missing_tools_are_named_before_anything_is_computed(
    tinyc, model: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(toolchain, "_locate", lambda name: None)
    monkeypatch.setattr("tinyc.pipeline.compiling.load_model", lambda path: pytest.fail("the model was read"))
    for command in ("build", "verify", "profile"):
        explained(tinyc(command, model, "-b", "cortex-m4"), "no compiler for cortex-m4 is installed")


# --- the output folder ---


@pytest.mark.parametrize("report", [None, "{}", '{"tinyc": "0.1.0"}', "[1]", '{"tinyc": "0.1.0", "name": "tiny"}'])
def test_what_others_wrote_is_never_deleted(
    tinyc, model: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, report: str | None
) -> None:
    out = tmp_path / "out"
    out.mkdir()
    (out / "thesis.tex").write_text("years of work")
    if report is not None:
        (out / "report.json").write_text(report)
    monkeypatch.setattr("tinyc.pipeline.compiling.load_model", lambda path: pytest.fail("too late to complain"))
    explained(tinyc("build", model, "-b", "host", "-o", out), "what tinyc did not write: ")
    assert (out / "thesis.tex").read_text() == "years of work"


def test_a_library_of_another_model_is_replaced(tinyc, tmp_path: Path) -> None:
    """As long as tinyc wrote all of the folder; a file beside it is named."""
    out = tmp_path / "out"
    for name in ("one", "two"):
        path = write_model(tmp_path / f"{name}.onnx")
        assert tinyc("build", path, "-b", "host", "-o", out).code == 0
        assert json.loads((out / "report.json").read_text())["name"] == name
    assert not (out / "one.c").exists()
    (out / "two.o").write_bytes(b"")
    explained(tinyc("build", path, "-b", "host", "-o", out), "did not write: two.o")


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_an_interrupted_build_leaves_nothing(model: Path, tmp_path: Path, number: signal.Signals) -> None:
    """The signal comes while the library's folder is being filled."""
    script = (
        "import os, signal, sys, time, tinyc.pipeline.building as building\n"
        "signal.signal(signal.SIGINT, signal.default_int_handler)  # shells ignore it for what runs in the background\n"
        "def wait(*_):\n"
        "    print(os.listdir('.'), flush=True)\n"
        "    time.sleep(600)\n"
        "building.prove_in = wait\n"
        "from tinyc.cli.main import main\n"
        f"sys.argv = ['tinyc', 'build', {str(model)!r}, '-b', 'host', '-o', 'out']\n"
        "main()\n"
    )
    where = tmp_path / "place"
    where.mkdir()
    environment = {**os.environ, "PYTHONPATH": str(Path(__file__).resolve().parents[2])}
    with subprocess.Popen(
        [sys.executable, "-c", script],
        cwd=where,
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as running:
        assert running.stdout is not None
        assert ".out-" in running.stdout.readline()
        running.send_signal(number)
        _, said = running.communicate()
    assert running.returncode == 128 + number
    assert said in ("interrupted\n", "terminated\n")
    assert not os.listdir(where)
