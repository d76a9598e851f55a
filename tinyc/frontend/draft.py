# SPDX-License-Identifier: Apache-2.0
"""The nodes before a model while they are made."""

from __future__ import annotations

from tinyc.ir.graph import Array, DType, Graph, Node, Quant, State, Value, free_name, read_only
from tinyc.ops import node_of, op_with
from tinyc.ops.signals import COUNT

_DTYPES: dict[str, DType] = {"float32": "f32", "int8": "s8", "int16": "s16", "int32": "s32", "uint64": "u64"}


class Draft:
    """quant, dtype: of the features that the model gets; None: reals. Names differ from all of the model's."""

    def __init__(self, graph: Graph, quant: Quant | None, dtype: DType = "s8") -> None:
        self._quant, self.dtype = quant, dtype
        self.nodes: list[Node] = []
        self.values: dict[str, Value] = {}
        self.consts: dict[str, Array] = {}
        self.states: list[State] = []
        self._taken = {*graph.values, *(node.name for node in graph.nodes)}
        self._tables: dict[str, Value] = {}

    @property
    def gives_reals(self) -> bool:
        return self._quant is None

    @property
    def quant(self) -> Quant:
        """Of features that are integers."""
        assert self._quant is not None
        return self._quant

    def _free(self, name: str) -> str:
        free = free_name(name, self._taken)
        self._taken.add(free)
        return free

    def value(self, name: str, shape: tuple[int, ...], dtype: DType, quant: Quant | None = None) -> Value:
        value = Value(self._free(name), shape, dtype, quant or (COUNT if dtype in ("s8", "u8", "s16") else None))
        self.values[value.name] = value
        return value

    def table(self, name: str, array: Array) -> Value:
        """A constant, made once."""
        if name not in self._tables:
            value = self.value(name, array.shape, _DTYPES[array.dtype.name])
            self._tables[name] = value
            self.consts[value.name] = read_only(array)
        return self._tables[name]

    def state(
        self, name: str, like: tuple[tuple[int, ...], DType], initial: bytes, quant: Quant | None = None
    ) -> tuple[Value, Value]:
        """(before, after). initial: what is there at first, again and again."""
        shape, dtype = like
        before = self.value(name, shape, dtype, quant)
        after = self.value(f"{name}:next", shape, dtype, quant)
        self.states.append(State(before.name, after.name, initial * (before.size_bytes // len(initial))))
        return before, after

    def node(self, attrs: object, inputs: tuple[Value, ...], outputs: tuple[Value, ...] = (), name: str = "") -> Value:
        """A node, and its outputs unless they are given; the first of them."""
        return self.node_with(attrs, inputs, outputs, name)[0]

    def node_with(
        self, attrs: object, inputs: tuple[Value, ...], outputs: tuple[Value, ...] = (), name: str = ""
    ) -> tuple[Value, ...]:
        """The same with all outputs."""
        if not outputs:
            kinds = op_with(attrs).infer(attrs, *inputs)
            quants = [self.quant if kind.dtype == "s8" else None for kind in kinds]
            outputs = tuple(self.value(name, k.shape, k.dtype, q) for k, q in zip(kinds, quants, strict=True))
        names = [value.name for value in outputs]
        self.nodes.append(node_of(attrs, [value.name for value in inputs], names))
        return outputs
