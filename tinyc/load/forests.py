# SPDX-License-Identifier: Apache-2.0
"""Decision trees over real features, as files hold them, become trees over codes and integer leaves.

No comparison changes: every threshold becomes the greatest key (`kernels/trees/keys.py`) whose feature, after all that
is computed of it before the trees, does not exceed the threshold. That is found by halving over all 2^32 numbers, with
the arithmetic that the operators before the trees define.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Literal

import numpy as np
import numpy.typing as npt

from tinyc.base.dataclass import dataclass
from tinyc.base.errors import TinycError
from tinyc.ir.graph import Array
from tinyc.kernels.trees.keys import NO_NUMBER, keys_of, reals_of

Mode = Literal["<=", "<", ">=", ">", "==", "!="]
Reals = npt.NDArray[np.float32]
Ints = npt.NDArray[np.int32]

MOST_NODES = 1 << 18  # of a forest: 1 MiB as the smallest table
_INFINITE = 0x7F800000  # the key of infinity; that of minus infinity is -1 - it
_WHOLE = 1e-6  # relative error of a leaf that was a whole number of steps before it was stored in float32
_STEPS = 32767  # a leaf of so many steps fits 16 bits, of 127 a byte
_FEW = 16
_CHANCE = 1e-3  # that reals which have nothing in common look like whole numbers of a step
_SUM_BITS = 30
_BOUNDS: tuple[Mode, Mode] = ("<", "<=")  # between a key and what is less, and what is greater


@dataclass(frozen=True, slots=True)
class Split:
    """A node of a tree: `x[feature] mode threshold` goes to child `true`, else to `false`; NaN to `true` if so said.
    A child below 0 is leaf -1 - child."""

    feature: int
    mode: Mode
    threshold: float
    true: int
    false: int
    nan_true: bool = False

    def shifted(self, places: int) -> Split:
        """With children, where they are splits, so many places further on."""
        true, false = (child + places if child >= 0 else child for child in (self.true, self.false))
        return replace(self, true=true, false=false)


@dataclass(frozen=True, slots=True)
class RealForest:
    """splits; roots: a split, or a leaf where it is below 0, of each tree; leaves [L][C] and base [C]: reals."""

    splits: Sequence[Split]
    roots: Sequence[int]
    leaves: npt.NDArray[np.float64]
    base: npt.NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Feature:
    """A feature as the trees see it: element `index` of their source, after `map`. is_float: whether that element is
    float32, else int32. nan_key: what stands for NaN instead of it, by an imputer."""

    index: int
    map: Callable[[Array], Reals]
    is_float: bool = True
    nan_key: int | None = None


@dataclass(frozen=True, slots=True)
class CodedForest:
    """The constants of tree_ensemble, and the real that 1 stands for in its sums."""

    features: Ints
    nodes: Ints
    roots: Ints
    leaves: Ints
    base: Ints
    complement: int | None
    scale: float


@dataclass(frozen=True, slots=True)
class _Cut:
    """`key of the feature <= key` goes to `below`, else to `above`; NaN as nan_below says."""

    feature: int
    key: int
    nan_below: bool
    below: int
    above: int


def coded(
    forest: RealForest, features: Mapping[int, Feature], complement: float | None = None, whole: bool = False
) -> CodedForest:
    """The forest in integers. complement: a real that sums are taken from. whole: leaves are integers, and stay as they
    are. TinycError where there is nothing to decide, or something that no order of numbers can express."""
    base, roots = forest.base.copy(), []
    for root in forest.roots:
        if root < 0:
            base += forest.leaves[-1 - root]
        else:
            roots.append(root)
    if not roots:
        raise TinycError("the forest decides nothing: every tree is a single leaf", hint="train it on more data")
    leaves, leaf_of = _distinct(forest)
    cuts, starts = _cuts(forest, roots, features, leaf_of)
    if whole:
        ints, scale = leaves.astype(np.int32), 1.0
    else:
        ints, scale = integer_leaves(leaves, np.append(base, complement or 0.0), len(roots))
    table, nodes = _coded(cuts, features)
    held = np.rint(base / scale).astype(np.int32)
    from_ = None if complement is None else round(complement / scale)
    return CodedForest(table, nodes, np.array(starts, np.int32), ints, held, from_, scale)


def searched(feature: int, keys: Sequence[float], children: Sequence[int], other: int, nan: int) -> list[Split]:
    """Splits, the first of them the root, that lead a number equal to keys[k], which rise, to children[k], any other
    number to `other`, and NaN to `nan`. Their own places count from 0 on; what is given are leaves below 0."""
    ways = [other, *(way for child in children for way in (child, other))]
    bounds = [(key, mode) for key in keys for mode in _BOUNDS]
    splits = [Split(feature, "<=", float("inf"), 1, nan)] if nan != other else []
    waiting = [(0, len(bounds))]  # ranges of bounds, each to be decided by the split that stands at its turn
    while waiting:
        first, end = waiting.pop(0)
        middle = (first + end) // 2
        sides = []
        for low, high in ((first, middle), (middle + 1, end)):
            if low < high:
                waiting.append((low, high))
            sides.append(len(splits) + len(waiting) if low < high else ways[low])
        splits.append(Split(feature, bounds[middle][1], bounds[middle][0], sides[0], sides[1]))
    return splits


def _distinct(forest: RealForest) -> tuple[npt.NDArray[np.float64], dict[int, int]]:
    """Each leaf that splits end at, once; and which of them each is."""
    used = sorted({-1 - child for split in forest.splits for child in (split.true, split.false) if child < 0})
    distinct, of = np.unique(forest.leaves[used], axis=0, return_inverse=True)
    return distinct, dict(zip(used, np.ravel(of).tolist(), strict=True))


def integer_leaves(leaves: npt.NDArray[np.float64], base: npt.NDArray[np.float64], trees: int) -> tuple[Ints, float]:
    """Leaves as integers and the real that 1 stands for: whole votes, or fractions of votes with a denominator in
    common, where the leaves are such; else 2^-n, with which the sums of all trees have 30 bits."""
    sizes = np.abs(leaves)
    if not np.isfinite(sizes).all() or not np.isfinite(base).all():
        raise TinycError("a leaf is NaN or infinite", hint="the model is damaged, or its training diverged")
    if not sizes.any():
        return leaves.astype(np.int32), 1.0
    step = _common_step(np.append(sizes.ravel(), np.abs(base)))
    if step is not None:
        return np.rint(leaves / step).astype(np.int32), float(np.float32(step))
    most = float(sizes.max()) * max(trees, 1) + float(np.abs(base).max())
    scale = 2.0 ** (int(np.ceil(np.log2(most))) - _SUM_BITS)
    return np.rint(leaves / scale).astype(np.int32), scale


def _common_step(sizes: npt.NDArray[np.float64]) -> float | None:
    """The largest real of which all are whole multiples, at most _STEPS; None where there is none, or chance would find
    one. The least of them is so many steps, which are tried in turn."""
    distinct = np.unique(sizes[sizes > 0])
    ratios = distinct / distinct[0]
    parts = np.arange(1, int(_STEPS / ratios[-1]) + 1)
    for some in (ratios[:: len(ratios) // _FEW + 1], ratios):  # most are told apart by a few
        steps = parts[:, None] * some
        parts = parts[(np.abs(steps - np.rint(steps)) <= _WHOLE * steps).all(axis=1)]
    if not len(parts) or (parts[0] - 1) * np.minimum(2 * _WHOLE * parts[0] * ratios[1:], 1).prod() >= _CHANCE:
        return None
    return float(distinct[0]) / int(parts[0])


def _cuts(
    forest: RealForest, roots: Sequence[int], features: Mapping[int, Feature], leaf_of: Mapping[int, int]
) -> tuple[list[_Cut], list[int]]:
    """Nodes that compare keys, each tree's from its root down, and where the trees begin."""
    keys = _keys(forest.splits, features)
    cuts: list[_Cut] = []
    starts: list[int] = []
    for root in roots:
        start = len(cuts)
        cuts += _tree(forest.splits, root, keys, leaf_of, start)
        if len(cuts) > MOST_NODES:
            raise TinycError(f"the forest has more than {MOST_NODES:,} nodes", hint="train fewer or smaller trees")
        starts.append(start)
    return cuts, starts


def _tree(
    splits: Sequence[Split], root: int, keys: Mapping[int, _Keys], leaf_of: Mapping[int, int], start: int
) -> list[_Cut]:
    """One tree. A comparison for equality becomes two nodes, with a copy of one subtree."""
    nodes: list[list[int]] = []  # split, key, nan_below, below, above
    waiting = [(root, -1, 0)]  # what is to be made, whose child it is, and which
    while waiting:
        at, parent, side = waiting.pop()
        if len(nodes) > MOST_NODES:
            raise TinycError(f"a tree has more than {MOST_NODES:,} nodes", hint="train smaller trees")
        here = len(nodes)
        if parent >= 0:
            nodes[parent][3 + side] = start + here if at >= 0 else -1 - leaf_of[-1 - at]
        if at < 0:
            continue
        split, key = splits[at], keys[at]
        equal, other = (split.true, split.false) if split.mode == "==" else (split.false, split.true)
        if key.second is not None:
            equals = split.nan_true and split.mode == "=="  # NaN goes with what equals the number
            nodes += [[at, key.first, not equals, 0, start + here + 1], [at, key.second, 1, 0, 0]]
            waiting += [(other, here + 1, 1), (equal, here + 1, 0), (other, here, 0)]
        else:
            below, above = (split.true, split.false) if key.true_below else (split.false, split.true)
            nodes.append([at, key.first, split.nan_true == key.true_below, 0, 0])
            waiting += [(above, here, 1), (below, here, 0)]
    return [_Cut(splits[at].feature, key, bool(nan), below, above) for at, key, nan, below, above in nodes]


@dataclass(frozen=True, slots=True)
class _Keys:
    """The cut of a split: the child `true` lies below it or above. second: of a comparison for equality, whose numbers
    lie above the first cut and not above the second."""

    first: int
    true_below: bool
    second: int | None = None


def _keys(splits: Sequence[Split], features: Mapping[int, Feature]) -> dict[int, _Keys]:
    by_feature: dict[int, _Keys] = {}
    for number in sorted({split.feature for split in splits}):
        own = [at for at, split in enumerate(splits) if split.feature == number]
        feature = features[number]
        rises = _rises(feature)
        thresholds = np.array([splits[at].threshold for at in own], np.float64)
        if np.isnan(thresholds).any():
            raise TinycError("a threshold is NaN", hint="the model is damaged, or its training diverged")
        below, upto = (_last(feature, thresholds, inclusive, rises) for inclusive in (False, True))
        for at, first, last in zip(own, below, upto, strict=True):
            by_feature[at] = _cut_of(splits[at], int(first), int(last), rises)
    return by_feature


def _cut_of(split: Split, below: int, upto: int, rises: bool) -> _Keys:
    """below, upto: the last keys of numbers less than the threshold, and of those not greater; where the feature falls
    as its source rises, of numbers greater, and not less."""
    if split.mode in ("==", "!="):
        return _Keys(below, True, upto)
    less = split.mode in ("<", "<=")
    strict = split.mode in ("<", ">=")  # the numbers below the cut leave out the threshold
    if rises:
        return _Keys(below if strict else upto, less)
    return _Keys(upto if strict else below, not less)


def _rises(feature: Feature) -> bool:
    """Whether the map never falls; else it never rises. TinycError for a map that is flat."""
    ends = np.array([-(2**30), 2**30], np.int32)
    low, high = feature.map(ends.astype(np.float32) if feature.is_float else ends)
    if not low != high:
        raise TinycError(f"feature {feature.index} is scaled by 0 before the trees", hint="leave the feature out")
    return bool(low < high)


def _last(feature: Feature, thresholds: npt.NDArray[np.float64], inclusive: bool, rises: bool) -> npt.NDArray[np.int64]:
    """For each threshold the last key whose number is less (not greater) than it, or where the map falls, greater (not
    less); the key before all numbers where there is none."""
    least, most = (-1 - _INFINITE, _INFINITE) if feature.is_float else (-(2**31), 2**31 - 1)
    low = np.full(thresholds.shape, least - 1, np.int64)  # holds
    high = np.full(thresholds.shape, most + 1, np.int64)  # does not
    while (high - low > 1).any():
        middle = np.clip((low + high) >> 1, least, most)
        mapped = feature.map(reals_of(middle.astype(np.int32)) if feature.is_float else middle.astype(np.int32))
        reals = mapped.astype(np.float64)
        least_first = (reals, thresholds) if rises else (thresholds, reals)
        holds = np.less_equal(*least_first) if inclusive else np.less(*least_first)
        pending = high - low > 1
        low, high = np.where(pending & holds, middle, low), np.where(pending & ~holds, middle, high)
    return np.maximum(low, -(2**31))


def _coded(cuts: Sequence[_Cut], features: Mapping[int, Feature]) -> tuple[Ints, Ints]:
    """(features, nodes) of tree_ensemble. A feature has a code for each way that NaN goes; one that an imputer fills
    has one."""
    sides = sorted({_side(cut, features) for cut in cuts})
    code_of = {side: code for code, side in enumerate(sides)}
    table = []
    for number, nan_below in sides:
        held = features[number].nan_key
        nan_key = held if held is not None else -NO_NUMBER - 1 if nan_below else NO_NUMBER
        table.append((features[number].index, nan_key))
    nodes = [(code_of[_side(cut, features)], cut.key, cut.below, cut.above) for cut in cuts]
    return np.array(table, np.int32), np.array(nodes, np.int32)


def _side(cut: _Cut, features: Mapping[int, Feature]) -> tuple[int, bool]:
    return cut.feature, cut.nan_below and features[cut.feature].nan_key is None


def key_of_number(number: float) -> int:
    """The key of a float32 number."""
    return int(keys_of(np.array([number], np.float32))[0])
