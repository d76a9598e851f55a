# SPDX-License-Identifier: Apache-2.0
"""Options that are not on the command line: those of `tinyc.toml` beside the model, and those of a build, which its
folder has. The command's own parser checks both, with the same messages."""

from __future__ import annotations

import difflib
import errno
import json
import os
import re
import tomllib
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import Field
from enum import Enum
from pathlib import Path
from typing import Any

from tinyc.base.errors import Loc, TinycError
from tinyc.base.files import read_text, sha256_of_file, write_file
from tinyc.base.output_folder import REPORT_FILE
from tinyc.cli.options import declared, name_of
from tinyc.options.build import Options
from tinyc.options.option import OptionFacts, flag_of, without_none
from tinyc.options.words import changed_options
from tinyc.verify.report import Report, UnprovedReport

FILE = "tinyc.toml"
_OF_BUILD = {"out": "out", "package": "package", "report": "page"}  # options of `tinyc build` itself, by their flags
_MODELS = (".onnx", ".tflite")  # what the name of a table ends with
_MOST_LETTERS, _MOST_DOTS = 1 << 16, 40  # of the file, and of a line
_MODULE = re.compile(r"[\w.]+:\w+")  # a function that gives calibration data
_DATA = ("calibration", "evaluate", "inputs")  # options that take such a function
_MOST_FILES = 20_000  # that are looked at to find one
_NOT_OF_A_BUILD = {"inputs", "samples", "sequence", "toolchain", "emulator", "cache", "min_top1", "min_agreement"}
_NOT_OF_A_BUILD |= {"baseline", "max_drop", "min_sqnr", "wav", "image", "expect", "no_proof", "harness", "task", "baud"}


def _parameters() -> Mapping[str, str]:
    """Flag -> name of the parameter, of all options that a file may give."""
    return {flag_of(each): name_of(each) for _, each, _, _ in declared()} | _OF_BUILD


def _files() -> frozenset[str]:
    """Parameters whose values are paths, or may be."""
    kinds = {name_of(each): without_none(kind)[0] for _, each, kind, _ in declared()}
    return frozenset({name for name, kind in kinds.items() if kind is Path} | {"out"})


def settings_beside(model: Path) -> dict[str, Any]:
    """The options of `tinyc.toml` beside a model, by names of parameters: those at its top, and over them those of the
    table that is called as the model's file. Paths are the file's, as seen from here. TinycError for a file that is no
    TOML, and for a key that is no option."""
    file = model.parent / FILE
    try:
        text = read_text(file, _MOST_LETTERS)
        # What the reader of TOML takes for a key grows with the cube of its parts.
        if any(line.count(".") > _MOST_DOTS for line in text.splitlines()):
            raise OSError(errno.EINVAL, "it has too many dots in a line")
        held = tomllib.loads(text)
    except FileNotFoundError:
        return {}
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError, RecursionError) as error:
        said = "it is not UTF-8 text" if isinstance(error, UnicodeDecodeError) else error
        reason = error.strerror if isinstance(error, OSError) else said
        raise TinycError(f"{FILE} cannot be read: {reason}", Loc(str(file)), "docs/build.md describes it") from error
    for name in (key for key, value in held.items() if isinstance(value, dict) and not key.endswith(_MODELS)):
        raise TinycError(f"'{name}' is no model file", Loc(str(file)), f'a table is called as one: ["{model.name}"]')
    own = held.get(model.name, {})
    plain = {key: value for key, value in held.items() if not isinstance(value, dict)}
    if not isinstance(own, dict):
        raise TinycError(f"'{model.name}' is no table", Loc(str(file)), f'begin it with ["{model.name}"]')
    values = {_parameter(key, file): value for key, value in (plain | own).items()}
    for name, value in values.items():
        _check_harmless(name, value, file)
    return {name: _value(name, value, file) for name, value in values.items()}


def _runs_code(name: str, value: Any) -> bool:
    """Whether an option names a function of the user's: a metric's, or one that gives data."""
    if not isinstance(value, str):
        return False
    return ".py:" in value if name == "metric" else name in _DATA and _MODULE.fullmatch(value) is not None


def _check_harmless(name: str, value: Any, file: Path) -> None:
    """Raises TinycError where a file that came with a model would run code, or write beside its own folder: such files
    may come from strangers."""
    hint = "what comes with a model must be harmless: give it on the command line"
    if _runs_code(name, value):
        raise TinycError(f"'{name}' would run code, {value}", Loc(str(file)), hint)
    if name == "page" and (Path(str(value)).is_absolute() or ".." in Path(str(value)).parts):
        raise TinycError(f"the report would be written outside of this folder, to {value}", Loc(str(file)), hint)


def _parameter(key: str, file: Path) -> str:
    flag = key.replace("_", "-")
    parameters = _parameters()
    if flag not in parameters:
        near = difflib.get_close_matches(flag, parameters, 1)
        hint = f"`{near[0]}` is one" if near else "docs/options.md lists them"
        raise TinycError(f"there is no option '{key}'", Loc(str(file)), hint)
    return parameters[flag]


def _value(name: str, value: Any, file: Path) -> Any:
    """As the command line's parser takes it."""
    if isinstance(value, list) and name not in ("state", "board"):
        return ",".join(map(str, value))
    if isinstance(value, str) and (name in _files() or value.endswith(".toml")) and not _MODULE.fullmatch(value):
        return os.path.relpath(file.parent / value) if not Path(value).is_absolute() else value
    return [value] if name in ("state", "board") and isinstance(value, str) else value


def saved_settings(options: Options, more: Mapping[str, Any], model: Path) -> Path:
    """Writes the options that are not as by default into `tinyc.toml` beside the model, as the table of its name in
    the place of what that was; the rest of the file stays. more: options of `tinyc build` itself, by flags. The file.
    """
    file = model.parent / FILE
    values = {"board": options.board}
    values |= {flag_of(each): _said(each, told, value) for each, told, value in changed_options(options)}
    values.pop("cache", None)  # of a run, and not of a build
    values = {flag: value for flag, value in values.items() if not _runs_code(flag, value)}  # nor would it be read
    values |= {flag: value for flag, value in more.items() if value not in (None, False)}
    lines = [f"[{toml_string(model.name)}]", *(f"{flag} = {_toml(value, file)}" for flag, value in values.items())]
    try:
        before = _without_table(read_text(file), model.name) if file.exists() else ""
        write_file(file, (before + "\n".join(lines) + "\n").encode())
    except OSError as error:
        raise TinycError(f"{FILE} cannot be written: {error.strerror}", Loc(str(file)), "leave out --save") from error
    return file


def _without_table(text: str, name: str) -> str:
    """A TOML text without the table of that name, and with an empty line at its end."""
    other_lines, is_inside = [], False
    for line in text.splitlines():
        if line.lstrip().startswith("["):
            try:
                is_inside = list(tomllib.loads(line)) == [name]
            except tomllib.TOMLDecodeError:
                is_inside = False
        if not is_inside:
            other_lines.append(line)
    rest = "\n".join(other_lines).strip("\n")
    return f"{rest}\n\n" if rest else ""


def _said(each: Field[Any], told: OptionFacts, value: Any) -> Any:
    """The value of an option as the command line says it."""
    if told.inverted:
        return not value
    if each.default is None and isinstance(value, bool):
        return "on" if value else "off"
    if isinstance(value, tuple) and not told.repeats:
        return ",".join(f"{one:g}" if isinstance(one, float) else one for one in value)
    return "auto" if value is None else value


def _toml(value: Any, file: Path) -> str:
    """A value of TOML; paths are as seen from the file."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int | float):
        return str(value)
    if isinstance(value, tuple):
        return f"[{', '.join(_toml(one, file) for one in value)}]"
    text = str(value.value if isinstance(value, Enum) else value)
    if (isinstance(value, Path) or text.endswith(".toml")) and not Path(text).is_absolute():
        text = Path(os.path.relpath(text, file.parent)).as_posix()
    return toml_string(text)


def toml_string(text: str) -> str:
    """A text as a string of TOML."""
    plain = text.encode("utf-8", "replace").decode("utf-8")
    return json.dumps(plain).replace("\x7f", "\\u007f")


# A build -------------------------------------------------------------------------------------------------------------


def is_build(folder: Path) -> bool:
    """Whether `tinyc build` wrote this folder."""
    return (folder / REPORT_FILE).is_file()


def model_of(folder: Path, report: Report | UnprovedReport) -> Path:
    """The model file of a build, found by its digest."""
    return file_of(folder, report.model, report.model_sha256, "model")


def file_of(folder: Path, name: str, digest: str, what: str) -> Path:
    """The file of that name and SHA-256: in the folders above the build, in this one, and below both. TinycError where
    there is none."""
    others = False
    for file in _candidates(folder, name):
        if sha256_of_file(file) == digest:
            return file
        others = True
    reason = "there is one with other contents" if others else "it is not here, nor above the folder"
    hint = "start tinyc where it is, or give the model and its options instead of the folder"
    raise TinycError(f"the {what} of this build, {name}, is not found: {reason}", Loc(str(folder)), hint)


def _candidates(folder: Path, name: str) -> Iterator[Path]:
    above = [Path(), *list(folder.resolve().parents)[:3]]
    yield from (place / name for place in above if (place / name).is_file())
    seen = 0
    for place, folders, files in os.walk(Path()):
        folders[:] = sorted(each for each in folders if not each.startswith("."))
        seen += len(files)
        if name in files:
            yield Path(os.path.normpath(os.path.join(place, name)))
        if seen > _MOST_FILES:
            return


def check_same(folder: Path, built: Mapping[str, Any], given: Mapping[str, Any], words: Mapping[str, str]) -> None:
    """Raises TinycError where an option that makes a library what it is differs from the one that the build had. built,
    given: values by names of parameters. words: their flags."""
    for name, value in given.items():
        if name in _NOT_OF_A_BUILD or name not in words or _same(name, value, built.get(name)):
            continue
        before = f"with {words[name]} {_shown(built[name])}" if name in built else f"without {words[name]}"
        message = f"the build was made {before}, and {words[name]} {_shown(value)} is given"
        raise TinycError(message, Loc(str(folder)), f"leave out {words[name]}, or build again with it")


def _same(name: str, value: Any, before: Any) -> bool:
    if name in _files() and before is not None:
        try:
            return sha256_of_file(Path(str(value))) == sha256_of_file(Path(str(before)))
        except OSError:
            return False
    return _shown(value) == _shown(before)


def _shown(value: Any) -> str:
    return ",".join(map(str, value)) if isinstance(value, Sequence) and not isinstance(value, str) else str(value)


def of_build(
    folder: Path, opts: Mapping[str, Any], report: Report | UnprovedReport, given: Collection[str] = ()
) -> dict[str, Any]:
    """The options of a build by names of parameters; files are found by their digests. opts: as parsed. given: names of
    those that are on the command line, too."""
    digests = {file.name: file.sha256 for file in report.files}
    for name in opts.keys() - set(given):
        _check_harmless(name, opts[name], folder / REPORT_FILE)
    options: dict[str, Any] = {}
    for name, value in opts.items():
        try:
            if value is not None:
                options[name] = _located(folder, name, value, digests)
        except TinycError:
            if name not in _NOT_OF_A_BUILD:  # the library is the same without test inputs that are gone
                raise
    return options


def _located(folder: Path, name: str, value: Any, digests: Mapping[str, str]) -> Any:
    if isinstance(value, list | tuple):
        return [_located(folder, name, one, digests) for one in value]
    if isinstance(value, str) and value in digests:
        return str(file_of(folder, value, digests[value], f"file of --{name.replace('_', '-')}"))
    return value
