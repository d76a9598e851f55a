# SPDX-License-Identifier: Apache-2.0
"""How near the integer model's outputs are to the float model's on the same inputs."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import numpy as np

from tinyc.ir.graph import Array, Graph, Quant
from tinyc.ops import is_a
from tinyc.ops.op import Trait
from tinyc.passes.weights import has_weights
from tinyc.quantize.groups import is_weight
from tinyc.quantize.judge import judge_of
from tinyc.quantize.score import axes_of_numbers, classes, columns_db, maker_of
from tinyc.quantize.simulate import Batch
from tinyc.reference.interpreter import prepare_float
from tinyc.reference.samples import SYNTHETIC, Samples
from tinyc.verify.compare import Outputs
from tinyc.verify.report import Accuracy, Quality
from tinyc.verify.task import qualities, rows_of, wants_reals

_LOST_DB = 3.0  # a column with less holds more error than signal, by half
_FEW = 8  # columns to name
_AT_ONCE = 16  # samples that the float model is run on
_NO_NOISE = 1e-20  # of the signal's power: rounding of the sums
_WORDS = {"s4": "int4", "s8": "int8", "u8": "uint8", "s16": "int16"}


def measure(
    float_graph: Graph | None,
    graph: Graph,
    samples: Samples,
    outputs: Outputs,
    on_warning: Callable[[str], None] = lambda message: None,
    metric: str | Callable[..., float] | None = None,
) -> Accuracy | None:
    """SQNR over all outputs that hold reals; agreement and, where labels differ, top-1 of the classes chosen
    (`quantize.score.classes`); what else the task's targets tell (`verify.task`). None of inputs that tinyc made up:
    they say nothing of the model's task.

    float_graph: None where the library computes what the file does; then the labels are all that it is compared
    with, and without them the result is None. graph: what the library computes. samples: reals, as the float model
    takes them; so the loss from rounding the inputs is part of the result. outputs: the library's, [sample][output].
    A model with state was reset after each `samples.sequence`. metric: what the user asks for, as `judge_of` takes it;
    one that needs labels is left out where there are none. Warns of columns of an output that are lost (`_lost`).
    """
    if samples.source == SYNTHETIC:
        return None
    labels = samples.labels if samples.labels is not None and len(np.unique(samples.labels)) > 1 else None
    computed = _by_name(graph, outputs)
    own = classes(graph, computed)
    right = None if labels is None or own is None else float((own == labels).mean())
    source = Path(samples.source).name
    if float_graph is None:
        missed = never_chosen(labels, own)
        plain = Accuracy(len(outputs), None, None, None, right, arithmetic_of(graph), source, never_chosen=missed)
        return None if right is None else plain
    expected = float_outputs(float_graph, samples, samples.sequence)
    theirs = classes(float_graph, expected)
    names = [name for name in float_graph.outputs if float_graph.values[name].dtype == "f32"]
    for name in names:
        both = (rows[name].reshape(-1, *float_graph.values[name].shape) for rows in (expected, computed))
        if (message := _lost(graph, name, axes_of_numbers(float_graph, name), *both)) is not None:
            on_warning(message)
    targets = samples.targets if names else None
    figures: list[Quality] = []
    if targets is not None:
        figures = qualities(
            float_graph, samples.arrays, (expected[names[0]], computed[names[0]]), (theirs, own), targets
        )
    if targets is not None and wants_reals(targets, expected[names[0]]):
        theirs = None  # no classes
    asked = _asked(metric, float_graph, samples, (expected, computed))
    if asked is not None:
        figures = [asked, *(other for other in figures if other.name != asked.name)]
    reals = [_reals(float_graph, rows) for rows in (expected, computed)]
    chosen = theirs if theirs is None or labels is None else np.concatenate([theirs, labels])
    return Accuracy(
        inputs=len(outputs),
        sqnr_db=sqnr_db(*reals),
        agreement=agreement(theirs, own),
        top1_float=None if right is None or theirs is None else float((theirs == labels).mean()),
        top1_int=right,
        integers=integers_of(graph),
        source=source,
        exact=not _noise(*reals)[1],
        never_chosen=never_chosen(chosen, own),
        qualities=tuple(figure for figure in figures if figure.name != "top-1"),
        metric=None if asked is None else asked.name,
    )


def _asked(
    metric: str | Callable[..., float] | None,
    graph: Graph,
    samples: Samples,
    outputs: tuple[Mapping[str, Array], Mapping[str, Array]],
) -> Quality | None:
    """The metric of the float model's and of the integers' outputs, [samples, elements] by name."""
    judge = None if metric is None else judge_of(metric, graph)
    if judge is None or (samples.targets is None and not judge.is_own):
        return None
    return Quality(judge.name, *(judge.figure(each, samples.targets, samples.arrays) for each in outputs))


def float_outputs(graph: Graph, samples: Samples, sequence: int = 0) -> dict[str, Array]:
    """What the float model makes of samples, [samples, elements] of every output; of a model with state sample after
    sample, reset after each `sequence`."""
    if graph.states:
        each = (samples.sample(index, graph) for index in range(len(samples)))
        rows = list(prepare_float(graph).sequence(each, every=sequence))
        return {name: np.stack([row[name].ravel() for row in rows]) for name in graph.outputs}
    batch, parts = Batch(graph), list[Mapping[str, Array]]()
    for first in range(0, len(samples), _AT_ONCE):
        some = samples.slice(first, _AT_ONCE).arrays
        parts.append(batch.run({name: some[name].reshape(-1, *graph.values[name].shape) for name in graph.inputs}))
    return {name: np.concatenate([rows_of(part[name]) for part in parts]) for name in graph.outputs}


def never_chosen(expected: Array | None, computed: Array | None) -> tuple[int, ...]:
    """Classes that are wanted for some sample and chosen for none; none where the model chooses no class."""
    return () if expected is None or computed is None else tuple(map(int, np.setdiff1d(expected, computed)))


def _by_name(graph: Graph, outputs: Outputs) -> dict[str, Array]:
    """Each output as the reals, or numbers of classes, that it stands for: [samples, elements]."""
    quants = {name: graph.values[name].quant for name in graph.outputs}
    columns = zip(*outputs, strict=True)
    return {
        name: np.stack([dequantize(array.reshape(graph.values[name].shape), quants[name]).ravel() for array in column])
        for name, column in zip(graph.outputs, columns, strict=True)
    }


def _reals(graph: Graph, outputs: Mapping[str, Array]) -> Array:
    """All outputs but those that the float graph has as integers, [samples, elements]."""
    rows = [array for name, array in outputs.items() if graph.values[name].dtype == "f32"]
    return np.concatenate(rows, axis=1) if rows else np.zeros((len(next(iter(outputs.values()))), 0))


def _lost(graph: Graph, name: str, among: Sequence[int], expected: Array, computed: Array) -> str | None:
    """What to say of an output [samples, *shape] some columns of which are lost: their error is what they hold."""
    columns = columns_db(expected, computed, among)
    maker = maker_of(graph, name)
    for axis in sorted({axis for axis, _ in columns}):
        own = {index: db for (of, index), db in columns.items() if of == axis}
        lost = [index for index, db in own.items() if db < _LOST_DB]
        if lost and len(lost) < len(own) and maker is not None and not is_a(maker, Trait.SHARES):
            numbers = ", ".join(map(str, lost[:_FEW])) + (f" and {len(lost) - _FEW} more" if len(lost) > _FEW else "")
            return (
                f"numbers {numbers} along axis {axis} of output '{name}' are lost, for larger ones beside them make "
                "its integers too coarse; give them an output of their own, or --activations auto --min-sqnr 30, or "
                f"--int16-layers '{maker.name}'"
            )
    return None


def varies(rows: Array) -> bool:
    """Whether outputs [samples, elements] depend on the input: figures of a model that always answers the same would
    praise any other that does."""
    return len(rows) < 2 or bool((rows != rows[0]).any())


def sqnr_db(expected: Array, computed: Array) -> float | None:
    """10 log10 of the power of `expected` [samples, elements] over that of the error, to 0.01 dB. None where that is no
    number or says nothing: no error, no signal, or a signal that is the same in every sample."""
    signal, noise = _noise(expected, computed)
    if not noise or signal == 0 or not varies(expected):
        return None
    return round(10 * float(np.log10(signal / noise)), 2)


def _noise(expected: Array, computed: Array) -> tuple[float, float]:
    """The power of a signal, and of the error beside it; 0 where that is the rounding of the sums alone."""
    signal = float(np.square(expected, dtype=np.float64).sum())
    noise = float(np.square(computed.astype(np.float64) - expected).sum())
    return signal, noise if noise > signal * _NO_NOISE else 0.0


def agreement(expected: Array | None, computed: Array | None) -> float | None:
    """Share of samples that get the same class [samples]. None where that says nothing: the model chooses no class,
    or the same for every sample."""
    if expected is None or computed is None or not varies(expected):
        return None
    return float((expected == computed).mean())


def integers_of(graph: Graph) -> str:
    """The widths of an integer graph in words: `int8`, `int4 and int8 weights, int8 activations`."""
    weights = {
        graph.values[name].dtype
        for node in graph.nodes
        for index, name in enumerate(node.inputs)
        if is_weight(node, index) and (name in graph.consts or has_weights(node))
    }
    computed = {value.dtype for name, value in graph.values.items() if name not in graph.consts and value.quant}
    if weights | computed <= {"s8"}:
        return "int8"
    names = [" and ".join(word for kind, word in _WORDS.items() if kind in kinds) for kinds in (weights, computed)]
    return ", ".join(f"{name} {what}" for name, what in zip(names, ("weights", "activations"), strict=True) if name)


def arithmetic_of(graph: Graph) -> str:
    """What a library computes in, in words: `int8`, `float32`, `int8 and float32`."""
    computed = [graph.values[name] for node in graph.nodes for name in node.outputs]
    kinds = {value.dtype for value in computed if value.quant or value.dtype == "f32"}
    words = [word for kind, word in {**_WORDS, "f32": "float32"}.items() if kind in kinds]
    return " and ".join(words) or "integers"


def dequantize(array: Array, quant: Quant | None) -> Array:
    """The reals in float64, of samples [..., *shape]; arrays without a quantization as they are."""
    return array if quant is None else quant.reals(array)
