# SPDX-License-Identifier: Apache-2.0
"""A random forest as a graph of one node."""

from __future__ import annotations

import numpy as np

from tests.ops.one_node import one_node, tensor
from tinyc.ir.graph import Array, DType, Graph
from tinyc.kernels.trees.keys import keys_of
from tinyc.ops.tree_ensemble import TreeEnsemble


def forest(
    source: DType, leaf: int, columns: int, complement: int | None, cuts: int, step: float | None = None
) -> Graph:
    """Random trees over 9 codes with `cuts` cuts each, with leaves below one child, the other, both and none; leaves up
    to `leaf`, 0: votes; of more than 4 columns mostly 0. step: of the cuts, none of which is below 0 then."""
    rng = np.random.default_rng(leaf)
    own = keys_of(rng.normal(size=(9, cuts)).astype(np.float32))
    if step:
        reals = step * rng.integers(1, 60 if step < 1 else 900, (9, cuts))
        own = keys_of(reals.astype(np.float32) if source == "f32" else reals.astype(np.int32))
    leaves = rng.integers(-leaf, leaf, (12 if leaf < 10**6 else 200, columns), endpoint=True).astype(np.int32)
    leaves = leaves if leaf else 7 * np.eye(columns, dtype=np.int32)
    if columns > 4 and leaf:
        leaves *= rng.random(leaves.shape) < 0.2
    nodes: list[list[int]] = []
    roots = []
    for tree in range(6):
        roots.append(len(nodes))
        waiting = [-1]  # where in `nodes` the number of the next node goes
        while waiting:
            place = waiting.pop(int(rng.integers(len(waiting))))
            if place >= 0:
                nodes[place // 4][place % 4] = len(nodes)
            children = [-1 - int(leaf_) for leaf_ in rng.integers(len(leaves), size=2)]
            most = 20 * (tree + 1) if tree or cuts < 99 else 2 * cuts
            waiting += [
                4 * len(nodes) + 2 + side
                for side in (0, 1)
                if (rng.random() < 0.6 or not (tree or len(nodes) > most // 2)) and len(nodes) < most
            ]
            code = int(rng.integers(9)) if tree else 3
            nodes.append([code, int(rng.choice(own[code])), *children])
    nan_keys = [2**31 - 1, -(2**31), 5] * 3 if complement is None else [2**31 - 1] * 9
    consts = {
        "features": np.array([[4, 0, 2, 3, 1, 9, 8, 5, 6], nan_keys], np.int32).T,
        "nodes": np.array(nodes, np.int32),
        "roots": np.array(roots, np.int32),
        "leaves": leaves,
        "base": rng.integers(-50, 50, columns).astype(np.int32),
    }
    given = [tensor(name, array.shape, dtype="s32") for name, array in consts.items()]
    return one_node(
        "tree_ensemble", TreeEnsemble(complement), [tensor("x", (1, 10), dtype=source), *given], 0.5, 0, consts
    )


def grown_forest(
    source: DType, columns: int, leaf: int, trees: int, depth: int, seed: int, votes: bool = False
) -> Graph:
    """Trees over 9 features that split samples as training does, so that none of their comparisons is vain. leaf: no
    number in a leaf is larger."""
    rng, nodes, roots = np.random.default_rng(seed), list[list[int]](), list[int]()
    leaves: dict[tuple[int, ...], int] = {}

    def leaf_of() -> int:
        numbers = 7 * np.eye(columns, dtype=np.int32)[rng.integers(columns)]
        row = tuple((numbers if votes else rng.integers(-leaf, leaf, columns, endpoint=True)).tolist())
        return -1 - leaves.setdefault(row, len(leaves))

    def grown(samples: Array, level: int) -> int:
        feature, at = int(rng.integers(9)), len(nodes)
        values = np.unique(samples[:, feature])
        if level == depth or len(values) < 4:
            return leaf_of()
        cut = values[int(rng.integers(len(values) // 4, 3 * len(values) // 4))]
        below = samples[:, feature] <= cut
        nodes.append([feature, int(keys_of(np.array([cut]))[0])])
        nodes[at] += [grown(samples[side], level + 1) for side in (below, ~below)]
        return at

    for _ in range(trees):
        samples = 1000 * rng.normal(size=(400, 9))
        roots.append(grown(samples.astype(np.float32 if source == "f32" else np.int32), 0))
    consts = {
        "features": np.array([[feature, 2**31 - 1] for feature in range(9)], np.int32),
        "nodes": np.array(nodes, np.int32),
        "roots": np.array(roots, np.int32),
        "leaves": np.array(list(leaves), np.int32),
        "base": np.zeros(columns, np.int32),
    }
    given = [tensor(name, array.shape, dtype="s32") for name, array in consts.items()]
    return one_node("tree_ensemble", TreeEnsemble(), [tensor("x", (1, 9), dtype=source), *given], 0.5, 0, consts)
