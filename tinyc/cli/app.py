# SPDX-License-Identifier: Apache-2.0
"""The commands of `tinyc`. One file of this folder for each; main.py is what starts them."""

from __future__ import annotations

import typer

from tinyc import __version__
from tinyc.cli import bench, boards, build, doctor, flash, inspect, monitor, plan, profile, quantize, run, verify

USAGE = 2  # the exit code of a wrong word on the command line
INTERRUPTED = 130

app = typer.Typer(
    name="tinyc",
    help="Compile a trained model to a proved, dependency-free C99 library for a microcontroller.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)
for module in (build, quantize, inspect, plan, verify, profile, flash, run, monitor, bench, boards, doctor):
    app.command(name=module.__name__.rsplit(".", 1)[-1])(module.command)


@app.callback(invoke_without_command=True)
def _root(version: bool = typer.Option(False, "--version", help="Print the version and exit.")) -> None:
    if version:
        typer.echo(f"tinyc {__version__}")
        raise typer.Exit


def run_command() -> int:
    """Runs the command that sys.argv names; its exit code."""
    try:
        return app(standalone_mode=False) or 0  # typer turns Exit and Ctrl-C into the code that it returns
    except typer.TyperException as usage:
        getattr(usage, "show", _say_nothing)()
        return USAGE
    except typer.Abort:
        return INTERRUPTED


def _say_nothing() -> None:
    """For exceptions of the command line library that print themselves when raised."""
