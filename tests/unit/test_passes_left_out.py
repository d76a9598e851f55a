# SPDX-License-Identifier: Apache-2.0
"""Passes say which operators they begin with, and do not run on graphs that have none of them."""

from __future__ import annotations

import importlib
import pkgutil
from pathlib import Path

import pytest

from tests.load.onnx_models import load
from tests.ops.weighted import Layer, graph_of
from tests.unit.networks import random_network
from tinyc import passes
from tinyc.base.numerics import Numerics
from tinyc.ir.graph import Graph
from tinyc.ops import has
from tinyc.ops.depthwise_conv2d import DepthwiseConv2D
from tinyc.ops.softmax import Softmax
from tinyc.passes import normalize
from tinyc.passes.attention import join_attention
from tinyc.passes.rewrite import Pass, begins_with
from tinyc.passes.single import single_channels
from tinyc.passes.tables import join_tables

SEEDS = range(40)


def gated() -> dict[str, Pass[...]]:
    """All passes that say what they begin with, by name."""
    names = [info.name for info in pkgutil.iter_modules(passes.__path__)]
    modules = [importlib.import_module(f"{passes.__name__}.{name}") for name in names]
    return {name: own for module in modules for name, own in vars(module).items() if isinstance(own, Pass)}


@pytest.mark.parametrize("seed", SEEDS)
def test_they_would_change_nothing(tmp_path: Path, seed: int) -> None:
    """Every other graph of the tests says it, too (conftest.py)."""
    loaded = normalize(load(random_network(seed), tmp_path))
    for name, own in gated().items():
        rest = (Numerics.OURS,) if own in (join_attention, join_tables) else ()
        if not has(loaded, *own.kinds):
            assert own.work(loaded, *rest) == loaded, name
            assert own(loaded, *rest) is loaded, name


def test_the_tests_notice_one_that_would() -> None:
    """A pass over depthwise convolutions that says it begins with a softmax."""

    @begins_with(Softmax)
    def wrong(graph: Graph) -> Graph:
        return single_channels.work(graph)

    with pytest.raises(AssertionError, match="wrong"):
        wrong(graph_of(Layer("depthwise_conv2d", DepthwiseConv2D(), (1, 9, 8, 1), (3, 3, 4))))
