# SPDX-License-Identifier: Apache-2.0
"""What quantizing costs in accuracy, on inputs that no step saw: several settings, beside onnxruntime's best of two.

    python bench/accuracy.py MODELS [--only kws,ic]

MODELS is the folder of published models (`mlperf_tiny` and `zoo` within it). Two of three development inputs calibrate,
the third is measured on. onnxruntime: static QDQ,
int8 per channel, min-max and percentile, the better of both on the measured inputs. Task figures: top-1 where there are
labels, agreement of classes with the float model elsewhere; of ad, which is an anomaly detector, the AUC of normal
windows and of windows that we changed (levels, gains, tones, clicks, bands, noise), as a distance from the float
model's, the mean of all kinds. Seconds are those of the CPU for quantizing alone, of this process. Prints a Markdown
table.
"""

from __future__ import annotations

import argparse
import contextlib
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
from quantizers import INPUTS, Task, load, onnxruntime_outputs

from tinyc.base.one_thread import one_thread
from tinyc.explain.diagnosis import integer_outputs
from tinyc.ir.graph import Array, Graph
from tinyc.load import load_model
from tinyc.options.recipe import Recipe, hurried
from tinyc.passes import normalize
from tinyc.quantize import Calibration, calibrate, quantize
from tinyc.quantize.metrics import anomaly_or_class, auc
from tinyc.quantize.score import decides
from tinyc.quantize.simulate import Batch, sqnr_db

_FEW = 16  # calibration inputs of one row
Run = Callable[[Array], Array]  # from inputs [samples, *shape] to outputs


@dataclass(frozen=True, slots=True)
class Setting:
    """A way to quantize. samples: at most so many calibration inputs; 0: none, they are made up."""

    name: str
    recipe: Recipe | None
    samples: int = 10_000


SETTINGS = (
    Setting("int8", None),
    Setting("int4", Recipe(weights="int4")),
    Setting("`--effort fast`", hurried(Recipe())),
    Setting("no data", None, 0),
    Setting(f"{_FEW} inputs", None, _FEW),
)


def changed(x: Array, seed: int = 1) -> Iterator[Array]:
    """Windows of 5 frames with 128 bands in dB, as no machine that is in order makes them: one kind after the other."""
    rng = np.random.default_rng(seed)
    frames = x.reshape(len(x), 5, 128)
    for gain in (0.75, 0.9, 1.1, 1.25, 1.5):
        yield gain * frames
    for level in (-12, -6, -3, 3, 6, 12):
        yield frames + level
    for decibels in (5, 10, 20):
        for rows, columns in ((5, 5), (1, 128), (5, 32)):  # a tone, a click, a band
            made = frames.copy()
            for window in made:
                first, lowest = rng.integers(0, 6 - rows), rng.integers(0, 129 - columns)
                window[first : first + rows, lowest : lowest + columns] += decibels
            yield made
    for deviation in (3, 6):
        yield frames + deviation * rng.standard_normal(frames.shape)


def areas(run: Run, x: Array) -> list[float]:
    """AUC of each kind of changed windows beside the windows as they are."""
    found = []
    for kind in changed(x):
        both = np.concatenate([x, np.asarray(kind, np.float32).reshape(x.shape)])
        labels = np.arange(len(both)) >= len(x)
        rows = [array.reshape(len(both), -1) for array in (both, run(both))]
        found.append(auc(anomaly_or_class(*rows), labels.astype(int)))
    return found


def figures(task: Task, run: Run) -> tuple[float, str]:
    """SQNR in dB, and the figure of the task in words."""
    (x,) = task.test.values()
    wanted, made = (array.reshape(len(x), -1) for array in (task.wanted, run(x)))
    decibels = sqnr_db(wanted, made)
    if wanted.shape[1] == x[0].size:
        name = task.graph.inputs[0]
        floats = areas(lambda inputs: Batch(task.graph).run({name: inputs})[task.graph.outputs[0]], x)
        return decibels, f"AUC {np.mean(np.abs(np.subtract(areas(run, x), floats))):.3f} off"
    if not decides(task.graph):
        return decibels, ""
    if task.labels is not None and len(np.unique(task.labels)) > 1:
        return decibels, f"{100 * float((made.argmax(axis=1) == task.labels).mean()):.1f} % right"
    return decibels, f"{100 * float((made.argmax(axis=1) == wanted.argmax(axis=1)).mean()):.1f} % alike"


def of_float(task: Task) -> str:
    """What the float model has, where there are labels."""
    if task.labels is None or len(np.unique(task.labels)) < 2:
        return "-"
    rows = task.wanted.reshape(len(task.wanted), -1)
    return f"{100 * float((rows.argmax(axis=1) == task.labels).mean()):.1f} % right"


def runner(task: Task, made: Graph) -> Run:
    """The integer reference."""
    quant = made.values[made.outputs[0]].quant
    assert quant is not None  # every output is an integer
    return lambda x: quant.dequantize(integer_outputs(made, {task.graph.inputs[0]: x}))


@one_thread
def cell(task: Task, setting: Setting) -> str:
    """`33.8 dB, 92.0 % right, 6.1 s`."""
    began = time.process_time()
    if setting.samples:
        fit = {name: array[: setting.samples] for name, array in task.fit.items()}
        data = Calibration(fit, "two of three", proven=True, model=task.path)
    else:
        data = calibrate(task.path, task.graph, None)
    made = quantize(task.graph, data, setting.recipe).graph
    seconds = time.process_time() - began
    decibels, words = figures(task, runner(task, made))
    return ", ".join(filter(None, (f"{decibels:.1f} dB", words, f"{seconds:.1f} s")))


def other_cell(task: Task) -> str:
    """The same of onnxruntime, the better of two settings by SQNR on the measured inputs."""
    made = []
    with contextlib.redirect_stdout(sys.stderr):  # the percentiles have much to say
        models = list(onnxruntime_outputs(task))
    for run, seconds in models:
        decibels, words = figures(task, run)
        made.append((decibels, ", ".join(filter(None, (f"{decibels:.1f} dB", words, f"{seconds:.1f} s")))))
    return max(made)[1]


def parted(models: Path, name: str) -> Task:
    """The model with two of three inputs for calibration, the third for the test."""
    halves = load(models, name, swap=False)
    graph = normalize(load_model(halves.path))
    at = np.arange(sum(len(next(iter(part.values()))) for part in (halves.fit, halves.test)))
    whole = {key: np.empty((len(at), *array.shape[1:]), array.dtype) for key, array in halves.fit.items()}
    for key, array in whole.items():
        array[0::2], array[1::2] = halves.fit[key], halves.test[key]
    unseen = at % 3 == 2
    test = {key: array[unseen] for key, array in whole.items()}
    labels = None if halves.all_labels is None else halves.all_labels[unseen]
    wanted = Batch(graph).run(test)[graph.outputs[0]]
    return replace(
        halves, fit={key: array[~unseen] for key, array in whole.items()}, test=test, labels=labels, wanted=wanted
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("models", type=Path)
    parser.add_argument("--only", default=",".join(INPUTS))
    given = parser.parse_args()
    titles = ["model", "float", *(setting.name for setting in SETTINGS), "onnxruntime"]
    print(f"| {' | '.join(titles)} |\n|{'---|' * len(titles)}")
    for name in given.only.split(","):
        task = parted(given.models, name)
        count = len(next(iter(task.fit.values())))
        print(f"| {name}, {count} + {len(task.wanted)} inputs | {of_float(task)}", end="", flush=True)
        for setting in SETTINGS:
            print(f" | {cell(task, setting)}", end="", flush=True)
        print(f" | {other_cell(task)} |", flush=True)


if __name__ == "__main__":
    main()
