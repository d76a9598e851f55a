# SPDX-License-Identifier: Apache-2.0
"""Random forests as ONNX files, of every kind of node, and features that meet every threshold."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from onnx import TensorProto, helper

MODES = ("BRANCH_LEQ", "BRANCH_LT", "BRANCH_GTE", "BRANCH_GT", "BRANCH_EQ", "BRANCH_NEQ")


class Trees:
    """Attributes of a classifier or regressor with trees that `rng` grows. grid: thresholds are multiples of it."""

    def __init__(
        self, rng: np.random.Generator, features: int, columns: Sequence[int], *, modes: Sequence[str] = MODES[:1]
    ) -> None:
        self._rng, self._features, self._columns, self._modes = rng, features, columns, modes
        self.nodes: list[tuple[int, int, int, str, float, int, int, int]] = []
        self.weights: list[tuple[int, int, int, float]] = []

    def grow(self, trees: int, depth: int, grid: float, leaf: Any, nan: bool = False) -> Trees:
        for tree in range(trees):
            waiting, number = [(0, 0)], 1
            while waiting:
                at, level = waiting.pop(0)
                if level == depth or (level and self._rng.random() < 0.2):
                    self.nodes.append((tree, at, 0, "LEAF", 0.0, 0, 0, 0))
                    self.weights += [(tree, at, column, float(leaf(self._rng))) for column in self._columns]
                    continue
                feature, mode = int(self._rng.integers(self._features)), str(self._rng.choice(self._modes))
                threshold = float(np.float32(np.round(self._rng.normal() / grid) * grid))
                tracks = int(nan and mode != "BRANCH_EQ" and self._rng.random() < 0.5)
                self.nodes.append((tree, at, feature, mode, threshold, number, number + 1, tracks))
                waiting += [(number, level + 1), (number + 1, level + 1)]
                number += 2
        return self

    def attributes(self, kind: str) -> dict[str, Any]:
        trees, numbers, features, modes, values, true, false, nan = map(list, zip(*self.nodes, strict=True))
        at, leaves, ids, weights = map(list, zip(*self.weights, strict=True))
        return {
            "nodes_treeids": trees,
            "nodes_nodeids": numbers,
            "nodes_featureids": features,
            "nodes_modes": modes,
            "nodes_values": values,
            "nodes_truenodeids": true,
            "nodes_falsenodeids": false,
            "nodes_missing_value_tracks_true": nan,
            f"{kind}_treeids": at,
            f"{kind}_nodeids": leaves,
            f"{kind}_ids": ids,
            f"{kind}_weights": weights,
        }

    def samples(self, count: int) -> np.ndarray:
        """Features around the thresholds, on them, beside them, and at the ends of float32."""
        x = self._rng.normal(size=(count, self._features)).astype(np.float32)
        for feature in range(self._features):
            own = np.array([node[4] for node in self.nodes if node[2] == feature] or [0], np.float32)
            hit = self._rng.choice(own, count)
            near = np.stack([hit, np.nextafter(hit, np.float32(np.inf)), np.nextafter(hit, np.float32(-np.inf))])
            which = self._rng.integers(0, 5, count)
            x[:, feature] = np.where(which < 3, near[np.minimum(which, 2), np.arange(count)], x[:, feature])
        ends = np.array([np.inf, -np.inf, -0.0, 0.0, 1e-45, -1e-45, 3.4e38], np.float32)
        x[: len(ends)] = ends[:, None]
        return x


def model(
    nodes: Sequence[onnx.NodeProto],
    features: int,
    outputs: Sequence[tuple[str, int]],
    initializers: Sequence[onnx.TensorProto] = (),
) -> onnx.ModelProto:
    """x float32 [N, features] -> outputs (name, element type)."""
    ports = [helper.make_tensor_value_info(name, kind, None) for name, kind in outputs]
    x = helper.make_tensor_value_info("x", TensorProto.FLOAT, [None, features])
    graph = helper.make_graph(list(nodes), "forest", [x], ports, list(initializers))
    opsets = [helper.make_opsetid("", 17), helper.make_opsetid("ai.onnx.ml", 3)]
    return helper.make_model(graph, opset_imports=opsets, ir_version=9)


def saved(forest_file: onnx.ModelProto, folder: Path) -> Path:
    path = folder / "forest.onnx"
    onnx.save(forest_file, path)
    return path
