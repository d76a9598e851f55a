# SPDX-License-Identifier: Apache-2.0
"""From the file's tensors to the graph's values: what an importer of one TFLite operator works with."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, Protocol

import numpy as np

from tinyc.base.dataclass import dataclass
from tinyc.base.errors import Loc, TinycError
from tinyc.base.limits import Constants
from tinyc.ir.check import check_const, check_types, check_value
from tinyc.ir.graph import NUMPY_DTYPE, Array, DType, Graph, Node, Quant, Shape, State, Value, read_only
from tinyc.load.ports import with_unsigned_ports
from tinyc.load.problems import FollowUpError
from tinyc.load.tflite_arrays import array_of, dtype_of, elements, is_unscaled, is_unsigned, quant_of
from tinyc.load.tflite_file import StoredOperator, StoredTensor, TFLiteFile
from tinyc.load.tflite_options import OptionsTable
from tinyc.ops import all_ops, is_a, node_of, op_with
from tinyc.ops.concat import Concat
from tinyc.ops.lookup import Lookup, of_bytes
from tinyc.ops.op import Trait
from tinyc.ops.pad import Pad
from tinyc.ops.reshape import Reshape

MAX_LIST = 64  # axes, paddings, shapes: at most 2 * MAX_RANK, splits somewhat more
INT8_MAX = 127


@dataclass
class Variable:
    """A resource variable while its operators are imported: its bytes after a reset, what a run begins with (if that is
    read), and what it holds now."""

    initial: bytes | None = None
    before: Value | None = None
    now: Value | None = None
    where: Loc | None = None


class Deferred(Protocol):
    """A tensor that no node makes unless an operator reads it as it is."""

    @property
    def shape(self) -> Shape:
        """Of the tensor, or with an axis of size 1 more."""

    def make(self) -> Value:
        """Add the nodes that make it."""

    def reshaped(self, s: TfliteStep, shape: Shape) -> Deferred | None:
        """The output of `s` as the same tensor under another shape; None where it has to be made for that."""


class TfliteBuilder:
    """The graph under construction, filled operator by operator."""

    def __init__(self, file: TFLiteFile) -> None:
        self.file = file
        self.values: dict[str, Value] = {}
        self.consts: dict[str, Array] = {}
        self.nodes: list[Node] = []
        self.activations: dict[int, Value] = {}  # by tensor index
        self.unscaled: set[str] = set()  # int16 values that the file gives no scale
        self.broken: set[int] = set()  # outputs of operators that failed
        self.deferred: dict[int, Deferred] = {}
        self.outputs: list[Value] = []  # of the model, those that are settled
        self.states: list[State] = []
        self.variables: dict[str, Variable] = {}  # by name
        self.handles: dict[int, str] = {}  # names of variables by the tensors that stand for them
        self.folded = Constants.folded()
        self._folded: dict[int, Array] = {}  # tensors that became constant at load time
        self._shared: dict[tuple[object, ...], Value] = {}  # constants by tensor, shape and axis
        self._used: dict[str, int] = {}  # name -> the largest number it was given
        self._names = self._tensor_names()

    def include(self, tensors: Sequence[StoredTensor]) -> int:
        """Take tensors of another subgraph in, behind those that there are; where the first lies then."""
        first = len(self.file.tensors)
        copies = (replace(tensor, index=first + k) for k, tensor in enumerate(tensors))
        self.file = replace(self.file, tensors=(*self.file.tensors, *copies))
        self._names += [self.unique(tensor.name) for tensor in tensors]
        return first

    def unique(self, name: str) -> str:
        """The name, or the name with a number if it is taken."""
        candidate = name
        while candidate in self._used:
            self._used[name] += 1
            candidate = f"{name}#{self._used[name]}"
        self._used[candidate] = 1
        return candidate

    def _tensor_names(self) -> list[str]:
        """A name for every tensor. Where constants share one with an activation, they get the number."""
        names = [""] * len(self.file.tensors)
        for tensor in sorted(self.file.tensors, key=lambda t: t.data is not None):
            names[tensor.index] = self.unique(tensor.name)
        return names

    def name_of(self, tensor: StoredTensor) -> str:
        """The name of the tensor's value."""
        return self._names[tensor.index]

    def declare(self, tensor: StoredTensor, where: Loc) -> Value:
        """A new value for an activation, as the file describes it. TinycError if that makes no sense."""
        if tensor.refused:
            raise TinycError(f"tensor '{tensor.name}' {tensor.refused}", where)
        self._check_free(tensor, where)
        elements(tensor, where)
        dtype = dtype_of(tensor, where)
        here = replace(where, tensor=tensor.whole_name)
        value = Value(self._names[tensor.index], tensor.shape, dtype, quant_of(tensor, dtype), here)
        if value.quant is not None and value.quant.axis is not None:
            raise TinycError(f"tensor '{tensor.name}' has {len(tensor.scale)} scales; activations have one", where)
        check_value(value)
        if is_unscaled(tensor, dtype):
            self.unscaled.add(value.name)
        return value

    def define(self, index: int, value: Value) -> None:
        self.values[value.name] = value
        self.activations[index] = value

    def settle(self, index: int) -> None:
        """Make a deferred tensor now."""
        if index in self.deferred and index not in self.activations:
            self.define(index, self.deferred[index].make())

    def settle_output(self, index: int) -> None:
        """Make the next output of the model now: what was deferred, a constant, or a copy of an input or of another
        output."""
        self.settle(index)
        tensor = self.file.tensors[index]
        where = Loc(self.file.file, None, tensor.name)
        array = None if index in self.activations else self.constant(tensor, where)
        if array is not None:
            dtype = dtype_of(tensor, where)
            self.define(index, self._copy(self.share(tensor, array, quant_of(tensor, dtype), dtype), where))
        elif index not in self.activations:
            raise TinycError(f"output '{tensor.name}' is not computed by any operator", Loc(self.file.file))
        value = self.activations[index]
        self.outputs.append(self._copy(value, where) if index in self.file.inputs or value in self.outputs else value)

    def _copy(self, value: Value, where: Loc) -> Value:
        """A new value with the same numbers."""
        copy = replace(value, name=self.unique(value.name), loc=where)
        self.nodes.append(node_of(Reshape(value.shape), (value.name,), (copy.name,), (where,)))
        self.values[copy.name] = copy
        return copy

    def table(self, value: Value, entries: Array) -> Value:
        """A constant that says for each byte, -128 to 127, what it becomes among those of the value."""
        table = Value(self.unique(f"{value.name}:table"), (256,), "s8", value.quant)
        self.values[table.name], self.consts[table.name] = table, read_only(of_bytes(entries).astype(np.int8))
        return table

    def constant(self, tensor: StoredTensor, where: Loc) -> Array | None:
        """The tensor's elements if they are known when the model is loaded."""
        if tensor.index in self._folded:
            return self._folded[tensor.index]
        if tensor.data is None or tensor.refused:
            return None
        array = array_of(tensor, dtype_of(tensor, where), where)
        if tensor.sparsity is not None:  # larger than what the file holds
            self.folded.take(tensor.name, tensor.shape, where)
            self._folded[tensor.index] = array
        return array

    def _check_free(self, tensor: StoredTensor, where: Loc) -> None:
        if tensor.data is not None or tensor.index in self.activations or tensor.index in self._folded:
            raise TinycError(f"tensor '{tensor.name}' is computed, but it has a value already", where)

    def fold(self, tensor: StoredTensor, array: Array, where: Loc) -> None:
        """Record that an output is constant after all: computed from shapes or constants."""
        self._check_free(tensor, where)
        self._folded[tensor.index] = read_only(array)

    def share(self, tensor: StoredTensor, array: Array, quant: Quant | None, dtype: DType) -> Value:
        """The value of a constant, made once per tensor, shape and quantization."""
        key = (tensor.index, array.shape, quant)
        if key not in self._shared:
            loc = Loc(self.file.file, None, tensor.name)
            name = self._names[tensor.index]
            if name in self.values:  # the same tensor in another shape
                name = self.unique(name)
            value = Value(name, array.shape, dtype, quant, loc)
            check_value(value)
            check_const(value, array)
            self._shared[key] = self.values[value.name] = value
            self.consts[value.name] = array
        return self._shared[key]

    def graph(self, name: str) -> Graph:
        inputs = tuple(self.activations[i].name for i in self.file.inputs)
        outputs = tuple(value.name for value in self.outputs)
        graph = Graph(name, inputs, outputs, tuple(self.nodes), self.values, self.consts, tuple(self.states))
        ports = zip((*self.file.inputs, *self.file.outputs), (*inputs, *outputs), strict=True)
        unsigned = {port for index, port in ports if self._is_unsigned(index)}
        return with_unsigned_ports(graph, unsigned)

    def _is_unsigned(self, index: int) -> bool:
        return is_unsigned(self.file.tensors[index])


class TfliteStep:
    """One TFLite operator being imported. Indices count the operator's own inputs and outputs."""

    def __init__(self, builder: TfliteBuilder, operator: StoredOperator) -> None:
        self.builder = builder
        self.operator = operator
        self.where = operator.where
        self.looked_at: set[int] = set()  # indices of inputs

    def options(self, kind: str) -> OptionsTable:
        """The options table, which must be of the given type (`Conv2DOptions`)."""
        if self.operator.options_type != kind or self.operator.options.table is None:
            raise TinycError(f"the operator has options {self.operator.options_type}, not {kind}", self.where)
        return self.operator.options

    def has(self, index: int) -> bool:
        self.looked_at.add(index)
        return index < len(self.operator.inputs) and self.operator.inputs[index] != -1

    @property
    def input_count(self) -> int:
        return len(self.operator.inputs)

    @property
    def output_count(self) -> int:
        return len(self.operator.outputs)

    def tensor(self, index: int) -> StoredTensor:
        if not self.has(index):
            raise TinycError(f"input {index} is missing", self.where)
        return self.builder.file.tensors[self.operator.inputs[index]]

    def out_tensor(self, index: int = 0) -> StoredTensor:
        if index >= len(self.operator.outputs):
            raise TinycError(f"output {index} is missing", self.where)
        return self.builder.file.tensors[self.operator.outputs[index]]

    def type_of(self, index: int) -> str:
        """What the file says of an input's elements, for a message: `uint8`, which the graph holds as int8."""
        return self.tensor(index).type.lower()

    def value(self, index: int) -> Value:
        """An input, computed or constant."""
        tensor = self.tensor(index)
        self.builder.settle(tensor.index)
        if tensor.index in self.builder.activations:
            return self.builder.activations[tensor.index]
        array = self.constant(index)
        if array is not None:
            dtype = dtype_of(tensor, self.where)
            return self.builder.share(tensor, array, quant_of(tensor, dtype), dtype)
        if tensor.index in self.builder.broken:
            raise FollowUpError
        if tensor.refused:
            raise TinycError(f"tensor '{tensor.name}' {tensor.refused}", self.where)
        raise TinycError(f"tensor '{tensor.name}' is read before any operator computes it", self.where)

    def image(self, index: int) -> Value:
        """An input that is one NHWC picture."""
        value = self.value(index)
        if len(value.shape) != 4 or value.shape[0] != 1:
            raise TinycError(
                f"input '{value.name}' has shape {list(value.shape)}, expected [1, height, width, channels]",
                self.where,
                "export the model with batch size 1",
            )
        return value

    def constant(self, index: int) -> Array | None:
        """The elements of an input that is known at load time, else None."""
        return self.builder.constant(self.tensor(index), self.where)

    def required_constant(self, index: int, what: str) -> Array:
        """The elements of an input that must be known at load time; `what` it is, for the message."""
        array = self.constant(index)
        if array is not None:
            return array
        tensor = self.tensor(index)
        if tensor.index in self.builder.broken:
            raise FollowUpError
        raise TinycError(f"{what} '{tensor.name}' must be a constant, but is computed at run time", self.where)

    def reals(self, index: int, what: str) -> Array:
        """The float32 numbers that a constant input stands for; `what` it is, for the message."""
        tensor, array = self.tensor(index), self.required_constant(index, what)
        dtype = dtype_of(tensor, self.where)
        value = Value(tensor.name, array.shape, dtype, quant_of(tensor, dtype))
        check_value(value)
        check_const(value, array)
        return array if value.quant is None else value.quant.dequantize(array)

    def numbers(self, index: int) -> tuple[int, ...]:
        """A constant integer input (axes, paddings, a shape), flattened. TinycError if it is computed."""
        tensor, array = self.tensor(index), self.required_constant(index, f"input {index}")
        if array.dtype.kind not in "iu" or array.size > MAX_LIST:
            raise TinycError(f"input {index} '{tensor.name}' must be a short list of integers", self.where)
        return tuple(int(i) for i in array.reshape(-1))

    def weights(self, index: int, x: Value, axis: int, shape: Shape | None = None) -> Value:
        """Constant weights for input `x`, symmetric if quantized, reshaped if asked.

        `axis`: the output channel, counted after the reshape.
        """
        tensor, array = self.tensor(index), self.required_constant(index, "weights")
        self._check_dtypes("a weighted layer", True, (x,))
        dtype = dtype_of(tensor, self.where)
        if dtype not in (("f32", "s8") if x.dtype == "f32" else ("s8", "s4")):
            raise TinycError(
                f"weights '{tensor.name}' are {tensor.type.lower()}, but the input '{x.name}' is {self.type_of(0)}",
                self.where,
                "convert the model again: integer activations need integer weights",
            )
        shaped = array if shape is None else read_only(array.reshape(shape))
        quant = quant_of(tensor, dtype, axis)
        if quant is not None:
            check_value(Value(tensor.name, shaped.shape, dtype, quant))
        if x.dtype == "f32" and quant is not None:  # dynamic range: the integers only save room in the file
            shaped, quant, dtype = read_only(quant.dequantize(shaped)), None, "f32"
        if quant is not None and any(quant.zero):
            shaped, quant, dtype = self._centred(tensor, shaped, quant)
        return self.builder.share(tensor, shaped, quant, dtype)

    def _centred(self, tensor: StoredTensor, array: Array, quant: Quant) -> tuple[Array, Quant, DType]:
        """Weights without their zero point, in 8 bits if they fit (-128 is left out), else in 16."""
        if len(quant.zero) != 1:
            raise TinycError(f"weights '{tensor.name}' have a zero point for every channel", self.where)
        centred = array.astype(np.int16) - np.int16(quant.zero[0])
        dtype: DType = "s8" if np.abs(centred).max() <= INT8_MAX else "s16"
        return read_only(centred.astype(NUMPY_DTYPE[dtype])), Quant(quant.scale, (0,), quant.axis), dtype

    def bias(self, index: int, x: Value, w: Value) -> Value | None:
        """The bias [O] if there is one. Integer biases stand for q * x.scale * w.scale, as runtimes use them.

        The file's own scales repeat that product (or are wrong, and ignored by the runtimes).
        """
        if not self.has(index):
            return None
        tensor, array = self.tensor(index), self.required_constant(index, "bias")
        dtype = dtype_of(tensor, self.where)
        if x.quant is None or w.quant is None or dtype == "f32":
            return self.builder.share(tensor, array, None, dtype)
        if len(x.quant.scale) != 1:
            raise TinycError(
                f"input '{x.name}' has {len(x.quant.scale)} scales; activations have one",
                self.where,
                "convert the model again: only weights are quantized per channel",
            )
        x_scale, _ = x.quant.per_tensor
        scale = tuple(x_scale * s for s in w.quant.scale)
        axis = 0 if len(scale) > 1 else None
        return self.builder.share(tensor, array, Quant(scale, (0,) * len(scale), axis), dtype)

    def fold(self, array: Array) -> None:
        """The operator's output is this constant: no node."""
        self.builder.fold(self.out_tensor(), array, self.where)

    def declared(self, index: int = 0) -> Value:
        """A new value as the file describes output `index`."""
        return self.builder.declare(self.out_tensor(index), self.where)

    def between(self, suffix: str, shape: Shape, like: Value) -> Value:
        """A new value that is no tensor of the file, with the dtype and quantization of `like`."""
        name = self.builder.unique(f"{self.builder.name_of(self.out_tensor())}:{suffix}")
        here = replace(self.where, tensor=self.out_tensor().whole_name)
        return Value(name, shape, like.dtype, like.quant, here)

    def of_floats(self, suffix: str, shape: Shape) -> Value:
        """A new float32 value that is no tensor of the file, named after the output."""
        return Value(
            self.builder.unique(f"{self.builder.name_of(self.out_tensor())}:{suffix}"), shape, "f32", None, self.where
        )

    def emit(self, inputs: Sequence[Value | None], attrs: Any, *outputs: Value) -> None:
        """Add the operator's (last) node. Outputs: those that the file declares, unless given."""
        self.out_tensor()  # every operator has one
        results = outputs or self._declared_outputs(inputs, attrs)
        if len(results) != len(self.operator.outputs):
            raise TinycError(f"{len(self.operator.outputs)} outputs where {len(results)} belong", self.where)
        self.insert(inputs, attrs, *results)
        for index, value in zip(self.operator.outputs, results, strict=True):
            self.builder.define(index, value)

    def _declared_outputs(self, inputs: Sequence[Value | None], attrs: Any) -> tuple[Value, ...]:
        """The outputs as the file declares them. Where the exporter left sizes open and wrote 1 for each that hangs on
        the batch, the shape is the one that the operator makes."""
        declared = tuple(self.declared(i) for i in range(len(self.operator.outputs)))
        if not any(-1 in self.out_tensor(i).signature for i in range(len(declared))):
            return declared
        try:
            types = op_with(attrs).infer(attrs, *inputs)
        except TinycError as e:
            raise e.located(self.where) from e
        return tuple(
            replace(value, shape=types[i].shape) if i < len(types) and -1 in self.out_tensor(i).signature else value
            for i, value in enumerate(declared)
        )

    @property
    def deferred(self) -> Deferred | None:
        """The first input where it is not made yet."""
        return self.builder.deferred.get(self.tensor(0).index)

    def defer(self, deferred: Deferred) -> None:
        """Say what the operator's output is, without a node."""
        self.builder.deferred[self.out_tensor().index] = deferred

    def define(self, index: int, value: Value) -> None:
        """Say that output `index` is a value that `insert` has made."""
        self.builder.define(self.operator.outputs[index], value)

    def variable(self, index: int) -> tuple[Value, Value]:
        """(before, after) of a variable tensor, whose real value is 0 after a reset: what it holds when the operator
        begins, and the new value that the operator's node has to compute."""
        tensor = self.tensor(index)
        if not tensor.is_variable:
            raise TinycError(f"tensor '{tensor.name}' must be a variable", self.where)
        if any(state.name == self.builder.name_of(tensor) for state in self.builder.states):
            raise TinycError(f"variable '{tensor.name}' belongs to two operators", self.where)
        before = self.builder.declare(replace(tensor, refused=""), self.where)
        self.builder.values[before.name] = before
        after = replace(before, name=self.builder.unique(f"{before.name}:next"))
        zero = before.quant.per_tensor[1] if before.quant else 0
        initial = np.full(before.shape, zero, np.dtype(NUMPY_DTYPE[before.dtype]).newbyteorder("<")).tobytes()
        self.builder.states.append(State(before.name, after.name, initial))
        return before, after

    def number(self, number: float, suffix: str) -> Value:
        """A new float constant of one element, named after the output."""
        name = self.builder.unique(f"{self.builder.name_of(self.out_tensor())}:{suffix}")
        value = Value(name, (), "f32", None, self.where)
        self.builder.values[value.name] = value
        self.builder.consts[value.name] = read_only(np.array(number, np.float32))
        return value

    def insert(self, inputs: Sequence[Value | None], attrs: Any, *outputs: Value) -> None:
        """Add a node that computes the given new values; its attributes say which operator it is."""
        names = tuple("" if value is None else value.name for value in inputs)
        node = node_of(attrs, names, tuple(v.name for v in outputs), (self.where,))
        if not is_a(node, Trait.ANY_TYPE):
            self._check_dtypes(node.op, is_a(node, Trait.INT16), (*inputs, *outputs))
        if is_a(node, Trait.MOVES) and not isinstance(attrs, Concat | Pad) and _of_other_scales(inputs[0], outputs[0]):
            self._insert_bytes(inputs, attrs, outputs[0])
            return
        by_name = {value.name: value for value in (*inputs, *outputs) if value is not None}
        check_types(node, by_name, all_ops())
        self.builder.nodes.append(node)
        for value in outputs:
            self.builder.values[value.name] = value

    def _insert_bytes(self, inputs: Sequence[Value | None], attrs: Any, y: Value) -> None:
        """A node that moves bytes which the file then reads in another scale, as both runtimes do."""
        x = inputs[0]
        assert x is not None
        moved = self.between("moved", y.shape, x)
        self.insert(inputs, attrs, moved)
        self.insert((moved, self.builder.table(y, np.arange(-128, 128))), Lookup(), y)

    def _check_dtypes(self, what: str, wide: bool, values: Sequence[Value | None]) -> None:
        for value in values:
            if value is None or value.name in self.builder.consts:
                continue
            if value.name in self.builder.unscaled:
                raise TinycError(f"'{value.name}' is s16 but has no scale and zero point", self.where)
            if value.dtype not in ("f32", "s8", *(("s16",) if wide else ())):
                raise TinycError(
                    f"{what} on {value.dtype} activations ('{value.name}')",
                    self.where,
                    "tinyc computes in int8 or float32; convert the model with int8 quantization",
                )


def _of_other_scales(x: Value | None, y: Value) -> bool:
    return x is not None and x.dtype == y.dtype == "s8" and None not in (x.quant, y.quant) and x.quant != y.quant


def poison(builder: TfliteBuilder, operator: StoredOperator) -> None:
    """After a failure: let later operators read the outputs as the file describes them, where possible."""
    for index in operator.outputs:
        if index in builder.activations:
            continue
        try:
            builder.define(index, builder.declare(builder.file.tensors[index], operator.where))
        except TinycError:
            builder.broken.add(index)
