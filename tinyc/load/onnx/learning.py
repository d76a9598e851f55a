# SPDX-License-Identifier: Apache-2.0
"""What scikit-learn's pipelines become in ai.onnx.ml, beside trees: scalers, selections, linear models, labels."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from tinyc.base.errors import TinycError
from tinyc.ir.graph import Array, Value
from tinyc.load.onnx.file import ML_DOMAIN
from tinyc.load.onnx.importing import OnnxStep, imports
from tinyc.load.onnx.integers import constant
from tinyc.load.onnx.labels import class_labels, emit_label
from tinyc.load.onnx.reductions import over_norm
from tinyc.load.onnx.transforms import emit_transformed
from tinyc.ops.absolute import Absolute
from tinyc.ops.choose import Choose
from tinyc.ops.compare import Compare
from tinyc.ops.concat import Concat
from tinyc.ops.convert import Convert
from tinyc.ops.div import Div
from tinyc.ops.fully_connected import FullyConnected
from tinyc.ops.gather import Gather
from tinyc.ops.mul import Mul
from tinyc.ops.pick import Pick
from tinyc.ops.reduce_extremum import ReduceExtremum
from tinyc.ops.reshape import Reshape
from tinyc.ops.sub import Sub
from tinyc.ops.sum import Sum
from tinyc.ops.transpose import Transpose

_EQUAL = Compare("equal")


def _per_feature(s: OnnxStep, numbers: npt.NDArray[np.float64], x: Value, what: str) -> Value:
    """One number for all features, or one for each, as a constant."""
    if len(numbers) not in (1, x.channels):
        raise TinycError(f"{len(numbers)} numbers {what} for {x.channels} features do not fit together", s.where)
    return s.builder.add_const(f"{s.node.outputs[0]}:{what}", numbers.astype(np.float32))


@imports("Scaler", domain=ML_DOMAIN)
def scaler(s: OnnxStep) -> None:
    """(x - offset) * scale. Before trees it costs nothing: the thresholds are taken back through it."""
    x = s.value(0)
    offset = _per_feature(s, s.node.all_reals("offset"), x, "offset")
    centred = s.insert([x, offset], Sub(), "centred")
    s.emit([centred, _per_feature(s, s.node.all_reals("scale"), x, "scale")], Mul())


@imports("Imputer", ignores=("imputed_value_int64s", "replaced_value_int64"), domain=ML_DOMAIN)
def imputer(s: OnnxStep) -> None:
    """Numbers in the place of NaN; before trees they cost nothing (see tracing.py)."""
    replaced = s.node.attributes.get("replaced_value_float")
    if replaced is None or not np.isnan(replaced.f):
        raise TinycError("an Imputer of anything but NaN is not supported", s.where, "let missing values be NaN")
    x = s.value(0)
    numbers = _per_feature(s, s.node.all_reals("imputed_value_floats"), x, "filled")
    s.emit([s.insert([x, x], Compare("equal"), "known"), x, numbers], Choose())


@imports("Normalizer", domain=ML_DOMAIN)
def normalizer(s: OnnxStep) -> None:
    """Each row over its Euclidean norm, the sum of its sizes, or its largest number."""
    x, norm = s.value(0), s.node.text("norm", "MAX")
    if norm == "L2":
        over_norm(s, x, len(x.shape) - 1)
        return
    axes = (len(x.shape) - 1,)
    if norm == "L1":
        divisor = s.insert([s.insert([x], Absolute(), "size")], Sum(axes, keep_dims=True), "sum")
    elif norm == "MAX":
        divisor = s.insert([x], ReduceExtremum(axes, keep_dims=True), "most")
    else:
        raise TinycError(f"a Normalizer with norm '{norm}' cannot be compiled", s.where)
    s.emit([x, divisor], Div())


@imports("ArrayFeatureExtractor", domain=ML_DOMAIN)
def array_feature_extractor(s: OnnxStep) -> None:
    """The columns that constant indices say, or those of a constant table at computed places."""
    texts = s.texts(0)
    if texts:
        _texts_at(s, texts)
        return
    indices = s.constant(1)
    if indices is None and s.constant(0) is not None:
        _from_table(s)
        return
    x = s.value(0)
    if indices is None or indices.dtype.kind not in "iu":
        raise TinycError("the columns are computed from the data", s.where)
    picked = tuple(int(k) for k in indices.ravel())
    s.emit([x], Pick(len(x.shape) - 1, picked))


def _texts_at(s: OnnxStep, texts: tuple[str, ...]) -> None:
    """A text for each computed place: the places are their indices."""
    places = s.value(1)
    s.builder.name_texts(s.node.outputs[0], texts)
    s.emit([places], Reshape((1, places.elements)))


def _from_table(s: OnnxStep) -> None:
    """table [.., K] at places [n]: [.., n]."""
    table, places = s.constant(0), s.value(1)
    if table is None or not table.ndim or not table.size:
        raise TinycError("columns of no numbers cannot be compiled", s.where)
    width = table.shape[-1]
    count = table.size // width
    flat = s.reshape(places, (places.elements,), "flat")
    if count == 1:
        row = s.const(table.ravel(), 0) if table.dtype.kind == "f" else constant(s, 0, "s32")
        picked = s.insert([s.reshape(row, (width,), "row"), flat], Gather(0), "found")
        s.emit([picked], Reshape((1, places.elements)))
        return
    if table.dtype.kind != "f":
        raise TinycError("computed columns of several rows of integers cannot be compiled", s.where)
    columns = s.builder.add_const(f"{s.node.outputs[0]}:columns", table.reshape(count, width).T)
    picked = s.insert([s.insert([columns, flat], Gather(0), "found")], Transpose((1, 0)), "rows")
    s.emit([picked], Reshape((*table.shape[:-1], places.elements)))


@imports("OneHotEncoder", ignores=("zeros",), domain=ML_DOMAIN)
def one_hot_encoder(s: OnnxStep) -> None:
    """1 at the category that x is equal to, 0 elsewhere, along a new last axis; of another number all are 0."""
    if "cats_strings" in s.node.attributes:
        raise TinycError("categories that are texts cannot be compiled", s.where, "give their numbers")
    x, held = s.value(0), s.node.all_ints("cats_int64s")
    if not len(held) or np.abs(held).max() >= 2**31:
        raise TinycError(f"{len(held)} categories, or some beyond int32, cannot be compiled", s.where)
    name = s.node.outputs[0]
    if x.dtype == "f32":
        x = s.insert([x], Convert("s32"), "whole")  # as ONNX Runtime rounds: towards zero
    if x.dtype != "s32":
        raise TinycError(f"categories of {x.dtype} cannot be compiled", s.where)
    wide = s.reshape(x, (*x.shape, 1), "wide")
    here = s.insert([wide, s.builder.add_integers(f"{name}:categories", held.astype(np.int32), "s32")], _EQUAL, "here")
    on, off = (s.builder.add_const(f"{name}:{v}", np.array(v, np.float32)) for v in (1, 0))
    s.emit([here, on, off], Choose())


@imports("ZipMap", ignores=("classlabels_int64s",), domain=ML_DOMAIN)
def zip_map(s: OnnxStep) -> None:
    """The numbers themselves, in the order of the classes."""
    x, texts = s.value(0), s.node.all_texts("classlabels_strings")
    if x.elements == len(texts):
        s.builder.name_texts(s.node.outputs[0], texts, by_value=False)
    s.emit([x], Reshape(x.shape))


def _rows(s: OnnxStep, count: int, x: Value) -> Array:
    """The coefficients [count, F] of a linear model."""
    numbers = s.node.all_reals("coefficients").astype(np.float32)
    if count < 1 or len(numbers) != count * x.channels or x.elements != x.channels:
        raise TinycError(
            f"{len(numbers)} coefficients for {count} sums of {x.channels} features do not fit together", s.where
        )
    return numbers.reshape(count, x.channels)


def _linear(s: OnnxStep, rows: Array, x: Value, suffix: str) -> Value:
    intercepts = s.node.all_reals("intercepts").astype(np.float32)
    if len(intercepts) not in (0, len(rows)):
        raise TinycError(f"{len(intercepts)} intercepts for {len(rows)} sums do not fit together", s.where)
    bias = intercepts if len(intercepts) else np.zeros(len(rows), np.float32)
    name = s.node.outputs[0]
    consts = [s.builder.add_const(f"{name}:{what}", a) for what, a in (("coefficients", rows), ("intercepts", bias))]
    return s.insert([s.reshape(x, (1, x.channels), "row"), *consts], FullyConnected(), suffix)


@imports("LinearRegressor", domain=ML_DOMAIN)
def linear_regressor(s: OnnxStep) -> None:
    """A sum of products for each target, quantized like any layer."""
    post, x = s.node.text("post_transform", "NONE"), s.value(0)
    sums = _linear(s, _rows(s, s.node.int_("targets", 1), x), x, "sums")
    emit_transformed(s, sums, post, 0)


@imports("LinearClassifier", ignores=("multi_class",), domain=ML_DOMAIN)
def linear_classifier(s: OnnxStep) -> None:
    """A sum of products for each class, quantized like any layer; the class is that of the largest."""
    x, labels, post = s.value(0), class_labels(s, "classlabels_ints"), s.node.text("post_transform", "NONE")
    count = max(len(s.node.all_reals("intercepts")), 1)
    scores = _linear(s, _rows(s, count, x), x, "scores")
    if count == 1 and len(labels) == 2:
        minus = s.builder.add_const(f"{s.node.outputs[0]}:minus", np.array(-1, np.float32))
        scores = s.insert([s.insert([scores, minus], Mul(), "negative"), scores], Concat(1), "both")
    emit_label(s, scores, labels)
    if len(s.node.outputs) > 1 and s.node.outputs[1] in s.builder.read:
        emit_transformed(s, scores, post, 1)


@imports("Binarizer", domain=ML_DOMAIN)
def binarizer(s: OnnxStep) -> None:
    """1 where x is greater than the threshold, else 0."""
    name = s.node.outputs[0]
    consts = {"threshold": s.node.float_("threshold", 0.0), "one": 1.0, "zero": 0.0}
    threshold, one, zero = (s.builder.add_const(f"{name}:{n}", np.array(v, np.float32)) for n, v in consts.items())
    exceeds = s.insert([s.value(0), threshold], Compare("greater"), "exceeds")
    s.emit([exceeds, one, zero], Choose())
