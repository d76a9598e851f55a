# SPDX-License-Identifier: Apache-2.0
"""LabelEncoder of ai.onnx.ml: numbers in the place of numbers. A text is the index of it in the encoder's list."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from tinyc.base.errors import TinycError
from tinyc.ir.graph import Array, Value
from tinyc.load.forests import RealForest, Split, coded, searched
from tinyc.load.onnx.file import ML_DOMAIN, OnnxNode
from tinyc.load.onnx.importing import OnnxStep, imports
from tinyc.load.onnx.tracing import features_of, insert_trees
from tinyc.ops import is_a
from tinyc.ops.gather import Gather
from tinyc.ops.op import Trait
from tinyc.ops.reshape import Reshape

_MOST_ENTRIES = 1 << 16  # of a table that is indexed by keys
_MOST_ELEMENTS = 64  # of a tensor that is searched for
_NAN_IS_A_KEY = 4  # from this version of ai.onnx.ml on
_DAMAGED = "the encoder is damaged: export the model again"
_ATTRIBUTES = ("_int64s", "_floats", "_strings", "_tensor")


@dataclass(frozen=True, slots=True)
class _Encoder:
    """keys [K]: integers or reals. values [K]: int32 or float32; other: what keys that are not there become."""

    keys: npt.NDArray[np.float64] | npt.NDArray[np.int64]
    values: Array
    other: float


@imports(
    "LabelEncoder",
    ignores=("default_int64", "default_float", "default_string", "default_tensor", "classes_strings"),
    domain=ML_DOMAIN,
)
def label_encoder(s: OnnxStep) -> None:
    """A table for classes that the model computes; a search among the keys, as a tree, for other numbers."""
    x, encoder = s.value(0), _encoder(s)
    if x.dtype not in ("f32", "s32") or (x.dtype == "s32") != (encoder.keys.dtype.kind == "i"):
        raise TinycError(f"a LabelEncoder with keys of {encoder.keys.dtype} does not fit numbers of {x.dtype}", s.where)
    indexed = x.dtype == "s32" and encoder.keys.min() >= 0 and encoder.keys.max() < _MOST_ENTRIES
    if indexed and not _is_given(s, x):
        table = np.full(int(encoder.keys.max()) + 1, encoder.other, encoder.values.dtype)
        table[encoder.keys] = encoder.values
        s.emit([s.builder.add_const(f"{s.node.outputs[0]}:values", table), x], Gather(0))
        return
    if encoder.values.dtype.kind == "i":
        found = _searched(s, x, encoder, [*encoder.values.tolist(), int(encoder.other)])
        s.emit([found], Reshape(x.shape))
        return
    places = s.reshape(_searched(s, x, encoder, list(range(len(encoder.keys) + 1))), x.shape, "places")
    table = np.append(encoder.values, np.float32(encoder.other))
    s.emit([s.builder.add_const(f"{s.node.outputs[0]}:values", table), places], Gather(0))


def _is_given(s: OnnxStep, x: Value) -> bool:
    """Whether the numbers are an input of the model, which may be any."""
    makers = {name: node for node in s.builder.nodes for name in node.outputs}
    name = x.name
    while name in makers and is_a(makers[name], Trait.MOVES):
        name = makers[name].inputs[0]
    return name not in makers


def _encoder(s: OnnxStep) -> _Encoder:
    keys, values = (_listed(s.node, kind) for kind in ("keys", "values"))
    if isinstance(keys, tuple):
        raise TinycError("a LabelEncoder of texts cannot be compiled", s.where, "give their numbers")
    if len(keys) != len(values) or not len(keys):
        raise TinycError(f"{len(keys)} keys for {len(values)} values do not fit together", s.where, _DAMAGED)
    other = _other(s.node, values)
    if isinstance(values, tuple):
        names = list(dict.fromkeys((*values, str(other))))
        return _checked(
            s, _Encoder(keys, np.array([names.index(v) for v in values], np.int32), names.index(str(other)))
        )
    if values.dtype.kind == "f":
        return _checked(s, _Encoder(keys, values.astype(np.float32), float(np.float32(other))))
    if max(np.abs(values).max(), abs(int(other))) >= 2**31:
        raise TinycError("a LabelEncoder with values beyond int32 cannot be compiled", s.where)
    return _checked(s, _Encoder(keys, values.astype(np.int32), int(other)))


def _checked(s: OnnxStep, encoder: _Encoder) -> _Encoder:
    """Of keys that are there twice the first counts. TinycError for values that are no numbers."""
    if s.builder.file.ml_opset < _NAN_IS_A_KEY:  # before, nothing was equal to NaN
        known = ~np.isnan(encoder.keys)
        encoder = _Encoder(encoder.keys[known], encoder.values[known], encoder.other)
    if not np.isfinite(encoder.values).all() or not np.isfinite(encoder.other):
        raise TinycError("a LabelEncoder whose values are NaN or infinite cannot be compiled", s.where)
    _, first = np.unique(encoder.keys, return_index=True)
    return _Encoder(encoder.keys[first], encoder.values[first], encoder.other)


def _listed(node: OnnxNode, kind: str) -> tuple[str, ...] | npt.NDArray[np.int64] | npt.NDArray[np.float64]:
    """The keys or the values, in whichever attribute they are."""
    given = [suffix for suffix in _ATTRIBUTES if f"{kind}{suffix}" in node.attributes]
    if len(given) != 1:
        raise TinycError(f"a LabelEncoder has {len(given)} lists of {kind}", node.where, _DAMAGED)
    if given == ["_tensor"]:
        held = node.tensor(f"{kind}_tensor").ravel()
        return held.astype(np.int64) if held.dtype.kind in "iu" else held.astype(np.float64)
    if given == ["_strings"]:
        return node.all_texts(f"{kind}_strings")
    return node.all_ints(f"{kind}_int64s") if given == ["_int64s"] else node.all_reals(f"{kind}_floats")


def _other(node: OnnxNode, values: Sequence[str] | npt.NDArray[np.int64] | npt.NDArray[np.float64]) -> float | str:
    if "default_tensor" in node.attributes and "values_tensor" in node.attributes:
        return float(node.tensor("default_tensor").ravel()[0])
    if isinstance(values, tuple):
        return node.text("default_string", "_Unused")
    assert isinstance(values, np.ndarray)
    return node.float_("default_float", -0.0) if values.dtype.kind == "f" else node.int_("default_int64", -1)


def _searched(s: OnnxStep, x: Value, encoder: _Encoder, values: Sequence[int]) -> Value:
    """int32 [1,N]: the value of each element's key, the last value for what is no key."""
    if x.elements > _MOST_ELEMENTS:
        raise TinycError(
            f"a LabelEncoder of {x.elements} numbers at once cannot be compiled", s.where, "encode fewer columns"
        )
    is_nan = np.isnan(encoder.keys)
    keys = encoder.keys[~is_nan].tolist()
    row, features = features_of(s, x)
    splits: list[Split] = []
    leaves = np.zeros((x.elements * len(values), x.elements))
    roots = []
    for element in range(x.elements):
        first = element * len(values)
        leaves[first : first + len(values), element] = values
        leaf = [-1 - first - k for k in range(len(values))]
        nan = leaf[int(np.flatnonzero(is_nan)[0])] if is_nan.any() else leaf[-1]
        own = searched(element, keys, [leaf[k] for k in np.flatnonzero(~is_nan)], leaf[-1], nan)
        roots.append(len(splits))
        splits += [split.shifted(len(splits)) for split in own]
    made = coded(RealForest(splits, roots, leaves, np.zeros(x.elements)), features, whole=True)
    return insert_trees(s, row, made, "found", None)
