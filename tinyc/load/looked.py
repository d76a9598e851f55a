# SPDX-License-Identifier: Apache-2.0
"""What an operator of the file says, and which of it an importer has looked at.

An importer that never looks at an attribute cannot know what it asks for, so nothing is left out in silence: what was
not looked at, is not declared as meaningless (`ignores` beside the importer) and has not its default value makes an
error.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import TypeVar

from tinyc.base.errors import Loc, TinycError

T = TypeVar("T")


class Looked(Mapping[str, T]):
    """Things by name, such as attributes, that remembers which were asked for. To list the names is not to ask."""

    def __init__(self, items: Mapping[str, T]) -> None:
        self._items = dict(items)
        self._seen: set[str] = set()

    def __getitem__(self, name: str) -> T:
        self._seen.add(name)
        return self._items[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._items)

    def __len__(self) -> int:
        return len(self._items)

    def see(self, names: Iterable[str]) -> None:
        """Count the names as asked for: somebody else computes what they mean."""
        self._seen.update(names)

    def unseen(self) -> list[str]:
        """The names that nobody has asked for."""
        return [name for name in self._items if name not in self._seen]


def not_understood(what: str, op: str, where: Loc) -> TinycError:
    """The error for something in the file that no importer looks at; `what` it is, as the message begins."""
    return TinycError(
        f"{what}, which tinyc does not know for {op}",
        where,
        "what it asks for would be left out: export the model without it, or with an older operator set or converter",
    )
