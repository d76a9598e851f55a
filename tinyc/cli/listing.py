# SPDX-License-Identifier: Apache-2.0
"""Tables, facts and sentences that fit any terminal.

No name is cut, for it may have to be typed, and no word is broken. A table that is too wide for a line loses what
follows from other columns, then moves words and names below the row, the widest first, and then cuts its figures in
several lines. Sentences stand below the row, unless most fit at its end.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from typing import Literal

from rich.cells import cell_len
from rich.text import Text

from tinyc.base.dataclass import dataclass
from tinyc.base.escape import visible

_GAP = 2
_LABEL = 12  # columns of what stands before facts

TIE = "\N{NO-BREAK SPACE}"  # between words of one line
_UNIT = re.compile(r"(?<=\d) (?=%|(?:[KM]iB|dB|ms|uJ|MHz)\b)")  # a number stays with its unit

Kind = Literal["text", "figure", "sentence"]


@dataclass(frozen=True, slots=True)
class ListingColumn:
    """kind: figures stand at the right; sentences below their row. spare: it follows from other columns, and is left
    out where there is no room."""

    head: str
    kind: Kind = "text"
    spare: bool = False


def text(*heads: str) -> tuple[ListingColumn, ...]:
    """Columns of words or names."""
    return tuple(ListingColumn(head) for head in heads)


def figures(*heads: str, spare: Sequence[str] = ()) -> tuple[ListingColumn, ...]:
    """Columns of numbers."""
    return tuple(ListingColumn(head, "figure", head in spare) for head in heads)


SENTENCE = (ListingColumn("", "sentence"),)


class Listing:
    """A table. Rows are added, then `lines` are asked for."""

    def __init__(self, *columns: ListingColumn, title: str = "") -> None:
        self.columns, self.title = columns, title
        self.rows: list[tuple[tuple[str, ...], str]] = []

    def add(self, *cells: object, style: str = "") -> None:
        """A row, a cell for each column. style: of its words."""
        assert len(cells) == len(self.columns)
        self.rows.append((tuple(map(visible, cells)), style))

    def lines(self, width: int) -> Iterator[Text]:
        """The table, no line of it wider than `width` but for names that are."""
        if self.title:
            yield Text(self.title, style="bold")
        if not self.rows:
            return
        columns = [index for index in range(len(self.columns)) if self._is_filled(index)]
        said = [index for index in columns if self.columns[index].kind == "sentence"]
        beside = [index for index in columns if index not in said]
        if not self._fits(beside, width):
            beside = [index for index in beside if not self.columns[index].spare]
        apart: list[int] = []
        while not self._fits(beside, width) and (words := self._movable(beside)):
            apart.append(words.pop())
            beside.remove(apart[-1])
        if self._subject() in apart:
            number = [index for index in beside[:1] if index == 0 and self.columns[0].kind == "figure"]
            beside = beside[len(number) :]
            for index in sorted(apart, key=self._room):  # a short word has room beside the figures
                if index != self._subject() and self._fits([index, *beside], width - self._indent()):
                    beside = sorted([index, *beside])
            apart = [index for index in apart if index not in beside]
            yield from self._under_names([*number, *sorted(apart)], beside, said, width)
        else:
            yield from self._over_names(beside, sorted(apart), said, width)

    def _subject(self) -> int:
        """The column that says what a row is of: the first that is no figure."""
        return next(index for index, column in enumerate(self.columns) if column.kind != "figure")

    def _movable(self, indices: Sequence[int]) -> list[int]:
        """Columns of words that a line may do without, the widest last, but for the subject, which goes first."""
        words = [index for index in indices if self.columns[index].kind == "text"]
        return sorted(words, key=lambda index: (index != self._subject(), self._room(index)))

    def _is_filled(self, index: int) -> bool:
        return any(cells[index] for cells, _ in self.rows)

    def _room(self, index: int) -> int:
        """Columns of the terminal that a column takes."""
        return max(cell_len(self.columns[index].head), *(cell_len(cells[index]) for cells, _ in self.rows), 0)

    def _fits(self, indices: Sequence[int], width: int) -> bool:
        return self._wide(indices) <= width

    def _wide(self, indices: Sequence[int]) -> int:
        return sum(map(self._room, indices)) + _GAP * (len(indices) - 1)

    def _line(self, cells: Sequence[str], indices: Sequence[int]) -> str:
        return (" " * _GAP).join(self._cell(cells[index], index) for index in indices).rstrip()

    def _cell(self, cell: str, index: int) -> str:
        space = " " * (self._room(index) - cell_len(cell))
        return space + cell if self.columns[index].kind == "figure" else cell + space

    def _indent(self) -> int:
        """Of what stands below the first line of a row: beside its number, if that is first."""
        return self._room(0) + _GAP if self.columns[0].kind == "figure" else 2 * _GAP

    def _over_names(
        self, beside: Sequence[int], below: Sequence[int], said: Sequence[int], width: int
    ) -> Iterator[Text]:
        """A line for each row; below it the names that have no room there. Sentences stand at the end of the line where
        most have room."""
        at = self._wide(beside) + _GAP
        rooms = [cell_len(cells[index]) <= width - at for cells, _ in self.rows for index in said if cells[index]]
        inline = not below and 2 * sum(rooms) > len(rooms)
        indent = " " * self._indent()
        heads = [column.head for column in self.columns]
        for cells, style in (*[(heads, "bold")] * any(heads), *self.rows):
            tail = [index for index in said if inline and at + cell_len(cells[index]) <= width]
            yield Text(self._line(cells, [*beside, *tail]), style=style)
            yield from (Text(line, style=style) for line in self._words(cells, below, width, indent, indent))
            yield from self._sentences(cells, [index for index in said if index not in tail], width)

    def _under_names(
        self, above: Sequence[int], beside: Sequence[int], said: Sequence[int], width: int
    ) -> Iterator[Text]:
        """A line for the number of each row and its names; below it what else there is, in lines that fit."""
        indent = " " * self._indent()
        groups: list[list[int]] = []
        for index in beside:
            if groups and self._fits([*groups[-1], index], width - len(indent)):
                groups[-1].append(index)
            else:
                groups.append([index])
        heads = [column.head for column in self.columns]
        for cells, style in (*[(heads, "bold")] * any(heads), *self.rows):
            number = [index for index in above if self.columns[index].kind == "figure"]
            lead = "".join(self._cell(cells[index], index) + " " * _GAP for index in number)
            names = [index for index in above if index not in number]
            yield from (Text(line, style=style) for line in self._words(cells, names, width, lead, indent))
            lines = (self._line(cells, group) for group in groups)
            yield from (Text(indent + line, style=style if cells is heads else "") for line in lines if line)
            yield from self._sentences(cells, said, width)

    def _words(self, cells: Sequence[str], indices: Sequence[int], width: int, first: str, other: str) -> Iterator[str]:
        """Names of a row, in columns if those fit, else one after the other."""
        if indices and len(first) + self._wide(indices) <= width:
            parts = [self._line(cells, indices)]
        else:
            parts = [cells[index] for index in indices]
        yield from _joined([part for part in parts if part], width, first, other)

    def _sentences(self, cells: Sequence[str], said: Sequence[int], width: int) -> Iterator[Text]:
        indent = " " * self._indent()
        for index in said:
            if cells[index]:
                yield from (Text(line) for line in wrapped(cells[index], width, indent, indent))


def _joined(parts: Sequence[str], width: int, first: str, other: str) -> Iterator[str]:
    """Parts with gaps between them, as many as fit in a line; none is cut."""
    line, is_empty = first, True
    for part in parts:
        if not is_empty and cell_len(line) + _GAP + cell_len(part) > width:
            yield line
            line, is_empty = other, True
        line += part if is_empty else " " * _GAP + part
        is_empty = False
    if not is_empty:
        yield line


def wrapped(sentence: str, width: int, first: str = "", other: str = "") -> Iterator[str]:
    """A sentence in lines of at most `width`, cut between words; a longer word has a line of its own. first, other:
    what the first line begins with, and what the others do. Its own line ends, and spaces before its lines, stay."""
    for paragraph in sentence.split("\n"):
        words = _UNIT.sub(TIE, paragraph).split(" ")
        begins = other + " " * (len(paragraph) - len(paragraph.lstrip(" ")))
        line, is_empty = first, True
        for word in words:
            if not is_empty and word and cell_len(line) + 1 + cell_len(word) > width and line.strip():
                yield line.rstrip().replace(TIE, " ")
                line, is_empty = begins, True
            line += word if is_empty else f" {word}"
            is_empty = False
        yield line.rstrip().replace(TIE, " ")
        first = other


class FactList:
    """Lines of `what  sentence`, the lines of a sentence below each other."""

    def __init__(self, label: int = _LABEL) -> None:
        self.rows: list[tuple[str, str, str, str]] = []
        self.label = label

    def add(self, what: str, sentence: str, word: str = "", style: str = "") -> None:
        """word: before the sentence, in a style of its own."""
        self.rows.append((visible(what), sentence, word, style))

    def lines(self, width: int) -> Iterator[Text]:
        """The facts, no line wider than `width` but for words that are."""
        label = max([self.label, *(cell_len(what) for what, *_ in self.rows)]) + _GAP
        for what, sentence, word, style in self.rows:
            first = what + " " * (label - cell_len(what))
            whole = f"{word}: {sentence}" if word else sentence
            for index, line in enumerate(wrapped(whole, width, first, " " * label)):
                shown = Text(line)
                if word and index == 0:
                    shown.stylize(style, len(first), len(first) + len(word))
                yield shown


Block = Listing | FactList


def lines_of(blocks: Iterable[Block | Text | str], width: int) -> Iterator[Text]:
    """The lines of all; texts as they are, words between lines."""
    for block in blocks:
        if isinstance(block, Text):
            yield block
        elif isinstance(block, str):
            yield from (Text(line) for line in wrapped(block, width))
        else:
            yield from block.lines(width)
