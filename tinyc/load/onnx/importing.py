# SPDX-License-Identifier: Apache-2.0
"""What an importer of one ONNX operator works with: its inputs as graph values, and a way to add nodes.

Values keep the tensor names and the axis order of the file (images: NCHW). Operators that the graph
only knows for NHWC images are wrapped in transposes, which the passes remove.

`Value.loc.name` is the name of the model's tensor that holds the same elements, in whatever order; it
is empty for values that are no tensor of the model. The quantizer observes ranges by that name.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from onnx import TensorProto

from tinyc.base.errors import Loc, TinycError
from tinyc.base.limits import Constants, check_shape
from tinyc.ir.check import check_value
from tinyc.ir.graph import Array, DType, Graph, Labels, Node, Quant, Shape, Value, free_name, read_only
from tinyc.load.onnx.file import FLOATS, MICROSOFT, ML_DOMAIN, OnnxFile, OnnxInput, OnnxNode, decode
from tinyc.load.onnx.grids import HELD, Grid, Move
from tinyc.load.problems import FollowUpError
from tinyc.ops import is_a, node_of, op_with
from tinyc.ops.argmax import ArgMax
from tinyc.ops.choose import Choose
from tinyc.ops.dequantize import Dequantize
from tinyc.ops.gather import Gather
from tinyc.ops.integer_binary import IntegerBinary
from tinyc.ops.op import Trait
from tinyc.ops.quantize import Quantize
from tinyc.ops.requantize import Requantize
from tinyc.ops.reshape import Reshape
from tinyc.ops.sigmoid import Sigmoid
from tinyc.ops.signals import COUNT
from tinyc.ops.softmax import Softmax
from tinyc.ops.transpose import Transpose
from tinyc.ops.tree_ensemble import TreeEnsemble
from tinyc.ops.units import ChannelUnits

TO_NHWC: Mapping[int, tuple[int, ...]] = {3: (0, 2, 1), 4: (0, 2, 3, 1)}
FROM_NHWC: Mapping[int, tuple[int, ...]] = {3: (0, 2, 1), 4: (0, 3, 1, 2)}
_WEIGHTS = 1  # the input of a layer that holds them
_DTYPES: Mapping[type, DType] = {
    np.float32: "f32",
    np.int8: "s8",
    np.uint8: "u8",
    np.int16: "s16",
    np.uint16: "u16",
    np.int32: "s32",
    np.int64: "s64",
    np.bool_: "bool",
}
_INTEGERS: Mapping[int, type] = {
    TensorProto.INT8: np.int8,
    TensorProto.UINT8: np.uint8,
    TensorProto.INT16: np.int16,
    TensorProto.UINT16: np.uint16,
    TensorProto.INT4: np.int8,
    TensorProto.UINT4: np.uint8,
    TensorProto.INT2: np.int8,
    TensorProto.UINT2: np.uint8,
}
_NARROW = (TensorProto.INT4, TensorProto.UINT4, TensorProto.INT2, TensorProto.UINT2)
_PLAIN: Mapping[int, DType] = {  # integers that stand for themselves; 64 bits are 32 here
    TensorProto.BOOL: "bool",
    TensorProto.INT8: "s8",
    TensorProto.UINT8: "u8",
    TensorProto.INT16: "s16",
    TensorProto.INT32: "s32",
    TensorProto.INT64: "s32",
    TensorProto.UINT16: "u16",
    TensorProto.UINT32: "u32",
    TensorProto.UINT64: "u32",
    TensorProto.INT4: "s8",
    TensorProto.UINT4: "u8",
    TensorProto.INT2: "s8",
    TensorProto.UINT2: "u8",
}
_SUMS_AS_THEY_ARE = frozenset(  # operators that take integers which trees make; others take the reals that these mean
    {"ArgMax", "ArrayFeatureExtractor", "Flatten", "Gather", "Identity", "Reshape", "Slice", "Split", "Squeeze"}
    | {"Transpose", "Unsqueeze", "ZipMap"}
)
_ASKED: Mapping[type, tuple[DType, ...]] = {  # what these take beside floats
    ArgMax: ("s32",),
    Choose: ("bool",),
    Gather: ("s32",),
    Requantize: ("s32",),
    Sigmoid: ("s8",),
    Softmax: ("s16",),
    TreeEnsemble: ("s32",),
}
MOST_LABEL_BYTES = 1000  # of a text: C99 promises lines of 4,095 characters, of which a byte may take four


def written_twice(name: str, where: Loc) -> TinycError:
    return TinycError(f"'{name}' is made twice", where, "the file is damaged: convert or download it again")


class OnnxBuilder:
    """The graph under construction, filled node by node."""

    def __init__(self, file: OnnxFile, states: Iterable[str] = ()) -> None:
        self.file = file
        self.values: dict[str, Value] = {}
        self.consts: dict[str, Array] = {}
        self.nodes: list[Node] = []
        self.broken: set[str] = set()  # outputs of nodes that failed
        self._arrays: dict[str, Array] = {}  # constants of the file by name, decoded or folded
        self.folded, self._stored = Constants.folded(), Constants.stored()
        self.grids: dict[str, Grid] = {}  # those that DequantizeLinear makes of integers
        self.unsigned: set[str] = set()  # computed tensors that are unsigned in the file, signed here
        self._names = {*file.initializers, *(i.name for i in file.inputs)}
        self._names.update(name for node in file.nodes for name in node.outputs)
        self.read = {*file.outputs, *(name for node in file.nodes for name in node.reads)}
        self.state_inputs = frozenset(states)  # inputs that are state
        self.sums: set[str] = set()  # integers with a scale that trees make
        self.narrow: dict[str, int] = {}  # tensors of 4 and 2 bits, by TensorProto's number
        self.labels: dict[str, Labels] = {}  # what numbers stand for, by the value's name

    def unique(self, name: str) -> str:
        """The name, or the name with a number if it is taken."""
        free = free_name(name, self._names)
        self._names.add(free)
        return free

    def claim(self, name: str, where: Loc) -> None:
        """Say that a tensor of a body is made now. TinycError if there is one of that name."""
        if not name or name in self._names or name in self.values:
            raise written_twice(name, where)
        self._names.add(name)

    def add_input(self, info: OnnxInput) -> None:
        """Declare a model input; an open first dimension, the batch, becomes 1."""
        where = Loc(self.file.file, None, info.name)
        if info.elem_type not in FLOATS and info.elem_type not in _INTEGERS and info.elem_type not in _PLAIN:
            is_named = info.elem_type in TensorProto.DataType.values()
            name = TensorProto.DataType.Name(info.elem_type) if is_named else "an unknown type"
            raise TinycError(
                f"input '{info.name}' is {name}; tinyc takes floats, bool, and integers of 2 to 64 bits",
                where,
                "export the model with float inputs, or quantized ones",
            )
        open_axes = [axis for axis, size in enumerate(info.dims) if size is None and axis > 0]
        if open_axes:
            axis = open_axes[0]
            symbol = f" ('{info.symbols[axis]}')" if info.symbols[axis] else ""
            raise TinycError(
                f"input '{info.name}' has a variable size in dimension {axis}{symbol}",
                where,
                "export with a fixed input shape, or fix it with `python -m onnxruntime.tools."
                "make_dynamic_shape_fixed`; only the first dimension, the batch, may be open (it becomes 1)",
            )
        shape = tuple(1 if size is None else size for size in info.dims)
        check_shape(f"input '{info.name}'", shape, where)
        if info.elem_type in _NARROW:
            self.narrow[info.name] = info.elem_type
        if info.elem_type in FLOATS:
            self.values[info.name] = Value(info.name, shape, "f32", None, where)
            return
        from tinyc.load.onnx.ports import is_quantized, quant_of_input  # noqa: PLC0415  for inputs of integers alone

        if info.elem_type in _PLAIN and not is_quantized(self.file, info.name):
            kind = _PLAIN[info.elem_type]
            quant = COUNT if kind in ("s8", "u8", "s16") else None
            self.values[info.name] = Value(info.name, shape, kind, quant, where)
            return
        scale, zero = quant_of_input(self.file, self.constant, info.name, where)
        held, moved = HELD[_INTEGERS[info.elem_type]]
        if moved:
            self.unsigned.add(info.name)
        value = Value(info.name, shape, held, Quant((scale,), (zero - moved,)), where)
        check_value(value)
        self.values[info.name] = value

    def constant(self, name: str) -> Array | None:
        """The elements of a tensor that is known at load time, else None."""
        if name not in self._arrays and name in self.file.initializers:
            where = Loc(self.file.file, None, name)
            if min(self.file.initializers[name].dims, default=0) >= 0:
                self._stored.take(name, self.file.initializers[name].dims, where)
            self._arrays[name] = decode(self.file.initializers[name], self.file.folder, where)
        return self._arrays.get(name)

    def name_texts(self, name: str, texts: Sequence[str], by_value: bool = True) -> None:
        """Say what texts the numbers of a value stand for. Longer ones than a C compiler takes leave it without."""
        if texts and max(len(text.encode("utf-8", "replace")) for text in texts) <= MOST_LABEL_BYTES:
            self.labels[name] = Labels(tuple(texts), by_value)

    def fold(self, name: str, array: Array) -> None:
        """Record that a tensor is constant. Floats of any width become float32."""
        self._arrays[name] = np.asarray(array, np.float32) if array.dtype.kind == "f" else array

    def add_const(self, name: str, array: Array) -> Value:
        """A new constant value; float constants must be finite."""
        where = Loc(self.file.file, None, name)
        dtype = _DTYPES.get(array.dtype.type)
        if dtype is None:
            raise TinycError(f"constant '{name}' has element type {array.dtype}", where)
        if array.size == 0 or not np.isfinite(array).all():
            what = "is empty" if array.size == 0 else "contains NaN or infinity"
            raise TinycError(f"constant '{name}' {what}", where, "the model is damaged, or its training diverged")
        value = Value(self.unique(f"{name}:const"), array.shape, dtype, None, where)
        self.values[value.name] = value
        self.consts[value.name] = read_only(array)
        return value

    def add_integers(self, name: str, array: Array, dtype: DType) -> Value:
        """A new constant of integers that stand for themselves, or of truth values."""
        quant = COUNT if dtype in ("s8", "u8", "s16") else None
        value = Value(self.unique(f"{name}:const"), array.shape, dtype, quant, Loc(self.file.file, None, name))
        check_value(value)
        self.values[value.name] = value
        self.consts[value.name] = read_only(array)
        return value

    def add_grid(self, name: str, grid: Grid, axis: int | None) -> Value | None:
        """A new constant value of integers with one scale, or one per index of `axis`; None if that cannot be."""
        quant = grid.quant(axis)
        if quant is None or not all(np.isfinite(s) and s > 0 for s in quant.scale):
            return None
        where = Loc(self.file.file, None, name)
        value = Value(self.unique(f"{name}:const"), grid.ints.shape, grid.dtype, quant, where)
        check_value(value)
        self.values[value.name] = value
        self.consts[value.name] = read_only(grid.array())
        return value

    def graph(self, name: str) -> Graph:
        for output in self.file.outputs:
            if output not in self.values:
                self._store(output)
            self._check_declared(output)
        inputs = tuple(i.name for i in self.file.inputs)
        graph = Graph(name, inputs, self.file.outputs, tuple(self.nodes), self.values, self.consts, (), self._labels())
        graph = replace(graph, classical=self.file.classical)
        if not self.unsigned:
            return graph
        from tinyc.load.ports import with_unsigned_ports  # noqa: PLC0415  for ports of uint8 alone

        return with_unsigned_ports(graph, self.unsigned)

    def _store(self, output: str) -> None:
        """A node that makes a constant output of the model."""
        array, where = self.constant(output), Loc(self.file.file, None, output)
        if array is None:
            raise TinycError(f"output '{output}' is not computed", where, "name others with --outputs")
        if array.dtype.kind in "iu" and not np.array_equal(array, array.astype(np.int32)):
            raise TinycError(f"output '{output}' holds integers of more than 32 bits", where)
        const = self.add_const(output, array.astype(np.int32) if array.dtype.kind in "iu" else array)
        self.values[output] = replace(const, name=output)
        self.nodes.append(node_of(Reshape(const.shape), (const.name,), (output,), (where,), output))

    def _labels(self) -> dict[str, Labels]:
        """Of the outputs: texts stay with numbers that are only moved, but those of places do not."""
        labels = {}
        for output in self.file.outputs:
            held = next((self.labels[name] for name in self.moved_from(output) if name in self.labels), None)
            if held is not None and (held.by_value or output in self.labels):
                labels[output] = held
        return labels

    def moved_from(self, name: str) -> Sequence[str]:
        """The value, and those before it whose numbers it has, as all between only moves them; back to the first."""
        makers = {output: node for node in self.nodes for output in node.outputs}
        names = [name]
        while names[-1] in makers and is_a(makers[names[-1]], Trait.MOVES):
            names.append(makers[names[-1]].inputs[0])
        return names

    def _check_declared(self, output: str) -> None:
        """The shape that the file declares must be the one that its nodes make; open sizes fit any."""
        computed, declared = self.values[output].shape, self.file.declared.get(output)
        if declared is None or 0 in declared:
            return
        if declared[0] is None and any(node.domain == ML_DOMAIN for node in self.file.nodes):
            return  # scikit-learn's exporter declares [?] for [1, 1], and one column for several
        if len(computed) != len(declared) or any(n not in (None, m) for n, m in zip(declared, computed, strict=True)):
            says = ", ".join("?" if n is None else str(n) for n in declared)
            raise TinycError(
                f"the file declares output '{output}' as [{says}], but its nodes make {list(computed)}",
                Loc(self.file.file, None, output),
                "where the declaration is left over from another input size, take it out or export the model again;"
                " if onnxruntime makes the declared shape, please report the model",
            )


class OnnxStep:
    """One ONNX node being imported. Indices count the node's own inputs and outputs."""

    def __init__(self, builder: OnnxBuilder, node: OnnxNode) -> None:
        self.builder = builder
        self.node = node
        self.where = node.where
        self.opset = builder.file.opset
        self.looked_at: set[int] = set()  # indices of inputs

    def has(self, index: int) -> bool:
        self.looked_at.add(index)
        return index < len(self.node.inputs) and self.node.inputs[index] != ""

    @property
    def input_count(self) -> int:
        return len(self.node.inputs)

    def _name(self, index: int) -> str:
        if not self.has(index):
            raise TinycError(f"input {index} is missing", self.where)
        if self.node.inputs[index] in self.builder.broken:
            raise FollowUpError
        return self.node.inputs[index]

    def constant(self, index: int) -> Array | None:
        """The elements of an input that is known at load time; None if it is computed."""
        return self.builder.constant(self._name(index))

    def texts(self, index: int) -> tuple[str, ...]:
        """The elements of an input that is a constant tensor of texts; empty if it is not."""
        tensor = self.builder.file.initializers.get(self._name(index))
        if tensor is None or tensor.data_type != TensorProto.STRING:
            return ()
        return tuple(text.decode("utf-8", "replace") for text in tensor.string_data)

    def value(self, index: int) -> Value:
        """An input, computed or constant."""
        name = self._name(index)
        if name in self.builder.sums and self.node.op not in _SUMS_AS_THEY_ARE:
            return self.insert([self.builder.values[name]], Dequantize(), f"real{index}")
        if name in self.builder.values:
            return self.builder.values[name]
        array = self.builder.constant(name)
        assert array is not None  # read_onnx has checked that every tensor has a producer
        grid = self.builder.grids.get(name)
        if grid is not None and grid.dtype in ("s8", "s16"):
            held = self.builder.add_grid(name, grid, None)
            if held is not None:
                return self.insert([held], Dequantize(), held.name)
        if array.dtype.kind in "iu":
            raise TinycError(f"input '{name}' is a constant of {array.dtype}; expected floats", self.where)
        return self.builder.add_const(name, array)

    def numbers(self, index: int) -> tuple[int, ...]:
        """A constant list of integers (axes, pads, a shape)."""
        array = self.constant(index)
        if array is None:
            raise TinycError(
                f"input {index} '{self.node.inputs[index]}' is computed from the data; it must be a constant",
                self.where,
                "export the model with fixed shapes",
            )
        if array.dtype.kind not in "iu" or array.size > 64:
            raise TinycError(f"input {index} must be a short list of integers", self.where)
        return tuple(int(i) for i in array.reshape(-1))

    def number(self, index: int) -> int:
        """A constant integer (a length, an axis)."""
        numbers = self.numbers(index)
        if len(numbers) != 1:
            raise TinycError(f"input {index} has {len(numbers)} integers where one belongs", self.where)
        return numbers[0]

    def weights(self, index: int) -> Array:
        """A constant float input, finite."""
        array = self.constant(index)
        name = self.node.inputs[index]
        if array is None:
            raise TinycError(f"input {index} '{name}' is computed; the weights must be constants", self.where)
        if array.dtype != np.float32 or not np.isfinite(array).all():
            what = "contains NaN or infinity" if array.dtype == np.float32 else f"is {array.dtype}, not float"
            raise TinycError(f"constant '{name}' {what}", self.where, "train or export the model again")
        return array

    def weight(self, index: int, move: Move, axis: int, at_least_8: bool = False) -> Value:
        """Constant weights or bias, their elements moved: integers with a scale per index of `axis`, or floats.

        Integers with a zero point are shifted until it is 0, and widened to 16 bits if they leave 8 then. at_least_8:
        of 4 bits they fill 8.
        """
        grid = self.grid(index)
        if grid is None:
            return self.const(move(self.weights(index)), index)
        if at_least_8:
            grid = grid.in_8_bits()
        if grid.zero.any():
            raise TinycError(
                f"weights '{self.node.inputs[index]}' minus their zero point leave int16",
                self.where,
                "quantize the weights symmetrically (zero point 0), as int8",
            )
        value = self.builder.add_grid(self._name(index), grid.moved(move), axis)
        return value or self.const(move(grid.reals()), index)

    def grid(self, index: int) -> Grid | None:
        """The integers of constant weights or a bias, with zero point 0 if they can have that."""
        grid = self.builder.grids.get(self._name(index))
        return grid if grid is None or grid.dtype == "s32" else grid.centred(narrow=index == _WEIGHTS)

    def scalar(self, index: int, default: float) -> float:
        """A constant single number, `default` where the input is absent. May be infinite, never NaN."""
        if not self.has(index):
            return default
        array = self.constant(index)
        if array is None or array.size != 1 or array.dtype.kind not in "fiu":
            raise TinycError(f"input {index} must be a constant single number", self.where)
        number = float(array.reshape(()))
        if np.isnan(number):
            raise TinycError(f"input {index} is NaN", self.where)
        return number

    def const(self, array: Array, index: int) -> Value:
        """A new constant made from input `index` of the node."""
        return self.builder.add_const(self.node.inputs[index], np.asarray(array, np.float32))

    def insert(
        self,
        inputs: Sequence[Value | None],
        attrs: Any,
        suffix: str,
        tensor: str = "",
        quant: Quant | None = None,
    ) -> Value:
        """Add a node and its new output `<output of the ONNX node>:<suffix>`, shaped as the operator says.

        `tensor`: the model's tensor whose elements it holds, if it does. quant: of an output in integers.
        """
        name = self.builder.unique(f"{self.node.outputs[0]}:{suffix}")
        return self._add(inputs, attrs, name, tensor, quant)

    def insert_all(self, inputs: Sequence[Value | None], attrs: Any, suffixes: Sequence[str]) -> list[Value]:
        """Add a node of floats with several outputs, named as `insert` does."""
        self._check_integers(attrs, False, inputs)
        values = []
        for suffix, type_ in zip(suffixes, op_with(attrs).infer(attrs, *inputs), strict=True):
            loc = Loc(self.where.file, self.where.node, "", self.where.op)
            name = self.builder.unique(f"{self.node.outputs[0]}:{suffix}")
            values.append(Value(name, type_.shape, type_.dtype, None, loc))
            check_shape("its output", type_.shape, self.where)
        names = tuple("" if x is None else x.name for x in inputs)
        self.builder.nodes.append(node_of(attrs, names, tuple(value.name for value in values), (self.where,)))
        self.builder.values.update((value.name, value) for value in values)
        return values

    def is_state(self, x: Value | None) -> bool:
        """Whether a value is a state of the model, or a part of one."""
        makers = {node.outputs[0]: node for node in self.builder.nodes if Trait.MOVES in op_with(node.attrs).traits}
        while x is not None and x.name in makers:
            x = self.builder.values[makers[x.name].inputs[0]]
        return x is not None and x.name in self.builder.state_inputs

    def emit(self, inputs: Sequence[Value | None], attrs: Any, quant: Quant | None = None, output: int = 0) -> None:
        """Add the (last) node: it computes an output of the ONNX node, in integers if `quant` is given."""
        name = self.node.outputs[output]
        self._add(inputs, attrs, name, name, quant)

    def _add(
        self,
        inputs: Sequence[Value | None],
        attrs: Any,
        name: str,
        tensor: str,
        quant: Quant | None = None,
    ) -> Value:
        op = op_with(attrs)
        # Between DequantizeLinear and QuantizeLinear, these work on integers as well: they move or compare them.
        moves = not op.traits.isdisjoint({Trait.MOVES, Trait.SELECTS})
        self._check_integers(attrs, moves, inputs)
        (type_,) = op.infer(attrs, *inputs)
        loc = Loc(self.where.file, self.where.node, tensor, self.where.op)
        if moves and inputs and inputs[0] is not None:
            quant = inputs[0].quant
            if not self.builder.unsigned.isdisjoint(x.name for x in inputs if x):
                self.builder.unsigned.add(name)
        if isinstance(attrs, IntegerBinary) and type_.dtype in ("s8", "u8", "s16"):
            quant = COUNT
        value = Value(name, type_.shape, type_.dtype, quant, loc)
        check_value(value)
        check_shape("its output", value.shape, self.where)
        names = tuple("" if x is None else x.name for x in inputs)
        self.builder.nodes.append(node_of(attrs, names, (name,), (self.where,)))
        self.builder.values[name] = value
        if isinstance(attrs, TreeEnsemble) or (value.quant is not None and not self.builder.sums.isdisjoint(names)):
            self.builder.sums.add(name)
        return value

    def _check_integers(self, attrs: Any, moves: bool, inputs: Sequence[Value | None]) -> None:
        """Float operators take floats: integers pass only through what moves them."""
        computed = [x for x in inputs if x is not None and x.name not in self.builder.consts]
        taken = ("f32", *_ASKED.get(type(attrs), ()))
        as_they_are = Trait.ANY_TYPE in op_with(attrs).traits
        integers = [x for x in computed if x.dtype not in taken and not (as_they_are and is_plain(x))]
        if moves:
            if len({x.quant for x in computed}) > 1:
                raise TinycError(
                    f"{op_with(attrs).name} of tensors with different scales or zero points cannot be compiled",
                    self.where,
                )
        elif integers and not isinstance(attrs, Quantize | Dequantize | ChannelUnits):
            raise TinycError(
                f"{self.where.op} of integers ('{integers[0].name}') is not supported",
                self.where,
                "quantized models have it between DequantizeLinear and QuantizeLinear",
            )

    def reshape(self, x: Value, shape: Shape, suffix: str) -> Value:
        """x under another shape; x itself where that changes nothing."""
        if x.shape == shape:
            return x
        return self.insert([x], Reshape(shape), suffix, x.loc.name if x.loc else "")

    def transpose(self, x: Value, perm: tuple[int, ...], suffix: str) -> Value:
        """x with its axes in another order; x itself where that changes nothing."""
        if perm == tuple(range(len(x.shape))):
            return x
        return self.insert([x], Transpose(perm), suffix, x.loc.name if x.loc else "")

    def image(self, index: int) -> Value:
        """Input `index`, NCHW or NCW with batch 1, as an image [1,H,W,C]; NCW has height 1."""
        x = self.value(index)
        rank = len(x.shape)
        if rank not in TO_NHWC or x.shape[0] != 1:
            hint = "export the model with batch size 1" if rank in TO_NHWC else ""
            raise TinycError(
                f"input '{x.name}' has shape {list(x.shape)}; expected [1, C, H, W] or [1, C, W]",
                self.where,
                hint,
            )
        y = self.transpose(x, TO_NHWC[len(x.shape)], "x_nhwc")
        return self.reshape(y, (1, 1, *y.shape[1:]), "x_2d") if len(x.shape) == 3 else y

    def emit_image(self, inputs: Sequence[Value | None], attrs: Any, *, rank: int) -> None:
        """Add an NHWC operator whose result the model wants as NCHW (rank 4) or NCW (rank 3)."""
        tensor = self.node.outputs[0]
        y = self.insert(inputs, attrs, "nhwc", tensor)
        if rank == 3:
            y = self.reshape(y, (y.shape[0], *y.shape[2:]), "nwc")
        self.emit([y], Transpose(FROM_NHWC[rank]))

    def axis(self, axis: int, rank: int) -> int:
        """The axis counted from the front."""
        if not -rank <= axis < rank:
            raise TinycError(f"axis {axis} does not fit a tensor of rank {rank}", self.where)
        return axis % rank


Importer = Callable[[OnnxStep], None]
IMPORTERS: dict[str, Importer] = {}
LEARNING: dict[str, Importer] = {}  # those of ai.onnx.ml, by name without the domain
RUNTIME: dict[str, Importer] = {}  # those of com.microsoft
IMPORTERS_OF: Mapping[str, dict[str, Importer]] = {"": IMPORTERS, ML_DOMAIN: LEARNING, MICROSOFT: RUNTIME}
WHOLE: dict[str, Importer] = {}  # of operators whose computed inputs are integers without a scale, or truth values
IGNORED: dict[str, frozenset[str | int]] = {}  # by `OnnxNode.full_name`


def imports(*ops: str, ignores: Iterable[str | int] = (), domain: str = "") -> Callable[[Importer], Importer]:
    """Register a function as the importer of ONNX operators of the standard domain, ML_DOMAIN or MICROSOFT.

    `ignores`: attributes by name and inputs by index that change nothing in what it emits; see `load.looked`.
    """

    def register(importer: Importer) -> Importer:
        for op in ops:
            IMPORTERS_OF[domain][op] = importer
            IGNORED[f"{domain}.{op}" if domain else op] = frozenset(ignores)
        return importer

    return register


def on_integers(*ops: str, ignores: Iterable[str] = ()) -> Callable[[Importer], Importer]:
    """Register a function as the importer of operators whose inputs are plain integers. `ignores`: as `imports` has it,
    of operators that `imports` does not know."""

    def register(importer: Importer) -> Importer:
        for op in ops:
            WHOLE[op] = importer
            IGNORED.setdefault(op, frozenset(ignores))
        return importer

    return register


def is_plain(value: Value) -> bool:
    """Whether a tensor holds integers that stand for themselves, or truth values."""
    return value.dtype != "f32" and (value.quant is None or value.quant == COUNT)
