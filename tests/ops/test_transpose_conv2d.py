# SPDX-License-Identifier: Apache-2.0
"""transpose_conv2d: TensorFlow Lite Micro's integers with every padding, kernels, errors."""

from __future__ import annotations

import numpy as np
import pytest

from tests.ops.harness import check_kernels
from tests.ops.one_node import random_s8, tensor
from tests.ops.runtimes import run_tflm
from tests.ops.tflite_builder import Operator, Tensor, build_model
from tinyc.base.errors import TinycError
from tinyc.base.numerics import Numerics
from tinyc.ir.graph import Graph, Shape
from tinyc.kernel.site import Pair
from tinyc.load.tflite import load_tflite
from tinyc.ops.transpose_conv2d import TransposeConv2D, float_ref, infer
from tinyc.reference.interpreter import run_int

# shape of x, shape of w, stride, SAME padding, bias
LAYERS: dict[str, tuple[Shape, Shape, tuple[int, int], bool, bool]] = {
    "same": ((1, 4, 5, 3), (7, 3, 3, 3), (2, 2), True, True),
    "valid": ((1, 4, 5, 3), (5, 3, 2, 3), (2, 3), False, True),
    "kernel below stride": ((1, 3, 3, 1), (2, 1, 2, 1), (3, 3), True, False),
    "stride 1": ((1, 5, 1, 9), (1, 4, 1, 9), (1, 1), True, True),
}


def model(name: str) -> bytes:
    x, w, stride, same, bias = LAYERS[name]
    rng = np.random.default_rng(1)
    size = [n * s if same else (n - 1) * s + k for n, s, k in zip(x[1:3], stride, w[1:3], strict=True)]
    y = (1, *size, w[0])
    scales = tuple(map(float, rng.uniform(0.002, 0.02, w[0]).astype(np.float32)))
    tensors = [
        Tensor("size", (4,), "s32", data=np.array(y, np.int32)),
        Tensor("w", w, "s8", scales, (0,) * w[0], 0, rng.integers(-127, 128, w).astype(np.int8)),
        Tensor("x", x, "s8", (0.03,), (-17,)),
        Tensor("y", y, "s8", (0.03,), (11,)),
    ]
    names = ["size", "w", "x"]
    if bias:
        b_scales = tuple(float(np.float32(0.03) * np.float32(s)) for s in scales)
        data = rng.integers(-5000, 5000, w[0]).astype(np.int32)
        tensors.append(Tensor("b", (w[0],), "s32", b_scales, (0,) * w[0], 0, data))
        names.append("b")
    fields = {"Padding": 0 if same else 1, "StrideH": stride[0], "StrideW": stride[1], "FusedActivationFunction": 0}
    operator = Operator("TRANSPOSE_CONV", tuple(names), ("y",), "TransposeConvOptions", fields, version=3)
    return build_model(tensors, [operator], ["x"], ["y"])


@pytest.fixture
def graph_of(tmp_path):
    def make(name: str) -> Graph:
        path = tmp_path / "model.tflite"
        path.write_bytes(model(name))
        return load_tflite(path)

    return make


@pytest.mark.parametrize("name", LAYERS)
def test_equals_tflm(graph_of, name):
    x = random_s8(2, LAYERS[name][0])
    (theirs,) = run_tflm(model(name), x)
    y = run_int(graph_of(name), {"x": x}, Numerics.TFLM)["y"]
    np.testing.assert_array_equal(y, theirs)
    assert len(np.unique(y)) > 2


@pytest.mark.parametrize("numerics", [Numerics.TFLM, Numerics.ONNX])
def test_kernel(graph_of, numerics):
    for name in ("same", "kernel below stride"):
        shape = LAYERS[name][0]
        samples = [{"x": random_s8(3, shape)}, {"x": np.full(shape, -128, np.int8)}]
        assert check_kernels(graph_of(name), samples, numerics) == ["tc_transpose_conv2d_s8"]


def test_float_is_the_definition():
    rng = np.random.default_rng(5)
    x, w = rng.standard_normal((1, 3, 4, 2)), rng.standard_normal((3, 2, 3, 2))
    a = TransposeConv2D(Pair(2, 2), Pair(1, 0), Pair(5, 9))
    exact = np.zeros((1, 5, 9, 3))
    for r, c, ky, kx in np.ndindex(3, 4, 2, 3):
        row, column = 2 * r - 1 + ky, 2 * c + kx
        if 0 <= row < 5 and 0 <= column < 9:
            exact[0, row, column] += w[:, ky, kx] @ x[0, r, c]
    np.testing.assert_allclose(float_ref(a, x, w)[0], exact, rtol=1e-5, atol=1e-6)


def test_errors():
    x, w = tensor("x", (1, 3, 4, 2), 0.1), tensor("w", (3, 2, 3, 5), 0.1)
    with pytest.raises(TinycError, match="do not fit"):
        infer(TransposeConv2D(Pair(1, 1), Pair(0, 0), Pair(3, 4)), x, w)
    with pytest.raises(TinycError, match="stride"):
        infer(TransposeConv2D(Pair(0, 1), Pair(0, 0), Pair(3, 4)), x, tensor("w", (3, 2, 3, 2), 0.1))
