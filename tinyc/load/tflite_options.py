# SPDX-License-Identifier: Apache-2.0
"""The options table of a TFLite operator, which remembers the fields that were read.

A flatbuffer lists in its vtable which fields a table has, also those that are newer than the schema of the installed
`tflite` package. So a field that no importer reads is found without knowing it: see `load.looked`.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

import flatbuffers
import tflite
from flatbuffers.number_types import SOffsetTFlags, VOffsetTFlags
from flatbuffers.table import Table

from tinyc.base.dataclass import dataclass
from tinyc.base.errors import Loc
from tinyc.load.damage import reading

_FIRST_SLOT = 4  # of a vtable; before it are its own size and the table's


class _SeenTable(Table):  # type: ignore[misc]  # the package has no types
    """A table that notes the vtable slots that were asked for."""

    __slots__ = ("slots",)

    def __init__(self, content: bytes, position: int) -> None:
        super().__init__(content, position)
        self.slots: set[int] = set()

    def Offset(self, vtableOffset: int) -> Any:  # noqa: N802, N803  # the package's own names
        self.slots.add(vtableOffset)
        return super().Offset(vtableOffset)


@dataclass(frozen=True, slots=True)
class OptionsTable:
    """`options["StrideH"]` reads one scalar. unknown: options without a table class, "" if there are none."""

    table: Any
    where: Loc
    unknown: str = ""

    def __getitem__(self, name: str) -> Any:
        with reading(f"option {name}", self.where):
            return getattr(self.table, name)()

    def unseen(self) -> list[str]:
        """The fields with a value other than the default that nobody has read, as the schema calls them."""
        if self.table is None:
            return [self.unknown] if self.unknown else []
        with reading("the operator's options", self.where):
            return [self.unknown] * bool(self.unknown) + _unseen(self.table)


def options_of(kind: str, table: Table | None, newer: bool, where: Loc) -> OptionsTable:
    """The operator's options. kind: the name of their table (`Conv2DOptions`), `NONE` or `?`. newer: it has options of
    the schema's second kind."""
    unknown = "builtin_options_2" if newer else ""
    if kind == "NONE" or table is None:
        return OptionsTable(None, where, unknown)
    if not hasattr(tflite, kind):
        return OptionsTable(None, where, unknown or "builtin_options")
    options = getattr(tflite, kind)()
    with reading("the operator's options", where):
        options._tab = _SeenTable(table.Bytes, table.Pos)
    return OptionsTable(options, where, unknown)


def _unseen(options: Any) -> list[str]:
    table, fields = options._tab, _fields(type(options).__name__)
    start = table.Pos - table.Get(SOffsetTFlags, table.Pos)
    names = []
    for slot in range(_FIRST_SLOT, table.Get(VOffsetTFlags, start), 2):
        if slot in table.slots or not Table(table.Bytes, table.Pos).Offset(slot):
            continue
        if slot not in fields:
            names.append(f"field {(slot - _FIRST_SLOT) // 2}")
        elif getattr(options, fields[slot][0])() != fields[slot][1]:
            names.append(schema_name(fields[slot][0]))
    return names


def schema_name(method: str) -> str:
    """`PotScaleInt16` -> `pot_scale_int16`, as in schema.fbs."""
    name = method.removesuffix("Length")
    return re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", name).lower()


def _fields(kind: str) -> Mapping[int, tuple[str, Any]]:
    """(method that reads the field, its default) by vtable slot; of a vector, its length."""
    builder = flatbuffers.Builder(32)
    builder.StartObject(0)
    builder.Finish(builder.EndObject())
    content = bytes(builder.Output())
    position = flatbuffers.encode.Get(flatbuffers.packer.uoffset, content, 0)
    fields, table = {}, getattr(tflite, kind)
    for name in vars(table):
        if name.startswith(("_", "Init", "GetRootAs")) or name.endswith(("AsNumpy", "IsNone", "BufferHasIdentifier")):
            continue
        options = table()
        options._tab = _SeenTable(content, position)
        try:
            default = getattr(options, name)()
        except TypeError:  # an element of a vector
            continue
        (slot,) = options._tab.slots
        fields[slot] = (name, default)
    return MappingProxyType(fields)
