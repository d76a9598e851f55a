# SPDX-License-Identifier: Apache-2.0
"""Bytes of the machine that ran against the bytes that must come out, and the first step that differs."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import numpy as np

from tinyc.base.dataclass import dataclass
from tinyc.base.errors import Loc, TinycError
from tinyc.emit.program import Program
from tinyc.ir.arrays import load_npz, named
from tinyc.ir.graph import NUMPY_DTYPE, Array, Graph
from tinyc.reference.interpreter import prepare_int
from tinyc.reference.samples import Samples


@dataclass(frozen=True, slots=True)
class Comparison:
    """Output bytes compared and found different; `first_input` is the first sample with a difference."""

    inputs: int
    output_bytes: int
    mismatches: int
    first_input: int | None


Outputs = Sequence[Sequence[Array]]  # [sample][graph output]


def reference_outputs(
    graph: Graph,
    program: Program,
    samples: Samples,
    on_sample: Callable[[], None] = lambda: None,
    sequence: int = 0,
) -> list[list[Array]]:
    """The integer reference's outputs of every sample. sequence: a model with state is reset after each `sequence`
    samples (0: never), as in `run.protocol.requests`."""
    run = prepare_int(graph, program.numerics)
    outputs = []
    for result in run.sequence((samples.sample(index, graph) for index in range(len(samples))), every=sequence):
        outputs.append([result[name] for name in graph.outputs])
        on_sample()
    return outputs


def expected_outputs(text: str, graph: Graph, samples: Samples) -> list[list[Array]]:
    """Outputs from `FILE.npz` (arrays named as the outputs, or one array) or `FILE.npz:KEY` (one output).

    Axis 0 is the sample. Raises TinycError when shapes, or the number of samples, do not fit.
    """
    file, _, key = text.partition(":")
    where = Loc(file)
    held = load_npz(Path(file))
    arrays = []
    for name in graph.outputs:
        array_name = key or name
        array = named(held, array_name)
        if array is None and not key and len(graph.outputs) == len(held) == 1:
            (array,) = held.values()
        if array is None:
            there = ", ".join(held)
            raise TinycError(f"no array '{array_name}'; the file has {there}", where, "name one: FILE.npz:KEY")
        arrays.append(_fit(array, name, graph, len(samples), where))
    return [[array[index] for array in arrays] for index in range(len(samples))]


def compare(graph: Graph, got: Sequence[Sequence[bytes]], reference: Outputs) -> Comparison:
    """Count the bytes that differ. `got` is what a Target returned: [sample][output] as bytes."""
    total = differing = 0
    first = None
    for index, (mine, theirs) in enumerate(zip(got, reference, strict=True)):
        for raw, array in zip(mine, theirs, strict=True):
            expected = np.ascontiguousarray(array).tobytes()
            total += len(expected)
            wrong = sum(a != b for a, b in zip(raw, expected, strict=True))
            differing += wrong
            if wrong and first is None:
                first = index
    return Comparison(len(reference), total, differing, first)


def first_difference(
    graph: Graph, program: Program, samples: Sequence[Mapping[str, Array]], dumped: Mapping[int, bytes]
) -> str | None:
    """Which step's output is the first to differ from the reference, in words; None when all are equal.

    dumped: of the last of the samples, of all steps or of some; the others led a model with state to it."""
    run = prepare_int(graph, program.numerics)
    (*_, values) = run.sequence(samples, keep="all")
    for step in program.steps:
        if step.index not in dumped:
            continue
        value = step.outputs[0].value
        expected = np.asarray(values[value.name]).ravel()
        sent = dumped[step.index][-expected.nbytes :]  # incremental: every call's rows, those of the window last
        got: Array = np.frombuffer(sent, NUMPY_DTYPE[value.dtype])
        wrong = np.flatnonzero(got != expected)
        if wrong.size:
            at = int(wrong[0])
            which = f"step {step.index} {step.title} '{step.node.name}' ({step.choice.kernel.name})"
            return (
                f"{which}: {wrong.size} of {expected.size} elements differ, "
                f"first at {at}: {got[at]}, expected {expected[at]}"
            )
    return None


def _fit(array: Array, name: str, graph: Graph, samples: int, where: Loc) -> Array:
    value = graph.values[name]
    if array.ndim == 0 or len(array) < samples or array[0].size != value.elements:
        raise TinycError(
            f"output '{name}' needs at least {samples} samples of shape {list(value.shape)}, "
            f"the file has {list(array.shape)}",
            where,
            "the first axis counts the samples: one for each of --inputs",
        )
    if array.dtype != np.dtype(NUMPY_DTYPE[value.dtype]):
        message = f"output '{name}' is {value.dtype}, the file has {array.dtype}"
        raise TinycError(message, where, "give the integers of the output, not reals")
    return array[:samples].reshape(samples, *value.shape)
