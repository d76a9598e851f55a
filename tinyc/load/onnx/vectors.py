# SPDX-License-Identifier: Apache-2.0
"""Support vector machines of ai.onnx.ml.

Pairs of classes are decided, and classes counted and named, as ONNX Runtime does: a pair's sum above 0 is a vote for
its first class, and the class with the most votes wins, the first of equals. A linear kernel is taken through the sums:
one row of weights for each pair, whatever the number of support vectors.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from tinyc.base.errors import TinycError
from tinyc.ir.graph import Value
from tinyc.load.onnx.file import ML_DOMAIN
from tinyc.load.onnx.importing import OnnxStep, imports
from tinyc.load.onnx.labels import class_labels, emit_label
from tinyc.ops.choose import Choose
from tinyc.ops.compare import Compare
from tinyc.ops.concat import Concat
from tinyc.ops.distance import Distance
from tinyc.ops.fully_connected import FullyConnected
from tinyc.ops.function import Function
from tinyc.ops.mul import Mul
from tinyc.ops.pair_coupling import PairCoupling
from tinyc.ops.pair_sums import PairSums, pairs
from tinyc.ops.power import Power
from tinyc.ops.reshape import Reshape
from tinyc.ops.tanh import Tanh

_Reals = npt.NDArray[np.float64]


def _const(s: OnnxStep, what: str, numbers: npt.ArrayLike) -> Value:
    return s.builder.add_const(f"{s.node.outputs[0]}:{what}", np.asarray(numbers, np.float32))


def _row(s: OnnxStep) -> Value:
    """The features as [1,F]."""
    x = s.value(0)
    if x.elements != x.channels:
        raise TinycError(f"{s.node.op} of {list(x.shape)}: one row of features", s.where, "export it with batch size 1")
    return s.reshape(x, (1, x.channels), "row")


def _vectors(s: OnnxStep, count: int, x: Value) -> _Reals:
    """The support vectors [V,F]."""
    numbers = s.node.all_reals("support_vectors")
    if count < 1 or len(numbers) != count * x.channels:
        raise TinycError(
            f"{len(numbers)} numbers for {count} support vectors of {x.channels} features do not fit together", s.where
        )
    return numbers.reshape(count, x.channels)


def _kernel(s: OnnxStep) -> tuple[str, float, float, float]:
    """(kind, gamma, coef0, degree)."""
    params = s.node.all_reals("kernel_params")
    gamma, coef0, degree = params.tolist() if len(params) == 3 else (0.0, 0.0, 0.0)
    return s.node.text("kernel_type", "LINEAR"), gamma, coef0, degree


def _dense(s: OnnxStep, x: Value, w: _Reals, b: _Reals, suffix: str) -> Value:
    return s.insert([x, _const(s, f"{suffix}_w", w), _const(s, f"{suffix}_b", b)], FullyConnected(), suffix)


def _kernels(s: OnnxStep, x: Value, vectors: _Reals) -> Value:
    """[1,V]: the kernel function of the features and each support vector."""
    kind, gamma, coef0, degree = _kernel(s)
    if kind == "RBF":
        apart = s.insert([x, _const(s, "vectors", vectors)], Distance(), "apart")
        return s.insert([s.insert([apart, _const(s, "gamma", -gamma)], Mul(), "scaled")], Function("exp"), "kernels")
    if kind not in ("POLY", "SIGMOID"):
        raise TinycError(f"a support vector machine with kernel '{kind}' cannot be compiled", s.where)
    line = _dense(s, x, gamma * vectors, np.full(len(vectors), coef0), "line")
    if kind == "SIGMOID":
        return s.insert([line], Tanh(), "kernels")
    if degree < 1 or not float(degree).is_integer():
        raise TinycError(
            f"a polynomial kernel of degree {degree:g} cannot be compiled", s.where, "degrees are whole, 1 or more"
        )
    return s.insert([line], Power(degree), "kernels")


def _per_pair(s: OnnxStep, name: str, count: int) -> _Reals:
    numbers = s.node.all_reals(name)
    if len(numbers) != count:
        raise TinycError(f"{len(numbers)} numbers '{name}' for {count} pairs of classes do not fit together", s.where)
    return numbers


@imports("SVMRegressor", domain=ML_DOMAIN)
def svm_regressor(s: OnnxStep) -> None:
    """The weighted sum of the kernels, or with one_class whether it is above 0, as 1 or -1."""
    x, weights, count = _row(s), s.node.all_reals("coefficients"), s.node.int_("n_supports", 0)
    rho, post = s.node.all_reals("rho")[:1], s.node.text("post_transform", "NONE")
    if len(rho) != 1 or post != "NONE":
        raise TinycError(
            f"an SVMRegressor with post_transform '{post}' and {len(rho)} numbers rho cannot be compiled", s.where
        )
    kind = _kernel(s)[0]
    kind = kind if count else "LINEAR"
    if len(weights) != (count or x.channels):
        raise TinycError(f"{len(weights)} coefficients for {count} support vectors do not fit together", s.where)
    if kind == "LINEAR":
        row = weights @ _vectors(s, count, x) if count else weights
        y = _dense(s, x, row[None], rho, "sum")
    else:
        y = _dense(s, _kernels(s, x, _vectors(s, count, x)), weights[None], rho, "sum")
    if not s.node.flag("one_class", False):
        s.emit([y], Reshape((1, 1)))
        return
    inside = s.insert([y, _const(s, "zero", 0.0)], Compare("greater"), "inside")
    s.emit([inside, _const(s, "one", 1.0), _const(s, "minus", -1.0)], Choose())


@imports("SVMClassifier", domain=ML_DOMAIN)
def svm_classifier(s: OnnxStep) -> None:
    """The class that wins most pairs; probabilities where the model has prob_a and prob_b, else the sums."""
    x, labels = _row(s), class_labels(s, "classlabels_ints")
    counts = tuple(s.node.all_ints("vectors_per_class").tolist())
    if len(counts) != len(labels) or len(labels) < 2 or min(counts) < 0:
        hint = "a LinearClassifier is what linear models without support vectors are exported as"
        raise TinycError(
            f"{len(labels)} classes, and support vectors of {len(counts)} do not fit together", s.where, hint
        )
    sums = _pair_sums(s, x, counts)
    _emit_votes(s, sums, labels)
    post, has_probabilities = s.node.text("post_transform", "NONE"), len(s.node.all_reals("prob_a")) > 0
    if len(s.node.outputs) < 2 or s.node.outputs[1] not in s.builder.read:
        s.node.attributes.see(("prob_b",))
    elif post != "NONE":
        raise TinycError(f"an SVMClassifier with post_transform '{post}' cannot be compiled", s.where)
    elif has_probabilities:
        _emit_probabilities(s, sums, len(labels))
    elif len(labels) == 2:
        negative = s.insert([sums, _const(s, "minus", -1.0)], Mul(), "negative")
        s.emit([negative, sums], Concat(1), output=1)
    else:
        s.emit([sums], Reshape(sums.shape), output=1)


def _pair_sums(s: OnnxStep, x: Value, counts: tuple[int, ...]) -> Value:
    """[1,pairs]."""
    classes, total = len(counts), sum(counts)
    rho = _per_pair(s, "rho", classes * (classes - 1) // 2)
    weights = s.node.all_reals("coefficients")
    if len(weights) != (classes - 1) * total:
        raise TinycError(
            f"{len(weights)} coefficients for {total} support vectors of {classes} classes do not fit together", s.where
        )
    weights, vectors = weights.reshape(classes - 1, total), _vectors(s, total, x)
    if _kernel(s)[0] == "LINEAR":
        return _dense(s, x, _linear_rows(weights, vectors, counts), rho, "sums")
    if classes == 2:
        return _dense(s, _kernels(s, x, vectors), weights, rho, "sums")
    consts = [_const(s, "weights", weights.T), _const(s, "rho", rho)]
    return s.insert([_kernels(s, x, vectors), *consts], PairSums(counts), "sums")


def _linear_rows(weights: _Reals, vectors: _Reals, counts: tuple[int, ...]) -> _Reals:
    """[pairs,F]: what the features of each pair's vectors sum up to."""
    ends = np.cumsum(counts)
    own = [slice(end - count, end) for end, count in zip(ends, counts, strict=True)]
    rows = [
        weights[j - 1, own[i]] @ vectors[own[i]] + weights[i, own[j]] @ vectors[own[j]] for i, j in pairs(len(counts))
    ]
    return np.array(rows)


def _emit_votes(s: OnnxStep, sums: Value, labels: tuple[int, ...]) -> None:
    """The label. A pair (i, j) is a vote for i where its sum is above 0, else one for j."""
    if s.node.outputs[0] not in s.builder.read:
        return
    first = s.insert([sums, _const(s, "zero", 0.0)], Compare("greater"), "first")
    wins = s.insert([first, _const(s, "won", 1.0), _const(s, "lost", 0.0)], Choose(), "wins")
    counted = np.zeros((len(labels), sums.channels))
    for pair, (i, j) in enumerate(pairs(len(labels))):
        counted[i, pair], counted[j, pair] = 1, -1
    votes = _dense(s, wins, counted, np.arange(len(labels), dtype=np.float64), "votes")
    emit_label(s, votes, labels)


def _emit_probabilities(s: OnnxStep, sums: Value, classes: int) -> None:
    """Of each pair from its sum (Platt), then of the classes."""
    consts = [_const(s, name, _per_pair(s, name, sums.channels)) for name in ("prob_a", "prob_b")]
    s.emit([sums, *consts], PairCoupling(classes), output=1)
