# SPDX-License-Identifier: Apache-2.0
"""What quantizing costs networks of other kinds, by the figure of their task: several settings, beside onnxruntime.

    python bench/trained_accuracy.py FOLDER [NAME...]

FOLDER is what `bench/trained_networks.py` wrote. Calibrated with 96 inputs, measured on 400 that no step saw. Figures
are those of `--metric`, with SQNR of the output and CPU seconds of quantizing alone; onnxruntime: static QDQ, int8 per
channel, the better of min-max and percentile by the figure on the measured inputs. Prints a Markdown table.
"""

from __future__ import annotations

import contextlib
import sys
import time
from pathlib import Path

import numpy as np
from accuracy import SETTINGS, Setting
from quantizers import Task, onnxruntime_outputs

from tinyc.base.one_thread import one_thread
from tinyc.explain.diagnosis import integer_outputs
from tinyc.ir.graph import Array
from tinyc.load import load_model
from tinyc.passes import normalize
from tinyc.quantize import Calibration, calibrate, quantize
from tinyc.quantize.judge import judge_of
from tinyc.quantize.simulate import Batch, sqnr_db

METRICS = {
    "mobilenet_v3": "top-1",
    "efficientnet_lite": "top-1",
    "yolo": "mAP",
    "unet": "IoU",
    "denoiser": "RMSE",
    "vad_gru": "AUC",
    "lstm_regression": "RMSE",
    "conformer": "top-1",
}


def loaded(folder: Path, name: str) -> Task:
    """The network with its inputs; labels are those of the test."""
    path = folder / f"{name}.onnx"
    graph = normalize(load_model(path))
    (source,) = graph.inputs
    parts = [np.load(folder / f"{name}.{part}.npz") for part in ("fit", "test")]
    shape = graph.values[source].shape
    fit, test = ({source: _as(part["x"], shape)} for part in parts)
    return Task(name, path, graph, fit, test, parts[1]["y"], Batch(graph).run(test)[graph.outputs[0]])


def _as(x: Array, shape: tuple[int, ...]) -> Array:
    return np.asarray(x if x.shape[1:] == shape else x.reshape(len(x), *shape), np.float32)


def said(task: Task, output: Array, seconds: float | None) -> str:
    """`82.1, 33.4 dB, 1.2 s`."""
    value = figure(task, output)
    own = f"{value:.4f}" if METRICS[task.name] == "RMSE" else f"{100 * value:.1f}"
    return own if seconds is None else f"{own}, {sqnr_db(task.reference, output):.1f} dB, {seconds:.1f} s"


def figure(task: Task, output: Array) -> float:
    judge = judge_of(METRICS[task.name], task.graph)
    return judge.figure({task.graph.outputs[0]: output.reshape(task.reference.shape)}, task.labels, task.test)


@one_thread
def cell(task: Task, setting: Setting) -> str:
    began = time.process_time()
    if setting.samples:
        fit = {name: array[: setting.samples] for name, array in task.fit.items()}
        data = Calibration(fit, "fit", proven=True, model=task.path)
    else:
        data = calibrate(task.path, task.graph, None)
    integer = quantize(task.graph, data, setting.recipe).graph
    seconds = time.process_time() - began
    quant = integer.values[integer.outputs[0]].quant
    assert quant is not None  # every output is an integer
    return said(task, quant.dequantize(integer_outputs(integer, task.test)), seconds)


def other_cell(task: Task) -> str:
    """The same of onnxruntime, the better of two settings by the figure."""
    with contextlib.redirect_stdout(sys.stderr):  # the percentiles have much to say
        both = [(figure(task, run(next(iter(task.test.values())))), run, s) for run, s in onnxruntime_outputs(task)]
    less = METRICS[task.name] == "RMSE"
    _, run, seconds = min(both, key=lambda each: each[0] if less else -each[0])
    return said(task, run(next(iter(task.test.values()))), seconds)


def main(folder: Path, names: list[str]) -> None:
    titles = ["model", "float", *(setting.name for setting in SETTINGS), "onnxruntime"]
    print(f"| {' | '.join(titles)} |\n|{'---|' * len(titles)}")
    for name in names or list(METRICS):
        task = loaded(folder, name)
        print(f"| {name}, {METRICS[name]} | {said(task, task.reference, None)}", end="", flush=True)
        for setting in SETTINGS:
            print(f" | {cell(task, setting)}", end="", flush=True)
        print(f" | {other_cell(task)} |", flush=True)


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2:])
