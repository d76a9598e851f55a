# SPDX-License-Identifier: Apache-2.0
"""tinyc's quantizer beside onnxruntime's and the TensorFlow Lite converter's, on the same inputs.

    python bench/quantizers.py MODELS [--swap] [--only kws,ic] [--foreign] [--json FILE]

MODELS is the folder of published MLPerf Tiny models (`mlperf_tiny` within it). Every second development input
calibrates, the others test; --swap exchanges the halves. onnxruntime: static QDQ, int8 per channel, min-max and
percentile. The converter's int8 models are the published ones: they were calibrated with other data by their makers,
and kws is another training run, compared with the float model of that run. ai-edge-quantizer (`pip install
ai-edge-quantizer`): static int8 of the float TFLite files with a signature, where it
is installed. 4 bits: all weights, and with
55 % of the bytes of int8.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import onnxruntime
from onnxruntime.quantization import (
    CalibrationDataReader,
    CalibrationMethod,
    QuantFormat,
    QuantType,
    quantize_static,
)

from tinyc.explain.diagnosis import integer_outputs
from tinyc.ir.arrays import load_npz
from tinyc.ir.graph import Array, Graph
from tinyc.load import load_model
from tinyc.options.recipe import Recipe
from tinyc.passes import normalize
from tinyc.passes.weights import has_weights
from tinyc.quantize import Calibration, quantize, weight_bytes
from tinyc.quantize.score import before_softmax, decides
from tinyc.quantize.simulate import Batch, sqnr_db
from tinyc.reference.samples import fit_samples

INPUTS = {
    "kws": "kws_inputs_dev",
    "ic": "ic_inputs_synthetic",
    "vww": "vww_inputs_synthetic",
    "ad": "ad_inputs_dev",
    "sww": "sww_inputs_dev",
}
BUDGET = 0.55  # of the bytes of int8 weights


@dataclass(frozen=True, slots=True)
class Row:
    """A quantized model on the test half. top1 in percent where there are labels. before_db: SQNR of what a softmax at
    the output gets, of its variation from input to input."""

    model: str
    tool: str
    sqnr_db: float
    before_db: float | None
    agreement: float | None
    top1_float: float | None
    top1: float | None
    weight_bytes: int | None
    seconds: float


@dataclass(frozen=True, slots=True)
class Task:
    """A float model with its two halves of inputs."""

    name: str
    path: Path
    graph: Graph
    fit: dict[str, Array]
    test: dict[str, Array]
    labels: Array | None
    reference: Array
    all_labels: Array | None = None  # of fit and test, one after the other as they come

    def own_row(self, tool: str, integer: Graph, began: float) -> Row:
        """The figures of an integer graph of ours."""
        quant = integer.values[integer.outputs[0]].quant
        assert quant is not None  # every output is an integer
        row = self.row(tool, quant.dequantize(integer_outputs(integer, self.test)), weight_bytes(integer), began)
        names = before_softmax(self.graph)
        if not names:
            return row
        reals, own_reals = (Batch(graph).run(self.test, names)[names[0]] for graph in (self.graph, integer))
        centre = reals.mean(axis=0)
        return replace(row, before_db=round(sqnr_db(reals - centre, own_reals - centre), 2))

    def row(self, tool: str, output: Array, size: int | None, began: float, reference: Array | None = None) -> Row:
        """The figures of one tool's outputs."""
        reference = self.reference if reference is None else reference
        rows, own = reference.reshape(len(reference), -1), output.reshape(len(output), -1)
        labels = self.labels if self.labels is not None and len(np.unique(self.labels)) > 1 else None
        return Row(
            model=self.name,
            tool=tool,
            sqnr_db=round(sqnr_db(rows, own), 2),
            before_db=None,
            agreement=_percent(rows.argmax(axis=1) == own.argmax(axis=1)) if decides(self.graph) else None,
            top1_float=None if labels is None else _percent(rows.argmax(axis=1) == labels),
            top1=None if labels is None else _percent(own.argmax(axis=1) == labels),
            weight_bytes=size,
            seconds=round(time.perf_counter() - began, 1),
        )


def _percent(equal: Array) -> float:
    return round(100 * float(equal.mean()), 2)


def load(models: Path, name: str, swap: bool) -> Task:
    """The float model and the halves of its development inputs."""
    path = models / "mlperf_tiny" / f"{name}_fp32.onnx"
    graph = normalize(load_model(path))
    held = load_npz(models / "mlperf_tiny" / f"{INPUTS[name]}.npz")
    samples = fit_samples(held, graph, INPUTS[name])
    fit, test = (slice(1, None, 2), slice(0, None, 2)) if swap else (slice(0, None, 2), slice(1, None, 2))
    inputs = {n: samples.arrays[n].reshape(-1, *graph.values[n].shape) for n in graph.inputs}
    halves = [{n: np.asarray(a[half], np.float32) for n, a in inputs.items()} for half in (fit, test)]
    labels = samples.labels[test] if samples.labels is not None else None
    reference = Batch(graph).run(halves[1])[graph.outputs[0]]
    return Task(name, path, graph, halves[0], halves[1], labels, reference, samples.labels)


def ours(task: Task) -> Iterator[Row]:
    """int8, int16 activations, int4, and mixed within BUDGET, everything else automatic."""
    calibration = Calibration(task.fit, "first half", True, task.path)
    full = sum(task.graph.values[node.inputs[1]].elements for node in task.graph.nodes if has_weights(node))
    recipes: dict[str, Recipe | None] = {
        "tinyc int8": None,
        "tinyc int8, int16 activations": Recipe(activations="int16"),
        "tinyc int4": Recipe(weights="int4"),
        f"tinyc mixed, {BUDGET:.0%}": Recipe(weights="auto", weight_bytes=int(BUDGET * full)),
    }
    for tool, recipe in recipes.items():
        began = time.perf_counter()
        yield task.own_row(tool, quantize(task.graph, calibration, recipe).graph, began)


class _Reader(CalibrationDataReader):  # type: ignore[misc]  # onnxruntime has no types
    """The calibration half, one sample at a time."""

    def __init__(self, inputs: dict[str, Array]) -> None:
        count = min(len(array) for array in inputs.values())
        self._left = iter([{name: array[k] for name, array in inputs.items()} for k in range(count)])

    def get_next(self) -> dict[str, Array] | None:
        return next(self._left, None)


def onnxruntime_rows(task: Task) -> Iterator[Row]:
    """Static quantization of onnxruntime, int8 activations and weights."""
    for tool in ("min-max", "percentile"):
        began = time.perf_counter()
        run, _ = onnxruntime_model(task, tool)
        (inputs,) = task.test.values()
        yield task.row(f"onnxruntime {tool}", run(inputs), None, began)


def onnxruntime_outputs(task: Task) -> Iterator[tuple[Callable[[Array], Array], float]]:
    """Both of them as functions of the only input, and the CPU seconds of quantizing."""
    yield from (onnxruntime_model(task, tool) for tool in ("min-max", "percentile"))


def onnxruntime_model(task: Task, tool: str) -> tuple[Callable[[Array], Array], float]:
    """A model that onnxruntime quantized, as a function of its only input [samples, *shape]; CPU seconds."""
    began = time.process_time()
    methods = {"min-max": CalibrationMethod.MinMax, "percentile": CalibrationMethod.Percentile}
    with tempfile.TemporaryDirectory() as folder:
        out = Path(folder) / "model.onnx"
        quantize_static(
            str(task.path),
            str(out),
            _Reader(task.fit),
            quant_format=QuantFormat.QDQ,
            per_channel=True,
            activation_type=QuantType.QInt8,
            weight_type=QuantType.QInt8,
            calibrate_method=methods[tool],
        )
        seconds = time.process_time() - began
        options = onnxruntime.SessionOptions()  # QDQ in floats: integer sums saturate without VNNI
        options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
        session = onnxruntime.InferenceSession(str(out), options, providers=["CPUExecutionProvider"])

    (name,) = task.test

    def run(inputs: Array) -> Array:
        return np.stack([session.run(None, {name: sample})[0] for sample in inputs])

    return run, seconds


def converter_rows(task: Task, models: Path) -> Iterator[Row]:
    """The published int8 model, in our exact integers of TensorFlow Lite Micro."""
    from tinyc.base.numerics import Numerics  # noqa: PLC0415  only here
    from tinyc.base.requantize import quantize_array  # noqa: PLC0415  only here
    from tinyc.reference.interpreter import prepare_int  # noqa: PLC0415

    began = time.perf_counter()
    graph = normalize(load_model(models / "mlperf_tiny" / f"{task.name}_int8.tflite"))
    program = prepare_int(graph, Numerics.TFLM)
    x, y = graph.values[graph.inputs[0]], graph.values[graph.outputs[0]]
    assert x.quant is not None  # published as int8
    assert y.quant is not None
    (inputs,) = task.test.values()
    rows = []
    for sample in inputs:
        integers = quantize_array(sample, *x.quant.per_tensor, -128, 127).astype(np.int8).reshape(x.shape)
        rows.append(y.quant.dequantize(program({x.name: integers})[y.name]))
    reference = None
    if task.name == "kws":  # the float model of the same training run
        other = normalize(load_model(models / "mlperf_tiny" / "kws_rebuilt_fp32.onnx"))
        reference = Batch(other).run({other.inputs[0]: inputs})[other.outputs[0]]
    yield task.row("TFLite converter (published)", np.stack(rows), None, began, reference)


def ai_edge_rows(task: Task, models: Path) -> Iterator[Row]:
    """ai-edge-quantizer's static int8, run by LiteRT's reference kernels; nothing where it is not installed."""
    try:
        from ai_edge_litert.interpreter import Interpreter, OpResolverType  # noqa: PLC0415  not everywhere
        from ai_edge_quantizer import quantizer, recipe  # noqa: PLC0415
    except ImportError:
        return
    began = time.perf_counter()
    path = models / "mlperf_tiny" / f"{task.name}_fp32.tflite"
    plain = Interpreter(str(path))
    plain.allocate_tensors()
    (tensor,) = plain.get_input_details()
    if not plain.get_signature_list():
        return  # it calibrates through a signature, which the file of ic lacks
    ((signature, names),) = plain.get_signature_list().items()
    (name,) = names["inputs"]
    (fit,), (test,) = task.fit.values(), task.test.values()
    tool = quantizer.Quantizer(str(path), recipe.static_wi8_ai8())
    samples = [{name: sample.reshape(tensor["shape"])} for sample in fit]
    model = tool.quantize(tool.calibrate({signature: samples})).quantized_model
    runner = Interpreter(model_content=bytes(model), experimental_op_resolver_type=OpResolverType.BUILTIN_REF)
    runner.allocate_tensors()
    (before,), (after,) = runner.get_input_details(), runner.get_output_details()
    rows = []
    for sample in test:
        runner.set_tensor(before["index"], _as_taken(sample, before))
        runner.invoke()
        rows.append(_as_real(runner.get_tensor(after["index"]), after))
    yield task.row("ai-edge-quantizer", np.stack(rows).reshape(task.reference.shape), None, began)


def _as_taken(sample: Array, tensor: Any) -> Array:
    """The sample as the interpreter's tensor has it: float32, or integers."""
    array = sample.reshape(tensor["shape"])
    scale, zero = tensor["quantization"]
    if tensor["dtype"] == np.float32:
        return array
    return np.asarray(np.clip(np.rint(array / scale) + zero, -128, 127), tensor["dtype"])


def _as_real(array: Array, tensor: Any) -> Array:
    scale, zero = tensor["quantization"]
    return array if tensor["dtype"] == np.float32 else np.asarray((array.astype(np.float32) - zero) * np.float32(scale))


def sources(task: Task, models: Path, own: bool) -> Iterator[Iterator[Row]]:
    """The rows of every tool; own: of tinyc too, whose search takes most of the time."""
    if own:
        yield ours(task)
    yield onnxruntime_rows(task)
    yield converter_rows(task, models)
    yield ai_edge_rows(task, models)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("models", type=Path)
    parser.add_argument("--swap", action="store_true")
    parser.add_argument("--only", default=",".join(INPUTS))
    parser.add_argument("--foreign", action="store_false", dest="ours", help="the other tools alone")
    parser.add_argument("--json", type=Path)
    given = parser.parse_args()
    records: list[dict[str, Any]] = []
    for name in given.only.split(","):
        task = load(given.models, name, given.swap)
        for source in sources(task, given.models, given.ours):
            for row in source:
                records.append(asdict(row))
                shown = [row.model, row.tool, row.sqnr_db, row.before_db, row.agreement]
                shown += [row.top1_float, row.top1, row.weight_bytes]
                sys.stdout.write("  ".join("-" if value is None else str(value) for value in shown))
                sys.stdout.write(f"  {row.seconds} s\n")
                sys.stdout.flush()
    if given.json is not None:
        given.json.write_text(json.dumps(records, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
