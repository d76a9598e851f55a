# SPDX-License-Identifier: Apache-2.0
"""How the command line talks: results to stdout, progress and warnings to stderr, color when asked."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import asdict
from datetime import timedelta
from enum import StrEnum
from typing import Any

import typer
from rich.console import Console, ConsoleOptions, RenderableType
from rich.progress import BarColumn, Progress, ProgressColumn, SpinnerColumn, Task, TextColumn, TimeElapsedColumn
from rich.segment import Segment
from rich.text import Text

from tinyc.base.errors import TinycError
from tinyc.base.escape import visible_lines
from tinyc.cli.listing import Block, lines_of, wrapped

_ENDLESS = 1 << 20  # columns of a pipe, which has no width: nothing is wrapped there


class Color(StrEnum):
    """When to color."""

    AUTO = "auto"
    ALWAYS = "always"
    NEVER = "never"


class Output:
    """Consoles of one command. With `json_mode`, stdout gets exactly one JSON object; with `document_mode`, one
    document of another format."""

    def __init__(self, color: Color, json_mode: bool, verbose: bool, document_mode: bool = False) -> None:
        self.json_mode = json_mode
        self.document_mode = document_mode
        self.verbose = verbose
        self._is_answered = False  # the one object is printed
        self.stdout = _console(color, stderr=False)
        self.stderr = _console(color, stderr=True)

    def result(self, *blocks: Block | Text | str) -> None:
        """Tables, facts and sentences for people; nothing where a program reads. A Text is not wrapped."""
        if not (self.json_mode or self.document_mode):
            for line in lines_of(blocks, self.width):
                self.stdout.print(line, soft_wrap=True)

    @property
    def width(self) -> int:
        """Columns that a line may have."""
        return self.stdout.width

    def json(self, value: Any) -> None:
        """The one object of JSON mode; nothing otherwise, and nothing more where it is printed already."""
        if self.json_mode and not self._is_answered:
            self._is_answered = True
            self._print(json.dumps(value, indent=2, allow_nan=False))

    def document(self, value: Any) -> None:
        """The document of another format: text, or a value for JSON."""
        self._print(value.rstrip("\n") if isinstance(value, str) else json.dumps(value, indent=1, allow_nan=False))

    def _print(self, text: str) -> None:
        try:
            sys.stdout.write(f"{text}\n")
            sys.stdout.flush()
        except BrokenPipeError as error:  # without its number, by which typer would know it and end the program
            raise BrokenPipeError("the reader of the output is gone") from error

    def warn(self, message: str) -> None:
        self._say("warning: ", "bold yellow", message)

    def note(self, message: str) -> None:
        """Said only with -v."""
        if self.verbose:
            self._say("", "", message, "dim")

    def error(self, error: TinycError) -> None:
        """The error on stderr, and as an object on stdout in JSON mode, unless results are there already."""
        missed = [asdict(each) for each in error.missed]
        self.json(
            {"error": {"message": error.message, "where": _text(error.where), "hint": error.hint, "missed": missed}}
        )
        self._say("error: ", "bold red", error.message, "bold")
        if error.where is not None:
            self.stderr.print(Text(f"  --> {error.where}"), soft_wrap=True)
        if error.hint:
            self._say("  hint: ", "bold cyan", error.hint)

    def _say(self, lead: str, style: str, message: str, base: str = "") -> None:
        """A sentence on stderr. style: of what it begins with."""
        for index, line in enumerate(wrapped(message, self.stderr.width, lead, "  ")):
            shown = Text(line, style=base)
            if index == 0:
                shown.stylize(style, 0, len(lead))
            self.stderr.print(shown, soft_wrap=True)

    @contextmanager
    def progress(self) -> Iterator[Progress]:
        """A progress display on stderr, shown only on a terminal."""
        text = TextColumn("{task.description}", markup=False)
        columns = (SpinnerColumn(), text, BarColumn(), TimeElapsedColumn(), _TimeLeft())
        shown = self.stderr.is_terminal and not self.json_mode
        with Progress(*columns, console=self.stderr, transient=True, disable=not shown) as progress:
            yield progress


class _TimeLeft(ProgressColumn):
    """The time that is left, where it is known: of a step of even parts (`is_even`), from the second part on. Of uneven
    parts, such as layers to quantize, it was wrong by more than a factor of two."""

    max_refresh = 0.5  # seconds

    def render(self, task: Task) -> Text:
        if not task.fields.get("is_even") or task.finished or task.time_remaining is None:
            return Text("")
        return Text(f"{timedelta(seconds=int(task.time_remaining))} left", style="progress.remaining")


class _Console(Console):
    """A console that shows the invisible characters of what it prints, and obeys none: names come from anywhere."""

    def on_broken_pipe(self) -> None:
        raise BrokenPipeError("the reader of the output is gone")

    def render(self, renderable: RenderableType, options: ConsoleOptions | None = None) -> Iterable[Segment]:
        for segment in super().render(renderable, options):
            yield segment if segment.control else segment._replace(text=visible_lines(segment.text))


def plural(count: int, noun: str) -> str:
    """`1 input`, `20 inputs`."""
    return f"{count:,} {noun}{'' if count == 1 else 's'}"


def _text(where: object | None) -> str | None:
    return None if where is None else str(where)


def _console(color: Color, stderr: bool) -> Console:
    forced = {Color.AUTO: None, Color.ALWAYS: True, Color.NEVER: False}[color]
    plain = color is Color.NEVER or (color is Color.AUTO and bool(os.environ.get("NO_COLOR")))
    terminal = (sys.stderr if stderr else sys.stdout).isatty()
    width = None if terminal or os.environ.get("COLUMNS", "").isdigit() else _ENDLESS
    # Names of layers and files are text, whatever brackets and colons they have.
    return _Console(
        stderr=stderr,
        force_terminal=forced,
        no_color=plain,
        highlight=False,
        markup=False,
        emoji=False,
        width=width,
    )


@contextmanager
def guarded(color: Color, json_mode: bool, verbose: bool, document_mode: bool = False) -> Iterator[Output]:
    """An Output for one command; a TinycError inside it is printed and becomes the exit code."""
    out = Output(color, json_mode, verbose, document_mode)
    try:
        if json_mode and document_mode:
            raise TinycError("--json and --format are two ways to print one thing", hint="leave one out")
        yield out
    except TinycError as error:
        out.error(error)
        raise typer.Exit(error.exit_code) from error
