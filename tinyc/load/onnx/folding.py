# SPDX-License-Identifier: Apache-2.0
"""Constant subgraphs: nodes whose inputs are all known are computed when the model is loaded.

Exporters compute shapes with Shape, Gather, Concat and the like. As every shape is known here, those
chains are constants, and so are transposed or reshaped weights.
"""

from __future__ import annotations

import math
import re
import warnings
from collections.abc import Mapping, Sequence

import numpy as np
import onnx
from onnx import TypeProto, numpy_helper
from onnx.reference import ReferenceEvaluator

from tinyc.base.errors import TinycError
from tinyc.base.limits import Constants, check_products
from tinyc.ir.graph import NUMPY_DTYPE, Array, Value
from tinyc.load.onnx.file import OnnxNode, decode
from tinyc.load.onnx.importing import OnnxBuilder

# Operators of tensors that give the same result every time; no control flow, nothing random. Without what
# onnx's own evaluator gets wrong: BatchNormalization, in opset 9 as in training; LpNormalization, whose norm of p = 1
# it takes of the numbers instead of their sizes.
# fmt: off
FOLDABLE = frozenset((
    "Abs", "Add", "And", "ArgMax", "ArgMin", "BlackmanWindow", "Cast", "CastLike", "Ceil", "Clip",
    "Concat", "ConstantOfShape", "Conv", "Cos", "CumSum", "DepthToSpace", "Div", "Dropout", "Einsum", "Elu", "Equal",
    "Erf", "Exp", "Expand", "EyeLike", "Flatten", "Floor", "Gather", "GatherElements", "GatherND", "Gemm", "Greater",
    "GreaterOrEqual", "HammingWindow", "HannWindow", "HardSigmoid", "Identity", "IsInf", "IsNaN", "LayerNormalization",
    "LeakyRelu", "Less", "LessOrEqual", "Log", "MatMul", "Max", "Mean", "MelWeightMatrix", "Min",
    "Mod", "Mul", "Neg", "Not", "OneHot", "Or", "Pad", "Pow", "Range", "Reciprocal", "ReduceL1", "ReduceL2",
    "ReduceLogSum", "ReduceLogSumExp", "ReduceMax", "ReduceMean", "ReduceMin", "ReduceProd", "ReduceSum",
    "ReduceSumSquare", "Relu", "Reshape", "Round", "ScatterElements", "ScatterND", "Shape", "Sigmoid", "Sign", "Sin",
    "Size", "Slice", "Softmax", "Softplus", "SpaceToDepth", "Split", "Sqrt", "Squeeze", "Sub", "Sum", "Tan", "Tanh",
    "Tile", "Transpose", "Trilu", "Unsqueeze", "Where", "Xor",
))
# fmt: on
_SOFTMAX_OF_ONE_AXIS = 13  # opset; before it ran over several axes, which onnx's own evaluator does not know
_FLAGS = ("keepdims", "noop_with_empty_axes", "transA", "transB", "select_last_index", "exclusive", "reverse", "upper")
_TERM = r"[A-Za-z ]*(\.{3}[A-Za-z ]*)?"
_EQUATION = re.compile(rf"{_TERM}(,{_TERM})*(->{_TERM})?")
_OF_SHAPES = frozenset(("EyeLike", "Shape", "Size"))
_MOVING = frozenset(("Flatten", "Identity", "Reshape", "Squeeze", "Transpose", "Unsqueeze"))


def fold(builder: OnnxBuilder, node: OnnxNode) -> bool:
    """Compute the node now if its inputs are constants (or only their shapes matter); whether it was."""
    if node.domain:
        return False
    if node.op == "Constant":
        builder.fold(node.outputs[0], _constant(builder, node))
        return True
    if node.op in _OF_SHAPES and node.inputs and node.inputs[0] in builder.values:
        builder.fold(node.outputs[0], _of_shape(builder, node, builder.values[node.inputs[0]]))
        return True
    computed = any(name in builder.broken or name in builder.values for name in node.inputs)
    if node.op not in FOLDABLE or computed or (node.op == "Softmax" and builder.file.opset < _SOFTMAX_OF_ONE_AXIS):
        return False
    arrays = {name: array for name in node.inputs if name and (array := builder.constant(name)) is not None}
    if len(arrays) != len(set(filter(None, node.inputs))):
        return False
    if node.op == "Range":  # ONNX's own definitions give it limits that are parts of a shape
        arrays = {name: array.reshape(()) if array.size == 1 else array for name, array in arrays.items()}
    for name, array in zip(node.outputs, evaluate(node, arrays, builder.file.opset, builder.folded), strict=False):
        builder.fold(name, array)
    _move_grid(builder, node, arrays)
    return True


def _move_grid(builder: OnnxBuilder, node: OnnxNode, arrays: dict[str, Array]) -> None:
    """Constants that are integers behind DequantizeLinear stay so where the node only moves them."""
    grid = builder.grids.get(node.inputs[0]) if node.inputs else None
    if grid is None or node.op not in _MOVING:
        return

    def move(a: Array) -> Array:
        (moved,) = evaluate(
            node, {**arrays, node.inputs[0]: np.ascontiguousarray(a)}, builder.file.opset, builder.folded
        )
        return moved

    builder.grids[node.outputs[0]] = grid.moved(move)


def _constant(builder: OnnxBuilder, node: OnnxNode) -> Array:
    allowed = {"value", "value_float", "value_floats", "value_int", "value_ints"}
    given = [name for name in node.attributes if name in allowed]
    if len(given) != 1:
        raise TinycError(f"a Constant of {', '.join(node.attributes) or 'nothing'} is not read", node.where)
    if given[0] == "value":
        return decode(node.attributes["value"].t, builder.file.folder, node.where)
    content = onnx.helper.get_attribute_value(node.attributes[given[0]])
    return np.array(content, np.float32 if "float" in given[0] else np.int64)


def _of_shape(builder: OnnxBuilder, node: OnnxNode, x: Value) -> Array:
    """What depends on the shape of a computed tensor alone."""
    if node.op == "EyeLike":
        like: dict[str, Array] = {node.inputs[0]: np.zeros(x.shape, NUMPY_DTYPE[x.dtype])}
        return evaluate(node, like, builder.file.opset, builder.folded)[0]
    if node.op == "Size":
        return np.array(x.elements, np.int64)
    return np.array(x.shape[node.int_("start", 0) : node.int_("end", len(x.shape))], np.int64)


def evaluate(node: OnnxNode, arrays: dict[str, Array], opset: int, folded: Constants) -> list[Array]:
    """The outputs of a node of constants. TinycError if it cannot be computed or gives something huge."""
    inputs = [onnx.helper.make_tensor_value_info(n, _type(a), a.shape) for n, a in arrays.items()]
    outputs = [onnx.ValueInfoProto(name=name) for name in node.outputs if name]
    shapes = _check_size(node, arrays, opset, folded)
    if node.op == "Unsqueeze":  # onnx's own evaluator puts axes that do not ascend in other places before opset 13
        return [arrays[node.inputs[0]].reshape(shapes[node.outputs[0]])]
    graph = onnx.helper.make_graph([node.proto], "constants", inputs, outputs)
    model = onnx.helper.make_model(graph, opset_imports=[onnx.helper.make_opsetid("", opset)])
    try:
        with np.errstate(all="ignore"), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            results = ReferenceEvaluator(model).run(None, arrays)
    except Exception as e:  # whatever numpy makes of nonsense: the model's fault, not ours
        raise TinycError(f"its inputs are constants, but it cannot be computed: {_short(e)}", node.where) from e
    if not all(isinstance(r, np.ndarray | np.generic) for r in results):
        raise TinycError("its inputs are constants, but its result is no tensor", node.where)
    return [np.asarray(r) for r in results]


def _check_size(
    node: OnnxNode, arrays: dict[str, Array], opset: int, folded: Constants
) -> Mapping[str, tuple[int, ...]]:
    """Infer the shapes of the results, and what they take to compute, before anything of that size is allocated."""
    _check_parts(node)
    _check_flags(node)
    _check_equation(node)
    types = {name: onnx.helper.make_tensor_type_proto(_type(a), a.shape) for name, a in arrays.items()}
    data = {name: numpy_helper.from_array(a, name) for name, a in arrays.items() if a.size <= 64}
    try:
        schema = onnx.defs.get_schema(node.op, opset, "")
        node.attributes.see(schema.attributes)
        opsets = [onnx.helper.make_opsetid("", opset)]
        inferred = onnx.shape_inference.infer_node_outputs(schema, node.proto, types, data, opset_imports=opsets)
    except Exception as e:  # the package raises its own types, ValueError and RuntimeError
        raise TinycError(f"its inputs do not fit the operator: {_short(e)}", node.where) from e
    shapes = {}
    for name, type_ in inferred.items():
        shape = _static_shape(type_)
        if shape is None:
            raise TinycError(f"constant '{name}' would have an unknown size", node.where)
        folded.take(name, shape, node.where)
        check_products(name, _products(node, [array.shape for array in arrays.values()], shape), node.where)
        shapes[name] = shape
    return shapes


def _check_parts(node: OnnxNode) -> None:
    """As many outputs as Split says: at fewer the package's inference of shapes ends the process."""
    parts = node.int_("num_outputs", len(node.outputs)) if node.op == "Split" else len(node.outputs)
    if parts != len(node.outputs):
        raise TinycError(f"num_outputs is {parts}, and there are {len(node.outputs)} outputs", node.where)


def _check_flags(node: OnnxNode) -> None:
    """As where the inputs are computed; the package takes any number for yes."""
    for name in _FLAGS:
        if name in node.attributes:
            node.flag(name, False)


def _check_equation(node: OnnxNode) -> None:
    """Only what an Einsum is written with: of other characters the package's inference of shapes makes no end."""
    text = node.text("equation", "") if node.op == "Einsum" else ""
    if not _EQUATION.fullmatch(text):
        raise TinycError(f"{text[:40]!r} is no equation of Einsum", node.where)


def _static_shape(type_: TypeProto) -> tuple[int, ...] | None:
    dims = type_.tensor_type.shape.dim
    if not type_.tensor_type.HasField("shape") or any(d.WhichOneof("value") != "dim_value" for d in dims):
        return None
    return tuple(max(d.dim_value, 0) for d in dims)


def _products(node: OnnxNode, inputs: Sequence[tuple[int, ...]], output: tuple[int, ...]) -> int:
    """At most so many multiplications, of the operators that take more than a few for an element."""
    if node.op in ("MatMul", "Gemm"):
        return math.prod(output) * max(inputs[0], default=1)
    if node.op == "Conv":
        return math.prod(output) * math.prod(inputs[-1][1:] if len(inputs) < 2 else inputs[1][1:])
    if node.op == "Einsum":
        return math.prod(math.prod(shape) for shape in inputs)
    return 0


def _type(array: Array) -> int:
    return int(onnx.helper.np_dtype_to_tensor_dtype(array.dtype))


def _short(error: Exception) -> str:
    return " ".join(str(error).split())[:120] or type(error).__name__
