# SPDX-License-Identifier: Apache-2.0
"""Quantized models saved as QDQ ONNX: read again they have the same integers, and ONNX Runtime agrees to a step."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest

from tests.load.onnx_exports import EXPORTS
from tests.load.onnx_models import build, load, op, rand, run_onnxruntime
from tinyc.base.numerics import Numerics
from tinyc.explain.diagnosis import integer_inputs
from tinyc.export import as_in_files, save
from tinyc.ir.graph import Graph
from tinyc.load import load_model
from tinyc.options.recipe import Recipe
from tinyc.passes import normalize
from tinyc.quantize import quantize, quantize_model
from tinyc.quantize.calibration import Calibration
from tinyc.reference.interpreter import prepare_int

_IMAGE, _ROWS = (1, 4, 6, 5), (1, 6, 8)
_PLAIN = ("Abs", "Atan", "Ceil", "Cos", "Erf", "Exp", "Floor", "Mish", "Round", "Selu", "Sign", "Sin", "Sinh")
_PLAIN += ("Softplus", "Softsign")
_BEHIND = {  # what stands behind a layer [1,6,8] `h`, with another one `g` beside it
    "root": [op("Abs", "h", "a"), op("Sqrt", "a", "y")],
    "power": [op("Abs", "h", "a"), op("Pow", "a e", "y")],
    "quotient": [op("Exp", "g", "d"), op("Div", "h d", "y")],
    "norm": [op("LayerNormalization", "h scale shift", "y", axis=-1)],
    "length": [op("LpNormalization", "h", "y", axis=-1, p=2)],
    "log softmax": [op("LogSoftmax", "h", "y", axis=-1)],
    "largest": [op("ReduceMax", "h", "y", axes=[1], keepdims=0)],
    "smallest": [op("ReduceMin", "h", "y", axes=[2], keepdims=1)],
    "sum": [op("ReduceSum", "h axis", "y", keepdims=0)],
    "index": [op("ArgMax", "h", "y", axis=2, keepdims=0)],
    "index of the smallest": [op("ArgMin", "h", "y", axis=1, keepdims=1)],
    "larger": [op("Max", "h g", "y")],
    "smaller": [op("Min", "h g", "y")],
    "picked": [op("Gather", "h places", "y", axis=2)],
    "product": [op("Transpose", "g", "t", perm=[0, 2, 1]), op("MatMul", "h t", "y")],
    "less": [op("Less", "h g", "c"), op("Where", "c h g", "y")],
    "at least": [op("GreaterOrEqual", "h g", "c"), op("Where", "c h g", "y")],
    "slice backwards": [op("Slice", "h first last axis back", "y")],
    **{
        name: [op(name, "h", "y", **more)]
        for name, more in {
            **{name: {} for name in _PLAIN},
            "Elu": {"alpha": 0.7},
            "Celu": {"alpha": 1.5},
            "ThresholdedRelu": {"alpha": 0.4},
        }.items()
    },
}
_OF_IMAGES = {
    "transposed": [op("ConvTranspose", "x w", "y", strides=[2, 2], pads=[1, 0, 0, 1], output_padding=[1, 1])],
    **{
        f"{mode} {place}": [
            op("Conv", "x w", "h"),
            op("Resize", "h - - sizes", "y", mode=mode, coordinate_transformation_mode=place, **more),
        ]
        for mode, place, more in (
            ("linear", "half_pixel", {}),
            ("linear", "align_corners", {}),
            ("linear", "asymmetric", {}),
            ("nearest", "half_pixel", {"nearest_mode": "round_prefer_floor"}),
            ("nearest", "asymmetric", {"nearest_mode": "ceil"}),
        )
    },
}


def _of_rows(nodes: Any) -> onnx.ModelProto:
    constants: Mapping[str, Any] = {
        **{"w": rand(1, 8, 8), "v": rand(2, 8, 8), "e": np.float32(1.7), "axis": np.array([1])},
        **{"scale": rand(3, 8), "shift": rand(4, 8), "places": np.array([5, 1, 1, 7])},
        **{"first": np.array([5]), "last": np.array([-9]), "back": np.array([-2])},
    }
    return build([op("MatMul", "x w", "h"), op("MatMul", "x v", "g"), *nodes], {"x": _ROWS}, ["y"], constants, 18)


def _of_images(nodes: Any) -> onnx.ModelProto:
    constants = {"w": rand(1, 4, 4, 3, 3), "sizes": np.array([1, 4, 9, 7])}
    return build(nodes, {"x": _IMAGE}, ["y"], constants, 17)


def _loop(kind: str, **more: Any) -> onnx.ModelProto:
    """A layer in front of an LSTM or GRU of 5 units, and one of the states or all."""
    gates = {"LSTM": 4, "GRU": 3}[kind]
    states = more.pop("states", False)
    constants = {
        **{"w": rand(1, 6, 6), "i": rand(2, 1, 5 * gates, 6), "r": rand(3, 1, 5 * gates, 5) / 2},
        **{"b": rand(4, 1, 10 * gates) / 4, "one": np.array([1, 1, 5])},
    }
    begins = ["h0", *(["c0"] if kind == "LSTM" else [])] if states else []
    inputs = {"x": (7, 1, 6), **dict.fromkeys(begins, (1, 1, 5))}
    every = more.pop("every", True)
    out = "y" if every else "- y"
    nodes = [op("MatMul", "x w", "h"), op(kind, " ".join(["h i r b -", *begins]), out, hidden_size=5, **more)]
    return build(nodes, inputs, ["y"], constants, 17)


_LOOPS = {
    "LSTM": lambda: _loop("LSTM"),
    "LSTM, last step": lambda: _loop("LSTM", every=False),
    "LSTM, backwards": lambda: _loop("LSTM", direction="reverse"),
    "LSTM from states": lambda: _loop("LSTM", states=True),
    "GRU": lambda: _loop("GRU", linear_before_reset=1),
    "GRU, last step": lambda: _loop("GRU", linear_before_reset=1, every=False),
    "GRU from a state": lambda: _loop("GRU", linear_before_reset=1, states=True),
}
_MODELS = {
    **EXPORTS,
    **{name: lambda nodes=nodes: _of_rows(nodes) for name, nodes in _BEHIND.items()},
    **{name: lambda nodes=nodes: _of_images(nodes) for name, nodes in _OF_IMAGES.items()},
    **_LOOPS,
}


def _quantized(model: onnx.ModelProto, folder: Path, recipe: Recipe | None = None) -> tuple[Graph, dict[str, Any]]:
    graph = normalize(load(model, folder))
    x = {name: rand(k, 40, *graph.values[name].shape) for k, name in enumerate(graph.inputs)}
    data = Calibration(x, "made here", proven=False)
    return quantize_model(graph, data) if recipe is None else quantize(graph, data, recipe).graph, x


def _different(integer: Graph, path: Path, x: dict[str, Any], numerics: Numerics) -> int:
    """Bytes in which the outputs of the file, read again, are others than those of the graph that was saved."""
    save(integer, path)
    back, own = (prepare_int(normalize(g), numerics) for g in (load_model(path), as_in_files(integer)))
    count = 0
    for integers in integer_inputs(integer, {name: array[:12] for name, array in x.items()}):
        count += sum(int((a != b).sum()) for a, b in zip(own(integers).values(), back(integers).values(), strict=True))
    return count


@pytest.mark.parametrize("name", _MODELS)
def test_what_is_read_again_has_the_same_integers(tmp_path: Path, name: str) -> None:
    """Files hold functions of a byte as tables, with halves to even, which whole numbers of a scale may be."""
    quantized, x = _quantized(_MODELS[name](), tmp_path)
    for numerics in (Numerics.ONNX, *([] if name in ("Ceil", "Floor", "Round") else [Numerics.OURS])):
        assert _different(quantized, tmp_path / "q.onnx", x, numerics) == 0


@pytest.mark.parametrize("kind", ["LSTM", "GRU"])
def test_loops_with_weights_of_4_bits(tmp_path: Path, kind: str) -> None:
    quantized, x = _quantized(_LOOPS[kind](), tmp_path, Recipe(weights="int4"))
    assert {quantized.values[node.inputs[3]].dtype for node in quantized.nodes if node.op == "recurrent"} == {"s4"}
    assert _different(quantized, tmp_path / "q.onnx", x, Numerics.ONNX) == 0


@pytest.mark.parametrize("name", sorted({*_BEHIND, *_OF_IMAGES, *_LOOPS} - {"index", "index of the smallest", "Sign"}))
def test_onnxruntime_computes_about_the_same(tmp_path: Path, name: str) -> None:
    """But for indices and signs, where a step changes everything."""
    quantized, x = _quantized(_MODELS[name](), tmp_path)
    save(quantized, tmp_path / "q.onnx")
    own = prepare_int(quantized, Numerics.ONNX)
    quant = quantized.values["y"].quant
    for k, integers in enumerate(integer_inputs(quantized, {each: array[:4] for each, array in x.items()})):
        theirs = run_onnxruntime(onnx.load(tmp_path / "q.onnx"), {each: array[k] for each, array in x.items()})["y"]
        apart = np.abs(quant.dequantize(own(integers)["y"]) - theirs) / quant.scale[0]
        assert np.percentile(apart, 90) <= 2, name
