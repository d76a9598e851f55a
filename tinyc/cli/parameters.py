# SPDX-License-Identifier: Apache-2.0
"""Options and arguments whose words are what they stand for: typer is asked for all others.

Typer converts every value, also what nobody gave, by pydantic: to import it, and to make a converter for each option of
a command, is as much as the rest of a start.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any, Literal, get_args, get_origin

from typer.core import TyperArgument, TyperOption

_ANOTHER = object()  # stands for a value that has to be converted


class _Option(TyperOption):
    def process_value(self, ctx: Any, value: Any) -> Any:
        return _processed(self, ctx, value, super().process_value)


class _Argument(TyperArgument):
    def process_value(self, ctx: Any, value: Any) -> Any:
        return _processed(self, ctx, value, super().process_value)


def words_as_they_are(parameters: list[Any]) -> list[Any]:
    """The parameters of a command, that convert no value that needs it not."""
    for each in parameters:
        each.__class__ = _Option if isinstance(each, TyperOption) else _Argument
    return parameters


def _processed(each: Any, ctx: Any, value: Any, by_typer: Any) -> Any:
    plain = _plain(each, value)
    if plain is _ANOTHER or (each.required and each.value_is_missing(plain)):
        return by_typer(ctx, value)
    return plain if each.callback is None else each.callback(ctx, each, plain)


def _plain(each: Any, value: Any) -> Any:
    """What typer would make of the value, or `_ANOTHER`."""
    facts, kind = each.type_descriptor.parameter_info, each.type_descriptor.annotation
    if value is None:
        return () if each.multiple or each.nargs == -1 else None
    if facts.parser is not None:
        return _ANOTHER
    if kind == list[str]:
        words = isinstance(value, (list, tuple)) and all(type(one) is str for one in value)
        return list(value) if words else _ANOTHER
    if get_origin(kind) is Literal:
        return value if value in get_args(kind) else _ANOTHER
    if kind is Path and type(value) is str:
        asked = facts.exists or facts.resolve_path or not (facts.file_okay and facts.dir_okay)
        refused = "\0" in value or (os.path.exists(value) and not os.access(value, os.R_OK))
        return _ANOTHER if asked or facts.writable or refused else Path(value)
    return value if type(value) is kind and (kind is str or value is each.default) else _ANOTHER
