# SPDX-License-Identifier: Apache-2.0
"""batch_matmul: TensorFlow Lite's integers, ONNX Runtime's reals, kernels."""

from __future__ import annotations

import numpy as np
import pytest

from tests.ops.harness import check_kernels
from tests.ops.one_node import as_tflite, assert_equals_litert, assert_equals_tflm, one_node, random_s8, tensor
from tests.ops.onnx_float import run_onnx
from tinyc.base.errors import TinycError
from tinyc.base.numerics import Numerics
from tinyc.ir.graph import Graph
from tinyc.ops.batch_matmul import BatchMatmul, float_ref
from tinyc.reference.interpreter import run_int

# x shape, y shape, adj_x, adj_y, x scale and zero, y scale and zero, output scale and zero
PRODUCTS = {
    "plain": ((5, 7), (7, 3), False, False, 0.03, 3, 0.05, -7, 0.13, 4),
    "keys": ((1, 9, 16), (1, 9, 16), False, True, 0.04, -1, 0.04, 8, 0.2, 1),
    "values": ((1, 3, 9), (1, 9, 5), False, False, 1 / 256, -128, 0.03, 5, 0.04, 1),
    "both turned": ((3, 2, 7, 5), (3, 1, 9, 7), True, True, 0.03, 127, 0.05, -128, 0.9, -128),
    "one for all": ((2, 5, 7), (1, 7, 9), False, False, 0.03, 3, 0.05, -7, 0.13, 4),
    "of no batch": ((4, 1, 3), (3, 17), False, False, 0.03, 3, 0.05, -7, 0.1303, 4),
    "saturates": ((1, 3, 17), (1, 17, 4), False, False, 0.3, 0, 0.3, 0, 0.1, 0),
}


def graph_of(name: str, const: bool = False) -> Graph:
    x, y, adj_x, adj_y, x_scale, x_zero, y_scale, y_zero, scale, zero = PRODUCTS[name]
    inputs = [tensor("a", x, x_scale, x_zero), tensor("b", y, y_scale, y_zero)]
    return one_node(
        "batch_matmul", BatchMatmul(adj_x, adj_y), inputs, scale, zero, {"b": random_s8(2, y)} if const else {}
    )


def samples(name: str) -> dict[str, np.ndarray]:
    return {"a": random_s8(1, PRODUCTS[name][0]), "b": random_s8(2, PRODUCTS[name][1])}


@pytest.mark.parametrize("name", PRODUCTS)
@pytest.mark.parametrize("theirs", [assert_equals_tflm, assert_equals_litert])
def test_is_tflites(name, theirs):
    _, _, adj_x, adj_y, *_ = PRODUCTS[name]
    graph = graph_of(name)
    theirs(graph, as_tflite(graph, "BATCH_MATMUL", "BatchMatMulOptions", {"AdjX": adj_x, "AdjY": adj_y}), samples(name))


@pytest.mark.parametrize(
    ("name", "numerics"),
    [("both turned", Numerics.TFLM), ("one for all", Numerics.OURS), ("of no batch", Numerics.ONNX)],
)
def test_kernels(name, numerics):
    kernels = check_kernels(graph_of(name), [samples(name)], numerics)
    assert kernels == ["tc_batch_matmul_s8_mve", "tc_batch_matmul_s8_dsp", "tc_batch_matmul_s8"]


def test_kernels_with_a_constant():
    check_kernels(graph_of("keys", const=True), [{"a": samples("keys")["a"]}])


@pytest.mark.parametrize("shapes", [((2, 3, 5, 7), (3, 7, 4)), ((5, 7), (2, 7, 3))])
def test_float_is_onnx(shapes):
    rng = np.random.default_rng(1)
    x, y = (rng.normal(size=shape).astype(np.float32) for shape in shapes)
    np.testing.assert_allclose(float_ref(BatchMatmul(), x, y)[0], run_onnx("MatMul", [x, y]), rtol=1e-5, atol=1e-6)
    turned = float_ref(BatchMatmul(True, True), x.swapaxes(-1, -2), y.swapaxes(-1, -2))[0]
    np.testing.assert_allclose(turned, x @ y, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize(
    ("x", "y", "message"),
    [((5,), (5, 3), "must be matrices"), ((2, 5), (4, 3), "do not fit"), ((2, 1, 5), (3, 5, 1), "broadcast")],
)
def test_shapes_that_do_not_fit(x, y, message):
    with pytest.raises(TinycError, match=message):
        one_node("batch_matmul", BatchMatmul(), [tensor("a", x, 0.1), tensor("b", y, 0.1)], 0.1)


def test_a_sum_that_can_leave_int32_is_an_error():
    shapes = (1, 40_000), (40_000, 1)
    graph = one_node("batch_matmul", BatchMatmul(), [tensor("ab"[k], shapes[k], 0.01) for k in (0, 1)], 0.1)
    with pytest.raises(TinycError, match="int32"):
        run_int(graph, {"a": random_s8(1, shapes[0]), "b": random_s8(2, shapes[1])}, Numerics.TFLM)
