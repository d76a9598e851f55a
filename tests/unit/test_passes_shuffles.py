# SPDX-License-Identifier: Apache-2.0
"""Channel shuffles in NHWC: what is left of the reshapes and transposes of PyTorch. `imported` asserts equality."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from tests.load.onnx_models import build, imported, op, ops_of, rand

I64 = np.int64


def shuffled(shape: tuple[int, ...], groups: int, kernel: tuple[int, ...]) -> tuple[list, dict]:
    """Convolution, shuffle, convolution: channels first, any number of axes behind."""
    c, rest = 12, shape[2:]
    axes = tuple(range(3, 3 + len(rest)))
    nodes = [
        op("Conv", "x w", "a"),
        op("Reshape", "a split", "b"),
        op("Transpose", "b", "d", perm=[0, 2, 1, *axes]),
        op("Reshape", "d joined", "e"),
        op("Conv", "e v", "y"),
    ]
    constants = {
        "w": rand(1, c, shape[1], *kernel),
        "v": rand(2, 5, c, *kernel),
        "split": np.array([1, groups, c // groups, *rest], I64),
        "joined": np.array([1, c, *rest], I64),
    }
    return nodes, constants


@pytest.mark.parametrize("groups", [2, 3, 4])
def test_a_shuffle_of_an_image_moves_channels_only(groups: int, tmp_path: Path) -> None:
    nodes, constants = shuffled((1, 3, 5, 7), groups, (1, 1))
    graph = imported(build(nodes, {"x": [1, 3, 5, 7]}, ["y"], constants), tmp_path)
    assert ops_of(graph) == ["transpose", "conv2d", "reshape", "transpose", "reshape", "conv2d", "transpose"]
    moved = [node.attrs.perm for node in graph.nodes if node.op == "transpose"]
    assert moved[1] == (0, 1, 2, 4, 3)


def test_a_split_that_ends_there_stays_as_it_was(tmp_path: Path) -> None:
    """Without a transpose behind it the reshape is the model's output."""
    constants = {"w": rand(1, 4, 3, 1, 1), "s": np.array([1, 2, 2, 5, 7], I64)}
    nodes = [op("Conv", "x w", "a"), op("Reshape", "a s", "y")]
    graph = imported(build(nodes, {"x": [1, 3, 5, 7]}, ["y"], constants), tmp_path)
    assert ops_of(graph) == ["transpose", "conv2d", "transpose", "reshape"]


def test_a_transpose_of_heads_is_equal(tmp_path: Path) -> None:
    """Channels become heads and positions: no layout to carry through, the result has to be right."""
    constants = {
        "w": rand(1, 6, 3, 1, 1),
        "s": np.array([1, 2, 3, 35], I64),
        "t": np.array([1, 35, 6], I64),
    }
    nodes = [
        op("Conv", "x w", "a"),
        op("Reshape", "a s", "b"),
        op("Transpose", "b", "d", perm=[0, 3, 2, 1]),
        op("Reshape", "d t", "y"),
    ]
    graph = imported(build(nodes, {"x": [1, 3, 5, 7]}, ["y"], constants), tmp_path)
    assert ops_of(graph) == ["transpose", "conv2d", "transpose", "reshape", "transpose", "reshape"]


def test_a_shuffle_joined_to_rows_is_equal(tmp_path: Path) -> None:
    """As in pixel shuffle: parts of the channels become rows and columns."""
    constants = {
        "w": rand(1, 12, 3, 1, 1),
        "s": np.array([1, 3, 2, 2, 5, 7], I64),
        "t": np.array([1, 3, 10, 14], I64),
        "v": rand(2, 2, 3, 1, 1),
    }
    nodes = [
        op("Conv", "x w", "a"),
        op("Reshape", "a s", "b"),
        op("Transpose", "b", "d", perm=[0, 1, 4, 2, 5, 3]),
        op("Reshape", "d t", "e"),
        op("Conv", "e v", "y"),
    ]
    graph = imported(build(nodes, {"x": [1, 3, 5, 7]}, ["y"], constants), tmp_path)
    assert ops_of(graph) == ["transpose", "conv2d", "reshape", "transpose", "reshape", "conv2d", "transpose"]
    moved = [node.attrs.perm for node in graph.nodes if node.op == "transpose"]
    assert moved[1] == (0, 1, 4, 2, 5, 3)
