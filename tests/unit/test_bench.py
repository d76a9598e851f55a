# SPDX-License-Identifier: Apache-2.0
"""tinyc bench: timing, parity, CSV, comparison, and whole runs on the host."""

from __future__ import annotations

import csv
import importlib.util
import io
import json
import sys
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

import tinyc
from tinyc.base.errors import TinycError
from tinyc.bench import references, timing
from tinyc.bench.compare import compare_files
from tinyc.bench.references import Runtime, UnavailableError, cpu_runner, generated_c, gpu_runner
from tinyc.bench.run import BenchOptions, parity, run_bench
from tinyc.cli.main import main
from tinyc.ir.graph import Graph, Quant, Value
from tinyc.options.build import Options
from tinyc.pipeline.progress import Progress


def classifier(folder: Path, batch: int | str = "n") -> Path:
    """Dense -> relu -> dense, [n,6] -> [n,3]."""
    rng = np.random.default_rng(3)
    shapes = {"w": (5, 6), "b": (5,), "v": (3, 5), "c": (3,)}
    nodes = [
        helper.make_node("Gemm", ["x", "w", "b"], ["h"], transB=1),
        helper.make_node("Relu", ["h"], ["r"]),
        helper.make_node("Gemm", ["r", "v", "c"], ["y"], transB=1),
    ]
    graph = helper.make_graph(
        nodes,
        "tiny",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, (batch, 6))],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, (batch, 3))],
        [numpy_helper.from_array(rng.normal(0, 1, s).astype(np.float32), n) for n, s in shapes.items()],
    )
    path = folder / "tiny.onnx"
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)], ir_version=8), path)
    return path


def data(count: int = 24) -> dict[str, np.ndarray]:
    x = np.random.default_rng(4).normal(0, 1, (count, 6)).astype(np.float32)
    return {"x": x, "y": np.arange(count) % 3}


@pytest.fixture(scope="module")
def report(tmp_path_factory: pytest.TempPathFactory) -> tinyc.BenchReport:
    model = classifier(tmp_path_factory.mktemp("bench"))
    return tinyc.bench(model, "host", references=("cpu", "gpu"), calibration=data(), inputs=data(), seconds=0.05)


def test_board_and_runs(report: tinyc.BenchReport) -> None:
    (model,) = report.models
    (board,) = model.boards
    assert report.passed
    assert (board.board, board.inputs, board.output_bytes) == ("host", 20, 60)
    assert [run.kind for run in model.references][:2] == ["c", "cpu"]
    c, cpu = model.references[:2]
    assert c.parity.different == 0
    assert c.parity.sqnr_db is None
    assert c.times_c == 1
    assert (c.parity.inputs, cpu.parity.inputs) == (24, 24)
    assert cpu.parity.different is None
    assert cpu.parity.sqnr_db is not None
    assert cpu.parity.sqnr_db > 25
    assert cpu.parity.top1_reference is not None
    assert "onnxruntime" in cpu.software
    assert cpu.latency.median_us <= cpu.latency.p90_us
    assert cpu.latency.runs == c.latency.runs >= timing.LEAST_RUNS


@pytest.mark.parametrize(
    ("options", "arithmetic"),
    [({"precision": "float32"}, "float32"), ({"float_layers": ("y",)}, "int8 and float32")],
)
def test_float_layers_are_benched(tmp_path: Path, options: dict[str, Any], arithmetic: str) -> None:
    given = {"inputs": data()} | ({} if "precision" in options else {"calibration": data()})
    benched = tinyc.bench(classifier(tmp_path), "host", seconds=0.05, **given, **options)
    (model,) = benched.models
    c, cpu = model.references
    assert benched.passed
    assert (c.arithmetic, c.parity.sqnr_db) == (arithmetic, None)
    assert cpu.parity.agreement is not None
    least_db = 120 if arithmetic == "float32" else 25
    assert cpu.parity.sqnr_db is None or cpu.parity.sqnr_db > least_db


def test_gpu_runs_or_says_why_not(report: tinyc.BenchReport) -> None:
    (model,) = report.models
    ran = [run for run in model.references if run.kind == "gpu"]
    assert len(ran) + len(model.missing) == 1
    if model.missing:
        assert model.missing[0].kind == "gpu"
        for runtime in ("onnxruntime", "torch", "jax"):
            assert runtime in model.missing[0].reason.lower()


def test_json_and_csv(report: tinyc.BenchReport) -> None:
    parsed = json.loads(json.dumps(report.to_json(), allow_nan=False))
    assert parsed["schema"] == 1
    assert parsed["models"][0]["boards"][0]["board"] == "host"
    lines = list(csv.DictReader(io.StringIO(report.to_csv())))
    assert [line["where"] for line in lines][:3] == ["host", "c", "cpu"]
    assert lines[0]["mismatches"] == "0"
    assert lines[0]["median_us"] == ""
    assert float(lines[2]["median_us"]) > 0


def test_what_a_compiler_is_told_is_said_of_each_board(tmp_path: Path) -> None:
    """A limit of flash may ask for small code, whatever is preferred; the report said what is preferred."""
    np.savez(tmp_path / "tiny.calib.npz", x=data()["x"])
    model = classifier(tmp_path)
    said = []
    for flash in (1500, 850):
        options = BenchOptions(("cortex-m4",), (), Options(board="", flash=flash, samples=2), 0.01)
        (board,) = run_bench([model], options, Progress()).models[0].boards
        said.append(board.optimize)
    assert said == ["speed", "size"]


def test_nothing_to_measure() -> None:
    with pytest.raises(TinycError, match="nothing to measure"):
        tinyc.bench([])


@pytest.mark.parametrize("batch", ["n", 1])
def test_batches_need_an_open_dimension(tmp_path: Path, batch: int | str) -> None:
    runner = cpu_runner(classifier(tmp_path, batch), threads=1)
    x = [np.ones((1, 6), np.float32)]
    assert runner.batch(x, 1) is not None
    assert (runner.batch(x, 4) is not None) == (batch == "n")


@pytest.mark.frameworks
@pytest.mark.parametrize("kind", ["pytorch", "jax"])
def test_gpu_runtimes_agree_with_onnxruntime(tmp_path: Path, kind: str) -> None:
    """On the CPU, where they are installed: the same code but for the device."""
    packages = {"pytorch": ("torch", "onnx2torch"), "jax": ("jax", "jaxonnxruntime")}[kind]
    if not all(importlib.util.find_spec(package) for package in packages):
        pytest.skip(f"{' and '.join(packages)} are not installed")
    model, x = classifier(tmp_path), [data(1)["x"]]
    runner: Runtime = getattr(references, kind)(model, "cpu")
    np.testing.assert_allclose(runner.infer(x)[0], cpu_runner(model, 1).infer(x)[0], rtol=1e-5, atol=1e-6)
    assert runner.batch(x, 4) is not None
    assert runner.kind == "cpu"


def test_missing_and_broken_packages_are_reasons(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    model = classifier(tmp_path)
    (tmp_path / "torch.py").write_text("raise RuntimeError('does not fit this computer')")
    monkeypatch.syspath_prepend(str(tmp_path))
    for name in [name for name in sys.modules if name.split(".")[0] == "torch"]:
        monkeypatch.delitem(sys.modules, name)
    with pytest.raises(UnavailableError, match="torch cannot be imported: does not fit this computer"):
        references.pytorch(model, "cuda")
    with pytest.raises(UnavailableError, match=r"\.tflite model runs on the CPU only"):
        gpu_runner(tmp_path / "model.tflite")


def test_generated_c_is_timed_on_the_given_sample(tmp_path: Path) -> None:
    library = tinyc.build(classifier(tmp_path), "host", calibration=data(), out=tmp_path / "out").load()
    runner = generated_c(library, "cc", "int8")
    x = [np.array([[1, -2, 3, -4, 5, -6]], np.int8)]
    np.testing.assert_array_equal(runner.infer(x)[0], library(x[0][0]))
    once = runner.once(x)
    once()
    assert runner.batch(x, 1) is not None
    assert runner.batch(x, 2) is None


def test_turns_are_taken() -> None:
    order: list[str] = []
    times = timing.interleaved([lambda: order.append("a"), lambda: order.append("b")], 0.0)
    assert [len(part) for part in times] == [timing.LEAST_RUNS] * 2
    rounds = order[2 * timing.WARM_UP_RUNS :]
    assert rounds == ["a", "b", "b", "a"] * (timing.LEAST_RUNS // 2)


def test_latency_and_ratio() -> None:
    taken = np.array([1000, 2000, 3000, 4000, 101_000])
    latency = timing.latency(taken)
    assert (latency.median_us, latency.p90_us, latency.runs) == (3.0, 62.2, 5)
    assert timing.ratio(taken, taken * 2) == 0.5


def test_throughput_stops_where_batches_end() -> None:
    asked = []

    def batch_of(size: int):
        asked.append(size)
        return None if size > 4 else lambda: None

    rate, best = timing.throughput(batch_of)
    assert rate > 0
    assert best in (1, 4)
    assert asked == [1, 4, 16]


def outputs(*rows: list[int]) -> list[list[np.ndarray]]:
    return [[np.array([row], np.int8)] for row in rows]


def integer_graph() -> Graph:
    return Graph("g", (), ("y",), (), {"y": Value("y", (1, 3), "s8", Quant((0.5,), (10,)))}, {})


def test_parity_of_integers() -> None:
    ours = outputs([10, 20, 30], [40, 10, 10])
    theirs = outputs([10, 20, 30], [10, 41, 10])
    figures = parity(theirs, ours, integer_graph(), np.array([2, 0]))
    assert (figures.different, figures.agreement) == (2, 0.5)
    assert (figures.top1_reference, figures.top1_board) == (0.5, 1.0)
    signal = (5**2 + 10**2) + 15.5**2
    assert figures.sqnr_db == round(10 * np.log10(signal / (15**2 + 15.5**2)), 2)


def test_parity_of_reals() -> None:
    exact = [[np.array([[0.0, 5.0, 10.0]], np.float32)]]
    figures = parity(exact, outputs([10, 20, 30]), integer_graph(), None)
    assert (figures.different, figures.sqnr_db, figures.agreement, figures.top1_board) == (None, None, 1.0, None)


def write_report(path: Path, **changes: float | None) -> Path:
    board = {"board": "m4", "instructions": 1000, "arena_bytes": 100, "mismatches": 0, "cycles": None}
    run = {"name": "CPU", "parity": {"agreement": 0.99, "sqnr_db": 30.0}, "latency": {"median_us": 50.0}}
    for key, value in changes.items():
        for place in (board, run["parity"], run["latency"]):
            if key in place:
                place[key] = value
    path.write_text(json.dumps({"schema": 1, "models": [{"model": "m", "boards": [board], "references": [run]}]}))
    return path


@pytest.mark.parametrize(
    ("changes", "worse"),
    [
        ({}, []),
        ({"instructions": 1009}, []),
        ({"instructions": 1011}, ["instructions"]),
        ({"instructions": 500}, []),
        ({"arena_bytes": 200, "agreement": 0.975}, ["arena_bytes", "agreement"]),
        ({"agreement": 0.985}, []),
        ({"sqnr_db": 29.6}, ["sqnr_db"]),
        ({"sqnr_db": 29.8}, []),
        ({"mismatches": 1}, ["mismatches"]),
        ({"instructions": None}, ["instructions"]),
        ({"cycles": 7}, []),
        ({"median_us": 500.0}, []),
        ({"median_us": None}, []),
    ],
)
def test_what_is_worse(tmp_path: Path, changes: dict, worse: list[str]) -> None:
    old, new = write_report(tmp_path / "old.json"), write_report(tmp_path / "new.json", **changes)
    changes_seen = compare_files(old, new, threshold=0.01)
    assert [change.figure for change in changes_seen if change.worse] == worse
    assert {change.figure for change in changes_seen} == set(changes)


def test_latencies_count_when_asked_for(tmp_path: Path) -> None:
    old, new = write_report(tmp_path / "old.json"), write_report(tmp_path / "new.json", median_us=70.0)
    (change,) = compare_files(old, new, latency_threshold=0.3)
    assert change.worse
    (change,) = compare_files(old, new, latency_threshold=0.5)
    assert not change.worse
    assert change.relative == pytest.approx(0.4)


@pytest.mark.parametrize("text", ["", "[]", "{}", '{"schema": 2, "models": []}', '{"schema": 1, "models": 3}'])
def test_no_report(tmp_path: Path, text: str) -> None:
    good = write_report(tmp_path / "good.json")
    bad = tmp_path / "bad.json"
    bad.write_text(text)
    with pytest.raises(TinycError, match=r"no JSON|no benchmark report") as error:
        compare_files(good, bad)
    assert "bad.json" in str(error.value)
    with pytest.raises(TinycError, match="cannot read"):
        compare_files(tmp_path / "absent.json", good)


def command(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], *args: object) -> tuple[int, str, str]:
    monkeypatch.setattr(sys, "argv", ["tinyc", "bench", *map(str, args)])
    with pytest.raises(SystemExit) as leave:
        main()
    captured = capsys.readouterr()
    return int(leave.value.code or 0), captured.out, captured.err


def test_command_line(tmp_path: Path, monkeypatch, capsys) -> None:
    np.savez(tmp_path / "tiny.calib.npz", x=data()["x"])
    model, options = classifier(tmp_path), ("--board", "host", "--seconds", "0.05")
    code, out, _ = command(monkeypatch, capsys, model, *options)
    assert code == 0
    assert "generated C" in out
    assert "onnxruntime CPU" in out
    code, out, _ = command(monkeypatch, capsys, model, *options, "--reference", "none", "--json")
    assert code == 0
    assert [run["kind"] for run in json.loads(out)["models"][0]["references"]] == ["c"]
    code, out, _ = command(monkeypatch, capsys, model, *options, "--csv")
    assert code == 0
    assert out.splitlines()[0].startswith("model,where,device")


def test_compare_command(tmp_path: Path, monkeypatch, capsys) -> None:
    old, new = write_report(tmp_path / "old.json"), write_report(tmp_path / "new.json", instructions=1100)
    code, out, _ = command(monkeypatch, capsys, "--compare", old, new)
    assert code == 1
    assert "WORSE" in out
    assert "+10.0%" in out
    assert command(monkeypatch, capsys, "--compare", old, new, "--threshold", "0.2")[0] == 0
    code, out, _ = command(monkeypatch, capsys, "--compare", old, new, "--json")
    assert code == 1
    assert json.loads(out)["worse"] == 1


@pytest.mark.parametrize(
    ("args", "message"),
    [
        (["m.onnx", "--reference", "tpu"], "no reference 'tpu'"),
        (["m.onnx", "--json", "--csv"], "exclude each other"),
        (["m.onnx", "--compare", "a.json", "b.json"], "takes no models"),
        ([], "nothing to measure"),
        (["absent.onnx"], "absent.onnx"),
    ],
)
def test_bad_words(monkeypatch, capsys, args: list[str], message: str) -> None:
    code, out, err = command(monkeypatch, capsys, *args)
    assert code == 2
    assert message in err + out
