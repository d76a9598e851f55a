"""How the values of a float graph are distributed on the calibration inputs.

onnxruntime runs the *original* model with every tensor of interest as a further output. A value of the
graph is found there by `loc.name`: it holds the same elements as the model's tensor of that name, in
whatever order (see load/onnx/importing.py). Values that the model does not have, or a model that
onnxruntime refuses, are run by the graph's own float reference.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt
import onnx
import onnxruntime

from tinyc.errors import Loc, TinycError
from tinyc.ir.graph import Array, Graph
from tinyc.quantize.calibration import Calibration, check_inputs
from tinyc.reference import prepare_float

BINS = 2048
_FLOATS = {"tensor(float)": np.float32, "tensor(double)": np.float64, "tensor(float16)": np.float16}
_AGREE = 1e-3  # of the largest output; far more than rounding, far less than a mistake


@dataclass(frozen=True, slots=True)
class Stats:
    """The elements of a value over all samples.

    counts[k]: elements in [edges[k], edges[k+1]); edges are evenly spaced over [lo, hi]. Exact zeros
    are not counted: zero is represented exactly whatever the scale, so it costs nothing.
    """

    lo: float
    hi: float
    counts: npt.NDArray[np.int64]

    @property
    def centres(self) -> npt.NDArray[np.float64]:
        """The middle of each bin."""
        width = (self.hi - self.lo) / len(self.counts)
        return self.lo + width * (np.arange(len(self.counts)) + 0.5)


def observe(graph: Graph, calibration: Calibration) -> dict[str, Stats]:
    """Stats of every computed value and input of the float graph.

    Two passes over the samples: ranges, then histograms. TinycError if a value overflows, or if the
    model's outputs differ from the graph's, which would be a mistake in the loader or a pass.
    """
    check_inputs(graph, calibration)
    names = [name for name in graph.values if name not in graph.consts]
    runner = _Runner(graph, names, calibration)
    ranges: dict[str, tuple[float, float]] = {}
    for arrays in runner.run():
        for name, array in arrays.items():
            lo, hi = float(array.min()), float(array.max())
            if not np.isfinite([lo, hi]).all():
                raise TinycError(f"'{name}' becomes infinite or NaN on the calibration inputs", graph.values[name].loc)
            least, most = ranges.get(name, (lo, hi))
            ranges[name] = (min(least, lo), max(most, hi))
    counts = {name: np.zeros(BINS, np.int64) for name in names}
    for arrays in runner.run():
        for name, array in arrays.items():
            counts[name] += _histogram(array, *ranges[name])
    return {name: Stats(*ranges[name], counts[name]) for name in names}


def _histogram(array: Array, lo: float, hi: float) -> npt.NDArray[np.int64]:
    if hi == lo:
        return np.zeros(BINS, np.int64)
    nonzero = array[array != 0].astype(np.float64)
    at = ((nonzero - lo) * (BINS / (hi - lo))).astype(np.int64)
    return np.bincount(np.clip(at, 0, BINS - 1), minlength=BINS)


class _Runner:
    """Gives the named values of every calibration sample, one sample after the other."""

    def __init__(self, graph: Graph, names: Collection[str], calibration: Calibration) -> None:
        self._calibration = calibration
        self._reference = prepare_float(graph)
        self._session, self._tensors = _open(graph, names, calibration.model)
        self._others = [name for name in names if name not in self._tensors and name not in graph.inputs]
        self._graph = graph

    def run(self) -> Iterator[dict[str, Array]]:
        for index in range(self._calibration.samples):
            sample = self._calibration.sample(index)
            arrays = self._from_model(sample)
            first = index == 0 and self._session is not None
            if self._others or first:
                computed = self._reference(sample, keep="all")
                if first:
                    self._check(arrays, computed)
                arrays |= {name: computed[name] for name in self._others}
            yield {**sample, **arrays}

    def _from_model(self, sample: Mapping[str, Array]) -> dict[str, Array]:
        if self._session is None:
            return {}
        feeds = {i.name: sample[i.name].astype(_FLOATS[i.type]) for i in self._session.get_inputs()}
        wanted = [tensor for tensor in dict.fromkeys(self._tensors.values()) if tensor not in sample]
        found = {**sample, **dict(zip(wanted, self._session.run(wanted, feeds), strict=True))}
        return {name: np.asarray(found[tensor], np.float32) for name, tensor in self._tensors.items()}

    def _check(self, model: Mapping[str, Array], graph: Mapping[str, Array]) -> None:
        for name in self._graph.outputs:
            if name not in model:
                continue
            ours, theirs = graph[name].reshape(-1), model[name].reshape(-1)
            off = float(np.abs(ours - theirs).max()) if ours.shape == theirs.shape else np.inf
            if off > _AGREE * max(1.0, float(np.abs(theirs).max())):
                raise TinycError(
                    f"output '{name}' differs from onnxruntime's by {off:.3g}: tinyc has misread the model",
                    self._graph.values[name].loc,
                    "please report this model as a bug",
                )


def _open(
    graph: Graph, names: Collection[str], path: Path | None
) -> tuple[onnxruntime.InferenceSession | None, dict[str, str]]:
    """A session of the model with all tensors as outputs, and which tensor holds which value's elements."""
    if path is None:
        return None, {}
    try:
        model = onnx.load(path, load_external_data=False)
        made = {name for node in model.graph.node for name in node.output} | set(graph.inputs)
        tensors = {name: _tensor(graph.values[name].loc) for name in names}
        tensors = {name: tensor for name, tensor in tensors.items() if tensor in made}
        present = {output.name for output in model.graph.output}
        for tensor in dict.fromkeys(tensors.values()):
            if tensor not in present and tensor not in graph.inputs:
                model.graph.output.append(onnx.helper.make_empty_tensor_value_info(tensor))
        options = onnxruntime.SessionOptions()
        options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
        options.intra_op_num_threads = 1
        options.log_severity_level = 4
        options.add_session_config_entry("session.model_external_initializers_file_folder_path", str(path.parent))
        session = onnxruntime.InferenceSession(model.SerializeToString(), options, ["CPUExecutionProvider"])
    except Exception:  # onnxruntime raises classes of its own: newer opset, operator it lacks
        return None, {}
    return session, {name: tensor for name, tensor in tensors.items() if name not in graph.inputs}


def _tensor(loc: Loc | None) -> str:
    return loc.name if loc is not None else ""
