# SPDX-License-Identifier: Apache-2.0
"""Decision trees, random forests and boosted trees of ai.onnx.ml."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

import numpy as np
import numpy.typing as npt

from tinyc.base.errors import TinycError
from tinyc.ir.graph import Quant, Value
from tinyc.load.forests import MOST_NODES, CodedForest, Mode, RealForest, Split, coded, searched
from tinyc.load.onnx.file import ML_DOMAIN, OnnxNode
from tinyc.load.onnx.importing import OnnxStep, imports
from tinyc.load.onnx.labels import class_labels, emit_label
from tinyc.load.onnx.tracing import features_of, insert_trees
from tinyc.load.onnx.transforms import emit_probit
from tinyc.ops.dequantize import Dequantize
from tinyc.ops.integer_binary import IntegerBinary
from tinyc.ops.requantize import Requantize
from tinyc.ops.reshape import Reshape
from tinyc.ops.sigmoid import Sigmoid
from tinyc.ops.softmax import Softmax

_MODES: Mapping[str, Mode] = {
    "BRANCH_LEQ": "<=",
    "BRANCH_LT": "<",
    "BRANCH_GTE": ">=",
    "BRANCH_GT": ">",
    "BRANCH_EQ": "==",
    "BRANCH_NEQ": "!=",
}
_NUMBERED: Sequence[Mode] = ("<=", "<", ">=", ">", "==", "!=")  # by TreeEnsemble's number
_AGGREGATES = ("AVERAGE", "SUM", "MIN", "MAX")
_POSTS = ("NONE", "SOFTMAX", "LOGISTIC", "SOFTMAX_ZERO", "PROBIT")
_MEMBER = "6"  # TreeEnsemble's number of a node that asks whether a feature is among a set
_PLACEHOLDER: Mode = "<="  # of what is no comparison with one number
_WIDE = 32767  # of int16 scores
_DAMAGED = "the trees are damaged: export the model again"

Reals = npt.NDArray[np.float64]


@imports("TreeEnsembleRegressor", ignores=("nodes_hitrates", "nodes_hitrates_as_tensor"), domain=ML_DOMAIN)
def regressor(s: OnnxStep) -> None:
    """Sums or averages of trees, in integers whose scale the header gives; no comparison changes."""
    columns = s.node.int_("n_targets", 1)
    forest = _listed(s.node, "target", columns, s.node.all_reals("base_values"))
    _emit_values(s, forest, s.node.text("aggregate_function", "SUM"), s.node.text("post_transform", "NONE"))


@imports("TreeEnsemble", ignores=("nodes_hitrates",), domain=ML_DOMAIN)
def ensemble(s: OnnxStep) -> None:
    """Sums or averages of trees, in integers whose scale the header gives; no comparison changes."""
    post = _named(s, "post_transform", 0, _POSTS)
    _emit_values(s, _linked(s), _named(s, "aggregate_function", 1, _AGGREGATES), post)


@imports("TreeEnsembleClassifier", ignores=("nodes_hitrates", "nodes_hitrates_as_tensor"), domain=ML_DOMAIN)
def classifier(s: OnnxStep) -> None:
    """The class, or its index where classes are texts, as int32, and the probabilities; no comparison changes."""
    labels, post = class_labels(s, "classlabels_int64s"), s.node.text("post_transform", "NONE")
    base, weights = s.node.all_reals("base_values"), s.node.all_reals("class_weights")
    single = len(labels) == 2 and len(set(s.node.all_ints("class_ids").tolist())) == 1
    votes = single and bool((weights >= 0).all())
    if single:
        complement = 1.0 if votes and post == "NONE" else 0.0
        forest = _listed(s.node, "class", 1, base[-1:], every=0)
        scores = _sums(s, forest, complement)
    else:
        forest = _listed(s.node, "class", len(labels), base)
        scores = _sums(s, forest)
    if post != "NONE" and votes:
        raise TinycError(f"{post} of votes that are never negative is not supported", s.where)
    emit_label(s, scores, labels)
    _emit_probabilities(s, scores, post, 0.5 if single else 1.0)


def _emit_values(s: OnnxStep, forest: RealForest, aggregate: str, post: str) -> None:
    """What a regression gives."""
    if aggregate in ("MIN", "MAX"):
        sums = _extremum(s, forest, aggregate)
    elif aggregate in ("SUM", "AVERAGE"):
        share = len(forest.roots) if aggregate == "AVERAGE" else 1
        sums = _sums(s, RealForest(forest.splits, forest.roots, forest.leaves / share, forest.base))
    else:
        raise TinycError(f"the {aggregate} of trees is not supported", s.where)
    if post == "NONE":
        s.emit([sums], Reshape(sums.shape), sums.quant)
    elif post == "PROBIT" and sums.elements == 1:
        emit_probit(s, s.insert([sums], Dequantize(), "real"), 0)
    else:
        raise TinycError(f"a regression with {post} behind its trees is not supported", s.where)


def _named(s: OnnxStep, name: str, default: int, words: Sequence[str]) -> str:
    number = s.node.int_(name, default)
    if not 0 <= number < len(words):
        raise TinycError(f"{name} is {number}", s.where, _DAMAGED)
    return words[number]


def _coded(s: OnnxStep, forest: RealForest, complement: float | None = None) -> tuple[Value, CodedForest]:
    """(the row of features, the forest in integers)."""
    row, features = features_of(s, s.value(0))
    absent = next((split.feature for split in forest.splits if not 0 <= split.feature < len(features)), None)
    if absent is not None:
        raise TinycError(f"a tree asks for feature {absent} of {len(features)}", s.where, _DAMAGED)
    try:
        return row, coded(forest, features, complement)
    except TinycError as e:
        raise e.located(s.where) from e


def _sums(s: OnnxStep, forest: RealForest, complement: float | None = None) -> Value:
    """The sums of the forest: int32 [1,C] with a scale."""
    row, coded_forest = _coded(s, forest, complement)
    return insert_trees(s, row, coded_forest, "sums", Quant((coded_forest.scale,), (0,)))


def _extremum(s: OnnxStep, forest: RealForest, aggregate: str) -> Value:
    """The least or largest of what the trees say: int32 [1,1] with a scale. Each tree is a forest of its own."""
    if forest.leaves.shape[1] != 1:
        raise TinycError(f"the {aggregate} of trees with several targets is not supported", s.where)
    splits, roots = list(forest.splits), []
    for root in forest.roots:
        if root < 0:  # a tree of one leaf is no number that is added to all
            splits.append(Split(0, "<=", 0.0, root, root))
        roots.append(root if root >= 0 else len(splits) - 1)
    row, coded_forest = _coded(s, RealForest(splits, roots, forest.leaves, forest.base))
    quant = Quant((coded_forest.scale,), (0,))
    if len(roots) == 1:
        return insert_trees(s, row, coded_forest, "sums", quant)
    trees = [replace(coded_forest, roots=coded_forest.roots[k : k + 1]) for k in range(len(roots))]
    extremum = insert_trees(s, row, trees[0], "tree0", None)
    for k, tree in enumerate(trees[1:], 1):
        last = quant if k == len(trees) - 1 else None
        least = IntegerBinary(aggregate.lower(), "s32")
        extremum = s.insert([extremum, insert_trees(s, row, tree, f"tree{k}", None)], least, f"upto{k}", quant=last)
    return extremum


def _emit_probabilities(s: OnnxStep, scores: Value, post: str, beta: float) -> None:
    """The second output. beta: 1/2 where a softmax of a score and its negative is the logistic function."""
    if len(s.node.outputs) < 2 or s.node.outputs[1] not in s.builder.read:
        return
    if post == "NONE":
        s.emit([scores], Reshape(scores.shape), scores.quant, output=1)
    elif post == "SOFTMAX" or (post == "LOGISTIC" and beta != 1.0):
        wide = s.insert([scores], Requantize("s16"), "wide", quant=_narrowed(s, scores, _WIDE))
        s.emit([wide], Softmax(beta), Quant((1 / 32768,), (0,)), output=1)
    elif post == "LOGISTIC":
        narrow = s.insert([scores], Requantize("s8"), "narrow", quant=Quant((16 / 256,), (0,)))
        s.emit([narrow], Sigmoid(), Quant((1 / 256,), (-128,)), output=1)
    else:
        raise TinycError(f"{post} of classes is not supported", s.where, "leave out the probabilities")


def _narrowed(s: OnnxStep, scores: Value, most: int) -> Quant:
    """A scale with which the largest score that the leaves allow is `most`."""
    node = next(node for node in reversed(s.builder.nodes) if scores.name in node.outputs)
    leaves, base = (s.builder.consts[name].astype(np.int64) for name in node.inputs[4:6])
    trees = s.builder.values[node.inputs[3]].elements
    assert scores.quant is not None
    reach = float(np.abs(leaves).max()) * trees + float(np.abs(base).max())
    return Quant((max(scores.quant.scale[0] * reach / most, scores.quant.scale[0] * 1.001),), (0,))


def _listed(node: OnnxNode, kind: str, columns: int, base: Reals, every: int | None = None) -> RealForest:
    """Trees as the classifier and the regressor list them: nodes by the number of their tree and their own; weights
    (`kind` is class or target) by those too. every: the column of all weights, whatever they say."""
    trees, numbers = node.all_ints("nodes_treeids"), node.all_ints("nodes_nodeids")
    if len(trees) != len(numbers) or not 0 < len(trees) <= MOST_NODES:
        raise TinycError(f"there are {len(trees)} trees of {len(numbers)} nodes", node.where, _DAMAGED)
    place = {pair: k for k, pair in enumerate(zip(trees.tolist(), numbers.tolist(), strict=True))}
    modes = node.all_texts("nodes_modes")
    is_leaf = [mode == "LEAF" for mode in modes]
    leaves, of = _weighted(node, kind, columns, place, every)
    true, false = (_children(node, f"nodes_{way}nodeids", trees, place, is_leaf, of) for way in ("true", "false"))
    splits = _splits(node, modes, node.all_reals("nodes_values"), true, false, _MODES.get)
    roots = _roots(trees, is_leaf, of)
    full = np.zeros(columns) if not len(base) else base
    if len(full) != columns:
        raise TinycError(f"{len(full)} base values for {columns} columns do not fit together", node.where, _DAMAGED)
    return RealForest(splits, roots, leaves, full)


def _weighted(
    node: OnnxNode, kind: str, columns: int, place: Mapping[tuple[int, int], int], every: int | None
) -> tuple[Reals, dict[int, int]]:
    """(weights [L][columns], which of them each node that is a leaf has); the last is that of leaves without any."""
    at = list(zip(node.all_ints(f"{kind}_treeids").tolist(), node.all_ints(f"{kind}_nodeids").tolist(), strict=False))
    ids, weights = node.all_ints(f"{kind}_ids"), node.all_reals(f"{kind}_weights")
    if not len(at) == len(ids) == len(weights) or any(pair not in place for pair in at):
        raise TinycError("weights and the leaves that they belong to do not fit", node.where, _DAMAGED)
    column = ids if every is None else np.full_like(ids, every)
    if not 0 < columns <= MOST_NODES or len(ids) == 0 or column.min() < 0 or column.max() >= columns:
        raise TinycError(f"weights for columns that are not there, of {columns}", node.where, _DAMAGED)
    of = {leaf: k for k, leaf in enumerate(dict.fromkeys(place[pair] for pair in at))}
    leaves = np.zeros((len(of) + 1, columns))
    np.add.at(leaves, (np.array([of[place[pair]] for pair in at]), column), weights)
    return leaves, of


def _children(
    node: OnnxNode,
    name: str,
    trees: npt.NDArray[np.int64],
    place: Mapping[tuple[int, int], int],
    is_leaf: Sequence[bool],
    of: Mapping[int, int],
) -> list[int]:
    """For each node its child: a node, or leaf -1 - k."""
    numbers = node.all_ints(name)
    if not len(numbers) == len(trees) == len(is_leaf):
        raise TinycError(f"{name} lists {len(numbers)} of {len(trees)} nodes", node.where, _DAMAGED)
    children = []
    for at, (tree, number) in enumerate(zip(trees.tolist(), numbers.tolist(), strict=True)):
        child = 0 if is_leaf[at] else place.get((tree, number))
        if child is None:
            raise TinycError(f"node {number} of tree {tree} is missing", node.where, _DAMAGED)
        children.append(-1 - of.get(child, len(of)) if is_leaf[child] else child)
    return children


def _splits(
    node: OnnxNode,
    modes: Sequence[str],
    thresholds: Reals,
    true: Sequence[int],
    false: Sequence[int],
    mode_of: Callable[[str], Mode | None],
) -> list[Split]:
    features, nan = node.all_ints("nodes_featureids"), node.all_ints("nodes_missing_value_tracks_true")
    if len(features) != len(modes) or len(thresholds) != len(modes) or len(nan) not in (0, len(modes)):
        raise TinycError("the lists of nodes have different lengths", node.where, _DAMAGED)
    splits = []
    for at, mode in enumerate(modes):
        kind = _PLACEHOLDER if mode in ("LEAF", _MEMBER) else mode_of(mode)
        if kind is None:
            raise TinycError(f"a node of mode {mode} is not supported", node.where)
        tracks = bool(len(nan) and nan[at])
        splits.append(Split(int(features[at]), kind, float(thresholds[at]), true[at], false[at], tracks))
    return splits


def _roots(trees: npt.NDArray[np.int64], is_leaf: Sequence[bool], of: Mapping[int, int]) -> list[int]:
    """The first node of each tree."""
    first = {tree: at for at, tree in reversed(list(enumerate(trees.tolist())))}
    return [-1 - of.get(at, len(of)) if is_leaf[at] else at for at in sorted(first.values())]


def _linked(s: OnnxStep) -> RealForest:
    """Trees as TreeEnsemble links them: children are nodes or leaves by their place in one list."""
    node = s.node
    columns, ids = node.int_("n_targets", 1), node.all_ints("leaf_targetids")
    weights = node.tensor("leaf_weights").astype(np.float64).ravel()
    if len(ids) != len(weights) or not len(ids) or not 0 < columns <= MOST_NODES:
        raise TinycError(f"{len(weights)} leaves for {len(ids)} targets", s.where, _DAMAGED)
    if ids.min() < 0 or ids.max() >= columns:
        raise TinycError(f"a leaf for target {ids.max()} of {columns}", s.where, _DAMAGED)
    leaves = np.zeros((len(ids), columns))
    leaves[np.arange(len(ids)), ids] = weights
    modes = [str(number) for number in node.tensor("nodes_modes").ravel().tolist()]
    thresholds = node.tensor("nodes_splits").astype(np.float64).ravel()
    true, false = (_links(s, way, len(modes), len(ids)) for way in ("true", "false"))
    by_number = {str(number): mode for number, mode in enumerate(_NUMBERED)}
    splits = _with_members(node, modes, _splits(node, modes, thresholds, true, false, by_number.get))
    roots = node.all_ints("tree_roots").tolist()
    if not roots or min(roots) < 0 or max(roots) >= len(modes):
        raise TinycError("a tree begins where no node is", s.where, _DAMAGED)
    return RealForest(splits, _real_roots(roots, splits), leaves, np.zeros(columns))


def _with_members(node: OnnxNode, modes: Sequence[str], splits: list[Split]) -> list[Split]:
    """Splits that search a set of numbers, in the place of those that ask whether a feature is among them. Each set of
    the file ends with NaN."""
    places = [at for at, mode in enumerate(modes) if mode == _MEMBER]
    if not places:
        return splits
    numbers = node.tensor("membership_values").astype(np.float64).ravel()
    ends = np.flatnonzero(np.isnan(numbers))
    sets = [part[~np.isnan(part)] for part in np.split(numbers, ends + 1)]
    sets = sets[:-1] if len(ends) == len(places) and not len(sets[-1]) else sets
    if len(sets) != len(places):
        raise TinycError(f"{len(sets)} sets for {len(places)} nodes that ask for one", node.where, _DAMAGED)
    for at, held in zip(places, sets, strict=True):
        split = splits[at]
        members = np.unique(held).tolist()
        ways = (split.true, split.false)
        if not members:
            chain = [Split(split.feature, "<=", 0.0, split.false, split.false)]
        else:
            chain = searched(split.feature, members, [-1] * len(members), -2, -1 if split.nan_true else -2)
        first = len(splits)
        moved = [_led(each.shifted(first), ways) for each in chain]
        splits[at] = moved[0]
        splits += moved
        if len(splits) > MOST_NODES:
            raise TinycError(f"sets of numbers make more than {MOST_NODES:,} nodes", node.where)
    return splits


def _led(split: Split, ways: Sequence[int]) -> Split:
    """With the ways out of a search, which are numbered below 0, in the place of their numbers."""
    true, false = (ways[-1 - child] if child < 0 else child for child in (split.true, split.false))
    return replace(split, true=true, false=false)


def _real_roots(roots: Sequence[int], splits: Sequence[Split]) -> list[int]:
    """Trees of one leaf are written as a node whose children are the same leaf."""
    ends = [(splits[at].true, splits[at].false) for at in roots]
    return [true if true == false and true < 0 else at for at, (true, false) in zip(roots, ends, strict=True)]


def _links(s: OnnxStep, way: str, nodes: int, leaves: int) -> list[int]:
    numbers, to_leaf = s.node.all_ints(f"nodes_{way}nodeids"), s.node.all_ints(f"nodes_{way}leafs")
    if not len(numbers) == len(to_leaf) == nodes or not 0 < nodes <= MOST_NODES:
        raise TinycError(f"{len(numbers)} children of {nodes} nodes do not fit together", s.where, _DAMAGED)
    if any(not 0 <= n < (leaves if leaf else nodes) for n, leaf in zip(numbers, to_leaf, strict=True)):
        raise TinycError("a child that is no node and no leaf", s.where, _DAMAGED)
    return [-1 - int(n) if leaf else int(n) for n, leaf in zip(numbers, to_leaf, strict=True)]
