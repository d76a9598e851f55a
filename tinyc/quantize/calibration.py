# SPDX-License-Identifier: Apache-2.0
"""The inputs that ranges are observed on, and whether they say anything about the model's accuracy."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from tinyc.base.errors import TinycError
from tinyc.ir.graph import NUMPY_DTYPE, Array, Graph
from tinyc.quantize.sources import Pictures, load_source
from tinyc.reference.samples import SYNTHETIC, synthetic_samples

MAX_SAMPLES = 512  # more do not change ranges noticeably, but take time
SYNTHETIC_SAMPLES = 32
FEW_SAMPLES = 64
SUFFIX = ".calib.npz"


@dataclass(frozen=True, slots=True)
class Calibration:
    """`inputs[name]`: [samples, *shape] of float32, or of integers where the model takes such; every sample in the full
    shape of the model's input.

    source: name of the file, or "synthetic". proven: the inputs are the user's. model: the float .onnx
    file, whose tensors onnxruntime computes; None: the graph's own float reference does.
    """

    inputs: Mapping[str, Array]
    source: str
    proven: bool
    model: Path | None = None

    @property
    def samples(self) -> int:
        return min(len(array) for array in self.inputs.values())

    @property
    def few(self) -> list[int]:
        """Indices of at most FEW_SAMPLES samples, evenly spaced: for what takes longer than a range."""
        return spread(self.samples, FEW_SAMPLES)

    def sample(self, index: int) -> dict[str, Array]:
        """One sample of every input."""
        return {name: array[index] for name, array in self.inputs.items()}


def calibrate(model: Path, graph: Graph, file: Path | None, pictures: Pictures | None = None) -> Calibration:
    """Calibration inputs for the float `graph` that was loaded from `model`.

    From `file` (a file, a folder, or `module:function`: see sources.py), else from `<stem of the model>.calib.npz`
    beside the model, else synthetic (standard normal, seeded), with `proven` False. At most MAX_SAMPLES, evenly
    spaced. TinycError, naming the expected shape, if a file does not fit the model's inputs.
    """
    beside = model.with_name(model.stem + SUFFIX)
    chosen = file if file is not None else beside if beside.is_file() else None
    onnx_model = model if model.suffix.lower() == ".onnx" else None
    if chosen is None:
        return Calibration(
            _whole(graph, synthetic_samples(graph, SYNTHETIC_SAMPLES).arrays), SYNTHETIC, False, onnx_model
        )
    return Calibration(_whole(graph, load_source(chosen, graph, pictures).arrays), chosen.name, True, onnx_model)


def _whole(graph: Graph, arrays: Mapping[str, Array]) -> dict[str, Array]:
    count = min(len(array) for array in arrays.values())
    picked = spread(count, MAX_SAMPLES)
    return {name: arrays[name][picked].reshape(-1, *graph.values[name].shape) for name in graph.inputs}


def spread(count: int, most: int) -> list[int]:
    """At most `most` indices below `count`, evenly spaced, the first and the last among them."""
    return [int(i) for i in np.unique(np.linspace(0, count - 1, min(count, most)).round())]


def check_inputs(graph: Graph, calibration: Calibration) -> None:
    """Raise TinycError unless the calibration holds samples of every input's shape and type; floats are finite."""
    for name in graph.inputs:
        value, array = graph.values[name], calibration.inputs.get(name)
        if array is None:
            raise TinycError(f"the calibration data has no input '{name}'", value.loc)
        kind = np.dtype(NUMPY_DTYPE[value.dtype])
        if array.shape[1:] != value.shape or len(array) == 0 or array.dtype != kind:
            raise TinycError(
                f"calibration input '{name}' is {array.dtype} {list(array.shape)}, expected {kind} "
                f"[samples, {', '.join(map(str, value.shape))}]",
                value.loc,
            )
        if kind == np.float32 and not np.isfinite(array).all():
            raise TinycError(f"calibration input '{name}' contains NaN or infinity", value.loc)
