# SPDX-License-Identifier: Apache-2.0
"""A forest in the order in which its kernels hold it: nodes from the root down, leaves in pairs."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import cached_property
from itertools import pairwise

import numpy as np

from tinyc.base.dataclass import dataclass
from tinyc.ir.graph import Array

Node = tuple[int, int, int, int]  # code, cut, child below, child above


@dataclass(frozen=True)
class Forest:
    """features [V][2], nodes [N][4], roots [T], leaves [L][C], base [C] as the operator tree_ensemble has them."""

    features: Array
    nodes: tuple[Node, ...]
    roots: tuple[int, ...]
    leaves: Array
    base: Array
    complement: int | None

    @classmethod
    def of(
        cls, features: Array, nodes: Array, roots: Array, leaves: Array, base: Array, complement: int | None
    ) -> Forest:
        rows = tuple((int(v), int(c), int(below), int(above)) for v, c, below, above in nodes)
        return cls(features, rows, tuple(map(int, roots)), leaves, base, complement)

    @property
    def columns(self) -> int:
        return self.leaves.shape[1]

    @cached_property
    def most(self) -> int:
        """No sum, and no complement of one, is larger than this, or less than its negative."""
        each = [np.abs(self.leaves[list(self._leaves_below(root))].astype(np.int64)).max(axis=0) for root in self.roots]
        sums = np.abs(self.base.astype(np.int64)) + np.sum(each, axis=0)
        return int(sums.max()) + abs(self.complement or 0)

    def _leaves_below(self, root: int) -> set[int]:
        return {-1 - at for at, _ in self.walk(root) if at < 0}

    def walk(self, root: int) -> Iterator[tuple[int, int]]:
        """(node, or leaf as a number below 0, and its depth) of a tree: a node, its first child with all below that,
        then the other. First is the child for `x <= cut`, unless that is a leaf and the other is none."""
        stack = [(root, 0)]
        while stack:
            at, depth = stack.pop()
            yield at, depth
            if at >= 0:
                _, _, below, above = self.nodes[at]
                first, second = (above, below) if below < 0 <= above else (below, above)
                stack += [(second, depth + 1), (first, depth + 1)]

    @cached_property
    def inner(self) -> int:
        """Nodes of all trees."""
        return sum(at >= 0 for root in self.roots for at, _ in self.walk(root))

    @cached_property
    def visits(self) -> float:
        """Nodes that an input meets, if each comparison holds for every second one."""
        return sum(2.0**-depth for root in self.roots for at, depth in self.walk(root) if at >= 0)

    @cached_property
    def depth(self) -> int:
        """Of the deepest leaf."""
        return max(depth for root in self.roots for _, depth in self.walk(root))

    @cached_property
    def vote(self) -> int | None:
        """Where every leaf has one column that is not 0, and all these are the same number: that."""
        sizes = self.leaves[self.leaves != 0]
        one = 1 < self.columns <= 128 and ((self.leaves != 0).sum(axis=1) == 1).all() and (sizes == sizes[0]).all()
        return int(sizes[0]) if one else None

    @property
    def has_table(self) -> bool:
        """Whether leaves are rows of a table, and not one number each."""
        return self.columns > 1 and self.vote is None

    @property
    def few_leaves(self) -> bool:
        """Whether a leaf is a number of 7 bits."""
        return len(self.leaves) <= 128

    @cached_property
    def row_order(self) -> tuple[int, ...]:
        """The leaves as the kernels hold them: votes by their columns; few as they are; of many, two leaves of one node
        stand side by side, for which some are there twice."""
        if self.vote is not None:
            by_column = np.argsort(np.argmax(self.leaves != 0, axis=1), kind="stable")
            return tuple(int(leaf) for leaf in by_column)
        if self.few_leaves:
            return tuple(range(len(self.leaves)))
        order: list[int] = []
        pairs: set[tuple[int, int]] = set()
        for _, _, below, above in self.nodes:
            pair = (-1 - below, -1 - above)
            if below < 0 and above < 0 and pair not in pairs:
                order += pair[1:] if order and order[-1] == pair[0] else pair
                pairs.update(pairwise(order[-3:]))
        held = set(order)
        return (*order, *(leaf for leaf in range(len(self.leaves)) if leaf not in held))

    @cached_property
    def row_of(self) -> Mapping[int, int]:
        """Where a leaf stands in row_order; of a vote its column."""
        if self.vote is not None:
            return {leaf: int(column) for leaf, column in enumerate(np.argmax(self.leaves != 0, axis=1))}
        return {leaf: row for row, leaf in reversed(list(enumerate(self.row_order)))}

    @cached_property
    def row_of_pair(self) -> Mapping[tuple[int, int], int]:
        """Where two leaves of one node stand: the place of the first."""
        return {pair: row for row, pair in enumerate(pairwise(self.row_order))}

    @cached_property
    def rows(self) -> Array:
        """The leaves in row_order, in the narrowest type that holds them."""
        rows = self.leaves[list(self.row_order)]
        most = int(np.abs(rows.astype(np.int64)).max())
        return rows.astype(np.int8 if most < 128 else np.int16 if most < 2**15 else np.int32)

    @cached_property
    def entries(self) -> Entries | None:
        """The rows without their zeros, where that takes fewer bytes and no longer to add."""
        bits = (self.columns - 1).bit_length()
        row, column = np.nonzero(self.rows)
        values = self.rows[row, column].astype(np.int64)
        starts = np.concatenate([[0], np.cumsum(np.count_nonzero(self.rows, axis=1))])
        fits = not len(values) or np.abs(values).max() < 2 ** (31 - bits)
        small = 4 * len(values) + 2 * len(starts) < self.rows.nbytes and len(values) < 2**16
        if self.vote is not None or not fits or not small or 2 * len(values) > self.rows.size:
            return None
        return Entries((values << bits | column).astype(np.int32), starts.astype(np.uint16), bits)


@dataclass(frozen=True, slots=True)
class Entries:
    """Of rows one after the other all numbers that are not 0: number << bits | column. starts [rows + 1] of them."""

    words: Array
    starts: Array
    bits: int

    @property
    def nbytes(self) -> int:
        return self.words.nbytes + self.starts.nbytes
