# SPDX-License-Identifier: Apache-2.0
"""What operators say of themselves holds, and nobody asks for their names."""

from __future__ import annotations

import ast
import dataclasses
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tinyc.ir.graph import Value
from tinyc.kernel.site import RELU6, Act, Pair
from tinyc.ops import all_ops, op_with
from tinyc.ops.absolute import Absolute
from tinyc.ops.add import Add
from tinyc.ops.avg_pool2d import AvgPool2D
from tinyc.ops.broadcast import Broadcast
from tinyc.ops.clip import Clip
from tinyc.ops.concat import Concat
from tinyc.ops.div import Div
from tinyc.ops.extremum import Extremum
from tinyc.ops.function import Function
from tinyc.ops.hard_swish import HardSwish
from tinyc.ops.l2_normalize import L2Normalize
from tinyc.ops.leaky_relu import LeakyRelu
from tinyc.ops.log_softmax import LogSoftmax
from tinyc.ops.max_pool2d import MaxPool2D
from tinyc.ops.mean import Mean
from tinyc.ops.mul import Mul
from tinyc.ops.op import Trait
from tinyc.ops.pad import Pad
from tinyc.ops.pick import Pick
from tinyc.ops.power import Power
from tinyc.ops.reduce_extremum import ReduceExtremum
from tinyc.ops.requantize import Requantize
from tinyc.ops.reshape import Reshape
from tinyc.ops.resize_nearest import ResizeNearest
from tinyc.ops.sigmoid import Sigmoid
from tinyc.ops.slice import Slice
from tinyc.ops.softmax import Softmax
from tinyc.ops.squared_difference import SquaredDifference
from tinyc.ops.sub import Sub
from tinyc.ops.sum import Sum
from tinyc.ops.tanh import Tanh
from tinyc.ops.transpose import Transpose
from tinyc.ops.units import ChannelUnits

PACKAGE = Path(__file__).resolve().parents[2] / "tinyc"
SHAPE = (1, 4, 6, 3)
_POOL = {"kernel": Pair(2, 2), "stride": Pair(2, 2)}

# Attributes that fit inputs of SHAPE, for every operator with a trait that floats can show; how many inputs.
EXAMPLES: Mapping[Any, int] = {
    Absolute(): 1,
    Add(RELU6): 2,
    AvgPool2D(**_POOL): 1,
    Broadcast(SHAPE): 1,
    ChannelUnits((0.5, 2.0, 30.0)): 1,
    Clip(Act(-0.5, 0.5)): 1,
    Concat(2): 2,
    Div(): 2,
    Extremum(True): 2,
    Function("gelu"): 1,
    HardSwish(): 1,
    L2Normalize(): 1,
    LeakyRelu(0.1): 1,
    LogSoftmax(): 1,
    MaxPool2D(**_POOL): 1,
    Mean((1, 2)): 1,
    Mul(): 2,
    Pad((0, 1, 0, 0), (0, 0, 2, 0)): 1,
    Pick(2, (3, 0, 0)): 1,
    Power(2.0): 1,
    ReduceExtremum((1,), True): 1,
    Requantize(): 1,
    Reshape((1, 24, 3)): 1,
    ResizeNearest((0, 0, 1, 3), (5, 2)): 1,
    Sigmoid(): 1,
    Slice((0, 1, 0, 0), (1, 2, 3, 3), (1, 1, 2, 1)): 1,
    Softmax(): 1,
    SquaredDifference(): 2,
    Sub(): 2,
    Sum((1, 2)): 1,
    Tanh(): 1,
    Transpose((0, 2, 1, 3)): 1,
}
NO_FLOATS = {"lookup", "quantize", "requantize", "compare", "choose"}  # their inputs or outputs are no floats


def _with(trait: Trait) -> list[Any]:
    """The examples of the operators that claim the trait; every one must have an example."""
    claimed = {name for name, op in all_ops().items() if trait in op.traits} - NO_FLOATS
    shown = [a for a in EXAMPLES if op_with(a).name in claimed]
    assert {op_with(a).name for a in shown} == claimed, "give an example of each"
    return shown


def _inputs(attrs: Any, seed: int = 0) -> list[np.ndarray]:
    rng = np.random.default_rng(seed)
    return [rng.normal(size=SHAPE).astype(np.float32) for _ in range(EXAMPLES[attrs])]


def _run(attrs: Any, *inputs: np.ndarray) -> np.ndarray:
    (y,) = op_with(attrs).float_ref(attrs, *inputs)
    return np.asarray(y)


def test_every_operator_has_attributes_of_its_own() -> None:
    classes = [op.attrs for op in all_ops().values()]
    assert len(set(classes)) == len(classes)


@pytest.mark.parametrize("trait", [Trait.ELEMENTWISE, Trait.BROADCASTS])
def test_elementwise_commutes_with_any_order_of_the_elements(trait: Trait) -> None:
    for attrs in _with(trait):
        inputs = _inputs(attrs)
        order = np.random.default_rng(1).permutation(inputs[0].size)
        moved = [x.ravel()[order] for x in inputs]
        np.testing.assert_array_equal(_run(attrs, *moved), _run(attrs, *inputs).ravel()[order], str(attrs))


def test_what_broadcasts_repeats_the_smaller_tensor() -> None:
    for attrs in _with(Trait.BROADCASTS):
        first, second = _inputs(attrs)
        repeated = np.broadcast_to(second[:, :1, :, :1], SHAPE)
        np.testing.assert_array_equal(
            _run(attrs, first, second[:, :1, :, :1]), _run(attrs, first, repeated), str(attrs)
        )


@pytest.mark.parametrize("trait", [Trait.MOVES, Trait.SELECTS])
def test_what_keeps_values_commutes_with_every_rising_function(trait: Trait) -> None:
    for attrs in _with(trait):
        inputs = _inputs(attrs)
        np.testing.assert_array_equal(_run(attrs, *(x**3 for x in inputs)), _run(attrs, *inputs) ** 3, str(attrs))


def test_what_moves_works_on_integers_as_they_are() -> None:
    for attrs in _with(Trait.MOVES):
        integers = [(x * 50).astype(np.int8) for x in _inputs(attrs)]
        y = _run(attrs, *integers)
        np.testing.assert_array_equal(y, _run(attrs, *(x.astype(np.float32) for x in integers)), str(attrs))
        assert y.dtype == np.int8


def test_shares_add_up_to_one() -> None:
    for attrs in _with(Trait.SHARES):
        np.testing.assert_allclose(_run(attrs, *_inputs(attrs)).sum(axis=-1), 1, rtol=1e-6, err_msg=str(attrs))


def test_what_rescales_gives_the_reals_of_its_input() -> None:
    x = np.random.default_rng(0).normal(size=SHAPE).astype(np.float32)
    claimed = [op for op in all_ops().values() if Trait.RESCALES in op.traits]
    assert claimed
    for op in claimed:
        np.testing.assert_array_equal(op.float_ref(op.attrs("s16"), x)[0], x, op.name)


def test_what_says_its_width_has_a_place_for_it() -> None:
    claimed = [op for op in all_ops().values() if Trait.SAYS_WIDTH in op.traits]
    assert claimed
    for op in claimed:
        assert "dtype" in {field.name for field in dataclasses.fields(op.attrs)}, op.name


def test_what_is_monotone_never_falls() -> None:
    for attrs in _with(Trait.MONOTONE):
        inputs = _inputs(attrs)
        more = [x + np.abs(other) for x, other in zip(inputs, _inputs(attrs, 1), strict=True)]
        assert (_run(attrs, *more) >= _run(attrs, *inputs)).all(), attrs


def test_what_works_along_the_last_axis_takes_any_before_it() -> None:
    for attrs in _with(Trait.LAST_AXIS):
        (x,) = _inputs(attrs)
        np.testing.assert_array_equal(_run(attrs, x.reshape(-1, 3)), _run(attrs, x).reshape(-1, 3), str(attrs))


def test_what_scales_does() -> None:
    shown = [a for a in EXAMPLES if op_with(a).scales(a)]
    assert shown
    for attrs in shown:
        (x,) = _inputs(attrs)
        np.testing.assert_array_equal(_run(attrs, x * 4), _run(attrs, x) * 4, str(attrs))


def test_channels_are_made_from_those_that_an_operator_says() -> None:
    """Where channel c of the input changes, only the output channels made from it do."""
    for attrs in EXAMPLES:
        inputs = _inputs(attrs)
        y = _run(attrs, *inputs)
        if not y.shape:
            continue
        source = _channels(attrs, y.shape)
        for channel in range(3) if source is not None else ():
            changed = [x + (np.arange(3) == channel).astype(np.float32) for x in inputs]
            differs = (_run(attrs, *changed) != y).reshape(-1, y.shape[-1]).any(axis=0)
            assert not (differs & (source != channel)).any(), attrs


def _channels(attrs: Any, shape: tuple[int, ...]) -> Any:
    channels = op_with(attrs).channels
    return None if channels is None else channels(attrs, Value("x", SHAPE, "f32"), Value("y", shape, "f32"))


ASKING = [
    file
    for room in ("passes", "quantize", "export", "explain", "verify", "load")
    for file in (PACKAGE / room).rglob("*.py")
]


@pytest.mark.parametrize("file", ASKING, ids=lambda file: str(file.relative_to(PACKAGE)))
def test_nobody_compares_the_name_of_an_operator(file: Path) -> None:
    """`node.op == "conv2d"` is a question for a trait, or for the class of the node's attributes."""
    for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Compare) and isinstance(node.left, ast.Attribute) and node.left.attr == "op":
            named = {n.value for n in ast.walk(node) if isinstance(n, ast.Constant)} & all_ops().keys()
            assert not named, f"{file}:{node.lineno}: {ast.unparse(node)}"
