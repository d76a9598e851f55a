# SPDX-License-Identifier: Apache-2.0
"""LSTM, GRU, RNN, mirrored padding, PRelu: float graphs equal ONNX Runtime."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest

from tests.load.onnx_models import build, imported, load, one, op, rand
from tinyc.base.errors import TinycError

GATES = {"LSTM": 4, "GRU": 3, "RNN": 1}


def recurrent(name: str, *, steps: int = 3, directions: int = 1, bias: bool = True, start: bool = False,
              outputs: str = "y h", **attributes: Any) -> onnx.ModelProto:  # fmt: skip
    """A layer with 4 units on 5 numbers."""
    gates = GATES[name]
    constants = {"w": 0.5 * rand(1, directions, gates * 4, 5), "r": 0.5 * rand(2, directions, gates * 4, 4)}
    inputs = {"x": [steps, 1, 5]}
    names = "x w r -"
    if bias:
        constants["b"] = 0.5 * rand(3, directions, gates * 8)
        names = "x w r b"
    if start:
        inputs |= {"h0": [directions, 1, 4]} | ({"c0": [directions, 1, 4]} if name == "LSTM" else {})
        names += " - h0" + (" c0" if name == "LSTM" else "")
    nodes = [op(name, names, outputs, hidden_size=4, **attributes)]
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
    "pad, reflect": one("Pad", [1, 2, 5, 4], [np.array([0, 0, 2, 1, 0, 0, 4, 3], np.int64)], mode="reflect"),
    "pad, edge": one("Pad", [1, 2, 5, 4], [np.array([0, 0, 2, 1, 0, 0, 1, 3], np.int64)], mode="edge"),
    "pad, wrap": one("Pad", [1, 2, 5, 4], [np.array([0, 0, 5, 1, 0, 0, 1, 3], np.int64)], mode="wrap"),
    "prelu": one("PRelu", [1, 3, 4, 4], [rand(1, 3, 1, 1)]),
    "prelu, one slope": one("PRelu", [1, 3, 4, 4], [np.float32([0.2])]),
}


@pytest.mark.parametrize("name", MODELS)
def test_equals_onnxruntime(tmp_path: Path, name: str) -> None:
    imported(MODELS[name], tmp_path)


ERRORS = {
    "without sequence lengths": build(
        [op("LSTM", "x w r - n", "y", hidden_size=4)],
        {"x": [3, 1, 5]},
        ["y"],
        {"w": rand(1, 1, 16, 5), "r": rand(2, 1, 16, 4), "n": np.array([3], np.int32)},
    ),
    r"\[steps, 1, numbers\]": recurrent("GRU", layout=1, outputs="y"),
    "coupled gates": recurrent("LSTM", input_forget=1),
    "activation Affine": recurrent("RNN", activations=["Affine"]),
    "at most 256": recurrent("RNN", steps=257),
    "mode wrap": one("Pad", [1, 3], [np.array([0, 4, 0, 0], np.int64)], mode="wrap"),
    "mode reflect": one("Pad", [1, 3], [np.array([0, 3, 0, 0], np.int64)], mode="reflect"),
}


@pytest.mark.parametrize("message", ERRORS)
def test_what_cannot_be_imported(tmp_path: Path, message: str) -> None:
    with pytest.raises(TinycError, match=message):
        load(ERRORS[message], tmp_path)
