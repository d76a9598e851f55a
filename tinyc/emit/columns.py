# SPDX-License-Identifier: Apache-2.0
"""Generated C within so many columns: lines that are too long go on in the next one."""

from __future__ import annotations

import re
from collections.abc import Iterator

COLUMNS = 110
_HANG = 8  # of code that goes on
_COMMENT = re.compile(r"( *)(?:/\*| \*)( +(// |\S+ {2,})?)")  # up to its words, or to those behind a label


def narrow(text: str) -> str:
    """The same C with no line over COLUMNS that a space could break: in a comment anywhere, in code between tokens.

    Directives, all lines of them, and lines with string literals stay as they are. In comments words that are longer
    are broken too.
    """
    lines: list[str] = []
    in_comment = in_directive = False
    for line in text.split("\n"):
        is_comment = in_comment or line.lstrip().startswith("/*")
        lines += _narrowed(line, is_comment) if len(line) > COLUMNS and not in_directive else [line]
        in_comment = is_comment and "*/" not in line
        in_directive = not is_comment and line.endswith("\\")
    return "\n".join(lines)


def prose(text: str, first: str = " * ", last: str = "") -> str:
    """Lines of a comment, filled with the words of the text. first: what the first begins with; last: what ends it."""
    lines, line = [], first
    for word in (text + last).split():
        if len(line) + len(word) > COLUMNS:
            lines.append(line.rstrip())
            line = " " if word == "*/" else " * "
        line += f"{word} "
    return "\n".join([*lines, line.rstrip(), ""])


def _narrowed(line: str, is_comment: bool) -> Iterator[str]:
    words = _COMMENT.match(line) if is_comment else None
    if words is not None:
        goes_on = "// " if words[3] == "// " else ""
        indent = words.end() - len(words[1]) - 2 - len(goes_on)
        yield from _broken_comment(line, words.end(), f"{words[1]} *{' ' * indent}{goes_on}")
    elif line.lstrip().startswith("#") or '"' in line:
        yield line
    else:
        yield from _broken_code(line, " " * (len(line) - len(line.lstrip()) + _HANG))


def _broken_comment(line: str, begin: int, margin: str) -> Iterator[str]:
    """Lines of which the second and later begin with `margin`; the words of the first begin at `begin`."""
    while len(line) > COLUMNS:
        at = line.rfind(" ", begin, COLUMNS + 1)
        at = COLUMNS if at < 0 else at
        yield line[:at].rstrip()
        rest = line[at:].lstrip()
        line, begin = margin[: margin.index("*")] + rest if rest == "*/" else margin + rest, len(margin)
    yield line


def _broken_code(line: str, indent: str) -> Iterator[str]:
    while len(line) > COLUMNS:
        begin = len(line) - len(line.lstrip())
        at = line.rfind(", ", begin, COLUMNS) + 1 or line.rfind(" ", begin, COLUMNS + 1)
        at = line.find(" ", COLUMNS) if at < 0 else at
        if at < 0:
            break
        yield line[:at]
        line = indent + line[at + 1 :]
    yield line
