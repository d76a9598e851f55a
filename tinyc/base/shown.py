# SPDX-License-Identifier: Apache-2.0
"""What Python shows of a result: ten lines as text, and tables in a notebook."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape

from tinyc.base.dataclass import dataclass
from tinyc.base.escape import visible

_LINES, _COLUMNS = 10, 120  # of the text


@dataclass(frozen=True, slots=True)
class SummaryTable:
    """Rows of words under their heads; figures are strings that begin with a digit."""

    heads: Sequence[str]
    rows: Sequence[Sequence[str]]


@dataclass(frozen=True, slots=True)
class Summary:
    """A title, facts by name, and tables: the text has no tables."""

    title: str
    facts: Sequence[tuple[str, str]] = ()
    tables: Sequence[SummaryTable] = ()


class Shown:
    """A result. Its class says `summary`, and `__repr__ = Shown.text`: a dataclass would write its own."""

    __slots__ = ()

    def summary(self) -> Summary:
        """What is shown."""
        raise NotImplementedError

    def text(self) -> str:
        """At most ten lines."""
        own = self.summary()
        width = max((len(name) for name, _ in own.facts), default=0)
        lines = [own.title, *(f"  {name:<{width}}  {value}" for name, value in own.facts[: _LINES - 1])]
        return "\n".join(_cut(visible(line)) for line in lines)

    def _repr_html_(self) -> str:
        """For a notebook."""
        own = self.summary()
        facts = _table([["<b>" + _said(name) + "</b>", _said(value)] for name, value in own.facts])
        parts = [f"<p><b>{_said(own.title)}</b></p>", facts if own.facts else ""]
        for table in own.tables:
            heads = "".join(f"<th>{_said(head)}</th>" for head in table.heads)
            rows = [[_said(cell) for cell in row] for row in table.rows]
            parts.append(_table(rows, f"<tr>{heads}</tr>"))
        return "<div>" + "".join(parts) + "</div>"


def bytes_of(count: int | None) -> str:
    """`1,024 bytes`; nothing where it is not known."""
    return "" if count is None else f"{count:,} bytes"


def number(value: int | None) -> str:
    """`1,024`, or `-`."""
    return "-" if value is None else f"{value:,}"


def nonempty(**facts: str) -> list[tuple[str, str]]:
    """Those facts that are not empty; `_` in a name is a space."""
    return [(name.replace("_", " "), value) for name, value in facts.items() if value]


def proved(output_bytes: int, mismatches: int) -> str:
    """Whether bytes are the reference's."""
    return f"{output_bytes:,} output bytes: {'all equal' if not mismatches else f'{mismatches:,} DIFFER'}"


def _cut(line: str) -> str:
    return line if len(line) <= _COLUMNS else f"{line[: _COLUMNS - 3]}..."


def _said(text: str) -> str:
    return escape(visible(text))


def _table(rows: Sequence[Sequence[str]], head: str = "") -> str:
    body = "".join(f"<tr>{''.join(map(_cell, row))}</tr>" for row in rows)
    return f"<table>{head}{body}</table>"


def _cell(text: str) -> str:
    side = "right" if text[:1].isdigit() else "left"
    return f'<td style="text-align: {side}">{text}</td>'
