# SPDX-License-Identifier: Apache-2.0
"""Reading a model file, whether it makes the outputs that are asked for, and one error that lists all that is wrong
with it."""

from __future__ import annotations

import difflib
from collections.abc import Collection, Sequence
from pathlib import Path

from tinyc.base.errors import Loc, TinycError
from tinyc.base.escape import visible
from tinyc.base.files import MAX_BYTES
from tinyc.base.names import some_of

OF_OPERATORS = (
    "docs/operators.md says what tinyc takes of each operator; if the file itself is wrong, export it again; "
    "--outputs NAME ends the model earlier"
)


_MOST_LINES, _MOST_HINTS = 8, 3  # of one message


class FollowUpError(Exception):
    """An operator reads what an unsupported one should have computed: no problem of its own."""


def read_bytes(path: Path) -> bytes:
    """The content of a file. TinycError if it is missing, a folder, empty, too large or unreadable."""
    where = Loc(path.name)
    try:
        if not path.is_file():
            what = "is a folder" if path.is_dir() else "is not a file" if path.exists() else "does not exist"
            raise TinycError(f"{path} {what}", hint="give the path of a .tflite or .onnx file")
        size = path.stat().st_size
        if size > MAX_BYTES:
            message = f"the file has {size:,} bytes; models of up to {MAX_BYTES:,} bytes are read"
            raise TinycError(message, where, "is it the trained model? A training checkpoint is no .onnx or .tflite")
        content = path.read_bytes()
    except OSError as e:
        raise TinycError(f"{path} cannot be read: {e.strerror}", hint="check the file's permissions") from e
    if not content:
        raise TinycError("the file is empty", where, "export or download the model again")
    return content


def check_outputs(asked: Sequence[str], computed: Collection[str], where: Loc) -> None:
    """Raise TinycError, with names that are near, unless operators of the file make all that is asked for."""
    for name in asked:
        if name not in computed:
            near = difflib.get_close_matches(name, list(computed), n=3)
            hint = f"did you mean {', '.join(map(visible, near))}?" if near else "`tinyc inspect` lists the layers"
            raise TinycError(f"no operator of the model makes a tensor '{visible(name)}'", where, hint)
    if len(set(asked)) < len(asked):
        raise TinycError("an output is named twice", where, "name each once")


def explained(error: TinycError, file: str, of_file: str) -> TinycError:
    """The error with a place in the file and a hint, where it has none. of_file: the hint of what no operator caused.

    An operator is refused because tinyc does not have that form of it, or because the file contradicts itself. Either
    way the tables say what is taken, and what comes before the operator can be built.
    """
    located = error.located(Loc(file))
    if located.where is None or not located.where.op:
        return located.hinted(of_file)
    return located.hinted(OF_OPERATORS)


def combined(problems: Sequence[TinycError], file: str) -> TinycError:
    """One error for all: the only one as it is, or a list that names each operator with its reason.

    Operators with the same reason share a line: `nodes 3, 7, 12 (CAST): ...`.
    """
    if len(problems) == 1:
        return problems[0]
    lines: dict[tuple[str, str], list[TinycError]] = {}
    for problem in problems:
        op = problem.where.op if problem.where else ""
        lines.setdefault((op, problem.message), []).append(problem)
    hints = dict.fromkeys(problem.hint for problem in problems if problem.hint)
    shown = [f"  {_places(same)}: {message}" for (_, message), same in list(lines.items())[:_MOST_LINES]]
    if len(lines) > _MOST_LINES:
        shown.append(f"  and {len(lines) - _MOST_LINES} other reasons; `tinyc inspect` lists every operator")
    text = "\n".join(shown)
    return TinycError(
        f"{len(problems)} operators cannot be imported\n{text}", Loc(file), "\n        ".join(list(hints)[:_MOST_HINTS])
    )


def _places(problems: Sequence[TinycError]) -> str:
    """`node 3 'conv1' (Conv)` or `nodes 3, 7, 12 (Cast)`."""
    wheres = [problem.where for problem in problems if problem.where]
    if len(wheres) == 1:
        return str(wheres[0]).partition(": ")[2]
    numbers = some_of(str(where.node) for where in wheres)
    return f"nodes {numbers} ({wheres[0].op})" if wheres else "the model"
