# SPDX-License-Identifier: Apache-2.0
"""Nodes of a graph inside a node, of a function or of a loop's body, under names of the model's."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence

import onnx
from onnx import AttributeProto

from tinyc.base.errors import TinycError
from tinyc.load.onnx.file import as_inner_node, decode
from tinyc.load.onnx.importing import OnnxBuilder, OnnxStep, written_twice
from tinyc.load.onnx.running import import_node
from tinyc.load.problems import FollowUpError
from tinyc.ops.reshape import Reshape


def inlined(s: OnnxStep, body: onnx.GraphProto, tag: str, given: Sequence[str]) -> list[str]:
    """Import the body's nodes with the tensors `given` as its inputs; the names of its outputs. tag: tells this copy of
    the body from others. What the body reads and does not make is the model's."""
    if len(body.input) != len(given):
        raise TinycError(f"a body with {len(body.input)} inputs for {len(given)} does not fit", s.where)
    builder = s.builder
    inner = {*(t.name for t in body.initializer), *(name for node in body.node for name in node.output)}
    deep = {name for name in tensors(body.node) if not _is_visible(builder, name)}
    names = {name: name for name in tensors(body.node)}
    names.update((name, f"{s.node.outputs[0]}:{tag}:{name}") for name in inner | deep if name)
    names.update(zip((port.name for port in body.input), given, strict=True))
    for name in sorted(inner - {""}):
        if _is_visible(builder, name):  # what a body sees keeps its name; a tensor made later may have one of a body's
            raise written_twice(name, s.where)
        builder.claim(names[name], s.where)
    for tensor in body.initializer:
        builder.fold(names[tensor.name], decode(tensor, builder.file.folder, s.where))
    nodes = [as_inner_node(renamed(proto, names, {}), s.node) for proto in body.node]
    outputs = [names.get(port.name, port.name) for port in body.output]
    builder.read.update(outputs, *(node.reads for node in nodes))
    for node in nodes:
        for name in filter(None, node.inputs):
            if not _is_visible(builder, name):
                raise TinycError(f"a node of the body reads '{name}' before anything computes it", s.where)
        import_node(builder, node)
    return outputs


def _is_visible(builder: OnnxBuilder, name: str) -> bool:
    return name in builder.values or name in builder.broken or builder.constant(name) is not None


def hand_out(s: OnnxStep, tensor: str, output: int) -> None:
    """A tensor of a body as an output of the node."""
    if tensor in s.builder.broken:
        raise FollowUpError
    array = s.builder.constant(tensor)
    if array is not None:
        s.builder.fold(s.node.outputs[output], array)
    elif tensor in s.builder.values:
        x = s.builder.values[tensor]
        s.emit([x], Reshape(x.shape), output=output)
    else:
        raise TinycError(f"the body does not compute its output '{tensor}'", s.where)


def tensors(nodes: Iterable[onnx.NodeProto]) -> Iterator[str]:
    """All that the nodes read and make, those of branches too."""
    for proto in nodes:
        yield from (*proto.input, *proto.output)
        for graph in (a.g for a in proto.attribute if a.type == AttributeProto.GRAPH):
            yield from (tensor.name for tensor in (*graph.input, *graph.output, *graph.initializer))
            yield from tensors(graph.node)


def renamed(proto: onnx.NodeProto, names: Mapping[str, str], given: Mapping[str, AttributeProto]) -> onnx.NodeProto:
    """A node of the definition with the model's names, and the attributes that the node gives it."""
    copied = onnx.NodeProto()
    copied.CopyFrom(proto)
    del copied.input[:], copied.output[:], copied.attribute[:]
    copied.input.extend(names[name] for name in proto.input)
    copied.output.extend(names[name] for name in proto.output)
    for attribute in proto.attribute:
        source = given.get(attribute.ref_attr_name) if attribute.ref_attr_name else attribute
        if source is not None:
            attribute_copy = copied.attribute.add()
            attribute_copy.CopyFrom(source)
            attribute_copy.name = attribute.name
            if source is attribute and attribute.type == AttributeProto.GRAPH:
                _rename_branch(attribute_copy.g, names, given)
    return copied


def _rename_branch(graph: onnx.GraphProto, names: Mapping[str, str], given: Mapping[str, AttributeProto]) -> None:
    for tensor in (*graph.input, *graph.output, *graph.initializer):
        tensor.name = names[tensor.name]
    nodes = [renamed(proto, names, given) for proto in graph.node]
    del graph.node[:]
    graph.node.extend(nodes)
