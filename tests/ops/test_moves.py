# SPDX-License-Identifier: Apache-2.0
"""slice, resize, extremum, absolute, argmax, lookup: TensorFlow Lite Micro's integers, kernels, errors."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from tests.ops.harness import check_kernels, copying
from tests.ops.one_node import as_tflite, assert_equals_tflm, one_node, random_s8, tensor
from tests.ops.runtimes import every_byte, litert_sequence, run_tflm
from tests.ops.tflite_builder import Operator, Tensor, build_model
from tinyc.base.errors import TinycError
from tinyc.base.numerics import Numerics
from tinyc.ir.graph import Array, Quant, Shape, Value
from tinyc.load import load_model
from tinyc.load.resizing import bilinear_onnx, nearest_onnx, nearest_tflite
from tinyc.ops.absolute import Absolute
from tinyc.ops.absolute import float_ref as absolute_float
from tinyc.ops.argmax import ArgMax
from tinyc.ops.extremum import Extremum
from tinyc.ops.lookup import Lookup, of_bytes
from tinyc.ops.requantize import Requantize
from tinyc.ops.resize_bilinear import FINE, ResizeBilinear, bilinear_tflite
from tinyc.ops.resize_bilinear import float_ref as bilinear_float
from tinyc.ops.resize_nearest import ResizeNearest
from tinyc.ops.slice import Slice, whole
from tinyc.ops.top_k import TopK
from tinyc.passes import normalize
from tinyc.reference.interpreter import run_float, run_int

SLICES = [
    ((1, 5, 7, 3), (0, 1, 2, 0), (1, 3, 4, 3), (1, 1, 1, 1)),
    ((1, 5, 7, 3), (0, 4, 6, 2), (1, 3, 4, 2), (1, -2, -2, -1)),
    ((2, 3, 4, 5, 6), (1, 0, 1, 0, 3), (1, 2, 2, 5, 2), (1, 2, 2, 1, 2)),
    ((7,), (0,), (7,), (1,)),
]


@pytest.mark.parametrize(("shape", "begin", "size", "step"), SLICES)
@pytest.mark.parametrize("dtype", ["s8", "s16", "f32"])
def test_slice(shape: Shape, begin: Shape, size: Shape, step: Shape, dtype: str) -> None:
    x = tensor("x", shape, 0.0 if dtype == "f32" else 0.1, 0, dtype)  # type: ignore[arg-type]
    graph = one_node("slice", Slice(begin, size, step), [x], x.quant.scale[0] if x.quant else 0.0)
    data = np.arange(np.prod(shape)).reshape(shape).astype({"s8": np.int8, "s16": np.int16, "f32": np.float32}[dtype])
    ends = [b + (n - 1) * d for b, n, d in zip(begin, size, step, strict=True)]
    index = tuple(
        slice(b, (None if e + (1 if d > 0 else -1) < 0 else e + (1 if d > 0 else -1)), d)
        for b, e, d in zip(begin, ends, step, strict=True)
    )
    if dtype != "f32":
        np.testing.assert_array_equal(run_int(graph, {"x": data}, Numerics.TFLM)["y"], data[index])
    if dtype != "s16" or len(shape) == 5:
        names = check_kernels(graph, [{"x": data}]) if dtype != "f32" else copying("tc_slice")
        assert names == copying("tc_slice")


def test_slice_errors() -> None:
    x = tensor("x", (1, 5), 0.1)
    for attrs in (Slice((0, 3), (1, 3), (1, 1)), Slice((0, 0), (1, 0), (1, 1)), Slice((0,), (1,), (1,))):
        with pytest.raises(TinycError, match="slice"):
            one_node("slice", attrs, [x], 0.1)
    assert whole((1, 5), 1, 2, 3) == Slice((0, 2), (1, 3), (1, 1))


def resized(code: str, options: str, rule: dict[str, bool], size: Shape, x: Array) -> Array:
    """What TensorFlow Lite Micro makes of an image."""
    out = (1, *size, x.shape[3])
    tensors = [Tensor("x", x.shape, "s8", (0.1,), (3,)), Tensor("n", (2,), "s32", data=np.array(size, np.int32))]
    tensors.append(Tensor("y", out, "s8", (0.1,), (3,)))
    fields = {"AlignCorners": rule["align_corners"], "HalfPixelCenters": rule["half_pixel"]}
    return run_tflm(build_model(tensors, [Operator(code, ("x", "n"), ("y",), options, fields, 3)], ["x"], ["y"]), x)[0]


RULES = [{"align_corners": a, "half_pixel": h} for a, h in ((False, False), (False, True), (True, False))]
SIZES = [(10, 14), (3, 4), (5, 7), (9, 2), (1, 1)]


@pytest.mark.parametrize("rule", RULES)
def test_resize_is_tflms(rule: dict[str, bool]) -> None:
    x = random_s8(1, (1, 5, 7, 3))
    for size in SIZES:
        rows, columns = (nearest_tflite(x.shape[1 + k], size[k], **rule) for k in (0, 1))
        graph = one_node("resize_nearest", ResizeNearest(rows, columns), [tensor("x", x.shape, 0.1, 3)], 0.1, 3)
        theirs = resized("RESIZE_NEAREST_NEIGHBOR", "ResizeNearestNeighborOptions", rule, size, x)
        np.testing.assert_array_equal(run_int(graph, {"x": x}, Numerics.TFLM)["y"], theirs)
        taps = [bilinear_tflite(x.shape[1 + k], size[k], **rule) for k in (0, 1)]
        graph = one_node("resize_bilinear", ResizeBilinear(*taps), [tensor("x", x.shape, 0.1, 3)], 0.1, 3)
        theirs = resized("RESIZE_BILINEAR", "ResizeBilinearOptions", rule, size, x)
        np.testing.assert_array_equal(run_int(graph, {"x": x}, Numerics.TFLM)["y"], theirs)


@pytest.mark.parametrize("rule", RULES)
@pytest.mark.parametrize("numerics", ["tflm", "litert"])
def test_resize_of_16_bits_is_that_of_litert(numerics: Numerics, rule: dict[str, bool], tmp_path: Path) -> None:
    """TensorFlow Lite Micro has none."""
    x = np.random.default_rng(1).integers(-(2**15), 2**15, (1, 5, 7, 3)).astype(np.int16)
    fields = {"AlignCorners": rule["align_corners"], "HalfPixelCenters": rule["half_pixel"]}
    for size in SIZES:
        tensors = [
            Tensor("x", x.shape, "s16", (0.001,), (0,)),
            Tensor("size", (2,), "s32", data=np.array(size, np.int32)),
            Tensor("y", (1, *size, 3), "s16", (0.001,), (0,)),
        ]
        operator = Operator("RESIZE_BILINEAR", ("x", "size"), ("y",), "ResizeBilinearOptions", fields, 3)
        file = build_model(tensors, [operator], ["x"], ["y"])
        ((theirs,),) = litert_sequence(file, [[x]])
        (tmp_path / "m.tflite").write_bytes(file)
        graph = normalize(load_model(tmp_path / "m.tflite"))
        np.testing.assert_array_equal(run_int(graph, {"x": x}, Numerics(numerics))["y"], theirs)


@pytest.mark.parametrize("rule", RULES)
def test_resize_of_reals_is_that_of_litert(rule: dict[str, bool], tmp_path: Path) -> None:
    """Weights of float32, not of 1/1024."""
    x = np.random.default_rng(1).standard_normal((1, 5, 7, 3)).astype(np.float32)
    fields = {"AlignCorners": rule["align_corners"], "HalfPixelCenters": rule["half_pixel"]}
    for size in (*SIZES, (13, 9)):
        tensors = [
            Tensor("x", x.shape, "f32"),
            Tensor("size", (2,), "s32", data=np.array(size, np.int32)),
            Tensor("y", (1, *size, 3), "f32"),
        ]
        operator = Operator("RESIZE_BILINEAR", ("x", "size"), ("y",), "ResizeBilinearOptions", fields)
        file = build_model(tensors, [operator], ["x"], ["y"])
        ((theirs,),) = litert_sequence(file, [[x]])
        (tmp_path / "m.tflite").write_bytes(file)
        graph = normalize(load_model(tmp_path / "m.tflite"))
        np.testing.assert_allclose(run_float(graph, {"x": x})["y"], theirs, rtol=1e-5, atol=2e-6)


def test_resize_kernels() -> None:
    x = tensor("x", (1, 5, 7, 3), 0.1, 3)
    rule = RULES[1]
    nearest = ResizeNearest(*(nearest_tflite(n, m, **rule) for n, m in ((5, 9), (7, 16))))
    bilinear = ResizeBilinear(*(bilinear_tflite(n, m, **rule) for n, m in ((5, 9), (7, 16))))
    samples = [{"x": random_s8(2, (1, 5, 7, 3))}, {"x": np.full((1, 5, 7, 3), -128, np.int8)}]
    assert check_kernels(one_node("resize_nearest", nearest, [x], 0.1, 3), samples) == copying("tc_resize_nearest")
    assert check_kernels(one_node("resize_bilinear", bilinear, [x], 0.1, 3), samples) == ["tc_resize_bilinear_s8"]
    wide = [{"x": np.random.default_rng(3).integers(-(2**15), 2**15, (1, 5, 7, 3)).astype(np.int16)}]
    wide += [{"x": np.full((1, 5, 7, 3), end, np.int16)} for end in (-(2**15), 2**15 - 1)]
    graph = one_node("resize_bilinear", bilinear, [tensor("x", (1, 5, 7, 3), 0.001, 0, "s16")], 0.001)
    assert check_kernels(graph, wide) == ["tc_resize_bilinear_s16"]
    real = samples[0]["x"].astype(np.float32)
    np.testing.assert_allclose(
        bilinear_float(bilinear, real)[0],
        run_int(one_node("resize_bilinear", bilinear, [x], 0.1, 3), samples[0], Numerics.TFLM)["y"],
        atol=0.51,
    )


def test_rules_of_onnx() -> None:
    assert nearest_onnx(2, 4, 2.0, "asymmetric", "floor") == (0, 0, 1, 1)
    assert nearest_onnx(4, 2, 0.5, "half_pixel", "round_prefer_floor") == (0, 2)
    assert nearest_onnx(4, 2, 0.5, "half_pixel", "round_prefer_ceil") == (1, 3)
    assert bilinear_onnx(2, 4, 2.0, "half_pixel") == (
        (0, 1, 0),
        (0, 1, FINE // 4),
        (0, 1, 3 * FINE // 4),
        (1, 1, 0),
    )
    assert bilinear_onnx(3, 2, 2 / 3, "align_corners") == ((0, 1, 0), (2, 2, 0))
    with pytest.raises(ValueError, match="no_rule"):
        bilinear_onnx(2, 4, 2.0, "no_rule")


@pytest.mark.parametrize("largest", [True, False])
def test_extremum(largest: bool) -> None:
    inputs = [tensor("a", (1, 3, 5, 7), 0.1, 3), tensor("b", (1, 3, 5, 7), 0.1, 3)]
    graph = one_node("extremum", Extremum(largest), inputs, 0.1, 3)
    sample = {"a": random_s8(1, (1, 3, 5, 7)), "b": random_s8(2, (1, 3, 5, 7))}
    code = "MAXIMUM" if largest else "MINIMUM"
    assert_equals_tflm(graph, as_tflite(graph, code, "MaximumMinimumOptions"), sample)
    assert check_kernels(graph, [sample])[-1] == "tc_extremum_s8"
    broad = one_node("extremum", Extremum(largest), [inputs[0], tensor("b", (7,), 0.1, 3)], 0.1, 3)
    check_kernels(broad, [{"a": sample["a"], "b": random_s8(3, (7,))}])


@pytest.mark.parametrize("y_scale", [0.1, 0.073])
def test_absolute(y_scale: float) -> None:
    graph = one_node("absolute", Absolute(), [tensor("x", (1, 256), 0.1, 9)], y_scale, -100)
    assert_equals_tflm(graph, as_tflite(graph, "ABS", "AbsOptions"), {"x": every_byte()})
    assert run_int(graph, {"x": every_byte()}, Numerics.ONNX)["y"][0, 128 + 9] == -100
    np.testing.assert_array_equal(absolute_float(Absolute(), np.float32([-2, 3]))[0], [2, 3])


@pytest.mark.parametrize(("axis", "largest"), [(-1, True), (1, False), (2, True)])
def test_argmax(axis: int, largest: bool) -> None:
    graph = one_node("argmax", ArgMax(axis, largest), [tensor("x", (1, 5, 4, 6), 0.1, 3)])
    sample = {"x": random_s8(3, (1, 5, 4, 6)) // 32}  # many equals
    y = run_int(graph, sample, Numerics.TFLM)["y"]
    places = sample["x"].argmax(axis) if largest else sample["x"].argmin(axis)
    np.testing.assert_array_equal(y, places)
    assert check_kernels(graph, [sample]) == ["tc_argmax_s8"]


@pytest.mark.parametrize(("axis", "k", "largest"), [(-1, 4, True), (1, 2, False), (2, 4, True)])
def test_top_k_takes_the_first_of_equals(axis: int, k: int, largest: bool) -> None:
    graph = one_node("top_k", TopK(axis, k, largest), [tensor("x", (1, 5, 4, 6), 0.1, 3)])
    sample = {"x": random_s8(3, (1, 5, 4, 6)) // 32}  # many equals
    order = np.argsort(-sample["x"].astype(int) if largest else sample["x"], axis, kind="stable")
    places = np.take(order, range(k), axis)
    np.testing.assert_array_equal(run_int(graph, sample, Numerics.TFLM)["y"], places)
    assert check_kernels(graph, [sample]) == ["tc_top_k_s8"]


def test_lookup() -> None:
    table = random_s8(4, (256,))
    values = [tensor("x", (1, 256), 0.1, 3), Value("t", (256,), "s8", Quant((0.2,), (1,)))]
    graph = one_node("lookup", Lookup(), values, 0.2, 1, {"t": table})
    y = run_int(graph, {"x": every_byte()}, Numerics.ONNX)["y"][0]
    np.testing.assert_array_equal(of_bytes(y), table)
    assert check_kernels(graph, [{"x": every_byte()}]) == ["tc_lut_s8_mve", "tc_lut_s8"]
    with pytest.raises(TinycError, match="256 entries"):
        one_node("lookup", Lookup(), [values[0], tensor("t", (255,), 0.1)], 0.2)


def test_bytes_with_and_without_sign() -> None:
    graph = one_node("requantize", Requantize("u8"), [tensor("x", (1, 256), 0.1, -5)], 0.1, 123)
    assert check_kernels(graph, [{"x": every_byte()}], Numerics.ONNX) == ["tc_flip_s8", "tc_lut_s8_mve", "tc_lut_s8"]
