# SPDX-License-Identifier: Apache-2.0
"""Input samples for a model, from .npz files or made up, as the integers or floats that its inputs take."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import numpy as np

from tinyc.base.dataclass import dataclass
from tinyc.base.errors import Loc, TinycError
from tinyc.base.requantize import quantize_array
from tinyc.ir.arrays import load_npz, named
from tinyc.ir.graph import INT_RANGE, NUMPY_DTYPE, Array, Graph, Value
from tinyc.kernels.trees.keys import reals_of
from tinyc.ops.gather import Gather
from tinyc.ops.tree_ensemble import TreeEnsemble

SYNTHETIC = "synthetic"  # the source of made-up samples
LABELS = "y"  # the key of class labels in an .npz file
FIRST_AXIS = "the first axis counts the samples, the others are those of the model's input without its batch"
_SYNTHETIC_ELEMENTS = 1 << 24  # elements of all synthetic samples
_LARGEST = 0x7F7FFFFF  # the bits, and the key, of the largest float
_ANONYMOUS = ("x", "x_f32", "arr_0", "in0")  # keys that may stand for the only input


@dataclass(frozen=True, slots=True)
class Samples:
    """`arrays[input]`: [samples, *shape without the batch axis]; labels: int [samples] or None. starts: of a model with
    state, the samples before which it is reset; none: only before the first. targets: `y` as the file has it: classes,
    or the wanted outputs, one for each sample."""

    arrays: Mapping[str, Array]
    labels: Array | None
    source: str
    starts: tuple[int, ...] = ()
    targets: Array | None = None

    def __len__(self) -> int:
        return min((len(array) for array in self.arrays.values()), default=0)

    def slice(self, first: int, count: int) -> Samples:
        """At most `count` samples from `first` on."""
        part = slice(first, first + count)
        labels, targets = (None if array is None else array[part] for array in (self.labels, self.targets))
        starts = tuple(start - first for start in self.starts if first <= start < first + count)
        arrays = {name: array[part] for name, array in self.arrays.items()}
        return Samples(arrays, labels, self.source, starts, targets)

    @property
    def sequence(self) -> int:
        """Samples after each of which a model with state is reset; 0: all are one sequence, or of several lengths."""
        every = self.starts[1] if len(self.starts) > 1 else 0
        return every if every and self.starts == tuple(range(0, len(self), every)) else 0

    def sample(self, index: int, graph: Graph) -> dict[str, Array]:
        """Sample `index` in the shapes of the graph's inputs."""
        return {name: self.arrays[name][index].reshape(graph.values[name].shape) for name in graph.inputs}


def load_samples(path: Path, graph: Graph) -> Samples:
    """The samples of an .npz file that fit the graph's inputs.

    Keys are input names; a model with one input also takes `x`, `x_f32`, or the only array. Integer
    inputs take their own integers or reals, which are quantized; float inputs take reals. `y`, if it
    is there, holds labels. Scalars `scale` and `zero_point` say what integers of the file mean.
    Raises TinycError naming the expected shape.
    """
    return fit_samples(load_npz(path), graph, str(path))


def fit_samples(held: Mapping[str, Array], graph: Graph, source: str) -> Samples:
    """`load_samples` of arrays at hand; `source` is what messages and reports call them. Of a model with state, arrays
    may be [sequences, steps, *shape]."""
    where = Loc(source)
    arrays = {}
    steps = 0
    for name in graph.inputs:
        value, array = graph.values[name], _pick(where, held, name, graph)
        if graph.states and array.shape[1:] != value.shape and _has_steps(array, value):
            steps = array.shape[1]
            array = array.reshape(-1, *array.shape[2:])
        arrays[name] = _fit(where, value, _as_meant(where, held, value, array))
    if len({len(array) for array in arrays.values()}) > 1:
        counts = ", ".join(f"{name}: {len(array)}" for name, array in arrays.items())
        raise TinycError(f"inputs have different numbers of samples ({counts})", where, FIRST_AXIS)
    count = len(next(iter(arrays.values())))
    starts = tuple(range(0, count, steps)) if steps else ()
    targets = None if LABELS in graph.inputs else held.get(LABELS)
    if targets is not None and (targets.ndim == 0 or len(targets) != count):
        targets = None
    return Samples(arrays, _labels(where, held, graph, count), source, starts, targets)


def _has_steps(array: Array, value: Value) -> bool:
    """Whether the samples are [sequences, steps, *shape]."""
    return array.size > 0 and array.ndim > 1 and array.shape[2:] in (value.shape, _sample_shape(value))


def _labels(where: Loc, held: Mapping[str, Array], graph: Graph, count: int) -> Array | None:
    """One class for each sample, where the file has such labels; other arrays called `y` are not for us."""
    labels = None if LABELS in graph.inputs or LABELS not in held else as_classes(graph, held[LABELS])
    if labels is None or labels.ndim != 1:
        return None
    if len(labels) != count:
        raise TinycError(
            f"there are {len(labels)} labels '{LABELS}' for {count} samples", where, f"leave out '{LABELS}', or mend it"
        )
    return labels


def as_classes(graph: Graph, labels: Array) -> Array | None:
    """Labels as the numbers that the library gives: integers as they are, texts as their places among the model's own
    texts, -1 of a text that is none of them. None of other arrays, and of texts where the model has none."""
    if labels.dtype.kind in "iu":
        return labels
    texts = next(iter(graph.labels.values())).texts if graph.labels else ()
    if labels.dtype.kind not in "US" or not texts:
        return None
    places = {text: place for place, text in enumerate(texts)}
    said = [text.decode("utf-8", "replace") if isinstance(text, bytes) else str(text) for text in labels.ravel()]
    return np.array([places.get(text, -1) for text in said], np.int64).reshape(labels.shape)


def quantized(samples: Samples, graph: Graph, perms: Mapping[str, tuple[int, ...]]) -> Samples:
    """Samples of a float graph as the integers of the graph that was quantized from it; they saturate.

    perms: inputs that the integer graph takes with other axes, as axes of the float graph's input.
    """
    arrays = {name: _integers(Loc(samples.source), graph.values[name], a) for name, a in samples.arrays.items()}
    return moved(replace(samples, arrays=arrays), perms)


def moved(samples: Samples, perms: Mapping[str, tuple[int, ...]]) -> Samples:
    """Samples in the order of axes that the library takes; perms as in `quantized`."""
    arrays = dict(samples.arrays)
    for name, perm in perms.items():
        # Every perm leaves the first axis in place. Samples do not have it where it is a batch of one.
        has_first = arrays[name].ndim > len(perm)
        arrays[name] = arrays[name].transpose((0, *(axis + 1 for axis in perm)) if has_first else perm)
    return replace(samples, arrays=arrays)


def synthetic_samples(graph: Graph, count: int, seed: int = 0) -> Samples:
    """Made-up inputs: of integers uniform noise, then constant extremes; of floats normal noise, of the features of
    trees the thresholds and what follows them. Good for equality, not accuracy.

    Fewer than `count` where one sample is so large that all would take hundreds of megabytes.
    """
    count = min(count, max(1, _SYNTHETIC_ELEMENTS // max(1, sum(graph.values[name].elements for name in graph.inputs))))
    rng = np.random.default_rng(seed)
    arrays: dict[str, Array] = {}
    for name in graph.inputs:
        value = graph.values[name]
        shape = (count, *_sample_shape(value))
        if value.dtype == "f32":
            arrays[name] = _beside_cuts(graph, name, rng.standard_normal(shape).astype(np.float32), rng)
            continue
        lo, hi = _index_range(graph, name) or INT_RANGE[value.dtype]
        array: Array = rng.integers(lo, hi, shape, endpoint=True).astype(NUMPY_DTYPE[value.dtype])
        for index, level in enumerate((lo, hi)[: max(count - 1, 0)]):
            array[-1 - index] = level
        arrays[name] = array
    return Samples(arrays, None, SYNTHETIC)


def _beside_cuts(graph: Graph, name: str, x: Array, rng: np.random.Generator) -> Array:
    """The samples; of features that trees compare, the last number below a comparison's cut or the first beyond."""
    for node in graph.nodes:
        if isinstance(node.attrs, TreeEnsemble) and node.inputs[0] == name and node.inputs[1] in graph.consts:
            features, nodes = (graph.consts[const] for const in node.inputs[1:3])
            rows = x.reshape(len(x), -1)
            for code, index in enumerate(features[:, 0]):
                keys = rng.choice(nodes[nodes[:, 0] == code, 1], len(x)).astype(np.int64) + rng.integers(0, 2, len(x))
                rows[:, index] = reals_of(np.clip(keys, -_LARGEST - 1, _LARGEST))
    return x


def _index_range(graph: Graph, name: str) -> tuple[int, int] | None:
    """The numbers that an input may hold if it picks parts of other tensors, as token numbers do."""
    sizes = [
        graph.values[node.inputs[0]].shape[node.attrs.axis]
        for node in graph.nodes
        if isinstance(node.attrs, Gather) and node.inputs[1] == name
    ]
    return (0, min(sizes) - 1) if sizes else None


def _sample_shape(value: Value) -> tuple[int, ...]:
    """A value's shape without the batch axis of 1."""
    return value.shape[1:] if len(value.shape) > 1 and value.shape[0] == 1 else value.shape


def _pick(where: Loc, held: Mapping[str, Array], name: str, graph: Graph) -> Array:
    array = named(held, name)
    if array is not None:
        return array
    if len(graph.inputs) == 1:
        value = graph.values[name]
        candidates = [held[key] for key in _ANONYMOUS if key in held]
        # An integer input is best served by its own integers, where the file has both.
        candidates.sort(key=lambda one: one.dtype != np.dtype(NUMPY_DTYPE[value.dtype]))
        others = [one for key, one in held.items() if key != LABELS]
        if candidates or len(others) == 1:
            return (candidates or others)[0]
    raise TinycError(
        f"no array for input '{name}'; the file has {', '.join(held) or 'none'}",
        where,
        f"name the arrays after the model's inputs: {', '.join(graph.inputs)}",
    )


def _as_meant(where: Loc, held: Mapping[str, Array], value: Value, array: Array) -> Array:
    """Integers whose scale the file gives, as reals; untouched if the input is quantized in the same way."""
    scale, zero = held.get("scale"), held.get("zero_point")
    if array.dtype.kind not in "iu" or scale is None or zero is None or scale.size != 1 or zero.size != 1:
        return array
    if not (_is_number(scale) and scale.item() > 0 and _is_number(zero) and float(zero.item()).is_integer()):
        message = "the arrays 'scale' and 'zero_point' are no positive number and no whole number"
        raise TinycError(message, where, "they say what the integers of the file mean; leave them out, or mend them")
    meant = (float(scale.item()), int(zero.item()))
    if value.quant is not None and np.allclose(meant, value.quant.per_tensor, rtol=1e-6, atol=0):
        return array
    with np.errstate(over="ignore"):  # infinite reals are refused
        return ((array.astype(np.float64) - meant[1]) * meant[0]).astype(np.float32)


def _is_number(array: Array) -> bool:
    return array.dtype.kind in "fiu" and bool(np.isfinite(array).all())


def _fit(where: Loc, value: Value, array: Array) -> Array:
    shape = _sample_shape(value)
    if array.dtype.kind == "b":
        array = array.astype(np.float32)  # reals: 1 is true
    if array.dtype.kind not in "fiu":
        message = f"input '{value.name}' has dtype {array.dtype}, expected numbers"
        raise TinycError(message, where, "give floats, or the integers that the input takes")
    if array.shape[1:] == (1, *shape):
        array = array.reshape(len(array), *shape)
    if array.shape[1:] != shape or len(array) == 0:
        raise TinycError(
            f"input '{value.name}' has shape {list(array.shape)}, expected [samples, {', '.join(map(str, shape))}]",
            where,
            FIRST_AXIS,
        )
    if array.dtype.kind == "f":
        with np.errstate(over="ignore"):  # what is too large for float32 becomes infinite, and is refused
            reals = array.astype(np.float32)
        if not np.isfinite(reals).all():
            message = f"input '{value.name}' has values that are no finite 32-bit floats"
            raise TinycError(message, where, "look for NaN, infinity and values beyond 3.4e38 in that array")
        return reals if value.dtype == "f32" else _integers(where, value, array)
    if value.dtype == "f32":
        return array.astype(np.float32)
    lo, hi = INT_RANGE[value.dtype]
    if array.min() < lo or array.max() > hi:
        message = f"input '{value.name}' has values outside {value.dtype} [{lo}, {hi}]"
        raise TinycError(message, where, "give the integers that the input takes, or reals, which are quantized")
    return array.astype(NUMPY_DTYPE[value.dtype])


def _integers(where: Loc, value: Value, reals: Array) -> Array:
    if value.quant is None and np.array_equal(reals, np.rint(reals)):  # numbers that stand for themselves
        return reals.astype(NUMPY_DTYPE[value.dtype])
    if value.quant is None:
        message = f"input '{value.name}' is {value.dtype} without a scale, so it takes no reals"
        raise TinycError(message, where, f"give {value.dtype} integers")
    scale, zero = value.quant.per_tensor
    return quantize_array(reals, scale, zero, *INT_RANGE[value.dtype]).astype(NUMPY_DTYPE[value.dtype])
