# SPDX-License-Identifier: Apache-2.0
"""The inputs that ranges are observed on, and whether they say anything about the model's accuracy."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from tinyc.base.dataclass import dataclass
from tinyc.base.errors import TinycError
from tinyc.ir.graph import NUMPY_DTYPE, Array, Graph
from tinyc.options.recipe import Pictures
from tinyc.quantize.judge import Judge
from tinyc.quantize.sources import load_source
from tinyc.quantize.synthetic import as_trained, first_norm
from tinyc.reference.interpreter import BoundGraph, prepare_float
from tinyc.reference.samples import FIRST_AXIS, SYNTHETIC, Samples, synthetic_samples

MAX_SAMPLES = 512  # more do not change ranges noticeably, but take time
SYNTHETIC_SAMPLES = 32
FEW_SAMPLES = 64
MAX_STEPS = 4096  # of sequences: they are run one step after the other
OVERFLOWS = "is the calibration data scaled as the training data? Else leave out the samples with such values"
SUFFIX = ".calib.npz"


@dataclass(frozen=True, slots=True)
class Sequences:
    """Consecutive samples of a model with state. inputs[name]: [samples, *shape]; starts: the samples before which
    there is a reset, the first among them."""

    inputs: Mapping[str, Array]
    starts: tuple[int, ...]

    def __len__(self) -> int:
        return min(len(array) for array in self.inputs.values())

    def first(self, count: int) -> Sequences:
        """The first so many samples."""
        inputs = {name: array[:count] for name, array in self.inputs.items()}
        return Sequences(inputs, tuple(start for start in self.starts if start < count))

    def run(self, program: BoundGraph, inputs: Mapping[str, Array], keep: Collection[str] = ()) -> dict[str, Array]:
        """Outputs and kept values, [samples, *shape], of a program that takes `inputs` in the place of the reals."""
        rows: list[dict[str, Array]] = []
        for start, end in zip(self.starts, (*self.starts[1:], len(self)), strict=True):
            samples = ({name: array[k] for name, array in inputs.items()} for k in range(start, end))
            rows += program.sequence(samples, keep)
        return {name: np.stack([row[name] for row in rows]) for name in rows[0]}

    def with_states(self, graph: Graph) -> dict[str, Array]:
        """The inputs, and every state as the float graph has it before each sample."""
        names = [state.name for state in graph.states]
        run = self.run(prepare_float(graph), self.inputs, names)
        return {**self.inputs, **{name: run[name] for name in names}}


@dataclass(frozen=True, slots=True)
class Calibration:
    """Inputs that ranges are taken from. Of a model with state, `inputs` has what every state is before each
    sample, too, as the float model that goes on from sample to sample makes it.
    """

    # [samples, *shape] of float32, or of integers where the model takes such; every sample in the full shape of the
    # model's input.
    inputs: Mapping[str, Array]
    source: str  # name of the file, or "synthetic"
    proven: bool  # the inputs are the user's
    # The float .onnx file, whose tensors onnxruntime computes; None: the graph's own float reference does.
    model: Path | None = None
    sequences: Sequences | None = None  # of a model with state, the samples as they follow each other
    variants: int = 0  # of the samples, the last so many are no inputs of the user's, but made of them
    labels: Array | None = None  # what the data say of each of the user's samples, as `y`
    judge: Judge | None = None  # the metric that settings are compared by; None: the error at the outputs is all

    @property
    def samples(self) -> int:
        return min(len(array) for array in self.inputs.values())

    @property
    def few(self) -> list[int]:
        """Indices of at most FEW_SAMPLES of the user's samples, evenly spaced: for what takes longer than a range."""
        return spread(self.samples - self.variants, FEW_SAMPLES)

    def picked(self, which: Any) -> Calibration:
        """Some of the user's samples: an index of NumPy's, of their first axis."""
        inputs = {name: array[which] for name, array in self.inputs.items()}
        return replace(self, inputs=inputs, labels=None if self.labels is None else self.labels[which])

    def sample(self, index: int) -> dict[str, Array]:
        """One sample of every input."""
        return {name: array[index] for name, array in self.inputs.items()}


def calibrate(
    model: Path, graph: Graph, file: Path | None, pictures: Pictures | None = None, sequence: int = 0
) -> Calibration:
    """Calibration inputs for the float `graph` that was loaded from `model`.

    From `file` (a file, a folder, or `module:function`: see sources.py), else from `<stem of the model>.calib.npz`
    beside the model, else synthetic (seeded noise as large as the model expects, see synthetic.py), with `proven`
    False. At most MAX_SAMPLES, evenly spaced. TinycError, naming the expected shape, if a file does not fit the inputs.
    sequence: of a model with state, samples after which it is reset, where the data do not say; 0: never.
    """
    beside = model.with_name(model.stem + SUFFIX)
    chosen = file if file is not None else beside if beside.is_file() else None
    onnx_model = model if model.suffix.lower() == ".onnx" else None
    samples = synthetic_samples(graph, SYNTHETIC_SAMPLES) if chosen is None else load_source(chosen, graph, pictures)
    source, proven = (SYNTHETIC, False) if chosen is None else (chosen.name, True)
    if graph.states:
        sequences = sequences_of(graph, samples, sequence).first(MAX_STEPS)
        inputs = sequences.with_states(graph)
        picked = spread(len(sequences), MAX_SAMPLES)
        labels = None if samples.targets is None else samples.targets[: len(sequences)]
        return Calibration(inputs, source, proven, onnx_model, sequences, labels=labels).picked(picked)
    arrays, picked = samples.arrays, spread(len(samples), MAX_SAMPLES)
    whole = {name: arrays[name][picked].reshape(-1, *graph.values[name].shape) for name in graph.inputs}
    if not proven:
        whole = as_trained(graph, whole, first_norm(onnx_model) if onnx_model is not None else None)
    labels = None if samples.targets is None else samples.targets[picked]
    return Calibration(whole, source, proven, onnx_model, labels=labels)


def sequences_of(graph: Graph, samples: Samples, sequence: int = 0) -> Sequences:
    """The samples in the full shapes of the graph's inputs. sequence: as `calibrate` has it."""
    inputs = {name: samples.arrays[name].reshape(-1, *graph.values[name].shape) for name in graph.inputs}
    return Sequences(inputs, tuple(range(0, len(samples), sequence)) if sequence else samples.starts or (0,))


def spread(count: int, most: int) -> list[int]:
    """At most `most` indices below `count`, evenly spaced, the first and the last among them."""
    return [int(i) for i in np.unique(np.linspace(0, count - 1, min(count, most)).round())]


def check_inputs(graph: Graph, calibration: Calibration) -> None:
    """Raise TinycError unless the calibration holds samples of every input's shape and type; floats are finite."""
    for name in graph.sources:
        value, array = graph.values[name], calibration.inputs.get(name)
        if array is None:
            held = ", ".join(calibration.inputs) or "nothing"
            hint = f"it holds {held}; name the arrays of the .npz as the model names its inputs"
            raise TinycError(f"the calibration data has no input '{name}'", value.loc, hint)
        kind = np.dtype(NUMPY_DTYPE[value.dtype])
        if array.shape[1:] != value.shape or len(array) == 0 or array.dtype != kind:
            raise TinycError(
                f"calibration input '{name}' is {array.dtype} {list(array.shape)}, expected {kind} "
                f"[samples, {', '.join(map(str, value.shape))}]",
                value.loc,
                FIRST_AXIS,
            )
        if kind == np.float32 and not np.isfinite(array).all():
            raise TinycError(
                f"calibration input '{name}' contains NaN or infinity",
                value.loc,
                "leave these samples out, or mend what makes them",
            )
