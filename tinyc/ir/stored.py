# SPDX-License-Identifier: Apache-2.0
"""Values of the compiler as files: graphs, and dataclasses that hold graphs, as numbers and text.

A file holds JSON and arrays, never code: a dataclass is written as its module and name, and read back only if that is
a dataclass or an enumeration of tinyc's.
"""

from __future__ import annotations

import dataclasses
import importlib
import io
import json
from collections.abc import Mapping
from enum import Enum
from typing import Any

import numpy as np

from tinyc.ir.graph import Array, read_only

_PACKAGE = "tinyc"
_TEXT = "json"  # the array that holds the JSON


def to_bytes(value: Any) -> bytes:
    """The value, made of dataclasses, enumerations, tuples, mappings by text, arrays, bytes and plain numbers and
    text, as an .npz file. The same value gives the same bytes. TypeError for anything else."""
    arrays: list[Array] = []
    text = json.dumps(_plain(value, arrays)).encode()
    file = io.BytesIO()
    named: dict[str, Any] = {f"a{k}": array for k, array in enumerate(arrays)}
    np.savez(file, **(named | {_TEXT: np.frombuffer(text, np.uint8)}))
    return file.getvalue()


def from_bytes(data: bytes) -> Any:
    """What `to_bytes` was given; arrays are read-only. ValueError for anything else."""
    try:
        with np.load(io.BytesIO(data), allow_pickle=False) as file:
            arrays = [read_only(file[f"a{k}"]) for k in range(len(file.files) - 1)]
            return _value(json.loads(file[_TEXT].tobytes()), arrays)
    except Exception as error:  # a damaged file may break in any part of its reader
        raise ValueError(f"not a stored value: {error}") from error


def _plain(value: Any, arrays: list[Array]) -> Any:  # noqa: PLR0911  a return per form
    """What JSON can say of the value; arrays go to the list."""
    if value is None or (isinstance(value, bool | int | float | str) and not isinstance(value, Enum)):
        return value
    if isinstance(value, tuple) and hasattr(value, "_fields"):
        return {"named": _name_of(type(value)), "items": [_plain(one, arrays) for one in value]}
    if isinstance(value, tuple | list):
        return [_plain(one, arrays) for one in value]
    if isinstance(value, Mapping):
        return {"map": [[_plain(key, arrays), _plain(one, arrays)] for key, one in value.items()]}
    if isinstance(value, bytes):
        return {"bytes": value.hex()}
    if isinstance(value, np.ndarray) and not value.dtype.hasobject:
        arrays.append(value)
        return {"array": len(arrays) - 1}
    if isinstance(value, Enum):
        return {"enum": _name_of(type(value)), "value": value.name}
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        fields = {field.name: getattr(value, field.name) for field in dataclasses.fields(value) if field.init}
        return {"class": _name_of(type(value)), "fields": {k: _plain(one, arrays) for k, one in fields.items()}}
    raise TypeError(f"a {type(value).__name__} cannot be stored")


def _value(plain: Any, arrays: list[Array]) -> Any:  # noqa: PLR0911  a return per form
    match plain:
        case list():
            return tuple(_value(one, arrays) for one in plain)
        case {"map": pairs}:
            return {_value(key, arrays): _value(one, arrays) for key, one in pairs}
        case {"bytes": text}:
            return bytes.fromhex(text)
        case {"array": index}:
            return arrays[index]
        case {"named": name, "items": items}:
            return _class(name, tuple)(*(_value(one, arrays) for one in items))
        case {"enum": name, "value": member}:
            return _class(name, Enum)[member]
        case {"class": name, "fields": fields}:
            return _class(name)(**{key: _value(one, arrays) for key, one in fields.items()})
    return plain


def _name_of(kind: type) -> str:
    return f"{kind.__module__}:{kind.__qualname__}"


def _class(name: str, base: type = object) -> Any:
    """A dataclass or enumeration of this package, and nothing else."""
    module, _, qualified = name.partition(":")
    if module.split(".")[0] != _PACKAGE:
        raise ValueError(f"{module} is not ours")
    named = getattr(importlib.import_module(module), qualified)
    if not (isinstance(named, type) and issubclass(named, base)):
        raise ValueError(f"{name} is no class")
    if base is object and not dataclasses.is_dataclass(named):
        raise ValueError(f"{name} holds no data")
    return named
