# SPDX-License-Identifier: Apache-2.0
"""TFLite operators of constants, computed when the model is loaded: shapes mostly, and what is computed from them.

Converters compute the sizes of RESHAPE, RESIZE and TRANSPOSE_CONV with SHAPE, STRIDED_SLICE, MUL, PACK and the like
where the batch was left open. As every shape is known here, those chains are constants.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType

import numpy as np

from tinyc.base.errors import TinycError
from tinyc.ir.graph import NUMPY_DTYPE, Array
from tinyc.load.tflite_arrays import dtype_of, quant_of
from tinyc.load.tflite_graph import TfliteStep

Folding = Callable[[TfliteStep, Sequence[Array]], Array]


def _dtype(s: TfliteStep) -> np.dtype[np.generic]:
    """Of the output."""
    return np.dtype(NUMPY_DTYPE[dtype_of(s.out_tensor(), s.where)])


def _sizes(numbers: Array) -> tuple[int, ...]:
    """A shape that a constant holds. ValueError if it is none."""
    sizes = tuple(int(n) for n in numbers.reshape(-1))
    if min(sizes, default=1) < 1:
        raise ValueError(f"the shape {list(sizes)}")
    return sizes


def _range_size(s: TfliteStep, xs: Sequence[Array]) -> tuple[int, ...]:
    start, limit, delta = (x.reshape(()).item() for x in xs[:3])
    return (max(1, math.ceil((limit - start) / delta)),)


def _selected(s: TfliteStep, xs: Sequence[Array]) -> tuple[int, ...]:
    return np.broadcast_shapes(xs[0].shape + (1,) * (xs[1].ndim - xs[0].ndim), xs[1].shape, xs[2].shape)


def _largest(s: TfliteStep, xs: Sequence[Array]) -> tuple[int, ...]:
    return (max(x.size for x in xs),)


# The shape of a result, or one with as many elements or more, from shapes and numbers of the inputs. Operators that are
# not here broadcast.
_RESULTS: Mapping[str, Callable[[TfliteStep, Sequence[Array]], Sequence[int]]] = MappingProxyType(
    {
        "BROADCAST_TO": lambda s, xs: _sizes(xs[1]),
        "CONCATENATION": lambda s, xs: (sum(x.size for x in xs),),
        "FILL": lambda s, xs: _sizes(xs[0]),
        "GATHER": lambda s, xs: (xs[1].size, xs[0].size // xs[0].shape[s.options("GatherOptions")["Axis"]]),
        "RANGE": _range_size,
        "SELECT": _selected,
        "TILE": lambda s, xs: [n * int(k) for n, k in zip(xs[0].shape, xs[1].reshape(-1), strict=True)],
    }
    | dict.fromkeys(("BROADCAST_ARGS", "CUMSUM", "REVERSE_V2", "SLICE", "TRANSPOSE"), _largest)
    | dict.fromkeys(("REDUCE_MAX", "REDUCE_MIN", "REDUCE_PROD", "SUM"), _largest)
)


def _result(s: TfliteStep, xs: Sequence[Array]) -> Sequence[int]:
    result_shape = _RESULTS.get(s.operator.code)
    return np.broadcast_shapes(*(x.shape for x in xs)) if result_shape is None else result_shape(s, xs)


def _quotient(a: Array, b: Array) -> Array:
    """Integers towards zero, as C divides."""
    if a.dtype.kind == "f":
        return np.asarray(a / b)
    return np.asarray(np.sign(a) * np.sign(b) * (np.abs(a) // np.abs(b)), a.dtype)


def _reduced(function: Callable[..., Array]) -> Folding:
    def fold(s: TfliteStep, xs: Sequence[Array]) -> Array:
        axes = tuple(int(k) for k in xs[1].reshape(-1))
        return np.asarray(function(xs[0], axis=axes, keepdims=bool(s.options("ReducerOptions")["KeepDims"])))

    return fold


def _of_two(function: Callable[[Array, Array], Array]) -> Folding:
    return lambda s, xs: np.asarray(function(xs[0], xs[1]))


def _of_one(function: Callable[[Array], Array]) -> Folding:
    return lambda s, xs: np.asarray(function(xs[0]))


def _gather(s: TfliteStep, xs: Sequence[Array]) -> Array:
    o = s.options("GatherOptions")
    if o["BatchDims"]:
        raise ValueError("batch dimensions")
    return np.take(xs[0], xs[1], axis=o["Axis"])


def _slice(s: TfliteStep, xs: Sequence[Array]) -> Array:
    begin, size = (x.reshape(-1) for x in xs[1:3])
    if not len(begin) == len(size) == xs[0].ndim:
        raise ValueError("sizes that do not fit")
    return xs[0][tuple(slice(int(b), None if n < 0 else int(b + n)) for b, n in zip(begin, size, strict=True))]


def _range(s: TfliteStep, xs: Sequence[Array]) -> Array:
    start, limit, delta = (x.reshape(()).item() for x in xs[:3])
    return np.arange(start, limit, delta)


def _broadcast_args(s: TfliteStep, xs: Sequence[Array]) -> Array:
    return np.array(np.broadcast_shapes(*(tuple(map(int, x.reshape(-1))) for x in xs[:2])))


def _cumulated(s: TfliteStep, xs: Sequence[Array]) -> Array:
    o, axis = s.options("CumsumOptions"), int(xs[1].reshape(()))
    x = np.flip(xs[0], axis) if o["Reverse"] else xs[0]
    total = np.cumsum(x, axis) - (x if o["Exclusive"] else 0)
    return np.asarray(np.flip(total, axis) if o["Reverse"] else total)


FOLDS: Mapping[str, Folding] = MappingProxyType(
    {
        "ABS": _of_one(np.abs),
        "ADD": _of_two(np.add),
        "BROADCAST_ARGS": _broadcast_args,
        "BROADCAST_TO": lambda s, xs: np.broadcast_to(xs[0], _sizes(xs[1])),
        "CAST": lambda s, xs: xs[0].astype(_dtype(s)),
        "CEIL": _of_one(np.ceil),
        "CONCATENATION": lambda s, xs: np.concatenate(xs, s.options("ConcatenationOptions")["Axis"]),
        "CUMSUM": _cumulated,
        "DIV": _of_two(_quotient),
        "EQUAL": _of_two(np.equal),
        "EXP": _of_one(np.exp),
        "FILL": lambda s, xs: np.broadcast_to(xs[1].reshape(()), _sizes(xs[0])),
        "FLOOR": _of_one(np.floor),
        "FLOOR_DIV": _of_two(np.floor_divide),
        "FLOOR_MOD": _of_two(np.mod),
        "GATHER": _gather,
        "GREATER": _of_two(np.greater),
        "GREATER_EQUAL": _of_two(np.greater_equal),
        "LESS": _of_two(np.less),
        "LESS_EQUAL": _of_two(np.less_equal),
        "LOG": _of_one(np.log),
        "LOGICAL_AND": _of_two(np.logical_and),
        "LOGICAL_NOT": _of_one(np.logical_not),
        "LOGICAL_OR": _of_two(np.logical_or),
        "MAXIMUM": _of_two(np.maximum),
        "MINIMUM": _of_two(np.minimum),
        "MUL": _of_two(np.multiply),
        "NEG": _of_one(np.negative),
        "NOT_EQUAL": _of_two(np.not_equal),
        "POW": _of_two(np.power),
        "RANGE": _range,
        "REDUCE_MAX": _reduced(np.max),
        "REDUCE_MIN": _reduced(np.min),
        "REDUCE_PROD": _reduced(np.prod),
        "REVERSE_V2": lambda s, xs: np.flip(xs[0], tuple(map(int, xs[1].reshape(-1)))),
        "ROUND": _of_one(np.rint),
        "RSQRT": lambda s, xs: 1 / np.sqrt(xs[0]),
        "SELECT": lambda s, xs: np.where(xs[0].reshape(xs[0].shape + (1,) * (xs[1].ndim - xs[0].ndim)), xs[1], xs[2]),
        "SELECT_V2": lambda s, xs: np.where(xs[0], xs[1], xs[2]),
        "SLICE": _slice,
        "SQRT": _of_one(np.sqrt),
        "SQUARE": _of_one(np.square),
        "SUB": _of_two(np.subtract),
        "SUM": _reduced(np.sum),
        "TILE": lambda s, xs: np.tile(xs[0], xs[1].reshape(-1)),
        "TRANSPOSE": lambda s, xs: np.transpose(xs[0], tuple(map(int, xs[1].reshape(-1)))),
    }
)


def fold(s: TfliteStep) -> bool:
    """Compute the operator now if all its inputs are numbers that are known; whether it was. TinycError for nonsense.

    Quantized constants and fused activations are left to the operators' importers.
    """
    code = s.operator.code
    if code in ("ZEROS_LIKE", "RANK"):
        return _of_a_shape(s)
    if code not in FOLDS or not all(_is_number(s, index) for index in range(s.input_count)):
        return False
    options = s.operator.options
    if hasattr(options.table, "FusedActivationFunction") and options["FusedActivationFunction"]:
        return False
    arrays = [s.required_constant(index, "input") for index in range(s.input_count)]
    try:
        with np.errstate(all="raise", under="ignore"):
            s.builder.folded.take(s.out_tensor().name, _result(s, arrays), s.where)
            result = FOLDS[code](s, arrays)
            s.fold(np.ascontiguousarray(result).astype(_dtype(s)).reshape(result.shape))
    except (ValueError, IndexError, ArithmeticError, TypeError) as e:
        text = " ".join(str(e).split())[:120]
        raise TinycError(f"its inputs are constants, but it cannot be computed: {text}", s.where) from e
    return True


def _is_number(s: TfliteStep, index: int) -> bool:
    return s.has(index) and len(s.tensor(index).scale) == 0 and s.constant(index) is not None


def _of_a_shape(s: TfliteStep) -> bool:
    shape = s.tensor(0).shape
    if s.operator.code == "RANK":
        s.fold(np.array(len(shape), _dtype(s)))
    else:
        s.builder.folded.take(s.out_tensor().name, shape, s.where)
        quant = quant_of(s.out_tensor(), dtype_of(s.out_tensor(), s.where))
        s.fold(np.full(shape, quant.zero[0] if quant else 0).astype(_dtype(s)))
    return True
