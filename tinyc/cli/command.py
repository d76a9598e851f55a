# SPDX-License-Identifier: Apache-2.0
"""A command: its options also come from `tinyc.toml` and from builds, and its help fits a terminal."""

from __future__ import annotations

import importlib
import os
import shutil
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, get_args

import typer
from typer.core import TyperCommand

from tinyc.base.errors import TinycError
from tinyc.base.escape import visible
from tinyc.base.output_folder import REPORT_FILE
from tinyc.cli.listing import TIE, wrapped
from tinyc.cli.options import questions
from tinyc.cli.output import Color, Output, plural
from tinyc.cli.parameters import words_as_they_are
from tinyc.cli.settings import FILE, check_same, is_build, model_of, of_build, settings_beside
from tinyc.options.option import Question
from tinyc.verify.report_file import read_report

_EVERYWHERE = ("json", "verbose", "color", "form", "help", "help_all")  # said in a line
_LEFT, _MOST_COLUMNS = 26, 100
_PLAIN = "Options"
_SCHEMA = "--json-schema"
_INPUTS = "evaluate"  # what `tinyc quantize` calls the test inputs
_OF_THE_LIBRARY = ("verify", "run", "profile")  # what they say is of the library in the folder, and of no other
_ORDER = get_args(Question)
_TYPES = {int: "N", float: "X", Path: "PATH"}


class TinycCommand(TyperCommand):
    """`-h` shows the options that most calls use, `--help-all` all of them, `--json-schema` what `--json` prints."""

    def get_params(self, ctx: Any) -> list[Any]:
        return words_as_they_are(super().get_params(ctx))

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Reads the options of `tinyc.toml` beside the model, or of the build that stands for it, as defaults."""
        if "--help-all" in args:
            typer.echo("\n".join(self.help_lines(ctx, everything=True)))
            ctx.exit()
        if _SCHEMA in args and any(each.name == "json" for each in self.params):
            self._print_schema()
            ctx.exit()
        try:
            args = self._with_defaults(ctx, list(args))
        except TinycError as error:
            words = set(args)
            Output(Color.NEVER if "never" in words else Color.AUTO, "--json" in words, False).error(error)
            raise typer.Exit(error.exit_code) from error
        try:
            return super().parse_args(ctx, args)
        except typer.BadParameter as error:
            name = getattr(error.param, "name", None)
            if ctx.default_map and name in ctx.default_map and ctx.meta.get("from"):
                error.message = f"{error.message} (in {ctx.meta['from']})"
            raise

    def _print_schema(self) -> None:
        """What `--json` prints, as a JSON Schema."""
        objects = importlib.import_module("tinyc.cli.json_objects")  # which knows every command
        Output(Color.NEVER, False, False).document(objects.schema_of(self.name))

    def _with_defaults(self, ctx: Any, args: list[str]) -> list[str]:
        """The words, with a model in the place of a build; and `ctx.default_map`."""
        own = {each.name: each for each in self.params}
        if "model" not in own:
            return args
        try:
            given, _, _ = self.make_parser(ctx).parse_args(args=list(args))
        except typer.TyperException:  # said when the words are parsed in earnest
            return args
        if given.get("model") is None:
            return args
        place = Path(str(given["model"]))
        is_folder_meant = given.get("layer") is not None  # of `tinyc inspect`
        if os.path.isdir(place) and is_build(place) and not is_folder_meant:
            model, settings = self._of_build(ctx, place, given)
            args = [str(model) if word == str(given["model"]) else word for word in args]
        else:
            settings = settings_beside(place)
            if _INPUTS in own and "inputs" in settings:
                settings[_INPUTS] = settings["inputs"]
            settings = {name: value for name, value in settings.items() if name in own}
            ctx.meta["from"] = str(place.parent / FILE)
            if settings:
                words = ", ".join(_long(own[name]) for name in settings)
                typer.echo(f"options of {visible(ctx.meta['from'])}: {words}", err=True)
        ctx.default_map = {name: _repeated(own[name], value) for name, value in settings.items() if name in own}
        return args

    def _of_build(self, ctx: Any, folder: Path, given: Mapping[str, Any]) -> tuple[Path, dict[str, Any]]:
        """The model of a build, and its options."""
        from tinyc.cli.app import load_command  # noqa: PLC0415  which loads commands of this class

        report = read_report(folder / REPORT_FILE)
        build = load_command("build")
        built, _, _ = build.make_parser(build.context_class(build, **build.context_settings)).parse_args(
            args=[*report.arguments, report.model]
        )
        words = {each.name: _long(each) for each in self.params if each.param_type_name == "option"}
        options_of_builds = questions().keys()
        explicit = {name: value for name, value in given.items() if value is not None and name in options_of_builds}
        opts = {name: value for name, value in built.items() if name != "model"}
        options = of_build(folder, opts, report, explicit)
        if self.name in _OF_THE_LIBRARY:
            check_same(folder, options, explicit, words)
        ctx.meta["from"] = str(folder)
        if "inputs" in options:
            options[_INPUTS] = options["inputs"]
        if not {"elf", "library"} & {name for name, value in given.items() if value}:
            options["built"] = str(folder)  # of `tinyc verify`
        return model_of(folder, report), options

    def collect_usage_pieces(self, ctx: Any) -> list[str]:
        """What the line `Usage:` has after the command's name."""
        arguments: list[Any] = [each for each in self.params if each.param_type_name == "argument"]
        return ["[OPTIONS]", *map(_declared, arguments)]

    def format_help(self, ctx: Any, formatter: Any) -> None:
        formatter.write("\n".join(self.help_lines(ctx, everything=False)) + "\n")

    def help_lines(self, ctx: Any, *, everything: bool) -> Iterator[str]:
        """The lines of the help. everything: all options, by what they are about; else those that most calls use, by
        what they answer."""
        width = min(_columns(), _MOST_COLUMNS)
        arguments: list[Any] = [each for each in self.params if each.param_type_name == "argument"]
        usage = " ".join([ctx.command_path, *self.collect_usage_pieces(ctx)])
        yield from wrapped(f"Usage: {usage}", width, "", "  ")
        for paragraph in (self.help or "").split("\n\n"):
            yield ""
            yield from wrapped(" ".join(paragraph.split()), width)
        groups: dict[str, list[Any]] = {}
        names = {each.name for each in self.params}
        hidden, asked = 0, questions() if names & {"model", "models"} else {}
        for each in self.params:
            if each.param_type_name != "option" or each.name in _EVERYWHERE:
                continue
            panel = getattr(each, "rich_help_panel", None) or _PLAIN
            question = asked.get(each.name, panel)  # an option of this command alone is always shown
            if everything:
                groups.setdefault(panel, []).append(each)
            elif question and (each.name not in asked or self._asks(question)):
                groups.setdefault(question, []).append(each)
            else:
                hidden += 1
        for each in arguments:
            yield from _row(_declared(each), each.help or "", width)
        for heading in sorted(groups, key=lambda name: _ORDER.index(name) if name in _ORDER else -1):
            yield ""
            yield f"{heading}:"
            for each in groups[heading]:
                yield from _row(_declared(each), _said(each), width)
        yield ""
        yield from wrapped(self._footer(hidden, everything=everything), width)

    def _asks(self, question: str) -> bool:
        """Whether most calls of this command answer a question. The folder of a build has the answers to most."""
        if self.name in _OF_THE_LIBRARY:
            return question in ("Which board", "Of what")
        return question != "What to write" or any(each.name == "out" for each in self.params)

    def _footer(self, hidden: int, *, everything: bool) -> str:
        names = {each.name for each in self.params}
        common = [("json", "--json"), ("json", _SCHEMA), ("form", "--format"), ("verbose", "-v"), ("color", "--color")]
        words = f"Also: {', '.join(flag for name, flag in common if name in names)}."
        if hidden and not everything:
            words += f" --help-all shows {plural(hidden, 'more option')}."
        if "model" in names:
            words += f" Options may stand in {FILE} beside the model, too."
        return words


def _columns() -> int:
    return shutil.get_terminal_size((80, 24)).columns


def _repeated(option: Any, value: Any) -> Any:
    """The value as the option takes it: one that may be repeated has a list of them."""
    return [value] if getattr(option, "multiple", False) and not isinstance(value, list | tuple) else value


def _long(each: Any) -> str:
    """`--board`."""
    return str(max(each.opts, key=len))


def _declared(each: Any) -> str:
    """`-b, --board NAME`."""
    if each.param_type_name == "argument":
        return str(each.metavar or each.name.upper())
    names = [*sorted(each.opts, key=len), *each.secondary_opts]
    kind = each.type_descriptor
    choices = [str(getattr(word, "value", word)) for word in kind.choices or ()]
    words = each.metavar or "|".join(choices) or _TYPES.get(kind.annotation, "TEXT")
    return f"{', '.join(names)} {'' if each.is_flag else words}".rstrip()


def _said(each: Any) -> str:
    """What an option is for, and its default."""
    shown = each.show_default if isinstance(each.show_default, str) else each.default
    if shown is True and each.secondary_opts:
        shown = "on"
    unsaid = shown in (None, "", (), "none") or isinstance(shown, bool) or callable(shown)
    unsaid |= each.show_default is False
    default = str(getattr(shown, "value", shown))
    if len(default) < _LEFT:
        default = default.replace(" ", TIE)
    return each.help or "" if unsaid else f"{each.help or ''} [{default}]"


def _row(left: str, right: str, width: int) -> Iterator[str]:
    first = f"  {left}"
    if len(first) > _LEFT - 2:
        yield first
        first = ""
    yield from wrapped(right, width, first.ljust(_LEFT), " " * _LEFT)
