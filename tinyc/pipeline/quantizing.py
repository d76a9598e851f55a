# SPDX-License-Identifier: Apache-2.0
"""`tinyc quantize` as a function: load, quantize, measure, save, and run what was saved in its own runtime."""

from __future__ import annotations

import io
from collections.abc import Mapping
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import numpy as np

from tinyc.base.dataclass import dataclass
from tinyc.base.errors import Loc, TinycError
from tinyc.base.escape import visible
from tinyc.base.extras import load_extra
from tinyc.base.files import write_file
from tinyc.base.one_thread import one_thread
from tinyc.base.shown import Shown, Summary, SummaryTable, bytes_of, nonempty
from tinyc.explain.diagnosis import Diagnosis, diagnose, integer_inputs, integer_outputs
from tinyc.export import FORMATS, as_in_files, save
from tinyc.ir.arrays import load_npz
from tinyc.ir.graph import Array, Graph
from tinyc.ops import is_a
from tinyc.ops.op import Trait
from tinyc.options.build import Options
from tinyc.options.recipe import Recipe
from tinyc.passes import normalize
from tinyc.pipeline.float_models import quantize_float
from tinyc.pipeline.integers import load_with_states
from tinyc.pipeline.precision import is_float
from tinyc.pipeline.progress import Progress
from tinyc.quantize import Calibration, Quantized, weight_bytes
from tinyc.quantize.calibration import Sequences, sequences_of
from tinyc.quantize.convert import quantized
from tinyc.quantize.groups import is_weight
from tinyc.quantize.judge import judge_of
from tinyc.quantize.layerwise import weight_constants
from tinyc.quantize.sources import load_source
from tinyc.reference.samples import LABELS
from tinyc.verify.accuracy import integers_of

_COMPARED = 64  # samples that a saved model is run on


@dataclass(frozen=True, slots=True)
class Saved:
    """A saved model beside ours: share of equal output integers, and the largest difference in steps. `runtime` None:
    none is installed that could run it."""

    path: str
    bytes: int
    runtime: str | None
    equal: float | None
    largest_step: int | None


@dataclass(frozen=True, slots=True)
class QuantizeReport(Shown):
    """What `tinyc quantize` states. weight_bytes: of the weights alone; int8_bytes: what they would take in 8 bits.
    other_weight_bytes: of layers whose weights have no form of 4 bits, where some are asked for.
    headroom: how many times as widely as those seen inputs may vary. integers: widths of weights and activations, in
    words. int16_layers: layers that run on int16, if not all do."""

    model: str
    calibration: str
    samples: int
    proven: bool
    method: str
    searched: bool
    equalized: bool
    learned: bool
    headroom: float
    bits: Mapping[str, int]
    weight_bytes: int
    int8_bytes: int
    other_weight_bytes: int
    integers: str
    int16_layers: tuple[str, ...]
    evaluated_on: str
    diagnosis: Diagnosis
    saved: Saved | None

    __repr__ = Shown.text

    def summary(self) -> Summary:
        """How near the integers are to the float model, what costs most, and every layer's part."""
        diagnosis = self.diagnosis
        facts = nonempty(
            SQNR="" if diagnosis.sqnr_db is None else f"{diagnosis.sqnr_db:.1f} dB on {diagnosis.samples:,} inputs",
            agreement="" if diagnosis.agreement is None else f"{diagnosis.agreement:.1%}",
            **{one.name: one.words for one in diagnosis.qualities},
            weights=f"{bytes_of(self.weight_bytes)}, {self.integers}",
            worst_layer=diagnosis.worst,
            advice=diagnosis.advice,
            saved="" if self.saved is None else str(self.saved.path),
        )
        rows = [(one.name, one.op, f"{one.own_db:.1f}", f"{one.sqnr_db:.1f}") for one in diagnosis.layers]
        heads = ("layer", "operator", "dB, alone in integers", "dB, of its output")
        return Summary(f"{self.model} in integers", facts, [SummaryTable(heads, rows)])

    def to_json(self) -> dict[str, Any]:
        """Plain lists, dicts, numbers and strings; keys in a fixed order."""
        return asdict(self)


@one_thread
def quantize_file(
    path: Path, options: Options, evaluate: Path | None, out: Path | None, progress: Progress
) -> QuantizeReport:
    """Quantize the float model, measure it on `evaluate` (default: the calibration inputs), save it as `out`.

    TinycError if the model is quantized already, data do not fit, or the format cannot express the model.
    """
    if out is not None and out.suffix.lower() not in FORMATS:
        raise TinycError(f"there is no format for '{out.suffix}'", Loc(str(out)), f"there are: {', '.join(FORMATS)}")
    if out is not None and out.suffix.lower() == ".tflite":  # whose activations have one scale
        options = replace(options, recipe=replace(options.recipe or Recipe(), output_scales="one"))
    with progress.stage("load"):
        graph = normalize(load_with_states(path, options, progress))
    if out is not None and out.exists() and out.samefile(path):
        raise TinycError(
            "the quantized model would replace the float one", Loc(str(out)), "choose another file with -o"
        )
    if not is_float(graph):
        if graph.classical:
            message = "decision trees run in integers as they are: there is nothing to quantize"
            raise TinycError(message, Loc(str(path)), f"tinyc build {path.name} makes the library")
        raise TinycError("the model is quantized already", Loc(str(path)), "give the float model")
    with progress.stage("quantize"):
        outcome, data = quantize_float(path, graph, None, options, progress)
        if out is not None:
            outcome = replace(outcome, graph=as_in_files(outcome.graph))
    with progress.stage("evaluate"):
        test, labels, source = _calibrated(data), None, data.source
        if evaluate is not None:
            test, labels, source = _test_data(evaluate, graph, options)
        metric = None if options.recipe is None else options.recipe.metric
        judge = None if metric is None else judge_of(metric, graph)
        if judge is not None and evaluate is None:
            labels = data.labels
        proven = data.proven or evaluate is not None
        diagnosis = diagnose(graph, outcome, test, labels, proven=proven, judge=judge)
    saved = None
    if out is not None:
        with progress.stage("save"):
            opened = with_open_states(outcome.graph)
            save(opened, out)
            few = test.with_states(graph) if graph.states else test.inputs
            saved = compare_saved(opened, out, {name: a[:_COMPARED] for name, a in few.items()})
    layers = [node for node in outcome.graph.nodes if node.name in outcome.bits]
    elements = sum(
        outcome.graph.values[name].elements for node in layers for name in weight_constants(outcome.graph, node)
    )
    return QuantizeReport(
        model=path.name,
        calibration=data.source,
        samples=data.samples,
        proven=data.proven,
        method=outcome.plan.method,
        searched=outcome.plan.searched,
        equalized=outcome.plan.equalize,
        learned=outcome.plan.learned or min(outcome.bits.values(), default=8) < 8,
        headroom=outcome.plan.headroom,
        bits=_by_layer(outcome),
        weight_bytes=weight_bytes(outcome.graph),
        int8_bytes=elements,
        other_weight_bytes=_others(outcome) if (options.asked_recipe or Recipe()).weights != "int8" else 0,
        integers=integers_of(outcome.graph),
        int16_layers=int16_layers(outcome.graph),
        evaluated_on=source,
        diagnosis=diagnosis,
        saved=saved,
    )


def int16_layers(graph: Graph) -> tuple[str, ...]:
    """Names of the layers that run on int16, in run order; none where all do. What only moves values is no layer."""
    computing = [node for node in graph.nodes if not is_a(node, Trait.MOVES, Trait.RESCALES)]
    wide = [node for node in computing if graph.values[node.outputs[0]].dtype == "s16"]
    return () if len(wide) == len(computing) else tuple(dict.fromkeys(node.layer for node in wide))


def _others(outcome: Quantized) -> int:
    """Bytes of int8 weights of layers that the recipe's bits do not reach."""
    graph = outcome.graph
    names = {
        name
        for node in graph.nodes
        if node.name not in outcome.bits
        for name in node.inputs
        if name in graph.consts and graph.consts[name].ndim > 1 and is_weight(node, node.inputs.index(name))
    }
    return sum(graph.values[name].size_bytes for name in names if graph.values[name].dtype == "s8")


def _by_layer(outcome: Quantized) -> dict[str, int]:
    """Bits by the user's own names of the layers."""
    nodes = {node.name: node for node in outcome.graph.nodes}
    widths = {}
    for name, bits in outcome.bits.items():
        where = nodes[name].where
        widths[where.name if where is not None and where.name else name] = bits
    return widths


def _calibrated(data: Calibration) -> Sequences:
    """The calibration inputs as test data; of a model without state each is a sequence of its own."""
    return data.sequences or Sequences(data.inputs, tuple(range(data.samples)))


def with_open_states(graph: Graph) -> Graph:
    """The graph with its states as inputs and outputs, as a file has them."""
    return replace(graph, inputs=graph.sources, outputs=graph.sinks, states=())


def _test_data(evaluate: Path, graph: Graph, options: Options) -> tuple[Sequences, Array | None, str]:
    samples = load_source(evaluate, graph, options.pictures)
    labels = load_npz(evaluate).get(LABELS) if evaluate.is_file() else None
    return sequences_of(graph, samples, options.sequence), labels, evaluate.name


def compare_saved(graph: Graph, path: Path, inputs: Mapping[str, Array]) -> Saved:
    """The saved file's outputs in its own runtime beside the integer reference's."""
    ours = integer_outputs(graph, inputs).astype(np.int64)
    run = _run_onnx if path.suffix.lower() == ".onnx" else _run_tflite
    runtime, theirs = run(graph, path, inputs)
    if theirs is None:
        return Saved(str(path), path.stat().st_size, None, None, None)
    steps = np.abs(theirs.reshape(ours.shape).astype(np.int64) - ours)
    return Saved(str(path), path.stat().st_size, runtime, float((steps == 0).mean()), int(steps.max()))


def _run_onnx(graph: Graph, path: Path, inputs: Mapping[str, Array]) -> tuple[str, Array | None]:
    try:
        import onnxruntime  # noqa: PLC0415  an optional extra
    except ImportError:
        return "", None
    settings = onnxruntime.SessionOptions()
    settings.intra_op_num_threads = 1
    settings.log_severity_level = 4
    # Without it, its sums of two products saturate at 16 bits on x86 processors that lack VNNI.
    settings.add_session_config_entry("session.x64quantprecision", "1")
    session = onnxruntime.InferenceSession(str(path), settings, providers=["CPUExecutionProvider"])
    quant = graph.values[graph.outputs[0]].quant
    assert quant is not None  # outputs are integers
    rows = []
    for k in range(min(len(array) for array in inputs.values())):
        real = session.run(None, {name: array[k] for name, array in inputs.items()})[0]
        rows.append(quantized(np.asarray(real), quant, "s16"))
    return f"onnxruntime {onnxruntime.__version__}", np.stack(rows)


def _run_tflite(graph: Graph, path: Path, inputs: Mapping[str, Array]) -> tuple[str, Array | None]:
    """In TensorFlow Lite Micro, else LiteRT, whichever is installed."""
    samples = integer_inputs(graph, inputs)
    try:
        from tflite_micro import runtime  # noqa: PLC0415  an optional extra
    except ImportError:
        return _run_litert(path, samples)
    try:
        interpreter = runtime.Interpreter.from_file(str(path))
    except RuntimeError:  # 4-bit fully connected layers are not for it
        return _run_litert(path, samples)
    rows = []
    for sample in samples:
        for index, name in enumerate(graph.inputs):
            interpreter.set_input(sample[name], index)
        interpreter.invoke()
        rows.append(interpreter.get_output(0).copy())
    return "TensorFlow Lite Micro", np.stack(rows)


def _run_litert(path: Path, samples: list[dict[str, Array]]) -> tuple[str, Array | None]:
    try:
        from ai_edge_litert.interpreter import Interpreter  # noqa: PLC0415  an optional extra
    except ImportError:
        return "", None
    interpreter = Interpreter(str(path))
    try:
        interpreter.allocate_tensors()
    except RuntimeError:
        return "", None
    places = {detail["name"]: detail["index"] for detail in interpreter.get_input_details()}
    out = interpreter.get_output_details()[0]["index"]
    rows = []
    for sample in samples:
        for name, array in sample.items():
            interpreter.set_tensor(places[name], array)
        interpreter.invoke()
        rows.append(interpreter.get_tensor(out).copy())
    return "LiteRT", np.stack(rows)


def plot_ranges(diagnosis: Diagnosis, picture: Path) -> None:
    """Draw, for every layer, the range of its integers beside what the test inputs make of it. TinycError without
    matplotlib, or for a file that cannot be written."""
    mpl = load_extra("matplotlib", "plot", "drawing")
    mpl.use("agg")
    mpl.rcParams.update({"svg.hashsalt": "tinyc", "svg.fonttype": "none", "font.size": 8})
    from matplotlib import pyplot as plt  # noqa: PLC0415  an optional extra

    count = len(diagnosis.layers)
    figure, axes = plt.subplots(figsize=(7, 0.28 * count + 1))
    for row, layer in enumerate(diagnosis.layers):
        unit = max(abs(layer.lo), abs(layer.hi), 1e-30)
        axes.barh(row, (layer.hi - layer.lo) / unit, left=layer.lo / unit, height=0.7, color="#c9d6df")
        seen = (layer.largest - layer.least) / unit
        axes.barh(row, seen, left=layer.least / unit, height=0.3, color="#1b6ca8")
    names = [visible(layer.name) for layer in diagnosis.layers]
    axes.set_yticks(range(count), [f"...{name[-27:]}" if len(name) > 30 else name for name in names], parse_math=False)
    axes.invert_yaxis()
    axes.set_xlabel("wide: range of the integers, narrow: values of the test inputs; relative to the wider end")
    figure.tight_layout()
    try:
        drawn = io.BytesIO()
        metadata = {"Date": None} if picture.suffix == ".svg" else None
        figure.savefig(drawn, metadata=metadata, format=picture.suffix[1:])
        write_file(picture, drawn.getvalue())
    except (OSError, ValueError) as error:
        hint = "choose another file with --plot: .svg, .png or .pdf"
        raise TinycError(f"cannot draw into this file: {error}", Loc(str(picture)), hint) from error
    finally:
        plt.close(figure)
