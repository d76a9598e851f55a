# SPDX-License-Identifier: Apache-2.0
"""div: TensorFlow Lite's integers over all pairs, kernels."""

from __future__ import annotations

import numpy as np
import pytest

from tests.ops.harness import check_kernels
from tests.ops.one_node import as_tflite, one_node, random_s8, tensor
from tests.ops.runtimes import every_pair, run_litert, run_tflm
from tinyc.base.errors import TinycError
from tinyc.base.numerics import Numerics
from tinyc.ir.graph import Graph
from tinyc.kernel.site import RELU
from tinyc.ops.div import Div
from tinyc.reference.interpreter import run_float, run_int

# x0 scale and zero, x1 scale and zero, y scale and zero
SETTINGS = {
    "plain": (0.1, 3, 0.07, -128, 0.5, 10),
    "probabilities": (0.01, -128, 0.2, -128, 1 / 256, -128),
    "signs": (0.1, -5, 0.05, 17, 0.04, 3),
    "large": (1.0, 0, 0.01, 5, 30.0, -20),
    "small": (0.001, 7, 0.3, -9, 0.002, 0),
    "negative": (0.05, 100, 0.02, 90, 0.03, 120),
}


def graph_of(setting: str, shape0: tuple[int, ...], shape1: tuple[int, ...], attrs: Div | None = None) -> Graph:
    scale0, zero0, scale1, zero1, y_scale, y_zero = SETTINGS[setting]
    inputs = [tensor("a", shape0, scale0, zero0), tensor("b", shape1, scale1, zero1)]
    return one_node("div", attrs or Div(), inputs, y_scale, y_zero)


@pytest.mark.parametrize("setting", SETTINGS)
@pytest.mark.parametrize(("run", "numerics"), [(run_tflm, Numerics.TFLM), (run_litert, Numerics.LITERT)])
def test_all_quotients_are_theirs(setting, run, numerics):
    """But for those below half a step by many bits (and a divisor of 0): TensorFlow Lite shifts int32 by more than 31
    there, for which C has no meaning. Here they are 0."""
    scale0, zero0, scale1, zero1, y_scale, y_zero = SETTINGS[setting]
    x0, x1 = every_pair()
    x1[x1 == zero1] += 1
    graph = graph_of(setting, x0.shape, x1.shape)
    (theirs,) = run(as_tflite(graph, "DIV", "DivOptions"), x0, x1)
    ours = run_int(graph, {"a": x0, "b": x1}, numerics)["y"]
    real = (x0.astype(np.float64) - zero0) * scale0 / ((x1.astype(np.float64) - zero1) * scale1 * y_scale)
    is_small = np.abs(real) < 0.51
    np.testing.assert_array_equal(ours[~is_small], theirs[~is_small])
    np.testing.assert_array_equal(ours[np.abs(real) < 0.49], y_zero)
    assert (ours == theirs).mean() > 0.9


@pytest.mark.parametrize("shapes", [((1, 5, 7), (1, 5, 1)), ((1, 3, 1, 9), (1, 1, 5, 1)), ((3, 5), (3, 5))])
@pytest.mark.parametrize("setting", ["signs", "small"])
def test_kernels(shapes, setting):
    sample = {"a": random_s8(1, shapes[0]), "b": random_s8(2, shapes[1])}
    sample["b"].flat[:1] = SETTINGS[setting][3]  # a divisor of 0
    assert check_kernels(graph_of(setting, *shapes, Div(RELU)), [sample]) == ["tc_div_s8"]


def test_every_pair_in_c():
    x0, x1 = every_pair()
    check_kernels(graph_of("plain", x0.shape, x1.shape), [{"a": x0, "b": x1}], Numerics.OURS)


def test_a_divisor_of_0_keeps_the_sign():
    graph = graph_of("signs", (3,), (3,))
    sample = {"a": np.array([-128, -5, 127], np.int8), "b": np.full(3, 17, np.int8)}
    assert run_int(graph, sample, Numerics.TFLM)["y"].tolist() == [-128, 3, 127]


def test_reals():
    a, b = (np.random.default_rng(k).normal(0, 1, (3, 5)).astype(np.float32) for k in (1, 2))
    np.testing.assert_array_equal(run_float(graph_of("plain", (3, 5), (3, 5)), {"a": a, "b": b})["y"], a / b)


def test_outputs_too_fine_are_an_error():
    graph = one_node("div", Div(), [tensor("a", (3,), 1000.0), tensor("b", (3,), 0.001)], 0.001)
    with pytest.raises(TinycError, match="too small"):
        run_int(graph, {"a": random_s8(1, (3,)), "b": random_s8(2, (3,))}, Numerics.TFLM)
