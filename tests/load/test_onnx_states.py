# SPDX-License-Identifier: Apache-2.0
"""State that an ONNX model has as inputs and outputs: pairs by words and by names, initial values, closed loops."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import onnxruntime
import pytest

from tests.load.onnx_models import build, op, ops_of
from tinyc import api
from tinyc.api import TinycWarning
from tinyc.base.errors import Loc, TinycError
from tinyc.ir.graph import Array, Graph
from tinyc.load import load_model
from tinyc.load.states import Asked, StatePair, StatePort, pairs_of
from tinyc.passes import normalize
from tinyc.quantize import UNPROVEN, calibrate, quantize
from tinyc.quantize.loops import closed_loop
from tinyc.quantize.simulate import sqnr_db
from tinyc.reference.interpreter import prepare_float

HERE = Loc("model.onnx")
UNITS, NUMBERS = 8, 5


def ports(*names: str, sizes: tuple[int, ...] = (1, 4)) -> list[StatePort]:
    return [StatePort(name, sizes) for name in names]


@pytest.mark.parametrize(
    ("inputs", "outputs", "expected_pairs"),
    [
        ("x h c", "y hn cn", "h:hn c:cn"),
        ("input state", "output stateN", "state:stateN"),
        ("in_state_x in_audio", "out_state_x out_audio", "in_state_x:out_state_x"),
        ("x h0 c0", "y hn cn", "h0:hn c0:cn"),
        ("x h0 h1", "y h0_out h1_out", "h0:h0_out h1:h1_out"),
        ("x cached_key_0 cached_key_1", "y new_cached_key_0 new_cached_key_1",
         "cached_key_0:new_cached_key_0 cached_key_1:new_cached_key_1"),
        ("features prevState", "scores nextState", "prevState:nextState"),
        ("x", "y", ""),
        ("h", "hn", ""),  # a model of nothing but state has no inputs left
    ],
)  # fmt: skip
def test_pairs_by_name(inputs, outputs, expected_pairs):
    pairs = pairs_of(Asked(), ports(*inputs.split()), ports(*outputs.split()), HERE)
    assert " ".join(f"{pair.name}:{pair.after}" for pair in pairs) == expected_pairs


def test_pairs_have_one_shape():
    assert pairs_of(Asked(), ports("x", "h"), ports("hn", sizes=(1, 5)), HERE) == ()
    assert pairs_of(Asked(), ports("x", "h"), [StatePort("hn", (None, 4))], HERE) == (StatePair("h", "hn"),)


@pytest.mark.parametrize(
    ("words", "inputs", "outputs", "message", "hint"),
    [
        ((), "x state", "state_out new_state", "'state' with output 'state_out' or 'new_state'", "--state none"),
        ((), "x h h_in", "hn", "output 'hn' with input 'h' or 'h_in'", "--state in:out"),
        (("h",), "x h", "y hn", "'h' is no pair", "input:output"),
        (("g:hn",), "x h", "y hn", "no input 'g'", "inputs: "),
        (("h:hn", "h:y"), "x h", "y hn", "'h' twice", "one state's"),
        (("x:y", "h:hn"), "x h", "y hn", "all inputs", "leave one out"),
    ],
)
def test_what_is_no_pair_is_said(words, inputs, outputs, message, hint):
    with pytest.raises(TinycError) as caught:
        pairs_of(Asked(words), ports(*inputs.split()), ports(*outputs.split()), HERE)
    assert message in caught.value.message
    assert hint in caught.value.hint


def test_names_with_colons_of_their_own():
    pairs = pairs_of(Asked(("a:0:b:0",)), ports("x", "a:0"), ports("y", "b:0"), HERE)
    assert pairs == (StatePair("a:0", "b:0"),)
    assert pairs_of(Asked(("none",)), ports("x", "h"), ports("y", "hn"), HERE) == ()


def recurrent(kind: str, steps: int = 1) -> onnx.ModelProto:
    """A layer that goes on from the last run, and a dense layer behind it."""
    rng = np.random.default_rng(3)
    gates = {"LSTM": 4, "GRU": 3}[kind]
    most = 2 / np.sqrt(UNITS)
    weights = {
        "w": rng.uniform(-most, most, (1, gates * UNITS, NUMBERS)),
        "r": rng.uniform(-most, most, (1, gates * UNITS, UNITS)),
        "b": rng.uniform(-most, most, (1, 2 * gates * UNITS)),
        "d": rng.standard_normal((UNITS, 3)),
    }
    constants = {name: array.astype(np.float32) for name, array in weights.items()}
    constants["shape"] = np.array([steps, UNITS])
    cell = " c" if kind == "LSTM" else ""
    more = {"linear_before_reset": 1} if kind == "GRU" else {}
    nodes = [
        op(kind, f"x w r b - h{cell}", f"rows hn{' cn' if cell else ''}", hidden_size=UNITS, **more),
        op("Reshape", "rows shape", "flat"),
        op("MatMul", "flat d", "y"),
    ]
    inputs = {"x": [steps, 1, NUMBERS], "h": [1, 1, UNITS]} | ({"c": [1, 1, UNITS]} if cell else {})
    return build(nodes, inputs, ["y", "hn", *(["cn"] if cell else [])], constants)


def smooth(steps: int, *shape: int) -> Array:
    rng = np.random.default_rng(7)
    x = rng.standard_normal((steps + 3, *shape)).astype(np.float32)
    return (x[:-3] + x[1:-2] + x[2:-1] + x[3:]) / 2


def onnxruntimes(model: onnx.ModelProto, x: Array, states: dict[str, str], starts: tuple[int, ...] = (0,)) -> Array:
    """y of onnxruntime, the states fed back."""
    session = onnxruntime.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
    shapes = {info.name: info.shape for info in session.get_inputs()}
    names = [output.name for output in session.get_outputs()]
    held, rows = {}, []
    for k, sample in enumerate(x):
        if k in starts:
            held = {name: np.zeros(shapes[name], np.float32) for name in states}
        outputs = dict(zip(names, session.run(None, {"x": sample, **held}), strict=True))
        held = {name: outputs[after] for name, after in states.items()}
        rows.append(outputs["y"])
    return np.stack(rows)


def saved(model: onnx.ModelProto, folder: Path) -> tuple[Path, Graph]:
    path = folder / "model.onnx"
    onnx.save(model, path)
    return path, normalize(load_model(path, (), Asked()))


@pytest.mark.parametrize(("kind", "states"), [("LSTM", {"h": "hn", "c": "cn"}), ("GRU", {"h": "hn"})])
def test_recurrent_layers_go_on(tmp_path, kind, states):
    """In float as onnxruntime with its outputs fed back; in integers near it, after as many steps as there are."""
    model = recurrent(kind)
    path, graph = saved(model, tmp_path)
    assert graph.inputs == ("x",)
    assert graph.outputs == ("y",)
    assert ops_of(graph).count("recurrent_kept") == 1
    x = smooth(240, 1, 1, NUMBERS)
    theirs = onnxruntimes(model, x, states, (0, 80, 160))
    ours = [run["y"] for run in prepare_float(graph).sequence(({"x": sample} for sample in x), every=80)]
    np.testing.assert_allclose(ours, theirs, atol=1e-5)
    np.save(tmp_path / "x.npy", x.reshape(3, 80, 1, NUMBERS))
    data = calibrate(path, graph, tmp_path / "x.npy")
    assert data.sequences is not None
    assert data.sequences.starts == (0, 80, 160)
    integer = quantize(graph, data, UNPROVEN).graph
    assert {integer.values[name].dtype for name in states} == {"s16"}
    assert integer.values["x"].dtype == "s8"
    assert sqnr_db(theirs, closed_loop(integer, data.sequences)["y"]) > 30


def test_a_library_has_the_references_bytes(tmp_path):
    """On a core with DSP, on one without, on the host with sanitizers, in float32: LSTM and GRU, over sequences."""
    for kind, board, options in (
        ("LSTM", "cortex-m4", {}),
        ("GRU", "cortex-m0plus", {}),
        ("LSTM", "host", {"precision": "float32"}),
        ("GRU", "host", {}),
    ):
        path, _ = saved(recurrent(kind, steps=2), tmp_path)
        x = smooth(12, 2, 1, NUMBERS).reshape(3, 4, 2, 1, NUMBERS)
        with pytest.warns(TinycWarning, match="taken for state by their names: 'h' "):
            report = api.verify(path, board, inputs=x, calibration=None if options else x, **options)
        assert report.passed
        assert report.verify.inputs == 12
        assert report.state_bytes > 0


def moving_average() -> onnx.ModelProto:
    """state <- 0.995 state + 0.005 x: a step that int8 rounds away; y = 3 state."""
    constants = {"keep": np.float32(0.995), "take": np.float32(0.005), "scale": np.float32([3, 2, 1, 3])}
    nodes = [
        op("Mul", "state keep", "kept"),
        op("Mul", "x take", "taken"),
        op("Add", "kept taken", "state_out"),
        op("Mul", "state_out scale", "y"),
    ]
    return build(nodes, {"x": [1, 4], "state": [1, 4]}, ["y", "state_out"], constants)


def delay() -> onnx.ModelProto:
    """A convolution over the last three frames, which are the state: nothing is computed in the loop."""
    w = np.random.default_rng(1).standard_normal((4, 12)).astype(np.float32).T
    constants = {"w": w, "begin": np.array([1]), "end": np.array([4]), "axes": np.array([1]), "flat": np.array([1, 12])}
    nodes = [
        op("Concat", "cache x", "all", axis=1),
        op("Slice", "all begin end axes", "cache_out"),
        op("Reshape", "cache_out flat", "line"),
        op("MatMul", "line w", "y"),
    ]
    return build(nodes, {"x": [1, 1, 4], "cache": [1, 3, 4]}, ["y", "cache_out"], constants)


def test_a_loop_gets_16_bits_where_it_needs_them(tmp_path):
    x = np.abs(smooth(400, 1, 4))
    for model, states, dtype in (
        (moving_average(), {"state": "state_out"}, "s16"),
        (delay(), {"cache": "cache_out"}, "s8"),
    ):
        path, graph = saved(model, tmp_path)
        sample = x if dtype == "s16" else x[:, None]
        np.save(tmp_path / "x.npy", sample)
        data = calibrate(path, graph, tmp_path / "x.npy")
        assert data.sequences is not None
        integer = quantize(graph, data, UNPROVEN).graph
        assert {integer.values[state.name].dtype for state in integer.states} == {dtype}
        assert sqnr_db(onnxruntimes(model, sample, states), closed_loop(integer, data.sequences)["y"]) > 30


def loudness() -> onnx.ModelProto:
    """state <- 0.9 state + 0.1 |x|, the absolute value as the root of a square, whose 8 bits lose what is quiet."""
    constants = {"keep": np.float32(0.9), "take": np.float32(0.1)}
    nodes = [
        op("Mul", "x x", "power"),
        op("Sqrt", "power", "size"),
        op("Mul", "state keep", "kept"),
        op("Mul", "size take", "taken"),
        op("Add", "kept taken", "state_out"),
        op("Identity", "state_out", "y"),
    ]
    return build(nodes, {"x": [1, 4], "state": [1, 4]}, ["y", "state_out"], constants)


def test_values_before_a_loop_get_16_bits_where_it_needs_them(tmp_path):
    """Mostly quiet inputs, a few of them 40 times as loud: in 8 bits the quiet ones are zero."""
    model = loudness()
    path, graph = saved(model, tmp_path)
    x = 0.1 * smooth(96, 1, 4)
    x[::48] *= 40
    np.save(tmp_path / "x.npy", x)
    data = calibrate(path, graph, tmp_path / "x.npy")
    assert data.sequences is not None
    integer = quantize(graph, data, UNPROVEN).graph
    (power,) = (node for node in integer.nodes if node.op == "power")
    assert integer.values[power.inputs[0]].dtype == integer.values[power.outputs[0]].dtype == "s16"
    y = closed_loop(integer, data.sequences)["y"]
    assert sqnr_db(onnxruntimes(model, x, {"state": "state_out"}), y) > 20


def test_initial_values(tmp_path):
    path, _ = saved(moving_average(), tmp_path)
    begin = np.float32([[1, -2, 0.5, 0]])
    np.savez(tmp_path / "begin.npz", state=begin)
    graph = load_model(path, (), Asked((), tmp_path / "begin.npz"))
    (run,) = prepare_float(graph).sequence([{"x": np.zeros((1, 4), np.float32)}])
    np.testing.assert_allclose(run["y"], 0.995 * begin * [3, 2, 1, 3], rtol=1e-6)
    report = api.verify(
        path, "host", calibration=smooth(40, 4), state=("state:state_out",), state_init={"state": begin}
    )
    assert report.passed
    np.savez(tmp_path / "begin.npz", state=np.zeros((1, 3), np.float32))
    with pytest.raises(TinycError, match=r"'state' is float32 \[1, 3\], the state f32 \[1, 4\]"):
        load_model(path, (), Asked((), tmp_path / "begin.npz"))
    np.savez(tmp_path / "begin.npz", other=begin)
    with pytest.raises(TinycError, match="'other' is no state"):
        load_model(path, (), Asked((), tmp_path / "begin.npz"))
    with pytest.raises(TinycError, match="no input is a state"):
        load_model(path, (), Asked(("none",), tmp_path / "begin.npz"))


def test_pairs_that_the_user_names(tmp_path):
    path, _ = saved(delay(), tmp_path)
    with pytest.raises(TinycError, match="are no pair"):
        load_model(path, (), Asked(("cache:y",)))
    with pytest.raises(TinycError, match="no operator of the model makes a tensor 'elsewhere'"):
        load_model(path, (), Asked(("cache:elsewhere",)))
    none = load_model(path, (), Asked(("none",)))
    assert none.inputs == ("x", "cache")
    inner = load_model(path, ("y",), Asked(("cache:cache_out",)))
    assert inner.inputs == ("x",)
    assert inner.outputs == ("y",)
    assert not load_model(path).states  # only who asks gets state


def test_sequences_in_a_folder(tmp_path):
    path, graph = saved(delay(), tmp_path)
    (tmp_path / "calls").mkdir()
    for number, steps in enumerate((5, 9)):
        np.save(tmp_path / "calls" / f"{number}.npy", smooth(steps, 1, 4))
    data = calibrate(path, graph, tmp_path / "calls")
    assert data.sequences is not None
    assert data.sequences.starts == (0, 5)
    report = api.quantize(path, calibration=tmp_path / "calls", state=("cache:cache_out",))
    assert report.diagnosis.sqnr_db is not None


def test_a_quantized_model_is_saved_with_its_states_as_inputs_and_outputs(tmp_path):
    path, _ = saved(moving_average(), tmp_path)
    with pytest.warns(TinycWarning, match="'state' "):
        report = api.quantize(path, calibration=smooth(40, 4), out=tmp_path / "q.onnx")
    assert report.saved is not None
    assert report.saved.largest_step is not None
    assert [value.name for value in onnx.load(tmp_path / "q.onnx").graph.input] == ["x", "state"]


@pytest.mark.parametrize("kind", ["LSTM", "GRU"])
def test_a_loop_that_goes_on_is_not_saved_and_what_the_hint_says_works(kind: str, tmp_path: Path) -> None:
    path = tmp_path / "net.onnx"
    onnx.save(recurrent(kind), path)
    states = {"h": (1, 1, UNITS)} | ({"c": (1, 1, UNITS)} if kind == "LSTM" else {})
    np.savez(tmp_path / "x.npz", x=smooth(40, 1, 1, NUMBERS))
    out = tmp_path / "q.onnx"
    with pytest.warns(TinycWarning, match="'h' "), pytest.raises(TinycError, match="from run to run") as caught:
        api.quantize(path, calibration=tmp_path / "x.npz", out=out)
    assert "--state none" in caught.value.hint
    given = {name: np.tanh(smooth(40, *shape)) for name, shape in states.items()}
    np.savez(tmp_path / "all.npz", x=smooth(40, 1, 1, NUMBERS), **given)
    report = api.quantize(path, calibration=tmp_path / "all.npz", out=out, state=("none",))
    assert report.saved is not None
    assert report.saved.largest_step is not None
    assert report.saved.largest_step <= 1
