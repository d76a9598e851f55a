# SPDX-License-Identifier: Apache-2.0
"""units: the integers stay, and mean other reals."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from tests.ops.one_node import tensor
from tinyc.base.errors import TinycError
from tinyc.base.numerics import Numerics
from tinyc.ir.check import check
from tinyc.ir.graph import Graph, Quant
from tinyc.ops import all_ops, node_of
from tinyc.ops.units import ChannelUnits
from tinyc.reference.interpreter import run_float, run_int

UNITS = ChannelUnits((0.5, 8.0, 1.0), -2)
X = np.arange(12, dtype=np.int8).reshape(2, 3, 2)


def graph_of(quant: Quant) -> Graph:
    x = tensor("x", X.shape, 0.25, -3)
    y = replace(x, name="y", quant=quant)
    return Graph("g", ("x",), ("y",), (node_of(UNITS, ("x",), ("y",)),), {"x": x, "y": y})


def test_integers_stay_and_mean_what_the_floats_are() -> None:
    quant = UNITS.quant_of(Quant((0.25,), (-3,)))
    assert quant == Quant((0.125, 2.0, 0.25), (-3, -3, -3), -2)
    graph = graph_of(quant)
    check(graph, "test", all_ops())
    y = run_int(graph, {"x": X}, Numerics.OURS)["y"]
    np.testing.assert_array_equal(y, X)
    floats = replace(
        graph, values={name: replace(value, dtype="f32", quant=None) for name, value in graph.values.items()}
    )
    reals = run_float(floats, {"x": Quant((0.25,), (-3,)).dequantize(X)})["y"]
    np.testing.assert_array_equal(quant.dequantize(y), reals)
    np.testing.assert_array_equal(quant.dequantize(y[None]), reals[None])  # with an axis of samples in front


def test_other_scales_are_refused() -> None:
    with pytest.raises(TinycError, match="in other units"):
        run_int(graph_of(Quant((0.125, 2.0, 0.5), (-3, -3, -3), -2)), {"x": X}, Numerics.OURS)
