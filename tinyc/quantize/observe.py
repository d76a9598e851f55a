# SPDX-License-Identifier: Apache-2.0
"""How the values of a float graph are distributed on the calibration inputs.

The float graph is run many samples at once, in sums that are the same on every processor (base/exact.py): ranges, and
with them the integer model, shall not depend on where it was made. onnxruntime runs the *original* model on the first
samples, to find out whether the loader or a pass misread it.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from tinyc.base.dataclass import dataclass
from tinyc.base.errors import Loc, TinycError
from tinyc.base.extras import load_extra
from tinyc.ir.graph import Array, Graph, Labels
from tinyc.ops import is_a
from tinyc.ops.op import Trait
from tinyc.ops.sigmoid import Sigmoid
from tinyc.quantize.calibration import OVERFLOWS, Calibration, check_inputs, spread
from tinyc.quantize.simulate import Batch
from tinyc.reference.interpreter import prepare_float

if TYPE_CHECKING:
    from onnxruntime import InferenceSession

Channels = npt.NDArray[np.float64]

BINS = 2048
_TYPES: Mapping[str, type] = {  # of inputs, by onnxruntime's words
    **{"tensor(float)": np.float32, "tensor(double)": np.float64, "tensor(float16)": np.float16},
    **{"tensor(int64)": np.int64, "tensor(int32)": np.int32, "tensor(uint32)": np.uint32, "tensor(bool)": np.bool_},
}
_AGREE = 5e-3  # of the largest element; far more than rounding, far less than a mistake
_AGREE_HALF = 5e-2  # where the model computes in float16
_NUMBER, _SHARE = 1e-6, 1e-4  # the least that a largest element counts as; of what a softmax or sigmoid makes
_COMPARED = 8  # samples on which onnxruntime and the float reference are compared
_ORDERS: tuple[tuple[int, ...], ...] = ((), (0, 2, 1), (0, 2, 3, 1))  # of axes: as they are, channels last
_NO_PLACE = -(2**20)  # of a text that is not the one at its place
_AT_ONCE = 2**25  # elements of values that are held at once
_SQUARED = 2**16  # elements whose squares are held at once: they stay in the cache
_COUNTED = 2**19  # elements of a value that its distribution is made of


@dataclass(frozen=True, slots=True)
class Stats:
    """The elements of a value over all samples.

    counts[k]: elements in [edges[k], edges[k+1]); edges are evenly spaced over [lo, hi]. Exact zeros are
    not counted: zero is represented exactly whatever the scale, so it costs nothing. Per index of the
    last axis: the `least` and `most` of the elements and `power`, the mean square. `mean`: in the value's shape, over
    the samples `Calibration.few` only.
    """

    least: Channels
    most: Channels
    counts: npt.NDArray[np.int64]
    power: Channels
    mean: npt.NDArray[np.float64]

    @property
    def lo(self) -> float:
        """The least element of all."""
        return float(self.least.min())

    @property
    def hi(self) -> float:
        """The largest element of all."""
        return float(self.most.max())

    @property
    def largest(self) -> Channels:
        """Of absolute elements, per index of the last axis."""
        return np.asarray(np.maximum(np.abs(self.least), np.abs(self.most)))

    def divided(self, by: Channels) -> Stats:
        """Those of the value divided by a number for each index of the last axis, without counts."""
        counts = np.zeros_like(self.counts)
        return Stats(self.least / by, self.most / by, counts, self.power / by**2, self.mean / by)

    @property
    def centres(self) -> npt.NDArray[np.float64]:
        """The middle of each bin."""
        width = (self.hi - self.lo) / len(self.counts)
        return np.asarray(self.lo + width * (np.arange(len(self.counts)) + 0.5), np.float64)


class Observation:
    """What the float graph makes of the calibration inputs. Values are held where they fit into memory; else so many
    elements of each as its distribution is made of. TinycError for inputs that do not fit the graph."""

    def __init__(self, graph: Graph, calibration: Calibration) -> None:
        check_inputs(graph, calibration)
        self._graph, self._calibration = graph, calibration
        self._few = np.zeros(calibration.samples, np.bool_)
        self._few[calibration.few] = True
        self._names = [name for name in graph.values if name not in graph.consts]
        self._held: list[tuple[slice, dict[str, Array]]] | None = None
        self._counted: dict[str, Array] = {}

    def stats(self, counted: bool = True) -> dict[str, Stats]:
        """Stats of every value that is no constant. counted: else the counts are all 0. TinycError if a value
        overflows."""
        values = self._graph.values
        totals = {name: _Totals(values[name].shape) for name in self._names}
        some: dict[str, list[Array]] = {name: [] for name in self._names}
        for samples, arrays in self._runs():
            for name in self._names:
                totals[name].add(arrays[name], self._few[samples])
                if counted:
                    some[name].append(self._some(name, samples, arrays[name]))
        self._counted = {name: np.concatenate(parts) for name, parts in some.items() if parts}
        count, few = self._calibration.samples, len(self._calibration.few)
        by_name = {name: totals[name].stats(count, few) for name in self._names}
        for name, seen in by_name.items():
            if not np.isfinite([seen.lo, seen.hi]).all():
                raise TinycError(f"'{name}' overflows on the calibration inputs", values[name].loc, OVERFLOWS)
        return self._with_counts(by_name, {}) if counted else by_name

    def divided(
        self, stats: Mapping[str, Stats], divisors: Mapping[str, Channels], counted: bool = True
    ) -> dict[str, Stats]:
        """The stats with these values divided by a number for each index of the last axis."""
        divided = {name: stats[name].divided(by) for name, by in divisors.items()}
        return {**stats, **(self._with_counts(divided, divisors) if counted else divided)}

    def largest(self, axes: Collection[tuple[str, int]]) -> dict[tuple[str, int], Channels]:
        """The largest absolute elements per index of each (value, axis), which is counted from the last one as -1."""
        largest: dict[tuple[str, int], Channels] = {}
        for _, arrays in self._runs():
            for name, axis in axes:
                rows = np.abs(np.moveaxis(arrays[name], axis, 0).reshape(arrays[name].shape[axis], -1)).max(axis=1)
                largest[name, axis] = np.maximum(largest.get((name, axis), 0.0), rows.astype(np.float64))
        return largest

    def value(self, name: str) -> Array | None:
        """A value of all samples, if all are held."""
        return self._held[0][1].get(name) if self._held is not None else None

    def _step(self, name: str) -> int:
        """From one element that is counted to the next, over all samples; odd, so that no column is left out."""
        return 2 * (self._calibration.samples * self._graph.values[name].elements // (2 * _COUNTED)) + 1

    def _some(self, name: str, samples: slice, array: Array) -> Array:
        """Of values of some samples the elements that are counted."""
        step = self._step(name)
        return array.reshape(-1)[-samples.start * self._graph.values[name].elements % step :: step].copy()

    def _with_counts(self, stats: Mapping[str, Stats], divisors: Mapping[str, Channels]) -> dict[str, Stats]:
        counted = {}
        for name, seen in stats.items():
            some = self._counted[name].astype(np.float64)
            if name in divisors:
                some /= divisors[name][np.arange(len(some)) * self._step(name) % len(divisors[name])]
            counted[name] = replace(seen, counts=_histogram(some, seen.lo, seen.hi))
        return counted

    def _runs(self) -> Iterator[tuple[slice, dict[str, Array]]]:
        """Some samples after the other, and their values [samples, *shape]."""
        if self._held is not None:
            yield from self._held
            return
        batch = Batch(self._graph)
        names, count = self._names, self._calibration.samples
        at_once = max(1, _AT_ONCE // max(1, sum(self._graph.values[name].elements for name in names)))
        for first in range(0, count, at_once):
            samples = slice(first, min(first + at_once, count))
            inputs = {name: array[samples] for name, array in self._calibration.inputs.items()}
            with np.errstate(over="ignore", invalid="ignore"):  # `stats` says where a value overflows
                arrays = batch.run(inputs, names)
            if at_once >= count:
                self._held = [(samples, arrays)]
            yield samples, arrays


def observe(graph: Graph, calibration: Calibration) -> dict[str, Stats]:
    """Stats of every computed value and input of the float graph.

    TinycError if a value overflows, or if inputs do not fit the graph.
    """
    return Observation(graph, calibration).stats()


class _Totals:
    """Running sums and extremes of one value, per index of its last axis."""

    def __init__(self, shape: tuple[int, ...]) -> None:
        channels = shape[-1] if shape else 1
        self.least, self.most = np.full(channels, np.inf), np.full(channels, -np.inf)
        self.squares, self.total = np.zeros(channels), np.zeros(shape)

    def add(self, array: Array, to_mean: npt.NDArray[np.bool_]) -> None:
        """Values [samples, *shape]; to_mean: which of the samples count for the mean."""
        channels = len(self.squares)
        rows = array.reshape(-1, math.prod(array.shape[1:][-2:]))  # long ones: numpy takes them all at once
        # np.minimum hands NaN on, min() would drop it
        self.least = np.minimum(self.least, rows.min(axis=0).reshape(-1, channels).min(axis=0))
        self.most = np.maximum(self.most, rows.max(axis=0).reshape(-1, channels).max(axis=0))
        at_once = max(1, _SQUARED // rows.shape[1])
        squares = np.zeros(rows.shape[1])
        for first in range(0, len(rows), at_once):
            squares += np.square(rows[first : first + at_once], dtype=np.float64).sum(axis=0)
        self.squares += squares.reshape(-1, channels).sum(axis=0) * (len(array) * channels / array.size)
        self.total += array[to_mean].sum(axis=0, dtype=np.float64)

    def stats(self, samples: int, few: int) -> Stats:
        power, mean = self.squares / samples, np.asarray(self.total / few)
        return Stats(self.least, self.most, np.zeros(BINS, np.int64), power, mean)


def _histogram(some: Channels, lo: float, hi: float) -> npt.NDArray[np.int64]:
    if hi == lo:
        return np.zeros(BINS, np.int64)
    some = some[some != 0]
    at = ((some - lo) * (BINS / (hi - lo))).astype(np.int64)
    return np.bincount(np.clip(at, 0, BINS - 1), minlength=BINS)


def check_model(graph: Graph, calibration: Calibration) -> None:
    """TinycError if the outputs of the first samples differ from what onnxruntime makes of the model. They are found
    there by `loc.name` (see load/onnx/importing.py), in the order of the graph's own layout."""
    model = _open(graph, graph.sinks, calibration)
    if model is None:
        return
    reference, left = prepare_float(graph), dict.fromkeys(model.tensors, _ORDERS)
    for index in spread(calibration.samples, _COMPARED):
        sample = calibration.sample(index)
        tensors, values = model.run(sample), reference(sample, keep=graph.sinks)
        for name, tensor in model.tensors.items():
            computed, expected = _as_numbers(tensors[tensor], values[name], graph.labels.get(name)), values[name]
            if computed.dtype.kind == "f" and np.isfinite(expected).all() and not np.isfinite(computed).all():
                message = f"'{name}' overflows on the calibration inputs"  # in the order in which onnxruntime adds
                raise TinycError(message, graph.values[name].loc, OVERFLOWS)
            left[name] = tuple(
                order
                for order in left[name]
                if computed.size == expected.size
                and len(order) in (0, computed.ndim)
                and _alike(
                    _in_order(computed, order).reshape(expected.shape), expected, model.tolerance, _least(graph, name)
                )
            )
    for name, orders in left.items():
        if not orders:
            raise TinycError(
                f"output '{name}' differs from what onnxruntime computes: tinyc has misread the model",
                graph.values[name].loc,
                "please report this model as a bug",
            )


def _as_numbers(computed: Array, expected: Array, labels: Labels | None) -> Array:
    """Of texts what the graph has, their places in `labels`, wherever that is the text; texts that the graph does not
    know cannot be compared."""
    if computed.dtype.kind != "O" or computed.size != expected.size:
        return computed
    if labels is None:
        return expected.reshape(computed.shape)
    text_at = dict(enumerate(labels.texts))
    equal = [text_at.get(int(place)) == text for place, text in zip(expected.ravel(), computed.ravel(), strict=True)]
    return np.where(equal, expected.ravel(), _NO_PLACE).reshape(computed.shape)


def _in_order(tensor: Array, order: tuple[int, ...]) -> Array:
    return np.asarray(tensor.transpose(order) if order else tensor, np.float32)


def _least(graph: Graph, name: str) -> float:
    """What the largest element of an output counts as at least. Beside a whole 1, numbers of a softmax or sigmoid have
    fewer digits."""
    maker = graph.producer().get(name)
    is_share = maker is not None and (is_a(maker, Trait.SHARES) or isinstance(maker.attrs, Sigmoid))
    return _SHARE if is_share else _NUMBER


def _alike(a: Array, b: Array, tolerance: float, least: float) -> bool:
    """Whether they differ by no more than `tolerance` of the largest element, which counts as `least` at least."""
    if not np.isfinite(b).all():  # `observe` says so
        return True
    return bool(np.abs(a - b).max() <= tolerance * max(float(np.abs(b).max()), least))


@dataclass(frozen=True, slots=True)
class _Model:
    """The original model in onnxruntime. tensors[value]: the model's tensor with the value's elements."""

    session: InferenceSession
    tensors: Mapping[str, str]
    tolerance: float

    def run(self, sample: Mapping[str, Array]) -> dict[str, Array]:
        """Tensors by their name in the model, inputs included."""
        feeds: dict[str, Array] = {i.name: sample[i.name].astype(_TYPES[i.type]) for i in self.session.get_inputs()}
        missing = [tensor for tensor in dict.fromkeys(self.tensors.values()) if tensor not in sample]
        try:
            return {**sample, **dict(zip(missing, self.session.run(missing, feeds), strict=True))}
        except Exception as e:  # onnxruntime has many kinds: an index out of range, say
            said = str(e).splitlines()[0][:200]
            hint = "calibrate with inputs that the model takes; made-up ones may be none"
            raise TinycError(f"onnxruntime does not run the model on a calibration sample: {said}", hint=hint) from e


def _open(graph: Graph, names: Collection[str], calibration: Calibration) -> _Model | None:
    """The model with these tensors as outputs; None without a model or if onnxruntime cannot run it. TinycError where
    it is not installed: no model goes on unchecked."""
    if calibration.model is None:
        return None
    onnx = load_extra("onnx", "onnx", "reading an ONNX model", Loc(calibration.model.name))
    runtime = load_extra("onnxruntime", "onnx", "quantizing a float ONNX model", Loc(calibration.model.name))
    try:
        proto = onnx.load(calibration.model, load_external_data=False)
        computed = {name for node in proto.graph.node for name in node.output}.union(graph.sources)
        locs = {name: graph.values[name].loc for name in names}
        # A map has no shape: what it is made of stands for it.
        inside = {node.output[0]: node.input[0] for node in proto.graph.node if node.op_type == "ZipMap"}
        by_name = {name: loc.name for name, loc in locs.items() if loc is not None and loc.name in computed}
        tensors = {name: inside.get(tensor, tensor) for name, tensor in by_name.items()}
        present = {output.name for output in proto.graph.output}.union(graph.sources)
        for tensor in dict.fromkeys(tensors.values()):
            if tensor not in present:
                proto.graph.output.append(onnx.helper.make_empty_tensor_value_info(tensor))
        session = _session(runtime, proto.SerializeToString(), calibration.model.resolve().parent)
        half = any(value.type == "tensor(float16)" for value in (*session.get_inputs(), *session.get_outputs()))
        model = _Model(session, tensors, _AGREE_HALF if half else _AGREE)
        model.run(calibration.sample(0))
    except Exception:  # classes of onnxruntime's own: an opset, operator or type that it lacks
        return None
    return model


def _session(runtime: Any, model: bytes, folder: Path) -> InferenceSession:
    """A session that computes every node as it is, on one core; external data lies in `folder`."""
    options = runtime.SessionOptions()
    options.graph_optimization_level = runtime.GraphOptimizationLevel.ORT_DISABLE_ALL
    options.intra_op_num_threads = 1
    options.log_severity_level = 4
    options.add_session_config_entry("session.model_external_initializers_file_folder_path", str(folder))
    return runtime.InferenceSession(model, options, providers=["CPUExecutionProvider"])
