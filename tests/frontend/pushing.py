# SPDX-License-Identifier: Apache-2.0
"""Libraries with a front end that are pushed samples, and what they have to give."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np

from tests.frontend.sounds import Samples
from tests.ops.sanitized import sanitized
from tests.ops.test_recurrent import as_file, with_states
from tests.ops.tflite_builder import Operator, Tensor, build_model
from tests.target.state_cases import svdf
from tinyc.base.numerics import Numerics
from tinyc.board import load_board
from tinyc.frontend import FrontEnd
from tinyc.ir.graph import Array, Graph, Quant, Value
from tinyc.options.build import Options
from tinyc.pipeline.compiling import compile_model
from tinyc.pipeline.progress import Progress
from tinyc.reference.interpreter import prepare_int

WAKE_WORD = Quant((26 / 255,), (-128,))  # the scale of microWakeWord's models


def window_model(path: Path, frames: int, quant: Quant = WAKE_WORD, channels: int = 40) -> Path:
    """A model without state that sees `frames` frames: a fully connected layer."""
    weights = np.random.default_rng(3).integers(-127, 128, (3, frames * channels), np.int8)
    tensors = [
        Tensor("x", (1, frames * channels), "s8", quant.scale, quant.zero),
        Tensor("w", (3, frames * channels), "s8", (0.01,), (0,), data=weights),
        Tensor("y", (1, 3), "s8", (0.7,), (5,)),
    ]
    fields = {"FusedActivationFunction": 0, "WeightsFormat": 0, "KeepNumDims": False}
    operator = Operator("FULLY_CONNECTED", ("x", "w", ""), ("y",), "FullyConnectedOptions", fields)
    path.write_bytes(build_model(tensors, [operator], ["x"], ["y"]))
    return path


def state_model(path: Path, frames: int, quant: Quant | None = None, channels: int = 40) -> Path:
    """A model that remembers: an SVDF layer."""
    graph = with_states(svdf(3, 1, 4, channels * frames), {"state": "after"})
    if quant is not None:
        (name,) = (name for name in graph.inputs if name == "x")
        graph = replace(graph, values={**graph.values, name: replace(graph.values[name], quant=quant)})
    fields = {"Rank": 1, "FusedActivationFunction": 1}
    path.write_bytes(as_file(graph, "SVDF", "SVDFOptions", fields, ("x", "w", "t", "b", "state")))
    return path


def expected(graph: Graph, front: FrontEnd, samples: Samples, numerics: Numerics = Numerics.TFLM) -> list[Array]:
    """The model's outputs on features of the Python function, run after run, since its window is full."""
    (name,) = graph.inputs
    x = graph.values[name]
    assert x.quant is not None
    rows = x.elements // front.channels
    hop = rows if graph.states else front.hop
    silent = as_features(front, np.zeros(front.window, np.int16), x)
    stream = np.concatenate([np.repeat(silent, rows - hop, axis=0), as_features(front, samples, x)])
    inputs = [{name: stream[at - rows : at].reshape(x.shape)} for at in range(rows, len(stream) + 1, hop)]
    runs = [run[graph.outputs[0]] for run in prepare_int(graph, numerics).sequence(inputs)]
    return runs[-(-rows // hop) - 1 :]


def as_features(front: FrontEnd, samples: Samples, x: Value) -> Array:
    """What the model's input x gets, [frames, channels], by the Python function."""
    assert x.quant is not None
    wide = {} if x.dtype == "s8" else {"dtype": x.dtype}
    return front.quantized(samples.reshape(-1, front.axes) if front.axes > 1 else samples, *x.quant.per_tensor, **wide)


Stream = tuple[Samples, Iterator[int]]  # and how many of them each push takes


def pushed(
    path: Path, front: str, streams: Sequence[Stream], folder: Path, incremental: int | None = None
) -> list[bytes]:
    """Outputs of the generated library, sanitizers on, where a push says that there is one, of streams one after the
    other. Chunks are so short that a push makes one run at most."""
    options = Options("host", name="unit", frontend=front, incremental=incremental)
    compiled = compile_model(path, load_board("host"), options, Progress())
    for file, text in compiled.files.items():
        (folder / file).write_text(text)
    (folder / "main.c").write_text(MAIN)
    said = sanitized(folder, ["main.c", "unit.c"], b"".join(_requests(*stream) for stream in streams))
    size = compiled.graph.values[compiled.graph.outputs[0]].size_bytes
    return [said[i : i + size] for i in range(0, len(said), size)]


def _requests(samples: Samples, chunks: Iterator[int]) -> bytes:
    """For MAIN: a reset, and pushes."""
    blob, at = [RESET], 0
    while at < len(samples):
        part = samples[at : at + next(chunks)]
        blob += [np.int32(len(part)).tobytes(), part.tobytes()]
        at += len(part)
    return b"".join(blob)


RESET = np.int32(-1).tobytes()
MAIN = """
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "unit.h"
int main(void)
{
    static int16_t samples[1 << 16];
    unit_arena_t *arena = malloc(sizeof *arena);
    int32_t n;
    memset(arena, 0x5A, sizeof *arena);
    if (unit_push(NULL, samples, 1) != UNIT_NOT_PUSHED || unit_push(arena, samples, -1) != UNIT_NOT_PUSHED) return 3;
    if (unit_push((uint8_t *)arena + 1, samples, 1) != UNIT_NOT_PUSHED) return 3;
    if (unit_reset((uint8_t *)arena + 1) != UNIT_BAD_ARENA || unit_reset(NULL) != UNIT_BAD_ARENA) return 3;
    while (fread(&n, 4, 1, stdin) == 1) {
        if (n < 0) {
            if (unit_reset(arena) != UNIT_OK) return 2;
            continue;
        }
        if (fread(samples, 2, (size_t)n, stdin) != (size_t)n) return 1;
        for (int32_t made = unit_push(arena, samples, n); made > 0; made--) {
            fwrite(unit_output_0(arena), 1, UNIT_OUTPUT_0_BYTES, stdout);
        }
    }
    free(arena);
    return 0;
}
"""


def random_chunks(most: int) -> Iterator[int]:
    rng = np.random.default_rng(9)
    while True:
        yield int(rng.integers(1, most + 1))
