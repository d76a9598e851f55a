# SPDX-License-Identifier: Apache-2.0
"""A model that ends at tensors which the user names: what only its tail needs may be anything."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import onnx
import pytest

from tests.load import test_tflite_states as states
from tests.load.onnx_models import build, op
from tests.ops.tflite_builder import Operator, Tensor, build_model
from tinyc.base.errors import TinycError
from tinyc.board import load_board
from tinyc.explain.inspection import inspect_model
from tinyc.export.tflite_file import Subgraph
from tinyc.load import load_model, other_signatures
from tinyc.options.build import Options
from tinyc.pipeline.compiling import compile_model
from tinyc.pipeline.progress import Progress
from tinyc.reference.interpreter import run_float


def onnx_file(folder: Path) -> Path:
    """A layer, its activation, and a tail that cannot be compiled."""
    nodes = [op("MatMul", "x w", "z"), op("Relu", "z", "r"), op("NonZero", "r", "which")]
    w = np.random.default_rng(0).normal(size=(4, 3)).astype(np.float32)
    onnx.save(build(nodes, {"x": [1, 4]}, ["which"], {"w": w}), folder / "tail.onnx")
    return folder / "tail.onnx"


def tflite_file(folder: Path) -> Path:
    x, y = (Tensor(name, (1, 4), "s8", (0.1,), (0,)) for name in ("x", "y"))
    tail = Tensor("tail", (1, 4), "s8", (0.1,), (0,))
    operators = [Operator("RELU", ("x",), ("y",)), Operator("WHERE", ("y",), ("tail",))]
    (folder / "tail.tflite").write_bytes(build_model([x, y, tail], operators, ("x",), ("tail",)))
    return folder / "tail.tflite"


def test_onnx(tmp_path: Path) -> None:
    path = onnx_file(tmp_path)
    with pytest.raises(TinycError, match="NonZero"):
        load_model(path)
    graph = load_model(path, ("z", "r"))
    assert graph.outputs == ("z", "r")
    outputs = run_float(graph, {"x": np.ones((1, 4), np.float32)})
    np.testing.assert_array_equal(outputs["r"], np.maximum(outputs["z"], 0))


def test_tflite(tmp_path: Path) -> None:
    path = tflite_file(tmp_path)
    with pytest.raises(TinycError, match="WHERE"):
        load_model(path)
    assert load_model(path, ("y",)).outputs == ("y",)


@pytest.mark.parametrize("make", [onnx_file, tflite_file])
def test_names_that_are_not_there(make, tmp_path: Path) -> None:
    path = make(tmp_path)
    with pytest.raises(TinycError, match="no operator of the model makes") as caught:
        load_model(path, ("rr",))
    assert caught.value.hint
    name = "r" if path.suffix == ".onnx" else "y"
    with pytest.raises(TinycError, match="twice"):
        load_model(path, (name, name))


def test_a_library_says_where_it_ends(tmp_path: Path) -> None:
    options = Options(board="host", outputs=("r",), precision="float32")
    compiled = compile_model(onnx_file(tmp_path), load_board("host"), options, Progress())
    assert compiled.graph.outputs == ("r",)
    assert "--outputs r" in compiled.files["tail.c"]


def test_names_of_fused_layers(tmp_path: Path) -> None:
    """Netron shows all that a converter has fused; the first of them is the name here."""
    x, y = (Tensor(name, (1, 4), "s8", (0.1,), (0,)) for name in ("x", "a/Relu;a/MatMul"))
    tail = Tensor("tail", (1, 4), "s8", (0.1,), (0,))
    operators = [Operator("RELU", ("x",), (y.name,)), Operator("WHERE", (y.name,), ("tail",))]
    path = tmp_path / "m.tflite"
    path.write_bytes(build_model([x, y, tail], operators, ("x",), ("tail",)))
    assert load_model(path, ("a/Relu;a/MatMul",)).outputs == load_model(path, ("a/Relu",)).outputs == ("a/Relu",)


def test_variables_stay_with_what_assigns_them(tmp_path: Path) -> None:
    path = tmp_path / "m.tflite"
    operators = [states.ONCE, states.var("v"), states.read("v", "old"), states.ADD, states.assign("v", "x")]
    tail = Operator("WHERE", ("y",), ("tail",))
    path.write_bytes(states.model([*operators, tail], [*states.TENSORS, states.act("tail", 1, 2, 3)], output="tail"))
    graph = load_model(path, ("y",))
    (state,) = graph.states
    assert (state.name, state.initial) == ("old", states.BEGIN.tobytes())


def two_signatures(path: Path) -> Path:
    tensors = [
        [Tensor(f"{name}{end}", (1, size), "f32") for end in "xy"] for name, size in (("first ", 4), ("other ", 3))
    ]
    first, other = ([Operator("RELU", (x.name,), (y.name,))] for x, y in tensors)
    more = Subgraph(tensors[1], other, ("other x",), ("other y",))
    names = {"enc": 1, "dec": 0}
    path.write_bytes(build_model(tensors[0], first, ("first x",), ("first y",), others=[more], signatures=names))
    return path


def test_a_file_of_two_signatures(tmp_path: Path) -> None:
    path = two_signatures(tmp_path / "m.tflite")
    assert load_model(path).inputs == load_model(path, signature="dec").inputs == ("first x",)
    assert load_model(path, signature="enc").inputs == ("other x",)
    assert "'dec' is taken; --signature takes another: enc" in other_signatures(path)
    assert inspect_model(path, ("other y",), "enc").outputs[0].name == "other y"
    with pytest.raises(TinycError, match="no signature") as caught:
        load_model(path, signature="mid")
    assert "dec, enc" in caught.value.hint
    with pytest.raises(TinycError, match="no signatures"):
        load_model(onnx_file(tmp_path), signature="dec")


def test_a_build_says_which_signature_it_takes(tmp_path: Path) -> None:
    path, warnings = two_signatures(tmp_path / "m.tflite"), []
    options = Options(board="host", precision="float32")
    compile_model(path, load_board("host"), options, Progress(on_warning=warnings.append))
    assert [warning for warning in warnings if "--signature" in warning]
    chosen = replace(options, signature="enc")
    compiled = compile_model(path, load_board("host"), chosen, Progress(on_warning=warnings.append))
    assert compiled.graph.inputs == ("other x",)
    assert "--signature enc" in compiled.files["m.c"]


def test_inspect_ends_where_a_build_would(tmp_path: Path) -> None:
    path = onnx_file(tmp_path)
    assert inspect_model(path).problems
    assert [node.op for node in inspect_model(path, ("r",)).nodes] == ["fully_connected + relu"]


def test_a_batch_of_minus_one_is_open(tmp_path: Path) -> None:
    path = tmp_path / "m.onnx"
    onnx.save(build([op("Relu", "x", "y")], {"x": [-1, 10]}, ["y"]), path)
    assert load_model(path).values["x"].shape == (1, 10)


HINTS = {
    "CUSTOM ethos-u": "the file from before Vela",
    "CUSTOM TFLite_Detection_PostProcess": "--outputs 'a,b' ends it there",
    "CUSTOM PosenetDecoderOp": "--outputs 'a,b' ends it there",
}


@pytest.mark.parametrize("code", HINTS)
def test_what_to_do_about_operators_that_are_no_layers(code: str, tmp_path: Path) -> None:
    tensors = [Tensor(name, (1, 4), "f32") for name in ("x", "a", "b", "y")]
    operators = [
        Operator("RELU", ("x",), ("a",)),
        Operator("RELU6", ("x",), ("b",)),
        Operator(code, ("a", "b"), ("y",)),
    ]
    path = tmp_path / "m.tflite"
    path.write_bytes(build_model(tensors, operators, ("x",), ("y",)))
    with pytest.raises(TinycError, match="is not supported") as caught:
        load_model(path)
    assert HINTS[code] in caught.value.hint
    if "--outputs" in HINTS[code]:
        assert load_model(path, ("a", "b")).outputs == ("a", "b")


def test_qonnx_is_exported_as_qcdq(tmp_path: Path) -> None:
    quant = onnx.helper.make_node("Quant", ["x", "s", "z", "bits"], ["y"], domain="qonnx.custom_op.general")
    model = build([quant], {"x": [1, 4]}, ["y"], {"s": np.float32(1), "z": np.float32(0), "bits": np.float32(8)})
    model.opset_import.append(onnx.helper.make_opsetid("qonnx.custom_op.general", 1))
    onnx.save(model, tmp_path / "m.onnx")
    with pytest.raises(TinycError, match="not supported") as caught:
        load_model(tmp_path / "m.onnx")
    assert "QCDQ" in caught.value.hint
