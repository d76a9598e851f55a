# SPDX-License-Identifier: Apache-2.0
"""The commands of `tinyc`: a file of this folder for each, imported when it is called; main.py is what starts them."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Sequence
from typing import Any

import typer
from typer.core import TyperGroup

from tinyc import __version__
from tinyc.cli.parameters import words_as_they_are

USAGE = 2  # the exit code of a wrong word on the command line
INTERRUPTED = 130

# What `tinyc --help` says of each: the first sentence of its own help, which only importing it would tell.
COMMANDS = {
    "build": "Compile MODEL for a board, prove it bit for bit on the emulated board, and report what it costs.",
    "quantize": "Quantize the float MODEL, measure it beside the float model, and say which layer loses most.",
    "inspect": "Show the graph of a model, or what a kernel, an operator, an exit code or an error stands for; "
    "compiles nothing.",
    "estimate": "Say in a moment what MODEL will cost on a board, and with --map what lies where in its arena; "
    "compiles and runs nothing.",
    "sweep": "Build and prove models for boards with options, on this machine or a cluster, into one file of results.",
    "verify": "Run MODEL on a board's machine and compare every output byte; names the first layer that differs.",
    "package": "Make packages for build systems and languages of the library in FOLDER; link several for one firmware.",
    "report": "Write the report of a build, a benchmark or a sweep as one page of HTML that needs nothing else.",
    "profile": "Say where an inference of MODEL spends its time: instructions counted exactly, cycles modelled.",
    "flash": "Write firmware to a board, by its serial bootloader or the program that it wants, check it, and print "
    "what the board sends.",
    "run": "Run MODEL on a board that was flashed with it: compare every output byte, print the cycles measured.",
    "bench": "Measure MODELs on boards and beside desktop CPU and GPU runs: cost, latency, how near the outputs are.",
    "boards": "List the boards that tinyc knows; a .toml file of your own works as well.",
    "doctor": "Say which compilers, emulators and packages are there, and how to install what is missing.",
}
_SETTINGS = {"help_option_names": ["-h", "--help"]}


def import_command(words: Sequence[str]) -> None:
    """Imports the modules of the command that a command line names, if it names one."""
    if words and words[0] in COMMANDS:
        importlib.import_module(f"tinyc.cli.{words[0]}")


def command_class() -> Any:
    """The class of all commands, which imports what only they need."""
    return importlib.import_module("tinyc.cli.command").TinycCommand


def load_command(name: str) -> Any:
    """The command itself, with its options; imports what it needs."""
    own = typer.Typer(add_completion=False, context_settings=_SETTINGS, pretty_exceptions_enable=False)
    own.command(name=name, cls=command_class())(importlib.import_module(f"tinyc.cli.{name}").command)
    return typer.main.get_command(own)


class _NoSuchCommandError(Exception):
    def __init__(self, word: str) -> None:
        super().__init__(word)
        self.word = word


class _Commands(TyperGroup):
    """Lists names and sentences; only the command that is called, or asked for its options, is imported."""

    def get_params(self, ctx: Any) -> list[Any]:
        return words_as_they_are(super().get_params(ctx))

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        if args[0] in COMMANDS:
            self.commands[args[0]] = load_command(args[0])
        elif not ctx.resilient_parsing:  # a shell asks how a word goes on
            raise _NoSuchCommandError(args[0])
        return super().resolve_command(ctx, args)

    def format_help(self, ctx: Any, formatter: Any) -> None:
        page = importlib.import_module("tinyc.cli.usage").first_page(self.help, COMMANDS, self.get_params(ctx))
        formatter.write("\n".join(page) + "\n")


def _listed() -> None:
    """Stands for a command in the list."""


app = typer.Typer(
    name="tinyc",
    cls=_Commands,
    help="Compile a trained model to a proved, dependency-free C99 library for a microcontroller.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    context_settings=_SETTINGS,
)
for _name, _help in COMMANDS.items():
    app.command(name=_name, help=_help)(_listed)


@app.callback(invoke_without_command=True)
def _root(version: bool = typer.Option(False, "--version", help="Print the version and exit.")) -> None:
    if version:
        typer.echo(f"tinyc {__version__}")
        raise typer.Exit


def run_command() -> int:
    """Runs the command that sys.argv names; its exit code."""
    try:
        command = typer.main.get_command(app)
        return command(standalone_mode=False) or 0  # typer turns Exit and Ctrl-C into the code that it returns
    except typer.TyperException as usage:
        if len(sys.argv) > 1:
            return _say(importlib.import_module("tinyc.cli.usage").usage_error(usage))
        getattr(usage, "show", _say_nothing)()
        return USAGE
    except _NoSuchCommandError as error:
        return _say(importlib.import_module("tinyc.cli.usage").no_such_command(error.word, COMMANDS))
    except typer.Abort:
        return INTERRUPTED
    except SystemExit as end:
        if isinstance(end.__context__, BrokenPipeError):  # typer would end with 1, the code of a proof that failed
            raise end.__context__ from None
        raise


def _say(error: Any) -> int:
    """Says what is wrong with the words of the command line; the exit code."""
    output = importlib.import_module("tinyc.cli.output")
    words = sys.argv[1:]
    output.Output(output.Color.NEVER if "never" in words else output.Color.AUTO, "--json" in words, False).error(error)
    return USAGE


def _say_nothing() -> None:
    """For exceptions of the command line library that print themselves when raised."""
