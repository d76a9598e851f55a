# SPDX-License-Identifier: Apache-2.0
"""squared_difference, power, prelu and reduce_extremum: TensorFlow Lite's integers over all inputs, kernels."""

from __future__ import annotations

import math

import numpy as np
import pytest

from tests.ops.harness import check_kernels
from tests.ops.one_node import as_tflite, assert_equals_litert, assert_equals_tflm, one_node, random_s8, tensor
from tests.ops.runtimes import every_byte, every_pair, run_tflm
from tests.ops.tflite_builder import Operator, Tensor, build_model
from tinyc.base.errors import TinycError
from tinyc.base.numerics import Numerics
from tinyc.ir.graph import Graph
from tinyc.kernel.site import Site
from tinyc.load import load_model
from tinyc.ops.function import FUNCTIONS, Function, float_ref
from tinyc.ops.power import Power
from tinyc.ops.power import float_ref as power_float
from tinyc.ops.prelu import Prelu, slope_form
from tinyc.ops.prelu import prepare as prepare_prelu
from tinyc.ops.reduce_extremum import ReduceExtremum
from tinyc.ops.squared_difference import SquaredDifference
from tinyc.reference.interpreter import run_float, run_int

# x0 scale and zero, x1 scale and zero, y scale and zero
SQUARES = {
    "plain": (0.1, 3, 0.07, -5, 0.5, 10),
    "unlike": (0.02, 11, 0.3, -90, 25.0, -128),
    "equal": (0.05, 0, 0.05, 0, 0.7, -128),
    "normalization": (0.037, 1, 0.0064, -23, 0.1, -128),
    "saturates": (0.2, -128, 0.2, 127, 1.0, 5),
}
ROOTS = [(0.0169, 0.0076, -128), (0.1, 0.02, -128), (1.0, 0.004, -100), (0.0003, 0.3, 3), (3.7, 0.0021, -128)]


def squares(setting: str, shape0: tuple[int, ...], shape1: tuple[int, ...]) -> Graph:
    scale0, zero0, scale1, zero1, y_scale, y_zero = SQUARES[setting]
    inputs = [tensor("a", shape0, scale0, zero0), tensor("b", shape1, scale1, zero1)]
    return one_node("squared_difference", SquaredDifference(), inputs, y_scale, y_zero)


@pytest.mark.parametrize("setting", SQUARES)
@pytest.mark.parametrize("theirs", [assert_equals_tflm, assert_equals_litert])
def test_all_squares_are_tflites(setting, theirs):
    x0, x1 = every_pair()
    graph = squares(setting, x0.shape, x1.shape)
    theirs(graph, as_tflite(graph, "SQUARED_DIFFERENCE", "SquaredDifferenceOptions"), {"a": x0, "b": x1})


@pytest.mark.parametrize(
    ("shapes", "numerics"), [(((1, 5, 7), (1, 5, 1)), Numerics.TFLM), (((1, 3, 1, 9), (1, 1, 5, 1)), Numerics.OURS)]
)
def test_kernels_of_squares(shapes, numerics):
    sample = {"a": random_s8(1, shapes[0]), "b": random_s8(2, shapes[1])}
    check_kernels(squares("plain", *shapes), [sample], numerics)


def test_squares_too_large_for_their_output_are_an_error():
    graph = one_node("squared_difference", SquaredDifference(), [tensor(n, (3,), 10.0) for n in "ab"], 0.01)
    with pytest.raises(TinycError, match="int32"):
        run_int(graph, {"a": random_s8(1, (3,)), "b": random_s8(2, (3,))}, Numerics.TFLM)


@pytest.mark.parametrize("scales", ROOTS)
@pytest.mark.parametrize("theirs", [assert_equals_tflm, assert_equals_litert])
def test_inverse_roots_are_tflites(scales, theirs):
    """Of all that are not negative: of others TensorFlow Lite refuses to compute any."""
    x_scale, y_scale, y_zero = scales
    x = np.arange(-127, 128, dtype=np.int8).reshape(1, 255)
    graph = one_node("power", Power(-0.5), [tensor("x", x.shape, x_scale, -128)], y_scale, y_zero)
    theirs(graph, as_tflite(graph, "RSQRT"), {"x": x})


@pytest.mark.parametrize("exponent", [0.5, -0.5, -1.0, 3.0])
def test_power_rounds_the_reals(exponent):
    graph = one_node("power", Power(exponent), [tensor("x", (1, 256), 0.01, -100)], 0.02, -110)
    rounded = run_int(graph, {"x": every_byte()}, Numerics.OURS)["y"]
    real = (every_byte().astype(np.float64) + 100) * float(np.float32(0.01))
    for v, q in zip(real.ravel(), rounded.ravel(), strict=True):
        if (v == 0 and exponent < 0) or (v < 0 and exponent != int(exponent)):
            assert q == 127
        else:
            y = v**exponent / float(np.float32(0.02)) - 110
            assert abs(max(-128.0, min(127.0, y)) - q) <= 0.5 + 1e-4


def test_power_of_reals():
    x = np.float32([0.25, 4, 9])
    np.testing.assert_allclose(power_float(Power(-0.5), x)[0], [2, 0.5, 1 / 3], rtol=1e-6)
    assert math.isinf(power_float(Power(-1.0), np.float32([0]))[0][0])


# x scale and zero, slope scale and zero, y scale and zero
SLOPES = {
    "plain": (0.1, 3, 0.01, -5, 0.08, 10),
    "steep": (0.02, 11, 0.3, -90, 0.02, -31),
    "up": (2.0, 0, 1.0, 0, 0.3, 5),
}


@pytest.mark.parametrize("setting", SLOPES)
@pytest.mark.parametrize("theirs", [assert_equals_tflm, assert_equals_litert])
def test_all_slopes_are_tflites(setting, theirs):
    x_scale, x_zero, s_scale, s_zero, y_scale, y_zero = SLOPES[setting]
    x = np.repeat(every_byte(), 256, axis=0).reshape(1, 256, 256)
    slopes = every_byte().reshape(256, 1)
    inputs = [tensor("x", x.shape, x_scale, x_zero), tensor("s", slopes.shape, s_scale, s_zero)]
    graph = one_node("prelu", Prelu(), inputs, y_scale, y_zero, {"s": slopes})
    theirs(graph, as_tflite(graph, "PRELU"), {"x": x})


def test_kernel_of_prelu():
    inputs = [tensor("x", (1, 3, 5, 7), 0.1, 3), tensor("s", (1, 1, 7), 0.01, -5)]
    graph = one_node("prelu", Prelu(), inputs, 0.08, 10, {"s": random_s8(2, (1, 1, 7))})
    loops = ["tc_prelu_s8_mve", "tc_prelu_s8_thumb2", "tc_prelu_s8_rvv"]
    assert check_kernels(graph, [{"x": random_s8(1, (1, 3, 5, 7))}]) == [*loops, "tc_prelu_s8"]


@pytest.mark.parametrize("setting", SLOPES)
@pytest.mark.parametrize("numerics", Numerics)
def test_linear_forms_of_slopes_are_exact(setting, numerics):
    """One in each of these settings at least, and each gives the reference's bytes for every input."""
    x_scale, x_zero, s_scale, s_zero, y_scale, y_zero = SLOPES[setting]
    forms = 0
    for slope in range(-128, 128, 15):
        slopes = np.int8([slope, min(slope + 3, 127)])
        inputs = [tensor("x", (1, 256, 2), x_scale, x_zero), tensor("s", (2,), s_scale, s_zero)]
        graph = one_node("prelu", Prelu(), inputs, y_scale, y_zero, {"s": slopes})
        p = prepare_prelu(Site(graph, graph.nodes[0], numerics))
        form = slope_form(p, slopes)
        if form is not None:
            forms += 1
            v = np.arange(-128, 128)[:, None] - x_zero
            y = np.minimum(v, 0) * form.more[slopes.astype(int) + 128] + form.c + v * form.a
            x = np.arange(-128, 128).astype(np.int8)[:, None]
            np.testing.assert_array_equal(np.clip(y >> form.shift, -128, 127), p.run(x, slopes))
            assert np.abs(y).max() < 2**31 - 2**24
    assert forms


@pytest.mark.parametrize("mode", [0, 1])
def test_mirrored_padding_is_tflites(tmp_path, mode):
    pads = np.array([[0, 0], [2, 1], [1, 2], [0, 0]], np.int32)
    tensors = [
        Tensor("x", (1, 3, 4, 2), "s8", (0.1,), (3,)),
        Tensor("p", (4, 2), "s32", data=pads),
        Tensor("y", (1, 6, 7, 2), "s8", (0.1,), (3,)),
    ]
    content = build_model(
        tensors, [Operator("MIRROR_PAD", ("x", "p"), ("y",), "MirrorPadOptions", {"Mode": mode})], "x", "y"
    )
    path = tmp_path / "model.tflite"
    path.write_bytes(content)
    x = random_s8(1, (1, 3, 4, 2))
    (theirs,) = run_tflm(content, x)
    np.testing.assert_array_equal(run_int(load_model(path), {"x": x}, Numerics.TFLM)["y"], theirs)


FUNCTION_SCALES = {"ELU": (0.05, 10, 0.03, -90), "EXP": (0.02, 3, 0.1, -128), "GELU": (0.05, -3, 0.03, -90)}


@pytest.mark.parametrize(
    ("code", "theirs"), [("ELU", assert_equals_tflm), *((code, assert_equals_litert) for code in FUNCTION_SCALES)]
)
def test_functions_are_tflites(code, theirs):
    """TensorFlow Lite Micro has ELU only."""
    x_scale, x_zero, y_scale, y_zero = FUNCTION_SCALES[code]
    graph = one_node("function", Function(code.lower()), [tensor("x", (1, 256), x_scale, x_zero)], y_scale, y_zero)
    options = ("GeluOptions", {"Approximate": False}) if code == "GELU" else ("", {})
    theirs(graph, as_tflite(graph, code, *options), {"x": every_byte()})


EXTREMA = {
    "last axis": ((1, 5, 7), (2,), False),
    "middle": ((3, 5, 2), (1,), True),
    "image": ((1, 3, 5, 9), (1, 2), False),
    "everything": ((2, 3, 3), (0, 1, 2), False),
}


def extremum(name: str, largest: bool) -> Graph:
    shape, axes, keep = EXTREMA[name]
    return one_node("reduce_extremum", ReduceExtremum(axes, keep, largest), [tensor("x", shape, 0.1, 7)], 0.1, 7)


@pytest.mark.parametrize("name", EXTREMA)
@pytest.mark.parametrize("largest", [True, False])
def test_extrema_are_numpys_and_tflites(name, largest):
    shape, axes, keep = EXTREMA[name]
    graph, x = extremum(name, largest), random_s8(3, shape)
    expected = np.max(x, axes, keepdims=keep) if largest else np.min(x, axes, keepdims=keep)
    np.testing.assert_array_equal(run_int(graph, {"x": x}, Numerics.TFLM)["y"], expected)
    assert run_float(graph, {"x": x.astype(np.float32)})["y"].tolist() == expected.tolist()
    if name in ("middle", "last axis"):
        lines = [f"tc_reduce_extremum_s8_{core}" for core in ("mve", "dsp", "rvv") if name == "middle"]
        assert check_kernels(graph, [{"x": x}]) == [*lines, "tc_reduce_extremum_s8"]
    y = graph.values["y"]
    assert y.quant is not None
    tensors = [
        Tensor("x", shape, "s8", y.quant.scale, y.quant.zero),
        Tensor("axes", (len(axes),), "s32", data=np.array(axes, np.int32)),
        Tensor("y", y.shape, "s8", y.quant.scale, y.quant.zero),
    ]
    code = "REDUCE_MAX" if largest else "REDUCE_MIN"
    operator = Operator(code, ("x", "axes"), ("y",), "ReducerOptions", {"KeepDims": keep})
    model = build_model(tensors, [operator], ("x",), ("y",))
    assert_equals_litert(graph, model, {"x": x})
    if largest:
        assert_equals_tflm(graph, model, {"x": x})


@pytest.mark.parametrize("name", FUNCTIONS)
def test_functions_of_what_is_not_finite(name: str) -> None:
    """A damaged model, or calibration inputs with gaps, end in a message about them and not in one about `math`."""
    x = np.array([np.nan, np.inf, -np.inf, 3e38, 1.5], np.float32)
    (y,) = float_ref(Function(name), x)
    assert np.isnan(y[0])
    assert np.isfinite(y[4]) == (name not in ("acos", "asin", "atanh"))  # which have no value at 1.5
    if name in ("ceil", "floor", "round"):
        np.testing.assert_array_equal(y[1:3], x[1:3])
