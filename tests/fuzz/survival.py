# SPDX-License-Identifier: Apache-2.0
"""What must hold of a graph that came out of a damaged file: passes do not change it, and it can be computed."""

from __future__ import annotations

import warnings

import numpy as np

from tests.load.onnx_models import rand
from tinyc.base.errors import TinycError
from tinyc.base.numerics import Numerics
from tinyc.ir.graph import INT_RANGE, NUMPY_DTYPE, Graph
from tinyc.passes import normalize
from tinyc.reference.interpreter import run_float, run_int

RUNNABLE_ELEMENTS = 1 << 16  # of one tensor; the rest of a damaged model is not worth minutes


def compute_onnx(loaded: Graph) -> None:
    """The graph as loaded and its normal form give outputs of the same shapes; of integers the same integers."""
    normal = normalize(loaded)
    if max(value.elements for value in loaded.values.values()) > RUNNABLE_ELEMENTS:
        return
    if any(value.quant for value in loaded.values.values()):
        _compute_integers(loaded, normal)
        return
    feeds = {name: rand(1, *loaded.values[name].shape) for name in loaded.inputs}
    with np.errstate(all="ignore"):
        before, after = run_float(loaded, feeds), run_float(normal, feeds)
    assert {n: a.shape for n, a in before.items()} == {n: a.shape for n, a in after.items()}


def _compute_integers(loaded: Graph, normal: Graph) -> None:
    """Or a TinycError that says what keeps them from being computed."""
    rng = np.random.default_rng(3)
    feeds = {}
    for name in loaded.inputs:
        value = loaded.values[name]
        lo, hi = INT_RANGE.get(value.dtype, (-100, 100))
        feeds[name] = rng.integers(lo, hi + 1, value.shape).astype(NUMPY_DTYPE[value.dtype])
    try:
        before = run_int(loaded, feeds, Numerics.ONNX)
    except TinycError:
        return
    after = run_int(normal, feeds, Numerics.ONNX)
    for name, array in before.items():
        np.testing.assert_array_equal(after[name], array)


def compute_tflite(graph: Graph, numerics: Numerics) -> None:
    """The graph's outputs of zeros, or a TinycError that says why not."""
    if sum(value.elements for value in graph.values.values()) >= 1_000_000:
        return
    zeros = {name: np.zeros(graph.values[name].shape, NUMPY_DTYPE[graph.values[name].dtype]) for name in graph.inputs}
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", RuntimeWarning)  # damaged float weights overflow
            run_int(graph, zeros, numerics)
    except TinycError:
        return
