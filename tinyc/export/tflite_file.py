# SPDX-License-Identifier: Apache-2.0
"""Writes TFLite files: tensors and operators as plain values -> the bytes of the file."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import field
from typing import Any

import flatbuffers
import numpy as np
import tflite
from flatbuffers import flexbuffers

from tinyc.base.dataclass import dataclass
from tinyc.ir.graph import Array

TYPES = {
    "f32": tflite.TensorType.FLOAT32,
    "s4": tflite.TensorType.INT4,
    "s8": tflite.TensorType.INT8,
    "u8": tflite.TensorType.UINT8,
    "s16": tflite.TensorType.INT16,
    "s32": tflite.TensorType.INT32,
    "s64": tflite.TensorType.INT64,
    "u32": tflite.TensorType.UINT32,
    "u64": tflite.TensorType.UINT64,
    "bool": tflite.TensorType.BOOL,
    "f16": tflite.TensorType.FLOAT16,
    "string": tflite.TensorType.STRING,
    "resource": tflite.TensorType.RESOURCE,
    "c64": tflite.TensorType.COMPLEX64,
}


@dataclass(frozen=True, slots=True)
class Tensor:
    """A tensor of the file. `scale` empty: no quantization. `data`: a constant, in the dtype's numpy type.

    `signature`: the shape with -1 for what the exporter left open. `sparse`: of a matrix the file has the elements that
    are not 0, as compressed rows.
    """

    name: str
    shape: tuple[int, ...]
    dtype: str = "s8"
    scale: tuple[float, ...] = ()
    zero: tuple[int, ...] = ()
    axis: int = 0
    data: Array | None = None
    signature: tuple[int, ...] = ()
    variable: bool = False
    sparse: bool = False


@dataclass(frozen=True, slots=True)
class Operator:
    """A builtin operator, `code` as in the schema (`FULLY_CONNECTED`), or `CUSTOM Name`.

    `options` is the name of its table of options (`FullyConnectedOptions`), `fields` what it holds, in
    the schema's CamelCase; a list becomes a vector of int32, a text a string. Of a custom operator they are a
    FlexBuffer map of integers.
    """

    code: str
    inputs: tuple[str, ...]  # "" for an absent optional one
    outputs: tuple[str, ...]
    options: str = ""
    fields: Mapping[str, Any] = field(default_factory=dict)
    version: int = 1


@dataclass(frozen=True, slots=True)
class Subgraph:
    """Tensors, operators in run order, and the names of inputs and outputs."""

    tensors: Sequence[Tensor]
    operators: Sequence[Operator]
    inputs: Sequence[str] = ()
    outputs: Sequence[str] = ()


def build_model(
    tensors: Sequence[Tensor],
    operators: Sequence[Operator],
    inputs: Sequence[str],
    outputs: Sequence[str],
    others: Sequence[Subgraph] = (),
    signatures: Mapping[str, int] | None = None,
) -> bytes:
    """A TFLite file of a main subgraph, and others that it calls. Equal arguments give equal bytes. signatures: the
    subgraphs that programs call by these names."""
    b = flatbuffers.Builder(1024)
    graphs = [Subgraph(tensors, operators, inputs, outputs), *others]
    held = [tensor for graph in graphs for tensor in graph.tensors if tensor.data is not None]
    stored = [t.data[t.data != 0] if t.sparse and t.data is not None else t.data for t in held]
    buffers = [_buffer(b, None)] + [_buffer(b, data) for data in stored]
    tensor_indices: list[list[int]] = []
    used = 0
    for graph in graphs:
        tensor_indices.append([])
        for tensor in graph.tensors:
            used += tensor.data is not None
            tensor_indices[-1].append(_tensor(b, tensor, used if tensor.data is not None else 0))
    kinds = list(dict.fromkeys((op.code, op.version) for graph in graphs for op in graph.operators))
    codes = [_code(b, code, version) for code, version in kinds]
    written = [_subgraph(b, graph, kinds, indices) for graph, indices in zip(graphs, tensor_indices, strict=True)]
    subgraphs = _tables(b, tflite.ModelStartSubgraphsVector, written)
    code_list = _tables(b, tflite.ModelStartOperatorCodesVector, codes)
    buffer_list = _tables(b, tflite.ModelStartBuffersVector, buffers)
    text = b.CreateString("made by tinyc")
    entries = [_signature(b, name, subgraph) for name, subgraph in (signatures or {}).items()]
    entry_list = _tables(b, tflite.ModelStartSignatureDefsVector, entries) if entries else None
    tflite.ModelStart(b)
    tflite.ModelAddVersion(b, 3)
    tflite.ModelAddOperatorCodes(b, code_list)
    tflite.ModelAddSubgraphs(b, subgraphs)
    tflite.ModelAddDescription(b, text)
    tflite.ModelAddBuffers(b, buffer_list)
    if entry_list is not None:
        tflite.ModelAddSignatureDefs(b, entry_list)
    b.Finish(tflite.ModelEnd(b), b"TFL3")
    return bytes(b.Output())


def _signature(b: flatbuffers.Builder, name: str, subgraph: int) -> int:
    text = b.CreateString(name)
    tflite.SignatureDefStart(b)
    tflite.SignatureDefAddSignatureKey(b, text)
    tflite.SignatureDefAddSubgraphIndex(b, subgraph)
    return int(tflite.SignatureDefEnd(b))


def _subgraph(b: flatbuffers.Builder, graph: Subgraph, kinds: list[tuple[str, int]], tensors: list[int]) -> int:
    index = {tensor.name: i for i, tensor in enumerate(graph.tensors)} | {"": -1}
    ops = [_operator(b, op, kinds.index((op.code, op.version)), index) for op in graph.operators]
    tensor_list = _tables(b, tflite.SubGraphStartTensorsVector, tensors)
    op_list = _tables(b, tflite.SubGraphStartOperatorsVector, ops)
    input_list, output_list = (_ints(b, [index[n] for n in names]) for names in (graph.inputs, graph.outputs))
    tflite.SubGraphStart(b)
    tflite.SubGraphAddTensors(b, tensor_list)
    tflite.SubGraphAddInputs(b, input_list)
    tflite.SubGraphAddOutputs(b, output_list)
    tflite.SubGraphAddOperators(b, op_list)
    return int(tflite.SubGraphEnd(b))


def _ints(b: flatbuffers.Builder, values: Sequence[int]) -> int:
    return int(b.CreateNumpyVector(np.array(values, np.int32)))


def _tables(b: flatbuffers.Builder, start: Any, offsets: Sequence[int]) -> int:
    start(b, len(offsets))
    for offset in reversed(offsets):
        b.PrependUOffsetTRelative(offset)
    return int(b.EndVector())


def _buffer(b: flatbuffers.Builder, data: Array | None) -> int:
    if data is None:
        tflite.BufferStart(b)
        return int(tflite.BufferEnd(b))
    raw = np.frombuffer(np.ascontiguousarray(data).tobytes(), np.uint8)
    b.StartVector(1, len(raw), 16)  # runtimes read constants in place, so they need their alignment
    b.head -= len(raw)
    b.Bytes[b.Head() : b.Head() + len(raw)] = raw.tobytes()
    vector = b.EndVector()
    tflite.BufferStart(b)
    tflite.BufferAddData(b, vector)
    return int(tflite.BufferEnd(b))


def _tensor(b: flatbuffers.Builder, tensor: Tensor, buffer: int) -> int:
    name, shape = b.CreateString(tensor.name), _ints(b, tensor.shape)
    quant = _quant(b, tensor) if tensor.scale else None
    signature = _ints(b, tensor.signature) if tensor.signature else None
    sparsity = _compressed_rows(b, tensor.data) if tensor.sparse and tensor.data is not None else None
    tflite.TensorStart(b)
    tflite.TensorAddShape(b, shape)
    tflite.TensorAddType(b, TYPES[tensor.dtype])
    tflite.TensorAddBuffer(b, buffer)
    tflite.TensorAddName(b, name)
    if quant is not None:
        tflite.TensorAddQuantization(b, quant)
    if signature is not None:
        tflite.TensorAddShapeSignature(b, signature)
    if tensor.variable:
        tflite.TensorAddIsVariable(b, True)
    if sparsity is not None:
        tflite.TensorAddSparsity(b, sparsity)
    return int(tflite.TensorEnd(b))


def _compressed_rows(b: flatbuffers.Builder, matrix: Array) -> int:
    order = _ints(b, [0, 1])
    counts = [0, *np.cumsum((matrix != 0).sum(axis=1))]
    vectors = []
    for numbers in (counts, np.nonzero(matrix)[1].tolist()):
        values = _ints(b, numbers)
        tflite.Int32VectorStart(b)
        tflite.Int32VectorAddValues(b, values)
        vectors.append(tflite.Int32VectorEnd(b))
    tflite.DimensionMetadataStart(b)
    tflite.DimensionMetadataAddFormat(b, tflite.DimensionType.DENSE)
    tflite.DimensionMetadataAddDenseSize(b, len(matrix))
    rows = int(tflite.DimensionMetadataEnd(b))
    tflite.DimensionMetadataStart(b)
    tflite.DimensionMetadataAddFormat(b, tflite.DimensionType.SPARSE_CSR)
    tflite.DimensionMetadataAddArraySegmentsType(b, tflite.SparseIndexVector.Int32Vector)
    tflite.DimensionMetadataAddArraySegments(b, vectors[0])
    tflite.DimensionMetadataAddArrayIndicesType(b, tflite.SparseIndexVector.Int32Vector)
    tflite.DimensionMetadataAddArrayIndices(b, vectors[1])
    levels = _tables(b, tflite.SparsityParametersStartDimMetadataVector, [rows, int(tflite.DimensionMetadataEnd(b))])
    tflite.SparsityParametersStart(b)
    tflite.SparsityParametersAddTraversalOrder(b, order)
    tflite.SparsityParametersAddDimMetadata(b, levels)
    return int(tflite.SparsityParametersEnd(b))


def _quant(b: flatbuffers.Builder, tensor: Tensor) -> int:
    scale = b.CreateNumpyVector(np.array(tensor.scale, np.float32))
    zero = b.CreateNumpyVector(np.array(tensor.zero or (0,) * len(tensor.scale), np.int64))
    tflite.QuantizationParametersStart(b)
    tflite.QuantizationParametersAddScale(b, scale)
    tflite.QuantizationParametersAddZeroPoint(b, zero)
    tflite.QuantizationParametersAddQuantizedDimension(b, tensor.axis)
    return int(tflite.QuantizationParametersEnd(b))


def _code(b: flatbuffers.Builder, code: str, version: int) -> int:
    kind, _, custom = code.partition(" ")
    number = getattr(tflite.BuiltinOperator, kind)
    name = b.CreateString(custom) if custom else None
    tflite.OperatorCodeStart(b)
    if name is not None:
        tflite.OperatorCodeAddCustomCode(b, name)
    tflite.OperatorCodeAddDeprecatedBuiltinCode(b, min(number, 127))
    tflite.OperatorCodeAddVersion(b, version)
    tflite.OperatorCodeAddBuiltinCode(b, number)
    return int(tflite.OperatorCodeEnd(b))


def _operator(b: flatbuffers.Builder, op: Operator, code: int, index: Mapping[str, int]) -> int:
    inputs, outputs = (_ints(b, [index[name] for name in names]) for names in (op.inputs, op.outputs))
    options = _options(b, op) if op.options else None
    custom = _custom(b, op) if op.code.startswith("CUSTOM ") else None
    tflite.OperatorStart(b)
    tflite.OperatorAddOpcodeIndex(b, code)
    tflite.OperatorAddInputs(b, inputs)
    tflite.OperatorAddOutputs(b, outputs)
    if options is not None:
        tflite.OperatorAddBuiltinOptionsType(b, getattr(tflite.BuiltinOptions, op.options))
        tflite.OperatorAddBuiltinOptions(b, options)
    if custom is not None:
        tflite.OperatorAddCustomOptions(b, custom)
    return int(tflite.OperatorEnd(b))


def _custom(b: flatbuffers.Builder, op: Operator) -> int:
    """The fields as a FlexBuffer map; keys are sorted by the writer."""
    writer = flexbuffers.Builder()
    with writer.Map():
        for name, value in op.fields.items():
            (writer.Bool if isinstance(value, bool) else writer.Int)(name, value)
    return int(b.CreateByteVector(bytes(writer.Finish())))


def _options(b: flatbuffers.Builder, op: Operator) -> int:
    values = {name: _field(b, value) for name, value in op.fields.items()}
    getattr(tflite, f"{op.options}Start")(b)
    for name, value in values.items():
        getattr(tflite, f"{op.options}Add{name}")(b, value)
    return int(getattr(tflite, f"{op.options}End")(b))


def _field(b: flatbuffers.Builder, value: Any) -> Any:
    if isinstance(value, str):
        return b.CreateString(value)
    return _ints(b, value) if isinstance(value, list | tuple) else value
