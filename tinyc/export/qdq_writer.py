# SPDX-License-Identifier: Apache-2.0
"""What the rules of QDQ ONNX write with: nodes, constants, and the tensor that holds each value of the graph."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Any

import numpy as np
from onnx import NodeProto, TensorProto, checker, helper, numpy_helper

from tinyc import __version__
from tinyc.base.errors import TinycError
from tinyc.ir.graph import Array, Graph, Node, Quant, Value
from tinyc.kernel.site import Act

_OPSET, _IR = 21, 10
TO_NCHW, TO_NHWC = (0, 3, 1, 2), (0, 2, 3, 1)
_ONNX_TYPE: Mapping[str, int] = MappingProxyType(
    {"s8": TensorProto.INT8, "s16": TensorProto.INT16, "s32": TensorProto.INT32, "s4": TensorProto.INT4}
)
# Of values that are no multiples of a scale. ONNX counts in int64.
_PLAIN: Mapping[str, int] = MappingProxyType({"s32": TensorProto.INT64, "bool": TensorProto.BOOL})


class QdqWriter:
    """Collects the nodes; `tensors[value]` is the ONNX tensor that holds a value's integers, `first[value]` whether its
    channels come first."""

    def __init__(self, graph: Graph) -> None:
        self.graph = graph
        self.nodes: list[NodeProto] = []
        self.constants: list[TensorProto] = []
        self.tensors: dict[str, str] = {}
        self.first: dict[str, bool] = {}
        self._count = 0
        for name in graph.inputs:
            self.store(name, name, channels_first=False)

    def emit(self, op: str, inputs: Sequence[str], **attributes: Any) -> str:
        """A node with one output, whose name is returned."""
        return self.emit_all(op, inputs, 1, **attributes)[0]

    def emit_all(self, op: str, inputs: Sequence[str], count: int, **attributes: Any) -> list[str]:
        """A node with so many outputs, whose names are returned."""
        self._count += 1
        name = f"{op}_{self._count}"
        names = [name, *(f"{name}:{k}" for k in range(1, count))]
        self.nodes.append(helper.make_node(op, list(inputs), names, name=name, **attributes))
        return names

    def constant(self, array: Array, kind: int | None = None) -> str:
        """An initializer; `kind` where it is not what the array's dtype says."""
        name = f"const_{len(self.constants)}"
        if kind == TensorProto.INT4:
            self.constants.append(helper.make_tensor(name, kind, array.shape, array.ravel().tolist()))
        else:
            self.constants.append(numpy_helper.from_array(np.ascontiguousarray(array).reshape(array.shape), name))
        return name

    def quant_of(self, name: str) -> Quant:
        quant = self.graph.values[name].quant
        if quant is None:
            raise TinycError(f"'{name}' has no quantization")
        return quant

    def store(self, name: str, real: str, *, channels_first: bool) -> None:
        """Quantize a float tensor as the graph's value `name`. A value that is no multiple of a scale, an index or a
        truth, is the tensor itself."""
        if self.graph.values[name].quant is None:
            self.tensors[name], self.first[name] = real, channels_first
            return
        scale, zero = self.quant_of(name).per_tensor
        zeros = np.array(zero, np.int16 if self.graph.values[name].dtype == "s16" else np.int8)
        parameters = [self.constant(np.array(scale, np.float32)), self.constant(zeros)]
        self.tensors[name] = self.emit("QuantizeLinear", [real, *parameters])
        self.first[name] = channels_first

    def alias(self, name: str, other: str, *, channels_first: bool) -> None:
        """Value `name` is held by the tensor of `other`, with the same or another meaning of its axes."""
        self.tensors[name], self.first[name] = self.tensors[other], channels_first

    def real(self, name: str, *, channels_first: bool, shape: tuple[int, ...] | None = None) -> str:
        """The float tensor of a value, constant or computed, with the axes asked for. shape: of a computed value, if
        not its own; its integers are reshaped, for onnxruntime moves what quantizes reals through a Reshape."""
        if name in self.graph.consts:
            array = self.graph.consts[name]
            moved = array.transpose(TO_NCHW) if channels_first and array.ndim == 4 else array
            return self.weights(name, moved, None)
        tensor = self.tensors[name]
        if self.first[name] != channels_first and len(self.graph.values[name].shape) == 4:
            tensor = self.emit("Transpose", [tensor], perm=TO_NCHW if channels_first else TO_NHWC)
        if shape is not None:
            tensor = self.emit("Reshape", [tensor, self.constant(np.array(shape, np.int64))])
        if self.graph.values[name].quant is None:
            return tensor
        quant, kind = self.quant_of(name), np.int16 if self.graph.values[name].dtype == "s16" else np.int8
        if quant.axis is None:
            scale, zero = (np.array(one) for one in quant.per_tensor)
            along = {}
        else:  # of an output, whose axes are its own
            scale, zero, along = np.array(quant.scale), np.array(quant.zero), {"axis": quant.axis}
        parameters = [self.constant(scale.astype(np.float32)), self.constant(zero.astype(kind))]
        return self.emit("DequantizeLinear", [tensor, *parameters], **along)

    def weights(self, name: str, array: Array, axis: int | None) -> str:
        """The float tensor of constant integers, with the output channels on `axis`."""
        quant, kind = self.quant_of(name), _ONNX_TYPE[self.graph.values[name].dtype]
        scale = np.asarray(quant.scale, np.float32)
        zero = np.asarray(quant.zero, {"s32": np.int32, "s16": np.int16}.get(self.graph.values[name].dtype, np.int8))
        if len(scale) == 1:
            scale, zero, axis = scale.reshape(()), zero.reshape(()), None
        inputs = [self.constant(array, kind), self.constant(scale), self.constant(zero, kind)]
        return self.emit("DequantizeLinear", inputs, **({} if axis is None else {"axis": axis}))

    def rows(self, name: str, order: Array) -> str:
        """The float tensor [1, rows, columns] of constant integers [rows, columns], their rows in another order."""
        quant, kind = self.quant_of(name), _ONNX_TYPE[self.graph.values[name].dtype]
        scale = np.broadcast_to(np.asarray(quant.scale, np.float32), len(order))[order]
        zeros = np.zeros(len(order), np.int8)
        inputs = [self.constant(self.graph.consts[name][order][None], kind)]
        inputs += [self.constant(scale), self.constant(zeros, kind)]
        return self.emit("DequantizeLinear", inputs, axis=1)

    def bias(self, node: Node) -> list[str]:
        """The bias as a float tensor, if the node has one."""
        if len(node.inputs) < 3 or not node.inputs[2]:
            return []
        return [self.weights(node.inputs[2], self.graph.consts[node.inputs[2]], 0)]

    def activated(self, real: str, act: Act) -> str:
        """The tensor after a fused activation."""
        if act.lo == 0 and act.hi == np.inf:
            return self.emit("Relu", [real])
        if act.lo == -np.inf and act.hi == np.inf:
            return real
        bounds = [self.constant(np.array(b, np.float32)) if np.isfinite(b) else "" for b in act]
        return self.emit("Clip", [real, *bounds])

    def finish(self) -> bytes:
        outputs = []
        for name in self.graph.outputs:
            real = self.real(name, channels_first=False)
            self.nodes.append(helper.make_node("Identity", [real], [f"{name}:out" if name in self._taken() else name]))
            outputs.append(self.nodes[-1].output[0])
        infos = [self._info(name, name) for name in self.graph.inputs]
        results = [self._info(output, name) for output, name in zip(outputs, self.graph.outputs, strict=True)]
        graph = helper.make_graph(self.nodes, self.graph.name, infos, results, self.constants)
        opset = [helper.make_opsetid("", _OPSET)]
        model = helper.make_model(
            graph, opset_imports=opset, ir_version=_IR, producer_name="tinyc", producer_version=__version__
        )
        checker.check_model(model)
        return model.SerializeToString()

    def _taken(self) -> set[str]:
        return {*self.graph.inputs, *(out for node in self.nodes for out in node.output)}

    def _info(self, tensor: str, name: str) -> Any:
        value: Value = self.graph.values[name]
        kind = TensorProto.FLOAT if value.quant is not None else _PLAIN[value.dtype]
        return helper.make_tensor_value_info(tensor, kind, list(value.shape))
