# SPDX-License-Identifier: Apache-2.0
"""compare and choose: TensorFlow Lite's bytes, kernels, and both behind each other."""

from __future__ import annotations

import numpy as np
import pytest

from tests.load.tflite_models import act
from tests.ops.harness import check_kernels
from tests.ops.one_node import as_tflite, assert_equals_litert, assert_equals_tflm, one_node, random_s8, tensor
from tests.ops.runtimes import every_pair, run_litert, run_tflm
from tests.ops.tflite_builder import Operator, Tensor, build_model
from tinyc.base.errors import TinycError
from tinyc.base.numerics import Numerics
from tinyc.ir.graph import Value
from tinyc.load import load_model
from tinyc.ops.choose import Choose
from tinyc.ops.compare import KINDS, Compare
from tinyc.reference.interpreter import run_int

SCALES = {"one": (0.1, 3, 0.1, 3), "two": (0.05, -7, 0.11, 90), "fine": (0.0007, 0, 0.5, 0)}


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("name", SCALES)
@pytest.mark.parametrize("theirs", [assert_equals_tflm, assert_equals_litert])
def test_all_comparisons_are_theirs(kind, name, theirs):
    x0, x1 = every_pair()
    scale0, zero0, scale1, zero1 = SCALES[name]
    inputs = [tensor("a", x0.shape, scale0, zero0), tensor("b", x1.shape, scale1, zero1)]
    graph = one_node("compare", Compare(kind), inputs)
    theirs(graph, as_tflite(graph, kind.upper()), {"a": x0, "b": x1})


@pytest.mark.parametrize("shapes", [((1, 5, 7), (1, 5, 1)), ((3, 5), (3, 5))])
def test_kernels_of_comparisons(shapes):
    for kind in ("less", "equal"):
        inputs = [tensor("a", shapes[0], 0.1, 3), tensor("b", shapes[1], 0.07, -5)]
        sample = {"a": random_s8(1, shapes[0]), "b": random_s8(2, shapes[1])}
        graph = one_node("compare", Compare(kind), inputs)
        assert check_kernels(graph, [sample]) == ["tc_compare_s8"]


@pytest.mark.parametrize("scales", [(0.001, 0.001), (3e-5, 9e-5), (20.0, 7.0)])
@pytest.mark.parametrize("dtype", ["s8", "s16"])
def test_models_that_tinyc_quantizes_compare_by_the_larger_scale(scales, dtype):
    """Not in 1/256 of a real, which small ones are less than."""
    kind = np.int8 if dtype == "s8" else np.int16
    x0, x1 = (random_s8(seed, (1, 400)).astype(kind) for seed in (1, 2))
    inputs = [tensor(name, x0.shape, scales[k], 0, dtype) for k, name in enumerate("ab")]
    graph = one_node("compare", Compare("less"), inputs)
    assert check_kernels(graph, [{"a": x0, "b": x1}], Numerics.OURS) == [f"tc_compare_{dtype}"]
    y = run_int(graph, {"a": x0, "b": x1}, Numerics.OURS)["y"]
    apart = np.abs(x0 * scales[0] - x1 * scales[1]) > max(scales) / 100
    np.testing.assert_array_equal(y[apart], (x0 * scales[0] < x1 * scales[1])[apart])


@pytest.mark.parametrize(
    "shapes",
    [((3, 5), (3, 5), (3, 5)), ((5, 1), (3, 5, 7), (7,)), ((1,), (2, 3), (2, 3)), ((2, 1, 3), (2, 4, 1), (3,))],
)
@pytest.mark.parametrize("dtype", ["s8", "s16"])
def test_kernel_of_choose(shapes, dtype):
    values = [
        Value("c", shapes[0], "bool"),
        tensor("a", shapes[1], 0.1, 0, dtype),
        tensor("b", shapes[2], 0.1, 0, dtype),
    ]
    graph = one_node("choose", Choose(), values, 0.1)
    kind = np.int8 if dtype == "s8" else np.int16
    sample = {"c": random_s8(3, shapes[0]) > 0, "a": random_s8(1, shapes[1]).astype(kind)}
    sample["b"] = random_s8(2, shapes[2]).astype(kind)
    np.testing.assert_array_equal(run_int(graph, sample, Numerics.TFLM)["y"], np.where(*sample.values()))
    loops = [f"tc_choose_s8_{core}" for core in ("mve", "dsp", "rvv")] if len({*shapes}) == 1 and dtype == "s8" else []
    assert check_kernels(graph, [sample]) == [*loops, "tc_choose"]


def test_a_threshold_of_a_model_is_theirs(tmp_path):
    """x where it is greater than a constant, else the constant; and where both of two comparisons hold."""
    tensors = [
        act("x", 1, 5, 9),
        Tensor("k", (1,), "s8", (0.05,), (-3,), data=np.array([17], np.int8)),
        Tensor("m", (1, 5, 9), "bool"),
        Tensor("n", (1, 5, 9), "bool"),
        Tensor("both", (1, 5, 9), "bool"),
        act("y", 1, 5, 9),
    ]
    operators = [
        Operator("GREATER", ("x", "k"), ("m",), "GreaterOptions"),
        Operator("NOT_EQUAL", ("x", "k"), ("n",), "NotEqualOptions"),
        Operator("LOGICAL_AND", ("m", "n"), ("both",), "LogicalAndOptions"),
        Operator("SELECT_V2", ("both", "x", "k"), ("y",), "SelectV2Options"),
    ]
    content = build_model(tensors, operators, ["x"], ["y"])
    path = tmp_path / "m.tflite"
    path.write_bytes(content)
    x = random_s8(1, (1, 5, 9))
    ours = run_int(load_model(path), {"x": x}, Numerics.TFLM)["y"]
    for run in (run_tflm, run_litert):
        np.testing.assert_array_equal(ours, run(content, x)[0])


def test_choices_between_scales_are_refused(tmp_path):
    tensors = [Tensor("c", (3,), "bool"), act("a", 3), act("b", 3, scale=0.07), act("y", 3)]
    path = tmp_path / "m.tflite"
    operator = Operator("SELECT_V2", ("c", "a", "b"), ("y",), "SelectV2Options")
    path.write_bytes(build_model(tensors, [operator], ["c", "a", "b"], ["y"]))
    with pytest.raises(TinycError, match="must have the output's scale"):
        load_model(path)
