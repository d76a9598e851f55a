# SPDX-License-Identifier: Apache-2.0
"""Convolutions and pools of three dimensions. `imported` asserts equality with ONNX's reference, also after the passes.

Random ones: test_onnx_random.py."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.load.onnx_models import build, imported, one, op, ops_of, rand
from tinyc.kernel.site import RELU

CONVOLUTIONS: dict[str, tuple[tuple[int, ...], tuple[int, ...], dict[str, Any]]] = {
    "padded": ((1, 2, 5, 6, 7), (4, 2, 3, 3, 3), {"pads": [1] * 6}),
    "strides": ((1, 2, 5, 6, 7), (4, 2, 3, 3, 3), {"strides": [2, 2, 2], "pads": [1, 0, 1, 0, 1, 1]}),
    "dilations": ((1, 3, 6, 5, 5), (2, 3, 2, 2, 2), {"dilations": [2, 2, 1]}),
    "same": ((1, 3, 5, 5, 5), (2, 3, 3, 3, 3), {"auto_pad": "SAME_UPPER", "strides": [2, 1, 2]}),
    "all planes at once": ((1, 3, 4, 5, 5), (2, 3, 4, 5, 5), {}),
    "a channel each": ((1, 4, 4, 5, 5), (4, 1, 3, 3, 3), {"group": 4}),
    "groups": ((1, 4, 4, 5, 5), (8, 2, 2, 2, 1), {"group": 2}),
}
ALONG_DEPTH: dict[str, tuple[tuple[int, ...], tuple[int, ...], dict[str, Any]]] = {
    "padded": ((1, 4, 4, 5, 5), (8, 4, 3, 1, 1), {"pads": [1, 0, 0, 1, 0, 0]}),
    "a channel each": ((1, 4, 4, 5, 5), (8, 1, 3, 1, 1), {"group": 4}),
    "points": ((1, 3, 4, 4, 4), (5, 3, 1, 1, 1), {}),
}
POOLS: dict[str, dict[str, Any]] = {
    "strides": {"kernel_shape": [2, 2, 2], "strides": [2, 2, 2]},
    "padded": {"kernel_shape": [3, 2, 3], "strides": [2, 1, 2], "pads": [1, 0, 1, 1, 1, 1]},
    "rounded up": {"kernel_shape": [3, 2, 2], "strides": [2, 2, 2], "ceil_mode": 1},
    "planes": {"kernel_shape": [1, 2, 2]},
    "depth": {"kernel_shape": [2, 1, 1]},
    "same": {"kernel_shape": [3, 3, 3], "auto_pad": "SAME_LOWER"},
}


@pytest.mark.parametrize("name", CONVOLUTIONS)
def test_convolutions(name: str, tmp_path: Path) -> None:
    x, w, attributes = CONVOLUTIONS[name]
    imported(one("Conv", x, [rand(1, *w), rand(2, w[0])], **attributes), tmp_path)


@pytest.mark.parametrize("name", ALONG_DEPTH)
def test_a_kernel_of_one_pixel_is_one_layer(name: str, tmp_path: Path) -> None:
    x, w, attributes = ALONG_DEPTH[name]
    ops = ops_of(imported(one("Conv", x, [rand(1, *w)], **attributes), tmp_path))
    assert len([o for o in ops if "conv2d" in o]) == 1
    assert not {"slice", "concat"} & set(ops)


@pytest.mark.parametrize("name", POOLS)
@pytest.mark.parametrize("kind", ["MaxPool", "AveragePool"])
def test_pools(name: str, kind: str, tmp_path: Path) -> None:
    imported(one(kind, (1, 2, 5, 6, 7), opset=19, **POOLS[name]), tmp_path)


def test_an_average_that_counts_padding(tmp_path: Path) -> None:
    attributes = {"kernel_shape": [3, 3, 3], "pads": [1] * 6, "count_include_pad": 1}
    imported(one("AveragePool", (1, 2, 5, 6, 7), **attributes), tmp_path)


def test_planes_share_their_weights_and_clip_themselves(tmp_path: Path) -> None:
    """The activation behind is that of each plane; the copies stand before the layer that reads them."""
    nodes = [op("Conv", "x w", "c", pads=[1] * 6), op("Relu", "c", "y")]
    model = build(nodes, {"x": [1, 2, 6, 4, 4]}, ["y"], {"w": rand(1, 3, 2, 3, 3, 3)})
    graph = imported(model, tmp_path)
    layers = [node for node in graph.nodes if node.op == "conv2d"]
    assert [node.attrs.act for node in layers] == [RELU] * 6
    assert len({node.inputs[1] for node in layers}) == 3  # at both ends a tap of depth lies in the padding
    places = [k for k, node in enumerate(graph.nodes) if node.op == "conv2d"]
    assert np.diff(places).min() > 1
