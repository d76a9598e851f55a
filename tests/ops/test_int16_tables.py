# SPDX-License-Identifier: Apache-2.0
"""int16 sigmoid, tanh, matrix products, functions: TensorFlow Lite Micro's integers where it has them, else errors."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tests.ops.harness import check_kernels
from tests.ops.one_node import as_tflite, assert_equals_litert, assert_equals_tflm, one_node, tensor
from tinyc.base.errors import TinycError
from tinyc.base.numerics import Numerics
from tinyc.ir.graph import Array, Graph
from tinyc.ops import all_ops
from tinyc.ops.batch_matmul import BatchMatmul
from tinyc.ops.function import Function
from tinyc.ops.hard_swish import HardSwish
from tinyc.ops.power import Power
from tinyc.ops.sigmoid import Sigmoid
from tinyc.ops.tanh import Tanh
from tinyc.reference.interpreter import run_int

EVERY = np.arange(-32768, 32768).astype(np.int16).reshape(1, 1, 256, 256)
CURVES = {"LOGISTIC": ("sigmoid", Sigmoid()), "TANH": ("tanh", Tanh())}


def of_every(op: str, attrs: object, scale: float, y_scale: float = 1 / 32768) -> Graph:
    return one_node(op, attrs, [tensor("x", EVERY.shape, scale, 0, "s16")], y_scale, 0)


@pytest.mark.parametrize("scale", [2.0**-12, 2.0**-11, 2.0**-15, 0.0003, 0.00241, 0.7])
@pytest.mark.parametrize("code", CURVES)
def test_curves_are_tflites(code: str, scale: float) -> None:
    """Of every int16."""
    graph = of_every(*CURVES[code], scale)
    model = as_tflite(graph, code)
    assert_equals_tflm(graph, model, {"x": EVERY})
    if scale == 2.0**-12 or (code == "TANH" and scale == 2.0**-11):  # where LiteRT has another kernel
        with pytest.raises(TinycError, match="not known"):
            run_int(graph, {"x": EVERY}, Numerics.LITERT)
    else:
        assert_equals_litert(graph, model, {"x": EVERY})


@pytest.mark.parametrize("scale", [2.0**-12, 0.00241])
@pytest.mark.parametrize("code", CURVES)
def test_kernels_of_curves(code: str, scale: float) -> None:
    op, _ = CURVES[code]
    assert check_kernels(of_every(*CURVES[code], scale), [{"x": EVERY}]) == [f"tc_{op}_s16"]


def test_a_scale_without_a_multiplier_is_an_error() -> None:
    with pytest.raises(TinycError, match=r"at most"):
        run_int(of_every("sigmoid", Sigmoid(), 3.0), {"x": EVERY}, Numerics.OURS)


def product(adj_x: bool, adj_y: bool, depth: int, scale: float) -> tuple[Graph, dict[str, Array]]:
    rng = np.random.default_rng(depth)
    shapes = ((3, depth, 5) if adj_x else (3, 5, depth)), ((3, 7, depth) if adj_y else (3, depth, 7))
    inputs = [tensor(name, shape, 0.0003, 0, "s16") for name, shape in zip("ab", shapes, strict=True)]
    samples = {v.name: rng.integers(-32768, 32768, v.shape).astype(np.int16) for v in inputs}
    for array in samples.values():
        array.flat[0] = -32768
    return one_node("batch_matmul", BatchMatmul(adj_x, adj_y), inputs, scale), samples


@pytest.mark.parametrize(("adj_x", "adj_y"), [(False, False), (False, True), (True, False)])
@pytest.mark.parametrize(("depth", "scale"), [(1, 0.003), (33, 0.004), (100, 0.0001)])
def test_products_are_tflites(adj_x: bool, adj_y: bool, depth: int, scale: float) -> None:
    graph, samples = product(adj_x, adj_y, depth, scale)
    fields: dict[str, Any] = {"AdjX": adj_x, "AdjY": adj_y}
    assert_equals_tflm(graph, as_tflite(graph, "BATCH_MATMUL", "BatchMatMulOptions", fields), samples)
    assert check_kernels(graph, [samples]) == ["tc_batch_matmul_s16"]


@pytest.mark.parametrize("name", ["elu", "erf", "gelu", "gelu_tanh", "mish", "sin", "softplus", "softsign", "swish"])
def test_functions_are_near(name: str) -> None:
    """Inputs over [-6, 6], in steps of 2^-15: what interpolation between 512 entries misses, most beside a bend."""
    reals = EVERY * (6 / 32768)
    (exact,) = all_ops()["function"].float_ref(Function(name), reals.astype(np.float32))
    y_scale = float(np.abs(exact).max()) * 1.01 / 32767
    graph = of_every("function", Function(name), 6 / 32768, y_scale)
    y = run_int(graph, {"x": EVERY}, Numerics.OURS)["y"]
    assert np.abs(y - exact / y_scale).max() <= (7 if name == "softsign" else 3)


@pytest.mark.parametrize(
    ("op", "attrs", "x_scale", "y_scale"),
    [
        ("hard_swish", HardSwish(), 0.0003, 0.0003),
        ("power", Power(-0.5), 0.0003, 0.001),
        ("function", Function("log"), 0.0003, 0.0003),
    ],
)
def test_kernels_of_functions(op: str, attrs: object, x_scale: float, y_scale: float) -> None:
    """Also where the function is not finite."""
    assert check_kernels(of_every(op, attrs, x_scale, y_scale), [{"x": EVERY}], Numerics.OURS) == ["tc_lut_s16"]


@pytest.mark.parametrize("scales", [(0.0003, 0.0001), (0.0003, 0.00001), (1e-6, 0.01), (0.7, 0.004)])
def test_roots_are_exact(scales: tuple[float, float]) -> None:
    """To the nearest integer, but where that is nearly a half; of negative numbers the largest."""
    graph = of_every("power", Power(0.5), *scales)
    assert check_kernels(graph, [{"x": EVERY}], Numerics.OURS) == ["tc_root_s16"]
    y = run_int(graph, {"x": EVERY}, Numerics.OURS)["y"].ravel()
    x_scale, y_scale = (float(graph.values[name].quant.scale[0]) for name in "xy")
    exact = np.sqrt(np.maximum(EVERY.ravel(), 0) * x_scale) / y_scale
    assert np.abs(y - np.minimum(exact, 32767))[EVERY.ravel() >= 0].max() <= 0.51
    assert (y[EVERY.ravel() < 0] == 32767).all()


def test_an_inverse_root_is_near_away_from_zero() -> None:
    y = run_int(of_every("power", Power(-0.5), 0.0003, 0.001), {"x": EVERY}, Numerics.OURS)["y"].ravel()
    reals = EVERY.ravel() * 0.0003
    far = reals > 0.3
    assert np.abs(y[far] * 0.001 - reals[far] ** -0.5).max() < 0.005
