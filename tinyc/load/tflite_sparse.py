# SPDX-License-Identifier: Apache-2.0
"""Constants that a file stores sparse, as pruned models have them: which elements the stored ones are.

A tensor is walked level by level, in an order of its axes that the file gives; an axis may be cut in blocks, whose
inner axes are levels too. A level is dense, or lists the indices that occur (as compressed rows do). Elements that are
not stored are 0. Source: `SparsityParameters` in TensorFlow Lite's schema.fbs, and its sparsity_format_converter.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import tflite

from tinyc.base.dataclass import dataclass
from tinyc.base.errors import Loc, TinycError
from tinyc.ir.graph import Shape

_VECTORS = {1: tflite.Int32Vector, 2: tflite.Uint16Vector, 3: tflite.Uint8Vector}  # union SparseIndexVector
_DENSE = 0  # enum DimensionType
_MOST_LEVELS = 16
_Ints = npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Level:
    """dense: its size; of a list 0, and below each index of the level before lie indices[segments[k]:segments[k+1]]."""

    dense: int
    segments: _Ints
    indices: _Ints


@dataclass(frozen=True, slots=True)
class Sparsity:
    """order: of the axes, and behind them of the blocks, as levels; blocks: the axis that each block cuts."""

    order: tuple[int, ...]
    blocks: tuple[int, ...]
    levels: tuple[Level, ...]

    def places(self, shape: Shape, name: str, where: Loc | None) -> _Ints:
        """Where in the flat tensor the stored elements lie. TinycError if that is nonsense."""
        try:
            return self._places(shape)
        except (ValueError, IndexError) as e:
            message = f"tensor '{name}' is sparse in a way that makes no sense"
            raise TinycError(message, where, "the file is damaged; export it again") from e

    def _places(self, shape: Shape) -> _Ints:
        rank, count = len(shape), int(np.prod(shape))
        if sorted(self.order) != list(range(rank + len(self.blocks))) or len(self.levels) != len(self.order):
            raise ValueError("order")
        at = np.zeros((1, 0), np.int64)  # indices of the levels so far, of each element
        before = np.zeros(1, np.int64)
        for level in self.levels:
            sizes = self._sizes(level, before, count)
            inner = np.arange(int(sizes.sum())) - np.repeat(np.cumsum(sizes) - sizes, sizes)
            if level.dense:
                index, before = inner, np.repeat(before, sizes) * level.dense + inner
            else:
                before = np.repeat(level.segments[before], sizes) + inner
                index = level.indices[before]
            at = np.concatenate([np.repeat(at, sizes, axis=0), index[:, None]], axis=1)
        return np.ravel_multi_index(tuple(self._axes(at, rank)), shape)

    @staticmethod
    def _sizes(level: Level, before: _Ints, most: int) -> _Ints:
        starts = level.segments
        sizes = np.full(len(before), level.dense) if level.dense else starts[before + 1] - starts[before]
        if sizes.min(initial=0) < 0 or sizes.sum() > most or starts.min(initial=0) < 0:
            raise ValueError("sizes")
        return sizes

    def _axes(self, at: _Ints, rank: int) -> list[_Ints]:
        axes = [at[:, self.order.index(axis)] for axis in range(rank)]
        for block, axis in enumerate(self.blocks):
            level = self.order.index(rank + block)
            size = self.levels[level].dense
            if not 0 <= axis < rank or not size:
                raise ValueError("block")
            axes[axis] = axes[axis] * size + at[:, level]
        return axes


def sparsity_of(table: Any) -> Sparsity:
    """The file's table (SparsityParameters). ValueError for nonsense."""
    count = table.DimMetadataLength()
    if count > _MOST_LEVELS or table.TraversalOrderLength() > _MOST_LEVELS or table.BlockMapLength() > _MOST_LEVELS:
        raise ValueError("levels")
    order = [table.TraversalOrder(k) for k in range(table.TraversalOrderLength())]
    blocks = [table.BlockMap(k) for k in range(table.BlockMapLength())]
    return Sparsity(tuple(order), tuple(blocks), tuple(_level(table.DimMetadata(k)) for k in range(count)))


def _level(table: Any) -> Level:
    if table.Format() == _DENSE:
        if table.DenseSize() < 1:
            raise ValueError("size")
        return Level(table.DenseSize(), np.zeros(0, np.int64), np.zeros(0, np.int64))
    segments = _numbers(table.ArraySegmentsType(), table.ArraySegments())
    return Level(0, segments, _numbers(table.ArrayIndicesType(), table.ArrayIndices()))


def _numbers(kind: int, table: Any) -> _Ints:
    if kind not in _VECTORS or table is None:
        raise ValueError("index vector")
    vector = _VECTORS[kind]()
    vector.Init(table.Bytes, table.Pos)
    numbers: Sequence[int] | int = vector.ValuesAsNumpy()
    return np.zeros(0, np.int64) if isinstance(numbers, int) else np.asarray(numbers, np.int64)
