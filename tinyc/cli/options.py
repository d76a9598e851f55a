# SPDX-License-Identifier: Apache-2.0
"""The parameters of commands: those of every command that compiles a model come from where each option is declared
(tinyc/options/), those that other commands share are here."""

from __future__ import annotations

import copy
import functools
import inspect
import itertools
import operator
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import Field, fields
from pathlib import Path
from types import UnionType
from typing import Annotated, Any, Literal, Union, get_args, get_origin

import typer

from tinyc.base import paths
from tinyc.base.dataclass import dataclass
from tinyc.base.errors import TinycError
from tinyc.board import list_boards
from tinyc.cli.output import Color, guarded
from tinyc.options.build import Options
from tinyc.options.option import OptionFacts, flag_of, hints_of, options_of, without_none, words_of
from tinyc.options.recipe import Pictures, Recipe

Model = Annotated[
    Path, typer.Argument(metavar="MODEL", help="A .onnx or .tflite file, or the folder of a build.", show_default=False)
]
Json = Annotated[bool, typer.Option("--json", help="Print one JSON object instead of text.")]
Verbose = Annotated[bool, typer.Option("--verbose", "-v", help="Say what is done, and where the time goes.")]
ColorOption = Annotated[Color, typer.Option("--color", help="Color: auto, always or never. NO_COLOR is respected.")]


def complete_board(begun: str) -> list[str]:
    """The boards whose names begin so, for a shell."""
    return [file.stem for file in sorted(paths.boards_dir().glob("*.toml")) if file.stem.startswith(begun)]


_MOST_DIGITS = 30  # that Python reads without a limit of its own


def number_of_bytes(text: str | int) -> int:
    """`65536`, `64K` or `64KiB`; K is 1024 bytes, M is 1024 K. BadParameter for anything else."""
    number = re.fullmatch(r"([0-9]+(?:_[0-9]+)*) ?(?:([KM])(?:iB)?)?", str(text))
    if number is None or len(number[1]) > _MOST_DIGITS:
        raise typer.BadParameter("give bytes, like 65536, 64K or 1M")
    return int(number[1]) * {None: 1, "K": 1024, "M": 1024**2}[number[2]]


def board_names(words: str) -> tuple[str, ...]:
    """Boards by names with commas between them; `all`: those that ship, but for the host. TinycError for none. `-b` may
    be repeated, too."""
    if words == "all":
        return tuple(board.name for board in list_boards() if not board.is_host)
    names = words_of(words)
    if not names:
        raise TinycError("no board is named", hint="--board cortex-m4,cortex-m55, or --board all")
    return tuple(dict.fromkeys(names))


# Options in the words of the command line ---------------------------------------------------------------------------

_SWITCH: Mapping[str, bool | None] = {"auto": None, "on": True, "off": False}
_LARGEST_NUMBER, _LEAST_DEVIATION = 1e6, 1e-6  # of pixels, which go from 0 to 255


@dataclass(frozen=True, slots=True)
class Spelling:
    """How the values of an option are written on the command line."""

    kind: Any  # what typer reads
    default: Any  # in that kind
    value: Callable[[Any], Any]  # of what typer has read


def _same(word: Any) -> Any:
    return word


def spelling(each: Field[Any], kind: Any, told: OptionFacts) -> Spelling:
    """The spelling of a field of that type."""
    if told.inverted:
        return Spelling(bool, not each.default, operator.not_)
    if each.name == "board":
        return Spelling(list[str], [each.default], ",".join)
    if told.repeats:
        return Spelling(list[str] | None, None, lambda words: tuple(words or ()))
    return _spelled_by_type(each, kind)


def _spelled_by_type(each: Field[Any], kind: Any) -> Spelling:
    plain, is_optional = without_none(kind)
    if plain == tuple[str, ...]:
        return Spelling(str | None, None, words_of)
    if plain == tuple[float, ...]:
        numbers: tuple[float, ...] = getattr(Pictures(), each.name)
        return Spelling(str, ",".join(f"{number:g}" for number in numbers), functools.partial(_numbers, flag_of(each)))
    if is_optional and plain is bool:
        return Spelling(Literal["auto", "on", "off"], "auto", _SWITCH.__getitem__)
    if is_optional and get_origin(plain) in (UnionType, Union):  # a name; what else it may be is for Python
        return Spelling(str | None, None, _same)
    if is_optional and get_origin(plain) is Literal:
        words = ("auto", *get_args(plain))
        return Spelling(Literal[words], "auto", lambda word: None if word == "auto" else word)
    return Spelling(kind, each.default, _same)


def _numbers(flag: str, words: str) -> tuple[float, ...]:
    """`123.7,116.3,103.5`. BadParameter for what no pixel is computed with."""
    option = f"--{flag}"
    try:
        numbers = tuple(float(word) for word in words.split(","))
    except ValueError as error:
        raise typer.BadParameter(f"{words!r}: give numbers like 123.7,116.3,103.5", param_hint=option) from error
    if not all(abs(number) <= _LARGEST_NUMBER for number in numbers):
        raise typer.BadParameter(f"{words!r}: give numbers that are no larger than a pixel may be", param_hint=option)
    if len(numbers) not in (1, 3):
        raise typer.BadParameter(f"{len(numbers)} numbers, expected 1 or 3", param_hint=option)
    return numbers


def parameter(each: Field[Any], kind: Any, told: OptionFacts) -> inspect.Parameter:
    """The option as a parameter of a command."""
    spelled = spelling(each, kind, told)
    facts = typer.Option(
        _declaration(each, told),
        *[f"-{told.short}"] * bool(told.short),
        help=told.help,
        metavar=("BYTES" if told.is_bytes else told.metavar) or None,
        show_default=told.shown_default or (str(each.default) if each.name == "board" else True),
        min=told.least,
        max=told.most,
        parser=number_of_bytes if told.is_bytes else None,
        envvar=told.environment or None,
        rich_help_panel=told.heading or None,
        autocompletion=complete_board if each.name == "board" else None,
    )
    kind = Annotated[spelled.kind, facts]
    return inspect.Parameter(name_of(each), inspect.Parameter.KEYWORD_ONLY, default=spelled.default, annotation=kind)


def _declaration(each: Field[Any], told: OptionFacts) -> str:
    """The flag as typer wants it: `--augment/--no-augment`."""
    flag, is_on = flag_of(each), each.default is True and not told.inverted
    return f"--{flag}/--no-{flag}" if is_on or told.negated else f"--{flag}"


def name_of(each: Field[Any]) -> str:
    """What a command calls an option: `calibration_method`."""
    return flag_of(each).replace("-", "_")


_PARTS = {"recipe": Recipe, "pictures": Pictures}  # fields of Options that have options of their own


def declared() -> Iterator[tuple[type, Field[Any], Any, OptionFacts]]:
    """Every option with the class that it is a field of, and its type, in the order of --help."""
    hints = {kind: hints_of(kind) for kind in (Options, *_PARTS.values())}
    own = {each.name: told for each, told in options_of(Options)}
    for each in fields(Options):
        if each.name in own:
            yield Options, each, hints[Options][each.name], own[each.name]
        else:
            part = _PARTS[each.name]
            yield from ((part, one, hints[part][one.name], told) for one, told in options_of(part))


def questions() -> Mapping[str, str]:
    """By name of the parameter, the question that each option answers; "" of those that few builds use."""
    return {name_of(each): told.question for _, each, _, told in declared()}


def _parameters() -> Mapping[str, tuple[inspect.Parameter, bool]]:
    """By name the parameter of each option, and whether every command that compiles a model has it."""
    return {name_of(each): (parameter(each, kind, told), told.shared) for _, each, kind, told in declared()}


def with_model_options(
    without: tuple[str, ...] = (),
    also: tuple[str, ...] = (),
    only: tuple[str, ...] = (),
    several: tuple[str, ...] = (),
    **defaults: Any,
) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Gives a command the options of every command that compiles a model. It receives them as one argument,
    `options: Options`, in whose place they stand in --help. without: names of those that it does not offer; also: of
    those that few commands have; only: of all that it offers; several: of those that take more than one value, and
    boards do then, too: the command receives a tuple of Options, one for each combination; defaults: those that differ
    for this command."""
    defaults = {"cache": True, **defaults}
    every = _parameters()
    assert {*without, *also, *only, *several, *defaults} <= every.keys()

    def decorate(command: Callable[..., None]) -> Callable[..., None]:
        own = inspect.signature(command, eval_str=True)
        offered = [
            each.replace(default=defaults.get(name, each.default))
            for name, (each, is_shared) in every.items()
            if (name in only if only else (is_shared or name in also) and name not in without)
        ]
        offered = [_of_several(each) if each.name in several else each for each in offered]
        parameters: list[inspect.Parameter] = []
        for each in own.parameters.values():
            parameters += offered if each.name == "options" else [each.replace(kind=inspect.Parameter.KEYWORD_ONLY)]

        @functools.wraps(command)
        def with_words(**words: Any) -> None:
            chosen = {each.name: words.pop(each.name, each.default) for each in offered}
            with guarded(words["color"], words.get("json", False), words["verbose"]):
                variants = _combinations(chosen, several) if several else (make_options(chosen),)
                for options in variants:
                    _check_limits(options.recipe or Recipe(), measured="min_agreement" in chosen)
            command(options=variants if several else variants[0], **words)

        with_words.__dict__["__signature__"] = own.replace(parameters=parameters)
        with_words.__annotations__ = {each.name: each.annotation for each in parameters}
        return with_words

    return decorate


def _of_several(each: inspect.Parameter) -> inspect.Parameter:
    """The parameter as one that takes several values, with commas between them or the option again."""
    facts = copy.copy(get_args(each.annotation)[1])
    choices = _choices(each)
    facts.metavar = f"{facts.metavar or '|'.join(choices)},..."
    facts.parser = None
    facts.show_default = str(each.default) if each.default is not None else facts.show_default
    return each.replace(annotation=Annotated[list[str] | None, facts], default=None)


def _choices(each: inspect.Parameter) -> tuple[str, ...]:
    """The words that an option may be; () where it is no choice of words."""
    kind = get_args(each.annotation)[0]
    return get_args(kind) if get_origin(kind) is Literal else ()


def _combinations(words: Mapping[str, Any], several: Sequence[str]) -> tuple[Options, ...]:
    """Options for every board and every combination of the values of `several`. BadParameter for a value that is none,
    TinycError for no board."""
    values = [[(name, value) for value in _values_of(name, words[name])] for name in several]
    boards = board_names(",".join(words["board"]))
    return tuple(
        make_options({**words, **dict(chosen), "board": [board]})
        for chosen in itertools.product(*values)
        for board in boards
    )


def _values_of(name: str, texts: Sequence[str] | None) -> Sequence[Any]:
    """The values in texts of several, as the option's own parser reads them; `all` is all of a choice."""
    each, _ = _parameters()[name]
    facts, choices, flag = get_args(each.annotation)[1], _choices(each), f"--{name.replace('_', '-')}"
    if not texts:
        return [each.default]
    words = ",".join(texts)
    if words == "all" and choices:
        return choices
    for word in words_of(words) if choices else ():
        if word not in choices:
            raise typer.BadParameter(f"{word!r} is not one of {', '.join(choices)}, all", param_hint=flag)
    if not words_of(words):
        raise typer.BadParameter("no value is given", param_hint=flag)
    return [facts.parser(word) if facts.parser else word for word in dict.fromkeys(words_of(words))]


def make_options(words: Mapping[str, Any]) -> Options:
    """The Options that the command line's words describe, by the names of parameters; what is left out is as by
    default. BadParameter for words that do not fit each other."""
    values: dict[type, dict[str, Any]] = {Options: {}, Recipe: {}, Pictures: {}}
    for owner, each, kind, told in declared():
        if name_of(each) in words:
            values[owner][each.name] = spelling(each, kind, told).value(words[name_of(each)])
    recipe = Recipe(**values[Recipe])
    pictures = Pictures(**values[Pictures])
    if min(pictures.std) < _LEAST_DEVIATION:
        raise typer.BadParameter("it is zero, or less", param_hint="--picture-std")
    return Options(**values[Options], recipe=None if recipe == Recipe() else recipe, pictures=pictures)


def _check_limits(recipe: Recipe, *, measured: bool) -> None:
    """BadParameter for a limit of what is not chosen. measured: the command measures the accuracy that it gets."""
    chooses = recipe.activations == "auto"
    if recipe.max_loss is not None and recipe.weights != "auto" and not chooses:
        message = "it chooses bits per layer: give --weights auto or --activations auto with it"
        raise typer.BadParameter(message, param_hint="--max-loss")
    if recipe.min_sqnr is not None and not chooses and not measured:
        raise typer.BadParameter("it chooses bits per layer: give --activations auto with it", param_hint="--min-sqnr")
