# SPDX-License-Identifier: Apache-2.0
"""What quantizing costs in accuracy, on inputs that no step saw: several settings, beside onnxruntime's best of two.

    python bench/accuracy.py MODELS [--only kws,ic]

MODELS is the folder of published models (`mlperf_tiny` and `zoo` within it). Each third of the development inputs is
measured on once, with the other two for calibration; figures are the means of all thirds. In brackets SQNR of what the
softmax at the output gets, of its variation from input to input: of a softmax a few uncertain inputs say all.
onnxruntime: static QDQ, int8 per channel, min-max and percentile, the better of both on the measured inputs. Task
figures: top-1 where there are labels, agreement of classes with the float model elsewhere; of ad, which is an anomaly
detector, the AUC of normal windows and of windows that we changed (levels, gains, tones, clicks, bands, noise), as a
distance from the float model's, the mean of all kinds. Seconds are those of the CPU for quantizing alone, of this
process. Prints a Markdown table.
"""

from __future__ import annotations

import argparse
import contextlib
import sys
import time
from collections.abc import Callable, Iterator, Sequence
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
from tinyc.quantize.score import before_softmax, decides
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
            windows = frames.copy()
            for window in windows:
                first, lowest = rng.integers(0, 6 - rows), rng.integers(0, 129 - columns)
                window[first : first + rows, lowest : lowest + columns] += decibels
            yield windows
    for deviation in (3, 6):
        yield frames + deviation * rng.standard_normal(frames.shape)


def areas(run: Run, x: Array) -> list[float]:
    """AUC of each kind of changed windows beside the windows as they are."""
    each_area = []
    for kind in changed(x):
        both = np.concatenate([x, np.asarray(kind, np.float32).reshape(x.shape)])
        labels = np.arange(len(both)) >= len(x)
        rows = [array.reshape(len(both), -1) for array in (both, run(both))]
        each_area.append(auc(anomaly_or_class(*rows), labels.astype(int)))
    return each_area


@dataclass(frozen=True, slots=True)
class Figures:
    """Of one third, or the mean of several. before_db: of what a softmax gets; None without one, and for onnxruntime.
    task: the task's own figure, in the unit that `unit` says; None where there is none."""

    decibels: float
    before_db: float | None
    task: float | None
    unit: str
    seconds: float

    @classmethod
    def mean(cls, each: Sequence[Figures]) -> Figures:
        def of(numbers: Sequence[float | None]) -> float | None:
            numbers_there = [number for number in numbers if number is not None]
            return float(np.mean(numbers_there)) if numbers_there else None

        decibels, seconds = (float(np.mean([getattr(one, name) for one in each])) for name in ("decibels", "seconds"))
        return cls(decibels, of([f.before_db for f in each]), of([f.task for f in each]), each[0].unit, seconds)

    def __str__(self) -> str:
        """`33.8 dB (34.1), 92.0 % right, 6.1 s`."""
        before = "" if self.before_db is None else f" ({self.before_db:.1f})"
        own = (
            []
            if self.task is None
            else [f"AUC {self.task:.3f} off" if self.unit == "AUC" else f"{self.task:.1f} {self.unit}"]
        )
        return ", ".join([f"{self.decibels:.1f} dB{before}", *own, f"{self.seconds:.1f} s"])


def figures(task: Task, run: Run, seconds: float, before_db: float | None = None) -> Figures:
    """What a way to run the model has on the unseen inputs."""
    (x,) = task.test.values()
    reference, outputs = (array.reshape(len(x), -1) for array in (task.reference, run(x)))
    own, unit = None, ""
    if reference.shape[1] == x[0].size:
        name = task.graph.inputs[0]
        floats = areas(lambda inputs: Batch(task.graph).run({name: inputs})[task.graph.outputs[0]], x)
        own, unit = float(np.mean(np.abs(np.subtract(areas(run, x), floats)))), "AUC"
    elif decides(task.graph) and task.labels is not None and len(np.unique(task.labels)) > 1:
        own, unit = 100 * float((outputs.argmax(axis=1) == task.labels).mean()), "% right"
    elif decides(task.graph):
        own, unit = 100 * float((outputs.argmax(axis=1) == reference.argmax(axis=1)).mean()), "% alike"
    return Figures(sqnr_db(reference, outputs), before_db, own, unit, seconds)


def before(task: Task, integer: Graph) -> float | None:
    """SQNR in dB of what the softmax at the output gets, of its variation; None without one."""
    names = before_softmax(task.graph)
    if not names:
        return None
    reals, own = (Batch(graph).run(task.test, names)[names[0]] for graph in (task.graph, integer))
    centre = reals.mean(axis=0)
    return sqnr_db(reals - centre, own - centre)


def of_float(tasks: Sequence[Task]) -> str:
    """What the float model has, where there are labels."""
    right = [
        float((task.reference.reshape(len(task.reference), -1).argmax(axis=1) == task.labels).mean())
        for task in tasks
        if task.labels is not None and len(np.unique(task.labels)) > 1
    ]
    return f"{100 * float(np.mean(right)):.1f} % right" if right else "-"


def runner(task: Task, integer: Graph) -> Run:
    """The integer reference."""
    quant = integer.values[integer.outputs[0]].quant
    assert quant is not None  # every output is an integer
    return lambda x: quant.dequantize(integer_outputs(integer, {task.graph.inputs[0]: x}))


@one_thread
def cell(task: Task, setting: Setting) -> Figures:
    """Of one third."""
    began = time.process_time()
    if setting.samples:
        fit = {name: array[: setting.samples] for name, array in task.fit.items()}
        data = Calibration(fit, "two of three", proven=True, model=task.path)
    else:
        data = calibrate(task.path, task.graph, None)
    integer = quantize(task.graph, data, setting.recipe).graph
    seconds = time.process_time() - began
    return figures(task, runner(task, integer), seconds, before(task, integer))


def other_cell(task: Task) -> Figures:
    """The same of onnxruntime, the better of two settings by SQNR on the measured inputs."""
    with contextlib.redirect_stdout(sys.stderr):  # the percentiles have much to say
        each_setting = [figures(task, run, seconds) for run, seconds in onnxruntime_outputs(task)]
    return max(each_setting, key=lambda each: each.decibels)


def parted(models: Path, name: str) -> Iterator[Task]:
    """The model with each third of the inputs for the test, and the others for calibration."""
    halves = load(models, name, swap=False)
    graph = normalize(load_model(halves.path))
    at = np.arange(sum(len(next(iter(part.values()))) for part in (halves.fit, halves.test)))
    whole = {key: np.empty((len(at), *array.shape[1:]), array.dtype) for key, array in halves.fit.items()}
    for key, array in whole.items():
        array[0::2], array[1::2] = halves.fit[key], halves.test[key]
    for third in range(3):
        unseen = at % 3 == third
        fit, test = ({key: array[part] for key, array in whole.items()} for part in (~unseen, unseen))
        labels = None if halves.all_labels is None else halves.all_labels[unseen]
        yield replace(halves, fit=fit, test=test, labels=labels, reference=Batch(graph).run(test)[graph.outputs[0]])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("models", type=Path)
    parser.add_argument("--only", default=",".join(INPUTS))
    given = parser.parse_args()
    titles = ["model", "float", *(setting.name for setting in SETTINGS), "onnxruntime"]
    print(f"| {' | '.join(titles)} |\n|{'---|' * len(titles)}")
    for name in given.only.split(","):
        tasks = list(parted(given.models, name))
        count = len(next(iter(tasks[-1].fit.values())))
        print(f"| {name}, {count} + {len(tasks[-1].reference)} inputs | {of_float(tasks)}", end="", flush=True)
        for setting in SETTINGS:
            print(f" | {Figures.mean([cell(task, setting) for task in tasks])}", end="", flush=True)
        print(f" | {Figures.mean([other_cell(task) for task in tasks])} |", flush=True)


if __name__ == "__main__":
    main()
