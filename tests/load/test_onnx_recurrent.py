# SPDX-License-Identifier: Apache-2.0
"""LSTM, GRU, RNN, mirrored padding, PRelu: float graphs equal ONNX Runtime."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest

from tests.load.onnx_models import TOLERANCE, build, imported, load, one, op, ops_of, rand, run_onnxruntime
from tinyc import api
from tinyc.base.errors import TinycError
from tinyc.board import load_board
from tinyc.ir.graph import Array
from tinyc.options.build import Options, Precision
from tinyc.options.recipe import Recipe, hurried
from tinyc.passes import normalize
from tinyc.pipeline.compiling import compile_model
from tinyc.pipeline.progress import Progress
from tinyc.reference.interpreter import run_float

GATES = {"LSTM": 4, "GRU": 3, "RNN": 1}


def recurrent(name: str, *, steps: int = 3, batch: int = 1, directions: int = 1, bias: bool = True,
              start: bool = False, lengths: Sequence[int] | None = None, peepholes: bool = False, outputs: str = "y h",
              **attributes: Any) -> onnx.ModelProto:  # fmt: skip
    """A layer with 4 units on 5 numbers."""
    gates, cell, by_batch = GATES[name], name == "LSTM", attributes.get("layout", 0)
    constants = {"w": 0.5 * rand(1, directions, gates * 4, 5), "r": 0.5 * rand(2, directions, gates * 4, 4)}
    inputs = {"x": [batch, steps, 5] if by_batch else [steps, batch, 5]}
    if bias:
        constants["b"] = 0.5 * rand(3, directions, gates * 8)
    if lengths is not None:
        constants["n"] = np.array(lengths, np.int32)
    if start:
        state = [batch, directions, 4] if by_batch else [directions, batch, 4]
        inputs |= {"h0": state} | ({"c0": state} if cell else {})
    if peepholes:
        constants["p"] = rand(4, directions, 12)
    names = " ".join(n if n in constants or n in inputs else "-" for n in ("x", "w", "r", "b", "n", "h0", "c0", "p"))
    nodes = [op(name, names if cell else names.removesuffix(" - -"), outputs, hidden_size=4, **attributes)]
    return build(nodes, inputs, [o for o in outputs.split() if o != "-"], constants)


MODELS: dict[str, onnx.ModelProto] = {
    "lstm": recurrent("LSTM", outputs="y h c"),
    "lstm, from a state": recurrent("LSTM", start=True, steps=1, outputs="y h c"),
    "lstm, last state": recurrent("LSTM", outputs="- h", bias=False),
    "lstm, backward": recurrent("LSTM", direction="reverse"),
    "lstm, both ways": recurrent("LSTM", direction="bidirectional", directions=2, start=True, outputs="y h c"),
    "gru": recurrent("GRU"),
    "gru, from a state": recurrent("GRU", start=True),
    "gru, reset after": recurrent("GRU", linear_before_reset=1),
    "gru, reset after, from a state": recurrent("GRU", linear_before_reset=1, start=True, direction="reverse"),
    "rnn": recurrent("RNN", start=True),
    "rnn, relu": recurrent("RNN", activations=["Relu"], bias=False),
    "lstm, three": recurrent("LSTM", batch=3),
    "lstm, three, cells": recurrent("LSTM", batch=3, start=True, outputs="- h c"),
    "lstm, lengths": recurrent("LSTM", batch=3, lengths=(2, 3, 1), start=True),
    "lstm, lengths, last states": recurrent("LSTM", batch=3, lengths=(2, 3, 1), outputs="- h"),
    "lstm, lengths, cells, both ways": recurrent(
        "LSTM",
        batch=4,
        lengths=(1, 4, 0, 2),
        steps=5,
        directions=2,
        direction="bidirectional",
        outputs="y h c",
        start=True,
    ),
    "lstm, one of no steps": recurrent("LSTM", batch=2, lengths=(0, 2), start=True),
    "lstm, all shorter": recurrent("LSTM", lengths=(2,), direction="reverse", outputs="y h c"),
    "gru, three": recurrent("GRU", batch=3, start=True),
    "gru, lengths": recurrent("GRU", batch=3, lengths=(1, 2, 2), direction="reverse", start=True),
    "gru, reset after, lengths": recurrent(
        "GRU", batch=3, lengths=(1, 0, 2), linear_before_reset=1, directions=2, direction="bidirectional", start=True
    ),
    "gru, reset after, lengths, unrolled": recurrent(
        "GRU", batch=3, lengths=(1, 3, 2), linear_before_reset=1, activations=["Relu", "Tanh"], direction="reverse"
    ),
    "rnn, lengths": recurrent("RNN", batch=4, steps=4, lengths=(3, 1, 3, 4), start=True),
    "rnn, lengths, both ways": recurrent("RNN", batch=2, lengths=(1, 2), directions=2, direction="bidirectional"),
    "lstm, peepholes": recurrent("LSTM", batch=2, peepholes=True, outputs="y h c"),
    "lstm, peepholes, from a state": recurrent("LSTM", peepholes=True, start=True, bias=False),
    "lstm, coupled": recurrent("LSTM", input_forget=1, start=True, peepholes=True, outputs="y h c"),
    "lstm, clipped": recurrent("LSTM", clip=0.4, start=True, peepholes=True),
    "gru, clipped": recurrent("GRU", clip=0.4, linear_before_reset=1, start=True),
    "gru, clipped, reset before": recurrent("GRU", clip=0.4, start=True),
    "rnn, clipped": recurrent("RNN", clip=0.4, start=True),
    "rnn, the usual twice": recurrent("RNN", activations=["Tanh", "Tanh"]),
    "lstm, activations": recurrent(
        "LSTM",
        activations=["HardSigmoid", "ScaledTanh", "Softsign"],
        activation_alpha=[0.3, 0.9],
        activation_beta=[0.4, 1.2],
    ),
    "lstm, activations by their defaults": recurrent("LSTM", activations=["HardSigmoid", "Elu", "LeakyRelu"]),
    "gru, activations": recurrent(
        "GRU",
        activations=["Tanh", "Elu", "Affine", "LeakyRelu"],
        activation_alpha=[0.7, 0.3, 0.1],
        activation_beta=[0.2],
        directions=2,
        direction="bidirectional",
    ),
    "gru, more activations": recurrent(
        "GRU", activations=["Softplus", "ThresholdedRelu"], activation_alpha=[0.3], linear_before_reset=1
    ),
    "rnn, activations": recurrent(
        "RNN", activations=["LeakyRelu", "Elu"], activation_alpha=[0.2, 0.7], directions=2, direction="bidirectional"
    ),
    "pad, reflect": one("Pad", [1, 2, 5, 4], [np.array([0, 0, 2, 1, 0, 0, 4, 3], np.int64)], mode="reflect"),
    "pad, edge": one("Pad", [1, 2, 5, 4], [np.array([0, 0, 2, 1, 0, 0, 1, 3], np.int64)], mode="edge"),
    "pad, wrap": one("Pad", [1, 2, 5, 4], [np.array([0, 0, 5, 1, 0, 0, 1, 3], np.int64)], mode="wrap"),
    "prelu": one("PRelu", [1, 3, 4, 4], [rand(1, 3, 1, 1)]),
    "prelu, one slope": one("PRelu", [1, 3, 4, 4], [np.float32([0.2])]),
}


@pytest.mark.parametrize("name", MODELS)
def test_equals_onnxruntime(tmp_path: Path, name: str) -> None:
    imported(MODELS[name], tmp_path)


def batch_first(array: Array) -> Array:
    """Y, or the input or a state, with the batch in front."""
    return np.moveaxis(array, array.ndim - 2, 0)


LAYOUTS: dict[str, tuple[str, dict[str, Any]]] = {
    "lstm": ("LSTM", {"batch": 3, "outputs": "y h c", "start": True, "lengths": (2, 3, 1)}),
    "lstm, loops": ("LSTM", {"batch": 2, "start": True, "lengths": (1, 3)}),
    "lstm, loops both ways": ("LSTM", {"batch": 2, "start": True, "directions": 2, "direction": "bidirectional"}),
    "gru": ("GRU", {"batch": 2, "start": True, "directions": 2, "direction": "bidirectional"}),
    "gru, one": ("GRU", {"linear_before_reset": 1, "start": True}),
    "rnn, one": ("RNN", {"direction": "reverse"}),
}


@pytest.mark.parametrize("name", LAYOUTS)
def test_the_batch_in_front(tmp_path: Path, name: str) -> None:
    """ONNX Runtime has only the other layout: the same numbers, with axes turned."""
    kind, options = LAYOUTS[name]
    graph = normalize(load(recurrent(kind, layout=1, **options), tmp_path))
    feeds = {name: rand(k, *graph.values[name].shape) for k, name in enumerate(graph.inputs)}
    turned = {name: np.ascontiguousarray(array.swapaxes(0, 1)) for name, array in feeds.items()}
    outputs = run_float(graph, feeds)
    for output, array in run_onnxruntime(recurrent(kind, **options), turned).items():
        assert outputs[output].shape == batch_first(array).shape
        np.testing.assert_allclose(outputs[output], batch_first(array), rtol=TOLERANCE, atol=TOLERANCE)


def constant_bytes(model: onnx.ModelProto, folder: Path, precision: Precision) -> int:
    """Of a library for a Cortex-M4."""
    onnx.save(model, folder / "model.onnx")
    batch = model.graph.input[0].type.tensor_type.shape.dim[1].dim_value
    np.save(folder / "x.npy", rand(0, 16, 3, batch, 5))
    recipe = hurried(Recipe()) if precision == "integer" else None
    options = Options("cortex-m4", precision=precision, calibration=folder / "x.npy", recipe=recipe)
    program = compile_model(folder / "model.onnx", load_board("cortex-m4"), options, Progress()).program
    return sum(array.const.data.nbytes for array in program.symbols)


@pytest.mark.parametrize("precision", ["integer", "float32"])
@pytest.mark.parametrize(("outputs", "lengths"), [("y h", (3, 1, 2)), ("y h c", None)])
def test_a_batch_has_one_copy_of_the_weights(tmp_path: Path, outputs: str, lengths: Any, precision: Precision) -> None:
    """In the graph and in the library, as loops (without the last cell) and unrolled."""
    model = recurrent("LSTM", batch=3, lengths=lengths, outputs=outputs)
    graph = normalize(load(model, tmp_path))
    assert ops_of(graph).count("recurrent") == (3 if outputs == "y h" else 0)
    assert sum(array.size for array in graph.consts.values()) == 4 * 4 * (5 + 4 + 1)
    alone = constant_bytes(recurrent("LSTM", outputs=outputs), tmp_path, precision)
    assert constant_bytes(model, tmp_path, precision) < 1.2 * alone


@pytest.mark.parametrize("precision", ["integer", "float32"])
@pytest.mark.parametrize(("kind", "options"), [("LSTM", {}), ("GRU", {}), ("RNN", {"layout": 1})])
def test_a_library_has_the_references_bytes(
    tmp_path: Path, kind: str, options: dict[str, int], precision: Precision
) -> None:
    """On the host with sanitizers, sequences of several lengths: an LSTM as loops, the others unrolled."""
    onnx.save(recurrent(kind, batch=3, lengths=(3, 0, 2), **options), tmp_path / "model.onnx")
    x = rand(0, 8, 3, 3, 5)
    report = api.verify(tmp_path / "model.onnx", "host", inputs=x, calibration=x, precision=precision)
    assert report.passed


def test_a_state_where_the_arena_begins(tmp_path: Path) -> None:
    """Compilers warned of it, as the state was compared with null; a warning is an error of the proof."""
    constants = {"w": rand(1, 1, 9, 2), "r": rand(2, 1, 9, 3), "b": rand(3, 1, 18)}
    node = op("GRU", "x w r b - h0", "y", hidden_size=3, linear_before_reset=1, layout=1)
    onnx.save(build([node], {"x": [2, 2, 2], "h0": [2, 1, 3]}, ["y"], constants), tmp_path / "model.onnx")
    data = {"x": rand(4, 10, 2, 2, 2), "h0": rand(5, 10, 2, 1, 3)}
    assert api.verify(tmp_path / "model.onnx", "host", inputs=data, calibration=data).passed


ERRORS = {
    "computed as the model runs; they must be constants": build(
        [op("Relu", "x", "z"), op("LSTM", "z w r - n", "y", hidden_size=4)],
        {"x": [3, 1, 5], "n": [1]},
        ["y"],
        {"w": rand(1, 1, 16, 5), "r": rand(2, 1, 16, 4)},
    ),
    "lengths from 1 to 4, with inputs of 3 steps": recurrent("GRU", batch=2, lengths=(1, 4)),
    "lengths from -1 to 2": recurrent("GRU", batch=2, lengths=(-1, 2)),
    "lengths from 0 to 0": recurrent("RNN", batch=2, lengths=(0, 0)),
    r"lengths \[3\] of int32 for 2 sequences": recurrent("RNN", batch=2, lengths=(1, 2, 3)),
    r"\[steps, batch, numbers\]": build(
        [op("RNN", "x w r", "y", hidden_size=4)], {"x": [3, 5]}, ["y"], {"w": rand(1, 1, 4, 5), "r": rand(2, 1, 4, 4)}
    ),
    r"initial state is \[1, 1, 4\], not \[1, 2, 4\]": build(
        [op("RNN", "x w r - - h", "y", hidden_size=4)],
        {"x": [3, 2, 5], "h": [1, 1, 4]},
        ["y"],
        {"w": rand(1, 1, 4, 5), "r": rand(2, 1, 4, 4)},
    ),
    "GRU has two outputs; there is no 'c'": recurrent("GRU", outputs="y h c"),
    "clip 0": recurrent("LSTM", clip=0.0),
    "activation Gelu": recurrent("RNN", activations=["Gelu"]),
    "2 activations of LSTM, not 3": recurrent("LSTM", activations=["Tanh", "Tanh"]),
    "activation LeakyRelu of RNN needs its own 'activation_alpha'": recurrent("RNN", activations=["LeakyRelu"]),
    "activation Affine of LSTM needs its own 'activation_beta'": recurrent(
        "LSTM", activations=["Sigmoid", "Affine", "Tanh"], activation_alpha=[0.5]
    ),
    "activation Elu of RNN needs": recurrent(
        "RNN", activations=["Tanh", "Elu"], activation_alpha=[0.2], directions=2, direction="bidirectional"
    ),
    "at most 256": recurrent("RNN", steps=257),
    "mode wrap": one("Pad", [1, 3], [np.array([0, 4, 0, 0], np.int64)], mode="wrap"),
    "mode reflect": one("Pad", [1, 3], [np.array([0, 3, 0, 0], np.int64)], mode="reflect"),
}


@pytest.mark.parametrize("message", ERRORS)
def test_what_cannot_be_imported(tmp_path: Path, message: str) -> None:
    with pytest.raises(TinycError, match=message):
        load(ERRORS[message], tmp_path)
