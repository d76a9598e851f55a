# SPDX-License-Identifier: Apache-2.0
"""Options in the words of the command line: how a build is repeated, and what made a library what it is."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator
from dataclasses import Field
from enum import Enum
from pathlib import Path
from typing import Any

from tinyc.options.build import Options
from tinyc.options.option import KEY, OptionFacts, flag_of, options_of
from tinyc.options.recipe import Pictures, Recipe

# Said first, of a run and not of a build, or without a trace in what is built.
_NOT_REPEATED = {"board", "wav", "image", "expect", "cache"}


def files_of(options: Options) -> Iterator[Path]:
    """The files that the options name: what they are called in `build_arguments`, a report tells with their digests."""
    for _, _, value in changed_options(options):
        for one in str(value).split(",") if isinstance(value, str) else [value]:
            is_named = isinstance(one, Path) or (isinstance(one, str) and one.endswith(".toml"))
            if is_named and Path(one).is_file():
                yield Path(one)


def build_arguments(options: Options) -> tuple[str, ...]:
    """What `tinyc build MODEL` has to be told beside the model, each word an argument; files by their names, since a
    report holds no paths."""
    words = ["--board", _text(options.board)]
    for each, _, value in changed_options(options):
        if each.name not in _NOT_REPEATED:
            words += [word for setting in settings_of(each, value) for word in setting]
    return tuple(words)


def shaping(options: Options) -> tuple[str, ...]:
    """The options that make the library another one than the defaults do, as on the command line. Paths are left out:
    the same file elsewhere gives the same library."""
    return tuple(
        " ".join(setting)
        for each, told, value in changed_options(options)
        if told.shapes
        for setting in settings_of(each, value, _without_path)
    )


def changed_options(options: Options) -> Iterator[tuple[Field[Any], OptionFacts, Any]]:
    """The options that are not as by default, with their values."""
    for given in (options, options.recipe or Recipe(), options.pictures or Pictures()):
        for each, told in options_of(type(given)):
            value = getattr(given, each.name)
            if value != each.default:
                yield each, told, value


def settings_of(each: Field[Any], value: Any, text: Callable[[Any], str] | None = None) -> Iterator[tuple[str, ...]]:
    """The arguments that give a field its value: a flag, or a flag and a word; states have a pair for each. text: how a
    value is written; by default files are by their names."""
    flag, told = flag_of(each), each.metadata[KEY]
    if isinstance(each.default, bool):
        yield (f"--{flag}" if value or told.inverted else f"--no-{flag}",)
    else:
        yield from ((f"--{flag}", (text or _text)(one)) for one in (value if told.repeats else [value]))


def _text(value: Any) -> str:
    if value is None or isinstance(value, bool):
        return "auto" if value is None else "on" if value else "off"
    if isinstance(value, Path):
        return value.name
    if isinstance(value, tuple):
        return ",".join(map(_text, value))
    if inspect.isfunction(value):  # a metric, which Python alone can give so
        return value.__name__
    if isinstance(value, str) and (value.endswith(".toml") or ".py:" in value):  # a board's, a metric's ...
        return Path(value).name
    return str(value.value if isinstance(value, Enum) else value)


def _without_path(value: Any) -> str:
    """A front end that ships has a name; all else that names a file is one."""
    return "FILE" if isinstance(value, Path) or str(value).endswith(".toml") else _text(value)
