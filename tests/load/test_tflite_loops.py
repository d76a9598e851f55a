# SPDX-License-Identifier: Apache-2.0
"""WHILE of a known number of steps, in the form in which Keras' converter writes recurrent layers, beside LiteRT."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from tests.load.tflite_models import numbers
from tests.ops.tflite_builder import Operator, Tensor, build_model
from tinyc import build as build_library
from tinyc.base.errors import TinycError
from tinyc.base.numerics import Numerics
from tinyc.export.tflite_file import Subgraph
from tinyc.ir.graph import Array
from tinyc.load import load_model
from tinyc.passes import normalize
from tinyc.reference.interpreter import run_float, run_int

STEPS, INPUTS, UNITS = 3, 3, 4
Parts = tuple[list[Tensor], list[Operator]]


def real(name: str, *shape: int, data: Array | None = None) -> Tensor:
    return Tensor(name, shape, "f32", data=None if data is None else data.astype(np.float32))


def open_(name: str) -> Tensor:
    """A part of the list of outputs, of another length in each step."""
    return Tensor(name, (1, 1, UNITS), "f32", signature=(-1, 1, UNITS))


def count(name: str, *shape: int) -> Tensor:
    return Tensor(name, shape, "s32")


def drawn(name: str, *shape: int) -> Tensor:
    rng = np.random.default_rng([1, *name.encode()])
    return real(name, *shape, data=rng.normal(0, 0.6, shape))


def plain(code: str, inputs: str, output: str) -> Operator:
    kinds = {"ADD": "AddOptions", "SUB": "SubOptions", "MUL": "MulOptions", "FULLY_CONNECTED": "FullyConnectedOptions"}
    names = tuple(inputs.split()), (output,)
    return (
        Operator(code, *names, kinds[code], {"FusedActivationFunction": 0}) if code in kinds else Operator(code, *names)
    )


def set_item(rows: str, item: str, target: str) -> Parts:
    """rows with row `time` replaced, as the converter lowers TensorListSetItem: a slice, the item, a slice."""
    tensors = [
        numbers("minus", [-1, -1]), numbers("origin", [0, 0, 0]), numbers("nil", [0, 0]), count("time1", 1),
        count("size", 3), count("after", 1), count("start", 3), numbers("ones", [-1, -1, -1]),
        numbers("one1", [1]), open_("head"), open_("tail"), real("row", 1, 1, UNITS),
        Tensor("axis0", (), "s32", data=np.array(0, np.int32)),
    ]  # fmt: skip
    joined = {"Axis": 0}
    operators = [
        Operator("EXPAND_DIMS", ("time", "axis0"), ("time1",), "ExpandDimsOptions"),
        Operator("CONCATENATION", ("time1", "minus"), ("size",), "ConcatenationOptions", joined),
        Operator("SLICE", (rows, "origin", "size"), ("head",), "SliceOptions"),
        plain("ADD", "time1 one1", "after"),
        Operator("CONCATENATION", ("after", "nil"), ("start",), "ConcatenationOptions", joined),
        Operator("SLICE", (rows, "start", "ones"), ("tail",), "SliceOptions"),
        Operator("EXPAND_DIMS", (item, "axis0"), ("row",), "ExpandDimsOptions"),
        Operator("CONCATENATION", ("head", "row", "tail"), (target,), "ConcatenationOptions", joined),
    ]
    return tensors, operators


def lstm_cell() -> Parts:
    """Gates i, f, c, o of one step."""
    wide = 4 * UNITS
    tensors = [
        real("xt", 1, INPUTS), drawn("w", wide, INPUTS), drawn("r", wide, UNITS), drawn("b", wide), real("wx", 1, wide),
        real("rh", 1, wide), real("sum", 1, wide), real("z", 1, wide),
        Tensor("axis1", (), "s32", data=np.array(1, np.int32)),
        *(real(name, 1, UNITS) for name in ("zi", "zf", "zc", "zo", "i", "f", "g", "o", "kept", "new")),
        *(real(name, 1, UNITS) for name in ("cell2", "shown", "hidden2")),
    ]  # fmt: skip
    operators = [
        Operator("GATHER", ("xs", "time"), ("xt",), "GatherOptions", {"Axis": 0}),
        plain("FULLY_CONNECTED", "xt w", "wx"), plain("FULLY_CONNECTED", "hidden r", "rh"),
        plain("ADD", "wx rh", "sum"), plain("ADD", "sum b", "z"),
        Operator("SPLIT", ("axis1", "z"), ("zi", "zf", "zc", "zo"), "SplitOptions", {"NumSplits": 4}),
        plain("LOGISTIC", "zi", "i"), plain("LOGISTIC", "zf", "f"), plain("TANH", "zc", "g"),
        plain("LOGISTIC", "zo", "o"), plain("MUL", "f cell", "kept"), plain("MUL", "i g", "new"),
        plain("ADD", "kept new", "cell2"), plain("TANH", "cell2", "shown"), plain("MUL", "o shown", "hidden2"),
    ]  # fmt: skip
    return tensors, operators


def gru_cell() -> Parts:
    """Gates z, r, h of one step, the reset gate behind the product."""
    wide = 3 * UNITS
    tensors = [
        real("xt", 1, INPUTS), drawn("w", wide, INPUTS), drawn("r", wide, UNITS), drawn("b", wide), drawn("late", wide),
        real("wx", 1, wide), real("rh", 1, wide), Tensor("axis1", (), "s32", data=np.array(1, np.int32)),
        Tensor("unit", (), "f32", data=np.array(1, np.float32)),
        *(real(name, 1, UNITS) for name in ("xz", "xr", "xh", "hz", "hr", "hh", "sz", "sr", "z", "r_", "seen", "sh")),
        *(real(name, 1, UNITS) for name in ("n", "kept", "rest", "new", "hidden2")),
    ]  # fmt: skip
    three = {"NumSplits": 3}
    operators = [
        Operator("GATHER", ("xs", "time"), ("xt",), "GatherOptions", {"Axis": 0}),
        plain("FULLY_CONNECTED", "xt w b", "wx"), plain("FULLY_CONNECTED", "hidden r late", "rh"),
        Operator("SPLIT", ("axis1", "wx"), ("xz", "xr", "xh"), "SplitOptions", three),
        Operator("SPLIT", ("axis1", "rh"), ("hz", "hr", "hh"), "SplitOptions", three),
        plain("ADD", "xz hz", "sz"), plain("LOGISTIC", "sz", "z"), plain("ADD", "xr hr", "sr"),
        plain("LOGISTIC", "sr", "r_"), plain("MUL", "r_ hh", "seen"), plain("ADD", "xh seen", "sh"),
        plain("TANH", "sh", "n"), plain("MUL", "z hidden", "kept"), plain("SUB", "unit z", "rest"),
        plain("MUL", "rest n", "new"), plain("ADD", "kept new", "hidden2"),
    ]  # fmt: skip
    return tensors, operators


def simple_cell() -> Parts:
    """A plain recurrent step, which no loop computes."""
    tensors = [
        real("xt", 1, INPUTS), drawn("w", UNITS, INPUTS), drawn("r", UNITS, UNITS), real("wx", 1, UNITS),
        real("rh", 1, UNITS), real("sum", 1, UNITS), real("hidden2", 1, UNITS),
    ]  # fmt: skip
    operators = [
        Operator("GATHER", ("xs", "time"), ("xt",), "GatherOptions", {"Axis": 0}),
        plain("FULLY_CONNECTED", "xt w", "wx"), plain("FULLY_CONNECTED", "hidden r", "rh"),
        plain("ADD", "wx rh", "sum"), plain("TANH", "sum", "hidden2"),
    ]  # fmt: skip
    return tensors, operators


CELLS = {"lstm": lstm_cell, "gru": gru_cell, "simple": simple_cell}
CARRIED = ("step", "time", "rows", "hidden", "cell", "xs")


def carried() -> list[Tensor]:
    sizes = {"rows": (STEPS, 1, UNITS), "hidden": (1, UNITS), "cell": (1, UNITS), "xs": (STEPS, 1, INPUTS)}
    return [count("step"), count("time"), *(real(name, *sizes[name]) for name in CARRIED[2:])]


def scalar(name: str, number: int) -> Tensor:
    return Tensor(name, (), "s32", data=np.array(number, np.int32))


_SCALES = (  # names, scale, zero point of int8 tensors; the others are sums
    ("x xs xt e_xs", 0.03, 2),
    ("rows rows2 e_rows hidden hidden2 e_hidden head tail row y", 1 / 128, 0),
    ("i f o", 1 / 256, -128),
    ("g shown", 1 / 128, 0),
    ("cell cell2 e_cell kept new", 0.02, 5),
    ("w r", 0.015, 0),
)


def in_int8(tensor: Tensor) -> Tensor:
    """A float tensor as a file that was quantized has it: the same in every step."""
    if tensor.dtype != "f32":
        return tensor
    grids = ((scale, zero) for names, scale, zero in _SCALES if tensor.name in names.split())
    scale, zero = next(grids, (0.05, -3))
    data = tensor.data
    if data is not None:
        data = np.clip(np.rint(data / scale) + zero, -127, 127).astype(np.int8)
    return replace(tensor, dtype="s8", scale=(scale,), zero=(zero,), data=data)


def keras_loop(limit: int = STEPS, sequences: bool = True, cell: str = "lstm", quantized: bool = False) -> bytes:
    """x [1, STEPS, INPUTS] -> all hidden states, or tanh of the last one."""
    set_tensors, set_operators = set_item("rows", "hidden2", "rows2")
    cell_tensors, cell_operators = CELLS[cell]()
    body = Subgraph(
        [*carried(), *cell_tensors, *set_tensors, real("rows2", STEPS, 1, UNITS), scalar("one", 1), count("step2"),
         count("time2")],
        [*cell_operators, *set_operators, plain("ADD", "step one", "step2"), plain("ADD", "time one", "time2")],
        CARRIED, ("step2", "time2", "rows2", "hidden2", "cell2" if cell == "lstm" else "cell", "xs"),
    )  # fmt: skip
    condition = Subgraph(
        [*carried(), scalar("most", limit), Tensor("less", (), "bool"), Tensor("inside", (), "bool"),
         Tensor("goes", (), "bool")],
        [Operator("LESS", ("step", "most"), ("less",), "LessOptions"),
         Operator("LESS", ("time", "most"), ("inside",), "LessOptions"),
         Operator("LOGICAL_AND", ("less", "inside"), ("goes",), "LogicalAndOptions")],
        CARRIED, ("goes",),
    )  # fmt: skip
    begin = [scalar("step", 0), scalar("time", 0), real("rows", STEPS, 1, UNITS, data=np.zeros((STEPS, 1, UNITS))),
             real("hidden", 1, UNITS, data=np.zeros((1, UNITS))), real("cell", 1, UNITS, data=np.zeros((1, UNITS))),
             real("xs", STEPS, 1, INPUTS)]  # fmt: skip
    ends = [count("e_step"), count("e_time"), real("e_rows", STEPS, 1, UNITS), real("e_hidden", 1, UNITS),
            real("e_cell", 1, UNITS), real("e_xs", STEPS, 1, INPUTS)]  # fmt: skip
    turn, shape = numbers("turn", [1, 0, 2]), (1, STEPS, UNITS) if sequences else (1, UNITS)
    last = (Operator("TRANSPOSE", ("e_rows", "turn"), ("y",), "TransposeOptions") if sequences else
            plain("TANH", "e_hidden", "y"))  # fmt: skip
    main = [real("x", 1, STEPS, INPUTS), *begin, *ends, turn, real("y", *shape)]
    loop = Operator("WHILE", CARRIED, tuple(t.name for t in ends), "WhileOptions",
                    {"CondSubgraphIndex": 1, "BodySubgraphIndex": 2})  # fmt: skip
    operators = [Operator("TRANSPOSE", ("x", "turn"), ("xs",), "TransposeOptions"), loop, last]
    if quantized:
        main = [in_int8(tensor) for tensor in main]
        condition, body = (
            replace(part, tensors=[in_int8(tensor) for tensor in part.tensors]) for part in (condition, body)
        )
    return build_model(main, operators, ("x",), ("y",), others=[condition, body])


def of_litert(content: bytes, samples: Sequence[Array]) -> Array:
    litert = pytest.importorskip("ai_edge_litert.interpreter", reason="needs ai-edge-litert")
    runtime = litert.Interpreter(model_content=content)
    runtime.allocate_tensors()
    outputs = []
    for x in samples:
        runtime.set_tensor(runtime.get_input_details()[0]["index"], x)
        runtime.invoke()
        outputs.append(runtime.get_tensor(runtime.get_output_details()[0]["index"]))
    return np.stack(outputs)


@pytest.mark.parametrize("sequences", [True, False])
@pytest.mark.parametrize("cell", CELLS)
def test_layers_of_keras(cell: str, sequences: bool, tmp_path: Path) -> None:
    """LSTM and GRU are one loop, with one copy of the weights; in int8, too."""
    content = keras_loop(sequences=sequences, cell=cell)
    (tmp_path / "m.tflite").write_bytes(content)
    graph = normalize(load_model(tmp_path / "m.tflite"))
    ops = [node.op for node in graph.nodes]
    assert ops.count("recurrent") == (cell != "simple")
    assert ops.count("fully_connected") == (2 * STEPS - 1) * (cell == "simple")
    x = np.random.default_rng(2).normal(0, 1, (8, 1, STEPS, INPUTS)).astype(np.float32)
    outputs = np.stack([run_float(graph, {graph.inputs[0]: sample})[graph.outputs[0]] for sample in x])
    np.testing.assert_allclose(outputs, of_litert(content, list(x)), rtol=1e-5, atol=1e-6)
    np.savez(tmp_path / "data.npz", x=x)
    for given in ({"precision": "float32", "inputs": tmp_path / "data.npz"}, {"calibration": tmp_path / "data.npz"}):
        assert build_library(tmp_path / "m.tflite", "host", out=tmp_path / "out", **given).report.passed


def test_quantized_steps_stay_as_they_are(tmp_path: Path) -> None:
    """The file's integers are the definition, LiteRT's bytes. The first step is a layer on constants."""
    content = keras_loop(quantized=True)
    (tmp_path / "m.tflite").write_bytes(content)
    graph = normalize(load_model(tmp_path / "m.tflite"))
    assert "recurrent" not in [node.op for node in graph.nodes]
    x = np.random.default_rng(3).integers(-128, 128, (8, 1, STEPS, INPUTS)).astype(np.int8)
    outputs = np.stack([run_int(graph, {"x": sample}, Numerics.LITERT)["y"] for sample in x])
    np.testing.assert_array_equal(outputs, of_litert(content, list(x)))
    for numerics in ("litert", "tflm"):
        assert build_library(tmp_path / "m.tflite", "host", out=tmp_path / "out", numerics=numerics).report.passed


@pytest.mark.slow
def test_quantized_steps_share_the_weights(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """More steps take no more of them."""
    monkeypatch.setitem(globals(), "UNITS", 32)
    monkeypatch.setitem(globals(), "INPUTS", 16)
    sizes = []
    for steps in (4, 8):
        monkeypatch.setitem(globals(), "STEPS", steps)
        (tmp_path / "m.tflite").write_bytes(keras_loop(steps, quantized=True))
        report = build_library(tmp_path / "m.tflite", "cortex-m4", out=tmp_path / "out").report
        assert report.passed
        assert report.flash is not None
        sizes.append(report.flash.const_bytes)
    assert sizes[1] - sizes[0] < 128 * 16  # the smaller matrix


def counted(limit: int, of_data: bool = False) -> bytes:
    """state = tanh(state) until a counter, or the state itself, is at a limit."""
    state, one = real("state", 1), numbers("one", [1])
    body = Subgraph(
        [count("n", 1), state, one, count("n2", 1), real("state2", 1)],
        [plain("ADD", "n one", "n2"), plain("TANH", "state", "state2")], ("n", "state"), ("n2", "state2"),
    )  # fmt: skip
    most = real("most", 1, data=np.ones(1)) if of_data else numbers("most", [limit])
    condition = Subgraph(
        [count("n", 1), state, most, Tensor("goes", (1,), "bool")],
        [Operator("LESS", ("state" if of_data else "n", "most"), ("goes",), "LessOptions")], ("n", "state"), ("goes",),
    )  # fmt: skip
    main = [real("x", 1), numbers("n0", [0]), count("n1", 1), real("y", 1)]
    loop = Operator("WHILE", ("n0", "x"), ("n1", "y"), "WhileOptions", {"CondSubgraphIndex": 1, "BodySubgraphIndex": 2})
    return build_model(main, [loop], ("x",), ("y",), others=[condition, body])


def test_a_loop_runs_as_often_as_it_counts(tmp_path: Path) -> None:
    (tmp_path / "m.tflite").write_bytes(counted(7))
    graph = load_model(tmp_path / "m.tflite")
    assert [node.op for node in graph.nodes].count("tanh") == 7


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (counted(300), "more than 256 steps"),
        (counted(0, of_data=True), "is computed from the data"),
        (keras_loop(STEPS + 1), "leave axis 0"),
    ],
)
def test_loops_that_cannot_be_unrolled(content: bytes, message: str, tmp_path: Path) -> None:
    (tmp_path / "m.tflite").write_bytes(content)
    with pytest.raises(TinycError, match=message):
        load_model(tmp_path / "m.tflite")
