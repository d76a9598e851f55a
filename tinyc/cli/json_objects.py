# SPDX-License-Identifier: Apache-2.0
"""The objects that commands print with --json, and their JSON Schemas, which are made of the types themselves.

A command prints one of several objects, or, where it could not run, `{"error": ...}`. tests/cli/test_schema.py holds
what the commands print to these, with no key more and none less.
"""

from __future__ import annotations

import types
from collections import abc
from collections.abc import Callable, Mapping, Sequence
from dataclasses import fields, is_dataclass
from enum import Enum
from typing import Any, Literal, Union, get_args, get_origin, get_type_hints

from tinyc.base.dataclass import dataclass
from tinyc.base.errors import Missed
from tinyc.base.serial_line import DescribedPort
from tinyc.bench import BenchReport
from tinyc.bench.compare import BenchChange
from tinyc.board.memories import CodeRam, SlowRam
from tinyc.explain.boundaries import Boundary
from tinyc.explain.cycles.profile import Profile
from tinyc.explain.estimate import Estimate
from tinyc.explain.inspection import Inspection
from tinyc.explain.memory_map import MemoryMap
from tinyc.explain.points import Point
from tinyc.explain.words import Meaning
from tinyc.flash.jobs import FlashResult
from tinyc.package.link import LinkedModels
from tinyc.pipeline.device_run import BoardRun
from tinyc.pipeline.doctor import Finding
from tinyc.pipeline.hearing import Hearing
from tinyc.pipeline.looking import Looking
from tinyc.pipeline.quantizing import QuantizeReport
from tinyc.pipeline.selftest import BoardCheck
from tinyc.pipeline.user_build import BuildProof
from tinyc.sweep import ResultRow
from tinyc.verify.front import ModelFront
from tinyc.verify.report import Report, UnprovedReport

DIALECT = "https://json-schema.org/draft/2020-12/schema"
Schema = dict[str, Any]
Words = tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Shape:
    """An object: the keys of a dataclass, if there is one, and more, whose types go before. may: keys that are not
    always there."""

    of: type | None = None
    more: Mapping[str, Any] | None = None
    may: Mapping[str, Any] | None = None


def shapes() -> Mapping[str, Sequence[Shape]]:
    """Command -> the objects that it may print."""
    artifacts = {"renode": str, "packages": Words, "page": str}
    run_only = tuple(each.name for each in fields(Report) if each.name not in UnprovedReport.__dataclass_fields__)
    unproved = Shape(UnprovedReport, {"folder": str, **dict.fromkeys(run_only, type(None))}, artifacts)
    passed = {"passed": bool}
    board: dict[str, Any] = {"name": str, "description": str, "core": str, "isa": Words, "clock_hz": int}
    board |= {
        "flash_bytes": int | None,
        "ram_bytes": int | None,
        "slow_ram": SlowRam | None,
        "code_ram": CodeRam | None,
    }
    board |= {"emulators": Words, "uart": str | None, "flashing": Words}
    point = Shape(Point, {"options": str})
    arena = Shape(MemoryMap, {"peak": tuple[int, ...], "boundaries": tuple[Boundary, ...]})
    estimate = Shape(Estimate, {"flash_bytes": int, "fits": bool}, {"map": arena})
    constants = {"version": int, "bytes": int, "code": str, "model": str, "signed": bool}
    costs = {"milliseconds": float | None, "flash_waits": int | None, "microjoules": float | None}
    return {
        "bench": (Shape(BenchReport), Shape(None, {"worse": int, "changes": (Shape(BenchChange),)})),
        "boards": (Shape(None, {"boards": (Shape(None, board),)}), Shape(None, {"checks": tuple[BoardCheck, ...]})),
        "build": (Shape(Report, {"folder": str}, artifacts), unproved),
        "doctor": (Shape(None, {"findings": tuple[Finding, ...]}),),
        "estimate": (
            Shape(None, {"estimates": (estimate,)}),
            Shape(None, {"fronts": (Shape(ModelFront),)}),
            Shape(None, {"model": str, "points": (point,)}, {"pick": point}),
        ),
        "flash": (Shape(FlashResult), Shape(None, {"ports": tuple[DescribedPort, ...]})),
        "inspect": (Shape(Inspection), Shape(None, {"word": str, "meanings": tuple[Meaning, ...]})),
        "package": (
            Shape(None, {"packages": Words}),
            Shape(LinkedModels, {"folder": str}),
            Shape(None, constants, {"file": str}),
        ),
        "profile": (Shape(Profile, costs),),
        "quantize": (Shape(QuantizeReport),),
        "report": (Shape(None, {"page": str}),),
        "run": (Shape(Hearing, passed), Shape(Looking, passed), Shape(BoardRun, {**passed, "mean_cycles": int | None})),
        "sweep": (Shape(None, {"schema": int, "ran": int, "file": str, "rows": tuple[ResultRow, ...]}),),
        "verify": (Shape(Report), Shape(BuildProof)),
    }


def schema_of(command: str) -> Schema:
    """The JSON Schema of what a command prints with --json."""
    parts: dict[str, Schema] = {}
    error = Shape(None, {"message": str, "where": str | None, "hint": str, "missed": tuple[Missed, ...]})
    objects = [_object(shape, parts) for shape in (*shapes()[command], Shape(None, {"error": error}))]
    return {
        "$schema": DIALECT,
        "title": f"tinyc {command} --json",
        "anyOf": objects,
        "$defs": dict(sorted(parts.items())),
    }


def _object(shape: Shape, parts: dict[str, Schema]) -> Schema:
    always = {**(get_type_hints(shape.of) if shape.of else {}), **(shape.more or {})}
    of_type = [each.name for each in fields(shape.of)] if shape.of else []
    names = [*of_type, *(name for name in shape.more or {} if name not in of_type)]
    keys = {name: _schema(always[name], parts) for name in names}
    keys |= {name: _schema(kind, parts) for name, kind in (shape.may or {}).items()}
    return {"type": "object", "properties": keys, "required": names}


def _schema(kind: Any, parts: dict[str, Schema]) -> Schema:
    """Of a type, of a Shape, or of a list of one: `(Shape,)`."""
    if isinstance(kind, Shape):
        return _object(kind, parts)
    if isinstance(kind, tuple):
        return {"type": "array", "items": _schema(kind[0], parts)}
    if is_dataclass(kind):
        name = kind.__name__  # type: ignore[union-attr]
        if name not in parts:
            parts[name] = {}  # for a type that has itself inside
            parts[name] = _object(Shape(kind), parts)  # type: ignore[arg-type]
        return {"$ref": f"#/$defs/{name}"}
    origin = get_origin(kind)
    return _plain(kind) if origin is None else _COMPOUND[origin](get_args(kind), parts)


def _plain(kind: Any) -> Schema:
    if isinstance(kind, type) and issubclass(kind, Enum):
        return {"enum": [each.value for each in kind]}
    return {} if kind is Any else {"type": _PLAIN[kind]}


def _either(kinds: Words, parts: dict[str, Schema]) -> Schema:
    return {"anyOf": [_schema(kind, parts) for kind in kinds]}


def _array(kinds: Sequence[Any], parts: dict[str, Schema]) -> Schema:
    if kinds[-1] is Ellipsis:
        return {"type": "array", "items": _schema(kinds[0], parts)}
    items = [_schema(kind, parts) for kind in kinds]
    return {"type": "array", "prefixItems": items, "minItems": len(items), "maxItems": len(items)}


def _named(kinds: Sequence[Any], parts: dict[str, Schema]) -> Schema:
    return {"type": "object", "additionalProperties": _schema(kinds[1], parts)}


def _words(words: Sequence[Any], _parts: dict[str, Schema]) -> Schema:
    return {"enum": list(words)}


_PLAIN: Mapping[Any, str] = {
    str: "string",
    bool: "boolean",
    int: "integer",
    float: "number",
    type(None): "null",
}
_COMPOUND: Mapping[Any, Callable[[Any, dict[str, Schema]], Schema]] = {
    Union: _either,
    types.UnionType: _either,
    tuple: _array,
    abc.Mapping: _named,
    dict: _named,
    Literal: _words,
}
