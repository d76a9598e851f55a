# SPDX-License-Identifier: Apache-2.0
"""Where code stands: that of a kernel in tinyc, and that of a layer in a library that was written."""

from __future__ import annotations

import functools
import inspect
import json
import re
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

from tinyc.base.dataclass import dataclass
from tinyc.base.errors import Loc, TinycError
from tinyc.base.escape import visible
from tinyc.base.files import read_text
from tinyc.base.paths import runtime_dir
from tinyc.base.runtime_headers import file_of
from tinyc.kernel.kernel import Kernel
from tinyc.ops.op import Op

_PACKAGE = Path(__file__).resolve().parents[1]
_CONTRACT = _PACKAGE / "kernel"  # what only hands the functions of a kernel on
_CALL = re.compile(r"\b(\w+)\(")
_DEFINITION = re.compile(r"static [^;={(]*?\b(\w+)\([^;{]*\)\n\{")
_HEAD = 24  # lines that the parameters of a function may take
_TEXTS = ("name", "op", "kernel", "why", "tile")  # what a report says of a layer
_LISTED = 12  # layers that an error names
_BUILD = "give the folder that `tinyc build -o FOLDER` wrote"
# What a function is for, by the name under which `Offer` and its makers know it.
_PARTS: Mapping[str, str] = {
    "plan": "plan of the layer",
    "lower": "its call",
    "call": "its call",
    "cost": "what it costs",
    "scratch": "its scratch",
    "specialize": "its code",
    "special": "its code",
    "row_forms": "row by row",
    "holds": "what it takes",
}


@dataclass(frozen=True, slots=True)
class CodePlace:
    """Where a part of something stands. line: from 1 on; 0 for a whole file."""

    part: str
    file: str  # of tinyc from its own folder on; of a library its name
    line: int

    def __str__(self) -> str:
        return f"{self.file}:{self.line}" if self.line else self.file


def places_of(op: Op, kernel: Kernel) -> tuple[CodePlace, ...]:
    """Where tinyc says what a kernel is: the meaning of its operator, the integers, what it offers, its C."""
    meaning = [("meaning", op.float_ref), ("integers", op.int_ref), ("parameters", op.prepare)]
    places = [place for part, function in meaning if (place := _place(part, function))]
    places += [place for part, function in _functions(kernel.offer, "offer") if (place := _place(part, function))]
    if not kernel.written:
        places.append(CodePlace("its code", _of_runtime(kernel.own_header), 0))
    return tuple(dict.fromkeys(places))


def _functions(thing: Any, name: str) -> Iterator[tuple[str, Callable[..., Any]]]:
    """(part, function) of a kernel's own functions that a closure holds, the outermost first."""
    while isinstance(thing, functools.partial | Kernel):
        thing = thing.offer if isinstance(thing, Kernel) else thing.func
    if not inspect.isfunction(thing):
        return
    inner = inspect.getclosurevars(thing).nonlocals
    if _CONTRACT not in Path(thing.__code__.co_filename).resolve().parents and thing.__name__ != "<lambda>":
        yield _PARTS.get(name, "what it offers"), thing
    for key, value in inner.items():
        yield from _functions(value, key)


def _place(part: str, function: Callable[..., Any]) -> CodePlace | None:
    """Where a function is defined; None of one that is not tinyc's."""
    while isinstance(function, functools.partial):
        function = function.func
    if not inspect.isfunction(function):
        return None
    file = Path(function.__code__.co_filename).resolve()
    if _PACKAGE not in file.parents or _CONTRACT in file.parents:
        return None
    return CodePlace(part, file.relative_to(_PACKAGE.parent).as_posix(), function.__code__.co_firstlineno)


def _of_runtime(name: str) -> str:
    """The file of a header, or of the family that it is printed from."""
    return f"runtime_c/{file_of(name).relative_to(runtime_dir()).as_posix()}"


@dataclass(frozen=True, slots=True)
class BuiltLayer:
    """A layer of a library: what its report says, and where it stands in the library's files."""

    step: int
    name: str
    op: str
    kernel: str
    why: str
    tile: str  # empty where the function tells none
    places: tuple[CodePlace, ...]


def layer_of(folder: Path, word: str) -> BuiltLayer:
    """The layer of the library in a folder that has this name, or part of a name, or step number. Raises TinycError
    where there is none, or several, and with those that there are."""
    name, layers = _report(folder)
    fitting = [layer for layer in layers if word in (layer["name"], str(layer["step"]))]
    fitting = fitting or [layer for layer in layers if word and word in layer["name"]]
    if len(fitting) != 1:
        listed = fitting or layers
        names = ", ".join(f"{layer['step']} {visible(layer['name'])}" for layer in listed[:_LISTED])
        what = f"several layers have '{visible(word)}' in their names" if fitting else f"no layer is '{visible(word)}'"
        hint = f"give a step's number or a name: {names}{' ...' if len(listed) > _LISTED else ''}"
        raise TinycError(what, Loc(str(folder)), hint)
    (layer,) = fitting
    files = {file.name: read_text(file) for file in sorted(folder.glob("*.[ch]"))}
    places = tuple(_in_library(name, layer["step"], files))
    if not places:
        raise TinycError(f"no C file here has step {layer['step']}", Loc(str(folder)), _BUILD)
    title, op, kernel, why, tile = (visible(layer[key]) for key in _TEXTS)
    return BuiltLayer(layer["step"], title, op, kernel, why, tile, places)


def _report(folder: Path) -> tuple[str, list[Mapping[str, Any]]]:
    """The name of the library in a folder, and its layers, by the build's report."""
    try:
        report = json.loads(read_text(folder / "report.json"))
        name, layers = report["name"], report["layers"]
        texts = [name, *(layer[key] for layer in layers for key in _TEXTS)]
        if all(isinstance(text, str) for text in texts) and all(isinstance(layer["step"], int) for layer in layers):
            return name, list(layers)
    except (OSError, ValueError, KeyError, TypeError, TinycError):
        pass
    if not folder.is_dir():
        raise TinycError("a layer is named of a library, and there is no such folder", Loc(str(folder)), _BUILD)
    raise TinycError("there is no report.json of a build in this folder", Loc(str(folder)), _BUILD)


def _in_library(name: str, step: int, files: Mapping[str, str]) -> Iterator[CodePlace]:
    """The step, its constants, and the functions that it calls: with all that those written for layers call."""
    functions = [function for file, text in files.items() for function in _definitions(file, text)]
    by_name: dict[str, list[_Definition]] = {}
    for function in functions:
        by_name.setdefault(function.name, []).append(function)
    written = {function.name for function in functions if function.file == f"{name}_kernels.h"}
    stem = f"{name}_step_{step}_"
    own = next((function for function in functions if function.name.startswith(stem)), None)
    if own is None:
        return
    yield CodePlace("step", own.file, own.line)
    for file, text in files.items():
        for match in re.finditer(rf"^(?:static )?const [^;\n(]*\b{re.escape(stem)}(\w+)[^;\n(]*=", text, re.MULTILINE):
            yield CodePlace(f"constants {match[1]}", file, text.count("\n", 0, match.start()) + 1)
    waiting, seen = [own], {own.name}
    for function in waiting:  # grows
        for called in dict.fromkeys(_CALL.findall(function.body)):
            if called in by_name and called not in seen and (called in written or function is own):
                seen.add(called)
                for definition in by_name[called]:
                    yield CodePlace(f"{called}, {definition.how}", definition.file, definition.line)
                    waiting.append(definition)


@dataclass(frozen=True, slots=True)
class _Definition:
    """A function in the text of a library. how: `assembly`, `C`, or `C for other cores` beside one in assembly."""

    name: str
    file: str
    line: int
    how: str
    body: str


def _definitions(file: str, text: str) -> Iterator[_Definition]:
    lines = text.splitlines()
    branches: list[str] = []  # of #if ... #else around the line: what is asked for, or `other`
    for number, line in enumerate(lines):
        if line.startswith("#if"):
            branches.append(line)
        elif line.startswith("#else") and branches:
            branches[-1] = "other" if "_ASM" in branches[-1] else ""
        elif line.startswith("#endif") and branches:
            branches.pop()
        match = _DEFINITION.match("\n".join(lines[number : number + _HEAD])) if line.startswith("static") else None
        if match:
            first = number + match[0].count("\n")
            last = next((k for k in range(first, len(lines)) if lines[k] == "}"), first)
            how = "assembly" if "TC_NAKED" in match[0] else "C for other cores" if "other" in branches else "C"
            yield _Definition(match[1], file, number + 1, how, "\n".join(lines[first : last + 1]))
