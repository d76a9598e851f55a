# SPDX-License-Identifier: Apache-2.0
"""How the values of a float graph are distributed on the calibration inputs.

onnxruntime runs the *original* model with every tensor of interest as a further output. A value of the
graph is found there by `loc.name`: it holds the same elements as the model's tensor of that name (see
load/onnx/importing.py), in the order of the graph's own layout, which is found, and checked, by
comparing with the float reference on the first samples. Values that the model does not have, or whose
elements differ, and models that onnxruntime refuses, are run by the float reference alone.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from tinyc.base.errors import Loc, TinycError
from tinyc.base.extras import load_extra
from tinyc.ir.graph import Array, Graph
from tinyc.quantize.calibration import Calibration, check_inputs
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
_COMPARED = 3  # samples on which onnxruntime and the float reference are compared
_TO_NHWC: Mapping[int, tuple[int, ...]] = {3: (0, 2, 1), 4: (0, 2, 3, 1)}


@dataclass(frozen=True, slots=True)
class Stats:
    """The elements of a value over all samples.

    counts[k]: elements in [edges[k], edges[k+1]); edges are evenly spaced over [lo, hi]. Exact zeros are
    not counted: zero is represented exactly whatever the scale, so it costs nothing. Per index of the
    last axis: `largest` absolute element and `power`, the mean square. `mean`: in the value's shape, over
    the samples `Calibration.few` only.
    """

    lo: float
    hi: float
    counts: npt.NDArray[np.int64]
    largest: Channels
    power: Channels
    mean: npt.NDArray[np.float64]

    @property
    def centres(self) -> npt.NDArray[np.float64]:
        """The middle of each bin."""
        width = (self.hi - self.lo) / len(self.counts)
        return np.asarray(self.lo + width * (np.arange(len(self.counts)) + 0.5), np.float64)


def observe(graph: Graph, calibration: Calibration, divisors: Mapping[str, Channels] | None = None) -> dict[str, Stats]:
    """Stats of every computed value and input of the float graph.

    `divisors`: values that are those of the model divided by so much per index of the last axis (see
    equalize.py). Two passes over the samples: ranges, then histograms. TinycError if a value overflows,
    or if the model's outputs differ from the graph's, which would be a mistake in the loader or a pass.
    """
    check_inputs(graph, calibration)
    names = [name for name in graph.values if name not in graph.consts]
    runner = SampleRunner(graph, names, calibration, divisors or {})
    totals = {name: _Totals(graph.values[name].shape) for name in names}
    few = frozenset(calibration.few)
    for index, arrays in enumerate(runner.run()):
        for name, array in arrays.items():
            totals[name].add(array, index in few)
    for name in names:
        if not np.isfinite([totals[name].lo, totals[name].hi]).all():
            raise TinycError(f"'{name}' overflows on the calibration inputs", graph.values[name].loc)
    counts = {name: np.zeros(BINS, np.int64) for name in names}
    for arrays in runner.run():
        for name, array in arrays.items():
            counts[name] += _histogram(array, totals[name].lo, totals[name].hi)
    return {name: totals[name].stats(counts[name], calibration.samples, len(few)) for name in names}


class _Totals:
    """Running sums and extremes of one value."""

    def __init__(self, shape: tuple[int, ...]) -> None:
        channels = shape[-1] if shape else 1
        self.lo, self.hi = np.inf, -np.inf
        self.largest, self.squares = np.zeros(channels), np.zeros(channels)
        self.total = np.zeros(shape)

    def add(self, array: Array, to_mean: bool) -> None:
        # np.minimum hands NaN on, min() would drop it
        self.lo, self.hi = float(np.minimum(self.lo, array.min())), float(np.maximum(self.hi, array.max()))
        wide = array.astype(np.float64)
        rows = wide.reshape(-1, len(self.largest))
        self.largest = np.maximum(self.largest, np.abs(rows).max(axis=0))
        self.squares += np.square(rows).mean(axis=0)
        if to_mean:
            self.total += wide

    def stats(self, counts: npt.NDArray[np.int64], samples: int, few: int) -> Stats:
        power, mean = self.squares / samples, np.asarray(self.total / few)
        return Stats(self.lo, self.hi, counts, self.largest, power, mean)


def _histogram(array: Array, lo: float, hi: float) -> npt.NDArray[np.int64]:
    if hi == lo:
        return np.zeros(BINS, np.int64)
    nonzero = array[array != 0].astype(np.float64)
    at = ((nonzero - lo) * (BINS / (hi - lo))).astype(np.int64)
    return np.bincount(np.clip(at, 0, BINS - 1), minlength=BINS)


class SampleRunner:
    """Gives the named values of every calibration sample in the graph's layout, one sample after the other."""

    def __init__(
        self,
        graph: Graph,
        names: Collection[str],
        calibration: Calibration,
        divisors: Mapping[str, Channels],
    ) -> None:
        self._graph, self._calibration, self._divisors = graph, calibration, divisors
        self._reference = prepare_float(graph)
        self._names = [name for name in names if name not in graph.sources]
        self._model = _open(graph, self._names, calibration)
        self._perms = self._arrangements() if self._model is not None else {}
        self._others = [name for name in self._names if name not in self._perms]

    def run(self) -> Iterator[dict[str, Array]]:
        """The values by name, inputs included; float32."""
        for index in range(self._calibration.samples):
            sample = self._calibration.sample(index)
            found = dict(sample)
            if self._perms and self._model is not None:
                tensors = self._model.run(sample)
                for name, perm in self._perms.items():
                    found[name] = self._arranged(name, tensors[self._model.tensors[name]], perm)
            if self._others:
                computed = self._reference(sample, keep=self._others)
                found |= {name: computed[name] for name in self._others}
            yield found

    def _arranged(self, name: str, tensor: Array, perm: tuple[int, ...] | None) -> Array:
        """The model's tensor as the graph's value: transposed, in its shape, divided."""
        moved = tensor if perm is None else tensor.transpose(perm)
        array = moved.reshape(self._graph.values[name].shape)
        return np.asarray(array / self._divisors[name] if name in self._divisors else array, np.float32)

    def _arrangements(self) -> dict[str, tuple[int, ...] | None]:
        """For each value that the model has: how to transpose the model's tensor (None: not at all)."""
        assert self._model is not None
        left: dict[str, list[tuple[int, ...] | None]] = {}
        for index in range(min(_COMPARED, self._calibration.samples)):
            sample = self._calibration.sample(index)
            tensors, values = self._model.run(sample), self._reference(sample, keep="all")
            for name, tensor in self._model.tensors.items():
                array = tensors[tensor]
                tried = left.get(name, [None, *([_TO_NHWC[array.ndim]] if array.ndim in _TO_NHWC else [])])
                left[name] = [
                    p
                    for p in tried
                    if array.size == values[name].size
                    and _alike(self._arranged(name, array, p), values[name], self._model.tolerance)
                ]
        for name in self._graph.sinks:
            if left.get(name, [None]) == []:
                raise TinycError(
                    f"output '{name}' differs from what onnxruntime computes: tinyc has misread the model",
                    self._graph.values[name].loc,
                    "please report this model as a bug",
                )
        return {name: perms[0] for name, perms in left.items() if perms}


def _alike(a: Array, b: Array, tolerance: float) -> bool:
    if not np.isfinite(b).all():  # `observe` says so
        return True
    return bool(np.abs(a - b).max() <= tolerance * max(float(np.abs(b).max()), 1e-6))


@dataclass(frozen=True, slots=True)
class _Model:
    """The original model in onnxruntime. tensors[value]: the model's tensor with the value's elements."""

    session: InferenceSession
    tensors: Mapping[str, str]
    tolerance: float

    def run(self, sample: Mapping[str, Array]) -> dict[str, Array]:
        """Tensors by their name in the model, inputs included."""
        feeds: dict[str, Array] = {i.name: sample[i.name].astype(_TYPES[i.type]) for i in self.session.get_inputs()}
        wanted = [tensor for tensor in dict.fromkeys(self.tensors.values()) if tensor not in sample]
        return {**sample, **dict(zip(wanted, self.session.run(wanted, feeds), strict=True))}


def _open(graph: Graph, names: Collection[str], calibration: Calibration) -> _Model | None:
    """The model with all tensors as outputs; None without a model or if onnxruntime cannot run it. TinycError where it
    is not installed: the ranges, and so the library, shall not depend on that."""
    if calibration.model is None:
        return None
    onnx = load_extra("onnx", "onnx", "reading an ONNX model", Loc(calibration.model.name))
    runtime = load_extra("onnxruntime", "onnx", "quantizing a float ONNX model", Loc(calibration.model.name))
    try:
        proto = onnx.load(calibration.model, load_external_data=False)
        made = {name for node in proto.graph.node for name in node.output}.union(graph.sources)
        locs = {name: graph.values[name].loc for name in names}
        tensors = {name: loc.name for name, loc in locs.items() if loc is not None and loc.name in made}
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
