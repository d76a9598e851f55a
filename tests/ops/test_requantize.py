# SPDX-License-Identifier: Apache-2.0
"""requantize: TensorFlow Lite's integers in every pair of widths, kernels."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from tests.ops.harness import check_kernels
from tests.ops.one_node import as_tflite, assert_equals_litert, assert_equals_tflm, one_node, tensor
from tests.ops.runtimes import every_byte
from tests.ops.tflite_builder import Operator, Tensor, build_model
from tinyc.base.errors import TinycError
from tinyc.base.numerics import Numerics
from tinyc.board import load_board
from tinyc.ir.graph import Array, Graph
from tinyc.load import load_model
from tinyc.ops.requantize import Requantize, float_ref
from tinyc.options.build import Options
from tinyc.passes import normalize
from tinyc.pipeline.integers import make_integers
from tinyc.pipeline.progress import Progress
from tinyc.reference.interpreter import run_int

FACTORS = [0.5, 1.0, 2.0, 0.013, 0.731, 1.37, 55.0, 0.002, 200.0]  # the last two are beyond XNNPACK
WIDTHS = [("s16", "s8"), ("s8", "s16"), ("s16", "s16"), ("s16", "s32"), ("s8", "s32")]


def graph_of(factor: float, x_dtype: str = "s8", y_dtype: str = "s8", x_zero: int = 5, y_zero: int = -9) -> Graph:
    """Zero points are used where the dtype is s8; TensorFlow Lite has none for wider tensors."""
    x = tensor("x", (1, 256), 0.1, x_zero if x_dtype in ("s8", "u8") else 0, x_dtype)
    zero = y_zero if y_dtype in ("s8", "u8") else 0
    return one_node("requantize", Requantize(y_dtype), [x], 0.1 / factor, zero)


def inputs_of(dtype: str) -> Array:
    if dtype in ("s8", "u8"):
        return every_byte().view(np.uint8 if dtype == "u8" else np.int8)
    limits = np.iinfo(np.int16 if dtype == "s16" else np.int32)
    x = np.random.default_rng(1).integers(limits.min, limits.max, (1, 256)).astype(limits.dtype)
    x[0, :5] = limits.min, limits.max, 0, -1, 1
    if dtype == "s32":  # most of such numbers saturate
        x[0, 5:] >>= np.arange(251) % 24
    return x


@pytest.mark.parametrize("factor", FACTORS)
@pytest.mark.parametrize("theirs", [assert_equals_tflm, assert_equals_litert])
def test_bytes(factor, theirs):
    graph = graph_of(factor)
    theirs(graph, as_tflite(graph, "QUANTIZE", "QuantizeOptions"), {"x": every_byte()})


@pytest.mark.parametrize("factor", FACTORS)
@pytest.mark.parametrize(("x_dtype", "y_dtype"), WIDTHS)
def test_wide_equals_tflm(factor, x_dtype, y_dtype):
    graph = graph_of(factor, x_dtype, y_dtype)
    assert_equals_tflm(graph, as_tflite(graph, "QUANTIZE", "QuantizeOptions"), {"x": inputs_of(x_dtype)})


@pytest.mark.parametrize("factor", FACTORS)
@pytest.mark.parametrize(("x_dtype", "y_dtype"), WIDTHS[:-1])
def test_wide_equals_litert(factor, x_dtype, y_dtype):
    graph = graph_of(factor, x_dtype, y_dtype)
    assert_equals_litert(graph, as_tflite(graph, "QUANTIZE", "QuantizeOptions"), {"x": inputs_of(x_dtype)})


@pytest.mark.parametrize("factor", [f for f in [*FACTORS, 1e-5, 1e-7] if f < 1])
@pytest.mark.parametrize("y_dtype", ["s8", "s16"])
def test_int32_equals_tflm(factor, y_dtype):
    graph = graph_of(factor, "s32", y_dtype)
    assert_equals_tflm(graph, as_tflite(graph, "QUANTIZE", "QuantizeOptions"), {"x": inputs_of("s32")})


RATIOS = [(1.0, 1.7), (1.0, 2.0), (1.0, 3.0), (0.1, 0.2), (0.0235, 0.031), (0.1, 0.0037)]


def by_float(folder: Path, middle: tuple[str, ...], x: Tensor, y: Tensor) -> tuple[Graph, bytes]:
    """The joined graph of DEQUANTIZE, float operators and QUANTIZE, and the file."""
    names = ["x", *(f"f{k}" for k in range(len(middle) + 1)), "y"]
    codes = ("DEQUANTIZE", *middle, "QUANTIZE")
    operators = [Operator(code, (names[k],), (names[k + 1],)) for k, code in enumerate(codes)]
    model = build_model([x, *(Tensor(name, x.shape, "f32") for name in names[1:-1]), y], operators, ["x"], ["y"])
    (folder / "m.tflite").write_bytes(model)
    return normalize(load_model(folder / "m.tflite")), model


@pytest.mark.parametrize("ratio", RATIOS, ids=str)
@pytest.mark.parametrize("numerics", [Numerics.TFLM, Numerics.LITERT])
def test_dequantize_and_quantize_round_as_these_two_do(tmp_path, ratio, numerics):
    """Bytes halves too; LiteRT's own conversion of integers has ratios in steps of 1/256, and differs in 53 of 256."""
    x, y = (Tensor(name, (1, 256), "s8", (s,), (z,)) for name, s, z in zip("xy", ratio, (5, -9), strict=True))
    graph, model = by_float(tmp_path, (), x, y)
    assert [node.attrs for node in graph.nodes] == [Requantize("s8", by_float=True)]
    theirs = {Numerics.TFLM: assert_equals_tflm, Numerics.LITERT: assert_equals_litert}[numerics]
    theirs(graph, model, {"x": every_byte()})


@pytest.mark.parametrize("dtypes", [("s16", "s8"), ("s8", "s16"), ("s16", "s16")], ids=str)
def test_wider_integers_through_float_round_once(tmp_path, dtypes):
    """A third of a number is never a half: rounded twice, every third number was off by one."""
    x, y = (Tensor(n, (1, 256), d, (s,), (0,)) for n, d, s in zip("xy", dtypes, (1.0, 3.0), strict=True))
    graph, model = by_float(tmp_path, (), x, y)
    for theirs in (assert_equals_tflm, assert_equals_litert):
        theirs(graph, model, {"x": inputs_of(dtypes[0])})


@pytest.mark.parametrize("ratio", [(1.0, 3.0), (1.0, 1.7), (0.0235, 0.0235)], ids=str)
def test_an_activation_between_the_two(tmp_path, ratio):
    x, y = (Tensor(name, (1, 256), "s8", (s,), (z,)) for name, s, z in zip("xy", ratio, (5, -9), strict=True))
    graph, model = by_float(tmp_path, ("RELU",), x, y)
    for theirs in (assert_equals_tflm, assert_equals_litert):
        theirs(graph, model, {"x": every_byte()})


@pytest.mark.parametrize("code", ["RELU", "RELU6", "NEG", "ABS", "SQRT", "SQUARE", "FLOOR"])
@pytest.mark.parametrize("ratio", [(1.0, 2.0), (0.1, 0.2), (0.25, 1.0), (0.0235, 0.031), (0.1, 0.05)], ids=str)
def test_a_table_of_functions_between_the_two(tmp_path, ratio, code):
    """All bytes, halves and what is not a number too, as the whole compiler makes the table for these numerics."""
    x, y = (Tensor(name, (1, 256), "s8", (s,), (z,)) for name, s, z in zip("xy", ratio, (5, -9), strict=True))
    _, model = by_float(tmp_path, (code,), x, y)
    options = Options("host", numerics=Numerics.LITERT)
    integers = make_integers(tmp_path / "m.tflite", load_board("host"), options, Progress())
    assert_equals_litert(integers.graph, model, {"x": every_byte()})


@pytest.mark.parametrize(("x_dtype", "y_dtype"), [("u8", "s8"), ("s8", "u8")])
def test_signedness_moves_by_128(x_dtype, y_dtype):
    zeros = (128, 0) if x_dtype == "u8" else (0, 128)
    graph = graph_of(1.0, x_dtype, y_dtype, *zeros)
    x = inputs_of(x_dtype)
    assert_equals_tflm(graph, as_tflite(graph, "QUANTIZE", "QuantizeOptions"), {"x": x})
    y = run_int(graph, {"x": x}, Numerics.TFLM)["y"]
    np.testing.assert_array_equal(y.astype(int) - x.astype(int), zeros[1] - zeros[0])


@pytest.mark.quick_cases(8)
@pytest.mark.parametrize("numerics", Numerics)
@pytest.mark.parametrize(("x_dtype", "y_dtype"), [*WIDTHS, ("s32", "s8"), ("s32", "s16"), ("s8", "s8"), ("u8", "s8")])
def test_kernels(x_dtype, y_dtype, numerics):
    graph = graph_of(0.731, x_dtype, y_dtype)
    names = check_kernels(graph, [{"x": inputs_of(x_dtype)}], numerics)
    assert names == (["tc_lut_s8_mve", "tc_lut_s8"] if {x_dtype, y_dtype} <= {"s8", "u8"} else ["tc_requantize_wide"])


def test_float_and_errors():
    x = np.float32([1, 2])
    np.testing.assert_array_equal(float_ref(Requantize(), x)[0], x)
    with pytest.raises(TinycError, match="16384"):
        run_int(graph_of(20000.0, "s16", "s32"), {"x": inputs_of("s16")}, Numerics.TFLM)
