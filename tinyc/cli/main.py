"""The `tinyc` command: parse, call, print. One file of this folder for each sub-command."""

from __future__ import annotations

import os
import signal
import sys
import traceback
from types import FrameType

import typer

from tinyc import __version__
from tinyc.cli import bench, boards, build, doctor, flash, inspect, monitor, plan, profile, quantize, run, verify
from tinyc.errors import TinycError
from tinyc.escape import visible

_INTERRUPTED = 130  # the exit code after Ctrl-C

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


def main() -> None:
    """Exit codes: 0 done, 1 the answer is no, 2 could not run, 3 internal error, 130 Ctrl-C, 143 terminated."""
    signal.signal(signal.SIGTERM, _end)  # as Ctrl-C does: nothing half-written stays behind
    try:
        code = app(standalone_mode=False) or 0  # typer turns Exit and Ctrl-C into the code that it returns
        if code == _INTERRUPTED:
            sys.stderr.write("interrupted\n")
    except typer.TyperException as usage:  # a wrong word on the command line
        getattr(usage, "show", _say_nothing)()
        code = 2
    except (KeyboardInterrupt, typer.Abort):
        sys.stderr.write("interrupted\n")
        code = _INTERRUPTED
    except BrokenPipeError:
        sys.stdout = open(os.devnull, "w", encoding="utf-8")  # noqa: SIM115  the pipe is gone, exit quietly
        code = 0
    except Exception as bug:  # the last line of defence: users never see a bare traceback
        code = 3
        _report_bug(bug)
    sys.exit(code)


def _end(number: int, frame: FrameType | None) -> None:
    """A signal's handler: leaves by way of every `finally`, with the code that a shell gives."""
    sys.stderr.write("terminated\n")
    sys.exit(128 + number)


def _say_nothing() -> None:
    """For exceptions of the command line library that print themselves when raised."""


def _report_bug(bug: Exception) -> None:
    if os.environ.get("TINYC_DEBUG"):
        traceback.print_exc()
    frame = traceback.extract_tb(bug.__traceback__)[-1]
    place = f"{os.path.basename(frame.filename)}:{frame.lineno}"
    sys.stderr.write(
        f"internal error: {type(bug).__name__}: {visible(bug)} ({place})\n"
        "  hint: this is a bug of tinyc; TINYC_DEBUG=1 shows the traceback to report\n"
    )


__all__ = ["TinycError", "app", "main"]

if __name__ == "__main__":
    main()
