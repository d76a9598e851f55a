# SPDX-License-Identifier: Apache-2.0
"""What is told of an option beside its type: a field of a dataclass, declared with `option(...)`.

The command line makes its parameters of it (cli/options.py), a build says with it how it is repeated
(options/words.py), a sweep which keys its file may have (sweep/job.py), and docs/options.md is printed from it.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import Field, dataclass, field, fields
from types import NoneType, UnionType
from typing import Any, Literal, Union, get_args, get_origin

KEY = "option"  # of a field's metadata

Heading = Literal["", "Kernels and memory", "Quantizing a float model", "Proof"]


@dataclass(frozen=True, slots=True)
class OptionFacts:
    """What is told of an option."""

    help: str
    flag: str = ""  # on the command line, where it is not the field's name: `state`
    short: str = ""  # `b`, for `-b`
    metavar: str = ""  # what stands for the value in --help
    shown_default: str = ""  # what --help calls a default of None
    heading: Heading = ""  # that it stands under in --help
    least: float | None = None
    most: float | None = None
    is_bytes: bool = False  # a number of bytes: 64K is understood
    repeats: bool = False  # given once for each of its values
    negated: bool = False  # `--no-` can be said of what is off by default, too
    inverted: bool = False  # the flag says that it is not: `--no-proof`
    environment: str = ""  # a variable that sets it, too
    shapes: bool = False  # it makes the library another one: a library's banner says it
    shared: bool = True  # every command that compiles a model has it; else only those that name it


def option(default: Any, help: str, **told: Any) -> Any:
    """A dataclass field with a default, and what is told of it: the fields of OptionFacts."""
    return field(default=default, metadata={KEY: OptionFacts(help, **told)})


def options_of(kind: type) -> Iterator[tuple[Field[Any], OptionFacts]]:
    """The options among the fields of a dataclass, in order."""
    for each in fields(kind):
        if KEY in each.metadata:
            yield each, each.metadata[KEY]


def flag_of(each: Field[Any]) -> str:
    """How the command line calls a field: `flash-budget`."""
    return (each.metadata[KEY].flag or each.name).replace("_", "-")


def without_none(kind: Any) -> tuple[Any, bool]:
    """A type without the None that it may be, and whether it may."""
    if get_origin(kind) not in (UnionType, Union):
        return kind, False
    (plain,) = (one for one in get_args(kind) if one is not NoneType)
    return plain, True
