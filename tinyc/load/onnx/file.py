# SPDX-License-Identifier: Apache-2.0
"""An .onnx file as plain Python values: nodes in run order, inputs, outputs, initializers; bounds checked.

Format: onnx.proto (IR version 3 and later), parsed by the `onnx` package. Protobuf guarantees only that
fields have their types; what they mean is checked here and when a node is imported.
"""

from __future__ import annotations

import heapq
import math
import unicodedata
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TypeVar

import numpy as np
import numpy.typing as npt
import onnx
from google.protobuf.message import DecodeError
from onnx import AttributeProto, TensorProto, numpy_helper

from tinyc.base.dataclass import dataclass
from tinyc.base.errors import Loc, TinycError
from tinyc.base.escape import visible
from tinyc.base.limits import MAX_STORED
from tinyc.ir.graph import Array
from tinyc.load.looked import Looked
from tinyc.load.problems import check_outputs

T = TypeVar("T")

MIN_OPSET = 7  # older ones are read as this one: older.py
ML_DOMAIN = "ai.onnx.ml"  # classical learning
_SKLEARN_EXPORTER, _OWN = "skl2onnx", "tinyc"  # producers
MICROSOFT = "com.microsoft"  # onnxruntime's own operators
MAX_RANK = 8
MAX_ITEMS = 1 << 16  # nodes or initializers; the largest published models have some thousands
_UNPRINTABLE = ("Cc", "Zl", "Zp")  # Unicode categories: control characters, ends of lines and paragraphs
_SHOWN = 60  # letters of a bad name in a message
_MAX_LIST = 64  # numbers in one attribute: pads of MAX_RANK axes and the like

_DAMAGED = "export or download the model again; it is truncated or was changed after the export"

_EXTERNAL = "keep the external data file in the folder of the model, under the name it had at the export"

# Element types that are read, with the typed field that holds them when raw_data does not.
_FIELDS: Mapping[int, tuple[int, str]] = {
    TensorProto.FLOAT: (4, "float_data"),
    TensorProto.DOUBLE: (8, "double_data"),
    TensorProto.FLOAT16: (2, "int32_data"),
    TensorProto.BFLOAT16: (2, "int32_data"),
    TensorProto.INT8: (1, "int32_data"),
    TensorProto.UINT8: (1, "int32_data"),
    TensorProto.INT16: (2, "int32_data"),
    TensorProto.UINT16: (2, "int32_data"),
    TensorProto.INT32: (4, "int32_data"),
    TensorProto.INT64: (8, "int64_data"),
    TensorProto.UINT32: (4, "uint64_data"),
    TensorProto.UINT64: (8, "uint64_data"),
    TensorProto.BOOL: (1, "int32_data"),
}
# Several elements per byte, the first in the lowest bits: the least number, and how many numbers there are.
_NARROW: Mapping[int, tuple[int, int]] = {
    **{TensorProto.INT4: (-8, 16), TensorProto.UINT4: (0, 16), TensorProto.INT2: (-2, 4), TensorProto.UINT2: (0, 4)}
}
FLOATS = frozenset({TensorProto.FLOAT, TensorProto.DOUBLE, TensorProto.FLOAT16, TensorProto.BFLOAT16})


@dataclass(frozen=True, slots=True)
class OnnxNode:
    """One node. `""` among the inputs or outputs stands for an absent optional one."""

    index: int
    op: str
    domain: str
    name: str
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    attributes: Looked[AttributeProto]
    proto: onnx.NodeProto
    where: Loc

    @property
    def full_name(self) -> str:
        """The operator with its domain, unless that is the standard one."""
        return f"{self.domain}.{self.op}" if self.domain else self.op

    @property
    def reads(self) -> tuple[str, ...]:
        """Its inputs, and what the graphs in its attributes read from outside."""
        graphs = [a.g for a in self.proto.attribute if a.type == AttributeProto.GRAPH]
        return (*self.inputs, *(name for graph in graphs for name in sorted(_captured(graph))))

    def graph(self, name: str) -> onnx.GraphProto:
        attribute = self._attribute(name, AttributeProto.GRAPH)
        if attribute is None:
            raise TinycError(f"attribute '{name}' is missing", self.where, _DAMAGED)
        return attribute.g

    def _attribute(self, name: str, type_: int) -> AttributeProto | None:
        attribute = self.attributes.get(name)
        if attribute is not None and attribute.type != type_:
            expected = AttributeProto.AttributeType.Name(type_)
            raise TinycError(f"attribute '{name}' is not of type {expected}", self.where, _DAMAGED)
        return attribute

    def int_(self, name: str, default: int) -> int:
        attribute = self._attribute(name, AttributeProto.INT)
        return default if attribute is None else int(attribute.i)

    def flag(self, name: str, default: bool) -> bool:
        """An attribute that is 0 or 1; of other numbers runtimes make what they like."""
        number = self.int_(name, int(default))
        if number not in (0, 1):
            raise TinycError(f"attribute {name} is {number}, neither 0 nor 1", self.where)
        return bool(number)

    def float_(self, name: str, default: float) -> float:
        attribute = self._attribute(name, AttributeProto.FLOAT)
        value = default if attribute is None else float(attribute.f)
        if math.isnan(value):
            raise TinycError(f"attribute '{name}' is NaN", self.where)
        return value

    def text(self, name: str, default: str) -> str:
        attribute = self._attribute(name, AttributeProto.STRING)
        return default if attribute is None else attribute.s.decode("utf-8", "replace")

    def texts(self, name: str) -> tuple[str, ...]:
        """A list of names, () if the attribute is absent."""
        attribute = self._attribute(name, AttributeProto.STRINGS)
        return (
            ()
            if attribute is None
            else tuple(text.decode("utf-8", "replace") for text in attribute.strings[:_MAX_LIST])
        )

    def ints(self, name: str) -> tuple[int, ...] | None:
        """A list of integers, None if the attribute is absent."""
        attribute = self._attribute(name, AttributeProto.INTS)
        if attribute is None:
            return None
        if len(attribute.ints) > _MAX_LIST:
            raise TinycError(f"attribute '{name}' lists {len(attribute.ints)} numbers", self.where, _DAMAGED)
        return tuple(int(i) for i in attribute.ints)

    def all_ints(self, name: str) -> npt.NDArray[np.int64]:
        """A list of integers of any length; empty if the attribute is absent."""
        attribute = self._attribute(name, AttributeProto.INTS)
        return np.array([] if attribute is None else attribute.ints, np.int64)

    def all_texts(self, name: str) -> tuple[str, ...]:
        """A list of names of any length; empty if the attribute is absent."""
        attribute = self._attribute(name, AttributeProto.STRINGS)
        return () if attribute is None else tuple(text.decode("utf-8", "replace") for text in attribute.strings)

    def all_reals(self, name: str) -> npt.NDArray[np.float64]:
        """A list of floats of any length, or the tensor `<name>_as_tensor` in its place; empty if both are absent."""
        tensor = self._attribute(f"{name}_as_tensor", AttributeProto.TENSOR)
        attribute = self._attribute(name, AttributeProto.FLOATS)
        if tensor is not None and attribute is None:
            return self.tensor(f"{name}_as_tensor").astype(np.float64).ravel()
        return np.array([] if attribute is None else attribute.floats, np.float64)

    def tensor(self, name: str) -> Array:
        """A tensor in an attribute, of the element type that the file gives it."""
        attribute = self._attribute(name, AttributeProto.TENSOR)
        if attribute is None:
            raise TinycError(f"attribute '{name}' is missing", self.where, _DAMAGED)
        if attribute.t.data_type == TensorProto.DOUBLE:
            return np.array(numpy_helper.to_array(attribute.t), np.float64)
        return decode(attribute.t, Path(), self.where)


def _captured(graph: onnx.GraphProto) -> set[str]:
    """Names that a subgraph reads and does not make."""
    defined = {*(t.name for t in graph.initializer), *(i.name for i in graph.input)}
    defined.update(name for node in graph.node for name in node.output)
    read = {output.name for output in graph.output}
    for node in graph.node:
        read.update(node.input)
        for attribute in node.attribute:
            if attribute.type == AttributeProto.GRAPH:
                read |= _captured(attribute.g)
    return read - defined - {""}


@dataclass(frozen=True, slots=True)
class OnnxInput:
    """A model input; dims[k] is None where the file leaves a dimension open, `symbols[k]` its name there."""

    name: str
    elem_type: int
    dims: tuple[int | None, ...]
    symbols: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class OnnxFile:
    """The main graph: nodes that the outputs need, in run order. `file` is the name without its folder.

    declared: the shapes that the file says the outputs have, None for a size that it leaves open. ml_opset: the version
    of ML_DOMAIN's operators. opset: at least MIN_OPSET; older: the file's own. classical: it has operators of ML_DOMAIN
    or comes from the exporter of scikit-learn, which writes some models without them.
    """

    file: str
    folder: Path
    opset: int
    nodes: tuple[OnnxNode, ...]
    inputs: tuple[OnnxInput, ...]
    outputs: tuple[str, ...]
    initializers: Mapping[str, TensorProto]
    declared: Mapping[str, tuple[int | None, ...]]
    ml_opset: int
    older: int
    classical: bool
    own: bool  # tinyc wrote it: kernels' integers were learned or measured with it

    def opset_of(self, domain: str) -> int:
        """The operator set of the standard domain, or of ML_DOMAIN."""
        return self.ml_opset if domain == ML_DOMAIN else self.opset


def read_onnx(path: Path, content: bytes, asked: Sequence[str] = (), more: Sequence[str] = ()) -> OnnxFile:
    """Decode `content`, the bytes of the file at `path`. TinycError if it is no intact ONNX model. asked: outputs in
    the place of the file's; more: tensors that are outputs too.

    Shapes, types and attributes of the nodes may still be nonsense; every tensor has one producer and
    there are no cycles. Initializers stay encoded until `decode`.
    """
    where = Loc(path.name)
    model = parse(content, where)
    graph = model.graph
    _check_external(graph, path.parent, where)
    initializers = _named("initializer", [(t.name, t) for t in graph.initializer], where)
    if graph.sparse_initializer:
        raise TinycError("the model has sparse initializers, which tinyc does not read", where)
    inputs = tuple(_input(i, where) for i in graph.input if i.name not in initializers)
    _named("input", [(i.name, i) for i in inputs], where)
    outputs = tuple(asked) or tuple(output.name for output in graph.output)
    outputs = (*outputs, *(name for name in more if name not in outputs))
    check_outputs((*asked, *more), {name for n in graph.node for name in n.output if name}, where)
    _named("output", [(name, name) for name in outputs], where)
    if not inputs or not outputs:
        raise TinycError(f"the model has no {'outputs' if inputs else 'inputs'}", where)
    nodes = [_node(i, n, path.name) for i, n in enumerate(graph.node)]
    given = {*initializers, *(i.name for i in inputs)}
    ordered = _needed(_in_run_order(nodes, given), outputs)
    computed = {name for node in nodes for name in node.outputs} | initializers.keys()
    for name in outputs:
        if name not in computed:
            raise TinycError(f"output '{name}' is not computed by any node", where)
    declared = {output.name: _sizes(output) for output in graph.output if output.type.tensor_type.shape.dim}
    opset, ml_opset = (
        _opset(model, where),
        max((o.version for o in model.opset_import if o.domain == ML_DOMAIN), default=1),
    )
    read_as = max(opset, MIN_OPSET)
    classical = model.producer_name == _SKLEARN_EXPORTER or any(node.domain == ML_DOMAIN for node in nodes)
    return OnnxFile(
        path.name,
        path.parent,
        read_as,
        ordered,
        inputs,
        outputs,
        initializers,
        declared,
        ml_opset,
        opset,
        classical,
        model.producer_name == _OWN,
    )


def parse(content: bytes, where: Loc) -> onnx.ModelProto:
    """The protobuf message; TinycError if the bytes are none or hold no graph."""
    try:
        model = onnx.ModelProto.FromString(content)
    except (DecodeError, ValueError, RecursionError, MemoryError) as e:
        raise TinycError("this is not an ONNX model, or it is damaged", where, _DAMAGED) from e
    if not model.opset_import:
        raise TinycError("this is not an ONNX model: it has no operator set", where, _DAMAGED)
    if not model.graph.node:
        raise TinycError("the model has no nodes: there is nothing to compile", where, "export it again")
    if max(len(model.graph.node), len(model.graph.initializer)) > MAX_ITEMS:
        raise TinycError(f"the model has more than {MAX_ITEMS} nodes or initializers", where)
    if model.functions:
        from tinyc.load.onnx.local_functions import without_functions  # noqa: PLC0415  for models that have some

        model = without_functions(model, MAX_ITEMS, where)
    _check_texts(_texts(model), where)
    return model


def _texts(model: onnx.ModelProto) -> Iterator[object]:
    """Every name that is read later."""
    yield from (opset.domain for opset in model.opset_import)
    yield from _texts_of(model.graph)


def _texts_of(graph: onnx.GraphProto) -> Iterator[object]:
    """Those of a graph, and of the graphs in its nodes: protobuf lets them be no more than a hundred deep."""
    for node in graph.node:
        yield from (node.name, node.op_type, node.domain, *node.input, *node.output)
        for attribute in node.attribute:
            yield attribute.name
            if attribute.type == AttributeProto.GRAPH:
                yield from _texts_of(attribute.g)
    for tensor in (*graph.initializer, *(a.t for node in graph.node for a in node.attribute)):
        yield tensor.name
        yield from (text for entry in tensor.external_data for text in (entry.key, entry.value))
    for info in (*graph.input, *graph.output):
        yield info.name
        yield from (dim.dim_param for dim in info.type.tensor_type.shape.dim)


def _tensors(graph: onnx.GraphProto) -> Iterator[TensorProto]:
    """Every tensor of a graph and of the graphs in its nodes."""
    yield from graph.initializer
    for attribute in (attribute for node in graph.node for attribute in node.attribute):
        yield from (attribute.t, *attribute.tensors)
        if attribute.type == AttributeProto.GRAPH:
            yield from _tensors(attribute.g)


def _check_texts(texts: Iterator[object], where: Loc) -> None:
    for text in texts:
        if not isinstance(text, str):  # protobuf hands out bad UTF-8 as bytes
            raise TinycError("the model is damaged: a name in it is no text", where, _DAMAGED)
        if not text.isprintable() and any(unicodedata.category(letter) in _UNPRINTABLE for letter in text):
            said = visible(text[:_SHOWN])
            raise TinycError(f"a name in the model has control characters: '{said}'", where, "rename it in the model")


def _opset(model: onnx.ModelProto, where: Loc) -> int:
    versions = [o.version for o in model.opset_import if o.domain in ("", "ai.onnx")]
    newest = onnx.defs.onnx_opset_version()
    if not versions and any(o.domain == ML_DOMAIN for o in model.opset_import):
        return int(newest)  # a model of nothing else uses none of the standard operators
    if not versions:
        domains = ", ".join(sorted({o.domain for o in model.opset_import}))
        raise TinycError(f"the model uses no standard ONNX operators, only those of {domains}", where)
    if not 1 <= versions[0] <= newest:
        raise TinycError(
            f"the model uses operator set {versions[0]}; tinyc reads 1 to {newest}",
            where,
            "export with opset 13 to 20, use onnx.version_converter, or install a newer `onnx` package",
        )
    return int(versions[0])


def _named(what: str, items: Sequence[tuple[str, T]], where: Loc) -> dict[str, T]:
    by_name: dict[str, T] = {}
    for name, item in items:
        if not name:
            raise TinycError(f"an {what} has no name", where, _DAMAGED)
        if name in by_name:
            raise TinycError(f"two {what}s are called '{name}'", where, _DAMAGED)
        by_name[name] = item
    return by_name


def _input(info: onnx.ValueInfoProto, where: Loc) -> OnnxInput:
    if info.type.WhichOneof("value") != "tensor_type":
        raise TinycError(f"input '{info.name}' is not a tensor", where)
    type_ = info.type.tensor_type
    if not type_.HasField("shape"):
        raise TinycError(f"input '{info.name}' has no shape", where, "export the model with a fixed input shape")
    dims = type_.shape.dim
    if len(dims) > MAX_RANK:
        raise TinycError(f"input '{info.name}' has {len(dims)} dimensions; at most {MAX_RANK}", where)
    return OnnxInput(info.name, type_.elem_type, _sizes(info), tuple(d.dim_param for d in dims))


def _sizes(info: onnx.ValueInfoProto) -> tuple[int | None, ...]:
    """None for a size that is open: without a number, or -1, as some exporters write it."""
    dims = info.type.tensor_type.shape.dim
    is_open = [d.WhichOneof("value") != "dim_value" or d.dim_value == -1 for d in dims]
    return tuple(None if open_ else int(d.dim_value) for d, open_ in zip(dims, is_open, strict=True))


def _node(index: int, proto: onnx.NodeProto, file: str) -> OnnxNode:
    name = proto.name or next(iter(proto.output), "")
    domain = "" if proto.domain == "ai.onnx" else proto.domain
    where = Loc(file, index, name, proto.op_type)
    inputs, outputs = tuple(proto.input), tuple(proto.output)
    return OnnxNode(index, proto.op_type, domain, name, inputs, outputs, _attributes(proto, where), proto, where)


def _attributes(proto: onnx.NodeProto, where: Loc) -> Looked[AttributeProto]:
    return Looked(_named("attribute", [(a.name, a) for a in proto.attribute], where))


def as_node(proto: onnx.NodeProto, replaced: OnnxNode) -> OnnxNode:
    """A node of the standard domain that stands, with others, in the place of one of the file's."""
    inputs, outputs, where = tuple(proto.input), tuple(proto.output), replaced.where
    attributes = _attributes(proto, where)
    return OnnxNode(replaced.index, proto.op_type, "", replaced.name, inputs, outputs, attributes, proto, where)


def as_inner_node(proto: onnx.NodeProto, outer: OnnxNode) -> OnnxNode:
    """A node of a graph in an attribute of another node, which says where it is."""
    domain = "" if proto.domain == "ai.onnx" else proto.domain
    where = Loc(outer.where.file, outer.index, proto.name or next(iter(proto.output), ""), proto.op_type)
    inputs, outputs, attributes = tuple(proto.input), tuple(proto.output), _attributes(proto, where)
    return OnnxNode(outer.index, proto.op_type, domain, proto.name, inputs, outputs, attributes, proto, where)


def _in_run_order(nodes: Sequence[OnnxNode], given: set[str]) -> list[OnnxNode]:
    """The nodes sorted so that each runs after those it reads; the file's own order where that is legal."""
    producer: dict[str, int] = {}
    for node in nodes:
        for name in filter(None, node.outputs):
            if name in producer or name in given:
                raise TinycError(f"'{name}' is made twice", node.where, _DAMAGED)
            producer[name] = node.index
    for node in nodes:
        for name in filter(None, node.reads):
            if name not in producer and name not in given:
                raise TinycError(
                    f"the node reads '{name}', which is neither an input, an initializer nor computed",
                    node.where,
                    _DAMAGED,
                )
    waiting = [{producer[name] for name in node.reads if name in producer} for node in nodes]
    readers: dict[int, list[int]] = {}
    for index, before in enumerate(waiting):
        for other in before:
            readers.setdefault(other, []).append(index)
    ready = [index for index, before in enumerate(waiting) if not before]
    heapq.heapify(ready)
    order = []
    while ready:
        index = heapq.heappop(ready)
        order.append(nodes[index])
        for reader in readers.get(index, ()):
            waiting[reader].discard(index)
            if not waiting[reader]:
                heapq.heappush(ready, reader)
    if len(order) < len(nodes):
        stuck = next(node for node in nodes if waiting[node.index])
        raise TinycError("the graph has a cycle: this node needs its own result", stuck.where, _DAMAGED)
    return order


def _needed(nodes: Sequence[OnnxNode], outputs: Sequence[str]) -> tuple[OnnxNode, ...]:
    """The nodes that the outputs depend on."""
    names, needed_nodes = set(outputs), []
    for node in reversed(nodes):
        if names & set(filter(None, node.outputs)):
            names |= set(node.reads)
            needed_nodes.append(node)
    return tuple(reversed(needed_nodes))


def decode(tensor: TensorProto, folder: Path, where: Loc) -> Array:
    """The tensor as an array: every kind of float as float32, integers and booleans as they are.

    TinycError for other element types, sizes that do not match the data, and external data that is
    missing or lies outside `folder`.
    """
    type_ = int(tensor.data_type)
    if type_ in _NARROW:
        return _narrow(tensor, *_NARROW[type_], folder, where)
    if type_ not in _FIELDS:
        is_named = type_ in TensorProto.DataType.values()
        name = TensorProto.DataType.Name(type_) if is_named else f"number {type_}"
        raise TinycError(f"tensor '{tensor.name}' has element type {name}, which tinyc does not read", where)
    shape = tuple(int(d) for d in tensor.dims)
    if len(shape) > MAX_RANK or min(shape, default=0) < 0 or math.prod(shape) > MAX_STORED:
        raise TinycError(f"tensor '{tensor.name}' has an impossible shape {list(shape)[:MAX_RANK]}", where, _DAMAGED)
    count = math.prod(shape)
    item_bytes, field = _FIELDS[type_]
    if tensor.data_location == TensorProto.EXTERNAL:
        raw: bytes | None = _external(tensor, count * item_bytes, folder, where)
    else:
        raw = tensor.raw_data if tensor.HasField("raw_data") else None
        held = len(raw) // item_bytes if raw is not None else len(getattr(tensor, field))
        if held != count or (raw is not None and len(raw) % item_bytes):
            raise TinycError(
                f"tensor '{tensor.name}' of shape {list(shape)} needs {count} elements, the file holds {held}",
                where,
                _DAMAGED,
            )
    inline = TensorProto(data_type=type_, dims=shape, name=tensor.name)
    if raw is not None:
        inline.raw_data = raw
    else:
        getattr(inline, field).extend(getattr(tensor, field))
    try:
        array: Array = numpy_helper.to_array(inline)
    except (ValueError, TypeError, OverflowError) as e:
        raise TinycError(f"tensor '{tensor.name}' cannot be decoded", where, _DAMAGED) from e
    with np.errstate(over="ignore"):  # a double beyond float32 becomes infinite, which is refused where it matters
        return array.astype(np.float32) if type_ in FLOATS else array


def _narrow(tensor: TensorProto, least: int, count: int, folder: Path, where: Loc) -> Array:
    """A tensor of 4 or 2 bits as int8."""
    shape = tuple(int(d) for d in tensor.dims)
    if len(shape) > MAX_RANK or min(shape, default=0) < 0 or math.prod(shape) > MAX_STORED:
        raise TinycError(f"tensor '{tensor.name}' has an impossible shape {list(shape)[:MAX_RANK]}", where, _DAMAGED)
    elements = math.prod(shape)
    bits = count.bit_length() - 1
    size = -(-elements * bits // 8)
    if tensor.data_location == TensorProto.EXTERNAL:
        packed = np.frombuffer(_external(tensor, size, folder, where), np.uint8)
    elif tensor.HasField("raw_data"):
        packed = np.frombuffer(tensor.raw_data, np.uint8)
    else:
        packed = np.array([number & 255 for number in tensor.int32_data], np.uint8)
    if len(packed) != size:
        raise TinycError(
            f"tensor '{tensor.name}' of shape {list(shape)} needs {size} bytes, the file holds {len(packed)}",
            where,
            _DAMAGED,
        )
    parts = [packed >> shift & count - 1 for shift in range(0, 8, bits)]
    unpacked = np.stack(parts, axis=-1).reshape(-1)[:elements].astype(np.int8)
    return np.where(unpacked >= least + count, unpacked - count, unpacked).astype(np.int8).reshape(shape)


def _external(tensor: TensorProto, size: int, folder: Path, where: Loc) -> bytes:
    """The `size` bytes of a tensor that are kept in a file beside the model."""
    file, entries = _external_file(tensor, folder, where)
    location = entries["location"]
    try:
        offset, length = int(entries.get("offset", 0)), int(entries.get("length", size))
        if offset < 0:
            message = f"the external data of tensor '{tensor.name}' begin at byte {offset} of '{location}'"
            raise TinycError(message, where, _DAMAGED)
        if length != size:
            raise TinycError(f"tensor '{tensor.name}' needs {size} bytes, its entry says {length}", where, _DAMAGED)
        with file.open("rb") as f:
            f.seek(offset)
            data = f.read(size) if offset + size <= file.stat().st_size else b""
    except (ValueError, OverflowError) as e:
        raise TinycError(f"tensor '{tensor.name}' has a bad external data entry", where, _DAMAGED) from e
    except OSError as e:
        raise TinycError(f"external data '{location}' cannot be read: {e.strerror}", where, _EXTERNAL) from e
    if len(data) != size:
        raise TinycError(f"external data '{location}' ends before tensor '{tensor.name}' does", where, _EXTERNAL)
    return data


def _external_file(tensor: TensorProto, folder: Path, where: Loc) -> tuple[Path, dict[str, str]]:
    """The file of a tensor's external data, a plain one in the model's folder, and what the entry says."""
    entries = {entry.key: entry.value for entry in tensor.external_data}
    location = entries.get("location", "")
    if not location:
        raise TinycError(f"tensor '{tensor.name}' has external data, but no file name", where, _DAMAGED)
    try:
        base = folder.resolve()
        file = (base / location).resolve()
        inside, there = file.is_relative_to(base), file.is_file()
    except (OSError, RuntimeError, ValueError) as e:  # links in a circle, a name that is too long
        raise TinycError(f"external data file '{location}' of '{tensor.name}' has no place", where, _EXTERNAL) from e
    if not inside:
        raise TinycError(f"tensor '{tensor.name}' refers to '{location}', outside the model's folder", where, _EXTERNAL)
    if not there:
        raise TinycError(f"external data file '{location}' of tensor '{tensor.name}' is missing", where, _EXTERNAL)
    return file, entries


def _check_external(graph: onnx.GraphProto, folder: Path, where: Loc) -> None:
    """Also of tensors that tinyc does not read: onnxruntime, which runs the model beside it, reads them."""
    for tensor in _tensors(graph):
        if tensor.data_location == TensorProto.EXTERNAL:
            _external_file(tensor, folder, where)
