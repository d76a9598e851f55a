# SPDX-License-Identifier: Apache-2.0
"""svdf and lstm: TensorFlow Lite Micro's integers over sequences, float formulas, kernels in place and not."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import numpy as np
import pytest

from tests.ops import float32_layers
from tests.ops.harness import check_kernels
from tests.ops.one_node import one_node, random_s8, tensor
from tests.ops.runtimes import litert_sequence
from tests.ops.tflite_builder import Operator, Tensor, build_model
from tests.target.state_cases import lstm, svdf
from tinyc import api
from tinyc.base.errors import TinycError
from tinyc.base.numerics import Numerics
from tinyc.ir.graph import Array, Graph, Quant, State
from tinyc.load import load_model
from tinyc.ops import gates
from tinyc.ops.softmax import Softmax
from tinyc.passes import normalize
from tinyc.reference.interpreter import prepare_int, run_float, run_int

SVDFS = {"rank 2": (5, 2, 3, 7), "memory 1": (4, 1, 1, 9), "long": (3, 1, 17, 5), "one": (1, 1, 2, 1)}
LSTMS = {"plain": (5, 3, 2), "one unit": (1, 4, 3), "clipped": (7, 5, 3, 0.5), "coarse cell": (4, 3, 5, 0.0, -9)}
LSTMS["gates that saturate"] = (12, 9, 3, 0.0, -12, 0.1)  # either sum beyond 8, of either sign
RUNS = 5


def with_states(graph: Graph, pairs: Mapping[str, str]) -> Graph:
    """The one-node graph with its states as such, 0 after a reset."""
    states = []
    for name, after in pairs.items():
        value = graph.values[name]
        assert value.quant is not None
        states.append(State(name, after, np.full(value.shape, value.quant.zero[0], graph_dtype(graph, name)).tobytes()))
    outputs = tuple(name for name in graph.outputs if name not in pairs.values())
    inputs = tuple(name for name in graph.inputs if name not in pairs)
    return Graph(graph.name, inputs, outputs, graph.nodes, graph.values, graph.consts, tuple(states))


def graph_dtype(graph: Graph, name: str) -> type:
    return np.int16 if graph.values[name].dtype == "s16" else np.int8


def as_file(graph: Graph, code: str, options: str, fields: Mapping[str, object], names: tuple[str, ...]) -> bytes:
    """The graph's node as a TFLite file; its states are variable tensors."""
    state_names = {state.name for state in graph.states}
    afters = {state.after for state in graph.states}
    tensors = [
        Tensor(
            value.name,
            value.shape,
            value.dtype,
            value.quant.scale if value.quant else (),
            value.quant.zero if value.quant else (),
            data=graph.consts.get(value.name),
            variable=value.name in state_names,
        )
        for value in graph.values.values()
        if value.name not in afters
    ]
    operator = Operator(code, names, ("y",), options, dict(fields))
    return build_model(tensors, [operator], graph.inputs, graph.outputs)


def assert_sequence_is_tflms(graph: Graph, model: bytes) -> None:
    """Run after run, every output is TensorFlow Lite Micro's."""
    runtime = pytest.importorskip("tflite_micro.python.tflite_micro.runtime", reason="needs `tflite-micro`")
    theirs = runtime.Interpreter.from_bytes(model, arena_size=1_000_000)
    samples = [random_s8(30 + k, graph.values["x"].shape) for k in range(RUNS)]
    run = prepare_int(graph, Numerics.TFLM)
    for x, ours in zip(samples, run.sequence({"x": x} for x in samples), strict=True):
        theirs.set_input(x, 0)
        theirs.invoke()
        np.testing.assert_array_equal(ours["y"], theirs.get_output(0))


@pytest.mark.parametrize("name", SVDFS)
@pytest.mark.parametrize(("state", "zero"), [("s16", 0), ("s8", 0), ("s8", 50), ("s8", -128)])
def test_svdf_is_tflms(name, state, zero):
    graph = with_states(svdf(*SVDFS[name], state, zero), {"state": "after"})
    rank = SVDFS[name][1]
    fields = {"Rank": rank, "FusedActivationFunction": 1}
    assert_sequence_is_tflms(graph, as_file(graph, "SVDF", "SVDFOptions", fields, ("x", "w", "t", "b", "state")))


@pytest.mark.parametrize("name", LSTMS)
def test_lstm_is_tflms(name):
    graph = with_states(lstm(*LSTMS[name]), {"hidden": "hidden2", "cell": "cell2"})
    assert_sequence_is_tflms(graph, lstm_file(graph, LSTMS[name][3] if len(LSTMS[name]) > 3 else 0.0))


def test_lstm_whose_output_has_a_scale_of_its_own_is_tflms():
    """As converters write both directions of a bidirectional layer: y is the hidden state's integers all the same."""
    graph = with_states(lstm(*next(iter(LSTMS.values()))), {"hidden": "hidden2", "cell": "cell2"})
    y = replace(graph.values["y"], quant=Quant((0.0093,), (14,)))
    graph = replace(graph, values={**graph.values, "y": y})
    assert_sequence_is_tflms(graph, lstm_file(graph, 0.0))


def lstm_file(graph: Graph, clip: float) -> bytes:
    weights = [f"{kind}{gate}" for kind in "wr" for gate in "ifgo"]
    biases = [f"b{gate}" for gate in "ifgo"]
    names = ("x", *weights, "", "", "", *biases, "", "", "hidden", "cell", "", "", "", "")
    fields = {"FusedActivationFunction": 4, "CellClip": clip, "ProjClip": 0.0, "TimeMajor": False}
    return as_file(graph, "UNIDIRECTIONAL_SEQUENCE_LSTM", "UnidirectionalSequenceLSTMOptions", fields, names)


@pytest.mark.parametrize(("kind", "clip"), [("lstm", 0.9), ("lstm", 10.0), ("svdf", 0.0)])
def test_float_files_are_litert_and_the_c_library(kind, clip, tmp_path):
    """Float layers with state: near LiteRT over a sequence, and the library's bytes those of the reference."""
    if kind == "lstm":
        graph = float32_layers.lstm(5, 3, 4, clip)
        names = (
            "x",
            *(f"c{k}" for k in range(8)),
            "",
            "",
            "",
            *(f"c{8 + k}" for k in range(4)),
            "",
            "",
            "hidden",
            "cell",
        )
        fields = {"FusedActivationFunction": 4, "CellClip": clip, "ProjClip": 0.0, "TimeMajor": False}
        states_after, operator = {"hidden": "hidden2", "cell": "cell2"}, "UNIDIRECTIONAL_SEQUENCE_LSTM"
        options, names = "UnidirectionalSequenceLSTMOptions", (*names, "", "", "", "")
    else:
        graph, names, fields = float32_layers.svdf(4, 2, 3, 6), ("x", "w", "t", "b", "state"), {"Rank": 2}
        fields["FusedActivationFunction"] = 1
        states_after, operator, options = {"state": "after"}, "SVDF", "SVDFOptions"
    outputs = tuple(name for name in graph.outputs if name not in states_after.values())
    states = tuple(State(name, after, bytes(graph.values[name].size_bytes)) for name, after in states_after.items())
    inputs = tuple(name for name in graph.inputs if name not in states_after)
    graph = replace(graph, inputs=inputs, outputs=outputs, states=states)
    model = as_file(graph, operator, options, fields, names)
    samples = [np.random.default_rng(k).standard_normal(graph.values["x"].shape).astype("f4") for k in range(RUNS)]
    theirs = litert_sequence(model, [[x] for x in samples])
    ours = prepare_int(graph, Numerics.OURS).sequence({"x": x} for x in samples)
    for mine, (other,) in zip(ours, theirs, strict=True):
        np.testing.assert_allclose(mine["y"], other, rtol=1e-5, atol=1e-6)
    path = tmp_path / f"{kind}.tflite"
    path.write_bytes(model)
    np.savez(tmp_path / "x.npz", x=np.stack(samples)[:, 0])
    report = api.verify(path, "host", precision="float32", inputs=tmp_path / "x.npz")
    assert report.passed
    assert any(layer.kernel == f"tc_{kind}_f32" for layer in report.layers)
    if clip == 10.0:  # as Keras' converter has it
        loops = prepare_int(normalize(load_model(path)), Numerics.OURS).sequence({"x": x} for x in samples)
        for mine, (other,) in zip(loops, theirs, strict=True):
            np.testing.assert_allclose(mine["y"], other, rtol=1e-5, atol=1e-6)
        report = api.verify(path, "host", calibration=tmp_path / "x.npz", inputs=tmp_path / "x.npz")
        assert report.passed
        assert any(layer.kernel == "tc_lstm_loop" for layer in report.layers)


def test_an_integer_lstm_runs_in_float32_where_asked(tmp_path):
    """Each of its outputs is quantized behind it."""
    graph = with_states(lstm(*next(iter(LSTMS.values()))), {"hidden": "hidden2", "cell": "cell2"})
    path = tmp_path / "lstm.tflite"
    path.write_bytes(lstm_file(graph, 0.0))
    report = api.verify(path, "host", float_layers=["y"])
    assert report.passed
    assert any(layer.kernel == "tc_lstm_f32" for layer in report.layers)


def test_a_clip_at_the_end_of_int16_is_symmetric():
    """TensorFlow Lite Micro clips to -32767 then, and leaves -32768 where there is no clip."""
    for clip, least in ((1.0, -32767), (0.0, -32768)):
        graph = with_states(lstm(7, 5, 6, clip, -15), {"hidden": "hidden2", "cell": "cell2"})
        assert_sequence_is_tflms(graph, lstm_file(graph, clip))
        samples = [{"x": random_s8(30 + k, graph.values["x"].shape)} for k in range(RUNS)]
        cells = [run["cell2"] for run in prepare_int(graph, Numerics.TFLM).sequence(samples, keep=("cell2",))]
        assert np.min(cells) == least
        inputs = samples[0] | {name: np.zeros((1, 7), graph_dtype(graph, name)) for name in ("hidden", "cell")}
        check_kernels(lstm(7, 5, 6, clip, -15), [inputs])


def random_inputs(graph: Graph, seed: int) -> dict[str, Array]:
    rng = np.random.default_rng(seed)
    arrays = {}
    for name in graph.inputs:
        info = np.iinfo(graph_dtype(graph, name))
        arrays[name] = rng.integers(info.min, info.max + 1, graph.values[name].shape).astype(graph_dtype(graph, name))
    return arrays


@pytest.mark.parametrize(("name", "state", "zero"), [("rank 2", "s16", 0), ("long", "s8", 0), ("long", "s8", 50)])
def test_kernels_of_svdf(name, state, zero):
    graph = svdf(*SVDFS[name], state, zero)
    check_kernels(graph, [random_inputs(graph, seed) for seed in range(3)])


@pytest.mark.parametrize("name", ["clipped", "coarse cell", "gates that saturate"])
def test_kernels_of_lstm(name):
    graph = lstm(*LSTMS[name])
    check_kernels(graph, [random_inputs(graph, seed) for seed in range(3)])


def reals(graph: Graph, inputs: Mapping[str, Array]) -> dict[str, Array]:
    return {name: graph.values[name].quant.dequantize(array) for name, array in inputs.items()}


def test_integers_are_near_the_float_layers():
    """The state of SVDF in steps of 2^-12 and the outputs of LSTM in steps of 1/120: a few steps at most."""
    layer = svdf(5, 2, 3, 7)
    inputs = random_inputs(layer, 1) | {"state": np.zeros((1, 30), np.int16)}
    inputs["x"] = inputs["x"] // 4  # larger ones saturate the state
    ours, real = run_int(layer, inputs, Numerics.TFLM), run_float(layer, reals(layer, inputs))
    assert np.abs(layer.values["after"].quant.dequantize(ours["after"]) - real["after"]).max() < 2.0**-11
    assert np.abs(layer.values["y"].quant.dequantize(ours["y"]) - real["y"]).max() < 0.03
    layer = lstm(7, 5, 3)
    inputs = random_inputs(layer, 2) | {"cell": np.zeros((1, 7), np.int16)}
    ours, real = run_int(layer, inputs, Numerics.TFLM), run_float(layer, reals(layer, inputs))
    assert np.abs(layer.values["y"].quant.dequantize(ours["y"]) - real["y"]).max() < 0.03


def test_gates_are_tflms_int16_operators():
    runtime = pytest.importorskip("tflite_micro.python.tflite_micro.runtime", reason="needs `tflite-micro`")
    x = np.arange(-32768, 32768).astype(np.int16).reshape(1, -1)
    for code, ours in (("LOGISTIC", gates.logistic), ("TANH", gates.tanh)):
        tensors = [Tensor(name, x.shape, "s16", (scale,), (0,)) for name, scale in (("x", 2**-12), ("y", 2**-15))]
        model = build_model(tensors, [Operator(code, ("x",), ("y",))], ("x",), ("y",))
        interpreter = runtime.Interpreter.from_bytes(model, arena_size=1_000_000)
        interpreter.set_input(x, 0)
        interpreter.invoke()
        np.testing.assert_array_equal(ours(x.astype(np.int64)), interpreter.get_output(0))


def test_softmax_from_8_to_16_bits_is_tflms():
    runtime = pytest.importorskip("tflite_micro.python.tflite_micro.runtime", reason="needs `tflite-micro`")
    x = random_s8(3, (30, 11))
    graph = one_node("softmax", Softmax(widened=True), [tensor("x", x.shape, 0.1, 3)], 1 / 65536, -32768)
    tensors = [
        Tensor(value.name, value.shape, value.dtype, value.quant.scale, value.quant.zero)
        for value in graph.values.values()
    ]
    model = build_model(tensors, [Operator("SOFTMAX", ("x",), ("y",), "SoftmaxOptions", {"Beta": 1.0})], ("x",), ("y",))
    interpreter = runtime.Interpreter.from_bytes(model, arena_size=100_000)
    interpreter.set_input(x, 0)
    interpreter.invoke()
    np.testing.assert_array_equal(run_int(graph, {"x": x}, Numerics.TFLM)["y"], interpreter.get_output(0))
    assert check_kernels(graph, [{"x": x}]) == ["tc_softmax_s8_s16"]


def test_a_cell_that_is_no_power_of_two_is_an_error():
    graph = lstm(3, 2, 1)
    values = dict(graph.values)
    for name in ("cell", "cell2"):
        values[name] = tensor(name, (1, 3), 0.0003, 0, "s16")
    odd = Graph(graph.name, graph.inputs, graph.outputs, graph.nodes, values, graph.consts)
    with pytest.raises(TinycError, match="power of two"):
        run_int(odd, random_inputs(odd, 1), Numerics.TFLM)
