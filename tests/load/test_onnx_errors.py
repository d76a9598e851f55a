# SPDX-License-Identifier: Apache-2.0
"""What is said about ONNX files that cannot be taken: one TinycError that names the place and what to do."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from tests.load.onnx_models import build, load, one, op, rand
from tinyc.base.errors import TinycError
from tinyc.load import load_model, unsupported
from tinyc.load.onnx import unsupported_onnx

I64 = np.int64


def error(model: onnx.ModelProto, folder: Path) -> TinycError:
    with pytest.raises(TinycError) as caught:
        load(model, folder)
    assert "model.onnx" in str(caught.value)
    return caught.value


def dense() -> onnx.ModelProto:
    return build([op("MatMul", "x w", "y")], {"x": [1, 5]}, ["y"], {"w": rand(1, 5, 3)})


CONTENTS: dict[str, bytes] = {
    "random": np.random.default_rng(1).bytes(1000),
    "text": b"this is not a model\n" * 40,
    "zeros": bytes(500),
    "truncated": dense().SerializeToString()[:-40],
    "one byte": b"\x08",
    "no graph": onnx.ModelProto(ir_version=8, opset_import=[helper.make_opsetid("", 17)]).SerializeToString(),
}


@pytest.mark.parametrize("content", CONTENTS.values(), ids=CONTENTS.keys())
def test_no_model_at_all(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "model.onnx"
    path.write_bytes(content)
    with pytest.raises(TinycError) as caught:
        load_model(path)
    assert "model.onnx" in str(caught.value)
    assert caught.value.hint


def test_empty_file(tmp_path: Path) -> None:
    path = tmp_path / "model.onnx"
    path.write_bytes(b"")
    with pytest.raises(TinycError, match="empty"):
        load_model(path)


def test_all_unsupported_operators_are_listed(tmp_path: Path) -> None:
    nodes = [
        op("Bernoulli", "x", "a"),
        op("Relu", "a", "b"),
        op("Det", "b", "c"),
        op("Bernoulli", "x", "d"),
        op("Add", "c d", "y"),
    ]
    problem = error(build(nodes, {"x": [1, 5]}, ["y"]), tmp_path)
    assert "3 operators cannot be imported" in problem.message
    assert "nodes 0, 3 (Bernoulli): operator Bernoulli is not supported" in problem.message
    assert "node 2 'Det_c' (Det): operator Det is not supported" in problem.message
    problems = unsupported(tmp_path / "model.onnx")
    assert [p.where.node for p in problems if p.where] == [0, 2, 3]


def test_one_unsupported_operator_is_named_with_its_place(tmp_path: Path) -> None:
    problem = error(build([op("Bernoulli", "x", "y")], {"x": [1, 5]}, ["y"]), tmp_path)
    assert str(problem).startswith(
        "error: operator Bernoulli is not supported\n  --> model.onnx: node 0 'Bernoulli_y' (Bernoulli)\n  hint: "
    )


def test_a_supported_model_has_no_problems(tmp_path: Path) -> None:
    load(dense(), tmp_path)
    assert unsupported_onnx(tmp_path / "model.onnx") == []


def test_control_flow(tmp_path: Path) -> None:
    branch = helper.make_graph(
        [helper.make_node("Identity", ["x"], ["z"])], "then", [], [helper.make_empty_tensor_value_info("z")]
    )
    node = helper.make_node("If", ["c"], ["y"], then_branch=branch, else_branch=branch)
    problem = error(build([node], {"x": [1, 5], "c": [1]}, ["y"]), tmp_path)
    assert "If" in problem.message
    assert "control flow" in problem.hint


def test_quantized_models(tmp_path: Path) -> None:
    node = helper.make_node("DynamicQuantizeMatMul", ["x", "w", "s"], ["y"], domain="com.microsoft")
    held = {"w": np.ones((5, 2), np.uint8), "s": np.ones(1, np.float32)}
    problem = error(build([node], {"x": [1, 5]}, ["y"], held), tmp_path)
    assert "DynamicQuantizeMatMul" in problem.message
    assert "static quantization" in problem.hint


def test_foreign_domains(tmp_path: Path) -> None:
    node = helper.make_node("GridSample", ["x"], ["y"], domain="com.microsoft")
    model = build([node], {"x": [1, 5]}, ["y"])
    assert "com.microsoft.GridSample" in error(model, tmp_path).message
    model.opset_import[0].domain = "com.microsoft"
    assert "no standard ONNX operators" in error(model, tmp_path).message


@pytest.mark.parametrize("opset", [0, 10_000, -3])
def test_operator_sets_out_of_range(tmp_path: Path, opset: int) -> None:
    problem = error(build([op("Relu", "x", "y")], {"x": [1, 5]}, ["y"], opset=opset), tmp_path)
    assert f"operator set {opset}" in problem.message
    assert "export" in problem.hint


def test_open_dimensions(tmp_path: Path) -> None:
    problem = error(build([op("Relu", "x", "y")], {"x": ["N", 3, "width"]}, ["y"]), tmp_path)
    assert "variable size in dimension 2 ('width')" in problem.message
    assert "fixed" in problem.hint


def test_inputs_that_are_no_float_tensors(tmp_path: Path) -> None:
    for elem_type, name in ((TensorProto.COMPLEX64, "COMPLEX64"), (TensorProto.STRING, "STRING"), (77, "unknown")):
        model = build([op("Identity", "x", "y")], {"x": [1, 5]}, ["y"], elem_type=elem_type)
        assert name in error(model, tmp_path).message
    model = build([op("Identity", "x", "y")], {}, ["y"])
    model.graph.input.append(helper.make_tensor_sequence_value_info("x", TensorProto.FLOAT, [1]))
    assert "not a tensor" in error(model, tmp_path).message
    model = build([op("Relu", "x", "y")], {}, ["y"])
    model.graph.input.append(helper.make_tensor_value_info("x", TensorProto.FLOAT, None))
    assert "no shape" in error(model, tmp_path).message


@pytest.mark.parametrize("shape", [[0, 5], [1, -4], [1 << 40, 1 << 40], [1, 1 << 62], [1] * 40])
def test_impossible_input_shapes(tmp_path: Path, shape: list[int]) -> None:
    error(build([op("Relu", "x", "y")], {"x": shape}, ["y"]), tmp_path)


def with_weights(change: Callable[[TensorProto], Any]) -> onnx.ModelProto:
    model = dense()
    change(model.graph.initializer[0])
    return model


def _dims(*dims: int) -> Callable[[TensorProto], None]:
    def change(t: TensorProto) -> None:
        del t.dims[:]
        t.dims.extend(dims)

    return change


WEIGHTS: list[tuple[Callable[[TensorProto], Any], str]] = [
    (lambda t: setattr(t, "raw_data", t.raw_data[:-1]), "needs 15 elements, the file holds 14"),
    (lambda t: setattr(t, "raw_data", t.raw_data + b"1234"), "needs 15 elements, the file holds 16"),
    (lambda t: t.ClearField("raw_data"), "needs 15 elements, the file holds 0"),
    (lambda t: setattr(t, "data_type", TensorProto.STRING), "STRING"),
    (lambda t: setattr(t, "data_type", 0), "UNDEFINED"),
    (lambda t: setattr(t, "data_type", 4711), "number 4711"),
    (lambda t: setattr(t, "data_type", TensorProto.INT32), "int32"),
    (lambda t: setattr(t, "raw_data", np.full((5, 3), np.nan, np.float32).tobytes()), "NaN or infinity"),
    (lambda t: setattr(t, "raw_data", np.full((5, 3), np.inf, np.float32).tobytes()), "NaN or infinity"),
    (_dims(1 << 40, 1 << 40), "beyond tinyc's limit"),
    (_dims(-5, 3), "impossible shape"),
    (_dims(*[1] * 30), "impossible shape"),
    (_dims(0, 3), "needs 0 elements"),
    (_dims(3, 5), "do not fit input"),
]


@pytest.mark.parametrize(("change", "message"), WEIGHTS)
def test_bad_weights(tmp_path: Path, change: Callable[[TensorProto], Any], message: str) -> None:
    assert message in error(with_weights(change), tmp_path).message


@pytest.mark.parametrize(
    ("entries", "message"),
    [
        ({"location": "missing.bin"}, "is missing"),
        ({"location": "../outside.bin"}, "outside the model's folder"),
        ({"location": "/etc/hostname"}, "outside the model's folder"),
        ({"location": "link.bin"}, "outside the model's folder"),
        ({"location": "."}, "is missing"),
        ({}, "no file name"),
        ({"location": "short.bin"}, "ends before"),
        ({"location": "data.bin", "offset": "-4"}, "begin at byte -4"),
        ({"location": "data.bin", "offset": "99999999"}, "ends before"),
        ({"location": "data.bin", "length": "4"}, "its entry says 4"),
        ({"location": "data.bin", "offset": "many"}, "bad external data entry"),
        ({"location": "a\0b"}, "control characters"),
        ({"location": "circle.bin"}, "has no place"),
        ({"location": "x" * 5000}, "has no place"),
        ({"location": "pipe.bin"}, "is missing"),
        ({"location": "folder/../../outside.bin"}, "outside the model's folder"),
        ({"location": "device.bin"}, "outside the model's folder"),
        ({"location": "data.bin", "offset": str(1 << 70)}, "bad external data entry"),
    ],
)
def test_bad_external_data(tmp_path: Path, entries: dict[str, str], message: str) -> None:
    folder = tmp_path / "models"
    folder.mkdir()
    (tmp_path / "outside.bin").write_bytes(bytes(60))
    (folder / "data.bin").write_bytes(bytes(60))
    (folder / "short.bin").write_bytes(bytes(59))
    (folder / "link.bin").symlink_to(tmp_path / "outside.bin")
    (folder / "circle.bin").symlink_to("circle.bin")
    (folder / "device.bin").symlink_to("/dev/zero")
    os.mkfifo(folder / "pipe.bin")

    def change(t: TensorProto) -> None:
        t.ClearField("raw_data")
        t.data_location = TensorProto.EXTERNAL
        for key, value in entries.items():
            t.external_data.add(key=key, value=value)

    assert message in error(with_weights(change), folder).message


GRAPHS: list[tuple[list[Any], list[str], str]] = [
    ([op("Relu", "m", "y"), op("Relu", "y", "m")], ["y"], "cycle"),
    ([op("Add", "x y", "y")], ["y"], "cycle"),
    ([op("Relu", "nowhere", "y")], ["y"], "reads 'nowhere'"),
    ([op("Relu", "x", "y"), op("Tanh", "x", "y")], ["y"], "'y' is made twice"),
    ([op("Relu", "x", "x"), op("Relu", "x", "y")], ["y"], "'x' is made twice"),
    ([op("Relu", "x", "y")], ["z"], "'z' is not computed"),
    ([op("Relu", "x", "y")], ["x"], "'x' is not computed"),
    ([op("Relu", "x", "y")], ["y", "y"], "two outputs are called 'y'"),
    ([op("Relu", "x", "y")], [], "no outputs"),
    ([op("Dropout", "i", "y mask")], ["y", "mask"], "only the first output"),
]


@pytest.mark.parametrize(("nodes", "outputs", "message"), GRAPHS)
def test_bad_graphs(tmp_path: Path, nodes: list[Any], outputs: list[str], message: str) -> None:
    model = build(nodes, {"x": [1, 5], "i": [1, 1, 5, 5]}, outputs, {"w": rand(1, 2)})
    assert message in error(model, tmp_path).message


def test_duplicate_and_nameless_tensors(tmp_path: Path) -> None:
    model = dense()
    model.graph.initializer.append(model.graph.initializer[0])
    assert "two initializers are called 'w'" in error(model, tmp_path).message
    model = dense()
    model.graph.input.append(model.graph.input[0])
    assert "two inputs are called 'x'" in error(model, tmp_path).message
    model = dense()
    model.graph.initializer[0].name = ""
    assert "no name" in error(model, tmp_path).message
    model = dense()
    del model.graph.input[:]
    assert "no inputs" in error(model, tmp_path).message


def test_sparse_initializers(tmp_path: Path) -> None:
    model = dense()
    model.graph.sparse_initializer.add()
    assert "sparse" in error(model, tmp_path).message


IMAGE = (1, 3, 6, 5)
NODES: list[tuple[onnx.ModelProto, str]] = [
    (one("Conv", (65, 3, 6, 5), [rand(1, 4, 3, 3, 3)]), "expected [1, C, H, W]"),
    (one("Conv", (1, 3, 6, 5, 4, 2), [rand(1, 4, 3, 3, 3, 3, 1)]), "1-D, 2-D and 3-D"),
    (one("Conv", (2, 3, 6, 5, 4), [rand(1, 4, 3, 3, 3, 3)]), "expected [1, C, D, H, W]"),
    (one("Conv", (1, 3, 6, 5, 4), [rand(1, 4, 3, 7, 3, 3)]), "does not fit the padded"),
    (one("Conv", IMAGE, [rand(1, 4, 2, 3, 3)]), "do not fit 3 channels"),
    (one("Conv", IMAGE, [rand(1, 4, 3, 3, 3)], group=0), "do not fit 3 channels"),
    (one("Conv", IMAGE, [rand(1, 4, 3, 9, 9)]), "does not fit the padded"),
    (one("Conv", IMAGE, [rand(1, 4, 3, 3, 3), rand(2, 3)]), "bias [3]"),
    (one("Conv", IMAGE, [rand(1, 4, 3, 3, 3)], strides=[0, 1]), "must be positive"),
    (one("Conv", IMAGE, [rand(1, 4, 3, 3, 3)], strides=[1, 1, 1]), "strides [1, 1, 1]"),
    (one("Conv", IMAGE, [rand(1, 4, 3, 3, 3)], pads=[-1, 0, 0, 0]), "negative padding"),
    (one("Conv", IMAGE, [rand(1, 4, 3, 3, 3)], pads=[1 << 40] * 4), "shape"),
    (one("Conv", IMAGE, [rand(1, 4, 3, 3, 3)], auto_pad="SIDEWAYS"), "'SIDEWAYS'"),
    (one("Conv", IMAGE, [rand(1, 4, 3, 3, 3)], kernel_shape=[5, 5]), "kernel_shape [5, 5]"),
    (one("Conv", IMAGE, [rand(1, 4, 3, 3, 3)], strides=1.5), "not of type INTS"),
    (one("Conv", IMAGE, [rand(1, 4, 3, 3, 3)], strides=[1] * 10_000), "10000 numbers"),
    (one("Conv", IMAGE), "input 1 is missing"),
    (build([op("Conv", "x k", "y")], {"x": IMAGE, "k": [4, 3, 3, 3]}, ["y"]), "must be constants"),
    (build([op("MatMul", "x k", "y")], {"x": [1, 5], "k": [4, 3]}, ["y"]), "do not fit"),
    (one("MatMul", (2, 1, 5), [rand(1, 2, 4, 3)]), "do not fit"),
    (one("Gemm", (1, 5, 1), [rand(1, 5, 3)]), "must be matrices"),
    (one("Gemm", (1, 5), [rand(1, 5, 3), rand(2, 4)]), "does not fit 3 outputs"),
    (one("MaxPool", IMAGE), "kernel_shape"),
    (one("MaxPool", IMAGE, kernel_shape=[9, 9]), "does not fit"),
    (one("AveragePool", IMAGE, kernel_shape=[2, 2], pads=[3, 3, 3, 3]), "misses the image"),
    (
        one("AveragePool", IMAGE, kernel_shape=[4, 4], strides=[3, 3], pads=[1] * 4, ceil_mode=1, count_include_pad=1),
        "ceil_mode",
    ),
    (one("ReduceMean", IMAGE, axes=[7]), "axis 7"),
    (one("Softmax", IMAGE, axis=9), "axis 9"),
    (one("Div", IMAGE, [np.float32(0)]), "division by zero"),
    (one("Div", IMAGE, [np.float32(1e-42)]), "NaN or infinity"),
    (one("Add", IMAGE, [rand(1, 7)]), "do not broadcast"),
    (one("Clip", IMAGE, [np.float32(np.nan)]), "NaN"),
    (one("Clip", IMAGE, [np.float32(np.inf), np.float32(np.inf)]), "no finite value"),
    (build([op("Clip", "x m", "y")], {"x": [1, 5], "m": []}, ["y"]), "constant single number"),
    (one("Einsum", [1, 5], [rand(1, 5)], equation="ab,ab->ab..."), "Einsum"),
    (one("LpNormalization", [1, 5], p=3), "p = 3"),
    (one("GroupNormalization", [1, 5, 3], [rand(1, 5), rand(2, 5)], 21, num_groups=2), "2 groups"),
    (one("Cast", IMAGE, to=TensorProto.UINT32), "cast"),
    (one("BatchNormalization", IMAGE, [rand(i, 3) for i in range(3)] + [np.full(3, -1, np.float32)]), "variance"),
    (one("BatchNormalization", IMAGE, [rand(i, 4) for i in range(4)]), "do not fit input"),
    (one("BatchNormalization", IMAGE, [np.abs(rand(i, 3)) for i in range(4)], training_mode=1), "training mode"),
    (one("Reshape", IMAGE, [np.array([7, 13], I64)]), "cannot reshape"),
    (one("Reshape", IMAGE, [np.array([-1, -1], I64)]), "cannot reshape"),
    (one("Reshape", IMAGE, [np.array([-5, 18], I64)]), "cannot reshape"),
    (build([op("Reshape", "x s", "y")], {"x": [1, 5], "s": [2]}, ["y"]), "must be a constant"),
    (one("Squeeze", IMAGE, [np.array([1], I64)]), "size is not 1"),
    (one("Unsqueeze", IMAGE, [np.array([99], I64)]), "axis 99"),
    (one("Transpose", IMAGE, perm=[0, 0, 1, 2]), "permutation"),
    (one("Flatten", IMAGE, axis=77), "axis 77"),
    (one("Concat", IMAGE, [rand(1, 1, 3, 9, 9)], axis=1), "does not fit"),
    (one("Pad", IMAGE, [np.zeros(8, I64)], mode="mirror"), "'mirror'"),
    (one("Pad", IMAGE, [np.array([0, 0, -9, 0, 0, 0, 0, 0], I64)]), "leave nothing"),
    (one("Pad", IMAGE, [np.zeros(3, I64)]), "sizes must fit"),
    (one("Pad", IMAGE, [np.full(8, 1 << 40, I64)]), "shape"),
    (one("Expand", IMAGE, [np.array([1, 4, 6, 5], I64)]), "expanded"),
    (one("HardSigmoid", IMAGE, alpha=float("nan")), "NaN"),
    (one("HardSigmoid", IMAGE, alpha=float("inf")), "NaN or infinity"),
]


@pytest.mark.parametrize(("model", "message"), NODES)
def test_nodes_that_cannot_be_imported(tmp_path: Path, model: onnx.ModelProto, message: str) -> None:
    problem = error(model, tmp_path)
    assert message in problem.message
    assert "node 0" in str(problem) or "'" in problem.message


CONSTANTS: list[tuple[list[Any], dict[str, Any], str]] = [
    ([op("ConstantOfShape", "s", "c")], {"s": np.array([1 << 30, 1 << 30], I64)}, "would have"),
    ([op("Expand", "one s", "c")], {"one": np.float32(1), "s": np.array([1 << 30, 1 << 20], I64)}, "would have"),
    ([op("Tile", "v s", "c")], {"v": rand(1, 5), "s": np.array([1 << 40], I64)}, "would have"),
    ([op("Add", "v w", "c")], {"v": rand(1, 1 << 15, 1), "w": rand(2, 1, 1 << 15)}, "would have"),
    (
        [op("Range", "a b d", "r"), op("Cast", "r", "c", to=1)],
        {"a": np.array(0, I64), "b": np.array(1 << 50, I64), "d": np.array(1, I64)},
        "would have",
    ),
    ([op("Gather", "v i", "c")], {"v": rand(1, 5), "i": np.array([99], I64)}, "cannot be computed"),
    ([op("Reshape", "v s", "c")], {"v": rand(1, 5), "s": np.array([7], I64)}, "cannot be computed"),
    ([helper.make_node("Constant", [], ["c"])], {}, "a Constant of nothing"),
    ([helper.make_node("Constant", [], ["c"], value_string="hello")], {}, "value_string"),
]


@pytest.mark.parametrize(("nodes", "constants", "message"), CONSTANTS)
def test_constants_that_cannot_be_computed(
    tmp_path: Path, nodes: list[Any], constants: dict[str, Any], message: str
) -> None:
    """In particular those that would fill the memory."""
    model = build([*nodes, op("Add", "x c", "y")], {"x": [1, 5]}, ["y"], constants)
    assert message in error(model, tmp_path).message


def test_results_that_are_not_finite(tmp_path: Path) -> None:
    """A constant subgraph that gives infinity is noticed where it is used."""
    model = build(
        [op("Div", "a b", "c"), op("Add", "x c", "y")],
        {"x": [1, 5]},
        ["y"],
        {"a": rand(1, 5), "b": np.zeros(5, np.float32)},
    )
    assert "NaN or infinity" in error(model, tmp_path).message


def test_nesting_beyond_what_protobuf_reads(tmp_path: Path) -> None:
    content = b""
    for _ in range(300):  # a node with an attribute with a graph with a node ...
        for field in (b"\x0a", b"\x2a", b"\x32"):
            content = field + bytes([len(content) % 128 | 128, len(content) // 128]) + content
    (tmp_path / "model.onnx").write_bytes(b"\x3a" + bytes([len(content) % 128 | 128, len(content) // 128]) + content)
    with pytest.raises(TinycError, match="not an ONNX model"):
        load_model(tmp_path / "model.onnx")


def test_names_with_special_characters_survive(tmp_path: Path) -> None:
    model = build([op("Relu", "x", "y")], {"x": [1, 5]}, ["y"])
    model.graph.node[0].name = "a'b\"c*/\\d é"
    assert load(model, tmp_path).nodes[0].origin[0].name == "a'b\"c*/\\d é"


def test_string_tensors_that_nobody_uses_do_no_harm(tmp_path: Path) -> None:
    model = dense()
    model.graph.initializer.append(numpy_helper.from_array(np.array(["a", "b"], object), "labels"))
    assert load(model, tmp_path).inputs == ("x",)


def test_a_declared_output_shape_that_disagrees_is_said(tmp_path: Path) -> None:
    model = build([op("Relu", "x", "y")], {"x": ["batch", 3]}, ["y"])
    for shape in ([1, 3], ["batch", 3], [None, None], []):  # an empty one declares nothing
        model.graph.output[0].CopyFrom(helper.make_tensor_value_info("y", TensorProto.FLOAT, shape))
        load(model, tmp_path)
    for shape in ([1, 4], [2, 3], [1, 3, 1]):
        model.graph.output[0].CopyFrom(helper.make_tensor_value_info("y", TensorProto.FLOAT, shape))
        with pytest.raises(TinycError, match=r"declares output 'y' as .*, but its nodes make \[1, 3\]"):
            load(model, tmp_path)


def test_scikit_learns_exporter_may_declare_other_columns_but_no_other_batch(tmp_path: Path) -> None:
    model = build([op("Binarizer", "x", "y", domain="ai.onnx.ml")], {"x": ["batch", 3]}, ["y"])
    model.opset_import.append(helper.make_opsetid("ai.onnx.ml", 3))
    for shape in (["batch"], ["batch", 1]):
        model.graph.output[0].CopyFrom(helper.make_tensor_value_info("y", TensorProto.FLOAT, shape))
        load(model, tmp_path)
    model.graph.output[0].CopyFrom(helper.make_tensor_value_info("y", TensorProto.FLOAT, [6, 3]))
    with pytest.raises(TinycError, match=r"declares output 'y' as \[6, 3\], but its nodes make \[1, 3\]"):
        load(model, tmp_path)


@pytest.mark.parametrize("parts", [1, 3, 0])
def test_split_of_a_constant_into_other_than_its_outputs(tmp_path: Path, parts: int) -> None:
    """With num_outputs below the outputs, ONNX's inference of shapes would end the process by an assertion."""
    nodes = [op("Split", "k", "a b", axis=0, num_outputs=parts), op("Add", "x a", "s"), op("Add", "s b", "y")]
    with pytest.raises(TinycError, match=f"num_outputs is {parts}, and there are 2 outputs"):
        load(build(nodes, {"x": [2]}, ["y"], {"k": rand(1, 4)}, opset=18), tmp_path)


@pytest.mark.parametrize(
    "equation", [b"a.6,b", b"...a...,b", b"a->b->c", b"\x110\xf2 \x01\xbc\x91\x17=A\xd7\xd4l\xe9\xf44.6\x82"]
)
def test_nonsense_as_einsum_of_constants(tmp_path: Path, equation: bytes) -> None:
    """ONNX's inference of shapes would never come back."""
    nodes = [op("Einsum", "a b", "t", equation="x"), op("Add", "x t", "y")]
    nodes[0].attribute[0].s = equation
    with pytest.raises(TinycError, match="is no equation of Einsum"):
        load(build(nodes, {"x": [1, 3]}, ["y"], {"a": rand(1, 3), "b": rand(3)}, opset=15), tmp_path)


@pytest.mark.parametrize("shape", [(1, 4), (4, 4), (2, 1)])
def test_products_that_need_another_width(tmp_path: Path, shape: tuple[int, int]) -> None:
    with pytest.raises(TinycError, match="weights for 2 channels do not fit input"):
        load(build([op("Gemm", "x w", "y", transB=1)], {"x": list(shape)}, ["y"], {"w": rand(1, 4, 2)}), tmp_path)
    with pytest.raises(TinycError, match="weights for 2 channels do not fit input"):
        load(build([op("MatMul", "x w", "y")], {"x": list(shape)}, ["y"], {"w": rand(1, 2, 4)}), tmp_path)


@pytest.mark.parametrize("name", ["ReduceMax", "ReduceMean", "ReduceSum", "ArgMax", "ReduceL2"])
def test_keepdims_that_is_neither_0_nor_1(tmp_path: Path, name: str) -> None:
    with pytest.raises(TinycError, match="keepdims is 7, neither 0 nor 1"):
        load(one(name, [1, 7], keepdims=7, opset=11), tmp_path)


def test_keepdims_that_is_neither_0_nor_1_of_a_constant(tmp_path: Path) -> None:
    nodes = [op("ReduceMax", "k", "t", axes=[1], keepdims=3), op("Add", "x t", "y")]
    with pytest.raises(TinycError, match="keepdims is 3, neither 0 nor 1"):
        load(build(nodes, {"x": [2]}, ["y"], {"k": rand(1, 2, 3)}, opset=11), tmp_path)


@pytest.mark.parametrize(
    ("name", "attribute"),
    [("ReduceSum", "noop_with_empty_axes"), ("MaxPool", "ceil_mode"), ("AveragePool", "count_include_pad")],
)
def test_flags_that_are_neither_0_nor_1(tmp_path: Path, name: str, attribute: str) -> None:
    window = {"kernel_shape": [2, 2]} if "Pool" in name else {}
    with pytest.raises(TinycError, match=f"{attribute} is -1, neither 0 nor 1"):
        load(one(name, [1, 2, 5, 5], **{attribute: -1}, **window), tmp_path)


ODD_CONSTANTS = {
    "one integer": np.array([1], I64),
    "scalar": np.array(1, I64),
    "negative": np.array([-3], I64),
    "matrix": np.array([[1, 2], [0, 1]], I64),
    "real": np.array([1], np.float32),
}


@pytest.mark.parametrize("rank", [0, 1, 2])
def test_every_operator_of_onnx_takes_or_refuses_odd_inputs(rank: int, tmp_path: Path) -> None:
    """One input of this rank, alone or before constants: no other exception than TinycError."""
    outputs = [helper.make_tensor_value_info("y0", TensorProto.FLOAT, None)]
    x = helper.make_tensor_value_info("x0", TensorProto.FLOAT, [1] * rank)
    schemas = [schema for schema in onnx.defs.get_all_schemas() if not schema.domain and schema.max_input]
    for schema in schemas:
        names_of_outputs = [f"y{k}" for k in range(max(1, min(schema.min_output, 3)))]
        for constants in range(min(schema.max_input, 4)):
            for constant in list(ODD_CONSTANTS.values())[: None if constants else 1]:
                names = [f"x{k}" for k in range(constants + 1)]
                held = [numpy_helper.from_array(constant, name) for name in names[1:]]
                node = helper.make_node(schema.name, names, names_of_outputs)
                graph = helper.make_graph([node], "g", [x], outputs, held)
                model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)], ir_version=9)
                (tmp_path / "m.onnx").write_bytes(model.SerializeToString())
                with contextlib.suppress(TinycError):
                    load_model(tmp_path / "m.onnx")
