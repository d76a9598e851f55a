# SPDX-License-Identifier: Apache-2.0
"""The constant arrays of a library: one for each content, named after the steps that read it and what is in it."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import replace

from tinyc.base.dataclass import dataclass
from tinyc.base.names import Names
from tinyc.ir.graph import Node, read_only
from tinyc.kernel.kernel import Const

# What the last part of a C name says, where it is more than the kernel's word for the constant.
_WORDS = {
    "w": "weights",
    "r": "recurrent_weights",
    "times": "time_weights",
    "mult": "multipliers",
    "shift": "shifts",
    "lut": "table",
    "exp": "exp_table",
    "logistic": "logistic_table",
    "reciprocal": "reciprocal_table",
    "x": "operand",
    "c": "offset",
    "runs": "run_bytes",
    "starts": "first_rows",
    "start": "start_values",
    "stream2": "second_stream",
    "fixes": "corrections",
}
_MOST_STEPS = 4  # that a name lists


@dataclass(frozen=True, slots=True)
class ConstantArray:
    """A constant array of the library. key: `key_of` the constant, which no other array has. steps: indices of those
    that read it, or whose output's rows it places; in order."""

    name: str
    const: Const
    key: tuple[str, str, int | bytes]
    steps: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class _Users:
    """Who asked for a constant: steps by their nodes' names, in order, and others by words of their own."""

    nodes: tuple[str, ...] = ()
    others: tuple[str, ...] = ()


def key_of(const: Const) -> tuple[str, str, int | bytes]:
    """Equal for constants that share one array: of the same content, or padding of the same byte."""
    data = const.data
    if const.role == "pad":
        return "pad", data.dtype.str, int(data.flat[0])
    own_type = const.role if const.role in ("row_order", "row_moves") else ""  # a struct
    return own_type, data.dtype.str, hashlib.sha256(data.tobytes()).digest()


class ConstPool:
    """Collects constants, one array per distinct content; rows of one zero point share the longest.

    prefix: of all names. nodes: those of the steps by their names, in order.
    """

    def __init__(self, prefix: str, nodes: Mapping[str, Node]) -> None:
        self.prefix = prefix
        self._steps = {name: index for index, name in enumerate(nodes)}
        self._ops = [node.op for node in nodes.values()]
        self.total_bytes = 0
        self._held: dict[tuple[str, str, int | bytes], tuple[Const, _Users]] = {}

    def add(self, const: Const, user: str) -> None:
        """user: the name of the node whose step reads the constant, or other words for the C name."""
        key = key_of(const)
        held, users = self._held.get(key, (None, _Users()))
        if held is None or const.data.size > held.data.size:  # of padding
            self.total_bytes += const.data.nbytes - (held.data.nbytes if held else 0)
            held = replace(const, array=read_only(const.data))
        if user in self._steps:
            users = replace(users, nodes=tuple(dict.fromkeys((*users.nodes, user))))
        else:
            users = replace(users, others=tuple(dict.fromkeys((*users.others, user))))
        self._held[key] = held, users

    def symbols(self) -> tuple[ConstantArray, ...]:
        names = Names()
        return tuple(
            ConstantArray(names.unique(self._name(const, users)), const, key, self._numbers(users))
            for key, (const, users) in self._held.items()
        )

    def _numbers(self, users: _Users) -> tuple[int, ...]:
        return tuple(sorted(self._steps[name] for name in users.nodes))

    def _name(self, const: Const, users: _Users) -> str:
        if const.role == "pad":
            value = int(const.data.flat[0])
            return f"{self.prefix}_pad_{'m' if value < 0 else ''}{abs(value)}"
        parts = (self.prefix, *users.others, self._owners(users), _WORDS.get(const.role, const.role))
        return "_".join(part for part in parts if part)

    def _owners(self, users: _Users) -> str:
        """`step_2_conv2d`, `steps_1_2`, `steps_1_and_6_more`."""
        numbers = self._numbers(users)
        if len(numbers) > _MOST_STEPS:
            return f"steps_{numbers[0]}_and_{len(numbers) - 1}_more"
        if len(numbers) > 1:
            return "_".join(["steps", *map(str, numbers)])
        return f"step_{numbers[0]}_{self._ops[numbers[0]]}" if numbers else ""
