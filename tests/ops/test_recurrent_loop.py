# SPDX-License-Identifier: Apache-2.0
"""recurrent: kernels give the reference's bytes, integers stay near the floats, and an ONNX layer keeps one copy of its
weights."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from bench.recurrent import layer, sequences, sqnr_db
from tests.load.onnx_models import load, ops_of
from tests.ops.harness import check_kernels
from tests.ops.test_recurrent import random_inputs, reals
from tests.target.state_cases import loop
from tinyc.base.errors import TinycError
from tinyc.base.numerics import Numerics
from tinyc.board import load_board
from tinyc.ir.graph import Graph
from tinyc.kernel.site import Site
from tinyc.ops.recurrent import GATES, Recurrent, prepare
from tinyc.ops.recurrent_kept import RecurrentKept
from tinyc.options.build import Options
from tinyc.options.recipe import Recipe, hurried
from tinyc.passes import normalize
from tinyc.pipeline.compiling import compile_model
from tinyc.pipeline.progress import Progress
from tinyc.quantize import calibrate, quantize_model, weight_bytes
from tinyc.quantize.batched import compute
from tinyc.reference.interpreter import run_float, run_int

LAYERS = {  # units, numbers, steps, whether states are given
    "lstm": (Recurrent("lstm"), 5, 3, 4),
    "lstm, backward, from states": (Recurrent("lstm", reverse=True), 8, 9, 4, True),
    "lstm, last step": (Recurrent("lstm", sequence=False), 1, 1, 3),
    "gru": (Recurrent("gru"), 6, 2, 4),
    "gru, backward, last step, from a state": (Recurrent("gru", reverse=True, sequence=False), 3, 4, 4, True),
    "lstm, kept": (RecurrentKept("lstm"), 5, 3, 4, True),
    "lstm, kept, one step": (RecurrentKept("lstm", sequence=False), 8, 9, 1, True),
    "lstm, kept, from zeros": (RecurrentKept("lstm"), 3, 2, 2),
    "gru, kept": (RecurrentKept("gru"), 6, 2, 4, True),
    "lstm, int16": (Recurrent("lstm"), 9, 5, 4, False, 127, True),
    "gru, int16, from a state": (Recurrent("gru", reverse=True), 6, 7, 4, True, 127, True),
    "lstm, int16, kept": (RecurrentKept("lstm"), 5, 3, 4, True, 127, True),
    "lstm, int4": (Recurrent("lstm"), 5, 3, 4, False, 7, False, True),
    "lstm, int4, backward, from states": (Recurrent("lstm", reverse=True), 7, 9, 4, True, 7, False, True),
    "gru, int4": (Recurrent("gru"), 6, 2, 4, False, 7, False, True),
    "lstm, int4, kept": (RecurrentKept("lstm"), 9, 6, 4, True, 7, False, True),
    "gru, int4 and int16, kept": (RecurrentKept("gru"), 6, 5, 4, True, 7, True, True),
}


@pytest.mark.quick_cases(6)
@pytest.mark.parametrize("name", LAYERS)
def test_kernels(name):
    graph = loop(*LAYERS[name])
    cell = LAYERS[name][0].cell
    kernels = check_kernels(graph, [random_inputs(graph, seed) for seed in range(2)], Numerics.OURS)
    bits = "_w4" if "int4" in name else ""
    assert kernels == [f"tc_{cell}_loop{bits}_mve", f"tc_{cell}_loop{bits}_asm", f"tc_{cell}_loop{bits}"]


@pytest.mark.parametrize("cell", ["lstm", "gru"])
def test_kernels_that_begin_with_constants(cell):
    graph = loop(Recurrent(cell), 5, 3, 2, states=True)
    given = random_inputs(graph, 0)
    held = {name: given[name] for name in graph.inputs if name != "x"}
    graph = replace(graph, inputs=("x",), consts={**graph.consts, **held})
    for candidate in (graph, as_float(graph)):
        x = given["x"] if candidate is graph else reals(graph, {"x": given["x"]})["x"].astype(np.float32)
        assert check_kernels(candidate, [{"x": x}], Numerics.OURS)


def as_float(graph: Graph) -> Graph:
    """The same layer on reals."""
    quants = {name: value.quant for name, value in graph.values.items() if value.quant is not None}
    values = {name: replace(value, dtype="f32", quant=None) for name, value in graph.values.items()}
    consts = {name: quants[name].dequantize(a) if name in quants else a for name, a in graph.consts.items()}
    return replace(graph, values=values, consts=consts)


@pytest.mark.parametrize("name", LAYERS)
def test_integers_are_near_the_float_layer(name):
    """The nearest step of the output, or one that is almost as near: inside there are more bits."""
    graph = loop(*LAYERS[name])
    y = graph.values["y"].quant
    for seed in range(8):
        inputs = random_inputs(graph, seed)
        if graph.values.get("h2"):  # the hidden state never is beyond 1
            inputs = {
                name: np.clip(a, *((-21845, 21845) if name == "h" else (None, None))) for name, a in inputs.items()
            }
        real, integers = run_float(as_float(graph), reals(graph, inputs)), run_int(graph, inputs, Numerics.OURS)
        steps = 1 if integers["y"].dtype == np.int8 else 256  # of the output in what is a step of 8 bits
        exact = np.clip(real["y"] / y.scale[0] + y.zero[0], -128 * steps, 128 * steps - 1)
        assert np.abs(integers["y"] - exact).max() < (0.75 if steps == 1 else 0.25 * steps)
        for state_name in graph.outputs[1:]:  # a quarter of such a step
            state = graph.values[state_name].quant.dequantize(integers[state_name])
            assert np.abs(state - real[state_name]).max() < 1 / 480


@pytest.mark.parametrize("name", ["lstm, backward, from states", "gru, backward, last step, from a state"])
def test_samples_side_by_side_are_each_as_alone(name):
    integer = loop(*LAYERS[name])
    graph = as_float(integer)
    given = [reals(integer, random_inputs(integer, seed)) for seed in range(5)]
    alone = [run_float(graph, {key: a.astype(np.float32) for key, a in one.items()})["y"] for one in given]
    (node,) = graph.nodes
    stacked = {key: np.stack([one[key] for one in given]).astype(np.float32) for key in graph.inputs}
    inputs = [None if not key else graph.consts.get(key, stacked.get(key)) for key in node.inputs]
    (together,) = compute(graph, node, inputs, len(given))
    np.testing.assert_array_equal(together, np.stack(alone))


def test_the_hidden_state_has_as_many_bits_as_its_products_leave():
    few, many = (
        prepare(Site(graph, graph.nodes[0], Numerics.OURS)).bits
        for graph in (loop(Recurrent("lstm"), 120, 2, 1), loop(Recurrent("lstm"), 4, 2, 1, most=9))
    )
    assert (few, many) == (9, 13)  # beyond 13 the input, which is added up with it, would leave int16


def test_a_state_beyond_what_the_integers_hold_is_an_error():
    graph = loop(Recurrent("gru"), 3, 2, 2, states=True)
    h = graph.values["h"]
    far = replace(graph, values={**graph.values, "h": replace(h, quant=replace(h.quant, scale=(9.0,)))})
    with pytest.raises(TinycError, match="beyond 1024"):
        run_int(far, random_inputs(far, 1), Numerics.OURS)


@pytest.mark.parametrize("kind", ["LSTM", "GRU"])
@pytest.mark.parametrize("direction", ["forward", "bidirectional"])
def test_a_layer_of_a_file_is_a_loop_with_one_copy_of_its_weights(tmp_path, kind, direction):
    """And its integers are nearer to onnxruntime than those of the unrolled layer were (31 dB of an LSTM)."""
    model = layer(kind, 16, 8, 12, direction)
    graph = normalize(load(model, tmp_path))
    directions = 2 if direction == "bidirectional" else 1
    assert ops_of(graph).count("recurrent") == directions
    assert set(ops_of(graph)) <= {"recurrent", "reshape", "concat"}
    np.savez(tmp_path / "model.calib.npz", x=sequences(1, 40, 12, 8))
    data = calibrate(Path(tmp_path, "model.onnx"), graph, None)
    integer = quantize_model(graph, data, hurried(Recipe()))
    weights = directions * GATES[kind.lower()] * 16 * (16 + 8)
    assert sum(integer.values[name].size_bytes for name in integer.consts) < weights * 1.25
    assert sqnr_db(model, integer, sequences(2, 16, 12, 8)) > 36
    wide = quantize_model(graph, data, hurried(Recipe(activations="int16")))
    assert sqnr_db(model, wide, sequences(2, 16, 12, 8)) > 44


@pytest.mark.parametrize("kind", ["LSTM", "GRU"])
@pytest.mark.parametrize("direction", ["reverse", "bidirectional"])
def test_weights_of_4_bits(tmp_path, kind, direction):
    """Half of the bytes, and nearer to the float layer than weights that are rounded to nearest."""
    model = layer(kind, 16, 8, 12, direction)
    graph = normalize(load(model, tmp_path))
    np.savez(tmp_path / "model.calib.npz", x=sequences(1, 40, 12, 8))
    data = calibrate(Path(tmp_path, "model.onnx"), graph, None)
    wide = quantize_model(graph, data, hurried(Recipe()))
    narrow = quantize_model(graph, data, hurried(Recipe(weights="int4")))
    weights = [name for node in narrow.nodes if node.op == "recurrent" for name in (node.inputs[1], node.inputs[3])]
    assert {narrow.values[name].dtype for name in weights} == {"s4"}
    assert sum(narrow.values[name].size_bytes for name in weights) == weight_bytes(wide) // 2
    coarse = dict(graph.consts)
    for node in graph.nodes:
        for name in (node.inputs[1], node.inputs[3]) if node.op == "recurrent" else ():
            step = np.abs(graph.consts[name]).max(axis=1, keepdims=True) / 7
            coarse[name] = (np.rint(graph.consts[name] / step) * step).astype(np.float32)
    test = sequences(2, 16, 12, 8)
    nearest = quantize_model(replace(graph, consts=coarse), replace(data, model=None), hurried(Recipe()))
    assert sqnr_db(model, narrow, test) > sqnr_db(model, nearest, test) + 1


@pytest.mark.parametrize("direction", ["forward", "reverse", "bidirectional"])
def test_a_library_has_hardly_more_constants_than_the_layer_has_parameters(tmp_path, direction):
    """Weights, biases, factors, the table of the gates, and what the structures of the layers hold."""
    model = layer("LSTM", 32, 16, 4, direction)
    (tmp_path / "model.onnx").write_bytes(model.SerializeToString())
    np.savez(tmp_path / "data.npz", x=sequences(1, 8, 4, 16))
    options = Options("cortex-m4", calibration=tmp_path / "data.npz", recipe=hurried(Recipe()))
    program = compile_model(tmp_path / "model.onnx", load_board("cortex-m4"), options, Progress()).program
    directions = 2 if direction == "bidirectional" else 1
    held = sum(array.const.data.nbytes for array in program.symbols) + 184 * directions
    assert held <= 1.2 * directions * 4 * 32 * (16 + 32 + 2)
