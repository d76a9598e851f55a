# SPDX-License-Identifier: Apache-2.0
"""LabelEncoder of ai.onnx.ml: numbers in the place of numbers. A text is the index of it in the encoder's list."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import numpy.typing as npt

from tinyc.base.dataclass import dataclass
from tinyc.base.errors import TinycError
from tinyc.ir.graph import Array, Value
from tinyc.load.forests import RealForest, Split, coded, searched
from tinyc.load.onnx.file import ML_DOMAIN, OnnxNode
from tinyc.load.onnx.importing import OnnxStep, imports
from tinyc.load.onnx.tracing import features_of, insert_trees
from tinyc.ops import is_a
from tinyc.ops.argmax import ArgMax
from tinyc.ops.gather import Gather
from tinyc.ops.reshape import Reshape

_MOST_ENTRIES = 1 << 16  # of a table that is indexed by keys
_MOST_ELEMENTS = 64  # of a tensor that is searched for
_NAN_IS_A_KEY = 4  # from this version of ai.onnx.ml on
_DAMAGED = "the encoder is damaged: export the model again"
_ATTRIBUTES = ("_int64s", "_floats", "_strings", "_tensor")


@dataclass(frozen=True, slots=True)
class _Encoder:
    """keys [K]: integers or reals. values [K]: int32 or float32; other: what keys that are not there become. texts:
    what values are indices of."""

    keys: npt.NDArray[np.float64] | npt.NDArray[np.int64]
    values: Array
    other: float
    texts: tuple[str, ...] = ()


@imports(
    "LabelEncoder",
    ignores=("default_int64", "default_float", "default_string", "default_tensor", "classes_strings"),
    domain=ML_DOMAIN,
)
def label_encoder(s: OnnxStep) -> None:
    """A table for classes that the model computes; a search among the keys, as a tree, for other numbers."""
    x, encoder = s.value(0), _encoder(s)
    s.builder.name_texts(s.node.outputs[0], encoder.texts)
    if x.dtype not in ("f32", "s32") or (x.dtype == "s32") != (encoder.keys.dtype.kind == "i"):
        raise TinycError(f"a LabelEncoder with keys of {encoder.keys.dtype} does not fit numbers of {x.dtype}", s.where)
    indexed = x.dtype == "s32" and encoder.keys.min() >= 0 and encoder.keys.max() < _MOST_ENTRIES
    if indexed and _is_class(s, x):  # larger ones than all keys get the last entry
        table = np.full(int(encoder.keys.max()) + 2, encoder.other, encoder.values.dtype)
        table[encoder.keys] = encoder.values
        s.emit([s.builder.add_const(f"{s.node.outputs[0]}:values", table), x], Gather(0))
        return
    if encoder.values.dtype.kind == "i":
        position = _searched(s, x, encoder, [*encoder.values.tolist(), int(encoder.other)])
        s.emit([position], Reshape(x.shape))
        return
    places = s.reshape(_searched(s, x, encoder, list(range(len(encoder.keys) + 1))), x.shape, "places")
    table = np.append(encoder.values, np.float32(encoder.other))
    s.emit([s.builder.add_const(f"{s.node.outputs[0]}:values", table), places], Gather(0))


def _is_class(s: OnnxStep, x: Value) -> bool:
    """Whether the numbers are computed places, or what a table without negative numbers has there."""
    origin = s.builder.moved_from(x.name)[-1]
    maker = next((node for node in s.builder.nodes if origin in node.outputs), None)
    if maker is None:
        return False
    table = s.builder.consts.get(maker.inputs[0]) if is_a(maker, Gather) else None
    return is_a(maker, ArgMax) or (table is not None and bool((table >= 0).all()))


def _encoder(s: OnnxStep) -> _Encoder:
    keys, values = (_listed(s.node, kind) for kind in ("keys", "values"))
    if isinstance(keys, tuple):
        raise TinycError("a LabelEncoder of texts cannot be compiled", s.where, "give their numbers")
    if len(keys) != len(values) or not len(keys):
        raise TinycError(f"{len(keys)} keys for {len(values)} values do not fit together", s.where, _DAMAGED)
    other = _other(s.node, values)
    if isinstance(values, tuple):
        names = list(dict.fromkeys((*values, str(other))))
        places = {text: place for place, text in enumerate(names)}
        indices = np.array([places[text] for text in values], np.int32)
        return _checked(s, _Encoder(keys, indices, places[str(other)], tuple(names)))
    if values.dtype.kind == "f":
        return _checked(s, _Encoder(keys, values.astype(np.float32), float(np.float32(other))))
    if max(np.abs(values).max(), abs(int(other))) >= 2**31:
        raise TinycError("a LabelEncoder with values beyond int32 cannot be compiled", s.where)
    return _checked(s, _Encoder(keys, values.astype(np.int32), int(other)))


def _checked(s: OnnxStep, encoder: _Encoder) -> _Encoder:
    """Of keys that are there twice the first counts. TinycError for values that are no numbers."""
    if s.builder.file.ml_opset < _NAN_IS_A_KEY:  # before, nothing was equal to NaN
        is_number = ~np.isnan(encoder.keys)
        encoder = replace(encoder, keys=encoder.keys[is_number], values=encoder.values[is_number])
    if not np.isfinite(encoder.values).all() or not np.isfinite(encoder.other):
        raise TinycError("a LabelEncoder whose values are NaN or infinite cannot be compiled", s.where)
    _, first = np.unique(encoder.keys, return_index=True)
    return replace(encoder, keys=encoder.keys[first], values=encoder.values[first])


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
    forest = coded(RealForest(splits, roots, leaves, np.zeros(x.elements)), features, whole=True)
    return insert_trees(s, row, forest, "found", None)
