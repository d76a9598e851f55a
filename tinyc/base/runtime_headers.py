# SPDX-License-Identifier: Apache-2.0
"""The headers of runtime_c/, found by name: each is a file in one of its rooms, or a line of the table of a family.

A family, `<family>.h.in`, is headers that differ in a few words. Its second comment is a table, a line for each header:
its name, `tc_argmax_s8`, is the first column; columns are apart by two blanks or more. What follows is the text of all,
in which `@column@` stands for the word of the header's line, `@HEADER@` for its name in capitals; a line of the text
with the word `-` is left out. Lines between `@if column@` and `@end@` stand where the word is not `-`, those behind an
`@else@` among them where it is. A line of the table that begins further in goes on with the line before it.
"""

from __future__ import annotations

import functools
import re
from pathlib import Path

from tinyc.base.paths import runtime_dir

_FAMILY = re.compile(r"(/\* SPDX.*?\*/\n)/\*(.*?)\*/\n(.*)", re.DOTALL)
_PLACE = re.compile(r"@(\w+)@")
_COLUMNS = re.compile(r" {2,}")
_BLOCK = re.compile(r"@(?:if (\w+)|(else)|end)@\n")


def header_names() -> list[str]:
    """The names of all headers, `tc_math.h`, in order."""
    return sorted([file.name for file in runtime_dir().glob("*/*.h")] + [n for f in _families() for n in _words_of(f)])


@functools.cache
def header_of(name: str) -> str:
    """The text of the header of that name. Raises FileNotFoundError."""
    for file in runtime_dir().glob(f"*/{name}"):
        return file.read_text(encoding="utf-8")
    for family in _families():
        if name in _words_of(family):
            return members(family)[name]
    raise FileNotFoundError(f"no room of {runtime_dir()} has {name}")


def file_of(name: str) -> Path:
    """The file of the header of that name, or of the family that it belongs to. Raises FileNotFoundError."""
    for file in runtime_dir().glob(f"*/{name}"):
        return file
    for family in _families():
        if name in _words_of(family):
            return family
    raise FileNotFoundError(f"no room of {runtime_dir()} has {name}")


def _families() -> list[Path]:
    return sorted(runtime_dir().glob("*/*.h.in"))


def members(family: Path) -> dict[str, str]:
    """The headers of a family: name -> text."""
    licence, _, text = _parts(family)
    return {name: licence + _printed(text, words) for name, words in _words_of(family).items()}


def _words_of(family: Path) -> dict[str, dict[str, str]]:
    """The headers of a family: name -> its words, by columns of the table."""
    table = [_COLUMNS.split(row) for row in _rows(_parts(family)[1])]
    columns, *rows = table
    headers = (dict(zip(columns, row, strict=True)) for row in rows)
    return {f"{words[columns[0]]}.h": words for words in headers}


def _parts(family: Path) -> tuple[str, str, str]:
    """Its licence, the comment with its table, and the text that the headers share."""
    parts = _FAMILY.fullmatch(family.read_text(encoding="utf-8"))
    if parts is None:
        raise ValueError(f"{family.name} does not begin with its licence and its table")
    licence, comment, text = parts.groups()
    return licence, comment, text


def _rows(comment: str) -> list[str]:
    """The lines of the table: those after the empty line of the comment, each with what goes on with it."""
    lines = comment.split("\n *\n", maxsplit=1)[1].rstrip().splitlines()
    bare = [line.removeprefix(" *") for line in lines]
    indent = min(len(line) - len(line.lstrip()) for line in bare)
    rows: list[str] = []
    for line in bare:
        if line[indent].isspace():
            rows[-1] += f"  {line.strip()}"
        else:
            rows.append(line.strip())
    return rows


def _printed(text: str, words: dict[str, str]) -> str:
    """The text with a header's words in it."""
    header = next(iter(words.values()))
    values = words | {"HEADER": header.upper()}
    lines, stands = [], True
    for line in text.splitlines(keepends=True):
        if block := _BLOCK.fullmatch(line):
            column, turns = block.groups()
            stands = values[column] != "-" if column else not stands if turns else True
        elif stands and all(values[column] != "-" for column in _PLACE.findall(line)):
            lines.append(_PLACE.sub(lambda place: values[place[1]], line))
    return "".join(lines)
