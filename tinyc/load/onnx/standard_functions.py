# SPDX-License-Identifier: Apache-2.0
"""Operators that ONNX itself defines as functions of simpler ones: imported as the nodes of that definition."""

from __future__ import annotations

from typing import Any

import onnx
from onnx import AttributeProto, TypeProto

from tinyc.base.errors import TinycError
from tinyc.load.onnx.file import as_inner_node
from tinyc.load.onnx.importing import OnnxBuilder, OnnxStep, imports
from tinyc.load.onnx.inlining import renamed, tensors
from tinyc.load.onnx.running import import_node

_NAMES = (
    *("AffineGrid", "CausalConvWithState", "CenterCropPad", "LinearAttention"),
    *("NegativeLogLikelihoodLoss", "SoftmaxCrossEntropyLoss", "SwiGLU"),
)
_TYPES = {"f32": 1, "u8": 2, "s8": 3, "u16": 4, "s16": 5, "s32": 7, "u32": 12, "bool": 9}  # TensorProto's numbers


@imports(*_NAMES)
def defined_by_onnx(s: OnnxStep) -> None:
    """By ONNX's own definition in simpler operators, which tinyc has to import."""
    body = _definition(s)
    s.node.attributes.see(onnx.defs.get_schema(s.node.op, s.opset, "").attributes)
    s.looked_at.update(range(len(body.input)))
    names = _names(s, body)
    given = _attributes(s, body)
    nodes = [as_inner_node(renamed(proto, names, given), s.node) for proto in body.node]
    s.builder.read.update(name for node in nodes for name in node.reads)
    for node in nodes:
        import_node(s.builder, node)


def _definition(s: OnnxStep) -> onnx.FunctionProto:
    """The newest one that the model's operator set knows."""
    function = onnx.FunctionProto()
    try:
        schema: Any = onnx.defs.get_schema(s.node.op, s.opset, "")
        if schema.has_function:
            text = schema.get_function_with_opset_version(
                max(v for v in schema.function_opset_versions if v <= s.opset)
            )
        else:
            types = [_type(s.builder, name) for name in s.node.inputs]
            versions = schema.context_dependent_function_opset_versions
            version = max(v for v in versions if v <= s.opset)
            text = schema.get_context_dependent_function_with_opset_version(
                version, s.node.proto.SerializeToString(), types
            )
        function.ParseFromString(text)
    except Exception as e:  # the package raises its own types, ValueError and RuntimeError
        raise TinycError(f"{s.node.op}: ONNX has no definition of it for these inputs", s.where) from e
    if not function.node:
        raise TinycError(f"{s.node.op}: ONNX has no definition of it for these inputs", s.where)
    return function


def _type(builder: OnnxBuilder, name: str) -> bytes:
    """The type of an input as ONNX writes it; of a missing one nothing."""
    kind = TypeProto()
    if name in builder.values:
        value = builder.values[name]
        kind = onnx.helper.make_tensor_type_proto(_TYPES.get(value.dtype, 0), value.shape)
    elif name and (array := builder.constant(name)) is not None:
        kind = onnx.helper.make_tensor_type_proto(onnx.helper.np_dtype_to_tensor_dtype(array.dtype), array.shape)
    return bytes(kind.SerializeToString())


def _names(s: OnnxStep, body: onnx.FunctionProto) -> dict[str, str]:
    """What the definition's tensors are called in the model."""
    given = [*s.node.inputs, *("" for _ in range(len(body.input) - s.input_count))]
    names = {"": "", **dict(zip(body.input, given, strict=False))}
    names.update((inner, outer) for inner, outer in zip(body.output, s.node.outputs, strict=False) if outer)
    for name in tensors(body.node):
        if name not in names:  # unclaimed: whoever makes it claims it
            names[name] = f"{s.node.outputs[0]}:{name}"
    return names


def _attributes(s: OnnxStep, body: onnx.FunctionProto) -> dict[str, AttributeProto]:
    """What the definition's nodes may refer to: the node's own attributes, and what the operator has without them."""
    attributes = onnx.defs.get_schema(s.node.op, s.opset, "").attributes.items()
    defaults = {name: a.default_value for name, a in attributes if a.default_value.type != AttributeProto.UNDEFINED}
    return {**defaults, **{a.name: a for a in (*body.attribute_proto, *s.node.proto.attribute)}}
