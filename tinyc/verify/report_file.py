# SPDX-License-Identifier: Apache-2.0
"""report.json read back. The file may have been written by anybody: every value has to have its documented type."""

from __future__ import annotations

import dataclasses
import json
import types
from pathlib import Path
from typing import Any, TypeVar, Union, get_args, get_origin, get_type_hints

from tinyc.base.errors import Loc, TinycError
from tinyc.base.files import read_text
from tinyc.verify.report import SCHEMA, Report, UnprovedReport

_T = TypeVar("_T")
_HINT = "give the output folder of `tinyc build`"


def read_report(file: Path) -> Report | UnprovedReport:
    """The report in a file. Raises TinycError for a file that is not there, no report, or one of another schema."""
    try:
        value = json.loads(read_text(file))
    except OSError as error:
        raise TinycError(f"the report cannot be read: {error.strerror}", Loc(str(file)), _HINT) from error
    except (ValueError, RecursionError) as error:
        raise TinycError("the report is no JSON", Loc(str(file)), _HINT) from error
    if not isinstance(value, dict) or value.get("schema") != SCHEMA:
        raise TinycError(f"no report of schema {SCHEMA}", Loc(str(file)), _HINT)
    try:
        if value.get("verify") is None:
            return from_json(UnprovedReport, value, "report")
        return from_json(Report, value, "report")
    except ValueError as error:
        raise TinycError(f"the report is damaged: {error}", Loc(str(file)), _HINT) from error


def from_json(kind: type[_T], value: object, where: str) -> _T:
    """An instance of a dataclass from an object of JSON with its fields; others are left out. ValueError says what is
    wrong. where: what the object is called there."""
    if not isinstance(value, dict):
        raise ValueError(f"{where} is no object")
    hints = get_type_hints(kind)
    values = {}
    for each in dataclasses.fields(kind):  # type: ignore[arg-type]
        if each.name in value:
            values[each.name] = _typed(hints[each.name], value[each.name], f"{where}.{each.name}")
        elif each.default is dataclasses.MISSING:
            raise ValueError(f"{where}.{each.name} is not there")
    return kind(**values)


def _typed(kind: Any, value: object, where: str) -> Any:
    if dataclasses.is_dataclass(kind):
        return from_json(kind, value, where)  # type: ignore[arg-type]
    if get_origin(kind) in (Union, types.UnionType):
        inner = next(each for each in get_args(kind) if each is not type(None))
        return None if value is None else _typed(inner, value, where)
    if get_origin(kind) is tuple:
        parts = get_args(kind)
        if not isinstance(value, list) or (Ellipsis not in parts and len(value) != len(parts)):
            raise ValueError(f"{where} is not the list that it should be")
        return tuple(_typed(parts[0], item, f"{where}[{at}]") for at, item in enumerate(value))
    if kind is float and isinstance(value, int) and not isinstance(value, bool):
        return float(value)
    if not isinstance(value, kind) or (kind is int and (isinstance(value, bool) or abs(value) >= 1 << 63)):
        raise ValueError(f"{where} is no {kind.__name__}")
    return value
