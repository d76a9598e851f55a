# SPDX-License-Identifier: Apache-2.0
"""The graph that every stage reads and returns: values, nodes, constants, joined by name.

Nothing here changes after construction; a pass builds a new Graph with `dataclasses.replace`.
Producers and consumers are computed from the nodes, never stored.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping
from dataclasses import field
from types import MappingProxyType
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from tinyc.base.dataclass import dataclass
from tinyc.base.errors import Loc

DType = Literal["f32", "s4", "s8", "u8", "s16", "s32", "s64", "u16", "u32", "u64", "bool"]
Shape = tuple[int, ...]
Array = npt.NDArray[Any]

NUMPY_DTYPE: Mapping[str, type] = MappingProxyType(
    {
        "f32": np.float32,
        "s4": np.int8,  # one element per byte in Python; packed two per byte when a kernel wants it
        "s8": np.int8,
        "u8": np.uint8,
        "s16": np.int16,
        "s32": np.int32,
        "s64": np.int64,
        "u16": np.uint16,  # this, u32 and u64: never with a scale
        "u32": np.uint32,
        "u64": np.uint64,
        "bool": np.bool_,
    }
)
INT_RANGE: Mapping[str, tuple[int, int]] = MappingProxyType(
    {"s4": (-8, 7), "s8": (-128, 127), "u8": (0, 255), "s16": (-32768, 32767), "s32": (-(2**31), 2**31 - 1)}
    | {"s64": (-(2**63), 2**63 - 1), "u16": (0, 65535), "u32": (0, 2**32 - 1), "u64": (0, 2**64 - 1), "bool": (0, 1)}
)
_BYTES = {"f32": 4, "s8": 1, "u8": 1, "s16": 2, "s32": 4, "s64": 8, "u16": 2, "u32": 4, "u64": 8, "bool": 1}


@dataclass(frozen=True, slots=True)
class Quant:
    """real = scale * (q - zero), for the whole tensor (`axis` None) or per index of `axis`, which counts from the last
    one as -1 where samples may lie in front of the tensor's own axes."""

    scale: tuple[float, ...]
    zero: tuple[int, ...]
    axis: int | None = None

    @property
    def per_tensor(self) -> tuple[float, int]:
        """(scale, zero) of a tensor that has one of each; ValueError otherwise."""
        if len(self.scale) != 1:
            raise ValueError(f"expected one scale, found {len(self.scale)} on axis {self.axis}")
        return self.scale[0], self.zero[0]

    def dequantize(self, array: Array) -> Array:
        """The reals that an integer array stands for, computed in float64, as float32."""
        return np.asarray(self.reals(array), np.float32)

    def reals(self, array: Array) -> npt.NDArray[np.float64]:
        """The reals that an integer array stands for."""
        along = [1] * array.ndim
        if self.axis is not None:
            along[self.axis] = -1
        shape = along if self.axis is not None else []
        scale, zero = np.reshape(self.scale, shape), np.reshape(self.zero, shape)
        return np.asarray(scale * (array.astype(np.float64) - zero), np.float64)


@dataclass(frozen=True, slots=True)
class Value:
    """A tensor: what it is called, how it is shaped (images: NHWC), and how its integers mean reals."""

    name: str
    shape: Shape
    dtype: DType
    quant: Quant | None = None
    loc: Loc | None = None

    @property
    def elements(self) -> int:
        return math.prod(self.shape)

    @property
    def channels(self) -> int:
        """The size of the last axis; 1 of a single number."""
        return self.shape[-1] if self.shape else 1

    @property
    def size_bytes(self) -> int:
        """Bytes of the tensor in the arena, or in flash: int4 goes two per byte."""
        return -(-self.elements // 2) if self.dtype == "s4" else self.elements * _BYTES[self.dtype]


@dataclass(frozen=True, slots=True)
class Node:
    """One operator applied to named values. `""` among the inputs stands for an absent optional one."""

    name: str
    op: str
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    attrs: Any
    origin: tuple[Loc, ...] = ()

    @property
    def where(self) -> Loc | None:
        return self.origin[0] if self.origin else None

    @property
    def layer(self) -> str:
        """The user's own name of the layer."""
        return self.origin[0].name if self.origin and self.origin[0].name else self.name


@dataclass(frozen=True, slots=True)
class State:
    """What a model remembers from run to run: value `name` holds it when a run begins, and value `after`, of the same
    shape, dtype and quantization, is what the next run begins with. initial: its bytes after a reset, in C
    order, little endian."""

    name: str
    after: str
    initial: bytes


@dataclass(frozen=True, slots=True)
class Labels:
    """What the numbers of an output are called. by_value: an element is the index of its text; else element i belongs
    to text i."""

    texts: tuple[str, ...]
    by_value: bool = True


@dataclass(frozen=True, slots=True)
class Graph:
    """A model: nodes in run order, every value by name, constants as read-only arrays. labels: of outputs, by their
    names, where the file has texts for them. classical: exported by a library of classical learning, whose features are
    numbers of many units in one tensor, so that one scale does not serve them."""

    name: str
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    nodes: tuple[Node, ...]
    values: Mapping[str, Value]
    consts: Mapping[str, Array] = field(default_factory=dict)
    states: tuple[State, ...] = ()
    labels: Mapping[str, Labels] = field(default_factory=dict)
    classical: bool = False

    @property
    def sources(self) -> tuple[str, ...]:
        """Values that are there when a run begins: inputs and states."""
        return (*self.inputs, *(state.name for state in self.states))

    @property
    def sinks(self) -> tuple[str, ...]:
        """Values that are needed when a run has ended: outputs and the states of the next run."""
        return (*self.outputs, *(state.after for state in self.states))

    def initial(self, state: State) -> Array:
        """What a state holds after a reset."""
        value = self.values[state.name]
        return np.frombuffer(state.initial, np.dtype(NUMPY_DTYPE[value.dtype]).newbyteorder("<")).reshape(value.shape)

    def producer(self) -> dict[str, Node]:
        """Which node makes each value."""
        return {out: node for node in self.nodes for out in node.outputs}

    def consumers(self) -> dict[str, tuple[Node, ...]]:
        """Which nodes read each value, in run order; values that nobody reads are absent."""
        readers: dict[str, list[Node]] = {}
        for node in self.nodes:
            for name in dict.fromkeys(node.inputs):
                if name:
                    readers.setdefault(name, []).append(node)
        return {name: tuple(nodes) for name, nodes in readers.items()}


def read_only(array: Array) -> Array:
    """The array, C-contiguous and write-protected, as `Graph.consts` holds it."""
    fixed = np.ascontiguousarray(array).reshape(array.shape)  # ascontiguousarray turns 0-d into 1-d
    if fixed is array and array.flags.writeable:
        fixed = array.copy()
    fixed.setflags(write=False)
    return fixed


# ---- names of values and nodes that are made beside those of the model ----


def free_name(preferred: str, taken: Collection[str]) -> str:
    """The name, or the name with the first number from 2 on that nothing is called by."""
    name, number = preferred, 1
    while name in taken:
        number += 1
        name = f"{preferred}#{number}"
    return name
