# SPDX-License-Identifier: Apache-2.0
"""What the command line says of its own words: the first page of help, and errors of words that it does not know."""

from __future__ import annotations

import difflib
import re
import shutil
import sys
from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Any

import typer

from tinyc.base.errors import TinycError

_MOST_COLUMNS = 100
_LEFT = 12  # columns of names

# Words that people bring: of other tools, and of earlier versions.
COMMANDS_BY_OTHER_NAMES = {
    "plan": "estimate MODEL --map",
    "explore": "estimate MODEL --weights all --prefer all",
    "front": "estimate MODEL --front",
    "pack": "package FOLDER",
    "link": "package FOLDER FOLDER --out DIR",
    "schema": "build --json-schema",
    "explain": "inspect WORD",
    "monitor": "flash --monitor",
    "upload": "flash FOLDER",
    "deploy": "flash FOLDER",
    "compile": "build MODEL",
    "convert": "build MODEL",
    "generate": "build MODEL",
    "export": "build MODEL",
    "test": "verify MODEL",
    "validate": "verify MODEL",
    "analyze": "estimate MODEL",
    "benchmark": "bench MODEL",
    "version": "--version",
    "help": "--help",
}
OPTIONS_BY_OTHER_NAMES = {
    "--target": "--board",
    "--device": "--board",
    "--output": "--out",
    "--outdir": "--out",
    "--optimize": "--prefer",
    "--optimise": "--prefer",
    "--memory": "--prefer ram",
    "--flash-budget": "--flash",
    "--ram-budget": "--ram",
    "--bits": "--weights",
    "--quantize": "--weights",
    "--int8": "--weights",
    "--int4": "--weights",
    "--data": "--calibration",
    "--dataset": "--calibration",
    "--representative-dataset": "--calibration",
    "--no-verify": "--no-proof",
    "--fast": "--effort",
    "--quick": "--effort",
}
_CLOSE = 0.7  # of difflib's measure: `bord` is near `board`, and `memory` is not near `metric`

_IN_OUR_WORDS = (  # what the command-line library says
    (r"Value error, ", ""),
    (r"Input should be a valid integer[^(]*\b", "give a whole number"),
    (r"Input should be a valid number[^(]*\b", "give a number"),
    (r"Input should be greater than or equal to", "give at least"),
    (r"Input should be less than or equal to", "give at most"),
    (r"Missing (?:argument|option) '(.*)'\.", r"\1 is missing"),
    (r"Option '(.*)' requires an argument\.", r"\1 needs a value"),
    (r"Option '(.*)' requires (\d+) arguments\.", r"\1 needs \2 values"),
    (r"Option '(.*)' does not take a value\.", r"\1 takes no value"),
    (r"Got unexpected extra arguments?(?:\(s\))? \((.*)\)", r"too many arguments: \1"),
)


# Errors --------------------------------------------------------------------------------------------------------------


def no_such_command(word: str, commands: Collection[str]) -> TinycError:
    """The error for a word that is no command."""
    if word in COMMANDS_BY_OTHER_NAMES:
        hint = f"`tinyc {COMMANDS_BY_OTHER_NAMES[word]}` does that"
    elif near := difflib.get_close_matches(word, commands, 1, _CLOSE):
        hint = f"`tinyc {near[0]}`, perhaps; `tinyc -h` lists the commands"
    else:
        hint = "`tinyc -h` lists the commands"
    return TinycError(f"there is no command '{word}'", hint=hint)


def usage_error(usage: Any) -> TinycError:
    """What the command-line library raised, in our words."""
    is_command = usage.ctx is None or usage.ctx.parent is not None
    command = f"tinyc {sys.argv[1]}" if is_command else "tinyc"
    if hasattr(usage, "possibilities"):
        return _no_such_option(usage, command)
    is_value = isinstance(usage, typer.BadParameter) and usage.message  # without a message an argument is missing
    message = _in_our_words(usage.message if is_value else usage.format_message())
    if is_value and (name := _name_of(usage)):
        message = f"{name}: {message}"
    return TinycError(message, hint=f"`{command} --help-all` says what it takes")


def _name_of(usage: Any) -> str:
    """`--ram` or `MODEL`, of which a value is wrong."""
    if usage.param_hint:
        return str(usage.param_hint)
    if usage.param is None:
        return ""
    if usage.param.param_type_name == "argument":
        return str(usage.param.metavar or usage.param.name.upper())
    return str(max(usage.param.opts, key=len))


def _in_our_words(message: str) -> str:
    for pattern, words in _IN_OUR_WORDS:
        message = re.sub(f"^{pattern}", words, message, count=1, flags=re.DOTALL)
    value, is_choice, choices = message.partition(" is not one of ")
    return value + is_choice + choices.replace("'", "").replace(". (", " (").rstrip(".") if is_choice else message


def _no_such_option(usage: Any, command: str) -> TinycError:
    names = {name for each in usage.ctx.command.params for name in (*each.opts, *each.secondary_opts)}
    word = usage.option_name.partition("=")[0]
    other = OPTIONS_BY_OTHER_NAMES.get(word, "")
    every = f"`{command} {'--help-all' if usage.ctx.parent else '-h'}` lists all options"
    if other.partition(" ")[0] in names:
        hint = f"give {other}; {every}"
    elif near := difflib.get_close_matches(word, sorted(names), 1, _CLOSE):
        hint = f"{near[0]}, perhaps; {every}"
    else:
        hint = every
    return TinycError(f"{command} has no option {word}", hint=hint)


# The first page ------------------------------------------------------------------------------------------------------


def first_page(says: str, commands: Mapping[str, str], options: Sequence[Any]) -> Iterator[str]:
    """The lines of `tinyc --help`. commands: what each does, by name; options: of the program itself."""
    from tinyc.cli.listing import wrapped  # noqa: PLC0415  needs rich, which only a page of help does

    width = min(shutil.get_terminal_size((80, 24)).columns, _MOST_COLUMNS)
    yield "Usage: tinyc COMMAND [OPTIONS] ..."
    yield ""
    yield from wrapped(says, width)
    yield ""
    for name, sentence in commands.items():
        yield from wrapped(sentence, width, f"  {name}".ljust(_LEFT), " " * _LEFT)
    yield ""
    flags = ", ".join(max(each.opts, key=len) for each in options)
    yield from wrapped(f"`tinyc COMMAND -h` has the options of a command. Also: {flags}.", width)
