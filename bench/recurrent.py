# SPDX-License-Identifier: Apache-2.0
"""Recurrent layers on a Cortex-M4: constants, time to quantize, instructions, errors beside onnxruntime's floats.

`python bench/recurrent.py [int16] [CASE...]` prints a Markdown table; int16: of the activations. `limits [CASE...]`
prints what of the int8 error is made by 8 bits of x, weights and y, with everything else in float. `int4`: bytes and
instructions on four cores with weights of 8 and of 4 bits. The layers are
PyTorch's (Y read, batch 1), with random weights as large as trained ones; inputs are smooth random sequences. 96
sequences calibrate, 32 others are measured on.
"""

from __future__ import annotations

import itertools
import json
import subprocess
import sys
import tempfile
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime
from onnx import helper, numpy_helper

from tinyc.base.numerics import Numerics
from tinyc.base.requantize import quantize_array
from tinyc.ir.graph import INT_RANGE, NUMPY_DTYPE, Array, Graph
from tinyc.load.onnx import load_onnx
from tinyc.options.recipe import ActivationBits, Recipe
from tinyc.passes import normalize
from tinyc.quantize import calibrate, quantize_model
from tinyc.reference.interpreter import prepare_int, run_float

CASES = {  # operator, units, numbers, steps, direction
    "LSTM 32, 16 steps": ("LSTM", 32, 16, 16, "forward"),
    "LSTM 32, 64 steps": ("LSTM", 32, 16, 64, "forward"),
    "LSTM 32, both ways, 16 steps": ("LSTM", 32, 16, 16, "bidirectional"),
    "LSTM 128, 16 steps": ("LSTM", 128, 64, 16, "forward"),
    "GRU 32, 16 steps": ("GRU", 32, 16, 16, "forward"),
    "GRU 32, 64 steps": ("GRU", 32, 16, 64, "forward"),
}
_CORES = ("cortex-m4", "cortex-m0plus", "cortex-m55", "riscv32imc")
_GAIN = 2.0  # of trained weights, beside those that PyTorch begins with


def layer(name: str, units: int, numbers: int, steps: int, direction: str) -> onnx.ModelProto:
    """The model of one layer, as PyTorch exports it."""
    rng = np.random.default_rng(units + steps)
    gates, directions = {"LSTM": 4, "GRU": 3}[name], 2 if direction == "bidirectional" else 1
    shapes = {"w": (gates * units, numbers), "r": (gates * units, units), "b": (2 * gates * units,)}
    most = _GAIN / np.sqrt(units)
    weights = [
        numpy_helper.from_array(rng.uniform(-most, most, (directions, *shape)).astype(np.float32), key)
        for key, shape in shapes.items()
    ]
    after: dict[str, Any] = {"linear_before_reset": 1} if name == "GRU" else {}
    node = helper.make_node(name, ["x", "w", "r", "b"], ["y"], hidden_size=units, direction=direction, **after)
    kinds = [
        helper.make_tensor_value_info(key, onnx.TensorProto.FLOAT, shape)
        for key, shape in (("x", [steps, 1, numbers]), ("y", [steps, directions, 1, units]))
    ]
    graph = helper.make_graph([node], "layer", kinds[:1], kinds[1:], weights)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


def sequences(seed: int, count: int, steps: int, numbers: int) -> Array:
    """[count, steps, 1, numbers] of standard deviation 1, each number near the one before."""
    rng = np.random.default_rng(seed)
    x = np.zeros((count, steps + 32, 1, numbers))
    for t in range(1, steps + 32):
        x[:, t] = 0.8 * x[:, t - 1] + 0.6 * rng.standard_normal(x[:, t].shape)
    return x[:, 32:].astype(np.float32)


def sqnr_db(model: onnx.ModelProto, graph: Graph, inputs: Array) -> float:
    """Of the integer reference's outputs, beside onnxruntime's."""
    session = onnxruntime.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
    run, x, y = prepare_int(graph, Numerics.OURS), graph.values["x"], graph.values["y"].quant
    assert x.quant is not None
    assert y is not None
    signal = noise = 0.0
    for real in inputs:
        (theirs,) = session.run(None, {"x": real})
        taken: Array = quantize_array(real, *x.quant.per_tensor, *INT_RANGE[x.dtype]).astype(NUMPY_DTYPE[x.dtype])
        ours = y.dequantize(run({"x": taken})["y"])
        signal += float(np.square(theirs.astype(float)).sum())
        noise += float(np.square(theirs.astype(float) - ours).sum())
    return 10 * float(np.log10(signal / noise))


def limits(case: str) -> list[str]:
    """SQNR in dB where 8 bits have: x, y, both, both and the weights; and of the layer, where nothing is in float."""
    _, _, numbers, steps, _ = CASES[case]
    model = layer(*CASES[case])
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "layer.onnx")
        path.write_bytes(model.SerializeToString())
        np.savez(path.with_suffix(".calib.npz"), x=sequences(1, 96, steps, numbers))
        graph = normalize(load_onnx(path))
        integer = quantize_model(graph, calibrate(path, graph, None), Recipe())
    weights = {name: _rounded(integer, name, array) for name, array in graph.consts.items()}
    inputs = sequences(2, 32, steps, numbers)
    exact = _outputs(graph, inputs)

    def db(output: Array) -> str:
        return f"{10 * float(np.log10(np.square(exact).sum() / np.square(exact - output).sum())):.1f}"

    near = _outputs(graph, _rounded(integer, "x", inputs))
    all_three = _outputs(replace(graph, consts=weights), _rounded(integer, "x", inputs))
    ends = [exact, near, all_three]
    rounded_again = [_rounded(integer, "y", output) for output in ends]
    layer_db = sqnr_db(model, integer, inputs)
    return [case, db(near), *(db(output) for output in rounded_again), f"{layer_db:.1f}"]


def _outputs(graph: Graph, inputs: Array) -> Array:
    return np.stack([run_float(graph, {"x": x})["y"] for x in inputs]).astype(float)


def _rounded(integer: Graph, name: str, array: Array) -> Array:
    """Numbers as the integer graph holds the value of that name; as they are if it has none."""
    value = integer.values.get(name)
    if value is None or value.quant is None or value.dtype != "s8":
        return array
    if name in integer.consts:
        return value.quant.dequantize(integer.consts[name])
    return value.quant.dequantize(quantize_array(array, *value.quant.per_tensor, *INT_RANGE["s8"]))


def measured(case: str, activations: ActivationBits) -> list[str]:
    """The cells of a row, as `main` names them."""
    _, _, numbers, steps, _ = CASES[case]
    model = layer(*CASES[case])
    weights = [numpy_helper.to_array(each).size for each in model.graph.initializer]
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "layer.onnx")
        path.write_bytes(model.SerializeToString())
        np.savez(path.with_suffix(".calib.npz"), x=sequences(1, 96, steps, numbers))
        graph = normalize(load_onnx(path))
        started = time.process_time()
        integer = quantize_model(graph, calibrate(path, graph, None), Recipe(activations=activations))
        seconds = time.process_time() - started
        asked = ["build", str(path), "--board", "cortex-m4", "--effort", "fast", "--json", "-o", f"{folder}/out"]
        asked += ["--activations", activations]
        command = [sys.executable, "-m", "tinyc.cli.main", *asked]
        built = json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout)
    return [
        case,
        f"{sum(weights):,}",
        f"{built['flash']['const_bytes']:,}",
        f"{seconds:.1f}",
        f"{built['instructions'] / (steps * sum(weights[:2])):.2f}",
        f"{sqnr_db(model, integer, sequences(2, 32, steps, numbers)):.1f}",
    ]


def print_limits(cases: list[str]) -> None:
    print("| Layer | x | y | x and y | x, y and weights | the layer |\n|---|--:|--:|--:|--:|--:|")
    for case in cases or list(CASES):
        print(f"| {' | '.join(limits(case))} |", flush=True)


def print_int4() -> None:
    """Each cell: bytes of the library's flash, millions of instructions of a run; every library is proved."""
    print(f"| | {' | '.join(_CORES)} | SQNR |\n|---|{'---|' * (len(_CORES) + 1)}")
    for name, weights in itertools.product(("LSTM", "GRU"), ("int8", "int4")):
        steps, numbers, cells = 16, 40, []
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder, "layer.onnx")
            path.write_bytes(layer(name, 64, numbers, steps, "forward").SerializeToString())
            data = Path(folder, "data.npz")
            np.savez(data, x=sequences(1, 64, steps, numbers))
            asked = ["build", str(path), "-c", str(data), "--weights", weights, "--json", "-o", f"{folder}/out"]
            for board in _CORES:
                command = [sys.executable, "-m", "tinyc", *asked, "--board", board]
                built = json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout)
                cells.append(f"{sum(built['flash'].values()):,} B, {built['instructions'] / 1e6:.2f} M")
            evaluated = [sys.executable, "-m", "tinyc", "quantize", *asked[1:6], "--json"]
            report = json.loads(subprocess.run(evaluated, check=True, capture_output=True, text=True).stdout)
        print(f"| {name}, {weights} | {' | '.join(cells)} | {report['diagnosis']['sqnr_db']:.1f} dB |", flush=True)


def main(cases: list[str]) -> None:
    if cases == ["int4"]:
        print_int4()
        return
    if cases[:1] == ["limits"]:
        print_limits(cases[1:])
        return
    activations: ActivationBits = "int16" if "int16" in cases else "int8"
    cases = [case for case in cases if case != "int16"]
    names = ["Layer", "Parameters", "Constants, bytes", "CPU s to quantize", "Instructions per MAC", "SQNR, dB"]
    print(f"| {' | '.join(names)} |\n|---|{'--:|' * (len(names) - 1)}")
    for case in cases or list(CASES):
        print(f"| {' | '.join(measured(case, activations))} |", flush=True)


if __name__ == "__main__":
    main(sys.argv[1:])
