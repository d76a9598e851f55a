# SPDX-License-Identifier: Apache-2.0
"""Outputs that hold several quantities get a scale for each, where the layers before them can be divided."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest

import tinyc as api
from tests.cli.test_cli import Ran, tinyc  # noqa: F401  a fixture
from tests.load.onnx_models import build, load, op, rand
from tests.unit.networks import Network
from tests.unit.test_quantize_outputs import samples, two_targets
from tinyc.emit.columns import COLUMNS
from tinyc.explain.diagnosis import integer_results
from tinyc.ir.check import check
from tinyc.ir.graph import Array, Graph
from tinyc.ops import all_ops
from tinyc.options.recipe import Recipe
from tinyc.passes import normalize
from tinyc.quantize import Calibration, output_units, quantize
from tinyc.quantize.output_units import shared, units_of, with_units
from tinyc.quantize.score import quantities_db
from tinyc.quantize.simulate import Batch

WARNINGS = ("-std=c99", "-Wall", "-Wextra", "-Wpedantic", "-Wconversion", "-Werror")
PLAIN = Recipe("minmax", equalize=False, rounding="nearest", augment=False)
GRID = 6
LARGE, SMALL = 320.0, 1.0


def pictures(count: int = 40, seed: int = 2) -> Array:
    return rand(seed, count, 1, 3, GRID, GRID)


def head(kind: str) -> onnx.ModelProto:
    """Heads of detectors: boxes in hundreds of pixels, and scores."""
    boxes, scores = rand(1, 4, 5, 1, 1) * np.float32(LARGE), rand(2, 3, 5, 1, 1) * np.float32(SMALL)
    consts = {"w": rand(3, 5, 3, 1, 1), "v": boxes, "s": scores}
    nodes = [op("Conv", "x w", "h"), op("Relu", "h", "r")]
    if kind == "one convolution":
        joined = np.concatenate([boxes, scores])
        return build([*nodes, op("Conv", "r v", "y")], {"x": [1, 3, GRID, GRID]}, ["y"], {**consts, "v": joined})
    nodes += [op("Conv", "r v", "b"), op("Conv", "r s", "z")]
    if kind == "decoded":
        consts |= {
            "grid": np.arange(GRID, dtype=np.float32).reshape(1, 1, 1, GRID),
            "stride": np.array([32.0], np.float32),
        }
        nodes += [op("Add", "b grid", "g"), op("Mul", "g stride", "d"), op("Sigmoid", "z", "p")]
        last = "d p"
    elif kind == "raw":
        last = "b z"
    else:  # flat, channels in front
        nodes += [op("Sigmoid", "z", "p")]
        last = "b p"
    nodes.append(op("Concat", last, "c", axis=1))
    shape = np.array([1, 7, GRID * GRID] if kind != "places first" else [1, GRID * GRID, 7])
    if kind == "places first":
        nodes.append(op("Transpose", "c", "t", perm=[0, 2, 3, 1]))
        return build(
            [*nodes, op("Reshape", "t shape", "y")], {"x": [1, 3, GRID, GRID]}, ["y"], {**consts, "shape": shape}
        )
    return build([*nodes, op("Reshape", "c shape", "y")], {"x": [1, 3, GRID, GRID]}, ["y"], {**consts, "shape": shape})


HEADS = ("one convolution", "raw", "decoded", "channels first", "places first")


def graph_of(model: onnx.ModelProto, folder: Path) -> Graph:
    return normalize(load(model, folder))


def data_of(x: Array) -> Calibration:
    return Calibration({"x": x}, "test", proven=True)


def least_db(graph: Graph, integer: Graph, x: Array, axis: int) -> float:
    """The worst quantity's SQNR of its variation."""
    quant = integer.values["y"].quant
    assert quant is not None
    reals, dequantized = Batch(graph).run({"x": x})["y"], quant.dequantize(integer_results(integer, {"x": x})["y"])
    centre = reals.mean(axis=0)
    return min(quantities_db(reals - centre, dequantized - centre, axis).values())


@pytest.mark.parametrize("kind", HEADS)
def test_a_head_has_a_scale_for_each_quantity(kind: str, tmp_path: Path) -> None:
    graph, x = graph_of(head(kind), tmp_path), pictures()
    x = x.reshape(-1, *graph.values["x"].shape)
    divided = with_units(graph, data_of(x))
    check(divided, "units", all_ops())
    ((name, factors, axis),) = units_of(divided)
    assert name == "y"
    assert len(factors) == 7 == graph.values["y"].shape[axis]
    assert min(factors[:4]) > 30 * max(factors[4:])
    reals, same = (Batch(each).run({"x": x})["y"] for each in (graph, divided))
    assert min(quantities_db(reals, same, axis).values()) > 90
    one, each = (quantize(graph, data_of(x), replace(PLAIN, output_scales=s)).graph for s in ("one", "auto"))
    before, now = (least_db(graph, graph_of_ints, x, axis) for graph_of_ints in (one, each))
    assert before < 12
    assert now > 25


def test_two_targets(tmp_path: Path) -> None:
    graph = graph_of(two_targets(), tmp_path)
    one, each = (quantize(graph, data_of(samples()), replace(PLAIN, output_scales=s)).graph for s in ("one", "auto"))
    assert least_db(graph, one, samples(), -1) + 10 < least_db(graph, each, samples(), -1)
    assert [node.op for node in each.nodes] == [*(node.op for node in one.nodes), "units"]


def test_what_is_alike_keeps_one_scale(tmp_path: Path) -> None:
    v = rand(2, 9, 2) * np.array([9, 1], np.float32)  # scores of classes are compared as they are
    nodes = [op("Gemm", "x w", "h"), op("Relu", "h", "r"), op("Gemm", "r v", "y")]
    graph = graph_of(build(nodes, {"x": [1, 12]}, ["y"], {"w": rand(1, 12, 9), "v": v}), tmp_path)
    assert with_units(graph, data_of(samples())) is graph
    softmax = graph_of(two_targets("Softmax"), tmp_path)
    assert with_units(softmax, data_of(samples())) is softmax


def test_quantities_of_like_size_share_a_scale() -> None:
    assert shared(np.array([1.0, 100.0, 30.0, 0.3, 0.0, 20.0]), 4.0).tolist() == [1.0, 100.0, 100.0, 1.0, 100.0, 20.0]


@pytest.mark.parametrize("ending", ["read inside", "clipped", "wide"])
def test_where_it_cannot_be_the_model_stays(ending: str, tmp_path: Path) -> None:
    nodes = [op("Gemm", "x w", "h"), op("Relu", "h", "r")]
    consts = {"w": rand(1, 12, 9), "v": rand(2, 9, 2) * np.array([50, 1], np.float32)}
    outputs = ["y"]
    if ending == "read inside":
        nodes += [op("Gemm", "r v", "y"), op("Gemm", "y u", "z")]
        consts["u"], outputs = rand(3, 2, 3), ["y", "z"]
    elif ending == "clipped":
        nodes += [op("Gemm", "r v", "l"), op("Clip", "l lo hi", "y")]
        consts |= {"lo": np.float32(-20), "hi": np.float32(20)}
    else:
        nodes += [op("Gemm", "r v", "y")]
    graph = graph_of(build(nodes, {"x": [1, 12]}, outputs, consts), tmp_path)
    recipe = replace(PLAIN, activations="int16") if ending == "wide" else PLAIN
    quant = quantize(graph, data_of(samples()), recipe).graph.values["y"].quant
    assert quant is not None
    assert quant.axis is None


def many_targets() -> onnx.ModelProto:
    """A regression of 23 targets: their scales fill several lines of a header."""
    sizes = np.float32(30) ** (-np.arange(23) % 4).astype(np.float32)
    return build([op("Gemm", "x w", "y")], {"x": [1, 4]}, ["y"], {"w": rand(1, 4, 23) * sizes})


@pytest.fixture(scope="module")
def saved(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("heads")
    for name, kind in (("channels", "channels first"), ("maps", "one convolution")):
        onnx.save(head(kind), folder / f"{name}.onnx")
        np.savez(folder / f"{name}.calib.npz", x=pictures()[:, 0])
    onnx.save(two_targets(), folder / "two.onnx")
    onnx.save(many_targets(), folder / "many.onnx")
    np.savez(folder / "many.calib.npz", x=rand(5, 40, 1, 4))
    np.savez(folder / "two.calib.npz", x=samples())
    return folder


@pytest.mark.parametrize("name", ["channels", "maps", "two", "many"])
def test_a_library_says_its_reals(name: str, saved: Path, tmp_path: Path, tinyc) -> None:  # noqa: F811
    """The C helper, the Python API and the reference agree; every compiler takes the header."""
    ran: Ran = tinyc("build", saved / f"{name}.onnx", "-b", "host", "-o", tmp_path, "--effort", "fast")
    assert ran.code == 0, ran.err
    header = (tmp_path / f"{name}.h").read_text()
    prefix = name.upper()
    assert f"#define {prefix}_OUTPUT_0_SCALES " in header
    assert f"#define {prefix}_OUTPUT_0_SCALE " not in header
    assert max(map(len, header.splitlines())) <= COLUMNS
    main = (
        f'#include <stdio.h>\n#include "{name}.h"\nint main(void)\n{{\n'
        f"    for (int32_t i = 0; i < {prefix}_OUTPUT_0_SIZE; i++) {{\n"
        f'        printf("%.9g\\n", (double){name}_dequantize_output_0((int8_t)(i % 251 - 125), i));\n    }}\n'
        "    return 0;\n}\n"
    )
    (tmp_path / "main.c").write_text(main)
    model = api.load(tmp_path)
    (port,) = model.outputs
    count = int(np.prod(port.shape))
    q = (np.arange(count) % 251 - 125).astype(np.int8).reshape(port.sample_shape)
    for compiler in filter(shutil.which, ("gcc", "clang")):
        command = [compiler, *WARNINGS, "main.c", f"{name}.c", "-o", "main"]
        subprocess.run(command, cwd=tmp_path, check=True)
        said = subprocess.run(["./main"], cwd=tmp_path, check=True, capture_output=True, text=True).stdout.split()
        np.testing.assert_array_equal(np.array(said, np.float32).reshape(port.sample_shape), port.dequantize(q))
    cross = shutil.which("arm-none-eabi-gcc")
    if cross is not None:
        subprocess.run(
            [cross, *WARNINGS, "-mcpu=cortex-m0plus", "-mthumb", "-c", f"{name}.c"], cwd=tmp_path, check=True
        )
    graph = normalize(load(onnx.load(saved / f"{name}.onnx"), tmp_path))
    x = np.load(saved / f"{name}.calib.npz")["x"]
    reals = Batch(graph).run({"x": x.reshape(-1, *graph.values["x"].shape)})["y"]
    given = x.reshape(-1, *graph.values["x"].shape)[:, 0] if x.ndim > 2 else x
    given = given.transpose(0, 2, 3, 1) if model.inputs[0].axes else given
    dequantized = model.run(given.reshape(-1, *model.inputs[0].sample_shape))[0].reshape(reals.shape)
    axis = -1 if name in ("two", "many") else -2 if name == "channels" else -3
    sizes = np.abs(np.moveaxis(reals, axis, 0)).reshape(reals.shape[axis], -1).max(axis=1)
    errors = np.abs(np.moveaxis(dequantized - reals, axis, 0)).reshape(reals.shape[axis], -1).max(axis=1)
    assert (errors < 0.08 * sizes).all()


def test_numbers_with_scales_of_their_own_are_no_classes(saved: Path, tmp_path: Path) -> None:
    """Neither `quantize` nor a build states how often the largest of them is the float model's."""
    path, data = saved / "two.onnx", saved / "two.calib.npz"
    apart, alike = (api.quantize(path, calibration=data, effort="fast", output_scales=way) for way in ("auto", "one"))
    assert apart.diagnosis.agreement is None
    assert alike.diagnosis.agreement is not None
    report = api.build(path, "host", out=tmp_path, calibration=data, inputs=data, effort="fast").report
    assert report.accuracy is not None
    assert report.accuracy.agreement is None


@pytest.mark.parametrize("prefer", ["balanced", "ram"])
def test_it_costs_no_instruction(prefer: str, saved: Path, tmp_path: Path, tinyc) -> None:  # noqa: F811
    counts = []
    for scales in ("one", "auto"):
        out = tmp_path / scales
        words = ["--prefer", prefer, "--output-scales", scales, "--effort", "fast", "--samples", "3"]
        ran: Ran = tinyc("build", saved / "maps.onnx", "-b", "cortex-m4", "-o", out, *words)
        assert ran.code == 0, ran.err
        counts.append(json.loads((out / "report.json").read_text())["instructions"])
    assert counts[0] == counts[1]


def test_a_saved_model_has_the_same_integers(saved: Path, tmp_path: Path, tinyc) -> None:  # noqa: F811
    """QDQ with a scale for each quantity: onnxruntime's reals, and built again the same bytes and scales."""
    pytest.importorskip("onnxruntime")
    ran: Ran = tinyc("quantize", saved / "channels.onnx", "--effort", "fast", "-o", tmp_path / "again.onnx")
    assert ran.code == 0, ran.err
    assert "gives 100.00% of the integers" in ran.out
    files = {"again": tmp_path / "again.onnx", "channels": saved / "channels.onnx"}
    scales, outputs = [], []
    for name, file in files.items():
        out = tmp_path / f"of_{name}"
        ran = tinyc("build", file, "-b", "host", "-o", out, "--effort", "fast")
        assert ran.code == 0, ran.err
        scales.append(re.findall(r"OUTPUT_0_SCALES (.*)", (out / f"{name}.h").read_text()))
        model = api.load(out)
        x = np.load(saved / "channels.calib.npz")["x"]
        outputs.append(model.run(x.transpose(0, 2, 3, 1) if model.inputs[0].axes else x, real=False)[0])
    assert scales[0] == scales[1] != []
    np.testing.assert_array_equal(*outputs)


def test_a_file_without_such_scales_has_one(saved: Path, tmp_path: Path, tinyc) -> None:  # noqa: F811
    ran: Ran = tinyc("quantize", saved / "two.onnx", "--effort", "fast", "-o", tmp_path / "two.tflite")
    assert ran.code == 0, ran.err


def test_new_weights_keep_the_scales_of_the_code(saved: Path, tmp_path: Path, tinyc) -> None:  # noqa: F811
    words = ["-b", "host", "--weights-blob", "--effort", "fast", "--no-proof"]
    assert tinyc("build", saved / "two.onnx", *words, "-o", tmp_path / "old").code == 0
    other = two_targets()
    for tensor in other.graph.initializer:
        array = onnx.numpy_helper.to_array(tensor)
        tensor.CopyFrom(onnx.numpy_helper.from_array(array * np.float32(0.8), tensor.name))
    onnx.save(other, tmp_path / "two.onnx")
    shutil.copy(saved / "two.calib.npz", tmp_path)
    ran: Ran = tinyc("build", tmp_path / "two.onnx", *words, "--like", tmp_path / "old", "-o", tmp_path / "new")
    assert ran.code == 0, ran.err
    old, new = (re.findall(r"OUTPUT_0_SCALES (.*)", (tmp_path / of / "two.h").read_text()) for of in ("old", "new"))
    assert old == new != []


class Ending(Network):
    """A random network without a classifier, behind it what detectors have there."""

    def joined(self) -> None:
        """With another layer of the same values, perhaps through a sigmoid, one of them in other units."""
        before, shape = self.x, self.shape
        self.conv()
        first, count = self.x, self.shape[1]
        self.x, self.shape = before, shape
        self.conv()
        second = self.add("Sigmoid", self.x) if self.rng.random() < 0.4 else self.x
        first = self.add("Mul", first, self.constant(1, scale=30)) if self.rng.random() < 0.5 else first
        self.add("Concat", first, second, axis=1)
        self.shape = (1, count + self.shape[1], *self.shape[2:])

    def summed(self) -> None:
        """With a constant for each channel, place or all, or with another layer."""
        kind = self.rng.integers(3)
        if kind == 2:
            before, shape, count = self.x, self.shape, self.shape[1]
            self.conv(count)
            first = self.x
            self.x, self.shape = before, shape
            self.conv(count)
            self.add("Add", first, self.x)
        else:
            self.add("Add", self.x, self.constant(*((self.shape[1], 1, 1) if kind else (1,))))

    def scaled(self) -> None:
        """By a number for each channel, as large as 100."""
        numbers = self.constant(self.shape[1], 1, 1)
        self.constants[numbers] = np.exp(self.rng.uniform(-2, 5, self.constants[numbers].shape)).astype(np.float32)
        self.add("Mul", self.x, numbers)

    def flat(self) -> None:
        """The places in one axis, in front or behind."""
        shape = f"s{len(self.constants)}"
        if self.rng.random() < 0.5:
            self.add("Transpose", self.x, perm=[0, 2, 3, 1])
            self.constants[shape] = np.array([1, -1, self.shape[1]])
        else:
            self.constants[shape] = np.array([1, self.shape[1], -1])
        self.add("Reshape", self.x, shape)


def random_ending(seed: int) -> onnx.ModelProto:
    net = Ending(seed)
    net.conv()
    for block in net.rng.permutation(np.array([Ending.joined, Ending.summed, Ending.scaled, Ending.relu, Ending.conv]))[
        :3
    ]:
        block(net)
    if net.rng.random() < 0.6:
        net.flat()
    return net.model()


def test_random_endings(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The divided graph computes the same, and its integers are as good as one scale's, or better, in each quantity."""
    monkeypatch.setattr(output_units, "_ALIKE", 1.5)
    divided = 0
    for seed in range(24):
        graph = graph_of(random_ending(seed), tmp_path)
        (name,) = graph.inputs
        x = np.random.default_rng(seed).standard_normal((40, *graph.values[name].shape)).astype(np.float32)
        data = Calibration({name: x}, "test", proven=True)
        in_units = with_units(graph, data)
        if in_units is graph:
            continue
        divided += 1
        check(in_units, "units", all_ops())
        ((output, _, axis),) = units_of(in_units)
        reals, same = (Batch(each).run({name: x})[output] for each in (graph, in_units))
        assert min(quantities_db(reals, same, axis).values()) > 80, seed
        worst = []
        for scales in ("one", "auto"):
            integer = quantize(graph, data, replace(PLAIN, output_scales=scales)).graph
            quant = integer.values[output].quant
            assert quant is not None
            dequantized = quant.dequantize(integer_results(integer, {name: x})[output])
            worst.append(min(quantities_db(reals, dequantized, axis).values()))
        assert worst[1] > worst[0] - 1, seed
    assert divided >= 6


def test_packages_in_other_languages(saved: Path, tmp_path: Path, tinyc) -> None:  # noqa: F811
    """C++ and Rust take the element's number, too."""
    assert tinyc("build", saved / "two.onnx", "-b", "host", "-o", tmp_path / "two", "--effort", "fast").code == 0
    for kind in ("cpp", "rust"):
        ran: Ran = tinyc("package", tmp_path / "two", "--as", kind, "-o", tmp_path / kind)
        assert ran.code == 0, ran.err
    header = next((tmp_path / "cpp").rglob("two.hpp"))
    assert "dequantize_output_0(int8_t q, int32_t i)" in header.read_text()
    compiler, rust = shutil.which("g++"), shutil.which("rustc")
    if compiler is not None:
        strict = ["-std=c++17", "-Wall", "-Wextra", "-Wpedantic", "-Wconversion", "-Werror", "-fsyntax-only"]
        (tmp_path / "main.cpp").write_text(f'#include "{header.name}"\nint main() {{ return 0; }}\n')
        subprocess.run([compiler, *strict, f"-I{header.parent}", "main.cpp"], cwd=tmp_path, check=True)
    library = next((tmp_path / "rust").rglob("lib.rs"))
    assert "pub fn dequantize_output_0(q: i8, i: usize) -> f32" in library.read_text()
    if rust is not None:
        words = ["--crate-type", "lib", "--emit", "metadata", "-o", "two.rmeta", str(library)]
        subprocess.run([rust, *words], cwd=tmp_path, check=True)


def shared_layers(outputs: int) -> onnx.ModelProto:
    """Two layers of the same weights behind unlike inputs: two outputs, or one that joins them."""
    consts = {"w": 50 * rand(1, 3, 6), "v": rand(2, 6, 4) * np.array([1, 1, 300, 300], np.float32), "b": rand(3, 4)}
    nodes = [op("Gemm", "x w", "h"), op("Relu", "h", "r"), op("Sigmoid", "h", "s")]
    nodes += [op("Gemm", "r v b", "y" if outputs == 2 else "p"), op("Gemm", "s v b", "z")]
    joined = [op("Concat", "p z", "y", axis=1)] if outputs == 1 else []
    return build([*nodes, *joined], {"x": [1, 3]}, ["y", "z"][:outputs], consts)


@pytest.mark.parametrize("outputs", [1, 2])
def test_layers_that_share_weights_are_divided_each_by_its_own(outputs: int, tmp_path: Path) -> None:
    x = rand(4, 60, 1, 3)
    graph = graph_of(shared_layers(outputs), tmp_path)
    divided = with_units(graph, data_of(x))
    check(divided, "units", all_ops())
    assert len(units_of(divided)) == outputs
    reals, results = Batch(graph).run({"x": x}), Batch(divided).run({"x": x})
    for name in graph.outputs:
        np.testing.assert_allclose(results[name], reals[name], rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("depth", [30, 700])
@pytest.mark.parametrize("divisible", [True, False])
def test_a_deep_sum_takes_no_time(depth: int, divisible: bool, tmp_path: Path) -> None:
    """Rules that are tried twice at each of many steps, one in another: 2**30 tries, or too many calls for Python."""
    sizes = np.array([1, 1, 300, 300], np.float32)
    consts = {f"w{i}": rand(i, 3, 4) * sizes for i in range(depth)}
    nodes = [op("Gemm", "x w0", "h0") if divisible else op("Concat", "x n", "h0", axis=1)]
    for i in range(1, depth):
        nodes += [op("Gemm", f"x w{i}", f"g{i}"), op("Add", f"h{i - 1} g{i}", f"h{i}" if i + 1 < depth else "y")]
    inputs = {"x": [1, 3]} if divisible else {"x": [1, 3], "n": [1, 1]}
    graph = graph_of(build(nodes, inputs, ["y"], consts), tmp_path)
    data = {name: rand(5, 20, *shape) for name, shape in inputs.items()}
    divided = with_units(graph, Calibration(data, "test", proven=True))
    assert len(units_of(divided)) == divisible
    np.testing.assert_allclose(Batch(divided).run(data)["y"], Batch(graph).run(data)["y"], rtol=1e-3, atol=1e-3)


@pytest.mark.parametrize(
    "recipe", [{"int16_layers": ("Gemm_h",)}, {"int16_layers": ("Gemm_y",)}, {"activations": "auto"}], ids=str
)
def test_some_layers_of_16_bits_leave_the_scales(recipe: dict[str, Any], tmp_path: Path) -> None:
    """With 16 bits elsewhere, or in the output itself, the small quantities are as exact."""
    consts = {"w": rand(1, 12, 9), "v": rand(2, 9, 4) * np.array([1, 1, 300, 300], np.float32)}
    nodes = [op("Gemm", "x w", "h"), op("Relu", "h", "r"), op("Gemm", "r v", "y")]
    graph = graph_of(build(nodes, {"x": [1, 12]}, ["y"], consts), tmp_path)
    x = rand(3, 60, 1, 12)
    integer = quantize(graph, data_of(x), replace(PLAIN, **recipe)).graph
    assert least_db(graph, integer, x, -1) > 25
    quant = integer.values["y"].quant
    assert quant is not None
    assert len(quant.scale) == 4


@pytest.mark.parametrize(("kind", "scales"), [("classes", 1), ("targets", 4), ("none", 4)])
def test_scores_of_labelled_classes_have_one_scale(kind: str, scales: int, tmp_path: Path) -> None:
    """Firmware compares their integers: with a scale for each, half of all classes came out wrong."""
    weights = rand(2, 12, 4) * np.array([0.05, 1, 1, 10], np.float32)
    graph = graph_of(build([op("Gemm", "x w", "y")], {"x": [1, 12]}, ["y"], {"w": weights}), tmp_path)
    x = rand(3, 60, 1, 12)
    reals = Batch(graph).run({"x": x})["y"].reshape(60, 4)
    labels = {"classes": reals.argmax(axis=1), "targets": np.rint(reals).astype(np.int64), "none": None}[kind]
    integer = quantize(graph, replace(data_of(x), labels=labels), PLAIN).graph
    quant = integer.values["y"].quant
    assert quant is not None
    assert len(quant.scale) == scales
    if kind == "classes":
        integers = integer_results(integer, {"x": x})["y"].reshape(60, 4)
        assert (integers.argmax(axis=1) == labels).mean() > 0.9
