# SPDX-License-Identifier: Apache-2.0
"""The Python API: build, verify, inspect and load, on small ONNX models and the host."""

from __future__ import annotations

import ast
import ctypes
import re
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from dataclasses import fields, replace
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

import tinyc
from tinyc.api import BenchedOptions, BuildOptions, TimingOptions
from tinyc.bench import BenchOptions
from tinyc.board import load_board
from tinyc.cli.app import load_command
from tinyc.options.build import Options
from tinyc.options.option import keyword_of
from tinyc.options.recipe import Pictures, Recipe
from tinyc.pipeline.compiling import Compiled, compile_model
from tinyc.pipeline.progress import Progress
from tinyc.reference.interpreter import run_int
from tinyc.run.native import Port

SHAPE = (5, 7, 3)  # a sample, channels last
COUNT = 9


def weights(name: str, *shape: int) -> onnx.TensorProto:
    rng = np.random.default_rng(sum(name.encode()))
    return numpy_helper.from_array(rng.normal(0, 0.5, shape).astype(np.float32), name)


def save(path: Path, nodes: list[onnx.NodeProto], inputs: dict, outputs: dict, constants: list) -> Path:
    infos = [
        [helper.make_tensor_value_info(name, TensorProto.FLOAT, shape) for name, shape in ports.items()]
        for ports in (inputs, outputs)
    ]
    graph = helper.make_graph(nodes, path.stem, *infos, constants)
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), path)
    return path


def classifier(folder: Path, name: str = "tiny") -> Path:
    """conv -> relu -> two 1x1 convs, which a board runs in place -> global mean -> dense."""
    nodes = [
        helper.make_node("Conv", ["x", "w", "b"], ["c"], pads=[1, 1, 1, 1]),
        helper.make_node("Relu", ["c"], ["r"]),
        helper.make_node("Conv", ["r", "p"], ["s"]),
        helper.make_node("Conv", ["s", "q"], ["t"]),
        helper.make_node("GlobalAveragePool", ["t"], ["m"]),
        helper.make_node("Flatten", ["m"], ["f"]),
        helper.make_node("Gemm", ["f", "d", "e"], ["y"], transB=1),
    ]
    shapes = {"w": (12, 3, 3, 3), "b": (12,), "p": (24, 12, 1, 1), "q": (24, 24, 1, 1), "d": (4, 24), "e": (4,)}
    constants = [weights(name, *shape) for name, shape in shapes.items()]
    return save(folder / f"{name}.onnx", nodes, {"x": (1, 3, 5, 7)}, {"y": (1, 4)}, constants)


def two_by_two(folder: Path) -> Path:
    """(a + b, sigmoid(a))."""
    nodes = [helper.make_node("Add", ["a", "b"], ["sum"]), helper.make_node("Sigmoid", ["a"], ["s"])]
    return save(folder / "pair.onnx", nodes, {"a": (1, 9), "b": (1, 9)}, {"sum": (1, 9), "s": (1, 9)}, [])


def images(count: int = COUNT) -> np.ndarray:
    return np.random.default_rng(5).normal(0, 1, (count, 3, 5, 7)).astype(np.float32)


def integers(count: int = COUNT) -> np.ndarray:
    """As the library takes them, with extremes."""
    x = np.random.default_rng(6).integers(-128, 128, (count, *SHAPE)).astype(np.int8)
    x[0], x[1] = -128, 127
    return x


def compiled(model: Path, board: str) -> Compiled:
    calibration = model.with_name("calibration.npz")
    np.savez(calibration, x=images())
    return compile_model(model, load_board(board), Options(board, calibration=calibration), Progress())


def write(compiled_model: Compiled, folder: Path) -> Path:
    folder.mkdir()
    for name, text in compiled_model.files.items():
        (folder / name).write_text(text)
    return folder


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> tinyc.Built:
    folder = tmp_path_factory.mktemp("api")
    return tinyc.build(classifier(folder), "host", calibration=images(), out=folder / "out")


@pytest.fixture(scope="module")
def library(built: tinyc.Built) -> tinyc.Library:
    return built.load()


def python(code: str) -> None:
    subprocess.run([sys.executable, "-c", code], check=True, timeout=120)


def test_importing_is_cheap() -> None:
    python("import sys, tinyc; assert not {'numpy', 'onnx', 'typer'} & sys.modules.keys()")


@pytest.mark.quick_cases(1)
@pytest.mark.parametrize("first", ["tinyc.api", "tinyc.toolchain.compile", "tinyc.load.tflite", "tinyc.verify.compare"])
def test_functions_win_over_packages_of_the_same_name(first: str) -> None:
    python(f"import {first}, types, tinyc\nfor f in (tinyc.build, tinyc.load, tinyc.verify): assert callable(f), f")


def test_unknown_name() -> None:
    with pytest.raises(AttributeError, match="nothing"):
        _ = tinyc.nothing  # type: ignore[attr-defined]


def test_build_proves_and_reports(built: tinyc.Built) -> None:
    assert built.report.passed
    assert built.report.verify.inputs == COUNT
    assert built.report.calibration is not None
    assert built.report.calibration.proven
    assert (built.folder / "report.json").is_file()


def test_without_calibration_is_warned_of(tmp_path: Path) -> None:
    with pytest.warns(tinyc.TinycWarning, match="accuracy is unproven") as warned:
        tinyc.verify(classifier(tmp_path), "host", samples=1)
    assert warned[0].filename == __file__


def test_options_are_those_of_the_pipeline() -> None:
    """By the names of the command line, but for `--no-proof`."""
    keywords = {keyword_of(field) for kind in (Options, Recipe, Pictures) for field in fields(kind)}
    assert BuildOptions.__annotations__.keys() - {"example"} <= keywords
    assert BenchedOptions.__annotations__.keys() <= keywords
    of_build = {each.name for each in load_command("build").params if each.param_type_name == "option"}
    own = {"out", "package", "page", "save", "form", "json", "verbose", "color", "harness", "task", "baud"}
    arguments = {"board", "calibration", "inputs", "state_init"}  # of the function itself
    assert of_build - own - arguments - {"no_proof"} <= BuildOptions.__annotations__.keys()
    own = TimingOptions.__annotations__.keys() - BenchedOptions.__annotations__.keys()
    assert own <= {field.name for field in fields(BenchOptions)}


def test_an_option_that_there_is_not(tmp_path: Path) -> None:
    for function in (tinyc.build, tinyc.verify, tinyc.bench, tinyc.estimate):
        with pytest.raises(TypeError, match=r"there is no option 'bord'; did you mean board\?"):
            function(tmp_path / "model.onnx", bord="host")
        with pytest.raises(TypeError, match=r"there is no option 'task'; there are .*prefer"):
            function(tmp_path / "model.onnx", "host", task="kws01")
    with pytest.raises(tinyc.TinycError, match="--ram: '64K' is a str") as raised:
        tinyc.estimate(tmp_path / "model.onnx", ram="64K")
    assert raised.value.hint == "give a number of bytes, as 64 * 1024"
    with pytest.raises(tinyc.TinycError, match="is a ndarray") as raised:
        tinyc.estimate(tmp_path / "model.onnx", np.zeros((99, 99)))
    assert len(raised.value.message) < 80


def test_options_of_quantizing_are_keywords_too(tmp_path: Path) -> None:
    model = classifier(tmp_path)
    x = np.random.default_rng(5).normal(0, 1, (40, 3, 5, 7)).astype(np.float32)
    words = {"calibration_method": "minmax", "equalize": False, "augment": False}
    plain = tinyc.build(model, "host", out=tmp_path / "a", calibration=x, weights="int4", **words)
    recipe = tinyc.Recipe("minmax", equalize=False, augment=False)
    both = tinyc.build(model, "host", out=tmp_path / "b", calibration=x, recipe=recipe, weights="int4")
    assert "int4" in plain.report.accuracy.integers
    assert replace(both.report.accuracy, source="") == replace(plain.report.accuracy, source="")
    with pytest.raises(TypeError, match="did you mean calibration_method"):
        tinyc.build(model, "host", calibration_metod="minmax")


def test_limits_of_accuracy_are_those_of_the_command_line(tmp_path: Path) -> None:
    model = classifier(tmp_path)
    x = np.random.default_rng(6).normal(0, 1, (40, 3, 5, 7)).astype(np.float32)
    fast = {"calibration": x, "effort": "fast", "out": tmp_path / "out"}
    built = tinyc.build(model, "host", **fast, min_agreement=10, min_sqnr=1)
    for limit in ({"min_sqnr": 200.0}, {"min_agreement": 100, "min_sqnr": 190.0}):
        with pytest.raises(tinyc.TinycError, match=r"too inaccurate: .*SQNR") as raised:
            tinyc.build(model, "host", **fast, **limit)
        assert raised.value.exit_code == 1
    with pytest.raises(tinyc.TinycError, match="--min-top1 50: top-1 of this model is not known"):
        tinyc.verify(model, "host", calibration=x, effort="fast", min_top1=50)
    tinyc.verify(model, "host", calibration=x, effort="fast", baseline=built.folder)


def test_plan_is_that_of_the_build(tmp_path: Path) -> None:
    model = classifier(tmp_path)
    fast = tinyc.Recipe("minmax", equalize=False, rounding="nearest", augment=False)
    options = {"prefer": "time", "recipe": fast}
    memory, estimated = tinyc.memory_map(model, "host", **options), tinyc.estimate(model, "host", **options)
    assert memory.arena_bytes == estimated.arena_bytes >= memory.lower_bound_bytes > 0
    assert {tenant.name for tenant in memory.at(0)} >= {"x"}
    assert tinyc.memory_map(onnx.load(model), "host", **options) == memory


def test_quantize_measures_and_saves(tmp_path: Path) -> None:
    model = classifier(tmp_path)
    x = np.random.default_rng(3).normal(0, 1, (40, 3, 5, 7)).astype(np.float32)
    fast = tinyc.Recipe("minmax", equalize=False, rounding="nearest", augment=False)
    report = tinyc.quantize(model, out=tmp_path / "q.tflite", calibration=x, evaluate={"x": x[:8]}, recipe=fast)
    assert report.diagnosis.samples == 8
    assert report.diagnosis.sqnr_db > 20
    assert (report.method, report.learned) == ("minmax", False)
    assert tinyc.inspect(tmp_path / "q.tflite").inputs


def test_inspect(tmp_path: Path) -> None:
    inspected = tinyc.inspect(str(classifier(tmp_path)))
    assert inspected.macs > 0
    assert not inspected.problems


@pytest.mark.parametrize("board", ["host", "cortex-m4", "cortex-m0plus"])
def test_same_integers_as_the_reference(tmp_path: Path, board: str) -> None:
    compiled_model = compiled(classifier(tmp_path), board)
    library = tinyc.load(write(compiled_model, tmp_path / "lib"))
    x = integers()
    (name,) = compiled_model.graph.inputs
    reference = [
        run_int(compiled_model.graph, {name: one[np.newaxis]}, compiled_model.program.numerics)["y"][0] for one in x
    ]
    np.testing.assert_array_equal(library(x), reference)


def test_sample_and_batch(library: tinyc.Library) -> None:
    x = integers()
    batch = library(x)
    assert batch.shape == (COUNT, 4)
    assert batch.dtype == np.int8
    np.testing.assert_array_equal(library(x[3]), batch[3])
    np.testing.assert_array_equal(library(x.astype(np.int64)), batch)
    assert library(x[:0]).shape == (0, 4)


def test_reals_in_reals_out(library: tinyc.Library) -> None:
    (x_port,), (y_port,) = library.inputs, library.outputs
    x = np.random.default_rng(7).normal(0, 2, SHAPE)
    raw = library(x_port.quantize(x))
    np.testing.assert_array_equal(library(x), y_port.dequantize(raw))
    np.testing.assert_array_equal(library(x, real=False), raw)
    np.testing.assert_array_equal(library(x_port.quantize(x), real=True), y_port.dequantize(raw))
    assert library(x).dtype == np.float32


def test_quantization_is_that_of_the_c_helpers(built: tinyc.Built, library: tinyc.Library, tmp_path: Path) -> None:
    """Halves, huge values and everything between, through the inline functions of the header."""
    (x_port,), (y_port,) = library.inputs, library.outputs
    assert x_port.scale is not None
    steps = np.arange(-300, 300, 0.25)
    x = np.concatenate([steps * x_port.scale, np.linspace(-9, 9, 999), [1e30, -np.inf, np.nan]]).astype(np.float32)
    (tmp_path / "helpers.c").write_text(
        '#include "tiny.h"\n'
        "void quantize(const float *x, int8_t *q, int n)\n"
        "{ for (int i = 0; i < n; i++) q[i] = tiny_quantize_input_0(x[i]); }\n"
        "void dequantize(const int8_t *q, float *y, int n)\n"
        "{ for (int i = 0; i < n; i++) y[i] = tiny_dequantize_output_0(q[i]); }\n"
    )
    shared = tmp_path / "helpers.so"
    command = ["gcc", "-std=c99", "-O1", "-fPIC", "-shared", f"-I{built.folder}", "helpers.c", "-o", str(shared)]
    subprocess.run(command, cwd=tmp_path, check=True)
    helpers = ctypes.CDLL(str(shared))
    q = np.empty(x.shape, np.int8)
    helpers.quantize(ctypes.c_void_p(x.ctypes.data), ctypes.c_void_p(q.ctypes.data), len(x))
    np.testing.assert_array_equal(x_port.quantize(x), q)
    every = np.arange(-128, 128).astype(np.int8)
    reals = np.empty(every.shape, np.float32)
    helpers.dequantize(ctypes.c_void_p(every.ctypes.data), ctypes.c_void_p(reals.ctypes.data), len(every))
    np.testing.assert_array_equal(y_port.dequantize(every), reals)


def test_threads_have_arenas_of_their_own(library: tinyc.Library) -> None:
    x = integers(64)
    reference = library(x)
    with ThreadPoolExecutor(8) as pool:
        got = list(pool.map(library, [x[i % 64] for i in range(256)]))
    np.testing.assert_array_equal(got, reference[np.arange(256) % 64])


def test_two_models_at_once(tmp_path: Path, library: tinyc.Library) -> None:
    other = tinyc.load(write(compiled(classifier(tmp_path, "other"), "host"), tmp_path / "lib"))
    assert (library.name, other.name) == ("tiny", "other")
    x = integers()
    np.testing.assert_array_equal(library(x), other(x))


def test_several_inputs_and_outputs(tmp_path: Path) -> None:
    rng = np.random.default_rng(8)
    data = {name: rng.normal(0, 1, (20, 9)).astype(np.float32) for name in ("a", "b")}
    pair = tinyc.build(two_by_two(tmp_path), "host", calibration=data, out=tmp_path / "out").load()
    assert [port.name for port in pair.inputs] == ["a", "b"]
    total, gate = pair.run(data["a"], data["b"])
    assert np.abs(total - data["a"] - data["b"]).max() < 0.05
    assert np.abs(gate - 1 / (1 + np.exp(-data["a"]))).max() < 0.01
    with pytest.raises(tinyc.TinycError, match="2 outputs"):
        pair(data["a"], data["b"])
    with pytest.raises(tinyc.TinycError, match="different numbers"):
        pair.run(data["a"], data["b"][:3])


def test_verify_against_given_outputs(tmp_path: Path) -> None:
    model, x = classifier(tmp_path), images()
    compiled_model = compiled(model, "host")
    library = tinyc.load(write(compiled_model, tmp_path / "lib"))
    y = library(np.moveaxis(x, 1, -1), real=False)
    assert tinyc.verify(model, "host", inputs=x, calibration=x, expect=y).passed
    y[2, 1] ^= 1
    report = tinyc.verify(model, "host", inputs=x, calibration=x, expect=y)
    assert report.verify.mismatches == 1
    assert report.verify.against == "the given outputs"


@pytest.mark.parametrize(
    ("bad", "message"),
    [
        (np.zeros((1, 3, 5, 7), np.int8), "expected int8 or reals of shape"),
        (np.zeros((7, 5, 3), np.int8), "expected int8 or reals of shape"),
        (np.full(SHAPE, 128), "outside int8"),
        (np.full(SHAPE, np.nan), "not finite"),
        (np.full(SHAPE, "1"), "array of <U1"),
    ],
)
def test_bad_arrays(library: tinyc.Library, bad: np.ndarray, message: str) -> None:
    with pytest.raises(tinyc.TinycError, match=message):
        library(bad)


@pytest.mark.parametrize("batch", [None, 1, 4])
def test_other_order_of_axes(library: tinyc.Library, batch: int | None) -> None:
    """The hint for an array in the model's order gives what the library takes."""
    channels_first = np.zeros((*([] if batch is None else [batch]), SHAPE[-1], *SHAPE[:-1]), np.int8)
    with pytest.raises(tinyc.TinycError) as raised:
        library(channels_first)
    order = re.search(r"numpy.transpose\(x, (\(.*?\))\)", raised.value.hint)
    assert order is not None
    assert library.inputs[0].axes == (0, 2, 3, 1)
    library(np.transpose(channels_first, ast.literal_eval(order[1])))


def test_bad_calls(library: tinyc.Library, tmp_path: Path) -> None:
    with pytest.raises(tinyc.TinycError, match="takes 1 inputs, found 2"):
        library(integers(), integers())
    with pytest.raises(tinyc.TinycError, match="no library"):
        tinyc.load(tmp_path)
    with pytest.raises(tinyc.TinycError, match="there are: "):
        tinyc.verify(classifier(tmp_path), numerics="exact")  # type: ignore[arg-type]
    with pytest.raises(tinyc.TinycError, match="has no quantization"):
        Port("x", (1, 2), np.dtype(np.float32), None, 0).quantize([0.0, 1.0])


@pytest.mark.parametrize("words", [{"prefer": "fast"}, {"numerics": "exact"}, {"board": "cortex-m44"}])
def test_unknown_words_are_answered_with_the_known_ones(tmp_path: Path, words: dict[str, str]) -> None:
    with pytest.raises(tinyc.TinycError, match=next(iter(words.values()))) as raised:
        tinyc.build(tmp_path / "any.onnx", **{"board": "host", **words})
    assert ": " in raised.value.hint


@pytest.mark.parametrize("words", [{"method": "max"}, {"rounding": "up"}, {"weights": "int5"}, {"activations": "int7"}])
def test_a_recipe_knows_its_words(words: dict[str, str]) -> None:
    with pytest.raises(tinyc.TinycError, match=next(iter(words.values()))):
        tinyc.Recipe(**words)


def test_an_arena_that_is_none_or_not_aligned_is_refused(library: tinyc.Library) -> None:
    """Nothing is read or written there."""
    arena, align = library._arena(), library._align
    assert align >= 4
    assert library._run(ctypes.c_void_p(arena.ctypes.data)) == 0
    before = arena.copy()
    for wrong in (None, *(arena.ctypes.data + k for k in range(1, align))):
        assert library._run(ctypes.c_void_p(wrong)) == 1
    np.testing.assert_array_equal(arena, before)
