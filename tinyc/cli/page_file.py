# SPDX-License-Identifier: Apache-2.0
"""Pages for a browser as files."""

from __future__ import annotations

from pathlib import Path

from tinyc.base.errors import Loc, TinycError
from tinyc.base.files import write_file


def page_of(folder: Path) -> Path:
    """Where the page of an output folder goes: beside it."""
    return folder.with_name(f"{folder.resolve().name}.html")


def write_page(page: str, place: Path) -> Path:
    """Writes a page; where it is. Raises TinycError if it cannot be written."""
    try:
        write_file(place, page.encode("utf-8"))
    except OSError as error:
        raise TinycError(f"the page cannot be written: {error.strerror}", Loc(str(place)), "choose -o") from error
    return place
