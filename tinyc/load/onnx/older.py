# SPDX-License-Identifier: Apache-2.0
"""Nodes of operator sets 1 to 6, as operator set 7 writes the same. Source: ONNX's operator reference, by versions."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from types import MappingProxyType

import numpy as np
import onnx
from onnx import TensorProto, helper

from tinyc.base.errors import TinycError
from tinyc.load.onnx.file import MIN_OPSET, OnnxNode, as_node
from tinyc.load.onnx.importing import OnnxBuilder

_PLAIN = frozenset(("consumed_inputs",))  # which inputs might be overwritten
_NONE: Mapping[str, object] = MappingProxyType({})
_PAIRS = ("Add", "Sub", "Mul", "Div", "Pow", "And", "Or", "Xor", "Equal", "Greater", "Less")


def modern(builder: OnnxBuilder, node: OnnxNode) -> OnnxNode:
    """The node itself in a model of operator set 7 or later. TinycError where an older one meant something else."""
    opset = builder.file.older
    if opset >= MIN_OPSET or node.domain:
        return node
    change = CHANGES.get(node.op)
    if change is not None:
        return change(builder, node)
    try:
        attributes = onnx.defs.get_schema(node.op, opset, "").attributes.keys()
        same = onnx.defs.get_schema(node.op, MIN_OPSET, "").since_version <= opset
    except onnx.defs.SchemaError as e:
        raise TinycError(f"{node.op} is no operator of operator set {opset}", node.where) from e
    if not same and not _PLAIN & attributes:
        hint = "convert the model with onnx.version_converter to operator set 7 or later"
        raise TinycError(f"{node.op} of operator set {opset} is not read", node.where, hint)
    return _changed(node, _PLAIN)


def _changed(
    node: OnnxNode, without: frozenset[str], inputs: Sequence[str] = (), attributes: Mapping[str, object] = _NONE
) -> OnnxNode:
    """The node without some attributes, with others, and with more inputs."""
    proto = onnx.NodeProto()
    proto.CopyFrom(node.proto)
    del proto.attribute[:], proto.input[:]
    proto.input.extend((*node.inputs, *inputs))
    unchanged = [a for a in node.proto.attribute if a.name not in without and a.name not in attributes]
    proto.attribute.extend((*unchanged, *(helper.make_attribute(name, value) for name, value in attributes.items())))
    return replace(as_node(proto, node), where=node.where)


def _pair(builder: OnnxBuilder, node: OnnxNode) -> OnnxNode:
    """The second tensor joins the first from `axis` on, if broadcast says so; else both have one shape."""
    without = _PLAIN | {"broadcast", "axis"}
    if not builder.broken.isdisjoint(node.inputs):
        return node  # its importer says that it cannot be
    shapes = [_shape(builder, name) for name in node.inputs[:2]]
    if node.int_("broadcast", 0) == 0:
        if len(set(shapes)) > 1:
            raise TinycError(
                f"{node.op} of {' and '.join(str(list(n)) for n in shapes)} cannot be compiled", node.where
            )
        return _changed(node, without)
    rank, own = (len(shape) for shape in shapes)
    behind = rank - own - node.int_("axis", rank - own)
    if behind == 0:
        return _changed(node, without)
    if behind < 0 or builder.constant(node.inputs[1]) is None:
        raise TinycError(
            f"{node.op} of {list(shapes[0])} and {list(shapes[1])} along another axis cannot be compiled", node.where
        )
    name = builder.unique(f"{node.outputs[0]}:aligned")
    array = builder.constant(node.inputs[1])
    assert array is not None
    builder.fold(name, array.reshape((*array.shape, *(1,) * behind)))
    changed = _changed(node, without)
    changed.proto.input[1] = name
    return replace(as_node(changed.proto, node), where=node.where)


def _shape(builder: OnnxBuilder, name: str) -> tuple[int, ...]:
    array = builder.constant(name)
    if array is not None:
        return tuple(array.shape)
    return builder.values[name].shape if name in builder.values else ()


def _batch_norm(builder: OnnxBuilder, node: OnnxNode) -> OnnxNode:
    if node.int_("is_test", 0) != 1 or node.int_("spatial", 1) != 1:
        raise TinycError(
            "batch normalization in training mode cannot be compiled", node.where, "export the model for inference"
        )
    return _changed(node, _PLAIN | {"is_test", "spatial"})


def _reshape(builder: OnnxBuilder, node: OnnxNode) -> OnnxNode:
    if "shape" not in node.attributes:
        return node
    name = builder.unique(f"{node.outputs[0]}:shape")
    builder.fold(name, np.array(node.ints("shape"), np.int64))
    return _changed(node, _PLAIN | {"shape"}, (name,))


def _cast(builder: OnnxBuilder, node: OnnxNode) -> OnnxNode:
    """The type is a word before operator set 6."""
    if builder.file.older >= 6:
        return node
    kind = node.text("to", "")
    if kind not in TensorProto.DataType.keys():  # noqa: SIM118  it is no dict
        raise TinycError(f"a cast to '{kind}' cannot be compiled", node.where)
    return _changed(node, frozenset(), (), {"to": int(TensorProto.DataType.Value(kind))})


def _renamed(old: str, new: str, since: int) -> Callable[[OnnxBuilder, OnnxNode], OnnxNode]:
    """An attribute that got another name."""

    def change(builder: OnnxBuilder, node: OnnxNode) -> OnnxNode:
        given = node.ints(old)
        return (
            node
            if builder.file.older >= since or given is None
            else _changed(node, frozenset((old,)), (), {new: given})
        )

    return change


def _without(*names: str) -> Callable[[OnnxBuilder, OnnxNode], OnnxNode]:
    """Attributes that say nothing in inference."""
    return lambda builder, node: _changed(node, _PLAIN | set(names))


def _with_default(since: int, **numbers: float) -> Callable[[OnnxBuilder, OnnxNode], OnnxNode]:
    """Attributes that the operator had other values of, where the node has none."""

    def change(builder: OnnxBuilder, node: OnnxNode) -> OnnxNode:
        missing = {name: number for name, number in numbers.items() if name not in node.attributes}
        return _changed(node, _PLAIN, (), missing if builder.file.older < since else _NONE)

    return change


CHANGES: Mapping[str, Callable[[OnnxBuilder, OnnxNode], OnnxNode]] = MappingProxyType(
    {
        **dict.fromkeys(_PAIRS, _pair),
        **{"PRelu": _without(), "BatchNormalization": _batch_norm, "Reshape": _reshape, "Cast": _cast},
        **{"Dropout": _without("is_test"), "Gemm": _without("broadcast"), "Pad": _renamed("paddings", "pads", 2)},
        **{"Concat": _with_default(4, axis=1), "Selu": _with_default(6, alpha=1.6732, gamma=1.0507)},
        **dict.fromkeys(("GRU", "LSTM", "RNN"), _without("output_sequence")),
        **dict.fromkeys(("AveragePool", "MaxPool", "Not"), _without()),
    }
)
