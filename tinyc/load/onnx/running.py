# SPDX-License-Identifier: Apache-2.0
"""One node after the other: computed now, or imported."""

from __future__ import annotations

from dataclasses import replace

import onnx
from onnx import AttributeProto

from tinyc.base.errors import TinycError
from tinyc.load.looked import not_understood
from tinyc.load.onnx.file import OnnxNode
from tinyc.load.onnx.folding import FOLDABLE, fold
from tinyc.load.onnx.importing import (
    IGNORED,
    IMPORTERS_OF,
    WHOLE,
    Importer,
    OnnxBuilder,
    OnnxStep,
    is_plain,
)
from tinyc.load.onnx.loading import load_importer
from tinyc.load.onnx.older import modern
from tinyc.ops.concat import Concat
from tinyc.ops.slice import whole

_OF_IMAGES = ("Conv", "ConvTranspose", "MaxPool", "AveragePool", "LpPool")
_MOST_IMAGES = 64
_WITH_BODIES = ("If", "Loop", "Scan")  # whose importers make every output that is read


def import_node(builder: OnnxBuilder, node: OnnxNode) -> None:
    """Add what the node computes to the graph, or remember it as a constant. TinycError where it cannot be imported,
    FollowUpError where it reads what could not."""
    node = modern(builder, node)
    if not fold(builder, node):
        if _is_batch(builder, node):
            _one_by_one(builder, node)
            return
        step = OnnxStep(builder, node)
        _importer(node, builder)(step)
        _check_inputs(step)
        _check_outputs(builder, node)
    check_attributes(node, builder.file.opset_of(node.domain))


def _is_batch(builder: OnnxBuilder, node: OnnxNode) -> bool:
    """Whether the node takes several images, and its kernels take one."""
    x = builder.values.get(node.inputs[0]) if node.inputs and node.op in _OF_IMAGES and not node.domain else None
    return x is not None and len(x.shape) in (3, 4) and 1 < x.shape[0] <= _MOST_IMAGES and len(node.outputs) == 1


def _one_by_one(builder: OnnxBuilder, node: OnnxNode) -> None:
    """The node for each image of a batch, and their results side by side again."""
    whole_step, results = OnnxStep(builder, node), []
    x = whole_step.value(0)
    for image in range(x.shape[0]):
        part = whole_step.insert([x], whole(x.shape, 0, image, 1), f"image{image}")
        output = builder.unique(f"{node.outputs[0]}:of{image}")
        import_node(builder, replace(node, inputs=(part.name, *node.inputs[1:]), outputs=(output,)))
        results.append(builder.values[output])
    whole_step.emit(results, Concat(0))


def _on_integers(node: OnnxNode, builder: OnnxBuilder) -> bool:
    """Whether the computed inputs of the node are plain integers; a condition beside floats does not count, and sums
    of trees stand for reals."""
    types = [builder.values[name] for name in node.inputs if name in builder.values]
    if node.op == "Where":
        types = [builder.values[name] for name in node.inputs[1:3] if name in builder.values] or []
    return bool(types) and all(is_plain(value) and value.name not in builder.sums for value in types)


_QONNX = ("qonnx.", "onnx.brevitas", "finn.")  # domains of its operators


def _importer(node: OnnxNode, builder: OnnxBuilder) -> Importer:
    on_integers = not node.domain and _on_integers(node, builder)
    load_importer(node.full_name, on_integers=on_integers)
    if on_integers and node.op in WHOLE:
        return WHOLE[node.op]
    importers = IMPORTERS_OF.get(node.domain, {})
    if node.op in importers:
        return importers[node.op]
    hint = "docs/operators.md lists the operators that tinyc imports"
    if node.op in ("NonMaxSuppression", "NonZero", "Unique", "Compress"):
        hint = "end the model before it and do it in the program: its time and memory depend on the data"
    if node.domain.startswith(_QONNX):
        hint = "tinyc does not read QONNX: export the model as QCDQ (Brevitas: export_onnx_qcdq)"
    if not node.domain and node.op in FOLDABLE:
        hint = "only of numbers that are known when the model is loaded: give the model fixed shapes"
    if node.op.startswith("Dynamic") or "Integer" in node.op:
        hint = (
            "this model measures its ranges while it runs (dynamic quantization); quantize it with calibration "
            "data (static quantization), or give the float .onnx"
        )
    raise TinycError(f"operator {node.full_name} is not supported", node.where, hint)


def _check_inputs(s: OnnxStep) -> None:
    """What the importer has not looked at must mean nothing to it."""
    for index, name in enumerate(s.node.inputs):
        if name and index not in s.looked_at and index not in IGNORED[s.node.full_name]:
            raise not_understood(f"it has an input {index} ('{name}')", s.node.op, s.where)


def check_attributes(node: OnnxNode, opset: int) -> None:
    """Attributes that nobody has looked at must mean nothing, or have the value that the operator has without them."""
    load_importer(node.full_name)
    meaningless = IGNORED.get(node.full_name, frozenset())
    for name in node.attributes.unseen():
        if name not in meaningless and not _is_default(node, name, opset):
            raise not_understood(f"it has an attribute '{name}'", node.op, node.where)


def _is_default(node: OnnxNode, name: str, opset: int) -> bool:
    try:
        declared = onnx.defs.get_schema(node.op, opset, node.domain).attributes.get(name)
    except onnx.defs.SchemaError:
        return False
    if declared is None or declared.default_value.type == AttributeProto.UNDEFINED:
        return False
    given = next(a for a in node.proto.attribute if a.name == name)
    as_default = AttributeProto()
    as_default.CopyFrom(given)
    as_default.ClearField("doc_string")
    return as_default.SerializeToString(deterministic=True) == declared.default_value.SerializeToString(
        deterministic=True
    )


def _check_outputs(builder: OnnxBuilder, node: OnnxNode) -> None:
    """Of most nodes only the first output is imported; the others (indices, masks, statistics) must be unused."""
    if node.op in _WITH_BODIES:
        return
    for name in node.outputs[1:]:
        if name and name in builder.read and name not in builder.values and builder.constant(name) is None:
            raise TinycError(f"its output '{name}' is used; only the first output is supported", node.where)
