# SPDX-License-Identifier: Apache-2.0
"""MaxPool's second output, and MaxUnpool. `imported` asserts equality with ONNX Runtime, also after the passes.

Random ones: test_onnx_random.py."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest

from tests.load.onnx_models import build, imported, load, one, op, ops_of, rand
from tinyc import build as build_library
from tinyc.base.errors import TinycError

HALVES: dict[str, Any] = {"kernel_shape": [2, 2], "strides": [2, 2]}
ONES: dict[str, Any] = {"kernel_shape": [1, 1], "strides": [1, 1]}


def segments(unpool: dict[str, Any], *shape: int) -> onnx.ModelProto:
    """As SegNet has it: the places of the encoder's maxima are the decoder's."""
    nodes = [
        op("MaxPool", "x", "p i", **HALVES),
        op("Conv", "p w", "d", pads=[1] * 4),
        op("MaxUnpool", "d i s", "y", **unpool),
    ]
    constants = {"w": rand(1, 3, 3, 3, 3), "s": np.array(shape, np.int64)}
    return build(nodes, {"x": [1, 3, 7, 8]}, ["y"], constants, opset=11)


def test_numbers_go_back_to_where_the_maxima_were(tmp_path: Path) -> None:
    model = segments(HALVES, 1, 3, 7, 8)
    imported(model, tmp_path)
    onnx.save(model, tmp_path / "segments.onnx")
    library = build_library(tmp_path / "segments.onnx", board="host", precision="float32", out=tmp_path / "made")
    assert library.report.passed


def test_pytorch_counts_in_planes(tmp_path: Path) -> None:
    """Its exporter takes away the place of the plane's first element, which it gets from windows of one element."""
    nodes = [
        op("MaxPool", "x", "y i", **HALVES),
        op("MaxPool", "x", "- every", **ONES),
        op("Slice", "every b e a", "first"),
        op("Sub", "i first", "j"),
    ]
    constants = {name: np.array(at, np.int64) for name, at in (("b", [0, 0]), ("e", [1, 1]), ("a", [2, 3]))}
    nodes[1].output[0] = "same"
    graph = imported(build(nodes, {"x": [1, 3, 6, 5]}, ["y", "j"], constants, opset=11), tmp_path)
    assert ops_of(graph).count("max_pool2d") == 1


def test_places_of_another_image_are_refused(tmp_path: Path) -> None:
    with pytest.raises(TinycError, match=r"it takes \[1, 3, 7, 8\], the output is \[1, 3, 8, 8\]") as caught:
        load(segments(HALVES, 1, 3, 8, 8), tmp_path)
    assert caught.value.hint
    with pytest.raises(TinycError, match="another pool"):
        load(segments({**HALVES, "pads": [1, 1, 0, 0]}, 1, 3, 7, 8), tmp_path)


def test_places_that_no_pool_makes_are_refused(tmp_path: Path) -> None:
    places = np.zeros((1, 3, 4, 4), np.int64)
    with pytest.raises(TinycError, match="not those of a MaxPool"):
        load(one("MaxUnpool", (1, 3, 4, 4), [places], opset=11, **HALVES), tmp_path)


def test_places_in_a_volume_are_refused(tmp_path: Path) -> None:
    model = build([op("MaxPool", "x", "y i", kernel_shape=[2, 2, 2])], {"x": [1, 2, 4, 4, 4]}, ["y", "i"], opset=11)
    with pytest.raises(TinycError, match="volume") as caught:
        load(model, tmp_path)
    assert caught.value.hint
