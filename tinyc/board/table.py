# SPDX-License-Identifier: Apache-2.0
"""Reading of a file of settings, key by key: every complaint names file, line and key."""

from __future__ import annotations

import difflib
import re
from collections.abc import Mapping
from typing import Any

from tinyc.base.errors import Loc, TinycError
from tinyc.base.escape import visible

MOST_LETTERS = 200  # of a text
_SHOWN = 80  # of a wrong value in a message
_WORD = (1 << 32) - 1  # the largest whole number where there is no other limit
_BARE = str.maketrans("", "", "\"' \t")  # a key without quotes and space


class TomlTable:
    """A TOML table that is read key by key; every complaint names file, line and key. kind: what file it is, and page
    the page of docs/ that describes it."""

    def __init__(
        self,
        data: Mapping[str, Any],
        section: str,
        text: str,
        file: str,
        kind: str = "board file",
        page: str = "docs/boards.md",
    ) -> None:
        self._data = dict(data)
        self._section = section
        self._text = text
        self.file = file
        self._kind, self._page = kind, page
        self._read: set[str] = set()

    def string(self, key: str, default: str | None = None) -> str:
        value = self._value(key, default)
        if not isinstance(value, str) or not value:
            raise self.error(key, f"must be a text, not {shown(value)}")
        if len(value) > MOST_LETTERS or not value.isprintable():
            what = f"must be at most {MOST_LETTERS} letters in one line, without invisible characters"
            raise self.error(key, f"{what}, not {shown(value)}")
        return value

    def integer(self, key: str, default: int | None = None, least: int = 0, most: int = _WORD) -> int:
        value = self._value(key, default)
        if not isinstance(value, int) or isinstance(value, bool):
            raise self.error(key, f"must be a whole number, not {shown(value)}")
        if not least <= value <= most:
            raise self.error(key, f"must be from {least} to {'2^32 - 1' if most == _WORD else most}, not {value}")
        return value

    def number(self, key: str, default: float, least: float, most: float) -> float:
        value = self._value(key, default)
        if not isinstance(value, int | float) or isinstance(value, bool):
            raise self.error(key, f"must be a number, not {shown(value)}")
        if not least <= value <= most:
            raise self.error(key, f"must be from {least:g} to {most:g}, not {value:g}")
        return float(value)

    def boolean(self, key: str, default: bool | None = None) -> bool:
        value = self._value(key, default)
        if not isinstance(value, bool):
            raise self.error(key, f"must be true or false, not {shown(value)}")
        return value

    def strings(self, key: str, default: tuple[str, ...] | None = None) -> tuple[str, ...]:
        value = self._value(key, default)
        if not isinstance(value, (list, tuple)) or not all(isinstance(item, str) for item in value):
            raise self.error(key, f"must be a list of texts, not {shown(value)}")
        return tuple(value)

    def choice(self, key: str, choices: tuple[str, ...]) -> str:
        value = self.string(key)
        if value not in choices:
            raise self.error(key, f"is '{value}'; it must be one of: {', '.join(choices)}")
        return value

    def table(self, key: str) -> TomlTable | None:
        if key not in self._data:
            return None
        value = self._value(key, None)
        path = f"{self._section}.{key}" if self._section else key
        if not isinstance(value, dict):
            raise self.error(key, f"must be a table, [{path}]")
        return TomlTable(value, path, self._text, self.file, self._kind, self._page)

    def integers(self, key: str, default: tuple[int, ...] | None = None) -> tuple[int, ...]:
        value = self._value(key, default)
        numbers = isinstance(value, (list, tuple)) and all(type(item) is int and 0 <= item < 1 << 32 for item in value)
        if not numbers:
            raise self.error(key, f"must be a list of whole numbers, not {shown(value)}")
        return tuple(value)

    def numbers(self, key: str, default: tuple[float, ...], least: float, most: float) -> tuple[float, ...]:
        """One number, or a list of them."""
        value = self._value(key, default)
        values = value if isinstance(value, (list, tuple)) else (value,)
        if not values or not all(isinstance(item, int | float) and not isinstance(item, bool) for item in values):
            raise self.error(key, f"must be a number or a list of numbers, not {shown(value)}")
        if not all(least <= item <= most for item in values):
            raise self.error(key, f"must be from {least:g} to {most:g}, not {shown(value)}")
        return tuple(float(item) for item in values)

    def tables(self, key: str) -> list[TomlTable]:
        """The inline tables of a list, in order; complaints name their number."""
        value = self._value(key, ())
        if not isinstance(value, (list, tuple)) or not all(isinstance(item, dict) for item in value):
            raise self.error(key, "must be a list of tables { ... }")
        return [_Item(item, number, key, self) for number, item in enumerate(value, 1)]

    def keys(self) -> tuple[str, ...]:
        return tuple(self._data)

    def has(self, key: str) -> bool:
        return key in self._data

    def finish(self) -> None:
        """Refuse keys that nobody asked for: a misspelt key would be ignored silently."""
        for key in self._data:
            if key not in self._read:
                close = difflib.get_close_matches(key, self._read, n=1)
                guess = f"; did you mean '{close[0]}'?" if close else ""
                raise self.error(key, f"is not a key of a {self._kind}{guess}")

    def error(self, key: str, what: str) -> TinycError:
        name = visible(f"{self._section}.{key}" if self._section else key)
        line = self._line(key)
        where = f"{self.file}:{line}" if line else self.file
        hint = f"{self._page} describes the keys of a {self._kind}"
        return TinycError(f"'{name}' {what}", Loc(where), hint)

    def _value(self, key: str, default: Any) -> Any:
        self._read.add(key)
        if key not in self._data and default is None:
            raise self.error(key, "is missing")
        return self._data.get(key, default)

    def _line(self, key: str) -> int | None:
        """Line of the key, or of its table's header or first dotted key when the key is missing; None when neither is
        found."""
        header = None
        whole = f"{self._section}.{key}".lstrip(".")
        section = ""
        for number, line in enumerate(self._text.splitlines(), 1):
            if opened := re.match(r"\s*\[{1,2}\s*([^\]]+?)\s*\]", line):
                section = opened[1].replace(" ", "")
                if section == whole:
                    return number
                header = number if section == self._section else header
            elif "=" in line:
                name = f"{section}.{line.partition('=')[0].translate(_BARE)}".lstrip(".")
                if name == whole:
                    return number
                if header is None and self._section and name.startswith(f"{self._section}."):
                    header = number
        return header


class _Item(TomlTable):
    """One table of a list; it has no line of its own, so complaints name the list's."""

    def __init__(self, data: Mapping[str, Any], number: int, key: str, parent: TomlTable) -> None:
        super().__init__(data, "", "", parent.file)
        self._number = number
        self._key = key
        self._parent = parent

    def error(self, key: str, what: str) -> TinycError:
        return self._parent.error(self._key, f"has an item {self._number} whose '{key}' {what}")


def shown(value: Any) -> str:
    text = "empty" if value == "" else visible(repr(value))
    return text if len(text) <= _SHOWN else f"{text[: _SHOWN - 3]}..."
