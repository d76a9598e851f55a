# SPDX-License-Identifier: Apache-2.0
"""What is told of an option beside its type: a field of a dataclass, declared with `option(...)`.

The command line makes its parameters of it (cli/options.py), a build says with it how it is repeated
(options/words.py), a sweep which keys its file may have (sweep/job.py), and docs/options.md is printed from it.
"""

from __future__ import annotations

import functools
import operator
from collections.abc import Callable, Iterator, Mapping
from dataclasses import Field, field, fields
from numbers import Integral, Real
from types import NoneType, UnionType
from typing import Any, Literal, Union, get_args, get_origin, get_type_hints

from tinyc.base.dataclass import dataclass
from tinyc.base.errors import TinycError, check_word

KEY = "option"  # of a field's metadata
_MOST_LETTERS = 40  # of a wrong value

Question = Literal["", "Which board", "Of what", "Within what", "How exact", "What to write"]
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
    question: Question = ""  # that it answers, of options that most builds use: --help shows these
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


def keyword_of(each: Field[Any]) -> str:
    """What Python calls an option: `calibration_method`; of one whose flag says that it is not, the field."""
    told = each.metadata.get(KEY)
    return each.name if told is None or told.inverted else flag_of(each).replace("-", "_")


def without_none(kind: Any) -> tuple[Any, bool]:
    """A type without the None that it may be, and whether it may."""
    if get_origin(kind) not in (UnionType, Union):
        return kind, False
    return functools.reduce(operator.or_, (one for one in get_args(kind) if one is not NoneType)), True


def words_of(text: str | None) -> tuple[str, ...]:
    """What is between commas."""
    return tuple(word for word in map(str.strip, (text or "").split(",")) if word)


def check_values(given: Any) -> None:
    """Raises TinycError for a field of a dataclass of options whose value does not have the declared type, or lies
    beyond the declared limits. The command line's own parser says the same; Python and files have no other check."""
    declaring: Any = type(given)
    hints = hints_of(declaring)
    for each in fields(given):
        kind, is_optional = without_none(hints[each.name])
        value, told = getattr(given, each.name), each.metadata.get(KEY)
        if value is None and is_optional:
            continue
        name = each.name if told is None else f"--{flag_of(each)}"
        if get_origin(kind) is Literal:
            check_word(name, value, get_args(kind))
        elif not _is_of(value, kind):
            hint = "a number of bytes, as 64 * 1024" if told is not None and told.is_bytes else _in_words(kind)
            raise TinycError(f"{name}: {_short(value)} is a {type(value).__name__}", hint=f"give {hint}")
        elif told is not None:
            _check_limits(name, value, told)


def _short(value: Any) -> str:
    """A value in a line: it may be an array."""
    line = " ".join(repr(value).split())
    return line if len(line) <= _MOST_LETTERS else f"{line[:_MOST_LETTERS]}..."


def hints_of(kind: type) -> Mapping[str, Any]:
    """The types of its fields by name."""
    return get_type_hints(kind)


_NUMBERS: Mapping[Any, type] = {int: Integral, float: Real}  # NumPy's are numbers, too


def _is_of(value: Any, kind: Any) -> bool:
    """Whether a value has the type; a truth value is no number, and one text is no tuple of its letters."""
    if get_origin(kind) is tuple:
        return isinstance(value, tuple) and all(_is_of(one, get_args(kind)[0]) for one in value)
    if get_origin(kind) in (UnionType, Union):
        return any(_is_of(value, one) for one in get_args(kind))
    if get_origin(kind) is Callable:
        return callable(value)
    return isinstance(value, _NUMBERS.get(kind, kind)) and (kind is bool or not isinstance(value, bool))


def _in_words(kind: Any) -> str:
    if get_origin(kind) in (UnionType, Union):
        return " or ".join(map(_in_words, get_args(kind)))
    if get_origin(kind) is Callable:
        return "a function"
    return f"a tuple of {get_args(kind)[0].__name__}" if get_origin(kind) is tuple else f"one of type {kind.__name__}"


def _check_limits(name: str, value: Any, told: OptionFacts) -> None:
    least = 0 if told.is_bytes else told.least
    if least is not None and not value >= least:  # NaN is not, either
        raise TinycError(f"{name}: {value!r} is too small", hint=f"at least {least}")
    if told.most is not None and not value <= told.most:
        raise TinycError(f"{name}: {value!r} is too large", hint=f"at most {told.most}")
