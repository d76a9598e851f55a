# SPDX-License-Identifier: Apache-2.0
"""Damaged models: whatever the bytes, a library in C or a TinycError, in bounded memory and time."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cache
from pathlib import Path

import numpy as np
import onnx

from tests.fuzz.case import WrongError
from tests.fuzz.damage import cut_or_flipped, damaged, mutate
from tests.fuzz.networks import network, samples
from tests.fuzz.quantized import in_qdq
from tests.fuzz.survival import compute_onnx, compute_tflite
from tests.fuzz.tflite_damage import changed
from tests.fuzz.tflite_networks import tflite_network
from tests.unit.networks import random_network
from tinyc.base.errors import TinycError
from tinyc.base.numerics import Numerics
from tinyc.board import load_board
from tinyc.ir.graph import Graph
from tinyc.load import load_model
from tinyc.load.onnx import unsupported_onnx
from tinyc.load.tflite import unsupported_tflite
from tinyc.options.build import Options
from tinyc.pipeline.compiling import compile_model
from tinyc.pipeline.progress import Progress

MOST_DAMAGES = 4
COMPILED = 0.2  # of the files that can be imported
BOARDS = ("host", "cortex-m4", "cortex-m0plus", "cortex-m55", "riscv32imc")


def damages(seed: int) -> int:
    """How often the file of a seed is damaged."""
    return min(int(np.random.default_rng([seed, 0]).integers(1, MOST_DAMAGES + 3)) - 1, MOST_DAMAGES) or 1


def check_onnx(seed: int, subset: frozenset[int], folder: Path) -> str:
    """A random network, some of its fields changed, or its bytes."""
    rng = np.random.default_rng([seed, 1])
    model = _original(rng, folder)
    in_bytes = rng.random() < 0.25
    content = model.SerializeToString()
    for index in sorted(subset):
        own = np.random.default_rng([seed, 2 + index])
        if in_bytes:
            content = cut_or_flipped(content, own) if content else content
        else:
            mutate(model, own)
    path = folder / "model.onnx"
    path.write_bytes(content if in_bytes else model.SerializeToString())
    graph = imported(path, unsupported_onnx)
    if graph is None:
        return "refused"
    compute_onnx(graph)
    return compiled(path, seed)


def _original(rng: np.random.Generator, folder: Path) -> onnx.ModelProto:
    which, seed = rng.integers(3), int(rng.integers(1 << 30))
    if which == 0:
        return random_network(seed)
    if which == 1:
        return network(seed)
    model = onnx.ModelProto()
    model.CopyFrom(_in_integers(seed % 12, folder))
    return model


@cache
def _in_integers(seed: int, folder: Path) -> onnx.ModelProto:
    """A small quantized one: QDQ or QOperator, int8 or uint8. The folder is for onnxruntime's files."""
    model = random_network(seed)
    return in_qdq(model, samples(model, seed, 3), folder, seed)


def check_tflite(seed: int, subset: frozenset[int], folder: Path) -> str:
    """A TFLite network: what it says is changed, or words and bytes of the file are."""
    rng = np.random.default_rng([seed, 1])
    changed_network = tflite_network(int(rng.integers(1 << 30)))
    in_bytes = rng.random() < 0.4
    content = changed_network.content
    for index in sorted(subset):
        if not in_bytes:
            changed_network = changed(changed_network, np.random.default_rng([seed, 2 + index]))
            content = changed_network.content
        elif len(content) > 8:
            content = next(damaged(content, 1, seed * MOST_DAMAGES + index))
    path = folder / "model.tflite"
    path.write_bytes(content)
    graph = imported(path, unsupported_tflite)
    if graph is None:
        return "refused"
    compute_tflite(graph, (Numerics.TFLM, Numerics.LITERT)[seed % 2])
    return compiled(path, seed)


def imported(path: Path, unsupported: Callable[[Path], Sequence[TinycError]]) -> Graph | None:
    """The graph; None for a TinycError, which has to name the file."""
    try:
        graph = load_model(path)
    except TinycError as error:
        if path.name not in str(error):
            raise WrongError("nameless", f"the error does not name the file: {error}") from error
        return None
    problems = unsupported(path)
    if problems:
        raise WrongError("of two minds", f"imported, and not supported: {problems[0]}")
    return graph


def compiled(path: Path, seed: int) -> str:
    """Some of the models go all the way to C text, for some core."""
    rng = np.random.default_rng([seed, 900])
    if rng.random() >= COMPILED:
        return "imported"
    board = BOARDS[rng.integers(len(BOARDS))]
    try:
        compile_model(path, load_board(board), Options(board), Progress())
    except TinycError:
        return "refused later"
    return "compiled"
