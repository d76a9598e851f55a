# SPDX-License-Identifier: Apache-2.0
"""Models of plain integers and truth values compute what ONNX Runtime does; the cases of the onnx package agree."""

from __future__ import annotations

import re
import sys
from pathlib import Path

import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import TensorProto, helper, numpy_helper

from tinyc.base.numerics import Numerics
from tinyc.board import load_board
from tinyc.ir.graph import NUMPY_DTYPE
from tinyc.load import load_model
from tinyc.options.build import Options
from tinyc.passes import normalize
from tinyc.pipeline.compiling import compile_model
from tinyc.pipeline.progress import Progress
from tinyc.reference.interpreter import run_int

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "bench"))

import onnx_conformance as conformance  # noqa: E402  what a contributor runs is what is tested

MODULES = (
    "and_",
    "xor",
    "add",
    "mod",
    "where",
    "sub",
    "max",
    "bitshift",
    "convinteger",
    "matmulinteger",
)  # their cases are made within a second
NAMES = (
    *("and2d", "xor_bcast3v2d", "add_uint8", "mod_mixed_sign_int32", "where_long_example"),
    *("sub_int16", "max_int8", "max_float32", "add_uint16", "mod_uint64", "bitshift_left_int8_negative_shift"),
    *("bitshift_right_int32_negative_input", "bitshift_right_uint16", "convinteger_with_padding", "matmulinteger"),
)
SAMPLE = f"^test_({'|'.join(NAMES)})$"


def test_tokens_and_masks(tmp_path: Path) -> None:
    """Token numbers in 64 bits are looked up, hidden where a mask says, and counted."""
    table = helper.make_tensor("table", TensorProto.FLOAT, [6, 2], np.arange(12, dtype=np.float32))
    five = helper.make_tensor("five", TensorProto.INT64, [], [5])
    nodes = [
        helper.make_node("Min", ["tokens", "five"], ["bounded"]),
        helper.make_node("Gather", ["table", "bounded"], ["rows"]),
        helper.make_node("Equal", ["tokens", "five"], ["is_five"]),
        helper.make_node("Not", ["is_five"], ["other"]),
        helper.make_node("And", ["other", "mask"], ["kept"]),
        helper.make_node("Cast", ["kept"], ["counted"], to=TensorProto.INT32),
    ]
    inputs = [
        helper.make_tensor_value_info("tokens", TensorProto.INT64, [1, 4]),
        helper.make_tensor_value_info("mask", TensorProto.BOOL, [1, 4]),
    ]
    outputs = [
        helper.make_tensor_value_info(name, kind, None) for name, kind in (("rows", 1), ("kept", 9), ("counted", 6))
    ]
    graph = helper.make_graph(nodes, "tokens", inputs, outputs, [table, five])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9)
    onnx.save(model, tmp_path / "tokens.onnx")
    feeds = {"tokens": np.array([[0, 5, 9, 2]]), "mask": np.array([[True, True, False, True]])}
    theirs = onnxruntime.InferenceSession(model.SerializeToString()).run(None, feeds)
    imported = normalize(load_model(tmp_path / "tokens.onnx"))
    numbers = run_int(
        imported, {n: a.astype(NUMPY_DTYPE[imported.values[n].dtype]) for n, a in feeds.items()}, Numerics.ONNX
    )
    for name, array in zip(imported.outputs, theirs, strict=True):
        np.testing.assert_array_equal(numbers[name], array)


def test_an_embedding_is_quantized(tmp_path: Path) -> None:
    """Token numbers are calibrated on as they are, given or made up; the library takes int32."""
    rng = np.random.default_rng(0)
    weights = {"table": rng.normal(size=(20, 8)), "w": rng.normal(size=(8, 3))}
    nodes = [
        helper.make_node("Gather", ["table", "tokens"], ["rows"]),
        helper.make_node("ReduceMean", ["rows"], ["mean"], axes=[1], keepdims=0),
        helper.make_node("MatMul", ["mean", "w"], ["y"]),
    ]
    graph = helper.make_graph(
        nodes,
        "embedding",
        [helper.make_tensor_value_info("tokens", TensorProto.INT64, ["batch", 6])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, None)],
        [numpy_helper.from_array(array.astype(np.float32), name) for name, array in weights.items()],
    )
    path = tmp_path / "embedding.onnx"
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9), path)
    np.savez(tmp_path / "tokens.npz", tokens=rng.integers(0, 20, (40, 6)))
    for calibration in (tmp_path / "tokens.npz", None):
        options = Options(board="host", calibration=calibration)
        compiled = compile_model(path, load_board("host"), options, Progress())
        assert [compiled.graph.values[name].dtype for name in ("tokens", "y")] == ["s32", "s8"]
        tokens = rng.integers(0, 20, (1, 6)).astype(np.int32)
        y_steps = run_int(compiled.graph, {"tokens": tokens}, compiled.program.numerics)["y"]
        exact = weights["table"][tokens[0]].mean(axis=0) @ weights["w"]
        np.testing.assert_allclose(compiled.graph.values["y"].quant.dequantize(y_steps)[0], exact, atol=0.25)


@pytest.mark.parametrize("kind", [np.int8, np.uint8])
def test_clip_between_quantize_and_dequantize(kind: type, tmp_path: Path) -> None:
    """As QONNX and Brevitas write activations of 4 bits: the bounds are integers of the file's type."""
    zero, lo, hi = (0, -8, 7) if kind is np.int8 else (3, 1, 15)
    constants = {"scale": np.float32(0.1), "zero": kind(zero), "lo": kind(lo), "hi": kind(hi)}
    nodes = [
        helper.make_node("QuantizeLinear", ["x", "scale", "zero"], ["q"]),
        helper.make_node("Clip", ["q", "lo", "hi"], ["c"]),
        helper.make_node("DequantizeLinear", ["c", "scale", "zero"], ["y"]),
    ]
    ports = [helper.make_tensor_value_info(name, TensorProto.FLOAT, [1, 41]) for name in ("x", "y")]
    tensors = [numpy_helper.from_array(np.asarray(value), name) for name, value in constants.items()]
    graph = helper.make_graph(nodes, "clip", ports[:1], ports[1:], tensors)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9)
    onnx.save(model, tmp_path / "clip.onnx")
    imported = normalize(load_model(tmp_path / "clip.onnx"))
    x, y = imported.values["x"], imported.values["y"]
    every = np.arange(*((-20, 21) if kind is np.int8 else (0, 41)))[None]
    real = ((every - zero) * np.float32(0.1)).astype(np.float32)
    (exact,) = onnxruntime.InferenceSession(model.SerializeToString()).run(None, {"x": real})
    held = (every - zero + x.quant.zero[0]).astype(NUMPY_DTYPE[x.dtype])
    y_steps = run_int(imported, {"x": held}, Numerics.ONNX)["y"]
    np.testing.assert_allclose(y.quant.dequantize(y_steps), exact, rtol=1e-6)


def test_a_sample_of_the_conformance_cases() -> None:
    results = conformance.run_all(conformance.chosen(SAMPLE, MODULES))
    assert {f"test_{name}" for name in NAMES} == {result.name for result in results}
    assert {result.way for result in results} <= {"exact"}, [r for r in results if r.way != "exact"]


def with_equal_ones(page: str) -> tuple[int, str]:
    """How many cases passed exactly or in float32, and the page without that difference: of some floats it depends on
    the last bits of the computer's NumPy, which makes the outputs that are wanted."""
    totals = re.findall(r"^\| (?:exact|float32) \| ([\d,]+) ", page, re.MULTILINE)
    rest = re.sub(r"^\| (?:exact|float32) \| [\d,]+ ", "", page, flags=re.MULTILINE)
    rest = re.sub(
        r"^(\| [^|]+ \| \d+ \|) (\d*) \| (\d*) ",
        lambda row: f"{row[1]} {int(row[2] or 0) + int(row[3] or 0)} ",
        rest,
        flags=re.MULTILINE,
    )
    return sum(int(total.replace(",", "")) for total in totals), rest


@pytest.mark.slow
def test_no_conformance_case_fails_and_the_page_says_so() -> None:
    results = conformance.run_all(conformance.chosen(""))
    assert [result for result in results if result.way == "failed"] == []
    assert with_equal_ones(conformance.PAGE.read_text(encoding="utf-8")) == with_equal_ones(conformance.page(results))
