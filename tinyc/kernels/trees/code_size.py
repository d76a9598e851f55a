# SPDX-License-Identifier: Apache-2.0
"""How many bytes compilers make of trees as branches: counted in the comparisons and leaves that they keep.

They drop a comparison that those above it decide, and one behind which both leaves are the same.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Literal

from tinyc.base.dataclass import dataclass
from tinyc.kernel.counted import kind_of
from tinyc.kernels.trees.forest import Node

_LITERALS = (1 << 8, 1 << 16)  # a cut or leaf from which on it takes more bytes

Codes = Literal["u8", "s16", "s32", "bits"]


@dataclass(frozen=True)
class BranchCounts:
    """What is kept of a forest. cuts: comparisons, by the size of the number (`_LITERALS`). leaves: the same of leaves.
    distinct: different leaves of each tree, summed."""

    cuts: tuple[int, int, int]
    leaves: tuple[int, int, int]
    distinct: int
    trees: int


@dataclass(frozen=True)
class BranchBytes:
    """Bytes that a compiler makes on a kind of core. cuts: of each comparison, by its size. added: of each leaf where
    all trees are one function, and `distinct` more where no other of its tree is like it; returned: of each where every
    tree is a function, which takes `tree` beside. rest: of what is beside trees, for integers and for floats."""

    cuts: tuple[float, float, float]
    added: tuple[float, float, float]
    distinct: float
    returned: tuple[float, float, float]
    tree: float
    rest: Mapping[Codes, tuple[int, int]]

    def of(self, counts: BranchCounts, codes: Codes, *, is_float: bool, in_place: bool) -> int:
        """Of the whole library. in_place: all trees are one function."""
        if in_place:
            leaves = _dot(self.added, counts.leaves) + self.distinct * counts.distinct
        else:
            leaves = _dot(self.returned, counts.leaves) + self.tree * counts.trees
        return round(_dot(self.cuts, counts.cuts) + leaves + self.rest[codes][is_float])


# Measured of GCC 12 -O2 with forests of random numbers: within 18 %, mostly 4 %.
_THUMB2 = BranchBytes(
    cuts=(7.2, 10.5, 13.2),
    added=(2.1, 5.3, 6.9),
    distinct=1.6,
    returned=(0.9, 5.3, 5.3),
    tree=53.9,
    rest={"u8": (96, 195), "s16": (96, 195), "s32": (84, 184), "bits": (0, 322)},
)
_THUMB1 = BranchBytes(
    cuts=(8.5, 13.2, 14.1),
    added=(2.9, 7.9, 7.9),
    distinct=1.9,
    returned=(0, 5.8, 5.8),
    tree=68.4,
    rest={"u8": (116, 236), "s16": (116, 236), "s32": (271, 390), "bits": (0, 372)},
)
_RV32 = BranchBytes(
    cuts=(10.2, 10.6, 15.0),
    added=(0.5, 5.5, 5.5),
    distinct=5.3,
    returned=(0, 4.6, 4.6),
    tree=69.4,
    rest={"u8": (75, 269), "s16": (75, 269), "s32": (365, 560), "bits": (0, 431)},
)
_BY_KIND = {"thumb1": _THUMB1, "rv32": _RV32}


def bytes_on(isa: frozenset[str]) -> BranchBytes:
    """Those of cores with these instructions."""
    return _BY_KIND.get(kind_of(isa), _THUMB2)


def counts_of(nodes: Sequence[Node], roots: Sequence[int], said: Callable[[int], int]) -> BranchCounts:
    """What compilers keep. said: what the trees give for a leaf."""
    cuts, leaves, distinct = [0, 0, 0], [0, 0, 0], 0
    for root in roots:
        own = set[int]()
        for number, is_leaf in _numbers(_pruned(nodes, root, said, {})):
            (leaves if is_leaf else cuts)[_size(number)] += 1
            own.update({number} if is_leaf else ())
        distinct += len(own)
    return BranchCounts((cuts[0], cuts[1], cuts[2]), (leaves[0], leaves[1], leaves[2]), distinct, len(roots))


_PrunedTree = int | tuple[int, "_PrunedTree", "_PrunedTree"]  # a leaf; a cut and what is on either side of it
_Between = Mapping[int, tuple[int, int]]  # of a code: it exceeds the first cut and not the second


def _pruned(nodes: Sequence[Node], at: int, said: Callable[[int], int], between: _Between) -> _PrunedTree:
    if at < 0:
        return said(-1 - at)
    code, cut, below, above = nodes[at]
    least, most = between.get(code, (-(1 << 32), 1 << 32))
    if not least < cut < most:
        return _pruned(nodes, below if most <= cut else above, said, between)
    first = _pruned(nodes, below, said, {**between, code: (least, cut)})
    second = _pruned(nodes, above, said, {**between, code: (cut, most)})
    return first if first == second and isinstance(first, int) else (cut, first, second)


def _numbers(tree: _PrunedTree) -> Iterator[tuple[int, bool]]:
    """Cuts and leaves, and whether each is a leaf."""
    if isinstance(tree, int):
        yield tree, True
        return
    cut, first, second = tree
    yield cut, False
    yield from _numbers(first)
    yield from _numbers(second)


def _size(number: int) -> int:
    return sum(abs(number) >= size for size in _LITERALS)


def _dot(each: Sequence[float], counts: Sequence[int]) -> float:
    return sum(size * count for size, count in zip(each, counts, strict=True))
